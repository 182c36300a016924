package latch

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Mode is what a latch is for.
type Mode uint8

const (
	// Read latches keep out writers at or below their timestamp.
	Read Mode = iota
	// Write latches keep out every other write latch, and readers at or above their timestamp.
	Write
	// Resolve latches are for removing a committed transaction's lock table entries, whose versions stay as they are. Readers and the
	// writes of other transactions are indifferent to that (latch.L4).
	Resolve
)

// Latch is one span that a request asks for.
type Latch struct {
	Span keys.Span
	Mode Mode
	// At is the timestamp of the read or write. A write latch at the zero timestamp keeps out all readers; a read
	// latch that is to meet all writers is at clock.MaxTimestamp.
	At clock.Timestamp
	// Owner stands for a transaction: of a resolve latch, that whose leavings go; of a write latch, that which reads,
	// writes or is resolved under it, with no change of others' entries. Zero, for a write latch: anybody's may change.
	Owner uint64
}

func (a *Latch) conflicts(b *Latch) bool {
	switch {
	case a.Mode == Read:
		return b.Mode == Write && b.At.LessEq(a.At)
	case b.Mode == Read:
		return a.Mode == Write && a.At.LessEq(b.At)
	case a.Mode == Write && b.Mode == Write:
		return true
	}
	return a.Owner == b.Owner || a.Owner == 0 || b.Owner == 0 // latch.L4
}

// entry is one latch in the table.
type entry struct {
	Latch
	guard      *Guard
	hash       uint64
	prev, next *entry // of the chain, or of the list of spans
}

// inlineEntries is how many latches a guard holds without another allocation: a one-row write and its record.
const inlineEntries = 4

// Guard is what one request holds. It is released exactly once, by Manager.Release.
type Guard struct {
	seq     uint64
	entries []entry
	inline  [inlineEntries]entry
	waited  bool
	done    chan struct{} // closed at release; made when somebody waits for it
	ended   bool

	prev, next *Guard // of those that hold single keys
	listed     bool
	// sorted says that all entries are single keys in order, so that those within a span can be searched for.
	sorted bool
}

// within appends the guard if one of its single keys is in e's span and conflicts.
func (g *Guard) within(e *entry, wait []chan struct{}) []chan struct{} {
	es := g.entries
	if g.sorted {
		i, _ := slices.BinarySearchFunc(es, e.Span.Start, func(o entry, k keys.Key) int {
			return bytes.Compare(o.Span.Start, k)
		})
		es = es[i:]
	}
	for i := range es {
		o := &es[i]
		switch {
		case !o.Span.Point():
		case e.Span.Contains(o.Span.Start):
			if o.conflicts(&e.Latch) {
				return note(o, e, wait)
			}
		case g.sorted:
			return wait
		}
	}
	return wait
}

// Waited reports whether the acquisition had to wait for another.
func (g *Guard) Waited() bool { return g.waited }

// Manager has the latches of one range.
type Manager struct {
	mu      sync.Mutex // guards all below; nothing is taken after it
	seq     uint64
	buckets []*entry // chains of single-key latches; the length is a power of two
	points  int
	spans   *entry
	guards  *Guard // that hold single keys
	waits   uint64
	spare   []*Guard // released, for reuse
	// away is closed to send away those who wait; made when somebody waits.
	away chan struct{}
}

// maxFree bounds the guards kept for reuse: about as many requests as run at once in one busy range.
const maxFree = 32

const minBuckets = 16

// NewManager makes an empty manager.
func NewManager() *Manager { return &Manager{buckets: make([]*entry, minBuckets)} }

// Hash is a key's hash, for other tables than the latches' too.
func Hash(k keys.Key) uint64 { return hashKey(k) }

// hashKey spreads keys over the chains. It only has to be fast: a poor spread costs time, never correctness.
func hashKey(k []byte) uint64 {
	const m = 0x9e3779b97f4a7c15
	h := uint64(len(k)) * m
	for len(k) >= 8 {
		h = bits.RotateLeft64((h^binary.LittleEndian.Uint64(k))*m, 29)
		k = k[8:]
	}
	var tail uint64
	for _, b := range k {
		tail = tail<<8 | uint64(b)
	}
	h = (h ^ tail) * m
	return h ^ h>>32
}

// conflictsInline is how many conflicting guards an acquisition notes without allocating.
const conflictsInline = 8

// Acquire takes all latches at once, and returns when no earlier acquisition conflicts with them. It returns the
// context's error, holding nothing, if that ends first. Keys may not change while the guard is held.
func (m *Manager) Acquire(ctx context.Context, latches []Latch) (*Guard, error) {
	return m.acquire(ctx, latches, false)
}

// Try is Acquire if that has not to wait; otherwise it returns nil, and nothing is held.
func (m *Manager) Try(latches []Latch) *Guard {
	g, _ := m.acquire(context.Background(), latches, true)
	return g
}

// First takes the first n of some latches on single keys that no earlier acquisition conflicts with, without a wait, and returns their places. There may be fewer; if there is
// none, nothing is held.
func (m *Manager) First(latches []Latch, n int) (g *Guard, places []int) {
	free := make([]Latch, 0, n)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := 0; i < len(latches) && len(free) < n; i++ {
		if m.free(&latches[i]) {
			free, places = append(free, latches[i]), append(places, i)
		}
	}
	if len(free) > 0 {
		g, _, _ = m.put(free, entriesFor(free), nil, nil)
	}
	return g, places
}

// free reports whether no acquisition conflicts with a latch on a single key. m.mu is held.
func (m *Manager) free(l *Latch) bool {
	hash := hashKey(l.Span.Start)
	for o := m.buckets[hash&uint64(len(m.buckets)-1)]; o != nil; o = o.next {
		if o.hash == hash && o.conflicts(l) && bytes.Equal(o.Span.Start, l.Span.Start) {
			return false
		}
	}
	for o := m.spans; o != nil; o = o.next {
		if o.conflicts(l) && o.Span.Contains(l.Span.Start) {
			return false
		}
	}
	return true
}

func (m *Manager) acquire(ctx context.Context, latches []Latch, try bool) (*Guard, error) {
	var buf [conflictsInline]chan struct{}
	g, wait, away := m.enqueue(latches, buf[:0], nil)
	if try && len(wait) > 0 {
		m.Release(g)
		return nil, nil
	}
	return m.await(ctx, g, wait, away)
}

// await returns the guard when all of wait are closed. The guard is released if that is not to be.
func (m *Manager) await(ctx context.Context, g *Guard, wait []chan struct{}, away <-chan struct{}) (*Guard, error) {
	for _, done := range wait {
		g.waited = true
		select {
		case <-done:
		case <-away:
			m.Release(g)
			return nil, errAway()
		case <-ctx.Done():
			m.Release(g)
			return nil, ctx.Err()
		}
	}
	return g, nil
}

// aheadMax bounds the latches that an Ahead tells of: beyond it, looking at them costs more than it saves.
const aheadMax = 16

// Ahead is what a queued acquisition would have to wait for.
type Ahead struct {
	wait []chan struct{}
	away <-chan struct{}
	// spans are of the latches, as they were: their owners release them at any time. many: there are more.
	spans []keys.Span
	many  bool
}

// Few reports whether it is known what the latches cover.
func (a *Ahead) Few() bool { return !a.many }

// Touches reports whether one of the latches may cover a key of the span.
func (a *Ahead) Touches(s keys.Span) bool {
	return a.many || slices.ContainsFunc(a.spans, s.Overlaps)
}

// Queue takes a latch without waiting for those ahead of it (latch.L5): whatever comes later waits for the guard, and Await is the wait
// for what has come before. There is no Ahead if nothing conflicts; then the latch is held.
func (m *Manager) Queue(latches []Latch) (*Guard, *Ahead) {
	var a Ahead
	g, wait, away := m.enqueue(latches, nil, &a)
	if len(wait) == 0 {
		return g, nil
	}
	return g, &Ahead{wait: wait, away: away, spans: a.spans, many: a.many}
}

// Await returns when what was ahead of a queued guard is gone. If the context ends first, the guard is released.
func (m *Manager) Await(ctx context.Context, g *Guard, a *Ahead) error {
	_, err := m.await(ctx, g, a.wait, a.away)
	return err
}

// enqueue puts the latches behind all that is there, and appends what they have to wait for.
func (m *Manager) enqueue(latches []Latch, wait []chan struct{}, ahead *Ahead) (*Guard, []chan struct{}, <-chan struct{}) {
	big := entriesFor(latches)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(latches, big, wait, ahead)
}

// entriesFor makes the entries of a guard that has too many for its own.
func entriesFor(latches []Latch) []entry {
	if len(latches) <= inlineEntries {
		return nil
	}
	return make([]entry, len(latches))
}

// put is enqueue with m.mu held.
func (m *Manager) put(latches []Latch, big []entry, wait []chan struct{}, ahead *Ahead) (*Guard, []chan struct{}, <-chan struct{}) {
	var g *Guard
	if n := len(m.spare); n > 0 {
		g, m.spare = m.spare[n-1], m.spare[:n-1]
		g.ended = false
	} else {
		g = &Guard{}
	}
	if g.entries = big; big == nil {
		g.entries = g.inline[:len(latches)]
	}
	for i := range latches {
		e := &g.entries[i]
		e.Latch, e.guard = latches[i], g
		if e.Span.Point() {
			e.hash = hashKey(e.Span.Start)
		}
	}
	m.seq++
	g.seq = m.seq
	for i := range g.entries {
		wait = m.collect(&g.entries[i], wait)
	}
	if ahead != nil && len(wait) > 0 {
		for i := range g.entries {
			m.tell(&g.entries[i], ahead)
		}
	}
	g.sorted = true
	for i := range g.entries {
		e := &g.entries[i]
		m.insert(e)
		if !e.Span.Point() {
			g.sorted = false
			continue
		}
		g.sorted = g.sorted && (i == 0 || bytes.Compare(g.entries[i-1].Span.Start, e.Span.Start) <= 0)
		if !g.listed {
			m.list(g)
		}
	}
	var away <-chan struct{}
	if len(wait) > 0 {
		m.waits++
		away = m.sentAway()
	}
	return g, wait, away
}

// tell adds the conflicts of e, which is a span. m.mu is held.
func (m *Manager) tell(e *entry, ahead *Ahead) {
	add := func(o *entry) {
		if !o.conflicts(&e.Latch) || !o.Span.Overlaps(e.Span) {
			return
		}
		if len(ahead.spans) == aheadMax {
			ahead.many = true
			return
		}
		// The key's bytes may be changed as soon as their owner has released the latch.
		ahead.spans = append(ahead.spans, keys.Span{Start: bytes.Clone(o.Span.Start), End: bytes.Clone(o.Span.End)})
	}
	for g := m.guards; g != nil && !ahead.many; g = g.next {
		if len(g.entries) > aheadMax {
			ahead.many = true
		}
		for i := 0; i < len(g.entries) && !ahead.many; i++ {
			if g.entries[i].Span.Point() {
				add(&g.entries[i])
			}
		}
	}
	for o := m.spans; o != nil && !ahead.many; o = o.next {
		add(o)
	}
}

// Release gives the guard's latches back. The guard may not be used any more.
func (m *Manager) Release(g *Guard) {
	m.mu.Lock()
	if g.ended {
		m.mu.Unlock()
		panic("latch: guard released twice")
	}
	g.ended = true
	for i := range g.entries {
		m.remove(&g.entries[i])
	}
	if g.listed {
		m.unlist(g)
	}
	done := g.done
	if len(m.spare) < maxFree && len(g.entries) <= inlineEntries {
		*g = Guard{ended: true}
		m.spare = append(m.spare, g)
	}
	m.mu.Unlock()
	if done != nil {
		close(done)
	}
}

// WaitRead returns when no write latch that was there at the call covers a key of the span at or below the
// timestamp. It takes nothing (latch.L1). It reports whether it waited.
func (m *Manager) WaitRead(ctx context.Context, span keys.Span, at clock.Timestamp) (bool, error) {
	m.mu.Lock()
	if m.points == 0 && m.spans == nil {
		m.mu.Unlock()
		return false, nil
	}
	e := entry{Latch: Latch{Span: span, Mode: Read, At: at}}
	if span.Point() {
		e.hash = hashKey(span.Start)
	}
	wait := m.collect(&e, nil)
	var away <-chan struct{}
	if len(wait) > 0 {
		m.waits++
		away = m.sentAway()
	}
	m.mu.Unlock()
	for _, done := range wait {
		select {
		case <-done:
		case <-away:
			return true, errAway()
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
	return len(wait) > 0, nil
}

// sentAway is closed by SendAway. The caller holds m.mu.
func (m *Manager) sentAway() <-chan struct{} {
	if m.away == nil {
		m.away = make(chan struct{})
	}
	return m.away
}

// SendAway ends every wait that has begun with *kv.UnavailableError: the range has no leader, and latches may be kept for
// commands whose outcome is not known before it has one.
func (m *Manager) SendAway() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		close(m.away)
		m.away = nil
	}
}

func errAway() error { return &kv.UnavailableError{Reason: "the range has no leader"} }

// Waits counts the acquisitions that had to wait.
func (m *Manager) Waits() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waits
}

// Len is the number of latches held or waited for.
func (m *Manager) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.points
	for e := m.spans; e != nil; e = e.next {
		n++
	}
	return n
}

// collect appends what e has to wait for. m.mu is held.
func (m *Manager) collect(e *entry, wait []chan struct{}) []chan struct{} {
	if e.Span.Point() {
		for o := m.buckets[e.hash&uint64(len(m.buckets)-1)]; o != nil; o = o.next {
			if o.hash == e.hash && o.conflicts(&e.Latch) && bytes.Equal(o.Span.Start, e.Span.Start) {
				wait = note(o, e, wait)
			}
		}
	} else {
		for g := m.guards; g != nil; g = g.next {
			wait = g.within(e, wait)
		}
	}
	for o := m.spans; o != nil; o = o.next {
		if o.conflicts(&e.Latch) && o.Span.Overlaps(e.Span) {
			wait = note(o, e, wait)
		}
	}
	return wait
}

func note(o, e *entry, wait []chan struct{}) []chan struct{} {
	g := o.guard
	if g == e.guard {
		return wait
	}
	if g.done == nil {
		g.done = make(chan struct{})
	}
	// A guard with many latches is met many times, usually in a row.
	if n := len(wait); n > 0 && wait[n-1] == g.done {
		return wait
	}
	return append(wait, g.done)
}

func (m *Manager) list(g *Guard) {
	g.listed, g.prev, g.next = true, nil, m.guards
	if g.next != nil {
		g.next.prev = g
	}
	m.guards = g
}

func (m *Manager) unlist(g *Guard) {
	if g.next != nil {
		g.next.prev = g.prev
	}
	if g.prev != nil {
		g.prev.next = g.next
	} else {
		m.guards = g.next
	}
	g.listed, g.prev, g.next = false, nil, nil
}

func (m *Manager) insert(e *entry) {
	if !e.Span.Point() {
		e.next = m.spans
		if e.next != nil {
			e.next.prev = e
		}
		m.spans = e
		return
	}
	if m.points >= 2*len(m.buckets) {
		m.resize(4 * len(m.buckets))
	}
	m.points++
	m.chain(e)
}

func (m *Manager) chain(e *entry) {
	head := &m.buckets[e.hash&uint64(len(m.buckets)-1)]
	e.prev, e.next = nil, *head
	if e.next != nil {
		e.next.prev = e
	}
	*head = e
}

func (m *Manager) remove(e *entry) {
	if e.next != nil {
		e.next.prev = e.prev
	}
	switch {
	case e.prev != nil:
		e.prev.next = e.next
	case e.Span.Point():
		m.buckets[e.hash&uint64(len(m.buckets)-1)] = e.next
	default:
		m.spans = e.next
	}
	e.prev, e.next = nil, nil
	if e.Span.Point() {
		m.points--
		if m.points == 0 && len(m.buckets) > 64*minBuckets {
			m.buckets = make([]*entry, minBuckets)
		}
	}
}

func (m *Manager) resize(n int) {
	old := m.buckets
	m.buckets = make([]*entry, n)
	for _, e := range old {
		for e != nil {
			next := e.next
			m.chain(e)
			e = next
		}
	}
}
