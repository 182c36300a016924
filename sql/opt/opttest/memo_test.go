package opttest

import (
	"fmt"
	"strings"
	"testing"

	"meridian/sql/opt"
)

// TestRepeatedAnswers: a correlated plan is not run again for the same outer values, which changes only the keys that are read.
func TestRepeatedAnswers(t *testing.T) {
	const rows, values, inner = 400, 5, 30
	d := newDB(t)
	d.must("CREATE TABLE t (a INT8 PRIMARY KEY, b INT8, n NUMERIC, s TEXT)")
	d.must("CREATE TABLE u (a INT8 PRIMARY KEY, b INT8, c INT8)")
	for i := range rows {
		// 1.0 and 1.00 are equal, but print differently.
		d.must(fmt.Sprintf("INSERT INTO t VALUES (%d, %s, %s, 's%d')", i, []string{"0", "1", "2", "NULL", "7"}[i%values], []string{"1.0", "1.00"}[i%2], i))
	}
	for i := range inner {
		d.must(fmt.Sprintf("INSERT INTO u VALUES (%d, %d, %s)", i, i%7, []string{"1", "NULL", "3"}[i%3]))
	}
	for _, c := range []struct {
		sql  string
		runs int // of the inner plan, each of which reads the inner table once
	}{
		{"SELECT count(*) FROM t WHERE t.a > (SELECT max(c) FROM u WHERE u.b < t.b) OR t.s = 's3'", values},
		{"SELECT count(*) FROM t WHERE t.a IN (SELECT c FROM u WHERE u.b < t.b) OR t.s = 's3'", values},
		{"SELECT count(*) FROM t WHERE t.a NOT IN (SELECT c FROM u WHERE u.b < t.b) OR t.s = 's3'", values},
		{"SELECT count(*) FROM t WHERE t.a < ALL (SELECT c FROM u WHERE u.b < t.b) OR t.s = 's3'", values},
		{"SELECT t.a, ARRAY (SELECT c FROM u WHERE u.b < t.b ORDER BY u.a) FROM t", values},
		{"SELECT count(*), sum(x.c) FROM t, LATERAL (SELECT u.c + t.b AS c FROM u WHERE u.b < t.b LIMIT 7) AS x", 2*values + 1},
		{"SELECT count(*), sum(x.c) FROM t LEFT JOIN LATERAL (SELECT u.c + t.b AS c FROM u WHERE u.b < t.b LIMIT 7) AS x ON x.c > t.a", 2*values + 1},
		{"SELECT min(x), max(x) FROM (SELECT (SELECT max(t.n::text || u.b::text) FROM u WHERE u.b < t.b) AS x FROM t) AS y", 2*values + 1},
		// The values do not repeat: the memo is given up, and nothing else changes.
		{"SELECT count(*) FROM t WHERE (SELECT count(*) FROM u WHERE u.b < t.a) > 3 OR t.s = 's3'", rows},
	} {
		if got := compare(d, c.sql, false); strings.HasPrefix(got, "DIFFERENT") || strings.HasPrefix(got, "error") {
			t.Fatalf("%s\n%s", c.sql, got)
		}
		d.read = 0
		_, p, err := results(d, c.sql, false)
		if err != nil {
			t.Fatal(err)
		}
		if most := rows + c.runs*inner; d.read > most {
			t.Errorf("%s: %d keys were read, more than %d\n%s", c.sql, d.read, most, strings.Join(opt.Explain(p, opt.ExplainOptions{}), "\n"))
		}
	}
	// A volatile function is evaluated for each row (opt.O2).
	for _, sql := range []string{
		"SELECT count(DISTINCT x) FROM (SELECT (SELECT random() + u.b FROM u WHERE u.b > t.b - 1000 LIMIT 1) AS x FROM t WHERE b IS NOT NULL) AS y",
		"SELECT count(DISTINCT x.r) FROM (SELECT * FROM t WHERE b IS NOT NULL) AS t, LATERAL (SELECT random() + u.b AS r FROM u WHERE u.b > t.b - 1000 LIMIT 1) AS x",
	} {
		if got, _, err := results(d, sql, false); err != nil || got[0] != fmt.Sprint(rows*(values-1)/values) {
			t.Errorf("%s: %v, %v", sql, got, err)
		}
	}
}

// TestRowsAmongRows: IN and NOT IN of row values with a subquery, whose rows have NULLs, look rows up and do not compare all pairs.
func TestRowsAmongRows(t *testing.T) {
	d := newDB(t)
	d.must("CREATE TABLE t (k INT8 PRIMARY KEY, a INT8, b INT4, s TEXT)")
	d.must("CREATE TABLE u (k INT8 PRIMARY KEY, a INT4, b INT8, s VARCHAR(5), g INT8)")
	value := func(i, n int) string {
		if i%n == n-1 {
			return "NULL"
		}
		return fmt.Sprint(i % n)
	}
	for i := range 120 {
		d.must(fmt.Sprintf("INSERT INTO t VALUES (%d, %s, %s, 's%d')", i, value(i, 5), value(i/5, 4), i%3))
		if i < 40 {
			d.must(fmt.Sprintf("INSERT INTO u VALUES (%d, %s, %s, 's%d', %d)", i, value(i, 7), value(i/2, 3), i%4, i%5))
		}
	}
	for _, where := range []string{"", " WHERE u.a IS NOT NULL", " WHERE u.a IS NOT NULL AND u.b IS NOT NULL", " WHERE u.a < 0", " WHERE u.g = t.a", " WHERE u.g < t.a",
		" WHERE u.a = 3 AND u.b IS NULL"} {
		for _, row := range []string{"(t.a, t.b) %s (SELECT u.a, u.b", "(t.a, t.s) %s (SELECT u.b, u.s", "(t.b, t.a, t.s) %s (SELECT u.a, u.a, u.s", "(t.a, 1) %s (SELECT u.a, u.b"} {
			for _, op := range []string{"IN", "NOT IN", "= ANY", "<> ALL", "<> ANY", "= ALL"} {
				sql := "SELECT t.k, " + fmt.Sprintf(row, op) + " FROM u" + where + ") FROM t"
				if got := compare(d, sql, false); strings.HasPrefix(got, "DIFFERENT") || strings.HasPrefix(got, "error") {
					t.Fatalf("%s\n%s", sql, got)
				}
			}
		}
	}
}
