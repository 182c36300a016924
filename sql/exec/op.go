package exec

import (
	"context"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// op is a compiled operator, which all executions of a program share.
type op interface {
	// iter makes the operator's state for one run.
	iter(r *run) iter
	plan() opt.Node
}

// iter is an operator in one run. open starts it, and starts it again when it is run repeatedly by an Apply; next
// yields rows that are valid until the following next; close gives its memory back and leaves it ready to be opened
// again.
type iter interface {
	open() error
	next() (types.Row, error)
	close()
}

// hinted is an iter that can make use of the number of its rows that will be taken; hint is called before open.
type hinted interface{ hint(rows int64) }

func hint(it iter, rows int64) {
	if h, ok := it.(hinted); ok {
		h.hint(rows)
	}
}

// kvUser is an iter that reads ranges and counts its reads.
type kvUser interface{ setStats(*NodeStats) }

// base is embedded by operators.
type base struct{ node opt.Node }

func (b *base) plan() opt.Node { return b.node }

func internal(format string, args ...any) error {
	return sqlstate.New(sqlstate.InternalError, "exec: "+format, args...)
}

// layout says in which slot a column is.
type layout map[scalar.ColumnID]int

func layoutOf(n opt.Node) layout {
	l := make(layout)
	l.add(0, n.Columns())
	return l
}

// add appends columns that begin at a slot; columns that are in the layout already keep their place.
func (l layout) add(at int, cols []scalar.ColumnID) layout {
	for i, c := range cols {
		if _, ok := l[c]; !ok && c != 0 {
			l[c] = at + i
		}
	}
	return l
}

func (l layout) slot(c scalar.ColumnID) (int, bool) {
	s, ok := l[c]
	return s, ok
}

func (l layout) slots(cols []scalar.ColumnID) ([]int, error) {
	out := make([]int, len(cols))
	for i, c := range cols {
		s, ok := l[c]
		if !ok {
			return nil, internal("column %d is not in the input", c)
		}
		out[i] = s
	}
	return out, nil
}

// builder compiles one plan.
type builder struct {
	ctx     context.Context
	opts    Options
	prog    *Program
	meta    *opt.Metadata
	ctes    map[int]*cteInfo
	tables  map[catalog.ID]*catalog.Table
	writers map[catalog.ID]*tableWriter
	// optimistic is the scan whose row may be read without its lock at first; nil: none.
	optimistic *opt.IndexScan
	// depth counts the plans around the node to be compiled next that may be opened again and again: those of subqueries, the right sides of
	// applies, recursive terms.
	depth int
	// mutations counts those compiled so far.
	mutations int
	// place is the place of the node to be compiled next.
	place place
	// owed is memory that was not requested from Room yet, and steps counts the parts compiled since the last request.
	owed, steps int64
}

const (
	// exprBytes is the memory of a compiled expression, and slotBytes that of a column in an operator's layout: estimates
	// of ours.
	exprBytes = 256
	slotBytes = 48
	// chargeSteps and chargeBytes bound the parts that are compiled between two requests to Room.
	chargeSteps = 256
	chargeBytes = 64 << 10
)

// charge counts memory of the program and requests it from Room.
func (b *builder) charge(bytes int) error {
	b.owed += int64(bytes)
	if b.steps++; b.opts.Room == nil || b.steps < chargeSteps && b.owed < chargeBytes {
		return nil
	}
	err := b.opts.Room(b.owed)
	b.owed, b.steps = 0, 0
	return err
}

// place says where a mutation stands. At the root it may commit and its rows leave one by one; the main plan of a
// WITH at the root has its rows counted; any other mutation is there for its effect.
type place uint8

const (
	inside place = iota
	mainPlan
	rootPlan
)

func (b *builder) root(n opt.Node) (op, error) {
	b.place = rootPlan
	return b.build(n)
}

func (b *builder) build(n opt.Node) (op, error) {
	at := b.place
	b.place = inside
	if err := b.charge(exprBytes + slotBytes*len(n.Columns())); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *opt.IndexScan:
		return b.indexScan(n)
	case *opt.LocalitySearch:
		return b.localitySearch(n)
	case *opt.VirtualNode:
		return b.virtual(n)
	case *opt.ValuesNode:
		return b.values(n)
	case *opt.FilterNode:
		return b.filter(n)
	case *opt.ProjectNode:
		return b.project(n)
	case *opt.ProjectSetNode:
		return b.projectSet(n)
	case *opt.IndexJoin:
		return b.indexJoin(n)
	case *opt.LookupJoin:
		return b.lookupJoin(n)
	case *opt.HashJoin:
		return b.hashJoin(n)
	case *opt.MergeJoin:
		return b.mergeJoin(n)
	case *opt.InterleavedJoin:
		return b.interleavedJoin(n)
	case *opt.NestedLoop:
		return b.nestedLoop(n)
	case *opt.GroupNode:
		return b.group(n)
	case *opt.WindowNode:
		return b.window(n)
	case *opt.DistinctNode:
		return b.distinct(n)
	case *opt.SetOpNode:
		return b.setOp(n)
	case *opt.SortNode:
		return b.sort(n)
	case *opt.LockNode:
		return b.lockRows(n)
	case *opt.LimitNode:
		return b.limit(n)
	case *opt.WithNode:
		return b.with(n, at)
	case *opt.WithScanNode:
		return b.withScan(n)
	case *opt.InsertNode:
		return b.insert(n, at)
	case *opt.UpdateNode:
		return b.update(n, at)
	case *opt.DeleteNode:
		return b.delete(n, at)
	}
	return nil, internal("no operator for %T", n)
}

// input compiles a child and its layout.
func (b *builder) input(n opt.Node) (op, layout, error) {
	o, err := b.build(n)
	if err != nil {
		return nil, nil, err
	}
	return o, layoutOf(n), nil
}

// expr compiles a scalar and the subqueries inside.
func (b *builder) expr(e scalar.Expr, l layout) (scalar.Evaluator, error) {
	if err := b.charge(exprBytes); err != nil {
		return nil, err
	}
	if err := b.subqueries(e); err != nil {
		return nil, err
	}
	return scalar.Compile(e, l.slot)
}

func (b *builder) exprs(es []scalar.Expr, l layout) ([]scalar.Evaluator, error) {
	if len(es) == 0 {
		return nil, nil
	}
	out := make([]scalar.Evaluator, len(es))
	for i, e := range es {
		ev, err := b.expr(e, l)
		if err != nil {
			return nil, err
		}
		out[i] = ev
	}
	return out, nil
}

func (b *builder) typesOf(cols []scalar.ColumnID) []*types.T {
	out := make([]*types.T, len(cols))
	for i, c := range cols {
		out[i] = b.meta.Column(c).Type
	}
	return out
}

// pass reports whether a row meets every condition.
func (r *run) pass(conds []scalar.Evaluator, row types.Row) (bool, error) {
	for _, c := range conds {
		ok, err := scalar.Test(c, &r.sctx, row)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (r *run) evalInto(evs []scalar.Evaluator, row, out types.Row) error {
	for i, ev := range evs {
		d, err := ev.Eval(&r.sctx, row)
		if err != nil {
			return err
		}
		out[i] = d
	}
	return nil
}

// evalHeld is evalInto for an operator that keeps the row: its large values are accounted for.
func (r *run) evalHeld(evs []scalar.Evaluator, row, out types.Row, held *int64) error {
	for i, ev := range evs {
		d, err := ev.Eval(&r.sctx, row)
		if err != nil {
			return err
		}
		out[i] = d
		if w := d.Weight(); w != 0 {
			if err := r.budget.Grow(w); err != nil {
				return err
			}
			*held += w
		}
	}
	return nil
}

// hashKey appends the key by which rows are equal in the given slots. It reports whether any value is NULL.
func hashKey(buf []byte, row types.Row, slots []int, ts []*types.T) ([]byte, bool) {
	null := false
	for i, s := range slots {
		d := row[s]
		if d.IsNull() {
			null = true
		}
		buf = types.AppendHashKey(buf, d, ts[i])
	}
	return buf, null
}
