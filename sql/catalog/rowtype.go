package catalog

import (
	"unicode/utf8"

	"meridian/sql/types"
)

// derivedOID is set in OIDs that are made from the identity of a relation.
const derivedOID ID = 1 << 31

// RowTypeOID is the OID of the type of the relation's rows; zero for a sequence, which has none. It is the relation's own identity: relations and enums share
// one counter, so no other type has it. Computed relations have identities that PostgreSQL gives to types too, and get a derived OID.
func (t *Table) RowTypeOID() uint32 {
	switch {
	case t.Kind == KindSequence:
		return 0
	case t.ID < FirstUserID:
		return uint32(t.ID | derivedOID)
	}
	return uint32(t.ID)
}

// RowArrayOID is the OID of the type of arrays of the relation's rows; zero for a relation that has none.
func (t *Table) RowArrayOID() uint32 {
	if t.Kind == KindSequence || t.ID < FirstUserID {
		return 0
	}
	return uint32(t.ID | derivedOID)
}

// RowTypeOf is the relation to which an OID of RowTypeOID or RowArrayOID would belong.
func RowTypeOf(oid uint32) ID { return ID(oid) &^ derivedOID }

// RowType is the type of the relation's rows. Messages show it under the given name.
func (t *Table) RowType(shown string) *types.T {
	out := &types.T{Kind: types.KindTuple, Row: shown, RowOID: t.RowTypeOID(), RowArray: t.RowArrayOID()}
	for i := range t.Columns {
		if col := &t.Columns[i]; col.State == Public && !col.Hidden {
			out.Fields = append(out.Fields, col.Type)
			out.Names = append(out.Names, col.Name)
		}
	}
	return out
}

// RowArrayName is pg_type.typname of the type of arrays of the relation's rows.
func (t *Table) RowArrayName() string {
	name := "_" + t.Name
	for len(name) > 63 {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	return name
}
