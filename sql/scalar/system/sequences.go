package system

import (
	"strconv"

	"meridian/sql/scalar"
	"meridian/sql/types"
)

// sequenceName names a sequence by its OID, which a regclass has: its name was looked up, and the right to do so checked,
// when the regclass was made.
func sequenceName(ctx *scalar.Context, d types.Datum) string {
	if id := uint32(d.Int()); id != 0 {
		return strconv.FormatUint(uint64(id), 10)
	}
	return d.Str()
}

// IdentityNext is nextval for the default of an identity column, whose sequence needs no right of its own: the right to
// insert is enough. Expressions that users write use the ordinary nextval.
func IdentityNext(nextval *scalar.Overload) *scalar.Overload {
	o := *nextval
	o.Eval1 = func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		v, err := session(ctx).NextIdentity(statement(ctx), sequenceName(ctx, a))
		return types.NewInt(v), err
	}
	o.Eval = func(ctx *scalar.Context, args []types.Datum) (types.Datum, error) { return o.Eval1(ctx, args[0]) }
	return &o
}

func addSequences(r *scalar.Registry) {
	name := sequenceName
	r.Func1("nextval(regclass) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		v, err := session(ctx).NextVal(statement(ctx), name(ctx, a))
		return types.NewInt(v), err
	}).Volatile()
	r.Func1("currval(regclass) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		v, err := session(ctx).CurrVal(statement(ctx), name(ctx, a))
		return types.NewInt(v), err
	}).Volatile()
	r.Func("lastval() int8", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		v, err := session(ctx).LastVal(statement(ctx))
		return types.NewInt(v), err
	}).Volatile()
	set := func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		called := len(a) < 3 || a[2].Bool()
		return a[1], session(ctx).SetVal(statement(ctx), name(ctx, a[0]), a[1].Int(), called)
	}
	r.Func("setval(regclass, int8) int8", set).Volatile()
	r.Func("setval(regclass, int8, bool) int8", set).Volatile()
	r.Func("gen_random_uuid() uuid", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return types.NewUUID(session(ctx).RandomUUID()), nil
	}).Volatile()
	r.Func("uuid_generate_v4() uuid", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return types.NewUUID(session(ctx).RandomUUID()), nil
	}).Volatile()
	r.Func("unique_rowid() int8", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return num(session(ctx).UniqueRowID())
	}).Volatile()
}
