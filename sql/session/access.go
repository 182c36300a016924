package session

import (
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/types"
)

// checkAccess refuses a query whose privileges the current role lacks.
func (s *Session) checkAccess(q *bind.Query) error {
	if len(q.Access) == 0 {
		return nil
	}
	a, role := s.view().Access(), s.role()
	for i := range q.Access {
		if err := a.Check(role, q.Access[i].Table.ID, q.Access[i].Privileges); err != nil {
			return err
		}
	}
	return nil
}

// splitKey is the key at which ALTER TABLE ... SPLIT AT divides: the index's key with the given leading values.
func splitKey(t *catalog.Table, i *catalog.Index, values types.Row) ([]byte, error) {
	x, err := rowcode.NewIndex(t, i)
	if err != nil {
		return nil, err
	}
	return x.AppendPrefix(nil, values)
}
