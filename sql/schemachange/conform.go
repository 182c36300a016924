package schemachange

import (
	"context"
	"fmt"
	"time"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
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
	// conformPause is how often ranges are compared with their configurations.
	conformPause = 500 * time.Millisecond
	// conformPatience bounds a wait in which no range gets its replicas: then some region has no store for them, or its nodes are gone.
	conformPatience = time.Minute
)

// forbids reports whether a database keeps replicas out of some of its regions.
func forbids(db *catalog.Database) bool { return db.Restricted || len(db.SuperRegions) > 0 }

// conform waits until the ranges of spans violate no constraint, and says how many still do if that takes too long.
func (e *Executor) conform(ctx context.Context, r *job.Run, spans []keys.Span) (left int, err error) {
	if e.o.Misplaced == nil || len(spans) == 0 {
		return 0, nil
	}
	clk := e.o.Host.Clock
	least, since := -1, clk.Monotonic()
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
		if now := clk.Monotonic(); least < 0 || left < least {
			least, since = left, now
		} else if now-since > conformPatience {
			return left, nil
		}
		if err := r.Checkpoint(ctx, 0.9*float64(total-left)/float64(total), nil); err != nil {
			return 0, err
		}
		if err := clk.Sleep(ctx, conformPause); err != nil {
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
	left, err := e.conform(ctx, r, spans)
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
		err := c.o.Jobs.Run(ctx, id)
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
	left, err := e.conform(ctx, r, spans)
	if err == nil && left > 0 {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "%s", fmt.Sprintf("%d ranges have replicas where their configuration forbids them", left))
	}
	return err
}
