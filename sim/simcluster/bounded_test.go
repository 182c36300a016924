package simcluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/kv"
)

// Stale reads near the reader: every region has a replica of every range, the voters and the leases are all in us-east1.

// near gives every range voters in us-east1, its lease to the first of them, and a non-voter in each other region.
func (f *fiveRegions) near() {
	f.Helper()
	ctx := context.Background()
	f.place(0, 1, 2)
	ranges, err := f.c.Ranges(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	var targets []kv.ReplicaTarget
	for i := range f.c.Len() {
		t := kv.ReplicaTarget{Node: f.c.Node(i).NodeID(), Store: kv.StoreID(f.c.Node(i).NodeID()), Type: kv.Voter}
		if i > 2 {
			t.Type = kv.NonVoter
		}
		targets = append(targets, t)
	}
	for _, d := range ranges {
		if _, err := f.c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminChangeReplicasRequest{Key: d.Start, Targets: targets}}}); err != nil {
			f.Fatalf("range %d: %v", d.ID, err)
		}
	}
	time.Sleep(5 * time.Second)
}

// local runs statements and checks that they take no wide-area round.
func (f *fiveRegions) local(conn *pgx.Conn, from int, list ...string) {
	f.Helper()
	for _, sql := range list {
		start := time.Now()
		if err := try(conn, sql); err != nil {
			f.Errorf("from %s: %s: %v", f.c.Machines[from].Region, sql, err)
			return
		}
		if got := time.Since(start); got > 3*time.Millisecond {
			f.Errorf("from %s: %s took %v", f.c.Machines[from].Region, sql, got)
		}
	}
}

// boundedReads are queries of all shapes; the bound is a number of seconds.
func boundedReads(seconds int) []string {
	var out []string
	for _, only := range []string{"", ", true"} {
		bound := fmt.Sprintf("AS OF SYSTEM TIME with_max_staleness('%ds'%s)", seconds, only)
		out = append(out,
			"SELECT v FROM a "+bound+" WHERE id = 1",
			"SELECT count(*) FROM a "+bound,
			"SELECT * FROM a JOIN b USING (id) "+bound+" WHERE b.v = 5",
			"SELECT (SELECT max(name) FROM parent WHERE parent.id = b.id), child.q FROM b, child "+bound+" WHERE child.p = b.id ORDER BY 1 LIMIT 3",
			"BEGIN "+bound+"; SELECT v FROM a WHERE id = 11; SELECT id FROM b WHERE v = 5; SELECT count(*) FROM child; COMMIT")
	}
	return out
}

// TestBoundedStaleness: reads with a bound of staleness take no wide-area round, from anywhere; also when the home region is gone, and for as long
// as the bound allows.
func TestBoundedStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFiveRegions(t)
		f.schema()
		f.near()
		conns := map[int]*pgx.Conn{}
		for _, i := range homes {
			conns[i] = connect(t, f.c, i)
			for _, sql := range boundedReads(30) {
				exec(t, conns[i], sql)
			}
			f.local(conns[i], i, boundedReads(30)...)
		}
		var at time.Time
		if err := conns[6].QueryRow(context.Background(), "SELECT v, now() FROM a WHERE id = 1").Scan(nil, &at); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			f.c.Crash(i, 0, true)
		}
		for _, wait := range []time.Duration{time.Second, 20 * time.Second, time.Minute, 20 * time.Minute} {
			time.Sleep(wait)
			for _, i := range homes[1:] {
				f.local(conns[i], i, boundedReads(3600)...)
				fresh := connect(t, f.c, i)
				f.local(fresh, i, boundedReads(3600)...)
				_ = fresh.Close(context.Background())
			}
		}
	})
}

// try runs a statement and returns the error with its detail.
func try(conn *pgx.Conn, sql string) error {
	rows, err := conn.Query(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		for rows.Next() {
		}
		err = rows.Err()
	}
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return fmt.Errorf("%w: %s", err, pg.Detail)
	}
	return err
}
