package system

import (
	"strings"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addIdentity adds the roles and the database of the session, and the schemas in which names are found.
func addIdentity(r *scalar.Registry) {
	text0 := func(name, ret string, f func(ctx *scalar.Context) string) {
		r.Func(name+"() "+ret, func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) { return str(f(ctx)) }).Stable()
	}
	text0("version", "text", func(ctx *scalar.Context) string {
		postgres, _ := session(ctx).Setting("server_version")
		return "PostgreSQL " + postgres + " (Meridian)"
	})
	text0("current_database", "name", func(ctx *scalar.Context) string { return session(ctx).CurrentDatabase() })
	text0("current_catalog", "name", func(ctx *scalar.Context) string { return session(ctx).CurrentDatabase() })
	for _, n := range []string{"current_user", "user", "current_role"} {
		text0(n, "name", func(ctx *scalar.Context) string { return session(ctx).CurrentUser() })
	}
	text0("session_user", "name", func(ctx *scalar.Context) string { return session(ctx).SessionUser() })
	text0("system_user", "text", func(ctx *scalar.Context) string { return session(ctx).SessionUser() })
	text0("getdatabaseencoding", "name", func(*scalar.Context) string { return "UTF8" })
	text0("pg_client_encoding", "name", func(ctx *scalar.Context) string {
		name, _ := session(ctx).Setting("client_encoding")
		return name
	})
	schema := func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		if p := session(ctx).SearchPath(false); len(p) > 0 {
			return str(p[0])
		}
		return types.Null, nil
	}
	r.Func("current_schema() name", schema).Stable()
	r.Func1("current_schemas(bool) name[]", func(ctx *scalar.Context, a types.Datum) (types.Datum, error) {
		arr := &types.Array{Elem: types.Name}
		for _, s := range session(ctx).SearchPath(a.Bool()) {
			arr.Elems = append(arr.Elems, types.NewString(s))
		}
		return types.NewArray(arr), nil
	}).Stable()
	pid := func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return num(int64(session(ctx).BackendPID()))
	}
	r.Func("pg_backend_pid() int4", pid).Stable()
}

// addAddresses adds the addresses of the connection.
func addAddresses(r *scalar.Registry) {
	r.Func("inet_client_addr() inet", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		addr, _ := session(ctx).Client()
		if addr == "" {
			return types.Null, nil
		}
		return types.ParseText(types.Inet, addr, nil)
	}).Stable()
	r.Func("inet_server_addr() inet", null).Stable()
}

// addSettings adds current_setting and set_config.
func addSettings(r *scalar.Registry) {
	setting := func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		if v, ok := session(ctx).Setting(strings.ToLower(a[0].Str())); ok {
			return str(v)
		}
		if len(a) > 1 && a[1].Bool() {
			return types.Null, nil
		}
		return types.Null, sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", types.Raw(a[0].Str()))
	}
	r.Func("current_setting(text) text", setting).Stable()
	r.Func("current_setting(text, bool) text", setting).Stable()
	r.Func("set_config(text, text, bool) text", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
		if a[0].IsNull() {
			return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "SET requires parameter name")
		}
		name := strings.ToLower(a[0].Str())
		if err := session(ctx).SetSetting(name, a[1].Str(), !a[2].IsNull() && a[2].Bool()); err != nil {
			return types.Null, err
		}
		v, _ := session(ctx).Setting(name)
		return str(v)
	}).Volatile().WithNulls()
}

// addNode adds the start time of the node.
func addNode(r *scalar.Registry) {
	started := func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		if v, ok := session(ctx).Setting("meridian.start_time"); ok {
			if d, err := types.ParseText(types.TimestampTZ, v, nil); err == nil {
				return d, nil
			}
		}
		return types.NewTimestamp(types.MicrosFromTime(ctx.TxnTime)), nil
	}
	r.Func("pg_postmaster_start_time() timestamptz", started).Stable()
	r.Func("pg_conf_load_time() timestamptz", started).Stable()
}

// addCluster adds Meridian's own functions.
func addCluster(r *scalar.Registry) {
	r.Func("cluster_logical_timestamp() numeric", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return types.ParseText(types.Decimal, session(ctx).ClusterTimestamp(), nil)
	}).Stable()
	r.Func("meridian_node_id() int4", func(ctx *scalar.Context, _ []types.Datum) (types.Datum, error) {
		return num(int64(session(ctx).NodeID()))
	}).Stable()
}
