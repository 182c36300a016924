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

// Process is what this node has heard of a node's latest process: when it started, by that node's clock, and whether the latest known record
// may be one that it has written. The present process writes no record before that of the earlier one has expired (cluster.L2), so a record
// that ends sooner than the first one of this process could is the earlier one's.
func (v LeaseView) Process(node kv.NodeID) (started clock.Timestamp, beats bool) {
	e, ok := v.c.entry(node)
	if !ok || e.StartedAt.UnixNano() <= 0 {
		return clock.Timestamp{}, true
	}
	started = clock.Timestamp{Wall: e.StartedAt.UnixNano()}
	l, ok := v.c.Record(node)
	return started, !ok || !l.Expiration.Less(started.Add(v.c.o.Expiration))
}

// IncrementIncarnation ends an expired incarnation for good; nil also if somebody else did (cluster.L2).
func (v LeaseView) IncrementIncarnation(ctx context.Context, node kv.NodeID, incarnation uint64) error {
	_, err := v.c.IncrementIncarnation(ctx, node, incarnation)
	return err
}
