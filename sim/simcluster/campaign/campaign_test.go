package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/cluster"
	"meridian/commit/leader"
	"meridian/history"
	"meridian/kv"
	"meridian/probe"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// The campaign: for each seed a cluster, clients that remember the answers that they got, and a plan of faults. No
// acknowledged write may be lost (I1), no transaction may be seen in part (I2), money is neither made nor lost (I3),
// single keys are linearizable (I4), and once all faults are repaired, every client is served soon.
//
//	MERIDIAN_SEEDS=n   that many seeds instead of a few; MERIDIAN_FIRST=n begins elsewhere
//	MERIDIAN_SEED=n    this seed alone, with a log of events
//	MERIDIAN_PLAN=file faults from a file instead of the seed's (fault.Parse)
//	MERIDIAN_KINDS=a,b faults of these kinds only

const (
	faultsLast  = 25 * time.Second // of virtual time
	recoverIn   = 20 * time.Second // every client is served, once all faults are repaired
	recoverFar  = 30 * time.Second // in five regions, where each of those in line at a row takes a second, at two rows in turn
	opTimeout   = 6 * time.Second
	accounts    = 20
	balance     = 100
	registers   = 4
	counters    = 3
	uniqueNames = 40
)

func TestCampaign(t *testing.T) {
	t.Parallel()
	seeds := simtest.Seeds(t, 1, 2)
	var virtual time.Duration
	var failed []int
	begun := time.Now()
	table := probeTable{}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &campaign{seed: uint64(seed), stop: make(chan struct{}), probes: &probe.Set{}}
			real := time.Now()
			defer simtest.Watchdog(seed).Stop()
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
	t.Logf("%d seeds, %s of virtual time in %s", len(seeds), virtual.Round(time.Second), time.Since(begun).Round(time.Second))
	if os.Getenv("MERIDIAN_SEEDS") != "" {
		fmt.Print(table.String())
		fmt.Printf("%d seeds, %d failed %v, %.1f cluster-minutes in %s\n", len(seeds), len(failed), failed, virtual.Minutes(), time.Since(begun).Round(time.Second))
	}
}

// probeTable has the seeds that reached each rare branch.
type probeTable map[string][]int

func (p probeTable) add(seed int, s *probe.Set) {
	for _, name := range s.Names() {
		p[name] = append(p[name], seed)
	}
}

// String has a line for each branch: how many seeds reached it, and the first of them. Cases that recovery could have met, but has not, come last.
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
	binaries *binaries // nil: all nodes run this build
	// configure changes the options of nodes; nil: it does not. before are statements that are run before the tables are made.
	configure func(i int, o *server.Options)
	before    []string
	// newNames is how many names a second clients begin to insert into table uq; zero: 4.
	newNames int
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

// ending is the outcome that a client got.
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

// now is the campaign's virtual time; when it has ended, and real time goes on, that of its end.
func (k *campaign) now() time.Duration {
	if k.took > 0 {
		return k.took.Round(time.Millisecond)
	}
	return time.Since(k.start).Round(time.Millisecond)
}

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
	versions := ""
	if k.binaries != nil {
		versions = "; " + k.binaries.summary()
	}
	return fmt.Sprintf("%s, %d faults%s; served again after %s; registers: %d ok, %d failed, %d unknown; done: %s; errors: %s",
		k.topology, len(k.plan), versions, k.recovery, ok, failed, unknown, list(k.done), list(k.codes))
}

func (k *campaign) run(t *testing.T) {
	dice := rand.New(rand.NewPCG(k.seed, 0xca3))
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo(), Probes: k.probes, Configure: k.configure}
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
	k.binaries = newBinaries(k.seed, &o)
	k.start = time.Now()
	k.c = simcluster.Start(t, o)
	k.binaries.attach(k.c, k.problem, k.say)
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

	wg.Go(func() { k.binaries.run(k.stop) })

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
	k.binaries.rest(true)
	k.say("healing")
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	k.recovered()
	k.binaries.rest(false)
	time.Sleep(2 * time.Second)
	k.binaries.complete()
	close(k.stop)
	wg.Wait()
	k.verify()
	k.countStats()
	k.compareAll()
	close(failed)
	<-watch
	k.took = time.Since(k.start)
	k.c.Stop()
	time.Sleep(20 * time.Second) // connections that were not closed time out
}

// say prints events when a single seed is replayed.
func (k *campaign) say(format string, args ...any) {
	if os.Getenv("MERIDIAN_SEED") != "" {
		fmt.Fprintf(os.Stderr, "%10s  %s\n", k.now(), fmt.Sprintf(format, args...))
	}
}

// watch reports nodes that stop by themselves: no fault of a plan is a reason to stop.
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
				if err := k.c.StoppedItself(i, n); err != nil {
					seen[n] = true
					if k.binaries != nil && k.binaries.tooOld(i, err) {
						continue
					}
					if name := k.c.Machines[i].Name; k.far[name] && errors.As(err, new(*cluster.ClockError)) {
						k.say("%s stopped itself: %v", name, err)
						k.probes.Reached("cluster: a node stops because of its clock")
						k.c.Crash(i, 0, false)
						continue
					}
					k.problem("%s stopped itself: %v", k.c.Machines[i].Name, err)
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
	for _, q := range append(k.before,
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
	) {
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

// TestCampaignPlans: the same seed gives the same plan, which can be printed and read back.
func TestCampaignPlans(t *testing.T) {
	t.Parallel()
	o := fault.Options{Nodes: []string{"n1", "n2", "n3"}, Duration: faultsLast}
	p := fault.Generate(7, o)
	again, err := fault.Parse(p.String())
	if err != nil || !slices.Equal(again, p) || !slices.Equal(p, fault.Generate(7, o)) || len(p) == 0 {
		t.Fatalf("%v\n%s\n%s", err, p, again)
	}
}
