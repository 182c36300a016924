package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/probe"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// The campaign of atomic transactions: random transactions of data definition and rows, whose gateways die anywhere. Each writes a row of
// its own in log, which says whether it has committed. In the end everything that a transaction has made exists if that row does, and
// nothing otherwise; no table is locked, no data of indexes that do not exist is stored, and the replicas agree (I2, schemachange.SC5).
// MERIDIAN_SEEDS, MERIDIAN_FIRST and MERIDIAN_SEED are TestCampaign's.

const (
	atomicFaults = 20 * time.Second // of virtual time
	atomicTables = 3
	atomicRows   = 300 // of the last table: an index of it is loaded
)

func TestAtomicCampaign(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &atomicCampaign{schemaCampaign: schemaCampaign{campaign: &campaign{seed: uint64(seed), stop: make(chan struct{}), probes: &probe.Set{}}}}
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { k.run(t) })
			t.Logf("%s: %s", k.topology, k.summary())
			if len(k.problems) > 0 {
				t.Errorf("seed %d, %s:\n%s\nThe plan was:\n%s", seed, k.topology, strings.Join(k.problems, "\n"), k.plan)
			}
		})
	}
}

type atomicCampaign struct {
	schemaCampaign
	mu   sync.Mutex
	made []atomicThing
	told map[int64]history.Outcome
}

// atomicThing is an object that a transaction has made, and that another may have dropped.
type atomicThing struct {
	query          string // a number that is one if it exists
	by, dropped    int64
	kind, on, name string
}

func (k *atomicCampaign) run(t *testing.T) {
	k.told = map[int64]history.Outcome{}
	k.removal = 10 * time.Minute // hundreds of jobs, one after the other
	k.start = time.Now()
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo(), Probes: k.probes, Configure: func(_ int, o *server.Options) { o.RemoveAfter = schemaRemove }}
	k.topology = "three nodes in one region"
	if k.seed%3 == 0 {
		k.topology, o.Regions, o.NodesPerRegion = "three nodes in three regions", sim.ThreeRegions(), 1
		k.wide = true
	}
	k.binaries = newBinaries(k.seed, &o)
	k.c = simcluster.Start(t, o)
	k.binaries.attach(k.c, k.problem, k.say)
	setup, err := k.c.Connect(t.Context(), 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"CREATE TABLE log (k int PRIMARY KEY)"}
	for i := range atomicTables {
		rows := 5
		if i == atomicTables-1 {
			rows = atomicRows
		}
		texts = append(texts, fmt.Sprintf("CREATE TABLE t%d (id int PRIMARY KEY, k int, v int)", i),
			fmt.Sprintf("INSERT INTO t%d SELECT -g, 0, g %% 3 FROM generate_series(1, %d) g", i, rows))
	}
	for _, q := range texts {
		if _, err := setup.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	anomalyReplicated(t.Context(), t, k.c)
	setup.Close(t.Context())
	k.plan = fault.Generate(k.seed, fault.Options{Nodes: k.c.Names(), Duration: atomicFaults, Every: 2 * time.Second, Lasting: 3 * time.Second,
		Kinds: []fault.Kind{fault.Crash, fault.Crash, fault.CrashSync, fault.PowerOff, fault.Isolate, fault.Pause, fault.Cut, fault.Reset}, MaxSkew: 100 * time.Millisecond})
	begun := time.Now()
	enough := make(chan struct{})
	var workers sync.WaitGroup
	for n := range 5 {
		cl := &client{k: k.campaign, id: n, dice: rand.New(rand.NewPCG(k.seed, uint64(n))), limit: 20 * time.Second}
		cl.explain = func(pg *pgconn.PgError) (history.Outcome, bool) {
			return history.Failed, slices.Contains([]string{"55P03", "42P01", "42P07", "42703", "42701", "42704", "42710", "23514"}, pg.Code)
		}
		workers.Go(func() {
			defer cl.close()
			for {
				select {
				case <-enough:
					return
				default:
				}
				k.step(cl)
				time.Sleep(time.Duration(cl.dice.IntN(200)) * time.Millisecond)
			}
		})
	}
	upgraded := make(chan struct{})
	var upgrade sync.WaitGroup
	upgrade.Go(func() { k.binaries.run(upgraded) })
	failed := make(chan struct{})
	watch := k.watch(failed)
	target := k.c.Target(k.seed)
	if err := fault.Run(context.Background(), sim.NewClock(), k.plan, target, func(a fault.Action) { k.say("fault: %s", a) }); err != nil {
		k.problem("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(atomicFaults)))
	k.binaries.rest(true)
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	time.Sleep(3 * time.Second)
	close(enough)
	k.binaries.ready()
	workers.Wait()
	k.whole(time.Now())
	k.binaries.rest(false)
	k.binaries.complete()
	close(upgraded)
	upgrade.Wait()
	k.everywhere(func(ctx context.Context, i int) error {
		if err := k.compare(ctx, i); err != nil {
			return err
		}
		_, err := k.checkIndexes(ctx, i)
		return err
	})
	k.everywhere(k.unlocked)
	k.cleared()
	k.compareAll()
	close(failed)
	<-watch
	k.c.Stop()
	time.Sleep(20 * time.Second)
}

// step is one transaction.
func (k *atomicCampaign) step(cl *client) {
	id := k.ids.Add(1)
	n := cl.dice.IntN(atomicTables)
	t := fmt.Sprintf("t%d", n)
	var texts []string
	var made []atomicThing
	var drops []int
	thing := func(kind, name, query string) {
		for _, x := range made {
			if x.kind == kind && x.name == name {
				return
			}
		}
		made = append(made, atomicThing{query: query, by: id, kind: kind, on: t, name: name})
	}
	fails := cl.dice.IntN(5) == 0
	for range 1 + cl.dice.IntN(4) {
		switch cl.dice.IntN(8) {
		case 0:
			texts = append(texts, fmt.Sprintf("CREATE TABLE IF NOT EXISTS n%d (a int)", id), fmt.Sprintf("INSERT INTO n%d VALUES (1)", id))
			thing("table", "", fmt.Sprintf("SELECT count(*) FROM pg_class WHERE relname = 'n%d'", id))
		case 1:
			texts = append(texts, fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS c%d int DEFAULT %d", t, id, id), fmt.Sprintf("UPDATE %s SET c%d = 7 WHERE id = -1", t, id))
			thing("column", fmt.Sprintf("c%d", id), fmt.Sprintf("SELECT count(*) FROM pg_attribute WHERE attrelid = '%s'::regclass AND attname = 'c%d' AND NOT attisdropped", t, id))
		case 2:
			texts = append(texts, fmt.Sprintf("CREATE INDEX IF NOT EXISTS i%d ON %s (v)", id, t))
			thing("index", fmt.Sprintf("i%d", id), fmt.Sprintf("SELECT count(*) FROM pg_indexes WHERE indexname = 'i%d'", id))
		case 3:
			texts = append(texts, fmt.Sprintf("CREATE UNIQUE INDEX IF NOT EXISTS u%d ON %s (k, id)", id, t))
			thing("index", fmt.Sprintf("u%d", id), fmt.Sprintf("SELECT count(*) FROM pg_indexes WHERE indexname = 'u%d'", id))
		case 4:
			texts = append(texts, fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT IF EXISTS k%d, ADD CONSTRAINT k%d CHECK (v < 1000)", t, id, id))
			thing("check", fmt.Sprintf("k%d", id), fmt.Sprintf("SELECT count(*) FROM pg_constraint WHERE conname = 'k%d'", id))
		case 5: // an object of an earlier transaction is dropped
			k.mu.Lock()
			for i := range k.made {
				x := &k.made[i]
				if x.dropped != 0 || k.told[x.by] != history.OK || x.on != t || x.kind != "index" && x.kind != "column" {
					continue
				}
				x.dropped = id
				drops = append(drops, i)
				if x.kind == "index" {
					texts = append(texts, "DROP INDEX "+x.name)
				} else {
					texts = append(texts, fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", x.on, x.name))
				}
				break
			}
			k.mu.Unlock()
		default:
			texts = append(texts, fmt.Sprintf("INSERT INTO %s (id, k, v) VALUES (%d, %d, 5) ON CONFLICT DO NOTHING", t, id, id))
			thing("row", "", fmt.Sprintf("SELECT count(*) FROM %s WHERE id = %d AND k = %d", t, id, id))
		}
	}
	at := cl.dice.IntN(len(texts) + 1)
	texts = slices.Insert(texts, at, fmt.Sprintf("INSERT INTO log VALUES (%d)", id))
	if fails { // v has duplicates
		texts = append(texts, fmt.Sprintf("CREATE UNIQUE INDEX ON %s (v)", t))
	}
	savepoint := cl.dice.IntN(3) == 0
	how, note := cl.do("transaction", func(ctx context.Context, conn *pgx.Conn) error {
		return inTxn(ctx, conn, func() error {
			for i, q := range texts {
				if savepoint && i == at {
					for _, s := range []string{"SAVEPOINT s", fmt.Sprintf("CREATE INDEX s%d ON %s (v, k)", id, t), "ROLLBACK TO s"} {
						if _, err := conn.Exec(ctx, s); err != nil {
							return fmt.Errorf("%s: %w", s, err)
						}
					}
				}
				if _, err := conn.Exec(ctx, q); err != nil {
					return fmt.Errorf("%s: %w", q, err)
				}
			}
			return nil
		})
	})
	k.say("%d: %s: %d %s", id, strings.Join(texts, "; "), how, note)
	if how == history.OK && fails {
		k.problem("transaction %d committed with a unique index over duplicates", id)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.told[id] = how
	k.made = append(k.made, made...)
	if how == history.Failed {
		for _, i := range drops {
			k.made[i].dropped = 0
		}
	}
}

// compare looks for the objects that each transaction has made.
func (k *atomicCampaign) compare(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT k FROM log")
	if err != nil {
		return err
	}
	committed := map[int64]bool{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		committed[id] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, how := range k.told {
		if how == history.OK && !committed[id] || how == history.Failed && committed[id] {
			k.problem("transaction %d, of which the client heard %d, has committed: %v, seen from %s", id, how, committed[id], k.c.Machines[i].Name)
		}
	}
	for _, x := range k.made {
		var n int
		if err := conn.QueryRow(ctx, x.query).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", x.query, err)
		}
		want := committed[x.by] && !(x.dropped != 0 && committed[x.dropped])
		if (n == 1) != want {
			k.problem("%s of transaction %d (committed: %v; dropped by %d: %v) is there: %v, seen from %s", x.kind+" "+x.name, x.by, committed[x.by], x.dropped, committed[x.dropped], n == 1, k.c.Machines[i].Name)
		}
	}
	// No object exists that no committed transaction has made.
	var left int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 's%' AND schemaname = 'public'").Scan(&left); err != nil {
		return err
	}
	if left > 0 {
		return errors.New("an index of a savepoint that was rolled back is there")
	}
	return nil
}

// unlocked checks that every table can be locked.
func (k *atomicCampaign) unlocked(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for n := range atomicTables {
		if _, err := conn.Exec(ctx, fmt.Sprintf("BEGIN; LOCK TABLE t%d; ROLLBACK", n)); err != nil {
			return fmt.Errorf("LOCK TABLE: %w", err)
		}
	}
	return nil
}
