package wire

import (
	"encoding/binary"
	"math/bits"

	"meridian/clock"
)

// The types of a field's value.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeSized   = 2
	typeFixed32 = 5
)

func appendTag(b []byte, field, typ uint32) []byte {
	if field < 16 {
		return append(b, byte(field<<3|typ))
	}
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(typ))
}

func appendVarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

// Uint adds an integer or an enumeration.
func Uint(b []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendUint(b, field, v)
}

func appendUint(b []byte, field uint32, v uint64) []byte {
	if field < 16 && v < 0x80 {
		return append(b, byte(field<<3), byte(v))
	}
	return appendVarint(appendTag(b, field, typeVarint), v)
}

// Int adds an integer that may be negative.
func Int(b []byte, field uint32, v int64) []byte {
	if v == 0 {
		return b
	}
	return appendUint(b, field, uint64(v)<<1^uint64(v>>63))
}

// Bool adds a flag.
func Bool(b []byte, field uint32, v bool) []byte {
	if !v {
		return b
	}
	return appendUint(b, field, 1)
}

// Fixed64 adds an integer that is mostly large.
func Fixed64(b []byte, field uint32, v uint64) []byte {
	if v == 0 {
		return b
	}
	return Place(b, field, v)
}

// Place adds an integer whatever its value, so that it stands where PutPlace can change it: at the end of what is
// returned.
func Place(b []byte, field uint32, v uint64) []byte {
	if field < 16 {
		return append(b, byte(field<<3|typeFixed64), byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	return binary.LittleEndian.AppendUint64(appendTag(b, field, typeFixed64), v)
}

// PlaceSize is the size of what Place adds for a field number below sixteen.
const PlaceSize = 9

// PutPlace changes the integer that Place put at the end of b.
func PutPlace(b []byte, v uint64) { binary.LittleEndian.PutUint64(b[len(b)-8:], v) }

// Bytes adds a byte string unless it is nil.
func Bytes(b []byte, field uint32, v []byte) []byte {
	if v == nil {
		return b
	}
	return Element(b, field, v)
}

// Element adds a byte string of a list, in which nil is written as the empty one.
func Element(b []byte, field uint32, v []byte) []byte {
	if field < 16 && len(v) < 0x80 {
		return append(append(b, byte(field<<3|typeSized), byte(len(v))), v...)
	}
	return append(appendVarint(appendTag(b, field, typeSized), uint64(len(v))), v...)
}

// String adds a text.
func String(b []byte, field uint32, v string) []byte {
	if v == "" {
		return b
	}
	return append(appendVarint(appendTag(b, field, typeSized), uint64(len(v))), v...)
}

// ID adds sixteen bytes that identify something, unless they are zero.
func ID(b []byte, field uint32, v [16]byte) []byte {
	if v == [16]byte{} {
		return b
	}
	return append(append(appendTag(b, field, typeSized), byte(len(v))), v[:]...)
}

// Timestamp adds a timestamp. One that is nothing but a wall time, as most are, has type 1; another is a byte string: eight bytes of
// wall time, then a message of what else it has.
func Timestamp(b []byte, field uint32, t clock.Timestamp) []byte {
	if t.Logical == 0 {
		return Fixed64(b, field, uint64(t.Wall))
	}
	return appendTimestamp(b, field, t)
}

func appendTimestamp(b []byte, field uint32, t clock.Timestamp) []byte {
	b, at := Begin(b, field)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Wall))
	return End(Uint(b, timestampLogical, uint64(t.Logical)), at)
}

// Packed adds a list of integers.
func Packed(b []byte, field uint32, l []uint64) []byte {
	if len(l) == 0 {
		return b
	}
	b, at := Begin(b, field)
	for _, v := range l {
		b = appendVarint(b, v)
	}
	return End(b, at)
}

// Begin opens a message or a list element that is one; what follows are its fields, until End with the place that Begin
// gave. It is written even if it stays empty.
func Begin(b []byte, field uint32) (_ []byte, at int) {
	// The room for the length says how many bytes it is.
	if field < 16 {
		return append(b, byte(field<<3|typeSized), 1), len(b) + 2
	}
	b = append(appendTag(b, field, typeSized), 1)
	return b, len(b)
}

// BeginLong is Begin for a message of about size bytes, which is then not moved.
func BeginLong(b []byte, field uint32, size int) (_ []byte, at int) {
	switch {
	case size < 0x80-16:
		return Begin(b, field)
	case size < 1<<13:
		b = append(appendTag(b, field, typeSized), 0, 2)
	default:
		b = append(appendTag(b, field, typeSized), 0, 0, 0, 4)
	}
	return b, len(b)
}

// End closes the message that began at a place.
func End(b []byte, at int) []byte {
	n, room := len(b)-at, b[at-1]
	if n < 0x80 && room == 1 {
		b[at-1] = byte(n)
		return b
	}
	return endLong(b, at, int(room))
}

// endLong writes a length of more than one byte. If there is more room than the length needs, it is written with leading zeros; if
// there is less, the message is moved.
func endLong(b []byte, at, room int) []byte {
	n := len(b) - at
	if more := (bits.Len(uint(n))+6)/7 - room; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+more:], b[at:at+n])
		at, room = at+more, room+more
	}
	for i := at - room; i < at-1; i++ {
		b[i] = byte(n) | 0x80
		n >>= 7
	}
	b[at-1] = byte(n)
	return b
}

// Unknown are fields that a reader kept because it did not know them (wire.W3), with their tags. It is text so that types that have
// it stay comparable and may be copied.
type Unknown string

// Append adds them.
func (u Unknown) Append(b []byte) []byte { return append(b, u...) }
