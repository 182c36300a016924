package gateway

import (
	"context"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

const (
	// termsMost bounds the ranges of which a gateway has terms.
	termsMost = 1 << 10
	// termPause is how long a gateway does without a term that it could not have.
	termPause = 2 * time.Second
)

// term is the gateway's term of a record's range. It is taken if there is none, unless that has failed lately: then it is nil.
func (c *masters) term(ctx context.Context, k keys.Key) (*core.Term, error) {
	for {
		info, err := c.o.Sender.Range(ctx, k, false)
		if err != nil {
			return nil, err
		}
		d := &info.Desc
		c.mu.Lock()
		v := c.terms[d.ID]
		if v == nil || v.in.Generation < d.Generation {
			if v != nil && v.t != nil {
				v.t.Over.Store(true)
			}
			for id := range c.terms {
				if len(c.terms) < termsMost {
					break
				}
				if o := c.terms[id]; o.taking == nil {
					if o.t != nil {
						o.t.Over.Store(true)
					}
					delete(c.terms, id)
				}
			}
			v = &rangeTerm{in: core.PlaceOf(d)}
			c.terms[d.ID] = v
		}
		switch {
		case v.t != nil && !v.t.Over.Load():
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
		case c.o.Host.Clock.Monotonic() < v.again || v.in != core.PlaceOf(d):
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
func (c *masters) reignOver(ctx context.Context, v *rangeTerm, d *kv.RangeDescriptor) (*core.Term, error) {
	for again := true; ; again = false {
		t, err := c.askForTerm(ctx, v, d)
		if t != nil || err != nil || !again || v.highest.Default() || !v.ballot.Default() {
			return t, err
		}
	}
}

// askForTerm asks once. If the term is refused because of a later one, the next ballot is after that.
func (c *masters) askForTerm(ctx context.Context, v *rangeTerm, d *kv.RangeDescriptor) (*core.Term, error) {
	if v.ballot.Default() {
		v.ballot = core.Ballot{Round: v.highest.Round + 1, Master: c.number()}
	}
	r := core.NewReigning(v.in, d.Span(), v.ballot, core.QuorumsIn(d))
	enough := false
	_, err := c.each(ctx, []*core.Request{r.Request(d.Start)}, func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) bool {
		if core.PlaceOf(d) != v.in {
			return false
		}
		enough = r.Answer(from, rs[0])
		return !enough && r.Highest.Default() && !r.Many
	})
	if enough {
		v.ballot = core.Ballot{}
		return r.Term, nil
	}
	if v.highest = v.highest.Later(r.Highest); !r.Highest.Default() {
		v.ballot = core.Ballot{}
	}
	if isOther(err) {
		return nil, err
	}
	return nil, ctx.Err()
}

// masterInTerm makes the master of a record in a term of this gateway. nil: the term does not cover the record, or no replica has what it has to begin with; then a master has to prepare.
func (c *masters) masterInTerm(ctx context.Context, t *core.Term, k keys.Key, gamma int) (*core.Master, error) {
	if t == nil || t.Over.Load() {
		return nil, nil
	}
	if m := t.GoesOn(k); m != nil {
		return m, nil
	}
	if !t.Take(k) {
		return nil, nil
	}
	base, ok, err := c.baseOf(ctx, t, k)
	if !ok || err != nil {
		return nil, err
	}
	return t.Master(k, base, c.o.Columns, gamma), nil
}

// baseOf is the newest version of a record that some replica's base has which has applied enough for a term (fastpaxos.FP92).
func (c *masters) baseOf(ctx context.Context, t *core.Term, k keys.Key) (v core.Value, ok bool, err error) {
	q := &core.Request{Kind: core.Read, Key: k, Generation: t.In.Generation, Look: &core.Look{Keys: []keys.Key{k}, Base: true}}
	take := func(r *core.Reply) bool {
		l := r.Looked
		if l == nil || len(l.Rows) != 1 || l.Applied == 0 || l.Applied < t.Applied {
			return false
		}
		v, ok = core.Value{At: l.Rows[0].Seen.Base, Data: l.Rows[0].Value}, true
		return true
	}
	if r, err := c.send(ctx, q); err == nil && take(r) {
		return v, true, nil
	} else if ctx.Err() != nil {
		return v, false, ctx.Err()
	}
	_, err = c.each(ctx, []*core.Request{q}, func(_ *kv.RangeDescriptor, _ kv.ReplicaID, rs []*core.Reply) bool { return !take(rs[0]) })
	if ok || !isOther(err) {
		err = nil
	}
	return v, ok, err
}

// markSpan makes a promise to a reader for some keys, or a span, of one range, in a term of this gateway (fastpaxos.FP94). It reports whether it could.
func (c *masters) markSpan(ctx context.Context, q *core.Look, ballot core.Ballot) (bool, error) {
	c.mu.Lock()
	var t *core.Term
	for _, v := range c.terms {
		if v.t != nil && v.t.Ballot == ballot && (q.Keys != nil || v.t.Span.ContainsSpan(q.Span)) {
			t = v.t
		}
	}
	c.mu.Unlock()
	if t == nil || t.Over.Load() || !t.Alone {
		return false, nil
	}
	// In this order: see Master.rule.
	t.Marks.Add(q, q.Span)
	open := t.Opened(q)
	err := c.all(len(open), func(i int) error {
		if err := c.promise(ctx, open[i].Key, core.Mark{At: q.At, By: q.By}); err != nil {
			return err
		}
		t.Overtaken(open[i])
		return nil
	})
	return err == nil, err
}

// ruledBy is the term that a reader has met last in a record's range, if that is still in the same generation.
func (c *masters) ruledBy(ctx context.Context, k keys.Key) (r ruledTerm) {
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
	if r = c.ruled[info.Desc.ID]; r.in != core.PlaceOf(&info.Desc) {
		return ruledTerm{}
	}
	return r
}

// rules remembers a range's term, or, if it is of no use, forgets it.
func (c *masters) rules(r ruledTerm, useful bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !useful && c.ruled[r.in.ID] == r:
		delete(c.ruled, r.in.ID)
	case useful:
		if len(c.ruled) >= termsMost {
			clear(c.ruled)
		}
		c.ruled[r.in.ID] = r
	}
}

// marked has the master of a term make a reader's promise.
func (c *masters) marked(ctx context.Context, q *core.Look, r ruledTerm) (ok bool) {
	if r.ballot.Node() == c.o.NodeID() {
		ok, _ = c.markSpan(ctx, q, r.ballot)
	} else if c.o.Peers != nil && r.ballot.Node() != 0 {
		a := &Ask{Kind: MarkSpan, Key: q.Span.Start, End: q.Span.End, Keys: q.Keys, Option: core.Option{Name: core.Mark{At: q.At, By: q.By}.Name()}, Ballot: r.ballot}
		told, err := c.ask(ctx, r.ballot.Node(), patience, a)
		ok = err == nil && told.Ballot == r.ballot
	}
	c.rules(r, ok)
	return ok
}

// renew says that the range of a record needs a new generation, because a reader can't be promised what it wants in this one (fastpaxos.FP95).
func (c *masters) renew(ctx context.Context, k keys.Key, generation uint64) error {
	_, err := c.each(ctx, []*core.Request{{Kind: core.Reign, Key: k, Generation: generation, Renew: true}}, func(*kv.RangeDescriptor, kv.ReplicaID, []*core.Reply) bool { return true })
	if isOther(err) {
		return err
	}
	return ctx.Err()
}

// promise has a master make a promise to a reader, so that all masters of the record keep it (fastpaxos.FP61).
func (c *masters) promise(ctx context.Context, k keys.Key, m core.Mark) error {
	_, err := c.ruleAfter(ctx, k, petition{o: core.Option{Name: m.Name(), Keys: []keys.Key{k}}, mark: true}, core.Ballot{})
	return err
}
