package latency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
)

// TestMissingGlobalParent: an INSERT whose parent in a GLOBAL table is missing fails as soon as one with a parent succeeds, in each region.
func TestMissingGlobalParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fiveGlobal(t, reported, nil)
		home := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, home, `CREATE TABLE g (id int PRIMARY KEY, v int) LOCALITY GLOBAL`)
		simtest.Exec(t, home, `CREATE TABLE kid (id int PRIMARY KEY, g int REFERENCES g (id)) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, home, `CREATE TABLE toy (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), g int REFERENCES g (id)) LOCALITY REGIONAL BY ROW`)
		simtest.Exec(t, home, `INSERT INTO g SELECT i, 0 FROM generate_series(0, 99) i`)
		simtest.Settle(t, c, home, "g", globalPlace)
		time.Sleep(40 * time.Second)
		for i := range c.Len() {
			conn := simtest.ConnectTo(t, c, i, "movr")
			id := 1000 * (i + 1)
			insert := func(g int) (time.Duration, string) {
				id++
				start := time.Now()
				_, err := conn.Exec(context.Background(), "INSERT INTO kid VALUES ($1, $2)", id, g)
				took := time.Since(start)
				var pg *pgconn.PgError
				if errors.As(err, &pg) {
					return took, pg.Code
				}
				return took, ""
			}
			insert(3)
			insert(777)
			time.Sleep(time.Second)
			good, code := insert(4)
			if code != "" {
				t.Errorf("n%d: %s", i+1, code)
			}
			time.Sleep(time.Second)
			bad, code := insert(778)
			if code != "23503" {
				t.Errorf("n%d: %q", i+1, code)
			}
			t.Logf("n%d: with a parent %s, without %s", i+1, good, bad)
			for n := range 2 { // nobody else has a random key, so nobody is asked
				start := time.Now()
				_, err := conn.Exec(context.Background(), "INSERT INTO toy (g) VALUES ($1)", 779)
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "23503" {
					t.Errorf("n%d: %v", i+1, err)
				}
				if took := time.Since(start); n > 0 && took > 10*time.Millisecond {
					t.Errorf("n%d: without a parent, and with a random key, it takes %s", i+1, took)
				}
				time.Sleep(time.Second)
			}
			for _, sql := range []string{"INSERT INTO kid VALUES (-1, 778), (-1, 778)", "INSERT INTO kid VALUES (-2, 778), (-3, 3), (-2, 3)"} { // PostgreSQL reports the key first
				_, err := conn.Exec(context.Background(), sql)
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "23505" {
					t.Errorf("n%d: %s: %v", i+1, sql, err)
				}
			}
			if bad > good+2*reported {
				t.Errorf("n%d: without a parent it takes %s, with one %s", i+1, bad, good)
			}
		}
	})
}
