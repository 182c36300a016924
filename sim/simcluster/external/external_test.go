package external_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// externalWorld is a database over five regions that is externally consistent, and survives the loss of a region, with two tables whose leaseholders are in the first one.
func externalWorld(t *testing.T, epsilon time.Duration) (*simcluster.Cluster, *pgx.Conn) {
	t.Helper()
	c := simcluster.Start(t, simcluster.Options{Regions: sim.FiveRegions(), Nodes: []int{2, 1, 1, 1, 1}, MaxOffset: epsilon, Log: simtest.LogTo(),
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	root := simtest.Connect(t, c, 0)
	simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1", "asia-northeast1", "australia-southeast1" SURVIVE REGION FAILURE`)
	simtest.Exec(t, root, "ALTER DATABASE d SET external_consistency = on")
	near := simtest.ConnectTo(t, c, 0, "d")
	for _, table := range []string{"a", "b"} {
		simtest.Exec(t, near, "CREATE TABLE "+table+" (id int PRIMARY KEY, v int)")
		simtest.Exec(t, near, "INSERT INTO "+table+" SELECT i, 0 FROM generate_series(1, 10) AS g(i)")
	}
	time.Sleep(30 * time.Second)
	return c, near
}

// TestExternalTakesTheLongerOf: a commit takes a round of consensus or the commit wait, whichever is longer, and never both one after the other (txn.TX12). Reads take neither.
func TestExternalTakesTheLongerOf(t *testing.T) {
	t.Parallel()
	const local = 4 * time.Millisecond // statements within a region, half a millisecond each
	for _, epsilon := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(epsilon.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, near := externalWorld(t, epsilon)
				round := sim.FiveRegions().RTT("us-east1", "us-west1") // two of the five voters are in the leaseholders' region
				commit := max(round, 2*epsilon)
				type kind struct {
					name  string
					stmts []string
					limit time.Duration
				}
				kinds := []kind{
					{"one range", []string{"UPDATE a SET v = v + 1 WHERE id = 1"}, commit + local},
					{"read and write", []string{"BEGIN", "SELECT v FROM a WHERE id = 2", "UPDATE a SET v = v + 1 WHERE id = 1", "COMMIT"}, commit + local},
					{"two ranges", []string{"BEGIN", "SELECT v FROM b WHERE id = 2", "UPDATE a SET v = v + 1 WHERE id = 3", "UPDATE b SET v = v + 1 WHERE id = 3", "COMMIT"}, commit + local},
					{"read one range", []string{"SELECT v FROM a WHERE id = 5"}, local},
					{"read two ranges", []string{"SELECT a.v FROM a, b WHERE a.id = 5 AND b.id = 6"}, local},
					{"read only", []string{"BEGIN READ ONLY", "SELECT v FROM a WHERE id = 5", "SELECT v FROM b WHERE id = 6", "COMMIT"}, local},
				}
				// Locks that a client asks for cost neither (leader.P30).
				for i, level := range []string{"SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"} {
					begin := "BEGIN ISOLATION LEVEL " + level
					row := strconv.Itoa(7 + i)
					kinds = append(kinds,
						kind{level + ", lock and write", []string{begin, "SELECT v FROM a WHERE id = " + row + " FOR UPDATE", "UPDATE a SET v = v + 1 WHERE id = " + row, "COMMIT"}, commit + local},
						kind{level + ", lock, and write in another range", []string{begin, "SELECT v FROM b WHERE id = " + row + " FOR SHARE", "UPDATE a SET v = v + 1 WHERE id = " + row, "COMMIT"}, commit + local},
						kind{level + ", lock only", []string{begin, "SELECT v FROM b WHERE id = " + row + " FOR UPDATE", "COMMIT"}, local})
				}
				for _, x := range kinds {
					d := simtest.Took(t, func() {
						for _, s := range x.stmts {
							simtest.Exec(t, near, s)
						}
					})
					if t.Logf("%s: %v", x.name, d); d > x.limit || d < x.limit-local {
						t.Errorf("epsilon %v, %s: %v, and not %v", epsilon, x.name, d, x.limit)
					}
				}
			})
		})
	}
}

// TestExternalReads: who reads what a commit has just written is answered when the commit's timestamp has passed, and not before (leader.P28), wherever the reader is. Rows next to it, whose versions
// are old, cost no wait; nor do rows next to those of a transaction that has prepared.
func TestExternalReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const epsilon = 400 * time.Millisecond
		c, near := externalWorld(t, epsilon)
		reader, far := simtest.ConnectTo(t, c, 0, "d"), simtest.ConnectTo(t, c, 3, "d")
		ctx := context.Background()
		for _, x := range []*pgx.Conn{near, reader, far} {
			for _, q := range []string{"UPDATE a SET v = 0 WHERE id = 1", "SELECT v FROM a WHERE id = 1"} {
				simtest.Exec(t, x, q) // plans it, and learns where the range is
			}
		}
		time.Sleep(5 * time.Second)
		begin := time.Now()
		answered := make(chan time.Duration)
		go func() {
			if _, err := near.Exec(ctx, "UPDATE a SET v = 7 WHERE id = 1"); err != nil {
				t.Error(err)
			}
			answered <- time.Since(begin)
		}()
		// Half of the commit wait is over, and the version is there.
		time.Sleep(epsilon)
		at := time.Now()
		if v := simtest.One(t, reader, "SELECT v FROM a WHERE id = 2"); v != 0 || time.Since(at) > 5*time.Millisecond {
			t.Errorf("the next row is %d after %v", v, time.Since(at))
		}
		for _, x := range []*pgx.Conn{reader, far} {
			v := simtest.One(t, x, "SELECT v FROM a WHERE id = 1")
			if d := time.Since(begin); v == 7 && d < 2*epsilon || d > 2*epsilon+200*time.Millisecond {
				t.Errorf("%d was read %v after the commit began", v, d)
			}
			if v != 7 && x == far {
				t.Errorf("%d was read after the commit was answered", v)
			}
		}
		if d := <-answered; d < 2*epsilon {
			t.Errorf("the commit was answered after %v", d)
		}

		// A transaction whose gateway stands still between its intents and its decision.
		simtest.Exec(t, near, "BEGIN")
		simtest.Exec(t, near, "UPDATE a SET v = 8 WHERE id = 1")
		simtest.Exec(t, near, "UPDATE b SET v = 8 WHERE id = 1")
		time.Sleep(time.Second)
		go near.Exec(ctx, "COMMIT")
		time.Sleep(30 * time.Millisecond) // less than the round
		at = time.Now()
		if v := simtest.One(t, reader, "SELECT v FROM a WHERE id = 3"); v != 0 || time.Since(at) > 5*time.Millisecond {
			t.Errorf("the row next to a prepared one is %d after %v", v, time.Since(at))
		}
		time.Sleep(2 * time.Second)
	})
}

// TestExternalReadsNear: a read-only transaction far from the leaseholders takes one round for each range, by which its replica there learns that the leaseholder writes nothing at its time
// any more (leader.P29). The reads that follow take none, and the answers are those of the leaseholder.
func TestExternalReadsNear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const epsilon = 5 * time.Millisecond
		c, near := externalWorld(t, epsilon)
		far := simtest.ConnectTo(t, c, 3, "d")
		for _, q := range []string{"BEGIN READ ONLY", "SELECT v FROM a WHERE id = 1", "SELECT sum(v) FROM a", "COMMIT"} {
			simtest.Exec(t, far, q)
		}
		rtt := sim.FiveRegions().RTT("us-east1", "europe-west1")
		round := sim.FiveRegions().RTT("us-east1", "us-west1") // for writes that are in flight
		for i := range 5 {
			simtest.Exec(t, near, "UPDATE a SET v = v + 1 WHERE id = 1")
			simtest.Exec(t, far, "BEGIN READ ONLY")
			begin := time.Now()
			if v := simtest.One(t, far, "SELECT v FROM a WHERE id = 1"); v != i+1 {
				t.Errorf("%d was read after %d commits", v, i+1)
			}
			first := time.Since(begin)
			simtest.Exec(t, near, "UPDATE a SET v = v + 100 WHERE id = 2")
			begin = time.Now()
			if v := simtest.One(t, far, "SELECT sum(v)::int FROM a"); v != i+1+100*i {
				t.Errorf("the snapshot has a sum of %d after %d commits", v, i+1)
			}
			next := time.Since(begin)
			simtest.Exec(t, far, "COMMIT")
			if first > rtt+round+10*time.Millisecond || next > 5*time.Millisecond {
				t.Errorf("the first read took %v, the second one %v; a round trip is %v", first, next, rtt)
			}
			t.Log(first, next)
		}
	})
}

// TestExternalErrors: an error that tells of a row which a commit has just written is answered when the commit's timestamp has passed, as its value would be (leader.P28).
func TestExternalErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const epsilon = 400 * time.Millisecond
		c, near := externalWorld(t, epsilon)
		other := simtest.ConnectTo(t, c, 0, "d")
		ctx := context.Background()
		for _, x := range []*pgx.Conn{near, other} {
			simtest.Exec(t, x, "INSERT INTO a VALUES (100, 1)")
			simtest.Exec(t, x, "DELETE FROM a WHERE id = 100")
		}
		simtest.Exec(t, near, "DELETE FROM b")
		simtest.Exec(t, near, "CREATE UNIQUE INDEX ON b (v)")
		for i, q := range []string{"INSERT INTO a VALUES (%d, 1)", "INSERT INTO b VALUES (%d, 77)", "BEGIN; INSERT INTO a VALUES (%d, 1); COMMIT", "BEGIN; INSERT INTO b VALUES (%d, 78); INSERT INTO a VALUES (%[1]d, 1); COMMIT"} {
			time.Sleep(5 * time.Second)
			q = fmt.Sprintf(q, 101+i)
			begin := time.Now()
			go near.Exec(ctx, q)
			time.Sleep(epsilon)
			_, err := other.Exec(ctx, q)
			if d := time.Since(begin); simtest.Code(err) != "23505" || d < 2*epsilon {
				t.Errorf("%s: %v was answered %v after the commit began", q, err, d)
			}
			other.Exec(ctx, "ROLLBACK")
		}
	})
}
