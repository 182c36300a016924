package schemachange

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/version"
)

// Interleaved tables (docs/decisions/0015-interleaved-tables.md). The descriptor of a table has the way from the root, so that its keys can be made of it alone; so the primary index of
// a table keeps its identity while others are interleaved in it, unless all of them get new ones in the same transaction.

// interleave makes a new table one that is interleaved. Nobody may read the parent without the knowledge that other rows are among its own, so the first time the parent is locked for
// all others (schemachange.SC13); and its writers may not be unaware of the foreign key, as for any.
func (c *change) interleave(t *catalog.Table, with *bind.CreateTable) error {
	if with.Parent == nil {
		return nil
	}
	if !c.o.Leases.Active(version.Interleaved) {
		return sqlstate.New(sqlstate.FeatureNotSupported, "tables can't be interleaved before the upgrade of the cluster is finalized").
			WithHint("Finalize it by meridian upgrade finalize, when all nodes have the later binary.")
	}
	id := with.Parent.ID
	if err := c.mustOwn(id); err != nil {
		return err
	}
	parent := c.current(id)
	if parent == nil {
		return sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", with.Parent.Name)
	}
	out := catalog.ExcludeAll
	if parent.SharesKeys() {
		out = catalog.ExcludeWriters
	}
	if err := c.Catalog.Lock(c.ctx, []catalog.ID{id}, out, kv.Block); err != nil {
		return err
	}
	if parent = c.Catalog.Table(id); parent == nil || parent.Dropped {
		return sqlstate.New(sqlstate.UndefinedTable, "relation \"%s\" does not exist", with.Parent.Name)
	}
	if err := c.awaitRewrite(parent); err != nil {
		return err
	}
	for _, m := range parent.Mutations {
		if m.Kind == catalog.MutateIndex && m.Replaces != 0 {
			return c.Catalog.JobFirst(id)
		}
	}
	if err := bind.MayInterleave(t, parent); err != nil {
		return err
	}
	t.Interleave.Ancestors = parent.AsAncestors()
	if parent.Shared = true; !slices.Contains(parent.Interleaved, t.ID) {
		parent.Interleaved = append(parent.Interleaved, t.ID)
	}
	return nil
}

// leave takes a table that is dropped from its parent's list.
func (c *change) leave(t *catalog.Table) {
	if t.Interleave == nil {
		return
	}
	if d := c.Catalog.Descriptor(t.Parent()); d == nil || d.Table == nil || d.Table.Dropped {
		return
	}
	parent := c.Catalog.Table(t.Parent())
	parent.Interleaved = slices.DeleteFunc(parent.Interleaved, func(id catalog.ID) bool { return id == t.ID })
}

// notInHierarchy refuses a change that would move the rows of a table away from those that are interleaved with them.
func notInHierarchy(t *catalog.Table, what string) error {
	switch {
	case t.Interleave != nil:
		return sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported for table \"%s\", which is interleaved in another", what, t.Name).
			WithHint("Make a new table and copy the rows by INSERT ... SELECT.")
	case len(t.Interleaved) > 0:
		return sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported for table \"%s\", in which others are interleaved", what, t.Name).
			WithHint("Drop the tables that are interleaved in it first.")
	}
	return nil
}

// keepsParent refuses to drop the foreign key by which the rows of an interleaved table have their parents.
func (c *change) keepsParent(t *catalog.Table, constraint uint32) error {
	if !t.InterleavedBy(constraint) || t.Dropped {
		return nil
	}
	parent := c.current(t.Parent())
	name := "another table"
	if parent != nil {
		name = "table " + c.name(parent)
	}
	return sqlstate.New(sqlstate.DependentObjectsExist, "table %s is interleaved in %s, and can't be separated from it", c.name(t), name).
		WithHint("Drop table %s first, or in the same statement.", c.name(t))
}

// renamed tells the tables below a truncated one the new identity of its primary index; all of them are truncated too.
func (c *change) renamed(t *catalog.Table, from, to catalog.IndexID) error {
	for _, id := range t.Interleaved {
		if err := c.renamedAbove(id, t.ID, from, to); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) renamedAbove(id, table catalog.ID, from, to catalog.IndexID) error {
	t := c.Catalog.Table(id)
	if t == nil || t.Dropped {
		return nil
	}
	in := *t.Interleave
	in.Ancestors = slices.Clone(in.Ancestors)
	for i := range in.Ancestors {
		if a := &in.Ancestors[i]; a.Table == table && a.Index == from {
			a.Index = to
		}
	}
	t.Interleave = &in
	for _, below := range t.Interleaved {
		if err := c.renamedAbove(below, table, from, to); err != nil {
			return err
		}
	}
	return nil
}

// removedRows are the rows of a table that is dropped or truncated, among those of others.
type removedRows struct {
	Span  keys.Span
	Table catalog.ID
	Index catalog.IndexID // zero: of any
}

// lostRows are the rows of an interleaved table that nothing leads to any more, unless they go with the whole index of the root. index is the primary index that was replaced; zero: the table
// is dropped.
func lostRows(cat *lease.Txn, base *catalog.Table, index catalog.IndexID) []removedRows {
	if base == nil || base.Interleave == nil {
		return nil
	}
	root, rootIndex := base.Root()
	d := cat.Descriptor(root)
	if d == nil || d.Table == nil || d.Table.Dropped || d.Table.Index(rootIndex) == nil {
		return nil
	}
	return []removedRows{{keys.IndexSpan(root, rootIndex), base.ID, index}}
}

// hierarchyHolds is the last check of a change before it is written: every interleaved table has its parent, and the way to it.
//
//	schemachange.SC13 (I2, I7): Rows of a table that is interleaved exist only while every version of the parent in use has Shared, and its primary index has the identity that the
//	    table's descriptor names. The first table is made under the parent's lock; afterwards the flag is never taken away, since the rows of a dropped table are removed later. A
//	    transaction that drops the parent, or gives its primary index another identity, does the same for all that are interleaved in it, or fails.
func hierarchyHolds(cat *lease.Txn, t *catalog.Table) error {
	for _, id := range t.Interleaved {
		d := cat.Descriptor(id)
		if d == nil || d.Table == nil || d.Table.Dropped {
			continue
		}
		child := d.Table
		if t.Dropped {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop table %s because table %s is interleaved in it", t.Name, child.Name).
				WithHint("Drop table %s first, or in the same statement.", child.Name)
		}
		if as := child.Interleave.Ancestors; !slices.Equal(as, t.AsAncestors()) {
			return sqlstate.New(sqlstate.FeatureNotSupported, "the rows of table \"%s\" can't be moved while table \"%s\" is interleaved in it", t.Name, child.Name).
				WithHint("Drop the interleaved table first.")
		}
	}
	return nil
}

// removedFilter wants the rows of a removal.
type removedFilter struct{ removedRows }

func (f removedFilter) Owns(k keys.Key) bool      { return rowcode.RemovedFrom(k, f.Table, f.Index) }
func (f removedFilter) After(k keys.Key) keys.Key { return k.Next() }

// Before is for scans against the order of the keys, which the removal does not make.
func (f removedFilter) Before(k keys.Key) keys.Key { return k }

// removeRows deletes rows of a table that no descriptor leads to, one by one: others are among them.
func (e *Executor) removeRows(ctx context.Context, r removedRows) error {
	for next := &r.Span; next != nil; {
		span := *next
		if err := e.o.DB.Run(ctx, txn.TxnOptions{Name: "remove"}, func(ctx context.Context, tx *txn.Txn) error {
			rows, resume, err := tx.Scan(ctx, txn.ScanOptions{Span: span, MaxRows: removeBatch, TargetBytes: 1 << 20, Filter: removedFilter{r}})
			if err != nil {
				return err
			}
			var b txn.WriteBatch
			for i := range rows {
				b.Delete(rows[i].Key)
			}
			next = resume
			return tx.Write(ctx, &b)
		}); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// removeBatch is the number of rows that one transaction of a removal deletes.
const removeBatch = 500

// ownRows leaves out the rows of other tables among those of t; nil: there are none. The span is that of its primary index.
func ownRows(t *catalog.Table) (keys.Span, txn.Filter, error) {
	x, err := rowcode.NewIndex(t, t.Primary())
	if err != nil {
		return keys.Span{}, nil, err
	}
	if !x.Mixed() {
		return x.All(), nil, nil
	}
	return x.All(), x, nil
}
