package campaign_test

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
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/clock"
	"meridian/encoding"
	"meridian/history"
	"meridian/keys"
	"meridian/kv"
	"meridian/probe"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestFastPaxosCampaign has tables without a master under the faults of the campaign, while their ranges split, merge and move, and the tables change their commit protocol and come back.
//
//   - lists: transactions append their number to one list, or to two, or to one and to a table of the leader protocol. None is lost or there twice, and each is everywhere or nowhere (I1, I2). A session never reads less of a
//     list than it has read before, and each transaction that was answered a second and a round trip ago (fastpaxos.FP64, fastpaxos.FP85).
//   - stock: orders of several pieces, which commute, from stock that runs out: each acknowledged order is taken off once, and there are never less than none.
//   - names: each is given to one row at most, and the index has what the table has.
//   - fresh tables, which are under load from their first moment: every count, number and duplicate that a client was told has its place in one order of the statements on the row (history.Rows), and so has what
//     is read at the default level, if it may be of a second and a round trip before. In half of the seeds gateways die with their answers.
//
// A statement on any of them tells how many rows it has changed: one that finds no list, or no stock, is a failure. Each table has a policy of ballots; half of them have fast ones. Requests to single replicas are lost in half of the seeds.
//
// MERIDIAN_SEEDS, MERIDIAN_FIRST and MERIDIAN_SEED are TestCampaign's.
func TestFastPaxosCampaign(t *testing.T) {
	t.Parallel()
	seeds := simtest.Seeds(t, 1, 1)
	var virtual time.Duration
	var failed []int
	for _, seed := range seeds {
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &fastCampaign{campaign: &campaign{seed: uint64(seed), probes: &probe.Set{}}}
			defer simtest.Watchdog(seed).Stop()
			begun := time.Now()
			synctest.Test(t, func(t *testing.T) { k.run(t) })
			virtual += k.took
			for _, h := range []*history.Rows{&k.fresh.rows, &k.fresh.names} {
				if err := h.Check(time.Minute); err != nil {
					k.problem("%v", err)
				}
			}
			k.counted()
			t.Logf("%s, %s in %s: %s", k.topology, k.took, time.Since(begun).Round(time.Millisecond), k.summary())
			if len(k.problems) > 0 {
				t.Errorf("seed %d, %s:\n%s\nThe plan was:\n%s", seed, k.topology, strings.Join(k.problems, "\n"), k.plan)
			}
		}) {
			failed = append(failed, seed)
		}
	}
	t.Logf("%d seeds, %d failed %v, %.1f cluster-minutes", len(seeds), len(failed), failed, virtual.Minutes())
}

const (
	fastLists  = 12
	fastStocks = 4
	fastFaults = 30 * time.Second
	fastLimit  = 15 * time.Second // of a statement
)

// fastCampaign is one seed's run.
type fastCampaign struct {
	*campaign
	tables map[string]uint32
	ranged []string // the tables whose ranges change
	fresh  freshTables
	ways   ways
	// listsEra is odd while the lists change their protocol, and counts that; listsRead counts reads of them in sessions, and listsJudged those whose bound was checked.
	listsEra, listsRead, listsJudged atomic.Int64
	// mayLack is how many nodes a gateway may be without and still reach a quorum of any range; regions are the cluster's, nil if it has one.
	mayLack int
	regions *sim.Regions

	mu      sync.Mutex // guards what follows
	appends []fastAppend
	orders  []fastOrder
	names   map[int64]uniqueRow
	initial [fastStocks]int64
}

// fastAppend is a transaction that appends its number to lists, and to the log if it is mixed.
type fastAppend struct {
	id    int64
	lists []int
	mixed bool
	ending
	answered time.Duration // since the start
}

type fastOrder struct {
	stock  int
	pieces int64 // negative: they are brought back
	ending
}

func (k *fastCampaign) run(t *testing.T) {
	dice := rand.New(rand.NewPCG(k.seed, 0xfa57))
	k.start, k.names, k.tables = time.Now(), map[int64]uniqueRow{}, map[string]uint32{}
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo(), Probes: k.probes, LostRequests: []float64{0, 0, 0.02, 0.1}[dice.IntN(4)]}
	replicas := 3
	switch dice.IntN(5) {
	case 0:
		k.topology = "three nodes in one region"
	case 1:
		k.topology, o.NodesPerRegion, replicas = "five nodes in one region", 5, 5
	case 2:
		k.topology, o.Regions, o.NodesPerRegion = "three nodes in three regions", sim.ThreeRegions(), 1
	case 3:
		k.topology, o.Regions, o.NodesPerRegion, replicas = "five nodes in five regions", sim.FiveRegions(), 1, 5
	case 4:
		k.topology, o.NodesPerRegion = "five nodes, three replicas", 5
	}
	k.regions, k.mayLack = o.Regions, (replicas-1)/2
	k.c = simcluster.Start(t, o)
	simtest.Replicated(t, k.c, 3)
	setup, err := k.c.Connect(t.Context(), 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	policies := rand.New(rand.NewPCG(k.seed, 0xba1107))
	with := func() string {
		ballots := ""
		switch policies.IntN(6) {
		case 0:
			ballots = ", fast_paxos_ballots = 'classic'"
		case 1:
			ballots = ", fast_paxos_ballots = 'learned'"
		case 2:
			ballots = fmt.Sprintf(", fast_paxos_ballots = 'gamma', fast_paxos_gamma = %d", 1+policies.IntN(20))
		}
		k.topology += ballots
		return " WITH (commit_protocol = 'fast_paxos'" + ballots + ")"
	}
	texts := []string{"CREATE TABLE log (k int PRIMARY KEY)",
		"CREATE TABLE lists (id int PRIMARY KEY, v text NOT NULL)" + with(),
		"CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL CHECK (n >= 0), taken int NOT NULL)" + with(),
		"CREATE TABLE names (id int PRIMARY KEY, name int NOT NULL UNIQUE)" + with()}
	if replicas == 5 {
		texts = append([]string{"ALTER DATABASE defaultdb CONFIGURE ZONE USING num_replicas = 5"}, texts...)
	}
	for i := range fastLists {
		texts = append(texts, fmt.Sprintf("INSERT INTO lists VALUES (%d, '')", i))
	}
	for i := range fastStocks {
		k.initial[i] = []int64{40, 400, 4000, 1_000_000}[i]
		texts = append(texts, fmt.Sprintf("INSERT INTO stock VALUES (%d, %d, 0)", i, k.initial[i]))
	}
	for _, q := range texts {
		if _, err := setup.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	k.ranged = []string{"lists", "stock", "names"}
	for _, name := range k.ranged {
		k.tables[name] = simtest.TableIDOf(t, setup, name)
	}
	setup.Close(t.Context())
	time.Sleep(2 * time.Second) // all replicas have the rows

	kinds := []fault.Kind{fault.Cut, fault.CutOneWay, fault.Flap, fault.Slow, fault.Reset, fault.Skew, fault.SlowDisk}
	deaths := policies.IntN(2) == 0 // of gateways, with their answers; otherwise the plan has nodes that fail
	every := 6 * time.Second
	if !deaths {
		every, kinds = 1500*time.Millisecond, append(kinds, fault.Crash, fault.CrashSync, fault.PowerOff, fault.Isolate, fault.Pause, fault.Brownout)
	}
	k.plan = fault.Generate(k.seed, fault.Options{Nodes: k.c.Names(), Duration: fastFaults, Every: every, Lasting: 3 * time.Second, MaxSkew: 100 * time.Millisecond, Kinds: kinds})
	begun := time.Now()
	enough := make(chan struct{})
	var workers sync.WaitGroup
	explain := func(pg *pgconn.PgError) (history.Outcome, bool) {
		return history.Failed, pg.Code == "23514" || pg.Code == "23505" || pg.Code == "55000"
	}
	work := func(id uint64, f func(cl *client)) {
		cl := &client{k: k.campaign, id: int(id), dice: rand.New(rand.NewPCG(k.seed, id)), limit: fastLimit, explain: explain}
		workers.Go(func() {
			defer cl.close()
			for {
				select {
				case <-enough:
					return
				default:
					f(cl)
				}
			}
		})
	}
	for n := range uint64(7) {
		work(n, func(cl *client) {
			k.step(cl)
			time.Sleep(time.Duration(cl.dice.IntN(100)) * time.Millisecond)
		})
	}
	freshWith := with()
	work(40, func(cl *client) {
		k.makeFresh(cl, freshWith)
		time.Sleep(time.Duration(4000+cl.dice.IntN(4000)) * time.Millisecond)
	})
	for n := range uint64(6) {
		work(41+n, func(cl *client) {
			k.freshStep(cl)
			time.Sleep(time.Duration(cl.dice.IntN(400)) * time.Millisecond)
		})
	}
	for n := range uint64(2) {
		var session listSession
		work(70+n, func(cl *client) {
			k.readLists(cl, &session)
			time.Sleep(time.Duration(cl.dice.IntN(200)) * time.Millisecond)
		})
	}
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		cl := &client{k: k.campaign, id: 60, dice: rand.New(rand.NewPCG(k.seed, 60)), limit: fastLimit, explain: explain}
		for deaths && time.Since(begun) < fastFaults-5*time.Second {
			k.kill(cl)
		}
		cl.close()
	}()
	changes := []time.Duration{300 * time.Millisecond, 2 * time.Second, 10 * time.Second}[dice.IntN(3)]
	work(50, func(cl *client) {
		time.Sleep(time.Duration(cl.dice.Int64N(int64(changes))))
		k.changeRange(cl.dice)
	})
	if dice.IntN(2) == 0 {
		work(51, func(cl *client) {
			time.Sleep(time.Duration(2+cl.dice.IntN(6)) * time.Second)
			k.changeProtocol(cl)
		})
	}
	failed := make(chan struct{})
	watch := k.watch(failed)
	target := k.c.Target(k.seed)
	if err := fault.Run(context.Background(), sim.NewClock(), k.plan, target, func(a fault.Action) {
		k.ways.note(a, k.now2())
		k.say("fault: %s", a)
	}); err != nil {
		k.problem("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(fastFaults)))
	<-dead
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	time.Sleep(5 * time.Second)
	close(enough)
	workers.Wait()
	time.Sleep(20 * time.Second) // replicas that have missed something are brought up to date (fastpaxos.FP26)
	k.everywhere(k.judge)
	k.compareAll()
	k.countStats()
	close(failed)
	<-watch
	k.took = time.Since(k.start)
	k.c.Stop()
	time.Sleep(20 * time.Second)
}

// counted adds to the summary what the histories of rows have.
func (k *fastCampaign) counted() {
	f := &k.fresh
	ok, failed, unknown, none := f.rows.Count()
	k.topology += fmt.Sprintf("; %d tables, %d rows told and %d that were not there, %d failed, %d unknown, %d reads judged, %d of %d of lists, %d gateways died with their answers, the longest: %v", len(f.made), ok, none, failed, unknown, f.judged, k.listsJudged.Load(), k.listsRead.Load(), f.killed, f.longest)
}

// step is one transaction.
func (k *fastCampaign) step(cl *client) {
	switch n := cl.dice.IntN(10); {
	case n < 5:
		k.append(cl)
	case n < 8:
		k.order(cl)
	default:
		k.name(cl)
	}
}

// anyList draws a list; two are busy.
func anyList(dice *rand.Rand) int {
	if dice.IntN(2) == 0 {
		return dice.IntN(2)
	}
	return dice.IntN(fastLists)
}

func (k *fastCampaign) append(cl *client) {
	a := fastAppend{id: k.ids.Add(1), lists: []int{anyList(cl.dice)}, mixed: cl.dice.IntN(3) == 0}
	if l := anyList(cl.dice); cl.dice.IntN(2) == 0 && l != a.lists[0] {
		a.lists = append(a.lists, l)
	}
	what := fmt.Sprintf("append to %d", len(a.lists))
	if a.mixed {
		what += " and the log"
	}
	a.how, a.note = cl.do(what, func(ctx context.Context, conn *pgx.Conn) error {
		write := func() error {
			for _, l := range a.lists {
				if tag, err := conn.Exec(ctx, "UPDATE lists SET v = v || $2 WHERE id = $1", l, fmt.Sprint(a.id, " ")); err != nil {
					return err
				} else if tag.RowsAffected() != 1 {
					k.problem("list %d: %s", l, tag)
				}
			}
			if a.mixed {
				_, err := conn.Exec(ctx, "INSERT INTO log VALUES ($1)", a.id)
				return err
			}
			return nil
		}
		if len(a.lists) == 1 && !a.mixed {
			return write()
		}
		return inTxn(ctx, conn, write)
	})
	a.answered = k.now2()
	k.say("append %d to %v (log: %v): %d %s", a.id, a.lists, a.mixed, a.how, a.note)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.appends = append(k.appends, a)
}

func (k *fastCampaign) order(cl *client) {
	o := fastOrder{stock: cl.dice.IntN(fastStocks), pieces: int64(1 + cl.dice.IntN(4))}
	if cl.dice.IntN(8) == 0 {
		o.pieces = -o.pieces
	}
	o.how, o.note = cl.do("order", func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, "UPDATE stock SET n = n - $2, taken = taken + $2 WHERE id = $1", o.stock, o.pieces)
		if err == nil && tag.RowsAffected() != 1 {
			k.problem("stock %d: %s", o.stock, tag)
		}
		return err
	})
	k.say("order %d of %d: %d %s", o.pieces, o.stock, o.how, o.note)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.orders = append(k.orders, o)
}

func (k *fastCampaign) name(cl *client) {
	id, name := k.ids.Add(1), cl.dice.IntN(40)
	tell := func(op *history.RowOp, rows int64, how history.Outcome, note string) {
		switch how {
		case history.OK:
			k.fresh.names.OK(op, int(rows), history.Untold, k.now2())
		case history.Failed:
			k.fresh.names.Failed(op, note)
		default:
			k.fresh.names.Unknown(op, note)
		}
	}
	if cl.dice.IntN(4) == 0 {
		op, rows := k.fresh.names.Begin(history.RowOp{Client: cl.id, Key: name, Kind: history.RowDelete, Call: k.now2()}), int64(0)
		how, note := cl.do("delete", func(ctx context.Context, conn *pgx.Conn) error {
			tag, err := conn.Exec(ctx, "DELETE FROM names WHERE name = $1", name)
			rows = tag.RowsAffected()
			return err
		})
		tell(op, rows, how, note)
		k.mu.Lock()
		defer k.mu.Unlock()
		for id, row := range k.names {
			if row.name == fmt.Sprint(name) && how != history.Failed {
				row.how = history.Unknown // it may be gone
				k.names[id] = row
			}
		}
		return
	}
	op, duplicate := k.fresh.names.Begin(history.RowOp{Client: cl.id, Key: name, Kind: history.RowInsert, Number: id, Call: k.now2()}), false
	how, note := cl.do("name", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "INSERT INTO names VALUES ($1, $2)", id, name)
		var pg *pgconn.PgError
		duplicate = errors.As(err, &pg) && pg.Code == "23505"
		return err
	})
	if duplicate {
		tell(op, 0, history.OK, note)
	} else {
		tell(op, 1, how, note)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if how == history.OK {
		how = history.Unknown // another client's DELETE may be under way
	}
	k.names[id] = uniqueRow{fmt.Sprint(name), ending{how, note}}
}

// changeRange splits, merges or moves a range of a table.
func (k *fastCampaign) changeRange(dice *rand.Rand) {
	k.c.On(dice.IntN(k.c.Len()), func(ctx context.Context, n *server.Node) {
		if n.Store() == nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		name := k.ranged[dice.IntN(len(k.ranged))]
		at := keys.IndexPrefix(k.tables[name], uint32(1))
		if dice.IntN(3) > 0 {
			at = encoding.AppendInt(slices.Clone(at), int64(dice.IntN(fastLists)), encoding.Ascending)
		}
		var q kv.Request
		what := "split"
		switch dice.IntN(4) {
		case 0:
			q = &kv.AdminSplitRequest{Key: at, Keep: clock.Timestamp{Wall: 1}}
		case 1:
			what, q = "merge", &kv.AdminMergeRequest{Key: at}
			if info, err := n.Router().Range(ctx, at, true); err != nil || !keys.TableSpan(k.tables[name]).Contains(info.Desc.End) {
				return
			}
		case 2:
			what, q = "lease", &kv.AdminTransferLeaseRequest{Key: at, Target: kv.NodeID(1 + dice.IntN(k.c.Len()))}
		case 3:
			what = "move"
			var targets []kv.ReplicaTarget
			for _, i := range dice.Perm(k.c.Len())[:3] {
				targets = append(targets, kv.ReplicaTarget{Node: kv.NodeID(i + 1), Store: kv.StoreID(i + 1)})
			}
			q = &kv.AdminChangeReplicasRequest{Key: at, Targets: targets}
		}
		_, err := n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{q}})
		if err != nil {
			what += " refused"
		}
		k.say("%s at %s: %v", what, at, err)
		k.count(&k.done, what)
	})
}

// changeProtocol gives a table the leader protocol for a while.
func (k *fastCampaign) changeProtocol(cl *client) {
	name := []string{"lists", "stock", "names", "fresh"}[cl.dice.IntN(4)]
	if name == "fresh" {
		var n int
		if name, n = k.fresh.any(cl.dice); n == 0 {
			return
		}
	}
	limit := cl.limit
	defer func() { cl.limit = limit }()
	cl.limit = time.Minute
	for _, p := range []string{"leader", "fast_paxos"} {
		begun := time.Now()
		if name == "lists" {
			k.listsEra.Add(1)
		}
		how, note := cl.do("protocol "+p, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s SET (commit_protocol = '%s')", name, p))
			return err
		})
		if name == "lists" {
			k.listsEra.Add(1)
		}
		if how != history.Unknown {
			k.fresh.took("ALTER TABLE", time.Since(begun))
		}
		k.say("%s: protocol %s after %s: %d %s", name, p, time.Since(begun), how, note)
		time.Sleep(time.Duration(cl.dice.IntN(3000)) * time.Millisecond)
	}
}

// judge compares what is there, as one node sees it, with what clients were told. A replica may be behind for a while: then it is looked at again.
func (k *fastCampaign) judge(ctx context.Context, i int) (err error) {
	late := time.AfterFunc(15*time.Second, k.dump)
	defer late.Stop()
	for last := error(nil); ; {
		if err = k.look(ctx, i); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(last, err)
		}
		last = err
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
			last = fmt.Errorf("%w: %s", err, pg.Detail)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (k *fastCampaign) look(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	text := func(q string) (out []string, err error) {
		rows, err := conn.Query(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q, err)
		}
		return out, nil
	}
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	lists, err := text("SELECT v FROM lists ORDER BY id")
	if err != nil {
		return err
	}
	logged, err := text("SELECT k::text FROM log")
	if err != nil {
		return err
	}
	if len(lists) != fastLists {
		return fmt.Errorf("%d lists", len(lists))
	}
	final := make([]map[int64]int, fastLists)
	for l, v := range lists {
		final[l] = map[int64]int{}
		for _, f := range strings.Fields(v) {
			id, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				bad("list %d has %q", l, f)
			}
			final[l][id]++
		}
	}
	log := map[int64]bool{}
	for _, f := range logged {
		id, _ := strconv.ParseInt(f, 10, 64)
		log[id] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range k.appends {
		var there []int
		for _, l := range a.lists {
			if n := final[l][a.id]; n > 0 {
				there = append(there, n)
			}
		}
		whole := len(there) == len(a.lists) && (!a.mixed || log[a.id])
		none := len(there) == 0 && !log[a.id]
		switch {
		case slices.Max(append(there, 1)) > 1:
			bad("%d is %v times in its lists %v (%s)", a.id, there, a.lists, a.note)
		case !whole && !none, a.how == history.OK && !whole, a.how == history.Failed && !none:
			bad("%d, to %v (log: %v), of which the client heard %d (%s), is in lists %v times, in the log: %v", a.id, a.lists, a.mixed, a.how, a.note, there, log[a.id])
		}
	}
	for s := range fastStocks {
		var n, taken int64
		if err := conn.QueryRow(ctx, "SELECT n, taken FROM stock WHERE id = $1", s).Scan(&n, &taken); err != nil {
			return err
		}
		// least and most are what may have been taken.
		var least, most int64
		for _, o := range k.orders {
			switch {
			case o.stock != s || o.how == history.Failed:
			case o.how == history.OK:
				least, most = least+o.pieces, most+o.pieces
			case o.pieces < 0:
				least += o.pieces
			default:
				most += o.pieces
			}
		}
		if n < 0 || n+taken != k.initial[s] || taken < least || taken > most {
			bad("stock %d: %d pieces of %d, %d taken; by the orders %d to %d", s, n, k.initial[s], taken, least, most)
		}
	}
	byTable, err := text("SELECT id || ' ' || name FROM names@names_pkey ORDER BY 1")
	if err != nil {
		return err
	}
	byIndex, err := text("SELECT id || ' ' || name FROM names@names_name_key ORDER BY 1")
	if err != nil {
		return err
	}
	if !slices.Equal(byTable, byIndex) {
		bad("names: the table has %v, its index %v", byTable, byIndex)
	}
	given := map[string]bool{}
	for _, row := range byTable {
		f := strings.Fields(row)
		id, _ := strconv.ParseInt(f[0], 10, 64)
		if given[f[1]] {
			bad("name %s is given twice", f[1])
		}
		given[f[1]] = true
		if tried, ok := k.names[id]; !ok || tried.name != f[1] || tried.how == history.Failed {
			bad("names: row %s is there, and its client heard %d (%s)", row, tried.how, tried.note)
		}
	}
	return errors.Join(wrong...)
}
