package rangeserver

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/cluster"
	"meridian/commit"
	"meridian/commit/protocol"
	"meridian/fence"
	"meridian/host"
	"meridian/invariant"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/setting"
	"meridian/storage/engine"
	"meridian/transport"
	"meridian/version"
)

// Network is the part of transport that a store uses; *transport.Transport implements it.
type Network interface {
	OpenStreamClass(ctx context.Context, c transport.Class, to kv.NodeID, method string) (transport.Stream, error)
	HandleStream(method string, h transport.StreamHandler)
	CallClass(ctx context.Context, c transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error)
	Handle(method string, h transport.Handler)
}

// Methods that stores register with transport.
const (
	MethodRaft     = "raft.messages"
	MethodSnapshot = "raft.snapshot"
	MethodClosed   = "range.closed"
)

// Options of a store.
type Options struct {
	Host     *host.Host
	Clock    *clock.Clock
	Engine   *engine.Engine
	Network  Network // nil: a cluster of one node
	Liveness lease.NodeLiveness
	// Support is what Supported leases go by; nil: there are none.
	Support lease.Support
	NodeID  kv.NodeID
	StoreID kv.StoreID
	// StartedAt is the node's clock when its process began, as the process tells other nodes; zero: when the store is opened. All that an
	// earlier process of the node has read off its clock is before (lease.RL6).
	StartedAt clock.Timestamp
	// Version is the version that this node acts by.
	Version *version.Handle
	// Leader makes the leader protocol's part of a range; Protocols are the others.
	Leader    NewLeader
	Protocols Registry
	// DB runs the transactions that change descriptors; it may be set later with SetDB. Without one, admin requests
	// are refused and no queue runs.
	DB DB
	// Sender reaches other ranges, for merges; without one they are refused.
	Sender Sender
	// Starts says when replicas may take part in raft; nil: immediately.
	Starts *fence.Fence
	// Cluster tells the queues the members of the cluster; nil: no queue moves replicas.
	Cluster Cluster
	// Zone gives the configuration of the range that holds a key; nil: placement's default.
	Zone ZoneSource
	// Settings are the cluster settings; nil: their defaults.
	Settings *setting.Values
	// OnFatal is told once when the store can't keep its promises; the node has to stop.
	OnFatal func(error)
	// Backlog is how far the engine is behind, as a part of its limits (rangeserver.RS3); nil: it never is. A simulated store has none:
	// its engine works in real time.
	Backlog func() float64
	// Yield is called by elastic work before each piece of it, and may wait for a bounded time; nil: it never does
	// (admission.AD6).
	Yield func(context.Context) error
	// QueueInterval is how often the queues look at every range; default 1 s, negative: never.
	QueueInterval time.Duration
	// OldestRead is at or below the timestamps at which this node's transactions read; zero: none does. Nil: unknown.
	OldestRead func() clock.Timestamp
	// ClosedLag is how far behind the present timestamps are closed, ClosedInterval how often those of sleeping ranges;
	// zero is closedts.DefaultLag and closedts.DefaultInterval.
	ClosedLag, ClosedInterval time.Duration
}

// Store has all replicas of one disk.
//
// rangeserver.RS1: the spans of initialised replicas never overlap. A raft snapshot whose span overlaps another replica's is
// refused: the other one has not applied a split yet, and will.
type Store struct {
	o       Options
	log     *slog.Logger
	replica replica.Options
	Metrics Metrics
	group   *host.Group
	failed  atomic.Pointer[error]
	db      atomic.Pointer[DB]
	full    atomic.Pointer[map[kv.NodeID]bool] // nodes whose disks are nearly full; nil: none

	ranges sync.Map // kv.RangeID -> *entry; readers take no lock

	mu    sync.Mutex // guards byKey, lately and changes of ranges; taken with a replica held, so nothing is taken after it
	byKey *btree.BTreeG[*entry]
	// lately are ranges that were absorbed here; the oldest is forgotten first.
	lately     [256]kv.RangeID
	latelyNext int

	awakeMu sync.Mutex // guards awake
	awake   []*replica.Replica

	syncMu   sync.Mutex // guards syncs
	syncs    []durable
	syncWake chan struct{}

	peersMu sync.Mutex // guards peers
	peers   map[kv.NodeID]*peer

	sendSlots, receiveSlots chan struct{}
	queues                  queues
	backlog                 backlog
	side                    sideTransport
	hashing                 hashing
	leaving                 chan struct{} // closed by Leave
	leaves                  sync.Once
}

// entry is a range's place in the store.
type entry struct {
	r       *replica.Replica
	start   keys.Key                // as byKey has it
	leader  Leader                  // nil until initialised
	serving atomic.Pointer[serving] // of the rows, unless the leader protocol does
	ready   atomic.Bool             // leader may be read
	spoken  atomic.Bool             // a message came for it while it was uninitialised
	folding atomic.Bool             // the queue is at it
	absorbs atomic.Bool             // its delta is being made smaller
	wanted  bool                    // a split makes it real; guarded by Store.mu
	admin   chan struct{}
	load    loadCounter
	closing sideEntry     // of the side loop alone
	checkAt time.Duration // when its replicas are compared next, on the monotonic clock; of checkLoop alone
}

// Metrics count what the store did; Gauges counts what it has.
type Metrics struct {
	replica.Metrics
	RaftMessagesSent, RaftMessagesReceived, RaftMessagesDropped atomic.Int64
	RaftFrames                                                  atomic.Int64
	SplitsRequested, ReplicaChanges, Rebalances, ReplicasGCed   atomic.Int64
	// SplitsByLoad are those of SplitsRequested for which the range had too many requests.
	SplitsByLoad                    atomic.Int64
	MergesRequested, LeasesFollowed atomic.Int64
	MVCCVersionsGCed                atomic.Int64
	// RangeChecks counts comparisons of a range's replicas, Deviations replicas that differed, StatisticsWrong statistics that did.
	RangeChecks, Deviations, StatisticsWrong atomic.Int64
	// Seals counts generations that were ended for a change, Reopened those after which none came of it, Folded those that were
	// ended because much had been promised in them. Ranges of the leader protocol have none.
	Seals, Reopened, Folded    atomic.Int64
	Absorbed                   atomic.Int64 // rows that went into a base without a seal
	ClosedSent, ClosedReceived atomic.Int64 // messages of the side transport
	// Leads is the number of ranges that close timestamps ahead of the clock here, LongestLead the longest of their leads in nanoseconds.
	Leads, LongestLead atomic.Int64
	// TickLate is by how much the ticks of raft come late.
	TickLate cluster.Lateness
}

// Gauges are counts of what the store has now.
type Gauges struct {
	Ranges, Uninitialised, Leaseholders, Leaders, Quiesced int
	LiveBytes, TotalBytes                                  int64
	RaftLogBytes                                           int64
	// RowsLagging are rows of ranges without leaseholders that a replica here knows to be behind.
	RowsLagging int64
}

// Open finds the replicas of an engine, which Bootstrap or other stores filled, and starts to serve them.
func Open(o Options) (*Store, error) {
	if o.QueueInterval == 0 {
		o.QueueInterval = time.Second
	}
	if o.StartedAt.IsZero() {
		o.StartedAt = o.Clock.Now()
	}
	s := &Store{
		o: o, log: o.Host.Log, group: o.Host.Group,
		byKey:     btree.NewG(8, func(a, b *entry) bool { return a.start.Less(b.start) }),
		syncWake:  make(chan struct{}, 1),
		peers:     make(map[kv.NodeID]*peer),
		sendSlots: make(chan struct{}, 2), receiveSlots: make(chan struct{}, 1), leaving: make(chan struct{}),
	}
	if o.DB != nil {
		s.SetDB(o.DB)
	}
	s.side.init(&s.o)
	s.queues.init()
	s.hashing.wake = make(chan struct{}, 1)
	s.hashing.results, s.hashing.counted = make(map[hashKey]*hashResult), make(map[hashKey]bool)
	if err := s.checkDeviation(); err != nil {
		return nil, err
	}
	s.replica = replica.Options{
		Host: o.Host, Clock: o.Clock, Engine: o.Engine, Liveness: o.Liveness, Support: o.Support, Store: s, Metrics: &s.Metrics.Metrics,
		Node: o.NodeID, StoreID: o.StoreID, Version: o.Version, StartedAt: o.StartedAt, Leaving: s.leaving, ClosedLag: s.o.ClosedLag,
	}
	if err := s.recover(); err != nil {
		return nil, err
	}
	if o.Network != nil {
		o.Network.HandleStream(MethodRaft, s.serveRaft)
		o.Network.HandleStream(MethodSnapshot, s.serveSnapshot)
		o.Network.HandleStream(MethodApplied, s.serveApplied)
		o.Network.HandleStream(MethodReport, s.serveReport)
		o.Network.HandleStream(MethodHash, s.serveHash)
		o.Network.Handle(MethodDeviates, s.serveDeviates)
		o.Network.Handle(methodPresent, s.servePresent)
		o.Network.Handle(MethodClosed, s.serveClosed)
		s.group.Go(s.closeLoop)
	}
	s.group.Go(s.hashLoop)
	if s.backlog.clock = o.Host.Clock; o.Backlog != nil {
		s.group.Go(func(ctx context.Context) { s.backlog.watch(ctx, &s.Metrics.Applied, o.Backlog) })
	}
	s.group.Go(s.syncLoop)
	s.group.Go(s.tickLoop)
	if o.Support != nil {
		s.group.Go(s.watchSupport)
	}
	if s.o.Starts == nil {
		s.ranges.Range(func(_, v any) bool {
			begin(v.(*entry).r)
			return true
		})
	} else if s.admit() > 0 || !s.o.Starts.Cleared() {
		s.group.Go(s.admitLoop)
	}
	if o.QueueInterval > 0 {
		s.group.Go(s.queueLoop)
		s.group.Go(s.checkLoop)
	}
	return s, nil
}

// begin lets a replica that the store was opened with take part.
func begin(r *replica.Replica) {
	if d := r.Desc(); d != nil && len(d.Replicas) == 1 {
		r.Campaign()
	} else {
		r.Wake()
	}
}

// admit lets those replicas begin for which the node's start is recorded, and counts the others (fence.FE1). A replica that was made later clears the
// start, if the store was opened without any: until then the node tells nobody how far it has come (fence.FE4).
func (s *Store) admit() (barred int) {
	s.ranges.Range(func(_, v any) bool {
		r := v.(*entry).r
		d := r.Desc()
		if d == nil || !r.Barred() && s.o.Starts.Cleared() {
			return true
		}
		ok, err := s.o.Starts.Admit(d)
		if err != nil {
			s.Fatal(err)
		}
		switch {
		case !r.Barred():
		case err != nil || !ok:
			barred++
		default:
			r.Unbar()
			begin(r)
		}
		return true
	})
	return barred
}

// admitEvery is how often a store that was opened without ranges looks whether it has been given one.
const admitEvery = time.Second

// admitLoop does so whenever another node has recorded the start, until it is cleared and no replica waits.
func (s *Store) admitLoop(ctx context.Context) {
	for {
		changed := s.o.Starts.Changed()
		if s.admit() == 0 && s.o.Starts.Cleared() {
			return
		}
		t := s.o.Host.Clock.NewTimer(admitEvery)
		select {
		case <-changed:
		case <-t.C():
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// Descriptors are those of the replicas that an engine has.
func Descriptors(e *engine.Engine) (out []kv.RangeDescriptor, err error) {
	it, err := e.NewIter(engine.IterOptions{Lower: keys.AllRangeIDs().Start, Upper: keys.AllRangeIDs().End})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; {
		k, _ := it.Key()
		id, err := keys.DecodeRangeIDKey(k)
		if err != nil {
			return nil, fmt.Errorf("rangeserver: unexpected key %s: %w", k, err)
		}
		if v, err := e.Get(keys.DescriptorCopyKey(kv.RangeID(id))); err != nil {
			return nil, err
		} else if v != nil {
			desc, err := kv.DecodeRangeDescriptor(v)
			if err != nil {
				return nil, err
			}
			out = append(out, desc)
		}
		ok = it.SeekGE(keys.RangeIDSpan(id).End)
	}
	return out, it.Error()
}

// recover makes the replicas that the engine knows of.
func (s *Store) recover() error {
	descs, err := Descriptors(s.o.Engine)
	if err != nil {
		return err
	}
	for i := range descs {
		desc := &descs[i]
		self, ok := desc.Replica(s.o.NodeID)
		if !ok {
			return fmt.Errorf("rangeserver: r%d: this node is not in its descriptor", desc.ID)
		}
		r, err := replica.New(&s.replica, desc.ID, self.Replica)
		if err != nil {
			return err
		}
		if s.o.Starts != nil {
			r.Bar()
		}
		s.initialise(s.add(r), desc, nil)
	}
	var last *kv.RangeDescriptor
	s.byKey.Ascend(func(e *entry) bool {
		d := e.r.Desc()
		if last != nil && d.Start.Less(last.End) {
			err = overlap(last, d)
		}
		last = d
		return err == nil
	})
	return err
}

// add makes a replica known by its id.
func (s *Store) add(r *replica.Replica) *entry {
	e := &entry{r: r, admin: make(chan struct{}, 1)}
	s.ranges.Store(r.RangeID(), e)
	return e
}

// initialise makes a replica known by its keys and gives it its participant. It is called with the replica held, or
// before anybody else knows it.
func (s *Store) initialise(e *entry, d *kv.RangeDescriptor, handoff any) {
	s.mu.Lock()
	e.start = d.Start
	s.byKey.ReplaceOrInsert(e)
	s.mu.Unlock()
	if e.ready.Load() {
		return
	}
	e.leader = s.o.Leader(e.r, handoff)
	s.served(e, d)
	l, _ := e.r.Lease()
	if !l.IsZero() {
		e.leader.LeaseChanged(l, l.Holder.Replica == e.r.ReplicaID())
	}
	e.ready.Store(true)
}

func (s *Store) entry(id kv.RangeID) *entry {
	v, ok := s.ranges.Load(id)
	if !ok {
		return nil
	}
	return v.(*entry)
}

// containing finds the replica whose range has a key.
func (s *Store) containing(k keys.Key) (found *entry) {
	s.mu.Lock()
	s.byKey.DescendLessOrEqual(&entry{start: k}, func(e *entry) bool {
		found = e
		return e.r.Desc() == nil // the right side of a split that is being applied: the left one still has its keys
	})
	s.mu.Unlock()
	if found != nil {
		if d := found.r.Desc(); d != nil && d.Contains(k) {
			return found
		}
	}
	return nil
}

// Send serves a batch, whose header says for which range. All of its keys have to be in the range.
func (s *Store) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	defer func() {
		if r := recover(); r != nil {
			panic(broken(r))
		}
	}()
	e, desc, err := s.find(b)
	if err != nil {
		return nil, err
	}
	return s.send(ctx, e, desc, b)
}

// find is the range of a batch.
func (s *Store) find(b *kv.Batch) (*entry, *kv.RangeDescriptor, error) {
	e := s.entry(b.RangeID)
	if e == nil || !e.ready.Load() {
		return nil, nil, s.notHere(b)
	}
	if s.group.Context().Err() != nil || s.isLeaving() {
		return nil, nil, &kv.UnavailableError{Reason: "the node is stopping"}
	}
	desc := e.r.Desc()
	for _, q := range b.Requests {
		if span := q.Span(); !covers(desc, span) {
			return nil, nil, s.mismatch(e, span)
		}
	}
	e.load.count(b)
	return e, desc, nil
}

func (s *Store) send(ctx context.Context, e *entry, desc *kv.RangeDescriptor, b *kv.Batch) (*kv.BatchResponse, error) {
	if len(b.Requests) == 1 && b.Requests[0].Method().IsAdmin() {
		return s.sendAdmin(ctx, e, b)
	}
	if s.backlog.high.Load() && bringsData(b) {
		if err := s.backlog.wait(ctx); err != nil {
			return nil, err
		}
	}
	if !protocol.Leased(b.Protocol) || !protocol.Leased(desc.Protocol) {
		return s.sendByProtocol(ctx, e, desc, b)
	}
	r, err := e.leader.Send(ctx, b)
	if r != nil && len(r.Responses) == 1 {
		if info, ok := r.Responses[0].(*kv.RangeInfoResponse); ok {
			info.RequestsPerSecond = uint64(e.load.rate())
		}
	}
	if r != nil && b.Generation != 0 && b.Generation < e.r.Desc().Generation {
		r.RangeInfos = append(r.RangeInfos, s.info(e))
	}
	return r, err
}

// Leave says that the node is about to stop: batches are refused from now on, before anything of them is done, and those that wait for a lease
// too, so that their gateways ask other replicas. Those that have begun go on.
func (s *Store) Leave() { s.leaves.Do(func() { close(s.leaving) }) }

func (s *Store) isLeaving() bool {
	select {
	case <-s.leaving:
		return true
	default:
		return false
	}
}

// broken is the panic of a request, which may have left latches held and locks half-changed: whoever called, the process has to end
// (fault.FA2). The stack that Go prints is that of the first panic.
func broken(r any) *invariant.Error {
	if e, ok := r.(*invariant.Error); ok {
		return e
	}
	return &invariant.Error{Message: fmt.Sprintf("a request panicked: %v", r)}
}

// info is what this store knows of a range.
func (s *Store) info(e *entry) (info kv.RangeInfo) {
	info.Desc = *e.r.Desc()
	if l, good := e.r.Lease(); good {
		info.Leaseholder = l.Holder
	}
	return info
}

// notHere says where a range went that was absorbed here; of others it knows nothing.
func (s *Store) notHere(b *kv.Batch) error {
	s.mu.Lock()
	absorbed := slices.Contains(s.lately[:], b.RangeID)
	s.mu.Unlock()
	if absorbed && len(b.Requests) > 0 {
		span := b.Requests[0].Span()
		if e := s.containing(keys.Addr(span.Start)); e != nil {
			return s.mismatch(e, span)
		}
	}
	return &kv.RangeNotFoundError{Range: b.RangeID}
}

// Start has a batch begun, if nothing is in its way (commit.Flight); otherwise nothing has happened.
func (s *Store) Start(ctx context.Context, b *kv.Batch, lazy bool) (commit.Flight, bool) {
	e := s.entry(b.RangeID)
	if e == nil || !protocol.Leased(b.Protocol) || !e.ready.Load() || s.group.Context().Err() != nil || s.isLeaving() || s.backlog.high.Load() && bringsData(b) {
		return nil, false
	}
	st, ok := e.leader.(interface {
		Start(ctx context.Context, b *kv.Batch, lazy bool) (commit.Flight, bool)
	})
	desc := e.r.Desc()
	if !ok || b.Generation != 0 && b.Generation < desc.Generation {
		return nil, false
	}
	for _, q := range b.Requests {
		if !covers(desc, q.Span()) {
			return nil, false
		}
	}
	e.load.count(b)
	return st.Start(ctx, b, lazy)
}

// covers reports whether a request's span is in a range, by the address of its keys.
func covers(d *kv.RangeDescriptor, s keys.Span) bool {
	start := keys.Addr(s.Start)
	if start.Less(d.Start) {
		return false
	}
	if s.Point() {
		return start.Less(d.End)
	}
	return keys.Addr(s.End).Compare(d.End) <= 0 && start.Less(d.End)
}

// mismatch tells what this store knows of the ranges that a span touches.
func (s *Store) mismatch(e *entry, span keys.Span) error {
	err := &kv.RangeMismatchError{Span: span}
	tell := func(e *entry) {
		d := e.r.Desc()
		if d == nil || len(err.Infos) >= 8 {
			return
		}
		info := kv.RangeInfo{Desc: *d}
		if l, good := e.r.Lease(); good {
			info.Leaseholder = l.Holder
		}
		err.Infos = append(err.Infos, info)
	}
	tell(e)
	if at := s.containing(keys.Addr(span.Start)); at != nil && at != e {
		tell(at)
	}
	return err
}

// Replica gives a range's replica on this store, nil if there is none.
func (s *Store) Replica(id kv.RangeID) *replica.Replica {
	if e := s.entry(id); e != nil {
		return e.r
	}
	return nil
}

// Replicas calls f with every replica until it says no.
func (s *Store) Replicas(f func(*replica.Replica) bool) {
	s.ranges.Range(func(_, v any) bool { return f(v.(*entry).r) })
}

// Lookup gives the descriptor of the range that holds a key, if a replica of it is here; for the first range, which
// clients find without the index.
func (s *Store) Lookup(k keys.Key) (info kv.RangeInfo, ok bool) {
	e := s.containing(k)
	if e == nil {
		return info, false
	}
	info.Desc = *e.r.Desc()
	if l, good := e.r.Lease(); good {
		info.Leaseholder = l.Holder
	}
	return info, true
}

// Gauges looks at every replica.
func (s *Store) Gauges() (g Gauges) {
	s.Replicas(func(r *replica.Replica) bool {
		if r.Desc() == nil {
			g.Uninitialised++
			return true
		}
		g.Ranges++
		if _, ok := r.CheckLease(clock.Timestamp{}); ok {
			g.Leaseholders++
		}
		if r.IsLeader() {
			g.Leaders++
		}
		if r.Quiesced() {
			g.Quiesced++
		}
		if r.IsWitness() {
			return true // it has none of what its range has
		}
		st := r.Stats()
		g.LiveBytes += st.LiveBytes
		g.TotalBytes += st.TotalBytes
		return true
	})
	s.ranges.Range(func(_, v any) bool {
		if now := v.(*entry).serving.Load(); now != nil && now.g != nil {
			g.RowsLagging += now.g.lagging.Load()
		}
		return true
	})
	return g
}

// SetDB gives the store what runs transactions on descriptors.
func (s *Store) SetDB(db DB) { s.db.Store(&db) }

// NodeID is the store's node.
func (s *Store) NodeID() kv.NodeID { return s.o.NodeID }

// Engine is the store's disk.
func (s *Store) Engine() *engine.Engine { return s.o.Engine }

// Failed is why the store stopped, nil while it has not.
func (s *Store) Failed() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// Locks calls f for the locks and waits of every range of which this store's replica keeps the lock table, until f says no.
func (s *Store) Locks(f func(kv.RangeID, kv.LockState) bool) {
	s.ranges.Range(func(_, v any) bool {
		e := v.(*entry)
		if !e.ready.Load() {
			return true
		}
		p, ok := e.leader.(interface{ Locks(func(kv.LockState) bool) })
		if !ok {
			return true
		}
		more := true
		p.Locks(func(l kv.LockState) bool {
			more = f(e.r.RangeID(), l)
			return more
		})
		return more
	})
}
