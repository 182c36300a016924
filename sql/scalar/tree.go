package scalar

import (
	"slices"

	"meridian/sql/memory"
	"meridian/sql/types"
)

// Children are the direct subexpressions of e, in evaluation order. A subquery's plan is not one of them.
func Children(e Expr) []Expr {
	switch e := e.(type) {
	case *Call:
		return e.Args
	case *Cast:
		return []Expr{e.Arg}
	case *And:
		return e.Args
	case *Or:
		return e.Args
	case *Not:
		return []Expr{e.Arg}
	case *Compare:
		return []Expr{e.Left, e.Right}
	case *IsNull:
		return []Expr{e.Arg}
	case *IsBool:
		return []Expr{e.Arg}
	case *Case:
		cs := make([]Expr, 0, 2*len(e.Whens)+1)
		for _, w := range e.Whens {
			cs = append(cs, w.Cond, w.Result)
		}
		if e.Else != nil {
			cs = append(cs, e.Else)
		}
		return cs
	case *Coalesce:
		return e.Args
	case *NullIf:
		return []Expr{e.Left, e.Right}
	case *In:
		return append([]Expr{e.Arg}, e.List...)
	case *Quantified:
		return []Expr{e.Arg, e.Array, e.Op}
	case *ArrayCtor:
		return e.Elems
	case *ArrayIndex:
		return []Expr{e.Array, e.Index}
	case *RowCtor:
		return e.Elems
	case *Subquery:
		if e.Arg != nil {
			return []Expr{e.Arg, e.Op}
		}
	case *AggFunc:
		cs := append([]Expr(nil), e.Args...)
		if e.Filter != nil {
			cs = append(cs, e.Filter)
		}
		for _, o := range e.OrderBy {
			cs = append(cs, o.Expr)
		}
		return cs
	}
	return nil
}

// WithChildren is e with other direct subexpressions, in the order of Children.
func WithChildren(e Expr, cs []Expr) Expr {
	switch e := e.(type) {
	case *Call:
		n := *e
		n.Args = cs
		return &n
	case *Cast:
		n := *e
		n.Arg = cs[0]
		return &n
	case *And:
		return &And{cs}
	case *Or:
		return &Or{cs}
	case *Not:
		return &Not{cs[0]}
	case *Compare:
		return &Compare{e.Op, cs[0], cs[1]}
	case *IsNull:
		return &IsNull{cs[0], e.Negate, e.Whole}
	case *IsBool:
		return &IsBool{cs[0], e.Want, e.Negate}
	case *Case:
		n := &Case{T: e.T}
		for i := range e.Whens {
			n.Whens = append(n.Whens, When{cs[2*i], cs[2*i+1]})
		}
		if e.Else != nil {
			n.Else = cs[len(cs)-1]
		}
		return n
	case *Coalesce:
		return &Coalesce{cs, e.T}
	case *NullIf:
		return &NullIf{cs[0], cs[1]}
	case *In:
		return &In{cs[0], cs[1:], e.Negate}
	case *Quantified:
		n := *e
		n.Arg, n.Array, n.Op = cs[0], cs[1], cs[2]
		return &n
	case *ArrayCtor:
		return &ArrayCtor{cs, e.T}
	case *ArrayIndex:
		return &ArrayIndex{cs[0], cs[1], e.T}
	case *RowCtor:
		return &RowCtor{cs, e.T}
	case *Subquery:
		n := *e
		n.Arg, n.Op = cs[0], cs[1]
		return &n
	case *AggFunc:
		n := *e
		n.Args = cs[:len(e.Args)]
		cs = cs[len(e.Args):]
		if e.Filter != nil {
			n.Filter, cs = cs[0], cs[1:]
		}
		n.OrderBy = append([]AggOrder(nil), e.OrderBy...)
		for i := range n.OrderBy {
			n.OrderBy[i].Expr = cs[i]
		}
		return &n
	}
	return e
}

// Walk calls f for e and, while f returns true, for its subexpressions, parents first.
func Walk(e Expr, f func(Expr) bool) {
	if e == nil || !f(e) {
		return
	}
	for _, c := range Children(e) {
		Walk(c, f)
	}
}

// Rewrite replaces subexpressions bottom-up by what f returns for them; unchanged parts are shared with e.
func Rewrite(e Expr, f func(Expr) Expr) Expr {
	if e == nil {
		return nil
	}
	cs := Children(e)
	var out []Expr
	for i, c := range cs {
		n := Rewrite(c, f)
		if n != c && out == nil {
			out = append(make([]Expr, 0, len(cs)), cs...)
		}
		if out != nil {
			out[i] = n
		}
	}
	if out != nil {
		e = WithChildren(e, out)
	}
	return f(e)
}

// RewriteTop is Rewrite from the top: where f returns a different expression, that is final and not entered.
func RewriteTop(e Expr, f func(Expr) Expr) Expr {
	if e == nil {
		return nil
	}
	if n := f(e); n != e {
		return n
	}
	cs := Children(e)
	var out []Expr
	for i, c := range cs {
		n := RewriteTop(c, f)
		if n != c && out == nil {
			out = append(make([]Expr, 0, len(cs)), cs...)
		}
		if out != nil {
			out[i] = n
		}
	}
	if out != nil {
		return WithChildren(e, out)
	}
	return e
}

// Columns calls f for every column that e reads, including those that its subqueries read from outside; a column may
// come more than once. The columns that quantified operators and subqueries bind themselves are left out.
func Columns(e Expr, f func(ColumnID)) {
	switch e := e.(type) {
	case nil:
		return
	case *Column:
		f(e.ID)
		return
	case *Quantified:
		Columns(e.Arg, f)
		Columns(e.Array, f)
		Columns(e.Op, func(id ColumnID) {
			if id != e.LeftID && id != e.ElemID {
				f(id)
			}
		})
		return
	case *Subquery:
		for _, id := range e.Outer {
			f(id)
		}
		if e.Arg != nil {
			Columns(e.Arg, f)
			Columns(e.Op, func(id ColumnID) {
				if id != e.LeftID && id != e.Col {
					f(id)
				}
			})
		}
		return
	}
	for _, c := range Children(e) {
		Columns(c, f)
	}
}

// ReplaceColumns maps the columns that e reads: where f returns an expression, it replaces the column. The outer
// columns of subqueries are renamed if f returns another column.
func ReplaceColumns(e Expr, f func(*Column) Expr) Expr {
	return Rewrite(e, func(x Expr) Expr {
		c, ok := x.(*Column)
		if !ok {
			return x
		}
		if n := f(c); n != nil {
			return n
		}
		return x
	})
}

// HasSubquery reports whether there is a subquery in e.
func HasSubquery(e Expr) bool {
	found := false
	Walk(e, func(x Expr) bool {
		_, is := x.(*Subquery)
		found = found || is
		return !found
	})
	return found
}

// VolatilityOf is the worst volatility of anything in e; a subquery counts as Stable, a placeholder too.
func VolatilityOf(e Expr) Volatility {
	v := Immutable
	Walk(e, func(x Expr) bool {
		w := Immutable
		switch x := x.(type) {
		case *Call:
			w = x.Func.Volatility
		case *Subquery, *Placeholder:
			w = Stable
		case *Cast:
			if types.CastIsStable(x.Arg.Type(), x.To) {
				w = Stable
			}
		}
		v = max(v, w)
		return true
	})
	return v
}

// IsConst reports whether e is a literal.
func IsConst(e Expr) bool { _, ok := e.(*Const); return ok }

// IsNullConst reports whether e is a literal NULL.
func IsNullConst(e Expr) bool {
	c, ok := e.(*Const)
	return ok && c.Value.IsNull()
}

// Fold evaluates the immutable parts of e whose inputs are constant. An expression that would raise an error is left as it is, to raise it
// when, and only if, it is evaluated.
func Fold(e Expr) Expr { return Rewrite(e, foldOne) }

// foldBytes bounds the memory of folding.
const foldBytes = 1 << 20

func foldOne(x Expr) Expr {
	n, _ := foldStep(x)
	return n
}

// foldStep folds an expression whose children are folded. If its evaluation fails, it is left as it is.
func foldStep(x Expr) (Expr, error) {
	switch e := x.(type) {
	case *Const, *Column, *Placeholder, *Subquery, *AggFunc, *Default, *RowCtor, nil:
		return x, nil
	case *And:
		return foldJunction(e.Args, true), nil
	case *Or:
		return foldJunction(e.Args, false), nil
	case *Call:
		if e.Func.Volatility != Immutable || e.Func.Eval == nil {
			return x, nil
		}
		if !e.Func.CalledOnNull {
			for _, a := range e.Args {
				if IsNullConst(a) {
					return &Const{types.Null, e.T}, nil
				}
			}
		}
	case *Cast:
		if castIsFree(e.Arg.Type(), e.To) {
			if c, ok := e.Arg.(*Const); ok {
				return &Const{c.Value, e.To}, nil
			}
		}
		if types.CastIsStable(e.Arg.Type(), e.To) {
			if IsNullConst(e.Arg) {
				return &Const{types.Null, e.To}, nil
			}
			return x, nil
		}
	case *Compare:
		if e.Op < IsDistinct && (IsNullConst(e.Left) || IsNullConst(e.Right)) {
			return &Const{types.Null, types.Bool}, nil
		}
	case *Case:
		return foldCase(e), nil
	case *Coalesce:
		for i, a := range e.Args {
			if !IsConst(a) {
				if i == 0 {
					return x, nil
				}
				return &Coalesce{e.Args[i:], e.T}, nil
			}
			if !IsNullConst(a) {
				return a, nil
			}
		}
	case *Quantified:
		if !IsConst(e.Arg) || !IsConst(e.Array) || VolatilityOf(e.Op) != Immutable {
			return x, nil
		}
		free := true
		Columns(e, func(ColumnID) { free = false })
		if !free {
			return x, nil
		}
	}
	if _, quantified := x.(*Quantified); !quantified {
		for _, c := range Children(x) {
			if !IsConst(c) {
				return x, nil
			}
		}
	}
	// A call with a large result stays a call: a plan, which may be kept, must not hold it.
	d, err := Value(&Context{Memory: memory.Limited(foldBytes)}, x)
	if err != nil || d.Weight() != 0 {
		return x, err
	}
	return &Const{d, x.Type()}, nil
}

// foldJunction flattens an AND (or OR), drops its neutral constants and stops at the deciding one.
func foldJunction(args []Expr, and bool) Expr {
	var out []Expr
	null := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		if j, ok := a.(*And); ok && and {
			out = append(out, j.Args...)
			continue
		}
		if j, ok := a.(*Or); ok && !and {
			out = append(out, j.Args...)
			continue
		}
		if c, ok := a.(*Const); ok {
			switch {
			case c.Value.IsNull():
				null = true
				continue
			case c.Value.Bool() == and:
				continue
			}
			return &Const{types.NewBool(!and), types.Bool}
		}
		out = append(out, a)
	}
	if null {
		out = append(out, &Const{types.Null, types.Bool})
	}
	switch len(out) {
	case 0:
		return &Const{types.NewBool(and), types.Bool}
	case 1:
		return out[0]
	}
	if and {
		return &And{out}
	}
	return &Or{out}
}

func foldCase(e *Case) Expr {
	var whens []When
	for i, w := range e.Whens {
		c, ok := w.Cond.(*Const)
		if !ok {
			whens = append(whens, w)
			continue
		}
		if c.Value.IsNull() || !c.Value.Bool() {
			continue
		}
		if len(whens) == 0 {
			return w.Result
		}
		return &Case{Whens: whens, Else: e.Whens[i].Result, T: e.T}
	}
	if len(whens) == 0 {
		if e.Else == nil {
			return &Const{types.Null, e.T}
		}
		return e.Else
	}
	if len(whens) == len(e.Whens) {
		return e
	}
	return &Case{Whens: whens, Else: e.Else, T: e.T}
}

// Conjuncts splits an AND into its parts; nil and TRUE have none.
func Conjuncts(e Expr) []Expr {
	switch e := e.(type) {
	case nil:
		return nil
	case *And:
		var out []Expr
		for _, a := range e.Args {
			out = append(out, Conjuncts(a)...)
		}
		return out
	case *Const:
		if !e.Value.IsNull() && e.Value.Bool() {
			return nil
		}
	}
	return []Expr{e}
}

// Conjoin is the AND of the parts; of none, nil.
func Conjoin(parts []Expr) Expr {
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	return &And{parts}
}

// Equal reports whether two expressions are the same up to the names of columns. Volatile calls are never equal.
func Equal(a, b Expr) bool { return equal(a, b, false) }

// Same reports whether two expressions were written alike, as PostgreSQL compares those of ORDER BY, GROUP BY and DISTINCT with the select list: a volatile
// call is the same as another one like it, and a subquery is the same as one of the same text in the same place.
func Same(a, b Expr) bool { return equal(a, b, true) }

func equal(a, b Expr, written bool) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if a == b {
		return written || VolatilityOf(a) != Volatile
	}
	switch x := a.(type) {
	case *Const:
		y, ok := b.(*Const)
		return ok && x.T.Equal(y.T) && x.Value.IsNull() == y.Value.IsNull() &&
			(x.Value.IsNull() || x.T.Compare(x.Value, y.Value) == 0 && types.SameRepresentation(x.Value, y.Value))
	case *Column:
		y, ok := b.(*Column)
		return ok && x.ID == y.ID
	case *Placeholder:
		y, ok := b.(*Placeholder)
		return ok && x.Index == y.Index
	case *Call:
		y, ok := b.(*Call)
		if !ok || x.Func != y.Func || !written && x.Func.Volatility == Volatile {
			return false
		}
	case *Cast:
		y, ok := b.(*Cast)
		if !ok || !x.To.Equal(y.To) || x.Explicit != y.Explicit {
			return false
		}
	case *And:
		if _, ok := b.(*And); !ok {
			return false
		}
	case *Or:
		if _, ok := b.(*Or); !ok {
			return false
		}
	case *Not:
		if _, ok := b.(*Not); !ok {
			return false
		}
	case *Compare:
		y, ok := b.(*Compare)
		if !ok || x.Op != y.Op {
			return false
		}
	case *IsNull:
		y, ok := b.(*IsNull)
		if !ok || x.Negate != y.Negate || x.Whole != y.Whole {
			return false
		}
	case *IsBool:
		y, ok := b.(*IsBool)
		if !ok || x.Negate != y.Negate || x.Want != y.Want {
			return false
		}
	case *Case:
		y, ok := b.(*Case)
		if !ok || len(x.Whens) != len(y.Whens) || (x.Else == nil) != (y.Else == nil) {
			return false
		}
	case *Coalesce:
		if _, ok := b.(*Coalesce); !ok {
			return false
		}
	case *NullIf:
		if _, ok := b.(*NullIf); !ok {
			return false
		}
	case *In:
		y, ok := b.(*In)
		if !ok || x.Negate != y.Negate {
			return false
		}
	case *Quantified:
		y, ok := b.(*Quantified)
		if !ok || x.All != y.All {
			return false
		}
		// Each has columns of its own for the two sides of its operator.
		op := Rewrite(y.Op, func(e Expr) Expr {
			c, ok := e.(*Column)
			if !ok || c.ID != y.LeftID && c.ID != y.ElemID {
				return e
			}
			n := *c
			n.ID = x.LeftID
			if c.ID == y.ElemID {
				n.ID = x.ElemID
			}
			return &n
		})
		return equal(x.Op, op, written) && equal(x.Arg, y.Arg, written) && equal(x.Array, y.Array, written)
	case *ArrayCtor:
		y, ok := b.(*ArrayCtor)
		if !ok || !x.T.Equal(y.T) {
			return false
		}
	case *ArrayIndex:
		if _, ok := b.(*ArrayIndex); !ok {
			return false
		}
	case *RowCtor:
		if _, ok := b.(*RowCtor); !ok {
			return false
		}
	case *AggFunc:
		y, ok := b.(*AggFunc)
		if !ok || x.Agg != y.Agg || x.Distinct != y.Distinct || len(x.Args) != len(y.Args) ||
			(x.Filter == nil) != (y.Filter == nil) || len(x.OrderBy) != len(y.OrderBy) {
			return false
		}
		for i := range x.OrderBy {
			if x.OrderBy[i].Desc != y.OrderBy[i].Desc || x.OrderBy[i].NullsFirst != y.OrderBy[i].NullsFirst {
				return false
			}
		}
	case *Subquery: // otherwise equal only if they are one
		y, ok := b.(*Subquery)
		return ok && written && x.Text != "" && x.Text == y.Text && x.Level == y.Level && slices.Equal(x.Outer, y.Outer) && equal(x.Arg, y.Arg, written)
	default:
		return false
	}
	ca, cb := Children(a), Children(b)
	if len(ca) != len(cb) {
		return false
	}
	for i := range ca {
		if !equal(ca[i], cb[i], written) {
			return false
		}
	}
	return true
}
