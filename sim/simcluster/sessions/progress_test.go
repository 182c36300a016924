package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

const (
	progressTime = 4 * time.Second
	// progressGap is the longest time without any commit. A schema change waits for all transactions that use the table's
	// earlier version, and those that begin wait for it.
	progressGap = 2 * time.Second
)

// TestHotRowsGoOn: many clients change few rows while indexes on the changed columns come and go. The test checks progress:
// there is no long time without a commit, no index takes for ever, and no request waits that could go on. The seeds differ
// in topology, levels of isolation and what the clients do. MERIDIAN_SEEDS asks for more.
func TestHotRowsGoOn(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) {
				hotRowsGoOn(t, uint64(seed), "UPDATE hot SET val = val + 1 WHERE id = $1", "CREATE INDEX hot_val ON hot (val)", "DROP INDEX hot_val")
			})
		})
	}
}

// TestEmptiedRowsGoOn is the same with TRUNCATE, which locks the table: transactions that have begun to use it end first, however
// often they have to be run again, and TRUNCATE does not wait for those that wait for it.
func TestEmptiedRowsGoOn(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) {
				hotRowsGoOn(t, uint64(seed), "INSERT INTO hot VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET val = hot.val + 1", "TRUNCATE hot")
			})
		})
	}
}

// TestDroppedRowsGoOn is the same with DROP TABLE, and CREATE TABLE after it: clients that find no table try again.
func TestDroppedRowsGoOn(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) {
				hotRowsGoOn(t, uint64(seed), "INSERT INTO hot VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET val = hot.val + 1", "DROP TABLE hot", createHot)
			})
		})
	}
}

const createHot = "CREATE TABLE hot (id bigint PRIMARY KEY, val bigint)"

func hotRowsGoOn(t *testing.T, seed uint64, write string, ddl ...string) {
	dice := rand.New(rand.NewPCG(seed, 0x407))
	o := simcluster.Options{Seed: seed, Log: simtest.LogTo(), NodesPerRegion: 3}
	nodes, gap := 3, progressGap
	switch seed % 4 {
	case 0:
		o.NodesPerRegion, nodes = 1, 1
	case 3:
		o.Regions, o.NodesPerRegion, gap = sim.ThreeRegions(), 1, 4*progressGap
	}
	drops := strings.HasPrefix(ddl[0], "DROP TABLE")
	levels, locks := 1, 1 // SERIALIZABLE, plain reads
	if seed%2 == 0 {
		levels, locks = 3, 4
	}
	c := simcluster.Start(t, o)
	simtest.Replicated(t, c, nodes)
	admin := simtest.Connect(t, c, 0)
	simtest.Exec(t, admin, createHot)
	simtest.Exec(t, admin, "INSERT INTO hot SELECT i, 0 FROM generate_series(1, 8) AS g(i)")
	simtest.Exec(t, admin, "ALTER TABLE hot SPLIT AT VALUES (100)")

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var commits, changes, lastCommit, lastChange atomic.Int64
	now := func() int64 { return time.Now().UnixNano() }
	lastCommit.Store(now())
	lastChange.Store(now())
	var workers sync.WaitGroup
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	begins := []string{"BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN ISOLATION LEVEL REPEATABLE READ"}
	for i := range 12 {
		conn := simtest.Connect(t, c, i%nodes)
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		workers.Go(func() {
			for !stopped() {
				tx := func() error {
					time.Sleep(time.Duration(dice.IntN(1000)) * time.Microsecond)
					if _, err := conn.Exec(ctx, begins[dice.IntN(levels)]); err != nil {
						return err
					}
					id := 1 + dice.IntN(4)
					what := "SELECT val FROM hot WHERE id = $1"
					switch dice.IntN(locks) {
					case 1:
						what += " FOR UPDATE"
					case 2:
						what += " FOR KEY SHARE"
					}
					var v int64
					if err := conn.QueryRow(ctx, what, id).Scan(&v); err != nil && !errors.Is(err, pgx.ErrNoRows) {
						return err
					}
					if _, err := conn.Exec(ctx, write, id); err != nil {
						return err
					}
					_, err := conn.Exec(ctx, "COMMIT")
					return err
				}
				if err := tx(); err != nil {
					switch simtest.Code(err) {
					case "40001", "40P01":
					case "42P01":
						if !drops {
							t.Errorf("a writer: %v", err)
							return
						}
					default:
						if ctx.Err() == nil {
							t.Errorf("a writer: %v", err)
						}
						return
					}
					if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
						return
					}
					continue
				}
				commits.Add(1)
				lastCommit.Store(now())
			}
		})
	}
	changer := simtest.Connect(t, c, 0)
	workers.Go(func() {
		for !stopped() {
			for _, sql := range ddl {
				if _, err := changer.Exec(ctx, sql); err != nil {
					if ctx.Err() == nil {
						t.Errorf("%s: %v", sql, err)
					}
					return
				}
				changes.Add(1)
				lastChange.Store(now())
			}
			time.Sleep(time.Duration(dice.IntN(50)) * time.Millisecond)
		}
	})
	longest, change := time.Duration(0), time.Duration(0)
	for begun := time.Now(); time.Since(begun) < progressTime; {
		time.Sleep(50 * time.Millisecond)
		longest = max(longest, time.Duration(now()-lastCommit.Load()))
		change = max(change, time.Duration(now()-lastChange.Load()))
	}
	close(stop)
	if longest > gap {
		t.Errorf("seed %d: nobody committed for %v", seed, longest)
	}
	over := time.AfterFunc(20*gap, func() {
		t.Errorf("seed %d: not everybody has ended after %v", seed, 20*gap)
		cancel()
	})
	workers.Wait()
	over.Stop()
	missed := int64(0)
	for i := range nodes {
		missed += c.Node(i).LeaderMetrics().SignalsMissed.Load()
	}
	if missed > 0 {
		t.Errorf("seed %d: %d requests were not told that they may go on", seed, missed)
	}
	t.Logf("seed %d: %d commits, at most %v apart; %d changes, at most %v apart", seed, commits.Load(), longest, changes.Load(), change)
	if changes.Load() == 0 || commits.Load() == 0 {
		t.Errorf("seed %d: nothing happened", seed)
	}
	if ctx.Err() != nil || drops || strings.HasPrefix(ddl[0], "TRUNCATE") {
		return
	}
	var sum int64
	if err := admin.QueryRow(context.Background(), "SELECT sum(val)::bigint FROM hot").Scan(&sum); err != nil || sum != commits.Load() {
		t.Errorf("seed %d: the sum is %d, %v, after %d commits", seed, sum, err, commits.Load())
	}
}
