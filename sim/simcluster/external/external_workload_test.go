package external_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/keys"
	"meridian/kv"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// externalWorkload looks for violations of external consistency: clients at the gateways of five regions, whose clocks differ almost as much as
// they may, append to lists in three tables whose leaseholders are in three regions, and read them. Each client waits for answers as people do, so that
// one often begins what it does after another one was answered:
//
//	writing    transactions of two to six keys that read and append, one after the other, with pauses
//	reading    READ ONLY transactions, and single reads
//	past       transactions AS OF SYSTEM TIME, of a moment at which followers can serve, or of one that has just been
//	chains     append at one gateway; when that is acknowledged, append elsewhere to another table; meanwhile or afterwards,
//	           a third gateway reads both
//
// The checks, by package history:
//
//	the lists               serializable at least, with the order of time if judge asks for it (history.Appends)
//	the chains              whoever sees the second append sees the first (history.Messages)
//	the commit timestamps   are in the order of time (history.Stamps); they are those of the versions, read at the end
//	snapshots               the mode that is checked promises that a snapshot at t is what had been committed at the moment t;
//	                        so it is judged as a transaction of that moment. The default mode makes no such promise, and
//	                        there a snapshot is of the past.
type externalWorkload struct {
	seed uint64
	// declare are statements that put the database into a mode; none: the default.
	declare []string
	// moments says that a snapshot at t shows what had been committed at the moment t.
	moments bool
	// faults for so long; zero: no faults, and lasting is how long clients run.
	faults  bool
	lasting time.Duration
	// maxOffset between clocks (default 500 ms); clocks are off by up to two fifths of it.
	maxOffset time.Duration
	// behind says that messages reach the node whose clock is the slowest late, so that it does not learn the time from them.
	behind bool
	// masters are time masters from which the nodes have their time; zero: from their machines' clocks. One of them lies, and machines' clocks step (unsettle).
	masters int
	// drifts has the clock of a node run away, by more than a daemon takes into account.
	drifts bool
	// all has all faults at the same time: those of faults and further kinds of them, masters that step or are cut off, and reads with a bound of staleness. far has clocks of nodes
	// step beyond the bound, too.
	all, far bool
	// left counts nodes that have stopped themselves, as one does that knows its clock to be wrong.
	left int
	// only names the kinds of transactions, with spaces between; empty: all.
	only    string
	clients int

	c      *simcluster.Cluster
	homes  []int // of the tables; the clock of the first is fast, that of the second is slow
	begun  time.Time
	plan   fault.Plan
	nextID atomic.Int64 // of elements
	used   atomic.Int64 // appends so far

	mu       sync.Mutex // guards the fields below; nothing is taken after it
	place    int64
	txns     []*history.Txn
	messages []history.Message
	strange  map[string]error

	stamps   map[*history.Txn]history.Stamp
	problems []string
	about    []string
}

const (
	externalTables  = 3
	externalWindow  = 9  // keys in use at a time
	externalAppends = 60 // about so many appends until the next key is used
	placeBits       = 10 // places in one nanosecond

	// clientsTimeout bounds a transaction.
	clientsTimeout = 24 * time.Second
)

func externalTable(id int) string { return "x" + strconv.Itoa(id%externalTables) }

func externalKey(id int) string { return "k" + strconv.Itoa(id) }

// here is the next place in the history. Places grow with time, so that a moment has one, too.
func (w *externalWorkload) here() int64 {
	w.place = max(w.place+1, w.placeOf(time.Since(w.begun)))
	return w.place
}

func (w *externalWorkload) placeOf(at time.Duration) int64 { return int64(at) << placeBits }

func (w *externalWorkload) begin(client int) *history.Txn {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &history.Txn{ID: len(w.txns) + 1, Client: client, Call: w.here(), When: time.Since(w.begun)}
	w.txns = append(w.txns, t)
	return t
}

func (w *externalWorkload) end(t *history.Txn, how history.Outcome, note string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Return, t.Outcome, t.Note = w.here(), how, t.Note+note
}

// externalClient is a client with a connection to each gateway.
type externalClient struct {
	w     *externalWorkload
	id    int
	dice  *rand.Rand
	conns []*pgx.Conn
}

func (w *externalWorkload) client(id int) *externalClient {
	return &externalClient{w: w, id: id, dice: rand.New(rand.NewPCG(w.seed, uint64(id))), conns: make([]*pgx.Conn, w.c.Len())}
}

func (cl *externalClient) close() {
	for _, conn := range cl.conns {
		if conn != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			conn.Close(ctx)
			cancel()
		}
	}
}

// conn is a connection to a gateway, or to another one if that is down; nil: not now.
func (cl *externalClient) conn(gateway int) *pgx.Conn {
	if conn := cl.conns[gateway]; conn != nil && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I' {
		return conn
	} else if conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		conn.Close(ctx)
		cancel()
		cl.conns[gateway] = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := cl.w.c.Connect(ctx, gateway, "ext")
	if err != nil {
		return nil
	}
	cl.conns[gateway] = conn
	return conn
}

// txn does a transaction at a gateway, between BEGIN with the given modes and COMMIT; single: without these. It returns nil if the gateway is not there.
func (cl *externalClient) txn(gateway int, modes string, single bool, f func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error) *history.Txn {
	conn := cl.conn(gateway)
	if conn == nil {
		time.Sleep(100 * time.Millisecond)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientsTimeout)
	defer cancel()
	t := cl.w.begin(cl.id)
	t.Note = "n" + strconv.Itoa(gateway+1) + " "
	err := func() error {
		if !single {
			if _, err := conn.Exec(ctx, "BEGIN "+modes); err != nil {
				return err
			}
		}
		if err := f(ctx, conn, t); err != nil || single {
			return err
		}
		tag, err := conn.Exec(ctx, "COMMIT")
		if err == nil && tag.String() != "COMMIT" {
			err = fmt.Errorf("COMMIT answered %s", tag)
		}
		return err
	}()
	how, note := cl.w.outcome(err)
	cl.w.end(t, how, note)
	if err != nil && !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		conn.Exec(ctx, "ROLLBACK")
	}
	return t
}

func (w *externalWorkload) outcome(err error) (history.Outcome, string) {
	if err == nil {
		return history.OK, ""
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return history.Unknown, err.Error()
	}
	note := pg.Code + " " + pg.Message
	switch pg.Code {
	case "40001", "40P01", "55P03", "57P03", "XCUBS": // the last one: a query after the one that has agreed, with nearest_only
		return history.Failed, note
	case "40003", "57P01", "57014":
		return history.Unknown, note
	}
	if !strings.HasPrefix(pg.Code, "08") && !strings.HasPrefix(pg.Code, "53") {
		w.mu.Lock()
		if w.strange == nil {
			w.strange = map[string]error{}
		}
		w.strange[pg.Code] = err
		w.mu.Unlock()
	}
	return history.Unknown, note
}

func externalList(s string) []int64 {
	out := []int64{}
	for e := range strings.SplitSeq(s, ",") {
		if e != "" {
			n, err := strconv.ParseInt(e, 10, 64)
			if err != nil {
				n = -1 // an element that nobody appended
			}
			out = append(out, n)
		}
	}
	return out
}

func (cl *externalClient) read(ctx context.Context, conn *pgx.Conn, t *history.Txn, id int, lock string) error {
	var s string
	err := conn.QueryRow(ctx, "SELECT v FROM "+externalTable(id)+" WHERE id = $1"+lock, id).Scan(&s)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	t.Accesses = append(t.Accesses, history.Access{Kind: history.Read, Key: externalKey(id), List: externalList(s)})
	return nil
}

func (cl *externalClient) append(ctx context.Context, conn *pgx.Conn, t *history.Txn, id int) error {
	v := cl.w.nextID.Add(1)
	cl.w.used.Add(1)
	t.Accesses = append(t.Accesses, history.Access{Kind: history.Append, Key: externalKey(id), Value: v})
	table := externalTable(id)
	_, err := conn.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = "+table+".v || ',' || excluded.v", id, strconv.FormatInt(v, 10))
	return err
}

// think is a pause of up to so long, often none.
func (cl *externalClient) think(d time.Duration) {
	if cl.dice.IntN(2) == 0 {
		time.Sleep(time.Duration(cl.dice.Int64N(int64(d))))
	}
}

// some are n keys in use.
func (cl *externalClient) some(n int) []int {
	base := int(cl.w.used.Load() / externalAppends)
	ids := cl.dice.Perm(externalWindow)[:n]
	for i := range ids {
		ids[i] += base
	}
	return ids
}

func (cl *externalClient) gateway() int { return cl.dice.IntN(cl.w.c.Len()) }

// writing is a transaction that reads and appends.
func (cl *externalClient) writing() {
	ids := cl.some(2 + cl.dice.IntN(5))
	steps := 1 + cl.dice.IntN(len(ids))
	cl.txn(cl.gateway(), "", false, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error {
		for _, id := range ids[:steps] {
			switch cl.dice.IntN(6) {
			case 0, 1:
				if err := cl.read(ctx, conn, t, id, ""); err != nil {
					return err
				}
			case 2:
				if err := cl.read(ctx, conn, t, id, " FOR UPDATE"); err != nil {
					return err
				}
			case 3: // as an application does it
				if err := cl.read(ctx, conn, t, id, ""); err != nil {
					return err
				}
				fallthrough
			default:
				if err := cl.append(ctx, conn, t, id); err != nil {
					return err
				}
			}
			cl.think(40 * time.Millisecond)
		}
		return nil
	})
}

// reading is a transaction that only reads, or one read.
func (cl *externalClient) reading() {
	if cl.dice.IntN(3) == 0 {
		id := cl.some(1)[0]
		cl.txn(cl.gateway(), "", true, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error { return cl.read(ctx, conn, t, id, "") })
		return
	}
	ids := cl.some(2 + cl.dice.IntN(4))
	cl.txn(cl.gateway(), "READ ONLY", false, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error {
		for _, id := range ids {
			if err := cl.read(ctx, conn, t, id, ""); err != nil {
				return err
			}
			cl.think(100 * time.Millisecond)
		}
		return nil
	})
}

// past is a snapshot.
func (cl *externalClient) past() {
	ago := 4*time.Second + time.Duration(cl.dice.Int64N(int64(4*time.Second)))
	if cl.dice.IntN(3) == 0 {
		ago = cl.w.skew() + time.Duration(cl.dice.Int64N(int64(time.Second))) // the gateway's clock may be behind
	}
	cl.snapshot(time.Now().Add(-ago), cl.some(2+cl.dice.IntN(5)))
}

// bounded is a snapshot of a time on which the replicas near the gateway agree.
func (cl *externalClient) bounded() {
	var at time.Time
	bound := "with_max_staleness('20s')"
	if cl.dice.IntN(4) == 0 {
		bound = "with_max_staleness('20s', true)"
	}
	ids := cl.some(2 + cl.dice.IntN(5))
	t := cl.txn(cl.gateway(), "AS OF SYSTEM TIME "+bound, false, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error {
		for _, id := range ids {
			if err := cl.read(ctx, conn, t, id, ""); err != nil {
				return err
			}
		}
		var s string
		if err := conn.QueryRow(ctx, "SELECT cluster_logical_timestamp()::text").Scan(&s); err != nil {
			return err
		}
		wall, _, _ := strings.Cut(s, ".")
		n, err := strconv.ParseInt(wall, 10, 64)
		at = time.Unix(0, n)
		return err
	})
	if t != nil && !at.IsZero() {
		cl.w.placed(t, at)
	}
}

func (cl *externalClient) snapshot(at time.Time, ids []int) {
	t := cl.txn(cl.gateway(), "AS OF SYSTEM TIME '"+strconv.FormatInt(at.UnixNano(), 10)+"'", false, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error {
		for _, id := range ids {
			if err := cl.read(ctx, conn, t, id, ""); err != nil {
				return err
			}
		}
		return nil
	})
	if t != nil {
		cl.w.placed(t, at)
	}
}

// placed says that a transaction has read what was there at a moment.
func (w *externalWorkload) placed(t *history.Txn, at time.Time) {
	t.Note = fmt.Sprintf("%sas of %s ", t.Note, at.Sub(w.begun))
	if !w.moments {
		t.Past = true
		return
	}
	// Between what returned, and what was called, within this nanosecond: neither is in the order of time for the timestamps.
	place := w.placeOf(at.Sub(w.begun)) + 1<<placeBits - 1
	t.Call, t.Return = place, place
}

// chain appends, tells another region, which appends to another table, and looks.
func (cl *externalClient) chain(third *externalClient) {
	w := cl.w
	ids := cl.some(2)
	for externalTable(ids[0]) == externalTable(ids[1]) {
		ids = cl.some(2)
	}
	gateways := cl.dice.Perm(w.c.Len())
	if w.behind && cl.dice.IntN(2) == 0 { // from the fastest clock to the slowest, to tables at home there
		for externalTable(ids[0]) != externalTable(0) || externalTable(ids[1]) != externalTable(1) {
			ids = cl.some(2)
		}
		gateways = w.homes
	}
	write := func(c *externalClient, gateway, id int) *history.Txn {
		return c.txn(gateway, "", c.dice.IntN(2) == 0, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error { return c.append(ctx, conn, t, id) })
	}
	links := 1 + cl.dice.IntN(3)/2
	both := make(chan struct{})
	var looks sync.WaitGroup
	modes := []string{"", "READ ONLY"}[cl.dice.IntN(2)]
	if cl.dice.IntN(2) == 0 {
		read := make(chan struct{})
		looks.Go(func() {
			first := true
			third.txn(gateways[2], modes, false, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error {
				err := third.read(ctx, conn, t, ids[0], "")
				if first {
					first = false
					close(read)
				}
				if err != nil {
					return err
				}
				select {
				case <-both:
				case <-time.After(2 * time.Second): // the first append may be waiting for the lock of this transaction's read
				}
				return third.read(ctx, conn, t, ids[1], "")
			})
			if first {
				close(read)
			}
		})
		<-read
	}
	from := time.Now()
	last := write(cl, gateways[0], ids[0])
	for n := range links {
		if last == nil || last.Outcome != history.OK {
			break
		}
		next := write(cl, gateways[1-n], ids[1-n])
		if next != nil {
			cl.w.mu.Lock()
			cl.w.messages = append(cl.w.messages, history.Message{From: last, To: next})
			cl.w.mu.Unlock()
		}
		last = next
	}
	took := time.Since(from)
	close(both)
	looks.Wait()
	for n := range 4 {
		// At a moment between the two, by the clocks of the cluster; mostly at one at which the first may be still to come by a fast clock, and the second be past by a slow one.
		at := from.Add(time.Duration(cl.dice.Int64N(int64(w.skew()))))
		if n == 3 {
			at = from.Add(time.Duration(cl.dice.Int64N(int64(took + 2*w.skew())))).Add(-w.skew())
		}
		if late := w.skew() + drifted; at.Add(late).After(time.Now()) { // a slow clock would take it for the future
			time.Sleep(2 * late)
		}
		cl.snapshot(at, ids)
	}
}

// drifted is more than clocks gain or lose in a run by their drift.
const drifted = 10 * time.Millisecond

// skew is the farthest that a clock is off. Two of them may differ by 80 % of the maximum offset before their nodes stop themselves.
func (w *externalWorkload) skew() time.Duration { return w.maxOffset * 19 / 50 }

// run makes the cluster, and lets the clients run, in a bubble.
func (w *externalWorkload) run(t *testing.T) {
	if w.maxOffset == 0 {
		w.maxOffset = 500 * time.Millisecond
	}
	if w.clients == 0 {
		w.clients = 12
	}
	regions := sim.FiveRegions()
	w.c = simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 1, Seed: w.seed, MaxOffset: w.maxOffset, TimeMasters: w.masters, Log: simtest.LogTo()})
	c := w.c
	simtest.Exec(t, simtest.Connect(t, c, 0), "CREATE DATABASE ext")
	simtest.Exec(t, simtest.Connect(t, c, 0), "ALTER DATABASE ext CONFIGURE ZONE USING num_replicas = 5")
	for _, q := range w.declare {
		simtest.Exec(t, simtest.Connect(t, c, 0), q)
	}
	admin := simtest.ConnectTo(t, c, 0, "ext")
	dice := rand.New(rand.NewPCG(w.seed, 0xe7))
	w.homes = dice.Perm(len(regions.Names))
	homes := w.homes
	for i := range externalTables {
		table := externalTable(i)
		simtest.Exec(t, admin, "CREATE TABLE "+table+" (id int PRIMARY KEY, v text NOT NULL)")
		simtest.Exec(t, admin, "ALTER TABLE "+table+" CONFIGURE ZONE USING lease_preferences = '[[+region="+regions.Names[homes[i]]+"]]'")
	}
	w.settled(t, admin, homes)
	for i := range externalTables {
		w.note("%s at home in %s", externalTable(i), c.Machines[homes[i]].Name)
	}

	clocks := make([]time.Duration, c.Len())
	for i, m := range c.Machines {
		clocks[i] = time.Duration(dice.Int64N(int64(2*w.skew()))) - w.skew()
		switch i { // two are as far apart as they may be
		case homes[0]:
			clocks[i] = w.skew()
		case homes[1]:
			clocks[i] = -w.skew()
		}
		m.Clock.SetOffset(clocks[i])
		drift := float64(dice.IntN(101) - 50)
		if w.all && w.masters > 0 {
			drift *= 3 // less than clock.Drift
		}
		m.Clock.SetDrift(drift)
	}
	w.note("clocks %v", clocks)
	if w.behind {
		for i, m := range c.Machines {
			if i != homes[1] {
				c.Network.Slow(m.Name, c.Machines[homes[1]].Name, 2*w.skew())
			}
		}
	}
	time.Sleep(10 * time.Second) // the first snapshots have the tables

	w.begun = time.Now()
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { w.watch(stop) })
	for id := range w.clients {
		cl, third := w.client(2*id+1), w.client(2*id+2)
		all.Go(func() {
			defer cl.close()
			defer third.close()
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(cl.dice.IntN(100)) * time.Millisecond):
				}
				w.step(cl, third)
			}
		})
	}
	if w.masters > 0 {
		all.Go(func() { w.unsettle(rand.New(rand.NewPCG(w.seed, 0x71e5)), stop) })
	}
	if w.faults {
		all.Go(func() { w.leases(rand.New(rand.NewPCG(w.seed, 0x1ea5e)), stop) })
		target := c.Target(w.seed)
		w.plan = fault.Generate(w.seed, fault.Options{Nodes: c.Names(), Duration: w.lasting, Every: 1500 * time.Millisecond, Lasting: 3 * time.Second,
			Kinds: w.kinds(),
			// An error of a clock is repaired by putting the clock right.
			MaxSkew: w.skew() - 10*time.Millisecond, FarSkew: w.maxOffset * 6 / 5})
		if err := fault.Run(context.Background(), c.Machines[0].Clock, w.plan, target, nil); err != nil {
			t.Errorf("the plan stopped: %v", err)
		}
		time.Sleep(time.Until(w.begun.Add(w.lasting)))
		if err := target.HealEverything(); err != nil {
			t.Errorf("healing: %v", err)
		}
		time.Sleep(5 * time.Second)
		for range 90 { // a node that has crashed has the time anew, and notices its drift at the second poll after that
			if !w.drifts || w.hasLeft() {
				break
			}
			time.Sleep(time.Second)
		}
	} else {
		time.Sleep(w.lasting)
	}
	close(stop)
	all.Wait()
	if i := w.homes[2]; w.drifts {
		c.StopNode(i) // unless it has left
		c.Machines[i].Clock.SetDrift(0)
	}
	for i := range c.Len() {
		if c.Node(i) == nil {
			c.Boot(i)
		}
	}
	for _, m := range c.Machines {
		m.Clock.SetOffset(0)
	}
	time.Sleep(10 * time.Second) // locks that were left behind expire
	w.finish(t)
	c.Stop()
	time.Sleep(20 * time.Second)
}

// kinds are the faults of a plan.
func (w *externalWorkload) kinds() []fault.Kind {
	kinds := []fault.Kind{fault.Crash, fault.PowerOff, fault.Isolate, fault.Cut, fault.CutOneWay, fault.Slow, fault.Reset, fault.Skew, fault.Behind, fault.Pause}
	if w.all {
		kinds = append(kinds, fault.Crash, fault.PowerOff, fault.CrashSync, fault.Flap, fault.SlowDisk, fault.Brownout)
	}
	if w.far {
		kinds = append(kinds, fault.SkewFar, fault.SkewFar)
	}
	return kinds
}

// hasLeft reports whether a node has stopped itself.
func (w *externalWorkload) hasLeft() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left > 0
}

// watch stops the nodes that have stopped themselves, as their processes do.
func (w *externalWorkload) watch(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(500 * time.Millisecond):
		}
		for i, m := range w.c.Machines {
			node := w.c.Node(i)
			if node == nil {
				continue
			}
			if err := w.c.StoppedItself(i, node); err != nil {
				w.mu.Lock()
				w.left++
				w.note("%s leaves after %s: %v", m.Name, time.Since(w.begun), err)
				w.mu.Unlock()
				w.c.StopNode(i)
			}
		}
	}
}

// unsettle makes one master lie, by this much and then by that, and lets the wall clocks of the nodes' machines step by a second, as at a leap second that nobody smears. Late in the run the clock of
// a node runs away, if the workload says so. With all, the masters of a region step by a second at the same time and back again, and a master is cut off now and then.
func (w *externalWorkload) unsettle(dice *rand.Rand, stop chan struct{}) {
	liar := w.c.Masters[dice.IntN(len(w.c.Masters))]
	regions := len(w.homes)
	stepping := dice.IntN(regions)
	if w.drifts && stepping == w.homes[2] { // a node without masters that are near may not notice how far its clock has run
		stepping = w.homes[0]
	}
	steps := time.Duration(1-2*dice.IntN(2)) * time.Second
	note := func(format string, args ...any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note(format, args...)
	}
	note("%s lies", liar.Name)
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
		i := w.homes[2]
		if n%7 == 0 {
			liar.Clock.SetOffset(time.Duration(dice.Int64N(int64(2*time.Second))) - time.Second)
			w.c.Machines[dice.IntN(w.c.Len())].Clock.Jump(time.Duration(1-2*dice.IntN(2)) * time.Second)
		}
		if w.all && n%11 == 0 {
			m := w.c.Masters[dice.IntN(len(w.c.Masters))]
			w.c.Network.Isolate(m.Name)
			time.AfterFunc(5*time.Second, func() { w.c.Network.Rejoin(m.Name) })
		}
		if w.all && (n == 13 || n == 40) {
			for k, m := range w.c.Masters {
				if k%regions == stepping && m != liar {
					m.Clock.SetOffset(steps)
				}
			}
			note("the masters of %s step by %s after %s", w.c.Masters[stepping].Region, steps, time.Since(w.begun))
			steps = 0
		}
		if w.drifts && n == w.runaway() {
			w.c.Machines[i].Clock.SetDrift(2000)
			note("the clock of %s runs away after %s", w.c.Machines[i].Name, time.Since(w.begun))
		}
	}
}

// runaway is the second of the run from which on a clock runs away.
func (w *externalWorkload) runaway() int {
	if w.all {
		return 15 // it may crash, and then it has the time anew
	}
	return 30
}

func (w *externalWorkload) note(format string, args ...any) {
	w.about = append(w.about, fmt.Sprintf(format, args...))
}

func (w *externalWorkload) step(cl, third *externalClient) {
	kinds := strings.Fields(w.only)
	if len(kinds) == 0 {
		kinds = []string{"writing", "writing", "writing", "reading", "reading", "past", "chain", "chain"}
		if w.all {
			kinds = append(kinds, "bounded")
		}
	}
	switch kinds[cl.dice.IntN(len(kinds))] {
	case "writing":
		cl.writing()
	case "reading":
		cl.reading()
	case "past":
		cl.past()
	case "bounded":
		cl.bounded()
	case "chain":
		cl.chain(third)
	}
}

// settled waits until the tables have five replicas each, and their leases at home.
func (w *externalWorkload) settled(t *testing.T, conn *pgx.Conn, homes []int) {
	t.Helper()
	var got []string
	for range 240 {
		got = nil
		good := true
		for i := range externalTables {
			places := simtest.PlacesOf(t, w.c, conn, externalTable(i))
			got = append(got, places)
			for line := range strings.SplitSeq(places, "\n") {
				good = good && strings.Count(line, ",") == 4 && strings.HasSuffix(line, "lease "+w.c.Machines[homes[i]].Region)
			}
		}
		if good {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatalf("the tables are at\n%s", strings.Join(got, "\n"))
}

// leases moves the tables' leases, and splits their ranges now and then.
func (w *externalWorkload) leases(dice *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(500+dice.IntN(1500)) * time.Millisecond):
		}
		w.c.On(dice.IntN(w.c.Len()), func(ctx context.Context, n *server.Node) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			spans := w.spans(ctx, n)
			if len(spans) == 0 {
				return
			}
			k := spans[dice.IntN(len(spans))].Start
			info, err := n.Router().Range(ctx, k, true)
			if err != nil {
				return
			}
			to := info.Desc.Replicas[dice.IntN(len(info.Desc.Replicas))].Node
			n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: k, Target: to}}})
		})
		if dice.IntN(6) == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			if conn, err := w.c.Connect(ctx, dice.IntN(w.c.Len()), "ext"); err == nil {
				conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s SPLIT AT VALUES (%d)", externalTable(dice.IntN(externalTables)), w.used.Load()/externalAppends+int64(dice.IntN(externalWindow))))
				conn.Close(ctx)
			}
			cancel()
		}
	}
}

// spans are the keys of the tables.
func (w *externalWorkload) spans(ctx context.Context, n *server.Node) (out []keys.Span) {
	conn, err := w.c.Connect(ctx, int(n.NodeID())-1, "ext")
	if err != nil {
		return nil
	}
	defer conn.Close(ctx)
	for i := range externalTables {
		var id uint32
		if err := conn.QueryRow(ctx, "SELECT $1::text::regclass::oid", externalTable(i)).Scan(&id); err != nil {
			return nil
		}
		out = append(out, keys.TableSpan(id))
	}
	return out
}

// finish reads all lists, and the timestamps of their versions.
func (w *externalWorkload) finish(t *testing.T) {
	var last *history.Txn
	for end := time.Now().Add(time.Minute); ; {
		cl := w.client(0)
		last = cl.txn(0, "", false, func(ctx context.Context, conn *pgx.Conn, t *history.Txn) error {
			for id := range int(w.used.Load()/externalAppends) + externalWindow + 1 {
				if err := cl.read(ctx, conn, t, id, ""); err != nil {
					return err
				}
			}
			return nil
		})
		cl.close()
		if last != nil && last.Outcome == history.OK {
			break
		}
		if time.Now().After(end) {
			t.Errorf("seed %d: nothing can be read after everything healed: %v", w.seed, last)
			return
		}
		time.Sleep(time.Second)
	}
	writer := map[int64]*history.Txn{}
	for _, x := range w.txns {
		for i := range x.Accesses {
			if x.Accesses[i].Kind == history.Append {
				writer[x.Accesses[i].Value] = x
			}
		}
	}
	w.stamps = map[*history.Txn]history.Stamp{}
	n := w.c.Node(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	origin := n.Clock().Now()
	for i, span := range w.spans(ctx, n) {
		versions, err := simtest.VersionsOf(ctx, n.DB(), span, origin.Add(-time.Second))
		if err != nil {
			t.Errorf("seed %d: versions: %v", w.seed, err)
			return
		}
		var rows []string // in the order of their keys
		of := map[string][]history.Stamp{}
		for _, v := range versions {
			k := string(v.Row.Key)
			if of[k] == nil {
				rows = append(rows, k)
			}
			of[k] = append(of[k], history.Stamp((v.At.Wall-w.begun.UnixNano())<<placeBits+int64(v.At.Logical)))
		}
		slices.Sort(rows)
		r := 0
		for j := range last.Accesses {
			x := &last.Accesses[j]
			id, _ := strconv.Atoi(x.Key[1:])
			if id%externalTables != i || len(x.List) == 0 {
				continue
			}
			if r == len(rows) || len(of[rows[r]]) != len(x.List) {
				t.Errorf("seed %d: %s has %d elements, and its versions are %v", w.seed, x.Key, len(x.List), of)
				return
			}
			for n, v := range x.List {
				s := of[rows[r]][n]
				if y := writer[v]; y != nil {
					if was := w.stamps[y]; was != 0 && was != s {
						w.problems = append(w.problems, fmt.Sprintf("%s has the commit timestamps %d and %d", y, was, s))
					}
					w.stamps[y] = s
				}
			}
			r++
		}
	}
}

// verdict is what the checkers say.
type externalVerdict struct {
	report   *history.Report
	messages error
	stamps   error
	// about the run
	ok, failed, unknown, snapshots, chains int
	why                                    map[string]int // it did not succeed
}

func (w *externalWorkload) verdict() externalVerdict {
	v := externalVerdict{report: history.Appends(w.txns, history.ByTime), messages: history.Messages(w.txns, w.messages, w.stamps),
		stamps: history.Stamps(w.txns, w.stamps), chains: len(w.messages),
		why: map[string]int{}}
	for _, t := range w.txns {
		if t.Outcome != history.OK {
			_, why, _ := strings.Cut(t.Note, " ")
			v.why[why[:min(len(why), 60)]]++
		}
		switch t.Outcome {
		case history.OK:
			v.ok++
			if strings.Contains(t.Note, "as of") {
				v.snapshots++
			}
		case history.Failed:
			v.failed++
		default:
			v.unknown++
		}
	}
	return v
}

func (v externalVerdict) String() string {
	return fmt.Sprintf("%d ok (%d snapshots), %d failed, %d unknown, %d messages; cycles: %s; messages: %v; stamps: %v", v.ok, v.snapshots, v.failed, v.unknown, v.chains,
		v.report.Counts(), v.messages != nil, v.stamps != nil)
}
