package exec

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// conversion makes rows as they will be after a change of columns' types (catalog.Rewrite), for the indexes that have them
// already. A statement that writes a row while the change is under way writes it twice: as it is, and as it will be.
type conversion struct {
	table   *catalog.Table // as it will be
	columns []int
	exprs   []scalar.Evaluator
	checks  []checkSpec
}

// conversion is that of a table with a Rewrite.
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

// row is a row as it will be; it fails if the row can't become one.
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

// entryRow is the row of which an index has its entry. None means that the index has no entry for it: the row was written before
// the change began and can't become one, and is on its way out, or the index takes no new entries yet.
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
