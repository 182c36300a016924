package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/history"
	"meridian/sim/fault"
)

// The answers that clients of TestFastPaxosCampaign get about single rows: counts, numbers, duplicates, and how old the rows are that they read.

const (
	freshRows  = 6               // of a table, for all clients
	quietRows  = 4               // more, which nobody but the client writes whose gateways die
	freshNewer = 100             // keys of the history between two tables' rows
	calm       = 3 * time.Second // for which the ways of a read's gateway have to have been whole for its bound to be checked
)

// freshTables are made one after the other while the campaign runs; all clients use the last two.
type freshTables struct {
	rows, names history.Rows // names: a row for each name

	mu      sync.Mutex // guards what follows
	made    []string   // empty: the client does not know that it was
	longest map[string]time.Duration
	judged  int // reads whose bound is checked
	killed  int // gateways with their answer
}

// any draws a table, and its number; zero: there is none.
func (f *freshTables) any(dice *rand.Rand) (name string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n = len(f.made); n > 1 && dice.IntN(3) == 0 {
		n--
	}
	if n == 0 || f.made[n-1] == "" {
		return "", 0
	}
	return f.made[n-1], n
}

// took notes how long a statement took.
func (f *freshTables) took(what string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.longest == nil {
		f.longest = map[string]time.Duration{}
	}
	f.longest[what] = max(f.longest[what], d.Round(time.Millisecond))
}

// make makes the next table.
func (k *fastCampaign) makeFresh(cl *client, with string) {
	k.fresh.mu.Lock()
	k.fresh.made = append(k.fresh.made, "")
	n := len(k.fresh.made)
	k.fresh.mu.Unlock()
	name := fmt.Sprintf("fresh%d", n)
	limit := cl.limit
	defer func() { cl.limit = limit }()
	cl.limit = time.Minute
	begun := time.Now()
	how, note := cl.do("fresh table", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE TABLE "+name+" (id int PRIMARY KEY, n int NOT NULL)"+with)
		return err
	})
	k.say("%s after %s: %d %s", name, time.Since(begun), how, note)
	if how == history.OK {
		k.fresh.mu.Lock()
		k.fresh.made[n-1] = name
		k.fresh.mu.Unlock()
		k.fresh.took("CREATE TABLE", time.Since(begun))
	}
}

// freshStep is one statement on a fresh table.
func (k *fastCampaign) freshStep(cl *client) {
	table, n := k.fresh.any(cl.dice)
	if n == 0 {
		time.Sleep(50 * time.Millisecond)
		return
	}
	id := cl.dice.IntN(freshRows)
	if cl.other == nil {
		cl.other = &client{k: cl.k, id: cl.id + 100, dice: cl.dice, limit: cl.limit, explain: cl.explain}
	}
	how := history.Failed
	switch d := cl.dice.IntN(20); {
	case d < 6:
		how = k.freshWrite(cl, n, history.RowInsert, id, id, fmt.Sprintf("INSERT INTO %s VALUES (%d, 0)", table, id))
	case d < 9:
		how = k.freshWrite(cl, n, history.RowUpdate, id, id, fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = %d", table, id))
	case d < 13:
		how = k.freshDecide(cl, n, table, id)
	case d < 15:
		how = k.freshWrite(cl, n, history.RowDelete, id, id, fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id))
	case d < 17:
		how = k.freshUpsert(cl, n, table, id)
	default:
		k.freshRead(cl, n, table)
	}
	if how == history.OK && cl.dice.IntN(2) == 0 { // another client hears of the answer, and acts at another gateway at once
		k.freshDecide(cl.other, n, table, id)
	}
}

// freshDecide is a statement that finds its rows by a filter, or in a range.
func (k *fastCampaign) freshDecide(cl *client, n int, table string, id int) history.Outcome {
	to := min(id+2, freshRows-1)
	switch cl.dice.IntN(3) {
	case 0:
		return k.freshWrite(cl, n, history.RowUpdate, id, id, fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = %d AND n >= 0 RETURNING id, n", table, id))
	case 1:
		return k.freshWrite(cl, n, history.RowDelete, id, to, fmt.Sprintf("DELETE FROM %s WHERE id BETWEEN %d AND %d RETURNING id, n", table, id, to))
	}
	return k.freshWrite(cl, n, history.RowUpdate, id, to, fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id BETWEEN %d AND %d RETURNING id, n", table, id, to))
}

func (k *fastCampaign) freshUpsert(cl *client, n int, table string, id int) history.Outcome {
	return k.freshWrite(cl, n, history.RowUpsert, id, id, fmt.Sprintf("INSERT INTO %s AS f VALUES (%d, 0) ON CONFLICT (id) DO UPDATE SET n = f.n + 1 RETURNING id, n", table, id))
}

// freshWrite is a statement on the rows from one to another, and what its client was told of each.
func (k *fastCampaign) freshWrite(cl *client, table int, kind history.RowKind, from, to int, q string) history.Outcome {
	begun := k.now2()
	var ops []*history.RowOp
	for id := from; id <= to; id++ {
		o := history.RowOp{Client: cl.id, Key: table*freshNewer + id, Kind: kind, Number: history.Untold, Call: begun}
		if kind == history.RowInsert {
			o.Number = 0
		}
		ops = append(ops, k.fresh.rows.Begin(o))
	}
	told := map[int]int64{}
	duplicate := false
	how, note := cl.do("fresh "+[...]string{"insert", "update", "delete", "upsert"}[kind], func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, q)
		if err != nil {
			return err
		}
		for rows.Next() {
			var id int
			var n int64
			if err := rows.Scan(&id, &n); err != nil {
				return err
			}
			told[id] = n
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			var pg *pgconn.PgError
			duplicate = errors.As(err, &pg) && pg.Code == "23505"
			return err
		}
		if n := int(rows.CommandTag().RowsAffected()); len(told) == 0 && n > 0 && from == to {
			told[from] = history.Untold
		} else if n != len(told) {
			k.problem("%s: %s, and %d rows were told", q, rows.CommandTag(), len(told))
		}
		return nil
	})
	at := k.now2()
	if how != history.Unknown { // a gateway that has lost its power does not say so
		k.fresh.took(q[:6], at-begun)
	}
	for i, o := range ops {
		number, there := told[from+i]
		switch {
		case duplicate:
			k.fresh.rows.OK(o, 0, 0, at)
		case how == history.OK && there:
			k.fresh.rows.OK(o, 1, number, at)
		case how == history.OK:
			k.fresh.rows.OK(o, 0, history.Untold, at)
		case how == history.Failed:
			k.fresh.rows.Failed(o, note)
		default:
			k.fresh.rows.Unknown(o, note)
		}
	}
	k.say("client %d: %s: %d %v %s", cl.id, q, how, told, note)
	return how
}

// freshRead reads a table at the default level: what a client had an answer for StalenessMost and a round trip ago is there, if the gateway's ways were whole.
func (k *fastCampaign) freshRead(cl *client, table int, name string) {
	if cl.connect() != nil {
		return
	}
	at := cl.at
	within := fastpaxos.StalenessMost + k.farthest(at)
	begun := k.now2()
	var ops []*history.RowOp
	for id := range freshRows + quietRows {
		ops = append(ops, k.fresh.rows.Begin(history.RowOp{Client: cl.id, Key: table*freshNewer + id, Kind: history.RowRead, Within: within, Call: begun, Note: k.c.Machines[at].Name}))
	}
	found := map[int]int64{}
	how, note := cl.do("fresh read", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT id, n FROM "+name)
		if err != nil {
			return err
		}
		for rows.Next() {
			var id int
			var n int64
			if err := rows.Scan(&id, &n); err != nil {
				return err
			}
			found[id] = n
		}
		return rows.Err()
	})
	ended := k.now2()
	whole := k.ways.whole(k.c.Names(), k.c.Machines[at].Name, k.mayLack, begun-calm)
	if how == history.OK && whole {
		k.fresh.mu.Lock()
		k.fresh.judged++
		k.fresh.mu.Unlock()
	}
	k.say("client %d reads %s at %s: %d %v %s, judged: %v", cl.id, name, k.c.Machines[at].Name, how, found, note, whole)
	for id, o := range ops {
		n, there := found[id]
		switch {
		case how != history.OK || !whole:
			k.fresh.rows.Failed(o, note)
		case there:
			k.fresh.rows.OK(o, 1, n, ended)
		default:
			k.fresh.rows.OK(o, 0, history.Untold, ended)
		}
	}
}

// listSession is what one session has read of the lists, while they have one protocol.
type listSession struct {
	conn *pgx.Conn
	era  int64
	seen map[int]string
}

// readLists reads the lists, or one of them, at the default level: all that the session has read before, in the same order, and each transaction that was answered StalenessMost and a round trip ago, if the gateway's
// ways were whole.
func (k *fastCampaign) readLists(cl *client, s *listSession) {
	if cl.dice.IntN(30) == 0 {
		cl.close()
	}
	if cl.connect() != nil {
		return
	}
	at, begun, era := k.c.Machines[cl.at].Name, k.now2(), k.listsEra.Load()
	before := begun - fastpaxos.StalenessMost - k.farthest(cl.at)
	if s.conn != cl.conn || s.era != era {
		*s = listSession{cl.conn, era, map[int]string{}}
	}
	q := "SELECT id, v FROM lists"
	if cl.dice.IntN(2) == 0 {
		q += fmt.Sprintf(" WHERE id = %d", anyList(cl.dice))
	}
	found := map[int]string{}
	if how, _ := cl.do("read of lists", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, q)
		if err != nil {
			return err
		}
		for rows.Next() {
			var id int
			var v string
			if err := rows.Scan(&id, &v); err != nil {
				return err
			}
			found[id] = v
		}
		return rows.Err()
	}); how != history.OK {
		return
	}
	k.listsRead.Add(1)
	if k.ways.whole(k.c.Names(), at, k.mayLack, begun-calm) {
		k.listsJudged.Add(1)
		there := map[int]map[string]bool{}
		for id, v := range found {
			there[id] = map[string]bool{}
			for _, f := range strings.Fields(v) {
				there[id][f] = true
			}
		}
		k.mu.Lock()
		for _, a := range k.appends {
			for _, l := range a.lists {
				if a.how == history.OK && a.answered < before && there[l] != nil && !there[l][fmt.Sprint(a.id)] {
					k.problem("client %d reads %q at %s, at %v, and not %d of list %d, which was answered at %v (%s)", cl.id, q, at, begun, a.id, l, a.answered, a.note)
				}
			}
		}
		k.mu.Unlock()
	}
	if era%2 == 1 || k.listsEra.Load() != era {
		s.conn = nil // what is read under another protocol is not compared
		return
	}
	for id, v := range found {
		if !strings.HasPrefix(v, s.seen[id]) {
			k.problem("client %d reads %q at %s, at %v: list %d is %q, and was %q before in the same session", cl.id, q, at, begun, id, v, s.seen[id])
		}
		s.seen[id] = v
	}
}

// kill writes a row through a gateway that dies with its answer, and comes back. Others look for the row meanwhile.
func (k *fastCampaign) kill(cl *client) {
	time.Sleep(time.Duration(cl.dice.IntN(2000)) * time.Millisecond)
	table, n := k.fresh.any(cl.dice)
	if n == 0 {
		return
	}
	cl.close()
	if cl.connect() != nil {
		return
	}
	i, id, how := cl.at, freshRows+cl.dice.IntN(quietRows), history.Failed
	switch cl.dice.IntN(4) {
	case 0, 1:
		how = k.freshUpsert(cl, n, table, id)
	case 2:
		how = k.freshWrite(cl, n, history.RowUpdate, id, id, fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = %d", table, id))
	case 3:
		how = k.freshWrite(cl, n, history.RowDelete, id, id, fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id))
	}
	if how != history.OK {
		return
	}
	name := k.c.Machines[i].Name
	k.say("fault: %s dies with its answer", name)
	k.ways.set(name, true, k.now2())
	k.c.Crash(i, []int{0, 50, 100}[cl.dice.IntN(3)], cl.dice.IntN(2) == 0)
	k.fresh.mu.Lock()
	k.fresh.killed++
	k.fresh.mu.Unlock()
	down := time.Now().Add(time.Duration(500+cl.dice.IntN(3500)) * time.Millisecond)
	for time.Now().Before(down) {
		if k.freshRead(cl, n, table); cl.dice.IntN(4) == 0 {
			cl.close() // and goes to another gateway
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := k.c.TryBoot(i); err != nil {
		k.problem("%s does not start: %v", name, err)
	}
	k.ways.set(name, false, k.now2())
}

// now2 is the time since the start, to the nanosecond.
func (k *fastCampaign) now2() time.Duration { return time.Since(k.start) }

// farthest is the round trip from a node to the farthest one.
func (k *fastCampaign) farthest(i int) (most time.Duration) {
	most = time.Millisecond
	if k.regions != nil {
		for _, m := range k.c.Machines {
			most = max(most, k.regions.RTT(k.c.Machines[i].Region, m.Region))
		}
	}
	return most
}

// ways are the nodes, disks and links that are or were broken.
type ways struct {
	mu     sync.Mutex
	broken map[string]bool
	last   map[string]time.Duration // when it was broken last
}

func (w *ways) set(what string, broken bool, now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken, w.last = map[string]bool{}, map[string]time.Duration{}
	}
	w.broken[what], w.last[what] = broken, now
}

// note takes in an action of the plan.
func (w *ways) note(a fault.Action, now time.Duration) {
	link := min(a.A, a.B) + " " + max(a.A, a.B)
	switch a.Kind {
	case fault.Crash, fault.PowerOff, fault.Isolate, fault.Pause, fault.CrashSync:
		w.set(a.A, true, now)
	case fault.Restart, fault.Rejoin, fault.Resume, fault.Revive:
		w.set(a.A, false, now)
	case fault.SlowDisk:
		w.set("disk "+a.A, a.Amount > 0, now)
	case fault.Cut, fault.CutOneWay:
		w.set(link, true, now)
	case fault.Heal, fault.Reset:
		w.set(link, false, now)
	case fault.Slow:
		w.set(a.A+" to "+a.B, a.Amount > 0, now)
	}
}

// whole reports whether a node and its ways to all others but so many have been whole since a moment.
func (w *ways) whole(all []string, node string, but int, since time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	hurt := func(what string) bool {
		last, ever := w.last[what]
		return w.broken[what] || ever && last >= since
	}
	if hurt(node) || hurt("disk "+node) {
		return false
	}
	for _, o := range all {
		if o != node && (hurt(o) || hurt("disk "+o) || hurt(min(o, node)+" "+max(o, node)) || hurt(o+" to "+node) || hurt(node+" to "+o)) {
			but--
		}
	}
	return but >= 0
}
