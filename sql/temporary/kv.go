package temporary

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/txn"
)

// KV is a transaction whose temporary tables are in a Store (temporary.TT4). sql/exec uses it in place of a txn.Txn.
type KV struct {
	*txn.Txn
	Store *Store
}

var (
	first = keys.TableKey(catalog.FirstLocalID)
	last  = keys.TableSpan(catalog.LastLocalID).End
)

// local reports whether a key is that of a row of a temporary table.
func local(k keys.Key) bool { return k.Compare(first) >= 0 && k.Compare(last) < 0 }

// Get is txn.Txn.Get.
func (t *KV) Get(ctx context.Context, k keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	if local(k) {
		return t.Store.Get(k), nil
	}
	return t.Txn.Get(ctx, k, lock, wait)
}

// GetMany is txn.Txn.GetMany.
func (t *KV) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	return t.many(ks, func(ks []keys.Key) ([][]byte, error) { return t.Txn.GetMany(ctx, ks, lock, wait) })
}

// LockFirst is txn.Txn.LockFirst.
func (t *KV) LockFirst(ctx context.Context, ks []keys.Key, n int, lock kv.LockStrength) (values [][]byte, changed []bool, err error) {
	if len(ks) == 0 || !local(ks[0]) {
		return t.Txn.LockFirst(ctx, ks, n, lock)
	}
	values, err = t.GetMany(ctx, ks[:min(n, len(ks))], lock, kv.SkipLocked)
	return values, make([]bool, len(values)), err
}

// CheckMany is txn.Txn.CheckMany.
func (t *KV) CheckMany(ctx context.Context, ks []keys.Key) ([][]byte, error) {
	return t.many(ks, func(ks []keys.Key) ([][]byte, error) { return t.Txn.CheckMany(ctx, ks) })
}

// GetFound is txn.Txn.GetFound.
func (t *KV) GetFound(ctx context.Context, ks []keys.Key, enough int, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	return t.many(ks, func(ks []keys.Key) ([][]byte, error) { return t.Txn.GetFound(ctx, ks, enough, lock, wait) })
}

// GetRows is txn.Txn.GetRows; entries of temporary tables come without their rows.
func (t *KV) GetRows(ctx context.Context, ks []keys.Key, enough int, recipe []byte, lock kv.LockStrength) (values [][]byte, rows []kv.KeyValue, err error) {
	values, err = t.many(ks, func(ks []keys.Key) (vs [][]byte, err error) {
		vs, rows, err = t.Txn.GetRows(ctx, ks, enough, recipe, lock)
		return vs, err
	})
	return values, rows, err
}

// CheckFound is txn.Txn.CheckFound.
func (t *KV) CheckFound(ctx context.Context, ks []keys.Key, enough int) ([][]byte, error) {
	return t.many(ks, func(ks []keys.Key) ([][]byte, error) { return t.Txn.CheckFound(ctx, ks, enough) })
}

// ReadFresh is txn.Txn.ReadFresh: rows of temporary tables have one state only.
func (t *KV) ReadFresh(ctx context.Context, ks []keys.Key) error {
	if len(ks) > 0 && local(ks[0]) {
		return nil
	}
	return t.Txn.ReadFresh(ctx, ks)
}

// CheckAbsent is txn.Txn.CheckAbsent.
func (t *KV) CheckAbsent(ctx context.Context, ks []keys.Key) ([][]byte, error) {
	return t.newest(ks, func(ks []keys.Key) ([][]byte, error) { return t.Txn.CheckAbsent(ctx, ks) })
}

// CheckTogether is txn.Txn.CheckTogether. A constraint of a temporary table is one between temporary tables.
func (t *KV) CheckTogether(ctx context.Context, present, absent []keys.Key) (found, taken [][]byte, err error) {
	here := func(k keys.Key) bool { return local(k) }
	if !slices.ContainsFunc(present, here) && !slices.ContainsFunc(absent, here) {
		return t.Txn.CheckTogether(ctx, present, absent)
	}
	if found, err = t.newest(present, func(ks []keys.Key) ([][]byte, error) { return t.Txn.CheckMany(ctx, ks) }); err != nil {
		return nil, nil, err
	}
	taken, err = t.CheckAbsent(ctx, absent)
	return found, taken, err
}

// newest is many with the running statement's own writes; the keys may be of several tables.
func (t *KV) newest(ks []keys.Key, ask func([]keys.Key) ([][]byte, error)) ([][]byte, error) {
	vs := make([][]byte, len(ks))
	var others []keys.Key
	for i, k := range ks {
		if local(k) {
			vs[i] = t.Store.newest(k)
		} else {
			others = append(others, k)
		}
	}
	if len(others) == 0 {
		return vs, nil
	}
	asked, err := ask(others)
	if err != nil {
		return nil, err
	}
	for i, k := range ks {
		if !local(k) {
			vs[i], asked = asked[0], asked[1:]
		}
	}
	return vs, nil
}

// many reads the keys of a batch, which are of one table: from the store if that table is temporary, and otherwise by ask.
func (t *KV) many(ks []keys.Key, ask func([]keys.Key) ([][]byte, error)) ([][]byte, error) {
	if len(ks) == 0 || !local(ks[0]) {
		return ask(ks)
	}
	vs := make([][]byte, len(ks))
	for i, k := range ks {
		vs[i] = t.Store.Get(k)
	}
	return vs, nil
}

// Scan is txn.Txn.Scan.
func (t *KV) Scan(ctx context.Context, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	if local(o.Span.Start) {
		rows, resume := t.Store.Scan(o)
		return rows, resume, nil
	}
	return t.Txn.Scan(ctx, o)
}

// CheckScan is txn.Txn.CheckScan.
func (t *KV) CheckScan(ctx context.Context, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	if local(o.Span.Start) {
		return t.Scan(ctx, o)
	}
	return t.Txn.CheckScan(ctx, o)
}

// ScanMany is txn.Txn.ScanMany.
func (t *KV) ScanMany(ctx context.Context, spans []keys.Span, o txn.ScanOptions) ([][]kv.KeyValue, error) {
	if len(spans) == 0 || !local(spans[0].Start) {
		return t.Txn.ScanMany(ctx, spans, o)
	}
	out := make([][]kv.KeyValue, len(spans))
	o.MaxRows, o.TargetBytes = 0, 0
	for i, s := range spans {
		o.Span = s
		out[i], _ = t.Store.Scan(o)
	}
	return out, nil
}

// CheckScans is txn.Txn.CheckScans.
func (t *KV) CheckScans(ctx context.Context, spans []keys.Span) ([][]kv.KeyValue, error) {
	if len(spans) == 0 || !local(spans[0].Start) {
		return t.Txn.CheckScans(ctx, spans)
	}
	return t.ScanMany(ctx, spans, txn.ScanOptions{})
}

// ScanFirst is txn.Txn.ScanFirst, which declines spans of temporary tables.
func (t *KV) ScanFirst(ctx context.Context, spans []keys.Span, o txn.ScanOptions) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error) {
	if len(spans) == 0 || local(spans[0].Start) {
		return nil, nil, false, nil
	}
	return t.Txn.ScanFirst(ctx, spans, o)
}

// CheckFirst is txn.Txn.CheckFirst, which declines spans of temporary tables.
func (t *KV) CheckFirst(ctx context.Context, spans []keys.Span, targetBytes int64) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error) {
	if len(spans) == 0 || local(spans[0].Start) {
		return nil, nil, false, nil
	}
	return t.Txn.CheckFirst(ctx, spans, targetBytes)
}

// Write is txn.Txn.Write.
func (t *KV) Write(ctx context.Context, b *txn.WriteBatch) error {
	rest, err := t.write(b)
	if err != nil || rest.Len() == 0 {
		return err
	}
	return t.Txn.Write(ctx, rest)
}

// CommitBatch is txn.Txn.CommitBatch. The store gets the outcome later, by Commit or Rollback.
func (t *KV) CommitBatch(ctx context.Context, b *txn.WriteBatch) error {
	rest, err := t.write(b)
	if err != nil {
		return err
	}
	if rest.Len() == 0 {
		return t.Txn.Commit(ctx)
	}
	return t.Txn.CommitBatch(ctx, rest)
}

// write carries out the store's part of a batch and returns the rest.
func (t *KV) write(b *txn.WriteBatch) (rest *txn.WriteBatch, err error) {
	mine, rest := b.Split(local)
	if mine.Len() == 0 {
		return rest, nil
	}
	return rest, t.Store.Write(mine)
}

// StepStatement is txn.Txn.StepStatement.
func (t *KV) StepStatement() {
	t.Txn.StepStatement()
	t.Store.Step()
}
