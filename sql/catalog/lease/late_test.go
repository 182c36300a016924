package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/catalog/lease"
)

// A renewal that is under way when the tenure ends does not bring the tenure back: a change has not waited for the node
// meanwhile, and the node would go on with the replaced version (lease.L3).
func TestLateRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, true)
		defer c.stop()
		id := c.nodes[0].create(t, "t")
		n := c.nodes[1]
		for was := n.m.Deadline(); n.m.Deadline() == was; { // just renewed
			time.Sleep(time.Millisecond)
		}
		end := n.m.Deadline()
		left := func() time.Duration { return time.Duration(end.Wall - n.db.Clock().Now().Wall) }
		n.deaf.Store(true)
		n.way.d.Store(int64(4500 * time.Millisecond)) // longer than a renewal may take
		for left() > time.Second {
			time.Sleep(time.Millisecond)
		}
		n.way.d.Store(int64(2 * time.Second)) // this one may succeed, but comes late
		for left() > -time.Second/2 {
			time.Sleep(time.Millisecond)
		}
		if n.m.Deadline() != end {
			t.Fatal("renewed in time")
		}
		began := time.Now()
		if err := c.nodes[0].rename(id, "u"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d > time.Second {
			t.Fatalf("the change took %s", d)
		}
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			if v := n.m.Snapshot().Version(id); v < 2 && left() < 0 && n.m.Deadline() != end {
				t.Fatalf("version %d may be used until %s", v, n.m.Deadline())
			}
		}
		n.way.d.Store(0)
		time.Sleep(lease.DefaultDuration)
		if v := n.m.Snapshot().Version(id); v != 2 {
			t.Errorf("version %d is used in the end", v)
		}
	})
}
