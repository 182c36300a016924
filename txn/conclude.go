package txn

import (
	"context"

	"meridian/commit"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// A commit whose answer was lost may have left a record, which knows the outcome, or from which the outcome follows as it does for others who meet the transaction
// (commit.CR4). A commit in one range leaves none, and others remove it with the commit; of these the range's replicas remember the last ones (replica.R13). So the client is told that nobody knows
// only if neither can tell.
//
//	txn.TX17 (I2): A gateway that has lost the answer to a commit takes it for committed if a record says so, or the range remembers it. It takes it for one that will never be only if its record
//	    was found to be staged, and a write is missing; or if the record is aborted, so that no commit that still arrives can change it, and the range, which remembers all that could have been its commit
//	    before, has none. An aborted record alone says nothing, since others who wait for a lock of a transaction that is over write one, whatever its outcome. A gateway that finds no
//	    record writes such a one itself, and then asks again. All this is asked where the commit has its record, or would have it, which is not the transaction's anchor if that is in another range than
//	    all of its writes (CommitAnchor).

// concludeTries bounds the questions: a record that is staged anew in between is looked at again.
const concludeTries = 4

// concluded finds out what has become of a commit that ended with an error. The result is nil if it has committed, an error after which the transaction can be restarted if it certainly has
// not and never will, and the error itself otherwise.
func (t *Txn) concluded(ctx context.Context, anchor keys.Key, err error) error {
	db, meta := t.db, t.core.Txn().TxnMeta
	if meta.Anchor = anchor; !isAmbiguous(err) || ctx.Err() != nil || t.elsewhere() || meta.Anchor == nil {
		return t.undecided(err)
	}
	for range concludeTries {
		resp, asked := db.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.QueryTxnRequest{Txn: meta, List: true}}})
		if asked != nil {
			break
		}
		q, ok := resp.Responses[0].(*kv.QueryTxnResponse)
		if !ok {
			break
		}
		status, at := q.Txn.Status, q.Txn.WriteTimestamp
		never := status == kv.Aborted && q.Remembers
		switch {
		case !q.Committed.IsZero():
			db.o.Probes.Reached(ProbeRemembered)
			t.core.Ended(&kv.EndTxnResponse{OnePhase: true, CommitTimestamp: q.Committed, Unresolved: t.core.EndTxn().LockSpans}) // what is left are locks in memory
			return nil
		case q.Exists && status == kv.Staging && len(q.InFlight) > 0:
			r := commit.NewRecord(&q.Txn, kv.Staging)
			r.InFlight = q.InFlight
			now, asked := commit.Recover(ctx, db.o.Sender, db.finishers, r)
			if asked != nil {
				return t.undecided(err)
			}
			status, at, never = now.Status, now.WriteTimestamp, now.Status == kv.Aborted
		case !q.Exists || status == kv.Pending:
			if !q.Remembers {
				return t.undecided(err)
			}
			if _, asked := db.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTouch, Force: true}}}); asked != nil {
				return t.undecided(err)
			}
			continue
		}
		switch {
		case status == kv.Committed:
			db.o.Probes.Reached(ProbeConcluded)
			t.core.Implicitly(at)
			return nil
		case never:
			db.o.Probes.Reached(ProbeConcludedAborted)
			return t.core.Fail(transaction.AbortedByOther, err, true)
		case status == kv.Aborted:
			return t.undecided(err)
		}
	}
	return t.undecided(err)
}
