package scalar

import (
	"strconv"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// This file has containment and changes of values, nearly all of which only jsonb has.

// addJSONContainment adds the operators of jsonb: containment, concatenation, existence of keys.
func addJSONContainment(r *Registry) {
	two := func(f func(ctx *Context, a, b *types.JSONValue) (types.Datum, error)) eval2 {
		return func(ctx *Context, a, b types.Datum) (types.Datum, error) {
			x, err := types.ParseJSON(a.Str())
			if err != nil {
				return types.Null, err
			}
			y, err := types.ParseJSON(b.Str())
			if err != nil {
				return types.Null, err
			}
			return f(ctx, x, y)
		}
	}
	contains := func(ctx *Context, a, b *types.JSONValue) (types.Datum, error) {
		c := containment{ctx: ctx}
		ok := c.contains(a, b, true)
		return types.NewBool(ok), c.err
	}
	r.op2("@>(jsonb, jsonb) bool", two(contains))
	r.op2("<@(jsonb, jsonb) bool", two(func(ctx *Context, a, b *types.JSONValue) (types.Datum, error) { return contains(ctx, b, a) }))
	r.op2("||(jsonb, jsonb) jsonb", two(func(_ *Context, a, b *types.JSONValue) (types.Datum, error) {
		if a.Kind == types.JSONObject && b.Kind == types.JSONObject {
			return jsonDatum(types.NewJSONObject(append(append([]types.JSONMember(nil), a.Members...), b.Members...)))
		}
		list := func(v *types.JSONValue) []*types.JSONValue {
			if v.Kind == types.JSONArray {
				return v.Elems
			}
			return []*types.JSONValue{v}
		}
		return jsonDatum(&types.JSONValue{Kind: types.JSONArray, Elems: append(append([]*types.JSONValue(nil), list(a)...), list(b)...)})
	}))
	exists := func(v *types.JSONValue, key string) bool {
		switch v.Kind {
		case types.JSONObject:
			return v.Get(key) != nil
		case types.JSONArray:
			for _, e := range v.Elems {
				if e.Kind == types.JSONString && e.Str == key {
					return true
				}
			}
		case types.JSONString:
			return v.Str == key
		}
		return false
	}
	r.op2("?(jsonb, text) bool", func(_ *Context, a, k types.Datum) (types.Datum, error) {
		v, err := types.ParseJSON(a.Str())
		if err != nil {
			return types.Null, err
		}
		return boolean(exists(v, k.Str()))
	})
	for _, v := range []struct {
		op  string
		all bool
	}{{"?|", false}, {"?&", true}} {
		r.op2(v.op+"(jsonb, text[]) bool", func(ctx *Context, a, k types.Datum) (types.Datum, error) {
			j, err := types.ParseJSON(a.Str())
			if err != nil {
				return types.Null, err
			}
			for i, e := range elems(k) {
				if !e.IsNull() && exists(j, e.Str()) != v.all {
					return boolean(!v.all)
				}
				if len(j.Elems) > 1024 {
					i = 1023 // each step takes long
				}
				if err := ctx.tick(i); err != nil {
					return types.Null, err
				}
			}
			return boolean(v.all)
		})
	}
}

// addJSONDeletion adds the operators - and #- of jsonb.
func addJSONDeletion(r *Registry) {
	r.op2("-(jsonb, text) jsonb", func(_ *Context, a, k types.Datum) (types.Datum, error) { return deleteKeys(a, []types.Datum{k}) })
	r.op2("-(jsonb, text[]) jsonb", func(_ *Context, a, k types.Datum) (types.Datum, error) {
		if k.Array().Dims() > 1 {
			return types.Null, subscriptError("wrong number of array subscripts")
		}
		return deleteKeys(a, elems(k))
	})
	r.op2("-(jsonb, int4) jsonb", func(_ *Context, a, k types.Datum) (types.Datum, error) {
		v, err := types.ParseJSON(a.Str())
		if err != nil {
			return types.Null, err
		}
		if v.Kind != types.JSONArray {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot delete from %s",
				choose(v.Kind == types.JSONObject, "object using integer index", "scalar"))
		}
		i := k.Int()
		if i < 0 {
			i += int64(len(v.Elems))
		}
		if i >= 0 && i < int64(len(v.Elems)) {
			v.Elems = append(v.Elems[:i], v.Elems[i+1:]...)
		}
		return jsonDatum(v)
	})
	r.op2("#-(jsonb, text[]) jsonb", deleteJSONPath)
	r.Func2("jsonb_delete_path(jsonb, text[]) jsonb", deleteJSONPath)
}

// addJSONAssignment adds functions that set or insert a part of a jsonb, and jsonb_pretty.
func addJSONAssignment(r *Registry) {
	// jsonb_assign is the value of a jsonb after an assignment to a part of it.
	r.Func("jsonb_assign(jsonb, text[], jsonb) jsonb", func(_ *Context, a []types.Datum) (types.Datum, error) {
		n := &types.JSONValue{Kind: types.JSONNull}
		v := &types.JSONValue{}
		var err error
		if !a[2].IsNull() {
			if n, err = types.ParseJSON(a[2].Str()); err != nil {
				return types.Null, err
			}
		}
		path := elems(a[1])
		for _, p := range path {
			if p.IsNull() {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "jsonb subscript in assignment must not be null")
			}
		}
		if a[0].IsNull() {
			v = emptyFor(path[0].Str())
		} else if v, err = types.ParseJSON(a[0].Str()); err != nil {
			return types.Null, err
		}
		if v, err = assignPath(v, path, n); err != nil {
			return types.Null, err
		}
		return jsonDatum(v)
	}).WithNulls()
	set := func(mode setMode) evalN {
		return func(_ *Context, a []types.Datum) (types.Datum, error) {
			v, err := types.ParseJSON(a[0].Str())
			if err != nil {
				return types.Null, err
			}
			n, err := types.ParseJSON(a[2].Str())
			if err != nil {
				return types.Null, err
			}
			if a[1].Array().Dims() > 1 {
				return types.Null, subscriptError("wrong number of array subscripts")
			}
			if v.Kind != types.JSONArray && v.Kind != types.JSONObject {
				return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot set path in scalar")
			}
			m := mode
			if len(a) > 3 {
				switch {
				case mode == setCreate && !a[3].Bool():
					m = setReplace
				case mode == setInsert && a[3].Bool():
					m = setInsertAfter
				}
			}
			if m == setReplace && len(v.Elems)+len(v.Members) == 0 {
				return a[0], nil
			}
			if v, err = setPath(v, elems(a[1]), 1, n, m); err != nil {
				return types.Null, err
			}
			return jsonDatum(v)
		}
	}
	lax := func(_ *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() || a[1].IsNull() {
			return types.Null, nil
		}
		create, how := types.NewBool(true), types.NewString("use_json_null")
		if len(a) > 3 {
			create = a[3]
		}
		if len(a) > 4 {
			how = a[4]
		}
		if create.IsNull() {
			return types.Null, nil
		}
		if how.IsNull() {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, `null_value_treatment must be "delete_key", "return_target", "use_json_null", or "raise_exception"`)
		}
		if !a[2].IsNull() {
			return set(setCreate)(nil, []types.Datum{a[0], a[1], a[2], create})
		}
		switch how.Str() {
		case "raise_exception":
			return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "JSON value must not be null").
				WithDetail("Exception was raised because null_value_treatment is \"raise_exception\".").
				WithHint("To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.")
		case "use_json_null":
			return set(setCreate)(nil, []types.Datum{a[0], a[1], types.NewJSON("null"), create})
		case "delete_key":
			return deleteJSONPath(nil, a[0], a[1])
		case "return_target":
			return a[0], nil
		}
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, `null_value_treatment must be "delete_key", "return_target", "use_json_null", or "raise_exception"`)
	}
	for _, sig := range []string{"jsonb, text[], jsonb", "jsonb, text[], jsonb, bool", "jsonb, text[], jsonb, bool, text"} {
		r.Func("jsonb_set_lax("+sig+") jsonb", lax).WithNulls()
	}
	r.Func("jsonb_set(jsonb, text[], jsonb) jsonb", set(setCreate))
	r.Func("jsonb_set(jsonb, text[], jsonb, bool) jsonb", set(setCreate))
	r.Func("jsonb_insert(jsonb, text[], jsonb) jsonb", set(setInsert))
	r.Func("jsonb_insert(jsonb, text[], jsonb, bool) jsonb", set(setInsert))
	r.Func1("jsonb_pretty(jsonb) text", func(ctx *Context, a types.Datum) (types.Datum, error) {
		v, err := types.ParseJSON(a.Str())
		if err != nil {
			return types.Null, err
		}
		if err := ctx.room(v.PrettyBytes(0, resultMax)); err != nil {
			return types.Null, err
		}
		return str(string(v.AppendPretty(nil, 0)))
	})
}

// emptyFor is the empty container for a first key: an array if it is a number.
func emptyFor(key string) *types.JSONValue {
	if _, err := strconv.ParseInt(key, 10, 32); err == nil {
		return &types.JSONValue{Kind: types.JSONArray}
	}
	return &types.JSONValue{Kind: types.JSONObject}
}

// assignPath sets the value at a path, and creates missing containers on the way; gaps in arrays are filled with nulls.
func assignPath(v *types.JSONValue, path []types.Datum, n *types.JSONValue) (*types.JSONValue, error) {
	if len(path) == 0 {
		return n, nil
	}
	key := path[0].Str()
	next := func(old *types.JSONValue) (*types.JSONValue, error) {
		if old == nil {
			if old = n; len(path) > 1 {
				old = emptyFor(path[1].Str())
			}
		}
		return assignPath(old, path[1:], n)
	}
	switch v.Kind {
	case types.JSONObject:
		x, err := next(v.Get(key))
		if err != nil {
			return nil, err
		}
		return types.NewJSONObject(append(append([]types.JSONMember(nil), v.Members...), types.JSONMember{Key: key, Value: x})), nil
	case types.JSONArray:
		i, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, sqlstate.New(sqlstate.InvalidTextRepresentation, "path element at position 1 is not an integer: %q", types.Raw(key))
		}
		size := int64(len(v.Elems))
		if i < 0 {
			if i += size; i < 0 {
				return nil, sqlstate.New(sqlstate.InvalidParameterValue, "path element at position 1 is out of range: %s", key)
			}
		}
		if i > 1<<20 {
			return nil, tooLarge()
		}
		var old *types.JSONValue
		if i < size {
			old = v.Elems[i]
		}
		x, err := next(old)
		if err != nil {
			return nil, err
		}
		for int64(len(v.Elems)) <= i {
			v.Elems = append(v.Elems, &types.JSONValue{Kind: types.JSONNull})
		}
		v.Elems[i] = x
		return v, nil
	}
	return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot replace existing key").
		WithDetail("The path assumes key is a composite object, but it is a scalar value.")
}

func deleteKeys(a types.Datum, keys []types.Datum) (types.Datum, error) {
	v, err := types.ParseJSON(a.Str())
	if err != nil {
		return types.Null, err
	}
	gone := make(map[string]bool, min(len(keys), 1024))
	for _, k := range keys {
		if !k.IsNull() {
			gone[k.Str()] = true
		}
	}
	has := func(s string) bool { return gone[s] }
	switch v.Kind {
	case types.JSONObject:
		out := v.Members[:0]
		for _, m := range v.Members {
			if !has(m.Key) {
				out = append(out, m)
			}
		}
		v.Members = out
	case types.JSONArray:
		out := v.Elems[:0]
		for _, e := range v.Elems {
			if e.Kind != types.JSONString || !has(e.Str) {
				out = append(out, e)
			}
		}
		v.Elems = out
	default:
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot delete from scalar")
	}
	return jsonDatum(v)
}

type setMode uint8

const (
	setCreate  setMode = iota // replace, or add if the last step is missing
	setReplace                // replace only
	setInsert                 // insert before (arrays), add (objects)
	setInsertAfter
	setDelete
)

// setPath changes the value at a path, from the step at the given position on; v is fresh from the parser and may be changed
// in place.
func setPath(v *types.JSONValue, path []types.Datum, at int, n *types.JSONValue, mode setMode) (*types.JSONValue, error) {
	if len(path) == 0 {
		return v, nil
	}
	if path[0].IsNull() {
		if v.Kind != types.JSONArray && v.Kind != types.JSONObject {
			return v, nil
		}
		return nil, sqlstate.New(sqlstate.NullNotAllowed, "path element at position %d is null", at)
	}
	var err error
	step, last := path[0].Str(), len(path) == 1
	switch v.Kind {
	case types.JSONObject:
		for i := range v.Members {
			if v.Members[i].Key != step {
				continue
			}
			switch {
			case !last:
				v.Members[i].Value, err = setPath(v.Members[i].Value, path[1:], at+1, n, mode)
			case mode == setDelete:
				v.Members = append(v.Members[:i], v.Members[i+1:]...)
			case mode == setCreate || mode == setReplace:
				v.Members[i].Value = n
			default:
				return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot replace existing key").
					WithHint("Try using the function jsonb_set to replace key value.")
			}
			return v, err
		}
		if last && mode != setReplace && mode != setDelete {
			return types.NewJSONObject(append(v.Members, types.JSONMember{Key: step, Value: n})), nil
		}
	case types.JSONArray:
		i, err := strconv.ParseInt(step, 10, 32)
		if err != nil {
			return nil, sqlstate.New(sqlstate.InvalidTextRepresentation, "path element at position %d is not an integer: %q", at, types.Raw(step))
		}
		size := int64(len(v.Elems))
		if i < 0 {
			i += size
		}
		if i >= 0 && i < size {
			switch {
			case !last:
				v.Elems[i], err = setPath(v.Elems[i], path[1:], at+1, n, mode)
			case mode == setDelete:
				v.Elems = append(v.Elems[:i], v.Elems[i+1:]...)
			case mode == setInsert || mode == setInsertAfter:
				if mode == setInsertAfter {
					i++
				}
				v.Elems = append(v.Elems[:i], append([]*types.JSONValue{n}, v.Elems[i:]...)...)
			default:
				v.Elems[i] = n
			}
			return v, err
		}
		if last && mode != setReplace && mode != setDelete {
			if i < 0 {
				v.Elems = append([]*types.JSONValue{n}, v.Elems...)
			} else {
				v.Elems = append(v.Elems, n)
			}
		}
	}
	return v, nil
}

func stripNulls(v *types.JSONValue) *types.JSONValue {
	switch v.Kind {
	case types.JSONObject:
		out := v.Members[:0]
		for _, m := range v.Members {
			if m.Value.Kind != types.JSONNull {
				m.Value = stripNulls(m.Value)
				out = append(out, m)
			}
		}
		v.Members = out
	case types.JSONArray:
		for i := range v.Elems {
			v.Elems[i] = stripNulls(v.Elems[i])
		}
	}
	return v
}

// containment is the operator @>, which tries each pair of elements of two arrays.
type containment struct {
	ctx   *Context
	steps int
	err   error
}

// contains: a scalar is contained in an array at the top level.
func (c *containment) contains(a, b *types.JSONValue, top bool) bool {
	if c.steps++; c.err == nil {
		c.err = c.ctx.tick(c.steps)
	}
	if c.err != nil {
		return false
	}
	if a.Kind != b.Kind {
		return top && a.Kind == types.JSONArray && b.Kind != types.JSONObject && b.Kind != types.JSONArray &&
			c.contains(a, &types.JSONValue{Kind: types.JSONArray, Elems: []*types.JSONValue{b}}, false)
	}
	switch a.Kind {
	case types.JSONObject:
		for _, m := range b.Members {
			v := a.Get(m.Key)
			if v == nil || !c.contains(v, m.Value, false) {
				return false
			}
		}
		return true
	case types.JSONArray:
		for _, e := range b.Elems {
			found := false
			for _, x := range a.Elems {
				if c.err != nil {
					return false
				}
				if c.contains(x, e, false) {
					found = true
					break
				}
			}
			if !found {
				return false
			}
		}
		return true
	}
	return types.CompareJSON(a, b) == 0
}

// deleteJSONPath is jsonb without the part at a path.
func deleteJSONPath(_ *Context, a, k types.Datum) (types.Datum, error) {
	v, err := types.ParseJSON(a.Str())
	if err != nil {
		return types.Null, err
	}
	if k.Array().Dims() > 1 {
		return types.Null, subscriptError("wrong number of array subscripts")
	}
	if v.Kind != types.JSONArray && v.Kind != types.JSONObject {
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot delete path in scalar")
	}
	if len(v.Elems)+len(v.Members) == 0 {
		return a, nil
	}
	if v, err = setPath(v, elems(k), 1, nil, setDelete); err != nil {
		return types.Null, err
	}
	return jsonDatum(v)
}
