package comparison

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster"
)

// lockCase is a statement that locks rows, while another session may hold some of them, or changes them while the statement waits.
type lockCase struct {
	schema []string
	// held are statements of a session that keeps its transaction open; if waits, it commits when the statement waits for it.
	held  []string
	waits bool
	// again: the answer is compared with that to the same statement, once more.
	again  bool
	locks  string
	tables []string
}

// lockDice draws lockCases. Each query has one right answer and one right set of locks: a LIMIT comes with a total order.
type lockDice struct {
	r *rand.Rand
	// one: the rows of one table only are locked.
	one bool
}

func (d *lockDice) pick(s ...string) string    { return s[d.r.IntN(len(s))] }
func (d *lockDice) chance(percent int) bool    { return d.r.IntN(100) < percent }
func (d *lockDice) sub(f string, n int) string { return fmt.Sprintf(f, d.r.IntN(n)) }

func (d *lockDice) schema() []string {
	out := []string{
		"CREATE TABLE t (id int PRIMARY KEY, a int, b int, s text)",
		"CREATE TABLE u (id int PRIMARY KEY, tid int, c int)",
	}
	for _, ix := range []string{"t (a)", "t (b, id)", "t (a, b)", "t (s)", "t (b DESC, a)", "u (tid)", "u (c, tid)"} {
		if d.chance(35) {
			out = append(out, "CREATE INDEX ON "+ix)
		}
	}
	var ts, us []string
	for i := 1; i <= 12; i++ {
		ts = append(ts, fmt.Sprintf("(%d, %d, %d, 's%d')", i, d.r.IntN(3), d.r.IntN(6), d.r.IntN(5)))
		us = append(us, fmt.Sprintf("(%d, %d, %d)", i, 1+d.r.IntN(12), d.r.IntN(4)))
	}
	return append(out, "INSERT INTO t VALUES "+strings.Join(ts, ", "), "INSERT INTO u VALUES "+strings.Join(us, ", "))
}

// condition is about the table t, perhaps under another name.
func (d *lockDice) condition(t string) string {
	one := func() string {
		switch d.r.IntN(8) {
		case 0:
			return t + d.sub(".a = %d", 3)
		case 1:
			return t + d.sub(".b < %d", 7)
		case 2:
			return t + d.sub(".s = 's%d'", 5)
		case 3:
			return t + d.sub(".id > %d", 12)
		case 4:
			return t + d.sub(".id IN (1, 3, 5, 7, %d)", 13)
		case 5:
			return t + d.sub(".b BETWEEN 1 AND %d", 6)
		case 6:
			return t + d.sub(".a + "+t+".b > %d", 7)
		}
		return t + d.sub(".s <> 's%d'", 5)
	}
	out := one()
	for d.chance(40) {
		out += d.pick(" AND ", " AND ", " OR ") + one()
	}
	return "(" + out + ")"
}

func (d *lockDice) clause(wait string) string {
	return " FOR " + d.pick("UPDATE", "UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE") + wait
}

func (d *lockDice) order(t string) string {
	return " ORDER BY " + d.pick(t+".b DESC, ", t+".a, ", t+".s, ", t+".a + "+t+".b, ", "", t+".b, "+t+".a DESC, ") + t + ".id"
}

func (d *lockDice) limit() string {
	switch d.r.IntN(4) {
	case 0:
		return d.sub(" LIMIT %d", 6)
	case 1:
		return d.sub(" LIMIT %d", 5) + d.sub(" OFFSET %d", 4)
	case 2:
		return d.sub(" OFFSET %d", 4)
	}
	return " LIMIT 1"
}

// query is a query that locks rows; wait is its clause for rows that others have locked.
func (d *lockDice) query(wait string) string {
	switch d.r.IntN(12) {
	case 0, 1, 2, 3: // a table
		q := "SELECT id, " + d.pick("a", "b, s", "a + b AS x", "*") + " FROM t WHERE " + d.condition("t")
		if d.chance(20) {
			q = "SELECT id, a, s FROM t"
		}
		q += d.order("t")
		if d.chance(70) {
			q += d.limit()
		}
		return q + d.clause(wait)
	case 4, 5: // a join
		of := d.pick("", " OF t", " OF u", " OF t, u")
		if d.one {
			of = " OF t"
		}
		q := "SELECT t.id, u.id, t.b, u.c FROM t JOIN u ON u.tid = t.id WHERE " + d.condition("t")
		if d.chance(40) {
			q += d.sub(" AND u.c = %d", 4)
		}
		if d.chance(25) {
			q = "SELECT t.id, u.id, t.b FROM t LEFT JOIN u ON u.tid = t.id" + d.sub(" AND u.c > %d", 4) + " WHERE " + d.condition("t")
			of = " OF t"
		}
		q += d.order("t") + ", u.id"
		if d.chance(60) {
			q += d.limit()
		}
		c := d.clause("")
		return q + c + of + wait
	case 6: // conditions with queries
		q := "SELECT id, b FROM t WHERE " + d.pick("EXISTS (SELECT 1 FROM u WHERE u.tid = t.id"+d.sub(" AND u.c < %d)", 5),
			"id IN (SELECT tid FROM u"+d.sub(" WHERE c <> %d)", 4), "b >= (SELECT min(c) FROM u)", "id NOT IN (SELECT tid FROM u)") + " AND " + d.condition("t")
		return q + d.order("t") + d.pick("", d.limit()) + d.clause(wait)
	case 7: // a query in FROM that locks
		inner := "SELECT id, a, b, s FROM t WHERE " + d.condition("t")
		if d.chance(50) {
			inner += d.order("t") + d.limit()
		}
		q := d.pick("SELECT max(id), min(b) FROM (%s) q", "SELECT count(*) FROM (%s) q", "SELECT sum(a) FROM (%s) q WHERE b > 1", "SELECT id FROM (%s) q WHERE a = 1 ORDER BY id",
			"SELECT q.id, u.id FROM (%s) q JOIN u ON u.tid = q.id ORDER BY 1, 2")
		return fmt.Sprintf(q, inner+d.clause(wait))
	case 8: // a query in FROM that is locked from outside
		inner := "SELECT id, a, b + 1 AS x FROM t WHERE " + d.condition("t")
		if d.chance(50) {
			inner += d.order("t") + d.limit()
		}
		return "SELECT id, x FROM (" + inner + ") q WHERE " + d.sub("x > %d", 6) + " ORDER BY " + d.pick("x DESC, ", "a, ", "") + "id" + d.pick("", d.limit()) + d.clause(wait)
	case 9: // WITH
		inner := "SELECT id, a, b FROM t WHERE " + d.condition("t") + d.order("t") + d.pick("", d.limit()) + d.clause(wait)
		return "WITH c AS (" + inner + ") " + d.pick("SELECT max(id) FROM c", "SELECT id FROM c WHERE a = 1 ORDER BY id", "SELECT 1", "SELECT count(*) FROM c", "SELECT c.id FROM c JOIN u ON u.tid = c.id ORDER BY c.id, u.id",
			"SELECT id FROM u WHERE EXISTS (SELECT 1 FROM c WHERE c.id = u.tid AND c.a >= 0) ORDER BY id")
	case 10: // parentheses, names
		return "(SELECT x.id, x.b FROM t AS x WHERE " + d.condition("x") + d.order("x") + ")" + d.limit() + d.clause(wait)
	}
	// a subquery as a value, as job queues have it
	return "SELECT id, c FROM u WHERE tid = (SELECT id FROM t WHERE " + d.condition("t") + d.order("t") + " LIMIT 1" + d.clause(wait) + ") ORDER BY id"
}

func (d *lockDice) draw() lockCase {
	c := lockCase{schema: d.schema(), tables: []string{"t", "u"}}
	switch {
	case d.chance(20): // changes
		c.locks = d.pick("UPDATE t SET b = b + 1 WHERE ", "DELETE FROM t WHERE ") + d.condition("t") + " RETURNING id, b"
		c.locks = "WITH c AS (" + c.locks + ") SELECT id, b FROM c ORDER BY id"
	case d.chance(55):
		c.held = []string{"SELECT id FROM t WHERE " + d.condition("t") + d.clause("")}
		if d.chance(30) {
			c.held = append(c.held, "SELECT id FROM u WHERE"+d.sub(" c = %d", 4)+d.clause(""))
		}
		c.locks = d.query(d.pick(" SKIP LOCKED", " SKIP LOCKED", " NOWAIT"))
	default:
		c.locks = d.query("")
	}
	return c
}

// lockServer is one of the two servers with its sessions: one that holds locks, one that locks, and one that looks which rows are free.
type lockServer struct {
	holder, locker, looker *pgconn.PgConn
	// waiting reports whether the locker waits for a lock.
	waiting func(ctx context.Context) bool
}

func exec(ctx context.Context, conn *pgconn.PgConn, sql string) (answer, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	var a answer
	for _, r := range results {
		rows := make([]string, len(r.Rows))
		for i, v := range r.Rows {
			rows[i] = text(v)
		}
		a.rows += "[" + strings.Join(rows, "; ") + "]"
		a.tag += r.CommandTag.String()
	}
	if err != nil {
		var pe *pgconn.PgError
		if !errors.As(err, &pe) {
			return a, fmt.Errorf("%s: %w", sql, err)
		}
		a.code, a.message = pe.Code, pe.Message
	}
	return a, nil
}

// run answers with what the locker sees, and then, for each table, with the rows that are free for FOR UPDATE and for FOR KEY SHARE.
func (s *lockServer) run(ctx context.Context, c lockCase) (out []string, err error) {
	do := func(conn *pgconn.PgConn, sql string) (a answer) {
		if err == nil {
			a, err = exec(ctx, conn, sql)
		}
		return a
	}
	for _, conn := range []*pgconn.PgConn{s.holder, s.locker, s.looker} {
		do(conn, "ROLLBACK; SET client_min_messages = error; SET default_transaction_isolation = 'read committed'; SET search_path = scratch")
	}
	do(s.looker, "DROP SCHEMA IF EXISTS scratch CASCADE; CREATE SCHEMA scratch")
	for _, sql := range c.schema {
		if a := do(s.looker, sql); a.code != "" {
			return nil, fmt.Errorf("%s: %s", sql, a.message)
		}
	}
	do(s.holder, "BEGIN")
	for _, sql := range c.held {
		if a := do(s.holder, sql); a.code != "" {
			return nil, fmt.Errorf("%s: %s", sql, a.message)
		}
	}
	do(s.locker, "BEGIN")
	if err != nil {
		return nil, err
	}
	if c.waits {
		var a answer
		var failed error
		done := make(chan struct{})
		go func() {
			defer close(done)
			a, failed = exec(ctx, s.locker, c.locks)
		}()
		for ended := false; !ended && !s.waiting(ctx); {
			select {
			case <-done:
				ended = true
			default:
			}
		}
		waited := true
		select {
		case <-done:
			waited = false
		default:
		}
		do(s.holder, "COMMIT")
		<-done
		if failed != nil {
			return nil, failed
		}
		if c.again && !waited {
			return nil, err
		}
		if c.again {
			return []string{a.String()}, err
		}
		out = append(out, a.String())
	} else {
		a := do(s.locker, c.locks)
		if out = append(out, a.rows); a.code != "" {
			out[0] = a.code + " " + a.message
			return out, err // its transaction has ended
		}
	}
	for _, t := range c.tables {
		for _, strength := range []string{"UPDATE", "SHARE", "KEY SHARE"} {
			a := do(s.looker, "SELECT id FROM "+t+" ORDER BY id FOR "+strength+" SKIP LOCKED")
			out = append(out, t+" free for "+strength+": "+a.code+a.rows)
		}
	}
	do(s.locker, "ROLLBACK")
	do(s.holder, "ROLLBACK")
	return out, err
}

// lockCases and waitCases are how many cases TestLocks and TestLocksAfterWaits run; MERIDIAN_LOCKS=2000 runs so many, and MERIDIAN_SEED=k begins at
// another one.
const lockCases, waitCases = 120, 60

func casesWanted(t *testing.T, n int) int {
	if s := os.Getenv("MERIDIAN_LOCKS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// drawWait draws a statement that waits for rows while another session changes them.
func (d *lockDice) drawWait() lockCase {
	c := lockCase{schema: d.schema(), tables: []string{"t", "u"}, waits: true}
	d.one = true // of a row that is gone, PostgreSQL does not lock the other tables' rows; here they are locked at the same time
	some := "t" + d.pick(".id IN (1, 2, 3, 4)", ".a = 1", ".b > 2", ".id > 6")
	c.held = []string{"DELETE FROM t WHERE " + some}
	if d.chance(50) {
		// PostgreSQL returns the rows in the order that their former values have, and none that match only now.
		c.again = true
		c.held = []string{d.pick("UPDATE t SET b = b + 2 WHERE ", "UPDATE t SET s = 's1', a = 2 WHERE ", "UPDATE t SET a = 1 - a, b = 0 WHERE ") + some}
	}
	c.locks = d.query("")
	return c
}

// TestLocksAfterWaits is TestLocks for rows that have changed when their locks are there: they are looked at again.
func TestLocksAfterWaits(t *testing.T) {
	// Case 1286: the first point that LIMIT lets through is gone when its lock is there, and no more than the next one may be locked.
	compareLocks(t, casesWanted(t, waitCases), func(d *lockDice) lockCase { return d.drawWait() }, 1286)
}

// TestLocks compares which rows a statement locks, and which it returns, as other sessions see it.
func TestLocks(t *testing.T) {
	compareLocks(t, casesWanted(t, lockCases), func(d *lockDice) lockCase { return d.draw() })
}

// compareLocks runs n cases, and those that are named.
func compareLocks(t *testing.T, n int, draw func(*lockDice) lockCase, named ...int) {
	conns := postgresSessions(t, 3)
	pg := lockServer{holder: conns[0], locker: conns[1], looker: conns[2]}
	pg.waiting = func(ctx context.Context) bool {
		a, err := exec(ctx, pg.looker, fmt.Sprintf("SELECT pg_blocking_pids(%d) <> '{}'", pg.locker.PID()))
		return err != nil || a.rows == "[t]"
	}
	first := 0
	if s := os.Getenv("MERIDIAN_SEED"); s != "" {
		var err error
		if first, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	var numbers []int
	for i := range n {
		numbers = append(numbers, first+i)
	}
	numbers = append(numbers, named...)
	cases := make([]lockCase, len(numbers))
	want := make([][]string, len(numbers))
	for i := range cases {
		cases[i] = draw(&lockDice{r: rand.New(rand.NewPCG(uint64(numbers[i]), 31))})
		if cases[i].again {
			continue
		}
		var err error
		if want[i], err = pg.run(t.Context(), cases[i]); err != nil {
			t.Fatalf("PostgreSQL, case %d: %v", numbers[i], err)
		}
	}
	differ, again := 0, 0
	synctest.Test(t, func(t *testing.T) {
		cl := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1})
		ctx := t.Context()
		var s lockServer
		for _, at := range []**pgconn.PgConn{&s.holder, &s.locker, &s.looker} {
			c, err := cl.Connect(ctx, 0, "defaultdb")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(ctx)
			*at = c.PgConn()
		}
		s.waiting = func(context.Context) bool { time.Sleep(5 * time.Second); return true }
		for i, c := range cases {
			got, err := s.run(ctx, c)
			if err != nil {
				t.Fatalf("case %d: %v", numbers[i], err)
			}
			if c.again && got == nil {
				continue
			}
			if c.again {
				again++
				a, err := exec(ctx, s.locker, c.locks)
				if err != nil {
					t.Fatalf("case %d: %v", numbers[i], err)
				}
				want[i] = []string{a.String()}
			}
			for j := range want[i] {
				if j >= len(got) || got[j] != want[i][j] {
					differ++
					t.Errorf("case %d:\n  %s;\n  held: %s\n  %s\n  PostgreSQL %s\n  Meridian   %s", numbers[i], strings.Join(c.schema, ";\n  "), strings.Join(c.held, "; "), c.locks,
						strings.Join(want[i], "\n             "), strings.Join(got, "\n             "))
					break
				}
			}
		}
	})
	t.Logf("%d of %d cases differ; %d were asked again", differ, len(cases), again)
}
