package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// Questions of a gateway to replicas: to all voters of a range, or to the nearest ones.

// caller asks: replicas of ranges, and gateways of other nodes. It remembers nothing, so all types of this package that ask share one.
type caller struct{ o ClientOptions }

// Chosen by us: a seal lasts for a round trip or two. A round that hangs, because the replicas of a quorum do not answer, may be one by an old
// descriptor.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	roundTime  = time.Second
	// background bounds what is done for a transaction after its client was answered; others finish it otherwise.
	background = 20 * time.Second
	// parallel bounds the records of one transaction that have a master here at the same time.
	parallel = 32
)

// pause sleeps between d/2 and 3d/2: rivals for a record, and those who wait for a range to open, do not wait for equally long.
func (c *caller) pause(ctx context.Context, d time.Duration) error {
	if err := c.o.Host.Clock.Sleep(ctx, d/2+time.Duration(c.o.Host.Dice.Int64N(int64(d)))); err != nil {
		return err
	}
	if c.o.Host.Group.Context().Err() != nil {
		return &kv.UnavailableError{Reason: "the node is stopping"}
	}
	return nil
}

// later runs f apart from the caller, for a bounded time.
func (c *caller) later(f func(ctx context.Context)) {
	c.o.Host.Group.Go(func(ctx context.Context) {
		ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, background)
		defer cancel()
		f(ctx)
	})
}

// all runs f for each of n, some at the same time, and returns the first error.
func (c *caller) all(n int, f func(int) error) error {
	errs := make(chan error, n)
	begun := 0
	var first error
	wait := func() {
		begun--
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	for i := range n {
		if begun == parallel {
			wait()
		}
		begun++
		if n == 1 || !c.o.Host.Group.Go(func(context.Context) { errs <- f(i) }) {
			errs <- f(i)
		}
	}
	for begun > 0 {
		wait()
	}
	return first
}

// grouped divides records by their ranges, as far as is known. i is the index of a record in ks.
func (c *caller) grouped(ctx context.Context, ks []keys.Key) (groups [][]int, descs []kv.RangeDescriptor, err error) {
next:
	for i, k := range ks {
		for j := range descs {
			if descs[j].Contains(k) {
				groups[j] = append(groups[j], i)
				continue next
			}
		}
		info, err := c.o.Sender.Range(ctx, k, false)
		if err != nil {
			return nil, nil, err
		}
		descs, groups = append(descs, info.Desc), append(groups, []int{i})
	}
	return groups, descs, nil
}

// part is the part of a span, at the end where a scan begins, that is in one range.
func (c *caller) part(ctx context.Context, s keys.Span, reverse bool) (keys.Span, error) {
	k := s.Start
	if reverse {
		k = s.End
	}
	info, err := c.o.Sender.Range(ctx, k, false)
	if err != nil {
		return s, err
	}
	d := &info.Desc
	if reverse && d.Start.Compare(s.End) >= 0 {
		// The span ends where this range begins: the last one before it is found from the other end.
		for k = s.Start; ; k = d.End {
			if info, err = c.o.Sender.Range(ctx, k, false); err != nil {
				return s, err
			}
			if d = &info.Desc; d.End.Compare(s.End) >= 0 {
				break
			}
		}
	}
	if s.Start.Less(d.Start) {
		s.Start = d.Start
	}
	if d.End.Less(s.End) {
		s.End = d.End
	}
	return s, nil
}

func batch(qs []*core.Request) *kv.Batch {
	b := &kv.Batch{Header: kv.Header{Protocol: kv.FastPaxos}, Requests: make([]kv.Request, len(qs))}
	rs, size := make([]kv.ProtocolRequest, len(qs)), 0
	for _, q := range qs {
		size += q.Size()
	}
	bodies := make([]byte, 0, size)
	for i, q := range qs {
		at := len(bodies)
		bodies = q.Append(bodies)
		rs[i] = kv.ProtocolRequest{Key: q.Key, Body: bodies[at:len(bodies):len(bodies)], Reads: q.Kind == core.Read || q.Kind == core.Show}
		b.Requests[i] = &rs[i]
	}
	return b
}

// replies are those to all but the first of n requests.
func replies(b *kv.BatchResponse, n, first int) ([]*core.Reply, error) {
	if len(b.Responses) != n {
		return nil, &kv.InternalError{Message: "fastpaxos: a replica answered another question"}
	}
	out := make([]*core.Reply, n-first)
	for i, one := range b.Responses[first:] {
		p, ok := one.(*kv.ProtocolResponse)
		if !ok {
			return nil, &kv.InternalError{Message: "fastpaxos: a replica answered another question"}
		}
		var err error
		if out[i], err = core.DecodeReply(p.Body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// question is what all voters of one range are asked.
type question struct {
	qs []*core.Request
	// front is how many of them are ends of other transactions.
	front int
	// f is called with the answers to the others until it has enough.
	f func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) (more bool)
	// silent, if not nil, is called with those who do not answer, or not in time. The answer of one that was silent may follow.
	silent func(d *kv.RangeDescriptor, from kv.ReplicaID) (more bool)

	enough bool
	other  *kv.ProtocolError
	bad    error
}

// read gives the replies of one replica, or why there are none.
func (u *question) read(a *route.Answer) ([]*core.Reply, error) {
	if a.Err != nil {
		return nil, a.Err
	}
	return replies(a.Resp, len(u.qs), u.front)
}

// take takes them in.
func (u *question) take(a *route.Answer, rs []*core.Reply, err error) {
	switch {
	case u.enough:
	case err != nil:
		u.bad = err
		if p := isGone(a); p != nil {
			u.other = p
		}
		var unavailable *kv.UnavailableError
		if u.silent != nil && u.other == nil && a.Desc != nil && errors.As(a.Err, &unavailable) {
			u.enough = !u.silent(a.Desc, a.From.Replica)
		}
	default:
		u.enough = !u.f(a.Desc, a.From.Replica, rs)
	}
}

// why says why not enough was heard; err is what the sender says. *kv.ProtocolError: the range has another protocol.
func (u *question) why(err error) error {
	switch {
	case u.other != nil:
		return u.other
	case err == nil:
		err = u.bad
	}
	if err == nil {
		err = &kv.UnavailableError{Reason: "fastpaxos: too few replicas have answered"}
	}
	return err
}

// isGone says that the range of an answer has another protocol.
func isGone(a *route.Answer) (p *kv.ProtocolError) {
	if errors.As(a.Err, &p) && (p.Desc == nil || a.Desc == nil || p.Desc.Generation >= a.Desc.Generation) { // else the replica is behind
		return p
	}
	return nil
}

func isOther(err error) bool {
	var other *kv.ProtocolError
	return errors.As(err, &other)
}

var errOther error = &kv.InternalError{Message: "fastpaxos: a range answered another question"}

// changing reports whether an error says that a range is changing, and helps itself soon.
func changing(err error) bool {
	var generation *kv.GenerationError
	var mismatch *kv.RangeMismatchError
	return errors.As(err, &generation) || errors.As(err, &mismatch)
}

// asks asks all voters of some ranges once, until enough was heard of each, or f.More says no. tap, if not nil, hears of each answer, and of those that come later if
// f.Ended is to be called after them.
func (c *caller) asks(ctx context.Context, us []*question, f *route.Fan, tap func(i int, a *route.Answer, err error)) error {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, roundTime)
	defer cancel()
	f.Batches = make([]*kv.Batch, len(us))
	for i, u := range us {
		f.Batches[i] = batch(u.qs)
	}
	f.Answer = func(i int, a route.Answer) bool {
		rs, err := us[i].read(&a)
		if tap != nil {
			tap(i, &a, err)
		}
		us[i].take(&a, rs, err)
		if f.More != nil && !f.More() {
			return false
		}
		return slices.ContainsFunc(us, func(u *question) bool { return !u.enough })
	}
	if f.Ended != nil {
		f.Late = func(i int, a route.Answer) {
			_, err := us[i].read(&a)
			tap(i, &a, err)
		}
	}
	return c.o.Sender.All(ctx, f)
}

// each asks all voters of a range once. f is called with their answers until it has enough; otherwise the error says why it has not.
// *kv.ProtocolError: the range has another protocol.
func (c *caller) each(ctx context.Context, qs []*core.Request, f func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) (more bool)) (enough bool, err error) {
	u := &question{qs: qs, f: f}
	if err := c.asks(ctx, []*question{u}, &route.Fan{}, nil); !u.enough {
		return false, u.why(err)
	}
	return true, nil
}

// send asks the nearest replica.
func (c *caller) send(ctx context.Context, q *core.Request) (*core.Reply, error) {
	rs, err := c.nearest(ctx, []*core.Request{q})
	if err != nil {
		return nil, err
	}
	return rs[0], nil
}

// nearest asks the nearest replicas, again while the range changes. Nobody relies on what these say as on a promise: a Query of one is for those who would like to know when to
// go on, so no other node has to hear of it first (fence.FE5).
func (c *caller) nearest(ctx context.Context, qs []*core.Request) ([]*core.Reply, error) {
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

// awaitOpened returns when the nearest replicas of some records act again, or have heard of the next generation of their ranges, or do not say so for a while.
func (c *caller) awaitOpened(ctx context.Context, ks []keys.Key) {
	groups, _, err := c.grouped(ctx, ks)
	if err != nil {
		return
	}
	_ = c.all(len(groups), func(i int) error {
		b := batch([]*core.Request{{Kind: core.Query, Key: ks[groups[i][0]]}})
		b.Target = kv.ToNearest
		_, _ = c.o.Sender.Send(ctx, b)
		return nil
	})
}

func end(k keys.Key, o core.Option, committed bool) *core.Request {
	return &core.Request{Kind: core.End, Key: k, Option: o, Committed: committed}
}
