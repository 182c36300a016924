package simcluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/replica"
	"meridian/server"
	"meridian/sim/simcluster"
)

// TestRunningReadersKeepVersions: what a transaction on any node has begun to read is kept for it, however old it
// gets; afterwards it goes, and who asks for it is told so.
func TestRunningReadersKeepVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("several minutes of virtual time")
	}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: logTo(), Configure: func(_ int, o *server.Options) { o.GCTTL = time.Minute }})
		replicated(t, c, 3)
		conn, reader, past := connect(t, c, 0), connect(t, c, 2), connect(t, c, 1)
		exec(t, conn, "CREATE TABLE g (id int PRIMARY KEY, v int, pad text)")
		exec(t, conn, "INSERT INTO g SELECT x, 1, repeat('x', 8000) FROM generate_series(1, 200) x")
		time.Sleep(time.Second)
		var begun time.Time
		if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&begun); err != nil {
			t.Fatal(err)
		}
		sum := func(q string, args ...any) (n int, err error) {
			err = reader.QueryRow(ctx, q, args...).Scan(&n)
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
		exec(t, reader, "BEGIN READ ONLY")
		if n, err := sum("SELECT sum(v)::int FROM g"); n != 200 || err != nil {
			t.Fatal(n, err)
		}
		exec(t, past, "BEGIN AS OF SYSTEM TIME '"+begun.UTC().Format(time.RFC3339Nano)+"'")
		time.Sleep(2 * time.Second)
		for range 3 {
			exec(t, conn, "UPDATE g SET v = v + 1, pad = repeat('y', 8000)")
		}
		time.Sleep(150 * time.Second)
		exec(t, conn, "UPDATE g SET v = v + 1")
		time.Sleep(150 * time.Second)
		if at := threshold(); at >= begun.UnixNano() {
			t.Errorf("versions up to %s are gone, and a transaction has read at %s", time.Unix(0, at).UTC(), begun)
		}
		if n, err := sum("SELECT sum(v)::int FROM g"); n != 200 || err != nil {
			t.Errorf("the old transaction reads %d, %v", n, err)
		}
		exec(t, reader, "COMMIT")
		exec(t, past, "SELECT count(*) FROM g")
		exec(t, past, "COMMIT")
		time.Sleep(150 * time.Second)
		if at := threshold(); at < begun.Add(time.Minute).UnixNano() {
			t.Errorf("nobody reads there any more, but only versions up to %s are gone", time.Unix(0, at).UTC())
		}
		_, err := sum("SELECT sum(v)::int FROM g AS OF SYSTEM TIME $1", begun)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "72000" || !strings.Contains(pe.Detail, "GC threshold") {
			t.Errorf("a read of what is gone: %v", err)
		}
		if n, err := sum("SELECT sum(v)::int FROM g AS OF SYSTEM TIME '-20s'"); n != 1000 || err != nil {
			t.Errorf("a read of what is kept: %d, %v", n, err)
		}
	})
}
