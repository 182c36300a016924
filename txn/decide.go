package txn

import (
	"context"
	"errors"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/kv"
)

// A transaction all of whose writes are in ranges of one protocol that decides by itself (protocol.Traits.Decides) has no record. Nothing of it is in ranges of the leader protocol, so no staging
// record has to say which writes belong together: the protocol does (MDCC §3.2.3).
//
//	txn.MP5 (I2, I3): A protocol decides alone only about a transaction that has no lock, no provisional write and no read to be validated in the leader's ranges.

// decider is the Coordinator that can decide the transaction, nil if none can.
func (t *Txn) decider() Coordinator {
	if !t.elsewhere() || t.core.Trigger() != nil || !t.core.BufferEmpty() || t.core.Sent() || t.core.HoldsLocks() || t.keeper.HasHeld() ||
		t.keeper.Flying() || t.keeper.Reads() {
		return nil
	}
	p := t.protocol(t.others.writes[0].Key)
	for i := range t.others.writes {
		if t.protocol(t.others.writes[i].Key) != p {
			return nil
		}
	}
	if !protocol.Of(p).Decides {
		return nil
	}
	return t.coordinator(p)
}

// decide commits by the protocol of all writes, if that can. It reports whether the commit has ended.
func (t *Txn) decide(ctx context.Context) (decided bool, err error) {
	d := t.decider()
	if d == nil {
		return false, nil
	}
	var deadline clock.Timestamp
	if t.deadline != nil || t.holder != nil {
		deadline = t.latest(ctx)
	} else {
		deadline = t.core.Deadline()
	}
	t.core.StartCommit()
	at, err := d.Decide(ctx, t.asks(), t.others.writes, deadline)
	if err == nil {
		t.core.Decided(at)
		t.finish(committed)
		t.db.metrics.OnePhaseCommits.Add(1)
		return true, t.commitWait(ctx, at)
	}
	var (
		tooOld *kv.WriteTooOldError
		retry  *kv.TxnRetryError
		late   *DeadlineError
	)
	switch {
	case errors.As(err, &late):
		return false, t.core.Fail(transaction.DeadlinePassed, err, true)
	case errors.As(err, &tooOld), errors.As(err, &retry):
		return false, t.core.Fail(transaction.ReadChanged, err, true)
	case t.handOver(err):
		return false, t.core.Fail(transaction.ProtocolChanged, err, true)
	}
	return false, t.undecided(err)
}
