package lock

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

func someTxn(i int) *kv.TxnMeta {
	m := &kv.TxnMeta{Anchor: keys.Key(fmt.Sprint("anchor", i)), MinTimestamp: clock.Timestamp{Wall: int64(i)}}
	binary.BigEndian.PutUint64(m.ID[:], uint64(i)+1)
	return m
}

// TestHandover: what a table exports, another one takes up: the same requests pass and wait there, for the same
// transactions, and in the same order.
func TestHandover(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		old := NewTable(0)
		key := func(i int) keys.Key { return keys.Key(fmt.Sprintf("k%02d", i)) }
		strengths := []kv.LockStrength{kv.Shared, kv.Exclusive}
		for i := range 20 {
			g := &Guard{Txn: someTxn(i)}
			k, s := key(dice.IntN(8)), strengths[dice.IntN(2)]
			g.Spans = []Span{{keys.Span{Start: k}, s}}
			if _, waits := old.Scan(g); !waits {
				old.Acquire(g, k, g.Txn, s)
				old.Finish(g)
			}
		}
		b := old.Export(1 << 20)
		next := NewTable(0)
		if old.Len() > 0 {
			if err := next.Import(b); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for i := range 8 {
			for _, s := range strengths {
				probe := &Guard{Txn: someTxn(100)}
				spans := []Span{{keys.Span{Start: key(i)}, s}}
				a, waits := old.Probe(probe, spans)
				c, also := next.Probe(probe, spans)
				if a.Claim {
					continue // of a request that has not come yet
				}
				if waits != also || waits && (a.Holder.ID != c.Holder.ID && s == kv.Exclusive && a.Claim != c.Claim) {
					t.Errorf("seed %d, key %d, %s: %v %+v, then %v %+v", seed, i, s, waits, a, also, c)
				}
			}
		}
	}
}

// TestHandoverKeepsPlaces: those who waited at the old table come to the new one in another order, and late; still the
// first is first.
func TestHandoverKeepsPlaces(t *testing.T) {
	old, k := NewTable(0), keys.Key("k")
	want := func(i int) *Guard {
		return &Guard{Txn: someTxn(i), Spans: []Span{{keys.Span{Start: k}, kv.Exclusive}}}
	}
	old.Acquire(nil, k, someTxn(0), kv.Exclusive)
	for i := 1; i <= 3; i++ {
		if _, waits := old.Scan(want(i)); !waits {
			t.Fatalf("%d does not wait", i)
		}
	}
	next := NewTable(0)
	if err := next.Import(old.Export(1 << 20)); err != nil {
		t.Fatal(err)
	}
	guards := map[int]*Guard{}
	for _, i := range []int{9, 3, 2, 1} {
		guards[i] = want(i)
		if w, waits := next.Scan(guards[i]); !waits || w.Holder.ID != someTxn(0).ID {
			t.Fatalf("%d waits for %v: %v", i, w.Holder.ID, waits)
		}
	}
	holder := 0
	for _, i := range []int{1, 2, 3, 9} {
		next.Release(k, someTxn(holder).ID)
		for j, g := range guards {
			if _, waits := next.State(g); waits == (j == i) {
				t.Errorf("after %d, %d waits: %v", holder, j, waits)
			}
		}
		next.Acquire(guards[i], k, guards[i].Txn, kv.Exclusive)
		next.Finish(guards[i])
		delete(guards, i)
		holder = i
	}
}

// TestHandoverIsBounded: locks that somebody waits for go first, then the youngest; bytes from nowhere are refused.
func TestHandoverIsBounded(t *testing.T) {
	old := NewTable(0)
	for i := range 100 {
		old.Acquire(nil, keys.Key(fmt.Sprintf("k%02d", i)), someTxn(i), kv.Exclusive)
	}
	old.Scan(&Guard{Txn: someTxn(200), Spans: []Span{{keys.Span{Start: keys.Key("k03")}, kv.Exclusive}}})
	b := old.Export(1000)
	if len(b) == 0 || len(b) > 1000 {
		t.Fatalf("%d bytes", len(b))
	}
	next := NewTable(0)
	if err := next.Import(b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"k03", "k99", "k98"} {
		if _, waits := next.Probe(&Guard{Txn: someTxn(300)}, []Span{{keys.Span{Start: keys.Key(want)}, kv.Exclusive}}); !waits {
			t.Errorf("%s is not locked; %d locks came", want, next.Len())
		}
	}
	if next.Len() >= 100 {
		t.Errorf("%d locks in 1000 bytes", next.Len())
	}
	for n := range len(b) {
		_ = NewTable(0).Import(b[:n]) // must not panic
	}
	dice := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		c := append([]byte(nil), b...)
		c[dice.IntN(len(c))] ^= byte(1 + dice.IntN(255))
		_ = NewTable(0).Import(c)
	}
	if NewTable(0).Import([]byte("x")) == nil {
		t.Error("an empty table, or garbage")
	}
}

// TestHandoverTellsOfLoss: with the locks travels the moment at which kept ones were lost last. It is the lease's beginning instead
// if a kept lock did not come along, and later if the next table forgets one as it takes them; locks that are not kept don't
// count (lock.K6).
func TestHandoverTellsOfLoss(t *testing.T) {
	at := func(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }
	const lost, start, now = 5, 20, 30 // the clock of the next table stands still between two locks
	for _, c := range []struct {
		what               string
		kept, plain        int // locks
		max                int // bytes that may travel
		size               int // of the next table
		behind             bool
		want               int64
		whole              bool // all kept locks are in the next table
		nothingEverWasLost bool
	}{
		{what: "all come along", kept: 10, plain: 10, max: 1 << 20, want: lost, whole: true},
		{what: "none was lost before", kept: 10, plain: 10, max: 1 << 20, whole: true, nothingEverWasLost: true},
		{what: "those that are not kept stay behind", kept: 10, plain: 100, max: 1000, want: lost, whole: true},
		{what: "kept ones stay behind", kept: 100, max: 1000, want: start},
		{what: "the next table is too small", kept: 10, max: 1 << 20, size: 2, want: now},
		{what: "the same, and its clock is behind the lease's beginning", kept: 10, max: 1 << 20, size: 2, behind: true, want: start},
	} {
		old := NewTable(0)
		old.Now = func() clock.Timestamp { return at(now) }
		if !c.nothingEverWasLost {
			old.Lose(at(lost))
		}
		for i := range c.kept {
			old.Keep(nil, keys.Key(fmt.Sprintf("k%02d", i)), someTxn(i), kv.Exclusive, at(10))
		}
		for i := range c.plain {
			old.Acquire(nil, keys.Key(fmt.Sprintf("p%02d", i)), someTxn(1000+i), kv.Exclusive)
		}
		next := NewTable(c.size)
		next.Now = old.Now
		if c.behind {
			next.Now = func() clock.Timestamp { return at(start - 1) }
		}
		next.Lose(at(start))
		if err := next.Import(old.Export(c.max)); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		want := at(c.want)
		if c.size > 0 {
			if got := next.Lost(); !want.Less(got) {
				t.Errorf("%s: lost at %v, want later than %v", c.what, got, want)
			}
		} else if got := next.Lost(); got != want {
			t.Errorf("%s: lost at %v, want %v", c.what, got, want)
		}
		whole := true
		for i := range c.kept {
			_, locked := next.Probe(&Guard{Txn: someTxn(9999)}, []Span{{keys.Span{Start: keys.Key(fmt.Sprintf("k%02d", i))}, kv.Exclusive}})
			whole = whole && locked
		}
		if whole != c.whole {
			t.Errorf("%s: all kept locks are there: %t", c.what, whole)
		}
	}
}

// TestTakenUpIsKept: a lock that came with a handover is kept by the next table too: it goes along with the next handover before
// those that are not.
func TestTakenUpIsKept(t *testing.T) {
	tables := []*Table{NewTable(0), NewTable(0), NewTable(0)}
	tables[0].Keep(nil, keys.Key("k"), someTxn(1), kv.Exclusive, clock.Timestamp{Wall: 1})
	if err := tables[1].Import(tables[0].Export(1 << 20)); err != nil {
		t.Fatal(err)
	}
	for i := range 100 { // of younger transactions
		tables[1].Acquire(nil, keys.Key(fmt.Sprintf("p%02d", i)), someTxn(1000+i), kv.Exclusive)
	}
	if err := tables[2].Import(tables[1].Export(200)); err != nil {
		t.Fatal(err)
	}
	if _, locked := tables[2].Probe(&Guard{Txn: someTxn(9999)}, []Span{{keys.Span{Start: keys.Key("k")}, kv.Exclusive}}); !locked {
		t.Errorf("the lock is gone; %d came", tables[2].Len())
	}
}

// TestPartsTellOfLoss: a part that a split takes out, and a range that takes another in, know when kept locks were lost last; so does
// a table that can't take all of a part, or has to choose between its own lock and the part's (lock.K6).
func TestPartsTellOfLoss(t *testing.T) {
	at := func(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }
	table := func(size int, lost int64, kept ...string) *Table {
		tb := NewTable(size)
		tb.Now = func() clock.Timestamp { return at(30) }
		tb.Lose(at(lost))
		for i, k := range kept {
			tb.Keep(nil, keys.Key(k), someTxn(i), kv.Exclusive, at(10))
		}
		return tb
	}
	for _, c := range []struct {
		what       string
		into, from *Table
		want       clock.Timestamp
	}{
		{"the part has lost some", table(0, 3, "a"), table(0, 5, "k"), at(5)},
		{"the table has", table(0, 7, "a"), table(0, 5, "k"), at(7)},
		{"no room", table(1, 3, "a", "b", "c", "d"), table(0, 5, "k"), at(30)},
		{"both have a lock of one key", table(0, 3, "k"), table(0, 5, "k"), at(30)},
	} {
		before := c.from.Lost()
		part := c.from.Split(keys.Key("k"))
		c.into.Join(part)
		if got := c.into.Lost(); got != c.want {
			t.Errorf("%s: lost at %v, want %v", c.what, got, c.want)
		}
		if got := c.from.Lost(); got != before {
			t.Errorf("%s: the left side lost at %v, want %v", c.what, got, before)
		}
	}
}
