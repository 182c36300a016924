package leader

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/latch"
	"meridian/keys"
	"meridian/kv"
)

// A range that is about to be absorbed by its left neighbour is frozen: it serves nothing, so that its state stays as it was reported to
// the neighbour.
//
//	leader.P8 (I3, I5): from the answer to a Subsume on, no leaseholder of the range serves anything until the merge's
//	    transaction has ended without a commit. The one that answered knows of it. Each later one finds the transaction's intent, which
//	    removes the range's descriptor, before it serves its first request; the intent can't be resolved before the transaction ends, and
//	    its outcome does not change.
//	leader.P9 (I3, I4, I6): all requests served before that, at whatever timestamp, were at or below the freeze; so was the closed
//	    timestamp. The neighbour's leaseholder writes above it.
//
// Requests wait at the frozen range, outside of all queues. The range asks for the outcome by pushing the transaction,
// which ends it if its coordinator is dead.

// closing is the reason why a participant serves nothing.
type closing struct {
	err error
	// thawed is closed when a freeze ends; nil: it never ends.
	thawed chan struct{}
	txn    kv.TxnID // of the merge
	told   *kv.SubsumeResponse
	merged bool // the merge has committed
}

// frozenError makes a request wait for the end of the freeze. It never leaves the participant.
type frozenError struct{ c *closing }

func (*frozenError) Error() string { return "leader: the range is being merged" }

// freezePause is how long the range waits before it asks again for the outcome of its merge, if it got no answer.
const freezePause = 100 * time.Millisecond

// mergedPause is how often a range that was absorbed asks again, for as long as its replica is still here.
const mergedPause = time.Second

// sendSubsume freezes the range. It latches all of it, so no request is in progress then; a request whose outcome its
// client does not know keeps its latches until the range knows (leader.P7).
func (q *request) sendSubsume(ctx context.Context) (*kv.BatchResponse, error) {
	p, r := q.p, q.subsume
	for {
		q.clockIn()
		gen, _, err := p.enter(ctx, q.now)
		if err != nil {
			return nil, err
		}
		told, err := q.subsumeOnce(ctx, r)
		p.gate.leave(gen)
		if err == errAgain {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &kv.BatchResponse{Now: p.o.Clock.Now(), Responses: []kv.Response{told}}, nil
	}
}

func (q *request) subsumeOnce(ctx context.Context, r *kv.SubsumeRequest) (told *kv.SubsumeResponse, err error) {
	p, d := q.p, q.p.r.Desc()
	if d == nil || !d.Start.Equal(r.Key) {
		return nil, &kv.InternalError{Message: "leader: no range begins where one is to be subsumed"}
	}
	q.latching.latches = append(q.latching.inline[:0], latch.Latch{Span: d.Span(), Mode: latch.Write},
		latch.Latch{Span: keys.RangeLocalSpan(d.Start, d.End), Mode: latch.Write})
	if q.latching.held, err = p.latches.Acquire(ctx, q.latching.latches); err != nil {
		return nil, err
	}
	defer p.latches.Release(q.latching.held)
	if _, ok := p.r.CheckLease(q.now); !ok || p.r.Desc() != d {
		return nil, errAgain
	}
	if err := p.closedErr(); err != nil {
		return nil, err
	}
	rd := p.o.reader(p.o.Engine)
	l, err := rd.Removal(keys.RangeDescriptorKey(d.Start))
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	if l == nil || l.Txn.ID != r.Txn.ID { // or the intent of an earlier merge at the same key
		return nil, &kv.InternalError{Message: "leader: subsume without the intent that announces it"}
	}
	c := &closing{thawed: make(chan struct{}), txn: r.Txn.ID, told: &kv.SubsumeResponse{Desc: *d}}
	c.err = &frozenError{c}
	if !p.closed.CompareAndSwap(nil, c) {
		return nil, errAgain
	}
	// In this order (leader.P9): a read that does not find the freeze has entered the timestamp cache before.
	c.told.Freeze = p.o.Clock.Now().Forward(p.r.Closer().Freeze(true)).Forward(*p.low.Load()).Forward(p.o.Cache.Latest())
	c.told.Applied = p.r.AppliedIndex()
	p.o.Metrics.Freezes.Add(1)
	p.watch(c, r.Txn, d)
	return c.told, nil
}

// findFreeze freezes the range if it is being merged, and unfreezes it otherwise, on a replica that has just got the lease (leader.P8). If
// it was frozen before, for the same merge, it stays so without a break: waiting requests could otherwise be served under the lease that is
// still visible, which may be this replica's own, of another kind.
func (p *Participant) findFreeze() {
	d := p.r.Desc()
	if d == nil || p.r.Stats().IntentCount == 0 {
		p.thaw(nil)
		return
	}
	rd := p.o.reader(p.o.Engine)
	l, err := rd.Removal(keys.RangeDescriptorKey(d.Start))
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err == nil && l == nil {
		p.thaw(nil)
		return
	}
	c := &closing{thawed: make(chan struct{})}
	c.err = &frozenError{c}
	if err != nil {
		c.err = err // the engine has failed: no other operation will work either
	} else {
		c.txn = l.Txn.ID
	}
	for {
		old := p.closed.Load()
		if old != nil && (old.thawed == nil || err == nil && old.txn == c.txn) {
			return
		}
		if p.closed.CompareAndSwap(old, c) {
			if old != nil {
				close(old.thawed)
			}
			break
		}
	}
	p.r.Closer().Freeze(true)
	p.o.Metrics.Freezes.Add(1)
	if err == nil {
		p.watch(c, l.Txn, d)
	}
}

// thaw ends a freeze, if there is one: any, or only the given one.
func (p *Participant) thaw(only *closing) {
	c := p.closed.Load()
	if c == nil || c.thawed == nil || only != nil && c != only {
		return
	}
	if p.closed.CompareAndSwap(c, nil) {
		p.r.Closer().Freeze(false)
		close(c.thawed)
	}
}

// watch ends a freeze when the merge's transaction has ended.
func (p *Participant) watch(c *closing, txn kv.TxnMeta, d *kv.RangeDescriptor) {
	started := p.o.Host.Group.Go(func(ctx context.Context) {
		for p.closed.Load() == c {
			merged, known := p.merged(ctx, txn, d)
			switch {
			case !known:
				if p.o.Host.Clock.Sleep(ctx, freezePause) != nil {
					return
				}
			case merged:
				// The replica is removed when the neighbour's log reaches the merge; waiting requests are served there already. Until then
				// they get an error.
				next := &closing{err: &kv.RangeNotFoundError{Range: d.ID}, thawed: make(chan struct{}), txn: c.txn, told: c.told, merged: true}
				if !p.closed.CompareAndSwap(c, next) {
					return
				}
				close(c.thawed)
				if c = next; p.o.Host.Clock.Sleep(ctx, mergedPause) != nil {
					return
				}
			default:
				p.thaw(c)
			}
		}
	})
	if !started {
		p.thaw(c) // the node stops
	}
}

// Merged reports whether the range has been absorbed, as its leaseholder has found out: the replica is about to be removed, by the left
// neighbour's log or without it.
func (p *Participant) Merged() bool {
	c := p.closed.Load()
	return c != nil && c.merged
}

// merged finds out the outcome of a merge. Its record has it, as long as it exists. After the record was removed the transaction looks
// aborted, even if it has committed; but then all of its intents were resolved first (commit.CR1), and the range's entry in the index shows
// the outcome:
//
//   - the merge has written it, at its commit or above w, the timestamp of its intents here
//   - the range's present entry was written below w, because the merge removes the range's descriptor above that
//   - no other transaction writes it meanwhile: a change of a range has its record there, and this one is frozen
//
// So the merge has committed if and only if there was a version at or above w. The read ignores intents (kv.Peek): it could not wait for
// those whose records are in the frozen range.
func (p *Participant) merged(ctx context.Context, txn kv.TxnMeta, d *kv.RangeDescriptor) (merged, known bool) {
	head := kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()}
	resp, err := p.o.Sender.Send(ctx, &kv.Batch{Header: head, Requests: []kv.Request{
		&kv.PushTxnRequest{Pushee: txn, Kind: kv.PushAbort}}})
	if err != nil || len(resp.Responses) != 1 {
		return false, false
	}
	push, ok := resp.Responses[0].(*kv.PushTxnResponse)
	if !ok || !commit.Final(push.Pushee.Status) {
		return false, false
	}
	if push.Pushee.Status == kv.Committed {
		p.o.Host.Log.Debug("frozen range: its merge has committed", "range", uint64(d.ID), "txn", txn.ID)
		return true, true
	}
	p.o.Clock.Forward(resp.Now) // the removal of the record was not later, so the leaseholder of the index by now serves
	head.Now, head.WaitPolicy = p.o.Clock.Now(), kv.Peek
	key := keys.RangeMetaKey(d.End)
	resp, err = p.o.Sender.Send(ctx, &kv.Batch{Header: head, Requests: []kv.Request{&kv.ScanRequest{Start: key, End: key.Next()}}})
	if err != nil || len(resp.Responses) != 1 {
		return false, false
	}
	scan, ok := resp.Responses[0].(*kv.ScanResponse)
	if !ok || len(scan.Rows) > 1 {
		return false, false
	}
	var now kv.RangeDescriptor
	if len(scan.Rows) == 0 {
		// The merge's version, or that of a later merge, is garbage by now; or the range got its end by a change whose intent is still
		// there. In the index, a version that is no removal is never garbage.
		merged = true
		for i := range scan.Provisional {
			if v := scan.Provisional[i].Value; len(v) > 0 {
				if now, err = kv.DecodeRangeDescriptor(v); err != nil {
					return false, false
				}
				merged = merged && (now.ID != d.ID || now.Generation != d.Generation)
			}
		}
	} else if !scan.Rows[0].Timestamp.Less(txn.WriteTimestamp) {
		merged = true
		if v := scan.Rows[0].Value; len(v) > 0 {
			if now, err = kv.DecodeRangeDescriptor(v); err != nil {
				return false, false
			}
			merged = now.ID != d.ID // otherwise its leaseholder has unfrozen it, and it continued
		}
	}
	p.o.Host.Log.Debug("frozen range: its merge is over", "range", uint64(d.ID), "txn", txn.ID, "merged", merged)
	return merged, true
}

// Absorb takes the state of the right neighbour, which served nothing after freeze (leader.P9). The participant's range does not have the
// neighbour's keys yet.
func (p *Participant) Absorb(desc *kv.RangeDescriptor, given any, freeze clock.Timestamp) {
	p.raiseLow(freeze)
	p.held.reset()
	p.dead.reset(false)
	if h, ok := given.(*handoff); ok && h != nil && h.holds != 0 && p.holds != 0 {
		p.locks.Join(h.locks)
	} else {
		p.locks.Lose(freeze.Forward(p.o.Clock.Now())) // the right side's locks are on another node
	}
}
