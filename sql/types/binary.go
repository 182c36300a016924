package types

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"meridian/sql/sqlstate"
)

// AppendBinary appends the binary wire form of a value of type t. NULL appends nothing: the length that precedes it
// says so.
func AppendBinary(buf []byte, d Datum, t *T) []byte {
	switch d.phys {
	case PhysNull:
		return buf
	case PhysBool:
		return append(buf, byte(d.num))
	case PhysInt:
		switch t.Kind {
		case KindEnum:
			return AppendText(buf, d, t, nil)
		case KindInt2:
			return binary.BigEndian.AppendUint16(buf, uint16(d.num))
		case KindInt8:
			return binary.BigEndian.AppendUint64(buf, uint64(d.num))
		case KindXID8:
			return binary.BigEndian.AppendUint64(buf, d.XID8())
		}
		return binary.BigEndian.AppendUint32(buf, uint32(d.num))
	case PhysFloat:
		if t.Kind == KindFloat4 {
			return binary.BigEndian.AppendUint32(buf, math.Float32bits(float32(d.Float())))
		}
		return binary.BigEndian.AppendUint64(buf, uint64(d.num))
	case PhysDecimal:
		return appendDecimalBinary(buf, d.Decimal())
	case PhysDate:
		switch d.num {
		case InfinityNum:
			return binary.BigEndian.AppendUint32(buf, math.MaxInt32)
		case NegInfinityNum:
			return binary.BigEndian.AppendUint32(buf, 1<<31)
		}
		return binary.BigEndian.AppendUint32(buf, uint32(d.num))
	case PhysTime:
		buf = binary.BigEndian.AppendUint64(buf, uint64(d.num))
		if t.Kind == KindTimeTZ {
			buf = binary.BigEndian.AppendUint32(buf, uint32(-d.zone()))
		}
		return buf
	case PhysTimestamp:
		return binary.BigEndian.AppendUint64(buf, uint64(d.num))
	case PhysInterval:
		months, days, micros := d.Interval()
		buf = binary.BigEndian.AppendUint64(buf, uint64(micros))
		buf = binary.BigEndian.AppendUint32(buf, uint32(days))
		return binary.BigEndian.AppendUint32(buf, uint32(months))
	case PhysBytes, PhysUUID, PhysMAC:
		return append(buf, d.str...)
	case PhysNet:
		return appendNetBinary(buf, d.Net(), t.Kind == KindCIDR)
	case PhysJSON:
		if t.Kind == KindJSONB {
			buf = append(buf, 1)
		}
		return append(buf, d.str...)
	case PhysArray:
		return appendArrayBinary(buf, d.Array(), t)
	case PhysTuple:
		tu := d.Tuple()
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(tu.Elems)))
		for i, e := range tu.Elems {
			et := Unknown // a literal in a row constructor has no other type
			if i < len(tu.Types) {
				et = tu.Types[i]
			}
			buf = binary.BigEndian.AppendUint32(buf, et.OID())
			buf = appendSized(buf, e, et)
		}
		return buf
	}
	return AppendText(buf, d, t, nil)
}

// appendSized appends the length and the binary form, or -1 for NULL.
func appendSized(buf []byte, d Datum, t *T) []byte {
	if d.IsNull() {
		return binary.BigEndian.AppendUint32(buf, math.MaxUint32)
	}
	at := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	buf = AppendBinary(buf, d, t)
	binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
	return buf
}

func appendArrayBinary(buf []byte, a *Array, t *T) []byte {
	elem := a.Elem
	lower := uint32(1)
	switch t.Kind {
	case KindArray:
		if t.Elem != nil && t.Elem.Kind != KindAnyElement {
			elem = t.Elem
		}
	case KindInt2Vector:
		elem, lower = Int2, 0
	case KindOIDVector:
		elem, lower = OID, 0
	}
	hasNull := uint32(0)
	for _, e := range a.Elems {
		if e.IsNull() {
			hasNull = 1
		}
	}
	dims := a.Dims()
	buf = binary.BigEndian.AppendUint32(buf, uint32(dims))
	buf = binary.BigEndian.AppendUint32(buf, hasNull)
	buf = binary.BigEndian.AppendUint32(buf, elem.OID())
	for i := range dims {
		d := a.Dim(i)
		buf = binary.BigEndian.AppendUint32(buf, uint32(d.Len))
		if a.Shape != nil {
			lower = uint32(d.Lower)
		}
		buf = binary.BigEndian.AppendUint32(buf, lower)
	}
	for _, e := range a.Elems {
		buf = appendSized(buf, e, elem)
	}
	return buf
}

func badBinary(t *T) error {
	return sqlstate.New(sqlstate.InvalidBinaryForm, "incorrect binary data format for type %s", t.Name())
}

// ParseBinary reads the binary wire form of a value of type t. It keeps nothing of b.
func ParseBinary(t *T, b []byte) (Datum, error) {
	need := func(n int) bool { return len(b) == n }
	switch t.Kind {
	case KindEnum:
		return t.Enum.parse(t, string(b))
	case KindBool:
		if !need(1) {
			return Null, badBinary(t)
		}
		return NewBool(b[0] != 0), nil
	case KindInt2:
		if !need(2) {
			return Null, badBinary(t)
		}
		return NewInt(int64(int16(binary.BigEndian.Uint16(b)))), nil
	case KindInt4:
		if !need(4) {
			return Null, badBinary(t)
		}
		return NewInt(int64(int32(binary.BigEndian.Uint32(b)))), nil
	case KindInt8:
		if !need(8) {
			return Null, badBinary(t)
		}
		return NewInt(int64(binary.BigEndian.Uint64(b))), nil
	case KindXID8:
		if !need(8) {
			return Null, badBinary(t)
		}
		return NewXID8(binary.BigEndian.Uint64(b)), nil
	case KindOID, KindRegClass, KindRegType, KindRegProc, KindRegProcedure, KindRegOper, KindRegOperator, KindRegCollation, KindRegConfig,
		KindRegDictionary, KindRegNamespace, KindRegRole:
		if !need(4) {
			return Null, badBinary(t)
		}
		return NewInt(int64(binary.BigEndian.Uint32(b))), nil
	case KindFloat4:
		if !need(4) {
			return Null, badBinary(t)
		}
		return NewFloat(float64(math.Float32frombits(binary.BigEndian.Uint32(b)))), nil
	case KindFloat8:
		if !need(8) {
			return Null, badBinary(t)
		}
		return NewFloat(math.Float64frombits(binary.BigEndian.Uint64(b))), nil
	case KindDecimal:
		d, err := parseDecimalBinary(b)
		if err != nil {
			return Null, err
		}
		return applyDecimalTypmod(NewDecimal(d), t)
	case KindText, KindUnknown, KindName, KindChar, KindVarChar, KindBPChar, KindJSON:
		if err := CheckString(b); err != nil {
			return Null, err
		}
		return ParseText(t, string(b), nil)
	case KindJSONB:
		if len(b) == 0 || b[0] != 1 {
			return Null, sqlstate.New(sqlstate.InvalidBinaryForm, "unsupported jsonb version number %d", firstByte(b))
		}
		if err := CheckString(b[1:]); err != nil {
			return Null, err
		}
		return ParseText(t, string(b[1:]), nil)
	case KindBytes:
		return NewBytes(string(b)), nil
	case KindInet, KindCIDR:
		return parseNetBinary(t, b)
	case KindMACAddr, KindMACAddr8:
		return parseMACBinary(t, b)
	case KindUUID:
		if !need(16) {
			return Null, badBinary(t)
		}
		return NewUUID([16]byte(b)), nil
	case KindDate:
		if !need(4) {
			return Null, badBinary(t)
		}
		v := int64(int32(binary.BigEndian.Uint32(b)))
		switch v {
		case math.MaxInt32:
			v = InfinityNum
		case math.MinInt32:
			v = NegInfinityNum
		default:
			if err := CheckDate(v); err != nil {
				return Null, err
			}
		}
		return NewDate(v), nil
	case KindTime:
		if !need(8) {
			return Null, badBinary(t)
		}
		v := int64(binary.BigEndian.Uint64(b))
		if v < 0 || v > DayMicros {
			return Null, sqlstate.New(sqlstate.DatetimeOverflow, "time out of range")
		}
		return NewTime(RoundMicros(v, t.Precision)), nil
	case KindTimeTZ:
		if !need(12) {
			return Null, badBinary(t)
		}
		v := int64(binary.BigEndian.Uint64(b))
		z := int32(binary.BigEndian.Uint32(b[8:]))
		if v < 0 || v > DayMicros || z < -16*3600 || z > 16*3600 {
			return Null, sqlstate.New(sqlstate.DatetimeOverflow, "time out of range")
		}
		return NewTimeTZ(RoundMicros(v, t.Precision), -z), nil
	case KindTimestamp, KindTimestampTZ:
		if !need(8) {
			return Null, badBinary(t)
		}
		v := int64(binary.BigEndian.Uint64(b))
		if !IsInfinite(v) {
			if err := CheckTimestamp(v); err != nil {
				return Null, err
			}
		}
		return NewTimestamp(RoundMicros(v, t.Precision)), nil
	case KindInterval:
		if !need(16) {
			return Null, badBinary(t)
		}
		return NewInterval(int32(binary.BigEndian.Uint32(b[12:])), int32(binary.BigEndian.Uint32(b[8:])),
			int64(binary.BigEndian.Uint64(b))), nil
	case KindArray:
		return parseArrayBinary(t, t.Elem, b)
	case KindInt2Vector:
		return parseArrayBinary(t, Int2, b)
	case KindOIDVector:
		return parseArrayBinary(t, OID, b)
	case KindVoid:
		return Null, nil
	case KindTuple:
		return parseTupleBinary(t, b)
	}
	return Null, sqlstate.New(sqlstate.FeatureNotSupported, "no binary input function available for type %s", t.Name())
}

func firstByte(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	return int(b[0])
}

// CheckString returns an error unless s can be a text: UTF-8 without zero bytes, as PostgreSQL demands.
func CheckString[S string | []byte](s S) error {
	ascii := true
	for i := range len(s) {
		if s[i]-1 >= 0x7f { // zero, or not ASCII
			ascii = false
			break
		}
	}
	if ascii {
		return nil
	}
	b := []byte(s)
	if !utf8.Valid(b) {
		return InvalidUTF8(b)
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return sqlstate.New(sqlstate.CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\": 0x00")
	}
	return nil
}

// InvalidUTF8 is the error for bytes that are no text.
func InvalidUTF8(b []byte) error {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			width := 1 // as many bytes as the first one promises
			for _, lead := range []byte{0xc0, 0xe0, 0xf0} {
				if b[i] >= lead {
					width++
				}
			}
			if b[i] >= 0xf8 {
				width = 1
			}
			e := sqlstate.New(sqlstate.CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\":")
			for _, c := range b[i:min(i+width, len(b))] {
				e.Message += fmt.Sprintf(" 0x%02x", c)
			}
			return e
		}
		i += n
	}
	return sqlstate.New(sqlstate.CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\"")
}

// parseTupleBinary reads a row of the type of a relation's rows: the number of its fields, and of each its type, length and value.
func parseTupleBinary(t *T, b []byte) (Datum, error) {
	if t.Names == nil {
		return Null, sqlstate.New(sqlstate.FeatureNotSupported, "input of anonymous composite types is not implemented")
	}
	if len(b) < 4 {
		return Null, badBinary(t)
	}
	if n := binary.BigEndian.Uint32(b); int64(n) != int64(len(t.Fields)) {
		return Null, sqlstate.New(sqlstate.DatatypeMismatch, "wrong number of columns: %d, expected %d", n, len(t.Fields))
	}
	b = b[4:]
	out := &Tuple{Types: t.Fields, Elems: make([]Datum, len(t.Fields))}
	for i, f := range t.Fields {
		if len(b) < 8 {
			return Null, badBinary(t)
		}
		if oid := binary.BigEndian.Uint32(b); oid != f.OID() {
			shown := "???"
			if x, ok := FromOID(oid); ok {
				shown = x.Name()
			}
			return Null, sqlstate.New(sqlstate.DatatypeMismatch, "binary data has type %d (%s) instead of expected %d (%s) in record column %d", oid, shown, f.OID(), f.Name(), i+1)
		}
		size := int32(binary.BigEndian.Uint32(b[4:]))
		if b = b[8:]; size < 0 {
			continue
		}
		if int64(size) > int64(len(b)) {
			return Null, sqlstate.New(sqlstate.InvalidBinaryForm, "insufficient data left in message")
		}
		d, err := ParseBinary(f, b[:size])
		if err != nil {
			return Null, err
		}
		out.Elems[i], b = d, b[size:]
	}
	if len(b) != 0 {
		return Null, badBinary(t)
	}
	return NewTuple(out), nil
}

func parseArrayBinary(t, elem *T, b []byte) (Datum, error) {
	if len(b) < 12 {
		return Null, badBinary(t)
	}
	dims := binary.BigEndian.Uint32(b)
	oid := binary.BigEndian.Uint32(b[8:])
	b = b[12:]
	if oid != elem.OID() {
		from, ok := FromOID(oid)
		if !ok || from.Phys() != elem.Phys() {
			return Null, sqlstate.New(sqlstate.DatatypeMismatch, "wrong element type")
		}
		elem = from
	}
	a := &Array{Elem: elem}
	if dims == 0 {
		return NewArray(a), nil
	}
	if dims > dimsMax {
		return Null, tooManyDims(int(dims))
	}
	if len(b) < 8*int(dims) {
		return Null, badBinary(t)
	}
	n := int64(1)
	shape := make([]Dim, dims)
	for i := range shape {
		shape[i] = Dim{int32(binary.BigEndian.Uint32(b[4:])), int32(binary.BigEndian.Uint32(b))}
		b = b[8:]
		d := shape[i]
		if d.Len < 0 || int64(d.Lower)+int64(d.Len)-1 > math.MaxInt32 {
			return Null, badBinary(t)
		}
		if n *= int64(d.Len); n > int64(len(b)/4) { // every element has at least a length
			return Null, badBinary(t)
		}
	}
	a.Elems = make([]Datum, n)
	for i := range a.Elems {
		if len(b) < 4 {
			return Null, badBinary(t)
		}
		size := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if size < 0 {
			continue
		}
		if int64(size) > int64(len(b)) {
			return Null, badBinary(t)
		}
		d, err := ParseBinary(elem, b[:size])
		if err != nil {
			return Null, err
		}
		a.Elems[i] = d
		b = b[size:]
	}
	if len(b) != 0 {
		return Null, badBinary(t)
	}
	if t.Kind != KindArray {
		return NewArray(a), nil // a vector, which starts at zero
	}
	return NewShaped(elem, a.Elems, shape), nil
}

// LocationOrUTC is loc, or UTC if it is nil.
func LocationOrUTC(loc *time.Location) *time.Location {
	if loc == nil {
		return time.UTC
	}
	return loc
}
