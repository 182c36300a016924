package session_test

import (
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// TestCopyFreeze: COPY FREEZE needs a table that was made or truncated in the same subtransaction: since the last savepoint that is neither released nor rolled back.
func TestCopyFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		c := cl.Nodes[0].Open(t, "root")
		defer c.Close()
		c.Must("CREATE TABLE t (a int)")
		for before, want := range map[string]bool{
			"":                                       false,
			"LOCK TABLE t":                           false,
			"TRUNCATE t":                             true,
			"TRUNCATE t; SAVEPOINT a":                false,
			"TRUNCATE t; SAVEPOINT a; TRUNCATE t":    true,
			"TRUNCATE t; SAVEPOINT a; RELEASE a":     true,
			"SAVEPOINT a; TRUNCATE t":                true,
			"SAVEPOINT a; TRUNCATE t; RELEASE a":     true,
			"SAVEPOINT a; TRUNCATE t; ROLLBACK TO a": false,
			"SAVEPOINT a; TRUNCATE t; SAVEPOINT b; RELEASE a":                                                            true,
			"SAVEPOINT a; TRUNCATE t; SAVEPOINT b; INSERT INTO t VALUES (1); ROLLBACK TO b":                              false,
			"DROP TABLE t; CREATE TABLE t (a int)":                                                                       true,
			"DROP TABLE t; CREATE TABLE t (a int); SAVEPOINT a":                                                          false,
			"DROP TABLE t; CREATE TABLE t (a int); SAVEPOINT a; ALTER TABLE t ADD b int DEFAULT 1; ALTER TABLE t DROP b": false,
		} {
			c.Must("BEGIN")
			if before != "" {
				c.Must(before)
			}
			_, err := c.Copy("COPY t FROM STDIN (FREEZE)", "1\n")
			if want && err != nil || !want && !sqlstate.Is(err, sqlstate.ObjectNotInPrerequisite) {
				t.Errorf("after %q: %v", before, err)
			}
			c.Must("ROLLBACK")
		}
	})
}
