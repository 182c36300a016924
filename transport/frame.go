package transport

import (
	"encoding/binary"
	"errors"

	"google.golang.org/grpc/mem"

	"meridian/clock"
	"meridian/kv"
)

// kind is what a frame is.
type kind uint8

const (
	kindHello  kind = 1 + iota // first frame of a link, both directions; payload: hello
	kindCall                   // name: method; payload: request
	kindReply                  // payload: reply
	kindError                  // payload: error; ends a call, a stream, or (id 0) refuses a link
	kindCancel                 // the caller gave up on id
	kindPing                   // answered by kindPong with the same id
	kindPong
	kindOpen // first frame of a stream; name: method; payload: hello
	kindData // payload: one message of a stream
	kindMax
)

// frame is the unit on every gRPC stream of this package:
//
//	kind 1 | clock reading 12 | id 8 | length of name 1 | name | payload
type frame struct {
	kind    kind
	id      uint64
	at      clock.Timestamp
	name    string // of a frame to send
	got     []byte // the name in a frame that arrived: a map can be asked with it without an allocation
	payload []byte
}

const (
	frameHeader = 1 + clock.EncodedLen + 8 + 1
	// copyBytes is the payload up to which header and payload are copied into one buffer; a larger payload is handed to
	// gRPC as it is.
	copyBytes = 8 << 10
)

var errFrame = errors.New("transport: malformed frame")

func (f *frame) appendHeader(b []byte) []byte {
	b = append(b, byte(f.kind))
	b = f.at.Append(b)
	b = binary.BigEndian.AppendUint64(b, f.id)
	b = append(b, byte(len(f.name)))
	return append(b, f.name...)
}

// decode reads what appendHeader and the payload made; name and payload alias b.
func (f *frame) decode(b []byte) error {
	if len(b) < frameHeader || b[0] == 0 || kind(b[0]) >= kindMax {
		return errFrame
	}
	f.kind = kind(b[0])
	f.at, _, _ = clock.Decode(b[1:])
	f.id = binary.BigEndian.Uint64(b[1+clock.EncodedLen:])
	n := int(b[frameHeader-1])
	b = b[frameHeader:]
	if len(b) < n {
		return errFrame
	}
	f.got, f.payload = b[:n:n], b[n:]
	return nil
}

// codec passes frames through gRPC. It has no state.
type codec struct{}

func (codec) Name() string { return "meridian" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, errFrame
	}
	n := frameHeader + len(f.name)
	if len(f.payload) > copyBytes {
		return mem.BufferSlice{mem.SliceBuffer(f.appendHeader(make([]byte, 0, n))), mem.SliceBuffer(f.payload)}, nil
	}
	n += len(f.payload)
	// A buffer of gRPC's pool would cost more objects than it saves.
	return mem.BufferSlice{mem.SliceBuffer(append(f.appendHeader(make([]byte, 0, n)), f.payload...))}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return errFrame
	}
	return f.decode(data.Materialize())
}

// hello is who speaks.
type hello struct {
	version byte
	class   Class
	node    kv.NodeID
	cluster [16]byte
}

// protocolVersion grows when frames change in a way that older nodes can't read.
const protocolVersion = 1

func (h hello) append(b []byte) []byte {
	b = append(b, h.version, byte(h.class))
	b = binary.BigEndian.AppendUint32(b, uint32(h.node))
	return append(b, h.cluster[:]...)
}

func decodeHello(b []byte) (hello, error) {
	if len(b) < 22 { // longer ones are from newer nodes
		return hello{}, errFrame
	}
	h := hello{version: b[0], class: Class(b[1]), node: kv.NodeID(binary.BigEndian.Uint32(b[2:]))}
	copy(h.cluster[:], b[6:])
	return h, nil
}

// An error's payload: code 2 | length of message 4 | message | detail.
func appendError(b []byte, e *StatusError) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(e.Code))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Message)))
	b = append(b, e.Message...)
	return append(b, e.Detail...)
}

func decodeError(b []byte) (*StatusError, error) {
	if len(b) < 6 {
		return nil, errFrame
	}
	e := &StatusError{Code: Code(binary.BigEndian.Uint16(b))}
	n := binary.BigEndian.Uint32(b[2:])
	b = b[6:]
	if uint64(len(b)) < uint64(n) {
		return nil, errFrame
	}
	e.Message = string(b[:n])
	if len(b) > int(n) {
		e.Detail = b[n:]
	}
	return e, nil
}
