package leader

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// Before a range changes to another protocol its transactions are decided, and then its rows are neither read nor written, so that there is
// a highest timestamp of reads and writes.
//
//	leader.P21 (I2, I3): a range has another protocol only when no row of it has an intent, and what was read, written or prevented
//	    here before, also ahead of the clock, is at or below the floor that the change gives to the next protocol (replica.Generation). The leaseholder that has
//	    said so evaluates the change under the same lease, and serves no row in between.
//	leader.P22 (I3, I4): when the range comes back, the timestamp cache's low water is at least the floor that the other protocol has left,
//	    at every leaseholder.

// leaving says which requests wait at a participant meanwhile.
type leaving struct {
	all  bool          // reads too, not writes alone
	over chan struct{} // closed when the change was made, or given up
}

// leavingError says that a request has to wait. It never leaves the participant.
type leavingError struct{ l *leaving }

func (e *leavingError) Error() string { return "leader: the range's commit protocol is being changed" }

const (
	// settlePatience is how long the change waits for transactions with intents in the range before it ends them: what a transaction that is about to commit has sent is at its ranges by then,
	// wherever these are. One that waits for its client, or for another range that is about to change too, would keep all others waiting. Chosen by us.
	settlePatience = 50 * time.Millisecond
	// settleMax is how many locks are read together, settleAtOnce how many transactions are decided at the same time.
	settleMax    = 1000
	settleAtOnce = 64
)

// rowsRefused checks that the rows of a batch are this protocol's, and that they are served now.
func (p *Participant) rowsRefused(d *kv.RangeDescriptor, b *kv.Batch) error {
	l := p.leaving.Load()
	for _, r := range b.Requests {
		if !kv.OfRows(r) {
			continue
		}
		if d.Protocol != kv.Leader {
			return &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d}
		}
		if l != nil && (l.all && !resolves(r) || refusedWhileSettling(r)) {
			return &leavingError{l}
		}
	}
	return nil
}

// awaitLeft returns when a change of protocol was made, or given up.
func (p *Participant) awaitLeft(ctx context.Context, l *leaving) error { return p.await(ctx, l.over) }

// stay ends what is left of a change of protocol, if it is still the one that the caller knows; nil: whichever there is.
func (p *Participant) stay(l *leaving) {
	if l == nil {
		l = p.leaving.Load()
	}
	if l != nil && p.leaving.CompareAndSwap(l, nil) {
		close(l.over)
	}
}

func resolves(r kv.Request) bool {
	switch r.(type) {
	case *kv.ResolveIntentRequest, *kv.ResolveRangeRequest, *kv.ReleaseRequest:
		return true
	}
	return false
}

// refusedWhileSettling reports whether a request could leave another lock, or needs one that is about to be lost.
func refusedWhileSettling(r kv.Request) bool {
	switch r := r.(type) {
	case *kv.GetRequest:
		return r.Lock != kv.NoLock
	case *kv.ScanRequest:
		return r.Lock != kv.NoLock
	case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.DeleteRangeRequest, *kv.AddRequest, *kv.LoadRequest, *kv.ClearRequest:
		return true
	}
	return false
}

// Leave prepares the range for another protocol (leader.P21). Until back is called, the rows are not served.
func (p *Participant) Leave(ctx context.Context) (back func(), err error) {
	first := &leaving{over: make(chan struct{})}
	if !p.leaving.CompareAndSwap(nil, first) {
		return nil, &kv.UnavailableError{Reason: "the range's commit protocol is being changed"}
	}
	mine := first
	back = func() { p.stay(mine) }
	if err := p.settleRows(ctx); err != nil {
		back()
		return nil, err
	}
	last := &leaving{all: true, over: first.over}
	if !p.leaving.CompareAndSwap(first, last) {
		return nil, &kv.UnavailableError{Reason: "the lease has moved while the range's commit protocol was being changed"}
	}
	mine = last
	return back, nil
}

// settleRows decides the transactions that have locks on rows in the storage, and resolves these locks.
func (p *Participant) settleRows(ctx context.Context) error {
	begun := p.o.Host.Clock.Monotonic()
	for {
		d := p.r.Desc()
		span := keys.UserSpan(d.Start, d.End)
		rd := p.o.reader(p.o.Engine)
		locks, err := rd.Locks(span.Start, span.End, settleMax)
		if cerr := p.o.putReader(rd); err == nil {
			err = cerr
		}
		if err != nil || len(locks) == 0 {
			return err
		}
		of := map[kv.TxnID][]mvcc.Lock{}
		var order []kv.TxnID
		for _, l := range locks {
			if of[l.Txn.ID] == nil {
				order = append(order, l.Txn.ID)
			}
			of[l.Txn.ID] = append(of[l.Txn.ID], l)
		}
		for len(order) > 0 {
			now := order[:min(len(order), settleAtOnce)]
			order = order[len(now):]
			results := make(chan error, len(now))
			for _, id := range now {
				if !p.o.Host.Group.Go(func(context.Context) { results <- p.settleLocks(ctx, of[id], begun) }) {
					results <- &kv.UnavailableError{Reason: "the node is stopping"}
				}
			}
			var first error
			for range now {
				if err := <-results; err != nil && first == nil {
					first = err
				}
			}
			if first != nil {
				return first
			}
		}
	}
}

// settleLocks waits for the transaction of some locks until settlePatience has passed since begun, and then ends it. It resolves the locks.
func (p *Participant) settleLocks(ctx context.Context, locks []mvcc.Lock, begun time.Duration) error {
	l := &locks[0]
	push := func(ctx context.Context, force bool) (*kv.Txn, error) {
		p.o.Metrics.Pushes.Add(1)
		resp, err := p.o.Sender.Send(ctx, &kv.Batch{
			Header:   kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
			Requests: []kv.Request{&kv.PushTxnRequest{Pushee: l.Txn, Kind: kv.PushAbort, Key: l.Key, Force: force}},
		})
		if err != nil {
			return nil, err
		}
		push, ok := resp.Responses[0].(*kv.PushTxnResponse)
		if !ok || !commit.Final(push.Pushee.Status) {
			return nil, &kv.UnavailableError{Reason: "a transaction with writes in the range is not decided"}
		}
		return &push.Pushee, nil
	}
	var txn *kv.Txn
	err := context.DeadlineExceeded
	if left := settlePatience - (p.o.Host.Clock.Monotonic() - begun); left > 0 {
		short, cancel := p.o.Host.Clock.WithTimeout(ctx, left)
		txn, err = push(short, false)
		cancel()
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if txn, err = push(ctx, true); err != nil {
			return err
		}
	}
	b := &kv.Batch{Header: kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()}}
	for i := range locks {
		b.Requests = append(b.Requests, &kv.ResolveIntentRequest{Key: locks[i].Key, Txn: txn.TxnMeta, Status: txn.Status, IgnoredSeqs: txn.IgnoredSeqs})
	}
	_, err = p.o.Sender.Send(ctx, b)
	return err
}

// leaves adds the floor to the change of a range's protocol (leader.P21). The change has latches on all of the range, so all latched
// requests are over; plain reads have been refused since before, and one that was not refused is in the timestamp cache (leader.P1).
//
// Where the rows come back, this leaseholder takes note of the floor (leader.P22): each that gets the lease does so when it gets it, but
// this one may have it since before the fold, and may not know how the fold's last command went.
func (p *Participant) leaves(b *engine.Batch, t *kv.CommitTrigger) error {
	if t.Replicas == nil {
		return nil
	}
	if t.Replicas.Desc.Protocol == kv.Leader || p.r.Desc().Protocol != kv.Leader {
		p.raiseLow(p.floor())
		return nil
	}
	l := p.leaving.Load()
	if l == nil || !l.all {
		// A retry would not help: the change of the protocol has to prepare the range anew.
		return &kv.InternalError{Message: "leader: the range is not prepared for another commit protocol"}
	}
	r, ok := p.r.(interface {
		PutFloor(b *engine.Batch, next *kv.RangeDescriptor, floor clock.Timestamp)
	})
	if !ok {
		return &kv.InternalError{Message: "leader: the replica has no generations"}
	}
	now := p.o.Clock.Now()
	span := keys.UserSpan(p.r.Desc().Start, p.r.Desc().End)
	written, err := mvcc.Latest(p.o.Engine, span.Start, span.End, now)
	if err != nil {
		return err
	}
	served := p.low.Load().Forward(p.o.Cache.Latest()).Forward(clock.Timestamp{Wall: p.ahead.Load()})
	r.PutFloor(b, &t.Replicas.Desc, now.Forward(served).Forward(written).Forward(p.r.Closer().Closed()))
	return nil
}
