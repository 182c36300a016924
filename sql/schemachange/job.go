package schemachange

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/job"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Types of jobs.
const (
	jobChange = "schema change"
	jobRemove = "removal of data"
	jobType   = "type change"
)

// changePayload tells what a schema change job works on: the mutations of the table that carry its number.
type changePayload struct{ Table catalog.ID }

// changeProgress records how far the backfills have come.
type changeProgress struct {
	// Next is the key at which the backfill of an index continues; Done are the parts that are filled or validated.
	Next map[uint32]keys.Key
	Rows map[uint32]int64
	Done map[string]bool
}

// removePayload lists the spans to clear, and the descriptors to remove after that.
type removePayload struct {
	Spans  []keys.Span
	Forget []catalog.ID
	// Pressed: a disk was nearly full, and the removal does not wait for reads of the past.
	Pressed bool
	// Rows are rows to delete that are among those of other tables.
	Rows []removedRows `json:",omitempty"`
	// Kept are the removed indexes that their tables' descriptors still have (catalog.Table.Removed).
	Kept map[catalog.ID][]catalog.IndexID `json:",omitempty"`
	// Reserved says that Forget is a reservation, which is kept if its transaction has committed, together with the data (lease.L13).
	Reserved bool `json:",omitempty"`
	// Table and Index, if set: the span is that of an index which a transaction fills, and it is kept if the transaction commits.
	Table catalog.ID      `json:",omitempty"`
	Index catalog.IndexID `json:",omitempty"`
}

// lockedPause is how often a removal looks whether the transaction that fills the index has ended.
const lockedPause = 10 * time.Second

// lateLoads is how long a gateway may go on loading entries for a transaction that has failed already: it learns of that by its next
// heartbeat, and requests that it has sent may be on their way.
const lateLoads = 30 * time.Second

// wanted reports whether the transaction that has filled an index has committed, and waits until it has ended.
func (e *Executor) wanted(ctx context.Context, p *removePayload) (bool, error) {
	seen := uint64(0)
	for {
		t, locked, err := e.o.Leases.Newest(ctx, p.Table)
		switch {
		case err != nil || t == nil:
			return false, err // a dropped table's data is another job's
		case t.Index(p.Index) != nil:
			return true, nil
		case !locked && t.Version == seen:
			return false, nil
		case !locked:
			// Either the transaction has failed, or it has committed since the version was read: then there is a later version.
			seen = t.Version
			continue
		}
		if err := e.o.Host.Clock.Sleep(ctx, lockedPause); err != nil {
			return false, err
		}
	}
}

// insure records that an index which the transaction is about to fill has to be cleared if it does not commit, in a transaction
// of its own: the node may die.
func (c *change) insure(t *catalog.Table, x *catalog.Index) error {
	if c.o.Jobs == nil {
		return nil
	}
	span, filter, err := ownRows(t)
	if err != nil {
		return err
	}
	rows, rest, err := c.kv.Scan(c.ctx, txn.ScanOptions{Span: span, MaxRows: insuredRows, Filter: filter})
	if err != nil || len(rows) < insuredRows && (filter == nil || rest == nil) {
		return err // its entries are not loaded, and end with the transaction
	}
	return c.o.DB.Run(c.ctx, txn.TxnOptions{Name: "index"}, func(ctx context.Context, tx *txn.Txn) error {
		_, err := c.o.Jobs.Create(ctx, tx, job.Spec{Type: jobRemove, Description: "entries of an index of " + t.Name + ", if its transaction fails",
			Payload: removePayload{Spans: []keys.Span{keys.IndexSpan(t.ID, x.ID)}, Table: t.ID, Index: x.ID},
			After:   c.o.Clock.Wall().Add(c.o.RemoveAfter)})
		return err
	})
}

// insuredRows is at most the number of entries that are loaded at once (txn).
const insuredRows = 200

func (e *Executor) registerJobs() {
	if e.o.Jobs == nil {
		return
	}
	e.o.Leases.OnObsolete(e.callOff)
	e.o.Jobs.Handle(jobChange, job.Handler{Resume: e.resumeChange, Revert: e.revertChange, Abandon: e.abandonChange})
	e.o.Jobs.Handle(jobRemove, job.Handler{Resume: e.removeData, Insist: true})
	e.o.Jobs.Handle(jobType, job.Handler{Resume: e.publishValues, Abandon: e.abandonType})
	e.o.Jobs.Handle(jobProtocol, job.Handler{Resume: e.reprotocol})
	e.o.Jobs.Handle(jobPlacement, job.Handler{Resume: e.place})
	e.o.Jobs.Handle(jobRegions, job.Handler{Resume: e.changeRegions, Revert: e.undoRegions, Abandon: e.abandonRegions})
}

// callOff cancels the jobs of a table, which is about to be dropped, whose last attempt has failed: they may fail for as long as a region is away. The others end soon, and
// their clients get what they have asked for.
func (e *Executor) callOff(ctx context.Context, t *catalog.Table) {
	asked := map[int64]bool{0: true}
	for _, m := range t.Mutations {
		if asked[m.Job] {
			continue
		}
		asked[m.Job] = true
		if err := e.o.Jobs.CancelIfFailing(ctx, job.ID(m.Job)); err != nil && ctx.Err() == nil {
			e.o.Host.Log.Info("schemachange: can't cancel a job that fails, of a table that is dropped", "job", m.Job, "table", t.Name, "err", err)
		}
	}
}

// plan looks at the changes that a transaction is about to commit and creates the jobs that they need: for mutations
// that have none, and for data that no descriptor points to any more.
func (e *Executor) plan(ctx context.Context, tx *txn.Txn, cat *lease.Txn) error {
	if err := e.planTypes(ctx, tx, cat); err != nil {
		return err
	}
	var gone removePayload
	var names []string
	err := cat.EachTable(func(base, now *catalog.Table) (err error) {
		if err := hierarchyHolds(cat, now); err != nil {
			return err
		}
		if now.Dropped {
			if base != nil && !base.Dropped {
				gone.Rows = append(gone.Rows, lostRows(cat, base, 0)...)
			}
			if base == nil || !base.Dropped {
				gone.Spans = append(gone.Spans, keys.TableSpan(now.ID))
				gone.Forget = append(gone.Forget, now.ID)
				names = append(names, now.Name)
			}
			return nil
		}
		defer func() {
			if err == nil {
				err = holds(cat, e.o.Leases.Snapshot(), base, now)
			}
		}()
		if base != nil {
			atOnce(cat, now)
			for i := range base.Indexes {
				if id := base.Indexes[i].ID; now.Index(id) == nil {
					if base.Indexes[i].Primary {
						gone.Rows = append(gone.Rows, lostRows(cat, base, id)...)
					}
					gone.Spans = append(gone.Spans, keys.IndexSpan(now.ID, id))
					names = append(names, now.Name)
					if e.keepPlace(cat, now, &base.Indexes[i]) {
						if gone.Kept == nil {
							gone.Kept = map[catalog.ID][]catalog.IndexID{}
						}
						gone.Kept[now.ID] = append(gone.Kept[now.ID], id)
					}
				}
			}
		}
		if !slices.ContainsFunc(now.Mutations, func(m catalog.Mutation) bool { return m.Job == 0 }) {
			return nil
		}
		id, err := e.o.Jobs.Create(ctx, tx, job.Spec{Type: jobChange, Description: describe(now), Payload: changePayload{now.ID}})
		if err != nil {
			return err
		}
		for i := range now.Mutations {
			m := &now.Mutations[i]
			if m.Job != 0 {
				continue
			}
			m.Job = int64(id)
			if m.Kind == catalog.MutateColumn && !m.Drop {
				// The transaction could read the column; others may not until all nodes write it.
				if col := now.Column(catalog.ColumnID(m.ID)); col != nil {
					col.State = catalog.WriteOnly
				}
			}
		}
		cat.AfterCommit(func(ctx context.Context) error { return e.o.Jobs.Run(ctx, id) })
		return nil
	})
	if err != nil || len(gone.Spans) == 0 {
		return err
	}
	// Databases and schemas are descriptors without data.
	after := e.o.RemoveAfter
	if e.o.Pressed != nil && e.o.Pressed() {
		gone.Pressed, after = true, min(after, PressedRemoveAfter)
	}
	_, err = e.o.Jobs.Create(ctx, tx, job.Spec{Type: jobRemove, Description: "data of " + strings.Join(slices.Compact(names), ", "),
		Payload: gone, After: e.o.Clock.Wall().Add(after)})
	return err
}

func describe(t *catalog.Table) string {
	var parts []string
	for _, m := range t.Mutations {
		if m.Job != 0 {
			continue
		}
		verb := "add "
		if m.Drop {
			verb = "drop "
		}
		switch m.Kind {
		case catalog.MutateColumn:
			if col := t.Column(catalog.ColumnID(m.ID)); col != nil {
				parts = append(parts, verb+"column "+col.Name)
			}
		case catalog.MutateIndex:
			if x := t.Index(catalog.IndexID(m.ID)); x != nil {
				parts = append(parts, strings.TrimSpace(verb+"index "+x.Name))
			}
		case catalog.MutateCheck, catalog.MutateForeignKey:
			parts = append(parts, "validate constraint")
		case catalog.MutateNotNull:
			parts = append(parts, "set not null")
		}
	}
	return "table " + t.Name + ": " + strings.Join(parts, ", ")
}

// edit changes the job's table in a transaction of its own and waits until every node uses it.
func (e *Executor) edit(ctx context.Context, table catalog.ID, f func(cat *lease.Txn, t *catalog.Table) error) error {
	return e.o.Leases.Change(ctx, func(ctx context.Context, tx *txn.Txn, cat *lease.Txn) error {
		d := cat.Descriptor(table)
		if d == nil || d.Table == nil || d.Table.Dropped {
			return nil
		}
		if err := f(cat, cat.Table(table)); err != nil {
			return err
		}
		return e.plan(ctx, tx, cat)
	})
}

// swapTries bounds how often a rewrite steps back for transactions that keep using the table, some 14 s each time.
const swapTries = 100

// editAlone is edit for a change that may have to lock the table (lease.L6): it steps back as TRUNCATE does, and begins again.
func (e *Executor) editAlone(ctx context.Context, table catalog.ID, f func(cat *lease.Txn, t *catalog.Table) error) error {
	for try := 1; ; try++ {
		err := e.edit(ctx, table, f)
		if try == swapTries || !sqlstate.Is(err, sqlstate.LockNotAvailable) && !sqlstate.Is(err, sqlstate.SerializationFailure) {
			return err
		}
		if err := e.o.Host.Clock.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func mine(t *catalog.Table, id int64) (adds, drops []catalog.Mutation) {
	for _, m := range t.Mutations {
		switch {
		case m.Job != id:
		case m.Drop:
			drops = append(drops, m)
		default:
			adds = append(adds, m)
		}
	}
	return adds, drops
}

// diskPatience is how long a change that makes no progress waits for space on a disk that is nearly full: often a flush or a
// compaction is about to free some. After that the client gets 53100, as for an INSERT, instead of waiting without a bound.
const diskPatience = 10 * time.Second

// resumeChange advances the job's mutations until none is left.
func (e *Executor) resumeChange(ctx context.Context, r *job.Run) error {
	clk := e.o.Host.Clock
	since, fraction := clk.Monotonic(), -1.0
	for {
		err := e.advanceChange(ctx, r)
		var full *kv.UnavailableError
		if !errors.As(err, &full) || !full.DiskFull {
			return err
		}
		switch now := clk.Monotonic(); {
		case r.Job.Fraction != fraction:
			since, fraction = now, r.Job.Fraction
		case now-since >= diskPatience:
			return sqlstate.NearlyFull(full.Reason, err)
		}
		if err := clk.Sleep(ctx, diskPatience/20); err != nil {
			return err
		}
	}
}

// advanceChange advances the job's mutations, one version of the table at a time.
func (e *Executor) advanceChange(ctx context.Context, r *job.Run) error {
	var p changePayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	var done changeProgress
	if err := r.Progress(&done); err != nil {
		return err
	}
	if done.Next == nil {
		done.Next, done.Rows, done.Done = map[uint32]keys.Key{}, map[uint32]int64{}, map[string]bool{}
	}
	id := int64(r.Job.ID)
	for {
		d := e.o.Leases.Snapshot().Descriptor(p.Table)
		if d == nil || d.Table == nil || d.Table.Dropped {
			return nil
		}
		t := d.Table
		adds, drops := mine(t, id)
		switch {
		case len(adds)+len(drops) == 0:
			return nil
		case awaitsPlace(t, adds):
			if err := e.placeIndexes(ctx, r, t, adds, &done); err != nil {
				return err
			}
		case slices.ContainsFunc(adds, func(m catalog.Mutation) bool {
			return m.Kind == catalog.MutateIndex && t.Index(catalog.IndexID(m.ID)) != nil && t.Index(catalog.IndexID(m.ID)).State == catalog.DeleteOnly
		}):
			// Delete-only everywhere: now every node may write the indexes.
			if err := e.edit(ctx, p.Table, func(_ *lease.Txn, t *catalog.Table) error {
				adds, drops := mine(t, id)
				for _, m := range adds {
					if x := t.Index(catalog.IndexID(m.ID)); m.Kind == catalog.MutateIndex && x != nil {
						x.State = catalog.WriteOnly
					}
				}
				advanceDrops(t, drops)
				return nil
			}); err != nil {
				return err
			}
		case len(adds) > 0:
			// The publisher of this version may have died, or failed, before it was in use everywhere (schemachange.SC2).
			if err := e.o.Leases.Everywhere(ctx, catalog.Dependency{ID: t.ID, Version: t.Version}); err != nil {
				return err
			}
			for _, m := range adds {
				if err := e.prepare(ctx, r, t, m, &done); err != nil {
					return err
				}
			}
			if err := e.editAlone(ctx, p.Table, func(_ *lease.Txn, t *catalog.Table) error {
				adds, drops := mine(t, id)
				advanceDrops(t, drops)
				publish(t, adds)
				if slices.ContainsFunc(adds, func(m catalog.Mutation) bool { return m.Kind == catalog.MutateIndex }) {
					t.HistoryFrom = max(t.HistoryFrom, e.o.DB.Clock().Now().Wall+1) // its entries were loaded before
				}
				return nil
			}); err != nil {
				return err
			}
		default:
			if err := e.edit(ctx, p.Table, func(_ *lease.Txn, t *catalog.Table) error {
				_, drops := mine(t, id)
				advanceDrops(t, drops)
				return nil
			}); err != nil {
				return err
			}
		}
	}
}

// publish makes parts that are ready public.
func publish(t *catalog.Table, adds []catalog.Mutation) {
	if t.Rewrite != nil {
		finishRewrite(t, adds)
		return
	}
	replaced := false
	for _, m := range adds {
		switch m.Kind {
		case catalog.MutateColumn:
			if col := t.Column(catalog.ColumnID(m.ID)); col != nil {
				col.State = catalog.Public
			}
		case catalog.MutateIndex:
			if m.Replaces != 0 {
				replace(t, m)
				replaced = true
			} else if x := t.Index(catalog.IndexID(m.ID)); x != nil {
				x.State = catalog.Public
			}
		case catalog.MutateCheck:
			for i := range t.Checks {
				if t.Checks[i].ID == m.ID {
					t.Checks[i].State = catalog.Public
				}
			}
		case catalog.MutateForeignKey:
			for i := range t.Foreign {
				if t.Foreign[i].ID == m.ID {
					t.Foreign[i].State = catalog.Public
				}
			}
		case catalog.MutateNotNull:
			t.Checks = slices.DeleteFunc(t.Checks, func(k catalog.Check) bool { return k.ID == m.ID })
			if col := t.Column(m.Column); col != nil {
				col.NotNull = true
			}
		}
		dropMutations(t, func(o catalog.Mutation) bool { return o.Kind == m.Kind && o.ID == m.ID && !o.Drop })
	}
	if replaced {
		finishReplace(t)
	}
}

// advanceDrops advances parts that are being dropped by one state; a column waits for the indexes.
func advanceDrops(t *catalog.Table, drops []catalog.Mutation) {
	indexes := false
	for _, m := range drops {
		if m.Kind != catalog.MutateIndex {
			continue
		}
		x := t.Index(catalog.IndexID(m.ID))
		switch {
		case x != nil && x.State == catalog.WriteOnly:
			x.State = catalog.DeleteOnly
			indexes = true
		default:
			t.Indexes = slices.DeleteFunc(t.Indexes, func(o catalog.Index) bool { return o.ID == catalog.IndexID(m.ID) })
			dropMutations(t, func(o catalog.Mutation) bool { return o.Kind == m.Kind && o.ID == m.ID })
			dropHidden(t)
		}
	}
	if t.Rewrite != nil && !slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return x.Rewritten }) {
		t.Rewrite = nil // it was undone
	}
	if indexes {
		return
	}
	for _, m := range drops {
		if m.Kind == catalog.MutateColumn {
			t.Columns = slices.DeleteFunc(t.Columns, func(c catalog.Column) bool { return c.ID == catalog.ColumnID(m.ID) })
			dropMutations(t, func(o catalog.Mutation) bool { return o.Kind == m.Kind && o.ID == m.ID })
		}
	}
}

// prepare does what one part needs before it may be public: fill an index, validate a constraint.
func (e *Executor) prepare(ctx context.Context, r *job.Run, t *catalog.Table, m catalog.Mutation, done *changeProgress) error {
	key := fmt.Sprintf("%d/%d", m.Kind, m.ID)
	if done.Done[key] {
		return nil
	}
	var err error
	switch m.Kind {
	case catalog.MutateIndex:
		if x := t.Index(catalog.IndexID(m.ID)); x != nil {
			err = e.fillIndex(ctx, r, t, x, done)
		}
	case catalog.MutateCheck, catalog.MutateNotNull, catalog.MutateForeignKey:
		err = e.validate(ctx, t.ID, m)
	}
	if err != nil {
		var se *sqlstate.Error
		if errors.As(err, &se) && se.Table != "" && se.Schema == "" {
			if d := e.o.Leases.Snapshot().Descriptor(t.Schema); d != nil && d.Schema != nil {
				se.Schema = d.Schema.Name
			}
		}
		return err
	}
	done.Done[key] = true
	return r.Checkpoint(ctx, 0.9, done)
}

// backfill prepares to fill an index.
func (o *Options) backfill(ctx context.Context, view *lease.View, t *catalog.Table, x *catalog.Index, sctx *scalar.Context) (*exec.Backfill, error) {
	b := &bind.Binder{View: view, Registry: o.Registry, Location: sctx.Location}
	opts := exec.Options{View: view}
	if p, ok := any(b).(interface {
		PredicateExpr(context.Context, *catalog.Table, *catalog.Index) (scalar.Expr, error)
	}); ok {
		opts.Predicate = p.PredicateExpr
	}
	opts.Rewrite = b.RewriteOf
	return exec.NewBackfill(ctx, t, x, opts, sctx)
}

// viewOf runs f with a view of a transaction that uses the present version of a table.
func (e *Executor) viewOf(ctx context.Context, table catalog.ID, f func(ctx context.Context, tx *txn.Txn, view *lease.View, t *catalog.Table) error) error {
	return e.o.DB.Run(ctx, txn.TxnOptions{Name: jobChange}, func(ctx context.Context, tx *txn.Txn) error {
		cat := e.o.Leases.Begin(tx)
		defer cat.Finish(ctx, false)
		for try := 0; ; try++ {
			view := cat.View(e.infoOf(table)).(*lease.View)
			t, err := view.TableByID(ctx, table)
			if sqlstate.Is(err, sqlstate.SerializationFailure) && try < 100 {
				// The transaction is older than the version: take a younger timestamp.
				if err := tx.Restart(ctx); err != nil {
					return err
				}
				cat.Reset(ctx)
				continue
			}
			if err != nil {
				return err
			}
			if t == nil || t.Dropped {
				return nil
			}
			return f(ctx, tx, view, t)
		}
	})
}

func (e *Executor) infoOf(table catalog.ID) lease.Info {
	s := e.o.Leases.Snapshot()
	info := lease.Info{User: "root", SearchPath: []string{"public"}}
	if d := s.Descriptor(table); d != nil && d.Table != nil {
		if db := s.Descriptor(d.Table.Database); db != nil && db.Database != nil {
			info.Database = db.Database.Name
		}
		if sc := s.Descriptor(d.Table.Schema); sc != nil && sc.Schema != nil {
			info.SearchPath = []string{sc.Schema.Name}
		}
	}
	return info
}

func (e *Executor) rows(id catalog.ID) int64 {
	if s := e.o.Leases.Statistics(id); s != nil {
		return s.Rows
	}
	return 0
}

// validate checks that rows older than a constraint satisfy it.
func (e *Executor) validate(ctx context.Context, table catalog.ID, m catalog.Mutation) error {
	return e.viewOf(ctx, table, func(ctx context.Context, tx *txn.Txn, view *lease.View, t *catalog.Table) error {
		return e.o.validateMutation(ctx, tx, view, t, m)
	})
}

// validateMutation checks that the rows satisfy a constraint that is being added.
func (o *Options) validateMutation(ctx context.Context, tx exec.KV, view *lease.View, t *catalog.Table, m catalog.Mutation) error {
	if m.Kind == catalog.MutateForeignKey {
		for i := range t.Foreign {
			if t.Foreign[i].ID == m.ID {
				return o.validateForeign(ctx, tx, view, t, &t.Foreign[i])
			}
		}
		return nil
	}
	for i := range t.Checks {
		if k := &t.Checks[i]; k.ID == m.ID {
			err := o.validateCheck(ctx, tx, view, t, k)
			if col := t.Column(m.Column); sqlstate.Is(err, sqlstate.CheckViolation) && m.Kind == catalog.MutateNotNull && col != nil {
				v := sqlstate.New(sqlstate.NotNullViolation, "column \"%s\" of relation \"%s\" contains null values", col.Name, t.Name)
				v.Table, v.Column = t.Name, col.Name
				return v
			}
			return err
		}
	}
	return nil
}

var errFound = errors.New("found")

func qualified(view *lease.View, t *catalog.Table) string {
	schema := "public"
	if d := view.Txn().Descriptor(t.Schema); d != nil && d.Schema != nil {
		schema = d.Schema.Name
	}
	return quoteIdent(schema) + "." + quoteIdent(t.Name)
}

func (o *Options) validateCheck(ctx context.Context, tx exec.KV, view *lease.View, t *catalog.Table, k *catalog.Check) error {
	err := o.query(ctx, tx, view, "SELECT 1 FROM "+qualified(view, t)+" WHERE NOT ("+k.Expr+") LIMIT 1", func(types.Row) error { return errFound })
	if errors.Is(err, errFound) {
		v := sqlstate.New(sqlstate.CheckViolation, "check constraint \"%s\" of relation \"%s\" is violated by some row", k.Name, t.Name)
		v.Table, v.Constraint = t.Name, k.Name
		return v
	}
	return err
}

func (o *Options) validateForeign(ctx context.Context, tx exec.KV, view *lease.View, t *catalog.Table, k *catalog.ForeignKey) error {
	ref := t
	if k.RefTable != t.ID {
		var err error
		if ref, err = view.TableByID(ctx, k.RefTable); err != nil || ref == nil {
			return err
		}
	}
	var cols, on, null, notNull []string
	for i, id := range k.Columns {
		c, p := t.Column(id), ref.Column(k.RefColumns[i])
		if c == nil || p == nil {
			return nil
		}
		cols = append(cols, "c."+quoteIdent(c.Name))
		on = append(on, "c."+quoteIdent(c.Name)+" = p."+quoteIdent(p.Name))
		notNull = append(notNull, "c."+quoteIdent(c.Name)+" IS NOT NULL")
		null = append(null, "c."+quoteIdent(c.Name)+" IS NULL")
	}
	without := strings.Join(notNull, " AND ") + " AND NOT EXISTS (SELECT 1 FROM " + qualified(view, ref) + " p WHERE " + strings.Join(on, " AND ") + ")"
	if k.MatchFull && len(cols) > 1 {
		without = "(" + strings.Join(null, " OR ") + ") AND (" + strings.Join(notNull, " OR ") + ") OR " + without
	}
	q := "SELECT " + strings.Join(cols, ", ") + " FROM " + qualified(view, t) + " c WHERE " + without + " LIMIT 1"
	var detail string
	err := o.query(ctx, tx, view, q, func(r types.Row) error {
		if slices.ContainsFunc(r, types.Datum.IsNull) {
			detail = "MATCH FULL does not allow mixing of null and nonnull key values."
			return errFound
		}
		var names, values []string
		for i, id := range k.Columns {
			c := t.Column(id)
			names = append(names, quoteIdent(c.Name))
			values = append(values, types.FormatText(r[i], c.Type, nil))
		}
		detail = fmt.Sprintf("Key (%s)=(%s) is not present in table \"%s\".", strings.Join(names, ", "), strings.Join(values, ", "), ref.Name)
		return errFound
	})
	if errors.Is(err, errFound) {
		v := sqlstate.New(sqlstate.ForeignKeyViolation, "insert or update on table \"%s\" violates foreign key constraint \"%s\"", t.Name, k.Name)
		v.Detail, v.Table, v.Constraint = detail, t.Name, k.Name
		return v
	}
	return err
}

// revertChange undoes the job's additions; its drops go on.
func (e *Executor) revertChange(ctx context.Context, r *job.Run, _ error) error {
	var p changePayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	id := int64(r.Job.ID)
	for {
		d := e.o.Leases.Snapshot().Descriptor(p.Table)
		if d == nil || d.Table == nil || d.Table.Dropped {
			return nil
		}
		if adds, drops := mine(d.Table, id); len(adds)+len(drops) == 0 {
			return nil
		}
		if err := e.edit(ctx, p.Table, func(cat *lease.Txn, t *catalog.Table) error {
			adds, drops := mine(t, id)
			advanceDrops(t, drops)
			for _, m := range adds {
				takeBack(cat, t, m)
			}
			return nil
		}); err != nil {
			return err
		}
	}
}

// abandonChange takes the parts that the job's mutations are about from the descriptor, in one version. Reverting in steps keeps entries from staying behind in an index (schemachange.SC1); here
// the index goes with all of its entries, which plan has removed when no transaction uses the version before.
func (e *Executor) abandonChange(ctx context.Context, r *job.Run) error {
	var p changePayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	return e.edit(ctx, p.Table, func(cat *lease.Txn, t *catalog.Table) error {
		strip(cat, t, int64(r.Job.ID))
		return nil
	})
}

// strip is abandonChange of one table: what a job adds goes, and what it drops is gone.
func strip(cat *lease.Txn, t *catalog.Table, job int64) {
	adds, drops := mine(t, job)
	for _, m := range adds {
		takeBack(cat, t, m)
		if i := slices.IndexFunc(t.Mutations, func(o catalog.Mutation) bool { return o.Kind == m.Kind && o.ID == m.ID && o.Drop }); i >= 0 {
			drops = append(drops, t.Mutations[i])
		}
	}
	primary := t.Primary().ID
	for _, m := range drops {
		switch m.Kind {
		case catalog.MutateIndex:
			t.Indexes = slices.DeleteFunc(t.Indexes, func(x catalog.Index) bool { return x.ID == catalog.IndexID(m.ID) && x.ID != primary })
		case catalog.MutateColumn:
			t.Columns = slices.DeleteFunc(t.Columns, func(c catalog.Column) bool { return c.ID == catalog.ColumnID(m.ID) })
		}
	}
	dropMutations(t, func(o catalog.Mutation) bool { return o.Job == job })
	t.Rewrite, t.Relocation = nil, nil
	dropHidden(t)
}

// takeBack undoes one addition, or turns it into a drop.
func takeBack(cat *lease.Txn, t *catalog.Table, m catalog.Mutation) {
	at := slices.Index(t.Mutations, m)
	if at < 0 {
		return
	}
	if m.Validate {
		t.Mutations = slices.Delete(t.Mutations, at, at+1)
		return
	}
	switch m.Kind {
	case catalog.MutateColumn:
		if col := t.Column(catalog.ColumnID(m.ID)); col != nil {
			col.Name, col.NotNull, col.Default, col.OnUpdate = "", false, "", ""
			t.Mutations[at].Drop = true
			return
		}
	case catalog.MutateIndex:
		if x := t.Index(catalog.IndexID(m.ID)); x != nil {
			if old := t.Index(m.Replaces); old != nil {
				if old.Suffix, t.Relocation = nil, nil; old.Primary && old.Name == "" {
					old.Name = x.Name // it had made room for the new key's
				}
			}
			x.Name, x.Constraint = "", false
			t.Mutations[at].Drop = true
			return
		}
	case catalog.MutateCheck, catalog.MutateNotNull:
		t.Checks = slices.DeleteFunc(t.Checks, func(k catalog.Check) bool { return k.ID == m.ID })
	case catalog.MutateForeignKey:
		for i := range t.Foreign {
			if t.Foreign[i].ID == m.ID {
				unlink(cat, t, &t.Foreign[i])
				t.RemoveForeign(m.ID)
				break
			}
		}
	}
	t.Mutations = slices.DeleteFunc(t.Mutations, func(o catalog.Mutation) bool { return o == m })
}

// removeData clears data that no descriptor points to any more, then removes the descriptors.
func (e *Executor) removeData(ctx context.Context, r *job.Run) error {
	var p removePayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	at := 0
	if err := r.Progress(&at); err != nil {
		return err
	}
	if p.Table != 0 {
		if wanted, err := e.wanted(ctx, &p); wanted || err != nil {
			return err
		}
	}
	if p.Reserved {
		if removed, err := e.o.Leases.Unreserve(ctx, p.Forget[0]); !removed || err != nil {
			return err
		}
	}
	if err := e.unused(ctx, p.Spans); err != nil {
		return err
	}
	for at < len(p.Spans)+len(p.Rows) {
		if at >= len(p.Spans) {
			if err := e.removeRows(ctx, p.Rows[at-len(p.Spans)]); err != nil {
				return err
			}
			at++
			if err := r.Checkpoint(ctx, float64(at)/float64(len(p.Spans)+len(p.Rows)), at); err != nil {
				return err
			}
			continue
		}
		// No descriptor leads here any more, not even one of an older version: all versions may go.
		clear := func() error {
			if p.Pressed { // a transaction may still read the past
				return e.o.DB.ClearBelow(ctx, p.Spans[at], e.o.Clock.Now())
			}
			return e.o.DB.Clear(ctx, p.Spans[at])
		}
		err := clear()
		if other := (*kv.ProtocolError)(nil); errors.As(err, &other) {
			// Its ranges go back to the leader protocol, since no index has them any more.
			if _, err = e.conform(ctx, p.Spans[at:at+1], func(float64) error { return nil }); err == nil {
				err = clear()
			}
		}
		if err != nil {
			return err
		}
		at++
		if err := r.Checkpoint(ctx, float64(at)/float64(len(p.Spans)+len(p.Rows)), at); err != nil {
			return err
		}
	}
	if p.Table != 0 {
		// Entries that come late go, too.
		if err := e.o.Host.Clock.Sleep(ctx, lateLoads); err != nil {
			return err
		}
		for _, s := range p.Spans {
			if err := e.o.DB.Clear(ctx, s); err != nil {
				return err
			}
		}
	}
	for _, table := range slices.Sorted(maps.Keys(p.Kept)) {
		if err := e.edit(ctx, table, func(_ *lease.Txn, t *catalog.Table) error {
			t.Removed = slices.DeleteFunc(t.Removed, func(x catalog.Index) bool { return slices.Contains(p.Kept[table], x.ID) })
			return nil
		}); err != nil {
			return err
		}
	}
	for _, id := range p.Forget {
		if err := e.o.Leases.Forget(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// cancel is CANCEL JOB.
func (c *change) cancel(s *bind.Cancel) (string, bool, error) {
	if !strings.HasPrefix(strings.ToUpper(s.Kind), "JOB") {
		return "", false, nil
	}
	if !c.super() {
		return "", true, sqlstate.New(sqlstate.InsufficientPrivilege, "must be superuser to cancel a job")
	}
	id, err := strconv.ParseInt(strings.Trim(s.ID, "'"), 10, 64)
	if err != nil {
		return "", true, sqlstate.New(sqlstate.InvalidParameterValue, "\"%s\" is not a job", s.ID)
	}
	return "CANCEL JOBS 1", true, c.o.Jobs.Cancel(c.ctx, job.ID(id))
}
