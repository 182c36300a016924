package core

import (
	"sync"

	"meridian/clock"
	"meridian/commit/leader/tscache"
	"meridian/keys"
	"meridian/kv"
)

// Mark is what was promised to readers at a timestamp: that no option at or below it is accepted any more, but for those at it of the reader's own transaction.
type Mark struct {
	At clock.Timestamp
	By kv.TxnID // zero: several
}

// bars reports whether an option comes too late.
func (m Mark) bars(o *Option) bool {
	c := o.At.Compare(m.At)
	return c < 0 || c == 0 && !m.At.IsZero() && o.Txn != m.By
}

// join is what keeps both promises.
func (m Mark) join(o Mark) Mark {
	switch c := m.At.Compare(o.At); {
	case c < 0:
		return o
	case c == 0 && m.By != o.By:
		m.By = kv.TxnID{}
	}
	return m
}

// Name names the promise among what a master is asked for. No option has the name.
func (m Mark) Name() Name {
	n := Name{Txn: m.By, At: m.At}
	n.Txn[0] ^= 0xff
	return n
}

// MarkOf is the mark that has a name in petitions (Mark.Name).
func MarkOf(n Name) Mark {
	n.Txn[0] ^= 0xff
	return Mark{At: n.At, By: n.Txn}
}

// Marks are the promises of all replicas of a node. Those of an earlier process of the node were below its clock, and so below StartedAt of this one (Acceptor.low).
type Marks struct {
	once  sync.Once
	cache *tscache.Cache // nil before the first promise; once sets it
	mu    sync.Mutex     // guards the use of cache; nothing is taken after it
}

// Add adds a promise to the reader of some keys, or of the part of a span that was read.
func (m *Marks) Add(q *Look, read keys.Span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.once.Do(func() { m.cache = tscache.New(tscache.Options{MaxPoints: 16 << 10}, clock.Timestamp{}) })
	for _, k := range q.Keys {
		m.cache.Add(k, q.At, q.By)
	}
	if q.Keys == nil && read.Start.Less(read.End) {
		m.cache.AddSpan(read, q.At, q.By)
	}
}

// latest is at or above all of them.
func (m *Marks) latest() clock.Timestamp {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache == nil {
		return clock.Timestamp{}
	}
	return m.cache.Latest()
}

func (m *Marks) of(k keys.Key) (out Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache != nil {
		out.At, out.By = m.cache.Max(k)
	}
	return out
}
