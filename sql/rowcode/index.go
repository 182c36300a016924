package rowcode

import (
	"fmt"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/types"
)

// NewerError says that a row has columns or values which are newer than the reader's version of the table. The reader's version may be in use
// together with the newest for a moment (I7). A reader of the whole row may write it again, and would lose the new columns.
type NewerError struct{ Table catalog.ID }

func (e *NewerError) Error() string {
	return fmt.Sprintf("rowcode: a row of table %d has a column that this version of the table does not know", e.Table)
}

// CorruptionError says that a stored key or value cannot be read.
type CorruptionError struct {
	Table catalog.ID
	Index catalog.IndexID
	What  string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("corrupt entry in table %d index %d: %s", e.Table, e.Index, e.What)
}

// keyColumn is one column of an index key.
type keyColumn struct {
	id      catalog.ColumnID
	ordinal int
	t       *types.T
	dir     encoding.Direction
}

// valueColumn is one column of an index value.
type valueColumn struct {
	id      catalog.ColumnID
	ordinal int
	t       *types.T
	// inexactOnly: the column is in the key; the value has it only where the key cannot give it back (rowcode.R2).
	inexactOnly bool
	// short: a char(n) whose trailing blanks are left out (rowcode.R5).
	short bool
	// writeNull: an absent column would read as a default.
	writeNull bool
}

// Index encodes the entries of one index of one version of a table. It is immutable.
type Index struct {
	Table *catalog.Table
	Desc  *catalog.Index

	prefix  keys.Key
	columns []keyColumn   // the index's own
	suffix  []keyColumn   // primary key columns that make entries unique
	values  []valueColumn // by column identity
	unique  bool
	// levels are those above the index's own, if it is interleaved; mixed: rows of other tables are among the index's (rowcode.R4).
	levels []level
	mixed  bool
}

// NewIndex prepares the encoding of an index.
func NewIndex(t *catalog.Table, ix *catalog.Index) (*Index, error) {
	x := &Index{Table: t, Desc: ix, unique: ix.Unique || ix.Primary}
	x.prefix = keys.IndexPrefix(t.ID, ix.ID)
	if x.mixed = ix.Primary && t.SharesKeys(); x.mixed && t.Interleave != nil {
		x.interleave(t.Interleave)
	}
	inKey := make(map[catalog.ColumnID]bool)
	for _, c := range ix.Columns {
		k, err := keyColumnOf(t, c)
		if err != nil {
			return nil, err
		}
		inKey[k.id] = true
		x.columns = append(x.columns, k)
	}
	inValue := make(map[catalog.ColumnID]bool)
	if !ix.Primary {
		suffix := t.Primary().Columns
		if ix.Suffix != nil {
			suffix = nil
			for _, id := range ix.Suffix {
				suffix = append(suffix, catalog.IndexColumn{Column: id})
			}
		}
		for _, c := range suffix {
			if inKey[c.Column] {
				continue
			}
			k, err := keyColumnOf(t, catalog.IndexColumn{Column: c.Column})
			if err != nil {
				return nil, err
			}
			x.suffix = append(x.suffix, k)
			if x.unique {
				inValue[c.Column] = true
			}
		}
	}
	for _, id := range ix.Stored {
		inValue[id] = true
	}
	exact := make(map[catalog.ColumnID]bool)
	for _, k := range x.columns {
		exact[k.id] = true
	}
	if !x.unique {
		for _, k := range x.suffix {
			exact[k.id] = true
		}
	}
	// Columns by identity, which need not be their order in the table.
	for _, ord := range byID(t) {
		c := &t.Columns[ord]
		v := valueColumn{id: c.ID, ordinal: ord, t: c.Type, writeNull: c.HasMissing, short: t.ShortChars && c.Type.Phys() == types.PhysChar && c.Type.Width > 0}
		switch {
		case exact[c.ID]:
			if !mayBeInexact(c.Type) {
				continue
			}
			v.inexactOnly = true
		case ix.Primary || inValue[c.ID]:
			if c.State != catalog.Public && c.State != catalog.WriteOnly {
				continue
			}
		default:
			continue
		}
		x.values = append(x.values, v)
	}
	return x, nil
}

// byID lists the ordinals of a table's columns in order of identity.
func byID(t *catalog.Table) []int {
	out := make([]int, 0, len(t.Columns))
	for i := range t.Columns {
		j := len(out)
		out = append(out, i)
		for j > 0 && t.Columns[out[j-1]].ID > t.Columns[out[j]].ID {
			out[j-1], out[j] = out[j], out[j-1]
			j--
		}
	}
	return out
}

func keyColumnOf(t *catalog.Table, c catalog.IndexColumn) (keyColumn, error) {
	ord := t.Ordinal(c.Column)
	if ord < 0 {
		return keyColumn{}, fmt.Errorf("rowcode: table %d has no column %d", t.ID, c.Column)
	}
	k := keyColumn{id: c.Column, ordinal: ord, t: t.Columns[ord].Type}
	if c.Desc {
		k.dir = encoding.Descending
	}
	return k, nil
}

// All is the span of the whole index; rows of other tables may be in it (Mixed).
func (x *Index) All() keys.Span { return keys.Span{Start: x.prefix, End: x.prefix.PrefixEnd()} }

// Prefix is the prefix of every key of the index, and perhaps of other keys; it must not be changed.
func (x *Index) Prefix() keys.Key { return x.prefix }

// Columns is the number of the index's own key columns.
func (x *Index) Columns() int { return len(x.columns) }

// KeyType is the type of the i-th key column, those that the primary key appends included; nil beyond them.
func (x *Index) KeyType(i int) *types.T {
	if c := x.keyColumn(i); c != nil {
		return c.t
	}
	return nil
}

func (x *Index) keyColumn(i int) *keyColumn {
	if i < len(x.columns) {
		return &x.columns[i]
	}
	if i -= len(x.columns); !x.unique && i < len(x.suffix) {
		return &x.suffix[i]
	}
	return nil
}

// Exact reports whether equality on the first n key columns, none of them NULL, names one key.
func (x *Index) Exact(n int) bool {
	for i := range min(n, len(x.columns)) {
		if x.columns[i].t.Kind == types.KindInterval {
			return false // equal intervals may have different keys
		}
	}
	if x.unique {
		return n >= len(x.columns)
	}
	return n >= len(x.columns)+len(x.suffix)
}

// Enforces reports whether the row's entry in a unique index must not exist already: it has no NULL (rowcode.R1).
func (x *Index) Enforces(row types.Row) bool {
	return x.unique && !x.hasNull(row)
}

func (x *Index) hasNull(row types.Row) bool {
	for i := range x.columns {
		if row[x.columns[i].ordinal].IsNull() {
			return true
		}
	}
	return false
}

// AppendKey appends the key of a row's entry. row has a value for every column of the table, in its order.
func (x *Index) AppendKey(buf []byte, row types.Row) ([]byte, error) {
	if buf == nil {
		buf = make([]byte, 0, len(x.prefix)+12*(len(x.columns)+len(x.suffix)))
	}
	buf = append(buf, x.prefix...)
	null := false
	for i := range x.columns {
		c := &x.columns[i]
		d := row[c.ordinal]
		null = null || d.IsNull()
		var err error
		if buf, err = AppendKeyDatum(buf, d, c.dir); err != nil {
			return nil, err
		}
		if x.levels != nil {
			buf = x.descend(buf, i+1)
		}
	}
	if !x.unique || null && !x.Desc.Primary {
		for i := range x.suffix {
			c := &x.suffix[i]
			var err error
			if buf, err = AppendKeyDatum(buf, row[c.ordinal], c.dir); err != nil {
				return nil, err
			}
		}
	}
	return buf, nil
}

// AppendPrefix appends the index prefix and the first key columns' values.
func (x *Index) AppendPrefix(buf []byte, vals []types.Datum) ([]byte, error) {
	if buf == nil {
		buf = make([]byte, 0, len(x.prefix)+12*len(vals))
	}
	buf = append(buf, x.prefix...)
	for i, d := range vals {
		c := x.keyColumn(i)
		if c == nil {
			return nil, fmt.Errorf("rowcode: index %q has no key column %d", x.Desc.Name, i)
		}
		var err error
		if buf, err = AppendKeyDatum(buf, d, c.dir); err != nil {
			return nil, err
		}
		if x.levels != nil {
			buf = x.descend(buf, i+1)
		}
	}
	return buf, nil
}

// Span is the keys whose first columns equal the given values and whose next column lies between low and high (nil:
// open). ok is false if there can be none. A single key has an empty End. Values have the columns' types; a NULL among
// equal stands for IS NULL.
func (x *Index) Span(equal []types.Datum, low *types.Datum, lowIncl bool, high *types.Datum, highIncl bool) (span keys.Span, ok bool, err error) {
	p, err := x.AppendPrefix(nil, equal)
	if err != nil {
		return keys.Span{}, false, err
	}
	start := keys.Key(p)
	if low == nil && high == nil {
		if len(equal) == 0 {
			return x.All(), true, nil
		}
		if x.Exact(len(equal)) && !anyNull(equal[:min(len(equal), len(x.columns))]) {
			return keys.Span{Start: start}, true, nil
		}
		return x.looseSpan(start, equal)
	}
	c := x.keyColumn(len(equal))
	if c == nil {
		return keys.Span{}, false, fmt.Errorf("rowcode: index %q has no key column %d", x.Desc.Name, len(equal))
	}
	if low != nil && low.IsNull() || high != nil && high.IsNull() {
		return keys.Span{}, false, nil
	}
	if low != nil && high != nil {
		if cmp := types.Compare(*low, *high); cmp > 0 || cmp == 0 && !(lowIncl && highIncl) {
			return keys.Span{}, false, nil
		}
	}
	// In key order the range runs from one bound to the other; the open end stops at, or starts after, the NULLs.
	first, firstIncl, last, lastIncl := low, lowIncl, high, highIncl
	if c.dir == encoding.Descending {
		first, firstIncl, last, lastIncl = high, highIncl, low, lowIncl
	}
	nullKey := keys.Key(encoding.AppendNull(append(make([]byte, 0, len(p)+1), p...), c.dir))
	bound := func(d *types.Datum) (keys.Key, error) {
		k := make([]byte, len(p), len(p)+16)
		copy(k, p)
		return boundKey(k, *d, c.dir)
	}
	var from, to keys.Key
	switch {
	case first != nil:
		if from, err = bound(first); err != nil {
			return keys.Span{}, false, err
		}
		if !firstIncl {
			from = from.PrefixEnd()
		}
	case c.dir == encoding.Descending:
		from = nullKey.PrefixEnd()
	default:
		from = start
	}
	switch {
	case last != nil:
		if to, err = bound(last); err != nil {
			return keys.Span{}, false, err
		}
		if lastIncl {
			to = to.PrefixEnd()
		}
	case c.dir == encoding.Descending:
		to = start.PrefixEnd()
	default:
		to = nullKey
	}
	if !from.Less(to) {
		return keys.Span{}, false, nil
	}
	return keys.Span{Start: from, End: to}, true, nil
}

// looseSpan is the span of a prefix. Equal intervals differ in the tail of their keys, so a last interval is cut to
// the part that is compared.
func (x *Index) looseSpan(start keys.Key, equal []types.Datum) (keys.Span, bool, error) {
	n := len(equal) - 1
	if c := x.keyColumn(n); c.t.Kind == types.KindInterval && !equal[n].IsNull() {
		p, err := x.AppendPrefix(nil, equal[:n])
		if err != nil {
			return keys.Span{}, false, err
		}
		if start, err = boundKey(p, equal[n], c.dir); err != nil {
			return keys.Span{}, false, err
		}
	}
	return keys.Span{Start: start, End: start.PrefixEnd()}, true, nil
}

func anyNull(ds []types.Datum) bool {
	for _, d := range ds {
		if d.IsNull() {
			return true
		}
	}
	return false
}

// NotNullSpan is the keys whose first columns equal the given values and whose next column is not NULL.
func (x *Index) NotNullSpan(equal []types.Datum) (keys.Span, error) {
	p, err := x.AppendPrefix(nil, equal)
	if err != nil {
		return keys.Span{}, err
	}
	c := x.keyColumn(len(equal))
	if c == nil {
		return keys.Span{}, fmt.Errorf("rowcode: index %q has no key column %d", x.Desc.Name, len(equal))
	}
	start := keys.Key(p)
	null := keys.Key(encoding.AppendNull(append([]byte(nil), p...), c.dir))
	if c.dir == encoding.Descending {
		return keys.Span{Start: null.PrefixEnd(), End: start.PrefixEnd()}, nil
	}
	return keys.Span{Start: start, End: null}, nil
}
