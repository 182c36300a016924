package types

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

// Enum is a type whose values have names and an order of their own. A value is held and stored as its place, an integer that never
// changes: so keys sort in the declared order, a value is renamed without touching rows, and one is added between two others without
// moving them. It does not change; a new version of the type is another Enum.
type Enum struct {
	ID, Array    uint32 // OIDs of the type and of its arrays
	Schema, Name string
	Values       []EnumValue // in order
}

// EnumValue is a value of an enum.
type EnumValue struct {
	Label string
	Place int64
	OID   uint32
	State ValueState `json:",omitempty"`
}

// ValueState is the state of a value that is being added to an enum, or removed. In each state rows with the value can be read.
type ValueState uint8

const (
	// ValuePublic values may be used by all statements.
	ValuePublic ValueState = iota
	// ValueReadable values can't be used by statements yet; they become public in the next version of the type.
	ValueReadable
	// ValueUnsafe values are those that the open transaction has added.
	ValueUnsafe
	// ValueLeaving values can't be used by statements any more; rows with them are still read. They go in the next version of the type, if no row has them.
	ValueLeaving
)

// hidden reports whether statements can't use the value.
func (s ValueState) hidden() bool { return s == ValueReadable || s == ValueLeaving }

// EnumGap is the distance between the places of two values that were declared one after the other: halved for each value that is put
// between them, it is enough for 40 of them.
const EnumGap = 1 << 40

// EnumOf is the type of an enum.
func EnumOf(e *Enum) *T { return &T{Kind: KindEnum, Enum: e} }

// Find is the value with a label.
func (e *Enum) Find(label string) (EnumValue, bool) {
	i := slices.IndexFunc(e.Values, func(v EnumValue) bool { return v.Label == label })
	if i < 0 {
		return EnumValue{}, false
	}
	return e.Values[i], true
}

// Label is the label of the value at a place; false if this version of the type has none.
func (e *Enum) Label(place int64) (string, bool) {
	i, ok := slices.BinarySearchFunc(e.Values, place, func(v EnumValue, p int64) int {
		switch {
		case v.Place < p:
			return -1
		case v.Place > p:
			return 1
		}
		return 0
	})
	if !ok {
		return "", false
	}
	return e.Values[i].Label, true
}

// parse reads a label.
func (e *Enum) parse(t *T, s string) (Datum, error) {
	v, ok := e.Find(s)
	if !ok || v.State.hidden() {
		return Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "invalid input value for enum %s: %q", t.Name(), Raw(s))
	}
	return v.use(e)
}

// ParseStored reads a text that the catalogue keeps with a type: values in all states are known.
func ParseStored(t *T, text string) (Datum, error) {
	open := func(e *Enum) *Enum {
		out := *e
		out.Values = slices.Clone(e.Values)
		for i := range out.Values {
			out.Values[i].State = ValuePublic
		}
		return &out
	}
	switch {
	case t.Kind == KindEnum:
		t = EnumOf(open(t.Enum))
	case t.Kind == KindArray && t.Elem != nil && t.Elem.Kind == KindEnum:
		t = ArrayOf(EnumOf(open(t.Elem.Enum)))
	}
	return ParseText(t, text, nil)
}

// use is the value in a statement. An unsafe one is refused: a row with it would remain if the change of the type is undone.
func (v *EnumValue) use(e *Enum) (Datum, error) {
	if v.State == ValueUnsafe {
		return Null, sqlstate.New("55P04", "unsafe use of new value \"%s\" of enum type %s", v.Label, quoteName(e.Name)).
			WithHint("New enum values must be committed before they can be used.")
	}
	return NewInt(v.Place), nil
}

// Range is enum_range: an array of the values from one to another; NULL is the first or the last.
func (e *Enum) Range(from, to Datum) (Datum, error) {
	var out []Datum
	for i := range e.Values {
		v := &e.Values[i]
		if v.State.hidden() || !from.IsNull() && v.Place < from.Int() || !to.IsNull() && v.Place > to.Int() {
			continue
		}
		d, err := v.use(e)
		if err != nil {
			return Null, err
		}
		out = append(out, d)
	}
	return NewArray(&Array{Elem: EnumOf(e), Elems: out}), nil
}

// First is enum_first; ok is false if the type has no values.
func (e *Enum) First() (d Datum, ok bool, err error) { return e.end(0, 1) }

// Last is enum_last; ok is false if the type has no values.
func (e *Enum) Last() (d Datum, ok bool, err error) { return e.end(len(e.Values)-1, -1) }

func (e *Enum) end(at, step int) (Datum, bool, error) {
	for ; at >= 0 && at < len(e.Values); at += step {
		if v := &e.Values[at]; !v.State.hidden() {
			d, err := v.use(e)
			return d, err == nil, err
		}
	}
	return Null, false, nil
}

// Settled is the enum with its unsafe or readable values in another state, and whether it had any.
func (e *Enum) Settled(from, to ValueState) (*Enum, bool) {
	out := *e
	out.Values = slices.Clone(e.Values)
	changed := false
	for i := range out.Values {
		if v := &out.Values[i]; v.State == from {
			v.State, changed = to, true
		}
	}
	return &out, changed
}

// IsEnum says that the type is an enum, or an array of one.
func (t *T) IsEnum() bool {
	return t.Kind == KindEnum || t.Kind == KindArray && t.Elem != nil && t.Elem.Kind == KindEnum
}

// WithEnum is the type with another version of an enum that it is, or is an array of; nil if it is neither.
func (t *T) WithEnum(e *Enum) *T {
	switch {
	case t.Kind == KindEnum && t.Enum.ID == e.ID:
		return EnumOf(e)
	case t.Kind == KindArray && t.Elem != nil:
		if elem := t.Elem.WithEnum(e); elem != nil {
			return ArrayOf(elem)
		}
	}
	return nil
}

// Reference is String for stored texts, in which a type that has an identity of its own is named by it: so they mean the same when
// the type is renamed or moved.
func (t *T) Reference() string {
	switch {
	case t.Kind == KindEnum:
		return "@" + strconv.FormatUint(uint64(t.Enum.ID), 10)
	case t.Kind == KindArray && t.Elem != nil:
		return t.Elem.Reference() + "[]"
	}
	return t.String()
}

// storedEnum begins the stored form of an enum as the type of a column.
const storedEnum = "enum "

func (t *T) marshalEnum() ([]byte, error) {
	e, prefix := t.Enum, storedEnum
	if t.Kind == KindArray {
		e, prefix = t.Elem.Enum, storedEnum+"[]"
	}
	b, err := json.Marshal(e)
	return append([]byte(prefix), b...), err
}

func (t *T) unmarshalEnum(s string) error {
	s, array := strings.CutPrefix(strings.TrimPrefix(s, storedEnum), "[]")
	e := &Enum{}
	if err := json.Unmarshal([]byte(s), e); err != nil {
		return err
	}
	if *t = *EnumOf(e); array {
		*t = *ArrayOf(EnumOf(e))
	}
	return nil
}

// quoteName quotes a type's name where it has to be.
func quoteName(name string) string {
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c == '_', c >= '0' && c <= '9' && i > 0:
		default:
			return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
	}
	return name
}
