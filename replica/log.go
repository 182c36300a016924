package replica

import (
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/wire"
)

// Every log begins after this entry, which no replica has: a range's first state counts as a raft snapshot at it.
const (
	initialIndex = 10
	initialTerm  = 5
)

// logCacheBytes bounds the entries kept in memory for each replica once they are applied; peers that fall further
// behind are served from the engine.
const logCacheBytes = 256 << 10

// raftLog is the replica's log as raft reads it (raft.Storage). Callers hold the replica.
//
//	   truncated          cacheFirst            last
//	      |                   |                   |
//	[gone]|---- on disk only -|-- disk and cache -|
type raftLog struct {
	rangeID   kv.RangeID
	engine    *engine.Engine
	truncated position
	last      position
	hard      hardState
	written   uint64 // the commit index that the engine has
	confState func() *raftpb.ConfState
	// snapshotAt describes the state a raft snapshot taken now would have.
	snapshotAt func() *raftpb.Snapshot

	cache      []*raftpb.Entry
	cacheFirst uint64
	cacheBytes int
	bytes      int64 // of all entries since the replica was opened, less what was truncated: an estimate
}

// position is an index of the log and its term.
type position struct{ index, term uint64 }

// hardState is raft's term, vote and commit index.
type hardState struct{ term, vote, commit uint64 }

func (h hardState) append(b []byte) []byte { return wire.Append(b, &h, (*hardState).fields) }

func (h *hardState) fields(c *wire.Coder) {
	c.Message("replica.HardState", wire.Refuses)
	wire.Uint64(c, 1, &h.term)
	wire.Uint64(c, 3, &h.vote)
	wire.Uint64(c, 5, &h.commit)
}

func (p position) append(b []byte) []byte { return wire.Append(b, &p, (*position).fields) }

func (p *position) fields(c *wire.Coder) {
	c.Message("replica.Position", wire.Refuses)
	wire.Uint64(c, 1, &p.index)
	wire.Uint64(c, 3, &p.term)
}

// appliedState is the state that changes with every applied command, in the same engine batch.
type appliedState struct {
	laterState
	position
	leaseIndex uint64
	closed     clock.Timestamp
	stats      Stats
}

func (a *appliedState) append(b []byte) []byte { return wire.Append(b, a, (*appliedState).fields) }

// fields declares the message. It is part of what replicas compare, so it is the same in all of them.
func (a *appliedState) fields(c *wire.Coder) {
	c.Message("replica.AppliedState", wire.Refuses)
	wire.Uint64(c, 1, &a.index)
	wire.Uint64(c, 3, &a.term)
	wire.Uint64(c, 5, &a.leaseIndex)
	c.Timestamp(7, &a.closed)
	wire.One(c, 9, &a.stats, (*Stats).Fields)
	a.laterState.fields(c)
}

func decodeAppliedState(b []byte) (a appliedState, err error) {
	if err = wire.Decode(b, &a, (*appliedState).fields); err == nil && a.index == 0 {
		err = &wire.MalformedError{Message: "replica.AppliedState"} // a replica without a first state
	}
	return a, err
}

// AppliedIn is up to which index a range's log is in what a reader of an engine shows.
func AppliedIn(src engine.Reader, id kv.RangeID) (uint64, error) {
	b, err := src.Get(keys.AppliedStateKey(id))
	if err != nil {
		return 0, err
	}
	a, err := decodeAppliedState(b)
	return a.index, err
}

// gcThreshold is a range's threshold of garbage collection as its replicas store it: alike, since they compare it.
func gcThreshold(t *clock.Timestamp, c *wire.Coder) {
	c.Message("replica.Threshold", wire.Refuses)
	c.Timestamp(1, t)
}

// load reads the log from the engine.
func (l *raftLog) load() error {
	if v, err := l.engine.Get(keys.HardStateKey(l.rangeID)); err != nil {
		return err
	} else if v != nil {
		if l.hard, err = wire.Decoded(v, (*hardState).fields); err != nil {
			return err
		}
	}
	if v, err := l.engine.Get(keys.TruncatedStateKey(l.rangeID)); err != nil {
		return err
	} else if v != nil {
		if l.truncated, err = wire.Decoded(v, (*position).fields); err != nil {
			return err
		}
	}
	l.last = l.truncated
	err := l.read(l.truncated.index+1, math.MaxUint64, func(e *raftpb.Entry, size int) bool {
		l.last = position{e.GetIndex(), e.GetTerm()}
		l.bytes += int64(size)
		return true
	})
	l.cacheFirst = l.last.index + 1
	return err
}

// read calls f with the entries [lo, hi) that the engine has, until f says no or there is a gap.
func (l *raftLog) read(lo, hi uint64, f func(e *raftpb.Entry, size int) bool) error {
	end := keys.RaftLogPrefix(l.rangeID).PrefixEnd()
	if hi != math.MaxUint64 {
		end = keys.RaftLogKey(l.rangeID, hi)
	}
	next := lo
	var bad error
	err := scanRaw(l.engine, keys.Span{Start: keys.RaftLogKey(l.rangeID, lo), End: end}, func(k keys.Key, v []byte) bool {
		_, index, err := keys.DecodeRaftLogKey(k)
		if err != nil {
			bad = err
			return false
		}
		if index != next {
			return false
		}
		next++
		e, err := decodeEntry(index, append([]byte(nil), v...))
		if err != nil {
			bad = err
			return false
		}
		return f(e, entrySize(e))
	})
	if err == nil {
		err = bad
	}
	return err
}

// append adds entries to the batch and the cache. It removes the entries that they replace.
func (l *raftLog) append(b *engine.Batch, ents []*raftpb.Entry) {
	first := ents[0].GetIndex()
	var key, val []byte
	for _, e := range ents {
		key = keys.AppendRaftLogKey(key[:0], l.rangeID, e.GetIndex())
		val = wire.Append(slices.Grow(val[:0], len(e.Data)+32), e, stored)
		b.Put(key, val)
		l.bytes += int64(len(val))
	}
	last := ents[len(ents)-1]
	if first <= l.last.index {
		for i := last.GetIndex() + 1; i <= l.last.index; i++ {
			b.Delete(keys.RaftLogKey(l.rangeID, i))
		}
		l.dropCacheFrom(first)
	}
	if len(l.cache) == 0 || l.cacheFirst+uint64(len(l.cache)) != first {
		l.cache, l.cacheFirst, l.cacheBytes = nil, first, 0
	}
	for _, e := range ents {
		l.cache = append(l.cache, e)
		l.cacheBytes += len(e.Data)
	}
	l.last = position{last.GetIndex(), last.GetTerm()}
}

func (l *raftLog) dropCacheFrom(index uint64) {
	if index <= l.cacheFirst {
		l.cache, l.cacheFirst, l.cacheBytes = nil, index, 0
		return
	}
	n := int(index - l.cacheFirst)
	if n >= len(l.cache) {
		return
	}
	for _, e := range l.cache[n:] {
		l.cacheBytes -= len(e.Data)
	}
	l.cache = l.cache[:n:n]
}

// trim drops applied entries from the cache beyond its bound.
func (l *raftLog) trim(applied uint64) {
	n := 0
	for n < len(l.cache) && (l.cacheBytes > logCacheBytes || len(l.cache)-n > 512) && l.cacheFirst+uint64(n) <= applied {
		l.cacheBytes -= len(l.cache[n].Data)
		n++
	}
	if n == 0 {
		return
	}
	l.cacheFirst += uint64(n)
	if len(l.cache) < 64 || cap(l.cache) > 4*(len(l.cache)-n) {
		l.cache = append([]*raftpb.Entry(nil), l.cache[n:]...)
	} else {
		clear(l.cache[:n])
		l.cache = l.cache[n:]
	}
}

// drop empties the cache, if all of it is applied.
func (l *raftLog) drop(applied uint64) {
	if applied == l.last.index {
		l.cache, l.cacheFirst, l.cacheBytes = nil, l.last.index+1, 0
	}
}

// truncate adds the removal of entries up to an index to the batch.
func (l *raftLog) truncate(b *engine.Batch, to position) {
	if from := l.truncated.index + 1; to.index-l.truncated.index > 200 {
		b.ClearSpan(keys.Span{Start: keys.RaftLogKey(l.rangeID, from), End: keys.RaftLogKey(l.rangeID, to.index+1)})
	} else {
		for i := from; i <= to.index; i++ {
			b.Delete(keys.RaftLogKey(l.rangeID, i))
		}
		b.Freed(keys.Span{Start: keys.RaftLogKey(l.rangeID, from), End: keys.RaftLogKey(l.rangeID, to.index+1)})
	}
	b.Put(keys.TruncatedStateKey(l.rangeID), to.append(nil))
	if n := l.last.index - l.truncated.index; n > 0 {
		l.bytes -= l.bytes / int64(n) * int64(to.index-l.truncated.index)
	}
	l.truncated = to
	if l.cacheFirst <= to.index {
		n := min(int(to.index-l.cacheFirst)+1, len(l.cache))
		for _, e := range l.cache[:n] {
			l.cacheBytes -= len(e.Data)
		}
		l.cache = append([]*raftpb.Entry(nil), l.cache[n:]...)
		l.cacheFirst += uint64(n)
		if len(l.cache) == 0 {
			l.cacheFirst = l.last.index + 1
		}
	}
}

// reset makes the log empty after a raft snapshot.
func (l *raftLog) reset(b *engine.Batch, at position) {
	p := keys.RaftLogPrefix(l.rangeID)
	b.ClearSpan(keys.Span{Start: p, End: p.PrefixEnd()})
	l.truncated, l.last = at, at
	l.cache, l.cacheFirst, l.cacheBytes, l.bytes = nil, at.index+1, 0, 0
	b.Put(keys.TruncatedStateKey(l.rangeID), at.append(nil))
}

// InitialState implements raft.Storage.
func (l *raftLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	hs := &raftpb.HardState{}
	if l.hard != (hardState{}) {
		hs.Term, hs.Vote, hs.Commit = new(l.hard.term), new(l.hard.vote), new(l.hard.commit)
	}
	return hs, l.confState(), nil
}

// Entries implements raft.Storage.
func (l *raftLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo <= l.truncated.index {
		return nil, raft.ErrCompacted
	}
	if hi > l.last.index+1 {
		return nil, raft.ErrUnavailable
	}
	var size uint64
	var out []*raftpb.Entry
	if lo < l.cacheFirst {
		full := false
		err := l.read(lo, min(hi, l.cacheFirst), func(e *raftpb.Entry, n int) bool {
			if size += uint64(n); size > maxSize && len(out) > 0 {
				full = true
				return false
			}
			out = append(out, e)
			return true
		})
		if err != nil {
			return nil, err
		}
		if full || lo+uint64(len(out)) == hi {
			return out, nil
		}
		if lo += uint64(len(out)); lo != l.cacheFirst {
			return nil, raft.ErrUnavailable
		}
	}
	from := lo - l.cacheFirst
	n := from
	for n < hi-l.cacheFirst {
		if size += uint64(entrySize(l.cache[n])); size > maxSize && (len(out) > 0 || n > from) {
			break
		}
		n++
	}
	// A copy, since raft keeps the entries until they are applied, and trim clears the cache's slots before that.
	return append(out, l.cache[from:n]...), nil
}

// Term implements raft.Storage.
func (l *raftLog) Term(i uint64) (uint64, error) {
	switch {
	case i == l.last.index:
		return l.last.term, nil
	case i == l.truncated.index:
		return l.truncated.term, nil
	case i < l.truncated.index:
		return 0, raft.ErrCompacted
	case i > l.last.index:
		return 0, raft.ErrUnavailable
	case i >= l.cacheFirst:
		return l.cache[i-l.cacheFirst].GetTerm(), nil
	}
	var term uint64
	err := l.read(i, i+1, func(e *raftpb.Entry, _ int) bool { term = e.GetTerm(); return false })
	if err == nil && term == 0 {
		err = raft.ErrUnavailable
	}
	return term, err
}

// LastIndex implements raft.Storage.
func (l *raftLog) LastIndex() (uint64, error) { return l.last.index, nil }

// FirstIndex implements raft.Storage.
func (l *raftLog) FirstIndex() (uint64, error) { return l.truncated.index + 1, nil }

// Snapshot implements raft.Storage. The data is sent apart from the raft message, so only the metadata is here.
func (l *raftLog) Snapshot() (*raftpb.Snapshot, error) { return l.snapshotAt(), nil }
