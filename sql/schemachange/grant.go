package schemachange

import (
	"slices"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// grant is GRANT and REVOKE.
func (c *change) grant(s *bind.Grant) error {
	if len(s.Roles) > 0 {
		return c.grantRoles(s)
	}
	if s.Grantor != "" && c.roleName(s.Grantor) != c.Info.User {
		if _, err := c.role(s.Grantor); err != nil {
			return err
		}
		return sqlstate.New(sqlstate.FeatureNotSupported, "grantor must be current user")
	}
	var to []string
	for _, g := range s.Grantees {
		if g == catalog.PublicRole {
			if s.GrantOption && !s.Revoke {
				return sqlstate.New(sqlstate.InvalidGrantOperation, "grant options can only be granted to roles")
			}
			to = append(to, g)
			continue
		}
		u, err := c.role(g)
		if err != nil {
			return err
		}
		to = append(to, u.Name)
	}
	var want catalog.Privileges
	var valid catalog.Privileges
	class := s.Class
	switch class {
	case catalog.ClassTable:
		valid = class.All() | catalog.ClassSequence.All()
	default:
		valid = class.All()
	}
	for _, name := range s.Privileges {
		if name == "ALL" {
			want = 0
			break
		}
		p := catalog.PrivilegeNamed(name)
		if p&valid == 0 {
			return sqlstate.New(sqlstate.InvalidGrantOperation, "invalid privilege type %s for %s", p.Name(), class)
		}
		want |= p
	}
	seen := map[catalog.ID]bool{}
	for _, id := range s.Objects {
		if seen[id] {
			continue
		}
		seen[id] = true
		o, ok := c.view.Access().Object(id)
		if !ok {
			continue
		}
		if err := c.grantOn(s, &o, want, to); err != nil {
			return err
		}
	}
	return nil
}

// grantOn grants or revokes on one object; no privileges stand for all.
func (c *change) grantOn(s *bind.Grant, o *catalog.Object, want catalog.Privileges, to []string) error {
	all := want == 0
	switch {
	case all:
		want = o.Class.All()
	case o.Class == catalog.ClassSequence && s.Class == catalog.ClassTable && want&^o.Class.All() != 0:
		c.noticef(sqlstate.InvalidGrantOperation, "sequence \"%s\" only supports USAGE, SELECT, and UPDATE privileges", o.Name)
		if want &= o.Class.All(); want == 0 {
			return nil
		}
	case want&^o.Class.All() != 0:
		return sqlstate.New(sqlstate.InvalidGrantOperation, "invalid privilege type %s for %s", (want &^ o.Class.All()).Name(), o.Kind)
	}
	a := c.view.Access()
	grantor, options := a.Grantor(c.Info.User, o, want)
	if options == 0 {
		// A role with any right on the object is warned, others are refused.
		if has, may := a.Rights(grantor, o); has|may == 0 {
			return o.Denied()
		}
	}
	these := want & options
	if s.Revoke {
		c.partly(these, want, all, sqlstate.PrivilegeNotRevoked, "no privileges could be revoked for \"%s\"", "not all privileges could be revoked for \"%s\"", o.Name)
	} else {
		c.partly(these, want, all, sqlstate.PrivilegeNotGranted, "no privileges were granted for \"%s\"", "not all privileges were granted for \"%s\"", o.Name)
	}
	for _, role := range to {
		g := catalog.Grant{Role: role, Grantor: grantor, Privileges: these}
		var err error
		switch {
		case !s.Revoke:
			if s.GrantOption {
				g.Options = these
			}
			err = a.Grant(o, g)
		case s.GrantOption:
			err = a.Revoke(o, catalog.Grant{Role: role, Grantor: grantor, Options: these}, s.Cascade)
		default:
			err = a.Revoke(o, g, s.Cascade)
		}
		if err != nil {
			return err
		}
	}
	if c.Catalog.Descriptor(o.ID) == nil {
		return sqlstate.New(sqlstate.FeatureNotSupported, "privileges on %s %s cannot be changed", o.Kind, o.Name).
			WithHint("Its contents are computed, and each role sees what it may see.")
	}
	c.Catalog.SetGrants(o)
	return nil
}

// partly warns of the rights that the grantor could not grant or revoke.
func (c *change) partly(these, want catalog.Privileges, all bool, code sqlstate.Code, none, some, name string) {
	switch {
	case these == 0:
		c.noticef(code, none, name)
	case !all && these != want:
		c.noticef(code, some, name)
	}
}

// grantRoles is GRANT and REVOKE of memberships.
func (c *change) grantRoles(s *bind.Grant) error {
	by := c.Info.User
	if s.Grantor != "" {
		u, err := c.role(s.Grantor)
		if err != nil {
			return err
		}
		if u.Name != c.Info.User && !c.super() {
			return denied("must be superuser to set grantor")
		}
		by = u.Name
	}
	var members []string
	for _, g := range s.Grantees {
		u, err := c.role(g)
		if err != nil {
			return err
		}
		members = append(members, u.Name)
	}
	for _, r := range s.Roles {
		target, err := c.role(r)
		if err != nil {
			return err
		}
		for _, m := range members {
			if s.Revoke {
				err = c.removeMember(target.Name, m, s.GrantOption)
			} else {
				err = c.addMember(target.Name, m, by, s.GrantOption)
			}
			if err != nil {
				return err
			}
		}
		if len(members) == 0 {
			if err := c.mayAdmin(target); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayAdmin refuses a user who may not change the members of a role.
func (c *change) mayAdmin(target *catalog.User) error {
	switch {
	case target.Superuser:
		if !c.super() {
			return denied("must be superuser to alter superusers")
		}
	case !c.mayCreateRoles() && !c.view.Access().Admin(c.Info.User, target.Name):
		return denied("must have admin option on role \"%s\"", target.Name)
	}
	return nil
}

// addMember makes a role a member of another, in the name of a third.
func (c *change) addMember(role, member, by string, admin bool) error {
	target, err := c.role(role)
	if err != nil {
		return err
	}
	u, err := c.role(member)
	if err != nil {
		return err
	}
	if err := c.mayAdmin(target); err != nil {
		return err
	}
	switch {
	case target.Name == catalog.DatabaseOwner:
		return sqlstate.New(sqlstate.InvalidGrantOperation, "role \"%s\" cannot have explicit members", target.Name)
	case u.Name == catalog.DatabaseOwner:
		return sqlstate.New(sqlstate.InvalidGrantOperation, "role \"%s\" cannot be a member of any role", u.Name)
	case slices.Contains(c.view.Access().MemberOf(target.Name, ""), u.Name):
		return sqlstate.New(sqlstate.InvalidGrantOperation, "role \"%s\" is a member of role \"%s\"", target.Name, u.Name)
	}
	if m := u.Membership(target.Name); m != nil && (!admin || m.Admin) {
		c.noticef(sqlstate.SuccessfulCompletion, "role \"%s\" is already a member of role \"%s\"", u.Name, target.Name)
		return nil
	}
	x := c.Catalog.User(u.ID)
	if m := x.Membership(target.Name); m != nil {
		m.Admin, m.Grantor = true, by
	} else {
		x.MemberOf = append(x.MemberOf, catalog.Membership{Role: target.Name, Admin: admin, Grantor: by})
	}
	return nil
}

// removeMember ends a membership, or its admin option only.
func (c *change) removeMember(role, member string, adminOnly bool) error {
	target, err := c.role(role)
	if err != nil {
		return err
	}
	u, err := c.role(member)
	if err != nil {
		return err
	}
	if err := c.mayAdmin(target); err != nil {
		return err
	}
	if u.Membership(target.Name) == nil {
		c.noticef(sqlstate.Warning, "role \"%s\" is not a member of role \"%s\"", u.Name, target.Name)
		return nil
	}
	x := c.Catalog.User(u.ID)
	if adminOnly {
		x.Membership(target.Name).Admin = false
	} else {
		x.MemberOf = slices.DeleteFunc(x.MemberOf, func(m catalog.Membership) bool { return m.Role == target.Name })
	}
	return nil
}
