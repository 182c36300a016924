package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// setColumns binds a set-returning call in the select list and returns its columns; nil if it is not one.
func (b *builder) setColumns(c *exprContext, n *tree.FuncExpr) []column {
	name := functionName(n)
	b.arrange(c, n)
	rows := strings.HasSuffix(name, "_populate_recordset")
	if !b.Registry.IsSet(name) && !rows {
		return nil
	}
	if !c.sets {
		if c.inAgg {
			raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "aggregate function calls cannot contain set-returning function calls").
				WithHint("You might be able to move the set-returning function into a LATERAL FROM item."), n))
		}
		e := sqlstate.New(sqlstate.FeatureNotSupported, "set-returning functions are not allowed in %s", c.clause)
		if c.clause == "functions in FROM" {
			e.Message = "set-returning functions must appear at top level of FROM"
		}
		if c.chosen {
			e.Hint = "You might be able to move the set-returning function into a LATERAL FROM item."
		}
		raise(b.at(e, n))
	}
	var f opt.SetFunc
	var cols []column
	if x := b.recordCall(c, n, name, nil); rows && x != nil {
		f, cols = b.setFunc([]scalar.Expr{x}, "unnest", n)
	} else {
		f, cols = b.setFunc(b.callArgs(c, n.Exprs), name, n)
	}
	for i, id := range c.scope.level.set(f) {
		cols[i].id = id
	}
	return cols
}

// projectSets runs set-returning functions over a relation. A function with other such functions in its arguments runs for each row of theirs; the
// functions of one depth advance together.
func projectSets(rel opt.Rel, funcs []opt.SetFunc) opt.Rel {
	var levels [][]opt.SetFunc
	level := map[scalar.ColumnID]int{} // of the functions' columns
	for _, f := range funcs {          // a function comes after the functions in its arguments
		at := 0
		for _, a := range f.Args {
			scalar.Columns(a, func(id scalar.ColumnID) {
				if l, ok := level[id]; ok {
					at = max(at, l+1)
				}
			})
		}
		for _, id := range f.Cols {
			level[id] = at
		}
		for len(levels) <= at {
			levels = append(levels, nil)
		}
		levels[at] = append(levels[at], f)
	}
	for _, l := range levels {
		rel = &opt.ProjectSet{Input: rel, Funcs: l}
	}
	return rel
}

// setFunc resolves a set-returning function and makes its columns.
func (b *builder) setFunc(args []scalar.Expr, name string, at any) (opt.SetFunc, []column) {
	res, err := b.Registry.ResolveFunction(name, typesOf(args))
	if err != nil {
		raise(b.locate(err, at))
	}
	f := opt.SetFunc{Func: res.Func, Args: b.coerceArgs(args, res.Args, at)}
	ts, names := res.Func.ReturnTypes, res.Func.ReturnNames
	var cols []column
	for i := range ts {
		t := ts[i]
		if t.Kind == types.KindAnyElement || t.Kind == types.KindAnyArray {
			t = polymorphic(t, res.Func.Args, res.Args)
		}
		cn := name
		if i < len(names) && names[i] != "" {
			cn = names[i]
		}
		id := b.meta.Add(opt.ColumnMeta{Name: cn, Type: t})
		f.Cols = append(f.Cols, id)
		cols = append(cols, column{name: cn, id: id, t: t})
	}
	return f, cols
}

// polymorphic is the type for which anyelement or anyarray stands in a call with the resolved argument types.
func polymorphic(t *types.T, declared, actual []*types.T) *types.T {
	var elem *types.T
	for i, a := range actual {
		switch declared[min(i, len(declared)-1)].Kind {
		case types.KindAnyElement:
			elem = a
		case types.KindAnyArray:
			elem = scalar.ElemType(a)
		}
		if elem != nil {
			break
		}
	}
	if elem == nil {
		elem = types.Text
	}
	if t.Kind == types.KindAnyArray {
		return types.ArrayOf(elem)
	}
	return elem
}

// setsOfGroups runs the set-returning functions in GROUP BY, before the groups are made.
func setsOfGroups(rel opt.Rel, lv *level, groups []groupExpr, items []item) opt.Rel {
	exprs := make([]scalar.Expr, len(groups))
	for i := range groups {
		exprs[i] = groups[i].expr
	}
	before := lv.setsBelow(exprs)
	if len(before) == 0 {
		return rel
	}
	for _, x := range exprs {
		if _, ok := x.(*scalar.Column); ok || slices.ContainsFunc(items, func(it item) bool { return it.expr == x }) {
			continue
		}
		scalar.Columns(x, func(id scalar.ColumnID) {
			if slices.ContainsFunc(before, func(f opt.SetFunc) bool { return slices.Contains(f.Cols, id) }) {
				raise(sqlstate.New(sqlstate.FeatureNotSupported, "GROUP BY of an expression over a set-returning function is not supported").
					WithHint("Group by its position in the select list, or move the function into a LATERAL FROM item."))
			}
		})
	}
	return projectSets(rel, before)
}
