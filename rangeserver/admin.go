package rangeserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/replica"
	"meridian/storage/mvcc"
	"meridian/transport"
	"meridian/version"
)

// sendAdmin carries out a request that is about the range itself. Only the leaseholder does, one at a time.
func (s *Store) sendAdmin(ctx context.Context, e *entry, b *kv.Batch) (*kv.BatchResponse, error) {
	var err error
	resp := kv.Response(&kv.EmptyResponse{})
	switch q := b.Requests[0].(type) {
	case *kv.AdminSplitRequest:
		err = s.split(ctx, e.r.RangeID(), meant{}, q)
	case *kv.AdminTransferLeaseRequest:
		err = s.transferLease(ctx, e.r.RangeID(), meant{q.Key, q.Of}, q.Target)
	case *kv.AdminChangeReplicasRequest:
		err = s.changeReplicas(ctx, e.r.RangeID(), meant{q.Key, q.Of}, q.Targets)
	case *kv.AdminMergeRequest:
		err = s.mergeWithNext(ctx, e.r.RangeID(), meant{q.Key, q.Of})
	case *kv.AdminSetProtocolRequest:
		var d *kv.RangeDescriptor
		if d, err = s.SetProtocol(ctx, e.r.RangeID(), q); err == nil {
			resp = &kv.AdminSetProtocolResponse{Desc: *d}
		}
	case *kv.AdminRecallRequest:
		var body []byte
		if body, err = s.recall(ctx, e, q); err == nil {
			resp = &kv.ProtocolResponse{Body: body}
		}
	default:
		err = refused("unknown request")
	}
	if forbidden := (*ForbiddenError)(nil); errors.As(err, &forbidden) {
		err = refused(strings.TrimPrefix(forbidden.Error(), "rangeserver: "))
	}
	var changed *ChangedError
	if errors.As(err, &changed) {
		// There was a concurrent change, or an attempt whose answer was lost has made this one already: the client tries again.
		err = &kv.UnavailableError{Reason: changed.Error()}
	}
	if err != nil {
		return nil, err
	}
	return &kv.BatchResponse{Responses: []kv.Response{resp}, Now: s.o.Clock.Now()}, nil
}

// administer makes sure that this replica has the lease and that the range is not changed concurrently.
func (s *Store) administer(ctx context.Context, id kv.RangeID) (e *entry, done func(), err error) {
	if e = s.entry(id); e == nil || !e.ready.Load() {
		return nil, nil, &kv.RangeNotFoundError{Range: id}
	}
	if _, err := e.r.EnsureLease(ctx, clock.Timestamp{}); err != nil {
		return nil, nil, err
	}
	select {
	case e.admin <- struct{}{}:
		return e, func() { <-e.admin }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// meant is the range that a change is about, as whoever decided on it knew it. Nothing of it has to be known.
type meant struct {
	key keys.Key  // it is in the range
	of  keys.Span // the range's own
}

// still returns the descriptor of a range that the caller administers, if that is the range that is meant: a change waits for those before it,
// by which the range may have lost the key, got other keys, or both.
func (s *Store) still(e *entry, m meant) (*kv.RangeDescriptor, error) {
	d := e.r.Desc()
	if at := keys.Addr(m.key); len(m.key) > 0 && !d.Contains(at) {
		return nil, s.mismatch(e, keys.Span{Start: at}) // the sender asks the range that has it
	}
	if (len(m.of.Start) > 0 || len(m.of.End) > 0) && !(d.Start.Equal(m.of.Start) && d.End.Equal(m.of.Stop())) {
		return nil, refused(fmt.Sprintf("a change of %s is not made, for r%d has %s by now", m.of, d.ID, d.Span()))
	}
	return d, nil
}

func (s *Store) database() (DB, error) {
	if p := s.db.Load(); p != nil {
		return *p, nil
	}
	return nil, &kv.UnavailableError{Reason: "the node is not ready to change ranges"}
}

// TransferLease moves a range's lease to another node.
func (s *Store) TransferLease(ctx context.Context, id kv.RangeID, to kv.NodeID) error {
	return s.transferLease(ctx, id, meant{}, to)
}

func (s *Store) transferLease(ctx context.Context, id kv.RangeID, m meant, to kv.NodeID) error {
	e, done, err := s.administer(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	if _, err := s.still(e, m); err != nil {
		return err
	}
	return e.r.TransferLease(ctx, to)
}

// Split divides a range at a key; an empty key asks for halves of equal size. Splitting where a range begins already
// is no error. A split at a chosen key stays until UNSPLIT.
func (s *Store) Split(ctx context.Context, id kv.RangeID, at keys.Key) error {
	return s.split(ctx, id, meant{}, &kv.AdminSplitRequest{Key: at})
}

func (s *Store) split(ctx context.Context, id kv.RangeID, m meant, q *kv.AdminSplitRequest) error {
	at, keep := q.Key, q.Keep
	if len(at) > 0 && keep.IsZero() {
		keep = clock.MaxTimestamp
	}
	if q.Undo {
		keep = clock.Timestamp{}
	}
	e, done, err := s.administer(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	d, err := s.still(e, m)
	if err != nil {
		return err
	}
	if len(at) == 0 {
		r := mvcc.NewReader(s.o.Engine)
		span := keys.UserSpan(d.Start, d.End)
		var before keys.Key
		if at, before, err = r.FindSplitKey(span.Start, span.End, e.r.Stats().TotalBytes); err == nil && at != nil {
			at, before, err = betweenDirectories(r, at, before, span)
		}
		_ = r.Close()
		if err != nil {
			return err
		}
		if at == nil {
			return &kv.UnavailableError{Reason: "the range has no key to be split at"}
		}
		if at = s.splitPoint(before, at, d.Start); at == nil {
			return &kv.UnavailableError{Reason: "the range has no key to be split at"}
		}
	}
	if at.Equal(d.Start) {
		if keep == d.Keep || q.Undo && d.Keep.IsZero() {
			return nil
		}
		kept := d.Clone()
		kept.Keep = keep
		kept.Generation++
		return s.change(ctx, d, kept)
	}
	if q.Undo {
		return refused("no range begins there")
	}
	if !d.Contains(at) {
		return s.mismatch(e, keys.Span{Start: at})
	}
	_, err = s.splitAt(ctx, d, at, keep)
	return err
}

// splitAt splits a range, which the caller administers, at a key within it, and returns the left side.
func (s *Store) splitAt(ctx context.Context, d *kv.RangeDescriptor, at keys.Key, keep clock.Timestamp) (*kv.RangeDescriptor, error) {
	db, err := s.database()
	if err != nil {
		return nil, err
	}
	if at.Less(keys.MetaMax) || keys.IsLocal(at) {
		return nil, &kv.UnavailableError{Reason: "the index of ranges can't be split"}
	}
	for _, r := range d.Replicas {
		if r.Type.Joint() {
			return nil, &kv.UnavailableError{Reason: "the range's replicas are being changed"}
		}
	}
	rid, err := db.Increment(ctx, keys.RangeIDAllocatorKey(), 1)
	if err != nil {
		return nil, err
	}
	s.Metrics.SplitsRequested.Add(1)
	left, right := d.Clone(), d.Clone()
	left.End, left.Generation = at, d.Generation+1
	right.ID, right.Start, right.Generation, right.Keep = kv.RangeID(rid), at, d.Generation+1, keep
	return left, s.changeDescriptor(ctx, d, left, []*kv.RangeDescriptor{right},
		&kv.CommitTrigger{Split: &kv.SplitTrigger{Left: *left, Right: *right}})
}

// betweenDirectories moves the key at which a span is to be divided to a boundary of directories, with the key in front of it, if both sides have keys then: the rows of a directory are
// read and changed together (Spanner §2.2). A directory that is larger than that is divided where the key is.
func betweenDirectories(r *mvcc.Reader, at, before keys.Key, span keys.Span) (keys.Key, keys.Key, error) {
	if _, ok := keys.Directory(at); !ok {
		return at, before, nil
	}
	first, after := keys.Boundaries(at, span.Start, span.End)
	for _, b := range []keys.Key{first, after} {
		if b == nil {
			continue
		}
		_, left, err := r.Ends(span.Start, b)
		if err != nil {
			return nil, nil, err
		}
		right, _, err := r.Ends(b, span.End)
		if err != nil {
			return nil, nil, err
		}
		if left != nil && right != nil {
			return b, left, nil
		}
	}
	return at, before, nil
}

// splitPoint is where a range is split between two keys: rows do not share a key's prefix with each other, and a row is one key, so anything
// between the two will do. The index of ranges, which is everywhere, gets it. So where rows may not be everywhere it is the shortest key that separates the two.
func (s *Store) splitPoint(before, k, start keys.Key) keys.Key {
	if z, _ := s.zoneSpan(k); z.Bounded() && len(before) > 0 {
		k = keys.Separator(before, k)
	}
	if !start.Less(k) {
		return nil
	}
	return k
}

// changeDescriptor writes a range's new descriptor (and those of new ranges) in both places: in the range and in the index. The transaction
// is anchored in the range, so that its commit carries the trigger.
//
// The generation of a range without a log is ended first. If the change fails, another one begins.
func (s *Store) changeDescriptor(ctx context.Context, old, new *kv.RangeDescriptor, born []*kv.RangeDescriptor, t *kv.CommitTrigger) error {
	db, err := s.database()
	if err != nil {
		return err
	}
	if !protocol.Leased(old.Protocol) {
		e := s.entry(old.ID)
		if e == nil || !e.ready.Load() {
			return &kv.RangeNotFoundError{Range: old.ID}
		}
		if err := s.fold(ctx, e, old); err != nil {
			return s.afterFailed(err, e)
		}
		if err := s.writeDescriptor(ctx, db, old, new, born, t, nil); err != nil {
			return s.afterFailed(err, e)
		}
		return nil
	}
	return s.writeDescriptor(ctx, db, old, new, born, t, nil)
}

// afterFailed begins a generation of ranges that a failed change may have left without an open one. If it can't, a leaseholder's queue does
// later. It returns the failure.
func (s *Store) afterFailed(cause error, es ...*entry) error {
	// The change may have failed because its context ended; only the node's end stops this.
	ctx, cancel := s.o.Host.Clock.WithTimeout(s.group.Context(), 10*time.Second)
	defer cancel()
	for _, e := range es {
		_ = s.reopen(ctx, e)
	}
	return cause
}

// writeDescriptor is the transaction of a change. prepare, if not nil, is called when its intents are in their ranges, and its commit is left; it may be called again.
func (s *Store) writeDescriptor(ctx context.Context, db DB, old, new *kv.RangeDescriptor, born []*kv.RangeDescriptor, t *kv.CommitTrigger, prepare func(context.Context) error) error {
	use, err := s.useFor(old, new)
	if err != nil {
		return err
	}
	if use != nil {
		defer use.Release()
	}
	return db.RunInternal(ctx, "range descriptor", func(ctx context.Context, tx Tx) error {
		if use != nil {
			tx.Within(use)
		}
		key := keys.RangeDescriptorKey(old.Start)
		v, err := tx.Get(ctx, key)
		if err != nil {
			return err
		}
		if !old.StoredAs(v) {
			return &ChangedError{Range: old.ID}
		}
		if err := tx.Put(ctx, key, new.Append(nil)); err != nil {
			return err
		}
		for _, d := range born {
			if err := tx.Put(ctx, keys.RangeDescriptorKey(d.Start), d.Append(nil)); err != nil {
				return err
			}
		}
		for _, d := range append([]*kv.RangeDescriptor{new}, born...) {
			for _, k := range keys.MetaKeys(d.Start, d.End) {
				if err := tx.Put(ctx, k, d.Append(nil)); err != nil {
					return err
				}
			}
		}
		if prepare != nil {
			if _, err := tx.Lay(ctx); err != nil {
				return err
			}
			if err := prepare(ctx); err != nil {
				return err
			}
		}
		return tx.CommitWithTrigger(ctx, t)
	})
}

// ChangedError says that a range's descriptor changed while another change of it was being prepared.
type ChangedError struct{ Range kv.RangeID }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("rangeserver: r%d was changed by somebody else meanwhile", e.Range)
}

// ChangeReplicas gives a range the stated replicas. New voters catch up as learners first; then one joint
// configuration swaps the voters, so that no intermediate quorum is weaker than the first and the last.
func (s *Store) ChangeReplicas(ctx context.Context, id kv.RangeID, want []kv.ReplicaTarget) error {
	return s.changeReplicas(ctx, id, meant{}, want)
}

func (s *Store) changeReplicas(ctx context.Context, id kv.RangeID, m meant, want []kv.ReplicaTarget) error {
	e, done, err := s.administer(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	d, err := s.still(e, m)
	if err != nil {
		return err
	}
	s.Metrics.ReplicaChanges.Add(1)
	voters, full := 0, 0
	for _, w := range want {
		if w.Type == kv.Voter {
			voters++
			if !w.Witness {
				full++
			}
		}
		if w.Witness {
			if err := s.mayWitness(d, w); err != nil {
				return err
			}
		}
		if w.Node == s.o.NodeID && (w.Type != kv.Voter || w.Witness) {
			return &kv.UnavailableError{Reason: "the leaseholder's replica can't be demoted; move the lease first"}
		}
	}
	if full == 0 {
		return &kv.UnavailableError{Reason: "a range needs a voter"}
	}
	if _, keep := placement.Find(want, s.o.NodeID); !keep {
		return &kv.UnavailableError{Reason: "the leaseholder's replica can't be removed; move the lease first"}
	}
	if d, err = s.leaveJoint(ctx, e, d); err != nil { // an earlier change that was not finished
		return err
	}

	// Placement never requests less; no other caller may either (placement.P2).
	zone := s.zone(d.Start)
	if had := countVoters(d); voters < had && (full < zone.Voters() || !s.o.Settings.Known()) {
		return &kv.UnavailableError{Reason: fmt.Sprintf("%d voters may not become %d, for %d are asked for", had, voters, zone.Voters())}
	}

	// Nothing is shipped in vain.
	then := d.Clone()
	then.Replicas = then.Replicas[:0]
	for _, w := range want {
		then.Replicas = append(then.Replicas, kv.ReplicaDescriptor{Node: w.Node, Store: w.Store, Type: w.Type, Witness: w.Witness})
	}
	use, err := s.useFor(d, then)
	if err != nil {
		return err
	}
	if use != nil {
		use.Release()
	}

	// Learners first, unless there is next to nothing that they would have to catch up with.
	oneStep := s.inOneStep(ctx, e, d, want)
	var fresh, promoted []kv.ReplicaID
	for _, w := range want {
		have, ok := d.Replica(w.Node)
		if ok && have.Witness != w.Witness {
			return &kv.UnavailableError{Reason: fmt.Sprintf("the replica on n%d can't change between a full one and a witness; it is removed first", w.Node)}
		}
		if ok && (have.Type == w.Type || have.Type == kv.Learner && w.Type == kv.Voter) {
			if have.Type != w.Type {
				fresh = append(fresh, have.Replica)
			}
			continue
		}
		if ok {
			if w.Type == kv.Voter {
				promoted = append(promoted, have.Replica)
			}
			continue // promoted or demoted below
		}
		if oneStep {
			continue // added below
		}
		n := d.Clone()
		typ := kv.Learner
		if w.Type == kv.NonVoter {
			typ = kv.NonVoter
		}
		n.Replicas = append(n.Replicas, kv.ReplicaDescriptor{Node: w.Node, Store: w.Store, Replica: d.NextReplica, Type: typ, Witness: w.Witness})
		n.NextReplica++
		n.Generation++
		if err := s.change(ctx, d, n); err != nil {
			return err
		}
		fresh = append(fresh, d.NextReplica)
		d = n
	}
	for _, rid := range fresh {
		if err := s.awaitCaughtUp(ctx, e, rid); err != nil {
			return s.rollbackLearners(d, fresh, err)
		}
	}
	for _, rid := range promoted {
		if err := s.awaitCaughtUp(ctx, e, rid); err != nil {
			return s.rollbackLearners(d, fresh, err)
		}
	}

	// Then the voters, in one step.
	n := d.Clone()
	n.Replicas = n.Replicas[:0]
	steps := 0
	for _, r := range d.Replicas {
		w, ok := placement.Find(want, r.Node)
		switch {
		case ok && w.Type == kv.Voter && r.Type != kv.Voter:
			r.Type = kv.VoterIncoming
			steps++
		case !ok && r.Type == kv.Voter:
			r.Type = kv.VoterOutgoing
			steps++
		case ok && w.Type == kv.NonVoter && r.Type == kv.Voter:
			r.Type = kv.VoterDemoting
			steps++
		case ok && w.Type == kv.NonVoter && r.Type == kv.Learner:
			r.Type = kv.NonVoter
			steps++
		case !ok:
			steps++
			continue // a learner or non-voter is just removed
		}
		n.Replicas = append(n.Replicas, r)
	}
	var arriving []kv.ReplicaID
	for _, w := range want {
		if _, had := d.Replica(w.Node); had || !oneStep {
			continue
		}
		typ := kv.VoterIncoming
		if w.Type == kv.NonVoter {
			typ = kv.NonVoter
		}
		n.Replicas = append(n.Replicas, kv.ReplicaDescriptor{Node: w.Node, Store: w.Store, Replica: n.NextReplica, Type: typ, Witness: w.Witness})
		arriving = append(arriving, n.NextReplica)
		n.NextReplica++
		steps++
	}
	if steps == 0 {
		return nil
	}
	if !oneStep {
		if err := s.awaitBacked(ctx, e, d, want, false); err != nil {
			return s.rollbackLearners(d, fresh, err)
		}
	}
	if steps > 1 && !slices.ContainsFunc(n.Replicas, func(r kv.ReplicaDescriptor) bool { return r.Type.Joint() }) {
		return s.oneByOne(ctx, d, n)
	}
	n.Generation++
	if steps == 1 {
		n = settled(n)
	}
	if err := s.change(ctx, d, n); err != nil {
		return err
	}
	for _, rid := range arriving {
		if err := s.awaitCaughtUp(ctx, e, rid); err != nil {
			break // there is no way back: if the others are a majority, the range goes on with them
		}
	}
	_, err = s.leaveJoint(ctx, e, n)
	return err
}

const (
	// oneStepBytes is the size up to which a range gets its voters without their being learners first.
	oneStepBytes = 64 << 10
	// presentWait is how long the nodes of new voters have to answer for that.
	presentWait = 500 * time.Millisecond
	// methodPresent asks a store whether it is there.
	methodPresent = "range.present"
)

// inOneStep reports whether a change adds its voters at once, in the joint configuration by which the others leave: the range is small, so they have its state a moment
// later, and statements wait for the places of ranges that are empty. Until then the majority of the later configuration lacks them, so each has to be there: its node
// has answered just now. As long as the configuration is a joint one, the majority of the earlier one has what a witness that comes begins after; leaveJoint waits until
// enough others have it. Those that stay have it now, or it is not done so: a witness is not replaced while it is needed.
func (s *Store) inOneStep(ctx context.Context, e *entry, d *kv.RangeDescriptor, want []kv.ReplicaTarget) bool {
	if !protocol.Leased(d.Protocol) || s.o.Network == nil || e.r.Stats().TotalBytes > oneStepBytes {
		return false
	}
	if slices.ContainsFunc(want, func(w kv.ReplicaTarget) bool { return w.Witness }) && !s.allThere(ctx, e, d, want) {
		return false // the long way can be given up (awaitBacked); leaving a joint configuration can't
	}
	var fresh []kv.NodeID
	voters := 0
	for _, w := range want {
		if _, had := d.Replica(w.Node); !had {
			if fresh = append(fresh, w.Node); w.Type == kv.Voter {
				voters++
			}
		}
	}
	if voters == 0 || !slices.ContainsFunc(d.Replicas, func(r kv.ReplicaDescriptor) bool {
		w, stays := placement.Find(want, r.Node)
		return r.Type == kv.Voter && (!stays || w.Type != kv.Voter)
	}) {
		return false // no joint configuration is needed
	}
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, presentWait)
	defer cancel()
	answers := make(chan error, len(fresh))
	for _, to := range fresh {
		if !s.group.Go(func(context.Context) {
			_, err := s.o.Network.CallClass(ctx, transport.ClassSystem, to, methodPresent, nil)
			answers <- err
		}) {
			return false
		}
	}
	for range fresh {
		select {
		case err := <-answers:
			if err != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// allThere reports whether the replicas with data that are to vote, as far as they are there, have all that is committed, or soon do.
func (s *Store) allThere(ctx context.Context, e *entry, d *kv.RangeDescriptor, want []kv.ReplicaTarget) bool {
	clk, commit := s.o.Clock.Physical(), uint64(0)
	for start := clk.Monotonic(); clk.Monotonic()-start < presentWait; {
		st := e.r.Status()
		if st.Leader && commit == 0 {
			commit = st.Commit
		}
		if st.Leader && !slices.ContainsFunc(want, func(w kv.ReplicaTarget) bool {
			p, ok := d.Replica(w.Node)
			return ok && w.Type == kv.Voter && !w.Witness && w.Node != s.o.NodeID &&
				!slices.ContainsFunc(st.Followers, func(f replica.Follower) bool { return f.Replica == p.Replica && f.Active && f.Match >= commit })
		}) {
			return true
		}
		if clk.Sleep(ctx, 20*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

func (s *Store) servePresent(context.Context, kv.NodeID, []byte) ([]byte, error) { return nil, nil }

// mayWitness refuses a witness where there can't be one.
func (s *Store) mayWitness(d *kv.RangeDescriptor, w kv.ReplicaTarget) error {
	switch {
	case w.Type != kv.Voter:
		return refused("a witness is a voter")
	case !protocol.Of(d.Protocol).Witnesses.Can():
		return refused("a range of a commit protocol without a log has no witness")
	case d.Start.Less(keys.TablePrefix):
		return refused("the ranges of the system have no witness")
	case !s.o.Version.Active(version.Witnesses):
		return &kv.UnavailableError{Reason: "there is no witness before the upgrade of the cluster is finalized"}
	}
	return nil
}

// countVoters counts the voters of a range, of the later configuration if it is a joint one.
func countVoters(d *kv.RangeDescriptor) (n int) {
	for _, r := range d.Replicas {
		if r.Type == kv.Voter || r.Type == kv.VoterIncoming {
			n++
		}
	}
	return n
}

// oneByOne removes or changes replicas that are not voters: several at once would take a joint configuration, for which
// there is no reason.
func (s *Store) oneByOne(ctx context.Context, d, to *kv.RangeDescriptor) error {
	for _, old := range d.Replicas {
		i := slices.IndexFunc(to.Replicas, func(r kv.ReplicaDescriptor) bool { return r.Replica == old.Replica })
		if i >= 0 && to.Replicas[i].Type == old.Type {
			continue
		}
		n := d.Clone()
		at := slices.IndexFunc(n.Replicas, func(r kv.ReplicaDescriptor) bool { return r.Replica == old.Replica })
		if i < 0 {
			n.Replicas = slices.Delete(n.Replicas, at, at+1)
		} else {
			n.Replicas[at].Type = to.Replicas[i].Type
		}
		n.Generation++
		if err := s.change(ctx, d, n); err != nil {
			return err
		}
		d = n
	}
	return nil
}

// leaveJoint ends a joint configuration.
func (s *Store) leaveJoint(ctx context.Context, e *entry, d *kv.RangeDescriptor) (*kv.RangeDescriptor, error) {
	for _, r := range d.Replicas {
		if r.Type.Joint() {
			n := settled(d)
			n.Generation++
			var to []kv.ReplicaTarget
			for _, r := range n.Replicas {
				to = append(to, kv.ReplicaTarget{Node: r.Node, Store: r.Store, Type: r.Type, Witness: r.Witness})
			}
			if err := s.awaitBacked(ctx, e, d, to, true); err != nil {
				return d, err
			}
			return n, s.change(ctx, d, n)
		}
	}
	return d, nil
}

// settled is the target of a joint descriptor.
func settled(d *kv.RangeDescriptor) *kv.RangeDescriptor {
	n := d.Clone()
	n.Replicas = n.Replicas[:0]
	for _, r := range d.Replicas {
		switch r.Type {
		case kv.VoterIncoming:
			r.Type = kv.Voter
		case kv.VoterOutgoing:
			continue
		case kv.VoterDemoting:
			r.Type = kv.NonVoter
		}
		n.Replicas = append(n.Replicas, r)
	}
	return n
}

// backedPatience is how long awaitBacked waits for followers that are about to have the log.
const backedPatience = 10 * time.Second

func (s *Store) change(ctx context.Context, from, to *kv.RangeDescriptor) error {
	return s.changeDescriptor(ctx, from, to, nil, &kv.CommitTrigger{Replicas: &kv.ReplicasTrigger{Desc: *to}})
}

// awaitCaughtUp waits until a new replica has the log, by way of a raft snapshot.
func (s *Store) awaitCaughtUp(ctx context.Context, e *entry, id kv.ReplicaID) error {
	patience := shippingTime(e.r.Stats().TotalBytes)
	clk := s.o.Clock.Physical()
	for start := clk.Monotonic(); clk.Monotonic()-start < patience; {
		st := e.r.Status()
		if !st.Leader {
			if _, err := e.r.EnsureLease(ctx, clock.Timestamp{}); err != nil {
				return err
			}
		}
		for _, f := range st.Followers {
			if f.Replica == id && f.CaughtUp {
				return nil
			}
		}
		if err := clk.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return &kv.UnavailableError{Reason: fmt.Sprintf("replica %d does not catch up", id)}
}

// awaitBacked waits, before the voters of a range with a witness are others alone, until full ones that are a quorum of the voters to be have all that is committed
// now: nobody else could get it from a new witness, which has it neither in its log nor as data (replica.R12). There is no way back from a joint configuration: it is
// left in the end without those voters whose nodes are away, since it would otherwise last until they are back, with all changes of the range behind it.
func (s *Store) awaitBacked(ctx context.Context, e *entry, d *kv.RangeDescriptor, want []kv.ReplicaTarget, leaving bool) error {
	if !slices.ContainsFunc(want, func(w kv.ReplicaTarget) bool { return w.Witness }) {
		return nil
	}
	clk, commit, voters, have, away := s.o.Clock.Physical(), uint64(0), 0, 0, 0
	for start := clk.Monotonic(); clk.Monotonic()-start < backedPatience; {
		st := e.r.Status()
		if !st.Leader {
			if _, err := e.r.EnsureLease(ctx, clock.Timestamp{}); err != nil {
				return err
			}
		} else {
			if commit == 0 {
				commit = st.Commit
			}
			voters, have, away = 0, 0, 0
			for _, w := range want {
				if w.Type != kv.Voter {
					continue
				}
				voters++
				p, ok := d.Replica(w.Node)
				if !ok || w.Witness {
					continue
				}
				at := slices.IndexFunc(st.Followers, func(f replica.Follower) bool { return f.Replica == p.Replica })
				switch {
				case w.Node == s.o.NodeID && st.Applied >= commit, at >= 0 && st.Followers[at].Match >= commit:
					have++
				case at >= 0 && !st.Followers[at].Active:
					away++
				}
			}
			if have > voters/2 {
				return nil
			}
		}
		if err := clk.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	if leaving && have+away > voters/2 {
		return nil
	}
	return &kv.UnavailableError{Reason: "too few replicas with the range's data are up to date for a change of its witness"}
}

// rollbackLearners removes learners that did not catch up.
func (s *Store) rollbackLearners(d *kv.RangeDescriptor, fresh []kv.ReplicaID, cause error) error {
	// The change may have failed because its context ended; only the node's end stops the clean-up.
	ctx, cancel := s.o.Host.Clock.WithTimeout(s.group.Context(), 10*time.Second)
	defer cancel()
	for _, id := range fresh {
		n := d.Clone()
		n.Replicas = n.Replicas[:0]
		for _, r := range d.Replicas {
			if r.Replica != id || r.Type == kv.Voter {
				n.Replicas = append(n.Replicas, r)
			}
		}
		if len(n.Replicas) == len(d.Replicas) {
			continue
		}
		n.Generation++
		if err := s.change(ctx, d, n); err != nil {
			return cause
		}
		d = n
	}
	return cause
}
