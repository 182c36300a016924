package session

import (
	"context"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

// enumByOID finds an enum, or the type of its arrays, by the OID that a client gives for a parameter.
func enumByOID(ctx context.Context, view catalog.View, oid uint32) (*types.T, bool) {
	v, ok := view.(catalog.TypeView)
	if !ok {
		return nil, false
	}
	t, err := v.TypeByID(ctx, catalog.ID(oid))
	switch {
	case err != nil || t == nil:
		return nil, false
	case t.Enum.Array == oid:
		return types.ArrayOf(types.EnumOf(&t.Enum)), true
	}
	return types.EnumOf(&t.Enum), true
}
