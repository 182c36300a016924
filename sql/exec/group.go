package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// aggSpec is one compiled aggregate.
type aggSpec struct {
	agg      *scalar.Aggregate
	args     []scalar.Evaluator
	types    []*types.T
	distinct bool
	filter   scalar.Evaluator
	order    []scalar.Evaluator
	by       []sortKey
}

func (b *builder) aggregate(f *scalar.AggFunc, l layout) (aggSpec, error) {
	s := aggSpec{agg: f.Agg, distinct: f.Distinct}
	var err error
	if s.args, err = b.exprs(f.Args, l); err != nil {
		return s, err
	}
	for _, a := range f.Args {
		s.types = append(s.types, a.Type())
	}
	if f.Filter != nil {
		if s.filter, err = b.expr(f.Filter, l); err != nil {
			return s, err
		}
	}
	for i, o := range f.OrderBy {
		ev, err := b.expr(o.Expr, l)
		if err != nil {
			return s, err
		}
		s.order = append(s.order, ev)
		s.by = append(s.by, sortKey{len(s.args) + i, o.Expr.Type(), o.Desc, o.NullsFirst})
	}
	return s, nil
}

func (s *aggSpec) accumulator() scalar.Accumulator {
	if s.agg.NewTyped != nil {
		return s.agg.NewTyped(s.types)
	}
	return s.agg.New()
}

// aggState is one aggregate of one group.
type aggState struct {
	acc  scalar.Accumulator
	seen map[string]struct{} // DISTINCT
	rows []types.Row         // ORDER BY: arguments and then order keys
}

// add feeds one input row. taken is the budget that it used.
func (s *aggSpec) add(r *run, st *aggState, row types.Row, args types.Row, buf *[]byte) (taken int64, err error) {
	if s.filter != nil {
		ok, err := scalar.Test(s.filter, &r.sctx, row)
		if err != nil || !ok {
			return 0, err
		}
	}
	args = args[:len(s.args)]
	for i, ev := range s.args {
		if args[i], err = ev.Eval(&r.sctx, row); err != nil {
			return 0, err
		}
	}
	if s.distinct {
		key := (*buf)[:0]
		for i := range args {
			key = types.AppendHashKey(key, args[i], s.types[i])
		}
		*buf = key
		if _, ok := st.seen[string(key)]; ok {
			return 0, nil
		}
		if st.seen == nil {
			st.seen = make(map[string]struct{})
		}
		taken = int64(len(key) + 48)
		if err := r.budget.Grow(taken); err != nil {
			return 0, err
		}
		st.seen[string(key)] = struct{}{}
	}
	if len(s.order) > 0 {
		keep := make(types.Row, len(s.args)+len(s.order))
		copy(keep, args)
		if err := r.evalInto(s.order, row, keep[len(s.args):]); err != nil {
			return taken, err
		}
		n := rowBytes(keep)
		if err := r.budget.Grow(n); err != nil {
			return taken, err
		}
		st.rows = append(st.rows, keep)
		return taken + n, nil
	}
	before := r.budget.Used()
	err = st.acc.Add(&r.sctx, args)
	return taken + r.budget.Used() - before, err
}

// result ends an aggregate. taken is the budget that it used.
func (s *aggSpec) result(r *run, st *aggState) (d types.Datum, taken int64, err error) {
	before := r.budget.Used()
	if len(s.order) > 0 {
		if err := r.sort(st.rows, s.by); err != nil {
			return types.Null, 0, err
		}
		for _, row := range st.rows {
			if err := st.acc.Add(&r.sctx, row[:len(s.args)]); err != nil {
				return types.Null, r.budget.Used() - before, err
			}
			if err := r.tick(); err != nil {
				return types.Null, r.budget.Used() - before, err
			}
		}
		st.rows = nil
	}
	d, err = st.acc.Result(&r.sctx)
	r.sctx.Settle()
	return d, r.budget.Used() - before, err
}

// groupOp groups by hashing, or by watching for a change of key in ordered input.
type groupOp struct {
	base
	input     op
	keys      []int
	types     []*types.T
	aggs      []aggSpec
	maxArgs   int
	scalar    bool
	streaming bool
}

func (b *builder) group(n *opt.GroupNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &groupOp{base: base{n}, input: in, types: b.typesOf(n.Group), scalar: n.Scalar, streaming: n.Streaming}
	if o.keys, err = l.slots(n.Group); err != nil {
		return nil, err
	}
	for _, a := range n.Aggs {
		s, err := b.aggregate(a.Agg, l)
		if err != nil {
			return nil, err
		}
		o.aggs = append(o.aggs, s)
		o.maxArgs = max(o.maxArgs, len(s.args))
	}
	natural := append([]scalar.ColumnID(nil), n.Group...)
	for _, a := range n.Aggs {
		natural = append(natural, a.Col)
	}
	if equalCols(natural, n.Cols) {
		return o, nil
	}
	slots, err := layout{}.add(0, natural).slots(n.Cols)
	if err != nil {
		return nil, err
	}
	return &projectOp{base: base{n}, input: o, slots: slots}, nil
}

func (o *groupOp) iter(r *run) iter {
	return &groupIter{r: r, o: o, in: r.make(o.input), row: make(types.Row, len(o.keys)+len(o.aggs)),
		args: make(types.Row, o.maxArgs)}
}

type groupIter struct {
	r    *run
	o    *groupOp
	in   iter
	row  types.Row
	args types.Row
	buf  []byte

	keys   rowStore // one row of key values for each group
	states []aggState
	index  map[string]int32
	extra  int64
	built  bool
	at     int
	// streaming
	pending types.Row // first row of the next group
	ended   bool
}

func (it *groupIter) open() error {
	it.reset()
	return it.in.open()
}

func (it *groupIter) reset() {
	it.keys.reset(it.r.budget)
	it.r.budget.Shrink(it.extra)
	it.extra = 0
	clear(it.states)
	if cap(it.states) > 1024 {
		it.states, it.index = nil, nil
	}
	it.states = it.states[:0]
	clear(it.index)
	it.built, it.ended, it.at, it.pending = false, false, 0, nil
}

func (it *groupIter) close() {
	it.reset()
	clear(it.row)
	clear(it.args)
	it.in.close()
}

// newGroup makes the states of a group whose key values are in it.row.
func (it *groupIter) newGroup(cost int64) error {
	n := int64(len(it.o.aggs)) * 128
	n += cost
	if err := it.r.budget.Grow(n); err != nil {
		return err
	}
	it.extra += n
	if _, err := it.keys.add(it.r.budget, it.row[:len(it.o.keys)]); err != nil {
		return err
	}
	for i := range it.o.aggs {
		it.states = append(it.states, aggState{acc: it.o.aggs[i].accumulator()})
	}
	return nil
}

func (it *groupIter) feed(group int, row types.Row) error {
	n := len(it.o.aggs)
	for i := range it.o.aggs {
		taken, err := it.o.aggs[i].add(it.r, &it.states[group*n+i], row, it.args, &it.buf)
		it.extra += taken
		if err != nil {
			return err
		}
	}
	return nil
}

func (it *groupIter) emit(group int) (types.Row, error) {
	n := len(it.o.aggs)
	copy(it.row, it.keys.rows[group])
	for i := range it.o.aggs {
		d, taken, err := it.o.aggs[i].result(it.r, &it.states[group*n+i])
		it.extra += taken
		if err != nil {
			return nil, err
		}
		it.row[len(it.o.keys)+i] = d
	}
	return it.row, nil
}

func (it *groupIter) takeKey(row types.Row) {
	for i, s := range it.o.keys {
		it.row[i] = row[s]
	}
}

func (it *groupIter) next() (types.Row, error) {
	if it.o.streaming && len(it.o.keys) > 0 {
		return it.stream()
	}
	if !it.built {
		if err := it.build(); err != nil {
			return nil, err
		}
	}
	if it.at == len(it.keys.rows) {
		return nil, nil
	}
	it.at++
	return it.emit(it.at - 1)
}

func (it *groupIter) build() error {
	it.built = true
	o := it.o
	if len(o.keys) == 0 && o.scalar {
		if err := it.newGroup(0); err != nil {
			return err
		}
	}
	for {
		row, err := it.in.next()
		if err != nil {
			return err
		}
		if row == nil {
			return nil
		}
		if err := it.r.tick(); err != nil {
			return err
		}
		group := 0
		if len(o.keys) > 0 {
			it.buf, _ = hashKey(it.buf[:0], row, o.keys, o.types)
			g, ok := it.index[string(it.buf)]
			if !ok {
				if it.index == nil {
					it.index = make(map[string]int32)
				}
				g = int32(len(it.keys.rows))
				it.index[string(it.buf)] = g
				it.takeKey(row)
				if err := it.newGroup(int64(len(it.buf) + 48)); err != nil {
					return err
				}
			}
			group = int(g)
		} else if len(it.keys.rows) == 0 {
			if err := it.newGroup(0); err != nil {
				return err
			}
		}
		if err := it.feed(group, row); err != nil {
			return err
		}
	}
}

// stream aggregates one group at a time.
func (it *groupIter) stream() (types.Row, error) {
	o := it.o
	if !it.built {
		it.built = true
		row, err := it.in.next()
		if err != nil {
			return nil, err
		}
		it.pending = row
	}
	if it.pending == nil {
		return nil, nil
	}
	it.keys.reset(it.r.budget)
	it.r.budget.Shrink(it.extra)
	it.extra = 0
	clear(it.states)
	it.states = it.states[:0]
	it.takeKey(it.pending)
	if err := it.newGroup(0); err != nil {
		return nil, err
	}
	key := it.keys.rows[0]
	for it.pending != nil {
		for i, s := range o.keys {
			if o.types[i].Compare(key[i], it.pending[s]) != 0 {
				return it.emit(0)
			}
		}
		if err := it.feed(0, it.pending); err != nil {
			return nil, err
		}
		var err error
		if it.pending, err = it.in.next(); err != nil {
			return nil, err
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
	return it.emit(0)
}

// distinctOp keeps the first row of each group of equal rows.
type distinctOp struct {
	base
	input     op
	on        []int
	types     []*types.T
	streaming bool
}

func (b *builder) distinct(n *opt.DistinctNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &distinctOp{base: base{n}, input: in, types: b.typesOf(n.On), streaming: n.Streaming}
	if o.on, err = l.slots(n.On); err != nil {
		return nil, err
	}
	return b.remap(o, n.Input, n)
}

func (o *distinctOp) iter(r *run) iter { return &distinctIter{r: r, o: o, in: r.make(o.input)} }

type distinctIter struct {
	r     *run
	o     *distinctOp
	in    iter
	seen  map[string]struct{}
	extra int64
	buf   []byte
	last  []byte
	any   bool
}

func (it *distinctIter) open() error { it.reset(); return it.in.open() }

func (it *distinctIter) reset() {
	it.r.budget.Shrink(it.extra)
	if it.extra > 1<<16 {
		it.seen = nil
	}
	it.extra = 0
	clear(it.seen)
	it.any = false
}

func (it *distinctIter) close() { it.reset(); it.in.close() }

func (it *distinctIter) next() (types.Row, error) {
	for {
		row, err := it.in.next()
		if err != nil || row == nil {
			return nil, err
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		it.buf, _ = hashKey(it.buf[:0], row, it.o.on, it.o.types)
		if it.o.streaming {
			if it.any && string(it.buf) == string(it.last) {
				continue
			}
			it.any = true
			it.buf, it.last = it.last, it.buf
			return row, nil
		}
		if _, ok := it.seen[string(it.buf)]; ok {
			continue
		}
		if it.seen == nil {
			it.seen = make(map[string]struct{})
		}
		n := int64(len(it.buf) + 48)
		if err := it.r.budget.Grow(n); err != nil {
			return nil, err
		}
		it.extra += n
		it.seen[string(it.buf)] = struct{}{}
		return row, nil
	}
}

// setOpOp is UNION, INTERSECT and EXCEPT.
type setOpOp struct {
	base
	left, right op
	ls, rs      []int
	slots       []int // 0..n-1
	types       []*types.T
	kind        opt.SetOpKind
	all         bool
}

func (b *builder) setOp(n *opt.SetOpNode) (op, error) {
	left, ll, err := b.input(n.Left)
	if err != nil {
		return nil, err
	}
	right, lr, err := b.input(n.Right)
	if err != nil {
		return nil, err
	}
	o := &setOpOp{base: base{n}, left: left, right: right, types: b.typesOf(n.Cols), kind: n.Kind, all: n.All}
	if o.ls, err = ll.slots(n.LeftCols); err != nil {
		return nil, err
	}
	if o.rs, err = lr.slots(n.RightCols); err != nil {
		return nil, err
	}
	if len(o.ls) != len(n.Cols) || len(o.rs) != len(n.Cols) {
		return nil, internal("set operation of %d and %d columns to %d", len(o.ls), len(o.rs), len(n.Cols))
	}
	for i := range n.Cols {
		o.slots = append(o.slots, i)
	}
	return o, nil
}

func (o *setOpOp) iter(r *run) iter {
	return &setOpIter{r: r, o: o, left: r.make(o.left), right: r.make(o.right), row: make(types.Row, len(o.slots))}
}

type setOpIter struct {
	r           *run
	o           *setOpOp
	left, right iter
	row         types.Row
	counts      map[string]int64
	extra       int64
	buf         []byte
	phase       int // 0: not begun; 1: left side; 2: right side of a union; 3: done
}

func (it *setOpIter) open() error { it.reset(); return nil }

func (it *setOpIter) reset() {
	it.r.budget.Shrink(it.extra)
	if it.extra > 1<<16 {
		it.counts = nil
	}
	it.extra, it.phase = 0, 0
	clear(it.counts)
}

func (it *setOpIter) close() { it.reset(); clear(it.row); it.left.close(); it.right.close() }

func (it *setOpIter) put(n int64) error {
	if it.counts == nil {
		it.counts = make(map[string]int64)
	}
	if _, ok := it.counts[string(it.buf)]; !ok {
		b := int64(len(it.buf) + 56)
		if err := it.r.budget.Grow(b); err != nil {
			return err
		}
		it.extra += b
	}
	it.counts[string(it.buf)] += n
	return nil
}

func (it *setOpIter) take(row types.Row, slots []int) {
	for i, s := range slots {
		it.row[i] = row[s]
	}
}

func (it *setOpIter) next() (types.Row, error) {
	o := it.o
	if it.phase == 0 {
		it.phase = 1
		if o.kind != opt.Union {
			if err := it.count(); err != nil {
				return nil, err
			}
		}
		if err := it.left.open(); err != nil {
			return nil, err
		}
	}
	for it.phase < 3 {
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		var row types.Row
		var err error
		if it.phase == 1 {
			row, err = it.left.next()
		} else {
			row, err = it.right.next()
		}
		if err != nil {
			return nil, err
		}
		if row == nil {
			if it.phase == 1 && o.kind == opt.Union {
				it.phase = 2
				if err := it.right.open(); err != nil {
					return nil, err
				}
				continue
			}
			it.phase = 3
			break
		}
		if it.phase == 1 {
			it.take(row, o.ls)
		} else {
			it.take(row, o.rs)
		}
		if o.kind == opt.Union && o.all {
			return it.row, nil
		}
		it.buf, _ = hashKey(it.buf[:0], it.row, o.slots, o.types)
		n, seen := it.counts[string(it.buf)]
		switch {
		case o.kind == opt.Union:
			if seen {
				continue
			}
			if err := it.put(1); err != nil {
				return nil, err
			}
		case o.kind == opt.Intersect:
			if n <= 0 {
				continue
			}
			if o.all {
				it.counts[string(it.buf)] = n - 1
			} else {
				it.counts[string(it.buf)] = 0
			}
		case o.kind == opt.Except && o.all:
			if n > 0 {
				it.counts[string(it.buf)] = n - 1
				continue
			}
		case o.kind == opt.Except:
			if seen {
				continue
			}
			if err := it.put(1); err != nil {
				return nil, err
			}
		}
		return it.row, nil
	}
	return nil, nil
}

// count reads the right side of INTERSECT and EXCEPT.
func (it *setOpIter) count() error {
	if err := it.right.open(); err != nil {
		return err
	}
	for {
		row, err := it.right.next()
		if err != nil {
			return err
		}
		if row == nil {
			it.right.close()
			return nil
		}
		if err := it.r.tick(); err != nil {
			return err
		}
		it.take(row, it.o.rs)
		it.buf, _ = hashKey(it.buf[:0], it.row, it.o.slots, it.o.types)
		if err := it.put(1); err != nil {
			return err
		}
	}
}
