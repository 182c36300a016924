package types

import "strings"

// A number of a transaction has 64 bits and no sign. It is held with its highest bit turned, so that integers compare as the numbers do.

const xid8Bit = 1 << 63

// NewXID8 makes the number of a transaction.
func NewXID8(n uint64) Datum { return NewInt(int64(n ^ xid8Bit)) }

// XID8 is the number of a transaction that NewXID8 has made.
func (d Datum) XID8() uint64 { return uint64(d.num) ^ xid8Bit }

// parseXID8 reads a number as C's strtoull does, which PostgreSQL 15 asks: decimal, octal or hexadecimal, up to the first character that is no digit; none
// is zero, and too large a number the largest.
func parseXID8(s string) Datum {
	s = strings.TrimLeft(s, " \t\n\r\v\f")
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	digit := func(c byte) uint64 {
		switch {
		case c >= '0' && c <= '9':
			return uint64(c - '0')
		case c >= 'a' && c <= 'f':
			return uint64(c-'a') + 10
		case c >= 'A' && c <= 'F':
			return uint64(c-'A') + 10
		}
		return 99
	}
	base := uint64(10)
	if len(s) > 0 && s[0] == '0' {
		base = 8
		if len(s) > 2 && (s[1] == 'x' || s[1] == 'X') && digit(s[2]) < 16 {
			base, s = 16, s[2:]
		}
	}
	n := uint64(0)
	for i := 0; i < len(s) && digit(s[i]) < base; i++ {
		next := n*base + digit(s[i])
		if n > (1<<64-1)/base || next < n*base {
			return NewXID8(1<<64 - 1)
		}
		n = next
	}
	if negative {
		n = -n
	}
	return NewXID8(n)
}
