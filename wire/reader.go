package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"meridian/clock"
)

// ErrMalformed is wrapped by the error for bytes that no version has written.
var ErrMalformed = errors.New("malformed message")

// MalformedError says where bytes stop making sense.
type MalformedError struct {
	Message string
	Field   uint32 // zero: between fields
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("%s: malformed message (field %d)", e.Message, e.Field)
}

// Unwrap is ErrMalformed.
func (e *MalformedError) Unwrap() error { return ErrMalformed }

// VersionError says that a message has something that this version does not know and may not ignore (wire.W1, wire.W2).
type VersionError struct {
	Message string
	Field   uint32
	// Value is that of an enumeration, if Enum.
	Value uint64
	Enum  bool
	// Cause says which member of a JSON row it is, and Needs of which version its reader has to be, if the row says so.
	Cause error
	Needs string
}

func (e *VersionError) Error() string {
	if e.Needs != "" {
		return fmt.Sprintf("%s: this version of Meridian does not know all of it; it needs version %s", e.Message, e.Needs)
	}
	if e.Cause != nil {
		return fmt.Sprintf("%s: this version of Meridian does not know all of it (%v); its writer is of a later version", e.Message, e.Cause)
	}
	if e.Enum {
		return fmt.Sprintf("%s: field %d has the value %d, which this version of Meridian does not know; its sender is of a later version", e.Message, e.Field, e.Value)
	}
	return fmt.Sprintf("%s: this version of Meridian does not know field %d, which has to be understood; its sender is of a later version", e.Message, e.Field)
}

// Types that a field never has.
const (
	typeNone  = 8 // the value was read
	typeWhole = 9 // the input, as the message that it is
)

// Reader takes a message apart. After the first error it reads zero values and finds no more fields. Its results share memory with the
// message: the caller leaves the message alone afterwards.
type Reader struct {
	b          []byte
	pos, end   int
	start      int // of the field's tag
	field, typ uint32
	name       string
	err        error
}

// Read begins to read a message, which Open opens.
func Read(b []byte) Reader { return Reader{b: b, end: len(b), typ: typeWhole} }

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Message is a message that is being read: what the reader comes back to when it ends.
type Message struct {
	end  int
	name string
}

// Open enters the message that the reader stands at: the whole input, or the present field. The name is for errors.
func (r *Reader) Open(name string) Message {
	m := Message{end: r.end, name: r.name}
	if r.typ == typeWhole {
		r.typ = typeNone
		r.name = name
		return m
	}
	if r.typ == typeSized && r.pos < r.end {
		if n := int(r.b[r.pos]); n < 0x80 && n < r.end-r.pos {
			r.pos++
			r.end = r.pos + n
			r.typ = typeNone
			r.name = name
			return m
		}
	}
	n := r.sized()
	if r.err == nil {
		r.end = r.pos + n
		r.name = name
	}
	return m
}

// Next goes to the next field of the message, and leaves the message after the last one.
func (r *Reader) Next(m *Message) bool {
	if r.typ != typeNone {
		r.fail()
	}
	if r.pos == r.end {
		if r.err == nil {
			r.end, r.name = m.end, m.name
		}
		return false
	}
	r.start = r.pos
	if tag := uint32(r.b[r.pos]); tag < 0x80 && tag >= 1<<3 {
		r.pos++
		r.field, r.typ = tag>>3, tag&7
		return true
	}
	return r.largeTag()
}

func (r *Reader) largeTag() bool {
	tag := r.varint()
	r.field, r.typ = uint32(tag>>3), uint32(tag&7)
	if r.field == 0 || tag>>3 > maxField {
		r.fail()
		return false
	}
	return true
}

// maxField is the greatest field number of Protocol Buffers.
const maxField = 1<<29 - 1

// Field is the present field's number.
func (r *Reader) Field() uint32 { return r.field }

// fail ends reading: there are no more fields, and every value is zero.
func (r *Reader) fail() {
	if r.err == nil {
		r.err = &MalformedError{Message: r.name, Field: r.field}
	}
	r.stop()
}

func (r *Reader) stop() {
	r.b, r.pos, r.end, r.typ = nil, 0, 0, typeNone
}

// refuse ends reading because of what a later version has written.
func (r *Reader) refuse(e VersionError) {
	if r.err == nil {
		e.Message, e.Field = r.name, r.field
		r.err = &e
	}
	r.stop()
}

// is says whether the present field has a type, and that its value is being read.
func (r *Reader) is(typ uint32) bool {
	if r.typ != typ {
		r.fail()
		return false
	}
	r.typ = typeNone
	return true
}

// varint reads a varint within the message.
func (r *Reader) varint() uint64 {
	if r.pos < r.end && r.b[r.pos] < 0x80 {
		v := r.b[r.pos]
		r.pos++
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b[r.pos:r.end])
	if n <= 0 {
		r.fail()
		return 0
	}
	r.pos += n
	return v
}

// sized reads the length of a byte string that lies within the message.
func (r *Reader) sized() int {
	if !r.is(typeSized) {
		return 0
	}
	n := r.varint()
	if n > uint64(r.end-r.pos) {
		r.fail()
		return 0
	}
	return int(n)
}

// Uint reads what Uint wrote.
func (r *Reader) Uint() uint64 {
	if r.typ == typeVarint && r.pos < r.end {
		if v := r.b[r.pos]; v < 0x80 {
			r.pos++
			r.typ = typeNone
			return uint64(v)
		}
	}
	if !r.is(typeVarint) {
		return 0
	}
	return r.varint()
}

// Uint32 reads an integer of 32 bits.
func (r *Reader) Uint32() uint32 {
	v := r.Uint()
	if v > 1<<32-1 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// Int reads what Int wrote.
func (r *Reader) Int() int64 {
	v := r.Uint()
	return int64(v>>1) ^ -int64(v&1)
}

// Int32 reads a signed integer of 32 bits.
func (r *Reader) Int32() int32 {
	v := r.Int()
	if v != int64(int32(v)) {
		r.fail()
		return 0
	}
	return int32(v)
}

// Bool reads a flag. One that is neither on nor off is of a later version.
func (r *Reader) Bool() bool { return r.Enum(1) == 1 }

// Enum reads an enumeration whose greatest known value is last (wire.W2).
func (r *Reader) Enum(last uint8) uint8 {
	v := r.Uint()
	if v > uint64(last) {
		r.refuse(VersionError{Value: v, Enum: true})
		return 0
	}
	return uint8(v)
}

// Fixed64 reads what Fixed64 or Place wrote.
func (r *Reader) Fixed64() uint64 {
	if !r.is(typeFixed64) {
		return 0
	}
	if r.end-r.pos < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b[r.pos:])
	r.pos += 8
	return v
}

// Bytes reads a byte string, which is not nil.
func (r *Reader) Bytes() []byte {
	if r.typ == typeSized && r.pos < r.end {
		if n := int(r.b[r.pos]); n < 0x80 && n < r.end-r.pos {
			at := r.pos + 1
			r.pos = at + n
			r.typ = typeNone
			return r.b[at:r.pos:r.pos]
		}
	}
	n := r.sized()
	if r.err != nil {
		return nil
	}
	v := r.b[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return v
}

// String reads a text.
func (r *Reader) String() string { return string(r.Bytes()) }

// ID reads sixteen bytes.
func (r *Reader) ID() (id [16]byte) {
	if n := r.sized(); n != len(id) {
		r.fail()
		return id
	}
	copy(id[:], r.b[r.pos:])
	r.pos += len(id)
	return id
}

const timestampLogical = 1

// Timestamp reads what Timestamp wrote.
func (r *Reader) Timestamp() (t clock.Timestamp) {
	if r.typ == typeFixed64 {
		t.Wall = int64(r.Fixed64())
		return t
	}
	n := r.sized()
	if n < 8 {
		r.fail()
		return t
	}
	t.Wall = int64(binary.LittleEndian.Uint64(r.b[r.pos:]))
	r.pos += 8
	field := r.field
	m := Message{end: r.end, name: r.name}
	r.end, r.name = r.pos+n-8, "clock.Timestamp"
	for r.Next(&m) {
		switch r.Field() {
		case timestampLogical:
			t.Logical = r.Uint32()
		default:
			r.Refuse()
		}
	}
	r.field = field
	return t
}

// Packed reads what Packed wrote.
func (r *Reader) Packed() []uint64 {
	n := r.sized()
	if n == 0 {
		return nil
	}
	l := make([]uint64, 0, n)
	outer := r.end
	r.end = r.pos + n
	for r.pos < r.end {
		l = append(l, r.varint())
	}
	if r.err != nil {
		return nil
	}
	r.end = outer
	return l
}

// Malformed refuses the message: its fields are each right, but not together.
func (r *Reader) Malformed() { r.fail() }

// Skip treats a field that the reader does not know (wire.W1).
func (r *Reader) Skip() {
	if r.field&1 != 0 {
		r.refuse(VersionError{})
		return
	}
	r.pass()
}

// maxUnknown bounds what a message keeps, in bytes, since each kept run copies those before (wire.W5). Chosen by us: a hundred times a
// descriptor.
const maxUnknown = 64 << 10

// Keep treats a field that the reader does not know, in a message that will be written again (wire.W3): it adds it, and those of the
// same number that follow, to those kept before.
func (r *Reader) Keep(u *Unknown) {
	start, field, end := r.start, r.field, 0
	if r.Skip(); r.err != nil {
		return
	}
	for end = r.pos; r.pos < r.end; end = r.pos {
		m := Message{}
		if r.Next(&m); r.field != field || r.err != nil {
			break
		}
		r.pass()
	}
	if r.err != nil {
		return
	}
	r.pos, r.typ = end, typeNone
	if len(*u)+end-start > maxUnknown {
		r.field = field
		r.refuse(VersionError{})
		return
	}
	*u += Unknown(r.b[start:end])
}

// Refuse treats a field that the reader does not know, in a message all of whose fields must be understood.
func (r *Reader) Refuse() { r.refuse(VersionError{}) }

// pass skips the present value.
func (r *Reader) pass() {
	n := 0
	switch r.typ {
	case typeVarint:
		r.typ = typeNone
		r.varint()
		return
	case typeFixed64:
		n = 8
	case typeFixed32:
		n = 4
	case typeSized:
		n = r.sized()
	default:
		r.fail()
		return
	}
	r.typ = typeNone
	if n > r.end-r.pos {
		r.fail()
		return
	}
	r.pos += n
}

// Left counts the fields from the present one to the end of the message, so that a list can be made at its size. It is a
// guess if they are malformed.
func (r *Reader) Left() int { return r.count(false) }

// Run counts the fields from the present one on that have its number.
func (r *Reader) Run() int { return r.count(true) }

func (r *Reader) count(same bool) int {
	b := r.b[r.start:r.end]
	var first uint64
	for n := 0; ; n++ {
		tag, size := uvarint(b)
		if size <= 0 || same && n > 0 && tag != first {
			return max(n, 1)
		}
		first = tag
		b = b[size:]
		skip := uint64(0)
		switch tag & 7 {
		case typeVarint:
			_, size := uvarint(b)
			skip = uint64(max(size, 0))
		case typeFixed64:
			skip = 8
		case typeFixed32:
			skip = 4
		case typeSized:
			length, size := uvarint(b)
			b = b[max(size, 0):]
			skip = length
		}
		if skip > uint64(len(b)) {
			return n + 1
		}
		b = b[skip:]
	}
}

func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// Grow adds a zero element to a list, and gives a pointer to it. A list that is empty is made as large as the present run
// of fields says.
func Grow[T any](r *Reader, l *[]T) *T {
	if *l == nil {
		*l = make([]T, 0, r.Run())
	}
	var zero T
	*l = append(*l, zero)
	return &(*l)[len(*l)-1]
}
