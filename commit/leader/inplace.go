package leader

import (
	"encoding/binary"

	"meridian/kv"
)

// Settling resolves the intents of committed transactions, a raft round for hundreds of them, and hot rows are always
// among their keys. Closing these to others meanwhile would stop the row's line of writers for that round.
//
// P12 (I2): an intent is resolved in place, under a latch that readers and writers of other transactions pass
// (latch, L4), if the store knows of the commit and the intent lies at its timestamp. Then nobody's answer depends on
// whether the entry is still there: with it, readers, lockers and writers look through it (P10); without it, they find
// the same version. What may touch the same entry is kept out: other resolutions, by key or span, the transaction's own
// late requests, its EndTxn, and recovery's questions for it. Should the store have forgotten the commit in between, a
// request may queue for an intent that is gone, and finds by a push that it is.

// resolvesInPlace decides that for the i-th request, as its latch is declared.
func (q *request) resolvesInPlace(r *kv.ResolveIntentRequest, i int) bool {
	if q.exclusive || r.Status != kv.Committed {
		return false
	}
	at, attempt, ok := q.p.o.finished.Committed(r.Txn.ID)
	if !ok || at != r.Txn.WriteTimestamp || attempt != r.Txn.Attempt || q.p.held.moved(r.Key, &r.Txn) {
		return false
	}
	if len(q.inPlace) != len(q.b.Requests) {
		q.inPlace = make([]bool, len(q.b.Requests))
	}
	q.inPlace[i] = true
	return true
}

// latchOwner stands for a transaction among latches; never zero. Two of the same keep each other out without need.
func latchOwner(id kv.TxnID) uint64 {
	return (binary.LittleEndian.Uint64(id[:8])^binary.BigEndian.Uint64(id[8:]))<<1 | 1
}
