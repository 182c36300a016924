package gateway

import (
	"context"
	"slices"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// The states by which a statement that changes rows decides, at the default level.
//
//	the row that was read        at the commit, or the statement's end
//	is written                   its option names the state that was read: one round, and the replicas judge (fastpaxos.FP24)
//	is not written               read freshly, and compared: it was not found, or did not match, or was the reason of an error
//	was found by a scan          it was read freshly in the first place
//
//	fastpaxos.FP84 (read committed): A statement that changes rows decides by states that are as new as what had committed when it began. Spans are read freshly (fastpaxos.FP82). A row that is read by its
//	    key is read at the nearest replica; if the transaction does not write it, it is read freshly before the statement ends, and the statement runs again if it has another value. If the transaction writes it,
//	    its option is accepted only in the state that was read, which no commit has replaced then.

// confirmLater notes a row that the running statement decides by, before the transaction remembers it. Of several values that it has read the first one counts: one of them is not the present one.
func (x *coordinator) confirmLater(w *core.Row) {
	k := string(w.Key)
	if _, ok := x.unconfirmed[k]; ok {
		return
	}
	if x.unconfirmed == nil {
		x.unconfirmed = map[string]unconfirmed{}
	}
	_, seen := x.seen[k]
	x.unconfirmed[k] = unconfirmed{w.Value, !seen}
}

// Confirm implements txn.Coordinator (fastpaxos.FP84).
func (x *coordinator) Confirm(ctx context.Context, t *kv.Txn, written func(keys.Key) bool) error {
	of := x.unconfirmed
	if len(of) == 0 {
		return nil
	}
	x.unconfirmed = nil
	var ks []keys.Key
	for k := range of {
		if !written(keys.Key(k)) {
			ks = append(ks, keys.Key(k))
		}
	}
	if len(ks) == 0 || ofSnapshot(t) {
		return nil
	}
	slices.SortFunc(ks, keys.Key.Compare)
	defer x.works()()
	err := x.confirm(ctx, t, ks, func(k keys.Key) []byte { return of[string(k)].value })
	if err != nil {
		// The next attempt of the statement reads again. A state that an earlier statement has read stays the one that the option replaces (fastpaxos.FP24).
		for k, u := range of {
			if u.first {
				delete(x.seen, k)
			}
		}
	}
	return err
}

// confirm reads keys freshly, and fails if one of them has another value than was read; then later reads of the transaction see these.
func (x *coordinator) confirm(ctx context.Context, t *kv.Txn, ks []keys.Key, value func(keys.Key) []byte) error {
	rows, err := x.c.fresh(ctx, t.ID, ks)
	if err != nil {
		return err
	}
	var changed bool
	for i := range rows {
		x.remember(&rows[i])
		changed = changed || !sameValue(rows[i].Value, value(rows[i].Key))
	}
	if changed {
		return &txn.ReadError{Protocol: kv.FastPaxos, Cause: &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: x.c.o.Clock.Now()}}
	}
	return nil
}
