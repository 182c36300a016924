package txn

import (
	"context"

	"meridian/commit"
	"meridian/commit/transaction"
	"meridian/kv"
)

// A commit whose answer was lost may have left a record, which knows the outcome, or from which the outcome follows as it does for others who meet the transaction
// (commit.CR4). So the client is told that nobody knows only if the record does not either.
//
//	txn.TX17 (I2): A gateway that has lost the answer to a commit takes the outcome from the record alone, and only if there is one: a transaction without a record may have
//	    committed in one range, which needs none, or removes it with the commit. A pending record says nothing, as a commit may still arrive, nor does an aborted one that the gateway has not
//	    seen staged: others who wait for a lock of a transaction that is over write one, whatever its outcome.

// concludeTries bounds the questions: a record that is staged anew in between is looked at again.
const concludeTries = 4

// concluded finds out what has become of a commit that ended with an error. The result is nil if it has committed, an error after which the transaction can be restarted if it certainly has
// not and never will, and the error itself otherwise.
func (t *Txn) concluded(ctx context.Context, err error) error {
	if !isAmbiguous(err) || ctx.Err() != nil || t.elsewhere() || t.core.Txn().Anchor == nil {
		return t.undecided(err)
	}
	db, meta := t.db, t.core.Txn().TxnMeta
	for range concludeTries {
		resp, asked := db.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.QueryTxnRequest{Txn: meta, List: true}}})
		if asked != nil {
			break
		}
		q, ok := resp.Responses[0].(*kv.QueryTxnResponse)
		if !ok || !q.Exists {
			break
		}
		status, at, staged := q.Txn.Status, q.Txn.WriteTimestamp, false
		if status == kv.Staging && len(q.InFlight) > 0 {
			r := commit.NewRecord(&q.Txn, kv.Staging)
			r.InFlight = q.InFlight
			now, asked := commit.Recover(ctx, db.o.Sender, db.finishers, r)
			if asked != nil {
				break
			}
			status, at, staged = now.Status, now.WriteTimestamp, true
		}
		switch status {
		case kv.Committed:
			db.o.Probes.Reached(ProbeConcluded)
			t.core.Implicitly(at)
			return nil
		case kv.Aborted:
			if !staged {
				return t.undecided(err)
			}
			db.o.Probes.Reached(ProbeConcludedAborted)
			return t.core.Fail(transaction.AbortedByOther, err, true)
		case kv.Pending:
			return t.undecided(err)
		}
	}
	return t.undecided(err)
}
