package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// snapshotChunkBytes is about how much of a raft snapshot travels in one frame.
const snapshotChunkBytes = 256 << 10

// OutgoingSnapshot is a raft snapshot to be shipped: the range's data at one applied index.
type OutgoingSnapshot struct {
	Message Message
	desc    *kv.RangeDescriptor
	at      *engine.Snapshot
	bytes   int64
}

// snapshotMetadata describes the applied state.
func (r *Replica) snapshotMetadata() *raftpb.Snapshot {
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(r.applied.index), Term: new(r.applied.term), ConfState: confState(r.desc.Load()),
	}}
}

// startSnapshot pins the range's data and has it shipped.
func (r *Replica) startSnapshot(m *raftpb.Message, to kv.ReplicaDescriptor) {
	if r.sending[to.Replica] {
		return
	}
	m.Snapshot = r.snapshotMetadata() // what is pinned now, which may be later than what raft asked for
	r.sending[to.Replica] = true
	r.o.Store.SendSnapshot(r, &OutgoingSnapshot{
		Message: Message{Range: r.rangeID, From: r.Self(), To: to, Raft: m},
		desc:    r.desc.Load(), at: r.o.Engine.NewSnapshot(), bytes: r.Stats().TotalBytes,
	})
}

// SnapshotSent ends what SendSnapshot began.
func (r *Replica) SnapshotSent(to kv.ReplicaID, err error) {
	r.hold()
	defer r.release()
	delete(r.sending, to)
	if r.gone.Load() {
		return
	}
	status := raft.SnapshotFinish
	if err != nil {
		status = raft.SnapshotFailure
	} else {
		r.o.Metrics.SnapshotsSent.Add(1)
	}
	r.raft.ReportSnapshot(uint64(to), status)
	r.process(false)
}

// Write streams the snapshot: the message and the descriptor first, then the data in pieces.
func (s *OutgoingSnapshot) Write(send func([]byte) error) error {
	head := s.desc.Append(nil)
	if err := send(s.Message.Append(head)); err != nil {
		return err
	}
	buf := make([]byte, 0, snapshotChunkBytes+4096)
	for _, span := range keys.RangeSpans(s.desc.ID, s.desc.Start, s.desc.End) {
		it, err := s.at.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.Stop()})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				_ = it.Close()
				return err
			}
			k := it.RawKey()
			buf = binary.AppendUvarint(buf, uint64(len(k)))
			buf = append(buf, k...)
			buf = binary.AppendUvarint(buf, uint64(len(v)))
			buf = append(buf, v...)
			if len(buf) >= snapshotChunkBytes {
				if err := send(buf); err != nil {
					_ = it.Close()
					return err
				}
				buf = make([]byte, 0, snapshotChunkBytes+4096)
			}
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	if len(buf) > 0 {
		return send(buf)
	}
	return nil
}

// Bytes is about how large the snapshot is.
func (s *OutgoingSnapshot) Bytes() int64 { return s.bytes }

// Close lets go of the pinned data.
func (s *OutgoingSnapshot) Close() { _ = s.at.Close() }

// IncomingSnapshot is a raft snapshot being received. A small one gathers in memory and is applied as an engine batch, a
// larger one goes into files as it comes in, which become part of the store.
type IncomingSnapshot struct {
	Message Message
	Desc    *kv.RangeDescriptor
	// absorbed are replicas of ranges that this one has absorbed, in key order: they go with the same change.
	absorbed []*Replica
	engine   *engine.Engine
	spans    []keys.Span
	chunks   [][]byte
	bytes    int64             // of chunks
	files    *engine.Ingestion // instead of chunks
	staged   bool
}

// ErrOverlap refuses a raft snapshot for the time being (RS1 in package rangeserver).
var ErrOverlap = errors.New("replica: the raft snapshot overlaps another replica, which has a split or merge to apply")

// NewIncomingSnapshot reads the first frame.
func NewIncomingSnapshot(e *engine.Engine, head []byte) (*IncomingSnapshot, error) {
	desc, rest, err := kv.DecodeRangeDescriptor(head)
	if err != nil {
		return nil, err
	}
	m, _, err := DecodeMessage(rest)
	if err != nil {
		return nil, err
	}
	if m.Raft == nil || m.Raft.GetType() != raftpb.MsgSnap || raft.IsEmptySnap(m.Raft.GetSnapshot()) {
		return nil, ErrBadMessage
	}
	return &IncomingSnapshot{Message: m, Desc: &desc, engine: e, spans: keys.RangeSpans(desc.ID, desc.Start, desc.End)}, nil
}

// Add takes a further frame, which is the snapshot's from then on.
func (s *IncomingSnapshot) Add(chunk []byte) error {
	if s.files != nil {
		return eachEntry(chunk, s.files.PutRaw)
	}
	if err := eachEntry(chunk, func(_, _ []byte) error { return nil }); err != nil {
		return err
	}
	s.chunks = append(s.chunks, chunk)
	if s.bytes += int64(len(chunk)); s.bytes <= s.engine.IngestAbove() {
		return nil
	}
	var err error
	if s.files, err = s.engine.NewIngestion(s.spans); err != nil {
		return err
	}
	for _, c := range s.chunks {
		if err := eachEntry(c, s.files.PutRaw); err != nil {
			return err
		}
	}
	s.chunks = nil
	return nil
}

// eachEntry calls f with the entries of a frame.
func eachEntry(chunk []byte, f func(k, v []byte) error) error {
	d := decoder{b: chunk}
	for len(d.b) > 0 {
		k, v := d.bytes(), d.bytes()
		if d.err != nil || len(k) == 0 {
			return ErrBadMessage
		}
		if err := f(k, v); err != nil {
			return err
		}
	}
	return nil
}

// Close drops a snapshot that was not applied.
func (s *IncomingSnapshot) Close() {
	if s.files != nil {
		_ = s.files.Close()
	}
	s.chunks = nil
}

// ApplySnapshot replaces the replica's data, unless its log has gone further meanwhile. It returns when the new state
// is durable. Files become part of the store while the replica is held: for some syncs, but their data is on the disk.
func (r *Replica) ApplySnapshot(s *IncomingSnapshot) error {
	defer s.Close()
	if s.files != nil {
		if err := s.files.Finish(); err != nil { // the disk is full, for example
			return err
		}
		if err := r.o.Engine.Sync(); err != nil { // leaves less to do for the one that is made with the replica held
			return err
		}
	}
	r.hold()
	if r.gone.Load() {
		r.release()
		return &kv.RangeNotFoundError{Range: r.rangeID}
	}
	if len(r.sending) > 0 || r.incoming != nil {
		r.release()
		return fmt.Errorf("replica: r%d is busy with another snapshot", r.rangeID)
	}
	absorbed, ok := r.o.Store.Absorbed(s.Desc)
	for _, x := range absorbed { // the order is from left to right, everywhere
		x.hold()
	}
	release := func() {
		for _, x := range absorbed {
			x.release()
		}
		r.release()
	}
	// Only those that are held can't split any more, or be absorbed: so whoever else has come to be in the snapshot's span
	// was there before the last of them was held.
	if again, still := r.o.Store.Absorbed(s.Desc); !ok || !still || !slices.Equal(absorbed, again) {
		release()
		return ErrOverlap
	}
	s.absorbed, r.incoming = absorbed, s
	r.receive(&s.Message)
	a := r.process(true)
	r.incoming = nil
	release()
	r.finish(a)
	return nil
}

// stageSnapshot gives what replaces the replica's data: a batch, and files if they are not nil.
func (r *Replica) stageSnapshot(m *raftpb.Snapshot) (*engine.Batch, *engine.Ingestion, error) {
	in := r.incoming
	if in == nil || in.staged || in.Message.Raft.Snapshot.GetMetadata().GetIndex() != m.GetMetadata().GetIndex() {
		return nil, nil, fmt.Errorf("replica: r%d: raft snapshot without data", r.rangeID)
	}
	in.staged = true
	b := r.o.Engine.NewBatch()
	if in.files == nil {
		for _, span := range in.spans {
			b.ClearSpan(span)
		}
		for _, c := range in.chunks {
			_ = eachEntry(c, func(k, v []byte) error { b.PutRaw(k, v); return nil }) // Add has looked at them
		}
	}
	if old := r.desc.Load(); old != nil && in.Desc.End.Less(old.End) {
		for _, span := range keys.RangeDataSpans(in.Desc.End, old.End) {
			b.ClearSpan(span) // a split that this replica missed; the right side gets a raft snapshot of its own
		}
	}
	for _, x := range in.absorbed {
		x.removing() // for good
		x.clearLocal(b, NeverAgain)
		if end := x.desc.Load().End; in.Desc.End.Less(end) {
			for _, span := range keys.RangeDataSpans(in.Desc.End, end) {
				b.ClearSpan(span) // what the range absorbed and gave away again
			}
		}
	}
	r.raftLog.reset(b, position{m.GetMetadata().GetIndex(), m.GetMetadata().GetTerm()})
	b.Put(keys.ReplicaIDKey(r.rangeID), appendReplica(nil, r.Self()))
	return b, in.files, nil
}

// snapshotApplied shows the new state.
func (r *Replica) snapshotApplied() error {
	old := r.leaseNow.Load()
	if in := r.incoming; in != nil {
		for _, x := range in.absorbed {
			r.o.Metrics.Subsumed.Add(1)
			x.bury()
		}
	}
	if err := r.loadReplicated(); err != nil {
		return err
	}
	if r.applied.index != r.raftLog.truncated.index {
		return fmt.Errorf("r%d: a raft snapshot of index %d has the data of %d", r.rangeID, r.raftLog.truncated.index, r.applied.index)
	}
	for id, p := range r.proposals {
		delete(r.proposals, id)
		r.answer(p, &kv.AmbiguousError{Reason: "a raft snapshot overtook the command"})
	}
	r.o.Metrics.SnapshotsApplied.Add(1)
	r.o.Store.SnapshotApplied(r, r.desc.Load())
	if s := r.leaseNow.Load(); s.Sequence != old.Sequence {
		r.o.Store.LeaseChanged(r, s.Lease, s.held)
	}
	return nil
}
