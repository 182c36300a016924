package ranges_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/storage/engine"
)

const (
	smallDisk    = 24 << 20
	smallReserve = 8 << 20
)

// onSmallDisks is a cluster whose disks are bounded, and small enough to be filled.
func onSmallDisks(t *testing.T, nodes int) *simcluster.Cluster {
	c := simcluster.New(t, simcluster.Options{NodesPerRegion: nodes, Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.ReserveBytes = smallReserve }})
	for i := range nodes {
		c.Boot(i)
		if i == 0 {
			if _, err := c.Node(0).Init(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		c.WaitReady(i)
	}
	if nodes >= 3 {
		simtest.Replicated(t, c, 3)
	}
	return c
}

// fill loads rows until they are refused, which must be with 53100 and a hint.
func fill(t *testing.T, ctx context.Context, conn *pgx.Conn, table string) (rows int) {
	t.Helper()
	for ; rows < 1000; rows++ {
		begun := time.Now()
		_, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s SELECT %d + i, repeat(md5(i::text), 200) FROM generate_series(1, 20) AS g(i)", table, rows*20))
		if took := time.Since(begun); took > 10*time.Second {
			t.Fatalf("an INSERT took %s: %v", took, err)
		}
		if err == nil {
			continue
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "53100" || !strings.Contains(pg.Hint, "TRUNCATE") {
			t.Fatalf("after %d inserts: %v", rows, err)
		}
		return rows
	}
	t.Fatal("the disk is not full")
	return 0
}

// TestDiskFull loads faster than the node checks its disk, until 53100. The node lives; rows can be deleted, tables truncated
// and dropped, no statement hangs; and when that has freed space, writes are accepted again (I9).
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := onSmallDisks(t, nodes)
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
				defer cancel()
				conn, err := c.Connect(ctx, 0, "defaultdb")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(ctx)
				run := func(within time.Duration, q string) {
					t.Helper()
					begun := time.Now()
					if _, err := conn.Exec(ctx, q); err != nil {
						t.Fatalf("%s: %v", q, err)
					}
					if took := time.Since(begun); took > within {
						t.Fatalf("%s took %s", q, took)
					}
				}
				for _, name := range []string{"a", "b", "c"} {
					run(10*time.Second, "CREATE TABLE "+name+" (id bigint PRIMARY KEY, v text)")
				}
				run(10*time.Second, "INSERT INTO b SELECT i, repeat('x', 100) FROM generate_series(1, 100) AS g(i)")
				run(10*time.Second, "INSERT INTO c SELECT i, repeat('x', 100) FROM generate_series(1, 100) AS g(i)")
				for i := range nodes { // the followers' disks are the same size, but not all are filled the same
					c.Machines[i].Disk.SetSize(smallDisk)
				}
				for round, free := range []string{"DELETE FROM a WHERE id > 0", "TRUNCATE a", "DROP TABLE a"} {
					rows := fill(t, ctx, conn, "a")
					t.Logf("round %d: full after %d inserts", round, rows)
					run(10*time.Second, "DELETE FROM b WHERE id = "+fmt.Sprint(round+1))
					if free == "DROP TABLE a" {
						run(20*time.Second, "TRUNCATE c")
					}
					if n := count(t, ctx, conn, "b"); n != 100-round-1 {
						t.Fatalf("b has %d rows", n)
					}
					run(30*time.Second, free)
					begun := time.Now()
					for {
						_, err := conn.Exec(ctx, "INSERT INTO b VALUES ($1, 'there is space again')", 1000+round)
						if err == nil {
							break
						}
						if time.Since(begun) > 10*time.Minute {
							t.Fatalf("no space %s after %s: %v", time.Since(begun), free, err)
						}
						time.Sleep(time.Second)
					}
					t.Logf("%s: writes are taken again after %s", free, time.Since(begun))
					run(10*time.Second, "DELETE FROM b WHERE id >= 1000")
					for i := range nodes {
						simtest.Healthy(t, c, i)
					}
				}
			})
		})
	}
}

// TestIndexOnAFullDisk: a schema change that would fill an index while there is no space ends with 53100, as INSERT does, and
// leaves nothing behind; it does not retry until there is space.
func TestIndexOnAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := onSmallDisks(t, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE a (id bigint PRIMARY KEY, v text)")
		simtest.Exec(t, conn, "CREATE TABLE b (id bigint PRIMARY KEY, v text)")
		simtest.Exec(t, conn, "INSERT INTO b SELECT i, 'x' FROM generate_series(1, 1000) AS g(i)")
		simtest.Exec(t, conn, "INSERT INTO a SELECT -i, repeat(md5(i::text), 200) FROM generate_series(1, 200) AS g(i)")
		time.Sleep(time.Minute) // by then the store is as small as it gets
		size := func(free uint64) {
			c.Machines[0].Disk.SetSize(smallDisk)
			u, err := c.Machines[0].Disk.FS().GetDiskUsage("/")
			if err != nil {
				t.Fatal(err)
			}
			c.Machines[0].Disk.SetSize(int64(smallDisk - u.AvailBytes + free))
		}
		size(smallReserve / 2)
		fill(t, ctx, conn, "a")
		for _, sql := range []string{"CREATE INDEX i ON b (v)", "CREATE UNIQUE INDEX i ON b (id, v)", "ALTER TABLE b ADD CONSTRAINT i UNIQUE (v, id)"} {
			begun := time.Now()
			limit, cancel := context.WithTimeout(ctx, time.Minute)
			_, err := conn.Exec(limit, sql)
			cancel()
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "53100" || !strings.Contains(pg.Hint, "TRUNCATE") {
				t.Fatalf("%s after %s: %v", sql, time.Since(begun), err)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("%s took %s", sql, took)
			}
		}
		time.AfterFunc(5*time.Second, func() { size(2 * smallReserve) }) // it may pass
		simtest.Exec(t, conn, "CREATE INDEX i ON b (v)")
	})
}

func count(t *testing.T, ctx context.Context, conn *pgx.Conn, table string) (n int) {
	t.Helper()
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStartOnAFullDisk: a new store on a disk without room is refused at once; one that has been used may start, so that something
// can be freed.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := onSmallDisks(t, 1)
		c.StopNode(0)
		c.Machines[0].Disk.SetSize(smallReserve)
		c.Boot(0)
		c.WaitReady(0)
		c.StopNode(0)
		c.Machines[0].Disk.Wipe()
		var none *engine.NoSpaceError
		if err := c.TryBoot(0); !errors.As(err, &none) || none.Reserve != smallReserve {
			t.Fatal(err)
		} else {
			t.Log(err)
		}
	})
}
