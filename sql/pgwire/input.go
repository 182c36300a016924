package pgwire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"meridian/sql/charset"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
)

const (
	// readBytes is each connection's read buffer; most requests fit, and ten thousand idle ones cost 40 MiB.
	readBytes = 4 << 10
	// reuseBytes is the largest frame buffer that a connection keeps.
	reuseBytes = 64 << 10
)

// input reads frames: a type byte, a length that includes itself, a body (pgwire.W1).
type input struct {
	r    *bufio.Reader
	body []byte
	max  int
	// memory accounts for a large message until the next one is read; nil before the session begins.
	memory *memory.Account
	held   int64
}

func newInput(r io.Reader, max int) *input {
	return &input{r: bufio.NewReaderSize(r, readBytes), max: max}
}

// next returns the next message. The body is valid until the next call.
func (in *input) next() (kind byte, body []byte, err error) {
	if in.held != 0 {
		in.memory.Shrink(in.held)
		in.held = 0
	}
	head, err := in.r.Peek(5)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	kind = head[0]
	n := int(int32(binary.BigEndian.Uint32(head[1:]))) - 4
	if _, err := in.r.Discard(5); err != nil {
		return 0, nil, err
	}
	body, err = in.read(n)
	return kind, body, err
}

// read reads n bytes. Its buffer grows as they arrive, so that a claimed length alone costs no memory.
func (in *input) read(n int) ([]byte, error) {
	if n < 0 {
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "invalid message length")
	}
	if n > in.max {
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "message of %d bytes is too large", n).
			WithDetail("The limit is %d bytes.", in.max)
	}
	if n <= cap(in.body) {
		in.body = in.body[:n]
		_, err := io.ReadFull(in.r, in.body)
		return in.body, err
	}
	if n <= reuseBytes {
		in.body = make([]byte, n, max(n, 512))
		_, err := io.ReadFull(in.r, in.body)
		return in.body, err
	}
	big := make([]byte, 0, reuseBytes)
	for len(big) < n {
		step := min(n-len(big), max(len(big), reuseBytes))
		// While the buffer grows, the old one and the new one are in memory.
		if err := in.memory.Grow(2 * int64(step)); err != nil {
			// The conversation continues after the message.
			if _, e := in.r.Discard(n - len(big)); e != nil {
				return nil, e
			}
			return nil, &refused{err}
		}
		in.held += 2 * int64(step)
		big = append(big, make([]byte, step)...)
		if _, err := io.ReadFull(in.r, big[len(big)-step:]); err != nil {
			return nil, err
		}
	}
	return big, nil
}

// refused is the error for a message without memory. The message was read to its end.
type refused struct{ error }

func (r *refused) Unwrap() error { return r.error }

// followedBy reports whether the next message has already arrived and is of the given kind.
func (in *input) followedBy(kind byte) bool {
	if in.r.Buffered() < 5 {
		return false
	}
	head, err := in.r.Peek(1)
	return err == nil && head[0] == kind
}

// fields reads the pieces of a message body; the first malformed piece sets bad, and all later ones are zero.
type fields struct {
	b   []byte
	bad bool
	err error // of a text that is not in the client's encoding
}

func (f *fields) byte() byte {
	if len(f.b) < 1 {
		f.bad = true
		return 0
	}
	v := f.b[0]
	f.b = f.b[1:]
	return v
}

func (f *fields) int16() int {
	if len(f.b) < 2 {
		f.bad, f.b = true, nil
		return 0
	}
	v := binary.BigEndian.Uint16(f.b)
	f.b = f.b[2:]
	return int(v)
}

func (f *fields) int32() int32 {
	if len(f.b) < 4 {
		f.bad, f.b = true, nil
		return 0
	}
	v := binary.BigEndian.Uint32(f.b)
	f.b = f.b[4:]
	return int32(v)
}

func (f *fields) bytes(n int) []byte {
	if n < 0 || len(f.b) < n {
		f.bad, f.b = true, nil
		return nil
	}
	v := f.b[:n:n]
	f.b = f.b[n:]
	return v
}

func (f *fields) cstring() string {
	for i, c := range f.b {
		if c == 0 {
			s := string(f.b[:i])
			f.b = f.b[i+1:]
			return s
		}
	}
	f.bad, f.b = true, nil
	return ""
}

// text reads a string in the client's encoding.
func (f *fields) text(c *charset.Charset) string {
	s := f.cstring()
	if c == nil {
		return s
	}
	b, err := c.Decode([]byte(s))
	if err != nil {
		f.err = err
	}
	return string(b)
}

// end returns an error unless the body was well formed and is used up.
func (f *fields) end(kind byte) error {
	if f.bad || len(f.b) > 0 {
		return sqlstate.New(sqlstate.ProtocolViolation, "invalid %s message", messageName(kind))
	}
	return f.err
}

func messageName(kind byte) string {
	switch kind {
	case 'Q':
		return "Query"
	case 'P':
		return "Parse"
	case 'B':
		return "Bind"
	case 'D':
		return "Describe"
	case 'E':
		return "Execute"
	case 'C':
		return "Close"
	case 'p':
		return "Password"
	}
	return fmt.Sprintf("%q", kind)
}
