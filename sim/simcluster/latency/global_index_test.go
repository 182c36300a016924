package latency_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
)

// TestGlobalUniqueIndex: a unique index that is built on a populated GLOBAL table finds duplicates that are there, and those that clients in other regions add
// meanwhile; without them it has an entry for each row, within seconds.
func TestGlobalUniqueIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		admin := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, admin, `CREATE TABLE g (id int PRIMARY KEY, code int, note text) LOCALITY GLOBAL`)
		simtest.Exec(t, admin, `INSERT INTO g SELECT i, i, 'n' FROM generate_series(1, 300) i`)
		simtest.Exec(t, admin, `INSERT INTO g VALUES (1000, 7, 'again')`)
		time.Sleep(10 * time.Second)
		code := func(err error) string {
			var pg *pgconn.PgError
			if errors.As(err, &pg) {
				return pg.Code
			}
			return fmt.Sprint(err)
		}
		build := `CREATE UNIQUE INDEX g_code ON g (code)`
		if _, err := admin.Exec(ctx, build); code(err) != "23505" {
			t.Fatalf("a duplicate is there: %v", err)
		}
		simtest.Exec(t, admin, `DELETE FROM g WHERE id = 1000`)
		// Clients of all regions add rows while the index is built.
		var mu sync.Mutex
		added, refused := 0, 0
		var clients sync.WaitGroup
		stop := make(chan struct{})
		for i := range 9 {
			conn := simtest.ConnectTo(t, c, i, "movr")
			clients.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
					}
					_, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO g VALUES (%d, %d, 'new')", 10_000*(i+1)+n, 10_000*(i+1)+n))
					mu.Lock()
					switch code(err) {
					case "<nil>":
						added++
					case "40001":
					default:
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		time.Sleep(2 * time.Second)
		begun := time.Now()
		if _, err := admin.Exec(ctx, build); err != nil {
			t.Error(err)
		}
		took := time.Since(begun)
		if took > 15*time.Second {
			t.Errorf("an index of 300 rows took %v", took) // each has a transaction, and waits for its commit
		}
		close(stop)
		clients.Wait()
		for i := range 9 {
			if _, err := simtest.ConnectTo(t, c, i, "movr").Exec(ctx, fmt.Sprintf("INSERT INTO g VALUES (%d, 7)", 500_000+i)); code(err) != "23505" {
				t.Errorf("gateway %d: %v", i, err)
			} else {
				refused++
			}
		}
		time.Sleep(5 * time.Second)
		var rows, entries, codes int
		if err := admin.QueryRow(ctx, "SELECT (SELECT count(*) FROM g@g_pkey), (SELECT count(code) FROM g@g_code), (SELECT count(DISTINCT code) FROM g@g_code)").Scan(&rows, &entries, &codes); err != nil {
			t.Fatal(err)
		}
		if rows != 300+added || entries != rows || codes != rows || added < 20 || refused != 9 {
			t.Errorf("%d rows were added, and there are %d rows, %d entries and %d codes; %d duplicates were refused", added, rows, entries, codes, refused)
		}
		t.Logf("%d rows were added while the index was built, in %v", added, took)
		// A client adds a code that is there, at some moment of the build: either it is refused, or the build fails.
		builds, inserts := 0, 0
		for i := range 9 {
			simtest.Exec(t, admin, "DROP INDEX IF EXISTS g_code")
			built := make(chan error, 1)
			go func() {
				_, err := admin.Exec(ctx, build)
				built <- err
			}()
			time.Sleep(time.Duration(i) * 300 * time.Millisecond)
			_, inserted := simtest.ConnectTo(t, c, i, "movr").Exec(ctx, fmt.Sprintf("INSERT INTO g VALUES (%d, 7)", 600_000+i))
			err := <-built
			switch {
			case err == nil && code(inserted) == "23505":
				inserts++
			case inserted == nil && code(err) == "23505":
				builds++
				simtest.Exec(t, admin, fmt.Sprintf("DELETE FROM g WHERE id = %d", 600_000+i))
			default:
				t.Errorf("round %d: the index: %v; its duplicate: %v", i, err, inserted)
			}
		}
		if builds == 0 || inserts == 0 {
			t.Errorf("%d builds failed, %d inserts were refused", builds, inserts)
		}
		t.Logf("%d builds failed, %d inserts were refused", builds, inserts)
	})
}
