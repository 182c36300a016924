package simcluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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
)

// The campaign of schema changes: clients write, others change the schema at other gateways, machines die in the middle
// of it. Meanwhile and in the end every index has an entry for each row and no other, constraints hold, and there is what
// was acknowledged; once everything is whole, no change stays unfinished for a minute (I7, I1).
// MERIDIAN_SEEDS, MERIDIAN_FIRST and MERIDIAN_SEED are TestCampaign's.

const (
	schemaFaults = 25 * time.Second // of virtual time
	schemaWhole  = time.Minute      // every change is finished, once all is healed and nobody begins another
	schemaRemove = 10 * time.Second // the data of dropped indexes stays
	hotRows      = 5
	coldRows     = 40 // nobody changes them: ids from 100
)

func TestSchemaCampaign(t *testing.T) {
	seeds, first := 2, 1
	if testing.Short() {
		seeds = 1
	}
	number := func(name string, into *int) bool {
		n, err := strconv.Atoi(os.Getenv(name))
		if err == nil {
			*into = n
		}
		return err == nil
	}
	number("MERIDIAN_SEEDS", &seeds)
	number("MERIDIAN_FIRST", &first)
	if number("MERIDIAN_SEED", &first) {
		seeds = 1
	}
	var failed []int
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &schemaCampaign{campaign: &campaign{seed: uint64(seed), stop: make(chan struct{}), probes: &probe.Set{}}}
			begun := time.Now()
			defer watchdog(seed).Stop()
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
		fmt.Printf("%d seeds of schema changes, %d failed %v\n", seeds, len(failed), failed)
	}
}

// schemaCampaign is one seed's run.
type schemaCampaign struct {
	*campaign
	finished time.Duration // after healing
	rows     int

	model struct {
		mu    sync.Mutex             // guards all below
		sure  map[string]string      // what rows are there, by table and id; those that were deleted are empty
		maybe []map[string][2]string // rows before and after a transaction whose outcome is unknown: nobody touches them since
		hot   [hotRows]struct{ sure, maybe int64 }
	}
}

func (k *schemaCampaign) run(t *testing.T) {
	k.model.sure = map[string]string{}
	dice := rand.New(rand.NewPCG(k.seed, 0x5c4e))
	o := simcluster.Options{Seed: k.seed, Log: logTo(), Probes: k.probes, Configure: func(_ int, o *server.Options) { o.RemoveAfter = schemaRemove }}
	switch dice.IntN(6) {
	case 0, 1, 2:
		k.topology = "three nodes in one region"
	case 3:
		k.topology, o.NodesPerRegion = "five nodes in one region", 5
	default:
		k.topology, o.Regions, o.NodesPerRegion = "three nodes in three regions", sim.ThreeRegions(), 1
	}
	k.start = time.Now()
	k.c = simcluster.Start(t, o)
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

	target := k.c.Target(k.seed)
	failed := make(chan struct{})
	watch := k.watch(failed)
	err := fault.Run(context.Background(), sim.NewClock(), k.plan, target, func(a fault.Action) { k.say("fault: %s", a) })
	if err != nil {
		k.problem("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(schemaFaults)))
	k.say("healing")
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	time.Sleep(3 * time.Second)
	close(enough)
	for i := range k.c.Len() {
		k.c.WaitReady(i)
	}
	changers.Wait() // which are told within 20 s
	k.whole(time.Now())
	close(k.stop)
	writers.Wait()
	k.verify()
	k.cleared()
	k.countStats()
	close(failed)
	<-watch
	k.took = time.Since(k.start)
	k.c.Stop()
	time.Sleep(20 * time.Second) // connections that nobody closed give up
}

// prepareSchema makes the tables.
//
//	w       what most write; children f refer to it or do not; rows 0 to 4 are everybody's
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
	k.ids.Store(1000)
	anomalyReplicated(ctx, t, k.c)
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

// schemaRow is what a writer gives a row of w; -1 is NULL.
type schemaRow struct{ u, b, x, c, nn int64 }

func (r schemaRow) String() string {
	return fmt.Sprintf("u=%d b=%d x=%d c=%d nn=%d s=s%d", r.u, r.b, r.x, r.c, r.nn, r.b%7)
}

func orNull(v int64) any {
	if v < 0 {
		return nil
	}
	return v
}

// note remembers what became of a transaction that changed rows: by table and id, how each was before and is after.
func (k *schemaCampaign) note(how history.Outcome, changes map[string][2]string) {
	k.model.mu.Lock()
	defer k.model.mu.Unlock()
	switch how {
	case history.OK:
		for key, c := range changes {
			k.model.sure[key] = c[1]
		}
	case history.Unknown:
		for key := range changes {
			delete(k.model.sure, key)
		}
		k.model.maybe = append(k.model.maybe, changes)
	}
}

// schemaWriter writes rows of its own, so that it knows what each has to be.
type schemaWriter struct {
	*client
	all      *schemaCampaign
	live     map[int64]schemaRow
	children map[int64]int64 // their parents

	stmts   []schemaStmt
	changes map[string][2]string
	after   []func() // what to do with live and children when it is committed
	lost    []func() // when nobody knows
}

type schemaStmt struct {
	q    string
	args []any
	rows int64
}

// violated are errors that those who write to w may see because of a constraint that is being added, or that some rows are
// meant to violate.
func violated(pg *pgconn.PgError) (history.Outcome, bool) {
	switch pg.Code {
	case "23505": // without a name, it is on its way out
		return history.Failed, slices.Contains([]string{"u_x", "u_d", "w_x3_key", ""}, pg.ConstraintName)
	case "23514":
		return history.Failed, slices.Contains([]string{"ck_c", "ck_bad", "w_nn_not_null", "w_x3_check"}, pg.ConstraintName)
	case "23502":
		return history.Failed, pg.ColumnName == "nn"
	case "23503":
		return history.Failed, slices.Contains([]string{"fk", "f_x6_fkey"}, pg.ConstraintName)
	}
	return 0, false
}

func (w *schemaWriter) explained(pg *pgconn.PgError) (history.Outcome, bool) {
	switch pg.Code {
	case "42703":
		return history.Failed, strings.Contains(pg.Message, "\"x1\"") || strings.Contains(pg.Message, "\"x2\"")
	}
	return violated(pg)
}

func (w *schemaWriter) add(rows int64, q string, args ...any) {
	w.stmts = append(w.stmts, schemaStmt{q, args, rows})
}

func (w *schemaWriter) change(key, before, after string) {
	c, ok := w.changes[key]
	if !ok {
		c[0] = before
	}
	c[1] = after
	w.changes[key] = c
}

func wKey(id int64) string { return fmt.Sprintf("w %d", id) }
func fKey(id int64) string { return fmt.Sprintf("f %d", id) }

// value makes up a row.
func (w *schemaWriter) value(id int64) schemaRow {
	d := w.dice
	r := schemaRow{u: 2*id + d.Int64N(2), b: d.Int64N(900), x: 1_000_000 + id, c: d.Int64N(10), nn: d.Int64N(50)}
	switch d.IntN(40) {
	case 0:
		r.x = d.Int64N(8) // others want it too
	case 1:
		r.c = 1000 // ck_c forbids it
	case 2:
		r.nn = -1
	case 3:
		r.b = 900 + d.Int64N(100) // ck_bad would forbid it
	case 4:
		r.x = -1
	}
	return r
}

const insertW = "INSERT INTO w (id, u, b, x, d, c, nn, s) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"

func rowArgs(id int64, r schemaRow) []any {
	return []any{id, r.u, r.b, orNull(r.x), id % 7, r.c, orNull(r.nn), fmt.Sprintf("s%d", r.b%7)}
}

func (w *schemaWriter) insert() int64 {
	id := w.all.ids.Add(1)
	r := w.value(id)
	w.add(1, insertW, rowArgs(id, r)...)
	w.change(wKey(id), "", r.String())
	w.after = append(w.after, func() { w.live[id] = r })
	return id
}

func (w *schemaWriter) some() (int64, bool) {
	// In order, so that the dice decide.
	ids := make([]int64, 0, len(w.live))
	for id := range w.live {
		if _, used := w.changes[wKey(id)]; !used {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, false
	}
	slices.Sort(ids)
	return ids[w.dice.IntN(len(ids))], true
}

func (w *schemaWriter) update() {
	id, ok := w.some()
	if !ok {
		w.insert()
		return
	}
	old, r := w.live[id], w.value(id)
	switch w.dice.IntN(5) {
	case 0: // all of it, or nothing: the row is there
		w.add(1, insertW+" ON CONFLICT (id) DO UPDATE SET u = excluded.u, b = excluded.b, x = excluded.x, c = excluded.c, nn = excluded.nn, s = excluded.s",
			rowArgs(id, r)...)
	case 1:
		w.add(1, "UPSERT INTO w (id, u, b, x, d, c, nn, s) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)", rowArgs(id, r)...)
	case 2:
		r = schemaRow{old.u, r.b, old.x, old.c, old.nn}
		w.add(1, "UPDATE w SET b = $2, s = $3 WHERE id = $1", id, r.b, fmt.Sprintf("s%d", r.b%7))
	case 3: // found by another column, which may have an index
		r = schemaRow{r.u, old.b, old.x, r.c, old.nn}
		w.add(1, "UPDATE w SET u = $2, c = $3 WHERE u = $1", old.u, r.u, r.c)
	case 4: // a column that may not be there: no other is changed
		r = old
		w.add(1, fmt.Sprintf("UPDATE w SET x%d = %d WHERE id = %d", 1+w.dice.IntN(2), 50, id))
	}
	w.change(wKey(id), old.String(), r.String())
	w.after = append(w.after, func() { w.live[id] = r })
	w.lost = append(w.lost, func() { delete(w.live, id) })
}

func (w *schemaWriter) delete() {
	id, ok := w.some()
	if !ok || len(w.live) < 5 {
		w.insert()
		return
	}
	old := w.live[id]
	if w.dice.IntN(3) == 0 {
		w.add(1, "DELETE FROM w WHERE u = $1", old.u)
	} else {
		w.add(1, "DELETE FROM w WHERE id = $1", id)
	}
	w.change(wKey(id), old.String(), "")
	gone := func() { delete(w.live, id) }
	w.after, w.lost = append(w.after, gone), append(w.lost, gone)
}

// child adds or removes a child. Its parent may go before it, if there is no foreign key.
func (w *schemaWriter) child() {
	ids := make([]int64, 0, len(w.children))
	for id := range w.children {
		if _, used := w.changes[fKey(id)]; !used {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) > 6 || len(ids) > 0 && w.dice.IntN(3) == 0 {
		id := ids[w.dice.IntN(len(ids))]
		for _, o := range ids { // those without a parent first
			if _, ok := w.live[w.children[o]]; !ok {
				id = o
			}
		}
		w.add(1, "DELETE FROM f WHERE id = $1", id)
		w.change(fKey(id), fmt.Sprint(w.children[id]), "")
		gone := func() { delete(w.children, id) }
		w.after, w.lost = append(w.after, gone), append(w.lost, gone)
		return
	}
	parent, ok := w.some()
	if !ok || w.dice.IntN(3) == 0 {
		parent = w.insert()
	}
	id := w.all.ids.Add(1)
	w.add(1, "INSERT INTO f VALUES ($1, $2)", id, parent)
	w.change(fKey(id), "", fmt.Sprint(parent))
	w.after = append(w.after, func() { w.children[id] = parent })
}

func (w *schemaWriter) step() {
	w.stmts, w.changes, w.after, w.lost = nil, map[string][2]string{}, nil, nil
	one := func() {
		switch n := w.dice.IntN(10); {
		case n < 3:
			w.insert()
		case n < 7:
			w.update()
		case n < 8:
			w.delete()
		default:
			w.child()
		}
	}
	what := "statement"
	if w.dice.IntN(5) == 0 { // two rows in one statement
		a, b := w.all.ids.Add(1), w.all.ids.Add(1)
		ra, rb := w.value(a), w.value(b)
		w.add(2, insertW+", ($9, $10, $11, $12, $13, $14, $15, $16)", append(rowArgs(a, ra), rowArgs(b, rb)...)...)
		w.change(wKey(a), "", ra.String())
		w.change(wKey(b), "", rb.String())
		w.after = append(w.after, func() { w.live[a], w.live[b] = ra, rb })
	} else {
		one()
	}
	explicit := len(w.stmts) > 1
	if w.dice.IntN(3) == 0 {
		explicit = true
		for range w.dice.IntN(3) {
			one()
		}
	}
	rollback := explicit && w.dice.IntN(8) == 0
	think := time.Duration(0)
	if explicit && w.dice.IntN(6) == 0 {
		think = time.Duration(w.dice.IntN(3000)) * time.Millisecond
	}
	var wrong string
	how, note := w.do(what, func(ctx context.Context, conn *pgx.Conn) error {
		wrong = ""
		all := func() error {
			for i, s := range w.stmts {
				if i > 0 {
					time.Sleep(think)
				}
				tag, err := conn.Exec(ctx, s.q, s.args...)
				if err != nil {
					return err
				}
				if tag.RowsAffected() != s.rows {
					wrong = fmt.Sprintf("%s %v changed %d rows, want %d", s.q, s.args, tag.RowsAffected(), s.rows)
				}
			}
			return nil
		}
		if !explicit {
			return all()
		}
		if rollback {
			if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
				return err
			}
			if err := all(); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, "ROLLBACK")
			return err
		}
		return inTxn(ctx, conn, all)
	})
	if how == history.OK && wrong != "" {
		w.k.problem("at %s: %s", note, wrong)
	}
	if rollback {
		return // whatever was answered
	}
	w.all.note(how, w.changes)
	switch how {
	case history.OK:
		for _, f := range w.after {
			f()
		}
	case history.Unknown:
		for _, f := range w.lost {
			f()
		}
	}
}

// hotWriter changes rows that all others change as well.
type hotWriter struct {
	*client
	all *schemaCampaign
}

func (w *hotWriter) step() {
	id := w.dice.IntN(hotRows)
	v := w.dice.IntN(900)
	w.explain = violated
	how, _ := w.do("hot", func(ctx context.Context, conn *pgx.Conn) error {
		var err error
		switch w.dice.IntN(3) {
		case 0:
			_, err = conn.Exec(ctx, "UPDATE w SET n = n + 1, b = $2 WHERE id = $1", id, v)
		case 1:
			_, err = conn.Exec(ctx, "INSERT INTO w (id, n, b) VALUES ($1, 0, $2) ON CONFLICT (id) DO UPDATE SET n = w.n + 1, b = excluded.b", id, v)
		default:
			err = inTxn(ctx, conn, func() error {
				var n int
				if err := conn.QueryRow(ctx, "SELECT n FROM w WHERE id = $1", id).Scan(&n); err != nil {
					return err
				}
				_, err := conn.Exec(ctx, "UPDATE w SET n = $2, s = $3 WHERE id = $1", id, n+1, fmt.Sprint("s", v))
				return err
			})
		}
		return err
	})
	m := &w.all.model
	m.mu.Lock()
	defer m.mu.Unlock()
	switch how {
	case history.OK:
		m.hot[id].sure++
	case history.Unknown:
		m.hot[id].maybe++
	}
}

// renamedWriter uses names that come and go.
type renamedWriter struct {
	*client
	all *schemaCampaign
}

func (w *renamedWriter) step() {
	w.explain = func(pg *pgconn.PgError) (history.Outcome, bool) {
		return history.Failed, pg.Code == "42P01" || pg.Code == "42703"
	}
	table, column := []string{"r", "r2"}[w.dice.IntN(2)], []string{"q", "q2"}[w.dice.IntN(2)]
	id, v := w.all.ids.Add(1), w.dice.IntN(100)
	how, _ := w.do("renamed", func(ctx context.Context, conn *pgx.Conn) error {
		if w.dice.IntN(2) == 0 {
			_, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (id, %s) VALUES (%d, %d)", table, column, id, v))
			return err
		}
		return inTxn(ctx, conn, func() error {
			if _, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (id) VALUES (%d)", table, id)); err != nil {
				return err
			}
			tag, err := conn.Exec(ctx, fmt.Sprintf("UPDATE %s SET %s = %d WHERE id = %d", table, column, v, id))
			if err == nil && tag.RowsAffected() != 1 {
				return fmt.Errorf("the row that was just inserted was updated %d times", tag.RowsAffected())
			}
			return err
		})
	})
	w.all.note(how, map[string][2]string{fmt.Sprintf("r %d", id): {"", fmt.Sprint(v)}})
}

// emptiedWriter inserts into a table that is truncated, and writes down how often it saw it truncated.
type emptiedWriter struct{ *client }

func (w *emptiedWriter) step() {
	id := w.k.ids.Add(1)
	texts := []string{fmt.Sprintf("INSERT INTO tr VALUES (%d, %d)", id, id%5), fmt.Sprintf("INSERT INTO u SELECT %d, n FROM e", id)}
	if w.dice.IntN(2) == 0 {
		slices.Reverse(texts)
	}
	w.do("emptied", func(ctx context.Context, conn *pgx.Conn) error {
		return inTxn(ctx, conn, func() error {
			for _, q := range texts {
				if _, err := conn.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// What holds whenever it is looked at. A column that is not there has nothing wrong in it.
var schemaInvariants = []string{
	"SELECT count(*) FROM w WHERE x1 IS NULL OR x1 NOT IN (5, 50)",
	"SELECT count(*) FROM w WHERE x2 IS NULL OR x2 NOT IN (6, 50)",
	fmt.Sprintf("SELECT count(*) FROM w WHERE id < %d AND x0 IS DISTINCT FROM 7", hotRows),
	"SELECT count(*) FROM u FULL JOIN tr USING (id) WHERE (u.n = (SELECT n FROM e)) <> (tr.id IS NOT NULL)",
	"SELECT count(*) FROM (SELECT b FROM w GROUP BY b HAVING count(*) <> (SELECT count(*) FROM w v WHERE v.b = w.b)) t",
	"SELECT (SELECT count(*) FROM w WHERE u > -10 AND u IS NOT NULL) - (SELECT count(*) FROM w WHERE id + 0 >= 0)",
	"SELECT (SELECT count(*) FROM w WHERE s >= 's3' AND s < 's4') - (SELECT count(*) FROM w WHERE s || '' >= 's3' AND s || '' < 's4')",
}

// schemaReader looks whether all is as it has to be at any moment.
type schemaReader struct {
	*client
	all *schemaCampaign
}

func (r *schemaReader) step() {
	if r.dice.IntN(3) > 0 {
		i := r.dice.IntN(r.k.c.Len())
		ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
		defer cancel()
		n, err := r.all.checkIndexes(ctx, i)
		if err == nil {
			r.k.count(&r.k.done, "indexes compared")
			if n > 0 {
				r.k.count(&r.k.done, "of them secondary")
			}
		}
		return
	}
	r.explain = func(pg *pgconn.PgError) (history.Outcome, bool) { return history.Failed, pg.Code == "42703" }
	q := schemaInvariants[r.dice.IntN(len(schemaInvariants))]
	var wrong int
	how, note := r.do("invariant", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, q).Scan(&wrong)
	})
	if how == history.OK && wrong != 0 {
		r.k.problem("%s: %d, seen from %s", q, wrong, note)
	}
}

// schemaChange is one change of the schema: its statements, in a transaction if there are several, and the errors that the
// other changes explain.
type schemaChange struct {
	texts []string
	may   string // codes
	must  string // code: it may not succeed
}

// What is wrong with a name may be that somebody else has changed it, or that the change that was told to have failed, or
// of which nothing was heard, is done or under way.
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
	{texts: []string{"CREATE INDEX i_q ON r (q)"}, may: "42P01 42703 42P07 55006"},
	{texts: []string{"DROP INDEX i_q"}, may: "42704 55006"},
	{texts: []string{"ALTER TABLE r ALTER PRIMARY KEY USING COLUMNS (k, id)"}, may: "42P01 55006"},
	{texts: []string{"ALTER TABLE r ALTER PRIMARY KEY USING COLUMNS (id)"}, may: "42P01 55006"},
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

// verify compares what there is with what was promised.
func (k *schemaCampaign) verify() {
	for i, m := range k.c.Machines {
		var err error
		for range 20 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err = k.verifyFrom(ctx, i); err == nil {
				_, err = k.checkIndexes(ctx, i)
			}
			cancel()
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "40001" {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			k.dump()
			k.problem("%s: %v", m.Name, err)
		}
	}
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
