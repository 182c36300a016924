package bind

import (
	"slices"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// MaxInterleaved is the number of tables above each other in a hierarchy: seven, as in Spanner.
const MaxInterleaved = 7

func errInterleave(hint, format string, args ...any) error {
	return sqlstate.New(sqlstate.InvalidObjectDefinition, format, args...).WithHint("%s", hint)
}

// interleave is INTERLEAVE IN PARENT: the primary key begins with the parent's, and a foreign key gives each row its parent. Whether the keys fit together is checked again when the
// table is made (MayInterleave), by which time the parent does not change any more.
func (d *tableDef) interleave(ct *CreateTable, in *parse.Interleave, located, partitioned bool) {
	b := d.b
	unsupported := func(what, hint string) {
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "INTERLEAVE IN PARENT is not supported for %s", what).WithHint("%s", hint))
	}
	switch {
	case d.temporary:
		unsupported("temporary tables", "Their rows are in the memory of the session. Use a foreign key.")
	case ct.AsQuery:
		unsupported("CREATE TABLE AS", "Create the table with its primary key, and INSERT ... SELECT.")
	case !ct.Protocol.Traits().Interleaving.Can():
		unsupported("tables of the commit protocol "+ct.Protocol.String(), "Leave out "+catalog.ProtocolOption+". "+string(ct.Protocol.Traits().Interleaving))
	case partitioned:
		unsupported("tables with PARTITION BY", "The rows are where those of the root are: partition that.")
	}
	parent := b.lookupTable(in.Parent.Database, in.Parent.Schema, in.Parent.Name)
	switch {
	case parent == nil && in.Parent.Name == d.name.Name && (in.Parent.Schema == "" || in.Parent.Schema == d.name.Schema):
		raise(errInterleave("Name another table, or use a foreign key that refers to the table itself.", "table \"%s\" can't be interleaved in itself", d.name.Name))
	case parent == nil:
		b.fail(sqlstate.UndefinedTable, nil, "relation \"%s\" does not exist", in.Parent.String())
	case parent.Kind != catalog.KindTable || parent.Materialized || parent.ID < catalog.FirstUserID:
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a table", parent.Name)
	case parent.Temporary():
		b.fail(sqlstate.InvalidTableDefinition, nil, "a permanent table can't be interleaved in the temporary table \"%s\"", parent.Name)
	case b.databaseOf(parent) != d.name.Database:
		b.fail(sqlstate.FeatureNotSupported, nil, "table \"%s\" can't be interleaved in a table of another database", d.name.Name)
	}
	if !located {
		ct.Locality = parent.Locality
	} else if ct.Locality != parent.Locality {
		raise(errInterleave("Leave out LOCALITY: the rows are where those of the parent are.", "table \"%s\" can't have another locality than its parent \"%s\"", d.name.Name, parent.Name))
	}
	key := parent.Primary()
	if parent.ImplicitPrimary {
		raise(errInterleave("Give the parent a primary key.", "table \"%s\" has no primary key by which rows could be interleaved", parent.Name))
	}
	var own []IndexColumnDef
	deferrable := false
	for _, c := range d.constraints {
		if c.Kind == PrimaryKey {
			own, deferrable = c.Columns, c.Deferrable
		}
	}
	names := make([]string, len(key.Columns))
	for i, k := range key.Columns {
		names[i] = parent.Column(k.Column).Name
	}
	hint := "Begin the primary key with the columns of the parent's, in their order: (" + strings.Join(names, ", ") + ")."
	if deferrable {
		unsupported("tables with a deferrable primary key", "Make the key NOT DEFERRABLE.")
	}
	if len(own) < len(names) {
		raise(errInterleave(hint, "the primary key of table \"%s\" does not begin with that of its parent \"%s\"", d.name.Name, parent.Name))
	}
	own = own[:len(names)]
	if in.Columns != nil {
		same := len(in.Columns) == len(own)
		for i := range own {
			same = same && in.Columns[i] == own[i].Name
		}
		if !same {
			raise(errInterleave(hint, "the columns of INTERLEAVE IN PARENT are not the first %d of the primary key of table \"%s\"", len(own), d.name.Name))
		}
	}
	k := ConstraintDef{Kind: ForeignKey, RefTable: parent, RefColumns: names}
	switch {
	case in.Cascade:
		k.OnDelete = catalog.Cascade
	case in.Restrict:
		k.OnDelete = catalog.Restrict
	}
	for _, c := range own {
		k.Columns = append(k.Columns, IndexColumnDef{Name: c.Name})
	}
	d.constraint(k)
	ct.Parent, ct.ParentKey = parent, d.constraints[len(d.constraints)-1].Name
}

// MayInterleave refuses a table whose rows can't be stored among those of its parent.
func MayInterleave(t, parent *catalog.Table) error {
	switch {
	case !parent.Traits().Interleaving.Can():
		return sqlstate.New(sqlstate.FeatureNotSupported, "table \"%s\" can't be interleaved in table \"%s\", whose commit protocol is %s", t.Name, parent.Name, parent.Protocol).
			WithHint("Use a foreign key, or ALTER TABLE ... SET (%s = 'leader') first.", catalog.ProtocolOption)
	case parent.ByRow() || t.ByRow():
		return sqlstate.New(sqlstate.FeatureNotSupported, "a table with LOCALITY REGIONAL BY ROW can't be interleaved, nor have interleaved tables").
			WithHint("Use a foreign key. The region column keeps a row and its parent in one region.")
	case len(parent.AsAncestors()) >= MaxInterleaved:
		return sqlstate.New(sqlstate.ProgramLimitExceeded, "tables can be interleaved %d deep at most", MaxInterleaved)
	}
	if t.Locality != parent.Locality {
		return errInterleave("Leave out LOCALITY: the rows are where those of the parent are.", "table \"%s\" can't have another locality than its parent \"%s\"", t.Name, parent.Name)
	}
	key, own := parent.Primary().Columns, t.Primary().Columns
	for i := range t.Foreign {
		if k := &t.Foreign[i]; t.InterleavedBy(k.ID) && !slices.EqualFunc(k.RefColumns, key, func(id catalog.ColumnID, c catalog.IndexColumn) bool { return c.Column == id }) {
			return sqlstate.New(sqlstate.SerializationFailure, "the primary key of table \"%s\" was changed at the same time", parent.Name)
		}
	}
	if len(own) < len(key) {
		return errInterleave("Begin the primary key with the columns of the parent's.", "the primary key of table \"%s\" does not begin with that of its parent \"%s\"", t.Name, parent.Name)
	}
	for i := range key {
		a, b := parent.Column(key[i].Column), t.Column(own[i].Column)
		switch {
		case !a.Type.Equal(b.Type):
			return errInterleave("The columns have the same types and directions as the parent's.", "column \"%s\" of table \"%s\" has another type than column \"%s\" of its parent \"%s\": %s and %s",
				b.Name, t.Name, a.Name, parent.Name, b.Type.Name(), a.Type.Name())
		case key[i].Desc != own[i].Desc:
			return errInterleave("The columns have the same types and directions as the parent's.", "column \"%s\" of the primary key of table \"%s\" has another direction than column \"%s\" of its parent \"%s\"",
				b.Name, t.Name, a.Name, parent.Name)
		case a.Type.Kind == types.KindInterval || a.Type.Phys() == types.PhysArray:
			return sqlstate.New(sqlstate.FeatureNotSupported, "a table whose primary key has a column of type %s can't have interleaved tables", a.Type.Name()).
				WithHint("Equal values of the type may have different keys, or its keys can't be divided.")
		}
	}
	return nil
}
