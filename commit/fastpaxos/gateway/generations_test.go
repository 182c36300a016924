package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// TestReadersOverGenerations: while generations of a range end every few seconds, and it is split, transactions that read at one timestamp read the same again and again, next to those of TestSerializableAtRandom.
func TestReadersOverGenerations(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	reads, forgotten, over := 0, 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				histories(t, 4*seed, func(w *lab, gs []*gateway) {
					end := time.Now().Add(38 * time.Second)
					dice := rand.New(rand.NewPCG(seed, 5))
					go func() {
						for time.Now().Before(end) {
							time.Sleep(time.Duration(1000+dice.IntN(3000)) * time.Millisecond)
							w.change(dice.IntN(3) == 0)
						}
					}()
					for i := range gs {
						mine := rand.New(rand.NewPCG(seed, uint64(100+i)))
						go func() {
							for time.Now().Before(end) {
								n, f, o := w.readAgain(t, gs[i], mine, end)
								w.mu.Lock()
								reads, forgotten, over = reads+n, forgotten+f, over+o
								w.mu.Unlock()
							}
						}()
					}
				})
			})
		})
	}
	t.Logf("%d reads, %d of them after another generation had begun; %d found that too few replicas know", reads, over, forgotten)
	if over < 20*int(seeds) || forgotten > over/50 {
		t.Errorf("%d of %d reads after another generation had begun found that too few replicas know", forgotten, over)
	}
}

// readAgain is a transaction that reads the same for up to ten seconds.
func (w *lab) readAgain(t *testing.T, g *gateway, dice *rand.Rand, end time.Time) (reads, forgotten, over int) {
	generations := func() (out []uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, d := range w.descs {
			out = append(out, d.Generation)
		}
		return out
	}
	x, tx := g.at(kv.RepeatableRead)
	var ks []keys.Key
	for k := range 6 {
		ks = append(ks, keys.Key(fmt.Sprint("k", k)))
	}
	var first [][]byte
	began := generations()
	for last := time.Now().Add(10 * time.Second); time.Now().Before(last) && time.Now().Before(end); time.Sleep(time.Duration(dice.IntN(700)) * time.Millisecond) {
		var vs [][]byte
		var err error
		if dice.IntN(2) == 0 {
			vs, err = x.Get(t.Context(), tx, ks, txn.ReadOptions{})
		} else {
			vs = make([][]byte, len(ks))
			for left := (&keys.Span{Start: keys.Key("a"), End: keys.Key("z")}); left != nil && err == nil; {
				var rows []kv.KeyValue
				rows, left, err = x.Scan(t.Context(), tx, txn.ScanOptions{Span: *left})
				for _, r := range rows {
					if i := slices.IndexFunc(ks, r.Key.Equal); i >= 0 {
						vs[i] = r.Value
					}
				}
			}
		}
		var uncertain *kv.UncertaintyError
		var read *txn.ReadError
		var retry *kv.TxnRetryError
		reads++
		now := generations()
		if !slices.Equal(now, began) {
			over++
		}
		switch {
		case errors.As(err, &uncertain) && first == nil:
			tx.ReadTimestamp, tx.WriteTimestamp = uncertain.RetryAt, uncertain.RetryAt
			continue
		case errors.As(err, &read) && errors.As(read.Cause, &retry):
			forgotten++
			return reads, forgotten, over
		case err != nil:
			if g.ctx.Err() == nil && t.Context().Err() == nil {
				t.Errorf("read %d: %v", reads, err)
			}
			return reads, forgotten, over
		}
		if first == nil {
			first = vs
		}
		for i := range ks {
			if string(vs[i]) != string(first[i]) {
				t.Errorf("%s was %q, and is %q; %v at first, %v now", ks[i], first[i], vs[i], began, now)
			}
		}
	}
	return reads, forgotten, over
}

// TestRetainedNeedsAQuorum: a row that was replaced twice while the replicas next to a reader were away is read as it was in between, in the next generation.
func TestRetainedNeedsAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		near, far := w.gateway(1, 1), w.gateway(1, 4)
		add := func(word string) {
			t.Helper()
			if err := far.add(t.Context(), word, "k"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		add("1")
		w.lose(1, true)
		w.lose(2, true)
		add("2")
		x, tx := near.at(kv.RepeatableRead)
		time.Sleep(time.Second)
		add("3")
		w.change(false)
		time.Sleep(time.Second)
		w.lose(1, false)
		w.lose(2, false)
		w.mu.Lock()
		for r, a := range w.acceptors(w.desc(keys.Key("k"))) {
			l, err := a.LookBack(&labSource{w, a, w.desc(keys.Key("k")), r}, &core.Look{Keys: []keys.Key{keys.Key("k")}, At: tx.ReadTimestamp}, w.desc(keys.Key("k")).Span())
			if err != nil || len(l.Past) != 1 {
				t.Fatalf("replica %d: %v, %v", r, l, err)
			}
			if want := map[bool]string{true: " 1", false: " 1 2"}[r <= 2]; string(l.Past[0].Record.Base.Data) != want || !l.Settled {
				t.Errorf("replica %d answers %q, want %q", r, l.Past[0].Record.Base.Data, want)
			}
		}
		w.mu.Unlock()
		vs, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("k")}, txn.ReadOptions{})
		if err != nil || string(vs[0]) != " 1 2" {
			t.Errorf("read %q, %v", vs, err)
		}
		stop(near, far)
	})
}

// TestPastIsReadAgain: a reader meets an option, and asks about it when the next generation has begun with the version that was made for what the option has written. Nobody
// remembers the option any more, and it has committed (fastpaxos.FP98).
func TestPastIsReadAgain(t *testing.T) {
	for _, c := range []struct {
		level kv.Isolation
		want  string
	}{{kv.RepeatableRead, " 1 2"}, {kv.ReadCommitted, " 1 2 3"}} {
		t.Run(fmt.Sprint(c.level), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(1)
				g := w.gateway(1, 1)
				if err := g.add(t.Context(), "1", "k"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				k := keys.Key("k")
				now := func() clock.Timestamp { return clock.Timestamp{Wall: time.Now().UnixNano()} }
				o := core.Option{Name: core.Name{Txn: kv.TxnID{9}, At: now()}, Keys: []keys.Key{k}, Update: core.Update{Value: []byte(" 1 2")}}
				w.mu.Lock()
				for _, a := range w.acceptors(w.descs[0]) {
					r := a.Record(k)
					o.Seen = r.Seen()
					r.Votes = append(r.Votes, core.Vote{Option: o, Verdict: core.Accepted})
				}
				w.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				x, tx := g.at(c.level)
				time.AfterFunc(300*time.Millisecond, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					l := w.log(w.descs[0])
					l.entries = append(l.entries, core.Final{Key: k, Value: core.Value{At: o.At, Data: o.Value}}, core.Final{Key: k, Value: core.Value{At: now(), Data: []byte(" 1 2 3")}})
					w.changeAt(0, false)
				})
				vs, err := x.Get(t.Context(), tx, []keys.Key{k}, txn.ReadOptions{Fresh: true})
				if err != nil || string(vs[0]) != c.want {
					t.Errorf("read %q, %v, want %q", vs, err, c.want)
				}
				stop(g)
			})
		})
	}
}

// TestSplitWhileRead: a range is split between two keys while a reader asks it for both. Its replicas refuse the key that they do not have any more, and the reader asks the two ranges.
func TestSplitWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		g := w.gateway(1, 1)
		ks := []keys.Key{keys.Key("k0"), keys.Key("k5")}
		for _, k := range ks {
			if err := g.add(t.Context(), "1", string(k)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		x, tx := g.at(kv.RepeatableRead)
		time.AfterFunc(time.Millisecond, func() {
			for split := false; !split; { // where it is split is a matter of dice
				w.change(true)
				time.Sleep(time.Second)
				w.mu.Lock()
				split = len(w.descs) > 1
				w.mu.Unlock()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		vs, err := x.Get(ctx, tx, ks, txn.ReadOptions{})
		if err != nil || string(vs[0]) != " 1" || string(vs[1]) != " 1" {
			t.Errorf("read %q, %v", vs, err)
		}
		stop(g)
	})
}
