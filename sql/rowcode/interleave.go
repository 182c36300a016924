package rowcode

import (
	"bytes"

	"meridian/keys"
	"meridian/sql/catalog"
)

// A level is a table on the way from the root of a hierarchy to an index's own table. Of an index that is not interleaved there is one, its own.
type level struct {
	columns int      // number of the index's columns up to here
	tail    keys.Key // what stands behind them, if another level follows
}

// levels splits the columns of an interleaved primary index, and makes the prefix that of the root's.
func (x *Index) interleave(in *catalog.Interleave) {
	x.prefix = keys.IndexPrefix(in.Ancestors[0].Table, in.Ancestors[0].Index)
	for i, a := range in.Ancestors {
		table, index := x.Table.ID, x.Desc.ID
		if i+1 < len(in.Ancestors) {
			table, index = in.Ancestors[i+1].Table, in.Ancestors[i+1].Index
		}
		x.levels = append(x.levels, level{columns: a.Columns, tail: keys.AppendInterleaved(nil, table, index)})
	}
}

// descend appends the tails that stand behind the first n columns.
func (x *Index) descend(buf []byte, n int) []byte {
	for i := range x.levels {
		if x.levels[i].columns == n {
			buf = append(buf, x.levels[i].tail...)
		}
	}
	return buf
}

// ascend steps over the tails behind the first n columns; ok is false if others stand there.
func (x *Index) ascend(b []byte, n int) (rest []byte, ok bool) {
	for i := range x.levels {
		if x.levels[i].columns == n {
			if b, ok = bytes.CutPrefix(b, x.levels[i].tail); !ok {
				return nil, false
			}
		}
	}
	return b, true
}

// Below is the part of what is below a row of a table above, of so many columns, in which the index's keys are.
func (x *Index) Below(row keys.Key, columns int) keys.Span {
	k := keys.Key(x.descend(append(make([]byte, 0, len(row)+8), row...), columns))
	return keys.Span{Start: k, End: k.PrefixEnd()}
}

// Mixed reports whether there may be rows of other tables in the index's spans.
func (x *Index) Mixed() bool { return x.mixed }

// where says how a key of a span stands to those of the index: it is one of them, or all of those that are near are before it or behind it.
type where struct {
	own bool
	// before and after are the bounds of the part around the key that has none of the index's.
	before, after keys.Key
}

// find compares a key of the index's span with those of the index. A malformed key counts as the index's own, so that its decoder finds it.
func (x *Index) find(k keys.Key) where {
	if !bytes.HasPrefix(k, x.prefix) {
		return where{own: true}
	}
	b := k[len(x.prefix):]
	at := func() keys.Key { return k[:len(k)-len(b)] }
	for i := 0; ; i++ {
		for l := range x.levels {
			if x.levels[l].columns != i {
				continue
			}
			tail := x.levels[l].tail
			rest, ok := bytes.CutPrefix(b, tail)
			if ok {
				b = rest
				continue
			}
			p := at()
			inner := append(append(make(keys.Key, 0, len(p)+len(tail)), p...), tail...)
			if bytes.Compare(b, tail) < 0 {
				return where{before: p, after: inner}
			}
			return where{before: inner.PrefixEnd(), after: p.PrefixEnd()}
		}
		if i == len(x.columns) {
			break
		}
		rest, err := skipKeyDatum(b, x.columns[i].t, x.columns[i].dir)
		if err != nil {
			return where{own: true}
		}
		b = rest
	}
	if len(b) == 0 || b[0] != keys.Interleaved {
		return where{own: true}
	}
	p := at()
	return where{before: p.Next(), after: p.PrefixEnd()}
}

// Owns reports whether a key in the index's spans is one of the index's. With After and Before it makes an index a txn.Filter.
//
//	rowcode.R4: An index with rows of other tables in its spans has exactly the keys that Owns. Its own key is never a prefix of another key of its own, and what follows the columns
//	    of a row in a longer key is keys.Interleaved, with which no column begins.
func (x *Index) Owns(k keys.Key) bool { return !x.mixed || x.find(k).own }

// After is a key behind k, which is not the index's, such that none of the index's keys is between them.
func (x *Index) After(k keys.Key) keys.Key {
	if w := x.find(k); !w.own {
		return w.after
	}
	return k.Next()
}

// Before is a key such that none of the index's is at or behind it and in front of k, which is not the index's.
func (x *Index) Before(k keys.Key) keys.Key {
	if w := x.find(k); !w.own {
		return w.before
	}
	return k
}

// RemovedFrom reports whether a key is one of a table's that is no more, or of one of its indexes, if that is not zero.
func RemovedFrom(k keys.Key, table catalog.ID, index catalog.IndexID) bool {
	t, i, _, err := keys.Owner(k)
	return err == nil && catalog.ID(t) == table && (index == 0 || catalog.IndexID(i) == index)
}
