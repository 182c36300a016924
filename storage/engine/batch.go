package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"meridian/clock"
	"meridian/keys"
)

// Batch collects changes that are applied as one. It is for one goroutine. Keys and values are copied.
type Batch struct {
	e    *Engine
	b    *pebble.Batch
	repr *pebble.Batch // lent to ApplyRepr
	wait func()        // from CommitNoSyncWait to SyncWait, if the disk is slow
	end  uint64        // the store's position after it, once it is committed
	// freed are the spans in which it deletes all (engine.EN7).
	freed []keys.Span
}

// NewBatch makes a batch that can only be written; it is the cheaper kind.
func (e *Engine) NewBatch() *Batch { return e.wrap(e.db.NewBatch()) }

// NewIndexedBatch makes a batch that is also a Reader.
func (e *Engine) NewIndexedBatch() *Batch { return e.wrap(e.db.NewIndexedBatch()) }

func (e *Engine) wrap(pb *pebble.Batch) *Batch {
	b, _ := e.batches.Get().(*Batch)
	if b == nil {
		b = &Batch{e: e}
	}
	b.b = pb
	return b
}

// Close releases the batch, whether committed or not. After CommitNoSyncWait, call SyncWait first.
func (b *Batch) Close() error {
	err := b.b.Close()
	clear(b.freed)
	b.b, b.freed = nil, b.freed[:0]
	b.e.batches.Put(b)
	return err
}

// must holds for changes of a batch: Pebble refuses them only for misuse.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("engine: change refused by a batch: %v", err))
	}
}

// Put sets the unversioned value of a key.
func (b *Batch) Put(k keys.Key, value []byte) {
	op := b.b.SetDeferred(len(k)+1, len(value))
	copy(op.Key, k)
	op.Key[len(k)] = 0
	copy(op.Value, value)
	must(op.Finish())
}

// Delete removes the unversioned value of a key.
func (b *Batch) Delete(k keys.Key) {
	op := b.b.DeleteDeferred(len(k) + 1)
	copy(op.Key, k)
	op.Key[len(k)] = 0
	must(op.Finish())
}

// SingleDelete removes the unversioned value of a key that was Put at most once since it was last removed.
func (b *Batch) SingleDelete(k keys.Key) {
	op := b.b.SingleDeleteDeferred(len(k) + 1)
	copy(op.Key, k)
	op.Key[len(k)] = 0
	must(op.Finish())
}

// PutVersion sets the version of a key at a timestamp. The value is header followed by value.
func (b *Batch) PutVersion(k keys.Key, ts clock.Timestamp, header, value []byte) {
	op := b.b.SetDeferred(len(k)+1+versionSize(ts), len(header)+len(value))
	appendVersion(op.Key[:0], k, ts)
	copy(op.Value[copy(op.Value, header):], value)
	must(op.Finish())
}

// DeleteVersion removes the version of a key at a timestamp.
func (b *Batch) DeleteVersion(k keys.Key, ts clock.Timestamp) {
	op := b.b.DeleteDeferred(len(k) + 1 + versionSize(ts))
	appendVersion(op.Key[:0], k, ts)
	must(op.Finish())
}

const lockExtra = 2 + 1 + lockLen + 1

// PutLock sets a lock table entry of a key.
func (b *Batch) PutLock(k keys.Key, strength uint8, txn [16]byte, value []byte) {
	op := b.b.SetDeferred(len(k)+lockExtra, len(value))
	appendLock(op.Key[:0], k, strength, txn)
	copy(op.Value, value)
	must(op.Finish())
}

// DeleteLock removes a lock table entry of a key.
func (b *Batch) DeleteLock(k keys.Key, strength uint8, txn [16]byte) {
	op := b.b.DeleteDeferred(len(k) + lockExtra)
	appendLock(op.Key[:0], k, strength, txn)
	must(op.Finish())
}

// ClearSpan removes everything in a span, of every version. It leaves a marker in the store that reads have to
// step over until it is compacted away, so it is for large spans.
func (b *Batch) ClearSpan(s keys.Span) {
	start, stop := s.Start, s.Stop()
	op := b.b.DeleteRangeDeferred(len(start)+1, len(stop)+1)
	copy(op.Key, start)
	op.Key[len(start)] = 0
	copy(op.Value, stop)
	op.Value[len(stop)] = 0
	must(op.Finish())
	b.Freed(keys.Span{Start: start, End: stop})
}

// PutRaw sets an entry by its engine key, as RawKey gave it; for copying ranges between stores.
func (b *Batch) PutRaw(raw, value []byte) { must(b.b.Set(raw, value, nil)) }

// Get is Engine.Get with the batch's own changes on top; the batch must be indexed.
func (b *Batch) Get(k keys.Key) ([]byte, error) { return b.e.get(b.b, k) }

// NewIter makes an iterator that sees the batch's changes so far; the batch must be indexed.
func (b *Batch) NewIter(o IterOptions) (*Iterator, error) { return b.e.newIter(b.b, o) }

// Indexed reports whether the batch is a Reader.
func (b *Batch) Indexed() bool { return b.b.Indexed() }

// Empty reports whether there are no changes.
func (b *Batch) Empty() bool { return b.b.Empty() }

// Len is the size of Repr.
func (b *Batch) Len() int { return b.b.Len() }

// Count is the number of changes.
func (b *Batch) Count() int { return int(b.b.Count()) }

// Repr is the batch as bytes, which ApplyRepr takes. It is valid until the batch changes or is closed.
func (b *Batch) Repr() []byte { return b.b.Repr() }

// reprHeader is the length of what precedes the changes in Repr: sequence number and count.
const reprHeader = 12

// ApplyRepr appends the changes of another batch, given as its Repr. The bytes are copied.
func (b *Batch) ApplyRepr(repr []byte) error {
	if len(repr) < reprHeader {
		return fmt.Errorf("engine: %d bytes are no batch", len(repr))
	}
	if binary.LittleEndian.Uint32(repr[8:]) == 0 {
		return nil
	}
	if b.repr == nil {
		b.repr = new(pebble.Batch)
	}
	defer func() { *b.repr = pebble.Batch{} }()
	if err := b.repr.SetRepr(repr); err != nil {
		return err
	}
	b.freedBy(repr)
	return b.b.Apply(b.repr, nil)
}

// ApplyReprOf is ApplyRepr for the changes of some keys: a change of a span counts by its first key. For a lock, the key is that of its entry.
func (b *Batch) ApplyReprOf(repr []byte, keep func(k keys.Key) bool) error {
	if len(repr) < reprHeader {
		return fmt.Errorf("engine: %d bytes are no batch", len(repr))
	}
	if binary.LittleEndian.Uint32(repr[8:]) == 0 {
		return nil
	}
	var whole pebble.Batch
	if err := whole.SetRepr(repr); err != nil {
		return err
	}
	for rd := whole.Reader(); ; {
		kind, raw, value, ok, err := rd.Next()
		if err != nil || !ok {
			return err
		}
		if !keep(keys.Key(raw)) {
			continue
		}
		switch kind {
		case pebble.InternalKeyKindSet:
			err = b.b.Set(raw, value, nil)
		case pebble.InternalKeyKindDelete:
			err = b.b.Delete(raw, nil)
		case pebble.InternalKeyKindSingleDelete:
			err = b.b.SingleDelete(raw, nil)
		case pebble.InternalKeyKindRangeDelete:
			b.Freed(keys.Span{Start: raw[:len(raw)-1], End: value[:len(value)-1]})
			err = b.b.DeleteRange(raw, value, nil)
		default:
			err = fmt.Errorf("engine: a change of kind %s in a batch", kind)
		}
		if err != nil {
			return err
		}
	}
}

// Apply appends the changes of another batch.
func (b *Batch) Apply(o *Batch) error {
	if o.b.Empty() {
		return nil
	}
	b.freed = append(b.freed, o.freed...)
	return b.b.Apply(o.b, nil)
}

// Commit applies the batch. With sync it returns when the batch is durable. Any error means that the store has
// failed and that the batch may or may not survive (engine.EN1).
func (b *Batch) Commit(sync bool) (err error) {
	if f := b.e.failure.Load(); f != nil {
		return f
	}
	defer b.e.recoverFailure(&err)
	o := pebble.NoSync
	if sync {
		if wait := b.e.beginSync(); wait != nil {
			return b.commitSlowly(wait)
		}
		o = pebble.Sync
	}
	before := b.e.at.committed.Load()
	if err := b.e.db.Apply(b.b, o); err != nil {
		return b.e.fail(err)
	}
	b.end = b.e.ended(b.b, before)
	b.free()
	if err := b.e.Failure(); err != nil {
		return err
	}
	if sync {
		raise(&b.e.at.durable, b.end)
	}
	return nil
}

// CommitNoSyncWait applies the batch and returns when it is visible. SyncWait must be called afterwards, before
// Close, from any one goroutine. Batches become durable in the order of their commits.
func (b *Batch) CommitNoSyncWait() (err error) {
	if f := b.e.failure.Load(); f != nil {
		return f
	}
	defer b.e.recoverFailure(&err)
	if b.wait = b.e.beginSync(); b.wait != nil {
		return b.Commit(false)
	}
	before := b.e.at.committed.Load()
	if err := b.e.db.ApplyNoSyncWait(b.b, pebble.Sync); err != nil {
		return b.e.fail(err)
	}
	b.end = b.e.ended(b.b, before)
	b.free()
	return b.e.Failure()
}

// free remembers what the batch, which is committed, has deleted.
func (b *Batch) free() {
	if len(b.freed) > 0 && b.e.opts.ReserveBytes > 0 {
		b.e.space.freed.add(b.freed)
	}
}

// SyncWait returns when the batch is durable. An error is as in Commit.
func (b *Batch) SyncWait() error {
	b.e.syncs.begin()
	defer b.e.syncs.end()
	if wait := b.wait; wait != nil {
		b.wait = nil
		return b.syncSlowly(wait)
	}
	if err := b.b.SyncWait(); err != nil {
		return b.e.fail(err)
	}
	if err := b.e.Failure(); err != nil {
		return err
	}
	raise(&b.e.at.durable, b.end)
	return nil
}

// commitSlowly is Commit with sync on a slow disk.
func (b *Batch) commitSlowly(wait func()) error {
	if err := b.Commit(false); err != nil {
		return err
	}
	return b.syncSlowly(wait)
}

// syncSlowly is SyncWait on a slow disk: what was committed without a sync is in the log, which is synced when the disk is
// ready for it.
func (b *Batch) syncSlowly(wait func()) error {
	wait()
	return b.e.syncLog()
}

// recoverFailure turns the panic with which Pebble reports a log that it cannot write into the store's failure. The panic
// leaves Pebble's commits locked, for good.
func (e *Engine) recoverFailure(err *error) {
	if r := recover(); r != nil {
		cause, ok := r.(error)
		if !ok {
			panic(r)
		}
		e.stuck.Store(true)
		*err = e.fail(cause)
	}
}
