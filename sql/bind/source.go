package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree/treecmp"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// source is the text that is bound now: the user's statement, or within it a stored expression or the query of a view. It finds the position of a
// node of the syntax tree in the user's text, for errors. Nodes of stored text have no position.
type source struct {
	stmt *parse.Statement
	// home is the table or view whose stored text this is: names are looked up in its database and schema first. Nil for the user's text.
	home *catalog.Table
	// as is the role whose rights count: the owner of a view in the view's query; empty: the current role.
	as string
	// views is the depth of nested views in which the text is.
	views int
}

// maxViews bounds views that read views.
const maxViews = 64

// inExpression is the source of a stored expression of table t. It is bound by the rights of the text that uses the table.
func (s source) inExpression(t *catalog.Table, stmt *parse.Statement) source {
	s.stmt, s.home = stmt, t
	return s
}

// inView is the source of a view's query, which is bound by the rights of the view's owner, or with security_invoker of the role that runs the
// statement, even in a view of another owner.
func (s source) inView(view *catalog.Table, stmt *parse.Statement) source {
	inner := source{stmt: stmt, home: view, as: view.Owner, views: s.views + 1}
	if view.SecurityInvoker() {
		inner.as = ""
	}
	return inner
}

// fail raises an error at a node of the syntax tree; nil has no position.
func (s *source) fail(code sqlstate.Code, at any, format string, args ...any) {
	raise(s.at(sqlstate.New(code, format, args...), at))
}

// at sets the position of a node, unless the error has one already or the text is not the user's.
func (s *source) at(e *sqlstate.Error, node any) *sqlstate.Error {
	if e.Position == 0 && node != nil && s.home == nil {
		e.Position = s.pos(node)
	}
	return e
}

// locate adds a position to an error of another package, if it is a *sqlstate.Error.
func (s *source) locate(err error, node any) error {
	if e, ok := err.(*sqlstate.Error); ok {
		return s.at(e, node)
	}
	return err
}

// pos is the 1-based position of a node, or zero.
func (s *source) pos(node any) int {
	if node == nil || s.stmt == nil {
		return 0
	}
	return s.places().pos(node)
}

func (s *source) places() *placer { return &placer{Places: s.stmt.Places(), stmt: s.stmt} }

// placer finds the positions of nodes of the syntax tree: that of an expression is where its text begins, as PostgreSQL has it, without
// parentheses around it.
type placer struct {
	*parse.Places
	stmt *parse.Statement
}

// pos is the 1-based position of a node, or zero.
func (p *placer) pos(node any) int {
	if i := p.start(node); i >= 0 {
		return p.Pos(i)
	}
	return p.guess(node)
}

// start is the token at which a node begins, or -1.
func (p *placer) start(node any) int {
	switch n := node.(type) {
	case nil:
		return -1
	case string:
		return p.Of(n)
	case tree.Name:
		return p.Of(string(n))
	case *tree.Name:
		return p.Of(string(*n))
	case tree.UnrestrictedName:
		return p.Of(string(n))
	case *tree.StrVal:
		return p.Of(n.RawString())
	case *tree.NumVal:
		i := p.Of(n.OrigString())
		if i > 0 && strings.HasPrefix(n.String(), "-") && p.Text(i-1) == "-" {
			i--
		}
		return i
	case *tree.FuncExpr:
		return p.startCall(n)
	case *tree.UnaryExpr:
		return p.startUnary(n)
	case *tree.CastExpr:
		return p.startCast(n)
	case *tree.ParenExpr:
		return p.start(n.Expr)
	case *tree.NotExpr:
		return p.Before(p.start(n.Expr), "not")
	case *tree.ComparisonExpr:
		return p.start(n.Left)
	case *tree.BinaryExpr:
		return p.start(n.Left)
	case *tree.AndExpr:
		return p.start(n.Left)
	case *tree.OrExpr:
		return p.start(n.Left)
	case *tree.IsNullExpr:
		return p.start(n.Expr)
	case *tree.IsNotNullExpr:
		return p.start(n.Expr)
	case *tree.RangeCond:
		return p.start(n.Left)
	case *tree.CollateExpr:
		return p.start(n.Expr)
	case *tree.IndirectionExpr:
		return p.start(n.Expr)
	case *tree.ColumnAccessExpr:
		return p.start(n.Expr)
	case *tree.CaseExpr:
		return p.startCaseExpr(n)
	case *tree.CoalesceExpr, *tree.NullIfExpr, *tree.IfExpr:
		if i, _ := p.Extent(n); i >= 0 {
			return p.callOf(i)
		}
		return -1
	case *tree.Array:
		return p.startArray(n)
	case *tree.ArrayFlatten:
		if i := p.start(n.Subquery); i > 0 && p.Text(i-1) == "array" {
			return i - 1
		}
		return -1
	case *tree.Tuple:
		return p.startTuple(n)
	case *tree.Subquery:
		return p.startSubquery(n)
	case *tree.Select:
		i, _ := p.Extent(n)
		return i
	}
	switch node.(type) {
	case *tree.UnresolvedName, *tree.UnresolvedObjectName, *tree.TableName:
		i, _ := p.Extent(node)
		return i
	}
	i, _ := p.Extent(node)
	return i
}

// startCall is the token at which a node begins that is a call: at its name.
func (p *placer) startCall(n *tree.FuncExpr) int {
	if i, _ := p.Extent(n.Func); i >= 0 {
		return i
	}
	if len(n.Exprs) > 0 {
		if i, _ := p.Extent(&n.Exprs); i >= 0 {
			return p.callOf(i)
		}
	}
	return -1
}

// startUnary is the token at which a node begins that is a unary operator.
func (p *placer) startUnary(n *tree.UnaryExpr) int {
	if i := p.start(n.Expr); i > 0 {
		for ; i > 0 && p.Text(i-1) == "("; i-- {
		}
		if i > 0 {
			return i - 1
		}
	}
	return -1
}

// startCast is the token at which a node begins that is a cast, by whichever of its three forms.
func (p *placer) startCast(n *tree.CastExpr) int {
	i := p.start(n.Expr)
	switch n.SyntaxMode {
	case tree.CastExplicit:
		if open := p.Opening(i); open > 0 && p.Text(open-1) == "cast" {
			return open - 1
		}
	case tree.CastPrepend:
		if t, _ := p.Extent(&n.Type); t >= 0 && t < i {
			return t
		}
	}
	return i
}

// startCaseExpr is the token at which a node begins that is CASE: at the word that belongs to its first part.
func (p *placer) startCaseExpr(n *tree.CaseExpr) int {
	first, _ := p.Extent(n)
	for depth, i := 0, first-1; i >= 0; i-- {
		switch p.Text(i) {
		case "end":
			depth++
		case "case":
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// startArray is the token at which a node begins that is ARRAY[...].
func (p *placer) startArray(n *tree.Array) int {
	if i, _ := p.Extent(n); i >= 0 {
		for open := p.Opening(i); open > 0; open = p.Opening(open) {
			if p.Text(open-1) == "array" {
				return open - 1
			}
		}
	}
	return -1
}

// startTuple is the token at which a node begins that is a row: at the word ROW, or at the parenthesis.
func (p *placer) startTuple(n *tree.Tuple) int {
	if i, _ := p.Extent(n); i >= 0 {
		if open := p.Opening(i); open > 0 && n.Row && p.Text(open-1) == "row" {
			return open - 1
		} else if open >= 0 {
			return open
		}
	}
	return -1
}

// startSubquery is the token at which a node begins that is a subquery: at its parenthesis, or at EXISTS.
func (p *placer) startSubquery(n *tree.Subquery) int {
	i, _ := p.Extent(n)
	for i = p.Opening(i); i >= 0; i = p.Opening(i) {
		if next := p.Text(i + 1); next != "select" && next != "values" && next != "with" && next != "table" {
			continue
		}
		if n.Exists && i > 0 {
			i--
		}
		return i
	}
	return -1
}

// callOf is the name in front of the parenthesis around token i, or in front of a parenthesis around that.
func (p *placer) callOf(i int) int {
	for open := p.Opening(i); open > 0; open = p.Opening(open) {
		if c := p.Text(open - 1)[0]; c >= 'a' && c <= 'z' || c == '_' || c == '"' {
			return open - 1
		}
	}
	return -1
}

// guess is the position of the first text that may stand for a node without a name or a constant, or zero.
func (p *placer) guess(node any) int {
	switch n := node.(type) {
	case string:
		return p.stmt.FindWord(n, 0)
	case tree.Name:
		return p.guess(string(n))
	case *tree.Name:
		return p.guess(string(*n))
	case tree.UnrestrictedName:
		return p.guess(string(n))
	case *tree.UnresolvedName:
		return p.guess(n.Parts[0])
	case *tree.UnresolvedObjectName:
		return p.guess(n.Parts[n.NumParts-1])
	case *tree.TableName:
		return p.guess(string(n.ObjectName))
	case *tree.StrVal:
		return p.stmt.FindString(n.RawString(), 0)
	case tree.UnqualifiedStar:
		return p.stmt.FindText("*", 0)
	case *tree.DBool:
		return p.stmt.FindWord(strings.ToLower(n.String()), 0)
	case *tree.NumVal:
		return p.stmt.FindText(n.OrigString(), 0)
	case *tree.Placeholder:
		return p.stmt.FindText("$"+itoa(int(n.Idx)+1), 0)
	case *tree.FuncExpr:
		return p.guess(functionName(n))
	case *tree.UnaryExpr:
		return p.stmt.FindText(n.Operator.Symbol.String(), 0)
	case *tree.NotExpr:
		return p.stmt.FindWord("not", 0)
	case *tree.CaseExpr:
		return p.stmt.FindWord("case", 0)
	case *tree.CoalesceExpr:
		return p.stmt.FindWord(strings.ToLower(n.Name), 0)
	case *tree.NullIfExpr:
		return p.stmt.FindWord("nullif", 0)
	case *tree.Array, *tree.ArrayFlatten:
		return p.stmt.FindWord("array", 0)
	case *tree.ComparisonExpr:
		return p.guess(n.Left)
	case *tree.BinaryExpr:
		return p.guess(n.Left)
	case *tree.CastExpr:
		return p.guess(n.Expr)
	case *tree.ParenExpr:
		return p.guess(n.Expr)
	case *tree.AndExpr:
		return p.guess(n.Left)
	case *tree.OrExpr:
		return p.guess(n.Left)
	case *tree.IsNullExpr:
		return p.guess(n.Expr)
	case *tree.IsNotNullExpr:
		return p.guess(n.Expr)
	case *tree.RangeCond:
		return p.guess(n.Left)
	case *tree.Tuple:
		if len(n.Exprs) > 0 {
			return p.guess(n.Exprs[0])
		}
	case *tree.IndirectionExpr:
		return p.guess(n.Expr)
	}
	if node == tree.DNull {
		return p.stmt.FindWord("null", 0)
	}
	return 0
}

// failKey raises an error at the key that has the column or is one of a column: PostgreSQL's position is where the constraint begins.
func (s *source) failKey(code sqlstate.Code, column tree.Name, format string, args ...any) {
	e := sqlstate.New(code, format, args...)
	if s.home == nil && s.stmt != nil {
		e.Position = s.places().key(column)
	}
	raise(e)
}

// key is the position of the constraint of a column, or of the constraint in whose list it is; zero: it is not in the text.
func (p *placer) key(column tree.Name) int {
	at := p.Of(string(column))
	if at < 0 {
		return 0
	}
	i := p.Opening(at)
	switch {
	case i > 0 && p.Text(i-1) == "unique":
		i--
	case i > 1 && p.Text(i-1) == "key" && p.Text(i-2) == "primary":
		i -= 2
	case i > 0 && (p.Text(i-1) == "include" || p.Text(i-1) == "storing"):
		for i--; i > 0 && p.Text(i) != "unique" && p.Text(i) != "primary"; i-- {
		}
	default:
		i = p.Next(at+1, "primary", "unique")
	}
	if i > 1 && p.Text(i-2) == "constraint" {
		i -= 2
	}
	return p.Pos(i)
}

// literalPos is the position of a literal whose type is not known yet, or zero.
func (s *source) literalPos(e scalar.Expr) int {
	if k, ok := e.(*scalar.Const); ok && k.T.Kind == types.KindUnknown && s.home == nil {
		if p := s.places(); p.Of(k.Value.Str()) >= 0 {
			return p.Pos(p.Of(k.Value.Str()))
		}
		return s.stmt.FindString(k.Value.Str(), 0)
	}
	return 0
}

// columnPos is the position of a column's name in a node, or else of its first qualified occurrence in the text, or its first one.
func (s *source) columnPos(c *column, at any) int {
	if s.home != nil {
		return 0
	}
	p := s.places()
	if _, star := at.(tree.UnqualifiedStar); star {
		if i := p.pos(at); i > 0 {
			return i
		}
	}
	if at != nil {
		if i := p.columnIn(c, at); i >= 0 {
			return p.Pos(i)
		}
	}
	if c.rel != nil {
		if i := s.stmt.FindQualified(c.rel.alias, c.name); i > 0 {
			return i
		}
	}
	return s.stmt.FindWord(c.name, 0)
}

// columnIn is the token at which a column's name in a node begins, or -1.
func (p *placer) columnIn(c *column, at any) int {
	best := -1
	parse.Strings(at, func(text string) {
		i := p.Of(text)
		if text != c.name || i < 0 || p.Text(i+1) == "." || p.Text(i+1) == "(" {
			return
		}
		for ; i > 1 && p.Text(i-1) == "."; i -= 2 {
		}
		if best < 0 || i < best {
			best = i
		}
	})
	return best
}

// locateOp is locate for an error about an operator: the position is that of the operator, not of its first operand.
func (s *source) locateOp(err error, node any) error {
	e, ok := err.(*sqlstate.Error)
	if !ok || e.Position != 0 || s.home != nil {
		return err
	}
	if i := s.places().operator(node); i > 0 {
		e.Position = i
	}
	return s.at(e, node)
}

// operator is the position of a node's operator, or zero.
func (p *placer) operator(node any) int {
	if i := p.operatorToken(node); i >= 0 {
		return p.Pos(i)
	}
	switch n := node.(type) {
	case *tree.CastExpr:
		if i := p.stmt.FindText("::", 0); n.SyntaxMode == tree.CastShort && i > 0 {
			return i
		}
		return p.pos(n)
	case *tree.NullIfExpr:
		return p.pos(n)
	case *tree.ComparisonExpr:
		for _, t := range operatorTexts(cmpSymbol(n)) {
			if i := p.stmt.FindText(t, p.guess(n.Left)); i > 0 {
				return i
			}
		}
	case *tree.BinaryExpr:
		return p.stmt.FindText(n.Operator.Symbol.String(), p.guess(n.Left))
	}
	return 0
}

// end is the last token of an expression that is known, or -1.
func (p *placer) end(node tree.Expr) int {
	if n, ok := unparen(node).(*tree.BinaryExpr); ok {
		if right := p.end(n.Right); right >= 0 {
			return right
		}
		if i := p.operatorToken(n); i >= 0 {
			return i + 1 // a constant without a text of its own, such as NULL
		}
	}
	_, last := p.Extent(node)
	return last
}

// operatorToken is a node's operator, or -1.
func (p *placer) operatorToken(node any) int {
	var left, right tree.Expr
	var texts []string
	switch n := node.(type) {
	case *tree.ComparisonExpr:
		left, right = n.Left, n.Right
		texts = operatorTexts(cmpSymbol(n))
		switch n.Operator.Symbol {
		case treecmp.In, treecmp.NotIn:
			texts = []string{"in"}
			if n.Operator.Symbol == treecmp.NotIn {
				texts = []string{"not"}
			}
		case treecmp.Any, treecmp.Some, treecmp.All:
			texts = operatorTexts(n.SubOperator.Symbol.String())
		}
	case *tree.BinaryExpr:
		left, right = n.Left, n.Right
		texts = operatorTexts(n.Operator.Symbol.String())
	case *tree.RangeCond:
		left, right = n.Left, n.From
		texts = []string{"between"}
		if n.Not {
			texts = []string{"not"}
		}
	case *tree.CastExpr:
		if n.SyntaxMode == tree.CastShort {
			if inner, ok := n.Expr.(*tree.CastExpr); ok && inner.SyntaxMode == tree.CastShort { // the end of its type is not known
				if i := p.operatorToken(inner); i >= 0 {
					return p.Next(i+1, "::")
				}
			}
			if last := p.end(n.Expr); last >= 0 {
				return p.Next(last+1, "::")
			}
			if first, _ := p.Extent(&n.Type); first >= 0 {
				return p.Before(first, "::")
			}
		}
		return -1
	default:
		return -1
	}
	if last := p.end(left); last >= 0 {
		if i := p.Next(last+1, texts...); i >= 0 {
			return i
		}
	}
	if first := p.start(right); first >= 0 {
		for i := first - 1; i >= 0; i-- {
			for _, t := range texts {
				if p.Text(i) == t {
					return i
				}
			}
		}
	}
	return -1
}

// operatorTexts are the spellings of an operator's first token, in lower case.
func operatorTexts(symbol string) []string {
	switch symbol = strings.ToLower(symbol); symbol {
	case "<>", "!=":
		return []string{"<>", "!="}
	case "":
		return nil
	}
	word, _, _ := strings.Cut(symbol, " ")
	return []string{word}
}
