package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/closedts"
	"meridian/replica/lease"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/wire"
)

// Replica is the participant's interface to its range's replica; *replica.Replica implements it.
type Replica interface {
	RangeID() kv.RangeID
	NodeID() kv.NodeID
	Desc() *kv.RangeDescriptor
	CheckLease(at clock.Timestamp) (sequence uint64, ok bool)
	EnsureLease(ctx context.Context, at clock.Timestamp) (sequence uint64, err error)
	Propose(ctx context.Context, c *replica.Command) error
	EvaluateTrigger(rd engine.Reader, b *engine.Batch, t *kv.CommitTrigger) (delta mvcc.Stats, err error)
	Stats() mvcc.Stats
	GCThreshold() clock.Timestamp
	AppliedIndex() uint64
	Closer() *closedts.Tracker
	Follow(at clock.Timestamp) (f replica.Following, closed clock.Timestamp, ok bool)
	Still(f replica.Following) bool
	CloseIdle(to clock.Timestamp) (index uint64, desc *kv.RangeDescriptor, ok bool)
	HeardClosed(p closedts.Promise)
	CommitOf(id kv.TxnID, first clock.Timestamp) (at clock.Timestamp, remembers bool)
}

// Sender sends a batch to the ranges of its keys: pushes go to the ranges of transaction records. *route.Sender implements it.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Participant serves one range under the leader protocol. It satisfies rangeserver.Leader.
type Participant struct {
	o          *Options
	r          Replica
	latches    *latch.Manager
	locks      *lock.Table
	held       held
	dead       dead
	waits      pushQueue
	recoveries recoveries
	writers    writers
	counters   counters
	gate       gate
	// low is the start of the lease: all reads served by earlier leaseholders are below it (leader.P3).
	low atomic.Pointer[clock.Timestamp]
	// ahead is the wall time up to which requests were served ahead of the clock, for the next leaseholder (leader.P4).
	ahead   atomic.Int64
	closed  atomic.Pointer[closing]
	leaving atomic.Pointer[leaving]       // nil: the rows are served
	ended   chan struct{}                 // closed by Close
	unled   atomic.Pointer[chan struct{}] // closed and replaced by Unled
	end     sync.Once

	// holds is the sequence number of the lease that this replica holds, 0 if it holds none. Leases are applied one by one.
	holds uint64

	sweeping atomic.Bool
}

// handoff is the state that the left side of a split gives to the right one.
type handoff struct {
	low   clock.Timestamp
	ahead int64
	locks lock.Holds
	holds uint64
}

// New makes the participant of a replica. given is the result of the left side's SplitOff, nil otherwise.
func New(o *Options, r Replica, given any) *Participant {
	o.fill()
	p := &Participant{o: o, r: r, latches: latch.NewManager(), locks: lock.NewTable(o.MaxLocks),
		ended: make(chan struct{})}
	p.waits.init()
	p.locks.Now = o.Clock.Now
	p.unled.Store(new(make(chan struct{})))
	low := clock.Timestamp{}
	if h, ok := given.(*handoff); ok && h != nil {
		low = h.low
		p.ahead.Store(h.ahead)
		p.locks.Join(h.locks)
		p.holds = h.holds // the right side begins with the left one's lease
	}
	p.low.Store(&low)
	p.held.known = &o.finished
	p.dead.metrics = o.Metrics
	return p
}

// Unled fails requests that wait for latches, locks and other transactions (replica.R5).
func (p *Participant) Unled() {
	p.latches.SendAway()
	close(*p.unled.Swap(new(make(chan struct{}))))
}

func errUnled() error { return &kv.UnavailableError{Reason: "the range has no leader"} }

// LeaseChanged notes a lease with a new sequence number. Locks stay if this replica held the previous one too, as when a lease changes its
// kind: no other replica served in between.
func (p *Participant) LeaseChanged(l lease.Lease, held bool) {
	p.stay(nil) // the next one would have to compute its floor
	p.held.reset()
	p.dead.reset(true)
	if held {
		p.raiseLow(l.Start.Forward(p.floor()))
	}
	if !held || p.holds == 0 || l.Sequence != p.holds && l.Sequence != p.holds+1 {
		p.locks.Clear()
		// The locks of an earlier leaseholder's table are older (I5), and older than this moment if the lease starts in the future (lease.RL5).
		lost := l.Start
		if p.o.Clock.Wall().UnixNano() < lost.Wall {
			lost = lost.Backward(p.o.Clock.Now())
		}
		p.locks.Lose(lost)
	}
	p.waits.wakeAll()
	p.holds = 0
	if held {
		p.holds = l.Sequence
		p.findFreeze()
	} else {
		p.thaw(nil)
	}
}

func (p *Participant) raiseLow(to clock.Timestamp) {
	for {
		old := p.low.Load()
		if to.LessEq(*old) || p.low.CompareAndSwap(old, &to) {
			return
		}
	}
}

// serves notes that a request is served at a timestamp, which may lie ahead of the clock.
func (p *Participant) serves(at, now clock.Timestamp) {
	if at.LessEq(now) {
		return
	}
	for {
		old := p.ahead.Load()
		if at.Wall < old || p.ahead.CompareAndSwap(old, at.Wall+1) {
			return
		}
	}
}

// DescriptorChanged drops the locks in memory if the rows are another protocol's now. Other properties of the descriptor are read from the
// replica when they are needed.
func (p *Participant) DescriptorChanged(desc *kv.RangeDescriptor) {
	if desc.Protocol != kv.Leader {
		p.held.reset()
		p.dead.reset(false)
		p.locks.Clear()
		p.locks.Lose(p.o.Clock.Now())
	}
}

// SplitOff returns the locks of the right side. Pushes that wait here are repeated, since their records may have moved.
func (p *Participant) SplitOff(left, right *kv.RangeDescriptor) any {
	p.o.Probes.Reached(ProbeSplit)
	h := &handoff{low: *p.low.Load(), ahead: p.ahead.Load(), locks: p.locks.Split(right.Start), holds: p.holds}
	p.waits.wakeAll()
	return h
}

// Subsume gives everything to the left neighbour.
func (p *Participant) Subsume() any {
	p.o.Probes.Reached(ProbeSplit)
	h := &handoff{low: *p.low.Load(), ahead: p.ahead.Load(), locks: p.locks.Split(nil), holds: p.holds}
	p.waits.wakeAll()
	return h
}

// SnapshotApplied drops all caches of the data.
func (p *Participant) SnapshotApplied() {
	p.held.reset()
	p.dead.reset(false)
	p.locks.Clear()
	p.locks.Lose(p.o.Clock.Now())
	p.waits.wakeAll()
}

// maxHandover bounds the size of a handover, which is part of one command of the log.
const maxHandover = 1 << 20

// HandOver returns the locks in memory for the next leaseholder, and the highest timestamp at which keys were read, writes prevented, or the
// range's history closed; no request is evaluated under the lease any more. The timestamp may be after the next lease's start, because reads
// of the future, and timestamps that are closed for them, move no clock (leader.P4).
func (p *Participant) HandOver() []byte {
	served := p.low.Load().Forward(clock.Timestamp{Wall: p.ahead.Load()}).Forward(p.r.Closer().Closed())
	return wire.Append(nil, &handover{served, p.locks.Export(maxHandover)}, (*handover).fields)
}

// TakeOver takes the handover of the last leaseholder. Malformed locks count as none.
func (p *Participant) TakeOver(handed []byte) {
	h, err := wire.Decoded(handed, (*handover).fields)
	if err != nil {
		h = handover{served: p.o.Clock.Now().Add(mostAhead)}
	}
	p.raiseLow(h.served)
	if err != nil || p.locks.Import(h.locks) != nil {
		p.locks.Clear() // they count as lost since the lease began
	}
}

// mostAhead is more than the time by which a replica serves ahead of its clock (replica.EnsureLease): it takes a lease that reaches as far, which
// may by then have been extended.
const mostAhead = lease.Farthest + 3*time.Second

// handover is the state that a lease transfer carries.
type handover struct {
	served clock.Timestamp // no later read, prevention or promise
	locks  []byte
}

func (h *handover) fields(c *wire.Coder) {
	c.Message("leader.Handover", wire.Skips)
	c.Timestamp(1, &h.served)
	c.Bytes(2, &h.locks)
}

// Drain returns when no request is being evaluated that entered before the call.
func (p *Participant) Drain(ctx context.Context) error { return p.gate.drain(ctx) }

// Close ends all waits with err.
func (p *Participant) Close(err error) {
	if err == nil {
		err = &kv.RangeNotFoundError{Range: p.r.RangeID()}
	}
	was := p.closed.Swap(&closing{err: err})
	if was != nil && was.thawed != nil {
		close(was.thawed)
	}
	p.end.Do(func() { close(p.ended) })
	p.locks.Clear()
	p.waits.wakeAll()
}

// QueueLengths are numbers for the console: latches held or waited for, keys in the lock table, waiting pushes.
func (p *Participant) QueueLengths() (latches, locks, pushes int) {
	return p.latches.Len(), p.locks.Len(), p.waits.len()
}

// Locks calls f for the locks and waits that the range's lock table knows, until f says no. An intent is among them only if a request has
// met it.
func (p *Participant) Locks(f func(kv.LockState) bool) { p.locks.Observe(f) }
