package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree/treecmp"

	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// compareOp maps the grammar's comparison operators.
func compareOp(sym treecmp.ComparisonOperatorSymbol) (scalar.CmpOp, bool) {
	switch sym {
	case treecmp.EQ:
		return scalar.EQ, true
	case treecmp.NE:
		return scalar.NE, true
	case treecmp.LT:
		return scalar.LT, true
	case treecmp.LE:
		return scalar.LE, true
	case treecmp.GT:
		return scalar.GT, true
	case treecmp.GE:
		return scalar.GE, true
	case treecmp.IsDistinctFrom:
		return scalar.IsDistinct, true
	case treecmp.IsNotDistinctFrom:
		return scalar.IsNotDistinct, true
	}
	return 0, false
}

// operatorName is the name under which another boolean operator is registered.
func operatorName(sym treecmp.ComparisonOperatorSymbol) (string, bool) {
	switch sym {
	case treecmp.Like:
		return "~~", true
	case treecmp.NotLike:
		return "!~~", true
	case treecmp.ILike:
		return "~~*", true
	case treecmp.NotILike:
		return "!~~*", true
	case treecmp.RegMatch, treecmp.NotRegMatch, treecmp.RegIMatch, treecmp.NotRegIMatch, treecmp.Contains, treecmp.ContainedBy,
		treecmp.JSONExists, treecmp.JSONSomeExists, treecmp.JSONAllExists, treecmp.Overlaps, treecmp.TSMatches:
		return sym.String(), true
	}
	return "", false
}

// cmpSymbol is the operator as PostgreSQL writes it.
func cmpSymbol(n *tree.ComparisonExpr) string {
	op := n.Operator.Symbol
	if op == treecmp.Any || op == treecmp.Some || op == treecmp.All {
		op = n.SubOperator.Symbol
	}
	switch op {
	case treecmp.NE:
		return "<>"
	case treecmp.Like, treecmp.ILike:
		return op.String()
	case treecmp.NotLike, treecmp.NotILike, treecmp.NotIn:
		return "not"
	case treecmp.IsDistinctFrom, treecmp.IsNotDistinctFrom:
		return "is"
	}
	return op.String()
}

func (b *builder) comparison(c *exprContext, n *tree.ComparisonExpr) scalar.Expr {
	switch n.Operator.Symbol {
	case treecmp.In, treecmp.NotIn:
		return b.in(c, n)
	case treecmp.Any, treecmp.Some, treecmp.All:
		return b.quantified(c, n)
	case treecmp.IsDistinctFrom, treecmp.IsNotDistinctFrom:
		if v, ok := n.Right.(*tree.DBool); ok { // IS [NOT] TRUE and FALSE
			negate := n.Operator.Symbol == treecmp.IsDistinctFrom
			word := "IS "
			if negate {
				word += "NOT "
			}
			word += strings.ToUpper(v.String())
			return &scalar.IsBool{Arg: b.asBool(b.expr(c, n.Left), word, n.Left), Want: bool(*v), Negate: negate}
		}
		if parse.IsUnknownTruth(n.Right) { // IS [NOT] UNKNOWN
			negate, word := n.Operator.Symbol == treecmp.IsDistinctFrom, "IS UNKNOWN"
			if negate {
				word = "IS NOT UNKNOWN"
			}
			return &scalar.IsNull{Arg: b.asBool(b.expr(c, n.Left), word, n.Left), Negate: negate}
		}
		if n.Right == tree.DNull {
			return wholeNull(b.anyType(b.expr(c, n.Left), n.Left), n.Operator.Symbol == treecmp.IsDistinctFrom)
		}
	}
	// A row compared with a subquery of several columns.
	if sub, ok := unparen(n.Right).(*tree.Subquery); ok && !sub.Exists {
		if row, ok := unparen(n.Left).(*tree.Tuple); ok {
			l := b.expr(c, row)
			return b.operate(n.Operator.Symbol, l, b.rowSubquery(c, sub, len(row.Exprs), n), n)
		}
	}
	l := b.expr(c, n.Left)
	r := b.expr(c, n.Right)
	return b.operate(n.Operator.Symbol, l, r, n)
}

// operate applies a comparison or other boolean operator to bound operands.
func (b *builder) operate(sym treecmp.ComparisonOperatorSymbol, l, r scalar.Expr, at any) scalar.Expr {
	if op, ok := compareOp(sym); ok {
		return b.compare(op, l, r, at)
	}
	switch sym {
	case treecmp.SimilarTo:
		return b.operator("~", at, l, b.call("similar_to_escape", []scalar.Expr{r}, at))
	case treecmp.NotSimilarTo:
		return b.operator("!~", at, l, b.call("similar_to_escape", []scalar.Expr{r}, at))
	}
	name, ok := operatorName(sym)
	if !ok {
		b.fail(sqlstate.FeatureNotSupported, at, "operator %s is not supported", sym)
	}
	return b.operator(name, at, l, r)
}

// compare builds a comparison; rows are compared field by field.
func (b *builder) compare(op scalar.CmpOp, l, r scalar.Expr, at any) scalar.Expr {
	lr, lok := l.(*scalar.RowCtor)
	rr, rok := r.(*scalar.RowCtor)
	if lok && rok && lr.T.Names == nil && rr.T.Names == nil {
		return b.compareRows(op, lr, rr, at)
	}
	l, r = b.recordSide(l, r.Type(), at), b.recordSide(r, l.Type(), at)
	lt, rt, err := b.Registry.ResolveCompare(op, l.Type(), r.Type())
	if err != nil {
		raise(b.locateOp(err, at))
	}
	return &scalar.Compare{Op: op, Left: b.coerce(l, lt, types.CastImplicit, at), Right: b.coerce(r, rt, types.CastImplicit, at)}
}

// recordSide gives the literals of a row constructor the types of the record with which it is compared.
func (b *builder) recordSide(x scalar.Expr, other *types.T, at any) scalar.Expr {
	row, ok := x.(*scalar.RowCtor)
	if !ok || row.T.Names != nil || other.Kind != types.KindTuple || other.Names == nil {
		return x
	}
	if len(other.Fields) != len(row.Elems) {
		raise(b.locateOp(sqlstate.New(sqlstate.DatatypeMismatch, "cannot compare record types with different numbers of columns"), at))
	}
	out := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	for i, e := range row.Elems {
		if e.Type().Kind == types.KindUnknown {
			e = b.coerce(e, other.Fields[i].Bare(), types.CastImplicit, at)
		}
		out.Elems, out.T.Fields = append(out.Elems, e), append(out.T.Fields, e.Type())
	}
	return out
}

func (b *builder) compareRows(op scalar.CmpOp, l, r *scalar.RowCtor, at any) scalar.Expr {
	if len(l.Elems) != len(r.Elems) {
		raise(b.locateOp(sqlstate.New(sqlstate.SyntaxError, "unequal number of entries in row expressions"), at))
	}
	if len(l.Elems) == 0 {
		b.fail(sqlstate.FeatureNotSupported, at, "cannot compare rows of zero length")
	}
	field := func(op scalar.CmpOp, i int) scalar.Expr { return b.compare(op, l.Elems[i], r.Elems[i], at) }
	n := len(l.Elems)
	all := func(op scalar.CmpOp) []scalar.Expr {
		args := make([]scalar.Expr, n)
		for i := range args {
			args[i] = field(op, i)
		}
		return args
	}
	if n == 1 {
		return field(op, 0)
	}
	switch op {
	case scalar.EQ, scalar.IsNotDistinct:
		return &scalar.And{Args: all(op)}
	case scalar.NE, scalar.IsDistinct:
		return &scalar.Or{Args: all(op)}
	}
	// (a, b) < (c, d) is a < c OR (a = c AND b < d); the last field decides between < and <=.
	strict := scalar.LT
	if op == scalar.GT || op == scalar.GE {
		strict = scalar.GT
	}
	res := field(op, n-1)
	for i := n - 2; i >= 0; i-- {
		res = &scalar.Or{Args: []scalar.Expr{field(strict, i), &scalar.And{Args: []scalar.Expr{field(scalar.EQ, i), res}}}}
	}
	return res
}

func (b *builder) between(c *exprContext, n *tree.RangeCond) scalar.Expr {
	x := b.expr(c, n.Left)
	from, to := b.expr(c, n.From), b.expr(c, n.To)
	rng := func(lo, hi scalar.Expr) scalar.Expr {
		if n.Not {
			return &scalar.Or{Args: []scalar.Expr{b.compare(scalar.LT, x, lo, n), b.compare(scalar.GT, x, hi, n)}}
		}
		return &scalar.And{Args: []scalar.Expr{b.compare(scalar.GE, x, lo, n), b.compare(scalar.LE, x, hi, n)}}
	}
	if !n.Symmetric {
		return rng(from, to)
	}
	if n.Not {
		return &scalar.And{Args: []scalar.Expr{rng(from, to), rng(to, from)}}
	}
	return &scalar.Or{Args: []scalar.Expr{rng(from, to), rng(to, from)}}
}

// in binds IN and NOT IN with a list or a subquery.
func (b *builder) in(c *exprContext, n *tree.ComparisonExpr) scalar.Expr {
	negate := n.Operator.Symbol == treecmp.NotIn
	right := unparen(n.Right)
	if sub, ok := right.(*tree.Subquery); ok {
		kind, sym := scalar.SubqueryAny, treecmp.EQ
		if negate {
			kind, sym = scalar.SubqueryAll, treecmp.NE
		}
		return b.anySubquery(c, n, sub, kind, sym)
	}
	var list tree.Exprs
	if t, ok := right.(*tree.Tuple); ok {
		list = t.Exprs
	} else {
		list = tree.Exprs{right}
	}
	arg := b.expr(c, n.Left)
	items := b.exprs(c, list)
	return b.inList(arg, items, negate, n)
}

func (b *builder) inList(arg scalar.Expr, items []scalar.Expr, negate bool, at any) scalar.Expr {
	if _, ok := arg.(*scalar.RowCtor); ok {
		args := make([]scalar.Expr, len(items))
		for i, it := range items {
			args[i] = b.compare(scalar.EQ, arg, it, at)
		}
		var res scalar.Expr = &scalar.Or{Args: args}
		if len(args) == 1 {
			res = args[0]
		}
		if negate {
			return &scalar.Not{Arg: res}
		}
		return res
	}
	if arg.Type().Kind == types.KindUnknown {
		all, _ := b.common("IN", append([]scalar.Expr{arg}, items...), at)
		return &scalar.In{Arg: all[0], List: all[1:], Negate: negate}
	}
	// The left side stays without a cast if every item can be cast to its type: then an index on it can be used.
	direct, uniform := true, true
	rts := make([]*types.T, len(items))
	var first *types.T
	for i, it := range items {
		lt, rt, err := b.Registry.ResolveCompare(scalar.EQ, arg.Type(), it.Type())
		if err != nil {
			raise(b.locateOp(err, at))
		}
		direct = direct && lt.Same(arg.Type())
		if first == nil {
			first = lt
		}
		uniform = uniform && lt.Same(first)
		rts[i] = rt
	}
	if !direct && uniform && first != nil {
		arg = b.coerce(arg, first, types.CastImplicit, at)
		direct = true
	}
	if direct {
		for i, it := range items {
			items[i] = b.coerce(it, rts[i], types.CastImplicit, at)
		}
		return &scalar.In{Arg: arg, List: items, Negate: negate}
	}
	all, _ := b.common("IN", append([]scalar.Expr{arg}, items...), at)
	return &scalar.In{Arg: all[0], List: all[1:], Negate: negate}
}

// quantified binds op ANY and op ALL over an array or a subquery.
func (b *builder) quantified(c *exprContext, n *tree.ComparisonExpr) scalar.Expr {
	all := n.Operator.Symbol == treecmp.All
	right := unparen(n.Right)
	if sub, ok := right.(*tree.Subquery); ok {
		kind := scalar.SubqueryAny
		if all {
			kind = scalar.SubqueryAll
		}
		return b.anySubquery(c, n, sub, kind, n.SubOperator.Symbol)
	}
	if t, ok := right.(*tree.Tuple); ok {
		if len(t.Exprs) == 1 {
			right = t.Exprs[0]
		} else {
			// The grammar's ANY (a, b, c).
			arg := b.expr(c, n.Left)
			var args []scalar.Expr
			for _, e := range t.Exprs {
				args = append(args, b.operate(n.SubOperator.Symbol, arg, b.expr(c, e), n))
			}
			if all {
				return &scalar.And{Args: args}
			}
			return &scalar.Or{Args: args}
		}
	}
	arg := b.expr(c, n.Left)
	arr := b.expr(c, right)
	if arr.Type().Kind == types.KindUnknown {
		t := arg.Type()
		if t.Kind == types.KindUnknown {
			t = types.Text
		}
		if t.Kind == types.KindVarChar {
			t = types.Text
		}
		arr = b.coerce(arr, types.ArrayOf(t.Bare()), types.CastImplicit, n.Right)
	}
	elem := scalar.ElemType(arr.Type())
	if elem == nil {
		raise(b.locateOp(sqlstate.New(sqlstate.WrongObjectType, "op ANY/ALL (array) requires array on right side"), n))
	}
	if arg.Type().Kind == types.KindUnknown {
		arg = b.coerce(arg, elem, types.CastImplicit, n.Left)
	}
	if ctor, ok := arr.(*scalar.ArrayCtor); ok && !all && n.SubOperator.Symbol == treecmp.EQ && len(ctor.Elems) > 0 && ctor.Elems[0].Type().Kind != types.KindArray {
		return b.inList(arg, append([]scalar.Expr(nil), ctor.Elems...), false, n)
	}
	q := &scalar.Quantified{Arg: arg, Array: arr, All: all}
	q.LeftID = b.meta.Add(opt.ColumnMeta{Name: "left", Type: arg.Type()})
	q.ElemID = b.meta.Add(opt.ColumnMeta{Name: "elem", Type: elem})
	q.Op = b.operate(n.SubOperator.Symbol, &scalar.Column{ID: q.LeftID, T: arg.Type()}, &scalar.Column{ID: q.ElemID, T: elem}, n)
	return q
}
