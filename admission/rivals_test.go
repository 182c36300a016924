package admission_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"meridian/admission"
)

// contest is a table of which every transaction reads all: it loses if another one has committed meanwhile.
type contest struct {
	commits   atomic.Int64
	won, lost atomic.Int64
}

const (
	contestSteps = 20
	contestStep  = 150 * time.Microsecond // of which a third is the client's
)

// transaction runs one; it reports whether it has won. Harmless ones can't lose.
func (c *contest) transaction(ctx context.Context, x *admission.Ticket, harmless bool) bool {
	if enter(ctx, x, admission.Fresh) != nil {
		return false
	}
	saw := c.commits.Load()
	for range contestSteps {
		time.Sleep(contestStep / 3 * 2)
		x.Rest(false)
		time.Sleep(contestStep / 3)
		if enter(ctx, x, admission.Open) != nil {
			return false
		}
	}
	defer x.Rest(true)
	if !harmless && !c.commits.CompareAndSwap(saw, saw+1) {
		c.lost.Add(1)
		x.Lose()
		return false
	}
	c.won.Add(1)
	return true
}

// TestRivals: of transactions of which each pair conflicts, nearly all that is done at once is done in vain. However many
// clients come, as much is won as by one alone, everybody has a part of it, and others notice nothing (admission.AD7).
func TestRivals(t *testing.T) {
	for _, clients := range []int{16, 128, 512} {
		bubble(t, 64, func(t *testing.T, n *node) {
			ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
			defer stop()
			var c contest
			var all sync.WaitGroup
			other := n.calm()
			won := make([]int, clients)
			for i := range clients {
				x := n.NewTicket()
				all.Go(func() {
					defer x.Close()
					for ctx.Err() == nil {
						if c.transaction(ctx, x, false) {
							won[i]++
						}
					}
				})
			}
			var slowest time.Duration
			all.Go(func() { slowest = slowestOf(ctx, other) })
			all.Wait()
			w, l := c.won.Load(), c.lost.Load()
			t.Logf("%d clients: %d won, %d lost, each won %d to %d times", clients, w, l, slices.Min(won), slices.Max(won))
			// Alone 6,600 in twenty seconds. Each has to lose once before anybody knows.
			if w < 5_500 {
				t.Errorf("%d clients won %d times", clients, w)
			}
			if l > w/8+int64(2*clients) {
				t.Errorf("%d clients lost %d times and won %d", clients, l, w)
			}
			if least, most := slices.Min(won), slices.Max(won); least < most/2-4 {
				t.Errorf("one of %d clients has won %d times, another %d", clients, least, most)
			}
			if slowest > 0 {
				t.Errorf("a session that never lost waited for %s", slowest)
			}
			if g := n.Gauges(); g.Rivals != 0 || g.RivalLimit != 16 {
				t.Errorf("%d rivals are left when all have gone, of %d", g.Rivals, g.RivalLimit)
			}
		})
	}
}

// TestRareLosers: sessions that lose now and then are not held back.
func TestRareLosers(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
		defer stop()
		var c contest
		var all sync.WaitGroup
		for i := range 48 {
			x := n.NewTicket()
			all.Go(func() {
				defer x.Close()
				for k := i; ctx.Err() == nil; k++ {
					if k%20 == 0 {
						if enter(ctx, x, admission.Fresh) == nil {
							x.Lose()
							x.Rest(true)
						}
						continue
					}
					c.transaction(ctx, x, true)
				}
			})
		}
		all.Wait()
		// 48 at once, 3 ms each: 32,000.
		if w := c.won.Load(); w < 27_000 {
			t.Errorf("%d won", w)
		}
	})
}

// TestRivalAtLunch: a rival lets its transaction lie. The others do not wait for it for long (admission.AD2).
func TestRivalAtLunch(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		var c contest
		var all sync.WaitGroup
		tickets := make([]*admission.Ticket, 16)
		for i := range tickets {
			tickets[i] = n.NewTicket()
			all.Go(func() {
				for range 100 {
					c.transaction(ctx, tickets[i], false)
				}
			})
		}
		all.Wait()
		if l := n.Gauges().RivalLimit; l > 4 {
			t.Fatalf("the limit is %d", l)
		}
		for range n.Gauges().RivalLimit {
			lunch := tickets[0]
			tickets = tickets[1:]
			if err := enter(ctx, lunch, admission.Fresh); err != nil {
				t.Fatal(err)
			}
			lunch.Rest(false)
		}
		begin := time.Now()
		for _, x := range tickets {
			all.Go(func() { c.transaction(ctx, x, false) })
		}
		all.Wait()
		if d := time.Since(begin); d > 400*time.Millisecond {
			t.Errorf("the others were done after %s", d)
		}
	})
}

// TestCrowdAwaitsNews: transactions that come to their first lock late. The crowd does not grow before some have shown
// whether they wait.
func TestCrowdAwaitsNews(t *testing.T) {
	bubble(t, 64, func(t *testing.T, n *node) {
		var all sync.WaitGroup
		for range 200 {
			x := n.NewTicket()
			all.Go(func() {
				defer x.Close()
				if err := enter(context.Background(), x, admission.Fresh); err != nil {
					t.Error(err)
				}
				time.Sleep(200 * time.Millisecond)
			})
		}
		time.Sleep(190 * time.Millisecond)
		if g := n.Gauges(); g.Crowd != 16 {
			t.Errorf("%d of the crowd are under way", g.Crowd)
		}
		all.Wait()
	})
}
