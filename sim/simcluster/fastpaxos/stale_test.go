package fastpaxos_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestStalenessHasABound: a row whose client had its answer a second ago is read by everybody who reaches a quorum, after a round trip: also if the gateway died with the answer, or a replica was cut off, from all
// others or from the gateway alone.
func TestStalenessHasABound(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		// before is what happens before the row is written, at once what happens with the answer, and later what happens afterwards.
		before, atOnce, later func(c *simcluster.Cluster)
		lost                  int // the node that answers nobody afterwards
	}{
		{name: "gateway dies", atOnce: func(c *simcluster.Cluster) { c.Crash(0, 1, false) }, lost: 0},
		{name: "gateway is cut off", atOnce: func(c *simcluster.Cluster) { c.Target(1).Isolate(c.Names()[0]) }, lost: 0},
		{name: "replica is away", before: func(c *simcluster.Cluster) { c.Target(1).Isolate(c.Names()[3]) }, later: func(c *simcluster.Cluster) { c.Target(1).Rejoin(c.Names()[3]) }, lost: -1},
		{name: "replica is away, gateway dies", before: func(c *simcluster.Cluster) { c.Target(1).Isolate(c.Names()[3]) },
			atOnce: func(c *simcluster.Cluster) { c.Crash(0, 1, false); c.Target(1).Rejoin(c.Names()[3]) }, lost: 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, regions := simtest.FiveAcceptors(t)
				simtest.Stocked(t, c, 100)
				writer := simtest.ConnectTo(t, c, 0, "d")
				readers := make([]*pgx.Conn, c.Len())
				for i := range readers {
					if i != x.lost {
						readers[i] = simtest.ConnectTo(t, c, i, "d")
						simtest.Exec(t, readers[i], "SELECT * FROM stock")
					}
				}
				simtest.Exec(t, writer, "INSERT INTO stock VALUES (50, 1, 'x')")
				time.Sleep(3 * time.Second)
				if x.before != nil {
					x.before(c)
					time.Sleep(10 * time.Second)
				}
				simtest.Exec(t, writer, "INSERT INTO stock VALUES (100, 5, 'x')")
				simtest.Exec(t, writer, "UPDATE stock SET name = 'new' WHERE id = 50")
				simtest.Exec(t, writer, "UPDATE stock SET n = n - 1 WHERE id = 7")
				answered := time.Now()
				if x.atOnce != nil {
					x.atOnce(c)
				}
				if x.later != nil {
					time.Sleep(4 * time.Second)
					x.later(c)
					answered = time.Now()
				}
				var wg sync.WaitGroup
				for i, conn := range readers {
					if conn == nil {
						continue
					}
					wg.Go(func() {
						var oldest, longest time.Duration
						for time.Since(answered) < 8*time.Second {
							for _, q := range []struct{ text, want string }{
								{"SELECT n FROM stock WHERE id = 100", "5"},
								{"SELECT name FROM stock WHERE id = 50", "new"},
								{"SELECT n FROM stock WHERE id = 7", "99"},
								{"SELECT string_agg(id || ' ' || n || ' ' || name, ', ' ORDER BY id) FROM stock", "7 99 x, 50 1 new, 100 5 x"},
							} {
								begun := time.Now()
								var got *string
								if err := conn.QueryRow(context.Background(), "SELECT ("+q.text+")::text").Scan(&got); err != nil {
									t.Errorf("%s at node %d: %v", q.text, i+1, err)
									return
								}
								if longest = max(longest, time.Since(begun)); got == nil || *got != q.want {
									oldest = max(oldest, begun.Sub(answered))
								}
							}
							time.Sleep(50 * time.Millisecond)
						}
						trip := trips(regions, regions.Names[i])[3]
						t.Logf("node %d: old rows until %v after the answer, the longest read took %v", i+1, oldest, longest)
						if oldest > fastpaxos.StalenessMost+trip {
							t.Errorf("node %d: old rows until %v after the answer, and a round trip is %v", i+1, oldest, trip)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// TestReadsAsTold: a session reads what is committed now if it says so, or, with a token of another session, what that one had seen committed; others read what their nearest replica has.
func TestReadsAsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, regions := simtest.FiveAcceptors(t)
		simtest.Stocked(t, c, 100)
		writer := simtest.ConnectTo(t, c, 0, "d")
		far := 2 * trips(regions, regions.Names[3])[2] // one round that finds the option, and one that finds its outcome
		stale := 0
		for n := range 10 {
			plainly, now, token := simtest.ConnectTo(t, c, 3, "d"), simtest.ConnectTo(t, c, 3, "d"), simtest.ConnectTo(t, c, 3, "d")
			simtest.Exec(t, now, "SET fast_paxos_max_staleness = 0")
			for _, conn := range []*pgx.Conn{plainly, now, token} {
				simtest.Exec(t, conn, "SELECT * FROM stock")
			}
			simtest.Exec(t, writer, "INSERT INTO stock VALUES ($1, 1, 'x')", 100+n)
			at := simtest.Ask[string](t, writer, "SELECT cluster_logical_timestamp()::text")
			count := func(conn *pgx.Conn, q string, want time.Duration) int {
				begun := time.Now()
				out := simtest.Ask[int](t, conn, q)
				if took := time.Since(begun); took > want+5*time.Millisecond {
					t.Errorf("%s took %v, want %v", q, took, want)
				}
				return out
			}
			where := "SELECT count(*)::int4 FROM stock WHERE id = " + strconv.Itoa(100+n)
			if count(plainly, where, 0) == 0 {
				stale++
			}
			simtest.Exec(t, token, "SET fast_paxos_read_after = '"+at+"'")
			if count(token, where, far) != 1 || count(token, "SELECT count(*)::int4 FROM stock", far) != 2+n {
				t.Errorf("with a token the row %d is not there", n)
			}
			time.Sleep(time.Second)
			simtest.Exec(t, writer, "INSERT INTO stock VALUES ($1, 1, 'x')", 1000+n)
			if count(now, "SELECT count(*)::int4 FROM stock WHERE id = "+strconv.Itoa(1000+n), far) != 1 {
				t.Errorf("the row %d is not there now", n)
			}
			simtest.Exec(t, writer, "DELETE FROM stock WHERE id = $1", 1000+n)
			if count(now, "SELECT count(*)::int4 FROM stock", far) != 2+n {
				t.Errorf("the row %d is there still", n)
			}
			time.Sleep(2 * time.Second)
			count(token, "SELECT count(*)::int4 FROM stock", 0)
			lines := strings.Join(simtest.Plain(t, now, "EXPLAIN "+where), "\n")
			if !strings.Contains(lines, "a majority, as of now") || !strings.Contains(lines, "wide-area rounds: 1") {
				t.Error(lines)
			}
			for _, conn := range []*pgx.Conn{plainly, now, token} {
				conn.Close(context.Background())
			}
		}
		if t.Logf("%d of 10 plain reads were stale", stale); stale == 0 {
			t.Error("plain reads see all at once: this test shows nothing")
		}
		for q, code := range map[string]string{"SET fast_paxos_max_staleness = '2s'": "22023", "SET fast_paxos_read_after = 'yesterday'": "22023"} {
			var e *pgconn.PgError
			if _, err := writer.Exec(context.Background(), q); !errors.As(err, &e) || e.Code != code {
				t.Errorf("%s: %v", q, err)
			}
		}
	})
}
