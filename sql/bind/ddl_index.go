package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/idxtype"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// indexKeys converts an index's column list.
func (b *builder) indexKeys(list tree.IndexElemList, of *catalog.Table, t string) []IndexColumnDef {
	has := func(name string) bool { return of.ColumnByName(name) != nil }
	keyType := func(name string) *types.T { return of.ColumnByName(name).Type }
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
				b.failKey(sqlstate.UndefinedColumn, e.Column, "column \"%s\" named in key does not exist", e.Column)
			}
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" does not exist", e.Column)
		}
		for _, o := range out {
			if o.Name == string(e.Column) && t == "" {
				b.failKey(sqlstate.DuplicateColumn, e.Column, "column \"%s\" appears twice in unique constraint", e.Column)
			}
		}
		class := b.operatorClass(string(e.OpClass), keyType(string(e.Column)))
		desc := e.Direction == tree.Descending
		if e.NullsOrder == tree.NullsFirst && !desc || e.NullsOrder == tree.NullsLast && desc {
			b.fail(sqlstate.FeatureNotSupported, e.Column, "this NULLS order is not supported for indexes")
		}
		out = append(out, IndexColumnDef{Name: string(e.Column), Desc: desc, Class: class})
	}
	return out
}

func (b *builder) forwardIndex(t idxtype.T) {
	if t != idxtype.FORWARD {
		b.fail(sqlstate.FeatureNotSupported, nil, "access method \"%s\" is not supported", strings.ToLower(t.String()))
	}
}

// findIndex looks for an index by name through the relations of a schema (all schemas in the search path if empty).
func (b *builder) findIndex(database, schema, name string) *IndexRef {
	ts, err := b.View.Tables(b.ctx, database)
	check(err)
	for _, t := range ts {
		if t.Kind != catalog.KindTable {
			continue
		}
		for i := range t.Indexes {
			ix := &t.Indexes[i]
			if ix.Name != name {
				continue
			}
			if schema != "" && b.schemaOf(t) != schema && !(schema == catalog.TemporarySchema && t.Temporary()) {
				continue
			}
			return &IndexRef{Table: t, Index: ix}
		}
	}
	return nil
}

func (b *builder) createIndex(n *tree.CreateIndex) Statement {
	t := b.tableOf(&n.Table)
	if t.Kind != catalog.KindTable {
		b.fail(sqlstate.WrongObjectType, &n.Table, "cannot create index on relation \"%s\"", t.Name)
	}
	b.forwardIndex(n.Type)
	if n.Sharded != nil {
		b.fail(sqlstate.FeatureNotSupported, nil, "hash-sharded indexes are not supported")
	}
	if n.Predicate != nil {
		b.fail(sqlstate.FeatureNotSupported, n.Predicate, "partial indexes are not supported")
	}
	db, schema := b.databaseOf(t), b.schemaOf(t)
	ci := &CreateIndex{Table: t, Concurrently: n.Concurrently}
	ci.Notices = b.parameters(indexParameters, n.StorageParams, nil)
	ci.Index = IndexDef{Name: string(n.Name), Unique: n.Unique}
	ci.Index.Columns = b.indexKeys(n.Columns, t, t.Name)
	if n.PartitionByIndex.ContainsPartitions() {
		b.mayPartition(db, "an index")
		b.noTemporaryPartitions(t.Temporary())
		ci.Index.Partitioning = b.partitioning(n.PartitionByIndex.PartitionBy, ci.Index.Columns, t)
	}
	if b.stmt.HashIndex {
		switch {
		case n.Unique:
			b.fail(sqlstate.FeatureNotSupported, nil, "access method \"hash\" does not support unique indexes")
		case len(n.Storing) > 0:
			b.fail(sqlstate.FeatureNotSupported, nil, "access method \"hash\" does not support included columns")
		case len(n.Columns) > 1:
			b.fail(sqlstate.FeatureNotSupported, nil, "access method \"hash\" does not support multicolumn indexes")
		}
		ci.Notices = append(ci.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "the index is an ordered one", Hint: "It serves every query that a hash index serves."})
	}
	if n.Invisibility != (tree.IndexInvisibility{}) {
		b.fail(sqlstate.FeatureNotSupported, nil, "invisible indexes are not supported")
	}
	for _, c := range ci.Index.Columns {
		b.indexable(t.ColumnByName(c.Name).Type, c.Name)
	}
	for _, s := range n.Storing {
		if t.ColumnByName(string(s)) == nil {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" does not exist", s)
		}
		ci.Index.Storing = append(ci.Index.Storing, string(s))
	}
	if ci.Index.Name == "" {
		taken := func(s string) bool { return b.relationNameTaken(db, schema, s, t) }
		ci.Index.Name = pickName(taken, "idx", t.Name, indexColumnNames(ci.Index.Columns, ci.Index.Storing)...)
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

// indexRef resolves table@index or a bare index name; nil if there is none.
func (b *builder) indexRef(n *tree.TableIndexName) *IndexRef {
	if n.Table.ObjectName != "" && n.Index != "" {
		t := b.lookupTable(string(n.Table.CatalogName), string(n.Table.SchemaName), string(n.Table.ObjectName))
		if t == nil {
			return nil
		}
		for i := range t.Indexes {
			if ix := &t.Indexes[i]; ix.Name == string(n.Index) || n.Index == "primary" && ix.Primary {
				return &IndexRef{t, ix}
			}
		}
		return nil
	}
	name := string(n.Index)
	if name == "" {
		name = string(n.Table.ObjectName)
	}
	return b.namedIndex(b.database(string(n.Table.CatalogName)), string(n.Table.SchemaName), name)
}

// namedIndex is findIndex for a name in a user's text; the current role needs the right to use its schema.
func (b *builder) namedIndex(database, schema, name string) *IndexRef {
	b.withinDatabase(database, schema, name)
	if schema != "" {
		b.mustUse(database, schema)
	}
	return b.findIndex(database, schema, name)
}

func indexShown(n *tree.TableIndexName) string {
	if n.Index != "" {
		return string(n.Index)
	}
	return string(n.Table.ObjectName)
}

func (b *builder) dropIndex(n *tree.DropIndex) Statement {
	d := &DropIndex{Cascade: n.DropBehavior == tree.DropCascade, Concurrently: n.Concurrently}
	if n.Concurrently && len(n.IndexList) > 1 {
		b.fail(sqlstate.FeatureNotSupported, nil, "DROP INDEX CONCURRENTLY does not support dropping multiple objects")
	}
	if n.Concurrently && d.Cascade {
		b.fail(sqlstate.FeatureNotSupported, nil, "DROP INDEX CONCURRENTLY does not support CASCADE")
	}
	for _, in := range n.IndexList {
		ref := b.indexRef(in)
		if ref == nil {
			schema := string(in.Table.SchemaName)
			switch known := b.hasSchema(schema); {
			case !n.IfExists && !known:
				b.fail(sqlstate.InvalidSchemaName, nil, "schema \"%s\" does not exist", schema)
			case !n.IfExists:
				b.fail(sqlstate.UndefinedObject, nil, "index \"%s\" does not exist", indexShown(in))
			case !known:
				d.Notices = append(d.Notices, Notice{Severity: "NOTICE", Code: "00000", Message: "schema \"" + schema + "\" does not exist, skipping"})
				continue
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
