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

func (n *Ballot) fields(c *wire.Coder) {
	c.Message("register.Ballot", wire.Refuses)
	wire.Uint64(c, 1, &n.Round)
	c.Fixed64(3, &n.Proposer)
}

func (v *Version) fields(c *wire.Coder) {
	c.Message("register.Version", wire.Refuses)
	c.Timestamp(1, &v.At)
	wire.UUID(c, 3, &v.By)
	c.Bytes(5, &v.Value)
}

func (d *Decree) fields(c *wire.Coder) {
	c.Message("register.Decree", wire.Refuses)
	wire.UUID(c, 1, &d.Txn)
	wire.Uint32(c, 3, &d.Attempt)
	wire.Uint32(c, 5, &d.Seq)
	c.Timestamp(7, &d.At)
	wire.Filled(c, 9, &d.Promised, (*Ballot).fields)
	wire.Filled(c, 11, &d.Accepted, (*Ballot).fields)
	wire.Enum(c, 13, &d.Outcome, Prevented)
	wire.Filled(c, 15, &d.Meta, (*kv.TxnMeta).Fields)
	c.Bytes(17, &d.Value)
}

func (g *Register) fields(c *wire.Coder) {
	c.Message("register.Register", wire.Refuses)
	wire.Filled(c, 1, &g.Newest, (*Version).fields)
	wire.List(c, 3, &g.Decrees, (*Decree).fields)
}

func decodeRegister(b []byte, g *Register) error {
	return wire.Decode(bytes.Clone(b), g, (*Register).fields)
}

// Append adds the bytes of a register with its name: a piece of a report.
func (e *Entry) Append(b []byte) []byte { return wire.Append(b, e, (*Entry).fields) }

func (e *Entry) fields(c *wire.Coder) {
	c.Message("register.Entry", wire.Refuses)
	wire.Key(c, 1, &e.Key)
	wire.Filled(c, 3, &e.Register, (*Register).fields)
}

// Append adds the bytes of a request.
func (q *Request) Append(b []byte) []byte { return wire.Append(b, q, (*Request).fields) }

func (q *Request) fields(c *wire.Coder) {
	c.Message("register.Request", wire.Skips)
	wire.Enum(c, 1, &q.Kind, Resolve)
	wire.Key(c, 3, &q.Key)
	wire.Filled(c, 5, &q.Version, (*Version).fields)
	wire.Filled(c, 7, &q.Decree, (*Decree).fields)
	wire.UUID(c, 9, &q.Txn)
	wire.Uint32(c, 11, &q.Attempt)
	wire.Uint64(c, 13, &q.Generation)
}

// DecodeRequest reads what Request.Append wrote.
func DecodeRequest(b []byte) (q Request, err error) {
	err = wire.Decode(bytes.Clone(b), &q, (*Request).fields)
	if err == nil && (q.Kind < Query || q.Kind > Resolve) {
		err = &wire.MalformedError{Message: "register.Request"}
	}
	return q, err
}

// Append adds the bytes of a reply.
func (p *Reply) Append(b []byte) []byte { return wire.Append(b, p, (*Reply).fields) }

func (p *Reply) fields(c *wire.Coder) {
	c.Message("register.Reply", wire.Skips)
	wire.Filled(c, 1, &p.Register, (*Register).fields)
	wire.Filled(c, 3, &p.Decree, (*Decree).fields)
	c.Timestamp(5, &p.Floor)
	wire.Uint64(c, 7, &p.Generation)
}
