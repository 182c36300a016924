package scalar

import (
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

type jsonAgg struct {
	b   bool
	t   *types.T
	v   *types.JSONValue // jsonb
	buf []byte           // json
	any bool
}

func (a *jsonAgg) Add(ctx *Context, args []types.Datum) error {
	a.any = true
	if a.b {
		x, err := ToJSON(ctx, args[0], a.t)
		if err != nil {
			return err
		}
		a.v.Elems = append(a.v.Elems, x)
		return nil
	}
	if a.buf == nil {
		a.buf = append(a.buf, '[')
	} else {
		a.buf = append(a.buf, ", "...)
	}
	f, err := jsonFragment(ctx, args[0], a.t)
	a.buf = append(a.buf, f...)
	return err
}

func (a *jsonAgg) Result() (types.Datum, error) {
	switch {
	case !a.any:
		return types.Null, nil
	case a.b:
		return canonical(a.v)
	}
	return types.NewJSON(string(a.buf) + "]"), nil
}

type jsonObjectAgg struct {
	b   bool
	ts  []*types.T
	ms  []types.JSONMember
	buf []byte
	any bool
}

func (a *jsonObjectAgg) Add(ctx *Context, args []types.Datum) error {
	if args[0].IsNull() {
		return sqlstate.New(sqlstate.InvalidParameterValue, "field name must not be null")
	}
	a.any = true
	k := textOf(ctx, args[0], a.ts[0])
	if a.b {
		v, err := ToJSON(ctx, args[1], a.ts[1])
		a.ms = append(a.ms, types.JSONMember{Key: k, Value: v})
		return err
	}
	if a.buf == nil {
		a.buf = append(a.buf, "{ "...)
	} else {
		a.buf = append(a.buf, ", "...)
	}
	f, err := jsonFragment(ctx, args[1], a.ts[1])
	a.buf = types.AppendJSONString(a.buf, k)
	a.buf = append(a.buf, " : "...)
	a.buf = append(a.buf, f...)
	return err
}

func (a *jsonObjectAgg) Result() (types.Datum, error) {
	switch {
	case !a.any:
		return types.Null, nil
	case a.b:
		return canonical(types.NewJSONObject(a.ms))
	}
	return types.NewJSON(string(a.buf) + " }"), nil
}

func addJSONAggregates(r *Registry) {
	for _, t := range []string{"json", "jsonb"} {
		b := t == "jsonb"
		a := r.agg(t+"_agg(any) "+t, func() Accumulator {
			return &jsonAgg{b: b, t: types.Text, v: &types.JSONValue{Kind: types.JSONArray}}
		})
		a.NewTyped = func(ts []*types.T) Accumulator {
			return &jsonAgg{b: b, t: ts[0], v: &types.JSONValue{Kind: types.JSONArray}}
		}
		o := r.agg(t+"_object_agg(any, any) "+t, func() Accumulator {
			return &jsonObjectAgg{b: b, ts: []*types.T{types.Text, types.Text}}
		})
		o.NewTyped = func(ts []*types.T) Accumulator { return &jsonObjectAgg{b: b, ts: ts} }
	}
}
