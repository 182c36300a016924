package replica

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/support"
)

// stopped is a clock that shows one time.
type stopped struct {
	host.Clock
	now time.Time
}

func (s *stopped) Now() time.Time           { return s.now }
func (s *stopped) Monotonic() time.Duration { return s.now.Sub(time.Unix(0, 0)) }

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
		{"a read far in the future", with(own, func(l *lease.Lease) { l.Ahead = 3 * time.Second }), false, 98 * time.Second, 103*time.Second - 1, true},
		{"a read further in the future", with(own, func(l *lease.Lease) { l.Ahead = 3 * time.Second }), false, 98 * time.Second, 103 * time.Second, false},
		{"far ahead, a faster clock may be past the end", with(own, func(l *lease.Lease) { l.Ahead = 3 * time.Second }), false, 99 * time.Second, 50 * time.Second, false},
		{"liveness, a read far in the future", with(live, func(l *lease.Lease) { l.Ahead = 3 * time.Second }), false, 98 * time.Second, 103*time.Second - 1, true},
		{"liveness, a read further in the future", with(live, func(l *lease.Lease) { l.Ahead = 3 * time.Second }), false, 98 * time.Second, 103 * time.Second, false},
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

// TestLeaseOfBefore: the lease that follows that of the node's earlier process begins after all that it may have served, in the future too
// (lease.RL4).
func TestLeaseOfBefore(t *testing.T) {
	me := kv.ReplicaDescriptor{Node: 1, Replica: 1}
	at := func(d time.Duration) clock.Timestamp { return clock.Timestamp{Wall: int64(d)} }
	prev := lease.Lease{Holder: me, Sequence: 4, Start: at(5 * time.Second), ProposedAt: at(5 * time.Second), Expiration: at(52 * time.Second)}
	live := prev
	live.Kind, live.Incarnation, live.Expiration = lease.Liveness, 3, clock.Timestamp{}
	for _, start := range []keys.Key{keys.SystemPrefix, keys.TablePrefix} {
		own := ownLiveness{}
		r := &Replica{replicaID: 1, o: &Options{Node: 1, Clock: clock.New(&stopped{now: time.Unix(50, 0)}, time.Second), StartedAt: at(49 * time.Second), Liveness: &own}}
		r.desc.Store(&kv.RangeDescriptor{Start: start, Replicas: []kv.ReplicaDescriptor{me}})
		if next := r.nextLease(r.newLeaseState(prev), me, at(50*time.Second)); next.Start.LessEq(prev.Expiration) || next.Sequence != 5 {
			t.Errorf("%v follows %v of before the start", next, prev)
		}
		s := r.newLeaseState(live)
		if !r.awaitsHeartbeat(s) {
			t.Errorf("%v is followed before the node has written its record", live)
		}
		if own.incarnation = 4; r.awaitsHeartbeat(s) {
			t.Errorf("%v is not followed though its incarnation is over", live)
		}
	}
}

// ownSupport is that of a node with incarnation 3, which all others support.
type ownSupport struct {
	lease.Support
	end clock.Timestamp
}

func (s ownSupport) Incarnation() uint64 { return 3 }
func (s ownSupport) Earlier(uint64) bool { return false }
func (s ownSupport) Held(*kv.RangeDescriptor, uint64) (time.Duration, clock.Timestamp) {
	return time.Hour, s.end
}

// TestAhead: a lease says how far ahead of its end its holder may serve when it is asked to, by an extension. A lease that follows without
// having been given starts above that, whether or not its request knew (lease.RL5).
func TestAhead(t *testing.T) {
	at := func(d time.Duration) clock.Timestamp { return clock.Timestamp{Wall: int64(d)} }
	me, other := kv.ReplicaDescriptor{Node: 1, Replica: 1}, kv.ReplicaDescriptor{Node: 2, Replica: 2}
	now := at(50 * time.Second)
	for _, x := range []struct {
		kind   lease.Kind
		before clock.Timestamp // the Expiration of a Supported lease
	}{{lease.Expiration, at(0)}, {lease.Liveness, at(0)}, {lease.Supported, at(0)}, {lease.Supported, lease.FromItself()}, {lease.Supported, at(4 * time.Second)}} {
		kind := x.kind
		own := ownLiveness{incarnation: 3, expiration: at(52 * time.Second)}
		r := &Replica{replicaID: 1, o: &Options{Node: 1, Clock: clock.New(&stopped{now: time.Unix(50, 0)}, 500*time.Millisecond), StartedAt: at(time.Second), Liveness: &own}}
		d := &kv.RangeDescriptor{Start: keys.SystemPrefix, Replicas: []kv.ReplicaDescriptor{me, other}}
		cur := lease.Lease{Kind: kind, Holder: me, Sequence: 4, Start: at(5 * time.Second), ProposedAt: at(5 * time.Second), Expiration: x.before}
		switch kind {
		case lease.Expiration:
			cur.Expiration = at(52 * time.Second)
		case lease.Supported:
			r.o.Support = ownSupport{end: at(52 * time.Second)}
			fallthrough
		default:
			cur.Incarnation = 3
			d.Start = keys.TablePrefix
		}
		r.desc.Store(d)
		s := r.newLeaseState(cur)
		reach := farthest
		if kind == lease.Supported {
			reach = support.Reach
		}
		if r.asksAhead(s, now.Add(reach), now) {
			t.Errorf("%s is extended for what it reaches in any case", cur)
		}
		far := now.Add(lease.Farthest)
		if !r.asksAhead(s, far, now) {
			t.Fatalf("%s is not extended", cur)
		}
		next := r.nextLease(s, me, now)
		if !next.Extends(cur) || !mayFollow(d, cur, next, 4, false) || next.After(cur) != next {
			t.Fatalf("%s is no extension of %s", next, cur)
		}
		r.leaseNow.Store(r.newLeaseState(next))
		if _, ok := r.CheckLease(far); !ok {
			t.Errorf("%s does not reach %s", next, far)
		}
		if r.asksAhead(r.leaseNow.Load(), far, now) {
			t.Errorf("%s is extended again for %s", next, far)
		}
		if again := r.nextLease(r.leaseNow.Load(), me, now); again.Ahead != next.Ahead {
			t.Errorf("%s is followed by %s", next, again)
		}
		// The other node has applied cur when it asks, and next when it gets the lease.
		taken := lease.Lease{Kind: kind, Holder: other, Sequence: 5, Start: at(52*time.Second + 1), Expiration: at(54 * time.Second)}
		if kind == lease.Supported {
			taken.Expiration = at(52 * time.Second)
		}
		if !mayFollow(d, next, taken, 4, false) {
			t.Fatalf("%s can't follow %s", taken, next)
		}
		if after := taken.After(next); after.Start.LessEq(far) || after.Start.LessEq(at(52*time.Second).Add(next.Ahead)) {
			t.Errorf("%s, of which %s was served, is followed by %s", next, far, after)
		}
		// A lease is not taken that was extended meanwhile; one that ended long ago costs nothing, if its end is known.
		early, late := taken, taken
		early.Start, late.Start = at(51*time.Second), at(90*time.Second)
		if after := late.After(next); kind == lease.Expiration && (after.Start != late.Start || mayFollow(d, next, early, 4, false)) {
			t.Errorf("%s is followed by %s, or by %s", next, after, early)
		}
		// The lease after that starts above it too, though the clock has not come there.
		r.leaseNow.Store(r.newLeaseState(taken.After(next)))
		if third := r.nextLease(r.leaseNow.Load(), me, at(55*time.Second)); !mayFollow(d, taken.After(next), third, 5, false) {
			t.Errorf("%s can't follow %s", third, taken.After(next))
		}
	}
}
