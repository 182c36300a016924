package gateway

import (
	"context"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// mendedAtOnce bounds what is mended at a node at the same time. Chosen by us.
const mendedAtOnce = 8

// Mend implements Mender.
func (c *finisher) Mend(k keys.Key, o *core.Option) {
	c.mend(k, func(ctx context.Context) error {
		if o != nil {
			return c.mendOption(ctx, k, o)
		}
		return c.mendVersions(ctx, k)
	})
}

// MendOutcome implements Mender.
func (c *finisher) MendOutcome(k keys.Key, o *core.Option) {
	c.mend(k, func(ctx context.Context) error { return c.mendOutcome(ctx, o) })
}

func (c *finisher) mend(k keys.Key, f func(ctx context.Context) error) {
	c.mu.Lock()
	if c.mending[string(k)] || len(c.mending) >= mendedAtOnce {
		c.mu.Unlock()
		return // its replica finds it again
	}
	c.mending[string(k)] = true
	c.mu.Unlock()
	c.later(func(ctx context.Context) {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.mending, string(k))
		}()
		_ = f(ctx) // if it fails, its replica finds it again
	})
}

func (c *finisher) mendOption(ctx context.Context, k keys.Key, o *core.Option) error {
	f, err := c.find(ctx, k, o.Name)
	if err != nil {
		return err
	}
	if f.verdict != core.Accepted && f.verdict != core.Rejected {
		if !c.abandoned(ctx, o) {
			return nil // it is found again
		}
		return c.finishDangling(ctx, blocker{k, o})
	}
	_, err = c.tell(ctx, []*core.Request{end(k, *o, f.verdict == core.Accepted)})
	return err
}

// mendVersions has a master make a record the same at a quorum and at all replicas that answer, with commuting updates as a version. It need not decide about anything.
func (c *finisher) mendVersions(ctx context.Context, k keys.Key) error {
	v, _, _, err := c.newest(ctx, k, func(q core.Quorums) int { return q.Classic })
	if err != nil {
		return err
	}
	_, err = c.rule(ctx, k, core.Option{Name: core.Name{At: v.At}, Keys: []keys.Key{k}}, true)
	return err
}

// mendOutcome has the outcome of a transaction forgotten whose gateway has not said that all of its options have ended. A master of each record tells all of its replicas first.
func (c *finisher) mendOutcome(ctx context.Context, o *core.Option) error {
	if _, err := c.Finish(ctx, o, nil); err != nil {
		return err
	}
	qs := make([]*core.Request, len(o.Keys))
	for i, k := range o.Keys {
		qs[i] = &core.Request{Kind: core.Forget, Key: k, Option: core.Option{Name: o.Name}}
	}
	_, err := c.tell(ctx, qs)
	return err
}

// Check is NewsOptions.Check: it has the transaction of an option end that a row here has heard nothing of, and all replicas hear of it. lacks: the row here lacks what it has written.
func (c *finisher) Check(ctx context.Context, k keys.Key, n core.Name) (lacks bool, err error) {
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
