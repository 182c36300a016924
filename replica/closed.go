package replica

import (
	"slices"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica/closedts"
	"meridian/replica/lease"
)

// This file has a replica's part in closed timestamps (I6, package closedts): those that it closes as the leaseholder, and those up to
// which it may serve without the lease.

// Closer tracks the leaseholder's writes.
func (r *Replica) Closer() *closedts.Tracker { return &r.closer }

// ClosedTimestamp is the timestamp up to which this replica has applied all writes that reads may see, so that it may serve them without
// the lease. It never goes back (closedts.CT4).
func (r *Replica) ClosedTimestamp() clock.Timestamp { return r.closedFor(clock.MaxTimestamp) }

// closedFor is ClosedTimestamp, but stops once it has reached at.
func (r *Replica) closedFor(at clock.Timestamp) clock.Timestamp {
	if r.isWitness() {
		return clock.Timestamp{} // it has nothing that could be read
	}
	if have := (clock.Timestamp{Wall: r.closed.Load()}); at.LessEq(have) {
		return have
	}
	if s := r.leaseNow.Load(); !s.IsZero() {
		var closed clock.Timestamp
		var index uint64
		if s.Holder.Node == r.o.Node {
			// The leaseholder has applied all that it has closed; writes in flight are above. It has promised that only if no transfer of its
			// lease has begun since (closedts.CT2).
			if s.held && !s.stale && !r.closer.Frozen() {
				closed = r.closer.Closed()
				if now := r.leaseNow.Load(); !now.held || now.revoked {
					closed = clock.Timestamp{}
				}
			}
		} else {
			closed, index = r.o.Store.HeardClosed(s.Holder.Node, r.rangeID)
		}
		if index <= r.applied0.Load() {
			r.raiseClosed(closed)
		}
	}
	return clock.Timestamp{Wall: r.closed.Load()}
}

// raiseClosed shows a closed timestamp. The counter is dropped: less is always right.
func (r *Replica) raiseClosed(to clock.Timestamp) {
	for {
		old := r.closed.Load()
		if to.Wall <= old || r.closed.CompareAndSwap(old, to.Wall) {
			return
		}
	}
}

// HeardClosed takes a promise of the side transport that is about to be replaced.
func (r *Replica) HeardClosed(p closedts.Promise) {
	if p.Index <= r.applied0.Load() && r.desc.Load() != nil {
		r.raiseClosed(p.Closed)
	}
}

// A Following is a read without the lease, from before it reads the data until it has.
type Following struct{ removals uint64 }

// Follow reports whether reads at a timestamp may be served from a view of the engine taken after the call; if not, closed is the replica's
// closed timestamp. The caller has to check Still when it has read the data.
func (r *Replica) Follow(at clock.Timestamp) (f Following, closed clock.Timestamp, ok bool) {
	f.removals = r.removals.Load()
	closed = r.closedFor(at)
	return f, closed, at.LessEq(closed) && f.removals%2 == 0 && !r.gone.Load() && r.desc.Load() != nil && !r.isWitness()
}

// Still reports whether the data was complete during the read: none was removed because the range, or a part of it, has left this replica.
func (r *Replica) Still(f Following) bool { return r.removals.Load() == f.removals && !r.gone.Load() }

// removing brackets a change that removes data that readers without the lease may still expect: call it before the change is visible in the
// engine, and the returned function when descriptor and state show it too.
func (r *Replica) removing() (done func()) {
	r.removals.Add(1)
	return func() { r.removals.Add(1) }
}

// leadSlack is how much further than a lead a lease reaches: closing comes with ticks, and heartbeats late.
const leadSlack = 100 * time.Millisecond

// Lead has the range close timestamps ahead of the node's clock, while this replica has the lease; zero: it closes the past.
func (r *Replica) Lead(by time.Duration) {
	if by != r.closer.Leads() {
		r.closer.Lead(by, r.o.Clock.Now)
	}
	if s := r.leaseNow.Load(); by > 0 && s.Kind == lease.Supported {
		now := r.o.Clock.Now()
		if r.asksAhead(s, now.Add(by+leadSlack), now) {
			_, _ = r.acquire()
		}
	}
}

// closing is the timestamp that the next proposed command closes: none, if the lease may be over (closedts.CT2).
func (r *Replica) closing() (closed clock.Timestamp) {
	if lead := r.closer.Leads(); lead != 0 {
		to := clock.Timestamp{Wall: r.o.Clock.Now().Wall + int64(lead)}
		if _, ok := r.CheckLease(to); ok {
			return r.closer.Close(to)
		}
	}
	to := clock.Timestamp{Wall: r.o.Clock.Wall().UnixNano() - int64(r.o.ClosedLag)}
	if _, ok := r.CheckLease(to); ok {
		closed = r.closer.Close(to)
	}
	return closed
}

// takeClosed begins with the timestamps that the log and the lease's start have closed, before the lease is visible (closedts.CT2).
func (r *Replica) takeClosed(s *leaseState) {
	if s.held {
		r.closer.Raise(s.Start.Forward(r.applied.closed).Forward(clock.Timestamp{Wall: r.closed.Load()}))
	}
}

// CloseIdle closes a range up to a timestamp for the side transport, if this replica has the lease and no write in flight is at
// or below it (closedts.CT2). index is the index that others have to apply before they serve it (closedts.CT3).
func (r *Replica) CloseIdle(to clock.Timestamp) (index uint64, desc *kv.RangeDescriptor, ok bool) {
	if _, held := r.CheckLease(to); !held || r.gone.Load() {
		return 0, nil, false
	}
	if r.closer.Frozen() || r.closer.Close(to).Less(to) {
		return 0, nil, false
	}
	// A transfer that began meanwhile may have told the next leaseholder of an earlier timestamp only.
	if _, held := r.CheckLease(to); !held {
		return 0, nil, false
	}
	return r.applied0.Load(), r.desc.Load(), true
}

// Peers lists the nodes that have the range's other replicas.
func (r *Replica) Peers(d *kv.RangeDescriptor) (out []kv.NodeID) {
	for _, p := range d.Replicas {
		if p.Node != r.o.Node && !slices.Contains(out, p.Node) {
			out = append(out, p.Node)
		}
	}
	return out
}
