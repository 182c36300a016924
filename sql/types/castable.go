package types

// CastContext is the place of a cast in a statement; each allows the casts that the ones before it allow.
type CastContext uint8

const (
	// CastImplicit casts are applied anywhere, without CAST.
	CastImplicit CastContext = iota
	// CastAssignment casts are applied when a value is stored in a column.
	CastAssignment
	// CastExplicit casts are applied by CAST and ::.
	CastExplicit
)

// CanCast reports whether a value of from may become a value of to in the context.
func CanCast(from, to *T, c CastContext) bool {
	need, ok := CastNeeds(from, to)
	return ok && need <= c
}

// CastNeeds is the least context in which from may be cast to to.
func CastNeeds(from, to *T) (CastContext, bool) {
	f, t := from.Kind, to.Kind
	if t == KindAny || f == KindUnknown {
		return CastImplicit, true
	}
	if f == KindVoid || t == KindVoid || t == KindUnknown {
		return CastExplicit, f == t
	}
	switch {
	case f == KindEnum && t == KindEnum:
		return CastImplicit, from.Same(to)
	case f == KindArray && t == KindArray:
		if from.Same(to) {
			return CastImplicit, true
		}
		return CastNeeds(from.Elem, to.Elem)
	case t == KindAnyArray:
		return CastImplicit, f == KindArray || f == KindInt2Vector || f == KindOIDVector
	case t == KindAnyElement:
		return CastImplicit, true
	case f == KindTuple && t == KindTuple:
		return CastImplicit, from.RowOID == 0 || to.RowOID == 0 || from.RowOID == to.RowOID
	case f == t:
		return CastImplicit, true
	case f == KindInt2Vector && t == KindArray && to.Elem.Kind == KindInt2,
		f == KindOIDVector && t == KindArray && to.Elem.Kind == KindOID:
		return CastImplicit, true
	}
	if c, ok := castMatrix(f, t); ok {
		return c, true
	}
	// These casts convert through the text form.
	if to.IsString() && t != KindChar {
		return CastAssignment, true
	}
	if from.IsString() && f != KindChar {
		return CastExplicit, true
	}
	return CastExplicit, false
}

// numRank orders the numbers by implicit promotion.
func numRank(k Kind) int {
	switch k {
	case KindInt2:
		return 1
	case KindInt4:
		return 2
	case KindInt8:
		return 3
	case KindDecimal:
		return 4
	case KindFloat4:
		return 5
	case KindFloat8:
		return 6
	}
	return 0
}

// castMatrix follows pg_cast.
func castMatrix(f, t Kind) (CastContext, bool) {
	if a, b := numRank(f), numRank(t); a > 0 && b > 0 {
		if a < b {
			return CastImplicit, true
		}
		return CastAssignment, true
	}
	reg := func(k Kind) bool { return k >= KindOID && k <= KindRegRole }
	str := func(k Kind) bool { return k == KindText || k == KindVarChar || k == KindBPChar || k == KindName }
	switch {
	case reg(t) && (f == KindInt2 || f == KindInt4 || f == KindInt8):
		return CastImplicit, true
	case reg(f) && (t == KindInt4 || t == KindInt8):
		return CastAssignment, true
	case reg(f) && reg(t):
		pair := func(a, b Kind) bool { return f == a && t == b || f == b && t == a }
		return CastImplicit, f == KindOID || t == KindOID || pair(KindRegProc, KindRegProcedure) || pair(KindRegOper, KindRegOperator)
	case t == KindRegClass && (f == KindText || f == KindVarChar):
		return CastImplicit, true
	case str(f) && str(t):
		if f == KindName && t != KindText {
			return CastAssignment, true
		}
		return CastImplicit, true
	case f == KindChar && str(t):
		if t == KindText {
			return CastImplicit, true
		}
		return CastAssignment, true
	case str(f) && t == KindChar:
		return CastAssignment, true
	}
	switch f {
	case KindBool:
		switch t {
		case KindInt4:
			return CastExplicit, true
		case KindText, KindVarChar, KindBPChar:
			return CastAssignment, true
		}
	case KindInt4:
		switch t {
		case KindBool, KindChar:
			return CastExplicit, true
		}
	case KindChar:
		if t == KindInt4 {
			return CastExplicit, true
		}
	case KindDate:
		switch t {
		case KindTimestamp, KindTimestampTZ:
			return CastImplicit, true
		}
	case KindTime:
		switch t {
		case KindInterval, KindTimeTZ:
			return CastImplicit, true
		}
	case KindTimeTZ:
		if t == KindTime {
			return CastAssignment, true
		}
	case KindTimestamp:
		switch t {
		case KindTimestampTZ:
			return CastImplicit, true
		case KindDate, KindTime:
			return CastAssignment, true
		}
	case KindTimestampTZ:
		switch t {
		case KindDate, KindTime, KindTimestamp, KindTimeTZ:
			return CastAssignment, true
		}
	case KindInterval:
		if t == KindTime {
			return CastAssignment, true
		}
	case KindCIDR:
		if t == KindInet {
			return CastImplicit, true
		}
	case KindInet:
		if t == KindCIDR {
			return CastAssignment, true
		}
	case KindMACAddr:
		if t == KindMACAddr8 {
			return CastImplicit, true
		}
	case KindMACAddr8:
		if t == KindMACAddr {
			return CastAssignment, true
		}
	case KindJSON:
		if t == KindJSONB {
			return CastAssignment, true
		}
	case KindJSONB:
		switch t {
		case KindJSON:
			return CastAssignment, true
		case KindBool, KindInt2, KindInt4, KindInt8, KindFloat4, KindFloat8, KindDecimal:
			return CastExplicit, true
		}
	}
	return 0, false
}

// Common is the type that UNION, CASE, COALESCE, ARRAY and VALUES give to expressions of the given types: all unknown
// is text; otherwise the first type not unknown, replaced by a later one of the same category that it casts to
// implicitly but not back. The modifier stays if all of them have it. It is nil if the types do not match.
func Common(ts ...*T) *T {
	var best *T
	same, unknown := true, false
	for _, t := range ts {
		if t.Kind == KindUnknown {
			unknown = true
			continue
		}
		switch {
		case best == nil:
			best = t
		case best.Same(t):
			if !best.Equal(t) {
				same = false
			}
		case best.Category() != t.Category():
			return nil
		default:
			same = false
			to, from := CanCast(best, t, CastImplicit), CanCast(t, best, CastImplicit)
			if to && !from && !best.Preferred() {
				best = t
			} else if !from {
				if !to {
					return nil
				}
				best = t
			}
		}
	}
	if best == nil {
		return Text
	}
	if !same || unknown {
		best = best.Bare()
	}
	return best
}
