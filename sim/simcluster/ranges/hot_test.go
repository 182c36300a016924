package ranges_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestHotTable: a table of one range, with requests from all nodes to all of its rows, spreads over three nodes by itself; as long as the requests last its ranges
// are not merged, afterwards they are.
func TestHotTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, "SET CLUSTER SETTING kv.range_split.by_load.threshold = 60")
		simtest.Exec(t, root, "CREATE TABLE hot (id int PRIMARY KEY, v int)")
		simtest.Exec(t, root, "INSERT INTO hot SELECT i, i FROM generate_series(0, 999) AS g(i)")
		span := keys.TableSpan(simtest.TableID(t, c, "hot"))
		// spread is the number of ranges that have rows, and of nodes with their leases.
		spread := func() (ranges, nodes int) {
			all, err := c.Ranges(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			holders := map[int]bool{}
			for _, d := range all {
				if !d.Start.Less(span.End) || !span.Start.Less(d.End) {
					continue
				}
				ranges++
				for i := range c.Len() {
					c.On(i, func(_ context.Context, n *server.Node) {
						if r := n.Store().Replica(d.ID); r != nil {
							if l, ok := r.Lease(); ok && l.Holder.Node == n.NodeID() {
								holders[i] = true
							}
						}
					})
				}
			}
			return ranges, len(holders)
		}
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for i := range 18 {
			conn, err := c.Connect(ctx, i%3, "defaultdb")
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			clients.Go(func() {
				defer conn.Close(ctx)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(rng.Int64N(int64(80 * time.Millisecond)))):
						if _, err := conn.Exec(ctx, fmt.Sprintf("SELECT v FROM hot WHERE id = %d", rng.IntN(1000))); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		ranges, nodes := 0, 0
		for range 30 {
			time.Sleep(5 * time.Second)
			if ranges, nodes = spread(); ranges >= 4 && nodes == 3 {
				break
			}
		}
		if ranges < 4 || nodes != 3 {
			t.Errorf("%d ranges on %d nodes", ranges, nodes)
		}
		if splits := c.Node(0).Store().Metrics.SplitsByLoad.Load() + c.Node(1).Store().Metrics.SplitsByLoad.Load() + c.Node(2).Store().Metrics.SplitsByLoad.Load(); splits < 3 {
			t.Errorf("%d splits by load", splits)
		}
		time.Sleep(165 * time.Second) // ranges that were divided by load stay so for two minutes, whatever their load
		if ranges, nodes = spread(); ranges < 4 || nodes != 3 {
			t.Errorf("after some minutes, %d ranges on %d nodes", ranges, nodes)
		}
		close(stop)
		clients.Wait()
		for range 30 {
			time.Sleep(20 * time.Second)
			if ranges, _ = spread(); ranges == 1 {
				return
			}
		}
		t.Errorf("%d ranges without requests, want one", ranges)
	})
}

// TestHotGateway: a table whose requests all come through one gateway stays one range however many they are: no part's lease would leave that node, and
// transactions that write in several parts could not commit in one phase.
func TestHotGateway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, "SET CLUSTER SETTING kv.range_split.by_load.threshold = 60")
		simtest.Exec(t, root, "CREATE TABLE hot (id int PRIMARY KEY, v int)")
		simtest.Exec(t, root, "INSERT INTO hot SELECT i, i FROM generate_series(0, 999) AS g(i)")
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for i := range 18 {
			conn, err := c.Connect(ctx, 0, "defaultdb")
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			clients.Go(func() {
				defer conn.Close(ctx)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(rng.Int64N(int64(80 * time.Millisecond)))):
						if _, err := conn.Exec(ctx, fmt.Sprintf("SELECT v FROM hot WHERE id = %d", rng.IntN(1000))); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		time.Sleep(time.Minute)
		for i := range c.Len() {
			if n := c.Node(i).Store().Metrics.SplitsByLoad.Load(); n > 0 {
				t.Errorf("%d splits by load at node %d", n, i+1)
			}
		}
		close(stop)
		clients.Wait()
	})
}
