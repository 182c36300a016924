package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// order is an ORDER BY entry: an index into the items.
type order struct {
	item int
	o    *tree.Order
}

// byColumn refuses an entry of ORDER BY that names an index, and so has no expression.
func (b *builder) byColumn(o *tree.Order) {
	if o.OrderType == tree.OrderByIndex {
		b.fail(sqlstate.FeatureNotSupported, nil, "ORDER BY INDEX is not supported")
	}
}

// orderItem finds or adds the item for an entry of ORDER BY or DISTINCT ON.
func (b *builder) orderItem(c *exprContext, e tree.Expr, items []item, visible int, clause string, distinct bool) ([]item, int) {
	switch v := unparen(e).(type) {
	case *tree.NumVal:
		i, err := v.AsInt64()
		if err != nil {
			b.fail(sqlstate.SyntaxError, v, "non-integer constant in %s", clause)
		}
		if i < 1 || i > int64(visible) {
			b.fail(sqlstate.InvalidColumnReference, v, "%s position %d is not in select list", clause, i)
		}
		b.comparable(items[i-1].expr.Type(), clause == "ORDER BY", v)
		return items, int(i - 1)
	case *tree.StrVal:
		b.fail(sqlstate.SyntaxError, v, "non-integer constant in %s", clause)
	case *tree.UnresolvedName:
		if v.NumParts == 1 && !v.Star {
			found := -1
			for i := range visible {
				if items[i].name != v.Parts[0] {
					continue
				}
				if found >= 0 && !scalar.Same(items[found].expr, items[i].expr) {
					b.fail(sqlstate.AmbiguousColumn, v, "%s \"%s\" is ambiguous", clause, v.Parts[0])
				}
				if found < 0 {
					found = i
				}
			}
			if found >= 0 {
				b.comparable(items[found].expr.Type(), clause == "ORDER BY", v)
				return items, found
			}
		}
	}
	oc := *c
	oc.clause = clause
	x := b.known(b.expr(&oc, e), e)
	b.comparable(x.Type(), clause == "ORDER BY", e)
	for i := range items {
		if scalar.Same(items[i].expr, x) {
			return items, i
		}
	}
	b.targets(len(items) + 1)
	return append(items, item{expr: x, node: e}), len(items)
}

// comparable refuses ordering, grouping and comparison of values of a type that has no order and no equality.
func (b *builder) comparable(t *types.T, order bool, at any) {
	if scalar.Comparable(t) {
		return
	}
	if t.Kind == types.KindTuple { // PostgreSQL finds the operators of rows, which fail at the field
		raise(b.at(sqlstate.New(sqlstate.UndefinedFunction, "could not identify a comparison function for type json"), nil))
	}
	what := "equality"
	if order {
		what = "ordering"
	}
	e := sqlstate.New(sqlstate.UndefinedFunction, "could not identify an %s operator for type %s", what, t.Name())
	if order {
		e = e.WithHint("Use an explicit ordering operator or modify the query.")
	}
	raise(b.at(e, at))
}

// sort orders the output.
func (b *builder) sort(out *output, by []opt.OrderColumn) {
	if len(by) == 0 {
		return
	}
	uniq := by[:0:0]
	for _, o := range by {
		dup := false
		for _, u := range uniq {
			dup = dup || u.Col == o.Col
		}
		if !dup {
			uniq = append(uniq, o)
		}
	}
	out.rel = &opt.Sort{Input: out.rel, By: uniq}
	out.order = uniq
}

// orderOutput applies ORDER BY to a query that has output columns only: positions and names, and expressions over
// them where the query is not a set operation.
func (b *builder) orderOutput(out *output, by tree.OrderBy, setOp bool) {
	if len(by) == 0 {
		return
	}
	sc := &scope{level: &level{}}
	for _, c := range out.cols {
		sc.cols = append(sc.cols, column{name: c.name, id: c.id, t: c.t})
	}
	items := make([]item, len(out.cols))
	for i := range out.cols {
		items[i] = item{name: out.cols[i].name, expr: sc.cols[i].ref(), id: out.cols[i].id}
	}
	c := &exprContext{scope: sc, clause: "ORDER BY"}
	var cols []opt.OrderColumn
	p := &opt.Project{Input: out.rel}
	for _, o := range by {
		b.byColumn(o)
		var i int
		before := len(items)
		if setOp {
			if _, ok := unparen(o.Expr).(*tree.NumVal); !ok {
				u, ok := unparen(o.Expr).(*tree.UnresolvedName)
				if !ok || u.NumParts != 1 {
					raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "invalid UNION/INTERSECT/EXCEPT ORDER BY clause").
						WithDetail("Only result column names can be used, not expressions or functions.").
						WithHint("Add the expression/function to every SELECT, or move the UNION into a FROM clause."), o.Expr))
				}
			}
		}
		items, i = b.orderItem(c, o.Expr, items, len(out.cols), "ORDER BY", false)
		if i >= before {
			items[i].id = b.meta.Add(opt.ColumnMeta{Name: "order", Type: items[i].expr.Type()})
			p.Items = append(p.Items, opt.ProjectItem{Col: items[i].id, Expr: items[i].expr})
		}
		cols = append(cols, opt.OrderColumn{Col: items[i].id, Desc: o.Direction == tree.Descending, NullsFirst: nullsFirst(o)})
	}
	if len(p.Items) > 0 {
		for _, c := range out.cols {
			p.Pass = appendID(p.Pass, c.id)
		}
		out.rel = p
	}
	b.sort(out, cols)
}

// limit applies LIMIT and OFFSET.
func (b *builder) limit(out *output, l *tree.Limit, sc *scope) {
	if l == nil || l.Count == nil && l.Offset == nil {
		return
	}
	bindCount := func(e tree.Expr, what string) scalar.Expr {
		if e == nil || e == tree.DNull {
			return nil
		}
		c := &exprContext{scope: sc, clause: what}
		x := b.expr(c, e)
		local := false
		scalar.Columns(x, func(id opt.ColumnID) {
			for i := range sc.cols {
				local = local || sc.cols[i].id == id
			}
		})
		if local {
			b.fail(sqlstate.InvalidColumnReference, e, "argument of %s must not contain variables", what)
		}
		t := x.Type()
		if t.Kind != types.KindUnknown && !types.CanCast(t, types.Int8, types.CastAssignment) {
			b.fail(sqlstate.DatatypeMismatch, e, "argument of %s must be type bigint, not type %s", what, t.Name())
		}
		x = b.coerce(x, types.Int8, types.CastAssignment, e)
		if k, ok := scalar.Fold(x).(*scalar.Const); ok {
			if k.Value.IsNull() {
				return nil
			}
			if k.Value.Int() < 0 {
				code := sqlstate.InvalidLimit
				if what == "OFFSET" {
					code = sqlstate.InvalidOffset
				}
				raise(sqlstate.New(code, "%s must not be negative", what))
			}
			return k
		}
		return x
	}
	n := &opt.Limit{Input: out.rel, Count: bindCount(l.Count, "LIMIT"), Offset: bindCount(l.Offset, "OFFSET")}
	if n.Count == nil && n.Offset == nil {
		return
	}
	out.rel = n
}
