package types

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
)

// types.T1: every decimal in a datum has an exponent of at most zero, and minus the exponent is its display scale, as in
// PostgreSQL; zero is never negative. All code that makes decimals uses this file or keeps this rule.

// maxDigits and maxScale are PostgreSQL's limits on a numeric: digits before and after the decimal point.
const (
	maxDigits = 131072
	maxScale  = 16383
)

var (
	decimalNaN    = &apd.Decimal{Form: apd.NaN}
	decimalInf    = &apd.Decimal{Form: apd.Infinite}
	decimalNegInf = &apd.Decimal{Form: apd.Infinite, Negative: true}
)

// DecimalNaN, DecimalInf and DecimalNegInf are the special values; they must not be changed.
func DecimalNaN() *apd.Decimal    { return decimalNaN }
func DecimalInf() *apd.Decimal    { return decimalInf }
func DecimalNegInf() *apd.Decimal { return decimalNegInf }

func errNumericOverflow() error {
	return sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format")
}

// ParseDecimal reads a numeric as PostgreSQL does.
func ParseDecimal(s string) (*apd.Decimal, error) {
	p := trimSpace(s)
	bad := func() (*apd.Decimal, error) { return nil, badInput(Decimal, s) }
	neg := false
	q := p
	if q != "" && (q[0] == '+' || q[0] == '-') {
		neg = q[0] == '-'
		q = q[1:]
	}
	if q == "" {
		return bad()
	}
	if c := q[0]; c > '9' {
		switch strings.ToLower(q) {
		case "nan":
			if q != p {
				return bad()
			}
			return decimalNaN, nil
		case "inf", "infinity":
			if neg {
				return decimalNegInf, nil
			}
			return decimalInf, nil
		}
		return bad()
	}
	mant, exp := q, int64(0)
	if i := strings.IndexAny(q, "eE"); i >= 0 {
		mant = q[:i]
		es := q[i+1:]
		if es == "" || strings.ContainsAny(es[1:], "+-") {
			return bad()
		}
		e, err := strconv.ParseInt(es, 10, 32)
		if err != nil {
			if ne, ok := err.(*strconv.NumError); ok && ne.Err == strconv.ErrRange {
				return nil, errNumericOverflow()
			}
			return bad()
		}
		exp = e
	}
	intPart, frac, _ := strings.Cut(mant, ".")
	if intPart == "" && frac == "" {
		return bad()
	}
	for i := 0; i < len(mant); i++ {
		if c := mant[i]; (c < '0' || c > '9') && c != '.' {
			return bad()
		}
	}
	if strings.IndexByte(frac, '.') >= 0 {
		return bad()
	}
	if exp > maxDigits*2 || exp < -maxDigits*2 {
		if strings.Trim(mant, "0.") == "" {
			return &apd.Decimal{}, nil
		}
		if exp > 0 {
			return nil, errNumericOverflow()
		}
	}
	d := &apd.Decimal{}
	digits := intPart + frac
	if len(digits) > 2*maxDigits {
		return nil, errNumericOverflow()
	}
	if len(digits) <= 18 {
		v, _ := strconv.ParseInt(digits, 10, 64)
		d.Coeff.SetInt64(v)
	} else if _, ok := d.Coeff.SetString(digits, 10); !ok {
		return bad()
	}
	d.Negative = neg
	e := exp - int64(len(frac))
	if e < -maxScale {
		// A longer fraction is rounded.
		d.Exponent = int32(max(e, math.MinInt32/2))
		if -e-int64(len(digits)) > maxScale {
			return &apd.Decimal{Exponent: -maxScale}, nil
		}
		r := RoundDecimal(d, maxScale)
		return r, nil
	}
	d.Exponent = int32(e)
	return normalize(d)
}

// normalize restores types.T1 and checks the size.
func normalize(d *apd.Decimal) (*apd.Decimal, error) {
	if d.Form != apd.Finite {
		switch {
		case d.Form != apd.Infinite:
			return decimalNaN, nil
		case d.Negative:
			return decimalNegInf, nil
		}
		return decimalInf, nil
	}
	if d.Exponent > 0 {
		if d.Coeff.Sign() == 0 {
			d.Exponent = 0
		} else {
			if d.NumDigits()+int64(d.Exponent) > maxDigits {
				return nil, errNumericOverflow()
			}
			var p apd.BigInt
			d.Coeff.Mul(&d.Coeff, pow10(&p, int64(d.Exponent)))
			d.Exponent = 0
		}
	}
	if d.Coeff.Sign() == 0 {
		d.Negative = false
	} else if d.NumDigits()+int64(d.Exponent) > maxDigits {
		return nil, errNumericOverflow()
	}
	return d, nil
}

// NormalizeDecimal restores the invariant of decimals in datums on the result of a computation; d may be changed.
func NormalizeDecimal(d *apd.Decimal) (*apd.Decimal, error) { return normalize(d) }

func pow10(p *apd.BigInt, n int64) *apd.BigInt {
	if n < 19 {
		v := int64(1)
		for range n {
			v *= 10
		}
		return p.SetInt64(v)
	}
	var ten, e apd.BigInt
	ten.SetInt64(10)
	e.SetInt64(n)
	return p.Exp(&ten, &e, nil)
}

// RoundDecimal is d at the given scale (which may be negative), half away from zero.
func RoundDecimal(d *apd.Decimal, scale int32) *apd.Decimal { return rescale(d, scale, true) }

// TruncDecimal is d at the given scale, towards zero.
func TruncDecimal(d *apd.Decimal, scale int32) *apd.Decimal { return rescale(d, scale, false) }

func rescale(d *apd.Decimal, scale int32, round bool) *apd.Decimal {
	if d.Form != apd.Finite || d.Exponent == -scale {
		return d
	}
	r := &apd.Decimal{Exponent: -scale, Negative: d.Negative}
	var p apd.BigInt
	if shift := int64(d.Exponent) + int64(scale); shift > 0 {
		r.Coeff.Mul(&d.Coeff, pow10(&p, shift))
	} else if -shift > d.NumDigits()+1 {
		r.Coeff.SetInt64(0)
	} else {
		var rem apd.BigInt
		pow10(&p, -shift)
		r.Coeff.QuoRem(&d.Coeff, &p, &rem)
		if round {
			rem.Add(&rem, &rem)
			if rem.CmpAbs(&p) >= 0 {
				var one apd.BigInt
				one.SetInt64(1)
				r.Coeff.Add(&r.Coeff, &one)
			}
		}
	}
	if scale < 0 {
		r.Coeff.Mul(&r.Coeff, pow10(&p, int64(-scale)))
		r.Exponent = 0
	}
	if r.Coeff.Sign() == 0 {
		r.Negative = false
	}
	return r
}

// AppendDecimal writes a numeric with all digits of its scale.
func AppendDecimal(buf []byte, d *apd.Decimal) []byte {
	switch d.Form {
	case apd.Finite:
	case apd.Infinite:
		if d.Negative {
			return append(buf, "-Infinity"...)
		}
		return append(buf, "Infinity"...)
	default:
		return append(buf, "NaN"...)
	}
	if d.Negative && d.Coeff.Sign() != 0 {
		buf = append(buf, '-')
	}
	start := len(buf)
	buf = d.Coeff.Append(buf, 10)
	if d.Exponent > 0 {
		for range d.Exponent {
			buf = append(buf, '0')
		}
		return buf
	}
	scale := int(-d.Exponent)
	if scale == 0 {
		return buf
	}
	n := len(buf) - start
	if n <= scale {
		pad := scale - n + 1
		for range pad {
			buf = append(buf, 0)
		}
		copy(buf[start+pad:], buf[start:start+n])
		for i := range pad {
			buf[start+i] = '0'
		}
		n += pad
	}
	buf = append(buf, 0)
	point := start + n - scale
	copy(buf[point+1:], buf[point:len(buf)-1])
	buf[point] = '.'
	return buf
}

// DecimalToFloat is the nearest float.
func DecimalToFloat(d *apd.Decimal) float64 {
	switch d.Form {
	case apd.Finite:
	case apd.Infinite:
		if d.Negative {
			return math.Inf(-1)
		}
		return math.Inf(1)
	default:
		return math.NaN()
	}
	f, _ := strconv.ParseFloat(string(AppendDecimal(nil, d)), 64)
	return f
}

// DecimalFromFloat is the decimal of 15 (or 6) significant digits, as PostgreSQL converts.
func DecimalFromFloat(f float64, single bool) (*apd.Decimal, error) {
	switch {
	case math.IsNaN(f):
		return decimalNaN, nil
	case math.IsInf(f, 1):
		return decimalInf, nil
	case math.IsInf(f, -1):
		return decimalNegInf, nil
	}
	digits := 15
	if single {
		digits = 6
	}
	s := strconv.FormatFloat(f, 'g', digits, 64)
	return ParseDecimal(s)
}

// DecimalToInt rounds half away from zero; ok is false if it does not fit 64 bits.
func DecimalToInt(d *apd.Decimal) (v int64, ok bool) {
	if d.Form != apd.Finite {
		return 0, false
	}
	r := RoundDecimal(d, 0)
	if r.Coeff.IsInt64() {
		v = r.Coeff.Int64()
		if r.Negative {
			v = -v
		}
		return v, true
	}
	if r.Negative && r.Coeff.IsUint64() && r.Coeff.Uint64() == 1<<63 {
		return math.MinInt64, true
	}
	return 0, false
}

func applyDecimalTypmod(d Datum, t *T) (Datum, error) {
	if t.Precision <= 0 {
		return d, nil
	}
	x := d.Decimal()
	if x.Form != apd.Finite {
		if x.Form == apd.Infinite {
			return Null, fieldOverflow(t).WithDetail(
				"A field with precision %d, scale %d cannot hold an infinite value.", t.Precision, t.Scale)
		}
		return d, nil
	}
	r := RoundDecimal(x, t.Scale)
	if t.Scale < 0 {
		r = RoundDecimal(x, t.Scale)
	}
	if r.Coeff.Sign() != 0 && r.NumDigits()+int64(r.Exponent) > int64(t.Precision-t.Scale) {
		left := t.Precision - t.Scale
		bound := "10^" + strconv.Itoa(int(left))
		if left == 0 {
			bound = "1"
		}
		return Null, fieldOverflow(t).WithDetail(
			"A field with precision %d, scale %d must round to an absolute value less than %s.", t.Precision, t.Scale, bound)
	}
	if r == x {
		return d, nil
	}
	return NewDecimal(r), nil
}

func fieldOverflow(*T) *sqlstate.Error {
	return sqlstate.New(sqlstate.NumericOutOfRange, "numeric field overflow")
}

func appendDecimalHash(buf []byte, d *apd.Decimal) []byte {
	buf = append(buf, 7)
	if d.Form != apd.Finite {
		return append(buf, byte(decimalRank(d)+10))
	}
	if d.Coeff.Sign() == 0 {
		return append(buf, 0)
	}
	start := len(buf)
	buf = append(buf, 1)
	if d.Negative {
		buf[start] = 2
	}
	buf = d.Coeff.Append(buf, 10)
	exp := d.Exponent
	for buf[len(buf)-1] == '0' {
		buf = buf[:len(buf)-1]
		exp++
	}
	return binary.AppendVarint(buf, int64(exp))
}

// numericSign values of the binary form.
const (
	numericPos    = 0x0000
	numericNeg    = 0x4000
	numericNaN    = 0xC000
	numericPosInf = 0xD000
	numericNegInf = 0xF000
)

// appendDecimalBinary writes the wire form: groups of four decimal digits, most significant first.
func appendDecimalBinary(buf []byte, d *apd.Decimal) []byte {
	head := func(ndigits int, weight int, sign, dscale uint16) {
		buf = binary.BigEndian.AppendUint16(buf, uint16(ndigits))
		buf = binary.BigEndian.AppendUint16(buf, uint16(weight))
		buf = binary.BigEndian.AppendUint16(buf, sign)
		buf = binary.BigEndian.AppendUint16(buf, dscale)
	}
	if d.Form != apd.Finite {
		sign := uint16(numericNaN)
		if d.Form == apd.Infinite {
			if sign = numericPosInf; d.Negative {
				sign = numericNegInf
			}
		}
		head(0, 0, sign, 0)
		return buf
	}
	dscale := uint16(max(-d.Exponent, 0))
	if d.Coeff.Sign() == 0 {
		head(0, 0, numericPos, dscale)
		return buf
	}
	var scratch [64]byte
	digits := d.Coeff.Append(scratch[:0], 10)
	exp := int(d.Exponent)
	for exp > 0 {
		digits = append(digits, '0')
		exp--
	}
	// Align groups of four on the decimal point.
	for (-exp)%4 != 0 {
		digits = append(digits, '0')
		exp--
	}
	groups := (len(digits) + 3) / 4
	lead := len(digits) - (groups-1)*4
	weight := groups - 1 + exp/4
	get := func(i int) uint16 {
		from, to := 0, lead
		if i > 0 {
			from = lead + (i-1)*4
			to = from + 4
		}
		v := uint16(0)
		for _, c := range digits[from:to] {
			v = v*10 + uint16(c-'0')
		}
		return v
	}
	first, last := 0, groups
	for first < last && get(first) == 0 {
		first++
		weight--
	}
	for last > first && get(last-1) == 0 {
		last--
	}
	sign := uint16(numericPos)
	if d.Negative {
		sign = numericNeg
	}
	head(last-first, weight, sign, dscale)
	for i := first; i < last; i++ {
		buf = binary.BigEndian.AppendUint16(buf, get(i))
	}
	return buf
}

func parseDecimalBinary(b []byte) (*apd.Decimal, error) {
	bad := sqlstate.New(sqlstate.InvalidBinaryForm, "invalid external \"numeric\" value")
	if len(b) < 8 {
		return nil, bad
	}
	n := int(binary.BigEndian.Uint16(b))
	weight := int(int16(binary.BigEndian.Uint16(b[2:])))
	sign := binary.BigEndian.Uint16(b[4:])
	dscale := int32(binary.BigEndian.Uint16(b[6:]))
	if len(b) != 8+2*n || dscale > maxScale {
		return nil, bad
	}
	switch sign {
	case numericNaN:
		return decimalNaN, nil
	case numericPosInf:
		return decimalInf, nil
	case numericNegInf:
		return decimalNegInf, nil
	case numericPos, numericNeg:
	default:
		return nil, bad
	}
	digits := make([]byte, 0, 4*n+1)
	for i := range n {
		g := binary.BigEndian.Uint16(b[8+2*i:])
		if g > 9999 {
			return nil, bad
		}
		digits = append(digits, byte('0'+g/1000), byte('0'+g/100%10), byte('0'+g/10%10), byte('0'+g%10))
	}
	if len(digits) == 0 {
		digits = append(digits, '0')
	}
	d := &apd.Decimal{Negative: sign == numericNeg}
	if _, ok := d.Coeff.SetString(string(digits), 10); !ok {
		return nil, bad
	}
	if n > 0 {
		d.Exponent = int32(4 * (weight - n + 1))
	}
	d, err := normalize(d)
	if err != nil {
		return nil, err
	}
	return RoundOrTrunc(d, dscale), nil
}

// RoundOrTrunc gives d the display scale, cutting digits beyond it as PostgreSQL's numeric_recv does.
func RoundOrTrunc(d *apd.Decimal, dscale int32) *apd.Decimal { return TruncDecimal(d, dscale) }
