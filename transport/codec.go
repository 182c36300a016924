package transport

import (
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

func (h *hello) append(b []byte) []byte {
	b = wire.Int(wire.Uint(b, 1, uint64(h.frames)), 2, h.wall)
	b = wire.Uint(wire.Uint(b, 3, uint64(h.class)), 5, uint64(h.node))
	return appendSaidFields(wire.ID(b, 7, h.cluster), 9, &h.said)
}

func readHello(r *wire.Reader, h *hello) {
	for m := r.Open("transport.Hello"); r.Next(&m); {
		switch r.Field() {
		case 1:
			h.frames = uint8(min(r.Uint(), 255))
		case 2:
			h.wall = r.Int()
		case 3:
			h.class = Class(r.Enum(uint8(classes - 1)))
		case 5:
			h.node = kv.NodeID(r.Uint32())
		case 7:
			h.cluster = r.ID()
		case 9, 11, 13:
			readSaidField(r, r.Field()-9, &h.said)
		default:
			r.Skip()
		}
	}
}

func decodeHello(b []byte) (h hello, err error) {
	r := wire.Read(b)
	if readHello(&r, &h); r.Err() == nil && h.frames == 0 {
		r.Malformed()
	}
	return h, r.Err()
}

// appendSaidFields adds three fields, the first of which has the number first, and the others the next odd ones.
func appendSaidFields(b []byte, first uint32, s *version.Said) []byte {
	return wire.Uint(wire.Uint(wire.Uint(b, first, s.Own.Uint64()), first+2, s.Oldest.Uint64()), first+4, s.Acting.Uint64())
}

func readSaidField(r *wire.Reader, n uint32, s *version.Said) {
	v := version.From(r.Uint())
	switch n {
	case 0:
		s.Own = v
	case 2:
		s.Oldest = v
	case 4:
		s.Acting = v
	}
}

// appendSaid is the form of a node's versions in the refusal of a hello.
func appendSaid(b []byte, s *version.Said) []byte { return appendSaidFields(b, 1, s) }

func readSaid(r *wire.Reader, s *version.Said) {
	for m := r.Open("transport.Said"); r.Next(&m); {
		switch r.Field() {
		case 1, 3, 5:
			readSaidField(r, r.Field()-1, s)
		default:
			r.Skip()
		}
	}
}

func decodeSaid(b []byte) (s version.Said, ok bool) {
	r := wire.Read(b)
	readSaid(&r, &s)
	return s, r.Err() == nil
}

// refuser is the detail of a refusal with codeOffset: which node refuses, and what its own clock shows (transport.T8). Earlier binaries send none.
type refuser struct {
	node kv.NodeID
	wall int64 // nanoseconds
}

func (d *refuser) append(b []byte) []byte {
	return wire.Int(wire.Uint(b, 1, uint64(d.node)), 3, d.wall)
}

func readRefuser(r *wire.Reader, d *refuser) {
	for m := r.Open("transport.Refuser"); r.Next(&m); {
		switch r.Field() {
		case 1:
			d.node = kv.NodeID(r.Uint32())
		case 3:
			d.wall = r.Int()
		default:
			r.Skip()
		}
	}
}

func decodeRefuser(b []byte) (d refuser, ok bool) {
	r := wire.Read(b)
	readRefuser(&r, &d)
	return d, r.Err() == nil && len(b) > 0
}

// An error with a code that the reader does not know is one that it only shows.
func appendError(b []byte, e *StatusError) []byte {
	return wire.Bytes(wire.String(wire.Uint(b, 1, uint64(e.Code)), 3, e.Message), 5, e.Detail)
}

func readError(r *wire.Reader, e *StatusError) {
	for m := r.Open("transport.Error"); r.Next(&m); {
		switch r.Field() {
		case 1:
			if c := r.Uint32(); c <= 1<<16-1 {
				e.Code = Code(c)
			}
		case 3:
			e.Message = r.String()
		case 5:
			e.Detail = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func decodeError(b []byte) (*StatusError, error) {
	e := &StatusError{}
	r := wire.Read(b)
	readError(&r, e)
	return e, r.Err()
}

// waybill is what a call carries that is relayed, and the first message of such a stream.
type waybill struct {
	origin kv.NodeID
	class  Class
	hops   []kv.NodeID // still to come, the target last; empty: it has arrived
	name   string
	req    []byte // of a call
}

func (w *waybill) append(b []byte) []byte {
	b = appendNodes(wire.Uint(wire.Uint(b, 1, uint64(w.origin)), 3, uint64(w.class)), 5, w.hops)
	return wire.Bytes(wire.String(b, 7, w.name), 9, w.req)
}

func readWaybill(r *wire.Reader, w *waybill) {
	for m := r.Open("transport.Waybill"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.origin = kv.NodeID(r.Uint32())
		case 3:
			w.class = Class(r.Enum(uint8(classes - 1)))
		case 5:
			w.hops = readNodes(r)
		case 7:
			w.name = r.String()
		case 9:
			w.req = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func decodeWaybill(b []byte) (w waybill, err error) {
	r := wire.Read(b)
	if readWaybill(&r, &w); r.Err() == nil && w.origin == 0 {
		r.Malformed()
	}
	return w, r.Err()
}

// appendNodes adds a list of nodes; readNodes reads it.
func appendNodes(b []byte, field uint32, nodes []kv.NodeID) []byte {
	if len(nodes) == 0 {
		return b
	}
	var few [maxRelays]uint64
	l := few[:0]
	for _, n := range nodes {
		l = append(l, uint64(n))
	}
	return wire.Packed(b, field, l)
}

// maxRelays is how many nodes a list has room for without an allocation.
const maxRelays = 8

func readNodes(r *wire.Reader) (nodes []kv.NodeID) {
	for _, n := range r.Packed() {
		if n == 0 || n > 1<<32-1 {
			r.Malformed()
			return nil
		}
		nodes = append(nodes, kv.NodeID(n))
	}
	return nodes
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

func (a *relayed) append(b []byte) []byte {
	return wire.Bytes(wire.Uint(b, 1, uint64(a.how)), 3, a.body)
}

func readRelayed(r *wire.Reader, a *relayed) {
	for m := r.Open("transport.Relayed"); r.Next(&m); {
		switch r.Field() {
		case 1:
			a.how = relayedHow(r.Enum(uint8(relayedMax)))
		case 3:
			a.body = r.Bytes()
		default:
			r.Skip()
		}
	}
}

// pathRequest asks a node how it reaches another one, and knownPath is its answer.
type pathRequest struct{ to kv.NodeID }

func (q *pathRequest) append(b []byte) []byte { return wire.Uint(b, 1, uint64(q.to)) }

func readPathRequest(r *wire.Reader, q *pathRequest) {
	for m := r.Open("transport.PathRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.to = kv.NodeID(r.Uint32())
		default:
			r.Skip()
		}
	}
}

type knownPath struct {
	known bool
	via   []kv.NodeID // the nodes in between
}

func (p *knownPath) append(b []byte) []byte { return appendNodes(wire.Bool(b, 1, p.known), 3, p.via) }

func readPath(r *wire.Reader, p *knownPath) {
	for m := r.Open("transport.Path"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.known = r.Bool()
		case 3:
			p.via = readNodes(r)
		default:
			r.Skip()
		}
	}
}
