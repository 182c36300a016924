package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/commit"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/transport"
)

// Transactions whose gateways may be gone, and the end of those that have committed or not: the gateway's part of it.

// close tells the records of a transaction all of whose options have ended, at quorums, that nobody will ask for it (fastpaxos.FP6).
func (c *announcer) close(ctx context.Context, qs []*core.Request, everyone bool) {
	_, _ = c.tell(ctx, closes(qs, everyone))
}

// Finish implements Ender (fastpaxos.FP23).
func (c *finisher) Finish(ctx context.Context, o *core.Option, known map[string]core.Verdict) (committed bool, err error) {
	return c.finish(ctx, o, known, len(known) > 0)
}

// finish is Finish; sealed is as learn's.
func (c *finisher) finish(ctx context.Context, o *core.Option, known map[string]core.Verdict, sealed bool) (committed bool, err error) {
	learned := make([]core.Learned, len(o.Keys))
	learn := func(i int) error {
		var err error
		learned[i], err = c.learn(ctx, o.Keys[i], core.Option{Name: o.Name, Keys: o.Keys}, sealed)
		return err
	}
	if err := c.all(len(o.Keys), func(i int) error {
		if v, ok := known[string(o.Keys[i])]; ok {
			learned[i] = core.Learned{Name: o.Name, Verdict: v}
			return nil
		}
		return learn(i)
	}); err != nil {
		return false, err
	}
	if slices.ContainsFunc(learned, func(l core.Learned) bool { return l.Verdict == core.Past }) {
		// Past means rejected if another option has not ended by now; one that had not ended before may have, with all others, and these may have been forgotten (fastpaxos.FP6).
		if err := c.all(len(o.Keys), func(i int) error {
			if _, sealed := known[string(o.Keys[i])]; learned[i].Stands() && !sealed {
				return learn(i)
			}
			return nil
		}); err != nil {
			return false, err
		}
	}
	committed = core.Finished(learned)
	var qs []*core.Request
	whole := len(known) == 0
	for i := range learned {
		// Where it has ended, or is past, the master has just told a quorum.
		if learned[i].Option != nil {
			qs = append(qs, end(o.Keys[i], *learned[i].Option, committed))
		} else {
			whole = false
		}
	}
	if len(known) > 0 {
		// A range waits. Those that do not hear of it ask that one.
		c.later(func(ctx context.Context) { _, _ = c.tell(ctx, qs) })
		return committed, nil
	}
	everyone, err := c.tell(ctx, qs)
	if err != nil {
		return committed, err
	}
	if whole {
		c.close(ctx, qs, everyone)
	}
	return committed, nil
}

// ruleWithin is how long a master has to decide an option before the range's leaseholder is asked whether it is sealed: two rounds between the farthest regions. Chosen by us.
const ruleWithin = 600 * time.Millisecond

// learn has an option decided by a master, which rejects it if no acceptor knows it, or learns what became of it in a range that has another protocol by now, or whose generation is
// folded (fastpaxos.FP11). Past: the range does not know of it, and never will accept it. sealed says that the latter is likely: ranges that are sealed at the same time wait for each other.
func (c *finisher) learn(ctx context.Context, k keys.Key, o core.Option, sealed bool) (l core.Learned, err error) {
	if info, err := c.o.Sender.Range(ctx, k, false); err == nil && info.Desc.Protocol != kv.FastPaxos {
		sealed = true
	}
	within := ruleWithin
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if !sealed {
			short, cancel := c.o.Host.Clock.WithTimeout(ctx, within)
			l, err = c.rule(short, k, o, true)
			cancel()
			if !isOther(err) && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
				return l, err
			}
			within *= 2
		}
		sealed = false
		l, err := c.recall(ctx, k, o.Name)
		if err == nil || !isOther(err) {
			return l, err
		}
		// It has this protocol again, or its leaseholder has not heard yet.
		if err := c.pause(ctx, pause); err != nil {
			return l, err
		}
	}
}

// recall asks a range that has another protocol by now, or is sealed, for the outcome of an option. *kv.ProtocolError: it has this one, and acts.
func (c *finisher) recall(ctx context.Context, k keys.Key, n core.Name) (l core.Learned, err error) {
	q := &core.Request{Kind: core.Query, Key: k, Option: core.Option{Name: n}}
	resp, err := c.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminRecallRequest{Key: k, Protocol: kv.FastPaxos, Body: q.Append(nil)}}})
	if err != nil {
		return l, err
	}
	rs, err := replies(resp, 1, 0)
	if err != nil {
		return l, err
	}
	switch r := rs[0]; {
	case r.Outcome == core.Accepted || r.Outcome == core.Rejected:
		return core.Learned{Name: n, Verdict: r.Outcome, Ended: true}, nil
	case r.Verdict == core.Accepted:
		return core.Learned{Name: n, Verdict: core.Accepted}, nil
	}
	return core.Learned{Name: n, Verdict: core.Past}, nil
}

// clearAsks is for how long an option has stood in the way when its gateway is asked about it, and again. Chosen by us.
const clearAsks = time.Second

// clear returns when an option that stood in the way does not any more, which it takes care of once that is old enough.
func (c *finisher) clear(ctx context.Context, b blocker) error {
	asks := c.o.Clock.Now().Add(clearAsks) // nobody who is in a hurry waits for another gateway's answer each time
	for pause := 4 * firstPause; ; pause = min(2*pause, lastPause) {
		now := c.o.Clock.Now()
		if b.option.At.Add(stale).LessEq(now) || asks.LessEq(now) && c.abandoned(ctx, b.option) {
			return c.finishDangling(ctx, b)
		}
		if asks.LessEq(now) {
			asks = now.Add(clearAsks)
		}
		if err := c.pause(ctx, pause); err != nil {
			return err
		}
		r, err := c.send(ctx, &core.Request{Kind: core.Query, Key: b.key})
		if err != nil {
			return err
		}
		if r.Record == nil || r.Record.Vote(b.option.Name) == nil {
			return nil
		}
	}
}

// finishDangling finishes the transaction of an option that is older than stale.
func (c *finisher) finishDangling(ctx context.Context, b blocker) error {
	n := b.option.Name
	c.mu.Lock()
	busy := c.finishing[n]
	c.finishing[n] = true
	c.mu.Unlock()
	if busy {
		return c.o.Host.Clock.Sleep(ctx, lastPause)
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.finishing, n)
	}()
	if b.option.Anchor == nil {
		_, err := c.Finish(ctx, b.option, nil)
		return err
	}
	f, err := c.find(ctx, b.key, n)
	if err != nil {
		return err
	}
	switch {
	case f.verdict == core.Past:
		_, err := c.rule(ctx, b.key, core.Option{Name: n, Keys: []keys.Key{b.key}, Anchor: b.option.Anchor}, true)
		return err
	case f.option == nil:
		return nil
	case f.verdict == core.Undecided:
		status, err := c.stands(ctx, b.option, b.key)
		if err != nil || status != kv.Committed && status != kv.Aborted {
			return err
		}
		f.verdict = core.Rejected
		if status == kv.Committed {
			f.verdict = core.Accepted
		}
	}
	_, err = c.tell(ctx, []*core.Request{end(b.key, *f.option, f.verdict == core.Accepted)})
	return err
}

// Witness answers whether a transaction's options were learned as accepted, and prevents those that were not (commit.Finisher).
func (c *finisher) Witness(ctx context.Context, r *commit.Record, writes []kv.InFlightWrite) (all bool, err error) {
	n := core.Name{Txn: r.ID, At: r.WriteTimestamp}
	learned := make([]core.Learned, len(writes))
	if err := c.all(len(writes), func(i int) error {
		k := writes[i].Key
		var err error
		learned[i], err = c.learn(ctx, k, core.Option{Name: n, Keys: []keys.Key{k}, Anchor: r.Anchor}, false)
		return err
	}); err != nil {
		return false, err
	}
	for i := range learned {
		if learned[i].Verdict != core.Accepted {
			return false, nil
		}
	}
	return true, nil
}

// Resolve gives the options of a transaction that has ended its outcome (commit.Finisher). A record lists each of them by its key; a span is where
// the transaction may have had locks of the leader protocol, of which there are none here.
func (c *finisher) Resolve(ctx context.Context, spans []keys.Span, meta kv.TxnMeta, status kv.Status, _ []kv.SeqRange) error {
	if status != kv.Committed && status != kv.Aborted {
		return nil
	}
	n := core.Name{Txn: meta.ID, At: meta.WriteTimestamp}
	var points []keys.Key
	mine := map[string]core.Option{}
	c.mu.Lock()
	for _, span := range spans {
		if !span.Point() {
			continue
		}
		points = append(points, span.Start)
		if o, ok := c.provisional[meta.ID][string(span.Start)]; ok && (status == kv.Aborted || o.Name == n) {
			mine[string(span.Start)] = o
		}
		delete(c.provisional[meta.ID], string(span.Start))
	}
	if len(c.provisional[meta.ID]) == 0 {
		delete(c.provisional, meta.ID)
	}
	c.mu.Unlock()
	qs := make([]*core.Request, len(points))
	if err := c.all(len(points), func(i int) error {
		k := points[i]
		o, ok := mine[string(k)]
		switch {
		case ok:
		case status == kv.Aborted:
			o = core.Option{Name: n, Keys: []keys.Key{k}, Anchor: meta.Anchor}
		default:
			f, err := c.find(ctx, k, n)
			if isOther(err) {
				return nil // all was ended before the change
			}
			if err != nil || f.option == nil {
				return err // it is known, or was never there
			}
			o = *f.option
		}
		qs[i] = end(k, o, status == kv.Committed)
		return nil
	}); err != nil {
		return err
	}
	some := qs[:0]
	for _, q := range qs {
		if q != nil {
			some = append(some, q)
		}
	}
	everyone, err := c.tell(ctx, some)
	if err == nil && len(some) > 0 {
		c.told([]*ending{{qs: some, committed: status == kv.Committed}}, everyone, nil)
	}
	return err
}

// abandoned reports whether an option is old enough for others to end its transaction, or its gateway does not work on it, and has not ended it.
func (c *finisher) abandoned(ctx context.Context, o *core.Option) bool {
	switch age := time.Duration(c.o.Clock.Now().Wall - o.At.Wall); {
	case age >= stale:
		return true
	case age < fateAfter || o.Anchor != nil: // its record decides
		return false
	}
	return c.fate(ctx, o) == deserted
}

// conclude has the options of others in a record end, and executes those that have committed. again: the record is to be asked for again, because an option is past that was not so before (fastpaxos.FP98).
func (c *finisher) conclude(ctx context.Context, me kv.TxnID, k keys.Key, r *core.Record, past pastOptions) (again bool, err error) {
	votes := r.Votes
	r.Votes = nil
	slices.SortFunc(votes, func(a, b core.Vote) int { return a.Compare(b.Name) })
	for i := range votes {
		o := &votes[i].Option
		out := r.Outcome(o.Name)
		if _, executed := r.Addition(o.Name); executed || o.At.LessEq(r.Base.At) || o.Txn == me {
			continue
		}
		if out != core.Accepted && out != core.Rejected {
			if out, err = c.outcome(ctx, blocker{k, o}); err != nil {
				return false, err
			}
		}
		switch out {
		case core.Accepted:
			r.Execute(core.Addition{Option: *o})
		case core.Past:
			again = past.note(k, o.Name) || again
		}
	}
	return again, nil
}

// fate asks an option's gateway.
func (c *finisher) fate(ctx context.Context, o *core.Option) fate {
	n := gatewayOf(o.At)
	switch {
	case n == 0 || c.o.Peers == nil || len(o.Keys) == 0:
		return unclear
	case n == c.o.NodeID():
		return c.fateHere(o.Name)
	}
	told, err := c.ask(ctx, n, 0, &Ask{Kind: Fate, Key: o.Keys[0], Option: core.Option{Name: o.Name}})
	var unreachable *transport.UnreachableError
	switch {
	case err != nil && ctx.Err() == nil && (errors.Is(err, errSilent) || errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded)):
		return deserted
	case err != nil:
		return unclear
	case told.Granted:
		return working
	case told.Learned.Verdict == core.Accepted:
		return won
	case told.Learned.Verdict == core.Rejected:
		return lost
	}
	return deserted
}

// outcome is that of an option's transaction, once it has ended: Accepted if it has committed, Rejected if not, or Past: what it may have written has been told to all. If its gateway is gone, it is ended from here.
func (c *finisher) outcome(ctx context.Context, b blocker) (core.Verdict, error) {
	if c.written.has(b.key, b.option) {
		return core.Accepted, nil // the replicas are being told
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		f, err := c.find(ctx, b.key, b.option.Name)
		if err != nil {
			return core.Undecided, err
		}
		if f.verdict != core.Undecided && (f.verdict != core.Past || f.option == nil) {
			return f.verdict, nil
		}
		age := time.Duration(c.o.Clock.Now().Wall - b.option.At.Wall)
		over := age >= stale || age >= core.StalenessMost && b.option.Anchor != nil // then its record decides
		if !over && age >= fateAfter && b.option.Anchor == nil {
			switch c.fate(ctx, b.option) {
			case won:
				return core.Accepted, nil
			case lost:
				return core.Rejected, nil
			case deserted:
				over = true
			}
		}
		if over {
			if err := c.finishDangling(ctx, b); err != nil {
				return core.Undecided, err
			}
		}
		if err := c.pause(ctx, pause); err != nil {
			return core.Undecided, err
		}
	}
}
