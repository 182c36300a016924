package scalar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// numFormat is a parsed number template.
type numFormat struct {
	items          []string
	pre, post      int
	fm, roman, exp bool
	point          bool
	shift          int    // digits after V
	sign           string // "", S, MI, PL, SG, PR
	blank          bool
	firstZero      int // position of the first 0 before the point, -1 if none
	lastZero       int // number of digits after the point that a 0 keeps
	signFirst      bool
}

func signsTogether() error {
	return sqlstate.New(sqlstate.SyntaxError, "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together")
}

func parseNumFormat(f string) (*numFormat, error) {
	n := &numFormat{firstZero: -1}
	up := strings.ToUpper(f)
	afterV := false
	for i := 0; i < len(f); {
		rest := up[i:]
		switch {
		case strings.HasPrefix(rest, "EEEE"):
			n.exp = true
			i += 4
		case strings.HasPrefix(rest, "FM"):
			n.fm = true
			i += 2
		case strings.HasPrefix(rest, "RN"):
			n.roman = true
			n.items = append(n.items, f[i:i+2])
			i += 2
		case strings.HasPrefix(rest, "MI"), strings.HasPrefix(rest, "PL"), strings.HasPrefix(rest, "SG"), strings.HasPrefix(rest, "PR"),
			strings.HasPrefix(rest, "TH"):
			w := rest[:2]
			if w != "TH" {
				if n.sign == "S" {
					return nil, signsTogether()
				}
				n.sign = w
			} else {
				w = f[i : i+2]
			}
			n.items = append(n.items, w)
			i += 2
		case rest[0] == 'S':
			if n.sign == "S" {
				return nil, sqlstate.New(sqlstate.SyntaxError, "cannot use \"S\" twice")
			}
			if n.sign != "" {
				return nil, signsTogether()
			}
			n.sign = "S"
			n.signFirst = n.pre == 0 && n.post == 0
			n.items = append(n.items, "S")
			i++
		case rest[0] == '9' || rest[0] == '0':
			switch {
			case afterV:
				n.shift++
				n.pre++
			case n.point:
				n.post++
				if rest[0] == '0' {
					n.lastZero = n.post
				}
			default:
				if rest[0] == '0' && n.firstZero < 0 {
					n.firstZero = n.pre
				}
				n.pre++
			}
			n.items = append(n.items, rest[:1])
			i++
		case rest[0] == '.' || rest[0] == 'D':
			if n.point {
				return nil, sqlstate.New(sqlstate.SyntaxError, "multiple decimal points")
			}
			n.point = true
			n.items = append(n.items, ".")
			i++
		case rest[0] == ',' || rest[0] == 'G':
			n.items = append(n.items, ",")
			i++
		case rest[0] == 'V':
			afterV = true
			i++
		case rest[0] == 'L':
			n.items = append(n.items, "L")
			i++
		case rest[0] == 'B':
			n.blank = true
			i++
		case rest[0] == '"':
			j := strings.IndexByte(f[i+1:], '"')
			if j < 0 {
				j = len(f) - i - 1
			}
			n.items = append(n.items, "\""+f[i+1:i+1+j])
			i += j + 2
		default:
			_, w := utf8.DecodeRuneInString(f[i:])
			n.items = append(n.items, "\""+f[i:i+w])
			i += w
		}
	}
	return n, nil
}

func toRoman(v int64) string {
	if v < 1 || v > 3999 {
		return strings.Repeat("#", 15)
	}
	var b strings.Builder
	for _, r := range []struct {
		n int64
		s string
	}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"},
		{5, "V"}, {4, "IV"}, {1, "I"}} {
		for v >= r.n {
			b.WriteString(r.s)
			v -= r.n
		}
	}
	return b.String()
}

// formatNumber is to_char of a number.
func formatNumber(d types.Datum, format string) (types.Datum, error) {
	f, err := parseNumFormat(format)
	if err != nil {
		return types.Null, err
	}
	x := d.Decimal()
	if f.roman {
		v, _ := types.DecimalToInt(x)
		s := toRoman(v)
		if !f.fm {
			s = strings.Repeat(" ", max(15-len(s), 0)) + s
		}
		return str(s)
	}
	if f.exp {
		return str(exponential(d, f))
	}
	overflow := x.Form != 0
	neg := x.Negative
	digits, frac := "", ""
	if !overflow {
		if f.shift > 0 {
			y := *x
			y.Exponent += int32(f.shift)
			n, err := types.NormalizeDecimal(&y)
			if err != nil {
				return types.Null, err
			}
			x = n
		}
		x = types.RoundDecimal(x, int32(f.post))
		s := string(types.AppendDecimal(nil, x))
		s = strings.TrimPrefix(s, "-")
		digits, frac, _ = strings.Cut(s, ".")
		if x.Coeff.Sign() == 0 {
			neg = false
		}
		if digits == "0" && f.pre > 0 && !(f.post == 0 && f.firstZero < 0) || f.pre == 0 && digits == "0" {
			digits = "" // a lone zero before the point shows only at a 0
		}
		overflow = len(digits) > f.pre
	}
	return str(f.layout(digits, frac, neg, overflow))
}

func (f *numFormat) layout(digits, frac string, neg, overflow bool) string {
	var b strings.Builder
	first := f.pre - len(digits) // the position of the first digit that shows
	if f.firstZero >= 0 {
		first = min(first, f.firstZero)
	}
	if overflow {
		first = 0
	}
	signDone := false
	float := f.sign == "" || f.sign == "S" && f.signFirst || f.sign == "PR"
	writeSign := func() {
		if signDone || !float {
			return
		}
		signDone = true
		switch {
		case f.sign == "S":
			b.WriteString(choose(neg, "-", "+"))
		case f.sign == "PR":
			if neg {
				b.WriteByte('<')
			} else if !f.fm {
				b.WriteByte(' ')
			}
		case neg:
			b.WriteByte('-')
		case !f.fm:
			b.WriteByte(' ')
		}
	}
	pos, fpos := 0, 0
	point := false
	shown := false
	for _, it := range f.items {
		switch it {
		case "9", "0":
			if point {
				fpos++
				switch {
				case overflow:
					b.WriteByte('#')
				case f.fm && fpos > f.lastZero && strings.Trim(frac[fpos-1:], "0") == "":
				default:
					b.WriteByte(frac[fpos-1])
				}
				continue
			}
			switch {
			case pos < first:
				if !f.fm {
					b.WriteByte(' ')
				}
			default:
				writeSign()
				shown = true
				switch at := pos - (f.pre - len(digits)); {
				case overflow:
					b.WriteByte('#')
				case at < 0:
					b.WriteByte('0')
				default:
					b.WriteByte(digits[at])
				}
			}
			pos++
		case ".":
			writeSign()
			point = true
			b.WriteByte('.')
		case ",":
			if shown {
				b.WriteByte(',')
			} else if !f.fm {
				b.WriteByte(' ')
			}
		case "S":
			if !f.signFirst {
				b.WriteString(choose(neg, "-", "+"))
			}
		case "MI":
			if neg {
				b.WriteByte('-')
			} else if !f.fm {
				b.WriteByte(' ')
			}
		case "PL":
			if !neg {
				b.WriteByte('+')
			} else if !f.fm {
				b.WriteByte(' ')
			}
		case "SG":
			b.WriteString(choose(neg, "-", "+"))
		case "PR":
			writeSign()
			if neg {
				b.WriteByte('>')
			} else if !f.fm {
				b.WriteByte(' ')
			}
		case "L":
			b.WriteByte(' ')
		case "TH", "th":
			n, _ := strconv.ParseInt(digits, 10, 64)
			if !neg && !f.point {
				b.WriteString(ordinal(strconv.FormatInt(n, 10), it == "TH"))
			}
		default:
			b.WriteString(it[1:])
		}
	}
	writeSign()
	return b.String()
}

func exponential(d types.Datum, f *numFormat) string {
	x := d.Decimal()
	if x.Form != 0 {
		return " " + strings.Repeat("#", f.pre) + "." + strings.Repeat("#", f.post+4)
	}
	digits := x.Coeff.String()
	exp := len(digits) - 1 + int(x.Exponent)
	if x.Coeff.Sign() == 0 {
		exp = 0
	}
	m := *x
	m.Exponent = -int32(len(digits) - 1)
	r := types.RoundDecimal(&m, int32(f.post))
	s := string(types.AppendDecimal(nil, r))
	if t := strings.TrimPrefix(s, "-"); strings.HasPrefix(t, "10") {
		m.Exponent--
		r = types.RoundDecimal(&m, int32(f.post))
		s = string(types.AppendDecimal(nil, r))
		exp++
	}
	sign := "+"
	if exp < 0 {
		sign, exp = "-", -exp
	}
	s += fmt.Sprintf("e%s%02d", sign, exp)
	if !x.Negative && !f.fm {
		s = " " + s
	}
	return s
}
