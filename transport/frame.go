package transport

import (
	"encoding/binary"
	"errors"

	"google.golang.org/grpc/mem"

	"meridian/clock"
	"meridian/wire"
)

// kind is what a frame is.
type kind uint8

const (
	kindHello  kind = 1 + iota // first frame of a link, both directions; payload: Hello
	kindCall                   // name: method; payload: request
	kindReply                  // payload: reply
	kindError                  // payload: Error; ends a call, a stream, or (id 0) refuses a link
	kindCancel                 // the caller gave up on id
	kindPing                   // answered by kindPong with the same id
	kindPong
	kindOpen // first frame of a stream; name: method; payload: Hello
	kindData // payload: one message of a stream
	kindMax
)

// frameVersion grows when there are kinds of frames, or parts of their header, that earlier nodes do not know. The hello has it (codec.go).
const frameVersion = 1

// frame is the unit on every gRPC stream of this package:
//
//	kind 1 | clock reading 12 | id 8 | length of name 1 | name | payload
//
// The header has no numbered fields, because it is fixed for the whole connection: the frame version that both hellos have. A kind that the reader does not
// know is refused with a *wire.VersionError, and ends the connection.
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
	if len(b) < frameHeader || b[0] == 0 {
		return errFrame
	}
	if kind(b[0]) >= kindMax {
		return &wire.VersionError{Message: "transport.Frame", Field: 1, Value: uint64(b[0]), Enum: true}
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
