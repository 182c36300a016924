package exec

import (
	"errors"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// maxCascade bounds the rounds of cascading foreign keys.
const maxCascade = 10_000

// afterStatement checks and cascades foreign keys. Its reads see the statement's writes.
func (r *run) afterStatement() error {
	for round := 0; len(r.events) > 0; round++ {
		if round == maxCascade {
			return sqlstate.New(sqlstate.StatementTooComplex, "foreign keys cascade too deep")
		}
		events := r.events
		r.events = nil
		slices.SortStableFunc(events, func(a, b fkEvent) int {
			if a.cause != b.cause {
				return a.cause - b.cause
			}
			return a.seq - b.seq
		})
		for i := range events {
			r.seq++
			events[i].seq = r.seq
		}
		events, err := r.postpone(events)
		if err != nil {
			return err
		}
		if err := r.fire(events); err != nil {
			return err
		}
	}
	return nil
}

// failure is an event's error.
type failure struct {
	seq int
	err error
}

// before is the failure of the earlier event.
func (f *failure) before(g *failure) *failure {
	if f == nil || g != nil && g.seq < f.seq {
		return g
	}
	return f
}

// group is a list of events of one round that are handled together.
type group struct {
	in     *fkIn // the key whose action it is; nil: checks
	writes catalog.ID
	reads  []catalog.ID
	events []fkEvent
}

// sees reports whether two groups may not change places.
func (g *group) sees(o *group) bool {
	touches := func(w *group, x *group) bool {
		return w.writes != 0 && (x.writes == w.writes || slices.Contains(x.reads, w.writes))
	}
	return touches(g, o) || touches(o, g)
}

func groupOf(e fkEvent) group {
	switch {
	case e.unique != nil:
		return group{reads: []catalog.ID{e.unique.table.ID}}
	case e.out != nil:
		return group{reads: []catalog.ID{e.out.fk.child.ID, e.out.fk.parent.ID}}
	}
	g := group{reads: []catalog.ID{e.in.child.ID, e.in.parent.ID}}
	if a := e.in.action(e); a != catalog.NoAction && a != catalog.Restrict {
		g.in, g.writes = e.in, e.in.child.ID
	}
	return g
}

// fire handles the events of a round (exec.X5).
func (r *run) fire(events []fkEvent) error {
	var groups []*group
	for _, e := range events {
		g := groupOf(e)
		at := -1
		for i := len(groups) - 1; i >= 0; i-- {
			o := groups[i]
			if o.in == g.in && (g.in == nil || (o.events[0].after == nil) == (e.after == nil)) {
				at = i
				break
			}
			if o.sees(&g) {
				break
			}
		}
		if at < 0 {
			groups, at = append(groups, &g), len(groups)
		} else {
			for _, t := range g.reads {
				if !slices.Contains(groups[at].reads, t) {
					groups[at].reads = append(groups[at].reads, t)
				}
			}
		}
		groups[at].events = append(groups[at].events, e)
	}
	var first *failure
	for _, g := range groups {
		if first != nil {
			n := 0
			for n < len(g.events) && g.events[n].seq < first.seq {
				n++
			}
			if g.events = g.events[:n]; n == 0 {
				continue
			}
		}
		r.kv.StepStatement()
		var f *failure
		var err error
		if g.in == nil {
			f, err = r.check(g.events)
		} else if f, err = r.act(g.in, g.events); f != nil {
			var e *sqlstate.Error
			if !errors.As(f.err, &e) {
				return f.err
			}
		}
		if err != nil {
			return err
		}
		first = f.before(first)
	}
	if first != nil {
		return first.err
	}
	return nil
}

func (in *fkIn) action(e fkEvent) catalog.Action {
	if e.after != nil {
		return in.fk.OnUpdate
	}
	return in.fk.OnDelete
}

// act carries out an action. After SET DEFAULT a row may still refer to the removed key, if that is the default; no other check would
// notice.
func (r *run) act(in *fkIn, events []fkEvent) (*failure, error) {
	if f := r.cascade(in, events); f != nil {
		return f, nil
	}
	if in.action(events[0]) != catalog.SetDefault {
		return nil, nil
	}
	r.kv.StepStatement()
	return r.check(events)
}

// check finds the first violation among events that only check.
func (r *run) check(events []fkEvent) (*failure, error) {
	var first *failure
	var parents []fkCheck
	byIn := make(map[*fkIn][]fkEvent)
	byKey := make(map[string][]fkEvent)
	var ins []*fkIn
	var uniques []string
	for _, e := range events {
		switch {
		case e.unique != nil:
			k, err := e.unique.codec.appendPrefix(nil, e.vals)
			if err != nil {
				return nil, err
			}
			if byKey[string(k)] == nil {
				uniques = append(uniques, string(k))
			}
			byKey[string(k)] = append(byKey[string(k)], e)
		case e.out != nil:
			c := *e.out
			c.seq = e.seq
			parents = append(parents, c)
		default:
			if byIn[e.in] == nil {
				ins = append(ins, e.in)
			}
			byIn[e.in] = append(byIn[e.in], e)
		}
	}
	for _, k := range uniques {
		f, err := r.checkUnique(byKey[k])
		if err != nil {
			return nil, err
		}
		first = first.before(f)
	}
	missing, err := r.missingParents(parents)
	if err != nil {
		return nil, err
	}
	for _, i := range missing {
		c := parents[i]
		if first != nil && first.seq < c.seq {
			break
		}
		// The row may have been changed or deleted by now.
		stands, err := c.fk.stands(r, c.vals)
		if err != nil {
			return nil, err
		}
		if stands {
			first = first.before(&failure{c.seq, c.fk.violation(c.vals)})
			break
		}
	}
	for _, in := range ins {
		if err := r.observe(in, byIn[in]); err != nil {
			return nil, err
		}
		err := in.of(r, byIn[in], true, func(e fkEvent, _ keys.Key) error {
			if first != nil && first.seq < e.seq {
				return nil
			}
			if in.action(e) != catalog.Restrict {
				// Another row may have taken the key.
				k, others, err := in.parentKey.parentOf(e.vals)
				if err != nil {
					return err
				}
				vs, err := r.checkMany(append(others, k))
				if err != nil {
					return err
				}
				if slices.ContainsFunc(vs, func(v []byte) bool { return v != nil }) {
					return nil
				}
			}
			first = first.before(&failure{e.seq, in.violation(e.vals)})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return first, nil
}

// parentOf are the parent's keys for values of the parent's own types.
func (o *fkOut) parentOf(vals types.Row) (keys.Key, []keys.Key, error) {
	in := make(types.Row, len(o.perm))
	for i, p := range o.perm {
		in[i] = vals[p]
	}
	return o.keysOf(in, types.Null)
}

// children finds the rows that refer to a key.
type children struct {
	fk     *catalog.ForeignKey
	child  *catalog.Table
	parent *catalog.Table
	refs   []int // ordinals in the parent
	cols   []int // ordinals in the child
	// codec reads the child's rows by the foreign key's columns; without an index the whole table is read.
	index   *catalog.Index
	codec   *indexCodec
	perm    []int         // index key column i is foreign key column perm[i]
	regions []types.Datum // all regions, if the index has them in front of those columns
	pk      *rowDecoder   // primary key from an entry of index
	primary *indexCodec
}

func newChildren(fk *catalog.ForeignKey, child, parent *catalog.Table) (*children, error) {
	c := &children{fk: fk, child: child, parent: parent, refs: ordinals(parent, fk.RefColumns), cols: ordinals(child, fk.Columns)}
	for i := range child.Indexes {
		idx := &child.Indexes[i]
		if idx.State != catalog.Public || idx.Predicate != "" {
			continue
		}
		if perm := permutation(idx.Columns, fk.Columns); perm != nil {
			c.index, c.perm = idx, perm
			break
		}
		if perm := permutation(idx.UserColumns(), fk.Columns); perm != nil && idx.Implicit > 0 {
			c.index, c.perm, c.regions = idx, perm, regionValues(child)
			break
		}
	}
	if c.index == nil {
		c.index = child.Primary()
	}
	var err error
	if c.codec, err = newIndexCodec(child, c.index); err != nil {
		return nil, err
	}
	if c.primary, err = newIndexCodec(child, child.Primary()); err != nil {
		return nil, err
	}
	c.pk, err = newRowDecoder(child, c.index, keyOrdinals(child, child.Primary()))
	return c, err
}

// of calls f with the primary key of the child rows that refer to the events' keys; with one set, once for each event at most.
func (c *children) of(r *run, events []fkEvent, one bool, f func(e fkEvent, primary keys.Key) error) error {
	vals := make([]types.Row, len(events))
	for i, e := range events {
		vals[i] = make(types.Row, len(e.vals))
		for j, d := range e.vals {
			from, to := c.parent.Columns[c.refs[j]].Type, c.child.Columns[c.cols[j]].Type
			if from.Phys() != to.Phys() {
				var err error
				if d, err = scalar.CastDatum(&r.sctx, d, from, to.Bare(), true); err != nil {
					return err
				}
			}
			vals[i][j] = d
		}
	}
	return c.with(r, vals, one, func(i int, k keys.Key) error { return f(events[i], k) })
}

// with is of, for values of the child's types.
func (c *children) with(r *run, vals []types.Row, one bool, f func(i int, primary keys.Key) error) error {
	pk := make(types.Row, len(c.child.Primary().Columns))
	primary := func(p *kv.KeyValue) (keys.Key, error) {
		if err := c.pk.decode(p.Key, p.Value, pk); err != nil {
			return nil, err
		}
		return c.primary.appendPrefix(nil, pk)
	}
	if c.regions != nil {
		return c.inRegions(r, vals, one, func(i int, p *kv.KeyValue) error {
			k, err := primary(p)
			if err != nil {
				return err
			}
			return f(i, k)
		})
	}
	if c.perm != nil {
		key := make(types.Row, len(c.perm))
		for i := range vals {
			for j, p := range c.perm {
				key[j] = vals[i][p]
			}
			span, ok, err := c.codec.span(key, nil, false, nil, false)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := c.scan(r, c.codec, span, one, func(p *kv.KeyValue) (bool, error) {
				k, err := primary(p)
				if err != nil {
					return false, err
				}
				return one, f(i, k)
			}); err != nil {
				return err
			}
		}
		return nil
	}
	// No index: one pass over the table.
	ts := make([]*types.T, len(c.cols))
	slots := make([]int, len(c.cols))
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
	return c.each(r, func(p *kv.KeyValue, row types.Row) (bool, error) {
		var null bool
		buf, null = hashKey(buf[:0], row, slots, ts)
		i, ok := byKey[string(buf)]
		if null || !ok {
			return false, r.tick()
		}
		if one {
			delete(byKey, string(buf))
		}
		k, err := primary(p)
		if err != nil {
			return false, err
		}
		return one && len(byKey) == 0, f(i, k)
	})
}

// each reads the foreign key's columns of all rows of the child, until f says that it is done.
func (c *children) each(r *run, f func(p *kv.KeyValue, row types.Row) (bool, error)) error {
	dec, err := newRowDecoder(c.child, c.child.Primary(), c.cols)
	if err != nil {
		return err
	}
	row := make(types.Row, len(c.cols))
	return c.scan(r, c.primary, c.primary.all(), false, func(p *kv.KeyValue) (bool, error) {
		if err := dec.decode(p.Key, p.Value, row); err != nil {
			return false, err
		}
		return f(p, row)
	})
}

// scan pages through a span of an index of the child until f says that it is done.
func (c *children) scan(r *run, of *indexCodec, span keys.Span, one bool, f func(*kv.KeyValue) (bool, error)) error {
	o := txn.ScanOptions{Span: span, TargetBytes: pageBytes, Filter: of.filter()}
	if one {
		o.MaxRows = 1
	}
	for {
		page, resume, err := r.checkScan(o)
		if err != nil {
			return err
		}
		for i := range page {
			done, err := f(&page[i])
			if err != nil || done {
				return err
			}
		}
		if resume == nil {
			return nil
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
		o.Span = *resume
	}
}

// stands reports whether there is a row with these values of the foreign key.
func (o *fkOut) stands(r *run, vals types.Row) (found bool, err error) {
	c, err := newChildren(o.fk, o.child, o.parent)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(vals, types.Datum.IsNull) {
		err = c.with(r, []types.Row{vals}, true, func(int, keys.Key) error {
			found = true
			return nil
		})
		return found, err
	}
	err = c.each(r, func(_ *kv.KeyValue, row types.Row) (bool, error) {
		found = true
		for i, d := range vals {
			found = found && o.child.Columns[o.cols[i]].Type.Compare(d, row[i]) == 0
		}
		return found, r.tick()
	})
	return found, err
}

// cascade carries out an action on the child rows of removed keys.
func (r *run) cascade(in *fkIn, events []fkEvent) *failure {
	fail := func(e fkEvent, err error) *failure { return &failure{e.seq, err} }
	type target struct {
		key   keys.Key
		event fkEvent
	}
	var targets []target
	var taken int64
	defer func() { r.budget.Shrink(taken) }()
	if err := r.observe(in, events); err != nil {
		return fail(events[0], err)
	}
	if err := in.of(r, events, false, func(e fkEvent, k keys.Key) error {
		n := int64(len(k) + 128)
		if err := r.budget.Grow(n); err != nil {
			return err
		}
		taken += n
		targets = append(targets, target{k, e})
		return nil
	}); err != nil {
		return fail(events[0], err)
	}
	m := mutation{reader: reader{r: r}, cascades: true}
	defer func() { r.cause = 0 }()
	for len(targets) > 0 {
		n := min(len(targets), lookupBatch)
		ks := make([]keys.Key, n)
		for i := range ks {
			ks[i] = targets[i].key
		}
		if err := r.refresh(in.child, ks); err != nil {
			return fail(targets[0].event, err)
		}
		vs, err := m.getMany(ks, r.toChange(), kv.Block)
		if err != nil {
			return fail(targets[0].event, err)
		}
		for i, v := range vs {
			if v == nil {
				continue
			}
			e := targets[i].event
			r.cause = e.seq
			before := make(types.Row, len(in.child.Columns))
			err := in.writer.all.decode(ks[i], v, before)
			if err == nil {
				err = in.apply(&m, e, before)
			}
			if err == nil && m.full() {
				err = m.flush(false)
			}
			if err == nil {
				err = r.tick()
			}
			if err != nil {
				return fail(e, m.failed(err))
			}
		}
		if err := m.flush(false); err != nil {
			return fail(targets[0].event, err)
		}
		targets = targets[n:]
	}
	if s, ok := r.kv.(settler); ok {
		if err := s.Settle(r.ctx); err != nil {
			return fail(events[0], r.writeError(err))
		}
	}
	return nil
}

// apply carries out an event's action on one row.
func (in *fkIn) apply(m *mutation, e fkEvent, before types.Row) (err error) {
	r, w := m.r, in.writer
	action := in.action(e)
	if action == catalog.Cascade && e.after == nil {
		if err := m.remove(w, before); err != nil {
			return err
		}
		return m.incoming(w, before, nil)
	}
	after := append(types.Row(nil), before...)
	for j, c := range in.cols {
		switch {
		case action == catalog.Cascade:
			after[c], err = scalar.CastDatum(&r.sctx, e.after[j], in.parent.Columns[in.refs[j]].Type, w.table.Columns[c].Type, false)
		case e.after == nil && !slices.Contains(in.set, c):
		case action == catalog.SetNull:
			after[c] = types.Null
		case action == catalog.SetDefault:
			after[c], err = in.defaults[j].Eval(&r.sctx, nil)
		}
		if err != nil {
			return err
		}
	}
	for _, u := range in.onUpdate {
		if after[u.ordinal], err = u.ev.Eval(&r.sctx, nil); err != nil {
			return err
		}
	}
	if in.generated != nil {
		base := append(types.Row(nil), after...)
		for _, g := range in.generated {
			if after[g.ordinal], err = g.ev.Eval(&r.sctx, base); err != nil {
				return err
			}
		}
	}
	if err := r.validate(w.table, in.notNull, in.checks, after); err != nil {
		return err
	}
	if err := m.change(w, in.changed, before, after); err != nil {
		return err
	}
	if err := m.incoming(w, before, after); err != nil {
		return err
	}
	for _, o := range w.out {
		if o.fk == in.fk && action == catalog.Cascade {
			continue // the entry exists by construction
		}
		if err := m.outgoingOne(o, w, after, before); err != nil {
			return err
		}
	}
	return nil
}
