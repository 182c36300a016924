package exec

import (
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// conflictBatch is how many rows of INSERT ... ON CONFLICT look for their arbiters at once.
const conflictBatch = 256

// insertOp runs INSERT and UPSERT.
type insertOp struct {
	base
	input     op
	w         *tableWriter
	width     int   // of the table's row
	source    []int // input slot of each table column, or -1
	notNull   []int
	checks    []checkSpec
	returning []scalar.Evaluator
	place     place

	upsert    bool
	blind     bool // UPSERT that need not read
	conflict  bool
	arbiters  []*indexWriter
	doUpdate  bool
	set       []setExpr
	generated []setExpr // computed after set, from the row as assigned
	where     []scalar.Evaluator
	setNull   []int // NOT NULL columns that the update assigns
	unchecked map[*indexWriter]bool
	updChecks []checkSpec
	changed   []*indexWriter
	commutes  []opt.Commuting // what the update adds to, if it only does that
}

type setExpr struct {
	ordinal int
	ev      scalar.Evaluator
}

func (b *builder) insert(n *opt.InsertNode, at place) (op, error) {
	b.mutator(at)
	s := n.Stmt
	in, inl, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	t := s.Table
	o := &insertOp{base: base{n}, input: in, width: len(t.Columns), place: at, upsert: s.Upsert}
	if o.w, err = b.writer(t); err != nil {
		return nil, err
	}
	o.w.mutations++
	o.notNull = o.w.notNull
	o.source = make([]int, o.width)
	for i := range o.source {
		o.source[i] = -1
		if i < len(s.Source) && s.Source[i] != 0 {
			slot, ok := inl.slot(s.Source[i])
			if !ok {
				return nil, internal("column %s is not in the input", t.Columns[i].Name)
			}
			o.source[i] = slot
		}
		if st := t.Columns[i].State; st == catalog.DeleteOnly || st == catalog.Absent {
			o.source[i] = -1
		}
	}
	o.unchecked = unchecked(o.w, n.Input, s.Source)
	b.looksFor(n, o.w, o.w.indexes, o.unchecked, map[int]bool{})
	l := layout{}.add(0, s.New).add(o.width, n.Input.Columns())
	if o.checks, err = b.checks(s.Checks, l); err != nil {
		return nil, err
	}
	if o.returning, err = b.returning(s.Returning, n.Cols, l); err != nil {
		return nil, err
	}
	if s.Upsert {
		o.blind = len(o.w.indexes) == 1 && len(o.w.in) == 0 && o.w.primary.world == nil
	}
	if s.Conflict != nil {
		return o, b.onConflict(o, s, n)
	}
	return o, nil
}

func (b *builder) onConflict(o *insertOp, s *opt.Insert, n *opt.InsertNode) (err error) {
	c := s.Conflict
	o.conflict, o.doUpdate, o.upsert = true, c.DoUpdate, false
	for _, iw := range o.w.indexes {
		if !iw.index.Unique && !iw.index.Primary || iw.index.State != catalog.Public || iw.pred != nil {
			continue
		}
		if len(c.Arbiters) == 0 {
			o.arbiters = append(o.arbiters, iw)
			continue
		}
		for _, id := range c.Arbiters {
			if id == iw.index.ID {
				o.arbiters = append(o.arbiters, iw)
			}
		}
	}
	if !c.DoUpdate {
		return nil
	}
	// The row in the way comes first; the row that was to be inserted is in the input.
	l := layout{}.add(0, c.Existing).add(o.width, n.Input.Columns())
	assigned := make(map[int]bool)
	for _, item := range c.Set {
		ev, err := b.expr(item.Expr, l)
		if err != nil {
			return err
		}
		o.set = append(o.set, setExpr{item.Ordinal, ev})
		assigned[item.Ordinal] = true
	}
	if o.where, err = b.exprs(c.Where, l); err != nil {
		return err
	}
	// A check sees the row as it becomes, under whichever name it was bound.
	after := layout{}.add(0, s.New).add(0, c.Existing).add(o.width, n.Input.Columns())
	for _, item := range c.Generated {
		ev, err := b.expr(item.Expr, after)
		if err != nil {
			return err
		}
		o.generated = append(o.generated, setExpr{item.Ordinal, ev})
		assigned[item.Ordinal] = true
	}
	if o.updChecks, err = b.checks(c.Checks, after); err != nil {
		return err
	}
	o.setNull, o.changed = o.w.affected(assigned)
	o.commutes = c.Commutes
	for _, iw := range o.arbiters {
		// A key that the update gives up is free for a later row, which is looked for by it. The order of writes sees to keys of other indexes.
		for _, c := range iw.index.UserColumns() {
			o.w.stepwise = o.w.stepwise || assigned[o.w.table.Ordinal(c.Column)]
		}
	}
	return nil
}

// affected lists the NOT NULL columns among those assigned, and the indexes with an entry that may change. A row of which nothing is assigned is written as it is, so that transactions that
// change it too conflict with the statement.
func (w *tableWriter) affected(assigned map[int]bool) (notNull []int, changed []*indexWriter) {
	for _, o := range w.notNull {
		if assigned[o] {
			notNull = append(notNull, o)
		}
	}
	if len(assigned) == 0 {
		return nil, []*indexWriter{w.primary}
	}
	for _, iw := range w.indexes {
		for o := range assigned {
			if iw.uses[o] {
				changed = append(changed, iw)
				break
			}
		}
	}
	return notNull, changed
}

func (o *insertOp) iter(r *run) iter {
	return &insertIter{reader: reader{r: r}, o: o, in: r.make(o.input), m: mutation{reader: reader{r: r}, unchecked: o.unchecked},
		comb: make(types.Row, o.width+len(o.node.(*opt.InsertNode).Input.Columns()))}
}

type insertIter struct {
	reader
	o    *insertOp
	in   iter
	m    mutation
	comb types.Row // the table's row, then the input's
	out  emitter
	ran  bool

	// pending rows of a batch with ON CONFLICT or UPSERT: copies of comb.
	pending rowStore
	// written are the arbiter keys that the statement has written: a second row with one of them must not change
	// the same row again. The value is the row as written, for UPSERT.
	written map[string]types.Row
	taken   int64
}

func (it *insertIter) setStats(s *NodeStats) { it.stats, it.m.stats = s, s }

func (it *insertIter) open() error {
	it.reset()
	return it.in.open()
}

func (it *insertIter) reset() {
	it.ran = false
	it.m.reset()
	it.out.reset(it.r)
	it.pending.reset(it.r.budget)
	it.r.budget.Shrink(it.taken)
	it.written, it.taken = nil, 0
}

func (it *insertIter) close() {
	it.reset()
	clear(it.comb)
	it.in.close()
}

func (it *insertIter) next() (types.Row, error) {
	step := it.o.w.steps()
	for !it.ran {
		last, err := it.consume(step)
		if err != nil {
			return nil, it.m.failed(err)
		}
		if last {
			it.ran = true
			if err := it.end(); err != nil {
				return nil, err
			}
		}
		if step {
			if row := it.out.next(); row != nil {
				return row, nil
			}
			it.out.reset(it.r)
		}
	}
	return it.out.next(), nil
}

// consume inserts every row of the input, or, with step, one; last says that there are no more.
func (it *insertIter) consume(step bool) (last bool, err error) {
	for {
		row, err := it.in.next()
		if err != nil || row == nil {
			return true, err
		}
		if err := it.add(row, step); err != nil {
			return false, err
		}
		if err := it.r.tick(); err != nil || step {
			return false, err
		}
	}
}

// end writes the remaining rows.
func (it *insertIter) end() error {
	if err := it.resolve(); err != nil {
		return it.m.failed(err)
	}
	return it.m.finish(it.o.place)
}

// add takes one row of the input. step says that it is to be inserted at once.
func (it *insertIter) add(row types.Row, step bool) error {
	o := it.o
	for i, s := range o.source {
		if s < 0 {
			it.comb[i] = o.w.initial[i]
		} else {
			it.comb[i] = row[s]
		}
	}
	copy(it.comb[o.width:], row)
	if err := it.r.validate(o.w.table, o.notNull, o.checks, it.comb); err != nil {
		return err
	}
	if o.conflict || o.upsert {
		if _, err := it.pending.add(it.r.budget, it.comb); err != nil {
			return err
		}
		if !step && len(it.pending.rows) < conflictBatch {
			return nil
		}
		if err := it.resolve(); err != nil {
			return err
		}
	} else if err := it.write(it.comb, false); err != nil {
		return err
	}
	if step {
		return it.m.flush(false)
	}
	return nil
}

// write inserts a row for which no conflict is known.
func (it *insertIter) write(comb types.Row, blind bool) error {
	o := it.o
	if err := it.m.insert(o.w, comb[:o.width], blind); err != nil {
		return err
	}
	if err := it.m.outgoing(o.w, comb[:o.width], nil); err != nil {
		return err
	}
	return it.done(comb)
}

func (it *insertIter) done(comb types.Row) error {
	it.m.count(it.o.place)
	if err := it.out.add(it.r, it.o.returning, comb); err != nil {
		return err
	}
	if it.m.full() {
		return it.m.flush(false)
	}
	return nil
}

// resolve handles the pending rows of ON CONFLICT and UPSERT.
func (it *insertIter) resolve() error {
	if len(it.pending.rows) == 0 {
		return nil
	}
	var err error
	switch {
	case it.o.conflict:
		err = it.resolveConflicts()
	case it.o.blind:
		for _, comb := range it.pending.rows {
			if err = it.write(comb, true); err != nil {
				break
			}
		}
	default:
		err = it.resolveUpserts()
	}
	it.pending.reset(it.r.budget)
	return err
}

// mark remembers a key that the statement has written.
func (it *insertIter) mark(k []byte, row types.Row) error {
	if it.o.w.steps() {
		return nil // noted where it is written
	}
	if it.written == nil {
		it.written = make(map[string]types.Row)
	}
	n := int64(len(k)+64) + rowBytes(row)
	if err := it.r.budget.Grow(n); err != nil {
		return err
	}
	it.taken += n
	it.written[string(k)] = row
	return nil
}

// own reports whether the statement has written the row that has a key.
func (it *insertIter) own(k keys.Key) bool {
	if it.o.w.steps() {
		return it.r.holdsKey(k)
	}
	_, ok := it.written[string(k)]
	return ok
}

// resolveUpserts reads the rows that are to be replaced, and changes or inserts.
func (it *insertIter) resolveUpserts() error {
	o := it.o
	rows := it.pending.rows
	ks := make([]keys.Key, len(rows))
	for i, comb := range rows {
		k, err := o.w.primary.codec.appendKey(nil, comb[:o.width])
		if err != nil {
			return err
		}
		ks[i] = k
	}
	vs, err := it.getMany(ks, kv.Exclusive, kv.Block)
	if err != nil {
		return err
	}
	for i, comb := range rows {
		before := it.written[string(ks[i])]
		now, known := it.r.version(o.w, ks[i])
		if known {
			before = now
		}
		if before == nil && vs[i] != nil && !known {
			before = make(types.Row, o.width)
			if err := o.w.all.decode(ks[i], vs[i], before); err != nil {
				return err
			}
		}
		after := append(types.Row(nil), comb[:o.width]...)
		if before == nil {
			err = it.write(comb, true)
		} else {
			err = it.replace(before, comb, o.w.indexes)
		}
		if err != nil {
			return err
		}
		if err := it.mark(ks[i], after); err != nil {
			return err
		}
	}
	return nil
}

// replace changes a row to the table's part of comb.
func (it *insertIter) replace(before, comb types.Row, indexes []*indexWriter) error {
	o := it.o
	after := comb[:o.width]
	if err := it.m.change(o.w, indexes, before, after); err != nil {
		return err
	}
	if err := it.m.incoming(o.w, before, after); err != nil {
		return err
	}
	if err := it.m.outgoing(o.w, after, before); err != nil {
		return err
	}
	return it.done(comb)
}

// candidate is a row with which one pending row conflicts.
type candidate struct {
	primary  keys.Key
	existing types.Row
	fetch    int // index into the rows still to be fetched, or -1
	// by is the arbiter that has found it, and entry its key.
	by    *indexWriter
	entry keys.Key
}

func (it *insertIter) resolveConflicts() error {
	o := it.o
	rows := it.pending.rows
	lock := kv.NoLock
	if o.doUpdate {
		lock = kv.Exclusive
	}
	// One lookup for each row and arbiter; a NULL conflicts with nothing.
	na := len(o.arbiters)
	arbiterKeys := make([]keys.Key, len(rows)*na) // by which the statement's rows are compared
	hits := make([]keys.Key, len(rows)*na)        // the entry in the way
	var ks []keys.Key
	var at []int
	for i, comb := range rows {
		for j, iw := range o.arbiters {
			if !iw.codec.conflicts(comb[:o.width]) {
				continue
			}
			k, err := iw.codec.appendKey(nil, comb[:o.width])
			if err != nil {
				return err
			}
			if arbiterKeys[i*na+j], err = it.r.arbiterKey(iw, comb[:o.width], k); err != nil {
				return err
			}
			ks = append(ks, k)
			at = append(at, i*na+j)
			if iw.world == nil || o.unchecked[iw] {
				continue
			}
			others, err := it.r.elsewhere(iw, comb[:o.width])
			if err != nil {
				return err
			}
			for _, k := range others {
				ks = append(ks, k)
				at = append(at, i*na+j)
			}
		}
	}
	vs, err := it.getMany(ks, lock, kv.Block)
	if err != nil {
		return err
	}
	values := make([][]byte, len(rows)*na)
	for i, v := range vs {
		if v != nil && !it.r.freed(o.w, ks[i]) {
			values[at[i]], hits[at[i]] = v, ks[i]
		}
	}
	found := make([]*candidate, len(rows))
	var fetch []keys.Key
	for i := range rows {
		for j, iw := range o.arbiters {
			v := values[i*na+j]
			if v == nil {
				continue
			}
			c := &candidate{fetch: -1, by: iw, entry: hits[i*na+j]}
			found[i] = c
			if !o.doUpdate {
				break
			}
			k := hits[i*na+j]
			if iw == o.w.primary {
				c.primary = k
				c.existing = make(types.Row, o.width)
				if err := o.w.all.decode(k, v, c.existing); err != nil {
					return err
				}
				break
			}
			pk := make(types.Row, len(o.w.primary.index.Columns))
			if err := iw.pk.decode(k, v, pk); err != nil {
				return err
			}
			if c.primary, err = o.w.primary.codec.appendPrefix(nil, pk); err != nil {
				return err
			}
			c.fetch = len(fetch)
			fetch = append(fetch, c.primary)
			break
		}
	}
	var fetched [][]byte
	if len(fetch) > 0 {
		if fetched, err = it.getMany(fetch, lock, kv.Block); err != nil {
			return err
		}
	}
	for i, comb := range rows {
		c := found[i]
		own := false
		for j := range o.arbiters {
			if k := arbiterKeys[i*na+j]; k != nil {
				own = own || it.own(k)
			}
		}
		if c != nil && c.primary != nil {
			_, known := it.r.version(o.w, c.primary)
			own = own || known || it.own(c.primary)
		}
		switch {
		case !o.doUpdate && (own || c != nil):
			continue
		case own:
			return sqlstate.New(sqlstate.CardinalityViolation, "ON CONFLICT DO UPDATE command cannot affect row a second time").
				WithHint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
		case c == nil:
			for j := range o.arbiters {
				if k := arbiterKeys[i*na+j]; k != nil {
					if err := it.mark(k, nil); err != nil {
						return err
					}
				}
			}
			if err := it.write(comb, false); err != nil {
				return err
			}
			continue
		}
		if c.fetch >= 0 {
			v := fetched[c.fetch]
			if v == nil {
				return internal("index entry without a row in table %q", o.w.table.Name)
			}
			c.existing = make(types.Row, o.width)
			if err := o.w.all.decode(c.primary, v, c.existing); err != nil {
				return err
			}
			if o.w.table.Traits().Optimistic {
				if k, err := c.by.codec.appendKey(nil, c.existing); err == nil && c.entry.Equal(k) {
					it.r.implies(c.entry, c.primary)
				}
			}
		}
		if err := it.conflictUpdate(c, comb); err != nil {
			return err
		}
	}
	return nil
}

// conflictUpdate runs DO UPDATE on the row in the way.
func (it *insertIter) conflictUpdate(c *candidate, proposed types.Row) error {
	o := it.o
	comb := make(types.Row, len(proposed))
	copy(comb, c.existing)
	copy(comb[o.width:], proposed[o.width:])
	ok, err := it.r.pass(o.where, comb)
	if err != nil || !ok {
		return err
	}
	// All new values are computed from the row as it was.
	after := make(types.Row, len(comb))
	copy(after, comb)
	for _, s := range o.set {
		if after[s.ordinal], err = s.ev.Eval(&it.r.sctx, comb); err != nil {
			return err
		}
	}
	for _, s := range o.generated { // none reads another
		if after[s.ordinal], err = s.ev.Eval(&it.r.sctx, after); err != nil {
			return err
		}
	}
	if err := it.r.validate(o.w.table, o.setNull, o.updChecks, after); err != nil {
		return err
	}
	// The condition or the values may have run another part of the statement, which has changed the row.
	if _, known := it.r.version(o.w, c.primary); known {
		return nil
	}
	if err := it.mark(c.primary, nil); err != nil {
		return err
	}
	for _, iw := range o.arbiters {
		if iw.codec.conflicts(after[:o.width]) {
			k, err := iw.codec.appendKey(nil, after[:o.width])
			if err != nil {
				return err
			}
			if k, err = it.r.arbiterKey(iw, after[:o.width], k); err != nil {
				return err
			}
			if err := it.mark(k, nil); err != nil {
				return err
			}
		}
	}
	it.m.sums = deltas(o.commutes, o.w.table, c.existing, after)
	err = it.replace(c.existing, after, o.changed)
	it.m.sums = nil
	return err
}
