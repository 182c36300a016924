package schemachange_test

import (
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// TestPlacementRace: of two transactions, of which one gives something a placement and the other drops it, one fails (lease.L14): no object names a placement that is gone. An
// object and an option of one transaction do without the other's.
func TestPlacementRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.NewIn(t, 2, threeRegions())
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		run := func(conn *sessiontest.Conn, statements ...string) {
			t.Helper()
			for _, s := range statements {
				if _, err := conn.Exec(s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
		}
		fails := func(conn *sessiontest.Conn, s string, code sqlstate.Code) {
			t.Helper()
			if _, err := conn.Exec(s); !sqlstate.Is(err, code) {
				t.Errorf("%s: %v, want %s", s, err, code)
			}
		}
		run(a, "CREATE TABLE t (id int PRIMARY KEY)", "CREATE DATABASE d")
		for _, tag := range []string{"ALTER TABLE t SET PLACEMENT p", "ALTER TABLE t SET PLACEMENT p FOR VALUES (1)", "ALTER DATABASE d SET PLACEMENT p"} {
			run(a, "CREATE PLACEMENT p WITH (num_replicas = 3)", "BEGIN", tag)
			run(b, "DROP PLACEMENT p")
			fails(a, "COMMIT", sqlstate.SerializationFailure)

			run(a, "CREATE PLACEMENT p WITH (num_replicas = 3)", "BEGIN", "DROP PLACEMENT p")
			run(b, tag)
			fails(a, "COMMIT", sqlstate.SerializationFailure)
			fails(a, "DROP PLACEMENT p", sqlstate.DependentObjectsExist)
			run(a, "ALTER TABLE t RESET PLACEMENT", "ALTER TABLE t RESET PLACEMENT FOR VALUES (1)", "ALTER DATABASE d RESET PLACEMENT", "DROP PLACEMENT p")

			run(a, "BEGIN", "CREATE PLACEMENT p WITH (num_replicas = 3)", tag, "COMMIT")
			fails(b, "DROP PLACEMENT p", sqlstate.DependentObjectsExist)
			run(a, "BEGIN", "ALTER TABLE t RESET PLACEMENT", "ALTER TABLE t RESET PLACEMENT FOR VALUES (1)", "ALTER DATABASE d RESET PLACEMENT", "DROP PLACEMENT p", "COMMIT")
		}
	})
}
