package gateway

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// sinceThen are the messages since the last call.
func (w *lab) sinceThen() (batches int, kinds map[core.Kind]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batches, kinds = w.batches, w.kinds
	w.batches, w.kinds = 0, map[core.Kind]int{}
	return batches, kinds
}

// everywhere reports how many of the five replicas have a row's value, and know the transaction's end without the keys of others.
func (w *lab) everywhere(k, value string) (have, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acceptors(w.desc(keys.Key(k))) {
		r := a.Record(keys.Key(k))
		if r == nil {
			continue
		}
		if string(r.Base.Data) == value {
			have++
		}
		open := len(r.Votes)
		for _, e := range r.Recent {
			open += len(e.Keys)
		}
		if open == 0 {
			closed++
		}
	}
	return have, closed
}

// TestEndsTravel: the ends of a transaction are in the messages with the next one's proposals to the same ranges, or come by themselves soon (fastpaxos.FP70).
func TestEndsTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(21, "m")
		g := w.gateway(21, 1)
		const n = 6
		for i := range n {
			if err := g.add(t.Context(), fmt.Sprint(i), fmt.Sprint("b", i), fmt.Sprint("n", i)); err != nil {
				t.Fatal(err)
			}
		}
		// Each transaction reads two rows at one replica, and proposes two options to five replicas each. Those that are still on their way are of the last proposals.
		time.Sleep(3 * time.Millisecond)
		batches, kinds := w.sinceThen()
		if most := n * (2 + 2*5); batches > most {
			t.Errorf("%d messages, want %d at most: %v", batches, most, kinds)
		}
		if kinds[core.End] < (n-2)*2*5 {
			t.Errorf("%d ends have travelled with proposals", kinds[core.End])
		}
		time.Sleep(time.Second)
		if _, then := w.sinceThen(); kinds[core.End]+then[core.End] != n*2*5 || kinds[core.Forget]+then[core.Forget] != n*2*5 {
			t.Errorf("not each replica was told each outcome once, and that it may forget it: %v, %v", kinds, then)
		}
		for i := range n {
			for _, k := range []string{"b", "n"} {
				if have, closed := w.everywhere(fmt.Sprint(k, i), fmt.Sprint(" ", i)); have != 5 || closed != 5 {
					t.Errorf("%s%d: %d replicas have it, %d need not remember", k, i, have, closed)
				}
			}
		}
		stop(g)
	})
}

// TestEndsTravelInVain: ends that have travelled with proposals whose answers are lost are told again, and nobody forgets what a replica has not heard (fastpaxos.FP70, fastpaxos.FP71).
func TestEndsTravelInVain(t *testing.T) {
	for _, lost := range []int{1, 3} { // replicas
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(22, "m")
				g := w.gateway(22, 1)
				if err := g.add(t.Context(), "x", "b", "n"); err != nil {
					t.Fatal(err)
				}
				for r := range lost {
					w.lose(kv.ReplicaID(5-r), true)
				}
				w.sinceThen()
				done := make(chan error, 1)
				go func() { done <- g.add(t.Context(), "y", "c", "o") }()
				time.Sleep(500 * time.Millisecond)
				_, kinds := w.sinceThen()
				if kinds[core.Forget] > 0 {
					t.Errorf("outcomes are forgotten that %d replicas have not heard: %v", lost, kinds)
				}
				have, closed := w.everywhere("b", " x")
				if have != 5-lost || lost == 3 && closed > 0 {
					t.Errorf("%d replicas have the row, and %d of a minority think that the others of the transaction have ended", have, closed)
				}
				for r := range lost {
					w.lose(kv.ReplicaID(5-r), false)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				time.Sleep(15 * time.Second)
				for _, k := range []string{"b", "n"} {
					if have, closed := w.everywhere(k, " x"); have != 5 || closed != 5 {
						t.Errorf("%s: %d replicas have it, %d need not remember\n%s", k, have, closed, w.show(k))
					}
				}
				stop(g)
			})
		})
	}
}

// TestForgottenByOthers: the gateway of a transaction has told its outcome, or a part of it, and is gone before it has said that nobody need remember it. A replica finds that minutes later, and another gateway has it
// forgotten: first the rest of the transaction is told.
func TestForgottenByOthers(t *testing.T) {
	for _, part := range []bool{false, true} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(23, "m")
				g := w.gateway(23, 1)
				if err := g.add(t.Context(), "x", "b", "n"); err != nil {
					t.Fatal(err)
				}
				if !part {
					time.Sleep(closeWithin / 2)
				}
				g.cancel()
				g.host.Group.Stop()
				h := w.gateway(24, 2)
				if part {
					// Another gateway that finishes it is gone as well when the replicas of one record have heard.
					if _, err := h.client.tell(t.Context(), []*core.Request{end(keys.Key("b"), w.vote("b"), true)}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				if have, closed := w.everywhere("b", " x"); have != 5 || closed != 0 {
					t.Fatalf("%d replicas have the row, %d need not remember\n%s", have, closed, w.show("b"))
				}
				if n := len(w.late("b", 14*time.Second)); n != 0 {
					t.Errorf("%d replicas find too early that an outcome is remembered", n)
				}
				found := w.late("b", 4*time.Minute)
				if len(found) != 5 || !found[0].Ended || len(found[0].Option.Keys) != 2 {
					t.Fatalf("found %v", found)
				}
				h.client.MendOutcome(found[0].Key, found[0].Option)
				time.Sleep(5 * time.Second)
				for _, k := range []string{"b", "n"} {
					if have, closed := w.everywhere(k, " x"); have != 5 || closed != 5 {
						t.Errorf("%s: %d replicas have it, %d need not remember\n%s", k, have, closed, w.show(k))
					}
				}
				if n := len(w.late("b", 4*time.Minute)); n != 0 {
					t.Errorf("%d replicas find it again", n)
				}
				stop(h)
			})
		})
	}
}

// vote is an option that is outstanding at a replica.
func (w *lab) vote(k string) core.Option {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acceptors(w.desc(keys.Key(k))) {
		if r := a.Record(keys.Key(k)); r != nil && len(r.Votes) > 0 {
			return r.Votes[0].Option
		}
	}
	return core.Option{}
}

// late is what the replicas of a record, each of them as the leaseholder's, find to have waited for too long when so much time has passed.
func (w *lab) late(k string, then time.Duration) (out []core.Overdue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acceptors(w.desc(keys.Key(k))) {
		if r := a.Record(keys.Key(k)); r != nil {
			a.Lead(true)
			a.Late(k, r, wall(time.Now().Add(then).UnixNano()))
			out = append(out, a.Overdue()...)
			a.Lead(false)
		}
	}
	return out
}
