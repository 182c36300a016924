package virtual

import (
	"net/netip"
	"slices"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/types"
)

func pgAm(r *reading) error {
	r.add("oid", heapMethod, "amname", "heap", "amhandler", "heap_tableam_handler", "amtype", "t")
	r.add("oid", btreeMethod, "amname", "btree", "amhandler", "bthandler", "amtype", "i")
	return nil
}

func pgNamespace(r *reading) error {
	users, err := r.userIDs()
	if err != nil {
		return err
	}
	list, err := r.view.Schemas(r.ctx, r.view.CurrentDatabase())
	if err != nil {
		return err
	}
	for _, s := range list {
		// The cluster's own relations can be read, but are not in psql's lists.
		if !r.skip(uint32(s.ID)) && s.ID != InternalSchemaID {
			r.add("oid", s.ID, "nspname", s.Name, "nspowner", ownerID(users, s.Owner), "nspacl", r.acl(s.ID))
		}
	}
	return nil
}

func pgDatabase(r *reading) error {
	users, err := r.userIDs()
	if err != nil {
		return err
	}
	list, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
	}
	for _, d := range catalog.WithTemplates(list) {
		r.add("oid", d.ID, "datname", d.Name, "datdba", ownerID(users, d.Owner), "encoding", 6, "datlocprovider", "c", "datistemplate", d.IsTemplate(), "datallowconn", d.AllowsConnections(),
			"datconnlimit", -1, "dattablespace", defaultSpace, "datcollate", "C.UTF-8", "datctype", "C.UTF-8", "datacl", r.acl(d.ID))
	}
	return nil
}

func (r *reading) users() ([]*catalog.User, error) { return r.view.Users(r.ctx) }

// connections is a role's CONNECTION LIMIT; -1 is none.
func connections(u *catalog.User) int {
	if !u.Bounded {
		return -1
	}
	return u.Connections
}

// expiry is a role's VALID UNTIL.
func expiry(u *catalog.User) any {
	if !u.Expires {
		return nil
	}
	return types.NewTimestamp(u.ValidUntil)
}

func pgRoles(r *reading) error {
	users, err := r.users()
	for _, u := range users {
		r.add("rolname", u.Name, "rolsuper", u.Superuser, "rolinherit", !u.NoInherit, "rolcreaterole", u.CreateRole,
			"rolcreatedb", u.CreateDB, "rolcanlogin", u.Login, "rolreplication", false, "rolconnlimit", connections(u), "rolvaliduntil", expiry(u), "rolpassword", "********", "rolbypassrls", false,
			"rolconfig", settingsOf(u.Settings, 0), "oid", u.ID)
	}
	return err
}

// settingNames are the settings that PostgreSQL spells with capitals.
var settingNames = map[string]string{"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}

// settingsOf are the settings of a list that apply in a database, as "name=value"; nil if there are none.
func settingsOf(list []catalog.InitialSetting, database catalog.ID) []string {
	var out []string
	for _, s := range list {
		if s.Database == database {
			name := s.Name
			if shown, ok := settingNames[name]; ok {
				name = shown
			}
			out = append(out, name+"="+s.Value)
		}
	}
	return out
}

func pgDbRoleSetting(r *reading) error {
	dbs, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
	}
	users, err := r.users()
	if err != nil {
		return err
	}
	add := func(database, role catalog.ID, config []string) {
		if len(config) > 0 {
			r.add("setdatabase", database, "setrole", role, "setconfig", config)
		}
	}
	for _, d := range dbs {
		add(d.ID, 0, settingsOf(d.Settings, 0))
	}
	for _, u := range users {
		add(0, u.ID, settingsOf(u.Settings, 0))
		for _, d := range dbs {
			add(d.ID, u.ID, settingsOf(u.Settings, d.ID))
		}
	}
	return nil
}

func pgAuthid(r *reading) error {
	if err := r.mustBeSuperuser(); err != nil {
		return err
	}
	users, err := r.users()
	for _, u := range users {
		var verifier any
		if u.Verifier != "" {
			verifier = u.Verifier
		}
		r.add("oid", u.ID, "rolname", u.Name, "rolsuper", u.Superuser, "rolinherit", !u.NoInherit, "rolcreaterole", u.CreateRole,
			"rolcreatedb", u.CreateDB, "rolcanlogin", u.Login, "rolconnlimit", connections(u), "rolvaliduntil", expiry(u), "rolpassword", verifier, "rolbypassrls", false)
	}
	return err
}

func pgUser(r *reading) error {
	users, err := r.users()
	for _, u := range users {
		if u.Login {
			r.add("usename", u.Name, "usesysid", u.ID, "usecreatedb", u.CreateDB, "usesuper", u.Superuser, "passwd", "********", "valuntil", expiry(u))
		}
	}
	return err
}

func pgShadow(r *reading) error {
	if err := r.mustBeSuperuser(); err != nil {
		return err
	}
	users, err := r.users()
	for _, u := range users {
		if u.Login {
			r.add("usename", u.Name, "usesysid", u.ID, "usecreatedb", u.CreateDB, "usesuper", u.Superuser, "passwd", u.Verifier, "valuntil", expiry(u))
		}
	}
	return err
}

func pgGroup(r *reading) error {
	users, err := r.users()
	for _, u := range users {
		if u.Login {
			continue
		}
		members := []uint32{}
		for _, m := range users {
			if m.Membership(u.Name) != nil {
				members = append(members, uint32(m.ID))
			}
		}
		r.add("groname", u.Name, "grosysid", u.ID, "grolist", members)
	}
	return err
}

func pgAuthMembers(r *reading) error {
	users, err := r.users()
	ids := map[string]catalog.ID{}
	for _, u := range users {
		ids[u.Name] = u.ID
	}
	for _, u := range users {
		for _, m := range u.MemberOf {
			r.add("roleid", ids[m.Role], "member", u.ID, "grantor", ids[m.Grantor], "admin_option", m.Admin)
		}
	}
	return err
}

func pgTablespace(r *reading) error {
	r.add("oid", defaultSpace, "spcname", "pg_default", "spcowner", bootstrapRole)
	r.add("oid", globalSpace, "spcname", "pg_global", "spcowner", bootstrapRole)
	return nil
}

func pgLanguage(r *reading) error {
	for i, n := range []string{"internal", "c", "sql"} {
		r.add("oid", internalLanguage+i, "lanname", n, "lanowner", bootstrapRole, "lanpltrusted", n == "sql")
	}
	return nil
}

func pgCollation(r *reading) error {
	for _, c := range collations {
		var loc any
		if c.loc != "" {
			loc = c.loc
		}
		r.add("oid", c.oid, "collname", c.name, "collnamespace", catalog.PGCatalogSchemaID, "collowner", bootstrapRole, "collprovider", c.provider,
			"collisdeterministic", true, "collencoding", -1, "collcollate", loc, "collctype", loc)
	}
	return nil
}

func pgOpclass(r *reading) error {
	for _, c := range system.OperatorClasses() {
		r.add("oid", c.OID, "opcmethod", btreeMethod, "opcname", c.Name, "opcnamespace", catalog.PGCatalogSchemaID, "opcowner", bootstrapRole,
			"opcfamily", c.Family, "opcintype", c.Input, "opcdefault", c.Default, "opckeytype", c.Key)
	}
	return nil
}

func pgOpfamily(r *reading) error {
	for _, f := range system.OperatorFamilies() {
		r.add("oid", f.OID, "opfmethod", btreeMethod, "opfname", f.Name, "opfnamespace", catalog.PGCatalogSchemaID, "opfowner", bootstrapRole)
	}
	return nil
}

func pgType(r *reading) error {
	put := func(t *types.T, oid uint32, name string, length int16, kind, category string, preferred bool, elem, array uint32) {
		if r.skip(oid) || oid == 0 {
			return
		}
		byVal, align, storage := layoutOf(t)
		io, ok := r.p.o.Catalog.typeIO[name]
		if !ok || t.Kind == types.KindArray {
			io = [4]string{"array_in", "array_out", "array_recv", "array_send"}
		}
		r.add("oid", oid, "typname", name, "typnamespace", catalog.PGCatalogSchemaID, "typowner", bootstrapRole, "typlen", length, "typbyval", byVal,
			"typtype", kind, "typcategory", category, "typispreferred", preferred, "typisdefined", true, "typdelim", ",", "typelem", elem,
			"typarray", array, "typinput", io[0], "typoutput", io[1], "typreceive", io[2],
			"typsend", io[3], "typalign", align, "typstorage", storage, "typtypmod", -1, "typcollation", collationOf(t))
	}
	for _, t := range types.All() {
		kind := "b"
		switch t.Kind {
		case types.KindVoid, types.KindAny, types.KindAnyElement, types.KindAnyArray, types.KindTuple, types.KindUnknown:
			kind = "p"
		}
		elem := uint32(0)
		switch t.Kind {
		case types.KindInt2Vector:
			elem = types.Int2.OID()
		case types.KindOIDVector:
			elem = types.OID.OID()
		case types.KindName:
			elem = types.Char.OID()
		}
		put(t, t.OID(), t.TypName(), t.Len(), kind, string(rune(t.Category())), t.Preferred(), elem, t.ArrayOID())
		if a := t.ArrayOID(); a != 0 {
			put(types.ArrayOf(t), a, "_"+t.TypName(), -1, map[bool]string{true: "p", false: "b"}[kind == "p"], "A", false, t.OID(), 0)
		}
	}
	if err := r.enumTypes(); err != nil {
		return err
	}
	return r.rowTypes()
}

func pgProc(r *reading) error {
	if r.p.o.Registry == nil {
		return nil
	}
	put := func(oid uint32, name, kind string, args []*types.T, ret *types.T, variadic bool, set bool, strict bool, volatility string) {
		if r.skip(oid) {
			return
		}
		list := []uint32{}
		for _, a := range args {
			list = append(list, a.OID())
		}
		result, element := uint32(2283), uint32(0)
		if ret != nil {
			result = ret.OID()
		}
		if set && ret == nil {
			result = 2249
		}
		if variadic && len(args) > 0 {
			element = args[len(args)-1].OID()
		}
		rows := 0.0
		if set {
			rows = 1000
		}
		r.add("oid", oid, "proname", name, "pronamespace", catalog.PGCatalogSchemaID, "proowner", bootstrapRole, "prolang", internalLanguage, "procost", 1.0,
			"prorows", rows, "provariadic", element, "prokind", kind, "proisstrict", strict, "proretset", set, "provolatile", volatility,
			"proparallel", "s", "pronargs", len(args), "prorettype", result, "proargtypes", list, "prosrc", name)
		for _, p := range scalar.ParametersOf(name) {
			if len(p.Names) == len(args) {
				r.set("proargnames", p.Names)
			}
		}
	}
	for _, o := range r.p.o.Registry.AllFunctions() {
		volatility := "i"
		switch o.Volatility {
		case scalar.Stable:
			volatility = "s"
		case scalar.Volatile:
			volatility = "v"
		}
		put(o.OID, o.Name, "f", o.Args, o.Return, o.Variadic, o.Set != nil, !o.CalledOnNull, volatility)
	}
	for _, a := range r.p.o.Registry.AllAggregates() {
		put(a.OID, a.Name, "a", a.Args, a.Return, false, false, false, "i")
	}
	return nil
}

// functionOID is the OID of the function with a name and types of arguments; zero if there is none.
func (r *reading) functionOID(name string, args ...*types.T) uint32 {
	if r.p.o.Registry == nil {
		return 0
	}
	for _, o := range r.p.o.Registry.Functions(name) {
		if sameTypes(o.Args, args) {
			return o.OID
		}
	}
	return r.p.o.Catalog.procs[name]
}

func pgOperator(r *reading) error {
	for i := range r.p.o.Catalog.operators {
		o := &r.p.o.Catalog.operators[i]
		kind, left := "b", uint32(0)
		args := []*types.T{o.right}
		if o.left == nil {
			kind = "l"
		} else {
			left, args = o.left.OID(), []*types.T{o.left, o.right}
		}
		r.add("oid", o.oid, "oprname", o.name, "oprnamespace", catalog.PGCatalogSchemaID, "oprowner", bootstrapRole, "oprkind", kind,
			"oprcanmerge", o.merges, "oprcanhash", o.hashes, "oprleft", left, "oprright", o.right.OID(), "oprresult", o.result.OID(),
			"oprcom", o.commutator, "oprnegate", o.negator, "oprcode", types.NewReg(r.functionOID(o.code, args...), o.code))
	}
	return nil
}

func pgCast(r *reading) error {
	for _, c := range r.p.o.Catalog.casts {
		r.add("oid", c.oid, "castsource", c.source.OID(), "casttarget", c.target.OID(), "castfunc", r.functionOID(c.function, c.source),
			"castcontext", c.context, "castmethod", c.method)
	}
	return nil
}

func pgAggregate(r *reading) error {
	if r.p.o.Registry == nil {
		return nil
	}
	for _, a := range r.p.o.Registry.AllAggregates() {
		r.add("aggfnoid", types.NewReg(a.OID, a.Name), "aggkind", "n", "aggfinalmodify", "r", "aggmfinalmodify", "r")
	}
	return nil
}

func pgSettings(r *reading) error {
	if r.s == nil {
		return nil
	}
	r.s.Settings(func(x Setting) {
		values := []any{"name", x.Name, "setting", x.Setting, "category", x.Category, "short_desc", x.About, "context", x.Context, "vartype", x.Vartype,
			"source", x.Source, "boot_val", x.Boot, "reset_val", x.Reset, "pending_restart", false}
		for _, c := range []struct{ name, value string }{{"unit", x.Unit}, {"min_val", x.Min}, {"max_val", x.Max}} {
			if c.value != "" {
				values = append(values, c.name, c.value)
			}
		}
		if x.Enum != nil {
			a := &types.Array{Elem: types.Text}
			for _, v := range x.Enum {
				a.Elems = append(a.Elems, types.NewString(v))
			}
			values = append(values, "enumvals", types.NewArray(a))
		}
		r.add(values...)
	})
	slices.SortFunc(r.out, func(a, b types.Row) int { return strings.Compare(a[0].Str(), b[0].Str()) })
	return nil
}

func pgPreparedStatements(r *reading) error {
	if r.s == nil {
		return nil
	}
	for _, p := range r.s.Prepared() {
		kinds := &types.Array{Elem: types.RegType}
		for _, oid := range p.Types {
			kinds.Elems = append(kinds.Elems, types.NewReg(oid, ""))
		}
		r.add("name", p.Name, "statement", p.Text, "prepare_time", p.At, "parameter_types", types.NewArray(kinds), "from_sql", p.FromSQL,
			"generic_plans", p.Generic, "custom_plans", p.Custom)
	}
	return nil
}

func pgCursors(r *reading) error {
	if r.s == nil {
		return nil
	}
	for _, c := range r.s.Cursors() {
		r.add("name", c.Name, "statement", c.Text, "is_holdable", c.Hold, "is_binary", c.Binary, "is_scrollable", c.Scroll, "creation_time", c.At)
	}
	return nil
}

// WaitAdvisory is PostgreSQL's wait event of a session that waits for an advisory lock.
const WaitAdvisory = "advisory"

// WaitSleep is PostgreSQL's wait event of a session in pg_sleep.
const WaitSleep = "PgSleep"

func pgStatActivity(r *reading) error {
	if r.p.o.Cluster == nil {
		return nil
	}
	users, err := r.userIDs()
	if err != nil {
		return err
	}
	dbs, err := r.view.Databases(r.ctx)
	if err != nil {
		return err
	}
	dbs = catalog.WithTemplates(dbs)
	report := r.p.o.Cluster.Report(r.ctx, true)
	waits := report.waiting()
	for _, a := range report.Sessions {
		if !r.sees(a.User) {
			r.add("datid", databaseID(dbs, a.Database), "datname", a.Database, "pid", a.PID, "usesysid", ownerID(users, a.User), "usename", a.User,
				"application_name", a.Application, "query", hiddenText)
			continue
		}
		r.add("datid", databaseID(dbs, a.Database), "datname", a.Database, "pid", a.PID, "usesysid", ownerID(users, a.User), "usename", a.User, "application_name", a.Application,
			"backend_start", a.Opened, "query_start", a.QueryStart, "state_change", a.StateSince,
			"xact_start", a.TxnStart, "state", a.State, "query", a.Query, "backend_type", "client backend")
		if at, err := netip.ParseAddrPort(a.Remote); err == nil {
			if addr, err := types.ParseText(types.Inet, at.Addr().Unmap().WithZone("").String(), nil); err == nil {
				r.set("client_addr", addr, "client_port", int64(at.Port()))
			}
		}
		var event, kind any
		switch {
		case a.WaitEvent == WaitAdvisory:
			kind, event = "Lock", WaitAdvisory
		case waits[a.PID] != nil:
			kind, event = "Lock", "tuple"
		case a.WaitEvent == WaitSleep:
			kind, event = "Timeout", WaitSleep
		case a.WaitEvent != "":
			kind, event = "Extension", a.WaitEvent
		case a.State != "active":
			kind, event = "Client", "ClientRead"
		}
		r.set("wait_event_type", kind, "wait_event", event)
	}
	return r.ctx.Err()
}

// hiddenText replaces values that the reader may not see.
const hiddenText = "<insufficient privilege>"

// databaseID is a database's identity; nil if it is gone.
func databaseID(dbs []*catalog.Database, name string) any {
	for _, d := range dbs {
		if d.Name == name {
			return d.ID
		}
	}
	return nil
}

func pgStatDatabase(r *reading) error {
	list, err := r.view.Databases(r.ctx)
	sessions := map[string]int64{}
	if r.p.o.Cluster != nil {
		for _, a := range r.p.o.Cluster.Report(r.ctx, false).Sessions {
			sessions[a.Database]++
		}
	}
	for _, d := range catalog.WithTemplates(list) {
		r.add("datid", d.ID, "datname", d.Name, "numbackends", sessions[d.Name])
	}
	return err
}

func pgTimezoneNames(r *reading) error {
	for _, n := range []string{"UTC", "Etc/UTC", "GMT"} {
		r.add("name", n, "abbrev", "UTC", "utc_offset", types.NewInterval(0, 0, 0))
	}
	return nil
}

// sees reports whether the reader may see the activity of a role's sessions.
func (r *reading) sees(role string) bool {
	a, user := r.view.Access(), r.view.CurrentUser()
	return r.s == nil || a.Has(user, role, "") || a.Has(user, catalog.ReadAllStats, "")
}
