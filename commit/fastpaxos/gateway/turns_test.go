package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// TestTurns: turns at a hot row end though nobody gives them back, and without a keeper there are none.
func TestTurns(t *testing.T) {
	k := keys.Key("k")
	run := func(name string, f func(t *testing.T, w *lab, gs []*gateway)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(41)
				var gs []*gateway
				for i := range 5 {
					g := w.gateway(41, i+1)
					g.client.heat(k)
					gs = append(gs, g)
				}
				f(t, w, gs)
				stop(gs...)
			})
		})
	}
	// keeper is the gateway that has the line, other one that has not.
	keeper := func(t *testing.T, gs []*gateway) (keeper, other, third *gateway) {
		id := int(gs[0].client.keeper(t.Context(), k))
		return gs[id-1], gs[id%5], gs[(id+1)%5]
	}
	take := func(t *testing.T, g *gateway, least, most time.Duration) *turn {
		t.Helper()
		begun := time.Now()
		got, err := g.client.take(t.Context(), k, 0)
		if took := time.Since(begun); err != nil || took < least || took > most {
			t.Errorf("it took %s (%v), want %s to %s", took, err, least, most)
		}
		return got
	}
	run("in order", func(t *testing.T, _ *lab, gs []*gateway) {
		_, a, b := keeper(t, gs)
		first := take(t, a, 0, 300*time.Millisecond)
		a.client.work([]*turn{first}, 1)
		time.AfterFunc(1200*time.Millisecond, func() { a.client.pass(first) })
		b.client.pass(take(t, b, 1200*time.Millisecond, 1500*time.Millisecond))
	})
	run("the next one has it as soon as it is given back", func(t *testing.T, _ *lab, gs []*gateway) {
		keeper, a, b := keeper(t, gs)
		ways := (trips[a.region()][keeper.region()] + trips[keeper.region()][b.region()]) * time.Millisecond / 2
		for after := 300 * time.Millisecond; after < time.Second; after += 17 * time.Millisecond {
			first := take(t, a, 0, 300*time.Millisecond)
			a.client.work([]*turn{first}, 1)
			var back time.Time
			time.AfterFunc(after, func() { back = time.Now(); a.client.pass(first) })
			next, err := b.client.take(t.Context(), k, 0)
			if took := time.Since(back); err != nil || took > ways+5*time.Millisecond {
				t.Errorf("given back after %s, it took %s (%v), want %s", after, took, err, ways)
			}
			b.client.pass(next)
			time.Sleep(time.Second)
		}
	})
	run("the next one reads what the one before has written", func(t *testing.T, w *lab, gs []*gateway) {
		first, next, _ := keeper(t, gs) // the turn and the outcome leave the first one at the same moment
		w.waver(20 * time.Millisecond)
		for i := range 40 {
			var wg sync.WaitGroup
			for n, g := range []*gateway{first, next} {
				wg.Go(func() {
					time.Sleep(time.Duration(n) * 50 * time.Millisecond)
					g.client.heat(k)
					attempts, err := g.run(t.Context(), func(x *coordinator, tx *kv.Txn) error {
						if err := x.await(t.Context(), k.Equal); err != nil {
							return err
						}
						return appendTo(t.Context(), x, tx, fmt.Sprint(n, i), "k")
					})
					if err != nil || attempts > 1 {
						t.Errorf("%d, %d: %d attempts, %v", i, n, attempts, err)
					}
				})
			}
			wg.Wait()
		}
	})
	run("the gateway whose turn it is is gone", func(t *testing.T, _ *lab, gs []*gateway) {
		_, a, b := keeper(t, gs)
		take(t, a, 0, 300*time.Millisecond)
		a.cancel()
		// Its keeper asks after a while, and waits for an answer.
		b.client.pass(take(t, b, heldFor, heldFor+turnPatience+roundTime-patience+200*time.Millisecond))
	})
	run("the keeper has it, and its client thinks", func(t *testing.T, _ *lab, gs []*gateway) {
		keeper, a, _ := keeper(t, gs)
		first := take(t, keeper, 0, 0)
		a.client.pass(take(t, a, heldFor, thinkTime+turnPatience+400*time.Millisecond))
		keeper.client.pass(first)
	})
	run("the client of the transaction before thinks", func(t *testing.T, _ *lab, gs []*gateway) {
		_, a, b := keeper(t, gs)
		first := take(t, a, 0, 300*time.Millisecond)
		a.client.work([]*turn{first}, 1)
		a.client.work([]*turn{first}, -1)
		second := take(t, a, thinkTime, thinkTime+turnTime/8+300*time.Millisecond)
		a.client.pass(first) // it has lost its turn by now
		a.client.work([]*turn{second}, 1)
		a.client.work([]*turn{second}, -1)
		b.client.pass(take(t, b, heldFor, thinkTime+heldFor+turnPatience+400*time.Millisecond))
		a.client.pass(second)
	})
	run("the transaction before does not end", func(t *testing.T, _ *lab, gs []*gateway) {
		_, a, b := keeper(t, gs)
		first := take(t, a, 0, 300*time.Millisecond)
		a.client.work([]*turn{first}, 1)
		second := take(t, a, turnTime-300*time.Millisecond, turnTime+turnTime/4+600*time.Millisecond)
		a.client.pass(first) // it has lost its turn by now
		a.client.work([]*turn{second}, 1)
		b.client.pass(take(t, b, turnTime-300*time.Millisecond, turnTime+600*time.Millisecond))
		a.client.pass(second)
	})
	run("who does not wait any more", func(t *testing.T, _ *lab, gs []*gateway) {
		_, a, b := keeper(t, gs)
		first := take(t, a, 0, 300*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		for _, g := range []*gateway{a, b} {
			if _, err := g.client.take(ctx, k, 0); err == nil {
				t.Error("it has got a turn")
			}
		}
		cancel()
		a.client.pass(first)
		b.client.pass(take(t, b, 0, turnTime))
	})
	run("the keeper is gone", func(t *testing.T, _ *lab, gs []*gateway) {
		dead, a, _ := keeper(t, gs)
		dead.cancel()
		a.client.pass(take(t, a, turnPatience, turnPatience+roundTime))
		a.client.pass(take(t, a, 0, 300*time.Millisecond)) // at another keeper
	})
	run("rows are hot for a while", func(t *testing.T, _ *lab, gs []*gateway) {
		has := func(k keys.Key) bool { return true }
		if len(gs[0].client.hot(has, false)) == 0 {
			t.Error("the row is not hot")
		}
		time.Sleep(hotTime + time.Second)
		if k := gs[0].client.hot(has, false); len(k) > 0 {
			t.Errorf("%s is hot", k)
		}
	})
	run("nothing is left", func(t *testing.T, _ *lab, gs []*gateway) {
		keeper, a, b := keeper(t, gs)
		for i := range 3 {
			for _, g := range []*gateway{keeper, a, b} {
				if _, err := g.run(t.Context(), func(x *coordinator, tx *kv.Txn) error {
					return appendTo(t.Context(), x, tx, fmt.Sprint(g.id, i), "k")
				}); err != nil {
					t.Error(err)
				}
			}
		}
		time.Sleep(time.Second)
		for _, g := range gs {
			g.client.turns.mu.Lock()
			if n, m := len(g.client.turns.lines), len(g.client.turns.kept); n+m > 0 {
				t.Errorf("gateway %d has %d lines, and keeps %d", g.id, n, m)
			}
			g.client.turns.mu.Unlock()
		}
	})
}

// TestTurnsOfAnotherAttempt: a transaction that is refused keeps the turns with which its next attempt can get those that it needs, and no others: turns are taken in the order of rows.
func TestTurnsOfAnotherAttempt(t *testing.T) {
	for _, c := range []struct {
		name           string
		has, read, hot string // at which rows it has turns, which ones it has read in the attempt, and which ones are hot when it wants all
		lost           string // where it was refused
		later          time.Duration
		want           string // at which rows it has turns in the next attempt
	}{
		{name: "it lost at the row", has: "k", read: "k", lost: "k", want: "k"},
		{name: "a row before the turn", has: "n", read: "kn", lost: "k", want: "kn"},
		{name: "a row behind it", has: "k", read: "kn", lost: "n", want: "kn"},
		{name: "rows before and behind", has: "m", read: "kmn", lost: "kn", want: "kmn"},
		{name: "a row that is not wanted any more", has: "n", read: "k", lost: "k", want: "k"},
		{name: "one of several", has: "kmn", read: "kno", lost: "o", want: "kno"},
		{name: "a row that is hot, but where it did not lose", has: "k", read: "kn", hot: "n", lost: "k", want: "k"},
		{name: "a turn that is over", has: "k", read: "k", lost: "k", later: thinkTime + time.Second, want: "k"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newLab(42).gateway(42, 1)
				x, _ := g.txn()
				each := func(of string, f func(k keys.Key)) {
					for i := range len(of) {
						f(keys.Key(of[i : i+1]))
					}
				}
				had := map[string]*turn{}
				each(c.has, func(k keys.Key) {
					g.client.contest(k)
					if err := x.await(t.Context(), k.Equal); err != nil {
						t.Fatal(err)
					}
					had[string(k)] = x.turns[len(x.turns)-1]
				})
				time.Sleep(c.later)
				each(c.read, func(k keys.Key) { x.see(&core.Row{Key: k}) })
				each(c.hot, g.client.heat)
				var lost []keys.Key
				each(c.lost, func(k keys.Key) {
					if lost = append(lost, k); x.hasTurn(k) {
						g.client.heat(k)
					} else {
						g.client.contest(k)
					}
				})
				x.afresh(lost)
				if err := x.await(t.Context(), func(k keys.Key) bool { return strings.Contains(c.read, string(k)) }); err != nil {
					t.Fatal(err)
				}
				got := ""
				for _, turn := range x.turns {
					got += string(turn.key)
					if again := had[string(turn.key)]; c.later > 0 && turn == again {
						t.Errorf("a turn that is over is kept")
					}
				}
				if got != c.want {
					t.Errorf("it has turns at %q, want %q", got, c.want)
				}
				x.Ended()
				stop(g)
			})
		})
	}
}
