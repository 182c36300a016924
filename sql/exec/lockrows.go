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
	o      *lockRowsOp
	in     iter
	store  rowStore // rows of the input whose rows are locked together
	gone   []bool   // those of the store that are left out
	fresh  []bool   // those that have changed
	vals   types.Row
	row    types.Row
	at     int
	size   int
	hinted int64 // rows that the consumer will take; zero: all
	sent   int64
	ended  bool
}

func (it *lockRowsIter) open() error {
	it.reset()
	it.sent, it.size, it.ended = 0, firstPage, false
	return it.in.open()
}

// hint tells how many rows will be taken: no others are locked. The input may have to give more.
func (it *lockRowsIter) hint(rows int64) {
	it.hinted = rows
	hint(it.in, rows)
}

func (it *lockRowsIter) reset() {
	it.store.reset(it.r.budget)
	it.gone, it.fresh, it.at = it.gone[:0], it.fresh[:0], 0
	clear(it.vals)
}

func (it *lockRowsIter) close() {
	it.reset()
	clear(it.row)
	it.in.close()
}

func (it *lockRowsIter) next() (types.Row, error) {
	for {
		for it.at < len(it.store.rows) {
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
		if it.ended {
			return nil, nil
		}
		if err := it.fill(); err != nil {
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

// fill takes the next rows of the input, and locks theirs.
func (it *lockRowsIter) fill() error {
	it.reset()
	size := int64(it.size)
	if it.hinted > 0 {
		size = min(size, max(it.hinted-it.sent, 1))
	}
	for int64(len(it.store.rows)) < size {
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
	it.size = grow(it.size, lookupBatch)
	it.gone, it.fresh = slices.Grow(it.gone, len(it.store.rows))[:len(it.store.rows)], slices.Grow(it.fresh, len(it.store.rows))[:len(it.store.rows)]
	clear(it.gone)
	clear(it.fresh)
	it.letGo()
	// Tables that are locked in the same way are locked at the same time, except that a row of which one table's part is skipped locks none of the next.
	for from := 0; from < len(it.o.tables); {
		to := from + 1
		for lock := it.o.tables[from].locking; to < len(it.o.tables) && lock.Wait != kv.SkipLocked && it.o.tables[to].locking == lock; {
			to++
		}
		if err := it.lock(it.o.tables[from:to]); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// lockOf says which row of the store a lock is for, and by which table.
type lockOf struct{ row, table, key int }

// lock locks the rows of some tables.
func (it *lockRowsIter) lock(tables []lockedTable) error {
	var ks []keys.Key
	var of []lockOf
	seen := make(map[string]int)
	for i, row := range it.store.rows {
		if it.gone[i] {
			continue
		}
		for j := range tables {
			t := &tables[j]
			it.vals = it.vals[:0]
			null := false
			for _, s := range t.key {
				null = null || row[s].IsNull()
				it.vals = append(it.vals, row[s])
			}
			if null {
				continue // an outer join has found no row
			}
			k, err := t.index.appendPrefix(nil, it.vals)
			if err != nil {
				return err
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
