package session

import (
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// checkAccess refuses a query whose privileges the user lacks. Superusers and owners have all.
func (s *Session) checkAccess(q *bind.Query) error {
	if s.superuser {
		return nil
	}
	for _, a := range q.Access {
		if a.Table.Owner == s.client.User || a.Table.Kind == catalog.KindVirtual || granted(a.Table.Grants, s.client.User, a.Privilege) {
			continue
		}
		kind := "table"
		switch a.Table.Kind {
		case catalog.KindView:
			kind = "view"
		case catalog.KindSequence:
			kind = "sequence"
		}
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for %s %s", kind, a.Table.Name)
	}
	return nil
}

func granted(grants []catalog.Grant, user, privilege string) bool {
	for _, g := range grants {
		if g.Role != user && g.Role != "public" {
			continue
		}
		for _, p := range g.Privileges {
			if p == privilege || p == "ALL" {
				return true
			}
		}
	}
	return false
}

// splitKey is the key at which ALTER TABLE ... SPLIT AT divides: the index's key with the given leading values.
func splitKey(t *catalog.Table, i *catalog.Index, values types.Row) ([]byte, error) {
	x, err := rowcode.NewIndex(t, i)
	if err != nil {
		return nil, err
	}
	return x.AppendPrefix(nil, values)
}
