package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian/sql/bind"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
)

// longStatements are statements of n parts each, one for every way in which a statement can be long or deep.
func longStatements(n int) map[string]string {
	rep := strings.Repeat
	list := func(sep string, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteString(sep)
			}
			b.WriteString(f(i))
		}
		return b.String()
	}
	same := func(s string) func(int) string { return func(int) string { return s } }
	num := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
	return map[string]string{
		"parentheses":   "SELECT " + rep("(", n) + "a" + rep(")", n) + " FROM t",
		"and":           "SELECT * FROM t WHERE " + list(" AND ", same("a = b")),
		"or":            "SELECT * FROM t WHERE " + list(" OR ", num("a = %d")),
		"and of or":     "SELECT * FROM t WHERE " + list(" AND ", num("(a = %d OR b = 1)")),
		"plus":          "SELECT " + list("+", same("a")) + " FROM t",
		"concatenation": "SELECT " + list("||", same("s")) + " FROM t",
		"not":           "SELECT " + rep("NOT ", n) + "a = 1 FROM t",
		"minus":         "SELECT " + rep("- ", n) + "a FROM t",
		"subqueries":    "SELECT " + rep("(SELECT ", n) + "1" + rep(")", n),
		"derived":       "SELECT * FROM " + rep("(SELECT * FROM ", n) + "t" + rep(") x", n),
		"case in case":  "SELECT " + rep("CASE WHEN a = 1 THEN ", n) + "1" + rep(" END", n) + " FROM t",
		"arms of case":  "SELECT CASE " + list(" ", num("WHEN a = %d THEN 1")) + " END FROM t",
		"casts":         "SELECT a" + rep("::text::int", n) + " FROM t",
		"calls":         "SELECT " + rep("abs(", n) + "a" + rep(")", n) + " FROM t",
		"coalesce":      "SELECT " + rep("coalesce(a, ", n) + "1" + rep(")", n) + " FROM t",
		"array":         "SELECT ARRAY[" + list(",", same("a")) + "] FROM t",
		"rows":          "SELECT " + rep("ROW(", n) + "1" + rep(")", n),
		"json":          "SELECT '" + rep("[", n) + rep("]", n) + "'::jsonb",
		"is null":       "SELECT a" + rep(" IS NULL", n) + " FROM t",
		"union":         list(" UNION ALL ", same("SELECT 1")),
		"union nested":  "SELECT 1" + rep(" UNION (SELECT 1", n) + rep(")", n),
		"in":            "SELECT * FROM t WHERE a IN (" + list(",", num("%d")) + ")",
		"in of b":       "SELECT * FROM t WHERE b IN (" + list(",", num("%d")) + ")",
		"in of exprs":   "SELECT * FROM t WHERE a IN (" + list(",", num("b + %d")) + ")",
		"in of rows":    "SELECT * FROM t WHERE (a, b) IN (" + list(",", num("(%d, 1)")) + ")",
		"not in":        "SELECT * FROM t WHERE a NOT IN (" + list(",", num("%d")) + ")",
		"values":        "VALUES " + list(",", num("(%d, 1)")),
		"insert":        "INSERT INTO t VALUES " + list(",", num("(%d, 1, 'x')")),
		"targets":       "SELECT " + list(",", num("a + %d")) + " FROM t",
		"group by":      "SELECT 1 FROM t GROUP BY " + list(",", num("a + %d")),
		"order by":      "SELECT 1 FROM t ORDER BY " + list(",", num("a + %d")),
		"aggregates":    "SELECT " + list(",", num("sum(a + %d)")) + " FROM t",
		"windows":       "SELECT " + list(",", num("sum(a) OVER (ORDER BY b + %d)")) + " FROM t",
		"with":          "WITH c AS (SELECT 1 AS x)" + list("", num(", c%d AS (SELECT x FROM c)")) + " SELECT 1",
		"with nested":   rep("WITH c AS (", n) + "SELECT 1" + rep(") SELECT * FROM c", n),
		"exists":        "SELECT * FROM t WHERE " + list(" AND ", num("EXISTS (SELECT 1 FROM u WHERE u.a = t.a + %d)")),
		"exists nested": "SELECT * FROM t WHERE " + rep("EXISTS (SELECT 1 FROM u WHERE ", n) + "true" + rep(")", n),
		"joins":         "SELECT 1 FROM " + list(",", num("t t%d")) + " WHERE t0.a = t1.b",
		"joins in line": "SELECT 1 FROM t t" + list("", func(i int) string { return fmt.Sprintf(" JOIN t t%d ON t.a = t%d.b", i, i) }),
		"outer joins":   "SELECT 1 FROM t t" + list("", func(i int) string { return fmt.Sprintf(" LEFT JOIN t t%d ON t.a = t%d.b", i, i) }),
		"full joins":    "SELECT 1 FROM t t" + list("", func(i int) string { return fmt.Sprintf(" FULL JOIN t t%d ON t.a = t%d.b", i, i) }),
		"like":          "SELECT * FROM t WHERE " + list(" OR ", num("s LIKE '%%%d%%'")),
		"between":       "SELECT * FROM t WHERE " + list(" AND ", same("a BETWEEN 1 AND 2")),
		"update":        "UPDATE t SET b = " + list(" + ", same("b")),
		"many inlined":  "WITH c0 AS NOT MATERIALIZED (SELECT 1 AS x)" + list("", func(i int) string { return fmt.Sprintf(", c%d AS (SELECT p.x FROM c%d p, c%d q)", i+1, i, i) }) + " SELECT 1",
	}
}

// TestLongStatements: a statement that is long or deep in any way is planned, or refused with an error of PostgreSQL's. Each
// stage requests room regularly, and an error of the room, because the statement was cancelled or holds too much, ends the stage
// at once.
func TestLongStatements(t *testing.T) {
	db := newMiniDB(t, false)
	db.run("CREATE TABLE t (a int PRIMARY KEY, b int, s text);\nCREATE TABLE u (a int PRIMARY KEY, b int);\n", false)
	stop := errors.New("stopped")
	var asked [3]int
	for _, n := range []int{40, 700} {
		for name, text := range longStatements(n) {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				stages, refused := db.plan(t, text, -1, nil)
				if refused {
					return
				}
				calls := stages[0] + stages[1] + stages[2]
				for i := range asked {
					asked[i] += stages[i]
				}
				// Parentheses and one constant are one node each, however long they are.
				if want := n / 2 / chargeSteps; calls < want && name != "json" && name != "parentheses" {
					t.Errorf("room is asked %d times, want %d", calls, want)
				}
				for _, at := range []int{0, calls / 3, calls / 2, calls - 1} {
					if at >= 0 && at < calls {
						db.plan(t, text, at, stop)
					}
				}
			})
		}
	}
	for i, stage := range []string{"the binder", "the optimizer", "the compiler"} {
		if asked[i] < 40 {
			t.Errorf("%s asks %d times", stage, asked[i])
		}
	}
}

// TestListsAreBounded: a list whose entries are compared with one another has at most as many as PostgreSQL allows.
func TestListsAreBounded(t *testing.T) {
	db := newMiniDB(t, false)
	db.run("CREATE TABLE t (a int PRIMARY KEY, b int, s text);\n", false)
	long := longStatements(1665)
	for _, x := range []struct{ sql, want string }{
		{long["targets"], "54011 target lists can have at most 1664 entries"},
		{long["group by"], "54011 target lists can have at most 1664 entries"},
		{long["order by"], "54011 target lists can have at most 1664 entries"},
		{"SELECT ROW(" + strings.TrimSuffix(strings.Repeat("1,", 1665), ",") + ")", "54011 ROW expressions can have at most 1664 entries"},
		{"SELECT concat(" + strings.TrimSuffix(strings.Repeat("a,", 101), ",") + ") FROM t", "54023 cannot pass more than 100 arguments to a function"},
		{"SELECT " + strings.TrimSuffix(strings.Repeat("a,", 1664), ",") + " FROM t", ""},
		{"SELECT greatest(" + strings.TrimSuffix(strings.Repeat("a,", 1000), ",") + ") FROM t", ""},
	} {
		stmt, err := parse.ParseOne(x.sql)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&bind.Binder{View: db, Registry: system.Builtins(), Location: time.UTC}).Bind(t.Context(), stmt)
		got := ""
		var e *sqlstate.Error
		if errors.As(err, &e) {
			got = string(e.Code) + " " + e.Message
		} else if err != nil {
			t.Fatal(err)
		}
		if got != x.want {
			t.Errorf("%.40s...: %q, want %q", x.sql, got, x.want)
		}
	}
}

// plan compiles a statement from its text to its program, with a room that fails at its at-th call. It returns how often each
// stage called the room, and whether the statement is refused for its length or depth.
func (db *miniDB) plan(t *testing.T, text string, at int, stop error) (stages [3]int, refused bool) {
	t.Helper()
	calls, stage := 0, 0
	room := func(int64) error {
		stages[stage]++
		if calls++; calls-1 == at {
			return stop
		}
		return nil
	}
	err := func() error {
		stmt, err := parse.ParseOne(text)
		if err != nil {
			return err
		}
		ctx := context.Background()
		b, err := (&bind.Binder{View: db, Registry: system.Builtins(), Location: time.UTC, Room: room}).Bind(ctx, stmt)
		if err != nil {
			return err
		}
		stage++
		plan, err := opt.Optimize(b.(*bind.Query).Query, opt.Env{Registry: system.Builtins(), Room: room})
		if err != nil {
			return err
		}
		stage++
		_, err = Build(ctx, plan, Options{View: db, Room: room})
		return err
	}()
	if stop != nil {
		if !errors.Is(err, stop) || calls != at+1 {
			t.Errorf("stopped at call %d, it ends at call %d with %v", at, calls, err)
		}
		return stages, false
	}
	var e *sqlstate.Error
	if errors.As(err, &e) {
		switch e.Code {
		case sqlstate.StatementTooComplex, sqlstate.TooManyColumns, sqlstate.TooManyArguments:
			return stages, true
		}
	}
	if err != nil {
		t.Error(err)
	}
	return stages, false
}
