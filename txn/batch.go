package txn

import (
	"meridian/keys"
)

type opKind uint8

const (
	opPut opKind = iota
	opPutNew
	opCPut
	opDelete
	opDeleteRange
	opAdd
	opPutFresh
	opPutBlind
)

type op struct {
	kind     opKind
	key, end keys.Key
	value    []byte
	expected []byte
	delta    int64
}

// looks reports whether the write depends on what is there.
func (o *op) looks() bool { return o.kind == opPutNew || o.kind == opCPut || o.kind == opAdd }

// WriteBatch gathers writes. Keys and values are kept, not copied: they must not change afterwards. The zero value
// is ready to use.
type WriteBatch struct {
	ops   []op
	bytes int
}

// Put writes a key whatever was there. The value must not be nil.
func (b *WriteBatch) Put(k keys.Key, v []byte) { b.add(op{kind: opPut, key: k, value: v}) }

// PutFresh is Put by a caller who knows that the key has no value.
func (b *WriteBatch) PutFresh(k keys.Key, v []byte) { b.add(op{kind: opPutFresh, key: k, value: v}) }

// PutBlind is Put by a caller who has not looked at the key, and does not care what others have written meanwhile.
func (b *WriteBatch) PutBlind(k keys.Key, v []byte) { b.add(op{kind: opPutBlind, key: k, value: v}) }

// PutNew writes a key that must have no value; else *kv.ConditionFailedError with the value that it has.
func (b *WriteBatch) PutNew(k keys.Key, v []byte) { b.add(op{kind: opPutNew, key: k, value: v}) }

// CPut writes a key whose value must be expected (nil: none); else *kv.ConditionFailedError.
func (b *WriteBatch) CPut(k keys.Key, v, expected []byte) {
	b.add(op{kind: opCPut, key: k, value: v, expected: expected})
}

// Delete removes a key, if it has a value.
func (b *WriteBatch) Delete(k keys.Key) { b.add(op{kind: opDelete, key: k}) }

// DeleteRange removes all keys of a span.
func (b *WriteBatch) DeleteRange(s keys.Span) {
	b.add(op{kind: opDeleteRange, key: s.Start, end: s.Stop()})
}

// Add adds to an eight-byte big-endian integer; no value counts as zero.
func (b *WriteBatch) Add(k keys.Key, delta int64) { b.add(op{kind: opAdd, key: k, delta: delta}) }

// Len is the number of writes.
func (b *WriteBatch) Len() int { return len(b.ops) }

// Bytes is the size of the keys and values gathered.
func (b *WriteBatch) Bytes() int { return b.bytes }

// Reset empties the batch and keeps its memory.
func (b *WriteBatch) Reset() {
	clear(b.ops)
	b.ops, b.bytes = b.ops[:0], 0
}

func (b *WriteBatch) add(o op) {
	b.ops = append(b.ops, o)
	b.bytes += len(o.key) + len(o.end) + len(o.value)
}
