package leader

import (
	"context"

	"meridian/clock"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// Reads without the lease (I6; CRDB'20 §3.5).

// staleAt is the timestamp of a stale batch.
func staleAt(b *kv.Batch) clock.Timestamp {
	if b.Txn != nil {
		return b.Txn.ReadTimestamp
	}
	return b.Timestamp
}

// follow serves a batch of stale reads from the applied state of this replica. It takes no latches and does not enter the timestamp cache:
// the leaseholder writes nothing at or below its closed timestamp. It waits for nothing but leader.P28; if it meets an intent, the leaseholder has to find out
// the outcome of its transaction.
func (p *Participant) follow(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	at := staleAt(b)
	q := p.o.request(p, b)
	defer p.o.putRequest(q)
	if q.traits = traitsOf(b); q.writes > 0 || q.locks || q.record || q.admin || q.push != nil || q.end != nil || at.IsZero() ||
		b.Txn != nil && at.Less(b.Txn.UncertaintyLimit) {
		return nil, &kv.InternalError{Message: "leader: only reads at a given timestamp can be stale"}
	}
	q.now = p.o.Clock.Now()
	q.first.Now, q.at = q.now, at
	f, closed, ok := p.r.Follow(at)
	if !ok && p.obtain(ctx, b, at) {
		f, closed, ok = p.r.Follow(at)
	}
	if !ok {
		p.o.Metrics.NotClosed.Add(1)
		return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed}
	}
	err := q.evaluation.readView()
	if !p.r.Still(f) {
		p.o.Metrics.NotClosed.Add(1)
		return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed}
	}
	if err == nil {
		err = p.checkServed(b, at)
	}
	switch x := err.(type) {
	case nil:
		p.o.Metrics.FollowerReads.Add(1)
		return p.awaitSeen(ctx, b, q.evaluation.newest, q.answer(nil), nil)
	case *mvcc.LockConflictError:
		p.o.Metrics.FollowerConflicts.Add(1)
		for i := range x.Intents {
			closed = closed.Backward(x.Intents[i].Txn.WriteTimestamp.Prev())
		}
		return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed, Intent: true}
	}
	if served := p.checkSpans(b); served != nil {
		return nil, served
	}
	return nil, err
}

// readView evaluates the reads over a view of the engine, so that an intent and the version that it becomes are never
// both missed. Commands may be applied meanwhile.
func (ev *evaluation) readView() error {
	snap := ev.p.o.Engine.NewSnapshot()
	defer snap.Close()
	ev.noLocks = false
	rd := ev.p.o.reader(snap)
	ev.begin()
	var err error
	for _, r := range ev.b.Requests {
		var one kv.Response
		if one, err = ev.evalRead(rd, r, false); err != nil {
			break
		}
		ev.resp.Responses = append(ev.resp.Responses, one)
	}
	ev.newest = rd.Seen
	if cerr := ev.p.o.putReader(rd); err == nil {
		err = cerr
	}
	return err
}
