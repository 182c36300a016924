package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

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
	switch n := node.(type) {
	case nil:
		return 0
	case string:
		if p := s.stmt.PosOf(n); p > 0 {
			return p
		}
		return s.stmt.FindWord(n, 0)
	case tree.Name:
		return s.pos(string(n))
	case *tree.Name:
		return s.pos(string(*n))
	case tree.UnrestrictedName:
		return s.pos(string(n))
	case *tree.UnresolvedName:
		for i := n.NumParts - 1; i >= 0; i-- {
			if p := s.pos(n.Parts[i]); p > 0 && n.Parts[i] != "" {
				return p
			}
		}
	case *tree.UnresolvedObjectName:
		return s.pos(n.Parts[n.NumParts-1])
	case *tree.TableName:
		switch {
		case n.ExplicitCatalog:
			return s.pos(string(n.CatalogName))
		case n.ExplicitSchema:
			return s.pos(string(n.SchemaName))
		}
		return s.pos(string(n.ObjectName))
	case *tree.StrVal:
		return s.stmt.FindString(n.RawString(), 0)
	case tree.UnqualifiedStar:
		return s.stmt.FindText("*", 0)
	case *tree.DBool:
		return s.stmt.FindWord(strings.ToLower(n.String()), 0)
	case *tree.NumVal:
		if p := s.stmt.PosOf(n.OrigString()); p > 0 {
			return p
		}
		return s.stmt.FindText(n.OrigString(), 0)
	case *tree.Placeholder:
		return s.stmt.FindText("$"+itoa(int(n.Idx)+1), 0)
	case *tree.FuncExpr:
		if u, ok := n.Func.FunctionReference.(*tree.UnresolvedName); ok {
			return s.pos(u)
		}
		return s.pos(functionName(n))
	case *tree.ComparisonExpr:
		return s.pos(n.Left)
	case *tree.BinaryExpr:
		return s.pos(n.Left)
	case *tree.UnaryExpr:
		return s.stmt.FindText(n.Operator.Symbol.String(), 0)
	case *tree.CastExpr:
		return s.pos(n.Expr)
	case *tree.ParenExpr:
		return s.pos(n.Expr)
	case *tree.AndExpr:
		return s.pos(n.Left)
	case *tree.OrExpr:
		return s.pos(n.Left)
	case *tree.NotExpr:
		return s.stmt.FindWord("not", 0)
	case *tree.IsNullExpr:
		return s.pos(n.Expr)
	case *tree.IsNotNullExpr:
		return s.pos(n.Expr)
	case *tree.RangeCond:
		return s.pos(n.Left)
	case *tree.CaseExpr:
		return s.stmt.FindWord("case", 0)
	case *tree.CoalesceExpr:
		return s.stmt.FindWord(strings.ToLower(n.Name), 0)
	case *tree.Tuple:
		if len(n.Exprs) > 0 {
			return s.pos(n.Exprs[0])
		}
	case *tree.IndirectionExpr:
		return s.pos(n.Expr)
	}
	return 0
}

// literalPos is the position of a literal whose type is not known yet, or zero.
func (s *source) literalPos(e scalar.Expr) int {
	if k, ok := e.(*scalar.Const); ok && k.T.Kind == types.KindUnknown && s.home == nil {
		return s.stmt.FindString(k.Value.Str(), 0)
	}
	return 0
}

// columnPos is the position of a column's name: at the node if that is a name or a star, elsewhere its first qualified occurrence in the text, or
// its first occurrence.
func (s *source) columnPos(c *column, at any) int {
	if s.home != nil {
		return 0
	}
	_, named := at.(*tree.UnresolvedName)
	if c.rel != nil && !named {
		if p := s.stmt.FindQualified(c.rel.alias, c.name); p > 0 {
			return p
		}
	}
	switch at.(type) {
	case tree.UnqualifiedStar, *tree.UnresolvedName:
		if p := s.pos(at); p > 0 {
			return p
		}
	}
	return s.stmt.FindWord(c.name, 0)
}

// locateOp is locate for an error about an operator: the position is that of the operator, not of its first operand.
func (s *source) locateOp(err error, node any) error {
	e, ok := err.(*sqlstate.Error)
	if !ok || e.Position != 0 || s.home != nil {
		return err
	}
	switch n := node.(type) {
	case *tree.ComparisonExpr:
		e.Position = s.operatorPos(cmpSymbol(n), n.Left)
	case *tree.BinaryExpr:
		e.Position = s.operatorPos(n.Operator.Symbol.String(), n.Left)
	}
	return s.at(e, node)
}

// operatorPos is the position of an operator, which follows its left operand.
func (s *source) operatorPos(symbol string, left tree.Expr) int {
	if p := s.stmt.FindText(symbol, s.pos(left)); p > 0 {
		return p
	}
	if symbol == "<>" {
		return s.stmt.FindText("!=", s.pos(left))
	}
	return 0
}
