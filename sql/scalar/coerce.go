package scalar

import (
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Coerce makes e a value of type to, adding a cast where one is needed and allowed. An untyped literal is read as a
// literal of that type at once (an error in it is the user's, 22P02 and the like), unless its meaning depends on the
// session. A placeholder without a type is given it: the binder records that.
func Coerce(e Expr, to *types.T, c types.CastContext) (Expr, error) {
	from := e.Type()
	if to.Kind == types.KindAny || to.Kind == types.KindUnknown {
		return e, nil
	}
	switch x := e.(type) {
	case *Placeholder:
		if x.T == nil || x.T.Kind == types.KindUnknown {
			p := &Placeholder{Index: x.Index, T: to.Bare()}
			if to.Typmod() >= 0 && c != types.CastImplicit {
				return &Cast{Arg: p, To: to, Explicit: c == types.CastExplicit}, nil
			}
			return p, nil
		}
	case *Const:
		if x.T.Kind == types.KindUnknown {
			return coerceLiteral(x, to, c)
		}
		if x.Value.IsNull() && types.CanCast(from, to, c) {
			return &Const{types.Null, to}, nil
		}
	case *ArrayCtor:
		// The elements are cast one by one, so that literals among them are read as the right type.
		if elem := ElemType(to); to.Kind == types.KindArray && elem != nil && from != nil && from.Kind == types.KindArray {
			out := make([]Expr, len(x.Elems))
			for i, el := range x.Elems {
				inner := elem
				if k := el.Type(); k != nil && k.Kind == types.KindArray {
					inner = to
				}
				n, err := Coerce(el, inner, c)
				if err != nil {
					return nil, err
				}
				out[i] = n
			}
			return &ArrayCtor{out, to}, nil
		}
	case *Default:
		return e, nil
	case *RowCtor:
		if to.Kind == types.KindTuple && len(to.Fields) == len(x.Elems) {
			out := make([]Expr, len(x.Elems))
			for i, el := range x.Elems {
				n, err := Coerce(el, to.Fields[i], c)
				if err != nil {
					return nil, err
				}
				out[i] = n
			}
			return &RowCtor{out, to}, nil
		}
	}
	if from.Equal(to) {
		return e, nil
	}
	if from.Same(to) && to.Typmod() < 0 {
		if c == types.CastExplicit {
			return &Cast{Arg: e, To: to, Explicit: true}, nil
		}
		return e, nil
	}
	if !types.CanCast(from, to, c) {
		return nil, sqlstate.New(sqlstate.CannotCoerce, "cannot cast type %s to %s", from.Name(), to.Name())
	}
	return &Cast{Arg: e, To: to, Explicit: c == types.CastExplicit}, nil
}

func coerceLiteral(k *Const, to *types.T, c types.CastContext) (Expr, error) {
	if k.Value.IsNull() {
		return &Const{types.Null, to}, nil
	}
	if to.IsReg() && to.Kind != types.KindOID {
		return &Cast{Arg: k, To: to, Explicit: c == types.CastExplicit}, nil
	}
	as := to.Bare()
	if to.Kind == types.KindInterval {
		as = to // the unit of a bare number depends on the fields
	}
	d, constant, err := types.ParseLiteral(as, k.Value.Str())
	if err != nil {
		return nil, err
	}
	if !constant {
		return &Cast{Arg: k, To: to, Explicit: c == types.CastExplicit}, nil
	}
	if to.Typmod() >= 0 {
		if d, err = types.Cast(types.Env{}, d, to.Bare(), to, c != types.CastAssignment); err != nil {
			return nil, err
		}
	}
	return &Const{d, to}, nil
}

// NewCall resolves a function by the types of its arguments and coerces them.
func (r *Registry) NewCall(name string, args []Expr) (*Call, error) {
	res, err := r.ResolveFunction(name, typesOf(args))
	if err != nil {
		return nil, err
	}
	return newCall(res, args)
}

// NewOperator resolves an operator (one argument: prefix) and coerces its arguments.
func (r *Registry) NewOperator(op string, args ...Expr) (*Call, error) {
	res, err := r.ResolveOperator(op, typesOf(args))
	if err != nil {
		return nil, err
	}
	return newCall(res, args)
}

func newCall(res Resolution, args []Expr) (*Call, error) {
	out := make([]Expr, len(args))
	for i, a := range args {
		e, err := Coerce(a, res.Args[i], types.CastImplicit)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return &Call{Func: res.Func, Args: out, T: res.Return}, nil
}

// NewCompare resolves a comparison and coerces its sides. Row values are compared field by field.
func (r *Registry) NewCompare(op CmpOp, left, right Expr) (*Compare, error) {
	if l, ok := left.(*RowCtor); ok && l.T.Names == nil {
		if rr, ok := right.(*RowCtor); ok && rr.T.Names == nil {
			if len(l.Elems) != len(rr.Elems) {
				return nil, sqlstate.New(sqlstate.SyntaxError, "unequal number of entries in row expressions")
			}
			ls, rs := make([]Expr, len(l.Elems)), make([]Expr, len(l.Elems))
			lt, rt := &types.T{Kind: types.KindTuple}, &types.T{Kind: types.KindTuple}
			for i := range l.Elems {
				c, err := r.NewCompare(op, l.Elems[i], rr.Elems[i])
				if err != nil {
					return nil, err
				}
				ls[i], rs[i] = c.Left, c.Right
				lt.Fields = append(lt.Fields, c.Left.Type())
				rt.Fields = append(rt.Fields, c.Right.Type())
			}
			return &Compare{op, &RowCtor{ls, lt}, &RowCtor{rs, rt}}, nil
		}
	}
	lt, rt, err := r.ResolveCompare(op, left.Type(), right.Type())
	if err != nil {
		return nil, err
	}
	if left, err = Coerce(left, lt, types.CastImplicit); err != nil {
		return nil, err
	}
	if right, err = Coerce(right, rt, types.CastImplicit); err != nil {
		return nil, err
	}
	return &Compare{op, left, right}, nil
}

func typesOf(args []Expr) []*types.T {
	ts := make([]*types.T, len(args))
	for i, a := range args {
		if ts[i] = a.Type(); ts[i] == nil {
			ts[i] = types.Unknown
		}
	}
	return ts
}

// Unmatched is the first of some types that has no common type with the first known one.
func Unmatched(ts []*types.T) int {
	_, i := unmatched(ts)
	return i
}

func unmatched(ts []*types.T) (first, other int) {
	first = -1
	for i, x := range ts {
		switch {
		case x.Kind == types.KindUnknown:
		case first < 0:
			first = i
		case types.Common(ts[first], x) == nil:
			return first, i
		}
	}
	return max(first, 0), max(first, 0)
}

// CommonType coerces expressions to the type that UNION, CASE, COALESCE, ARRAY or VALUES (what, for the message)
// gives them together.
func CommonType(what string, es []Expr) ([]Expr, *types.T, error) {
	ts := typesOf(es)
	t := types.Common(ts...)
	if t == nil {
		i, j := unmatched(ts)
		a, b := ts[i], ts[j]
		if a.Category() == b.Category() { // and there is no cast
			if what == "CASE" {
				what = "CASE/WHEN" // ELSE is the first
			}
			return nil, nil, sqlstate.New(sqlstate.CannotCoerce, "%s could not convert type %s to %s", what, b.Name(), a.Name())
		}
		return nil, nil, sqlstate.New(sqlstate.DatatypeMismatch, "%s types %s and %s cannot be matched", what, a.Name(), b.Name())
	}
	out := make([]Expr, len(es))
	for i, e := range es {
		n, err := Coerce(e, t, types.CastImplicit)
		if err != nil {
			return nil, nil, err
		}
		out[i] = n
	}
	return out, t, nil
}
