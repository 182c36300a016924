package replica

import (
	"context"
	"encoding/binary"
	"testing"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
)

// newsOfBench is a News with one range of three voters, on node 1.
func newsOfBench(tb testing.TB) (*News, *rangeNews) {
	h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
	tb.Cleanup(h.Group.Stop)
	n := NewNews(NewsOptions{Host: h, NodeID: func() kv.NodeID { return 1 }, Ask: func(context.Context, kv.NodeID, []byte) ([]byte, error) { return nil, ErrNoNews }})
	n.running = true // the benchmark asks
	d := &kv.RangeDescriptor{ID: 7}
	for i := range 3 {
		d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(i + 1), Store: kv.StoreID(i + 1), Replica: kv.ReplicaID(i + 1)})
	}
	n.join(d, 1, noTeller{})
	return n, n.of(7)
}

type noTeller struct{}

func (noTeller) tell() ([]newsItem, uint64, error) { return nil, 1, nil }

// optionOfBench is the i-th option of another row and transaction each.
func optionOfBench(i int) (keys.Key, core.Name) {
	k := binary.BigEndian.AppendUint64([]byte("\x10pgbench_accounts/"), uint64(i)*0x9e3779b97f4a7c15)
	var id kv.TxnID
	binary.BigEndian.PutUint64(id[:], uint64(i))
	return k, core.Name{Txn: id, At: clock.Timestamp{Wall: int64(i)}}
}

// BenchmarkNewsNote: what a replica pays for one option that it accepts, and hears the end of.
func BenchmarkNewsNote(b *testing.B) {
	_, g := newsOfBench(b)
	b.ReportAllocs()
	for i := range b.N {
		k, name := optionOfBench(i)
		g.note(k, name, accepted)
		g.note(k, name, carriedOut)
	}
}

// BenchmarkNewsNoteTogether: several replicas, or sessions, at once.
func BenchmarkNewsNoteTogether(b *testing.B) {
	_, g := newsOfBench(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			k, name := optionOfBench(i)
			g.note(k, name, accepted)
			g.note(k, name, carriedOut)
		}
	})
}

// BenchmarkNewsAsk: one question about the thousand options of a quarter of a second, and its answer, with all of which the asking store has heard. An operation is one option.
func BenchmarkNewsAsk(b *testing.B) {
	const options = 1000
	n, g := newsOfBench(b)
	o, og := newsOfBench(b)
	for i := range options {
		k, name := optionOfBench(i)
		g.note(k, name, accepted)
		og.note(k, name, accepted)
	}
	o.o.Ask = func(ctx context.Context, _ kv.NodeID, msg []byte) ([]byte, error) { return n.Serve(ctx, 1, msg) }
	p := &newsPeer{}
	o.peers[2] = p
	o.ask(context.Background(), 2, &hear{}, 0)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += options {
		o.ask(context.Background(), 2, &hear{Incarnation: p.incarnation, Next: p.next - options}, 0)
	}
	if r := o.Lacking(); r != 0 {
		b.Fatalf("%d rows lack something", r)
	}
}
