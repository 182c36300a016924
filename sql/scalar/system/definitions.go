package system

import (
	"errors"
	"slices"
	"strings"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addDefinitions adds functions that tell whether objects are visible, and write their definitions as SQL.
func addDefinitions(r *scalar.Registry) {
	visible := func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		if session(ctx).RegName(types.KindRegClass, uint32(a.Int())) == "" {
			return types.Null, nil
		}
		return boolean(session(ctx).TableIsVisible(uint32(a.Int())))
	}
	r.Func1("pg_table_is_visible(oid) bool", visible).Stable()
	r.Func1("pg_type_is_visible(oid) bool", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		if session(ctx).RegName(types.KindRegType, uint32(a.Int())) == "" {
			return types.Null, nil
		}
		return boolean(session(ctx).TypeIsVisible(uint32(a.Int())))
	}).Stable()
	// Objects of these kinds are built in, and visible. An OID that none of them has gets NULL.
	for _, n := range []string{"function", "operator", "opclass", "opfamily", "conversion", "ts_config", "ts_dict",
		"ts_parser", "ts_template", "collation", "statistics_obj"} {
		exists := func(*scalar.Context, uint32) bool { return false }
		switch n {
		case "function", "operator", "collation":
			kind := map[string]types.Kind{"function": types.KindRegProcedure, "operator": types.KindRegOperator, "collation": types.KindRegCollation}[n]
			exists = func(ctx *scalar.Context, oid uint32) bool { return ctx.Env != nil && ctx.Env.RegName(kind, oid) != "" }
		case "opclass":
			exists = func(_ *scalar.Context, oid uint32) bool {
				return slices.ContainsFunc(OperatorClasses(), func(c OperatorClass) bool { return c.OID == oid })
			}
		case "opfamily":
			exists = func(_ *scalar.Context, oid uint32) bool {
				return slices.ContainsFunc(OperatorFamilies(), func(f OperatorFamily) bool { return f.OID == oid })
			}
		}
		r.Func1("pg_"+n+"_is_visible(oid) bool", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
			if !exists(ctx, uint32(a.Int())) {
				return types.Null, nil
			}
			return boolean(true)
		}).Stable()
	}
	r.Func("format_type(oid, int4) text", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, nil
		}
		t, ok := types.FromOID(uint32(a[0].Int()))
		if !ok {
			if a[0].Int() == 0 {
				return str("-")
			}
			if ctx.Env != nil {
				if name := ctx.Env.RegName(types.KindRegType, uint32(a[0].Int())); name != "" {
					return str(name)
				}
			}
			return str("???")
		}
		if a[1].IsNull() || a[1].Int() < 0 {
			if t.Kind == types.KindBPChar && !a[1].IsNull() {
				return str("bpchar")
			}
			return str(t.Name())
		}
		return str(t.WithTypmod(int32(a[1].Int())).String())
	}).WithNulls()
	// Stored expressions are kept as SQL text, so the node tree that PostgreSQL would decompile is the text itself.
	r.Func2("pg_get_expr(text, oid) text", func(_ *scalar.Context, a, _ types.Datum) (types.Datum, error) { return a, nil })
	r.Func("pg_get_expr(text, oid, bool) text", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		if a[2].Bool() {
			return str(session(ctx).PrettyExpr(a[0].Str()))
		}
		return a[0], nil
	}).Stable()
	r.Func1("pg_get_indexdef(oid) text", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		return orNull(session(ctx).IndexDef(uint32(a.Int()), 0))
	}).Stable()
	r.Func("pg_get_indexdef(oid, int4, bool) text", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		return orNull(session(ctx).IndexDef(uint32(a[0].Int()), int(a[1].Int())))
	}).Stable()
	for _, v := range []struct {
		name string
		f    func(ctx *scalar.Context, oid uint32, pretty bool) string
	}{
		{"pg_get_constraintdef", func(ctx *scalar.Context, oid uint32, pretty bool) string {
			return session(ctx).ConstraintDef(oid, pretty)
		}},
		{"pg_get_viewdef", func(ctx *scalar.Context, oid uint32, pretty bool) string { return session(ctx).ViewDef(oid, pretty) }},
		{"pg_get_ruledef", func(*scalar.Context, uint32, bool) string { return "" }},
		{"pg_get_triggerdef", func(*scalar.Context, uint32, bool) string { return "" }},
	} {
		f := func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
			return orNull(v.f(ctx, uint32(a[0].Int()), len(a) > 1 && a[1].Bool()))
		}
		r.Func(v.name+"(oid) text", f).Stable()
		r.Func(v.name+"(oid, bool) text", f).Stable()
	}
	viewByName := func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		oid, err := ctx.Env.ResolveReg(types.KindRegClass, a[0].Str())
		if err != nil {
			return types.Null, err
		}
		return orNull(session(ctx).ViewDef(oid, len(a) > 1 && a[1].Bool()))
	}
	r.Func("pg_get_viewdef(text) text", viewByName).Stable()
	r.Func("pg_get_viewdef(text, bool) text", viewByName).Stable()
	for _, sig := range []string{"pg_get_functiondef(oid)", "pg_get_function_sqlbody(oid)", "pg_get_function_arg_default(oid, int4)",
		"pg_get_statisticsobjdef(oid)", "pg_get_statisticsobjdef_columns(oid)",
		"pg_get_partkeydef(oid)", "pg_get_partition_constraintdef(oid)",
		"pg_tablespace_location(oid)"} {
		r.Func(sig+" text", null).Stable()
	}
}

// addComments adds the comments on objects.
func addComments(r *scalar.Registry) {
	comment := func(ctx *scalar.Context, class string, oid uint32, column int) (types.Datum, error) {
		return orNull(session(ctx).Description(class, oid, column))
	}
	r.Func("col_description(oid, int4) text", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		return comment(ctx, "pg_class", uint32(a[0].Int()), int(a[1].Int()))
	}).Stable()
	for _, sig := range []string{"obj_description(oid, name) text", "shobj_description(oid, name) text"} {
		r.Func(sig, func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
			return comment(ctx, a[1].Str(), uint32(a[0].Int()), 0)
		}).Stable()
	}
	r.Func("obj_description(oid) text", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		d, err := comment(ctx, "pg_class", uint32(a[0].Int()), 0)
		if err == nil && d.IsNull() {
			d, err = comment(ctx, "pg_namespace", uint32(a[0].Int()), 0)
		}
		return d, err
	}).Stable()
}

// addSignatures adds the signatures of functions, which the registry knows.
func addSignatures(r *scalar.Registry) {
	arguments := func(_ *scalar.Context, a types.Datum) (types.Datum, error) {
		o, ok := r.FunctionByOID(uint32(a.Int()))
		if !ok {
			return types.Null, nil
		}
		parts := make([]string, len(o.Args))
		for i, t := range o.Args {
			parts[i] = t.Name()
			if o.Variadic && i == len(o.Args)-1 {
				parts[i] = "VARIADIC " + parts[i]
			}
		}
		return str(strings.Join(parts, ", "))
	}
	r.Func1("pg_get_function_arguments(oid) text", arguments).Stable()
	r.Func1("pg_get_function_identity_arguments(oid) text", arguments).Stable()
	r.Func1("pg_get_function_result(oid) text", func(_ *scalar.Context, a types.Datum) (types.Datum, error) {
		o, ok := r.FunctionByOID(uint32(a.Int()))
		if !ok {
			return types.Null, nil
		}
		if o.Set != nil {
			return str("SETOF " + o.Return.Name())
		}
		return str(o.Return.Name())
	}).Stable()
}

// addNames adds names of objects as functions.
func addNames(r *scalar.Registry) {
	for _, v := range []struct {
		name string
		kind types.Kind
		t    string
	}{{"to_regclass", types.KindRegClass, "regclass"}, {"to_regtype", types.KindRegType, "regtype"},
		{"to_regproc", types.KindRegProc, "regproc"}, {"to_regnamespace", types.KindRegNamespace, "regnamespace"},
		{"to_regrole", types.KindRegRole, "regrole"}, {"to_regprocedure", types.KindRegProcedure, "regprocedure"},
		{"to_regoper", types.KindRegOper, "regoper"}, {"to_regoperator", types.KindRegOperator, "regoperator"},
		{"to_regcollation", types.KindRegCollation, "regcollation"}} {
		to, _ := types.FromName(v.t)
		r.Func1(v.name+"(text) "+v.t, func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
			d, err := scalar.NamedReg(ctx.Env, to, a.Str())
			var e *sqlstate.Error
			if errors.As(err, &e) {
				switch e.Code {
				case sqlstate.UndefinedTable, sqlstate.UndefinedObject, sqlstate.UndefinedFunction, sqlstate.AmbiguousFunction, sqlstate.InvalidSchemaName:
					if e.Message != "missing argument" {
						return types.Null, nil
					}
				}
			}
			return d, err
		}).Stable()
	}
}
