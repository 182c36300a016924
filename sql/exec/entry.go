package exec

import (
	"bytes"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/types"
	"meridian/txn"
)

// indexCodec makes the keys and values of one index.
type indexCodec struct{ x *rowcode.Index }

func newIndexCodec(t *catalog.Table, idx *catalog.Index) (*indexCodec, error) {
	x, err := rowcode.NewIndex(t, idx)
	if err != nil {
		return nil, err
	}
	return &indexCodec{x}, nil
}

// all is the span of the index.
func (c *indexCodec) all() keys.Span { return c.x.All() }

// has reports whether a key is one of the index's.
func (c *indexCodec) has(k keys.Key) bool { return bytes.HasPrefix(k, c.x.Prefix()) && c.x.Owns(k) }

// filter leaves out the rows of other tables that may be in spans of the index; nil: there are none.
func (c *indexCodec) filter() txn.Filter {
	if !c.x.Mixed() {
		return nil
	}
	return c.x
}

// keyType is the type of the i-th key column.
func (c *indexCodec) keyType(i int) *types.T { return c.x.KeyType(i) }

// exact says that n equal key columns, none NULL, name one key.
func (c *indexCodec) exact(n int) bool { return c.x.Exact(n) }

// conflicts says that the row's entry must not exist already.
func (c *indexCodec) conflicts(row types.Row) bool { return c.x.Enforces(row) }

// appendKey and appendValue make the entry of a row of the table.
func (c *indexCodec) appendKey(buf []byte, row types.Row) ([]byte, error) {
	return c.x.AppendKey(buf, row)
}

// check refuses an entry that is too large.
func (c *indexCodec) check(key, value []byte) error { return c.x.Check(key, value) }

func (c *indexCodec) appendValue(buf []byte, row types.Row) []byte { return c.x.AppendValue(buf, row) }

// appendPrefix makes the beginning of a key from the values of its first columns.
func (c *indexCodec) appendPrefix(buf []byte, vals types.Row) ([]byte, error) {
	return c.x.AppendPrefix(buf, vals)
}

// span is the keys with equal first columns and the next one in a range; nil is open.
func (c *indexCodec) span(equal types.Row, low *types.Datum, lowIncl bool, high *types.Datum, highIncl bool) (keys.Span, bool, error) {
	return c.x.Span(equal, low, lowIncl, high, highIncl)
}

// rowDecoder reads some columns of an index's entries.
type rowDecoder struct {
	d *rowcode.Decoder
	// to, if not nil, is where each decoded column goes in a wider row, which is cleared first.
	to []int
}

func newRowDecoder(t *catalog.Table, idx *catalog.Index, ordinals []int) (*rowDecoder, error) {
	d, err := rowcode.NewDecoder(t, idx, ordinals)
	if err != nil {
		return nil, err
	}
	return &rowDecoder{d: d}, nil
}

// spread makes decode write column i to slot to[i] of rows that are width wide.
func (d *rowDecoder) spread(to []int, width int) {
	if len(to) == width {
		return // all columns, in order
	}
	d.to = to
}

func (d *rowDecoder) decode(key keys.Key, value []byte, out types.Row) error {
	if d.to == nil {
		return d.d.Decode(key, value, out)
	}
	tmp := make(types.Row, len(d.to))
	if err := d.d.Decode(key, value, tmp); err != nil {
		return err
	}
	clear(out)
	for i, s := range d.to {
		out[s] = tmp[i]
	}
	return nil
}
