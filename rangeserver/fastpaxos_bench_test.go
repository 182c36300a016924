package rangeserver_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	fastpaxos "meridian/commit/fastpaxos/core"
	fastreplica "meridian/commit/fastpaxos/replica"
	"meridian/commit/leader"
	"meridian/commit/leader/tscache"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/route"
	"meridian/storage/engine"
	"meridian/transport"
)

// The price of a transaction of one row at one replica of its range, in a store with a disk in memory: BenchmarkFastPaxos is a vote and an outcome, BenchmarkLeader the
// same update by the leaseholder of a range with a log.

// numbers are rows of one number of eight bytes, with 92 others.
type numbers struct{}

func (numbers) Column(row []byte, _ uint32) (int64, bool) {
	return int64(binary.BigEndian.Uint64(row)), true
}

func (n numbers) Add(row []byte, ds []fastpaxos.Delta) ([]byte, error) {
	row = append([]byte(nil), row...)
	v, _ := n.Column(row, 0)
	for _, d := range ds {
		v += d.Amount
	}
	binary.BigEndian.PutUint64(row, uint64(v))
	return row, nil
}

// single is a store with one node.
type single struct {
	b      *testing.B
	store  *rangeserver.Store
	clock  *clock.Clock
	engine *engine.Engine
	writes uint64
}

func (s *single) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	b.RangeID = 2
	return s.store.Send(ctx, b)
}

func newSingle(b *testing.B) *single {
	h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	s := &single{b: b, clock: clock.New(h.Clock, clock.DefaultMaxOffset)}
	var err error
	s.engine, err = engine.Open(h, "store", engine.Options{MemTableBytes: 64 << 20, CacheBytes: 64 << 20, ReserveBytes: -1})
	check(b, err)
	b.Cleanup(func() { h.Group.Stop(); _ = s.engine.Close() })
	check(b, rangeserver.Bootstrap(s.engine, 1, 1, s.clock.Now(), nil))
	o := &leader.Options{Host: h, Clock: s.clock, Engine: s.engine, Sender: s, Cache: tscache.New(tscache.Options{}, s.clock.Now()), Metrics: &leader.Metrics{}}
	s.store, err = rangeserver.Open(rangeserver.Options{Host: h, Clock: s.clock, Engine: s.engine, Liveness: lone{}, NodeID: 1, StoreID: 1, QueueInterval: 200 * time.Millisecond,
		Leader:    func(r *replica.Replica, handoff any) rangeserver.Leader { return leader.New(o, r, handoff) },
		Protocols: rangeserver.Registry{kv.FastPaxos: fastreplica.New(fastreplica.ProtocolOptions{Columns: numbers{}})}})
	check(b, err)
	r := s.store.Replica(2)
	_, err = r.EnsureLease(context.Background(), s.clock.Now())
	check(b, err)
	s.store.SetDB(direct{r, s.clock})
	for i := range 10_000 {
		_, err := s.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: benchKey(i), Value: make([]byte, 100)}}})
		check(b, err)
	}
	return s
}

func benchKey(i int) keys.Key { return append(keys.TableKey(uint32(100)), fmt.Sprintf("%010d", i)...) }

func (s *single) begin() {
	s.b.ReportAllocs()
	s.writes = s.engine.Metrics().WALBytesWritten
	s.b.ResetTimer()
}

func (s *single) end() {
	s.b.StopTimer()
	s.b.ReportMetric(float64(s.engine.Metrics().WALBytesWritten-s.writes)/float64(s.b.N), "logged-B/op")
	s.b.ReportMetric(float64(s.store.Metrics.Seals.Load()), "seals")
}

func (s *single) ask(qs ...*fastpaxos.Request) []*fastpaxos.Reply {
	b := &kv.Batch{Header: kv.Header{Protocol: kv.FastPaxos}}
	for _, q := range qs {
		b.Requests = append(b.Requests, &kv.ProtocolRequest{Key: q.Key, Body: q.Append(nil), Reads: q.Kind == fastpaxos.Read})
	}
	for {
		b.Generation = s.store.Replica(2).Generation().Number
		resp, err := s.Send(context.Background(), b)
		if err != nil {
			if _, ok := err.(*kv.GenerationError); ok {
				time.Sleep(time.Millisecond)
				continue
			}
			s.b.Fatal(err)
		}
		out := make([]*fastpaxos.Reply, len(resp.Responses))
		for i, r := range resp.Responses {
			out[i], err = fastpaxos.DecodeReply(r.(*kv.ProtocolResponse).Body)
			check(s.b, err)
		}
		return out
	}
}

func (s *single) name(n int64) fastpaxos.Name {
	out := fastpaxos.Name{At: s.clock.Now()}
	binary.BigEndian.PutUint64(out.Txn[:], uint64(n))
	return out
}

// update is a transaction of one row: a read that locks, and a commit in one phase.
func (s *single) update(i int) {
	k := benchKey(i)
	t := &kv.Txn{TxnMeta: kv.TxnMeta{Anchor: k, MinTimestamp: s.clock.Now()}}
	t.WriteTimestamp, t.ReadTimestamp = t.MinTimestamp, t.MinTimestamp
	t.UncertaintyLimit = t.MinTimestamp
	n := s.name(int64(i))
	copy(t.ID[:], n.Txn[:])
	binary.BigEndian.PutUint64(t.ID[8:], uint64(n.At.Wall))
	_, err := s.Send(context.Background(), &kv.Batch{Header: kv.Header{Txn: t, CanForwardRead: true}, Requests: []kv.Request{&kv.GetRequest{Key: k, Lock: kv.Exclusive}}})
	check(s.b, err)
	_, err = s.Send(context.Background(), &kv.Batch{Header: kv.Header{Txn: t, CanForwardRead: true}, Requests: []kv.Request{&kv.PutRequest{Key: k, Value: make([]byte, 100), Seq: 1},
		&kv.EndTxnRequest{Anchor: k, Commit: true, OnePhase: true, LockSpans: []keys.Span{{Start: k}}}}})
	check(s.b, err)
}

func BenchmarkFastPaxos(b *testing.B) {
	physical := func(b *testing.B, key func(i int) keys.Key) {
		s := newSingle(b)
		_, err := s.store.SetProtocol(context.Background(), 2, &kv.AdminSetProtocolRequest{Key: benchKey(0), Protocol: kv.FastPaxos})
		check(b, err)
		val := make([]byte, 100)
		s.begin()
		for i := range b.N {
			k := key(i)
			row := s.ask(&fastpaxos.Request{Kind: fastpaxos.Read, Key: k, Look: &fastpaxos.Look{Keys: []keys.Key{k}}})[0].Looked.Rows[0]
			o := fastpaxos.Option{Name: s.name(int64(i)), Update: fastpaxos.Update{Seen: row.Seen, Value: val}, Keys: []keys.Key{k}}
			if r := s.ask(&fastpaxos.Request{Kind: fastpaxos.Propose, Key: k, Option: o})[0]; r.Verdict != fastpaxos.Accepted {
				b.Fatalf("%+v", r)
			}
			s.ask(&fastpaxos.Request{Kind: fastpaxos.End, Key: k, Option: o, Committed: true})
		}
		s.end()
	}
	b.Run("cold", func(b *testing.B) { physical(b, func(i int) keys.Key { return benchKey(i % 10_000) }) })
	b.Run("hot", func(b *testing.B) { physical(b, func(int) keys.Key { return benchKey(7) }) })
	b.Run("commuting", func(b *testing.B) {
		s := newSingle(b)
		_, err := s.store.SetProtocol(context.Background(), 2, &kv.AdminSetProtocolRequest{Key: benchKey(0), Protocol: kv.FastPaxos})
		check(b, err)
		k := benchKey(7)
		seen := s.ask(&fastpaxos.Request{Kind: fastpaxos.Read, Key: k, Look: &fastpaxos.Look{Keys: []keys.Key{k}}})[0].Looked.Rows[0].Seen
		var n, again atomic.Int64
		s.begin()
		var wg sync.WaitGroup
		for range 100 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
					now := seen
					for {
						o := fastpaxos.Option{Name: s.name(i), Update: fastpaxos.Update{Seen: now, Deltas: []fastpaxos.Delta{{Amount: 1, Max: 1 << 60}}}, Keys: []keys.Key{k}}
						r := s.ask(&fastpaxos.Request{Kind: fastpaxos.Propose, Key: k, Option: o})[0]
						if r.Verdict == fastpaxos.Accepted {
							s.ask(&fastpaxos.Request{Kind: fastpaxos.End, Key: k, Option: o, Committed: true})
							break
						}
						again.Add(1)
						now = s.ask(&fastpaxos.Request{Kind: fastpaxos.Read, Key: k, Look: &fastpaxos.Look{Keys: []keys.Key{k}}})[0].Looked.Rows[0].Seen
					}
				}
			}()
		}
		wg.Wait()
		s.end()
		b.ReportMetric(float64(again.Load())/float64(b.N), "again/op")
	})
}

// BenchmarkLeader is the leaseholder's part of the same: a read that locks, and a commit in one phase.
func BenchmarkLeader(b *testing.B) {
	b.Run("cold", func(b *testing.B) {
		s := newSingle(b)
		s.begin()
		for i := range b.N {
			s.update(i % 10_000)
		}
		s.end()
	})
	b.Run("hot", func(b *testing.B) {
		s := newSingle(b)
		s.begin()
		for range b.N {
			s.update(7)
		}
		s.end()
	})
}

// BenchmarkThree is the processor time of the same with three replicas, which talk over the real transport: the gateway is on the node of the first, which is the
// leaseholder. No SQL, and no coordinator.
func BenchmarkThree(b *testing.B) {
	val := make([]byte, 100)
	b.Run("leader", func(b *testing.B) {
		s := newTriple(b)
		s.measure(func(i int) { s.single.update(i % 10_000) })
	})
	b.Run("fast_paxos", func(b *testing.B) {
		s := newTriple(b)
		_, err := s.store.SetProtocol(context.Background(), 2, &kv.AdminSetProtocolRequest{Key: benchKey(0), Protocol: kv.FastPaxos})
		check(b, err)
		s.await(func(d *kv.RangeDescriptor) bool { return d.Protocol == kv.FastPaxos })
		var background sync.WaitGroup
		s.measure(func(i int) {
			k := benchKey(i % 10_000)
			row := s.ask(&fastpaxos.Request{Kind: fastpaxos.Read, Key: k, Look: &fastpaxos.Look{Keys: []keys.Key{k}}})[0].Looked.Rows[0]
			o := fastpaxos.Option{Name: s.name(int64(i)), Update: fastpaxos.Update{Seen: row.Seen, Value: val}, Keys: []keys.Key{k}}
			s.everyone(&fastpaxos.Request{Kind: fastpaxos.Propose, Key: k, Option: o})
			background.Go(func() { s.everyone(&fastpaxos.Request{Kind: fastpaxos.End, Key: k, Option: o, Committed: true}) })
			if i%1000 == 999 {
				background.Wait() // so that a row has the version of the last time
			}
		})
		background.Wait()
	})
}

// triple is three stores with a replica of the range each.
type triple struct {
	*single
	net *transport.Transport // of the first
	all []*rangeserver.Store
}

func newTriple(b *testing.B) *triple {
	addrs := make(map[kv.NodeID]string)
	out := &triple{}
	for id := kv.NodeID(1); id <= 3; id++ {
		h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
		s := &single{b: b, clock: clock.New(h.Clock, clock.DefaultMaxOffset)}
		var err error
		s.engine, err = engine.Open(h, "store", engine.Options{MemTableBytes: 64 << 20, CacheBytes: 64 << 20, ReserveBytes: -1})
		check(b, err)
		if id == 1 {
			check(b, rangeserver.Bootstrap(s.engine, 1, 1, s.clock.Now(), nil))
		}
		t := transport.New(transport.Options{Host: h, Clock: s.clock, NodeID: func() kv.NodeID { return id },
			Resolve: func(id kv.NodeID) (string, bool) { a, ok := addrs[id]; return a, ok }})
		l, err := h.Network.Listen("127.0.0.1:0")
		check(b, err)
		addrs[id] = l.Addr().String()
		o := &leader.Options{Host: h, Clock: s.clock, Engine: s.engine, Sender: s, Cache: tscache.New(tscache.Options{}, s.clock.Now()), Metrics: &leader.Metrics{}}
		t.Handle(route.Method, route.Serve(route.Options{Host: h, Local: s, Clock: s.clock}))
		s.store, err = rangeserver.Open(rangeserver.Options{Host: h, Clock: s.clock, Engine: s.engine, Network: t, Liveness: lone{}, NodeID: id, StoreID: kv.StoreID(id), QueueInterval: 200 * time.Millisecond,
			Leader:    func(r *replica.Replica, handoff any) rangeserver.Leader { return leader.New(o, r, handoff) },
			Protocols: rangeserver.Registry{kv.FastPaxos: fastreplica.New(fastreplica.ProtocolOptions{Columns: numbers{}})}})
		check(b, err)
		h.Group.Go(func(context.Context) { _ = t.Serve(l) })
		b.Cleanup(func() { t.Close(); h.Group.Stop(); _ = s.engine.Close() })
		if out.all = append(out.all, s.store); id == 1 {
			out.single, out.net = s, t
		}
	}
	r := out.store.Replica(2)
	_, err := r.EnsureLease(context.Background(), out.clock.Now())
	check(b, err)
	out.store.SetDB(direct{r, out.clock})
	check(b, out.store.ChangeReplicas(context.Background(), 2, targets(1, 2, 3)))
	out.await(func(d *kv.RangeDescriptor) bool { return len(d.Replicas) == 3 })
	for i := range 10_000 {
		_, err := out.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: benchKey(i), Value: make([]byte, 100)}}})
		check(b, err)
	}
	return out
}

// await waits until all replicas have a descriptor.
func (s *triple) await(has func(*kv.RangeDescriptor) bool) {
	for _, one := range s.all {
		for one.Replica(2) == nil || one.Replica(2).Desc() == nil || !has(one.Replica(2).Desc()) {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// measure reports the process's processor time per call.
func (s *triple) measure(f func(i int)) {
	used := func() time.Duration {
		var r syscall.Rusage
		check(s.b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	s.begin()
	before := used()
	for i := range s.b.N {
		f(i)
	}
	s.end()
	s.b.ReportMetric(float64((used()-before).Nanoseconds())/float64(s.b.N), "cpu-ns/op")
}

// everyone asks all three replicas, and waits for all.
func (s *triple) everyone(q *fastpaxos.Request) {
	var wait sync.WaitGroup
	for _, r := range s.store.Replica(2).Desc().Replicas {
		if r.Node == 1 {
			continue
		}
		b := &kv.Batch{Header: kv.Header{Protocol: kv.FastPaxos, RangeID: 2, Generation: s.store.Replica(2).Generation().Number, Target: kv.ToReplica(r.Replica)},
			Requests: []kv.Request{&kv.ProtocolRequest{Key: q.Key, Body: q.Append(nil)}}}
		wait.Go(func() {
			reply, err := s.net.Call(context.Background(), r.Node, route.Method, kv.AppendBatch(nil, b))
			if err == nil {
				_, refused, malformed := kv.DecodeReply(reply)
				err = errors.Join(refused, malformed)
			}
			if err != nil {
				s.b.Error(err)
			}
		})
	}
	s.ask(q)
	wait.Wait()
}
