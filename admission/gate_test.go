package admission_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/admission"
	"meridian/host"
	"meridian/sim"
)

// node is a gate and what it stands on, within a bubble.
type node struct {
	*admission.Gate
	h *host.Host
	// late and busy are what the gate is told of the processors.
	late atomic.Int64
	busy atomic.Bool
}

func newNode(slots int) *node {
	n := &node{h: sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})}
	n.Gate = admission.New(admission.Options{Host: n.h, Slots: slots, Load: func() admission.Load {
		l := admission.Load{Late: time.Duration(n.late.Load()), Idle: 1}
		if n.busy.Load() {
			l.Idle = 0
		}
		return l
	}})
	return n
}

// bubble runs f in virtual time.
func bubble(t *testing.T, slots int, f func(t *testing.T, n *node)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(slots)
		defer n.h.Group.Stop()
		f(t, n)
	})
}

// calm makes a session that has shown that it waits for no locks.
func (n *node) calm() *admission.Ticket {
	t := n.NewTicket()
	for range 8 {
		if !t.TryEnter(admission.Fresh) {
			panic("the gate is not idle")
		}
		t.Rest(true)
	}
	return t
}

// calms makes several.
func (n *node) calms(k int) (all []*admission.Ticket) {
	for range k {
		all = append(all, n.calm())
	}
	return all
}

// enter admits a statement, waiting if it must.
func enter(ctx context.Context, t *admission.Ticket, c admission.Class) error {
	if t.TryEnter(c) {
		return nil
	}
	return t.Enter(ctx, c)
}

func (n *node) check(t *testing.T, running, open, fresh, crowd int) {
	t.Helper()
	g := n.Gauges()
	if got, want := fmt.Sprint(g.Running, g.Open, g.Fresh, g.CrowdQueued), fmt.Sprint(running, open, fresh, crowd); got != want {
		t.Fatalf("running, open, fresh, crowd: %s, want %s", got, want)
	}
}

// log is the order in which things happened.
type log struct {
	mu  sync.Mutex
	all []string
}

func (l *log) add(s string) {
	l.mu.Lock()
	l.all = append(l.all, s)
	l.mu.Unlock()
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, " ")
}

// TestOrder: those with an open transaction go first, others in the order in which they came, and one admission in eight is
// for sessions that begin (admission.AD3).
func TestOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, n *node) {
		n.busy.Store(true) // the limits stay as they are
		var order log
		first, others := n.calm(), n.calms(13)
		if !first.TryEnter(admission.Fresh) {
			t.Fatal("an idle gate is closed")
		}
		var all sync.WaitGroup
		queue := func(name string, c admission.Class) {
			x := others[0]
			others = others[1:]
			all.Go(func() {
				if err := enter(context.Background(), x, c); err != nil {
					t.Error(err)
				}
				order.add(name)
				x.Rest(true)
			})
			synctest.Wait()
		}
		for i := range 3 {
			queue(fmt.Sprint("f", i), admission.Fresh)
		}
		for i := range 10 {
			queue(fmt.Sprint("o", i), admission.Open)
		}
		n.check(t, 1, 10, 3, 0)
		first.Rest(true)
		all.Wait()
		want := "o0 o1 o2 o3 o4 o5 o6 f0 o7 o8 o9 f1 f2"
		if got := order.String(); got != want {
			t.Errorf("admitted in the order %s, want %s", got, want)
		}
		n.check(t, 0, 0, 0, 0)
	})
}

// TestGreedy: a session that asks again at once, without a pause, gets no more than those whose clients think in between
// lose by that: it waits for its turn each time, behind all that have come before (admission.AD3).
func TestGreedy(t *testing.T) {
	bubble(t, 2, func(t *testing.T, n *node) {
		n.busy.Store(true)
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		const sessions, work, think = 100, time.Millisecond, 5 * time.Millisecond
		counts := make([]int, sessions)
		var all sync.WaitGroup
		for i, x := range n.calms(sessions) {
			all.Go(func() {
				defer x.Close()
				for ctx.Err() == nil && enter(ctx, x, admission.Fresh) == nil {
					counts[i]++
					time.Sleep(work)
					x.Rest(true)
					if i > 0 {
						time.Sleep(think)
					}
				}
			})
		}
		all.Wait()
		// 2,000 a second for a hundred: a turn takes 50 ms, of which others think for five.
		for i, c := range counts[1:] {
			if c*100 < counts[0]*85 || c == 0 {
				t.Errorf("session %d was admitted %d times, the greedy one %d times", i+1, c, counts[0])
			}
		}
	})
}

// TestHolderNeverQueues: the gate is full of statements that wait for a lock; its holder, which has rested for so long that
// its place is gone, is admitted at once (admission.AD1).
func TestHolderNeverQueues(t *testing.T) {
	bubble(t, 2, func(t *testing.T, n *node) {
		n.late.Store(int64(time.Hour)) // nothing grows
		ctx := context.Background()
		holder, others := n.calm(), n.calms(20)
		if !holder.TryEnter(admission.Fresh) {
			t.Fatal("an idle gate is closed")
		}
		holder.Rest(false)
		var lock sync.WaitGroup // the rows that the holder has locked
		lock.Add(1)
		var all sync.WaitGroup
		for _, x := range others {
			all.Go(func() {
				if err := enter(ctx, x, admission.Fresh); err != nil {
					t.Error(err)
				}
				lock.Wait()
				x.Rest(true)
			})
		}
		synctest.Wait()
		n.check(t, 2, 0, 19, 0)
		time.Sleep(400 * time.Millisecond) // its place is swept away, and somebody else has it
		begin := time.Now()
		if !holder.TryEnter(admission.Holder) {
			t.Fatal("a holder has to queue")
		}
		holder.Rest(false)
		if err := enter(ctx, holder, admission.Holder); err != nil || time.Since(begin) > 0 {
			t.Errorf("a holder waited for %s: %v", time.Since(begin), err)
		}
		lock.Done()
		holder.Rest(true)
		all.Wait()
		n.check(t, 0, 0, 0, 0)
	})
}

// TestBlockedGivesItsPlace: a statement that waits for a lock has no place meanwhile, and has one at once afterwards.
func TestBlockedGivesItsPlace(t *testing.T) {
	bubble(t, 1, func(t *testing.T, n *node) {
		a, b := n.calm(), n.calm()
		if !a.TryEnter(admission.Fresh) || b.TryEnter(admission.Fresh) {
			t.Fatal("the limit is not one")
		}
		done := make(chan error)
		go func() { done <- b.Enter(context.Background(), admission.Fresh) }()
		synctest.Wait()
		n.check(t, 1, 0, 1, 0)
		p := admission.Block(admission.NewContext(context.Background(), a), 1)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		n.check(t, 1, 0, 0, 0)
		p.Resume()
		n.check(t, 2, 0, 0, 0)
		admission.Block(context.Background(), 1).Resume() // somebody without a session
		n.check(t, 2, 0, 0, 0)
		a.Rest(true)
		b.Rest(true)
		n.check(t, 0, 0, 0, 0)
	})
}

// TestCancel: whoever is cancelled leaves the queue at once, and takes no place with it (admission.AD4).
func TestCancel(t *testing.T) {
	bubble(t, 1, func(t *testing.T, n *node) {
		n.late.Store(int64(time.Hour))
		a, others := n.calm(), n.calms(50)
		if !a.TryEnter(admission.Fresh) {
			t.Fatal("an idle gate is closed")
		}
		var all sync.WaitGroup
		var cancelled, admitted atomic.Int64
		for i, x := range others {
			ctx, cancel := context.WithCancel(context.Background())
			if i%2 == 0 {
				time.AfterFunc(time.Duration(i+1)*100*time.Microsecond, cancel)
			}
			all.Go(func() {
				defer cancel()
				begin := time.Now()
				switch err := enter(ctx, x, admission.Fresh); {
				case err == nil:
					admitted.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				case time.Since(begin) != time.Duration(i+1)*100*time.Microsecond:
					t.Errorf("the cancelled one left after %s", time.Since(begin))
				default:
					cancelled.Add(1)
				}
				x.Close()
			})
		}
		synctest.Wait()
		n.check(t, 1, 0, 50, 0)
		time.Sleep(10 * time.Millisecond)
		n.check(t, 1, 0, 25, 0)
		a.Rest(true)
		all.Wait()
		n.check(t, 0, 0, 0, 0)
		if cancelled.Load() != 25 || admitted.Load() != 25 || n.Metrics.Cancelled.Load() != 25 {
			t.Errorf("%d cancelled, %d admitted, %d counted", cancelled.Load(), admitted.Load(), n.Metrics.Cancelled.Load())
		}
	})
}

// TestWaitersForOthers: a thousand sessions that wait for something else than this node's processors, each for ten seconds,
// are all admitted within a fraction of a second (admission.AD2), and the limit is as before when they are gone.
func TestWaitersForOthers(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		var all sync.WaitGroup
		begin := time.Now()
		for _, x := range n.calms(1000) {
			all.Go(func() {
				if err := enter(context.Background(), x, admission.Fresh); err != nil {
					t.Error(err)
				}
				if d := time.Since(begin); d > 200*time.Millisecond {
					t.Errorf("admitted after %s", d)
				}
				time.Sleep(10 * time.Second)
				x.Rest(true)
			})
		}
		all.Wait()
		time.Sleep(5 * time.Second)
		if g := n.Gauges(); g.Limit != 64 || g.Running != 0 {
			t.Errorf("afterwards %d run of %d", g.Running, g.Limit)
		}
	})
}

// TestLateProcessors: while processors are late the limit goes down to its bound, and a thousand sessions are admitted in the
// order in which they came, as fast as the node can: each waits about as long as the others.
func TestLateProcessors(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		n.late.Store(int64(10 * time.Millisecond))
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		var all sync.WaitGroup
		var served, most atomic.Int64
		for _, x := range n.calms(1000) {
			all.Go(func() {
				defer x.Close()
				for ctx.Err() == nil {
					begin := time.Now()
					if enter(ctx, x, admission.Fresh) != nil {
						return
					}
					if time.Since(begin) > time.Duration(most.Load()) {
						most.Store(int64(time.Since(begin)))
					}
					time.Sleep(10 * time.Millisecond)
					served.Add(1)
					x.Rest(true)
				}
			})
		}
		time.Sleep(5 * time.Second)
		if g := n.Gauges(); g.Limit != 32 {
			t.Errorf("the limit is %d, want 32", g.Limit)
		}
		<-ctx.Done()
		all.Wait()
		// 32 places, ten milliseconds each: 3,200 a second, and a thousand sessions wait for 310 ms.
		if n := served.Load(); n < 31_000 {
			t.Errorf("%d were served", n)
		}
		if d := time.Duration(most.Load()); d > 350*time.Millisecond {
			t.Errorf("one waited for %s", d)
		}
	})
}

// hotRow is a lock that its waiters get in turn, and what they pay for each other: the more wait, the dearer.
type hotRow struct {
	hash   uint64
	away   bool       // it is at another node, which says afterwards for how long one has waited
	mu     sync.Mutex // guards the fields below
	held   bool
	queue  []chan struct{}
	longed int // most that waited at once
}

func (r *hotRow) lock(ctx context.Context) {
	r.mu.Lock()
	if !r.held {
		r.held = true
		r.mu.Unlock()
		return
	}
	c := make(chan struct{})
	r.queue = append(r.queue, c)
	r.longed = max(r.longed, len(r.queue))
	r.mu.Unlock()
	if r.away {
		begin := time.Now()
		<-c
		admission.Waited(ctx, time.Since(begin))
		return
	}
	p := admission.Block(ctx, r.hash)
	<-c
	p.Resume()
}

func (r *hotRow) unlock() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.held = false
		return
	}
	close(r.queue[0])
	r.queue = r.queue[1:]
}

// slowestOf is the longest wait of a session that begins a transaction every 7 ms, until the context ends.
func slowestOf(ctx context.Context, x *admission.Ticket) (slowest time.Duration) {
	for ctx.Err() == nil {
		begin := time.Now()
		if enter(ctx, x, admission.Fresh) == nil {
			slowest = max(slowest, time.Since(begin))
			x.Rest(true)
		}
		time.Sleep(7 * time.Millisecond)
	}
	return slowest
}

// TestCrowd: a thousand sessions want one row. Few of them are under way at once, so that the queue at the row stays short,
// the row is never idle, and sessions that want something else notice nothing. So it is if the row is at another node.
func TestCrowd(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprint("away=", away), func(t *testing.T) { testCrowd(t, away) })
	}
}

func testCrowd(t *testing.T, away bool) {
	bubble(t, 64, func(t *testing.T, n *node) {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		row := hotRow{away: away}
		var all sync.WaitGroup
		var served atomic.Int64
		other := n.calm()
		for range 1000 {
			x := n.NewTicket()
			all.Go(func() {
				defer x.Close()
				tctx := admission.NewContext(ctx, x)
				for ctx.Err() == nil && enter(ctx, x, admission.Fresh) == nil {
					row.lock(tctx)
					time.Sleep(time.Millisecond)
					x.Rest(false) // the client's turn
					time.Sleep(100 * time.Microsecond)
					if err := enter(ctx, x, admission.Holder); err != nil {
						t.Error(err)
					}
					row.unlock()
					served.Add(1)
					x.Rest(true)
				}
			})
		}
		var slowest time.Duration
		all.Go(func() { slowest = slowestOf(ctx, other) })
		all.Wait()
		// 1.1 ms each: 9,090 in ten seconds.
		if n := served.Load(); n < 8_900 {
			t.Errorf("%d were served", n)
		}
		if row.longed > 40 {
			t.Errorf("%d waited at the row at once", row.longed)
		}
		if slowest > 0 {
			t.Errorf("a session that wants another row waited for %s", slowest)
		}
	})
}

// TestSlowRow: a row whose transactions take long, so that the crowd at it waits for longer than a lock may stand still.
// It moves, so no more of its clients are let in: those would only make the others' waits longer, and more of them be let in.
// Somebody who is at lunch with another row keeps nobody out meanwhile, and the row's clients go on.
func TestSlowRow(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
		defer stop()
		row, lunch := hotRow{hash: 1}, hotRow{hash: 2}
		lunch.lock(ctx)
		var all sync.WaitGroup
		var served atomic.Int64
		for i := range 300 {
			x := n.NewTicket()
			all.Go(func() {
				defer x.Close()
				tctx := admission.NewContext(ctx, x)
				if i%10 == 9 {
					if enter(ctx, x, admission.Fresh) == nil {
						lunch.lock(tctx)
						lunch.unlock()
					}
					return
				}
				for ctx.Err() == nil && enter(ctx, x, admission.Fresh) == nil {
					row.lock(tctx)
					time.Sleep(50 * time.Millisecond)
					row.unlock()
					served.Add(1)
					x.Rest(true)
				}
			})
		}
		<-ctx.Done()
		lunch.unlock()
		all.Wait()
		if row.longed > 40 {
			t.Errorf("%d waited at the row at once", row.longed)
		}
		if s := served.Load(); s < 390 {
			t.Errorf("%d were served, of 400 that the row allows", s)
		}
	})
}

// TestPreparingShowsNothing: a session that has only prepared statements is as unknown as a new one.
func TestPreparingShowsNothing(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		for range 100 {
			x := n.NewTicket()
			for range 8 {
				if !x.TryEnter(admission.Prepare) {
					t.Fatal("an idle gate is closed")
				}
				x.Rest(true)
			}
			x.TryEnter(admission.Fresh)
		}
		if g := n.Gauges(); g.Crowd != 16 || g.Running != 16 {
			t.Errorf("%d of the crowd are inside, %d in all", g.Crowd, g.Running)
		}
	})
}

// TestStalledHolder: the holder of a row goes to lunch. Those of the crowd that want other rows do not wait for it.
func TestStalledHolder(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		ctx, stop := context.WithTimeout(context.Background(), time.Hour)
		defer stop()
		var row hotRow
		row.lock(ctx) // for lunch
		var all sync.WaitGroup
		for range 500 {
			x := n.NewTicket()
			all.Go(func() {
				if err := enter(ctx, x, admission.Fresh); err != nil {
					t.Error(err)
				}
				row.lock(admission.NewContext(ctx, x))
				row.unlock()
				x.Close()
			})
		}
		synctest.Wait()
		x := n.NewTicket() // one more of the crowd, which wants another row
		begin := time.Now()
		if err := enter(ctx, x, admission.Fresh); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("it waited for %s", d)
		}
		x.Rest(true)
		time.Sleep(time.Second)
		if g := n.Gauges(); g.Crowd > 16 {
			t.Errorf("%d of those who wait for the one at lunch keep others out", g.Crowd)
		}
		begin = time.Now()
		for range 20 {
			if err := enter(ctx, x, admission.Fresh); err != nil {
				t.Fatal(err)
			}
			x.Rest(true)
		}
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Errorf("once they all wait at the row, it waited for %s", d)
		}
		row.unlock()
		all.Wait()
	})
}

// TestIdleInTransaction: sessions whose clients are silent in the middle of a transaction lose their places when others queue,
// and have them again when the clients go on.
func TestIdleInTransaction(t *testing.T) {
	bubble(t, 20, func(t *testing.T, n *node) {
		n.busy.Store(true)
		silent, x := n.calms(20), n.calm()
		for _, s := range silent {
			if !s.TryEnter(admission.Fresh) {
				t.Fatal("the gate is full")
			}
			s.Rest(false)
		}
		if err := enter(context.Background(), x, admission.Fresh); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		n.check(t, 1, 0, 0, 0)
		for _, s := range silent[:10] {
			if err := enter(context.Background(), s, admission.Open); err != nil {
				t.Fatal(err)
			}
		}
		n.check(t, 11, 0, 0, 0)
	})
}

// TestYield: elastic work waits while clients queue, but for no longer than a second for each piece, and not at all else
// (admission.AD6).
func TestYield(t *testing.T) {
	bubble(t, 1, func(t *testing.T, n *node) {
		ctx := context.Background()
		piece := func() time.Duration {
			begin := time.Now()
			if err := n.Yield(ctx); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		if d := piece(); d != 0 {
			t.Errorf("on an idle node a piece waited for %s", d)
		}
		n.late.Store(int64(10 * time.Millisecond))
		time.Sleep(time.Second)
		if d := piece(); d != time.Second {
			t.Errorf("while processors are late a piece waited for %s", d)
		}
		n.late.Store(0)
		n.busy.Store(true)
		a, b := n.calm(), n.calm()
		if !a.TryEnter(admission.Fresh) {
			t.Fatal("an idle gate is closed")
		}
		defer a.Rest(true)
		go func() { enter(ctx, b, admission.Fresh) }()
		synctest.Wait()
		n.check(t, 1, 0, 1, 0)
		limit, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		if err := n.Yield(limit); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a cancelled piece: %v", err)
		}
	})
}

// TestOff: an operator turns admission off: those that queue go on at once, and nobody queues.
func TestOff(t *testing.T) {
	bubble(t, 1, func(t *testing.T, n *node) {
		n.late.Store(int64(time.Hour))
		a, others := n.calm(), n.calms(10)
		a.TryEnter(admission.Fresh)
		var all sync.WaitGroup
		for _, x := range others {
			all.Go(func() {
				if err := enter(context.Background(), x, admission.Fresh); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		n.check(t, 1, 0, 10, 0)
		begin := time.Now()
		n.SetEnabled(false)
		all.Wait()
		if d := time.Since(begin); d != 0 {
			t.Errorf("they waited for %s", d)
		}
		n.check(t, 11, 0, 0, 0)
	})
}

// BenchmarkEnter is what a statement pays while there is room.
func BenchmarkEnter(b *testing.B) {
	n := newNode(64)
	defer n.h.Group.Stop()
	x := n.calm()
	b.ReportAllocs()
	for b.Loop() {
		x.TryEnter(admission.Fresh)
		x.Rest(true)
	}
}

// brisk makes a session whose transactions have been short while others queued.
func (n *node) brisk(ctx context.Context) *admission.Ticket {
	x, other := n.calm(), n.calm()
	for range 8 {
		if !other.TryEnter(admission.Fresh) {
			panic("the gate is not idle")
		}
		var done sync.WaitGroup
		done.Go(func() {
			if enter(ctx, x, admission.Fresh) == nil {
				x.Rest(true)
			}
		})
		synctest.Wait()
		other.Rest(true)
		done.Wait()
	}
	return x
}

// lateContext is the context of a session that gets a processor late: it comes to see that it is admitted after a while.
type lateContext struct {
	context.Context
	after time.Duration
}

func (c lateContext) Done() <-chan struct{} {
	time.Sleep(c.after)
	return nil
}

// TestBrisk: while one that was admitted from the queue waits for a processor, a session whose transactions are short passes those
// that queue: once in a tick, until one was long, and not when the places' owners run (admission.AD8).
func TestBrisk(t *testing.T) {
	bubble(t, 1, func(t *testing.T, n *node) {
		n.busy.Store(true)
		ctx := context.Background()
		time.Sleep(time.Second)
		brisk, second, calm := n.brisk(ctx), n.brisk(ctx), n.calm()
		first, queuers := n.calm(), n.calms(2)
		try := func(what string, x *admission.Ticket, want bool) {
			t.Helper()
			if got := x.TryEnter(admission.Fresh); got != want {
				t.Fatalf("%s: admitted %t, want %t", what, got, want)
			}
		}
		var all sync.WaitGroup
		var order log
		queue := func(name string, ctx context.Context) {
			x := queuers[0]
			queuers = queuers[1:]
			all.Go(func() {
				if err := enter(ctx, x, admission.Fresh); err != nil {
					t.Error(err)
				}
				order.add(name)
				time.Sleep(50 * time.Millisecond)
				x.Rest(true)
			})
		}
		try("an idle gate", first, true)
		queue("late", lateContext{ctx, 200 * time.Millisecond})
		synctest.Wait()
		queue("next", ctx)
		time.Sleep(25 * time.Millisecond) // a tick
		try("a full gate", brisk, false)
		first.Rest(true)
		n.check(t, 1, 0, 1, 0)
		try("one that is not brisk", calm, false)
		try("a brisk one", brisk, true)
		try("two for one place", second, false)
		brisk.Rest(true)
		try("twice in a tick", brisk, false)
		time.Sleep(25 * time.Millisecond)
		try("in the next tick", brisk, true)
		time.Sleep(10 * time.Millisecond)
		brisk.Rest(true)
		time.Sleep(25 * time.Millisecond)
		try("after a long one", brisk, false)
		time.Sleep(150 * time.Millisecond)
		n.check(t, 1, 0, 1, 0)
		try("the place's owner runs", second, false)
		all.Wait()
		if got := order.String(); got != "late next" {
			t.Errorf("admitted in the order %s", got)
		}
	})
}
