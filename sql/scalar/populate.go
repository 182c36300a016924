package scalar

import (
	"strconv"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addPopulate adds the functions that make rows from JSON objects. Those that return sets are made as arrays here; the
// binder takes them apart. Those whose row is described in FROM get a NULL of that row's type for their first argument.
func addPopulate(r *Registry) {
	for _, t := range []string{"json", "jsonb"} {
		ordered := t == "json"
		one := func(ts []*types.T) evalN {
			return func(ctx *Context, a []types.Datum) (types.Datum, error) {
				if ts[0].Kind != types.KindTuple {
					return types.Null, sqlstate.New(sqlstate.DatatypeMismatch, "first argument of %s_populate_record must be a row type", t)
				}
				if unknownRow(ts[0], a[0]) {
					return types.Null, noRowType(t + "_populate_record")
				}
				if a[1].IsNull() {
					return a[0], nil
				}
				v, err := parseJSON(a[1], ordered)
				if err != nil {
					return types.Null, err
				}
				return rowOf(ctx, v, ts[0], a[0], t+"_populate_record")
			}
		}
		all := func(ts []*types.T) evalN {
			return func(ctx *Context, a []types.Datum) (types.Datum, error) {
				if ts[0].Kind != types.KindTuple {
					return types.Null, sqlstate.New(sqlstate.DatatypeMismatch, "first argument of %s_populate_recordset must be a row type", t)
				}
				if unknownRow(ts[0], a[0]) {
					return types.Null, noRowType(t + "_populate_recordset")
				}
				if a[1].IsNull() {
					return types.Null, nil
				}
				v, err := parseJSON(a[1], ordered)
				if err != nil {
					return types.Null, err
				}
				switch v.Kind {
				case types.JSONArray:
				case types.JSONObject:
					return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s_populate_recordset on an object", t)
				default:
					return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s_populate_recordset on a scalar", t)
				}
				out := elemList{ctx: ctx}
				for _, e := range v.Elems {
					if e.Kind != types.JSONObject {
						return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "argument of %s_populate_recordset must be an array of objects", t)
					}
					d, err := rowOf(ctx, e, ts[0], a[0], t+"_populate_recordset")
					if err != nil {
						return types.Null, err
					}
					if err := out.add(d); err != nil {
						return types.Null, err
					}
				}
				return out.array(ts[0]), nil
			}
		}
		o := r.add(r.funcs, t+"_populate_record(anyelement, "+t+") anyelement", Stable).WithNulls()
		o.TypedEval = one
		o.setN(untypedArgs(one))
		o = r.add(r.funcs, t+"_populate_recordset(anyelement, "+t+") anyarray", Stable).WithNulls()
		o.TypedEval = all
		o.setN(untypedArgs(all))
	}
}

// unknownRow reports that a value of a row type says nothing about its fields: NULL::record.
func unknownRow(t *types.T, d types.Datum) bool { return len(t.Fields) == 0 && d.IsNull() }

func noRowType(function string) error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "could not determine row type for result of %s", function).
		WithHint("Provide a non-null record argument, or call the function in the FROM clause using a column definition list.")
}

// rowOf makes a row from an object; fields that the object does not have stay as in base.
func rowOf(ctx *Context, v *types.JSONValue, t *types.T, base types.Datum, caller string) (types.Datum, error) {
	switch v.Kind {
	case types.JSONObject:
	case types.JSONNull:
		return types.Null, nil
	case types.JSONArray:
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s on an array", caller)
	default:
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s on a scalar", caller)
	}
	out := &types.Tuple{Types: t.Fields, Elems: make([]types.Datum, len(t.Fields))}
	if !base.IsNull() {
		copy(out.Elems, base.Tuple().Elems)
	}
	names := t.Names
	if len(names) == 0 { // ROW(...)
		for i := range t.Fields {
			names = append(names, "f"+strconv.Itoa(i+1))
		}
	}
	for i, f := range t.Fields {
		if i >= len(names) {
			break
		}
		if m := v.Get(names[i]); m != nil {
			d, err := valueOf(ctx, m, f, names[i])
			if err != nil {
				return types.Null, err
			}
			out.Elems[i] = d
		}
	}
	return types.NewTuple(out), nil
}

// valueOf makes a value of a type from a JSON value: through its text form, except arrays, rows and JSON itself.
func valueOf(ctx *Context, v *types.JSONValue, t *types.T, key string) (types.Datum, error) {
	text := v.Raw
	if text == "" {
		text = v.String()
	}
	switch {
	case t.Kind == types.KindJSON:
		return types.NewJSON(text), nil
	case t.Kind == types.KindJSONB:
		return canonical(v)
	case v.Kind == types.JSONNull:
		return types.Null, nil
	case v.Kind == types.JSONString:
		text = v.Str
	case t.Kind == types.KindTuple:
		return rowOf(ctx, v, t, types.Null, "populate_composite")
	case t.Kind == types.KindArray:
		if v.Kind != types.JSONArray {
			return types.Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "expected JSON array").
				WithHint("See the value of key \"%s\".", key)
		}
		return arrayOf(ctx, v, t, key)
	}
	return CastDatum(ctx, types.NewString(text), types.Unknown, t, false)
}

// arrayOf makes an array from a JSON array; arrays within it are its further dimensions.
func arrayOf(ctx *Context, v *types.JSONValue, t *types.T, key string) (types.Datum, error) {
	out := &types.Array{Elem: t.Elem}
	var parts []types.Datum
	nested := false
	for i, e := range v.Elems {
		if i == 0 {
			nested = e.Kind == types.JSONArray && t.Elem.Kind != types.KindJSON && t.Elem.Kind != types.KindJSONB
		}
		if nested {
			if e.Kind != types.JSONArray {
				return types.Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "expected JSON array").
					WithHint("See the array element [%d] of key \"%s\".", i, key)
			}
			d, err := arrayOf(ctx, e, t, key)
			if err != nil {
				return types.Null, err
			}
			parts = append(parts, d)
			continue
		}
		d, err := valueOf(ctx, e, t.Elem, key)
		if err != nil {
			return types.Null, err
		}
		out.Elems = append(out.Elems, d)
	}
	if !nested {
		return types.NewArray(out), nil
	}
	d, err := types.StackArrays(t.Elem, parts)
	if err != nil {
		return types.Null, sqlstate.New(sqlstate.InvalidTextRepresentation, "malformed JSON array").
			WithDetail("Multidimensional arrays must have sub-arrays with matching dimensions.")
	}
	return d, nil
}
