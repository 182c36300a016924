package rangeserver

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/cluster"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/replica"
	"meridian/storage/mvcc"
)

const (
	// queueSlots bounds the range changes that a store carries out at once, quickSlots those of ranges of less than quickBytes, which ship next to nothing: a statement of
	// regions may wait for dozens of them.
	queueSlots = 4
	quickSlots = 16
	quickBytes = 1 << 20
	// lookPause is how long ranges that are to be looked at soon wait for each other.
	lookPause = 10 * time.Millisecond
	// atOnce is for how long a pass leaves a change of protocol to the statement that has asked for it, which has all leaseholders of a table begin at the same moment (LookAt): a
	// transaction over several ranges waits once then. Chosen by us: longer than it takes until all nodes know the configuration.
	atOnce = 4 * time.Second
	// leaderlessPasses is for how many passes a replica may hear of no leader before it asks whether it was removed.
	leaderlessPasses = 10
	// A range is looked at for versions to remove once in a sixth of their time to live, within these bounds.
	gcEveryMin, gcEveryMax = time.Minute, time.Hour
	// gcMinAge is how old versions are when they are removed, at least: by then every node knows the running readers.
	gcMinAge = 30 * time.Second
	// protectAge is the age at which a reader is published to other nodes, protectMax the age up to which it is protected.
	protectAge, protectMax = 10 * time.Second, 24 * time.Hour
	// gcMinBytes: less possible garbage is not worth a search.
	gcMinBytes = 1 << 20
	// lookEvery is how often placement is asked about a range when neither it nor the cluster changed: only how full
	// the nodes are may have.
	lookEvery = 15 * time.Second
	// silentPasses is for how many passes a sleeping replica may hear nothing of its range's leaseholder, which tells all
	// others twice a second what it has closed (closed.go), before it asks whether it was removed. If it was not, it is
	// more patient next time, up to checkEvery.
	silentPasses = 5
	checkEvery   = 10 * time.Minute
	// abandonAfter is when an uninitialised replica that hears nothing is dropped.
	abandonAfter = time.Minute
	// changeTimeout bounds one change, which may ship a range several times and wait for others to be shipped.
	changeTimeout = 15 * time.Minute
)

// ZoneSource gives the configuration of a key, and the span around the key all of which has that configuration. Where two such spans meet, ranges are
// split, and never merged.
type ZoneSource interface {
	Zone(k keys.Key) (placement.Zone, keys.Span)
	// Generation changes whenever an answer of Zone may.
	Generation() uint64
	// Use begins a use of the configurations of a span as they are now: until it is released, no statement that replaces one of them has returned. It
	// fails while the configurations are not known, or may be out of date.
	Use(span keys.Span) (ZoneUse, error)
}

// ZoneUse is a use of configurations (rangeserver.RS4).
type ZoneUse interface {
	Zone(k keys.Key) (placement.Zone, keys.Span)
	// Deadline is the timestamp at or before which a change commits that was decided by the configurations; zero: none.
	Deadline() clock.Timestamp
	// AwaitDeadline returns when the deadline is beyond a timestamp, or will not be soon.
	AwaitDeadline(ctx context.Context, at clock.Timestamp)
	Release()
}

// queues is the state of the store's maintenance.
type queues struct {
	slots     chan struct{}
	quick     chan struct{} // slots for small ranges
	folds     chan struct{} // of ranges without a log (generation.go)
	wake      chan struct{} // some range is due
	published cluster.Capacity
	protected clock.Timestamp // as published
	slow      bool            // as published
	requests  float64         // per second, as of the last pass
	writes    float64         // as requests
	slowUntil time.Duration
	stuck     int64 // Metrics.Stuck as of the last pass
	paused    atomic.Bool

	mu  sync.Mutex // guards due; nothing is taken after it
	due map[kv.RangeID]bool
}

func (q *queues) init() {
	q.slots, q.quick, q.folds = make(chan struct{}, queueSlots), make(chan struct{}, quickSlots), make(chan struct{}, queueSlots)
	q.wake, q.due = make(chan struct{}, 1), make(map[kv.RangeID]bool)
}

// LookAt has the queue look at some ranges now, as far as their leases are here, for changes that are urgent: a statement waits for the places of its rows, or a range has been
// split.
func (s *Store) LookAt(ids ...kv.RangeID) {
	if s.o.QueueInterval > 0 && s.dueLater(ids...) > 0 {
		s.wakeQueue()
	}
}

// dueLater marks ranges as due, without waking the queue, and returns how many are.
func (s *Store) dueLater(ids ...kv.RangeID) int {
	s.queues.mu.Lock()
	defer s.queues.mu.Unlock()
	for _, id := range ids {
		s.queues.due[id] = true
	}
	return len(s.queues.due)
}

func (s *Store) wakeQueue() {
	select {
	case s.queues.wake <- struct{}{}:
	default:
	}
}

// loadCounter counts a range's requests, and remembers when its maintenance was last done.
type loadCounter struct {
	origins
	writes writeMeter

	// A range whose change failed is not changed for a while: until failedAt + backoff, on the monotonic clock.
	failedAt, backoff atomic.Int64
	// Of the queue loop alone.
	leaderless int
	silent     int // passes without a word of the leaseholder to a sleeping replica, of patience
	patience   int
	gcAt       time.Duration
	lookedAt   time.Duration // when placement was last asked, and about which state of the cluster and the range
	cluster    uint64
	generation uint64
	merge      mergeState
	protocol   time.Duration // when placement first asked for another protocol; zero: it does not
	// sampler has keys of requests while there are many; nil: there are not.
	sampler atomic.Pointer[sampler]
	// suspect: a raft snapshot found the replica in its way, so its range may be gone.
	suspect atomic.Bool
}

// queueLoop visits every range once in an interval, and those that are due at once: placement decides, the store carries it out.
func (s *Store) queueLoop(ctx context.Context) {
	timer := s.o.Clock.Physical().NewTimer(s.o.QueueInterval)
	defer timer.Stop()
	for {
		visit := s.pass
		select {
		case <-ctx.Done():
			return
		case <-s.queues.wake:
			if s.o.Clock.Physical().Sleep(ctx, lookPause) != nil {
				return
			}
			visit = s.visitDue
		case <-timer.C():
			timer.Reset(s.o.QueueInterval)
		}
		if s.db.Load() != nil && !s.queues.paused.Load() {
			visit(ctx)
		}
	}
}

// visitDue looks at the ranges that are due. Improvements are left to the pass, which makes one at a time.
func (s *Store) visitDue(ctx context.Context) {
	s.queues.mu.Lock()
	due := slices.Sorted(maps.Keys(s.queues.due))
	clear(s.queues.due)
	s.queues.mu.Unlock()
	var nodes []placement.Node
	if s.o.Cluster != nil {
		nodes = s.nodes(s.o.Clock.Now())
	}
	for _, id := range due {
		e := s.entry(id)
		if e == nil || !e.ready.Load() {
			continue
		}
		if _, ok := e.r.CheckLease(clock.Timestamp{}); !ok {
			continue
		}
		if wait := e.load.backoff.Load(); wait > 0 && int64(s.o.Clock.Physical().Monotonic())-e.load.failedAt.Load() < wait {
			continue
		}
		a := s.decide(e, nodes)
		if a.Kind == placement.None || !a.Urgent {
			continue
		}
		of := e.r.Desc().Span()
		if !s.inBackground(ctx, e, func(ctx context.Context) error { return s.carryOutAll(ctx, e, of, a) }) {
			s.dueLater(id)
		}
	}
}

// PauseQueues stops or resumes the maintenance. Measurements of a given placement need that: bench/figure2 and the simulations that assert latencies in
// round trips put leases and replicas somewhere, where the maintenance would not leave them. Nothing of a node calls it.
func (s *Store) PauseQueues(v bool) { s.queues.paused.Store(v) }

// pass visits all ranges once.
func (s *Store) pass(ctx context.Context) {
	now := s.o.Clock.Now()
	var nodes []placement.Node
	var fingerprint uint64
	if s.o.Cluster != nil {
		s.publish()
		s.noteFull()
		s.noteSlow(s.o.Clock.Physical().Monotonic())
		nodes = s.nodes(now)
		fingerprint = fingerprintOf(nodes)
		if s.o.Zone != nil {
			fingerprint ^= s.o.Zone.Generation() * 0x9e3779b97f4a7c15
		}
	}
	requests, writes := 0.0, 0.0
	improved := false // one improvement at a time, since each changes what the next should be
	s.ranges.Range(func(_, v any) bool {
		e := v.(*entry)
		if ctx.Err() != nil {
			return false
		}
		if !e.ready.Load() {
			s.abandon(e)
			return true
		}
		clk := s.o.Clock.Physical().Monotonic()
		writes += e.load.writes.sample(clk, e.r.AppliedIndex())
		if m, ok := e.leader.(interface{ Merged() bool }); ok && m.Merged() {
			e.load.suspect.Store(true)
		}
		if e.load.suspect.Load() && len(e.admin) == 0 {
			s.inBackground(ctx, e, func(ctx context.Context) error {
				e.load.suspect.Store(false)
				return s.removedMeanwhile(ctx, e)
			})
			return true
		}
		s.considerAbsorb(e)
		sequence, ok := e.r.CheckLease(clock.Timestamp{})
		if !ok {
			s.withoutLease(ctx, e)
			return true
		}
		e.load.leaderless = 0
		if s.considerFold(ctx, e) {
			return true
		}
		e.load.sample(clk, sequence)
		requests += e.load.rate()
		if wait := e.load.backoff.Load(); wait > 0 && int64(clk)-e.load.failedAt.Load() < wait {
			return true
		}
		if s.considerHot(ctx, e, clk, nodes) {
			return true
		}
		l, d, bytes := &e.load, e.r.Desc(), e.r.Stats().TotalBytes
		every := lookEvery + time.Duration(d.ID%8)*lookEvery/8
		if follows(d) && l.away(s.o.NodeID) {
			every = placement.FollowAfter
		}
		if l.cluster == fingerprint && l.generation == d.Generation && clk-l.lookedAt < every && bytes <= s.zone(d.Start).RangeMaxBytes {
			s.considerGC(ctx, e)
			s.considerMerge(ctx, e)
			return true
		}
		a := s.decide(e, nodes)
		if a.Kind == placement.None {
			l.cluster, l.generation, l.lookedAt = fingerprint, d.Generation, clk
		}
		if a.Kind != placement.SetProtocol {
			l.protocol = 0
		} else if l.protocol == 0 {
			l.protocol = max(clk, 1)
		}
		switch {
		case a.Kind == placement.SetProtocol && clk-l.protocol < atOnce:
		case a.Kind == placement.None:
			s.considerGC(ctx, e)
			s.considerMerge(ctx, e)
		case !a.Urgent && !a.Follow && improved:
		default:
			improved = improved || !a.Urgent && !a.Follow
			s.inBackground(ctx, e, func(ctx context.Context) error { return s.carryOutAll(ctx, e, d.Span(), a) })
		}
		return true
	})
	s.queues.requests, s.queues.writes = requests, writes
}

// fingerprintOf is a hash of the nodes' properties that matter for placement, except how full they are.
func fingerprintOf(nodes []placement.Node) uint64 {
	h := fnv.New64a()
	var b []byte
	for i := range nodes {
		n := &nodes[i]
		b = binary.AppendUvarint(b[:0], uint64(n.Node))
		for _, flag := range [...]bool{n.Live, n.Dead, n.Draining, n.Decommissioning, n.Slow} {
			if flag {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
		b = append(b, n.Locality.String()...)
		for _, a := range n.Attributes {
			b = append(append(b, 0), a...)
		}
		_, _ = h.Write(b)
	}
	return h.Sum64()
}

// publish tells the cluster the numbers of this store, when they changed.
func (s *Store) publish() {
	g := s.Gauges()
	c := cluster.Capacity{Ranges: uint32(g.Ranges), Leases: uint32(g.Leaseholders), UsedBytes: uint64(max(0, g.TotalBytes)),
		QueriesPerSecond: told(s.queues.published.QueriesPerSecond, s.queues.requests),
		WritesPerSecond:  told(s.queues.published.WritesPerSecond, s.queues.writes)}
	oldest := s.oldRead(s.o.Clock.Now())
	if c.Ranges == s.queues.published.Ranges && c.Leases == s.queues.published.Leases && c.UsedBytes == s.queues.published.UsedBytes &&
		c.QueriesPerSecond == s.queues.published.QueriesPerSecond && c.WritesPerSecond == s.queues.published.WritesPerSecond &&
		oldest == s.queues.protected {
		return
	}
	s.queues.published, s.queues.protected = c, oldest
	s.o.Cluster.Update(func(e *cluster.Entry) {
		e.Capacity.Ranges, e.Capacity.Leases, e.Capacity.UsedBytes = c.Ranges, c.Leases, c.UsedBytes
		e.Capacity.QueriesPerSecond, e.Capacity.WritesPerSecond = c.QueriesPerSecond, c.WritesPerSecond
		e.Protected = oldest
	})
}

// oldRead is the timestamp from which on this node's transactions read, if some have for a while; else zero.
func (s *Store) oldRead(now clock.Timestamp) clock.Timestamp {
	if s.o.OldestRead == nil {
		return clock.Timestamp{}
	}
	at := s.o.OldestRead()
	if at.IsZero() || now.Add(-protectAge).Less(at) || at.Less(now.Add(-protectMax)) {
		return clock.Timestamp{}
	}
	return at
}

// protect moves a garbage collection threshold below the read timestamps of running transactions, on this node and on all others that may
// be live. A reader that this node has not heard of gets an error from the range, if the threshold has passed it.
func (s *Store) protect(threshold, now clock.Timestamp) clock.Timestamp {
	if at := s.oldRead(now); !at.IsZero() {
		threshold = threshold.Backward(at.Prev())
	}
	if s.o.Cluster == nil {
		return threshold
	}
	for _, e := range s.o.Cluster.Nodes() {
		if e.Protected.IsZero() || e.Node == s.o.NodeID || e.Protected.Less(now.Add(-protectMax)) {
			continue
		}
		if r, ok := s.o.Cluster.Record(e.Node); ok && s.dead(r, now) {
			continue
		}
		threshold = threshold.Backward(e.Protected.Prev())
	}
	return threshold
}

// zone is the configuration of the range that holds a key.
func (s *Store) zone(k keys.Key) placement.Zone {
	z, _ := s.zoneSpan(k)
	return z
}

func (s *Store) zoneSpan(k keys.Key) (placement.Zone, keys.Span) {
	if s.o.Zone != nil {
		return s.o.Zone.Zone(k)
	}
	return placement.DefaultZone(), keys.Span{Start: keys.Min, End: keys.Max}
}

// middleBoundary is that of the boundaries between configurations from first up to end which has as many on either side: the two sides of the split go on at the same time.
func (s *Store) middleBoundary(first, end keys.Key) keys.Key {
	const most = 1 << 10
	var all []keys.Key
	for k := first; k.Less(end) && len(all) < most; {
		all = append(all, k)
		_, of := s.zoneSpan(k)
		k = of.End
	}
	return all[len(all)/2]
}

func (s *Store) decide(e *entry, nodes []placement.Node) placement.Action {
	if !s.o.Settings.Known() {
		return placement.Action{} // the number of replicas is not known yet
	}
	d := e.r.Desc()
	z, span := s.zoneSpan(d.Start)
	if !s.has(z.Protocol) || s.o.Zone == nil || d.Start.Less(keys.TablePrefix) {
		z.Protocol = d.Protocol // it stays, and counts as a violation
	}
	r := placement.Range{Desc: d, Leaseholder: s.o.NodeID, Bytes: e.r.Stats().TotalBytes}
	if span.End.Less(d.End) && !span.End.Less(keys.MetaMax) {
		r.Boundary = s.middleBoundary(span.End, d.End)
	}
	if follows(d) {
		r.Load, r.Requests = e.load.load.Load(), e.load.rate()
	}
	r.Writes = e.load.writes.rate()
	if len(nodes) == 0 {
		if r.Boundary != nil || z.RangeMaxBytes > 0 && r.Bytes > z.RangeMaxBytes {
			return placement.Action{Kind: placement.Split, At: r.Boundary, Urgent: true}
		}
		return placement.Action{}
	}
	a := placement.Decide(&z, &r, nodes)
	if a.Kind != placement.TransferLease {
		return a
	}
	st := e.r.Status() // only now, because it is costly: who can take the lease?
	r.Behind = make(map[kv.NodeID]bool)
	for _, p := range d.Replicas {
		if p.Node != s.o.NodeID {
			r.Behind[p.Node] = true
		}
	}
	for _, f := range st.Followers {
		if f.CaughtUp {
			for _, p := range d.Replicas {
				if p.Replica == f.Replica {
					delete(r.Behind, p.Node)
				}
			}
		}
	}
	return placement.Decide(&z, &r, nodes)
}

// carryOutAll carries out placement's decision, and further urgent ones, without waiting for the next pass.
func (s *Store) carryOutAll(ctx context.Context, e *entry, of keys.Span, a placement.Action) error {
	const steps = 8 // the rest is left to the next pass
	for range steps {
		if err := s.carryOut(ctx, e, of, a); err != nil {
			return err
		}
		if _, ok := e.r.CheckLease(clock.Timestamp{}); !ok || s.o.Cluster == nil {
			return nil
		}
		of = e.r.Desc().Span()
		if a = s.decide(e, s.nodes(s.o.Clock.Now())); a.Kind == placement.None || !a.Urgent {
			return nil
		}
	}
	return nil
}

// carryOut carries out placement's decision about a range that had a span.
func (s *Store) carryOut(ctx context.Context, e *entry, of keys.Span, a placement.Action) error {
	id, m := e.r.RangeID(), meant{of: of}
	s.log.Info("range change", "range", uint64(id), "kind", a.Kind, "targets", a.Targets, "lease", a.Lease, "reason", a.Reason)
	switch {
	case a.Follow:
		s.Metrics.LeasesFollowed.Add(1)
	case !a.Urgent:
		s.Metrics.Rebalances.Add(1)
	}
	switch a.Kind {
	case placement.SetProtocol:
		return s.reprotocol(ctx, id, of, a.Protocol)
	case placement.Split:
		q := &kv.AdminSplitRequest{Key: a.At}
		if a.At != nil {
			q.Keep = s.o.Clock.Now() // the configurations keep the sides apart
		}
		return s.split(ctx, id, m, q)
	case placement.TransferLease:
		return s.transferLease(ctx, id, m, a.Lease)
	default:
		return s.changeReplicas(ctx, id, m, a.Targets)
	}
}

// inBackground runs a change of a range, unless one is running or there is no slot; the next pass tries again. It reports whether the change runs.
func (s *Store) inBackground(ctx context.Context, e *entry, f func(context.Context) error) bool {
	if len(e.admin) > 0 {
		return false
	}
	slots := s.queues.slots
	if e.r.Stats().TotalBytes < quickBytes {
		slots = s.queues.quick
	}
	select {
	case slots <- struct{}{}:
	default:
		return false
	}
	if !s.group.Go(func(ctx context.Context) {
		defer func() {
			<-slots
			if s.dueLater() > 0 { // some found no slot, or this change in their way
				s.wakeQueue()
			}
		}()
		ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, changeTimeout)
		defer cancel()
		if err := f(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("range change failed", "range", uint64(e.r.RangeID()), "err", err)
			e.load.failedAt.Store(int64(s.o.Clock.Physical().Monotonic()))
			e.load.backoff.Store(int64(min(max(2*time.Duration(e.load.backoff.Load()), s.o.QueueInterval), 30*time.Second)))
			return
		}
		e.load.backoff.Store(0)
	}) {
		<-slots
		return false
	}
	return true
}

// withoutLease looks after a replica that can't serve: the raft leader takes a lease without a holder; a replica that hears of no leader
// for long checks whether it is still part of the range.
func (s *Store) withoutLease(ctx context.Context, e *entry) {
	leader, _ := e.r.Leader()
	switch {
	case leader == e.r.ReplicaID():
		e.load.leaderless = 0
		if _, good := e.r.Lease(); good {
			return
		}
		s.inBackground(ctx, e, func(ctx context.Context) error {
			_, err := e.r.EnsureLease(ctx, clock.Timestamp{})
			var elsewhere *kv.NotLeaseholderError
			if errors.As(err, &elsewhere) {
				return nil
			}
			return err
		})
	case leader != 0 || e.r.Quiesced():
		e.load.leaderless = 0
		if !e.r.Quiesced() || s.heard(e) {
			e.load.silent, e.load.patience = 0, 0
			return
		}
		if e.load.silent++; e.load.silent >= max(e.load.patience, silentPasses) {
			e.load.silent, e.load.patience = 0, min(2*max(e.load.patience, silentPasses), int(checkEvery/s.o.QueueInterval))
			s.inBackground(ctx, e, func(ctx context.Context) error { return s.removedMeanwhile(ctx, e) })
		}
	default:
		if e.load.leaderless++; e.load.leaderless >= leaderlessPasses {
			e.load.leaderless = 0
			s.inBackground(ctx, e, func(ctx context.Context) error { return s.removedMeanwhile(ctx, e) })
		}
	}
}

// heard reports whether the leaseholder's store counts this one among those that have a replica.
func (s *Store) heard(e *entry) bool {
	l, _ := e.r.Lease()
	closed, _ := s.HeardClosed(l.Holder.Node, e.r.RangeID())
	return !closed.IsZero()
}

// considerGC removes versions that no transaction may read any more, when there may be enough of them.
func (s *Store) considerGC(ctx context.Context, e *entry) {
	st := e.r.Stats()
	clk := s.o.Clock.Physical().Monotonic()
	if full := s.pressed(e); st.GarbageBytes() < gcMinBytes && !(full && st.GarbageBytes() > 0) {
		return
	}
	if !gcDue(&e.load.gcAt, clk, s.ttl(e)) {
		return
	}
	s.inBackground(ctx, e, func(ctx context.Context) error { return s.collectGarbage(ctx, e) })
}

// pressed reports whether a disk of the range is nearly full.
func (s *Store) pressed(e *entry) bool {
	d := e.r.Desc()
	return s.o.Engine.DiskFull() || d != nil && s.Full(d) != 0
}

// ttl is how long versions are kept that were overwritten: while a disk is nearly full only for running readers.
func (s *Store) ttl(e *entry) time.Duration {
	if s.pressed(e) {
		return gcMinAge
	}
	return s.zone(e.r.Desc().Start).GCTTL
}

// gcDue reports whether to search a range for garbage, and notes in at, its last search, that it is searched now. Most garbage is too young
// when it is seen first: the search comes when some of it may be old enough.
func gcDue(at *time.Duration, now, ttl time.Duration) bool {
	if *at == 0 {
		*at = now
		return false
	}
	if now-*at < min(max(ttl/6, gcEveryMin), gcEveryMax) {
		return false
	}
	*at = now
	return true
}

func (s *Store) collectGarbage(ctx context.Context, e *entry) error {
	d := e.r.Desc()
	now := s.o.Clock.Now()
	threshold := s.protect(now.Add(-max(s.ttl(e), gcMinAge)), now)
	if threshold.LessEq(e.r.GCThreshold()) {
		return nil
	}
	r := mvcc.NewReader(s.o.Engine)
	defer r.Close()
	for _, span := range []keys.Span{keys.RangeLocalSpan(d.Start, d.End), keys.UserSpan(d.Start, d.End)} {
		for rest := &span; rest != nil; {
			if err := s.yield(ctx); err != nil {
				return err
			}
			found, resume, err := r.FindGarbage(rest.Start, rest.End, threshold, 1000, 10_000)
			if err != nil {
				return err
			}
			if rest = resume; len(found) == 0 {
				continue
			}
			_, err = e.leader.Send(ctx, &kv.Batch{
				Header:   kv.Header{RangeID: e.r.RangeID()},
				Requests: []kv.Request{&kv.GCRequest{Start: d.Start, Threshold: threshold, Keys: found}},
			})
			if err != nil {
				return err
			}
			s.Metrics.MVCCVersionsGCed.Add(int64(len(found)))
		}
	}
	return nil
}

// MoveLeases gives all leases of this store to other nodes: a node that is about to stop does so first. It returns how
// many are left when the context ends or nothing moves any more.
func (s *Store) MoveLeases(ctx context.Context) (left int) {
	if s.o.Cluster != nil {
		s.o.Cluster.Update(func(e *cluster.Entry) { e.Draining = true })
	}
	s.queues.paused.Store(true)
	for round := 0; round < 10 && ctx.Err() == nil; round++ {
		left = 0
		s.Replicas(func(r *replica.Replica) bool {
			if _, ok := r.CheckLease(clock.Timestamp{}); !ok || r.Desc() == nil || len(r.Desc().Replicas) < 2 {
				return ctx.Err() == nil
			}
			for _, to := range s.takers(r.Desc()) {
				if s.TransferLease(ctx, r.RangeID(), to) == nil {
					return ctx.Err() == nil
				}
			}
			left++
			return ctx.Err() == nil
		})
		if left == 0 {
			return 0
		}
		if s.o.Clock.Physical().Sleep(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	return left
}

// takers are the nodes that can take a range's lease from this one, best first: those that stay, then those that have just started, which have to
// wait for the end of their earlier record, then those that are about to give their own leases away.
func (s *Store) takers(d *kv.RangeDescriptor) (out []kv.NodeID) {
	now := s.o.Clock.Now()
	draining := make(map[kv.NodeID]bool)
	if s.o.Cluster != nil {
		for _, n := range s.nodes(now) {
			draining[n.Node] = n.Draining || n.Decommissioning
		}
	}
	rank := make(map[kv.NodeID]int)
	for _, p := range d.Replicas {
		if p.Node == s.o.NodeID || p.Type != kv.Voter || p.Witness {
			continue
		}
		if inc, _ := s.o.Liveness.Incarnation(p.Node); inc == 0 || !s.o.Liveness.IsLive(p.Node, inc, now) {
			continue
		}
		if _, beats := s.o.Liveness.Process(p.Node); draining[p.Node] {
			rank[p.Node] = 2
		} else if !beats {
			rank[p.Node] = 1
		}
		out = append(out, p.Node)
	}
	slices.SortStableFunc(out, func(a, b kv.NodeID) int { return cmp.Compare(rank[a], rank[b]) })
	return out
}
