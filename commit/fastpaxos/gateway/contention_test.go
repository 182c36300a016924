package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// run repeats a transaction until it has committed, as package txn does for a session. It returns how many attempts that took.
func (g *gateway) run(ctx context.Context, f func(x *coordinator, t *kv.Txn) error) (attempts int, err error) {
	x, t := g.txn()
	defer x.Ended()
	for try := 0; ; try++ {
		err := f(x, t)
		var old *kv.WriteTooOldError
		var retry *kv.TxnRetryError
		if !errors.As(err, &old) && !errors.As(err, &retry) || ctx.Err() != nil {
			return try + 1, err
		}
		if try >= 2 {
			d := time.Millisecond << min(try-2, 6)
			time.Sleep(d + time.Duration(g.host.Dice.Int64N(int64(d))))
		}
		t.WriteTimestamp = t.WriteTimestamp.Forward(g.client.o.Clock.Now())
		t.ReadTimestamp = t.WriteTimestamp
		x.Restarted(false)
	}
}

// contest is what came of transactions that wanted the same rows.
type contest struct {
	committed, attempts, unknown, gone int
	took                               []time.Duration // of each transaction, in order
	all                                time.Duration
	masters                            int // ballots that somebody prepared
	prepares, dictates, proposals      int // messages
}

func (c *contest) at(part float64) time.Duration {
	if len(c.took) == 0 {
		return 0
	}
	return c.took[min(len(c.took)-1, int(part*float64(len(c.took))))].Round(time.Millisecond)
}

func (c *contest) String() string {
	return fmt.Sprintf("%d committed, %d unknown, in %s; p50 %s, p99 %s, longest %s; %.2f attempts each; %d masters; messages for each commit: %d proposals, %d prepares, %d dictates",
		c.committed, c.unknown, c.all.Round(time.Millisecond), c.at(0.5), c.at(0.99), c.at(1), float64(c.attempts)/float64(max(1, c.committed)), c.masters,
		c.proposals/max(1, c.committed), c.prepares/max(1, c.committed), c.dictates/max(1, c.committed))
}

var errGone = errors.New("nothing is left")

// contend has clients of five regions run one transaction after the other, all at the same time.
func contend(t *testing.T, w *lab, clients, each int, f func(ctx context.Context, g *gateway, client, n int, x *coordinator, tx *kv.Txn) error) (c contest) {
	t.Helper()
	var gs []*gateway
	var wg sync.WaitGroup
	var mu sync.Mutex
	begun := time.Now()
	for i := range 5 {
		gs = append(gs, w.gateway(uint64(clients), i+1))
	}
	for client := range clients {
		g := gs[client%5]
		wg.Go(func() {
			for n := range each {
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				attempts, err := g.run(ctx, func(x *coordinator, tx *kv.Txn) error { return f(ctx, g, client, n, x, tx) })
				cancel()
				took := time.Since(begun)
				mu.Lock()
				c.attempts += attempts
				var unsure *kv.AmbiguousError
				switch {
				case err == nil:
					c.committed++
					c.took = append(c.took, took)
				case errors.As(err, &unsure):
					c.unknown++
				case errors.Is(err, errGone):
					c.gone++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	c.all = time.Since(begun)
	stop(gs...)
	slices.Sort(c.took)
	w.mu.Lock()
	defer w.mu.Unlock()
	c.masters, c.proposals, c.prepares, c.dictates = len(w.ballots), w.kinds[core.Propose], w.kinds[core.Prepare], w.kinds[core.Dictate]
	return c
}

// append appends a word to rows, which is lost if somebody else's write is.
func appendTo(ctx context.Context, x *coordinator, tx *kv.Txn, word string, ks ...string) error {
	var all []keys.Key
	for _, k := range ks {
		all = append(all, keys.Key(k))
	}
	vs, err := x.Get(ctx, tx, all, txn.ReadOptions{Lock: kv.Exclusive})
	if err != nil {
		return err
	}
	var ws []transaction.Write
	for i, k := range ks {
		ws = append(ws, put(k, string(vs[i])+" "+word))
	}
	_, err = x.Decide(ctx, tx, ws, clock.Timestamp{})
	return err
}

// check reports rows that have not every word of a contest once.
func (c *contest) check(t *testing.T, w *lab, ks ...string) {
	t.Helper()
	for i := range 5 {
		g := w.gateway(99, i+1)
		for _, k := range ks {
			words := strings.Fields(g.get(t, k))
			slices.Sort(words)
			if n := len(slices.Compact(slices.Clone(words))); n != len(words) || n < c.committed || n > c.committed+c.unknown {
				t.Errorf("region %d: %s has %d words, %d of them different; %d were committed", i, k, len(words), n, c.committed)
			}
		}
		stop(g)
	}
}

// TestContention: transactions of five regions that want the same rows wait for each other, and none for long.
func TestContention(t *testing.T) {
	one := func(ks ...string) func(ctx context.Context, g *gateway, client, n int, x *coordinator, tx *kv.Txn) error {
		return func(ctx context.Context, g *gateway, client, n int, x *coordinator, tx *kv.Txn) error {
			return appendTo(ctx, x, tx, fmt.Sprintf("c%d.%d", client, n), ks...)
		}
	}
	for _, c := range []struct {
		name          string
		clients, each int
		rows          []string
		longest       time.Duration
	}{
		{"one row, 2 clients", 2, 10, []string{"k"}, 2 * time.Second},
		{"one row, 5 clients", 5, 10, []string{"k"}, 4 * time.Second},
		{"one row, 20 clients", 20, 10, []string{"k"}, 7 * time.Second},
		{"two rows, 3 clients", 3, 20, []string{"b", "n"}, 2 * time.Second},
		{"two rows, 20 clients", 20, 5, []string{"b", "n"}, 7 * time.Second},
		{"rows in common, 5 clients", 5, 20, []string{"a b", "b n", "a n", "n", "b"}, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(21, "m")
				rows, f := c.rows, one(c.rows...)
				if some := strings.Fields(strings.Join(c.rows, " ")); len(some) > len(c.rows) { // each client has its own
					rows, f = nil, func(ctx context.Context, g *gateway, client, n int, x *coordinator, tx *kv.Txn) error {
						return one(strings.Fields(c.rows[client])...)(ctx, g, client, n, x, tx)
					}
				}
				got := contend(t, w, c.clients, c.each, f)
				t.Log(&got)
				if got.unknown > 0 || got.at(1) > c.longest {
					t.Errorf("%d unknown; the longest took %s, want %s at most", got.unknown, got.at(1), c.longest)
				}
				got.check(t, w, rows...)
			})
		})
	}
}

// TestContentionStock: many clients take what is left of a stock: all of it, and nobody waits for long.
func TestContentionStock(t *testing.T) {
	for _, c := range []struct{ stock, clients, each int }{{60, 100, 1}, {200, 100, 4}} {
		if testing.Short() && c.each > 1 {
			continue // a minute and a half under the race detector
		}
		t.Run(fmt.Sprint(c.stock), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(22)
				w.bases["k"] = &core.Record{Base: core.Value{At: clock.Timestamp{Wall: 1}, Data: fmt.Append(nil, c.stock)}}
				got := contend(t, w, c.clients, c.each, func(ctx context.Context, g *gateway, client, n int, x *coordinator, tx *kv.Txn) error {
					vs, err := x.Get(ctx, tx, []keys.Key{keys.Key("k")}, txn.ReadOptions{Lock: kv.Exclusive})
					if err != nil {
						return err
					}
					left, _ := (plain{}).Column(vs[0], 0)
					if left == 0 {
						return errGone
					}
					_, err = x.Decide(ctx, tx, []transaction.Write{{Key: keys.Key("k"), Value: fmt.Append(nil, left-1), Deltas: []transaction.Delta{{Amount: -1, Max: 1 << 40}}}}, clock.Timestamp{})
					return err
				})
				t.Logf("%s; %d were too late", &got, got.gone)
				if got.unknown > 0 || got.committed != c.stock || got.at(1) > 5*time.Second {
					t.Errorf("%d taken of %d, %d unknown, the longest took %s", got.committed, c.stock, got.unknown, got.at(1))
				}
			})
		})
	}
}

// TestCollisionCosts: of gateways whose options collide the one that is accepted knows that after the fast round and two more, whoever is the master, and the
// others after one way more.
func TestCollisionCosts(t *testing.T) {
	worst, none, masters, all, told := 0.0, 0, 0, 0, 0
	var late []string
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			w := newLab(seed)
			dice := rand.New(rand.NewPCG(seed, 8))
			var wg sync.WaitGroup
			var mu sync.Mutex
			var gs []*gateway
			accepted, rivals := 0, 2+int(seed%3)
			who, farthest := dice.Perm(5)[:rivals], time.Duration(0)
			for _, i := range who {
				farthest = max(farthest, slices.Sorted(slices.Values(trips[i][:]))[3]*time.Millisecond)
			}
			for _, i := range who {
				g := w.gateway(seed, i+1)
				gs = append(gs, g)
				later := time.Duration(dice.Int64N(int64(40 * time.Millisecond)))
				wg.Go(func() {
					time.Sleep(later)
					begun := time.Now()
					a := g.client.attempt([]core.Option{{Name: core.Name{Txn: kv.TxnID{byte(i)}, At: g.client.stamp(clock.Timestamp{})}, Update: core.Update{Value: []byte("x")}, Keys: []keys.Key{keys.Key("k")}}})
					out, err := a.run(t.Context())
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						t.Error(err)
					}
					if out == core.Accepted {
						accepted++
					}
					far := slices.Sorted(slices.Values(trips[i][:]))[3] * time.Millisecond
					worst = max(worst, float64(time.Since(begun))/float64(far))
					// Those that are rejected may hear of it one way later: they have to be told.
					most := 3*farthest + 5*time.Millisecond
					all++
					switch took := time.Since(begun); {
					case took <= most:
					case out == core.Accepted:
						t.Errorf("seed %d: %d of %d: %s of %s, %v", seed, i, rivals, took, far, out)
					case took <= most+240*time.Millisecond/2:
						told++
					default:
						late = append(late, fmt.Sprintf("seed %d: %d of %d: %s of %s, %v", seed, i, rivals, took, far, out))
					}
				})
			}
			wg.Wait()
			if accepted == 0 {
				none++
			}
			w.mu.Lock()
			masters += len(w.ballots)
			w.mu.Unlock()
			stop(gs...)
		})
	}
	t.Logf("%d outcomes; %.2f rounds at most, %d masters; %d times none was accepted; rejected ones: %d one way later, %d later than that", all, worst, masters, none, told, len(late))
	if len(late) > all/200 || told > all/20 { // the former: a third ballot
		t.Error(strings.Join(late, "\n"))
	}
}

// TestPetitions: an option is decided about by the master that the record has, or without it if that does not answer.
func TestPetitions(t *testing.T) {
	run := func(name string, f func(t *testing.T, w *lab, g, master *gateway, ask *Ask)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(31)
				g, master := w.gateway(31, 1), w.gateway(31, 3)
				b := core.Ballot{Round: 1, Master: master.client.number()}
				k := keys.Key("k")
				heard := 0
				if _, err := master.client.each(t.Context(), []*core.Request{{Kind: core.Prepare, Key: k, Ballot: b, Generation: w.desc(k).Generation}}, func(*kv.RangeDescriptor, kv.ReplicaID, []*core.Reply) bool {
					heard++
					return heard < 5
				}); err != nil {
					t.Fatal(err)
				}
				o := core.Option{Name: core.Name{Txn: kv.TxnID{1}, At: g.client.stamp(clock.Timestamp{})}, Update: core.Update{Value: []byte("x")}, Keys: []keys.Key{k}}
				f(t, w, g, master, &Ask{Kind: Decide, Key: k, Option: o, Ballot: b})
				stop(g, master)
			})
		})
	}
	add := func(t *testing.T, g *gateway, most time.Duration) {
		t.Helper()
		begun := time.Now()
		if _, err := g.run(t.Context(), func(x *coordinator, tx *kv.Txn) error { return appendTo(t.Context(), x, tx, "x", "k") }); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > most {
			t.Errorf("it took %s, want %s at most", took, most)
		}
	}
	run("the master is there", func(t *testing.T, w *lab, g, _ *gateway, _ *Ask) {
		// It prepares again, since it has forgotten the ballot: 60 ms until a second replica has said that there is a master, one way, two rounds, and back.
		add(t, g, 60*time.Millisecond+80*time.Millisecond+3*80*time.Millisecond)
		if n := len(w.ballots); n > 3 || w.asked == 0 {
			t.Errorf("%d ballots; gateways have asked each other %d times", n, w.asked)
		}
	})
	run("the nearest replica has promised", func(t *testing.T, _ *lab, g, _ *gateway, ask *Ask) {
		begun := time.Now()
		if got := g.client.promised(t.Context(), ask.Key); got != ask.Ballot || time.Since(begun) > nearby {
			t.Errorf("%v after %s, want %v", got, time.Since(begun), ask.Ballot)
		}
	})
	run("the master is gone", func(t *testing.T, w *lab, g, master *gateway, _ *Ask) {
		master.cancel()
		add(t, g, 60*time.Millisecond+roundTime+2*80*time.Millisecond+10*time.Millisecond)
	})
	run("the master hears of it twice, and afterwards", func(t *testing.T, w *lab, g, master *gateway, ask *Ask) {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				told, err := g.client.ask(t.Context(), 3, roundTime, ask)
				if err != nil || told.Learned.Verdict != core.Accepted || told.Learned.Ended {
					t.Errorf("%+v, %v", told, err)
				}
			})
		}
		wg.Wait()
		// It remembers what was learned, and need not ask any acceptor (fastpaxos.FP51).
		time.Sleep(time.Second)
		prepares := w.got(core.Prepare)
		if told, err := g.client.ask(t.Context(), 3, roundTime, ask); err != nil || told.Learned.Verdict != core.Accepted || w.got(core.Prepare) != prepares {
			t.Errorf("%+v, %v, after %d more messages to prepare", told, err, w.got(core.Prepare)-prepares)
		}
		if _, err := g.client.tell(t.Context(), []*core.Request{end(ask.Key, ask.Option, false)}); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{0, 10 * time.Second, 3 * time.Minute} {
			time.Sleep(wait)
			// The verdict stays as it was learned: the option was accepted. Its transaction has not committed, and nothing stands in anybody's way.
			if told, err := g.client.ask(t.Context(), 3, roundTime, ask); err != nil || told.Learned.Verdict == core.Undecided {
				t.Errorf("after %s: %+v, %v", wait, told, err)
			}
			add(t, g, time.Second)
		}
		if v := g.get(t, "k"); v != " x x x" {
			t.Errorf("k is %q", v)
		}
	})
	run("the master stops in the middle", func(t *testing.T, w *lab, g, master *gateway, ask *Ask) {
		time.AfterFunc(250*time.Millisecond, master.cancel)
		add(t, g, 60*time.Millisecond+roundTime+2*80*time.Millisecond+10*time.Millisecond)
	})
}
