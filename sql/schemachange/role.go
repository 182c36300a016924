package schemachange

import (
	"slices"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
)

func (c *change) roleExists(name string) error {
	if name == "public" {
		return nil
	}
	u, err := c.view.User(name)
	if err != nil {
		return err
	}
	if u == nil {
		return sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", name)
	}
	return nil
}

// mayManage requires CREATEROLE, and SUPERUSER to touch superusers.
func (c *change) mayManage(target *catalog.User, verb string) error {
	_, super, err := c.roles()
	if err != nil || super {
		return err
	}
	u, err := c.view.User(c.Info.User)
	if err != nil {
		return err
	}
	if target != nil && target.Superuser {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "must be superuser to %s superusers", verb)
	}
	if !u.CreateRole {
		if verb == "create" {
			return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to create role")
		}
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied")
	}
	return nil
}

// options applies role options.
func (c *change) options(u *catalog.User, o *bind.RoleOptions) error {
	set := func(to *bool, v *bool) {
		if v != nil {
			*to = *v
		}
	}
	if o.Superuser != nil && *o.Superuser {
		if _, super, err := c.roles(); err != nil {
			return err
		} else if !super {
			return sqlstate.New(sqlstate.InsufficientPrivilege, "must be superuser to create superusers")
		}
	}
	set(&u.Superuser, o.Superuser)
	set(&u.Login, o.Login)
	set(&u.CreateDB, o.CreateDB)
	set(&u.CreateRole, o.CreateRole)
	if o.HasPassword {
		v, err := c.verifier(o.Password)
		if err != nil {
			return err
		}
		u.Verifier = v
	}
	for _, r := range o.InRoles {
		if err := c.roleExists(r); err != nil {
			return err
		}
		if !slices.Contains(u.MemberOf, r) {
			u.MemberOf = append(u.MemberOf, r)
		}
	}
	return nil
}

func (c *change) verifier(password string) (string, error) {
	switch {
	case password == "":
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

func (c *change) createRole(s *bind.CreateRole) error {
	if err := c.mayManage(nil, "create"); err != nil {
		return err
	}
	switch {
	case s.Name == "public" || s.Name == "none":
		return sqlstate.New(sqlstate.ReservedName, "role name \"%s\" is reserved", s.Name)
	case strings.HasPrefix(s.Name, "pg_"):
		return sqlstate.New(sqlstate.ReservedName, "role name \"%s\" is reserved", s.Name).
			WithDetail("Role names starting with \"pg_\" are reserved.")
	}
	old, err := c.view.User(s.Name)
	if err != nil {
		return err
	}
	if old != nil {
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
	if err := c.options(u, &s.Options); err != nil {
		return err
	}
	c.hook()
	c.Catalog.New(lease.Descriptor{User: u})
	return nil
}

func (c *change) alterRole(s *bind.AlterRole) error {
	u, err := c.view.User(s.Name)
	if err != nil {
		return err
	}
	if u == nil {
		if s.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "role \"%s\" does not exist, skipping", s.Name)
			return nil
		}
		return sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", s.Name)
	}
	if s.Set != nil || s.Reset != nil {
		return sqlstate.New(sqlstate.FeatureNotSupported, "settings of roles are not supported")
	}
	// Everybody may change their own password.
	o := s.Options
	o.HasPassword, o.Password = false, ""
	own := s.Name == c.Info.User && s.Options.HasPassword && o.Superuser == nil && o.Login == nil && o.CreateDB == nil && o.CreateRole == nil && s.Rename == ""
	if !own {
		if err := c.mayManage(u, "alter"); err != nil {
			return err
		}
	}
	c.hook()
	m := c.Catalog.User(u.ID)
	if s.Rename != "" {
		if err := c.roleExists(s.Rename); err == nil {
			return sqlstate.New(sqlstate.DuplicateObject, "role \"%s\" already exists", s.Rename)
		}
		if s.Name == c.Info.User {
			return sqlstate.New(sqlstate.FeatureNotSupported, "session user cannot be renamed")
		}
		return sqlstate.New(sqlstate.FeatureNotSupported, "roles can't be renamed")
	}
	return c.options(m, &s.Options)
}

func (c *change) dropRoles(s *bind.DropRole) error {
	for _, name := range s.Names {
		u, err := c.view.User(name)
		if err != nil {
			return err
		}
		if u == nil {
			if s.IfExists {
				c.noticef(sqlstate.SuccessfulCompletion, "role \"%s\" does not exist, skipping", name)
				continue
			}
			return sqlstate.New(sqlstate.UndefinedObject, "role \"%s\" does not exist", name)
		}
		if err := c.mayManage(u, "drop"); err != nil {
			return err
		}
		if name == c.Info.User {
			return sqlstate.New(sqlstate.ObjectInUse, "current user cannot be dropped")
		}
		if name == "root" {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop role root because it is required by the database system")
		}
		if err := c.ownsNothing(name); err != nil {
			return err
		}
		c.hook()
		users, err := c.view.Users(c.ctx)
		if err != nil {
			return err
		}
		for _, o := range users {
			if slices.Contains(o.MemberOf, name) {
				m := c.Catalog.User(o.ID)
				m.MemberOf = slices.DeleteFunc(m.MemberOf, func(r string) bool { return r == name })
			}
		}
		c.Catalog.User(u.ID).Dropped = true
	}
	return nil
}

func (c *change) ownsNothing(role string) error {
	var lines []string
	mentions := func(what, owner string, grants []catalog.Grant) {
		switch {
		case owner == role:
			lines = append(lines, "owner of "+what)
		case slices.ContainsFunc(grants, func(g catalog.Grant) bool { return g.Role == role }):
			lines = append(lines, "privileges for "+what)
		}
	}
	dbs, err := c.view.Databases(c.ctx)
	if err != nil {
		return err
	}
	for _, d := range dbs {
		mentions("database "+d.Name, d.Owner, d.Grants)
		schemas, err := c.view.Schemas(c.ctx, d.Name)
		if err != nil {
			return err
		}
		for _, s := range schemas {
			mentions("schema "+s.Name, s.Owner, s.Grants)
		}
		tables, err := c.view.Tables(c.ctx, d.Name)
		if err != nil {
			return err
		}
		for _, t := range tables {
			mentions(strings.ToLower(kindTag(t.Kind))+" "+t.Name, t.Owner, t.Grants)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	e := sqlstate.New(sqlstate.DependentObjectsExist, "role \"%s\" cannot be dropped because some objects depend on it", role)
	e.Detail = strings.Join(lines[:min(len(lines), 100)], "\n")
	return e
}

var (
	tablePrivileges    = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"}
	sequencePrivileges = []string{"USAGE", "SELECT", "UPDATE"}
	databasePrivileges = []string{"CREATE", "TEMPORARY", "CONNECT"}
	schemaPrivileges   = []string{"CREATE", "USAGE"}
)

func (c *change) grant(s *bind.Grant) error {
	for _, g := range s.Grantees {
		if err := c.roleExists(g); err != nil {
			return err
		}
	}
	c.hook()
	if len(s.Roles) > 0 {
		return c.grantRoles(s)
	}
	for _, t := range s.Tables {
		if t.Kind == catalog.KindVirtual {
			return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for table %s", t.Name)
		}
		if err := c.mustOwnTable(t); err != nil {
			return err
		}
		list, kind := tablePrivileges, "relation"
		if t.Kind == catalog.KindSequence {
			list, kind = append(sequencePrivileges, "INSERT", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"), "sequence"
		}
		p, err := privileges(s.Privileges, list, kind)
		if err != nil {
			return err
		}
		m := c.Catalog.Table(t.ID)
		m.Grants = granted(m.Grants, s, p)
	}
	for _, name := range s.Databases {
		db, err := c.database(name)
		if err != nil {
			return err
		}
		p, err := privileges(s.Privileges, databasePrivileges, "database")
		if err != nil {
			return err
		}
		m := c.Catalog.Database(db.ID)
		m.Grants = granted(m.Grants, s, p)
	}
	for _, name := range s.Schemas {
		sc, err := c.schema("", name)
		if err != nil {
			return err
		}
		p, err := privileges(s.Privileges, schemaPrivileges, "schema")
		if err != nil {
			return err
		}
		m := c.Catalog.Schema(sc.ID)
		if m == nil {
			continue // of computed relations: everybody may use it
		}
		m.Grants = granted(m.Grants, s, p)
	}
	return nil
}

// privileges checks the names and spells ALL out.
func privileges(given, valid []string, kind string) ([]string, error) {
	var out []string
	for _, p := range given {
		p = strings.ToUpper(p)
		if p == "TEMP" {
			p = "TEMPORARY"
		}
		if p == "ALL" || p == "ALL PRIVILEGES" {
			return slices.Clone(valid), nil
		}
		if !slices.Contains(valid, p) {
			return nil, sqlstate.New("0LP01", "invalid privilege type %s for %s", p, kind)
		}
		out = append(out, p)
	}
	return out, nil
}

// granted applies GRANT or REVOKE to a list of grants.
func granted(list []catalog.Grant, s *bind.Grant, p []string) []catalog.Grant {
	list = slices.Clone(list)
	for _, role := range s.Grantees {
		i := slices.IndexFunc(list, func(g catalog.Grant) bool { return g.Role == role })
		switch {
		case s.Revoke && i < 0:
		case s.Revoke && s.GrantOption:
			list[i].Grantable = false
		case s.Revoke:
			list[i].Privileges = slices.DeleteFunc(slices.Clone(list[i].Privileges), func(x string) bool { return slices.Contains(p, x) })
			if len(list[i].Privileges) == 0 {
				list = slices.Delete(list, i, i+1)
			}
		case i < 0:
			list = append(list, catalog.Grant{Role: role, Privileges: slices.Clone(p), Grantable: s.GrantOption})
		default:
			g := &list[i]
			g.Privileges = slices.Clone(g.Privileges)
			for _, x := range p {
				if !slices.Contains(g.Privileges, x) {
					g.Privileges = append(g.Privileges, x)
				}
			}
			g.Grantable = g.Grantable || s.GrantOption
		}
	}
	return list
}

func (c *change) grantRoles(s *bind.Grant) error {
	for _, r := range s.Roles {
		if err := c.roleExists(r); err != nil {
			return err
		}
		target, err := c.view.User(r)
		if err != nil {
			return err
		}
		if err := c.mayManage(target, "alter"); err != nil {
			return err
		}
		for _, g := range s.Grantees {
			u, err := c.view.User(g)
			if err != nil {
				return err
			}
			if u == nil {
				continue
			}
			has := slices.Contains(u.MemberOf, r)
			if s.Revoke == !has {
				if s.Revoke {
					c.noticef(sqlstate.Warning, "role \"%s\" is not a member of role \"%s\"", g, r)
				} else {
					c.noticef(sqlstate.SuccessfulCompletion, "role \"%s\" is already a member of role \"%s\"", g, r)
				}
				continue
			}
			if !s.Revoke {
				above, _, err := lease.Roles(c.ctx, c.view, r)
				if err != nil {
					return err
				}
				if slices.Contains(above, g) {
					return sqlstate.New("0LP01", "role \"%s\" is a member of role \"%s\"", r, g)
				}
			}
			m := c.Catalog.User(u.ID)
			if s.Revoke {
				m.MemberOf = slices.DeleteFunc(m.MemberOf, func(x string) bool { return x == r })
			} else {
				m.MemberOf = append(m.MemberOf, r)
			}
		}
	}
	return nil
}
