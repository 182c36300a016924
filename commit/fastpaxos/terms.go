package fastpaxos

import (
	"context"
	"time"

	"meridian/keys"
	"meridian/kv"
)

const (
	// termsMost bounds the ranges of which a gateway has terms.
	termsMost = 1 << 10
	// termPause is how long a gateway does without a term that it could not have.
	termPause = 2 * time.Second
)

// rangeTerm is what a gateway knows of the terms of a range.
type rangeTerm struct {
	in place
	t  *term
	// ballot is that of an attempt that did not succeed, and was not refused: it is repeated.
	ballot, highest Ballot
	taking          chan struct{} // closed when the attempt has ended; nil: there is none
	// again is when the next attempt may be made, by the host's monotonic clock.
	again time.Duration
}

// term is the gateway's term of a record's range. It is taken if there is none, unless that has failed lately: then it is nil.
func (c *Client) term(ctx context.Context, k keys.Key) (*term, error) {
	for {
		info, err := c.o.Sender.Range(ctx, k, false)
		if err != nil {
			return nil, err
		}
		d := &info.Desc
		c.mu.Lock()
		v := c.terms[d.ID]
		if v == nil || v.in.generation < d.Generation {
			if v != nil && v.t != nil {
				v.t.over.Store(true)
			}
			for id := range c.terms {
				if len(c.terms) < termsMost {
					break
				}
				if o := c.terms[id]; o.taking == nil {
					if o.t != nil {
						o.t.over.Store(true)
					}
					delete(c.terms, id)
				}
			}
			v = &rangeTerm{in: placeOf(d)}
			c.terms[d.ID] = v
		}
		switch {
		case v.t != nil && !v.t.over.Load():
			t := v.t
			c.mu.Unlock()
			return t, nil
		case v.taking != nil:
			taking := v.taking
			c.mu.Unlock()
			select {
			case <-taking:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case c.o.Host.Clock.Monotonic() < v.again || v.in != placeOf(d):
			c.mu.Unlock()
			return nil, nil
		}
		v.t, v.taking = nil, make(chan struct{})
		c.mu.Unlock()
		t, err := c.reignOver(ctx, v, d)
		c.mu.Lock()
		if v.t = t; t == nil {
			v.again = c.o.Host.Clock.Monotonic() + termPause/2 + time.Duration(c.o.Host.Dice.Int64N(int64(termPause)))
		}
		close(v.taking)
		v.taking = nil
		c.mu.Unlock()
		return t, err
	}
}

// reignOver takes a term of a range. nil: it can't be had now.
func (c *Client) reignOver(ctx context.Context, v *rangeTerm, d *kv.RangeDescriptor) (*term, error) {
	for again := true; ; again = false {
		t, err := c.askForTerm(ctx, v, d)
		if t != nil || err != nil || !again || v.highest.Default() || !v.ballot.Default() {
			return t, err
		}
	}
}

// askForTerm asks once. If the term is refused because of a later one, the next ballot is after that.
func (c *Client) askForTerm(ctx context.Context, v *rangeTerm, d *kv.RangeDescriptor) (*term, error) {
	if v.ballot.Default() {
		v.ballot = Ballot{Round: v.highest.Round + 1, Master: c.number()}
	}
	r := newReigning(v.in, d.Span(), v.ballot, QuorumsIn(d))
	enough := false
	_, err := c.each(ctx, []*Request{r.Request(d.Start)}, func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*Reply) bool {
		if placeOf(d) != v.in {
			return false
		}
		enough = r.Answer(from, rs[0])
		return !enough && r.highest.Default() && !r.many
	})
	if enough {
		v.ballot = Ballot{}
		return r.t, nil
	}
	if v.highest = v.highest.later(r.highest); !r.highest.Default() {
		v.ballot = Ballot{}
	}
	if isOther(err) {
		return nil, err
	}
	return nil, ctx.Err()
}

// masterInTerm makes the master of a record in a term of this gateway. nil: the term does not cover the record, or no replica has what it has to begin with; then a master has to prepare.
func (c *Client) masterInTerm(ctx context.Context, t *term, k keys.Key, gamma int) (*Master, error) {
	if t == nil || t.over.Load() {
		return nil, nil
	}
	if m := t.goesOn(k); m != nil {
		return m, nil
	}
	if !t.take(k) {
		return nil, nil
	}
	base, ok, err := c.baseOf(ctx, t, k)
	if !ok || err != nil {
		return nil, err
	}
	return t.master(k, base, c.o.Columns, gamma), nil
}

// baseOf is the newest version of a record that some replica's base has which has applied enough for a term (fastpaxos.FP92).
func (c *Client) baseOf(ctx context.Context, t *term, k keys.Key) (v Value, ok bool, err error) {
	q := &Request{Kind: Read, Key: k, Generation: t.in.generation, Look: &Look{Keys: []keys.Key{k}, Base: true}}
	take := func(r *Reply) bool {
		l := r.Looked
		if l == nil || len(l.Rows) != 1 || l.Applied == 0 || l.Applied < t.applied {
			return false
		}
		v, ok = Value{At: l.Rows[0].Seen.Base, Data: l.Rows[0].Value}, true
		return true
	}
	if r, err := c.send(ctx, q); err == nil && take(r) {
		return v, true, nil
	} else if ctx.Err() != nil {
		return v, false, ctx.Err()
	}
	_, err = c.each(ctx, []*Request{q}, func(_ *kv.RangeDescriptor, _ kv.ReplicaID, rs []*Reply) bool { return !take(rs[0]) })
	if ok || !isOther(err) {
		err = nil
	}
	return v, ok, err
}

// markSpan makes a promise to a reader for some keys, or a span, of one range, in a term of this gateway (fastpaxos.FP94). It reports whether it could.
func (c *Client) markSpan(ctx context.Context, q *Look, ballot Ballot) (bool, error) {
	c.mu.Lock()
	var t *term
	for _, v := range c.terms {
		if v.t != nil && v.t.ballot == ballot && (q.Keys != nil || v.t.span.ContainsSpan(q.Span)) {
			t = v.t
		}
	}
	c.mu.Unlock()
	if t == nil || t.over.Load() || !t.alone {
		return false, nil
	}
	// In this order: see Master.rule.
	t.marks.add(q, q.Span)
	open := t.opened(q)
	err := c.all(len(open), func(i int) error {
		if err := c.promise(ctx, open[i].key, Mark{At: q.At, By: q.By}); err != nil {
			return err
		}
		t.overtaken(open[i])
		return nil
	})
	return err == nil, err
}

// ruledTerm is a term of another gateway, or of this one, that a reader has met.
type ruledTerm struct {
	in     place
	ballot Ballot
}

// ruledBy is the term that a reader has met last in a record's range, if that is still in the same generation.
func (c *Client) ruledBy(ctx context.Context, k keys.Key) (r ruledTerm) {
	c.mu.Lock()
	some := len(c.ruled) > 0
	c.mu.Unlock()
	if !some {
		return r
	}
	info, err := c.o.Sender.Range(ctx, k, false)
	if err != nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r = c.ruled[info.Desc.ID]; r.in != placeOf(&info.Desc) {
		return ruledTerm{}
	}
	return r
}

// rules remembers a range's term, or, if it is of no use, forgets it.
func (c *Client) rules(r ruledTerm, useful bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !useful && c.ruled[r.in.id] == r:
		delete(c.ruled, r.in.id)
	case useful:
		if len(c.ruled) >= termsMost {
			clear(c.ruled)
		}
		c.ruled[r.in.id] = r
	}
}

// marked has the master of a term make a reader's promise.
func (c *Client) marked(ctx context.Context, q *Look, r ruledTerm) (ok bool) {
	if r.ballot.Node() == c.o.NodeID() {
		ok, _ = c.markSpan(ctx, q, r.ballot)
	} else if c.o.Peers != nil && r.ballot.Node() != 0 {
		a := &Ask{Kind: MarkSpan, Key: q.Span.Start, End: q.Span.End, Keys: q.Keys, Option: Option{Name: Mark{At: q.At, By: q.By}.name()}, Ballot: r.ballot}
		told, err := c.ask(ctx, r.ballot.Node(), patience, a)
		ok = err == nil && told.Ballot == r.ballot
	}
	c.rules(r, ok)
	return ok
}

// renew says that the range of a record needs a new generation, because a reader can't be promised what it wants in this one (fastpaxos.FP95).
func (c *Client) renew(ctx context.Context, k keys.Key, generation uint64) error {
	_, err := c.each(ctx, []*Request{{Kind: Reign, Key: k, Generation: generation, Renew: true}}, func(*kv.RangeDescriptor, kv.ReplicaID, []*Reply) bool { return true })
	if isOther(err) {
		return err
	}
	return ctx.Err()
}
