package session

import (
	"context"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

// enumByOID finds an enum, or its arrays, by the OID that a client gives for a parameter.
func (s *Session) enumByOID(ctx context.Context, oid uint32) (*types.T, bool) {
	v, ok := s.view().(catalog.TypeView)
	if !ok || s.state.Failed() {
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
