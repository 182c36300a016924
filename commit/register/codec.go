package register

import (
	"bytes"

	"meridian/kv"
	"meridian/wire"
)

// The bytes of the protocol's messages, and of what its replicas keep, are numbered fields (docs/decisions/0010-formats.md): the nodes of a cluster
// may be of two versions, and a replica reads what an earlier version of it has promised. A register, and all that is in it, has to be understood
// as a whole, since a replica writes it again and the next generation follows from it. Requests and replies may have more of later versions.
//
// A reader copies the bytes first: an acceptor keeps the result for longer than the bytes last.

// messageField adds a message as a field, unless it is empty.
func messageField(b []byte, field uint32, fields func([]byte) []byte) []byte {
	begun := len(b)
	b, at := wire.Begin(b, field)
	empty := len(b)
	if b = fields(b); len(b) == empty {
		return b[:begun]
	}
	return wire.End(b, at)
}

func appendBallot(b []byte, n *Ballot) []byte {
	return wire.Fixed64(wire.Uint(b, 1, n.Round), 3, n.Proposer)
}

func readBallot(r *wire.Reader, n *Ballot) {
	for m := r.Open("register.Ballot"); r.Next(&m); {
		switch r.Field() {
		case 1:
			n.Round = r.Uint()
		case 3:
			n.Proposer = r.Fixed64()
		default:
			r.Refuse()
		}
	}
}

func appendVersion(b []byte, v *Version) []byte {
	return wire.Bytes(wire.ID(wire.Timestamp(b, 1, v.At), 3, v.By), 5, v.Value)
}

func readVersion(r *wire.Reader, v *Version) {
	for m := r.Open("register.Version"); r.Next(&m); {
		switch r.Field() {
		case 1:
			v.At = r.Timestamp()
		case 3:
			v.By = r.ID()
		case 5:
			v.Value = r.Bytes()
		default:
			r.Refuse()
		}
	}
}

func appendDecree(b []byte, d *Decree) []byte {
	b = wire.Uint(wire.ID(b, 1, d.Txn), 3, uint64(d.Attempt))
	b = wire.Timestamp(wire.Uint(b, 5, uint64(d.Seq)), 7, d.At)
	b = messageField(b, 9, func(b []byte) []byte { return appendBallot(b, &d.Promised) })
	b = messageField(b, 11, func(b []byte) []byte { return appendBallot(b, &d.Accepted) })
	b = wire.Uint(b, 13, uint64(d.Outcome))
	b = messageField(b, 15, d.Meta.Append)
	return wire.Bytes(b, 17, d.Value)
}

func readDecree(r *wire.Reader, d *Decree) {
	for m := r.Open("register.Decree"); r.Next(&m); {
		switch r.Field() {
		case 1:
			d.Txn = r.ID()
		case 3:
			d.Attempt = r.Uint32()
		case 5:
			d.Seq = kv.Seq(r.Uint32())
		case 7:
			d.At = r.Timestamp()
		case 9:
			readBallot(r, &d.Promised)
		case 11:
			readBallot(r, &d.Accepted)
		case 13:
			d.Outcome = Outcome(r.Enum(uint8(Prevented)))
		case 15:
			wire.In(r, &d.Meta, (*kv.TxnMeta).Fields)
		case 17:
			d.Value = r.Bytes()
		default:
			r.Refuse()
		}
	}
}

func appendRegister(b []byte, g *Register) []byte {
	b = messageField(b, 1, func(b []byte) []byte { return appendVersion(b, &g.Newest) })
	for i := range g.Decrees {
		var at int
		b, at = wire.Begin(b, 3)
		b = wire.End(appendDecree(b, &g.Decrees[i]), at)
	}
	return b
}

func readRegister(r *wire.Reader, g *Register) {
	for m := r.Open("register.Register"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readVersion(r, &g.Newest)
		case 3:
			readDecree(r, wire.Grow(r, &g.Decrees))
		default:
			r.Refuse()
		}
	}
}

func decodeRegister(b []byte, g *Register) error {
	r := wire.Read(bytes.Clone(b))
	readRegister(&r, g)
	return r.Err()
}

// Append adds the bytes of a register with its name: a piece of a report.
func (e *Entry) Append(b []byte) []byte {
	b = wire.Bytes(b, 1, e.Key)
	return messageField(b, 3, func(b []byte) []byte { return appendRegister(b, &e.Register) })
}

func readEntry(r *wire.Reader, e *Entry) {
	for m := r.Open("register.Entry"); r.Next(&m); {
		switch r.Field() {
		case 1:
			e.Key = r.Bytes()
		case 3:
			readRegister(r, &e.Register)
		default:
			r.Refuse()
		}
	}
}

// Append adds the bytes of a request.
func (q *Request) Append(b []byte) []byte {
	b = wire.Bytes(wire.Uint(b, 1, uint64(q.Kind)), 3, q.Key)
	b = messageField(b, 5, func(b []byte) []byte { return appendVersion(b, &q.Version) })
	b = messageField(b, 7, func(b []byte) []byte { return appendDecree(b, &q.Decree) })
	return wire.Uint(wire.Uint(wire.ID(b, 9, q.Txn), 11, uint64(q.Attempt)), 13, q.Generation)
}

func readRequest(r *wire.Reader, q *Request) {
	for m := r.Open("register.Request"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Kind = Kind(r.Enum(uint8(Resolve)))
		case 3:
			q.Key = r.Bytes()
		case 5:
			readVersion(r, &q.Version)
		case 7:
			readDecree(r, &q.Decree)
		case 9:
			q.Txn = r.ID()
		case 11:
			q.Attempt = r.Uint32()
		case 13:
			q.Generation = r.Uint()
		default:
			r.Skip()
		}
	}
}

// DecodeRequest reads what Request.Append wrote.
func DecodeRequest(b []byte) (q Request, err error) {
	r := wire.Read(bytes.Clone(b))
	readRequest(&r, &q)
	if r.Err() == nil && (q.Kind < Query || q.Kind > Resolve) {
		r.Malformed()
	}
	return q, r.Err()
}

// Append adds the bytes of a reply.
func (p *Reply) Append(b []byte) []byte {
	b = messageField(b, 1, func(b []byte) []byte { return appendRegister(b, &p.Register) })
	b = messageField(b, 3, func(b []byte) []byte { return appendDecree(b, &p.Decree) })
	return wire.Uint(wire.Timestamp(b, 5, p.Floor), 7, p.Generation)
}

func readReply(r *wire.Reader, p *Reply) {
	for m := r.Open("register.Reply"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readRegister(r, &p.Register)
		case 3:
			readDecree(r, &p.Decree)
		case 5:
			p.Floor = r.Timestamp()
		case 7:
			p.Generation = r.Uint()
		default:
			r.Skip()
		}
	}
}
