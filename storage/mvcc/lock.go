package mvcc

import (
	"fmt"
	"strings"

	"meridian/clock"
	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"

	"meridian/storage/engine"
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

// conflicts reports whether a lock held by another transaction keeps out a request of the given strength (NoLock:
// a plain read, which only intents stop, and only if they are at or below what it can see).
func (l *Lock) conflicts(want kv.LockStrength, visible clock.Timestamp) bool {
	if want == kv.NoLock {
		return l.Strength == IntentStrength && l.Txn.WriteTimestamp.LessEq(visible)
	}
	return !l.Strength.Compatible(want)
}

const lockFormat = 1

// appendLock appends the value of a lock table entry. Strength and transaction id are in its key.
func appendLock(b []byte, l *Lock) []byte {
	t := &l.Txn
	b = append(b, lockFormat, byte(t.Isolation))
	b = t.WriteTimestamp.Append(b)
	b = t.MinTimestamp.Append(b)
	b = encoding.AppendUvarint(b, uint64(t.Attempt))
	b = encoding.AppendUvarint(b, uint64(t.Seq))
	b = encoding.AppendVarint(b, int64(t.Priority))
	b = encoding.AppendUvarint(b, uint64(t.Gateway))
	b = encoding.AppendSized(b, t.Anchor)
	b = encoding.AppendUvarint(b, uint64(len(l.history)))
	for _, p := range l.history {
		b = encoding.AppendUvarint(b, uint64(p.seq))
		b = encoding.AppendSized(b, p.raw)
	}
	return b
}

// decodeLock reads a lock table entry from its engine version and value. Nothing shares the arguments.
func decodeLock(key keys.Key, version, val []byte) (*Lock, error) {
	strength, id, err := engine.DecodeLock(version)
	if err != nil || len(val) < 2 || val[0] != lockFormat {
		return nil, errBadLock
	}
	// One copy serves all of the slices.
	buf := make([]byte, 0, len(key)+len(val))
	buf = append(append(buf, key...), val...)
	l := &Lock{Key: buf[:len(key):len(key)], Strength: kv.LockStrength(strength)}
	t := &l.Txn
	t.ID = id
	t.Isolation = kv.Isolation(val[1])
	b := buf[len(key)+2:]
	if t.WriteTimestamp, b, err = clock.Decode(b); err != nil {
		return nil, errBadLock
	}
	if t.MinTimestamp, b, err = clock.Decode(b); err != nil {
		return nil, errBadLock
	}
	next := func() (u uint64) {
		if err == nil {
			u, b, err = encoding.Uvarint(b)
		}
		return u
	}
	t.Attempt = uint32(next())
	t.Seq = kv.Seq(next())
	if err == nil {
		var p int64
		p, b, err = encoding.Varint(b)
		t.Priority = int32(p)
	}
	t.Gateway = kv.NodeID(next())
	if err == nil {
		var anchor []byte
		anchor, b, err = encoding.Sized(b)
		t.Anchor = anchor
	}
	n := next()
	if err != nil || n > uint64(len(b)) {
		return nil, errBadLock
	}
	if n > 0 {
		l.history = make([]pastValue, 0, n)
	}
	for ; n > 0; n-- {
		p := pastValue{seq: kv.Seq(next())}
		if err == nil {
			p.raw, b, err = encoding.Sized(b)
		}
		if err != nil {
			return nil, errBadLock
		}
		l.history = append(l.history, p)
	}
	if len(b) != 0 {
		return nil, errBadLock
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
