package route

import (
	"context"
	"testing"
	"time"

	"meridian/cluster"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
)

// apart are nodes in regions of their own, each ten milliseconds per node number away.
type apart struct{}

func (apart) Nodes() []cluster.Entry { return nil }

func (apart) Latency(n kv.NodeID) (time.Duration, bool) {
	return time.Duration(n) * 10 * time.Millisecond, true
}

func (apart) Get(n kv.NodeID) (cluster.Entry, bool) {
	e := cluster.Entry{}
	e.Locality = cluster.Locality{{Key: "region", Value: string(rune('a' + n))}}
	return e, true
}

// TestDistanceOfLeaderless: the ranges of a table before its first index and behind its last, which have no rows and leaseholders anywhere, make a table without leaseholders no farther than its replicas are.
func TestDistanceOfLeaderless(t *testing.T) {
	o := Options{Host: machine.New(context.Background(), machine.Options{}), NodeID: func() kv.NodeID { return 1 }, Members: apart{}}
	o.Quorums = func(d *kv.RangeDescriptor) (Quorums, bool) {
		return Quorums{Replicas: 5, Fast: 4, Classic: 3, Reading: 4}, d.Protocol == kv.FastPaxos
	}
	s := New(o)
	bounds := []keys.Key{keys.TableSpan(uint32(9)).Start, keys.IndexPrefix(uint32(9), uint32(1)), keys.IndexPrefix(uint32(9), uint32(3)), keys.TableSpan(uint32(9)).End}
	for i := range 3 {
		d := kv.RangeDescriptor{ID: kv.RangeID(i + 1), Start: bounds[i], End: bounds[i+1]}
		for n := kv.NodeID(1); n <= 5; n++ {
			d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: n, Replica: kv.ReplicaID(n), Type: kv.Voter})
		}
		if i == 1 {
			d.Protocol = kv.FastPaxos
		}
		s.cache.insert(kv.RangeInfo{Desc: d, Leaseholder: d.Replicas[4]})
	}
	table := keys.Span{Start: bounds[0], End: bounds[3]}
	for asked, want := range []time.Duration{AtNearest: 0, AtMajority: 30 * time.Millisecond, AtTimestamp: 40 * time.Millisecond} {
		if d := s.DistanceAt(table, Asked(asked)); d.Unknown || d.Leaseholder != want {
			t.Errorf("%d: the distance is %v, want %v (%+v)", asked, d.Leaseholder, want, d)
		}
	}
	if d := s.DistanceAt(keys.Span{Start: bounds[0], End: bounds[1]}, AtNearest); d.Leaseholder != 50*time.Millisecond {
		t.Errorf("the first range alone: %+v", d)
	}
}
