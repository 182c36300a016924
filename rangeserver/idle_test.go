package rangeserver_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/transport"
)

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// alone is the network of a node that has no peers: with one, a store closes timestamps.
type alone struct{ rangeserver.Network }

func (alone) HandleStream(string, transport.StreamHandler) {}
func (alone) Handle(string, transport.Handler)             {}

// BenchmarkIdle is what ranges cost that nobody uses, the loop of closed timestamps included: b.N is of no meaning, the
// metric is the share of a processor.
func BenchmarkIdle(b *testing.B) {
	const ranges = 5000
	h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	clk := clock.New(h.Clock, clock.DefaultMaxOffset)
	e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
	check(b, err)
	defer e.Close()
	defer h.Group.Stop()
	check(b, rangeserver.Bootstrap(e, 1, 1, clk.Now(), nil))
	s, err := rangeserver.Open(rangeserver.Options{Host: h, Clock: clk, Engine: e, Network: alone{}, Liveness: lone{}, NodeID: 1, StoreID: 1,
		Leader: func(*replica.Replica, any) rangeserver.Leader { return &participant{n: &node{c: &cluster{}}} }})
	check(b, err)
	r := s.Replica(2)
	_, err = r.EnsureLease(context.Background(), clk.Now())
	check(b, err)
	for i := ranges; i > 2; i-- {
		d := r.Desc()
		left, right := d.Clone(), d.Clone()
		left.End = binary.BigEndian.AppendUint32(keys.TableKey(uint32(100)), uint32(i))
		right.Start, right.ID = left.End, kv.RangeID(i)
		t := &kv.CommitTrigger{Split: &kv.SplitTrigger{Left: *left, Right: *right}}
		seq, err := r.EnsureLease(context.Background(), clk.Now())
		check(b, err)
		eb := e.NewBatch()
		delta, err := r.EvaluateTrigger(e, eb, t)
		check(b, err)
		check(b, r.Propose(context.Background(), &replica.Command{LeaseSequence: seq, Trigger: t, Batch: eb.Repr(), Delta: delta}))
		_ = eb.Close()
	}
	for s.Gauges().Quiesced < ranges-1 {
		time.Sleep(100 * time.Millisecond)
	}
	b.ResetTimer()
	before, start := cpu(), time.Now()
	time.Sleep(4 * time.Second)
	b.ReportMetric(100*float64(cpu()-before)/float64(time.Since(start)), "%cpu")
	b.ReportMetric(ranges, "ranges")
}
