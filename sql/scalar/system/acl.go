package system

import (
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// aclDefault is acldefault: the rights that an object has whose list of rights is NULL.
func aclDefault(ctx *scalar.Context, kind, owner types.Datum) (types.Datum, error) {
	public, own := "", ""
	switch kind.Str() {
	case "c": // a column has none of its own
	case "r":
		own = "arwdDxt"
	case "s":
		own = "rwU"
	case "d":
		public, own = "Tc", "CTc"
	case "f":
		public, own = "X", "X"
	case "l", "T":
		public, own = "U", "U"
	case "L":
		own = "rw"
	case "n":
		own = "UC"
	case "t":
		own = "C"
	case "F", "S":
		own = "U"
	case "p":
		own = "sA"
	default:
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized object type abbreviation: %s", kind.Str())
	}
	list := &types.Array{Elem: types.ACLItem}
	name := scalar.QuoteIdent(scalar.RegName(ctx, types.KindRegRole, uint32(owner.Int())))
	if public != "" {
		list.Elems = append(list.Elems, types.NewString("="+public+"/"+name))
	}
	if own != "" {
		list.Elems = append(list.Elems, types.NewString(name+"="+own+"/"+name))
	}
	return types.NewArray(list), nil
}
