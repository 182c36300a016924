package tscache

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

const (
	shards = 64 // a power of two; enough that two processors seldom meet
	ways   = 8
	// minSets is a shard's first table: 64 shards of 16 sets are 350 kB.
	minSets = 16
)

// Options bound a cache.
type Options struct {
	// MaxPoints bounds the single keys remembered; zero is 128 Ki, of 40 bytes each.
	MaxPoints int
	// MaxSpans bounds the scanned segments remembered in each of two pages; zero is 8 Ki.
	MaxSpans int
	// Retention is the age below which an entry is rather kept by growing than forgotten; zero is 10 s.
	Retention time.Duration
}

// Cache is a store's timestamp cache. All methods may be called concurrently.
type Cache struct {
	opts    Options
	maxSets int
	shards  [shards]shard
	spans   spanCache
	floor   atomicTimestamp // low water of all keys
}

type entry struct {
	hash uint64
	at   clock.Timestamp
	owns kv.TxnID
}

type set struct {
	floor clock.Timestamp
	n     int
	entry [ways]entry
}

type shard struct {
	mu   sync.Mutex // guards the fields below; nothing is taken after it
	sets []set
	_    [64]byte // keeps neighbours out of one cache line
}

// atomicTimestamp grows; it is read without a lock.
type atomicTimestamp struct {
	p atomic.Pointer[clock.Timestamp]
}

func (a *atomicTimestamp) load() clock.Timestamp {
	if p := a.p.Load(); p != nil {
		return *p
	}
	return clock.Timestamp{}
}

func (a *atomicTimestamp) forward(t clock.Timestamp) {
	for {
		p := a.p.Load()
		if p != nil && t.LessEq(*p) {
			return
		}
		if a.p.CompareAndSwap(p, &t) {
			return
		}
	}
}

// New makes a cache that has seen no read; low is a timestamp at or above every read that it should have seen.
func New(o Options, low clock.Timestamp) *Cache {
	if o.MaxPoints == 0 {
		o.MaxPoints = 128 << 10
	}
	if o.MaxSpans == 0 {
		o.MaxSpans = 8 << 10
	}
	if o.Retention == 0 {
		o.Retention = 10 * time.Second
	}
	c := &Cache{opts: o, maxSets: 1}
	for c.maxSets*2*ways*shards <= o.MaxPoints {
		c.maxSets *= 2
	}
	c.floor.forward(low)
	c.spans.init(o.MaxSpans)
	return c
}

// hashKey names a key in the table. The top bits choose the shard, the bottom ones the set.
func hashKey(k []byte) uint64 {
	const m1, m2 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	h := uint64(len(k)) * m1
	for len(k) >= 8 {
		hi, lo := bits.Mul64(h^binary.LittleEndian.Uint64(k), m1)
		h = bits.RotateLeft64(hi^lo, 23) ^ m2
		k = k[8:]
	}
	var tail uint64
	for _, b := range k {
		tail = tail<<8 | uint64(b)
	}
	hi, lo := bits.Mul64(h^tail, m2)
	h = hi ^ lo
	h ^= h >> 29
	return h * m1
}

func merge(at *clock.Timestamp, owner *kv.TxnID, t clock.Timestamp, by kv.TxnID) {
	switch at.Compare(t) {
	case -1:
		*at, *owner = t, by
	case 0:
		if *owner != by {
			*owner = kv.TxnID{}
		}
	}
}

// Add remembers that a key was read at a timestamp by a transaction (zero: by none, or by several).
func (c *Cache) Add(k keys.Key, at clock.Timestamp, by kv.TxnID) { c.add(hashKey(k), at, by) }

// Mark remembers that something was done about a transaction, at a timestamp; own says that it was the transaction
// itself.
func (c *Cache) Mark(id kv.TxnID, at clock.Timestamp, own bool) {
	h := hashKey(id[:])
	if !own {
		id = kv.TxnID{}
	}
	c.add(h, at, id)
}

// Marked answers the latest timestamp at which the transaction may have been marked, and whether it certainly was,
// by itself. tscache.T1 and tscache.T2 hold for it as for keys.
func (c *Cache) Marked(id kv.TxnID) (at clock.Timestamp, own bool) {
	at, owner := c.point(hashKey(id[:]))
	return at, owner == id
}

func (c *Cache) add(h uint64, at clock.Timestamp, by kv.TxnID) {
	s := &c.shards[h>>(64-6)]
	s.mu.Lock()
	if s.sets == nil {
		s.sets = make([]set, min(minSets, c.maxSets))
	}
	for !s.add(h, at, by, c) {
		s.grow()
	}
	s.mu.Unlock()
}

// add reports false if the shard should grow first.
func (s *shard) add(h uint64, at clock.Timestamp, by kv.TxnID, c *Cache) bool {
	w := &s.sets[h&uint64(len(s.sets)-1)]
	for i := 0; i < w.n; i++ {
		if e := &w.entry[i]; e.hash == h {
			merge(&e.at, &e.owns, at, by)
			return true
		}
	}
	if w.n < ways {
		w.entry[w.n] = entry{hash: h, at: at, owns: by}
		w.n++
		return true
	}
	old := 0
	for i := 1; i < ways; i++ {
		if w.entry[i].at.Less(w.entry[old].at) {
			old = i
		}
	}
	e := &w.entry[old]
	if at.Less(e.at) {
		w.floor = w.floor.Forward(at)
		return true
	}
	if len(s.sets) < c.maxSets && at.Wall-e.at.Wall < int64(c.opts.Retention) {
		return false
	}
	w.floor = w.floor.Forward(e.at)
	*e = entry{hash: h, at: at, owns: by}
	return true
}

// grow doubles the shard. Each old set's floor holds for both of its heirs.
func (s *shard) grow() {
	old := s.sets
	s.sets = make([]set, 2*len(old))
	for i := range old {
		a, b := &s.sets[i], &s.sets[i+len(old)]
		a.floor, b.floor = old[i].floor, old[i].floor
		for _, e := range old[i].entry[:old[i].n] {
			w := a
			if e.hash&uint64(len(old)) != 0 {
				w = b
			}
			w.entry[w.n] = e
			w.n++
		}
	}
}

// AddSpan remembers a read of a span.
func (c *Cache) AddSpan(span keys.Span, at clock.Timestamp, by kv.TxnID) {
	if span.Point() {
		c.Add(span.Start, at, by)
		return
	}
	c.spans.add(span, at, by)
}

// AddLowWater makes every key read at a timestamp.
func (c *Cache) AddLowWater(at clock.Timestamp) { c.floor.forward(at) }

// Max answers for one key (tscache.T1, tscache.T2).
func (c *Cache) Max(k keys.Key) (at clock.Timestamp, owner kv.TxnID) {
	at, owner = c.point(hashKey(k))
	c.spans.max(k, &at, &owner)
	return at, owner
}

func (c *Cache) point(h uint64) (at clock.Timestamp, owner kv.TxnID) {
	at = c.floor.load()
	s := &c.shards[h>>(64-6)]
	s.mu.Lock()
	if s.sets != nil {
		w := &s.sets[h&uint64(len(s.sets)-1)]
		merge(&at, &owner, w.floor, kv.TxnID{})
		for i := 0; i < w.n; i++ {
			if e := &w.entry[i]; e.hash == h {
				merge(&at, &owner, e.at, e.owns)
				break
			}
		}
	}
	s.mu.Unlock()
	return at, owner
}

// Points is the number of single keys remembered.
func (c *Cache) Points() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for j := range s.sets {
			n += s.sets[j].n
		}
		s.mu.Unlock()
	}
	return n
}

// Latest is at or above every timestamp that was added. It looks at everything.
func (c *Cache) Latest() (at clock.Timestamp) {
	at = c.floor.load()
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for j := range s.sets {
			w := &s.sets[j]
			at = at.Forward(w.floor)
			for _, e := range w.entry[:w.n] {
				at = at.Forward(e.at)
			}
		}
		s.mu.Unlock()
	}
	c.spans.mu.RLock()
	defer c.spans.mu.RUnlock()
	return at.Forward(c.spans.floor).Forward(c.spans.now.max).Forward(c.spans.old.max)
}
