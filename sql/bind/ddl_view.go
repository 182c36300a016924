package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func (b *builder) createView(n *tree.CreateView) Statement {
	if n.Materialized {
		return b.createMaterialized(n)
	}
	v := &CreateView{Replace: n.Replace, IfNotExists: n.IfNotExists}
	v.Invoker = b.stmt.SecurityInvoker != nil && *b.stmt.SecurityInvoker
	v.Name, v.Temporary = b.newRelation(string(n.Name.CatalogName), string(n.Name.SchemaName), string(n.Name.ObjectName), n.Persistence.IsTemporary())
	b.text = newViewText()
	b.top = withOf(n.AsSource)
	out := b.selectQuery(n.AsSource, &scope{level: &level{}}, false)
	if b.top != nil {
		for _, e := range b.top.CTEList {
			switch e.Stmt.(type) {
			case *tree.Select, *tree.ParenSelect, *tree.ValuesClause:
			default:
				b.fail(sqlstate.FeatureNotSupported, nil, "views must not contain data-modifying statements in WITH")
			}
		}
	}
	if b.asOf != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "AS OF SYSTEM TIME is not supported in a view")
	}
	if b.stmt.NumParams > 0 {
		raise(sqlstate.New(sqlstate.UndefinedParameter, "there is no parameter $1"))
	}
	if len(n.ColumnNames) > len(out.cols) {
		b.fail(sqlstate.SyntaxError, nil, "CREATE VIEW specifies more column names than columns")
	}
	seen := map[string]bool{}
	for i, c := range out.cols {
		name := c.name
		if i < len(n.ColumnNames) {
			name = string(n.ColumnNames[i])
		}
		if seen[name] {
			b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" specified more than once", name)
		}
		seen[name] = true
		if base := c.t; base.Kind == types.KindXID8 || base.Kind == types.KindArray && base.Elem.Kind == types.KindXID8 {
			b.storable(name, base, nil)
		}
		v.Columns = append(v.Columns, ColumnDef{Name: name, Type: c.t})
	}
	v.DependsOn, v.Keyed = b.text.relations(b.depends), b.text.keyed
	if !v.Temporary && slices.ContainsFunc(v.DependsOn, catalog.IsLocal) {
		v.Name, v.Temporary = b.newRelation(string(n.Name.CatalogName), string(n.Name.SchemaName), string(n.Name.ObjectName), true)
		v.Notices = append(v.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "view \"" + v.Name.Name + "\" will be a temporary view"})
	}
	v.Query = b.viewText(n.AsSource)
	return v
}

// viewText is the stored text of a view's query.
func (b *builder) viewText(sel *tree.Select) string {
	text, err := b.text.write(sel, b.qualified)
	check(err)
	return text
}

// createMaterialized binds CREATE MATERIALIZED VIEW: a CREATE TABLE AS that keeps its query.
func (b *builder) createMaterialized(n *tree.CreateView) Statement {
	if !n.WithData {
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "materialized views WITH NO DATA are not supported").
			WithHint("Create the view with its data; REFRESH MATERIALIZED VIEW replaces the data."))
	}
	b.text = newViewText()
	table := &tree.CreateTable{Table: n.Name, IfNotExists: n.IfNotExists, AsSource: n.AsSource}
	for _, name := range n.ColumnNames {
		table.Defs = append(table.Defs, &tree.ColumnTableDef{Name: name})
	}
	ct := b.createTable(table).(*CreateTable)
	ct.Materialized = true
	if ct.Exists {
		return ct
	}
	if b.asOf != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "AS OF SYSTEM TIME is not supported in a view")
	}
	if ct.DependsOn = b.text.relations(b.depends); slices.ContainsFunc(ct.DependsOn, catalog.IsLocal) {
		b.fail(sqlstate.FeatureNotSupported, nil, "materialized views must not use temporary tables or views")
	}
	ct.View, ct.Keyed = b.viewText(n.AsSource), b.text.keyed
	return ct
}

// refreshView finds the view. CONCURRENTLY only requires a unique index: in either form readers see the earlier rows until the statement's
// transaction commits.
func (b *builder) refreshView(n *tree.RefreshMaterializedView) Statement {
	t := b.alterTarget(n.Name, false)
	if !t.Materialized {
		b.fail(sqlstate.FeatureNotSupported, nil, "\"%s\" is not a materialized view", t.Name)
	}
	if n.AsOf.Expr != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "REFRESH MATERIALIZED VIEW ... AS OF SYSTEM TIME is not supported")
	}
	if n.RefreshDataOption == tree.RefreshDataClear {
		b.fail(sqlstate.FeatureNotSupported, nil, "REFRESH MATERIALIZED VIEW ... WITH NO DATA is not supported")
	}
	unique := func(x catalog.Index) bool {
		return x.Unique && !x.Primary && x.Predicate == "" && x.State == catalog.Public
	}
	if n.Concurrently && !slices.ContainsFunc(t.Indexes, unique) {
		raise(sqlstate.New(sqlstate.ObjectNotInPrerequisite, "cannot refresh materialized view \"%s.%s\" concurrently", b.schemaOf(t), t.Name).
			WithHint("Create a unique index with no WHERE clause on one or more columns of the materialized view."))
	}
	return &RefreshView{View: t}
}
