package cluster

import (
	"context"

	"meridian/clock"
	"meridian/kv"
)

// LeaseView is a Cluster as leases of ranges ask it; it is replica/lease's NodeLiveness.
type LeaseView struct{ c *Cluster }

// Leases returns the view.
func (c *Cluster) Leases() LeaseView { return LeaseView{c} }

// IsLive reports whether a node's incarnation is current and unexpired, as far as this node knows. False may be old
// news; IncrementIncarnation finds out.
func (v LeaseView) IsLive(node kv.NodeID, incarnation uint64, now clock.Timestamp) bool {
	l, ok := v.c.Record(node)
	return ok && l.Incarnation == incarnation && l.Live(now)
}

// Self is this node's incarnation and the expiration that is known to be written (cluster.L3: stop the maximum offset before
// it); zero until the first heartbeat. It takes no lock.
func (v LeaseView) Self() (incarnation uint64, expiration clock.Timestamp) {
	l := v.c.own.Load()
	if l == nil {
		return 0, clock.Timestamp{}
	}
	return l.record.Incarnation, l.record.Expiration
}

// Incarnation is the latest known incarnation of a node and its expiration; zero if no record is known.
func (v LeaseView) Incarnation(node kv.NodeID) (incarnation uint64, expiration clock.Timestamp) {
	l, _ := v.c.Record(node)
	return l.Incarnation, l.Expiration
}

// IncrementIncarnation ends an expired incarnation for good; nil also if somebody else did (cluster.L2).
func (v LeaseView) IncrementIncarnation(ctx context.Context, node kv.NodeID, incarnation uint64) error {
	_, err := v.c.IncrementIncarnation(ctx, node, incarnation)
	return err
}
