package schemachange

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/job"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// jobRegions makes the regions that are being added writable, and removes those that are being dropped.
const jobRegions = "region change"

// regionPayload is the work of that job: all of the database's changing regions.
type regionPayload struct{ Database, Type catalog.ID }

// planRegions makes the job for the enum of a database's regions, if some are being added or dropped.
func (e *Executor) planRegions(ctx context.Context, tx *txn.Txn, cat *lease.Txn, now *catalog.Type) error {
	if now.Job != 0 || now.Dropped {
		return nil
	}
	d := cat.Descriptor(now.Database)
	if d == nil || d.Database == nil || d.Database.RegionEnum != now.ID || len(d.Database.Changing) == 0 {
		return nil
	}
	var words []string
	for _, v := range now.Enum.Values {
		switch v.State {
		case types.ValueReadable:
			words = append(words, "add region "+v.Label)
		case types.ValueLeaving:
			words = append(words, "drop region "+v.Label)
		}
	}
	id, err := e.o.Jobs.Create(ctx, tx, job.Spec{Type: jobRegions, Description: "database " + d.Database.Name + ": " + strings.Join(words, ", "),
		Payload: regionPayload{d.Database.ID, now.ID}})
	if err != nil {
		return err
	}
	now.Job = int64(id)
	cat.AfterCommit(func(ctx context.Context) error { return e.runOrCancel(ctx, id) })
	return nil
}

// cancelPatience bounds how long a statement of regions that was cancelled waits until its job has been undone. A step of the job that waits for the other nodes takes as
// long as a tenure at most.
const cancelPatience = 30 * time.Second

// runOrCancel runs the job of a statement of regions. If the statement is cancelled, or its client goes away, so is the job: an added region goes again, and one that was
// to be dropped stays. No job is left behind about which nobody asks. If the node stops, another one goes on with the job.
func (e *Executor) runOrCancel(ctx context.Context, id job.ID) error {
	err := e.o.Jobs.Run(ctx, id)
	group := e.o.Host.Group.Context()
	if ctx.Err() == nil || group.Err() != nil {
		return err
	}
	limit, stop := e.o.Host.Clock.WithTimeout(group, cancelPatience)
	defer stop()
	if cerr := e.o.Jobs.Cancel(limit, id); cerr != nil && !sqlstate.Is(cerr, sqlstate.ObjectNotInPrerequisite) {
		return errors.Join(err, cerr)
	}
	if e.o.Jobs.Run(limit, id) == nil {
		return nil // it was done before
	}
	return err
}

// changeRegions is the job: schemachange.SC9.
func (e *Executor) changeRegions(ctx context.Context, r *job.Run) error {
	var p regionPayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	db, t := e.regionsOf(p)
	if db == nil {
		return nil
	}
	if err := r.Checkpoint(ctx, 0.1, nil); err != nil {
		return err
	}
	// The publisher may have died before these versions were in use everywhere: until then other nodes may write the values.
	deps := []catalog.Dependency{{ID: db.ID, Version: db.Version}, {ID: t.ID, Version: t.Version}}
	e.o.Leases.Snapshot().EachTable(func(u *catalog.Table) {
		if u.Database == db.ID && u.UsesEnum(&t.Enum) {
			deps = append(deps, catalog.Dependency{ID: u.ID, Version: u.Version})
		}
	})
	for _, d := range deps {
		if err := e.o.Leases.Everywhere(ctx, d); err != nil {
			return err
		}
	}
	for _, v := range t.Enum.Values {
		if v.State == types.ValueReadable {
			if err := e.conformBefore(ctx, r, db, v.Label); err != nil {
				return err
			}
		}
		if v.State != types.ValueLeaving {
			continue
		}
		if err := e.mayForget(ctx, db, v.Label); err != nil {
			return err
		}
	}
	if err := r.Checkpoint(ctx, 0.9, nil); err != nil {
		return err
	}
	return e.endRegions(ctx, p, false)
}

// regionsOf are the database and the enum of a job; nil if there is nothing to do any more.
func (e *Executor) regionsOf(p regionPayload) (*catalog.Database, *catalog.Type) {
	s := e.o.Leases.Snapshot()
	d, t := s.Descriptor(p.Database), s.Descriptor(p.Type)
	if d == nil || d.Database == nil || d.Database.Dropped || t == nil || t.Type == nil || t.Type.Dropped || len(d.Database.Changing) == 0 {
		return nil, nil
	}
	return d.Database, t.Type
}

// mayForget refuses to drop a region that rows have, or that is the home of a table.
func (e *Executor) mayForget(ctx context.Context, db *catalog.Database, region string) error {
	return e.o.DB.Run(ctx, txn.TxnOptions{Name: jobRegions, ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
		cat := e.o.Leases.Begin(tx)
		defer cat.Finish(ctx, false)
		for try := 0; ; try++ {
			d := cat.Descriptor(db.RegionEnum)
			if d == nil || d.Type == nil {
				return nil
			}
			err := noHome(cat, db, region, &d.Type.Enum)
			if err == nil {
				view := cat.View(lease.Info{User: "root", Database: db.Name, SearchPath: []string{"public"}}).(*lease.View)
				err = e.o.noRows(ctx, tx, view, db, region, &d.Type.Enum)
			}
			if sqlstate.Is(err, sqlstate.SerializationFailure) && try < 100 {
				// The transaction is older than a version of a table: take a younger timestamp.
				if err := tx.Restart(ctx); err != nil {
					return err
				}
				cat.Reset(ctx)
				continue
			}
			return err
		}
	})
}

// noRows refuses to drop a region that a row has, in the region column of its table or in another column of the enum.
func (o *Options) noRows(ctx context.Context, tx exec.KV, view *lease.View, db *catalog.Database, region string, enum *types.Enum) error {
	i := slices.IndexFunc(enum.Values, func(v types.EnumValue) bool { return v.Label == region })
	if i < 0 {
		return nil
	}
	return view.Txn().EachRelation(db.ID, func(t *catalog.Table) error {
		if t.Dropped || t.Kind != catalog.KindTable || t.Temporary() || !t.UsesEnum(enum) {
			return nil
		}
		for j := range t.Columns {
			col := &t.Columns[j]
			if col.Type.WithEnum(enum) == nil {
				continue
			}
			if !t.Traits().StableView.Can() {
				return excluded(t, "the removal of a region that rows may have").WithHint("%s", asLeader(t))
			}
			row, err := o.rowOf(ctx, tx, view, t, col, enum.Values[i])
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			e := sqlstate.New(sqlstate.DependentObjectsExist, "could not remove enum value \"%s\" as it is being used by table \"%s\"", region, t.Name).
				WithHint("Move the rows to another region, or delete them.")
			if !db.Restricted { // the row stays where it is
				e.Message += " in row: " + strings.Join(row, ", ")
			}
			return e
		}
		return nil
	})
}

// rowOf is the primary key of a row that has a value in a column, as words; nil if there is none.
func (o *Options) rowOf(ctx context.Context, tx exec.KV, view *lease.View, t *catalog.Table, col *catalog.Column, v types.EnumValue) (row []string, err error) {
	primary := t.Primary()
	if primary.Columns[0] == (catalog.IndexColumn{Column: col.ID}) {
		prefix := keys.Key(encoding.AppendInt(keys.IndexPrefix(t.ID, primary.ID), v.Place, encoding.Ascending))
		found, _, err := tx.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: prefix, End: prefix.PrefixEnd()}, MaxRows: 1})
		if err != nil || len(found) == 0 {
			return nil, err
		}
		all := make([]int, len(t.Columns))
		for i := range all {
			all[i] = i
		}
		dec, err := rowcode.NewDecoder(t, primary, all)
		if err != nil {
			return nil, err
		}
		values := make(types.Row, len(t.Columns))
		if err := dec.Decode(found[0].Key, found[0].Value, values); err != nil {
			return nil, err
		}
		for _, k := range primary.Columns {
			c := t.Column(k.Column)
			row = append(row, c.Name+"="+types.FormatText(values[t.Ordinal(c.ID)], c.Type, nil))
		}
		return row, nil
	}
	var cols []string
	for _, k := range primary.Columns {
		cols = append(cols, quoteIdent(t.Column(k.Column).Name))
	}
	cond := quoteIdent(col.Name) + "::text = " + scalar.QuoteLiteral(v.Label)
	if col.Type.Kind == types.KindArray {
		cond = scalar.QuoteLiteral(v.Label) + " = ANY (" + quoteIdent(col.Name) + "::text[])"
	}
	err = o.query(ctx, tx, view, "SELECT "+strings.Join(cols, ", ")+" FROM "+qualified(view, t)+" WHERE "+cond+" LIMIT 1", func(r types.Row) error {
		for i, k := range primary.Columns {
			c := t.Column(k.Column)
			row = append(row, c.Name+"="+types.FormatText(r[i], c.Type, nil))
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return row, err
}

// endRegions ends the change: new values become public and leaving ones go; undone, it is the reverse.
func (e *Executor) endRegions(ctx context.Context, p regionPayload, undo bool) error {
	return e.o.Leases.Change(ctx, func(ctx context.Context, tx *txn.Txn, cat *lease.Txn) error {
		if d, t := cat.Descriptor(p.Database), cat.Descriptor(p.Type); d == nil || d.Database == nil || d.Database.Dropped || t == nil || t.Type == nil || t.Type.Dropped {
			return nil
		}
		db, t := cat.Database(p.Database), cat.Type(p.Type)
		gone := types.ValueLeaving
		if undo {
			gone = types.ValueReadable
		}
		for _, v := range t.Enum.Values {
			if v.State != gone {
				continue
			}
			if err := forgetRegion(ctx, cat, db, v.Label); err != nil {
				return err
			}
		}
		to, _ := t.Enum.Settled(types.ValueReadable, types.ValuePublic)
		to, _ = to.Settled(types.ValueLeaving, types.ValuePublic)
		t.Job, db.Changing = 0, nil
		return settle(ctx, cat, t, to)
	})
}

// forgetRegion removes a region of which there is no row from a database, and its value from the enum.
func forgetRegion(ctx context.Context, cat *lease.Txn, db *catalog.Database, region string) error {
	other := func(r string) bool { return r == region }
	db.Regions, db.Changing = slices.DeleteFunc(db.Regions, other), slices.DeleteFunc(db.Changing, other)
	t := cat.Type(db.RegionEnum)
	enum := t.Enum
	enum.Values = slices.DeleteFunc(slices.Clone(enum.Values), func(v types.EnumValue) bool { return v.Label == region })
	old := t.Enum
	if err := cat.EachRelation(db.ID, func(u *catalog.Table) error {
		if u.UsesEnum(&old) {
			m := cat.Table(u.ID)
			for i := range m.Columns {
				// Rows without the column would have been found.
				if c := &m.Columns[i]; c.HasMissing && c.Type.WithEnum(&old) != nil {
					if d, err := types.ParseStored(c.Type.Bare(), c.Missing); err == nil && hasValue(d, c.Type, &old, region) {
						c.Missing, c.HasMissing = "", false
					}
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return settle(ctx, cat, t, &enum)
}

// undoRegions makes the regions as they were before the statement.
func (e *Executor) undoRegions(ctx context.Context, r *job.Run, _ error) error {
	var p regionPayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	if db, _ := e.regionsOf(p); db == nil {
		return nil
	}
	return e.endRegions(ctx, p, true)
}

// abandonRegions lets others change the regions again of a database whose job has failed and can't be undone; the next change of them goes on with what is left.
func (e *Executor) abandonRegions(ctx context.Context, r *job.Run) error {
	var p regionPayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	return e.freeType(ctx, p.Type, int64(r.Job.ID))
}
