package latency_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestPromiseOfAnotherRange: a replica that has not applied a split yet asks for a promise for a key of the right side (leader.P29). It is the right side's leaseholder that answers, whose log has nothing to do with the
// replica's: the replica does not serve the read before it has applied the split.
func TestPromiseOfAnotherRange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := continueWorld(t, simcluster.Options{})
		far, near := simtest.ConnectTo(t, f.c, gatewayNode, "d"), simtest.ConnectTo(t, f.c, 0, "d")
		time.Sleep(10 * time.Second)
		for i := range 4 {
			id := (i+1)*continueRows/4 - 10
			read := func() int {
				simtest.Exec(t, far, "BEGIN READ ONLY")
				v := simtest.One(t, far, fmt.Sprintf("SELECT v FROM t WHERE id = %d", id))
				simtest.Exec(t, far, "COMMIT")
				return v
			}
			read()
			before := f.served(nearNode)
			if v := read(); v != 0 || f.served(nearNode) == before {
				t.Fatalf("%d; the near replica has served %d", v, f.served(nearNode)-before)
			}
			f.c.Machines[nearNode].Disk.SetSyncDelay(3 * time.Second) // it applies nothing meanwhile
			simtest.Exec(t, near, fmt.Sprintf("ALTER TABLE t SPLIT AT VALUES (%d)", id-10))
			simtest.Exec(t, near, fmt.Sprintf("UPDATE t SET v = 7 WHERE id = %d", id))
			begin := time.Now()
			v := read()
			t.Logf("read %d after %v", v, time.Since(begin))
			if v != 7 {
				t.Errorf("a read-only transaction that began after the UPDATE was answered sees %d", v)
			}
			f.c.Machines[nearNode].Disk.SetSyncDelay(0)
			time.Sleep(10 * time.Second)
		}
	})
}
