package parse

import (
	"strings"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
)

// TestPlaces: each name and constant is found where it was read, and not at another text that is equal.
func TestPlaces(t *testing.T) {
	for _, sql := range []string{
		`SELECT A, a, "a", "A" , 'a', 'a', E'\x61', $$a$$, n'a', 1, 01, 1, "q""q", 'it''s', a."a"."A", F(A) , ''`,
		`select 1; SELECT É, 'é' , "é", 'a', 'a' FROM ONLY t WHERE x OPERATOR(pg_catalog.~) 'a' COLLATE "C" AND A = 'a' AND a = a`,
	} {
		stmts, err := Parse(sql)
		if err != nil {
			t.Fatal(err)
		}
		s := &stmts[len(stmts)-1]
		p := s.Places()
		last, found := -1, 0
		var walk func(e tree.Expr)
		at := func(text string) {
			i := p.Of(text)
			if i < 0 {
				t.Errorf("%q is not found", text)
				return
			}
			tok := p.toks[i]
			got := tok.Text(s.grammar)
			if tok.Kind == String {
				got = stringText(tok, s.grammar)
			} else if tok.Kind == Number {
				got = strings.TrimLeft(got, "0")
			} else {
				got = identText(tok, s.grammar)
			}
			if got != text || i <= last {
				t.Errorf("%q is at token %d, %s, after token %d", text, i, got, last)
			}
			last = i
			found++
		}
		walk = func(e tree.Expr) {
			switch e := e.(type) {
			case *tree.UnresolvedName:
				for i := e.NumParts - 1; i >= 0; i-- {
					at(e.Parts[i])
				}
			case *tree.StrVal:
				if e.RawString() != "" {
					at(e.RawString())
				}
			case *tree.NumVal:
				at(e.OrigString())
			case *tree.FuncExpr:
				walk(e.Func.FunctionReference.(tree.Expr))
				walk(e.Exprs[0])
			case *tree.AndExpr:
				walk(e.Left)
				walk(e.Right)
			case *tree.ComparisonExpr:
				walk(e.Left)
				walk(e.Right)
			case *tree.CollateExpr:
				walk(e.Expr)
			}
		}
		sel := s.Node.(*tree.Select).Select.(*tree.SelectClause)
		for _, e := range sel.Exprs {
			walk(e.Expr)
		}
		if sel.Where != nil {
			walk(sel.Where.Expr)
		}
		if found < 10 {
			t.Errorf("%s: %d places", sql, found)
		}
	}
}
