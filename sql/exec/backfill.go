package exec

import (
	"bytes"
	"context"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Backfill fills a new index of a table from its primary index, in steps that are a transaction each. It does not
// change and may be used for all of them.
type Backfill struct {
	table *catalog.Table
	iw    *indexWriter
	all   *rowDecoder
	src   *indexCodec
	// ident are the ordinals by which an entry of the index tells whose it is.
	ident []int
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
	if f.iw.codec, err = newIndexCodec(t, index); err != nil {
		return nil, err
	}
	if f.iw.keyed, err = newRowDecoder(t, index, keyOrdinals(t, index)); err != nil {
		return nil, err
	}
	f.ident = keyOrdinals(t, t.Primary())
	if index.Suffix != nil && !index.Primary {
		f.ident = ordinals(t, index.Suffix)
	}
	if f.iw.pk, err = newRowDecoder(t, index, f.ident); err != nil {
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

// Span is all of the table's primary index: where the first step begins.
func (f *Backfill) Span() keys.Span { return f.src.all() }

// Step adds the entries of at most limit rows of the span to the transaction and returns what is left; nil at the
// end. Two rows with one key of a unique index are 23505.
func (f *Backfill) Step(ctx context.Context, t KV, span keys.Span, limit int64) (resume *keys.Span, rows int64, err error) {
	page, resume, err := t.Scan(ctx, txn.ScanOptions{Span: span, MaxRows: limit, TargetBytes: pageBytes})
	if err != nil {
		return nil, 0, err
	}
	var batch txn.WriteBatch
	type entry struct {
		key   keys.Key
		value []byte
		ident types.Row
	}
	var unique []entry
	row := make(types.Row, len(f.table.Columns))
	local := make(map[string]int)
	for i := range page {
		clear(row)
		if err := f.all.decode(page[i].Key, page[i].Value, row); err != nil {
			return nil, 0, err
		}
		if f.iw.pred != nil {
			ok, err := scalar.Test(f.iw.pred, f.eval, row)
			if err != nil {
				return nil, 0, err
			}
			if !ok {
				continue
			}
		}
		k, err := f.iw.codec.appendKey(nil, row)
		if err != nil {
			return nil, 0, err
		}
		v := f.iw.codec.appendValue(make([]byte, 0, 64), row)
		if !f.iw.codec.conflicts(row) {
			batch.PutFresh(k, v)
			continue
		}
		if _, ok := local[string(k)]; ok {
			return nil, 0, f.duplicate(k, v)
		}
		local[string(k)] = len(unique)
		unique = append(unique, entry{k, v, pick(row, f.ident)})
	}
	if len(unique) > 0 {
		ks := make([]keys.Key, len(unique))
		for i := range unique {
			ks[i] = unique[i].key
		}
		vs, err := t.GetMany(ctx, ks, kv.NoLock, kv.Block)
		if err != nil {
			return nil, 0, err
		}
		ident := make(types.Row, len(f.ident))
		for i, v := range vs {
			u := unique[i]
			if v == nil {
				batch.PutNew(u.key, u.value)
				continue
			}
			// A concurrent write has made the entry already, unless it is another row's.
			if err := f.iw.pk.decode(u.key, v, ident); err != nil {
				return nil, 0, err
			}
			for i, ord := range f.ident {
				if f.table.Columns[ord].Type.Compare(ident[i], u.ident[i]) != 0 {
					return nil, 0, f.duplicate(u.key, v)
				}
			}
			if !bytes.Equal(v, u.value) {
				batch.Put(u.key, u.value)
			}
		}
	}
	if batch.Len() > 0 {
		if err := t.Write(ctx, &batch); err != nil {
			return nil, 0, err
		}
	}
	return resume, int64(len(page)), nil
}

func (f *Backfill) duplicate(key keys.Key, value []byte) error {
	e := sqlstate.New(sqlstate.UniqueViolation, "could not create unique index \"%s\"", f.iw.index.Name)
	e.Table, e.TableID, e.Constraint = f.table.Name, uint32(f.table.ID), f.iw.index.Name
	ords := keyOrdinals(f.table, f.iw.index)
	row := make(types.Row, len(ords))
	if err := f.iw.keyed.decode(key, value, row); err == nil {
		e.Detail = "Key " + keyText(f.table, ords, row) + " is duplicated."
	}
	return e
}
