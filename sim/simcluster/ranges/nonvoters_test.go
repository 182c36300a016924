package ranges_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestNonVotersBySQL: a cluster setting gives each range non-voting replicas, and takes them away again.
func TestNonVotersBySQL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 5})
		simtest.Replicated(t, c, 3)
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE g (id int PRIMARY KEY, v int)")
		simtest.Exec(t, conn, "INSERT INTO g VALUES (1, 1)")
		become := func(want int) {
			t.Helper()
			var non string
			for range 120 {
				rows, err := conn.Query(context.Background(), "SHOW RANGES FROM TABLE g")
				if err != nil {
					t.Fatal(err)
				}
				for rows.Next() {
					v, err := rows.Values()
					if err != nil {
						t.Fatal(err)
					}
					non = v[slices.IndexFunc(rows.FieldDescriptions(), func(f pgconn.FieldDescription) bool { return f.Name == "non_voting_replicas" })].(string) // {4,5}
				}
				if err := rows.Err(); err != nil {
					t.Fatal(err)
				}
				n := 0
				if non != "{}" {
					n = 1 + strings.Count(non, ",")
				}
				if n == want {
					return
				}
				time.Sleep(time.Second)
			}
			t.Errorf("non-voting replicas %s, want %d", non, want)
		}
		become(0)
		simtest.Exec(t, conn, "SET CLUSTER SETTING replicas.nonvoters = 2")
		become(2)
		simtest.Exec(t, conn, "UPDATE g SET v = 2")
		simtest.Exec(t, conn, "SET CLUSTER SETTING replicas.nonvoters TO DEFAULT")
		become(0)
	})
}
