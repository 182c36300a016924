package session_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/session/sessiontest"
)

// TestOneScanOfADirectory: a statement that joins a parent with its children, and with theirs, sends one request to the ranges, a scan; one over tables of the same rows that are not
// interleaved sends one for each.
func TestOneScanOfADirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		c := cl.Nodes[0].Open(t, "root")
		defer c.Close()
		for _, in := range []string{"", "i"} {
			users, albums := "", ""
			if in != "" {
				users, albums = " INTERLEAVE IN PARENT iu ON DELETE CASCADE", " INTERLEAVE IN PARENT ia ON DELETE CASCADE"
			}
			c.Must("CREATE TABLE " + in + "u (uid INT8 PRIMARY KEY, name TEXT)")
			c.Must("CREATE TABLE " + in + "a (uid INT8, aid INT8, n INT8, s TEXT, PRIMARY KEY (uid, aid))" + users)
			c.Must("CREATE TABLE " + in + "p (uid INT8, aid INT8, pid INT8, PRIMARY KEY (uid, aid, pid))" + albums)
			c.Must("INSERT INTO " + in + "u SELECT g, 'u' || g FROM generate_series(1, 100) g")
			c.Must("INSERT INTO " + in + "a SELECT g % 50 + 1, g / 50, g FROM generate_series(50, 249) g")
			c.Must("INSERT INTO " + in + "p SELECT g % 50 + 1, g / 50, h FROM generate_series(50, 249) g, generate_series(1, 3) h")
		}
		time.Sleep(time.Minute)
		for _, table := range strings.Fields("u a p iu ia ip") {
			c.Must("ANALYZE " + table)
		}
		time.Sleep(time.Minute)
		var batches, scans, gets atomic.Int64
		user := func(k keys.Key) bool {
			table, _, _, err := keys.DecodeIndexKey(k)
			return err == nil && table >= 100
		}
		cl.Meet(func(b *kv.Batch) {
			n := int64(0)
			for _, r := range b.Requests {
				switch r := r.(type) {
				case *kv.ScanRequest:
					if user(r.Span().Start) {
						scans.Add(1)
						n = 1
					}
				case *kv.GetRequest:
					if user(r.Key) {
						gets.Add(1)
						n = 1
					}
				}
			}
			batches.Add(n)
		})
		defer cl.Meet(func(*kv.Batch) {})
		for _, x := range []struct {
			sql          string
			plain        int64 // batches
			together     int64
			scans        int64
			describePlan string
		}{
			{"SELECT * FROM $u JOIN $a USING (uid) WHERE uid = 7", 2, 1, 1, "interleaved join iu, ia"},
			{"SELECT * FROM $u JOIN $a USING (uid) JOIN $p USING (uid, aid) WHERE uid = 7", 3, 1, 1, "interleaved join iu, ia, ip"},
			{"SELECT * FROM $u u LEFT JOIN $a a ON a.uid = u.uid AND a.n > 100 WHERE u.uid = 7 AND u.name <> 'x'", 2, 1, 1, "interleaved join iu, (left) ia"},
			{"SELECT * FROM $u JOIN $a USING (uid) WHERE uid IN (7, 70, 9)", 2, 1, 3, "interleaved join iu, ia"},
			{"SELECT * FROM $u JOIN $a USING (uid) WHERE uid = ANY (ARRAY[7, 70, 9]::int8[])", 2, 1, 3, "interleaved join iu, ia"},
			{"SELECT * FROM $u JOIN $a USING (uid) WHERE uid BETWEEN 3 AND 6", 2, 1, 1, "interleaved join iu, ia"},
			{"SELECT * FROM $a JOIN $p USING (uid, aid) WHERE uid = 7 AND aid = 3", 2, 1, 1, "interleaved join ia, ip"},
			{"SELECT count(*) FROM $u JOIN $a USING (uid)", 2, 1, 1, "interleaved join iu, ia"},
			{"SELECT * FROM $u JOIN $a USING (uid) ORDER BY uid, aid LIMIT 5", 2, 1, 1, "interleaved join iu, ia"},
		} {
			answers := map[string]string{}
			for _, in := range []string{"", "i"} {
				sql := strings.ReplaceAll(x.sql, "$", in)
				c.Must(sql)
				batches.Store(0)
				scans.Store(0)
				gets.Store(0)
				answers[in] = c.Must(sql)
				want := x.plain
				if in != "" {
					want = x.together
				}
				if batches.Load() != want || in != "" && (scans.Load() != x.scans || gets.Load() != 0) {
					t.Errorf("%s: %d batches of %d scans and %d reads of keys, want %d\n%s", sql, batches.Load(), scans.Load(), gets.Load(), want, c.Must("EXPLAIN "+sql))
				}
				if in != "" {
					plan := c.Must("EXPLAIN ANALYZE " + sql)
					if !strings.Contains(plan, x.describePlan) || !strings.Contains(plan, "requests=1") {
						t.Errorf("%s:\n%s", sql, plan)
					}
				}
			}
			if !strings.Contains(x.sql, "ORDER") {
				answers[""], answers["i"] = sorted(answers[""]), sorted(answers["i"])
			}
			if answers["i"] != answers[""] {
				t.Errorf("%s:\n%s\nwant\n%s", x.sql, answers["i"], answers[""])
			}
		}
		// The consumer stops, and the scan with it.
		c.Must("INSERT INTO iu SELECT g, 'x' FROM generate_series(1001, 1400) g")
		c.Must("INSERT INTO ia SELECT g, 1, g FROM generate_series(1001, 1400) g")
		c.Must("ANALYZE iu; ANALYZE ia")
		time.Sleep(time.Minute)
		for limit, want := range map[string]string{"": "(read time=0.000 rows=800 ", " LIMIT 3": "(read time=0.000 rows=64 "} {
			if plan := c.Must("EXPLAIN ANALYZE SELECT * FROM iu JOIN ia USING (uid) WHERE uid > 1000" + limit); !strings.Contains(plan, "interleaved join") || !strings.Contains(plan, want) {
				t.Errorf("not %q:\n%s", want, plan)
			}
		}
		// Rows by their keys are read without those of other tables below them, still in one request.
		c.Must("CREATE TABLE il (uid INT8, at INT8, PRIMARY KEY (uid, at)) INTERLEAVE IN PARENT iu")
		c.Must("INSERT INTO il SELECT 7, g FROM generate_series(1, 100) g")
		q := "SELECT count(*) FROM iu JOIN ia USING (uid) JOIN ip USING (uid, aid) WHERE uid = 7"
		want := c.Must(q)
		batches.Store(0)
		scans.Store(0)
		if got := c.Must(q); got != want || batches.Load() != 1 || scans.Load() != 2 {
			t.Errorf("%s, want %s: %d batches of %d scans, want one of two\n%s", got, want, batches.Load(), scans.Load(), c.Must("EXPLAIN "+q))
		}
	})
}

// sorted puts the lines of an answer in order.
func sorted(answer string) string {
	lines := strings.Split(answer, "\n")
	for i := range lines {
		for j := i; j > 0 && lines[j] < lines[j-1]; j-- {
			lines[j], lines[j-1] = lines[j-1], lines[j]
		}
	}
	return fmt.Sprint(lines)
}
