package regions_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/server"
	"meridian/sim/simcluster/simtest"
)

// TestConfigureZone: the stores follow numbers of replicas, constraints, lease preferences and the time for which versions are kept, of a table and of an index of it, and go
// back to what they inherit after DISCARD.
func TestConfigureZone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, `CREATE TABLE a (id int PRIMARY KEY, v int)`)
		simtest.Exec(t, conn, `CREATE TABLE b (id int PRIMARY KEY, v int)`)
		simtest.Exec(t, conn, `CREATE INDEX bv ON b (v)`)
		simtest.Exec(t, conn, `INSERT INTO a VALUES (1, 1)`)
		simtest.Exec(t, conn, `INSERT INTO b VALUES (1, 1)`)
		simtest.Exec(t, conn, `ALTER TABLE a CONFIGURE ZONE USING constraints = '[+region=europe-west1]', gc.ttlseconds = 123`)
		simtest.Exec(t, conn, `ALTER TABLE b CONFIGURE ZONE USING num_replicas = 5, num_voters = 3, voter_constraints = '{"+region=us-west1": 2}', lease_preferences = '[[+region=us-west1]]',
			constraints = '{"+region=us-west1": 2, "+region=us-east1": 1, "+region=europe-west1": 2}'`)
		simtest.Exec(t, conn, `ALTER INDEX b@bv CONFIGURE ZONE USING num_replicas = 1, num_voters = 1, voter_constraints = '[]', constraints = '[+zone=us-east1-a]', lease_preferences = '[]'`)
		simtest.Settle(t, c, conn, "a", "3 europe-west1; lease europe-west1")
		var id uint32
		if err := conn.QueryRow(context.Background(), "SELECT 'a'::regclass::oid").Scan(&id); err != nil {
			t.Fatal(err)
		}
		for i := range c.Len() {
			c.On(i, func(_ context.Context, n *server.Node) {
				if z, _ := n.ZoneOf(keys.TableKey(id)); z.GCTTL != 123*time.Second {
					t.Errorf("node %d keeps versions of a for %s", i, z.GCTTL)
				}
			})
		}
		simtest.Settle(t, c, conn, "b", "1 us-east1, 2 (europe-west1), 2 us-west1; lease us-west1\n1 us-east1; lease us-east1")
		simtest.Exec(t, conn, `ALTER TABLE a CONFIGURE ZONE DISCARD`)
		simtest.Exec(t, conn, `ALTER TABLE a CONFIGURE ZONE USING lease_preferences = '[[+region=us-east1]]'`)
		simtest.Settle(t, c, conn, "a", "1 europe-west1, 1 us-east1, 1 us-west1; lease us-east1")
	})
}
