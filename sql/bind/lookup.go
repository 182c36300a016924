package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// table resolves a table name for reading or changing; it raises 42P01 if there is none.
func (b *builder) table(n *tree.TableName) *catalog.Table {
	t := b.lookupTable(string(n.CatalogName), string(n.SchemaName), string(n.ObjectName))
	if t == nil {
		b.undefinedTable(n)
	}
	b.depends(t)
	return t
}

func (b *builder) undefinedTable(n *tree.TableName) {
	name := string(n.ObjectName)
	if n.ExplicitSchema {
		name = string(n.SchemaName) + "." + name
	}
	if n.ExplicitCatalog {
		name = string(n.CatalogName) + "." + name
	}
	b.fail(sqlstate.UndefinedTable, n, "relation \"%s\" does not exist", name)
}

// lookupTable finds a relation; nil if there is none.
func (b *builder) lookupTable(database, schema, name string) *catalog.Table {
	if schema == "" && b.home != nil {
		// Stored text: names without a schema were resolved when it was stored, in its own schema.
		t, err := b.View.Table(b.ctx, b.homeDatabase(), b.homeSchema(), name)
		b.check(err)
		if t != nil {
			return t
		}
	}
	b.withinDatabase(database, schema, name)
	if database == "" {
		database = b.View.CurrentDatabase()
		if b.home != nil {
			database = b.homeDatabase()
		}
	}
	if schema != "" && b.home == nil {
		b.mustUse(database, schema)
	}
	t, err := b.View.Table(b.ctx, database, schema, name)
	b.check(err)
	if t == nil && schema != "" && schema == database {
		// database.table, as the multi-region dialects write it.
		if b.home == nil {
			b.mustUse(database, "public")
		}
		t, err = b.View.Table(b.ctx, database, "public", name)
		b.check(err)
	}
	return t
}

// withinDatabase refuses names of other databases than the session's: a role may look into those that it may connect to, and
// that is asked when a session opens.
func (b *builder) withinDatabase(database string, rest ...string) {
	if database == "" || database == b.View.CurrentDatabase() || b.home != nil && database == b.homeDatabase() {
		return
	}
	raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "cross-database references are not implemented: \"%s\"",
		strings.Join(append([]string{database}, rest...), ".")), database))
}

// mustUse refuses a schema in which the current role may look nothing up. One that does not exist is not refused.
func (b *builder) mustUse(database, schema string) {
	s, err := b.View.Schema(b.ctx, database, schema)
	b.check(err)
	if s != nil {
		b.check(b.View.Access().Check(b.View.CurrentUser(), s.ID, catalog.Usage))
	}
}

func (b *builder) homeDatabase() string {
	dbs, err := b.View.Databases(b.ctx)
	b.check(err)
	for _, d := range dbs {
		if d.ID == b.home.Database {
			return d.Name
		}
	}
	return b.View.CurrentDatabase()
}

func (b *builder) homeSchema() string {
	if b.home.Schema == 0 {
		return "public"
	}
	ss, err := b.View.Schemas(b.ctx, b.homeDatabase())
	b.check(err)
	for _, s := range ss {
		if s.ID == b.home.Schema {
			return s.Name
		}
	}
	return "public"
}

func (b *builder) schemaName(t *catalog.Table) string {
	saved := b.home
	b.home = t
	s := b.homeSchema()
	b.home = saved
	return s
}

func (b *builder) databaseOf(t *catalog.Table) string {
	saved := b.home
	b.home = t
	s := b.homeDatabase()
	b.home = saved
	return s
}
