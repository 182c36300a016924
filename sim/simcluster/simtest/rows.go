package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/rowcode"
	"meridian/sql/types"
	"meridian/txn"
)

// RowVersion is what a row was from a moment on.
type RowVersion struct {
	At  clock.Timestamp
	Row kv.KeyValue
}

// VersionsOf are the versions of the rows of a span, in order of time.
func VersionsOf(ctx context.Context, db *txn.DB, span keys.Span, since clock.Timestamp) (out []RowVersion, err error) {
	read := func(span keys.Span, at clock.Timestamp) (rows []kv.KeyValue, err error) {
		err = db.Run(ctx, txn.TxnOptions{ReadOnly: true, AsOf: at}, func(ctx context.Context, tx *txn.Txn) error {
			rows, err = ScanTxn(ctx, tx, span)
			return err
		})
		return rows, err
	}
	seen := map[string]bool{}
	// A row that is gone is found at one of these moments, unless it was there for a short time only.
	for at := db.Clock().Now(); since.Less(at); at = at.Add(-2 * time.Second) {
		rows, err := read(span, at)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			for {
				name := fmt.Sprintf("%s at %v", r.Key, r.Timestamp)
				if seen[name] {
					break
				}
				seen[name] = true
				out = append(out, RowVersion{r.Timestamp, r})
				earlier, err := read(keys.Span{Start: r.Key, End: r.Key.Next()}, r.Timestamp.Prev())
				if err != nil {
					return nil, err
				}
				if len(earlier) == 0 {
					break
				}
				r = earlier[0]
			}
		}
	}
	slices.SortStableFunc(out, func(a, b RowVersion) int { return a.At.Compare(b.At) })
	return out, nil
}

// ScanTxn reads all rows of a span.
func ScanTxn(ctx context.Context, tx *txn.Txn, span keys.Span) (out []kv.KeyValue, err error) {
	for next := &span; next != nil; {
		var rows []kv.KeyValue
		if rows, next, err = tx.Scan(ctx, txn.ScanOptions{Span: *next}); err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// CompareIndexes compares the entries of a table's indexes with its rows. It returns the differences, and the number of indexes.
func CompareIndexes(ctx context.Context, tx *txn.Txn, cat *lease.Txn, id catalog.ID) (wrong []string, compared int, err error) {
	view := cat.View(lease.Info{User: "root", Database: "defaultdb", SearchPath: []string{"public"}}).(*lease.View)
	t, err := view.TableByID(ctx, id)
	if err != nil || t == nil || t.Dropped {
		return nil, 0, err
	}
	all := make([]int, len(t.Columns))
	for i := range all {
		all[i] = i
	}
	dec, err := rowcode.NewDecoder(t, t.Primary(), all)
	if err != nil {
		return nil, 0, err
	}
	stored, err := ScanTxn(ctx, tx, keys.IndexSpan(t.ID, t.Primary().ID))
	if err != nil {
		return nil, 0, err
	}
	rows := make([]types.Row, len(stored))
	for i, r := range stored {
		rows[i] = make(types.Row, len(t.Columns))
		if err := dec.Decode(r.Key, r.Value, rows[i]); err != nil {
			return nil, 0, err
		}
	}
	for i := range t.Indexes[1:] {
		x := &t.Indexes[1+i]
		if x.State != catalog.Public {
			continue
		}
		codec, err := rowcode.NewIndex(t, x)
		if err != nil {
			return nil, 0, err
		}
		entries, err := ScanTxn(ctx, tx, keys.IndexSpan(t.ID, x.ID))
		if err != nil {
			return nil, 0, err
		}
		compared++
		have := make(map[string]string, len(entries))
		for _, e := range entries {
			have[string(e.Key)] = string(e.Value)
		}
		for _, row := range rows {
			key, err := codec.AppendKey(nil, row)
			if err != nil {
				return nil, 0, err
			}
			v, ok := have[string(key)]
			switch {
			case !ok && x.Predicate == "":
				wrong = append(wrong, fmt.Sprintf("index %q lacks the entry of row %v (version %d)", x.Name, row, t.Version))
			case ok && !strings.HasPrefix(v, string(codec.AppendValue(nil, row))):
				wrong = append(wrong, fmt.Sprintf("index %q has a wrong entry for row %v", x.Name, row))
			}
			delete(have, string(key))
		}
		for key := range have {
			values, err := codec.KeyValues([]byte(key))
			wrong = append(wrong, fmt.Sprintf("index %q has an entry too many: %v %v (version %d)", x.Name, values, err, t.Version))
		}
	}
	return Few(wrong), compared, nil
}

// Few shortens what is wrong: two of each kind, and how many there are.
func Few(wrong []string) (out []string) {
	seen := make(map[string]int)
	for _, w := range wrong {
		kind, _, _ := strings.Cut(w, " row")
		kind, _, _ = strings.Cut(kind, ":")
		if seen[kind]++; seen[kind] <= 2 {
			out = append(out, w)
		}
	}
	if len(wrong) > len(out) {
		out = append(out, fmt.Sprintf("and %d more", len(wrong)-len(out)))
	}
	return out
}
