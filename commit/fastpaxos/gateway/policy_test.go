package gateway

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
)

// labTrips are what a gateway's round trips take to the n-th nearest of the five regions, itself included.
func labTrips(id, n int) time.Duration {
	all := trips[id-1][:]
	sorted := append([]time.Duration{}, all...)
	for i := range sorted {
		for j := i + 1; j < len(sorted); j++ {
			if sorted[j] < sorted[i] {
				sorted[i], sorted[j] = sorted[j], sorted[i]
			}
		}
	}
	return sorted[n-1] * time.Millisecond
}

// policed runs a test in a world with a policy.
func policed(t *testing.T, name string, p core.Policy, leader kv.NodeID, f func(t *testing.T, w *lab)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newLab(51)
			w.policy, w.leader = p, leader
			f(t, w)
		})
	})
}

// writes has a gateway append to a record in a transaction, and says how long that took.
func (g *gateway) writes(t *testing.T, k string) time.Duration {
	t.Helper()
	begun := time.Now()
	if _, err := g.run(t.Context(), func(x *coordinator, tx *kv.Txn) error { return appendTo(t.Context(), x, tx, "x", k) }); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}

func (g *gateway) hasMaster(k string) bool {
	g.client.masters.mu.Lock()
	defer g.client.masters.mu.Unlock()
	return g.client.reigns[k] != nil
}

// keeps is how many records have a master at a gateway, and whether somebody looks after those that rest.
func (g *gateway) keeps() (n int, sweeping bool) {
	g.client.masters.mu.Lock()
	defer g.client.masters.mu.Unlock()
	return len(g.client.reigns), g.client.sweeping
}

// collide has two gateways write a record at the same moment, so that a master decides.
func collide(t *testing.T, k string, g, h *gateway) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.writes(t, k)
	}()
	g.writes(t, k)
	<-done
}

const atOwn = 8 * time.Millisecond // what requests within a region may take

func TestPolicies(t *testing.T) {
	// The leaseholder's gateway decides with a majority, from the range's second write on; others ask it.
	policed(t, "classic", core.Policy{Ballots: core.ClassicBallots}, 1, func(t *testing.T, w *lab) {
		g, h := w.gateway(51, 1), w.gateway(51, 4)
		for i, k := range []string{"k", "l", "m", "n"} {
			want := labTrips(1, 3)
			if i == 0 {
				want *= 2 // the term
			}
			if took := g.writes(t, k); took > want+atOwn {
				t.Errorf("the first write of %s: %s, want %s", k, took, want)
			}
		}
		time.Sleep(forgottenAfter + 2*sweepEvery)
		if g.hasMaster("l") {
			t.Error("a record that nobody writes has a master")
		}
		for i, k := range []string{"k", "k", "l", "m", "m"} {
			if took, want := g.writes(t, k), labTrips(1, 3); took > want+atOwn {
				t.Errorf("write %d, of %s: %s, want %s", i, k, took, want)
			}
			time.Sleep(time.Second)
		}
		for i, k := range []string{"k", "n", "n"} {
			if took, want := h.writes(t, k), labTrips(1, 3)+trips[3][0]*time.Millisecond; took > want+2*atOwn {
				t.Errorf("write %d from afar, of %s: %s, want %s", i, k, took, want)
			}
			time.Sleep(time.Second)
		}
		if n := w.got(core.Propose); n != 0 {
			t.Errorf("%d proposals to replicas", n)
		}
		stop(g, h)
	})
	// A master that always has something to decide hears of outcomes all the same: an option that has ended is not in the way of the next ones.
	policed(t, "classic, and busy", core.Policy{Ballots: core.ClassicBallots}, 1, func(t *testing.T, w *lab) {
		var gs []*gateway
		for n := range 5 {
			gs = append(gs, w.gateway(uint64(61+n), n+1))
		}
		var writers sync.WaitGroup
		var done, tried atomic.Int64
		begun := time.Now()
		for n := range 40 {
			g, dice := gs[n%len(gs)], sim.NewDice(uint64(n), "writer")
			writers.Go(func() {
				for time.Since(begun) < 14*time.Second {
					ks := []string{"k0", "k1", "k2"}
					for i := range ks {
						ks[i] += fmt.Sprint(dice.Int64N(10))
					}
					if err := g.add(t.Context(), "x", ks...); err == nil {
						done.Add(1)
					}
					tried.Add(1)
				}
			})
		}
		writers.Wait()
		if n := done.Load(); n < 30 { // a few, if it hears when it rests
			t.Errorf("%d of %d transactions have committed", n, tried.Load())
		}
		stop(gs...)
	})
	// Without the leaseholder's gateway all go on.
	policed(t, "classic, and the leaseholder is gone", core.Policy{Ballots: core.ClassicBallots}, 1, func(t *testing.T, w *lab) {
		g, h := w.gateway(52, 1), w.gateway(52, 2)
		g.writes(t, "k")
		time.Sleep(time.Second)
		g.cancel()
		w.lose(1, true)
		for i := range 4 {
			if took := h.writes(t, "k"); took > 2*roundTime+4*labTrips(2, 4) {
				t.Errorf("write %d took %s", i, took)
			}
		}
		stop(h)
	})
	// The master follows the lease, of which gateways hear when they ask again.
	policed(t, "classic, and the lease moves", core.Policy{Ballots: core.ClassicBallots}, 1, func(t *testing.T, w *lab) {
		g, h := w.gateway(57, 1), w.gateway(57, 4)
		g.writes(t, "k")
		time.Sleep(time.Second)
		h.writes(t, "k")
		w.mu.Lock()
		w.leader = 4
		w.mu.Unlock()
		time.Sleep(ledFor + time.Second)
		for range 2 { // the second one is asked of the new master, which takes the record
			g.writes(t, "k")
			time.Sleep(time.Second)
			h.writes(t, "k")
			time.Sleep(time.Second)
		}
		for range 2 {
			if took, want := h.writes(t, "k"), labTrips(4, 3); took > want+atOwn {
				t.Errorf("at the leaseholder: %s, want %s", took, want)
			}
			time.Sleep(time.Second)
			if took, want := g.writes(t, "k"), trips[0][3]*time.Millisecond+labTrips(4, 3); took > want+2*atOwn {
				t.Errorf("from afar: %s, want %s", took, want)
			}
			time.Sleep(time.Second)
		}
		// Its term is refused because of the earlier master's, and is taken again at once.
		h.writes(t, "y")
		if took, want := h.writes(t, "z"), labTrips(4, 3); took > want+atOwn {
			t.Errorf("the first write of a row at the new leaseholder: %s, want %s", took, want)
		}
		if n := w.got(core.Propose); n != 0 {
			t.Errorf("%d proposals to replicas", n)
		}
		stop(g, h)
	})
	// Updates that commute become a version though the master keeps the record, and whoever asks for that, and however often, nobody else waits.
	policed(t, "classic, and versions of sums", core.Policy{Ballots: core.ClassicBallots}, 1, func(t *testing.T, w *lab) {
		w.bases["k"] = &core.Record{Base: core.Value{At: clock.Timestamp{Wall: 1}, Data: []byte("50")}}
		g, h := w.gateway(58, 1), w.gateway(58, 3)
		for range 2 {
			for _, one := range []*gateway{g, h} { // nobody's sum is in the way of another one, also after the master has taken in what has committed
				if _, err := one.take(t.Context(), "k"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
			}
		}
		for i := range longest + 2 {
			begun := time.Now()
			if err := []*gateway{h, g}[i%2].client.mendVersions(t.Context(), keys.Key("k")); err != nil || time.Since(begun) > time.Second {
				t.Fatalf("the %d-th time: %s, %v", i, time.Since(begun), err)
			}
			if i == 2 {
				time.Sleep(time.Second)
				w.mu.Lock()
				for r, a := range w.acceptors(w.descs[0]) {
					if rec := a.Record(keys.Key("k")); len(rec.Added) > 0 || string(rec.Base.Data) != "46" {
						t.Errorf("replica %d has %s", r, show(rec))
					}
				}
				w.mu.Unlock()
			}
		}
		if _, err := h.take(t.Context(), "k"); err != nil || g.hasMaster("k") == h.hasMaster("k") {
			t.Error(err)
		}
		stop(g, h)
	})
	// A replica that has missed an outcome gets it, though the master has it and has nothing to decide.
	policed(t, "classic, and a missed outcome", core.Policy{Ballots: core.ClassicBallots}, 1, func(t *testing.T, w *lab) {
		g, h := w.gateway(59, 1), w.gateway(59, 3)
		g.writes(t, "k")
		time.Sleep(time.Second)
		o := core.Option{Name: core.Name{Txn: kv.TxnID{9}, At: g.client.stamp(clock.Timestamp{})}, Update: core.Update{Value: []byte("y")}, Keys: []keys.Key{keys.Key("k")}}
		w.mu.Lock()
		missed := w.acceptors(w.descs[0])[4].Record(keys.Key("k"))
		missed.Votes = append(missed.Votes, core.Vote{Option: o, Verdict: core.Accepted, Fixed: true})
		w.mu.Unlock()
		g.client.masters.mu.Lock()
		m := g.client.reigns["k"].kept.Master
		m.State = m.State.Clone()
		m.State.End(&o, false)
		g.client.settled.put("k", m.State, 0)
		g.client.masters.mu.Unlock()
		for _, one := range []*gateway{g, h} {
			if committed, err := one.client.Finish(t.Context(), &o, nil); committed || err != nil {
				t.Errorf("%t, %v", committed, err)
			}
		}
		time.Sleep(time.Second)
		w.mu.Lock()
		if out := missed.Outcome(o.Name); out != core.Rejected || len(missed.Votes) > 0 {
			t.Errorf("the replica has %v, %s", out, show(missed))
		}
		w.mu.Unlock()
		stop(g, h)
	})
	// After a collision so many options are decided by the master, and then the record is open.
	policed(t, "gamma", core.Policy{Ballots: core.GammaBallots, Gamma: 3}, 0, func(t *testing.T, w *lab) {
		g, h := w.gateway(53, 1), w.gateway(53, 2)
		g.writes(t, "k")
		if n := w.got(core.Prepare); n != 0 || g.hasMaster("k") {
			t.Fatalf("%d requests to prepare without a collision", n)
		}
		for n := 0; !g.hasMaster("k") && !h.hasMaster("k"); n++ {
			if n == 20 {
				t.Fatal("no collision leaves a master")
			}
			time.Sleep(time.Second)
			collide(t, "k", g, h)
		}
		one := g
		if h.hasMaster("k") {
			one = h
		}
		proposals, n := w.got(core.Propose), 0
		for ; one.hasMaster("k") && n < 10; n++ {
			one.writes(t, "k")
			time.Sleep(500 * time.Millisecond)
		}
		if n > 3 || one.hasMaster("k") {
			t.Errorf("the master has decided %d times", n)
		}
		if now := w.got(core.Propose); now != proposals {
			t.Errorf("%d proposals to replicas meanwhile", now-proposals)
		}
		one.writes(t, "k")
		if now := w.got(core.Propose); now == proposals {
			t.Error("nothing is proposed to the replicas of an open record")
		}
		stop(g, h)
	})
	// A record that one region writes most has its master there, and a cold one has none.
	policed(t, "learned", core.Policy{Ballots: core.LearnedBallots}, 0, func(t *testing.T, w *lab) {
		g, h := w.gateway(54, 1), w.gateway(54, 2)
		h.client.takeOver(keys.Key("k"), core.Ballot{})
		time.Sleep(2 * time.Second)
		if h.hasMaster("k") {
			t.Error("a record that nobody has written has a master")
		}
		for range 6 {
			h.writes(t, "k")
		}
		h.client.takeOver(keys.Key("k"), core.Ballot{}) // as if there had been a collision
		time.Sleep(time.Second)
		if !h.hasMaster("k") {
			t.Fatal("no master is kept of a hot record")
		}
		for n := 0; !g.hasMaster("k") && n < 60; n++ {
			g.writes(t, "k")
		}
		if !g.hasMaster("k") {
			t.Fatal("the master is not at the gateway that writes most")
		}
		time.Sleep(500 * time.Millisecond)
		for i := range 3 {
			if took, want := g.writes(t, "k"), labTrips(1, 3); took > want+atOwn {
				t.Errorf("write %d after the master has moved: %s, want %s", i, took, want)
			}
		}
		time.Sleep(coldAfter + 2*sweepEvery)
		if g.hasMaster("k") || h.hasMaster("k") {
			t.Error("a cold record has a master")
		}
		proposals := w.got(core.Propose)
		if took, want := h.writes(t, "k"), labTrips(h.id, 4); w.got(core.Propose) == proposals || took > want+atOwn {
			t.Errorf("a cold record is not open: %s of %s", took, want)
		}
		stop(g, h)
	})
	// Gateways of one region count together, and ask each other.
	policed(t, "learned, of a region", core.Policy{Ballots: core.LearnedBallots}, 0, func(t *testing.T, w *lab) {
		near, h := []*gateway{w.gateway(56, 1), w.gateway(56, 6)}, w.gateway(56, 2)
		for range 6 {
			h.writes(t, "k")
		}
		h.client.takeOver(keys.Key("k"), core.Ballot{}) // as if there had been a collision
		time.Sleep(time.Second)
		for i := 0; !near[0].hasMaster("k") && !near[1].hasMaster("k"); i++ {
			if i == 60 {
				t.Fatal("the master is not in the region that writes most")
			}
			near[i%2].writes(t, "k")
		}
		time.Sleep(500 * time.Millisecond)
		for i := range 6 {
			want := labTrips(1, 3)
			if i == 0 {
				want += labTrips(1, 2) // the other gateway hears of it from the one that had the record
			}
			if took := near[i%2].writes(t, "k"); took > want+atOwn {
				t.Errorf("write %d after the master has moved: %s, want %s", i, took, want)
			}
		}
		stop(append(near, h)...)
	})
	// A gateway keeps no more than so many records.
	policed(t, "many", core.Policy{Ballots: core.GammaBallots, Gamma: 100}, 0, func(t *testing.T, w *lab) {
		g := w.gateway(55, 1)
		for i := range 5 {
			k := keys.Key(fmt.Sprint("k", i))
			g.client.takeOver(k, core.Ballot{})
		}
		time.Sleep(time.Second)
		if n, _ := g.keeps(); n != 5 {
			t.Errorf("%d records are kept", n)
		}
		time.Sleep(staleAfter + 2*sweepEvery)
		if n, sweeping := g.keeps(); n != 0 || sweeping {
			t.Errorf("%d records are kept, though nobody writes them", n)
		}
		stop(g)
	})
}

// TestAskedAfterAsking: a gateway that has asked a master elsewhere, which may be lost since, does not send others there; and with fast ballots a record has no master for long.
func TestAskedAfterAsking(t *testing.T) {
	for name, p := range map[string]core.Ballots{"fast": core.FastBallots, "gamma": core.GammaBallots} {
		policed(t, name, core.Policy{Ballots: p}, 0, func(t *testing.T, w *lab) {
			g, h := w.gateway(51, 1), w.gateway(52, 2)
			k := keys.Key("k")
			h.client.follow(k, core.Ballot{Round: 1, Master: uint64(g.client.o.NodeID())})
			if to := h.client.handedTo(k); to != 0 {
				t.Errorf("those who ask are sent to node %d", to)
			}
			if _, ok := h.client.master(t.Context(), k); ok == (p == core.FastBallots) {
				t.Errorf("it has a master to ask: %v", ok)
			}
			h.client.masters.mu.Lock()
			if n := len(h.client.followed); (n == 0) != (p == core.FastBallots) {
				t.Errorf("%d masters are remembered", n)
			}
			h.client.masters.mu.Unlock()
			stop(g, h)
		})
	}
}

// TestRefresh: what a master takes in while it rests is proposed before anything is learned by it, or becomes a version.
func TestRefresh(t *testing.T) {
	at := func(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }
	sum := func(n int64) core.Option {
		return core.Option{Name: core.Name{Txn: kv.TxnID{byte(n)}, At: at(n)}, Update: core.Update{Deltas: []core.Delta{{Amount: 1, Max: 100}}}, Keys: []keys.Key{keys.Key("k")}}
	}
	made := func(gamma int) *core.Master {
		m := core.NewMaster(keys.Key("k"), 7, core.QuorumsOf(3), plain{}, gamma)
		m.Want(sum(1), false)
		for q := m.Request(); q != nil; q = m.Request() {
			for r := kv.ReplicaID(1); r <= 2; r++ {
				m.Answer(r, q, &core.Reply{Promised: q.Ballot, Ballot: q.Ballot, Sequence: q.Sequence, Record: &core.Record{Base: core.Value{At: at(0), Data: []byte("5")}}})
			}
		}
		if l := m.Learned(); len(l) != 1 || l[0].Verdict != core.Accepted || !m.Idle() {
			t.Fatalf("%v", l)
		}
		known := m.State.Clone() // at the nearest replica
		for _, n := range []int64{1, 2} {
			o := sum(n)
			known.End(&o, true)
		}
		m.Refresh(known, true)
		return m
	}
	m := made(10)
	m.Want(sum(2), false)
	if l, q := m.Learned(), m.Request(); len(l) > 0 || q == nil || q.Sequence != 2 || q.State.Outcome(sum(2).Name) != core.Accepted {
		t.Errorf("learned %v, and asks %v", l, q)
	}
	m = made(10)
	m.Release()
	if q := m.Request(); q == nil || !q.Ballot.Fast || string(q.State.Base.Data) != "5" || len(q.State.Added) != 2 {
		t.Errorf("what opens the record is %v", q)
	}
}
