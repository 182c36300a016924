package schemachange

import (
	"slices"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

func (c *change) comment(s *bind.Comment) error {
	if s.Table == nil {
		return c.commentElsewhere(s)
	}
	if err := c.mustOwn(s.Table.ID); err != nil {
		switch {
		case s.Column != "" || s.Constraint != "":
			return denied("must be owner of relation %s", s.Table.Name)
		case s.Index != nil:
			return denied("must be owner of index %s", s.Index.Name)
		}
		return err
	}
	c.hook()
	t := c.Catalog.Table(s.Table.ID)
	switch {
	case t == nil:
		return sqlstate.New(sqlstate.FeatureNotSupported, "comments on system catalog \"%s\" are not supported", s.Table.Name)
	case s.Column != "":
		col := t.ColumnByName(s.Column)
		if col == nil {
			return sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" of relation \"%s\" does not exist", s.Column, t.Name)
		}
		col.Comment = s.Text
	case s.Constraint != "":
		return commentOnConstraint(t, s)
	case s.Index != nil:
		i := slices.IndexFunc(t.Indexes, func(x catalog.Index) bool { return x.ID == s.Index.ID })
		if i < 0 {
			return sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", s.Name.Name)
		}
		t.Indexes[i].Comment = s.Text
	default:
		t.Comment = s.Text
	}
	return nil
}

// commentOnConstraint finds the constraint among those of its table.
func commentOnConstraint(t *catalog.Table, s *bind.Comment) error {
	for i := range t.Checks {
		if c := &t.Checks[i]; c.Name == s.Constraint {
			c.Comment = s.Text
			return nil
		}
	}
	for i := range t.Foreign {
		if k := &t.Foreign[i]; k.Name == s.Constraint {
			k.Comment = s.Text
			return nil
		}
	}
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.Name == s.Constraint && (x.Primary && !t.ImplicitPrimary || x.Constraint) {
			x.ConstraintComment = s.Text
			return nil
		}
	}
	return sqlstate.New(sqlstate.UndefinedObject, "constraint \"%s\" for table \"%s\" does not exist", s.Constraint, t.Name)
}

// commentElsewhere is COMMENT ON databases, schemas and roles.
func (c *change) commentElsewhere(s *bind.Comment) error {
	switch s.Kind {
	case "TYPE":
		if err := c.mustOwnType(s.Type); err != nil {
			return err
		}
		c.hook()
		c.Catalog.Type(s.Type.ID).Comment = s.Text
		return nil
	case "DATABASE":
		db, err := c.database(s.Name.Name)
		if err != nil {
			return err
		}
		if m := c.Catalog.Database(db.ID); m != nil {
			m.Comment = s.Text
			return nil
		}
	case "SCHEMA":
		sc, err := c.schema("", s.Name.Name)
		if err != nil {
			return err
		}
		if m := c.Catalog.Schema(sc.ID); m != nil {
			m.Comment = s.Text
			return nil
		}
	case "ROLE":
		u, err := c.role(s.Name.Name)
		switch {
		case err != nil:
			return err
		case u.Superuser && !c.super():
			return denied("must be superuser")
		case !c.mayCreateRoles():
			return denied("must have CREATEROLE privilege")
		}
		if m := c.Catalog.User(u.ID); m != nil {
			m.Comment = s.Text
			return nil
		}
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "comments on %s \"%s\" are not supported", strings.ToLower(s.Kind), s.Name.Name)
}
