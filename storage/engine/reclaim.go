package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"meridian/host"
	"meridian/keys"
)

// The space of what was deleted is free when a compaction has met the deletion. The engine compacts when many tables overlap at some key (l0Depth), which on a
// small disk may never be: the tables of rows that are gone lie next to those of new ones, and none of them overlaps with another. So the store remembers the spans that
// were cleared, and compacts these while there is little space (engine.EN7).

const (
	// reclaimEvery is how often that is looked at.
	reclaimEvery = 5 * time.Second
	// lowShare: there is little space while less than this many times the reserve is free.
	lowShare = 2
	// reclaimLeast is the number of bytes that are worth the compaction of a span, and reclaimShare the part of the reserve that all of them have to have together.
	reclaimLeast = 32 << 10
	reclaimShare = 128
	// freedMost bounds the spans that are remembered.
	freedMost = 1024
)

// freed are spans in which all was deleted, in the order of their keys, apart from one another. Later writes there do no harm: a compaction keeps them.
type freed struct {
	mu     sync.Mutex // guards spans; nothing is taken after it
	spans  []keys.Span
	wanted chan struct{}
	tried  atomic.Bool // the spans have just been compacted
}

// add remembers spans.
func (f *freed) add(spans []keys.Span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range spans {
		f.insert(s.Start, s.Stop())
	}
	// Neighbours become one, with what is between them.
	for len(f.spans) > freedMost {
		out := f.spans[:0]
		for i := 0; i < len(f.spans); i += 2 {
			s := f.spans[i]
			if i+1 < len(f.spans) {
				s.End = f.spans[i+1].End
			}
			out = append(out, s)
		}
		clear(f.spans[len(out):])
		f.spans = out
	}
}

func (f *freed) insert(start, end keys.Key) {
	// All from at to n touch the new one.
	at, _ := slices.BinarySearchFunc(f.spans, start, func(s keys.Span, k keys.Key) int { return bytes.Compare(s.End, k) })
	n := at
	for ; n < len(f.spans) && bytes.Compare(f.spans[n].Start, end) <= 0; n++ {
		if bytes.Compare(f.spans[n].Start, start) < 0 {
			start = f.spans[n].Start
		}
		if bytes.Compare(f.spans[n].End, end) > 0 {
			end = f.spans[n].End
		}
	}
	f.spans = slices.Replace(f.spans, at, n, keys.Span{Start: start, End: end})
}

// list are the spans now.
func (f *freed) list() []keys.Span {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.spans)
}

// forget takes a span out that was compacted, unless it has grown since.
func (f *freed) forget(s keys.Span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans = slices.DeleteFunc(f.spans, func(o keys.Span) bool { return bytes.Equal(o.Start, s.Start) && bytes.Equal(o.End, s.End) })
}

// Freed says that the batch deletes all keys of a span one by one. ClearSpan says it for its own.
func (b *Batch) Freed(s keys.Span) {
	b.freed = append(b.freed, keys.Span{Start: bytes.Clone(s.Start), End: bytes.Clone(s.Stop())})
}

// freedBy finds the spans that a batch of another store clears.
func (b *Batch) freedBy(repr []byte) {
	if bytes.IndexByte(repr[reprHeader:], byte(pebble.InternalKeyKindRangeDelete)) < 0 {
		return
	}
	var whole pebble.Batch
	if whole.SetRepr(repr) != nil {
		return
	}
	for rd := whole.Reader(); ; {
		kind, start, end, ok, err := rd.Next()
		if err != nil || !ok {
			return
		}
		if kind == pebble.InternalKeyKindRangeDelete && len(start) > 0 && len(end) > 0 {
			b.Freed(keys.Span{Start: start[:len(start)-1], End: end[:len(end)-1]})
		}
	}
}

// watchFreed compacts what was deleted while there is little space, and before new data is refused.
func (e *Engine) watchFreed(clk host.Clock) {
	e.group.Go(func(ctx context.Context) {
		for clk.Sleep(ctx, reclaimEvery) == nil {
			if e.space.low.Load() || e.Pressed() {
				e.space.freed.ask()
			}
		}
	})
	e.group.Go(func(ctx context.Context) {
		for {
			select {
			case <-e.space.freed.wanted:
				e.reclaim(ctx)
				e.space.freed.tried.Store(true)
				e.checkDisk()
				e.space.freed.tried.Store(false)
			case <-ctx.Done():
				return
			}
		}
	})
}

// ask has the spans compacted soon.
func (f *freed) ask() {
	select {
	case f.wanted <- struct{}{}:
	default:
	}
}

// first reports whether what was deleted is to be compacted before the disk counts as nearly full, and has that done.
func (f *freed) first() bool {
	if f.tried.Load() || len(f.list()) == 0 {
		return false
	}
	f.ask()
	return true
}

// reclaim compacts the spans in which much was deleted, if that gives enough space back.
func (e *Engine) reclaim(ctx context.Context) {
	var due []keys.Span
	total := uint64(0)
	for _, s := range e.space.freed.list() {
		n, err := e.EstimateBytes(s)
		if err != nil {
			return
		}
		if n >= reclaimLeast {
			due, total = append(due, s), total+n
		}
	}
	if total < uint64(e.opts.ReserveBytes)/reclaimShare {
		return
	}
	for _, s := range due {
		if ctx.Err() != nil || e.Failure() != nil || !e.fits(total) {
			return
		}
		if err := e.Compact(ctx, s); err != nil {
			e.log.Info("store: deleted data keeps its space for now", "dir", e.dir, "span", s.String(), "err", err)
			return
		}
		e.space.freed.forget(s)
		e.space.reclaimed.Add(1)
	}
}

// fits reports whether the disk has room for the tables that a compaction writes before those go away that it has read: level 0 and the one below, without what was deleted. A
// compaction that finds the disk full would have deletions refused (engine.EN5).
func (e *Engine) fits(deleted uint64) bool {
	u, err := e.fs.GetDiskUsage(e.dir)
	if err != nil {
		return false
	}
	m := e.db.Metrics()
	writes := uint64(m.Levels[0].TablesSize)
	for i := 1; i < len(m.Levels); i++ {
		if n := m.Levels[i].TablesSize; n > 0 {
			writes += uint64(n)
			break
		}
	}
	return u.AvailBytes > writes-min(writes, deleted)
}
