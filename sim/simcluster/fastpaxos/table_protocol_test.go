package fastpaxos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// idle is a protocol's part of a range in which nothing ever happens: rows are in the base alone.
type idle struct{}

func (idle) Send(context.Context, *kv.Batch) (*kv.BatchResponse, error) {
	return nil, errors.New("the test's protocol serves nothing")
}
func (idle) Receive(kv.ReplicaDescriptor, []byte) {}
func (idle) Sealed(uint64)                        {}
func (idle) Report(context.Context, uint64, func([]byte) error) (t clock.Timestamp, err error) {
	return t, nil
}
func (idle) Opened(*kv.RangeDescriptor) {}
func (idle) Close(error)                {}

// idles is a registry with that protocol as fast_paxos. Its ranges have no end as long as stuck is set.
func idles(stuck *atomic.Bool) func(int, *server.Options) {
	return func(_ int, o *server.Options) {
		o.Protocols = server.Registry{kv.FastPaxos: func(server.Lent) server.Protocol {
			return server.Protocol{Ranges: rangeserver.Protocol{Name: "idle", New: func(*rangeserver.Range) rangeserver.Participant { return idle{} },
				Fold: func(context.Context, *rangeserver.Folding) error {
					if stuck.Load() {
						return errors.New("the test's protocol is stuck")
					}
					return nil
				}}, Gateway: nowhere{}}
		}}
	}
}

// nowhere is the gateway's part: it refuses everything.
type nowhere struct{ txn.Protocol }

func (nowhere) Begin() txn.Coordinator { return refuses{} }

// refuses is asked for reads and writes, which end its transactions.
type refuses struct{ txn.Coordinator }

var errIdle = &txn.UnsupportedError{Protocol: kv.FastPaxos, What: "anything in this test"}

func (refuses) Get(context.Context, *kv.Txn, []keys.Key, txn.ReadOptions) ([][]byte, error) {
	return nil, errIdle
}
func (refuses) Scan(context.Context, *kv.Txn, txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	return nil, nil, errIdle
}
func (refuses) Write(context.Context, *kv.Txn, []transaction.Write) error   { return errIdle }
func (refuses) HasRead(keys.Key) bool                                       { return false }
func (refuses) Confirm(context.Context, *kv.Txn, func(keys.Key) bool) error { return nil }
func (refuses) Reads() bool                                                 { return false }
func (refuses) Restarted(bool)                                              {}
func (refuses) Ended()                                                      {}

// TestProtocolOfTable: when CREATE TABLE and ALTER TABLE return, the ranges of all indexes and partitions have the table's commit protocol, and the neighbours keep theirs.
// Rows are there before, and after, a change; the data of a dropped index goes.
func TestProtocolOfTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: simtest.LogTo(),
			Configure: func(_ int, o *server.Options) { o.RemoveAfter = 2 * time.Minute }})
		conn := simtest.Connect(t, c, 1)
		time.Sleep(20 * time.Second)
		// protocols are those of the ranges of a table's indexes, by the leaseholders' descriptors.
		protocols := func(table string, indexes ...uint32) (out []string) {
			id := simtest.Ask[uint32](t, conn, "SELECT '"+table+"'::regclass::oid")
			for _, x := range indexes {
				at, found := keys.IndexPrefix(id, x), false
				for i := range 3 {
					c.Node(i).Store().Replicas(func(r *replica.Replica) bool {
						if d := r.Desc(); d != nil && d.Contains(at) {
							if _, held := r.CheckLease(clock.Timestamp{}); held {
								out, found = append(out, d.Protocol.String()), true
							}
						}
						return true
					})
				}
				if !found {
					out = append(out, "nobody")
				}
			}
			return out
		}
		is := func(what, table, want string, indexes ...uint32) {
			t.Helper()
			for i, p := range protocols(table, indexes...) {
				if p != want {
					t.Errorf("%s: index %d of %s has the protocol %s, want %s", what, indexes[i], table, p, want)
				}
			}
		}
		run := func(sql string) time.Duration {
			t.Helper()
			start := time.Now()
			simtest.Exec(t, conn, sql)
			took := time.Since(start)
			t.Logf("%6.2fs  %s", took.Seconds(), sql)
			return took
		}
		run("CREATE TABLE before (id int PRIMARY KEY)")
		run("INSERT INTO before VALUES (1)")
		if took := run("CREATE TABLE f (id int PRIMARY KEY, n int, INDEX (n)) WITH (commit_protocol = 'fast_paxos')"); took > 6*time.Second {
			t.Errorf("CREATE TABLE took %v", took)
		}
		is("CREATE TABLE", "f", "fast_paxos", 1, 2)
		is("CREATE TABLE", "f", "leader", 3)
		is("CREATE TABLE", "before", "leader", 1)
		run("CREATE TABLE after (id int PRIMARY KEY)")
		run("INSERT INTO after VALUES (1)")
		is("another CREATE TABLE", "after", "leader", 1)
		run("BEGIN; CREATE TABLE made (id int PRIMARY KEY) WITH (commit_protocol = 'fast_paxos'); INSERT INTO made SELECT generate_series(1, 300); CREATE INDEX ON made (id); COMMIT")
		if n := simtest.Ask[int](t, conn, "SELECT count(*) FROM made@made_id_idx"); n != 300 {
			t.Errorf("%d rows are in the table that was made with them", n)
		}
		is("CREATE TABLE with rows", "made", "fast_paxos", 1, 2)
		run("BEGIN; LOCK TABLE made; INSERT INTO made VALUES (0); COMMIT")
		run("CREATE TABLE p (k int, v int, PRIMARY KEY (k, v)) PARTITION BY LIST (k) (PARTITION one VALUES IN (1)) WITH (commit_protocol = 'fast_paxos')")
		run("ALTER PARTITION one OF TABLE p CONFIGURE ZONE USING gc.ttlseconds = 600")
		is("partitions", "p", "fast_paxos", 1)

		// A table with rows goes there and back.
		run("CREATE TABLE t (id int PRIMARY KEY, n int, INDEX (n))")
		run("INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i")
		run("ALTER TABLE t SET (commit_protocol = 'fast_paxos')")
		is("ALTER TABLE", "t", "fast_paxos", 1, 2)
		if n := simtest.Ask[int](t, conn, "SELECT count(*) FROM t"); n != 1000 {
			t.Errorf("%d rows are left", n)
		}
		run("UPDATE t SET n = -n WHERE id <= 10")
		run("DELETE FROM t WHERE id = 11")
		run("INSERT INTO t VALUES (11, 11)")
		run("ALTER TABLE t RESET (commit_protocol)")
		is("RESET", "t", "leader", 1, 2)
		if n := simtest.Ask[int](t, conn, "SELECT count(*) FROM t"); n != 1000 {
			t.Errorf("%d rows are left", n)
		}
		if n := simtest.Ask[int](t, conn, "SELECT count(*) FROM meridian_internal.jobs WHERE job_type = 'commit protocol' AND status = 'succeeded'"); n != 2 {
			t.Errorf("%d jobs have succeeded", n)
		}
		run("CREATE INDEX ON t (n, id)")

		// Neighbours are not merged across the border, however small they are; data that no index has any more goes, under the leader protocol.
		run("ALTER TABLE t SET (commit_protocol = 'fast_paxos')")
		run("DROP INDEX t_n_idx")
		time.Sleep(30 * time.Second)
		is("DROP INDEX", "t", "fast_paxos", 1, 3)
		is("DROP INDEX", "t", "leader", 2)
		id := simtest.Ask[uint32](t, conn, "SELECT 't'::regclass::oid")
		run("DROP TABLE t")
		time.Sleep(5 * time.Minute)
		if rows, err := c.Node(0).DB().Scan(context.Background(), keys.TableSpan(id)); err != nil || len(rows) != 0 {
			t.Errorf("%d entries of a dropped table are left, %v", len(rows), err)
		}
		is("after all", "f", "fast_paxos", 1, 2)
		is("after all", "before", "leader", 1)
		if v := simtest.Ask[int](t, conn, "SELECT count(*) FROM meridian_internal.constraint_violations"); v != 0 {
			t.Errorf("%d violations", v)
		}
	})
}

// TestProtocolStuck: while a range does not get the protocol of its table, the statement says so in the end, the violation is shown, and what relies on leaseholders stays
// refused; the same statement waits for it again.
func TestProtocolStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 3, Log: simtest.LogTo(), Configure: idles(&stuck)})
		conn := simtest.Connect(t, c, 0)
		time.Sleep(20 * time.Second)
		refused := func(sql, code, word string) {
			t.Helper()
			_, err := conn.Exec(context.Background(), sql)
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, word) {
				t.Errorf("%s: %v", sql, err)
			}
		}
		simtest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY)")
		simtest.Exec(t, conn, "INSERT INTO t VALUES (1)")
		simtest.Exec(t, conn, "ALTER TABLE t SET (commit_protocol = 'fast_paxos')")
		refused("SELECT * FROM t", "0A000", "anything in this test") // the ranges are the other protocol's
		stuck.Store(true)
		refused("ALTER TABLE t SET (commit_protocol = 'leader')", "55000", "not got the commit protocol leader")
		if v := simtest.Ask[string](t, conn, "SELECT violation FROM meridian_internal.constraint_violations"); v != "the commit protocol is not leader" {
			t.Errorf("the violation is %q", v)
		}
		refused("CREATE INDEX ON t (id)", "0A000", "while its commit protocol is being changed")
		refused("TRUNCATE t", "0A000", "while its commit protocol is being changed")
		stuck.Store(false)
		simtest.Exec(t, conn, "ALTER TABLE t SET (commit_protocol = 'leader')")
		if n := simtest.Ask[int](t, conn, "SELECT count(*) FROM t"); n != 1 {
			t.Errorf("%d rows", n)
		}
		simtest.Exec(t, conn, "CREATE INDEX ON t (id)")
		if v := simtest.Ask[int](t, conn, "SELECT count(*) FROM meridian_internal.constraint_violations"); v != 0 {
			t.Errorf("%d violations", v)
		}
	})
}

// TestProtocolUnderLoad: while a table goes to another protocol and back, from every region clients count in rows of their own and in one that they share; no update is lost.
func TestProtocolUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: simtest.LogTo()})
		conn := simtest.Connect(t, c, 0)
		time.Sleep(20 * time.Second)
		simtest.Exec(t, conn, "CREATE TABLE counts (id int PRIMARY KEY, n int NOT NULL, tag int, INDEX (tag))")
		simtest.Exec(t, conn, "INSERT INTO counts VALUES (0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 3)")
		var stop atomic.Bool
		var own, shared [3]int
		var longest [3]time.Duration
		done := make(chan struct{}, 3)
		for i := range 3 {
			client := simtest.Connect(t, c, i)
			go func() {
				defer func() { done <- struct{}{} }()
				for !stop.Load() {
					begun := time.Now()
					for _, u := range []struct {
						id    int
						count *int
					}{{i + 1, &own[i]}, {0, &shared[i]}} {
						_, err := client.Exec(context.Background(), fmt.Sprintf("UPDATE counts SET n = n + 1, tag = tag + 10 WHERE id = %d", u.id))
						var e *pgconn.PgError
						switch {
						case err == nil:
							*u.count++
						case !errors.As(err, &e) || e.Code != "40001":
							t.Errorf("client %d: %v", i, err)
							return
						}
					}
					longest[i] = max(longest[i], time.Since(begun))
					time.Sleep(50 * time.Millisecond)
				}
			}()
		}
		for range 2 {
			time.Sleep(3 * time.Second)
			simtest.Exec(t, conn, "ALTER TABLE counts SET (commit_protocol = 'fast_paxos')")
			time.Sleep(3 * time.Second)
			simtest.Exec(t, conn, "ALTER TABLE counts SET (commit_protocol = 'leader')")
		}
		time.Sleep(time.Second)
		stop.Store(true)
		for range 3 {
			<-done
		}
		sum := 0
		for i := range 3 {
			sum += shared[i]
			if n := simtest.Ask[int](t, conn, fmt.Sprintf("SELECT n FROM counts WHERE id = %d", i+1)); n != own[i] || n == 0 {
				t.Errorf("row %d has %d of %d updates", i+1, n, own[i])
			}
		}
		if n := simtest.Ask[int](t, conn, "SELECT n FROM counts WHERE id = 0"); n != sum || n == 0 {
			t.Errorf("the shared row has %d of %d updates", n, sum)
		}
		if n := simtest.Ask[int](t, conn, "SELECT count(*) FROM counts WHERE tag >= 10 AND (tag - id) / 10 = n"); n != 4 {
			t.Errorf("%d rows are in the index with what they have", n)
		}
		t.Logf("own %v, shared %v, longest pair %v", own, shared, longest)
		// 1.1 to 3.0 s in 24 runs alone.
		if slow := max(longest[0], longest[1], longest[2]); slow > 8*time.Second {
			t.Errorf("two updates took %v", slow)
		}
	})
}
