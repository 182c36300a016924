package exec

import (
	"math"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// valuesOp yields rows of expressions.
type valuesOp struct {
	base
	rows  [][]scalar.Evaluator
	width int
}

func (b *builder) values(n *opt.ValuesNode) (op, error) {
	o := &valuesOp{base: base{n}, width: len(n.Cols)}
	for _, row := range n.Rows {
		evs, err := b.exprs(row, nil)
		if err != nil {
			return nil, err
		}
		o.rows = append(o.rows, evs)
	}
	return o, nil
}

func (o *valuesOp) iter(r *run) iter { return &valuesIter{r: r, o: o, row: make(types.Row, o.width)} }

type valuesIter struct {
	r    *run
	o    *valuesOp
	at   int
	row  types.Row
	held int64
}

func (it *valuesIter) open() error { it.at = 0; return nil }
func (it *valuesIter) close()      { clear(it.row); it.r.drop(&it.held) }

func (it *valuesIter) next() (types.Row, error) {
	it.r.drop(&it.held)
	if it.at == len(it.o.rows) {
		return nil, nil
	}
	if err := it.r.tick(); err != nil {
		return nil, err
	}
	evs := it.o.rows[it.at]
	it.at++
	if err := it.r.evalHeld(evs, nil, it.row, &it.held); err != nil {
		return nil, err
	}
	return it.row, nil
}

// filterOp keeps the rows that meet its conditions.
type filterOp struct {
	base
	input op
	conds []scalar.Evaluator
}

func (b *builder) filter(n *opt.FilterNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	conds, err := b.exprs(n.Filter, l)
	if err != nil {
		return nil, err
	}
	return b.remap(&filterOp{base{n}, in, conds}, n.Input, n)
}

func (o *filterOp) iter(r *run) iter { return &filterIter{r, o, r.make(o.input)} }

type filterIter struct {
	r  *run
	o  *filterOp
	in iter
}

func (it *filterIter) open() error     { return it.in.open() }
func (it *filterIter) hint(rows int64) { hint(it.in, rows) }
func (it *filterIter) close()          { it.in.close() }

func (it *filterIter) next() (types.Row, error) {
	for {
		row, err := it.in.next()
		if err != nil || row == nil {
			return nil, err
		}
		ok, err := it.r.pass(it.o.conds, row)
		if err != nil {
			return nil, err
		}
		if ok {
			return row, nil
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
}

// remap lets a node that passes its input's rows declare fewer or reordered columns.
func (b *builder) remap(o op, from, to opt.Node) (op, error) {
	a, c := from.Columns(), to.Columns()
	if equalCols(a, c) {
		return o, nil
	}
	slots, err := layoutOf(from).slots(c)
	if err != nil {
		return nil, err
	}
	p := &projectOp{base: base{to}, input: o, slots: slots}
	return p, nil
}

func equalCols(a, c []scalar.ColumnID) bool {
	if len(a) != len(c) {
		return false
	}
	for i := range a {
		if a[i] != c[i] {
			return false
		}
	}
	return true
}

// projectOp computes columns: slot i is exprs[i], or, if that is nil, the input's slots[i].
type projectOp struct {
	base
	input op
	slots []int
	exprs []scalar.Evaluator
}

func (b *builder) project(n *opt.ProjectNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &projectOp{base: base{n}, input: in, slots: make([]int, len(n.Exprs)), exprs: make([]scalar.Evaluator, len(n.Exprs))}
	for i, e := range n.Exprs {
		if c, ok := e.(*scalar.Column); ok {
			if s, ok := l.slot(c.ID); ok {
				o.slots[i] = s
				continue
			}
		}
		if o.exprs[i], err = b.expr(e, l); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *projectOp) iter(r *run) iter {
	return &projectIter{r: r, o: o, in: r.make(o.input), row: make(types.Row, len(o.slots))}
}

type projectIter struct {
	r   *run
	o   *projectOp
	in  iter
	row types.Row
	// held are the bytes of the large values in row that were computed here.
	held int64
}

func (it *projectIter) open() error     { it.r.drop(&it.held); return it.in.open() }
func (it *projectIter) hint(rows int64) { hint(it.in, rows) }
func (it *projectIter) close()          { it.in.close(); clear(it.row); it.r.drop(&it.held) }

func (it *projectIter) next() (types.Row, error) {
	it.r.drop(&it.held)
	row, err := it.in.next()
	if err != nil || row == nil {
		return nil, err
	}
	for i, s := range it.o.slots {
		if it.o.exprs == nil || it.o.exprs[i] == nil {
			it.row[i] = row[s]
			continue
		}
		if it.row[i], err = it.o.exprs[i].Eval(&it.r.sctx, row); err != nil {
			return nil, err
		}
		if w := it.row[i].Weight(); w != 0 {
			if err := it.r.budget.Grow(w); err != nil {
				return nil, err
			}
			it.held += w
		}
	}
	return it.row, nil
}

// projectSetOp runs set-returning functions side by side for each input row.
type projectSetOp struct {
	base
	input op
	funcs []setFunc
	width int // of the input
	out   int
}

type setFunc struct {
	f    *opt.SetFunc
	args []scalar.Evaluator
	at   int // first output slot
}

func (b *builder) projectSet(n *opt.ProjectSetNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &projectSetOp{base: base{n}, input: in, width: len(n.Input.Columns())}
	at := o.width
	for i := range n.Funcs {
		f := &n.Funcs[i]
		args, err := b.exprs(f.Args, l)
		if err != nil {
			return nil, err
		}
		o.funcs = append(o.funcs, setFunc{f, args, at})
		at += len(f.Cols)
		if f.Ordinality != 0 {
			at++
		}
	}
	o.out = at
	if at != len(n.Cols) {
		return nil, internal("set functions yield %d columns, not %d", at, len(n.Cols))
	}
	return o, nil
}

func (o *projectSetOp) iter(r *run) iter {
	return &projectSetIter{r: r, o: o, in: r.make(o.input), row: make(types.Row, o.out), sets: make([]rowSet, len(o.funcs))}
}

type projectSetIter struct {
	r    *run
	o    *projectSetOp
	in   iter
	row  types.Row
	sets []rowSet
	live bool // the input row's sets may have rows left
	at   int64
	held int64 // bytes of the sets
}

func (it *projectSetIter) open() error {
	it.live = false
	clear(it.sets)
	it.r.drop(&it.held)
	return it.in.open()
}

func (it *projectSetIter) close() {
	it.in.close()
	clear(it.row)
	clear(it.sets)
	it.r.drop(&it.held)
}

// rowSet is what one function returned for the input row: a list, or rows that come one by one.
type rowSet struct {
	rows []types.Row
	next func() (types.Row, error)
}

func (s *rowSet) row() (types.Row, error) {
	if s.next != nil {
		return s.next()
	}
	if len(s.rows) == 0 {
		return nil, nil
	}
	row := s.rows[0]
	s.rows = s.rows[1:]
	return row, nil
}

func (it *projectSetIter) next() (types.Row, error) {
	for {
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		if it.live {
			if row, err := it.step(); row != nil || err != nil {
				return row, err
			}
			it.live = false
		}
		row, err := it.in.next()
		if err != nil || row == nil {
			return nil, err
		}
		copy(it.row, row[:it.o.width])
		it.live, it.at = true, 0
		clear(it.sets)
		it.r.drop(&it.held)
		for i := range it.o.funcs {
			if it.sets[i], err = it.call(&it.o.funcs[i], row); err != nil {
				return nil, err
			}
		}
	}
}

// step makes the next row for the present input row, nil when all sets have ended. A set that ends before others goes on
// with NULL.
func (it *projectSetIter) step() (types.Row, error) {
	it.at++
	any := false
	for i := range it.o.funcs {
		f := &it.o.funcs[i]
		out := it.row[f.at : f.at+len(f.f.Cols)]
		row, err := it.sets[i].row()
		if err != nil {
			return nil, err
		}
		if row == nil {
			clear(out)
			it.sets[i] = rowSet{}
		} else {
			any = true
			copy(out, row)
		}
		if f.f.Ordinality != 0 { // counts all rows, also after this set has ended
			it.row[f.at+len(f.f.Cols)] = types.NewInt(it.at)
		}
	}
	if !any {
		return nil, nil
	}
	return it.row, nil
}

func (it *projectSetIter) call(f *setFunc, row types.Row) (rowSet, error) {
	args := make(types.Row, len(f.args))
	if err := it.r.evalHeld(f.args, row, args, &it.held); err != nil {
		return rowSet{}, err
	}
	fn := f.f.Func
	if !fn.CalledOnNull {
		for _, a := range args {
			if a.IsNull() {
				// A strict set function yields no row; a strict scalar function one NULL.
				if fn.Set != nil {
					return rowSet{}, nil
				}
				return rowSet{rows: []types.Row{{types.Null}}}, nil
			}
		}
	}
	if fn.Stream != nil {
		next, err := fn.Stream(&it.r.sctx, args)
		return rowSet{next: next}, err
	}
	if fn.Set != nil {
		rows, err := scalar.InvokeSet(&it.r.sctx, fn, args)
		it.held += it.r.sctx.Keep()
		return rowSet{rows: rows}, err
	}
	d, err := scalar.Invoke(&it.r.sctx, fn, args)
	if err != nil {
		return rowSet{}, err
	}
	if err := it.r.hold(&it.held, types.Row{d}); err != nil {
		return rowSet{}, err
	}
	if t := d; t.Phys() == types.PhysTuple && len(f.f.Cols) == len(t.Tuple().Elems) && len(f.f.Cols) > 1 {
		return rowSet{rows: []types.Row{t.Tuple().Elems}}, nil
	}
	return rowSet{rows: []types.Row{{d}}}, nil
}

// limitOp is LIMIT and OFFSET.
type limitOp struct {
	base
	input         op
	count, offset scalar.Evaluator
}

func (b *builder) limit(n *opt.LimitNode) (op, error) {
	in, _, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &limitOp{base: base{n}, input: in}
	if n.Count != nil {
		if o.count, err = b.expr(n.Count, nil); err != nil {
			return nil, err
		}
	}
	if n.Offset != nil {
		if o.offset, err = b.expr(n.Offset, nil); err != nil {
			return nil, err
		}
	}
	return b.remap(o, n.Input, n)
}

func (o *limitOp) iter(r *run) iter { return &limitIter{r: r, o: o, in: r.make(o.input)} }

type limitIter struct {
	r          *run
	o          *limitOp
	in         iter
	left, skip int64
	hinted     int64 // rows that the consumer will take; zero: all
}

// bound evaluates LIMIT or OFFSET; NULL is absent.
func (r *run) bound(ev scalar.Evaluator, absent int64, code sqlstate.Code, name string) (int64, error) {
	if ev == nil {
		return absent, nil
	}
	d, err := ev.Eval(&r.sctx, nil)
	if err != nil {
		return 0, err
	}
	if d.IsNull() {
		return absent, nil
	}
	if d.Phys() != types.PhysInt {
		return 0, internal("%s is not an integer", name)
	}
	if d.Int() < 0 {
		return 0, sqlstate.New(code, "%s must not be negative", name)
	}
	return d.Int(), nil
}

func (it *limitIter) open() (err error) {
	if it.left, err = it.r.bound(it.o.count, math.MaxInt64, sqlstate.InvalidLimit, "LIMIT"); err != nil {
		return err
	}
	if it.skip, err = it.r.bound(it.o.offset, 0, sqlstate.InvalidOffset, "OFFSET"); err != nil {
		return err
	}
	left := it.left
	if it.hinted > 0 {
		left = min(left, it.hinted)
	}
	if n := left + it.skip; n > 0 { // else there is no limit
		hint(it.in, n)
	} else {
		hint(it.in, 0)
	}
	return it.in.open()
}

// hint tells how many of the rows that it lets through will be taken.
func (it *limitIter) hint(rows int64) { it.hinted = rows }

func (it *limitIter) close() { it.in.close() }

func (it *limitIter) next() (types.Row, error) {
	if it.left == 0 {
		return nil, nil
	}
	for ; it.skip > 0; it.skip-- {
		row, err := it.in.next()
		if err != nil || row == nil {
			it.left = 0
			return nil, err
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
	it.left--
	return it.in.next()
}
