package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// The visibility messages of a gateway's transactions (§3.2.1). Nobody waits for them. So they travel with the next
// proposals to the same ranges, whose sync of the disk is theirs too, or by themselves after a few milliseconds, those of several transactions together.
//
//	fastpaxos.FP70 (I2): Ends that travel with proposals count as told where the answer to them was heard, also if it comes when the proposals are decided. Those that a quorum has
//	    not answered are told again by themselves.
//	fastpaxos.FP71 (I2): An acceptor is told to forget an outcome without what was decided (Forget) only when all acceptors of the transaction's records have
//	    answered its end. Otherwise it is told the end once more, without keys, and so learns it if it had not. When a gateway has done neither, another one does it minutes later: then the
//	    outcome is known at quorums, since a master has told them, and others that had accepted an option have asked for it (mendOutcome, fastpaxos.FP26).
//	fastpaxos.FP72 (read your writes): A replica that a gateway reads a row from is shown the commuting updates of the row that the gateway has committed, in the same message, unless all replicas
//	    have been told, or one was shown them. The outcome that is shown need not be durable, nor written, and the answer to it is none to the end: the end makes it durable where that is needed.

// announcer tells replicas of the ends of a gateway's transactions.
type announcer struct {
	*caller
	written *written

	mu sync.Mutex // guards the fields below; nothing is taken after it
	// ends are to be told at announceAt, by the host's monotonic clock, zero if there are none; announced is when some were told last.
	ends                  []*ending
	announceAt, announced time.Duration
}

// ending is a transaction whose end the replicas are to be told, or, if closes, that all of them have been (fastpaxos.FP6).
type ending struct {
	qs                []*core.Request
	committed, closes bool
	// due is when it is told at the latest, from when it may travel with others, by the host's monotonic clock.
	due, from time.Duration
	// tries counts how often all replicas have been told, but some have not answered.
	tries int
}

const (
	// announceGap is the least time between two messages with ends to the same replicas; those between wait for the next one.
	announceGap = 2 * time.Millisecond
	// ridesWithin is how long ends wait for proposals to travel with.
	ridesWithin = 5 * time.Millisecond
	// ridersMost bounds the messages that travel with a transaction's proposals.
	ridersMost = 128
	// closeWithin is how long nobody need know that a transaction need not be remembered.
	closeWithin = 250 * time.Millisecond
)

// againAfter is the pause after which replicas that have not answered are told again.
func againAfter(tries int) (pause time.Duration, more bool) {
	switch tries {
	case 0:
		return roundTime, true
	case 1:
		return 4 * roundTime, true
	}
	return 0, false
}

// announce has an end told soon, or, if some replicas have been told in vain, again by then.
func (c *announcer) announce(e *ending, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.due = c.o.Host.Clock.Monotonic() + within
	if e.tries > 0 {
		e.from = e.due
	}
	c.ends = append(c.ends, e)
	c.announceBy(e.due)
}

// announceBy has what has gathered told by then.
func (c *announcer) announceBy(due time.Duration) {
	now := c.o.Host.Clock.Monotonic()
	at := max(now, due, c.announced+announceGap)
	if c.announceAt != 0 && c.announceAt <= at {
		return
	}
	c.announceAt = at
	if !c.o.Host.Group.Go(func(ctx context.Context) { c.announceIn(ctx, at, at-now) }) {
		c.announceAt, c.ends = 0, nil // the node is stopping; others finish what was not told
	}
}

// announceIn tells what has gathered when it is time, unless that was done before.
func (c *announcer) announceIn(ctx context.Context, at, wait time.Duration) {
	if wait > 0 && c.o.Host.Clock.Sleep(ctx, wait) != nil {
		return
	}
	c.mu.Lock()
	if c.announceAt != at {
		c.mu.Unlock()
		return
	}
	c.announceAt = 0
	now := c.o.Host.Clock.Monotonic()
	es := c.gathered(now, func(*ending) bool { return true })
	if len(es) > 0 { // else they have travelled with proposals
		c.announced = now
	}
	if len(c.ends) > 0 {
		next := c.ends[0].due
		for _, e := range c.ends {
			next = min(next, e.due)
		}
		c.announceBy(next)
	}
	c.mu.Unlock()
	if len(es) > 0 {
		ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, background)
		defer cancel()
		c.tellEnds(ctx, es)
	}
}

// gathered takes those out of ends that may be told now, and fit.
func (c *announcer) gathered(now time.Duration, fits func(*ending) bool) (out []*ending) {
	c.ends = slices.DeleteFunc(c.ends, func(e *ending) bool {
		if now < e.from || !fits(e) {
			return false
		}
		out = append(out, e)
		return true
	})
	return out
}

// ride takes ends that have gathered for the ranges of questions, which are asked next, and puts them in front. d is nil if there are none.
func (c *announcer) ride(us []*question, descs []kv.RangeDescriptor) (es []*ending, d *delivery) {
	at := func(k keys.Key) int {
		return slices.IndexFunc(descs, func(d kv.RangeDescriptor) bool { return d.Contains(k) })
	}
	c.mu.Lock()
	n := 0
	if len(c.ends) > 0 {
		es = c.gathered(c.o.Host.Clock.Monotonic(), func(e *ending) bool {
			if n+len(e.qs) > ridersMost || slices.ContainsFunc(e.qs, func(q *core.Request) bool { return at(q.Key) < 0 }) {
				return false
			}
			n += len(e.qs)
			return true
		})
	}
	c.mu.Unlock()
	if len(es) == 0 {
		return nil, nil
	}
	d = &delivery{to: make([]delivered, len(us))}
	for _, e := range es {
		for _, q := range e.qs {
			g := &d.to[at(q.Key)]
			g.qs = append(g.qs, q)
		}
	}
	for i, u := range us {
		u.front = len(d.to[i].qs)
		u.qs = append(slices.Clone(d.to[i].qs), u.qs...)
	}
	return es, d
}

// delivery is of ends on their way to the replicas of some ranges.
type delivery struct{ to []delivered }

// delivered is of one range.
type delivered struct {
	qs      []*core.Request
	answers int
	quorums core.Quorums
	gone    bool // the range has another protocol
}

// heard takes in an answer of a replica of the i-th range.
func (d *delivery) heard(i int, a *route.Answer, err error) {
	g := &d.to[i]
	if err != nil {
		g.gone = g.gone || isGone(a) != nil
		return
	}
	g.answers, g.quorums = g.answers+1, core.QuorumsIn(a.Desc)
}

// left are those that are to be told again. everyone says that all replicas have answered.
func (d *delivery) left() (left []*core.Request, everyone bool) {
	everyone = true
	for i := range d.to {
		g := &d.to[i]
		if len(g.qs) == 0 {
			continue
		}
		everyone = everyone && g.answers > 0 && g.answers == g.quorums.Replicas
		// Where another protocol is now, all was finished before it began.
		if !g.gone && (g.answers == 0 || g.answers < g.quorums.Classic) {
			left = append(left, g.qs...)
		}
	}
	return left, everyone
}

// tell brings End requests to quorums of their records, and to all replicas if they answer in time: everyone says that all did.
func (c *announcer) tell(ctx context.Context, qs []*core.Request) (everyone bool, err error) {
	everyone = true
	for pause := firstPause; len(qs) > 0; pause = min(2*pause, lastPause) {
		ks := make([]keys.Key, len(qs))
		for i, q := range qs {
			ks[i] = q.Key
		}
		groups, _, err := c.grouped(ctx, ks)
		if err != nil {
			return false, err
		}
		d := &delivery{to: make([]delivered, len(groups))}
		us := make([]*question, len(groups))
		for g, is := range groups {
			to := &d.to[g]
			for _, i := range is {
				to.qs = append(to.qs, qs[i])
			}
			us[g] = &question{qs: to.qs, f: func(*kv.RangeDescriptor, kv.ReplicaID, []*core.Reply) bool { return to.answers < to.quorums.Replicas }}
		}
		last := c.asks(ctx, us, &route.Fan{}, d.heard)
		left, all := d.left()
		everyone = everyone && all
		if qs = left; len(qs) == 0 {
			break
		}
		for _, u := range us {
			if last == nil && !u.enough {
				last = u.why(nil)
			}
		}
		if err := c.pause(ctx, pause); err != nil {
			return false, errors.Join(last, err)
		}
	}
	return everyone, nil
}

func (c *announcer) tellEnds(ctx context.Context, es []*ending) {
	var all []*core.Request
	for _, e := range es {
		all = append(all, e.qs...)
	}
	everyone, err := c.tell(ctx, all)
	c.told(es, everyone, err)
}

// delivered goes on with ends that have travelled with proposals.
func (c *announcer) delivered(es []*ending, d *delivery) {
	left, everyone := d.left()
	if len(left) == 0 {
		c.told(es, everyone, nil)
		return
	}
	c.later(func(ctx context.Context) {
		_, err := c.tell(ctx, left)
		c.told(es, false, err)
	})
}

// told goes on when a quorum has heard of ends, or err says why not. Those that some replicas have not heard of are told again. If some have not in a few seconds, others bring
// them up to date. Then the gateway need not remember what it has committed.
func (c *announcer) told(es []*ending, everyone bool, err error) {
	for _, e := range es {
		if e.closes {
			continue
		}
		last := closes(e.qs, everyone)
		if err == nil && e.tries == 0 && last != nil {
			c.announce(&ending{qs: last, closes: true}, closeWithin)
		}
		pause, more := againAfter(e.tries)
		if everyone || !e.committed || !more {
			for _, q := range e.qs {
				c.written.disown(q.Key, q.Option.At)
			}
			continue
		}
		next := &ending{qs: e.qs, committed: true, tries: e.tries + 1}
		if err == nil && e.tries == 0 && last != nil {
			next.qs = last // other records need not be asked (fastpaxos.FP6)
		}
		c.announce(next, pause/2+time.Duration(c.o.Host.Dice.Int64N(int64(pause))))
	}
}

// closes are the messages by which records forget a transaction all of whose options have ended at quorums, nil if there is nothing to forget.
func closes(qs []*core.Request, everyone bool) []*core.Request {
	if len(qs) < 2 || qs[0].Option.Anchor != nil {
		return nil
	}
	last := make([]*core.Request, len(qs))
	for i, q := range qs {
		if everyone {
			last[i] = &core.Request{Kind: core.Forget, Key: q.Key, Option: core.Option{Name: q.Option.Name}}
			continue
		}
		o := *q
		o.Option.Keys = nil
		last[i] = &o
	}
	return last
}
