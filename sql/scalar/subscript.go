package scalar

import (
	"strings"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Subscript is one pair of brackets: [Upper], or [Lower:Upper] where either may be nil.
type Subscript struct {
	Slice        bool
	Lower, Upper Expr
}

// These are elements and slices of arrays of several dimensions, and an array after an assignment to them: (array, form, numbers)
// and (array, value, form, numbers). The form has a letter for each pair of brackets, i for [u], s for [l:u], l for [l:], u for
// [:u], n for [:]; each number stands where its letter needs it.
var (
	arrayPart   = (&Overload{Name: "array_part", Args: []*types.T{types.AnyArray, types.Text}, Return: types.Any, CalledOnNull: true}).setN(evalPart)
	arrayAssign = (&Overload{Name: "array_assign", Args: []*types.T{types.AnyArray, types.Any, types.Text}, Return: types.AnyArray, CalledOnNull: true}).setN(evalAssign)
)

func subscripts(subs []Subscript) (form Expr, numbers []Expr, slice bool) {
	var b strings.Builder
	for _, s := range subs {
		slice = slice || s.Slice
		switch {
		case !s.Slice:
			b.WriteByte('i')
		case s.Lower != nil && s.Upper != nil:
			b.WriteByte('s')
		case s.Lower != nil:
			b.WriteByte('l')
		case s.Upper != nil:
			b.WriteByte('u')
		default:
			b.WriteByte('n')
		}
		if s.Slice && s.Lower != nil {
			numbers = append(numbers, s.Lower)
		}
		if s.Upper != nil {
			numbers = append(numbers, s.Upper)
		}
	}
	return &Const{Value: types.NewString(b.String()), T: types.Text}, numbers, slice
}

// NewSubscripts is array[...][...]; the numbers are integers.
func NewSubscripts(array Expr, subs []Subscript) Expr {
	t := array.Type()
	if len(subs) == 1 && !subs[0].Slice {
		return &ArrayIndex{Array: array, Index: subs[0].Upper, T: ElemType(t)}
	}
	form, numbers, slice := subscripts(subs)
	c := &Call{Func: arrayPart, Args: append([]Expr{array, form}, numbers...), T: t}
	if !slice {
		c.T = ElemType(t)
	} else if t.Kind != types.KindArray {
		c.T = types.ArrayOf(ElemType(t))
	}
	return c
}

// NewAssignment is the array after array[...] := value.
func NewAssignment(array, value Expr, subs []Subscript) Expr {
	form, numbers, _ := subscripts(subs)
	return &Call{Func: arrayAssign, Args: append([]Expr{array, value, form}, numbers...), T: array.Type()}
}

// SubscriptsSlice reports whether any of the brackets is a slice: then all are.
func SubscriptsSlice(subs []Subscript) bool {
	_, _, slice := subscripts(subs)
	return slice
}

// formatSubscripts writes the brackets.
func (f *formatter) subscripts(form Expr, numbers []Expr) {
	next := func() {
		f.expr(numbers[0])
		numbers = numbers[1:]
	}
	for _, c := range form.(*Const).Value.Str() {
		f.str("[")
		if c == 's' || c == 'l' {
			next()
		}
		if c != 'i' {
			f.str(":")
		}
		if c == 'i' || c == 's' || c == 'u' {
			next()
		}
		f.str("]")
	}
}

// bounds are the brackets' numbers; missing ones are those of the array.
type bounds struct {
	lower, upper     [6]int64
	noLower, noUpper [6]bool
	n                int
	slice, null      bool
}

func boundsOf(form string, numbers []types.Datum) (b bounds, err error) {
	b.n = len(form)
	if b.n > 6 {
		return b, sqlstate.New(sqlstate.ProgramLimitExceeded, "number of array dimensions (%d) exceeds the maximum allowed (6)", b.n)
	}
	for _, d := range numbers {
		b.null = b.null || d.IsNull()
	}
	if b.null {
		return b, nil
	}
	for _, c := range form {
		b.slice = b.slice || c != 'i'
	}
	take := func() int64 {
		v := numbers[0].Int()
		numbers = numbers[1:]
		return v
	}
	for i, c := range form {
		switch c {
		case 'i':
			b.upper[i] = take()
			b.lower[i] = b.upper[i]
			if b.slice { // a[2][1:3] is a[1:2][1:3]
				b.lower[i] = 1
			}
		case 's':
			b.lower[i], b.upper[i] = take(), take()
		case 'l':
			b.lower[i], b.noUpper[i] = take(), true
		case 'u':
			b.upper[i], b.noLower[i] = take(), true
		case 'n':
			b.noLower[i], b.noUpper[i] = true, true
		}
	}
	return b, nil
}

func evalPart(ctx *Context, args []types.Datum) (types.Datum, error) {
	if args[0].IsNull() {
		return types.Null, nil
	}
	b, err := boundsOf(args[1].Str(), args[2:])
	if err != nil || b.null {
		return types.Null, err
	}
	a := args[0].Array()
	n := a.Dims()
	if !b.slice {
		if b.n != n {
			return types.Null, nil
		}
		at := int64(0)
		for i := range n {
			d := a.Dim(i)
			k := b.upper[i] - int64(d.Lower)
			if k < 0 || k >= int64(d.Len) {
				return types.Null, nil
			}
			at = at*int64(d.Len) + k
		}
		return a.Elems[at], nil
	}
	empty := types.NewArray(&types.Array{Elem: a.Elem})
	if n < b.n || n == 0 {
		return empty, nil
	}
	from, shape := make([]int64, n), make([]types.Dim, n)
	for i := range n {
		d := a.Dim(i)
		lo, hi := int64(d.Lower), int64(d.Lower)+int64(d.Len)-1
		if i < b.n && !b.noLower[i] {
			lo = max(lo, b.lower[i])
		}
		if i < b.n && !b.noUpper[i] {
			hi = min(hi, b.upper[i])
		}
		if lo > hi {
			return empty, nil
		}
		from[i], shape[i] = lo-int64(d.Lower), types.Dim{Lower: 1, Len: int32(hi - lo + 1)}
	}
	out := elemList{ctx: ctx}
	err = eachOf(a, from, shape, func(at int) error { return out.add(a.Elems[at]) })
	return types.NewShaped(a.Elem, out.elems, shape), err
}

// eachOf visits the places of the part of an array that begins at from and has a shape.
func eachOf(a *types.Array, from []int64, shape []types.Dim, f func(at int) error) error {
	at := make([]int64, len(shape))
	for {
		k := int64(0)
		for i := range at {
			k = k*int64(a.Dim(i).Len) + from[i] + at[i]
		}
		if err := f(int(k)); err != nil {
			return err
		}
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < int64(shape[i].Len) {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return nil
		}
	}
}

func subscriptError(text string) error { return sqlstate.New("2202E", "%s", text) }

func evalAssign(ctx *Context, args []types.Datum) (types.Datum, error) {
	b, err := boundsOf(args[2].Str(), args[3:])
	if err != nil {
		return types.Null, err
	}
	if b.null {
		return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "array subscript in assignment must not be null")
	}
	var a *types.Array
	switch {
	case !args[0].IsNull():
		a = args[0].Array()
	case args[1].Phys() == types.PhysArray:
		a = &types.Array{Elem: args[1].Array().Elem}
	default:
		a = &types.Array{Elem: types.Text}
	}
	value := args[1]
	if b.slice && value.IsNull() {
		return args[0], nil
	}
	n := a.Dims()
	if n == 0 {
		// An empty array gets the bounds that are assigned.
		n = b.n
		shape := make([]types.Dim, n)
		size := int64(1)
		for i := range n {
			if b.noLower[i] || b.noUpper[i] {
				return types.Null, subscriptError("array slice subscript must provide both boundaries")
			}
			if b.upper[i] < b.lower[i] {
				return types.Null, subscriptError("upper bound cannot be less than lower bound")
			}
			shape[i] = types.Dim{Lower: int32(b.lower[i]), Len: int32(min(b.upper[i]-b.lower[i]+1, arrayMax))}
			if size *= int64(shape[i].Len); size > arrayMax {
				return types.Null, arrayTooLarge()
			}
		}
		out := make([]types.Datum, size)
		if b.slice {
			src := value.Array().Elems
			if int64(len(src)) < size {
				return types.Null, subscriptError("source array too small")
			}
			copy(out, src)
		} else {
			out[0] = value
		}
		return types.NewShaped(a.Elem, out, shape), nil
	}
	if n < b.n || !b.slice && n != b.n {
		return types.Null, subscriptError("wrong number of array subscripts")
	}
	shape, from := make([]types.Dim, n), make([]int64, n)
	lower := make([]int64, n)
	size := int64(1)
	for i := range n {
		d := a.Dim(i)
		lo, hi := int64(d.Lower), int64(d.Lower)+int64(d.Len)-1
		if i >= b.n || b.noLower[i] {
			b.lower[i] = lo
		}
		if i >= b.n || b.noUpper[i] {
			b.upper[i] = hi
		}
		if b.upper[i] < b.lower[i] {
			return types.Null, subscriptError("upper bound cannot be less than lower bound")
		}
		if n > 1 && (b.lower[i] < lo || b.upper[i] > hi) {
			return types.Null, subscriptError("array subscript out of range")
		}
		lower[i] = min(lo, b.lower[i])
		hi = max(hi, b.upper[i])
		if hi-lower[i] >= arrayMax {
			return types.Null, arrayTooLarge()
		}
		shape[i] = types.Dim{Lower: int32(lower[i]), Len: int32(hi - lower[i] + 1)}
		from[i] = b.lower[i] - lower[i]
		size *= int64(shape[i].Len)
	}
	if err := ctx.scratch(64 * size); err != nil {
		return types.Null, err
	}
	out := make([]types.Datum, size)
	if n == 1 {
		copy(out[int64(a.Dim(0).Lower)-lower[0]:], a.Elems)
	} else {
		copy(out, a.Elems)
	}
	part := make([]types.Dim, n)
	count := int64(1)
	for i := range n {
		part[i].Len = int32(b.upper[i] - b.lower[i] + 1)
		count *= int64(part[i].Len)
	}
	if b.slice && int64(len(value.Array().Elems)) < count {
		return types.Null, subscriptError("source array too small")
	}
	next := 0
	res := types.NewShaped(a.Elem, out, shape)
	err = eachOf(res.Array(), from, part, func(at int) error {
		if b.slice {
			out[at] = value.Array().Elems[next]
			next++
		} else {
			out[at] = value
		}
		return nil
	})
	return res, err
}
