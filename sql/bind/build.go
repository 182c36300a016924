package bind

import (
	"meridian/sql/catalog"
)

// Descriptor makes the descriptor of the table. oid gives identities to indexes and constraints, for pg_class and
// pg_constraint. The caller adds the sequences of serial columns (OwnsSequence), and the ReferencedBy of other tables.
func (c *CreateTable) Descriptor(id, database, schema catalog.ID, owner string, oid func() catalog.ID) *catalog.Table {
	t := &catalog.Table{ID: id, Version: 1, Name: c.Name.Name, Database: database, Schema: schema, Kind: catalog.KindTable, Owner: owner,
		Locality: c.Locality, Protocol: c.Protocol, Ballots: c.Ballots, Gamma: c.Gamma, ImplicitPrimary: c.ImplicitPrimary, NextColumn: 1, NextIndex: 1, NextConstr: 1}
	if len(c.Options) > 0 {
		t.Options = c.Options
	}
	for i := range c.Columns {
		AppendColumn(t, &c.Columns[i])
	}
	if c.RegionColumn != "" {
		t.RegionColumn = t.ColumnByName(c.RegionColumn).ID
	}
	for i := range c.Constraints {
		if k := &c.Constraints[i]; k.Kind == PrimaryKey && !k.Deferrable {
			AppendIndex(t, k.Index(), oid()).Constraint = true
		}
	}
	for i := range c.Constraints {
		if k := &c.Constraints[i]; k.Kind == PrimaryKey && k.Deferrable {
			AppendIndex(t, k.Index(), oid()).Constraint = true
		}
	}
	for i := range c.Constraints {
		switch k := &c.Constraints[i]; k.Kind {
		case Unique:
			AppendIndex(t, k.Index(), oid()).Constraint = true
		case Check:
			AppendCheck(t, k, oid())
		case ForeignKey:
			AppendForeignKey(t, k, oid())
		}
	}
	for i := range c.Indexes {
		AppendIndex(t, &c.Indexes[i], oid())
	}
	if c.Partitioning != nil {
		t.Primary().Partitioning = c.Partitioning
	}
	if c.Parent != nil {
		for i := range t.Foreign {
			if t.Foreign[i].Name == c.ParentKey {
				t.Interleave = &catalog.Interleave{Ancestors: c.Parent.AsAncestors(), Foreign: t.Foreign[i].ID}
			}
		}
	}
	t.Materialized, t.View, t.DependsOn, t.Keyed = c.Materialized, c.View, c.DependsOn, c.Keyed
	return t
}

// Descriptor makes the descriptor of the view.
func (v *CreateView) Descriptor(id, database, schema catalog.ID, owner string) *catalog.Table {
	t := &catalog.Table{ID: id, Version: 1, Name: v.Name.Name, Database: database, Schema: schema, Kind: catalog.KindView, Owner: owner,
		View: v.Query, DependsOn: v.DependsOn, Keyed: v.Keyed, NextColumn: 1}
	if v.Invoker {
		t.Options = map[string]string{catalog.SecurityInvoker: "true"}
	}
	for i := range v.Columns {
		AppendColumn(t, &v.Columns[i])
	}
	return t
}

// Index is the index that backs a PRIMARY KEY or UNIQUE constraint.
func (k *ConstraintDef) Index() *IndexDef {
	return &IndexDef{Name: k.Name, Unique: !k.Deferrable, Deferrable: k.Deferrable, Deferred: k.Deferred, Primary: k.Kind == PrimaryKey && !k.Deferrable, Key: k.Kind == PrimaryKey && k.Deferrable,
		Columns: k.Columns, Storing: k.Storing, Predicate: k.Predicate, Partitioning: k.Partitioning}
}

// AppendColumn adds a column to a descriptor under construction.
func AppendColumn(t *catalog.Table, c *ColumnDef) *catalog.Column {
	t.Columns = append(t.Columns, catalog.Column{ID: t.NextColumn, Name: c.Name, Type: c.Type, NotNull: c.NotNull, Default: c.Default,
		Hidden: c.Hidden, Comment: c.Comment, Identity: c.Identity, Generated: c.Generated, OnUpdate: c.OnUpdate})
	t.NextColumn++
	return &t.Columns[len(t.Columns)-1]
}

// AppendIndex adds an index, public, to a descriptor under construction; its columns exist.
func AppendIndex(t *catalog.Table, d *IndexDef, oid catalog.ID) *catalog.Index {
	ix := catalog.Index{ID: t.NextIndex, OID: oid, Name: d.Name, Unique: d.Unique, Primary: d.Primary, Predicate: d.Predicate, Deferrable: d.Deferrable, Deferred: d.Deferred, Key: d.Key,
		Partitioning: d.Partitioning}
	t.NextIndex++
	for _, k := range d.Columns {
		if c := t.ColumnByName(k.Name); c != nil {
			ix.Columns = append(ix.Columns, catalog.IndexColumn{Column: c.ID, Desc: k.Desc, Class: k.Class})
		}
	}
	for _, s := range d.Storing {
		if c := t.ColumnByName(s); c != nil {
			ix.Stored = append(ix.Stored, c.ID)
		}
	}
	if t.ByRow() {
		ix.LeadWithRegion(t.RegionColumn)
	}
	t.Indexes = append(t.Indexes, ix)
	return &t.Indexes[len(t.Indexes)-1]
}

// AppendCheck adds a CHECK constraint.
func AppendCheck(t *catalog.Table, k *ConstraintDef, oid catalog.ID) *catalog.Check {
	c := catalog.Check{ID: t.NextConstr, OID: oid, Name: k.Name, Expr: k.Expr}
	t.NextConstr++
	if k.NotValid {
		c.State = catalog.WriteOnly
	}
	for _, n := range k.ExprColumns {
		if col := t.ColumnByName(n); col != nil {
			c.Columns = append(c.Columns, col.ID)
		}
	}
	t.Checks = append(t.Checks, c)
	return &t.Checks[len(t.Checks)-1]
}

// AppendForeignKey adds a FOREIGN KEY; if it refers to the table itself, its ReferencedBy too.
func AppendForeignKey(t *catalog.Table, k *ConstraintDef, oid catalog.ID) *catalog.ForeignKey {
	f := catalog.ForeignKey{ID: t.NextConstr, OID: oid, Name: k.Name, OnDelete: k.OnDelete, OnUpdate: k.OnUpdate, MatchFull: k.MatchFull,
		Deferrable: k.Deferrable, Deferred: k.Deferred}
	t.NextConstr++
	if k.NotValid {
		f.State = catalog.WriteOnly
	}
	ref := k.RefTable
	if k.RefSelf || ref == nil {
		ref = t
	}
	f.RefTable = ref.ID
	for _, c := range k.Columns {
		if col := t.ColumnByName(c.Name); col != nil {
			f.Columns = append(f.Columns, col.ID)
		}
	}
	for _, n := range k.SetColumns {
		if col := t.ColumnByName(n); col != nil {
			f.SetColumns = append(f.SetColumns, col.ID)
		}
	}
	for _, n := range k.RefColumns {
		if col := ref.ColumnByName(n); col != nil {
			f.RefColumns = append(f.RefColumns, col.ID)
		}
	}
	if ref == t {
		t.ReferencedBy = append(t.ReferencedBy, catalog.Reference{Table: t.ID, Constraint: f.ID})
	}
	t.Foreign = append(t.Foreign, f)
	return &t.Foreign[len(t.Foreign)-1]
}
