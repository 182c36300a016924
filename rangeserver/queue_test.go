package rangeserver_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	cluster_ "meridian/cluster"
	"meridian/kv"
)

// TestQueues: one node becomes three voters in three regions as nodes join; a node that stays dead is replaced; a
// draining one loses its leases.
func TestQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 6)
		c.interval = time.Second
		c.zones = []string{"region=a,zone=1", "region=a,zone=2", "region=b,zone=1", "region=b,zone=2", "region=c,zone=1", "region=c,zone=2"}
		defer c.stop()
		for i, n := range c.nodes {
			n.start(i == 0)
		}
		for i := range 20 {
			check(t, c.put(fmt.Sprint("k", i), "x"))
		}
		regions := func(id kv.RangeID) map[string]int {
			m := make(map[string]int)
			for _, p := range c.leaseholder(id).store.Replica(id).Desc().Replicas {
				if p.Type != kv.Voter {
					t.Errorf("r%d: %+v", id, p)
				}
				m[c.nodes[p.Node-1].entry.Locality.Region()]++
			}
			return m
		}
		time.Sleep(20 * time.Second)
		for id := range kv.RangeID(2) {
			if m := regions(id + 1); len(m) != 3 {
				t.Fatalf("r%d: %v", id+1, m)
			}
		}
		victim := c.leaseholder(2)
		victim.crash(0)
		time.Sleep(6 * time.Minute)
		d := c.leaseholder(2).store.Replica(2).Desc()
		if _, still := d.Replica(victim.id); still || len(d.Replicas) != 3 {
			t.Fatalf("%+v", d)
		}
		if m := regions(2); len(m) != 3 {
			t.Fatalf("%v", m)
		}
		victim.start(false) // it finds out that it was removed
		time.Sleep(30 * time.Second)
		if r := victim.store.Replica(2); r != nil {
			if _, member := c.leaseholder(2).store.Replica(2).Desc().Replica(victim.id); !member {
				t.Fatalf("n%d still has %+v", victim.id, r.Status())
			}
		}
		drained := c.leaseholder(2)
		view{drained}.Update(func(e *cluster_.Entry) { e.Draining = true })
		time.Sleep(5 * time.Second)
		if at := c.leaseholder(2); at == drained {
			t.Fatalf("n%d drains and has the lease", at.id)
		}
		check(t, c.put("z", "z"))
		c.checkLeases()
	})
}
