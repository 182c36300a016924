package lock

import (
	"meridian/clock"
	"meridian/keys"
)

// Holds are the holds of a part of the keys, for the table of another range.
type Holds struct {
	entries []*entry
	lost    clock.Timestamp
}

// Split takes out all keys from k on. Their waiters are signalled, and ask anew.
func (t *Table) Split(k keys.Key) Holds {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := Holds{lost: t.lost}
	t.entries.AscendGreaterOrEqual(&entry{key: k}, func(e *entry) bool {
		h.entries = append(h.entries, e)
		return true
	})
	for _, e := range h.entries {
		t.entries.Delete(e)
		e.evict()
		for i := range e.holders {
			if e.holders[i].intent {
				t.intents.Add(-1)
			}
		}
	}
	t.size.Store(int64(t.entries.Len()))
	t.releases.Add(1)
	return h
}

// Join adds holds that another table gave up.
func (t *Table) Join(h Holds) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = t.lost.Forward(h.lost)
	for _, e := range h.entries {
		if len(e.holders) == 0 {
			continue
		}
		if kept := e.kept(); t.entries.Len() >= t.max && (!kept || t.entries.Len() >= maxKept*t.max) {
			if kept {
				t.lose()
			}
			continue
		}
		if old, ok := t.entries.ReplaceOrInsert(e); ok {
			// A request that has read before the range was split has put it here since. A request that waits there would never be
			// signalled.
			old.evict()
			if old.kept() {
				t.lose()
			}
			for i := range old.holders {
				if old.holders[i].intent {
					t.intents.Add(-1)
				}
			}
		}
		for i := range e.holders {
			if e.holders[i].intent {
				t.intents.Add(1)
			}
		}
	}
	t.size.Store(int64(t.entries.Len()))
}
