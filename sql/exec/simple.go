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
	r   *run
	o   *valuesOp
	at  int
	row types.Row
}

func (it *valuesIter) open() error { it.at = 0; return nil }
func (it *valuesIter) close()      { clear(it.row) }

func (it *valuesIter) next() (types.Row, error) {
	if it.at == len(it.o.rows) {
		return nil, nil
	}
	if err := it.r.tick(); err != nil {
		return nil, err
	}
	evs := it.o.rows[it.at]
	it.at++
	if err := it.r.evalInto(evs, nil, it.row); err != nil {
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
	return &projectIter{r, o, r.make(o.input), make(types.Row, len(o.slots))}
}

type projectIter struct {
	r   *run
	o   *projectOp
	in  iter
	row types.Row
}

func (it *projectIter) open() error     { return it.in.open() }
func (it *projectIter) hint(rows int64) { hint(it.in, rows) }
func (it *projectIter) close()          { it.in.close(); clear(it.row) }

func (it *projectIter) next() (types.Row, error) {
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
	return &projectSetIter{r: r, o: o, in: r.make(o.input), row: make(types.Row, o.out), sets: make([][]types.Row, len(o.funcs))}
}

type projectSetIter struct {
	r     *run
	o     *projectSetOp
	in    iter
	row   types.Row
	sets  [][]types.Row
	at    int
	count int
}

func (it *projectSetIter) open() error { it.at, it.count = 0, 0; return it.in.open() }
func (it *projectSetIter) close()      { it.in.close(); clear(it.row); clear(it.sets) }

func (it *projectSetIter) next() (types.Row, error) {
	for it.at >= it.count {
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		row, err := it.in.next()
		if err != nil || row == nil {
			return nil, err
		}
		copy(it.row, row[:it.o.width])
		it.at, it.count = 0, 0
		for i := range it.o.funcs {
			f := &it.o.funcs[i]
			set, err := it.call(f, row)
			if err != nil {
				return nil, err
			}
			it.sets[i] = set
			it.count = max(it.count, len(set))
		}
	}
	for i := range it.o.funcs {
		f := &it.o.funcs[i]
		out := it.row[f.at : f.at+len(f.f.Cols)]
		if it.at >= len(it.sets[i]) {
			clear(out)
			if f.f.Ordinality != 0 {
				it.row[f.at+len(f.f.Cols)] = types.Null
			}
			continue
		}
		copy(out, it.sets[i][it.at])
		if f.f.Ordinality != 0 {
			it.row[f.at+len(f.f.Cols)] = types.NewInt(int64(it.at + 1))
		}
	}
	it.at++
	return it.row, nil
}

func (it *projectSetIter) call(f *setFunc, row types.Row) ([]types.Row, error) {
	args := make(types.Row, len(f.args))
	if err := it.r.evalInto(f.args, row, args); err != nil {
		return nil, err
	}
	fn := f.f.Func
	if !fn.CalledOnNull {
		for _, a := range args {
			if a.IsNull() {
				// A strict set function yields no row; a strict scalar function one NULL.
				if fn.Set != nil {
					return nil, nil
				}
				return []types.Row{{types.Null}}, nil
			}
		}
	}
	if fn.Set != nil {
		return fn.Set(&it.r.sctx, args)
	}
	d, err := fn.Eval(&it.r.sctx, args)
	if err != nil {
		return nil, err
	}
	if t := d; t.Phys() == types.PhysTuple && len(f.f.Cols) == len(t.Tuple().Elems) && len(f.f.Cols) > 1 {
		return []types.Row{t.Tuple().Elems}, nil
	}
	return []types.Row{{d}}, nil
}

// limitOp cuts.
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
	if n := it.left + it.skip; n > 0 { // else there is no limit
		hint(it.in, n)
	} else {
		hint(it.in, 0)
	}
	return it.in.open()
}

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
