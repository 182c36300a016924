package replica

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/wire"
)

// snapshotChunkBytes is about how much of a raft snapshot travels in one frame.
const snapshotChunkBytes = 256 << 10

// OutgoingSnapshot is a raft snapshot to be shipped: the range's data at one applied index.
type OutgoingSnapshot struct {
	Message Message
	desc    *kv.RangeDescriptor
	at      *engine.Snapshot
	bytes   int64
	witness bool // is to get it
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
	d := r.desc.Load()
	to.Witness = witnessIn(d, to.Replica)
	bytes := r.Stats().TotalBytes
	switch {
	case to.Witness:
		bytes = 0
	case r.isWitness():
		r.unsendable(to.Replica)
		return
	}
	m.Snapshot = r.snapshotMetadata() // of the pinned state, which may be later than the one that raft requested
	r.sending[to.Replica] = true
	r.o.Store.SendSnapshot(r, &OutgoingSnapshot{
		Message: Message{Range: r.rangeID, From: r.Self(), To: to, Raft: m},
		desc:    d, at: r.o.Engine.NewSnapshot(), bytes: bytes, witness: to.Witness,
	})
}

// witnessIn reports whether a replica is a witness by a descriptor.
func witnessIn(d *kv.RangeDescriptor, id kv.ReplicaID) bool {
	return slices.ContainsFunc(d.Replicas, func(p kv.ReplicaDescriptor) bool { return p.Replica == id && p.Witness })
}

// SnapshotSent tells raft the end of SendSnapshot.
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
	if err := send(wire.Append(nil, &snapshotHead{*s.desc, s.Message}, (*snapshotHead).fields)); err != nil {
		return err
	}
	buf := make([]byte, 0, snapshotChunkBytes+4096)
	spans := keys.RangeSpans(s.desc.ID, s.desc.Start, s.desc.End)
	if s.witness {
		spans = spans[:1]
	}
	for _, span := range spans {
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
			buf = wire.Element(wire.Element(buf, chunkKey, k), chunkValue, v)
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

// Close releases the pinned data.
func (s *OutgoingSnapshot) Close() { _ = s.at.Close() }

// IncomingSnapshot is a raft snapshot being received. A small one is collected in memory and applied as an engine batch, a larger one is
// written to files as it arrives, which the store then ingests.
type IncomingSnapshot struct {
	Message Message
	Desc    *kv.RangeDescriptor
	// absorbed are replicas of ranges that this one has absorbed, in key order: the same change removes them.
	absorbed []*Replica
	engine   *engine.Engine
	spans    []keys.Span
	witness  bool // gets it: of its data there are range-ID local keys only
	chunks   [][]byte
	bytes    int64             // of chunks
	files    *engine.Ingestion // instead of chunks
	staged   bool
}

// ErrOverlap refuses a raft snapshot for the time being (rangeserver.RS1).
var ErrOverlap = errors.New("replica: the raft snapshot overlaps another replica, which has a split or merge to apply")

// NewIncomingSnapshot reads the first frame.
func NewIncomingSnapshot(e *engine.Engine, head []byte) (*IncomingSnapshot, error) {
	h, err := wire.Decoded(bytes.Clone(head), (*snapshotHead).fields)
	if err != nil {
		return nil, err
	}
	desc, m := h.desc, h.message
	if m.Raft == nil || m.Raft.GetType() != raftpb.MsgSnap || raft.IsEmptySnap(m.Raft.GetSnapshot()) {
		return nil, ErrBadMessage
	}
	return &IncomingSnapshot{Message: m, Desc: &desc, engine: e, spans: keys.RangeSpans(desc.ID, desc.Start, desc.End),
		witness: witnessIn(&desc, m.To.Replica)}, nil
}

// Add takes a further frame, which is the snapshot's from then on.
func (s *IncomingSnapshot) Add(chunk []byte) error {
	if s.files != nil {
		return eachEntry(chunk, s.files.PutRaw)
	}
	if err := eachEntry(chunk, s.check); err != nil {
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

// check refuses users' data for a witness.
func (s *IncomingSnapshot) check(raw, _ []byte) error {
	if s.witness && !ofWitness(raw) {
		return ErrBadMessage
	}
	return nil
}

// eachEntry calls f with the entries of a frame.
func eachEntry(chunk []byte, f func(k, v []byte) error) error {
	x := snapshotChunk{each: f}
	if err := wire.Decode(chunk, &x, (*snapshotChunk).fields); x.err == nil {
		return err
	}
	return x.err
}

// snapshotChunk has keys, each with its value after it.
type snapshotChunk struct {
	key  []byte // whose value has not come
	each func(k, v []byte) error
	err  error
}

func (x *snapshotChunk) fields(c *wire.Coder) {
	c.Message("replica.SnapshotChunk", wire.Refuses)
	for n := c.At(); n == chunkKey || n == chunkValue; n = c.At() {
		if (n == chunkKey) != (x.key == nil) {
			c.Malformed()
			return
		}
		if n == chunkKey {
			if c.Bytes(n, &x.key); len(x.key) == 0 {
				c.Malformed()
			}
			continue
		}
		var v []byte
		if c.Bytes(n, &v); v != nil && x.err == nil {
			x.err = x.each(x.key, v)
		}
		x.key = nil
	}
	if c.Complete() && x.key != nil {
		c.Malformed()
	}
}

const (
	chunkKey   = 1
	chunkValue = 3
)

// snapshotHead is the first frame of a raft snapshot.
type snapshotHead struct {
	desc    kv.RangeDescriptor
	message Message
}

func (h *snapshotHead) fields(c *wire.Coder) {
	c.Message("replica.SnapshotHead", wire.Skips)
	wire.One(c, 1, &h.desc, (*kv.RangeDescriptor).Fields)
	if c.At() == 3 {
		h.message.Raft = nil // of two, the later counts
	}
	wire.One(c, 3, &h.message, (*Message).Fields)
	if c.Complete() && h.message.Raft == nil {
		c.Malformed()
	}
}

// Close drops a snapshot that was not applied.
func (s *IncomingSnapshot) Close() {
	if s.files != nil {
		_ = s.files.Close()
	}
	s.chunks = nil
}

// ApplySnapshot replaces the replica's data, unless its log has gone further meanwhile. It returns when the new state
// is durable. Files are ingested while the replica is held, which takes some syncs; their data is on the disk already.
func (r *Replica) ApplySnapshot(s *IncomingSnapshot) error {
	defer s.Close()
	if s.files != nil {
		if err := s.files.Finish(); err != nil { // the disk is full, for example
			return err
		}
		if err := r.o.Engine.Sync(); err != nil { // leaves less work for the one that is made with the replica held
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
	// Replicas that are held can neither split nor be absorbed: so any other replica in the snapshot's span was there before the last of
	// them was held.
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

// stageSnapshot returns the change that replaces the replica's data: a batch, and files if they are not nil.
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
			_ = eachEntry(c, func(k, v []byte) error { b.PutRaw(k, v); return nil }) // Add has checked them
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
				b.ClearSpan(span) // keys that the range absorbed and lost again
			}
		}
	}
	r.dropDeltas(b, in.Desc)
	r.raftLog.reset(b, position{m.GetMetadata().GetIndex(), m.GetMetadata().GetTerm()})
	b.Put(keys.ReplicaIDKey(r.rangeID), replicaID(r.Self()))
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
