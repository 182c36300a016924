package gateway

import (
	"bytes"
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
	"meridian/commit"
	"meridian/commit/fastpaxos/core"
	"meridian/commit/fastpaxos/replica"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

func sortKeys(ks []keys.Key, reverse bool) {
	slices.SortFunc(ks, func(a, b keys.Key) int {
		if reverse {
			a, b = b, a
		}
		return a.Compare(b)
	})
}

func (g *gateway) txn() (*coordinator, *kv.Txn) {
	var id kv.TxnID
	g.host.Dice.Read(id[:])
	now := g.client.o.Clock.Now()
	return g.client.Begin().(*coordinator), &kv.Txn{ReadTimestamp: now, TxnMeta: kv.TxnMeta{ID: id, Isolation: kv.ReadCommitted, WriteTimestamp: now, MinTimestamp: now}}
}

func put(k, v string) transaction.Write {
	return transaction.Write{Key: keys.Key(k), Value: []byte(v)}
}

// add appends a word to some rows, which is lost if somebody else's write is.
func (g *gateway) add(ctx context.Context, word string, ks ...string) error {
	x, t := g.txn()
	var all []keys.Key
	for _, k := range ks {
		all = append(all, keys.Key(k))
	}
	vs, err := x.Get(ctx, t, all, txn.ReadOptions{})
	if err != nil {
		return err
	}
	var ws []transaction.Write
	for i, k := range ks {
		ws = append(ws, put(k, string(vs[i])+" "+word))
	}
	_, err = x.Decide(ctx, t, ws, clock.Timestamp{})
	return err
}

func (g *gateway) get(t *testing.T, k string) string {
	x, tx := g.txn()
	vs, err := x.Get(t.Context(), tx, []keys.Key{keys.Key(k)}, txn.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(vs[0])
}

// stop ends gateways, and lets what is on its way arrive.
func stop(gs ...*gateway) {
	time.Sleep(30 * time.Second)
	for _, g := range gs {
		g.cancel()
		g.host.Group.Stop()
	}
	time.Sleep(5 * time.Second)
}

// TestOneRound: without conflicts a transaction over two ranges takes one round trip to the fourth-nearest replica, from everywhere.
func TestOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1, "m")
		for i := range 5 {
			g := w.gateway(1, i+1)
			var far []int
			for _, d := range trips[i] {
				far = append(far, int(d))
			}
			slices.Sort(far)
			for n := range 3 {
				// Rows that this gateway has just written, too: its next read finds them.
				x, tx := g.txn()
				ws := []transaction.Write{put(fmt.Sprint("b", i), fmt.Sprint(n)), put(fmt.Sprint("n", i), fmt.Sprint(n)), put(fmt.Sprint("c", i), fmt.Sprint(n))}
				if n > 0 {
					for _, wr := range ws {
						if v := g.get(t, string(wr.Key)); v != fmt.Sprint(n-1) {
							t.Fatalf("%s is %q after write %d", wr.Key, v, n-1)
						}
					}
				}
				if _, err := x.Get(t.Context(), tx, []keys.Key{ws[0].Key, ws[1].Key, ws[2].Key}, txn.ReadOptions{}); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				if _, err := x.Decide(t.Context(), tx, ws, clock.Timestamp{}); err != nil {
					t.Fatal(err)
				}
				if d, want := time.Since(begun), time.Duration(far[3])*time.Millisecond; d != want {
					t.Errorf("region %d: %s, want %s", i, d, want)
				}
			}
			stop(g)
		}
	})
}

// TestReplicasLost: without one of five replicas a commit takes one round trip to the farthest other one, and without two a master decides.
func TestReplicasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(3, "m")
		g := w.gateway(3, 1)
		for _, c := range []struct {
			lost kv.ReplicaID
			most time.Duration
		}{{2, 162 * time.Millisecond}, {3, 900 * time.Millisecond}} {
			w.lose(c.lost, true)
			for n := range 3 {
				begun := time.Now()
				if err := g.add(t.Context(), "x", "b", "n"); err != nil {
					t.Fatal(err)
				}
				if d := time.Since(begun); d > c.most {
					t.Errorf("after the loss of %d: commit %d took %s", c.lost, n, d)
				}
			}
		}
		w.lose(4, true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var unsure *kv.AmbiguousError
		if err := g.add(ctx, "y", "b"); !errors.As(err, &unsure) {
			t.Errorf("without a quorum: %v", err)
		}
		for r := range kv.ReplicaID(5) {
			w.lose(r+1, false)
		}
		if err := g.add(t.Context(), "z", "n"); err != nil {
			t.Error(err)
		}
		stop(g)
	})
}

// TestCollision: gateways of all regions that write one row again and again come to an end, and each time at most one of them is committed at the
// first attempt: if each replica accepts another one's option, none is.
func TestCollision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(2)
		var gs []*gateway
		var wg sync.WaitGroup
		var mu sync.Mutex
		tries, longest := 0, time.Duration(0)
		for i := range 5 {
			g := w.gateway(2, i+1)
			gs = append(gs, g)
			wg.Go(func() {
				for n := range 4 {
					begun := time.Now()
					for {
						mu.Lock()
						tries++
						mu.Unlock()
						err := g.add(t.Context(), fmt.Sprintf("w%d.%d", i, n), "k")
						if err == nil {
							break
						}
						var old *kv.WriteTooOldError
						if !errors.As(err, &old) {
							t.Error(err)
							return
						}
						_ = g.host.Clock.Sleep(t.Context(), time.Duration(g.host.Dice.Int64N(int64(50*time.Millisecond))))
					}
					mu.Lock()
					longest = max(longest, time.Since(begun))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		t.Logf("20 commits took %d attempts, the longest %s", tries, longest)
		if longest > 10*time.Second {
			t.Errorf("%d attempts; the longest took %s", tries, longest)
		}
		stop(gs...)
		for _, g := range gs {
			g = w.gateway(3, g.id)
			if v := g.get(t, "k"); len(strings.Fields(v)) != 20 {
				t.Errorf("gateway %d reads %q", g.id, v)
			}
			stop(g)
		}
	})
}

// outcome is what came of a word that a transaction wrote to some keys.
type outcome struct {
	word string
	keys []string
	err  error
}

// play runs random transactions of gateways of which some die, finishes all, and reads everything.
func playWorld(t *testing.T, seed uint64, mistake string, also ...func(*lab, []*gateway)) (committed int, err error) {
	const rows = 6
	w := anyLab(seed, "k2", "k4")
	w.politics(seed / 3)
	w.loss, w.jitter, w.mistake = []float64{0, 0.02, 0.1, 0.3}[seed%4], []time.Duration{time.Millisecond, 30 * time.Millisecond}[seed%2], mistake
	var mu sync.Mutex
	var all []outcome
	var wg sync.WaitGroup
	var gs []*gateway
	for i := range 4 {
		g := w.gateway(seed, i+1)
		gs = append(gs, g)
		wg.Go(func() {
			dies := g.host.Dice.Int64N(3) == 0
			if dies {
				time.AfterFunc(time.Duration(g.host.Dice.Int64N(int64(3*time.Second))), g.cancel)
			}
			for n := 0; n < 8 && g.ctx.Err() == nil; n++ {
				word := fmt.Sprintf("g%d.%d", g.id, n)
				var ks []string
				for range 1 + g.host.Dice.Int64N(3) {
					if k := fmt.Sprint("k", g.host.Dice.Int64N(rows)); !slices.Contains(ks, k) {
						ks = append(ks, k)
					}
				}
				ctx, cancel := context.WithTimeout(g.ctx, 8*time.Second)
				err := g.add(ctx, word, ks...)
				cancel()
				mu.Lock()
				all = append(all, outcome{word, ks, err})
				mu.Unlock()
				time.Sleep(time.Duration(g.host.Dice.Int64N(int64(200 * time.Millisecond))))
			}
		})
	}
	for _, f := range also {
		f(w, gs)
	}
	w.mu.Lock()
	if seed%5 > 1 {
		for range w.dice.IntN(6) {
			time.AfterFunc(time.Duration(w.dice.Int64N(int64(6*time.Second))), func() { w.change(seed%5 > 2) })
		}
	}
	w.mu.Unlock()
	wg.Wait()
	time.Sleep(time.Second)
	w.mu.Lock()
	w.loss, w.mistake = 0, ""
	w.mu.Unlock()
	// One that comes later meets what the dead have left: its own writes need it finished.
	last := w.gateway(seed, 5)
	for r := range rows {
		k := fmt.Sprint("k", r)
		for n := 0; ; n++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := last.add(ctx, "end", k)
			cancel()
			if err == nil {
				break
			} else if n == 20 {
				stop(append(gs, last)...)
				return 0, fmt.Errorf("%s can't be written: %w\n%s", k, err, w.show(k))
			}
		}
	}
	values := map[string][]string{}
	for r := range rows {
		k := fmt.Sprint("k", r)
		values[k] = strings.Fields(last.get(t, k))
	}
	stop(append(gs, last)...)
	w.mu.Lock()
	ignorant := w.ignorant
	w.mu.Unlock()
	if ignorant != "" && mistake == "" {
		return 0, errors.New(ignorant)
	}
	for _, o := range all {
		there := 0
		for _, k := range o.keys {
			n := 0
			for _, x := range values[k] {
				if x == o.word {
					n++
				}
			}
			if n > 1 {
				return 0, fmt.Errorf("%s is in %s twice", o.word, k)
			}
			there += n
		}
		var unsure *kv.AmbiguousError
		var old *kv.WriteTooOldError
		var retry *kv.TxnRetryError
		switch {
		case there != 0 && there != len(o.keys):
			return 0, fmt.Errorf("%s is in %d of %v (%v): %v", o.word, there, o.keys, o.err, values)
		case o.err == nil && there == 0:
			return 0, fmt.Errorf("%s was committed to %v and is lost: %v", o.word, o.keys, values)
		case (errors.As(o.err, &old) || errors.As(o.err, &retry)) && there > 0:
			return 0, fmt.Errorf("%s was said not to be committed (%v) and is in %v", o.word, o.err, o.keys)
		case o.err != nil && !errors.As(o.err, &unsure) && there > 0:
			return 0, fmt.Errorf("%s is in %v, after %v", o.word, o.keys, o.err)
		}
		if there > 0 {
			committed++
		}
	}
	// Every replica says the same.
	for i := range 5 {
		g := w.gateway(seed+1, i+1)
		for r := range rows {
			k := fmt.Sprint("k", r)
			if v := strings.Fields(g.get(t, k)); !slices.Equal(v, values[k]) {
				return 0, fmt.Errorf("region %d reads %v in %s, not %v", i, v, k, values[k])
			}
		}
		stop(g)
	}
	return committed, nil
}

// TestGateways: no update is lost, transactions are durable as a whole or not at all, and what was acknowledged is there.
func TestGateways(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 12
	}
	total := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			n, err := playWorld(t, seed, "")
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			total += n
		})
	}
	t.Logf("%d transactions were committed", total)
	if total < int(seeds)*4 {
		t.Errorf("only %d transactions were committed", total)
	}
}

// TestGatewaysNotice: the checks of TestGateways notice acceptors that let updates be lost.
func TestGatewaysNotice(t *testing.T) {
	for seed := uint64(0); seed < 40; seed++ {
		var err error
		synctest.Test(t, func(t *testing.T) { _, err = playWorld(t, seed, "everything is accepted") })
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("nobody noticed")
}

// TestDeadGateway: what a gateway has proposed before it died is finished by the one that meets it, as the acceptors say.
func TestDeadGateway(t *testing.T) {
	for _, c := range []struct {
		name   string
		keys   []string // of the options that were proposed; the transaction writes b and n
		wanted bool
	}{{"all were proposed", []string{"b", "n"}, true}, {"one was proposed", []string{"b"}, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(4, "m")
				g := w.gateway(4, 1)
				ks := []keys.Key{keys.Key("b"), keys.Key("n")}
				at := g.client.stamp(clock.Timestamp{})
				for i, k := range ks {
					if !slices.Contains(c.keys, string(k)) {
						continue
					}
					o := core.Option{Name: core.Name{Txn: kv.TxnID{9}, At: at}, Update: core.Update{Value: []byte(" dead")}, Keys: ks}
					a := g.client.attempt([]core.Option{o, o})
					if err := a.round(t.Context(), [][]int{{i}}, nil); err != nil {
						t.Fatal(err)
					}
				}
				stop(g)
				h := w.gateway(4, 2)
				for n := 0; ; n++ {
					err := h.add(t.Context(), "after", "b")
					if err == nil {
						break
					} else if n == 3 {
						t.Fatal(err)
					}
				}
				want := map[bool][2]string{true: {" dead after", " dead"}, false: {" after", ""}}[c.wanted]
				stop(h)
				for i := range 5 {
					g := w.gateway(5, i+1)
					if b, n := g.get(t, "b"), g.get(t, "n"); b != want[0] || n != want[1] {
						t.Errorf("region %d: %q and %q", i, b, n)
					}
					stop(g)
				}
			})
		})
	}
}

// TestMixed: options of transactions that other protocols take part in wait for the record.
func TestMixed(t *testing.T) {
	run := func(name string, f func(t *testing.T, w *lab, g, h *gateway)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(6, "m")
				g, h := w.gateway(6, 1), w.gateway(6, 2)
				f(t, w, g, h)
				stop(g, h)
			})
		})
	}
	begin := func(t *testing.T, g *gateway) (*coordinator, *kv.Txn) {
		x, tx := g.txn()
		tx.Anchor = keys.Key("leader's")
		if err := x.Write(t.Context(), tx, []transaction.Write{put("b", " mixed"), put("n", " mixed")}); err != nil {
			t.Fatal(err)
		}
		return x, tx
	}
	flight := []kv.InFlightWrite{{Key: keys.Key("b"), Protocol: kv.FastPaxos}, {Key: keys.Key("n"), Protocol: kv.FastPaxos}}
	points := []keys.Span{{Start: keys.Key("b")}, {Start: keys.Key("n")}}
	after := func(t *testing.T, g *gateway, want string) {
		t.Helper()
		for n := 0; ; n++ {
			err := g.add(t.Context(), "after", "b")
			if err == nil {
				break
			} else if n == 4 {
				t.Fatal(err)
			}
		}
		if v := g.get(t, "b"); v != want {
			t.Errorf("b is %q, want %q", v, want)
		}
	}
	run("committed and resolved", func(t *testing.T, w *lab, g, h *gateway) {
		_, tx := begin(t, g)
		if all, err := h.client.Witness(t.Context(), commit.NewRecord(tx, kv.Staging), flight); !all || err != nil {
			t.Fatal(all, err)
		}
		if err := h.client.Resolve(t.Context(), points, tx.TxnMeta, kv.Committed, nil); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		after(t, g, " mixed after")
		if d := time.Since(begun); d > 2*time.Second {
			t.Errorf("it took %s", d)
		}
	})
	run("aborted and resolved", func(t *testing.T, w *lab, g, h *gateway) {
		_, tx := begin(t, g)
		if err := g.client.Resolve(t.Context(), points, tx.TxnMeta, kv.Aborted, nil); err != nil {
			t.Fatal(err)
		}
		after(t, h, " after")
		if n := len(g.client.provisional); n != 0 {
			t.Errorf("%d transactions are remembered", n)
		}
	})
	run("nobody resolves it: committed", func(t *testing.T, w *lab, g, h *gateway) {
		_, tx := begin(t, g)
		tx.Status = kv.Committed
		w.mu.Lock()
		w.records[tx.ID] = *tx
		w.mu.Unlock()
		after(t, h, " mixed after")
	})
	run("nobody resolves it: no record", func(t *testing.T, w *lab, g, h *gateway) {
		begin(t, g)
		after(t, h, " after")
	})
	run("nobody resolves it: committed at another timestamp", func(t *testing.T, w *lab, g, h *gateway) {
		_, tx := begin(t, g)
		r := *tx
		r.Status, r.WriteTimestamp = kv.Committed, r.WriteTimestamp.Add(time.Second)
		w.mu.Lock()
		w.records[tx.ID] = r
		w.mu.Unlock()
		after(t, h, " after")
	})
	run("a transaction that has taken long moves to the present, of which acceptors have forgotten nothing", func(t *testing.T, w *lab, g, h *gateway) {
		x, tx := g.txn()
		tx.Anchor = keys.Key("leader's")
		time.Sleep(time.Minute)
		var old *kv.WriteTooOldError
		if err := x.Write(t.Context(), tx, []transaction.Write{put("b", " mixed")}); !errors.As(err, &old) || old.Actual.Wall < time.Now().UnixNano() {
			t.Fatal(err)
		}
		if w.kinds[core.Propose] > 0 {
			t.Errorf("%d options were proposed", w.kinds[core.Propose])
		}
		tx.WriteTimestamp = old.Actual.Next()
		if err := x.Write(t.Context(), tx, []transaction.Write{put("b", " mixed")}); err != nil {
			t.Fatal(err)
		}
	})
	run("a missing one is prevented", func(t *testing.T, w *lab, g, h *gateway) {
		x, tx := g.txn()
		tx.Anchor = keys.Key("leader's")
		if err := x.Write(t.Context(), tx, []transaction.Write{put("b", " mixed")}); err != nil {
			t.Fatal(err)
		}
		if all, err := h.client.Witness(t.Context(), commit.NewRecord(tx, kv.Staging), flight); all || err != nil {
			t.Fatal(all, err)
		}
		y := g.client.Begin().(*coordinator)
		if err := y.Write(t.Context(), tx, []transaction.Write{put("n", " mixed")}); err == nil {
			t.Error("it was made durable afterwards")
		}
	})
	run("again at a later timestamp", func(t *testing.T, w *lab, g, h *gateway) {
		x, tx := begin(t, g)
		tx.WriteTimestamp = tx.WriteTimestamp.Add(time.Second)
		begun := time.Now()
		if err := x.Write(t.Context(), tx, []transaction.Write{put("b", " mixed"), put("n", " mixed")}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d > 200*time.Millisecond {
			t.Errorf("it took %s", d)
		}
		if err := g.client.Resolve(t.Context(), points, tx.TxnMeta, kv.Committed, nil); err != nil {
			t.Fatal(err)
		}
		after(t, h, " mixed after")
	})
}

// TestScans: forward and backward, over ranges, with limits, and with what the gateway has just written.
func TestScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(7, "d", "g")
		g := w.gateway(7, 3)
		var all []string
		for _, k := range strings.Split("abcdefghi", "") {
			if err := g.add(t.Context(), "x", k); err != nil {
				t.Fatal(err)
			}
			all = append(all, k)
		}
		x, tx := g.txn()
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{{Key: keys.Key("e")}}, clock.Timestamp{}); err != nil {
			t.Fatal(err)
		}
		all = slices.DeleteFunc(all, func(k string) bool { return k == "e" })
		for _, limit := range []int64{0, 1, 2, 5} {
			for _, reverse := range []bool{false, true} {
				x, tx := g.txn()
				var got []string
				left := &keys.Span{Start: keys.Key("a"), End: keys.Key("zz")}
				for n := 0; left != nil; n++ {
					rows, resume, err := x.Scan(t.Context(), tx, txn.ScanOptions{Span: *left, Reverse: reverse, MaxRows: limit})
					if err != nil || n > 30 || limit > 0 && int64(len(rows)) > limit {
						t.Fatal(err, n, len(rows))
					}
					for _, r := range rows {
						got = append(got, string(r.Key))
					}
					left = resume
				}
				if reverse {
					slices.Reverse(got)
				}
				if !slices.Equal(got, all) {
					t.Errorf("limit %d, reverse %v: %v", limit, reverse, got)
				}
			}
		}
		stop(g)
	})
}

// TestRefusals: what is not given is refused.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(8)
		g := w.gateway(8, 1)
		k := []keys.Key{keys.Key("k")}
		for _, c := range []struct {
			what string
			f    func(x *coordinator, t *kv.Txn) error
		}{
			{"row locks", func(x *coordinator, tx *kv.Txn) error {
				_, err := x.Get(t.Context(), tx, k, txn.ReadOptions{Lock: kv.Exclusive, Hold: true})
				return err
			}},
		} {
			x, tx := g.txn()
			var none *txn.UnsupportedError
			if err := c.f(x, tx); !errors.As(err, &none) || !strings.Contains(none.What, c.what) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if err := g.add(t.Context(), "one", "k"); err != nil {
			t.Fatal(err)
		}
		x, tx := g.txn()
		var failed *kv.ConditionFailedError
		_, err := x.Decide(t.Context(), tx, []transaction.Write{{Key: k[0], Value: []byte("two"), Conditional: true}}, clock.Timestamp{})
		if !errors.As(err, &failed) || !bytes.Equal(failed.Actual, []byte(" one")) {
			t.Errorf("an insert of a row that is there: %v", err)
		}
		x, tx = g.txn()
		var late *txn.DeadlineError
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{{Key: k[0], Value: []byte("three")}}, clock.Timestamp{Wall: 1}); !errors.As(err, &late) {
			t.Errorf("a commit after its deadline: %v", err)
		}
		stop(g)
	})
}

// TestReadsOwn: a gateway finds what it has committed in scans while the nearest replica has not heard of it.
func TestReadsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(9)
		g := w.gateway(9, 3)
		if err := g.add(t.Context(), "x", "a", "c"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.lose(3, true)
		x, tx := g.txn()
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{put("b", "x"), {Key: keys.Key("c")}}, clock.Timestamp{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		w.lose(3, false)
		x, tx = g.txn()
		rows, _, err := x.Scan(t.Context(), tx, txn.ScanOptions{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("d")}})
		if err != nil || len(rows) != 2 || string(rows[1].Key) != "b" {
			t.Errorf("%v, %v", rows, err)
		}
		stop(g)
		if n := len(g.client.own); n > 0 {
			t.Errorf("%d versions are remembered", n)
		}
	})
}

// TestReadsStale: a gateway whose nearest replica has missed a version is refused once, and sees to it that the replica gets it.
func TestReadsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(10)
		g, h := w.gateway(10, 1), w.gateway(10, 2)
		w.lose(1, true)
		if err := h.add(t.Context(), "one", "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		stop(h)
		w.lose(1, false)
		var old *kv.WriteTooOldError
		if err := g.add(t.Context(), "two", "k"); !errors.As(err, &old) {
			t.Errorf("the first time: %v", err)
		}
		if err := g.add(t.Context(), "three", "k"); err != nil {
			t.Errorf("the second time: %v", err)
		}
		w.lose(1, true)
		if err := g.add(t.Context(), "four", "l"); err != nil {
			t.Fatal(err)
		}
		w.lose(1, false)
		stop(g)
		g = w.gateway(10, 1)
		if k, l := g.get(t, "k"), g.get(t, "l"); k != " one three" || l != " four" {
			t.Errorf("the nearest replica has %q and %q", k, l)
		}
		stop(g)
	})
}

// TestReadsFirst: a transaction that has read a row twice, in different states, does not write it.
func TestReadsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(11)
		g, h := w.gateway(11, 1), w.gateway(11, 2)
		k := []keys.Key{keys.Key("k")}
		x, tx := g.txn()
		for range 2 {
			if _, err := x.Get(t.Context(), tx, k, txn.ReadOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := h.add(t.Context(), "other", "k"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if _, err := x.Get(t.Context(), tx, k, txn.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		var old *kv.WriteTooOldError
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{put("k", "mine")}, clock.Timestamp{}); !errors.As(err, &old) {
			t.Error(err)
		}
		x.Restarted(false)
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{put("k", "mine")}, clock.Timestamp{}); err != nil {
			t.Error(err)
		}
		stop(g, h)
	})
}

// TestGenerationsApart: votes of two generations are not counted together.
func TestGenerationsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(12)
		w.unheard = 2 * roundTime // so that silence alone has no master asked
		g := w.gateway(12, 1)
		a := g.client.attempt([]core.Option{{Name: core.Name{Txn: kv.TxnID{1}, At: g.client.stamp(clock.Timestamp{})}, Update: core.Update{Value: []byte("x")}, Keys: []keys.Key{keys.Key("k")}}})
		for i, up := range [][]kv.ReplicaID{{1, 2}, {3}, {4}} {
			w.mu.Lock()
			for r := kv.ReplicaID(1); r <= 5; r++ {
				w.dead[r] = !slices.Contains(up, r)
			}
			w.mu.Unlock()
			_ = a.round(t.Context(), [][]int{{0}}, nil)
			if _, _, out := a.open(); out != core.Undecided || a.masters > 0 {
				t.Errorf("after generation %d: %v", i+3, out)
			}
			w.mu.Lock()
			d := w.descs[0].Clone()
			d.Generation++
			w.descs[0], w.replicas[core.PlaceOf(d)] = d, w.acceptors(w.descs[0])
			w.mu.Unlock()
		}
		stop(g)
	})
}

// TestFinish: what the records of a transaction say together.
func TestFinish(t *testing.T) {
	at := clock.Timestamp{Wall: 5}
	n := core.Name{Txn: kv.TxnID{1}, At: at}
	ks := []keys.Key{keys.Key("b"), keys.Key("n")}
	o := core.Option{Name: n, Update: core.Update{Value: []byte("x")}, Keys: ks}
	accepted := &core.Record{Votes: []core.Vote{{Option: o, Verdict: core.Accepted}}}
	past := &core.Record{Floor: clock.Timestamp{Wall: 9}}
	ended := func(committed bool) *core.Record {
		r := &core.Record{}
		r.End(&o, committed)
		return r
	}
	for _, c := range []struct {
		name  string
		b, n  *core.Record
		known map[string]core.Verdict
		want  bool
	}{
		{"both accepted", accepted, accepted, nil, true},
		{"one never came", accepted, &core.Record{}, nil, false},
		{"one came too late", accepted, past, nil, false},
		{"one has committed", accepted, ended(true), nil, true},
		{"one has committed, the other has forgotten", past, ended(true), nil, true},
		{"one was aborted", accepted, ended(false), nil, false},
		{"one is in a sealed range, accepted", accepted, nil, map[string]core.Verdict{"n": core.Accepted}, true},
		{"one is in a sealed range, past", accepted, nil, map[string]core.Verdict{"n": core.Past}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(13, "m")
				w.bases["b"] = c.b
				if c.n != nil {
					w.bases["n"] = c.n
				}
				g := w.gateway(13, 1)
				var e replica.Ender = g.client
				if got, err := e.Finish(t.Context(), &core.Option{Name: n, Keys: ks}, c.known); got != c.want || err != nil {
					t.Errorf("%v, %v", got, err)
				}
				if len(c.known) > 0 {
					time.Sleep(time.Second) // the range that waits is answered first
				}
				if c.b != past {
					if v := g.get(t, "b"); (v == "x") != c.want {
						t.Errorf("b is %q", v)
					}
				}
				stop(g)
			})
		})
	}
}

// TestStamps: no two gateways draw the same timestamp, and each is after what it replaces.
func TestStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(14)
		g, h := w.gateway(14, 1), w.gateway(14, 2)
		seen := clock.Timestamp{Wall: time.Now().Add(time.Hour).UnixNano(), Logical: 1<<32 - 1}
		a, b, c := g.client.stamp(clock.Timestamp{}), h.client.stamp(clock.Timestamp{}), g.client.stamp(clock.Timestamp{})
		if a == b || a.Wall != b.Wall || !a.Less(c) || !seen.Less(h.client.stamp(seen)) {
			t.Errorf("%v %v %v", a, b, c)
		}
		stop(g, h)
	})
}

func (g *gateway) read(ctx context.Context, k string) (int64, error) {
	x, t := g.txn()
	vs, err := x.Get(ctx, t, []keys.Key{keys.Key(k)}, txn.ReadOptions{})
	if err != nil {
		return 0, err
	}
	n, _ := (plain{}).Column(vs[0], 0)
	return n, nil
}

// take takes one piece of a stock that must not go below zero.
func (g *gateway) take(ctx context.Context, k string) (left int64, err error) {
	x, t := g.txn()
	vs, err := x.Get(ctx, t, []keys.Key{keys.Key(k)}, txn.ReadOptions{})
	if err != nil {
		return 0, err
	}
	n, _ := (plain{}).Column(vs[0], 0)
	if n == 0 {
		return 0, errors.New("nothing is left")
	}
	_, err = x.Decide(ctx, t, []transaction.Write{{Key: keys.Key(k), Value: fmt.Append(nil, n-1), Deltas: []transaction.Delta{{Amount: -1, Max: 1 << 40}}}}, clock.Timestamp{})
	return n, err
}

// TestStock: updates that commute do not collide while there is plenty, and a bound holds when there is not: all that was taken is gone, and no more.
func TestStock(t *testing.T) {
	for _, stock := range []int64{1000, 25} {
		t.Run(fmt.Sprint(stock), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(15)
				w.bases["k"] = &core.Record{Base: core.Value{At: clock.Timestamp{Wall: 1}, Data: fmt.Append(nil, stock)}}
				var gs []*gateway
				var wg sync.WaitGroup
				var mu sync.Mutex
				taken, refused := int64(0), 0
				for i := range 5 {
					g := w.gateway(15, i+1)
					gs = append(gs, g)
					var far []int
					for _, d := range trips[i] {
						far = append(far, int(d))
					}
					slices.Sort(far)
					wg.Go(func() {
						for range 10 {
							begun := time.Now()
							left, err := g.take(t.Context(), "k")
							took := time.Since(begun)
							now, e := g.read(t.Context(), "k")
							mu.Lock()
							var old *kv.WriteTooOldError
							switch {
							case err == nil:
								taken++
								if now >= left || e != nil {
									t.Errorf("region %d: %d are left after one was taken of %d: %v", i, now, left, e)
								}
								if d, want := took, time.Duration(far[3]+1)*time.Millisecond; stock == 1000 && d != want {
									t.Errorf("region %d: %s, want %s", i, d, want)
								}
							case left == 0:
							case errors.As(err, &old) && stock < 1000:
								refused++
							default:
								t.Error(err)
							}
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				time.Sleep(5 * time.Second)
				for stock < 1000 {
					// All that is left can be taken.
					if left, err := gs[0].take(t.Context(), "k"); err == nil {
						taken++
					} else if left == 0 {
						break
					} else if refused++; refused > 200 {
						t.Errorf("%d are left: %v\n%s", left, err, w.show("k"))
						break
					}
				}
				stop(gs...)
				t.Logf("%d taken, %d refused", taken, refused)
				for i := range 5 {
					g := w.gateway(16, i+1)
					if v := g.get(t, "k"); v != fmt.Sprint(stock-taken) {
						t.Errorf("region %d: %s are left of %d, %d were taken", i, v, stock, taken)
					}
					stop(g)
				}
			})
		})
	}
}

// TestOutcomeBeforeTheChange: a gateway that was not answered before a range got another protocol learns there whether it has committed; it neither reports
// as refused what has, nor as committed what has not.
func TestOutcomeBeforeTheChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(w *lab) // when the gateway proposes
		wanted bool
	}{
		{"all replicas have accepted", func(w *lab) { w.mute = true }, true},
		{"one replica has accepted", func(w *lab) {
			w.mute = true
			for r := kv.ReplicaID(1); r < 5; r++ {
				w.dead[r] = true
			}
		}, false},
	} {
		for _, mixed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mixed %t", c.name, mixed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newLab(4)
					g := w.gateway(4, 2)
					if g.get(t, "b") != "" {
						t.Fatal("the record is there")
					}
					w.mu.Lock()
					c.before(w)
					w.mu.Unlock()
					done := make(chan error)
					x := g.client.Begin().(*coordinator)
					x.see(&core.Row{Key: keys.Key("b")})
					go func() {
						tx, writes := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{3}, WriteTimestamp: g.client.stamp(clock.Timestamp{})}}, []transaction.Write{{Key: keys.Key("b"), Value: []byte("x")}}
						if mixed {
							tx.Anchor = keys.Key("a record")
							done <- x.Write(t.Context(), tx, writes)
							return
						}
						_, err := x.Decide(t.Context(), tx, writes, clock.Timestamp{})
						done <- err
					}()
					time.Sleep(400 * time.Millisecond)
					w.leave(0)
					w.mu.Lock()
					w.mute, w.dead = false, map[kv.ReplicaID]bool{}
					there := string(w.base(keys.Key("b")).Base.Data) == "x"
					w.mu.Unlock()
					if there != c.wanted {
						t.Fatalf("the change has committed the transaction: %t", there)
					}
					var other *kv.ProtocolError
					switch err := <-done; {
					case c.wanted && err != nil:
						t.Errorf("it has committed, and the gateway says: %v", err)
					case !c.wanted && !errors.As(err, &other):
						t.Errorf("it has not committed, and the gateway says: %v", err)
					}
					stop(g)
				})
			})
		}
	}
}

// TestUnreadRow: a transaction that may have read a row before its range had this protocol is refused if the row has been written since (txn.MP6).
func TestUnreadRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(4)
		g := w.gateway(4, 1)
		begun := clock.Timestamp{Wall: time.Now().UnixNano()}
		time.Sleep(time.Second)
		if err := g.add(t.Context(), "x", "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		x := g.client.Begin().(*coordinator)
		decide := func(begun clock.Timestamp) error {
			_, err := x.Decide(t.Context(), &kv.Txn{ReadTimestamp: begun, TxnMeta: kv.TxnMeta{ID: kv.TxnID{3}, Isolation: kv.ReadCommitted, MinTimestamp: begun}}, []transaction.Write{{Key: keys.Key("b"), Value: []byte("y")}}, clock.Timestamp{})
			return err
		}
		var again *kv.TxnRetryError
		if err := decide(begun); !errors.As(err, &again) {
			t.Errorf("it overwrites what it has not seen: %v", err)
		}
		x.Restarted(false)
		if err := decide(begun); err != nil {
			t.Errorf("the second attempt: %v", err)
		}
		stop(g)
	})
}
