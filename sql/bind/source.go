package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/sqlstate"
)

// fail raises an error at a node of the syntax tree; nil has no position.
func (b *builder) fail(code sqlstate.Code, at any, format string, args ...any) {
	raise(b.at(sqlstate.New(code, format, args...), at))
}

// at sets the position of a node, unless the error has one already or the text is not the user's.
func (b *builder) at(e *sqlstate.Error, node any) *sqlstate.Error {
	if e.Position == 0 && node != nil && b.home == nil {
		e.Position = b.pos(node)
	}
	return e
}

// locate adds a position to an error from below, if it is one of ours.
func (b *builder) locate(err error, node any) error {
	if e, ok := err.(*sqlstate.Error); ok {
		return b.at(e, node)
	}
	return err
}

// pos is the 1-based position of a node, or zero.
func (b *builder) pos(node any) int {
	switch n := node.(type) {
	case nil:
		return 0
	case string:
		if p := b.stmt.PosOf(n); p > 0 {
			return p
		}
		return b.stmt.FindWord(n, 0)
	case tree.Name:
		return b.pos(string(n))
	case *tree.Name:
		return b.pos(string(*n))
	case tree.UnrestrictedName:
		return b.pos(string(n))
	case *tree.UnresolvedName:
		for i := n.NumParts - 1; i >= 0; i-- {
			if p := b.pos(n.Parts[i]); p > 0 && n.Parts[i] != "" {
				return p
			}
		}
	case *tree.UnresolvedObjectName:
		return b.pos(n.Parts[n.NumParts-1])
	case *tree.TableName:
		switch {
		case n.ExplicitCatalog:
			return b.pos(string(n.CatalogName))
		case n.ExplicitSchema:
			return b.pos(string(n.SchemaName))
		}
		return b.pos(string(n.ObjectName))
	case *tree.StrVal:
		return b.stmt.FindString(n.RawString(), 0)
	case tree.UnqualifiedStar:
		return b.stmt.FindText("*", 0)
	case *tree.DBool:
		return b.stmt.FindWord(strings.ToLower(n.String()), 0)
	case *tree.NumVal:
		if p := b.stmt.PosOf(n.OrigString()); p > 0 {
			return p
		}
		return b.stmt.FindText(n.OrigString(), 0)
	case *tree.Placeholder:
		return b.stmt.FindText("$"+itoa(int(n.Idx)+1), 0)
	case *tree.FuncExpr:
		if u, ok := n.Func.FunctionReference.(*tree.UnresolvedName); ok {
			return b.pos(u)
		}
		return b.pos(functionName(n))
	case *tree.ComparisonExpr:
		return b.pos(n.Left)
	case *tree.BinaryExpr:
		return b.pos(n.Left)
	case *tree.UnaryExpr:
		return b.stmt.FindText(n.Operator.Symbol.String(), 0)
	case *tree.CastExpr:
		return b.pos(n.Expr)
	case *tree.ParenExpr:
		return b.pos(n.Expr)
	case *tree.AndExpr:
		return b.pos(n.Left)
	case *tree.OrExpr:
		return b.pos(n.Left)
	case *tree.NotExpr:
		return b.stmt.FindWord("not", 0)
	case *tree.IsNullExpr:
		return b.pos(n.Expr)
	case *tree.IsNotNullExpr:
		return b.pos(n.Expr)
	case *tree.RangeCond:
		return b.pos(n.Left)
	case *tree.CaseExpr:
		return b.stmt.FindWord("case", 0)
	case *tree.CoalesceExpr:
		return b.stmt.FindWord(strings.ToLower(n.Name), 0)
	case *tree.Tuple:
		if len(n.Exprs) > 0 {
			return b.pos(n.Exprs[0])
		}
	case *tree.IndirectionExpr:
		return b.pos(n.Expr)
	}
	return 0
}

// locateOp is locate for an error about an operator: it points at the operator, not at its first operand.
func (b *builder) locateOp(err error, node any) error {
	e, ok := err.(*sqlstate.Error)
	if !ok || e.Position != 0 || b.home != nil {
		return err
	}
	switch n := node.(type) {
	case *tree.ComparisonExpr:
		e.Position = b.operatorPos(cmpSymbol(n), n.Left)
	case *tree.BinaryExpr:
		e.Position = b.operatorPos(n.Operator.Symbol.String(), n.Left)
	}
	return b.at(e, node)
}

// operatorPos is where the operator after its left operand stands.
func (b *builder) operatorPos(symbol string, left tree.Expr) int {
	if p := b.stmt.FindText(symbol, b.pos(left)); p > 0 {
		return p
	}
	if symbol == "<>" {
		return b.stmt.FindText("!=", b.pos(left))
	}
	return 0
}
