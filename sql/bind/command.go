package bind

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// queryOf makes a query of a bound output.
func (b *builder) queryOf(out *output, tag string) *opt.Query {
	q := &opt.Query{Meta: b.meta, Root: out.rel, Tag: tag, Order: out.order}
	for _, c := range out.cols {
		q.Output = append(q.Output, opt.OutputColumn{Name: c.name, Col: c.id, Type: c.t})
	}
	return q
}

// sub binds a generated text as a query, with the given parameter types.
func (b *builder) sub(sql string, params []*types.T) *Query {
	stmt, err := parse.ParseOne(sql)
	if err != nil {
		panic(fmt.Sprintf("bind: %v in %s", err, sql))
	}
	return b.subStatement(stmt, params)
}

func (b *builder) subStatement(stmt *parse.Statement, params []*types.T) *Query {
	saved := b.Binder.ParamTypes
	b.Binder.ParamTypes = params
	defer func() { b.Binder.ParamTypes = saved }()
	s, err := b.Binder.newBuilder(b.ctx, stmt).statement()
	check(err)
	q, ok := s.(*Query)
	if !ok {
		raise(sqlstate.New(sqlstate.SyntaxError, "a query is needed here"))
	}
	return q
}

// named resolves a relation by a name of package parse.
func (b *builder) named(n Name) *catalog.Table {
	t := b.lookupTable(n.Database, n.Schema, n.Name)
	if t == nil {
		b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", Name{Schema: n.Schema, Name: n.Name})
	}
	b.uses(t)
	return t
}

// command binds the commands of package parse that name relations.
func (b *builder) command(n any) Statement {
	switch n := n.(type) {
	case *parse.Show:
		return b.show(n)
	case *parse.Copy:
		return b.copyStmt(n)
	case *parse.Vacuum:
		v := &Vacuum{Analyze: n.Analyze}
		v.Tables = b.analyzed(n.Tables, n.Columns)
		return v
	case *parse.Analyze:
		return &Analyze{Tables: b.analyzed(n.Tables, n.Columns)}
	case *parse.DropMissing:
		return b.dropMissing(n)
	case *parse.AlterStorage:
		return b.alterStorage(n)
	case *parse.AlterDatabase:
		return b.alterDatabase(n)
	case *parse.PlacementOption:
		return b.placementOption(n)
	case *parse.SetPlacement:
		return b.setPlacement(n)
	case *parse.AlterConstraint:
		return b.alterConstraint(n)
	case *parse.LockTable:
		l := &LockTable{Mode: n.Mode, NoWait: n.NoWait}
		for _, name := range n.Tables {
			l.Tables = append(l.Tables, b.named(name))
		}
		return l
	case *parse.Truncate:
		t := &Truncate{RestartIdentity: n.RestartIdentity, Cascade: n.Cascade}
		for _, name := range n.Tables {
			tab := b.named(name)
			if tab.Kind != catalog.KindTable || tab.Materialized {
				b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a table", tab.Name)
			}
			t.Tables = append(t.Tables, tab)
		}
		return t
	case *parse.Comment:
		return b.comment(n)
	case *parse.Grant:
		return b.grant(n)
	}
	b.fail(sqlstate.FeatureNotSupported, nil, "this statement is not supported")
	return nil
}

// analyzed finds the tables of ANALYZE and VACUUM; columns that the statement names must exist.
func (b *builder) analyzed(names []Name, columns [][]string) (tables []*catalog.Table) {
	for i, name := range names {
		t := b.named(name)
		for k, col := range columns[i] {
			b.existingColumn(t, tree.Name(col))
			if slices.Contains(columns[i][:k], col) {
				b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" of relation \"%s\" appears more than once", col, t.Name)
			}
		}
		tables = append(tables, t)
	}
	return tables
}

func (b *builder) comment(n *parse.Comment) Statement {
	c := &Comment{Kind: n.Kind, Name: n.Name, Column: n.Column, Text: n.Text}
	switch n.Kind {
	case "TABLE", "VIEW", "SEQUENCE", "MATERIALIZED VIEW":
		c.Table = b.named(n.Name)
		kind := map[string]catalog.Kind{"TABLE": catalog.KindTable, "VIEW": catalog.KindView, "SEQUENCE": catalog.KindSequence, "MATERIALIZED VIEW": catalog.KindTable}[n.Kind]
		if c.Table.Kind != catalog.KindVirtual && c.Table.Kind != kind || c.Table.Materialized != (n.Kind == "MATERIALIZED VIEW") {
			b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a %s", c.Table.Name, strings.ToLower(n.Kind))
		}
	case "COLUMN":
		c.Table = b.named(n.Name)
		if c.Table.ColumnByName(n.Column) == nil {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" of relation \"%s\" does not exist", n.Column, c.Table.Name)
		}
	case "TYPE":
		c.Type = b.typeNamed(n.Name)
	case "CONSTRAINT":
		c.Table, c.Constraint = b.named(n.Name), n.Constraint
	case "INDEX":
		ref := b.namedIndex(b.database(n.Name.Database), n.Name.Schema, n.Name.Name)
		if ref == nil {
			if t := b.lookupTable(n.Name.Database, n.Name.Schema, n.Name.Name); t != nil {
				b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not an index", t.Name)
			}
			b.fail(sqlstate.UndefinedTable, n.Name.Name, "relation \"%s\" does not exist", n.Name.Name)
		}
		c.Table, c.Index = ref.Table, ref.Index
	}
	return c
}

func (b *builder) grant(n *parse.Grant) Statement {
	g := &Grant{Revoke: n.Revoke, GrantOption: n.GrantOption, Cascade: n.Cascade, Privileges: n.Privileges, Roles: n.Roles,
		Grantees: n.Grantees, Grantor: n.Grantor}
	switch {
	case n.Roles != nil:
	case n.Kind == "TABLE" || n.Kind == "SEQUENCE":
		for _, o := range n.Objects {
			t := b.named(o)
			if n.Kind == "SEQUENCE" && t.Kind != catalog.KindSequence {
				b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a sequence", t.Name)
			}
			g.Objects = append(g.Objects, t.ID)
		}
		if n.Kind == "SEQUENCE" {
			g.Class = catalog.ClassSequence
		}
	case n.Kind == "DATABASE":
		g.Class = catalog.ClassDatabase
		for _, o := range n.Objects {
			db, err := b.View.Database(b.ctx, o.Name)
			check(err)
			if db == nil || o.Schema != "" {
				b.fail(sqlstate.InvalidCatalogName, nil, "database \"%s\" does not exist", o.Name)
			}
			if db.IsTemplate() {
				raise(UnchangedTemplate(o.Name))
			}
			g.Objects = append(g.Objects, db.ID)
		}
	case n.Kind == "SCHEMA":
		g.Class = catalog.ClassSchema
		for _, o := range n.Objects {
			g.Objects = append(g.Objects, b.existingSchema(o).ID)
		}
	case n.Kind == "TYPE":
		g.Class = catalog.ClassType
		for _, o := range n.Objects {
			g.Objects = append(g.Objects, b.typeNamed(o).ID)
		}
	case n.Kind == "ALL TABLES IN SCHEMA" || n.Kind == "ALL SEQUENCES IN SCHEMA":
		if n.Kind == "ALL SEQUENCES IN SCHEMA" {
			g.Class = catalog.ClassSequence
		}
		ts, err := b.View.Tables(b.ctx, b.View.CurrentDatabase())
		check(err)
		for _, o := range n.Objects {
			s := b.existingSchema(o)
			for _, t := range ts {
				if t.Kind != catalog.KindVirtual && t.Schema == s.ID && (t.Kind == catalog.KindSequence) == (g.Class == catalog.ClassSequence) {
					g.Objects = append(g.Objects, t.ID)
				}
			}
		}
	default:
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "GRANT and REVOKE on %s are not supported", plural(strings.ToLower(n.Kind))).
			WithHint("Privileges are on tables, views, sequences, schemas, types and databases."))
	}
	return g
}

// plural is the plural of a kind of object.
func plural(kind string) string {
	if strings.HasPrefix(kind, "all ") {
		return kind
	}
	return kind + "s"
}

// existingSchema finds a schema by the last part of a name, the first of which may be the database.
func (b *builder) existingSchema(n Name) *catalog.Schema {
	b.withinDatabase(n.Schema, n.Name)
	name := n.Name
	s, err := b.View.Schema(b.ctx, b.View.CurrentDatabase(), name)
	check(err)
	if s == nil {
		b.fail(sqlstate.InvalidSchemaName, nil, "schema \"%s\" does not exist", name)
	}
	return s
}

// copyStmt binds COPY: TO is a query, FROM is an INSERT over one parameter for each column.
func (b *builder) copyStmt(n *parse.Copy) Statement {
	c := &Copy{From: n.From, Target: n.Target, Program: n.Program, Options: n.Options}
	if n.Target != "" {
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "COPY to or from a file or program on the server is not supported").
			WithHint("Use COPY TO STDOUT or COPY FROM STDIN; psql's \\copy works for files of the client."))
	}
	if n.Query != nil {
		c.Query = b.subStatement(n.Query, nil)
		for _, o := range c.Query.Output {
			c.Names = append(c.Names, o.Name)
		}
		if len(c.Names) == 0 {
			b.fail(sqlstate.FeatureNotSupported, nil, "COPY query must have a RETURNING clause")
		}
		return c
	}
	t := b.named(n.Table)
	if n.From && t.Materialized {
		b.fail(sqlstate.WrongObjectType, nil, "cannot copy to materialized view \"%s\"", t.Name)
	}
	if n.From && t.Kind != catalog.KindTable {
		b.fail(sqlstate.WrongObjectType, nil, "cannot copy to %s \"%s\"", kindWord(t.Kind), t.Name)
	}
	if !n.From && (t.Kind != catalog.KindTable && t.Kind != catalog.KindVirtual || t.Materialized) {
		kind := kindWord(t.Kind)
		if t.Materialized {
			kind = "materialized view"
		}
		e := sqlstate.New(sqlstate.WrongObjectType, "cannot copy from %s \"%s\"", kind, t.Name)
		if t.Kind != catalog.KindSequence {
			e = e.WithHint("Try the COPY (SELECT ...) TO variant.")
		}
		raise(e)
	}
	c.Table = t
	if n.Columns == nil {
		for i := range t.Columns {
			col := &t.Columns[i]
			if col.State == catalog.Public && !col.Hidden && col.Generated == "" {
				c.Columns = append(c.Columns, i)
			}
		}
	}
	for _, name := range n.Columns {
		o := -1
		for i := range t.Columns {
			if t.Columns[i].Name == name && t.Columns[i].State == catalog.Public {
				o = i
			}
		}
		if o < 0 {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" of relation \"%s\" does not exist", name, t.Name)
		}
		for _, x := range c.Columns {
			if x == o {
				b.fail(sqlstate.DuplicateColumn, nil, "column \"%s\" specified more than once", name)
			}
		}
		if t.Columns[o].Generated != "" {
			raise(sqlstate.New(sqlstate.InvalidColumnReference, "column \"%s\" is a generated column", name).
				WithDetail("Generated columns cannot be used in COPY."))
		}
		c.Columns = append(c.Columns, o)
	}
	var list, params []string
	var ts []*types.T
	for i, o := range c.Columns {
		c.Names = append(c.Names, t.Columns[o].Name)
		list = append(list, parse.QuoteIdent(t.Columns[o].Name))
		params = append(params, "$"+itoa(i+1))
		ts = append(ts, t.Columns[o].Type.Bare())
	}
	name := n.Table.Quoted()
	if !n.From {
		c.Query = b.sub("SELECT "+strings.Join(list, ", ")+" FROM "+name, nil)
		return c
	}
	if len(list) == 0 {
		c.Insert = b.sub("INSERT INTO "+name+" DEFAULT VALUES", nil)
		return c
	}
	c.Insert = b.sub("INSERT INTO "+name+" ("+strings.Join(list, ", ")+") OVERRIDING SYSTEM VALUE VALUES ("+strings.Join(params, ", ")+")", ts)
	return c
}

// show binds SHOW: most lists are queries over pg_catalog, whose view is the session's.
func (b *builder) show(n *parse.Show) Statement {
	if q := b.showObjects(n); q != nil {
		return q
	}
	if q := b.showRegions(n); q != nil {
		return q
	}
	switch n.What {
	case "TRANSACTION RETRIES":
		return b.sub("SELECT kind, count, description FROM meridian_internal.retries", nil)
	case "UNIVERSE":
		return b.sub("SELECT region, zone, nodes, live, suspect, dead, draining, state, leaders, replicas, size, arriving, leaving, epsilon FROM meridian_internal.universe ORDER BY 1, 2", nil)
	case "PLACEMENTS":
		return b.sub("SELECT placement_name, num_replicas, num_voters, constraints, voter_constraints, lease_preferences FROM meridian_internal.placements ORDER BY 1", nil)
	case "DIRECTORIES":
		cond := ""
		if n.From != "" {
			cond = " WHERE table_id = " + itoa(int(b.named(n.Name).ID))
		}
		return b.sub("SELECT table_name, prefix, placement, source, ranges, replicas, wanted, size, state, reason FROM meridian_internal.directories"+cond+" ORDER BY schema_name, table_name, place", nil)
	case "CLUSTER CLOCKS":
		return b.sub("SELECT node_id, clock_offset, error, max_offset, measured_at, state, source, epsilon FROM meridian_internal.clocks ORDER BY node_id", nil)
	case "JOBS":
		return b.sub("SELECT job_id, job_type, description, status, fraction_completed, created, finished, error FROM meridian_internal.jobs ORDER BY created", nil)
	case "SESSIONS", "QUERIES":
		return b.sub("SELECT node_id, pid, user_name, database_name, application_name, client_address, status, query, query_start FROM meridian_internal.sessions ORDER BY pid", nil)
	case "NODES":
		return b.sub("SELECT node_id, address, sql_address, locality, is_live, version, started_at, ranges, leases FROM meridian_internal.nodes ORDER BY node_id", nil)
	case "CLUSTER SETTINGS":
		return b.sub("SELECT variable, value, setting_type, default_value, description FROM meridian_internal.cluster_settings ORDER BY 1", nil)
	}
	s := &Show{What: n.What, Details: n.Details, Database: b.database(n.Name.Database)}
	switch n.What {
	case "CREATE TABLE", "CREATE VIEW", "CREATE SEQUENCE", "STATISTICS":
		s.Table = b.named(n.Name)
	case "RANGES":
		b.showRanges(n, s)
	case "GRANTS":
		if n.Name.Name != "" && (n.From == "" || n.From == "TABLE") {
			s.Table = b.named(n.Name)
		}
	}
	return s
}

// showObjects binds those forms of SHOW that are queries about schemas, roles and tables; it is nil for another one.
func (b *builder) showObjects(n *parse.Show) Statement {
	const userSchemas = " n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'meridian_internal')"
	switch n.What {
	case "SCHEMAS":
		b.withinDatabase(n.Name.Name)
		return b.sub("SELECT nspname AS schema_name, pg_catalog.pg_get_userbyid(nspowner) AS owner FROM pg_catalog.pg_namespace ORDER BY 1", nil)
	case "USERS", "ROLES":
		return b.sub("SELECT rolname AS username, CASE WHEN rolsuper THEN 'SUPERUSER' WHEN NOT rolcanlogin THEN 'NOLOGIN' ELSE '' END AS options FROM pg_catalog.pg_roles ORDER BY 1", nil)
	case "TABLES", "SEQUENCES", "VIEWS":
		kinds, columns, join := "'r', 'v', 'S'", "", ""
		switch n.What {
		case "TABLES":
			columns, join = ", x.estimated_row_count, x.locality", " LEFT JOIN meridian_internal.tables x ON x.table_id = c.oid"
		case "SEQUENCES":
			kinds = "'S'"
		case "VIEWS":
			kinds = "'v'"
		}
		cond := userSchemas
		if s := n.Name.Name; s != "" {
			if sc, err := b.View.Schema(b.ctx, b.View.CurrentDatabase(), s); err != nil || sc != nil {
				cond = " n.nspname = " + parse.QuoteLiteral(s)
			} else if s != b.View.CurrentDatabase() {
				b.fail(sqlstate.InvalidSchemaName, s, "schema \"%s\" does not exist", s)
			}
		}
		return b.sub(`SELECT n.nspname AS schema_name, c.relname AS table_name,
			CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' END AS type,
			pg_catalog.pg_get_userbyid(c.relowner) AS owner`+columns+`
			FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace`+join+`
			WHERE c.relkind IN (`+kinds+`) AND`+cond+` ORDER BY 1, 2`, nil)
	case "COLUMNS":
		t := b.named(n.Name)
		return b.sub(fmt.Sprintf(`SELECT a.attname AS column_name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS data_type, NOT a.attnotnull AS is_nullable,
			(SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum) AS column_default
			FROM pg_catalog.pg_attribute a WHERE a.attrelid = %d AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, t.ID), nil)
	case "INDEXES":
		// The relation has only the indexes of users' tables.
		cond := ""
		if n.From == "DATABASE" {
			b.withinDatabase(n.Name.Name)
		} else {
			cond = fmt.Sprintf(" WHERE table_id = %d", b.named(n.Name).ID)
		}
		return b.sub("SELECT table_name, index_name, non_unique, seq_in_index, column_name, definition, direction, storing, implicit, visible"+
			" FROM meridian_internal.index_columns"+cond+" ORDER BY table_name, index_name, seq_in_index", nil)
	case "CONSTRAINTS":
		t := b.named(n.Name)
		return b.sub(fmt.Sprintf(`SELECT t.relname AS table_name, c.conname AS constraint_name,
			CASE c.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' WHEN 'f' THEN 'FOREIGN KEY' WHEN 'c' THEN 'CHECK' END AS constraint_type,
			pg_catalog.pg_get_constraintdef(c.oid) AS details, c.convalidated AS validated
			FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_class t ON t.oid = c.conrelid WHERE c.conrelid = %d ORDER BY 2`, t.ID), nil)
	}
	return nil
}

// showRanges finds the table, index or database whose ranges are shown.
func (b *builder) showRanges(n *parse.Show, s *Show) {
	switch n.From {
	case "TABLE":
		s.Table = b.named(n.Name)
		if n.Index != "" {
			s.Index = b.indexByName(s.Table, n.Index)
		}
	case "INDEX":
		if n.Index != "" {
			s.Table = b.named(n.Name)
			s.Index = b.indexByName(s.Table, n.Index)
			break
		}
		ref := b.namedIndex(b.database(n.Name.Database), n.Name.Schema, n.Name.Name)
		if ref == nil {
			b.fail(sqlstate.UndefinedObject, nil, "index \"%s\" does not exist", n.Name.Name)
		}
		s.Table, s.Index = ref.Table, ref.Index
	case "DATABASE":
		db, err := b.View.Database(b.ctx, n.Name.Database)
		check(err)
		if db == nil {
			b.fail(sqlstate.InvalidCatalogName, nil, "database \"%s\" does not exist", n.Name.Database)
		}
	}
	if s.Table != nil && s.Table.Kind != catalog.KindTable && s.Table.Kind != catalog.KindSequence {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a table", s.Table.Name)
	}
}

// LocksTables reports whether a statement is going to lock the tables that it names exclusively, and whether it waits for other
// locks.
func LocksTables(stmt *parse.Statement) (bool, kv.WaitPolicy) {
	switch n := stmt.Node.(type) {
	case *tree.AlterTable, *tree.CreateIndex, *tree.DropIndex, *tree.DropTable, *parse.Truncate:
		return true, kv.Block
	case *parse.LockTable:
		wait := kv.Block
		if n.NoWait {
			wait = kv.NoWait
		}
		return n.Mode != "ACCESS SHARE" && n.Mode != "ROW SHARE" && n.Mode != "ROW EXCLUSIVE", wait
	}
	return false, kv.Block
}
