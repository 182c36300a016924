package txn

import (
	"iter"

	"meridian/commit/transaction"
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
	opPutSum
)

type op struct {
	kind     opKind
	key, end keys.Key
	value    []byte
	expected []byte
	delta    int64
	sum      *[]transaction.Delta // of opPutSum
}

// looks reports whether the write depends on the key's present value.
func (o *op) looks() bool { return o.kind == opPutNew || o.kind == opCPut || o.kind == opAdd }

// Delta is an amount that is added to an integer column, which has to stay between bounds.
type Delta = transaction.Delta

// WriteBatch gathers writes. Keys and values are kept, not copied: they must not change afterwards. The zero value
// is ready to use.
type WriteBatch struct {
	ops   []op
	bytes int
}

// Put writes a key unconditionally. The value must not be nil.
func (b *WriteBatch) Put(k keys.Key, v []byte) { b.add(op{kind: opPut, key: k, value: v}) }

// PutFresh is Put by a caller who knows that the key has no value.
func (b *WriteBatch) PutFresh(k keys.Key, v []byte) { b.add(op{kind: opPutFresh, key: k, value: v}) }

// PutBlind is Put by a caller that has not read the key, and does not depend on writes of others to it.
func (b *WriteBatch) PutBlind(k keys.Key, v []byte) { b.add(op{kind: opPutBlind, key: k, value: v}) }

// PutSum is Put of a value that is the present one with deltas added to its columns. Where updates commute (transaction.Write.Deltas) only these are written.
func (b *WriteBatch) PutSum(k keys.Key, v []byte, deltas []Delta) {
	b.add(op{kind: opPutSum, key: k, value: v, sum: &deltas})
}

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

// WriteKind says what a Write does.
type WriteKind uint8

// The kinds are the methods of WriteBatch.
const (
	WritePut         = WriteKind(opPut)
	WritePutNew      = WriteKind(opPutNew)
	WriteCPut        = WriteKind(opCPut)
	WriteDelete      = WriteKind(opDelete)
	WriteDeleteRange = WriteKind(opDeleteRange)
	WriteAdd         = WriteKind(opAdd)
)

// Write is one write of a batch, for substitutes of a Txn.
type Write struct {
	Kind            WriteKind
	Key, End        keys.Key
	Value, Expected []byte
	Delta           int64
}

// Writes lists the batch's writes in order.
func (b *WriteBatch) Writes() iter.Seq[Write] {
	return func(yield func(Write) bool) {
		for i := range b.ops {
			o := &b.ops[i]
			kind := WriteKind(o.kind)
			if o.kind == opPutFresh || o.kind == opPutBlind || o.kind == opPutSum {
				kind = WritePut
			}
			if !yield(Write{kind, o.key, o.end, o.value, o.expected, o.delta}) {
				return
			}
		}
	}
}

// Split divides a batch by key: first the writes whose keys are in, then the others, each in order. A batch that need not be divided is
// returned as it is.
func (b *WriteBatch) Split(in func(keys.Key) bool) (yes, no *WriteBatch) {
	n := 0
	for i := range b.ops {
		if in(b.ops[i].key) {
			n++
		}
	}
	switch n {
	case 0:
		return &WriteBatch{}, b
	case len(b.ops):
		return b, &WriteBatch{}
	}
	yes, no = &WriteBatch{}, &WriteBatch{}
	for i := range b.ops {
		o := &b.ops[i]
		into := no
		if in(o.key) {
			into = yes
		}
		into.add(*o)
	}
	return yes, no
}
