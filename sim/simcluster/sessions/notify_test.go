package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// heard are the notifications that a session gets until no more come for a while.
func heard(t *testing.T, conn *pgx.Conn, quiet time.Duration) (all []string) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), quiet)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d %s %s", n.PID, n.Channel, n.Payload))
	}
}

// TestNotifyOverNodes: sessions of three nodes get the notifications of sessions of any node, after the COMMIT, once, in the
// order of the session's commits, and none of rolled-back transactions.
func TestNotifyOverNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		one, two, three := simtest.Connect(t, c, 0), simtest.Connect(t, c, 1), simtest.Connect(t, c, 2)
		deaf := simtest.Connect(t, c, 1)
		pid := func(conn *pgx.Conn) uint32 { return conn.PgConn().PID() }
		expect := func(what string, conn *pgx.Conn, want ...string) {
			t.Helper()
			if got := heard(t, conn, 2*time.Second); !slices.Equal(got, want) {
				t.Errorf("%s: heard %q, want %q", what, got, want)
			}
		}
		simtest.Exec(t, one, "CREATE TABLE t (a int PRIMARY KEY)")
		simtest.Exec(t, two, "LISTEN c")
		simtest.Exec(t, three, "BEGIN; LISTEN c; LISTEN d; SAVEPOINT s; LISTEN e; ROLLBACK TO s; COMMIT")
		simtest.Exec(t, deaf, "BEGIN; LISTEN c; ROLLBACK")

		simtest.Exec(t, one, "BEGIN")
		simtest.Exec(t, one, "INSERT INTO t VALUES (1)")
		simtest.Exec(t, one, "NOTIFY c, 'first'")
		simtest.Exec(t, one, "SAVEPOINT s")
		simtest.Exec(t, one, "NOTIFY c, 'undone'")
		simtest.Exec(t, one, "ROLLBACK TO s")
		simtest.Exec(t, one, "NOTIFY c, 'first'")
		simtest.Exec(t, one, "SELECT pg_notify('c', 'second'), pg_notify('e', 'x'), pg_notify('d', NULL)")
		expect("before the COMMIT", two)
		simtest.Exec(t, one, "COMMIT")
		first, second := fmt.Sprintf("%d c first", pid(one)), fmt.Sprintf("%d c second", pid(one))
		expect("committed on another node", two, first, second)
		expect("committed on another node", three, first, second, fmt.Sprintf("%d d ", pid(one)))
		expect("LISTEN was rolled back", deaf)
		simtest.Exec(t, one, "BEGIN; NOTIFY c, 'lost'; ROLLBACK")
		if _, err := one.Exec(ctx, "BEGIN; NOTIFY c, 'lost'; INSERT INTO t VALUES (1); COMMIT"); simtest.Code(err) != "23505" {
			t.Error(err)
		}
		simtest.Exec(t, one, "ROLLBACK")
		expect("rolled back", two)

		// A session gets its own notifications, before its statement is answered.
		simtest.Exec(t, two, "NOTIFY c, 'own'")
		already, cancel := context.WithCancel(ctx)
		cancel()
		if n, err := two.WaitForNotification(already); err != nil || n.Payload != "own" || n.PID != pid(two) {
			t.Errorf("of itself it heard %v %v", n, err)
		}
		expect("and another session", three, fmt.Sprintf("%d c own", pid(two)))

		// It does not while a transaction is open.
		simtest.Exec(t, three, "BEGIN")
		simtest.Exec(t, one, "NOTIFY c, 'later'")
		expect("in a transaction", three)
		simtest.Exec(t, three, "COMMIT")
		expect("after it", three, fmt.Sprintf("%d c later", pid(one)))
		expect("meanwhile", two, fmt.Sprintf("%d c later", pid(one)))

		// Two nodes notify at once.
		done := make(chan error)
		for _, conn := range []*pgx.Conn{one, two} {
			go func() {
				var err error
				for i := 0; i < 50 && err == nil; i++ {
					_, err = conn.Exec(ctx, fmt.Sprintf("BEGIN; NOTIFY c, '%d'; NOTIFY c, '%d.'; COMMIT", i, i))
				}
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		got := heard(t, three, 2*time.Second)
		for _, conn := range []*pgx.Conn{one, two} {
			var of, want []string
			prefix := fmt.Sprintf("%d c ", pid(conn))
			for _, n := range got {
				if s, is := strings.CutPrefix(n, prefix); is {
					of = append(of, s)
				}
			}
			for i := range 50 {
				want = append(want, fmt.Sprint(i), fmt.Sprint(i, "."))
			}
			if !slices.Equal(of, want) {
				t.Errorf("of one session: %q", of)
			}
		}
		heard(t, two, time.Second)

		// A node that is cut off for a moment gets them afterwards, once.
		c.Network.Isolate(c.Machines[2].Name)
		simtest.Exec(t, one, "NOTIFY c, 'cut'")
		time.Sleep(2 * time.Second)
		c.Network.Rejoin(c.Machines[2].Name)
		if got, want := heard(t, three, 10*time.Second), []string{fmt.Sprintf("%d c cut", pid(one))}; !slices.Equal(got, want) {
			t.Errorf("after a cut: %q", got)
		}
		expect("the one that was not", two, fmt.Sprintf("%d c cut", pid(one)))

		// So does a node whose liveness record had expired when the notification was published (notify.NT3).
		c.Network.Isolate(c.Machines[2].Name)
		time.Sleep(6 * time.Second)
		simtest.Exec(t, one, "NOTIFY c, 'not live'")
		time.Sleep(2 * time.Second)
		c.Network.Rejoin(c.Machines[2].Name)
		if got, want := heard(t, three, 10*time.Second), []string{fmt.Sprintf("%d c not live", pid(one))}; !slices.Equal(got, want) {
			t.Errorf("after a longer cut: %q", got)
		}
		expect("the one that was not", two, fmt.Sprintf("%d c not live", pid(one)))

		if n := simtest.Ask[int](t, three, "SELECT count(*) FROM pg_listening_channels()"); n != 2 {
			t.Errorf("listens on %d channels", n)
		}
		simtest.Exec(t, three, "UNLISTEN c")
		simtest.Exec(t, two, "UNLISTEN *")
		simtest.Exec(t, one, "NOTIFY c, 'nobody'; NOTIFY d, 'three'")
		expect("UNLISTEN *", two)
		expect("UNLISTEN c", three, fmt.Sprintf("%d d three", pid(one)))
		for sql, want := range map[string]string{
			"NOTIFY c, '" + strings.Repeat("x", 8000) + "'": "22023",
			"SELECT pg_notify('', 'x')":                     "22023",
			"SELECT pg_notify(repeat('x', 64), 'x')":        "22023",
		} {
			if _, err := one.Exec(ctx, sql); simtest.Code(err) != want {
				t.Errorf("%.30s: %v", sql, err)
			}
		}
	})
}

// TestDeafListener: a session that does not read its notifications is ended, and the others continue to get theirs.
func TestDeafListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 1})
		ctx := context.Background()
		deaf, good, loud := simtest.Connect(t, c, 0), simtest.Connect(t, c, 0), simtest.Connect(t, c, 0)
		simtest.Exec(t, deaf, "LISTEN c")
		simtest.Exec(t, good, "LISTEN c")
		simtest.Exec(t, deaf, "BEGIN")
		n := 0
		for i := range 1200 {
			simtest.Exec(t, loud, "SELECT pg_notify('c', $1)", fmt.Sprint(i, strings.Repeat("x", 7900)))
			if i%100 == 99 {
				n += len(heard(t, good, time.Second))
			}
		}
		if n != 1200 {
			t.Errorf("heard %d of 1200", n)
		}
		if _, err := deaf.Exec(ctx, "SELECT 1"); err == nil {
			t.Error("the session that took none goes on")
		} else {
			t.Log(err)
		}
	})
}
