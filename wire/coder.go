package wire

import (
	"cmp"
	"maps"
	"slices"
	"unsafe"

	"meridian/clock"
)

// Coder goes through a message's fields, to write them or to read them: a message is declared by one function that names its fields in the order in
// which they are written (docs/decisions/0020-messages-declared-once.md).
//
//	func (s *Span) fields(c *wire.Coder) {
//		c.Message("keys.Span", wire.Refuses)
//		wire.Key(c, 1, &s.Start)
//		wire.Key(c, 3, &s.End)
//	}
//
// When the Coder writes, each call adds its field. When it reads, it stands at one field of the input: a call with another number does nothing, and the call
// with that number reads the field and goes to the next one. Fields that arrive in the order of writing are read in one pass, and others in several. A field
// that a whole pass has not read is not known.
//
// A Coder leaves what it writes unchanged, so that one value may be written by several goroutines at a time.
type Coder struct {
	// r is the input. When the Coder writes, r.b is the output, and r.field is writing.
	r Reader
	// at is where the field stood at which the present pass began.
	at   int
	even Treatment
}

// Treatment is what the reader of a message does with even fields that it does not know, unless it keeps them (Coder.Unknown).
type Treatment uint8

const (
	// Skips passes over them (wire.W1).
	Skips Treatment = iota
	// Refuses is for messages all of whose fields must be understood.
	Refuses
)

// Values of Reader.field that are not numbers of fields.
const (
	writing = 0
	opened  = maxField + 1 // before the first field
	ended   = maxField + 2 // after the last one, and after an error
)

// Append adds the fields of a message to b.
func Append[T any](b []byte, v *T, fields func(*T, *Coder)) []byte {
	c := Coder{r: Reader{b: b}}
	fields(hide(v), hide(&c))
	return c.r.b
}

// Decode reads a message that is all of b. The result shares b's memory: the caller leaves b alone afterwards.
func Decode[T any](b []byte, v *T, fields func(*T, *Coder)) error {
	c := Coder{r: Reader{b: b, end: len(b), field: opened}}
	passes(hide(&c), hide(v), fields)
	return c.r.err
}

// Decoded is Decode for a message of its own.
func Decoded[T any](b []byte, fields func(*T, *Coder)) (v T, err error) {
	err = Decode(b, &v, fields)
	return v, err
}

// In reads a message at which a Reader stands.
func In[T any](r *Reader, v *T, fields func(*T, *Coder)) {
	c := Coder{r: *r}
	if r.typ == typeWhole {
		c.r.field = opened
		passes(hide(&c), hide(v), fields)
	} else {
		inside(hide(&c), hide(v), fields)
		if c.r.field != ended {
			c.r.pos = c.r.start // Reader.Next goes there itself
		}
	}
	*r = c.r
	r.typ = typeNone
}

// hide keeps the compiler from taking its argument for one that escapes: it is passed to functions that are not known where they are called, and
// that keep nothing of it. Coders, and what they write, can stay on the stack so.
func hide[T any](p *T) *T {
	x := uintptr(unsafe.Pointer(p))
	return *(**T)(unsafe.Pointer(&x))
}

// Message says which message the fields are of, and begins it. The name is for errors.
func (c *Coder) Message(name string, even Treatment) {
	if c.r.field == opened {
		c.open(name, even)
	}
}

func (c *Coder) open(name string, even Treatment) {
	c.r.name, c.even = name, even
	c.next()
}

// next goes to the next field of the message.
func (c *Coder) next() {
	r := &c.r
	r.start = r.pos
	if r.pos == r.end {
		r.field = ended
		return
	}
	if tag := uint32(r.b[r.pos]); tag < 0x80 && tag >= 1<<3 {
		r.pos++
		r.field, r.typ = tag>>3, tag&7
		return
	}
	if !r.largeTag() {
		r.field = ended
	}
}

// passes reads the message that was opened.
func passes[V any](c *Coder, v V, fields func(V, *Coder)) {
	for c.at = -1; ; c.at = c.r.start {
		fields(v, c)
		if c.r.field == ended {
			return
		}
		if c.r.start == c.at {
			c.unknown()
		}
	}
}

// unknown treats the present field, which no call has read.
func (c *Coder) unknown() {
	if c.even == Refuses {
		c.r.Refuse()
	} else {
		c.r.Skip()
	}
	c.next()
}

// enter makes the present field the message that is read.
func (c *Coder) enter() bool {
	r := &c.r
	if r.typ == typeSized && r.pos < r.end {
		if n := int(r.b[r.pos]); n < 0x80 && n < r.end-r.pos {
			r.pos++
			r.end = r.pos + n
			r.field = opened
			return true
		}
	}
	n := r.sized()
	r.end = r.pos + n
	r.field = opened
	if r.err != nil {
		r.field = ended
		return false
	}
	return true
}

// inside reads the message that is the present field, and goes to the field after it.
func inside[V any](c *Coder, v V, fields func(V, *Coder)) {
	end, name, at, even := c.r.end, c.r.name, c.at, c.even
	if !c.enter() {
		return
	}
	passes(c, v, fields)
	if c.r.err == nil {
		c.r.end, c.r.name = end, name
	}
	c.at, c.even = at, even
	c.next()
}

// Writing says whether the Coder writes.
func (c *Coder) Writing() bool { return c.r.field == writing }

// Complete says that the message has been read without error: what a message's function does then is done once, after all fields.
func (c *Coder) Complete() bool { return c.r.field == ended && c.r.err == nil }

// At is the number of the field that is to be read: zero at the message's end, and when the Coder writes.
func (c *Coder) At() uint32 {
	if c.r.field > maxField {
		return 0
	}
	return c.r.field
}

// Malformed refuses the message: its fields are each right, but not together.
func (c *Coder) Malformed() {
	c.r.field = 0
	c.r.fail()
	c.r.field = ended
}

// Left counts the fields from the present one to the end of the message, as a guess at the size of a list.
func (c *Coder) Left() int { return c.r.Left() }

// varint adds a field. The appends are in place, since a slice that is assigned to a field of c is stored as a whole, with a write barrier.
func (c *Coder) varint(n uint32, v uint64) {
	if n < 16 && v < 0x80 {
		c.r.b = append(c.r.b, byte(n<<3), byte(v))
		return
	}
	c.r.b = appendUint(c.r.b, n, v)
}

// element adds a byte string.
func (c *Coder) element(n uint32, v []byte) {
	if n < 16 && len(v) < 0x80 {
		c.r.b = append(c.r.b, byte(n<<3|typeSized), byte(len(v)))
	} else {
		c.r.b = appendVarint(appendTag(c.r.b, n, typeSized), uint64(len(v)))
	}
	c.r.b = append(c.r.b, v...)
}

// fixed adds eight bytes.
func (c *Coder) fixed(n uint32, v uint64) {
	if n < 16 {
		c.r.b = append(c.r.b, byte(n<<3|typeFixed64), byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
		return
	}
	c.r.b = Place(c.r.b, n, v)
}

// Uint64 is an integer.
func Uint64[T ~uint64](c *Coder, n uint32, v *T) {
	if c.r.field == n || c.r.field == writing && *v != 0 {
		c.uint64(n, (*uint64)(unsafe.Pointer(v)))
	}
}

func (c *Coder) uint64(n uint32, v *uint64) {
	if c.r.field == writing {
		c.varint(n, *v)
		return
	}
	*v = c.r.Uint()
	c.next()
}

// Uint32 is an integer of 32 bits.
func Uint32[T ~uint32](c *Coder, n uint32, v *T) {
	if c.r.field == n || c.r.field == writing && *v != 0 {
		c.uint32(n, (*uint32)(unsafe.Pointer(v)))
	}
}

func (c *Coder) uint32(n uint32, v *uint32) {
	if c.r.field == writing {
		c.varint(n, uint64(*v))
		return
	}
	*v = c.r.Uint32()
	c.next()
}

// Enum is an enumeration whose greatest known value is last (wire.W2).
func Enum[T ~uint8](c *Coder, n uint32, v *T, last T) {
	if c.r.field == n || c.r.field == writing && *v != 0 {
		c.enum(n, (*uint8)(unsafe.Pointer(v)), uint8(last))
	}
}

func (c *Coder) enum(n uint32, v *uint8, last uint8) {
	if c.r.field == writing {
		c.varint(n, uint64(*v))
		return
	}
	*v = c.r.Enum(last)
	c.next()
}

// Int64 is an integer that may be negative.
func Int64[T ~int64](c *Coder, n uint32, v *T) {
	if c.r.field == n || c.r.field == writing && *v != 0 {
		c.int64(n, (*int64)(unsafe.Pointer(v)))
	}
}

func (c *Coder) int64(n uint32, v *int64) {
	if c.r.field == writing {
		c.varint(n, uint64(*v)<<1^uint64(*v>>63))
		return
	}
	*v = c.r.Int()
	c.next()
}

// Int32 is an integer of 32 bits that may be negative.
func (c *Coder) Int32(n uint32, v *int32) {
	if c.r.field == n || c.r.field == writing && *v != 0 {
		c.int32(n, v)
	}
}

func (c *Coder) int32(n uint32, v *int32) {
	if c.r.field == writing {
		c.varint(n, uint64(*v)<<1^uint64(*v>>31))
		return
	}
	*v = c.r.Int32()
	c.next()
}

// Bool is a flag.
func (c *Coder) Bool(n uint32, v *bool) {
	if c.r.field == n || c.r.field == writing && *v {
		c.bool(n, v)
	}
}

func (c *Coder) bool(n uint32, v *bool) {
	if c.r.field == writing {
		c.varint(n, 1)
		return
	}
	*v = c.r.Bool()
	c.next()
}

// Fixed64 is an integer that is mostly large.
func (c *Coder) Fixed64(n uint32, v *uint64) {
	if c.r.field == n || c.r.field == writing && *v != 0 {
		c.fixed64(n, v)
	}
}

func (c *Coder) fixed64(n uint32, v *uint64) {
	if c.r.field == writing {
		c.fixed(n, *v)
		return
	}
	*v = c.r.Fixed64()
	c.next()
}

// Place is an integer that is written whatever its value, so that PutPlace can change it.
func (c *Coder) Place(n uint32, v *uint64) {
	if c.r.field == n || c.r.field == writing {
		c.fixed64(n, v)
	}
}

// Sfixed64 is one that may be negative.
func (c *Coder) Sfixed64(n uint32, v *int64) { c.Fixed64(n, (*uint64)(unsafe.Pointer(v))) }

// Float64 is a floating-point number.
func (c *Coder) Float64(n uint32, v *float64) { c.Fixed64(n, (*uint64)(unsafe.Pointer(v))) }

// As is an integer that stands for another value.
func As[T any](c *Coder, n uint32, v *T, number func(T) uint64, from func(uint64) T) {
	if c.r.field == n {
		*v = from(c.r.Uint())
		c.next()
	} else if c.r.field == writing {
		c.r.b = Uint(c.r.b, n, number(*v))
	}
}

// Bytes is a byte string; one that is nil is not written.
func (c *Coder) Bytes(n uint32, v *[]byte) {
	if c.r.field == n || c.r.field == writing && *v != nil {
		c.bytes(n, v)
	}
}

// Key is a byte string whose type has a name.
func Key[T ~[]byte](c *Coder, n uint32, v *T) {
	if c.r.field == n || c.r.field == writing && *v != nil {
		c.bytes(n, (*[]byte)(unsafe.Pointer(v)))
	}
}

func (c *Coder) bytes(n uint32, v *[]byte) {
	if c.r.field == writing {
		c.element(n, *v)
		return
	}
	*v = c.r.Bytes()
	c.next()
}

// Keys is a list of byte strings.
func Keys[T ~[]byte](c *Coder, n uint32, l *[]T) {
	if c.r.field == writing {
		for _, v := range *l {
			c.r.b = Element(c.r.b, n, v)
		}
		return
	}
	for c.r.field == n {
		*Grow(&c.r, l) = c.r.Bytes()
		c.next()
	}
}

// String is a text.
func (c *Coder) String(n uint32, v *string) {
	if c.r.field == n || c.r.field == writing && *v != "" {
		c.string(n, v)
	}
}

func (c *Coder) string(n uint32, v *string) {
	if c.r.field == writing {
		c.r.b = String(c.r.b, n, *v)
		return
	}
	*v = c.r.String()
	c.next()
}

// Strings is a list of texts.
func (c *Coder) Strings(n uint32, l *[]string) {
	if c.r.field == writing {
		for _, v := range *l {
			c.r.b = append(appendVarint(appendTag(c.r.b, n, typeSized), uint64(len(v))), v...)
		}
		return
	}
	for c.r.field == n {
		*Grow(&c.r, l) = c.r.String()
		c.next()
	}
}

// UUID is sixteen bytes that identify something.
func UUID[T ~[16]byte](c *Coder, n uint32, v *T) {
	if c.r.field == n || c.r.field == writing {
		c.uuid(n, (*[16]byte)(unsafe.Pointer(v)))
	}
}

func (c *Coder) uuid(n uint32, v *[16]byte) {
	if c.r.field == writing {
		c.r.b = ID(c.r.b, n, *v)
		return
	}
	*v = c.r.ID()
	c.next()
}

// UUIDs is a list of them.
func UUIDs[T ~[16]byte](c *Coder, n uint32, l *[]T) {
	if c.r.field == writing {
		for _, v := range *l {
			id := [16]byte(v)
			c.r.b = Element(c.r.b, n, id[:])
		}
		return
	}
	for c.r.field == n {
		*Grow(&c.r, l) = c.r.ID()
		c.next()
	}
}

// Timestamp is a timestamp.
func (c *Coder) Timestamp(n uint32, v *clock.Timestamp) {
	if c.r.field == n || c.r.field == writing && *v != (clock.Timestamp{}) {
		c.timestamp(n, v)
	}
}

func (c *Coder) timestamp(n uint32, v *clock.Timestamp) {
	if c.r.field == writing {
		if v.Logical == 0 {
			c.fixed(n, uint64(v.Wall))
			return
		}
		c.r.b = appendTimestamp(c.r.b, n, *v)
		return
	}
	*v = c.r.Timestamp()
	c.next()
}

// Packed is a list of integers.
func (c *Coder) Packed(n uint32, v *[]uint64) { Numbers(c, n, v) }

// Numbers is a list of integers whose type has a name.
func Numbers[T ~uint32 | ~uint64](c *Coder, n uint32, l *[]T) {
	if c.r.field == writing {
		if len(*l) > 0 {
			at := c.Begin(n, 0)
			for _, v := range *l {
				c.r.b = appendVarint(c.r.b, uint64(v))
			}
			c.End(at)
		}
		return
	}
	if c.r.field != n {
		return
	}
	*l = nil
	for i, read := 0, c.r.Packed(); i < len(read); i++ {
		if i == 0 {
			*l = make([]T, 0, len(read))
		}
		if *l = append(*l, T(read[i])); uint64(T(read[i])) != read[i] {
			c.Malformed()
			return
		}
	}
	c.next()
}

// Unknown are the fields that no version up to this one knows, which are written again (wire.W3). It is the last call of a message's function.
func (c *Coder) Unknown(u *Unknown) {
	if c.r.field == writing {
		c.r.b = u.Append(c.r.b)
		return
	}
	if c.r.field != ended && c.r.start == c.at {
		c.r.Keep(u)
		c.next()
	}
}

// Begin opens a message of about size bytes that is written as field n, until End with the place that Begin gave.
func (c *Coder) Begin(n uint32, size int) (at int) {
	c.r.b, at = BeginLong(c.r.b, n, size)
	return at
}

// End closes the message that began at a place.
func (c *Coder) End(at int) {
	if n := len(c.r.b) - at; n < 0x80 && c.r.b[at-1] == 1 {
		c.r.b[at-1] = byte(n)
		return
	}
	c.r.b = End(c.r.b, at)
}

// Inside reads the present field as a message.
func Inside[V any](c *Coder, v V, fields func(V, *Coder)) { inside(c, v, fields) }

func put[V any](c *Coder, n uint32, v V, fields func(V, *Coder)) {
	if n < 16 {
		c.r.b = append(c.r.b, byte(n<<3|typeSized), 1)
	} else {
		c.r.b, _ = Begin(c.r.b, n)
	}
	at := len(c.r.b)
	fields(v, c)
	c.End(at)
}

// One is a message that is always there.
func One[V any](c *Coder, n uint32, v V, fields func(V, *Coder)) {
	if c.r.field == writing {
		put(c, n, v, fields)
	} else if c.r.field == n {
		inside(c, v, fields)
	}
}

// Filled is a message that is not written if none of its fields is.
func Filled[V any](c *Coder, n uint32, v V, fields func(V, *Coder)) {
	if c.r.field != writing {
		One(c, n, v, fields)
		return
	}
	begun := len(c.r.b)
	at := c.Begin(n, 0)
	if fields(v, c); len(c.r.b) == at {
		c.r.b = c.r.b[:begun]
		return
	}
	c.End(at)
}

// Some is a message that is not written if it is zero.
func Some[T comparable](c *Coder, n uint32, v *T, fields func(*T, *Coder)) {
	var zero T
	if c.r.field == n || c.r.field == writing && *v != zero {
		One(c, n, v, fields)
	}
}

// Opt is a message that there is if its pointer is not nil.
func Opt[T any](c *Coder, n uint32, v **T, fields func(*T, *Coder)) {
	if c.r.field == writing {
		if *v != nil {
			put(c, n, *v, fields)
		}
	} else if c.r.field == n {
		*v = new(T)
		inside(c, *v, fields)
	}
}

// List is a list of messages.
func List[T any](c *Coder, n uint32, l *[]T, fields func(*T, *Coder)) {
	if c.r.field == writing {
		for i := range *l {
			put(c, n, &(*l)[i], fields)
		}
		return
	}
	for c.r.field == n {
		inside(c, Grow(&c.r, l), fields)
	}
}

// Large is a list of messages that are about as long as size says.
func Large[T any](c *Coder, n uint32, l *[]T, fields func(*T, *Coder), size func(*T) int) {
	if c.r.field == writing {
		for i := range *l {
			v := &(*l)[i]
			at := c.Begin(n, size(v))
			fields(v, c)
			c.End(at)
		}
		return
	}
	List(c, n, l, fields)
}

// Map is a list of messages that have a key and a value each, in the order of their keys.
func Map[K cmp.Ordered, V any](c *Coder, n uint32, m *map[K]V, fields func(*K, *V, *Coder)) {
	type entry struct {
		k K
		v V
	}
	of := func(e *entry, c *Coder) { fields(&e.k, &e.v, c) }
	if c.r.field == writing {
		for _, k := range slices.Sorted(maps.Keys(*m)) {
			put(c, n, &entry{k, (*m)[k]}, of)
		}
		return
	}
	for c.r.field == n {
		var e entry
		if inside(c, &e, of); *m == nil {
			*m = map[K]V{}
		}
		(*m)[e.k] = e.v
	}
}

// Case is one of the kinds of message that an interface value may be, and says whether it is that one.
func Case[T, I any](c *Coder, n uint32, i *I, fields func(*T, *Coder)) bool {
	if c.r.field == writing {
		v, ok := any(*i).(*T)
		if ok {
			put(c, n, v, fields)
		}
		return ok
	}
	if c.r.field != n {
		return false
	}
	v := new(T)
	inside(c, v, fields)
	*i = any(v).(I)
	return true
}
