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
