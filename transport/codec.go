package transport

import (
	"slices"

	"meridian/kv"
	"meridian/version"
	"meridian/wire"
)

// hello is the first message of a link or stream, in both directions. Every version reads it, since it is what tells two nodes whether their versions
// fit: a field that is added has an even number.
type hello struct {
	// frames is the greatest version of frames that the node knows. The two use the smaller of theirs, so that neither sends a kind of frame that the other does not know.
	frames uint8
	// wall is what the node's own clock shows, in nanoseconds; zero: it did not say.
	wall    int64
	class   Class
	node    kv.NodeID
	cluster [16]byte
	said    version.Said
}

func (h *hello) fields(c *wire.Coder) {
	c.Message("transport.Hello", wire.Skips)
	wire.As(c, 1, &h.frames, func(f uint8) uint64 { return uint64(f) }, func(n uint64) uint8 { return uint8(min(n, 255)) })
	wire.Int64(c, 2, &h.wall)
	wire.Enum(c, 3, &h.class, classes-1)
	wire.Uint32(c, 5, &h.node)
	wire.UUID(c, 7, &h.cluster)
	saidFrom(9, &h.said, c)
}

func decodeHello(b []byte) (h hello, err error) {
	if h, err = wire.Decoded(b, (*hello).fields); err == nil && h.frames == 0 {
		err = &wire.MalformedError{Message: "transport.Hello"}
	}
	return h, err
}

// said is the form of a node's versions in the refusal of a hello.
func said(s *version.Said, c *wire.Coder) {
	c.Message("transport.Said", wire.Skips)
	saidFrom(1, s, c)
}

// saidFrom are three fields, the first of which has the number first, and the others the next odd ones.
func saidFrom(first uint32, s *version.Said, c *wire.Coder) {
	wire.As(c, first, &s.Own, version.Version.Uint64, version.From)
	wire.As(c, first+2, &s.Oldest, version.Version.Uint64, version.From)
	wire.As(c, first+4, &s.Acting, version.Version.Uint64, version.From)
}

// refuser is the detail of a refusal with codeOffset: which node refuses, and what its own clock shows (transport.T8). Earlier binaries send none.
type refuser struct {
	node kv.NodeID
	wall int64 // nanoseconds
}

func (d *refuser) fields(c *wire.Coder) {
	c.Message("transport.Refuser", wire.Skips)
	wire.Uint32(c, 1, &d.node)
	wire.Int64(c, 3, &d.wall)
}

func (e *StatusError) fields(c *wire.Coder) {
	c.Message("transport.Error", wire.Skips)
	code := uint32(e.Code)
	wire.Uint32(c, 1, &code)
	if !c.Writing() && code < 1<<16 { // an error with a code that the reader does not know is one that it only shows
		e.Code = Code(code)
	}
	c.String(3, &e.Message)
	c.Bytes(5, &e.Detail)
}

func decodeError(b []byte) (*StatusError, error) {
	e := &StatusError{}
	return e, wire.Decode(b, e, (*StatusError).fields)
}

// waybill is what a call carries that is relayed, and the first message of such a stream.
type waybill struct {
	origin kv.NodeID
	class  Class
	hops   []kv.NodeID // still to come, the target last; empty: it has arrived
	name   string
	req    []byte // of a call
}

func (w *waybill) fields(c *wire.Coder) {
	c.Message("transport.Waybill", wire.Skips)
	wire.Uint32(c, 1, &w.origin)
	wire.Enum(c, 3, &w.class, classes-1)
	nodes(c, 5, &w.hops)
	c.String(7, &w.name)
	c.Bytes(9, &w.req)
}

func decodeWaybill(b []byte) (w waybill, err error) {
	if w, err = wire.Decoded(b, (*waybill).fields); err == nil && w.origin == 0 {
		err = &wire.MalformedError{Message: "transport.Waybill"}
	}
	return w, err
}

// nodes is a list of nodes.
func nodes(c *wire.Coder, n uint32, l *[]kv.NodeID) {
	if wire.Numbers(c, n, l); !c.Writing() && slices.Contains(*l, 0) {
		c.Malformed()
	}
}

// relayed is how a relayed call went.
type relayed struct {
	how  relayedHow
	body []byte
}

type relayedHow uint8

const (
	relayedReply  relayedHow = iota // the body is the handler's reply
	relayedError                    // the body is the handler's error, as in a frame
	relayedUnsent                   // the path is broken, and the request has not reached the target's link (transport.T2); the body is a text
	relayedLost                     // the path broke while the target may have been at work
	relayedMax    = relayedLost
)

func (a *relayed) fields(c *wire.Coder) {
	c.Message("transport.Relayed", wire.Skips)
	wire.Enum(c, 1, &a.how, relayedMax)
	c.Bytes(3, &a.body)
}

// pathRequest asks a node how it reaches another one, and knownPath is its answer.
type pathRequest struct{ to kv.NodeID }

func (q *pathRequest) fields(c *wire.Coder) {
	c.Message("transport.PathRequest", wire.Skips)
	wire.Uint32(c, 1, &q.to)
}

type knownPath struct {
	known bool
	via   []kv.NodeID // the nodes in between
}

func (p *knownPath) fields(c *wire.Coder) {
	c.Message("transport.Path", wire.Skips)
	c.Bool(1, &p.known)
	nodes(c, 3, &p.via)
}
