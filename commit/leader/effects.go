package leader

import (
	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/lock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// effects is the stage after the command was applied: the batch's changes of the range's state in memory, which the evaluation has listed.
type effects struct {
	*call
	acquired  []acquired
	lockedAt  clock.Timestamp   // of a batch with Header.Hold
	records   []*commit.Record  // changed
	committed [1]replica.Commit // room for the one of these that is nearly always the only one
	finalized *commit.Record    // ended, and has left intents here
	released  []released
	marks     []kv.TxnID // whose record was written
	drawing   *drawing   // numbers were drawn
}

type acquired struct {
	key      keys.Key
	strength kv.LockStrength
}

type released struct {
	span   keys.Span
	txn    kv.TxnMeta
	status kv.Status
}

// reset drops the list of an evaluation that is repeated.
func (fx *effects) reset() {
	fx.finalized, fx.drawing = nil, nil
	fx.acquired, fx.records, fx.released, fx.marks = fx.acquired[:0], fx.records[:0], fx.released[:0], fx.marks[:0]
}

// commits are the transactions that the command commits (replica.R13).
func (fx *effects) commits() []replica.Commit {
	l := fx.committed[:0]
	for _, r := range fx.records {
		if r.Status == kv.Committed {
			l = append(l, replica.Commit{ID: r.ID, At: r.WriteTimestamp})
		}
	}
	return l
}

// apply changes the range's memory after the batch has become durable. Latches are still held.
func (fx *effects) apply(g *lock.Guard, resp *kv.BatchResponse) {
	t := fx.p.locks
	if fx.txn != nil {
		for _, a := range fx.acquired {
			if fx.b.Hold {
				fx.lockedAt = t.Keep(g, a.key, &fx.txn.TxnMeta, a.strength, fx.now)
			} else {
				t.Acquire(g, a.key, &fx.txn.TxnMeta, a.strength)
			}
		}
	}
	if r := fx.finalized; r != nil {
		t.Finalized(r.ID, r.Status)
	}
	fx.releaseLocks()
	fx.mark()
	if d := fx.drawing; d != nil {
		fx.p.counters.set(d.key, d.drawn)
	}
	for _, r := range fx.records {
		fx.p.waits.changed(r)
		if r.Status == kv.Committed {
			fx.p.writers.note(&r.TxnMeta)
		}
	}
	if n := len(resp.Responses); fx.end != nil && n > 0 {
		if e, ok := resp.Responses[n-1].(*kv.EndTxnResponse); ok {
			if e.OnePhase {
				fx.p.o.Metrics.OnePhaseCommits.Add(1)
			}
			if fx.end.Commit && fx.writes > 0 && !e.Staged {
				fx.p.o.Cache.Mark(fx.txn.ID, fx.txn.WriteTimestamp, true) // leader.P5
			}
		}
	}
}

// mark notes the transactions whose records were written (leader.P5).
func (fx *effects) mark() {
	for _, id := range fx.marks {
		fx.p.o.Cache.Mark(id, fx.now, false)
	}
	if len(fx.marks) > 0 {
		fx.p.sweepLater()
	}
}

func (fx *effects) releaseLocks() {
	t := fx.p.locks
	for i := range fx.released {
		r := &fx.released[i]
		if r.status == kv.Committed || r.status == kv.Aborted {
			t.ReleaseSpan(r.span, r.txn.ID)
		} else {
			t.MovedSpan(r.span, r.txn.ID, r.txn.WriteTimestamp)
		}
	}
}
