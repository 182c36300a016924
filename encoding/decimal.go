package encoding

import (
	"math"
	"math/big"

	"github.com/cockroachdb/apd/v3"
)

// AppendDecimal appends a decimal. Trailing zeros are not kept (encoding.E3).
func AppendDecimal(b []byte, v *apd.Decimal, d Direction) []byte {
	m := d.mask()
	switch v.Form {
	case apd.NaN, apd.NaNSignaling:
		return append(b, tagDecNaN^m)
	case apd.Infinite:
		if v.Negative {
			return append(b, tagDecNegInf^m)
		}
		return append(b, tagDecPosInf^m)
	}
	if v.Coeff.Sign() == 0 {
		return append(b, tagDecZero^m)
	}
	var scratch [40]byte
	digits := v.Coeff.Append(scratch[:0], 10)
	exponent := int64(v.Exponent) + int64(len(digits))
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	start := len(b)
	body := start + 1
	if v.Negative {
		b = append(b, tagDecNeg)
	} else {
		b = append(b, tagDecPos)
	}
	b = AppendInt(b, exponent, Ascending)
	for i := 0; i < len(digits); i += 2 {
		pair := (digits[i] - '0') * 10
		if i+1 < len(digits) {
			pair += digits[i+1] - '0'
		}
		pair *= 2
		if i+2 < len(digits) {
			pair++
		}
		b = append(b, pair)
	}
	if v.Negative {
		b = invert(b, body, Descending)
	}
	return invert(b, start, d)
}

// DecodeDecimal reads what AppendDecimal wrote into v.
func DecodeDecimal(b []byte, v *apd.Decimal, d Direction) ([]byte, error) {
	if len(b) == 0 {
		return nil, ErrMalformed
	}
	m := d.mask()
	t := b[0] ^ m
	*v = apd.Decimal{}
	switch t {
	case tagDecNaN:
		v.Form = apd.NaN
		return b[1:], nil
	case tagDecNegInf, tagDecPosInf:
		v.Form, v.Negative = apd.Infinite, t == tagDecNegInf
		return b[1:], nil
	case tagDecZero:
		return b[1:], nil
	case tagDecPos:
	case tagDecNeg:
		m ^= 0xff
	default:
		return nil, ErrMalformed
	}
	n, err := decimalLen(b, d.mask())
	if err != nil {
		return nil, err
	}
	bits, negative, pairs, err := intBody(b[1:n], m)
	if err != nil {
		return nil, err
	}
	if !negative && bits > math.MaxInt64 {
		return nil, ErrMalformed
	}
	exponent := int64(bits)
	var scratch [64]byte
	digits := scratch[:0]
	for _, c := range pairs {
		x := (c ^ m) / 2
		if x > 99 {
			return nil, ErrMalformed
		}
		digits = append(digits, '0'+x/10, '0'+x%10)
	}
	if len(digits) == 0 || digits[0] == '0' && digits[1] == '0' {
		return nil, ErrMalformed
	}
	if digits[0] == '0' {
		// The first digit is never zero: the exponent says where the digits start.
		return nil, ErrMalformed
	}
	if digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		if digits[len(digits)-1] == '0' {
			return nil, ErrMalformed
		}
	}
	exponent -= int64(len(digits))
	if exponent != int64(int32(exponent)) {
		return nil, ErrMalformed
	}
	if len(digits) <= 18 {
		var u int64
		for _, c := range digits {
			u = u*10 + int64(c-'0')
		}
		v.Coeff.SetInt64(u)
	} else {
		var x big.Int
		if _, ok := x.SetString(string(digits), 10); !ok {
			return nil, ErrMalformed
		}
		v.Coeff.SetMathBigInt(&x)
	}
	v.Exponent = int32(exponent)
	v.Negative = t == tagDecNeg
	return b[n:], nil
}

// decimalLen is the number of bytes of the decimal at b.
func decimalLen(b []byte, m byte) (int, error) {
	switch b[0] ^ m {
	case tagDecNeg:
		m ^= 0xff
	case tagDecPos:
	default:
		return 1, nil
	}
	_, _, rest, err := intBody(b[1:], m)
	if err != nil {
		return 0, err
	}
	for i, c := range rest {
		if (c^m)&1 == 0 {
			return len(b) - len(rest) + i + 1, nil
		}
	}
	return 0, ErrMalformed
}
