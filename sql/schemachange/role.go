package schemachange

import (
	"slices"
	"strconv"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// roleName resolves CURRENT_USER and the like.
func (c *change) roleName(name string) string {
	switch name {
	case parse.CurrentRole:
		return c.Info.User
	case parse.SessionRole:
		return c.Info.Session
	}
	return name
}

// role finds a role; it is an error if there is none.
func (c *change) role(name string) (*catalog.User, error) {
	name = c.roleName(name)
	if u := c.view.User(name); u != nil {
		return u, nil
	}
	return nil, sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", name)
}

// user is the current role.
func (c *change) user() *catalog.User {
	if u := c.view.User(c.Info.User); u != nil {
		return u
	}
	return &catalog.User{Name: c.Info.User} // dropped a moment ago: it may do nothing
}

// mayCreateRoles reports CREATEROLE, which superusers have.
func (c *change) mayCreateRoles() bool {
	u := c.user()
	return u.CreateRole || u.Superuser
}

func denied(format string, args ...any) error {
	return sqlstate.New(sqlstate.InsufficientPrivilege, format, args...)
}

// options applies role options.
func (c *change) options(u *catalog.User, o *bind.RoleOptions) error {
	set := func(to *bool, v *bool) {
		if v != nil {
			*to = *v
		}
	}
	set(&u.Superuser, o.Superuser)
	set(&u.Login, o.Login)
	set(&u.CreateDB, o.CreateDB)
	set(&u.CreateRole, o.CreateRole)
	if o.Inherit != nil {
		u.NoInherit = !*o.Inherit
	}
	if o.ConnLimit != nil {
		if *o.ConnLimit < -1 {
			return sqlstate.New(sqlstate.InvalidParameterValue, "invalid connection limit: %d", *o.ConnLimit)
		}
		u.Bounded = *o.ConnLimit >= 0
		u.Connections = max(*o.ConnLimit, 0)
	}
	if o.ValidUntil != nil {
		d, err := types.ParseText(types.TimestampTZ, *o.ValidUntil, c.Binder.Location)
		if err != nil {
			return err
		}
		u.Expires, u.ValidUntil = true, d.Int()
	}
	if o.NullPassword {
		u.Verifier = ""
	} else if o.HasPassword {
		v, err := c.verifier(o.Password)
		if err != nil {
			return err
		}
		u.Verifier = v
	}
	return nil
}

func (c *change) verifier(password string) (string, error) {
	switch {
	case password == "" || c.o.EmptyPassword != nil && c.o.EmptyPassword(password):
		c.noticef(sqlstate.SuccessfulCompletion, "empty string is not a valid password, clearing password")
		return "", nil
	case strings.HasPrefix(password, "SCRAM-SHA-256$"):
		return password, nil
	case strings.HasPrefix(password, "md5") && len(password) == 35:
		return "", sqlstate.New(sqlstate.FeatureNotSupported, "MD5 passwords are not supported").
			WithHint("Give the password itself, or a SCRAM-SHA-256 verifier.")
	case c.o.Verifier == nil:
		return "", sqlstate.New(sqlstate.FeatureNotSupported, "passwords can't be set on this node")
	}
	return c.o.Verifier(password)
}

func reserved(name, detail string) error {
	return sqlstate.New(sqlstate.ReservedName, "role name \"%s\" is reserved", name).WithDetail("%s", detail)
}

func (c *change) createRole(s *bind.CreateRole) error {
	o := &s.Options
	switch super := c.super(); {
	case o.Superuser != nil && *o.Superuser && !super:
		return denied("must be superuser to create superusers")
	case !c.mayCreateRoles():
		return denied("permission denied to create role")
	case s.Name == catalog.PublicRole || s.Name == "none":
		return sqlstate.New(sqlstate.ReservedName, "role name \"%s\" is reserved", s.Name)
	case catalog.IsReservedRole(s.Name):
		return reserved(s.Name, "Role names starting with \"pg_\" are reserved.")
	}
	if c.view.User(s.Name) != nil {
		if s.IfNotExists {
			c.noticef(sqlstate.DuplicateObject, "role \"%s\" already exists, skipping", s.Name)
			return nil
		}
		return sqlstate.New(sqlstate.DuplicateObject, "role \"%s\" already exists", s.Name)
	}
	id, err := c.Catalog.NewID(c.ctx)
	if err != nil {
		return err
	}
	u := &catalog.User{ID: id, Name: s.Name}
	if err := c.options(u, o); err != nil {
		return err
	}
	c.Catalog.New(lease.Descriptor{User: u})
	for _, r := range o.InRoles {
		if err := c.addMember(r, s.Name, c.Info.User, false); err != nil {
			return err
		}
	}
	for i, list := range [][]string{o.Members, o.Admins} {
		for _, m := range list {
			if err := c.addMember(s.Name, m, c.Info.User, i == 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// alterRoleSetting is ALTER ROLE ... SET and RESET, which a role may do for itself.
func (c *change) alterRoleSetting(s *bind.AlterRole, u *catalog.User) error {
	switch {
	case u.Superuser && !c.super():
		return denied("must be superuser to alter superusers")
	case !c.mayCreateRoles() && u.Name != c.Info.User:
		return denied("permission denied")
	}
	var database catalog.ID
	if s.Database != "" {
		db, err := c.database(s.Database)
		if err != nil {
			return err
		}
		database = db.ID
	}
	m := c.Catalog.User(u.ID)
	name, value := initialSetting(s.Set, s.Reset)
	m.Settings = catalog.WithSetting(m.Settings, database, name, value)
	return nil
}

func (c *change) alterRole(s *bind.AlterRole) error {
	name, o := c.roleName(s.Name), &s.Options
	if s.Rename != "" {
		return sqlstate.New(sqlstate.FeatureNotSupported, "roles can't be renamed").
			WithHint("Create another role, give it what this one owns with REASSIGN OWNED, and drop this one.")
	}
	if catalog.IsReservedRole(name) {
		return reserved(name, "Cannot alter reserved roles.")
	}
	u := c.view.User(name)
	if u == nil {
		if s.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "role \"%s\" does not exist, skipping", name)
			return nil
		}
		return sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", name)
	}
	if s.Set != nil || s.Reset != nil {
		return c.alterRoleSetting(s, u)
	}
	switch {
	case (u.Superuser || o.Superuser != nil) && !c.super():
		return denied("must be superuser to alter superuser roles or change superuser attribute")
	case !c.mayCreateRoles():
		// A role may change its own password, and nothing else.
		if o.Login != nil || o.CreateDB != nil || o.CreateRole != nil || o.Inherit != nil || o.ConnLimit != nil || o.ValidUntil != nil ||
			len(o.Members) > 0 || !o.HasPassword || name != c.Info.User {
			return denied("permission denied")
		}
	case name == "root" && o.Superuser != nil && !*o.Superuser:
		// Without a superuser no role could make another one. PostgreSQL 16 refuses this too; 15 has a single-user mode for
		// the case.
		return sqlstate.New(sqlstate.FeatureNotSupported, "permission denied to alter role").
			WithDetail("The bootstrap user must have the SUPERUSER attribute.")
	}
	if err := c.options(c.Catalog.User(u.ID), o); err != nil {
		return err
	}
	for _, m := range o.Members {
		var err error
		if o.DropMembers {
			err = c.removeMember(name, m, false)
		} else {
			err = c.addMember(name, m, c.Info.User, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *change) dropRoles(s *bind.DropRole) error {
	if !c.mayCreateRoles() {
		return denied("permission denied to drop role")
	}
	for _, name := range s.Names {
		if name == parse.CurrentRole || name == parse.SessionRole || name == catalog.PublicRole {
			return sqlstate.New(sqlstate.InvalidParameterValue, "cannot use special role specifier in DROP ROLE")
		}
		u := c.view.User(name)
		if u == nil {
			if s.IfExists {
				c.noticef(sqlstate.SuccessfulCompletion, "role \"%s\" does not exist, skipping", name)
				continue
			}
			return sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", name)
		}
		switch {
		case name == c.Info.User:
			return sqlstate.New(sqlstate.ObjectInUse, "current user cannot be dropped")
		case name == c.Info.Session:
			return sqlstate.New(sqlstate.ObjectInUse, "session user cannot be dropped")
		case u.Superuser && !c.super():
			return denied("must be superuser to drop superusers")
		case u.ID < catalog.FirstUserID && (name == "root" || catalog.IsReservedRole(name)):
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop role %s because it is required by the database system", name)
		}
		// Memberships of the role and in it are removed with it.
		for _, o := range c.view.Access().All() {
			if o.Membership(name) != nil {
				m := c.Catalog.User(o.ID)
				m.MemberOf = slices.DeleteFunc(m.MemberOf, func(x catalog.Membership) bool { return x.Role == name })
			}
		}
		if err := c.mentionsNone(name); err != nil {
			return err
		}
		c.Catalog.User(u.ID).Dropped = true
	}
	return nil
}

// belonging is an object that a role owns, or on which it has or gave rights.
type belonging struct {
	object catalog.Object
	// database that the object is in, if it is not the object itself.
	database string
	table    *catalog.Table
	schema   *catalog.Schema
	enum     *catalog.Type
	owned    bool
}

// describe names the object as PostgreSQL does in details.
func (c *change) describe(b *belonging) string {
	name := b.object.Name
	if t := b.table; t != nil {
		// A relation that the search path does not find is named with its schema.
		if found, err := c.view.Table(c.ctx, "", "", t.Name); err == nil && (found == nil || found.ID != t.ID) {
			if s := c.Catalog.Descriptor(t.Schema); s != nil && s.Schema != nil {
				name = s.Schema.Name + "." + name
			}
		}
	}
	if b.enum != nil {
		name = c.typeName(b.enum)
	}
	return b.object.Kind + " " + name
}

// belongings lists the objects that a role owns, or on which it has or gave rights, in all databases.
func (c *change) belongings(role string) ([]belonging, error) {
	var out []belonging
	a := c.view.Access()
	add := func(id catalog.ID, b belonging) {
		o, ok := a.Object(id)
		if !ok {
			return
		}
		b.object, b.owned = o, o.Owner == role
		if b.owned || slices.ContainsFunc(o.Grants, func(g catalog.Grant) bool { return g.Role == role || g.Grantor == role }) {
			out = append(out, b)
		}
	}
	dbs, err := c.view.Databases(c.ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range dbs {
		add(d.ID, belonging{})
		schemas, err := c.view.Schemas(c.ctx, d.Name)
		if err != nil {
			return nil, err
		}
		for _, s := range schemas {
			if c.Catalog.Descriptor(s.ID) != nil { // else it is a schema of computed relations, which every database has
				add(s.ID, belonging{database: d.Name, schema: s})
			}
		}
		tables, err := c.view.Tables(c.ctx, d.Name)
		if err != nil {
			return nil, err
		}
		for _, t := range tables {
			add(t.ID, belonging{database: d.Name, table: t})
		}
		if err := c.Catalog.EachTypeOf(d.ID, func(t *catalog.Type) { add(t.ID, belonging{database: d.Name, enum: t}) }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b belonging) int { return int(a.object.ID) - int(b.object.ID) })
	return out, nil
}

// mentionsNone refuses to drop a role that objects depend on.
func (c *change) mentionsNone(role string) error {
	all, err := c.belongings(role)
	if err != nil || len(all) == 0 {
		return err
	}
	var lines []string
	elsewhere, names := map[string]int{}, []string{}
	for i := range all {
		b := &all[i]
		switch {
		case b.database != "" && b.database != c.Info.Database:
			if elsewhere[b.database]++; elsewhere[b.database] == 1 {
				names = append(names, b.database)
			}
		case b.owned:
			lines = append(lines, "owner of "+c.describe(b))
		default:
			lines = append(lines, "privileges for "+c.describe(b))
		}
	}
	for _, d := range names {
		noun := "objects"
		if elsewhere[d] == 1 {
			noun = "object"
		}
		lines = append(lines, strconv.Itoa(elsewhere[d])+" "+noun+" in database "+d)
	}
	e := sqlstate.New(sqlstate.DependentObjectsExist, "role \"%s\" cannot be dropped because some objects depend on it", role)
	e.Detail = strings.Join(lines[:min(len(lines), 100)], "\n")
	return e
}
