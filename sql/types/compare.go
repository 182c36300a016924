package types

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Compare orders two values of one comparison family as PostgreSQL's btree does: NULL last, NaN greatest, text by
// bytes (the C collation). Integers, decimals and floats may be mixed. A blank-padded type needs T.Compare.
func Compare(a, b Datum) int {
	if a.phys == b.phys {
		switch a.phys {
		case PhysInt, PhysBool, PhysDate, PhysTimestamp:
			switch {
			case a.num < b.num:
				return -1
			case a.num > b.num:
				return 1
			}
			return 0
		case PhysString, PhysBytes, PhysUUID, PhysNet, PhysMAC:
			return strings.Compare(a.str, b.str)
		case PhysChar:
			return strings.Compare(trimBlanks(a.str), trimBlanks(b.str))
		}
	}
	return compareSlow(a, b)
}

// Equals reports whether the values are equal and neither is NULL.
func Equals(a, b Datum) bool {
	if a.phys == PhysNull || b.phys == PhysNull {
		return false
	}
	return Compare(a, b) == 0
}

// Compare orders two values of type t.
func (t *T) Compare(a, b Datum) int { return Compare(a, b) }

func trimBlanks(s string) string { return strings.TrimRight(s, " ") }

func compareSlow(a, b Datum) int {
	if a.phys == PhysNull || b.phys == PhysNull {
		switch {
		case a.phys == b.phys:
			return 0
		case a.phys == PhysNull:
			return 1
		}
		return -1
	}
	if a.phys != b.phys {
		return compareMixed(a, b)
	}
	switch a.phys {
	case PhysFloat:
		return CompareFloats(a.Float(), b.Float())
	case PhysDecimal:
		return CompareDecimals(a.Decimal(), b.Decimal())
	case PhysTime:
		// time compares by its number; timetz by the instant, then by zone.
		za, zb := int64(a.zone()), int64(b.zone())
		if c := cmpInt(a.num-za*1e6, b.num-zb*1e6); c != 0 {
			return c
		}
		return cmpInt(zb, za)
	case PhysInterval:
		ah, al := a.intervalSpan()
		bh, bl := b.intervalSpan()
		switch {
		case ah < bh:
			return -1
		case ah > bh:
			return 1
		case al < bl:
			return -1
		case al > bl:
			return 1
		}
		return 0
	case PhysJSON:
		return compareJSONText(a.str, b.str)
	case PhysArray:
		return compareArrays(a.Array(), b.Array(), Compare)
	case PhysTuple:
		x, y := a.Tuple().Elems, b.Tuple().Elems
		for i := range min(len(x), len(y)) {
			if c := Compare(x[i], y[i]); c != 0 {
				return c
			}
		}
		return cmpInt(int64(len(x)), int64(len(y)))
	}
	return 0
}

func compareArrays(a, b *Array, cmp func(a, b Datum) int) int {
	for i := range min(len(a.Elems), len(b.Elems)) {
		if c := cmp(a.Elems[i], b.Elems[i]); c != 0 {
			return c
		}
	}
	if c := cmpInt(int64(len(a.Elems)), int64(len(b.Elems))); c != 0 || a.Shape == nil && b.Shape == nil {
		return c
	}
	x, y := a.shape(), b.shape()
	if c := cmpInt(int64(len(x)), int64(len(y))); c != 0 {
		return c
	}
	for i := range x {
		if c := cmpInt(int64(x[i].Len), int64(y[i].Len)); c != 0 {
			return c
		}
	}
	for i := range x {
		if c := cmpInt(int64(x[i].Lower), int64(y[i].Lower)); c != 0 {
			return c
		}
	}
	return 0
}

func cmpInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func compareMixed(a, b Datum) int {
	switch {
	case a.phys == PhysFloat || b.phys == PhysFloat:
		return CompareFloats(a.asFloat(), b.asFloat())
	case (a.phys == PhysInt || a.phys == PhysDecimal) && (b.phys == PhysInt || b.phys == PhysDecimal):
		return CompareDecimals(a.asDecimal(), b.asDecimal())
	case a.phys == PhysDate && b.phys == PhysTimestamp:
		return cmpInt(dateMicros(a.num), b.num)
	case a.phys == PhysTimestamp && b.phys == PhysDate:
		return cmpInt(a.num, dateMicros(b.num))
	case a.phys == PhysNull || b.phys == PhysNull:
		return compareSlow(a, b)
	}
	return cmpInt(int64(a.phys), int64(b.phys))
}

func dateMicros(days int64) int64 {
	if days == InfinityNum || days == NegInfinityNum {
		return days
	}
	if days > math.MaxInt64/DayMicros {
		return math.MaxInt64 - 1
	}
	return days * DayMicros
}

func (d Datum) asFloat() float64 {
	switch d.phys {
	case PhysInt:
		return float64(d.num)
	case PhysDecimal:
		return DecimalToFloat(d.Decimal())
	}
	return d.Float()
}

func (d Datum) asDecimal() *apd.Decimal {
	if d.phys == PhysInt {
		return apd.New(d.num, 0)
	}
	return d.Decimal()
}

// CompareFloats orders floats with NaN equal to itself and above all others.
func CompareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	an, bn := math.IsNaN(a), math.IsNaN(b)
	switch {
	case an && bn:
		return 0
	case an:
		return 1
	}
	return -1
}

// CompareDecimals orders decimals with NaN equal to itself and above infinity.
func CompareDecimals(a, b *apd.Decimal) int {
	if a.Form == apd.Finite && b.Form == apd.Finite {
		return a.Cmp(b)
	}
	return cmpInt(int64(decimalRank(a)), int64(decimalRank(b)))
}

func decimalRank(d *apd.Decimal) int {
	switch d.Form {
	case apd.Finite:
		return 0
	case apd.Infinite:
		if d.Negative {
			return -1
		}
		return 1
	}
	return 2
}

// intervalSpan is the interval's length in microseconds, with 30-day months and 24-hour days, in 128 bits: it
// orders as (hi, lo).
func (d Datum) intervalSpan() (hi int64, lo uint64) {
	months, days, micros := d.Interval()
	total := int64(months)*30 + int64(days)
	neg := total < 0
	u := uint64(total)
	if neg {
		u = uint64(-total)
	}
	h, l := bits.Mul64(u, uint64(DayMicros))
	if neg {
		var borrow uint64
		l, borrow = bits.Sub64(0, l, 0)
		h, _ = bits.Sub64(0, h, borrow)
	}
	var carry uint64
	l, carry = bits.Add64(l, uint64(micros), 0)
	ext := uint64(0)
	if micros < 0 {
		ext = math.MaxUint64
	}
	h, _ = bits.Add64(h, ext, carry)
	return int64(h), l
}

// AppendHashKey appends bytes that are equal for equal values of type t and different for different ones. NULLs
// are equal to each other, as GROUP BY and DISTINCT want; a join excludes them first.
func AppendHashKey(buf []byte, d Datum, t *T) []byte {
	switch d.phys {
	case PhysNull:
		return append(buf, 0)
	case PhysBool, PhysInt, PhysDate, PhysTimestamp:
		buf = append(buf, 1)
		return binary.BigEndian.AppendUint64(buf, uint64(d.num))
	case PhysFloat:
		f := d.Float()
		if f == 0 {
			f = 0
		}
		if math.IsNaN(f) {
			f = math.NaN()
		}
		buf = append(buf, 2)
		return binary.BigEndian.AppendUint64(buf, math.Float64bits(f+0))
	case PhysDecimal:
		return appendDecimalHash(buf, d.Decimal())
	case PhysTime:
		buf = append(buf, 1)
		buf = binary.BigEndian.AppendUint64(buf, uint64(d.num-int64(d.zone())*1e6))
		if d.ref != nil {
			buf = binary.BigEndian.AppendUint32(buf, uint32(d.zone()))
		}
		return buf
	case PhysInterval:
		hi, lo := d.intervalSpan()
		buf = append(buf, 3)
		buf = binary.BigEndian.AppendUint64(buf, uint64(hi))
		return binary.BigEndian.AppendUint64(buf, lo)
	case PhysString:
		return appendHashString(buf, d.str)
	case PhysChar:
		return appendHashString(buf, trimBlanks(d.str))
	case PhysBytes, PhysUUID, PhysNet, PhysMAC:
		return appendHashString(buf, d.str)
	case PhysJSON:
		return appendJSONHash(buf, d.str)
	case PhysArray:
		a := d.Array()
		buf = append(buf, 5)
		buf = binary.AppendUvarint(buf, uint64(len(a.Elems)))
		for _, e := range a.Elems {
			buf = AppendHashKey(buf, e, a.Elem)
		}
		for _, d := range a.Shape {
			buf = binary.AppendVarint(binary.AppendVarint(buf, int64(d.Lower)), int64(d.Len))
		}
		return buf
	case PhysTuple:
		tu := d.Tuple()
		buf = append(buf, 6)
		buf = binary.AppendUvarint(buf, uint64(len(tu.Elems)))
		for i, e := range tu.Elems {
			var et *T
			if i < len(tu.Types) {
				et = tu.Types[i]
			}
			buf = AppendHashKey(buf, e, et)
		}
		return buf
	}
	return buf
}

func appendHashString(buf []byte, s string) []byte {
	buf = append(buf, 4)
	buf = binary.AppendUvarint(buf, uint64(len(s)))
	return append(buf, s...)
}
