package rangeserver

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
)

// TestBacklog: while the engine is behind, what brings new data waits, for a bounded time; a level in between changes
// nothing (rangeserver.RS3).
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
		defer h.Group.Stop()
		b := backlog{clock: h.Clock}
		var level, applied atomic.Int64
		h.Group.Go(func(ctx context.Context) {
			b.watch(ctx, &applied, func() float64 { return float64(level.Load()) / 100 })
		})
		waits := func() time.Duration {
			start := time.Now()
			if err := b.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(start)
		}
		if d := waits(); d != 0 {
			t.Errorf("on an idle store a write waited for %s", d)
		}
		level.Store(40)
		applied.Add(1)
		time.Sleep(time.Second)
		if b.high.Load() {
			t.Error("writes wait at 40 %")
		}
		level.Store(70)
		applied.Add(1)
		time.Sleep(time.Second)
		if d := waits(); d != backlogWait {
			t.Errorf("at 70 %% a write waited for %s", d)
		}
		level.Store(40) // nothing is written, and it is looked at all the same
		time.Sleep(time.Second)
		if !b.high.Load() {
			t.Error("writes go on at 40 %, before the engine has caught up")
		}
		time.AfterFunc(100*time.Millisecond, func() { level.Store(10) })
		if d := waits(); d < 100*time.Millisecond || d > 100*time.Millisecond+backlogLook+backlogWait/20 {
			t.Errorf("the engine has caught up after 100 ms, and a write waited for %s", d)
		}
	})
}

// TestWhatWaitsForTheEngine: rows of clients do; what keeps nodes alive and ends transactions does not.
func TestWhatWaitsForTheEngine(t *testing.T) {
	row := keys.IndexPrefix(uint32(100), uint32(1))
	for _, c := range []struct {
		r    kv.Request
		want bool
	}{
		{&kv.PutRequest{Key: row}, true},
		{&kv.LoadRequest{Rows: []kv.KeyValue{{Key: row}}}, true},
		{&kv.PutRequest{Key: keys.LivenessKey(kv.NodeID(1))}, false},
		{&kv.CPutRequest{Key: keys.LivenessKey(kv.NodeID(1))}, false},
		{&kv.DeleteRequest{Key: row}, false},
		{&kv.GetRequest{Key: row, Lock: kv.Exclusive}, false},
		{&kv.EndTxnRequest{}, false},
		{&kv.HeartbeatTxnRequest{}, false},
		{&kv.ResolveIntentRequest{Key: row}, false},
		{&kv.PushTxnRequest{}, false},
	} {
		if got := bringsData(&kv.Batch{Requests: []kv.Request{c.r}}); got != c.want {
			t.Errorf("%T of %s waits: %v", c.r, c.r.Span().Start, got)
		}
	}
}
