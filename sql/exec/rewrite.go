package exec

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// conversion converts rows for a change of columns' types that is under way (catalog.Rewrite), for the indexes that
// already have the new types. A statement that writes a row during the change writes it twice: as it is, and converted.
type conversion struct {
	table   *catalog.Table // with the new types
	columns []int
	exprs   []scalar.Evaluator
	checks  []checkSpec
}

// conversion makes the conversion of a table with a Rewrite.
func (b *builder) conversion(t *catalog.Table) (*conversion, error) {
	if b.opts.Rewrite == nil {
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "table \"%s\" can't be changed here while its columns change their types", t.Name)
	}
	exprs, checks, err := b.opts.Rewrite(b.ctx, t)
	if err != nil {
		return nil, err
	}
	c := &conversion{table: t.Rewritten()}
	l := make(layout)
	for o := range t.Columns {
		l[scalar.ColumnID(o+1)] = o
	}
	for i, k := range t.Rewrite.Columns {
		ev, err := b.expr(exprs[i], l)
		if err != nil {
			return nil, err
		}
		c.columns, c.exprs = append(c.columns, t.Ordinal(k.Column)), append(c.exprs, ev)
	}
	c.checks, err = b.checks(checks, l)
	return c, err
}

// row converts a row; it fails if the row can't be converted.
func (c *conversion) row(ctx *scalar.Context, row types.Row) (types.Row, error) {
	out := slices.Clone(row)
	for i, o := range c.columns {
		var err error
		if out[o], err = c.exprs[i].Eval(ctx, row); err != nil {
			return nil, err
		}
		if out[o].IsNull() && c.table.Columns[o].NotNull {
			e := sqlstate.New(sqlstate.NotNullViolation, "column \"%s\" of relation \"%s\" contains null values", c.table.Columns[o].Name, c.table.Name)
			e.Table, e.TableID, e.Column = c.table.Name, uint32(c.table.ID), c.table.Columns[o].Name
			return nil, e
		}
	}
	for i := range c.checks {
		ok, err := scalar.TestCheck(c.checks[i].ev, ctx, out)
		if err != nil {
			return nil, err
		}
		if !ok {
			e := sqlstate.New(sqlstate.CheckViolation, "check constraint \"%s\" of relation \"%s\" is violated by some row", c.checks[i].name, c.table.Name)
			e.Table, e.TableID, e.Constraint = c.table.Name, uint32(c.table.ID), c.checks[i].name
			return nil, e
		}
	}
	return out, nil
}

// entryRow is the row from which an index's entry is made. none means that the index has no entry for it: the row was written
// before the change began and can't be converted, and is being removed, or the index takes no new entries yet.
func (r *run) entryRow(w *indexWriter, row types.Row, goes bool) (out types.Row, none bool, err error) {
	if w.conv == nil {
		return row, false, nil
	}
	out, err = w.conv.row(&r.sctx, row)
	if err != nil && (goes || !w.adds()) {
		return nil, true, nil
	}
	return out, false, err
}
