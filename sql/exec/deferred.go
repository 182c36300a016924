package exec

import (
	"context"
	"slices"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
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

// DeferredCheck is a check that is deferred until the end of the transaction, or until SET CONSTRAINTS.
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

// uniqueCheck is a deferrable unique index.
type uniqueCheck struct {
	table *catalog.Table
	index *catalog.Index
	codec *indexCodec
}

// homes are the values of the index's implicit columns: all regions, or none.
func (u *uniqueCheck) homes() []types.Row {
	if u.index.Implicit == 0 {
		return []types.Row{nil}
	}
	var out []types.Row
	for _, v := range regionValues(u.table) {
		out = append(out, types.Row{v})
	}
	return out
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
	return m.r.event(fkEvent{unique: &uniqueCheck{w.table, iw.index, iw.codec}, vals: pick(row, ords)})
}

// postpone defers the checks that may wait, and returns the others. An action of a foreign key never waits, nor does RESTRICT.
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
			c.Constraint = Constraint{Table: e.unique.table.ID, Index: e.unique.index.ID}
			deferrable, initially = true, e.unique.index.Deferred
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

// checkUniques looks for two rows with one key of those of lists of events, each of which was left by the rows that took a key, and returns the first violation.
func (r *run) checkUniques(taken [][]fkEvent) (first *failure, err error) {
	var list []sought
	found := make([]int, len(taken))
	for n, events := range taken {
		u, vals := events[0].unique, events[0].vals
		for _, home := range u.homes() {
			span, ok, err := u.codec.span(append(home, vals[u.index.Implicit:]...), nil, false, nil, false)
			if err != nil {
				return nil, err
			}
			if ok {
				list = append(list, sought{Span: span, codec: u.codec, group: n, f: func(*kv.KeyValue) (bool, error) {
					found[n]++
					return found[n] > len(events), nil
				}})
			}
		}
	}
	if err := r.seek(list, len(taken)); err != nil {
		return nil, err
	}
	for n, events := range taken {
		first = first.before(notUnique(events, found[n]))
	}
	return first, nil
}

// notUnique is the violation of the events of one key, which so many rows have: that of the first row that shares it.
func notUnique(events []fkEvent, found int) *failure {
	if found < 2 {
		return nil
	}
	u, vals := events[0].unique, events[0].vals
	at := events[0].seq
	if found <= len(events) {
		at = events[1].seq
	}
	e := sqlstate.New(sqlstate.UniqueViolation, "duplicate key value violates unique constraint \"%s\"", u.index.Name)
	t := u.table
	e.Table, e.TableID, e.Constraint = t.Name, uint32(t.ID), u.index.Name
	n := u.index.Implicit
	e.RowOf, e.Values = uint32(t.ID), "Key "+keyText(t, keyOrdinals(t, u.index)[n:], vals[n:])+" already exists."
	return &failure{at, e}
}

// FindDuplicate fails if two rows have one key of a deferrable index. No other transaction may write the table
// meanwhile.
func FindDuplicate(ctx context.Context, t KV, table *catalog.Table, x *catalog.Index) error {
	codec, err := newIndexCodec(table, x)
	if err != nil {
		return err
	}
	ords := keyOrdinals(table, x)
	dec, err := newRowDecoder(table, x, ords)
	if err != nil {
		return err
	}
	span := codec.all()
	row, last := make(types.Row, len(ords)), types.Row(nil)
	for rest := &span; rest != nil; {
		var page []kv.KeyValue
		if page, rest, err = t.Scan(ctx, txn.ScanOptions{Span: *rest, TargetBytes: pageBytes, Filter: codec.filter()}); err != nil {
			return err
		}
		for i := range page {
			if err := dec.decode(page[i].Key, page[i].Value, row); err != nil {
				return err
			}
			if slices.ContainsFunc(row, types.Datum.IsNull) {
				continue
			}
			same := last != nil
			for j := 0; same && j < len(ords); j++ {
				same = table.Columns[ords[j]].Type.Compare(row[j], last[j]) == 0
			}
			if same {
				e := sqlstate.New(sqlstate.UniqueViolation, "could not create unique index \"%s\"", x.Name)
				e.Table, e.TableID, e.Constraint = table.Name, uint32(table.ID), x.Name
				e.Detail = "Key " + keyText(table, ords, row) + " is duplicated."
				return e
			}
			last = append(last[:0], row...)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// CheckDeferred carries out deferred checks, over all writes of the transaction. Constraints that were dropped count as satisfied.
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
	d := deferredEvents{b: b, r: r, known: make(map[deferredKind]fkEvent)}
	for i := range checks {
		if err := d.add(&checks[i]); err != nil {
			return err
		}
	}
	r.kv.StepStatement()
	f, err := r.check(d.events)
	if err == nil && f != nil {
		err = f.err
	}
	return err
}

// deferredKind is the common part of the checks of one constraint.
type deferredKind struct {
	Constraint
	gone bool
}

// deferredEvents makes events of deferred checks.
type deferredEvents struct {
	b      *builder
	r      *run
	known  map[deferredKind]fkEvent // without values; empty for a constraint that was dropped
	events []fkEvent
}

func (d *deferredEvents) add(c *DeferredCheck) error {
	kind := deferredKind{c.Constraint, c.Gone}
	e, ok := d.known[kind]
	if !ok {
		var err error
		if e, err = d.event(c); err != nil {
			return err
		}
		d.known[kind] = e
	}
	e.seq, e.vals = len(d.events)+1, c.Values
	switch {
	case e.unique != nil:
	case e.out != nil:
		o := &fkCheck{fk: e.out.fk, vals: c.Values}
		if !slices.ContainsFunc(c.Values, types.Datum.IsNull) {
			var err error
			if o, err = o.fk.check(d.r, nil, c.Values); err != nil {
				return err
			}
		}
		e.out = o
	case e.in != nil:
		if e.in.fk.OnDelete != catalog.NoAction {
			e.after = c.Values // the deferred action is that of UPDATE
		}
	default:
		return nil
	}
	d.events = append(d.events, e)
	return nil
}

// event is the event that checks a constraint, empty if the constraint was dropped.
func (d *deferredEvents) event(c *DeferredCheck) (fkEvent, error) {
	find := func(id catalog.ID) (*catalog.Table, error) {
		if t, err := d.b.opts.View.TableByID(d.b.ctx, id); t == nil || err != nil {
			return nil, err
		}
		return d.b.table(id)
	}
	t, err := find(c.Table)
	if err != nil || t == nil {
		return fkEvent{}, err
	}
	if c.Index != 0 {
		x := t.Index(c.Index)
		if x == nil || !x.Deferrable || x.State != catalog.Public {
			return fkEvent{}, nil
		}
		codec, err := newIndexCodec(t, x)
		return fkEvent{unique: &uniqueCheck{t, x, codec}}, err
	}
	for i := range t.Foreign {
		fk := &t.Foreign[i]
		if fk.ID != c.Foreign || !enforced(fk) {
			continue
		}
		parent, err := find(fk.RefTable)
		if err != nil || parent == nil {
			return fkEvent{}, err
		}
		if c.Gone {
			in, err := newFKCheckIn(fk, t, parent)
			return fkEvent{in: in}, err
		}
		o, err := newFKOut(fk, t, parent)
		return fkEvent{out: &fkCheck{fk: o}}, err
	}
	return fkEvent{}, nil
}
