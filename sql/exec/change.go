package exec

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// changeOp is the common part of UPDATE and DELETE: the input yields rows of one table with their present columns, and each is
// changed.
type changeOp struct {
	base
	input     op
	w         *tableWriter
	old       []int // input slot of each table column, or -1
	returning []scalar.Evaluator
	dedupe    bool // the input may yield a row more than once
	place     place
}

// updateOp runs UPDATE.
type updateOp struct {
	changeOp
	inWidth int
	set     []setSlot
	notNull []int
	checks  []checkSpec
	changed []*indexWriter
	// commutes are the assigned columns, if the row is only added to.
	commutes []opt.Commuting
}

// deleteOp runs DELETE.
type deleteOp struct{ changeOp }

type setSlot struct{ ordinal, slot int }

// oldSlots finds the table's columns in the input.
func oldSlots(n int, cols []scalar.ColumnID, l layout) ([]int, error) {
	out := make([]int, n)
	for i := range out {
		out[i] = -1
		if i < len(cols) && cols[i] != 0 {
			s, ok := l.slot(cols[i])
			if !ok {
				return nil, internal("column %d of the row to change is not in the input", cols[i])
			}
			out[i] = s
		}
	}
	return out, nil
}

// repeats reports whether a mutation's input may yield a row of the table more than once.
func repeats(n opt.Node) bool {
	switch n := n.(type) {
	case *opt.IndexScan, *opt.LocalitySearch:
		return false
	case *opt.FilterNode:
		return repeats(n.Input)
	case *opt.ProjectNode:
		return repeats(n.Input)
	case *opt.IndexJoin:
		return repeats(n.Input)
	case *opt.SortNode:
		return repeats(n.Input)
	case *opt.LimitNode:
		return repeats(n.Input)
	case *opt.ValuesNode:
		return false
	}
	return true
}

// change prepares the common part of a mutation of table; cols are the input's columns that hold the table's.
func (b *builder) change(n, input opt.Node, table *catalog.Table, cols []scalar.ColumnID, at place) (changeOp, layout, error) {
	b.mutator(at)
	b.optimistic = opt.Unlocked(table, input)
	in, l, err := b.input(input)
	b.optimistic = nil
	if err != nil {
		return changeOp{}, nil, err
	}
	o := changeOp{base: base{n}, input: in, dedupe: repeats(input), place: at}
	if o.w, err = b.writer(table); err != nil {
		return changeOp{}, nil, err
	}
	o.w.mutations++
	o.old, err = oldSlots(len(table.Columns), cols, l)
	return o, l, err
}

func (b *builder) update(n *opt.UpdateNode, at place) (op, error) {
	s := n.Stmt
	common, inl, err := b.change(n, n.Input, s.Table, s.Old, at)
	if err != nil {
		return nil, err
	}
	o := &updateOp{changeOp: common, inWidth: len(n.Input.Columns())}
	assigned := make(map[int]bool)
	for _, c := range s.Set {
		slot, ok := inl.slot(c.Col)
		if !ok {
			return nil, internal("assigned column %d is not in the input", c.Col)
		}
		o.set = append(o.set, setSlot{c.Ordinal, slot})
		assigned[c.Ordinal] = true
	}
	o.notNull, o.changed = o.w.affected(assigned)
	same := make(map[*indexWriter]bool) // a row that keeps its key looks for no other
	for _, iw := range o.changed {
		same[iw] = !slices.ContainsFunc(iw.index.UserColumns(), func(c catalog.IndexColumn) bool { return assigned[o.w.table.Ordinal(c.Column)] })
	}
	b.looksFor(n, o.w, o.changed, same, assigned)
	width := len(o.old)
	l := layout{}.add(0, s.New).add(width, n.Input.Columns())
	if o.checks, err = b.checks(s.Checks, l); err != nil {
		return nil, err
	}
	o.commutes = s.Commutes
	o.returning, err = b.returning(s.Returning, n.Cols, l)
	return o, err
}

func (b *builder) delete(n *opt.DeleteNode, at place) (op, error) {
	s := n.Stmt
	common, inl, err := b.change(n, n.Input, s.Table, s.Old, at)
	if err != nil {
		return nil, err
	}
	b.looksFor(n, common.w, nil, nil, nil)
	o := &deleteOp{changeOp: common}
	o.returning, err = b.returning(s.Returning, n.Cols, inl)
	return o, err
}

func (o *updateOp) iter(r *run) iter {
	it := &updateIter{changeIter: o.changeIter(r), o: o, comb: make(types.Row, len(o.old)+o.inWidth)}
	it.apply = it.update
	return it
}

func (o *deleteOp) iter(r *run) iter {
	it := &deleteIter{o.changeIter(r)}
	it.apply = it.delete
	return it
}

func (o *changeOp) changeIter(r *run) changeIter {
	return changeIter{r: r, c: o, in: r.make(o.input), m: mutation{reader: reader{r: r}}, before: make(types.Row, len(o.old))}
}

// changeIter changes all rows at the first call of next, and returns RETURNING's rows one by one. Where other parts of the statement change the
// table too, it changes no row before the one before has been taken (exec.X9).
type changeIter struct {
	r      *run
	c      *changeOp
	apply  func(row types.Row) (types.Row, error) // changes the row in before; returns what RETURNING evaluates, nil if the row stays as it is
	in     iter
	m      mutation
	before types.Row
	out    emitter
	seen   keySet
	ran    bool
}

func (it *changeIter) setStats(s *NodeStats) { it.m.stats = s }

func (it *changeIter) open() error {
	it.reset()
	return it.in.open()
}

func (it *changeIter) reset() {
	it.ran = false
	it.m.reset()
	it.out.reset(it.r)
	it.seen.reset(it.r)
}

func (it *changeIter) close() {
	it.reset()
	clear(it.before)
	it.in.close()
}

func (it *changeIter) next() (types.Row, error) {
	step := it.c.w.steps()
	for !it.ran {
		done, err := it.change()
		if err == nil && step && !done {
			err = it.m.flush(false)
		}
		if err != nil {
			return nil, it.m.failed(err)
		}
		if done {
			it.ran = true
			if err := it.m.finish(it.c.place); err != nil {
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

// change changes the next row of the input; done says that there is none.
func (it *changeIter) change() (done bool, err error) {
	c := it.c
	row, err := it.in.next()
	if err != nil || row == nil {
		return true, err
	}
	if err := it.r.tick(); err != nil {
		return false, err
	}
	for i, s := range c.old {
		if s < 0 {
			it.before[i] = c.w.initial[i]
		} else {
			it.before[i] = row[s]
		}
	}
	if row, err = it.apply(row); err != nil || row == nil {
		return false, err
	}
	it.m.count(c.place)
	if err := it.out.add(it.r, c.returning, row); err != nil {
		return false, err
	}
	if it.m.full() {
		return false, it.m.flush(false)
	}
	return false, nil
}

// again reports whether the statement has changed the row before: then it stays as it is (exec.X9).
func (it *changeIter) again() (bool, error) {
	if it.c.w.steps() {
		return it.r.touched(it.c.w, it.before)
	}
	if !it.c.dedupe {
		return false, nil
	}
	fresh, err := it.seen.first(it.r, it.c.w, it.before)
	return !fresh, err
}

type updateIter struct {
	changeIter
	o    *updateOp
	comb types.Row // the new row, then the input's
}

func (it *updateIter) close() {
	it.changeIter.close()
	clear(it.comb)
}

func (it *updateIter) update(row types.Row) (types.Row, error) {
	o, width := it.o, len(it.before)
	copy(it.comb, it.before)
	copy(it.comb[width:], row)
	for _, s := range o.set {
		it.comb[s.ordinal] = row[s.slot]
	}
	if err := it.r.validate(o.w.table, o.notNull, o.checks, it.comb); err != nil {
		return nil, err
	}
	// PostgreSQL too checks a row that it then finds to be changed already.
	if again, err := it.again(); err != nil || again {
		return nil, err
	}
	after := it.comb[:width]
	it.m.sums = deltas(o.commutes, o.w.table, it.before, after)
	if err := it.m.change(o.w, o.changed, it.before, after); err != nil {
		return nil, err
	}
	if err := it.m.incoming(o.w, it.before, after); err != nil {
		return nil, err
	}
	return it.comb, it.m.outgoing(o.w, after, it.before)
}

// deltas are what an update adds to a row; nil: it replaces it.
func deltas(cols []opt.Commuting, t *catalog.Table, before, after types.Row) []txn.Delta {
	out := make([]txn.Delta, 0, len(cols))
	for _, c := range cols {
		was, is := before[c.Ordinal], after[c.Ordinal]
		if was.IsNull() || is.IsNull() {
			return nil
		}
		out = append(out, txn.Delta{Column: uint32(t.Columns[c.Ordinal].ID), Amount: is.Int() - was.Int(), Min: c.Min, Max: c.Max})
	}
	return out
}

type deleteIter struct{ changeIter }

func (it *deleteIter) delete(row types.Row) (types.Row, error) {
	if again, err := it.again(); err != nil || again {
		return nil, err
	}
	if err := it.m.remove(it.c.w, it.before); err != nil {
		return nil, err
	}
	return row, it.m.incoming(it.c.w, it.before, nil)
}

// keySet remembers which rows a statement has changed.
type keySet struct {
	seen  map[string]struct{}
	buf   []byte
	taken int64
}

func (s *keySet) reset(r *run) {
	r.budget.Shrink(s.taken)
	s.seen, s.taken = nil, 0
}

// first reports whether the row is a new one, and adds it.
func (s *keySet) first(r *run, w *tableWriter, row types.Row) (bool, error) {
	var err error
	if s.buf, err = w.primary.codec.appendKey(s.buf[:0], row); err != nil {
		return false, err
	}
	if _, ok := s.seen[string(s.buf)]; ok {
		return false, nil
	}
	n := int64(len(s.buf) + 48)
	if err := r.budget.Grow(n); err != nil {
		return false, err
	}
	s.taken += n
	if s.seen == nil {
		s.seen = make(map[string]struct{})
	}
	s.seen[string(s.buf)] = struct{}{}
	return true, nil
}
