package regions_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
)

// TestEnforceHomeRegion: with enforce_home_region each statement either takes no wide-area round, or fails without one. Statements are refused by what
// they would read, so a lookup join over rows that are all at home is not (session.S11).
func TestEnforceHomeRegion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		admin := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, admin, `CREATE TABLE users (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), email text, name text, UNIQUE INDEX users_email_key (email) STORING (name)) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, admin, `CREATE TABLE rides (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider text REFERENCES users (email), code int, INDEX (rider)) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, admin, `CREATE TABLE codes (id int PRIMARY KEY, code text) LOCALITY GLOBAL`)
		simtest.Exec(t, admin, `CREATE TABLE offices (id int PRIMARY KEY) LOCALITY REGIONAL BY TABLE IN "europe-west1"`)
		for _, r := range []string{"us-east1", "us-west1", "europe-west1"} {
			simtest.Exec(t, admin, `INSERT INTO users (email, name, crdb_region) VALUES ($1::text || '@m', $1, $2)`, r, r)
			simtest.Exec(t, admin, `INSERT INTO rides (rider, code, crdb_region) VALUES ($1::text || '@m', 1, $2)`, r, r)
		}
		// As many others that a join is a lookup.
		simtest.Exec(t, admin, `INSERT INTO users (email, name, crdb_region) SELECT g::text, 'n', (ARRAY['us-east1', 'us-west1', 'europe-west1'])[g % 3 + 1]::crdb_internal_region FROM generate_series(1, 3000) g`)
		simtest.Exec(t, admin, `ANALYZE users`)
		simtest.Exec(t, admin, `ANALYZE rides`)
		simtest.Exec(t, admin, `INSERT INTO codes VALUES (1, 'one')`)
		simtest.Exec(t, admin, `INSERT INTO offices VALUES (1)`)
		simtest.Homed(t, c, admin, "users", 3, 2)
		simtest.Homed(t, c, admin, "rides", 3, 2)
		time.Sleep(time.Minute) // for leads, non-voters and statistics
		east, europe := simtest.ConnectTo(t, c, 0, "movr"), simtest.ConnectTo(t, c, 6, "movr")
		for _, conn := range []*pgx.Conn{east, europe} {
			simtest.Exec(t, conn, "SET search_path = public") // see TestPredictedRounds
			simtest.Exec(t, conn, "SET enforce_home_region = on")
		}
		for _, x := range []struct {
			sql          string
			east, europe string // the expected code; empty: it runs
		}{
			{"SELECT name FROM users WHERE email = 'us-east1@m'", "", "XCHR2"},
			{"SELECT name FROM users WHERE email = 'europe-west1@m'", "XCHR2", ""},
			{"SELECT name FROM users WHERE crdb_region = 'europe-west1'", "XCHR1", ""},
			{"SELECT name FROM users", "XCHR2", "XCHR2"},
			{"SELECT name FROM users LIMIT 1", "", ""},
			{"SELECT name FROM users WHERE name <> 'n' LIMIT 2", "XCHR2", "XCHR2"},
			{"SELECT u.name FROM rides r JOIN users u ON u.email = r.rider WHERE r.crdb_region = 'us-east1'", "", "XCHR1"},
			{"SELECT u.name, c.code FROM rides r JOIN users u ON u.email = r.rider JOIN codes c ON c.id = r.code WHERE r.crdb_region = 'europe-west1'", "XCHR1", ""},
			{"SELECT code FROM codes WHERE id = 1", "", ""},
			{"SELECT id FROM offices", "XCHR1", ""},
			{"SELECT id FROM offices AS OF SYSTEM TIME follower_read_timestamp()", "", ""},
			{"SELECT name FROM users AS OF SYSTEM TIME with_max_staleness('30s')", "", ""},
			{"UPDATE users SET name = name || '' WHERE email = 'us-east1@m'", "", "XCHR2"},
			{"INSERT INTO users (name) VALUES ('new')", "", ""},
			{"INSERT INTO users (email) VALUES ('new@m')", "XCHR2", "XCHR2"},
			{"INSERT INTO rides (rider) VALUES ('us-east1@m')", "", "XCHR2"},
			{"INSERT INTO offices VALUES (2) ON CONFLICT DO NOTHING", "XCHR1", ""},
			{"DELETE FROM users WHERE email = 'us-east1@m' AND name = 'nobody'", "", "XCHR2"},
		} {
			for i, conn := range []*pgx.Conn{east, europe} {
				want := []string{x.east, x.europe}[i]
				for attempt := range 3 { // the others find out where ranges are; after the first of them another index may look nearer
					time.Sleep(time.Second)
					begun := time.Now()
					_, err := conn.Exec(ctx, x.sql)
					took := time.Since(begun)
					var pg *pgconn.PgError
					code := ""
					if errors.As(err, &pg) {
						code = pg.Code
						if pg.Hint == "" || code == "XCHR1" && pg.Detail == "" {
							t.Errorf("%s: %+v", x.sql, pg)
						}
					} else if err != nil {
						t.Fatal(err)
					}
					t.Logf("%-60.60s gateway %d: %q, %v", x.sql, i, code, took)
					if code != want && attempt > 0 {
						t.Log(strings.Join(simtest.Plain(t, conn, "EXPLAIN "+x.sql), "\n"))
					}
					if code != want {
						t.Errorf("%s from gateway %d: %v, want %q", x.sql, i, err, want)
					}
					if attempt > 1 && took > 20*time.Millisecond {
						t.Errorf("%s from gateway %d took %v", x.sql, i, took)
					}
				}
			}
		}
	})
}
