package types

import (
	"math"

	"github.com/cockroachdb/apd/v3"
)

// Phys is the representation of a value in memory. Several SQL types share one: int2, int4 and int8 are all PhysInt.
type Phys uint8

const (
	PhysNull Phys = iota
	PhysBool
	PhysInt       // int2, int4, int8, oid and the reg* types: num
	PhysFloat     // float4, float8: the bits of a float64 in num
	PhysDecimal   // ref: *apd.Decimal, never changed once made
	PhysString    // text, varchar, name, "char": str
	PhysChar      // bpchar: str with its blanks, which do not count when it is compared
	PhysBytes     // bytea: str
	PhysDate      // days since 2000-01-01 in num
	PhysTime      // microseconds since midnight in num
	PhysTimestamp // timestamp (zoneless) and timestamptz (UTC): microseconds since 2000-01-01 in num
	PhysInterval  // microseconds in num; ref: *Interval months and days
	PhysUUID      // sixteen raw bytes in str
	PhysJSON      // canonical text in str
	PhysArray     // ref: *Array
	PhysTuple     // ref: *Tuple
	PhysNet       // inet, cidr: bytes in their order in str (types.T8)
	PhysMAC       // macaddr, macaddr8: six or eight bytes in str
)

// Infinite timestamps and dates, as PostgreSQL has them.
const (
	InfinityNum    = math.MaxInt64
	NegInfinityNum = math.MinInt64
)

// Datum is one SQL value. Its zero value is NULL. It is small, copied freely and never changed in place; the
// static type that says how to print and compare it travels separately, as a *T.
type Datum struct {
	phys Phys
	num  int64
	str  string
	ref  any
}

// Row is one value for each column of a relation.
type Row []Datum

// Interval is the calendar part of an interval; its microseconds are the datum's number.
type Interval struct{ Months, Days int32 }

// Array is an array value. Its elements are in one list, those of the last dimension next to each other.
type Array struct {
	Elem  *T
	Elems []Datum
	// Shape has the dimensions; nil is one that starts at 1, or none if there are no elements. The product of the lengths is
	// the number of elements (types.T7).
	Shape []Dim
}

// Dim is one dimension of an array: its first subscript and its length.
type Dim struct{ Lower, Len int32 }

// Tuple is a row value.
type Tuple struct {
	Types []*T
	Elems []Datum
}

// Null is NULL.
var Null = Datum{}

// The constructors make a datum of each physical form. Their arguments are not copied and must not change (types.T6).

// NewBool makes a boolean.
func NewBool(b bool) Datum {
	if b {
		return Datum{phys: PhysBool, num: 1}
	}
	return Datum{phys: PhysBool}
}

// NewInt and those below make the other forms: a decimal with its display scale (types.T1), a char(n) with its
// blanks (types.T2), a jsonb in canonical form (types.T3), times since 2000-01-01 (types.T4).
func NewInt(i int64) Datum            { return Datum{phys: PhysInt, num: i} }
func NewFloat(f float64) Datum        { return Datum{phys: PhysFloat, num: int64(math.Float64bits(f))} }
func NewDecimal(d *apd.Decimal) Datum { return Datum{phys: PhysDecimal, ref: d} }
func NewString(s string) Datum        { return Datum{phys: PhysString, str: s} }
func NewChar(s string) Datum          { return Datum{phys: PhysChar, str: s} }
func NewBytes(s string) Datum         { return Datum{phys: PhysBytes, str: s} }
func NewDate(days int64) Datum        { return Datum{phys: PhysDate, num: days} }
func NewTime(micros int64) Datum      { return Datum{phys: PhysTime, num: micros} }
func NewTimestamp(micros int64) Datum { return Datum{phys: PhysTimestamp, num: micros} }
func NewUUID(raw [16]byte) Datum      { return Datum{phys: PhysUUID, str: string(raw[:])} }
func NewJSON(canonical string) Datum  { return Datum{phys: PhysJSON, str: canonical} }
func NewArray(a *Array) Datum         { return Datum{phys: PhysArray, ref: a} }
func NewTuple(t *Tuple) Datum         { return Datum{phys: PhysTuple, ref: t} }
func NewInterval(months, days int32, micros int64) Datum {
	return Datum{phys: PhysInterval, num: micros, ref: &Interval{months, days}}
}

// Phys says which form is held. The accessors below it are for that form only, IsNull apart.
func (d Datum) Phys() Phys            { return d.phys }
func (d Datum) IsNull() bool          { return d.phys == PhysNull }
func (d Datum) Bool() bool            { return d.num != 0 }
func (d Datum) Int() int64            { return d.num }
func (d Datum) Float() float64        { return math.Float64frombits(uint64(d.num)) }
func (d Datum) Decimal() *apd.Decimal { return d.ref.(*apd.Decimal) }

// Str is the text of a PhysString or a PhysChar, the bytes of a PhysBytes, a PhysUUID, a PhysNet or a PhysMAC, or the JSON text.
func (d Datum) Str() string   { return d.str }
func (d Datum) Days() int64   { return d.num }
func (d Datum) Micros() int64 { return d.num }
func (d Datum) Array() *Array { return d.ref.(*Array) }
func (d Datum) Tuple() *Tuple { return d.ref.(*Tuple) }

// Interval returns the parts of an interval.
func (d Datum) Interval() (months, days int32, micros int64) {
	iv := d.ref.(*Interval)
	return iv.Months, iv.Days, d.num
}

// NewTimeTZ is a time of day at a zone, given in seconds east of UTC.
func NewTimeTZ(micros int64, zone int32) Datum {
	return Datum{phys: PhysTime, num: micros, ref: zone}
}

// NewReg is a value of a reg* type together with the name that it prints as; empty prints the number.
func NewReg(oid uint32, name string) Datum {
	return Datum{phys: PhysInt, num: int64(oid), str: name}
}

// Zone is the zone of a timetz, in seconds east of UTC.
func (d Datum) Zone() int32 { return d.zone() }

func (d Datum) zone() int32 {
	if z, ok := d.ref.(int32); ok {
		return z
	}
	return 0
}
