package fastpaxos

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
)

// sinceThen are the messages since the last call.
func (w *lab) sinceThen() (batches int, kinds map[Kind]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batches, kinds = w.batches, w.kinds
	w.batches, w.kinds = 0, map[Kind]int{}
	return batches, kinds
}

// everywhere reports how many of the five replicas have a row's value, and know the transaction's end without the keys of others.
func (w *lab) everywhere(k, value string) (have, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acceptors(w.desc(keys.Key(k))) {
		r := a.records[k]
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
		if kinds[End] < (n-2)*2*5 {
			t.Errorf("%d ends have travelled with proposals", kinds[End])
		}
		time.Sleep(time.Second)
		if _, then := w.sinceThen(); kinds[End]+then[End] != n*2*5 || kinds[Forget]+then[Forget] != n*2*5 {
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
				if kinds[Forget] > 0 {
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
					if _, err := h.client.tell(t.Context(), []*Request{end(keys.Key("b"), w.vote("b"), true)}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				if have, closed := w.everywhere("b", " x"); have != 5 || closed != 0 {
					t.Fatalf("%d replicas have the row, %d need not remember\n%s", have, closed, w.show("b"))
				}
				if n := len(w.late("b", overdueElsewhere)); n != 0 {
					t.Errorf("%d replicas find too early that an outcome is remembered", n)
				}
				found := w.late("b", 2*unforgotten)
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
				if n := len(w.late("b", 2*unforgotten)); n != 0 {
					t.Errorf("%d replicas find it again", n)
				}
				stop(h)
			})
		})
	}
}

// vote is an option that is outstanding at a replica.
func (w *lab) vote(k string) Option {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acceptors(w.desc(keys.Key(k))) {
		if r := a.records[k]; r != nil && len(r.Votes) > 0 {
			return r.Votes[0].Option
		}
	}
	return Option{}
}

// late is what the replicas of a record, each of them as the leaseholder's, find to have waited for too long when so much time has passed.
func (w *lab) late(k string, then time.Duration) (out []Overdue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acceptors(w.desc(keys.Key(k))) {
		if r := a.records[k]; r != nil {
			a.Lead(true)
			a.late(k, r, wall(time.Now().Add(then).UnixNano()))
			out = append(out, a.Overdue()...)
			a.Lead(false)
		}
	}
	return out
}

// TestShow: an outcome that was shown is executed, and promises nothing; the end that follows is durable before it is answered, if it has to be (fastpaxos.FP72).
func TestShow(t *testing.T) {
	k := keys.Key("k")
	for _, several := range []bool{false, true} {
		a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
		a.Load(k, &Record{Base: Value{At: wall(1), Data: []byte("5")}})
		step := func(q *Request) Effects {
			a.Step(clock.Timestamp{}, core.Call[Request, Reply]{Request: q})
			return a.Effects()
		}
		o := Option{Name: Name{Txn: kv.TxnID{1}, At: wall(2)}, Update: Update{Seen: Seen{Base: wall(1)}, Deltas: []Delta{{Amount: 1, Min: 0, Max: 100}}}, Keys: []keys.Key{k}}
		if several {
			o.Keys = append(o.Keys, keys.Key("z"))
		}
		fx := step(&Request{Kind: Propose, Key: k, Option: o})
		if fx.Ticket == 0 || len(fx.After) != 1 || fx.After[0].Reply.Verdict != Accepted {
			t.Fatalf("proposed: %+v", fx)
		}
		a.Durable(fx.Ticket)
		a.Effects()
		if fx = step(&Request{Kind: Show, Key: k, Option: o, Committed: true}); fx.Ticket != 0 || len(fx.Send) != 1 || len(fx.Persist) != 0 {
			t.Errorf("shown: %+v", fx)
		}
		if row, err := a.records["k"].row(k, plain{}); err != nil || string(row.Value) != "6" {
			t.Errorf("shown: %q, %v", row.Value, err)
		}
		if fx = step(&Request{Kind: Show, Key: k, Option: o, Committed: true}); len(fx.Persist) != 0 {
			t.Errorf("shown again: %+v", fx)
		}
		if fx = step(&Request{Kind: End, Key: k, Option: o, Committed: true}); (fx.Ticket != 0) != several || len(fx.After) == 1 != several || several && len(fx.Persist) != 1 {
			t.Errorf("several records %v, ended: %+v", several, fx)
		}
		if fx.Ticket != 0 {
			a.Durable(fx.Ticket)
			a.Effects()
		}
		if fx = step(&Request{Kind: End, Key: k, Option: o, Committed: true}); fx.Ticket != 0 || len(fx.Send) != 1 {
			t.Errorf("ended again: %+v", fx)
		}
		if step(&Request{Kind: Forget, Key: k, Option: Option{Name: o.Name}}); a.records["k"].Outcome(o.Name) != Accepted || a.records["k"].Recent[0].Keys != nil {
			t.Errorf("forgotten: %s", show(a.records["k"]))
		}
		if step(&Request{Kind: Forget, Key: k, Option: Option{Name: Name{Txn: kv.TxnID{9}, At: wall(9)}}}); a.records["k"].Outcome(Name{Txn: kv.TxnID{9}, At: wall(9)}) != Undecided {
			t.Error("an outcome was made up")
		}
	}
}

// TestTogether: several requests of one message, about one record too, are one batch of the delta, which has what they come to.
func TestTogether(t *testing.T) {
	k := keys.Key("k")
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.Load(k, &Record{Base: Value{At: wall(1), Data: []byte("5")}})
	option := func(i byte, seen clock.Timestamp) Option {
		return Option{Name: Name{Txn: kv.TxnID{i}, At: wall(int64(i))}, Update: Update{Seen: Seen{Base: seen}, Value: []byte{'0' + i}}, Keys: []keys.Key{k, keys.Key("z")}}
	}
	x, y := option(2, wall(1)), option(3, wall(2))
	for i, q := range []*Request{{Kind: Propose, Key: k, Option: x}, {Kind: End, Key: k, Option: x, Committed: true}, {Kind: Propose, Key: k, Option: y}, {Kind: Query, Key: k}} {
		a.Step(clock.Timestamp{}, core.Call[Request, Reply]{ID: uint64(i), Request: q})
	}
	fx := a.Effects()
	if fx.Ticket == 0 || len(fx.Send) != 0 || len(fx.After) != 4 {
		t.Errorf("%d replies leave before it is durable, %d after", len(fx.Send), len(fx.After))
	}
	delta := deltaMap{}
	b := deltaBatch{}
	for i := range fx.Persist {
		fx.Persist[i].store(&b)
	}
	for _, op := range b.ops {
		op(delta)
	}
	w := &deltaWorld{t: t}
	again := w.restored(delta)
	again.floor = clock.Timestamp{}
	again.Load(k, &Record{Base: Value{At: wall(1), Data: []byte("5")}})
	if got, want := show(again.records["k"]), show(a.records["k"]); got != want {
		t.Errorf("after a restart: %s, want %s", got, want)
	}
}
