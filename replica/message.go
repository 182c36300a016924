package replica

import (
	"encoding/binary"
	"errors"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"meridian/kv"
)

// Message is a raft message on its way between two replicas of one range.
type Message struct {
	Range    kv.RangeID
	From, To kv.ReplicaDescriptor
	// Quiesce, on a heartbeat, asks the follower to fall asleep if its log is as long as the leader's.
	Quiesce bool
	// TooOld answers a replica that is no longer part of the range; Raft is nil.
	TooOld bool
	Raft   *raftpb.Message
}

// ErrBadMessage is what DecodeMessage returns for bytes that Append did not write.
var ErrBadMessage = errors.New("replica: malformed raft message")

const (
	flagQuiesce = 1 << iota
	flagTooOld
	flagReject
	flagSnapshot
)

// Append adds m's bytes to b. A heartbeat takes about fifteen.
func (m *Message) Append(b []byte) []byte {
	var flags byte
	if m.Quiesce {
		flags |= flagQuiesce
	}
	if m.TooOld {
		flags |= flagTooOld
	}
	if m.Raft.GetReject() {
		flags |= flagReject
	}
	if !raft.IsEmptySnap(m.Raft.GetSnapshot()) {
		flags |= flagSnapshot
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(m.Range))
	b = appendReplica(b, m.From)
	b = appendReplica(b, m.To)
	if m.TooOld {
		return b
	}
	r := m.Raft
	b = append(b, byte(r.GetType()))
	b = binary.AppendUvarint(b, r.GetTerm())
	b = binary.AppendUvarint(b, r.GetLogTerm())
	b = binary.AppendUvarint(b, r.GetIndex())
	b = binary.AppendUvarint(b, r.GetCommit())
	b = binary.AppendUvarint(b, r.GetRejectHint())
	b = binary.AppendUvarint(b, uint64(len(r.Context)))
	b = append(b, r.Context...)
	b = binary.AppendUvarint(b, uint64(len(r.Entries)))
	for _, e := range r.Entries {
		b = binary.AppendUvarint(b, e.GetIndex())
		b = binary.AppendUvarint(b, uint64(entrySize(e)))
		b = appendEntry(b, e)
	}
	if flags&flagSnapshot != 0 {
		b = appendSnapshotMetadata(b, r.Snapshot.GetMetadata())
	}
	return b
}

// DecodeMessage reads what Append wrote and returns the rest. Entries share the input's memory.
func DecodeMessage(in []byte) (m Message, rest []byte, err error) {
	d := decoder{b: in}
	flags := d.octet()
	m.Quiesce, m.TooOld = flags&flagQuiesce != 0, flags&flagTooOld != 0
	m.Range = kv.RangeID(d.uvarint())
	m.From, m.To = d.replica(), d.replica()
	if m.TooOld {
		return m, d.b, d.err
	}
	typ := raftpb.MessageType(d.octet())
	if typ > raftpb.MsgForgetLeader || raft.IsLocalMsg(typ) && typ != raftpb.MsgTransferLeader {
		d.fail()
	}
	r := &raftpb.Message{
		Type: &typ, To: new(uint64(m.To.Replica)), From: new(uint64(m.From.Replica)),
		Term: new(d.uvarint()), LogTerm: new(d.uvarint()), Index: new(d.uvarint()), Commit: new(d.uvarint()),
		RejectHint: new(d.uvarint()), Context: d.bytes(),
	}
	if flags&flagReject != 0 {
		r.Reject = new(true)
	}
	n := d.uvarint()
	if n > uint64(len(d.b))/2 {
		d.fail()
	}
	if n > 0 && d.err == nil {
		r.Entries = make([]*raftpb.Entry, n)
		for i := range r.Entries {
			index := d.uvarint()
			e, err := decodeEntry(index, d.bytes())
			if err != nil {
				d.fail()
			}
			r.Entries[i] = e
		}
	}
	if flags&flagSnapshot != 0 {
		r.Snapshot = &raftpb.Snapshot{Metadata: d.snapshotMetadata()}
		if d.err == nil && raft.IsEmptySnap(r.Snapshot) {
			d.fail() // Append does not write one
		}
	}
	if d.err != nil {
		return Message{}, nil, d.err
	}
	m.Raft = r
	return m, d.b, nil
}

func appendReplica(b []byte, r kv.ReplicaDescriptor) []byte {
	b = binary.AppendUvarint(b, uint64(r.Node))
	b = binary.AppendUvarint(b, uint64(r.Store))
	return binary.AppendUvarint(b, uint64(r.Replica))
}

// A log entry as stored and as sent: type, term, data. Its index is its key.
func entrySize(e *raftpb.Entry) int { return 9 + len(e.Data) }

func appendEntry(b []byte, e *raftpb.Entry) []byte {
	b = append(b, byte(e.GetType()))
	b = binary.LittleEndian.AppendUint64(b, e.GetTerm())
	return append(b, e.Data...)
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

func decodeEntry(index uint64, b []byte) (*raftpb.Entry, error) {
	if len(b) < 9 || b[0] > byte(raftpb.EntryConfChangeV2) {
		return nil, ErrBadMessage
	}
	data := b[9:]
	if len(data) == 0 {
		data = nil
	}
	return newEntry(raftpb.EntryType(b[0]), binary.LittleEndian.Uint64(b[1:]), index, data), nil
}

func appendSnapshotMetadata(b []byte, s *raftpb.SnapshotMetadata) []byte {
	b = binary.AppendUvarint(b, s.GetIndex())
	b = binary.AppendUvarint(b, s.GetTerm())
	cs := s.GetConfState()
	for _, ids := range [][]uint64{cs.GetVoters(), cs.GetVotersOutgoing(), cs.GetLearners(), cs.GetLearnersNext()} {
		b = binary.AppendUvarint(b, uint64(len(ids)))
		for _, id := range ids {
			b = binary.AppendUvarint(b, id)
		}
	}
	if cs.GetAutoLeave() {
		return append(b, 1)
	}
	return append(b, 0)
}

// decoder reads the primitive forms; after the first failure it yields zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = ErrBadMessage
	}
	d.b = nil
}

func (d *decoder) octet() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	if n == 0 {
		return nil
	}
	return v
}

func (d *decoder) replica() kv.ReplicaDescriptor {
	return kv.ReplicaDescriptor{Node: kv.NodeID(d.uvarint()), Store: kv.StoreID(d.uvarint()),
		Replica: kv.ReplicaID(d.uvarint())}
}

func (d *decoder) snapshotMetadata() *raftpb.SnapshotMetadata {
	s := &raftpb.SnapshotMetadata{Index: new(d.uvarint()), Term: new(d.uvarint())}
	ids := func() []uint64 {
		n := d.uvarint()
		if n > uint64(len(d.b)) {
			d.fail()
			return nil
		}
		var v []uint64
		for range n {
			v = append(v, d.uvarint())
		}
		return v
	}
	s.ConfState = &raftpb.ConfState{Voters: ids(), VotersOutgoing: ids(), Learners: ids(), LearnersNext: ids()}
	s.ConfState.AutoLeave = new(d.octet() == 1)
	return s
}
