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
		if err == nil && !(round == 0 && r.prechecked) && severalActions(events) {
			r.kv.StepStatement()
			events, err = r.referredTo(events)
		}
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
	if len(uniques) > 0 {
		taken := make([][]fkEvent, len(uniques))
		for i, k := range uniques {
			taken[i] = byKey[k]
		}
		var err error
		if first, err = r.checkUniques(taken); err != nil {
			return nil, err
		}
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
	if len(ins) == 0 {
		return first, nil
	}
	var qs []referring
	for _, in := range ins {
		q, err := r.referrers(in, byIn[in])
		if err != nil {
			return nil, err
		}
		qs = append(qs, q)
	}
	err = r.search(qs, true, func(q, i int, _ keys.Key) error {
		in := ins[q]
		e := byIn[in][i]
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
	return first, err
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

// values are values of the parent's columns in the types of the child's.
func (c *children) values(r *run, vals types.Row) (types.Row, error) {
	out := make(types.Row, len(vals))
	for j, d := range vals {
		from, to := c.parent.Columns[c.refs[j]].Type, c.child.Columns[c.cols[j]].Type
		if from.Phys() != to.Phys() {
			var err error
			if d, err = scalar.CastDatum(&r.sctx, d, from, to.Bare(), true); err != nil {
				return nil, err
			}
		}
		out[j] = d
	}
	return out, nil
}

// stands reports whether there is a row with these values of the foreign key.
func (o *fkOut) stands(r *run, vals types.Row) (found bool, err error) {
	c, err := newChildren(o.fk, o.child, o.parent)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(vals, types.Datum.IsNull) {
		err = r.search([]referring{{c, []types.Row{vals}}}, true, func(int, int, keys.Key) error {
			found = true
			return nil
		})
		return found, err
	}
	dec, err := newRowDecoder(c.child, c.child.Primary(), c.cols)
	if err != nil {
		return false, err
	}
	row := make(types.Row, len(c.cols))
	all, err := c.all(0, func(p *kv.KeyValue) (bool, error) {
		if err := dec.decode(p.Key, p.Value, row); err != nil {
			return false, err
		}
		found = true
		for i, d := range vals {
			found = found && o.child.Columns[o.cols[i]].Type.Compare(d, row[i]) == 0
		}
		return found, r.tick()
	})
	if err != nil {
		return false, err
	}
	return found, r.seek(all, 1)
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
	q, err := r.referrers(in, events)
	if err != nil {
		return fail(events[0], err)
	}
	if err := r.search([]referring{q}, false, func(_, i int, k keys.Key) error {
		n := int64(len(k) + 128)
		if err := r.budget.Grow(n); err != nil {
			return err
		}
		taken += n
		targets = append(targets, target{k, events[i]})
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
		if o.fk == in.fk && action == catalog.Cascade && !(in.fk.MatchFull && anyNull(after, in.cols)) {
			continue // the entry exists by construction
		}
		if err := m.outgoingOne(o, w, after, before); err != nil {
			return err
		}
	}
	return nil
}
