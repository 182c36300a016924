package lease

import (
	"context"
	"slices"

	"meridian/sql/catalog"
)

// Roles are a user's own role and all that it is a member of, directly or not, and "public". superuser says that the
// user may do anything.
func Roles(ctx context.Context, v catalog.View, user string) (roles []string, superuser bool, err error) {
	all, err := v.Users(ctx)
	if err != nil {
		return nil, false, err
	}
	byName := make(map[string]*catalog.User, len(all))
	for _, u := range all {
		byName[u.Name] = u
	}
	roles = []string{user}
	for i := 0; i < len(roles); i++ {
		u := byName[roles[i]]
		if u == nil {
			continue
		}
		if u.Superuser && i == 0 {
			superuser = true
		}
		for _, m := range u.MemberOf {
			if !slices.Contains(roles, m) {
				roles = append(roles, m)
			}
		}
	}
	return append(roles, "public"), superuser, nil
}

// Allows reports whether an object's owner or its grants give one of the roles a privilege.
func Allows(owner string, grants []catalog.Grant, roles []string, privilege string) bool {
	if slices.Contains(roles, owner) {
		return true
	}
	for _, g := range grants {
		if slices.Contains(roles, g.Role) && (slices.Contains(g.Privileges, privilege) || slices.Contains(g.Privileges, "ALL")) {
			return true
		}
	}
	return false
}
