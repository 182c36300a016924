package scalar

import (
	"slices"
	"sort"
	"strings"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// FirstBuiltinOID is the OID of the first built-in function; the others follow in the order of the table.
const FirstBuiltinOID = 6400

// Registry is the table of functions, operators and aggregates. It does not change once built.
type Registry struct {
	funcs map[string][]*Overload
	ops   map[string][]*Overload
	aggs  map[string][]*Aggregate
	byOID map[uint32]*Overload
	oid   uint32
}

// NewRegistry builds a table of this package's functions, operators and aggregates, and of the functions that others add. The table of
// all built-in ones is package system's Builtins.
func NewRegistry(others ...func(*Registry)) *Registry {
	r := &Registry{
		funcs: make(map[string][]*Overload, 512),
		ops:   make(map[string][]*Overload, 64),
		aggs:  make(map[string][]*Aggregate, 32),
		byOID: make(map[uint32]*Overload, 1024),
		oid:   FirstBuiltinOID,
	}
	for _, subjects := range [][]func(*Registry){
		{addArithmetic, addDecimalMath, addTextOperators, addStrings, addRegex, addFormat, addMath, addDateTime, addToChar, addJSON, addArrays},
		others,
		{addAggregates, addNetwork},
	} {
		for _, add := range subjects {
			add(r)
		}
	}
	return r
}

// parseSig reads "name(type, type, variadic type) result"; '?' after the result is not used.
func parseSig(sig string) (name string, args []*types.T, variadic bool, ret *types.T) {
	open := strings.IndexByte(sig, '(')
	// An operator's name may contain no parenthesis, so the first one opens the arguments.
	end := strings.LastIndexByte(sig, ')')
	name = strings.TrimSpace(sig[:open])
	if list := strings.TrimSpace(sig[open+1 : end]); list != "" {
		for _, a := range strings.Split(list, ",") {
			a = strings.TrimSpace(a)
			if v, ok := strings.CutPrefix(a, "variadic "); ok {
				variadic, a = true, v
			}
			args = append(args, sigType(a))
		}
	}
	if res := strings.TrimSpace(sig[end+1:]); res != "" {
		ret = sigType(res)
	}
	return name, args, variadic, ret
}

func sigType(name string) *types.T {
	if name == "char" {
		return types.Char
	}
	t, ok := types.FromName(name)
	if !ok {
		panic("scalar: unknown type in a signature: " + name)
	}
	return t
}

func (r *Registry) add(into map[string][]*Overload, sig string, v Volatility) *Overload {
	name, args, variadic, ret := parseSig(sig)
	o := &Overload{Name: name, Args: args, Variadic: variadic, Return: ret, Volatility: v, OID: r.oid}
	r.oid++
	o.ReturnFrom = polymorphic(args, ret)
	into[name] = append(into[name], o)
	r.byOID[o.OID] = o
	return o
}

// polymorphic computes the result type of a signature with anyelement or anyarray.
func polymorphic(args []*types.T, ret *types.T) func([]*types.T) *types.T {
	if ret == nil || ret.Kind != types.KindAnyElement && ret.Kind != types.KindAnyArray {
		return nil
	}
	return func(actual []*types.T) *types.T {
		elem := elementOf(args, actual)
		if elem == nil {
			return ret
		}
		if ret.Kind == types.KindAnyArray {
			return types.ArrayOf(elem)
		}
		return elem
	}
}

// elementOf finds the type that anyelement stands for in a call.
func elementOf(args, actual []*types.T) *types.T {
	var elem *types.T
	for i, a := range actual {
		p := args[min(i, len(args)-1)]
		var e *types.T
		switch {
		case a.Kind == types.KindUnknown:
			continue
		case p.Kind == types.KindAnyElement:
			e = a
		case p.Kind == types.KindAnyArray:
			e = ElemType(a)
		}
		if e == nil {
			continue
		}
		if e = e.Bare(); elem == nil {
			elem = e
		} else if c := types.Common(elem, e); c != nil {
			elem = c
		}
	}
	if elem == nil {
		for i, a := range actual {
			if p := args[min(i, len(args)-1)]; a.Kind == types.KindUnknown && p.Kind == types.KindAnyElement {
				return types.Text
			}
		}
	}
	return elem
}

// ElemType is the element type of an array type, or nil.
func ElemType(t *types.T) *types.T {
	switch t.Kind {
	case types.KindArray:
		return t.Elem
	case types.KindInt2Vector:
		return types.Int2
	case types.KindOIDVector:
		return types.OID
	}
	return nil
}

type eval1 = func(ctx *Context, a types.Datum) (types.Datum, error)
type eval2 = func(ctx *Context, a, b types.Datum) (types.Datum, error)
type evalN = func(ctx *Context, args []types.Datum) (types.Datum, error)

func (o *Overload) set1(f eval1) *Overload {
	o.Eval1 = f
	o.Eval = func(ctx *Context, args []types.Datum) (types.Datum, error) { return f(ctx, args[0]) }
	return o
}

func (o *Overload) set2(f eval2) *Overload {
	o.Eval2 = f
	o.Eval = func(ctx *Context, args []types.Datum) (types.Datum, error) { return f(ctx, args[0], args[1]) }
	return o
}

func (o *Overload) setN(f evalN) *Overload { o.Eval = f; return o }

// WithNulls says that a function is called with NULL arguments.
func (o *Overload) WithNulls() *Overload { o.CalledOnNull = true; return o }

// Func adds a function. Its signature is text, "name(type, type, variadic type) type"; it is immutable, and is not called with NULL, unless
// methods of the returned Overload change that. Functions are added while their registry is made, and never later.
func (r *Registry) Func(sig string, f evalN) *Overload { return r.add(r.funcs, sig, Immutable).setN(f) }

// Func1 is Func for a function of one argument, and Func2 for one of two: they are called without a slice.
func (r *Registry) Func1(sig string, f eval1) *Overload {
	return r.add(r.funcs, sig, Immutable).set1(f)
}

// Func2 is described at Func1.
func (r *Registry) Func2(sig string, f eval2) *Overload {
	return r.add(r.funcs, sig, Immutable).set2(f)
}

// op1 and op2 add operators.
func (r *Registry) op1(sig string, f eval1) *Overload { return r.add(r.ops, sig, Immutable).set1(f) }
func (r *Registry) op2(sig string, f eval2) *Overload { return r.add(r.ops, sig, Immutable).set2(f) }

// Stable says that a function returns the same for the same arguments within a statement.
func (o *Overload) Stable() *Overload { o.Volatility = Stable; return o }

// Volatile says that a function may return something else at each call.
func (o *Overload) Volatile() *Overload { o.Volatility = Volatile; return o }

// SetFunc adds a set-returning function; columns is "name type, name type".
func (r *Registry) SetFunc(sig, columns string, f func(ctx *Context, args []types.Datum) ([]types.Row, error)) *Overload {
	o := r.add(r.funcs, sig, Immutable)
	o.Set = f
	for _, c := range strings.Split(columns, ",") {
		n, t, _ := strings.Cut(strings.TrimSpace(c), " ")
		o.ReturnNames = append(o.ReturnNames, n)
		o.ReturnTypes = append(o.ReturnTypes, sigType(t))
	}
	return o
}

func (r *Registry) agg(sig string, f func() Accumulator) *Aggregate {
	name, args, _, ret := parseSig(sig)
	a := &Aggregate{Name: name, Args: args, Return: ret, New: f, OID: r.oid}
	a.ReturnFrom = polymorphic(args, ret)
	r.oid++
	r.aggs[name] = append(r.aggs[name], a)
	return a
}

// Functions lists the overloads of a function; the slice must not be changed.
func (r *Registry) Functions(name string) []*Overload { return r.funcs[name] }

// Operators lists the overloads of an operator; the slice must not be changed.
func (r *Registry) Operators(op string) []*Overload { return r.ops[op] }

// Aggregates lists the overloads of an aggregate; the slice must not be changed.
func (r *Registry) Aggregates(name string) []*Aggregate { return r.aggs[name] }

// AggregateByOID finds an aggregate; nil if there is none.
func (r *Registry) AggregateByOID(oid uint32) *Aggregate {
	for _, as := range r.aggs {
		for _, a := range as {
			if a.OID == oid {
				return a
			}
		}
	}
	return nil
}

// IsOperator reports whether an overload is an operator's and not a function's.
func (r *Registry) IsOperator(o *Overload) bool { return slices.Contains(r.ops[o.Name], o) }

// IsFunction reports whether there is a function that is not an aggregate with the name.
func (r *Registry) IsFunction(name string) bool { return len(r.funcs[name]) > 0 }

// IsAggregate reports whether there is an aggregate with the name.
func (r *Registry) IsAggregate(name string) bool { return len(r.aggs[name]) > 0 }

// IsSet reports whether the function returns a set.
func (r *Registry) IsSet(name string) bool {
	fs := r.funcs[name]
	return len(fs) > 0 && fs[0].Set != nil
}

// FunctionByOID finds a function or operator implementation.
func (r *Registry) FunctionByOID(oid uint32) (*Overload, bool) {
	o, ok := r.byOID[oid]
	return o, ok
}

// AllFunctions lists every function overload by OID, for pg_proc.
func (r *Registry) AllFunctions() []*Overload {
	var all []*Overload
	for _, fs := range r.funcs {
		all = append(all, fs...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].OID < all[j].OID })
	return all
}

// AllAggregates lists every aggregate by OID, for pg_proc.
func (r *Registry) AllAggregates() []*Aggregate {
	var all []*Aggregate
	for _, as := range r.aggs {
		all = append(all, as...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].OID < all[j].OID })
	return all
}

func rangeErr(t *types.T) error {
	return sqlstate.New(sqlstate.NumericOutOfRange, "%s out of range", t.Name())
}

// errDivByZero makes PostgreSQL's division error.
func errDivByZero() error { return sqlstate.New(sqlstate.DivisionByZero, "division by zero") }
