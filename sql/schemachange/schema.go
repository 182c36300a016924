package schemachange

import (
	"cmp"
	"slices"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
)

func (c *change) createSchema(s *bind.CreateSchema) error {
	database := s.Database
	if database == "" {
		database = c.Info.Database
	}
	db, err := c.view.Database(c.ctx, database)
	if err != nil {
		return err
	}
	if db == nil {
		return sqlstate.New(sqlstate.InvalidCatalogName, "database \"%s\" does not exist", database)
	}
	if err := c.must(db.ID, catalog.Create); err != nil {
		return err
	}
	if err := c.notTemplate(db); err != nil {
		return err
	}
	if lease.IsSystem(s.Name) {
		return sqlstate.New(sqlstate.ReservedName, "unacceptable schema name \"%s\"", s.Name).
			WithDetail("The prefix \"pg_\" is reserved for system schemas.")
	}
	old, err := c.view.Schema(c.ctx, database, s.Name)
	if err != nil {
		return err
	}
	if old != nil {
		if s.IfNotExists {
			c.noticef(sqlstate.DuplicateSchema, "schema \"%s\" already exists, skipping", s.Name)
			return nil
		}
		return sqlstate.New(sqlstate.DuplicateSchema, "schema \"%s\" already exists", s.Name)
	}
	owner := c.Info.User
	if s.Owner != "" {
		u, err := c.role(s.Owner)
		if err != nil {
			return err
		}
		owner = u.Name
		if err := c.mustBeMember(owner, db.Owner); err != nil {
			return err
		}
	}
	id, err := c.Catalog.NewID(c.ctx)
	if err != nil {
		return err
	}
	c.hook()
	c.Catalog.New(lease.Descriptor{Schema: &catalog.Schema{ID: id, Name: s.Name, Database: db.ID, Owner: owner}})
	return nil
}

// schema finds a schema that the user owns.
func (c *change) schema(database, name string) (*catalog.Schema, error) {
	if database == "" {
		database = c.Info.Database
	}
	s, err := c.view.Schema(c.ctx, database, name)
	if err != nil {
		return nil, err
	}
	if s == nil || catalog.IsLocal(s.ID) {
		return nil, sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", name)
	}
	return s, c.mustOwn(s.ID)
}

func (c *change) dropSchemas(s *bind.DropSchema) error {
	c.hook()
	database := s.Database
	if database == "" {
		database = c.Info.Database
	}
	var schemas []*catalog.Schema
	named := 0
	for _, name := range s.Names {
		sc, err := c.schema(database, name)
		if sqlstate.Is(err, sqlstate.InvalidSchemaName) && s.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "schema \"%s\" does not exist, skipping", name)
			continue
		}
		if err != nil {
			return err
		}
		if sc.ID < catalog.FirstUserID && name != "public" {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop schema %s because it is required by the database system", name)
		}
		named++
		if !slices.ContainsFunc(schemas, func(o *catalog.Schema) bool { return o.ID == sc.ID }) {
			schemas = append(schemas, sc)
		}
	}
	tables, err := c.view.Tables(c.ctx, database)
	if err != nil {
		return err
	}
	type member struct {
		id    catalog.ID
		table *catalog.Table
		enum  *catalog.Type
		all   []dependent
	}
	var members []*member // in PostgreSQL's order: each schema's objects are visited from the newest to the oldest, each with its own dependents, and all are listed in reverse
	var others []dependent
	var uses []typeDependent
	going := map[catalog.ID]bool{}
	for _, sc := range schemas {
		var own []*member
		on := "schema " + sc.Name
		for _, t := range tables {
			if t.Schema == sc.ID && !going[t.ID] && !(t.Kind == catalog.KindSequence && t.Sequence.OwnerTable != 0) {
				going[t.ID] = true
				own = append(own, &member{id: t.ID, table: t, all: []dependent{{described(t) + " " + c.name(t), on, nil}}})
			}
		}
		enums, err := c.typesIn(sc)
		if err != nil {
			return err
		}
		for _, t := range enums {
			if err := c.refuseRegionEnum(t, "dropped"); err != nil {
				return err
			}
			own = append(own, &member{id: t.ID, enum: t, all: []dependent{{"type " + c.typeName(t), on, nil}}})
		}
		slices.SortFunc(own, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
		for _, m := range slices.Backward(own) {
			if m.table != nil {
				at := len(m.all)
				c.dependents(m.table, going, &m.all)
				others = append(others, m.all[at:]...)
			}
		}
		for _, m := range slices.Backward(own) {
			if m.enum == nil {
				continue
			}
			of, err := c.typeDependents([]*catalog.Type{m.enum}, going)
			if err != nil {
				return err
			}
			of = slices.DeleteFunc(of, func(d typeDependent) bool {
				return slices.ContainsFunc(uses, func(o typeDependent) bool { return o.what == d.what })
			})
			m.all, uses = append(m.all, plain(of)...), append(of, uses...)
		}
		members = append(own, members...)
	}
	var all []dependent
	for _, m := range members {
		all = append(all, m.all...)
	}
	if len(all) > 0 && !s.Cascade {
		what := "desired object(s)"
		if named == 1 {
			what = "schema " + schemas[0].Name
		}
		return inTheWay(what, all)
	}
	c.noticeCascade(all)
	for _, m := range members {
		if m.table != nil {
			c.drop(m.id)
		}
	}
	for _, d := range others {
		if err := d.drop(); err != nil {
			return err
		}
	}
	if err := c.dropDependents(uses); err != nil {
		return err
	}
	for _, m := range members {
		if m.enum != nil {
			c.dropType(m.id)
		}
	}
	for _, sc := range schemas {
		c.Catalog.Schema(sc.ID).Dropped = true
	}
	return nil
}

func (c *change) alterSchema(s *bind.AlterSchema) error {
	sc, err := c.schema(s.Database, s.Name)
	if err != nil {
		return err
	}
	if sc.ID < catalog.FirstUserID && sc.Name != "public" {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to alter schema \"%s\"", sc.Name).WithDetail("System catalog modifications are currently disallowed.")
	}
	c.hook()
	if s.Owner != "" {
		o, _ := c.view.Access().Object(sc.ID)
		to, err := c.mayGive(&o, s.Owner, sc.Database)
		if err != nil {
			return err
		}
		c.give(sc.ID, to)
	}
	if s.Rename != "" {
		if err := c.must(sc.Database, catalog.Create); err != nil {
			return err
		}
		if lease.IsSystem(s.Rename) {
			return sqlstate.New(sqlstate.ReservedName, "unacceptable schema name \"%s\"", s.Rename).
				WithDetail("The prefix \"pg_\" is reserved for system schemas.")
		}
		database := s.Database
		if database == "" {
			database = c.Info.Database
		}
		other, err := c.view.Schema(c.ctx, database, s.Rename)
		if err != nil {
			return err
		}
		if other != nil {
			return sqlstate.New(sqlstate.DuplicateSchema, "schema \"%s\" already exists", s.Rename)
		}
		tables, err := c.view.Tables(c.ctx, database)
		if err != nil {
			return err
		}
		for _, t := range tables {
			if t.Schema == sc.ID && len(t.UsedBy) > 0 {
				if err := c.refuseViews(t, "schema", s.Name, func(string) bool { return true }); err != nil {
					return err
				}
			}
		}
		enums, err := c.typesIn(sc)
		if err != nil {
			return err
		}
		for _, t := range enums {
			e := t.Enum
			e.Schema = s.Rename
			if err := c.replaceType(t.ID, &e); err != nil {
				return err
			}
		}
		c.Catalog.Schema(sc.ID).Name = s.Rename
	}
	return nil
}
