package sessions_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster/simtest"
)

// TestAddColumnKeepsValues: a transaction adds a column and fills it; elsewhere a statement that was bound with the
// earlier version, which is still in use (I7), waits for one of its rows. It must not write it without the new value.
func TestAddColumnKeepsValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		ctx := context.Background()
		a, b := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, a, "CREATE TABLE t (id int PRIMARY KEY, v int, w text)")
		simtest.Exec(t, a, "INSERT INTO t SELECT g, 0, 'x' FROM generate_series(1, 3) g")
		simtest.Exec(t, b, "SELECT * FROM t")
		for _, change := range []string{
			"UPDATE t SET v = v + 1 WHERE id = 1",
			"INSERT INTO t VALUES (1, 0, 'y') ON CONFLICT (id) DO UPDATE SET v = t.v + 1",
		} {
			simtest.Exec(t, a, "BEGIN")
			simtest.Exec(t, a, "ALTER TABLE t ADD COLUMN c int")
			simtest.Exec(t, a, "UPDATE t SET c = 7 WHERE id = 1")
			done := make(chan error, 1)
			go func() { // bound with the present version, it waits for the row
				_, err := b.Exec(ctx, change)
				done <- err
			}()
			time.Sleep(time.Second)
			simtest.Exec(t, a, "COMMIT")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			var v, n int
			if err := b.QueryRow(ctx, "SELECT v, coalesce(c, 0) FROM t WHERE id = 1").Scan(&v, &n); err != nil || v != 1 || n != 7 {
				t.Errorf("%s: read v=%d, c=%d, %v", change, v, n, err)
			}
			simtest.Exec(t, a, "ALTER TABLE t DROP COLUMN c")
			simtest.Exec(t, a, "UPDATE t SET v = 0")
		}
	})
}
