package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/bench/plot"
	"meridian/kv"
	"meridian/sim"
)

// changes8 are the changes of the schema, in order.
var changes8 = [...]struct{ name, sql string }{
	{"ADD COLUMN", "ALTER TABLE t ADD COLUMN w int DEFAULT 7"},
	{"RENAME COLUMN", "ALTER TABLE t RENAME COLUMN w TO x"},
	{"CREATE INDEX", "CREATE INDEX i ON t (x)"},
	{"DROP INDEX", "DROP INDEX t@i"},
	{"DROP COLUMN", "ALTER TABLE t DROP COLUMN x"},
}

// kinds8 are the statements that go on meanwhile: through each gateway, of rows whose leaseholder is near or far. Nobody writes the rows that are read.
var kinds8 = [...]string{"read, near", "read, far", "update, near", "update, far"}

const (
	// allowance8 is for all of a wait but the clocks: chosen by us.
	allowance8 = 3 * time.Millisecond
	// pause8 is between two statements of a client.
	pause8 = 40 * time.Millisecond
	// open8 is how long a transaction that has used the table stays open.
	open8 = 10 * time.Second
)

// sample8 is a statement of a client.
type sample8 struct{ begin, end time.Time }

// client8 runs statements of one kind, one after the other.
type client8 struct {
	kind    int
	samples []sample8
	failed  map[string]int // by SQLSTATE
}

// longest is that of the statements that overlap an interval, or of those that overlap none of several.
func (c *client8) longest(f func(s sample8) bool) (d time.Duration) {
	for _, s := range c.samples {
		if f(s) {
			d = max(d, s.end.Sub(s.begin))
		}
	}
	return d
}

// change8 is what a change of the schema took, and did to statements.
type change8 struct {
	name       string
	begin, end time.Time
	// waited is how many statements waited for a registered version; together is how long.
	waited   int64
	together time.Duration
	// overlapping is how many statements there were meanwhile.
	overlapping int
	// longer is, by kind, by how much the longest statement of a client took longer than the client's longest without a change: the most over all clients.
	longer [len(kinds8)]time.Duration
}

func (c *change8) took() time.Duration { return c.end.Sub(c.begin) }

// overlaps says that a statement ran while the change was made, or soon after, when plans are made anew.
func (c *change8) overlaps(s sample8) bool {
	return s.begin.Before(c.end.Add(500*time.Millisecond)) && c.begin.Before(s.end)
}

// way8 is one way to change schemas, under load.
type way8 struct {
	name    string
	changes []change8
	// wait is the longest wait for a registered version.
	wait   time.Duration
	failed map[string]int // statements, by SQLSTATE
	count  int            // of statements
	calm   [len(kinds8)]time.Duration
	// open are changes next to a transaction that has used the table.
	open []open8Result
}

// open8Result is a change next to an open transaction: how long it took, and what became of the transaction.
type open8Result struct {
	what string
	took time.Duration
	end  string
}

// large8 is a cluster's measurement.
type large8 struct {
	regions, ranges int
	epsilon         time.Duration
	// columns says that no index is made: its backfill goes from range to range, one round trip after the other.
	columns bool
	ways    []*way8
}

// small8 is one of a small cluster with databases in the default mode.
type small8 struct {
	epsilon time.Duration
	// took is by way, and by change.
	took [2][len(changes8)]time.Duration
	open [2]open8Result
}

// ways8: settings of sql.schema_change.registered.
var ways8 = [...]struct{ name, setting string }{{"registered", "external"}, {"two versions", "never"}}

func runSchema(t *testing.T, c *config) *outcome {
	large := []*large8{
		{regions: 26, ranges: 26 * 39, epsilon: paperEpsilon, columns: true},
		{regions: 5, ranges: 5 * 8, epsilon: paperEpsilon},
		{regions: 5, ranges: 5 * 8, epsilon: 20 * time.Millisecond},
	}
	if c.quick {
		large = large[2:]
	}
	for _, l := range large {
		began := time.Now()
		bubble(t, fmt.Sprintf("%d regions %v", l.regions, l.epsilon), func(t *testing.T) { l.measure(t, c) })
		if t.Failed() {
			return nil
		}
		c.say("schema: %d regions, epsilon %v took %v", l.regions, l.epsilon, time.Since(began).Round(time.Second))
	}
	var small []*small8
	for _, epsilon := range []time.Duration{paperEpsilon, 250 * time.Millisecond} {
		s := &small8{epsilon: epsilon}
		bubble(t, fmt.Sprintf("small %v", epsilon), func(t *testing.T) { s.measure(t) })
		if t.Failed() {
			return nil
		}
		small = append(small, s)
	}
	return schemaOutcome(large, small)
}

// nearest are the regions' numbers, by their distance from one of them, which is the first.
func nearest(r *sim.Regions, from int) []int {
	var order []int
	for i := range r.Names {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return int(r.RTT(r.Names[from], r.Names[a]) - r.RTT(r.Names[from], r.Names[b]))
	})
	return order
}

// fillWorld makes a table of two rows in each range, the same number of ranges in each region: with the leaseholder there, and replicas in the two nearest regions.
func (l *large8) fillWorld(t *testing.T, w *world, conn *pgx.Conn, regions *sim.Regions) {
	ctx := context.Background()
	per := l.ranges / l.regions
	must(t, conn, "CREATE TABLE t (k int PRIMARY KEY, v text, n int NOT NULL DEFAULT 0)")
	split := func(step int) {
		var at []string
		for i := step; i < l.ranges; i += step {
			at = append(at, fmt.Sprintf("(%d)", 2*i))
		}
		must(t, conn, "ALTER TABLE t SPLIT AT VALUES "+strings.Join(at, ", "))
	}
	for i := range w.Len() {
		w.Node(i).Store().PauseQueues(true)
	}
	split(per)
	for i, d := range w.ranges(conn, "t") {
		at := min(i, l.regions-1)
		holder := w.leaseholder(d.ID)
		targets := func(nodes ...int) (want []kv.ReplicaTarget) {
			for k, near := range nodes {
				if !slices.Contains(nodes[:k], near) {
					n := w.Node(near)
					want = append(want, kv.ReplicaTarget{Node: n.NodeID(), Store: kv.StoreID(n.NodeID()), Type: kv.Voter})
				}
			}
			return want
		}
		near := nearest(regions, at)[:3]
		// The leaseholder's replica goes last.
		err := w.Node(holder).Store().ChangeReplicas(ctx, d.ID, targets(append(slices.Clone(near), holder)...))
		if err == nil {
			err = w.TransferLease(ctx, d.Start, at)
		}
		for err == nil && w.leaseholder(d.ID) != at {
			time.Sleep(10 * time.Millisecond)
		}
		if err == nil {
			err = w.Node(at).Store().ChangeReplicas(ctx, d.ID, targets(near...))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	split(1)
	must(t, conn, fmt.Sprintf("INSERT INTO t (k, v) SELECT i, 'a' FROM generate_series(0, %d) AS g(i)", 2*l.ranges-1))
	time.Sleep(5 * time.Second)
}

func (l *large8) measure(t *testing.T, c *config) {
	regions := sim.World(l.regions)
	w := start(t, regions, 1, l.epsilon)
	root := w.open(0, "defaultdb")
	must(t, root, "ALTER RANGE default CONFIGURE ZONE USING lease_preferences = '[[+region="+regions.Names[0]+"]]'")
	w.create(root, "d", true)
	ddl := w.open(0, "d")
	time.Sleep(20 * time.Second)
	l.fillWorld(t, w, ddl, regions)
	if n := len(w.ranges(ddl, "t")); n < l.ranges {
		t.Fatalf("%d ranges, not %d", n, l.ranges)
	}
	for _, way := range ways8 {
		must(t, ddl, "SET CLUSTER SETTING sql.schema_change.registered = '"+way.setting+"'")
		time.Sleep(5 * time.Second)
		began := time.Now()
		m := &way8{name: way.name}
		m.load(t, c, w, ddl, l)
		l.ways = append(l.ways, m)
		c.say("schema: %d regions, epsilon %v, %s: %v of virtual time, %d statements", l.regions, l.epsilon, way.name, time.Since(began).Round(time.Second), m.count)
		for _, writes := range []bool{false, true} {
			m.open = append(m.open, nextToOpen(t, w, ddl, w.Len()/2, writes))
		}
	}
}

// waits are the waits for registered versions, at all nodes.
func (w *world) waits() (n int64, together, longest time.Duration) {
	for i := range w.Len() {
		a, b, d := w.Node(i).Catalog().Coming()
		n, together, longest = n+a, together+b, max(longest, d)
	}
	return n, together, longest
}

// load makes the changes one after the other, while clients at all gateways run statements.
func (m *way8) load(t *testing.T, c *config, w *world, ddl *pgx.Conn, l *large8) {
	ctx := context.Background()
	per := l.ranges / l.regions
	stop, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var clients []*client8
	for i := range w.Len() {
		for kind := range kinds8 {
			conn, c := w.open(i, "d"), &client8{kind: kind, failed: map[string]int{}}
			clients = append(clients, c)
			region := (i + kind%2*l.regions/2) % l.regions
			wg.Go(func() {
				for n := 0; stop.Err() == nil; n++ {
					// Of the rows of a region's ranges the even ones are read, the others updated: half of the ranges by those that are near, half by others.
					k := 2 * (region*per + n%per)
					begin := time.Now()
					var err error
					if kind < 2 {
						_, err = read(conn, "SELECT n FROM t WHERE k = $1", k)
					} else {
						k = 2*(region*per+2*(n%(per/2))+kind%2) + 1
						_, err = conn.Exec(ctx, "UPDATE t SET n = n + 1 WHERE k = $1", k)
					}
					if err != nil {
						c.failed[state(err)]++
					}
					c.samples = append(c.samples, sample8{begin, time.Now()})
					time.Sleep(pause8)
				}
			})
		}
	}
	time.Sleep(max(8*time.Second, time.Duration(per)*600*time.Millisecond)) // gateways learn where ranges are
	warm := time.Now()
	for _, x := range changes8 {
		if l.columns && strings.HasSuffix(x.name, "INDEX") {
			continue
		}
		n, together, _ := w.waits()
		done := change8{name: x.name, begin: time.Now()}
		must(t, ddl, x.sql)
		done.end = time.Now()
		n1, together1, _ := w.waits()
		done.waited, done.together = n1-n, together1-together
		m.changes = append(m.changes, done)
		c.say("schema: %d regions, %d ranges, epsilon %v, %s: %s took %v", l.regions, l.ranges, l.epsilon, m.name, x.name, done.took().Round(time.Millisecond))
		time.Sleep(2 * time.Second)
	}
	_, _, m.wait = w.waits()
	cancel()
	wg.Wait()
	m.failed = map[string]int{}
	for _, c := range clients {
		m.count += len(c.samples)
		for k, n := range c.failed {
			m.failed[k] += n
		}
		calm := c.longest(func(s sample8) bool {
			return s.begin.After(warm) && !slices.ContainsFunc(m.changes, func(x change8) bool { return x.overlaps(s) })
		})
		m.calm[c.kind] = max(m.calm[c.kind], calm)
		for i := range m.changes {
			x := &m.changes[i]
			for _, s := range c.samples {
				if x.overlaps(s) {
					x.overlapping++
				}
			}
			x.longer[c.kind] = max(x.longer[c.kind], c.longest(x.overlaps)-calm)
		}
	}
}

// state is the SQLSTATE of an error.
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return err.Error()
}

// nextToOpen adds a column while a transaction at another node, which has read the table, stays open; and removes it.
func nextToOpen(t *testing.T, w *world, ddl *pgx.Conn, node int, writes bool) open8Result {
	ctx := context.Background()
	r := open8Result{what: "reads, and reads again"}
	if writes {
		r.what = "reads, and updates later"
	}
	tx := w.open(node, "d")
	must(t, tx, "BEGIN")
	if _, err := read(tx, "SELECT n FROM t WHERE k = 1"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		r.took = timed(func() { must(t, ddl, "ALTER TABLE t ADD COLUMN y int DEFAULT 7") })
	})
	time.Sleep(open8)
	sql := "SELECT n FROM t WHERE k = 1"
	if writes {
		sql = "UPDATE t SET n = n + 1 WHERE k = 1"
	}
	_, err := tx.Exec(ctx, sql)
	if err == nil {
		_, err = tx.Exec(ctx, "COMMIT")
	} else if _, err := tx.Exec(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if r.end = "commits"; err != nil {
		r.end = "fails: " + state(err)
	}
	wg.Wait()
	must(t, ddl, "ALTER TABLE t DROP COLUMN y")
	return r
}

// measure changes a table of a small cluster in the default mode, in the way that is the default there, which is that of two versions, and always at a registered time.
func (s *small8) measure(t *testing.T) {
	w := begin(t, zones(3), 1, s.epsilon, false)
	ddl := w.open(0, "d")
	w.fill(ddl, "t", 300, 100, 6)
	w.settle(3, "")
	time.Sleep(5 * time.Second)
	for i, setting := range []string{"always", "external"} {
		must(t, ddl, "SET CLUSTER SETTING sql.schema_change.registered = '"+setting+"'")
		time.Sleep(5 * time.Second)
		const rounds = 5
		for range rounds {
			for k, x := range changes8 {
				s.took[i][k] += timed(func() { must(t, ddl, x.sql) }) / rounds
				time.Sleep(time.Second)
			}
		}
		s.open[i] = nextToOpen(t, w, ddl, 1, true)
	}
}

func schemaOutcome(large []*large8, small []*small8) *outcome {
	var b strings.Builder
	var groups []plot.BarGroup
	for _, l := range large {
		fmt.Fprintf(&b, "**%d regions, a table of %d ranges, epsilon %v.** Waiting: statements that waited for the time of a version, and the mean wait. The last columns: by how much the longest statement of a client took longer, while the schema was changed and half a second "+
			"after, than the same client's longest one otherwise; the most over all clients.\n\n| | | took | statements meanwhile | waiting | mean wait | %s |\n|---|---|%s\n", l.regions, l.ranges, l.epsilon, strings.Join(kinds8[:], " | "), strings.Repeat("---:|", 4+len(kinds8)))
		for i, x := range l.ways[0].changes {
			g := plot.BarGroup{Label: fmt.Sprintf("%d regions, %v: %s", l.regions, l.epsilon, x.name)}
			for _, m := range l.ways {
				c := m.changes[i]
				fmt.Fprintf(&b, "| %s | %s | %.0f ms | %d | %d | %.1f ms |", c.name, m.name, milliseconds(c.took()), c.overlapping, c.waited, milliseconds(c.together)/float64(max(c.waited, 1)))
				for _, d := range c.longer {
					fmt.Fprintf(&b, " %.1f ms |", milliseconds(d))
				}
				b.WriteString("\n")
				g.Values = append(g.Values, milliseconds(max(c.longer[0], c.longer[1])))
			}
			groups = append(groups, g)
		}
		b.WriteString("\n| longest statements without a change | " + strings.Join(kinds8[:], " | ") + " |\n|---|" + strings.Repeat("---:|", len(kinds8)) + "\n")
		for _, m := range l.ways {
			fmt.Fprintf(&b, "| %s |", m.name)
			for _, d := range m.calm {
				fmt.Fprintf(&b, " %.1f ms |", milliseconds(d))
			}
			b.WriteString("\n")
		}
		b.WriteString("\nADD COLUMN next to a transaction at another node that has read the table, and stays open for 10 s:\n\n| the transaction | | ADD COLUMN took | the transaction |\n|---|---|---:|---|\n")
		for i := range l.ways[0].open {
			for _, m := range l.ways {
				o := m.open[i]
				fmt.Fprintf(&b, "| %s | %s | %.0f ms | %s |\n", o.what, m.name, milliseconds(o.took), o.end)
			}
		}
		b.WriteString("\n")
		for _, m := range l.ways {
			failures := ""
			total := 0
			for _, k := range slices.Sorted(maps.Keys(m.failed)) {
				failures += fmt.Sprintf(" (%d with %s)", m.failed[k], k)
				total += m.failed[k]
			}
			verdict(&b, fmt.Sprintf("%s: of %d statements %d failed%s; limit 0", m.name, m.count, total, failures), total == 0)
		}
		m, most := l.ways[0], 2*l.epsilon+allowance8
		verdict(&b, fmt.Sprintf("registered: the longest wait for a version took %.1f ms; limit 2 epsilon and %v: %v", milliseconds(m.wait), allowance8, most), m.wait <= most)
		longer := time.Duration(0)
		for _, c := range m.changes {
			longer = max(longer, c.longer[0], c.longer[1])
		}
		verdict(&b, fmt.Sprintf("registered: a read took at most %.1f ms longer than without a change; limit %v", milliseconds(longer), most), longer <= most)
		kept := true
		for _, o := range m.open {
			kept = kept && o.took < open8/2
		}
		verdict(&b, "registered: no transaction that stays open is waited for", kept)
		b.WriteString("\n")
	}
	b.WriteString("**Three zones, default mode, no load.** The mean of five; the last column is ADD COLUMN next to a transaction that stays open for 10 s, and then updates the table.\n\n| epsilon | |")
	for _, x := range changes8 {
		b.WriteString(" " + x.name + " |")
	}
	b.WriteString(" next to an open transaction | it |\n|---:|---|" + strings.Repeat("---:|", len(changes8)+1) + "---|\n")
	for _, s := range small {
		for i, way := range ways8 {
			fmt.Fprintf(&b, "| %v | %s |", s.epsilon, way.name)
			for _, d := range s.took[i] {
				fmt.Fprintf(&b, " %.1f ms |", milliseconds(d))
			}
			fmt.Fprintf(&b, " %.1f ms | %s |\n", milliseconds(s.open[i].took), s.open[i].end)
		}
	}
	names := []string{ways8[0].name, ways8[1].name}
	return &outcome{table: b.String(), svg: plot.Bars("By how much reads took longer while a schema was changed", "ms, the most over all clients", names, groups)}
}
