package replica

import (
	"context"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
)

// Bounds of the log: the leader has it truncated when it is this long, up to what all live followers have; beyond
// logBytesMax it does not wait for slow ones, who then get a raft snapshot.
const (
	truncateEntries = 256
	truncateBytes   = 1 << 20
	logBytesMax     = 64 << 20
	// fullLogBytesMax is logBytesMax while the disk of a replica is nearly full: a log is as long at all replicas, and they have many.
	fullLogBytesMax = 4 << 20
)

// Tick advances raft's time for a replica that is awake: every TickInterval. If the replica is busy, the next call makes up for the tick.
// It reports false when the replica quiesced or is gone, and need not be ticked any more.
func (r *Replica) Tick() bool {
	if r.barred.Load() {
		return true
	}
	if r.gone.Load() || r.quiesced.Load() {
		r.ticking.Store(false)
		// A goroutine that woke the replica meanwhile may have assumed that it was still ticked.
		return !r.gone.Load() && !r.quiesced.Load() && r.ticking.CompareAndSwap(false, true)
	}
	if !r.tryHold() {
		if r.ticksDue.Load() < electionTicks/2 {
			r.ticksDue.Add(1)
		}
		return true
	}
	defer r.release()
	for n := r.ticksDue.Swap(0) + 1; n > 0 && !r.gone.Load(); n-- {
		if r.ticks++; !r.yields() {
			r.raft.Tick()
		}
	}
	if r.gone.Load() {
		r.ticking.Store(false)
		return false
	}
	r.sendLazy()
	if r.orphan.of != 0 {
		r.succeed()
	}
	r.tickUnled()
	r.reproposeAll(retryTicks, nil)
	if r.stuck() != 0 {
		r.o.Metrics.Stuck.Add(1)
	}
	if r.leader.Load() == uint64(r.replicaID) {
		r.tickLeader()
	}
	r.renewLease()
	r.process(false)
	if r.leader.Load() == uint64(r.replicaID) && r.ticks-r.busyAt >= quiesceTicks && r.mayQuiesce() {
		r.quiesce() // last, so that no heartbeat of this tick follows and wakes the followers
	}
	if r.quiesced.Load() || r.gone.Load() {
		r.ticking.Store(false)
		return false
	}
	return true
}

// unledTicks is how long a range may be without a raft leader before waiting requests fail: an election takes 1 to 2 s.
const unledTicks = 30

// tickUnled fails requests that wait for a leader (replica.R5): the replica may be on the minority side of a partition, for as long as that
// lasts.
func (r *Replica) tickUnled() {
	if r.leader.Load() != 0 {
		if r.unled.Load() != 0 {
			r.unled.Store(0)
		}
		return
	}
	if n := r.unled.Add(1); n < unledTicks || n%(unledTicks/3) != 0 {
		return
	}
	for _, p := range r.proposals {
		if !p.abandoned {
			select {
			case p.done <- errUnled:
			default: // it has been told
			}
		}
	}
	r.o.Store.Unled(r)
}

// tickLeader is the periodic work of the raft leader.
func (r *Replica) tickLeader() {
	r.stepsBack()
	if r.ticks >= r.nextTry && r.ticks%4 == 0 {
		r.truncateLog()
	}
	s := r.leaseNow.Load()
	if r.letGo(s) {
		return
	}
	if r.ticks >= r.nextLeaseTry && !r.transferring && (r.outdated() || !r.awaitsHeartbeat(s) &&
		(s.held && (s.stale || s.revoked) || !r.good(s, r.o.Clock.Now()))) {
		// The lease has no holder: take it before the first request needs it, which makes failover faster. Or it has become weak.
		r.nextLeaseTry = r.ticks + electionTicks/2
		if self, ok := r.replicaOf(r.replicaID); ok && mayHold(self) {
			_, _ = r.startAcquiring()
		} else {
			r.stepAside()
		}
	}
	if !s.held && !s.IsZero() && r.good(s, r.o.Clock.Now()) {
		r.followLease(s) // raft ignores it if one is in progress
	}
}

// followLease gives raft's leadership to the leaseholder, so that its proposals are not forwarded. It skips one that has not answered
// lately: raft accepts no proposals during a transfer.
func (r *Replica) followLease(s *leaseState) {
	ready := false
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == uint64(s.Holder.Replica) && pr.RecentActive && pr.State == tracker.StateReplicate {
			ready = true
		}
	})
	if ready {
		r.raft.TransferLeader(uint64(s.Holder.Replica))
	}
}

// stepAside gives raft's leadership to a voter that may hold the lease, since only the leader takes it: a leader that is being removed from
// the range would otherwise leave it without a leaseholder, and so could never be removed.
func (r *Replica) stepAside() {
	if p := r.successor(0); p.Replica != 0 {
		r.raft.TransferLeader(uint64(p.Replica))
	}
}

// successor is a voter that may hold the lease and has the log at least up to an index, durably; zero: there is none.
func (r *Replica) successor(least uint64) (best kv.ReplicaDescriptor) {
	var match uint64
	dead := true
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if !pr.RecentActive || pr.State != tracker.StateReplicate || pr.Match < least {
			return
		}
		p, ok := r.replicaOf(kv.ReplicaID(id))
		if !ok || !mayHold(p) || p.Replica == r.replicaID {
			return
		}
		// One that has just answered but looks dead will do: while the range of the liveness records has no leaseholder,
		// all nodes come to look dead.
		d := r.isDead(p.Node)
		if best.Replica == 0 || dead && !d || dead == d && pr.Match > match {
			best, match, dead = p, pr.Match, d
		}
	})
	return best
}

// stuck is the last entry of an append that has waited long for the disk, zero if none has.
func (r *Replica) stuck() uint64 {
	if len(r.appends) == 0 {
		return 0
	}
	now := r.o.Host.Clock.Monotonic()
	for _, a := range r.appends {
		if a.index != 0 && now-a.since >= slowTicks*TickInterval {
			return a.index
		}
	}
	return 0
}

// letGo transfers the lease, or without a holder raft's leadership, to a voter whose disk has long had entries that this one's still has
// not: nothing is applied here before that (replica.R3), and a lease that takes longer to be extended than it lasts would leave the range
// without a leaseholder for as long as the disk is slow; all nodes, if it is the range of the liveness records. It reports whether the
// lease must not be extended. If all disks are slow, the lease stays.
func (r *Replica) letGo(s *leaseState) bool {
	stuck := r.stuck()
	if stuck == 0 {
		return false
	}
	to := r.successor(stuck)
	if to.Replica == 0 {
		return false
	}
	if !r.good(s, r.o.Clock.Now()) {
		r.raft.TransferLeader(uint64(to.Replica))
		return true
	}
	if _, usable := r.CheckLease(clock.Timestamp{}); !usable || r.transferring || r.lettingGo {
		if r.lettingGo && s.Kind == lease.Supported && r.ticks-r.letsGoAt >= slowTicks {
			// The transfer waits for requests that wait for the disk. No heartbeat does, so the lease would last.
			r.o.Support.Abstain(abstainFor)
		}
		return r.transferring || r.lettingGo
	}
	r.letsGoAt = r.ticks
	r.lettingGo = r.o.Host.Group.Go(func(ctx context.Context) {
		ctx, cancel := r.o.Host.Clock.WithTimeout(ctx, letGoTimeout)
		defer cancel()
		err := r.TransferLease(ctx, to.Node) // otherwise a later tick tries again
		r.o.Host.Log.Info("a lease leaves a slow disk", "range", uint64(r.rangeID), "to", to.Node, "waited", slowTicks*TickInterval, "error", err)
		r.hold()
		r.lettingGo = false
		r.release()
	})
	return r.lettingGo
}

// renewLease extends an Expiration lease before it ends.
func (r *Replica) renewLease() {
	s := r.leaseNow.Load()
	if !s.held || s.revoked || s.stale || s.Kind != lease.Expiration || r.acquiring != nil {
		return
	}
	now := r.o.Clock.Now()
	if now.Wall < s.Expiration.Wall-int64(expirationRenew) || s.Expiration.Less(now) {
		return
	}
	if _, ok := r.proposals[r.renewing]; ok && r.renewing != 0 {
		return // one is on its way
	}
	self, ok := r.replicaOf(r.replicaID)
	if !ok || !mayHold(self) {
		return
	}
	next := r.nextLease(s, self, now)
	p := &proposal{done: make(chan error, 1), abandoned: true}
	busy := r.busyAt
	if r.propose(&Command{lease: &next, prevLease: s.Sequence}, p) == nil {
		r.renewing = p.id
	}
	r.busyAt = busy
}

// truncateLog proposes to remove the part of the log that no replica needs any more.
func (r *Replica) truncateLog() {
	first := r.raftLog.truncated.index
	soon := r.exposed()
	if !soon && r.applied.index-first < truncateEntries && r.raftLog.bytes < truncateBytes {
		return
	}
	if len(r.sending) > 0 {
		return // the receiver will need the entries after its snapshot
	}
	upTo := r.truncatable()
	if upTo <= first || !soon && (upTo-first < truncateEntries/2 && r.raftLog.bytes < truncateBytes) {
		r.nextTry = r.ticks + retryTicks
		return
	}
	term, err := r.raftLog.Term(upTo)
	if err != nil {
		return
	}
	r.nextTry = r.ticks + retryTicks
	if soon {
		r.nextTry = r.ticks + witnessTicks
	}
	p := &proposal{done: make(chan error, 1), abandoned: true}
	busy := r.busyAt
	_ = r.propose(&Command{truncate: position{upTo, term}}, p)
	r.busyAt = busy
}

// truncatable is the last entry that no replica needs any more.
func (r *Replica) truncatable() uint64 {
	upTo := r.applied.index
	most := int64(logBytesMax)
	if r.o.Engine.DiskFull() || r.o.Store.Full(r.desc.Load()) != 0 {
		most = fullLogBytesMax
	}
	force := r.raftLog.bytes > most
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == uint64(r.replicaID) || force {
			return
		}
		if pr.RecentActive || pr.State == tracker.StateSnapshot {
			upTo = min(upTo, max(pr.Match, pr.PendingSnapshot))
		} else if p, ok := r.peer(kv.ReplicaID(id)); ok && r.isLive(p.Node) {
			upTo = min(upTo, pr.Match)
		}
	})
	if r.desc.Load().HasWitness() && (!force || r.isWitness()) {
		upTo = min(upTo, r.durable()) // replica.R12
	}
	return upTo
}

func (r *Replica) isLive(n kv.NodeID) bool {
	if n == r.o.Node {
		return true
	}
	incarnation, _ := r.o.Liveness.Incarnation(n)
	return incarnation != 0 && r.o.Liveness.IsLive(n, incarnation, r.o.Clock.Now())
}

// isDead reports whether a node is known, and known not to be live.
func (r *Replica) isDead(n kv.NodeID) bool {
	if n == 0 || n == r.o.Node {
		return false
	}
	incarnation, _ := r.o.Liveness.Incarnation(n)
	return incarnation != 0 && !r.o.Liveness.IsLive(n, incarnation, r.o.Clock.Now())
}

// leaderDown reports whether the raft leader's node is known to be gone.
func (r *Replica) leaderDown() bool {
	node := kv.NodeID(r.leaderAt.Load())
	if node == 0 || node == r.o.Node {
		return false
	}
	if r.supports() {
		return r.o.Support.Down(r.desc.Load(), node)
	}
	return r.wantsLiveness() && r.isDead(node)
}

// mayQuiesce reports whether nothing is going on, so that the range may sleep: an idle range costs nothing. Ranges
// with Expiration leases renew them through the log and stay awake.
func (r *Replica) mayQuiesce() bool {
	s := r.leaseNow.Load()
	if !s.held || s.revoked || s.Kind == lease.Expiration || len(r.proposals) > 0 || len(r.appends) > 0 || len(r.sending) > 0 || len(r.lazy) > 0 {
		return false
	}
	if r.exposed() {
		return false
	}
	st := r.raft.BasicStatus()
	last := r.raftLog.last.index
	if st.RaftState != raft.StateLeader || st.GetCommit() != last || r.applied.index != last || st.LeadTransferee != 0 {
		return false
	}
	all := true
	var without []kv.NodeID
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id != uint64(r.replicaID) && (pr.Match != last || pr.State != tracker.StateReplicate) {
			if p, ok := r.peer(kv.ReplicaID(id)); ok && r.isDead(p.Node) {
				without = append(without, p.Node) // it may be dead for days; see WakeForLive
			} else {
				all = false
			}
		}
	})
	if all {
		r.without.Store(&without)
	}
	return all
}

// outdated reports whether this replica should replace its own lease: it is of another kind than new ones are, or of an incarnation that a voter supports no more, and
// would end if another voter failed.
func (r *Replica) outdated() bool {
	s := r.leaseNow.Load()
	if !s.held || s.stale || s.revoked || !r.supports() {
		return false
	}
	current := r.o.Support.Incarnation()
	if s.Kind == lease.Supported && s.Incarnation == current {
		return false
	}
	until, _ := r.o.Support.Held(r.desc.Load(), current)
	return r.o.Clock.Physical().Monotonic() < until
}

// LeaderDown reports whether the raft leader is on a node that is known to be gone, and which that is.
func (r *Replica) LeaderDown() (node kv.NodeID, down bool) {
	if r.gone.Load() || r.desc.Load() == nil {
		return 0, false
	}
	return kv.NodeID(r.leaderAt.Load()), r.leaderDown()
}

// WakeForLive wakes a leader that sleeps although some replicas lack part of the log, because their nodes were dead, as soon as one of
// these nodes is live: its replica may be asleep too, and would not ask. It also wakes one whose lease has to be replaced.
func (r *Replica) WakeForLive() {
	if r.quiesced.Load() && r.outdated() {
		r.Wake()
		return
	}
	if nodes := r.without.Load(); nodes != nil && r.quiesced.Load() && slices.ContainsFunc(*nodes, r.isLive) {
		r.Wake()
	}
}

// quiesce puts the range to sleep: a last heartbeat asks the followers to do the same.
func (r *Replica) quiesce() {
	st := r.raft.BasicStatus()
	for _, p := range r.desc.Load().Replicas {
		if p.Replica == r.replicaID || slices.Contains(*r.without.Load(), p.Node) {
			continue // one that lacks part of the log could not commit up to its end, and raft would panic there
		}
		r.o.Store.SendRaft(Message{Range: r.rangeID, From: r.Self(), To: p, Quiesce: true, Raft: &raftpb.Message{
			Type: raftpb.MsgHeartbeat.Enum(), To: new(uint64(p.Replica)), From: new(uint64(r.replicaID)),
			Term: new(st.GetTerm()), Commit: new(r.raftLog.last.index),
		}})
	}
	r.sleep()
}

func (r *Replica) sleep() {
	if r.quiesced.CompareAndSwap(false, true) {
		r.raftLog.drop(r.applied.index) // so that memory is for ranges that are written
		r.o.Metrics.Quiesced.Add(1)
	}
}

func (r *Replica) wake() {
	if r.quiesced.CompareAndSwap(true, false) {
		r.o.Metrics.Awakenings.Add(1)
		r.busyAt = r.ticks
	}
	if !r.ticking.Load() && r.ticking.CompareAndSwap(false, true) {
		r.o.Store.Awake(r)
	}
}

// Bar keeps the replica from taking part in raft: it does not vote, acknowledge, campaign or lead until Unbar (fence.FE1). It
// is called before anybody else has the replica.
func (r *Replica) Bar() { r.barred.Store(true) }

// Unbar ends Bar, for good.
func (r *Replica) Unbar() { r.barred.Store(false) }

// Barred reports whether the replica is kept from taking part.
func (r *Replica) Barred() bool { return r.barred.Load() }

// Wake makes a sleeping replica take part again.
func (r *Replica) Wake() {
	if r.gone.Load() || !r.quiesced.Load() {
		return
	}
	r.hold()
	if !r.gone.Load() {
		r.wake()
	}
	r.release()
}

// LeaderDied says that the raft leader's node is not live any more. Followers forget the leader, so that they grant
// votes at once, and the first live voter campaigns at once, so that there is one candidate.
func (r *Replica) LeaderDied(node kv.NodeID) {
	r.hold()
	defer r.release()
	if r.gone.Load() || r.barred.Load() || r.desc.Load() == nil || kv.NodeID(r.leaderAt.Load()) != node || r.leader.Load() == uint64(r.replicaID) {
		return
	}
	r.wake()
	_ = r.raft.ForgetLeader()
	r.orphan = orphan{of: node, since: r.ticks}
	r.stand()
	r.process(false)
}

// orphan is the state of a replica whose raft leader's node is gone.
type orphan struct {
	of    kv.NodeID // zero: it is not in that state
	since int64     // tick
	tries int64
}

// succeed has one voter stand for election in place of a leader that is gone; each in its turn, if those before it have not been elected.
//
// A majority of the voters say that the leader's node is gone, so nobody has to be asked whether there is still one: the first leaves out the round of pre-votes. The others don't: a voter that can't win
// would keep one from its election, each time, whose log is ahead. Whether the lease is over is another
// question (lease.RL7).
func (r *Replica) succeed() {
	if r.leader.Load() != 0 {
		r.orphan = orphan{} // another one, or the old one was not gone
		return
	}
	r.stand()
}

// stand has this voter stand for election if it is its turn.
func (r *Replica) stand() {
	turn := (r.ticks - r.orphan.since) / succeedTicks
	if turn < r.orphan.tries || r.yields() {
		return
	}
	r.orphan.tries = turn + 1
	var live []kv.ReplicaDescriptor
	for _, p := range r.desc.Load().Replicas {
		if p.Node != r.orphan.of && mayHold(p) && r.mayLead(p.Node) {
			live = append(live, p)
		}
	}
	if len(live) == 0 || live[int(turn)%len(live)].Replica != r.replicaID {
		return
	}
	if r.supports() && turn == 0 {
		_ = r.raft.Step(&raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), To: new(uint64(r.replicaID)), From: new(uint64(r.replicaID))})
	} else {
		_ = r.raft.Campaign()
	}
}

// mayLead reports whether a node is live, as far as this one knows.
func (r *Replica) mayLead(node kv.NodeID) bool {
	if r.supports() && node != r.o.Node {
		_, ok := r.o.Support.Of(node)
		return ok
	}
	return r.isLive(node)
}

// Campaign makes the replica stand for election; for ranges that just began.
func (r *Replica) Campaign() {
	r.hold()
	defer r.release()
	if r.gone.Load() || r.barred.Load() || r.desc.Load() == nil {
		return
	}
	r.wake()
	_ = r.raft.Campaign()
	r.process(false)
}

// caughtUp reports whether a follower has (nearly) all of the log. Only the raft leader knows.
func (r *Replica) caughtUp(id kv.ReplicaID) bool {
	if r.leader.Load() != uint64(r.replicaID) {
		return false
	}
	ok := false
	commit := r.raft.BasicStatus().GetCommit()
	r.raft.WithProgress(func(p uint64, _ raft.ProgressType, pr tracker.Progress) {
		if p == uint64(id) && pr.State == tracker.StateReplicate && pr.Match+16 >= commit {
			ok = true
		}
	})
	return ok
}

// Follower is what the raft leader knows of another replica.
type Follower struct {
	Replica  kv.ReplicaID
	Match    uint64
	Active   bool // heard from lately
	CaughtUp bool
	Snapshot bool // one is on its way
}

// Status describes a replica for queues and operators.
type Status struct {
	Desc            *kv.RangeDescriptor
	Lease           lease.Lease
	LeaseHeld       bool // by this replica and usable
	Leader          bool
	LeaderReplica   kv.ReplicaID
	Quiesced        bool
	Term            uint64
	Applied, Commit uint64
	First, Last     uint64
	LogBytes        int64
	Pending         int
	Followers       []Follower // on the leader
	// Ticks have passed for the replica since it was opened; Ticking: more will.
	Ticks    int64
	Ticking  bool
	Unsynced int // appends on their way to the disk
}

// Status looks at the replica.
func (r *Replica) Status() Status {
	r.hold()
	defer r.release()
	st := r.raft.BasicStatus()
	s := Status{
		Desc: r.desc.Load(), Lease: r.leaseNow.Load().Lease, Leader: st.RaftState == raft.StateLeader,
		LeaderReplica: kv.ReplicaID(st.Lead), Quiesced: r.quiesced.Load(), Term: st.GetTerm(),
		Applied: r.applied.index, Commit: st.GetCommit(), First: r.raftLog.truncated.index + 1,
		Last: r.raftLog.last.index, LogBytes: r.raftLog.bytes, Pending: len(r.proposals),
		Ticks: r.ticks, Ticking: r.ticking.Load(), Unsynced: len(r.appends),
	}
	_, s.LeaseHeld = r.CheckLease(clock.Timestamp{})
	if s.Leader {
		r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			if id == uint64(r.replicaID) {
				return
			}
			s.Followers = append(s.Followers, Follower{
				Replica: kv.ReplicaID(id), Match: pr.Match, Active: pr.RecentActive,
				CaughtUp: pr.State == tracker.StateReplicate && pr.Match+16 >= s.Commit,
				Snapshot: pr.State == tracker.StateSnapshot,
			})
		})
	}
	return s
}

// Bootstrap adds the first state of a range that is born whole to a batch: one replica, no lease.
func Bootstrap(put func(k keys.Key, v []byte), d *kv.RangeDescriptor, stats Stats) {
	first := appliedState{position: position{initialIndex, initialTerm}, stats: stats}
	put(keys.AppliedStateKey(d.ID), first.append(nil))
	put(keys.DescriptorCopyKey(d.ID), d.Append(nil))
	put(keys.HardStateKey(d.ID), hardState{term: initialTerm, commit: initialIndex}.append(nil))
	put(keys.TruncatedStateKey(d.ID), position{initialIndex, initialTerm}.append(nil))
}
