package latency_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster/simtest"
	"meridian/sql/catalog"
	"meridian/txn"
)

// TestFillOfGlobalTable: indexes of a GLOBAL table are filled in seconds, though their ranges close the future, so that no entry can be loaded at the
// time at which its row was read, and every row is filled by a transaction. Clients in all regions write rows meanwhile. None of them is the victim of a deadlock with
// the fill or waits for many of its transactions, and the indexes agree with the rows in the end.
func TestFillOfGlobalTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, most = 1000, 25 * time.Second
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		time.Sleep(40 * time.Second) // a new cluster is rebalanced
		far := simtest.ConnectTo(t, c, 6, "d")
		simtest.Exec(t, far, "CREATE TABLE t (id int PRIMARY KEY, u int NOT NULL, v int) LOCALITY REGIONAL BY ROW")
		simtest.Exec(t, far, fmt.Sprintf("INSERT INTO t SELECT g, g, 10 * g FROM generate_series(1, %d) g", rows))
		ctx, stop := context.WithCancel(context.Background())
		var (
			writers            sync.WaitGroup
			written, deadlocks atomic.Int64
			longest            atomic.Int64
		)
		for i := range 6 {
			conn := simtest.ConnectTo(t, c, 2*i%9, "d")
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			writers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					id := 1 + rng.IntN(rows)
					q := ""
					switch rng.IntN(6) {
					case 0:
						q = fmt.Sprintf("INSERT INTO t (id, u, v) VALUES (%d, %d, 0)", rows+10000*(i+1)+n, rows+10000*(i+1)+n)
					case 1:
						q = fmt.Sprintf("DELETE FROM t WHERE id = %d", id)
					case 2: // the key changes hands, if the other row is there
						q = fmt.Sprintf("BEGIN; UPDATE t SET u = -%d WHERE id = %d; UPDATE t SET u = %d WHERE id = %d; COMMIT", id, id, id, rows/2+id/2)
					case 3: // rows are locked from the last to the first
						q = fmt.Sprintf("BEGIN; UPDATE t SET v = v + 1 WHERE id = %d; UPDATE t SET v = v + 1 WHERE id = %d; COMMIT", id, id/2)
					default:
						q = fmt.Sprintf("UPDATE t SET v = v + 1 WHERE id = %d", 1+id%20)
					}
					begun := time.Now()
					_, err := conn.Exec(context.Background(), q)
					took := int64(time.Since(begun))
					for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
					}
					var pg *pgconn.PgError
					switch {
					case err == nil:
						written.Add(1)
					case errors.As(err, &pg) && pg.Code == "40P01":
						deadlocks.Add(1)
						t.Logf("%s: %v", q, err)
					case errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "23505"):
					default:
						t.Errorf("%s: %v", q, err)
					}
					if err != nil {
						conn.Exec(context.Background(), "ROLLBACK")
					}
				}
			})
		}
		run := func(statements ...string) {
			for _, q := range statements {
				limit, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				begun := time.Now()
				_, err := far.Exec(limit, q)
				cancel()
				took := time.Since(begun)
				t.Logf("%6.2fs  %s; %d writes, the longest took %v", took.Seconds(), q, written.Load(), time.Duration(longest.Load()))
				if err != nil || took > most {
					t.Errorf("%s took %v: %v", q, took, err)
					return
				}
			}
		}
		run("ALTER TABLE t SET LOCALITY GLOBAL", "CREATE UNIQUE INDEX ON t (u)", "CREATE INDEX ON t (v)")
		stop()
		writers.Wait()
		if n := deadlocks.Load(); n > 0 {
			t.Errorf("%d writers were victims of deadlocks", n)
		}
		if d := time.Duration(longest.Load()); d > 5*time.Second {
			t.Errorf("a write took %v", d)
		}
		run("ALTER TABLE t ALTER PRIMARY KEY USING COLUMNS (u)", "ALTER TABLE t ALTER COLUMN v TYPE text USING v::text",
			"ALTER TABLE t SET LOCALITY REGIONAL BY ROW", "ALTER TABLE t SET LOCALITY GLOBAL")
		n := c.Node(6)
		var id catalog.ID
		n.Catalog().Snapshot().EachTable(func(d *catalog.Table) {
			if d.Name == "t" && d.ID >= catalog.FirstUserID {
				id = d.ID
			}
		})
		if err := n.DB().Run(context.Background(), txn.TxnOptions{ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
			cat := n.Catalog().Begin(tx)
			defer cat.Finish(ctx, false)
			wrong, compared, err := simtest.CompareIndexes(ctx, tx, cat, id)
			if err == nil && (len(wrong) > 0 || compared == 0) {
				t.Errorf("%d indexes were compared: %v", compared, wrong)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}
