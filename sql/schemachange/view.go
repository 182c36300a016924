package schemachange

import (
	"slices"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
)

func (c *change) createView(s *bind.CreateView) error {
	c.notices(s.Notices)
	db, sc, err := c.placeNew(s.Name, s.Temporary)
	if err != nil {
		return err
	}
	c.hook()
	old, err := c.view.NameTaken(db.ID, sc.ID, s.Name.Name)
	if err != nil {
		return err
	}
	if old != nil {
		switch {
		case s.IfNotExists:
			c.noticef(sqlstate.DuplicateTable, "relation \"%s\" already exists, skipping", s.Name.Name)
			return nil
		case !s.Replace:
			return sqlstate.New(sqlstate.DuplicateTable, "relation \"%s\" already exists", s.Name.Name)
		case old.Kind != catalog.KindView:
			return sqlstate.New(sqlstate.WrongObjectType, "\"%s\" is not a view", s.Name.Name)
		}
		return c.replaceView(old, s)
	}
	if err := c.noSuchType(sc.Name, s.Name.Name); err != nil {
		return err
	}
	id, err := c.newID(s.Temporary)
	if err != nil {
		return err
	}
	v := s.Descriptor(id, db.ID, sc.ID, c.Info.User)
	if err := c.mayUseColumns(v); err != nil {
		return err
	}
	c.Catalog.New(lease.Descriptor{Table: v})
	c.uses(v)
	return nil
}

// uses records in relations that a view reads them.
func (c *change) uses(v *catalog.Table) {
	for _, d := range v.DependsOn {
		if v.Temporary() && !catalog.IsLocal(d) {
			continue // other sessions must not know of the view
		}
		if t := c.Catalog.Table(d); t != nil && !slices.Contains(t.UsedBy, v.ID) {
			t.UsedBy = append(t.UsedBy, v.ID)
		}
	}
}

func (c *change) replaceView(old *catalog.Table, s *bind.CreateView) error {
	if err := c.mustOwn(old.ID); err != nil {
		return err
	}
	n := s.Descriptor(old.ID, old.Database, old.Schema, old.Owner)
	if len(n.Columns) < len(old.Columns) {
		return sqlstate.New(sqlstate.InvalidTableDefinition, "cannot drop columns from view")
	}
	for i := range old.Columns {
		o, w := &old.Columns[i], &n.Columns[i]
		if o.Name != w.Name {
			return sqlstate.New(sqlstate.InvalidTableDefinition, "cannot change name of view column \"%s\" to \"%s\"", o.Name, w.Name).
				WithHint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.")
		}
		if !o.Type.Equal(w.Type) {
			return sqlstate.New(sqlstate.InvalidTableDefinition, "cannot change data type of view column \"%s\" from %s to %s", o.Name, o.Type, w.Type)
		}
	}
	if slices.Contains(n.DependsOn, old.ID) {
		return sqlstate.New(sqlstate.InvalidObjectDefinition, "infinite recursion detected in rules for relation \"%s\"", old.Name)
	}
	m := c.Catalog.Table(old.ID)
	for _, d := range m.DependsOn {
		if m.Temporary() && !catalog.IsLocal(d) {
			continue
		}
		if t := c.Catalog.Table(d); t != nil {
			t.UsedBy = slices.DeleteFunc(t.UsedBy, func(id catalog.ID) bool { return id == old.ID })
		}
	}
	m.View, m.DependsOn, m.Keyed, m.Columns, m.NextColumn, m.Options = n.View, n.DependsOn, n.Keyed, n.Columns, n.NextColumn, n.Options
	c.uses(m)
	return nil
}
