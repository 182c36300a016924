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

	"meridian/keys"
	"meridian/replica"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestTimeToLive: how long versions are kept is a setting of the cluster, which every node follows at once.
func TestTimeToLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 1})
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE g (id int PRIMARY KEY, v int, pad text)")
		simtest.Exec(t, conn, "INSERT INTO g SELECT x, 1, repeat('x', 8000) FROM generate_series(1, 200) x")
		write := func() time.Time { // enough to make the node search for garbage
			t.Helper()
			time.Sleep(time.Second)
			var at time.Time
			if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				simtest.Exec(t, conn, "UPDATE g SET v = v + 1, pad = repeat('y', 8000)")
			}
			time.Sleep(11 * time.Minute)
			return at
		}
		code := func(q string, args ...any) string {
			_, err := conn.Exec(ctx, q, args...)
			var pe *pgconn.PgError
			if errors.As(err, &pe) {
				return pe.Code
			} else if err != nil {
				return err.Error()
			}
			return ""
		}
		const past = "SELECT sum(v) FROM g AS OF SYSTEM TIME $1"
		begun := write()
		if got := code(past, begun); got != "" {
			t.Errorf("a read of ten minutes ago: %s; four hours are kept", got)
		}
		for _, v := range []string{"0", "-5", "'soon'", "1.5"} {
			if got := code("SET CLUSTER SETTING gc.ttlseconds = " + v); got != "22023" {
				t.Errorf("gc.ttlseconds = %s: %q", v, got)
			}
		}
		if got := code("SET CLUSTER SETTING gc.ttl = 60"); got != "42704" {
			t.Errorf("a setting that does not exist: %s", got)
		}
		simtest.Exec(t, conn, "SET CLUSTER SETTING gc.ttlseconds = 60")
		write()
		if got := code(past, begun); got != "72000" {
			t.Errorf("a read of twenty minutes ago: %q; one is kept", got)
		}
		simtest.Exec(t, conn, "SET CLUSTER SETTING gc.ttlseconds TO DEFAULT")
		begun = write()
		if got := code(past, begun); got != "" {
			t.Errorf("a read of ten minutes ago: %s; four hours are kept again", got)
		}
	})
}

// TestRunningReadersKeepVersions: versions that a transaction on any node has begun to read are kept for it, however
// old it gets; afterwards they are removed, and later reads of them are refused.
func TestRunningReadersKeepVersions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several minutes of virtual time")
	}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.GCTTL = time.Minute }})
		simtest.Replicated(t, c, 3)
		conn, here, past, far := simtest.Connect(t, c, 0), simtest.Connect(t, c, 0), simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		simtest.Exec(t, conn, "CREATE TABLE g (id int PRIMARY KEY, v int, pad text)")
		simtest.Exec(t, conn, "INSERT INTO g SELECT x, 1, repeat('x', 8000) FROM generate_series(1, 200) x")
		if err := c.TransferLease(ctx, simtest.TableKey(t, conn, "g"), 0); err != nil {
			t.Fatal(err)
		}
		now := func() (at time.Time) {
			t.Helper()
			time.Sleep(time.Second)
			if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&at); err != nil {
				t.Fatal(err)
			}
			return at
		}
		sum := func(conn *pgx.Conn, q string, args ...any) (n int, err error) {
			err = conn.QueryRow(ctx, q, args...).Scan(&n)
			if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
				err = fmt.Errorf("%w: %s", err, pg.Detail)
			}
			return n, err
		}
		threshold := func() (at int64) {
			for i := range c.Len() {
				c.Node(i).Store().Replicas(func(r *replica.Replica) bool {
					if d := r.Desc(); d != nil && keys.TablePrefix.Compare(d.Start) <= 0 {
						at = max(at, r.GCThreshold().Wall)
					}
					return true
				})
			}
			return at
		}
		kept := func(since time.Time) {
			t.Helper()
			if at := threshold(); at >= since.UnixNano() {
				t.Errorf("versions up to %s are gone, and a transaction has read at %s", time.Unix(0, at).UTC(), since)
			}
		}
		gone := func(since time.Time) {
			t.Helper()
			if at := threshold(); at < since.Add(time.Minute).UnixNano() {
				t.Errorf("nobody reads there any more, but only versions up to %s are gone", time.Unix(0, at).UTC())
			}
		}
		begin := func(conn *pgx.Conn, want int) {
			t.Helper()
			simtest.Exec(t, conn, "BEGIN READ ONLY")
			n, err := sum(conn, "SELECT sum(v)::int FROM g")
			if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "40001" { // new statistics are a change of the table
				simtest.Exec(t, conn, "ROLLBACK")
				simtest.Exec(t, conn, "BEGIN READ ONLY")
				n, err = sum(conn, "SELECT sum(v)::int FROM g")
			}
			if n != want || err != nil {
				t.Fatal(n, err)
			}
		}
		write := func() { // enough to make the node search for garbage
			t.Helper()
			for range 3 {
				simtest.Exec(t, conn, "UPDATE g SET v = v + 1, pad = repeat('y', 8000)")
			}
			time.Sleep(100 * time.Second)
			simtest.Exec(t, conn, "UPDATE g SET v = v + 1")
			time.Sleep(100 * time.Second)
		}
		// Two on the leaseholder's node, one of which has only begun.
		begun := now()
		begin(here, 200)
		simtest.Exec(t, past, "BEGIN AS OF SYSTEM TIME '"+begun.UTC().Format(time.RFC3339Nano)+"'")
		write()
		kept(begun)
		if n, err := sum(here, "SELECT sum(v)::int FROM g"); n != 200 || err != nil {
			t.Errorf("the old transaction reads %d, %v", n, err)
		}
		simtest.Exec(t, here, "COMMIT")
		simtest.Exec(t, past, "SELECT count(*) FROM g")
		// Then one on another node, of which the leaseholder has to learn.
		begin(far, 1000)
		later := now()
		simtest.Exec(t, past, "COMMIT")
		write()
		gone(begun)
		kept(later)
		if n, err := sum(far, "SELECT sum(v)::int FROM g"); n != 1000 || err != nil {
			t.Errorf("the old transaction on another node reads %d, %v", n, err)
		}
		simtest.Exec(t, far, "COMMIT")
		time.Sleep(100 * time.Second)
		gone(later)
		_, err := sum(far, "SELECT sum(v)::int FROM g AS OF SYSTEM TIME $1", later)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "72000" || !strings.Contains(pe.Detail, "GC threshold") {
			t.Errorf("a read of what is gone: %v", err)
		}
		if n, err := sum(far, "SELECT sum(v)::int FROM g AS OF SYSTEM TIME '-20s'"); n != 1800 || err != nil {
			t.Errorf("a read of what is kept: %d, %v", n, err)
		}
	})
}
