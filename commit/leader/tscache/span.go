package tscache

import (
	"bytes"
	"sync"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// segment is a piece of the keyspace that was read as a whole.
type segment struct {
	start, end keys.Key
	at         clock.Timestamp
	owner      kv.TxnID
}

func lessSegment(a, b segment) bool { return bytes.Compare(a.start, b.start) < 0 }

// page is a set of disjoint segments.
type page struct {
	tree *btree.BTreeG[segment]
	max  clock.Timestamp
}

func newPage() page { return page{tree: btree.NewG(16, lessSegment)} }

type spanCache struct {
	mu       sync.RWMutex // guards all below; nothing is taken after it
	limit    int
	now, old page
	floor    clock.Timestamp
}

func (c *spanCache) init(limit int) { c.limit, c.now, c.old = limit, newPage(), newPage() }

func (c *spanCache) add(span keys.Span, at clock.Timestamp, by kv.TxnID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Less(c.floor) {
		return
	}
	c.now.add(span, at, by)
	if c.now.tree.Len() > c.limit {
		c.floor = c.floor.Forward(c.old.max)
		c.old, c.now = c.now, newPage()
	}
}

// add overlays the page with a span: what is later stays, what is earlier is replaced, gaps are filled.
func (p *page) add(span keys.Span, at clock.Timestamp, by kv.TxnID) {
	p.max = p.max.Forward(at)
	start, end := append(keys.Key(nil), span.Start...), append(keys.Key(nil), span.End...)
	var met []segment
	p.tree.DescendLessOrEqual(segment{start: start}, func(s segment) bool {
		if bytes.Compare(s.end, start) > 0 {
			met = append(met, s)
		}
		return false
	})
	p.tree.AscendGreaterOrEqual(segment{start: start}, func(s segment) bool {
		if bytes.Compare(s.start, end) >= 0 {
			return false
		}
		if len(met) == 0 || !s.start.Equal(met[0].start) {
			met = append(met, s)
		}
		return true
	})
	var pieces []segment
	put := func(s segment) {
		if bytes.Compare(s.start, s.end) >= 0 {
			return
		}
		if n := len(pieces); n > 0 && pieces[n-1].end.Equal(s.start) && pieces[n-1].at == s.at &&
			pieces[n-1].owner == s.owner {
			pieces[n-1].end = s.end
			return
		}
		pieces = append(pieces, s)
	}
	at0 := start // everything before it is settled
	for _, s := range met {
		p.tree.Delete(s)
		if s.start.Less(start) {
			put(segment{s.start, start, s.at, s.owner})
		} else {
			put(segment{at0, s.start, at, by})
			at0 = s.start
		}
		stop := s.end
		if end.Less(stop) {
			stop = end
		}
		mid := segment{at0, stop, s.at, s.owner}
		merge(&mid.at, &mid.owner, at, by)
		put(mid)
		if end.Less(s.end) {
			put(segment{end, s.end, s.at, s.owner})
		}
		at0 = stop
	}
	put(segment{at0, end, at, by})
	for _, s := range pieces {
		p.tree.ReplaceOrInsert(s)
	}
}

func (p *page) get(k keys.Key, at *clock.Timestamp, owner *kv.TxnID) {
	if p.max.Less(*at) || p.tree.Len() == 0 {
		return
	}
	p.tree.DescendLessOrEqual(segment{start: k}, func(s segment) bool {
		if bytes.Compare(k, s.end) < 0 {
			merge(at, owner, s.at, s.owner)
		}
		return false
	})
}

func (c *spanCache) max(k keys.Key, at *clock.Timestamp, owner *kv.TxnID) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	merge(at, owner, c.floor, kv.TxnID{})
	c.now.get(k, at, owner)
	c.old.get(k, at, owner)
}
