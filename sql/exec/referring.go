package exec

import (
	"context"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/types"
	"meridian/txn"
)

// The rows that refer to keys may be in all regions, and those of several constraints in several tables. They are looked for at the same time: a statement that removes keys waits for the farthest region once,
// however many regions, constraints and keys there are. Each range answers with a page of what it has; the rest is asked for in further rounds, of all ranges again.

// referring is a constraint and the values of its columns, in the child's types, whose rows are looked for.
type referring struct {
	c    *children
	vals []types.Row
}

// sought is a span in which rows are looked for.
type sought struct {
	keys.Span
	codec *indexCodec
	group int // spans of one group are done together
	// one says that a single row is wanted, and large that the span may have many more rows than those that are looked for.
	one, large bool
	f          func(p *kv.KeyValue) (done bool, err error)
}

// referrers is the search for the rows that refer to events' keys, which are observed first.
func (r *run) referrers(in *fkIn, events []fkEvent) (referring, error) {
	q := referring{&in.children, make([]types.Row, len(events))}
	if err := r.observe(in, events); err != nil {
		return q, err
	}
	for i, e := range events {
		var err error
		if q.vals[i], err = in.values(r, e.vals); err != nil {
			return q, err
		}
	}
	return q, nil
}

// search calls f with the primary key of each row that refers to values: the number of the constraint, and of its values. With one set, it does so once for each of these at most, but perhaps for values that are
// equal to others instead of them.
func (r *run) search(qs []referring, one bool, f func(q, i int, primary keys.Key) error) error {
	var list []sought
	groups := 0
	for n, q := range qs {
		c := q.c
		pk := make(types.Row, len(c.child.Primary().Columns))
		found := func(i int, p *kv.KeyValue) error {
			if err := c.pk.decode(p.Key, p.Value, pk); err != nil {
				return err
			}
			k, err := c.primary.appendPrefix(nil, pk)
			if err != nil {
				return err
			}
			return f(n, i, k)
		}
		if c.perm == nil {
			all, err := c.everything(r, q.vals, one, groups, found)
			if err != nil {
				return err
			}
			list = append(list, all...)
			groups++
			continue
		}
		homes := []types.Datum{{}}
		lead := 0
		if c.regions != nil {
			homes, lead = c.regions, 1
		}
		key := make(types.Row, lead+len(c.perm))
		for i := range q.vals {
			for j, p := range c.perm {
				key[lead+j] = q.vals[i][p]
			}
			for _, home := range homes {
				if lead == 1 {
					key[0] = home
				}
				s, ok, err := c.codec.span(key, nil, false, nil, false)
				if err != nil {
					return err
				}
				if ok {
					list = append(list, sought{Span: s, codec: c.codec, group: groups, one: one, f: func(p *kv.KeyValue) (bool, error) { return one, found(i, p) }})
				}
			}
			groups++
		}
	}
	return r.seek(list, groups)
}

// severalActions reports whether events are of several constraints, one of which has an action: then their rows are looked for one constraint after the other, unless it turns out that there are none.
func severalActions(events []fkEvent) bool {
	var first *fkIn
	several, acts := false, false
	for _, e := range events {
		if e.in == nil {
			continue
		}
		if first == nil {
			first = e.in
		}
		several = several || e.in != first
		acts = acts || groupOf(e).in != nil
	}
	return several && acts
}

// referredTo is events without those of removed keys to which no row refers, as far as the actions of the others can't change that: it leaves out the events of a constraint that has no such rows, if no action is
// going to write its table.
func (r *run) referredTo(events []fkEvent) ([]fkEvent, error) {
	var ins []*fkIn
	byIn := make(map[*fkIn][]fkEvent)
	acts := make(map[*fkIn]bool)
	for _, e := range events {
		if e.in == nil {
			continue
		}
		if byIn[e.in] == nil {
			ins = append(ins, e.in)
		}
		byIn[e.in] = append(byIn[e.in], e)
		acts[e.in] = acts[e.in] || groupOf(e).in != nil
	}
	qs := make([]referring, len(ins))
	for i, in := range ins {
		var err error
		if qs[i], err = r.referrers(in, byIn[in]); err != nil {
			return nil, err
		}
	}
	found := make(map[*fkIn]bool)
	if err := r.search(qs, true, func(q, _ int, _ keys.Key) error {
		found[ins[q]] = true
		return nil
	}); err != nil {
		return nil, err
	}
	written := make(map[catalog.ID]bool)
	for in := range found {
		if acts[in] {
			written[in.child.ID] = true
		}
	}
	left := events[:0]
	for _, e := range events {
		if e.in == nil || found[e.in] || written[e.in.child.ID] {
			left = append(left, e)
		}
	}
	clear(events[len(left):])
	return left, nil
}

// everything is the spans of all rows of the child, of which the values are compared, since no index has them: those of its regions.
func (c *children) everything(r *run, vals []types.Row, one bool, group int, found func(i int, p *kv.KeyValue) error) ([]sought, error) {
	dec, err := newRowDecoder(c.child, c.child.Primary(), c.cols)
	if err != nil {
		return nil, err
	}
	ts, slots := make([]*types.T, len(c.cols)), make([]int, len(c.cols))
	for i, o := range c.cols {
		ts[i], slots[i] = c.child.Columns[o].Type, i
	}
	byKey := make(map[string]int, len(vals))
	var buf []byte
	for i := range vals {
		buf, _ = hashKey(buf[:0], vals[i], slots, ts)
		if _, ok := byKey[string(buf)]; !ok {
			byKey[string(buf)] = i
		}
	}
	row := make(types.Row, len(c.cols))
	return c.all(group, func(p *kv.KeyValue) (bool, error) {
		if err := dec.decode(p.Key, p.Value, row); err != nil {
			return false, err
		}
		var null bool
		buf, null = hashKey(buf[:0], row, slots, ts)
		i, ok := byKey[string(buf)]
		if null || !ok {
			return false, r.tick()
		}
		if one {
			delete(byKey, string(buf))
		}
		return one && len(byKey) == 0, found(i, p)
	})
}

// all is the spans of all rows of the child: one for each region, if it has them in front of its keys.
func (c *children) all(group int, f func(p *kv.KeyValue) (bool, error)) ([]sought, error) {
	spans := []keys.Span{c.primary.all()}
	if byRegion(c.child, c.child.Primary()) && c.primary.filter() == nil {
		var err error
		if spans, err = perRegion(c.child, c.primary); err != nil {
			return nil, err
		}
	}
	out := make([]sought, len(spans))
	for i, s := range spans {
		out[i] = sought{Span: s, codec: c.primary, group: group, large: true, f: f}
	}
	return out, nil
}

// byRegion reports whether an index of a table has the rows' region in front.
func byRegion(t *catalog.Table, x *catalog.Index) bool {
	return t.ByRow() && len(x.Columns) > 0 && x.Columns[0].Column == t.RegionColumn
}

// seekSpans bounds the spans that are asked for at the same time, and seekBytes is how much of its rows each range answers with at least.
const (
	seekSpans = 1024
	seekBytes = 16 << 10
)

// seek reads spans for constraints, all at the same time, until the groups to which they belong are done.
func (r *run) seek(list []sought, groups int) error {
	done := make([]bool, groups)
	for len(list) > 0 {
		n := 0
		for i := range list { // without those that are done
			if !done[list[i].group] {
				list[n], n = list[i], n+1
			}
		}
		clear(list[n:])
		if list = list[:n]; n == 0 {
			return nil
		}
		part := list[:min(n, seekSpans)]
		lists, rests, err := r.seekOnce(part, done)
		if err != nil {
			return err
		}
		for i := range lists {
			s := &part[i]
			for j := range lists[i] {
				if done[s.group] {
					break
				}
				if done[s.group], err = s.f(&lists[i][j]); err != nil {
					return err
				}
			}
		}
		left := list[:0]
		for i := range list {
			if i >= len(part) {
				left = append(left, list[i])
			} else if rests != nil && rests[i] != nil {
				s := list[i]
				s.Span = *rests[i]
				left = append(left, s)
			}
		}
		clear(list[len(left):])
		if list = left; r.ctx.Err() != nil {
			return r.ctx.Err()
		}
	}
	return nil
}

// seekOnce reads first pages of spans, or all of what they have, one after the other, if that is all the ranges allow. Then it has called the functions of the spans itself.
func (r *run) seekOnce(part []sought, done []bool) (lists [][]kv.KeyValue, rests []*keys.Span, err error) {
	spans := make([]keys.Span, len(part))
	filtered, large := false, false
	for i := range part {
		spans[i] = part[i].Span
		filtered, large = filtered || part[i].codec.filter() != nil, large || part[i].large
	}
	if len(part) > 1 && !filtered {
		if lists, rests, ok, err := r.checkFirst(spans, max(seekBytes, min(pageBytes, apartBytes/int64(len(spans))))); ok || err != nil {
			return lists, rests, err
		}
		if !large {
			if lists, err := r.checkScans(spans); !tooLarge(err) {
				return lists, nil, err
			}
		}
	}
	for i := range part {
		s := &part[i]
		if done[s.group] {
			continue
		}
		if done[s.group], err = r.seekAll(s); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, nil
}

// seekAll pages through a span until its function says that it is done.
func (r *run) seekAll(s *sought) (done bool, err error) {
	o := txn.ScanOptions{Span: s.Span, TargetBytes: pageBytes, Filter: s.codec.filter()}
	if s.one {
		o.MaxRows = 1
	}
	for {
		page, resume, err := r.checkScan(o)
		if err != nil {
			return false, err
		}
		for i := range page {
			if done, err = s.f(&page[i]); err != nil || done {
				return done, err
			}
		}
		if resume == nil {
			return false, nil
		}
		if err := r.ctx.Err(); err != nil {
			return false, err
		}
		o.Span = *resume
	}
}

// firstChecker is implemented by a KV whose reads of the beginnings of spans, for a constraint, hold at the commit.
type firstChecker interface {
	CheckFirst(ctx context.Context, spans []keys.Span, targetBytes int64) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error)
}

// checkFirst reads the beginnings of spans to check a constraint, at the same time; ok is false if they have to be read in another way.
func (r *run) checkFirst(spans []keys.Span, targetBytes int64) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error) {
	c, ok := r.kv.(firstChecker)
	if !ok {
		return nil, nil, false, nil
	}
	if err := r.staysAll(spans, kv.NoLock); err != nil {
		return nil, nil, false, err
	}
	return c.CheckFirst(r.ctx, spans, targetBytes)
}
