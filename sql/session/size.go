package session

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// Sizes are approximate, but for temporary tables. A short span is counted. The size of a longer one is the larger of two estimates: from the number of rows in the table's
// statistics, and from the sizes of the ranges within the span. Sizes are of keys and values before compression, on one replica.

const (
	// countedBytes bounds the part of a span that is read to count it, and uncountedBytes that of a table without statistics.
	countedBytes   = 256 << 10
	uncountedBytes = 8 << 20
	// countedWait bounds the wait of a count for a lock: pg_table_size is called for overviews, which should not wait for transactions.
	countedWait = 20 * time.Millisecond
)

// Size implements system.Environment.
func (e *environment) Size(ctx context.Context, part system.SizePart, oid uint32) (bytes int64, ok bool, err error) {
	switch part {
	case system.SizeOfDatabase:
		return e.databaseSize(ctx, catalog.ID(oid))
	case system.SizeOfAll:
		ranges, err := e.s.srv.Ranges.Ranges(ctx, keys.TablePrefix, keys.TableMax)
		for _, r := range ranges {
			bytes += r.Bytes
		}
		return bytes, err == nil, err
	}
	t, index := e.functions().Relation(oid)
	if t == nil {
		return 0, false, nil
	}
	bytes, err = e.relationSize(ctx, t, index, part)
	return bytes, err == nil, err
}

// relationSize adds up the sizes of a part of a relation. The rows are in the primary index, so that counts as the table and not as one of its
// indexes.
func (e *environment) relationSize(ctx context.Context, t *catalog.Table, index *catalog.Index, part system.SizePart) (bytes int64, err error) {
	if t.Kind != catalog.KindTable || t.Dropped {
		if t.Kind == catalog.KindSequence && part != system.SizeOfIndexes {
			return 8, nil // one number
		}
		return 0, nil
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if x.State == catalog.Absent {
			continue
		}
		wanted := part == system.SizeOfTotal || x.Primary != (part == system.SizeOfIndexes)
		if index != nil {
			wanted = x.ID == index.ID && part != system.SizeOfIndexes
		}
		if !wanted {
			continue
		}
		n, err := e.indexSize(ctx, t, x)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// indexSize estimates the size of an index.
func (e *environment) indexSize(ctx context.Context, t *catalog.Table, x *catalog.Index) (int64, error) {
	entries, err := rowcode.NewIndex(t, x)
	if err != nil {
		return 0, err
	}
	if entries.Mixed() {
		return e.spanSize(ctx, t, entries.All(), entries)
	}
	return e.spanSize(ctx, t, entries.All(), nil)
}

// spanSize estimates the size of a span of a table, of which only the keys that filter wants count.
func (e *environment) spanSize(ctx context.Context, t *catalog.Table, span keys.Span, filter txn.Filter) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	st, err := e.s.view().Statistics(ctx, t.ID)
	if err != nil {
		return 0, err
	}
	target := int64(countedBytes)
	if st == nil {
		target = uncountedBytes
	}
	read := func(scan func(context.Context, txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error)) (bytes, rows int64, whole bool) {
		list, resume, err := scan(ctx, txn.ScanOptions{Span: span, TargetBytes: target, Filter: filter})
		for _, r := range list {
			bytes += int64(len(r.Key) + len(r.Value))
		}
		return bytes, int64(len(list)), err == nil && resume == nil
	}
	if t.Temporary() {
		return e.temporarySize(ctx, span)
	}
	// The count reads at a fixed timestamp, and so never has to run again.
	o := txn.TxnOptions{Name: "size", ReadOnly: true, LockTimeout: countedWait, AsOf: e.s.srv.Clock.Now()}
	if !t.Traits().Past.Can() {
		o.AsOf, o.Isolation = clock.Timestamp{}, kv.ReadCommitted
	}
	tx := e.s.srv.DB.Begin(o)
	defer tx.Rollback(ctx)
	bytes, rows, whole := read(tx.Scan)
	if whole {
		return bytes, nil
	}
	if st != nil && rows > 0 {
		bytes = max(bytes, int64(float64(bytes)/float64(rows)*float64(st.Rows)))
	}
	if filter != nil { // ranges do not know whose rows they have
		return bytes, ctx.Err()
	}
	ranges, err := e.s.srv.Ranges.Ranges(ctx, span.Start, span.End)
	if err != nil {
		return 0, err
	}
	within := int64(0)
	for _, r := range ranges {
		if !span.Start.Less(r.Start) && !span.Start.Equal(r.Start) || keys.Key(r.End).Compare(span.End) > 0 {
			continue
		}
		within += r.Bytes
	}
	return max(bytes, within), ctx.Err()
}

// temporarySize counts a span of a temporary table. Its rows are in memory, so all of them are counted.
func (e *environment) temporarySize(ctx context.Context, span keys.Span) (bytes int64, err error) {
	rows := e.s.temp.through(e.s.tx)
	for next := &span; next != nil && err == nil; err = ctx.Err() {
		var list []kv.KeyValue
		if list, next, err = rows.Scan(ctx, txn.ScanOptions{Span: *next, TargetBytes: countedBytes}); err != nil {
			return 0, err
		}
		for _, r := range list {
			bytes += int64(len(r.Key) + len(r.Value))
		}
	}
	return bytes, err
}

func (e *environment) databaseSize(ctx context.Context, id catalog.ID) (bytes int64, ok bool, err error) {
	dbs, err := e.s.view().Databases(ctx)
	if err != nil {
		return 0, false, err
	}
	for _, d := range catalog.WithTemplates(dbs) {
		if d.ID != id {
			continue
		}
		if a := e.s.view().Access(); !a.May(e.s.role(), d.ID, catalog.Connect) && !a.Has(e.s.role(), catalog.ReadAllStats, "") {
			return 0, false, sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied for database %s", d.Name)
		}
		tables, err := e.s.view().Tables(ctx, d.Name)
		if err != nil {
			return 0, false, err
		}
		for _, t := range tables {
			n, err := e.relationSize(ctx, t, nil, system.SizeOfTotal)
			if err != nil {
				return 0, false, err
			}
			bytes += n
		}
		return bytes, true, nil
	}
	return 0, false, nil
}

// DatabaseOID implements system.Environment.
func (e *environment) DatabaseOID(ctx context.Context, name string) (uint32, error) {
	d, err := e.s.view().Database(ctx, name)
	if err != nil {
		return 0, err
	}
	if d == nil {
		return 0, sqlstate.New(sqlstate.InvalidCatalogName, "database \"%s\" does not exist", name)
	}
	return uint32(d.ID), nil
}

// IsTable implements system.Environment.
func (e *environment) IsTable(oid uint32) bool {
	t, index := e.functions().Relation(oid)
	return t != nil && index == nil && t.Kind == catalog.KindTable && !t.Materialized
}
