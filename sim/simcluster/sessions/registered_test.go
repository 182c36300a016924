package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestSchemaAtATime: a change of a schema that is valid from a registered time on (lease.L15) neither waits for a transaction that uses the table, nor keeps any statement from going on for longer
// than the clock's interval, though the table has ranges in all regions, and statements arrive all the time through every node.
func TestSchemaAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const epsilon = 20 * time.Millisecond
		schemaAtATime(t, sim.FiveRegions(), epsilon, 40)
	})
}

func schemaAtATime(t *testing.T, regions *sim.Regions, epsilon time.Duration, ranges int) {
	ctx := context.Background()
	c := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 1, MaxOffset: epsilon, Log: simtest.LogTo(),
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	root := simtest.Connect(t, c, 0)
	simtest.Exec(t, root, "CREATE DATABASE d")
	simtest.Exec(t, root, "ALTER DATABASE d SET external_consistency = on")
	ddl := simtest.ConnectTo(t, c, 0, "d")
	simtest.Exec(t, ddl, "CREATE TABLE a (id int PRIMARY KEY, v int)")
	simtest.Exec(t, ddl, fmt.Sprintf("INSERT INTO a SELECT i, 0 FROM generate_series(1, %d) AS g(i)", ranges))
	simtest.Exec(t, ddl, fmt.Sprintf("ALTER TABLE a SPLIT AT SELECT i FROM generate_series(2, %d) AS g(i)", ranges))
	time.Sleep(30 * time.Second)

	// A transaction that has read the table, and stays open.
	idle := simtest.ConnectTo(t, c, 1, "d")
	simtest.Exec(t, idle, "BEGIN")
	simtest.Exec(t, idle, "SELECT v FROM a WHERE id = 3")

	var mu sync.Mutex
	var calm, changing []time.Duration
	const farthest = 280 * time.Millisecond // between two regions, and back
	// A read asks twice if it goes to a node that has no lease any more, or is uncertain. Not every run has such reads while nothing changes.
	during, slowest := false, 2*farthest+epsilon
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range c.Len() {
		conn := simtest.ConnectTo(t, c, i, "d")
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				begin := time.Now()
				var v int
				if err := conn.QueryRow(ctx, "SELECT v FROM a WHERE id = $1", 1+(n*7+i)%ranges).Scan(&v); err != nil {
					t.Errorf("node %d: %v", i, err)
				}
				d := time.Since(begin)
				mu.Lock()
				if during {
					changing = append(changing, d)
				} else {
					calm = append(calm, d)
				}
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	time.Sleep(5 * time.Second)
	for _, q := range []string{"ALTER TABLE a ADD COLUMN w int DEFAULT 7", "ALTER TABLE a RENAME COLUMN w TO x", "CREATE INDEX ON a (x)", "ALTER TABLE a DROP COLUMN x"} {
		mu.Lock()
		during = true
		mu.Unlock()
		begin := time.Now()
		simtest.Exec(t, ddl, q)
		took := time.Since(begin)
		waits, longest := int64(0), time.Duration(0)
		for i := range c.Len() {
			n, _, d := c.Node(i).Catalog().Coming()
			waits, longest = waits+n, max(longest, d)
		}
		mu.Lock()
		during = false
		slices.Sort(calm)
		slices.Sort(changing)
		t.Logf("%s: %v; %d reads meanwhile, the longest %v, and %v without; so far %d have waited, at most %v", q, took, len(changing), changing[len(changing)-1], calm[len(calm)-1], waits, longest)
		if most := 2*epsilon + 5*time.Millisecond; longest > most {
			t.Errorf("%s: a read has waited for %v, and not %v", q, longest, most)
		}
		// Beyond that, a read may be planned anew, and ask its leaseholder once more.
		slowest = max(slowest, calm[len(calm)-1])
		if most := slowest + 2*epsilon + farthest; changing[len(changing)-1] > most {
			t.Errorf("%s: a read took %v, and not %v", q, changing[len(changing)-1], most)
		}
		calm, changing = nil, nil
		mu.Unlock()
		time.Sleep(2 * time.Second)
	}
	close(stop)
	wg.Wait()
	simtest.Exec(t, idle, "COMMIT")
}

// TestSchemaChangesAtomically: whoever begins after somebody has seen the new version sees it, at whatever node, though clocks differ and drift within their bound. Every node is asked in turn, as
// fast as a client can.
func TestSchemaChangesAtomically(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			const epsilon = 30 * time.Millisecond
			c := simcluster.Start(t, simcluster.Options{Seed: seed, NodesPerRegion: 5, MaxOffset: epsilon, Log: simtest.LogTo()})
			simtest.Exec(t, simtest.Connect(t, c, 0), "ALTER DATABASE defaultdb SET external_consistency = on")
			ddl := simtest.Connect(t, c, 0)
			simtest.Exec(t, ddl, "CREATE TABLE a (id int PRIMARY KEY, v int)")
			simtest.Exec(t, ddl, "INSERT INTO a VALUES (1, 1)")
			dice := rand.New(rand.NewPCG(seed, 4))
			for i := range c.Len() {
				c.Machines[i].Clock.SetOffset(time.Duration(dice.IntN(23)-11) * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			var last atomic.Int64 // columns that an answered statement has seen
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for w := range 2 * c.Len() {
				conn := simtest.Connect(t, c, w%c.Len())
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						known := last.Load()
						rows, err := conn.Query(ctx, "SELECT * FROM a", pgx.QueryExecModeSimpleProtocol)
						if err != nil {
							t.Error(err)
							return
						}
						rows.Next()
						n := int64(len(rows.FieldDescriptions()))
						rows.Close()
						if err := rows.Err(); err != nil {
							t.Error(err)
							return
						}
						if n < known {
							t.Errorf("node %d shows %d columns, after somebody has seen %d", w%c.Len(), n, known)
						}
						for old := last.Load(); n > old && !last.CompareAndSwap(old, n); old = last.Load() {
						}
					}
				})
			}
			for i := range 6 {
				simtest.Exec(t, ddl, fmt.Sprintf("ALTER TABLE a ADD COLUMN c%d int DEFAULT 7", i))
				time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond)
			}
			close(stop)
			wg.Wait()
			if last.Load() != 8 {
				t.Errorf("the last version that was seen has %d columns", last.Load())
			}
		})
	}
}
