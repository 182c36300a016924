package replica

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim"
)

// TestStuckByTime: an append has waited long for the disk when so much time has passed. Ticks that a busy replica makes up for at once are no wait: under overload they made one of 200 ms look like one of
// 800, and the lease left the gateway.
func TestStuckByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
		defer h.Group.Stop()
		r := &Replica{o: &Options{Host: h}}
		r.appends = []*Append{{index: 7, since: h.Clock.Monotonic()}}
		time.Sleep(2 * TickInterval)
		r.ticks += slowTicks + 1
		if n := r.stuck(); n != 0 {
			t.Errorf("an append of %v is stuck", 2*TickInterval)
		}
		time.Sleep((slowTicks - 2) * TickInterval)
		if n := r.stuck(); n != 7 {
			t.Errorf("after %v the append up to 7 is not stuck, but %d", slowTicks*TickInterval, n)
		}
	})
}
