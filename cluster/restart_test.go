package cluster_test

import (
	"testing"
	"time"

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
