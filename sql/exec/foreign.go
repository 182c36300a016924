package exec

import (
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// fkOut is a foreign key of the table that is written: its rows need a parent.
type fkOut struct {
	fk     *catalog.ForeignKey
	child  *catalog.Table
	parent *catalog.Table
	cols   []int        // ordinals in the child
	index  *indexWriter // the parent's unique index
	perm   []int        // index key column i is foreign key column perm[i]
	types  []*types.T   // the parent's types of the index key columns
	self   bool
}

// fkIn is a foreign key of some table that points at the table that is written.
type fkIn struct {
	fk     *catalog.ForeignKey
	child  *catalog.Table
	parent *catalog.Table
	refs   []int // ordinals in the parent
	cols   []int // ordinals in the child
	// childCodec and childDec read the child's rows by the foreign key's columns; without an index the whole
	// table is read.
	childIndex *catalog.Index
	childCodec *indexCodec
	perm       []int       // index key column i is foreign key column perm[i]
	pk         *rowDecoder // primary key from an entry of childIndex
	parentKey  *fkOut      // to look for the parent's key again
	writer     *tableWriter
	defaults   []scalar.Evaluator // SET DEFAULT
}

// fkCheck is a parent that has to exist.
type fkCheck struct {
	fk   *fkOut
	key  keys.Key
	vals types.Row
}

// fkEvent is work for the end of the statement: a parent's key that went (in), or a check of a self-referencing
// row (out).
type fkEvent struct {
	unique *uniqueCheck // a key of a deferrable unique index
	in     *fkIn
	vals   types.Row // the key that went
	after  types.Row // what it became; nil: deleted
	out    *fkCheck
}

func (b *builder) table(id catalog.ID) (*catalog.Table, error) {
	if t := b.tables[id]; t != nil {
		return t, nil
	}
	if b.opts.View == nil {
		return nil, internal("no catalogue to find table %d of a foreign key", id)
	}
	t, err := b.opts.View.TableByID(b.ctx, id)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, internal("table %d of a foreign key does not exist", id)
	}
	b.tables[id] = t
	b.prog.depends = append(b.prog.depends, opt.Dependency{ID: t.ID, Version: t.Version})
	return t, nil
}

// enforced says that new rows must keep the constraint.
func enforced(fk *catalog.ForeignKey) bool {
	return fk.State == catalog.Public || fk.State == catalog.WriteOnly
}

func (b *builder) foreignKeys(w *tableWriter) error {
	t := w.table
	b.tables[t.ID] = t
	for i := range t.Foreign {
		fk := &t.Foreign[i]
		if !enforced(fk) {
			continue
		}
		parent, err := b.table(fk.RefTable)
		if err != nil {
			return err
		}
		o, err := newFKOut(fk, t, parent)
		if err != nil {
			return err
		}
		w.out = append(w.out, o)
	}
	for _, ref := range t.ReferencedBy {
		child, err := b.table(ref.Table)
		if err != nil {
			return err
		}
		if err := b.addIncoming(w, child, ref.Constraint); err != nil {
			return err
		}
	}
	// A reference of a table to itself may be listed by the table alone.
	for i := range t.Foreign {
		if fk := &t.Foreign[i]; fk.RefTable == t.ID {
			if err := b.addIncoming(w, t, fk.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) addIncoming(w *tableWriter, child *catalog.Table, constraint uint32) error {
	for _, have := range w.in {
		if have.child.ID == child.ID && have.fk.ID == constraint {
			return nil
		}
	}
	for i := range child.Foreign {
		fk := &child.Foreign[i]
		if fk.ID != constraint || fk.RefTable != w.table.ID || !enforced(fk) {
			continue
		}
		in, err := b.newFKIn(fk, child, w.table)
		if err != nil {
			return err
		}
		w.in = append(w.in, in)
	}
	return nil
}

func ordinals(t *catalog.Table, ids []catalog.ColumnID) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = t.Ordinal(id)
	}
	return out
}

// permutation finds for each of the index's leading len(cols) key columns its place in cols, or nil.
func permutation(idx *catalog.Index, cols []catalog.ColumnID) []int {
	if len(idx.Columns) < len(cols) {
		return nil
	}
	perm := make([]int, len(cols))
	used := make([]bool, len(cols))
next:
	for i := range cols {
		for j, c := range cols {
			if c == idx.Columns[i].Column && !used[j] {
				perm[i], used[j] = j, true
				continue next
			}
		}
		return nil
	}
	return perm
}

func newFKOut(fk *catalog.ForeignKey, child, parent *catalog.Table) (*fkOut, error) {
	o := &fkOut{fk: fk, child: child, parent: parent, cols: ordinals(child, fk.Columns), self: child.ID == parent.ID}
	for i := range parent.Indexes {
		idx := &parent.Indexes[i]
		if !idx.Unique && !idx.Primary || idx.State != catalog.Public || len(idx.Columns) != len(fk.RefColumns) || idx.Predicate != "" {
			continue
		}
		perm := permutation(idx, fk.RefColumns)
		if perm == nil {
			continue
		}
		c, err := newIndexCodec(parent, idx)
		if err != nil {
			return nil, err
		}
		o.index, o.perm = &indexWriter{index: idx, codec: c}, perm
		for _, ord := range keyOrdinals(parent, idx) {
			o.types = append(o.types, parent.Columns[ord].Type)
		}
		return o, nil
	}
	return nil, sqlstate.New(sqlstate.InvalidForeignKey, "there is no unique constraint matching given keys for referenced table \"%s\"", parent.Name)
}

// key is the parent's index key for foreign key values.
func (o *fkOut) key(r *run, vals types.Row) (keys.Key, error) {
	in := make(types.Row, len(o.perm))
	for i, p := range o.perm {
		d := vals[p]
		from := o.child.Columns[o.cols[p]].Type
		if from.Phys() != o.types[i].Phys() {
			var err error
			if d, err = scalar.CastDatum(&r.sctx, d, from, o.types[i].Bare(), true); err != nil {
				return nil, err
			}
		}
		in[i] = d
	}
	return o.index.codec.appendPrefix(nil, in)
}

func (b *builder) newFKIn(fk *catalog.ForeignKey, child, parent *catalog.Table) (*fkIn, error) {
	in := &fkIn{fk: fk, child: child, parent: parent, refs: ordinals(parent, fk.RefColumns), cols: ordinals(child, fk.Columns)}
	var err error
	if in.parentKey, err = newFKOut(fk, child, parent); err != nil {
		return nil, err
	}
	for i := range child.Indexes {
		idx := &child.Indexes[i]
		if idx.State != catalog.Public || idx.Predicate != "" {
			continue
		}
		if perm := permutation(idx, fk.Columns); perm != nil {
			in.childIndex, in.perm = idx, perm
			break
		}
	}
	if in.childIndex == nil {
		in.childIndex = child.Primary()
	}
	if in.childCodec, err = newIndexCodec(child, in.childIndex); err != nil {
		return nil, err
	}
	if in.pk, err = newRowDecoder(child, in.childIndex, keyOrdinals(child, child.Primary())); err != nil {
		return nil, err
	}
	if in.writer, err = b.writer(child); err != nil {
		return nil, err
	}
	if fk.OnDelete == catalog.SetDefault || fk.OnUpdate == catalog.SetDefault {
		for _, o := range in.cols {
			var e scalar.Expr = &scalar.Const{T: child.Columns[o].Type}
			if child.Columns[o].Default != "" {
				if b.opts.Defaults == nil {
					return nil, sqlstate.New(sqlstate.FeatureNotSupported, "SET DEFAULT is not supported for column \"%s\"", child.Columns[o].Name)
				}
				if e, err = b.opts.Defaults(b.ctx, child, o); err != nil {
					return nil, err
				}
			}
			ev, err := b.expr(e, nil)
			if err != nil {
				return nil, err
			}
			in.defaults = append(in.defaults, ev)
		}
	}
	return in, nil
}

// outgoing notes the parents that a row needs. before is the row that it replaces, or nil.
func (m *mutation) outgoing(w *tableWriter, after, before types.Row) error {
	for _, o := range w.out {
		if err := m.outgoingOne(o, w, after, before); err != nil {
			return err
		}
	}
	return nil
}

func (m *mutation) outgoingOne(o *fkOut, w *tableWriter, after, before types.Row) error {
	if before != nil && !differ(w.table, o.cols, before, after) {
		return nil
	}
	nulls := 0
	for _, c := range o.cols {
		if after[c].IsNull() {
			nulls++
		}
	}
	if nulls > 0 {
		if o.fk.MatchFull && nulls < len(o.cols) {
			e := o.violation(nil)
			e.Detail = "MATCH FULL does not allow mixing of null and nonnull key values."
			return e
		}
		return nil
	}
	vals := pick(after, o.cols)
	k, err := o.key(m.r, vals)
	if err != nil {
		return err
	}
	if o.self || o.fk.Deferrable {
		// The parent may come with the same statement, or later.
		return m.r.event(fkEvent{out: &fkCheck{o, k, vals}, vals: vals})
	}
	if _, ok := m.seen[string(k)]; ok {
		return nil
	}
	if m.seen == nil || len(m.seen) > 1<<16 {
		m.seen = make(map[string]struct{})
	}
	m.seen[string(k)] = struct{}{}
	m.checks = append(m.checks, fkCheck{o, k, vals})
	return nil
}

func differ(t *catalog.Table, cols []int, a, b types.Row) bool {
	for _, c := range cols {
		if t.Columns[c].Type.Compare(a[c], b[c]) != 0 {
			return true
		}
	}
	return false
}

// incoming notes a key that other rows may refer to and that goes.
func (m *mutation) incoming(w *tableWriter, before, after types.Row) error {
	for _, in := range w.in {
		if after != nil && !differ(w.table, in.refs, before, after) {
			continue
		}
		if anyNull(before, in.refs) {
			continue
		}
		e := fkEvent{in: in, vals: pick(before, in.refs)}
		if after != nil {
			e.after = pick(after, in.refs)
		}
		if err := m.r.event(e); err != nil {
			return err
		}
	}
	return nil
}

// event notes work for the end of the statement.
func (r *run) event(e fkEvent) error {
	n := int64(64) + rowBytes(e.vals) + rowBytes(e.after)
	if err := r.budget.Grow(n); err != nil {
		return err
	}
	r.eventBytes += n
	r.events = append(r.events, e)
	return nil
}

func pick(row types.Row, cols []int) types.Row {
	out := make(types.Row, len(cols))
	for i, c := range cols {
		out[i] = row[c]
	}
	return out
}

// checkParents looks for the parents that the batch's rows need.
func (m *mutation) checkParents() error {
	err := m.r.checkParents(m.checks)
	clear(m.checks)
	m.checks = m.checks[:0]
	return err
}

func (r *run) checkParents(checks []fkCheck) error {
	for len(checks) > 0 {
		n := min(len(checks), lookupBatch)
		ks := make([]keys.Key, n)
		for i := range ks {
			ks[i] = checks[i].key
		}
		vs, err := r.checkMany(ks)
		if err != nil {
			return err
		}
		for i, v := range vs {
			if v == nil {
				return checks[i].fk.violation(checks[i].vals)
			}
		}
		checks = checks[n:]
	}
	return nil
}

func (o *fkOut) violation(vals types.Row) *sqlstate.Error {
	e := sqlstate.New(sqlstate.ForeignKeyViolation, "insert or update on table \"%s\" violates foreign key constraint \"%s\"",
		o.child.Name, o.fk.Name)
	e.Table, e.TableID, e.Constraint = o.child.Name, uint32(o.child.ID), o.fk.Name
	if vals != nil {
		missing := " is not present in table \"" + o.parent.Name + "\"."
		e.RowOf, e.Detail, e.Values = uint32(o.child.ID), "Key"+missing, "Key "+keyText(o.child, o.cols, vals)+missing
	}
	return e
}

func (in *fkIn) violation(vals types.Row) *sqlstate.Error {
	e := sqlstate.New(sqlstate.ForeignKeyViolation, "update or delete on table \"%s\" violates foreign key constraint \"%s\" on table \"%s\"",
		in.parent.Name, in.fk.Name, in.child.Name)
	e.Table, e.TableID, e.Constraint = in.child.Name, uint32(in.child.ID), in.fk.Name
	still := " is still referenced from table \"" + in.child.Name + "\"."
	e.RowOf, e.Detail, e.Values = uint32(in.parent.ID), "Key"+still, "Key "+keyText(in.parent, in.refs, vals)+still
	return e
}

// precheck drops the statement's foreign key events if the state before the statement shows that there is nothing to
// do, so that the last batch can carry the commit (X4). It may leave them though there is nothing to do.
func (r *run) precheck() error {
	ins, outs := 0, 0
	for _, e := range r.events {
		switch {
		case e.unique != nil:
			return nil
		case e.out != nil:
			outs++
		case e.in.child.ID == e.in.parent.ID:
			return nil
		default:
			ins++
		}
	}
	if outs > 0 {
		// Rows that refer to their own table, in a statement that takes no key away.
		if ins > 0 {
			return nil
		}
		checks := make([]fkCheck, 0, outs)
		for _, e := range r.events {
			checks = append(checks, *e.out)
		}
		err := r.checkParents(checks)
		if sqlstate.Is(err, sqlstate.ForeignKeyViolation) {
			return nil
		}
		if err == nil {
			r.events = nil
		}
		return err
	}
	events := r.events
	for len(events) > 0 {
		in := events[0].in
		n := 1
		for n < len(events) && events[n].in == in {
			n++
		}
		found := false
		if err := in.children(r, events[:n], true, func(fkEvent, keys.Key) error {
			found = true
			return nil
		}); err != nil || found {
			return err
		}
		events = events[n:]
	}
	r.events = nil
	return nil
}

// maxCascade bounds the rounds of cascading foreign keys.
const maxCascade = 10_000

// afterStatement checks and cascades foreign keys, as PostgreSQL does at the end of a statement. Its reads see the
// statement's writes.
func (r *run) afterStatement() error {
	for round := 0; len(r.events) > 0; round++ {
		if round == maxCascade {
			return sqlstate.New(sqlstate.StatementTooComplex, "foreign keys cascade too deep")
		}
		r.kv.StepStatement()
		events := r.events
		r.events = nil
		// One kind of event at a time, because the next may depend on what the first one wrote. Actions come
		// before checks: a check must see the final state.
		var checks []fkEvent
		var group []fkEvent
		for _, e := range events {
			switch {
			case e.in == nil || e.in.action(e) == catalog.NoAction || e.in.action(e) == catalog.Restrict:
				checks = append(checks, e)
			case len(group) == 0 || group[0].in == e.in:
				group = append(group, e)
			default:
				r.events = append(r.events, e)
			}
		}
		if len(group) > 0 {
			r.events = append(r.events, checks...)
			if err := r.cascade(group[0].in, group); err != nil {
				return err
			}
			continue
		}
		checks, err := r.postpone(checks)
		if err != nil {
			return err
		}
		if err := r.check(checks); err != nil {
			return err
		}
	}
	return nil
}

func (in *fkIn) action(e fkEvent) catalog.Action {
	if e.after != nil {
		return in.fk.OnUpdate
	}
	return in.fk.OnDelete
}

// check raises a violation if a row is left without its parent.
func (r *run) check(events []fkEvent) error {
	var parents []fkCheck
	byIn := make(map[*fkIn][]fkEvent)
	var order []*fkIn
	for _, e := range events {
		if e.unique != nil {
			if err := r.checkUnique(e.unique, e.vals); err != nil {
				return err
			}
			continue
		}
		if e.out != nil {
			parents = append(parents, *e.out)
			continue
		}
		if byIn[e.in] == nil {
			order = append(order, e.in)
		}
		byIn[e.in] = append(byIn[e.in], e)
	}
	// The row that needs the parent may be gone again, by a cascade; then the parent's absence is no violation.
	// That is rare enough to be refused.
	if err := r.checkParents(parents); err != nil {
		return err
	}
	for _, in := range order {
		err := in.children(r, byIn[in], true, func(e fkEvent, _ keys.Key) error {
			// Another row may have taken the key.
			k, err := in.parentKey.parentOf(e.vals)
			if err != nil {
				return err
			}
			vs, err := r.checkMany([]keys.Key{k})
			if err != nil {
				return err
			}
			if vs[0] != nil && in.action(e) == catalog.NoAction {
				return nil
			}
			return in.violation(e.vals)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// parentOf is the parent's key for values of the parent's own types.
func (o *fkOut) parentOf(vals types.Row) (keys.Key, error) {
	in := make(types.Row, len(o.perm))
	for i, p := range o.perm {
		in[i] = vals[p]
	}
	return o.index.codec.appendPrefix(nil, in)
}

// children calls f with the primary key of the child rows that refer to the events' keys; with one set, once for
// each event at most.
func (in *fkIn) children(r *run, events []fkEvent, one bool, f func(e fkEvent, primary keys.Key) error) error {
	pcodec := in.writer.primary.codec
	pk := make(types.Row, len(in.child.Primary().Columns))
	primary := func(p *kv.KeyValue) (keys.Key, error) {
		if err := in.pk.decode(p.Key, p.Value, pk); err != nil {
			return nil, err
		}
		return pcodec.appendPrefix(nil, pk)
	}
	// The child's representation of each key.
	child := make([]types.Row, len(events))
	for i, e := range events {
		child[i] = make(types.Row, len(e.vals))
		for j, d := range e.vals {
			from, to := in.parent.Columns[in.refs[j]].Type, in.child.Columns[in.cols[j]].Type
			if from.Phys() != to.Phys() {
				var err error
				if d, err = scalar.CastDatum(&r.sctx, d, from, to.Bare(), true); err != nil {
					return err
				}
			}
			child[i][j] = d
		}
	}
	if in.perm != nil {
		vals := make(types.Row, len(in.perm))
		for i, e := range events {
			for j, p := range in.perm {
				vals[j] = child[i][p]
			}
			span, ok, err := in.childCodec.span(vals, nil, false, nil, false)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := in.scan(r, span, one, func(p *kv.KeyValue) (bool, error) {
				k, err := primary(p)
				if err != nil {
					return false, err
				}
				return one, f(e, k)
			}); err != nil {
				return err
			}
		}
		return nil
	}
	// No index: one pass over the table.
	ts := make([]*types.T, len(in.cols))
	slots := make([]int, len(in.cols))
	for i, c := range in.cols {
		ts[i], slots[i] = in.child.Columns[c].Type, i
	}
	byKey := make(map[string]int, len(events))
	var buf []byte
	for i := range events {
		buf, _ = hashKey(buf[:0], child[i], slots, ts)
		byKey[string(buf)] = i
	}
	dec, err := newRowDecoder(in.child, in.childIndex, in.cols)
	if err != nil {
		return err
	}
	row := make(types.Row, len(in.cols))
	return in.scan(r, in.childCodec.all(), false, func(p *kv.KeyValue) (bool, error) {
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
		k, err := primary(p)
		if err != nil {
			return false, err
		}
		return one && len(byKey) == 0, f(events[i], k)
	})
}

// scan pages through a span of the child until f says that it is done.
func (in *fkIn) scan(r *run, span keys.Span, one bool, f func(*kv.KeyValue) (bool, error)) error {
	o := txn.ScanOptions{Span: span, TargetBytes: pageBytes}
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

// cascade carries out an action on the child rows of keys that went.
func (r *run) cascade(in *fkIn, events []fkEvent) error {
	type target struct {
		key   keys.Key
		event fkEvent
	}
	var targets []target
	var taken int64
	defer func() { r.budget.Shrink(taken) }()
	if err := in.children(r, events, false, func(e fkEvent, k keys.Key) error {
		n := int64(len(k) + 128)
		if err := r.budget.Grow(n); err != nil {
			return err
		}
		taken += n
		targets = append(targets, target{k, e})
		return nil
	}); err != nil {
		return err
	}
	m := mutation{reader: reader{r: r}}
	w := in.writer
	assigned := make(map[int]bool)
	for _, c := range in.cols {
		assigned[c] = true
	}
	notNull, changed := w.affected(assigned)
	for len(targets) > 0 {
		n := min(len(targets), lookupBatch)
		ks := make([]keys.Key, n)
		for i := range ks {
			ks[i] = targets[i].key
		}
		vs, err := m.getMany(ks, r.toChange(), kv.Block)
		if err != nil {
			return err
		}
		for i, v := range vs {
			if v == nil {
				continue
			}
			before := make(types.Row, len(w.table.Columns))
			if err := w.all.decode(ks[i], v, before); err != nil {
				return err
			}
			e := targets[i].event
			action := in.action(e)
			if action == catalog.Cascade && e.after == nil {
				if err = m.incoming(w, before, nil); err == nil {
					err = m.remove(w, before)
				}
			} else {
				after := append(types.Row(nil), before...)
				for j, c := range in.cols {
					switch action {
					case catalog.Cascade:
						after[c], err = scalar.CastDatum(&r.sctx, e.after[j], in.parent.Columns[in.refs[j]].Type, w.table.Columns[c].Type, false)
					case catalog.SetNull:
						after[c] = types.Null
					case catalog.SetDefault:
						after[c], err = in.defaults[j].Eval(&r.sctx, nil)
					}
					if err != nil {
						return err
					}
				}
				if err := r.validate(w.table, notNull, nil, after); err != nil {
					return err
				}
				// The parent of a cascaded update is there by construction; that of a default is not.
				for _, o := range w.out {
					if o.fk == in.fk && action == catalog.Cascade {
						continue
					}
					was := before
					if o.fk == in.fk && action == catalog.SetDefault {
						was = nil // the default may be the very key that goes
					}
					if err := m.outgoingOne(o, w, after, was); err != nil {
						return err
					}
				}
				if err = m.incoming(w, before, after); err == nil {
					err = m.change(w, changed, before, after)
				}
			}
			if err != nil {
				return err
			}
			if m.full() {
				if err := m.flush(false); err != nil {
					return err
				}
			}
			if err := r.tick(); err != nil {
				return err
			}
		}
		targets = targets[n:]
	}
	return m.flush(false)
}
