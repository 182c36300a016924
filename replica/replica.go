package replica

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/closedts"
	"meridian/replica/lease"
	"meridian/storage/engine"
	"meridian/version"
	"meridian/wire"
)

// Timing, in ticks of TickInterval. Failover of a range whose leaseholder's node dies is bounded by: liveness
// expiration (2.25 s after the last heartbeat), noticed within two ticks, an election of one round trip among the
// survivors, who forget the dead leader and let the first of them campaign at once, and two more round trips, to
// end the dead incarnation and to take the lease.
const (
	// TickInterval is how often Tick has to be called on replicas that are awake.
	TickInterval = 100 * time.Millisecond

	electionTicks  = 10
	heartbeatTicks = 3
	retryTicks     = 8  // a proposal not applied by then is proposed again
	quiesceTicks   = 12 // idle for so long, a range falls asleep
	succeedTicks   = 4  // for the election of one voter in place of a leader that is gone: two of the longest round trips
	slowTicks      = 8  // a leader whose disk takes longer lets a faster one lead

	// expirationLength of Expiration leases, and when before its end a lease is extended.
	expirationLength = 2 * time.Second
	expirationRenew  = 1200 * time.Millisecond

	// farthest is how far ahead of the clock a lease lasts if it is extended in time: for more it has to say so (lease.RL5), which it does in
	// steps.
	farthest  = 1500 * time.Millisecond
	aheadStep = 500 * time.Millisecond
)

// Bounds, per replica.
const (
	maxEntryBytes       = 32 << 20  // one command; it has to fit into a frame of the transport
	maxUncommittedBytes = 128 << 20 // in the leader's log; proposals wait beyond
	maxMessageBytes     = 1 << 20   // one append message, or its first entry
	maxInflightMessages = 256
	maxInflightBytes    = 32 << 20
	maxApplyBytes       = 16 << 20
)

// Store is the replica's interface to the store that it is on; rangeserver implements it. The methods are called with the
// replica held, in log order; they must not wait and must not call the replica's blocking methods.
type Store interface {
	// SendRaft queues a message; it may be lost.
	SendRaft(m Message)
	// AwaitSync takes an append whose batch is committed but not yet durable. The store has to call SyncWait on it and then Replica.Synced.
	AwaitSync(a *Append)
	// SendSnapshot ships a raft snapshot and then calls Replica.SnapshotSent. It owns s.
	SendSnapshot(r *Replica, s *OutgoingSnapshot)
	// Awake adds the replica to those that are ticked, until Tick reports false.
	Awake(r *Replica)

	// RightSide gives the replica that will hold the right side of a split, created if necessary, or nil if the right side's replica was
	// removed from this store before the split was applied. From then on raft snapshots that overlap it are refused.
	RightSide(left *Replica, right *kv.RangeDescriptor) (*Replica, error)

	// Absorbed gives the replicas that a raft snapshot of a range replaces, from left to right; ok is false if another one
	// is in its way.
	Absorbed(d *kv.RangeDescriptor) (absorbed []*Replica, ok bool)

	// Neighbour gives the replica of another range on this store, nil if there is none.
	Neighbour(id kv.RangeID) *Replica
	// MergeApplied says that left is about to absorb right, which served nothing after freeze. It comes before left's
	// descriptor shows it.
	MergeApplied(left, right *Replica, d *kv.RangeDescriptor, freeze clock.Timestamp)

	// LeaseChanged comes before requests can be served under a lease that this replica holds.
	LeaseChanged(r *Replica, l lease.Lease, held bool)
	// Unled says that the range has had no raft leader for a while, as far as this replica knows; it comes again while that
	// lasts.
	Unled(r *Replica)
	// HandOver is the participant's state for the next leaseholder; it comes after Drain. TakeOver gives it to that one, after LeaseChanged
	// and before it serves a request.
	HandOver(r *Replica) []byte
	TakeOver(r *Replica, handed []byte)
	// DescriptorChanged says that the descriptor shows another generation of the range.
	DescriptorChanged(r *Replica, desc *kv.RangeDescriptor)
	// Sealed says that the range's generation is over, as Replica.Generation shows.
	Sealed(r *Replica, generation uint64)
	SplitApplied(left, right *Replica, l, rd *kv.RangeDescriptor)
	SnapshotApplied(r *Replica, desc *kv.RangeDescriptor)
	// Destroyed says that the replica removed itself.
	Destroyed(r *Replica)

	// HashDue gets the state whose hash a command requested, to be read on another goroutine, and closed.
	HashDue(r *Replica, j *HashJob)

	// Drain returns when the range's participant evaluates no request that passed its lease check earlier. It may
	// wait; it is called without the replica held.
	Drain(ctx context.Context, r *Replica) error
	// Fatal stops the node: its promises can't be kept.
	Fatal(err error)

	// Full is a node with a voter of the range whose disk is nearly full, as far as it is known; zero: there is none.
	Full(d *kv.RangeDescriptor) kv.NodeID

	// HeardClosed is the timestamp up to which a node has closed a range by the side transport, and the index that has to be applied.
	HeardClosed(by kv.NodeID, id kv.RangeID) (closed clock.Timestamp, index uint64)
}

// Options of a replica.
type Options struct {
	Host     *host.Host
	Clock    *clock.Clock
	Engine   *engine.Engine
	Liveness lease.NodeLiveness
	// Support is what Supported leases go by; nil: there are none.
	Support lease.Support
	Store   Store
	Metrics *Metrics
	Node    kv.NodeID
	StoreID kv.StoreID
	// Version is the version that the node acts by.
	Version *version.Handle
	// StartedAt is the node's clock when it started: leases proposed before are not used.
	StartedAt clock.Timestamp
	// Leaving is closed when the node is about to stop: from then on no request waits for a lease.
	Leaving <-chan struct{}
	// ClosedLag is how far behind the present timestamps are closed; zero is closedts.DefaultLag.
	ClosedLag time.Duration
}

// Metrics are counters of all replicas of a store.
type Metrics struct {
	Proposals, Reproposals, Applied, Rejected atomic.Int64
	LogAppends, LogSyncs                      atomic.Int64
	SnapshotsSent, SnapshotsApplied           atomic.Int64
	Splits, Merges, Subsumed                  atomic.Int64
	Elections, LeaseRequests, LeaseTransfers  atomic.Int64
	// LeasesAtOnce counts the requests for leases that were sent with the first entry of a new leader.
	LeasesAtOnce                                   atomic.Int64
	Truncations, ConfChanges, Quiesced, Awakenings atomic.Int64
	// Stuck counts the ticks in which a replica's append had waited long for the disk.
	Stuck atomic.Int64
}

// Replica is one range's replica on this store.
//
// It is a lock-step machine around raft.RawNode. A goroutine with work for it (a proposer, the receiver of a message, the ticker, the
// syncer) holds the replica for a moment, steps the machine and carries out its effects; none waits for disk or network while it holds the
// replica.
//
// replica.R2 (I1): responses that promise durability leave only after the engine batch that carries the promise is durable;
// appends become durable in the order they were committed to the engine, so they are answered in that order.
// replica.R3: an applied command is in the durable log, so the applied state never needs a sync of its own.
type Replica struct {
	o         *Options
	rangeID   kv.RangeID
	replicaID kv.ReplicaID
	log       *slog.Logger

	desc      atomic.Pointer[kv.RangeDescriptor]
	leaseNow  atomic.Pointer[leaseState]
	covered   atomic.Pointer[covered]
	statsNow  atomic.Pointer[Stats]
	threshold atomic.Pointer[clock.Timestamp]
	sealNow   atomic.Pointer[seal] // nil: the range has always been of the leader protocol
	closer    closedts.Tracker
	commits   Commits
	closed    atomic.Int64  // wall time; the replica has applied all writes that reads at or below may see (closedts.CT4)
	removals  atomic.Uint64 // odd while data is being removed that a reader may still expect
	applied0  atomic.Uint64 // applied index, for readers that do not hold the replica
	leader    atomic.Uint64 // raft leader's replica id
	leaderAt  atomic.Uint32 // raft leader's node
	quiesced  atomic.Bool
	without   atomic.Pointer[[]kv.NodeID] // dead nodes whose replicas lacked part of the log when the leader fell asleep
	ticking   atomic.Bool                 // among those that the store ticks
	gone      atomic.Bool
	barred    atomic.Bool // takes no part in raft yet (Bar)
	ticksDue  atomic.Int32
	unled     atomic.Int32 // ticks for which no leader has been known

	turn chan struct{} // holds one token while no goroutine holds the replica; guards the fields below

	raft      *raft.RawNode
	raftLog   raftLog
	applied   appliedState
	appends   []*Append
	lazily    bool      // the next append need not be synced yet (Start)
	lazy      []Message // at most one to each follower, see follows
	frame     *Frame    // of the message that is being received; nil: it is not of one
	proposals map[uint64]*proposal
	nextID    uint64
	nextIndex uint64                                // lease index for the next proposal
	peers     map[kv.ReplicaID]kv.ReplicaDescriptor // of messages received: how to answer replicas not in desc
	incoming  *IncomingSnapshot
	acquiring chan struct{} // closed when the lease request in flight is over
	// aheadAsked is what the next extension of the lease says, at least, of how far ahead it reaches.
	aheadAsked atomic.Int64
	acquired   error // its error
	sending    map[kv.ReplicaID]bool
	ticks      int64
	busyAt     int64 // tick of the last proposal or message that was no heartbeat
	muted      bool  // heartbeat responses are not sent: the follower falls asleep
	nextTry    int64 // tick before which no log truncation is proposed
	// wroteAt is the index of the last applied entry that may have had users' data; waiting are raft snapshots that a witness can't send (witness.go).
	wroteAt  uint64
	waiting  []kv.ReplicaID
	renewing uint64
	// transferring: a lease transfer is in progress.
	transferring bool
	lettingGo    bool // of the lease, because of the disk (letGo)
	// nextLeaseTry is the tick before which the raft leader does not request a lease without a holder again.
	nextLeaseTry int64
	orphan       orphan
	letsGoAt     int64 // tick
	// rival is a voter that has just asked for a pre-vote, to which this one yields; yieldUntil is the tick until which one does
	// (replica.R7).
	rival      uint64
	yieldUntil int64
	// remembers: commits are known from a moment on. decoded has room for those of most commands.
	remembers bool
	decoded   [1]Commit
}

// New opens a replica from its state in the engine; an uninitialised one has no descriptor and waits for a raft
// snapshot.
func New(o *Options, id kv.RangeID, replica kv.ReplicaID) (*Replica, error) {
	r := &Replica{
		o: o, rangeID: id, replicaID: replica,
		log:       o.Host.Log.With("range", uint64(id), "replica", uint64(replica)),
		turn:      make(chan struct{}, 1),
		proposals: make(map[uint64]*proposal),
		peers:     make(map[kv.ReplicaID]kv.ReplicaDescriptor),
		sending:   make(map[kv.ReplicaID]bool),
		nextID:    o.Host.Dice.Uint64(),
	}
	r.quiesced.Store(true) // until it is woken
	r.leaseNow.Store(&leaseState{})
	r.statsNow.Store(&Stats{})
	r.threshold.Store(&clock.Timestamp{})
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("replica: open r%d: %w", id, err)
	}
	r.turn <- struct{}{}
	return r, nil
}

// load reads the replica's state and makes the raft node.
func (r *Replica) load() error {
	r.leader.Store(0) // the raft node begins without one
	r.leaderAt.Store(0)
	r.lazy = nil
	r.raftLog = raftLog{rangeID: r.rangeID, engine: r.o.Engine, confState: func() *raftpb.ConfState {
		return confState(r.desc.Load())
	}, snapshotAt: r.snapshotMetadata}
	if err := r.raftLog.load(); err != nil {
		return err
	}
	if err := r.loadReplicated(); err != nil {
		return err
	}
	if r.raftLog.last.index < r.applied.index {
		return fmt.Errorf("log ends at %d, but %d is applied", r.raftLog.last.index, r.applied.index)
	}
	if r.raftLog.hard.commit < r.applied.index {
		r.raftLog.hard.commit = r.applied.index // the commit index is not synced by itself
	}
	node, err := raft.NewRawNode(&raft.Config{
		ID:                        uint64(r.replicaID),
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   &r.raftLog,
		Applied:                   r.applied.index,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             maxMessageBytes,
		MaxCommittedSizePerReady:  maxApplyBytes,
		MaxUncommittedEntriesSize: maxUncommittedBytes,
		MaxInflightMsgs:           maxInflightMessages,
		MaxInflightBytes:          maxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		StepDownOnRemoval:         true,
		Logger:                    raftLogger{r.log, r.o.Store},
	})
	if err != nil {
		return err
	}
	r.raft = node
	return nil
}

// loadReplicated reads the state that the applied commands left.
func (r *Replica) loadReplicated() error {
	e := r.o.Engine
	v, err := e.Get(keys.DescriptorCopyKey(r.rangeID))
	if err != nil || v == nil {
		return err
	}
	desc, err := kv.DecodeRangeDescriptor(v)
	if err != nil {
		return err
	}
	if v, err = e.Get(keys.AppliedStateKey(r.rangeID)); err != nil {
		return err
	}
	if r.applied, err = decodeAppliedState(v); err != nil {
		return err
	}
	var l lease.Lease
	if v, err = e.Get(keys.LeaseKey(r.rangeID)); err != nil {
		return err
	} else if v != nil {
		if l, err = lease.Decode(v); err != nil {
			return err
		}
	}
	if v, err = e.Get(keys.GCThresholdKey(r.rangeID)); err != nil {
		return err
	} else if v != nil {
		t, err := wire.Decoded(v, gcThreshold)
		if err != nil {
			return err
		}
		r.threshold.Store(&t)
	}
	if err := r.loadSeal(); err != nil {
		return err
	}
	r.desc.Store(&desc)
	r.forgets()
	r.nextIndex = max(r.nextIndex, r.applied.leaseIndex+1)
	r.wroteAt = max(r.wroteAt, r.raftLog.last.index) // for all that is known
	r.publish()
	s := r.newLeaseState(l)
	r.takeClosed(s)
	r.leaseNow.Store(s)
	return nil
}

// publish shows the applied state to goroutines that do not hold the replica.
func (r *Replica) publish() {
	s := r.applied.stats
	r.statsNow.Store(&s)
	r.applied0.Store(r.applied.index)
	r.raiseClosed(r.applied.closed)
}

// hold takes the replica. It is a channel, not a mutex: the engine may delay the holder, and virtual time has to pass meanwhile (host.H3).
func (r *Replica) hold() { <-r.turn }

func (r *Replica) release() { r.turn <- struct{}{} }

func (r *Replica) tryHold() bool {
	select {
	case <-r.turn:
		return true
	default:
		return false
	}
}

// RangeID is the range.
func (r *Replica) RangeID() kv.RangeID { return r.rangeID }

// ReplicaID is this replica's number within the range.
func (r *Replica) ReplicaID() kv.ReplicaID { return r.replicaID }

// NodeID is this node.
func (r *Replica) NodeID() kv.NodeID { return r.o.Node }

// Desc is the range's descriptor as of the last applied command, nil before the first raft snapshot. It is never
// written in place.
func (r *Replica) Desc() *kv.RangeDescriptor { return r.desc.Load() }

// Self is this replica as messages carry it.
func (r *Replica) Self() kv.ReplicaDescriptor {
	return kv.ReplicaDescriptor{Node: r.o.Node, Store: r.o.StoreID, Replica: r.replicaID}
}

// Stats are the range's statistics as of the last applied command.
func (r *Replica) Stats() Stats { return *r.statsNow.Load() }

// GCThreshold is the timestamp below which versions may be gone; reads at or below it are refused.
func (r *Replica) GCThreshold() clock.Timestamp { return *r.threshold.Load() }

// AppliedIndex is the log index up to which the replica's data is applied.
func (r *Replica) AppliedIndex() uint64 { return r.applied0.Load() }

// Leader is the raft leader's replica and node as far as known; zero if not.
func (r *Replica) Leader() (kv.ReplicaID, kv.NodeID) {
	return kv.ReplicaID(r.leader.Load()), kv.NodeID(r.leaderAt.Load())
}

// IsLeader reports whether this replica is the raft leader.
func (r *Replica) IsLeader() bool { return r.leader.Load() == uint64(r.replicaID) }

// Quiesced reports whether the replica sleeps.
func (r *Replica) Quiesced() bool { return r.quiesced.Load() }

// Gone reports whether the replica was removed from the store.
func (r *Replica) Gone() bool { return r.gone.Load() }

// confState is raft's view of a descriptor.
func confState(d *kv.RangeDescriptor) *raftpb.ConfState {
	cs := &raftpb.ConfState{}
	if d == nil {
		return cs
	}
	joint := isJoint(d)
	for _, r := range d.Replicas {
		id := uint64(r.Replica)
		switch r.Type {
		case kv.Voter:
			cs.Voters = append(cs.Voters, id)
			if joint {
				cs.VotersOutgoing = append(cs.VotersOutgoing, id)
			}
		case kv.VoterIncoming:
			cs.Voters = append(cs.Voters, id)
		case kv.VoterOutgoing:
			cs.VotersOutgoing = append(cs.VotersOutgoing, id)
		case kv.VoterDemoting:
			cs.VotersOutgoing = append(cs.VotersOutgoing, id)
			cs.LearnersNext = append(cs.LearnersNext, id)
		case kv.Learner, kv.NonVoter:
			cs.Learners = append(cs.Learners, id)
		}
	}
	return cs
}

// isJoint reports whether a descriptor has a joint configuration.
func isJoint(d *kv.RangeDescriptor) bool {
	for _, r := range d.Replicas {
		if r.Type.Joint() {
			return true
		}
	}
	return false
}

// raftLogger lets the raft library log where the node does; its fatal errors stop the node.
type raftLogger struct {
	log   *slog.Logger
	store Store
}

func (l raftLogger) Debug(...any)                {}
func (l raftLogger) Debugf(string, ...any)       {}
func (l raftLogger) Info(...any)                 {}
func (l raftLogger) Infof(string, ...any)        {}
func (l raftLogger) Warning(v ...any)            { l.log.Debug(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(f string, v ...any) { l.log.Debug(fmt.Sprintf(f, v...)) }
func (l raftLogger) Error(v ...any)              { l.log.Warn(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(f string, v ...any)   { l.log.Warn(fmt.Sprintf(f, v...)) }
func (l raftLogger) Fatal(v ...any)              { l.Panic(v...) }
func (l raftLogger) Fatalf(f string, v ...any)   { l.Panicf(f, v...) }
func (l raftLogger) Panic(v ...any)              { l.Panicf("%s", fmt.Sprint(v...)) }
func (l raftLogger) Panicf(f string, v ...any) {
	err := fmt.Errorf("replica: raft: "+f, v...)
	l.store.Fatal(err)
	panic(err)
}
