package route

import (
	"context"
	"time"

	"meridian/kv"
)

// Reads of the present that need not go to the leaseholder (CRDB'22 §6.2): the ranges of GLOBAL tables close timestamps ahead of the clock, and each
// of their replicas can serve a transaction whose whole uncertainty interval it has closed.
//
//	route.RO6: A gateway knows from the last answer of a range's leaseholder whether the range closes the future. The knowledge may be wrong: a
//	    replica that has not closed enough says so, and then, and always else, the leaseholder is asked, which tells anew.

const (
	// laggingFor is how long a replica that had not closed the present gets no reads of the present; it gets timestamps more often.
	laggingFor = 100 * time.Millisecond
	// waitMost bounds how long a replica may let a read wait, however far the leaseholder is.
	waitMost = 300 * time.Millisecond
)

// sendPresent sends a batch of a transaction's plain reads to the nearest replica. served is false if it has to go to the leaseholder.
func (s *Sender) sendPresent(ctx context.Context, b *kv.Batch, e *entry, st *sendState) (r *kv.BatchResponse, err error, served bool) {
	if !e.leads.Load() || b.Txn == nil {
		return nil, nil, false
	}
	at := b.Txn.ReadTimestamp
	if s.o.Clock.Interval().Latest.Less(at) {
		return nil, nil, false // a transaction of the future, which no replica is likely to have closed
	}
	node := s.nearestOf(e)
	if node == 0 || node == e.leaseholder() || e.isBehind(node, at, s.o.Host.Clock.Monotonic()) {
		return nil, nil, false
	}
	s.metrics.Present.Add(1)
	b.MayWait = s.patienceWith(node, e.leaseholder())
	r, err, fault := s.callElsewhere(ctx, node, b, e)
	if fault != nil {
		s.metrics.Unreachable.Add(1)
		if ctx.Err() != nil {
			return nil, st.wrap(ctx.Err()), true
		}
		e.behind.Store(&behind{node, b.Now, s.o.Host.Clock.Monotonic() + behindFor})
		return nil, nil, false
	}
	if err == nil {
		s.metrics.PresentServed.Add(1)
	}
	r, served, ok, err := s.answered(r, err, node, e, st, laggingFor)
	if ok {
		return r, err, served
	}
	switch root(err).(type) {
	case *kv.UncertaintyError, *kv.RefreshFailedError, *kv.BelowGCError, *kv.AnswerTooLargeError:
		return r, st.wrap(err), true
	}
	return nil, nil, false
}

// nearestOf is the node with the replica that answers soonest: this one, or by latency.
func (s *Sender) nearestOf(e *entry) kv.NodeID {
	if self := s.o.NodeID(); self != 0 && s.o.Local != nil {
		if _, here := e.desc.Replica(self); here {
			return self
		}
	}
	if order := s.order(e); len(order) > 0 {
		return order[0]
	}
	return 0
}

// patienceWith is how long a read is better off waiting at a replica than going to the leaseholder.
func (s *Sender) patienceWith(node, leaseholder kv.NodeID) time.Duration {
	if s.o.Members == nil {
		return 0
	}
	near, _ := s.o.Members.Latency(node)
	far, _ := s.o.Members.Latency(leaseholder)
	return min(max(far-near, 0), waitMost)
}
