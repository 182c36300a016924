package gateway

import (
	"context"
	"slices"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// Reads of the default level: at the nearest replicas.

// read reads rows at the nearest replicas.
func (c *reader) read(ctx context.Context, ks []keys.Key) ([]core.Row, error) {
	return c.readWithin(ctx, ks, core.StalenessMost)
}

// readWithin is read for a reader that allows the rows to be so old (fastpaxos.FP85).
func (c *reader) readWithin(ctx context.Context, ks []keys.Key, within time.Duration) ([]core.Row, error) {
	if len(ks) == 0 {
		return nil, nil
	}
	// Each key has its own request, so that the batch can be divided.
	qs := make([]*core.Request, len(ks))
	for i, k := range ks {
		qs[i] = &core.Request{Kind: core.Read, Key: k, Look: &core.Look{Keys: []keys.Key{k}}}
	}
	before := c.known(ks)
	rs, err := c.nearest(ctx, before.first(qs...))
	if err != nil {
		return nil, err
	}
	rs = rs[len(before.shows):]
	c.shown(before.shows)
	rows := make([]core.Row, len(ks))
	var old []int
	for i, r := range rs {
		l := r.Looked
		if l == nil || len(l.Rows)+len(l.Behind) != 1 {
			return nil, errOther
		}
		if len(l.Behind) > 0 {
			if l, err = c.ahead(ctx, qs[i]); err != nil {
				return nil, err
			}
			if len(l.Rows) != 1 {
				return nil, errOther
			}
		}
		if l.TooOld(within) {
			old = append(old, i)
		}
		rows[i] = l.Rows[0]
		before.version(&rows[i])
	}
	if err := c.renewRows(ctx, rows, old); err != nil {
		return nil, err
	}
	return rows, c.reread(ctx, rows, c.sighted(rows), within)
}

func (c *reader) scan(ctx context.Context, o txn.ScanOptions, within time.Duration) (rows []core.Row, resume *keys.Span, err error) {
	var part keys.Span
	var l *core.Looked
	var before known
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if part, err = c.part(ctx, o.Span, o.Reverse); err != nil {
			return nil, nil, err
		}
		q := &core.Request{Kind: core.Read, Key: part.Start, Look: &core.Look{Span: part, Reverse: o.Reverse, Max: o.MaxRows, Bytes: o.TargetBytes}}
		before = c.knownIn(part)
		b := batch(before.first(q))
		b.Requests[len(before.shows)].(*kv.ProtocolRequest).End = part.End
		b.Target = kv.ToNearest
		resp, err := c.o.Sender.Send(ctx, b)
		var rs []*core.Reply
		if err == nil {
			rs, err = replies(resp, len(before.shows)+1, len(before.shows))
		}
		if err == nil {
			c.shown(before.shows)
			if l = rs[0].Looked; l == nil {
				return nil, nil, errOther
			}
			if len(l.Behind) == 0 {
				break
			}
			if l, err = c.ahead(ctx, q); err == nil {
				break
			}
		}
		// The range may have split since its part was cut out.
		if now, e := c.part(ctx, o.Span, o.Reverse); e == nil && now.Start.Equal(part.Start) && now.End.Equal(part.End) && !changing(err) {
			return nil, nil, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, nil, err
		}
	}
	if l.Age > within {
		if l, err = c.renewScan(ctx, &core.Look{Span: part, Reverse: o.Reverse, Max: o.MaxRows, Bytes: o.TargetBytes}, l); err != nil {
			return nil, nil, err
		}
	}
	if rows, resume, err = c.withOwn(ctx, part, l, &before, o, within); err != nil {
		return nil, nil, err
	}
	switch rest := o.Span; {
	case resume != nil && o.Reverse:
		rest.End = resume.End
		return rows, &rest, nil
	case resume != nil:
		rest.Start = resume.Start
		return rows, &rest, nil
	case o.Reverse && rest.Start.Less(part.Start):
		rest.End = part.Start
		return rows, &rest, nil
	case !o.Reverse && part.End.Less(rest.End):
		rest.Start = part.End
		return rows, &rest, nil
	}
	return rows, nil, nil
}

// withOwn adds what this gateway had committed before to the rows of a part of a span, which a replica has read.
func (c *reader) withOwn(ctx context.Context, part keys.Span, l *core.Looked, before *known, o txn.ScanOptions, within time.Duration) ([]core.Row, *keys.Span, error) {
	read := part
	switch {
	case l.Resume == nil:
	case o.Reverse:
		read.Start = l.Resume.End
	default:
		read.End = l.Resume.Start
	}
	rows, old := l.Rows, l.StaleRows(within)
	if len(old) > 0 {
		rows = slices.DeleteFunc(rows, func(w core.Row) bool { return slices.ContainsFunc(old, w.Key.Equal) })
	}
	// A row that the replica has not found may have been deleted since.
	gone := c.unsighted(read, rows)
	for _, k := range old {
		if read.Contains(k) && !slices.ContainsFunc(gone, k.Equal) {
			gone = append(gone, k)
		}
	}
	for k := range before.own {
		is := keys.Key(k).Equal
		if read.Contains(keys.Key(k)) && !slices.ContainsFunc(gone, is) && !slices.ContainsFunc(rows, func(w core.Row) bool { return is(w.Key) }) {
			gone = append(gone, keys.Key(k))
		}
	}
	more, err := c.readWithin(ctx, gone, within)
	if err != nil {
		return nil, nil, err
	}
	for i := range rows {
		before.version(&rows[i])
	}
	if err := c.reread(ctx, rows, c.sighted(rows), within); err != nil {
		return nil, nil, err
	}
	rows = slices.DeleteFunc(append(rows, more...), func(w core.Row) bool { return w.Value == nil })
	slices.SortFunc(rows, func(a, b core.Row) int {
		if o.Reverse {
			a, b = b, a
		}
		return a.Key.Compare(b.Key)
	})
	resume := l.Resume
	if n := int(o.MaxRows); n > 0 && len(rows) > n {
		rest := part
		if o.Reverse {
			rest.End = rows[n-1].Key
		} else {
			rest.Start = rows[n-1].Key.Next()
		}
		rows, resume = rows[:n], &rest
	}
	return rows, resume, nil
}

// refresh asks a quorum for a row of which the nearest replica had not the newest version, so that the next transaction of this gateway reads that. If
// the replica does not get the version from others soon, it gets it from here (fastpaxos.FP22). floor is a timestamp at or below which the record accepts nothing any more.
func (c *reader) refresh(ctx context.Context, k keys.Key, seen clock.Timestamp) (floor clock.Timestamp, err error) {
	newest, floor, _, err := c.newest(ctx, k, func(q core.Quorums) int { return q.Classic })
	if err != nil || newest.At.LessEq(seen) {
		return floor, err
	}
	if !c.owns(k, newest) {
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
