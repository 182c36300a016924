package virtual

import (
	"meridian/sql/types"
)

func textArray(v []string, t *types.T) types.Datum {
	a := &types.Array{Elem: t.Elem, Elems: make([]types.Datum, len(v))}
	if a.Elem == nil {
		a.Elem = types.Text
	}
	for i, s := range v {
		a.Elems[i] = types.NewString(s)
	}
	return types.NewArray(a)
}

func int2Array(v []int16, t *types.T) types.Datum {
	a := &types.Array{Elem: types.Int2, Elems: make([]types.Datum, len(v))}
	for i, n := range v {
		a.Elems[i] = types.NewInt(int64(n))
	}
	return types.NewArray(a)
}

func int8Array(v []int64) types.Datum {
	a := &types.Array{Elem: types.Int8, Elems: make([]types.Datum, len(v))}
	for i, n := range v {
		a.Elems[i] = types.NewInt(n)
	}
	return types.NewArray(a)
}

func oidArray(v []uint32, t *types.T) types.Datum {
	a := &types.Array{Elem: types.OID, Elems: make([]types.Datum, len(v))}
	for i, n := range v {
		a.Elems[i] = types.NewInt(int64(n))
	}
	return types.NewArray(a)
}
