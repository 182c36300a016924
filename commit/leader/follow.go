package leader

import (
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

// follow serves a batch of stale reads from what this replica has applied. It takes no latches and leaves no mark in
// the timestamp cache: the leaseholder writes nothing at or below what it has closed. It waits for nobody; where an
// intent is in the way, the leaseholder has to find out how its transaction ended.
func (p *Participant) follow(b *kv.Batch) (*kv.BatchResponse, error) {
	at := staleAt(b)
	q := p.o.request(p, b)
	defer p.o.putRequest(q)
	if q.traits = traitsOf(b); q.writes > 0 || q.locking || q.record || q.admin || q.push != nil || q.end != nil || at.IsZero() ||
		b.Txn != nil && at.Less(b.Txn.UncertaintyLimit) {
		return nil, &kv.InternalError{Message: "leader: only reads at a given timestamp can be stale"}
	}
	q.now = p.o.Clock.Now()
	q.first, q.at = q.now, at
	f, closed, ok := p.r.Follow(at)
	if !ok {
		p.o.Metrics.NotClosed.Add(1)
		return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed}
	}
	err := q.readView()
	if !p.r.Still(f) {
		p.o.Metrics.NotClosed.Add(1)
		return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed}
	}
	if err == nil {
		err = p.checkServed(b, at)
	}
	switch err.(type) {
	case nil:
		p.o.Metrics.FollowerReads.Add(1)
		return q.answer(nil), nil
	case *mvcc.LockConflictError:
		p.o.Metrics.FollowerConflicts.Add(1)
		return nil, &kv.NotClosedError{Range: p.r.RangeID(), Closed: closed, Intent: true}
	}
	if served := p.checkSpans(b); served != nil {
		return nil, served
	}
	return nil, err
}

// readView evaluates the reads over a view of the engine, so that an intent and the version that it becomes are never
// both missed. Nothing keeps others from applying commands meanwhile.
func (q *request) readView() error {
	snap := q.p.o.Engine.NewSnapshot()
	defer snap.Close()
	q.noLocks = false
	rd := q.p.o.reader(snap)
	q.begin()
	var err error
	for _, r := range q.b.Requests {
		var one kv.Response
		if one, err = q.evalRead(rd, r, false); err != nil {
			break
		}
		q.resp.Responses = append(q.resp.Responses, one)
	}
	if cerr := q.p.o.putReader(rd); err == nil {
		err = cerr
	}
	return err
}
