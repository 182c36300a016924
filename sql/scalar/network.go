package scalar

import (
	"math/bits"
	"net/netip"
	"strconv"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addNetwork adds PostgreSQL's functions of inet, cidr, macaddr and macaddr8.
func addNetwork(r *Registry) {
	addNetworkOperators(r)
	addNetworkFunctions(r)
	addMAC(r)
}

func netDatum(n types.Net) (types.Datum, error) { return types.NewNet(n), nil }

func addNetworkOperators(r *Registry) {
	test := func(op string, f func(a, b types.Net) bool) {
		r.op2(op+"(inet, inet) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) {
			return types.NewBool(f(a.Net(), b.Net())), nil
		})
	}
	test("<<", func(a, b types.Net) bool { return a.Bits > b.Bits && b.Covers(a) })
	test("<<=", func(a, b types.Net) bool { return a.Bits >= b.Bits && b.Covers(a) })
	test(">>", func(a, b types.Net) bool { return b.Bits > a.Bits && a.Covers(b) })
	test(">>=", func(a, b types.Net) bool { return b.Bits >= a.Bits && a.Covers(b) })
	test("&&", func(a, b types.Net) bool {
		if a.Bits > b.Bits {
			a, b = b, a
		}
		return a.Covers(b)
	})

	r.op1("~(inet) inet", func(_ *Context, d types.Datum) (types.Datum, error) {
		n := d.Net()
		return netDatum(types.Net{Addr: addrOf(words(n.Addr).not(), n.Addr), Bits: n.Bits})
	})
	bitwise := func(op, word string, f func(a, b uint128) uint128) {
		r.op2(op+"(inet, inet) inet", func(_ *Context, a, b types.Datum) (types.Datum, error) {
			x, y := a.Net(), b.Net()
			if !x.SameFamily(y) {
				return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot %s inet values of different sizes", word)
			}
			return netDatum(types.Net{Addr: addrOf(f(words(x.Addr), words(y.Addr)), x.Addr), Bits: max(x.Bits, y.Bits)})
		})
	}
	bitwise("&", "AND", func(a, b uint128) uint128 { return uint128{a.hi & b.hi, a.lo & b.lo} })
	bitwise("|", "OR", func(a, b uint128) uint128 { return uint128{a.hi | b.hi, a.lo | b.lo} })

	plus := func(d types.Datum, by int64) (types.Datum, error) {
		n := d.Net()
		sum, ok := words(n.Addr).plus(by)
		if !ok || n.Addr.Is4() && (sum.hi != 0 || sum.lo>>32 != 0) {
			return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "result is out of range")
		}
		return netDatum(types.Net{Addr: addrOf(sum, n.Addr), Bits: n.Bits})
	}
	r.op2("+(inet, int8) inet", func(_ *Context, a, b types.Datum) (types.Datum, error) { return plus(a, b.Int()) })
	r.op2("+(int8, inet) inet", func(_ *Context, a, b types.Datum) (types.Datum, error) { return plus(b, a.Int()) })
	// The smallest number is its own negation, as in PostgreSQL.
	r.op2("-(inet, int8) inet", func(_ *Context, a, b types.Datum) (types.Datum, error) { return plus(a, -b.Int()) })
	r.op2("-(inet, inet) int8", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Net(), b.Net()
		if !x.SameFamily(y) {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot subtract inet values of different sizes")
		}
		v, ok := words(x.Addr).minus(words(y.Addr))
		if !ok {
			return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "result is out of range")
		}
		return types.NewInt(v), nil
	})
}

func addNetworkFunctions(r *Registry) {
	r.Func1("host(inet) text", func(_ *Context, d types.Datum) (types.Datum, error) { return str(d.Net().Host()) })
	r.Func1("abbrev(inet) text", func(_ *Context, d types.Datum) (types.Datum, error) {
		return str(types.FormatText(d, types.Inet, nil))
	})
	r.Func1("abbrev(cidr) text", func(_ *Context, d types.Datum) (types.Datum, error) { return str(abbreviated(d.Net())) })

	address := func(sig string, f func(n types.Net) types.Net) {
		r.Func1(sig, func(_ *Context, d types.Datum) (types.Datum, error) { return netDatum(f(d.Net())) })
	}
	single := func(n types.Net, w uint128) types.Net {
		return types.Net{Addr: addrOf(w, n.Addr), Bits: n.Addr.BitLen()}
	}
	address("network(inet) cidr", types.Net.Masked)
	address("netmask(inet) inet", func(n types.Net) types.Net { return single(n, hostBits(n).not()) })
	address("hostmask(inet) inet", func(n types.Net) types.Net { return single(n, hostBits(n)) })
	address("broadcast(inet) inet", func(n types.Net) types.Net {
		a, h := words(n.Addr), hostBits(n)
		return types.Net{Addr: addrOf(uint128{a.hi | h.hi, a.lo | h.lo}, n.Addr), Bits: n.Bits}
	})
	r.Func1("masklen(inet) int4", func(_ *Context, d types.Datum) (types.Datum, error) { return types.NewInt(int64(d.Net().Bits)), nil })
	r.Func1("family(inet) int4", func(_ *Context, d types.Datum) (types.Datum, error) {
		if d.Net().Addr.Is4() {
			return types.NewInt(4), nil
		}
		return types.NewInt(6), nil
	})
	for _, t := range []string{"inet", "cidr"} {
		r.Func2("set_masklen("+t+", int4) "+t, func(_ *Context, a, b types.Datum) (types.Datum, error) {
			n, length := a.Net(), b.Int()
			if length == -1 {
				length = int64(n.Addr.BitLen())
			}
			if length < 0 || length > int64(n.Addr.BitLen()) {
				return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid mask length: %d", length)
			}
			n.Bits = int(length)
			if t == "cidr" {
				n = n.Masked()
			}
			return netDatum(n)
		})
	}
	r.Func2("inet_same_family(inet, inet) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		return types.NewBool(a.Net().SameFamily(b.Net())), nil
	})
	r.Func2("inet_merge(inet, inet) cidr", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		x, y := a.Net(), b.Net()
		if !x.SameFamily(y) {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot merge addresses from different families")
		}
		v, w := words(x.Addr), words(y.Addr)
		common := uint128{v.hi ^ w.hi, v.lo ^ w.lo}.leadingZeros() - (128 - x.Addr.BitLen())
		x.Bits = min(x.Bits, y.Bits, common)
		return netDatum(x.Masked())
	})
	r.agg("min(inet) inet", func() Accumulator { return &extreme{sign: -1, compare: types.Compare} })
	r.agg("max(inet) inet", func() Accumulator { return &extreme{sign: 1, compare: types.Compare} })
}

func addMAC(r *Registry) {
	for _, t := range []string{"macaddr", "macaddr8"} {
		each := func(sig string, f func(a, b byte) byte) {
			r.op2(sig+"("+t+", "+t+") "+t, func(_ *Context, a, b types.Datum) (types.Datum, error) {
				out := []byte(a.Str())
				for i := range out {
					out[i] = f(out[i], b.Str()[i])
				}
				return types.NewMAC(out), nil
			})
		}
		each("&", func(a, b byte) byte { return a & b })
		each("|", func(a, b byte) byte { return a | b })
		r.op1("~("+t+") "+t, func(_ *Context, d types.Datum) (types.Datum, error) {
			out := []byte(d.Str())
			for i := range out {
				out[i] = ^out[i]
			}
			return types.NewMAC(out), nil
		})
		r.Func1("trunc("+t+") "+t, func(_ *Context, d types.Datum) (types.Datum, error) {
			out := []byte(d.Str())
			clear(out[3:])
			return types.NewMAC(out), nil
		})
	}
	r.Func1("macaddr8_set7bit(macaddr8) macaddr8", func(_ *Context, d types.Datum) (types.Datum, error) {
		out := []byte(d.Str())
		out[0] |= 0x02
		return types.NewMAC(out), nil
	})
}

// abbreviated is a network as short as it can be: without the octets or words that its mask leaves out.
func abbreviated(n types.Net) string {
	suffix := "/" + strconv.Itoa(n.Bits)
	if n.Bits == 0 {
		if n.Addr.Is4() {
			return "0" + suffix
		}
		return "::" + suffix
	}
	a := n.Masked().Addr.AsSlice()
	if len(a) == 4 {
		out := strconv.Itoa(int(a[0]))
		for _, o := range a[1 : (n.Bits+7)/8] {
			out += "." + strconv.Itoa(int(o))
		}
		return out + suffix
	}
	return abbreviated6([16]byte(a), n.Bits) + suffix
}

// abbreviated6 writes the words that the mask reaches, at least two, with :: for the longest run of zeros among them.
func abbreviated6(a [16]byte, length int) string {
	count := max(2, (length+15)/16)
	word := func(i int) uint64 { return uint64(a[2*i])<<8 | uint64(a[2*i+1]) }
	first, zeros := 0, 0
	for i, run := 0, 0; i < count; i++ {
		if word(i) != 0 {
			run = 0
			continue
		}
		if run++; run > zeros {
			first, zeros = i-run+1, run
		}
	}
	embedded := zeros != count && first == 0 && (zeros == 6 || zeros == 5 && word(5) == 0xffff || zeros == 7 && a[14] != 0 && a[15] != 1)
	out := ""
	for i := range count {
		switch {
		case zeros > 0 && i >= first && i < first+zeros:
			if i == first {
				out += ":"
			}
			if i == count-1 {
				out += ":"
			}
		case embedded && i > 5:
			separator := "."
			if i == 6 {
				separator = ":"
			}
			out += separator + strconv.Itoa(int(a[2*i]))
			if i != 7 || length > 120 {
				out += "." + strconv.Itoa(int(a[2*i+1]))
			}
		default:
			if out != "" {
				out += ":"
			}
			out += strconv.FormatUint(word(i), 16)
		}
	}
	return out
}

// uint128 is an address as a number.
type uint128 struct{ hi, lo uint64 }

func words(a netip.Addr) uint128 {
	var w uint128
	b := a.AsSlice()
	for i, o := range b {
		if i < len(b)-8 {
			w.hi = w.hi<<8 | uint64(o)
		} else {
			w.lo = w.lo<<8 | uint64(o)
		}
	}
	return w
}

// addrOf is the address with this number, of the family of like.
func addrOf(w uint128, like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.AddrFrom4([4]byte{byte(w.lo >> 24), byte(w.lo >> 16), byte(w.lo >> 8), byte(w.lo)})
	}
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(w.hi>>(56-8*i)), byte(w.lo>>(56-8*i))
	}
	return netip.AddrFrom16(b)
}

// hostBits has the bits set that the mask leaves to the host.
func hostBits(n types.Net) uint128 {
	host := n.Addr.BitLen() - n.Bits
	switch {
	case host >= 128:
		return uint128{^uint64(0), ^uint64(0)}
	case host >= 64:
		return uint128{1<<(host-64) - 1, ^uint64(0)}
	}
	return uint128{0, 1<<host - 1}
}

func (w uint128) not() uint128 { return uint128{^w.hi, ^w.lo} }

func (w uint128) leadingZeros() int {
	if w.hi != 0 {
		return bits.LeadingZeros64(w.hi)
	}
	return 64 + bits.LeadingZeros64(w.lo)
}

// plus adds a signed number; ok is false beyond the ends.
func (w uint128) plus(by int64) (sum uint128, ok bool) {
	high := uint64(by >> 63) // the sign, in all bits
	lo, carry := bits.Add64(w.lo, uint64(by), 0)
	hi, carry := bits.Add64(w.hi, high, carry)
	return uint128{hi, lo}, (carry == 0) == (by >= 0)
}

// minus is the difference; ok is false if it is no int8.
func (w uint128) minus(o uint128) (int64, bool) {
	lo, borrow := bits.Sub64(w.lo, o.lo, 0)
	hi, _ := bits.Sub64(w.hi, o.hi, borrow)
	v := int64(lo)
	return v, hi == uint64(v>>63)
}
