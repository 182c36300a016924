package transaction

import (
	"bytes"
	"slices"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// version is one write of a key; a nil value is a deletion.
type version struct {
	seq   kv.Seq
	value []byte
}

// entry is all buffered writes of a key, oldest first.
type entry struct {
	key      keys.Key
	versions []version
	inline   [1]version
	// conditional says that the commit has to check that the value below the buffer is expected.
	conditional bool
	expected    []byte
	// seen is when what the first version replaces was seen (coordinator.CO6).
	seen clock.Timestamp
	// sums are the versions that add to the one before; nil: none does.
	sums []sum
}

// sum is what a version adds.
type sum struct {
	seq    kv.Seq
	deltas []Delta
}

// deltas are what all versions together add; nil if one of them does not.
func (e *entry) deltas() (out []Delta) {
	if e.sums == nil {
		return nil
	}
	for _, v := range e.versions {
		i := slices.IndexFunc(e.sums, func(s sum) bool { return s.seq == v.seq })
		if i < 0 {
			return nil
		}
		out = append(out, e.sums[i].deltas...)
	}
	return out
}

func lessEntry(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }

// tombstone is a buffered deletion of a span.
type tombstone struct {
	span keys.Span
	seq  kv.Seq
}

// smallBuffer is the number of keys up to which a sorted slice does.
const smallBuffer = 32

// buffer holds writes until they are sent: in key order, first in a slice, and in a tree once there are many.
type buffer struct {
	small      []*entry
	tree       *btree.BTreeG[*entry]
	tombstones []tombstone
	bytes      int
}

func (b *buffer) empty() bool { return b.len() == 0 && len(b.tombstones) == 0 }

func (b *buffer) len() int {
	if b.tree == nil {
		return len(b.small)
	}
	return b.tree.Len()
}

func (b *buffer) reset() {
	*b = buffer{}
}

// search finds the place of a key in the slice.
func (b *buffer) search(k keys.Key) (int, bool) {
	lo, hi := 0, len(b.small)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if c := bytes.Compare(b.small[m].key, k); c == 0 {
			return m, true
		} else if c < 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo, false
}

func (b *buffer) find(k keys.Key) *entry {
	if b.tree != nil {
		e, _ := b.tree.Get(&entry{key: k})
		return e
	}
	if i, ok := b.search(k); ok {
		return b.small[i]
	}
	return nil
}

func (b *buffer) insert(e *entry) {
	if b.tree == nil && len(b.small) < smallBuffer {
		i, _ := b.search(e.key)
		b.small = slices.Insert(b.small, i, e)
		return
	}
	if b.tree == nil {
		b.tree = btree.NewG(16, lessEntry)
		for _, x := range b.small {
			b.tree.ReplaceOrInsert(x)
		}
		b.small = nil
	}
	b.tree.ReplaceOrInsert(e)
}

func (b *buffer) remove(e *entry) {
	if b.tree != nil {
		b.tree.Delete(e)
	} else if i, ok := b.search(e.key); ok {
		b.small = slices.Delete(b.small, i, i+1)
	}
}

// all calls f for each key in order.
func (b *buffer) all(f func(*entry) bool) {
	if b.tree != nil {
		b.tree.Ascend(f)
		return
	}
	for _, e := range b.small {
		if !f(e) {
			return
		}
	}
}

// next is the first key of the tree from a key on, nil if there is none.
func (b *buffer) next(from keys.Key) (k keys.Key) {
	b.tree.AscendGreaterOrEqual(&entry{key: from}, func(e *entry) bool {
		k = e.key
		return false
	})
	return k
}

// ends are the first and the last key; there must be one.
func (b *buffer) ends() (lo, hi *entry) {
	if b.tree == nil {
		return b.small[0], b.small[len(b.small)-1]
	}
	lo, _ = b.tree.Min()
	hi, _ = b.tree.Max()
	return lo, hi
}

// put adds a version and returns its entry. Sequence numbers grow.
func (b *buffer) put(k keys.Key, v []byte, seq kv.Seq) *entry {
	b.bytes += len(v) + 16
	if e := b.find(k); e != nil {
		e.versions = append(e.versions, version{seq, v})
		return e
	}
	b.bytes += len(k) + 64
	e := &entry{key: k, inline: [1]version{{seq, v}}}
	e.versions = e.inline[:1:1]
	b.insert(e)
	return e
}

func (b *buffer) deleteRange(s keys.Span, seq kv.Seq) {
	b.bytes += len(s.Start) + len(s.End) + 64
	b.tombstones = append(b.tombstones, tombstone{s, seq})
}

// covered returns the newest deletion up to seq of a span with k, zero if there is none.
func (b *buffer) covered(k keys.Key, seq kv.Seq) kv.Seq {
	for i := len(b.tombstones) - 1; i >= 0; i-- {
		if t := &b.tombstones[i]; t.seq <= seq && t.span.Contains(k) {
			return t.seq
		}
	}
	return 0
}

// at is what e says of its key at seq: found is false if it says nothing.
func (e *entry) at(seq kv.Seq) (v version, found bool) {
	for i := len(e.versions) - 1; i >= 0; i-- {
		if e.versions[i].seq <= seq {
			return e.versions[i], true
		}
	}
	return version{}, false
}

// get is what the buffer says of a key at seq. found with a nil value is a deletion.
func (b *buffer) get(k keys.Key, seq kv.Seq) (value []byte, found bool) {
	var v version
	if e := b.find(k); e != nil {
		v, found = e.at(seq)
	}
	if t := b.covered(k, seq); t > v.seq {
		return nil, true
	}
	return v.value, found
}

// touches reports whether the buffer has anything to say within a span.
func (b *buffer) touches(s keys.Span) bool {
	for i := range b.tombstones {
		if b.tombstones[i].span.Overlaps(s) {
			return true
		}
	}
	found := false
	b.ascend(s, func(*entry) bool { found = true; return false })
	return found
}

func (b *buffer) ascend(s keys.Span, f func(*entry) bool) {
	if s.Point() {
		if e := b.find(s.Start); e != nil {
			f(e)
		}
		return
	}
	if b.tree != nil {
		b.tree.AscendRange(&entry{key: s.Start}, &entry{key: s.End}, f)
		return
	}
	i, _ := b.search(s.Start)
	for ; i < len(b.small) && bytes.Compare(b.small[i].key, s.End) < 0; i++ {
		if !f(b.small[i]) {
			return
		}
	}
}

// overlay applies the buffer at seq to rows, which are all rows of the ranges within s, in key order or against it.
// rows may be reordered.
func (b *buffer) overlay(rows []kv.KeyValue, s keys.Span, reverse bool, seq kv.Seq) []kv.KeyValue {
	if b.empty() || !b.touches(s) {
		return rows
	}
	// Rows and entries are merged in key order; a reverse scan is turned round before and after.
	if reverse {
		slices.Reverse(rows)
	}
	out := make([]kv.KeyValue, 0, len(rows)+8)
	i := 0
	below := func(r *kv.KeyValue) {
		if b.covered(r.Key, seq) == 0 {
			out = append(out, *r)
		}
	}
	b.ascend(s, func(e *entry) bool {
		for i < len(rows) && bytes.Compare(rows[i].Key, e.key) < 0 {
			below(&rows[i])
			i++
		}
		v, found := e.at(seq)
		if !found {
			return true // the row, if any, follows as an ordinary one
		}
		if i < len(rows) && bytes.Equal(rows[i].Key, e.key) {
			i++
		}
		if v.value != nil && b.covered(e.key, seq) < v.seq {
			out = append(out, kv.KeyValue{Key: e.key, Value: v.value})
		}
		return true
	})
	for ; i < len(rows); i++ {
		below(&rows[i])
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

// rollback forgets all writes after seq.
func (b *buffer) rollback(seq kv.Seq) {
	b.tombstones = slices.DeleteFunc(b.tombstones, func(t tombstone) bool { return t.seq > seq })
	var gone []*entry
	b.all(func(e *entry) bool {
		for n := len(e.versions); n > 0 && e.versions[n-1].seq > seq; n-- {
			b.bytes -= len(e.versions[n-1].value) + 16
			e.versions[n-1] = version{}
			e.versions = e.versions[:n-1]
		}
		if len(e.versions) == 0 {
			gone = append(gone, e)
		}
		return true
	})
	for _, e := range gone {
		b.bytes -= len(e.key) + 64
		b.remove(e)
	}
}

// take removes the entries of the keys that f is true of. No deletion of a span lies over them.
func (b *buffer) take(f func(keys.Key) bool) (out []*entry) {
	b.all(func(e *entry) bool {
		if f(e.key) {
			out = append(out, e)
		}
		return true
	})
	for _, e := range out {
		b.bytes -= e.bytes()
		b.remove(e)
	}
	return out
}

// putBack undoes take.
func (b *buffer) putBack(entries []*entry) {
	for _, e := range entries {
		b.bytes += e.bytes()
		b.insert(e)
	}
}

func (e *entry) bytes() int {
	n := len(e.key) + 64
	for _, v := range e.versions {
		n += len(v.value) + 16
	}
	return n
}

// newest is the last write of the key.
func (e *entry) newest() Write {
	v := e.versions[len(e.versions)-1]
	return Write{Key: e.key, Value: v.value, Seq: v.seq, Conditional: e.conditional, Expected: e.expected, Seen: e.seen, Deltas: e.deltas()}
}

// requests turns the buffer into what has to be sent: first the range deletions, then the newest version of each
// key that they do not cover. spare is the number of further requests that the caller will append.
func (b *buffer) requests(spare int) []kv.Request {
	reqs := make([]kv.Request, 0, len(b.tombstones)+b.len()+spare)
	for i := range b.tombstones {
		t := &b.tombstones[i]
		reqs = append(reqs, &kv.DeleteRangeRequest{Start: t.span.Start, End: t.span.End, Seq: t.seq})
	}
	puts := make([]kv.PutRequest, 0, min(b.len(), 1024))
	b.all(func(e *entry) bool {
		v := e.versions[len(e.versions)-1]
		switch {
		case len(b.tombstones) > 0 && b.covered(e.key, ^kv.Seq(0)) > v.seq:
			// deleted by a request above
		case e.conditional:
			reqs = append(reqs, &kv.CPutRequest{Key: e.key, Value: v.value, Expected: e.expected, Seq: v.seq})
		case v.value == nil:
			reqs = append(reqs, &kv.DeleteRequest{Key: e.key, Seq: v.seq, Seen: e.seen})
		default:
			if len(puts) == cap(puts) {
				puts = make([]kv.PutRequest, 0, 1024)
			}
			puts = append(puts, kv.PutRequest{Key: e.key, Value: v.value, Seq: v.seq, Seen: e.seen})
			reqs = append(reqs, &puts[len(puts)-1])
		}
		return true
	})
	return reqs
}

// history turns the buffer into requests for every version and tombstone, because what is sent before the commit must be
// able to go back to a savepoint, and to hide what the running statement wrote. The order is that of the keys and then
// of the numbers; with tombstones, which may lie over any key, that of the numbers alone.
func (b *buffer) history() []kv.Request {
	if len(b.tombstones) == 0 {
		reqs := make([]kv.Request, 0, b.len())
		b.all(func(e *entry) bool {
			for _, v := range e.versions {
				reqs = append(reqs, e.request(v))
			}
			return true
		})
		return reqs
	}
	type numbered struct {
		seq kv.Seq
		r   kv.Request
	}
	all := make([]numbered, 0, len(b.tombstones)+b.len())
	for i := range b.tombstones {
		t := &b.tombstones[i]
		all = append(all, numbered{t.seq, &kv.DeleteRangeRequest{Start: t.span.Start, End: t.span.End, Seq: t.seq}})
	}
	b.all(func(e *entry) bool {
		for _, v := range e.versions {
			all = append(all, numbered{v.seq, e.request(v)})
		}
		return true
	})
	slices.SortFunc(all, func(x, y numbered) int { return int(int64(x.seq) - int64(y.seq)) })
	reqs := make([]kv.Request, len(all))
	for i := range all {
		reqs[i] = all[i].r
	}
	return reqs
}

func (e *entry) request(v version) kv.Request {
	if v.value == nil {
		return &kv.DeleteRequest{Key: e.key, Seq: v.seq, Seen: e.seen}
	}
	return &kv.PutRequest{Key: e.key, Value: v.value, Seq: v.seq, Seen: e.seen}
}

// bounds are the first and the last address that the buffer writes to; the end of a deleted span counts as one.
func (b *buffer) bounds() (first, last keys.Key) {
	add := func(k keys.Key) {
		if first == nil || k.Less(first) {
			first = k
		}
		if last == nil || last.Less(k) {
			last = k
		}
	}
	for i := range b.tombstones {
		add(b.tombstones[i].span.Start)
		add(b.tombstones[i].span.End)
	}
	if b.len() == 0 {
		return first, last
	}
	lo, hi := b.ends()
	if keys.IsLocal(lo.key) {
		b.all(func(e *entry) bool {
			add(keys.Addr(e.key))
			return true
		})
		return first, last
	}
	add(lo.key)
	add(hi.key)
	return first, last
}
