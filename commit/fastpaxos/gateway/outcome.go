package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Transactions whose gateways may be gone, and the end of those that have committed or not: the gateway's part of it.

// ended makes the outcome of this gateway's transaction known to the replicas, in the background. Until all have it, the gateway reads what it has
// committed from what it remembers. A commuting update is on top of what the replicas have, so one that is read from is shown it first.
func (c *Client) ended(options []core.Option, ks []keys.Key, committed bool) {
	within := time.Duration(0)
	c.mu.Lock()
	c.fates.decided(options[0].Name, committed, c.o.Host.Clock.Monotonic())
	c.mu.Unlock()
	if committed {
		c.mu.Lock()
		if len(c.turns.hot) == 0 || !slices.ContainsFunc(ks, func(k keys.Key) bool { return c.turns.hot[string(k)] > 0 }) {
			within = ridesWithin // nobody waits, as far as is known
		}
		for i := range options {
			switch o := &options[i]; {
			case len(o.Deltas) > 0:
				k := string(ks[i])
				c.unshown[k] = append(c.unshown[k], &core.Request{Kind: core.Show, Key: ks[i], Option: *o, Committed: true})
			case !o.Commutes() && c.own[string(ks[i])].At.Less(o.At):
				c.own[string(ks[i])] = core.Value{At: o.At, Data: o.Value}
			}
		}
		c.mu.Unlock()
	}
	e := &ending{committed: committed, qs: make([]*core.Request, len(options))}
	for i := range options {
		e.qs[i] = end(ks[i], options[i], committed)
	}
	c.announce(e, within)
}

// nearby bounds the wait for the nearest replica: a round trip within a region.
const nearby = 3 * time.Millisecond

// known is what this gateway knows of rows, from before it asks a replica for them. Later it may have forgotten a version, because all replicas have it by then, while the answer is from before that.
type known struct {
	shows []*core.Request       // what the replica is shown first (fastpaxos.FP72)
	own   map[string]core.Value // by key (fastpaxos.FP22)
}

// known is what the gateway knows of some rows.
func (c *Client) known(ks []keys.Key) (n known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unshown) > 0 {
		for _, k := range ks {
			n.shows = append(n.shows, c.unshown[string(k)]...)
		}
	}
	if len(c.own) > 0 {
		for _, k := range ks {
			if v, ok := c.own[string(k)]; ok {
				n.add(string(k), v)
			}
		}
	}
	return n
}

// knownIn is what it knows of the rows of a span.
func (c *Client) knownIn(s keys.Span) (n known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, qs := range c.unshown {
		if s.Contains(qs[0].Key) {
			n.shows = append(n.shows, qs...)
		}
	}
	for k, v := range c.own {
		if s.Contains(keys.Key(k)) {
			n.add(k, v)
		}
	}
	return n
}

func (n *known) add(k string, v core.Value) {
	if n.own == nil {
		n.own = map[string]core.Value{}
	}
	n.own[k] = v
}

// version is a row as this gateway knows it: at least what it has committed by itself.
func (n *known) version(w *core.Row) {
	if v, ok := n.own[string(w.Key)]; ok && w.Seen.Base.Less(v.At) {
		w.Value, w.Seen, w.Last = v.Data, core.Seen{Base: v.At}, v.At
	}
}

// first puts what is shown in front of questions.
func (n *known) first(qs ...*core.Request) []*core.Request {
	return append(n.shows[:len(n.shows):len(n.shows)], qs...)
}

// shown takes in that the nearest replica was shown updates.
func (c *Client) shown(qs []*core.Request) {
	if len(qs) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range qs {
		c.show(q.Key, q.Option.At)
	}
}

// show forgets that an update has to be shown. The caller has locked mu.
func (c *Client) show(k keys.Key, at clock.Timestamp) {
	if qs, ok := c.unshown[string(k)]; ok {
		if qs = slices.DeleteFunc(slices.Clone(qs), func(q *core.Request) bool { return q.Option.At == at }); len(qs) > 0 {
			c.unshown[string(k)] = qs
		} else {
			delete(c.unshown, string(k))
		}
	}
}

// disown forgets what was committed of a row: replicas have it.
func (c *Client) disown(k keys.Key, at clock.Timestamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.show(k, at)
	if v, ok := c.own[string(k)]; ok && v.At == at {
		delete(c.own, string(k))
	}
}

// refresh asks a quorum for a row of which the nearest replica had not the newest version, so that the next transaction of this gateway reads that. If
// the replica does not get the version from others soon, it gets it from here (fastpaxos.FP22). floor is a timestamp at or below which the record accepts nothing any more.
func (c *Client) refresh(ctx context.Context, k keys.Key, seen clock.Timestamp) (floor clock.Timestamp, err error) {
	newest, floor, _, err := c.newest(ctx, k, func(q core.Quorums) int { return q.Classic })
	if err != nil || newest.At.LessEq(seen) {
		return floor, err
	}
	c.mu.Lock()
	known := newest.At.LessEq(c.own[string(k)].At)
	if !known {
		c.own[string(k)] = newest
	}
	c.mu.Unlock()
	if known {
		return floor, nil
	}
	c.later(func(ctx context.Context) {
		defer c.disown(k, newest.At)
		if c.pause(ctx, roundTime) != nil {
			return
		}
		now, _, behind, err := c.newest(ctx, k, func(q core.Quorums) int { return q.Replicas })
		if err == nil && behind && newest.At.LessEq(now.At) {
			// A master makes the record the same everywhere. It need not decide about anything.
			_, _ = c.rule(ctx, k, core.Option{Name: core.Name{At: now.At}, Keys: []keys.Key{k}}, true)
			_ = c.pause(ctx, roundTime)
		}
	})
	return floor, nil
}

// newest is the newest physical version of a row that some of its acceptors know, and whether others of these do not.
func (c *Client) newest(ctx context.Context, k keys.Key, enough func(core.Quorums) int) (v core.Value, floor clock.Timestamp, behind bool, err error) {
	heard := 0
	_, err = c.each(ctx, []*core.Request{{Kind: core.Query, Key: k}}, func(d *kv.RangeDescriptor, _ kv.ReplicaID, rs []*core.Reply) bool {
		r := rs[0].Record
		if r == nil {
			return true
		}
		floor = floor.Forward(r.Floor).Forward(r.Closed)
		behind = behind || heard > 0 && r.Base.At != v.At
		if v.At.Less(r.Base.At) {
			v = r.Base
		}
		heard++
		return heard < enough(core.QuorumsIn(d))
	})
	return v, floor, behind, err
}

// close tells the records of a transaction all of whose options have ended, at quorums, that nobody will ask for it (fastpaxos.FP6).
func (c *Client) close(ctx context.Context, qs []*core.Request, everyone bool) {
	_, _ = c.tell(ctx, closes(qs, everyone))
}

// Finish implements Ender (fastpaxos.FP23).
func (c *Client) Finish(ctx context.Context, o *core.Option, known map[string]core.Verdict) (committed bool, err error) {
	return c.finish(ctx, o, known, len(known) > 0)
}

// finish is Finish; sealed is as learn's.
func (c *Client) finish(ctx context.Context, o *core.Option, known map[string]core.Verdict, sealed bool) (committed bool, err error) {
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
func (c *Client) learn(ctx context.Context, k keys.Key, o core.Option, sealed bool) (l core.Learned, err error) {
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
func (c *Client) recall(ctx context.Context, k keys.Key, n core.Name) (l core.Learned, err error) {
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

// stale is how old an option is before others than its gateway finish its transaction: as long as the leader protocol waits for a heartbeat.
const stale = commit.Expiry

// clearAsks is for how long an option has stood in the way when its gateway is asked about it, and again. Chosen by us.
const clearAsks = time.Second

// clear returns when an option that stood in the way does not any more, which it takes care of once that is old enough.
func (c *Client) clear(ctx context.Context, b blocker) error {
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
func (c *Client) finishDangling(ctx context.Context, b blocker) error {
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
	case f.outcome == core.Past:
		_, err := c.rule(ctx, b.key, core.Option{Name: n, Keys: []keys.Key{b.key}, Anchor: b.option.Anchor}, true)
		return err
	case f.option == nil:
		return nil
	case f.outcome == core.Undecided:
		status, err := c.stands(ctx, b.option, b.key)
		if err != nil || status != kv.Committed && status != kv.Aborted {
			return err
		}
		f.outcome = core.Rejected
		if status == kv.Committed {
			f.outcome = core.Accepted
		}
	}
	_, err = c.tell(ctx, []*core.Request{end(b.key, *f.option, f.outcome == core.Accepted)})
	return err
}

// found is what a quorum of a record's acceptors know of an option.
type found struct {
	outcome core.Verdict
	option  *core.Option // nil: nobody has it outstanding
}

func (c *Client) find(ctx context.Context, k keys.Key, n core.Name) (f found, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		f = found{}
		heard := 0
		enough, err := c.each(ctx, []*core.Request{{Kind: core.Query, Key: k}}, func(d *kv.RangeDescriptor, _ kv.ReplicaID, rs []*core.Reply) bool {
			r := rs[0].Record
			if r == nil {
				return true
			}
			heard++
			if v := r.Vote(n); v != nil && f.option == nil {
				o := v.Option
				f.option = &o
			}
			if out := r.Outcome(n); f.outcome == core.Undecided || out == core.Accepted || out == core.Rejected {
				f.outcome = out
			}
			return heard < core.QuorumsIn(d).Classic
		})
		if enough || isOther(err) {
			return f, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return f, err
		}
	}
}

// stands asks the record of an option's transaction whether that was committed at the option's timestamp. Pending: it is alive, and its gateway
// knows soon.
func (c *Client) stands(ctx context.Context, o *core.Option, k keys.Key) (kv.Status, error) {
	t := kv.Txn{TxnMeta: kv.TxnMeta{ID: o.Txn, Anchor: o.Anchor, WriteTimestamp: o.At, MinTimestamp: o.At}, Status: kv.Pending}
	meta := t.TxnMeta
	resp, err := c.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.QueryTxnRequest{Txn: meta}}})
	if err != nil {
		return kv.Pending, err
	}
	q, ok := one[*kv.QueryTxnResponse](resp)
	if !ok {
		return kv.Pending, errOther
	}
	if q.Exists {
		t = q.Txn
	}
	if t.Status == kv.Staging || t.Status == kv.Pending && commit.NewRecord(&t, t.Status).Expired(c.o.Clock.Now()) {
		resp, err := c.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTouch, Key: k}}})
		if err != nil {
			return kv.Pending, err
		}
		p, ok := one[*kv.PushTxnResponse](resp)
		if !ok {
			return kv.Pending, errOther
		}
		t = p.Pushee
	}
	switch {
	case t.Status == kv.Committed && t.WriteTimestamp != o.At:
		return kv.Aborted, nil // this option is of an attempt that was given up
	case t.Status == kv.Committed || t.Status == kv.Aborted:
		return t.Status, nil
	}
	return kv.Pending, nil
}

func one[T kv.Response](b *kv.BatchResponse) (r T, ok bool) {
	if len(b.Responses) == 1 {
		r, ok = b.Responses[0].(T)
	}
	return r, ok
}

var errOther error = &kv.InternalError{Message: "fastpaxos: a range answered another question"}

// Witness answers whether a transaction's options were learned as accepted, and prevents those that were not (commit.Finisher).
func (c *Client) Witness(ctx context.Context, r *commit.Record, writes []kv.InFlightWrite) (all bool, err error) {
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
func (c *Client) Resolve(ctx context.Context, spans []keys.Span, meta kv.TxnMeta, status kv.Status, _ []kv.SeqRange) error {
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

// send asks the nearest replica.
func (c *Client) send(ctx context.Context, q *core.Request) (*core.Reply, error) {
	rs, err := c.nearest(ctx, []*core.Request{q})
	if err != nil {
		return nil, err
	}
	return rs[0], nil
}

// nearest asks the nearest replicas, again while the range changes. Nobody relies on what these say as on a promise: a Query of one is for those who would like to know when to
// go on, so no other node has to hear of it first (fence.FE5).
func (c *Client) nearest(ctx context.Context, qs []*core.Request) ([]*core.Reply, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		b := batch(qs)
		b.Target = kv.ToNearest
		for _, r := range b.Requests {
			r.(*kv.ProtocolRequest).Reads = true
		}
		resp, err := c.o.Sender.Send(ctx, b)
		if err == nil {
			return replies(resp, len(qs), 0)
		}
		if !changing(err) {
			return nil, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}
