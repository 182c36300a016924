package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/transport"
)

// lone is a liveness of one node that lives for ever.
type lone struct{}

func (lone) IsLive(kv.NodeID, uint64, clock.Timestamp) bool { return true }
func (lone) Process(kv.NodeID) (clock.Timestamp, bool)      { return clock.Timestamp{}, true }
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
		QueueInterval: -1, Leader: func(r *replica.Replica, _ any) rangeserver.Leader { return &participant{} }})
	check(b, err)
	r := s.Replica(2)
	_, err = r.EnsureLease(context.Background(), clk.Now())
	check(b, err)
	write(b, s, r, clk, e)
}

// write replicates b.N small values, eight at a time.
func write(b *testing.B, s *rangeserver.Store, r *replica.Replica, clk *clock.Clock, e *engine.Engine) {
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

// BenchmarkProposeThree is the same with three replicas on three stores of this machine, over the real transport.
func BenchmarkProposeThree(b *testing.B) {
	var stores [4]*rangeserver.Store
	var clks [4]*clock.Clock
	var engines [4]*engine.Engine
	addrs := make(map[kv.NodeID]string)
	for id := kv.NodeID(1); id <= 3; id++ {
		h := machine.New(context.Background(), machine.Options{Log: slog.New(slog.DiscardHandler)})
		clk := clock.New(h.Clock, clock.DefaultMaxOffset)
		e, err := engine.Open(h, b.TempDir(), engine.Options{MemTableBytes: 64 << 20})
		check(b, err)
		defer e.Close()
		defer h.Group.Stop()
		if id == 1 {
			check(b, rangeserver.Bootstrap(e, 1, 1, clk.Now(), nil))
		}
		t := transport.New(transport.Options{Host: h, Clock: clk, NodeID: func() kv.NodeID { return id },
			Resolve: func(id kv.NodeID) (string, bool) { a, ok := addrs[id]; return a, ok }})
		defer t.Close()
		l, err := h.Network.Listen("127.0.0.1:0")
		check(b, err)
		addrs[id] = l.Addr().String()
		s, err := rangeserver.Open(rangeserver.Options{Host: h, Clock: clk, Engine: e, Network: t, Liveness: lone{}, NodeID: id, StoreID: kv.StoreID(id),
			QueueInterval: -1, Leader: func(r *replica.Replica, _ any) rangeserver.Leader { return &participant{} }})
		check(b, err)
		h.Group.Go(func(context.Context) { _ = t.Serve(l) })
		stores[id], clks[id], engines[id] = s, clk, e
	}
	s := stores[1]
	r := s.Replica(2)
	_, err := r.EnsureLease(context.Background(), clks[1].Now())
	check(b, err)
	s.SetDB(direct{r, clks[1]})
	check(b, s.ChangeReplicas(context.Background(), 2, targets(1, 2, 3)))
	for stores[3].Replica(2).Desc() == nil || len(stores[3].Replica(2).Desc().Replicas) < 3 {
		time.Sleep(10 * time.Millisecond)
	}
	write(b, s, r, clks[1], engines[1])
}

// direct is a DB that only carries out triggers.
type direct struct {
	r   *replica.Replica
	clk *clock.Clock
}

func (d direct) Increment(context.Context, keys.Key, int64) (int64, error) { return 3, nil }
func (d direct) RunInternal(ctx context.Context, _ string, f func(context.Context, rangeserver.Tx) error) error {
	return f(ctx, d)
}
func (d direct) Get(context.Context, keys.Key) ([]byte, error) { return d.r.Desc().Append(nil), nil }
func (d direct) Put(context.Context, keys.Key, []byte) error   { return nil }
func (d direct) Delete(context.Context, keys.Key) error        { return nil }
func (d direct) Within(rangeserver.ZoneUse)                    {}
func (d direct) Lay(context.Context) (kv.TxnMeta, error)       { return kv.TxnMeta{}, nil }
func (d direct) CommitWithTrigger(ctx context.Context, t *kv.CommitTrigger) error {
	seq, err := d.r.EnsureLease(ctx, d.clk.Now())
	if err != nil {
		return err
	}
	return d.r.Propose(ctx, &replica.Command{LeaseSequence: seq, Trigger: t})
}
