package lock

import (
	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Wait says what a request waits for.
type Wait struct {
	Key keys.Key
	// Holder is the transaction in the way; its ID is zero if that is a request outside of transactions.
	Holder kv.TxnMeta
	// Intent says that the holder has an intent there, IntentAt its timestamp.
	Intent   bool
	IntentAt clock.Timestamp
	// Claim says that the key is not held but granted to Holder's request, which came first.
	Claim bool
	// Read says that the waiting request only reads the key.
	Read bool
	// Front says that nobody before the request in the queue waits for the same transaction and could push it (lock.K5).
	Front bool
	// Ended is set if the holder is known to have ended: what it left has to be resolved, not waited for.
	Ended  bool
	Status kv.Status
}

// conflict finds what keeps a request from a key; w is its place in the queue, nil if it has none.
func (t *Table) conflict(g *Guard, e *entry, strength kv.LockStrength, w *waiter) (Wait, bool) {
	if strength == Write {
		strength = t.writing(g, e)
	}
	for i := range e.holders {
		h := &e.holders[i]
		if g.owns(h) {
			continue
		}
		if strength == kv.NoLock {
			if !h.intent || g.ReadAt.Less(h.at) {
				continue
			}
		} else if !h.intent && strength.Compatible(h.strength) {
			continue
		}
		status, ended := t.finalized[h.txn.ID]
		return Wait{
			Key: e.key, Holder: h.txn, Intent: h.intent, IntentAt: h.at, Read: strength == kv.NoLock,
			Front: strength == kv.NoLock || e.first(w, h.txn.ID), Ended: ended, Status: status,
		}, true
	}
	if strength == kv.NoLock || t.holds(g, e) {
		return Wait{}, false // an upgrade waits for other holders only (lock.K1)
	}
	for _, o := range e.queue {
		if o == w || w == nil && g.seq != 0 && g.seq < o.g.seq && !t.holds(o.g, e) {
			break
		}
		if g.Txn != nil && o.g.id() == g.Txn.ID || strength.Compatible(o.strength) {
			continue
		}
		wait := Wait{Key: e.key, Claim: true}
		if o.g.Txn != nil {
			wait.Holder = *o.g.Txn
		} else if its, blocked := t.conflict(o.g, e, o.strength, o); blocked {
			wait.Holder = its.Holder // it waits nowhere else (lock.K4)
		}
		wait.Front = e.first(w, wait.Holder.ID)
		return wait, true
	}
	return Wait{}, false
}

// first reports whether nobody before w in the queue waits for a transaction and pushes it (lock.K5).
func (e *entry) first(w *waiter, holder kv.TxnID) bool {
	for _, o := range e.queue {
		if o == w {
			break
		}
		if o.g.at == o && o.g.Txn != nil && !o.granted && o.holder == holder {
			return false
		}
	}
	return true
}

// writing is the strength of a write: that of the lock which its transaction took for it, if it is enough.
func (t *Table) writing(g *Guard, e *entry) kv.LockStrength {
	for i := range e.holders {
		if h := &e.holders[i]; g.owns(h) && h.strength == kv.NoKeyExclusive {
			return kv.NoKeyExclusive
		}
	}
	return kv.Exclusive
}

func (t *Table) holds(g *Guard, e *entry) bool {
	for i := range e.holders {
		if g.owns(&e.holders[i]) {
			return true
		}
	}
	return false
}
