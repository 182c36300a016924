package simcluster_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/cluster"
	"meridian/commit/leader"
	"meridian/history"
	"meridian/kv"
	"meridian/probe"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
)

// The campaign: for each seed a cluster, clients that know what they were promised, and a plan of faults. Nothing that
// was acknowledged may be lost (I1), no transaction may be seen in part (I2), money is neither made nor lost (I3), single
// keys are linearizable (I4), and once everything is whole again, everybody is served soon.
//
//	MERIDIAN_SEEDS=n   that many seeds instead of a few; MERIDIAN_FIRST=n begins elsewhere
//	MERIDIAN_SEED=n    this seed alone, with what happened printed
//	MERIDIAN_PLAN=file faults from a file instead of the seed's (fault.Parse)
//	MERIDIAN_KINDS=a,b faults of these kinds only

const (
	faultsLast  = 25 * time.Second // of virtual time
	recoverIn   = 20 * time.Second // everybody is served, once all is healed
	recoverFar  = 30 * time.Second // in five regions, where each of those in line at a row takes a second, at two rows in turn
	opTimeout   = 6 * time.Second
	accounts    = 20
	balance     = 100
	registers   = 4
	counters    = 3
	uniqueNames = 40
)

func TestCampaign(t *testing.T) {
	seeds, first := 3, 1
	if testing.Short() {
		seeds = 1
	}
	number := func(name string, into *int) bool {
		v := os.Getenv(name)
		if v == "" {
			return false
		}
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		*into = n
		return true
	}
	number("MERIDIAN_SEEDS", &seeds)
	number("MERIDIAN_FIRST", &first)
	if number("MERIDIAN_SEED", &first) {
		seeds = 1
	}
	var virtual time.Duration
	var failed []int
	begun := time.Now()
	table := probeTable{}
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &campaign{seed: uint64(seed), stop: make(chan struct{}), probes: &probe.Set{}}
			real := time.Now()
			defer watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { k.run(t) })
			if err := k.regs.Check(time.Minute); err != nil && len(k.far) == 0 { // I4 holds within the bound only
				k.problem("%v", err)
			}
			virtual += k.took
			table.add(seed, k.probes)
			if len(k.problems) > 0 {
				failed = append(failed, seed)
			}
			if os.Getenv("MERIDIAN_SEEDS") != "" {
				how := "ok"
				if len(k.problems) > 0 {
					how = "FAILED: " + k.problems[0]
				}
				fmt.Printf("seed %d: %s, %s, %d faults, %s of virtual time in %s\n", seed, how, k.topology, len(k.plan),
					k.took.Round(time.Second), time.Since(real).Round(10*time.Millisecond))
			}
			t.Logf("%s in %s: %s", k.took.Round(time.Millisecond), time.Since(real).Round(time.Millisecond), k.summary())
			if len(k.problems) > 0 {
				t.Errorf("seed %d, %s:\n%s\nThe plan was:\n%s", seed, k.topology, strings.Join(k.problems, "\n"), k.plan)
			}
		})
	}
	t.Logf("%d seeds, %s of virtual time in %s", seeds, virtual.Round(time.Second), time.Since(begun).Round(time.Second))
	if os.Getenv("MERIDIAN_SEEDS") != "" {
		fmt.Print(table.String())
		fmt.Printf("%d seeds, %d failed %v, %.1f cluster-minutes in %s\n", seeds, len(failed), failed, virtual.Minutes(), time.Since(begun).Round(time.Second))
	}
}

// probeTable is which seeds reached which rare branch.
type probeTable map[string][]int

func (p probeTable) add(seed int, s *probe.Set) {
	for _, name := range s.Names() {
		p[name] = append(p[name], seed)
	}
}

// String has a line for each branch: how many seeds reached it, and the first of them. What recovery could have come
// upon, but has not, comes last.
func (p probeTable) String() string {
	var b strings.Builder
	b.WriteString("branches reached, by how many seeds, and the first of these:\n")
	names := slices.Sorted(maps.Keys(p))
	for _, name := range names {
		fmt.Fprintf(&b, "  %-55s %5d  %v\n", name, len(p[name]), p[name][:min(5, len(p[name]))])
	}
	for _, name := range leader.RecoveryProbes() {
		if p[name] == nil {
			fmt.Fprintf(&b, "  %-55s never\n", name)
		}
	}
	return b.String()
}

// watchdog writes a profile beside the file that MERIDIAN_DUMP names if a seed takes more than a minute of real time.
func watchdog(seed int) *time.Timer {
	return time.AfterFunc(time.Minute, func() {
		name := os.Getenv("MERIDIAN_DUMP")
		if name == "" {
			return
		}
		f, err := os.Create(fmt.Sprintf("%s.%d.cpu", name, seed))
		if err != nil || pprof.StartCPUProfile(f) != nil {
			return
		}
		time.Sleep(5 * time.Second)
		pprof.StopCPUProfile()
		f.Close()
	})
}

// campaign is one seed's run.
type campaign struct {
	seed     uint64
	topology string
	c        *simcluster.Cluster
	plan     fault.Plan
	start    time.Time
	took     time.Duration
	stop     chan struct{}
	ids      atomic.Int64
	regs     history.Registers
	probes   *probe.Set
	// far are the machines whose clocks the plan sets beyond the bound: they have to stop themselves.
	far map[string]bool

	mu       sync.Mutex // guards what follows
	problems []string
	codes    map[string]int
	done     map[string]int
	pairs    map[int64]ending
	unique   map[int64]uniqueRow
	added    [counters]struct{ sure, maybe int64 }
	recovery time.Duration
	dumped   bool
}

// ending is what a client was told.
type ending struct {
	how  history.Outcome
	note string
}

type uniqueRow struct {
	name string
	ending
}

func (k *campaign) problem(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.problems) < 20 {
		k.problems = append(k.problems, fmt.Sprintf("%s: ", k.now())+fmt.Sprintf(format, args...))
	}
}

func (k *campaign) now() time.Duration { return time.Since(k.start).Round(time.Millisecond) }

func (k *campaign) count(m *map[string]int, what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[what]++
}

func (k *campaign) summary() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := func(m map[string]int) string {
		var s []string
		for c, n := range m {
			s = append(s, fmt.Sprintf("%s %d", c, n))
		}
		sort.Strings(s)
		return strings.Join(s, ", ")
	}
	ok, failed, unknown := k.regs.Count()
	return fmt.Sprintf("%s, %d faults; served again after %s; registers: %d ok, %d failed, %d unknown; done: %s; errors: %s",
		k.topology, len(k.plan), k.recovery, ok, failed, unknown, list(k.done), list(k.codes))
}

func (k *campaign) run(t *testing.T) {
	dice := rand.New(rand.NewPCG(k.seed, 0xca3))
	o := simcluster.Options{Seed: k.seed, Log: logTo(), Probes: k.probes}
	switch dice.IntN(4) {
	case 0:
		k.topology = "three nodes in one region"
	case 1:
		k.topology, o.NodesPerRegion = "five nodes in one region", 5
	case 2:
		k.topology, o.Regions, o.NodesPerRegion = "three nodes in three regions", sim.ThreeRegions(), 1
	case 3:
		k.topology, o.Regions, o.NodesPerRegion = "five nodes in five regions", sim.FiveRegions(), 1
	}
	k.start = time.Now()
	k.c = simcluster.Start(t, o)
	if !k.prepare(t) {
		return
	}
	target := k.c.Target(k.seed)
	kinds := []fault.Kind{fault.Crash, fault.CrashSync, fault.PowerOff, fault.Isolate, fault.Pause, fault.Cut, fault.CutOneWay, fault.Flap,
		fault.Slow, fault.Reset, fault.Skew, fault.SlowDisk, fault.Behind}
	if k.seed%4 == 3 {
		kinds = append(kinds, fault.SkewFar)
	}
	if only := os.Getenv("MERIDIAN_KINDS"); only != "" {
		kinds = nil
		for name := range strings.SplitSeq(only, ",") {
			kinds = append(kinds, fault.Kind(name))
		}
	}
	k.plan = fault.Generate(k.seed, fault.Options{Nodes: k.c.Names(), Duration: faultsLast, Every: 1500 * time.Millisecond,
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

	k.far = map[string]bool{}
	for _, a := range k.plan {
		if a.Kind == fault.Skew && a.Amount.Abs() > 400*time.Millisecond {
			k.far[a.A] = true
		}
	}

	var wg sync.WaitGroup
	worker := func(n int, f func(*client)) {
		for range n {
			cl := &client{k: k, id: int(k.ids.Add(1)), dice: rand.New(rand.NewPCG(k.seed, uint64(k.ids.Load())))}
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer cl.close()
				for {
					select {
					case <-k.stop:
						return
					default:
					}
					f(cl)
					time.Sleep(time.Duration(20+cl.dice.IntN(100)) * time.Millisecond)
				}
			}()
		}
	}
	worker(3, (*client).transfer)
	worker(1, (*client).audit)
	worker(4, (*client).register)
	worker(2, (*client).relay)
	worker(2, (*client).pair)
	worker(2, (*client).uniqueInsert)
	worker(2, (*client).count)
	worker(1, (*client).administer)

	failed := make(chan struct{})
	watch := k.watch(failed)
	begun := time.Now()
	err := fault.Run(context.Background(), sim.NewClock(), k.plan, target, func(a fault.Action) {
		k.say("fault: %s", a)
		if a.Kind == fault.Restart {
			k.say("restarting %s", a.A)
		}
	})
	if err != nil {
		k.problem("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(faultsLast)))
	k.say("healing")
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	k.recovered()
	time.Sleep(2 * time.Second)
	close(k.stop)
	wg.Wait()
	k.verify()
	k.countStats()
	close(failed)
	<-watch
	k.took = time.Since(k.start)
	k.c.Stop()
	time.Sleep(20 * time.Second) // connections that nobody closed give up
}

// say prints what happens when a single seed is replayed.
func (k *campaign) say(format string, args ...any) {
	if os.Getenv("MERIDIAN_SEED") != "" {
		fmt.Fprintf(os.Stderr, "%10s  %s\n", k.now(), fmt.Sprintf(format, args...))
	}
}

// watch reports nodes that stop by themselves: no fault of a plan is a reason to.
func (k *campaign) watch(stop chan struct{}) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen := map[any]bool{}
		for {
			for i := range k.c.Len() {
				n := k.c.Node(i)
				if n == nil || seen[n] {
					continue
				}
				select {
				case err := <-n.Failed():
					seen[n] = true
					if name := k.c.Machines[i].Name; k.far[name] && errors.As(err, new(*cluster.ClockError)) {
						k.say("%s stopped itself: %v", name, err)
						k.probes.Reached("cluster: a node stops because of its clock")
						k.c.Crash(i, 0, false)
						continue
					}
					k.problem("%s stopped itself: %v", k.c.Machines[i].Name, err)
				default:
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return done
}

// prepare makes the tables, on several replicated ranges.
func (k *campaign) prepare(t *testing.T) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	conn, err := k.c.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, q := range []string{
		"CREATE TABLE bank (id int PRIMARY KEY, balance int NOT NULL)",
		fmt.Sprintf("INSERT INTO bank SELECT g, %d FROM generate_series(1, %d) g", balance, accounts),
		"CREATE TABLE reg (id int PRIMARY KEY, v int NOT NULL)",
		fmt.Sprintf("INSERT INTO reg SELECT g, 0 FROM generate_series(1, %d) g", registers),
		"CREATE TABLE pa (id int PRIMARY KEY, v int)",
		"CREATE TABLE pb (id int PRIMARY KEY, v int)",
		"CREATE TABLE uq (id int PRIMARY KEY, name text NOT NULL UNIQUE)",
		"CREATE TABLE ctr (id int PRIMARY KEY, n int NOT NULL)",
		fmt.Sprintf("INSERT INTO ctr SELECT g, 0 FROM generate_series(0, %d) g", counters-1),
		"ALTER TABLE bank SPLIT AT VALUES (0), (7), (14)",
		"ALTER TABLE reg SPLIT AT VALUES (0), (3)",
		"ALTER TABLE pb SPLIT AT VALUES (0)",
		"ALTER TABLE ctr SPLIT AT VALUES (0), (1)",
	} {
		if _, err := conn.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	for {
		ranges, err := k.c.Ranges(ctx, 0)
		full := 0
		for _, d := range ranges {
			voters := 0
			for _, r := range d.Replicas {
				if r.Type == kv.Voter {
					voters++
				}
			}
			if voters >= 3 {
				full++
			}
		}
		if err == nil && full == len(ranges) {
			return true
		}
		if ctx.Err() != nil {
			t.Fatalf("%d of %d ranges are replicated (%v)", full, len(ranges), err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// client is one worker's connection, which moves to another node when it breaks.
type client struct {
	k    *campaign
	id   int
	dice *rand.Rand
	conn *pgx.Conn
	at   int
	// other is who is told, by whoever relays.
	other *client
	// limit is how long it waits for an answer; zero is opTimeout.
	limit time.Duration
	// explain, if any, knows errors that the workload expects, and what they say of the outcome.
	explain func(*pgconn.PgError) (history.Outcome, bool)
}

func (cl *client) close() {
	if cl.other != nil {
		cl.other.close()
	}
	if cl.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		cl.conn.Close(ctx)
		cl.conn = nil
	}
}

func (cl *client) connect() error {
	if cl.conn != nil && !cl.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cl.at = cl.dice.IntN(cl.k.c.Len())
	conn, err := cl.k.c.Connect(ctx, cl.at, "defaultdb")
	if err != nil {
		return err
	}
	cl.conn = conn
	return nil
}

// do runs f on a connection and says what became of it.
func (cl *client) do(what string, f func(ctx context.Context, conn *pgx.Conn) error) (history.Outcome, string) {
	if err := cl.connect(); err != nil {
		cl.k.count(&cl.k.codes, "no connection")
		return history.Failed, "no connection"
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(cl.limit, opTimeout))
	defer cancel()
	node := cl.k.c.Machines[cl.at].Name
	err := f(ctx, cl.conn)
	if err == nil {
		cl.k.count(&cl.k.done, what)
		return history.OK, node
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		cl.close()
		// Not asked: pgconn.SafeToRetry, which also says so of a COMMIT whose answer did not come ("conn closed").
		cl.k.count(&cl.k.codes, "lost")
		return history.Unknown, node + ": " + err.Error()
	}
	cl.k.count(&cl.k.codes, pg.Code)
	note := fmt.Sprintf("%s: %s %s %s", node, pg.Code, pg.Message, pg.Detail)
	if cl.conn.PgConn().TxStatus() != 'I' && !cl.conn.IsClosed() {
		if _, err := cl.conn.Exec(ctx, "ROLLBACK"); err != nil {
			cl.close()
		}
	}
	if cl.explain != nil {
		if how, ok := cl.explain(pg); ok {
			return how, note
		}
	}
	switch pg.Code {
	case "40003", "57P01", "57014":
		return history.Unknown, note
	case "40001", "40P01", "23505", "57P03":
		return history.Failed, note
	}
	cl.k.problem("%s: %s", what, note)
	return history.Unknown, note
}

// inTxn runs f between BEGIN and COMMIT.
func inTxn(ctx context.Context, conn *pgx.Conn, f func() error) error {
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	tag, err := conn.Exec(ctx, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		return fmt.Errorf("COMMIT said %s", tag)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// transfer moves money in one of the ways in which applications do it.
func (cl *client) transfer() {
	from, to := cl.dice.IntN(accounts)+1, cl.dice.IntN(accounts-1)+1
	if to >= from {
		to++
	}
	amount, style := cl.dice.IntN(10)+1, cl.dice.IntN(4)
	cl.do("transfer", func(ctx context.Context, conn *pgx.Conn) error {
		switch style {
		case 0: // one statement
			_, err := conn.Exec(ctx, "UPDATE bank SET balance = balance + CASE WHEN id = $1 THEN -$3::int ELSE $3::int END WHERE id IN ($1, $2)", from, to, amount)
			return err
		case 1: // read, compute, write
			return inTxn(ctx, conn, func() error {
				var a, b int
				if err := conn.QueryRow(ctx, "SELECT balance FROM bank WHERE id = $1", from).Scan(&a); err != nil {
					return err
				}
				if err := conn.QueryRow(ctx, "SELECT balance FROM bank WHERE id = $1", to).Scan(&b); err != nil {
					return err
				}
				if _, err := conn.Exec(ctx, "UPDATE bank SET balance = $2 WHERE id = $1", from, a-amount); err != nil {
					return err
				}
				_, err := conn.Exec(ctx, "UPDATE bank SET balance = $2 WHERE id = $1", to, b+amount)
				return err
			})
		case 2: // locked first
			return inTxn(ctx, conn, func() error {
				if _, err := conn.Exec(ctx, "SELECT balance FROM bank WHERE id IN ($1, $2) FOR UPDATE", from, to); err != nil {
					return err
				}
				if _, err := conn.Exec(ctx, "UPDATE bank SET balance = balance - $2 WHERE id = $1", from, amount); err != nil {
					return err
				}
				_, err := conn.Exec(ctx, "UPDATE bank SET balance = balance + $2 WHERE id = $1", to, amount)
				return err
			})
		}
		// With a mistake taken back.
		return inTxn(ctx, conn, func() error {
			for _, s := range []struct {
				q    string
				args []any
			}{
				{"UPDATE bank SET balance = balance - $2 WHERE id = $1", []any{from, amount}},
				{"SAVEPOINT s", nil},
				{"UPDATE bank SET balance = balance + 1000 WHERE id = $1", []any{to}},
				{"ROLLBACK TO SAVEPOINT s", nil},
				{"UPDATE bank SET balance = balance + $2 WHERE id = $1", []any{to, amount}},
			} {
				if _, err := conn.Exec(ctx, s.q, s.args...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// audit adds up what there should be, in one statement or two, and counts pairs.
func (cl *client) audit() {
	switch cl.dice.IntN(3) {
	case 0:
		var n, sum int
		how, note := cl.do("audit", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT count(*), sum(balance) FROM bank").Scan(&n, &sum)
		})
		if how == history.OK && (n != accounts || sum != accounts*balance) {
			cl.k.problem("bank: %d accounts hold %d, seen from %s", n, sum, note)
		}
	case 1:
		var low, high int
		how, note := cl.do("audit", func(ctx context.Context, conn *pgx.Conn) error {
			return inTxn(ctx, conn, func() error {
				if err := conn.QueryRow(ctx, "SELECT sum(balance) FROM bank WHERE id <= 10").Scan(&low); err != nil {
					return err
				}
				return conn.QueryRow(ctx, "SELECT sum(balance) FROM bank WHERE id > 10").Scan(&high)
			})
		})
		if how == history.OK && low+high != accounts*balance {
			cl.k.problem("bank: %d and %d, in one transaction, seen from %s", low, high, note)
		}
	case 2:
		var a, b int
		how, note := cl.do("audit", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM pa), (SELECT count(*) FROM pb)").Scan(&a, &b)
		})
		if how == history.OK && a != b {
			cl.k.problem("pairs: %d and %d, seen from %s", a, b, note)
		}
	}
}

// register does one operation on one row.
func (cl *client) register() {
	op := history.Op{Key: cl.dice.IntN(registers) + 1}
	switch n := cl.dice.IntN(10); {
	case n < 5:
		op.Kind = history.Read
	case n < 8:
		op.Kind, op.Value = history.Write, cl.k.ids.Add(1)
	default:
		op.Kind, op.Value = history.CAS, cl.k.ids.Add(1)
		// What it expects is what was read a moment ago.
		if how, _ := cl.do("read", func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT v FROM reg WHERE id = $1", op.Key).Scan(&op.Expected)
		}); how != history.OK {
			return
		}
	}
	cl.operate(op, false)
}

// relay writes a row, and as soon as that is acknowledged, reads it through another gateway, which may not have heard of
// anything since: if its clock is behind, all that makes the read find the row is its uncertainty interval (I4).
func (cl *client) relay() {
	k := cl.k
	if cl.other == nil {
		cl.other = &client{k: k, id: int(k.ids.Add(1)), dice: cl.dice}
	} else if cl.dice.IntN(8) == 0 {
		cl.other.close()
	}
	if cl.other.connect() != nil {
		return
	}
	key := cl.dice.IntN(registers) + 1
	if cl.operate(history.Op{Key: key, Kind: history.Write, Value: k.ids.Add(1)}, false) == history.OK {
		cl.other.operate(history.Op{Key: key, Kind: history.Read}, cl.dice.IntN(4) > 0)
	}
}

// operate does an operation on a register. A read between BEGIN and COMMIT has its gateway's time; one alone may have its
// leaseholder's.
func (cl *client) operate(op history.Op, txn bool) history.Outcome {
	k := cl.k
	op.Client, op.When = cl.id, k.now()
	o := k.regs.Begin(op)
	var result int64
	var swapped bool
	how, note := cl.do([]string{"read", "write", "cas"}[op.Kind], func(ctx context.Context, conn *pgx.Conn) error {
		switch op.Kind {
		case history.Read:
			read := func() error { return conn.QueryRow(ctx, "SELECT v FROM reg WHERE id = $1", op.Key).Scan(&result) }
			if txn {
				return inTxn(ctx, conn, read)
			}
			return read()
		case history.Write:
			_, err := conn.Exec(ctx, "UPDATE reg SET v = $2 WHERE id = $1", op.Key, op.Value)
			return err
		}
		tag, err := conn.Exec(ctx, "UPDATE reg SET v = $3 WHERE id = $1 AND v = $2", op.Key, op.Expected, op.Value)
		swapped = tag.RowsAffected() == 1
		return err
	})
	switch how {
	case history.OK:
		k.regs.OK(o, result, swapped)
		o.Note = note
	case history.Failed:
		k.regs.Failed(o, note)
	default:
		k.regs.Unknown(o, note)
	}
	return how
}

// pair inserts one row into each of two ranges, or none.
func (cl *client) pair() {
	k := cl.k
	id := k.ids.Add(1)
	how, note := cl.do("pair", func(ctx context.Context, conn *pgx.Conn) error {
		return inTxn(ctx, conn, func() error {
			if _, err := conn.Exec(ctx, "INSERT INTO pa VALUES ($1, $2)", id, cl.at); err != nil {
				return fmt.Errorf("pa: %w", err)
			}
			_, err := conn.Exec(ctx, "INSERT INTO pb VALUES ($1, $2)", id, cl.at)
			return err
		})
	})
	if strings.Contains(note, "23505") {
		k.problem("pair %d: %s", id, note)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pairs == nil {
		k.pairs = map[int64]ending{}
	}
	k.pairs[id] = ending{how, fmt.Sprintf("%s %s", k.now(), note)}
}

// uniqueInsert wants a name that others want too.
func (cl *client) uniqueInsert() {
	k := cl.k
	id := k.ids.Add(1)
	// The names move on with time, so that there is always one that nobody has yet.
	name := fmt.Sprintf("name%d", int(k.now()/time.Second)*4+cl.dice.IntN(uniqueNames))
	how, note := cl.do("unique", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "INSERT INTO uq VALUES ($1, $2)", id, name)
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unique == nil {
		k.unique = map[int64]uniqueRow{}
	}
	k.unique[id] = uniqueRow{name, ending{how, fmt.Sprintf("%s %s", k.now(), note)}}
}

// count adds to one counter, or to two in two ranges.
func (cl *client) count() {
	k := cl.k
	a, b := cl.dice.IntN(counters), cl.dice.IntN(counters)
	how, _ := cl.do("count", func(ctx context.Context, conn *pgx.Conn) error {
		if a == b {
			_, err := conn.Exec(ctx, "UPDATE ctr SET n = n + 1 WHERE id = $1", a)
			return err
		}
		_, err := conn.Exec(ctx, "UPDATE ctr SET n = n + 1 WHERE id IN ($1, $2)", a, b)
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.added {
		if i == a || i == b {
			switch how {
			case history.OK:
				k.added[i].sure++
			case history.Unknown:
				k.added[i].maybe++
			}
		}
	}
}

// administer moves leases and splits ranges.
func (cl *client) administer() {
	k := cl.k
	time.Sleep(time.Duration(cl.dice.IntN(1000)) * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if cl.dice.IntN(4) == 0 {
		table := []string{"bank", "reg", "pa", "pb", "ctr"}[cl.dice.IntN(5)]
		at := cl.dice.IntN(20)
		if table[0] == 'p' {
			at = cl.dice.IntN(int(k.ids.Load()))
		}
		cl.do("split", func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s SPLIT AT VALUES (%d)", table, at))
			return err
		})
		return
	}
	i := cl.dice.IntN(k.c.Len())
	n := k.c.Node(i)
	if n == nil || n.Store() == nil {
		return
	}
	admin := func(what string, r kv.Request) {
		if _, err := n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{r}}); err == nil {
			k.count(&k.done, what)
		}
	}
	ranges, err := k.c.Ranges(ctx, i)
	if err != nil || len(ranges) == 0 {
		return
	}
	d := ranges[cl.dice.IntN(len(ranges))]
	switch cl.dice.IntN(8) {
	case 0:
		admin("merge", &kv.AdminMergeRequest{Key: d.Start})
	case 1:
		// One replica moves to a node that has none.
		var to []kv.ReplicaTarget
		out := cl.dice.IntN(len(d.Replicas))
		spare := k.spare(&d)
		if len(spare) == 0 {
			return
		}
		for i, r := range d.Replicas {
			if i == out {
				r.Node = spare[cl.dice.IntN(len(spare))]
			}
			to = append(to, kv.ReplicaTarget{Node: r.Node, Store: kv.StoreID(r.Node)})
		}
		admin("move", &kv.AdminChangeReplicasRequest{Key: d.Start, Targets: to})
	default:
		admin("lease", &kv.AdminTransferLeaseRequest{Key: d.Start, Target: d.Replicas[cl.dice.IntN(len(d.Replicas))].Node})
	}
}

// spare lists the nodes that have no replica of a range.
func (k *campaign) spare(d *kv.RangeDescriptor) (out []kv.NodeID) {
	for i := range k.c.Len() {
		if n := k.c.Node(i); n != nil && n.NodeID() != 0 {
			if _, ok := d.Replica(n.NodeID()); !ok {
				out = append(out, n.NodeID())
			}
		}
	}
	return out
}

// recovered waits until every node serves a write to every table.
func (k *campaign) recovered() {
	healed, within := time.Now(), recoverIn
	if k.c.Len() == 5 && k.c.Machines[0].Region != k.c.Machines[4].Region {
		within = recoverFar
	}
	var wg sync.WaitGroup
	for i := range k.c.Len() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx, cancel := context.WithDeadline(context.Background(), healed.Add(within))
			defer cancel()
			var err error
			var took []time.Duration // of what was served already; the load goes on, so it is not asked for again
			for {
				if took, err = k.touchAll(ctx, i, took); err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			k.say("%s serves after %s: %v, %v", k.c.Machines[i].Name, time.Since(healed), took, err)
			if err != nil {
				k.dump()
				k.problem("%s does not serve %s after everything healed: %v, after %v", k.c.Machines[i].Name, time.Since(healed), err, took)
			}
		}()
	}
	wg.Wait()
	k.recovery = time.Since(healed)
}

// touchAll goes on after as many statements as have been served, and says how long each took.
func (k *campaign) touchAll(ctx context.Context, i int, took []time.Duration) ([]time.Duration, error) {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return took, err
	}
	defer conn.Close(ctx)
	all := []string{"UPDATE bank SET balance = balance WHERE id = 1", "UPDATE bank SET balance = balance WHERE id = 20",
		"UPDATE ctr SET n = n WHERE id = 0", "UPDATE ctr SET n = n WHERE id = 2", "SELECT count(*) FROM pa", "SELECT count(*) FROM pb",
		"SELECT count(*) FROM uq"}
	for _, q := range all[len(took):] {
		begun := time.Now()
		if _, err := conn.Exec(ctx, q); err != nil {
			return took, fmt.Errorf("%s: %w", q, err)
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

// verify compares what there is with what was promised, from every node.
func (k *campaign) verify() {
	for i, m := range k.c.Machines {
		var err error
		for range 20 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			err = k.verifyFrom(ctx, i)
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

// dump writes what every goroutine does to the file that MERIDIAN_DUMP names, once.
func (k *campaign) dump() {
	name := os.Getenv("MERIDIAN_DUMP")
	k.mu.Lock()
	done := k.dumped
	k.dumped = true
	k.mu.Unlock()
	if name == "" || done {
		return
	}
	f, err := os.Create(name)
	if err != nil {
		return
	}
	defer f.Close()
	for range 3 { // what stands still shows
		fmt.Fprintf(f, "at %s\n", k.now())
		for i := range k.c.Len() {
			if n := k.c.Node(i); n != nil && n.Store() != nil {
				fmt.Fprintf(f, "%s is node %d\n", k.c.Machines[i].Name, n.NodeID())
				n.Store().Replicas(func(r *replica.Replica) bool {
					s := r.Status()
					d, l := s.Desc, s.Lease
					s.Desc, s.Lease = nil, lease.Lease{}
					fmt.Fprintf(f, "  %v  %v  %+v\n", d, l, s)
					return true
				})
			}
		}
		time.Sleep(time.Second)
	}
	pprof.Lookup("goroutine").WriteTo(f, 2)
}

// countStats compares every replica's statistics with its data.
func (k *campaign) countStats() {
	for i, m := range k.c.Machines {
		n := k.c.Node(i)
		if n == nil || n.Store() == nil {
			continue
		}
		n.Store().Replicas(func(r *replica.Replica) bool {
			kept, counted, err := r.CountStats()
			if err != nil || kept != counted {
				k.problem("%s, %v: statistics say %+v, a count %+v (%v)", m.Name, r.Desc(), kept, counted, err)
			}
			return true
		})
	}
}

func (k *campaign) verifyFrom(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	from := k.c.Machines[i].Name
	var n, sum int
	if err := conn.QueryRow(ctx, "SELECT count(*), sum(balance) FROM bank").Scan(&n, &sum); err != nil {
		return err
	}
	if n != accounts || sum != accounts*balance {
		k.problem("bank: in the end %d accounts hold %d, seen from %s", n, sum, from)
	}
	for key := 1; key <= registers; key++ {
		o := k.regs.Begin(history.Op{Client: 1000 + i, Key: key, When: k.now()})
		var v int64
		if err := conn.QueryRow(ctx, "SELECT v FROM reg WHERE id = $1", key).Scan(&v); err != nil {
			k.regs.Failed(o, err.Error())
			return err
		}
		k.regs.OK(o, v, false)
	}
	column := func(q string) (map[int64]string, error) {
		rows, err := conn.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		out := map[int64]string{}
		for rows.Next() {
			var id int64
			var s string
			if err := rows.Scan(&id, &s); err != nil {
				return nil, err
			}
			if _, twice := out[id]; twice {
				k.problem("%s returned %d twice, seen from %s", q, id, from)
			}
			out[id] = s
		}
		return out, rows.Err()
	}
	pa, err := column("SELECT id, v::text FROM pa")
	if err != nil {
		return err
	}
	pb, err := column("SELECT id, v::text FROM pb")
	if err != nil {
		return err
	}
	byKey, err := column("SELECT id, name FROM uq ORDER BY id")
	if err != nil {
		return err
	}
	byName, err := column("SELECT id, name FROM uq ORDER BY name")
	if err != nil {
		return err
	}
	ctr, err := column("SELECT id, n::text FROM ctr")
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	bad := func(format string, args ...any) {
		if len(k.problems) < 20 {
			k.problems = append(k.problems, fmt.Sprintf(format, args...)+", seen from "+from)
		}
	}
	for id, e := range k.pairs {
		how := e.how
		_, a := pa[id]
		_, b := pb[id]
		if a != b || how == history.OK && !a || how == history.Failed && a {
			bad("pair %d (outcome %d, %s) is there: %v and %v", id, how, e.note, a, b)
		}
	}
	for id, u := range k.unique {
		_, there := byKey[id]
		if u.how == history.OK && !there || u.how == history.Failed && there {
			bad("%s of row %d (outcome %d, %s) is there: %v", u.name, id, u.how, u.note, there)
		}
	}
	names := map[string]int64{}
	for id, name := range byKey {
		if other, taken := names[name]; taken {
			bad("%s is in rows %d and %d", name, id, other)
		}
		names[name] = id
		if byName[id] != name {
			bad("row %d is %q in the index and %q in the table", id, byName[id], name)
		}
	}
	if len(byName) != len(byKey) {
		bad("the table has %d names, the index %d", len(byKey), len(byName))
	}
	for j, a := range k.added {
		v, _ := strconv.ParseInt(ctr[int64(j)], 10, 64)
		if v < a.sure || v > a.sure+a.maybe {
			bad("counter %d is %d; %d additions were acknowledged, %d are unknown", j, v, a.sure, a.maybe)
		}
	}
	return nil
}

// TestCampaignPlans: the same seed gives the same plan, which can be printed and read back.
func TestCampaignPlans(t *testing.T) {
	o := fault.Options{Nodes: []string{"n1", "n2", "n3"}, Duration: faultsLast}
	p := fault.Generate(7, o)
	again, err := fault.Parse(p.String())
	if err != nil || !slices.Equal(again, p) || !slices.Equal(p, fault.Generate(7, o)) || len(p) == 0 {
		t.Fatalf("%v\n%s\n%s", err, p, again)
	}
}
