package fastpaxos

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
)

// A gateway is the master of a record for as long as it has to decide about something: one master for all of its transactions, so that these do not take the record from each other. Between
// gateways the later ballot wins, and the other one waits for a while that it draws.

const (
	// gamma is how many options a master decides about before it opens the record to all again. There is no policy yet: at once.
	gamma = 0
	// reopenings is how often the state that opens a record again is sent if no quorum takes it. The next one who proposes finds out.
	reopenings = 4
	// longest is how many options one reign decides about: the state that it proposes has them all.
	longest = 64
)

// reign is a record's master at this gateway. Client.mu guards its fields.
type reign struct {
	asked []*petition // that the master has not taken up, and then those that it has
	taken int
}

// petition is an option that somebody waits for a decision about.
type petition struct {
	o       Option
	prevent bool
	learned chan Learned // holds one
	failed  chan error   // holds one
	gone    bool         // nobody waits any more
}

// rule is the decision of a master of a record.
func (c *Client) rule(ctx context.Context, k keys.Key, o Option, prevent bool) (l Learned, err error) {
	p := &petition{o: o, prevent: prevent, learned: make(chan Learned, 1), failed: make(chan error, 1)}
	c.mu.Lock()
	g := c.reigns[string(k)]
	if g == nil {
		g = &reign{}
		if c.o.Host.Group.Go(func(ctx context.Context) { c.reign(ctx, k, g) }) {
			c.reigns[string(k)] = g
		} else {
			c.mu.Unlock()
			return l, &kv.UnavailableError{Reason: "the node is stopping"}
		}
	}
	g.asked = append(g.asked, p)
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

// petitions gives a new master all that is asked, and a ruling one what it has not taken up yet. It reports whether anybody waits.
func (c *Client) petitions(g *reign, m *Master, anew bool) (wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.asked = slices.DeleteFunc(g.asked, func(p *petition) bool { return p.gone })
	g.taken = min(g.taken, len(g.asked))
	if anew {
		g.taken = 0
	}
	for ; g.taken < len(g.asked) && !m.Opening() && m.decided < longest; g.taken++ {
		p := g.asked[g.taken]
		m.Want(p.o, p.prevent)
	}
	m.Open()
	return len(g.asked) > 0
}

// hold has a master not open the record yet, if there is more to decide.
func (c *Client) hold(g *reign, m *Master) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.hold = g.taken < len(g.asked) && m.decided < longest
}

// decided tells those who wait.
func (c *Client) decided(g *reign, all []Learned) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range all {
		for i := 0; i < len(g.asked); i++ {
			if p := g.asked[i]; p.o.Name == l.Name {
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

// abdicate ends a reign, unless somebody has asked meanwhile and err is nil.
func (c *Client) abdicate(k keys.Key, g *reign, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && slices.ContainsFunc(g.asked, func(p *petition) bool { return !p.gone }) {
		return false
	}
	for _, p := range g.asked {
		p.failed <- err
	}
	delete(c.reigns, string(k))
	return true
}

// reign drives the master of a record until nobody waits for a decision, and the record is open to all again.
func (c *Client) reign(ctx context.Context, k keys.Key, g *reign) {
	for {
		err := c.reignOnce(ctx, k, g)
		if c.abdicate(k, g, err) {
			return
		}
	}
}

func (c *Client) reignOnce(ctx context.Context, k keys.Key, g *reign) error {
	info, err := c.o.Sender.Range(ctx, k, false)
	if err != nil {
		return err
	}
	desc := &info.Desc
	var m *Master
	var in place
	left := reopenings
	for pause := firstPause; ; {
		anew := m == nil || in != placeOf(desc)
		if anew {
			m, in = NewMaster(k, c.number(), QuorumsIn(desc), c.o.Columns, gamma), placeOf(desc)
		}
		wanted := c.petitions(g, m, anew)
		if m.Lost() && wanted {
			// The other one needs two rounds.
			if err := c.pause(ctx, pause); err != nil {
				return err
			}
			pause = min(2*pause, roundTime)
			m.Resume()
		}
		q := m.Request()
		if q == nil {
			return nil
		}
		if !wanted {
			if left--; left < 0 {
				return nil
			}
		}
		begun := c.o.Host.Clock.Monotonic()
		progress, err := c.each(ctx, []*Request{q}, func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*Reply) bool {
			if placeOf(d) != in {
				desc = d
				return false
			}
			c.hold(g, m)
			m.Answer(from, q, rs[0])
			now := m.Request()
			return len(m.learned) == 0 && now != nil && now.Kind == q.Kind && now.Ballot == q.Ballot && now.Sequence == q.Sequence
		})
		c.decided(g, m.Learned())
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
