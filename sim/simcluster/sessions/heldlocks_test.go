package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// lockCluster is three nodes with tables l, whose rows are locked, and d, in another range; the leases are where the test wants
// them.
func lockCluster(t *testing.T, seed uint64, maxOffset time.Duration) (c *simcluster.Cluster, admin *pgx.Conn) {
	c = simcluster.Start(t, simcluster.Options{Seed: seed, MaxOffset: maxOffset, Log: simtest.LogTo()})
	simtest.Replicated(t, c, 3)
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(true)
	}
	admin = simtest.Connect(t, c, 0)
	simtest.Exec(t, admin, "CREATE TABLE l (id int PRIMARY KEY, v int)")
	simtest.Exec(t, admin, "CREATE TABLE d (id int PRIMARY KEY, v int)")
	simtest.Exec(t, admin, "INSERT INTO l SELECT i, 0 FROM generate_series(1, 40) AS g(i)")
	simtest.Exec(t, admin, "INSERT INTO d SELECT i, 0 FROM generate_series(1, 40) AS g(i)")
	simtest.Exec(t, admin, "ALTER TABLE d SPLIT AT VALUES (0)")
	return c, admin
}

// TestRowLocksOutliveLeaseholders: a session has locked a row, the node that keeps the lock dies, and another session gets it. Of the
// two only the second may commit, at every level and for every strength, whether the first has written in the same range, in
// another one, in both, or nothing at all. Where the lease was transferred, the lock is still there, and the first commits.
func TestRowLocksOutliveLeaseholders(t *testing.T) {
	t.Parallel()
	levels := []string{"SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"}
	strengths := [][2]string{{"FOR UPDATE", "FOR KEY SHARE"}, {"FOR NO KEY UPDATE", "FOR SHARE"}, {"FOR SHARE", "FOR NO KEY UPDATE"}, {"FOR KEY SHARE", "FOR UPDATE"}}
	works := []string{"", "UPDATE l SET v = v + 1 WHERE id = %d + 20", "UPDATE d SET v = v + 1 WHERE id = %d",
		"UPDATE d SET v = v + 1 WHERE id = %[1]d; UPDATE l SET v = v + 1 WHERE id = %[1]d + 20"}
	synctest.Test(t, func(t *testing.T) {
		c, admin := lockCluster(t, 1, 0)
		ctx := context.Background()
		at, data := simtest.TableKey(t, admin, "l"), append(simtest.TableKey(t, admin, "d"), 0xf0) // beyond the split
		id := 0
		for i, level := range levels {
			for j, strength := range strengths {
				for _, dies := range []bool{true, false} {
					id++
					work := works[(i+j)%len(works)]
					what := fmt.Sprintf("%s, %s, then %q, the node dies: %t", level, strength[0], work, dies)
					if err := c.TransferLeases(ctx, 0); err != nil {
						t.Fatal(what, err)
					}
					if err := c.TransferLease(ctx, at, 1); err != nil {
						t.Fatal(what, err)
					}
					if err := c.TransferLease(ctx, data, 0); err != nil {
						t.Fatal(what, err)
					}
					one, two := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
					simtest.Exec(t, one, "BEGIN ISOLATION LEVEL "+level)
					simtest.Exec(t, one, fmt.Sprintf("SELECT * FROM l WHERE id = %d %s", id, strength[0]))
					simtest.Exec(t, two, "SET lock_timeout = '20s'")
					if dies {
						c.Crash(1, 0, true)
					} else if err := c.TransferLease(ctx, at, 2); err != nil {
						t.Fatal(what, err)
					}
					got := make(chan error, 1)
					go func() {
						_, err := two.Exec(ctx, fmt.Sprintf("BEGIN; SELECT * FROM l WHERE id = %d %s; COMMIT", id, strength[1]))
						got <- err
					}()
					if dies {
						if err := <-got; err != nil {
							t.Errorf("%s: the second session: %v", what, err)
						}
					} else {
						time.Sleep(2 * time.Second)
					}
					var err error
					if work != "" {
						_, err = one.Exec(ctx, fmt.Sprintf(work, id))
					}
					if err == nil {
						_, err = one.Exec(ctx, "COMMIT")
					}
					switch {
					case dies && err == nil:
						t.Errorf("%s: both have committed", what)
					case dies && simtest.Code(err) != "40001":
						t.Errorf("%s: %v, want 40001", what, err)
					case !dies && err != nil:
						t.Errorf("%s: the lock is not lost: %v", what, err)
					}
					if !dies {
						if err := <-got; err != nil {
							t.Errorf("%s: the second session: %v", what, err)
						}
					}
					one.Close(ctx)
					two.Close(ctx)
					if dies {
						c.Boot(1)
						c.WaitReady(1)
						c.Node(1).Store().PauseQueues(true)
					}
				}
			}
		}
	})
}

// section is a critical section of a transaction that has committed: from when it was given the lock until it asked for the
// commit.
type section struct {
	begin, end time.Time
	row        int
	number     int // the number that it found, plus one
	client     int
}

// TestRowLocksExclude: clients enter critical sections that only a row lock guards, on a row in another range than what they
// read and write. Nodes die, leases move. The sections of those that commit never overlap in time, and each has found the
// effects of all before it. MERIDIAN_SEEDS asks for more.
func TestRowLocksExclude(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { rowLocksExclude(t, uint64(seed), 0) })
		})
	}
}

// TestExternalRowLocksExclude is TestRowLocksExclude in a database that is externally consistent, with clocks that differ: the commits lie ahead of all leaseholders' clocks, and of those that get
// the locks next (leader.P30).
func TestExternalRowLocksExclude(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { rowLocksExclude(t, uint64(seed), 150*time.Millisecond) })
		})
	}
}

// rowLocksExclude has an externally consistent database if epsilon is not zero.
func rowLocksExclude(t *testing.T, seed uint64, epsilon time.Duration) {
	const clients, rows = 6, 2
	c, admin := lockCluster(t, seed, epsilon)
	if epsilon > 0 {
		simtest.Exec(t, admin, "ALTER DATABASE defaultdb SET external_consistency = on")
		for i := range c.Len() {
			c.Machines[i].Clock.SetOffset(time.Duration(i-1) * epsilon * 2 / 5)
		}
	}
	level := []string{"READ COMMITTED", "SERIALIZABLE", "REPEATABLE READ"}[seed%3]
	at, data := simtest.TableKey(t, admin, "l"), append(simtest.TableKey(t, admin, "d"), 0xf0) // beyond the split
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var sections []section
	refused, unknown := 0, 0
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for i := range clients {
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		workers.Go(func() {
			var conn *pgx.Conn
			defer func() {
				if conn != nil {
					conn.Close(ctx)
				}
			}()
			for {
				select {
				case <-stop:
					return
				default:
				}
				time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
				if conn == nil || conn.IsClosed() {
					var err error
					if conn, err = c.Connect(ctx, i%2*2, "defaultdb"); err != nil { // node 1 is the one that dies
						conn = nil
						time.Sleep(100 * time.Millisecond)
						continue
					}
				}
				s := section{row: 1 + dice.IntN(rows), client: i}
				err := func() error {
					if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+level); err != nil {
						return err
					}
					if _, err := conn.Exec(ctx, "SELECT * FROM l WHERE id = $1 FOR UPDATE", s.row); err != nil {
						return err
					}
					s.begin = time.Now()
					time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond)
					if err := conn.QueryRow(ctx, "SELECT max(v) + 1 FROM d WHERE id % 2 = $1", s.row-1).Scan(&s.number); err != nil {
						return err
					}
					if _, err := conn.Exec(ctx, "UPDATE d SET v = $1 WHERE id = $2", s.number, 2*(1+i)+s.row-1); err != nil {
						return err
					}
					s.end = time.Now()
					_, err := conn.Exec(ctx, "COMMIT")
					return err
				}()
				mu.Lock()
				switch {
				case err == nil:
					sections = append(sections, s)
				case simtest.Code(err) == "40001" || simtest.Code(err) == "40P01":
					refused++
				default:
					unknown++
				}
				mu.Unlock()
				if err != nil && !conn.IsClosed() {
					conn.Exec(ctx, "ROLLBACK")
				}
			}
		})
	}
	dice := rand.New(rand.NewPCG(seed, 0xdead))
	for range 5 {
		time.Sleep(time.Duration(500+dice.IntN(1500)) * time.Millisecond)
		if dice.IntN(3) == 0 {
			c.TransferLease(ctx, at, 2*dice.IntN(2))
		}
		c.TransferLease(ctx, data, 0)
		c.TransferLease(ctx, at, 1)
		time.Sleep(time.Duration(500+dice.IntN(1000)) * time.Millisecond)
		c.Crash(1, 0, true)
		time.Sleep(time.Duration(3000+dice.IntN(3000)) * time.Millisecond)
		c.Boot(1)
		c.WaitReady(1)
		c.Node(1).Store().PauseQueues(true)
	}
	close(stop)
	workers.Wait()
	slices.SortFunc(sections, func(a, b section) int { return a.begin.Compare(b.begin) })
	for row := 1; row <= rows; row++ {
		var last *section
		numbers := map[int]bool{}
		for i := range sections {
			s := &sections[i]
			if s.row != row {
				continue
			}
			if last != nil && s.begin.Before(last.end) {
				t.Errorf("row %d: client %d was given the lock %v before client %d asked for the commit, and both committed",
					row, s.client, last.end.Sub(s.begin), last.client)
			}
			if level == "REPEATABLE READ" {
				// Its snapshot may be older than the lock, as PostgreSQL's.
			} else if unknown == 0 && last != nil && s.number != last.number+1 || numbers[s.number] {
				t.Errorf("row %d: client %d has number %d, after client %d's %d", row, s.client, s.number, last.client, last.number)
			}
			numbers[s.number] = true
			last = s
		}
	}
	lost, ahead, waits := int64(0), int64(0), int64(0)
	for i := range c.Len() {
		m := c.Node(i).LeaderMetrics()
		lost, ahead, waits = lost+m.LocksLost.Load(), ahead+m.Vouched.Load(), waits+m.GrantWaits.Load()
	}
	t.Logf("seed %d, %s: %d sections, %d refused, %d unknown or failed; %d lost locks were noticed; %d answers ahead of the clock, %d grants that waited", seed, level, len(sections), refused, unknown, lost, ahead, waits)
	if ahead > 0 != (epsilon > 0) {
		t.Errorf("seed %d: %d answers ahead of the clock", seed, ahead)
	}
	if len(sections) < 20 {
		t.Errorf("seed %d: %d sections", seed, len(sections))
	}
}
