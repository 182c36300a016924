package txn

import (
	"context"
	"errors"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/kv"
)

// Isolation over ranges of several protocols, for those that give levels above READ COMMITTED in their ranges (Coordinator.Hold).
//
//	txn.MP8 (I3): All reads of a transaction above READ COMMITTED are of one timestamp, in ranges of all such protocols. When it moves, because a version in
//	    any of them may have been written before the transaction began, what was read in all of them is refreshed: the leader's when it moves, the others' at the next read there, and before the commit.
//	txn.MP9 (I3): A serializable transaction that has read in ranges of such a protocol, and writes none there, commits at a timestamp up to which these reads were
//	    validated, or not at all. Where it writes, the protocol validates them at the commit timestamp before it makes a write provisional.

// movedElsewhere takes the error of a read in a range of another protocol than the leader's. It reports whether the read is to be made again, at a later timestamp.
func (t *Txn) movedElsewhere(ctx context.Context, p kv.Protocol, err *error) bool {
	if protocol.Leased(p) {
		return false // done
	}
	var uncertain *kv.UncertaintyError
	if !errors.As(*err, &uncertain) {
		*err = t.failedElsewhere(*err)
		return false
	}
	*err = t.keeper.Uncertain(ctx, *err)
	return *err == nil
}

// failedElsewhere is what an error of a Coordinator means for the transaction: reads that do not hold, or can't be made any more, may be right in another attempt.
func (t *Txn) failedElsewhere(err error) error {
	var retry *kv.TxnRetryError
	if errors.As(err, &retry) {
		return t.core.Fail(transaction.ReadChanged, err, false)
	}
	return err
}

// holdElsewhere validates what was read in ranges of other protocols, when the commit begins and it is known which of them have writes (txn.MP8, txn.MP9).
func (t *Txn) holdElsewhere(ctx context.Context) error {
	if t.others == nil {
		return nil
	}
	t.others.until = clock.Timestamp{}
	for i := range t.others.coordinators {
		c := &t.others.coordinators[i]
		if !c.Reads() {
			continue
		}
		x := t.asks()
		at := x.ReadTimestamp
		if x.Isolation == kv.Serializable && !t.core.ReadOnly() && !t.others.writesTo(c.protocol) {
			at = t.db.o.Clock.Now().Forward(x.WriteTimestamp)
			t.others.until = at
		}
		if err := c.Hold(ctx, x, at); err != nil {
			return t.failedElsewhere(err)
		}
	}
	return nil
}

func (o *others) writesTo(p kv.Protocol) bool {
	for i := range o.writes {
		if o.protocol(o.writes[i].Key) == p {
			return true
		}
	}
	return false
}

// boundElsewhere is a deadline that keeps to what holdElsewhere has validated.
func (t *Txn) boundElsewhere(d clock.Timestamp) clock.Timestamp {
	if t.others == nil || t.others.until.IsZero() || !d.IsZero() && d.Less(t.others.until) {
		return d
	}
	return t.others.until
}
