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

// Append adds m's bytes to b.
func (m *Message) Append(b []byte) []byte { return wire.Append(b, m, (*Message).Fields) }

// Fields declares the message. A heartbeat takes about twenty bytes: many ranges send one, so addresses have numbers of one byte, though
// no reader may ignore them. Entries share the input's memory.
func (m *Message) Fields(c *wire.Coder) {
	c.Message("replica.Message", wire.Skips)
	wire.Uint64(c, 1, &m.Range)
	wire.Uint32(c, 2, &m.From.Node)
	wire.Uint32(c, 4, &m.From.Store)
	wire.Uint64(c, 6, &m.From.Replica)
	wire.Uint32(c, 8, &m.To.Node)
	wire.Uint32(c, 10, &m.To.Store)
	wire.Uint64(c, 12, &m.To.Replica)
	c.Bool(17, &m.TooOld)
	if !c.Writing() || !m.TooOld {
		c.Bytes(19, &m.Body)
	}
	if !c.Writing() || !m.TooOld && m.Body != nil {
		wire.Uint64(c, 21, &m.Generation)
	}
	if c.Writing() && (m.TooOld || m.Body != nil) {
		return
	}
	r := m.Raft
	if r == nil {
		if r = newMessage(); !c.Writing() {
			m.Raft = r
		}
	}
	typ := uint8(r.GetType())
	if wire.Enum(c, 3, &typ, uint8(raftpb.MsgForgetLeader)); !c.Writing() {
		*r.Type = raftpb.MessageType(typ)
	}
	number(c, 5, r.Term)
	number(c, 7, r.Index)
	number(c, 9, r.LogTerm)
	number(c, 11, r.Commit)
	wire.Large(c, 13, &r.Entries, sent, func(e **raftpb.Entry) int { return 12 + len((*e).Data) })
	c.Bool(15, &m.Quiesce)
	if r.Reject != nil {
		c.Bool(23, r.Reject)
	}
	number(c, 25, r.RejectHint)
	if !c.Writing() || len(r.Context) > 0 {
		c.Bytes(27, &r.Context)
	}
	if !c.Writing() || !raft.IsEmptySnap(r.GetSnapshot()) {
		wire.Opt(c, 29, &r.Snapshot, snapshot)
	}
	if c.Complete() {
		m.complete(c)
	}
}

// complete checks a message that was read, and leaves out what it does not have.
func (m *Message) complete(c *wire.Coder) {
	r := m.Raft
	switch {
	case m.TooOld || m.Body != nil:
		m.Raft = nil
		return
	case raft.IsLocalMsg(r.GetType()) && r.GetType() != raftpb.MsgTransferLeader,
		r.Snapshot != nil && raft.IsEmptySnap(r.Snapshot): // a writer leaves it out
		m.Raft = nil
		c.Malformed()
		return
	}
	*r.From, *r.To = uint64(m.From.Replica), uint64(m.To.Replica)
	if !*r.Reject {
		r.Reject = nil
	}
}

// newMessage gives the numbers of a message, of which raft has pointers, one allocation.
func newMessage() *raftpb.Message {
	p := &struct {
		raftpb.Message
		typ                                          raftpb.MessageType
		from, to, term, logTerm, index, commit, hint uint64
		reject                                       bool
	}{}
	r := &p.Message
	r.Type, r.From, r.To, r.Term, r.LogTerm, r.Index, r.Commit = &p.typ, &p.from, &p.to, &p.term, &p.logTerm, &p.index, &p.commit
	r.RejectHint, r.Reject = &p.hint, &p.reject
	return r
}

// number is an integer that raft has a pointer of.
func number(c *wire.Coder, n uint32, v *uint64) {
	if v != nil {
		wire.Uint64(c, n, v)
	}
}

// DecodeMessage reads a message that is alone.
func DecodeMessage(b []byte) (m Message, err error) {
	if err = wire.Decode(b, &m, (*Message).Fields); err != nil {
		return Message{}, err
	}
	return m, nil
}

// entrySize is about what a log entry takes.
func entrySize(e *raftpb.Entry) int { return 9 + len(e.Data) }

// sent is an entry as it is sent.
func sent(e **raftpb.Entry, c *wire.Coder) {
	if *e == nil {
		*e = newEntry(0, 0, 0, nil)
	}
	c.Message("replica.Entry", wire.Refuses)
	number(c, 1, (*e).Index)
	stored(*e, c)
}

// stored is an entry as it is stored, without its index, which is its key. All of it must be understood: replicas would diverge.
func stored(e *raftpb.Entry, c *wire.Coder) {
	c.Message("replica.Entry", wire.Refuses)
	typ := uint8(e.GetType())
	if wire.Enum(c, 3, &typ, uint8(raftpb.EntryConfChangeV2)); !c.Writing() {
		*e.Type = raftpb.EntryType(typ)
	}
	number(c, 5, e.Term)
	if !c.Writing() || len(e.Data) > 0 {
		c.Bytes(7, &e.Data)
	}
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
	e := newEntry(0, 0, index, nil)
	return e, wire.Decode(b, &e, sent)
}

// snapshot is what a message has of a raft snapshot, whose data follow apart from it.
func snapshot(s *raftpb.Snapshot, c *wire.Coder) {
	c.Message("replica.SnapshotMetadata", wire.Refuses)
	if !c.Writing() && s.Metadata == nil {
		s.Metadata = &raftpb.SnapshotMetadata{Index: new(uint64), Term: new(uint64), ConfState: &raftpb.ConfState{AutoLeave: new(bool)}}
	}
	m := s.Metadata
	number(c, 1, m.Index)
	number(c, 3, m.Term)
	if l := m.ConfState; l != nil {
		c.Packed(5, &l.Voters)
		c.Packed(7, &l.VotersOutgoing)
		c.Packed(9, &l.Learners)
		c.Packed(11, &l.LearnersNext)
		if l.AutoLeave != nil {
			c.Bool(13, l.AutoLeave)
		}
	}
}

// replicaID is a store's record of its replica of a range.
func replicaID(p kv.ReplicaDescriptor) []byte {
	return wire.Append(nil, &p, (*kv.ReplicaDescriptor).Fields)
}
