package schemachange

import (
	"errors"
	"slices"

	"meridian/keys"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// retyping collects the changes of types among the actions of an ALTER TABLE: they are made together, from the rows as they
// were.
type retyping struct {
	*change
	t     *catalog.Table
	types []*bind.AlterColumnType
	done  bool
	// undefaulted are columns that lose their default before their type changes.
	undefaulted map[string]bool
	// online says that rows can be rewritten while others read and write the table.
	online bool
}

func (c *change) retype(t *catalog.Table, actions []bind.AlterAction) *retyping {
	r := &retyping{change: c, t: t, undefaulted: map[string]bool{}, online: !c.own(t)}
	for _, a := range actions {
		if a, ok := a.(*bind.AlterColumnType); ok {
			r.types = append(r.types, a)
		}
	}
	return r
}

// rewritesHere reports whether an ALTER TABLE has to rewrite rows within the transaction: in a transaction block, if other actions may concern the
// rewritten rows, if a deferrable key has to be checked in all rows, if two evaluations of an expression may differ, and if foreign keys have to be
// checked.
func (c *change) rewritesHere(s *bind.AlterTable) bool {
	t := c.current(s.Table.ID)
	if t == nil || t.Kind != catalog.KindTable {
		return false
	}
	rewrites, alone := false, c.Alone
	var keyed []catalog.ColumnID
	for i := range t.Foreign {
		keyed = append(keyed, t.Foreign[i].Columns...)
	}
	for _, k := range c.incoming(t) {
		keyed = append(keyed, k.key.RefColumns...)
	}
	for _, action := range s.Actions {
		switch a := action.(type) {
		case *bind.AlterColumnType:
			col := t.ColumnByName(a.Column)
			if col == nil {
				return true // the transaction has added it
			}
			if !a.Plain || !compatible(col.Type, a.Type) || checked(t, col) {
				rewrites = true
				alone = alone && !a.Varies && !slices.Contains(keyed, col.ID) && col.Identity == 0
			}
		case *bind.SetDefault:
		case *bind.AddColumn:
			alone = false
			rewrites = rewrites || !t.ColumnNameTaken(a.Column.Name) && c.fills(&a.Column) != ""
		case *bind.AddConstraint:
			if a.Constraint.Deferrable && a.Constraint.Kind != bind.ForeignKey {
				return true
			}
			alone = false
		default:
			alone = false
		}
	}
	return rewrites && !alone
}

func (r *retyping) changes(column string) bool {
	return slices.ContainsFunc(r.types, func(a *bind.AlterColumnType) bool { return a.Column == column })
}

func (r *retyping) alter(action bind.AlterAction) error {
	switch a := action.(type) {
	case *bind.AlterColumnType:
		if r.done {
			return nil
		}
		r.done = true
		err := r.alterTypes()
		var se *sqlstate.Error
		if errors.As(err, &se) && se.Table != "" && se.Schema == "" {
			se.Schema = r.schemaName(r.t.Schema)
		}
		return err
	case *bind.SetDefault:
		if !r.changes(a.Column) {
			break
		}
		if !r.done {
			r.undefaulted[a.Column] = true
			return nil
		}
		if w := r.t.Rewrite; w != nil {
			col := r.t.ColumnByName(a.Column)
			for i := range w.Columns {
				if w.Columns[i].Column == col.ID {
					w.Columns[i].Default = a.Expr
					return nil
				}
			}
		}
	}
	return r.change.alter(r.t, action)
}

// awaitRewrite keeps changes away from a table whose rows are being rewritten until that is done.
func (c *change) awaitRewrite(t *catalog.Table) error {
	if t.Rewrite == nil {
		return nil
	}
	return c.Catalog.JobFirst(t.ID)
}

// alterTypes changes the types of columns. Where every stored value is one of the new type, with the same bytes, it changes the
// descriptor alone. Otherwise all indexes that have the columns are built anew, with the converted rows, and replace the old
// ones in one step (schemachange.SC6): within the transaction that has locked the table, or online by the job.
func (r *retyping) alterTypes() error {
	t, c := r.t, r.change
	w := &catalog.Rewrite{}
	for _, a := range r.types {
		col := t.ColumnByName(a.Column)
		if err := r.mayRetype(col); err != nil {
			return err
		}
		if err := c.mayUse(a.Type); err != nil {
			return err
		}
		def := col.Default
		if r.undefaulted[a.Column] {
			def = ""
		}
		if col.Identity != 0 {
			seq := c.Catalog.Table(col.OwnsSequence)
			if seq == nil {
				return sqlstate.New(sqlstate.InternalError, "identity column \"%s\" has no sequence", col.Name)
			}
			def := *seq.Sequence
			bind.RetypeSequence(&def, a.Type)
			if err := c.redefine(seq, def, nil); err != nil {
				return err
			}
		}
		if a.Plain && compatible(col.Type, a.Type) && !checked(t, col) {
			col.Type, col.Default = a.Type, def
			continue
		}
		w.Columns = append(w.Columns, catalog.RewriteColumn{Column: col.ID, Type: a.Type, Expr: a.Using, Default: def})
	}
	if len(w.Columns) == 0 {
		return nil
	}
	if slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool { return m.Job != 0 }) {
		return c.Catalog.JobFirst(t.ID)
	}
	t.Rewrite = w
	if _, _, err := c.Binder.RewriteOf(c.ctx, t); err != nil {
		t.Rewrite = nil
		return err
	}
	if err := c.rewrite(t, r.online); err != nil || r.online {
		return err
	}
	for i := range t.Foreign {
		if k := &t.Foreign[i]; slices.ContainsFunc(k.Columns, w.Has) || k.RefTable == t.ID && slices.ContainsFunc(k.RefColumns, w.Has) {
			if err := c.recheckForeign(t, k); err != nil {
				return err
			}
		}
	}
	for _, k := range c.incoming(t) {
		if slices.ContainsFunc(k.key.RefColumns, w.Has) && k.table.ID != t.ID {
			if err := c.recheckForeign(k.table, k.key); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayRetype refuses to change the type of a column on which other objects depend.
func (r *retyping) mayRetype(col *catalog.Column) error {
	t := r.t
	if err := keepsRegion(t, col, "cannot alter type of column \"%s\""); err != nil {
		return err
	}
	for _, id := range r.usedBy(t) {
		if v := r.current(id); v != nil && usesColumn(v.View, col.Name) {
			return sqlstate.New(sqlstate.FeatureNotSupported, "cannot alter type of a column used by a view or rule").
				WithDetail("rule _RETURN on view %s depends on column \"%s\"", quoteIdent(v.Name), col.Name)
		}
	}
	if col.OnUpdate != "" {
		return sqlstate.New(sqlstate.FeatureNotSupported, "cannot alter type of a column with an ON UPDATE expression").
			WithHint("Drop the expression first: ALTER TABLE ... ALTER COLUMN \"%s\" DROP ON UPDATE.", col.Name)
	}
	for i := range t.Columns {
		if g := &t.Columns[i]; g.Generated != "" && g.ID != col.ID && g.State == catalog.Public && usesColumn(g.Generated, col.Name) {
			return sqlstate.New(sqlstate.FeatureNotSupported, "cannot alter type of a column used by a generated column").
				WithDetail("Column \"%s\" is used by generated column \"%s\".", col.Name, g.Name)
		}
	}
	return nil
}

// checked reports whether a CHECK reads the column: its expression may mean something else under the new type.
func checked(t *catalog.Table, col *catalog.Column) bool {
	return slices.ContainsFunc(t.Checks, func(k catalog.Check) bool { return slices.Contains(k.Columns, col.ID) })
}

type incomingKey struct {
	table *catalog.Table
	key   *catalog.ForeignKey
}

// incoming are the foreign keys that point at a table.
func (c *change) incoming(t *catalog.Table) (out []incomingKey) {
	for _, ref := range t.ReferencedBy {
		child := t
		if ref.Table != t.ID {
			child = c.current(ref.Table)
		}
		if child == nil {
			continue
		}
		for i := range child.Foreign {
			if child.Foreign[i].ID == ref.Constraint {
				out = append(out, incomingKey{child, &child.Foreign[i]})
			}
		}
	}
	return out
}

// recheckForeign validates a foreign key after its columns have changed on one side.
func (c *change) recheckForeign(t *catalog.Table, k *catalog.ForeignKey) error {
	ref := t
	if k.RefTable != t.ID {
		ref = c.current(k.RefTable)
	}
	for i := range k.Columns {
		a, b := t.Column(k.Columns[i]), ref.Column(k.RefColumns[i])
		if !c.o.Registry.MayReference(b.Type, a.Type) {
			return sqlstate.New(sqlstate.DatatypeMismatch, "foreign key constraint \"%s\" cannot be implemented", k.Name).
				WithDetail("Key columns \"%s\" and \"%s\" are of incompatible types: %s and %s.", a.Name, b.Name, a.Type.Name(), b.Type.Name())
		}
	}
	return c.o.validateForeign(c.ctx, c.kv, c.view, t, k)
}

// rewrite builds anew the indexes that have columns of the table's Rewrite.
func (c *change) rewrite(t *catalog.Table, online bool) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = sqlstate.New(sqlstate.FeatureNotSupported, "this expression can't be evaluated here").
				WithHint("Add a column of the new type, update the rows, and rename.")
		}
	}()
	if err := notInHierarchy(t, "a change that rewrites all rows"); err != nil {
		return err
	}
	inKey := slices.ContainsFunc(t.Primary().Columns, func(k catalog.IndexColumn) bool { return t.Rewrite.Has(k.Column) })
	var ms []catalog.Mutation
	for i, n := 0, len(t.Indexes); i < n; i++ {
		x := &t.Indexes[i]
		if x.State != catalog.Public || !x.Primary && !inKey && !slices.ContainsFunc(x.Columns, func(k catalog.IndexColumn) bool { return t.Rewrite.Has(k.Column) }) &&
			!slices.ContainsFunc(x.Stored, t.Rewrite.Has) {
			continue
		}
		cp := *x
		cp.ID, cp.Name, cp.Rewritten = t.NextIndex, "", true
		t.NextIndex++
		if !t.Temporary() {
			if err := c.Catalog.RenewIndex(c.ctx, t, &cp); err != nil {
				return err
			}
			if !online && !c.isNew(t) {
				if err := c.insure(t, &cp); err != nil {
					return err
				}
			}
		}
		cp.State = catalog.WriteOnly
		if online {
			cp.State = catalog.DeleteOnly
		}
		ms = append(ms, catalog.Mutation{Kind: catalog.MutateIndex, ID: uint32(cp.ID), Replaces: x.ID})
		t.Indexes = append(t.Indexes, cp)
		if err := verifyEncodable(t.Rewritten(), &t.Indexes[len(t.Indexes)-1]); err != nil {
			return err
		}
	}
	if online {
		t.Mutations = append(t.Mutations, ms...)
		for _, m := range ms {
			x := t.Index(catalog.IndexID(m.ID))
			x.State = c.firstState(t, x)
		}
		return nil
	}
	for _, m := range ms {
		if err := c.placeHere(t, t.Index(catalog.IndexID(m.ID))); err != nil {
			return err
		}
	}
	// The primary index is filled first, and the others from it: a volatile expression is evaluated once for each row.
	if err := c.fillHere(t, t.Index(catalog.IndexID(ms[0].ID))); err != nil {
		return err
	}
	finishRewrite(t, ms)
	for _, m := range ms[1:] {
		if err := c.fillHere(t, t.Index(catalog.IndexID(m.ID))); err != nil {
			return err
		}
	}
	if !c.isNew(t) {
		return nil // plan has the data of the old indexes removed
	}
	var b txn.WriteBatch
	for _, m := range ms {
		b.DeleteRange(keys.IndexSpan(t.ID, m.Replaces))
	}
	return c.kv.Write(c.ctx, &b)
}

// finishRewrite gives columns their new types: the rewritten indexes replace the old ones. No transaction may still use the
// earlier version (takesData in sql/catalog/lease: the table is frozen), because its writes would not reach the new indexes with
// the new types, and its readers know only the old ones.
func finishRewrite(t *catalog.Table, ms []catalog.Mutation) {
	to := t.Rewritten()
	t.Columns, t.Rewrite = to.Columns, nil
	dropMutations(t, func(o catalog.Mutation) bool { return slices.Contains(ms, o) })
	for _, m := range ms {
		t.Indexes = slices.DeleteFunc(t.Indexes, func(x catalog.Index) bool { return x.ID == catalog.IndexID(m.ID) })
		if x := t.Index(m.Replaces); x != nil {
			x.ID = catalog.IndexID(m.ID)
		}
	}
	t.Generation++
}

// compatible reports whether every stored value of one type is one of the other, with the same bytes.
func compatible(from, to *types.T) bool {
	if from.Equal(to) || from.Same(to) && to.Typmod() == -1 && to.Kind != types.KindBPChar {
		return true
	}
	switch {
	case from.Kind == types.KindArray && to.Kind == types.KindArray:
		return compatible(from.Elem, to.Elem)
	case from.IsInteger() && to.IsInteger():
		return to.Kind >= from.Kind
	case from.Kind == types.KindText || from.Kind == types.KindVarChar:
		return (to.Kind == types.KindText || to.Kind == types.KindVarChar) && (to.Width == 0 || from.Kind == types.KindVarChar && from.Width > 0 && to.Width >= from.Width)
	case from.Kind == types.KindDecimal && to.Kind == types.KindDecimal:
		return to.Precision == 0 || from.Precision > 0 && to.Scale == from.Scale && to.Precision >= from.Precision
	case from.Kind == to.Kind && (from.Kind == types.KindTimestamp || from.Kind == types.KindTimestampTZ || from.Kind == types.KindTime || from.Kind == types.KindTimeTZ):
		return to.Precision < 0 || to.Precision == 6 || from.Precision >= 0 && to.Precision >= from.Precision
	}
	return false
}
