package leader

import (
	"context"
	"testing"
	"testing/synctest"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
)

// TestHeldIsForgotten: a leaseholder that knew its range to have no intents does not know it any more after another one has
// laid some (P11).
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

// TestHeld: the table is of use only from a moment on when there was nothing, and it never misses a key.
func TestHeld(t *testing.T) {
	h := held{known: &finished{}}
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
