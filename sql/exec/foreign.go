package exec

import (
	"slices"

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
	// regions are all regions if the parent has one in front of its key; the parent may be in any of them. from is the child's region column, or -1.
	regions []types.Datum
	from    int
}

// fkIn is a foreign key of some table that points at the table that is written.
type fkIn struct {
	children
	parentKey *fkOut // to look for the parent's key again
	writer    *tableWriter
	set       []int              // ordinals that SET NULL and SET DEFAULT set when the parent's row goes
	defaults  []scalar.Evaluator // of the foreign key's columns, for SET DEFAULT
	// These follow from the columns that an action sets: generated columns, indexes whose entries change, and checks.
	onUpdate  []setExpr
	generated []setExpr
	notNull   []int
	changed   []*indexWriter
	checks    []checkSpec
}

// fkCheck is a parent that has to exist. It has no key if some of the values are NULL, which MATCH FULL does not allow.
type fkCheck struct {
	fk   *fkOut
	key  keys.Key
	vals types.Row
	seq  int
	// others are the parent's keys in further regions, and far says that key is no nearer than they are.
	others []keys.Key
	far    bool
}

// fkEvent is work for the end of the statement: a removed key of a parent (in), a row that needs a parent (out), or a key of
// a deferrable unique index.
type fkEvent struct {
	seq, cause int // its place, and that of the event whose action made it
	unique     *uniqueCheck
	in         *fkIn
	vals       types.Row // the key that was removed, or added
	after      types.Row // its new values; nil: deleted
	out        *fkCheck
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
	// A reference of a table to itself may be listed in Foreign alone.
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

// permutation finds for each of an index's leading len(cols) key columns its place in cols, or nil.
func permutation(key []catalog.IndexColumn, cols []catalog.ColumnID) []int {
	if len(key) < len(cols) {
		return nil
	}
	perm := make([]int, len(cols))
	used := make([]bool, len(cols))
next:
	for i := range cols {
		for j, c := range cols {
			if c == key[i].Column && !used[j] {
				perm[i], used[j] = j, true
				continue next
			}
		}
		return nil
	}
	return perm
}

func newFKOut(fk *catalog.ForeignKey, child, parent *catalog.Table) (*fkOut, error) {
	o := &fkOut{fk: fk, child: child, parent: parent, cols: ordinals(child, fk.Columns), self: child.ID == parent.ID, from: child.Ordinal(child.RegionColumn)}
	for _, implicit := range []bool{false, true} {
		if found, err := o.find(implicit); found || err != nil {
			return o, err
		}
	}
	return nil, sqlstate.New(sqlstate.InvalidForeignKey, "there is no unique constraint matching given keys for referenced table \"%s\"", parent.Name)
}

// find chooses the parent's index; implicit: one whose region column is not among the referenced columns.
func (o *fkOut) find(implicit bool) (bool, error) {
	fk, parent := o.fk, o.parent
	for i := range parent.Indexes {
		idx := &parent.Indexes[i]
		key := idx.Columns
		if implicit {
			key = idx.UserColumns()
		}
		if !idx.Unique && !idx.Primary || idx.State != catalog.Public || len(key) != len(fk.RefColumns) || idx.Predicate != "" || implicit && idx.Implicit == 0 {
			continue
		}
		perm := permutation(key, fk.RefColumns)
		if perm == nil {
			continue
		}
		c, err := newIndexCodec(parent, idx)
		if err != nil {
			return false, err
		}
		o.index, o.perm = &indexWriter{index: idx, codec: c}, perm
		for _, c := range key {
			o.types = append(o.types, parent.Column(c.Column).Type)
		}
		if implicit {
			o.regions = regionValues(parent)
		}
		return true, nil
	}
	return false, nil
}

// check is the check that there is a parent for foreign key values of a row. It is looked for in the row's own region first, or in
// the gateway's if the row has none; but if that is far, in all regions at once.
func (o *fkOut) check(r *run, row, vals types.Row) (*fkCheck, error) {
	in, err := o.parentKey(r, vals)
	if err != nil {
		return nil, err
	}
	c := &fkCheck{fk: o, vals: vals}
	near := types.Null
	if o.regions != nil {
		near = o.near(r)
	}
	home := near
	if row != nil && o.from >= 0 {
		home = row[o.from]
	}
	c.key, c.others, err = o.keysOf(in, home)
	c.far = near.IsNull() || home.IsNull() || home.Int() != near.Int()
	return c, err
}

// near is the gateway's region as a value of the parent's region column; NULL if it has no such value.
func (o *fkOut) near(r *run) types.Datum {
	for _, v := range o.parent.Regions() {
		if v.Label == r.env.Region {
			return types.NewInt(v.Place)
		}
	}
	return types.Null
}

// keysOf are the keys that the parent with key values may have; in home, if it is not NULL, before other regions.
func (o *fkOut) keysOf(in types.Row, home types.Datum) (first keys.Key, others []keys.Key, err error) {
	if o.regions == nil {
		first, err = o.index.codec.appendPrefix(nil, in)
		return first, nil, err
	}
	for _, v := range o.regions {
		k, err := o.index.codec.appendPrefix(nil, append(types.Row{v}, in...))
		if err != nil {
			return nil, nil, err
		}
		if !home.IsNull() && home.Int() == v.Int() {
			first = k
			continue
		}
		others = append(others, k)
	}
	if first == nil {
		first, others = others[0], others[1:]
	}
	return first, others, nil
}

// parentKey are foreign key values in the order and with the types of the parent's key.
func (o *fkOut) parentKey(r *run, vals types.Row) (types.Row, error) {
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
	return in, nil
}

func (b *builder) newFKIn(fk *catalog.ForeignKey, child, parent *catalog.Table) (*fkIn, error) {
	in, err := newFKCheckIn(fk, child, parent)
	if err != nil {
		return nil, err
	}
	if in.writer, err = b.writer(child); err != nil {
		return nil, err
	}
	in.set = in.cols
	if fk.SetColumns != nil {
		in.set = ordinals(child, fk.SetColumns)
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
	return in, b.follows(in)
}

// newFKCheckIn makes a fkIn for checks only.
func newFKCheckIn(fk *catalog.ForeignKey, child, parent *catalog.Table) (*fkIn, error) {
	c, err := newChildren(fk, child, parent)
	if err != nil {
		return nil, err
	}
	in := &fkIn{children: *c}
	in.parentKey, err = newFKOut(fk, child, parent)
	return in, err
}

// follows compiles the further assignments and checks of an action that changes rows.
func (b *builder) follows(in *fkIn) error {
	changes := func(a catalog.Action) bool { return a == catalog.SetNull || a == catalog.SetDefault }
	if !changes(in.fk.OnDelete) && !changes(in.fk.OnUpdate) && in.fk.OnUpdate != catalog.Cascade {
		return nil
	}
	assigned := make(map[int]bool)
	for _, c := range in.cols {
		assigned[c] = true
	}
	l := make(layout)
	for o := range in.child.Columns {
		l[scalar.ColumnID(o+1)] = o
	}
	needed := len(in.child.Checks) > 0
	for i := range in.child.Columns {
		needed = needed || in.child.Columns[i].Generated != "" || in.child.Columns[i].OnUpdate != ""
	}
	if needed && b.opts.Follows != nil {
		generated, checks, err := b.opts.Follows(b.ctx, in.child)
		if err != nil {
			return err
		}
		for _, g := range generated {
			col := &in.child.Columns[g.Ordinal]
			if assigned[g.Ordinal] || col.Generated != "" && col.State == catalog.Public && !reads(g.Expr, assigned) {
				continue // the action's own value counts, not ON UPDATE; and nothing that it is computed from changes
			}
			ev, err := b.expr(g.Expr, l)
			if err != nil {
				return err
			}
			if col.Generated == "" {
				in.onUpdate = append(in.onUpdate, setExpr{g.Ordinal, ev})
			} else {
				in.generated = append(in.generated, setExpr{g.Ordinal, ev})
			}
			assigned[g.Ordinal] = true
		}
		if in.checks, err = b.checks(checks, l); err != nil {
			return err
		}
	}
	in.notNull, in.changed = in.writer.affected(assigned)
	return nil
}

// reads reports whether an expression over ordinals plus one reads one of some columns.
func reads(e scalar.Expr, ordinals map[int]bool) (found bool) {
	scalar.Columns(e, func(id scalar.ColumnID) { found = found || ordinals[int(id)-1] })
	return found
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
	vals := types.Row(nil)
	if nulls > 0 {
		if o.fk.MatchFull && nulls < len(o.cols) {
			vals = pick(after, o.cols)
			return m.r.event(fkEvent{out: &fkCheck{fk: o, vals: vals}, vals: vals})
		}
		return nil
	}
	vals = pick(after, o.cols)
	c, err := o.check(m.r, after, vals)
	if err != nil {
		return err
	}
	k := c.key
	if o.self || o.fk.Deferrable || m.cascades {
		// The statement may insert the parent later, or a deferred check may allow that; and a later action may change the
		// row again.
		return m.r.event(fkEvent{out: c, vals: vals})
	}
	if _, ok := m.seen[string(k)]; ok {
		return nil
	}
	if _, ok := m.r.known[string(k)]; ok {
		return nil
	}
	if m.seen == nil || len(m.seen) > 1<<16 {
		m.seen = make(map[string]struct{})
	}
	m.seen[string(k)] = struct{}{}
	m.r.seq++
	c.seq = m.r.seq
	m.checks = append(m.checks, *c)
	return nil
}

// maxKnown bounds the parents that a statement remembers; it checks the others once more.
const maxKnown = 1 << 16

// knows notes that a parent was found by a lookup that is a check (opt.Locking.Check).
func (r *run) knows(k keys.Key) error {
	if len(r.known) >= maxKnown {
		return nil
	}
	if _, have := r.known[string(k)]; have {
		return nil
	}
	if err := r.budget.Grow(int64(len(k)) + spanBytes); err != nil {
		return err
	}
	r.eventBytes += int64(len(k)) + spanBytes
	if r.known == nil {
		r.known = make(map[string]struct{})
	}
	r.known[string(k)] = struct{}{}
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

// looksDifferent is differ for values that may be equal and print differently: ON UPDATE passes 1.00 on after 1.0, and RESTRICT refuses it.
func looksDifferent(t *catalog.Table, cols []int, a, b types.Row) bool {
	return differ(t, cols, a, b) || slices.ContainsFunc(cols, func(c int) bool { return !types.SameRepresentation(a[c], b[c]) })
}

// keyChanged reports whether an update of a parent is one that the foreign key's action is for. For NO ACTION it is not if the key is there under another look.
func (in *fkIn) keyChanged(parent *catalog.Table, before, after types.Row) bool {
	if in.fk.OnUpdate == catalog.NoAction {
		return differ(parent, in.refs, before, after)
	}
	return looksDifferent(parent, in.refs, before, after)
}

// incoming notes the removal of a key that other rows may refer to.
func (m *mutation) incoming(w *tableWriter, before, after types.Row) error {
	for _, in := range w.in {
		if after != nil && !in.keyChanged(w.table, before, after) {
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
	if e.seq == 0 {
		r.seq++
		e.seq = r.seq
	}
	e.cause = r.cause
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

// checkParents looks up the parents that the batch's rows need. A missing one is looked up again after the statement:
// violations of other constraints come first.
func (m *mutation) checkParents() error {
	missing, err := m.r.missingParents(m.checks)
	if err != nil {
		m.forgetChecks()
		return err
	}
	return m.lacks(missing)
}

func (m *mutation) forgetChecks() {
	clear(m.checks)
	m.checks = m.checks[:0]
}

// missingParents are the checks whose parents do not exist.
func (r *run) missingParents(checks []fkCheck) (missing []int, err error) {
	for at := 0; at < len(checks); at += lookupBatch {
		part := checks[at:min(at+lookupBatch, len(checks))]
		ks, n, err := r.nearParents(part)
		if err != nil {
			return nil, err
		}
		vs, err := r.checkFound(ks, asked(n))
		if err != nil {
			return nil, err
		}
		for _, i := range parentless(n, vs) {
			missing = append(missing, at+i)
		}
	}
	return missing, nil
}

// nearParents looks for parents that may be in any region in the near one. It returns the keys by which the parents that were not found there, and those of which the place is known,
// have to be looked for, and how many of them belong to each check, in order: none if it has no key, and -1 if its parent was found.
func (r *run) nearParents(checks []fkCheck) (ks []keys.Key, n []int, err error) {
	var near []keys.Key
	for i := range checks {
		if c := &checks[i]; len(c.others) > 0 && !c.far {
			near = append(near, c.key)
		}
	}
	found, err := r.checkMany(near)
	if err != nil {
		return nil, nil, err
	}
	var away *catalog.Table // is searched in other regions
	n = make([]int, len(checks))
	for i := range checks {
		c := &checks[i]
		if len(c.others) > 0 && !c.far {
			v := found[0]
			if found = found[1:]; v != nil {
				n[i] = -1
				continue
			}
		} else if c.key != nil {
			ks, n[i] = append(ks, c.key), 1
		}
		if len(c.others) > 0 {
			ks, n[i], away = append(ks, c.others...), n[i]+len(c.others), c.fk.parent
		}
	}
	if away != nil && r.env.Home != nil {
		if err := r.env.Home.Searches(r.ctx, away.ID, nil); err != nil {
			return nil, nil, err
		}
	}
	return ks, n, nil
}

// asked is how many checks have keys to be looked for. No more of the keys have values, since a parent is in one region at a time.
func asked(n []int) (checks int) {
	for _, n := range n {
		if n > 0 {
			checks++
		}
	}
	return checks
}

// parentless are the checks none of whose keys has a value.
func parentless(n []int, vs [][]byte) (missing []int) {
	for i, n := range n {
		if n < 0 {
			continue
		}
		if !slices.ContainsFunc(vs[:n], func(v []byte) bool { return v != nil }) {
			missing = append(missing, i)
		}
		vs = vs[n:]
	}
	return missing
}

func (o *fkOut) violation(vals types.Row) *sqlstate.Error {
	e := sqlstate.New(sqlstate.ForeignKeyViolation, "insert or update on table \"%s\" violates foreign key constraint \"%s\"",
		o.child.Name, o.fk.Name)
	e.Table, e.TableID, e.Constraint = o.child.Name, uint32(o.child.ID), o.fk.Name
	if slices.ContainsFunc(vals, types.Datum.IsNull) {
		e.Detail = "MATCH FULL does not allow mixing of null and nonnull key values."
	} else {
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

// precheck drops the statement's foreign key events if the state before the statement shows that they need no work, so
// that the last batch can carry the commit (exec.X4). It leaves events that may need some. missing are the rows that it has found to have no parent.
func (r *run) precheck() (missing []fkEvent, err error) {
	ins, outs := 0, 0
	for _, e := range r.events {
		switch {
		case e.unique != nil:
			return nil, nil
		case e.out != nil:
			outs++
		case e.in.child.ID == e.in.parent.ID:
			return nil, nil
		default:
			ins++
		}
	}
	if outs > 0 {
		// These rows refer to their own table, in a statement that removes no key.
		if ins > 0 {
			return nil, nil
		}
		checks := make([]fkCheck, 0, outs)
		for _, e := range r.events {
			checks = append(checks, *e.out)
		}
		lack, err := r.missingParents(checks)
		for _, i := range lack {
			missing = append(missing, r.events[i])
		}
		if err == nil && len(missing) == 0 {
			r.events = nil
		}
		return missing, err
	}
	r.events, err = r.referredTo(r.events)
	r.prechecked = true
	return nil, err
}

// orphan is the violation of a statement that is a transaction by itself, if it has written nothing yet and some of its new rows have no parent: the batch would be written only to
// be undone, and the parent looked for at its leaseholder, since a transaction that has written reads nowhere else. A key that another row has, also one of the statement, is a violation that comes first; so
// all keys of the new rows are looked up, at once, except random ones. In any doubt the answer is nil, and the end of the statement decides.
func (m *mutation) orphan(missing []fkEvent) error {
	if len(missing) == 0 || m.r.flushed || m.cascades {
		return nil
	}
	first := missing[0]
	for _, e := range missing {
		if e.out.fk.self || e.out.fk.fk.Deferrable {
			return nil // the batch may have the parent
		}
		if e.seq < first.seq {
			first = e
		}
	}
	var fresh []keys.Key
	given := make(map[string]bool)
	for w := range m.batch.Writes() {
		switch w.Kind {
		case txn.WritePutNew:
			if given[string(w.Key)] {
				return nil // two rows of the statement have it
			}
			given[string(w.Key)] = true
			if !m.random(w.Key) {
				fresh = append(fresh, w.Key)
			}
		case txn.WritePut: // an entry of an index that is not unique
		default:
			return nil
		}
	}
	if len(given) == 0 || len(fresh) > lookupBatch {
		return nil
	}
	vs, err := m.r.kv.GetMany(m.r.ctx, fresh, kv.NoLock, kv.Block)
	if err != nil || slices.ContainsFunc(vs, func(v []byte) bool { return v != nil }) {
		return err
	}
	return first.out.fk.violation(first.vals)
}

// random reports whether a key is one that no other row can have (unchecked).
func (m *mutation) random(k keys.Key) bool {
	for iw, on := range m.unchecked {
		if on && iw.codec.has(k) {
			return true
		}
	}
	return false
}
