package regions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/replica"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/txn"
)

// inForce watches the replicas of a table's ranges on all nodes: none appears where the configuration in force forbids it (I8, rangeserver.RS4). While a statement
// runs, the earlier configuration and the new one are in force.
type inForce struct {
	t    *testing.T
	c    *simcluster.Cluster
	span keys.Span

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	allowed []string   // regions
	newest  map[kv.RangeID]*kv.RangeDescriptor
	placed  int
}

// look checks the changes since the last time.
func (w *inForce) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.c.Len() {
		n := w.c.Node(i)
		if n == nil || n.Store() == nil {
			continue
		}
		n.Store().Replicas(func(r *replica.Replica) bool {
			d := r.Desc()
			if d == nil || d.Start.Less(w.span.Start) || !d.Start.Less(w.span.End) {
				return true
			}
			old := w.newest[d.ID]
			if old != nil && old.Generation >= d.Generation {
				return true
			}
			w.newest[d.ID] = d
			if old == nil {
				return true // a split places nothing
			}
			for _, p := range d.Replicas {
				if _, had := old.Replica(p.Node); had {
					continue
				}
				w.placed++
				if at := simtest.RegionOf(w.c, p.Node); !slices.Contains(w.allowed, at) {
					w.t.Errorf("r%d got a replica on n%d in %s, and only %v are allowed: %+v", d.ID, p.Node, at, w.allowed, d)
				}
			}
			return true
		})
	}
}

// narrow sets the regions that are allowed from now on.
func (w *inForce) narrow(regions ...string) {
	w.look()
	w.mu.Lock()
	w.allowed = regions
	w.mu.Unlock()
}

// configure changes a table's configuration as a statement does, on a node: its replicas have to be in one region.
func configure(n *server.Node, table catalog.ID, region string) error {
	return n.Catalog().Change(context.Background(), func(ctx context.Context, tx *txn.Txn, c *lease.Txn) error {
		required := []placement.Conjunction{{Constraints: []placement.Constraint{{Key: "region", Value: region}}}}
		c.Table(table).Zone = &catalog.ZoneConfig{Constraints: &required, LeasePreferences: &required}
		return nil
	})
}

// TestConfigurationInForce: while configurations are replaced again and again, at any moment of the moves that they cause, no replica is placed by one that was
// replaced before; nor by hand; and a merge joins no ranges of two tables. In the end the ranges are where the last configuration wants them.
func TestConfigurationInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE TABLE moves (id int PRIMARY KEY, v text)`)
		simtest.Exec(t, root, `CREATE TABLE neighbour (id int PRIMARY KEY, v text)`)
		simtest.Exec(t, root, `INSERT INTO moves SELECT i, repeat('x', 1000) FROM generate_series(1, 200) AS g(i)`)
		moves, neighbour := simtest.TableID(t, c, "moves"), simtest.TableID(t, c, "neighbour")
		regions := []string{"us-east1", "us-west1", "europe-west1"}
		w := &inForce{t: t, c: c, span: keys.TableSpan(moves), newest: map[kv.RangeID]*kv.RangeDescriptor{}, allowed: regions}
		if err := configure(c.Node(0), moves, regions[0]); err != nil {
			t.Fatal(err)
		}
		simtest.Exec(t, root, `ALTER TABLE moves SPLIT AT VALUES (50), (100), (150)`)
		stop := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
					w.look()
				}
			}
		})
		rng := rand.New(rand.NewPCG(uint64(seedOf(t)), 8))
		at, refused := 0, 0
		for range 25 {
			time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Second))))
			next := (at + 1 + rng.IntN(2)) % 3
			w.narrow(regions[at], regions[next])
			if err := configure(c.Node(rng.IntN(c.Len())), moves, regions[next]); err != nil {
				t.Fatal(err)
			}
			w.narrow(regions[next])
			at = next
			// By hand.
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			forbidden := c.Node(3 * ((at + 1) % 3))
			info, err := c.Node(0).Router().Range(ctx, w.span.Start, true)
			if err == nil {
				var targets []kv.ReplicaTarget
				for _, r := range info.Desc.Replicas {
					targets = append(targets, kv.ReplicaTarget{Node: r.Node, Store: r.Store, Type: kv.Voter})
				}
				if _, had := info.Desc.Replica(forbidden.NodeID()); !had {
					targets = append(targets, kv.ReplicaTarget{Node: forbidden.NodeID(), Store: kv.StoreID(forbidden.NodeID()), Type: kv.Voter})
					_, err = c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminChangeReplicasRequest{Key: w.span.Start, Targets: targets}}})
					if err == nil {
						t.Errorf("a replica on n%d was not refused", forbidden.NodeID())
					}
					refused++
				}
			}
			cancel()
		}
		want := fmt.Sprintf("3 %s; lease %[1]s", regions[at])
		var got string
		for range 120 {
			if got = simtest.PlacesOf(t, c, root, "moves"); got == want+"\n"+want+"\n"+want+"\n"+want {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		if got != want+"\n"+want+"\n"+want+"\n"+want {
			t.Errorf("the table is at\n%s\nwant four times %s", got, want)
		}
		close(stop)
		watching.Wait()
		if w.placed < 20 || refused == 0 {
			t.Errorf("only %d replicas were placed, %d refused", w.placed, refused)
		}
		// The neighbour is empty, and next to a range of another configuration.
		simtest.Exec(t, root, `ALTER TABLE moves UNSPLIT ALL`)
		time.Sleep(3 * time.Minute)
		ranges, err := c.Ranges(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		of := 0
		for _, d := range ranges {
			begins, ends := d.Contains(w.span.Start), d.Contains(keys.TableKey(neighbour))
			if begins && ends {
				t.Errorf("r%d has two configurations: %s", d.ID, d.Span())
			}
			if w.span.Contains(d.Start) {
				of++
			}
		}
		if of != 1 {
			t.Errorf("%d ranges, want one: those of one configuration are merged", of)
		}
		simtest.Exec(t, root, `DROP TABLE neighbour`)
	})
}

// seedOf is the seed of a random test's run.
func seedOf(*testing.T) uint64 { return 1 }

// TestViolation: constraints that can't be met are reported, by SQL, by the metric and to statements that wait; when they can, all is well again.
func TestViolation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			if i > 0 {
				o.Attributes = []string{"ssd"}
			}
		}})
		simtest.Replicated(t, c, 3)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, "CREATE TABLE picky (id int PRIMARY KEY)")
		id := simtest.TableID(t, c, "picky")
		span := keys.TableSpan(id)
		n := c.Node(1)
		require := func(k placement.Constraint, replicas int) {
			t.Helper()
			if err := n.Catalog().Change(ctx, func(ctx context.Context, tx *txn.Txn, x *lease.Txn) error {
				x.Table(id).Zone = &catalog.ZoneConfig{Constraints: &[]placement.Conjunction{{Replicas: replicas, Constraints: []placement.Constraint{k}}}}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		violation := func() (text string) {
			t.Helper()
			if err := root.QueryRow(ctx, "SELECT coalesce(string_agg(violation, '|'), '') FROM meridian_internal.ranges WHERE table_name = 'picky'").Scan(&text); err != nil {
				t.Fatal(err)
			}
			return text
		}
		violating := func() (sum int) {
			for i := range c.Len() {
				c.Node(i).Store().Violations(func(_ *kv.RangeDescriptor, v placement.Violation) {
					if v.Constraints() {
						sum++
					}
				})
			}
			return sum
		}
		require(placement.Constraint{Value: "ssd"}, 0)
		time.Sleep(time.Minute)
		if got := violation(); got != "no replica may be on n1" {
			t.Errorf("violation %q", got)
		}
		if got := violating(); got != 1 {
			t.Errorf("%d ranges violate constraints, want 1", got)
		}
		misfits, total, err := n.Conforms(ctx, span, true)
		if err != nil || len(misfits) != 1 || total != 1 || len(misfits[0].Forbidden) != 1 {
			t.Errorf("%d of %d misfits: %v, %v", len(misfits), total, misfits, err)
		}
		require(placement.Constraint{Value: "ssd"}, 2)
		for range 60 {
			if misfits, _, err = n.Conforms(ctx, span, true); err != nil || len(misfits) == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		if got := violation(); got != "" || violating() != 0 || err != nil || len(misfits) != 0 {
			t.Errorf("violation %q, %d ranges, misfits %v, %v", got, violating(), misfits, err)
		}
	})
}

// TestMergeWhileConfigurationsChange: ranges of two tables merge while the tables have one configuration. Once a statement has returned that tells them apart, no merge
// joins them, however many are under way, until they are equal again; the range that has both is split.
func TestMergeWhileConfigurationsChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, "CREATE TABLE one (id int PRIMARY KEY)")
		simtest.Exec(t, root, "CREATE TABLE two (id int PRIMARY KEY)")
		one, two := simtest.TableID(t, c, "one"), simtest.TableID(t, c, "two")
		boundary := keys.TableKey(two)
		if _, err := c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: keys.TableKey(one)}}}); err != nil {
			t.Fatal(err)
		}
		differ := func(n *server.Node, v bool) {
			t.Helper()
			if err := n.Catalog().Change(ctx, func(ctx context.Context, tx *txn.Txn, x *lease.Txn) error {
				var zone *catalog.ZoneConfig
				if seconds := int32(600); v {
					zone = &catalog.ZoneConfig{GCSeconds: &seconds}
				}
				x.Table(two).Zone = zone
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex // guards the variables below
		apart, merged, splits := false, 0, 0
		covered := map[kv.RangeID]uint64{} // generations that had the boundary within
		newest := map[kv.RangeID]uint64{}
		look := func() {
			mu.Lock()
			defer mu.Unlock()
			for i := range c.Len() {
				c.Node(i).Store().Replicas(func(r *replica.Replica) bool {
					d := r.Desc()
					if d == nil || newest[d.ID] >= d.Generation {
						return true
					}
					within := d.Contains(boundary) && !d.Start.Equal(boundary)
					switch had := covered[d.ID] != 0; {
					case within && !had:
						if merged++; apart && newest[d.ID] != 0 {
							t.Errorf("r%d absorbed a range of another configuration: %s", d.ID, d.Span())
						}
						covered[d.ID] = d.Generation
					case !within && had:
						splits++
						delete(covered, d.ID)
					}
					newest[d.ID] = d.Generation
					return true
				})
			}
		}
		stop := make(chan struct{})
		var running sync.WaitGroup
		for i := range 3 {
			running.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(20+i*13) * time.Millisecond):
						limit, cancel := context.WithTimeout(ctx, 5*time.Second)
						_, _ = c.Node(i).Router().Send(limit, &kv.Batch{Requests: []kv.Request{&kv.AdminMergeRequest{Key: keys.TableKey(one)}}})
						cancel()
					}
				}
			})
		}
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					look()
				}
			}
		})
		rng := rand.New(rand.NewPCG(1, 9))
		for i := range 40 {
			time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Second))))
			if differ(c.Node(rng.IntN(3)), i%2 == 0); i%2 == 0 {
				look()
				mu.Lock()
				apart = true
				mu.Unlock()
				time.Sleep(2 * time.Second)
				mu.Lock()
				apart = false
				mu.Unlock()
			}
		}
		close(stop)
		running.Wait()
		if merged < 10 || splits < 10 {
			t.Errorf("only %d merges and %d splits", merged, splits)
		}
	})
}

// TestHomeMovesInSeconds: a table whose home moves to a region with a non-voter has its lease there within seconds, since that replica changes roles with a voter
// before anything is shipped.
func TestHomeMovesInSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := simtest.ThreeContinents(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		conn := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, conn, `CREATE TABLE home (id int PRIMARY KEY, v text)`)
		simtest.Exec(t, conn, `INSERT INTO home SELECT i, repeat('x', 1000) FROM generate_series(1, 1000) AS g(i)`)
		simtest.Settle(t, c, conn, "home", "1 (europe-west1), 1 (us-west1), 3 us-east1; lease us-east1")
		var id catalog.ID
		if err := conn.QueryRow(ctx, "SELECT 'home'::regclass::oid").Scan((*uint32)(&id)); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if err := c.Node(0).Catalog().Change(ctx, func(ctx context.Context, tx *txn.Txn, x *lease.Txn) error {
			x.Table(id).Locality = catalog.Locality{Kind: catalog.RegionalByTable, Region: "europe-west1"}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var leased time.Duration
		for range 600 {
			got := simtest.PlacesOf(t, c, conn, "home")
			if leased == 0 && strings.HasSuffix(got, "lease europe-west1") {
				leased = time.Since(before)
			}
			if got == "1 (us-east1), 1 (us-west1), 3 europe-west1; lease europe-west1" {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		took := time.Since(before)
		t.Logf("the lease moved after %v, all replicas after %v", leased, took)
		if leased == 0 || leased > 4*time.Second || took > 15*time.Second {
			t.Errorf("the lease moved after %v, all replicas after %v", leased, took)
		}
	})
}
