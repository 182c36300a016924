package bind

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"meridian/sql/fault"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

func fuzzFixture(tb testing.TB) (*fakeView, *Binder) {
	v := newFakeView(tb)
	b := newBinder(v)
	for _, sql := range []string{
		"CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL DEFAULT 'x', c numeric(10,2) CHECK (c > 0), d timestamptz DEFAULT now())",
		"CREATE TABLE u (id serial PRIMARY KEY, a int REFERENCES t, v varchar(10) UNIQUE, j jsonb, arr int[])",
		"CREATE VIEW vw AS SELECT a, count(*) AS n FROM t GROUP BY a",
	} {
		stmts, err := parse.Parse(sql)
		if err != nil {
			tb.Fatal(err)
		}
		s, err := b.Bind(context.Background(), &stmts[0])
		if err != nil {
			tb.Fatal(err)
		}
		v.apply(s)
	}
	return v, b
}

// FuzzStatement: no text panics the parser or the binder, and every error carries a code that is not "internal".
func FuzzStatement(f *testing.F) {
	if text, err := os.ReadFile("testdata/psql15.sql"); err == nil {
		for i, q := range strings.Split(string(text), "\n\n") {
			if i%7 == 0 {
				f.Add(q)
			}
		}
	}
	for _, file := range []string{"select", "change", "errors", "types", "definition"} {
		text, err := os.ReadFile("testdata/scripts/" + file)
		if err != nil {
			f.Fatal(err)
		}
		for _, l := range strings.Split(string(text), "\n") {
			if len(l) > 8 && (l[0] >= 'A' && l[0] <= 'Z' || l[0] >= 'a' && l[0] <= 'z') {
				f.Add(l)
			}
		}
	}
	_, b := fuzzFixture(f)
	f.Fuzz(func(t *testing.T, sql string) {
		stmts, err := parse.Parse(sql)
		if err != nil {
			if sqlstate.Is(err, sqlstate.InternalError) {
				t.Fatalf("%q: %v", sql, err)
			}
			return
		}
		for i := range stmts {
			if _, err := b.Bind(context.Background(), &stmts[i]); sqlstate.Is(err, sqlstate.InternalError) {
				var d *fault.Defect
				errors.As(err, &d)
				t.Fatalf("%q: %v\n%+v", sql, err, d)
			} else if err != nil {
				if _, ok := err.(*sqlstate.Error); !ok {
					t.Fatalf("%q: %T %v", sql, err, err)
				}
			}
		}
	})
}

// TestDeep: nesting beyond any stack is refused, not crashed on.
func TestDeep(t *testing.T) {
	_, b := fuzzFixture(t)
	n := 200000
	for name, sql := range map[string]string{
		"parens": "SELECT " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"not":    "SELECT " + strings.Repeat("NOT ", n) + "true",
		"minus":  "SELECT " + strings.Repeat("- ", n) + "a FROM t",
		"cast":   "SELECT 1" + strings.Repeat("::int", n),
		"plus":   "SELECT 1" + strings.Repeat("+1", n),
		"isnull": "SELECT 1" + strings.Repeat(" IS NULL", n),
		"union":  "SELECT 1" + strings.Repeat(" UNION SELECT 1", n/10),
		"case":   "SELECT " + strings.Repeat("CASE WHEN true THEN ", n/10) + "1" + strings.Repeat(" END", n/10),
		"select": strings.Repeat("SELECT (", n/10) + "SELECT 1" + strings.Repeat(")", n/10),
	} {
		stmts, err := parse.Parse(sql)
		if err == nil {
			_, err = b.Bind(context.Background(), &stmts[0])
		}
		if !sqlstate.Is(err, sqlstate.StatementTooComplex) {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	// Long but flat statements are fine.
	for name, sql := range map[string]string{
		"and": "SELECT a FROM t WHERE a = 1" + strings.Repeat(" AND a = 1", n/20),
		"or":  "SELECT a FROM t WHERE a = 1" + strings.Repeat(" OR a = 1", n/20),
		"in":  "SELECT a FROM t WHERE a IN (1" + strings.Repeat(", 1", n/20) + ")",
		"row": "INSERT INTO t (a) VALUES (1)" + strings.Repeat(", (2)", n/20),
	} {
		stmts, err := parse.Parse(sql)
		if err == nil {
			_, err = b.Bind(context.Background(), &stmts[0])
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkBind(bm *testing.B) {
	_, b := fuzzFixture(bm)
	for name, sql := range map[string]string{
		"one":    "SELECT 1",
		"point":  "SELECT b FROM t WHERE a = $1",
		"update": "UPDATE t SET c = c + $1 WHERE a = $2",
		"insert": "INSERT INTO t (a, b) VALUES ($1, $2)",
		"begin":  "BEGIN",
	} {
		bm.Run(name, func(bm *testing.B) {
			var p parse.Parser
			bm.ReportAllocs()
			for bm.Loop() {
				stmts, err := p.Parse(sql)
				if err != nil {
					bm.Fatal(err)
				}
				if _, err := b.Bind(context.Background(), &stmts[0]); err != nil {
					bm.Fatal(err)
				}
			}
		})
		bm.Run(name+"-parse", func(bm *testing.B) {
			var p parse.Parser
			bm.ReportAllocs()
			for bm.Loop() {
				if _, err := p.Parse(sql); err != nil {
					bm.Fatal(err)
				}
			}
		})
	}
}
