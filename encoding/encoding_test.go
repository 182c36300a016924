package encoding

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"
)

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// checkOrder encodes two values in both directions and compares the bytes with the order of the values. The
// trailing byte shows that no encoding depends on what follows.
func checkOrder(t *rapid.T, want int, enc func(b []byte, second bool, d Direction) []byte) {
	for _, d := range []Direction{Ascending, Descending} {
		a := append(enc(nil, false, d), 0x55)
		b := append(enc(nil, true, d), 0x55)
		w := want
		if d == Descending {
			w = -w
		}
		if got := sign(bytes.Compare(a, b)); got != w {
			t.Fatalf("direction %d: %x vs %x compare as %d, want %d", d, a, b, got, w)
		}
		null := AppendNull(nil, d)
		if c := bytes.Compare(a, null); (d == Ascending && c >= 0) || (d == Descending && c <= 0) {
			t.Fatalf("direction %d: %x is on the wrong side of NULL", d, a)
		}
		for _, e := range [][]byte{a, b} {
			rest, err := Skip(e)
			if err != nil || !bytes.Equal(rest, []byte{0x55}) {
				t.Fatalf("Skip(%x) = %x, %v", e, rest, err)
			}
		}
	}
}

func anyInt() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-300, 300),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, -256, -257, -255, -65536, -65537, 39, 40, 255, 256, 65535, 65536}))
}

func TestInt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := [2]int64{anyInt().Draw(t, "a"), anyInt().Draw(t, "b")}
		want := 0
		if v[0] < v[1] {
			want = -1
		} else if v[0] > v[1] {
			want = 1
		}
		checkOrder(t, want, func(b []byte, second bool, d Direction) []byte {
			x := v[0]
			if second {
				x = v[1]
			}
			e := AppendInt(b, x, d)
			got, rest, err := DecodeInt(e, d)
			if err != nil || got != x || len(rest) != 0 {
				t.Fatalf("DecodeInt(%x) = %d, %v; want %d", e, got, err, x)
			}
			if x >= 0 && !bytes.Equal(e, AppendUint(nil, uint64(x), d)) {
				t.Fatalf("%d has two encodings", x)
			}
			return e
		})
	})
}

func TestUint(t *testing.T) {
	for _, v := range []uint64{0, 39, 40, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		e := AppendUint(nil, v, Descending)
		if got, _, err := DecodeUint(e, Descending); err != nil || got != v {
			t.Fatalf("%d: %d, %v", v, got, err)
		}
	}
	if _, _, err := DecodeInt(AppendUint(nil, math.MaxUint64, Ascending), Ascending); err == nil {
		t.Fatal("an int64 cannot hold this")
	}
	if _, _, err := DecodeUint(AppendInt(nil, -1, Ascending), Ascending); err == nil {
		t.Fatal("a uint64 cannot hold this")
	}
}

func TestFloat(t *testing.T) {
	gen := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1),
		math.NaN(), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 1, -1}))
	cmp := func(a, b float64) int {
		switch an, bn := math.IsNaN(a), math.IsNaN(b); {
		case an && bn:
			return 0
		case an:
			return 1
		case bn:
			return -1
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	}
	rapid.Check(t, func(t *rapid.T) {
		v := [2]float64{gen.Draw(t, "a"), gen.Draw(t, "b")}
		checkOrder(t, cmp(v[0], v[1]), func(b []byte, second bool, d Direction) []byte {
			x := v[0]
			if second {
				x = v[1]
			}
			e := AppendFloat(b, x, d)
			got, rest, err := DecodeFloat(e, d)
			if err != nil || cmp(got, x) != 0 || len(rest) != 0 {
				t.Fatalf("DecodeFloat(%x) = %v, %v; want %v", e, got, err, x)
			}
			return e
		})
	})
}

func TestBytes(t *testing.T) {
	gen := rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 2, 0x7f, 0xfe, 0xff, 'a'}))
	rapid.Check(t, func(t *rapid.T) {
		v := [2][]byte{gen.Draw(t, "a"), gen.Draw(t, "b")}
		checkOrder(t, bytes.Compare(v[0], v[1]), func(b []byte, second bool, d Direction) []byte {
			x := v[0]
			if second {
				x = v[1]
			}
			e := AppendBytes(b, x, d)
			got, rest, err := DecodeBytes(e, nil, d)
			if err != nil || !bytes.Equal(got, x) || len(rest) != 0 {
				t.Fatalf("DecodeBytes(%x) = %x, %v; want %x", e, got, err, x)
			}
			s, _, err := DecodeString(AppendString(nil, string(x), d), d)
			if err != nil || s != string(x) {
				t.Fatalf("DecodeString = %q, %v; want %q", s, err, x)
			}
			return e
		})
	})
}

func anyDecimal(t *rapid.T, name string) *apd.Decimal {
	if rapid.IntRange(0, 9).Draw(t, name+" special") == 0 {
		d := new(apd.Decimal)
		switch rapid.IntRange(0, 3).Draw(t, name+" which") {
		case 0:
			d.Form = apd.NaN
		case 1:
			d.Form = apd.Infinite
		case 2:
			d.Form, d.Negative = apd.Infinite, true
		}
		return d
	}
	digits := rapid.StringMatching(`[0-9]{1,25}`).Draw(t, name+" digits")
	d, _, err := apd.NewFromString(digits)
	if err != nil {
		t.Fatal(err)
	}
	d.Exponent = rapid.Int32Range(-30, 30).Draw(t, name+" exponent")
	d.Negative = rapid.Bool().Draw(t, name+" negative")
	return d
}

func compareDecimals(a, b *apd.Decimal) int {
	an, bn := a.Form == apd.NaN, b.Form == apd.NaN
	switch {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	}
	return a.Cmp(b)
}

func TestDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := [2]*apd.Decimal{anyDecimal(t, "a"), anyDecimal(t, "b")}
		if rapid.Bool().Draw(t, "same value, other scale") && v[0].Form == apd.Finite {
			v[1] = new(apd.Decimal).Set(v[0])
			v[1].Coeff.Mul(&v[1].Coeff, apd.NewBigInt(100))
			v[1].Exponent -= 2
		}
		checkOrder(t, compareDecimals(v[0], v[1]), func(b []byte, second bool, d Direction) []byte {
			x := v[0]
			if second {
				x = v[1]
			}
			e := AppendDecimal(b, x, d)
			var got apd.Decimal
			rest, err := DecodeDecimal(e, &got, d)
			if err != nil || compareDecimals(&got, x) != 0 || len(rest) != 0 {
				t.Fatalf("DecodeDecimal(%x) = %s, %v; want %s", e, &got, err, x)
			}
			return e
		})
	})
}

func TestInterval(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) IntervalValue {
		return IntervalValue{
			Months: rapid.Int32Range(-math.MaxInt32, math.MaxInt32).Draw(t, "months"),
			Days:   rapid.Int32().Draw(t, "days"),
			Micros: rapid.Int64().Draw(t, "micros"),
		}
	})
	length := func(v IntervalValue) (int64, int64) {
		days, us := int64(v.Months)*30+int64(v.Days)+v.Micros/microsPerDay, v.Micros%microsPerDay
		if us < 0 {
			days, us = days-1, us+microsPerDay
		}
		return days, us
	}
	rapid.Check(t, func(t *rapid.T) {
		v := [2]IntervalValue{gen.Draw(t, "a"), gen.Draw(t, "b")}
		d0, u0 := length(v[0])
		d1, u1 := length(v[1])
		want := 0
		if d0 < d1 || d0 == d1 && u0 < u1 {
			want = -1
		} else if d0 != d1 || u0 != u1 {
			want = 1
		} else if v[0] != v[1] {
			t.Skip("equal lengths, different parts: any order that is not equality")
		}
		checkOrder(t, want, func(b []byte, second bool, d Direction) []byte {
			x := v[0]
			if second {
				x = v[1]
			}
			e := AppendInterval(b, x, d)
			got, rest, err := DecodeInterval(e, d)
			if err != nil || got != x || len(rest) != 0 {
				t.Fatalf("DecodeInterval(%x) = %+v, %v; want %+v", e, got, err, x)
			}
			return e
		})
	})
	for _, x := range []IntervalValue{{Micros: math.MinInt64}, {Micros: math.MaxInt64}, {Months: math.MinInt32, Days: math.MinInt32, Micros: math.MinInt64}} {
		if got, _, err := DecodeInterval(AppendInterval(nil, x, Ascending), Ascending); err != nil || got != x {
			t.Fatalf("%+v: %+v, %v", x, got, err)
		}
	}
}

func TestBool(t *testing.T) {
	for _, d := range []Direction{Ascending, Descending} {
		f, tr := AppendBool(nil, false, d), AppendBool(nil, true, d)
		if (bytes.Compare(f, tr) < 0) != (d == Ascending) {
			t.Fatalf("order in direction %d", d)
		}
		if v, _, err := DecodeBool(tr, d); err != nil || !v {
			t.Fatal(v, err)
		}
	}
}

func TestValues(t *testing.T) {
	b := AppendSizedString(AppendVarint(AppendUvarint(nil, 300), -5), strings.Repeat("x", 200))
	u, b, err := Uvarint(b)
	if err != nil || u != 300 {
		t.Fatal(u, err)
	}
	i, b, err := Varint(b)
	if err != nil || i != -5 {
		t.Fatal(i, err)
	}
	s, b, err := Sized(b)
	if err != nil || len(s) != 200 || len(b) != 0 {
		t.Fatal(len(s), err)
	}
	if _, _, err := Sized([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}); err == nil {
		t.Fatal("a length beyond the input must be refused")
	}
}

// FuzzDecode hands arbitrary bytes to every decoder. Input that one accepts, its encoder must give back byte for byte:
// a value has one encoding.
func FuzzDecode(f *testing.F) {
	for _, d := range []Direction{Ascending, Descending} {
		f.Add(AppendInt(nil, -70000, d))
		f.Add(AppendFloat(nil, 3.5, d))
		f.Add(AppendBytes(nil, []byte("a\x00b"), d))
		f.Add(AppendDecimal(nil, apd.New(-12345, -2), d))
		f.Add(AppendInterval(nil, IntervalValue{1, 2, -3}, d))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(d Direction, rest, again []byte) {
			if used := b[:len(b)-len(rest)]; !bytes.Equal(used, again) {
				t.Fatalf("direction %d: %x encodes again as %x", d, used, again)
			}
			if n, err := Length(b); err != nil || n != len(b)-len(rest) {
				t.Fatalf("Length(%x) = %d, %v; the decoder used %d", b, n, err, len(b)-len(rest))
			}
		}
		for _, d := range []Direction{Ascending, Descending} {
			if v, rest, err := DecodeInt(b, d); err == nil {
				same(d, rest, AppendInt(nil, v, d))
			}
			if v, rest, err := DecodeUint(b, d); err == nil {
				same(d, rest, AppendUint(nil, v, d))
			}
			if v, rest, err := DecodeFloat(b, d); err == nil {
				same(d, rest, AppendFloat(nil, v, d))
			}
			if v, rest, err := DecodeBytes(b, nil, d); err == nil {
				same(d, rest, AppendBytes(nil, v, d))
			}
			if v, rest, err := DecodeBool(b, d); err == nil {
				same(d, rest, AppendBool(nil, v, d))
			}
			if v, rest, err := DecodeInterval(b, d); err == nil {
				same(d, rest, AppendInterval(nil, v, d))
			}
			var dec apd.Decimal
			if rest, err := DecodeDecimal(b, &dec, d); err == nil {
				same(d, rest, AppendDecimal(nil, &dec, d))
			}
		}
		_, _ = Skip(b)
		_, _, _ = Uvarint(b)
		_, _, _ = Varint(b)
		_, _, _ = Sized(b)
	})
}

func BenchmarkAppendInt(b *testing.B) {
	buf := make([]byte, 0, 16)
	for i := 0; i < b.N; i++ {
		buf = AppendInt(buf[:0], int64(i), Ascending)
	}
}

func BenchmarkDecodeInt(b *testing.B) {
	e := AppendInt(nil, 123456789, Ascending)
	for i := 0; i < b.N; i++ {
		_, _, _ = DecodeInt(e, Ascending)
	}
}
