package leader

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/latch"
	"meridian/commit/leader/lock"
	"meridian/commit/leader/tscache"
	"meridian/host"
	"meridian/kv"
	"meridian/probe"
	"meridian/replica"
	"meridian/replica/closedts"
	"meridian/replica/lease"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// Replica is what a participant needs of its range's replica; *replica.Replica has it.
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
}

// Sender sends a batch to wherever its keys are: pushes go to the ranges of transaction records. *route.Sender
// has it.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Options are what all participants of a store share. They do not change after the first participant is made, and
// may not be copied then.
type Options struct {
	Host   *host.Host
	Clock  *clock.Clock
	Engine *engine.Engine
	Sender Sender
	// Witnesses are the protocols whose writes a staging record may list; nil: this one alone.
	Witnesses commit.Witnesses
	// Cache is the store's timestamp cache.
	Cache *tscache.Cache
	// Metrics may be nil.
	Metrics *Metrics
	// Probes may be nil.
	Probes *probe.Set
	// MaxLocks bounds the lock table of each range; zero is lock.DefaultMaxLocks.
	MaxLocks int
	// ReadPushDelay is how long a read waits for an intent before it pushes; most intents are resolved sooner. Zero
	// is 10 ms.
	ReadPushDelay time.Duration
	// LockPushDelay is how long the first in a lock's queue waits before it looks whether the holder lives. Zero is
	// 20 ms. The others wait for three times as long: all that they can find is a deadlock.
	LockPushDelay time.Duration
	// DeadlockDelay is how long a push waits before it looks for a cycle; from then on it is told of news. Zero is 5 ms.
	DeadlockDelay time.Duration
	// Moved, if any, hears of each request, of whatever gateway, that waits for a lock no longer; on is a hash of the lock.
	Moved func(on uint64)

	finished finished

	once     sync.Once
	readers  sync.Pool // of *mvcc.Reader
	writers  sync.Pool // of *mvcc.Writer
	requests sync.Pool // of *request
}

func (o *Options) fill() {
	o.once.Do(func() {
		if o.Metrics == nil {
			o.Metrics = &Metrics{}
		}
		if o.Witnesses == nil {
			o.Witnesses = commit.Witnesses{kv.Leader: commit.Intents(o.Sender)}
		}
		if o.ReadPushDelay == 0 {
			o.ReadPushDelay = 10 * time.Millisecond
		}
		if o.LockPushDelay == 0 {
			o.LockPushDelay = 20 * time.Millisecond
		}
		if o.DeadlockDelay == 0 {
			o.DeadlockDelay = 5 * time.Millisecond
		}
		if o.Cache == nil {
			o.Cache = tscache.New(tscache.Options{}, o.Clock.Now())
		}
	})
}

func (o *Options) reader(src engine.Reader) *mvcc.Reader {
	r, _ := o.readers.Get().(*mvcc.Reader)
	if r == nil {
		r = &mvcc.Reader{}
	}
	r.Reset(src)
	r.Outcomes = &o.finished
	return r
}

func (o *Options) putReader(r *mvcc.Reader) error {
	err := r.Close()
	o.readers.Put(r)
	return err
}

func (o *Options) request(p *Participant, b *kv.Batch) *request {
	q, _ := o.requests.Get().(*request)
	if q == nil {
		q = &request{}
	}
	q.p, q.b, q.txn = p, b, b.Txn
	return q
}

// putRequest takes a request back, unless an outcome that it waits for is still unknown.
func (o *Options) putRequest(q *request) {
	if q.unknown {
		return
	}
	*q = request{}
	o.requests.Put(q)
}

func (o *Options) writer(src engine.Reader, b *engine.Batch) *mvcc.Writer {
	w, _ := o.writers.Get().(*mvcc.Writer)
	if w == nil {
		w = &mvcc.Writer{}
	}
	w.Reset(src, b)
	w.Outcomes = &o.finished
	return w
}

func (o *Options) putWriter(w *mvcc.Writer) {
	w.Close() // errors of iterators were seen by the operations
	o.writers.Put(w)
}

// Participant serves one range under the leader protocol. It satisfies rangeserver.Participant.
type Participant struct {
	o        *Options
	r        Replica
	latches  *latch.Manager
	locks    *lock.Table
	held     held
	waits    pushQueue
	writers  writers
	counters counters
	gate     gate
	// low is the start of the lease: whatever earlier leaseholders served was read before it (P3).
	low    atomic.Pointer[clock.Timestamp]
	closed atomic.Pointer[closing]
	ended  chan struct{}                 // closed by Close
	unled  atomic.Pointer[chan struct{}] // closed and replaced by Unled
	end    sync.Once

	// holds is the sequence number of the lease that this replica holds, 0 if it holds none. Leases are applied one by one.
	holds uint64

	sweeping atomic.Bool
}

// handoff is what the left side of a split gives the right one.
type handoff struct {
	low   clock.Timestamp
	locks lock.Holds
	holds uint64
}

// New makes the participant of a replica. given is what the left side's SplitOff returned, nil otherwise.
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
		p.locks.Join(h.locks)
		p.holds = h.holds // the right side begins with the left one's lease
	}
	p.low.Store(&low)
	p.held.known = &o.finished
	return p
}

// Unled sends away who waits for latches, locks and other transactions (R5 of replica).
func (p *Participant) Unled() {
	p.latches.SendAway()
	close(*p.unled.Swap(new(make(chan struct{}))))
}

func errUnled() error { return &kv.UnavailableError{Reason: "the range has no leader"} }

// LeaseChanged takes note of a lease with a new sequence number. Locks stay if this replica held the one just before
// too, as when a lease changes its kind: nobody else served in between.
func (p *Participant) LeaseChanged(l lease.Lease, held bool) {
	p.held.reset()
	if held {
		p.raiseLow(l.Start)
	}
	if !held || p.holds == 0 || l.Sequence != p.holds && l.Sequence != p.holds+1 {
		p.locks.Clear()
		p.locks.Lose(l.Start) // what an earlier leaseholder's table had was locked before (I5)
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

// DescriptorChanged has nothing to do: the descriptor is asked of the replica whenever it matters.
func (p *Participant) DescriptorChanged(desc *kv.RangeDescriptor) {}

// SplitOff gives the locks of the right side away. Pushes that wait here ask anew, since their records may have moved.
func (p *Participant) SplitOff(left, right *kv.RangeDescriptor) any {
	h := &handoff{low: *p.low.Load(), locks: p.locks.Split(right.Start), holds: p.holds}
	p.waits.wakeAll()
	return h
}

// Subsume gives everything to the left neighbour.
func (p *Participant) Subsume() any {
	h := &handoff{low: *p.low.Load(), locks: p.locks.Split(nil), holds: p.holds}
	p.waits.wakeAll()
	return h
}

// SnapshotApplied forgets what was known of the data.
func (p *Participant) SnapshotApplied() {
	p.held.reset()
	p.locks.Clear()
	p.locks.Lose(p.o.Clock.Now())
	p.waits.wakeAll()
}

// maxHandover bounds what travels with a lease in one command of the log.
const maxHandover = 1 << 20

// HandOver gives the locks in memory to the next leaseholder; nothing is evaluated under the lease any more.
func (p *Participant) HandOver() []byte { return p.locks.Export(maxHandover) }

// TakeOver takes the locks of the last leaseholder. Malformed ones are as good as none.
func (p *Participant) TakeOver(handed []byte) {
	if p.locks.Import(handed) != nil {
		p.locks.Clear() // they count as lost since the lease began
	}
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

func (p *Participant) closedErr() error {
	if c := p.closed.Load(); c != nil {
		return c.err
	}
	return nil
}

const (
	// sweepFirst and sweepEvery are how long after a record was written the range looks for records that were left
	// behind, and how often it does so until there is none.
	sweepFirst = 2 * commit.SweepAge
	sweepEvery = 10 * time.Minute
	sweepMax   = 1000
)

// sweepLater has the records swept (commit.Sweep), if that is not due already. A range without records costs nothing.
func (p *Participant) sweepLater() {
	if !p.sweeping.CompareAndSwap(false, true) {
		return
	}
	started := p.o.Host.Group.Go(func(ctx context.Context) {
		defer p.sweeping.Store(false)
		t := p.o.Host.Clock.NewTimer(sweepFirst)
		defer t.Stop()
		for {
			select {
			case <-t.C():
			case <-p.ended:
				return
			case <-ctx.Done():
				return
			}
			now := p.o.Clock.Now()
			d := p.r.Desc()
			if _, ok := p.r.CheckLease(now); !ok || d == nil {
				return // the next leaseholder will, when it writes a record
			}
			_, left, err := commit.Sweep(ctx, p.o.Sender, p.o.Engine, d.Start, d.End, now, sweepMax)
			if err == nil && left == 0 {
				return
			}
			t.Reset(sweepEvery)
		}
	})
	if !started {
		p.sweeping.Store(false)
	}
}

// QueueLengths are numbers for the console: latches held or waited for, keys in the lock table, waiting pushes.
func (p *Participant) QueueLengths() (latches, locks, pushes int) {
	return p.latches.Len(), p.locks.Len(), p.waits.len()
}

// Locks calls f for the locks and waits that the range's lock table knows, until f says no. An intent is among them only if
// somebody has met it.
func (p *Participant) Locks(f func(kv.LockState) bool) { p.locks.Observe(f) }

// errAgain is an evaluation's answer that wants another round.
var errAgain = errors.New("leader: again")

// gate counts the requests under way, so that Drain can wait for those that were there when it was called. A
// request enters before it checks the lease; one that enters the old generation late therefore finds the lease
// revoked.
type gate struct {
	generation atomic.Uint32
	inside     [2]atomic.Int64
	draining   atomic.Int32
	left       chan struct{}
	once       sync.Once
}

func (g *gate) enter() uint32 {
	n := g.generation.Load() & 1
	g.inside[n].Add(1)
	return n
}

func (g *gate) leave(n uint32) {
	if g.inside[n].Add(-1) == 0 && g.draining.Load() > 0 {
		g.init()
		select {
		case g.left <- struct{}{}:
		default:
		}
	}
}

func (g *gate) init() { g.once.Do(func() { g.left = make(chan struct{}, 1) }) }

func (g *gate) drain(ctx context.Context) error {
	g.init()
	g.draining.Add(1)
	defer g.draining.Add(-1)
	old := (g.generation.Add(1) - 1) & 1
	for g.inside[old].Load() > 0 {
		select {
		case <-g.left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
