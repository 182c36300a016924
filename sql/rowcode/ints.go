package rowcode

import (
	"errors"
	"slices"

	"meridian/encoding"
	"meridian/sql/catalog"
)

// Addend is what an update that commutes with others adds to an integer column.
type Addend struct {
	Column catalog.ColumnID
	Amount int64
}

// errNoInteger: a value lacks a column, or it is NULL, or not an integer.
var errNoInteger = errors.New("rowcode: the value has no such integer")

// Int reads an integer column of a value without knowing its table; ok is false if it is NULL, or no integer. The primary index has all columns that are not in its key.
func Int(value []byte, column catalog.ColumnID) (v int64, ok bool) {
	at, n, err := findInt(value, column)
	if err != nil {
		return 0, false
	}
	v, _, err = encoding.Varint(value[at : at+n])
	return v, err == nil
}

// AddInts gives a value with addends added to its columns. The sums have to fit; on the way there they need not.
func AddInts(value []byte, addends []Addend) ([]byte, error) {
	out := value
	for i, a := range addends {
		if slices.ContainsFunc(addends[:i], func(b Addend) bool { return b.Column == a.Column }) {
			continue // added with the first of them
		}
		at, n, err := findInt(out, a.Column)
		if err != nil {
			return nil, err
		}
		v, _, err := encoding.Varint(out[at : at+n])
		if err != nil {
			return nil, err
		}
		for _, b := range addends[i:] {
			if b.Column == a.Column {
				v += b.Amount // modulo 2^64, so that the order does not matter
			}
		}
		next := make([]byte, 0, len(out)+10)
		next = encoding.AppendVarint(append(next, out[:at]...), v)
		out = append(next, out[at+n:]...)
	}
	return out, nil
}

// findInt finds the payload of an integer column: n bytes from at on.
func findInt(value []byte, column catalog.ColumnID) (at, n int, err error) {
	if len(value) == 0 || value[0] != valueVersion {
		return 0, 0, errNoInteger
	}
	b, id := value[1:], uint64(0)
	for len(b) > 0 && id < uint64(column) {
		head, rest, err := encoding.Uvarint(b)
		if err != nil {
			return 0, 0, err
		}
		id += head >> 3
		if b, err = skipPayload(rest, head&7); err != nil {
			return 0, 0, err
		}
		if id == uint64(column) && head&7 == wireVarint {
			return len(value) - len(rest), len(rest) - len(b), nil
		}
	}
	return 0, 0, errNoInteger
}
