package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

func (b *builder) createView(n *tree.CreateView) Statement {
	if n.Materialized {
		b.fail(sqlstate.FeatureNotSupported, nil, "materialized views are not supported")
	}
	v := &CreateView{Replace: n.Replace, IfNotExists: n.IfNotExists}
	v.Invoker = b.stmt.SecurityInvoker != nil && *b.stmt.SecurityInvoker
	v.Name, v.Temporary = b.newRelation(string(n.Name.CatalogName), string(n.Name.SchemaName), string(n.Name.ObjectName), n.Persistence.IsTemporary())
	b.tableNames = map[*tree.TableName]*catalog.Table{}
	b.expandStar = true
	out := b.selectQuery(n.AsSource, &scope{level: &level{}}, false)
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
		v.Columns = append(v.Columns, ColumnDef{Name: name, Type: c.t})
	}
	ids := map[catalog.ID]bool{}
	for _, t := range b.tableNames {
		if t.Kind != catalog.KindVirtual {
			ids[t.ID] = true
		}
	}
	for _, d := range b.meta.Depends {
		if ids[d.ID] {
			v.DependsOn = append(v.DependsOn, d.ID)
		}
	}
	if !v.Temporary && slices.ContainsFunc(v.DependsOn, catalog.IsLocal) {
		v.Name, v.Temporary = b.newRelation(string(n.Name.CatalogName), string(n.Name.SchemaName), string(n.Name.ObjectName), true)
		v.Notices = append(v.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "view \"" + v.Name.Name + "\" will be a temporary view"})
	}
	v.Query = b.viewText(n.AsSource)
	// What is stored must be readable again.
	if _, err := parse.ParseOne(v.Query); err != nil {
		e := sqlstate.New(sqlstate.FeatureNotSupported, "this query is not supported in a view")
		e.Cause = err
		raise(e)
	}
	return v
}

// viewText writes a query with its relations' names qualified, so that it means the same in any session.
func (b *builder) viewText(sel *tree.Select) string {
	ctx := tree.NewFmtCtx(tree.FmtParsable, tree.FmtReformatTableNames(func(ctx *tree.FmtCtx, n *tree.TableName) {
		t := b.tableNames[n]
		if t == nil {
			ctx.WriteString(parse.Name{Schema: string(n.SchemaName), Name: string(n.ObjectName)}.Quoted())
			return
		}
		name := parse.Name{Schema: b.schemaOf(t), Name: t.Name}
		if t.Kind != catalog.KindVirtual {
			if db := b.databaseOf(t); db != b.View.CurrentDatabase() {
				name.Database = db
			}
		}
		ctx.WriteString(name.Quoted())
	}))
	ctx.FormatNode(sel)
	return parse.TypeNames(ctx.CloseAndGetString())
}

func (b *builder) schemaOf(t *catalog.Table) string {
	switch t.Schema {
	case catalog.PGCatalogSchemaID:
		return "pg_catalog"
	case catalog.InformationSchemaID:
		return "information_schema"
	}
	return b.schemaName(t)
}
