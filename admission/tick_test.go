package admission

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim"
)

// TestPlacesThatAreHandedOn: a tick that gets the gate before a session that has just left, and whose place is for the next one, does not
// take that place for a free one (admission.AD2): while processors are late the limit goes down.
func TestPlacesThatAreHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
		defer h.Group.Stop()
		g := New(Options{Host: h, Slots: 64, Load: func() Load { return Load{Late: 10 * time.Millisecond} }})
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		for range 200 {
			x := g.NewTicket()
			x.suspect = 0
			go func() {
				if !x.TryEnter(Fresh) {
					_ = x.Enter(ctx, Fresh)
				}
			}()
		}
		synctest.Wait()
		for range 20 {
			g.running.Add(-8) // what eight calls of give do before they have the gate
			g.tick()
		}
		if limit := g.Gauges().Limit; limit != 32 {
			t.Errorf("the limit is %d, want 32", limit)
		}
	})
}
