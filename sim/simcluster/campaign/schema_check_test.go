package campaign_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/keys"
	"meridian/sim/simcluster/simtest"
	"meridian/sql/catalog"
	"meridian/sql/job"
	"meridian/txn"
)

// tables are the campaign's tables as a node knows them.
func (k *schemaCampaign) tables(i int) (out []*catalog.Table) {
	n := k.c.Node(i)
	if n == nil || n.Catalog() == nil {
		return nil
	}
	n.Catalog().Snapshot().EachTable(func(t *catalog.Table) {
		if t.ID >= catalog.FirstUserID && t.Kind == catalog.KindTable && !t.Dropped {
			out = append(out, t)
		}
	})
	slices.SortFunc(out, func(a, b *catalog.Table) int { return int(a.ID) - int(b.ID) })
	return out
}

// renamed are the present names of r and its column q.
func (k *schemaCampaign) renamed(i int) (table, column string) {
	for _, t := range k.tables(i) {
		if t.Name == "r" || t.Name == "r2" {
			for c := range t.Columns {
				if n := t.Columns[c].Name; n == "q" || n == "q2" {
					return t.Name, n
				}
			}
		}
	}
	return "r", "q"
}

var errNoNode = errors.New("the node is down")

// checkIndexes compares the stored entries of every public index with the stored rows, each table in a transaction at
// node i that uses the present version of it, as a statement would. It returns how many secondary indexes it has compared.
func (k *schemaCampaign) checkIndexes(ctx context.Context, i int) (secondary int, err error) {
	n := k.c.Node(i)
	if n == nil || n.Catalog() == nil {
		return 0, errNoNode
	}
	for _, t := range k.tables(i) {
		tx := n.DB().Begin(txn.TxnOptions{ReadOnly: true})
		cat := n.Catalog().Begin(tx)
		wrong, compared, terr := simtest.CompareIndexes(ctx, tx, cat, t.ID)
		at, deadline := tx.ReadTimestamp(), cat.Deadline()
		cat.Finish(ctx, false)
		tx.Rollback(ctx)
		if terr == nil && !deadline.IsZero() && deadline.Less(at) {
			terr = errors.New("the tenure has run out")
		}
		if terr != nil {
			err = terr
			continue
		}
		secondary += compared
		for _, w := range wrong {
			k.problem("%s at %s, at %v: %s", t.Name, k.c.Machines[i].Name, at, w)
		}
	}
	return secondary, err
}

// checkConstraints checks that the constraints of each table hold.
func (k *schemaCampaign) checkConstraints(ctx context.Context, i int, conn *pgx.Conn) error {
	none := func(q string) error {
		var n int
		if err := conn.QueryRow(ctx, q).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
		if n != 0 {
			k.problem("%s: %d, seen from %s", q, n, k.c.Machines[i].Name)
		}
		return nil
	}
	for _, t := range k.tables(i) {
		for _, c := range t.Columns {
			if c.NotNull && !c.Hidden {
				if err := none(fmt.Sprintf("SELECT count(*) FROM %s WHERE %s IS NULL", t.Name, c.Name)); err != nil {
					return err
				}
			}
		}
		for _, c := range t.Checks {
			if c.State == catalog.Public {
				if err := none(fmt.Sprintf("SELECT count(*) FROM %s WHERE NOT (%s)", t.Name, c.Expr)); err != nil {
					return err
				}
			}
		}
		for _, c := range t.Foreign {
			if c.State == catalog.Public {
				if err := none(fmt.Sprintf("SELECT count(*) FROM f WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.id = f.%s)", t.Column(c.Columns[0]).Name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// whole waits until every change of the schema is finished, on every node, and complains if that takes too long.
func (k *schemaCampaign) whole(since time.Time) {
	limit := schemaWhole
	if k.wide {
		// Half a dozen changes of one table may be left, each of three or four versions, and each of these waits for the
		// transactions that use the one before: 20 s are usual, the longest was 41 s.
		limit *= 2
	}
	for {
		var left string
		for i, m := range k.c.Machines {
			if s := k.unfinished(i); s != "" {
				left = m.Name + ": " + s
			}
		}
		k.finished = time.Since(since)
		if left == "" {
			return
		}
		if k.finished > limit {
			k.dump()
			k.problem("not finished %s after the last one was begun: %s", k.finished.Round(time.Second), left)
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (k *schemaCampaign) unfinished(i int) string {
	n := k.c.Node(i)
	if n == nil || n.Catalog() == nil {
		return "not started"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, index := range []catalog.IndexID{2, 3} {
		rows, err := n.DB().Scan(ctx, keys.IndexSpan(catalog.LeaseTableID, index))
		if err != nil {
			return err.Error()
		}
		if len(rows) > 0 {
			return fmt.Sprintf("/Table/7/%d has %d rows: %q", index, len(rows), rows[0])
		}
	}
	rows, err := n.DB().Scan(ctx, keys.IndexSpan(catalog.JobsTableID, catalog.IndexID(1)))
	if err != nil {
		return err.Error()
	}
	for _, r := range rows {
		var rec job.Record
		if err := json.Unmarshal(r.Value, &rec); err != nil {
			return err.Error()
		}
		if !rec.Status.Finished() && rec.After == 0 {
			return fmt.Sprintf("job %d, %s, is %s by node %d", rec.ID, rec.Description, rec.Status, rec.Claim.Node)
		}
	}
	for _, t := range k.tables(i) {
		if len(t.Mutations) > 0 {
			return fmt.Sprintf("table %s has mutations: %+v", t.Name, t.Mutations)
		}
		for _, c := range t.Columns {
			if c.State != catalog.Public || c.Name == "" || c.Name == "x3" || c.Name == "x6" {
				return fmt.Sprintf("column %q of table %s is %s", c.Name, t.Name, c.State)
			}
		}
		for _, x := range t.Indexes {
			if x.State != catalog.Public || x.Name == "" || x.Name == "u_d" {
				return fmt.Sprintf("index %q of table %s is %s", x.Name, t.Name, x.State)
			}
		}
		for _, c := range t.Checks {
			if c.State != catalog.Public || c.Name == "ck_bad" {
				return fmt.Sprintf("check %q of table %s is %s", c.Name, t.Name, c.State)
			}
		}
		for _, c := range t.Foreign {
			if c.State != catalog.Public {
				return fmt.Sprintf("foreign key %q of table %s is %s", c.Name, t.Name, c.State)
			}
		}
	}
	return ""
}

// cleared waits until no data of dropped indexes is stored.
func (k *schemaCampaign) cleared() {
	ctx, cancel := context.WithTimeout(context.Background(), schemaRemove+max(time.Minute, k.removal))
	defer cancel()
	for {
		left, n := "", 0
		for _, t := range k.tables(0) {
			rows, err := k.c.Node(0).DB().Scan(ctx, keys.TableSpan(t.ID))
			if err != nil {
				k.problem("what is left of dropped indexes: %v", err)
				return
			}
			for _, r := range rows {
				_, index, _, err := keys.DecodeIndexKey(r.Key)
				if err != nil {
					k.problem("%s has the key %x: %v", t.Name, r.Key, err)
					return
				}
				if t.Index(catalog.IndexID(index)) == nil {
					n++
					left = fmt.Sprintf("%d keys are left of indexes that are gone, the last one of index %d of %s: %x = %x", n, index, t.Name, r.Key, r.Value)
				}
			}
		}
		if left == "" {
			return
		}
		select {
		case <-ctx.Done():
			k.problem("%s", left)
			return
		case <-time.After(time.Second):
		}
	}
}
