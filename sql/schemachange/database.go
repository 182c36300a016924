package schemachange

import (
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

func (c *change) createDatabase(s *bind.CreateDatabase) error {
	c.notices(s.Notices)
	if c.Explicit {
		return sqlstate.New(sqlstate.ActiveTransaction, "CREATE DATABASE cannot run inside a transaction block")
	}
	if u := c.view.User(c.Info.User); u == nil || !u.CreateDB && !u.Superuser {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to create database")
	}
	old, err := c.view.Database(c.ctx, s.Name)
	if err != nil {
		return err
	}
	if old != nil {
		if s.IfNotExists {
			c.noticef(sqlstate.DuplicateDatabase, "database \"%s\" already exists, skipping", s.Name)
			return nil
		}
		return sqlstate.New(sqlstate.DuplicateDatabase, "database \"%s\" already exists", s.Name)
	}
	owner := c.Info.User
	if s.Owner != "" {
		u, err := c.role(s.Owner)
		if err != nil {
			return err
		}
		owner = u.Name
		if err := c.mustBeMember(owner, ""); err != nil {
			return err
		}
	}
	id, err := c.Catalog.NewID(c.ctx)
	if err != nil {
		return err
	}
	public, err := c.Catalog.NewID(c.ctx)
	if err != nil {
		return err
	}
	db := &catalog.Database{ID: id, Name: s.Name, Owner: owner, Schemas: map[string]catalog.ID{"public": public}}
	if err := c.giveRegions(db, s.Regions); err != nil {
		return err
	}
	c.externalDefault(db)
	c.hook()
	c.Catalog.New(lease.Descriptor{Database: db})
	for _, d := range lease.PublicSchema(id, public) {
		c.Catalog.New(d)
	}
	return nil
}

// database finds a database that the user owns and that can be changed.
func (c *change) database(name string) (*catalog.Database, error) {
	db, err := c.ownDatabase(name)
	if err != nil {
		return nil, err
	}
	return db, c.notTemplate(db)
}

// ownDatabase finds a database that the user owns.
func (c *change) ownDatabase(name string) (*catalog.Database, error) {
	db, err := c.view.Database(c.ctx, name)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, sqlstate.New(sqlstate.InvalidCatalogName, "database \"%s\" does not exist", name)
	}
	return db, c.mustOwn(db.ID)
}

// notTemplate refuses a change of a template database, or within one: it has no descriptor.
func (c *change) notTemplate(db *catalog.Database) error {
	if !db.IsTemplate() {
		return nil
	}
	return bind.UnchangedTemplate(db.Name)
}

func (c *change) dropDatabase(s *bind.DropDatabase) error {
	if c.Explicit {
		return sqlstate.New(sqlstate.ActiveTransaction, "DROP DATABASE cannot run inside a transaction block")
	}
	db, err := c.ownDatabase(s.Name)
	if sqlstate.Is(err, sqlstate.InvalidCatalogName) && s.IfExists {
		c.noticef(sqlstate.SuccessfulCompletion, "database \"%s\" does not exist, skipping", s.Name)
		return nil
	}
	if err != nil {
		return err
	}
	if db.IsTemplate() {
		return sqlstate.New(sqlstate.WrongObjectType, "cannot drop a template database")
	}
	if s.Name == c.Info.Database {
		return sqlstate.New(sqlstate.ObjectInUse, "cannot drop the currently open database")
	}
	c.hook()
	tables, err := c.view.Tables(c.ctx, s.Name)
	if err != nil {
		return err
	}
	schemas, err := c.view.Schemas(c.ctx, s.Name)
	if err != nil {
		return err
	}
	for _, t := range tables {
		c.drop(t.ID)
	}
	if err := c.Catalog.EachTypeOf(db.ID, func(t *catalog.Type) { c.dropType(t.ID) }); err != nil {
		return err
	}
	for _, sc := range schemas {
		if m := c.Catalog.Schema(sc.ID); m != nil {
			m.Dropped = true
		}
	}
	dropped := c.Catalog.Database(db.ID)
	dropped.Dropped = true
	dropped.Unname(c.view.Zones().Placements)
	return nil
}

func (c *change) alterDatabase(s *bind.AlterDatabase) error {
	db, err := c.database(s.Name)
	if err != nil {
		return err
	}
	c.hook()
	switch {
	case s.Rename != "":
		if u := c.user(); !u.CreateDB && !u.Superuser {
			return denied("permission denied to rename database")
		}
		if s.Name == c.Info.Database {
			return sqlstate.New(sqlstate.FeatureNotSupported, "current database cannot be renamed")
		}
		other, err := c.view.Database(c.ctx, s.Rename)
		if err != nil {
			return err
		}
		if other != nil {
			return sqlstate.New(sqlstate.DuplicateDatabase, "database \"%s\" already exists", s.Rename)
		}
		c.Catalog.Database(db.ID).Name = s.Rename
	case s.Owner != "":
		o, _ := c.view.Access().Object(db.ID)
		to, err := c.mayGive(&o, s.Owner, 0)
		if err != nil {
			return err
		}
		c.give(db.ID, to)
		if db.RegionEnum != 0 {
			c.give(db.RegionEnum, to)
		}
	case s.Region != nil:
		if err := c.alterRegions(db.ID, s.Region); err != nil {
			return err
		}
		return c.databaseFits(db.ID)
	case s.Set != nil || s.Reset != nil:
		if err := c.mustOwn(db.ID); err != nil {
			return err
		}
		d := c.Catalog.Database(db.ID)
		name, value := initialSetting(s.Set, s.Reset)
		was := d.External()
		d.Settings = catalog.WithSetting(d.Settings, 0, name, value)
		if d.External() != was {
			return c.setExternal(d)
		}
	default:
		return c.mustOwn(db.ID)
	}
	return nil
}

// initialSetting is the change that SET and RESET of a role or database ask for; the session has checked the value already.
func initialSetting(set *bind.SetVar, reset *parse.ResetVar) (name string, value *string) {
	if reset != nil {
		return reset.Name, nil
	}
	if set.Default {
		return set.Name, nil
	}
	v := strings.Join(set.Values, ", ")
	return set.Name, &v
}
