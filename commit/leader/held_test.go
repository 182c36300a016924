package leader

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/storage/mvcc"
)

// TestHeldIsForgotten: a leaseholder that knew its range to have no intents does not know it any more after another one has written some (leader.P11).
func TestHeldIsForgotten(t *testing.T) {
	for _, x := range []struct {
		name string
		back func(p *Participant, at clock.Timestamp)
	}{
		{"the lease was elsewhere", func(p *Participant, at clock.Timestamp) {
			p.LeaseChanged(lease.Lease{Sequence: 2, Start: at}, false)
			p.LeaseChanged(lease.Lease{Sequence: 3, Start: at}, true)
		}},
		{"a raft snapshot", func(p *Participant, _ clock.Timestamp) { p.SnapshotApplied() }},
		{"a neighbour was absorbed", func(p *Participant, at clock.Timestamp) { p.Absorb(p.r.Desc(), nil, at) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0)
				defer stop()
				ctx, k := context.Background(), keys.Key("k")
				if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: k}}}); err != nil {
					t.Fatal(err)
				}
				here, there := c.ps[0], New(c.o, c.reps[0], nil)
				defer there.Close(nil)
				if here.held.MayHold(k) {
					t.Fatal("it does not know that there is nothing")
				}
				around := keys.Span{Start: keys.Key("a"), End: keys.Key("z")}
				for range 2 { // commands are noted from the first one on
					here.dead.Found(around, c.clock.Now(), c.clock.Now(), here.dead.Since())
				}
				if run, _, _ := here.dead.Past(k, clock.MaxTimestamp, false); run.Start == nil {
					t.Fatal("it does not know the run")
				}
				c.reps[0].Lease.Store(2)
				there.LeaseChanged(lease.Lease{Sequence: 2, Start: c.clock.Now()}, true)
				c.ps[0] = there
				if _, err := c.begin().send(ctx, &kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}); err != nil {
					t.Fatal(err)
				}
				c.ps[0] = here
				x.back(here, c.clock.Now())
				if !here.held.MayHold(k) {
					t.Error("it misses an intent")
				}
				if run, _, _ := here.dead.Past(k, clock.MaxTimestamp, false); run.Start != nil {
					t.Error("it takes a key with a value for one without")
				}
			})
		})
	}
}

// TestHeldIsNotGuessed: a participant that is new, after a restart or as the right side of a split, knows of no key that it has no
// intents while the range has some.
func TestHeldIsNotGuessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx, k := context.Background(), keys.Key("k")
		if _, err := c.begin().send(ctx, &kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}); err != nil {
			t.Fatal(err)
		}
		anew := New(c.o, c.reps[0], nil)
		defer anew.Close(nil)
		anew.LeaseChanged(lease.Lease{Sequence: 1, Start: c.clock.Now()}, true)
		c.ps[0].Close(nil)
		c.ps[0] = anew
		if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: keys.Key("other")}}}); err != nil {
			t.Fatal(err)
		}
		if !anew.held.MayHold(k) {
			t.Error("it misses an intent")
		}
	})
}

// auditHeld compares what leaseholders know with the lock table (leader.P11, leader.P31), and at times has them forget it, for as long as ctx lasts. It is called in the middle of
// everything, so an entry counts as missed only if it is there before and after it was looked for.
func (c *cluster) auditHeld(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Duration(200+n%7*100) * time.Microsecond)
		for i, p := range c.ps {
			if n%5 == 4 { // as by a change of the lease; a count follows, with everything in motion
				p.held.reset()
				p.held.mu.Lock()
				p.held.nextCount = 0
				p.held.mu.Unlock()
				continue
			}
			d := c.reps[i].Desc()
			for _, l := range c.entries(d) {
				if p.held.Has(l.Key) {
					continue
				}
				for _, now := range c.entries(d) {
					if now.Key.Equal(l.Key) && now.Txn.ID == l.Txn.ID && now.Txn.Attempt == l.Txn.Attempt && !p.held.Has(l.Key) {
						c.t.Errorf("leader.P11: range %d does not know of the entry of %s on %s", d.ID, l.Txn.ID, l.Key)
						return
					}
				}
			}
			c.audits.Add(1)
		}
	}
}

// entries lists the lock table of a range.
func (c *cluster) entries(d *kv.RangeDescriptor) []mvcc.Lock {
	r := mvcc.NewReader(c.engine)
	defer r.Close()
	all, err := r.Locks(d.Start, d.End, 1000)
	if err != nil {
		c.t.Error(err)
	}
	return all
}

// TestHeld: the table is of use only from a moment on when there was nothing, and it never misses a key.
func TestHeld(t *testing.T) {
	h := held{known: &finished{clock: machine.NewClock(0)}}
	txn := func(i byte) kv.TxnMeta {
		return kv.TxnMeta{ID: kv.TxnID{i}, WriteTimestamp: clock.Timestamp{Wall: int64(i)}}
	}
	a, b := keys.Key("a"), keys.Key("b")
	by := func(i byte, k keys.Key) []change {
		return []change{{latch.Hash(k), entry{key: k, id: kv.TxnID{i}, at: txn(i).WriteTimestamp}}}
	}
	hash := func(k keys.Key) []change { return by(1, k) }
	is := func(what string, ka, kb bool) {
		t.Helper()
		if h.MayHold(a) != ka || h.MayHold(b) != kb {
			t.Errorf("%s: a %v, b %v", what, h.MayHold(a), h.MayHold(b))
		}
	}
	none, some := func() bool { return true }, func() bool { return false }
	is("at first nothing is known", true, true)
	early := h.takeOff(hash(a))
	h.begin(none)
	is("a command is under way", true, true)
	h.land(early, nil, true)
	h.begin(some)
	is("its intent is there", true, true)
	h.begin(none)
	is("it is gone", false, false)
	lay := h.takeOff(hash(a))
	is("before a command applies", true, false)
	h.land(lay, nil, true)
	is("and after", true, false)
	again, remove := h.takeOff(by(2, a)), h.takeOff(nil)
	h.land(remove, hash(a), true)
	is("one of two entries is removed", true, false)
	h.land(again, by(2, a), false) // it was refused
	is("the other was never laid", false, false)
	old := h.takeOff(hash(b))
	h.reset()
	h.begin(none)
	is("a command from before a reset may still apply", true, true)
	h.land(old, hash(b), false)
	h.begin(none)
	is("it is over", false, false)
	h.land(h.takeOff(by(3, a)), nil, true)
	h.land(h.takeOff(by(4, a)), nil, true)
	for _, i := range []byte{3, 4} {
		is("an entry is in somebody's way", true, false)
		committed := txn(i)
		h.known.add(&committed)
	}
	if is("both are known to be committed", false, false); !h.Has(a) {
		t.Error("they are not there to be resolved")
	}
	h.land(h.takeOff(by(5, b)), nil, true)
	moved := txn(5)
	moved.WriteTimestamp.Wall++
	h.known.add(&moved)
	is("one is committed later than it was laid", false, true)
	many := make([]change, heldMax+1)
	for i := range many {
		many[i].hash = uint64(i)
	}
	h.land(h.takeOff(many), nil, true)
	is("there are too many", true, true)
}

// heldFlight is a command of TestHeldCounts: from takeOff to land.
type heldFlight struct {
	laid, dropped []change
	generation    uint64
	applied       bool
}

// TestHeldCounts: whatever commands are proposed, applied, refused and land in whatever order, with counts and resets in between, a complete table lists every entry of the store (leader.P31); and when all have
// landed, none that is not there.
func TestHeldCounts(t *testing.T) {
	complete := 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 31))
		h := held{known: &finished{clock: machine.NewClock(0)}}
		type name struct {
			key string
			id  byte
		}
		store := map[name]entry{} // what was applied
		busy := map[name]bool{}   // commands in flight use it
		var flying []*heldFlight
		var read []change // by a count
		var reading uint64
		now := time.Duration(0)
		check := func(what string) {
			t.Helper()
			for n, e := range store {
				ids, ok := h.Entries(e.key, nil)
				if ok && (!h.Has(e.key) || !slices.ContainsFunc(ids, func(l mvcc.LockID) bool { return l.Txn == e.id })) {
					t.Fatalf("seed %d: after %s it misses the entry of %d on %s", seed, what, n.id, n.key)
				}
			}
		}
		land := func(i int) {
			f := flying[i]
			flying = slices.Delete(flying, i, i+1)
			if f.applied {
				h.land(f.generation, f.dropped, true)
			} else {
				h.land(f.generation, f.laid, false)
			}
			for _, c := range append(f.laid, f.dropped...) {
				delete(busy, name{string(c.key), c.id[0]})
			}
		}
		apply := func(f *heldFlight) {
			f.applied = true
			for _, c := range f.laid {
				store[name{string(c.key), c.id[0]}] = c.entry
			}
			for _, c := range f.dropped {
				delete(store, name{string(c.key), c.id[0]})
			}
		}
		for range 120 {
			switch what := rng.IntN(8); {
			case what < 3: // a command writes an entry, or removes one
				n := name{string(rune('a' + rng.IntN(3))), byte(1 + rng.IntN(4))}
				if busy[n] {
					continue
				}
				busy[n] = true
				k := keys.Key(n.key)
				c := change{latch.Hash(k), entry{key: k, strength: mvcc.IntentStrength, id: kv.TxnID{n.id}}}
				f := &heldFlight{}
				if _, there := store[n]; there {
					f.dropped = []change{c}
				} else {
					f.laid = []change{c}
				}
				f.generation = h.takeOff(f.laid)
				flying = append(flying, f)
			case what < 5 && len(flying) > 0:
				if f := flying[rng.IntN(len(flying))]; !f.applied {
					apply(f)
				}
			case what == 5 && len(flying) > 0:
				land(rng.IntN(len(flying)))
			case what == 6:
				if rng.IntN(20) == 0 {
					h.reset()
				}
				if rng.IntN(3) == 0 {
					h.begin(func() bool { return len(store) == 0 })
				}
			case what == 7:
				now += countEvery / 2
				if g, reads := h.count(now); reads {
					read, reading = nil, g
					for _, e := range store {
						read = append(read, change{latch.Hash(e.key), e})
					}
				} else if reading != 0 {
					h.counted(reading, read, rng.IntN(10) > 0)
					reading = 0
				}
			}
			check("a step")
			if h.complete.Load() {
				complete++
			}
		}
		for len(flying) > 0 {
			land(0)
			check("landing")
		}
		if h.complete.Load() {
			listed := 0
			for _, es := range h.keys {
				listed += len(es)
			}
			if listed != len(store) {
				t.Fatalf("seed %d: %d entries are listed, and %d are there", seed, listed, len(store))
			}
		}
	}
	if complete < 3000*120/4 {
		t.Errorf("complete in %d steps only", complete)
	}
}
