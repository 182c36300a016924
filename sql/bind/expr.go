package bind

import (
	"errors"
	"fmt"
	"go/constant"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// exprContext is the place of an expression: the names that it sees, and the constructs that it may contain.
type exprContext struct {
	scope *scope
	// clause names the place for messages: "WHERE", "GROUP BY", ...
	clause string
	aggs   bool // aggregates are allowed
	window bool // window functions are allowed
	sets   bool // set-returning functions are allowed
	inAgg  bool // inside an aggregate's arguments
	inWin  bool
	chosen bool // inside CASE or COALESCE, which may not ask for a value
	// allowDefault allows the DEFAULT keyword.
	allowDefault bool
	// noSubquery and noColumns are for stored expressions.
	noSubquery, noColumns bool
}

// coerce makes e a value of type to. Parameters without a type get it here, for all their uses.
func (b *builder) coerce(e scalar.Expr, to *types.T, c types.CastContext, at any) scalar.Expr {
	b.text.coerced(e, to)
	switch x := e.(type) {
	case *scalar.Placeholder:
		if x.T.Kind == types.KindUnknown && to.Kind != types.KindUnknown && to.Kind != types.KindAny {
			x.T = to.Bare()
		}
	case *scalar.ArrayCtor:
		if to.Kind == types.KindArray {
			out := make([]scalar.Expr, len(x.Elems))
			for i, el := range x.Elems {
				if el.Type().Kind == types.KindArray {
					out[i] = b.coerce(el, to, c, at)
					continue
				}
				out[i] = b.coerce(el, to.Elem, c, at)
			}
			return &scalar.ArrayCtor{Elems: out, T: to}
		}
	case *scalar.Const:
		if x.T.Kind == types.KindUnknown && !x.Value.IsNull() && to.IsReg() {
			if k := b.regConst(x, to); k != nil {
				return k
			}
		}
	}
	n, err := scalar.Coerce(e, to, c)
	if err != nil {
		if se, ok := err.(*sqlstate.Error); ok && se.Position == 0 {
			se.Position = b.literalPos(e)
		}
		raise(b.locate(err, at))
	}
	if cast, ok := n.(*scalar.Cast); ok {
		if k, ok := cast.Arg.(*scalar.Const); ok && k.T.Kind == types.KindUnknown && b.home == nil {
			cast.At = b.literalPos(k)
			if b.Names != nil && to.IsReg() && to.Kind != types.KindOID {
				// The name may be that of another object when the statement runs: the cast stays.
				if _, err := b.Names.ParseReg(to, k.Value.Str()); err != nil {
					var se *sqlstate.Error
					if errors.As(err, &se) && se.Position == 0 {
						se.Position = cast.At
					}
					raise(err)
				}
			}
		}
		if k, ok := cast.Arg.(*scalar.Const); ok && k.T.Kind != types.KindUnknown && !k.T.IsEnum() {
			n = scalar.Fold(n)
		}
	}
	b.text.became(e, n)
	return n
}

// regConst resolves a literal of a reg* type while binding where the catalogue view can; nil leaves it to run time.
func (b *builder) regConst(k *scalar.Const, to *types.T) scalar.Expr {
	s := k.Value.Str()
	if to.Kind != types.KindRegClass || s == "" || s[0] >= '0' && s[0] <= '9' || s == "-" {
		return nil
	}
	parts, ok := splitName(s)
	if !ok || len(parts) > 3 {
		return nil
	}
	var name [3]string
	copy(name[3-len(parts):], parts)
	t := b.lookupTable(name[0], name[1], name[2])
	if t == nil {
		return nil // an index, or an error at run time
	}
	b.uses(t)
	b.text.object(k, t)
	s = "" // the name is looked up when the value is written (types.T5)
	if b.home != nil {
		// The value carries the qualified name to run time, where the session's search path may be another.
		s = b.qualified(t).Quoted()
	}
	return &scalar.Const{Value: types.NewReg(uint32(t.ID), s), T: types.RegClass}
}

// splitName splits a textual qualified name as regclass input does.
func splitName(s string) ([]string, bool) {
	var parts []string
	i := 0
	for {
		start := i
		var p string
		if i < len(s) && s[i] == '"' {
			i++
			for i < len(s) && s[i] != '"' {
				i++
			}
			if i >= len(s) {
				return nil, false
			}
			p = s[start+1 : i]
			i++
		} else {
			for i < len(s) && s[i] != '.' {
				if s[i] == '(' || s[i] == ' ' || s[i] == '"' {
					return nil, false
				}
				i++
			}
			p = fold(s[start:i])
		}
		if p == "" {
			return nil, false
		}
		parts = append(parts, p)
		if i >= len(s) {
			return parts, true
		}
		if s[i] != '.' {
			return nil, false
		}
		i++
	}
}

// boolean binds a condition.
func (b *builder) boolean(c *exprContext, e tree.Expr) scalar.Expr {
	x := b.expr(c, e)
	return b.asBool(x, c.clause, e)
}

func (b *builder) asBool(x scalar.Expr, clause string, at any) scalar.Expr {
	switch t := x.Type(); t.Kind {
	case types.KindBool:
		return x
	case types.KindUnknown:
		return b.coerce(x, types.Bool, types.CastImplicit, at)
	default:
		switch clause {
		case "JOIN conditions":
			clause = "JOIN/ON"
		case "check constraints":
			clause = "CHECK"
		}
		b.fail(sqlstate.DatatypeMismatch, at, "argument of %s must be type boolean, not type %s", clause, t.Name())
	}
	return nil
}

// expr binds a scalar expression.
func (b *builder) expr(c *exprContext, e tree.Expr) scalar.Expr {
	b.enter()
	defer b.leave()
	switch n := e.(type) {
	case *tree.NumVal:
		return b.number(n)
	case *tree.StrVal:
		k := &scalar.Const{Value: types.NewString(n.RawString()), T: types.Unknown}
		b.text.literal(n, k)
		return k
	case *tree.UnresolvedName:
		return b.name(c, n)
	case *tree.Placeholder:
		if c.noSubquery {
			b.fail(sqlstate.UndefinedParameter, n, "there is no parameter $%d", n.Idx+1)
		}
		return b.params[n.Idx]
	case *tree.ParenExpr:
		return b.expr(c, n.Expr)
	case *tree.AndExpr:
		return &scalar.And{Args: b.junction(c, n, "AND")}
	case *tree.OrExpr:
		return &scalar.Or{Args: b.junction(c, n, "OR")}
	case *tree.NotExpr:
		return &scalar.Not{Arg: b.asBool(b.expr(c, n.Expr), "NOT", n.Expr)}
	case *tree.IsNullExpr:
		return b.isNull(c, n.Expr, false)
	case *tree.IsNotNullExpr:
		return b.isNull(c, n.Expr, true)
	case *tree.ComparisonExpr:
		return b.comparison(c, n)
	case *tree.RangeCond:
		return b.between(c, n)
	case *tree.BinaryExpr:
		return b.binary(c, n)
	case *tree.UnaryExpr:
		return b.unary(c, n)
	case *tree.CastExpr:
		return b.cast(c, n)
	case *tree.AnnotateTypeExpr:
		return b.coerce(b.expr(c, n.Expr), b.typeRef(n.Type), types.CastExplicit, n.Expr)
	case *tree.FuncExpr:
		return b.function(c, n)
	case *tree.CaseExpr:
		return b.caseExpr(c, n)
	case *tree.CoalesceExpr:
		args, t := b.common("COALESCE", b.exprs(c.choosing("COALESCE"), n.Exprs), nodes(n.Exprs)...)
		return &scalar.Coalesce{Args: args, T: t}
	case *tree.NullIfExpr:
		return b.nullIf(c, n)
	case *tree.IfExpr:
		arms, t := b.common("IF", []scalar.Expr{b.expr(c, n.True), b.expr(c, n.Else)}, n.True, n.Else)
		return &scalar.Case{Whens: []scalar.When{{Cond: b.boolean(c, n.Cond), Result: arms[0]}}, Else: arms[1], T: t}
	case *tree.Tuple:
		if len(n.Labels) > 0 {
			raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "names of a row's fields are not supported here").WithHint("Select from a subquery whose columns have the names."), n))
		}
		return b.row(c, n)
	case *tree.Array:
		return b.array(c, n)
	case *tree.ArrayFlatten:
		sub, ok := unparen(n.Subquery).(*tree.Subquery)
		if !ok {
			b.fail(sqlstate.SyntaxError, nil, "syntax error")
		}
		return b.subquery(c, sub, scalar.SubqueryArray)
	case *tree.Subquery:
		if n.Exists {
			return b.subquery(c, n, scalar.SubqueryExists)
		}
		return b.subquery(c, n, scalar.SubqueryScalar)
	case *tree.IndirectionExpr:
		return b.indirection(c, n)
	case *tree.CollateExpr:
		return b.expr(c, n.Expr)
	case *tree.ColumnAccessExpr:
		return b.fieldAccess(c, n)
	case *tree.DBool:
		return &scalar.Const{Value: types.NewBool(bool(*n)), T: types.Bool}
	case *tree.DInt:
		return intConst(int64(*n))
	case tree.DefaultVal:
		if c.allowDefault {
			return &scalar.Default{T: types.Unknown}
		}
		b.fail(sqlstate.SyntaxError, nil, "DEFAULT is not allowed in this context")
	case tree.UnqualifiedStar:
		b.fail(sqlstate.SyntaxError, nil, "row expansion via \"*\" is not supported here")
	}
	if e == tree.DNull {
		return &scalar.Const{Value: types.Null, T: types.Unknown}
	}
	b.fail(sqlstate.FeatureNotSupported, e, "this expression is not supported: %s", tree.AsString(e))
	return nil
}

// name binds a name: a column, the rows of a relation (x.*), or a function that is called without parentheses.
func (b *builder) name(c *exprContext, n *tree.UnresolvedName) scalar.Expr {
	if n.Star && n.NumParts > 1 && c.scope != nil {
		return b.starRow(c, n)
	}
	if n.Star {
		b.fail(sqlstate.SyntaxError, n, "row expansion via \"*\" is not supported here")
	}
	if x := b.parameterlessFunction(c, n); x != nil {
		return x
	}
	if c.noColumns {
		b.fail(sqlstate.FeatureNotSupported, n, "cannot use column reference in %s", strings.TrimSuffix(c.clause, "s"))
	}
	return b.resolveName(c.scope, n)
}

// nullIf binds NULLIF.
func (b *builder) nullIf(c *exprContext, n *tree.NullIfExpr) scalar.Expr {
	cmp := b.compare(scalar.EQ, b.expr(c, n.Expr1), b.expr(c, n.Expr2), n)
	k, ok := cmp.(*scalar.Compare)
	if !ok {
		b.fail(sqlstate.FeatureNotSupported, n.Expr1, "NULLIF of row values is not supported")
	}
	if k.Left.Type().Kind == types.KindVarChar {
		k.Left = b.coerce(k.Left, types.Text, types.CastImplicit, n.Expr1) // the comparison is that of text
	}
	return &scalar.NullIf{Left: k.Left, Right: k.Right}
}

func (b *builder) exprs(c *exprContext, es tree.Exprs) []scalar.Expr {
	out := make([]scalar.Expr, len(es))
	for i, e := range es {
		out[i] = b.expr(c, e)
	}
	return out
}

func unparen(e tree.Expr) tree.Expr {
	for {
		p, ok := e.(*tree.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

func intConst(v int64) *scalar.Const {
	t := types.Int8
	if v >= -1<<31 && v < 1<<31 {
		t = types.Int4
	}
	return &scalar.Const{Value: types.NewInt(v), T: t}
}

func (b *builder) number(n *tree.NumVal) scalar.Expr {
	if n.Kind() == constant.Int {
		if v, err := n.AsInt64(); err == nil {
			return intConst(v)
		}
	}
	text := n.OrigString()
	if s := tree.AsString(n); len(s) > 0 && s[0] == '-' && (text == "" || text[0] != '-') {
		text = "-" + text
	}
	d, err := types.ParseText(types.Decimal, text, b.Location)
	if err != nil {
		raise(b.locate(err, n))
	}
	return &scalar.Const{Value: d, T: types.Decimal}
}

// junction flattens a chain of AND or OR without recursion along its left spine.
func (b *builder) junction(c *exprContext, e tree.Expr, word string) []scalar.Expr {
	var rev []tree.Expr
	for {
		var l, r tree.Expr
		switch n := e.(type) {
		case *tree.AndExpr:
			if word == "AND" {
				l, r = n.Left, n.Right
			}
		case *tree.OrExpr:
			if word == "OR" {
				l, r = n.Left, n.Right
			}
		}
		if l == nil {
			rev = append(rev, e)
			break
		}
		rev = append(rev, r)
		e = l
	}
	out := make([]scalar.Expr, 0, len(rev))
	for i := len(rev) - 1; i >= 0; i-- {
		x := b.asBool(b.expr(c, rev[i]), word, rev[i])
		switch j := x.(type) {
		case *scalar.And:
			if word == "AND" {
				out = append(out, j.Args...)
				continue
			}
		case *scalar.Or:
			if word == "OR" {
				out = append(out, j.Args...)
				continue
			}
		}
		out = append(out, x)
	}
	return out
}

// wholeNull asks whether a value is NULL itself.
func wholeNull(x scalar.Expr, negate bool) scalar.Expr {
	return &scalar.IsNull{Arg: x, Negate: negate, Whole: x.Type().Kind == types.KindTuple}
}

func (b *builder) isNull(c *exprContext, e tree.Expr, negate bool) scalar.Expr {
	x := b.expr(c, e)
	if row, ok := x.(*scalar.RowCtor); ok && len(row.Elems) > 0 {
		// A row is (not) null if all of its fields are; a field that is a row is not null, whatever its fields are.
		args := make([]scalar.Expr, len(row.Elems))
		for i, f := range row.Elems {
			args[i] = wholeNull(b.anyType(f, e), negate)
		}
		if len(args) == 1 {
			return args[0]
		}
		return &scalar.And{Args: args}
	}
	return &scalar.IsNull{Arg: b.anyType(x, e), Negate: negate}
}

// anyType binds an operand of any type: an untyped expression is text, but a parameter of the client's stays without a type, and another use of it
// must not give it one. A parameter that stands for a literal of the text is like the literal.
func (b *builder) anyType(x scalar.Expr, at any) scalar.Expr {
	p, ok := x.(*scalar.Placeholder)
	if !ok || p.T.Kind != types.KindUnknown || p.Index < len(b.ParamTypes) && b.ParamTypes[p.Index] != nil {
		return b.known(x, at)
	}
	if b.untyped == nil {
		b.untyped = make([]int, len(b.params))
	}
	if b.untyped[p.Index] == 0 {
		b.untyped[p.Index] = max(b.pos(at), 1)
	}
	return x
}

// known gives an untyped expression the type text.
func (b *builder) known(x scalar.Expr, at any) scalar.Expr {
	if x.Type().Kind == types.KindUnknown {
		return b.coerce(x, types.Text, types.CastImplicit, at)
	}
	return x
}

// nodes are the places of expressions.
func nodes(es tree.Exprs) []any {
	out := make([]any, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// common coerces expressions to their common type; at are their nodes, or one node for all.
func (b *builder) common(what string, es []scalar.Expr, at ...any) ([]scalar.Expr, *types.T) {
	node := func(i int) any {
		if i < len(at) {
			return at[i]
		}
		return at[0]
	}
	ts := make([]*types.T, len(es))
	for i, e := range es {
		ts[i] = e.Type()
	}
	t := types.Common(ts...)
	if t == nil {
		_, _, err := scalar.CommonType(what, es)
		if err == nil {
			err = sqlstate.New(sqlstate.DatatypeMismatch, "%s types cannot be matched", what)
		}
		raise(b.locate(err, node(scalar.Unmatched(ts))))
	}
	for i, e := range es {
		es[i] = b.coerce(e, t, types.CastImplicit, node(i))
	}
	return es, t
}

func (b *builder) binary(c *exprContext, n *tree.BinaryExpr) scalar.Expr {
	// A long chain of + or || leans to the left: walk down it without recursion.
	var chain []*tree.BinaryExpr
	var e tree.Expr = n
	for {
		m, ok := e.(*tree.BinaryExpr)
		if !ok {
			break
		}
		chain = append(chain, m)
		e = m.Left
	}
	if len(chain) > maxDepth {
		// The bound tree would be as deep as any other nesting, and is refused like that.
		raise(sqlstate.TooDeep())
	}
	l := b.expr(c, e)
	for i := len(chain) - 1; i >= 0; i-- {
		m := chain[i]
		name := m.Operator.Symbol.String()
		if name == parse.UnknownOperator && b.stmt.Unknown != "" {
			b.unknownOperator(b.stmt.Unknown, m, l, b.expr(c, m.Right))
		}
		if name == parse.StartsWith {
			name = "^@"
		}
		l = b.operator(name, m, l, b.expr(c, m.Right))
	}
	return l
}

func (b *builder) unary(c *exprContext, n *tree.UnaryExpr) scalar.Expr {
	x := b.expr(c, n.Expr)
	switch n.Operator.Symbol {
	case tree.UnaryPlus:
		return b.operator("+", n, x)
	case tree.UnaryMinus:
		return b.operator("-", n, x)
	case tree.UnaryComplement:
		return b.operator("~", n, x)
	case tree.UnarySqrt:
		if b.stmt.UnknownPrefix != "" {
			b.unknownOperator(b.stmt.UnknownPrefix, n, x)
		}
		return b.operator("|/", n, x)
	case tree.UnaryCbrt:
		return b.operator("||/", n, x)
	}
	b.fail(sqlstate.FeatureNotSupported, n, "operator %s is not supported", n.Operator.Symbol)
	return nil
}

// unknownOperator refuses an operator that the grammar does not have.
func (b *builder) unknownOperator(name string, at any, args ...scalar.Expr) {
	b.lackOperator(name, at, args)
	shown := name + " " + args[len(args)-1].Type().Name()
	hint := "No operator matches the given name and argument type. You might need to add an explicit type cast."
	if len(args) == 2 {
		shown = args[0].Type().Name() + " " + shown
		hint = "No operator matches the given name and argument types. You might need to add explicit type casts."
	}
	e := sqlstate.New(sqlstate.UndefinedFunction, "operator does not exist: %s", shown).WithHint("%s", hint)
	if b.home == nil {
		if len(args) == 2 {
			raise(b.locateOp(e, at))
		}
		e.Position = b.stmt.FindText(name, 0)
	}
	raise(e)
}

// operator resolves an operator and coerces its operands.
func (b *builder) operator(name string, at any, args ...scalar.Expr) scalar.Expr {
	res, err := b.Registry.ResolveOperator(name, typesOf(args))
	if err != nil {
		b.lackOperator(name, at, args)
		raise(b.locateOp(err, at))
	}
	return &scalar.Call{Func: res.Func, Args: b.coerceArgs(args, res.Args, at), T: res.Return}
}

// syntaxFunction is PostgreSQL's name of the function behind a syntax of its own, such as POSITION (a IN b); empty: the node is another call.
func (b *builder) syntaxFunction(name string, at any) string {
	n, ok := at.(*tree.FuncExpr)
	if !ok {
		return ""
	}
	if _, special := n.Func.FunctionReference.(*tree.FunctionDefinition); !special {
		return ""
	}
	switch name {
	case "strpos":
		return "position"
	case "btrim", "ltrim", "rtrim", "extract", "overlay", "timezone":
		return name
	case "substring":
		p := b.places()
		if i, _ := p.Extent(&n.Exprs); i >= 0 {
			if open := p.Opening(i); open >= 0 {
				if comma, from := p.Next(open+1, ","), p.Next(open+1, "from", "for", ")"); from >= 0 && (comma < 0 || from < comma) {
					return name
				}
			}
		}
	}
	return ""
}

// call resolves a function and coerces its arguments.
func (b *builder) call(name string, args []scalar.Expr, at any) scalar.Expr {
	res, err := b.Registry.ResolveFunction(name, typesOf(args))
	if err != nil {
		if shown := b.syntaxFunction(name, at); shown != "" {
			if e, ok := err.(*sqlstate.Error); ok {
				e.Message = strings.Replace(e.Message, "function "+name+"(", "function pg_catalog."+shown+"(", 1)
			}
		}
		raise(b.locate(err, at))
	}
	return &scalar.Call{Func: res.Func, Args: b.coerceArgs(args, res.Args, at), T: res.Return}
}

func (b *builder) coerceArgs(args []scalar.Expr, ts []*types.T, at any) []scalar.Expr {
	for i, a := range args {
		switch {
		case i >= len(ts):
		case ts[i].Kind == types.KindAny:
			args[i] = b.anyType(a, at)
		default:
			args[i] = b.coerce(a, ts[i], types.CastImplicit, at)
		}
	}
	return args
}

func typesOf(args []scalar.Expr) []*types.T {
	ts := make([]*types.T, len(args))
	for i, a := range args {
		ts[i] = a.Type()
	}
	return ts
}

func (b *builder) cast(c *exprContext, n *tree.CastExpr) scalar.Expr {
	to := b.typeRef(n.Type)
	b.text.cast(n, to)
	if a, ok := unparen(n.Expr).(*tree.Array); ok && to.Kind == types.KindArray {
		return b.arrayAs(c, a, to)
	}
	x := b.expr(c, n.Expr)
	from := x.Type()
	if to.RowOID != 0 && from.Kind == types.KindTuple && from.RowOID == 0 {
		return b.rowAs(n, x, to)
	}
	if from.Kind != types.KindUnknown && !types.CanCast(from, to, types.CastExplicit) {
		raise(b.locateOp(sqlstate.New(sqlstate.CannotCoerce, "cannot cast type %s to %s", from.Name(), to.Name()), n))
	}
	// Literals such as '{1,2}'::int[] are read as the target type directly.
	return b.coerce(x, to, types.CastExplicit, n.Expr)
}

// rowAs casts a record to the type of a relation's rows, field by field.
func (b *builder) rowAs(n *tree.CastExpr, x scalar.Expr, to *types.T) scalar.Expr {
	from := x.Type()
	refuse := func(detail string) {
		raise(b.locateOp(sqlstate.New(sqlstate.CannotCoerce, "cannot cast type record to %s", to.Name()).WithDetail("%s", detail), n))
	}
	switch {
	case len(from.Fields) < len(to.Fields):
		refuse("Input has too few columns.")
	case len(from.Fields) > len(to.Fields):
		refuse("Input has too many columns.")
	}
	for i, f := range from.Fields {
		if f.Kind != types.KindUnknown && !types.CanCast(f, to.Fields[i], types.CastExplicit) {
			refuse(fmt.Sprintf("Cannot cast type %s to %s in column %d.", f.Name(), to.Fields[i].Name(), i+1))
		}
	}
	row, ok := x.(*scalar.RowCtor)
	if !ok {
		return b.coerce(x, to, types.CastExplicit, n.Expr)
	}
	out := &scalar.RowCtor{T: to, Elems: make([]scalar.Expr, len(row.Elems))}
	written, _ := unparen(n.Expr).(*tree.Tuple)
	for i, e := range row.Elems {
		var at any = n.Expr
		if written != nil && len(written.Exprs) == len(row.Elems) {
			at = written.Exprs[i]
		}
		out.Elems[i] = b.coerce(e, to.Fields[i], types.CastExplicit, at)
	}
	return out
}

// choosing is the context of expressions of which not all are evaluated.
func (c *exprContext) choosing(what string) *exprContext {
	if !c.sets {
		return c
	}
	inner := *c
	inner.sets, inner.chosen, inner.clause = false, true, what
	return &inner
}

func (b *builder) caseExpr(c *exprContext, n *tree.CaseExpr) scalar.Expr {
	c = c.choosing("CASE")
	var arg scalar.Expr
	if n.Expr != nil {
		arg = b.known(b.expr(c, n.Expr), n.Expr)
	}
	k := &scalar.Case{Whens: make([]scalar.When, len(n.Whens))}
	results, at := make([]scalar.Expr, 0, len(n.Whens)+1), make([]any, 0, len(n.Whens)+1)
	for i, w := range n.Whens {
		if arg == nil {
			k.Whens[i].Cond = b.asBool(b.expr(c, w.Cond), "CASE/WHEN", w.Cond)
		} else {
			k.Whens[i].Cond = b.compare(scalar.EQ, arg, b.expr(c, w.Cond), w.Cond)
		}
		results = append(results, b.expr(c, w.Val))
		at = append(at, w.Val)
	}
	// The common type is determined beginning with ELSE, as in PostgreSQL: that matters to messages only.
	first := 0
	if n.Else != nil {
		results, at = append([]scalar.Expr{b.expr(c, n.Else)}, results...), append([]any{n.Else}, at...)
		first = 1
	}
	results, k.T = b.common("CASE", results, at...)
	for i := range k.Whens {
		k.Whens[i].Result = results[first+i]
	}
	if n.Else != nil {
		k.Else = results[0]
	}
	return k
}

func (b *builder) row(c *exprContext, n *tree.Tuple) scalar.Expr {
	if len(n.Exprs) > maxTargets {
		b.fail(sqlstate.TooManyColumns, n, "ROW expressions can have at most %d entries", maxTargets)
	}
	r := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	for _, e := range n.Exprs {
		if u, ok := e.(*tree.UnresolvedName); ok && u.Star && u.NumParts > 1 {
			if row := b.fieldsOf(b.starRow(c, u)); row != nil {
				r.Elems = append(r.Elems, row.Elems...)
				r.T.Fields = append(r.T.Fields, row.T.Fields...)
				continue
			}
		}
		x := b.expr(c, e)
		r.Elems = append(r.Elems, x)
		r.T.Fields = append(r.T.Fields, x.Type())
	}
	return r
}

func (b *builder) array(c *exprContext, n *tree.Array) scalar.Expr {
	elems := b.exprs(c, n.Exprs)
	if len(elems) == 0 {
		raise(b.at(sqlstate.New(sqlstate.IndeterminateDatatype, "cannot determine type of empty array").
			WithHint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."), n))
	}
	elems, t := b.common("ARRAY", elems, nodes(n.Exprs)...)
	return &scalar.ArrayCtor{Elems: elems, T: types.ArrayOf(t)}
}

// arrayAs binds ARRAY[...]::to[]: each element is cast to the type by itself, without a common type of all of them, as in PostgreSQL. If one is an
// array, all are.
func (b *builder) arrayAs(c *exprContext, n *tree.Array, to *types.T) scalar.Expr {
	elems, want := make([]scalar.Expr, len(n.Exprs)), to.Elem
	for i, e := range n.Exprs {
		if inner, ok := unparen(e).(*tree.Array); ok {
			if len(inner.Exprs) > 0 {
				elems[i] = b.arrayAs(c, inner, to)
			} else {
				elems[i] = &scalar.ArrayCtor{T: to}
			}
			want = to
			continue
		}
		if elems[i] = b.expr(c, e); elems[i].Type().Kind == types.KindArray {
			want = to
		}
	}
	for i, x := range elems {
		if from := x.Type(); from.Kind != types.KindUnknown && !types.CanCast(from, want, types.CastExplicit) {
			b.fail(sqlstate.CannotCoerce, n.Exprs[i], "cannot cast type %s to %s", from.Name(), want.Name())
		}
		elems[i] = b.coerce(x, want, types.CastExplicit, n.Exprs[i])
	}
	return &scalar.ArrayCtor{Elems: elems, T: to}
}

func (b *builder) indirection(c *exprContext, n *tree.IndirectionExpr) scalar.Expr {
	x := b.expr(c, n.Expr)
	t := x.Type()
	if t.Kind == types.KindJSONB {
		for _, s := range n.Indirection {
			x = b.jsonSubscript(c, x, s, n)
		}
		return x
	}
	if t.Kind == types.KindName && len(n.Indirection) == 1 && !n.Indirection[0].Slice { // a name's bytes count from zero
		one, sub := &scalar.Const{Value: types.NewInt(1), T: types.Int4}, n.Indirection[0].Begin
		at := b.operator("+", n, b.coerce(b.expr(c, sub), types.Int4, types.CastAssignment, sub), one)
		return b.call("substr", []scalar.Expr{x, at, one}, n)
	}
	if scalar.ElemType(t) == nil {
		b.fail(sqlstate.DatatypeMismatch, n, "cannot subscript type %s because it does not support subscripting", t.Name())
	}
	return scalar.NewSubscripts(x, b.subscripts(c, n.Indirection))
}

// subscripts binds the brackets behind an array.
func (b *builder) subscripts(c *exprContext, list tree.ArraySubscripts) []scalar.Subscript {
	number := func(e tree.Expr) scalar.Expr {
		if e == nil {
			return nil
		}
		x := b.expr(c, e)
		if t := x.Type(); t.Kind != types.KindUnknown && !types.CanCast(t, types.Int4, types.CastAssignment) {
			b.fail(sqlstate.DatatypeMismatch, e, "array subscript must have type integer")
		}
		return b.coerce(x, types.Int4, types.CastAssignment, e)
	}
	subs := make([]scalar.Subscript, len(list))
	for i, s := range list {
		subs[i].Slice = s.Slice
		if !s.Slice {
			subs[i].Upper = number(s.Begin)
			continue
		}
		subs[i].Lower, subs[i].Upper = number(s.Begin), number(s.End)
	}
	return subs
}

// jsonSubscript is jsonb[key] or jsonb[number].
func (b *builder) jsonSubscript(c *exprContext, x scalar.Expr, s *tree.ArraySubscript, at any) scalar.Expr {
	if s.Slice {
		b.fail(sqlstate.DatatypeMismatch, s.Begin, "jsonb subscript does not support slices")
	}
	key := b.expr(c, s.Begin)
	switch t := key.Type(); {
	case t.Kind == types.KindUnknown, t.IsString():
		key = b.coerce(key, types.Text, types.CastImplicit, s.Begin)
	case types.CanCast(t, types.Int4, types.CastImplicit):
		key = b.coerce(key, types.Int4, types.CastImplicit, s.Begin)
	default:
		raise(b.locate(sqlstate.New(sqlstate.DatatypeMismatch, "subscript type %s is not supported", t.Name()).
			WithHint("jsonb subscript must be coercible to either integer or text."), s.Begin))
	}
	// A subscript of type text may also be the number of an element.
	path := &scalar.ArrayCtor{Elems: []scalar.Expr{b.coerce(key, types.Text, types.CastExplicit, s.Begin)}, T: types.TextArray}
	return b.operator("#>", at, x, path)
}

// fieldAccess is (row).field; a field of a set-returning function's row becomes that column of it.
func (b *builder) fieldAccess(c *exprContext, n *tree.ColumnAccessExpr) scalar.Expr {
	if f, ok := unparen(n.Expr).(*tree.FuncExpr); ok {
		if cols := b.setColumns(c, f); cols != nil {
			for i := range cols {
				if cols[i].name == string(n.ColName) {
					return cols[i].ref()
				}
			}
			b.fail(sqlstate.UndefinedColumn, f, "column \"%s\" not found in data type record", n.ColName)
		}
	}
	if u, ok := unparen(n.Expr).(*tree.UnresolvedName); ok && u.NumParts < 3 && !u.Star {
		// A column that is a row, of a derived table.
		for s := c.scope; s != nil; s = s.parent {
			for i := range s.cols {
				col := &s.cols[i]
				if col.fields == nil || col.name != u.Parts[0] || u.NumParts == 2 && (col.rel == nil || col.rel.alias != u.Parts[1]) {
					continue
				}
				for j := range col.fields {
					if f := &col.fields[j]; f.name == string(n.ColName) {
						if s.level != c.scope.level {
							c.scope.level.readsColumn(s.level, f)
						}
						return f.ref()
					}
				}
				b.fail(sqlstate.UndefinedColumn, u, "column \"%s\" not found in data type record", n.ColName)
			}
		}
	}
	row := b.expr(c, n.Expr)
	t := row.Type()
	if t.Kind != types.KindTuple {
		b.fail(sqlstate.WrongObjectType, n.Expr, "column notation .%s applied to type %s, which is not a composite type", n.ColName, t.Name())
	}
	x := b.fieldNamed(row, string(n.ColName))
	u, named := unparen(n.Expr).(*tree.UnresolvedName)
	switch {
	case x != nil:
		return x
	case named && b.fieldsOf(row) != nil:
		b.fail(sqlstate.UndefinedColumn, n.Expr, "column %s.%s does not exist", u.Parts[0], n.ColName)
	case t.Row != "":
		b.fail(sqlstate.UndefinedColumn, n.Expr, "column \"%s\" not found in data type %s", n.ColName, t.Row)
	case len(t.Names) > 0:
		b.fail(sqlstate.UndefinedColumn, n.Expr, "column \"%s\" not found in data type record", n.ColName)
	}
	if k, ok := row.(*scalar.RowCtor); ok && scalar.VolatilityOf(k) != scalar.Volatile { // whose fields are f1, f2, ...
		for i, e := range k.Elems {
			if string(n.ColName) == "f"+itoa(i+1) {
				return e
			}
		}
	}
	b.fail(sqlstate.UndefinedColumn, n.Expr, "could not identify column \"%s\" in record data type", n.ColName)
	return nil
}

// fieldNamed is the field of a row by the name that the statement has for it; nil if there is none.
func (b *builder) fieldNamed(row scalar.Expr, name string) scalar.Expr {
	t := row.Type()
	if t.Kind != types.KindTuple {
		return nil
	}
	if names := b.renamedRows[row]; names != nil {
		renamed := *t
		renamed.Names = names
		t = &renamed
	}
	if r, ok := row.(*scalar.RowCtor); ok && t.Names == nil { // whose fields are f1, f2 and so on
		for i := range r.Elems {
			if name == "f"+itoa(i+1) {
				return r.Elems[i]
			}
		}
	}
	return scalar.FieldNamed(row, t, name)
}

// callArgs binds the arguments of a call; t.* among them is the row of t.
func (b *builder) callArgs(c *exprContext, es tree.Exprs) []scalar.Expr {
	out := make([]scalar.Expr, len(es))
	for i, e := range es {
		if u, ok := e.(*tree.UnresolvedName); ok && u.Star && u.NumParts > 1 {
			out[i] = b.starRow(c, u)
			continue
		}
		out[i] = b.expr(c, e)
	}
	return out
}

// starRow is the row that t.* stands for where one value is wanted.
func (b *builder) starRow(c *exprContext, u *tree.UnresolvedName) scalar.Expr {
	for s := c.scope; s != nil; s = s.parent {
		if r := b.findRelation(s, u); r != nil {
			return b.wholeRow(c.scope, s, r)
		}
	}
	b.missingFrom(c.scope, u.Parts[1], u)
	return nil
}
