package system

import "meridian/sql/types"

// OperatorClass is an operator class of ordered indexes, with PostgreSQL's OIDs.
type OperatorClass struct {
	OID  uint32
	Name string
	// Input is the OID of the type that it orders, and Family that of the classes that are compatible with it.
	Input, Family uint32
	// Default: an index on a column of the type has the class if it names none.
	Default bool
	// Key is the OID of the stored type where it is another than Input, otherwise zero.
	Key uint32
}

// OperatorClasses are PostgreSQL's for the types of this package's values.
func OperatorClasses() []OperatorClass {
	return []OperatorClass{
		{1978, "int4_ops", 23, 1976, true, 0},
		{1979, "int2_ops", 21, 1976, true, 0},
		{1981, "oid_ops", 26, 1989, true, 0},
		{3122, "date_ops", 1082, 434, true, 0},
		{3123, "float8_ops", 701, 1970, true, 0},
		{3124, "int8_ops", 20, 1976, true, 0},
		{3125, "numeric_ops", 1700, 1988, true, 0},
		{3126, "text_ops", 25, 1994, true, 0},
		{3127, "timestamptz_ops", 1184, 434, true, 0},
		{3128, "timestamp_ops", 1114, 434, true, 0},
		{4217, "text_pattern_ops", 25, 2095, false, 0},
		{4218, "varchar_pattern_ops", 25, 2095, false, 0},
		{4219, "bpchar_pattern_ops", 1042, 2097, false, 0},
		{10000, "array_ops", 2277, 397, true, 0},
		{10003, "bool_ops", 16, 424, true, 0},
		{10004, "bpchar_ops", 1042, 426, true, 0},
		{10006, "bytea_ops", 17, 428, true, 0},
		{10007, "char_ops", 18, 429, true, 0},
		{10009, "cidr_ops", 869, 1974, false, 0},
		{10012, "float4_ops", 700, 1970, true, 0},
		{10015, "inet_ops", 869, 1974, true, 0},
		{10022, "interval_ops", 1186, 1982, true, 0},
		{10024, "macaddr_ops", 829, 1984, true, 0},
		{10026, "macaddr8_ops", 774, 3371, true, 0},
		{10028, "name_ops", 19, 1994, true, 2275},
		{10032, "oidvector_ops", 30, 1991, true, 0},
		{10034, "record_ops", 2249, 2994, true, 0},
		{10036, "record_image_ops", 2249, 3194, false, 0},
		{10038, "time_ops", 1083, 1996, true, 0},
		{10041, "timetz_ops", 1266, 2000, true, 0},
		{10044, "varchar_ops", 25, 1994, false, 0},
		{10052, "xid8_ops", 5069, 5067, true, 0},
		{10065, "uuid_ops", 2950, 2968, true, 0},
		{10069, "enum_ops", 3500, 3522, true, 0},
		{10088, "jsonb_ops", 3802, 4033, true, 0},
	}
}

// OperatorFamily is a family of operator classes of ordered indexes.
type OperatorFamily struct {
	OID  uint32
	Name string
}

// OperatorFamilies are those of OperatorClasses.
func OperatorFamilies() []OperatorFamily {
	return []OperatorFamily{
		{397, "array_ops"},
		{424, "bool_ops"},
		{426, "bpchar_ops"},
		{428, "bytea_ops"},
		{429, "char_ops"},
		{434, "datetime_ops"},
		{1970, "float_ops"},
		{1974, "network_ops"},
		{1976, "integer_ops"},
		{1982, "interval_ops"},
		{1984, "macaddr_ops"},
		{1988, "numeric_ops"},
		{1989, "oid_ops"},
		{1991, "oidvector_ops"},
		{1994, "text_ops"},
		{1996, "time_ops"},
		{2000, "timetz_ops"},
		{2095, "text_pattern_ops"},
		{2097, "bpchar_pattern_ops"},
		{2968, "uuid_ops"},
		{2994, "record_ops"},
		{3194, "record_image_ops"},
		{3371, "macaddr8_ops"},
		{3522, "enum_ops"},
		{4033, "jsonb_ops"},
		{5067, "xid8_ops"},
	}
}

// DefaultOperatorClass is the OID of the class that an index on a column of the type has; zero if values of the type have no order.
func DefaultOperatorClass(t *types.T) uint32 {
	input := inputOf(t)
	for _, c := range OperatorClasses() {
		if c.Default && c.Input == input {
			return c.OID
		}
	}
	return 0
}

// inputOf is the type by which the operator classes of a type are found.
func inputOf(t *types.T) uint32 {
	switch t.Kind {
	case types.KindVarChar:
		return types.Text.OID()
	case types.KindCIDR:
		return inetOID
	case types.KindArray, types.KindInt2Vector:
		return anyArrayOID
	case types.KindEnum:
		return anyEnumOID
	case types.KindTuple:
		return recordOID
	case types.KindRegClass, types.KindRegType, types.KindRegProc, types.KindRegProcedure, types.KindRegOper, types.KindRegOperator,
		types.KindRegCollation, types.KindRegConfig, types.KindRegDictionary, types.KindRegNamespace, types.KindRegRole:
		return types.OID.OID()
	}
	return t.OID()
}

// OperatorClassNamed finds an operator class by name.
func OperatorClassNamed(name string) (OperatorClass, bool) {
	for _, c := range OperatorClasses() {
		if c.Name == name {
			return c, true
		}
	}
	return OperatorClass{}, false
}

// Accepts reports whether an index on a column of a type may name the class, and whether the class has the order of the type, which is that of our indexes. The
// classes for patterns have it, since text is ordered by its bytes. PostgreSQL accepts a class for each type that has the form of the class's own type; the order is
// another one where blanks at the end don't count, and where negative numbers are large ones.
func (c OperatorClass) Accepts(t *types.T) (accepted, ordered bool) {
	if c.Input == inputOf(t) {
		return true, c.Name != "record_image_ops"
	}
	switch t.Kind {
	case types.KindText, types.KindVarChar:
		return c.Input == types.BPChar.OID(), false
	case types.KindInt4:
		return c.Input == types.OID.OID(), false
	}
	return false, false
}

// OIDs of types that stand for several.
const (
	inetOID     = 869
	anyArrayOID = 2277
	recordOID   = 2249
	anyEnumOID  = 3500
)
