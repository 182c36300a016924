package schemachange

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"meridian/commit/protocol"
	"meridian/encoding"
	"meridian/keys"
	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/catalog/region"
	"meridian/sql/job"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// Where a database forbids regions (PLACEMENT RESTRICTED, super regions), a region that is added gets rows only when its partitions are where they should be, and a
// statement that narrows the places of rows which are there returns when their replicas have moved (docs/decisions/0012-regions.md, rule 3).

// jobPlacement waits for replicas to move. It changes nothing: stores move them by the configuration that the statement has committed.
const jobPlacement = "placement"

// placementPayload says whose ranges are waited for; without a table: all of the database's.
type placementPayload struct{ Database, Table catalog.ID }

const (
	// conformPause is how often ranges are compared with their configurations, longConformPause how often if they do not conform within conformSoon.
	conformPause, longConformPause = 100 * time.Millisecond, 500 * time.Millisecond
	conformSoon                    = 10 * time.Second
	// conformPatience bounds a wait in which no range gets its replicas: then some region has no store for them, or its nodes are gone.
	conformPatience = time.Minute
)

// forbids reports whether a database keeps replicas out of some regions: its own, or that of its witnesses, where no rows may be.
func forbids(db *catalog.Database) bool {
	return db.Restricted || len(db.SuperRegions) > 0 || db.Witnessed()
}

// conform waits until the ranges of spans violate no constraint, and says how many still do if that takes too long. It calls progress meanwhile, with a fraction.
func (e *Executor) conform(ctx context.Context, spans []keys.Span, progress func(float64) error) (left int, err error) {
	if e.o.Misplaced == nil || len(spans) == 0 {
		return 0, nil
	}
	clk := e.o.Host.Clock
	begin := clk.Monotonic()
	least, since := -1, begin
	shown, told := -1, begin
	for {
		total := 0
		left = 0
		for _, s := range spans {
			m, n, err := e.o.Misplaced(ctx, s)
			if err != nil {
				return 0, err
			}
			left, total = left+m, total+n
		}
		if left == 0 {
			return 0, nil
		}
		now, pause := clk.Monotonic(), conformPause
		if least < 0 || left < least {
			least, since = left, now
		} else if now-since > conformPatience {
			return left, nil
		}
		if now-begin > conformSoon {
			pause = longConformPause
		}
		if left != shown || now-told > time.Second { // to record it takes longer than the pause; a job learns so that it is cancelled
			if err := progress(float64(total-left) / float64(total)); err != nil {
				return 0, err
			}
			shown, told = left, now
		}
		if err := clk.Sleep(ctx, pause); err != nil {
			return 0, err
		}
	}
}

// conformBefore waits until the partitions of a region that is being added are in place, if the database forbids regions; else rows may come at once.
func (e *Executor) conformBefore(ctx context.Context, r *job.Run, db *catalog.Database, region string) error {
	if !forbids(db) {
		return nil
	}
	var spans []keys.Span
	e.o.Leases.Snapshot().EachTable(func(t *catalog.Table) {
		col := t.Column(t.RegionColumn)
		if t.Database != db.ID || t.Dropped || col == nil || col.Type.Enum == nil {
			return
		}
		for _, v := range col.Type.Enum.Values {
			for i := range t.Indexes {
				if v.Label == region {
					at := keys.Key(encoding.AppendInt(keys.IndexPrefix(t.ID, t.Indexes[i].ID), v.Place, encoding.Ascending))
					spans = append(spans, keys.Span{Start: at, End: at.PrefixEnd()})
				}
			}
		}
	})
	left, err := e.conform(ctx, spans, func(f float64) error { return r.Checkpoint(ctx, 0.9*f, nil) })
	if err == nil && left > 0 {
		err = sqlstate.New(sqlstate.ObjectNotInPrerequisite, "region \"%s\" was not added: %d partitions do not get their replicas there", region, left).
			WithHint("See meridian_internal.constraint_violations for what is missing.")
	}
	return err
}

// awaitPlacement makes the statement wait, after its commit, until no replica of a database, or of one of its tables, is where the new configuration forbids it.
func (c *change) awaitPlacement(database, table catalog.ID) {
	if c.o.Misplaced == nil || c.o.Jobs == nil {
		return
	}
	c.Catalog.AfterCommit(func(ctx context.Context) error {
		var id job.ID
		if err := c.o.DB.Run(ctx, txn.TxnOptions{Name: jobPlacement}, func(ctx context.Context, tx *txn.Txn) (err error) {
			id, err = c.o.Jobs.Create(ctx, tx, job.Spec{Type: jobPlacement, Description: "moves replicas to where rows may be", Payload: placementPayload{database, table}})
			return err
		}); err != nil {
			return err
		}
		err := c.runOrCancel(ctx, id)
		if sqlstate.Is(err, sqlstate.ObjectNotInPrerequisite) {
			// The configuration is in force; the violations are counted and shown.
			w := sqlstate.New(sqlstate.Warning, "the change is in force, and some rows are still where it forbids them").
				WithHint("See meridian_internal.constraint_violations.")
			c.notice(w)
			return nil
		}
		return err
	})
}

// place is the job that waits for the placement of a database or a table.
func (e *Executor) place(ctx context.Context, r *job.Run) error {
	var p placementPayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	var spans []keys.Span
	e.o.Leases.Snapshot().EachTable(func(t *catalog.Table) {
		if t.Database == p.Database && !t.Dropped && t.Kind != catalog.KindView && (p.Table == 0 || t.ID == p.Table) {
			spans = append(spans, keys.TableSpan(t.ID))
		}
	})
	left, err := e.conform(ctx, spans, func(f float64) error { return r.Checkpoint(ctx, 0.9*f, nil) })
	if err == nil && left > 0 {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "%s", fmt.Sprintf("%d ranges have replicas where their configuration forbids them", left))
	}
	return err
}

// bounded reports whether there are nodes where no replica of some row of a table, or of an index of it, may be, or whether its ranges are to have another protocol than
// those around them. In both cases there is no row before the ranges conform.
func (c *change) bounded(t *catalog.Table, indexes ...*catalog.Index) bool {
	return slices.ContainsFunc(c.spans(t, indexes...), func(s region.Span) bool { return s.Zone.Bounded() || s.Zone.Protocol != protocol.Default })
}

// spans are the configurations of a table as the transaction sees it, or those of some of its indexes.
func (c *change) spans(t *catalog.Table, indexes ...*catalog.Index) []region.Span {
	d := c.Catalog.Descriptor(t.Database)
	if d == nil || d.Database == nil {
		return nil
	}
	all := region.TableSpans(d.Database, t, c.view.Zones(), c.cluster())
	if len(indexes) == 0 {
		return all
	}
	var out []region.Span
	for _, x := range indexes {
		of := keys.IndexSpan(t.ID, x.ID)
		z, _ := region.Find(all, of.Start)
		out = append(out, region.Span{Start: of.Start, Zone: z})
		for _, s := range all {
			if of.Start.Less(s.Start) && s.Start.Less(of.End) {
				out = append(out, s)
			}
		}
	}
	return out
}

// inPlace reports whether the entries of a new index may come at once: nothing bounds their places, or the ranges that its keys belong to have its configuration
// already, since the table had it there before the statement.
func (c *change) inPlace(t *catalog.Table, x *catalog.Index) bool {
	if c.o.Misplaced == nil || t.Temporary() || !c.bounded(t, x) {
		return true
	}
	d, now := c.Catalog.Descriptor(t.Database), c.o.Leases.Snapshot().Descriptor(t.ID)
	if d == nil || d.Database == nil || now == nil || now.Table == nil {
		return false
	}
	before := region.TableSpans(d.Database, now.Table, c.view.Zones(), c.cluster())
	for _, s := range c.spans(t, x) {
		if z, _ := region.Find(before, s.Start); !reflect.DeepEqual(z, s.Zone) {
			return false
		}
	}
	return true
}

// firstState is the state in which an index is added that a job fills: one whose entries have to wait for their place is not written at all, since also a
// deletion has a row's bytes in its key.
func (c *change) firstState(t *catalog.Table, x *catalog.Index) catalog.State {
	if c.inPlace(t, x) {
		return catalog.DeleteOnly
	}
	return catalog.Absent
}

// keepPlace leaves an index that is gone in a table's descriptor, if rows may not be where the configuration without it wants them (region.RG1). before had the index.
func (e *Executor) keepPlace(cat *lease.Txn, t *catalog.Table, x *catalog.Index) bool {
	d := cat.Descriptor(t.Database)
	if d == nil || d.Database == nil {
		return false
	}
	was := t
	if base := cat.Base(t.ID); base != nil {
		was = base
	}
	of := keys.IndexSpan(t.ID, x.ID)
	cluster := placement.DefaultZone()
	if e.o.Zone != nil {
		cluster = e.o.Zone()
	}
	bounded := false
	for _, s := range region.TableSpans(d.Database, was, cat.Named(), cluster) {
		bounded = bounded || s.Start.Less(of.End) && s.Zone.Bounded()
	}
	if !bounded {
		return false
	}
	k := catalog.Index{ID: x.ID, OID: x.OID, Columns: x.Columns, Zone: x.Zone, Partitioning: x.Partitioning, PartitionZones: x.PartitionZones, Directories: x.Directories, Placed: x.Placed, State: catalog.Absent}
	k.Unname(cat.Named().Placements)
	if k.Placed == nil {
		k.Placed = &catalog.Relocation{Locality: was.Locality, Column: was.RegionColumn}
	}
	t.Removed = append(t.Removed, k)
	return true
}

// awaitsPlace reports whether indexes among a job's additions wait for their place.
func awaitsPlace(t *catalog.Table, adds []catalog.Mutation) bool {
	return slices.ContainsFunc(adds, func(m catalog.Mutation) bool {
		x := t.Index(catalog.IndexID(m.ID))
		return m.Kind == catalog.MutateIndex && x != nil && x.State == catalog.Absent
	})
}

// placeIndexes waits until the ranges of new indexes, which are empty, are where their configuration wants them; then the indexes are delete-only.
func (e *Executor) placeIndexes(ctx context.Context, r *job.Run, t *catalog.Table, adds []catalog.Mutation, done *changeProgress) error {
	if err := e.o.Leases.Everywhere(ctx, catalog.Dependency{ID: t.ID, Version: t.Version}); err != nil {
		return err
	}
	var spans []keys.Span
	for _, m := range adds {
		if m.Kind == catalog.MutateIndex {
			spans = append(spans, keys.IndexSpan(t.ID, catalog.IndexID(m.ID)))
		}
	}
	left, err := e.conform(ctx, spans, func(f float64) error { return r.Checkpoint(ctx, 0.1*f, done) })
	if err != nil {
		return err
	}
	if left > 0 {
		return notPlaced("table \"%s\" was not changed: %d ranges of its new indexes do not get their replicas where the rows may be", t.Name, left)
	}
	return e.edit(ctx, t.ID, func(_ *lease.Txn, t *catalog.Table) error {
		adds, drops := mine(t, int64(r.Job.ID))
		for _, m := range adds {
			if x := t.Index(catalog.IndexID(m.ID)); m.Kind == catalog.MutateIndex && x != nil && x.State == catalog.Absent {
				x.State = catalog.DeleteOnly
			}
		}
		advanceDrops(t, drops)
		return nil
	})
}

func notPlaced(format string, args ...any) error {
	return sqlstate.New(sqlstate.ObjectNotInPrerequisite, format, args...).WithHint("See meridian_internal.constraint_violations for what is missing.")
}

// reserve waits until the ranges of a table that the transaction makes are where their configuration wants them, if that forbids places. The transaction holds no
// lock on anything but what it has itself made before.
func (c *change) reserve(t *catalog.Table) error {
	if c.o.Misplaced == nil || c.o.Jobs == nil || t.Temporary() || t.Kind != catalog.KindTable || !c.bounded(t) {
		return nil
	}
	spans := []keys.Span{keys.TableSpan(t.ID)}
	if err := c.Catalog.Reserve(c.ctx, t, func(ctx context.Context, tx *txn.Txn) error {
		_, err := c.o.Jobs.Create(ctx, tx, job.Spec{Type: jobRemove, Description: "ranges of " + t.Name + ", if its transaction fails",
			Payload: removePayload{Spans: spans, Forget: []catalog.ID{t.ID}, Reserved: true}, After: c.o.Clock.Wall().Add(c.o.RemoveAfter)})
		return err
	}); err != nil {
		return err
	}
	left, err := c.conform(c.ctx, spans, func(float64) error { return nil })
	if err == nil && left > 0 {
		err = notPlaced("table \"%s\" was not created: %d of its ranges do not get their replicas where the rows may be", t.Name, left)
		if !t.Protocol.Default() {
			err = notPlaced("table \"%s\" was not created: %d of its ranges do not get the commit protocol %s", t.Name, left, t.Protocol)
		}
	}
	return err
}

// reserveIndex is reserve for another index of a table that the transaction has made.
func (c *change) reserveIndex(t *catalog.Table, x *catalog.Index) error {
	if c.inPlace(t, x) {
		return nil
	}
	return c.reserve(t)
}

// mustBeInPlace refuses an index that the transaction is about to fill, of a table that others know, where entries would have to wait for their place.
func (c *change) mustBeInPlace(t *catalog.Table, x *catalog.Index) error {
	if c.inPlace(t, x) {
		return nil
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "indexes of table \"%s\" wait for their places, so they can't be built within a transaction block or by this statement", t.Name).
		WithHint("The database keeps rows within regions. Run the change as a statement of its own, with one action.")
}

// placeHere is what an index needs before it is filled within the transaction.
func (c *change) placeHere(t *catalog.Table, x *catalog.Index) error {
	if c.isNew(t) {
		return c.reserveIndex(t, x)
	}
	return c.mustBeInPlace(t, x)
}

// keepsPlace reports whether TRUNCATE empties the indexes of a table instead of giving them new identities: no other session knows the table, or rows under the new ones
// would be elsewhere at first. In the second case the transaction locks the table.
func (c *change) keepsPlace(t *catalog.Table) (bool, error) {
	if t.Temporary() {
		return true, nil
	}
	next := *t
	next.Indexes = slices.Clone(t.Indexes)
	for i := range next.Indexes {
		x := &next.Indexes[i]
		x.ID = next.NextIndex
		next.NextIndex++
		if !c.inPlace(&next, x) {
			return true, c.lock(t.ID)
		}
	}
	return false, nil
}
