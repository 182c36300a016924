package lock

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Locks in memory survive a lease's transfer by travelling with it: the holder of the lease exports its table when
// nothing is evaluated under the lease any more, and the next one imports it before it serves. Who waits comes by
// itself, and finds its place in the queues kept (K1). Intents are in the storage and are not exported.

const (
	handoverFormat = 2
	handoverHead   = 14
	// maxPlaces bounds the waiting transactions whose places are kept.
	maxPlaces = 4096
)

// ErrBadHandover is what Import returns for bytes that Export did not write.
var ErrBadHandover = errors.New("lock: malformed handover")

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
// fairness and never correctness: it is noted if one of them was kept (K6).
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
	b := binary.BigEndian.AppendUint64([]byte{handoverFormat, 1}, uint64(t.lost.Wall))
	b = binary.BigEndian.AppendUint32(b, t.lost.Logical)
	b = binary.AppendUvarint(b, uint64(len(order)))
	for _, id := range order {
		b = append(b, id[:]...)
	}
	for i := range locks {
		l := &locks[i]
		n := len(b)
		b = binary.AppendUvarint(b, uint64(len(l.key)))
		b = append(b, l.key...)
		strength := byte(l.strength)
		if l.kept {
			strength |= keptBit
		}
		b = l.txn.Append(append(b, strength))
		if len(b) > max {
			if l.kept {
				b[1] = 0 // not all of them
			}
			return b[:n]
		}
	}
	return b
}

// keptBit marks the strength of a lock that is kept.
const keptBit = 0x80

// Import takes what another table exported. Locks that are here already stay. The table knows from then on when the other one
// lost locks, unless some did not come along: then it was when the table was cleared last.
func (t *Table) Import(b []byte) error {
	if len(b) < handoverHead || b[0] != handoverFormat {
		return ErrBadHandover
	}
	lost := clock.Timestamp{Wall: int64(binary.BigEndian.Uint64(b[2:])), Logical: binary.BigEndian.Uint32(b[10:])}
	all := b[1] == 1
	b = b[handoverHead-1:]
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > uint64(len(b))/16 {
		return ErrBadHandover
	}
	if b = b[1+size:]; uint64(len(b)) < 16*n {
		return ErrBadHandover
	}
	t.mu.Lock()
	t.places = make(map[kv.TxnID]uint64, n)
	for range n {
		t.seq++
		t.places[kv.TxnID(b[:16])] = t.seq
		b = b[16:]
	}
	was := t.lost
	t.mu.Unlock()
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n >= uint64(len(b)-size) {
			return ErrBadHandover
		}
		k, rest := keys.Key(b[size:size+int(n)]), b[size+int(n):]
		kept := rest[0]&keptBit != 0
		strength := kv.LockStrength(rest[0] &^ keptBit)
		txn, rest, err := kv.DecodeTxnMeta(rest[1:])
		if err != nil || strength == kv.NoLock || strength > kv.Exclusive {
			return ErrBadHandover
		}
		t.acquire(nil, k, &txn, strength, kept)
		b = rest
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if all && t.lost == was {
		t.lost = lost
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
