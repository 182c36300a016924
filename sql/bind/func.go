package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func fold(s string) string { return parse.Fold(s) }

// functionName is the unqualified name of a call, and functionSchema its schema or empty.
func functionName(n *tree.FuncExpr) string {
	switch r := n.Func.FunctionReference.(type) {
	case *tree.UnresolvedName:
		return r.Parts[0]
	case *tree.FunctionDefinition:
		return strings.ToLower(r.Name)
	}
	return strings.ToLower(n.Func.String())
}

func functionSchema(n *tree.FuncExpr) string {
	if r, ok := n.Func.FunctionReference.(*tree.UnresolvedName); ok && r.NumParts > 1 {
		return r.Parts[1]
	}
	return ""
}

// parameterlessFunction recognises names that PostgreSQL calls without parentheses and the grammar leaves as names.
func (b *builder) parameterlessFunction(c *exprContext, n *tree.UnresolvedName) scalar.Expr {
	if n.NumParts != 1 {
		return nil
	}
	switch n.Parts[0] {
	case "current_catalog", "current_role", "session_user", "current_user", "user", "current_schema":
		for sc := c.scope; sc != nil; sc = sc.parent {
			if b.findColumn(sc, n.Parts[0], n) != nil {
				return nil
			}
		}
		name := n.Parts[0]
		switch name {
		case "current_catalog":
			name = "current_database"
		case "current_role", "user":
			name = "current_user"
		}
		return b.call(name, nil, n)
	}
	return nil
}

// function binds a call of any sort.
func (b *builder) function(c *exprContext, n *tree.FuncExpr) scalar.Expr {
	name := functionName(n)
	if len(n.OrderBy) > 1 {
		if key, ok := n.OrderBy[0].Expr.(*tree.FuncExpr); ok && functionName(key) == parse.DistinctKey {
			n.Type, n.OrderBy = tree.DistinctFuncType, n.OrderBy[1:]
		}
	}
	b.arrange(c, n)
	switch s := functionSchema(n); s {
	case "", "pg_catalog", "information_schema", "public":
	default:
		db, err := b.View.Schema(b.ctx, b.View.CurrentDatabase(), s)
		check(err)
		if db == nil {
			b.fail(sqlstate.InvalidSchemaName, n, "schema \"%s\" does not exist", s)
		}
		b.fail(sqlstate.UndefinedFunction, n, "function %s.%s does not exist", s, name)
	}
	switch name {
	case "json_remove_path": // the grammar's name for the operator #-
		if len(n.Exprs) == 2 {
			return b.operator("#-", n, b.expr(c, n.Exprs[0]), b.expr(c, n.Exprs[1]))
		}
	case "normalize": // whose form is a word
		if len(n.Exprs) == 2 {
			if u, ok := n.Exprs[1].(*tree.UnresolvedName); ok && u.NumParts == 1 {
				switch form := u.Parts[0]; form {
				case "nfc", "nfd", "nfkc", "nfkd":
					n.Exprs[1] = tree.NewStrVal(strings.ToUpper(form))
				}
			}
		}
	case "json_to_record", "jsonb_to_record", "json_to_recordset", "jsonb_to_recordset":
		if len(n.Exprs) == 1 {
			b.fail(sqlstate.FeatureNotSupported, n, "could not determine row type for result of %s", name)
		}
	}
	b.lackFunction(n, name)
	if n.WindowDef != nil {
		return b.windowCall(c, n, name)
	}
	if b.Registry.IsAggregate(name) && (!b.Registry.IsFunction(name) || n.Type == tree.DistinctFuncType) {
		return b.aggregate(c, n, name)
	}
	if _, ok := windowFunction(name); ok && !b.Registry.IsFunction(name) {
		b.fail(sqlstate.WrongObjectType, n, "window function %s requires an OVER clause", name)
	}
	b.onlyAggregates(n, name)
	if b.Registry.IsSet(name) || strings.HasSuffix(name, "_populate_recordset") {
		return b.setRow(c, n)
	}
	if len(n.Exprs) > maxArgs && name != "greatest" && name != "least" {
		b.fail(sqlstate.TooManyArguments, n, "cannot pass more than %d arguments to a function", maxArgs)
	}
	args := b.callArgs(c, n.Exprs)
	switch name {
	case "greatest", "least":
		if len(args) > 0 {
			args, _ = b.common(strings.ToUpper(name), args, nodes(n.Exprs)...)
		}
	case "enum_first", "enum_last", "enum_range":
		if e := b.enumFunction(name, args); e != nil {
			return e
		}
	case "inet_contained_by_or_equals": // the grammar's name for <<=, and the next one is that for >>=
		return b.operator("<<=", n, args...)
	case "inet_contains_or_equals":
		return b.operator(">>=", n, args...)
	case "like_escape", "ilike_escape", "similar_to_escape", "not_like_escape", "not_ilike_escape", "not_similar_to_escape":
		if len(args) != 3 {
			break // called by its name, not as an operator
		}
		return b.likeEscape(name, args, n)
	}
	if len(args) == 1 && !b.Registry.IsFunction(name) {
		// A function call may be a cast: int4(x), text(x).
		if t, ok := types.FromName(name); ok {
			if args[0].Type().Kind == types.KindUnknown || types.CanCast(args[0].Type(), t, types.CastExplicit) {
				return b.coerce(args[0], t, types.CastExplicit, n)
			}
		}
		// Or the field of a row.
		if x := b.fieldNamed(args[0], name); x != nil {
			return x
		}
	}
	return b.call(name, args, n)
}

// onlyAggregates refuses clauses that a call of another function than an aggregate may not have.
func (b *builder) onlyAggregates(n *tree.FuncExpr, name string) {
	if n.Type == tree.DistinctFuncType {
		b.fail(sqlstate.WrongObjectType, n, "DISTINCT specified, but %s is not an aggregate function", name)
	}
	if n.Filter != nil {
		b.fail(sqlstate.WrongObjectType, n, "FILTER specified, but %s is not an aggregate function", name)
	}
	if len(n.OrderBy) > 0 {
		b.fail(sqlstate.WrongObjectType, n, "ORDER BY specified, but %s is not an aggregate function", name)
	}
	if len(n.Exprs) == 1 {
		if _, star := n.Exprs[0].(tree.UnqualifiedStar); star {
			b.fail(sqlstate.WrongObjectType, n, "%s(*) specified, but %s is not an aggregate function", name, name)
		}
	}
}

// setRow binds a set-returning function in a select list: its column, or a row of its columns.
func (b *builder) setRow(c *exprContext, n *tree.FuncExpr) scalar.Expr {
	cols := b.setColumns(c, n)
	if len(cols) == 1 {
		return cols[0].ref()
	}
	row := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	for i := range cols {
		row.Elems = append(row.Elems, cols[i].ref())
		row.T.Fields = append(row.T.Fields, cols[i].t)
		row.T.Names = append(row.T.Names, cols[i].name)
	}
	if b.rowFields == nil {
		b.rowFields = map[*scalar.RowCtor][]column{}
	}
	b.rowFields[row] = cols
	return row
}

// likeEscape binds LIKE ... ESCAPE: the registry's functions take the pattern with its escape character.
func (b *builder) likeEscape(name string, args []scalar.Expr, n *tree.FuncExpr) scalar.Expr {
	base, not := strings.CutPrefix(name, "not_")
	x, pattern, escape := args[0], args[1], args[2]
	var res scalar.Expr
	if base == "similar_to_escape" {
		res = b.operator("~", n, x, b.call("similar_to_escape", []scalar.Expr{pattern, escape}, n))
	} else {
		// like_escape(pattern, escape) rewrites the pattern to the default escape character.
		op := "~~"
		if base == "ilike_escape" {
			op = "~~*"
		}
		res = b.operator(op, n, x, b.call("like_escape", []scalar.Expr{pattern, escape}, n))
	}
	if not {
		return &scalar.Not{Arg: res}
	}
	return res
}

func callText(name string, args []scalar.Expr) string {
	var s strings.Builder
	s.WriteString(name + "(")
	for i, a := range args {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(a.Type().Name())
	}
	return s.String() + ")"
}
