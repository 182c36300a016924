package rangeserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
)

// TestOneStep: a range that is nearly empty exchanges its voters by two changes of its descriptor, however many they are; one that has rows makes learners of them first, and
// so does one of whose new nodes not all answer, since without them it would have no majority.
func TestOneStep(t *testing.T) {
	for _, of := range []struct {
		name       string
		rows, down bool
		changes    int64
		fails      bool
	}{
		{name: "empty", changes: 2},
		{name: "rows", rows: true, changes: 4},
		{name: "a node that is down", down: true, fails: true},
	} {
		t.Run(of.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := running(t, 5)
				defer c.stop()
				ctx := context.Background()
				check(t, c.put("a", "1"))
				store := c.nodes[0].store
				check(t, store.ChangeReplicas(ctx, 2, targets(1, 2, 3)))
				if of.rows {
					for i := range 10 {
						check(t, c.put(fmt.Sprint("k", i), strings.Repeat("x", 10_000)))
					}
				}
				if of.down {
					c.nodes[4].crash(0)
				}
				before := store.Replica(2).Desc().Generation
				err := store.ChangeReplicas(ctx, 2, targets(1, 4, 5))
				d := c.leaseholder(2).store.Replica(2).Desc()
				if (err != nil) != of.fails {
					t.Fatalf("%v: %+v", err, d)
				}
				want := []kv.NodeID{1, 4, 5}
				if of.fails {
					want = []kv.NodeID{1, 2, 3}
				} else if n := int64(d.Generation - before); n != of.changes {
					t.Errorf("%d changes, want %d", n, of.changes)
				}
				for i, p := range d.Replicas {
					if p.Type != kv.Voter || i >= len(want) || p.Node != want[i] {
						t.Fatalf("%+v, want voters on %v", d, want)
					}
				}
				check(t, c.put("a", "2"))
				if v, err := c.get("a"); v != "2" || err != nil {
					t.Errorf("a is %q, %v", v, err)
				}
				c.checkLeases()
			})
		})
	}
}

// witnessed is a configuration with four voters and a witness.
type witnessed struct{ cuts }

func (*witnessed) Zone(keys.Key) (placement.Zone, keys.Span) {
	z := placement.DefaultZone()
	z.NumVoters, z.NumReplicas = 4, 4
	z.Witness = &placement.Conjunction{Constraints: []placement.Constraint{{Key: "region", Value: "w"}}}
	return z, keys.Span{Start: keys.Min, End: keys.Max}
}

func (w *witnessed) Use(keys.Span) (rangeserver.ZoneUse, error) { return w, nil }

// TestOneStepOfWitness: a range that is nearly empty gets its witness and the voters that have the rows by two changes of its descriptor, too. It does not leave the joint
// configuration before the voters with rows that are a quorum have the state (replica.R12), also if the change was given up in between, unless the others are away.
func TestOneStepOfWitness(t *testing.T) {
	for _, of := range []struct {
		name        string
		given       bool          // the first change is given up when it has begun
		away        time.Duration // how long two of the new voters are cut off then
		least, most time.Duration
	}{
		{name: "in one go", most: 2 * time.Second},
		{name: "given up", given: true, most: 2 * time.Second},
		{name: "given up, and voters are cut off for a while", given: true, away: 3 * time.Second, least: 3 * time.Second, most: 8 * time.Second},
		{name: "given up, and voters are away", given: true, away: time.Minute, least: 5 * time.Second, most: 15 * time.Second},
	} {
		t.Run(of.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 6)
				c.zones = []string{"region=a", "region=a", "region=a", "region=b", "region=b", "region=w"}
				c.configs = &witnessed{}
				defer c.stop()
				for i, n := range c.nodes {
					if i > 2 {
						n.slow = 100 * time.Millisecond // the joint configuration lasts
					}
					n.start(i == 0)
				}
				check(t, c.put("x", "1"))
				store := c.nodes[0].store
				check(t, store.ChangeReplicas(context.Background(), 2, targets(1, 2, 3)))
				before := store.Replica(2).Desc().Generation
				want := targets(1, 2, 4, 5, 6)
				want[4].Witness = true
				joint := func() bool {
					for _, r := range store.Replica(2).Desc().Replicas {
						if r.Type.Joint() {
							return true
						}
					}
					return false
				}
				if of.given {
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan error, 1)
					go func() { done <- store.ChangeReplicas(ctx, 2, want) }()
					for i := 0; i < 2000 && !joint(); i++ {
						time.Sleep(time.Millisecond)
					}
					cancel()
					if err := <-done; err == nil || !joint() {
						t.Fatalf("the change was not given up: %v", err)
					}
				}
				if of.away > 0 {
					for _, to := range []int{4, 5} {
						for from := range c.nodes {
							if from+1 != to {
								c.net.Partition(fmt.Sprint("n", from+1), fmt.Sprint("n", to))
							}
						}
					}
					time.AfterFunc(of.away, c.net.HealAll)
				}
				start := time.Now()
				err := store.ChangeReplicas(context.Background(), 2, want)
				took := time.Since(start)
				d := store.Replica(2).Desc()
				if err != nil || joint() || len(d.Replicas) != 5 || d.Generation-before != 2 || took < of.least || took > of.most {
					t.Errorf("after %v, %d changes: %v, %+v", took, d.Generation-before, err, d.Replicas)
				}
				for _, r := range d.Replicas {
					if r.Type != kv.Voter || r.Witness != (r.Node == 6) {
						t.Errorf("%+v", d.Replicas)
					}
				}
				check(t, c.put("x", "2"))
				if v, err := c.get("x"); v != "2" || err != nil {
					t.Errorf("x is %q, %v", v, err)
				}
			})
		})
	}
}
