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
	jsonTaken
}

// jsonTaken accounts for the parts of a json that is being built.
type jsonTaken struct{ since, total int64 }

func (t *jsonTaken) take(ctx *Context, n int64) error {
	t.total += n
	if t.total > resultMax*8 {
		return tooLarge()
	}
	if t.since += n; t.since > aggPiece {
		n, t.since = t.since, 0
		return ctx.grow(n)
	}
	return nil
}

// treeBytes is the approximate memory of a value's tree.
func treeBytes(d *types.Datum) int64 {
	switch d.Phys() {
	case types.PhysJSON:
		return types.JSONBytes(d.Str())
	case types.PhysArray, types.PhysTuple:
		return 4 * d.Bytes()
	}
	return 160 + d.Bytes()
}

func (a *jsonAgg) Add(ctx *Context, args []types.Datum) error {
	a.any = true
	if a.b {
		if err := a.take(ctx, treeBytes(&args[0])); err != nil {
			return err
		}
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
		if p := args[0].Phys(); p == types.PhysTuple || p == types.PhysArray {
			a.buf = append(a.buf, "\n "...)
		}
	}
	f, err := jsonFragment(ctx, args[0], a.t)
	if err != nil {
		return err
	}
	if err := a.text(ctx, &a.buf, f); err != nil {
		return err
	}
	a.buf = append(a.buf, f...)
	return nil
}

// text accounts for the growth of a buffer by a text; the buffer doubles.
func (t *jsonTaken) text(ctx *Context, buf *[]byte, s string) error {
	if len(*buf)+len(s) > resultMax {
		return tooLarge()
	}
	return t.take(ctx, 2*int64(len(s))+8)
}

func (a *jsonAgg) Result(ctx *Context) (types.Datum, error) {
	switch {
	case !a.any:
		return types.Null, nil
	case a.b:
		return a.canonical(ctx, a.v)
	}
	if err := ctx.room(int64(len(a.buf))); err != nil {
		return types.Null, err
	}
	return types.NewJSON(string(append(a.buf, ']'))), nil
}

// canonical makes a jsonb from a tree that the state accounts for; meanwhile there is a second tree.
func (t *jsonTaken) canonical(ctx *Context, v *types.JSONValue) (types.Datum, error) {
	if err := ctx.scratch(2 * t.total); err != nil {
		return types.Null, err
	}
	return canonical(v)
}

type jsonObjectAgg struct {
	b   bool
	ts  []*types.T
	ms  []types.JSONMember
	buf []byte
	any bool
	jsonTaken
}

func (a *jsonObjectAgg) Add(ctx *Context, args []types.Datum) error {
	if args[0].IsNull() {
		return sqlstate.New(sqlstate.InvalidParameterValue, "field name must not be null")
	}
	a.any = true
	k, err := jsonKey(ctx, args[0], a.ts[0])
	if err != nil {
		return err
	}
	if a.b {
		if err := a.take(ctx, treeBytes(&args[1])+int64(len(k))+64); err != nil {
			return err
		}
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
	if err != nil {
		return err
	}
	if err := a.text(ctx, &a.buf, f); err != nil {
		return err
	}
	if err := a.text(ctx, &a.buf, k); err != nil {
		return err
	}
	a.buf = types.AppendJSONString(a.buf, k)
	a.buf = append(a.buf, " : "...)
	a.buf = append(a.buf, f...)
	return nil
}

func (a *jsonObjectAgg) Result(ctx *Context) (types.Datum, error) {
	switch {
	case !a.any:
		return types.Null, nil
	case a.b:
		return a.canonical(ctx, types.NewJSONObject(a.ms))
	}
	if err := ctx.room(int64(len(a.buf))); err != nil {
		return types.Null, err
	}
	return types.NewJSON(string(append(a.buf, " }"...))), nil
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
