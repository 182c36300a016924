package types

import (
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
)

// CastIsStable reports whether the outcome of a cast may depend on the session (its zone, the time, or names).
func CastIsStable(from, to *T) bool {
	f, t := from.Kind, to.Kind
	if from.Kind == KindArray && to.Kind == KindArray {
		return CastIsStable(from.Elem, to.Elem)
	}
	zoned := func(k Kind) bool { return k == KindTimestampTZ || k == KindTimeTZ }
	dated := func(k Kind) bool { return k >= KindDate && k <= KindTimestampTZ }
	styled := func(k Kind) bool {
		return dated(k) || k == KindInterval || k == KindFloat4 || k == KindFloat8 || k == KindBytes || k == KindTuple
	}
	switch {
	case from.IsString() || f == KindUnknown:
		if to.Kind == KindArray {
			return dated(to.Elem.Kind) || to.Elem.Kind == KindInterval || to.Elem.IsReg() && to.Elem.Kind != KindOID
		}
		return dated(t) || t == KindInterval || to.IsReg() && t != KindOID
	case to.IsString():
		if f == KindArray {
			return styled(from.Elem.Kind) || from.Elem.IsReg()
		}
		return styled(f) || from.IsReg() && f != KindOID
	case to.IsReg() && t != KindOID:
		return true
	case zoned(f) != zoned(t):
		return true
	}
	return false
}

func cannotCast(from, to *T) error {
	return sqlstate.New(sqlstate.CannotCoerce, "cannot cast type %s to %s", from.Name(), to.Name())
}

// OutOfRange is the error for a number that does not fit t.
func OutOfRange(t *T) error {
	return sqlstate.New(sqlstate.NumericOutOfRange, "%s out of range", t.Name())
}

// Cast converts a value from one type to another. An explicit cast may cut strings; an assignment may not. CanCast
// decides whether the cast is allowed in its context.
func Cast(env Env, d Datum, from, to *T, explicit bool) (Datum, error) {
	if d.phys == PhysNull {
		return Null, nil
	}
	if from.IsString() || from.Kind == KindUnknown {
		return castString(env, d, from, to, explicit)
	}
	switch to.Kind {
	case KindText, KindVarChar, KindBPChar, KindName, KindUnknown:
		return castToString(env, d, from, to, explicit)
	case KindAny, KindAnyElement, KindAnyArray:
		return d, nil
	}
	if to.Kind == KindEnum && from.Same(to) {
		return d, nil
	}
	switch d.phys {
	case PhysBool:
		switch to.Kind {
		case KindBool:
			return d, nil
		case KindInt4, KindInt2, KindInt8:
			return NewInt(d.num), nil
		}
	case PhysInt:
		return castInt(d, from, to)
	case PhysFloat:
		return castFloat(d, from, to)
	case PhysDecimal:
		return castDecimal(d, from, to)
	case PhysBytes, PhysUUID:
		if d.phys == to.Phys() {
			return d, nil
		}
	case PhysDate, PhysTime, PhysTimestamp, PhysInterval:
		return castTime(env, d, from, to)
	case PhysJSON:
		return castJSON(d, from, to)
	case PhysArray:
		return castArray(env, d, from, to, explicit)
	case PhysTuple:
		if to.Kind == KindTuple {
			return castTuple(env, d, to, explicit)
		}
	case PhysNet:
		return castNet(d, from, to)
	case PhysMAC:
		return castMAC(d, from, to)
	}
	return Null, cannotCast(from, to)
}

func castString(env Env, d Datum, from, to *T, explicit bool) (Datum, error) {
	if d.phys == PhysChar {
		switch to.Kind {
		case KindBPChar:
			if to.Width == 0 {
				return d, nil
			}
		case KindText, KindVarChar, KindName, KindUnknown:
			d = NewString(trimBlanks(d.str))
		}
	}
	switch to.Kind {
	case KindText, KindUnknown:
		return d, nil
	case KindVarChar:
		if to.Width == 0 {
			return d, nil
		}
		return fitString(d.str, to, explicit)
	case KindBPChar:
		return fitString(d.str, to, explicit)
	case KindName:
		return NewString(truncateName(d.str)), nil
	case KindChar:
		return NewString(firstChar(d.str)), nil
	case KindInt4:
		if from.Kind == KindChar {
			if d.str == "" {
				return NewInt(0), nil
			}
			return NewInt(int64(int8(d.str[0]))), nil
		}
	case KindInterval:
		if from.Kind != KindUnknown && to.Width != 0 {
			// The fields of the type give units to bare numbers in literals only.
			v, err := ParseTextEnv(IntervalType, d.str, env)
			if err != nil {
				return v, err
			}
			return fitInterval(v, to), nil
		}
	case KindDecimal:
		// The modifier of a cast rounds like that of an assignment.
		return ParseTextEnv(to, d.str, env)
	}
	return ParseTextEnv(to, d.str, env)
}

func castToString(env Env, d Datum, from, to *T, explicit bool) (Datum, error) {
	var s string
	switch {
	case d.phys == PhysBool && to.Kind != KindName:
		// The cast, unlike the output function, spells a boolean out.
		if s = "false"; d.num != 0 {
			s = "true"
		}
	case d.phys == PhysNet && to.Kind != KindName && to.Kind != KindUnknown:
		// Here, too, it differs: the mask is shown even if it covers the whole address.
		s = d.Net().String()
	default:
		s = string(AppendText(nil, d, from, env.castStyle()))
	}
	switch to.Kind {
	case KindText, KindUnknown:
		return NewString(s), nil
	case KindName:
		return NewString(truncateName(s)), nil
	}
	return fitString(s, to, explicit)
}

// castStyle is the style of a cast to text.
func (e Env) castStyle() *Style {
	if e.Style == nil && e.Location != nil {
		return &Style{Location: e.Location}
	}
	return e.Style
}

func intFits(v int64, t *T) bool {
	switch t.Kind {
	case KindInt2:
		return v == int64(int16(v))
	case KindInt4:
		return v == int64(int32(v))
	case KindInt8:
		return true
	}
	return v >= 0 && v <= math.MaxUint32
}

func castInt(d Datum, from, to *T) (Datum, error) {
	switch to.Kind {
	case KindInt2, KindInt4, KindInt8:
		if from.IsReg() && to.Kind == KindInt4 {
			return NewInt(int64(int32(d.num))), nil
		}
		if !intFits(d.num, to) {
			return Null, OutOfRange(to)
		}
		return NewInt(d.num), nil
	case KindOID, KindRegClass, KindRegType, KindRegProc, KindRegProcedure, KindRegOper, KindRegOperator, KindRegCollation, KindRegConfig,
		KindRegDictionary, KindRegNamespace, KindRegRole:
		if from.Kind == KindInt4 || from.Kind == KindInt2 {
			return NewInt(int64(uint32(d.num))), nil
		}
		if !intFits(d.num, OID) {
			return Null, sqlstate.New(sqlstate.NumericOutOfRange, "OID out of range")
		}
		if to.Kind == from.Kind {
			return d, nil
		}
		return NewInt(d.num), nil
	case KindFloat4:
		return NewFloat(float64(float32(d.num))), nil
	case KindFloat8:
		return NewFloat(float64(d.num)), nil
	case KindDecimal:
		return applyDecimalTypmod(NewDecimal(apd.New(d.num, 0)), to)
	case KindBool:
		return NewBool(d.num != 0), nil
	case KindChar:
		if d.num < -128 || d.num > 127 {
			return Null, sqlstate.New(sqlstate.NumericOutOfRange, "\"char\" out of range")
		}
		if d.num == 0 {
			return NewString(""), nil
		}
		return NewString(string([]byte{byte(d.num)})), nil
	}
	return Null, cannotCast(from, to)
}

func castFloat(d Datum, from, to *T) (Datum, error) {
	f := d.Float()
	switch to.Kind {
	case KindFloat8:
		return d, nil
	case KindFloat4:
		g := float64(float32(f))
		if math.IsInf(g, 0) && !math.IsInf(f, 0) {
			return Null, sqlstate.New(sqlstate.NumericOutOfRange, "value out of range: overflow")
		}
		if g == 0 && f != 0 {
			return Null, sqlstate.New(sqlstate.NumericOutOfRange, "value out of range: underflow")
		}
		return NewFloat(g), nil
	case KindInt2, KindInt4, KindInt8:
		r := math.RoundToEven(f)
		if !(r >= -9223372036854775808.0 && r < 9223372036854775808.0) || !intFits(int64(r), to) {
			return Null, OutOfRange(to)
		}
		return NewInt(int64(r)), nil
	case KindDecimal:
		x, err := DecimalFromFloat(f, from.Kind == KindFloat4)
		if err != nil {
			return Null, err
		}
		return applyDecimalTypmod(NewDecimal(x), to)
	}
	return Null, cannotCast(from, to)
}

func castDecimal(d Datum, from, to *T) (Datum, error) {
	x := d.Decimal()
	switch to.Kind {
	case KindDecimal:
		return applyDecimalTypmod(d, to)
	case KindInt2, KindInt4, KindInt8:
		if x.Form != apd.Finite {
			what := "infinity"
			if x.Form != apd.Infinite {
				what = "NaN"
			}
			return Null, sqlstate.New(sqlstate.FeatureNotSupported, "cannot convert %s to %s", what, to.Name())
		}
		v, ok := DecimalToInt(x)
		if !ok || !intFits(v, to) {
			return Null, OutOfRange(to)
		}
		return NewInt(v), nil
	case KindFloat8:
		f := DecimalToFloat(x)
		if x.Form == apd.Finite && (math.IsInf(f, 0) || f == 0 && x.Coeff.Sign() != 0) {
			return Null, sqlstate.New(sqlstate.NumericOutOfRange, "%q is out of range for type double precision", Raw(AppendDecimal(nil, x)))
		}
		return NewFloat(f), nil
	case KindFloat4:
		f := float64(float32(DecimalToFloat(x)))
		if x.Form == apd.Finite && (math.IsInf(f, 0) || f == 0 && x.Coeff.Sign() != 0) {
			return Null, sqlstate.New(sqlstate.NumericOutOfRange, "%q is out of range for type real", Raw(AppendDecimal(nil, x)))
		}
		return NewFloat(f), nil
	}
	return Null, cannotCast(from, to)
}

func castTime(env Env, d Datum, from, to *T) (Datum, error) {
	inf := IsInfinite(d.num)
	switch from.Kind {
	case KindDate:
		switch to.Kind {
		case KindDate:
			return d, nil
		case KindTimestamp, KindTimestampTZ:
			if inf {
				return NewTimestamp(d.num), nil
			}
			if d.num >= endTimestampMicros/DayMicros || d.num < minTimestampMicros/DayMicros {
				return Null, sqlstate.New(sqlstate.DatetimeOverflow, "date out of range for timestamp")
			}
			local := d.num * DayMicros
			if to.Kind == KindTimestampTZ {
				return NewTimestamp(UTCMicros(local, env.location())), nil
			}
			return NewTimestamp(local), nil
		}
	case KindTime, KindTimeTZ:
		switch to.Kind {
		case KindTime:
			return NewTime(RoundMicros(d.num, to.Precision)), nil
		case KindTimeTZ:
			z := d.zone()
			if from.Kind == KindTime {
				z = int32(zoneOffset(env.now(), env.location()))
			}
			return NewTimeTZ(RoundMicros(d.num, to.Precision), z), nil
		case KindInterval:
			return fitInterval(NewInterval(0, 0, d.num), to), nil
		}
	case KindTimestamp:
		switch to.Kind {
		case KindTimestamp:
			return NewTimestamp(RoundMicros(d.num, to.Precision)), nil
		case KindTimestampTZ:
			return NewTimestamp(RoundMicros(UTCMicros(d.num, env.location()), to.Precision)), nil
		case KindDate:
			if inf {
				return NewDate(d.num), nil
			}
			days, _ := SplitMicros(d.num)
			return NewDate(days), nil
		case KindTime:
			if inf {
				return Null, nil
			}
			_, m := SplitMicros(d.num)
			return NewTime(RoundMicros(m, to.Precision)), nil
		}
	case KindTimestampTZ:
		switch to.Kind {
		case KindTimestampTZ:
			return NewTimestamp(RoundMicros(d.num, to.Precision)), nil
		case KindTimestamp:
			return NewTimestamp(RoundMicros(LocalMicros(d.num, env.location()), to.Precision)), nil
		case KindDate:
			if inf {
				return NewDate(d.num), nil
			}
			days, _ := SplitMicros(LocalMicros(d.num, env.location()))
			return NewDate(days), nil
		case KindTime, KindTimeTZ:
			if inf {
				return Null, nil
			}
			_, m := SplitMicros(LocalMicros(d.num, env.location()))
			if to.Kind == KindTimeTZ {
				return NewTimeTZ(RoundMicros(m, to.Precision), int32(zoneOffset(d.num, env.location()))), nil
			}
			return NewTime(RoundMicros(m, to.Precision)), nil
		}
	case KindInterval:
		switch to.Kind {
		case KindInterval:
			if to.Width > 0 {
				return fitInterval(d, to), nil
			}
			return d, nil
		case KindTime:
			_, _, micros := d.Interval()
			_, m := SplitMicros(micros)
			return NewTime(RoundMicros(m, to.Precision)), nil
		}
	}
	return Null, cannotCast(from, to)
}

func castJSON(d Datum, from, to *T) (Datum, error) {
	switch to.Kind {
	case from.Kind:
		return d, nil
	case KindJSON:
		return d, nil
	case KindJSONB:
		return ParseTextEnv(to, d.str, Env{})
	case KindBool, KindInt2, KindInt4, KindInt8, KindFloat4, KindFloat8, KindDecimal:
		v, err := ParseJSON(d.str)
		if err != nil {
			return Null, err
		}
		switch {
		case v.Kind == JSONBool && to.Kind == KindBool:
			return NewBool(v.Bool), nil
		case v.Kind == JSONNumber && to.Kind != KindBool:
			return castDecimal(NewDecimal(v.Num), Decimal, to)
		}
		name := v.TypeName()
		switch v.Kind {
		case JSONNumber:
			name = "numeric"
		case JSONArray, JSONObject:
		}
		return Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot cast jsonb %s to type %s", name, to.Name())
	}
	return Null, cannotCast(from, to)
}

func castArray(env Env, d Datum, from, to *T, explicit bool) (Datum, error) {
	if to.Kind == KindInt2Vector || to.Kind == KindOIDVector {
		return d, nil
	}
	if to.Kind != KindArray {
		return Null, cannotCast(from, to)
	}
	a := d.Array()
	elem := a.Elem
	if from.Kind == KindArray && from.Elem != nil && from.Elem.Kind != KindAnyElement {
		elem = from.Elem
	}
	if elem.Equal(to.Elem) {
		return d, nil
	}
	out := &Array{Elem: to.Elem, Elems: make([]Datum, len(a.Elems)), Shape: a.Shape}
	for i, e := range a.Elems {
		n, err := Cast(env, e, elem, to.Elem, explicit)
		if err != nil {
			return Null, err
		}
		out.Elems[i] = n
	}
	return NewArray(out), nil
}

func castTuple(env Env, d Datum, to *T, explicit bool) (Datum, error) {
	if len(to.Fields) == 0 {
		return d, nil
	}
	tu := d.Tuple()
	if len(to.Fields) != len(tu.Elems) {
		return Null, cannotCast(Record, to)
	}
	out := &Tuple{Types: to.Fields, Elems: make([]Datum, len(tu.Elems))}
	for i, e := range tu.Elems {
		n, err := Cast(env, e, tu.Types[i], to.Fields[i], explicit)
		if err != nil {
			return Null, err
		}
		out.Elems[i] = n
	}
	return NewTuple(out), nil
}

// SameRepresentation reports whether two equal values also print alike: 1.0 and 1.00 are equal but do not.
func SameRepresentation(a, b Datum) bool {
	if a.phys != b.phys {
		return false
	}
	switch a.phys {
	case PhysDecimal:
		return a.Decimal().Exponent == b.Decimal().Exponent
	case PhysFloat:
		return a.num == b.num || math.IsNaN(a.Float())
	case PhysString, PhysChar, PhysJSON:
		return a.str == b.str
	case PhysInterval:
		m1, d1, u1 := a.Interval()
		m2, d2, u2 := b.Interval()
		return m1 == m2 && d1 == d2 && u1 == u2
	case PhysArray:
		x, y := a.Array(), b.Array()
		if !x.Elem.Same(y.Elem) || len(x.Elems) != len(y.Elems) || !slices.Equal(x.shape(), y.shape()) {
			return false
		}
		for i := range x.Elems {
			if x.Elems[i].IsNull() != y.Elems[i].IsNull() || !SameRepresentation(x.Elems[i], y.Elems[i]) {
				return false
			}
		}
	}
	return true
}

// UnpadBlanks is s without its trailing blanks, as char(n) compares.
func UnpadBlanks(s string) string { return strings.TrimRight(s, " ") }
