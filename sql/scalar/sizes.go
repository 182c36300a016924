package scalar

import (
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addSizes adds pg_table_size and its like. The sizes that an environment gives are approximate.
func addSizes(r *Registry) {
	of := func(ctx *Context, part SizePart, oid uint32) (types.Datum, error) {
		n, ok, err := ctx.Env.Size(ctx.context(), part, oid)
		if err != nil || !ok {
			return types.Null, err
		}
		return num(n)
	}
	relation := func(name string, part SizePart) {
		r.f1(name+"(regclass) int8", func(ctx *Context, a types.Datum) (types.Datum, error) { return of(ctx, part, uint32(a.Int())) }).volatile()
	}
	relation("pg_relation_size", SizeOfTable)
	relation("pg_table_size", SizeOfTable)
	relation("pg_indexes_size", SizeOfIndexes)
	relation("pg_total_relation_size", SizeOfTotal)
	r.f2("pg_relation_size(regclass, text) int8", func(ctx *Context, a, fork types.Datum) (types.Datum, error) {
		switch fork.Str() {
		case "main":
			return of(ctx, SizeOfTable, uint32(a.Int()))
		case "fsm", "vm", "init":
			return num(0) // there are no such files
		}
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid fork name").
			WithHint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")
	}).volatile()
	r.f1("pg_database_size(oid) int8", func(ctx *Context, a types.Datum) (types.Datum, error) {
		return of(ctx, SizeOfDatabase, uint32(a.Int()))
	}).volatile()
	r.f1("pg_database_size(name) int8", func(ctx *Context, a types.Datum) (types.Datum, error) {
		oid, err := ctx.Env.DatabaseOID(ctx.context(), a.Str())
		if err != nil {
			return types.Null, err
		}
		return of(ctx, SizeOfDatabase, oid)
	}).volatile()
	tablespace := func(ctx *Context, global bool) (types.Datum, error) {
		if global {
			return num(0) // what is shared by all databases is not told apart
		}
		return of(ctx, SizeOfAll, 0)
	}
	r.f1("pg_tablespace_size(oid) int8", func(ctx *Context, a types.Datum) (types.Datum, error) {
		if oid := a.Int(); oid != 1663 && oid != 1664 {
			return types.Null, nil
		}
		return tablespace(ctx, a.Int() == 1664)
	}).volatile()
	r.f1("pg_tablespace_size(name) int8", func(ctx *Context, a types.Datum) (types.Datum, error) {
		if n := a.Str(); n != "pg_default" && n != "pg_global" {
			return types.Null, sqlstate.New(sqlstate.UndefinedObject, "tablespace \"%s\" does not exist", n)
		}
		return tablespace(ctx, a.Str() == "pg_global")
	}).volatile()
}
