package latency_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/kv"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// These are limits on the wide-area round trips of each operation, from a gateway in the leaseholder's region, five
// regions apart, exact in virtual time. At most 5 % or 3 ms may be added.

// fiveRegions has three nodes in us-east1 (0, 1, 2) and one in each other region (3 to 6). Messages within a region take almost no time, so that only
// wide-area ones count.
type fiveRegions struct {
	*testing.T
	c    *simcluster.Cluster
	conn *pgx.Conn // at the leaseholder's node
	ids  int
}

// homes are the regions' first nodes.
var homes = []int{0, 3, 4, 5, 6}

func startFiveRegions(t *testing.T) *fiveRegions {
	t.Helper()
	c := simcluster.Start(t, simcluster.Options{
		Regions: sim.FiveRegions(), Nodes: []int{3, 1, 1, 1, 1}, LocalRTT: 50 * time.Microsecond, Log: simtest.LogTo()})
	conn := simtest.Connect(t, c, 0)
	for _, name := range []string{"meta", "liveness", "system"} {
		simtest.Exec(t, conn, "ALTER RANGE "+name+" CONFIGURE ZONE USING num_replicas = 3") // as all others, for place
	}
	simtest.Replicated(t, c, 3)
	for i := range c.Len() {
		c.Node(i).Store().PauseQueues(true)
	}
	return &fiveRegions{T: t, c: c, conn: conn}
}

// place gives every range voters on these nodes and its lease to the first of them, where the client is from now on. It
// returns the round trip to the nearest quorum.
func (f *fiveRegions) place(nodes ...int) time.Duration {
	f.Helper()
	ctx := context.Background()
	var targets []kv.ReplicaTarget
	var away []time.Duration
	for _, i := range nodes {
		n := f.c.Node(i)
		targets = append(targets, kv.ReplicaTarget{Node: n.NodeID(), Store: kv.StoreID(n.NodeID()), Type: kv.Voter})
		if i != nodes[0] {
			away = append(away, sim.FiveRegions().RTT(f.c.Machines[nodes[0]].Region, f.c.Machines[i].Region))
		}
	}
	slices.Sort(away)
	time.Sleep(time.Second) // the last splits are in the index
	ranges, err := f.c.Ranges(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, d := range ranges {
		// First the new ones together with the old ones, then the lease, then without the old ones.
		steps := slices.Clone(targets)
		for _, r := range d.Replicas {
			if !slices.ContainsFunc(steps, func(t kv.ReplicaTarget) bool { return t.Node == r.Node }) {
				steps = append(steps, kv.ReplicaTarget{Node: r.Node, Store: r.Store, Type: r.Type})
			}
		}
		change := func(to []kv.ReplicaTarget) {
			_, err := f.c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminChangeReplicasRequest{Key: d.Start, Targets: to}}})
			if err != nil {
				f.Fatalf("range %d: %v", d.ID, err)
			}
		}
		change(steps)
		if err := f.c.TransferLease(ctx, d.Start, nodes[0]); err != nil {
			f.Fatalf("range %d: %v", d.ID, err)
		}
		change(targets)
	}
	time.Sleep(2 * time.Second)
	f.conn = simtest.Connect(f.T, f.c, nodes[0])
	return away[len(nodes)/2-1]
}

// schema makes the tables of the operations below; each table and some of their indexes are ranges of their own.
func (f *fiveRegions) schema() {
	f.Helper()
	for _, sql := range []string{
		"CREATE TABLE a (id int PRIMARY KEY, v int)",
		"CREATE TABLE b (id int PRIMARY KEY, v int, UNIQUE (v))",
		"CREATE TABLE parent (id int PRIMARY KEY, name text UNIQUE)",
		"CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent, q text REFERENCES parent (name) ON DELETE CASCADE)",
		"CREATE TABLE checked (id int PRIMARY KEY DEFAULT (random() * 1e9)::int, v int CHECK (v >= 0), w int GENERATED ALWAYS AS (v * 2) STORED)",
		"CREATE TABLE numbered (v int UNIQUE, w int, INDEX (w))",
		"CREATE TABLE serials (id serial PRIMARY KEY, v int)",
		"CREATE TABLE identities (id int GENERATED ALWAYS AS IDENTITY (CACHE 100) PRIMARY KEY, v int)",
		"CREATE INDEX ON child (p)", "CREATE INDEX ON child (q)",
		"INSERT INTO a SELECT g, 0 FROM generate_series(1, 20) g",
		"INSERT INTO b SELECT g, g FROM generate_series(1, 20) g",
		"INSERT INTO parent SELECT g, 'p' || g FROM generate_series(1, 40) g",
		"INSERT INTO child SELECT -g, 1, 'p' || g FROM generate_series(10, 40) g",
		"ALTER TABLE a SPLIT AT VALUES (0), (10)",
		"ALTER TABLE b SPLIT AT VALUES (0), (10)",
		"ALTER INDEX b@b_v_key SPLIT AT VALUES (0)",
		"ALTER TABLE parent SPLIT AT VALUES (0)",
		"ALTER INDEX parent@parent_name_key SPLIT AT VALUES ('')",
		"ALTER TABLE child SPLIT AT VALUES (0)",
		"ALTER INDEX child@child_p_idx SPLIT AT VALUES (0)",
		"ALTER INDEX child@child_q_idx SPLIT AT VALUES ('')",
	} {
		simtest.Exec(f.T, f.conn, sql)
	}
	for _, n := range secondaries {
		for _, kind := range []string{"one", "own"} {
			name := fmt.Sprintf("%s%d", kind, n)
			columns := ""
			for i := 1; i <= n; i++ {
				columns += fmt.Sprintf(", c%d int, INDEX (c%d)", i, i)
			}
			simtest.Exec(f.T, f.conn, "CREATE TABLE "+name+" (id int PRIMARY KEY, v int"+columns+")")
			simtest.Exec(f.T, f.conn, "ALTER TABLE "+name+" SPLIT AT VALUES (0)")
			for i := 1; i <= n && kind == "own"; i++ {
				simtest.Exec(f.T, f.conn, fmt.Sprintf("ALTER INDEX %s@%s_c%d_idx SPLIT AT VALUES (0)", name, name, i))
			}
		}
	}
}

// secondaries are the numbers of secondary indexes (CRDB'20, figure 2).
var secondaries = []int{0, 1, 2, 4, 8}

// next is a number that was not used before.
func (f *fiveRegions) next() int { f.ids++; return 1000 + f.ids }

// statements is an operation: the statements one after the other, each with new numbers for $1 and $2.
func (f *fiveRegions) statements(list ...string) func() {
	return func() {
		f.Helper()
		id := f.next()
		for _, sql := range list {
			var args []any
			if strings.Contains(sql, "$") {
				args = append(args, id)
			}
			rows, err := f.conn.Query(context.Background(), sql, args...)
			if err == nil {
				rows.Close()
				err = rows.Err()
			}
			if err != nil {
				f.Fatalf("%s: %v", sql, err)
			}
		}
	}
}

// check measures all operations, or a few of each kind, from the leaseholder's region.
func (f *fiveRegions) check(where string, quorum time.Duration, few bool) {
	f.Helper()
	cost := func(what string, want time.Duration, list ...string) {
		f.Helper()
		if few && !strings.HasPrefix(what, "transaction") && !strings.Contains(what, "8 sec") && what != "read" {
			return
		}
		run := f.statements(list...)
		run() // plans and caches are warm
		// And the intents of the first run are resolved: the explicit commit and the resolution follow the client's answer.
		time.Sleep(3*quorum + 20*time.Millisecond)
		start := time.Now()
		run()
		got := time.Since(start)
		f.Logf("%s: %-60s %v", where, what, got)
		if slack := max(want/20, 3*time.Millisecond); got > want+slack || got < want-slack {
			f.Errorf("%s: %s took %v, want %v", where, what, got, want)
		}
	}
	cost("read", 0, "SELECT v FROM a WHERE id = 1")
	cost("read by a unique index", 0, "SELECT id FROM b WHERE v = 1")
	cost("scan of two ranges and a join", 0, "SELECT count(*) FROM a JOIN b USING (id)")
	cost("read-only transaction", 0,
		"BEGIN", "SELECT v FROM a WHERE id = 1", "SELECT v FROM b WHERE id = 11", "SELECT count(*) FROM parent, child", "COMMIT")

	cost("insert", quorum, "INSERT INTO a VALUES ($1, 0)")
	cost("insert of two ranges", quorum, "INSERT INTO a VALUES ($1, 0), (-$1, 0)")
	cost("insert, unique index", quorum, "INSERT INTO b VALUES ($1, $1)")
	cost("insert, returning", quorum, "INSERT INTO b VALUES ($1, $1) RETURNING id, v")
	cost("insert, default, check and computed column", quorum, "INSERT INTO checked (v) VALUES ($1)")
	cost("insert, foreign keys", quorum, "INSERT INTO child VALUES ($1, 1, 'p2')")
	cost("insert on conflict do nothing", quorum, "INSERT INTO b VALUES ($1, $1) ON CONFLICT DO NOTHING")
	cost("insert on conflict do update", quorum, "INSERT INTO b VALUES (11, $1) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING v")
	cost("insert of 400 rows with two indexes", quorum, "INSERT INTO numbered (v, w) SELECT $1::int * 1000 + g, g FROM generate_series(1, 400) g")
	cost("insert of 200 rows in two ranges", quorum, "INSERT INTO a SELECT g % 2 * -2000000 + $1::int * 1000 + g, g FROM generate_series(1, 200) g")
	cost("delete of 400 rows", quorum, "DELETE FROM numbered WHERE v / 1000 = (SELECT max(v) / 1000 FROM numbered)")
	// One of 32 takes a round more.
	cost("insert, serial", quorum, "INSERT INTO serials (v) VALUES ($1)")
	cost("insert, cached identity, returning", quorum, "INSERT INTO identities (v) VALUES ($1) RETURNING id")
	cost("insert select", quorum, "INSERT INTO a SELECT $1::int * 1000 + g, 0 FROM b, generate_series(1, 3) g WHERE b.id = 3")
	cost("update", quorum, "UPDATE a SET v = v + 1 WHERE id = 1")
	cost("update of an indexed column", quorum, "UPDATE b SET v = $1 WHERE id = 1")
	cost("update by index, returning", quorum, "UPDATE b SET v = $1 WHERE v = (SELECT v FROM b WHERE id = 1) RETURNING id")
	cost("update of several ranges", quorum, "UPDATE a SET v = v + 1 WHERE id < 20")
	cost("delete", quorum, "DELETE FROM a WHERE id = (SELECT max(id) FROM a)")
	cost("delete of a referenced row, cascading", quorum, "DELETE FROM parent WHERE id = (SELECT max(id) FROM parent)")
	cost("with", quorum, "WITH moved AS (UPDATE a SET v = v - 1 WHERE id = 1 RETURNING id) INSERT INTO b SELECT $1, $1 + 1000000 FROM moved")

	cost("transaction of three updates", quorum,
		"BEGIN", "UPDATE a SET v = v + 1 WHERE id = 1", "UPDATE a SET v = v - 1 WHERE id = 11", "UPDATE b SET v = $1 WHERE id = 1", "COMMIT")
	cost("transaction, all kinds of statements", quorum,
		"BEGIN",
		"SELECT v FROM a WHERE id = 1 FOR UPDATE",
		"INSERT INTO a VALUES ($1, 7) RETURNING v",
		"SELECT v FROM a WHERE id = $1",
		"UPDATE a SET v = v + 1 WHERE id = $1 RETURNING v",
		"INSERT INTO parent VALUES ($1, 'p' || $1::int::text)",
		"INSERT INTO child VALUES ($1, $1, 'p3')",
		"SELECT count(*) FROM child JOIN parent ON p = parent.id",
		"UPDATE parent SET name = 'q' || id WHERE id = $1",
		"DELETE FROM child WHERE p = $1",
		"DELETE FROM parent WHERE id = $1 RETURNING *",
		"INSERT INTO b VALUES (-$1::int, -$1::int) ON CONFLICT (v) DO UPDATE SET v = 0",
		"COMMIT")
	cost("transaction with savepoints", quorum,
		"BEGIN", "INSERT INTO a VALUES ($1, 7)", "SAVEPOINT s", "UPDATE b SET v = -$1::int WHERE id = 2", "ROLLBACK TO s",
		"UPDATE b SET v = $1 WHERE id = 2", "RELEASE s", "COMMIT")
	cost("transaction, rolled back", 0, "BEGIN", "INSERT INTO a VALUES ($1, 7)", "UPDATE b SET v = -$1::int WHERE id = 2", "ROLLBACK")
	for _, n := range secondaries {
		for _, kind := range []string{"one", "own"} {
			name := fmt.Sprintf("%s%d", kind, n)
			values, sets := "", "v = -$1::int"
			for i := 1; i <= n; i++ {
				values += ", $1"
				sets += fmt.Sprintf(", c%d = -$1::int", i)
			}
			about := fmt.Sprintf("%d secondary indexes in %s", n, map[string]string{"one": "one range", "own": "ranges of their own"}[kind])
			cost("insert, "+about, quorum, "INSERT INTO "+name+" VALUES ($1, $1"+values+")")
			simtest.Exec(f.T, f.conn, "UPSERT INTO "+name+" (id) VALUES (1)")
			time.Sleep(2 * quorum)
			cost("update, "+about, quorum, "UPDATE "+name+" SET "+sets+" WHERE id = 1")
		}
	}
}

// stale measures reads of the past from every region; each region has a replica of every range.
func (f *fiveRegions) stale(list ...string) {
	f.Helper()
	time.Sleep(10 * time.Second)
	for _, i := range homes {
		conn := simtest.Connect(f.T, f.c, i)
		for _, sql := range list {
			simtest.Exec(f.T, conn, sql)
			start := time.Now()
			simtest.Exec(f.T, conn, sql)
			if got := time.Since(start); got > 3*time.Millisecond {
				f.Errorf("from %s: %s took %v", f.c.Machines[i].Region, sql, got)
			}
		}
	}
}

// TestLimits measures with voters in one region and in all, and with three. MERIDIAN_LIMITS=all goes on with each region as
// the home in turn.
func TestLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFiveRegions(t)
		f.schema()
		f.place(0, 1, 2)
		f.check("all voters in us-east1", 0, true)
		f.check("five voters, home asia-northeast1", f.place(5, 0, 3, 4, 6), false)
		f.stale("SELECT v FROM a AS OF SYSTEM TIME follower_read_timestamp() WHERE id = 1",
			"SELECT count(*) FROM a JOIN b USING (id) AS OF SYSTEM TIME '-5s'",
			"BEGIN AS OF SYSTEM TIME '-5s'; SELECT v FROM a WHERE id = 11; SELECT id FROM b WHERE v = 5; COMMIT")
		for i, home := range homes {
			if home != 4 && os.Getenv("MERIDIAN_LIMITS") != "all" && !simtest.All() {
				continue
			}
			two, three := homes[(i+2)%5], homes[(i+3)%5]
			f.check("home "+f.c.Machines[home].Region, f.place(home, two, three), true)
		}
	})
}

// TestLargeTransaction: a transaction far larger than its buffer writes its intents while it runs. Each statement returns
// at once; all of it together takes the round trips of a few, not one for each megabyte.
func TestLargeTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const buffer, statements, rows = 16 << 10, 24, 100 // 24 times some 30 kB
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, LocalRTT: 50 * time.Microsecond, Log: simtest.LogTo(),
			Configure: func(_ int, o *server.Options) { o.TxnBufferBytes = buffer }})
		simtest.Replicated(t, c, 3)
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true)
		}
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE big (id int PRIMARY KEY, v text, n int, INDEX (n))")
		simtest.Exec(t, conn, "ALTER TABLE big SPLIT AT VALUES (0), (1000)")
		simtest.Exec(t, conn, "ALTER INDEX big@big_n_idx SPLIT AT VALUES (0)")
		time.Sleep(time.Second)
		if err := c.TransferLeases(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		simtest.Exec(t, conn, "SELECT count(*) FROM big")
		const quorum = 63 * time.Millisecond
		start := time.Now()
		simtest.Exec(t, conn, "BEGIN")
		for i := range statements {
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO big SELECT g, repeat('x', 200), -g FROM generate_series(%d, %d) g", i*rows, (i+1)*rows-1))
		}
		filled := time.Since(start)
		simtest.Exec(t, conn, "COMMIT")
		whole := time.Since(start)
		t.Logf("%d statements took %v, with the commit %v", statements, filled, whole)
		// Each statement flushes once, eight batches are in flight, the commit waits for the last of them and then takes a
		// round of its own.
		if limit := (statements/8 + 2) * quorum; whole > limit {
			t.Errorf("the transaction took %v, at most %v were expected", whole, limit)
		}
		time.Sleep(time.Second)
		var n, m int
		far := simtest.Connect(t, c, 2)
		if err := far.QueryRow(context.Background(), "SELECT count(*), (SELECT count(*) FROM big@big_n_idx WHERE n <= 0) FROM big").Scan(&n, &m); err != nil {
			t.Fatal(err)
		}
		if n != statements*rows || m != n {
			t.Errorf("%d rows and %d index entries are there", n, m)
		}
	})
}
