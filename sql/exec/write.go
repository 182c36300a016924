package exec

import (
	"bytes"
	"errors"
	"strings"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Bounds of one batch of writes.
const (
	writeBatchOps   = 4096
	writeBatchBytes = 2 << 20
)

// tableWriter is the compiled part of writing one table: its index entries and its foreign keys.
type tableWriter struct {
	table   *catalog.Table
	primary *indexWriter
	indexes []*indexWriter // primary first
	out     []*fkOut
	in      []*fkIn
	// notNull are the ordinals that must have a value.
	notNull []int
	// initial has, for columns that statements do not see yet, the value that existing rows have.
	initial types.Row
	// all reads every column of the primary index.
	all *rowDecoder
	// mutations of the plan that change the table; several notice each other's rows (exec.X9), and so does one with stepwise.
	mutations int
	stepwise  bool
}

// indexWriter makes the entries of one index.
type indexWriter struct {
	index *catalog.Index
	codec *indexCodec
	// uses are the ordinals from which an entry is made.
	uses map[int]bool
	// pk reads the primary key from an entry; only for secondary indexes.
	pk *rowDecoder
	// keyed reads the key columns.
	keyed  *rowDecoder
	pred   scalar.Evaluator // partial index; over the table's row
	conv   *conversion      // for an index of the converted rows; nil: of the rows as they are
	number int
	// world is for an index whose keys are unique over all regions; nil: its entries alone decide.
	world *worldwide
}

func (w *indexWriter) adds() bool {
	return w.index.State == catalog.Public || w.index.State == catalog.WriteOnly
}

// writer compiles the writer of a table, once.
func (b *builder) writer(t *catalog.Table) (*tableWriter, error) {
	if w := b.writers[t.ID]; w != nil {
		return w, nil
	}
	w := &tableWriter{table: t}
	b.expects(t)
	b.writers[t.ID] = w
	b.prog.writers = append(b.prog.writers, w)
	pkOrdinals := keyOrdinals(t, t.Primary())
	var all []int
	w.initial = make(types.Row, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.HasMissing && c.State == catalog.WriteOnly {
			d, err := types.ParseStored(c.Type.Bare(), c.Missing)
			if err != nil {
				return nil, err
			}
			w.initial[i] = d
		}
		if c.State == catalog.Absent {
			continue
		}
		all = append(all, i)
		if c.NotNull && c.State == catalog.Public {
			w.notNull = append(w.notNull, i)
		}
	}
	var conv *conversion
	for i := range t.Indexes {
		idx := &t.Indexes[i]
		if idx.State == catalog.Absent {
			continue
		}
		of := t
		if idx.Rewritten {
			if conv == nil {
				var err error
				if conv, err = b.conversion(t); err != nil {
					return nil, err
				}
			}
			of = conv.table
		}
		c, err := newIndexCodec(of, idx)
		if err != nil {
			return nil, err
		}
		iw := &indexWriter{index: idx, codec: c, uses: make(map[int]bool), number: len(w.indexes)}
		if idx.Rewritten {
			iw.conv = conv
		}
		for _, o := range keyOrdinals(t, idx) {
			iw.uses[o] = true
		}
		for _, o := range pkOrdinals {
			iw.uses[o] = true
		}
		for _, id := range idx.Suffix {
			iw.uses[t.Ordinal(id)] = true
		}
		for _, id := range idx.Stored {
			iw.uses[t.Ordinal(id)] = true
		}
		if idx.Primary || idx.Rewritten {
			for o := range t.Columns {
				iw.uses[o] = true
			}
		}
		if iw.keyed, err = newRowDecoder(of, idx, keyOrdinals(t, idx)); err != nil {
			return nil, err
		}
		if i > 0 && idx.State == catalog.Public {
			if iw.pk, err = newRowDecoder(t, idx, pkOrdinals); err != nil {
				return nil, err
			}
		}
		if idx.Predicate != "" {
			if err := b.predicate(t, iw); err != nil {
				return nil, err
			}
		}
		if err := b.worldwide(t, iw); err != nil {
			return nil, err
		}
		w.indexes = append(w.indexes, iw)
	}
	w.primary = w.indexes[0]
	var err error
	if w.all, err = newRowDecoder(t, t.Primary(), all); err != nil {
		return nil, err
	}
	w.all.spread(all, len(t.Columns))
	return w, b.foreignKeys(w)
}

func (b *builder) predicate(t *catalog.Table, iw *indexWriter) error {
	if b.opts.Predicate == nil {
		return sqlstate.New(sqlstate.FeatureNotSupported, "partial indexes are not supported")
	}
	e, err := b.opts.Predicate(b.ctx, t, iw.index)
	if err != nil {
		return err
	}
	l := make(layout)
	for o := range t.Columns {
		l[scalar.ColumnID(o+1)] = o
	}
	scalar.Columns(e, func(id scalar.ColumnID) { iw.uses[int(id)-1] = true })
	iw.pred, err = b.expr(e, l)
	return err
}

func keyOrdinals(t *catalog.Table, idx *catalog.Index) []int {
	out := make([]int, len(idx.Columns))
	for i, c := range idx.Columns {
		out[i] = t.Ordinal(c.Column)
	}
	return out
}

// mutation gathers the writes of one statement's operator into bounded batches.
type mutation struct {
	reader
	batch txn.WriteBatch
	// late are entries that follow all of the batch's deletions, so that a key may move from one row to another.
	late []lateWrite
	// checks are those of outgoing foreign keys of the rows in the batch
	checks []fkCheck
	seen   map[string]struct{} // parent keys known to exist
	// cascades: the mutation is an action of a foreign key.
	cascades bool
	// moves are the keys of unique indexes that rows of the batch have given up and taken, and taken the keys that are taken
	// now.
	moves []move
	taken map[string]bool
	// looks are the keys of worldwide indexes that rows of the batch take, except those of unchecked indexes. mine tells which of such keys the batch
	// has taken (true) or given up.
	looks     []look
	mine      map[string]bool
	unchecked map[*indexWriter]bool
	// sums are what the running update adds to its row; nil: it replaces the row.
	sums []txn.Delta
}

// move is a key that a row gave up, or took.
type move struct {
	iw    *indexWriter
	key   keys.Key
	takes bool
}

type lateWrite struct {
	key   keys.Key
	value []byte
	fresh bool
}

func (m *mutation) reset() {
	m.batch.Reset()
	clear(m.late)
	m.late = m.late[:0]
	m.forgetChecks()
	m.seen = nil
	m.forgetLooks()
	m.stay()
}

func (m *mutation) stay() {
	clear(m.moves)
	m.moves = m.moves[:0]
	clear(m.taken)
}

// moved notes that a row gives up a key of a unique index, or takes it. PostgreSQL checks each row when it is written: a key that a later
// row gives up is not free yet (exec.X6).
func (m *mutation) moved(w *tableWriter, iw *indexWriter, k keys.Key, takes bool) error {
	m.moves = append(m.moves, move{iw, k, takes})
	if takes {
		if m.taken == nil {
			m.taken = make(map[string]bool)
		}
		m.taken[string(k)] = true
		return nil
	}
	if !m.taken[string(k)] {
		return nil
	}
	// Which key was the first to be taken twice?
	var ks []keys.Key
	for _, v := range m.moves {
		if v.takes {
			ks = append(ks, v.key)
		}
	}
	if err := m.r.staysKeys(ks, kv.NoLock); err != nil {
		return err
	}
	vs, err := m.r.kv.GetMany(m.r.ctx, ks, kv.NoLock, kv.Block)
	if err != nil {
		return err
	}
	here := make(map[string]bool)
	for _, v := range m.moves {
		if !v.takes {
			here[string(v.key)] = false
			continue
		}
		value := vs[0]
		vs = vs[1:]
		was, known := here[string(v.key)]
		if was || !known && value != nil {
			return uniqueViolation(w.table, v.iw, v.key, value)
		}
		here[string(v.key)] = true
	}
	return uniqueViolation(w.table, iw, k, nil)
}

// failed is the error of a statement of which a row failed: rows before it, whose writes may not have been sent, may violate a
// unique constraint, which comes first.
func (m *mutation) failed(err error) error {
	var e *sqlstate.Error
	if !errors.As(err, &e) || e.Code[:2] != "21" && e.Code[:2] != "22" && e.Code[:2] != "23" || m.batch.Len()+len(m.late) == 0 && m.r.noted == nil {
		return err
	}
	first := m.flush(false)
	if s, ok := m.r.kv.(settler); ok && first == nil {
		first = m.r.writeError(s.Settle(m.r.ctx))
	}
	if sqlstate.Is(first, sqlstate.UniqueViolation) {
		return first
	}
	return err
}

// scratch is a buffer for a key or value; keep makes it permanent.
func (r *run) scratch() []byte {
	if cap(r.arena)-len(r.arena) < 256 {
		size := min(max(512, 2*cap(r.arena)), 64<<10)
		r.arena = make([]byte, 0, size)
	}
	return r.arena[len(r.arena):]
}

func (r *run) keep(b []byte) []byte {
	n := len(r.arena)
	if len(b) > 0 && n < cap(r.arena) && &b[0] == &r.arena[:n+1][n] {
		r.arena = r.arena[:n+len(b)]
	}
	return b[:len(b):len(b)]
}

func (r *run) indexKey(w *indexWriter, row types.Row) (keys.Key, error) {
	k, err := w.codec.appendKey(r.scratch(), row)
	if err != nil {
		return nil, err
	}
	return r.keep(k), nil
}

// indexValue makes the value of an entry that is to be written under the key.
func (r *run) indexValue(w *indexWriter, key keys.Key, row types.Row) ([]byte, error) {
	v := w.codec.appendValue(r.scratch(), row)
	if err := w.codec.check(key, v); err != nil {
		return nil, err
	}
	return r.keep(v), nil
}

// holds reports whether a row belongs into the index.
func (r *run) holds(w *indexWriter, row types.Row) (bool, error) {
	if w.pred == nil {
		return true, nil
	}
	return scalar.Test(w.pred, &r.sctx, row)
}

// insert adds a row's entries. blind: the primary key may be taken (UPSERT).
func (m *mutation) insert(w *tableWriter, row types.Row, blind bool) error {
	m.r.changed(w.table)
	for _, iw := range w.indexes {
		if !iw.adds() {
			continue
		}
		ok, err := m.r.holds(iw, row)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		row, _, err := m.r.entryRow(iw, row, false)
		if err != nil {
			return err
		}
		k, err := m.r.indexKey(iw, row)
		if err != nil {
			return err
		}
		v, err := m.r.indexValue(iw, k, row)
		if err != nil {
			return err
		}
		if err := m.deferrable(w, iw, row); err != nil {
			return err
		}
		if err := m.takes(w, iw, row, nil, k); err != nil {
			return err
		}
		if iw.codec.conflicts(row) && !(blind && iw == w.primary) {
			m.batch.PutNew(k, v)
		} else if blind && iw == w.primary {
			m.batch.PutBlind(k, v)
		} else if blind {
			m.batch.Put(k, v)
		} else {
			m.batch.PutFresh(k, v) // the row is new, and its identity is part of the key
		}
		if err := m.r.noteEntry(w, iw, k, row, true); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a row's entries.
func (m *mutation) remove(w *tableWriter, row types.Row) error {
	m.r.changed(w.table)
	for _, iw := range w.indexes {
		ok, err := m.r.holds(iw, row)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		row, none, err := m.r.entryRow(iw, row, true)
		if err != nil {
			return err
		}
		if none {
			continue
		}
		k, err := m.r.indexKey(iw, row)
		if err != nil {
			return err
		}
		m.releases(iw, row, k)
		m.batch.Delete(k)
		if err := m.r.noteEntry(w, iw, k, row, false); err != nil {
			return err
		}
	}
	return nil
}

// change replaces a row's entries in the given indexes; entries that stay the same are not touched.
func (m *mutation) change(w *tableWriter, indexes []*indexWriter, before, after types.Row) error {
	m.r.changed(w.table)
	for _, iw := range indexes {
		was, err := m.r.holds(iw, before)
		if err != nil {
			return err
		}
		is, err := m.r.holds(iw, after)
		if err != nil {
			return err
		}
		is = is && iw.adds()
		before, none, err := m.r.entryRow(iw, before, true)
		if err != nil {
			return err
		}
		was = was && !none
		after, none, err := m.r.entryRow(iw, after, false)
		if err != nil {
			return err
		}
		is = is && !none
		var oldKey, newKey keys.Key
		if was {
			if oldKey, err = m.r.indexKey(iw, before); err != nil {
				return err
			}
		}
		if is {
			if newKey, err = m.r.indexKey(iw, after); err != nil {
				return err
			}
		}
		switch same := was && is && bytes.Equal(oldKey, newKey); {
		case same:
			if iw == w.primary {
				if err := m.r.noteEntry(w, iw, newKey, after, true); err != nil {
					return err
				}
			}
			v, err := m.r.indexValue(iw, newKey, after)
			if err != nil {
				return err
			}
			if !iw.index.Primary && iw.index.State == catalog.Public {
				u := iw.codec.appendValue(m.r.scratch(), before)
				if bytes.Equal(u, v) {
					continue
				}
			}
			// An index that is being filled may lack the entry, and never get it from the backfill, if the row moves in the primary index to where the
			// backfill has been (exec.X2).
			if len(m.sums) > 0 && iw.index.Primary {
				m.batch.PutSum(newKey, v, m.sums)
				continue
			}
			m.batch.Put(newKey, v)
		default:
			if was {
				if iw.codec.conflicts(before) {
					if err := m.moved(w, iw, oldKey, false); err != nil {
						return err
					}
				}
				m.releases(iw, before, oldKey)
				m.batch.Delete(oldKey)
				if err := m.r.noteEntry(w, iw, oldKey, before, false); err != nil {
					return err
				}
			}
			if is {
				v, err := m.r.indexValue(iw, newKey, after)
				if err != nil {
					return err
				}
				if err := m.r.noteEntry(w, iw, newKey, after, true); err != nil {
					return err
				}
				fresh := iw.codec.conflicts(after)
				replaced := before
				if !was {
					replaced = nil
				}
				if err := m.takes(w, iw, after, replaced, newKey); err != nil {
					return err
				}
				m.late = append(m.late, lateWrite{newKey, v, fresh})
				if fresh {
					if err := m.moved(w, iw, newKey, true); err != nil {
						return err
					}
				}
				if err := m.deferrable(w, iw, after); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *mutation) full() bool {
	return m.batch.Len()+len(m.late) >= writeBatchOps || m.batch.Bytes() >= writeBatchBytes
}

// flush sends the gathered writes. The last batch of a statement that is a transaction by itself carries the commit.
func (m *mutation) flush(commit bool) error {
	r := m.r
	if err := m.checkTogether(); err != nil {
		return err
	}
	if err := m.checkParents(); err != nil {
		return err
	}
	if err := m.checkWorldwide(); err != nil {
		return err
	}
	for _, l := range m.late {
		if l.fresh {
			m.batch.PutNew(l.key, l.value)
		} else {
			m.batch.Put(l.key, l.value)
		}
	}
	clear(m.late)
	m.late = m.late[:0]
	m.stay()
	if m.batch.Len() == 0 {
		return nil
	}
	var err error
	commit = commit && r.env.AutoCommit
	if commit && len(r.events) > 0 {
		missing, err := r.precheck()
		if err != nil {
			return err
		}
		if err := m.orphan(missing); err != nil {
			return err
		}
	}
	commit = commit && len(r.events) == 0
	r.flushed = true
	err = m.write(&m.batch, commit)
	r.committed = commit && err == nil
	if commit && err != nil {
		err = m.firstTaken(err)
	}
	m.batch.Reset()
	return r.writeError(err)
}

// firstTaken is the error of a batch that was a transaction: of several keys that other rows have, ranges report any one.
// PostgreSQL reports the first that was written.
func (m *mutation) firstTaken(err error) error {
	var c *kv.ConditionFailedError
	if m.r.env.Looker == nil || !errors.As(err, &c) {
		return err
	}
	var ks []keys.Key
	given := make(map[string]bool) // up, or taken, by an earlier row
	var twice *kv.ConditionFailedError
	for w := range m.batch.Writes() {
		switch w.Kind {
		case txn.WriteDelete:
			given[string(w.Key)] = true
		case txn.WritePutNew:
			if taken, known := given[string(w.Key)]; known && !taken && twice == nil {
				twice = &kv.ConditionFailedError{Key: w.Key, Actual: w.Value}
			} else if !known && twice == nil {
				ks = append(ks, w.Key)
			}
			given[string(w.Key)] = false
		}
	}
	if len(ks) < 2 {
		return err
	}
	vs, e := m.r.env.Looker.Look(m.r.ctx, ks)
	if e != nil {
		return err
	}
	for i, v := range vs {
		if v != nil {
			return &kv.ConditionFailedError{Key: ks[i], Actual: v}
		}
	}
	if twice != nil {
		return twice
	}
	return err
}

// writeError turns a failed condition into the violation of a unique constraint.
func (r *run) writeError(err error) error {
	if err == nil {
		return nil
	}
	var c *kv.ConditionFailedError
	if !errors.As(err, &c) {
		return err
	}
	for _, w := range r.prog.writers {
		for _, iw := range w.indexes {
			if iw.codec.has(c.Key) {
				of := w.table
				if iw.conv != nil {
					of = iw.conv.table
				}
				e := uniqueViolation(of, iw, c.Key, c.Actual)
				e.Cause = err
				return e
			}
		}
	}
	return err
}

func uniqueViolation(t *catalog.Table, iw *indexWriter, key keys.Key, value []byte) *sqlstate.Error {
	name := t.NameOf(iw.index)
	e := sqlstate.New(sqlstate.UniqueViolation, "duplicate key value violates unique constraint \"%s\"", name)
	e.Table, e.TableID, e.Constraint = t.Name, uint32(t.ID), name
	ords := keyOrdinals(t, iw.index)
	row := make(types.Row, len(ords))
	if err := iw.keyed.decode(key, value, row); err == nil {
		n := iw.index.Implicit
		e.RowOf, e.Values = uint32(t.ID), "Key "+keyText(t, ords[n:], row[n:])+" already exists."
	}
	return e
}

// keyText prints "(a, b)=(1, x)".
func keyText(t *catalog.Table, ords []int, vals types.Row) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, o := range ords {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.Columns[o].Name)
	}
	b.WriteString(")=(")
	for i, o := range ords {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(textOf(vals[i], t.Columns[o].Type))
	}
	b.WriteByte(')')
	return b.String()
}

func textOf(d types.Datum, t *types.T) string {
	if d.IsNull() {
		return "null"
	}
	return string(types.AppendText(nil, d, t, nil))
}

// failingRow is the detail of a violated constraint.
func failingRow(t *catalog.Table, row types.Row) string {
	var b strings.Builder
	b.WriteString("Failing row contains (")
	first := true
	for i := range t.Columns {
		if t.Columns[i].State != catalog.Public || t.Columns[i].Hidden {
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		s := textOf(row[i], t.Columns[i].Type)
		if len(s) > 64 {
			s = s[:64] + "..."
		}
		b.WriteString(s)
	}
	b.WriteString(").")
	return b.String()
}

// checkSpec is a compiled CHECK constraint.
type checkSpec struct {
	name string
	ev   scalar.Evaluator
}

func (b *builder) checks(list []opt.CheckExpr, l layout) ([]checkSpec, error) {
	var out []checkSpec
	for _, c := range list {
		ev, err := b.expr(c.Expr, l)
		if err != nil {
			return nil, err
		}
		out = append(out, checkSpec{c.Name, ev})
	}
	return out, nil
}

// validate enforces NOT NULL and CHECK on a row as it will be written. comb begins with the table's row.
func (r *run) validate(t *catalog.Table, notNull []int, checks []checkSpec, comb types.Row) error {
	for _, o := range notNull {
		if comb[o].IsNull() {
			e := sqlstate.New(sqlstate.NotNullViolation, "null value in column \"%s\" of relation \"%s\" violates not-null constraint",
				t.Columns[o].Name, t.Name)
			e.RowOf, e.Values = uint32(t.ID), failingRow(t, comb)
			e.Table, e.TableID, e.Column = t.Name, uint32(t.ID), t.Columns[o].Name
			return e
		}
	}
	for i := range checks {
		ok, err := scalar.TestCheck(checks[i].ev, &r.sctx, comb)
		if err != nil {
			return err
		}
		if !ok {
			e := sqlstate.New(sqlstate.CheckViolation, "new row for relation \"%s\" violates check constraint \"%s\"", t.Name, checks[i].name)
			e.RowOf, e.Values = uint32(t.ID), failingRow(t, comb)
			e.Table, e.TableID, e.Constraint = t.Name, uint32(t.ID), checks[i].name
			return e
		}
	}
	return nil
}

// returning compiles RETURNING into the node's columns.
func (b *builder) returning(items []opt.ProjectItem, cols []scalar.ColumnID, l layout) ([]scalar.Evaluator, error) {
	if items == nil {
		return nil, nil
	}
	byCol := make(map[scalar.ColumnID]scalar.Expr, len(items))
	for _, it := range items {
		byCol[it.Col] = it.Expr
	}
	if len(cols) == 0 {
		for _, it := range items {
			cols = append(cols, it.Col)
		}
	}
	out := make([]scalar.Evaluator, len(cols))
	for i, c := range cols {
		e := byCol[c]
		if e == nil {
			if _, ok := l[c]; !ok {
				return nil, internal("returned column %d is unknown", c)
			}
			e = &scalar.Column{ID: c, T: b.meta.Column(c).Type}
		}
		ev, err := b.expr(e, l)
		if err != nil {
			return nil, err
		}
		out[i] = ev
	}
	return out, nil
}

// emitter keeps the rows of RETURNING until the statement has done all its writes.
type emitter struct {
	store rowStore
	row   types.Row
	at    int
}

func (e *emitter) add(r *run, evs []scalar.Evaluator, comb types.Row) error {
	if evs == nil {
		return nil
	}
	if len(e.row) != len(evs) {
		e.row = make(types.Row, len(evs))
	}
	if err := r.evalInto(evs, comb, e.row); err != nil {
		return err
	}
	_, err := e.store.add(r.budget, e.row)
	return err
}

func (e *emitter) reset(r *run) {
	e.store.reset(r.budget)
	e.at = 0
	clear(e.row)
}

func (e *emitter) next() types.Row {
	if e.at == len(e.store.rows) {
		return nil
	}
	e.at++
	return e.store.rows[e.at-1]
}

// mutator records in the program that the plan has a mutation.
func (b *builder) mutator(at place) {
	b.prog.mutates = true
	b.mutations++
	if at != rootPlan {
		b.prog.nested = true
	}
}

// count counts a row that was written.
func (m *mutation) count(at place) {
	if at != inside {
		m.r.affected++
	}
}

// finish ends a mutation: at the root the foreign keys are checked and cascaded now, below it when the whole
// statement has run.
func (m *mutation) finish(at place) error {
	if err := m.flush(at == rootPlan); err != nil {
		return err
	}
	if s, ok := m.r.kv.(settler); ok && !m.r.committed {
		if err := s.Settle(m.r.ctx); err != nil {
			return m.r.writeError(err)
		}
	}
	if at == rootPlan {
		return m.r.afterStatement()
	}
	return nil
}
