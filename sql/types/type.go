package types

// Kind is a SQL type without its modifiers.
type Kind uint8

const (
	// KindUnknown is the type of an untyped literal or NULL before it is resolved.
	KindUnknown Kind = iota
	KindBool
	KindInt2
	KindInt4
	KindInt8
	KindFloat4
	KindFloat8
	KindDecimal
	KindText
	KindVarChar
	KindBPChar
	KindName
	KindChar // PostgreSQL's one-byte "char"
	KindBytes
	KindDate
	KindTime
	KindTimeTZ
	KindTimestamp
	KindTimestampTZ
	KindInterval
	KindUUID
	KindJSON
	KindJSONB
	KindOID
	KindRegClass
	KindRegType
	KindRegProc
	KindRegProcedure
	KindRegOper
	KindRegOperator
	KindRegCollation
	KindRegConfig
	KindRegDictionary
	KindRegNamespace
	KindRegRole
	KindArray
	KindTuple
	KindVoid
	// KindAny is only in function signatures: any type. KindAnyElement and KindAnyArray bind together.
	KindAny
	KindAnyElement
	KindAnyArray
	// KindInt2Vector and KindOIDVector are for pg_catalog.
	KindInt2Vector
	KindOIDVector
	// KindEnum is an enum: the one in T.Enum.
	KindEnum
	KindInet
	KindCIDR
	KindMACAddr
	KindMACAddr8
	// KindACLItem is one right in a list of rights, held as its text.
	KindACLItem
	// KindXID8 is the number of a transaction, without a sign (NewXID8).
	KindXID8
)

// T is a SQL type. Types without modifiers are shared; compare with Equal or Same.
type T struct {
	Kind Kind
	// Width is the n of varchar(n), char(n); zero is unlimited. Of an interval it is the modifier plus one.
	Width int32
	// Precision and Scale of decimal(p, s); Precision of the time types, -1 meaning the default of six.
	Precision, Scale int32
	Elem             *T   // arrays
	Fields           []*T // tuples
	// Names are the fields' names, of a tuple that has some: the row of a relation.
	Names []string
	// Row is the name, as it is shown, of the relation whose rows the tuples are; empty: the tuples are of no relation, and their type is record.
	Row string
	// RowOID and RowArray are the OIDs of the type of that relation's rows, and of the arrays of them. RowArray may be zero: there is none.
	RowOID, RowArray uint32
	Enum             *Enum
}

// The types without modifiers.
var (
	Unknown      = &T{Kind: KindUnknown}
	Bool         = &T{Kind: KindBool}
	Int2         = &T{Kind: KindInt2}
	Int4         = &T{Kind: KindInt4}
	Int8         = &T{Kind: KindInt8}
	Float4       = &T{Kind: KindFloat4}
	Float8       = &T{Kind: KindFloat8}
	Decimal      = &T{Kind: KindDecimal}
	Text         = &T{Kind: KindText}
	VarChar      = &T{Kind: KindVarChar}
	BPChar       = &T{Kind: KindBPChar}
	Name         = &T{Kind: KindName}
	Char         = &T{Kind: KindChar}
	Bytes        = &T{Kind: KindBytes}
	Date         = &T{Kind: KindDate}
	Time         = &T{Kind: KindTime, Precision: -1}
	TimeTZ       = &T{Kind: KindTimeTZ, Precision: -1}
	Timestamp    = &T{Kind: KindTimestamp, Precision: -1}
	TimestampTZ  = &T{Kind: KindTimestampTZ, Precision: -1}
	IntervalType = &T{Kind: KindInterval}
	UUID         = &T{Kind: KindUUID}
	JSON         = &T{Kind: KindJSON}
	JSONB        = &T{Kind: KindJSONB}
	OID          = &T{Kind: KindOID}
	RegClass     = &T{Kind: KindRegClass}
	RegType      = &T{Kind: KindRegType}
	RegProc      = &T{Kind: KindRegProc}
	RegNamespace = &T{Kind: KindRegNamespace}
	ACLItem      = &T{Kind: KindACLItem}
	XID8         = &T{Kind: KindXID8}
	RegRole      = &T{Kind: KindRegRole}
	Void         = &T{Kind: KindVoid}
	Any          = &T{Kind: KindAny}
	AnyElement   = &T{Kind: KindAnyElement}
	AnyArray     = &T{Kind: KindAnyArray}
	Int2Vector   = &T{Kind: KindInt2Vector}
	OIDVector    = &T{Kind: KindOIDVector}
	Inet         = &T{Kind: KindInet}
	CIDR         = &T{Kind: KindCIDR}
	MACAddr      = &T{Kind: KindMACAddr}
	MACAddr8     = &T{Kind: KindMACAddr8}
)

// ArrayOf is the array type of an element type. Arrays of arrays are arrays of more dimensions: they have no type of their own.
func ArrayOf(elem *T) *T {
	if elem.Kind == KindArray {
		return elem
	}
	return &T{Kind: KindArray, Elem: elem}
}
