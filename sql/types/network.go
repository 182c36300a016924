package types

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

// A network address is held as bytes whose order is PostgreSQL's order of inet and cidr: first the family, then the network, then
// the length of the network's mask, then the whole address (types.T8).
//
//	family     network (4 or 16 bytes)     mask     address (4 or 16 bytes)
//	4 or 6     without the host's bits     length   as it was written
//
// So comparisons, keys of indexes and hashes treat an address as they treat a bytea. The order is the same, since of two networks of
// one family, either some bit that both masks cover differs, and it decides; or the network with the shorter mask has zeros
// where the other's mask goes on, and is either smaller, or equal and ordered by the length of the mask.
//
// A macaddr or macaddr8 is held as its six or eight bytes.

// Net is a network address with the length of its network's mask: a value of inet or cidr.
type Net struct {
	Addr netip.Addr // of four or sixteen bytes, without a zone
	Bits int
}

// NewNet makes an inet or a cidr.
func NewNet(n Net) Datum {
	a := n.Addr.AsSlice()
	b := make([]byte, 0, 2+2*len(a))
	b = append(b, n.family())
	b = append(b, n.Masked().Addr.AsSlice()...)
	b = append(b, byte(n.Bits))
	return Datum{phys: PhysNet, str: string(append(b, a...))}
}

// NewStoredNet makes an inet or a cidr of the bytes that Str gave; ok is false if they are none.
func NewStoredNet(s string) (d Datum, ok bool) {
	switch len(s) {
	case 2 + 2*4:
		ok = s[0] == 4 && s[5] <= 32
	case 2 + 2*16:
		ok = s[0] == 6 && s[17] <= 128
	}
	return Datum{phys: PhysNet, str: s}, ok
}

// Net is the value of an inet or a cidr.
func (d Datum) Net() Net {
	n := (len(d.str) - 2) / 2
	a, _ := netip.AddrFromSlice([]byte(d.str[2+n:]))
	return Net{a, int(d.str[1+n])}
}

// NewMAC makes a macaddr of six bytes, or a macaddr8 of eight.
func NewMAC(b []byte) Datum { return Datum{phys: PhysMAC, str: string(b)} }

func (n Net) family() byte {
	if n.Addr.Is4() {
		return 4
	}
	return 6
}

// Masked is the network: the address without the bits of the host.
func (n Net) Masked() Net {
	return Net{netip.PrefixFrom(n.Addr, n.Bits).Masked().Addr(), n.Bits}
}

// SameFamily says that both are IPv4, or both IPv6.
func (n Net) SameFamily(o Net) bool { return n.Addr.Is4() == o.Addr.Is4() }

// Covers says that o's address is in the network n.
func (n Net) Covers(o Net) bool {
	return n.SameFamily(o) && netip.PrefixFrom(n.Addr, n.Bits).Contains(o.Addr)
}

// parseNet reads an inet or a cidr.
func parseNet(t *T, s string) (Datum, error) {
	n, ok := parseNetText(s, t.Kind == KindCIDR)
	if !ok {
		return Null, badInput(t, s)
	}
	if t.Kind == KindCIDR && n.Masked().Addr != n.Addr {
		return Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "invalid cidr value: %q", Raw(s)).WithDetail("Value has bits set to right of mask.")
	}
	return NewNet(n), nil
}

func parseNetText(s string, network bool) (Net, bool) {
	if strings.Contains(s, ":") {
		return parseNet6(s)
	}
	var addr []byte
	rest, ok := s, true
	if hexed := len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && isHex(s[2]); hexed && network {
		addr, rest, ok = hexOctets(s[2:])
	} else {
		addr, rest, ok = octets(s, network)
	}
	if !ok || len(addr) == 0 || len(addr) > 4 {
		return Net{}, false
	}
	bits := -1
	if rest != "" {
		if bits, ok = maskLength(rest, 32); !ok {
			return Net{}, false
		}
	}
	given := 8 * len(addr)
	switch {
	case network && bits < 0:
		bits = classBits(addr[0], given)
	case network:
		// A mask may be longer than the address as written.
	case bits < 0 && given == 32:
		bits = 32
	case bits < 0 || bits/8 > len(addr):
		return Net{}, false
	}
	var full [4]byte
	copy(full[:], addr)
	return Net{netip.AddrFrom4(full), bits}, true
}

// octets reads decimal octets between dots. In a cidr each dot is followed by another octet.
func octets(s string, network bool) (addr []byte, rest string, ok bool) {
	for {
		n, value := 0, 0
		for n < len(s) && isDigit(s[n]) {
			if value = value*10 + int(s[n]-'0'); value > 255 {
				return nil, "", false
			}
			n++
		}
		if n == 0 {
			return addr, s, len(addr) > 0 && s == "" && !network
		}
		if addr = append(addr, byte(value)); len(addr) > 4 {
			return nil, "", false
		}
		if s = s[n:]; s == "" || s[0] == '/' {
			return addr, s, true
		}
		if s[0] != '.' {
			return nil, "", false
		}
		s = s[1:]
	}
}

// hexOctets reads a network as hexadecimal digits; a last digit alone is the upper half of its octet.
func hexOctets(s string) (addr []byte, rest string, ok bool) {
	n := 0
	for n < len(s) && isHex(s[n]) {
		n++
	}
	digits, rest := s[:n], s[n:]
	if len(digits)%2 != 0 {
		digits += "0"
	}
	addr, err := hex.DecodeString(digits)
	return addr, rest, err == nil
}

// maskLength reads the length of a mask with its slash.
func maskLength(s string, most int) (int, bool) {
	if len(s) < 2 || s[0] != '/' {
		return 0, false
	}
	n := 0
	for i := 1; i < len(s); i++ {
		if !isDigit(s[i]) {
			return 0, false
		}
		if n = n*10 + int(s[i]-'0'); n > most {
			return 0, false
		}
	}
	return n, true
}

// classBits is the length of the mask of a network that was written without one: that of its historical class, and no less
// than the octets written.
func classBits(first byte, given int) int {
	bits := 8
	switch {
	case first >= 240:
		bits = 32
	case first >= 224:
		// class D
	case first >= 192:
		bits = 24
	case first >= 128:
		bits = 16
	}
	bits = max(bits, given)
	if bits == 8 && first == 224 {
		return 4
	}
	return bits
}

func parseNet6(s string) (Net, bool) {
	text, mask, masked := strings.Cut(s, "/")
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return Net{}, false
	}
	bits := 128
	if masked {
		if len(mask) > 1 && mask[0] == '0' {
			return Net{}, false
		}
		var ok bool
		if bits, ok = maskLength("/"+mask, 128); !ok {
			return Net{}, false
		}
	}
	return Net{netip.AddrFrom16(a.As16()), bits}, true
}

func isHex(c byte) bool {
	return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// Host is the address without its mask.
func (n Net) Host() string {
	if n.Addr.Is4() {
		return n.Addr.String()
	}
	// An address that embeds one of IPv4 shows it. netip does so for ::ffff:1.2.3.4, and PostgreSQL for ::1.2.3.4 too.
	a := n.Addr.As16()
	if zeros := leadingZeros(a); zeros >= 12 && zeros < 14 {
		return "::" + netip.AddrFrom4([4]byte(a[12:])).String()
	}
	return n.Addr.String()
}

// leadingZeros counts the bytes before the first that is not zero.
func leadingZeros(a [16]byte) int {
	for i, b := range a {
		if b != 0 {
			return i
		}
	}
	return len(a)
}

// String is the address with its mask, also if the mask covers all of it.
func (n Net) String() string { return n.Host() + "/" + strconv.Itoa(n.Bits) }

func appendNet(buf []byte, n Net, network bool) []byte {
	buf = append(buf, n.Host()...)
	if network || n.Bits != n.Addr.BitLen() {
		buf = strconv.AppendInt(append(buf, '/'), int64(n.Bits), 10)
	}
	return buf
}

// The families of the binary form: PostgreSQL's, which are the same on all systems.
const (
	binaryIPv4 = 2
	binaryIPv6 = 3
)

func appendNetBinary(buf []byte, n Net, network bool) []byte {
	a := n.Addr.AsSlice()
	family, flag := byte(binaryIPv4), byte(0)
	if len(a) == 16 {
		family = binaryIPv6
	}
	if network {
		flag = 1
	}
	return append(append(buf, family, byte(n.Bits), flag, byte(len(a))), a...)
}

func parseNetBinary(t *T, b []byte) (Datum, error) {
	bad := func(what string) (Datum, error) {
		return Null, sqlstate.New(sqlstate.InvalidBinaryForm, "invalid %s in external %q value", what, Raw(t.Name()))
	}
	if len(b) < 4 {
		return Null, sqlstate.New(sqlstate.ProtocolViolation, "insufficient data left in message")
	}
	size := 4
	switch b[0] {
	case binaryIPv4:
	case binaryIPv6:
		size = 16
	default:
		return bad("address family")
	}
	if int(b[1]) > 8*size {
		return bad("bits")
	}
	if int(b[3]) != size {
		return bad("length")
	}
	if len(b) != 4+size {
		return Null, badBinary(t)
	}
	a, _ := netip.AddrFromSlice(b[4:])
	n := Net{a, int(b[1])}
	if t.Kind == KindCIDR && n.Masked().Addr != a {
		return Null, sqlstate.New(sqlstate.InvalidBinaryForm, "invalid external \"cidr\" value").WithDetail("Value has bits set to right of mask.")
	}
	return NewNet(n), nil
}

// parseMAC reads a macaddr or a macaddr8.
func parseMAC(t *T, s string) (Datum, error) {
	var b []byte
	ok := false
	if t.Kind == KindMACAddr8 {
		b, ok = parseMAC8(s)
	} else {
		for _, form := range macForms {
			var large bool
			if b, large, ok = form.read(s); ok {
				if large {
					return Null, sqlstate.New(sqlstate.NumericOutOfRange, "invalid octet value in \"macaddr\" value: %q", Raw(s))
				}
				break
			}
		}
	}
	if !ok {
		return Null, badInput(t, s)
	}
	return NewMAC(b), nil
}

// macForm is a way to write a macaddr: which byte separates groups, and how many octets a group has. An octet that stands alone may
// have any number of digits, and one in a group has one or two.
type macForm struct {
	separator byte
	group     int
}

// macForms are tried in PostgreSQL's order.
var macForms = [...]macForm{{':', 1}, {'-', 1}, {':', 3}, {'-', 3}, {'.', 2}, {'-', 2}, {0, 6}}

func (f macForm) read(s string) (b []byte, large, ok bool) {
	for i := range 6 {
		if i > 0 && i%f.group == 0 {
			if s == "" || s[0] != f.separator {
				return nil, false, false
			}
			s = s[1:]
		}
		s = strings.TrimLeft(s, " \t\n\r\v\f")
		n := 0
		for n < len(s) && isHex(s[n]) && (f.group == 1 || n < 2) {
			n++
		}
		v, err := strconv.ParseUint(s[:n], 16, 32)
		if err != nil {
			return nil, false, false
		}
		large = large || v > 255
		b, s = append(b, byte(v)), s[n:]
	}
	return b, large, trimSpace(s) == ""
}

// parseMAC8 reads pairs of digits, with one kind of separator between them or none. Six octets have ff and fe put in their middle.
func parseMAC8(s string) ([]byte, bool) {
	s = trimSpace(s)
	var b []byte
	separator := byte(0)
	for s != "" {
		if len(s) < 2 || !isHex(s[0]) || !isHex(s[1]) || len(b) == 8 {
			return nil, false
		}
		v, _ := strconv.ParseUint(s[:2], 16, 8)
		b, s = append(b, byte(v)), s[2:]
		if s != "" && (s[0] == ':' || s[0] == '-' || s[0] == '.') {
			if separator == 0 {
				separator = s[0]
			}
			if s[0] != separator {
				return nil, false
			}
			s = s[1:]
		}
	}
	if len(b) == 6 {
		b = slices.Insert(b, 3, 0xff, 0xfe)
	}
	return b, len(b) == 8
}

func appendMAC(buf []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := range len(s) {
		if i > 0 {
			buf = append(buf, ':')
		}
		buf = append(buf, digits[s[i]>>4], digits[s[i]&15])
	}
	return buf
}

func parseMACBinary(t *T, b []byte) (Datum, error) {
	switch {
	case t.Kind == KindMACAddr && len(b) == 6, t.Kind == KindMACAddr8 && len(b) == 8:
		return NewMAC(b), nil
	case t.Kind == KindMACAddr8 && len(b) == 6:
		return NewMAC(slices.Insert(slices.Clone(b), 3, 0xff, 0xfe)), nil
	}
	return Null, badBinary(t)
}

// castNet converts between inet and cidr.
func castNet(d Datum, from, to *T) (Datum, error) {
	switch to.Kind {
	case KindInet:
		return d, nil
	case KindCIDR:
		if from.Kind == KindCIDR {
			return d, nil
		}
		return NewNet(d.Net().Masked()), nil
	}
	return Null, cannotCast(from, to)
}

// castMAC converts between macaddr and macaddr8.
func castMAC(d Datum, from, to *T) (Datum, error) {
	b := []byte(d.str)
	switch {
	case from.Kind == to.Kind:
		return d, nil
	case to.Kind == KindMACAddr8:
		return NewMAC(slices.Insert(b, 3, 0xff, 0xfe)), nil
	case to.Kind == KindMACAddr && b[3] == 0xff && b[4] == 0xfe:
		return NewMAC(slices.Delete(b, 3, 5)), nil
	case to.Kind == KindMACAddr:
		return Null, sqlstate.New(sqlstate.NumericOutOfRange, "macaddr8 data out of range to convert to macaddr").WithHint(
			"Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.")
	}
	return Null, cannotCast(from, to)
}
