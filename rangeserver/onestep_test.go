package rangeserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/kv"
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
