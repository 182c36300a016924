package bind

import (
	"context"
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// names looks up objects of the catalogue by their names. Errors of the catalogue are raised.
type names struct {
	ctx  context.Context
	view catalog.View
}

// databaseOf is the name of a relation's database.
func (n names) databaseOf(t *catalog.Table) string {
	dbs, err := n.view.Databases(n.ctx)
	check(err)
	for _, d := range dbs {
		if d.ID == t.Database {
			return d.Name
		}
	}
	return n.view.CurrentDatabase()
}

// schemaOf is the name of a relation's schema.
func (n names) schemaOf(t *catalog.Table) string {
	switch t.Schema {
	case 0:
		return "public"
	case catalog.PGCatalogSchemaID:
		return "pg_catalog"
	case catalog.InformationSchemaID:
		return "information_schema"
	}
	ss, err := n.view.Schemas(n.ctx, n.databaseOf(t))
	check(err)
	for _, s := range ss {
		if s.ID == t.Schema {
			return s.Name
		}
	}
	return "public"
}

// qualified is the name of a relation in stored text: with its schema, and with its database if that is not the session's.
func (n names) qualified(t *catalog.Table) Name {
	name := Name{Schema: n.schemaOf(t), Name: t.Name}
	if t.Kind != catalog.KindVirtual {
		if db := n.databaseOf(t); db != n.view.CurrentDatabase() {
			name.Database = db
		}
	}
	return name
}

// relation finds a relation by name; nil if there is none. For a name in the user's text the current role needs the right to use the schema. With
// home, the name is in the stored text of that table or view: a name without a schema was resolved in the schema of home when the text was stored.
func (n names) relation(home *catalog.Table, database, schema, name string) *catalog.Table {
	if home != nil {
		if schema == "" {
			t, err := n.view.Table(n.ctx, n.databaseOf(home), n.schemaOf(home), name)
			check(err)
			if t != nil {
				return t
			}
		}
		if database == "" {
			database = n.databaseOf(home)
		}
	}
	if database == "" {
		database = n.view.CurrentDatabase()
	}
	t := n.inSchema(home, database, schema, name)
	if t == nil && schema != "" && schema == database {
		// database.table, as the multi-region dialects write it.
		t = n.inSchema(home, database, "public", name)
	}
	return t
}

func (n names) inSchema(home *catalog.Table, database, schema, name string) *catalog.Table {
	if schema != "" && home == nil {
		n.mustUse(database, schema)
	}
	t, err := n.view.Table(n.ctx, database, schema, name)
	check(err)
	return t
}

// mustUse refuses a schema that the current role has no right to use. It does not refuse a schema that does not exist.
func (n names) mustUse(database, schema string) {
	s, err := n.view.Schema(n.ctx, database, schema)
	check(err)
	if s != nil {
		check(n.view.Access().Check(n.view.CurrentUser(), s.ID, catalog.Usage))
	}
}

// table resolves a table name for reading or changing; it raises 42P01 if there is none.
func (b *builder) table(n *tree.TableName) *catalog.Table {
	t := b.lookupTable(string(n.CatalogName), string(n.SchemaName), string(n.ObjectName))
	if t == nil {
		b.undefinedTable(n)
	}
	b.uses(t)
	return t
}

// tableOf is table for statements whose error has no position in PostgreSQL.
func (b *builder) tableOf(n *tree.TableName) *catalog.Table {
	defer unplaced(func(e *sqlstate.Error) { e.Position = 0 })
	return b.table(n)
}

func (b *builder) undefinedTable(n *tree.TableName) {
	name := string(n.ObjectName)
	if n.ExplicitSchema {
		name = string(n.SchemaName) + "." + name
	}
	if n.ExplicitCatalog {
		name = string(n.CatalogName) + "." + name
	}
	if !n.ExplicitSchema && slices.Contains(b.future, name) {
		raise(b.at(sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", name).
			WithDetail("There is a WITH item named \"%s\", but it cannot be referenced from this part of the query.", name).
			WithHint("Use WITH RECURSIVE, or re-order the WITH items to remove forward references."), n))
	}
	b.fail(sqlstate.UndefinedTable, n, "relation \"%s\" does not exist", name)
}

// lookupTable finds a relation by a name in the text that is bound now; nil if there is none.
func (b *builder) lookupTable(database, schema, name string) *catalog.Table {
	b.withinDatabase(database, schema, name)
	return b.relation(b.home, database, schema, name)
}

// withinDatabase refuses names of other databases than the session's: access to a database needs CONNECT, which is checked when a session
// opens.
func (b *builder) withinDatabase(database string, rest ...string) {
	if database == "" || database == b.View.CurrentDatabase() || b.home != nil && database == b.databaseOf(b.home) {
		return
	}
	raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "cross-database references are not implemented: \"%s\"",
		strings.Join(append([]string{database}, rest...), ".")), database))
}
