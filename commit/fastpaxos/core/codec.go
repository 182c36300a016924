package core

import (
	"bytes"
	"fmt"

	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// The bytes of the protocol's messages, and of what its replicas keep, are numbered fields (docs/decisions/0010-formats.md): the nodes of a cluster
// may be of two versions, and a replica reads what an earlier version of it has promised. A record, and all that is in it, has to be
// understood as a whole, since a replica writes it again and a master's decisions follow from it. Requests and replies may have more of later versions.
//
// A reader copies the bytes first: an acceptor keeps the result for longer than the bytes last.

// Nested adds a message as a field, unless it is empty.
func Nested(b []byte, field uint32, fields func([]byte) []byte) []byte {
	begun := len(b)
	b, at := wire.Begin(b, field)
	empty := len(b)
	if b = fields(b); len(b) == empty {
		return b[:begun]
	}
	return wire.End(b, at)
}

// Append adds the bytes of a ballot.
func (n *Ballot) Append(b []byte) []byte {
	return wire.Bool(wire.Fixed64(wire.Uint(b, 1, n.Round), 3, n.Master), 5, n.Fast)
}

// ReadBallot reads a ballot.
func ReadBallot(r *wire.Reader, n *Ballot) {
	for m := r.Open("fastpaxos.Ballot"); r.Next(&m); {
		switch r.Field() {
		case 1:
			n.Round = r.Uint()
		case 3:
			n.Master = r.Fixed64()
		case 5:
			n.Fast = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func (d *Delta) append(b []byte) []byte {
	return wire.Int(wire.Int(wire.Int(wire.Uint(b, 1, uint64(d.Column)), 3, d.Amount), 5, d.Min), 7, d.Max)
}

func readDelta(r *wire.Reader, d *Delta) {
	for m := r.Open("fastpaxos.Delta"); r.Next(&m); {
		switch r.Field() {
		case 1:
			d.Column = r.Uint32()
		case 3:
			d.Amount = r.Int()
		case 5:
			d.Min = r.Int()
		case 7:
			d.Max = r.Int()
		default:
			r.Refuse()
		}
	}
}

// Append adds an option's fields. A nil value, which deletes, is told from an empty one by the field being there: rows are never empty.
func (o *Option) Append(b []byte) []byte {
	b = wire.Timestamp(wire.ID(b, 1, o.Txn), 3, o.At)
	b = wire.Fixed64(wire.Timestamp(b, 5, o.Seen.Base), 7, o.Seen.Sum)
	for i := range o.Deltas {
		var at int
		b, at = wire.Begin(b, 9)
		b = wire.End(o.Deltas[i].append(b), at)
	}
	b = wire.Bytes(b, 11, o.Value)
	for _, k := range o.Keys {
		b = wire.Element(b, 13, k)
	}
	return wire.Bool(wire.Bytes(b, 15, o.Anchor), 17, o.Guard)
}

// ReadOption reads an option.
func ReadOption(r *wire.Reader, o *Option) {
	for m := r.Open("fastpaxos.Option"); r.Next(&m); {
		switch r.Field() {
		case 1:
			o.Txn = r.ID()
		case 3:
			o.At = r.Timestamp()
		case 5:
			o.Seen.Base = r.Timestamp()
		case 7:
			o.Seen.Sum = r.Fixed64()
		case 9:
			readDelta(r, wire.Grow(r, &o.Deltas))
		case 11:
			o.Value = r.Bytes()
		case 13:
			*wire.Grow(r, &o.Keys) = keys.Key(r.Bytes())
		case 15:
			o.Anchor = keys.Key(r.Bytes())
		case 17:
			o.Guard = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func (a *Addition) append(b []byte) []byte {
	b = Nested(b, 1, a.Option.Append)
	return wire.Bool(wire.Bool(b, 3, a.Started), 5, a.Fixed)
}

func readAddition(r *wire.Reader, a *Addition) {
	for m := r.Open("fastpaxos.Addition"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadOption(r, &a.Option)
		case 3:
			a.Started = r.Bool()
		case 5:
			a.Fixed = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func (v *Vote) append(b []byte) []byte {
	b = Nested(b, 1, v.Option.Append)
	return wire.Bool(wire.Uint(b, 3, uint64(v.Verdict)), 5, v.Fixed)
}

func readVote(r *wire.Reader, v *Vote) {
	for m := r.Open("fastpaxos.Vote"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadOption(r, &v.Option)
		case 3:
			v.Verdict = Verdict(r.Enum(uint8(Past)))
		case 5:
			v.Fixed = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func (e *Ended) append(b []byte) []byte {
	b = wire.Bool(wire.Timestamp(wire.ID(b, 1, e.Txn), 3, e.At), 5, e.Committed)
	for _, k := range e.Keys {
		b = wire.Element(b, 7, k)
	}
	return b
}

func readEnded(r *wire.Reader, e *Ended) {
	for m := r.Open("fastpaxos.Ended"); r.Next(&m); {
		switch r.Field() {
		case 1:
			e.Txn = r.ID()
		case 3:
			e.At = r.Timestamp()
		case 5:
			e.Committed = r.Bool()
		case 7:
			*wire.Grow(r, &e.Keys) = keys.Key(r.Bytes())
		default:
			r.Refuse()
		}
	}
}

// Append adds the record's fields to b.
func (r *Record) Append(b []byte) []byte {
	b = Nested(b, 1, r.Promised.Append)
	b = Nested(b, 3, r.Accepted.Append)
	b = wire.Uint(b, 5, r.Sequence)
	b = wire.Bytes(wire.Timestamp(b, 7, r.Base.At), 9, r.Base.Data)
	b = wire.Timestamp(wire.Timestamp(b, 11, r.Closed), 13, r.Floor)
	b = Nested(b, 21, r.Mark.append)
	each := func(field uint32, n int, one func(int, []byte) []byte) {
		for i := range n {
			var at int
			b, at = wire.Begin(b, field)
			b = wire.End(one(i, b), at)
		}
	}
	each(15, len(r.Added), func(i int, b []byte) []byte { return r.Added[i].append(b) })
	each(17, len(r.Votes), func(i int, b []byte) []byte { return r.Votes[i].append(b) })
	each(19, len(r.Recent), func(i int, b []byte) []byte { return r.Recent[i].append(b) })
	return b
}

// ReadRecord reads a record.
func ReadRecord(r *wire.Reader, g *Record) {
	for m := r.Open("fastpaxos.Record"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadBallot(r, &g.Promised)
		case 3:
			ReadBallot(r, &g.Accepted)
		case 5:
			g.Sequence = r.Uint()
		case 7:
			g.Base.At = r.Timestamp()
		case 9:
			g.Base.Data = r.Bytes()
		case 11:
			g.Closed = r.Timestamp()
		case 13:
			g.Floor = r.Timestamp()
		case 15:
			readAddition(r, wire.Grow(r, &g.Added))
		case 17:
			readVote(r, wire.Grow(r, &g.Votes))
		case 19:
			readEnded(r, wire.Grow(r, &g.Recent))
		case 21:
			readMark(r, &g.Mark)
		default:
			r.Refuse()
		}
	}
}

// Append adds the fields of a record with its name: a piece of a report.
func (w *Write) Append(b []byte) []byte {
	return Nested(wire.Bytes(b, 1, w.Key), 3, w.Record.Append)
}

// ReadWrite reads what was written about a record.
func ReadWrite(r *wire.Reader, w *Write) {
	w.Record = &Record{}
	for m := r.Open("fastpaxos.Write"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.Key = keys.Key(r.Bytes())
		case 3:
			ReadRecord(r, w.Record)
		default:
			r.Refuse()
		}
	}
}

// Append adds the request's fields to b.
func (q *Request) Append(b []byte) []byte {
	b = wire.Bytes(wire.Uint(b, 1, uint64(q.Kind)), 2, q.Key)
	b = Nested(b, 3, q.Option.Append)
	b = wire.Bool(b, 4, q.Committed)
	b = Nested(b, 5, q.Ballot.Append)
	if q.State != nil {
		var at int
		b, at = wire.Begin(b, 6)
		b = wire.End(q.State.Append(b), at)
	}
	b = wire.Uint(b, 7, q.Sequence)
	if q.Look != nil {
		var at int
		b, at = wire.Begin(b, 8)
		b = wire.End(q.Look.Append(b), at)
	}
	return wire.Bool(wire.Uint(b, 9, q.Generation), 11, q.Renew)
}

// Size is about how many bytes Append adds, at least for requests without a state.
func (q *Request) Size() int {
	n := 2*len(q.Key) + 32
	if q.Kind != Read {
		n += q.Option.size() + 64
	}
	return n
}

func readRequest(r *wire.Reader, q *Request) {
	for m := r.Open("fastpaxos.Request"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Kind = Kind(r.Enum(uint8(Reign)))
		case 2:
			q.Key = keys.Key(r.Bytes())
		case 3:
			ReadOption(r, &q.Option)
		case 4:
			q.Committed = r.Bool()
		case 5:
			ReadBallot(r, &q.Ballot)
		case 6:
			q.State = &Record{}
			ReadRecord(r, q.State)
		case 7:
			q.Sequence = r.Uint()
		case 8:
			q.Look = &Look{}
			readLook(r, q.Look)
		case 9:
			q.Generation = r.Uint()
		case 11:
			q.Renew = r.Bool()
		default:
			r.Skip()
		}
	}
}

// DecodeRequest reads what Append wrote.
func DecodeRequest(b []byte) (q Request, err error) {
	r := wire.Read(bytes.Clone(b))
	readRequest(&r, &q)
	if r.Err() == nil && (q.Kind == 0 || q.Key == nil || (q.Kind == Dictate) != (q.State != nil) || (q.Kind == Read) != (q.Look != nil)) {
		return q, fmt.Errorf("fastpaxos: malformed %v request", q.Kind)
	}
	return q, r.Err()
}

// Append adds the reply's fields to b.
func (p *Reply) Append(b []byte) []byte {
	b = Nested(b, 1, p.Promised.Append)
	b = Nested(b, 2, p.Ballot.Append)
	b = wire.Uint(wire.Uint(wire.Uint(b, 3, p.Sequence), 4, uint64(p.Verdict)), 5, uint64(p.Outcome))
	if p.Record != nil {
		var at int
		b, at = wire.Begin(b, 6)
		b = wire.End(p.Record.Append(b), at)
	}
	if p.Blocker != nil {
		var at int
		b, at = wire.Begin(b, 7)
		b = wire.End(p.Blocker.Append(b), at)
	}
	if p.Looked != nil {
		var at int
		b, at = wire.Begin(b, 8)
		b = wire.End(p.Looked.Append(b), at)
	}
	b = wire.Timestamp(b, 9, p.Mark)
	if p.Reigned != nil {
		var at int
		b, at = wire.Begin(b, 10)
		b = wire.End(p.Reigned.append(b), at)
	}
	return wire.Bool(b, 12, p.Term)
}

func readReply(r *wire.Reader, p *Reply) {
	for m := r.Open("fastpaxos.Reply"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadBallot(r, &p.Promised)
		case 2:
			ReadBallot(r, &p.Ballot)
		case 3:
			p.Sequence = r.Uint()
		case 4:
			p.Verdict = Verdict(r.Enum(uint8(Past)))
		case 5:
			p.Outcome = Verdict(r.Enum(uint8(Past)))
		case 6:
			p.Record = &Record{}
			ReadRecord(r, p.Record)
		case 7:
			p.Blocker = &Option{}
			ReadOption(r, p.Blocker)
		case 8:
			p.Looked = &Looked{}
			readLooked(r, p.Looked)
		case 9:
			p.Mark = r.Timestamp()
		case 10:
			p.Reigned = &Reigned{}
			readReigned(r, p.Reigned)
		case 12:
			p.Term = r.Bool()
		default:
			r.Skip()
		}
	}
}

// DecodeReply reads what Append wrote.
func DecodeReply(b []byte) (p *Reply, err error) {
	p = &Reply{}
	r := wire.Read(bytes.Clone(b))
	readReply(&r, p)
	return p, r.Err()
}

// Append adds the bytes of a row.
func (p *PastRow) append(b []byte) []byte {
	b = Nested(wire.Bytes(b, 1, p.Key), 2, p.Record.Append)
	return wire.Bool(wire.Bool(b, 3, p.Old), 4, p.Busy)
}

func readPastRow(r *wire.Reader, p *PastRow) {
	for m := r.Open("fastpaxos.PastRow"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Key = keys.Key(r.Bytes())
		case 2:
			ReadRecord(r, &p.Record)
		case 3:
			p.Old = r.Bool()
		case 4:
			p.Busy = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func (m *Mark) append(b []byte) []byte {
	b = wire.Timestamp(b, 1, m.At)
	if m.By != (kv.TxnID{}) {
		b = wire.ID(b, 3, m.By)
	}
	return b
}

func readMark(r *wire.Reader, m *Mark) {
	for o := r.Open("fastpaxos.Mark"); r.Next(&o); {
		switch r.Field() {
		case 1:
			m.At = r.Timestamp()
		case 3:
			m.By = r.ID()
		default:
			r.Refuse()
		}
	}
}

// Append adds the bytes of what was learned.
func (l *Learned) Append(b []byte) []byte {
	b = wire.Timestamp(wire.ID(b, 1, l.Txn), 2, l.At)
	b = wire.Bool(wire.Uint(b, 3, uint64(l.Verdict)), 4, l.Ended)
	for i, o := range []*Option{l.Option, l.Blocker} {
		if o != nil {
			var at int
			b, at = wire.Begin(b, uint32(5+i))
			b = wire.End(o.Append(b), at)
		}
	}
	return wire.Timestamp(b, 7, l.Mark)
}

// ReadLearned reads what was learned.
func ReadLearned(r *wire.Reader, l *Learned) {
	for m := r.Open("fastpaxos.Learned"); r.Next(&m); {
		switch r.Field() {
		case 1:
			l.Txn = r.ID()
		case 2:
			l.At = r.Timestamp()
		case 3:
			l.Verdict = Verdict(r.Enum(uint8(Past)))
		case 4:
			l.Ended = r.Bool()
		case 5:
			l.Option = &Option{}
			ReadOption(r, l.Option)
		case 7:
			l.Mark = r.Timestamp()
		case 6:
			l.Blocker = &Option{}
			ReadOption(r, l.Blocker)
		default:
			r.Refuse()
		}
	}
}

func (p *Reigned) append(b []byte) []byte {
	for _, n := range p.Apart {
		b = wire.Fixed64(b, 1, n)
	}
	b = wire.Uint(wire.Bool(b, 3, p.Many), 5, p.Applied)
	return wire.Bool(wire.Timestamp(wire.Timestamp(b, 7, p.Floor), 9, p.Mark), 11, p.Earlier)
}

func readReigned(r *wire.Reader, p *Reigned) {
	for m := r.Open("fastpaxos.Reigned"); r.Next(&m); {
		switch r.Field() {
		case 1:
			*wire.Grow(r, &p.Apart) = r.Fixed64()
		case 3:
			p.Many = r.Bool()
		case 5:
			p.Applied = r.Uint()
		case 7:
			p.Floor = r.Timestamp()
		case 9:
			p.Mark = r.Timestamp()
		case 11:
			p.Earlier = r.Bool()
		default:
			r.Refuse()
		}
	}
}
