package system

import (
	"fmt"
	"strings"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addLookups adds functions about the running statement, sequences, the client's port, roles and encodings.
func addLookups(r *scalar.Registry) {
	for _, sig := range []string{"pg_stat_get_tuples_inserted(oid) int8", "age(oid) int4"} {
		r.Func(sig, null).Stable()
	}
	r.Func("current_query() text", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return orNull(session(ctx).CurrentQuery())
	}).Volatile()
	r.Func1("pg_sequence_last_value(regclass) int8", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		v, called, err := session(ctx).SequenceLast(statement(ctx), sequenceName(ctx, a))
		if err != nil || !called {
			return types.Null, err
		}
		return types.NewInt(v), nil
	}).Volatile()
	r.Func2("pg_get_serial_sequence(text, text) text", func(ctx *scalar.Context, table, column types.Datum) (types.Datum, error) {
		name, err := session(ctx).SerialSequence(table.Str(), column.Str())
		if err != nil || name == "" {
			return types.Null, err
		}
		return str(name)
	}).Stable()
	r.Func("inet_client_port() int4", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		addr, port := session(ctx).Client()
		if addr == "" {
			return types.Null, nil
		}
		return num(int64(port))
	}).Stable()
	r.Func("inet_server_port() int4", null).Stable()
	r.Func1("pg_get_userbyid(oid) name", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		if n := ctx.Env.RegName(types.KindRegRole, uint32(a.Int())); n != "" {
			return str(n)
		}
		return str(fmt.Sprintf("unknown (OID=%d)", a.Int()))
	}).Stable()
	r.Func1("pg_encoding_to_char(int4) name", func(_ *scalar.Context, a types.Datum) (types.Datum, error) {
		if a.Int() == 6 {
			return str("UTF8")
		}
		return str("")
	})
	r.Func1("pg_char_to_encoding(name) int4", func(_ *scalar.Context, a types.Datum) (types.Datum, error) {
		if strings.EqualFold(a.Str(), "utf8") || strings.EqualFold(a.Str(), "utf-8") {
			return num(6)
		}
		return num(-1)
	})
}

// addRelations adds sizes as text, what statements relations allow, and predicates that are never true.
func addRelations(r *scalar.Registry) {
	constant := constants(r)
	no := types.NewBool(false)
	r.Func1("pg_size_pretty(int8) text", func(_ *scalar.Context, a types.Datum) (types.Datum, error) { return str(sizePretty(a.Int())) })
	r.Func1("pg_size_pretty(numeric) text", func(_ *scalar.Context, a types.Datum) (types.Datum, error) {
		n, _ := types.DecimalToInt(a.Decimal())
		return str(sizePretty(n))
	})
	constant("pg_is_in_recovery() bool", no)
	constant("pg_is_wal_replay_paused() bool", no)
	constant("pg_is_in_backup() bool", no)
	constant("pg_relation_is_publishable(regclass) bool", no)
	constant("row_security_active(oid) bool", no)
	constant("row_security_active(text) bool", no)
	// Tables can be written to, views can't.
	table := func(ctx *scalar.Context, oid types.Datum) bool { return session(ctx).IsTable(uint32(oid.Int())) }
	r.Func("pg_relation_is_updatable(regclass, bool) int4", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		if table(ctx, a[0]) {
			return num(28) // INSERT, UPDATE, DELETE
		}
		return num(0)
	}).Stable()
	r.Func("pg_column_is_updatable(regclass, int2, bool) bool", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		return boolean(a[1].Int() > 0 && table(ctx, a[0]))
	}).Stable()
	constant("pg_jit_available() bool", no)
	r.Func("pg_collation_for(any) text", func(_ *scalar.Context, a []types.Datum) (types.Datum, error) { return a[0], nil }).Stable().WithNulls().TypedEval = collationFor
	constant("pg_stat_get_numscans(oid) int8", types.Null) // not counted
	r.Func("pg_my_temp_schema() oid", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		oid, err := ctx.Env.ResolveReg(types.KindRegNamespace, "pg_temp")
		if err != nil {
			oid = 0 // the session has made no temporary relation yet
		}
		return types.NewInt(int64(oid)), nil
	}).Stable()
	constant("pg_is_other_temp_schema(oid) bool", no)
}

// addTypes adds functions of the types of their arguments.
func addTypes(r *scalar.Registry) {
	o := r.Func("pg_typeof(any) regtype", func(*scalar.Context, []types.Datum) (types.Datum, error) {
		return types.NewReg(types.Text.OID(), "text"), nil
	}).WithNulls().Stable()
	o.TypedEval = func(ts []*types.T) evalN {
		t := ts[0]
		return func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
			name := ""
			if (t.IsEnum() || t.IsRow()) && ctx.Env != nil {
				name = ctx.Env.RegName(types.KindRegType, t.OID())
			}
			if name == "" {
				name = t.Bare().Name()
			}
			return types.NewReg(t.OID(), name), nil
		}
	}
	o = r.Func("pg_column_size(any) int4", func(*scalar.Context, []types.Datum) (types.Datum, error) { return num(0) }).Stable()
	o.TypedEval = func(ts []*types.T) evalN {
		t := ts[0]
		return func(_ *scalar.Context, a []types.Datum) (types.Datum, error) {
			n := int64(t.Len())
			if n < 0 {
				n = int64(len(types.AppendBinary(nil, a[0], t))) + 1
			}
			return num(n)
		}
	}
}

// addSets adds functions that return sets.
func addSets(r *scalar.Registry) {
	r.Func2("acldefault(char, oid) aclitem[]", aclDefault).Stable()
	r.SetFunc("pg_get_keywords() text", "word text, catcode char, barelabel bool, catdesc text, baredesc text",
		func(*scalar.Context, []types.Datum) ([]types.Row, error) { return keywordRows(), nil })
	r.SetFunc("pg_options_to_table(text[]) text", "option_name text, option_value text",
		func(_ *scalar.Context, a []types.Datum) ([]types.Row, error) {
			var rows []types.Row
			if a[0].IsNull() {
				return nil, nil
			}
			for _, e := range a[0].Array().Elems {
				k, v, _ := strings.Cut(e.Str(), "=")
				rows = append(rows, types.Row{types.NewString(k), types.NewString(v)})
			}
			return rows, nil
		})
	r.SetFunc("pg_sequence_parameters(oid) int8", "start_value int8, minimum_value int8, maximum_value int8, increment int8, cycle_option bool, cache_size int8, data_type oid",
		func(ctx *scalar.Context, a []types.Datum) ([]types.Row, error) {
			if a[0].IsNull() {
				return nil, nil
			}
			row, err := session(ctx).SequenceParameters(statement(ctx), uint32(a[0].Int()))
			return []types.Row{row}, err
		})
	r.SetFunc("aclexplode(aclitem[]) oid", "grantor oid, grantee oid, privilege_type text, is_grantable bool", explodeACL)
	r.SetFunc("pg_partition_ancestors(regclass) regclass", "relid regclass",
		func(_ *scalar.Context, a []types.Datum) ([]types.Row, error) { return nil, nil })
	r.SetFunc("pg_partition_tree(regclass) regclass", "relid regclass, parentrelid regclass, isleaf bool, level int4",
		func(_ *scalar.Context, a []types.Datum) ([]types.Row, error) { return nil, nil })
}

// collationFor is pg_collation_for: only text has a collation, and there is one.
func collationFor(ts []*types.T) evalN {
	t := ts[0]
	return func(*scalar.Context, []types.Datum) (types.Datum, error) {
		switch t.Kind {
		case types.KindUnknown:
			return types.Null, nil
		case types.KindText, types.KindVarChar, types.KindBPChar:
			return types.NewString(`"default"`), nil
		case types.KindName:
			return types.NewString(`"C"`), nil
		}
		return types.Null, sqlstate.New(sqlstate.DatatypeMismatch, "collations are not supported by type %s", t.Name())
	}
}
