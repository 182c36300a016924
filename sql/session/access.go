package session

import (
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// checkAccess refuses a query whose privileges the current role lacks.
func (s *Session) checkAccess(q *bind.Query) error {
	if len(q.Access) == 0 {
		return nil
	}
	a, role := s.view().Access(), s.role()
	for i := range q.Access {
		as := role
		if q.Access[i].As != "" {
			as = q.Access[i].As
		}
		if err := a.Check(as, q.Access[i].Table.ID, q.Access[i].Privileges); err != nil {
			return err
		}
	}
	return nil
}

// mustHaveAny refuses the current role if it has none of some rights on an object.
func (s *Session) mustHaveAny(id catalog.ID, any ...catalog.Privileges) error {
	a, role := s.view().Access(), s.role()
	o, ok := a.Object(id)
	if !ok {
		return nil
	}
	has, _ := a.Rights(role, &o)
	for _, p := range any {
		if has&p == p {
			return nil
		}
	}
	return o.Denied()
}

// checkCommand refuses a command that touches relations and is not a query if the current role may not. Data definition is
// checked where it is carried out (sql/schemachange), COPY by its queries.
func (s *Session) checkCommand(stmt bind.Statement) error {
	var tables []*catalog.Table
	switch c := stmt.(type) {
	case *bind.LockTable:
		for _, t := range c.Tables {
			if err := s.mustHaveAny(t.ID, lockPrivileges(c.Mode)...); err != nil {
				return err
			}
		}
	case *bind.SplitAt:
		tables = []*catalog.Table{c.Table}
	case *bind.Show:
		if c.What != "RANGES" {
			return nil // definitions, which everybody may see in pg_catalog
		}
		a, role := s.view().Access(), s.role()
		if c.Table == nil {
			if !a.Superuser(role) {
				return sqlstate.New(sqlstate.InsufficientPrivilege, "must be superuser to show the ranges of all tables").
					WithHint("Ranges begin at keys of rows. SHOW RANGES FROM TABLE shows those of a table that you may read.")
			}
			return nil
		}
		if o, ok := a.Object(c.Table.ID); ok && !a.Owns(role, &o) && !a.May(role, c.Table.ID, catalog.Select) {
			return o.Denied()
		}
	}
	a, role := s.view().Access(), s.role()
	for _, t := range tables {
		if err := a.CheckOwner(role, t.ID); err != nil {
			return err
		}
	}
	return nil
}

// lockPrivileges are the rights of which LOCK TABLE needs one.
func lockPrivileges(mode string) []catalog.Privileges {
	switch strings.ToUpper(mode) {
	case "ACCESS SHARE":
		return []catalog.Privileges{catalog.Select}
	case "ROW EXCLUSIVE":
		return []catalog.Privileges{catalog.Insert, catalog.Update, catalog.Delete, catalog.Truncate}
	}
	return []catalog.Privileges{catalog.Update, catalog.Delete, catalog.Truncate}
}

// mayMaintain are the tables whose statistics the current role may collect: its own, and those of databases that it owns. Of
// others it is told that they are passed over, if it named them.
func (s *Session) mayMaintain(tables []*catalog.Table, named bool, verb string) (out []*catalog.Table) {
	a, role := s.view().Access(), s.role()
	for _, t := range tables {
		o, ok := a.Object(t.ID)
		if !ok || a.Owns(role, &o) || a.Has(role, o.DatabaseOwner, o.DatabaseOwner) {
			out = append(out, t)
			continue
		}
		if named {
			s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning,
				Message: "skipping \"" + t.Name + "\" --- only table or database owner can " + verb + " it"})
		}
	}
	return out
}

// mayRead reports whether the current role may see a table's rows, for errors that show some.
func (s *Session) mayRead(id uint32) bool {
	return s.view().Access().May(s.role(), catalog.ID(id), catalog.Select)
}

// splitKey is the key at which ALTER TABLE ... SPLIT AT divides: the index's key with the given leading values.
func splitKey(t *catalog.Table, i *catalog.Index, values types.Row) ([]byte, error) {
	x, err := rowcode.NewIndex(t, i)
	if err != nil {
		return nil, err
	}
	return x.AppendPrefix(nil, values)
}
