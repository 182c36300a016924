package rangeserver

import (
	"meridian/clock"
	"meridian/cluster"
	"meridian/kv"
	"meridian/placement"
	"meridian/setting"
)

// Cluster is the queues' view of membership; *cluster.Cluster implements it.
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
		n := placement.Node{Node: e.Node, Store: e.Store, Locality: e.Locality, Attributes: e.Attributes, Draining: e.Draining,
			Decommissioning: e.Decommissioning, Slow: e.Slow, Ranges: int(e.Capacity.Ranges), Leases: int(e.Capacity.Leases),
			Bytes: int64(e.Capacity.UsedBytes), Requests: e.Capacity.QueriesPerSecond, Writes: e.Capacity.WritesPerSecond}
		if r, ok := s.o.Cluster.Record(e.Node); ok {
			// A record of the node's earlier process is no sign of life of this one, nor does it say that this one drains.
			_, beats := s.o.Liveness.Process(e.Node)
			n.Live = beats && r.Live(now)
			n.Dead = s.dead(r, now)
			n.Draining = n.Draining || beats && r.Draining
			n.Decommissioning = n.Decommissioning || r.Decommissioning || r.Decommissioned
			n.Gone = r.Decommissioned
			n.Dead = n.Dead || n.Gone && !n.Live
		}
		out = append(out, n)
	}
	return out
}

// dead reports whether a node has not been live for so long that its replicas are to be rebuilt on other nodes. While the cluster setting
// for that time is not known, no node is dead.
func (s *Store) dead(r cluster.Liveness, now clock.Timestamp) bool {
	return !r.Live(now) && s.o.Settings.Known() && r.Expiration.Add(s.o.Settings.Duration(setting.TimeUntilStoreDead)).Less(now)
}
