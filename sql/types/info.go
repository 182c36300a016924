package types

import (
	"strconv"
	"strings"
)

// kindInfo is the row of a kind in PostgreSQL's pg_type.
type kindInfo struct {
	typname   string // pg_type.typname
	display   string // format_type
	oid       uint32
	array     uint32
	length    int16
	category  byte
	preferred bool
	phys      Phys
}

// kinds is read only. Index: Kind.
var kinds = [...]kindInfo{
	KindUnknown:       {"unknown", "unknown", 705, 0, -2, 'X', false, PhysString},
	KindBool:          {"bool", "boolean", 16, 1000, 1, 'B', true, PhysBool},
	KindInt2:          {"int2", "smallint", 21, 1005, 2, 'N', false, PhysInt},
	KindInt4:          {"int4", "integer", 23, 1007, 4, 'N', false, PhysInt},
	KindInt8:          {"int8", "bigint", 20, 1016, 8, 'N', false, PhysInt},
	KindFloat4:        {"float4", "real", 700, 1021, 4, 'N', false, PhysFloat},
	KindFloat8:        {"float8", "double precision", 701, 1022, 8, 'N', true, PhysFloat},
	KindDecimal:       {"numeric", "numeric", 1700, 1231, -1, 'N', false, PhysDecimal},
	KindText:          {"text", "text", 25, 1009, -1, 'S', true, PhysString},
	KindVarChar:       {"varchar", "character varying", 1043, 1015, -1, 'S', false, PhysString},
	KindBPChar:        {"bpchar", "character", 1042, 1014, -1, 'S', false, PhysChar},
	KindName:          {"name", "name", 19, 1003, 64, 'S', false, PhysString},
	KindChar:          {"char", `"char"`, 18, 1002, 1, 'Z', false, PhysString},
	KindBytes:         {"bytea", "bytea", 17, 1001, -1, 'U', false, PhysBytes},
	KindDate:          {"date", "date", 1082, 1182, 4, 'D', false, PhysDate},
	KindTime:          {"time", "time without time zone", 1083, 1183, 8, 'D', false, PhysTime},
	KindTimeTZ:        {"timetz", "time with time zone", 1266, 1270, 12, 'D', false, PhysTime},
	KindTimestamp:     {"timestamp", "timestamp without time zone", 1114, 1115, 8, 'D', false, PhysTimestamp},
	KindTimestampTZ:   {"timestamptz", "timestamp with time zone", 1184, 1185, 8, 'D', true, PhysTimestamp},
	KindInterval:      {"interval", "interval", 1186, 1187, 16, 'T', true, PhysInterval},
	KindUUID:          {"uuid", "uuid", 2950, 2951, 16, 'U', false, PhysUUID},
	KindJSON:          {"json", "json", 114, 199, -1, 'U', false, PhysJSON},
	KindJSONB:         {"jsonb", "jsonb", 3802, 3807, -1, 'U', false, PhysJSON},
	KindOID:           {"oid", "oid", 26, 1028, 4, 'N', true, PhysInt},
	KindRegClass:      {"regclass", "regclass", 2205, 2210, 4, 'N', false, PhysInt},
	KindRegType:       {"regtype", "regtype", 2206, 2211, 4, 'N', false, PhysInt},
	KindRegProc:       {"regproc", "regproc", 24, 1008, 4, 'N', false, PhysInt},
	KindRegNamespace:  {"regnamespace", "regnamespace", 4089, 4090, 4, 'N', false, PhysInt},
	KindRegRole:       {"regrole", "regrole", 4096, 4097, 4, 'N', false, PhysInt},
	KindArray:         {"anyarray", "anyarray", 2277, 0, -1, 'A', false, PhysArray},
	KindTuple:         {"record", "record", 2249, 2287, -1, 'P', false, PhysTuple},
	KindVoid:          {"void", "void", 2278, 0, 4, 'P', false, PhysNull},
	KindAny:           {"any", `"any"`, 2276, 0, 4, 'P', false, PhysNull},
	KindAnyElement:    {"anyelement", "anyelement", 2283, 0, 4, 'P', false, PhysNull},
	KindAnyArray:      {"anyarray", "anyarray", 2277, 0, -1, 'P', false, PhysArray},
	KindInt2Vector:    {"int2vector", "int2vector", 22, 1006, -1, 'A', false, PhysArray},
	KindOIDVector:     {"oidvector", "oidvector", 30, 1013, -1, 'A', false, PhysArray},
	KindEnum:          {"anyenum", "anyenum", 3500, 0, 4, 'E', false, PhysInt},
	KindInet:          {"inet", "inet", 869, 1041, -1, 'I', true, PhysNet},
	KindCIDR:          {"cidr", "cidr", 650, 651, -1, 'I', false, PhysNet},
	KindMACAddr:       {"macaddr", "macaddr", 829, 1040, 6, 'U', false, PhysMAC},
	KindMACAddr8:      {"macaddr8", "macaddr8", 774, 775, 8, 'U', false, PhysMAC},
	KindRegProcedure:  {"regprocedure", "regprocedure", 2202, 2207, 4, 'N', false, PhysInt},
	KindRegOper:       {"regoper", "regoper", 2203, 2208, 4, 'N', false, PhysInt},
	KindRegOperator:   {"regoperator", "regoperator", 2204, 2209, 4, 'N', false, PhysInt},
	KindRegCollation:  {"regcollation", "regcollation", 4191, 4192, 4, 'N', false, PhysInt},
	KindRegConfig:     {"regconfig", "regconfig", 3734, 3735, 4, 'N', false, PhysInt},
	KindRegDictionary: {"regdictionary", "regdictionary", 3769, 3770, 4, 'N', false, PhysInt},
	KindACLItem:       {"aclitem", "aclitem", 1033, 1034, 12, 'U', false, PhysString},
	KindXID8:          {"xid8", "xid8", 5069, 271, 8, 'U', false, PhysInt},
}

// scalars are the types that have values, without modifiers, in OID order of their families.
var scalars = [...]*T{Bool, Bytes, Char, Name, Int8, Int2, Int2Vector, Int4, RegProc, Text, OID, OIDVector, JSON,
	CIDR, Float4, Float8, Unknown, MACAddr8, MACAddr, Inet, BPChar, VarChar, Date, Time, Timestamp, TimestampTZ, IntervalType, TimeTZ, Decimal,
	RegClass, RegType, UUID, JSONB, RegNamespace, RegRole, ACLItem, RegProcedure, RegOper, RegOperator, RegCollation, RegConfig,
	RegDictionary, XID8, Record, Void, Any, AnyElement, AnyArray}

// Record is the type of a row value whose fields are not known.
var Record = &T{Kind: KindTuple}

// Further types of names of objects, for pg_catalog.
var (
	RegProcedure  = &T{Kind: KindRegProcedure}
	RegOper       = &T{Kind: KindRegOper}
	RegOperator   = &T{Kind: KindRegOperator}
	RegCollation  = &T{Kind: KindRegCollation}
	RegConfig     = &T{Kind: KindRegConfig}
	RegDictionary = &T{Kind: KindRegDictionary}
)

// TextArray and the others are array types without modifiers.
var (
	TextArray = ArrayOf(Text)
	NameArray = ArrayOf(Name)
	Int2Array = ArrayOf(Int2)
	Int4Array = ArrayOf(Int4)
	Int8Array = ArrayOf(Int8)
	OIDArray  = ArrayOf(OID)
)

// All lists every built-in type that is not an array, for pg_type.
func All() []*T { return append([]*T(nil), scalars[:]...) }

// OID is the type's pg_type.oid.
func (t *T) OID() uint32 {
	switch t.Kind {
	case KindArray:
		return t.Elem.ArrayOID()
	case KindEnum:
		return t.Enum.ID
	case KindTuple:
		if t.RowOID != 0 {
			return t.RowOID
		}
	}
	return kinds[t.Kind].oid
}

// ArrayOID is the OID of the array type over t, or zero if there is none.
func (t *T) ArrayOID() uint32 {
	if t.Kind == KindArray {
		return t.OID() // arrays of arrays are arrays of more dimensions
	}
	if t.Kind == KindEnum {
		return t.Enum.Array
	}
	if t.RowOID != 0 {
		return t.RowArray
	}
	return kinds[t.Kind].array
}

// Phys is the representation of the type's values.
func (t *T) Phys() Phys { return kinds[t.Kind].phys }

// Category is pg_type.typcategory.
func (t *T) Category() byte {
	if t.RowOID != 0 {
		return 'C'
	}
	return kinds[t.Kind].category
}

// Preferred is pg_type.typispreferred: the type wins within its category when a call is ambiguous.
func (t *T) Preferred() bool { return kinds[t.Kind].preferred }

// Len is pg_type.typlen: bytes of a fixed-length type, -1 for variable length, -2 for a C string.
func (t *T) Len() int16 { return kinds[t.Kind].length }

// TypName is pg_type.typname.
func (t *T) TypName() string {
	if t.Kind == KindArray {
		return "_" + t.Elem.TypName()
	}
	if t.Kind == KindEnum {
		return t.Enum.Name
	}
	return kinds[t.Kind].typname
}

// Typmod is pg_attribute.atttypmod: the encoded modifier, or -1.
func (t *T) Typmod() int32 {
	switch t.Kind {
	case KindVarChar, KindBPChar:
		if t.Width > 0 {
			return t.Width + 4
		}
	case KindDecimal:
		if t.Precision > 0 {
			return (t.Precision<<16 | t.Scale&0x7ff) + 4
		}
	case KindTime, KindTimeTZ, KindTimestamp, KindTimestampTZ:
		return t.Precision
	case KindInterval:
		return t.Width - 1
	case KindArray:
		return t.Elem.Typmod()
	}
	return -1
}

// WithTypmod is the type with the modifier that typmod encodes.
func (t *T) WithTypmod(typmod int32) *T {
	if typmod < 0 {
		return t.Bare()
	}
	switch t.Kind {
	case KindVarChar, KindBPChar:
		return &T{Kind: t.Kind, Width: typmod - 4}
	case KindDecimal:
		m := typmod - 4
		scale := m & 0x7ff
		if scale >= 1024 {
			scale -= 2048
		}
		return &T{Kind: t.Kind, Precision: m >> 16 & 0xffff, Scale: scale}
	case KindTime, KindTimeTZ, KindTimestamp, KindTimestampTZ:
		return &T{Kind: t.Kind, Precision: typmod}
	case KindInterval:
		return &T{Kind: t.Kind, Width: typmod + 1}
	case KindArray:
		return ArrayOf(t.Elem.WithTypmod(typmod))
	}
	return t
}

// Bare is the type without its modifiers.
func (t *T) Bare() *T {
	if t.Kind == KindArray {
		if e := t.Elem.Bare(); e != t.Elem {
			return ArrayOf(e)
		}
		return t
	}
	if t.Kind == KindTuple {
		return t
	}
	if t.Typmod() < 0 {
		return t
	}
	r, _ := FromOID(t.OID())
	return r
}

// Name is the type's name without modifiers, as messages print it.
func (t *T) Name() string {
	if t.Kind == KindArray && t.Elem != nil {
		return t.Elem.Name() + "[]"
	}
	if t.Row != "" {
		return t.Row
	}
	if t.Kind == KindEnum {
		return quoteName(t.Enum.Name)
	}
	return kinds[t.Kind].display
}

// String is the type's name with its modifiers, as format_type prints it.
func (t *T) String() string {
	switch t.Kind {
	case KindArray:
		if t.Elem == nil {
			return "anyarray"
		}
		return t.Elem.String() + "[]"
	case KindVarChar, KindBPChar:
		if t.Width > 0 {
			return t.Name() + "(" + strconv.Itoa(int(t.Width)) + ")"
		}
		if t.Kind == KindBPChar {
			return "bpchar"
		}
	case KindDecimal:
		if t.Precision > 0 {
			return "numeric(" + strconv.Itoa(int(t.Precision)) + "," + strconv.Itoa(int(t.Scale)) + ")"
		}
	case KindInterval:
		return t.intervalName()
	case KindTime, KindTimestamp:
		if t.Precision >= 0 {
			return kinds[t.Kind].typname + "(" + strconv.Itoa(int(t.Precision)) + ") without time zone"
		}
	case KindTimeTZ, KindTimestampTZ:
		if t.Precision >= 0 {
			return strings.TrimSuffix(kinds[t.Kind].typname, "tz") + "(" + strconv.Itoa(int(t.Precision)) + ") with time zone"
		}
	}
	return t.Name()
}

// Equal reports whether the types are the same, modifiers included.
func (t *T) Equal(o *T) bool {
	if t == o {
		return true
	}
	return t.Same(o) && t.Typmod() == o.Typmod()
}

// Same reports whether the types are the same but for their modifiers.
func (t *T) Same(o *T) bool {
	if t == o {
		return true
	}
	if t.Kind != o.Kind {
		return false
	}
	switch t.Kind {
	case KindArray:
		return t.Elem.Same(o.Elem)
	case KindEnum:
		return t.Enum.ID == o.Enum.ID
	case KindTuple:
		if t.RowOID != o.RowOID || len(t.Fields) != len(o.Fields) {
			return false
		}
		for i := range t.Fields {
			if !t.Fields[i].Same(o.Fields[i]) {
				return false
			}
		}
	}
	return true
}

// IsRow says that the type is that of the rows of a relation, or an array of such rows.
func (t *T) IsRow() bool {
	return t.RowOID != 0 || t.Kind == KindArray && t.Elem != nil && t.Elem.RowOID != 0
}

// IsNumeric says that the type is a number one can compute with.
func (t *T) IsNumeric() bool { return t.Kind >= KindInt2 && t.Kind <= KindDecimal }

// IsInteger says that the type is int2, int4 or int8.
func (t *T) IsInteger() bool { return t.Kind >= KindInt2 && t.Kind <= KindInt8 }

// IsString says that the type is a character string.
func (t *T) IsString() bool { return t.Kind >= KindText && t.Kind <= KindChar }

// IsReg says that the type is oid or one of its aliases.
func (t *T) IsReg() bool { return t.Kind >= KindOID && t.Kind <= KindRegRole }

// FromOID finds a built-in type.
func FromOID(oid uint32) (*T, bool) {
	for _, t := range scalars {
		if k := &kinds[t.Kind]; k.oid == oid {
			return t, true
		}
	}
	if oid == 0 {
		return nil, false
	}
	for _, t := range scalars {
		if k := &kinds[t.Kind]; k.array == oid {
			return ArrayOf(t), true
		}
	}
	return nil, false
}

// FromName finds a type by any of its names, with modifiers and array brackets: "int4", "varchar(10)",
// "timestamp(3) with time zone", "numeric(10,2)[]", "_text".
func FromName(name string) (*T, bool) {
	n := strings.Join(strings.Fields(strings.ToLower(name)), " ")
	n = strings.TrimPrefix(n, "pg_catalog.")
	if strings.HasSuffix(n, "[]") {
		elem, ok := FromName(strings.TrimSpace(strings.TrimSuffix(n, "[]")))
		if !ok {
			return nil, false
		}
		if elem.Kind == KindArray {
			return elem, true
		}
		return ArrayOf(elem), true
	}
	if strings.HasSuffix(n, " array") {
		return FromName(strings.TrimSuffix(n, " array") + "[]")
	}
	var mods []int32
	if i := strings.IndexByte(n, '('); i >= 0 {
		j := strings.IndexByte(n, ')')
		if j < i {
			return nil, false
		}
		for _, m := range strings.Split(n[i+1:j], ",") {
			v, err := strconv.ParseInt(strings.TrimSpace(m), 10, 32)
			if err != nil {
				return nil, false
			}
			mods = append(mods, int32(v))
		}
		n = strings.TrimSpace(strings.TrimSpace(n[:i]) + n[j+1:])
	}
	fields := ""
	if f, ok := strings.CutPrefix(n, "interval "); ok {
		n, fields = "interval", f
	}
	t, ok := bareFromName(n)
	if !ok {
		return nil, false
	}
	if fields != "" && len(mods) == 0 {
		t = IntervalOf(fields, -1)
		return t, t != nil
	}
	if len(mods) == 0 {
		if n == "char" || n == "character" || n == "nchar" {
			return &T{Kind: KindBPChar, Width: 1}, true
		}
		return t, true
	}
	switch t.Kind {
	case KindVarChar, KindBPChar:
		return &T{Kind: t.Kind, Width: mods[0]}, true
	case KindDecimal:
		r := &T{Kind: t.Kind, Precision: mods[0]}
		if len(mods) > 1 {
			r.Scale = mods[1]
		}
		return r, true
	case KindTime, KindTimeTZ, KindTimestamp, KindTimestampTZ:
		return &T{Kind: t.Kind, Precision: min(mods[0], 6)}, true
	case KindInterval:
		return IntervalOf(fields, min(mods[0], 6)), true
	case KindFloat8:
		if mods[0] <= 24 {
			return Float4, true
		}
		return t, true
	}
	return t, true
}

// FromCatalogName finds a built-in type by its exact name in pg_type.
func FromCatalogName(n string) (*T, bool) {
	for _, t := range scalars {
		if kinds[t.Kind].typname == n {
			return t, true
		}
	}
	if e, ok := strings.CutPrefix(n, "_"); ok {
		if t, ok := FromCatalogName(e); ok && t.ArrayOID() != 0 {
			return ArrayOf(t), true
		}
	}
	return nil, false
}

func bareFromName(n string) (*T, bool) {
	switch n {
	case "int", "integer", "serial", "serial4":
		return Int4, true
	case "smallint", "smallserial", "serial2":
		return Int2, true
	case "bigint", "bigserial", "serial8", "int64":
		return Int8, true
	case "boolean":
		return Bool, true
	case "real":
		return Float4, true
	case "float", "double precision":
		return Float8, true
	case "decimal", "dec":
		return Decimal, true
	case "string":
		return Text, true
	case "character varying", "char varying":
		return VarChar, true
	case "character", "char", "nchar":
		return BPChar, true
	case `"char"`:
		return Char, true
	case "bytes", "blob":
		return Bytes, true
	case "time without time zone":
		return Time, true
	case "time with time zone":
		return TimeTZ, true
	case "timestamp without time zone":
		return Timestamp, true
	case "timestamp with time zone":
		return TimestampTZ, true
	case `"any"`:
		return Any, true
	}
	return FromCatalogName(n)
}
