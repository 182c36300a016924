package session

import (
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// A session has three roles, as in PostgreSQL: the login role, which never changes; the session role, which SET SESSION AUTHORIZATION
// changes; and the current role, which SET ROLE changes and whose rights count. The last two are settings, so that a rollback undoes
// their changes.

// role is the current role.
func (s *identity) role() string { return s.acting }

// sessionRole is the session role.
func (s *identity) sessionRole() string { return s.authorized }

// rolesChanged takes over the roles from the settings.
func (s *Session) rolesChanged() {
	was := s.acting
	s.authorized = s.client.User
	if v, _ := s.params.Get("session_authorization"); v != "" {
		s.authorized = v
	}
	s.acting = s.authorized
	if v, _ := s.params.Get("role"); v != "none" {
		s.acting = v
	}
	if s.acting != was {
		s.viewCache = nil
		s.inform("is_superuser")
	}
}

// access returns the privileges of all roles, as the node knows them now.
func (s *Session) access() *catalog.Access {
	if s.catalogChanged() {
		return s.view().Access()
	}
	return s.srv.Catalog.Access()
}

// setRole is SET ROLE and SET SESSION AUTHORIZATION.
func (s *Session) setRole(name, value string, local bool) error {
	if name == "role" && value == "none" {
		_, err := s.params.Set(name, value, local)
		s.settingChanged(name)
		return err
	}
	a := s.access()
	u := a.Role(value)
	if u == nil {
		return sqlstate.New(sqlstate.InvalidParameterValue, "role \"%s\" does not exist", value)
	}
	if name == "role" {
		owner := ""
		if db := s.srv.Catalog.Database(s.client.Database); db != nil {
			owner = db.Owner
		}
		if !a.Member(s.sessionRole(), value, owner) {
			return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to set role \"%s\"", value)
		}
	} else {
		if value != s.client.User && !a.Superuser(s.client.User) {
			return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to set session authorization \"%s\"", value)
		}
		// The role of SET ROLE was allowed to the former session role.
		if _, err := s.params.Set("role", "none", local); err != nil {
			return err
		}
	}
	_, err := s.params.Set(name, value, local)
	s.settingChanged(name)
	return err
}

// mayLogin refuses a role that does not exist, or may not open a session in the database.
func (s *Server) mayLogin(c *Client) error {
	a := s.Catalog.Access()
	u := a.Role(c.User)
	switch {
	case u == nil:
		return sqlstate.New(sqlstate.InvalidAuthorization, "role \"%s\" does not exist", c.User)
	case !u.Login:
		return sqlstate.New(sqlstate.InvalidAuthorization, "role \"%s\" is not permitted to log in", c.User)
	}
	db := s.Catalog.Database(c.Database)
	if db == nil {
		return sqlstate.New(sqlstate.InvalidCatalogName, "database \"%s\" does not exist", c.Database)
	}
	if !a.May(c.User, db.ID, catalog.Connect) {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for database \"%s\"", c.Database).
			WithDetail("User does not have CONNECT privilege.")
	}
	if !db.AllowsConnections() {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "database \"%s\" is not currently accepting connections", c.Database)
	}
	return nil
}

// tooMany refuses one more session of a role than its CONNECTION LIMIT allows on this node; s.mu is held.
func (s *Server) tooMany(role string) error {
	u := s.Catalog.Roles().Role(role)
	if u == nil || !u.Bounded || u.Superuser {
		return nil
	}
	n := 0
	for _, x := range s.sessions {
		if x.client.User == role {
			n++
		}
	}
	if n >= u.Connections {
		return sqlstate.New(sqlstate.TooManyConnections, "too many connections for role \"%s\"", role)
	}
	return nil
}

// endDisabled ends the sessions whose role was dropped, or may no longer log in.
func (s *Server) endDisabled() {
	g := s.Catalog.AccessGeneration()
	if s.ended.Swap(g) == g {
		return
	}
	roles := s.Catalog.Roles()
	s.mu.Lock()
	var gone []*Session
	for _, x := range s.sessions {
		if u := roles.Role(x.client.User); u == nil || u.ID != x.loginID || !u.Login {
			gone = append(gone, x)
		}
	}
	s.mu.Unlock()
	for _, x := range gone {
		x.terminate()
	}
}

// terminate ends a session: its statement is cancelled, and its connection reports the end to the client.
func (s *Session) terminate() {
	s.terminated.Store(true)
	s.cancelStatement()
	if h, ok := s.out.(interface{ HangUp() }); ok {
		h.HangUp()
	}
}
