package gateway

import (
	"context"
	"errors"
	"slices"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// A gateway is the master of a record for as long as it has to decide about something, and then for as long as the policy says (policy.go): one master for all of its transactions, so that these do
// not take the record from each other. Between gateways the later ballot wins, and the other one waits for a while that it draws.

const (
	// reopenings is how often the state that opens a record again is sent if no quorum takes it. The next one who proposes finds out.
	reopenings = 4
	// longest is how many options one reign decides about: the state that it proposes has them all.
	longest = 64
)

// hops is how often a petition goes on to another master before its own gateway insists on being the master.
const hops = 4

// rule is the decision of a master of a record: of this gateway, or of the one that this gateway has lost the record to (fastpaxos.FP50).
func (c *masters) rule(ctx context.Context, k keys.Key, o core.Option, prevent bool) (core.Learned, error) {
	return c.ruleAfter(ctx, k, petition{o: o, prevent: prevent}, core.Ballot{})
}

// ruleAfter is rule by somebody who has heard of a ballot. If that is not open, its master is asked at once.
//
// A direct petition goes to the master that the record is thought to have; if it has none, the error is *openError.
func (c *masters) ruleAfter(ctx context.Context, k keys.Key, p petition, known core.Ballot) (l core.Learned, err error) {
	p.from = c.o.NodeID()
	if c.o.Peers != nil && known.Open() && !p.direct {
		known = known.Later(c.promised(ctx, k))
	}
	to := known
	for n := 0; ; n++ {
		if self := c.o.NodeID(); c.o.Peers != nil && to.Node() != 0 && to.Node() != self && !to.Fast && n < hops {
			told, err := c.ask(ctx, to.Node(), patience, &Ask{Kind: Decide, Key: k, Option: p.o, Prevent: p.prevent, Mark: p.mark, Ballot: to, Direct: p.direct})
			switch {
			case err == nil && told.Learned.Verdict != core.Undecided && told.Learned.Name == p.o.Name:
				c.follow(k, to.Later(told.Ballot))
				if told.Yours {
					c.takeOver(k, to.Later(told.Ballot))
				}
				return told.Learned, nil
			case err == nil && told.Open:
				c.unfollow(k)
				return l, &openError{}
			case err == nil && told.Ballot.Master == 0:
				continue // it is still at it
			case err == nil && (to.Less(told.Ballot) || told.Ballot.Default() && told.Ballot.Node() != to.Node()): // the latter: it only knows the node
				to = told.Ballot
				continue
			case ctx.Err() != nil:
				return l, ctx.Err()
			}
			c.unfollow(k)
			if p.direct {
				return l, &openError{} // the replicas say who is the master now, if anybody is
			}
			n = hops // it does not answer
		}
		mine := p
		mine.stays = n >= hops
		l, err = c.ruleHere(ctx, k, &mine, to)
		var lost *lostError
		if !errors.As(err, &lost) {
			return l, err
		}
		to = lost.to
	}
}

// promised is the latest ballot of a record at the nearest replica, if that answers soon: a rival may have asked it for its promise.
func (c *masters) promised(ctx context.Context, k keys.Key) core.Ballot {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, nearby)
	defer cancel()
	r, err := c.send(ctx, &core.Request{Kind: core.Query, Key: k})
	if err != nil {
		return core.Ballot{}
	}
	return r.Promised
}

// elsewhere reports whether the master of a ballot is another node, which can be asked.
func (c *masters) elsewhere(b core.Ballot) bool {
	return c.o.Peers != nil && !b.Default() && b.Node() != 0 && b.Node() != c.o.NodeID()
}

// ruleHere is the decision of a master at this gateway. *lostError: it has lost the record.
func (c *masters) ruleHere(ctx context.Context, k keys.Key, p *petition, known core.Ballot) (l core.Learned, err error) {
	p.learned, p.failed = make(chan core.Learned, 1), make(chan error, 1)
	p.stays = p.stays || p.direct && c.leads(ctx, k)
	c.mu.Lock()
	if r := c.settled.get(string(k)); r != nil {
		// Learned is learned, also if another master has the record by now.
		if l := r.Learnt(p.o.Name); (l.Verdict == core.Accepted || l.Verdict == core.Rejected) && !(l.Ended && p.mends()) {
			c.mu.Unlock()
			return l, nil
		}
		known = known.Later(r.Promised) // else its first Prepare would be refused
	}
	g := c.reigns[string(k)]
	if g == nil {
		if p.direct && c.policy(k).Ballots != core.ClassicBallots {
			c.mu.Unlock()
			return l, &openError{}
		}
		g = &reign{}
		c.reigns[string(k)] = g
	}
	if g.known.Less(known) {
		g.known = known
	}
	g.asked = append(g.asked, p)
	if !c.drive(k, g) {
		c.mu.Unlock()
		return l, &kv.UnavailableError{Reason: "the node is stopping"}
	}
	c.mu.Unlock()
	select {
	case l = <-p.learned:
		return l, nil
	case err = <-p.failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	p.gone = true
	c.mu.Unlock()
	select {
	case l = <-p.learned:
		return l, nil
	default:
		return l, err
	}
}

// drive has a goroutine go on with a reign, if none does. masters.mu is held.
func (c *masters) drive(k keys.Key, g *reign) bool {
	if g.driven {
		return true
	}
	g.driven = c.o.Host.Group.Go(func(ctx context.Context) { c.reign(ctx, k, g) })
	if !g.driven {
		delete(c.reigns, string(k))
	}
	return g.driven
}

// yield sends those who wait to the master of a later ballot, unless that does not answer them (fastpaxos.FP50).
func (c *masters) yield(g *reign, m *core.Master) {
	if !c.elsewhere(m.Highest) || m.Highest.Open() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var stay []*petition
	taken := 0
	for i, p := range g.asked {
		switch {
		case p.stays && i < g.taken:
			taken++
			stay = append(stay, p)
		case p.stays:
			stay = append(stay, p)
		default:
			m.Wants = slices.DeleteFunc(m.Wants, func(w core.Want) bool { return w.Name == p.o.Name })
			p.failed <- &lostError{m.Highest}
		}
	}
	g.asked, g.taken = stay, taken
}

// petitions gives a new master all that is asked, and a ruling one what it has not taken up yet. It reports whether anybody waits.
func (c *masters) petitions(g *reign, m *core.Master, anew bool) (wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.asked = slices.DeleteFunc(g.asked, func(p *petition) bool { return p.gone })
	g.taken = min(g.taken, len(g.asked))
	if anew {
		g.taken = 0
	}
	if m.Highest.Less(g.known) {
		m.Highest = g.known
	}
	if m.Idle() && g.taken < len(g.asked) {
		m.Plan()
	}
	for ; g.taken < len(g.asked) && !m.Opening() && m.Decided < longest; g.taken++ {
		p := g.asked[g.taken]
		if p.mark {
			m.WantMark(p.o.Name)
		} else {
			m.Want(p.o, p.prevent)
		}
	}
	m.Open()
	return len(g.asked) > 0
}

// news reports whether a master that keeps its record is asked about an option that it has not decided about. It has to propose a state in any case, and an option that has ended meanwhile is not in the way.
func (c *masters) news(g *reign, m *core.Master) bool {
	if m.Gamma == 0 || m.State == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(g.asked[min(g.taken, len(g.asked)):], func(p *petition) bool {
		return !p.gone && !p.mark && m.State.Vote(p.o.Name) == nil && m.State.Outcome(p.o.Name) == core.Undecided
	})
}

// hold has a master not open the record yet, if there is more to decide.
func (c *masters) hold(g *reign, m *core.Master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.Hold = g.taken < len(g.asked) && m.Decided < longest
}

// decided tells those who wait.
func (c *masters) decided(k keys.Key, g *reign, m *core.Master) {
	all := m.Learned()
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Settled != nil {
		c.settled.put(string(k), m.Settled, c.o.Host.Clock.Monotonic())
		m.Settled = nil
	}
	for _, l := range all {
		for i := 0; i < len(g.asked); i++ {
			if p := g.asked[i]; p.o.Name == l.Name {
				if !p.mark && !p.prevent {
					g.note(p.from)
				}
				p.learned <- l
				g.asked = slices.Delete(g.asked, i, i+1)
				if i < g.taken {
					g.taken--
				}
				i--
			}
		}
	}
}

// abdicate ends a reign, or lets it rest if its master keeps the record, unless somebody has asked meanwhile and err is nil.
func (c *masters) abdicate(k keys.Key, g *reign, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && slices.ContainsFunc(g.asked, func(p *petition) bool { return !p.gone }) {
		return false
	}
	for _, p := range g.asked {
		p.failed <- err
	}
	g.asked, g.taken = nil, 0
	if g.driven = false; err != nil || g.kept == nil {
		g.kept = nil
		delete(c.reigns, string(k))
	} else {
		c.keepsSome()
	}
	return true
}

// reign drives the master of a record until nobody waits for a decision, and the record is open to all again.
func (c *masters) reign(ctx context.Context, k keys.Key, g *reign) {
	for {
		err := c.reignOnce(ctx, k, g)
		if c.abdicate(k, g, err) {
			return
		}
	}
}

func (c *masters) reignOnce(ctx context.Context, k keys.Key, g *reign) error {
	info, err := c.o.Sender.Range(ctx, k, false)
	if err != nil {
		return err
	}
	desc := &info.Desc
	var m *core.Master
	var in core.Place
	if m = c.resume(g, core.PlaceOf(desc)); m != nil {
		in = core.PlaceOf(desc)
	}
	left, begins := reopenings, true
	for pause := firstPause; ; {
		anew := m == nil || in != core.PlaceOf(desc)
		if anew {
			m, in = c.newMaster(ctx, k, desc), core.PlaceOf(desc)
			c.takes(g, m)
		}
		if mends, versions := c.mends(g); m.Idle() && (m.Outstanding() > 0 && (begins || c.news(g, m)) || m.Decided >= longest || mends) { // else what it has decided a moment ago answers those who ask about it
			c.refreshed(ctx, k, m, versions)
		}
		wanted := c.petitions(g, m, anew || begins)
		begins = false
		if m.Lost() && wanted {
			c.yield(g, m)
			if c.o.Peers == nil || c.elsewhere(m.Highest) && m.Lost() {
				// The other one needs two rounds.
				if err := c.pause(ctx, pause); err != nil {
					return err
				}
				pause = min(2*pause, roundTime)
			}
			m.Resume()
		}
		c.decided(k, g, m)
		q := m.Request()
		if q == nil {
			if !c.rest(g, m, in) {
				return nil
			}
			// Options that it has decided about have to end first: its state has room for so many.
			if err := c.pause(ctx, pause); err != nil {
				return err
			}
			continue
		}
		if !wanted {
			if left--; left < 0 {
				return nil
			}
		}
		begun, answers := c.o.Host.Clock.Monotonic(), 0
		progress, err := c.each(ctx, []*core.Request{q}, func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) bool {
			if core.PlaceOf(d) != in {
				desc = d
				return false
			}
			c.hold(g, m)
			m.Answer(from, q, rs[0])
			if answers++; m.Lost() && len(m.Unreported) == 0 {
				return answers < m.Quorums.Classic // the other master may have decided about this too
			}
			now := m.Request()
			return len(m.Unreported) == 0 && now != nil && now.Kind == q.Kind && now.Ballot == q.Ballot && now.Sequence == q.Sequence
		})
		c.decided(k, g, m)
		pause = max(pause, c.o.Host.Clock.Monotonic()-begun)
		if progress {
			continue
		}
		if isOther(err) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.pause(ctx, min(pause, lastPause)); err != nil {
			return err
		}
		// Nobody may have answered because the range is another one now.
		if info, err := c.o.Sender.Range(ctx, k, false); err == nil {
			desc = &info.Desc
		}
	}
}
