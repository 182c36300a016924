package lock

import (
	"fmt"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestObserve: each lock is shown once, however many there are; a wait with all that are in its way, a granted place not at all.
func TestObserve(t *testing.T) {
	table := NewTable(0)
	table.Now = func() clock.Timestamp { return clock.Timestamp{Wall: 7e9} }
	a, b, c := someTxn(1), someTxn(2), someTxn(3)
	const n = 2*observeChunk + 10
	key := func(i int) keys.Key { return keys.Key(fmt.Sprintf("k%05d", i)) }
	for i := range n {
		table.Acquire(nil, key(i), a, kv.Shared)
	}
	hot := observeChunk // the first of the second chunk
	table.Acquire(nil, key(hot), b, kv.Shared)
	g := &Guard{Txn: c, Spans: []Span{{Span: keys.Span{Start: key(hot)}, Strength: Write}}}
	if _, waits := table.Scan(g); !waits {
		t.Fatal("a writer passes shared locks")
	}
	look := func() (granted map[string]int, waiting []kv.LockState) {
		granted = map[string]int{}
		table.Observe(func(s kv.LockState) bool {
			if s.Granted {
				granted[fmt.Sprintf("%s %x", s.Key, s.Txn[:])]++
			} else {
				waiting = append(waiting, s)
			}
			return true
		})
		return granted, waiting
	}
	granted, waiting := look()
	if len(granted) != n+1 {
		t.Errorf("%d locks of %d", len(granted), n+1)
	}
	for k, times := range granted {
		if times != 1 {
			t.Errorf("%s is shown %d times", k, times)
		}
	}
	if len(waiting) != 1 || waiting[0].Txn != c.ID || waiting[0].Strength != kv.Exclusive || waiting[0].Since.Unix() != 7 ||
		len(waiting[0].For) != 2 || waiting[0].For[0].Txn != a.ID || waiting[0].For[1].Txn != b.ID {
		t.Errorf("waits: %+v", waiting)
	}
	table.Release(key(hot), a.ID)
	if _, waiting = look(); len(waiting) != 1 || len(waiting[0].For) != 1 || waiting[0].For[0].Txn != b.ID {
		t.Errorf("waits: %+v", waiting)
	}
	table.Release(key(hot), b.ID)
	if _, waiting = look(); len(waiting) != 0 {
		t.Errorf("nothing is in its way: %+v", waiting)
	}
	table.Finish(g)
	seen := 0
	table.Observe(func(kv.LockState) bool { seen++; return seen < 3 })
	if seen != 3 {
		t.Errorf("told to stop after 3, it showed %d", seen)
	}
}
