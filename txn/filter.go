package txn

import (
	"context"
	"slices"

	"meridian/keys"
	"meridian/kv"
)

// Filter knows which keys of a span a reader wants, where rows of several tables are stored among each other.
type Filter interface {
	// Owns reports whether a key is wanted.
	Owns(k keys.Key) bool
	// After is a key behind k, which is not wanted, such that no key between them is wanted, and Before is one at or in front of k such that no key from there to k is.
	After(k keys.Key) keys.Key
	Before(k keys.Key) keys.Key
}

// filteredRows bounds the rows that a filtered scan with a bound asks a range for at once.
const filteredRows = 1024

// scanFiltered is Scan with a filter. Keys that are not wanted are not locked: the scan takes no locks, and those that it has found are locked afterwards. If there are many, it
// goes on behind the last of them. A page is empty only at the end of the span.
//
//	txn.TX15 (I2): A filtered scan returns what Scan would, without the keys that are not wanted. Keys that it passes over without a read are none that could be wanted, so none of them
//	    is a row that the scan should have seen.
func (t *Txn) scanFiltered(ctx context.Context, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	in := o
	in.Filter, in.Lock, in.bare = nil, kv.NoLock, true
	for {
		page, rest, err := t.Scan(ctx, in)
		if err != nil {
			return nil, nil, err
		}
		if rows, rest, err = t.want(ctx, o, page, rest); err != nil {
			return nil, nil, err
		}
		if n := int(o.MaxRows); n > 0 && len(rows) > n {
			after := keys.Span{Start: rows[n-1].Key.Next(), End: in.Span.Stop()}
			if o.Reverse {
				after = keys.Span{Start: in.Span.Start, End: rows[n-1].Key}
			}
			return rows[:n], &after, nil
		}
		if len(rows) > 0 || rest == nil {
			return rows, rest, nil
		}
		in.Span = *rest
		if in.MaxRows > 0 {
			in.MaxRows = min(4*in.MaxRows, max(filteredRows, o.MaxRows))
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
}

// want keeps the wanted rows of a page and locks them, and shortens the rest of the span by what can't be wanted.
func (t *Txn) want(ctx context.Context, o ScanOptions, page []kv.KeyValue, rest *keys.Span) (rows []kv.KeyValue, _ *keys.Span, err error) {
	if n := len(page); rest != nil && n > 0 && !o.Filter.Owns(page[n-1].Key) {
		r := *rest
		if o.Reverse {
			if end := o.Filter.Before(page[n-1].Key); end.Less(r.End) {
				r.End = end
			}
		} else if start := o.Filter.After(page[n-1].Key); r.Start.Less(start) {
			r.Start = start
		}
		if rest = &r; !r.Start.Less(r.End) {
			rest = nil
		}
	}
	rows = page[:0]
	for i := range page {
		if o.Filter.Owns(page[i].Key) {
			rows = append(rows, page[i])
		}
	}
	if o.Lock == kv.NoLock || len(rows) == 0 {
		return rows, rest, nil
	}
	if rows, err = t.lockFound(ctx, rows, o); err != nil {
		return nil, nil, err
	}
	return present(rows), rest, nil
}

// lockFound locks rows that a scan has found, and gives their values: none of a row that was deleted since, or that is skipped because others have locked it.
func (t *Txn) lockFound(ctx context.Context, rows []kv.KeyValue, o ScanOptions) ([]kv.KeyValue, error) {
	ks := make([]keys.Key, len(rows))
	for i := range rows {
		ks[i] = rows[i].Key
	}
	read := t.readOptions(o.Lock, o.Wait)
	read.Fresh = read.Fresh || o.Fresh
	values, err := t.getMany(ctx, ks, read)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Value = values[i]
	}
	return rows, nil
}

// present are the rows that have values.
func present(rows []kv.KeyValue) []kv.KeyValue {
	return slices.DeleteFunc(rows, func(p kv.KeyValue) bool { return p.Value == nil })
}

// scanManyFiltered is ScanMany with a filter.
func (t *Txn) scanManyFiltered(ctx context.Context, spans []keys.Span, o ScanOptions) ([][]kv.KeyValue, error) {
	in := o
	in.Filter, in.Lock, in.bare = nil, kv.NoLock, true
	lists, err := t.ScanMany(ctx, spans, in)
	if err != nil {
		return nil, err
	}
	var all []kv.KeyValue
	for i := range lists {
		lists[i] = slices.DeleteFunc(lists[i], func(p kv.KeyValue) bool { return !o.Filter.Owns(p.Key) })
		all = append(all, lists[i]...)
	}
	if o.Lock == kv.NoLock || len(all) == 0 {
		return lists, nil
	}
	locked, err := t.lockFound(ctx, all, o)
	if err != nil {
		return nil, err
	}
	at := 0
	for i := range lists {
		n := len(lists[i])
		lists[i] = present(locked[at : at+n])
		at += n
	}
	return lists, nil
}
