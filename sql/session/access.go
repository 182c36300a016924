package session

import (
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// rights are the rights of a role: which queries and commands it may run.
type rights struct {
	access *catalog.Access
	role   string
}

// rights returns the rights of the current role, as the running statement sees them.
func (s *Session) rights() rights { return rights{s.view().Access(), s.role()} }

// query refuses a query if the role lacks a privilege that it needs, or if the owner of a view does, with whose rights the view reads its tables.
func (r rights) query(q *bind.Query) error {
	for i := range q.Access {
		as := r.role
		if q.Access[i].As != "" {
			as = q.Access[i].As
		}
		if err := r.access.Check(as, q.Access[i].Table.ID, q.Access[i].Privileges); err != nil {
			return err
		}
	}
	return nil
}

// oneOf refuses the role if it has none of some rights on an object.
func (r rights) oneOf(id catalog.ID, any ...catalog.Privileges) error {
	o, ok := r.access.Object(id)
	if !ok {
		return nil
	}
	has, _ := r.access.Rights(r.role, &o)
	for _, p := range any {
		if has&p == p {
			return nil
		}
	}
	return o.Denied()
}

// command refuses a command that touches relations and is not a query if the role may not run it. Data definition is
// checked where it is carried out (sql/schemachange), COPY by its queries.
func (r rights) command(stmt bind.Statement) error {
	switch c := stmt.(type) {
	case *bind.LockTable:
		for _, t := range c.Tables {
			if err := r.oneOf(t.ID, lockPrivileges(c.Mode)...); err != nil {
				return err
			}
		}
	case *bind.SplitAt:
		return r.access.CheckOwner(r.role, c.Table.ID)
	case *bind.Show:
		if c.What != "RANGES" {
			return nil // definitions, which every role may see in pg_catalog
		}
		if c.Table == nil {
			if !r.access.Superuser(r.role) {
				return sqlstate.New(sqlstate.InsufficientPrivilege, "must be superuser to show the ranges of all tables").
					WithHint("Ranges begin at keys of rows. SHOW RANGES FROM TABLE shows those of a table that you may read.")
			}
			return nil
		}
		if o, ok := r.access.Object(c.Table.ID); ok && !r.access.Owns(r.role, &o) && !r.access.May(r.role, c.Table.ID, catalog.Select) {
			return o.Denied()
		}
	}
	return nil
}

// maintains reports whether the role may collect a table's statistics: it owns the table, or the database.
func (r rights) maintains(t *catalog.Table) bool {
	o, ok := r.access.Object(t.ID)
	return !ok || r.access.Owns(r.role, &o) || r.access.Has(r.role, o.DatabaseOwner, o.DatabaseOwner)
}

// reads reports whether the role may see a table's rows, for errors that show some.
func (r rights) reads(id catalog.ID) bool { return r.access.May(r.role, id, catalog.Select) }

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

// mayMaintain returns the tables whose statistics the current role may collect. If the statement names the tables, a warning names each one that
// is skipped.
func (s *Session) mayMaintain(tables []*catalog.Table, named bool, verb string) (out []*catalog.Table) {
	r := s.rights()
	for _, t := range tables {
		if r.maintains(t) {
			out = append(out, t)
		} else if named {
			s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning,
				Message: "skipping \"" + t.Name + "\" --- only table or database owner can " + verb + " it"})
		}
	}
	return out
}

// splitKey is the key at which ALTER TABLE ... SPLIT AT divides a range: the index's key with the given leading values.
func splitKey(t *catalog.Table, i *catalog.Index, values types.Row) ([]byte, error) {
	x, err := rowcode.NewIndex(t, i)
	if err != nil {
		return nil, err
	}
	return x.AppendPrefix(nil, values)
}
