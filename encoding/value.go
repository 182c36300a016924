package encoding

import "encoding/binary"

// AppendUvarint appends an unsigned integer in one to ten bytes, seven bits in each.
func AppendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// Uvarint reads what AppendUvarint wrote.
func Uvarint(b []byte) (uint64, []byte, error) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], nil
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, ErrMalformed
	}
	return v, b[n:], nil
}

// AppendVarint appends a signed integer; numbers near zero are short.
func AppendVarint(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// Varint reads what AppendVarint wrote.
func Varint(b []byte) (int64, []byte, error) {
	v, n := binary.Varint(b)
	if n <= 0 {
		return 0, nil, ErrMalformed
	}
	return v, b[n:], nil
}

// AppendSized appends the length of v, then v.
func AppendSized(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// AppendSizedString is AppendSized of text.
func AppendSizedString(b []byte, v string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// Sized reads what AppendSized wrote. The result shares b.
func Sized(b []byte) (v, rest []byte, err error) {
	n, rest, err := Uvarint(b)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, ErrMalformed
	}
	return rest[:n:n], rest[n:], nil
}
