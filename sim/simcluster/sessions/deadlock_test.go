package sessions_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/sim/simcluster/simtest"
)

// TestDeadlockOverRegions makes transactions of three regions wait for each other in a ring, each holding a row whose
// leaseholder is at home and wanting one of the next region. Exactly one has to give up, soon, and its error names all
// three.
func TestDeadlockOverRegions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		ctx := context.Background()
		near := simtest.Connect(t, c, 0)
		simtest.Exec(t, near, "CREATE TABLE ring (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "INSERT INTO ring VALUES (0, 0), (1, 0), (2, 0)")
		simtest.Exec(t, near, "ALTER TABLE ring SPLIT AT VALUES (1), (2)")
		time.Sleep(2 * time.Second)
		var table uint32
		if err := near.QueryRow(ctx, "SELECT 'ring'::regclass::oid").Scan(&table); err != nil {
			t.Fatal(err)
		}
		moved := 0
		ranges, err := c.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ranges {
			if id, _, err := keys.DecodeTableKey(d.Start); err == nil && id == table && moved < 2 {
				moved++
				if err := c.TransferLease(ctx, d.Start, moved); err != nil {
					t.Fatal(err)
				}
			}
		}
		if moved != 2 {
			t.Fatalf("%d ranges begin in the table", moved)
		}
		conns := [3]*pgx.Conn{near, simtest.Connect(t, c, 1), simtest.Connect(t, c, 2)}
		for i, conn := range conns {
			simtest.Exec(t, conn, "SET transaction_replay = off")
			simtest.Exec(t, conn, "UPDATE ring SET v = v WHERE id = $1", (i+1)%3)
		}
		time.Sleep(time.Second)
		var took []time.Duration
		for round := range 9 {
			for i, conn := range conns {
				simtest.Exec(t, conn, "BEGIN")
				simtest.Exec(t, conn, "UPDATE ring SET v = v + 1 WHERE id = $1", i)
			}
			type outcome struct {
				i   int
				err error
				at  time.Time
			}
			out := make(chan outcome, 3)
			for k := range conns {
				i := (k + round) % 3
				go func() {
					_, err := conns[i].Exec(ctx, "UPDATE ring SET v = v + 1 WHERE id = $1", (i+1)%3)
					at := time.Now()
					if err != nil {
						conns[i].Exec(ctx, "ROLLBACK")
					} else {
						_, err = conns[i].Exec(ctx, "COMMIT")
					}
					out <- outcome{i, err, at}
				}()
				if k < 2 {
					time.Sleep(time.Duration(round*7+5) * time.Millisecond)
				}
			}
			start := time.Now()
			failed := 0
			for range conns {
				o := <-out
				if o.err == nil {
					continue
				}
				var e *pgconn.PgError
				if failed++; failed > 1 || !errors.As(o.err, &e) || e.Code != "40P01" {
					t.Errorf("round %d: transaction of region %d: %v, failure %d", round, o.i, o.err, failed)
					continue
				}
				took = append(took, o.at.Sub(start))
				if n := strings.Count(e.Detail, "waits for"); n != 3 {
					t.Errorf("the detail names %d waits: %s", n, e.Detail)
				}
			}
			if failed != 1 {
				t.Errorf("round %d: %d transactions gave up", round, failed)
			}
			time.Sleep(time.Second)
		}
		slices.Sort(took)
		t.Logf("from the last wait to the error: %v", took)
		// News of the waits cross every link of the ring. The longest is 132 ms there and back, the others 63 and 87.
		if median := took[len(took)/2]; median >= 3*132*time.Millisecond {
			t.Errorf("half of the deadlocks were found after %v only", median)
		}
	})
}
