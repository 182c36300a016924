package rowcode

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"meridian/encoding"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Tags of arrays in keys, in the gap that package encoding leaves: an array is its tag, its elements and an end that
// sorts below every element.
const (
	tagArray    = 0x66
	tagArrayEnd = 0x02
	// An array with a shape of its own sorts, among those with the same elements, before a plain list if it has one dimension
	// that starts below 1, and else after it. The number of dimensions, their lengths and first subscripts follow.
	tagShapeBefore = 0x01
	tagShapeAfter  = 0x03
)

// AppendKeyDatum appends a value in key order.
func AppendKeyDatum(buf []byte, d types.Datum, dir encoding.Direction) ([]byte, error) {
	switch d.Phys() {
	case types.PhysNull:
		return encoding.AppendNull(buf, dir), nil
	case types.PhysInt, types.PhysDate, types.PhysTimestamp:
		return encoding.AppendInt(buf, d.Int(), dir), nil
	case types.PhysString, types.PhysBytes, types.PhysUUID, types.PhysJSON, types.PhysNet, types.PhysMAC:
		return encoding.AppendString(buf, d.Str(), dir), nil
	case types.PhysChar:
		return encoding.AppendString(buf, types.UnpadBlanks(d.Str()), dir), nil
	case types.PhysBool:
		return encoding.AppendBool(buf, d.Bool(), dir), nil
	case types.PhysFloat:
		return encoding.AppendFloat(buf, d.Float(), dir), nil
	case types.PhysDecimal:
		return encoding.AppendDecimal(buf, d.Decimal(), dir), nil
	case types.PhysTime:
		buf = encoding.AppendInt(buf, d.Int()-int64(d.Zone())*types.SecondMicros, dir)
		return encoding.AppendInt(buf, -int64(d.Zone()), dir), nil
	case types.PhysInterval:
		months, days, micros := d.Interval()
		return encoding.AppendInterval(buf, encoding.IntervalValue{Months: months, Days: days, Micros: micros}, dir), nil
	case types.PhysArray:
		mask := byte(0)
		if dir == encoding.Descending {
			mask = 0xff
		}
		buf = append(buf, tagArray^mask)
		for _, e := range d.Array().Elems {
			var err error
			if buf, err = AppendKeyDatum(buf, e, dir); err != nil {
				return nil, err
			}
		}
		shape := d.Array().Shape
		if shape == nil {
			return append(buf, tagArrayEnd^mask), nil
		}
		tag := byte(tagShapeAfter)
		if len(shape) == 1 && shape[0].Lower < 1 {
			tag = tagShapeBefore
		}
		buf = encoding.AppendInt(append(buf, tag^mask), int64(len(shape)), dir)
		for _, s := range shape {
			buf = encoding.AppendInt(buf, int64(s.Len), dir)
		}
		for _, s := range shape {
			buf = encoding.AppendInt(buf, int64(s.Lower), dir)
		}
		return buf, nil
	}
	return nil, sqlstate.New(sqlstate.FeatureNotSupported, "values of this type cannot be in an index")
}

// boundKey appends a value as the bound of a range; of an interval, only the part that is compared.
func boundKey(buf []byte, d types.Datum, dir encoding.Direction) ([]byte, error) {
	if d.Phys() != types.PhysInterval {
		return AppendKeyDatum(buf, d, dir)
	}
	start := len(buf)
	buf, err := AppendKeyDatum(buf, d, dir)
	if err != nil {
		return nil, err
	}
	n := start + 1
	for range 2 { // days and microseconds
		l, err := encoding.Length(buf[n:])
		if err != nil {
			return nil, err
		}
		n += l
	}
	return buf[:n], nil
}

var errKey = fmt.Errorf("rowcode: malformed key")

// DecodeKeyDatum reads a value of type t from a key.
func DecodeKeyDatum(b []byte, t *types.T, dir encoding.Direction) (types.Datum, []byte, error) {
	if encoding.IsNull(b) {
		if _, d := encoding.Peek(b); d != dir {
			return types.Null, nil, errKey
		}
		return types.Null, b[1:], nil
	}
	switch t.Phys() {
	case types.PhysInt:
		v, rest, err := encoding.DecodeInt(b, dir)
		return types.NewInt(v), rest, err
	case types.PhysDate:
		v, rest, err := encoding.DecodeInt(b, dir)
		return types.NewDate(v), rest, err
	case types.PhysTimestamp:
		v, rest, err := encoding.DecodeInt(b, dir)
		return types.NewTimestamp(v), rest, err
	case types.PhysString:
		v, rest, err := encoding.DecodeString(b, dir)
		return types.NewString(v), rest, err
	case types.PhysChar:
		v, rest, err := encoding.DecodeString(b, dir)
		return types.PadChar(v, t), rest, err
	case types.PhysBytes:
		v, rest, err := encoding.DecodeString(b, dir)
		return types.NewBytes(v), rest, err
	case types.PhysJSON:
		v, rest, err := encoding.DecodeString(b, dir)
		return types.NewJSON(v), rest, err
	case types.PhysNet, types.PhysMAC:
		v, rest, err := encoding.DecodeString(b, dir)
		if err != nil {
			return types.Null, nil, err
		}
		d, ok := network(t, v)
		if !ok {
			return types.Null, nil, errKey
		}
		return d, rest, nil
	case types.PhysUUID:
		var scratch [16]byte
		v, rest, err := encoding.DecodeBytes(b, scratch[:0], dir)
		if err != nil {
			return types.Null, nil, err
		}
		if len(v) != 16 {
			return types.Null, nil, errKey
		}
		return types.NewUUID([16]byte(v)), rest, nil
	case types.PhysBool:
		v, rest, err := encoding.DecodeBool(b, dir)
		return types.NewBool(v), rest, err
	case types.PhysFloat:
		v, rest, err := encoding.DecodeFloat(b, dir)
		return types.NewFloat(v), rest, err
	case types.PhysDecimal:
		d := new(apd.Decimal)
		rest, err := encoding.DecodeDecimal(b, d, dir)
		if err != nil {
			return types.Null, nil, err
		}
		if d, err = types.NormalizeDecimal(d); err != nil {
			return types.Null, nil, err
		}
		return types.NewDecimal(d), rest, nil
	case types.PhysTime:
		utc, rest, err := encoding.DecodeInt(b, dir)
		if err != nil {
			return types.Null, nil, err
		}
		west, rest, err := encoding.DecodeInt(rest, dir)
		if err != nil || west > 1<<20 || west < -1<<20 {
			return types.Null, nil, errKey
		}
		if t.Kind == types.KindTimeTZ {
			return types.NewTimeTZ(utc-west*types.SecondMicros, int32(-west)), rest, nil
		}
		return types.NewTime(utc), rest, nil
	case types.PhysInterval:
		v, rest, err := encoding.DecodeInterval(b, dir)
		return types.NewInterval(v.Months, v.Days, v.Micros), rest, err
	case types.PhysArray:
		mask := byte(0)
		if dir == encoding.Descending {
			mask = 0xff
		}
		if len(b) == 0 || b[0]^mask != tagArray {
			return types.Null, nil, errKey
		}
		b = b[1:]
		a := &types.Array{Elem: elemOf(t)}
		for {
			if len(b) == 0 {
				return types.Null, nil, errKey
			}
			switch b[0] ^ mask {
			case tagArrayEnd:
				return types.NewArray(a), b[1:], nil
			case tagShapeBefore, tagShapeAfter:
				shape, rest, err := decodeShape(b[1:], len(a.Elems), func(b []byte) (int64, []byte, error) { return encoding.DecodeInt(b, dir) })
				return types.NewShaped(a.Elem, a.Elems, shape), rest, err
			}
			e, rest, err := DecodeKeyDatum(b, a.Elem, dir)
			if err != nil {
				return types.Null, nil, err
			}
			a.Elems = append(a.Elems, e)
			b = rest
		}
	}
	return types.Null, nil, errKey
}

// decodeShape reads the number of dimensions, their lengths and their first subscripts.
func decodeShape(b []byte, elems int, read func([]byte) (int64, []byte, error)) ([]types.Dim, []byte, error) {
	n, b, err := read(b)
	if err != nil || n < 1 || n > 6 {
		return nil, nil, errValue
	}
	shape := make([]types.Dim, n)
	size := int64(1)
	for i := range 2 * n {
		var v int64
		if v, b, err = read(b); err != nil || v != int64(int32(v)) {
			return nil, nil, errValue
		}
		if i >= n {
			shape[i-n].Lower = int32(v)
			continue
		}
		shape[i].Len = int32(v)
		if size *= v; v < 1 || size > int64(elems) {
			return nil, nil, errValue
		}
	}
	if size != int64(elems) {
		return nil, nil, errValue
	}
	return shape, b, nil
}

// skipKeyDatum steps over a value of type t.
func skipKeyDatum(b []byte, t *types.T, dir encoding.Direction) ([]byte, error) {
	if encoding.IsNull(b) {
		return b[1:], nil
	}
	switch t.Phys() {
	case types.PhysTime:
		b, err := encoding.Skip(b)
		if err != nil {
			return nil, err
		}
		return encoding.Skip(b)
	case types.PhysArray:
		_, rest, err := DecodeKeyDatum(b, t, dir)
		return rest, err
	}
	return encoding.Skip(b)
}

func elemOf(t *types.T) *types.T {
	switch t.Kind {
	case types.KindArray:
		return t.Elem
	case types.KindInt2Vector:
		return types.Int2
	case types.KindOIDVector:
		return types.OID
	}
	return types.Text
}

// mayBeInexact reports whether keys of the type can lose something (rowcode.R2).
func mayBeInexact(t *types.T) bool {
	switch t.Phys() {
	case types.PhysDecimal, types.PhysFloat:
		return true
	case types.PhysChar:
		return t.Width == 0 // the length says how many blanks there are
	case types.PhysArray:
		return mayBeInexact(elemOf(t))
	}
	return false
}

// inexact reports whether the key loses something of this value.
func inexact(d types.Datum) bool {
	switch d.Phys() {
	case types.PhysFloat:
		f := d.Float()
		return f == 0 && math.Signbit(f)
	case types.PhysChar:
		return strings.HasSuffix(d.Str(), " ")
	case types.PhysDecimal:
		x := d.Decimal()
		if x.Form != apd.Finite || x.Exponent >= 0 {
			return false
		}
		if x.Coeff.Sign() == 0 {
			return true
		}
		var scratch [40]byte
		digits := x.Coeff.Append(scratch[:0], 10)
		return digits[len(digits)-1] == '0'
	case types.PhysArray:
		for _, e := range d.Array().Elems {
			if inexact(e) {
				return true
			}
		}
	}
	return false
}

// Wire says how to step over a payload.
const (
	wireVarint = iota
	wireFixed8
	wireSized
	wireTrue
	wireFalse
	wireNull
)

func wireOf(d types.Datum) uint64 {
	switch d.Phys() {
	case types.PhysNull:
		return wireNull
	case types.PhysBool:
		if d.Bool() {
			return wireTrue
		}
		return wireFalse
	case types.PhysInt, types.PhysDate, types.PhysTimestamp:
		return wireVarint
	case types.PhysFloat:
		return wireFixed8
	}
	return wireSized
}

// appendPayload appends a value without its header.
func appendPayload(buf []byte, d types.Datum) []byte {
	switch d.Phys() {
	case types.PhysInt, types.PhysDate, types.PhysTimestamp:
		return encoding.AppendVarint(buf, d.Int())
	case types.PhysFloat:
		return binary.LittleEndian.AppendUint64(buf, uint64(d.Int()))
	case types.PhysString, types.PhysChar, types.PhysBytes, types.PhysUUID, types.PhysJSON, types.PhysNet, types.PhysMAC:
		return encoding.AppendSizedString(buf, d.Str())
	case types.PhysNull, types.PhysBool:
		return buf
	}
	var scratch [64]byte
	b := scratch[:0]
	switch d.Phys() {
	case types.PhysDecimal:
		b = appendDecimal(b, d.Decimal())
	case types.PhysTime:
		b = encoding.AppendVarint(b, d.Int())
		b = encoding.AppendVarint(b, int64(d.Zone()))
	case types.PhysInterval:
		months, days, micros := d.Interval()
		b = encoding.AppendVarint(b, int64(months))
		b = encoding.AppendVarint(b, int64(days))
		b = encoding.AppendVarint(b, micros)
	case types.PhysArray:
		a := d.Array()
		b = encoding.AppendUvarint(b, uint64(len(a.Elems)))
		for _, e := range a.Elems {
			b = append(b, byte(wireOf(e)))
			b = appendPayload(b, e)
		}
		if a.Shape != nil {
			b = encoding.AppendVarint(b, int64(len(a.Shape)))
			for _, d := range a.Shape {
				b = encoding.AppendVarint(b, int64(d.Len))
			}
			for _, d := range a.Shape {
				b = encoding.AppendVarint(b, int64(d.Lower))
			}
		}
	}
	return encoding.AppendSized(buf, b)
}

// Forms of a decimal.
const (
	decimalPos = iota
	decimalNeg
	decimalInf
	decimalNegInf
	decimalNaN
)

// appendDecimal writes form, scale and big-endian digits.
func appendDecimal(b []byte, d *apd.Decimal) []byte {
	switch d.Form {
	case apd.Finite:
	case apd.Infinite:
		if d.Negative {
			return append(b, decimalNegInf)
		}
		return append(b, decimalInf)
	default:
		return append(b, decimalNaN)
	}
	form := byte(decimalPos)
	if d.Negative {
		form = decimalNeg
	}
	b = append(b, form)
	b = encoding.AppendUvarint(b, uint64(-d.Exponent))
	if d.Coeff.IsUint64() {
		u := d.Coeff.Uint64()
		n := 0
		for s := u; s > 0; s >>= 8 {
			n++
		}
		for i := n - 1; i >= 0; i-- {
			b = append(b, byte(u>>(8*i)))
		}
		return b
	}
	return append(b, d.Coeff.Bytes()...)
}

func decodeDecimal(b []byte) (*apd.Decimal, error) {
	if len(b) == 0 {
		return nil, errValue
	}
	switch b[0] {
	case decimalInf:
		return types.DecimalInf(), nil
	case decimalNegInf:
		return types.DecimalNegInf(), nil
	case decimalNaN:
		return types.DecimalNaN(), nil
	case decimalPos, decimalNeg:
	default:
		return nil, errValue
	}
	scale, rest, err := encoding.Uvarint(b[1:])
	if err != nil || scale > 1<<15 {
		return nil, errValue
	}
	d := &apd.Decimal{Negative: b[0] == decimalNeg, Exponent: -int32(scale)}
	if len(rest) < 8 {
		u := uint64(0)
		for _, c := range rest {
			u = u<<8 | uint64(c)
		}
		d.Coeff.SetUint64(u)
	} else {
		d.Coeff.SetBytes(rest)
	}
	if d.Coeff.Sign() == 0 {
		d.Negative = false
	}
	return d, nil
}

var errValue = fmt.Errorf("rowcode: malformed value")

// skipPayload steps over a payload by its wire alone.
func skipPayload(b []byte, wire uint64) ([]byte, error) {
	switch wire {
	case wireVarint:
		_, rest, err := encoding.Varint(b)
		return rest, err
	case wireFixed8:
		if len(b) < 8 {
			return nil, errValue
		}
		return b[8:], nil
	case wireSized:
		_, rest, err := encoding.Sized(b)
		return rest, err
	case wireTrue, wireFalse, wireNull:
		return b, nil
	}
	return nil, errValue
}

// decodePayload reads a value of type t. text is a string copy of the value whose last len(b) bytes are b's; strings
// are cut from it.
func decodePayload(b []byte, wire uint64, t *types.T, text string) (types.Datum, []byte, error) {
	switch wire {
	case wireNull:
		return types.Null, b, nil
	case wireTrue, wireFalse:
		if t.Phys() != types.PhysBool {
			return types.Null, nil, errValue
		}
		return types.NewBool(wire == wireTrue), b, nil
	case wireVarint:
		v, rest, err := encoding.Varint(b)
		if err != nil {
			return types.Null, nil, err
		}
		switch t.Phys() {
		case types.PhysInt:
			return types.NewInt(v), rest, nil
		case types.PhysDate:
			return types.NewDate(v), rest, nil
		case types.PhysTimestamp:
			return types.NewTimestamp(v), rest, nil
		}
		return types.Null, nil, errValue
	case wireFixed8:
		if len(b) < 8 || t.Phys() != types.PhysFloat {
			return types.Null, nil, errValue
		}
		return types.NewFloat(math.Float64frombits(binary.LittleEndian.Uint64(b))), b[8:], nil
	case wireSized:
	default:
		return types.Null, nil, errValue
	}
	v, rest, err := encoding.Sized(b)
	if err != nil {
		return types.Null, nil, err
	}
	str := func() string {
		if text == "" {
			return string(v)
		}
		end := len(text) - len(rest)
		return text[end-len(v) : end]
	}
	switch t.Phys() {
	case types.PhysString:
		return types.NewString(str()), rest, nil
	case types.PhysChar:
		return types.PadChar(str(), t), rest, nil
	case types.PhysBytes:
		return types.NewBytes(str()), rest, nil
	case types.PhysJSON:
		return types.NewJSON(str()), rest, nil
	case types.PhysNet, types.PhysMAC:
		d, ok := network(t, string(v))
		if !ok {
			return types.Null, nil, errValue
		}
		return d, rest, nil
	case types.PhysUUID:
		if len(v) != 16 {
			return types.Null, nil, errValue
		}
		return types.NewUUID([16]byte(v)), rest, nil
	case types.PhysDecimal:
		d, err := decodeDecimal(v)
		if err != nil {
			return types.Null, nil, err
		}
		return types.NewDecimal(d), rest, nil
	case types.PhysTime:
		micros, p, err := encoding.Varint(v)
		if err != nil {
			return types.Null, nil, err
		}
		zone, p, err := encoding.Varint(p)
		if err != nil || len(p) != 0 || zone != int64(int32(zone)) {
			return types.Null, nil, errValue
		}
		if t.Kind == types.KindTimeTZ {
			return types.NewTimeTZ(micros, int32(zone)), rest, nil
		}
		return types.NewTime(micros), rest, nil
	case types.PhysInterval:
		months, p, err1 := encoding.Varint(v)
		if err1 != nil {
			return types.Null, nil, err1
		}
		days, p, err2 := encoding.Varint(p)
		if err2 != nil {
			return types.Null, nil, err2
		}
		micros, p, err3 := encoding.Varint(p)
		if err3 != nil || len(p) != 0 || months != int64(int32(months)) || days != int64(int32(days)) {
			return types.Null, nil, errValue
		}
		return types.NewInterval(int32(months), int32(days), micros), rest, nil
	case types.PhysArray:
		n, p, err := encoding.Uvarint(v)
		if err != nil || n > uint64(len(p)) {
			return types.Null, nil, errValue
		}
		a := &types.Array{Elem: elemOf(t), Elems: make([]types.Datum, n)}
		for i := range a.Elems {
			if len(p) == 0 {
				return types.Null, nil, errValue
			}
			w := uint64(p[0])
			if a.Elems[i], p, err = decodePayload(p[1:], w, a.Elem, ""); err != nil {
				return types.Null, nil, err
			}
		}
		if len(p) == 0 {
			return types.NewArray(a), rest, nil
		}
		shape, p, err := decodeShape(p, len(a.Elems), encoding.Varint)
		if err != nil || len(p) != 0 {
			return types.Null, nil, errValue
		}
		return types.NewShaped(a.Elem, a.Elems, shape), rest, nil
	}
	return types.Null, nil, errValue
}

// network is the address of type t that is stored as these bytes.
func network(t *types.T, s string) (types.Datum, bool) {
	if t.Phys() == types.PhysNet {
		return types.NewStoredNet(s)
	}
	return types.NewMAC([]byte(s)), len(s) == int(t.Len())
}
