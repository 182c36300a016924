package parse

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/sqlstate"
	"meridian/test/statements"
)

// seeds is how many random statements a test makes; MERIDIAN_STATEMENT_SEEDS asks for more.
func seeds(t *testing.T, n int) int {
	if s := os.Getenv("MERIDIAN_STATEMENT_SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// one is the tree of the only statement of a text, or nil if the text is refused. A refusal has a code.
func one(t *testing.T, text string) tree.Statement {
	t.Helper()
	stmts, err := Parse(text)
	if err != nil {
		if e, ok := err.(*sqlstate.Error); !ok || e.Code == sqlstate.InternalError {
			t.Errorf("%s\n  %T %v", text, err, err)
		}
		return nil
	}
	if len(stmts) != 1 {
		return nil
	}
	n, _ := stmts[0].Node.(tree.Statement)
	return n
}

// TestStatementsRoundTrip: a statement's tree, written as text, is parsed as the same tree. Views, defaults and checks are stored so.
func TestStatementsRoundTrip(t *testing.T) {
	kept := 0
	for seed := range uint64(seeds(t, 4000)) {
		text := statements.New(rand.New(rand.NewPCG(seed, 1))).Statement()
		n := one(t, text)
		if n == nil {
			continue
		}
		kept++
		first := tree.AsStringWithFlags(n, tree.FmtParsable)
		stored, err := ParseOne(TypeNames(first)) // the grammar library writes STRING for text
		if err != nil {
			t.Errorf("seed %d: %s\n  is written as   %s\n  which is refused: %v", seed, text, first, err)
			continue
		}
		if again, ok := stored.Node.(tree.Statement); !ok {
			t.Errorf("seed %d: %s\n  is written as   %s\n  which is a %T", seed, text, first, stored.Node)
		} else if second := tree.AsStringWithFlags(again, tree.FmtParsable); second != first {
			t.Errorf("seed %d: %s\n  is written as %s\n  and read as   %s", seed, text, first, second)
		}
	}
	t.Logf("%d statements", kept)
	if kept < 1000 {
		t.Errorf("only %d statements are accepted", kept)
	}
}

// TestPlacesOfExpressions: an expression has the same tree in a query, in the query of a view, in that of a new table, as a default and as a
// check.
func TestPlacesOfExpressions(t *testing.T) {
	kept := 0
	text := func(e tree.Expr) string { return tree.AsStringWithFlags(e, tree.FmtParsable) }
	first := func(s *tree.Select) string { return tree.AsStringWithFlags(s, tree.FmtParsable) }
	for seed := range uint64(seeds(t, 4000)) {
		g := statements.New(rand.New(rand.NewPCG(seed, 2)))
		x := g.Make("expr")
		alone, ok := one(t, "SELECT "+x+" AS x").(*tree.Select)
		if !ok {
			continue
		}
		clause, ok := alone.Select.(*tree.SelectClause)
		if !ok || len(clause.Exprs) != 1 {
			continue
		}
		kept++
		want, wantAll := text(clause.Exprs[0].Expr), first(alone)
		differs := func(place, want, got string) {
			if got != want {
				t.Errorf("seed %d: %s\n  in a query %s\n  in %s %s", seed, x, want, place, got)
			}
		}
		v, ok := one(t, "CREATE VIEW v AS SELECT "+x+" AS x").(*tree.CreateView)
		if !ok {
			differs("CREATE VIEW", wantAll, "it is refused")
		} else {
			differs("CREATE VIEW", wantAll, first(v.AsSource))
		}
		c, ok := one(t, "CREATE TABLE v AS SELECT "+x+" AS x").(*tree.CreateTable)
		if !ok {
			differs("CREATE TABLE AS", wantAll, "it is refused")
		} else {
			differs("CREATE TABLE AS", wantAll, first(c.AsSource))
		}
		c, ok = one(t, "CREATE TABLE v (a int[3] DEFAULT ("+x+") CHECK ("+x+"), b int, CHECK ("+x+"))").(*tree.CreateTable)
		if !ok {
			differs("CREATE TABLE", want, "it is refused")
			continue
		}
		for _, d := range c.Defs {
			switch d := d.(type) {
			case *tree.ColumnTableDef:
				if d.HasDefaultExpr() {
					differs("DEFAULT", "("+want+")", text(d.DefaultExpr.Expr))
				}
				for _, k := range d.CheckExprs {
					differs("a column's CHECK", want, text(k.Expr))
				}
			case *tree.CheckConstraintTableDef:
				differs("CHECK", want, text(d.Expr))
			}
		}
	}
	t.Logf("%d expressions", kept)
	if kept < 1000 {
		t.Errorf("only %d expressions are accepted", kept)
	}
}
