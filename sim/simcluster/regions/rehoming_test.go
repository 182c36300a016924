package regions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
)

// TestRehoming: clients in three regions update the same rows of a table with auto-rehoming, at all levels of isolation. No row is lost or doubled, no update is lost, and a row
// ends in the region from which it was updated last.
func TestRehoming(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		const rows = 6
		c, admin := simtest.UsersByRow(t, "SET enable_auto_rehoming = on",
			`CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE, n int NOT NULL DEFAULT 0) LOCALITY REGIONAL BY ROW`,
			fmt.Sprintf("INSERT INTO users (id, email) SELECT g, 'e' || g FROM generate_series(0, %d) g", rows-1))
		var mu sync.Mutex
		var done, unknown [rows]int
		atAllLevels(ctx, t, c, 1, func(_ int, level string, conn *pgx.Conn, rng *rand.Rand) {
			for range 10 {
				id := rng.IntN(rows)
				q := []string{
					fmt.Sprintf("UPDATE users SET n = n + 1 WHERE id = %d", id),
					fmt.Sprintf("UPDATE users SET n = n + 1 WHERE email = 'e%d'", id),
					fmt.Sprintf("INSERT INTO users (id) VALUES (%d) ON CONFLICT (id) DO UPDATE SET n = users.n + 1", id),
				}[rng.IntN(3)]
				tag, err := conn.Exec(ctx, q)
				var pg *pgconn.PgError
				mu.Lock()
				switch {
				case err == nil && tag.RowsAffected() == 1:
					done[id]++
				case err == nil:
					t.Errorf("at %s: %s changed %d rows", level, q, tag.RowsAffected())
				case errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01"):
				case errors.As(err, &pg) && pg.Code == "40003":
					unknown[id]++
				default:
					t.Errorf("at %s: %s: %v", level, q, err)
				}
				mu.Unlock()
			}
		})
		for _, index := range []string{"users_pkey", "users_email_key"} {
			var all, different int
			if err := admin.QueryRow(ctx, "SELECT count(*), count(DISTINCT id) FROM users@"+index).Scan(&all, &different); err != nil || all != rows || different != rows {
				t.Errorf("%s has %d entries of %d rows, want %d: %v", index, all, different, rows, err)
			}
		}
		updates := 0
		for id := range rows {
			var n int
			if err := admin.QueryRow(ctx, "SELECT n FROM users WHERE id = $1", id).Scan(&n); err != nil || n < done[id] || n > done[id]+unknown[id] {
				t.Errorf("row %d was updated %d times, and has %d: %v", id, done[id], n, err)
			}
			updates += n
		}
		t.Log(updates, "updates")
		if updates < 30 {
			t.Error("too few updates")
		}
		for i, region := range map[int]string{0: "us-east1", 3: "us-west1", 6: "europe-west1"} {
			conn := simtest.ConnectTo(t, c, i, "movr")
			for id, q := range []string{
				"UPDATE users SET n = n + 1 WHERE id = 0",
				"UPDATE users SET n = n + 1 WHERE email = 'e1'",
				"INSERT INTO users (id) VALUES (2) ON CONFLICT (id) DO UPDATE SET n = users.n + 1",
				"UPSERT INTO users (id, n) VALUES (3, 1)",
			} {
				simtest.Exec(t, conn, q)
				var home string
				if err := conn.QueryRow(ctx, "SELECT crdb_region FROM users WHERE id = $1", id).Scan(&home); err != nil || home != region {
					t.Errorf("%s from %s homes a row in %s: %v", q, region, home, err)
				}
			}
		}
	})
}
