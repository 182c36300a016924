package replica

import (
	"bytes"
	"context"
	"errors"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/support"
)

// leaseState is the lease as requests see it. It is replaced, never changed.
type leaseState struct {
	lease.Lease
	held    bool // by this replica
	stale   bool // proposed before this node started: an earlier process of the node served under it
	revoked bool // a transfer is in progress; this replica serves nothing more, even if the transfer fails
}

func (r *Replica) newLeaseState(l lease.Lease) *leaseState {
	s := &leaseState{Lease: l}
	s.held = !l.IsZero() && l.Holder.Replica == r.replicaID && l.Holder.Node == r.o.Node
	if l.Kind == lease.Supported {
		s.stale = s.held && r.o.Support.Earlier(l.Incarnation)
	} else {
		s.stale = s.held && l.ProposedAt.Less(r.o.StartedAt)
	}
	return s
}

// covered is until when a Supported lease may be used, as far as was known when it was computed. More may be known since, never less: what a node has promised it keeps.
type covered struct {
	lease *leaseState
	desc  *kv.RangeDescriptor
	until time.Duration // by the monotonic clock
	end   clock.Timestamp
}

// cover is the end of the timestamps that a Supported lease covers, if it may be used now; zero: it may not. It looks for more than it knows if that does not cover a timestamp.
func (r *Replica) cover(s *leaseState, at clock.Timestamp) clock.Timestamp {
	now := r.o.Clock.Physical().Monotonic()
	d := r.desc.Load()
	c := r.covered.Load()
	if c == nil || c.lease != s || c.desc != d || now >= c.until || !at.Less(c.end) {
		if d == nil {
			return clock.Timestamp{}
		}
		c = &covered{lease: s, desc: d}
		if c.until, c.end = r.o.Support.Held(d, s.Incarnation); now >= c.until {
			return clock.Timestamp{}
		}
		r.covered.Store(c)
	}
	return c.end
}

// CheckLease reports whether this replica may serve requests at a timestamp now, and under which lease sequence.
// It costs a few loads. Check again after latches were acquired.
//
// lease.RL3 (I5): a lease is not used in the last part of its time, as long as the clocks may differ: by then, by a faster clock another
// replica may have taken the next one. Timestamps in the future are served if they lie before the end, since the next lease starts after it,
// or no further beyond than the lease says (lease.RL5).
func (r *Replica) CheckLease(at clock.Timestamp) (sequence uint64, ok bool) {
	s := r.leaseNow.Load()
	if !s.held || s.revoked || s.stale {
		return s.Sequence, false
	}
	end := s.Expiration
	switch s.Kind {
	case lease.Supported:
		// Before a machine goes on that has slept, its monotonic clock shows nothing of that (I3).
		end = r.cover(s, at)
		return s.Sequence, (at.Less(end) || s.Ahead != 0 && !end.IsZero() && at.Less(end.Add(s.Ahead))) && r.o.Clock.Wall().UnixNano() < end.Wall
	case lease.Liveness:
		incarnation, expiration := r.o.Liveness.Self()
		if incarnation != s.Incarnation {
			return s.Sequence, false
		}
		end = expiration
	}
	return s.Sequence, (at.Less(end) || s.Ahead != 0 && at.Less(end.Add(s.Ahead))) && r.o.Clock.Interval().Before(end)
}

// Lease is the range's lease, of whatever holder, as of the last applied command, and whether it is valid as far as this node knows.
func (r *Replica) Lease() (l lease.Lease, good bool) {
	s := r.leaseNow.Load()
	return s.Lease, r.good(s, r.o.Clock.Now())
}

// good reports whether no other replica may take the lease from its holder.
func (r *Replica) good(s *leaseState, now clock.Timestamp) bool {
	switch {
	case s.IsZero():
		return false
	case s.Kind == lease.Expiration:
		return now.LessEq(s.Expiration)
	case s.Kind == lease.Supported:
		d := r.desc.Load()
		if d == nil || s.held && s.stale {
			return !s.stale
		}
		_, over := r.o.Support.Over(d, s.Holder.Node, s.Incarnation)
		return !over && (s.held || !r.o.Support.Gone(d, s.Holder.Node))
	default:
		return r.o.Liveness.IsLive(s.Holder.Node, s.Incarnation, now)
	}
}

func (r *Replica) notLeaseholder() error {
	e := &kv.NotLeaseholderError{Range: r.rangeID, Desc: r.desc.Load()}
	s := r.leaseNow.Load()
	if r.good(s, r.o.Clock.Now()) && !s.held {
		e.Leaseholder = s.Holder
	} else if l := kv.ReplicaID(r.leader.Load()); l != r.replicaID {
		e.Leaseholder, _ = r.replicaOf(l)
	}
	return e
}

func (r *Replica) replicaOf(id kv.ReplicaID) (kv.ReplicaDescriptor, bool) {
	if d := r.desc.Load(); d != nil && id != 0 {
		for _, p := range d.Replicas {
			if p.Replica == id {
				return p, true
			}
		}
	}
	return kv.ReplicaDescriptor{}, false
}

// EnsureLease acquires or extends the lease so that it covers a timestamp, or returns *kv.NotLeaseholderError
// (another replica has it or should take it), *kv.FutureError, *kv.UnavailableError or the context's error. Only the raft leader takes leases, so that the
// leaseholder's proposals are not forwarded.
func (r *Replica) EnsureLease(ctx context.Context, at clock.Timestamp) (sequence uint64, err error) {
	const patience = 4 * time.Second // for an election
	start := r.o.Clock.Physical().Monotonic()
	for {
		if seq, ok := r.CheckLease(at); ok {
			return seq, nil
		}
		if r.leaving() {
			return 0, errLeaving() // nothing was done: the gateway asks another replica
		}
		if r.gone.Load() || r.desc.Load() == nil {
			return 0, &kv.RangeNotFoundError{Range: r.rangeID}
		}
		now := r.o.Clock.Now()
		s := r.leaseNow.Load()
		if !s.held && r.good(s, now) {
			return 0, r.notLeaseholder()
		}
		if now.Add(lease.Farthest).Less(at) {
			return 0, &kv.FutureError{At: at, Serves: now.Add(lease.Farthest)}
		}
		// A request of now is served at the start of a lease that begins later. It waits until that is in reach: if it asked for more, each lease would begin
		// further ahead than the one before (lease.RL5).
		pushed := at.LessEq(s.Start.Add(startSlack))
		extends := !pushed && r.asksAhead(s, at, now)
		switch leader := r.leader.Load(); {
		case leader == 0 && r.unled.Load() >= unledTicks:
			return 0, &kv.UnavailableError{Reason: "no lease: " + errUnled.Error()}
		case r.awaitsHeartbeat(s) && !extends:
			// Another lease of the same incarnation would not last longer.
		case r.transfers() && r.o.Clock.Physical().Monotonic()-start < transferPatience:
			// It is on its way to another replica. A lease that this one took meanwhile would be applied first, and undo that.
		case leader == uint64(r.replicaID) || extends:
			wait, err := r.acquire()
			if err != nil {
				return 0, err
			}
			timer := r.o.Clock.Physical().NewTimer(patience)
			select {
			case <-wait:
			case <-timer.C(): // it depends on other ranges that can't be reached now
			case <-r.o.Leaving:
			case <-ctx.Done():
				timer.Stop()
				return 0, ctx.Err()
			}
			timer.Stop()
			r.hold()
			err = r.acquired
			r.release()
			if _, ok := r.CheckLease(at); !ok && err != nil {
				var unavailable *kv.UnavailableError
				if errors.As(err, &unavailable) {
					return 0, err
				}
			}
		case leader == 0:
			r.Wake()
		case r.leaderDown():
			r.LeaderDied(kv.NodeID(r.leaderAt.Load()))
		default:
			if e := r.notLeaseholder().(*kv.NotLeaseholderError); e.Leaseholder.Node != 0 {
				return 0, e
			}
		}
		if r.o.Clock.Physical().Monotonic()-start > patience {
			return 0, &kv.UnavailableError{Reason: "no lease: the range has no leader"}
		}
		if _, ok := r.CheckLease(at); ok {
			continue
		}
		if err := r.o.Clock.Physical().Sleep(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// supportFor is the incarnation of a node for a lease that it is given, and whether it has this node's support; zero: leases are not Supported.
func (r *Replica) supportFor(to kv.NodeID) (incarnation uint64, supported bool) {
	if !r.supports() {
		return 0, false
	}
	return r.o.Support.Of(to)
}

// transfers reports whether the lease is being given to another replica.
func (r *Replica) transfers() bool {
	r.hold()
	defer r.release()
	return r.transferring
}

// leaving reports whether the node is about to stop.
func (r *Replica) leaving() bool {
	select {
	case <-r.o.Leaving:
		return true
	default:
		return false
	}
}

func errLeaving() error { return &kv.UnavailableError{Reason: "the node is stopping"} }

// incarnation is this node's for leases of a kind; zero: it has none.
func (r *Replica) incarnation(k lease.Kind) uint64 {
	if k == lease.Supported {
		return r.o.Support.Incarnation()
	}
	incarnation, _ := r.o.Liveness.Self()
	return incarnation
}

// supports reports whether new leases are Supported.
func (r *Replica) supports() bool { return r.o.Support != nil && r.o.Support.Incarnation() != 0 }

// awaitsHeartbeat reports whether the lease can't be used, or followed, only because the node has to write its liveness record first, or lacks the support of others: it is about
// to expire, or the node has just started.
//
// lease.RL4 (I3): a Liveness lease of an earlier process of this node is over when the record is, and this process writes that only then
// (cluster.L2). Until then no lease follows, of whatever kind: that process may have served reads up to the record's end. A Supported lease of an earlier
// process is over when this one has an incarnation (support.SU4).
func (r *Replica) awaitsHeartbeat(s *leaseState) bool {
	if !s.held || s.Kind == lease.Expiration {
		return false
	}
	incarnation := r.incarnation(s.Kind)
	if s.stale {
		return incarnation == 0
	}
	return !s.revoked && incarnation == s.Incarnation
}

// startSlack is how far after the start of a lease a request is still taken for one of now, which was moved there.
const startSlack = 50 * time.Millisecond

// asksAhead reports whether the lease does not reach a timestamp however often it is extended, and has the next extension say so
// (lease.RL5).
func (r *Replica) asksAhead(s *leaseState, at, now clock.Timestamp) bool {
	reach := farthest
	if s.Kind == lease.Supported {
		reach = support.Reach
	}
	beyond := at.Time().Sub(now.Add(reach).Time())
	if beyond <= s.Ahead || !r.extends(s, now) {
		return false
	}
	beyond = (beyond + aheadStep).Truncate(aheadStep)
	for {
		old := r.aheadAsked.Load()
		if int64(beyond) <= old || r.aheadAsked.CompareAndSwap(old, int64(beyond)) {
			return true
		}
	}
}

// extends reports whether the lease is this replica's, and may be extended.
func (r *Replica) extends(s *leaseState, now clock.Timestamp) bool {
	if !s.held || s.stale || s.revoked {
		return false
	}
	if s.Kind != lease.Expiration {
		return r.incarnation(s.Kind) == s.Incarnation
	}
	return now.LessEq(s.Expiration)
}

// acquire starts a lease request unless one is in flight; the channel is closed when it is over.
func (r *Replica) acquire() (<-chan struct{}, error) {
	r.hold()
	defer r.release()
	return r.startAcquiring()
}

// startAcquiring is acquire for callers that hold the replica.
func (r *Replica) startAcquiring() (<-chan struct{}, error) {
	if r.acquiring != nil {
		return r.acquiring, nil
	}
	done := make(chan struct{})
	prev := *r.leaseNow.Load()
	r.acquiring = done
	ok := r.o.Host.Group.Go(func(ctx context.Context) {
		ctx, cancel := r.o.Host.Clock.WithTimeout(ctx, acquirePatience)
		defer cancel()
		err := r.requestLease(ctx, prev)
		r.hold()
		r.acquiring, r.acquired = nil, err
		r.release()
		close(done)
	})
	if !ok {
		r.acquiring = nil
		close(done)
		return nil, &kv.UnavailableError{Reason: "node is stopping"}
	}
	return done, nil
}

// requestLease takes the lease after prev, which is not valid any more or is this replica's.
func (r *Replica) requestLease(ctx context.Context, prev leaseState) error {
	r.o.Metrics.LeaseRequests.Add(1)
	now := r.o.Clock.Now()
	var ended clock.Timestamp
	self, ok := r.replicaOf(r.replicaID)
	if !ok || !mayHold(self) {
		r.hold()
		if !r.gone.Load() && r.leader.Load() == uint64(r.replicaID) {
			r.wake()
			r.stepAside()
			r.process(false)
		}
		r.release()
		return r.notLeaseholder()
	}
	if !prev.IsZero() && !prev.held {
		if r.good(&prev, now) {
			return r.notLeaseholder()
		}
		switch prev.Kind {
		case lease.Supported:
			// lease.RL7 (I5): what the holder may have served is below the end that those tell who have withdrawn.
			ctx, cancel := r.o.Host.Clock.WithTimeout(ctx, withdrawPatience)
			end, err := r.o.Support.Await(ctx, r.desc.Load(), prev.Holder.Node, prev.Incarnation)
			cancel()
			if err != nil {
				return &kv.UnavailableError{Reason: "no majority of the range's nodes has withdrawn its support for the previous leaseholder"}
			}
			now, ended = r.o.Clock.Now().Forward(end.Next()), end
		case lease.Liveness:
			// lease.RL2 (I5): once the incarnation is incremented, the old holder's leases are over for good. The record
			// could only be incremented after its expiration, by a clock that is at most the maximum offset ahead of
			// the holder's, and the holder stopped that long before its expiration.
			if err := r.o.Liveness.IncrementIncarnation(ctx, prev.Holder.Node, prev.Incarnation); err != nil {
				return &kv.UnavailableError{Reason: "ending the previous lease: " + err.Error()}
			}
			now = r.o.Clock.Now()
		}
	}
	next := r.nextLease(&prev, self, now)
	if next.Kind == lease.Supported && prev.Kind == lease.Supported && next.Sequence != prev.Sequence {
		switch {
		case !prev.held:
			next.Expiration = ended
		case prev.stale:
			next.Expiration = r.o.Support.Ended()
		default:
			next.Expiration = lease.FromItself()
		}
	}
	c := &Command{lease: &next, prevLease: prev.Sequence}
	return r.proposeInternal(ctx, c)
}

// takeAtOnce proposes the lease of a replica that has just been elected, whose new entries are fresh, after a Supported lease of another node that is over. The result is nil if it can't: the lease is
// taken by startAcquiring then, which waits for what is missing. The entry is to be sent with the leader's first one (adjoin); it is nil if raft has not put it behind that.
func (r *Replica) takeAtOnce(prev *leaseState, fresh []*raftpb.Entry) (p *proposal, entry *raftpb.Entry) {
	self, ok := r.replicaOf(r.replicaID)
	if r.acquiring != nil || !ok || !mayHold(self) || prev.Kind != lease.Supported || prev.held || !r.supports() {
		return nil, nil
	}
	end, over := r.o.Support.Over(r.desc.Load(), prev.Holder.Node, prev.Incarnation) // lease.RL7
	if !over {
		return nil, nil
	}
	next := r.nextLease(prev, self, r.o.Clock.Now().Forward(end.Next()))
	if next.Kind != lease.Supported {
		return nil, nil
	}
	next.Expiration = end
	c, p := &Command{lease: &next, prevLease: prev.Sequence}, &proposal{done: make(chan error, 1)}
	r.o.Metrics.LeaseRequests.Add(1)
	if r.propose(c, p) != nil {
		return nil, nil
	}
	done := make(chan struct{})
	r.acquiring = done
	if !r.o.Host.Group.Go(func(ctx context.Context) {
		ctx, cancel := r.o.Host.Clock.WithTimeout(ctx, acquirePatience)
		defer cancel()
		err := r.await(ctx, c, p)
		r.hold()
		r.acquiring, r.acquired = nil, err
		r.release()
		close(done)
	}) {
		r.acquiring = nil
		close(done)
		return p, nil
	}
	if n := len(fresh); n > 0 && p.tick == r.ticks { // raft has taken it
		if first := fresh[n-1]; len(first.Data) == 0 && first.GetTerm() == r.raft.BasicStatus().GetTerm() {
			r.o.Metrics.LeasesAtOnce.Add(1)
			entry = newEntry(raftpb.EntryNormal, first.GetTerm(), first.GetIndex()+1, p.data)
		}
	}
	return p, entry
}

// nextLease makes the lease by which this replica follows prev.
func (r *Replica) nextLease(prev *leaseState, self kv.ReplicaDescriptor, now clock.Timestamp) lease.Lease {
	l := lease.Lease{Holder: self, Start: now, ProposedAt: now, Sequence: prev.Sequence + 1}
	if !prev.IsZero() && (!prev.held || prev.stale) && prev.Kind == lease.Expiration {
		// lease.RL4 (I3): an earlier process of this node may have served up to the end of its lease as well as another node.
		l.Start = now.Forward(prev.Expiration.Next())
	}
	l.Start = l.Start.Forward(prev.Start.Next())
	extends := r.extends(prev, now)
	if extends {
		l.Ahead = max(prev.Ahead, time.Duration(r.aheadAsked.Swap(0)))
	}
	if r.supports() {
		// lease.RL7 (I5): another incarnation is another lease: whoever takes the lease because the earlier one is over is told that it is not the current one.
		l.Kind, l.Incarnation = lease.Supported, r.o.Support.Incarnation()
		if extends && prev.Kind == lease.Supported && prev.Incarnation == l.Incarnation {
			l.Sequence, l.Start, l.Expiration = prev.Sequence, prev.Start, prev.Expiration // all replicas refuse an extension with less (mayFollow)
		}
		return l
	}
	if incarnation, _ := r.o.Liveness.Self(); incarnation != 0 && r.wantsLiveness() {
		l.Kind, l.Incarnation = lease.Liveness, incarnation
		if extends && prev.Kind == lease.Liveness {
			l.Sequence, l.Start = prev.Sequence, prev.Start // an extension: it says how far ahead
		}
		return l
	}
	l.Kind, l.Expiration = lease.Expiration, now.Add(expirationLength)
	if extends && prev.Kind == lease.Expiration {
		l.Sequence, l.Start = prev.Sequence, prev.Start // an extension
		l.Expiration = l.Expiration.Forward(prev.Expiration)
	}
	return l
}

// wantsLiveness: the liveness records are in the system ranges, so their own leases can't depend on them.
func (r *Replica) wantsLiveness() bool {
	return bytes.Compare(r.desc.Load().Start, keys.TablePrefix) >= 0
}

// mayHold reports whether a replica may have the lease: a voter that has the data.
func mayHold(p kv.ReplicaDescriptor) bool {
	return p.Full() && (p.Type == kv.Voter || p.Type == kv.VoterIncoming)
}

// mayFollow decides at application whether a lease request still follows the lease it was made after.
//
// lease.RL1 (I5): requests are compare-and-swap on the sequence, so of two that were made after the same lease one succeeds; one that takes
// an Expiration lease from another holder starts after it ends. A holder may give its lease away at any time, since it stopped using it
// before it asked.
func mayFollow(d *kv.RangeDescriptor, cur, next lease.Lease, prevSequence uint64, given bool) bool {
	if prevSequence != cur.Sequence {
		return false
	}
	same := cur.Holder.Replica == next.Holder.Replica && cur.Holder.Node == next.Holder.Node
	if !same && !given && !cur.IsZero() && cur.Kind == lease.Expiration && next.Start.LessEq(cur.Expiration) {
		return false // it was extended meanwhile
	}
	if !given {
		next = next.After(cur)
	}
	holder := false
	for _, p := range d.Replicas {
		if p.Replica == next.Holder.Replica && p.Node == next.Holder.Node && mayHold(p) {
			holder = true
		}
	}
	if !holder {
		return false
	}
	if next.Sequence == cur.Sequence {
		return next.Extends(cur) && cur.Expiration.LessEq(next.Expiration)
	}
	return next.Sequence == cur.Sequence+1 && cur.Start.Less(next.Start)
}

// setLease shows a lease that was applied. handed is the handover of its last holder.
func (r *Replica) setLease(l lease.Lease, handed []byte) {
	old := r.leaseNow.Load()
	s := r.newLeaseState(l)
	if old.Sequence == l.Sequence {
		s.revoked = old.revoked
		r.leaseNow.Store(s)
		return
	}
	r.takeClosed(s)
	if s.held {
		r.o.Store.LeaseChanged(r, l, true) // before the first request is served (leader.P3)
		if len(handed) > 0 {
			r.o.Store.TakeOver(r, handed)
		}
	}
	r.leaseNow.Store(s)
	r.renewing = 0
	r.nextIndex = max(r.nextIndex, r.applied.leaseIndex+1)
	r.dropProposals(l.Sequence)
	if !s.held {
		r.o.Store.LeaseChanged(r, l, false)
	}
	if !s.held && r.leader.Load() == uint64(r.replicaID) {
		r.sendLazy()
		r.followLease(s)
	}
}

// proposeInternal proposes a command of this package's own.
func (r *Replica) proposeInternal(ctx context.Context, c *Command) error {
	p := &proposal{done: make(chan error, 1)}
	r.hold()
	if err := r.propose(c, p); err != nil {
		r.release()
		return err
	}
	a := r.process(true)
	r.release()
	r.finish(a)
	return r.await(ctx, c, p)
}

// acquirePatience is how long a request for a lease may take.
const acquirePatience = 10 * time.Second

// withdrawPatience is how long a leader waits for the others to withdraw from a leaseholder before it tries again.
const withdrawPatience = 2 * time.Second

// abstainFor is how long a node whose disk is stuck wants no leases, from the last tick in which it was.
const abstainFor = 2 * time.Second

// A transfer waits a second at most for the target's log.
const (
	transferTries = 200
	transferPause = 5 * time.Millisecond
	letGoTimeout  = 10 * time.Second // while requests in progress wait for a slow disk
	// transferPatience is how long requests wait for a transfer before they have the lease taken back: it waits for those before them.
	transferPatience = time.Second
)

// TransferLease gives the lease to a voter on another node. Requests in progress end first, new ones are refused.
func (r *Replica) TransferLease(ctx context.Context, to kv.NodeID) error {
	if _, err := r.EnsureLease(ctx, clock.Timestamp{}); err != nil {
		return err
	}
	target, ok := r.desc.Load().Replica(to)
	if !ok || !mayHold(target) {
		return &kv.UnavailableError{Reason: "lease transfer: no voter on the target"}
	}
	if to == r.o.Node {
		return nil
	}
	var cur *leaseState
	for tries := 0; ; tries++ {
		r.hold()
		if cur = r.leaseNow.Load(); !cur.held || cur.revoked {
			r.release()
			return r.notLeaseholder()
		}
		if r.caughtUp(target.Replica) {
			break
		}
		r.release()
		// An earlier transfer of leadership to this replica may be in progress; only the leader knows the progress of the others.
		if tries == transferTries {
			return &kv.UnavailableError{Reason: "lease transfer: the target's log is behind"}
		}
		if err := r.o.Host.Clock.Sleep(ctx, transferPause); err != nil {
			return err
		}
	}
	next := lease.Lease{Holder: target, Sequence: cur.Sequence + 1}
	started, beats := r.o.Liveness.Process(to)
	// A target that has just started can't use the incarnation of its earlier process, and has no other yet.
	if incarnation, supported := r.supportFor(to); incarnation != 0 {
		if !supported {
			r.release()
			return &kv.UnavailableError{Reason: "lease transfer: the target is not live"}
		}
		next.Kind, next.Incarnation = lease.Supported, incarnation
	} else if incarnation, expiration := r.o.Liveness.Incarnation(to); incarnation != 0 && beats && r.wantsLiveness() {
		if expiration.LessEq(r.o.Clock.Now()) {
			r.release()
			return &kv.UnavailableError{Reason: "lease transfer: the target is not live"}
		}
		next.Kind, next.Incarnation = lease.Liveness, incarnation
	}
	revoked := *cur
	revoked.revoked = true
	r.leaseNow.Store(&revoked)
	r.transferring = true
	r.release()
	defer func() {
		r.hold()
		r.transferring = false
		r.release()
	}()
	r.o.Metrics.LeaseTransfers.Add(1)

	// From here on, nothing is served under the old lease even if the transfer fails: EnsureLease then takes a new
	// one, after this, by the same compare-and-swap (lease.RL1).
	if err := r.o.Store.Drain(ctx, r); err != nil {
		return err
	}
	reading := r.o.Clock.Read()
	now := reading.Now
	// The target compares ProposedAt with its own clock when it last started: this node's reading, as the slowest clock may show it, or, since
	// this node has heard of that start, the start itself (lease.RL6).
	next.Start, next.ProposedAt = now.Forward(cur.Start.Next()), reading.Earliest.Forward(started)
	if next.Kind == lease.Expiration {
		next.Expiration = now.Add(expirationLength)
	}
	return r.proposeInternal(ctx, &Command{lease: &next, prevLease: cur.Sequence, given: true, Batch: r.o.Store.HandOver(r)})
}
