package leader

import (
	"context"

	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// sendWrite takes a batch that writes or locks through its stages (doc.go): lease, latches, locks,
// evaluation, replication, effects in memory.
func (q *request) sendWrite(ctx context.Context) error {
	p := q.p
	var refused []keys.Key // of a load
	for {
		q.clockIn()
		gen, _, err := p.enter(ctx, q.servesAt())
		if err != nil {
			return err
		}
		p.serves(q.servesAt(), q.now)
		again, err := q.attempt(ctx)
		p.gate.leave(gen)
		if err != nil {
			return err
		}
		if !again {
			if len(refused) > 0 {
				l := q.evaluation.resp.Responses[0].(*kv.LoadResponse)
				l.Refused = append(l.Refused, refused...)
			}
			return nil
		}
		if q.locking.unsettled != nil {
			if err := q.settleIntents(ctx); err != nil {
				return err
			}
			continue
		}
		if q.choice.again {
			continue
		}
		if q.shares() {
			if refused, err = q.loadApart(ctx, refused); err != nil {
				return err
			}
			continue
		}
		if !q.locking.early.IsZero() {
			if err := q.locking.awaitGrant(ctx); err != nil {
				return err
			}
			continue
		}
		if err := q.locking.blocked(ctx); err != nil {
			return err
		}
	}
}

// attempt runs the stages from latches to effects once. With again, the batch has to wait for a lock first. A batch that is only started
// never waits here.
func (q *request) attempt(ctx context.Context) (again bool, err error) {
	if q.end != nil && q.b.Requests[len(q.b.Requests)-1] != kv.Request(q.end) {
		return false, &kv.InternalError{Message: "leader: EndTxn has to be the last of its batch"}
	}
	if q.record {
		if err := q.evaluation.narrow(); err != nil {
			return false, err
		}
	}
	started := q.proposal.starts != nil
	q.latching.held = nil
	if err := q.choose(); err != nil {
		return false, err
	}
	if q.latching.held == nil {
		q.latching.declare()
		if ok, err := q.latching.acquire(ctx, !started); !ok || err != nil {
			return err == nil, err
		}
	}
	keep := false // the proposal releases the latches
	defer func() {
		if !keep {
			q.latching.letGo()
		}
	}()
	if ok, err := q.latching.check(q.servesAt()); !ok || err != nil {
		return err == nil, err
	}
	if q.writes > 0 {
		if err := q.latching.track(); err != nil {
			return false, err
		}
	}
	if waits, err := q.locking.inTheWay(started); waits || err != nil {
		return waits, err
	}
	if err := q.evaluation.evaluate(); err != nil {
		switch err.(type) {
		case *kv.ConditionFailedError, *kv.AddOverflowError:
			q.told = true
		}
		if q.told && !q.covered() {
			q.evaluation.discard()
			return true, nil
		}
		again, err = q.refused(err)
		q.evaluation.discard()
		return again, err
	}
	if !q.covered() {
		q.evaluation.discard()
		return true, nil
	}
	if q.choice.short(q.evaluation.room.keys) {
		q.evaluation.discard()
		return true, nil
	}
	if waits, err := q.locking.taken(q.effects.acquired); waits || err != nil {
		q.evaluation.discard()
		return waits, err
	}
	if !q.locking.early.IsZero() {
		q.evaluation.discard()
		if q.b.WaitPolicy == kv.NoWait {
			return false, q.locking.notAvailable(q.effects.acquired[0].key, kv.TxnID{})
		}
		return true, nil
	}
	keep, err = q.proposal.propose(ctx)
	return false, err
}

// covered reports whether the lease covers the timestamp to which the evaluation has moved the batch's reads, which may lie in the future, and
// notes that for the next leaseholder (leader.P4).
func (q *request) covered() bool {
	at := q.servesAt()
	if at.LessEq(q.now) {
		return true
	}
	q.p.serves(at, q.now)
	sequence, ok := q.p.r.CheckLease(at)
	return ok && sequence == q.latching.lease
}

// refused handles an evaluation that failed: with again, the batch is repeated, after it has waited.
func (q *request) refused(err error) (again bool, _ error) {
	switch e := err.(type) {
	case *mvcc.LockConflictError:
		if _, clears := q.b.Requests[0].(*kv.ClearRequest); clears {
			q.locking.unsettled = e.Intents
			return true, nil
		}
		if q.proposal.starts != nil {
			return true, nil
		}
		err = q.locking.conflicts(e)
		return err == nil, err
	case *kv.WriteTooOldError:
		q.locking.keepTurn(e)
	}
	if err == mvcc.ErrNotInPlace {
		q.latching.exclusive = true
		return true, nil
	}
	return false, err
}
