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
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// Parents and children in the world of gateway_world_test.go: child "c7.x" refers to parent "p7".

func parentOf(child string) string { return "p" + child[1:strings.Index(child, ".")] }

// refer inserts a child, if its parent is there.
func (g *gateway) refer(ctx context.Context, child string) (done bool, err error) {
	x, t := g.txn()
	p := keys.Key(parentOf(child))
	vs, err := x.Get(ctx, t, []keys.Key{p}, txn.ReadOptions{Check: true})
	if err != nil || vs[0] == nil {
		return false, err
	}
	_, err = x.Decide(ctx, t, []transaction.Write{put(child, "c"), {Key: p, Guard: true}}, clock.Timestamp{})
	return err == nil, err
}

// remove deletes a parent, if it finds no child.
func (g *gateway) remove(ctx context.Context, parent string) (done bool, err error) {
	x, t := g.txn()
	vs, err := x.Get(ctx, t, []keys.Key{keys.Key(parent)}, txn.ReadOptions{})
	if err != nil || vs[0] == nil {
		return false, err
	}
	children, err := g.childrenOf(ctx, x, t, parent)
	if err != nil || len(children) > 0 {
		return false, err
	}
	_, err = x.Decide(ctx, t, []transaction.Write{{Key: keys.Key(parent)}}, clock.Timestamp{})
	return err == nil, err
}

func (g *gateway) childrenOf(ctx context.Context, x *coordinator, t *kv.Txn, parent string) (out []string, err error) {
	s := keys.Span{Start: keys.Key("c" + parent[1:] + "."), End: keys.Key("c" + parent[1:] + "/")}
	for left := &s; left != nil; {
		var rows []kv.KeyValue
		if rows, left, err = x.Scan(ctx, t, txn.ScanOptions{Span: *left, MaxRows: 2, Fresh: true}); err != nil {
			return nil, err
		}
		for _, r := range rows {
			out = append(out, string(r.Key))
		}
	}
	return out, nil
}

func (g *gateway) must(t *testing.T, ws ...transaction.Write) {
	t.Helper()
	x, tx := g.txn()
	if _, err := x.Decide(t.Context(), tx, ws, clock.Timestamp{}); err != nil {
		t.Fatal(err)
	}
}

// TestGuard: whichever comes first, a reference or the removal of what it refers to, the other one fails, and finds out why.
func TestGuard(t *testing.T) {
	play := func(name string, f func(t *testing.T, w *lab, g, h *gateway)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(3, "m")
				g, h := w.gateway(3, 1), w.gateway(3, 5)
				g.must(t, put("p1", "p"))
				time.Sleep(2 * time.Second)
				f(t, w, g, h)
				stop(g, h)
			})
		})
	}
	var old *kv.WriteTooOldError
	play("the reference first, and all have heard of it", func(t *testing.T, w *lab, g, h *gateway) {
		x, tx := h.txn()
		if _, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("p1")}, txn.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		if done, err := g.refer(t.Context(), "c1.a"); !done || err != nil {
			t.Fatal(done, err)
		}
		time.Sleep(2 * time.Second)
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{{Key: keys.Key("p1")}}, clock.Timestamp{}); !errors.As(err, &old) {
			t.Errorf("the removal ended with %v", err)
		}
	})
	play("the reference first", func(t *testing.T, w *lab, g, h *gateway) {
		// The removal has read its parent, and looked for children, before.
		x, tx := h.txn()
		if _, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("p1")}, txn.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		if done, err := g.refer(t.Context(), "c1.a"); !done || err != nil {
			t.Fatal(done, err)
		}
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{{Key: keys.Key("p1")}}, clock.Timestamp{}); !errors.As(err, &old) {
			t.Errorf("the removal ended with %v", err)
		}
		if done, err := h.remove(t.Context(), "p1"); done || err != nil {
			t.Errorf("a parent with a child was removed: %v, %v", done, err)
		}
		if v := h.get(t, "p1"); v != "p" {
			t.Errorf("the parent is %q", v)
		}
	})
	play("the removal first", func(t *testing.T, w *lab, g, h *gateway) {
		x, tx := g.txn()
		if _, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("p1")}, txn.ReadOptions{Check: true}); err != nil {
			t.Fatal(err)
		}
		if done, err := h.remove(t.Context(), "p1"); !done || err != nil {
			t.Fatal(done, err)
		}
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{put("c1.a", "c"), {Key: keys.Key("p1"), Guard: true}}, clock.Timestamp{}); !errors.As(err, &old) {
			t.Errorf("the reference ended with %v", err)
		}
		if done, err := g.refer(t.Context(), "c1.a"); done || err != nil {
			t.Errorf("a child without a parent: %v, %v", done, err)
		}
	})
	play("both, and other updates of the parent", func(t *testing.T, w *lab, g, h *gateway) {
		g.must(t, put("p2", "7"))
		time.Sleep(2 * time.Second)
		seals := w.got(core.Prepare)
		for i := range 4 {
			var wg sync.WaitGroup
			for j, one := range []*gateway{g, h} {
				wg.Go(func() {
					if done, err := one.refer(t.Context(), fmt.Sprintf("c2.%d%d", i, j)); !done || err != nil {
						t.Errorf("reference %d of gateway %d: %v, %v", i, one.id, done, err)
					}
				})
				wg.Go(func() {
					x, tx := one.txn()
					k := keys.Key("p2")
					_, err := x.Get(t.Context(), tx, []keys.Key{k}, txn.ReadOptions{})
					if err == nil {
						_, err = x.Decide(t.Context(), tx, []transaction.Write{{Key: k, Value: []byte("8"), Deltas: []transaction.Delta{{Amount: 1, Max: 100}}}}, clock.Timestamp{})
					}
					if err != nil {
						t.Errorf("addition %d of gateway %d: %v", i, one.id, err)
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Second)
		}
		if n, err := g.read(t.Context(), "p2"); n != 15 || err != nil {
			t.Errorf("the parent is %d, %v", n, err)
		}
		if w.got(core.Prepare) != seals {
			t.Error("guards and additions needed a master")
		}
	})
	play("at the same time", func(t *testing.T, w *lab, g, h *gateway) {
		for i := range 20 {
			p, c := fmt.Sprintf("p%d", 10+i), fmt.Sprintf("c%d.a", 10+i)
			g.must(t, put(p, "p"))
			time.Sleep(2 * time.Second)
			w.waver(time.Duration(1+i) * 5 * time.Millisecond)
			var referred, removed bool
			var wg sync.WaitGroup
			wg.Go(func() { referred, _ = g.refer(t.Context(), c) })
			wg.Go(func() { time.Sleep(time.Duration(i) * 7 * time.Millisecond); removed, _ = h.remove(t.Context(), p) })
			wg.Wait()
			w.waver(0)
			time.Sleep(2 * time.Second)
			if referred && removed || referred != (g.get(t, c) != "") || removed != (g.get(t, p) == "") {
				t.Errorf("%d: referred %v, removed %v; there are %q and %q", i, referred, removed, g.get(t, c), g.get(t, p))
			}
		}
	})
}

// TestDeadReference: a gateway dies while it inserts a child; who removes the parent finishes that.
func TestDeadReference(t *testing.T) {
	for _, c := range []struct {
		name     string
		proposed []string
		at       int // acceptors that have been asked
		stays    bool
	}{
		{"both options, everywhere", []string{"c1.a", "p1"}, 5, true},
		{"both options, at a fast quorum", []string{"c1.a", "p1"}, 4, true},
		{"the child", []string{"c1.a"}, 5, false},
		{"the guard", []string{"p1"}, 5, false},
		{"both options, at two", []string{"c1.a", "p1"}, 2, true}, // a master decides, and nothing is in the way
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(4, "m")
				g, h := w.gateway(4, 1), w.gateway(4, 2)
				g.must(t, put("p1", "p"))
				time.Sleep(2 * time.Second)
				x, tx := g.txn()
				if _, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("p1")}, txn.ReadOptions{Check: true}); err != nil {
					t.Fatal(err)
				}
				options, ks, err := x.options(t.Context(), tx, []transaction.Write{put("c1.a", "c"), {Key: keys.Key("p1"), Guard: true}}, func(seen clock.Timestamp) (clock.Timestamp, error) {
					return g.client.stamp(seen), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for i, k := range ks {
					if !slices.Contains(c.proposed, string(k)) {
						continue
					}
					b := batch([]*core.Request{{Kind: core.Propose, Key: k, Option: options[i]}})
					for r := range c.at {
						if _, err := w.serve(w.desc(k), kv.ReplicaID(r+1), b); err != nil {
							t.Fatal(err)
						}
					}
				}
				stop(g)
				var removed bool
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					if removed, err = h.remove(ctx, "p1"); err == nil {
						cancel()
						break
					}
					cancel()
				}
				time.Sleep(5 * time.Second)
				if err != nil || removed == c.stays || (h.get(t, "p1") == "") != removed || (h.get(t, "c1.a") == "c") != c.stays {
					t.Errorf("removed %v (%v); there are %q and %q", removed, err, h.get(t, "p1"), h.get(t, "c1.a"))
				}
				stop(h)
			})
		})
	}
}

// TestFreshReads: who has read a state of the parent that a reference was committed on finds the reference, though no replica of the child has heard of its outcome, or the nearest one has not.
func TestFreshReads(t *testing.T) {
	for _, told := range []int{0, 1, 4} {
		t.Run(fmt.Sprint(told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(4, "m")
				g, h := w.gateway(4, 1), w.gateway(4, 5)
				g.must(t, put("p1", "p"))
				time.Sleep(2 * time.Second)
				x, tx := g.txn()
				if _, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("p1")}, txn.ReadOptions{Check: true}); err != nil {
					t.Fatal(err)
				}
				options, ks, err := x.options(t.Context(), tx, []transaction.Write{put("c1.a", "c"), {Key: keys.Key("p1"), Guard: true}}, func(seen clock.Timestamp) (clock.Timestamp, error) {
					return g.client.stamp(seen), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for i, k := range ks {
					for r := range 5 {
						qs := []*core.Request{{Kind: core.Propose, Key: k, Option: options[i]}}
						if string(k) == "p1" || r < told {
							qs = append(qs, end(k, options[i], true))
						}
						if _, err := w.serve(w.desc(k), kv.ReplicaID(r+1), batch(qs)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if v := h.get(t, "c1.a"); v != "" {
					t.Fatalf("the nearest replica has %q", v)
				}
				if done, err := h.remove(t.Context(), "p1"); done || err != nil {
					t.Errorf("removed %v, %v", done, err)
				}
				stop(g, h)
			})
		})
	}
}

// playFamilies has gateways insert and delete children, and parents that have none, while messages are lost, gateways die and generations end.
func playFamilies(t *testing.T, seed uint64, mistake string) (referred, removed int, err error) {
	const families = 3
	w := anyLab(seed, "c2", "d", "p2")
	w.politics(seed / 3)
	w.loss, w.jitter = []float64{0, 0.02, 0.1, 0.2}[seed%4], []time.Duration{time.Millisecond, 40 * time.Millisecond}[seed%2]
	var mu sync.Mutex
	var wg sync.WaitGroup
	var gs []*gateway
	for i := range 4 {
		g := w.gateway(seed, i+1)
		gs = append(gs, g)
		wg.Go(func() {
			if g.host.Dice.Int64N(3) == 0 {
				time.AfterFunc(time.Duration(g.host.Dice.Int64N(int64(6*time.Second))), g.cancel)
			}
			for n := 0; n < 14 && g.ctx.Err() == nil; n++ {
				f := g.host.Dice.Int64N(families)
				p := fmt.Sprintf("p%d", f)
				ctx, cancel := context.WithTimeout(g.ctx, 8*time.Second)
				switch g.host.Dice.Int64N(5) {
				case 0: // a parent, if there is none
					x, t := g.txn()
					if vs, err := x.Get(ctx, t, []keys.Key{keys.Key(p)}, txn.ReadOptions{}); err == nil && vs[0] == nil {
						_, _ = x.Decide(ctx, t, []transaction.Write{put(p, "p")}, clock.Timestamp{})
					}
				case 1, 2:
					c := fmt.Sprintf("c%d.%d", f, g.host.Dice.Int64N(3))
					if mistake == "no guard" {
						x, t := g.txn()
						if vs, err := x.Get(ctx, t, []keys.Key{keys.Key(p)}, txn.ReadOptions{}); err == nil && vs[0] != nil {
							_, _ = x.Decide(ctx, t, []transaction.Write{put(c, "c")}, clock.Timestamp{})
						}
						break
					}
					if done, _ := g.refer(ctx, c); done {
						mu.Lock()
						referred++
						mu.Unlock()
					}
				case 3: // all children
					x, t := g.txn()
					if cs, err := g.childrenOf(ctx, x, t, p); err == nil && len(cs) > 0 {
						var ws []transaction.Write
						for _, c := range cs {
							ws = append(ws, transaction.Write{Key: keys.Key(c)})
						}
						_, _ = x.Decide(ctx, t, ws, clock.Timestamp{})
					}
				case 4:
					if done, _ := g.remove(ctx, p); done {
						mu.Lock()
						removed++
						mu.Unlock()
					}
				}
				cancel()
				time.Sleep(time.Duration(g.host.Dice.Int64N(int64(100 * time.Millisecond))))
			}
		})
	}
	w.mu.Lock()
	if seed%3 > 0 {
		for range w.dice.IntN(6) {
			time.AfterFunc(time.Duration(w.dice.Int64N(int64(8*time.Second))), func() { w.change(seed%3 > 1) })
		}
	}
	w.mu.Unlock()
	wg.Wait()
	time.Sleep(time.Second)
	w.mu.Lock()
	w.loss = 0
	w.mu.Unlock()
	last := w.gateway(seed, 5)
	time.Sleep(15 * time.Second) // a gateway that is gone is taken for dead
	for f := range families {
		p := fmt.Sprintf("p%d", f)
		x, tx := last.txn()
		cs, e := last.childrenOf(t.Context(), x, tx, p)
		if e == nil {
			_, e = x.Get(t.Context(), tx, []keys.Key{keys.Key(p)}, txn.ReadOptions{Fresh: true})
		}
		if e != nil {
			err = e
			break
		}
		if x.fresh[p].Value == nil && len(cs) > 0 {
			err = fmt.Errorf("%v are orphans", cs)
		}
	}
	stop(append(gs, last)...)
	return referred, removed, err
}

// TestFamilies: there is never a child without its parent, whoever dies.
func TestFamilies(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 15
	}
	referred, removed := 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			n, m, err := playFamilies(t, seed, "")
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			referred, removed = referred+n, removed+m
		})
	}
	t.Logf("%d references, %d removals", referred, removed)
	if referred < 2*int(seeds) || removed < int(seeds) {
		t.Errorf("only %d references and %d removals", referred, removed)
	}
}

// TestFamiliesNotice: without guards there are orphans.
func TestFamiliesNotice(t *testing.T) {
	for seed := range uint64(600) { // one in twenty has some
		var err error
		synctest.Test(t, func(t *testing.T) { _, _, err = playFamilies(t, seed, "no guard") })
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("nobody noticed")
}
