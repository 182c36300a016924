package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/kv"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/workload"
	"meridian/workload/anomalies"
)

// The campaign of anomalies: package workload/anomalies on a simulated cluster, while machines die, networks break,
// clocks are off, leases move and ranges split. In all runs, no level of isolation may show what it forbids.
// MERIDIAN_LEVEL asks for one level only.

const anomalyFaults = 15 * time.Second // of virtual time

func TestCampaignAnomalies(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 2, 2) { // one READ COMMITTED, one SERIALIZABLE
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			a := anomalies.New()
			a.Think = 10 * time.Millisecond
			a.Level = []string{"SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"}[seed%4]
			if l := os.Getenv("MERIDIAN_LEVEL"); l != "" {
				a.Level = l
			}
			var out strings.Builder
			a.Out = &out
			var about string
			begun := time.Now()
			synctest.Test(t, func(t *testing.T) { about = anomalySeed(t, a, uint64(seed)) })
			if t.Failed() {
				return
			}
			err := a.Judged()
			t.Logf("%s at %s, in %s\n%s", about, a.Level, time.Since(begun).Round(time.Millisecond), out.String())
			if err != nil {
				t.Errorf("seed %d, %s: %v", seed, about, err)
			}
		})
	}
}

// anomalySeed runs the workload and returns a description of the cluster and the plan.
func anomalySeed(t *testing.T, a *anomalies.Anomalies, seed uint64) string {
	dice := rand.New(rand.NewPCG(seed, 0xa40))
	o := simcluster.Options{Seed: seed, Log: simtest.LogTo()}
	topology := "three nodes in one region"
	if dice.IntN(2) == 0 {
		topology, o.Regions, o.NodesPerRegion = "three nodes in three regions", sim.ThreeRegions(), 1
	}
	c := simcluster.Start(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	conn, err := c.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Init(ctx, conn); err != nil {
		t.Fatal(err)
	}
	conn.Close(ctx)
	anomalyReplicated(ctx, t, c)

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 10 {
		mine := rand.New(rand.NewPCG(seed, uint64(n)))
		step, err := a.Worker(ctx, mine)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { anomalyClient(c, mine, step, stop) })
	}
	wg.Go(func() { anomalyAdmin(c, rand.New(rand.NewPCG(seed, 99)), stop) })

	target := c.Target(seed)
	plan := fault.Generate(seed, fault.Options{Nodes: c.Names(), Duration: anomalyFaults, Every: 1500 * time.Millisecond, Lasting: 3 * time.Second,
		Kinds:   []fault.Kind{fault.Crash, fault.PowerOff, fault.Isolate, fault.Cut, fault.CutOneWay, fault.Slow, fault.Reset, fault.Skew},
		MaxSkew: 190 * time.Millisecond})
	begun := time.Now()
	if err := fault.Run(context.Background(), c.Machines[0].Clock, plan, target, func(fault.Action) {}); err != nil {
		t.Errorf("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(begun.Add(anomalyFaults)))
	if err := target.HealEverything(); err != nil {
		t.Errorf("healing: %v", err)
	}
	time.Sleep(5 * time.Second)
	close(stop)
	wg.Wait()
	time.Sleep(5 * time.Second) // leases and locks that were left behind expire
	for end := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		conn, err := c.Connect(ctx, 0, "defaultdb")
		if err == nil {
			err = a.Finish(ctx, conn)
			conn.Close(ctx)
		}
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Errorf("seed %d: nothing can be read after everything healed: %v", seed, err)
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.Stop()
	time.Sleep(20 * time.Second)
	return fmt.Sprintf("%s, %d faults", topology, len(plan))
}

// anomalyClient repeats steps on some node, and another when that one is gone.
func anomalyClient(c *simcluster.Cluster, dice *rand.Rand, step workload.Step, stop chan struct{}) {
	var conn *pgx.Conn
	leave := func() {
		if conn != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			conn.Close(ctx)
			cancel()
			conn = nil
		}
	}
	defer leave()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(dice.IntN(30)) * time.Millisecond):
		}
		if conn == nil || conn.IsClosed() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			next, err := c.Connect(ctx, dice.IntN(c.Len()), "defaultdb")
			cancel()
			if err != nil {
				continue
			}
			conn = next
		}
		ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
		_, err := step(ctx, conn)
		cancel()
		var pg *pgconn.PgError
		if err != nil && !errors.As(err, &pg) {
			leave()
		}
	}
}

// anomalyAdmin moves leases and splits ranges while transactions run.
func anomalyAdmin(c *simcluster.Cluster, dice *rand.Rand, stop chan struct{}) {
	tables := []string{"lists0", "lists1", "values", "bank", "fork", "skew", "unique", "register"}
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(200+dice.IntN(600)) * time.Millisecond):
		}
		i := dice.IntN(c.Len())
		n := c.Node(i)
		if n == nil || n.Store() == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if dice.IntN(4) == 0 {
			if conn, err := c.Connect(ctx, i, "defaultdb"); err == nil {
				conn.Exec(ctx, fmt.Sprintf("ALTER TABLE anomaly_%s SPLIT AT VALUES (%d)", tables[dice.IntN(len(tables))], dice.IntN(60)))
				conn.Close(ctx)
			}
		} else if ranges, err := c.Ranges(ctx, i); err == nil && len(ranges) > 0 {
			d := ranges[dice.IntN(len(ranges))]
			to := d.Replicas[dice.IntN(len(d.Replicas))].Node
			n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: d.Start, Target: to}}})
		}
		cancel()
	}
}

// anomalyReplicated waits until each range has three voters.
func anomalyReplicated(ctx context.Context, t *testing.T, c *simcluster.Cluster) {
	for {
		ranges, err := c.Ranges(ctx, 0)
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
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d of %d ranges are replicated (%v)", full, len(ranges), err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestFastPaxosAnomalies: the campaign of anomalies on tables of the protocol, and on some of it together with some of the leader's. Neither level may show what it forbids, and serializable transactions are in the order of
// time, too.
func TestFastPaxosAnomalies(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 0, 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			a := anomalies.New()
			a.Think = 10 * time.Millisecond
			a.Level = []string{"SERIALIZABLE", "REPEATABLE READ", "SERIALIZABLE"}[seed%3]
			a.Strict = a.Level == "SERIALIZABLE"
			a.FastPaxos = []string{"all", "lists1,values,skew,bank"}[seed%2]
			var out strings.Builder
			a.Out = &out
			var about string
			synctest.Test(t, func(t *testing.T) { about = anomalySeed(t, a, uint64(seed)) })
			if t.Failed() {
				return
			}
			err := a.Judged()
			t.Logf("%s at %s, fast_paxos: %s\n%s", about, a.Level, a.FastPaxos, out.String())
			if err != nil {
				t.Errorf("seed %d, %s: %v", seed, about, err)
			}
		})
	}
}
