package mvcc

import (
	"fmt"
	"strings"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"

	"meridian/storage/engine"
	"meridian/wire"
)

// IntentStrength is the strength of a lock that stands for a provisional value. The weaker strengths of package
// kv are locks without a value.
const IntentStrength = kv.Exclusive + 1

// Lock is an entry of the lock table. For an intent, Txn.WriteTimestamp is the timestamp of the provisional
// version and Txn.Seq the sequence number that wrote it.
type Lock struct {
	Key      keys.Key
	Strength kv.LockStrength
	Txn      kv.TxnMeta
	// Local is the leaseholder's clock when the intent was written, if that showed less than Txn.WriteTimestamp; else zero. It says what a
	// version's local timestamp says: not before that can the intent's transaction have committed.
	Local clock.Timestamp

	// history has the values that earlier sequence numbers of the same attempt wrote, oldest first.
	history []pastValue
}

// Intent is a lock as conflicts report it.
type Intent = Lock

type pastValue struct {
	seq kv.Seq
	raw []byte
}

// LockConflictError says whose locks are in the way. There may be more than it lists.
type LockConflictError struct{ Intents []Intent }

func (e *LockConflictError) Error() string {
	var b strings.Builder
	b.WriteString("conflicting locks:")
	for i, l := range e.Intents {
		if i == 3 {
			fmt.Fprintf(&b, " and %d more", len(e.Intents)-i)
			break
		}
		fmt.Fprintf(&b, " %s by %s", l.Key, l.Txn.ID)
	}
	return b.String()
}

// conflicts reports whether a lock held by another transaction keeps out a read. A plain one is only stopped by intents, and only if
// they are at or below what it reads, or may be what was committed before it began.
func (l *Lock) conflicts(o *read) bool {
	if o.Lock == kv.NoLock {
		at := l.Txn.WriteTimestamp
		return l.Strength == IntentStrength && (at.LessEq(o.ts) || o.Uncertainty.contains(at, l.Local))
	}
	return !l.Strength.Compatible(o.Lock)
}

// appendLock appends the value of a lock table entry, as Lock.fields declares it, in half the time that the declaration takes: each write of a transaction has one.
func appendLock(b []byte, l *Lock) []byte {
	t := &l.Txn
	b = wire.Timestamp(b, 1, t.WriteTimestamp)
	b = wire.Timestamp(b, 3, t.MinTimestamp)
	b = wire.Bytes(b, 5, t.Anchor)
	b = wire.Uint(b, 7, uint64(t.Seq))
	b = wire.Uint(b, 9, uint64(t.Attempt))
	b = wire.Uint(b, 11, uint64(t.Isolation))
	b = wire.Int(b, 13, int64(t.Priority))
	b = wire.Uint(b, 2, uint64(t.Gateway))
	for i := range l.history {
		var at int
		b, at = wire.BeginLong(b, 15, len(l.history[i].raw))
		b = wire.End(wire.Append(b, &l.history[i], (*pastValue).fields), at)
	}
	b = wire.Timestamp(b, 17, l.Local)
	b = wire.Timestamp(b, 19, t.Born)
	return wire.Uint(b, 21, t.Incarnation)
}

// fields declares the value of a lock table entry. Strength and transaction id are in its key. All of it must be understood: locks are rewritten by whichever node
// resolves them.
func (l *Lock) fields(c *wire.Coder) {
	c.Message("mvcc.Lock", wire.Refuses)
	t := &l.Txn
	c.Timestamp(1, &t.WriteTimestamp)
	c.Timestamp(3, &t.MinTimestamp)
	wire.Key(c, 5, &t.Anchor)
	wire.Uint32(c, 7, &t.Seq)
	wire.Uint32(c, 9, &t.Attempt)
	wire.Enum(c, 11, &t.Isolation, kv.ReadCommitted)
	c.Int32(13, &t.Priority)
	wire.Uint32(c, 2, &t.Gateway)
	wire.Large(c, 15, &l.history, (*pastValue).fields, func(p *pastValue) int { return len(p.raw) })
	c.Timestamp(17, &l.Local)
	c.Timestamp(19, &t.Born)
	wire.Uint64(c, 21, &t.Incarnation)
}

func (p *pastValue) fields(c *wire.Coder) {
	c.Message("mvcc.PastValue", wire.Refuses)
	wire.Uint32(c, 1, &p.seq)
	c.Bytes(3, &p.raw)
}

// decodeLock reads a lock table entry from its engine version and value. Nothing shares the arguments.
func decodeLock(key keys.Key, version, val []byte) (*Lock, error) {
	strength, id, err := engine.DecodeLock(version)
	if err != nil || len(val) == 0 {
		return nil, kv.Unreadable("a lock", key, errBadLock)
	}
	// One copy serves all of the slices.
	buf := make([]byte, 0, len(key)+len(val))
	buf = append(append(buf, key...), val...)
	l := &Lock{Key: buf[:len(key):len(key)], Strength: kv.LockStrength(strength)}
	l.Txn.ID = id
	if err := wire.Decode(buf[len(key):], l, (*Lock).fields); err != nil {
		return nil, kv.Unreadable("a lock", key, err)
	}
	return l, nil
}

// ignored reports whether a sequence number was rolled back.
func ignored(seq kv.Seq, ranges []kv.SeqRange) bool {
	for _, r := range ranges {
		if r.First <= seq && seq <= r.Last {
			return true
		}
	}
	return false
}

// seen says what a transaction finds of its own write at a sequence number.
type seen struct {
	provisional bool   // the provisional version
	past        bool   // raw, from the history
	raw         []byte // neither: the key as if the transaction had not written it
}

// at finds the newest value that the intent's own transaction wrote in the attempt at or before seq and did not
// roll back.
func (l *Lock) at(attempt uint32, seq kv.Seq, rolledBack []kv.SeqRange) seen {
	if l.Txn.Attempt != attempt {
		return seen{}
	}
	if l.Txn.Seq <= seq && !ignored(l.Txn.Seq, rolledBack) {
		return seen{provisional: true}
	}
	for i := len(l.history) - 1; i >= 0; i-- {
		if p := l.history[i]; p.seq <= seq && !ignored(p.seq, rolledBack) {
			return seen{past: true, raw: p.raw}
		}
	}
	return seen{}
}
