package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestAdvisoryLocksOverNodes: a lock of a session of one node excludes sessions of others, whatever happens to the leaseholder of
// its key: the lease moves, the range splits at the lock, the leaseholder dies. Every node shows it. When the holder's node dies
// it is free within seconds, for sessions that wait and for those that only try.
func TestAdvisoryLocksOverNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true)
		}
		ctx := context.Background()
		one, two, three := simtest.Connect(t, c, 0), simtest.Connect(t, c, 1), simtest.Connect(t, c, 2)
		db := simtest.Ask[uint32](t, one, "SELECT oid FROM pg_database WHERE datname = current_database()")
		key := keys.AdvisoryLock{Database: db, Sub: 1, ID: 5}.Key()
		held := func(what string, conns ...*pgx.Conn) {
			t.Helper()
			for i, conn := range conns {
				if simtest.Ask[bool](t, conn, "SELECT pg_try_advisory_lock(5)") || simtest.Ask[bool](t, conn, "SELECT pg_try_advisory_xact_lock(6)") {
					t.Fatalf("%s: session %d was given a lock that another has", what, i)
				}
				if !simtest.Ask[bool](t, conn, "SELECT pg_try_advisory_xact_lock_shared(6)") {
					t.Fatalf("%s: session %d does not share a shared lock", what, i)
				}
				for range 15 { // a node that has just died may take the liveness of others with it for a while
					if simtest.Ask[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted") >= 2 {
						break
					}
					time.Sleep(time.Second)
				}
				if n := simtest.Ask[int](t, conn, fmt.Sprintf("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = %d", one.PgConn().PID())); n != 2 {
					t.Errorf("%s: session %d sees %d locks, want 2", what, i, n)
				}
			}
		}
		if err := c.TransferLeases(ctx, 1); err != nil {
			t.Fatal(err)
		}
		simtest.Exec(t, one, "SELECT pg_advisory_lock(5), pg_advisory_lock_shared(6)")
		held("at first", two, three)
		if err := c.TransferLease(ctx, key, 2); err != nil {
			t.Fatal(err)
		}
		held("after a transfer", two, three)
		if _, err := c.Node(0).DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: keys.AdvisoryLock{Database: db, Sub: 1, ID: 6}.Key().Next()}}}); err != nil {
			t.Fatal(err)
		}
		held("after a split within a lock", two, three)
		time.Sleep(10 * time.Second)
		held("ten seconds later", two, three)
		if err := c.TransferLeases(ctx, 1); err != nil {
			t.Fatal(err)
		}
		c.Crash(1, 0, true)
		held("after the leaseholder's death", three)
		if !simtest.Ask[bool](t, one, "SELECT pg_advisory_unlock_shared(6)") || !simtest.Ask[bool](t, three, "SELECT pg_try_advisory_lock(6)") || simtest.Ask[bool](t, one, "SELECT pg_try_advisory_lock(6)") {
			t.Error("a lock that was given back and taken by another is not the other's")
		}
		c.Boot(1)
		c.WaitReady(1)
		two = simtest.Connect(t, c, 1)

		// The holder's node dies.
		waits := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			if _, err := three.Exec(ctx, "SELECT pg_advisory_lock(5)"); err != nil {
				t.Error(err)
			}
			waits <- time.Since(start)
		}()
		time.Sleep(time.Second)
		start = time.Now()
		if err := c.TransferLeases(ctx, 1); err != nil {
			t.Fatal(err)
		}
		c.Crash(0, 0, true)
		if d := <-waits; d > 10*time.Second {
			t.Errorf("the lock of a dead node was free after %v", d)
		}
		c.Boot(0)
		c.WaitReady(0)
		simtest.Exec(t, three, "SELECT pg_advisory_unlock_all()")

		// Nobody waits, one only tries.
		one = simtest.Connect(t, c, 0)
		simtest.Exec(t, one, "SELECT pg_advisory_lock(5), pg_advisory_lock_shared(6)")
		time.Sleep(2 * time.Second)
		c.Crash(0, 0, true)
		start = time.Now()
		for !simtest.Ask[bool](t, two, "SELECT pg_try_advisory_lock(5)") || !simtest.Ask[bool](t, two, "SELECT pg_try_advisory_lock(6)") {
			if time.Since(start) > 20*time.Second {
				t.Fatal("the locks of a dead node are not free")
			}
			time.Sleep(500 * time.Millisecond)
		}
		t.Logf("who only tries has the locks of a dead node after %v", time.Since(start))
		if simtest.Ask[bool](t, three, "SELECT pg_try_advisory_lock(5)") {
			t.Error("a lock that was free after a node's death was given twice")
		}
	})
}

// TestAdvisoryLockOfTheCutOff: a session whose node is cut off from the others is ended before another session gets its lock, and its
// open transaction does not commit.
func TestAdvisoryLockOfTheCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, admin := lockCluster(t, 1, 0)
		ctx := context.Background()
		if err := c.TransferLeases(ctx, 1); err != nil {
			t.Fatal(err)
		}
		one, two := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, one, "SELECT pg_advisory_lock(5)")
		simtest.Exec(t, one, "BEGIN; UPDATE l SET v = 1 WHERE id = 1")
		time.Sleep(2 * time.Second)
		ended := make(chan time.Time, 1)
		for i := 1; i < c.Len(); i++ {
			c.Network.Partition(c.Machines[0].Name, c.Machines[i].Name)
		}
		go func() {
			if _, err := one.Exec(ctx, "SELECT pg_sleep(60)"); err == nil || simtest.Code(err) != "57P01" {
				t.Errorf("a session that can't keep its lock: %v", err)
			}
			ended <- time.Now()
		}()
		simtest.Exec(t, two, "SELECT pg_advisory_lock(5)")
		given := time.Now()
		select {
		case at := <-ended:
			t.Logf("the session was ended %v before its lock was another's", given.Sub(at))
		default:
			t.Error("the lock was given to another session while the first one lived")
			<-ended
		}
		for i := 1; i < c.Len(); i++ {
			c.Network.Heal(c.Machines[0].Name, c.Machines[i].Name)
		}
		admin.Close(ctx)
		if v := simtest.Ask[int](t, two, "SELECT v FROM l WHERE id = 1"); v != 0 {
			t.Error("the transaction of a session that lost its lock has committed")
		}
	})
}

// TestAdvisoryDeadlockOverNodes: sessions of two nodes, keys of a third: a deadlock over an advisory lock of the session's level and
// a row is found, and the session that is chosen goes on with its lock.
func TestAdvisoryDeadlockOverNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := lockCluster(t, 1, 0)
		ctx := context.Background()
		if err := c.TransferLeases(ctx, 1); err != nil {
			t.Fatal(err)
		}
		one, two := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		for _, level := range []string{"READ COMMITTED", "SERIALIZABLE"} {
			simtest.Exec(t, one, "SELECT pg_advisory_lock(1)")
			simtest.Exec(t, two, "SELECT pg_advisory_lock(2)")
			simtest.Exec(t, one, "BEGIN ISOLATION LEVEL "+level+"; SELECT * FROM l WHERE id = 1 FOR UPDATE")
			simtest.Exec(t, two, "BEGIN ISOLATION LEVEL "+level+"; SELECT * FROM l WHERE id = 2 FOR UPDATE")
			start, got := time.Now(), make(chan error, 2)
			go func() {
				_, err := one.Exec(ctx, "UPDATE l SET v = v + 1 WHERE id = 2")
				got <- err
				one.Exec(ctx, "ROLLBACK; SELECT pg_advisory_unlock(1)")
			}()
			go func() {
				_, err := two.Exec(ctx, "SELECT pg_advisory_lock(1)")
				got <- err
				two.Exec(ctx, "ROLLBACK; SELECT pg_advisory_unlock_all()")
			}()
			errs := []error{<-got, <-got}
			if a := simtest.Code(errs[0]); a != "40P01" || errs[1] != nil {
				t.Errorf("%s: %v, then %v; want one deadlock", level, errs[0], errs[1])
			}
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("%s: the deadlock was found after %v", level, d)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestAdvisoryLocksExclude: clients enter critical sections that only an advisory lock guards, at READ COMMITTED: each reads the
// largest number and writes the next. Nodes die, leases move, the range of the locks splits, nodes are cut off. No two sections
// that committed have found the same number. MERIDIAN_SEEDS asks for more.
func TestAdvisoryLocksExclude(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { advisoryLocksExclude(t, uint64(seed)) })
		})
	}
}

func advisoryLocksExclude(t *testing.T, seed uint64) {
	const clients = 6
	c, admin := lockCluster(t, seed, 0)
	data := append(simtest.TableKey(t, admin, "d"), 0xf0)
	db := simtest.Ask[uint32](t, admin, "SELECT oid FROM pg_database WHERE datname = current_database()")
	lock := keys.AdvisoryLock{Database: db, Sub: 1, ID: 9}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	by := map[int]int{} // client by number
	entered, failed, shared := 0, 0, 0
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
					if conn, err = c.Connect(ctx, i%3, "defaultdb"); err != nil {
						conn = nil
						time.Sleep(100 * time.Millisecond)
						continue
					}
				}
				kind, number, other := dice.IntN(3), 0, 0
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				run := func(sql string, args ...any) func() error {
					return func() error { _, err := conn.Exec(ctx, sql, args...); return err }
				}
				read := func(into *int) func() error {
					return func() error { return conn.QueryRow(ctx, "SELECT max(v) + 1 FROM d").Scan(into) }
				}
				pause := func() error { time.Sleep(time.Duration(dice.IntN(200)) * time.Millisecond); return nil }
				write := func() error { return run("UPDATE d SET v = $1 WHERE id = $2", number, 2+i)() }
				steps := [][]func() error{
					{run("SELECT pg_advisory_lock(9)"), run("BEGIN ISOLATION LEVEL READ COMMITTED"), read(&number), pause, write, run("COMMIT")},
					{run("BEGIN ISOLATION LEVEL READ COMMITTED"), run("SELECT pg_advisory_xact_lock(9)"), read(&number), pause, write, run("COMMIT")},
					{run("SELECT pg_advisory_lock_shared(9)"), run("BEGIN ISOLATION LEVEL READ COMMITTED"), read(&number), pause, read(&other),
						run("UPDATE l SET v = 1 WHERE id = $1", 1+i), run("COMMIT")},
				}[kind]
				var err error
				for _, f := range steps {
					if err = f(); err != nil {
						break
					}
				}
				mu.Lock()
				switch {
				case err != nil:
					failed++
				case kind == 2 && number != other:
					t.Errorf("seed %d: client %d, which shares the lock, saw %d and then %d", seed, i, number, other)
				case kind == 2:
					shared++
				default:
					if who, taken := by[number]; taken {
						t.Errorf("seed %d: clients %d and %d both wrote number %d", seed, who, i, number)
					}
					by[number] = i
					entered++
				}
				mu.Unlock()
				if !conn.IsClosed() {
					run("ROLLBACK")()
					if run("SELECT pg_advisory_unlock_all()")() != nil {
						conn.Close(ctx)
					}
				}
				cancel()
			}
		})
	}
	dice := rand.New(rand.NewPCG(seed, 0xdead))
	for round := range 5 {
		time.Sleep(time.Duration(500+dice.IntN(1500)) * time.Millisecond)
		victim := dice.IntN(3)
		c.TransferLease(ctx, data, (victim+1)%3)
		c.TransferLease(ctx, lock.Key(), dice.IntN(3))
		if round == 2 {
			c.Node((victim+1)%3).DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: lock.Key().Next()}}})
		}
		time.Sleep(time.Duration(500+dice.IntN(1000)) * time.Millisecond)
		if dice.IntN(2) == 0 {
			c.Network.Isolate(c.Machines[victim].Name)
			time.Sleep(time.Duration(2000+dice.IntN(6000)) * time.Millisecond)
			c.Network.Rejoin(c.Machines[victim].Name)
			continue
		}
		c.Crash(victim, 0, true)
		time.Sleep(time.Duration(2000+dice.IntN(4000)) * time.Millisecond)
		c.Boot(victim)
		c.WaitReady(victim)
		c.Node(victim).Store().PauseQueues(true)
	}
	time.Sleep(5 * time.Second)
	close(stop)
	workers.Wait()
	t.Logf("seed %d: %d sections alone, %d shared, %d failed", seed, entered, shared, failed)
	if entered < 20 || shared < 5 {
		t.Errorf("seed %d: %d sections alone and %d shared", seed, entered, shared)
	}
}
