package lock

import (
	"bytes"
	"cmp"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// Locks in memory survive a lease's transfer by travelling with it: the holder of the lease exports its table when
// nothing is evaluated under the lease any more, and the next one imports it before it serves. Waiting requests are sent again by their
// gateways, and find their places in the queues (lock.K1). Intents are in the storage and are not exported.

// maxPlaces bounds the waiting transactions whose places are kept.
const maxPlaces = 4096

// held is one lock to be exported.
type held struct {
	key       keys.Key
	strength  kv.LockStrength
	txn       kv.TxnMeta
	contended bool
	kept      bool
}

// Export gives the locks and the order of those who wait. Of locks that take more than max bytes, those that are kept go
// first, then those that somebody waits for, then those of the youngest transactions; the others are forgotten, which costs
// fairness and never correctness: it is noted if one of them was kept (lock.K6).
func (t *Table) Export(max int) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	var locks []held
	waiting := map[kv.TxnID]uint64{}
	t.entries.Ascend(func(e *entry) bool {
		for i := range e.holders {
			h := &e.holders[i]
			if _, ended := t.finalized[h.txn.ID]; !ended && h.strength != kv.NoLock {
				locks = append(locks, held{e.key, h.strength, h.txn, len(e.queue) > 0, h.kept})
			}
		}
		for _, w := range e.queue {
			if id := w.g.id(); !id.IsZero() {
				waiting[id] = w.g.seq
			}
		}
		return true
	})
	order := make([]kv.TxnID, 0, len(waiting))
	for id := range waiting {
		order = append(order, id)
	}
	slices.SortFunc(order, func(a, b kv.TxnID) int { return cmp.Compare(waiting[a], waiting[b]) })
	order = order[:min(len(order), maxPlaces, max/64)]
	slices.SortStableFunc(locks, func(a, b held) int {
		if a.kept != b.kept {
			if a.kept {
				return -1
			}
			return 1
		}
		if a.contended != b.contended {
			if a.contended {
				return -1
			}
			return 1
		}
		return cmp.Or(b.txn.MinTimestamp.Compare(a.txn.MinTimestamp), bytes.Compare(a.key, b.key))
	})
	h := handover{lost: t.lost, whole: true, waiting: order, locks: locks}
	h.limit(max)
	return wire.Append(nil, &h, (*handover).fields)
}

// handover is the form of Export's bytes. A holder of the lease that can't read it begins with an empty table (lock.K6).
type handover struct {
	lost    clock.Timestamp
	whole   bool
	waiting []kv.TxnID
	locks   []held
}

func (h *handover) fields(c *wire.Coder) {
	c.Message("lock.Handover", wire.Skips)
	c.Timestamp(1, &h.lost)
	wire.UUIDs(c, 2, &h.waiting)
	wire.List(c, 5, &h.locks, (*held).fields)
	c.Bool(3, &h.whole)
}

// limit leaves out the last locks, so that there are at most about max bytes. The handover is not whole if a lock that is kept is left out.
func (h *handover) limit(max int) {
	b := wire.Append(nil, &handover{lost: h.lost, waiting: h.waiting}, (*handover).fields)
	size := len(b)
	for i := range h.locks {
		b = wire.Append(b[:0], &handover{locks: h.locks[i : i+1]}, (*handover).fields)
		if size += len(b); size > max {
			h.whole = h.whole && !h.locks[i].kept
			h.locks = h.locks[:i]
			return
		}
	}
}

func (l *held) fields(c *wire.Coder) {
	c.Message("lock.Held", wire.Skips)
	wire.Key(c, 1, &l.key)
	wire.Enum(c, 3, &l.strength, kv.Exclusive)
	wire.One(c, 5, &l.txn, (*kv.TxnMeta).Fields)
	c.Bool(7, &l.kept)
	if c.Complete() && l.strength == kv.NoLock {
		c.Malformed()
	}
}

// Import takes what another table exported. Locks that are here already stay. The table knows from then on when the other one
// lost locks, unless some did not come along: then it was when the table was cleared last.
func (t *Table) Import(b []byte) error {
	h, err := wire.Decoded(b, (*handover).fields)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.places = make(map[kv.TxnID]uint64, len(h.waiting))
	for _, id := range h.waiting {
		t.seq++
		t.places[id] = t.seq
	}
	was := t.lost
	t.mu.Unlock()
	for i := range h.locks {
		l := &h.locks[i]
		t.acquire(nil, l.key, &l.txn, l.strength, l.kept)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.whole && t.lost == was {
		t.lost = h.lost
	}
	return nil
}

// place is when a transaction began to wait, as an earlier leaseholder has it; else it is now. t.mu is held.
func (t *Table) place(id kv.TxnID) uint64 {
	if seq, ok := t.places[id]; ok && !id.IsZero() {
		delete(t.places, id)
		return seq
	}
	t.seq++
	return t.seq
}
