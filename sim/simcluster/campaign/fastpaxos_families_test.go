package campaign_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/probe"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestFamiliesCampaign has tables that refer to one without a master, under the faults of the campaign, while rows of all of them come and go, ranges split, merge and move, and one of the tables
// changes its protocol: there is never a row that refers to one that is not there (I3), with NO ACTION, CASCADE and SET NULL, by the primary key and by another one.
func TestFamiliesCampaign(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &familiesCampaign{fastCampaign: &fastCampaign{campaign: &campaign{seed: uint64(seed), probes: &probe.Set{}}}, made: map[string]int{}}
			defer simtest.Watchdog(seed).Stop()
			begun := time.Now()
			synctest.Test(t, func(t *testing.T) { k.run(t) })
			t.Logf("%s in %s: %v", k.took, time.Since(begun).Round(time.Millisecond), k.made)
			if len(k.problems) > 0 {
				t.Errorf("seed %d, %s:\n%s\nThe plan was:\n%s", seed, k.topology, strings.Join(k.problems, "\n"), k.plan)
			}
		})
	}
}

const (
	families       = 4
	familiesFaults = 20 * time.Second
)

type familiesCampaign struct {
	*fastCampaign
	made map[string]int // statements that have changed a row; mu guards it
}

func (k *familiesCampaign) run(t *testing.T) {
	dice := rand.New(rand.NewPCG(k.seed, 0xfa3))
	k.start, k.tables = time.Now(), map[string]uint32{}
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo(), Probes: k.probes, LostRequests: []float64{0, 0.02, 0.05}[dice.IntN(3)]}
	switch dice.IntN(3) {
	case 0:
		k.topology = "three nodes in one region"
	case 1:
		k.topology, o.Regions, o.NodesPerRegion = "three nodes in three regions", sim.ThreeRegions(), 1
	case 2:
		k.topology, o.NodesPerRegion = "five nodes, three replicas", 5
	}
	k.c = simcluster.Start(t, o)
	simtest.Replicated(t, k.c, 3)
	setup := simtest.Connect(t, k.c, 0)
	with := " WITH (commit_protocol = 'fast_paxos')"
	simtest.Exec(t, setup, "CREATE TABLE p (id int PRIMARY KEY, name text UNIQUE, n int NOT NULL)"+with)
	simtest.Exec(t, setup, "CREATE TABLE c (pid int REFERENCES p, id int, PRIMARY KEY (pid, id))"+with)
	simtest.Exec(t, setup, "CREATE TABLE d (pid int REFERENCES p ON DELETE CASCADE, id int, PRIMARY KEY (pid, id))"+with)
	simtest.Exec(t, setup, "CREATE TABLE s (id int PRIMARY KEY, name text REFERENCES p (name) ON DELETE SET NULL ON UPDATE CASCADE, UNIQUE (name, id))"+with)
	simtest.Exec(t, setup, "CREATE TABLE l (pid int REFERENCES p ON DELETE CASCADE, id int, PRIMARY KEY (pid, id))")
	k.ranged = []string{"p", "c", "d", "s"}
	for _, name := range k.ranged {
		k.tables[name] = simtest.TableIDOf(t, setup, name)
	}
	setup.Close(t.Context())
	k.plan = fault.Generate(k.seed, fault.Options{Nodes: k.c.Names(), Duration: familiesFaults, Every: 1500 * time.Millisecond, Lasting: 3 * time.Second, MaxSkew: 100 * time.Millisecond,
		Kinds: []fault.Kind{fault.Crash, fault.CrashSync, fault.PowerOff, fault.Isolate, fault.Pause, fault.Cut, fault.CutOneWay, fault.Slow, fault.Reset, fault.Skew}})
	begun := time.Now()
	enough := make(chan struct{})
	var workers sync.WaitGroup
	work := func(id uint64, f func(cl *client)) {
		cl := &client{k: k.campaign, id: int(id), dice: rand.New(rand.NewPCG(k.seed, id)), limit: fastLimit}
		cl.explain = func(pg *pgconn.PgError) (history.Outcome, bool) {
			return history.Failed, pg.Code == "23503" || pg.Code == "23505" || pg.Code == "55000"
		}
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
			k.live(cl)
			time.Sleep(time.Duration(cl.dice.IntN(15)) * time.Millisecond)
		})
	}
	work(50, func(cl *client) {
		time.Sleep(time.Duration(cl.dice.IntN(3000)) * time.Millisecond)
		k.changeRange(cl.dice)
	})
	if dice.IntN(2) == 0 {
		work(51, func(cl *client) {
			cl.limit = time.Minute
			for _, p := range []string{"fast_paxos", "leader"} {
				time.Sleep(time.Duration(1+cl.dice.IntN(4)) * time.Second)
				how, note := cl.do("protocol "+p, func(ctx context.Context, conn *pgx.Conn) error {
					_, err := conn.Exec(ctx, "ALTER TABLE l SET (commit_protocol = '"+p+"')")
					return err
				})
				k.say("protocol %s: %d %s", p, how, note)
			}
		})
	}
	target := k.c.Target(k.seed)
	if err := fault.Run(context.Background(), sim.NewClock(), k.plan, target, func(a fault.Action) { k.say("fault: %s", a) }); err != nil {
		k.problem("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(familiesFaults)))
	if err := target.HealEverything(); err != nil {
		k.problem("healing: %v", err)
	}
	time.Sleep(3 * time.Second)
	close(enough)
	workers.Wait()
	time.Sleep(20 * time.Second)
	k.everywhere(k.orphans)
	k.compareAll()
	k.took = time.Since(k.start)
	k.c.Stop()
	time.Sleep(20 * time.Second)
}

// live is one transaction of a client.
func (k *familiesCampaign) live(cl *client) {
	f, id := cl.dice.IntN(families), k.ids.Add(1)
	parent := fmt.Sprintf("INSERT INTO p VALUES (%d, 'n%d', 0)", f, f)
	of := func(table string) string {
		if table == "s" {
			return fmt.Sprintf("INSERT INTO s SELECT %d, name FROM p WHERE id = %d", id, f)
		}
		return fmt.Sprintf("INSERT INTO %s VALUES (%d, %d)", table, f, id)
	}
	child := []string{"c", "d", "s", "l"}[cl.dice.IntN(4)]
	what, texts := "", []string(nil)
	switch n := cl.dice.IntN(12); {
	case n < 2:
		what, texts = "parent", []string{parent + " ON CONFLICT DO NOTHING"}
	case n < 6:
		what, texts = "child", []string{of(child)}
	case n == 6:
		what, texts = "both", []string{parent, of("c"), of("l")}
	case n == 7:
		what, texts = "no children", []string{fmt.Sprintf("DELETE FROM c WHERE pid = %d", f)}
	case n == 8:
		what, texts = "rename", []string{fmt.Sprintf("UPDATE p SET name = CASE WHEN name = 'n%[1]d' THEN 'm%[1]d' ELSE 'n%[1]d' END WHERE id = %[1]d", f)}
	case n == 9:
		what, texts = "add", []string{fmt.Sprintf("UPDATE p SET n = n + 1 WHERE id = %d", f)}
	default:
		what, texts = "removal", []string{fmt.Sprintf("DELETE FROM p WHERE id = %d", f)}
	}
	rows := int64(0)
	how, _ := cl.do(what, func(ctx context.Context, conn *pgx.Conn) error {
		rows = 0
		if len(texts) == 1 {
			tag, err := conn.Exec(ctx, texts[0])
			rows = tag.RowsAffected()
			return err
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, q := range texts {
				tag, err := tx.Exec(ctx, q)
				if err != nil {
					return err
				}
				rows += tag.RowsAffected()
			}
			return nil
		})
	})
	if how == history.OK && rows > 0 {
		k.mu.Lock()
		k.made[what]++
		k.mu.Unlock()
	}
}

// orphans looks for rows that refer to one that is not there.
func (k *familiesCampaign) orphans(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, q := range []string{
		"SELECT count(*), string_agg(x.pid || '.' || x.id, ' ') FROM c x LEFT JOIN p ON p.id = x.pid WHERE p.id IS NULL",
		"SELECT count(*), string_agg(x.pid || '.' || x.id, ' ') FROM d x LEFT JOIN p ON p.id = x.pid WHERE p.id IS NULL",
		"SELECT count(*), string_agg(x.pid || '.' || x.id, ' ') FROM l x LEFT JOIN p ON p.id = x.pid WHERE p.id IS NULL",
		"SELECT count(*), string_agg(x.name || '.' || x.id, ' ') FROM s x LEFT JOIN p ON p.name = x.name WHERE p.id IS NULL AND x.name IS NOT NULL",
		"SELECT count(*), string_agg(x.name, ' ') FROM p@p_name_key x LEFT JOIN p@p_pkey y ON y.id = x.id WHERE x.name IS DISTINCT FROM y.name",
	} {
		var n int
		var which *string
		if err := conn.QueryRow(ctx, q).Scan(&n, &which); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
		if n > 0 {
			return fmt.Errorf("%s: %d (%s)", q, n, *which)
		}
	}
	return nil
}
