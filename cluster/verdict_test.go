package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/cluster"
	"meridian/kv"
)

// TestABoundThatIsWrong: a node whose clock is outside of the bound that it claims, far within the maximum offset, stops itself within a second and a round trip, and
// the others name it (cluster.L5).
func TestABoundThatIsWrong(t *testing.T) {
	for _, offset := range []time.Duration{-300 * ms, -20 * ms, 0, 8 * ms, 260 * ms} {
		bubble(t, func(t *testing.T, w *world) {
			w.bound = 5 * ms
			w.startAll(3)
			time.Sleep(5 * time.Second)
			w.nodes[2].machine.Clock.Jump(offset)
			const trip = 140 * ms
			time.Sleep(time.Second + trip)
			synctest.Wait()
			// Each way of the round trip may be anything up to the whole, so 250 ms are proof, and 20 ms are none.
			wrong := offset.Abs() > 200*ms
			for _, n := range w.nodes[1:4] {
				if want := n.id == 2 && wrong; len(n.broken) > 0 != want {
					t.Errorf("offset %s: n%d: %v", offset, n.id, n.broken)
				}
				if len(n.doubts) > 0 {
					t.Errorf("offset %s: n%d doubts: %v", offset, n.id, n.doubts)
				}
				state := ""
				for _, o := range n.Offsets() {
					if o.Node == 2 {
						state = o.State
					}
				}
				if n.id != 2 && (state == cluster.OffsetWrong) != wrong {
					t.Errorf("offset %s: n%d says of n2: %s", offset, n.id, state)
				}
			}
			if !wrong {
				return
			}
			var e *cluster.BoundError
			if err := w.nodes[2].broken[0]; !errors.As(err, &e) || !e.Own || !slices.Equal(e.Wrong, []kv.NodeID{2}) || !strings.Contains(err.Error(), "a majority of 3 nodes contradicts it") {
				t.Error(err)
			}
			for _, n := range []*node{w.nodes[1], w.nodes[3]} {
				if log := n.log.String(); !strings.Contains(log, "the clock of n2 is outside of the bound that it claims") {
					t.Errorf("n%d's log: %s", n.id, log)
				}
			}
		})
	}
}

// TestTwoBoundsThatContradict: of two nodes, and of two pairs, none knows which is wrong. All of them say so, and that it is over when the clock was corrected.
func TestTwoBoundsThatContradict(t *testing.T) {
	for _, count := range []int{2, 4} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.bound = 5 * ms
				set := func(d time.Duration) {
					for _, n := range w.nodes[1 : count/2+1] {
						n.machine.Clock.SetOffset(d)
					}
				}
				set(400 * ms)
				w.startAll(count)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				for _, n := range w.nodes[1 : count+1] {
					if len(n.broken) > 0 {
						t.Errorf("n%d is broken: %v", n.id, n.broken)
					}
					if len(n.doubts) == 0 || !strings.Contains(fmt.Sprint(n.doubts[0]), "no majority says which") {
						t.Errorf("n%d doubts: %v", n.id, n.doubts)
					}
				}
				set(0)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				for _, n := range w.nodes[1 : count+1] {
					if n.doubts[len(n.doubts)-1] != nil {
						t.Errorf("n%d doubts: %v", n.id, n.doubts)
					}
				}
			})
		})
	}
}
