package system

import (
	"fmt"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addSizes adds pg_table_size and its like. The sizes that an environment gives are approximate.
func addSizes(r *scalar.Registry) {
	of := func(ctx *scalar.Context, part SizePart, oid uint32) (types.Datum, error) {
		n, ok, err := session(ctx).Size(statement(ctx), part, oid)
		if err != nil || !ok {
			return types.Null, err
		}
		return num(n)
	}
	relation := func(name string, part SizePart) {
		r.Func1(name+"(regclass) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) { return of(ctx, part, uint32(a.Int())) }).Volatile()
	}
	relation("pg_relation_size", SizeOfTable)
	relation("pg_table_size", SizeOfTable)
	relation("pg_indexes_size", SizeOfIndexes)
	relation("pg_total_relation_size", SizeOfTotal)
	r.Func2("pg_relation_size(regclass, text) int8", func(ctx *scalar.Context, a, fork types.Datum) (types.Datum, error) {
		switch fork.Str() {
		case "main":
			return of(ctx, SizeOfTable, uint32(a.Int()))
		case "fsm", "vm", "init":
			return num(0) // there are no such files
		}
		return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid fork name").
			WithHint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")
	}).Volatile()
	r.Func1("pg_database_size(oid) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		return of(ctx, SizeOfDatabase, uint32(a.Int()))
	}).Volatile()
	r.Func1("pg_database_size(name) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		oid, err := session(ctx).DatabaseOID(statement(ctx), a.Str())
		if err != nil {
			return types.Null, err
		}
		return of(ctx, SizeOfDatabase, oid)
	}).Volatile()
	tablespace := func(ctx *scalar.Context, global bool) (types.Datum, error) {
		if global {
			return num(0) // data that all databases share is not measured
		}
		return of(ctx, SizeOfAll, 0)
	}
	r.Func1("pg_tablespace_size(oid) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		if oid := a.Int(); oid != 1663 && oid != 1664 {
			return types.Null, nil
		}
		return tablespace(ctx, a.Int() == 1664)
	}).Volatile()
	r.Func1("pg_tablespace_size(name) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		if n := a.Str(); n != "pg_default" && n != "pg_global" {
			return types.Null, sqlstate.New(sqlstate.UndefinedObject, "tablespace \"%s\" does not exist", n)
		}
		return tablespace(ctx, a.Str() == "pg_global")
	}).Volatile()
}

// sizePretty is pg_size_pretty.
func sizePretty(n int64) string {
	neg := n < 0
	u := n
	if neg {
		u = -n
	}
	units := []string{"bytes", "kB", "MB", "GB", "TB", "PB"}
	// PostgreSQL goes to the next unit at ten thousand and rounds half up.
	limit := int64(10 * 1024)
	i := 0
	v := u
	if v >= limit {
		v >>= 9 // keep one extra bit to round
		i = 1
		for v >= 2*limit-1 && i < len(units)-1 {
			v >>= 10
			i++
		}
		v = (v + 1) / 2
	}
	if neg {
		v = -v
	}
	return fmt.Sprintf("%d %s", v, units[i])
}
