package exec

import (
	"context"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Constraint names a constraint that may be checked later: a foreign key of the table, or a unique index.
type Constraint struct {
	Table   catalog.ID
	Foreign uint32
	Index   catalog.IndexID
}

// DeferredCheck is a check that waits for the end of the transaction, or for SET CONSTRAINTS.
type DeferredCheck struct {
	Constraint
	// Values are those of a unique index's key, or of a foreign key's columns; with Gone, of a key that the referenced table no longer
	// has.
	Values types.Row
	Gone   bool
}

// Deferrals are a transaction's deferred checks.
type Deferrals interface {
	// Deferred reports whether a deferrable constraint waits; initially is what its definition says.
	Deferred(c Constraint, initially bool) bool
	Defer(c DeferredCheck) error
}

// uniqueCheck is a key that a deferrable unique index was given.
type uniqueCheck struct {
	w  *tableWriter
	iw *indexWriter
}

// deferrable notes a row's new key of a deferrable unique index.
func (m *mutation) deferrable(w *tableWriter, iw *indexWriter, row types.Row) error {
	if !iw.index.Deferrable {
		return nil
	}
	ords := keyOrdinals(w.table, iw.index)
	if anyNull(row, ords) {
		return nil
	}
	return m.r.event(fkEvent{unique: &uniqueCheck{w, iw}, vals: pick(row, ords)})
}

// postpone hands over the checks that wait, and returns the others. An action of a foreign key never waits, nor does RESTRICT.
func (r *run) postpone(checks []fkEvent) ([]fkEvent, error) {
	d := r.env.Deferrals
	if d == nil {
		return checks, nil
	}
	now := checks[:0]
	for _, e := range checks {
		c := DeferredCheck{Values: e.vals}
		deferrable, initially := false, false
		switch {
		case e.unique != nil:
			c.Constraint = Constraint{Table: e.unique.w.table.ID, Index: e.unique.iw.index.ID}
			deferrable, initially = true, e.unique.iw.index.Deferred
		case e.out != nil:
			fk := e.out.fk.fk
			c.Constraint = Constraint{Table: e.out.fk.child.ID, Foreign: fk.ID}
			deferrable, initially = fk.Deferrable, fk.Deferred
		default:
			fk := e.in.fk
			c.Constraint, c.Gone = Constraint{Table: e.in.child.ID, Foreign: fk.ID}, true
			deferrable, initially = fk.Deferrable && e.in.action(e) == catalog.NoAction, fk.Deferred
		}
		if !deferrable || !d.Deferred(c.Constraint, initially) {
			now = append(now, e)
			continue
		}
		if err := d.Defer(c); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// checkUnique raises a violation if two rows have the key.
func (r *run) checkUnique(u *uniqueCheck, vals types.Row) error {
	span, ok, err := u.iw.codec.span(vals, nil, false, nil, false)
	if err != nil || !ok {
		return err
	}
	found := 0
	for {
		page, rest, err := r.checkScan(txn.ScanOptions{Span: span, MaxRows: 2})
		if err != nil {
			return err
		}
		if found += len(page); found > 1 {
			e := sqlstate.New(sqlstate.UniqueViolation, "duplicate key value violates unique constraint \"%s\"", u.iw.index.Name)
			t := u.w.table
			e.Table, e.TableID, e.Constraint = t.Name, uint32(t.ID), u.iw.index.Name
			e.RowOf, e.Values = uint32(t.ID), "Key "+keyText(t, keyOrdinals(t, u.iw.index), vals)+" already exists."
			return e
		}
		if rest == nil {
			return nil
		}
		span = *rest
	}
}

// CheckDeferred carries out checks that have waited, over all that the transaction has written. Constraints that are gone are kept.
func CheckDeferred(ctx context.Context, env *Env, o Options, checks []DeferredCheck) error {
	p := &Program{}
	b := &builder{ctx: ctx, opts: o, prog: p, meta: &opt.Metadata{}, ctes: make(map[int]*cteInfo),
		tables: make(map[catalog.ID]*catalog.Table), writers: make(map[catalog.ID]*tableWriter)}
	r := &run{prog: p}
	r.start(ctx, env)
	defer func() {
		r.budget.Shrink(r.eventBytes)
		r.release()
	}()
	r.kv.StepStatement()
	for i := range checks {
		if err := r.checkDeferred(b, &checks[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkDeferred(b *builder, c *DeferredCheck) error {
	find := func(id catalog.ID) (*catalog.Table, error) {
		if t, err := b.opts.View.TableByID(b.ctx, id); t == nil || err != nil {
			return nil, err
		}
		return b.table(id)
	}
	t, err := find(c.Table)
	if err != nil || t == nil {
		return err
	}
	if c.Index != 0 {
		x := t.Index(c.Index)
		if x == nil || !x.Deferrable || x.State != catalog.Public {
			return nil
		}
		w, err := b.writer(t)
		if err != nil {
			return err
		}
		for _, iw := range w.indexes {
			if iw.index.ID == x.ID {
				return r.checkUnique(&uniqueCheck{w, iw}, c.Values)
			}
		}
		return nil
	}
	for i := range t.Foreign {
		fk := &t.Foreign[i]
		if fk.ID != c.Foreign || !enforced(fk) {
			continue
		}
		parent, err := find(fk.RefTable)
		if err != nil || parent == nil {
			return err
		}
		if c.Gone {
			in, err := b.newFKIn(fk, t, parent)
			if err != nil {
				return err
			}
			e := fkEvent{in: in, vals: c.Values}
			if fk.OnDelete != catalog.NoAction {
				e.after = c.Values // its action at UPDATE is the one that waited
			}
			return r.check([]fkEvent{e})
		}
		return r.checkReference(b, fk, t, parent, c.Values)
	}
	return nil
}

// checkReference looks for the parent of a row, and for the row if there is none: it may be gone by now.
func (r *run) checkReference(b *builder, fk *catalog.ForeignKey, child, parent *catalog.Table, vals types.Row) error {
	o, err := newFKOut(fk, child, parent)
	if err != nil {
		return err
	}
	k, err := o.key(r, vals)
	if err != nil {
		return err
	}
	vs, err := r.checkMany([]keys.Key{k})
	if err != nil || vs[0] != nil {
		return err
	}
	in, err := b.newFKIn(fk, child, parent)
	if err != nil {
		return err
	}
	refs := make(types.Row, len(vals))
	for i, d := range vals {
		from, to := child.Columns[in.cols[i]].Type, parent.Columns[in.refs[i]].Type
		if from.Phys() != to.Phys() {
			if d, err = scalar.CastDatum(&r.sctx, d, from, to.Bare(), true); err != nil {
				return err
			}
		}
		refs[i] = d
	}
	return in.children(r, []fkEvent{{in: in, vals: refs}}, true, func(fkEvent, keys.Key) error { return o.violation(vals) })
}
