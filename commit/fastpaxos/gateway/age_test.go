package gateway

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// doubt has replica 1 say that it has heard from a quorum so long ago, and something of row k.
func (w *lab) doubt(age time.Duration, rows ...core.StaleRow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ages, w.doubts = map[kv.ReplicaID]time.Duration{1: age}, map[string]core.StaleRow{}
	for _, r := range rows {
		w.doubts["k"] = r
	}
}

// TestReadsRenewed: a gateway asks a quorum for rows that its nearest replica may have in a state older than the reader allows, and for no others; where no quorum answers it gives what there is, and asks
// no quorum again for a second.
func TestReadsRenewed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		age    time.Duration
		row    *core.StaleRow
		within time.Duration
		fresh  bool
	}{
		{"heard lately", 900 * ms, nil, time.Second, false},
		{"heard too long ago", 1100 * ms, nil, time.Second, true},
		{"heard too long ago for this reader", 500 * ms, nil, 400 * ms, true},
		{"the row has lacked something for a moment", 0, &core.StaleRow{For: core.LackOld}, time.Second, false},
		{"for longer", 0, &core.StaleRow{For: core.LackOld + ms}, time.Second, true},
		{"a reader that wants less waits for nothing", 0, &core.StaleRow{For: ms}, 900 * ms, true},
		{"a young vote", 0, &core.StaleRow{Vote: true, For: core.VoteOld}, time.Second, false},
		{"an old vote", 0, &core.StaleRow{Vote: true, For: core.VoteOld + ms}, time.Second, true},
		{"a vote that is too old for this reader", 0, &core.StaleRow{Vote: true, For: 300 * ms}, 200 * ms, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(10)
				g, h := w.gateway(10, 1), w.gateway(10, 2)
				w.lose(1, true)
				if err := h.add(t.Context(), "one", "k"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * ms)
				stop(h)
				w.lose(1, false)
				if w.doubt(c.age); c.row != nil {
					w.doubt(c.age, *c.row)
				}
				want, least, most := "", time.Duration(0), 10*ms
				if c.fresh {
					want, least, most = " one", trip(0, 2), trip(0, 4)+10*ms
				}
				begun := time.Now()
				rows, err := g.client.readWithin(t.Context(), []keys.Key{keys.Key("k")}, c.within)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); string(rows[0].Value) != want || took < least || took > most {
					t.Errorf("it reads %q after %v, want %q", rows[0].Value, took, want)
				}
				found, _, err := g.client.scan(t.Context(), txn.ScanOptions{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("z")}}, c.within)
				if err != nil {
					t.Fatal(err)
				}
				if n := len(found); c.row == nil && (n == 1) != c.fresh { // replica 1 has no such row, so it says nothing of it to a scan
					t.Errorf("it finds %d rows", n)
				}
				stop(g)
			})
		})
	}
	t.Run("no quorum", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newLab(11)
			g := w.gateway(11, 1)
			if err := g.add(t.Context(), "one", "k"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			for r := range kv.ReplicaID(3) {
				w.lose(r+3, true)
			}
			w.doubt(5 * time.Second)
			read := func() time.Duration {
				begun := time.Now()
				if rows, err := g.client.readWithin(t.Context(), []keys.Key{keys.Key("k")}, time.Second); err != nil || string(rows[0].Value) != " one" {
					t.Errorf("%q, %v", rows[0].Value, err)
				}
				return time.Since(begun)
			}
			if took := read(); took < renewWithin || took > renewWithin+50*ms {
				t.Errorf("the first read took %v", took)
			}
			if took := read(); took > 10*ms {
				t.Errorf("the second read took %v", took)
			}
			time.Sleep(unreachedFor)
			for r := range kv.ReplicaID(3) {
				w.lose(r+3, false)
			}
			if took := read(); took < trip(0, 2) || took > trip(0, 4) {
				t.Errorf("after a second, when they are back, a read took %v", took)
			}
			stop(g)
		})
	})
}

// paced is a sender for which some nodes seem silent.
type paced struct {
	Sender
	silent func(kv.NodeID) bool
}

func (p paced) Answers(n kv.NodeID) (time.Duration, bool) { return 120 * time.Millisecond, p.silent(n) }

// TestReadsRenewedInDoubt: nodes that are late with one answer seem silent to a gateway. It asks a quorum all the same, and has what it answers; if it does not answer, a read takes a moment longer, once in a second.
func TestReadsRenewedInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(12)
		a, b := w.gateway(12, 1), w.gateway(12, 3)
		a.client.o.Sender = paced{a.client.o.Sender, func(n kv.NodeID) bool { return n != 1 }}
		if err := b.add(t.Context(), "one", "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		read := func(want string, least, most time.Duration) {
			t.Helper()
			begun := time.Now()
			rows, err := a.client.readWithin(t.Context(), []keys.Key{keys.Key("k")}, time.Second)
			if took := time.Since(begun); err != nil || string(rows[0].Value) != want || took < least || took > most {
				t.Errorf("%q after %v (%v), want %q after %v to %v", rows[0].Value, took, err, want, least, most)
			}
		}
		w.doubt(5 * time.Second)
		read(" one", trip(0, 2), trip(0, 4))
		w.lose(1, true) // it does not hear of the next one
		if err := b.add(t.Context(), "two", "k"); err != nil {
			t.Fatal(err)
		}
		w.lose(1, false)
		read(" one two", trip(0, 2), trip(0, 4)+10*time.Millisecond)
		for r := range kv.ReplicaID(3) {
			w.lose(r+3, true)
		}
		read(" one two", doubtfulWithin-10*time.Millisecond, doubtfulWithin+10*time.Millisecond)
		read(" one two", 0, 10*time.Millisecond)
		stop(a, b)
	})
}

// TestReadsRenewedLate: a reader whom a quorum has answered waits for the outcome of what it has accepted, and others ask that quorum meanwhile, also if the outcome takes longer than a quorum may: another range
// of the transaction is out of reach, and the transaction's gateway is dead.
func TestReadsRenewedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(13, "m")
		g, h := w.gateway(13, 1), w.gateway(13, 2)
		if err := h.add(t.Context(), "old", "k", "p"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		ctx, die := context.WithCancel(h.ctx)
		go h.add(ctx, "new", "k", "p")
		time.Sleep(100 * time.Millisecond) // all replicas have the options, and no fast quorum has answered
		die()
		h.cancel()
		h.host.Group.Stop()
		w.mu.Lock()
		w.away = w.desc(keys.Key("p")).ID
		w.mu.Unlock()
		time.Sleep(time.Second)
		w.doubt(0, core.StaleRow{Vote: true, For: time.Second})
		back := time.Now().Add(5 * time.Second)
		time.AfterFunc(5*time.Second, func() {
			w.mu.Lock()
			w.away = 0
			w.mu.Unlock()
		})
		for i := range 2 {
			rows, err := g.client.readWithin(t.Context(), []keys.Key{keys.Key("k")}, time.Second)
			if err != nil || string(rows[0].Value) != " old new" || time.Now().Before(back) {
				t.Errorf("read %d: %q %v after the other range came back, %v", i, rows[0].Value, time.Since(back), err)
			}
		}
		stop(g)
	})
}

// TestFate: a gateway says whether it works on a transaction, and what became of it; one that has died, or does not know it, has left it.
func TestFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(12)
		g, h := w.gateway(12, 1), w.gateway(12, 2)
		o := &core.Option{Name: core.Name{Txn: kv.TxnID{3}, At: g.client.stamp(clock.Timestamp{})}, Keys: []keys.Key{keys.Key("k")}}
		is := func(when string, want fate, abandoned bool) {
			t.Helper()
			for _, c := range []*gateway{h, g} {
				if c.ctx.Err() != nil {
					continue
				}
				if got := c.client.fate(t.Context(), o); got != want {
					t.Errorf("%s: gateway %d says %d, want %d", when, c.id, got, want)
				}
				if got := c.client.abandoned(t.Context(), o); got != abandoned {
					t.Errorf("%s: gateway %d takes it for abandoned: %v", when, c.id, got)
				}
			}
		}
		decided := func(committed bool) {
			g.client.fates.decided(o.Name, committed, g.host.Clock.Monotonic())
		}
		done := g.client.worksOn(o.Name)
		is("at once", working, false)
		time.Sleep(fateAfter)
		is("while it works", working, false)
		done()
		is("given up", deserted, true)
		decided(true)
		is("committed", won, false)
		decided(false)
		is("aborted", lost, false)
		stop(g)
		is("dead", deserted, true)
		a := *o
		a.At = h.client.stamp(clock.Timestamp{})
		time.Sleep(fateAfter)
		if !h.client.abandoned(t.Context(), &a) {
			t.Error("one that its gateway does not know is not abandoned")
		}
		if a.Anchor = keys.Key("k"); h.client.abandoned(t.Context(), &a) {
			t.Error("one with a record is abandoned though it is young")
		}
		o.At = h.client.stamp(clock.Timestamp{})
		done = h.client.worksOn(o.Name)
		if h.client.abandoned(t.Context(), o) {
			t.Error("its own is abandoned at once")
		}
		time.Sleep(stale)
		if !h.client.abandoned(t.Context(), o) {
			t.Error("it is not abandoned, however old it is")
		}
		done()
		stop(h)
	})
}

// TestCheckEnds: a row here that has heard nothing of an option is brought up to date if that has committed, also if its gateway has died before it told anybody, and lacks nothing if it has not.
func TestCheckEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		at     []kv.ReplicaID // those that get the option
		commit bool
	}{
		{"accepted by a fast quorum", []kv.ReplicaID{2, 3, 4, 5}, true},
		{"by too few", []kv.ReplicaID{4}, false},
		{"by none", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(13)
				g, h := w.gateway(13, 2), w.gateway(13, 1)
				for r := range kv.ReplicaID(5) {
					w.lose(r+1, true)
				}
				for _, r := range c.at {
					w.lose(r, false)
				}
				k := keys.Key("k")
				o := core.Option{Name: core.Name{Txn: kv.TxnID{9}, At: g.client.stamp(clock.Timestamp{})}, Update: core.Update{Value: []byte(" dead")}, Keys: []keys.Key{k}}
				if len(c.at) > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_ = g.client.attempt([]core.Option{o}).round(ctx, [][]int{{0}}, nil)
					cancel()
				}
				stop(g)
				for r := range kv.ReplicaID(5) {
					w.lose(r+1, false)
				}
				if rows, err := h.client.read(t.Context(), []keys.Key{k}); err != nil || rows[0].Value != nil {
					t.Fatalf("the nearest replica has %q before, %v", rows[0].Value, err)
				}
				var lacks bool
				var err error
				for range 4 {
					if lacks, err = h.client.Check(t.Context(), k, o.Name); err == nil && !lacks {
						break
					}
					time.Sleep(time.Second)
				}
				if err != nil || lacks {
					t.Errorf("it lacks the option still: %v, %v", lacks, err)
				}
				want := map[bool]string{true: " dead"}[c.commit]
				if got := h.get(t, "k"); got != want {
					t.Errorf("the nearest replica has %q, want %q", got, want)
				}
				stop(h)
			})
		})
	}
}

// TestReadsRereadWithin: where the nearest replica lacks a version that was read before, or knows that it is behind, the answer of another one counts within the same bound; where no quorum answers it counts as it is.
func TestReadsRereadWithin(t *testing.T) {
	k := keys.Key("k")
	for _, behind := range []bool{false, true} {
		for _, quorum := range []bool{true, false} {
			t.Run(fmt.Sprintf("behind=%v quorum=%v", behind, quorum), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newLab(14)
					g, h := w.gateway(14, 1), w.gateway(14, 3)
					read := func(want string) {
						t.Helper()
						rows, err := g.client.readWithin(t.Context(), []keys.Key{k}, time.Second)
						if err != nil || string(rows[0].Value) != want {
							t.Errorf("it reads %q, %v, want %q", rows[0].Value, err, want)
						}
						if behind {
							return // the lab's scans do not tell of such a row
						}
						found, _, err := g.client.scan(t.Context(), txn.ScanOptions{Span: keys.Span{Start: keys.Key("a"), End: keys.Key("z")}}, time.Second)
						if err != nil || len(found) != 1 || string(found[0].Value) != want {
							t.Errorf("it finds %v, %v, want %q", found, err, want)
						}
					}
					if err := h.add(t.Context(), "one", "k"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Second) // all replicas have it
					read(" one")
					w.lose(1, true)
					w.lose(2, true)
					if err := h.add(t.Context(), "two", "k"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(100 * time.Millisecond)
					h.cancel()
					h.host.Group.Stop()
					for r := range kv.ReplicaID(5) {
						w.lose(r+1, !quorum && r+1 > 2)
					}
					w.mu.Lock()
					d := w.descs[0]
					w.acceptors(d)[1] = w.labAcceptor(d, 1, clock.Timestamp{}) // it has lost what was not durable
					if behind {
						w.acceptors(d)[1].Load(k, &core.Record{Votes: []core.Vote{{Option: core.Option{Name: core.Name{At: clock.Timestamp{Wall: 2}}, Update: core.Update{Seen: core.Seen{Base: clock.Timestamp{Wall: 1}}}}, Verdict: core.Accepted}}})
						g.client.sights = sights{}
					}
					w.ages = map[kv.ReplicaID]time.Duration{2: 5 * time.Second}
					w.mu.Unlock()
					if quorum {
						read(" one two")
					} else {
						read(" one")
					}
					stop(g)
				})
			})
		}
	}
}
