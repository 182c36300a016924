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
	// recursing: the recursive term is being compiled, in which the name stands for the rows of the round before.
	recursing bool
	// readers are the scans outside of the recursive term. depth is that of the WITH, and again says that a scan is deeper: it may be opened
	// several times.
	readers, depth int
	again          bool
}

// cteState is a common table expression in one run.
type cteState struct {
	source *withIter // computes the rows
	store  rowStore  // the rows so far, unless the only reader takes each once
	// Of a recursive expression: what the recursive term reads, the rows that it has added since, and the keys of all rows of a UNION.
	round, added rowStore
	seen         map[string]struct{}
	extra        int64
}

func (s *cteState) reset(r *run) {
	s.store.reset(r.budget)
	s.round.reset(r.budget)
	s.added.reset(r.budget)
	r.budget.Shrink(s.extra)
	s.extra, s.seen, s.source = 0, nil, nil
}

// withOp computes a common table expression while its main plan reads it (exec.X8).
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
	mutates   bool // the expression does
	keeps     bool // the rows are kept for other readers, or for another reading
}

func (b *builder) with(n *opt.WithNode, at place) (op, error) {
	o := &withOp{base: base{n}, index: b.prog.ctes, recAll: n.RecursiveAll, types: b.typesOf(n.BindCols)}
	b.prog.ctes++
	info := &cteInfo{index: o.index, width: len(n.BindCols), depth: b.depth}
	var l layout
	var err error
	mutations := b.mutations
	if o.binding, l, err = b.input(n.Binding); err != nil {
		return nil, err
	}
	o.mutates = b.mutations > mutations
	if o.bind, err = l.slots(n.BindCols); err != nil {
		return nil, err
	}
	for i := range n.BindCols {
		o.identity = append(o.identity, i)
	}
	b.ctes[n.ID] = info
	if n.Recursive != nil {
		info.recursing = true
		b.depth++
		if o.recursive, l, err = b.input(n.Recursive); err != nil {
			return nil, err
		}
		b.depth--
		info.recursing = false
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
	o.keeps = info.readers > 1 || info.again
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
	reading                  iter // binding or recursive; nil: neither was opened, or all rows were computed
	ended                    bool
	row                      types.Row
	buf                      []byte
}

func (it *withIter) open() error {
	s := &it.r.ctes[it.o.index]
	s.reset(it.r)
	s.source, it.reading, it.ended = it, nil, false
	return it.main.open()
}

// next is a row of the main plan. When that has ended, the changes are made that it has not asked for.
func (it *withIter) next() (types.Row, error) {
	row, err := it.main.next()
	if row != nil || err != nil || !it.o.mutates {
		return row, err
	}
	for {
		if row, err = it.compute(); row == nil || err != nil {
			return nil, err
		}
	}
}

func (it *withIter) close() {
	it.main.close()
	it.binding.close()
	if it.recursive != nil {
		it.recursive.close()
	}
	it.r.ctes[it.o.index].reset(it.r)
	it.reading = nil
	clear(it.row)
}

// compute is the next row of the expression, nil at its end.
func (it *withIter) compute() (types.Row, error) {
	o, s := it.o, &it.r.ctes[it.o.index]
	for !it.ended {
		if it.reading == nil {
			if err := it.binding.open(); err != nil {
				return nil, err
			}
			it.reading = it.binding
		}
		row, err := it.reading.next()
		if err != nil {
			return nil, err
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		if row == nil {
			if err := it.turn(s); err != nil {
				return nil, err
			}
			continue
		}
		slots := o.bind
		if it.reading == it.recursive {
			slots = o.recSlots
		}
		for i, slot := range slots {
			it.row[i] = row[slot]
		}
		if fresh, err := it.first(s); err != nil || !fresh {
			if err != nil {
				return nil, err
			}
			continue
		}
		row = it.row
		if o.recursive != nil {
			if row, err = s.added.add(it.r.budget, row); err != nil {
				return nil, err
			}
		}
		if o.keeps {
			return s.store.add(it.r.budget, row)
		}
		return row, nil
	}
	return nil, nil
}

// turn goes on to the next round of a recursion, which reads the rows that the one before has added; without any the expression has ended.
func (it *withIter) turn(s *cteState) error {
	if it.recursive == nil || len(s.added.rows) == 0 {
		it.reading.close()
		s.round.reset(it.r.budget)
		it.reading, it.ended = nil, true
		return nil
	}
	if it.reading == it.binding {
		it.binding.close()
	}
	s.round.reset(it.r.budget)
	s.round, s.added = s.added, s.round
	it.reading = it.recursive
	return it.recursive.open()
}

// first reports whether the row is one of the expression's: UNION drops rows that were there before.
func (it *withIter) first(s *cteState) (bool, error) {
	o := it.o
	if o.recursive == nil || o.recAll {
		return true, nil
	}
	it.buf, _ = hashKey(it.buf[:0], it.row, o.identity, o.types)
	if _, ok := s.seen[string(it.buf)]; ok {
		return false, nil
	}
	if s.seen == nil {
		s.seen = make(map[string]struct{})
	}
	n := int64(len(it.buf) + 48)
	if err := it.r.budget.Grow(n); err != nil {
		return false, err
	}
	s.extra += n
	s.seen[string(it.buf)] = struct{}{}
	return true, nil
}

// withScanOp reads a common table expression.
type withScanOp struct {
	base
	index int
	work  bool // within the recursive term: what the round before has added
}

func (b *builder) withScan(n *opt.WithScanNode) (op, error) {
	info := b.ctes[n.ID]
	if info == nil {
		return nil, internal("common table expression %d is not in scope", n.ID)
	}
	if len(n.Cols) != info.width {
		return nil, internal("scan of %d columns of a common table expression of %d", len(n.Cols), info.width)
	}
	if !info.recursing {
		info.readers++
		info.again = info.again || b.depth > info.depth
	}
	return &withScanOp{base: base{n}, index: info.index, work: info.recursing}, nil
}

func (o *withScanOp) iter(r *run) iter { return &withScanIter{r: r, o: o} }

type withScanIter struct {
	r  *run
	o  *withScanOp
	at int // in the rows that are kept
}

func (it *withScanIter) open() error {
	if it.r.ctes[it.o.index].source == nil {
		return internal("common table expression is read outside of its WITH")
	}
	it.at = 0
	return nil
}

func (it *withScanIter) close() {}

func (it *withScanIter) next() (types.Row, error) {
	s := &it.r.ctes[it.o.index]
	kept := &s.store
	if it.o.work {
		kept = &s.round
	}
	if it.at < len(kept.rows) {
		it.at++
		return kept.rows[it.at-1], nil
	}
	if it.o.work {
		return nil, nil
	}
	row, err := s.source.compute()
	if row != nil {
		it.at++
	}
	return row, err
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
	b.depth++
	root, l, err := b.input(n)
	b.depth--
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
			} else if lok && rok && lc.ID == q.LeftID && rc.ID == q.Col && c.Op == want && !scalar.ComparesRecords(c) && hashableRows(lc.T, rc.T) {
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
