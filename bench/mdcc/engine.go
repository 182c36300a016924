package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/server"
	"meridian/sim/simcluster"
)

func itoa(n int) string { return strconv.Itoa(n) }

// engine is a cluster of Meridian with one node in each region.
type engine struct {
	name string
	// reading has updates of stocks read the value, so that they do not commute.
	reading bool
	// ballots is the table of items' policy, fast_paxos_ballots.
	ballots string
	// placed has the leaseholders of each region's items there: masters that keep their records are where a range's leaseholder is.
	placed bool
	// schema has statements that make further tables.
	schema, tables []string
	// check selects items, their stocks, and how many were ordered by what the tables say; empty: there are no orders.
	check string
	// lost is a region that receives no message from some moment of the measurement on; -1: none is lost.
	lost   int
	lostAt time.Duration
}

// mdcc and fast are the two ways of buying on tables of the protocol fast_paxos.
func mdcc() *engine { return &engine{name: "MDCC", ballots: "fast", lost: -1} }

func fast() *engine { return &engine{name: "Fast", ballots: "fast", lost: -1, reading: true} }

// policy is fast with other ballots, and masters in each region.
func policy(name, ballots string) *engine {
	return &engine{name: name, ballots: ballots, lost: -1, reading: true, placed: true}
}

// must runs a statement.
func must(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// open connects to a node's database until the test ends.
func open(t *testing.T, c *simcluster.Cluster, node int, database string) *pgx.Conn {
	t.Helper()
	conn, err := c.Connect(context.Background(), node, database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// measure runs clients in a cluster of its own.
func (e *engine) measure(t *testing.T, c *config, l *load) *results {
	r := &results{name: e.name, clients: l.clients, duration: l.measured}
	begin := time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(200))
	bubble(t, strings.ReplaceAll(e.name, " ", "_"), func(t *testing.T) {
		c.say("%s: the cluster starts", e.name)
		cl := simcluster.Start(t, simcluster.Options{Regions: ec2(), NodesPerRegion: 1, MaxOffset: 250 * time.Millisecond,
			Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
		e.prepare(t, c, cl, l)
		c.say("%s: %d clients", e.name, l.clients)
		r.list = e.run(t, c, cl, l)
	})
	r.say(c, begin)
	return r
}

// prepare makes the tables.
func (e *engine) prepare(t *testing.T, c *config, cl *simcluster.Cluster, l *load) {
	conn := open(t, cl, 0, "defaultdb")
	must(t, conn, "CREATE DATABASE shop")
	must(t, conn, "ALTER DATABASE shop CONFIGURE ZONE USING num_replicas = 5")
	conn = open(t, cl, 0, "shop")
	// Rows come in while the table has a leader: that is faster, and the records begin without any state of the protocol.
	create := "CREATE TABLE item (i_id int PRIMARY KEY, i_stock int NOT NULL CHECK (i_stock >= 0), i_title text, i_cost int)"
	if e.placed {
		create += e.partitions(l)
	}
	must(t, conn, create)
	if e.placed {
		for region, name := range ec2().Names {
			must(t, conn, fmt.Sprintf("ALTER PARTITION p%d OF TABLE item CONFIGURE ZONE USING num_replicas = 5, lease_preferences = '[[+region=%s]]'", region, name))
		}
	}
	const batch = 500
	for first := 0; first < l.items; first += batch {
		var b strings.Builder
		for i := first; i < min(first+batch, l.items); i++ {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "(%d, %d, 'title %d', %d)", i, l.stock(i), i, 100+i%900)
		}
		must(t, conn, "INSERT INTO item VALUES "+b.String())
	}
	c.say("%s: %d items", e.name, l.items)
	for i := 1; i < l.shards && !e.placed; i++ { // partitions have ranges of their own
		must(t, conn, fmt.Sprintf("ALTER TABLE item SPLIT AT VALUES (%d)", i*l.items/l.shards))
	}
	must(t, conn, fmt.Sprintf("ALTER TABLE item SET (commit_protocol = 'fast_paxos', fast_paxos_ballots = '%s')", e.ballots))
	for _, sql := range e.schema {
		must(t, conn, sql)
	}
	time.Sleep(10 * time.Second)
	// Each node looks at each table once. The first write to a range whose protocol a node does not know takes more rounds.
	for node := range cl.Machines {
		conn := open(t, cl, node, "shop")
		for _, table := range append([]string{"item"}, e.tables...) {
			must(t, conn, "SELECT count(*) FROM "+table)
		}
	}
}

// partitions are of the items whose masters are in one region.
func (e *engine) partitions(l *load) string {
	var b strings.Builder
	each := l.items / dataCentres
	for region := range dataCentres {
		fmt.Fprintf(&b, ", PARTITION p%d VALUES FROM (%d) TO (%d)", region, region*each, (region+1)*each)
	}
	return " PARTITION BY RANGE (i_id) (" + b.String()[2:] + ")"
}

// longestAttempt is after which time a transaction that has not ended fails the program. Chosen by us: nothing should take that long.
const longestAttempt = time.Minute

// run measures, and compares the stocks in the end.
func (e *engine) run(t *testing.T, c *config, cl *simcluster.Cluster, l *load) []sample {
	ctx := context.Background()
	book := newLedger()
	regions := ec2()
	var wg sync.WaitGroup
	start := time.Now().Add(l.warm)
	for client := range l.clients {
		region := l.regionOf(client)
		conn := open(t, cl, region, "shop")
		wg.Add(1)
		go func() {
			defer wg.Done()
			dice := rand.New(rand.NewPCG(5, uint64(client)))
			src := l.source(client, region)
			for time.Since(start) < l.measured {
				tx := src.next(dice)
				begin := time.Now()
				s := sample{kind: tx.kind, region: regions.Names[region]}
				for {
					limited, cancel := context.WithTimeout(ctx, longestAttempt)
					err := e.execute(limited, conn, tx)
					cancel()
					if s.verdict = verdictOf(err); s.verdict < 0 {
						t.Errorf("%s: %v", tx.kind, err)
						return
					}
					book.note(tx, s.verdict)
					if s.verdict != aborted || s.retries >= l.retries {
						break
					}
					s.retries++
					time.Sleep(rest(dice, s.retries))
				}
				s.end, s.latency = time.Since(start), time.Since(begin)
				if len(tx.updates) > 0 && !begin.Before(start) {
					book.sample(s)
				}
			}
		}()
	}
	if e.lost >= 0 {
		time.Sleep(time.Until(start.Add(e.lostAt)))
		for i, m := range cl.Machines {
			if i != e.lost {
				cl.Network.PartitionOneWay(m.Name, cl.Machines[e.lost].Name)
			}
		}
	}
	wg.Wait()
	if t.Failed() {
		return nil
	}
	e.compare(t, cl, l, book)
	slices.SortStableFunc(book.list, func(x, y sample) int { return cmp.Compare(x.end, y.end) })
	return book.list
}

// execute runs one attempt of a transaction.
func (e *engine) execute(ctx context.Context, conn *pgx.Conn, tx *transaction) error {
	for _, q := range tx.reads {
		rows, err := conn.Query(ctx, q.sql, q.args...)
		if err != nil {
			return err
		}
		for rows.Next() {
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	if len(tx.updates) == 0 {
		return nil
	}
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	for _, u := range tx.updates {
		sql, suffix := u.sql, ""
		if strings.Contains(sql, "%s") {
			if e.reading {
				suffix = " RETURNING i_stock"
			}
			sql = fmt.Sprintf(sql, suffix)
		}
		tag, err := conn.Exec(ctx, sql, u.args...)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%s: %d rows", sql, tag.RowsAffected())
		}
		if err != nil {
			if _, undone := conn.Exec(ctx, "ROLLBACK"); undone != nil {
				return undone
			}
			return err
		}
	}
	_, err := conn.Exec(ctx, "COMMIT")
	return err
}

// verdictOf tells what an error of a transaction says; below zero: it should not have happened.
func verdictOf(err error) verdict {
	var e *pgconn.PgError
	switch {
	case err == nil:
		return committed
	case !errors.As(err, &e):
		return -1
	case e.Code == "40001" || e.Code == "40P01":
		return aborted
	case e.Code == "23514":
		return refused
	case e.Code == "40003":
		return unknown
	}
	return -1
}

// compare reads all stocks in all regions. In the end each of them is the initial one without what was sold.
func (e *engine) compare(t *testing.T, cl *simcluster.Cluster, l *load, book *ledger) {
	t.Helper()
	ctx := context.Background()
	for node := range cl.Machines {
		if node == e.lost {
			continue
		}
		conn := open(t, cl, node, "shop")
		var wrong string
		for range 30 {
			if wrong = e.differs(ctx, conn, l, book); wrong == "" {
				break
			}
			// Outcomes are told to replicas after clients.
			time.Sleep(time.Second)
		}
		if wrong != "" {
			t.Fatalf("%s, in %s: %s", e.name, cl.Machines[node].Region, wrong)
		}
	}
}

// differs tells about one stock that is not as it has to be.
func (e *engine) differs(ctx context.Context, conn *pgx.Conn, l *load, book *ledger) string {
	sql := "SELECT i_id, i_stock, -1 FROM item"
	if e.check != "" {
		sql = e.check
	}
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id, stock, ordered int
		if err := rows.Scan(&id, &stock, &ordered); err != nil {
			return err.Error()
		}
		if wrong := book.wrong(id, l.stock(id), stock); wrong != "" {
			return wrong
		}
		if ordered >= 0 && stock+ordered != l.stock(id) {
			return fmt.Sprintf("%d of item %d are left of %d, %d were ordered", stock, id, l.stock(id), ordered)
		}
		n++
	}
	if err := rows.Err(); err != nil {
		return err.Error()
	}
	if n != l.items {
		return fmt.Sprintf("%d items of %d", n, l.items)
	}
	return ""
}

// wrong compares a stock with what was sold; empty: it is as it has to be.
func (l *ledger) wrong(item, initial, stock int) string {
	most := initial - l.sold[item]
	if stock < 0 || stock > most || stock < most-l.doubtful[item] {
		return fmt.Sprintf("%d of item %d are left of %d, %d were sold and perhaps %d more", stock, item, initial, l.sold[item], l.doubtful[item])
	}
	return ""
}
