package ranges_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/cluster"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestStoppedItself: a node that stops because of its clock has stopped by itself, which is told once; one that is crashed, or stopped by the test,
// has not, though it meets errors as it goes down.
func TestStoppedItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		for name, end := range map[string]func(){
			"crashed":                func() { c.Crash(2, 0, false) },
			"crashed without a word": func() { c.Crash(2, 0, true) },
			"crashed as it syncs": func() {
				c.CrashAtSync(2, 1)
				for i := 0; c.Node(2) != nil; i++ {
					if err := c.Node(0).DB().Put(context.Background(), simtest.UserKey(i), []byte("v")); err != nil {
						t.Fatal(err)
					}
				}
			},
			"stopped": func() { c.StopNode(2) },
		} {
			n := c.Node(2)
			end()
			for range 3000 {
				if err := c.StoppedItself(2, n); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				time.Sleep(time.Millisecond)
			}
			c.Boot(2)
			c.WaitReady(2)
		}
		n := c.Node(2)
		c.Machines[2].Clock.SetOffset(10 * time.Second)
		times := 0
		for range 30000 {
			if err := c.StoppedItself(2, n); err != nil {
				if times++; !errors.As(err, new(*cluster.ClockError)) && !errors.As(err, new(*cluster.BoundError)) {
					t.Error(err)
				}
			}
			time.Sleep(time.Millisecond)
		}
		if times != 1 {
			t.Errorf("its stop was told %d times", times)
		}
	})
}
