package types

import "strings"

// LargeBytes is the size from which a value is accounted for also where it is held for one row only. Chosen by us: a
// statement has some thousands of smaller values at a time at most, and accounting for each would cost more than it
// protects.
const LargeBytes = 16 << 10

// datumBytes is the size of a Datum itself.
const datumBytes = 48

// Bytes is the approximate memory of the value, the Datum included.
func (d *Datum) Bytes() int64 {
	n := int64(datumBytes + len(d.str))
	if d.ref == nil {
		return n
	}
	switch d.phys {
	case PhysDecimal:
		n += 72
		if bits := int64(d.Decimal().Coeff.BitLen()); bits > 128 {
			n += bits / 8
		}
	case PhysInterval:
		n += 8
	case PhysArray:
		es := d.Array().Elems
		for i := range es {
			n += es[i].Bytes()
		}
	case PhysTuple:
		es := d.Tuple().Elems
		for i := range es {
			n += es[i].Bytes()
		}
	}
	return n
}

// Weight is Bytes of a large value, and zero for any other. The weight of nested arrays and row values is that of their text,
// which may be much larger than they are.
func (d *Datum) Weight() int64 {
	if d.ref == nil {
		if len(d.str) < LargeBytes {
			return 0
		}
		return datumBytes + int64(len(d.str))
	}
	return d.refWeight()
}

func (d *Datum) refWeight() int64 {
	n := d.Bytes()
	if d.phys == PhysTuple || d.phys == PhysArray {
		n = max(n, d.nestedTextBytes())
	}
	if n >= LargeBytes {
		return n
	}
	return 0
}

// nestedTextBytes bounds the text form of an array or a row value that has others in it, and is zero for any other value. Each
// level quotes the text of the one below, so that the text doubles with each level, however small the value is.
func (d *Datum) nestedTextBytes() int64 {
	nested := false
	n := d.textBytes(&nested)
	if !nested {
		return 0
	}
	return n
}

// textBytesMax is where textBytes stops counting; chosen by us, above any budget.
const textBytesMax = 1 << 40

func (d *Datum) textBytes(nested *bool) int64 {
	var elems []Datum
	switch d.phys {
	case PhysArray:
		elems = d.Array().Elems
	case PhysTuple:
		elems = d.Tuple().Elems
	case PhysBytes:
		return 2 * d.Bytes() // in hexadecimal digits
	default:
		return d.Bytes()
	}
	n := int64(2)
	for i := range elems {
		e := &elems[i]
		*nested = *nested || e.phys == PhysArray || e.phys == PhysTuple
		if n += 2*e.textBytes(nested) + 3; n > textBytesMax {
			*nested = true
			return textBytesMax
		}
	}
	return n
}

// JSONBytes bounds the memory of the parsed form of a JSON text, before it is parsed: every value but the first follows a
// comma, a colon or a bracket.
func JSONBytes(text string) int64 {
	var n int64 = 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ',', ':', '[', '{':
			n++
		}
	}
	return n*jsonNodeBytes + int64(len(text))
}

// jsonNodeBytes is the size of a JSONValue with its place in the list of its parent, which may be twice as long as needed.
const jsonNodeBytes = 160

// Detach is the value without the larger text of which its own is a piece.
func (d Datum) Detach() Datum {
	d.str = strings.Clone(d.str)
	return d
}

// ArrayTextBytes bounds the memory of the elements of an array's text form besides their text.
func ArrayTextBytes(text string) int64 {
	return int64(strings.Count(text, ",")+1) * 2 * (datumBytes + 72)
}
