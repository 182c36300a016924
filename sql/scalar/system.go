package scalar

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// ServerVersion is the PostgreSQL version whose behaviour and catalogues clients may expect.
const ServerVersion = "15.0"

// VersionText is what version() answers.
const VersionText = "PostgreSQL " + ServerVersion + " (Meridian)"

func (ctx *Context) context() context.Context {
	if ctx != nil && ctx.Context != nil {
		return ctx.Context
	}
	return context.Background()
}

// sequenceName names a sequence by its OID, which a regclass has: what it was called by was looked up, and allowed, then.
func sequenceName(ctx *Context, d types.Datum) string {
	if id := uint32(d.Int()); id != 0 {
		return strconv.FormatUint(uint64(id), 10)
	}
	return d.Str()
}

// IdentityNext is nextval for the default of an identity column, whose sequence needs no right of its own: the right to
// insert is enough. Expressions that users write have the other one.
func IdentityNext(nextval *Overload) *Overload {
	o := *nextval
	o.Eval1 = func(ctx *Context, a types.Datum) (types.Datum, error) {
		v, err := ctx.Env.NextIdentity(ctx.context(), sequenceName(ctx, a))
		return types.NewInt(v), err
	}
	o.Eval = func(ctx *Context, args []types.Datum) (types.Datum, error) { return o.Eval1(ctx, args[0]) }
	return &o
}

func addSequences(r *Registry) {
	name := sequenceName
	r.f1("nextval(regclass) int8", func(ctx *Context, a types.Datum) (types.Datum, error) {
		v, err := ctx.Env.NextVal(ctx.context(), name(ctx, a))
		return types.NewInt(v), err
	}).volatile()
	r.f1("currval(regclass) int8", func(ctx *Context, a types.Datum) (types.Datum, error) {
		v, err := ctx.Env.CurrVal(ctx.context(), name(ctx, a))
		return types.NewInt(v), err
	}).volatile()
	r.fn("lastval() int8", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		v, err := ctx.Env.LastVal(ctx.context())
		return types.NewInt(v), err
	}).volatile()
	set := func(ctx *Context, a []types.Datum) (types.Datum, error) {
		called := len(a) < 3 || a[2].Bool()
		return a[1], ctx.Env.SetVal(ctx.context(), name(ctx, a[0]), a[1].Int(), called)
	}
	r.fn("setval(regclass, int8) int8", set).volatile()
	r.fn("setval(regclass, int8, bool) int8", set).volatile()
	r.fn("gen_random_uuid() uuid", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewUUID(ctx.Env.RandomUUID()), nil
	}).volatile()
	r.fn("uuid_generate_v4() uuid", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewUUID(ctx.Env.RandomUUID()), nil
	}).volatile()
	r.fn("unique_rowid() int8", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return num(ctx.Env.UniqueRowID())
	}).volatile()
}

func addSystem(r *Registry) {
	text0 := func(name, ret string, f func(ctx *Context) string) {
		r.fn(name+"() "+ret, func(ctx *Context, _ []types.Datum) (types.Datum, error) { return str(f(ctx)) }).stable()
	}
	text0("version", "text", func(*Context) string { return VersionText })
	text0("current_database", "name", func(ctx *Context) string { return ctx.Env.CurrentDatabase() })
	text0("current_catalog", "name", func(ctx *Context) string { return ctx.Env.CurrentDatabase() })
	for _, n := range []string{"current_user", "user", "current_role"} {
		text0(n, "name", func(ctx *Context) string { return ctx.Env.CurrentUser() })
	}
	text0("session_user", "name", func(ctx *Context) string { return ctx.Env.SessionUser() })
	text0("system_user", "text", func(ctx *Context) string { return ctx.Env.SessionUser() })
	text0("getdatabaseencoding", "name", func(*Context) string { return "UTF8" })
	text0("pg_client_encoding", "name", func(ctx *Context) string {
		name, _ := ctx.Env.Setting("client_encoding")
		return name
	})
	schema := func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		if p := ctx.Env.SearchPath(false); len(p) > 0 {
			return str(p[0])
		}
		return types.Null, nil
	}
	r.fn("current_schema() name", schema).stable()
	r.f1("current_schemas(bool) name[]", func(ctx *Context, a types.Datum) (types.Datum, error) {
		arr := &types.Array{Elem: types.Name}
		for _, s := range ctx.Env.SearchPath(a.Bool()) {
			arr.Elems = append(arr.Elems, types.NewString(s))
		}
		return types.NewArray(arr), nil
	}).stable()
	pid := func(ctx *Context, _ []types.Datum) (types.Datum, error) { return num(int64(ctx.Env.BackendPID())) }
	r.fn("pg_backend_pid() int4", pid).stable()
	visible := func(ctx *Context, a types.Datum) (types.Datum, error) {
		return boolean(ctx.Env.TableIsVisible(uint32(a.Int())))
	}
	r.f1("pg_table_is_visible(oid) bool", visible).stable()
	r.f1("pg_type_is_visible(oid) bool", func(ctx *Context, a types.Datum) (types.Datum, error) {
		v, ok := ctx.Env.(interface{ TypeIsVisible(oid uint32) bool })
		return boolean(!ok || v.TypeIsVisible(uint32(a.Int())))
	}).stable()
	for _, n := range []string{"function", "operator", "opclass", "opfamily", "conversion", "ts_config", "ts_dict",
		"ts_parser", "ts_template", "collation", "statistics_obj"} {
		r.f1("pg_"+n+"_is_visible(oid) bool", func(*Context, types.Datum) (types.Datum, error) { return boolean(true) }).stable()
	}
	r.fn("format_type(oid, int4) text", func(ctx *Context, a []types.Datum) (types.Datum, error) {
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
	}).calledOnNull()
	// Stored expressions are kept as SQL text, so the node tree that PostgreSQL would decompile is the text itself.
	r.f2("pg_get_expr(text, oid) text", func(_ *Context, a, _ types.Datum) (types.Datum, error) { return a, nil })
	r.fn("pg_get_expr(text, oid, bool) text", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		if a[2].Bool() {
			return str(ctx.Env.PrettyExpr(a[0].Str()))
		}
		return a[0], nil
	}).stable()
	orNull := func(s string) (types.Datum, error) {
		if s == "" {
			return types.Null, nil
		}
		return str(s)
	}
	r.f1("pg_get_indexdef(oid) text", func(ctx *Context, a types.Datum) (types.Datum, error) {
		return orNull(ctx.Env.IndexDef(uint32(a.Int()), 0))
	}).stable()
	r.fn("pg_get_indexdef(oid, int4, bool) text", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		return orNull(ctx.Env.IndexDef(uint32(a[0].Int()), int(a[1].Int())))
	}).stable()
	for _, v := range []struct {
		name string
		f    func(ctx *Context, oid uint32, pretty bool) string
	}{
		{"pg_get_constraintdef", func(ctx *Context, oid uint32, pretty bool) string { return ctx.Env.ConstraintDef(oid, pretty) }},
		{"pg_get_viewdef", func(ctx *Context, oid uint32, _ bool) string { return ctx.Env.ViewDef(oid) }},
		{"pg_get_ruledef", func(*Context, uint32, bool) string { return "" }},
		{"pg_get_triggerdef", func(*Context, uint32, bool) string { return "" }},
	} {
		f := func(ctx *Context, a []types.Datum) (types.Datum, error) {
			return orNull(v.f(ctx, uint32(a[0].Int()), len(a) > 1 && a[1].Bool()))
		}
		r.fn(v.name+"(oid) text", f).stable()
		r.fn(v.name+"(oid, bool) text", f).stable()
	}
	viewByName := func(ctx *Context, a []types.Datum) (types.Datum, error) {
		oid, err := ctx.Env.ResolveReg(types.KindRegClass, a[0].Str())
		if err != nil {
			return types.Null, err
		}
		return orNull(ctx.Env.ViewDef(oid))
	}
	r.fn("pg_get_viewdef(text) text", viewByName).stable()
	r.fn("pg_get_viewdef(text, bool) text", viewByName).stable()
	null := func(*Context, []types.Datum) (types.Datum, error) { return types.Null, nil }
	for _, sig := range []string{"pg_get_functiondef(oid)", "pg_get_function_sqlbody(oid)", "pg_get_function_arg_default(oid, int4)",
		"pg_get_statisticsobjdef(oid)", "pg_get_statisticsobjdef_columns(oid)",
		"pg_get_partkeydef(oid)", "pg_get_partition_constraintdef(oid)",
		"pg_tablespace_location(oid)"} {
		r.fn(sig+" text", null).stable()
	}
	r.fn("inet_client_addr() inet", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		addr, _ := ctx.Env.Client()
		if addr == "" {
			return types.Null, nil
		}
		return types.ParseText(sigType("inet"), addr, nil)
	}).stable()
	r.fn("inet_server_addr() inet", null).stable()
	// Comments come from an environment that has them.
	comment := func(ctx *Context, class string, oid uint32, column int) (types.Datum, error) {
		if e, ok := ctx.Env.(interface {
			Description(class string, oid uint32, column int) string
		}); ok {
			return orNull(e.Description(class, oid, column))
		}
		return types.Null, nil
	}
	r.fn("col_description(oid, int4) text", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		return comment(ctx, "pg_class", uint32(a[0].Int()), int(a[1].Int()))
	}).stable()
	for _, sig := range []string{"obj_description(oid, name) text", "shobj_description(oid, name) text"} {
		r.fn(sig, func(ctx *Context, a []types.Datum) (types.Datum, error) {
			return comment(ctx, a[1].Str(), uint32(a[0].Int()), 0)
		}).stable()
	}
	r.fn("obj_description(oid) text", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		d, err := comment(ctx, "pg_class", uint32(a[0].Int()), 0)
		if err == nil && d.IsNull() {
			d, err = comment(ctx, "pg_namespace", uint32(a[0].Int()), 0)
		}
		return d, err
	}).stable()
	arguments := func(_ *Context, a types.Datum) (types.Datum, error) {
		o, ok := r.byOID[uint32(a.Int())]
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
	r.f1("pg_get_function_arguments(oid) text", arguments).stable()
	r.f1("pg_get_function_identity_arguments(oid) text", arguments).stable()
	r.f1("pg_get_function_result(oid) text", func(_ *Context, a types.Datum) (types.Datum, error) {
		o, ok := r.byOID[uint32(a.Int())]
		if !ok {
			return types.Null, nil
		}
		if o.Set != nil {
			return str("SETOF " + o.Return.Name())
		}
		return str(o.Return.Name())
	}).stable()
	for _, sig := range []string{"pg_stat_get_tuples_inserted(oid) int8", "age(oid) int4"} {
		r.fn(sig, null).stable()
	}
	r.fn("current_query() text", func(ctx *Context, _ []types.Datum) (types.Datum, error) { return orNull(ctx.Env.CurrentQuery()) }).volatile()
	r.f1("pg_sequence_last_value(regclass) int8", func(ctx *Context, a types.Datum) (types.Datum, error) {
		v, called, err := ctx.Env.SequenceLast(ctx.context(), sequenceName(ctx, a))
		if err != nil || !called {
			return types.Null, err
		}
		return types.NewInt(v), nil
	}).volatile()
	r.f2("pg_get_serial_sequence(text, text) text", func(ctx *Context, table, column types.Datum) (types.Datum, error) {
		name, err := ctx.Env.SerialSequence(table.Str(), column.Str())
		if err != nil || name == "" {
			return types.Null, err
		}
		return str(name)
	}).stable()
	r.fn("inet_client_port() int4", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		addr, port := ctx.Env.Client()
		if addr == "" {
			return types.Null, nil
		}
		return num(int64(port))
	}).stable()
	r.fn("inet_server_port() int4", null).stable()
	r.f1("pg_get_userbyid(oid) name", func(ctx *Context, a types.Datum) (types.Datum, error) {
		if n := ctx.Env.RegName(types.KindRegRole, uint32(a.Int())); n != "" {
			return str(n)
		}
		return str(fmt.Sprintf("unknown (OID=%d)", a.Int()))
	}).stable()
	r.f1("pg_encoding_to_char(int4) name", func(_ *Context, a types.Datum) (types.Datum, error) {
		if a.Int() == 6 {
			return str("UTF8")
		}
		return str("")
	})
	r.f1("pg_char_to_encoding(name) int4", func(_ *Context, a types.Datum) (types.Datum, error) {
		if strings.EqualFold(a.Str(), "utf8") || strings.EqualFold(a.Str(), "utf-8") {
			return num(6)
		}
		return num(-1)
	})
	addPrivileges(r)
	addSizes(r)
	r.f1("pg_size_pretty(int8) text", func(_ *Context, a types.Datum) (types.Datum, error) { return str(sizePretty(a.Int())) })
	r.f1("pg_size_pretty(numeric) text", func(_ *Context, a types.Datum) (types.Datum, error) {
		n, _ := types.DecimalToInt(a.Decimal())
		return str(sizePretty(n))
	})
	constant := func(sig string, d types.Datum) {
		r.fn(sig, func(*Context, []types.Datum) (types.Datum, error) { return d, nil }).stable()
	}
	no := types.NewBool(false)
	constant("pg_is_in_recovery() bool", no)
	constant("pg_is_wal_replay_paused() bool", no)
	constant("pg_is_in_backup() bool", no)
	constant("pg_relation_is_publishable(regclass) bool", no)
	constant("row_security_active(oid) bool", no)
	constant("row_security_active(text) bool", no)
	// Tables can be written to, views can't.
	table := func(ctx *Context, oid types.Datum) bool { return ctx.Env.IsTable(uint32(oid.Int())) }
	r.fn("pg_relation_is_updatable(regclass, bool) int4", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		if table(ctx, a[0]) {
			return num(28) // INSERT, UPDATE, DELETE
		}
		return num(0)
	}).stable()
	r.fn("pg_column_is_updatable(regclass, int2, bool) bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		return boolean(a[1].Int() > 0 && table(ctx, a[0]))
	}).stable()
	constant("pg_jit_available() bool", no)
	r.fn("pg_collation_for(any) text", func(_ *Context, a []types.Datum) (types.Datum, error) { return a[0], nil }).stable().calledOnNull().TypedEval = collationFor
	constant("pg_stat_get_numscans(oid) int8", types.Null) // nobody counts
	r.fn("pg_my_temp_schema() oid", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		oid, err := ctx.Env.ResolveReg(types.KindRegNamespace, "pg_temp")
		if err != nil {
			oid = 0 // the session has made no temporary relation yet
		}
		return types.NewInt(int64(oid)), nil
	}).stable()
	constant("pg_is_other_temp_schema(oid) bool", no)
	r.fset("pg_listening_channels() text", "pg_listening_channels text", func(ctx *Context, _ []types.Datum) ([]types.Row, error) {
		var rows []types.Row
		for _, c := range ctx.Env.Listening() {
			rows = append(rows, types.Row{types.NewString(c)})
		}
		return rows, nil
	}).stable()
	r.fn("pg_notify(text, text) void", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		var channel, payload string
		if !a[0].IsNull() {
			channel = a[0].Str()
		}
		if !a[1].IsNull() {
			payload = a[1].Str()
		}
		return types.NewString(""), ctx.Env.Notify(channel, payload)
	}).calledOnNull().volatile()
	for _, name := range []string{"txid_current", "pg_current_xact_id"} {
		r.fn(name+"() int8", func(ctx *Context, _ []types.Datum) (types.Datum, error) { return num(ctx.Env.TransactionNumber(true)) }).stable()
	}
	for _, name := range []string{"txid_current_if_assigned", "pg_current_xact_id_if_assigned"} {
		r.fn(name+"() int8", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
			if n := ctx.Env.TransactionNumber(false); n != 0 {
				return num(n)
			}
			return types.Null, nil
		}).stable()
	}
	r.fn("pg_export_snapshot() text", func(*Context, []types.Datum) (types.Datum, error) {
		return types.Null, sqlstate.New(sqlstate.FeatureNotSupported, "snapshots can't be exported").
			WithHint("Read in several sessions with AS OF SYSTEM TIME of one timestamp.")
	}).volatile()
	constant("pg_trigger_depth() int4", types.NewInt(0))
	constant("pg_filenode_relation(oid, oid) regclass", types.Null)
	constant("pg_stat_clear_snapshot() void", types.NewString(""))
	started := func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		if v, ok := ctx.Env.Setting("meridian.start_time"); ok {
			if d, err := types.ParseText(types.TimestampTZ, v, nil); err == nil {
				return d, nil
			}
		}
		return types.NewTimestamp(types.MicrosFromTime(ctx.TxnTime)), nil
	}
	r.fn("pg_postmaster_start_time() timestamptz", started).stable()
	r.fn("pg_conf_load_time() timestamptz", started).stable()
	o := r.fn("pg_typeof(any) regtype", func(*Context, []types.Datum) (types.Datum, error) {
		return types.NewReg(types.Text.OID(), "text"), nil
	}).calledOnNull().stable()
	o.TypedEval = func(ts []*types.T) evalN {
		t := ts[0]
		return func(ctx *Context, _ []types.Datum) (types.Datum, error) {
			name := ""
			if t.IsEnum() && ctx.Env != nil {
				name = ctx.Env.RegName(types.KindRegType, t.OID())
			}
			if name == "" {
				name = t.Bare().Name()
			}
			return types.NewReg(t.OID(), name), nil
		}
	}
	o = r.fn("pg_column_size(any) int4", func(*Context, []types.Datum) (types.Datum, error) { return num(0) }).stable()
	o.TypedEval = func(ts []*types.T) evalN {
		t := ts[0]
		return func(_ *Context, a []types.Datum) (types.Datum, error) {
			n := int64(t.Len())
			if n < 0 {
				n = int64(len(types.AppendBinary(nil, a[0], t))) + 1
			}
			return num(n)
		}
	}
	setting := func(ctx *Context, a []types.Datum) (types.Datum, error) {
		if v, ok := ctx.Env.Setting(strings.ToLower(a[0].Str())); ok {
			return str(v)
		}
		if len(a) > 1 && a[1].Bool() {
			return types.Null, nil
		}
		return types.Null, sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", types.Raw(a[0].Str()))
	}
	r.fn("current_setting(text) text", setting).stable()
	r.fn("current_setting(text, bool) text", setting).stable()
	r.fn("set_config(text, text, bool) text", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "SET requires parameter name")
		}
		name := strings.ToLower(a[0].Str())
		if err := ctx.Env.SetSetting(name, a[1].Str(), !a[2].IsNull() && a[2].Bool()); err != nil {
			return types.Null, err
		}
		v, _ := ctx.Env.Setting(name)
		return str(v)
	}).volatile().calledOnNull()
	r.f1("pg_blocking_pids(int4) int4[]", func(ctx *Context, a types.Datum) (types.Datum, error) {
		pids, err := ctx.Env.BlockingPIDs(ctx.context(), int32(a.Int()))
		if err != nil {
			return types.Null, err
		}
		out := &types.Array{Elem: types.Int4}
		for _, pid := range pids {
			out.Elems = append(out.Elems, types.NewInt(int64(pid)))
		}
		return types.NewArray(out), nil
	}).volatile()
	cancel := func(name string, terminate bool) {
		r.f1(name+"(int4) bool", func(ctx *Context, a types.Datum) (types.Datum, error) {
			ok, err := ctx.Env.CancelBackend(ctx.context(), int32(a.Int()), terminate)
			return types.NewBool(ok), err
		}).volatile()
	}
	cancel("pg_cancel_backend", false)
	cancel("pg_terminate_backend", true)
	r.f2("pg_terminate_backend(int4, int8) bool", func(ctx *Context, a, timeout types.Datum) (types.Datum, error) {
		if timeout.Int() < 0 {
			return types.Null, sqlstate.New(sqlstate.NumericOutOfRange, "\"timeout\" must not be negative")
		}
		ok, err := ctx.Env.CancelBackend(ctx.context(), int32(a.Int()), true)
		if ok && err == nil && timeout.Int() > 0 {
			ok, err = ctx.Env.AwaitBackend(ctx.context(), int32(a.Int()), min(timeout.Int(), math.MaxInt32))
		}
		return types.NewBool(ok), err
	}).volatile()
	sleep := func(ctx *Context, d time.Duration) (types.Datum, error) {
		if err := ctx.Env.Sleep(ctx.context(), d); err != nil {
			return types.Null, err
		}
		return str("")
	}
	r.f1("pg_sleep(float8) void", func(ctx *Context, a types.Datum) (types.Datum, error) {
		f := min(max(a.Float(), 0), 1e9)
		return sleep(ctx, time.Duration(f*float64(time.Second)))
	}).volatile()
	r.f1("pg_sleep_for(interval) void", func(ctx *Context, a types.Datum) (types.Datum, error) {
		m, d, us := a.Interval()
		return sleep(ctx, time.Duration((int64(m)*30+int64(d))*types.DayMicros+us)*time.Microsecond)
	}).volatile()
	r.fn("cluster_logical_timestamp() numeric", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.ParseText(types.Decimal, ctx.Env.ClusterTimestamp(), nil)
	}).stable()
	r.fn("meridian_node_id() int4", func(ctx *Context, _ []types.Datum) (types.Datum, error) { return num(int64(ctx.Env.NodeID())) }).stable()
	// Names of objects, as functions.
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
		r.f1(v.name+"(text) "+v.t, func(ctx *Context, a types.Datum) (types.Datum, error) {
			d, err := NamedReg(ctx.Env, to, a.Str())
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
		}).stable()
	}
	addAdvisory(r)
	r.f2("acldefault(char, oid) aclitem[]", aclDefault).stable()
	r.fset("pg_get_keywords() text", "word text, catcode char, barelabel bool, catdesc text, baredesc text",
		func(*Context, []types.Datum) ([]types.Row, error) { return keywordRows(), nil })
	r.fset("pg_options_to_table(text[]) text", "option_name text, option_value text",
		func(_ *Context, a []types.Datum) ([]types.Row, error) {
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
	r.fset("pg_sequence_parameters(oid) int8", "start_value int8, minimum_value int8, maximum_value int8, increment int8, cycle_option bool, cache_size int8, data_type oid",
		func(ctx *Context, a []types.Datum) ([]types.Row, error) {
			if a[0].IsNull() {
				return nil, nil
			}
			row, err := ctx.Env.SequenceParameters(ctx.context(), uint32(a[0].Int()))
			return []types.Row{row}, err
		})
	r.fset("aclexplode(aclitem[]) oid", "grantor oid, grantee oid, privilege_type text, is_grantable bool", explodeACL)
	r.fset("pg_partition_ancestors(regclass) regclass", "relid regclass",
		func(_ *Context, a []types.Datum) ([]types.Row, error) { return nil, nil })
	r.fset("pg_partition_tree(regclass) regclass", "relid regclass, parentrelid regclass, isleaf bool, level int4",
		func(_ *Context, a []types.Datum) ([]types.Row, error) { return nil, nil })
}

// addPrivileges registers has_table_privilege and its kin, in all the forms that PostgreSQL has: with a role by name, by OID or
// none, and with the object by name or OID.
func addPrivileges(r *Registry) {
	for name, kind := range map[string]string{
		"has_table_privilege": "table", "has_any_column_privilege": "any column", "has_sequence_privilege": "sequence",
		"has_schema_privilege": "schema", "has_database_privilege": "database", "has_function_privilege": "function",
		"has_type_privilege": "type", "has_language_privilege": "language", "has_tablespace_privilege": "tablespace",
		"has_server_privilege": "server", "has_foreign_data_wrapper_privilege": "foreign-data wrapper", "pg_has_role": "role",
	} {
		object := "text"
		if kind == "role" {
			object = "name"
		}
		for _, on := range []string{object, "oid"} {
			r.fn(name+"("+on+", text) bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
				return ctx.Env.HasPrivilege(PrivilegeQuestion{Kind: kind, Current: true, On: a[0], Privilege: a[1].Str()})
			}).stable()
			for _, role := range []string{"name", "oid"} {
				r.fn(name+"("+role+", "+on+", text) bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
					return ctx.Env.HasPrivilege(PrivilegeQuestion{Kind: kind, Role: a[0], On: a[1], Privilege: a[2].Str()})
				}).stable()
			}
		}
	}
	for _, on := range []string{"text", "oid"} {
		for _, column := range []string{"text", "int2"} {
			r.fn("has_column_privilege("+on+", "+column+", text) bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
				return ctx.Env.HasPrivilege(PrivilegeQuestion{Kind: "column", Current: true, On: a[0], Column: a[1], Privilege: a[2].Str()})
			}).stable()
			for _, role := range []string{"name", "oid"} {
				r.fn("has_column_privilege("+role+", "+on+", "+column+", text) bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
					return ctx.Env.HasPrivilege(PrivilegeQuestion{Kind: "column", Role: a[0], On: a[1], Column: a[2], Privilege: a[3].Str()})
				}).stable()
			}
		}
	}
}

// aclRights are the names of the letters in access control lists.
var aclRights = map[byte]string{'a': "INSERT", 'r': "SELECT", 'w': "UPDATE", 'd': "DELETE", 'D': "TRUNCATE", 'x': "REFERENCES", 't': "TRIGGER",
	'X': "EXECUTE", 'U': "USAGE", 'C': "CREATE", 'T': "TEMPORARY", 'c': "CONNECT"}

// explodeACL makes rows of an access control list: "grantee=letters/grantor", each letter with a star if it may be granted.
func explodeACL(ctx *Context, a []types.Datum) ([]types.Row, error) {
	if a[0].IsNull() {
		return nil, nil
	}
	var rows []types.Row
	role := func(name string) (types.Datum, error) {
		if name == "" {
			return types.NewInt(0), nil
		}
		id, err := ctx.Env.ResolveReg(types.KindRegRole, name)
		return types.NewInt(int64(id)), err
	}
	for _, e := range a[0].Array().Elems {
		// Names that have signs of their own are in quotes.
		item, at := e.Str(), 0
		for quoted := false; at < len(item) && (quoted || item[at] != '='); at++ {
			if item[at] == '"' {
				quoted = !quoted
			}
		}
		letters, by, ok := "", "", false
		if at < len(item) {
			letters, by, ok = strings.Cut(item[at+1:], "/")
		}
		if !ok {
			return nil, sqlstate.New(sqlstate.InvalidTextRepresentation, "malformed access control list item: \"%s\"", item)
		}
		grantee, err := role(item[:at])
		if err != nil {
			return nil, err
		}
		grantor, err := role(by)
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(letters); i++ {
			if letters[i] == '*' {
				continue
			}
			rows = append(rows, types.Row{grantor, grantee, types.NewString(aclRights[letters[i]]),
				types.NewBool(i+1 < len(letters) && letters[i+1] == '*')})
		}
	}
	return rows, nil
}

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

// collationFor is pg_collation_for: only text has a collation, and there is one.
func collationFor(ts []*types.T) evalN {
	t := ts[0]
	return func(*Context, []types.Datum) (types.Datum, error) {
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
