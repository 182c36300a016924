package opt

import (
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// foldConditions evaluates the constant parts of a conjunction and flattens it. never says that it can't be true.
func foldConditions(filter []scalar.Expr) (out []scalar.Expr, never bool) {
	simple := true
	for _, e := range filter {
		simple = simple && plainCondition(e)
	}
	if simple {
		return filter, false
	}
	out = make([]scalar.Expr, 0, len(filter))
	for _, e := range filter {
		e = simplifyCondition(bareColumns(foldScalar(e)))
		switch x := e.(type) {
		case *scalar.Const:
			if x.Value.IsNull() || !x.Value.Bool() {
				return nil, true
			}
		case *scalar.And:
			for _, a := range x.Args {
				if k, ok := a.(*scalar.Const); ok {
					if k.Value.IsNull() || !k.Value.Bool() {
						return nil, true
					}
					continue
				}
				out = append(out, a)
			}
		default:
			out = append(out, e)
		}
	}
	return out, false
}

// bareColumns removes casts that change no value from the columns of comparisons: a varchar is compared with a text as a text, but
// its index is on the column itself.
func bareColumns(e scalar.Expr) scalar.Expr {
	return scalar.Rewrite(e, func(e scalar.Expr) scalar.Expr {
		switch x := e.(type) {
		case *scalar.Compare:
			l, r := bareColumn(x.Left), bareColumn(x.Right)
			if (l != x.Left || r != x.Right) && sameValues(l.Type(), r.Type()) {
				return &scalar.Compare{Op: x.Op, Left: l, Right: r}
			}
		case *scalar.In:
			arg := bareColumn(x.Arg)
			if arg == x.Arg {
				return e
			}
			for _, v := range x.List {
				if !sameValues(arg.Type(), v.Type()) {
					return e
				}
			}
			return &scalar.In{Arg: arg, List: x.List, Negate: x.Negate}
		case *scalar.Quantified:
			arg := bareColumn(x.Arg)
			if t := scalar.ElemType(x.Array.Type()); arg != x.Arg && t != nil && sameValues(arg.Type(), t) {
				n := *x
				n.Arg = arg
				return &n
			}
		}
		return e
	})
}

// bareColumn is a column without a cast that leaves all its values as they are.
func bareColumn(e scalar.Expr) scalar.Expr {
	c, ok := e.(*scalar.Cast)
	if !ok {
		return e
	}
	col, ok := c.Arg.(*scalar.Column)
	if !ok {
		return e
	}
	size := func(t *types.T) int {
		switch t.Kind {
		case types.KindInt2:
			return 1
		case types.KindInt4:
			return 2
		case types.KindInt8:
			return 3
		}
		return 0
	}
	from, to := size(col.T), size(c.To)
	if from > 0 && from <= to || c.To.Kind == types.KindText && (col.T.Kind == types.KindVarChar || col.T.Kind == types.KindName) {
		return col
	}
	return e
}

// plainCondition reports whether a condition is a comparison of leaves, which needs no folding.
func plainCondition(e scalar.Expr) bool {
	leaf := func(e scalar.Expr) (column, value bool) {
		switch e := e.(type) {
		case *scalar.Column:
			return true, false
		case *scalar.Placeholder:
			return false, true
		case *scalar.Const:
			return false, !e.Value.IsNull()
		}
		return false, false
	}
	c, ok := e.(*scalar.Compare)
	if !ok {
		return false
	}
	lc, lv := leaf(c.Left)
	rc, rv := leaf(c.Right)
	return lc && (rc || rv) || rc && lv
}

// foldScalar is scalar.Fold, except for leaves.
func foldScalar(e scalar.Expr) scalar.Expr {
	switch e.(type) {
	case *scalar.Column, *scalar.Const, *scalar.Placeholder:
		return e
	}
	return scalar.Fold(e)
}

// simplifyCondition rewrites conditions into the forms that other rules look for. It may treat NULL and false as the
// same, as conditions do.
func simplifyCondition(e scalar.Expr) scalar.Expr {
	switch x := e.(type) {
	case *scalar.Not:
		return negate(x.Arg, e)
	case *scalar.In:
		if len(x.List) == 1 {
			op := scalar.EQ
			if x.Negate {
				op = scalar.NE
			}
			return &scalar.Compare{Op: op, Left: x.Arg, Right: x.List[0]}
		}
	case *scalar.IsBool:
		if x.Want && !x.Negate {
			return x.Arg
		}
	case *scalar.Quantified:
		if list, ok := anyList(x); ok {
			return simplifyCondition(&scalar.In{Arg: x.Arg, List: list})
		}
	case *scalar.And:
		out := make([]scalar.Expr, len(x.Args))
		for i, a := range x.Args {
			out[i] = simplifyCondition(a)
		}
		return &scalar.And{Args: out}
	case *scalar.Or:
		return factorOr(x)
	}
	return e
}

// negate pushes a NOT inside.
func negate(arg, whole scalar.Expr) scalar.Expr {
	switch x := arg.(type) {
	case *scalar.Not:
		return simplifyCondition(x.Arg)
	case *scalar.Compare:
		if x.Op <= scalar.IsNotDistinct {
			return &scalar.Compare{Op: x.Op.Negate(), Left: x.Left, Right: x.Right}
		}
	case *scalar.IsNull:
		if k := x.Arg.Type().Kind; x.Whole || k != types.KindTuple && k != types.KindUnknown { // a row may be neither
			return &scalar.IsNull{Arg: x.Arg, Negate: !x.Negate, Whole: x.Whole}
		}
	case *scalar.In:
		return simplifyCondition(&scalar.In{Arg: x.Arg, List: x.List, Negate: !x.Negate})
	case *scalar.Or:
		out := make([]scalar.Expr, len(x.Args))
		for i, a := range x.Args {
			out[i] = negate(a, &scalar.Not{Arg: a})
		}
		return &scalar.And{Args: out}
	case *scalar.And:
		out := make([]scalar.Expr, len(x.Args))
		for i, a := range x.Args {
			out[i] = negate(a, &scalar.Not{Arg: a})
		}
		return &scalar.Or{Args: out}
	}
	return whole
}

// factorOr takes out the conditions that all branches of a disjunction have in common: (a AND b) OR (a AND c) is a AND
// (b OR c).
func factorOr(x *scalar.Or) scalar.Expr {
	first := scalar.Conjuncts(x.Args[0])
	var common []scalar.Expr
	for _, e := range first {
		if isVolatile(e) || hasSubquery(e) {
			continue
		}
		everywhere := true
		for _, a := range x.Args[1:] {
			everywhere = everywhere && contains(scalar.Conjuncts(a), e)
		}
		if everywhere {
			common = append(common, e)
		}
	}
	if len(common) == 0 {
		return x
	}
	var rest []scalar.Expr
	for _, a := range x.Args {
		var left []scalar.Expr
		for _, e := range scalar.Conjuncts(a) {
			if !contains(common, e) {
				left = append(left, e)
			}
		}
		if len(left) == 0 { // this branch has no other condition
			return &scalar.And{Args: append(common, trueExpr())}
		}
		rest = append(rest, scalar.Conjoin(left))
	}
	return &scalar.And{Args: append(common, &scalar.Or{Args: rest})}
}

func contains(list []scalar.Expr, e scalar.Expr) bool {
	for _, x := range list {
		if scalar.Equal(x, e) {
			return true
		}
	}
	return false
}

func trueExpr() scalar.Expr  { return &scalar.Const{Value: types.NewBool(true), T: types.Bool} }
func falseExpr() scalar.Expr { return &scalar.Const{Value: types.NewBool(false), T: types.Bool} }

// appendConditions joins two conjunctions, without duplicates.
func appendConditions(a, b []scalar.Expr) []scalar.Expr {
	if len(a) == 0 {
		return b
	}
	out := a[:len(a):len(a)]
	for _, e := range b {
		if isVolatile(e) || hasSubquery(e) || !contains(a, e) {
			out = append(out, e)
		}
	}
	return out
}

// anyList is the list of "x = ANY (ARRAY[...])".
func anyList(q *scalar.Quantified) ([]scalar.Expr, bool) {
	cmp, ok := q.Op.(*scalar.Compare)
	if !ok || q.All || cmp.Op != scalar.EQ {
		return nil, false
	}
	l, lok := cmp.Left.(*scalar.Column)
	r, rok := cmp.Right.(*scalar.Column)
	if !lok || !rok || l.ID != q.LeftID || r.ID != q.ElemID {
		return nil, false
	}
	switch a := q.Array.(type) {
	case *scalar.ArrayCtor:
		return a.Elems, len(a.Elems) > 0
	case *scalar.Const:
		if a.Value.IsNull() || a.Value.Phys() != types.PhysArray {
			return nil, false
		}
		var out []scalar.Expr
		for _, d := range a.Value.Array().Elems {
			out = append(out, &scalar.Const{Value: d, T: r.T})
		}
		return out, len(out) > 0
	}
	return nil, false
}
