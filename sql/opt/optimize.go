package opt

import (
	"runtime/debug"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// Env is the environment of the optimizer: its inputs besides the query.
type Env struct {
	Registry *scalar.Registry
	// Statistics are a table's collected statistics; nil, or an answer of nil, makes it guess.
	Statistics func(catalog.ID) *catalog.Statistics
	// Predicate binds a partial index's condition over columns numbered as the table's ordinals plus one. Nil leaves
	// partial indexes unused.
	Predicate func(*catalog.Table, *catalog.Index) (scalar.Expr, error)
	// Region prices the network; the zero value knows no distances.
	Region Region
	// GatewayRegion is the region of the node that runs the plan; empty: it has none, and nothing is looked for there first.
	GatewayRegion string
	// Home says that the plan will be refused where it leaves the gateway's region (enforce_home_region): it is to stay there if another one can.
	Home bool
	// JoinPairs bounds the pairs of sets of relations for which a tree of joins is tried in every possible order; zero:
	// maxPairs. If there are more, the relations are joined in the order of a greedy tree.
	JoinPairs int
	// Room, if set, is called with the memory that the memo and the plan occupy. It fails if that is too much, or if the
	// statement was cancelled.
	Room func(bytes int64) error
	// Off are rules that are not applied.
	Off Rules
	// Naive plans the query as it is written, for comparison in tests: full scans, no rewriting, nested loops.
	Naive bool
	// Perturb, if set, changes costs at will, so that tests run plans that would never be chosen.
	Perturb func(cost float64) float64
}

// Optimize chooses a plan for a bound query.
func Optimize(q *Query, env Env) (p *Plan, err error) {
	defer func() {
		r := recover()
		if out, ok := r.(bailout); ok {
			p, err = nil, out.err
		} else if r != nil {
			e := sqlstate.New(sqlstate.InternalError, "internal error while optimizing: %v", r)
			e.Detail = string(debug.Stack())
			p, err = nil, e
		}
	}()
	// The statement's own list of columns stays as it is.
	meta := *q.Meta
	meta.Columns = meta.Columns[:len(meta.Columns):len(meta.Columns)]
	o := &optimizer{meta: &meta, env: &env}
	root, order := o.build(q.Root)
	if o.failed != nil {
		return nil, &ConstantError{o.failed}
	}
	var needed colSet
	for _, c := range q.Output {
		needed.add(c.Col)
	}
	if len(q.Order) > 0 {
		order = q.Order
	}
	order = o.visibleOrder(root, order)
	for _, c := range order {
		needed.add(c.Col)
	}
	best := o.finish(root, needed, required{order: order})
	return &Plan{Meta: o.meta, Root: best, Output: q.Output, Tag: q.Tag, ReadOnly: !o.writes}, nil
}

// ConstantError is the error of a constant part of a statement, which PostgreSQL's planner evaluates: the statement itself is right.
type ConstantError struct{ Err error }

func (e *ConstantError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the part.
func (e *ConstantError) Unwrap() error { return e.Err }

// bailout carries an error through the optimizer's calls to Optimize.
type bailout struct{ err error }

// chargeSteps and chargeBytes bound the planning between two requests to Room.
const (
	chargeSteps = 256
	chargeBytes = 64 << 10
)

// charge counts memory of the memo and requests it from Room. It is called in all loops whose length can exceed the
// statement's.
func (o *optimizer) charge(bytes int) {
	o.owed += int64(bytes)
	if o.steps++; o.steps < chargeSteps && o.owed < chargeBytes {
		return
	}
	if o.env.Room != nil {
		if err := o.env.Room(o.owed); err != nil {
			panic(bailout{err})
		}
	}
	o.owed, o.steps = 0, 0
}

// finish prunes, explores and searches one query: the statement or a subquery in an expression.
func (o *optimizer) finish(root *group, needed colSet, req required) Node {
	o.refuseNullableLocks(root, false)
	o.prune(root, needed)
	if !o.env.Naive {
		o.explore(root)
	}
	return o.best(root, req).node
}

// visibleOrder cuts an ordering at the first column that the group does not have.
func (o *optimizer) visibleOrder(g *group, order []OrderColumn) []OrderColumn {
	for i := range order {
		if !g.cols.has(order[i].Col) {
			return order[:i]
		}
	}
	return order
}
