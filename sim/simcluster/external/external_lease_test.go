package external_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// The duties of leaseholders and replicas for external consistency, each in one interleaving that shows its absence at once. docs/decisions/0017-external-consistency.md has the table of
// mistakes.

// threeRegionsExternal is an externally consistent database over three regions with two tables of one row, whose leaseholder is node 0, the fastest clock. Node 1 has the slowest.
func threeRegionsExternal(t *testing.T, maxOffset time.Duration) *simcluster.Cluster {
	t.Helper()
	offset := maxOffset * 19 / 50 // two fifths, less than what stops a node
	c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, MaxOffset: maxOffset, Log: simtest.LogTo()})
	simtest.Replicated(t, c, 3)
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(true)
	}
	root := simtest.Connect(t, c, 0)
	simtest.Exec(t, root, "CREATE DATABASE d")
	simtest.Exec(t, root, "ALTER DATABASE d SET external_consistency = on")
	d := simtest.ConnectTo(t, c, 0, "d")
	for _, table := range []string{"a", "b"} {
		simtest.Exec(t, d, "CREATE TABLE "+table+" (id int PRIMARY KEY, v int)")
		simtest.Exec(t, d, "ALTER TABLE "+table+" SPLIT AT VALUES (0)")
		simtest.Exec(t, d, "INSERT INTO "+table+" VALUES (1, 0)")
	}
	time.Sleep(5 * time.Second)
	if err := c.TransferLeases(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	c.Machines[0].Clock.SetOffset(offset)
	c.Machines[1].Clock.SetOffset(-offset)
	for i := range c.Len() { // plans, and knows where the ranges are
		conn := simtest.ConnectTo(t, c, i, "d")
		simtest.Exec(t, conn, "SELECT a.v, b.v FROM a, b")
		simtest.Exec(t, conn, "UPDATE a SET v = v WHERE id = 1")
		simtest.Exec(t, conn, "UPDATE b SET v = v WHERE id = 1")
	}
	time.Sleep(5 * time.Second)
	return c
}

// TestReadLocks (txn.TX14): a plain SELECT of a read-write transaction keeps others from writing the row, also when its lease is transferred. If the leaseholder dies, the lock is lost,
// somebody writes, and the transaction does not commit: its refresh finds the write (txn.TX11). Two that each read what the other one writes do not both commit.
func TestReadLocks(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", "transferred", "lost"} {
		t.Run("lease_"+end, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := threeRegionsExternal(t, 500*time.Millisecond)
				ctx := context.Background()
				reader, writer := simtest.ConnectTo(t, c, 2, "d"), simtest.ConnectTo(t, c, 1, "d")
				simtest.Exec(t, reader, "SET transaction_replay = off")
				simtest.Exec(t, reader, "BEGIN")
				if v := simtest.One(t, reader, "SELECT v FROM a WHERE id = 1"); v != 0 {
					t.Fatal(v)
				}
				switch end {
				case "transferred":
					if err := c.TransferLeases(ctx, 1); err != nil {
						t.Fatal(err)
					}
				case "lost":
					c.Crash(0, 0, true)
				}
				stmts := []string{"BEGIN", "UPDATE a SET v = 1 WHERE id = 1", "COMMIT"}
				if end == "lost" {
					stmts = slices.Insert(stmts, 1, "SELECT v FROM b WHERE id = 1")
				}
				written := make(chan time.Duration, 1)
				go func() {
					begin := time.Now()
					for _, q := range stmts {
						if _, err := writer.Exec(ctx, q); err != nil {
							t.Errorf("the writer, %s: %v", q, err)
							break
						}
					}
					written <- time.Since(begin)
				}()
				const long = 12 * time.Second
				time.Sleep(long)
				_, err := reader.Exec(ctx, "UPDATE b SET v = 1 WHERE id = 1")
				if err == nil {
					_, err = reader.Exec(ctx, "COMMIT")
				}
				if err != nil {
					_, _ = reader.Exec(ctx, "ROLLBACK")
				}
				took := <-written
				t.Logf("the reader: %v; the writer took %v", err, took)
				if end == "lost" {
					if simtest.Code(err) != "40001" || took > long {
						t.Errorf("the lock was lost, the writer took %v, and the reader's commit: %v", took, err)
					}
				} else if err != nil || took < long {
					t.Errorf("the writer took %v, while the reader's lock was held for %v; the reader: %v", took, long, err)
				}
			})
		})
	}
}

// TestAbdication (leader.P4; Spanner §4.1.2 disjointness, §4.1.4): a lease is transferred with the highest timestamp that was read under it. The reader's clock is fast, and it has read at the latest that true time may be;
// the writer's is slow, and comes to the next leaseholder. The snapshot does not change.
func TestAbdication(t *testing.T) {
	t.Parallel()
	for _, reader := range []int{0, 2} {
		t.Run(fmt.Sprintf("reader=n%d", reader+1), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := threeRegionsExternal(t, 500*time.Millisecond)
				ctx := context.Background()
				c.Machines[2].Clock.SetOffset(190 * time.Millisecond)
				time.Sleep(5 * time.Second)
				conns := map[bool]*pgx.Conn{}
				for _, writes := range []bool{false, true} {
					conns[writes] = simtest.ConnectTo(t, c, map[bool]int{false: reader, true: 1}[writes], "d")
				}
				key := append(simtest.TableKey(t, conns[false], "a"), 0xfe) // behind its rows
				simtest.Exec(t, conns[false], "BEGIN READ ONLY")
				before := simtest.One(t, conns[false], "SELECT v FROM a WHERE id = 1")
				begin := time.Now()
				if err := c.TransferLease(ctx, key, 1); err != nil {
					t.Fatal(err)
				}
				moved := time.Since(begin)
				simtest.Exec(t, conns[true], "UPDATE a SET v = v + 1 WHERE id = 1")
				after := simtest.One(t, conns[false], "SELECT v FROM a WHERE id = 1")
				simtest.Exec(t, conns[false], "COMMIT")
				if most := 300 * time.Millisecond; moved > most {
					t.Errorf("the transfer took %v, what was read is not ahead of the writer's time any more", moved)
				}
				if before != after {
					t.Errorf("a read-only transaction has read %d, and %d after the lease moved", before, after)
				}
				if v := simtest.One(t, conns[false], "SELECT v FROM a WHERE id = 1"); v != before+1 {
					t.Errorf("a transaction that began after the UPDATE was answered has read %d", v)
				}
			})
		})
	}
}

// TestReadNearPrepared: a replica that has closed a time, and meets an intent of a transaction that may have committed before, does not pass it (Spanner §4.1.3, t_safe of the transaction manager): the transaction of two ranges was answered when
// its writes were durable, and its intents are still there.
func TestReadNearPrepared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := threeRegionsExternal(t, 5*time.Millisecond) // the answer does not wait until the intents are gone
		near := simtest.ConnectTo(t, c, 0, "d")
		far := []*pgx.Conn{simtest.ConnectTo(t, c, 1, "d"), simtest.ConnectTo(t, c, 2, "d")}
		for i := range 6 {
			simtest.Exec(t, near, "BEGIN")
			simtest.Exec(t, near, "UPDATE a SET v = v + 1 WHERE id = 1")
			simtest.Exec(t, near, "UPDATE b SET v = v + 1 WHERE id = 1")
			simtest.Exec(t, near, "COMMIT")
			for _, table := range []string{"a", "b"} {
				for _, x := range far {
					simtest.Exec(t, x, "BEGIN READ ONLY")
					if v := simtest.One(t, x, "SELECT v FROM "+table+" WHERE id = 1"); v != i+1 {
						t.Errorf("%s is %d after %d commits", table, v, i+1)
					}
					simtest.Exec(t, x, "COMMIT")
				}
			}
			time.Sleep(time.Second)
		}
	})
}

// TestPromiseAwaitsWrites (closedts.CT1, leader.P29): a promise is made when no write at or below its time is in flight. The writes are so, on their way to the quorum, when a replica far away asks for the promise;
// its reader reads above them, and goes on to see what it has seen.
func TestPromiseAwaitsWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := threeRegionsExternal(t, 500*time.Millisecond)
		ctx := context.Background()
		c.Machines[2].Clock.SetOffset(190 * time.Millisecond)
		near, far := simtest.ConnectTo(t, c, 0, "d"), simtest.ConnectTo(t, c, 2, "d")
		time.Sleep(5 * time.Second)
		for ago := time.Duration(0); ago < 80*time.Millisecond; ago += 10 * time.Millisecond {
			written := make(chan error, 1)
			go func() {
				_, err := near.Exec(ctx, "UPDATE a SET v = v + 1 WHERE id = 1")
				written <- err
			}()
			time.Sleep(ago)
			simtest.Exec(t, far, "BEGIN READ ONLY")
			first := simtest.One(t, far, "SELECT v FROM a WHERE id = 1")
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if again := simtest.One(t, far, "SELECT v FROM a WHERE id = 1"); again != first {
				t.Errorf("a read-only transaction that began %v after an UPDATE has read %d, and then %d", ago, first, again)
			}
			simtest.Exec(t, far, "COMMIT")
		}
	})
}
