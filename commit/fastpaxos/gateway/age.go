package gateway

import (
	"context"
	"slices"
	"time"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
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
	// fateAfter is how old an option is before its gateway is asked whether it is at work still.
	fateAfter = 300 * time.Millisecond
)

// reaches is how long a classic quorum of a key's range may take to answer, zero if it has not answered a moment ago. A node that is late with one answer seems silent, and may have this range's at once: where too
// few of them seem to be there, a quorum has a little time all the same.
func (c *reader) reaches(ctx context.Context, k keys.Key) (id kv.RangeID, within time.Duration) {
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
func (c *reader) renewing(ctx context.Context, k keys.Key, f func(context.Context) error) (renewed bool, err error) {
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

// renew reads rows again that may be too old.
func (c *reader) renewRows(ctx context.Context, rows []core.Row, which []int) error {
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
func (c *reader) renewScan(ctx context.Context, q *core.Look, l *core.Looked) (*core.Looked, error) {
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
