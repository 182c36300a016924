package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/kv"
	"meridian/probe"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// The campaign of schema changes: clients write, others change the schema at other gateways, machines die in the middle
// of it. Meanwhile and in the end every index has an entry for each row and no other, constraints hold, and acknowledged
// rows exist; once all faults are repaired, no change stays unfinished for a minute (I7, I1). MERIDIAN_SEEDS,
// MERIDIAN_FIRST and MERIDIAN_SEED are TestCampaign's.

const (
	schemaFaults = 25 * time.Second // of virtual time
	schemaWhole  = time.Minute      // every change is finished, once all faults are repaired and no others begin; twice that across oceans
	schemaRemove = 10 * time.Second // the data of dropped indexes stays
	hotRows      = 5
	coldRows     = 40 // never changed: ids from 100
)

func TestSchemaCampaign(t *testing.T) {
	t.Parallel()
	seeds := simtest.Seeds(t, 1, 1)
	var failed []int
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &schemaCampaign{campaign: &campaign{seed: uint64(seed), stop: make(chan struct{}), probes: &probe.Set{}}}
			begun := time.Now()
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { k.run(t) })
			if os.Getenv("MERIDIAN_SEEDS") != "" {
				how := "ok"
				if len(k.problems) > 0 {
					how = "FAILED: " + k.problems[0]
				}
				fmt.Printf("seed %d: %s, %s, %d faults, %s of virtual time in %s\n", seed, how, k.topology, len(k.plan),
					k.took.Round(time.Second), time.Since(begun).Round(10*time.Millisecond))
			}
			t.Logf("%s in %s, %d rows, all changes finished after %s: %s", k.took.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond),
				k.rows, k.finished.Round(time.Millisecond), k.summary())
			if len(k.problems) > 0 {
				failed = append(failed, seed)
				t.Errorf("seed %d, %s:\n%s\nThe plan was:\n%s", seed, k.topology, strings.Join(k.problems, "\n"), k.plan)
			}
		})
	}
	if os.Getenv("MERIDIAN_SEEDS") != "" {
		fmt.Printf("%d seeds of schema changes, %d failed %v\n", len(seeds), len(failed), failed)
	}
}

// schemaCampaign is one seed's run.
type schemaCampaign struct {
	*campaign
	wide     bool          // three regions
	publish  string        // a statement that says how versions are published; empty: as ever
	finished time.Duration // after healing
	removal  time.Duration // within which the jobs are done that remove data; zero is a minute
	rows     int

	model struct {
		mu    sync.Mutex             // guards all below
		sure  map[string]string      // the rows that exist, by table and id; deleted ones are empty
		maybe []map[string][2]string // rows before and after a transaction whose outcome is unknown: they are not used since
		hot   [hotRows]struct{ sure, maybe int64 }
	}
}

func (k *schemaCampaign) run(t *testing.T) {
	k.model.sure = map[string]string{}
	dice := rand.New(rand.NewPCG(k.seed, 0x5c4e))
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo(), Probes: k.probes, Configure: func(_ int, o *server.Options) { o.RemoveAfter = schemaRemove }}
	switch dice.IntN(6) {
	case 0, 1, 2:
		k.topology = "three nodes in one region"
	case 3:
		k.topology, o.NodesPerRegion = "five nodes in one region", 5
	default:
		k.topology, o.Regions, o.NodesPerRegion = "three nodes in three regions", sim.ThreeRegions(), 1
		k.wide = true
	}
	switch k.seed % 3 {
	case 1:
		k.publish, k.topology = "ALTER DATABASE defaultdb SET external_consistency = on", k.topology+", externally consistent"
	case 2:
		k.publish, k.topology = "SET CLUSTER SETTING sql.schema_change.registered = 'always'", k.topology+", registered"
	}
	k.binaries = newBinaries(k.seed, &o)
	k.start = time.Now()
	k.c = simcluster.Start(t, o)
	k.binaries.attach(k.c, k.problem, k.say)
	k.prepareSchema(t)
	kinds := []fault.Kind{fault.Crash, fault.Crash, fault.CrashSync, fault.PowerOff, fault.Isolate, fault.Pause, fault.Cut, fault.CutOneWay, fault.Flap,
		fault.Slow, fault.Reset, fault.Skew, fault.SlowDisk, fault.Behind}
	if only := os.Getenv("MERIDIAN_KINDS"); only != "" {
		kinds = nil
		for name := range strings.SplitSeq(only, ",") {
			kinds = append(kinds, fault.Kind(name))
		}
	}
	k.plan = fault.Generate(k.seed, fault.Options{Nodes: k.c.Names(), Duration: schemaFaults, Every: []time.Duration{1500 * time.Millisecond, 3 * time.Second}[k.seed%2],
		Lasting: 4 * time.Second, Kinds: kinds, MaxSkew: 190 * time.Millisecond})
	if file := os.Getenv("MERIDIAN_PLAN"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if k.plan, err = fault.Parse(string(b)); err != nil {
			t.Fatal(err)
		}
	}

	var writers, changers sync.WaitGroup
	enough := make(chan struct{}) // no new changes
	worker := func(wg *sync.WaitGroup, stop chan struct{}, n, pause int, make func(*client) func()) {
		for range n {
			cl := &client{k: k.campaign, id: int(k.ids.Add(1)), dice: rand.New(rand.NewPCG(k.seed, uint64(k.ids.Load())))}
			f := make(cl)
			wg.Go(func() {
				defer cl.close()
				for {
					select {
					case <-stop:
						return
					default:
					}
					f()
					time.Sleep(time.Duration(pause/4+cl.dice.IntN(pause)) * time.Millisecond)
				}
			})
		}
	}
	begun := time.Now()
	worker(&writers, k.stop, 5, 150, func(cl *client) func() {
		w := &schemaWriter{client: cl, all: k, live: map[int64]schemaRow{}, children: map[int64]int64{}}
		cl.explain = w.explained
		return w.step
	})
	worker(&writers, k.stop, 2, 200, func(cl *client) func() { return (&hotWriter{client: cl, all: k}).step })
	worker(&writers, k.stop, 2, 200, func(cl *client) func() { return (&renamedWriter{client: cl, all: k}).step })
	worker(&writers, k.stop, 2, 300, func(cl *client) func() { return (&emptiedWriter{client: cl}).step })
	worker(&writers, k.stop, 2, 500, func(cl *client) func() { return (&schemaReader{client: cl, all: k}).step })
	worker(&changers, enough, 7, 400, func(cl *client) func() { return (&schemaChanger{client: cl, all: k, begun: begun}).step })
	worker(&changers, enough, 1, 1500, func(cl *client) func() { return func() { k.administer(cl) } })

	writers.Go(func() { k.binaries.run(k.stop) })

	target := k.c.Target(k.seed)
	failed := make(chan struct{})
	watch := k.watch(failed)
	err := fault.Run(context.Background(), sim.NewClock(), k.plan, target, func(a fault.Action) { k.say("fault: %s", a) })
	if err != nil {
		k.problem("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(schemaFaults)))
	k.binaries.rest(true)
	k.say("healing")
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	time.Sleep(3 * time.Second)
	close(enough)
	k.binaries.ready()
	changers.Wait() // which are told within 20 s
	k.whole(time.Now())
	k.binaries.rest(false)
	k.binaries.complete()
	close(k.stop)
	writers.Wait()
	k.verify()
	k.cleared()
	k.countStats()
	k.compareAll()
	close(failed)
	<-watch
	k.took = time.Since(k.start)
	k.c.Stop()
	time.Sleep(20 * time.Second) // connections that were not closed time out
}

// prepareSchema makes the tables.
//
//	w       what most write; children f refer to it or do not; all clients share rows 0 to 4
//	r       is renamed, and so is its column q
//	tr      is emptied: e counts how often, and u has what the writer of each row of tr saw of that
func (k *schemaCampaign) prepareSchema(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	conn, err := k.c.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, q := range []string{
		"CREATE TABLE w (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, u int, b int, x int, d int, c int, nn int, e int, s text)",
		"CREATE TABLE f (id int PRIMARY KEY, pid int)",
		"CREATE TABLE r (id int PRIMARY KEY, k int NOT NULL DEFAULT 1, q int)",
		"CREATE TABLE tr (id int PRIMARY KEY, v int)",
		"CREATE INDEX ON tr (v)",
		"CREATE TABLE e (n int)",
		"CREATE TABLE u (id int PRIMARY KEY, n int)",
		"INSERT INTO e VALUES (0)",
		"INSERT INTO f VALUES (1, 1)",
		fmt.Sprintf("INSERT INTO w (id, u, b, d, nn, s) SELECT g, -g, 950, g %% 7, g, 's' FROM generate_series(0, %d) g", hotRows-1),
		fmt.Sprintf("INSERT INTO w (id, u, b, d, nn, s) SELECT g, 2 * g, 950, g %% 7, g, 's' FROM generate_series(100, %d) g", 100+coldRows-1),
		"ALTER TABLE w SPLIT AT VALUES (0), (110), (1040)",
		"ALTER TABLE f SPLIT AT VALUES (0)",
	} {
		if _, err := conn.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if k.publish != "" {
		if _, err := conn.Exec(ctx, k.publish); err != nil && !refusedBefore(err) {
			t.Fatalf("%s: %v", k.publish, err)
		}
	}
	k.ids.Store(1000)
	anomalyReplicated(ctx, t, k.c)
}

// refusedBefore reports whether a statement was refused because the cluster's upgrade is not finalized.
func refusedBefore(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "0A000"
}

func (k *schemaCampaign) administer(cl *client) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	switch cl.dice.IntN(3) {
	case 0:
		cl.explain = func(pg *pgconn.PgError) (history.Outcome, bool) { return history.Failed, pg.Code == "42P01" }
		cl.do("split", func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s SPLIT AT VALUES (%d)", []string{"w", "f", "r", "tr"}[cl.dice.IntN(4)], cl.dice.IntN(int(k.ids.Load()))))
			return err
		})
	case 1:
		if mergeRandomly(ctx, k.c, cl.dice.IntN(k.c.Len()), cl.dice) == nil {
			k.count(&k.done, "merge")
		}
	default:
		i := cl.dice.IntN(k.c.Len())
		n := k.c.Node(i)
		if n == nil || n.Store() == nil {
			return
		}
		ranges, err := k.c.Ranges(ctx, i)
		if err != nil || len(ranges) == 0 {
			return
		}
		d := ranges[cl.dice.IntN(len(ranges))]
		if _, err := n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: d.Start,
			Target: d.Replicas[cl.dice.IntN(len(d.Replicas))].Node}}}); err == nil {
			k.count(&k.done, "lease")
		}
	}
}

// schemaChange is one change of the schema: its statements, in a transaction if there are several, and the errors that the
// other changes explain.
type schemaChange struct {
	texts []string
	may   string // codes
	must  string // code: it may not succeed
}

// A name may be wrong because another client has changed it, or because a change that failed or got no answer is done
// or under way.
var schemaChanges = []schemaChange{
	{texts: []string{"CREATE INDEX i_b ON w (b)"}, may: "42P07"},
	{texts: []string{"CREATE INDEX i_b ON w (b)"}, may: "42P07"},
	{texts: []string{"CREATE INDEX i_s ON w (s, b DESC)"}, may: "42P07"},
	{texts: []string{"CREATE INDEX i_c ON w (c) INCLUDE (b, nn)"}, may: "42P07"},
	{texts: []string{"CREATE INDEX i_x1 ON w (x1)"}, may: "42P07 42703"},
	{texts: []string{"CREATE INDEX i_p ON f (pid)"}, may: "42P07"},
	{texts: []string{"CREATE UNIQUE INDEX u_u ON w (u)"}, may: "42P07"},
	{texts: []string{"CREATE UNIQUE INDEX u_u ON w (u)"}, may: "42P07"},
	{texts: []string{"CREATE UNIQUE INDEX u_x ON w (x)"}, may: "42P07 23505"},
	{texts: []string{"CREATE UNIQUE INDEX u_x ON w (x)"}, may: "42P07 23505"},
	{texts: []string{"CREATE UNIQUE INDEX u_d ON w (d)"}, may: "42P07 23505", must: "23505"},
	{texts: []string{"DROP INDEX i_b"}, may: "42704"},
	{texts: []string{"DROP INDEX i_s"}, may: "42704"},
	{texts: []string{"DROP INDEX i_c"}, may: "42704"},
	{texts: []string{"DROP INDEX i_p"}, may: "42704"},
	{texts: []string{"DROP INDEX u_u"}, may: "42704"},
	{texts: []string{"DROP INDEX u_x"}, may: "42704"},
	{texts: []string{fmt.Sprintf("ALTER TABLE w ADD COLUMN x0 int; UPDATE w SET x0 = 7 WHERE id < %d", hotRows)}, may: "42701 55P03 23505 23514"},
	{texts: []string{"ALTER TABLE w ADD COLUMN x0 int", fmt.Sprintf("UPDATE w SET x0 = 7 WHERE id < %d", hotRows)}, may: "42701 55P03 23505 23514"},
	{texts: []string{"ALTER TABLE w ADD COLUMN x1 int DEFAULT 5"}, may: "42701"},
	{texts: []string{"ALTER TABLE w ADD COLUMN x2 int NOT NULL DEFAULT 6"}, may: "42701"},
	{texts: []string{"ALTER TABLE w ADD COLUMN x3 int NOT NULL"}, may: "23502 42701", must: "23502"},
	{texts: []string{"ALTER TABLE w ADD COLUMN x3 int DEFAULT 5 UNIQUE"}, may: "23505 42701 42P07", must: "23505"},
	{texts: []string{"ALTER TABLE w ADD COLUMN x3 int DEFAULT 5 CHECK (x3 < 3)"}, may: "23514 42701 42710", must: "23514"},
	{texts: []string{"ALTER TABLE w ADD COLUMN x4 int DEFAULT 5 CHECK (x4 < 9)"}, may: "42701 42710"},
	{texts: []string{"ALTER TABLE f ADD COLUMN x5 int DEFAULT 3 REFERENCES w (id)"}, may: "42701 42710"},
	{texts: []string{"ALTER TABLE f ADD COLUMN x6 int DEFAULT -1 REFERENCES w (id)"}, may: "42701 42710 23503", must: "23503"},
	{texts: []string{"ALTER TABLE w DROP COLUMN x4"}, may: "42703"},
	{texts: []string{"ALTER TABLE f DROP COLUMN x5"}, may: "42703"},
	{texts: []string{"ALTER TABLE w DROP COLUMN x0"}, may: "42703"},
	{texts: []string{"ALTER TABLE w DROP COLUMN x1"}, may: "42703"},
	{texts: []string{"ALTER TABLE w DROP COLUMN x2"}, may: "42703"},
	{texts: []string{"ALTER TABLE w ALTER COLUMN nn SET NOT NULL"}, may: "23502"},
	{texts: []string{"ALTER TABLE w ALTER COLUMN nn SET NOT NULL"}, may: "23502"},
	{texts: []string{"ALTER TABLE w ALTER COLUMN nn DROP NOT NULL"}},
	{texts: []string{"ALTER TABLE w ALTER COLUMN e SET DEFAULT 3"}},
	{texts: []string{"ALTER TABLE w ALTER COLUMN e DROP DEFAULT"}},
	{texts: []string{"ALTER TABLE w ADD CONSTRAINT ck_ok CHECK (b >= 0)"}, may: "42710"},
	{texts: []string{"ALTER TABLE w ADD CONSTRAINT ck_bad CHECK (b < 900)"}, may: "42710 23514", must: "23514"},
	{texts: []string{"ALTER TABLE w ADD CONSTRAINT ck_c CHECK (c < 900)"}, may: "42710 23514"},
	{texts: []string{"ALTER TABLE w ADD CONSTRAINT ck_c CHECK (c < 900)"}, may: "42710 23514"},
	{texts: []string{"ALTER TABLE w DROP CONSTRAINT ck_ok"}, may: "42704"},
	{texts: []string{"ALTER TABLE w DROP CONSTRAINT ck_c"}, may: "42704"},
	{texts: []string{"ALTER TABLE f ADD CONSTRAINT fk FOREIGN KEY (pid) REFERENCES w (id)"}, may: "42710 23503"},
	{texts: []string{"ALTER TABLE f ADD CONSTRAINT fk FOREIGN KEY (pid) REFERENCES w (id)"}, may: "42710 23503"},
	{texts: []string{"ALTER TABLE f DROP CONSTRAINT fk"}, may: "42704"},
	{texts: []string{"ALTER TABLE r RENAME TO r2"}, may: "42P01 42P07"},
	{texts: []string{"ALTER TABLE r2 RENAME TO r"}, may: "42P01 42P07"},
	{texts: []string{"ALTER TABLE r RENAME COLUMN q TO q2"}, may: "42P01 42703 42701"},
	{texts: []string{"ALTER TABLE r RENAME COLUMN q2 TO q"}, may: "42P01 42703 42701"},
	{texts: []string{"CREATE INDEX i_q ON r (q)"}, may: "42P01 42703 42P07"},
	{texts: []string{"DROP INDEX i_q"}, may: "42704"},
	{texts: []string{"ALTER TABLE r ALTER PRIMARY KEY USING COLUMNS (k, id)"}, may: "42P01"},
	{texts: []string{"ALTER TABLE r ALTER PRIMARY KEY USING COLUMNS (id)"}, may: "42P01"},
	{texts: []string{"UPDATE e SET n = n + 1", "TRUNCATE tr"}, may: "55P03"},
	{texts: []string{"UPDATE e SET n = n + 1", "TRUNCATE tr"}, may: "55P03"},
	{texts: []string{"TRUNCATE tr", "UPDATE e SET n = n + 1"}, may: "55P03"},
}

// schemaChanger changes the schema at random, preferably at a gateway that is about to die.
type schemaChanger struct {
	*client
	all   *schemaCampaign
	begun time.Time
}

func (s *schemaChanger) step() {
	c := schemaChanges[s.dice.IntN(len(schemaChanges))]
	if s.dice.IntN(2) == 0 {
		s.close()
	}
	if s.conn == nil && s.dice.IntN(2) == 0 {
		at := time.Since(s.begun)
		for _, a := range s.k.plan {
			if i := slices.Index(s.k.c.Names(), a.A); a.At > at && a.At < at+4*time.Second && slices.Contains([]fault.Kind{fault.Crash, fault.CrashSync,
				fault.PowerOff, fault.Isolate, fault.Pause}, a.Kind) {
				time.Sleep(a.At - at - time.Duration(s.dice.IntN(700))*time.Millisecond)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				if conn, err := s.k.c.Connect(ctx, i, "defaultdb"); err == nil {
					s.conn, s.at = conn, i
				}
				cancel()
				break
			}
		}
	}
	s.limit = 20 * time.Second
	if s.dice.IntN(6) == 0 { // it goes away
		s.limit = time.Duration(s.dice.IntN(1500)+1) * time.Millisecond
	}
	s.explain = func(pg *pgconn.PgError) (history.Outcome, bool) {
		return history.Failed, strings.Contains(c.may, pg.Code)
	}
	name := strings.Join(c.texts, "; ")
	begun := s.k.now()
	how, note := s.do("changes", func(ctx context.Context, conn *pgx.Conn) error {
		if len(c.texts) == 1 {
			_, err := conn.Exec(ctx, c.texts[0])
			return err
		}
		return inTxn(ctx, conn, func() error {
			for _, q := range c.texts {
				if _, err := conn.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		})
	})
	s.k.say("%s at n%d since %s: %d %s", name, s.at+1, begun, how, note)
	if how == history.OK && c.must != "" {
		s.k.problem("%s succeeded at %s", name, note)
	}
	if how == history.OK {
		words := strings.Fields(name)
		s.k.count(&s.k.done, strings.Join(words[:2], " "))
	}
}

// verify compares the rows with the acknowledged ones.
func (k *schemaCampaign) verify() {
	k.everywhere(func(ctx context.Context, i int) error {
		err := k.verifyFrom(ctx, i)
		if err == nil {
			_, err = k.checkIndexes(ctx, i)
		}
		return err
	})
}

func (k *schemaCampaign) verifyFrom(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	from := k.c.Machines[i].Name
	have := map[string]string{}
	read := func(q string, key func(int64) string) error {
		rows, err := conn.Query(ctx, q)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			var v string
			if err := rows.Scan(&id, &v); err != nil {
				return err
			}
			if _, twice := have[key(id)]; twice {
				k.problem("%s returned %d twice, seen from %s", q, id, from)
			}
			have[key(id)] = v
		}
		return rows.Err()
	}
	if err := read("SELECT id, concat('u=', u, ' b=', b, ' x=', coalesce(x, -1), ' c=', c, ' nn=', coalesce(nn, -1), ' s=', s) FROM w WHERE id > 1000", wKey); err != nil {
		return err
	}
	if err := read("SELECT id, pid::text FROM f WHERE id > 1000", fKey); err != nil {
		return err
	}
	table, column := k.renamed(i)
	if err := read(fmt.Sprintf("SELECT id, %s::text FROM %s", column, table), func(id int64) string { return fmt.Sprintf("r %d", id) }); err != nil {
		return err
	}
	var cold int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM w WHERE id BETWEEN 100 AND 1000 AND u = 2 * id AND b = 950").Scan(&cold); err != nil {
		return err
	}
	if cold != coldRows {
		k.problem("%d of %d rows that nobody changes, seen from %s", cold, coldRows, from)
	}
	var hot [hotRows]int64
	for id := range hot {
		if err := conn.QueryRow(ctx, "SELECT n FROM w WHERE id = $1", id).Scan(&hot[id]); err != nil {
			return err
		}
	}
	for _, q := range schemaInvariants {
		var wrong int
		err := conn.QueryRow(ctx, q).Scan(&wrong)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "42703" {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
		if wrong != 0 {
			k.problem("%s: %d in the end, seen from %s", q, wrong, from)
		}
	}
	if err := k.checkConstraints(ctx, i, conn); err != nil {
		return err
	}

	m := &k.model
	m.mu.Lock()
	defer m.mu.Unlock()
	k.rows = len(have)
	known := map[string]bool{}
	for key, want := range m.sure {
		known[key] = true
		if have[key] != want {
			k.problem("row %s is %q, want %q, seen from %s", key, have[key], want, from)
		}
	}
	for _, changes := range m.maybe {
		var done, undone []string
		for key, c := range changes {
			known[key] = true
			switch now := have[key]; {
			case now == c[0] && now == c[1]:
			case now == c[0]:
				undone = append(undone, key)
			case now == c[1]:
				done = append(done, key)
			default:
				k.problem("row %s is %q, want %q or %q, seen from %s", key, now, c[0], c[1], from)
			}
		}
		if len(done) > 0 && len(undone) > 0 {
			k.problem("of one transaction %v are there and %v are not, seen from %s", done, undone, from)
		}
	}
	for key, v := range have {
		if !known[key] {
			k.problem("row %s is there, %q, and should not be, seen from %s", key, v, from)
		}
	}
	for id, n := range hot {
		if h := m.hot[id]; n < h.sure || n > h.sure+h.maybe {
			k.problem("hot row %d has %d; %d additions were acknowledged, %d are unknown", id, n, h.sure, h.maybe)
		}
	}
	return nil
}
