package leader

import (
	"context"
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

// auditHeld compares what leaseholders know with the lock table (leader.P11), for as long as ctx lasts. It is called in the middle of
// everything, so an entry counts as missed only if it is there before and after it was looked for.
func (c *cluster) auditHeld(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Duration(200+n%7*100) * time.Microsecond)
		for i, p := range c.ps {
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
		return []change{{latch.Hash(k), entry{id: kv.TxnID{i}, at: txn(i).WriteTimestamp}}}
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
	h.land(early, nil)
	h.begin(some)
	is("its intent is there", true, true)
	h.begin(none)
	is("it is gone", false, false)
	lay := h.takeOff(hash(a))
	is("before a command applies", true, false)
	h.land(lay, nil)
	is("and after", true, false)
	again, remove := h.takeOff(by(2, a)), h.takeOff(nil)
	h.land(remove, hash(a))
	is("one of two entries is removed", true, false)
	h.land(again, by(2, a)) // it was refused
	is("the other was never laid", false, false)
	old := h.takeOff(hash(b))
	h.reset()
	h.begin(none)
	is("a command from before a reset may still apply", true, true)
	h.land(old, hash(b))
	h.begin(none)
	is("it is over", false, false)
	h.land(h.takeOff(by(3, a)), nil)
	h.land(h.takeOff(by(4, a)), nil)
	for _, i := range []byte{3, 4} {
		is("an entry is in somebody's way", true, false)
		committed := txn(i)
		h.known.add(&committed)
	}
	if is("both are known to be committed", false, false); !h.Has(a) {
		t.Error("they are not there to be resolved")
	}
	h.land(h.takeOff(by(5, b)), nil)
	moved := txn(5)
	moved.WriteTimestamp.Wall++
	h.known.add(&moved)
	is("one is committed later than it was laid", false, true)
	many := make([]change, heldMax+1)
	for i := range many {
		many[i].key = uint64(i)
	}
	h.land(h.takeOff(many), nil)
	is("there are too many", true, true)
}
