package simcluster_test
import ("testing";"testing/synctest";"time";"runtime";"os";"meridian/sim/simcluster")
func TestDbgCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newCutCluster(t, simcluster.Options{Log: logTo(), Seed: 1}, 3)
		x.leases(0,0)
		k := cut{n:3}; k.add(0,1);k.add(1,0);k.add(0,2);k.add(2,0)
		go func(){ time.Sleep(13500*time.Millisecond); b:=make([]byte,8<<20); n:=runtime.Stack(b,true); os.WriteFile("/tmp/w/cutslog/stack.txt", b[:n], 0o644)}()
		x.try("dbg", k)
		x.end()
	})
}
