package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// star expands * and table.*.
func (b *builder) star(sc *scope, n *tree.UnresolvedName, items []item, e *tree.SelectExpr) []item {
	if n == nil {
		if len(sc.rels) == 0 && len(sc.cols) == 0 {
			b.fail(sqlstate.SyntaxError, e.Expr, "SELECT * with no tables specified is not valid")
		}
		for i := range sc.cols {
			if c := &sc.cols[i]; !c.hidden && !c.qualified {
				b.reads(c.rel)
				items = append(items, item{name: c.name, expr: c.ref(), node: e.Expr})
			}
		}
		return items
	}
	for s := sc; s != nil; s = s.parent {
		r := b.findRelation(s, n)
		if r == nil {
			continue
		}
		for i := range s.cols {
			c := &s.cols[i]
			if c.rel != r || c.hidden {
				continue
			}
			b.reads(r)
			if s.level != sc.level {
				sc.level.readsColumn(s.level, c)
			}
			items = append(items, item{name: c.name, expr: c.ref(), node: e.Expr})
		}
		return items
	}
	b.missingFrom(sc, n.Parts[1], n)
	return nil
}

// storeStars replaces stars in the syntax tree by the columns for which they stand, for the text of a view.
func (b *builder) storeStars(n *tree.SelectClause, items []item, sc *scope) {
	var out tree.SelectExprs
	i, changed := 0, false
	for k := range n.Exprs {
		e := n.Exprs[k]
		if i < len(items) && items[i].node == e.Expr && isStar(e.Expr) {
			for ; i < len(items) && items[i].node == e.Expr; i++ {
				u := &tree.UnresolvedName{NumParts: 1}
				u.Parts[0] = items[i].name
				for j := range sc.cols {
					if c := &sc.cols[j]; c.ref() == items[i].expr && c.rel != nil {
						u.NumParts = 2
						u.Parts[1] = c.rel.alias
					}
				}
				out = append(out, tree.SelectExpr{Expr: u})
			}
			changed = true
			continue
		}
		out = append(out, e)
		i++
	}
	if changed {
		n.Exprs = out
		n.TableSelect = false
	}
}

func isStar(e tree.Expr) bool {
	switch n := e.(type) {
	case tree.UnqualifiedStar, *tree.AllColumnsSelector, *tree.TupleStar:
		return true
	case *tree.UnresolvedName:
		return n.Star
	}
	return false
}

// figureName is the name of an output column without AS, as PostgreSQL derives it, and its strength: a weak name gives way to another one. Subqueries in e are bound.
func (b *builder) figureName(e tree.Expr) (string, int) {
	switch n := e.(type) {
	case *tree.UnresolvedName:
		if n.Star && n.NumParts > 1 {
			return n.Parts[1], 2
		}
		return n.Parts[0], 2
	case *tree.FuncExpr:
		name := functionName(n)
		if _, special := n.Func.FunctionReference.(*tree.FunctionDefinition); special {
			// The grammar's own names for special syntax.
			switch {
			case name == "strpos":
				name = "position"
			case name == "json_remove_path", strings.HasSuffix(name, "_escape"), strings.HasPrefix(name, "inet_contain"):
				return "?column?", 0
			}
		}
		return name, 2
	case *tree.ParenExpr:
		return b.figureName(n.Expr)
	case *tree.CastExpr:
		if _, ok := unparen(n.Expr).(*tree.Tuple); ok {
			return "row", 2
		}
		name, strength := b.figureName(n.Expr)
		if strength > 1 {
			return name, strength
		}
		return castName(n.Type), 1
	case *tree.AnnotateTypeExpr:
		return b.figureName(n.Expr)
	case *tree.CollateExpr:
		return b.figureName(n.Expr)
	case *tree.IndirectionExpr:
		return b.figureName(n.Expr)
	case *tree.ColumnAccessExpr:
		return string(n.ColName), 2
	case *tree.CaseExpr:
		if n.Else != nil {
			if name, strength := b.figureName(n.Else); strength > 1 {
				return name, strength
			}
		}
		return "case", 1
	case *tree.CoalesceExpr:
		return "coalesce", 2
	case *tree.NullIfExpr:
		return "nullif", 2
	case *tree.Array, *tree.ArrayFlatten:
		return "array", 2
	case *tree.Tuple:
		if n.Row {
			return "row", 2
		}
	case *tree.Subquery:
		if n.Exists {
			return "exists", 2
		}
		if name := b.subqueryNames[n]; name != "" {
			return name, 2
		}
	}
	return "?column?", 0
}

func castName(ref tree.ResolvableTypeReference) string {
	switch r := ref.(type) {
	case *tree.UnresolvedObjectName:
		return r.Parts[0]
	case *tree.ArrayTypeReference:
		return castName(r.ElementType)
	}
	b := &builder{}
	name := "?column?"
	func() {
		defer func() { _ = recover() }()
		t := b.typeRef(ref)
		if t.Kind == types.KindArray {
			t = t.Elem // PostgreSQL's grammar keeps the dimensions apart
		}
		name = t.TypName()
	}()
	return name
}
