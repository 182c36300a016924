package schemachange

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"meridian/setting"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/job"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

func (c *change) createDatabase(s *bind.CreateDatabase) error {
	c.notices(s.Notices)
	if c.Explicit {
		return sqlstate.New(sqlstate.ActiveTransaction, "CREATE DATABASE cannot run inside a transaction block")
	}
	if s.PrimaryRegion != "" || len(s.Regions) > 0 || s.SurviveRegion {
		return regionsLater("regions of databases")
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
	c.hook()
	c.Catalog.New(lease.Descriptor{Database: &catalog.Database{ID: id, Name: s.Name, Owner: owner, Schemas: map[string]catalog.ID{"public": public}}})
	for _, d := range lease.PublicSchema(id, public) {
		c.Catalog.New(d)
	}
	return nil
}

// database finds a database that the user owns, to be changed.
func (c *change) database(name string) (*catalog.Database, error) {
	db, err := c.view.Database(c.ctx, name)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, sqlstate.New(sqlstate.InvalidCatalogName, "database \"%s\" does not exist", name)
	}
	return db, c.mustOwn(db.ID)
}

func (c *change) dropDatabase(s *bind.DropDatabase) error {
	if c.Explicit {
		return sqlstate.New(sqlstate.ActiveTransaction, "DROP DATABASE cannot run inside a transaction block")
	}
	db, err := c.database(s.Name)
	if sqlstate.Is(err, sqlstate.InvalidCatalogName) && s.IfExists {
		c.noticef(sqlstate.SuccessfulCompletion, "database \"%s\" does not exist, skipping", s.Name)
		return nil
	}
	if err != nil {
		return err
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
	c.Catalog.Database(db.ID).Dropped = true
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
	case s.PrimaryRegion != "" || s.AddRegion != "" || s.DropRegion != "" || s.Survive != "":
		return regionsLater("regions of databases")
	case s.Set != nil || s.Reset != nil:
		if err := c.mustOwn(db.ID); err != nil {
			return err
		}
		d := c.Catalog.Database(db.ID)
		name, value := initialSetting(s.Set, s.Reset)
		d.Settings = catalog.WithSetting(d.Settings, 0, name, value)
	default:
		return c.mustOwn(db.ID)
	}
	return nil
}

// initialSetting is the change that SET and RESET of a role or database ask for; the session has looked at the value already.
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
		tables, err := c.view.Tables(c.ctx, database)
		if err != nil {
			return err
		}
		var deps []dependent
		going := map[catalog.ID]bool{}
		for _, t := range tables {
			if t.Schema == sc.ID && !(t.Kind == catalog.KindSequence && t.Sequence.OwnerTable != 0) {
				going[t.ID] = true
				deps = append(deps, dependent{described(t) + " " + c.name(t), "schema " + name,
					func() error { c.drop(t.ID); return nil }})
			}
		}
		enums, err := c.typesIn(sc)
		if err != nil {
			return err
		}
		for _, t := range enums {
			deps = append(deps, dependent{"type " + c.typeName(t), "schema " + name, func() error { return nil }})
		}
		for _, t := range tables {
			if going[t.ID] {
				c.dependents(t, going, &deps)
			}
		}
		uses, err := c.typeDependents(enums, going)
		if err != nil {
			return err
		}
		all := slices.Concat(deps, plain(uses))
		if len(all) > 0 && !s.Cascade {
			return inTheWay("schema "+name, all)
		}
		c.noticeCascade(all)
		for _, d := range deps {
			if err := d.drop(); err != nil {
				return err
			}
		}
		if err := c.dropDependents(uses); err != nil {
			return err
		}
		for _, t := range enums {
			c.dropType(t.ID)
		}
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

// uses tells relations that a view reads them.
func (c *change) uses(v *catalog.Table) {
	for _, d := range v.DependsOn {
		if v.Temporary() && !catalog.IsLocal(d) {
			continue // nobody else may hear of the view
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
		if !o.Type.Same(w.Type) {
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
	m.View, m.DependsOn, m.Columns, m.NextColumn, m.Options = n.View, n.DependsOn, n.Columns, n.NextColumn, n.Options
	c.uses(m)
	return nil
}

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

func (c *change) setClusterSetting(s *bind.SetClusterSetting) error {
	if !c.super() {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to set cluster setting \"%s\"", s.Name)
	}
	name, value := strings.ToLower(s.Name), s.Value
	if n := len(value); n > 1 && value[0] == '\'' && value[n-1] == '\'' {
		value = strings.ReplaceAll(value[1:n-1], "''", "'")
	}
	m := c.Catalog.Settings()
	if s.Default {
		// One that only another version knows may be taken back too.
		if _, known := setting.Find(name); !known && m[name] == "" {
			return settingError(&setting.UnknownError{Name: s.Name})
		}
		delete(m, name)
		return nil
	}
	value, err := setting.Check(name, value)
	if err != nil {
		return settingError(err)
	}
	m[name] = value
	return nil
}

// settingError is a user's mistake about a cluster setting.
func settingError(err error) error {
	var wrong *setting.ValueError
	if errors.As(err, &wrong) {
		return sqlstate.New(sqlstate.InvalidParameterValue, "%s", err).WithHint("%s", wrong.Hint)
	}
	return sqlstate.New(sqlstate.UndefinedObject, "%s", err).WithHint("SHOW ALL CLUSTER SETTINGS lists those that there are.")
}

// cancel is CANCEL JOB.
func (c *change) cancel(s *bind.Cancel) (string, bool, error) {
	if !strings.HasPrefix(strings.ToUpper(s.Kind), "JOB") {
		return "", false, nil
	}
	if !c.super() {
		return "", true, sqlstate.New(sqlstate.InsufficientPrivilege, "must be superuser to cancel a job")
	}
	id, err := strconv.ParseInt(strings.Trim(s.ID, "'"), 10, 64)
	if err != nil {
		return "", true, sqlstate.New(sqlstate.InvalidParameterValue, "\"%s\" is not a job", s.ID)
	}
	return "CANCEL JOBS 1", true, c.o.Jobs.Cancel(c.ctx, job.ID(id))
}
