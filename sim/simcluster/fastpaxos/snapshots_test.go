package fastpaxos_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestSnapshotsOutliveChanges: a transaction that reads at one timestamp reads the same before and after its table's range has begun another generation, next to writers. Another one, which has its timestamp before the change, and reads
// the table for the first time after it, finds what all transfers keep. After a merge they may fail, and read nothing wrong.
func TestSnapshotsOutliveChanges(t *testing.T) {
	t.Parallel()
	const rows = 100
	fold := func(t *testing.T, c *simcluster.Cluster, d *kv.RangeDescriptor) error {
		q := fastpaxos.Request{Kind: fastpaxos.Reign, Key: d.Start, Generation: d.Generation, Renew: true}
		one := &kv.ProtocolRequest{Key: d.Start, Body: q.Append(nil)}
		return c.Node(0).Router().All(t.Context(), &route.Fan{Batches: []*kv.Batch{{Header: kv.Header{Protocol: kv.FastPaxos}, Requests: []kv.Request{one}}},
			Answer: func(int, route.Answer) bool { return true }})
	}
	// move gives the place of one of the range's replicas, which is not the leaseholder, to a node of the same region.
	move := func(t *testing.T, c *simcluster.Cluster, d *kv.RangeDescriptor) error {
		var targets []kv.ReplicaTarget
		from := (simtest.Holder(t, c, 0, d.Start) + 2) % c.Len() / 2 * 2
		for _, r := range d.Replicas {
			n := r.Node
			if i := int(n) - 1; i/2*2 == from {
				n = kv.NodeID(from + 1 - i%2 + 1)
			}
			targets = append(targets, kv.ReplicaTarget{Node: n, Store: kv.StoreID(n)})
		}
		return simtest.Admin(c, 0, &kv.AdminChangeReplicasRequest{Key: d.Start, Targets: targets})
	}
	split := func(t *testing.T, c *simcluster.Cluster, d *kv.RangeDescriptor) error {
		simtest.Exec(t, simtest.ConnectTo(t, c, 0, "d"), fmt.Sprintf("ALTER TABLE stock SPLIT AT VALUES (%d)", rows/3))
		return nil
	}
	merge := func(t *testing.T, c *simcluster.Cluster, d *kv.RangeDescriptor) error {
		simtest.Exec(t, simtest.ConnectTo(t, c, 0, "d"), fmt.Sprintf("ALTER TABLE stock UNSPLIT AT VALUES (%d)", rows/3))
		return simtest.Admin(c, 0, &kv.AdminMergeRequest{Key: d.Start})
	}
	for name, changes := range map[string][]func(*testing.T, *simcluster.Cluster, *kv.RangeDescriptor) error{
		"split": {split}, "move": {move}, "fold": {fold}, "all": {fold, split, fold, move, fold}, "merge": {split, merge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 2, Log: simtest.LogTo()})
				simtest.Exec(t, simtest.Connect(t, c, 0), "CREATE DATABASE d")
				setup := simtest.ConnectTo(t, c, 0, "d")
				simtest.Exec(t, setup, "CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL, name text) WITH (commit_protocol = 'fast_paxos')")
				simtest.Exec(t, setup, "CREATE TABLE other (id int PRIMARY KEY) WITH (commit_protocol = 'fast_paxos')")
				simtest.Exec(t, setup, fmt.Sprintf("INSERT INTO stock SELECT g, 100, 'x' FROM generate_series(0, %d) AS g", rows-1))
				at := keys.IndexPrefix(simtest.TableIDOf(t, setup, "stock"), uint32(1))
				simtest.Replicated(t, c, 3)
				time.Sleep(20 * time.Second)
				done := make(chan struct{})
				var wg sync.WaitGroup
				for i := range c.Len() {
					conn := simtest.ConnectTo(t, c, i, "d")
					wg.Go(func() {
						for n := 0; ; n++ {
							select {
							case <-done:
								return
							case <-time.After(150 * time.Millisecond):
							}
							from, to := (17*n+31*i)%rows, (23*n+7*i+1)%rows
							if from == to {
								continue
							}
							// The name makes some of the updates physical ones: the others commute.
							set := fmt.Sprintf("n = n - 1, name = '%d.%d'", i, n)
							if n%2 == 0 {
								set = "n = n - 1"
							}
							_, _ = conn.Exec(context.Background(), fmt.Sprintf("BEGIN; UPDATE stock SET %s WHERE id = %d; UPDATE stock SET n = n + 1 WHERE id = %d; COMMIT", set, from, to))
							_, _ = conn.Exec(context.Background(), "ROLLBACK")
						}
					})
				}
				time.Sleep(5 * time.Second)
				stop := make(chan struct{})
				const all = "SELECT sum(n), string_agg(id || ':' || n || name, ',' ORDER BY id) FROM stock"
				var begun sync.WaitGroup
				for i := range 3 {
					begun.Add(2)
					early, late := simtest.ConnectTo(t, c, 2*i, "d"), simtest.ConnectTo(t, c, 2*i+1, "d")
					wg.Go(func() {
						level := []string{"REPEATABLE READ", "SERIALIZABLE"}[i%2]
						simtest.Exec(t, early, "BEGIN ISOLATION LEVEL "+level+" READ ONLY")
						var want, got string
						var sum int
						first := early.QueryRow(context.Background(), all).Scan(&sum, &want)
						begun.Done()
						if first != nil {
							t.Errorf("%s: %v", level, first)
							return
						}
						for n := 0; ; n++ {
							select {
							case <-stop:
								simtest.Exec(t, early, "COMMIT")
								return
							case <-time.After(300 * time.Millisecond):
							}
							err := early.QueryRow(context.Background(), all).Scan(&sum, &got)
							var e *pgconn.PgError
							if errors.As(err, &e) {
								if name == "merge" && e.Code == "40001" {
									simtest.Exec(t, early, "ROLLBACK")
									return
								}
								t.Errorf("%s, read %d: %s %s: %s", level, n, e.Code, e.Message, e.Detail)
								return
							}
							if err != nil || got != want || sum != 100*rows {
								t.Errorf("%s, read %d: %v, %d, %s, want %s", level, n, err, sum, got, want)
								return
							}
						}
					})
					wg.Go(func() {
						simtest.Exec(t, late, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
						simtest.Exec(t, late, "SELECT count(*) FROM other")
						begun.Done()
						<-stop
						var sum int
						var names string
						err := late.QueryRow(context.Background(), all).Scan(&sum, &names)
						if name == "merge" && err != nil {
							simtest.Exec(t, late, "ROLLBACK")
							return
						}
						if err != nil || sum != 100*rows {
							var e *pgconn.PgError
							if errors.As(err, &e) {
								t.Errorf("late: %s %s: %s", e.Code, e.Message, e.Detail)
							}
							t.Errorf("late: %v, %d", err, sum)
						}
						simtest.Exec(t, late, "COMMIT")
					})
				}
				begun.Wait()
				for n, change := range changes {
					time.Sleep(3 * time.Second)
					before := rangeAt(t, c, at)
					if err := change(t, c, before); err != nil {
						t.Fatal(err)
					}
					after := rangeAt(t, c, at)
					for wait := 0; after.Generation == before.Generation && wait < 100; wait++ {
						time.Sleep(200 * time.Millisecond)
						after = rangeAt(t, c, at)
					}
					if after.Generation == before.Generation {
						t.Fatalf("change %d: the range has had no other generation", n)
					}
					t.Logf("change %d: generation %d, replicas %v; then %d, %v", n, before.Generation, before.Replicas, after.Generation, after.Replicas)
				}
				time.Sleep(5 * time.Second)
				close(stop)
				time.Sleep(5 * time.Second)
				close(done)
				wg.Wait()
			})
		})
	}
}

// rangeAt is the range of a key.
func rangeAt(t *testing.T, c *simcluster.Cluster, k keys.Key) *kv.RangeDescriptor {
	t.Helper()
	info, err := c.Node(0).Router().Range(context.Background(), k, true)
	if err != nil {
		t.Fatal(err)
	}
	return &info.Desc
}
