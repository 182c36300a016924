package fastpaxos

import (
	"context"
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Replicas that have missed something, and how they are brought up to date without anybody asking for the rows (§3.2.3). Each replica looks through its records from time to time (Tend):
//
//	an option whose outcome has not come for a while     the outcome is asked for, or the transaction finished if its gateway is gone
//	a version that has not got into the base             the leaseholder lacks it, and is told by a master
//	commuting updates that are not a version yet         a master makes them one, when nobody has added any for a while
//
// The base reaches all replicas by the range's log, whatever they have missed; a record that is older than its base takes over the base's version.
//
// A record of which its replica knows that something is missing is not read there (Behind), and is counted until it is not so any more (Range.Lags).
//
//	fastpaxos.FP26 (I2, liveness): No row stays behind what has committed, at any replica, for longer than it takes until some replicas that are connected have had the time for this. It changes nothing
//	    but what End and masters change: options are decided by the same rules, whoever asks.

// overdueItem is something at a replica that has waited for too long. Option is the one whose outcome has not come; nil: versions are not in the base.
type overdueItem struct {
	key    keys.Key
	option *Option
}

const (
	// overdue is how old a vote, or a version that the base lacks, is when its replica does something about it: longer than transactions of living gateways take. The leaseholder is the first to do so.
	overdue, overdueElsewhere = 8 * time.Second, 14 * time.Second
	// mendedAtOnce bounds what is mended at a node at the same time, and mended what a replica asks for each time it looks.
	mendedAtOnce, mendedTogether = 8, 64
	// basesChecked is how often a record that nobody changes is compared with its base.
	basesChecked = 20 * time.Second
)

// late adds what has waited too long in a record.
func (a *Acceptor) late(k string, r *Record, now clock.Timestamp) {
	if len(a.overdue) >= mendedTogether {
		return
	}
	old := func(t clock.Timestamp) bool {
		return t.Less(now.Add(-overdueElsewhere)) || a.leads && t.Less(now.Add(-overdue))
	}
	for i := range r.Votes {
		if v := &r.Votes[i]; old(v.At) {
			o := v.Option
			a.overdue = append(a.overdue, overdueItem{keys.Key(k), &o})
			return // with the others it is looked at again
		}
	}
	if len(r.Votes) == 0 && (r.kept.base.Less(r.Base.At) && old(r.Base.At) && !a.leads || len(r.Added) > 0 && old(r.Added[len(r.Added)-1].At)) {
		a.overdue = append(a.overdue, overdueItem{key: keys.Key(k)})
	}
}

// lags reports whether this replica knows of a record that it lacks something: a version which an option was made for, or the outcome of an option, for so long that others have it.
func (r *Record) lags(now clock.Timestamp) bool {
	return r.Behind() || slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.At.Less(now.Add(-overdue)) })
}

// Mender brings the replicas of a record up to date; a Client does. The part of the replicas finds it among the node's Finishers.
type Mender interface {
	// Mend has an option's outcome known to its record's replicas, or, of a nil option, their versions made the same. It returns at once.
	Mend(k keys.Key, o *Option)
}

// mend gives the gateway the items that a replica has found.
func (o *ProtocolOptions) mend(items []overdueItem) {
	if len(items) == 0 || o.Finishers == nil {
		return
	}
	m, ok := o.Finishers()[kv.FastPaxos].(Mender)
	if !ok {
		return
	}
	for _, i := range items {
		m.Mend(i.key, i.option)
	}
}

var _ Mender = (*Client)(nil)

// Mend implements Mender.
func (c *Client) Mend(k keys.Key, o *Option) {
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
		if o != nil {
			_ = c.mendOption(ctx, k, o)
		} else {
			_ = c.mendVersions(ctx, k)
		}
	})
}

func (c *Client) mendOption(ctx context.Context, k keys.Key, o *Option) error {
	f, err := c.find(ctx, k, o.Name)
	if err != nil {
		return err
	}
	if f.outcome != Accepted && f.outcome != Rejected {
		return c.finishDangling(ctx, blocker{k, o})
	}
	_, err = c.tell(ctx, []*Request{end(k, *o, f.outcome == Accepted)})
	return err
}

// mendVersions has a master make a record the same at a quorum and at all replicas that answer, with commuting updates as a version. It need not decide about anything.
func (c *Client) mendVersions(ctx context.Context, k keys.Key) error {
	v, _, _, err := c.newest(ctx, k, func(q Quorums) int { return q.Classic })
	if err != nil {
		return err
	}
	_, err = c.rule(ctx, k, Option{Name: Name{At: v.At}, Keys: []keys.Key{k}}, true)
	return err
}
