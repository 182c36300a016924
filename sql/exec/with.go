package exec

import (
	"encoding/binary"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// cteInfo describes a common table expression in scope to the builder.
type cteInfo struct {
	index int
	width int
}

// cteState is a common table expression in one run: its rows, or, while the recursive term runs, the rows that
// the previous round added.
type cteState struct {
	store   rowStore
	working *rowStore // what WithScan reads
	round   rowStore
	seen    map[string]struct{}
	extra   int64
}

func (s *cteState) reset(r *run) {
	s.store.reset(r.budget)
	s.round.reset(r.budget)
	r.budget.Shrink(s.extra)
	s.extra, s.seen, s.working = 0, nil, nil
}

// withOp materialises a common table expression before its main plan runs.
type withOp struct {
	base
	index     int
	binding   op
	bind      []int
	recursive op
	recSlots  []int
	recAll    bool
	identity  []int
	types     []*types.T
	main      op
}

func (b *builder) with(n *opt.WithNode, at place) (op, error) {
	o := &withOp{base: base{n}, index: b.prog.ctes, recAll: n.RecursiveAll, types: b.typesOf(n.BindCols)}
	b.prog.ctes++
	info := &cteInfo{o.index, len(n.BindCols)}
	var l layout
	var err error
	if o.binding, l, err = b.input(n.Binding); err != nil {
		return nil, err
	}
	if o.bind, err = l.slots(n.BindCols); err != nil {
		return nil, err
	}
	for i := range n.BindCols {
		o.identity = append(o.identity, i)
	}
	b.ctes[n.ID] = info
	if n.Recursive != nil {
		if o.recursive, l, err = b.input(n.Recursive); err != nil {
			return nil, err
		}
		if o.recSlots, err = l.slots(n.RecursiveCols); err != nil {
			return nil, err
		}
		if len(o.recSlots) != len(o.bind) {
			return nil, internal("recursive term of %d columns, not %d", len(o.recSlots), len(o.bind))
		}
	}
	if at != inside {
		b.place = mainPlan
	}
	if o.main, err = b.build(n.Main); err != nil {
		return nil, err
	}
	return b.remap(o, n.Main, n)
}

func (o *withOp) iter(r *run) iter {
	it := &withIter{r: r, o: o, binding: r.make(o.binding), row: make(types.Row, len(o.bind))}
	if o.recursive != nil {
		it.recursive = r.make(o.recursive)
	}
	it.main = r.make(o.main)
	return it
}

type withIter struct {
	r                        *run
	o                        *withOp
	binding, recursive, main iter
	row                      types.Row
	buf                      []byte
}

func (it *withIter) open() error {
	s := &it.r.ctes[it.o.index]
	s.reset(it.r)
	if err := it.materialise(s); err != nil {
		return err
	}
	s.working = &s.store
	return it.main.open()
}

func (it *withIter) next() (types.Row, error) { return it.main.next() }

func (it *withIter) close() {
	it.main.close()
	it.binding.close()
	if it.recursive != nil {
		it.recursive.close()
	}
	it.r.ctes[it.o.index].reset(it.r)
	clear(it.row)
}

// maxRecursionRounds ends a recursion that will not end by itself before memory does, because each round may add
// no memory at all.
const maxRecursionRounds = 10_000_000

func (it *withIter) materialise(s *cteState) error {
	o := it.o
	if err := it.binding.open(); err != nil {
		return err
	}
	var next rowStore
	if err := it.absorb(s, it.binding, o.bind, &next); err != nil {
		return err
	}
	it.binding.close()
	if it.recursive == nil {
		next.reset(it.r.budget)
		return nil
	}
	for round := 0; len(next.rows) > 0; round++ {
		if round == maxRecursionRounds {
			next.reset(it.r.budget)
			return sqlstate.New(sqlstate.ProgramLimitExceeded, "recursive query does not end")
		}
		s.round.reset(it.r.budget)
		s.round, next = next, rowStore{}
		s.working = &s.round
		if err := it.recursive.open(); err != nil {
			return err
		}
		if err := it.absorb(s, it.recursive, o.recSlots, &next); err != nil {
			next.reset(it.r.budget)
			return err
		}
	}
	it.recursive.close()
	s.round.reset(it.r.budget)
	return nil
}

// absorb adds a term's rows to the result and, for a recursive expression, to the next round.
func (it *withIter) absorb(s *cteState, in iter, slots []int, next *rowStore) error {
	o := it.o
	for {
		row, err := in.next()
		if err != nil {
			return err
		}
		if row == nil {
			return nil
		}
		if err := it.r.tick(); err != nil {
			return err
		}
		for i, slot := range slots {
			it.row[i] = row[slot]
		}
		if o.recursive != nil && !o.recAll {
			it.buf, _ = hashKey(it.buf[:0], it.row, o.identity, o.types)
			if _, ok := s.seen[string(it.buf)]; ok {
				continue
			}
			if s.seen == nil {
				s.seen = make(map[string]struct{})
			}
			n := int64(len(it.buf) + 48)
			if err := it.r.budget.Grow(n); err != nil {
				return err
			}
			s.extra += n
			s.seen[string(it.buf)] = struct{}{}
		}
		if _, err := s.store.add(it.r.budget, it.row); err != nil {
			return err
		}
		if o.recursive != nil {
			if _, err := next.add(it.r.budget, it.row); err != nil {
				return err
			}
		}
	}
}

// withScanOp reads a common table expression.
type withScanOp struct {
	base
	index int
}

func (b *builder) withScan(n *opt.WithScanNode) (op, error) {
	info := b.ctes[n.ID]
	if info == nil {
		return nil, internal("common table expression %d is not in scope", n.ID)
	}
	if len(n.Cols) != info.width {
		return nil, internal("scan of %d columns of a common table expression of %d", len(n.Cols), info.width)
	}
	return &withScanOp{base{n}, info.index}, nil
}

func (o *withScanOp) iter(r *run) iter { return &withScanIter{r: r, o: o} }

type withScanIter struct {
	r    *run
	o    *withScanOp
	rows []types.Row
}

func (it *withScanIter) open() error {
	s := it.r.ctes[it.o.index].working
	if s == nil {
		return internal("common table expression is read before it is computed")
	}
	it.rows = s.rows
	return nil
}

func (it *withScanIter) close() { it.rows = nil }

func (it *withScanIter) next() (types.Row, error) {
	if len(it.rows) == 0 {
		return nil, nil
	}
	row := it.rows[0]
	it.rows = it.rows[1:]
	return row, nil
}

// subplan is an embedded subquery.
type subplan struct {
	q     *scalar.Subquery
	root  op
	index int
	slot  int // of Col, for ANY, ALL, scalar and array forms
	op    scalar.Evaluator
	elem  *types.T
	stack bool // the values are arrays: the result has one dimension more
	// hashed: the comparison is an equality, so that ANY (ALL with <>) is a lookup.
	hashed bool
	// ends: the comparison is another one in the order of values, for which the least and the greatest value suffice.
	ends         bool
	ltype, rtype *types.T
	// rows: as hashed, of row values. Those with a NULL in them are compared one by one.
	rows       bool
	correlated bool
	// outer are the types of the outer columns that it reads, if its answers may be kept in a memo.
	outer []*types.T
}

// subState is an embedded subquery in one run. Uncorrelated subqueries run once, others once for the same values.
type subState struct {
	it   iter
	done bool
	subAnswer
	kept   bool // the answer is the memo's
	memo   memo[subAnswer]
	values []types.Datum
	buf    []byte
	row    types.Row
	// least and greatest are those of a list, if they suffice (ends).
	least, greatest types.Datum
}

// subAnswer is the answer of a subquery: a value, or a list of values.
type subAnswer struct {
	value types.Datum
	store rowStore
	set   map[string]struct{}
	null  bool
	// partial are the rows with a NULL in them, if row values are hashed; store has all.
	partial []types.Row
}

// fresh makes room for another answer.
func (s *subState) fresh(r *run) {
	if s.kept {
		s.subAnswer, s.kept = subAnswer{}, false
		return
	}
	s.store.reset(r.budget)
	s.value, s.set, s.null, s.partial = types.Null, nil, false, nil
}

func (s *subState) reset(r *run) {
	if s.it != nil {
		s.it.close()
	}
	s.fresh(r)
	s.memo.reset(r.budget)
	s.done = false
	clear(s.row)
	clear(s.values)
}

// subqueries compiles the subqueries inside an expression.
func (b *builder) subqueries(e scalar.Expr) error {
	var err error
	scalar.Walk(e, func(e scalar.Expr) bool {
		if q, ok := e.(*scalar.Subquery); ok && err == nil && b.prog.subByQ[q] == nil {
			err = b.subquery(q)
		}
		return err == nil
	})
	return err
}

func (b *builder) subquery(q *scalar.Subquery) error {
	n, ok := q.Plan.(opt.Node)
	if !ok {
		return internal("subquery was not planned: %T", q.Plan)
	}
	root, l, err := b.input(n)
	if err != nil {
		return err
	}
	s := &subplan{q: q, root: root, correlated: len(q.Outer) > 0}
	if s.correlated && q.Repeats {
		s.outer = b.outerTypes(q.Outer)
	}
	switch {
	case q.Kind == scalar.SubqueryExists:
	case q.Col != 0:
		if s.slot, ok = l.slot(q.Col); !ok {
			return internal("subquery does not produce column %d", q.Col)
		}
	case len(n.Columns()) == 0:
		return internal("subquery without columns")
	}
	if q.Kind == scalar.SubqueryAny || q.Kind == scalar.SubqueryAll {
		if s.op, err = b.expr(q.Op, layout{q.LeftID: 0, q.Col: 1}); err != nil {
			return err
		}
		want := scalar.EQ
		if q.Kind == scalar.SubqueryAll {
			want = scalar.NE
		}
		if c, ok := q.Op.(*scalar.Compare); ok && c.Op < scalar.IsDistinct {
			lc, lok := c.Left.(*scalar.Column)
			rc, rok := c.Right.(*scalar.Column)
			if lok && rok && lc.ID == q.LeftID && rc.ID == q.Col && hashable(lc.T, rc.T) {
				s.ltype, s.rtype = lc.T, rc.T
				s.hashed = c.Op == want && (!s.correlated || q.Repeats)
				s.ends = c.Op != want // = ANY and <> ALL are about each value
			} else if lok && rok && lc.ID == q.LeftID && rc.ID == q.Col && c.Op == want && hashableRows(lc.T, rc.T) {
				s.ltype, s.rtype, s.rows = lc.T, rc.T, q.Repeats
			}
		}
	}
	if q.Kind == scalar.SubqueryArray && q.T != nil && q.T.Elem != nil {
		s.elem = q.T.Elem
		s.stack = b.meta.Column(q.Col).Type.Kind == types.KindArray
	}
	s.index = len(b.prog.subs)
	b.prog.subs = append(b.prog.subs, s)
	b.prog.subByQ[q] = s
	return nil
}

// hashableRows says that each field of two row types is hashable.
func hashableRows(a, b *types.T) bool {
	if a.Kind != types.KindTuple || b.Kind != types.KindTuple || len(a.Fields) == 0 || len(a.Fields) != len(b.Fields) {
		return false
	}
	for i := range a.Fields {
		if !hashable(a.Fields[i], b.Fields[i]) {
			return false
		}
	}
	return true
}

// rowKey is the hash key of a row value; false if it has a NULL in it.
func rowKey(buf []byte, d types.Datum, t *types.T) ([]byte, bool) {
	if d.IsNull() {
		return buf, false
	}
	elems := d.Tuple().Elems
	if len(elems) != len(t.Fields) {
		return buf, false
	}
	for i, e := range elems {
		if e.IsNull() {
			return buf, false
		}
		at := len(buf)
		buf = types.AppendHashKey(append(buf, 0, 0, 0, 0), e, t.Fields[i])
		binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
	}
	return buf, true
}

// hashable says that equal values of the two types have equal hash keys.
func hashable(a, b *types.T) bool {
	if a.Phys() != b.Phys() || a.Kind == types.KindBPChar != (b.Kind == types.KindBPChar) {
		return false
	}
	switch a.Phys() {
	case types.PhysTuple, types.PhysArray, types.PhysNull:
		return false
	}
	return true
}

// RunSubquery implements scalar.Subqueries.
func (r *run) RunSubquery(ctx *scalar.Context, q *scalar.Subquery) (types.Datum, error) {
	p := r.prog.subByQ[q]
	if p == nil {
		return types.Null, internal("unknown subquery")
	}
	s := &r.subs[p.index]
	if s.it == nil {
		s.it = r.make(p.root)
	}
	for _, id := range q.Outer {
		if d, ok := ctx.Outer[id]; ok {
			r.setOuter(id, d)
		}
	}
	quantified := q.Kind == scalar.SubqueryAny || q.Kind == scalar.SubqueryAll
	if !s.done || p.correlated {
		if err := r.answerSubquery(p, s); err != nil {
			return types.Null, err
		}
		s.done = true
	}
	if !quantified {
		return s.value, nil
	}
	return r.quantify(ctx, p, s)
}

// answerSubquery finds the answer in the memo, or runs the plan.
func (r *run) answerSubquery(p *subplan, s *subState) error {
	if p.outer == nil {
		return r.fillSubquery(p, s)
	}
	s.values = s.values[:0]
	for _, id := range p.q.Outer {
		s.values = append(s.values, r.sctx.Outer[id])
	}
	a, ok := s.memo.find(s.values, p.outer)
	s.fresh(r)
	if ok {
		s.subAnswer, s.kept = a, true
		return nil
	}
	if err := r.fillSubquery(p, s); err != nil {
		return err
	}
	s.kept = s.memo.keep(r.budget, s.subAnswer, s.store.bytes)
	return nil
}

// fillSubquery runs the plan. Scalar forms leave their value, quantified forms the list of values.
func (r *run) fillSubquery(p *subplan, s *subState) error {
	switch p.q.Kind {
	case scalar.SubqueryExists:
		hint(s.it, 1)
	case scalar.SubqueryScalar:
		hint(s.it, 2)
	}
	if err := s.it.open(); err != nil {
		return err
	}
	defer s.it.close()
	s.fresh(r)
	switch p.q.Kind {
	case scalar.SubqueryExists:
		row, err := s.it.next()
		s.value = types.NewBool(row != nil)
		return err
	case scalar.SubqueryScalar:
		s.value = types.Null
		row, err := s.it.next()
		if err != nil || row == nil {
			return err
		}
		s.value = row[p.slot]
		if err := r.hold(&s.store.bytes, types.Row{s.value}); err != nil {
			return err
		}
		if row, err = s.it.next(); err != nil {
			return err
		}
		if row != nil {
			return sqlstate.New(sqlstate.CardinalityViolation, "more than one row returned by a subquery used as an expression")
		}
		return nil
	case scalar.SubqueryArray:
		a := &types.Array{Elem: p.elem}
		for {
			row, err := s.it.next()
			if err != nil {
				return err
			}
			if row == nil {
				s.value = types.NewArray(a)
				if len(a.Elems) > 0 && p.stack {
					s.value, err = types.StackArrays(p.elem, a.Elems)
				}
				return err
			}
			n := row[p.slot].Bytes()
			if err := r.budget.Grow(n); err != nil {
				return err
			}
			s.store.bytes += n
			a.Elems = append(a.Elems, row[p.slot])
			if err := r.tick(); err != nil {
				return err
			}
		}
	}
	s.least, s.greatest = types.Null, types.Null
	for {
		row, err := s.it.next()
		if err != nil {
			return err
		}
		if row == nil {
			if p.ends {
				return s.keepEnds(r)
			}
			return nil
		}
		if err := r.tick(); err != nil {
			return err
		}
		d := row[p.slot]
		if p.ends {
			s.see(d, p.rtype)
			continue
		}
		if p.hashed {
			if d.IsNull() {
				s.null = true
				continue
			}
			if s.set == nil {
				s.set = make(map[string]struct{})
			}
			s.buf = types.AppendHashKey(s.buf[:0], d, p.rtype)
			if _, ok := s.set[string(s.buf)]; ok {
				continue
			}
			n := int64(len(s.buf) + 48)
			if err := r.budget.Grow(n); err != nil {
				return err
			}
			s.store.bytes += n
			s.set[string(s.buf)] = struct{}{}
			continue
		}
		row, err = s.store.add(r.budget, types.Row{d})
		if err != nil {
			return err
		}
		if !p.rows {
			continue
		}
		var whole bool
		if s.buf, whole = rowKey(s.buf[:0], d, p.rtype); !whole {
			s.partial = append(s.partial, row)
			continue
		}
		if _, ok := s.set[string(s.buf)]; !ok {
			n := int64(len(s.buf) + 48)
			if err := r.budget.Grow(n); err != nil {
				return err
			}
			if s.store.bytes += n; s.set == nil {
				s.set = make(map[string]struct{})
			}
			s.set[string(s.buf)] = struct{}{}
		}
	}
}

// see adds a value to a list of which only the least, the greatest and whether it has a NULL are needed.
func (s *subState) see(d types.Datum, t *types.T) {
	switch {
	case d.IsNull():
		s.null = true
	case s.least.IsNull():
		s.least, s.greatest = d, d
	case t.Compare(d, s.least) < 0:
		s.least = d
	case t.Compare(d, s.greatest) > 0:
		s.greatest = d
	}
}

// keepEnds makes rows of the least and greatest value, and of NULL.
func (s *subState) keepEnds(r *run) error {
	var list []types.Datum
	if !s.least.IsNull() {
		list = append(list, s.least, s.greatest)
	}
	if s.null {
		list = append(list, types.Null)
	}
	for _, d := range list {
		if _, err := s.store.add(r.budget, types.Row{d}); err != nil {
			return err
		}
	}
	s.least, s.greatest = types.Null, types.Null
	return nil
}

// quantify applies "left op ANY/ALL (values)" in three-valued logic.
func (r *run) quantify(ctx *scalar.Context, p *subplan, s *subState) (types.Datum, error) {
	left := ctx.Outer[p.q.LeftID]
	all := p.q.Kind == scalar.SubqueryAll
	if p.hashed {
		if len(s.set) == 0 && !s.null {
			return types.NewBool(all), nil
		}
		if left.IsNull() {
			return types.Null, nil
		}
		s.buf = types.AppendHashKey(s.buf[:0], left, p.ltype)
		if _, ok := s.set[string(s.buf)]; ok {
			return types.NewBool(!all), nil
		}
		if s.null {
			return types.Null, nil
		}
		return types.NewBool(all), nil
	}
	if s.row == nil {
		s.row = make(types.Row, 2)
	}
	null, among := false, s.store.rows
	if p.rows {
		var whole bool
		if s.buf, whole = rowKey(s.buf[:0], left, p.ltype); whole {
			if _, ok := s.set[string(s.buf)]; ok {
				return types.NewBool(!all), nil
			}
			among = s.partial
		}
	}
	for _, v := range among {
		s.row[0], s.row[1] = left, v[0]
		d, err := p.op.Eval(ctx, s.row)
		if err != nil {
			return types.Null, err
		}
		switch {
		case d.IsNull():
			null = true
		case d.Bool() != all:
			return types.NewBool(!all), nil
		}
		if err := r.tick(); err != nil {
			return types.Null, err
		}
	}
	if null {
		return types.Null, nil
	}
	return types.NewBool(all), nil
}
