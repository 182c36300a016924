package ranges_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestClientGone: a client that closes its connection while its statement waits is noticed within
// client_connection_check_interval; its transaction is rolled back, its locks are free, and the statement does not take effect
// later. A client that only sends ahead does not count as gone.
func TestClientGoneWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Log: simtest.LogTo()})
		ctx := context.Background()
		admin := simtest.Connect(t, c, 0)
		simtest.Exec(t, admin, "CREATE TABLE a (id int PRIMARY KEY, v int)")
		simtest.Exec(t, admin, "INSERT INTO a SELECT i, 0 FROM generate_series(1, 100) i")
		sessions := func() (n int) {
			t.Helper()
			if err := admin.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim'").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		// open connects a client without a driver.
		open := func(settings ...string) (net.Conn, *pgproto3.Frontend) {
			t.Helper()
			nc, err := c.Dial(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			f := pgproto3.NewFrontend(nc, nc)
			p := map[string]string{"user": "root", "database": "defaultdb", "application_name": "victim"}
			for i := 0; i < len(settings); i += 2 {
				p[settings[i]] = settings[i+1]
			}
			f.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber, Parameters: p})
			f.Flush()
			awaitReady(t, f)
			return nc, f
		}
		say := func(f *pgproto3.Frontend, sql ...string) {
			for _, q := range sql {
				f.Send(&pgproto3.Query{String: q})
			}
			if err := f.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		holder := simtest.Connect(t, c, 0)
		wait := "UPDATE a SET v = v + 1 WHERE id = 1"
		for _, x := range []struct {
			name   string
			before []string // answered
			then   []string // not waited for
			close  func(nc net.Conn)
			gone   time.Duration // noticed within that; zero: not at all
			rows   []int         // whose locks the session holds
		}{
			{"waits for a lock", []string{"BEGIN", "UPDATE a SET v = 7 WHERE id = 2"}, []string{wait}, func(nc net.Conn) { nc.Close() }, 1500 * time.Millisecond, []int{2}},
			{"waits for a lock, by itself", nil, []string{wait}, func(nc net.Conn) { nc.Close() }, 1500 * time.Millisecond, nil},
			{"sleeps", []string{"BEGIN", "UPDATE a SET v = 7 WHERE id = 2"}, []string{"SELECT pg_sleep(60)"}, func(nc net.Conn) { nc.Close() }, 1500 * time.Millisecond, []int{2}},
			{"idle in its transaction", []string{"BEGIN", "UPDATE a SET v = 7 WHERE id = 2"}, nil, func(nc net.Conn) { nc.Close() }, 50 * time.Millisecond, []int{2}},
			{"with an open cursor", []string{"BEGIN", "DECLARE x CURSOR FOR SELECT * FROM a", "FETCH 3 FROM x", "UPDATE a SET v = 7 WHERE id = 2"}, []string{"SELECT pg_sleep(60)"}, func(nc net.Conn) { nc.Close() }, 1500 * time.Millisecond, []int{2}},
			{"in COPY FROM", []string{"BEGIN", "UPDATE a SET v = 7 WHERE id = 2"}, []string{"COPY a FROM STDIN"}, func(nc net.Conn) { nc.Close() }, 50 * time.Millisecond, []int{2}},
			{"closes its half only", nil, []string{wait}, func(nc net.Conn) { nc.(interface{ CloseWrite() error }).CloseWrite() }, 1500 * time.Millisecond, nil},
			{"sent ahead, and closes", nil, []string{wait, "INSERT INTO a VALUES (1000, 1)"}, func(nc net.Conn) { nc.Close() }, 1500 * time.Millisecond, nil},
			{"sends ahead", nil, []string{wait, "SELECT 1"}, func(net.Conn) {}, 0, nil},
		} {
			simtest.Exec(t, holder, "BEGIN")
			simtest.Exec(t, holder, "UPDATE a SET v = 0 WHERE id = 1")
			nc, f := open()
			for _, q := range x.before {
				say(f, q)
				awaitReady(t, f)
			}
			say(f, x.then...)
			time.Sleep(2 * time.Second)
			if n := sessions(); n != 1 {
				t.Fatalf("%s: %d sessions before it goes", x.name, n)
			}
			x.close(nc)
			start := time.Now()
			for sessions() > 0 && time.Since(start) < 5*time.Second {
				time.Sleep(10 * time.Millisecond)
			}
			took := time.Since(start)
			if x.gone == 0 {
				if sessions() != 1 {
					t.Errorf("%s: the session has gone", x.name)
				}
				simtest.Exec(t, holder, "COMMIT")
				awaitReady(t, f)
				awaitReady(t, f)
				nc.Close()
				simtest.Exec(t, admin, "UPDATE a SET v = 0 WHERE id = 1")
				continue
			}
			if took > x.gone {
				t.Errorf("%s: noticed after %s", x.name, took)
			}
			for _, row := range x.rows {
				limit, cancel := context.WithTimeout(ctx, time.Second)
				if _, err := admin.Exec(limit, "UPDATE a SET v = v WHERE id = $1", row); err != nil {
					t.Fatalf("%s: its lock: %v", x.name, err)
				}
				cancel()
			}
			simtest.Exec(t, holder, "COMMIT")
			time.Sleep(time.Second)
			var sum, n int
			if err := admin.QueryRow(ctx, "SELECT sum(v), count(*) FROM a").Scan(&sum, &n); err != nil || sum != 0 || n != 100 {
				t.Errorf("%s: its statement was done: %d, %d, %v", x.name, sum, n, err)
			}
			nc.Close()
		}

		// Zero turns the watch off, which is PostgreSQL's default.
		simtest.Exec(t, holder, "BEGIN")
		simtest.Exec(t, holder, "UPDATE a SET v = 0 WHERE id = 1")
		nc, f := open("client_connection_check_interval", "0")
		say(f, wait)
		time.Sleep(time.Second)
		nc.Close()
		time.Sleep(10 * time.Second)
		if sessions() != 1 {
			t.Error("without checks: the session has gone")
		}
		simtest.Exec(t, holder, "ROLLBACK")
		time.Sleep(time.Second)
		if sessions() != 0 {
			t.Error("without checks: the session stays")
		}
		var shown string
		if err := admin.QueryRow(ctx, "SHOW client_connection_check_interval").Scan(&shown); err != nil || shown != "1s" {
			t.Error(shown, err)
		}
		time.Sleep(time.Minute)
	})
}

// awaitReady reads up to ReadyForQuery, or up to where the server waits for COPY data.
func awaitReady(t *testing.T, f *pgproto3.Frontend) {
	t.Helper()
	for {
		m, err := f.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.ReadyForQuery, *pgproto3.CopyInResponse:
			return
		case *pgproto3.ErrorResponse:
			t.Fatal(m.Message)
		}
	}
}

// TestIdleTimeouts: sessions that sit idle, and waits for locks, end as PostgreSQL's do.
func TestIdleTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Log: simtest.LogTo()})
		ctx := context.Background()
		admin := simtest.Connect(t, c, 0)
		simtest.Exec(t, admin, "CREATE TABLE a (id int PRIMARY KEY, v int)")
		simtest.Exec(t, admin, "INSERT INTO a VALUES (1, 0)")
		told := func(conn *pgx.Conn) (string, time.Duration) {
			start := time.Now()
			limit, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err := conn.PgConn().WaitForNotification(limit)
			return simtest.Code(err), time.Since(start)
		}
		idle := simtest.Connect(t, c, 0)
		simtest.Exec(t, idle, "SET idle_session_timeout = '3s'")
		if code, d := told(idle); code != "57P05" || d != 3*time.Second {
			t.Errorf("idle: %s after %s", code, d)
		}
		in := simtest.Connect(t, c, 0)
		simtest.Exec(t, in, "SET idle_in_transaction_session_timeout = 2000")
		time.Sleep(10 * time.Second)
		simtest.Exec(t, in, "BEGIN")
		simtest.Exec(t, in, "UPDATE a SET v = 1")
		if code, d := told(in); code != "25P03" || d != 2*time.Second {
			t.Errorf("idle in a transaction: %s after %s", code, d)
		}
		simtest.Exec(t, admin, "BEGIN")
		simtest.Exec(t, admin, "UPDATE a SET v = 2")
		waiter := simtest.Connect(t, c, 0)
		simtest.Exec(t, waiter, "SET lock_timeout = '1500ms'")
		start := time.Now()
		_, err := waiter.Exec(ctx, "UPDATE a SET v = 3")
		if d := time.Since(start); simtest.Code(err) != "55P03" || d < 1500*time.Millisecond || d > 1600*time.Millisecond {
			t.Errorf("a lock: %v after %s", err, d)
		}
		simtest.Exec(t, admin, "COMMIT")
		time.Sleep(time.Minute)
	})
}
