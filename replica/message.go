package replica

import (
	"errors"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/kv"
	"meridian/wire"
)

// Message is a raft message between two replicas of one range.
type Message struct {
	Range    kv.RangeID
	From, To kv.ReplicaDescriptor
	// Quiesce, on a heartbeat, asks the follower to quiesce if its log is as long as the leader's.
	Quiesce bool
	// TooOld answers a replica that is no longer part of the range; Raft is nil.
	TooOld bool
	Raft   *raftpb.Message
	// Body, if not nil, is a message of the range's protocol, which its participant reads; Generation is the one in which the
	// sender acts. Raft is nil.
	Body       []byte
	Generation uint64
}

// ErrBadMessage refuses a raft message or raft snapshot whose parts are valid but do not fit together.
var ErrBadMessage = errors.New("replica: malformed raft message")

// Append adds m's fields to b. A heartbeat takes about twenty bytes: many ranges send one, so addresses have numbers of one byte, though
// no reader may ignore them.
func (m *Message) Append(b []byte) []byte {
	b = wire.Uint(b, 1, uint64(m.Range))
	b = wire.Uint(b, 2, uint64(m.From.Node))
	b = wire.Uint(b, 4, uint64(m.From.Store))
	b = wire.Uint(b, 6, uint64(m.From.Replica))
	b = wire.Uint(b, 8, uint64(m.To.Node))
	b = wire.Uint(b, 10, uint64(m.To.Store))
	b = wire.Uint(b, 12, uint64(m.To.Replica))
	switch {
	case m.TooOld:
		return wire.Bool(b, 17, true)
	case m.Body != nil:
		return wire.Uint(wire.Bytes(b, 19, m.Body), 21, m.Generation)
	}
	r := m.Raft
	b = wire.Uint(b, 3, uint64(r.GetType()))
	b = wire.Uint(b, 5, r.GetTerm())
	b = wire.Uint(b, 7, r.GetIndex())
	b = wire.Uint(b, 9, r.GetLogTerm())
	b = wire.Uint(b, 11, r.GetCommit())
	for _, e := range r.Entries {
		var at int
		b, at = wire.BeginLong(b, 13, 12+len(e.Data))
		b = wire.End(appendEntry(wire.Uint(b, 1, e.GetIndex()), e), at)
	}
	b = wire.Bool(b, 15, m.Quiesce)
	b = wire.Bool(b, 23, r.GetReject())
	b = wire.Uint(b, 25, r.GetRejectHint())
	if len(r.Context) > 0 {
		b = wire.Bytes(b, 27, r.Context)
	}
	if !raft.IsEmptySnap(r.GetSnapshot()) {
		var at int
		b, at = wire.Begin(b, 29)
		b = wire.End(appendSnapshotMetadata(b, r.Snapshot.GetMetadata()), at)
	}
	return b
}

// ReadMessage decodes the bytes of Append. Entries share the input's memory.
func ReadMessage(r *wire.Reader, out *Message) {
	// One allocation for the numbers, of which raft has pointers.
	var p struct {
		typ                                raftpb.MessageType
		term, logTerm, index, commit, hint uint64
		from, to                           uint64
		reject                             bool
	}
	n := &p
	var context []byte
	var entries []*raftpb.Entry
	var snapshot *raftpb.SnapshotMetadata
	for m := r.Open("replica.Message"); r.Next(&m); {
		switch r.Field() {
		case 1:
			out.Range = kv.RangeID(r.Uint())
		case 2:
			out.From.Node = kv.NodeID(r.Uint32())
		case 3:
			n.typ = raftpb.MessageType(r.Enum(uint8(raftpb.MsgForgetLeader)))
		case 4:
			out.From.Store = kv.StoreID(r.Uint32())
		case 5:
			n.term = r.Uint()
		case 6:
			out.From.Replica = kv.ReplicaID(r.Uint())
		case 7:
			n.index = r.Uint()
		case 8:
			out.To.Node = kv.NodeID(r.Uint32())
		case 9:
			n.logTerm = r.Uint()
		case 10:
			out.To.Store = kv.StoreID(r.Uint32())
		case 11:
			n.commit = r.Uint()
		case 12:
			out.To.Replica = kv.ReplicaID(r.Uint())
		case 13:
			*wire.Grow(r, &entries) = readEntry(r, 0)
		case 15:
			out.Quiesce = r.Bool()
		case 17:
			out.TooOld = r.Bool()
		case 19:
			out.Body = r.Bytes()
		case 21:
			out.Generation = r.Uint()
		case 23:
			n.reject = r.Bool()
		case 25:
			n.hint = r.Uint()
		case 27:
			context = r.Bytes()
		case 29:
			snapshot = &raftpb.SnapshotMetadata{}
			readSnapshotMetadata(r, snapshot)
		default:
			r.Skip()
		}
	}
	if r.Err() != nil || out.TooOld || out.Body != nil {
		return
	}
	if raft.IsLocalMsg(n.typ) && n.typ != raftpb.MsgTransferLeader {
		r.Malformed()
		return
	}
	n.from, n.to = uint64(out.From.Replica), uint64(out.To.Replica)
	out.Raft = &raftpb.Message{Type: &n.typ, To: &n.to, From: &n.from, Term: &n.term, LogTerm: &n.logTerm, Index: &n.index, Commit: &n.commit,
		RejectHint: &n.hint, Context: context, Entries: entries}
	if n.reject {
		out.Raft.Reject = &n.reject
	}
	if snapshot != nil {
		out.Raft.Snapshot = &raftpb.Snapshot{Metadata: snapshot}
		if raft.IsEmptySnap(out.Raft.Snapshot) {
			r.Malformed() // Append does not write one
		}
	}
}

// DecodeMessage reads a message that is alone.
func DecodeMessage(b []byte) (m Message, err error) {
	r := wire.Read(b)
	if ReadMessage(&r, &m); r.Err() != nil {
		return Message{}, r.Err()
	}
	return m, nil
}

// entrySize is about what a log entry takes.
func entrySize(e *raftpb.Entry) int { return 9 + len(e.Data) }

// appendEntry adds an entry as it is stored. Its index is its key; when sent, it is field 1.
func appendEntry(b []byte, e *raftpb.Entry) []byte {
	b = wire.Uint(b, 3, uint64(e.GetType()))
	b = wire.Uint(b, 5, e.GetTerm())
	if len(e.Data) == 0 {
		return b
	}
	return wire.Bytes(b, 7, e.Data)
}

// entryParts gives an entry's optional numbers one allocation instead of four.
type entryParts struct {
	raftpb.Entry
	term, index uint64
	typ         raftpb.EntryType
}

func newEntry(typ raftpb.EntryType, term, index uint64, data []byte) *raftpb.Entry {
	p := &entryParts{term: term, index: index, typ: typ}
	p.Entry.Term, p.Entry.Index, p.Entry.Type, p.Entry.Data = &p.term, &p.index, &p.typ, data
	return &p.Entry
}

// readEntry reads an entry. All of it must be understood: replicas would diverge.
func readEntry(r *wire.Reader, index uint64) *raftpb.Entry {
	var typ raftpb.EntryType
	var term uint64
	var data []byte
	for m := r.Open("replica.Entry"); r.Next(&m); {
		switch r.Field() {
		case 1:
			index = r.Uint()
		case 3:
			typ = raftpb.EntryType(r.Enum(uint8(raftpb.EntryConfChangeV2)))
		case 5:
			term = r.Uint()
		case 7:
			data = r.Bytes()
		default:
			r.Refuse()
		}
	}
	return newEntry(typ, term, index, data)
}

func decodeEntry(index uint64, b []byte) (*raftpb.Entry, error) {
	r := wire.Read(b)
	e := readEntry(&r, index)
	return e, r.Err()
}

func appendSnapshotMetadata(b []byte, s *raftpb.SnapshotMetadata) []byte {
	b = wire.Uint(wire.Uint(b, 1, s.GetIndex()), 3, s.GetTerm())
	cs := s.GetConfState()
	b = wire.Packed(b, 5, cs.GetVoters())
	b = wire.Packed(b, 7, cs.GetVotersOutgoing())
	b = wire.Packed(b, 9, cs.GetLearners())
	b = wire.Packed(b, 11, cs.GetLearnersNext())
	return wire.Bool(b, 13, cs.GetAutoLeave())
}

func readSnapshotMetadata(r *wire.Reader, s *raftpb.SnapshotMetadata) {
	s.Index, s.Term = new(uint64), new(uint64)
	s.ConfState = &raftpb.ConfState{AutoLeave: new(bool)}
	for m := r.Open("replica.SnapshotMetadata"); r.Next(&m); {
		switch r.Field() {
		case 1:
			*s.Index = r.Uint()
		case 3:
			*s.Term = r.Uint()
		case 5:
			s.ConfState.Voters = r.Packed()
		case 7:
			s.ConfState.VotersOutgoing = r.Packed()
		case 9:
			s.ConfState.Learners = r.Packed()
		case 11:
			s.ConfState.LearnersNext = r.Packed()
		case 13:
			*s.ConfState.AutoLeave = r.Bool()
		default:
			r.Refuse()
		}
	}
}

// replicaID is a store's record of its replica of a range.
func replicaID(p kv.ReplicaDescriptor) []byte {
	return wire.Append(nil, &p, (*kv.ReplicaDescriptor).Fields)
}
