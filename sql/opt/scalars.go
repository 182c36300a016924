package opt

import (
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// planExpr makes an expression ready for execution: the queries inside become plans.
func (o *optimizer) planExpr(e scalar.Expr) scalar.Expr {
	o.charge(0)
	if e == nil || !hasSubquery(e) {
		return e
	}
	return scalar.Rewrite(e, func(e scalar.Expr) scalar.Expr {
		q, ok := e.(*scalar.Subquery)
		if !ok {
			return e
		}
		sub, ok := q.Plan.(*subquery)
		if !ok {
			return e
		}
		if n := o.plans[sub]; n != nil {
			c := *q
			c.Plan, c.Repeats = n, !sub.volatile && !o.env.Naive
			return o.once(sub, &c)
		}
		var needed colSet
		req := required{}
		if q.Kind == scalar.SubqueryArray {
			req.order = sub.order
		}
		switch {
		case q.Kind == scalar.SubqueryExists:
			req = required{limit: 1}
		case q.Col != 0:
			needed.add(q.Col)
		default:
			needed = sub.cols
		}
		if q.Kind == scalar.SubqueryScalar {
			req.limit = 2
		}
		for _, c := range req.order {
			needed.add(c.Col)
		}
		n := o.finish(sub.group, needed, req)
		if q.Kind == scalar.SubqueryExists {
			n, _ = o.limitedSearch(n, 1)
		}
		if q.Kind != scalar.SubqueryExists && q.Col == 0 && len(n.Columns()) != 1 {
			panic("opt: subquery of several columns")
		}
		if o.plans == nil {
			o.plans = make(map[*subquery]Node)
		}
		o.plans[sub] = n
		c := *q
		c.Plan, c.Repeats = n, !sub.volatile && !o.env.Naive
		return o.once(sub, &c)
	})
}

// once makes all copies of a planned subquery one object, by which package exec knows it: an expression may be planned
// for several candidates.
func (o *optimizer) once(sub *subquery, q *scalar.Subquery) *scalar.Subquery {
	for _, p := range o.planned[sub] {
		if p.Arg == q.Arg && p.Op == q.Op {
			return p
		}
	}
	if o.planned == nil {
		o.planned = make(map[*subquery][]*scalar.Subquery)
	}
	o.planned[sub] = append(o.planned[sub], q)
	return q
}

func (o *optimizer) planExprs(es []scalar.Expr) []scalar.Expr {
	for i, e := range es {
		n := o.planExpr(e)
		if n == e {
			continue
		}
		out := append([]scalar.Expr(nil), es...)
		out[i] = n
		for j := i + 1; j < len(es); j++ {
			out[j] = o.planExpr(es[j])
		}
		return out
	}
	return es
}

// subqueryCost is the cost of the queries in conditions that are evaluated for so many rows.
func (o *optimizer) subqueryCost(es []scalar.Expr, rows float64) float64 {
	c := 0.0
	for _, e := range es {
		c += o.subqueryCost1(e, rows)
	}
	return c
}

func (o *optimizer) subqueryCost1(e scalar.Expr, rows float64) float64 {
	if !hasSubquery(e) {
		return 0
	}
	cost := 0.0
	scalar.Walk(o.planExpr(e), func(e scalar.Expr) bool {
		q, ok := e.(*scalar.Subquery)
		if !ok {
			return true
		}
		n, ok := q.Plan.(Node)
		if !ok {
			return true
		}
		times := 1.0
		if len(q.Outer) > 0 {
			times = max(rows, 1)
		}
		cost += times * (n.Estimate().Cost + costLoop)
		return true
	})
	return cost
}

func intConst(n int64) scalar.Expr { return &scalar.Const{Value: types.NewInt(n), T: types.Int8} }

// plus is the sum of two row counts; nil if it can't be expressed.
func (o *optimizer) plus(a, b scalar.Expr) scalar.Expr {
	x, xok := constInt(a)
	y, yok := constInt(b)
	if xok && yok && x >= 0 && y >= 0 && x+y >= 0 {
		return intConst(x + y)
	}
	if o.env.Registry == nil {
		return nil
	}
	call, err := o.env.Registry.NewOperator("+", a, b)
	if err != nil {
		return nil
	}
	return call
}

// sameValues reports whether equal values of two types may stand for one another in comparisons, orders and keys.
func sameValues(a, b *types.T) bool {
	if a.Kind == b.Kind {
		return a.Kind != types.KindArray && a.Kind != types.KindTuple || a.Equal(b)
	}
	family := func(t *types.T) int {
		switch t.Kind {
		case types.KindInt2, types.KindInt4, types.KindInt8:
			return 1
		case types.KindFloat4, types.KindFloat8:
			return 2
		case types.KindText, types.KindVarChar, types.KindName:
			return 3
		case types.KindOID, types.KindRegClass, types.KindRegType, types.KindRegProc, types.KindRegProcedure, types.KindRegOper, types.KindRegOperator,
			types.KindRegCollation, types.KindRegConfig, types.KindRegDictionary, types.KindRegNamespace, types.KindRegRole:
			return 4
		}
		return 0
	}
	return family(a) != 0 && family(a) == family(b)
}

// planSpans makes the bounds of an index scan ready for execution.
func (o *optimizer) planSpans(spans []IndexSpan) []IndexSpan {
	out := spans
	for i := range spans {
		s := spans[i]
		found := false
		s.Exprs(func(e scalar.Expr) { found = found || hasSubquery(e) })
		if !found {
			continue
		}
		if &out[0] == &spans[0] {
			out = append([]IndexSpan(nil), spans...)
		}
		s.Equal = o.planExprs(s.Equal)
		s.Low.Expr, s.High.Expr = o.planExpr(s.Low.Expr), o.planExpr(s.High.Expr)
		s.Lows, s.Highs = o.planBounds(s.Lows), o.planBounds(s.Highs)
		out[i] = s
	}
	return out
}

func (o *optimizer) planBounds(bs []Bound) []Bound {
	out := append([]Bound(nil), bs...)
	for i := range out {
		out[i].Expr = o.planExpr(out[i].Expr)
	}
	return out
}

// keyOrdered says that keys of a type are in the order of its values, and equal for equal values. A key of a jsonb is its text: {"b": 1} comes before {"a": 1, "b": 1} as a value
// and after it as a text, and 1 and 1.0 are one value. A key of an array has those of its elements, and equal intervals have several.
func keyOrdered(t *types.T) bool {
	if t.Kind == types.KindArray && t.Elem != nil {
		return t.Elem.Kind != types.KindJSONB && t.Elem.Kind != types.KindInterval
	}
	return t.Kind != types.KindJSONB
}

// manyKeys says that equal values of a type may have several keys, which are next to each other: so the columns behind are not in order where the
// values are equal.
func manyKeys(t *types.T) bool { return t.Kind == types.KindInterval }

// hashable says that equal values of two types have equal hash keys.
func hashable(a, b types.Kind, same bool) bool {
	switch a {
	case types.KindArray, types.KindTuple, types.KindUnknown:
		return false
	}
	return same && (a == types.KindBPChar) == (b == types.KindBPChar)
}
