package session

import (
	"context"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

// rowByOID finds the type of a relation's rows, or of arrays of them.
func rowByOID(ctx context.Context, view catalog.View, oid uint32) (*types.T, bool) {
	t, err := view.TableByID(ctx, catalog.RowTypeOf(oid))
	switch {
	case err != nil || t == nil || t.Dropped || oid == 0:
		return nil, false
	case oid == t.RowTypeOID():
		return t.RowType(t.Name), true
	case oid == t.RowArrayOID():
		return types.ArrayOf(t.RowType(t.Name)), true
	}
	return nil, false
}

// typeByOID finds an enum, the type of a relation's rows, or the type of arrays of one of them, by the OID that a client gives for a parameter.
func typeByOID(ctx context.Context, view catalog.View, oid uint32) (*types.T, bool) {
	v, ok := view.(catalog.TypeView)
	if !ok {
		return nil, false
	}
	t, err := v.TypeByID(ctx, catalog.ID(oid))
	switch {
	case err != nil:
		return nil, false
	case t == nil:
		return rowByOID(ctx, view, oid)
	case t.Enum.Array == oid:
		return types.ArrayOf(types.EnumOf(&t.Enum)), true
	}
	return types.EnumOf(&t.Enum), true
}
