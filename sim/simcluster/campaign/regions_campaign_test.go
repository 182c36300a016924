package campaign_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/placement"
	"meridian/probe"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/workload/anomalies"
)

// The campaign of regions: clusters of four to nine regions, of which one at a time is lost or cut off, while localities, survival goals, placements and
// regions change and clients of all regions work. Package workload/anomalies judges serializability and linearizability over its tables, whose localities
// change; table kept has the same rows at every moment, wherever they are homed; names are unique over all regions (exec.X7); no change of replicas that was
// ever committed placed one where the configuration in force forbade it (I8, rangeserver.RS4); rewrites by locality find what plain plans do. Once all is whole, all
// ranges get to where their configurations want them, and no job is left. MERIDIAN_SEEDS, MERIDIAN_FIRST, MERIDIAN_SEED and MERIDIAN_PLAN are
// TestCampaign's.

const (
	regionFaults = 30 * time.Second // of virtual time
	regionCalm   = 10 * time.Second // after the last fault, with all clients
	regionsWhole = 4 * time.Minute  // every range is in its place and every job has ended, once all faults are repaired
	keptRows     = 40
)

func TestRegionsCampaign(t *testing.T) {
	t.Parallel()
	var virtual time.Duration
	var failed []int
	seeds := simtest.Seeds(t, 1, 1)
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := newRegionsCampaign(uint64(seed))
			begun := time.Now()
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { k.run(t) })
			if err := k.work.Judged(); err != nil {
				k.problem("%v", err)
			}
			if err := k.regs.Check(time.Minute); err != nil {
				k.problem("%v", err)
			}
			virtual += k.took
			how := "ok"
			if len(k.problems) > 0 {
				how, failed = "FAILED: "+k.problems[0], append(failed, seed)
			}
			if os.Getenv("MERIDIAN_SEEDS") != "" {
				fmt.Printf("seed %d: %s, %s, %s of virtual time in %s\n", seed, how, k.topology, k.took.Round(time.Second), time.Since(begun).Round(10*time.Millisecond))
			}
			t.Logf("%s in %s: %s\n%s", k.took.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond), k.regionSummary(), k.verdicts.String())
			if len(k.problems) > 0 {
				t.Errorf("seed %d, %s:\n%s\nThe statements were:\n%s\nThe plan was:\n%s", seed, k.topology, strings.Join(k.problems, "\n"), k.told(), k.plan)
			}
		})
	}
	if os.Getenv("MERIDIAN_SEEDS") != "" {
		fmt.Printf("%d seeds of regions, %d failed %v, %.1f cluster-minutes\n", len(seeds), len(failed), failed, virtual.Minutes())
	}
}

type regionsCampaign struct {
	schemaCampaign
	regions  []string // of the cluster
	work     *anomalies.Anomalies
	verdicts strings.Builder
	// settled is how long it took until all was in its place; placed are the replicas that changes have placed, of which so many where not every region was allowed.
	settled            time.Duration
	placed, restricted int

	ddl        sync.Mutex // guards the fields below
	statements []*regionStatement
	// As of the last statement that was acknowledged: the tables that are REGIONAL BY ROW, and the database's regions.
	byRow, members map[string]bool
}

// regionStatement is a statement of regions, when it was called and when it returned.
type regionStatement struct {
	text, note   string
	call, answer time.Time
	how          string // ok, refused or unknown; empty while it runs
}

func newRegionsCampaign(seed uint64) *regionsCampaign {
	k := &regionsCampaign{work: anomalies.New()}
	k.campaign = &campaign{seed: seed, probes: &probe.Set{}, newNames: 20}
	k.byRow = map[string]bool{"kept": true, "uq": true, "anomaly_lists0": true, "anomaly_register": true}
	k.work.Think, k.work.Out = 10*time.Millisecond, &k.verdicts
	k.work.Only = "lists,values,register,bank,counter,unique,skew"
	return k
}

// manyRegions are the five regions of the paper, then four more, each of which is near to one of these.
func manyRegions(n int) *sim.Regions {
	type place struct {
		name, near string
		ms         float64
	}
	five := sim.FiveRegions()
	var all []place
	for _, r := range five.Names {
		all = append(all, place{r, r, 0})
	}
	all = append(all, place{"us-central1", "us-east1", 33}, place{"europe-north1", "europe-west1", 32}, place{"asia-south1", "asia-northeast1", 120},
		place{"southamerica-east1", "us-east1", 115})[:n]
	var names []string
	var ms []float64
	for i, a := range all {
		names = append(names, a.name)
		for _, b := range all[i+1:] {
			ms = append(ms, a.ms+b.ms+float64(five.RTT(a.near, b.near))/float64(time.Millisecond))
		}
	}
	r, err := sim.NewRegions(names, ms...)
	if err != nil {
		panic(err)
	}
	return r
}

func (k *regionsCampaign) run(t *testing.T) {
	dice := rand.New(rand.NewPCG(k.seed, 0x4e610))
	n := 4 + dice.IntN(6)
	if k.seed == 1 {
		n = 4
	}
	all := manyRegions(n)
	k.regions, k.members = all.Names, map[string]bool{}
	for _, r := range all.Names[:n-1] {
		k.members[r] = true
	}
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo(), Probes: k.probes, Regions: all, MaxOffset: 250 * time.Millisecond}
	for i := range n {
		o.Nodes = append(o.Nodes, 1)
		if i == 0 {
			o.Nodes[i] = 3
		} else if n == 4 && k.seed > 1 {
			o.Nodes[i] = 3
		} else if n < 7 && k.seed > 1 {
			o.Nodes[i] = 2
		}
	}
	k.start, k.stop = time.Now(), make(chan struct{})
	k.c = simcluster.Start(t, o)
	k.topology = fmt.Sprintf("%d nodes in %d regions", k.c.Len(), n)
	k.prepareRegions(t)

	k.plan = k.makePlan(dice)
	if file := os.Getenv("MERIDIAN_PLAN"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if k.plan, err = fault.Parse(string(b)); err != nil {
			t.Fatal(err)
		}
	}
	var clients sync.WaitGroup
	k.clients(t, &clients)
	watched := make(chan struct{})
	seen := k.follow(watched)
	failed := make(chan struct{})
	watch := k.watch(failed)
	begun := time.Now()
	target := k.c.Target(k.seed)
	if err := fault.Run(context.Background(), sim.NewClock(), k.plan, target, func(a fault.Action) { k.say("fault: %s", a) }); err != nil {
		k.problem("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(regionFaults)))
	k.say("healing")
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	time.Sleep(regionCalm)
	close(k.stop)
	clients.Wait()
	k.settle()
	k.finish()
	k.everywhere(k.verifyRegions)
	k.everywhere(func(ctx context.Context, i int) error {
		_, err := k.checkIndexes(ctx, i)
		return err
	})
	close(watched)
	k.checkPlaced(<-seen)
	k.countStats()
	k.compareAll()
	close(failed)
	<-watch
	k.took = time.Since(k.start)
	k.c.Stop()
	time.Sleep(20 * time.Second) // connections that were not closed time out
}

// prepareRegions makes the tables, in a database over all regions but one or two.
func (k *regionsCampaign) prepareRegions(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := k.c.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	texts := []string{fmt.Sprintf(`ALTER DATABASE defaultdb SET PRIMARY REGION "%s"`, k.regions[0])}
	for _, r := range k.regions[1 : len(k.regions)-1] {
		texts = append(texts, fmt.Sprintf(`ALTER DATABASE defaultdb ADD REGION "%s"`, r))
	}
	texts = append(texts,
		"CREATE TABLE kept (id int PRIMARY KEY, v int NOT NULL, code text NOT NULL UNIQUE, note text) LOCALITY REGIONAL BY ROW",
		fmt.Sprintf("INSERT INTO kept SELECT g, g * g, 'code' || g, repeat('x', g) FROM generate_series(1, %d) g", keptRows),
		"CREATE TABLE uq (id int PRIMARY KEY, name text NOT NULL UNIQUE) LOCALITY REGIONAL BY ROW",
		"CREATE TABLE reg (id int PRIMARY KEY, v int) LOCALITY GLOBAL",
		fmt.Sprintf("INSERT INTO reg SELECT g, 0 FROM generate_series(1, %d) g", registers),
		"CREATE DATABASE plain")
	for _, q := range texts {
		if _, err := conn.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	plain, err := k.c.Connect(ctx, 0, "plain")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close(ctx)
	for _, q := range []string{"CREATE TABLE fenced (id int PRIMARY KEY, v int)", "INSERT INTO fenced SELECT g, g FROM generate_series(1, 20) g",
		"ALTER TABLE fenced SPLIT AT VALUES (5), (10), (15)",
		fmt.Sprintf(`ALTER TABLE fenced CONFIGURE ZONE USING constraints = '[-region=%s]'`, k.regions[1])} {
		if _, err := plain.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if err := k.work.Init(ctx, conn); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"ALTER TABLE anomaly_lists0 SET LOCALITY REGIONAL BY ROW", "ALTER TABLE anomaly_values SET LOCALITY GLOBAL",
		"ALTER TABLE anomaly_register SET LOCALITY REGIONAL BY ROW", "ALTER TABLE anomaly_skew SET LOCALITY GLOBAL"} {
		if _, err := conn.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	anomalyReplicated(ctx, t, k.c)
}

// makePlan makes the faults of single links, clocks and disks, and between them those of whole regions, one at a time.
func (k *regionsCampaign) makePlan(dice *rand.Rand) fault.Plan {
	plan := fault.Generate(k.seed, fault.Options{Nodes: k.c.Names(), Duration: regionFaults, Every: 2500 * time.Millisecond, Lasting: 4 * time.Second,
		Kinds:   []fault.Kind{fault.Cut, fault.CutOneWay, fault.Flap, fault.Slow, fault.Reset, fault.Skew, fault.SlowDisk, fault.Behind},
		MaxSkew: 110 * time.Millisecond, MaxSlowDisk: time.Second})
	add := func(a fault.Action) { plan = append(plan, a) }
	for at := time.Duration(1000+dice.IntN(3000)) * time.Millisecond; at < regionFaults-8*time.Second; {
		region := k.regions[dice.IntN(len(k.regions))]
		end := at + time.Duration(2000+dice.IntN(6000))*time.Millisecond
		kind := dice.IntN(4)
		for _, m := range k.c.Machines {
			if m.Region != region {
				continue
			}
			switch kind {
			case 0, 1: // the region is lost
				add(fault.Action{At: at, Kind: []fault.Kind{fault.Crash, fault.PowerOff}[kind], A: m.Name})
				add(fault.Action{At: end, Kind: fault.Restart, A: m.Name})
			case 2: // cut off
				for _, other := range k.c.Machines {
					if other.Region != region {
						add(fault.Action{At: at, Kind: fault.Cut, A: m.Name, B: other.Name})
						add(fault.Action{At: end, Kind: fault.Heal, A: m.Name, B: other.Name})
					}
				}
			case 3: // one of its machines dies, at a sync
				add(fault.Action{At: at, Kind: fault.CrashSync, A: m.Name, Amount: time.Duration(1 + dice.IntN(100))})
				add(fault.Action{At: end, Kind: fault.Revive, A: m.Name})
			}
			if kind == 3 {
				break
			}
		}
		at = end + time.Duration(1000+dice.IntN(4000))*time.Millisecond
	}
	slices.SortStableFunc(plan, func(a, b fault.Action) int { return int(a.At - b.At) })
	return plan
}

// settle waits until all is where the schema wants it: no job runs, no replica is where it is forbidden, and every node is served.
func (k *regionsCampaign) settle() {
	begun := time.Now()
	left := ""
	for time.Since(begun) < regionsWhole {
		if left = k.unsettled(); left == "" {
			k.settled = time.Since(begun)
			return
		}
		time.Sleep(time.Second)
	}
	k.dump()
	k.problem("not settled %s after everything healed: %s", regionsWhole, left)
}

func (k *regionsCampaign) unsettled() string {
	for i, m := range k.c.Machines {
		n := k.c.Node(i)
		if n == nil || n.Store() == nil || n.Catalog() == nil {
			return m.Name + " is not started"
		}
		if s := k.unfinished(i); s != "" {
			return m.Name + ": " + s
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	misfits, _, err := k.c.Node(0).Conforms(ctx, keys.Span{Start: keys.TablePrefix, End: keys.TablePrefix.PrefixEnd()}, true)
	if err != nil {
		return err.Error()
	}
	for i := range misfits {
		x := &misfits[i]
		if zone, _ := k.c.Node(0).ZoneOf(x.Span.Start); x.Mixed || k.possible(&zone) && (len(x.Forbidden) > 0 || x.Lease) {
			return fmt.Sprintf("%s: %s", x.Span, x)
		}
	}
	return ""
}

// possible reports whether there are as many nodes as a configuration wants voters where it wants them; a home region may have fewer.
func (k *regionsCampaign) possible(zone *placement.Zone) bool {
	n := 0
	for _, x := range k.c.Node(0).Store().Nodes() {
		if !zone.Forbids(&x, true) {
			n++
		}
	}
	return n >= zone.Voters()
}

// finish has the recorded history end with reads of all rows.
func (k *regionsCampaign) finish() {
	k.everywhere(func(ctx context.Context, i int) error {
		if i > 0 {
			return nil
		}
		conn, err := k.c.Connect(ctx, i, "defaultdb")
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		return k.work.Finish(ctx, conn)
	})
}

func (k *regionsCampaign) regionSummary() string {
	k.ddl.Lock()
	defer k.ddl.Unlock()
	n := map[string]int{}
	for _, s := range k.statements {
		n[s.how]++
	}
	return fmt.Sprintf("%d statements of regions: %v; settled after %s; %d replicas were placed, %d of them where not every region was allowed; %s",
		len(k.statements), n, k.settled.Round(100*time.Millisecond), k.placed, k.restricted, k.summary())
}

// told lists the statements of regions.
func (k *regionsCampaign) told() string {
	k.ddl.Lock()
	defer k.ddl.Unlock()
	var b strings.Builder
	for _, s := range k.statements {
		fmt.Fprintf(&b, "%8s to %8s %-8s %s %s\n", s.call.Sub(k.start).Round(time.Millisecond), s.answer.Sub(k.start).Round(time.Millisecond), s.how, s.text, s.note)
	}
	return b.String()
}
