package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// lone is a liveness of one node that lives for ever.
type lone struct{}

func (lone) IsLive(kv.NodeID, uint64, clock.Timestamp) bool { return true }
func (lone) Self() (uint64, clock.Timestamp)                { return 1, clock.MaxTimestamp }
func (lone) Incarnation(kv.NodeID) (uint64, clock.Timestamp) {
	return 1, clock.MaxTimestamp
}
func (lone) IncrementIncarnation(context.Context, kv.NodeID, uint64) error {
	return errors.New("still live")
}

// BenchmarkPropose is the replicated write of one replica on the machine's disk, eight at a time: evaluation of a
// Put, the log, the shared sync, application.
func BenchmarkPropose(b *testing.B) {
	h := machine.New(context.Background(), machine.Options{Log: slog.New(slog.DiscardHandler)})
	defer h.Group.Stop()
	clk := clock.New(h.Clock, clock.DefaultMaxOffset)
	e, err := engine.Open(h, b.TempDir(), engine.Options{MemTableBytes: 64 << 20})
	check(b, err)
	defer e.Close()
	check(b, rangeserver.Bootstrap(e, 1, 1, clk.Now(), nil))
	s, err := rangeserver.Open(rangeserver.Options{Host: h, Clock: clk, Engine: e, Liveness: lone{}, NodeID: 1, StoreID: 1,
		QueueInterval: -1, Participants: map[kv.Protocol]rangeserver.NewParticipant{kv.Leader: func(r *replica.Replica, _ any) rangeserver.Participant { return &participant{} }}})
	check(b, err)
	r := s.Replica(2)
	_, err = r.EnsureLease(context.Background(), clk.Now())
	check(b, err)
	var n atomic.Int64
	value := make([]byte, 100)
	b.ReportAllocs()
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		w := mvcc.NewWriter(e, nil)
		for pb.Next() {
			now := clk.Now()
			seq, ok := r.CheckLease(now)
			if !ok {
				b.Error("no lease")
				return
			}
			eb := e.NewBatch()
			w.Reset(e, eb)
			k := append(keys.TableKey(uint32(100)), fmt.Sprintf("%010d", n.Add(1))...)
			if err := w.Put(k, value, &mvcc.WriteOptions{Timestamp: now, NoLocks: true}); err != nil {
				b.Error(err)
			}
			if err := r.Propose(context.Background(), &replica.Command{LeaseSequence: seq, Batch: eb.Repr(), Delta: w.Stats}); err != nil {
				b.Error(err)
			}
			_ = w.Close()
			_ = eb.Close()
		}
	})
	b.StopTimer()
	m := &s.Metrics
	b.ReportMetric(float64(m.LogSyncs.Load())/float64(b.N), "appends/op")
}
