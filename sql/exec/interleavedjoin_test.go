package exec

import (
	"strings"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// TestInterleavedJoinOfPages: a join of a directory reads within the spans that its program names, gives the same rows whatever the pages are, and accounts for a large row above that stays
// while pages of rows below come.
func TestInterleavedJoinOfPages(t *testing.T) {
	f := newFixture(t)
	parent, child := f.table(100, "p", "aS", 1), f.table(101, "c", "abd", 2)
	child.Interleave = &catalog.Interleave{Ancestors: parent.AsAncestors()}
	parent.Shared, parent.Interleaved = true, []catalog.ID{child.ID}
	large := strings.Repeat("x", 50_000)
	f.insert(parent, row(1, "one"), row(2, large), row(3, "three"))
	for a := 1; a < 4; a++ {
		for b := range a * 3 {
			f.insert(child, row(a, b, a*10+b))
		}
	}
	join := func(kind opt.JoinKind, spans []opt.IndexSpan, on ...scalar.Expr) *opt.InterleavedJoin {
		p, c := f.scan(parent), f.scan(child)
		n := &opt.InterleavedJoin{Spans: spans, Tables: []opt.InterleavedTable{
			{Table: parent, Cols: p.Cols[:1], Ordinals: p.Ordinals[:1]}, {Table: child, Cols: c.Cols, Ordinals: c.Ordinals, Kind: kind}}}
		if spans != nil {
			n.Tables[0].Cols, n.Tables[0].Ordinals = p.Cols, p.Ordinals
		}
		n.Cols = append(append(n.Cols, n.Tables[0].Cols...), c.Cols...)
		for _, e := range on {
			n.Tables[1].On = append(n.Tables[1].On, cmp(scalar.GT, f.ref(c.Cols[2]), e))
		}
		return n
	}
	for page := range int64(5) {
		f.kv.page = page
		if got := len(f.run(join(opt.InnerJoin, nil))); got != 18 {
			t.Errorf("pages of %d: %d rows", page, got)
		}
		if got := show(f.run(join(opt.LeftJoin, nil, num(37)))); got != "1 - - -\n2 - - -\n3 3 8 38\n" {
			t.Errorf("pages of %d: %s", page, got)
		}
		one := []opt.IndexSpan{{Equal: []scalar.Expr{num(2)}}}
		f.budget = 0
		if got := len(f.run(join(opt.InnerJoin, one))); got != 6 {
			t.Errorf("pages of %d: %d rows of a directory", page, got)
		}
		f.budget = 40_000
		if _, _, err := f.runProgram(f.program(join(opt.InnerJoin, one))); !sqlstate.Is(err, sqlstate.OutOfMemory) {
			t.Errorf("pages of %d: a row of %d bytes with a budget of %d: %v", page, len(large), f.budget, err)
		}
		f.budget = 0
	}
}
