package encoding

import (
	"encoding/binary"
	"errors"
	"math"
)

// Direction is the order in which an encoding sorts.
type Direction uint8

const (
	Ascending Direction = iota
	Descending
)

// mask is what every byte of an encoding is combined with (encoding.E2).
func (d Direction) mask() byte { return -byte(d & 1) }

// ErrMalformed is what decoders return for bytes that no encoder wrote.
var ErrMalformed = errors.New("encoding: malformed bytes")

// Kind is what an encoding holds, as far as its tag tells.
type Kind uint8

const (
	Invalid Kind = iota
	Null
	Bool
	Int
	Float
	Decimal
	Bytes
	Interval
)

// Tags in ascending order; see the table in doc.go.
const (
	tagFalse      = 0x06
	tagTrue       = 0x07
	tagIntNeg8    = 0x10
	tagIntNeg1    = 0x17
	tagIntZero    = 0x18
	tagIntSmall   = 0x3f
	tagIntPos1    = 0x40
	tagIntPos8    = 0x47
	tagFloatNeg   = 0x48
	tagFloatZero  = 0x49
	tagFloatPos   = 0x4a
	tagFloatNaN   = 0x4b
	tagDecNegInf  = 0x50
	tagDecNeg     = 0x51
	tagDecZero    = 0x52
	tagDecPos     = 0x53
	tagDecPosInf  = 0x54
	tagDecNaN     = 0x55
	tagBytes      = 0x60
	tagInterval   = 0x64
	tagNull       = 0x7f
	intSmallMax   = tagIntSmall - tagIntZero
	escape        = 0x00
	escapedZero   = 0xff
	escapedEnd    = 0x01
	microsPerDay  = 24 * 60 * 60 * 1000 * 1000
	daysPerMonth  = 30
	floatBodySize = 8
)

// invert turns what was appended after start into direction d.
func invert(b []byte, start int, d Direction) []byte {
	if d == Descending {
		for i := start; i < len(b); i++ {
			b[i] = ^b[i]
		}
	}
	return b
}

// AppendNull appends NULL: the last value in ascending order, the first in descending (encoding.E1).
func AppendNull(b []byte, d Direction) []byte { return append(b, tagNull^d.mask()) }

// IsNull reports whether b begins with NULL, in either direction.
func IsNull(b []byte) bool { return len(b) > 0 && (b[0] == tagNull || b[0] == tagNull^0xff) }

// AppendBool appends false or true.
func AppendBool(b []byte, v bool, d Direction) []byte {
	t := byte(tagFalse)
	if v {
		t = tagTrue
	}
	return append(b, t^d.mask())
}

// DecodeBool reads what AppendBool wrote.
func DecodeBool(b []byte, d Direction) (bool, []byte, error) {
	if len(b) > 0 {
		switch b[0] ^ d.mask() {
		case tagFalse:
			return false, b[1:], nil
		case tagTrue:
			return true, b[1:], nil
		}
	}
	return false, nil, ErrMalformed
}

// AppendInt appends a signed integer in one to nine bytes.
func AppendInt(b []byte, v int64, d Direction) []byte {
	if v >= 0 {
		return AppendUint(b, uint64(v), d)
	}
	n := 1
	for n < 8 && v>>(8*n) != -1 {
		n++
	}
	start := len(b)
	b = append(b, byte(tagIntZero-n))
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i)))
	}
	return invert(b, start, d)
}

// AppendUint appends an unsigned integer; it is AppendInt's encoding where both have one.
func AppendUint(b []byte, v uint64, d Direction) []byte {
	m := d.mask()
	if v <= intSmallMax {
		return append(b, byte(tagIntZero+v)^m)
	}
	n := 1
	for n < 8 && v>>(8*n) != 0 {
		n++
	}
	b = append(b, byte(tagIntPos1+n-1)^m)
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i))^m)
	}
	return b
}

// intBody reads the integer at b: its magnitude bits, and whether it is negative.
func intBody(b []byte, m byte) (bits uint64, negative bool, rest []byte, err error) {
	if len(b) == 0 {
		return 0, false, nil, ErrMalformed
	}
	t := b[0] ^ m
	b = b[1:]
	switch {
	case t >= tagIntZero && t <= tagIntSmall:
		return uint64(t - tagIntZero), false, b, nil
	case t >= tagIntPos1 && t <= tagIntPos8:
		n := int(t-tagIntPos1) + 1
		if len(b) < n {
			return 0, false, nil, ErrMalformed
		}
		for _, c := range b[:n] {
			bits = bits<<8 | uint64(c^m)
		}
		if bits <= intSmallMax || (n > 1 && bits>>(8*(n-1)) == 0) {
			return 0, false, nil, ErrMalformed
		}
		return bits, false, b[n:], nil
	case t >= tagIntNeg8 && t <= tagIntNeg1:
		n := int(tagIntZero - t)
		if len(b) < n {
			return 0, false, nil, ErrMalformed
		}
		bits = math.MaxUint64
		for _, c := range b[:n] {
			bits = bits<<8 | uint64(c^m)
		}
		if int64(bits) >= 0 || (n > 1 && int64(bits)>>(8*(n-1)) == -1) {
			return 0, false, nil, ErrMalformed
		}
		return bits, true, b[n:], nil
	}
	return 0, false, nil, ErrMalformed
}

// DecodeInt reads an integer that fits an int64.
func DecodeInt(b []byte, d Direction) (int64, []byte, error) {
	bits, neg, rest, err := intBody(b, d.mask())
	if err != nil || (!neg && bits > math.MaxInt64) {
		return 0, nil, ErrMalformed
	}
	return int64(bits), rest, nil
}

// DecodeUint reads an integer that is not negative.
func DecodeUint(b []byte, d Direction) (uint64, []byte, error) {
	bits, neg, rest, err := intBody(b, d.mask())
	if err != nil || neg {
		return 0, nil, ErrMalformed
	}
	return bits, rest, nil
}

// AppendFloat appends a float; NaN is greater than all others, and -0 is 0 (encoding.E3).
func AppendFloat(b []byte, v float64, d Direction) []byte {
	m := d.mask()
	switch {
	case math.IsNaN(v):
		return append(b, tagFloatNaN^m)
	case v == 0:
		return append(b, tagFloatZero^m)
	}
	bits := math.Float64bits(v)
	start := len(b)
	if v < 0 {
		b = append(b, tagFloatNeg)
		bits = ^bits
	} else {
		b = append(b, tagFloatPos)
	}
	b = binary.BigEndian.AppendUint64(b, bits)
	return invert(b, start, d)
}

// DecodeFloat reads what AppendFloat wrote.
func DecodeFloat(b []byte, d Direction) (float64, []byte, error) {
	if len(b) == 0 {
		return 0, nil, ErrMalformed
	}
	m := d.mask()
	t := b[0] ^ m
	switch t {
	case tagFloatNaN:
		return math.NaN(), b[1:], nil
	case tagFloatZero:
		return 0, b[1:], nil
	case tagFloatNeg, tagFloatPos:
	default:
		return 0, nil, ErrMalformed
	}
	if len(b) < 1+floatBodySize {
		return 0, nil, ErrMalformed
	}
	bits := binary.BigEndian.Uint64(b[1:])
	if d == Descending {
		bits = ^bits
	}
	if t == tagFloatNeg {
		bits = ^bits
	}
	v := math.Float64frombits(bits)
	if v == 0 || math.IsNaN(v) || (v < 0) != (t == tagFloatNeg) {
		return 0, nil, ErrMalformed
	}
	return v, b[1+floatBodySize:], nil
}

// AppendBytes appends a byte string, escaped and terminated.
func AppendBytes(b, v []byte, d Direction) []byte { return appendEscaped(b, v, d) }

// AppendString appends text; the encoding is that of its bytes.
func AppendString(b []byte, v string, d Direction) []byte { return appendEscaped(b, v, d) }

func appendEscaped[T ~string | ~[]byte](b []byte, v T, d Direction) []byte {
	start := len(b)
	b = append(b, tagBytes)
	from := 0
	for i := 0; i < len(v); i++ {
		if v[i] == escape {
			b = append(b, v[from:i]...)
			b = append(b, escape, escapedZero)
			from = i + 1
		}
	}
	b = append(b, v[from:]...)
	b = append(b, escape, escapedEnd)
	return invert(b, start, d)
}

// IsString reports whether b begins with a string in ascending order.
func IsString(b []byte) bool { return len(b) > 0 && b[0] == tagBytes }

// CutString is the beginning of a string of which b has the first bytes in ascending order: its end may be missing.
func CutString(b []byte) (string, error) {
	if _, err := Length(b); err != nil {
		if b = append([]byte(nil), b...); len(b) > 1 && b[len(b)-1] == escape {
			b = b[:len(b)-1]
		}
		b = append(b, escape, escapedEnd)
	}
	v, _, err := DecodeString(b, Ascending)
	return v, err
}

// DecodeBytes reads a byte string and appends it to buf, which may be nil; the result never shares b.
func DecodeBytes(b, buf []byte, d Direction) (v, rest []byte, err error) {
	m := d.mask()
	if len(b) == 0 || b[0]^m != tagBytes {
		return nil, nil, ErrMalformed
	}
	b = b[1:]
	if buf == nil {
		n, err := escapedLen(b, m)
		if err != nil {
			return nil, nil, err
		}
		buf = make([]byte, 0, n)
	}
	for i := 0; i < len(b); i++ {
		c := b[i] ^ m
		if c != escape {
			buf = append(buf, c)
			continue
		}
		i++
		if i == len(b) {
			break
		}
		switch b[i] ^ m {
		case escapedEnd:
			return buf, b[i+1:], nil
		case escapedZero:
			buf = append(buf, 0)
		default:
			return nil, nil, ErrMalformed
		}
	}
	return nil, nil, ErrMalformed
}

// DecodeString reads text.
func DecodeString(b []byte, d Direction) (string, []byte, error) {
	var scratch [64]byte
	v, rest, err := DecodeBytes(b, scratch[:0], d)
	if err != nil {
		return "", nil, err
	}
	return string(v), rest, nil
}

// escapedLen is the number of bytes, with the terminator, of the escaped text at b.
func escapedLen(b []byte, m byte) (int, error) {
	for i := 0; i+1 < len(b); i++ {
		if b[i]^m != escape {
			continue
		}
		i++
		switch b[i] ^ m {
		case escapedEnd:
			return i + 1, nil
		case escapedZero:
		default:
			return 0, ErrMalformed
		}
	}
	return 0, ErrMalformed
}

// IntervalValue is PostgreSQL's interval: three parts that are kept apart and compared as one length, with
// months of thirty days.
type IntervalValue struct {
	Months, Days int32
	Micros       int64
}

// AppendInterval appends an interval: its length in days and microseconds, by which it sorts, then its parts.
func AppendInterval(b []byte, v IntervalValue, d Direction) []byte {
	days := int64(v.Months)*daysPerMonth + int64(v.Days) + v.Micros/microsPerDay
	micros := v.Micros % microsPerDay
	if micros < 0 {
		days--
		micros += microsPerDay
	}
	start := len(b)
	b = append(b, tagInterval)
	b = AppendInt(b, days, Ascending)
	b = AppendInt(b, micros, Ascending)
	b = AppendInt(b, int64(v.Months), Ascending)
	b = AppendInt(b, int64(v.Days), Ascending)
	return invert(b, start, d)
}

// DecodeInterval reads what AppendInterval wrote.
func DecodeInterval(b []byte, d Direction) (IntervalValue, []byte, error) {
	if len(b) == 0 || b[0]^d.mask() != tagInterval {
		return IntervalValue{}, nil, ErrMalformed
	}
	var p [4]int64
	rest := b[1:]
	for i := range p {
		var err error
		if p[i], rest, err = DecodeInt(rest, d); err != nil {
			return IntervalValue{}, nil, err
		}
	}
	days, micros, months, day := p[0], p[1], p[2], p[3]
	const maxDays = math.MaxInt32 * (daysPerMonth + 2)
	if micros < 0 || micros >= microsPerDay || days > maxDays || days < -maxDays ||
		months != int64(int32(months)) || day != int64(int32(day)) {
		return IntervalValue{}, nil, ErrMalformed
	}
	whole := days - months*daysPerMonth - day
	if whole > math.MaxInt64/microsPerDay || whole < math.MinInt64/microsPerDay-1 {
		return IntervalValue{}, nil, ErrMalformed
	}
	// The day that AppendInterval borrowed is given back first, so that the product does not overflow.
	if whole < 0 {
		whole, micros = whole+1, micros-microsPerDay
	}
	sum := whole*microsPerDay + micros
	if (micros > 0 && sum < whole*microsPerDay) || (micros < 0 && sum > whole*microsPerDay) {
		return IntervalValue{}, nil, ErrMalformed
	}
	return IntervalValue{Months: int32(months), Days: int32(day), Micros: sum}, rest, nil
}

// Peek tells the kind and direction of the encoding at b.
func Peek(b []byte) (Kind, Direction) {
	if len(b) == 0 {
		return Invalid, Ascending
	}
	t, d := b[0], Ascending
	if t >= 0x80 {
		t, d = ^t, Descending
	}
	switch {
	case t == tagNull:
		return Null, d
	case t == tagFalse || t == tagTrue:
		return Bool, d
	case t >= tagIntNeg8 && t <= tagIntPos8:
		return Int, d
	case t >= tagFloatNeg && t <= tagFloatNaN:
		return Float, d
	case t >= tagDecNegInf && t <= tagDecNaN:
		return Decimal, d
	case t == tagBytes:
		return Bytes, d
	case t == tagInterval:
		return Interval, d
	}
	return Invalid, d
}

// Length is the number of bytes of the encoding at b, whatever its kind and direction.
func Length(b []byte) (int, error) {
	kind, d := Peek(b)
	m := d.mask()
	n := 0
	switch kind {
	case Null, Bool:
		n = 1
	case Int:
		t := b[0] ^ m
		switch {
		case t < tagIntZero:
			n = 1 + int(tagIntZero-t)
		case t <= tagIntSmall:
			n = 1
		default:
			n = 2 + int(t-tagIntPos1)
		}
	case Float:
		if t := b[0] ^ m; t == tagFloatNaN || t == tagFloatZero {
			n = 1
		} else {
			n = 1 + floatBodySize
		}
	case Decimal:
		return decimalLen(b, m)
	case Bytes:
		l, err := escapedLen(b[1:], m)
		if err != nil {
			return 0, err
		}
		n = 1 + l
	case Interval:
		n = 1
		for i := 0; i < 4; i++ {
			if k, di := Peek(b[n:]); k != Int || di != d {
				return 0, ErrMalformed
			}
			l, err := Length(b[n:])
			if err != nil {
				return 0, err
			}
			n += l
		}
	default:
		return 0, ErrMalformed
	}
	if n > len(b) {
		return 0, ErrMalformed
	}
	return n, nil
}

// Skip returns what follows the encoding at b.
func Skip(b []byte) ([]byte, error) {
	n, err := Length(b)
	if err != nil {
		return nil, err
	}
	return b[n:], nil
}

// AppendUint32Fixed appends four big-endian bytes without a tag.
func AppendUint32Fixed(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// DecodeUint32Fixed reads what AppendUint32Fixed wrote.
func DecodeUint32Fixed(b []byte) (uint32, []byte, error) {
	if len(b) < 4 {
		return 0, nil, ErrMalformed
	}
	return binary.BigEndian.Uint32(b), b[4:], nil
}
