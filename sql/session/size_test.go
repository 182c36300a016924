package session_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
)

// TestSizes: the functions of sizes tell about what is stored, of tables with and without statistics, and NULL of what is not there.
func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		s := cl.Nodes[0].Open(t, "root")
		defer s.Close()
		s.Must("CREATE TABLE small (a int PRIMARY KEY); INSERT INTO small VALUES (1)")
		s.Must("CREATE TABLE big (a int PRIMARY KEY, b text); INSERT INTO big SELECT g, repeat('x', 100) FROM generate_series(1, 10000) g; CREATE INDEX big_b ON big (b)")
		s.Must("CREATE TEMP TABLE tmp (a int PRIMARY KEY); INSERT INTO tmp SELECT generate_series(1, 100)")
		number := func(sql string) int64 {
			t.Helper()
			n, err := strconv.ParseInt(strings.TrimSpace(one(t, s, "SELECT "+sql)), 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			return n
		}
		within := func(sql string, lo, hi int64) {
			t.Helper()
			if n := number(sql); n < lo || n > hi {
				t.Errorf("%s is %d, and not between %d and %d", sql, n, lo, hi)
			}
		}
		for _, when := range []string{"without statistics", "with statistics"} {
			t.Log(when)
			within("pg_relation_size('small')", 5, 100)
			within("pg_table_size('big')", 1_000_000, 1_500_000)
			within("pg_indexes_size('big')", 1_000_000, 1_500_000)
			within("pg_relation_size('big_b')", 1_000_000, 1_500_000)
			within("pg_total_relation_size('big') - pg_table_size('big') - pg_indexes_size('big')", -100, 100)
			within("pg_indexes_size('small')", 0, 0)
			within("pg_relation_size('tmp')", 500, 5000)
			within("pg_database_size(current_database()) - pg_total_relation_size('big') - pg_total_relation_size('small')", -100, 200_000)
			within("pg_database_size('postgres')", 0, 1000)
			s.Must("ANALYZE")
		}
		within("(SELECT count(*) FROM (SELECT pg_relation_size(99999999)) x (s) WHERE s IS NULL)", 1, 1)
		// Counters that nobody keeps are NULL, what is known is there.
		if got := one(t, s, "SELECT n_live_tup, seq_scan IS NULL, last_analyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'big'"); got != "10000 | t | t" {
			t.Error(got)
		}
		if got := one(t, s, "SELECT xact_commit IS NULL, blks_hit IS NULL FROM pg_stat_database WHERE datname = current_database()"); got != "t | t" {
			t.Error(got)
		}
		if got := one(t, s, "SELECT count(*) FROM pg_stat_user_indexes WHERE relname = 'big' AND idx_scan IS NULL"); got != "2" {
			t.Error(got)
		}
		if got := one(t, s, "SELECT n_distinct, null_frac, avg_width FROM pg_stats WHERE tablename = 'big' AND attname = 'b'"); got != "1 | 0 | 100" {
			t.Error(got)
		}
		s.Must("CREATE TABLE colours (a int PRIMARY KEY, c text, long text)")
		s.Must("INSERT INTO colours SELECT g, CASE WHEN g % 4 = 0 THEN 'red' WHEN g % 10 > 0 THEN 'blue' END, repeat('ä', 100) || g FROM generate_series(1, 100) g")
		s.Must("ANALYZE colours")
		const stats = "SELECT most_common_vals, most_common_freqs, cardinality(histogram_bounds), histogram_bounds[2] FROM pg_stats WHERE tablename = 'colours' AND attname = "
		for col, want := range map[string]string{"a": "NULL | NULL | 100 | 2", "c": "{blue,red} | {0.7,0.25} | NULL | NULL",
			"long": "NULL | NULL | NULL | NULL"} {
			if got := one(t, s, stats+"'"+col+"'"); got != want {
				t.Errorf("%s: %s", col, got)
			}
		}
		// setseed begins PostgreSQL's own series.
		s.Must("SELECT setseed(0.5)")
		if got := one(t, s, "SELECT random(), random()"); got != "0.9851677175347999 | 0.825301858027981" {
			t.Error(got)
		}
		if got := one(t, s, "SELECT current_query()"); got != "SELECT current_query()" {
			t.Error(got)
		}
	})
}

// one is the one row that a query answers.
func one(t *testing.T, s *sessiontest.Conn, sql string) string {
	t.Helper()
	lines := strings.Split(s.Must(sql), "\n")
	if len(lines) < 2 {
		t.Fatalf("%s: %q", sql, lines)
	}
	return lines[1]
}

// TestSizeOfTemporaryTable: all rows of a temporary table are counted, with statistics and without.
func TestSizeOfTemporaryTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		s := c.Nodes[0].Open(t, "root")
		defer s.Close()
		s.Must("create temp table tt (id int primary key, v text); insert into tt select i, repeat('v', 10000) from generate_series(1, 1200) i")
		for _, when := range []string{"without statistics", "with statistics"} {
			if got := one(t, s, "select pg_table_size('tt') between 12000000 and 12200000"); got != "true" && got != "t" {
				t.Errorf("%s: %s bytes", when, one(t, s, "select pg_table_size('tt')"))
			}
			s.Must("analyze tt")
		}
	})
}
