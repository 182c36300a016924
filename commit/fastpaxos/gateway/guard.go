package gateway

import (
	"context"
	"slices"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// Rows that have to be there when a transaction commits, such as those that foreign keys refer to, and reads that have to know what was committed before they began.
//
//	insert a child                          delete the parent
//	read the parent                         read the parent: S is the state that its option replaces
//	options: child, guard of the parent     read the children, freshly: none
//	                                        option: the parent, without a value, instead of S
//
//	fastpaxos.FP80 (I3): A guard is an option that needs its record to have a value, and changes nothing. It is judged, learned, finished and executed as a commuting update without deltas:
//	    guards and commuting updates do not exclude each other; an accepted guard excludes physical updates, and an accepted physical update excludes guards. An executed one
//	    changes the name of the record's state (Seen), though not its value. So a record is deleted only by a transaction that has read a state with all guards which were committed on it, and
//	    no guard is accepted afterwards.
//	fastpaxos.FP81 (I3): A transaction that removes a key which others may refer to reads the key's record before it looks for those, and its option replaces the state which it read then, as all do
//	    (fastpaxos.FP24). A reference whose guard is not in that state can't be committed any more if the removal is.
//	fastpaxos.FP82 (I3): A fresh read sees all transactions that had committed when it began. It asks a classic quorum: one of its replicas has executed the option of such a transaction, or has it as an accepted
//	    one, or has a later state, since any quorum by which it was learned has a replica in common with this one (also after a fold, which keeps it). The transactions of accepted options are waited for, or
//	    finished. So a reference whose guard is in the state that was read before is found.
//	fastpaxos.FP83 (I3): A transaction that removes a row has to find the references to it, or the guard of a reference has to be where the removal is
//	    judged. So a table that is referred to has this protocol if the table that refers to it has. In the other direction, a check of the leader
//	    protocol finds the references. It holds at the commit timestamp, which is after all guards in the state that is replaced (schemachange.SC12).

// guardOf is the option by which a key keeps its value.
func (x *coordinator) guardOf(k keys.Key) (core.Update, clock.Timestamp, error) {
	row, ok := x.checked[string(k)]
	if !ok || row.Value == nil {
		// It was read while the range had another protocol.
		return core.Update{}, clock.Timestamp{}, &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: x.c.o.Clock.Now()}
	}
	return core.Update{Seen: row.Seen, Guard: true}, row.Seen.Base.Forward(row.Last), nil
}

// check reads keys that have to have values at the commit. Those that have none at the nearest replica may have one that it has not heard of.
func (x *coordinator) check(ctx context.Context, t *kv.Txn, ks []keys.Key) ([]core.Row, error) {
	rows, err := x.c.read(ctx, ks)
	if err != nil {
		return nil, err
	}
	var missing []keys.Key
	for i := range rows {
		if x.fresher(&rows[i]); rows[i].Value == nil {
			missing = append(missing, rows[i].Key)
		}
	}
	more, err := x.c.fresh(ctx, t.ID, missing)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Value == nil {
			rows[i], more = more[0], more[1:]
		}
		if x.checked == nil {
			x.checked = map[string]core.Row{}
		}
		x.checked[string(rows[i].Key)] = rows[i]
	}
	return rows, nil
}

// getFresh reads keys freshly, and has later reads of the transaction see as much.
func (x *coordinator) getFresh(ctx context.Context, t *kv.Txn, ks []keys.Key) ([]core.Row, error) {
	rows, err := x.c.fresh(ctx, t.ID, ks)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		x.remember(&rows[i])
	}
	return rows, nil
}

// remember has later reads of the transaction see a row that was read freshly.
func (x *coordinator) remember(w *core.Row) {
	if x.fresh == nil {
		x.fresh = map[string]core.Row{}
	}
	x.fresh[string(w.Key)] = *w
}

// fresher replaces a row of the nearest replica by one that was read freshly, if that is of a later version.
func (x *coordinator) fresher(w *core.Row) {
	if f, ok := x.fresh[string(w.Key)]; ok && w.Before(&f) {
		*w = f
	}
}

// scanFresh is Scan of what had committed when it began.
func (x *coordinator) scanFresh(ctx context.Context, t *kv.Txn, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	q := core.Look{Span: keys.Span{Start: o.Span.Start, End: o.Span.Stop()}, Reverse: o.Reverse, Max: o.MaxRows, Bytes: o.TargetBytes}
	if q.Bytes == 0 {
		q.Bytes = freshBytes
	}
	rows, read, err := x.c.scanFresh(ctx, t.ID, q)
	if err != nil {
		return nil, nil, err
	}
	rows = slices.DeleteFunc(rows, func(w core.Row) bool { return w.Value == nil })
	if n := int(o.MaxRows); n > 0 && len(rows) > n {
		if rows = rows[:n]; o.Reverse {
			read.Start = rows[n-1].Key
		} else {
			read.End = rows[n-1].Key.Next()
		}
	}
	out := make([]kv.KeyValue, len(rows))
	for i := range rows {
		x.see(&rows[i])
		x.remember(&rows[i])
		out[i] = kv.KeyValue{Key: rows[i].Key, Value: rows[i].Value}
	}
	return out, restOf(q.Span, read, o.Reverse), nil
}
