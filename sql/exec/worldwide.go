package exec

import (
	"bytes"
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// Uniqueness over all regions (CRDB'22 §4.1). An index of a table that is REGIONAL BY ROW has the region in front, so a condition on its entry
// (exec.X1) covers one region. A statement that takes a key therefore looks for it in all other regions:
//
//	exec.X7: A row takes a key of a worldwide index only if no other region has an entry with it, before the statement or from its earlier rows. The
//	    lookups of a batch of writes, for all of its rows and constraints, are one request to all regions, before the writes are sent. They are checks
//	    (coordinator.CO7), so they hold at the commit timestamp: of two transactions that take one key in two regions, one does not commit.
//
// Keys that no other row can have are not looked for: random ones, and those that determine the region.

// worldwide says how to look for an index's keys in other regions.
type worldwide struct {
	region int           // the region column's ordinal
	values []types.Datum // all regions
}

// look is a key that a row takes, and its names in other regions, where it must not be.
type look struct {
	w    *tableWriter
	iw   *indexWriter
	keys []keys.Key
}

// worldwide makes the worldwide part of an index's writer.
func (b *builder) worldwide(t *catalog.Table, iw *indexWriter) error {
	if !t.Worldwide(iw.index) || !iw.adds() {
		return nil
	}
	region := t.Ordinal(t.RegionColumn)
	if t.Columns[region].Generated != "" && b.opts.Follows != nil {
		generated, _, err := b.opts.Follows(b.ctx, t)
		if err != nil {
			return err
		}
		for _, g := range generated {
			if g.Ordinal == region && determines(t, iw.index, g.Expr) {
				return nil
			}
		}
	}
	iw.world = &worldwide{region, regionValues(t)}
	return nil
}

// regionValues are all values of a table's region column.
func regionValues(t *catalog.Table) []types.Datum {
	var out []types.Datum
	for _, v := range t.Regions() {
		out = append(out, types.NewInt(v.Place))
	}
	return out
}

// determines reports whether an expression over the table's ordinals plus one reads only columns of an index's key.
func determines(t *catalog.Table, x *catalog.Index, e scalar.Expr) bool {
	within := true
	scalar.Columns(e, func(id scalar.ColumnID) {
		in := false
		for _, c := range x.UserColumns() {
			in = in || t.Ordinal(c.Column) == int(id)-1
		}
		within = within && in
	})
	return within
}

// elsewhere are the keys that a row's entry would have in all other regions.
func (r *run) elsewhere(iw *indexWriter, row types.Row) ([]keys.Key, error) {
	home := row[iw.world.region]
	other := append(types.Row(nil), row...)
	out := make([]keys.Key, 0, len(iw.world.values))
	for _, v := range iw.world.values {
		if !home.IsNull() && v.Int() == home.Int() {
			continue
		}
		other[iw.world.region] = v
		k, err := r.indexKey(iw, other)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// arbiterKey is the key by which ON CONFLICT compares the rows of a statement with each other: for a worldwide index it is the same in all regions.
func (r *run) arbiterKey(iw *indexWriter, row types.Row, k keys.Key) (keys.Key, error) {
	if iw.world == nil {
		return k, nil
	}
	same := append(types.Row(nil), row...)
	same[iw.world.region] = iw.world.values[0]
	return iw.codec.appendKey(nil, same)
}

// takes notes that a row takes a key. before is the row that it replaces, nil if there is none.
func (m *mutation) takes(w *tableWriter, iw *indexWriter, row, before types.Row, k keys.Key) error {
	if iw.world == nil || m.unchecked[iw] || !iw.codec.conflicts(row) {
		return nil
	}
	if before != nil && iw.codec.conflicts(before) {
		// A row that moves to another region keeps its key, which is no other row's.
		moved := append(types.Row(nil), before...)
		moved[iw.world.region] = row[iw.world.region]
		same, err := m.r.indexKey(iw, moved)
		if err != nil {
			return err
		}
		if bytes.Equal(same, k) {
			m.holds(k, true)
			return nil
		}
	}
	ks, err := m.r.elsewhere(iw, row)
	if err != nil {
		return err
	}
	ask := ks[:0]
	for _, o := range ks {
		switch taken, known := m.mine[string(o)]; {
		case taken:
			return uniqueViolation(w.table, iw, o, nil)
		case !known:
			ask = append(ask, o)
		}
	}
	m.holds(k, true)
	m.looks = append(m.looks, look{w, iw, ask})
	return nil
}

// releases notes that a row gives up a key.
func (m *mutation) releases(iw *indexWriter, row types.Row, k keys.Key) {
	if iw.world != nil && iw.codec.conflicts(row) {
		m.holds(k, false)
	}
}

// holds notes whether the batch has taken a key or given it up.
func (m *mutation) holds(k keys.Key, taken bool) {
	if m.mine == nil {
		m.mine = make(map[string]bool)
	}
	m.mine[string(k)] = taken
}

// checkWorldwide looks for the keys that the batch takes in other regions (exec.X7).
func (m *mutation) checkWorldwide() error {
	var ks []keys.Key
	for i := range m.looks {
		ks = append(ks, m.looks[i].keys...)
	}
	defer m.forgetLooks()
	if len(ks) == 0 {
		return nil
	}
	if home := m.r.env.Home; home != nil {
		if err := home.Compares(m.looks[0].w.table, m.looks[0].iw.index); err != nil {
			return err
		}
	}
	vs, err := m.r.checkAbsent(ks)
	if err != nil {
		return err
	}
	return m.judgeWorldwide(vs)
}

// judgeWorldwide fails if a key that the batch takes has a value in another region.
func (m *mutation) judgeWorldwide(vs [][]byte) error {
	for i := range m.looks {
		l := &m.looks[i]
		for j, k := range l.keys {
			if vs[j] != nil {
				return uniqueViolation(l.w.table, l.iw, k, vs[j])
			}
		}
		vs = vs[len(l.keys):]
	}
	return nil
}

// checkTogether is checkParents and checkWorldwide in one request, so that both take one round to other regions. A parent that may be in any region is looked
// for in the near one first.
func (m *mutation) checkTogether() error {
	if len(m.looks) == 0 || len(m.checks) == 0 || len(m.checks) > lookupBatch {
		return nil
	}
	var absent []keys.Key
	for i := range m.looks {
		absent = append(absent, m.looks[i].keys...)
	}
	if len(absent) == 0 {
		return nil
	}
	if home := m.r.env.Home; home != nil {
		if err := home.Compares(m.looks[0].w.table, m.looks[0].iw.index); err != nil {
			return err
		}
	}
	present, n, err := m.r.nearParents(m.checks)
	if err != nil {
		return err
	}
	found, taken, err := m.r.checkBoth(present, absent)
	if tooLarge(err) {
		return nil // one after the other, then
	}
	if err != nil {
		return err
	}
	if err := m.lacks(parentless(n, found)); err != nil {
		return err
	}
	defer m.forgetLooks()
	return m.judgeWorldwide(taken)
}

// lacks notes that the parents of some of the batch's checks were not found, and has done with all of these.
func (m *mutation) lacks(missing []int) error {
	defer m.forgetChecks()
	for _, i := range missing {
		c := m.checks[i]
		if err := m.r.event(fkEvent{seq: c.seq, out: &c, vals: c.vals}); err != nil {
			return err
		}
	}
	return nil
}

func (m *mutation) forgetLooks() {
	clear(m.looks)
	m.looks = m.looks[:0]
	clear(m.mine)
}

// absenceChecker is implemented by a KV whose lookups for a constraint hold at the commit.
type absenceChecker interface {
	CheckAbsent(ctx context.Context, ks []keys.Key) ([][]byte, error)
}

// checkAbsent reads keys of which a constraint wants that they have no value.
func (r *run) checkAbsent(ks []keys.Key) ([][]byte, error) {
	if c, ok := r.kv.(absenceChecker); ok {
		return c.CheckAbsent(r.ctx, ks)
	}
	return r.kv.GetMany(r.ctx, ks, kv.NoLock, kv.Block)
}

// togetherChecker is implemented by a KV that has one request for keys that have to be there and keys that must not.
type togetherChecker interface {
	CheckTogether(ctx context.Context, present, absent []keys.Key) (found, taken [][]byte, err error)
}

// checkBoth reads keys of which constraints want that they have a value, and keys of which they want that they have none.
func (r *run) checkBoth(present, absent []keys.Key) (found, taken [][]byte, err error) {
	if c, ok := r.kv.(togetherChecker); ok {
		if found, taken, err = c.CheckTogether(r.ctx, present, absent); err != nil {
			return nil, nil, err
		}
		return found, taken, r.passing(valueBytes(found))
	}
	if found, err = r.checkMany(present); err == nil {
		taken, err = r.checkAbsent(absent)
	}
	return found, taken, err
}

// foundChecker is implemented by a KV that need not wait for all keys of a check.
type foundChecker interface {
	CheckFound(ctx context.Context, ks []keys.Key, enough int) ([][]byte, error)
}

// checkFound is checkMany for keys of which no more than enough have values.
func (r *run) checkFound(ks []keys.Key, enough int) ([][]byte, error) {
	c, ok := r.kv.(foundChecker)
	if !ok || len(ks) == enough {
		return r.checkMany(ks)
	}
	if err := r.staysKeys(ks, kv.NoLock); err != nil {
		return nil, err
	}
	vs, err := c.CheckFound(r.ctx, ks, enough)
	if tooLarge(err) {
		return r.checkMany(ks)
	}
	if err != nil {
		return nil, err
	}
	return vs, r.passing(valueBytes(vs))
}

// passing takes the memory of values that are used at once, and gives it back.
func (r *run) passing(n int64) error {
	if n < pageFree {
		return nil
	}
	err := r.budget.Grow(n)
	if err == nil {
		r.budget.Shrink(n)
	}
	return err
}

// unchecked are the worldwide indexes whose keys have a column that the input of INSERT computes so that no other row can have its value.
func unchecked(w *tableWriter, input opt.Node, source []scalar.ColumnID) map[*indexWriter]bool {
	var out map[*indexWriter]bool
	for _, iw := range w.indexes {
		if iw.world == nil {
			continue
		}
		for _, c := range iw.index.UserColumns() {
			ord := w.table.Ordinal(c.Column)
			if ord < len(source) && source[ord] != 0 && isUnique(input, source[ord]) {
				if out == nil {
					out = make(map[*indexWriter]bool)
				}
				out[iw] = true
			}
		}
	}
	return out
}

// isUnique reports whether a node computes a column, for each row, by a function whose result no other call has, in whichever region.
func isUnique(n opt.Node, id scalar.ColumnID) bool {
	call := func(e scalar.Expr) bool {
		c, ok := e.(*scalar.Call)
		return ok && slices.Contains([]string{"gen_random_uuid", "uuid_generate_v4", "unique_rowid"}, c.Func.Name)
	}
	switch n := n.(type) {
	case *opt.ProjectNode:
		for i, c := range n.Cols {
			if c != id {
				continue
			}
			if x, ok := n.Exprs[i].(*scalar.Column); ok {
				return isUnique(n.Input, x.ID)
			}
			return call(n.Exprs[i])
		}
	case *opt.LookupJoin:
		return n.Single && isUnique(n.Input, id) // no row is there twice
	case *opt.ValuesNode:
		for i, c := range n.Cols {
			if c != id {
				continue
			}
			for _, row := range n.Rows {
				if !call(row[i]) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// spansChecker is implemented by a KV whose scans for a constraint hold at the commit.
type spansChecker interface {
	CheckScans(ctx context.Context, spans []keys.Span) ([][]kv.KeyValue, error)
}

// checkScans reads spans to check a constraint, at the same time.
func (r *run) checkScans(spans []keys.Span) ([][]kv.KeyValue, error) {
	if err := r.staysAll(spans, kv.NoLock); err != nil {
		return nil, err
	}
	if c, ok := r.kv.(spansChecker); ok {
		return c.CheckScans(r.ctx, spans)
	}
	return r.kv.ScanMany(r.ctx, spans, txn.ScanOptions{})
}

// CheckRegions fails if rows of different regions have one key of an index that is worldwide unique and has all of its entries. The entries of each
// region are in the order of their keys, so those of all regions are merged.
func (f *Backfill) CheckRegions(ctx context.Context, t KV) error {
	x, table := f.iw.index, f.table
	if !table.Worldwide(x) {
		return nil
	}
	parts, err := f.regionParts()
	if err != nil {
		return err
	}
	row := make(types.Row, len(x.Columns))
	var last []byte
	for {
		var next *regionPart
		for _, p := range parts {
			if err := p.fill(ctx, t); err != nil {
				return err
			}
			if len(p.page) > 0 && (next == nil || bytes.Compare(p.key(), next.key()) < 0) {
				next = p
			}
		}
		if next == nil {
			return ctx.Err()
		}
		e := next.page[0]
		if bytes.Equal(next.key(), last) {
			if err := f.iw.keyed.decode(e.Key, e.Value, row); err != nil {
				return err
			}
			if !slices.ContainsFunc(row, types.Datum.IsNull) {
				return f.duplicate(e.Key, e.Value)
			}
		}
		last = append(last[:0], next.key()...)
		next.page = next.page[1:]
	}
}

// regionPart reads the entries of one region in order.
type regionPart struct {
	prefix int // the length of what all of its keys begin with
	rest   *keys.Span
	page   []kv.KeyValue
}

func (f *Backfill) regionParts() (out []*regionPart, err error) {
	for _, v := range regionValues(f.table) {
		k, err := f.iw.codec.appendPrefix(nil, types.Row{v})
		if err != nil {
			return nil, err
		}
		span, ok, err := f.iw.codec.span(types.Row{v}, nil, false, nil, false)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, &regionPart{prefix: len(k), rest: &span})
		}
	}
	return out, nil
}

// key is the first entry's key without the region.
func (p *regionPart) key() []byte { return p.page[0].Key[p.prefix:] }

// fill reads the next page if there is none.
func (p *regionPart) fill(ctx context.Context, t KV) (err error) {
	for len(p.page) == 0 && p.rest != nil {
		if p.page, p.rest, err = t.Scan(ctx, txn.ScanOptions{Span: *p.rest, TargetBytes: pageBytes}); err != nil {
			return err
		}
	}
	return nil
}
