package system

import (
	"strings"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addPrivileges registers has_table_privilege and its kin, in all the forms that PostgreSQL has: with a role by name, by OID or
// none, and with the object by name or OID.
func addPrivileges(r *scalar.Registry) {
	for _, v := range []struct{ name, kind string }{
		{"has_table_privilege", "table"}, {"has_any_column_privilege", "any column"}, {"has_sequence_privilege", "sequence"},
		{"has_schema_privilege", "schema"}, {"has_database_privilege", "database"}, {"has_function_privilege", "function"},
		{"has_type_privilege", "type"}, {"has_language_privilege", "language"}, {"has_tablespace_privilege", "tablespace"},
		{"has_server_privilege", "server"}, {"has_foreign_data_wrapper_privilege", "foreign-data wrapper"}, {"pg_has_role", "role"},
	} {
		name, kind := v.name, v.kind
		object := "text"
		if kind == "role" {
			object = "name"
		}
		for _, on := range []string{object, "oid"} {
			r.Func(name+"("+on+", text) bool", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
				return session(ctx).HasPrivilege(PrivilegeQuestion{Kind: kind, Current: true, On: a[0], Privilege: a[1].Str()})
			}).Stable()
			for _, role := range []string{"name", "oid"} {
				r.Func(name+"("+role+", "+on+", text) bool", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
					return session(ctx).HasPrivilege(PrivilegeQuestion{Kind: kind, Role: a[0], On: a[1], Privilege: a[2].Str()})
				}).Stable()
			}
		}
	}
	for _, on := range []string{"text", "oid"} {
		for _, column := range []string{"text", "int2"} {
			r.Func("has_column_privilege("+on+", "+column+", text) bool", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
				return session(ctx).HasPrivilege(PrivilegeQuestion{Kind: "column", Current: true, On: a[0], Column: a[1], Privilege: a[2].Str()})
			}).Stable()
			for _, role := range []string{"name", "oid"} {
				r.Func("has_column_privilege("+role+", "+on+", "+column+", text) bool", func(ctx *scalar.Context, a []types.Datum) (types.Datum, error) {
					return session(ctx).HasPrivilege(PrivilegeQuestion{Kind: "column", Role: a[0], On: a[1], Column: a[2], Privilege: a[3].Str()})
				}).Stable()
			}
		}
	}
}

// aclRights are the names of the letters in access control lists.
var aclRights = map[byte]string{'a': "INSERT", 'r': "SELECT", 'w': "UPDATE", 'd': "DELETE", 'D': "TRUNCATE", 'x': "REFERENCES", 't': "TRIGGER",
	'X': "EXECUTE", 'U': "USAGE", 'C': "CREATE", 'T': "TEMPORARY", 'c': "CONNECT"}

// explodeACL makes rows of an access control list: "grantee=letters/grantor", each letter with a star if it may be granted.
func explodeACL(ctx *scalar.Context, a []types.Datum) ([]types.Row, error) {
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
		// Names with special characters are in quotes.
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
