package engine

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"

	"meridian/clock"
	"meridian/keys"
)

// Reader makes iterators over one state of the store: Engine (now), Snapshot (then), indexed Batch (now, with
// the batch's own changes on top).
type Reader interface {
	Get(k keys.Key) ([]byte, error)
	NewIter(o IterOptions) (*Iterator, error)
}

var (
	_ Reader = (*Engine)(nil)
	_ Reader = (*Snapshot)(nil)
	_ Reader = (*Batch)(nil)
)

// IterOptions say what an iterator may see.
type IterOptions struct {
	// Lower and Upper bound the keys: [Lower, Upper). Empty means no bound.
	Lower, Upper keys.Key
	// MinTime and MaxTime, if not both zero, let the iterator leave out versions outside of [MinTime, MaxTime]
	// (whole blocks of them; others may still be seen, so the caller checks every version).
	MinTime, MaxTime clock.Timestamp
}

// Iterator walks engine keys in order. It is for one goroutine.
type Iterator struct {
	e    *Engine
	it   *pebble.Iterator
	opts pebble.IterOptions
	buf  []byte
	low  []byte
	up   []byte
}

// NewIter makes an iterator over the store's present state.
func (e *Engine) NewIter(o IterOptions) (*Iterator, error) { return e.newIter(e.db, o) }

type iterSource interface {
	NewIter(o *pebble.IterOptions) (*pebble.Iterator, error)
}

func (e *Engine) newIter(from iterSource, o IterOptions) (*Iterator, error) {
	i, _ := e.iters.Get().(*Iterator)
	if i == nil {
		i = &Iterator{e: e}
	}
	i.opts = pebble.IterOptions{}
	i.bound(o.Lower, o.Upper)
	if !o.MinTime.IsZero() || !o.MaxTime.IsZero() {
		hi := o.MaxTime
		if hi.IsZero() {
			hi = clock.MaxTimestamp
		}
		i.opts.PointKeyFilters = []pebble.BlockPropertyFilter{
			cockroachkvs.NewMVCCTimeIntervalFilter(uint64(o.MinTime.Wall), uint64(hi.Wall)),
		}
	}
	it, err := from.NewIter(&i.opts)
	if err != nil {
		e.iters.Put(i)
		return nil, err
	}
	i.it = it
	return i, nil
}

func (i *Iterator) bound(lower, upper keys.Key) {
	i.opts.LowerBound, i.opts.UpperBound = nil, nil
	if len(lower) > 0 {
		i.low = appendKey(i.low[:0], lower)
		i.opts.LowerBound = i.low
	}
	if len(upper) > 0 {
		i.up = appendKey(i.up[:0], upper)
		i.opts.UpperBound = i.up
	}
}

// Close releases the iterator.
func (i *Iterator) Close() error {
	if s := i.it.Stats(); s.ForwardStepCount[pebble.InternalIterCall]|s.ReverseStepCount[pebble.InternalIterCall] != 0 {
		i.e.steps.Add(int64(s.ForwardStepCount[pebble.InternalIterCall] + s.ReverseStepCount[pebble.InternalIterCall]))
	}
	err := i.e.readError(i.it.Close())
	i.it = nil
	i.e.iters.Put(i)
	return err
}

// SetBounds changes the bounds; the iterator has to be positioned again.
func (i *Iterator) SetBounds(lower, upper keys.Key) {
	i.bound(lower, upper)
	i.it.SetBounds(i.opts.LowerBound, i.opts.UpperBound)
}

// Refresh makes an iterator over an indexed batch see what was written to the batch since. It has to be
// positioned again.
func (i *Iterator) Refresh() { i.it.SetOptions(&i.opts) }

// SeekGE moves to the first entry at or after key k: its unversioned value, or its newest version.
func (i *Iterator) SeekGE(k keys.Key) bool {
	i.buf = appendKey(i.buf[:0], k)
	return i.it.SeekGE(i.buf)
}

// SeekVersionGE moves to the newest version of k at or below ts, or else to what follows.
func (i *Iterator) SeekVersionGE(k keys.Key, ts clock.Timestamp) bool {
	i.buf = appendVersion(i.buf[:0], k, ts)
	return i.it.SeekGE(i.buf)
}

// SeekPrefixGE moves to the newest version of k at or below ts (zero: the first entry of k) and reports whether
// there is one. It asks bloom filters. Only Next may follow, and it stays on k.
func (i *Iterator) SeekPrefixGE(k keys.Key, ts clock.Timestamp) bool {
	i.buf = appendVersion(i.buf[:0], k, ts)
	return i.it.SeekPrefixGE(i.buf)
}

// SeekLockPrefix moves to the first lock on k and reports whether there is one, as SeekPrefixGE does.
func (i *Iterator) SeekLockPrefix(k keys.Key) bool {
	i.buf = append(keys.AppendLockKey(i.buf[:0], k), 0)
	return i.it.SeekPrefixGE(i.buf)
}

// SeekLock moves to one lock on k and reports whether it is there. Unlike SeekLockPrefix it does not step over what is left
// of others that were removed from the key.
func (i *Iterator) SeekLock(k keys.Key, strength uint8, txn [16]byte) bool {
	i.buf = appendLock(i.buf[:0], k, strength, txn)
	return i.it.SeekPrefixGE(i.buf) && bytes.Equal(i.it.Key(), i.buf)
}

// SeekLT moves to the last entry before key k: the oldest version of the key before it.
func (i *Iterator) SeekLT(k keys.Key) bool {
	i.buf = appendKey(i.buf[:0], k)
	return i.it.SeekLT(i.buf)
}

// First moves to the first entry within the bounds.
func (i *Iterator) First() bool { return i.it.First() }

// Last moves to the last entry within the bounds.
func (i *Iterator) Last() bool { return i.it.Last() }

// Next moves to the next entry.
func (i *Iterator) Next() bool { return i.it.Next() }

// NextKey moves to the first entry of the next key.
func (i *Iterator) NextKey() bool { return i.it.NextPrefix() }

// Prev moves to the entry before.
func (i *Iterator) Prev() bool { return i.it.Prev() }

// Valid reports whether the iterator is at an entry. If it is not, Error says whether that is the end.
func (i *Iterator) Valid() bool { return i.it.Valid() }

// Error is what stopped the iterator, nil at the end of the data.
func (i *Iterator) Error() error { return i.e.readError(i.it.Error()) }

// RawKey is the engine key; it is valid until the next move.
func (i *Iterator) RawKey() []byte { return i.it.Key() }

// Key is the key and version of the entry; they are valid until the next move.
func (i *Iterator) Key() (k keys.Key, version []byte) {
	k, version, _ = SplitKey(i.it.Key())
	return k, version
}

// Value is the value of the entry; it is valid until the next move.
func (i *Iterator) Value() ([]byte, error) {
	v, err := i.it.ValueAndErr()
	return v, i.e.readError(err)
}

// ValueLen is the length of the value, which may be known without reading it.
func (i *Iterator) ValueLen() int {
	lv := i.it.LazyValue()
	return lv.Len()
}
