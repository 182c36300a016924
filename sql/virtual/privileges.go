package virtual

import (
	"slices"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// asked are the rights that a function knows, by the kind of object.
var asked = map[string]catalog.Privileges{
	"table":      catalog.ClassTable.All(),
	"column":     catalog.Select | catalog.Insert | catalog.Update | catalog.References,
	"any column": catalog.Select | catalog.Insert | catalog.Update | catalog.References,
	"sequence":   catalog.ClassSequence.All(),
	"schema":     catalog.ClassSchema.All(),
	"database":   catalog.ClassDatabase.All(),
	"function":   catalog.Execute, "type": catalog.Usage, "language": catalog.Usage, "tablespace": catalog.Create,
	"server": catalog.Usage, "foreign-data wrapper": catalog.Usage,
}

// HasPrivilege implements system.Environment.
func (f *Functions) HasPrivilege(q system.PrivilegeQuestion) (types.Datum, error) {
	a := f.view.Access()
	role, err := f.asker(a, &q)
	if err != nil {
		return types.Null, err
	}
	if q.Kind == "role" {
		return f.hasRole(a, role, &q)
	}
	o, found, err := f.askedObject(a, &q)
	if err != nil {
		return types.Null, err
	}
	var has, options catalog.Privileges
	if found {
		has, options = a.Rights(role, &o)
	}
	answer := false
	err = eachAsked(q.Privilege, func(name string) bool {
		name, grantable := strings.CutSuffix(name, " WITH GRANT OPTION")
		p := catalog.PrivilegeNamed(name) & asked[q.Kind]
		if grantable {
			answer = answer || options&p != 0
		} else {
			answer = answer || has&p != 0
		}
		return p != 0
	})
	if err != nil || !found {
		return types.Null, err
	}
	return types.NewBool(answer), nil
}

// eachAsked calls ok for each of a list of rights, in upper case; a right that ok does not know is an error.
func eachAsked(list string, ok func(string) bool) error {
	for _, p := range strings.Split(list, ",") {
		if p = strings.TrimSpace(p); !ok(strings.ToUpper(p)) {
			return sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized privilege type: \"%s\"", p)
		}
	}
	return nil
}

// asker is the role that is asked about.
func (f *Functions) asker(a *catalog.Access, q *system.PrivilegeQuestion) (string, error) {
	switch {
	case q.Current:
		return f.view.CurrentUser(), nil
	case q.Role.Phys() == types.PhysInt:
		return f.roleName(a, q.Role), nil
	case q.Role.Str() == catalog.PublicRole && q.Kind != "role":
		return catalog.PublicRole, nil
	}
	return q.Role.Str(), mustExist(a, q.Role.Str())
}

// roleName is a role's name by its OID. A role that does not exist has the rights of PUBLIC.
func (f *Functions) roleName(a *catalog.Access, oid types.Datum) string {
	for _, u := range a.All() {
		if int64(u.ID) == oid.Int() {
			return u.Name
		}
	}
	return catalog.PublicRole
}

func mustExist(a *catalog.Access, role string) error {
	if a.Role(role) == nil {
		return sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", role)
	}
	return nil
}

// hasRole is pg_has_role.
func (f *Functions) hasRole(a *catalog.Access, role string, q *system.PrivilegeQuestion) (types.Datum, error) {
	var other string
	if q.On.Phys() == types.PhysInt {
		other = f.roleName(a, q.On)
	} else if other = q.On.Str(); mustExist(a, other) != nil {
		return types.Null, mustExist(a, other)
	}
	owner := ""
	if db, err := f.view.Database(f.ctx, f.view.CurrentDatabase()); err != nil {
		return types.Null, err
	} else if db != nil {
		owner = db.Owner
	}
	answer := false
	err := eachAsked(q.Privilege, func(p string) bool {
		switch p {
		case "USAGE":
			answer = answer || a.Has(role, other, owner)
		case "MEMBER":
			answer = answer || a.Member(role, other, owner)
		case "USAGE WITH GRANT OPTION", "USAGE WITH ADMIN OPTION", "MEMBER WITH GRANT OPTION", "MEMBER WITH ADMIN OPTION":
			answer = answer || a.Admin(role, other)
		default:
			return false
		}
		return true
	})
	return types.NewBool(answer), err
}

// askedObject finds the object of a question. An OID that no object has is not an error: found is false.
func (f *Functions) askedObject(a *catalog.Access, q *system.PrivilegeQuestion) (o catalog.Object, found bool, err error) {
	byName := q.On.Phys() != types.PhysInt
	name := ""
	if byName {
		name = q.On.Str()
	}
	var id uint32
	if !byName {
		id = uint32(q.On.Int())
	}
	switch q.Kind {
	case "table", "column", "any column", "sequence":
		if byName {
			if id, err = f.ResolveReg(types.KindRegClass, name); err != nil {
				return o, false, err
			}
		}
		t := f.table(id)
		if t == nil {
			return o, false, nil
		}
		if q.Kind == "sequence" && t.Kind != catalog.KindSequence {
			return o, false, sqlstate.New(sqlstate.WrongObjectType, "\"%s\" is not a sequence", t.Name)
		}
		if q.Kind == "column" {
			if q.Column.Phys() == types.PhysInt {
				if c := t.Column(catalog.ColumnID(q.Column.Int())); c == nil || c.State != catalog.Public {
					return o, false, nil
				}
			} else if t.ColumnByName(q.Column.Str()) == nil {
				return o, false, sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" of relation \"%s\" does not exist", q.Column.Str(), t.Name)
			}
		}
	case "schema":
		if byName {
			if id, err = f.ResolveReg(types.KindRegNamespace, Quote(name)); err != nil {
				return o, false, err
			}
		}
	case "database":
		if byName {
			db, err := f.view.Database(f.ctx, name)
			if err != nil {
				return o, false, err
			}
			if db == nil {
				return o, false, sqlstate.New(sqlstate.InvalidCatalogName, "database \"%s\" does not exist", name)
			}
			id = uint32(db.ID)
		}
	case "function", "type":
		kind := types.KindRegProcedure
		if q.Kind == "type" {
			kind = types.KindRegType
		}
		if byName {
			if id, err = f.ResolveReg(kind, name); err != nil {
				return o, false, err
			}
		}
		if t := f.enum(id); t != nil && q.Kind == "type" {
			if t.Kind == types.KindArray {
				t = t.Elem
			}
			o, found = a.Object(catalog.ID(t.OID()))
			return o, found, nil
		}
		if !byName && f.RegName(kind, id) == "" {
			return o, false, nil
		}
		// Everybody may use those that are built in; there are no others.
		class := catalog.ClassFunction
		if q.Kind == "type" {
			class = catalog.ClassType
		}
		return catalog.Object{Owner: "root", Class: class,
			Grants: []catalog.Grant{{Role: catalog.PublicRole, Grantor: "root", Privileges: catalog.Execute | catalog.Usage}}}, true, nil
	case "language":
		languages := []string{"internal", "c", "sql"}
		if byName && !slices.Contains(languages, name) {
			return o, false, sqlstate.New(sqlstate.UndefinedObject, "language \"%s\" does not exist", name)
		}
		if !byName && (id < internalLanguage || id >= internalLanguage+uint32(len(languages))) {
			return o, false, nil
		}
		return catalog.Object{Owner: "root", Class: catalog.ClassType,
			Grants: []catalog.Grant{{Role: catalog.PublicRole, Grantor: "root", Privileges: catalog.Usage}}}, true, nil
	case "tablespace":
		if byName && name != "pg_default" && name != "pg_global" {
			return o, false, sqlstate.New(sqlstate.UndefinedObject, "tablespace \"%s\" does not exist", name)
		}
		if !byName && id != defaultSpace && id != globalSpace {
			return o, false, nil
		}
		return catalog.Object{Owner: "root", Class: catalog.ClassSchema}, true, nil // superusers only
	default: // of the other kinds there are none
		if byName {
			err = sqlstate.New(sqlstate.UndefinedObject, "%s \"%s\" does not exist", q.Kind, name)
		}
		return o, false, err
	}
	o, found = a.Object(catalog.ID(id))
	return o, found, nil
}
