package cluster_test

import (
	"testing"
	"time"

	"meridian/clock"
	"meridian/cluster"
)

// A node that starts again at once waits until nobody takes its former life for alive any more (cluster.L2): that one may have
// served reads up to then.
func TestRestartWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startAll(2)
		n := w.nodes[2]
		n.StartHeartbeat(n.view)
		time.Sleep(3 * time.Second)
		former, ok := n.Own()
		if !ok {
			t.Fatal("no record")
		}
		n.machine.Crash(0, false)
		n.host.Group.Stop()
		w.start(n, "n1:1")
		n.StartHeartbeat(n.view)
		stored := func() cluster.Liveness {
			raw, err := n.view.Get(t.Context(), n.id)
			if err != nil {
				t.Fatal(err)
			}
			l, err := cluster.DecodeLiveness(raw)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		for {
			l := stored()
			if former.Live(n.clock.Now()) {
				if l.Incarnation != former.Incarnation {
					t.Fatalf("%v while its former life may be served until %s", l, former.Expiration)
				}
			} else if inc, ok := n.Incarnation(); ok {
				if inc != former.Incarnation+1 {
					t.Errorf("incarnation %d after %d", inc, former.Incarnation)
				}
				return
			}
		}
	})
}

// A record that a node's earlier process has written is told apart from those of the present one, on the node itself and on others: it is no
// sign of life, and what it says of draining is over.
func TestRecordOfBefore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.startAll(2)
		other, n := w.nodes[1], w.nodes[2]
		n.StartHeartbeat(n.view)
		time.Sleep(2 * time.Second)
		n.SetDraining(true)
		time.Sleep(2 * time.Second)
		former, _ := n.Own()
		if _, beats := other.Leases().Process(2); !beats || !former.Draining {
			t.Fatalf("before the restart: beats %v, record %v", beats, former)
		}
		n.machine.Crash(0, false)
		n.host.Group.Stop()
		w.start(n, "n1:1")
		begun := n.clock.Now()
		n.StartHeartbeat(n.view)
		time.Sleep(1500 * time.Millisecond)
		for name, c := range map[string]*cluster.Cluster{"itself": n.Cluster, "another node": other.Cluster} {
			started, beats := c.Leases().Process(2)
			if l, ok := c.Record(2); beats || !ok || !l.Draining || l.Incarnation != former.Incarnation {
				t.Errorf("%s takes %v for the record of the present process: %v", name, l, beats)
			}
			if e, _ := c.Get(2); e.Draining || started != (clock.Timestamp{Wall: e.StartedAt.UnixNano()}) || begun.Less(started) {
				t.Errorf("%s has heard that the present process started at %s: %+v", name, started, e)
			}
		}
		time.Sleep(3 * time.Second)
		for name, c := range map[string]*cluster.Cluster{"itself": n.Cluster, "another node": other.Cluster} {
			if l, ok := c.Record(2); !ok || l.Draining {
				t.Errorf("%s: %v", name, l)
			}
			if _, beats := c.Leases().Process(2); !beats {
				t.Errorf("%s takes the record of the present process for one of before", name)
			}
		}
	})
}
