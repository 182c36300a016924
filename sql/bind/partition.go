package bind

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// SetPartitioning is ALTER TABLE or ALTER INDEX ... PARTITION BY; nil is PARTITION BY NOTHING.
type SetPartitioning struct {
	Index        catalog.IndexID
	Partitioning *catalog.Partitioning
}

func (*SetPartitioning) alterAction() {}

// partitioner binds the partitionings of one index.
type partitioner struct {
	b     *builder
	keys  []IndexColumnDef
	types func(column string) *types.T
	names map[string]bool
}

// partitioning binds PARTITION BY on an index with some key columns; nil is NOTHING.
func (b *builder) partitioning(n *tree.PartitionBy, keys []IndexColumnDef, of *catalog.Table) *catalog.Partitioning {
	if n == nil {
		return nil
	}
	p := &partitioner{b: b, keys: keys, types: func(c string) *types.T { return of.ColumnByName(c).Type }, names: map[string]bool{}}
	return p.bind(n, 0)
}

// mayPartition refuses partitions in a database with regions, which has its own; kind is what would be partitioned.
func (b *builder) mayPartition(database, kind string) {
	db, err := b.View.Database(b.ctx, database)
	check(err)
	if db != nil && db.MultiRegion() {
		b.dependsOn(db.ID, db.Version)
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "PARTITION BY on %s is not supported in a multi-region database", kind).
			WithHint("LOCALITY REGIONAL BY ROW gives rows a region each."))
	}
	if db != nil {
		b.dependsOn(db.ID, db.Version)
	}
}

func (p *partitioner) fail(code sqlstate.Code, format string, args ...any) {
	p.b.fail(code, nil, format, args...)
}

func (p *partitioner) bind(n *tree.PartitionBy, before int) *catalog.Partitioning {
	var fields, have []string
	for _, f := range n.Fields {
		fields = append(fields, string(f))
	}
	for _, k := range p.keys[min(before, len(p.keys)):] {
		have = append(have, k.Name)
	}
	if len(fields) > len(have) || !slices.Equal(fields, have[:len(fields)]) {
		raise(sqlstate.New(sqlstate.InvalidObjectDefinition, "partition columns (%s) are not the first columns of the index (%s)", strings.Join(fields, ", "), strings.Join(have, ", ")).
			WithHint("The key of the index begins with the columns that it is partitioned by, in their order."))
	}
	columns := p.keys[before : before+len(fields)]
	out := &catalog.Partitioning{Columns: len(fields), Range: len(n.Range) > 0}
	for i := range n.List {
		l := &n.List[i]
		q := catalog.Partition{Name: p.name(l.Name)}
		for _, e := range l.Exprs {
			q.Values = append(q.Values, p.value(q.Name, e, columns))
		}
		if l.Subpartition != nil {
			for _, v := range q.Values {
				if v.Values < len(fields) {
					p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\": a partition with DEFAULT has no partitions within it", q.Name)
				}
			}
			q.Sub = p.bind(l.Subpartition, before+len(fields))
		}
		out.Partitions = append(out.Partitions, q)
	}
	for i := range n.Range {
		r := &n.Range[i]
		q := catalog.Partition{Name: p.name(r.Name)}
		if r.Subpartition != nil {
			p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\": a partition by range has no partitions within it", q.Name)
		}
		from, to := p.end(q.Name, r.From, columns), p.end(q.Name, r.To, columns)
		if !boundKey(&from).Less(boundKey(&to)) {
			p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\" is empty: (%s) is not before (%s)", q.Name, from.Text, to.Text)
		}
		q.From, q.To = &from, &to
		out.Partitions = append(out.Partitions, q)
	}
	p.apart(out)
	return out
}

func boundKey(b *catalog.Bound) keys.Key {
	// Some prefix, so that MAXVALUE has an end.
	k := append(keys.Key{1}, b.Key...)
	if b.End {
		return k.PrefixEnd()
	}
	return k
}

func (p *partitioner) name(n tree.Name) string {
	if p.names[string(n)] {
		p.fail(sqlstate.DuplicateObject, "partition \"%s\" is defined more than once", n)
	}
	p.names[string(n)] = true
	return string(n)
}

// apart refuses partitions that overlap.
func (p *partitioner) apart(out *catalog.Partitioning) {
	for i := range out.Partitions {
		q := &out.Partitions[i]
		for k := range i + 1 {
			o := &out.Partitions[k]
			if out.Range {
				if k < i && boundKey(q.From).Less(boundKey(o.To)) && boundKey(o.From).Less(boundKey(q.To)) {
					p.fail(sqlstate.InvalidObjectDefinition, "partitions \"%s\" and \"%s\" overlap", o.Name, q.Name)
				}
				continue
			}
			for v := range q.Values {
				for w := range o.Values {
					if k == i && w >= v {
						continue
					}
					if q.Values[v].Values == o.Values[w].Values && bytes.Equal(q.Values[v].Key, o.Values[w].Key) {
						p.fail(sqlstate.InvalidObjectDefinition, "(%s) is in partition \"%s\" and in partition \"%s\"", q.Values[v].Text, o.Name, q.Name)
					}
				}
			}
		}
	}
}

// value binds a tuple of PARTITION BY LIST.
func (p *partitioner) value(partition string, e tree.Expr, columns []IndexColumnDef) catalog.Bound {
	parts := tree.Exprs{e}
	if t, ok := unparen(e).(*tree.Tuple); ok {
		parts = t.Exprs
	} else if _, ok := e.(tree.DefaultVal); ok {
		// DEFAULT alone stands for all columns.
		parts = nil
		for range columns {
			parts = append(parts, e)
		}
	}
	return p.tuple(partition, parts, columns, false)
}

// end binds a tuple at the end of a range.
func (p *partitioner) end(partition string, parts tree.Exprs, columns []IndexColumnDef) catalog.Bound {
	return p.tuple(partition, parts, columns, true)
}

func (p *partitioner) tuple(partition string, parts tree.Exprs, columns []IndexColumnDef, isEnd bool) catalog.Bound {
	if len(parts) != len(columns) {
		p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\" has %d columns, but %d values were given", partition, len(columns), len(parts))
	}
	var out catalog.Bound
	var texts []string
	word := ""
	for i, e := range parts {
		c := columns[i]
		next := ""
		switch n := unparen(e).(type) {
		case tree.DefaultVal:
			next = "DEFAULT"
		case *tree.UnresolvedName: // the grammar reads them as names
			if w := strings.ToUpper(n.Parts[0]); n.NumParts == 1 && (w == "MINVALUE" || w == "MAXVALUE") {
				next = w
			}
		}
		switch {
		case word != "" && next != word:
			p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\": after %s all values are %s", partition, word, word)
		case next == "DEFAULT" && isEnd:
			p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\": a partition by range has no DEFAULT", partition)
		case next != "" && next != "DEFAULT" && !isEnd:
			p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\": a partition by list has no %s", partition, next)
		case isEnd && c.Desc:
			p.fail(sqlstate.FeatureNotSupported, "partition \"%s\": PARTITION BY RANGE of a column in descending order is not supported", partition)
		}
		if word = next; word != "" {
			out.End = word == "MAXVALUE"
			texts = append(texts, word)
			continue
		}
		t := p.types(c.Name)
		x := p.b.expr(&exprContext{scope: &scope{level: &level{}}, clause: "partition bounds", noSubquery: true}, e)
		if from := x.Type(); from.Kind != types.KindUnknown && !types.CanCast(from, t, types.CastAssignment) {
			p.fail(sqlstate.DatatypeMismatch, "partition \"%s\": column \"%s\" is of type %s, and the value of type %s", partition, c.Name, t.Name(), from.Name())
		}
		k, ok := scalar.Fold(p.b.coerce(x, t, types.CastAssignment, e)).(*scalar.Const)
		if !ok {
			p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\": the value of column \"%s\" is not a constant", partition, c.Name)
		}
		if k.Value.IsNull() && isEnd {
			p.fail(sqlstate.InvalidObjectDefinition, "partition \"%s\": NULL is not the end of a range", partition)
		}
		dir := encoding.Ascending
		if c.Desc {
			dir = encoding.Descending
		}
		var err error
		out.Key, err = rowcode.AppendKeyDatum(out.Key, k.Value, dir)
		check(err)
		out.Values++
		texts = append(texts, constantText(k.Value, t))
	}
	out.Text = strings.Join(texts, ", ")
	return out
}

// constantText is a value as SQL, of which the column's type is known.
func constantText(d types.Datum, t *types.T) string {
	switch {
	case d.IsNull():
		return "NULL"
	case t.IsInteger() || t.Kind == types.KindBool:
		if s := types.FormatText(d, t, nil); t.Kind != types.KindBool {
			return s
		} else if s == "t" {
			return "true"
		}
		return "false"
	}
	return parse.QuoteLiteral(types.FormatText(d, t, nil))
}

// keysOf are the key columns of an index, without those that the user did not write.
func keysOf(t *catalog.Table, x *catalog.Index) (out []IndexColumnDef) {
	for _, k := range x.Columns[x.Implicit:] {
		if c := t.Column(k.Column); c != nil {
			out = append(out, IndexColumnDef{Name: c.Name, Desc: k.Desc, Class: k.Class})
		}
	}
	return out
}

// alterIndexPartitions binds ALTER INDEX ... PARTITION BY.
func (b *builder) alterIndexPartitions(n *tree.AlterIndex) Statement {
	ref := b.indexRef(&n.Index)
	if ref == nil {
		if n.IfExists {
			return &Noop{Tag: "ALTER INDEX", Notice: "relation \"" + indexShown(&n.Index) + "\" does not exist, skipping"}
		}
		b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", indexShown(&n.Index))
	}
	b.uses(ref.Table)
	a := &AlterTable{Table: ref.Table, As: catalog.KindTable, Index: ref.Index.Name}
	for _, cmd := range n.Cmds {
		by, ok := cmd.(*tree.AlterIndexPartitionBy)
		if !ok {
			b.fail(sqlstate.FeatureNotSupported, nil, "this form of ALTER INDEX is not supported")
		}
		b.mayPartition(b.databaseOf(ref.Table), "an index")
		b.noTemporaryPartitions(ref.Table.Temporary())
		a.Actions = append(a.Actions, &SetPartitioning{Index: ref.Index.ID, Partitioning: b.partitioning(by.PartitionBy, keysOf(ref.Table, ref.Index), ref.Table)})
	}
	return a
}

func (b *builder) noTemporaryPartitions(temporary bool) {
	if temporary {
		b.fail(sqlstate.FeatureNotSupported, nil, "PARTITION BY is not supported for temporary tables")
	}
}

// partitionByTable is PARTITION BY of CREATE TABLE and ALTER TABLE.
func (b *builder) partitionByTable(n *tree.PartitionByTable, database string, keys []IndexColumnDef, of *catalog.Table) *catalog.Partitioning {
	b.mayPartition(database, "a table")
	if n.All {
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "PARTITION ALL BY is not supported").WithHint("Give the table and each of its indexes PARTITION BY."))
	}
	return b.partitioning(n.PartitionBy, keys, of)
}

// noPartitionColumn refuses to change the type of a column by which an index is partitioned: its partitions are spans of encoded values.
func (b *builder) noPartitionColumn(t *catalog.Table, column string) {
	for i := range t.Indexes {
		x := &t.Indexes[i]
		most := 0
		if x.Partitioning != nil {
			most = x.Partitioning.Columns
		}
		x.Partitioning.Each(func(q, _ *catalog.Partition, before int) {
			if q.Sub != nil {
				most = max(most, before+x.Partitioning.Columns+q.Sub.Columns)
			}
		})
		if n := x.DirectoryColumns(); n > 0 {
			for _, k := range x.Columns[:n] {
				if c := t.Column(k.Column); c != nil && c.Name == column {
					raise(sqlstate.New(sqlstate.FeatureNotSupported, "the type of column \"%s\" can't be changed, because directories of table \"%s\" have placements by its values", column, t.Name).
						WithHint("SHOW DIRECTORIES FROM TABLE %s lists them. Take their placements away by ALTER TABLE ... RESET PLACEMENT FOR VALUES (...), and set them again afterwards.", parse.QuoteIdent(t.Name)))
				}
			}
		}
		for _, k := range x.Columns[:min(most, len(x.Columns))] {
			if c := t.Column(k.Column); c != nil && c.Name == column {
				raise(sqlstate.New(sqlstate.FeatureNotSupported, "the type of column \"%s\" can't be changed, because index \"%s\" is partitioned by it", column, x.Name).
					WithHint("ALTER INDEX %s PARTITION BY NOTHING, and partition it again afterwards.", parse.QuoteIdent(x.Name)))
			}
		}
	}
}

// showPartitions binds SHOW PARTITIONS.
func (b *builder) showPartitions(n *tree.ShowPartitions) Statement {
	cond := ""
	switch {
	case n.IsDB:
		b.withinDatabase(b.namedDatabase(string(n.Database)).Name)
	case n.IsIndex:
		in := n.Index
		if in.Index == "" && in.Table.ObjectName == "" {
			b.fail(sqlstate.SyntaxError, nil, "an index is needed")
		}
		ref := b.indexRef(&in)
		if ref == nil {
			b.fail(sqlstate.UndefinedObject, nil, "index \"%s\" does not exist", indexShown(&in))
		}
		cond = " WHERE table_id = " + itoa(int(ref.Table.ID)) + " AND index_id = " + itoa(int(ref.Index.ID))
	default:
		name := n.Table.ToTableName()
		cond = " WHERE table_id = " + itoa(int(b.table(&name).ID))
	}
	return b.sub("SELECT database_name, table_name, partition_name, parent_partition, column_names, index_name, partition_value, zone_config, full_zone_config"+
		" FROM meridian_internal.partitions"+cond+" ORDER BY table_name, index_name, place", nil)
}
