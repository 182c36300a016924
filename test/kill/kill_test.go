package kill

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/test/process"
	"meridian/workload"
	"meridian/workload/bank"
)

const (
	// gapLimit is the longest time that any ledger may go without a write while one node is dead.
	gapLimit = 5 * time.Second
	// deadFor is how long a node stays dead.
	deadFor = 10 * time.Second
	warmUp  = 3 * time.Second
	// behindFor is how long a replica of a range without a master may be behind after the load has ended: longer than options of a gateway that was killed wait for somebody to finish them.
	behindFor = 30 * time.Second
)

// TestVerifyNotices: verify finds each kind of contradiction.
func TestVerifyNotices(t *testing.T) {
	whole := func() (*ledger, *rows) {
		l := newLedger(nil)
		l.acked[1], l.acked[2], l.failed[3] = true, true, true
		m := func() map[int64]int64 { return map[int64]int64{1: 0, 2: 0, 4: 1} }
		return l, &rows{first: m(), second: m(), counters: map[int64]int64{0: 2, 1: 1, 2: 0}}
	}
	if l, r := whole(); len(l.verify(r)) > 0 {
		t.Error(l.verify(r))
	}
	for name, spoil := range map[string]func(l *ledger, r *rows){
		"lost":            func(l *ledger, r *rows) { delete(r.first, 1); delete(r.second, 1); r.counters[0]-- },
		"half":            func(l *ledger, r *rows) { delete(r.second, 4) },
		"other half":      func(l *ledger, r *rows) { delete(r.first, 4); r.counters[1]-- },
		"failed is there": func(l *ledger, r *rows) { r.first[3], r.second[3] = 2, 2; r.counters[2]++ },
		"lost update":     func(l *ledger, r *rows) { r.counters[0]-- },
	} {
		l, r := whole()
		spoil(l, r)
		if len(l.verify(r)) != 1 {
			t.Errorf("%s: %q", name, l.verify(r))
		}
	}
}

// TestGap: silence of one ledger counts even if others are written.
func TestGap(t *testing.T) {
	l := newLedger(nil)
	t0 := time.Unix(1000, 0)
	for s := range 10 {
		at := t0.Add(time.Duration(s) * time.Second)
		l.done[0] = append(l.done[0], at)
		l.done[1] = append(l.done[1], at)
		if s < 3 || s > 6 {
			l.done[2] = append(l.done[2], at)
		}
	}
	if g := l.gap(t0, t0.Add(9*time.Second)); g != 5*time.Second {
		t.Error(g)
	}
	if g := l.gap(t0.Add(-2*time.Second), t0.Add(2*time.Second)); g != 2*time.Second {
		t.Error(g)
	}
	if g := l.gap(t0, t0.Add(20*time.Second)); g != 11*time.Second {
		t.Error(g)
	}
}

// load is the bank and the ledgers, running.
type load struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	result *workload.Result
	err    error
}

func begin(ctx context.Context, l, f *ledger, b *bank.Bank, urls []string, generation int) *load {
	ctx, stop := context.WithCancel(ctx)
	r := &load{stop: stop}
	r.done.Go(func() { l.run(ctx, generation) })
	r.done.Go(func() { f.run(ctx, generation) })
	r.done.Go(func() {
		r.result, r.err = workload.Run(ctx, b, workload.Options{
			URLs: urls, Concurrency: 3, CheckEvery: time.Second, Seed: uint64(generation), Out: io.Discard,
		})
	})
	return r
}

// end stops the load and reports what the bank found.
func (r *load) end(t *testing.T) {
	r.stop()
	r.done.Wait()
	if r.err != nil {
		t.Errorf("bank: %v", r.err)
	}
	if r.result != nil {
		t.Logf("bank: %d transfers, %d retries, %d unknown, %d errors, %d checks, longest gap %.1f s",
			r.result.Ops, r.result.Retries, r.result.Unknown, r.result.Errors, r.result.Checks, r.result.LongestGap.Seconds())
	}
}

func seed(t *testing.T) *rand.Rand {
	n := uint64(time.Now().UnixNano())
	if s := os.Getenv("MERIDIAN_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n = v
	}
	t.Logf("MERIDIAN_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

func TestKill(t *testing.T) {
	c := start(t)
	dice := seed(t)
	ctx := t.Context()
	urls := c.URLs("postgres")
	l, f, b := newLedger(urls), newLedgerWithoutMaster(urls), bank.New()
	// Small tables share a range at first; transactions are to touch several.
	prepare(t, c, func(ctx context.Context, conn *pgx.Conn) error {
		if err := l.setup(ctx, conn); err != nil {
			return err
		}
		if err := f.setup(ctx, conn); err != nil {
			return err
		}
		return b.Init(ctx, conn)
	}, "ALTER TABLE ledger_0 SPLIT AT VALUES (0)", "ALTER TABLE ledger_1 SPLIT AT VALUES (0)", "ALTER TABLE ledger_2 SPLIT AT VALUES (0)",
		"ALTER TABLE counters SPLIT AT VALUES (3)", "ALTER TABLE bank_accounts SPLIT AT VALUES (50)")
	if s, err := c.Nodes[0].Cluster(ctx); err != nil || s.RangeCount < 6 {
		t.Fatalf("%+v, %v", s, err)
	}

	generation := 0
	t.Run("one", func(t *testing.T) { // each in turn, so the leaseholders are among them
		run := begin(ctx, l, f, b, urls, generation)
		generation++
		time.Sleep(warmUp)
		for _, i := range dice.Perm(len(c.Nodes)) {
			if s, err := c.Nodes[i].Cluster(ctx); err == nil {
				for _, n := range s.Nodes {
					t.Logf("node %d: %d ranges, %d leases", n.ID, n.Ranges, n.Leases)
				}
			}
			acked, _, _ := l.count()
			killed := time.Now()
			c.Nodes[i].Kill()
			time.Sleep(deadFor)
			now, _, _ := l.count()
			gap := l.gap(killed, time.Now())
			t.Logf("node %d killed: %d acknowledged meanwhile, longest gap of a ledger %.1f s", i+1, now-acked, gap.Seconds())
			t.Logf("longest gap of a ledger without a master: %.1f s; the last error: %v", f.gap(killed, time.Now()).Seconds(), f.lastError())
			if gap > gapLimit {
				t.Errorf("a ledger was not written for %.1f s; the last error: %v", gap.Seconds(), l.lastError())
			}
			restart(t, ctx, c, i)
			time.Sleep(warmUp)
		}
		run.end(t)
		check(t, ctx, c, l, f, b)
	})
	t.Run("stop", func(t *testing.T) { // as an operator does
		run := begin(ctx, l, f, b, urls, generation)
		generation++
		time.Sleep(warmUp)
		i := dice.IntN(len(c.Nodes))
		stopped := time.Now()
		limit, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := c.Nodes[i].Stop(limit); err != nil {
			t.Errorf("node %d: %v", i+1, err)
		}
		took := time.Since(stopped)
		time.Sleep(warmUp)
		gap := l.gap(stopped, time.Now())
		t.Logf("node %d stopped in %.1f s, longest gap of a ledger %.1f s", i+1, took.Seconds(), gap.Seconds())
		if gap > gapLimit {
			t.Errorf("a ledger was not written for %.1f s; the last error: %v", gap.Seconds(), l.lastError())
		}
		restart(t, ctx, c, i)
		run.end(t)
		check(t, ctx, c, l, f, b)
	})
	for range 2 {
		t.Run("all", func(t *testing.T) {
			run := begin(ctx, l, f, b, urls, generation)
			generation++
			time.Sleep(warmUp + time.Duration(dice.Int64N(int64(time.Second))))
			c.KillAll()
			acked, failed, tried := l.count()
			t.Logf("all killed: %d tried, %d acknowledged, %d failed", tried, acked, failed)
			for _, i := range dice.Perm(len(c.Nodes)) {
				if err := c.Nodes[i].Start(); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			limit, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for _, n := range c.Nodes {
				if err := n.WaitSQL(limit); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("all answer again after %.1f s", time.Since(begun).Seconds())
			time.Sleep(warmUp)
			if now, _, _ := l.count(); now == acked {
				t.Errorf("nothing is written after the restart; the last error: %v", l.lastError())
			}
			run.end(t)
			check(t, ctx, c, l, f, b)
		})
	}
}

// restart starts a node and waits until it serves and the cluster is whole.
func restart(t *testing.T, ctx context.Context, c *process.Cluster, i int) {
	t.Helper()
	begun := time.Now()
	if err := c.Nodes[i].Start(); err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := c.Nodes[i].WaitSQL(limit); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReplicated(limit, 3); err != nil {
		t.Fatal(err)
	}
	t.Logf("node %d serves again after %.1f s", i+1, time.Since(begun).Seconds())
}

// check verifies ledgers and bank through every node.
func check(t *testing.T, ctx context.Context, c *process.Cluster, l, f *ledger, b *bank.Bank) {
	t.Helper()
	limit, cancel := context.WithTimeout(ctx, time.Minute+3*behindFor)
	defer cancel()
	if died := c.Died(); len(died) > 0 {
		t.Errorf("nodes %v ended by themselves", died)
	}
	for i, n := range c.Nodes {
		conn, err := pgx.Connect(limit, n.URL("postgres"))
		if err != nil {
			t.Errorf("node %d: %v", i+1, err)
			continue
		}
		var r *rows
		for range 10 {
			if r, err = l.read(limit, conn); err == nil || !workload.Retryable(err) {
				break
			}
		}
		if err != nil {
			t.Errorf("node %d: %v", i+1, err)
		} else if wrong := l.verify(r); len(wrong) > 0 {
			t.Errorf("node %d: %d contradictions: %q ...", i+1, len(wrong), wrong[:min(len(wrong), 10)])
		} else if i == 0 {
			acked, failed, tried := l.count()
			t.Logf("%d pairs are there: %d tried, %d acknowledged, %d failed", len(r.first), tried, acked, failed)
		}
		if err := b.Check(limit, conn); err != nil {
			t.Errorf("node %d: bank: %v", i+1, err)
		}
		// Each node reads at its own replica, which others bring up to date (fastpaxos.FP26).
		var wrong []string
		for until := time.Now().Add(behindFor); ; {
			if r, err = f.read(limit, conn); err == nil {
				wrong = f.verify(r)
			}
			if err == nil && len(wrong) == 0 || time.Now().After(until) {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("node %d, without a master: %v", i+1, err)
		} else if len(wrong) > 0 {
			t.Errorf("node %d, without a master: %d contradictions: %q ...", i+1, len(wrong), wrong[:min(len(wrong), 10)])
		} else if i == 0 {
			acked, failed, tried := f.count()
			t.Logf("%d pairs are there without a master: %d tried, %d acknowledged, %d failed", len(r.first), tried, acked, failed)
		}
		conn.Close(limit)
	}
}
