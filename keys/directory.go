package keys

import (
	"meridian/encoding"
)

// Interleaved is the byte between a row's key and those of rows of other tables that are stored with it:
//
//	/Table/104/1/7                            the row 7 of table 104
//	/Table/104/1/7/Interleaved/105/1/1        a row of table 105 that belongs to it
//	/Table/104/1/7/Interleaved/105/1/1/Interleaved/106/1/9
//	/Table/104/1/8
//
// No encoding of a column begins with it (package encoding), so the byte behind a row's own columns tells the row's key from those of rows that are stored with it. A row's key
// is a prefix of theirs: the row sorts before all that is stored with it, and all of that before the next row. A directory is a row of a table without a parent, with all that is
// stored with it (Spanner §2.2, §2.3).
const Interleaved = 0x04

// AppendInterleaved appends what stands in the key of an interleaved row between its parent's key and its own columns.
func AppendInterleaved[T, I ~uint32](b []byte, table T, index I) []byte {
	b = encoding.AppendUint(append(b, Interleaved), uint64(table), encoding.Ascending)
	return encoding.AppendUint(b, uint64(index), encoding.Ascending)
}

// Owner gives the table and index of which a key is an entry, and the columns that follow the last table's name. Of a key that is not interleaved it is what DecodeIndexKey gives.
func Owner(k Key) (table, index uint32, rest []byte, err error) {
	if table, index, rest, err = DecodeIndexKey(k); err != nil {
		return 0, 0, nil, err
	}
	for b := rest; ; {
		at := nextInterleaved(b)
		if at < 0 {
			return table, index, rest, nil
		}
		t, b2, err := encoding.DecodeUint(b[at+1:], encoding.Ascending)
		if err != nil || t != uint64(uint32(t)) {
			return 0, 0, nil, ErrMalformed
		}
		i, b2, err := encoding.DecodeUint(b2, encoding.Ascending)
		if err != nil || i != uint64(uint32(i)) {
			return 0, 0, nil, ErrMalformed
		}
		table, index, rest, b = uint32(t), uint32(i), b2, b2
	}
}

// nextInterleaved finds the next Interleaved between the columns in b; -1: there is none. A column that is more than one encoding ends the search: a table with one has no
// interleaved rows.
func nextInterleaved(b []byte) int {
	for at := 0; at < len(b); {
		if b[at] == Interleaved {
			return at
		}
		n, err := encoding.Length(b[at:])
		if err != nil {
			return -1
		}
		at += n
	}
	return -1
}

// Directory is the key of the row to whose directory a key belongs. ok is false if the key is none of an interleaved row: then it begins a directory itself, as far as the key
// tells.
func Directory(k Key) (row Key, ok bool) {
	_, _, rest, err := DecodeIndexKey(k)
	if err != nil {
		return nil, false
	}
	at := nextInterleaved(rest)
	if at < 0 {
		return nil, false
	}
	return k[: len(k)-len(rest)+at : len(k)-len(rest)+at], true
}

// Boundaries are the boundaries of directories around a key: where the directory that has the key begins and ends. Of a key that is none of an interleaved row both are the key. A
// boundary that is not within [start, end) is nil.
func Boundaries(k, start, end Key) (before, after Key) {
	within := func(b Key) Key {
		if start.Less(b) && b.Less(end) {
			return b
		}
		return nil
	}
	row, ok := Directory(k)
	if !ok {
		return within(k), within(k)
	}
	return within(row), within(row.PrefixEnd())
}
