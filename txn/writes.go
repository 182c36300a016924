package txn

import (
	"iter"

	"meridian/keys"
)

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

// Write is one write of a batch, for those that stand in for a Txn.
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
			if o.kind == opPutFresh || o.kind == opPutBlind {
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
