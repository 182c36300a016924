package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// reigns takes a term, as a master that rules a range does.
func (g *gateway) reigns(t *testing.T, k string) *core.Term {
	t.Helper()
	m, err := g.client.term(t.Context(), keys.Key(k))
	if err != nil || m == nil {
		t.Fatalf("no term: %v", err)
	}
	return m
}

// TestTermOneRound: the master of a term decides about records that it has not seen before in one round to a majority; one that has no term needs two.
func TestTermOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		g := w.gateway(1, 1)
		decide := func(k string, seen core.Seen) (core.Learned, time.Duration) {
			t.Helper()
			begun := time.Now()
			key := keys.Key(k)
			l, err := g.client.rule(t.Context(), key, core.Option{Name: core.Name{Txn: kv.TxnID{1}, At: g.client.stamp(clock.Timestamp{})}, Update: core.Update{Seen: seen, Value: []byte("v")}, Keys: []keys.Key{key}}, false)
			if err != nil || l.Verdict != core.Accepted {
				t.Errorf("%s: %v, %v", k, l.Verdict, err)
			}
			return l, time.Since(begun)
		}
		if _, d := decide("a1", core.Seen{}); d < 160*time.Millisecond {
			t.Errorf("without a term: %s", d)
		}
		time.Sleep(time.Second)
		term := g.reigns(t, "b")
		for _, k := range []string{"b1", "b2", "b3"} {
			if !term.Covers(keys.Key(k)) {
				t.Errorf("%s is not covered", k)
			}
			if _, d := decide(k, core.Seen{}); d > 85*time.Millisecond {
				t.Errorf("%s took %s", k, d)
			}
			if term.Covers(keys.Key(k)) {
				t.Errorf("%s is covered twice", k)
			}
			time.Sleep(time.Second)
		}
		if term.Covers(keys.Key("a1")) {
			t.Error("a record with a ballot of its own is covered")
		}
		if again := g.reigns(t, "c"); again != term {
			t.Error("there are two terms")
		}
		if n := w.got(core.Reign); n != 5 {
			t.Errorf("%d Reigns", n)
		}
		// Another gateway's proposals go to the term's master.
		h := w.gateway(1, 4)
		prepared := w.got(core.Prepare)
		if err := h.add(t.Context(), "x", "c1"); err != nil {
			t.Error(err)
		}
		if n := w.got(core.Prepare); n != prepared {
			t.Errorf("%d Prepares", n-prepared)
		}
		stop(g, h)
	})
}

// TestTermOfOldBase: a master does not begin with a version that other replicas' bases have replaced (fastpaxos.FP92), nor with a record of which a replica knows more (fastpaxos.FP91).
func TestTermOfOldBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		h := w.gateway(1, 4)
		for _, v := range []string{"1", "2"} {
			if err := h.add(t.Context(), v, "k"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		d := w.descs[0]
		time.Sleep(5 * time.Minute)
		// All replicas but the one next to the gateway have the version in their bases, and have dropped the record.
		w.mu.Lock()
		l := w.log(d)
		l.entries = w.acceptors(d)[3].Final(1 << 20)
		for r := kv.ReplicaID(2); r <= 5; r++ {
			l.has[r] = 1
			w.tend(d, r, w.acceptors(d)[r], clock.Timestamp{Wall: time.Now().UnixNano()})
			if n := recordsOf(w.acceptors(d)[r]); n > 0 {
				t.Errorf("replica %d has %d records", r, n)
			}
		}
		w.acceptors(d)[1] = w.labAcceptor(d, 1, clock.Timestamp{}) // it has never heard of it
		w.mu.Unlock()
		g := w.gateway(1, 1)
		term := g.reigns(t, "k")
		if !term.Covers(keys.Key("k")) {
			t.Error("the record is apart")
		}
		m, err := g.client.masterInTerm(t.Context(), term, keys.Key("k"), 0)
		if err != nil || m == nil {
			t.Fatal(err)
		}
		if got := string(m.State.Base.Data); got != " 1 2" {
			t.Errorf("the master begins with %q", got)
		}
		w.mu.Lock()
		if term.Floor != w.acceptors(d)[3].Floor() || term.Floor.IsZero() {
			t.Errorf("the floor is %s", term.Floor)
		}
		w.mu.Unlock()
		stop(g, h)
	})
}

// TestTermLost: a gateway has a term at once though another one's ballot is later, and that one notices.
func TestTermLost(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			w := newLab(seed)
			g, h := w.gateway(seed, 1), w.gateway(seed, 2)
			g.reigns(t, "k")
			if other, err := h.client.term(t.Context(), keys.Key("k")); other == nil || err != nil {
				t.Errorf("seed %d: no term, %v", seed, err)
			}
			stop(g, h)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		g, h := w.gateway(1, 1), w.gateway(1, 2)
		one, other := g.reigns(t, "k"), h.reigns(t, "k")
		if other.Alone || !one.Alone {
			t.Errorf("alone: the first %v, the second %v", one.Alone, other.Alone)
		}
		if err := g.add(t.Context(), "x", "k1"); err != nil {
			t.Error(err)
		}
		if m, err := g.client.masterInTerm(t.Context(), one, keys.Key("k2"), 0); err != nil || m == nil {
			t.Error(err)
		} else {
			o := physical(time.Now().UnixNano())
			m.Want(o, false)
			q := m.Request()
			_, _ = g.client.each(t.Context(), []*core.Request{q}, func(_ *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) bool {
				m.Answer(from, q, rs[0])
				return true
			})
			if !m.Lost() || !one.Over.Load() {
				t.Errorf("lost: %v, over: %v", m.Lost(), one.Over.Load())
			}
		}
		stop(g, h)
	})
}

// TestTermOfMany: those who ask for the same term at once, and again when it is over, share what the gateway knows of it. The race detector looks on; it sees
// an unguarded access only when two get in each other's way, so there are many rounds.
func TestTermOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		g := w.gateway(1, 1)
		for range 80 {
			var wait sync.WaitGroup
			for range 16 {
				wait.Go(func() {
					for range 10 {
						m, err := g.client.term(t.Context(), keys.Key("k"))
						if m == nil || err != nil {
							t.Errorf("no term, %v", err)
							return
						}
						m.Over.Store(true)
					}
				})
			}
			wait.Wait()
		}
		stop(g)
	})
}

// termCount is what has happened in worlds with terms.
type termCount struct{ taken, dictated, marked, dropped, renewed, committed int }

// terms has one gateway take terms, and sometimes others, while versions get into the bases of replicas that lag behind, and records are dropped.
func terms(t *testing.T, end time.Duration, n *termCount) func(*lab, []*gateway) {
	return func(w *lab, gs []*gateway) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(end, func() {
			cancel()
			w.mu.Lock()
			defer w.mu.Unlock()
			n.taken, n.dictated, n.marked, n.dropped, n.renewed = n.taken+len(w.reigned), n.dictated+w.inTerm, n.marked+w.marked, n.dropped+w.dropped, n.renewed+w.renewed
		})
		for i, g := range gs {
			go func() {
				for ctx.Err() == nil {
					w.mu.Lock()
					pause := time.Duration(w.dice.Int64N(int64(time.Second)))
					k := keys.Key(fmt.Sprint("k", w.dice.IntN(6)))
					takes := i == 0 || w.dice.IntN(40) == 0
					w.mu.Unlock()
					time.Sleep(pause)
					if g.ctx.Err() != nil {
						return
					}
					if takes {
						_, _ = g.client.term(ctx, k)
					}
					w.absorb(i, g.client.o.Clock.Now())
				}
			}()
		}
	}
}

// TestTermsAtRandom: as TestGateways, while terms are taken.
func TestTermsAtRandom(t *testing.T) {
	seeds, dictated := uint64(60), 60
	if testing.Short() {
		seeds, dictated = 8, 1 // eight worlds alone need not have many
	}
	var n termCount
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			committed, err := playWorld(t, seed, "", terms(t, 20*time.Second, &n))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			n.committed += committed
		})
	}
	if t.Logf("%+v", n); n.committed < int(seeds)*4 || n.dictated < dictated {
		t.Error("that is too few")
	}
}

// TestTermsSerializable: as TestSerializableAtRandom, while terms are taken.
func TestTermsSerializable(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	var n termCount
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { histories(t, seed, terms(t, 90*time.Second, &n)) })
		})
	}
	if t.Logf("%+v", n); n.dictated < int(seeds)*4 || n.marked < int(seeds)*4 {
		t.Error("that is too few")
	}
}

// coldWorld has bursts of transactions with minutes between them, in which replicas' bases get the versions, one later than the other, and acceptors drop the records. A term is taken around the beginning of each
// burst, so that its master begins with records that nobody knows any more, and with some that somebody does.
func coldWorld(t *testing.T, seed uint64, mistake string, n *termCount) error {
	const rows = 8
	w := newLab(seed, "k4")
	w.politics(seed / 3)
	w.mistake = mistake
	var gs []*gateway
	for i := range 4 {
		gs = append(gs, w.gateway(seed, i+1))
	}
	draw := func(most int) int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.dice.IntN(most)
	}
	var mu sync.Mutex
	var all []outcome
	next := kv.ReplicaID(0)
	for burst := range 5 {
		w.mu.Lock()
		w.loss, w.jitter = []float64{0, 0.02, 0.1}[w.dice.IntN(3)], []time.Duration{time.Millisecond, 30 * time.Millisecond}[w.dice.IntN(2)]
		w.mu.Unlock()
		var wait sync.WaitGroup
		for i, g := range gs {
			wait.Go(func() {
				if draw(2) == 0 && i < 2 || draw(8) == 0 {
					time.Sleep(time.Duration(draw(300)) * time.Millisecond)
					for _, k := range []string{"k1", "k5"} {
						_, _ = g.client.term(t.Context(), keys.Key(k))
					}
				}
			})
			wait.Go(func() {
				time.Sleep(time.Duration(draw(500)) * time.Millisecond)
				for j := range 3 {
					o := outcome{word: fmt.Sprintf("g%d.%d.%d", i, burst, j)}
					for range 1 + draw(2) {
						if k := fmt.Sprint("k", draw(rows)); !slices.Contains(o.keys, k) {
							o.keys = append(o.keys, k)
						}
					}
					ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
					o.err = g.add(ctx, o.word, o.keys...)
					cancel()
					mu.Lock()
					all = append(all, o)
					mu.Unlock()
					time.Sleep(time.Duration(draw(400)) * time.Millisecond)
				}
			})
		}
		if draw(5) == 0 {
			time.AfterFunc(time.Duration(draw(2000))*time.Millisecond, func() { w.change(false) })
		}
		wait.Wait()
		missing := kv.ReplicaID(draw(3)) // it misses all of the next burst but what it hears of others, and is late with the log
		w.mu.Lock()
		w.loss, w.slow = 0, 0
		for r, dead := range w.dead {
			if dead {
				w.slow = r
			}
		}
		if missing > 0 {
			next = missing
		}
		w.mu.Unlock()
		for n := range 20 {
			time.Sleep(time.Duration(5+draw(10)) * time.Second)
			for i := range w.descs {
				w.absorb(i, gs[0].client.o.Clock.Now())
			}
			if n == 2 { // by then nobody tells it the outcomes any more
				w.lose(w.slow, false)
			}
		}
		w.lose(next, next > 0)
		for i, g := range gs {
			if draw(2) == 0 { // it begins again, and has forgotten its terms, and what it has read
				g.cancel()
				g.host.Group.Stop()
				gs[i] = w.gateway(seed+uint64(100*burst+100), i+1)
			}
		}
	}
	w.lose(next, false)
	w.mu.Lock()
	w.slow = 0
	w.mu.Unlock()
	for range 100 {
		time.Sleep(10 * time.Second)
		for i := range w.descs {
			w.absorb(i, gs[0].client.o.Clock.Now())
		}
	}
	w.mu.Lock()
	w.mistake = ""
	n.taken, n.dictated, n.dropped, n.renewed = n.taken+len(w.reigned), n.dictated+w.inTerm, n.dropped+w.dropped, n.renewed+w.renewed
	w.mu.Unlock()
	values := map[string][]string{}
	for i := range 5 {
		g := w.gateway(seed+1, i+1)
		gs = append(gs, g)
		for r := range rows {
			k := fmt.Sprint("k", r)
			v := strings.Fields(g.get(t, k))
			if i > 0 && !slices.Equal(v, values[k]) {
				stop(gs...)
				return fmt.Errorf("region %d reads %v in %s, not %v\n%s", i, v, k, values[k], w.show(k))
			}
			values[k] = v
		}
	}
	stop(gs...)
	for _, o := range all {
		there := 0
		for _, k := range o.keys {
			m := 0
			for _, x := range values[k] {
				if x == o.word {
					m++
				}
			}
			if m > 1 {
				return fmt.Errorf("%s is in %s twice", o.word, k)
			}
			there += m
		}
		var unsure *kv.AmbiguousError
		switch {
		case there != 0 && there != len(o.keys):
			return fmt.Errorf("%s is in %d of %v (%v): %v", o.word, there, o.keys, o.err, values)
		case o.err == nil && there == 0:
			return fmt.Errorf("%s was committed to %v and is lost: %v", o.word, o.keys, values)
		case o.err != nil && !errors.As(o.err, &unsure) && there > 0:
			return fmt.Errorf("%s is in %v, after %v", o.word, o.keys, o.err)
		}
		if there > 0 {
			n.committed++
		}
	}
	return nil
}

// TestTermsOfColdRecords: nothing is lost when masters of terms begin with records that nobody has written for minutes.
func TestTermsOfColdRecords(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	var n termCount
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			if err := coldWorld(t, seed, "", &n); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
	}
	if t.Logf("%+v", n); n.committed < int(seeds)*10 || n.dictated < int(seeds)*10 || n.dropped < int(seeds)*10 {
		t.Error("that is too few")
	}
}

// TestTermsNotice: the checks notice masters that begin with records of which a replica knows more, and with old versions.
func TestTermsNotice(t *testing.T) {
	for _, mistake := range []string{"no record is apart", "bases are old"} {
		var err error
		for seed := uint64(0); seed < 2000 && err == nil; seed++ {
			var n termCount
			synctest.Test(t, func(t *testing.T) { err = coldWorld(t, seed, mistake, &n) })
			if err != nil {
				t.Logf("%s: seed %d: %v", mistake, seed, err)
			}
		}
		if err == nil {
			t.Errorf("nobody noticed that %s", mistake)
		}
	}
}

// TestScanInTerm: what a scan at a timestamp has not found is not committed at or below it afterwards, also where the term's master decides (fastpaxos.FP94).
func TestScanInTerm(t *testing.T) {
	// twice scans again and again at one timestamp, and gives what it has found first and last.
	twice := func(t *testing.T, g *gateway, between func()) (first string) {
		t.Helper()
		x, tx := g.at(kv.RepeatableRead)
		first, err := g.scan(t.Context(), x, tx, "a", "z")
		if retry := (*kv.TxnRetryError)(nil); errors.As(err, &retry) { // a new generation has begun
			x, tx = g.at(kv.RepeatableRead)
			first, err = g.scan(t.Context(), x, tx, "a", "z")
		}
		if err != nil {
			t.Error(err)
		}
		between()
		again, err := g.scan(t.Context(), x, tx, "a", "z")
		if err != nil || again != first {
			t.Errorf("scanned %q, and then %q, %v", first, again, err)
		}
		return first
	}
	run := func(name string, f func(t *testing.T, w *lab)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, newLab(1)) }) })
	}
	run("an option that comes to the master after the promise", func(t *testing.T, w *lab) {
		g, far := w.gateway(1, 1), w.gateway(1, 5)
		g.reigns(t, "a")
		twice(t, g, func() {}) // the reader knows the term
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := far.add(t.Context(), "1", "k"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(100 * time.Millisecond) // its option is on its way to the master
		if first := twice(t, g, func() { wait.Wait(); time.Sleep(time.Second) }); first != "" {
			t.Errorf("scanned %q", first)
		}
		if v := g.get(t, "k"); v != " 1" {
			t.Errorf("k is %q", v)
		}
		if _, _, marked := w.counted(); marked == 0 {
			t.Error("nobody has asked the term's master")
		}
		stop(g, far)
	})
	k := keys.Key("k")
	// dictated has the master of a term dictate an option that only the first replica gets, which is then lost. The gateway reaches no replica any more.
	dictated := func(t *testing.T, w *lab, g *gateway) (core.Option, *sync.WaitGroup) {
		t.Helper()
		g.reigns(t, "a")
		time.Sleep(time.Second)
		for r := kv.ReplicaID(2); r <= 5; r++ {
			w.lose(r, true)
		}
		wait := &sync.WaitGroup{}
		o := core.Option{Name: core.Name{Txn: kv.TxnID{1}, At: g.client.stamp(clock.Timestamp{})}, Update: core.Update{Value: []byte("v")}, Keys: []keys.Key{k}}
		wait.Go(func() {
			if l, err := g.client.rule(t.Context(), k, o, false); err == nil && l.Verdict == core.Accepted {
				g.client.ended([]core.Option{o}, []keys.Key{k}, true)
			}
		})
		time.Sleep(200 * time.Millisecond)
		w.mu.Lock()
		w.cut = g.id
		r := w.acceptors(w.descs[0])[1].Record(keys.Key("k"))
		has := r != nil && r.Vote(o.Name) != nil
		w.mu.Unlock()
		if !has {
			t.Fatal("the first replica has not got it")
		}
		time.Sleep(200 * time.Millisecond) // all that is on its way arrives
		for r := kv.ReplicaID(1); r <= 5; r++ {
			w.lose(r, r == 1)
		}
		return o, wait
	}
	uncut := func(w *lab) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.cut = 0
	}
	// finished has somebody finish the option's transaction, who hears the first replica.
	finished := func(t *testing.T, w *lab, g *gateway, o core.Option) {
		t.Helper()
		w.lose(1, false)
		if _, err := g.client.Finish(t.Context(), &o, nil); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	}
	run("an option that has been dictated, and that no quorum has", func(t *testing.T, w *lab) {
		g, far := w.gateway(1, 1), w.gateway(1, 5)
		_, wait := dictated(t, w, g)
		time.AfterFunc(2*time.Second, func() { uncut(w) })
		if first := twice(t, far, func() { w.lose(1, false); wait.Wait(); time.Sleep(time.Second) }); first != "k=v" {
			t.Errorf("scanned %q", first)
		}
		stop(g, far)
	})
	run("a state of an earlier term", func(t *testing.T, w *lab) {
		g, h, far := w.gateway(1, 1), w.gateway(1, 2), w.gateway(1, 5)
		o, wait := dictated(t, w, g)
		for n := 0; ; n++ {
			if m, err := h.client.term(t.Context(), k); err != nil || n == 5 {
				t.Fatal(err)
			} else if m != nil {
				break
			}
			time.Sleep(2 * termPause)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil { // the leaseholder folds
				time.Sleep(time.Second)
				w.absorb(0, h.client.o.Clock.Now())
			}
		}()
		x, tx := far.at(kv.RepeatableRead)
		first, err := far.scan(t.Context(), x, tx, "a", "z")
		if retry := (*kv.TxnRetryError)(nil); errors.As(err, &retry) { // a new generation has begun
			x, tx = far.at(kv.RepeatableRead)
			first, err = far.scan(t.Context(), x, tx, "a", "z")
		}
		if err != nil {
			t.Error(err)
		}
		h.cancel() // the later term's master knows nothing of the option, and would decide against it
		finished(t, w, far, o)
		if v := far.get(t, "k"); v != strings.TrimPrefix(first, "k=") {
			t.Errorf("scanned %q, and then %q has committed before that", first, v)
		}
		if _, renewed, _ := w.counted(); renewed != 1 {
			t.Errorf("%d generations were begun", renewed)
		}
		cancel()
		g.cancel()
		wait.Wait()
		stop(g, h, far)
	})
	for _, known := range []bool{false, true} {
		run(fmt.Sprintf("a key, and the term's gateway is gone; replicas know the record: %v", known), func(t *testing.T, w *lab) {
			g, h, far := w.gateway(1, 1), w.gateway(1, 2), w.gateway(1, 5)
			o, wait := dictated(t, w, g)
			g.cancel()
			if known {
				if _, _, _, err := far.client.newest(t.Context(), k, func(core.Quorums) int { return 4 }); err != nil {
					t.Fatal(err)
				}
			}
			x, tx := far.at(kv.RepeatableRead)
			get := func() string {
				vs, err := x.Get(t.Context(), tx, []keys.Key{k}, txn.ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return string(vs[0])
			}
			first := get()
			finished(t, w, h, o)
			if again := get(); again != first {
				t.Errorf("read %q, and then %q", first, again)
			}
			wait.Wait()
			stop(g, h, far)
		})
	}
	run("a term whose gateway is gone", func(t *testing.T, w *lab) {
		g, h := w.gateway(1, 1), w.gateway(1, 2)
		g.reigns(t, "a")
		g.cancel()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil { // the leaseholder folds
				time.Sleep(time.Second)
				w.absorb(0, h.client.o.Clock.Now())
			}
		}()
		begun := time.Now()
		twice(t, h, func() {
			if err := h.add(t.Context(), "1", "k"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		})
		if n, renewed, _ := w.counted(); n != 1 || renewed != 1 {
			t.Errorf("%d terms; %d generations were begun", n, renewed)
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("it took %s", d)
		}
		cancel()
		stop(g, h)
	})
}
