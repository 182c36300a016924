package txn

import (
	"context"
	"encoding/binary"
	"math"

	"meridian/keys"
	"meridian/kv"
)

// Write makes the batch's writes part of the transaction. PutNew, CPut and Add are checked at once, against the
// newest state including the running statement's own writes; if one fails, none of the batch is written.
func (t *Txn) Write(ctx context.Context, b *WriteBatch) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	b, err := t.divert(ctx, b)
	if err != nil {
		return err
	}
	if err := t.write(ctx, b); err != nil {
		return err
	}
	return t.flush(ctx)
}

func (t *Txn) mayWrite() error {
	if err := t.reliable(); err != nil {
		return err
	}
	if t.o.ReadOnly {
		return ErrReadOnly
	}
	return nil
}

func (t *Txn) write(ctx context.Context, b *WriteBatch) error {
	// First read and lock what the conditional writes look at.
	var base map[string][]byte
	var ks []keys.Key
	for i := range b.ops {
		if o := &b.ops[i]; o.looks() {
			if _, ok := t.core.BufferedNewest(o.key); !ok {
				ks = append(ks, o.key)
			}
		}
	}
	if len(ks) > 0 {
		values, err := t.getMany(ctx, ks, t.readNewest())
		if err != nil {
			return err
		}
		base = make(map[string][]byte, len(ks))
		for i, k := range ks {
			base[string(k)] = values[i]
		}
	}
	mark := t.core.Seq()
	for i := range b.ops {
		if err := t.buffer(&b.ops[i], base); err != nil {
			t.core.RollbackTo(mark)
			return err
		}
	}
	return nil
}

// buffer buffers one write; base is what lies below the buffer.
func (t *Txn) buffer(o *op, base map[string][]byte) error {
	var present []byte
	if o.looks() {
		var ok bool
		if present, ok = t.core.BufferedNewest(o.key); !ok {
			present = base[string(o.key)]
		}
	}
	switch o.kind {
	case opPut:
		t.put(o.key, notNil(o.value))
	case opPutFresh, opPutBlind:
		t.core.Put(o.key, notNil(o.value))
	case opPutSum:
		t.putSum(o)
	case opDelete:
		t.put(o.key, nil)
	case opDeleteRange:
		t.core.DeleteRange(keys.Span{Start: o.key, End: o.end})
	case opPutNew, opCPut:
		if !same(present, o.expected) {
			return &kv.ConditionFailedError{Key: o.key, Actual: present}
		}
		t.put(o.key, notNil(o.value))
	case opAdd:
		sum, err := add(o.key, present, o.delta)
		if err != nil {
			return err
		}
		t.put(o.key, binary.BigEndian.AppendUint64(nil, uint64(sum)))
	}
	return nil
}

// put buffers a write of a key that the transaction may have looked at; a nil value deletes.
func (t *Txn) put(k keys.Key, v []byte) {
	if w, first := t.core.Put(k, v); first {
		w.Seen(t.keeper.SeenAt(k))
	}
}

func (t *Txn) putSum(o *op) {
	if w, first := t.core.PutSum(o.key, notNil(o.value), *o.sum); first {
		w.Seen(t.keeper.SeenAt(o.key))
	}
}

func notNil(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// same compares values; no value and an empty one differ.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

func add(k keys.Key, present []byte, delta int64) (int64, error) {
	var v int64
	if present != nil {
		if len(present) != 8 {
			return 0, &kv.InternalError{Message: "txn: Add to a value that is not an integer"}
		}
		v = int64(binary.BigEndian.Uint64(present))
	}
	if delta > 0 && v > math.MaxInt64-delta || delta < 0 && v < math.MinInt64-delta {
		return 0, &kv.AddOverflowError{Key: k, Value: v, Delta: delta}
	}
	return v + delta, nil
}

// Increment adds to an integer within the transaction and returns the sum.
func (t *Txn) Increment(ctx context.Context, key keys.Key, delta int64) (int64, error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	values, err := t.getMany(ctx, []keys.Key{key}, t.readNewest())
	if err != nil {
		return 0, err
	}
	sum, err := add(key, values[0], delta)
	if err != nil {
		return 0, err
	}
	t.put(key, binary.BigEndian.AppendUint64(nil, uint64(sum)))
	return sum, nil
}

// flush sends the buffer early if it has grown too large (txn.TX1), without waiting for the answer (txn.PW1).
func (t *Txn) flush(ctx context.Context) error {
	if !t.core.FlushNeeded() {
		return nil
	}
	if err := t.locateWrites(ctx); err != nil {
		return err
	}
	if err := t.divisible(); err != nil {
		return err
	}
	t.db.o.Probes.Reached("txn: buffer flushed early")
	batches := t.core.TakeFlush(t.foreign())
	if err := t.stays(); err != nil {
		return err
	}
	return t.keeper.Flush(ctx, batches)
}

// CommitBatch is Write and Commit in one go; conditions are checked as part of the commit where possible. When it
// fails the transaction has to be rolled back or restarted.
func (t *Txn) CommitBatch(ctx context.Context, b *WriteBatch) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	b, err := t.divert(ctx, b)
	if err != nil {
		return err
	}
	if !t.deferrable(b) {
		if err := t.write(ctx, b); err != nil {
			return err
		}
		return t.Commit(ctx)
	}
	for i := range b.ops {
		o := &b.ops[i]
		switch o.kind {
		case opPut:
			t.put(o.key, notNil(o.value))
		case opPutFresh, opPutBlind:
			t.core.Put(o.key, notNil(o.value))
		case opPutSum:
			t.putSum(o)
		case opDelete:
			t.put(o.key, nil)
		default:
			present, ok := t.core.BufferedNewest(o.key)
			if !ok {
				t.core.CPut(o.key, notNil(o.value), o.expected)
				continue
			}
			if !same(present, o.expected) {
				return &kv.ConditionFailedError{Key: o.key, Actual: present}
			}
			t.put(o.key, notNil(o.value))
		}
	}
	return t.Commit(ctx)
}

// deferrable reports whether the conditions of a batch can be checked where the writes are made.
func (t *Txn) deferrable(b *WriteBatch) bool {
	if t.core.Sent() {
		return false
	}
	var conditional map[string]bool
	first := len(b.ops)
	for i := range b.ops {
		switch b.ops[i].kind {
		case opDeleteRange, opAdd:
			return false
		case opPutNew, opCPut:
			first = min(first, i)
			if conditional != nil {
				conditional[string(b.ops[i].key)] = true
			}
		case opDelete:
			// A condition that is followed by a deletion of its key would be lost.
			if first == len(b.ops) {
				continue
			}
			if conditional == nil {
				conditional = make(map[string]bool)
				for _, o := range b.ops[first:i] {
					if o.looks() {
						conditional[string(o.key)] = true
					}
				}
			}
			if conditional[string(b.ops[i].key)] {
				return false
			}
		}
	}
	return true
}
