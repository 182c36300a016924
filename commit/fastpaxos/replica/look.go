package replica

import (
	"bytes"
	"slices"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// look reads rows of a range from its base, and from what the acceptor knows beyond it. They are committed, so that nothing has to be
// durable before the answer leaves (fastpaxos.FP8).
func (a *Voter) look(src engine.Reader, now clock.Timestamp, rows func() *mvcc.Reader, d *kv.RangeDescriptor, q *core.Look) (out core.Looked, err error) {
	add := func(k keys.Key, g *core.Record, always bool) error {
		if a.Unsure(g) {
			if err := a.renewed(rows(), k, g); err != nil {
				return err
			}
		}
		if q.Open {
			always = true
			for i := range g.Votes {
				if v := &g.Votes[i]; v.Verdict == core.Accepted {
					out.Open = append(out.Open, core.Outstanding{Key: k, Option: core.Option{Name: v.Name, Keys: v.Keys, Anchor: v.Anchor}})
				}
			}
		}
		if g.Behind() {
			out.Behind = append(out.Behind, k)
			return nil
		}
		if len(g.Votes) > 0 && a.news != nil {
			oldest := g.Votes[0].At // of one that came first; another gateway's may be older
			for i := range g.Votes[1:] {
				if at := g.Votes[1+i].At; at.Less(oldest) {
					oldest = at
				}
			}
			if old := time.Duration(now.Wall - oldest.Wall); old > voteYoung {
				out.Stale = append(out.Stale, core.StaleRow{Key: k, For: old, Vote: true})
			}
		}
		row, err := g.Row(k, a.Columns())
		if err == nil && (always || row.Value != nil) {
			out.Rows = append(out.Rows, row)
		}
		return err
	}
	if q.Keys != nil {
		for _, k := range q.Keys {
			g := a.Record(k)
			if g == nil {
				if v, ok := a.looked[string(k)]; ok && !q.Open && (a.news == nil || a.news.lacks.Load() == 0) {
					g = &core.Record{Base: v} // as it was for the read before, of the same transaction mostly
				} else if g, err = a.fromBase(src, rows, k); err != nil {
					return out, err
				} else {
					a.saw(k, g)
				}
				g = a.Over(k, g)
			}
			if err := add(k, g, true); err != nil {
				return out, err
			}
		}
		return out, nil
	}
	// The range may have a part of the span only.
	all := q.Span
	if rest := (keys.Span{Start: d.End, End: all.End}); d.End.Compare(all.End) < 0 {
		all.End = d.End
		if q.Reverse {
			return out, &kv.RangeMismatchError{Span: rest, Infos: []kv.RangeInfo{{Desc: *d}}}
		}
		out.Resume = &rest
	}
	r := rows()
	known, err := a.apart(src, r, all)
	if err != nil {
		return out, err
	}
	res, err := r.Scan(all.Start, all.End, &mvcc.ScanOptions{Reverse: q.Reverse, MaxKeys: q.Max, TargetBytes: q.Bytes,
		ReadOptions: mvcc.ReadOptions{Timestamp: clock.MaxTimestamp, NoLocks: true}})
	if err != nil {
		return out, err
	}
	part := all
	if res.Resume != nil {
		if q.Reverse {
			out.Resume = res.Resume
			part.Start = res.Resume.End
		} else {
			out.Resume = &keys.Span{Start: res.Resume.Start, End: q.Span.End}
			part.End = res.Resume.Start
		}
	}
	for _, kvs := range res.Rows {
		if known[string(kvs.Key)] == nil {
			out.Rows = append(out.Rows, core.Row{Key: kvs.Key, Value: kvs.Value, Seen: core.Seen{Base: kvs.Timestamp}, Last: kvs.Timestamp})
		}
	}
	for k, g := range known {
		if part.Contains(keys.Key(k)) {
			if err := add(keys.Key(k), g, false); err != nil {
				return out, err
			}
		}
	}
	slices.SortFunc(out.Behind, keys.Key.Compare)
	slices.SortFunc(out.Rows, func(x, y core.Row) int {
		if q.Reverse {
			x, y = y, x
		}
		return bytes.Compare(x.Key, y.Key)
	})
	if n := int(q.Max); n > 0 && len(out.Rows) > n {
		rest := q.Span
		if q.Reverse {
			rest.End = out.Rows[n-1].Key
		} else {
			rest.Start = out.Rows[n-1].Key.Next()
		}
		out.Rows, out.Resume = out.Rows[:n], &rest
		out.Behind = slices.DeleteFunc(out.Behind, rest.Contains)
	}
	return out, nil
}

// catchUp has what is read from here on be as new as the base, if that has become as new as others have told (fastpaxos.FP86).
func (a *Voter) catchUp(src engine.Reader, applied func(engine.Reader) (uint64, error)) error {
	some, err := a.news.caughtUp(src, applied)
	if some {
		a.CaughtUp()
		clear(a.looked)
		a.gap.forget()
	}
	return err
}

// renewed has a record take over the base's version, if it lacks that.
func (a *Voter) renewed(r *mvcc.Reader, k keys.Key, g *core.Record) error {
	at, v, err := r.Latest(k)
	if err == nil {
		a.Renew(k, g, core.Value{At: at, Data: v})
	}
	return err
}

// apart are the records of a span that may differ from the row that the base has.
func (a *Voter) apart(src engine.Reader, r *mvcc.Reader, span keys.Span) (out map[string]*core.Record, err error) {
	out = map[string]*core.Record{}
	var sides []side
	if !a.bare {
		if sides, err = sidesOf(src, span); err != nil {
			return nil, err
		}
	}
	for i := range sides {
		k := sides[i].key
		if a.Has(k) {
			continue
		}
		if out[string(k)], err = onBase(r, k, &sides[i]); err != nil {
			return nil, err
		}
	}
	err = a.Overlay(span, func(k keys.Key) (*core.Record, error) { return onBase(r, k, nil) }, out)
	return out, err
}
