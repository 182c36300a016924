package closedts

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"meridian/clock"
	"meridian/kv"
)

func at(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }

func TestTracker(t *testing.T) {
	var k Tracker
	if got := k.Close(at(10)); got != at(10) {
		t.Fatalf("idle: closed %v", got)
	}
	a, floor := k.Track(at(5)) // below what is closed: it writes at 10.1
	if floor != at(10) {
		t.Fatalf("floor %v", floor)
	}
	if got := k.Close(at(20)); got != at(10) {
		t.Fatalf("a write above 10 is in flight, but closed %v", got)
	}
	b, _ := k.Track(at(30))
	k.Untrack(a)
	if got := k.Close(at(20)); got != at(20) {
		t.Fatalf("closed %v", got)
	}
	c, _ := k.Track(at(25)) // joins the older bucket and lowers it
	if got := k.Close(at(40)); got != at(25).Prev() {
		t.Fatalf("closed %v", got)
	}
	k.Untrack(b)
	if got := k.Close(at(40)); got != at(25).Prev() {
		t.Fatalf("closed %v", got)
	}
	k.Untrack(c)
	k.Untrack(0)
	if got := k.Freeze(true); got != at(25).Prev() || k.Close(at(40)) != got {
		t.Fatalf("frozen at %v, then closed %v", got, k.Closed())
	}
	k.Freeze(false)
	k.Raise(at(50))
	if got := k.Close(at(40)); got != at(50) {
		t.Fatalf("closed %v", got)
	}
}

// TestTrackerModel compares with a list of what is in flight: nothing closed is ever at or above it, nothing is let in
// at or below what is closed, and with nothing in flight everything can be closed.
func TestTrackerModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		type write struct {
			tok Token
			at  clock.Timestamp
		}
		var k Tracker
		var flying []write
		var closed clock.Timestamp
		for step := range 400 {
			switch n := rng.IntN(10); {
			case n < 4:
				w := at(int64(step) + rng.Int64N(40))
				tok, floor := k.Track(w)
				if floor != closed {
					t.Fatalf("seed %d: floor %v, closed %v", seed, floor, closed)
				}
				flying = append(flying, write{tok, w.Forward(floor.Next())})
			case n < 8 && len(flying) > 0:
				i := rng.IntN(len(flying))
				k.Untrack(flying[i].tok)
				flying = slices.Delete(flying, i, i+1)
			default:
				target := at(int64(step) + rng.Int64N(20) - 10)
				got := k.Close(target)
				if got.Less(closed) || closed.Forward(target).Less(got) {
					t.Fatalf("seed %d: closed %v, then %v for %v", seed, closed, got, target)
				}
				if len(flying) == 0 && got.Less(target) {
					t.Fatalf("seed %d: closed only %v of %v", seed, got, target)
				}
				closed = got
			}
			for _, w := range flying {
				if w.at.LessEq(closed) {
					t.Fatalf("seed %d: closed %v with a write at %v in flight", seed, closed, w.at)
				}
			}
			if k.InFlight() != len(flying) {
				t.Fatalf("seed %d: %d in flight, want %d", seed, k.InFlight(), len(flying))
			}
		}
	}
}

func TestUpdateCodec(t *testing.T) {
	u := Update{Stream: 5, Seq: 7, Closed: [Policies]clock.Timestamp{{Wall: 5, Logical: 1}}, Removed: []kv.RangeID{3, 1 << 40},
		Changed: []Position{{Range: 9, Index: 1 << 50}}}
	b := u.Append(nil)
	got, err := DecodeUpdate(b)
	if err != nil || !reflect.DeepEqual(got, u) {
		t.Fatalf("%v %v", got, err)
	}
	if _, err := DecodeUpdate(append(b, 0)); err == nil {
		t.Fatal("a byte too many is accepted")
	}
}

func FuzzDecodeUpdate(f *testing.F) {
	f.Add((&Update{Stream: 1 << 60, Seq: 1, Changed: []Position{{Range: 2, Index: 3}}, Removed: []kv.RangeID{4}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := DecodeUpdate(b)
		if err != nil {
			return
		}
		again, err := DecodeUpdate(u.Append(nil))
		if err != nil || !reflect.DeepEqual(again, u) {
			t.Fatalf("%v, %v", again, err)
		}
	})
}

// TestSideTransport runs a group and two receivers over streams that break, and compares with what the group's ranges
// had really closed: nobody believes more, and with whole streams everybody knows all.
func TestSideTransport(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		g := NewGroup(100)
		heard := map[kv.NodeID]*Heard{2: NewHeard(), 3: NewHeard()}
		in := map[kv.RangeID]Member{}
		truth := map[kv.RangeID]map[uint64]clock.Timestamp{} // by range and index, the latest promise
		deliver := func(n kv.NodeID) {
			u, ok := g.Next(n)
			if !ok {
				return
			}
			lost := rng.IntN(10)
			if lost < 2 { // the message, or only the news of its arrival
				g.Restart(n)
				if lost == 0 {
					return
				}
			}
			u, err := DecodeUpdate(u.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			old, err := heard[n].Receive(1, &u)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for _, p := range old {
				if truth[p.Range][p.Index].Less(p.Closed) {
					t.Fatalf("seed %d: r%d@%d: an old promise of %v, but it was %v", seed, p.Range, p.Index, p.Closed, truth[p.Range][p.Index])
				}
			}
		}
		for step := range 200 {
			var changed []Member
			var left []kv.RangeID
			for id := kv.RangeID(1); id <= 8; id++ {
				m, ok := in[id]
				switch n := rng.IntN(12); {
				case n == 0 && ok:
					delete(in, id)
					left = append(left, id)
				case n < 3 || !ok && n < 6:
					peers := [][]kv.NodeID{{2}, {3}, {2, 3}, nil}[rng.IntN(4)]
					m = Member{Position{Range: id, Index: m.Index + uint64(rng.IntN(3))}, peers}
					in[id] = m
					changed = append(changed, m)
				}
			}
			now := at(int64(step) + 1)
			for id, m := range in {
				if truth[id] == nil {
					truth[id] = map[uint64]clock.Timestamp{}
				}
				truth[id][m.Index] = now
			}
			g.Advance([Policies]clock.Timestamp{now}, changed, left)
			for n := range heard {
				if rng.IntN(3) > 0 {
					deliver(n)
				}
			}
			for n, h := range heard {
				for id := kv.RangeID(1); id <= 8; id++ {
					if closed, index := h.Closed(1, id); truth[id][index].Less(closed) {
						t.Fatalf("seed %d: n%d believes that r%d@%d has closed %v, but it has %v", seed, n, id, index, closed, truth[id][index])
					}
				}
			}
		}
		for n, h := range heard {
			for ok := true; ok; {
				var u Update
				if u, ok = g.Next(n); ok {
					if _, err := h.Receive(1, &u); err != nil {
						t.Fatal(err)
					}
					ok = u.Closed[Lag] != at(200)
				}
			}
			for id, m := range in {
				closed, index := h.Closed(1, id)
				if has := slices.Contains(m.Peers, n); has && (closed != at(200) || index != m.Index) || !has && index != 0 {
					t.Fatalf("seed %d: n%d has r%d closed at %v@%d, want %v (%v)", seed, n, id, closed, index, m, has)
				}
			}
		}
	}
}

func TestLostUpdate(t *testing.T) {
	h := NewHeard()
	for i, c := range []struct {
		stream, seq uint64
		ok          bool
	}{
		{5, 2, false}, // begins with its second message
		{5, 1, true},
		{5, 3, false}, // one was lost
		{5, 2, true},
		{5, 2, false}, // twice
		{7, 1, true},
		{5, 3, false}, // late
		{5, 1, false},
		{7, 1, false},
		{7, 2, true},
		{8, 3, false},
	} {
		if _, err := h.Receive(1, &Update{Stream: c.stream, Seq: c.seq}); (err == nil) != c.ok {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// TestTurn: a message that overtakes the one before it waits for that one, and for no other reason.
func TestTurn(t *testing.T) {
	h := NewHeard()
	u := func(stream, seq uint64) *Update {
		return &Update{Stream: stream, Seq: seq, Closed: [Policies]clock.Timestamp{at(int64(seq))}}
	}
	waits := func(stream, seq uint64) <-chan struct{} { return h.Turn(1, u(stream, seq)) }
	over := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if waits(5, 1) != nil {
		t.Error("the first message of a stream waits")
	}
	third := waits(5, 3)
	if third == nil {
		t.Fatal("the third message does not wait for the first")
	}
	for seq := uint64(1); seq <= 2; seq++ {
		if over(third) {
			t.Errorf("waited for message %d only", seq-1)
		}
		if _, err := h.Receive(1, u(5, seq)); err != nil {
			t.Fatal(err)
		}
		if !over(third) {
			t.Error("message 3 does not look again")
		}
		third = waits(5, 3)
		if (third == nil) != (seq == 2) {
			t.Errorf("after message %d, the third one waits: %t", seq, third != nil)
		}
		if third == nil {
			break
		}
	}
	if _, err := h.Receive(1, u(5, 3)); err != nil {
		t.Fatal(err)
	}
	if waits(5, 2) != nil || waits(4, 9) != nil {
		t.Error("a late message waits")
	}
	if waits(6, 2) == nil {
		t.Error("the second message of the next stream does not wait for the first")
	}
}

// TestLost: of several messages under way the loss of any begins another stream, once.
func TestLost(t *testing.T) {
	g := NewGroup(100)
	g.Advance([Policies]clock.Timestamp{at(1)}, []Member{{Position{Range: 7, Index: 1}, []kv.NodeID{2}}}, nil)
	a, _ := g.Next(2)
	b, _ := g.Next(2)
	g.Lost(2, a.Stream)
	c, _ := g.Next(2)
	g.Lost(2, b.Stream)
	d, _ := g.Next(2)
	if c.Stream <= a.Stream || c.Seq != 1 || len(c.Changed) != 1 || d.Stream != c.Stream || d.Seq != 2 {
		t.Errorf("%+v, %+v, then %+v, %+v", a, b, c, d)
	}
}

// TestAhead: a policy leads by at least what is asked for, and by less than a step more, up to the greatest.
func TestAhead(t *testing.T) {
	for d := time.Duration(0); d < 2*time.Second; d += 3 * time.Millisecond {
		p := Ahead(d)
		step := leadStep
		if d > leadFine*leadStep {
			step *= 2
		}
		if p == Lag || p >= Policies || p < Policies-1 && (p.Lead() < d || p.Lead() >= d+step && p > 1) {
			t.Errorf("%s: policy %d leads by %s", d, p, p.Lead())
		}
	}
	if Lag.Lead() != 0 {
		t.Error("Lag leads")
	}
}

func BenchmarkTrack(b *testing.B) {
	b.ReportAllocs()
	var k Tracker
	for i := range b.N {
		tok, _ := k.Track(at(int64(i)))
		k.Close(at(int64(i) - 3))
		k.Untrack(tok)
	}
}
