package parse

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"github.com/cockroachdb/datadriven"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func describe(s *Statement) string {
	if t, ok := s.Node.(tree.Statement); ok {
		text := fmt.Sprintf("grammar %s %s", t.StatementTag(), tree.AsString(t))
		if s.Overriding != "" {
			text += " overriding " + s.Overriding
		}
		return text
	}
	b, err := json.Marshal(plain(s.Node))
	if err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T %s", s.Node, b), "*parse.")
}

// plain replaces a nested statement by its text.
func plain(n any) any {
	nested := func(s *Statement) string {
		if s == nil {
			return ""
		}
		return describe(s)
	}
	switch n := n.(type) {
	case *Explain:
		c := *n
		c.Stmt = nil
		return []any{c, nested(n.Stmt)}
	case *Prepare:
		return []any{n.Name, fmt.Sprint(n.Types), nested(n.Stmt)}
	case *DeclareCursor:
		c := *n
		c.Stmt = nil
		return []any{c, nested(n.Stmt)}
	case *Copy:
		c := *n
		c.Query = nil
		return []any{c, nested(n.Query)}
	}
	return n
}

// TestParse runs testdata/parse: "parse" prints the statements of each line, or its error.
func TestParse(t *testing.T) {
	var p Parser
	datadriven.RunTest(t, "testdata/parse", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		lines := strings.Split(d.Input, "\n")
		if d.Cmd == "text" {
			lines = []string{d.Input}
		}
		for _, l := range lines {
			stmts, err := p.Parse(l)
			var e *sqlstate.Error
			switch {
			case errors.As(err, &e):
				fmt.Fprintf(&out, "ERROR %s at %d: %s", e.Code, e.Position, e.Message)
			case err != nil:
				out.WriteString("untyped error: " + err.Error())
			case len(stmts) == 0:
				out.WriteString("nothing")
			}
			for i := range stmts {
				if i > 0 {
					out.WriteString(" ;; ")
				}
				out.WriteString(describe(&stmts[i]))
				if stmts[i].NumParams > 0 {
					fmt.Fprintf(&out, " params=%d", stmts[i].NumParams)
				}
			}
			out.WriteByte('\n')
		}
		return out.String()
	})
}

// TestParameterize: texts that differ in constants become one; what depends on being constant stays.
func TestParameterize(t *testing.T) {
	var p Parser
	datadriven.RunTest(t, "testdata/parameterize", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, l := range strings.Split(d.Input, "\n") {
			text, lits, ok := p.Parameterize(l)
			if !ok {
				out.WriteString("no\n")
				continue
			}
			out.WriteString(text)
			for _, v := range lits {
				if v.T.Kind == types.KindUnknown {
					fmt.Fprintf(&out, " %q", v.Text)
				} else {
					fmt.Fprintf(&out, " %d", v.Int)
				}
			}
			out.WriteByte('\n')
			if _, err := Parse(text); err != nil {
				fmt.Fprintf(&out, "does not parse: %v\n", err)
			}
		}
		return out.String()
	})
}

// TestSourceOffset: positions in a rewritten text point at the source.
func TestSourceOffset(t *testing.T) {
	const sql = "SELECT 1;  SELECT é FROM ONLY t WHERE x OPERATOR(pg_catalog.~) 'a' COLLATE \"C\" AND nope = 1"
	stmts, err := Parse(sql)
	if err != nil {
		t.Fatal(err)
	}
	s := &stmts[1]
	where := s.Node.(*tree.Select).Select.(*tree.SelectClause).Where.Expr.(*tree.AndExpr).Right
	name := where.(*tree.ComparisonExpr).Left.(*tree.UnresolvedName).Parts[0]
	want := len([]rune(sql[:strings.Index(sql, "nope")])) + 1
	if got := s.PosOf(name); got != want {
		t.Errorf("PosOf: %d, want %d", got, want)
	}
	if got := s.FindWord("nope", 0); got != want {
		t.Errorf("FindWord: %d, want %d", got, want)
	}
}

// FuzzParse: no text panics the lexer or the parsers; statements cover their text in order.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"SELECT 1", "BEGIN; COMMIT", "COPY t FROM STDIN WITH (FORMAT csv)", "E'\\x'", "$a$ $a$", "/* /* */", "SET x = 'a', b",
		"GRANT ALL ON t TO u", "EXPLAIN (ANALYZE) SELECT $1", "FETCH 10 FROM c", "a!=-1", "1.e5x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		stmts, err := Parse(sql)
		if err != nil {
			var e *sqlstate.Error
			if !errors.As(err, &e) || e.Code == sqlstate.InternalError {
				t.Fatalf("%q: %v", sql, err)
			}
			return
		}
		at := 0
		for i := range stmts {
			s := &stmts[i]
			if s.Offset < at || s.End <= s.Offset || s.End > len(sql) || s.Node == nil {
				t.Fatalf("%q: statement %d at %d..%d after %d", sql, i, s.Offset, s.End, at)
			}
			at = s.End
		}
	})
}
