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

// at begins a transaction of a level, with no uncertainty: all clocks of the lab are one.
func (g *gateway) at(level kv.Isolation) (*coordinator, *kv.Txn) {
	x, t := g.txn()
	t.Isolation, t.UncertaintyLimit = level, t.ReadTimestamp
	return x, t
}

func (g *gateway) scan(ctx context.Context, x *coordinator, t *kv.Txn, from, to string) (string, error) {
	var out []string
	for left := (&keys.Span{Start: keys.Key(from), End: keys.Key(to)}); left != nil; {
		rows, rest, err := x.Scan(ctx, t, txn.ScanOptions{Span: *left, MaxRows: 2})
		if err != nil {
			return "", err
		}
		for _, r := range rows {
			out = append(out, string(r.Key)+"="+string(r.Value))
		}
		left = rest
	}
	return strings.Join(out, " "), nil
}

// TestSnapshot: a transaction above READ COMMITTED reads one moment, whatever is committed meanwhile; the default level does not wait for it.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1, "m")
		a, b := w.gateway(1, 1), w.gateway(1, 4)
		if err := a.add(t.Context(), "1", "c", "n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		x, tx := b.at(kv.RepeatableRead)
		time.Sleep(time.Millisecond)
		if err := a.add(t.Context(), "2", "c", "d", "n"); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		vs, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("c"), keys.Key("d"), keys.Key("n")}, txn.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if string(vs[0]) != " 1" || vs[1] != nil || string(vs[2]) != " 1" {
			t.Errorf("read %q", vs)
		}
		if d := time.Since(begun); d > 200*time.Millisecond {
			t.Errorf("the read took %s", d)
		}
		if got, err := b.scan(t.Context(), x, tx, "a", "z"); err != nil || got != "c= 1 n= 1" {
			t.Errorf("scanned %q, %v", got, err)
		}
		// A row that was written since can't be written again.
		var tooOld *kv.WriteTooOldError
		if _, err := x.Decide(t.Context(), tx, []transaction.Write{put("n", "x")}, clock.Timestamp{}); !errors.As(err, &tooOld) {
			t.Errorf("the second write: %v", err)
		}
		if v := a.get(t, "n"); v != " 1 2" {
			t.Errorf("n is %q", v)
		}
		stop(a, b)
	})
}

// TestWriterAfterReader: an option that comes to replicas after a promise to a reader with a later timestamp is not accepted there, and its transaction commits by itself at a later one.
func TestWriterAfterReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		far, near := w.gateway(1, 5), w.gateway(1, 1)
		var wait sync.WaitGroup
		begun := time.Now()
		wait.Go(func() {
			if err := far.add(t.Context(), "1", "k"); err != nil {
				t.Error(err)
			}
			t.Logf("the writer took %s", time.Since(begun))
		})
		time.Sleep(20 * time.Millisecond) // the option is on its way
		x, tx := near.at(kv.RepeatableRead)
		first, err := near.scan(t.Context(), x, tx, "a", "z")
		if err != nil {
			t.Fatal(err)
		}
		wait.Wait()
		time.Sleep(time.Second)
		again, err := near.scan(t.Context(), x, tx, "a", "z")
		if err != nil || again != first {
			t.Errorf("read %q, and then %q, %v", first, again, err)
		}
		if v := near.get(t, "k"); v != " 1" {
			t.Errorf("k is %q", v)
		}
		stop(far, near)
	})
}

// TestSpansAgain: several spans in several ranges, and rows, that a serializable transaction has read are validated in one round, however many they are; and one of them that has changed is noticed.
func TestSpansAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1, "d", "g", "k", "n", "q")
		g := w.gateway(1, 1)
		for _, k := range []string{"b", "e", "h", "l", "o", "r"} {
			if err := g.add(t.Context(), "1", k, k+"1", k+"2", k+"3"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		for _, touched := range []string{"", "b1", "l4", "r2", "n"} {
			x, tx := g.at(kv.Serializable)
			if _, err := g.scan(t.Context(), x, tx, "a", "z"); err != nil {
				t.Fatal(err)
			}
			if _, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("zb"), keys.Key("zc")}, txn.ReadOptions{}); err != nil {
				t.Fatal(err)
			}
			if len(x.spans) < 14 {
				t.Errorf("%d spans", len(x.spans))
			}
			if touched != "" {
				if err := g.add(t.Context(), "2", touched); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			tx.WriteTimestamp = g.client.o.Clock.Now()
			begun := time.Now()
			_, err := x.Decide(t.Context(), tx, []transaction.Write{put("zb", "1")}, clock.Timestamp{})
			var retry *kv.TxnRetryError
			took, want := time.Since(begun), 2*140*time.Millisecond
			if touched != "" {
				want = 140 * time.Millisecond
			}
			if touched == "" && err != nil || touched != "" && !errors.As(err, &retry) || took > want {
				t.Errorf("%q was written since: %v, in %s, want %s", touched, err, took, want)
			}
			time.Sleep(time.Second)
		}
		stop(g)
	})
}

// TestSerializableRounds: of what a serializable transaction has read, what it replaces is validated in the round of its options, and the rest in one round before.
func TestSerializableRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		g := w.gateway(1, 1)
		if err := g.add(t.Context(), "1", "k", "l"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, c := range []struct {
			reads []string
			want  time.Duration
		}{{[]string{"k"}, 140}, {[]string{"k", "l"}, 280}} {
			x, tx := g.at(kv.Serializable)
			for _, k := range c.reads {
				if _, err := x.Get(t.Context(), tx, []keys.Key{keys.Key(k)}, txn.ReadOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			if _, err := x.Decide(t.Context(), tx, []transaction.Write{put("k", "x")}, clock.Timestamp{}); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begun); d != c.want*time.Millisecond {
				t.Errorf("with reads of %v: %s, want %d ms", c.reads, d, c.want)
			}
			time.Sleep(time.Second)
		}
		stop(g)
	})
}

// TestWriteSkew: two transactions that read what the other one writes both commit at REPEATABLE READ, and not at SERIALIZABLE, also if what they read was not there.
func TestWriteSkew(t *testing.T) {
	for _, level := range []kv.Isolation{kv.RepeatableRead, kv.Serializable} {
		for _, phantom := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(1, "m")
				gs := []*gateway{w.gateway(1, 1), w.gateway(1, 4)}
				if !phantom {
					if err := gs[0].add(t.Context(), "0", "c", "n"); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				var mu sync.Mutex
				committed := 0
				var wait sync.WaitGroup
				for i, mine := range []string{"c", "n"} {
					wait.Go(func() {
						x, tx := gs[i].at(level)
						if _, err := gs[i].scan(t.Context(), x, tx, "a", "z"); err != nil {
							t.Error(err)
						}
						time.Sleep(time.Second)
						if _, err := x.Decide(t.Context(), tx, []transaction.Write{put(mine, "1")}, clock.Timestamp{}); err == nil {
							mu.Lock()
							committed++
							mu.Unlock()
						} else {
							t.Log(err)
						}
					})
				}
				wait.Wait()
				if want := level == kv.RepeatableRead; (committed == 2) != want {
					t.Errorf("%v, phantom %v: %d have committed", level, phantom, committed)
				}
				stop(gs...)
			})
		}
	}
}

// TestSerializableAtRandom: transactions at SERIALIZABLE and REPEATABLE READ from five gateways, while messages are lost, ranges change, and gateways die. Each committed transaction appends its name to
// rows that it has read, so that the versions show who came after whom: what the serializable ones have read and written has no cycle, and no snapshot has a part of a transaction.
func TestSerializableAtRandom(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	early := 0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { early += histories(t, seed) })
		})
	}
	if early < 3*int(seeds) {
		t.Errorf("only %d transactions have committed at the timestamps of their reads", early)
	}
}

// event is a transaction that has committed, or may have.
type event struct {
	name   string
	level  kv.Isolation
	reads  map[string]string // rows, as lists of names
	writes []string
	unsure bool
	asRead bool // it has committed at the timestamp of its reads
}

// histories plays a world, and tells how many transactions have committed at the timestamp of their reads (fastpaxos.FP89).
func histories(t *testing.T, seed uint64, also ...func(*lab, []*gateway)) (early int) {
	w := anyLab(seed, "k3")
	w.politics(seed / 3)
	w.jitter = 20 * time.Millisecond
	if seed%3 == 1 {
		w.loss = 0.02
	}
	dice := rand.New(rand.NewPCG(seed, 3))
	var mu sync.Mutex
	var all []*event
	var wait sync.WaitGroup
	var gs []*gateway
	failed := 0
	end := time.Now().Add(40 * time.Second)
	for i := range 5 {
		g := w.gateway(seed, i+1)
		gs = append(gs, g)
		for client := range 2 {
			mine := rand.New(rand.NewPCG(seed, uint64(10*i+client)))
			wait.Go(func() {
				for n := 0; time.Now().Before(end) && g.ctx.Err() == nil; n++ {
					time.Sleep(time.Duration(mine.IntN(400)) * time.Millisecond)
					e := &event{name: fmt.Sprintf("%d.%d.%d", i, client, n), level: kv.Serializable, reads: map[string]string{}}
					if mine.IntN(4) == 0 {
						e.level = kv.RepeatableRead
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					err := g.random(ctx, mine, e)
					cancel()
					var unsure *kv.AmbiguousError
					mu.Lock()
					switch {
					case err == nil:
						all = append(all, e)
					case errors.As(err, &unsure) || g.ctx.Err() != nil:
						e.unsure, e.reads = true, nil
						all = append(all, e)
					default:
						failed++
					}
					mu.Unlock()
				}
			})
		}
	}
	for _, f := range also {
		f(w, gs)
	}
	for range 3 {
		time.Sleep(time.Duration(4+dice.IntN(8)) * time.Second)
		switch seed % 4 {
		case 1:
			w.change(dice.IntN(2) == 0)
		case 2:
			r := kv.ReplicaID(1 + dice.IntN(w.voters))
			w.lose(r, true)
			time.AfterFunc(5*time.Second, func() { w.lose(r, false) })
		case 3:
			if g := gs[dice.IntN(5)]; g != gs[0] {
				g.cancel()
			}
		}
	}
	wait.Wait()
	time.Sleep(time.Minute)
	final := map[string]string{}
	x, tx := gs[0].at(kv.RepeatableRead)
	for k := range 6 {
		k := fmt.Sprint("k", k)
		vs, err := x.Get(t.Context(), tx, []keys.Key{keys.Key(k)}, txn.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		final[k] = string(vs[0])
	}
	check(t, all, final)
	n := 0
	for _, e := range all {
		if !e.unsure && len(e.writes) > 0 {
			n++
		}
		if e.asRead {
			early++
		}
	}
	if t.Logf("%d have committed, %d of them with writes, %d as they had read; %d failed", len(all), n, early, failed); n < 20 {
		t.Errorf("only %d writers have committed", n)
	}
	stop(gs...)
	return early
}

// random is one transaction.
func (g *gateway) random(ctx context.Context, dice *rand.Rand, e *event) error {
	x, tx := g.at(e.level)
	if uncertain := (*kv.UncertaintyError)(nil); dice.IntN(2) == 0 && errors.As(x.draw(tx, true), &uncertain) {
		tx.ReadTimestamp, tx.WriteTimestamp = uncertain.RetryAt, uncertain.RetryAt
	}
	values := map[string]string{}
	if dice.IntN(3) == 0 {
		for left := (&keys.Span{Start: keys.Key("a"), End: keys.Key("z")}); left != nil; {
			rows, rest, err := x.Scan(ctx, tx, txn.ScanOptions{Span: *left, Reverse: dice.IntN(2) == 0 && left.Start.Equal(keys.Key("a")) && left.End.Equal(keys.Key("z")), MaxRows: int64(dice.IntN(4))})
			if err != nil {
				return err
			}
			for _, r := range rows {
				values[string(r.Key)] = string(r.Value)
			}
			if rest != nil && !rest.End.Equal(keys.Key("z")) {
				// Backwards: the rest in the same way.
				for rest != nil {
					if rows, rest, err = x.Scan(ctx, tx, txn.ScanOptions{Span: *rest, Reverse: true, MaxRows: 2}); err != nil {
						return err
					}
					for _, r := range rows {
						values[string(r.Key)] = string(r.Value)
					}
				}
			}
			left = rest
		}
		for k := range 6 {
			k := fmt.Sprint("k", k)
			e.reads[k] = values[k]
		}
	}
	var some []string
	for _, k := range dice.Perm(6)[:1+dice.IntN(3)] {
		some = append(some, fmt.Sprint("k", k))
	}
	var ks []keys.Key
	for _, k := range some {
		ks = append(ks, keys.Key(k))
	}
	vs, err := x.Get(ctx, tx, ks, txn.ReadOptions{})
	if err != nil {
		return err
	}
	for i, k := range some {
		if was, ok := e.reads[k]; ok && was != string(vs[i]) {
			return fmt.Errorf("WRONG: %s was %q, and is %q", k, was, vs[i])
		}
		e.reads[k] = string(vs[i])
	}
	if dice.IntN(2) == 0 {
		time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond)
	}
	e.writes = some[:dice.IntN(len(some)+1)]
	if len(e.writes) == 0 {
		return nil
	}
	var ws []transaction.Write
	for _, k := range e.writes {
		ws = append(ws, put(k, e.reads[k]+" "+e.name))
	}
	at, err := x.Decide(ctx, tx, ws, clock.Timestamp{})
	e.asRead = err == nil && at == tx.ReadTimestamp
	return err
}

// check looks for lost updates, for snapshots that are none, and for cycles among the serializable transactions.
func check(t *testing.T, all []*event, final map[string]string) {
	order := map[string][]string{} // of each row
	place := map[string]map[string]int{}
	for k, v := range final {
		order[k], place[k] = strings.Fields(v), map[string]int{}
		for i, name := range order[k] {
			place[k][name] = i
		}
	}
	version := func(k, value string) int {
		fs := strings.Fields(value)
		if len(fs) > len(order[k]) || !slices.Equal(fs, order[k][:len(fs)]) {
			t.Errorf("%s was read as %q, and is %q in the end", k, value, final[k])
			return 0
		}
		return len(fs)
	}
	byName := map[string]*event{}
	for _, e := range all {
		byName[e.name] = e
		for _, k := range e.writes {
			if _, found := place[k][e.name]; !found && !e.unsure {
				t.Errorf("%s has committed, and its write to %s is lost", e.name, k)
			}
		}
	}
	edges := map[string]map[string]bool{}
	edge := func(from, to string) {
		if from != to {
			if edges[from] == nil {
				edges[from] = map[string]bool{}
			}
			edges[from][to] = true
		}
	}
	for _, e := range all {
		for k, v := range e.reads {
			n := version(k, v)
			for _, other := range all {
				// A snapshot has all of a transaction, or nothing.
				if len(other.writes) < 2 || !slices.Contains(other.writes, k) {
					continue
				}
				at, ok := place[k][other.name]
				if !ok || other == e {
					continue
				}
				for _, l := range other.writes {
					if u, read := e.reads[l]; read && (at < n) != (place[l][other.name] < version(l, u)) {
						t.Errorf("%s has read a part of %s: %s and not %s", e.name, other.name, k, l)
					}
				}
			}
			if e.level != kv.Serializable {
				continue
			}
			if n > 0 {
				edge(order[k][n-1], e.name)
			}
			if n < len(order[k]) {
				edge(e.name, order[k][n])
			}
		}
		for _, k := range e.writes {
			if i, ok := place[k][e.name]; ok && i > 0 {
				edge(order[k][i-1], e.name)
			}
		}
	}
	// Transactions at REPEATABLE READ are part of no order but by what they write.
	const open, done = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(string) bool
	visit = func(n string) bool {
		state[n] = open
		path = append(path, n)
		for next := range edges[n] {
			if state[next] == open {
				t.Errorf("a cycle: %v, %s", path[slices.Index(path, next):], next)
				return false
			}
			if state[next] != done && !visit(next) {
				return false
			}
		}
		state[n] = done
		path = path[:len(path)-1]
		return true
	}
	for n := range edges {
		if state[n] == 0 && !visit(n) {
			return
		}
	}
}

// TestDeletedElsewhere: a row that one replica has still, and of which the others know no more than that the base has none, is not read.
func TestDeletedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		now := clock.Timestamp{Wall: time.Now().UnixNano()}
		old := &core.Record{Base: core.Value{At: now, Data: []byte("old")}}
		w.mu.Lock()
		w.acceptors(w.descs[0])[5].Load(keys.Key("k"), old)
		w.mu.Unlock()
		w.bases["k"] = &core.Record{Base: core.Value{At: now.Add(time.Second)}}
		w.bases["l"] = old
		time.Sleep(2 * time.Second)
		g := w.gateway(1, 5)
		x, tx := g.at(kv.RepeatableRead)
		if got, err := g.scan(t.Context(), x, tx, "a", "z"); err != nil || got != "l=old" {
			t.Errorf("scanned %q, %v", got, err)
		}
		stop(g)
	})
}

// TestFewReplicas: without two of five replicas rows are read by their keys at a timestamp, through masters; a scan waits until a third one of the others is back.
func TestFewReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		g := w.gateway(1, 1)
		if err := g.add(t.Context(), "1", "k", "l"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.lose(4, true)
		w.lose(5, true)
		x, tx := g.at(kv.RepeatableRead)
		begun := time.Now()
		vs, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("k"), keys.Key("m")}, txn.ReadOptions{})
		if err != nil || string(vs[0]) != " 1" || vs[1] != nil {
			t.Errorf("read %q, %v", vs, err)
		}
		t.Logf("the read took %s", time.Since(begun))
		// Nothing is written below it, by whichever master.
		early := core.Option{Name: core.Name{Txn: kv.TxnID{1}, At: tx.ReadTimestamp}, Update: core.Update{Value: []byte("x")}, Keys: []keys.Key{keys.Key("m")}}
		if l, err := g.client.rule(t.Context(), keys.Key("m"), early, false); err != nil || l.Verdict != core.Rejected || l.Mark.IsZero() {
			t.Errorf("an option below it: %v, %v, %v", l.Verdict, l.Mark, err)
		}
		time.AfterFunc(5*time.Second, func() { w.lose(4, false) })
		begun = time.Now()
		if got, err := g.scan(t.Context(), x, tx, "a", "z"); err != nil || got != "k= 1 l= 1" {
			t.Errorf("scanned %q, %v", got, err)
		}
		if d := time.Since(begun); d < 4*time.Second || d > 7*time.Second {
			t.Errorf("the scan took %s", d)
		}
		stop(g)
	})
}

// TestMonotonic: at the default level a gateway reads no earlier version of a row than it has read before, though the replica that it had that from is gone and the next one has not heard of it. Scans do not lose such a row either.
func TestMonotonic(t *testing.T) {
	for _, what := range []string{"a change", "a new row", "a deletion"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLab(1)
				a, b := w.gateway(1, 1), w.gateway(1, 2)
				value := func(at clock.Timestamp, s string) *core.Record {
					r := &core.Record{Base: core.Value{At: at}}
					if s != "" {
						r.Base.Data = []byte(s)
					}
					return r
				}
				now := clock.Timestamp{Wall: time.Now().UnixNano()}
				before, after := "old", "new"
				if what == "a new row" {
					before = ""
				} else if what == "a deletion" {
					after = ""
				}
				for r := kv.ReplicaID(1); r <= 5; r++ {
					v := value(now, before)
					if r == 2 || r == 5 {
						v = value(now.Add(time.Millisecond), after) // the others have not heard
					}
					w.mu.Lock()
					w.acceptors(w.descs[0])[r].Load(keys.Key("k"), v)
					w.mu.Unlock()
				}
				read := func(g *gateway) (string, string) {
					x, tx := g.txn()
					all, err := g.scan(t.Context(), x, tx, "a", "z")
					if err != nil {
						t.Fatal(err)
					}
					return g.get(t, "k"), strings.TrimPrefix(all, "k=")
				}
				want := func(who string, g *gateway, want string) {
					t.Helper()
					if one, all := read(g); one != want || all != want {
						t.Errorf("%s has read %q, and scanned %q, want %q", who, one, all, want)
					}
				}
				want("who has seen nothing", a, before)
				want("the gateway next to the first replica", b, after)
				w.lose(2, true)
				want("the same, without that replica", b, after)
				w.lose(2, false)
				time.Sleep(time.Minute)
				stop(a, b)
			})
		})
	}
}
