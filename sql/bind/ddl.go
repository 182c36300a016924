package bind

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
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
	case *tree.CreateType:
		return b.createType(n)
	case *tree.AlterType:
		return b.alterEnum(n)
	case *tree.DropType:
		return b.dropType(n)
	case *tree.CreateDatabase:
		return b.createDatabase(n)
	case *tree.CreateSchema:
		return b.createSchema(n)
	case *tree.DropTable:
		return b.dropRelations(catalog.KindTable, false, n.Names, n.IfExists, n.DropBehavior)
	case *tree.DropView:
		if n.IsMaterialized {
			return b.dropRelations(catalog.KindTable, true, n.Names, n.IfExists, n.DropBehavior)
		}
		return b.dropRelations(catalog.KindView, false, n.Names, n.IfExists, n.DropBehavior)
	case *tree.RefreshMaterializedView:
		return b.refreshView(n)
	case *tree.DropSequence:
		return b.dropRelations(catalog.KindSequence, false, n.Names, n.IfExists, n.DropBehavior)
	case *tree.DropIndex:
		return b.dropIndex(n)
	case *tree.DropDatabase:
		return &DropDatabase{Name: string(n.Name), IfExists: n.IfExists, Cascade: n.DropBehavior == tree.DropCascade, Force: b.stmt.Force}
	case *tree.DropSchema:
		return b.dropSchema(n)
	case *tree.AlterTable:
		return b.alterTable(n)
	case *tree.RenameTable:
		return b.renameTable(n)
	case *tree.RenameColumn:
		return b.renameColumn(n)
	case *tree.AlterTableOwner:
		return b.act(b.alter(b.alterTarget(n.Name, n.IfExists), n.Name), &OwnerTo{Owner: b.role(n.Owner)})
	case *tree.AlterTableSetSchema:
		return b.act(b.alter(b.alterTarget(n.Name, n.IfExists), n.Name), &SetSchema{Schema: string(n.Schema)})
	case *tree.AlterTableLocality:
		return b.setLocality(n)
	case *tree.RenameIndex:
		return b.renameIndex(n)
	case *tree.RenameDatabase:
		return &AlterDatabase{Name: string(n.Name), Rename: string(n.NewName)}
	case *tree.AlterDatabaseOwner:
		return &AlterDatabase{Name: string(n.Name), Owner: b.role(n.Owner)}
	case *tree.AlterDatabasePrimaryRegion:
		return &AlterDatabase{Name: string(n.Name), Region: &SetPrimaryRegion{string(n.PrimaryRegion)}}
	case *tree.AlterDatabaseAddRegion:
		return &AlterDatabase{Name: string(n.Name), Region: &AddRegion{string(n.Region), n.IfNotExists}}
	case *tree.AlterDatabaseDropRegion:
		return &AlterDatabase{Name: string(n.Name), Region: &DropRegion{string(n.Region), n.IfExists}}
	case *tree.AlterDatabaseSurvivalGoal:
		return &AlterDatabase{Name: string(n.Name), Region: &SetSurvival{b.survival(n.SurvivalGoal)}}
	case *tree.AlterDatabasePlacement:
		return &AlterDatabase{Name: string(n.Name), Region: &SetPlacement{n.Placement == tree.DataPlacementRestricted}}
	case *tree.AlterDatabaseSecondaryRegion:
		return &AlterDatabase{Name: string(n.DatabaseName), Region: &SetSecondaryRegion{string(n.SecondaryRegion)}}
	case *tree.AlterDatabaseDropSecondaryRegion:
		return &AlterDatabase{Name: string(n.DatabaseName), Region: &DropSecondaryRegion{n.IfExists}}
	case *tree.AlterDatabaseAddSuperRegion:
		return &AlterDatabase{Name: string(n.DatabaseName), Region: &AddSuperRegion{b.superRegion(n.SuperRegionName, n.Regions)}}
	case *tree.AlterDatabaseAlterSuperRegion:
		return &AlterDatabase{Name: string(n.DatabaseName), Region: &AlterSuperRegion{b.superRegion(n.SuperRegionName, n.Regions)}}
	case *tree.AlterDatabaseDropSuperRegion:
		return &AlterDatabase{Name: string(n.DatabaseName), Region: &DropSuperRegion{string(n.SuperRegionName)}}
	case *tree.AlterSchema:
		return b.alterSchema(n)
	case *tree.AlterSequence:
		return b.alterSequence(n)
	case *tree.SetZoneConfig:
		return b.configureZone(n)
	case *tree.AlterDatabaseSetZoneConfigExtension:
		return b.zoneExtension(n)
	case *tree.AlterIndex:
		return b.alterIndexPartitions(n)
	case *tree.ShowPartitions:
		return b.showPartitions(n)
	case *tree.ShowZoneConfig:
		return b.showZone(n)
	case *tree.Split:
		if n.ExpireExpr != nil {
			b.fail(sqlstate.FeatureNotSupported, nil, "SPLIT AT ... WITH EXPIRATION is not supported")
		}
		return b.splitAt(&n.TableOrIndex, n.Rows, &SplitAt{})
	case *tree.Unsplit:
		return b.splitAt(&n.TableOrIndex, n.Rows, &SplitAt{Unsplit: true, All: n.All})
	case *tree.Scatter:
		if len(n.From)+len(n.To) > 0 {
			b.fail(sqlstate.FeatureNotSupported, nil, "SCATTER of a part of a table is not supported")
		}
		return b.splitAt(&n.TableOrIndex, nil, &SplitAt{Scatter: true})
	}
	b.fail(sqlstate.FeatureNotSupported, nil, "%s is not supported", n.StatementTag())
	return nil
}

// createSchema binds CREATE SCHEMA, whose name is its owner's if it has none.
func (b *builder) createSchema(n *tree.CreateSchema) Statement {
	name := string(n.Schema.SchemaName)
	owner := b.role(n.AuthRole)
	if name == "" {
		if name = owner; name == parse.CurrentRole || name == parse.SessionRole {
			name = b.View.CurrentUser()
		}
	}
	if strings.HasPrefix(name, "pg_") {
		raise(sqlstate.New(sqlstate.ReservedName, "unacceptable schema name \"%s\"", name).WithDetail("The prefix \"pg_\" is reserved for system schemas."))
	}
	b.withinDatabase(string(n.Schema.CatalogName), name)
	return &CreateSchema{Database: b.database(string(n.Schema.CatalogName)), Name: name, IfNotExists: n.IfNotExists, Owner: owner}
}

// dropSchema binds DROP SCHEMA.
func (b *builder) dropSchema(n *tree.DropSchema) Statement {
	d := &DropSchema{Database: b.View.CurrentDatabase(), IfExists: n.IfExists, Cascade: n.DropBehavior == tree.DropCascade}
	for _, s := range n.Names {
		if s.ExplicitCatalog {
			b.withinDatabase(string(s.CatalogName), string(s.SchemaName))
		}
		d.Names = append(d.Names, string(s.SchemaName))
	}
	return d
}

// alterSchema binds ALTER SCHEMA.
func (b *builder) alterSchema(n *tree.AlterSchema) Statement {
	b.withinDatabase(string(n.Schema.CatalogName), string(n.Schema.SchemaName))
	a := &AlterSchema{Database: b.database(string(n.Schema.CatalogName)), Name: string(n.Schema.SchemaName)}
	switch c := n.Cmd.(type) {
	case *tree.AlterSchemaRename:
		a.Rename = string(c.NewName)
	case *tree.AlterSchemaOwner:
		a.Owner = b.role(c.Owner)
	}
	return a
}

// renameTable binds ALTER TABLE ... RENAME TO.
func (b *builder) renameTable(n *tree.RenameTable) Statement {
	t := b.alterTarget(n.Name, n.IfExists)
	a := b.alter(t, n.Name)
	if n.NewName.NumParts > 1 && t != nil && n.NewName.Parts[1] != b.schemaOf(t) {
		b.fail(sqlstate.FeatureNotSupported, n.NewName, "renaming into another schema is not supported")
	}
	return b.act(a, &RenameRelation{To: n.NewName.Parts[0]})
}

// renameColumn binds RENAME COLUMN that is a statement of its own.
func (b *builder) renameColumn(n *tree.RenameColumn) Statement {
	t := b.lookupTable(string(n.Table.CatalogName), string(n.Table.SchemaName), string(n.Table.ObjectName))
	if t == nil {
		if !n.IfExists {
			b.undefinedTable(&n.Table)
		}
		return &AlterTable{}
	}
	b.existingColumn(t, n.Name)
	return &AlterTable{Table: t, Actions: []AlterAction{&RenameColumn{From: string(n.Name), To: string(n.NewName)}}}
}

func (b *builder) role(r tree.RoleSpec) string {
	switch r.RoleSpecType {
	case tree.CurrentUser:
		return parse.CurrentRole
	case tree.SessionUser:
		return parse.SessionRole
	}
	return r.Name
}

func (b *builder) database(name string) string {
	if name == "" {
		return b.View.CurrentDatabase()
	}
	return name
}

// newRelation is newName for a relation that may be temporary, by the statement's TEMPORARY or by the schema's name.
func (b *builder) newRelation(database, schema, name string, temporary bool) (Name, bool) {
	own := schema == catalog.TemporarySchema
	if strings.HasPrefix(schema, catalog.TemporarySchema+"_") {
		s, err := b.View.Schema(b.ctx, b.database(database), schema)
		check(err)
		own = s != nil && catalog.IsLocal(s.ID)
	}
	if temporary && schema != "" && !own {
		b.fail(sqlstate.InvalidTableDefinition, nil, "cannot create temporary relation in non-temporary schema")
	}
	if !temporary && !own {
		// The first schema of the search path may be the temporary one.
		if path := b.View.SearchPath(); schema != "" || len(path) == 0 || path[0] != catalog.TemporarySchema {
			return b.newName(database, schema, name), false
		}
	}
	b.withinDatabase(database, "", name)
	return Name{Database: b.database(database), Schema: catalog.TemporarySchema, Name: name}, true
}

// newName is the full name of an object to be created.
func (b *builder) newName(database, schema, name string) Name {
	b.withinDatabase(database, schema, name)
	n := Name{Database: b.database(database), Schema: schema, Name: name}
	if database == "" && schema == n.Database {
		// database.table
		if s, err := b.View.Schema(b.ctx, n.Database, schema); err == nil && s == nil {
			n.Schema = "public"
		}
	}
	db, err := b.View.Database(b.ctx, n.Database)
	check(err)
	if db == nil {
		b.fail(sqlstate.InvalidCatalogName, n.Database, "database \"%s\" does not exist", n.Database)
	}
	if db.IsTemplate() {
		raise(UnchangedTemplate(n.Database))
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
			check(err)
			if sc != nil && b.View.Access().Check(b.View.CurrentUser(), sc.ID, catalog.Usage) == nil {
				n.Schema = s
				break
			}
		}
		if n.Schema == "" {
			b.fail(sqlstate.InvalidSchemaName, name, "no schema has been selected to create in")
		}
	} else {
		sc, err := b.View.Schema(b.ctx, n.Database, n.Schema)
		check(err)
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

// dropRelations resolves DROP TABLE, VIEW and SEQUENCE.
func (b *builder) dropRelations(kind catalog.Kind, materialized bool, names tree.TableNames, ifExists bool, behavior tree.DropBehavior) Statement {
	d := &DropRelation{Kind: kind, Materialized: materialized, Cascade: behavior == tree.DropCascade}
	word := kindWord(kind)
	if materialized {
		word = "materialized view"
	}
	for i := range names {
		n := &names[i]
		t := b.lookupTable(string(n.CatalogName), string(n.SchemaName), string(n.ObjectName))
		if t == nil {
			schema := b.hasSchema(string(n.SchemaName))
			switch {
			case !ifExists && !schema:
				b.fail(sqlstate.InvalidSchemaName, nil, "schema \"%s\" does not exist", n.SchemaName)
			case !ifExists:
				b.fail(sqlstate.UndefinedTable, nil, "%s \"%s\" does not exist", word, n.ObjectName)
			case !schema:
				d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "schema \"" + string(n.SchemaName) + "\" does not exist, skipping"})
				continue
			}
			d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: word + " \"" + string(n.ObjectName) + "\" does not exist, skipping"})
			continue
		}
		if t.Kind != kind || t.Materialized != materialized {
			e := sqlstate.New(sqlstate.WrongObjectType, "\"%s\" is not a %s", t.Name, word)
			switch t.Kind {
			case catalog.KindTable:
				if t.Materialized {
					e.Hint = "Use DROP MATERIALIZED VIEW to remove a materialized view."
					break
				}
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
	if f := strings.Fields(b.stmt.Text()); len(f) > 1 {
		switch strings.ToLower(f[1]) {
		case "view":
			a.As = catalog.KindView
		case "sequence":
			a.As = catalog.KindSequence
		case "materialized":
			if t != nil && !t.Materialized {
				b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a materialized view", t.Name)
			}
			a.Materialized = true
		}
	}
	if t != nil {
		b.kindIs(t, a.As == catalog.KindView, a.As == catalog.KindSequence, n)
	}
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

// pickName chooses a free name for an object that the user did not name, as PostgreSQL does: the table's name, the columns' names if there are
// any, and a suffix with a number if the name is taken. Where the name is too long, the longer one of the table's and the columns' part is cut.
func pickName(taken func(string) bool, suffix, table string, columns ...string) string {
	column := strings.Join(columns, "_")
	for i := 0; ; i++ {
		tail := "_" + suffix
		if i > 0 {
			tail += itoa(i)
		}
		first, second := len(table), len(column)
		room := maxName - len(tail)
		if len(columns) > 0 {
			room--
		}
		if over := first + second - room; over > 0 {
			// The longer part is cut down to the shorter one's length, then both are, the columns' part first.
			longer, shorter := &first, &second
			if second > first {
				longer, shorter = shorter, longer
			}
			cut := min(over, *longer-*shorter)
			*longer -= cut
			over -= cut
			first -= over / 2
			second -= over - over/2
		}
		name := clip(table, first)
		if len(columns) > 0 {
			name += "_" + clip(column, second)
		}
		if name += tail; !taken(name) {
			return name
		}
	}
}

// maxName is the most bytes that PostgreSQL keeps of a name.
const maxName = 63

// clip is the longest prefix of whole characters within a number of bytes.
func clip(s string, bytes int) string {
	if bytes >= len(s) {
		return s
	}
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes]
}

// indexColumnNames are the names by which the columns of an index, included ones last, are part of the index's name: a column that is there
// already has a number.
func indexColumnNames(keys []IndexColumnDef, storing []string) []string {
	var names []string
	add := func(column string) {
		name := column
		for i := 1; slices.Contains(names, name); i++ {
			n := itoa(i)
			name = clip(column, maxName-len(n)) + n
		}
		names = append(names, name)
	}
	for _, k := range keys {
		add(k.Name)
	}
	for _, s := range storing {
		add(s)
	}
	return names
}

// relationNameTaken reports whether a relation or an index of the table has the name.
func (b *builder) relationNameTaken(database, schema, name string, t *catalog.Table) bool {
	if t != nil {
		for i := range t.Indexes {
			if t.Indexes[i].Name == name && !(t.Indexes[i].Primary && t.ImplicitPrimary) {
				return true
			}
		}
	}
	if x, err := b.View.Table(b.ctx, database, schema, name); err == nil && x != nil {
		return true
	}
	return b.findIndex(database, schema, name) != nil
}

func (b *builder) createDatabase(n *tree.CreateDatabase) Statement {
	c := &CreateDatabase{Name: string(n.Name), IfNotExists: n.IfNotExists, Owner: b.role(n.Owner), Regions: b.databaseRegions(n)}
	if n.Owner.Name == "" {
		c.Owner = b.View.CurrentUser()
	}
	seen := map[string]bool{}
	for _, o := range b.stmt.Database {
		if seen[o.Name] {
			b.fail(sqlstate.SyntaxError, nil, "conflicting or redundant options")
		}
		seen[o.Name] = true
		b.databaseOption(o)
	}
	return c
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

// constraintExpr binds a stored condition over a table's columns, and returns its text and the columns that it reads.
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
	return scalar.FormatStored(x), cols
}
