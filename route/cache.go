package route

import (
	"bytes"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
)

// maxCached bounds the cached ranges; a gateway of a cluster with more of them repeats some lookups.
const maxCached = 100_000

// entry is a cached range. Only its leaseholder changes, and what is known of its replicas.
type entry struct {
	desc  *kv.RangeDescriptor
	lease atomic.Uint32 // kv.NodeID; zero: not known
	// behind is the last follower that had not closed a requested timestamp.
	behind atomic.Pointer[behind]
	// leads says that the leaseholder's last answer was that the range closes the future (kv.BatchResponse.Leads).
	leads atomic.Bool
}

func (e *entry) leaseholder() kv.NodeID { return kv.NodeID(e.lease.Load()) }

func (e *entry) setLeaseholder(n kv.NodeID) {
	if e.lease.Load() != uint32(n) {
		e.lease.Store(uint32(n))
	}
}

// forget clears the leaseholder if it is still n.
func (e *entry) forget(n kv.NodeID) { e.lease.CompareAndSwap(uint32(n), 0) }

// cache has the ranges that the gateway knows: disjoint, in key order. Readers take no lock.
type cache struct {
	entries atomic.Pointer[[]*entry]
	others  atomic.Int64 // the entries of other protocols than the leader's
	mu      sync.Mutex   // serialises writers; nothing is taken after it
}

func (c *cache) load() []*entry {
	if p := c.entries.Load(); p != nil {
		return *p
	}
	return nil
}

// find returns the range that contains k, nil if it is not cached.
func (c *cache) find(k keys.Key) *entry {
	l := c.load()
	lo, hi := 0, len(l)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if bytes.Compare(l[m].desc.Start, k) <= 0 {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == 0 || bytes.Compare(k, l[lo-1].desc.End) >= 0 {
		return nil
	}
	return l[lo-1]
}

// findBefore returns the range that contains the keys just before k.
func (c *cache) findBefore(k keys.Key) *entry {
	l := c.load()
	i := sort.Search(len(l), func(i int) bool { return bytes.Compare(l[i].desc.Start, k) >= 0 })
	if i == 0 || bytes.Compare(k, l[i-1].desc.End) > 0 {
		return nil
	}
	return l[i-1]
}

// insert caches descriptors, unless newer ones of their keys are cached (route.RO1). It reports whether any was
// new.
func (c *cache) insert(infos ...kv.RangeInfo) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := false
	for i := range infos {
		if c.insertLocked(&infos[i]) {
			changed = true
		}
	}
	return changed
}

func (c *cache) insertLocked(info *kv.RangeInfo) bool {
	d := &info.Desc
	if d.ID == 0 || d.Start.Compare(d.End) >= 0 {
		return false
	}
	l := c.load()
	// Those that overlap d are l[i:j].
	i := sort.Search(len(l), func(i int) bool { return bytes.Compare(l[i].desc.End, d.Start) > 0 })
	j := i + sort.Search(len(l)-i, func(n int) bool { return bytes.Compare(l[i+n].desc.Start, d.End) >= 0 })
	lease, leads := info.Leaseholder.Node, false
	for _, e := range l[i:j] {
		leads = leads || e.leads.Load() // a part of it, most likely; otherwise the leaseholder says so
		switch {
		case e.desc.Generation > d.Generation:
			return false
		case e.desc.ID == d.ID && e.desc.Generation == d.Generation:
			if lease != 0 && lease != e.leaseholder() {
				e.setLeaseholder(lease)
				return true
			}
			return false
		case e.desc.ID == d.ID && lease == 0:
			if _, ok := d.Replica(e.leaseholder()); ok {
				lease = e.leaseholder()
			}
		}
	}
	e := &entry{desc: d.Clone()}
	e.setLeaseholder(lease)
	e.leads.Store(leads)
	var out []*entry
	if len(l) >= maxCached {
		out = []*entry{e}
	} else {
		out = make([]*entry, 0, len(l)-(j-i)+1)
		out = append(append(append(out, l[:i]...), e), l[j:]...)
	}
	c.store(out)
	return true
}

// evict removes one range.
func (c *cache) evict(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.load()
	i := slices.Index(l, e)
	if i < 0 {
		return
	}
	out := make([]*entry, 0, len(l)-1)
	out = append(append(out, l[:i]...), l[i+1:]...)
	c.store(out)
}

// store takes over another list, and counts the ranges of other protocols.
func (c *cache) store(l []*entry) {
	others := int64(0)
	for _, e := range l {
		if !protocol.Leased(e.desc.Protocol) {
			others++
		}
	}
	c.entries.Store(&l)
	c.others.Store(others)
}
