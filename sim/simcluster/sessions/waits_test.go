package sessions_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// operatorsQuery is the query for waits that docs/operate has.
func operatorsQuery(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/operate/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, q, found := strings.Cut(string(text), "    SELECT w.pid AS waiting_pid")
	q, _, ended := strings.Cut(q, ";")
	if !found || !ended {
		t.Fatal("docs/operate has no query for waits")
	}
	return "SELECT w.pid AS waiting_pid" + q
}

// TestWaitsAreVisible: the holder's gateway, the waiter's and the leaseholder are three nodes, and each of them shows which
// session waits for which, and that the holder is idle. When a node is cut off, the others show what they know, and that it is
// silent.
func TestWaitsAreVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true)
		}
		ctx := context.Background()
		one, two, three := simtest.Connect(t, c, 0), simtest.Connect(t, c, 1), simtest.Connect(t, c, 2)
		simtest.Exec(t, one, "CREATE TABLE l (id int PRIMARY KEY, v int)")
		simtest.Exec(t, one, "INSERT INTO l SELECT i, 0 FROM generate_series(1, 10) AS g(i)")
		if err := c.TransferLease(ctx, simtest.TableKey(t, one, "l"), 0); err != nil {
			t.Fatal(err)
		}
		id := func(i int) int64 { return int64(c.Node(i).NodeID()) }
		holder, waiter := two.PgConn().PID(), three.PgConn().PID()
		for _, lock := range []string{"UPDATE l SET v = 1 WHERE id = 3", "SELECT v FROM l WHERE id = 3 FOR UPDATE"} {
			simtest.Exec(t, two, "BEGIN")
			simtest.Exec(t, two, lock)
			done := make(chan error, 1)
			go func() {
				_, err := three.Exec(ctx, "UPDATE l SET v = v + 1 WHERE id = 3")
				done <- err
			}()
			time.Sleep(5 * time.Second)
			for i := range c.Len() {
				asks := simtest.Connect(t, c, i)
				ask := func(sql, want string) {
					t.Helper()
					rows, err := asks.Query(ctx, sql)
					if err != nil {
						t.Fatal(err)
					}
					var got []string
					for rows.Next() {
						v, err := rows.Values()
						if err != nil {
							t.Fatal(err)
						}
						got = append(got, strings.Trim(fmt.Sprint(v), "[]"))
					}
					if rows.Err() != nil || strings.Join(got, "; ") != want {
						t.Errorf("%s: n%d answers %q, want %q (%v)", lock, i+1, got, want, rows.Err())
					}
				}
				ask(fmt.Sprintf("SELECT unnest(pg_blocking_pids(%d))", waiter), fmt.Sprint(holder))
				ask(fmt.Sprintf("SELECT unnest(pg_blocking_pids(%d))", holder), "")
				ask("SELECT node_id, table_name, waiting_pid, waiting_node, holder_pid, holder_node, holder_state, waited BETWEEN '4s' AND '6s' FROM meridian_internal.lock_waits",
					fmt.Sprintf("%d l %d %d %d %d idle in transaction true", id(0), waiter, id(2), holder, id(1)))
				ask("SELECT w.pid, h.pid, h.state, h.query FROM pg_stat_activity w JOIN pg_stat_activity h ON h.pid = ANY (pg_blocking_pids(w.pid)) WHERE w.wait_event_type = 'Lock'",
					fmt.Sprintf("%d %d idle in transaction %s", waiter, holder, lock))
				ask("SELECT waiting_pid, holder_pid, holder_state, holder_last_query FROM ("+operatorsQuery(t)+") AS q",
					fmt.Sprintf("%d %d idle in transaction %s", waiter, holder, lock))
				ask("SELECT pid, granted FROM pg_locks WHERE relation = 'l'::regclass ORDER BY granted", fmt.Sprintf("%d false; %d true", waiter, holder))
				ask(fmt.Sprintf("SELECT node_id, status FROM meridian_internal.sessions WHERE pid IN (%d, %d) ORDER BY status", waiter, holder),
					fmt.Sprintf("%d active; %d idle in transaction", id(2), id(1)))
			}
			time.Sleep(5500 * time.Millisecond)
			if n := longWaiting(c); n != 1 {
				t.Errorf("%s: %d requests have waited for more than ten seconds, want 1", lock, n)
			}
			simtest.Exec(t, two, "COMMIT")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := longWaiting(c); n != 0 {
				t.Errorf("%s: %d requests have waited for long when nobody waits", lock, n)
			}
		}

		// A session's statement can be ended from any node, by roles that have the right.
		simtest.Exec(t, one, "CREATE ROLE clerk")
		for i := range c.Len() {
			asks, victim := simtest.Connect(t, c, i), simtest.Connect(t, c, (i+1)%3)
			pid := victim.PgConn().PID()
			done := make(chan error, 1)
			go func() {
				_, err := victim.Exec(ctx, "SELECT pg_sleep(60)")
				done <- err
			}()
			time.Sleep(time.Second)
			simtest.Exec(t, asks, "SET ROLE clerk")
			if _, err := asks.Exec(ctx, "SELECT pg_terminate_backend($1)", pid); simtest.Code(err) != "42501" {
				t.Errorf("n%d: a stranger ends a superuser's session: %v", i+1, err)
			}
			simtest.Exec(t, asks, "RESET ROLE")
			for _, f := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
				var ok bool
				if err := asks.QueryRow(ctx, "SELECT "+f+"($1)", pid).Scan(&ok); err != nil || !ok {
					t.Errorf("n%d: %s: %t, %v", i+1, f, ok, err)
				}
				if f == "pg_cancel_backend" {
					if err := <-done; simtest.Code(err) != "57014" {
						t.Errorf("n%d: %s: the statement ends with %v", i+1, f, err)
					}
					simtest.Exec(t, victim, "SELECT 1")
				} else if time.Sleep(time.Second); victim.Ping(ctx) == nil {
					t.Errorf("n%d: %s: the session goes on", i+1, f)
				}
			}
			var ok bool
			if err := asks.QueryRow(ctx, "SELECT pg_terminate_backend($1)", pid).Scan(&ok); err != nil || ok {
				t.Errorf("n%d: a session that is gone is ended: %t, %v", i+1, ok, err)
			}
		}

		asks := simtest.Connect(t, c, 0)
		silent := id(2)
		c.Network.Isolate(c.Machines[2].Name)
		start := time.Now()
		var node int64
		if err := asks.QueryRow(ctx, "SELECT node_id FROM meridian_internal.sessions WHERE pid IS NULL").Scan(&node); err != nil || node != silent {
			t.Errorf("n%d is silent and not n%d, %v", node, silent, err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("without an answer of n3 it took %v", took)
		}
		start = time.Now()
		var ok bool
		if err := asks.QueryRow(ctx, "SELECT pg_cancel_backend($1)", three.PgConn().PID()).Scan(&ok); err != nil || ok || time.Since(start) > 3*time.Second {
			t.Errorf("a session of n3 is cancelled: %t, %v, after %v", ok, err, time.Since(start))
		}
	})
}

// longWaiting is the metric of requests that wait, and have for more than ten seconds, over all nodes.
func longWaiting(c *simcluster.Cluster) int64 {
	n := int64(0)
	for i := range c.Len() {
		n += c.Node(i).LeaderMetrics().LongWaiting.Load()
	}
	return n
}
