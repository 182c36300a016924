package leader

import (
	"encoding/binary"

	"meridian/kv"
)

// Gateways resolve the intents of committed transactions in batches, one raft round for hundreds of them, and hot rows are always among
// their keys. Exclusive latches on these would stop the row's writers for that round.
//
// leader.P12 (I2): an intent is resolved in place, under a latch that readers and writers of other transactions pass
// (latch.L4), if the store knows of the commit and the intent lies at its timestamp. Then no answer depends on whether the entry is still
// there: with it, readers, lockers and writers ignore it (leader.P10); without it, they find the same version. Requests that may use the
// same entry are excluded: other resolutions, by key or span, the transaction's own late requests, its EndTxn, and recovery's queries. If
// the store has forgotten the commit in between, a request may queue for an intent that is gone, and learns that by a push.

// resolvesInPlace decides that for the i-th request, as its latch is declared.
func (l *latching) resolvesInPlace(r *kv.ResolveIntentRequest, i int) bool {
	if l.exclusive || r.Status != kv.Committed {
		return false
	}
	at, attempt, ok := l.p.o.finished.Committed(r.Txn.ID)
	if !ok || at != r.Txn.WriteTimestamp || attempt != r.Txn.Attempt || l.p.held.moved(r.Key, &r.Txn) {
		return false
	}
	if len(l.inPlace) != len(l.b.Requests) {
		l.inPlace = make([]bool, len(l.b.Requests))
	}
	l.inPlace[i] = true
	return true
}

// latchOwner stands for a transaction among latches; never zero. Two with the same value exclude each other unnecessarily.
func latchOwner(id kv.TxnID) uint64 {
	return (binary.LittleEndian.Uint64(id[:8])^binary.BigEndian.Uint64(id[8:]))<<1 | 1
}
