package rangeserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/transport"
	"meridian/wire"
)

// Sender sends batches to other ranges; *route.Sender implements it.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

const (
	// MethodApplied asks a store to wait until a replica has applied its log up to an index, durably.
	MethodApplied = "range.applied"

	// alignTries bounds the steps by which the right side's replicas are brought to where the left side's are.
	alignTries = 8
	// freezeTimeout bounds a merge's transaction, during most of which the right side serves nothing.
	freezeTimeout = 10 * time.Second
	// appliedPause is how often a store checks whether a replica has applied the awaited index.
	appliedPause = 2 * time.Millisecond
)

// Merge makes a range absorb its right neighbour:
//
//	align       the right side's replicas move to the left side's nodes, and its lease to this one
//	intents     one transaction writes the wider descriptor, removes the other, and changes their index entries
//	subsume     the right side's leaseholder freezes it (leader.P8 and leader.P9)
//	applied     every replica of it applies its log, durably, so that all hold the same data
//	commit      the left side's log carries the trigger: each of its replicas takes over the right side's data on its store
//
// Until the commit, a failure leaves two ranges as they were; the right side finds out that the transaction was aborted.
func (s *Store) Merge(ctx context.Context, id kv.RangeID) error {
	return s.mergeWithNext(ctx, id, meant{})
}

func (s *Store) mergeWithNext(ctx context.Context, id kv.RangeID, m meant) error {
	e, done, err := s.administer(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	left, err := s.still(e, m)
	if d := e.r.Desc(); err != nil && len(m.of.End) > 0 && d.Start.Equal(m.of.Start) && m.of.End.Less(d.End) {
		return nil // it has been done: the next merge would take in what nobody has asked for
	}
	if err != nil {
		return err
	}
	db, err := s.database()
	if err != nil {
		return err
	}
	if s.o.Sender == nil {
		return &kv.UnavailableError{Reason: "the node is not ready to merge ranges"}
	}
	switch {
	case left.End.Compare(keys.Max) >= 0:
		return refused("the last range has nothing to its right")
	case left.Start.Less(keys.TablePrefix):
		return refused("the system's ranges are not merged")
	}
	s.Metrics.MergesRequested.Add(1)
	right, err := s.align(ctx, left)
	if err != nil {
		return err
	}
	if !protocol.Leased(left.Protocol) {
		re, done, err := s.administer(ctx, right.ID)
		if err != nil {
			return err
		}
		defer done()
		if err := s.fold(ctx, re, right); err != nil {
			return s.afterFailed(err, e, re)
		}
		if err := s.fold(ctx, e, left); err != nil {
			return s.afterFailed(err, e, re)
		}
		if err := s.merge(ctx, db, left, right); err != nil {
			return s.afterFailed(err, e, re)
		}
		return nil
	}
	return s.merge(ctx, db, left, right)
}

// merge is the transaction of a merge.
func (s *Store) merge(ctx context.Context, db DB, left, right *kv.RangeDescriptor) error {
	merged := left.Clone()
	merged.End, merged.Generation = right.End, max(left.Generation, right.Generation)+1
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	// The configurations may have been replaced since the merge was decided, and are not while its transaction runs (rangeserver.RS4).
	use, err := s.use(merged.Span())
	if err != nil {
		return err
	}
	defer use.Release()
	if _, span := use.Zone(left.Start); !right.Start.Less(span.End) {
		return refused("ranges of different configurations are not merged")
	}
	return db.RunInternal(ctx, "range merge", func(ctx context.Context, tx Tx) error {
		tx.Within(use)
		lkey, rkey := keys.RangeDescriptorKey(left.Start), keys.RangeDescriptorKey(right.Start)
		for _, side := range []struct {
			key keys.Key
			d   *kv.RangeDescriptor
		}{{lkey, left}, {rkey, right}} {
			v, err := tx.Get(ctx, side.key)
			if err != nil {
				return err
			}
			if !side.d.StoredAs(v) {
				return &ChangedError{Range: side.d.ID}
			}
		}
		// The first write anchors the transaction in the range whose log carries the trigger.
		if err := tx.Put(ctx, lkey, merged.Append(nil)); err != nil {
			return err
		}
		if err := tx.Delete(ctx, rkey); err != nil {
			return err
		}
		for _, k := range keys.MetaKeys(left.Start, left.End) {
			if err := tx.Delete(ctx, k); err != nil {
				return err
			}
		}
		for _, k := range keys.MetaKeys(merged.Start, merged.End) {
			if err := tx.Put(ctx, k, merged.Append(nil)); err != nil {
				return err
			}
		}
		txn, err := tx.Lay(ctx)
		if err != nil {
			return err
		}
		told, err := s.subsume(ctx, right, txn)
		if err != nil {
			return err
		}
		if err := s.awaitApplied(ctx, right, told.Applied); err != nil {
			return err
		}
		return tx.CommitWithTrigger(ctx, &kv.CommitTrigger{Merge: &kv.MergeTrigger{
			Left: *merged, Right: *right, Freeze: told.Freeze, Applied: told.Applied}})
	})
}

// refused is an answer that a retry does not change.
func refused(why string) error { return &kv.InternalError{Message: "rangeserver: " + why} }

// subsume freezes the right side.
func (s *Store) subsume(ctx context.Context, right *kv.RangeDescriptor, txn kv.TxnMeta) (*kv.SubsumeResponse, error) {
	resp, err := s.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.SubsumeRequest{Key: right.Start, Txn: txn}}})
	if err != nil {
		return nil, err
	}
	told, ok := resp.Responses[0].(*kv.SubsumeResponse)
	if !ok || told.Desc.ID != right.ID || told.Desc.Generation != right.Generation {
		return nil, &ChangedError{Range: right.ID}
	}
	return told, nil
}

// align brings the replicas of the range to the right to the nodes where the left side's are, and its lease here. It
// returns that range's descriptor.
func (s *Store) align(ctx context.Context, left *kv.RangeDescriptor) (*kv.RangeDescriptor, error) {
	for range alignTries {
		resp, err := s.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: left.End}}})
		if err != nil {
			return nil, err
		}
		info, ok := resp.Responses[0].(*kv.RangeInfoResponse)
		if !ok {
			return nil, kv.ErrMalformed
		}
		right := &info.Desc
		switch {
		case !right.Start.Equal(left.End):
			return nil, &ChangedError{Range: left.ID}
		case right.Protocol != left.Protocol:
			return nil, refused("ranges of different commit protocols are not merged")
		case !sameZone(s, left.Start, right.Start):
			return nil, refused("ranges of different configurations are not merged")
		}
		if zone := s.zone(left.Start); countVoters(left) < min(countVoters(right), zone.Voters()) {
			return nil, &kv.UnavailableError{Reason: "the left side has fewer voters than it should have, and the right one more"}
		}
		targets, differ := targetsFor(left, right)
		var q kv.Request
		at, known := right.Replica(info.Leaseholder)
		_, here := left.Replica(info.Leaseholder)
		mine, also := right.Replica(s.o.NodeID)
		switch {
		case info.Leaseholder != s.o.NodeID && also && mine.Type == kv.Voter && mine.Full():
			q = &kv.AdminTransferLeaseRequest{Key: right.Start, Target: s.o.NodeID, Of: right.Span()}
		case !differ && info.Leaseholder == s.o.NodeID:
			return right, nil
		case known && !here: // it takes part in the change, and is removed when it has transferred the lease
			targets = append(targets, kv.ReplicaTarget{Node: at.Node, Store: at.Store, Type: kv.Voter})
			fallthrough
		default:
			q = &kv.AdminChangeReplicasRequest{Key: right.Start, Targets: targets, Of: right.Span()}
		}
		if _, err := s.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{q}}); err != nil {
			return nil, err
		}
	}
	return nil, &kv.UnavailableError{Reason: "the neighbour's replicas can't be brought to the same nodes"}
}

// targetsFor are the replicas of the left side for the right one. A replica that has to change its type is removed first, and added by the
// next step.
func targetsFor(left, right *kv.RangeDescriptor) (targets []kv.ReplicaTarget, differ bool) {
	for _, r := range left.Replicas {
		have, ok := right.Replica(r.Node)
		if !ok || have.Type != r.Type || have.Witness != r.Witness {
			differ = true
		}
		if ok && (have.Type == kv.Voter && r.Type != kv.Voter || have.Witness != r.Witness) {
			continue
		}
		targets = append(targets, kv.ReplicaTarget{Node: r.Node, Store: r.Store, Type: r.Type, Witness: r.Witness})
	}
	return targets, differ || len(left.Replicas) != len(right.Replicas)
}

// sameZone reports whether a key and a later one have one configuration, and all keys between them.
func sameZone(s *Store, a, b keys.Key) bool {
	_, span := s.zoneSpan(a)
	return b.Less(span.End)
}

// awaitApplied returns when all replicas of a frozen range have applied its log up to an index.
func (s *Store) awaitApplied(ctx context.Context, d *kv.RangeDescriptor, index uint64) error {
	results := make(chan error, len(d.Replicas))
	for _, r := range d.Replicas {
		if !s.group.Go(func(context.Context) { results <- s.awaitAppliedAt(ctx, d.ID, r, index) }) {
			return &kv.UnavailableError{Reason: "the node is stopping"}
		}
	}
	var first error
	for range d.Replicas {
		if err := <-results; first == nil {
			first = err
		}
	}
	return first
}

func (s *Store) awaitAppliedAt(ctx context.Context, id kv.RangeID, r kv.ReplicaDescriptor, index uint64) error {
	if r.Node == s.o.NodeID {
		return s.applied(ctx, id, r.Replica, index)
	}
	if s.o.Network == nil {
		return errors.New("rangeserver: no network")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.o.Network.OpenStreamClass(ctx, transport.ClassSystem, r.Node, MethodApplied)
	if err != nil {
		return err
	}
	if err := stream.Send(wire.Append(nil, &progressRequest{id, r.Replica, index}, (*progressRequest).fields)); err != nil {
		return err
	}
	b, err := stream.Recv()
	if err != nil {
		return err
	}
	at, err := wire.Decoded(b, (*kv.StorePosition).Fields)
	if err != nil {
		return err
	}
	return s.credit(r.Node, at)
}

// progressRequest asks a replica to answer when its durable state has come so far: MethodApplied, when it has applied its log up to an
// index; the answer is the position of its store. MethodReport, when it has applied the seal of a generation; the answer is what it has
// promised in the generation (reportPart).
type progressRequest struct {
	id      kv.RangeID
	replica kv.ReplicaID
	upTo    uint64
}

func (q *progressRequest) fields(c *wire.Coder) {
	c.Message("rangeserver.ProgressRequest", wire.Skips)
	wire.Uint64(c, 1, &q.id)
	wire.Uint64(c, 3, &q.replica)
	wire.Uint64(c, 5, &q.upTo)
}

// receiveProgressRequest reads the request of a stream; nil without an error: the stream was closed.
func receiveProgressRequest(stream transport.Stream) (*progressRequest, error) {
	b, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return nil, err
	}
	q := &progressRequest{}
	if err := wire.Decode(b, q, (*progressRequest).fields); err != nil {
		return nil, err
	}
	return q, nil
}

// serveApplied answers awaitAppliedAt.
func (s *Store) serveApplied(ctx context.Context, from kv.NodeID, stream transport.Stream) error {
	q, err := receiveProgressRequest(stream)
	if q == nil {
		return err
	}
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	if err := s.applied(ctx, q.id, q.replica, q.upTo); err != nil {
		return err
	}
	at, err := s.standing(q.id)
	if err != nil {
		return err
	}
	return stream.Send(wire.Append([]byte{}, &at, (*kv.StorePosition).Fields))
}

// applied waits for a replica here. Applied commands are not synced by themselves (replica.R3), and after a crash
// the replica might not learn again how much of its log was committed: so a sync follows.
func (s *Store) applied(ctx context.Context, id kv.RangeID, rid kv.ReplicaID, index uint64) error {
	for {
		e := s.entry(id)
		if e == nil || e.r.ReplicaID() != rid || e.r.Gone() {
			return &kv.RangeNotFoundError{Range: id}
		}
		if e.r.AppliedIndex() >= index {
			break
		}
		e.r.Wake()
		if err := s.o.Clock.Physical().Sleep(ctx, appliedPause); err != nil {
			return fmt.Errorf("rangeserver: r%d has applied %d of %d: %w", id, e.r.AppliedIndex(), index, err)
		}
	}
	return s.makeDurable()
}

// Neighbour gives another range's replica.
func (s *Store) Neighbour(id kv.RangeID) *replica.Replica { return s.Replica(id) }

// MergeApplied passes the state of the right side's participant to the left one's.
func (s *Store) MergeApplied(left, right *replica.Replica, d *kv.RangeDescriptor, freeze clock.Timestamp) {
	s.mu.Lock()
	s.lately[s.latelyNext] = right.RangeID()
	s.latelyNext = (s.latelyNext + 1) % len(s.lately)
	s.mu.Unlock()
	var handoff any
	if e := s.entry(right.RangeID()); e != nil && e.r == right && e.ready.Load() {
		handoff = e.leader.Subsume()
	}
	if e := s.entry(left.RangeID()); e != nil && e.r == left && e.ready.Load() {
		e.leader.Absorb(d, handoff, freeze)
	}
}

// Absorbed lists the replicas here that a raft snapshot of a range replaces, because the range has absorbed theirs; ok
// is false if another replica is in the way (rangeserver.RS1), or is about to be, because a split is being applied.
//
// A replica that its left neighbour has yet to absorb, when that reaches the merge in its own log, is in the way until then. The store
// checks whether the ranges of replicas in the way still exist.
func (s *Store) Absorbed(d *kv.RangeDescriptor) (out []*replica.Replica, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok = true
	var before *kv.RangeDescriptor // the replica to the left of the span's first
	s.byKey.DescendLessOrEqual(&entry{start: d.Start}, func(e *entry) bool {
		od := e.r.Desc()
		switch {
		case od == nil:
			ok = e.r.RangeID() == d.ID
			return ok
		case od.Start.Equal(d.Start) && od.ID != d.ID: // handled below
			return true
		case od.ID == d.ID:
		case d.Start.Less(od.End):
			ok = false
			e.load.suspect.Store(true)
		default:
			before = od
		}
		return false
	})
	mine := map[kv.RangeID]bool{d.ID: true}
	s.byKey.AscendGreaterOrEqual(&entry{start: d.Start}, func(e *entry) bool {
		if !e.start.Less(d.End) {
			return false
		}
		if e.r.RangeID() == d.ID {
			return true
		}
		od := e.r.Desc()
		if od == nil {
			ok = false
			return false
		}
		if !replica.Subsumes(d, od) || before != nil && before.End.Equal(od.Start) && !mine[before.ID] {
			ok = false
			e.load.suspect.Store(true)
			return false
		}
		out = append(out, e.r)
		mine[od.ID] = true
		before = od
		return true
	})
	return out, ok
}
