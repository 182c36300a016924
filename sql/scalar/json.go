package scalar

import (
	"math"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// detach is a value without the text that it was a piece of.
func detach(whole string, d types.Datum) types.Datum {
	if len(whole) >= types.LargeBytes {
		return d.Detach()
	}
	return d
}

// parseJSON reads a json or jsonb value; ordered keeps json's own order of members.
func parseJSON(d types.Datum, ordered bool) (*types.JSONValue, error) {
	if ordered {
		return types.ParseJSONOrdered(d.Str())
	}
	return types.ParseJSON(d.Str())
}

func jsonDatum(v *types.JSONValue) (types.Datum, error) {
	if v == nil {
		return types.Null, nil
	}
	return types.NewJSON(v.String()), nil
}

// jsonText is the result of ->>: strings without quotes, null as NULL.
func jsonText(v *types.JSONValue) (types.Datum, error) {
	switch {
	case v == nil || v.Kind == types.JSONNull:
		return types.Null, nil
	case v.Kind == types.JSONString:
		return types.NewString(v.Str), nil
	case v.Raw != "": // of a json
		return types.NewString(v.Raw), nil
	}
	return types.NewString(v.String()), nil
}

// walkPath follows keys and array indexes.
func walkPath(v *types.JSONValue, path []types.Datum) *types.JSONValue {
	for _, p := range path {
		if v == nil || p.IsNull() {
			return nil
		}
		switch v.Kind {
		case types.JSONObject:
			v = v.Get(p.Str())
		case types.JSONArray:
			i, err := strconv.ParseInt(strings.TrimSpace(p.Str()), 10, 32)
			if err != nil {
				return nil
			}
			v = v.Index(i)
		default:
			return nil
		}
	}
	return v
}

// ToJSON converts a value of any type.
func ToJSON(ctx *Context, d types.Datum, t *types.T) (*types.JSONValue, error) {
	if d.IsNull() {
		return &types.JSONValue{Kind: types.JSONNull}, nil
	}
	switch d.Phys() {
	case types.PhysBool:
		return &types.JSONValue{Kind: types.JSONBool, Bool: d.Bool()}, nil
	case types.PhysInt:
		if t.IsReg() || t.Kind == types.KindEnum || t.Kind == types.KindXID8 {
			break
		}
		return types.ParseJSON(strconv.FormatInt(d.Int(), 10))
	case types.PhysFloat:
		if f := d.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			break
		}
		return types.ParseJSON(types.FormatText(d, t, nil))
	case types.PhysDecimal:
		x := d.Decimal()
		if x.Form != 0 {
			break
		}
		return &types.JSONValue{Kind: types.JSONNumber, Num: x}, nil
	case types.PhysJSON:
		return parseJSON(d, t.Kind == types.KindJSON)
	case types.PhysArray:
		// This is for the tree, its text, and the tree that makes it canonical.
		if err := ctx.scratch(6 * d.Weight()); err != nil {
			return nil, err
		}
		v := &types.JSONValue{Kind: types.JSONArray}
		elem := d.Array().Elem
		if e := ElemType(t); e != nil && e.Kind != types.KindAnyElement {
			elem = e
		}
		for _, e := range d.Array().Elems {
			x, err := ToJSON(ctx, e, elem)
			if err != nil {
				return nil, err
			}
			v.Elems = append(v.Elems, x)
		}
		for i := d.Array().Dims() - 1; i > 0; i-- {
			n := int(d.Array().Dim(i).Len)
			outer := &types.JSONValue{Kind: types.JSONArray}
			for at := 0; at < len(v.Elems); at += n {
				outer.Elems = append(outer.Elems, &types.JSONValue{Kind: types.JSONArray, Elems: v.Elems[at : at+n]})
			}
			v = outer
		}
		return v, nil
	case types.PhysTuple:
		tu := d.Tuple()
		v := &types.JSONValue{Kind: types.JSONObject}
		for i, e := range tu.Elems {
			x, err := ToJSON(ctx, e, tu.Types[i])
			if err != nil {
				return nil, err
			}
			v.Members = append(v.Members, types.JSONMember{Key: fieldName(t, i), Value: x})
		}
		return v, nil
	case types.PhysDate:
		return &types.JSONValue{Kind: types.JSONString, Str: types.FormatText(d, t, nil)}, nil
	case types.PhysTimestamp:
		return &types.JSONValue{Kind: types.JSONString, Str: jsonTime(ctx, d, t)}, nil
	}
	return &types.JSONValue{Kind: types.JSONString, Str: textOf(ctx, d, t)}, nil
}

// jsonTime is a timestamp in ISO 8601, with a T.
func jsonTime(ctx *Context, d types.Datum, t *types.T) string {
	s := types.FormatText(d, t, &types.Style{Location: ctx.TextEnv().Location})
	if t.Kind == types.KindTimestampTZ && !types.IsInfinite(d.Micros()) {
		era := ""
		if strings.HasSuffix(s, " BC") {
			s, era = s[:len(s)-3], " BC"
		}
		if i := strings.LastIndexAny(s, "+-"); i > 10 && len(s)-i == 3 {
			s += ":00"
		}
		s += era
	}
	return strings.Replace(s, " ", "T", 1)
}

// fieldName is the name of a row's field: f1, f2 and so on where the type gives none.
func fieldName(t *types.T, i int) string {
	if i < len(t.Names) {
		return t.Names[i]
	}
	return "f" + strconv.Itoa(i+1)
}

// AppendJSON appends the text of a value in a json that a function builds. The text of a json within stays as it is.
func AppendJSON(ctx *Context, buf []byte, d types.Datum, t *types.T) ([]byte, error) {
	return appendJSON(ctx, buf, d, t, ",")
}

// appendJSON separates the elements or fields of the value itself by sep, those within by commas.
func appendJSON(ctx *Context, buf []byte, d types.Datum, t *types.T, sep string) ([]byte, error) {
	if len(buf) > resultMax {
		return nil, tooLarge()
	}
	var err error
	switch d.Phys() {
	case types.PhysNull:
		return append(buf, "null"...), nil
	case types.PhysBool:
		return strconv.AppendBool(buf, d.Bool()), nil
	case types.PhysInt:
		if !t.IsReg() && t.Kind != types.KindEnum && t.Kind != types.KindXID8 {
			return strconv.AppendInt(buf, d.Int(), 10), nil
		}
	case types.PhysFloat:
		if f := d.Float(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return types.AppendText(buf, d, t, nil), nil
		}
	case types.PhysDecimal:
		if d.Decimal().Form == 0 {
			return types.AppendDecimal(buf, d.Decimal()), nil
		}
	case types.PhysJSON:
		return append(buf, d.Str()...), nil
	case types.PhysArray:
		if t.Kind == types.KindInt2Vector || t.Kind == types.KindOIDVector {
			t = types.ArrayOf(ElemType(t))
		}
		elem := d.Array().Elem
		if e := ElemType(t); e != nil && e.Kind != types.KindAnyElement {
			elem = e
		}
		dims := max(d.Array().Dims(), 1)
		// inner[k] elements stand within one pair of brackets of the dimension k from the end.
		inner := make([]int, dims)
		for i, n := dims-1, 1; i >= 0; i-- {
			n *= int(d.Array().Dim(i).Len)
			inner[dims-1-i] = n
		}
		es := d.Array().Elems
		if len(es) == 0 {
			return append(buf, "[]"...), nil
		}
		for i, e := range es {
			opened, closed := 0, 0
			for _, n := range inner {
				if i%n == 0 {
					opened++
				}
				if (i+1)%n == 0 {
					closed++
				}
			}
			if i > 0 {
				if opened == dims-1 {
					buf = append(buf, sep...)
				} else {
					buf = append(buf, ',')
				}
			}
			for range opened {
				buf = append(buf, '[')
			}
			if buf, err = appendJSON(ctx, buf, e, elem, ","); err != nil {
				return nil, err
			}
			for range closed {
				buf = append(buf, ']')
			}
			if err := ctx.tick(i); err != nil {
				return nil, err
			}
		}
		return buf, nil
	case types.PhysTuple:
		tu := d.Tuple()
		buf = append(buf, '{')
		for i, e := range tu.Elems {
			if i > 0 {
				buf = append(buf, sep...)
			}
			buf = append(types.AppendJSONString(buf, fieldName(t, i)), ':')
			if buf, err = appendJSON(ctx, buf, e, tu.Types[i], ","); err != nil {
				return nil, err
			}
		}
		return append(buf, '}'), nil
	case types.PhysDate:
		return types.AppendJSONString(buf, types.FormatText(d, t, nil)), nil
	case types.PhysTimestamp:
		return types.AppendJSONString(buf, jsonTime(ctx, d, t)), nil
	}
	return types.AppendJSONString(buf, textOf(ctx, d, t)), nil
}

// compact is the text of a json (not jsonb) value that a function built, with a space after separators only where
// PostgreSQL has one.
func compact(buf []byte, v *types.JSONValue) []byte {
	switch v.Kind {
	case types.JSONNumber:
		if v.Raw != "" {
			return append(buf, v.Raw...)
		}
	case types.JSONArray:
		buf = append(buf, '[')
		for i, e := range v.Elems {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = compact(buf, e)
		}
		return append(buf, ']')
	case types.JSONObject:
		buf = append(buf, '{')
		for i, m := range v.Members {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = types.AppendJSONString(buf, m.Key)
			buf = append(buf, ':')
			buf = compact(buf, m.Value)
		}
		return append(buf, '}')
	}
	return v.Append(buf)
}

// jsonFragment is the text of one value within a built json.
func jsonFragment(ctx *Context, d types.Datum, t *types.T) (string, error) {
	if d.Phys() == types.PhysJSON {
		return d.Str(), nil
	}
	b, err := AppendJSON(ctx, nil, d, t)
	return string(b), err
}

func keyText(ctx *Context, d types.Datum, t *types.T, pos int) (string, error) {
	if d.IsNull() {
		return "", sqlstate.New(sqlstate.InvalidParameterValue, "argument %d: key must not be null", pos)
	}
	return jsonKey(ctx, d, t)
}

// jsonKey is the text of a value as the key of an object.
func jsonKey(ctx *Context, d types.Datum, t *types.T) (string, error) {
	switch d.Phys() {
	case types.PhysJSON, types.PhysArray, types.PhysTuple:
		return "", sqlstate.New(sqlstate.InvalidParameterValue, "key value must be scalar, not array, composite, or json")
	case types.PhysBool:
		return choose(d.Bool(), "true", "false"), nil
	case types.PhysDate:
		return types.FormatText(d, t, nil), nil
	case types.PhysTimestamp:
		return jsonTime(ctx, d, t), nil
	}
	return textOf(ctx, d, t), nil
}

func buildObject(b bool) func(ts []*types.T) evalN {
	return func(ts []*types.T) evalN {
		return func(ctx *Context, a []types.Datum) (types.Datum, error) {
			if len(a)%2 != 0 {
				return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "argument list must have even number of elements").
					WithHint("The arguments of %s must consist of alternating keys and values.", choose(b, "jsonb_build_object()", "json_build_object()"))
			}
			if b {
				var ms []types.JSONMember
				for i := 0; i < len(a); i += 2 {
					k, err := keyText(ctx, a[i], ts[i], i+1)
					if err != nil {
						return types.Null, err
					}
					v, err := ToJSON(ctx, a[i+1], ts[i+1])
					if err != nil {
						return types.Null, err
					}
					ms = append(ms, types.JSONMember{Key: k, Value: v})
				}
				return canonical(types.NewJSONObject(ms))
			}
			buf := []byte{'{'}
			for i := 0; i < len(a); i += 2 {
				if i > 0 {
					buf = append(buf, ", "...)
				}
				k, err := keyText(ctx, a[i], ts[i], i+1)
				if err != nil {
					return types.Null, err
				}
				f, err := jsonFragment(ctx, a[i+1], ts[i+1])
				if err != nil {
					return types.Null, err
				}
				buf = types.AppendJSONString(buf, k)
				buf = append(buf, " : "...)
				buf = append(buf, f...)
			}
			return types.NewJSON(string(append(buf, '}'))), nil
		}
	}
}

// canonical makes a jsonb of a value whose parts may come from json.
func canonical(v *types.JSONValue) (types.Datum, error) {
	c, err := types.ParseJSON(v.String())
	if err != nil {
		return types.Null, err
	}
	return types.NewJSON(c.String()), nil
}

func buildArray(b bool) func(ts []*types.T) evalN {
	return func(ts []*types.T) evalN {
		return func(ctx *Context, a []types.Datum) (types.Datum, error) {
			if b {
				v := &types.JSONValue{Kind: types.JSONArray}
				for i, d := range a {
					x, err := ToJSON(ctx, d, ts[i])
					if err != nil {
						return types.Null, err
					}
					v.Elems = append(v.Elems, x)
				}
				return canonical(v)
			}
			buf := []byte{'['}
			for i, d := range a {
				if i > 0 {
					buf = append(buf, ", "...)
				}
				f, err := jsonFragment(ctx, d, ts[i])
				if err != nil {
					return types.Null, err
				}
				buf = append(buf, f...)
			}
			return types.NewJSON(string(append(buf, ']'))), nil
		}
	}
}

func untypedArgs(f func(ts []*types.T) evalN) evalN {
	return func(ctx *Context, args []types.Datum) (types.Datum, error) {
		ts := make([]*types.T, len(args))
		for i := range ts {
			ts[i] = types.Text
		}
		return f(ts)(ctx, args)
	}
}

// addJSON adds the functions and operators of json and jsonb. Functions of both have the type as the prefix of their names; a json keeps the order of
// its keys.
func addJSON(r *Registry) {
	for _, t := range []string{"json", "jsonb"} {
		ordered := t == "json"
		addJSONPaths(r, t, ordered)
		addJSONProperties(r, t, ordered)
		addJSONConstruction(r, t, ordered)
		addJSONSets(r, t, ordered)
		addJSONObjects(r, t, ordered)
	}
	addPopulate(r)
	addJSONContainment(r)
	addJSONDeletion(r)
	addJSONAssignment(r)
}

// addJSONPaths adds functions that take a part of a value: by key, by index and by path.
func addJSONPaths(r *Registry, t string, ordered bool) {
	byKey := func(out func(*types.JSONValue) (types.Datum, error)) eval2 {
		return func(_ *Context, a, k types.Datum) (types.Datum, error) {
			v, err := parseJSON(a, ordered)
			if err != nil {
				return types.Null, err
			}
			return out(v.Get(k.Str()))
		}
	}
	byIndex := func(out func(*types.JSONValue) (types.Datum, error)) eval2 {
		return func(_ *Context, a, k types.Datum) (types.Datum, error) {
			v, err := parseJSON(a, ordered)
			if err != nil {
				return types.Null, err
			}
			if i := k.Int(); !ordered && (i == 0 || i == -1) && v.Kind != types.JSONArray && v.Kind != types.JSONObject {
				return out(v) // a scalar jsonb is its own only element
			}
			return out(v.Index(k.Int()))
		}
	}
	byPath := func(out func(*types.JSONValue) (types.Datum, error)) eval2 {
		return func(_ *Context, a, k types.Datum) (types.Datum, error) {
			v, err := parseJSON(a, ordered)
			if err != nil {
				return types.Null, err
			}
			return out(walkPath(v, elems(k)))
		}
	}
	byPathArgs := func(out func(*types.JSONValue) (types.Datum, error)) evalN {
		return func(_ *Context, a []types.Datum) (types.Datum, error) {
			v, err := parseJSON(a[0], ordered)
			if err != nil {
				return types.Null, err
			}
			return out(walkPath(v, a[1:]))
		}
	}
	asJSON := partOfJSON(ordered)
	r.op2("->("+t+", text) "+t, byKey(asJSON))
	r.op2("->("+t+", int4) "+t, byIndex(asJSON))
	r.op2("->>("+t+", text) text", byKey(jsonText))
	r.op2("->>("+t+", int4) text", byIndex(jsonText))
	r.op2("#>("+t+", text[]) "+t, byPath(asJSON))
	r.op2("#>>("+t+", text[]) text", byPath(jsonText))
	r.Func(t+"_extract_path("+t+", variadic text) "+t, byPathArgs(asJSON))
	r.Func(t+"_extract_path_text("+t+", variadic text) text", byPathArgs(jsonText))
}

// addJSONProperties adds functions for the type and the length of a value, and for stripping its nulls.
func addJSONProperties(r *Registry, t string, ordered bool) {
	r.Func1(t+"_typeof("+t+") text", func(_ *Context, a types.Datum) (types.Datum, error) {
		v, err := parseJSON(a, ordered)
		if err != nil {
			return types.Null, err
		}
		return str(v.TypeName())
	})
	r.Func1(t+"_array_length("+t+") int4", func(_ *Context, a types.Datum) (types.Datum, error) {
		v, err := parseJSON(a, ordered)
		if err != nil {
			return types.Null, err
		}
		switch v.Kind {
		case types.JSONArray:
			return num(int64(len(v.Elems)))
		case types.JSONObject:
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot get array length of a non-array")
		}
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "cannot get array length of a scalar")
	})
	r.Func1(t+"_strip_nulls("+t+") "+t, func(_ *Context, a types.Datum) (types.Datum, error) {
		v, err := parseJSON(a, ordered)
		if err != nil {
			return types.Null, err
		}
		if v = stripNulls(v); ordered {
			return types.NewJSON(string(compact(nil, v))), nil
		}
		return jsonDatum(v)
	})
}

// addJSONConstruction adds functions that make JSON from values of any type.
func addJSONConstruction(r *Registry, t string, ordered bool) {
	for _, o := range []*Overload{r.add(r.funcs, t+"_build_object(variadic any) "+t, Stable), r.add(r.funcs, t+"_build_object() "+t, Immutable)} {
		o.WithNulls().TypedEval = buildObject(!ordered)
		o.setN(untypedArgs(buildObject(!ordered)))
	}
	for _, o := range []*Overload{r.add(r.funcs, t+"_build_array(variadic any) "+t, Stable), r.add(r.funcs, t+"_build_array() "+t, Immutable)} {
		o.WithNulls().TypedEval = buildArray(!ordered)
		o.setN(untypedArgs(buildArray(!ordered)))
	}
	convert := func(ts []*types.T) evalN {
		return func(ctx *Context, a []types.Datum) (types.Datum, error) {
			if ordered {
				f, err := jsonFragment(ctx, a[0], ts[0])
				return types.NewJSON(f), err
			}
			v, err := ToJSON(ctx, a[0], ts[0])
			if err != nil {
				return types.Null, err
			}
			return canonical(v)
		}
	}
	sigs := []string{"to_" + t + "(any)"}
	if ordered {
		sigs = append(sigs, "row_to_json(record)", "array_to_json(anyarray)")
	}
	for _, sig := range sigs {
		o := r.add(r.funcs, sig+" "+t, Stable)
		o.TypedEval = convert
		o.setN(untypedArgs(convert))
	}
	if ordered {
		lines := func(ts []*types.T) evalN {
			return func(ctx *Context, a []types.Datum) (types.Datum, error) {
				sep := ","
				if a[1].Bool() {
					sep = ",\n "
				}
				buf, err := appendJSON(ctx, nil, a[0], ts[0], sep)
				return types.NewJSON(string(buf)), err
			}
		}
		for _, sig := range []string{"row_to_json(record, bool) json", "array_to_json(anyarray, bool) json"} {
			o := r.add(r.funcs, sig, Stable)
			o.TypedEval = lines
			o.setN(untypedArgs(lines))
		}
	}
}

// addJSONSets adds set-returning functions: the members of an object, the elements of an array.
func addJSONSets(r *Registry, t string, ordered bool) {
	each := func(text bool) func(*Context, []types.Datum) ([]types.Row, error) {
		return func(ctx *Context, a []types.Datum) ([]types.Row, error) {
			if a[0].IsNull() {
				return nil, nil
			}
			v, err := parseJSON(a[0], ordered)
			if err != nil {
				return nil, err
			}
			if v.Kind != types.JSONObject {
				switch {
				case !ordered:
					return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s on a non-object", choose(text, t+"_each_text", t+"_each"))
				case v.Kind == types.JSONArray:
					return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot deconstruct an array as an object")
				}
				return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot deconstruct a scalar")
			}
			out := rows{ctx: ctx}
			for _, m := range v.Members {
				d, err := partOfJSON(ordered)(m.Value)
				if text {
					d, err = jsonText(m.Value)
				}
				if err != nil {
					return nil, err
				}
				if err := out.add(pieceOf(a[0].Str(), m.Key), detach(a[0].Str(), d)); err != nil {
					return nil, err
				}
			}
			return out.rows, nil
		}
	}
	r.SetFunc(t+"_each("+t+") text", "key text, value "+t, each(false))
	r.SetFunc(t+"_each_text("+t+") text", "key text, value text", each(true))
	elements := func(text bool, name string) func(*Context, []types.Datum) ([]types.Row, error) {
		return func(ctx *Context, a []types.Datum) ([]types.Row, error) {
			if a[0].IsNull() {
				return nil, nil
			}
			v, err := parseJSON(a[0], ordered)
			if err != nil {
				return nil, err
			}
			switch v.Kind {
			case types.JSONArray:
			case types.JSONObject:
				if ordered {
					return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s on a non-array", name)
				}
				return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot extract elements from an object")
			default:
				if ordered {
					return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s on a scalar", name)
				}
				return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot extract elements from a scalar")
			}
			out := rows{ctx: ctx}
			for _, e := range v.Elems {
				d, err := partOfJSON(ordered)(e)
				if text {
					d, err = jsonText(e)
				}
				if err != nil {
					return nil, err
				}
				if err := out.add(detach(a[0].Str(), d)); err != nil {
					return nil, err
				}
			}
			return out.rows, nil
		}
	}
	r.SetFunc(t+"_array_elements("+t+") "+t, "value "+t, elements(false, t+"_array_elements"))
	r.SetFunc(t+"_array_elements_text("+t+") text", "value text", elements(true, t+"_array_elements_text"))
	r.SetFunc(t+"_object_keys("+t+") text", t+"_object_keys text", func(ctx *Context, a []types.Datum) ([]types.Row, error) {
		if a[0].IsNull() {
			return nil, nil
		}
		v, err := parseJSON(a[0], ordered)
		if err != nil {
			return nil, err
		}
		if v.Kind != types.JSONObject {
			return nil, sqlstate.New(sqlstate.InvalidParameterValue, "cannot call %s_object_keys on %s", t,
				choose(v.Kind == types.JSONArray, "an array", "a scalar"))
		}
		out := rows{ctx: ctx}
		for _, m := range v.Members {
			if err := out.add(pieceOf(a[0].Str(), m.Key)); err != nil {
				return nil, err
			}
		}
		return out.rows, nil
	})
}

// addJSONObjects adds functions that make objects from arrays of texts.
func addJSONObjects(r *Registry, t string, ordered bool) {
	object := func(ctx *Context, ks, vs []types.Datum) (types.Datum, error) {
		if err := ctx.scratch(int64(len(ks)) * 400); err != nil {
			return types.Null, err
		}
		var ms []types.JSONMember
		for i := range ks {
			if ks[i].IsNull() {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "null value not allowed for object key")
			}
			x := &types.JSONValue{Kind: types.JSONNull}
			if !vs[i].IsNull() {
				x = &types.JSONValue{Kind: types.JSONString, Str: vs[i].Str()}
			}
			ms = append(ms, types.JSONMember{Key: ks[i].Str(), Value: x})
		}
		if !ordered {
			return jsonDatum(types.NewJSONObject(ms))
		}
		buf := []byte{'{'}
		for i, m := range ms {
			if i > 0 {
				buf = append(buf, ", "...)
			}
			buf = append(types.AppendJSONString(buf, m.Key), " : "...)
			buf = m.Value.Append(buf)
		}
		return types.NewJSON(string(append(buf, '}'))), nil
	}
	subscripts := func(text string) error { return sqlstate.New("2202E", "%s", text) }
	r.Func2(t+"_object(text[], text[]) "+t, func(ctx *Context, a, v types.Datum) (types.Datum, error) {
		if a.Array().Dims() > 1 || a.Array().Dims() != v.Array().Dims() {
			return types.Null, subscripts("wrong number of array subscripts")
		}
		ks, vs := elems(a), elems(v)
		if len(ks) != len(vs) {
			return types.Null, subscripts("mismatched array dimensions")
		}
		return object(ctx, ks, vs)
	})
	r.Func1(t+"_object(text[]) "+t, func(ctx *Context, a types.Datum) (types.Datum, error) {
		es := elems(a)
		switch n := a.Array().Dims(); {
		case n > 2:
			return types.Null, subscripts("wrong number of array subscripts")
		case n == 2 && a.Array().Shape[1].Len != 2:
			return types.Null, subscripts("array must have two columns")
		case len(es)%2 != 0:
			return types.Null, subscripts("array must have even number of elements")
		}
		var ks, vs []types.Datum
		for i := 0; i < len(es); i += 2 {
			ks, vs = append(ks, es[i]), append(vs, es[i+1])
		}
		return object(ctx, ks, vs)
	})
}

// partOfJSON makes a value of a part of a json or jsonb.
func partOfJSON(ordered bool) func(*types.JSONValue) (types.Datum, error) {
	if !ordered {
		return jsonDatum
	}
	return func(v *types.JSONValue) (types.Datum, error) {
		if v == nil {
			return types.Null, nil
		}
		return types.NewJSON(v.Raw), nil
	}
}
