package sessions_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// connectAs connects to node i as a role.
func connectAs(t *testing.T, c *simcluster.Cluster, i int, role string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig("postgres://" + role + "@" + c.Machines[i].Name + ":5432/defaultdb?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx, i) }
	return pgx.ConnectConfig(t.Context(), cfg)
}

func mustConnectAs(t *testing.T, c *simcluster.Cluster, i int, role string) *pgx.Conn {
	t.Helper()
	conn, err := connectAs(t, c, i, role)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// refusedWith fails the test unless an error has a SQLSTATE.
func refusedWith(t *testing.T, code string, err error) {
	t.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v, not %s", err, code)
	}
}

// rolesCluster has three nodes, table t, and role ann, a member of staff, which may read it.
func rolesCluster(t *testing.T) (c *simcluster.Cluster, root func(sql string) time.Duration) {
	c = simcluster.Start(t, simcluster.Options{NodesPerRegion: 3})
	conn, err := c.Connect(t.Context(), 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	root = func(sql string) time.Duration {
		t.Helper()
		start := time.Now()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return time.Since(start)
	}
	root("create table t (a int primary key)")
	root("insert into t values (1)")
	root("create role staff")
	root("create user ann in role staff")
	root("grant select on t to staff")
	return c, root
}

// A change of roles or grants holds for the next statement of every session on every node, prepared or not, in a transaction
// that has used the table before or not; and it waits for no such transaction.
func TestRevokeHoldsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, root := rolesCluster(t)
		const read = "select a from t"
		var idle, busy []*pgx.Conn
		for i := range 3 {
			for _, list := range []*[]*pgx.Conn{&idle, &busy} {
				conn := mustConnectAs(t, c, i, "ann")
				defer conn.Close(context.Background())
				if _, err := conn.Prepare(t.Context(), "read", read); err != nil {
					t.Fatal(err)
				}
				*list = append(*list, conn)
			}
		}
		try := func(conn *pgx.Conn, sql string) error {
			var a int
			return conn.QueryRow(t.Context(), sql).Scan(&a)
		}
		for _, step := range []struct{ take, give string }{
			{"revoke select on t from staff", "grant select on t to staff"},
			{"revoke staff from ann", "grant staff to ann"},
			{"alter role ann noinherit", "alter role ann inherit"},
			{"revoke usage on schema public from public", "grant usage on schema public to public"},
		} {
			for i := range 3 {
				for _, sql := range []string{"read", read} {
					if err := try(idle[i], sql); err != nil {
						t.Fatalf("before %s, node %d: %v", step.take, i+1, err)
					}
				}
				if _, err := busy[i].Exec(t.Context(), "begin"); err != nil {
					t.Fatal(err)
				}
				// One plan is cached, and one is bound within the transaction.
				for _, sql := range []string{"read", "select a from t where a < 100 -- " + step.take} {
					if err := try(busy[i], sql); err != nil {
						t.Fatal(err)
					}
				}
			}
			if d := root(step.take); d > time.Second {
				t.Errorf("%s took %v: it waited for open transactions", step.take, d)
			}
			for i := range 3 {
				for _, conn := range []*pgx.Conn{busy[i], idle[i]} {
					for _, sql := range []string{"read", read} {
						if conn == busy[i] {
							conn.Exec(t.Context(), "savepoint s")
						}
						if err := try(conn, sql); err == nil {
							t.Errorf("after %s, node %d: %q still reads", step.take, i+1, sql)
						} else if step.take[7:12] != "usage" {
							refusedWith(t, "42501", err)
						}
						if conn == busy[i] {
							conn.Exec(t.Context(), "rollback to s")
						}
					}
				}
				busy[i].Exec(t.Context(), "rollback")
			}
			root(step.give)
		}
	})
}

// The sessions of a role that is dropped, or that may not log in any more, end on all nodes, whatever they are at; and the
// role comes in nowhere, also on nodes that are not secured.
func TestDisabledRolesGo(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{"nologin": "alter role ann nologin", "dropped": "drop role ann"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, root := rolesCluster(t)
				ended := make(chan error, 9)
				for i := range 3 {
					sleeping, idle, open := mustConnectAs(t, c, i, "ann"), mustConnectAs(t, c, i, "ann"), mustConnectAs(t, c, i, "ann")
					go func() {
						_, err := sleeping.Exec(context.Background(), "select pg_sleep(3600)")
						if err == nil || !sleeping.IsClosed() {
							_, err = sleeping.Exec(context.Background(), "select 1")
						}
						ended <- err
					}()
					if _, err := open.Exec(t.Context(), "begin; select * from t"); err != nil {
						t.Fatal(err)
					}
					for _, conn := range []*pgx.Conn{idle, open} {
						go func() {
							// The server's last message comes without a request.
							_, err := conn.WaitForNotification(context.Background())
							refusedWith(t, "57P01", err)
							ended <- err
						}()
					}
				}
				time.Sleep(time.Second)
				root(sql)
				limit := time.After(5 * time.Second)
				for range 9 {
					select {
					case err := <-ended:
						if err == nil {
							t.Error("a session goes on")
						}
					case <-limit:
						t.Fatal("a session goes on after five seconds")
					}
				}
				for i := range 3 {
					_, err := connectAs(t, c, i, "ann")
					refusedWith(t, "28000", err)
					_, err = connectAs(t, c, i, "never")
					refusedWith(t, "28000", err)
				}
				// A role of the same name is another role.
				if name == "dropped" {
					root("create user ann")
					conn := mustConnectAs(t, c, 2, "ann")
					defer conn.Close(context.Background())
					_, err := conn.Exec(t.Context(), "select * from t")
					refusedWith(t, "42501", err)
				}
			})
		})
	}
}

// VALID UNTIL bounds the use of a password: not of a certificate, and not of a session that it has begun.
func TestPasswordsExpire(t *testing.T) {
	t.Parallel()
	secureCluster(t, 1, func(t *testing.T, c *simcluster.Cluster, a *authority) {
		root, err := login(c, "desk", 0, "root", "", a.client("n1", a.certificate("root", time.Hour*24)))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close(context.Background())
		simtest.Exec(t, root, "CREATE ROLE alice LOGIN PASSWORD 'right' VALID UNTIL '"+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+"'")
		before, err := login(c, "desk", 0, "alice", "right", a.client("n1"))
		if err != nil {
			t.Fatal(err)
		}
		defer before.Close(context.Background())
		time.Sleep(time.Hour + time.Second)
		_, err = login(c, "desk", 0, "alice", "right", a.client("n1"))
		refusedWith(t, "28P01", err)
		simtest.Exec(t, before, "SELECT 1")
		byCertificate, err := login(c, "desk", 0, "alice", "", a.client("n1", a.certificate("alice", time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		byCertificate.Close(context.Background())
		simtest.Exec(t, root, "ALTER ROLE alice VALID UNTIL 'infinity'")
		after, err := login(c, "desk", 0, "alice", "right", a.client("n1"))
		if err != nil {
			t.Fatal(err)
		}
		after.Close(context.Background())
	})
}
