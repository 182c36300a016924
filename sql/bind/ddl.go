package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/idxtype"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// definition binds data definition, which the grammar library parsed.
func (b *builder) definition(n tree.Statement) Statement {
	switch n := n.(type) {
	case *tree.CreateTable:
		return b.createTable(n)
	case *tree.CreateIndex:
		return b.createIndex(n)
	case *tree.CreateView:
		return b.createView(n)
	case *tree.CreateSequence:
		return b.createSequence(n)
	case *tree.CreateDatabase:
		return b.createDatabase(n)
	case *tree.CreateSchema:
		name := string(n.Schema.SchemaName)
		owner := b.role(n.AuthRole)
		if name == "" {
			name = owner
		}
		if strings.HasPrefix(name, "pg_") {
			raise(sqlstate.New(sqlstate.ReservedName, "unacceptable schema name \"%s\"", name).WithDetail("The prefix \"pg_\" is reserved for system schemas."))
		}
		return &CreateSchema{Database: b.database(string(n.Schema.CatalogName)), Name: name, IfNotExists: n.IfNotExists, Owner: owner}
	case *tree.DropTable:
		return b.dropRelations(catalog.KindTable, n.Names, n.IfExists, n.DropBehavior)
	case *tree.DropView:
		if n.IsMaterialized {
			b.fail(sqlstate.FeatureNotSupported, nil, "materialized views are not supported")
		}
		return b.dropRelations(catalog.KindView, n.Names, n.IfExists, n.DropBehavior)
	case *tree.DropSequence:
		return b.dropRelations(catalog.KindSequence, n.Names, n.IfExists, n.DropBehavior)
	case *tree.DropIndex:
		return b.dropIndex(n)
	case *tree.DropDatabase:
		return &DropDatabase{Name: string(n.Name), IfExists: n.IfExists, Cascade: n.DropBehavior == tree.DropCascade}
	case *tree.DropSchema:
		d := &DropSchema{Database: b.View.CurrentDatabase(), IfExists: n.IfExists, Cascade: n.DropBehavior == tree.DropCascade}
		for _, s := range n.Names {
			if s.ExplicitCatalog {
				d.Database = string(s.CatalogName)
			}
			d.Names = append(d.Names, string(s.SchemaName))
		}
		return d
	case *tree.AlterTable:
		return b.alterTable(n)
	case *tree.RenameTable:
		t := b.alterTarget(n.Name, n.IfExists)
		if t != nil {
			b.kindIs(t, n.IsView, n.IsSequence, n.Name)
		}
		a := b.alter(t, n.Name)
		if n.NewName.NumParts > 1 && t != nil && n.NewName.Parts[1] != b.schemaName(t) {
			b.fail(sqlstate.FeatureNotSupported, n.NewName, "renaming into another schema is not supported")
		}
		return b.act(a, &RenameRelation{To: n.NewName.Parts[0]})
	case *tree.RenameColumn:
		t := b.lookupTable(string(n.Table.CatalogName), string(n.Table.SchemaName), string(n.Table.ObjectName))
		if t == nil {
			if !n.IfExists {
				b.undefinedTable(&n.Table)
			}
			return &AlterTable{}
		}
		b.existingColumn(t, n.Name)
		return &AlterTable{Table: t, Actions: []AlterAction{&RenameColumn{From: string(n.Name), To: string(n.NewName)}}}
	case *tree.AlterTableOwner:
		return b.act(b.alter(b.alterTarget(n.Name, n.IfExists), n.Name), &OwnerTo{Owner: b.role(n.Owner)})
	case *tree.AlterTableSetSchema:
		return b.act(b.alter(b.alterTarget(n.Name, n.IfExists), n.Name), &SetSchema{Schema: string(n.Schema)})
	case *tree.AlterTableLocality:
		b.fail(sqlstate.FeatureNotSupported, nil, "ALTER TABLE ... SET LOCALITY is not supported yet")
	case *tree.RenameIndex:
		return b.renameIndex(n)
	case *tree.RenameDatabase:
		return &AlterDatabase{Name: string(n.Name), Rename: string(n.NewName)}
	case *tree.AlterDatabaseOwner:
		return &AlterDatabase{Name: string(n.Name), Owner: b.role(n.Owner)}
	case *tree.AlterDatabasePrimaryRegion:
		return &AlterDatabase{Name: string(n.Name), PrimaryRegion: string(n.PrimaryRegion)}
	case *tree.AlterDatabaseAddRegion:
		return &AlterDatabase{Name: string(n.Name), AddRegion: string(n.Region)}
	case *tree.AlterDatabaseDropRegion:
		return &AlterDatabase{Name: string(n.Name), DropRegion: string(n.Region)}
	case *tree.AlterDatabaseSurvivalGoal:
		goal := "zone"
		if n.SurvivalGoal == tree.SurvivalGoalRegionFailure {
			goal = "region"
		}
		return &AlterDatabase{Name: string(n.Name), Survive: goal}
	case *tree.AlterSchema:
		a := &AlterSchema{Database: b.database(string(n.Schema.CatalogName)), Name: string(n.Schema.SchemaName)}
		switch c := n.Cmd.(type) {
		case *tree.AlterSchemaRename:
			a.Rename = string(c.NewName)
		case *tree.AlterSchemaOwner:
			a.Owner = b.role(c.Owner)
		}
		return a
	case *tree.AlterSequence:
		return b.alterSequence(n)
	case *tree.Split:
		return b.splitAt(&n.TableOrIndex, n.Rows, &SplitAt{})
	case *tree.Unsplit:
		return b.splitAt(&n.TableOrIndex, n.Rows, &SplitAt{Unsplit: true, All: n.All})
	case *tree.Scatter:
		return b.splitAt(&n.TableOrIndex, nil, &SplitAt{Scatter: true})
	case *tree.CreateStats:
		if t, ok := n.Table.(*tree.TableName); ok {
			return &Analyze{Tables: []*catalog.Table{b.table(t)}}
		}
	}
	b.fail(sqlstate.FeatureNotSupported, nil, "%s is not supported", n.StatementTag())
	return nil
}

func (b *builder) role(r tree.RoleSpec) string {
	switch r.RoleSpecType {
	case tree.CurrentUser, tree.SessionUser:
		return b.View.CurrentUser()
	}
	return r.Name
}

func (b *builder) database(name string) string {
	if name == "" {
		return b.View.CurrentDatabase()
	}
	return name
}

// newName is where an object to be created goes.
func (b *builder) newName(database, schema, name string) Name {
	n := Name{Database: b.database(database), Schema: schema, Name: name}
	if database == "" && schema != "" {
		// database.table
		if s, err := b.View.Schema(b.ctx, n.Database, schema); err == nil && s == nil {
			if db, err := b.View.Database(b.ctx, schema); err == nil && db != nil {
				n.Database, n.Schema = schema, "public"
			}
		}
	}
	db, err := b.View.Database(b.ctx, n.Database)
	b.check(err)
	if db == nil {
		b.fail(sqlstate.InvalidCatalogName, n.Database, "database \"%s\" does not exist", n.Database)
	}
	if n.Schema == "" {
		for _, s := range b.View.SearchPath() {
			if s == "$user" {
				s = b.View.CurrentUser()
			}
			if s == "pg_catalog" || s == "information_schema" || strings.HasPrefix(s, "pg_temp") {
				continue
			}
			sc, err := b.View.Schema(b.ctx, n.Database, s)
			b.check(err)
			if sc != nil {
				n.Schema = s
				break
			}
		}
		if n.Schema == "" {
			b.fail(sqlstate.InvalidSchemaName, name, "no schema has been selected to create in")
		}
	} else {
		sc, err := b.View.Schema(b.ctx, n.Database, n.Schema)
		b.check(err)
		if sc == nil {
			b.fail(sqlstate.InvalidSchemaName, n.Schema, "schema \"%s\" does not exist", n.Schema)
		}
		if n.Schema == "pg_catalog" || n.Schema == "information_schema" {
			raise(sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to create \"%s.%s\"", n.Schema, name).
				WithDetail("System catalog modifications are currently disallowed."))
		}
	}
	return n
}

func (b *builder) schemaName(t *catalog.Table) string {
	saved := b.home
	b.home = t
	s := b.homeSchema()
	b.home = saved
	return s
}

// dropRelations resolves DROP TABLE, VIEW and SEQUENCE.
func (b *builder) dropRelations(kind catalog.Kind, names tree.TableNames, ifExists bool, behavior tree.DropBehavior) Statement {
	d := &DropRelation{Kind: kind, Cascade: behavior == tree.DropCascade}
	word := kindWord(kind)
	for i := range names {
		n := &names[i]
		t := b.lookupTable(string(n.CatalogName), string(n.SchemaName), string(n.ObjectName))
		if t == nil {
			if !ifExists {
				b.fail(sqlstate.UndefinedTable, nil, "%s \"%s\" does not exist", word, n.ObjectName)
			}
			d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: word + " \"" + string(n.ObjectName) + "\" does not exist, skipping"})
			continue
		}
		if t.Kind != kind {
			e := sqlstate.New(sqlstate.WrongObjectType, "\"%s\" is not a %s", t.Name, word)
			switch t.Kind {
			case catalog.KindTable:
				e.Hint = "Use DROP TABLE to remove a table."
			case catalog.KindView:
				e.Hint = "Use DROP VIEW to remove a view."
			case catalog.KindSequence:
				e.Hint = "Use DROP SEQUENCE to remove a sequence."
			case catalog.KindVirtual:
				e = sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied: \"%s\" is a system catalog", t.Name)
			}
			raise(e)
		}
		dup := false
		for _, x := range d.Tables {
			dup = dup || x == t
		}
		if !dup {
			d.Tables = append(d.Tables, t)
		}
	}
	return d
}

func kindWord(k catalog.Kind) string {
	switch k {
	case catalog.KindView:
		return "view"
	case catalog.KindSequence:
		return "sequence"
	}
	return "table"
}

// alterTarget finds the relation of an ALTER; nil if IF EXISTS lets it be missing.
func (b *builder) alterTarget(n *tree.UnresolvedObjectName, ifExists bool) *catalog.Table {
	var p [3]string
	copy(p[:], n.Parts[:n.NumParts])
	t := b.lookupTable(p[2], p[1], p[0])
	if t == nil && !ifExists {
		shown := p[0]
		if p[1] != "" {
			shown = p[1] + "." + shown
		}
		b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", shown)
	}
	if t != nil && t.Kind == catalog.KindVirtual {
		b.fail(sqlstate.InsufficientPrivilege, nil, "permission denied: \"%s\" is a system catalog", t.Name)
	}
	return t
}

func (b *builder) alter(t *catalog.Table, n *tree.UnresolvedObjectName) *AlterTable {
	a := &AlterTable{Table: t}
	if t == nil {
		a.Notices = []Notice{{Severity: "NOTICE", Code: "00000", Message: "relation \"" + n.Parts[0] + "\" does not exist, skipping"}}
	}
	return a
}

func (b *builder) act(a *AlterTable, act AlterAction) Statement {
	if a.Table != nil {
		a.Actions = append(a.Actions, act)
	}
	return a
}

func (b *builder) kindIs(t *catalog.Table, view, sequence bool, at any) {
	want := catalog.KindTable
	switch {
	case view:
		want = catalog.KindView
	case sequence:
		want = catalog.KindSequence
	default:
		return // ALTER TABLE works on all of them
	}
	if t.Kind != want {
		b.fail(sqlstate.WrongObjectType, at, "\"%s\" is not a %s", t.Name, kindWord(want))
	}
}

func (b *builder) existingColumn(t *catalog.Table, n tree.Name) *catalog.Column {
	c := t.ColumnByName(string(n))
	if c == nil {
		b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" of relation \"%s\" does not exist", n, t.Name)
	}
	return c
}

// indexKeys converts an index's column list.
func (b *builder) indexKeys(list tree.IndexElemList, has func(string) bool, t string) []IndexColumnDef {
	var out []IndexColumnDef
	for i := range list {
		e := &list[i]
		if e.Expr != nil {
			if u, ok := unparen(e.Expr).(*tree.UnresolvedName); ok && u.NumParts == 1 {
				e.Column = tree.Name(u.Parts[0])
			} else {
				b.fail(sqlstate.FeatureNotSupported, e.Expr, "indexes on expressions are not supported")
			}
		}
		if !has(string(e.Column)) {
			if t == "" {
				b.fail(sqlstate.UndefinedColumn, e.Column, "column \"%s\" named in key does not exist", e.Column)
			}
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" does not exist", e.Column)
		}
		for _, o := range out {
			if o.Name == string(e.Column) && t == "" {
				b.fail(sqlstate.DuplicateColumn, e.Column, "column \"%s\" appears twice in unique constraint", e.Column)
			}
		}
		desc := e.Direction == tree.Descending
		if e.NullsOrder == tree.NullsFirst && !desc || e.NullsOrder == tree.NullsLast && desc {
			b.fail(sqlstate.FeatureNotSupported, e.Column, "this NULLS order is not supported for indexes")
		}
		out = append(out, IndexColumnDef{Name: string(e.Column), Desc: desc})
	}
	return out
}

func (b *builder) forwardIndex(t idxtype.T) {
	if t != idxtype.FORWARD {
		b.fail(sqlstate.FeatureNotSupported, nil, "access method \"%s\" is not supported", strings.ToLower(t.String()))
	}
}

// pickName chooses a free name from parts and a suffix, as PostgreSQL does for what the user left unnamed.
func pickName(taken func(string) bool, suffix string, parts ...string) string {
	base := strings.Join(parts, "_")
	for i := 0; ; i++ {
		tail := "_" + suffix
		if i > 0 {
			tail += itoa(i)
		}
		stem := base
		if len(stem)+len(tail) > 63 {
			stem = stem[:63-len(tail)]
		}
		if n := stem + tail; !taken(n) {
			return n
		}
	}
}

// relationNameTaken reports whether a relation or an index of the table has the name.
func (b *builder) relationNameTaken(database, schema, name string, t *catalog.Table) bool {
	if t != nil {
		for i := range t.Indexes {
			if t.Indexes[i].Name == name && t.Indexes[i].State != catalog.Absent {
				return true
			}
		}
	}
	if x, err := b.View.Table(b.ctx, database, schema, name); err == nil && x != nil {
		return true
	}
	return b.findIndex(database, schema, name) != nil
}

// findIndex looks for an index by name through the relations of a schema (all schemas in the search path if empty).
func (b *builder) findIndex(database, schema, name string) *IndexRef {
	ts, err := b.View.Tables(b.ctx, database)
	b.check(err)
	for _, t := range ts {
		if t.Kind != catalog.KindTable {
			continue
		}
		for i := range t.Indexes {
			ix := &t.Indexes[i]
			if ix.Name != name || ix.State == catalog.Absent {
				continue
			}
			if schema != "" && b.schemaName(t) != schema {
				continue
			}
			return &IndexRef{Table: t, Index: ix}
		}
	}
	return nil
}

func (b *builder) createIndex(n *tree.CreateIndex) Statement {
	t := b.table(&n.Table)
	if t.Kind != catalog.KindTable {
		b.fail(sqlstate.WrongObjectType, &n.Table, "cannot create index on relation \"%s\"", t.Name)
	}
	b.forwardIndex(n.Type)
	if n.Sharded != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "hash-sharded indexes are not supported")
	}
	if n.PartitionByIndex != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "partitioned indexes are not supported")
	}
	if n.Predicate != nil {
		b.fail(sqlstate.FeatureNotSupported, n.Predicate, "partial indexes are not supported")
	}
	db, schema := b.databaseOf(t), b.schemaName(t)
	ci := &CreateIndex{Table: t, Concurrently: n.Concurrently}
	ci.Notices = b.ignoredParams(n.StorageParams, nil)
	ci.Index = IndexDef{Name: string(n.Name), Unique: n.Unique}
	ci.Index.Columns = b.indexKeys(n.Columns, func(c string) bool { return t.ColumnByName(c) != nil }, t.Name)
	for _, c := range ci.Index.Columns {
		b.indexable(t.ColumnByName(c.Name).Type, c.Name)
	}
	for _, s := range n.Storing {
		if t.ColumnByName(string(s)) == nil {
			b.fail(sqlstate.UndefinedColumn, s, "column \"%s\" does not exist", s)
		}
		ci.Index.Storing = append(ci.Index.Storing, string(s))
	}
	if ci.Index.Name == "" {
		parts := []string{t.Name}
		for _, c := range ci.Index.Columns {
			parts = append(parts, c.Name)
		}
		ci.Index.Name = pickName(func(s string) bool { return b.relationNameTaken(db, schema, s, t) }, "idx", parts...)
	} else if b.relationNameTaken(db, schema, ci.Index.Name, t) {
		if !n.IfNotExists {
			b.fail(sqlstate.DuplicateTable, nil, "relation \"%s\" already exists", ci.Index.Name)
		}
		ci.Exists = true
		ci.Notices = append(ci.Notices, Notice{Severity: "NOTICE", Code: string(sqlstate.DuplicateTable), Message: "relation \"" + ci.Index.Name + "\" already exists, skipping"})
	}
	return ci
}

// indexable refuses key columns whose values have no order.
func (b *builder) indexable(t *types.T, column string) {
	switch t.Kind {
	case types.KindJSON, types.KindVoid, types.KindTuple:
		raise(sqlstate.New(sqlstate.UndefinedObject, "data type %s has no default operator class for access method \"btree\"", t.Name()).
			WithHint("You must specify an operator class for the index or define a default operator class for the data type."))
	}
	_ = column
}

func (b *builder) databaseOf(t *catalog.Table) string {
	saved := b.home
	b.home = t
	s := b.homeDatabase()
	b.home = saved
	return s
}

// indexRef resolves table@index or a bare index name; nil if there is none.
func (b *builder) indexRef(n *tree.TableIndexName) *IndexRef {
	if n.Table.ObjectName != "" && n.Index != "" {
		t := b.lookupTable(string(n.Table.CatalogName), string(n.Table.SchemaName), string(n.Table.ObjectName))
		if t == nil {
			return nil
		}
		for i := range t.Indexes {
			if ix := &t.Indexes[i]; (ix.Name == string(n.Index) || n.Index == "primary" && ix.Primary) && ix.State != catalog.Absent {
				return &IndexRef{t, ix}
			}
		}
		return nil
	}
	name := string(n.Index)
	if name == "" {
		name = string(n.Table.ObjectName)
	}
	return b.findIndex(b.database(string(n.Table.CatalogName)), string(n.Table.SchemaName), name)
}

func indexShown(n *tree.TableIndexName) string {
	if n.Index != "" {
		return string(n.Index)
	}
	return string(n.Table.ObjectName)
}

func (b *builder) dropIndex(n *tree.DropIndex) Statement {
	d := &DropIndex{Cascade: n.DropBehavior == tree.DropCascade}
	for _, in := range n.IndexList {
		ref := b.indexRef(in)
		if ref == nil {
			if !n.IfExists {
				b.fail(sqlstate.UndefinedObject, nil, "index \"%s\" does not exist", indexShown(in))
			}
			d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "index \"" + indexShown(in) + "\" does not exist, skipping"})
			continue
		}
		if ref.Index.Constraint || ref.Index.Primary {
			raise(sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop index %s because constraint %s on table %s requires it", ref.Index.Name, ref.Index.Name, ref.Table.Name).
				WithHint("You can drop constraint %s on table %s instead.", ref.Index.Name, ref.Table.Name))
		}
		d.Indexes = append(d.Indexes, *ref)
	}
	return d
}

func (b *builder) renameIndex(n *tree.RenameIndex) Statement {
	ref := b.indexRef(n.Index)
	if ref == nil {
		if n.IfExists {
			return &Noop{Tag: "ALTER INDEX", Notice: "relation \"" + indexShown(n.Index) + "\" does not exist, skipping"}
		}
		b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", indexShown(n.Index))
	}
	return &RenameIndex{Ref: *ref, To: string(n.NewName)}
}

func (b *builder) splitAt(n *tree.TableIndexName, rows *tree.Select, s *SplitAt) Statement {
	if n.Index != "" {
		ref := b.indexRef(n)
		if ref == nil {
			b.fail(sqlstate.UndefinedObject, nil, "index \"%s\" does not exist", n.Index)
		}
		s.Table, s.Index = ref.Table, ref.Index
	} else {
		s.Table = b.table(&n.Table)
		if s.Table.Kind != catalog.KindTable {
			b.fail(sqlstate.WrongObjectType, &n.Table, "\"%s\" is not a table", s.Table.Name)
		}
		s.Index = s.Table.Primary()
	}
	if rows == nil {
		return s
	}
	sc := &scope{level: &level{}}
	out := b.selectQuery(rows, sc, true)
	if len(out.cols) > len(s.Index.Columns) {
		b.fail(sqlstate.SyntaxError, firstExpr(rows), "too many columns in SPLIT AT data")
	}
	ts := make([]*types.T, len(out.cols))
	for i := range ts {
		ts[i] = s.Table.Column(s.Index.Columns[i].Column).Type
		if f := out.cols[i].t; f.Kind != types.KindUnknown && !types.CanCast(f, ts[i], types.CastAssignment) {
			b.fail(sqlstate.DatatypeMismatch, firstExpr(rows), "SPLIT AT data column %d must be of type %s, not type %s", i+1, ts[i].Name(), f.Name())
		}
	}
	b.retype(&out, ts, types.CastAssignment)
	s.Rows = b.finish(b.queryOf(&out, "SELECT"))
	return s
}

func (b *builder) createDatabase(n *tree.CreateDatabase) Statement {
	c := &CreateDatabase{Name: string(n.Name), IfNotExists: n.IfNotExists, PrimaryRegion: string(n.PrimaryRegion), Owner: b.role(n.Owner)}
	if n.Owner.Name == "" {
		c.Owner = b.View.CurrentUser()
	}
	for _, r := range n.Regions {
		c.Regions = append(c.Regions, string(r))
	}
	c.SurviveRegion = n.SurvivalGoal == tree.SurvivalGoalRegionFailure
	if n.Encoding != "" && !strings.EqualFold(n.Encoding, "utf8") && !strings.EqualFold(n.Encoding, "utf-8") && !strings.EqualFold(n.Encoding, "unicode") {
		b.fail(sqlstate.FeatureNotSupported, nil, "encoding \"%s\" is not supported: databases are UTF8", n.Encoding)
	}
	return c
}

func (b *builder) createView(n *tree.CreateView) Statement {
	if n.Materialized {
		b.fail(sqlstate.FeatureNotSupported, nil, "materialized views are not supported")
	}
	v := &CreateView{Replace: n.Replace, IfNotExists: n.IfNotExists, Temporary: n.Persistence.IsTemporary()}
	v.Name = b.newName(string(n.Name.CatalogName), string(n.Name.SchemaName), string(n.Name.ObjectName))
	b.tableNames = map[*tree.TableName]*catalog.Table{}
	b.expandStar = true
	out := b.selectQuery(n.AsSource, &scope{level: &level{}}, false)
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

func (b *builder) createSequence(n *tree.CreateSequence) Statement {
	s := &CreateSequence{IfNotExists: n.IfNotExists, Temporary: n.Persistence.IsTemporary()}
	s.Name = b.newName(string(n.Name.CatalogName), string(n.Name.SchemaName), string(n.Name.ObjectName))
	s.Definition = catalog.Sequence{Type: types.Int8, Increment: 1, Cache: 1}
	o := b.sequenceOptions(n.Options, &s.Definition, true)
	s.OwnerTable, s.OwnerColumn = o.table, o.column
	return s
}

func (b *builder) alterSequence(n *tree.AlterSequence) Statement {
	t := b.alterTarget(n.Name, n.IfExists)
	if t == nil {
		return &AlterSequence{}
	}
	if t.Kind != catalog.KindSequence {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a sequence", t.Name)
	}
	a := &AlterSequence{Table: t, Definition: *t.Sequence}
	o := b.sequenceOptions(n.Options, &a.Definition, false)
	a.Restart, a.OwnerTable, a.OwnerColumn, a.OwnerNone = o.restart, o.table, o.column, o.none
	return a
}

type sequenceOwner struct {
	table   *catalog.Table
	column  string
	none    bool
	restart *int64
}

// sequenceOptions applies options to a definition and fills in what is not given.
func (b *builder) sequenceOptions(opts tree.SequenceOptions, d *catalog.Sequence, create bool) sequenceOwner {
	var o sequenceOwner
	var minGiven, maxGiven, startGiven bool
	restart := false
	for _, opt := range opts {
		val := func() int64 {
			if opt.IntVal == nil {
				return 0
			}
			return *opt.IntVal
		}
		switch opt.Name {
		case tree.SeqOptAs:
			if opt.AsIntegerType != nil {
				old := d.Type
				d.Type = b.grammarType(opt.AsIntegerType)
				if !create && old != nil {
					_, hi := intRange(old)
					if d.Max == hi {
						d.Max = 0
						maxGiven = false
						_, d.Max = intRange(d.Type)
					}
				}
			}
		case tree.SeqOptCycle:
			d.Cycle = true
		case tree.SeqOptNoCycle:
			d.Cycle = false
		case tree.SeqOptCache, tree.SeqOptCacheNode:
			if d.Cache = val(); d.Cache < 1 {
				b.fail(sqlstate.InvalidParameterValue, nil, "CACHE (%d) must be greater than zero", d.Cache)
			}
		case tree.SeqOptIncrement:
			if d.Increment = val(); d.Increment == 0 {
				b.fail(sqlstate.InvalidParameterValue, nil, "INCREMENT must not be zero")
			}
		case tree.SeqOptMinValue:
			if opt.IntVal != nil {
				d.Min, minGiven = val(), true
			}
		case tree.SeqOptMaxValue:
			if opt.IntVal != nil {
				d.Max, maxGiven = val(), true
			}
		case tree.SeqOptStart:
			d.Start, startGiven = val(), true
		case tree.SeqOptRestart:
			restart = true
			if opt.IntVal != nil {
				o.restart = opt.IntVal
			}
		case tree.SeqOptOwnedBy:
			if opt.ColumnItemVal == nil {
				o.none = true
				break
			}
			tn := opt.ColumnItemVal.TableName
			if tn == nil {
				raise(sqlstate.New(sqlstate.SyntaxError, "invalid OWNED BY option").WithHint("Specify OWNED BY table.column or OWNED BY NONE."))
			}
			o.table = b.alterTarget(tn, false)
			o.column = string(opt.ColumnItemVal.ColumnName)
			b.existingColumn(o.table, opt.ColumnItemVal.ColumnName)
		case tree.SeqOptVirtual:
			b.fail(sqlstate.FeatureNotSupported, nil, "virtual sequences are not supported")
		}
	}
	lo, hi := intRange(d.Type)
	if create {
		if !minGiven {
			d.Min = 1
			if d.Increment < 0 {
				d.Min = lo
			}
		}
		if !maxGiven {
			d.Max = hi
			if d.Increment < 0 {
				d.Max = -1
			}
		}
		if !startGiven {
			d.Start = d.Min
			if d.Increment < 0 {
				d.Start = d.Max
			}
		}
	}
	switch {
	case d.Min < lo:
		b.fail(sqlstate.InvalidParameterValue, nil, "MINVALUE (%d) is out of range for sequence data type %s", d.Min, d.Type.Name())
	case d.Max > hi:
		b.fail(sqlstate.InvalidParameterValue, nil, "MAXVALUE (%d) is out of range for sequence data type %s", d.Max, d.Type.Name())
	case d.Min >= d.Max:
		b.fail(sqlstate.InvalidParameterValue, nil, "MINVALUE (%d) must be less than MAXVALUE (%d)", d.Min, d.Max)
	case d.Start < d.Min:
		b.fail(sqlstate.InvalidParameterValue, nil, "START value (%d) cannot be less than MINVALUE (%d)", d.Start, d.Min)
	case d.Start > d.Max:
		b.fail(sqlstate.InvalidParameterValue, nil, "START value (%d) cannot be greater than MAXVALUE (%d)", d.Start, d.Max)
	}
	if restart && o.restart == nil {
		v := d.Start
		o.restart = &v
	}
	return o
}

func intRange(t *types.T) (lo, hi int64) {
	switch t.Kind {
	case types.KindInt2:
		return -1 << 15, 1<<15 - 1
	case types.KindInt4:
		return -1 << 31, 1<<31 - 1
	}
	return -1 << 63, 1<<63 - 1
}

// constText is the text of a constant storage parameter.
func constText(e tree.Expr) string {
	switch v := e.(type) {
	case *tree.StrVal:
		return v.RawString()
	case *tree.UnresolvedName:
		return v.Parts[0]
	case nil:
		return "true"
	}
	return tree.AsString(e)
}

// ignoredParams keeps storage parameters that have no effect here, and says so.
func (b *builder) ignoredParams(ps tree.StorageParams, into map[string]string) []Notice {
	var ns []Notice
	for _, p := range ps {
		key := strings.ToLower(p.Key)
		if into != nil {
			into[key] = constText(p.Value)
		}
		ns = append(ns, Notice{Severity: "NOTICE", Code: "00000", Message: "storage parameter \"" + key + "\" is ignored"})
	}
	return ns
}

// constraintExpr binds a stored condition over a table's columns and returns its text and what it reads.
func (b *builder) constraintExpr(e tree.Expr, t *catalog.Table, clause string) (string, []string) {
	ids, sc := b.newRow(t, t.Name)
	c := &exprContext{scope: sc, clause: clause, noSubquery: true}
	x := b.boolean(c, e)
	var cols []string
	scalar.Columns(x, func(id scalar.ColumnID) {
		for i := range ids {
			if ids[i] == id {
				for _, s := range cols {
					if s == t.Columns[i].Name {
						return
					}
				}
				cols = append(cols, t.Columns[i].Name)
			}
		}
	})
	return scalar.Format(x), cols
}
