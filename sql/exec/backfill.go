package exec

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"sync"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Backfill fills a new index of a table from its primary index, in steps that are a transaction each. Several may run at the same time.
type Backfill struct {
	mu    sync.Mutex // held while rows are decoded and expressions are evaluated, not while anything is read or written
	table *catalog.Table
	iw    *indexWriter
	all   *rowDecoder
	src   *indexCodec
	// ident are the ordinals by which an entry of the index identifies its row.
	ident []int
	conv  *conversion // for an index of the converted rows
	eval  *scalar.Context
}

// NewBackfill prepares to fill an index that is in state WriteOnly. For a partial index, o.Predicate must be set.
func NewBackfill(ctx context.Context, t *catalog.Table, index *catalog.Index, o Options, eval *scalar.Context) (*Backfill, error) {
	f := &Backfill{table: t, eval: eval}
	var err error
	if f.src, err = newIndexCodec(t, t.Primary()); err != nil {
		return nil, err
	}
	f.iw = &indexWriter{index: index, uses: make(map[int]bool)}
	of := t
	if index.Rewritten {
		b := &builder{ctx: ctx, opts: o, prog: &Program{}}
		if f.conv, err = b.conversion(t); err != nil {
			return nil, err
		}
		of = f.conv.table
		f.table = of
	}
	if f.iw.codec, err = newIndexCodec(of, index); err != nil {
		return nil, err
	}
	if f.iw.keyed, err = newRowDecoder(of, index, keyOrdinals(t, index)); err != nil {
		return nil, err
	}
	f.ident = keyOrdinals(t, t.Primary())
	if index.Suffix != nil && !index.Primary {
		f.ident = ordinals(t, index.Suffix)
	}
	if f.iw.pk, err = newRowDecoder(of, index, f.ident); err != nil {
		return nil, err
	}
	if index.Predicate != "" {
		b := &builder{ctx: ctx, opts: o, prog: &Program{}}
		if err := b.predicate(t, f.iw); err != nil {
			return nil, err
		}
	}
	var all []int
	for i := range t.Columns {
		if t.Columns[i].State != catalog.Absent {
			all = append(all, i)
		}
	}
	if f.all, err = newRowDecoder(t, t.Primary(), all); err != nil {
		return nil, err
	}
	f.all.spread(all, len(t.Columns))
	return f, nil
}

// Span is the whole primary index of the table: the first step begins with it.
func (f *Backfill) Span() keys.Span { return f.src.all() }

// Entries are entries of an index in key order, each with the key of its row in the primary index.
type Entries struct {
	KVs  []kv.KeyValue
	Rows []keys.Key
}

func (e *Entries) add(k keys.Key, v []byte, row keys.Key) {
	e.KVs, e.Rows = append(e.KVs, kv.KeyValue{Key: k, Value: v}), append(e.Rows, row)
}

func (e *Entries) Len() int           { return len(e.KVs) }
func (e *Entries) Less(i, j int) bool { return bytes.Compare(e.KVs[i].Key, e.KVs[j].Key) < 0 }
func (e *Entries) Swap(i, j int) {
	e.KVs[i], e.KVs[j] = e.KVs[j], e.KVs[i]
	e.Rows[i], e.Rows[j] = e.Rows[j], e.Rows[i]
}

// Row is the row of an entry, nil if there is no such entry.
func (e *Entries) Row(k keys.Key) keys.Key {
	i, ok := slices.BinarySearchFunc(e.KVs, k, func(x kv.KeyValue, k keys.Key) int { return x.Key.Compare(k) })
	if !ok {
		return nil
	}
	return e.Rows[i]
}

// Chunk is a part of a table that is being written into an index.
type Chunk struct {
	// Span is that of its rows in the primary index, and Rest what follows it; nil at the end.
	Span keys.Span
	Rest *keys.Span
	Rows int64
	// Bytes is the size of the rows.
	Bytes int64
	// Unique are the entries whose keys another row could have too; entries in Own have their row's identity in the key.
	Unique, Own Entries
}

// Read makes the entries of at most limit rows of a span. Two entries with one key of a unique index are the error
// 23505.
func (f *Backfill) Read(ctx context.Context, t KV, span keys.Span, limit int64) (*Chunk, error) {
	page, rest, err := t.Scan(ctx, txn.ScanOptions{Span: span, MaxRows: limit, TargetBytes: pageBytes, Filter: f.src.filter()})
	if err != nil {
		return nil, err
	}
	c, err := f.chunk(page)
	if err != nil {
		return nil, err
	}
	c.Span, c.Rest = span, rest
	if rest != nil {
		c.Span.End = rest.Start
	}
	return c, nil
}

// chunk makes the entries of rows.
func (f *Backfill) chunk(rows []kv.KeyValue) (*Chunk, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &Chunk{Rows: int64(len(rows))}
	row := make(types.Row, len(f.table.Columns))
	for i := range rows {
		c.Bytes += int64(len(rows[i].Key) + len(rows[i].Value))
		clear(row)
		if err := f.all.decode(rows[i].Key, rows[i].Value, row); err != nil {
			return nil, err
		}
		if f.iw.pred != nil {
			ok, err := scalar.Test(f.iw.pred, f.eval, row)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		row := row
		if f.conv != nil {
			var err error
			if row, err = f.conv.row(f.eval, row); err != nil {
				return nil, err
			}
		}
		k, err := f.iw.codec.appendKey(nil, row)
		if err != nil {
			return nil, err
		}
		into := &c.Own
		if f.iw.codec.conflicts(row) {
			into = &c.Unique
		}
		v := f.iw.codec.appendValue(make([]byte, 0, 64), row)
		if err := f.iw.codec.check(k, v); err != nil {
			return nil, err
		}
		into.add(k, v, rows[i].Key)
	}
	for _, es := range []*Entries{&c.Unique, &c.Own} {
		if !sort.IsSorted(es) {
			sort.Sort(es)
		}
	}
	for i := 1; i < c.Unique.Len(); i++ {
		if e := &c.Unique.KVs[i]; bytes.Equal(e.Key, c.Unique.KVs[i-1].Key) {
			return nil, f.duplicate(e.Key, e.Value)
		}
	}
	return c, nil
}

// Step adds the entries of at most limit rows of the span, which no other transaction can write, to the transaction and
// returns the rest of the span; nil at the end. Two rows with one key of a unique index are the error 23505.
func (f *Backfill) Step(ctx context.Context, t KV, span keys.Span, limit int64) (*keys.Span, error) {
	c, err := f.Read(ctx, t, span, limit)
	if err != nil {
		return nil, err
	}
	var batch txn.WriteBatch
	for i := range c.Own.KVs {
		batch.PutFresh(c.Own.KVs[i].Key, c.Own.KVs[i].Value)
	}
	return c.Rest, f.write(ctx, t, c.Unique.KVs, &batch)
}

// Fill adds the entries of rows, given by their keys, that are still there, while others may change the rows and the entries. It locks the
// rows: where rows are written all the time, a transaction without the locks might fail for ever. Another row with an entry's key is the
// error 23505.
//
// A single row's lock is waited for. Of several rows those that others have locked are left out and returned, with rows that are gone: a transaction that
// waited for one row while it holds others would keep writers waiting, and could be in a deadlock with them. With sift, which costs a read, rows that
// are gone are not returned.
func (f *Backfill) Fill(ctx context.Context, t KV, rows []keys.Key, sift bool) (left []keys.Key, err error) {
	wait := kv.Block
	if len(rows) > 1 {
		wait = kv.SkipLocked
		if sift {
			vs, err := t.GetMany(ctx, rows, kv.NoLock, kv.Block)
			if err != nil {
				return nil, err
			}
			var there []keys.Key
			for i, v := range vs {
				if v != nil {
					there = append(there, rows[i])
				}
			}
			rows = there
		}
	}
	vs, err := t.GetMany(ctx, rows, kv.Shared, wait)
	if err != nil {
		return nil, err
	}
	locked := make([]kv.KeyValue, 0, len(rows))
	for i, v := range vs {
		switch {
		case v != nil:
			locked = append(locked, kv.KeyValue{Key: rows[i], Value: v})
		case wait == kv.SkipLocked:
			left = append(left, rows[i])
		}
	}
	c, err := f.chunk(locked)
	if err != nil {
		return nil, err
	}
	return left, f.write(ctx, t, append(c.Unique.KVs, c.Own.KVs...), new(txn.WriteBatch))
}

// write adds entries, some of which may exist already, to a batch, and writes it.
func (f *Backfill) write(ctx context.Context, t KV, entries []kv.KeyValue, batch *txn.WriteBatch) error {
	if len(entries) > 0 {
		ks := make([]keys.Key, len(entries))
		for i := range entries {
			ks[i] = entries[i].Key
		}
		vs, err := t.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		if err := f.missing(entries, vs, batch); err != nil {
			return err
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return t.Write(ctx, batch)
}

// missing adds the entries to a batch that are not there yet; vs are the values that their keys have.
func (f *Backfill) missing(entries []kv.KeyValue, vs [][]byte, batch *txn.WriteBatch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	mine, other := make(types.Row, len(f.ident)), make(types.Row, len(f.ident))
	for i, v := range vs {
		e := &entries[i]
		if v == nil {
			batch.PutNew(e.Key, e.Value)
			continue
		}
		// A concurrent write has made the entry already, unless it is another row's.
		if bytes.Equal(v, e.Value) {
			continue
		}
		if err := f.iw.pk.decode(e.Key, e.Value, mine); err != nil {
			return err
		}
		if err := f.iw.pk.decode(e.Key, v, other); err != nil {
			return err
		}
		for i, ord := range f.ident {
			if f.table.Columns[ord].Type.Compare(mine[i], other[i]) != 0 {
				return f.duplicate(e.Key, v)
			}
		}
		batch.Put(e.Key, e.Value)
	}
	return nil
}

func (f *Backfill) duplicate(key keys.Key, value []byte) error {
	name := f.table.NameOf(f.iw.index)
	e := sqlstate.New(sqlstate.UniqueViolation, "could not create unique index \"%s\"", name)
	e.Table, e.TableID, e.Constraint = f.table.Name, uint32(f.table.ID), name
	ords := keyOrdinals(f.table, f.iw.index)
	row := make(types.Row, len(ords))
	if err := f.iw.keyed.decode(key, value, row); err == nil {
		n := f.iw.index.Implicit
		e.Detail = "Key " + keyText(f.table, ords[n:], row[n:]) + " is duplicated."
	}
	return e
}
