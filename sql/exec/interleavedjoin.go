package exec

import (
	"bytes"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/opt"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// lineage are the primary indexes of tables of which each is interleaved in the one before. It is the txn.Filter of a scan that wants the rows of all of them.
type lineage []*rowcode.Index

// Owns, After and Before are those of the tables' indexes: a part of the span is passed over if none of them has a key there.
func (c lineage) Owns(k keys.Key) bool { return c.owner(k) >= 0 }

// After is the nearest of the keys that the indexes name.
func (c lineage) After(k keys.Key) (after keys.Key) {
	for _, x := range c {
		if a := x.After(k); after == nil || a.Less(after) {
			after = a
		}
	}
	return after
}

// Before is the nearest of the keys that the indexes name.
func (c lineage) Before(k keys.Key) (before keys.Key) {
	for _, x := range c {
		if b := x.Before(k); before == nil || before.Less(b) {
			before = b
		}
	}
	return before
}

// owner is the table of which a key is a row; -1: none of them.
func (c lineage) owner(k keys.Key) int {
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].Owns(k) {
			return i
		}
	}
	return -1
}

// withBelow extends spans that are the key of a row by all that is interleaved in it. Other spans end where a row with all that is below it ends.
func withBelow(spans []keys.Span) {
	for i := range spans {
		if spans[i].Point() {
			spans[i].End = spans[i].Start.PrefixEnd()
		}
	}
}

// narrow gives for keys of rows the rows, and for each what is below it on the way to the second table.
func (c lineage) narrow(points []keys.Span) []keys.Span {
	out := make([]keys.Span, 0, 2*len(points))
	for _, p := range points {
		if !p.Point() {
			out = append(out, p)
			continue
		}
		out = append(out, keys.Span{Start: p.Start, End: p.Start.Next()}, c[1].Below(p.Start, c[0].Columns()))
	}
	return out
}

// interleavedJoinOp reads directories, each row once, and joins rows with those below. A row comes before all that is below it, and its key is a prefix of theirs, so no more than one row of
// each table has to be remembered (rowcode.R4).
type interleavedJoinOp struct {
	base
	scan   *indexScanOp
	tables []interleavedTable
	// width is the number of slots, and out that of those that leave.
	width, out int
}

// interleavedTable is one of the tables of an interleaved join.
type interleavedTable struct {
	dec  *rowDecoder
	kind opt.JoinKind
	on   []scalar.Evaluator
	// from and to are the table's slots.
	from, to int
	// alone: a row of it without a match in the next table leaves.
	alone bool
}

func (b *builder) interleavedJoin(n *opt.InterleavedJoin) (op, error) {
	o := &interleavedJoinOp{base: base{n}}
	l := make(layout)
	top := n.Tables[0].Table
	scan := &opt.IndexScan{Table: top, Index: top.Primary(), Spans: n.Spans, SoftLimit: n.SoftLimit, Together: n.Together}
	o.scan = &indexScanOp{base: base{n}, node: scan, eager: n.Together, narrow: n.Narrow}
	for i := range n.Tables {
		t := &n.Tables[i]
		index, err := newIndexCodec(t.Table, t.Table.Primary())
		if err != nil {
			return nil, err
		}
		if i == 0 {
			o.scan.index = index
		}
		o.scan.lineage = append(o.scan.lineage, index.x)
		b.expects(t.Table)
		c := interleavedTable{kind: t.Kind, from: o.width, to: o.width + len(t.Cols)}
		o.width = c.to
		if c.dec, err = newRowDecoder(t.Table, t.Table.Primary(), t.Ordinals); err != nil {
			return nil, err
		}
		l.add(c.from, t.Cols)
		if c.on, err = b.exprs(t.On, l); err != nil {
			return nil, err
		}
		o.tables = append(o.tables, c)
	}
	o.out = len(n.Cols)
	alone := true
	for i := len(o.tables) - 1; i > 0; i-- {
		alone = alone && (o.tables[i].kind == opt.LeftJoin || o.tables[i].kind == opt.AntiJoin)
		o.tables[i-1].alone = alone
	}
	if n.Spans != nil {
		o.scan.spans = make([]spanSpec, len(n.Spans))
		for i := range n.Spans {
			var err error
			if o.scan.spans[i], err = b.span(&n.Spans[i], o.scan.index, false, nil); err != nil {
				return nil, err
			}
		}
	}
	b.reads(o.scan.index, n.Spans, o.scan.spans)
	b.prog.reads[len(b.prog.reads)-1].below = true
	return o, nil
}

func (o *interleavedJoinOp) iter(r *run) iter {
	return &interleavedJoinIter{r: r, o: o, src: o.scan.iter(r).(*indexScanIter), row: make(types.Row, o.width), above: make([]rowAbove, len(o.tables)-1)}
}

type interleavedJoinIter struct {
	r   *run
	o   *interleavedJoinOp
	src *indexScanIter
	row types.Row
	// above are the rows of the tables before the last one below which the scan is: the first depth of them.
	above []rowAbove
	depth int
	// entry was read, and not looked at yet.
	entry kv.KeyValue
	ended bool
	// done is the key of a row of which no row below is wanted; empty: there is none.
	done keys.Key
}

// rowAbove is a row whose slots are filled.
type rowAbove struct {
	key  keys.Key
	hit  bool  // it has a match in the next table
	held int64 // memory of its large values
}

func (it *interleavedJoinIter) setStats(s *NodeStats) { it.src.setStats(s) }

// hint tells how many rows will be taken. There are at least as many entries for them.
func (it *interleavedJoinIter) hint(rows int64) { it.src.hint(rows) }

func (it *interleavedJoinIter) open() error {
	it.reset()
	return it.src.open()
}

func (it *interleavedJoinIter) reset() {
	for it.depth > 0 {
		it.depth--
		it.r.drop(&it.above[it.depth].held)
	}
	it.entry, it.ended, it.done = kv.KeyValue{}, false, it.done[:0]
}

func (it *interleavedJoinIter) close() {
	it.reset()
	clear(it.row)
	it.src.close()
}

func (it *interleavedJoinIter) next() (types.Row, error) {
	for {
		if it.entry.Key == nil && !it.ended {
			if err := it.read(); err != nil {
				return nil, err
			}
		}
		for it.depth > 0 && (it.ended || !bytes.HasPrefix(it.entry.Key, it.above[it.depth-1].key)) {
			if row := it.leave(); row != nil {
				return row, nil
			}
		}
		if it.ended {
			return nil, nil
		}
		row, err := it.take()
		if err != nil || row != nil {
			return row, err
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
}

// read reads the next entry that may be wanted.
func (it *interleavedJoinIter) read() error {
	for {
		if len(it.done) > 0 {
			it.src.skipTo(it.done.PrefixEnd())
		}
		k, v, err := it.src.advance()
		if err != nil {
			return err
		}
		if v == nil {
			it.ended = true
			return nil
		}
		if len(it.done) > 0 && bytes.HasPrefix(k, it.done) {
			if err := it.r.tick(); err != nil {
				return err
			}
			continue
		}
		it.entry, it.done = kv.KeyValue{Key: k, Value: v}, it.done[:0]
		return nil
	}
}

// leave is done with the last of the rows above; it returns the row if it leaves without a match.
func (it *interleavedJoinIter) leave() types.Row {
	it.depth--
	t := &it.o.tables[it.depth]
	it.r.drop(&it.above[it.depth].held)
	if it.above[it.depth].hit || !t.alone {
		return nil
	}
	clear(it.row[t.to:])
	return it.row[:it.o.out]
}

// take looks at an entry; it returns the row that it completes, if it does.
func (it *interleavedJoinIter) take() (types.Row, error) {
	o, e := it.o, it.entry
	it.entry = kv.KeyValue{}
	at := o.scan.lineage.owner(e.Key)
	if at != it.depth {
		return nil, nil // it is below a row that is not there, or did not match
	}
	t := &o.tables[at]
	if err := t.dec.decode(e.Key, e.Value, it.row[t.from:t.to]); err != nil {
		return nil, err
	}
	ok, err := it.r.pass(t.on, it.row)
	if err != nil {
		return nil, err
	}
	last := at == len(o.tables)-1
	if !ok {
		if !last {
			it.done = append(it.done[:0], e.Key...)
		}
		return nil, nil
	}
	if at > 0 {
		it.above[at-1].hit = true
	}
	switch {
	case !last:
		a := &it.above[at]
		a.key, a.hit, a.held = append(a.key[:0], e.Key...), false, 0
		it.depth++
		return nil, it.holdRow(it.row[t.from:t.to], a)
	case t.kind == opt.SemiJoin || t.kind == opt.AntiJoin:
		it.done = append(it.done[:0], it.above[at-1].key...)
		if t.kind == opt.AntiJoin {
			return nil, nil
		}
	}
	return it.row[:o.out], nil
}

// holdRow accounts for the large values of a row that stays while pages of others are read.
func (it *interleavedJoinIter) holdRow(row types.Row, a *rowAbove) error {
	for _, d := range row {
		w := d.Weight()
		if w == 0 {
			continue
		}
		if err := it.r.budget.Grow(w); err != nil {
			return err
		}
		a.held += w
	}
	return nil
}
