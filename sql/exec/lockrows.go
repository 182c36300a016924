package exec

import (
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// lockRowsOp locks the rows of tables from which the rows of its input were made (opt.LockNode).
type lockRowsOp struct {
	base
	input  op
	width  int
	tables []lockedTable
	steps  []lockStep
}

// lockedTable is a table whose rows are locked: the input's slots of its primary key, and of the columns that are read again.
type lockedTable struct {
	index   *indexCodec
	dec     *rowDecoder
	key     []int
	slots   []int
	types   []*types.T
	locking opt.Locking
}

// lockStep is a part of the query that is computed again for a row that has changed.
type lockStep struct {
	filter []scalar.Evaluator
	nulls  []int
	outer  bool
	items  []scalar.Evaluator
	slots  []int // of items
}

func (b *builder) lockRows(n *opt.LockNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &lockRowsOp{base: base{n}, input: in, width: len(n.Input.Columns())}
	for i := range n.Tables {
		t, err := b.lockedTable(&n.Tables[i], l)
		if err != nil {
			return nil, err
		}
		o.tables = append(o.tables, t)
	}
	for i := range n.Steps {
		st := &n.Steps[i]
		s := lockStep{outer: st.Nulls != nil}
		if s.filter, err = b.exprs(st.Filter, l); err != nil {
			return nil, err
		}
		if s.nulls, err = l.slots(st.Nulls); err != nil {
			return nil, err
		}
		for _, it := range st.Items {
			ev, err := b.expr(it.Expr, l)
			if err != nil {
				return nil, err
			}
			slot, err := l.slots([]scalar.ColumnID{it.Col})
			if err != nil {
				return nil, err
			}
			s.items, s.slots = append(s.items, ev), append(s.slots, slot[0])
		}
		o.steps = append(o.steps, s)
	}
	return b.remap(o, n.Input, n)
}

func (b *builder) lockedTable(t *opt.LockedTable, l layout) (out lockedTable, err error) {
	b.expects(t.Table)
	out.locking = t.Locking
	if out.key, err = l.slots(t.KeyCols); err != nil {
		return out, err
	}
	if out.slots, err = l.slots(t.Cols); err != nil {
		return out, err
	}
	for _, ord := range t.Ordinals {
		out.types = append(out.types, t.Table.Columns[ord].Type)
	}
	if out.index, err = newIndexCodec(t.Table, t.Table.Primary()); err != nil {
		return out, err
	}
	b.reads(out.index, nil, nil)
	out.dec, err = newRowDecoder(t.Table, t.Table.Primary(), t.Ordinals)
	return out, err
}

func (o *lockRowsOp) iter(r *run) iter {
	return &lockRowsIter{reader: reader{r: r}, o: o, in: r.make(o.input)}
}

type lockRowsIter struct {
	reader
	o     *lockRowsOp
	in    iter
	store rowStore // rows of the input whose rows are locked together
	gone  []bool   // those of the store that are left out
	fresh []bool   // those that have changed
	// changed are those that were passed over (reader.choose), and passed the rows of earlier stores, as long as none was handed out.
	changed []bool
	passed  rowStore
	locked  int // how many of the store are decided: locked, or gone
	vals    types.Row
	row     types.Row
	at      int
	size    int
	hinted  int64 // rows that the consumer will take; zero: all
	sent    int64
	ended   bool
}

func (it *lockRowsIter) open() error {
	it.reset()
	it.passed.reset(it.r.budget)
	it.sent, it.size, it.ended = 0, firstPage, false
	return it.in.open()
}

// hint tells how many rows will be taken: no others are locked. The input may have to give more.
func (it *lockRowsIter) hint(rows int64) {
	it.hinted = rows
	if it.firstFree() {
		rows += candidates
	}
	hint(it.in, rows)
}

// firstFree reports whether the rows that are locked are the first of several that are free.
func (it *lockRowsIter) firstFree() bool {
	return len(it.o.tables) == 1 && it.chooses(it.o.tables[0].locking, it.hinted)
}

func (it *lockRowsIter) reset() {
	it.store.reset(it.r.budget)
	it.gone, it.fresh, it.changed, it.at, it.locked = it.gone[:0], it.fresh[:0], it.changed[:0], 0, 0
	clear(it.vals)
}

func (it *lockRowsIter) close() {
	it.reset()
	it.passed.reset(it.r.budget)
	clear(it.row)
	it.in.close()
}

func (it *lockRowsIter) next() (types.Row, error) {
	for {
		for it.at < it.locked {
			i := it.at
			it.at++
			if it.gone[i] {
				continue
			}
			row := it.store.rows[i]
			if it.fresh[i] {
				ok, err := it.again(row)
				if err != nil {
					return nil, err
				}
				if !ok {
					continue
				}
			}
			it.sent++
			return row, nil
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		var err error
		switch {
		case it.locked < len(it.store.rows) && it.firstFree():
			err = it.lockFirst()
		case it.locked < len(it.store.rows):
			err = it.lockNext()
		case !it.ended:
			err = it.fill()
		default:
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// again computes what the query makes of a row that has changed. It reports whether the row is still one of the query's.
func (it *lockRowsIter) again(row types.Row) (bool, error) {
	for i := range it.o.steps {
		s := &it.o.steps[i]
		ok, err := it.r.pass(s.filter, row)
		if err != nil {
			return false, err
		}
		switch {
		case !ok && !s.outer:
			return false, nil
		case !ok:
			for _, slot := range s.nulls {
				row[slot] = types.Null
			}
		}
		for j, ev := range s.items {
			if row[s.slots[j]], err = ev.Eval(&it.r.sctx, row); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// wanted is how many more rows the consumer will take, at least one; zero: all.
func (it *lockRowsIter) wanted() int {
	if it.hinted <= 0 {
		return 0
	}
	return int(max(it.hinted-it.sent, 1))
}

// fill takes the next rows of the input.
func (it *lockRowsIter) fill() error {
	if err := it.notePassed(); err != nil {
		return err
	}
	it.reset()
	size := it.size
	if n := it.wanted(); n > 0 && !it.firstFree() {
		size = min(size, n)
	} else if n > 0 && size == firstPage {
		size = min(size, n+candidates)
	}
	it.size = grow(size, lookupBatch)
	for len(it.store.rows) < size {
		row, err := it.in.next()
		if err != nil {
			return err
		}
		if row == nil {
			it.ended = true
			break
		}
		if _, err := it.store.add(it.r.budget, row); err != nil {
			return err
		}
	}
	n := len(it.store.rows)
	it.prepare(n)
	it.letGo()
	if n == 0 && len(it.passed.rows) > 0 {
		return it.lockPassed(it.wanted())
	}
	return nil
}

// prepare makes all of n rows undecided.
func (it *lockRowsIter) prepare(n int) {
	for _, l := range []*[]bool{&it.gone, &it.fresh, &it.changed} {
		*l = slices.Grow((*l)[:0], n)[:n]
		clear(*l)
	}
}

// notePassed keeps in mind the rows of the store that were passed over, for the case that there are no others. Once a later row was handed out it is too late for them, in
// the order of the query; they have been locked since the statement began.
func (it *lockRowsIter) notePassed() error {
	if it.sent > 0 {
		it.passed.reset(it.r.budget)
		return nil
	}
	for i, changed := range it.changed {
		if !changed {
			continue
		}
		if _, err := it.passed.add(it.r.budget, it.store.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// lockPassed locks the first n of the rows that were passed over, where there are no others.
func (it *lockRowsIter) lockPassed(n int) error {
	if m := len(it.passed.rows); m > 0 {
		it.store.rows = slices.Insert(it.store.rows, 0, it.passed.rows...)
		it.store.bytes += it.passed.bytes
		it.passed = rowStore{}
		it.gone, it.fresh, it.changed = slices.Insert(it.gone, 0, make([]bool, m)...), slices.Insert(it.fresh, 0, make([]bool, m)...), slices.Insert(it.changed, 0, make([]bool, m)...)
		for i := range m {
			it.gone[i], it.changed[i] = true, true
		}
		it.locked += m
	}
	t := &it.o.tables[0]
	for i := it.at; i < len(it.changed) && n > 0; i++ {
		if !it.changed[i] {
			continue
		}
		k, err := it.keyOf(t, it.store.rows[i])
		if err != nil {
			return err
		}
		v, err := it.revisit(k, t.locking)
		if err != nil {
			return err
		}
		if it.changed[i] = false; v == nil {
			continue
		}
		it.gone[i] = false
		if err := it.refresh(t, k, v, i); err != nil {
			return err
		}
		n--
	}
	return nil
}

// lockNext locks the next rows of the store, no more than are wanted.
func (it *lockRowsIter) lockNext() error {
	from := it.locked
	it.locked = len(it.store.rows)
	if n := it.wanted(); n > 0 {
		it.locked = min(it.locked, from+n)
	}
	// Tables that are locked in the same way are locked at the same time, except that a row of which one table's part is skipped locks none of the next.
	for t := 0; t < len(it.o.tables); {
		to := t + 1
		for lock := it.o.tables[t].locking; to < len(it.o.tables) && lock.Wait != kv.SkipLocked && it.o.tables[to].locking == lock; {
			to++
		}
		if err := it.lock(it.o.tables[t:to], from); err != nil {
			return err
		}
		t = to
	}
	return nil
}

// lockFirst locks the first rows of the store that are free, as many as are wanted.
func (it *lockRowsIter) lockFirst() error {
	t := &it.o.tables[0]
	var ks []keys.Key
	seen := make(map[string]bool)
	for i := it.locked; i < len(it.store.rows); i++ {
		k, err := it.keyOf(t, it.store.rows[i])
		if err != nil {
			return err
		}
		if k == nil || seen[string(k)] {
			break // nothing to lock, or what another row may have locked by then
		}
		seen[string(k)] = true
		ks = append(ks, k)
	}
	if len(ks) < 2 {
		return it.lockNext()
	}
	n := it.wanted()
	vs, changed, err := it.choose(ks, n, t.locking)
	if err != nil {
		return err
	}
	n -= valued(vs)
	for j, v := range vs {
		i := it.locked
		it.locked++
		it.changed[i] = changed[j]
		if it.gone[i] = v == nil; v == nil {
			continue
		}
		if err := it.refresh(t, ks[j], v, i); err != nil {
			return err
		}
	}
	if n > 0 && it.ended && it.locked == len(it.store.rows) {
		return it.lockPassed(n)
	}
	return nil
}

// keyOf is the key of a table's row in a row of the input, nil if an outer join has found none.
func (it *lockRowsIter) keyOf(t *lockedTable, row types.Row) (keys.Key, error) {
	it.vals = it.vals[:0]
	for _, s := range t.key {
		if row[s].IsNull() {
			return nil, nil
		}
		it.vals = append(it.vals, row[s])
	}
	return t.index.appendPrefix(nil, it.vals)
}

// lockOf says which row of the store a lock is for, and by which table.
type lockOf struct{ row, table, key int }

// lock locks the parts of some tables of the store's rows that are decided on, from the one given on.
func (it *lockRowsIter) lock(tables []lockedTable, from int) error {
	var ks []keys.Key
	var of []lockOf
	seen := make(map[string]int)
	for i := from; i < it.locked; i++ {
		if it.gone[i] {
			continue
		}
		for j := range tables {
			k, err := it.keyOf(&tables[j], it.store.rows[i])
			if err != nil {
				return err
			}
			if k == nil {
				continue
			}
			n, ok := seen[string(k)]
			if !ok {
				n = len(ks)
				seen[string(k)] = n
				ks = append(ks, k)
			}
			of = append(of, lockOf{i, j, n})
		}
	}
	if len(ks) == 0 {
		return nil
	}
	lock := tables[0].locking
	defer it.holds(lock.Held)()
	var vs [][]byte
	var err error
	if len(ks) == 1 {
		var v []byte
		v, err = it.askOne(ks[0], lock.Strength, lock.Wait)
		vs = append(vs, v)
	} else {
		vs, err = it.getParts(ks, lock.Strength, lock.Wait)
	}
	if err != nil {
		return err
	}
	for _, f := range of {
		if vs[f.key] == nil { // deleted, or, with SKIP LOCKED, locked by another transaction
			it.gone[f.row] = true
			continue
		}
		if err := it.refresh(&tables[f.table], ks[f.key], vs[f.key], f.row); err != nil {
			return err
		}
	}
	return nil
}

// refresh puts the values of a row that is locked in the place of those that were read before.
func (it *lockRowsIter) refresh(t *lockedTable, k keys.Key, v []byte, i int) error {
	it.row = slices.Grow(it.row[:0], len(t.slots))[:len(t.slots)]
	if err := t.dec.decode(k, v, it.row); err != nil {
		return err
	}
	row := it.store.rows[i]
	for j, s := range t.slots {
		a, b := row[s], it.row[j]
		if a.IsNull() != b.IsNull() || !a.IsNull() && t.types[j].Compare(a, b) != 0 {
			it.fresh[i] = true
		}
		row[s] = b
	}
	return nil
}
