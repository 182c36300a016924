package rangeserver

import (
	"context"

	"meridian/clock"
	"meridian/cluster"
	"meridian/kv"
	"meridian/placement"
	"meridian/replica/lease"
)

// Liveness lets leases ask the cluster's liveness records.
type Liveness struct{ C *cluster.Cluster }

var _ lease.NodeLiveness = Liveness{}

// IsLive reports whether an incarnation is current and unexpired, as far as this node has heard.
func (l Liveness) IsLive(node kv.NodeID, incarnation uint64, now clock.Timestamp) bool {
	r, ok := l.C.Record(node)
	return ok && r.Incarnation == incarnation && r.Live(now)
}

// Self is this node's own record, as it wrote it.
func (l Liveness) Self() (incarnation uint64, expiration clock.Timestamp) {
	r, ok := l.C.Own()
	if !ok {
		return 0, clock.Timestamp{}
	}
	return r.Incarnation, r.Expiration
}

// Incarnation is the newest one of a node that this node has heard of.
func (l Liveness) Incarnation(node kv.NodeID) (incarnation uint64, expiration clock.Timestamp) {
	r, _ := l.C.Record(node)
	return r.Incarnation, r.Expiration
}

// IncrementIncarnation ends an expired incarnation.
func (l Liveness) IncrementIncarnation(ctx context.Context, node kv.NodeID, incarnation uint64) error {
	_, err := l.C.IncrementIncarnation(ctx, node, incarnation)
	return err
}

// Cluster is what the queues need to know of who is there; *cluster.Cluster has it.
type Cluster interface {
	Nodes() []cluster.Entry
	Record(node kv.NodeID) (cluster.Liveness, bool)
	Update(f func(*cluster.Entry))
}

// nodes is the cluster as placement sees it.
func (s *Store) nodes(now clock.Timestamp) []placement.Node {
	var out []placement.Node
	for _, e := range s.o.Cluster.Nodes() {
		if e.Node == 0 {
			continue
		}
		n := placement.Node{Node: e.Node, Store: e.Store, Locality: e.Locality, Draining: e.Draining,
			Decommissioning: e.Decommissioning, Ranges: int(e.Capacity.Ranges), Leases: int(e.Capacity.Leases)}
		if r, ok := s.o.Cluster.Record(e.Node); ok {
			n.Live = r.Live(now)
			n.Dead = !n.Live && r.Expiration.Add(deadAfter).Less(now)
			n.Draining = n.Draining || r.Draining
			n.Decommissioning = n.Decommissioning || r.Decommissioning || r.Decommissioned
			if r.Decommissioned && !n.Live {
				n.Dead = true
			}
		}
		out = append(out, n)
	}
	return out
}
