package route

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/cluster"
	"meridian/kv"
	"meridian/transport"
)

// Stale reads: at a timestamp that the client chose, which any replica may serve that has closed it (I6).

// behind is a follower that had not closed a timestamp, and the time (monotonic) until which it gets no later reads.
type behind struct {
	node   kv.NodeID
	closed clock.Timestamp
	until  time.Duration
}

// behindFor is how long a follower that is behind gets no reads: closed timestamps come twice a second.
const behindFor = 500 * time.Millisecond

// sendNearest sends a stale batch to the nearest replica. served is false if it has to go to the leaseholder: that is the nearest, or
// nearer ones can't serve it.
func (s *Sender) sendNearest(ctx context.Context, b *kv.Batch, e *entry, st *sendState) (r *kv.BatchResponse, err error, served bool) {
	s.metrics.Stale.Add(1)
	at := readAt(b)
	asks := b.MayWait > 0
	if !asks && s.o.Clock.Wall().UnixNano()-at.Wall < int64(s.o.ClosedLag) {
		return nil, nil, false // no replica closes the present
	}
	var order []kv.NodeID
	if self := s.o.NodeID(); self != 0 && s.o.Local != nil {
		if _, here := e.desc.Replica(self); here {
			order = []kv.NodeID{self}
		}
	}
	if order == nil {
		order = s.order(e)
	}
	for _, node := range order {
		if node == e.leaseholder() || e.isBehind(node, at, s.o.Host.Clock.Monotonic()) {
			return nil, nil, false
		}
		if asks && !s.muchNearer(node, e.leaseholder()) {
			return nil, nil, false
		}
		r, err, fault := s.callElsewhere(ctx, node, b, e)
		if fault != nil {
			s.metrics.Unreachable.Add(1)
			s.o.Probes.Reached("route: nearest replica not reached")
			if ctx.Err() != nil {
				return nil, st.wrap(ctx.Err()), true
			}
			continue
		}
		if err == nil {
			s.metrics.Nearest.Add(1)
		}
		r, served, ok, err := s.answered(r, err, node, e, st, behindFor)
		if ok {
			return r, err, served
		}
		switch root(err).(type) {
		case *kv.RangeNotFoundError, *kv.NotLeaseholderError, *kv.UnavailableError:
			continue
		default:
			return r, st.wrap(err), true
		}
	}
	return nil, nil, false
}

// readAt is the timestamp of a stale batch.
func readAt(b *kv.Batch) clock.Timestamp {
	if b.Txn != nil {
		return b.Txn.ReadTimestamp
	}
	return b.Timestamp
}

// callElsewhere is call for a read that other replicas could serve as well: a node whose link is missing costs no search for a path to it.
func (s *Sender) callElsewhere(ctx context.Context, node kv.NodeID, b *kv.Batch, e *entry) (r *kv.BatchResponse, err, fault error) {
	if node != s.o.NodeID() {
		ctx = transport.Elsewhere(ctx)
	}
	return s.call(ctx, node, b, e)
}

// muchNearer reports whether a replica that has to ask the leaseholder before it can serve is worth the way: the next reads at the same time need not leave for the leaseholder.
func (s *Sender) muchNearer(node, leaseholder kv.NodeID) bool {
	if s.o.Members == nil || leaseholder == 0 {
		return false
	}
	near, _ := s.o.Members.Latency(node)
	far, ok := s.o.Members.Latency(leaseholder)
	return ok && 4*near < far
}

// answered handles what replicas answer to reads of the past and of the present alike; ok is false if it is an error that the two treat in different ways. A replica
// that had not closed the timestamp gets no later reads for a while.
func (s *Sender) answered(r *kv.BatchResponse, err error, node kv.NodeID, e *entry, st *sendState, pause time.Duration) (_ *kv.BatchResponse, served, ok bool, _ error) {
	if err == nil {
		if len(r.RangeInfos) > 0 {
			s.cache.insert(r.RangeInfos...)
			r.RangeInfos = nil
		}
		return r, true, true, nil
	}
	switch x := root(err).(type) {
	case *kv.NotClosedError:
		s.metrics.NotClosed.Add(1)
		if x.Intent {
			s.o.Probes.Reached("route: an intent sends a read at a replica to the leaseholder")
		} else {
			s.o.Probes.Reached("route: a replica has not closed a timestamp")
			e.behind.Store(&behind{node, x.Closed, s.o.Host.Clock.Monotonic() + pause})
		}
		return nil, false, true, nil
	case *kv.RangeMismatchError:
		s.metrics.Mismatches.Add(1)
		if !s.cache.insert(x.Infos...) {
			s.evict(e)
		}
		st.last = err
		return nil, true, true, errReroute
	case *kv.ProtocolError:
		s.learn(err)
		return r, true, true, st.wrap(err)
	}
	return r, false, false, err
}

func (e *entry) isBehind(n kv.NodeID, at clock.Timestamp, now time.Duration) bool {
	b := e.behind.Load()
	return b != nil && b.node == n && b.closed.Less(at) && now < b.until
}

// sharedTiers is how many tiers of its locality a node shares with this one.
func (s *Sender) sharedTiers(n kv.NodeID) int {
	m, ok := s.o.Members.(interface {
		Get(kv.NodeID) (cluster.Entry, bool)
	})
	if !ok {
		return 0
	}
	a, _ := m.Get(s.o.NodeID())
	b, _ := m.Get(n)
	i := 0
	for i < len(a.Locality) && i < len(b.Locality) && a.Locality[i] == b.Locality[i] {
		i++
	}
	return i
}
