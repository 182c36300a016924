package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/transport"
)

// How a gateway keeps what the default level reads from being older than its sessions allow (fastpaxos.FP85): an answer that may be older is not used if a quorum gives a newer one.

// Chosen by us.
const (
	// renewWithin bounds the wait for a quorum; afterwards the answer of the nearest replica is used, and for unreachedFor no quorum of the range is asked.
	renewWithin, unreachedFor = 2 * roundTime, time.Second
	// doubtfulWithin bounds the wait for a quorum whose nodes seem silent.
	doubtfulWithin = 250 * time.Millisecond
	// concludeWithin bounds the wait of a reader whom a quorum has answered for the outcomes of what it has accepted: other ranges may be out of reach.
	concludeWithin = 10 * roundTime
	// fatesMost bounds the outcomes that are remembered for others.
	fatesMost = 1 << 18
	// fateAfter is how old an option is before its gateway is asked whether it is at work still.
	fateAfter = 300 * time.Millisecond
)

// reaches is how long a classic quorum of a key's range may take to answer, zero if it has not answered a moment ago. A node that is late with one answer seems silent, and may have this range's at once: where too
// few of them seem to be there, a quorum has a little time all the same.
func (c *Client) reaches(ctx context.Context, k keys.Key) (id kv.RangeID, within time.Duration) {
	info, err := c.o.Sender.Range(ctx, k, false)
	if err != nil {
		return 0, 0
	}
	id = info.Desc.ID
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	until := c.unreached[id]
	if until <= now {
		delete(c.unreached, id)
	}
	c.mu.Unlock()
	if until > now {
		return id, 0
	}
	n, slowest := 0, time.Duration(0)
	for _, r := range info.Desc.Replicas {
		if !r.Type.Votes() {
			continue
		}
		switch takes, silent := c.pace(r.Node); {
		case r.Node == c.o.NodeID() || !silent:
			n++
		default:
			slowest = max(slowest, takes)
		}
	}
	if n >= core.QuorumsIn(&info.Desc).Classic {
		return id, renewWithin
	}
	return id, min(2*slowest, doubtfulWithin)
}

// renewing asks a quorum for what the nearest replica may have an old answer to. renewed: it has answered.
func (c *Client) renewing(ctx context.Context, k keys.Key, f func(context.Context) error) (renewed bool, err error) {
	id, patience := c.reaches(ctx, k)
	if patience == 0 {
		return false, nil
	}
	long, cancel := c.o.Host.Clock.WithTimeout(ctx, concludeWithin)
	defer cancel()
	within, cancel := c.o.Host.Clock.WithTimeout(context.WithValue(long, concludingKey{}, long), patience)
	defer cancel()
	switch err := f(within); {
	case err == nil:
		return true, nil
	case isOther(err) || ctx.Err() != nil:
		return false, err
	}
	c.mu.Lock()
	c.unreached[id] = c.o.Host.Clock.Monotonic() + unreachedFor
	c.mu.Unlock()
	return false, nil
}

// concludingKey is of the context that bounds the wait for outcomes in one that bounds the wait for a quorum.
type concludingKey struct{}

// concluding is the context for the rest of a fresh read, when a quorum has answered: the master of a row, or the gateway of an option, may have died, so that an outcome takes several rounds. A reader that
// gave up meanwhile would read what is older than the bound allows, though it reaches a quorum (fastpaxos.FP85).
func concluding(ctx context.Context) context.Context {
	if long, ok := ctx.Value(concludingKey{}).(context.Context); ok {
		return long
	}
	return ctx
}

// renew reads rows again that may be too old.
func (c *Client) renewRows(ctx context.Context, rows []core.Row, which []int) error {
	if len(which) == 0 {
		return nil
	}
	ks := make([]keys.Key, len(which))
	for j, i := range which {
		ks[j] = rows[i].Key
	}
	var fresh []core.Row
	renewed, err := c.renewing(ctx, ks[0], func(ctx context.Context) (err error) {
		fresh, err = c.fresh(ctx, kv.TxnID{}, ks)
		return err
	})
	if renewed {
		for j, i := range which {
			rows[i] = fresh[j]
		}
	}
	return err
}

// renewScan reads a part of a span again whose answer may be too old, and gives the new one.
func (c *Client) renewScan(ctx context.Context, q *core.Look, l *core.Looked) (*core.Looked, error) {
	var rows []core.Row
	var read keys.Span
	renewed, err := c.renewing(ctx, q.Span.Start, func(ctx context.Context) (err error) {
		rows, read, err = c.scanFresh(ctx, kv.TxnID{}, *q)
		return err
	})
	if !renewed {
		return l, err
	}
	return &core.Looked{Rows: slices.DeleteFunc(rows, func(w core.Row) bool { return w.Value == nil }), Resume: restOf(q.Span, read, q.Reverse)}, nil
}

// fate is what an option's gateway says of its transaction.
type fate uint8

const (
	// unclear: the gateway was not asked, or is of a release that does not know the question.
	unclear fate = iota
	// working: it is at work on it.
	working
	// won and lost: it has committed, or not, and the replicas are being told.
	won
	lost
	// deserted: the gateway does not answer, or does not know of it.
	deserted
)

// fate asks an option's gateway.
func (c *Client) fate(ctx context.Context, o *core.Option) fate {
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

// fates are the transactions that a gateway works on, and those that it has ended lately.
type fates struct {
	working     map[core.Name]bool
	now, before map[core.Name]bool // whether they have committed
	swapped     time.Duration
}

// fateHere is fate of this gateway's transaction.
func (c *Client) fateHere(n core.Name) fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fates.working[n] {
		return working
	}
	committed, ok := c.fates.now[n]
	if !ok {
		committed, ok = c.fates.before[n]
	}
	switch {
	case !ok:
		return deserted
	case committed:
		return won
	}
	return lost
}

// worksOn says that the gateway is at work on a transaction until the returned function is called.
func (c *Client) worksOn(n core.Name) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fates.working[n] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.fates.working, n)
	}
}

// decided remembers the outcome of a transaction of this gateway for as long as replicas may not have heard. The caller has locked mu.
func (f *fates) decided(n core.Name, committed bool, now time.Duration) {
	if now-f.swapped > 2*stale || len(f.now) > fatesMost {
		f.now, f.before, f.swapped = map[core.Name]bool{}, f.now, now
	}
	f.now[n] = committed
}

// abandoned reports whether an option is old enough for others to end its transaction, or its gateway does not work on it, and has not ended it.
func (c *Client) abandoned(ctx context.Context, o *core.Option) bool {
	switch age := time.Duration(c.o.Clock.Now().Wall - o.At.Wall); {
	case age >= stale:
		return true
	case age < fateAfter || o.Anchor != nil: // its record decides
		return false
	}
	return c.fate(ctx, o) == deserted
}

// Check is NewsOptions.Check: it has the transaction of an option end that a row here has heard nothing of, and all replicas hear of it. lacks: the row here lacks what it has written.
func (c *Client) Check(ctx context.Context, k keys.Key, n core.Name) (lacks bool, err error) {
	var r *core.Record
	past := pastOptions{}
	for again := true; again; {
		if r, err = c.quorum(ctx, k); err != nil {
			return true, err
		}
		if again = false; r.Vote(n) != nil {
			if again, err = c.conclude(ctx, kv.TxnID{}, k, r, past); err != nil {
				return true, err
			}
		}
	}
	if _, added := r.Addition(n); !added && r.Base.At.Less(n.At) && r.Outcome(n) != core.Accepted {
		return false, nil // it was aborted, or has never come to those that answered
	}
	here, err := c.send(ctx, &core.Request{Kind: core.Query, Key: k})
	if err != nil {
		return true, err
	}
	if here.Record != nil && here.Record.Covers(n) {
		return false, nil
	}
	return true, c.mendVersions(ctx, k)
}
