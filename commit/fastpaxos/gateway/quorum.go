package gateway

import (
	"context"
	"slices"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Questions to quorums about records, and to the record of a transaction.

// newest is the newest physical version of a row that some of its acceptors know, and whether others of these do not.
func (c *caller) newest(ctx context.Context, k keys.Key, enough func(core.Quorums) int) (v core.Value, floor clock.Timestamp, behind bool, err error) {
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

// ahead reads at whichever replica first answers that it is not behind.
func (c *caller) ahead(ctx context.Context, q *core.Request) (out *core.Looked, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		enough, err := c.each(ctx, []*core.Request{q}, func(_ *kv.RangeDescriptor, _ kv.ReplicaID, rs []*core.Reply) bool {
			out = rs[0].Looked
			return out == nil || len(out.Behind) > 0
		})
		if enough {
			return out, nil
		}
		if isOther(err) {
			return nil, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// gathered is what the replicas of a classic quorum, in one generation, have answered.
type gathered struct {
	at   core.Place
	rs   [][]*core.Reply
	from []kv.ReplicaID
}

// gather asks requests of a classic quorum of one range.
func (c *caller) gather(ctx context.Context, qs []*core.Request) (g gathered, err error) {
	_, err = c.each(ctx, qs, func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) bool {
		if g.at != core.PlaceOf(d) {
			g = gathered{at: core.PlaceOf(d)}
		}
		if !slices.Contains(g.from, from) && !slices.ContainsFunc(rs, func(r *core.Reply) bool { return r.Looked == nil }) {
			g.from, g.rs = append(g.from, from), append(g.rs, rs)
		}
		return len(g.rs) < core.QuorumsIn(d).Classic
	})
	return g, err
}

// merge gives the rows of the part of a span that all replicas have read, as far as all of them have the same state of a row, and the keys of which they know different things, or of which there are options.
func (g *gathered) merge(q *core.Look) (rows []core.Row, read keys.Span, unsure []keys.Key) {
	read = q.Span
	for _, rs := range g.rs {
		switch l := rs[0].Looked; {
		case l.Resume == nil:
		case q.Reverse && read.Start.Less(l.Resume.End):
			read.Start = l.Resume.End
		case !q.Reverse && l.Resume.Start.Less(read.End):
			read.End = l.Resume.Start
		}
	}
	type known struct {
		row    core.Row
		times  int
		differ bool
	}
	all := map[string]*known{}
	at := func(k keys.Key) *known {
		x := all[string(k)]
		if x == nil {
			x = &known{}
			all[string(k)] = x
		}
		return x
	}
	for _, rs := range g.rs {
		l := rs[0].Looked
		for _, w := range l.Rows {
			x := at(w.Key)
			x.differ = x.differ || x.times > 0 && x.row.Seen != w.Seen
			x.row = w
			x.times++
		}
		for _, k := range l.Behind {
			at(k).differ = true
		}
		for _, o := range l.Open {
			at(o.Key).differ = true
		}
	}
	for k, x := range all {
		switch {
		case !read.Contains(keys.Key(k)):
		case x.differ || x.times < len(g.rs):
			unsure = append(unsure, keys.Key(k))
		default:
			rows = append(rows, x.row)
		}
	}
	slices.SortFunc(unsure, keys.Key.Compare)
	return rows, read, unsure
}

// quorum is all that a classic quorum knows of a record.
func (c *caller) quorum(ctx context.Context, k keys.Key) (r *core.Record, err error) {
	var at core.Place
	heard := 0
	_, err = c.each(ctx, []*core.Request{{Kind: core.Query, Key: k}}, func(d *kv.RangeDescriptor, _ kv.ReplicaID, rs []*core.Reply) bool {
		if rs[0].Record == nil {
			return true
		}
		if at != core.PlaceOf(d) {
			at, r, heard = core.PlaceOf(d), &core.Record{}, 0
		}
		r.Join(rs[0].Record)
		heard++
		return heard < core.QuorumsIn(d).Classic
	})
	return r, err
}

// found is what a quorum of a record's acceptors know of an option.
type found struct {
	verdict core.Verdict
	option  *core.Option // nil: nobody has it outstanding
}

func (c *caller) find(ctx context.Context, k keys.Key, n core.Name) (f found, err error) {
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
			if out := r.Outcome(n); f.verdict == core.Undecided || out == core.Accepted || out == core.Rejected {
				f.verdict = out
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
func (c *caller) stands(ctx context.Context, o *core.Option, k keys.Key) (kv.Status, error) {
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
