package session_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// TestEntriesAreBounded: a row that no command of the log can carry, and a key that is too long for an index, are refused before
// anything is sent, whichever statement writes them; a row just within the bounds is written, together with small ones.
func TestEntriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		s := cl.Nodes[0].Open(t, "root")
		s.Must("CREATE TABLE k (a text PRIMARY KEY); CREATE TABLE r (a int PRIMARY KEY, b text, c text); CREATE TABLE i (a int PRIMARY KEY, b text UNIQUE)")
		s.Must("INSERT INTO k VALUES ('x'); INSERT INTO i VALUES (1, 'x')")
		s.Must("INSERT INTO r SELECT i, repeat('s', 300000), 'x' FROM generate_series(1, 3) i")
		for _, c := range []struct{ sql, message string }{
			{"INSERT INTO k VALUES (repeat('x', 30000000))", `index row size 30000`},
			{"INSERT INTO k VALUES (repeat('x', 1048576))", `index row size 10485`},
			{"UPDATE k SET a = repeat('x', 2000000)", `index row size 20000`},
			{"INSERT INTO k SELECT repeat('x', 2000000) ON CONFLICT DO NOTHING", `index row size 20000`},
			{"INSERT INTO i VALUES (2, repeat('x', 2000000))", `index row size 20000`},
			{"UPDATE i SET b = repeat('x', 2000000)", `index row size 20000`},
			{"INSERT INTO r VALUES (9, repeat('x', 16000000), repeat('y', 16000000))", `row is too big: size 320000`},
			{"UPDATE r SET b = repeat('x', 32000000) WHERE a = 1", `row is too big: size 320000`},
			{"CREATE TABLE s AS SELECT repeat('x', 32000000) AS b", `row is too big: size 320000`},
		} {
			_, err := s.Exec(c.sql)
			if !sessiontest.ErrIs(err, sqlstate.ProgramLimitExceeded) || !strings.Contains(sessiontest.Describe(err), c.message) {
				t.Errorf("%s: %v", c.sql, sessiontest.Describe(err))
			}
		}
		// 31,000,000 bytes and small rows that were written before it, in one transaction.
		s.Must("BEGIN; UPDATE r SET c = 'y'; INSERT INTO r VALUES (4, repeat('x', 31000000), ''); COMMIT")
		s.Must("INSERT INTO k VALUES (repeat('x', 1000000))")
		if _, err := s.Exec("CREATE INDEX ON r (b)"); !sessiontest.ErrIs(err, sqlstate.ProgramLimitExceeded) {
			t.Errorf("an index of rows that are too long: %v", sessiontest.Describe(err))
		}
		s.Must("DELETE FROM r WHERE a = 4; DELETE FROM k")
	})
}
