package sessions_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestVirtualRelations: each column of each relation that the node computes can be read, on a cluster that has something to say in most of them.
func TestVirtualRelations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions().WithoutLatency(), NodesPerRegion: 1, TimeMasters: 3, Log: simtest.LogTo(),
			Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
		conn := simtest.Connect(t, c, 0)
		for _, q := range []string{
			"CREATE PLACEMENT p WITH (num_replicas = 3)", "CREATE TABLE users (id int PRIMARY KEY, name text)",
			"CREATE TABLE albums (id int, a int, PRIMARY KEY (id, a)) INTERLEAVE IN PARENT users ON DELETE CASCADE", "CREATE INDEX ON users (name)",
			"ALTER TABLE users SET PLACEMENT p FOR VALUES (7)", "INSERT INTO users VALUES (7, 'x')", "CREATE VIEW v AS SELECT id FROM users", "CREATE SEQUENCE s", "CREATE TYPE e AS ENUM ('a')",
		} {
			simtest.Exec(t, conn, q)
		}
		time.Sleep(5 * time.Second)
		ctx := context.Background()
		rows, err := conn.Query(ctx, `SELECT n.nspname || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname IN ('meridian_internal', 'pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') ORDER BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for rows.Next() {
			var n string
			if err := rows.Scan(&n); err != nil {
				t.Fatal(err)
			}
			names = append(names, n)
		}
		if rows.Err() != nil || len(names) < 100 {
			t.Fatal(len(names), "relations", rows.Err())
		}
		read := 0
		for _, n := range names {
			// As text, so that every column is computed and written.
			tag, err := conn.PgConn().Exec(ctx, "SELECT * FROM "+n).ReadAll()
			if err != nil {
				t.Errorf("%s: %v", n, err)
			} else if len(tag) == 1 && len(tag[0].Rows) > 0 {
				read++
			}
		}
		for _, q := range []string{"SHOW UNIVERSE", "SHOW PLACEMENTS", "SHOW DIRECTORIES", "SHOW CLUSTER CLOCKS", "SHOW RANGES FROM TABLE albums", "SHOW CREATE TABLE users"} {
			if all, err := conn.PgConn().Exec(ctx, q).ReadAll(); err != nil || len(all[0].Rows) == 0 {
				t.Errorf("%s: %v", q, err)
			}
		}
		t.Logf("%d relations, %d with rows", len(names), read)
	})
}
