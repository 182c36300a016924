package scalar

import (
	"errors"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Evaluator is a compiled expression. It is immutable and may be used by several goroutines at once.
type Evaluator interface {
	Eval(ctx *Context, row types.Row) (types.Datum, error)
}

// Layout says in which slot of the input row a column is; columns it does not know are read from Context.Outer.
type Layout func(ColumnID) (slot int, ok bool)

// predicate is an evaluator of a boolean that need not build a datum: it returns True, False or Null.
type predicate interface {
	Evaluator
	test(ctx *Context, row types.Row) (truth, error)
}

type truth uint8

const (
	isFalse truth = iota
	isTrue
	isNullTruth
)

func (t truth) datum() types.Datum {
	if t == isNullTruth {
		return types.Null
	}
	return types.NewBool(t == isTrue)
}

func truthOf(d types.Datum) truth {
	if d.IsNull() {
		return isNullTruth
	}
	if d.Bool() {
		return isTrue
	}
	return isFalse
}

func test(e Evaluator, ctx *Context, row types.Row) (truth, error) {
	if p, ok := e.(predicate); ok {
		return p.test(ctx, row)
	}
	d, err := e.Eval(ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	return truthOf(d), nil
}

// Test evaluates a condition: NULL counts as false.
func Test(e Evaluator, ctx *Context, row types.Row) (bool, error) {
	t, err := test(e, ctx, row)
	return t == isTrue, err
}

// TestCheck evaluates a check constraint: NULL counts as true.
func TestCheck(e Evaluator, ctx *Context, row types.Row) (bool, error) {
	t, err := test(e, ctx, row)
	return t != isFalse, err
}

// Value compiles and evaluates an expression that reads no row.
func Value(ctx *Context, e Expr) (types.Datum, error) {
	if c, ok := e.(*Const); ok {
		return c.Value, nil
	}
	ev, err := Compile(e, noColumns)
	if err != nil {
		return types.Null, err
	}
	return ev.Eval(ctx, nil)
}

func noColumns(ColumnID) (int, bool) { return 0, false }

// Compile turns a bound expression into a tree of nodes over rows of the given layout.
func Compile(e Expr, layout Layout) (Evaluator, error) {
	if layout == nil {
		layout = noColumns
	}
	c := compiler{layout: layout}
	ev := c.compile(e)
	if c.err != nil {
		return nil, c.err
	}
	return ev, nil
}

type compiler struct {
	layout Layout
	err    error
}

func (c *compiler) list(es []Expr) []Evaluator {
	out := make([]Evaluator, len(es))
	for i, e := range es {
		out[i] = c.compile(e)
	}
	return out
}

func (c *compiler) fail(format string, args ...any) Evaluator {
	if c.err == nil {
		c.err = sqlstate.New(sqlstate.InternalError, format, args...)
	}
	return constNode{}
}

func (c *compiler) compile(e Expr) Evaluator {
	switch e := e.(type) {
	case *Const:
		return constNode{e.Value}
	case *Column:
		if slot, ok := c.layout(e.ID); ok {
			return columnNode(slot)
		}
		return outerNode{e.ID, e.Name}
	case *Placeholder:
		return paramNode(e.Index)
	case *Call:
		return c.call(e)
	case *Cast:
		return c.cast(e)
	case *And:
		return &andNode{c.list(e.Args)}
	case *Or:
		return &orNode{c.list(e.Args)}
	case *Not:
		return &notNode{c.compile(e.Arg)}
	case *Compare:
		return c.comparison(e)
	case *IsNull:
		return &isNullNode{c.compile(e.Arg), e.Negate, e.Whole}
	case *IsBool:
		return &isBoolNode{c.compile(e.Arg), e.Want, e.Negate}
	case *Case:
		n := &caseNode{conds: make([]Evaluator, len(e.Whens)), results: make([]Evaluator, len(e.Whens))}
		for i, w := range e.Whens {
			n.conds[i], n.results[i] = c.compile(w.Cond), c.compile(w.Result)
		}
		if e.Else != nil {
			n.otherwise = c.compile(e.Else)
		}
		return n
	case *Coalesce:
		return &coalesceNode{c.list(e.Args)}
	case *NullIf:
		return &nullIfNode{c.compile(e.Left), c.compile(e.Right), types.Compare}
	case *In:
		return c.in(e)
	case *Quantified:
		return c.quantified(e)
	case *ArrayCtor:
		n := &arrayNode{elems: c.list(e.Elems), elem: types.Text}
		if t := ElemType(e.T); t != nil {
			n.elem = t
		}
		for _, x := range e.Elems {
			if k := x.Type(); k != nil && k.Kind == types.KindArray {
				n.nested = true
			}
		}
		return n
	case *ArrayIndex:
		n := &indexNode{c.compile(e.Array), c.compile(e.Index), 1}
		if k := e.Array.Type().Kind; k == types.KindInt2Vector || k == types.KindOIDVector {
			n.base = 0
		}
		return n
	case *RowCtor:
		n := &rowNode{elems: c.list(e.Elems)}
		for _, x := range e.Elems {
			n.types = append(n.types, x.Type())
		}
		return n
	case *Subquery:
		return c.subquery(e)
	case *AggFunc:
		return c.fail("aggregate %s compiled as a scalar", e.Agg.Name)
	case *Default:
		return c.fail("DEFAULT compiled as a scalar")
	case nil:
		return c.fail("nil expression compiled")
	}
	return c.fail("unknown expression %T", e)
}

type constNode struct{ d types.Datum }

func (n constNode) Eval(*Context, types.Row) (types.Datum, error) { return n.d, nil }

type columnNode int

func (n columnNode) Eval(_ *Context, row types.Row) (types.Datum, error) { return row[n], nil }

type outerNode struct {
	id   ColumnID
	name string
}

func (n outerNode) Eval(ctx *Context, _ types.Row) (types.Datum, error) {
	d, ok := ctx.Outer[n.id]
	if !ok {
		return types.Null, sqlstate.New(sqlstate.InternalError, "column %q (%d) is not available here", n.name, n.id)
	}
	return d, nil
}

type paramNode int

func (n paramNode) Eval(ctx *Context, _ types.Row) (types.Datum, error) {
	if int(n) >= len(ctx.Params) {
		return types.Null, sqlstate.New(sqlstate.UndefinedParameter, "there is no parameter $%d", int(n)+1)
	}
	return ctx.Params[n], nil
}

func (c *compiler) call(e *Call) Evaluator {
	f := e.Func
	if f.Set != nil && f.Eval == nil {
		if c.err == nil {
			c.err = sqlstate.New(sqlstate.FeatureNotSupported, "set-returning functions are not allowed here")
		}
		return constNode{}
	}
	args := c.list(e.Args)
	if f.TypedEval != nil {
		ts := make([]*types.T, len(e.Args))
		for i, a := range e.Args {
			ts[i] = a.Type()
		}
		return &callNode{args, f.TypedEval(ts), f.CalledOnNull}
	}
	if f.Prepare != nil {
		vals, known := make([]types.Datum, len(args)), make([]bool, len(args))
		any, null := false, false
		for i, a := range e.Args {
			if k, ok := a.(*Const); ok {
				vals[i], known[i], any = k.Value, true, true
				null = null || k.Value.IsNull()
			}
		}
		if any && !null {
			if eval := f.Prepare(vals, known); eval != nil {
				return &callNode{args, eval, f.CalledOnNull}
			}
		}
	}
	switch {
	case len(args) == 1 && f.Eval1 != nil && !f.CalledOnNull:
		return &call1Node{args[0], f.Eval1, f.Eval}
	case len(args) == 2 && f.Eval2 != nil && !f.CalledOnNull:
		return &call2Node{args[0], args[1], f.Eval2, f.Eval}
	}
	return &callNode{args, f.Eval, f.CalledOnNull}
}

type call1Node struct {
	arg   Evaluator
	eval  eval1
	evalN evalN
}

func (n *call1Node) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	a, err := n.arg.Eval(ctx, row)
	if err != nil || a.IsNull() {
		return types.Null, err
	}
	if a.Weight() != 0 {
		return n.large(ctx, a)
	}
	d, err := n.eval(ctx, a)
	if ctx != nil && ctx.pending != 0 {
		ctx.Settle()
	}
	return d, err
}

func (n *call1Node) large(ctx *Context, a types.Datum) (types.Datum, error) {
	held, err := ctx.hold(&a)
	if err != nil {
		return types.Null, err
	}
	d, err := invoke(ctx, n.evalN, []types.Datum{a})
	ctx.release(held)
	return d, err
}

type call2Node struct {
	left, right Evaluator
	eval        eval2
	evalN       evalN
}

func (n *call2Node) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	a, err := n.left.Eval(ctx, row)
	if err != nil || a.IsNull() {
		return types.Null, err
	}
	if a.Weight() != 0 {
		return n.large(ctx, a, row)
	}
	b, err := n.right.Eval(ctx, row)
	if err != nil || b.IsNull() {
		return types.Null, err
	}
	if b.Weight() != 0 {
		return n.invoke(ctx, a, b)
	}
	d, err := n.eval(ctx, a, b)
	if ctx != nil && ctx.pending != 0 {
		ctx.Settle()
	}
	return d, err
}

func (n *call2Node) large(ctx *Context, a types.Datum, row types.Row) (types.Datum, error) {
	held, err := ctx.hold(&a)
	if err != nil {
		return types.Null, err
	}
	b, err := n.right.Eval(ctx, row)
	if err == nil && !b.IsNull() {
		b, err = n.invoke(ctx, a, b)
	}
	ctx.release(held)
	return b, err
}

func (n *call2Node) invoke(ctx *Context, a, b types.Datum) (types.Datum, error) {
	held, err := ctx.hold(&b)
	if err != nil {
		return types.Null, err
	}
	d, err := invoke(ctx, n.evalN, []types.Datum{a, b})
	ctx.release(held)
	return d, err
}

type callNode struct {
	args     []Evaluator
	eval     evalN
	nullsToo bool
}

func (n *callNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	args := make([]types.Datum, len(n.args))
	held, null, err := evalArgs(ctx, n.args, row, args, n.nullsToo)
	if err == nil && !null {
		var d types.Datum
		d, err = invoke(ctx, n.eval, args)
		ctx.release(held)
		return d, err
	}
	ctx.release(held)
	return types.Null, err
}

// evalArgs evaluates a list, and accounts for its large values until they are released; null says that it stopped at a
// NULL.
func evalArgs(ctx *Context, evs []Evaluator, row types.Row, out []types.Datum, nullsToo bool) (held int64, null bool, err error) {
	for i, a := range evs {
		d, err := a.Eval(ctx, row)
		if err != nil {
			return held, false, err
		}
		if d.IsNull() && !nullsToo {
			return held, true, nil
		}
		out[i] = d
		if d.Weight() != 0 {
			n, err := ctx.hold(&d)
			if err != nil {
				return held, false, err
			}
			held += n
		}
	}
	return held, false, nil
}

func (c *compiler) cast(e *Cast) Evaluator {
	arg := c.compile(e.Arg)
	from := e.Arg.Type()
	if castIsFree(from, e.To) {
		return arg
	}
	return &castNode{arg, from, e.To, e.Explicit, e.At}
}

// castIsFree reports whether every value of from is the same value of to.
func castIsFree(from, to *types.T) bool {
	if from == to || from.Equal(to) && from.Kind != types.KindUnknown {
		return true
	}
	if from.Kind == types.KindUnknown || to.Typmod() >= 0 {
		return false
	}
	switch to.Kind {
	case from.Kind:
		return from.Kind != types.KindArray && from.Kind != types.KindTuple || from.Same(to)
	case types.KindText, types.KindVarChar:
		return from.Kind == types.KindText || from.Kind == types.KindVarChar || from.Kind == types.KindName
	case types.KindInt8:
		return from.Kind == types.KindInt4 || from.Kind == types.KindInt2 || from.Kind == types.KindOID
	case types.KindInt4:
		return from.Kind == types.KindInt2
	case types.KindFloat8:
		return from.Kind == types.KindFloat4
	}
	return false
}

type castNode struct {
	arg      Evaluator
	from, to *types.T
	explicit bool
	at       int
}

func (n *castNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	d, err := n.arg.Eval(ctx, row)
	if err != nil || d.IsNull() {
		return types.Null, err
	}
	if d.Weight() != 0 {
		return n.large(ctx, d)
	}
	if n.at > 0 {
		d, err = CastDatum(ctx, d, n.from, n.to, n.explicit)
		var e *sqlstate.Error
		if errors.As(err, &e) && e.Position == 0 {
			e.Position = n.at
		}
		return d, err
	}
	return CastDatum(ctx, d, n.from, n.to, n.explicit)
}

func (n *castNode) large(ctx *Context, d types.Datum) (types.Datum, error) {
	held, err := ctx.hold(&d)
	if err != nil {
		return types.Null, err
	}
	need := d.Weight()
	switch {
	case n.to.Kind == types.KindJSON || n.to.Kind == types.KindJSONB || d.Phys() == types.PhysJSON:
		need += types.JSONBytes(d.Str())
	case n.to.Phys() == types.PhysArray && (d.Phys() == types.PhysString || d.Phys() == types.PhysChar):
		need += types.ArrayTextBytes(d.Str())
	}
	taken, err := ctx.reserve(need)
	if err == nil {
		d, err = CastDatum(ctx, d, n.from, n.to, n.explicit)
		ctx.release(taken)
	}
	ctx.release(held)
	return d, err
}

// CastDatum converts a value; unlike types.Cast it can also resolve names to the reg* types and back.
func CastDatum(ctx *Context, d types.Datum, from, to *types.T, explicit bool) (types.Datum, error) {
	if d.IsNull() {
		return d, nil
	}
	if to.IsReg() && to.Kind != types.KindOID {
		if from.IsString() || from.Kind == types.KindUnknown {
			return parseReg(ctx, to, d.Str())
		}
		if d.Phys() == types.PhysInt {
			if from.Kind == types.KindInt8 && (d.Int() < 0 || d.Int() > 1<<32-1) {
				return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "OID out of range")
			}
			oid := uint32(d.Int())
			name := RegName(ctx, to.Kind, oid)
			if name == "" && oid != 0 {
				name = strconv.FormatUint(uint64(oid), 10)
			}
			return types.NewReg(oid, name), nil
		}
	}
	if from.IsReg() && from.Kind != types.KindOID && to.IsString() {
		if d.Str() == "" {
			d = types.NewReg(uint32(d.Int()), RegName(ctx, from.Kind, uint32(d.Int())))
		}
	}
	return types.Cast(ctx.TextEnv(), d, from, to, explicit)
}

func parseReg(ctx *Context, to *types.T, name string) (types.Datum, error) {
	if ctx == nil {
		return ParseReg(nil, to, name)
	}
	return ParseReg(ctx.Env, to, name)
}

// ParseReg reads a value of regclass or its kin: a number, a dash, or a name that env, which may be nil, can find.
func ParseReg(env Environment, to *types.T, name string) (types.Datum, error) {
	if name == "-" {
		return types.NewReg(0, "-"), nil
	}
	if name != "" && strings.Trim(name, "0123456789") == "" {
		oid, ok := types.ParseOID(name)
		if !ok {
			return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "value %q is out of range for type oid", types.Raw(name))
		}
		return types.NewReg(oid, ""), nil
	}
	return NamedReg(env, to, name)
}

// NamedReg is ParseReg of a name.
func NamedReg(env Environment, to *types.T, name string) (types.Datum, error) {
	if to.Kind == types.KindRegType {
		n, err := types.ParseTypeName(name)
		if err != nil {
			return types.Null, err
		}
		if t, ok := n.Find(); ok && !n.Modified {
			return types.NewReg(t.OID(), t.Bare().Name()), nil
		}
	}
	if env == nil && to.Kind == types.KindRegType {
		return types.Null, sqlstate.New(sqlstate.UndefinedObject, "type %q does not exist", types.Raw(strings.TrimSpace(name)))
	}
	if env == nil {
		return types.Null, sqlstate.New(sqlstate.UndefinedObject, "%s %q does not exist", to.Name(), types.Raw(name))
	}
	oid, err := env.ResolveReg(to.Kind, name)
	if err != nil {
		return types.Null, err
	}
	return types.NewReg(oid, env.RegName(to.Kind, oid)), nil
}

// RegName is how a value of regclass or its kin prints: the object's name, a dash for zero, empty if nothing has the OID.
func RegName(ctx *Context, kind types.Kind, oid uint32) string {
	if oid == 0 {
		return "-"
	}
	if kind == types.KindRegType {
		if t, ok := types.FromOID(oid); ok {
			return t.Name()
		}
	}
	if ctx == nil || ctx.Env == nil {
		return ""
	}
	return ctx.Env.RegName(kind, oid)
}

// TextEnv is the part of the session on which text forms depend.
func (ctx *Context) TextEnv() types.Env {
	if ctx == nil {
		return types.Env{}
	}
	return types.Env{Location: ctx.Location, Style: ctx.Style, Now: ctx.TxnTime}
}

// style is the style in which values are written as text.
func (ctx *Context) style() *types.Style {
	if ctx == nil {
		return nil
	}
	if ctx.Style == nil && ctx.Location != nil {
		return &types.Style{Location: ctx.Location}
	}
	return ctx.Style
}

type andNode struct{ args []Evaluator }

func (n *andNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *andNode) test(ctx *Context, row types.Row) (truth, error) {
	result := isTrue
	for _, a := range n.args {
		t, err := test(a, ctx, row)
		if err != nil {
			return isNullTruth, err
		}
		switch t {
		case isFalse:
			return isFalse, nil
		case isNullTruth:
			result = isNullTruth
		}
	}
	return result, nil
}

type orNode struct{ args []Evaluator }

func (n *orNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *orNode) test(ctx *Context, row types.Row) (truth, error) {
	result := isFalse
	for _, a := range n.args {
		t, err := test(a, ctx, row)
		if err != nil {
			return isNullTruth, err
		}
		switch t {
		case isTrue:
			return isTrue, nil
		case isNullTruth:
			result = isNullTruth
		}
	}
	return result, nil
}

type notNode struct{ arg Evaluator }

func (n *notNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *notNode) test(ctx *Context, row types.Row) (truth, error) {
	t, err := test(n.arg, ctx, row)
	switch t {
	case isTrue:
		return isFalse, err
	case isFalse:
		return isTrue, err
	}
	return t, err
}

type isNullNode struct {
	arg           Evaluator
	negate, whole bool
}

func (n *isNullNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *isNullNode) test(ctx *Context, row types.Row) (truth, error) {
	d, err := n.arg.Eval(ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	if d.Phys() == types.PhysTuple && !n.whole {
		// A row value is NULL if all its fields are, and NOT NULL if none is.
		for _, f := range d.Tuple().Elems {
			if f.IsNull() == n.negate {
				return isFalse, nil
			}
		}
		return isTrue, nil
	}
	if d.IsNull() != n.negate {
		return isTrue, nil
	}
	return isFalse, nil
}

type isBoolNode struct {
	arg          Evaluator
	want, negate bool
}

func (n *isBoolNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *isBoolNode) test(ctx *Context, row types.Row) (truth, error) {
	t, err := test(n.arg, ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	is := t != isNullTruth && (t == isTrue) == n.want
	if is != n.negate {
		return isTrue, nil
	}
	return isFalse, nil
}

type caseNode struct {
	conds, results []Evaluator
	otherwise      Evaluator
}

func (n *caseNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	for i, c := range n.conds {
		t, err := test(c, ctx, row)
		if err != nil {
			return types.Null, err
		}
		if t == isTrue {
			return n.results[i].Eval(ctx, row)
		}
	}
	if n.otherwise == nil {
		return types.Null, nil
	}
	return n.otherwise.Eval(ctx, row)
}

type coalesceNode struct{ args []Evaluator }

func (n *coalesceNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	for _, a := range n.args {
		d, err := a.Eval(ctx, row)
		if err != nil || !d.IsNull() {
			return d, err
		}
	}
	return types.Null, nil
}

type nullIfNode struct {
	left, right Evaluator
	compare     func(a, b types.Datum) int
}

func (n *nullIfNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	a, err := n.left.Eval(ctx, row)
	if err != nil || a.IsNull() {
		return types.Null, err
	}
	b, err := n.right.Eval(ctx, row)
	if err != nil {
		return types.Null, err
	}
	if !b.IsNull() && n.compare(a, b) == 0 {
		return types.Null, nil
	}
	return a, nil
}

type arrayNode struct {
	elems  []Evaluator
	elem   *types.T
	nested bool
}

func (n *arrayNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	a := &types.Array{Elem: n.elem, Elems: make([]types.Datum, len(n.elems))}
	held, _, err := evalArgs(ctx, n.elems, row, a.Elems, true)
	ctx.release(held)
	if err != nil {
		return types.Null, err
	}
	if n.nested {
		return types.StackArrays(n.elem, a.Elems)
	}
	return types.NewArray(a), nil
}

type indexNode struct {
	array, index Evaluator
	base         int64 // the first subscript: vectors of the catalogue count from zero
}

func (n *indexNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	a, err := n.array.Eval(ctx, row)
	if err != nil || a.IsNull() {
		return types.Null, err
	}
	i, err := n.index.Eval(ctx, row)
	if err != nil || i.IsNull() {
		return types.Null, err
	}
	if a.Phys() != types.PhysArray {
		return types.Null, sqlstate.New(sqlstate.DatatypeMismatch, "cannot subscript this type because it does not support subscripting")
	}
	base := n.base
	if a.Array().Shape != nil {
		if len(a.Array().Shape) > 1 {
			return types.Null, nil
		}
		base = int64(a.Array().Shape[0].Lower)
	}
	elems, at := a.Array().Elems, i.Int()-base
	if at < 0 || at >= int64(len(elems)) {
		return types.Null, nil
	}
	return elems[at], nil
}

type rowNode struct {
	elems []Evaluator
	types []*types.T
}

func (n *rowNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t := &types.Tuple{Types: n.types, Elems: make([]types.Datum, len(n.elems))}
	held, _, err := evalArgs(ctx, n.elems, row, t.Elems, true)
	ctx.release(held)
	if err != nil {
		return types.Null, err
	}
	return types.NewTuple(t), nil
}

type subqueryNode struct {
	q     *Subquery
	arg   Evaluator
	ids   []ColumnID
	slots []int
}

func (c *compiler) subquery(e *Subquery) Evaluator {
	n := &subqueryNode{q: e}
	for _, id := range e.Outer {
		if slot, ok := c.layout(id); ok {
			n.ids = append(n.ids, id)
			n.slots = append(n.slots, slot)
		}
	}
	if e.Arg != nil {
		n.arg = c.compile(e.Arg)
	}
	return n
}

// Eval runs the subquery with the outer columns bound; for ANY and ALL the left value is bound to LeftID too, and
// RunSubquery returns the truth value.
func (n *subqueryNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	sub := ctx
	if len(n.ids) > 0 || n.arg != nil {
		outer := make(map[ColumnID]types.Datum, len(ctx.Outer)+len(n.ids)+1)
		for id, d := range ctx.Outer {
			outer[id] = d
		}
		for i, id := range n.ids {
			outer[id] = row[n.slots[i]]
		}
		if n.arg != nil {
			d, err := n.arg.Eval(ctx, row)
			if err != nil {
				return types.Null, err
			}
			outer[n.q.LeftID] = d
		}
		inner := *ctx
		inner.Outer = outer
		sub = &inner
	}
	if ctx.Subqueries == nil {
		return types.Null, sqlstate.New(sqlstate.FeatureNotSupported, "a subquery is not allowed here")
	}
	return ctx.Subqueries.RunSubquery(sub, n.q)
}
