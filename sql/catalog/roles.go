package catalog

import (
	"slices"
	"strings"
)

// Predefined roles, with PostgreSQL's meaning.
const (
	// DatabaseOwner has the owner of the database at hand as its only member.
	DatabaseOwner = "pg_database_owner"
	// ReadAllData may read every relation, and use every schema.
	ReadAllData = "pg_read_all_data"
	// WriteAllData may change every relation's rows, and use every schema.
	WriteAllData = "pg_write_all_data"
	// SignalBackend may cancel and end the sessions of roles that are not superusers.
	SignalBackend = "pg_signal_backend"
	// ReadAllStats sees what every session does.
	ReadAllStats = "pg_read_all_stats"
)

// Membership makes a role a member of another.
type Membership struct {
	Role string
	// Admin says that the member may grant and revoke the membership.
	Admin   bool `json:",omitempty"`
	Grantor string
}

// Membership finds the direct membership of the role in another; nil if there is none.
func (u *User) Membership(role string) *Membership {
	for i := range u.MemberOf {
		if u.MemberOf[i].Role == role {
			return &u.MemberOf[i]
		}
	}
	return nil
}

// Roles are the roles of a cluster, as of one moment. They never change.
type Roles struct {
	byName map[string]*User
	list   []*User
}

// NewRoles makes the roles of a list, which must not be changed.
func NewRoles(list []*User) *Roles {
	r := &Roles{byName: make(map[string]*User, len(list)), list: list}
	for _, u := range list {
		r.byName[u.Name] = u
	}
	return r
}

// Role finds a role by name; nil if there is none.
func (r *Roles) Role(name string) *User { return r.byName[name] }

// All are all roles. The list must not be changed.
func (r *Roles) All() []*User { return r.list }

// Superuser reports whether a role may do anything.
func (r *Roles) Superuser(role string) bool {
	u := r.byName[role]
	return u != nil && u.Superuser
}

// Inherited are the role itself and those whose rights it has without SET ROLE: a role with NOINHERIT does not pass on
// the rights of its memberships. databaseOwner is the one member of pg_database_owner.
func (r *Roles) Inherited(role, databaseOwner string) []string {
	return r.closure(role, databaseOwner, true)
}

// MemberOf are the role itself and those that it may become by SET ROLE.
func (r *Roles) MemberOf(role, databaseOwner string) []string {
	return r.closure(role, databaseOwner, false)
}

func (r *Roles) closure(role, databaseOwner string, inherit bool) []string {
	out := []string{role}
	for i := 0; i < len(out); i++ {
		u := r.byName[out[i]]
		if u == nil || inherit && u.NoInherit {
			continue
		}
		for _, m := range u.MemberOf {
			if !slices.Contains(out, m.Role) {
				out = append(out, m.Role)
			}
		}
		if u.Name == databaseOwner && !slices.Contains(out, DatabaseOwner) {
			out = append(out, DatabaseOwner)
		}
	}
	return out
}

// Has reports whether a role has the rights of another without SET ROLE. A superuser has all rights.
func (r *Roles) Has(role, other, databaseOwner string) bool {
	return role == other || r.Superuser(role) || slices.Contains(r.Inherited(role, databaseOwner), other)
}

// Member reports whether a role may become another. A superuser may become any.
func (r *Roles) Member(role, other, databaseOwner string) bool {
	return role == other || r.Superuser(role) || slices.Contains(r.MemberOf(role, databaseOwner), other)
}

// Admin reports whether a role may grant membership in another: it, or a role that it is a member of, has it with the
// admin option. No role has that on itself.
func (r *Roles) Admin(role, other string) bool {
	if r.Superuser(role) {
		return true
	}
	if role == other {
		return false
	}
	for _, name := range r.MemberOf(role, "") {
		if u := r.byName[name]; u != nil {
			if m := u.Membership(other); m != nil && m.Admin {
				return true
			}
		}
	}
	return false
}

// IsReservedRole reports whether a name is kept for predefined roles.
func IsReservedRole(name string) bool { return strings.HasPrefix(name, "pg_") }
