package lock

import (
	"meridian/clock"
	"meridian/kv"
)

// Scan looks for conflicts of all of the guard's spans, in order, and joins the queue of the first. Latches on the
// spans must be held, but for plain reads. It returns false if the request may be evaluated.
func (t *Table) Scan(g *Guard) (Wait, bool) { return t.scan(g, g.Spans, true) }

// ReadsAt says what g reads from now on. A release of a lock may be reading g's place in a queue.
func (t *Table) ReadsAt(g *Guard, at clock.Timestamp) {
	if g.ReadAt == at {
		return // only g's owner changes it
	}
	t.mu.Lock()
	g.ReadAt = at
	t.mu.Unlock()
}

// Check is Scan for other spans than the guard's: for keys that a limited scan turned out to return.
func (t *Table) Check(g *Guard, spans []Span) (Wait, bool) { return t.scan(g, spans, true) }

// Probe is Check without joining a queue: for requests that do not wait.
func (t *Table) Probe(g *Guard, spans []Span) (Wait, bool) { return t.scan(g, spans, false) }

func (t *Table) scan(g *Guard, spans []Span, join bool) (found Wait, waits bool) {
	if t.size.Load() == 0 {
		return Wait{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g.at = nil
	for i := range spans {
		s := &spans[i]
		if s.Strength == kv.NoLock && t.intents.Load() == 0 {
			continue
		}
		var at *entry
		if s.Point() {
			if e := t.get(s.Start); e != nil {
				if found, waits = t.conflict(g, e, s.Strength, g.waiterAt(e, s.Strength == kv.NoLock)); waits {
					at = e
				}
			}
		} else {
			t.entries.AscendRange(&entry{key: s.Start}, &entry{key: s.End}, func(e *entry) bool {
				if found, waits = t.conflict(g, e, s.Strength, g.waiterAt(e, s.Strength == kv.NoLock)); waits {
					at = e
				}
				return !waits
			})
		}
		if !waits {
			continue
		}
		if join {
			t.join(g, at, s.Strength)
			g.at.holder = found.Holder.ID
			if s.Strength != kv.NoLock {
				found.Front = at.first(g.at, found.Holder.ID)
			}
			g.at.front = found.Front
			if n := len(at.queue); g.at.strength != kv.NoLock && at.queue[n-1] != g.at {
				t.grant(at) // those behind it may have another to wait for
			}
		}
		return found, true
	}
	return Wait{}, false
}

// join puts the guard into the entry's queue, if it is not there yet.
func (t *Table) join(g *Guard, e *entry, strength kv.LockStrength) {
	if g.signal == nil {
		g.signal = make(chan struct{}, 1)
		g.seq = t.place(g.id())
	}
	if w := g.waiterAt(e, strength == kv.NoLock); w != nil {
		if w.strength < strength {
			w.strength = strength
		}
		w.granted = false // it waits again
		g.at = w
		return
	}
	if g.Txn == nil {
		for _, w := range g.waiters { // lock.K4
			t.leave(w)
		}
		g.waiters = g.waiters[:0]
	}
	w := &waiter{g: g, e: e, strength: strength, since: t.now()}
	g.waiters = append(g.waiters, w)
	g.at = w
	if strength == kv.NoLock {
		e.readers = append(e.readers, w)
		return
	}
	i := len(e.queue)
	for i > 0 && t.before(w, e.queue[i-1]) {
		i--
	}
	e.queue = append(e.queue, nil)
	copy(e.queue[i+1:], e.queue[i:])
	e.queue[i] = w
}

// before orders a queue: upgrades first, because the others wait for their own transaction's lock; then by the
// order in which requests began to wait, at whichever key (lock.K1).
func (t *Table) before(w, o *waiter) bool {
	if a, b := t.holds(w.g, w.e), t.holds(o.g, o.e); a != b {
		return a
	}
	return w.g.seq < o.g.seq
}

// State says what the guard waits for now; false if it should take latches and Scan again.
func (t *Table) State(g *Guard) (Wait, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := g.at
	if w == nil || w.e == nil {
		return Wait{}, false
	}
	wait, blocked := t.conflict(g, w.e, w.strength, w)
	if blocked {
		w.granted, w.front, w.holder = false, wait.Front, wait.Holder.ID
	}
	return wait, blocked
}

// Pushing notes whom the guard's owner is pushing, so that it is signalled when that is no longer in the way.
func (t *Table) Pushing(g *Guard, id kv.TxnID) {
	t.mu.Lock()
	g.pushing = id
	t.mu.Unlock()
}

// Finish ends the guard's part: it leaves all queues, and what it was granted goes to the next.
func (t *Table) Finish(g *Guard) {
	if len(g.waiters) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range g.waiters {
		t.leave(w)
	}
	g.waiters, g.at = nil, nil
}

// leave takes a place out of its entry and grants anew.
func (t *Table) leave(w *waiter) {
	e := w.e
	if e == nil {
		return
	}
	w.e = nil
	if w.strength == kv.NoLock {
		e.readers = without(e.readers, w)
	} else {
		e.queue = without(e.queue, w)
		t.grant(e)
	}
	t.dropIfEmpty(e)
}

func without(s []*waiter, w *waiter) []*waiter {
	for i, o := range s {
		if o == w {
			copy(s[i:], s[i+1:])
			s[len(s)-1] = nil
			return s[:len(s)-1]
		}
	}
	return s
}

// grant follows every change of an entry. It signals those whose turn it is (lock.K3), those who push somebody that is no longer
// in their way (lock.K2), and those who are the first from now on to wait for a transaction, and have to push it (lock.K5).
func (t *Table) grant(e *entry) {
	var lead *waiter // has been told to push lead.holder, for which most of those behind it wait too
	for _, w := range e.queue {
		if lead != nil && w.g.pushing.IsZero() && t.follows(e, w, lead.holder) {
			w.granted, w.front, w.holder = false, false, lead.holder
			continue
		}
		if w.granted && w.g.pushing.IsZero() {
			continue
		}
		wait, blocked := t.conflict(w.g, e, w.strength, w)
		if !blocked {
			if !w.granted {
				w.granted = true
				w.g.wake()
			}
			continue
		}
		w.granted, w.holder = false, wait.Holder.ID
		if w.g.at != w {
			continue
		}
		if p := w.g.pushing; !p.IsZero() && wait.Holder.ID != p || wait.Front && !w.front {
			w.g.wake()
		}
		if w.front = wait.Front; lead == nil && wait.Front && w.g.Txn != nil && !w.holder.IsZero() {
			lead = w
		}
	}
	for _, w := range e.readers {
		wait, blocked := t.conflict(w.g, e, kv.NoLock, w)
		if p := w.g.pushing; !blocked || !p.IsZero() && wait.Holder.ID != p && w.g.at == w {
			w.g.wake()
		}
	}
}

// follows reports, at little cost, whether w surely waits for a transaction for which somebody before it waits: the only holder of
// the key, or the first in the queue if there is none.
func (t *Table) follows(e *entry, w *waiter, id kv.TxnID) bool {
	if w.g.id() == id {
		return false
	}
	switch len(e.holders) {
	case 0:
		o := e.queue[0]
		return o.g.Txn != nil && o.g.Txn.ID == id && !w.strength.Compatible(o.strength)
	case 1:
		h := &e.holders[0]
		return h.txn.ID == id && (h.intent || !min(w.strength, kv.Exclusive).Compatible(h.strength))
	}
	return false
}

// changed is grant, if somebody waits there.
func (t *Table) changed(e *entry) {
	if len(e.queue) > 0 || len(e.readers) > 0 {
		t.grant(e)
	}
}
