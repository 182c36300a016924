package truetime

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"meridian/clock"
)

// States of a master after the last question.
const (
	NotAsked = "not asked"
	Agrees   = "agrees"
	Lies     = "lies"
	Disputed = "disputed" // it answered, and no majority agreed
	Silent   = "silent"
	Evicted  = "evicted"
)

// Master is what a node knows of one of its time masters.
type Master struct {
	Addr  string
	State string
	// Near masters are asked in each poll.
	Near bool
	// Offset is how far the middle of its interval was ahead of the middle of the result, Delay the round trip, Distance the bound that it gave
	// on its own error. They are those of the last answer.
	Offset, Delay, Distance time.Duration
	// Asked is the wall time of the last question; zero: none.
	Asked time.Time
	// Err says why there was no answer.
	Err error

	answered bool
}

// Answered reports whether the master has answered once, so that Delay and Distance are known.
func (m *Master) Answered() bool { return m.answered }

type master struct {
	Master
	warned bool // of a leap second
}

// List returns what is known of the masters, in the order in which they were named.
func (d *Daemon) List() []Master {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Master, len(d.masters))
	for i := range d.masters {
		out[i] = d.masters[i].Master
	}
	return out
}

// choose says which masters are asked: all, or the nearest and one of the others, in turn.
func (d *Daemon) choose(all bool) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	order := make([]int, len(d.masters))
	for i := range order {
		order[i] = i
		all = all || d.masters[i].State == NotAsked
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &d.masters[a], &d.masters[b]
		if x.answered != y.answered {
			if x.answered {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Delay, y.Delay)
	})
	near := min(d.o.Near, max(len(order)-1, 1)) // one at least is far
	for k, i := range order {
		d.masters[i].Near = k < near
	}
	far := order[near:]
	if all || len(far) <= 1 {
		return order
	}
	d.turn++
	return append(slices.Clone(order[:near]), far[d.turn%len(far)])
}

// poll asks masters, and gives the interval in which true time is by a majority of them, when the monotonic clock showed at.
func (d *Daemon) poll(ctx context.Context, all bool) (at time.Duration, truth clock.Interval, err error) {
	asked := d.choose(all)
	o := d.o
	if d.begun() {
		o.Timeout = min(o.Timeout, max(d.left()-soon, soon)) // while it waits, the node could become too unsure (truetime.TT4)
	}
	answers, errs := askAll(ctx, o, d.addresses(asked))
	at = d.o.Host.Clock.Monotonic()
	if ctx.Err() != nil {
		return at, truth, ctx.Err()
	}
	var of []clock.Interval
	var who []int // indices of asked
	for k := range asked {
		if errs[k] == nil {
			of, who = append(of, answers[k].truth.Later(at-answers[k].at)), append(who, k)
		}
	}
	truth, agree, ok := clock.Marzullo(of)
	agreed := 0
	for _, a := range agree {
		if a {
			agreed++
		}
	}
	enough := ok && (agreed > 1 || len(d.o.Masters) < 3) // truetime.TT1
	failed := &MastersError{Answered: len(of), Agreed: agreed, Of: len(asked)}

	now := d.o.Host.Clock.Now()
	if wall, ok := d.wall(truth, enough); ok {
		now = wall
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, i := range asked {
		m := &d.masters[i]
		m.Asked, m.Err = now, errs[k]
		switch {
		case errors.Is(m.Err, errEvicted):
			d.become(m, Evicted)
			d.stats.Evicted++
		case m.Err != nil:
			d.become(m, Silent)
			d.stats.Silent++
		}
	}
	for n, k := range who {
		m, a := &d.masters[asked[k]], &answers[k]
		m.answered, m.Delay, m.Distance = true, a.delay, a.distance
		if a.leaps && !m.warned {
			d.o.Host.Log.Warn("a time master announces a leap second, so it does not smear: it will be off by a second until the others follow", "master", m.Addr)
		}
		m.warned = a.leaps
		switch {
		case !enough:
			d.become(m, Disputed)
			continue
		case agree[n]:
			d.become(m, Agrees)
		default:
			d.become(m, Lies)
			d.stats.Rejected++
		}
		m.Offset = time.Duration(middle(of[n]) - middle(truth))
	}
	if !enough {
		for _, i := range asked {
			failed.Masters = append(failed.Masters, d.masters[i].Master)
		}
		return at, truth, failed
	}
	return at, truth, nil
}

// wall is the time of a poll, as the node's clock will show it.
func (d *Daemon) wall(truth clock.Interval, enough bool) (time.Time, bool) {
	if enough {
		return time.Unix(0, middle(truth)), true
	}
	if !d.begun() {
		return time.Time{}, false
	}
	now, _ := d.kept.Read()
	return time.Unix(0, now), true
}

// begun reports whether a poll has counted yet.
func (d *Daemon) begun() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats.Polls > 0
}

func middle(i clock.Interval) int64 { return i.Earliest.Wall + (i.Latest.Wall-i.Earliest.Wall)/2 }

// become notes a master's state, and logs a change that somebody should look at. The caller holds d.mu.
func (d *Daemon) become(m *master, state string) {
	if m.State == state {
		return
	}
	bad := state == Lies || state == Silent || state == Evicted
	switch {
	case bad:
		d.o.Host.Log.Warn("a time master does not count", "master", m.Addr, "state", state, "error", m.Err)
	case state == Agrees && m.State != NotAsked:
		d.o.Host.Log.Info("a time master agrees again", "master", m.Addr)
	}
	m.State = state
}

func (d *Daemon) addresses(asked []int) (out []string) {
	for _, i := range asked {
		out = append(out, d.o.Masters[i])
	}
	return out
}

// askAll asks several masters at the same time.
func askAll(ctx context.Context, o Options, addrs []string) ([]answer, []error) {
	answers, errs := make([]answer, len(addrs)), make([]error, len(addrs))
	type result struct {
		k   int
		a   answer
		err error
	}
	results := make(chan result, len(addrs))
	for k, addr := range addrs {
		if !o.Host.Group.Go(func(context.Context) {
			a, err := ask(ctx, o.Host, addr, o.Timeout)
			results <- result{k, a, err}
		}) {
			results <- result{k: k, err: context.Canceled}
		}
	}
	for range addrs {
		r := <-results
		answers[r.k], errs[r.k] = r.a, r.err
	}
	return answers, errs
}
