package schemachange

import (
	"slices"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Columns carry the version of their enum with them. So a change of an enum is a change of the tables that have columns of it, in one
// transaction, and their versions are what keeps it safe:
//
//	SC7 (I7) A node that uses the version before of a table may meet a value that it does not know, as it may meet a column: reading the
//	         row is rowcode.NewerError, and the transaction starts over with the new version. Nobody writes a value before the
//	         transaction that adds it has committed.

func (c *change) createType(s *bind.CreateType) error {
	db, sc, err := c.place(s.Name)
	if err != nil {
		return err
	}
	if err := c.must(sc.ID, catalog.Create); err != nil {
		return err
	}
	old, err := c.view.Type(c.ctx, sc.Name, s.Name.Name)
	if err != nil {
		return err
	}
	if old == nil {
		if t, err := c.view.NameTaken(db.ID, sc.ID, s.Name.Name); err != nil {
			return err
		} else if t != nil && t.Name == s.Name.Name && t.Kind != catalog.KindSequence {
			return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", s.Name.Name)
		}
	} else {
		if s.IfNotExists {
			c.noticef(sqlstate.DuplicateObject, "type \"%s\" already exists, skipping", s.Name.Name)
			return nil
		}
		return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", s.Name.Name)
	}
	c.hook()
	id, err := c.Catalog.NewID(c.ctx)
	if err != nil {
		return err
	}
	array, err := c.Catalog.NewID(c.ctx)
	if err != nil {
		return err
	}
	t := &catalog.Type{ID: id, Database: db.ID, SchemaID: sc.ID, Owner: c.Info.User,
		Enum: types.Enum{ID: uint32(id), Array: uint32(array), Schema: sc.Name, Name: s.Name.Name}}
	for i, l := range s.Labels {
		oid, err := c.Catalog.NewID(c.ctx)
		if err != nil {
			return err
		}
		t.Enum.Values = append(t.Enum.Values, types.EnumValue{Label: l, Place: int64(i+1) * types.EnumGap, OID: uint32(oid)})
	}
	c.Catalog.New(lease.Descriptor{Type: t})
	return nil
}

// mustOwnType is mustOwn in the words of PostgreSQL, which gives a type's schema where its name alone would not find it.
func (c *change) mustOwnType(t *catalog.Type) error {
	if c.mustOwn(t.ID) == nil {
		return nil
	}
	name := types.EnumOf(&t.Enum).Name()
	if seen, err := c.view.Type(c.ctx, "", t.Enum.Name); err != nil {
		return err
	} else if seen == nil || seen.ID != t.ID {
		name = quoteIdent(t.Enum.Schema) + "." + name
	}
	return denied("must be owner of type %s", name)
}

func (c *change) alterType(s *bind.AlterType) error {
	if err := c.mustOwnType(s.Type); err != nil {
		return err
	}
	e := s.Type.Enum
	e.Values = slices.Clone(e.Values)
	switch {
	case s.Adds:
		if _, has := e.Find(s.Add); has {
			if s.IfNotExists {
				c.noticef(sqlstate.DuplicateObject, "enum label \"%s\" already exists, skipping", s.Add)
				return nil
			}
			return sqlstate.New(sqlstate.DuplicateObject, "enum label \"%s\" already exists", s.Add)
		}
		if err := c.addValue(&e, s); err != nil {
			return err
		}
	case s.Renames:
		i := slices.IndexFunc(e.Values, func(v types.EnumValue) bool { return v.Label == s.RenameValue })
		if i < 0 {
			return sqlstate.New(sqlstate.InvalidParameterValue, "\"%s\" is not an existing enum label", s.RenameValue)
		}
		if _, has := e.Find(s.To); has {
			return sqlstate.New(sqlstate.DuplicateObject, "enum label \"%s\" already exists", s.To)
		}
		e.Values[i].Label = s.To
	case s.Rename != "":
		if t, err := c.view.Type(c.ctx, e.Schema, s.Rename); err != nil {
			return err
		} else if t != nil {
			return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", s.Rename)
		}
		e.Name = s.Rename
	case s.Schema != "":
		sc, err := c.view.Schema(c.ctx, c.Info.Database, s.Schema)
		if err != nil {
			return err
		}
		if sc == nil {
			return sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", s.Schema)
		}
		if err := c.must(sc.ID, catalog.Create); err != nil {
			return err
		}
		if t, err := c.view.Type(c.ctx, sc.Name, e.Name); err != nil {
			return err
		} else if t != nil && t.ID != s.Type.ID {
			return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists in schema \"%s\"", e.Name, sc.Name)
		}
		e.Schema = sc.Name
		c.hook()
		c.Catalog.Type(s.Type.ID).SchemaID = sc.ID
	case s.Owner != "":
		o, ok := c.view.Access().Object(s.Type.ID)
		if !ok {
			return sqlstate.New(sqlstate.UndefinedObject, "type \"%s\" does not exist", e.Name)
		}
		to, err := c.mayGive(&o, s.Owner, s.Type.SchemaID)
		if err != nil {
			return err
		}
		c.hook()
		c.Catalog.Type(s.Type.ID).Owner = to
		return nil
	}
	return c.replaceType(s.Type.ID, &e)
}

// addValue puts a value into an enum, at the end or beside another.
func (c *change) addValue(e *types.Enum, s *bind.AlterType) error {
	at := len(e.Values)
	if s.Before || s.After {
		if at = slices.IndexFunc(e.Values, func(v types.EnumValue) bool { return v.Label == s.Beside }); at < 0 {
			return sqlstate.New(sqlstate.InvalidParameterValue, "\"%s\" is not an existing enum label", s.Beside)
		}
		if s.After {
			at++
		}
	}
	v := types.EnumValue{Label: s.Add}
	switch {
	case len(e.Values) == 0:
		v.Place = types.EnumGap
	case at == 0:
		v.Place = e.Values[0].Place - types.EnumGap
	case at == len(e.Values):
		v.Place = e.Values[at-1].Place + types.EnumGap
	default:
		lo, hi := e.Values[at-1].Place, e.Values[at].Place
		if v.Place = lo + (hi-lo)/2; v.Place == lo {
			return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "there is no room for another value of enum type %s beside \"%s\"", e.Name, s.Beside).
				WithHint("Add it at another place, or make a new type and change the columns to it.")
		}
	}
	oid, err := c.Catalog.NewID(c.ctx)
	if err != nil {
		return err
	}
	v.OID = uint32(oid)
	e.Values = slices.Insert(e.Values, at, v)
	return nil
}

// replaceType gives a type, and the columns that have it, a new version of its definition.
func (c *change) replaceType(id catalog.ID, e *types.Enum) error {
	c.hook()
	old := c.Catalog.Type(id).Enum.Name
	c.Catalog.Type(id).Enum = *e
	return c.columnsOf(id, func(t *catalog.Table, i int) error {
		m := c.Catalog.Table(t.ID)
		col := &m.Columns[i]
		col.Type = col.Type.WithEnum(e)
		if old != e.Name {
			col.Default = strings.ReplaceAll(col.Default, "::"+quoteIdent(old), "::"+quoteIdent(e.Name))
		}
		return nil
	})
}

// columnsOf calls f for each column of a type, or of arrays of it, in the order of the tables.
func (c *change) columnsOf(id catalog.ID, f func(t *catalog.Table, column int) error) error {
	all, err := c.view.Tables(c.ctx, c.Info.Database)
	if err != nil {
		return err
	}
	probe := &types.Enum{ID: uint32(id)}
	for _, t := range all {
		for i := range t.Columns {
			if t.Columns[i].Type.WithEnum(probe) == nil {
				continue
			}
			if err := f(t, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *change) dropTypes(s *bind.DropType) error {
	c.notices(s.Notices)
	for _, t := range s.Types {
		if err := c.mustOwnType(t); err != nil {
			return err
		}
		on := "type " + types.EnumOf(&t.Enum).Name()
		var deps []dependent
		if err := c.columnsOf(t.ID, func(u *catalog.Table, i int) error {
			col := &u.Columns[i]
			if col.State != catalog.Public {
				return nil
			}
			if u.Kind == catalog.KindView {
				deps = append(deps, dependent{"view " + u.Name, on, func() error { c.drop(u.ID); return nil }})
				return nil
			}
			deps = append(deps, dependent{"column " + col.Name + " of table " + u.Name, on, func() error {
				m := c.Catalog.Table(u.ID)
				if m == nil || m.Dropped || m.ColumnByName(col.Name) == nil {
					return nil
				}
				return c.dropColumn(m, &bind.DropColumn{Name: col.Name, Cascade: true})
			}})
			return nil
		}); err != nil {
			return err
		}
		if len(deps) > 0 && !s.Cascade {
			return inTheWay(on, deps)
		}
		c.noticeCascade(deps)
		c.hook()
		for _, d := range deps {
			if err := d.drop(); err != nil {
				return err
			}
		}
		c.Catalog.Type(t.ID).Dropped = true
	}
	return nil
}
