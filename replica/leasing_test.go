package replica

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/kv"
	"meridian/replica/lease"
)

// stopped is a clock that shows one time.
type stopped struct {
	host.Clock
	now time.Time
}

func (s *stopped) Now() time.Time { return s.now }

// ownLiveness is a node's record of itself.
type ownLiveness struct {
	lease.NodeLiveness
	incarnation uint64
	expiration  clock.Timestamp
}

func (l ownLiveness) Self() (uint64, clock.Timestamp) { return l.incarnation, l.expiration }

// TestCheckLease is who may serve, and until when (lease.RL3): up to the maximum offset, here one second, before the end.
func TestCheckLease(t *testing.T) {
	at := func(d time.Duration) clock.Timestamp { return clock.Timestamp{Wall: int64(d)} }
	me := kv.ReplicaDescriptor{Node: 1, Replica: 1}
	own := lease.Lease{Holder: me, Sequence: 4, Start: at(5 * time.Second), ProposedAt: at(5 * time.Second), Expiration: at(100 * time.Second)}
	live := own
	live.Kind, live.Incarnation, live.Expiration = lease.Liveness, 3, clock.Timestamp{}
	with := func(l lease.Lease, f func(*lease.Lease)) lease.Lease { f(&l); return l }
	for _, c := range []struct {
		name    string
		lease   lease.Lease
		revoked bool
		now, at time.Duration // of the clock, of the request
		want    bool
	}{
		{"in time", own, false, 98 * time.Second, 98 * time.Second, true},
		{"a faster clock may be past the end", own, false, 99 * time.Second, 50 * time.Second, false},
		{"a read of the future", own, false, 50 * time.Second, 100*time.Second - 1, true},
		{"a read of the future is past the end", own, false, 50 * time.Second, 100 * time.Second, false},
		{"given away", own, true, 50 * time.Second, 50 * time.Second, false},
		{"another's", with(own, func(l *lease.Lease) { l.Holder = kv.ReplicaDescriptor{Node: 2, Replica: 2} }), false, 50 * time.Second, 50 * time.Second, false},
		{"of another replica of the node", with(own, func(l *lease.Lease) { l.Holder.Replica = 7 }), false, 50 * time.Second, 50 * time.Second, false},
		{"of the node's life before", with(own, func(l *lease.Lease) { l.ProposedAt = at(time.Second) }), false, 50 * time.Second, 50 * time.Second, false},
		{"liveness, in time", live, false, 98 * time.Second, 98 * time.Second, true},
		{"liveness, a faster clock may be past the end", live, false, 99 * time.Second, 50 * time.Second, false},
		{"liveness, a read of the future", live, false, 50 * time.Second, 100*time.Second - 1, true},
		{"liveness, a read of the future is past the end", live, false, 50 * time.Second, 100 * time.Second, false},
		{"of another incarnation", with(live, func(l *lease.Lease) { l.Incarnation = 2 }), false, 50 * time.Second, 50 * time.Second, false},
	} {
		physical := &stopped{now: time.Unix(0, int64(c.now))}
		r := &Replica{replicaID: 1, o: &Options{Node: 1, Clock: clock.New(physical, time.Second), StartedAt: at(2 * time.Second),
			Liveness: ownLiveness{incarnation: 3, expiration: at(100 * time.Second)}}}
		s := r.newLeaseState(c.lease)
		s.revoked = c.revoked
		r.leaseNow.Store(s)
		if seq, ok := r.CheckLease(at(c.at)); ok != c.want || seq != 4 {
			t.Errorf("%s: lease %d, %v", c.name, seq, ok)
		}
	}
}

// taking is the liveness of a node that takes a lease from another.
type taking struct {
	ownLiveness
	ended []uint64
}

func (l *taking) IsLive(kv.NodeID, uint64, clock.Timestamp) bool { return false }
func (l *taking) IncrementIncarnation(_ context.Context, node kv.NodeID, incarnation uint64) error {
	l.ended = append(l.ended, uint64(node), incarnation)
	return &kv.UnavailableError{Reason: "enough"}
}

// TestLeaseOfTheDead: a liveness lease is taken only when its holder's incarnation has been ended (lease.RL2): if that can't be
// done, it is not asked for.
func TestLeaseOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := kv.ReplicaDescriptor{Node: 2, Replica: 2}
		me := kv.ReplicaDescriptor{Node: 1, Replica: 1}
		l := &taking{}
		r := &Replica{replicaID: 1, o: &Options{Node: 1, Metrics: &Metrics{}, Liveness: l, Clock: clock.New(&stopped{now: time.Unix(50, 0)}, time.Second)}}
		r.desc.Store(&kv.RangeDescriptor{Replicas: []kv.ReplicaDescriptor{me, dead}})
		prev := r.newLeaseState(lease.Lease{Holder: dead, Kind: lease.Liveness, Incarnation: 5, Sequence: 4, Start: clock.Timestamp{Wall: 1}})
		r.leaseNow.Store(prev)
		if err := r.requestLease(context.Background(), *prev); err == nil || !slices.Equal(l.ended, []uint64{2, 5}) {
			t.Errorf("%v, ended %v", err, l.ended)
		}
	})
}
