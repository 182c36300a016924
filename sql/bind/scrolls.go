package bind

import (
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/parse"
)

// Scrolls reports whether PostgreSQL could run a query backward without keeping its rows, as it can a scan of one relation, and rows that it has
// sorted. pg_cursors shows it.
func Scrolls(stmt *parse.Statement) bool {
	sel, ok := stmt.Node.(*tree.Select)
	if !ok {
		return false
	}
	if len(sel.OrderBy) > 0 {
		return true
	}
	c, ok := sel.Select.(*tree.SelectClause)
	if !ok || len(c.From.Tables) != 1 || len(c.GroupBy) > 0 || c.Having != nil || c.Distinct {
		return false
	}
	from := c.From.Tables[0]
	if a, ok := from.(*tree.AliasedTableExpr); ok {
		from = a.Expr
	}
	_, table := from.(*tree.TableName)
	return table
}
