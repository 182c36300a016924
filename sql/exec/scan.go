package exec

import (
	"bytes"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// spanSpec is a compiled opt.IndexSpan.
type spanSpec struct {
	equal             []scalar.Evaluator
	equalNull         []bool
	low, high         scalar.Evaluator
	lowIncl, highIncl bool
	point             bool // a whole unique key: one row at most
}

// indexScanOp reads spans of an index.
type indexScanOp struct {
	base
	index  *indexCodec
	dec    *rowDecoder
	spans  []spanSpec // nil: all
	points bool       // every span is a point
	filter []scalar.Evaluator
	node   *opt.IndexScan
	eager  bool // several spans with few rows: read at once
	// early reads only what the filter needs, where the rest is worth not decoding for rows that do not pass.
	early       *rowDecoder
	earlyFilter []scalar.Evaluator
	earlyWidth  int
}

func (b *builder) indexScan(n *opt.IndexScan) (op, error) {
	o := &indexScanOp{base: base{n}, node: n}
	var err error
	if o.index, err = newIndexCodec(n.Table, n.Index); err != nil {
		return nil, err
	}
	if o.dec, err = newRowDecoder(n.Table, n.Index, n.Ordinals); err != nil {
		return nil, err
	}
	if n.Spans != nil {
		o.spans = make([]spanSpec, len(n.Spans))
		o.points = n.Single
		for i := range n.Spans {
			if o.spans[i], err = b.span(&n.Spans[i], o.index, n.Single); err != nil {
				return nil, err
			}
			o.points = o.points && o.spans[i].point
		}
		o.eager = len(n.Spans) > 1 && n.Est.Rows < eagerScanRows && n.Limit == 0 && n.SoftLimit == 0
	}
	if o.filter, err = b.exprs(n.Filter, layoutOf(n)); err != nil {
		return nil, err
	}
	return o, b.earlyFilter(o)
}

// earlyFilter splits decoding if the filter reads fixed-width columns only, and others are longer.
func (b *builder) earlyFilter(o *indexScanOp) error {
	n := o.node
	if len(n.Filter) == 0 {
		return nil
	}
	all := layoutOf(n)
	l := make(layout)
	var ords []int
	long := false
	for _, e := range n.Filter {
		scalar.Columns(e, func(id scalar.ColumnID) {
			slot, ok := all[id]
			if _, have := l[id]; !ok || have {
				return
			}
			l[id] = len(ords)
			ords = append(ords, n.Ordinals[slot])
			long = long || !fixedWidth(n.Table.Columns[n.Ordinals[slot]].Type)
		})
	}
	if long || len(ords) == len(n.Ordinals) {
		return nil
	}
	for _, ord := range n.Ordinals {
		long = long || !fixedWidth(n.Table.Columns[ord].Type)
	}
	if !long {
		return nil
	}
	var err error
	if o.early, err = newRowDecoder(n.Table, n.Index, ords); err != nil {
		return err
	}
	o.earlyWidth = len(ords)
	o.earlyFilter, err = b.exprs(n.Filter, l)
	return err
}

func fixedWidth(t *types.T) bool {
	switch t.Phys() {
	case types.PhysBool, types.PhysInt, types.PhysFloat, types.PhysDate, types.PhysTime, types.PhysTimestamp:
		return true
	}
	return false
}

func (b *builder) span(s *opt.IndexSpan, c *indexCodec, single bool) (spanSpec, error) {
	var out spanSpec
	var err error
	if out.equal, err = b.spanExprs(s.Equal, c); err != nil {
		return out, err
	}
	out.equalNull = s.EqualNull
	if s.Low.Expr != nil {
		if out.low, err = b.spanExpr(s.Low.Expr, c, len(s.Equal)); err != nil {
			return out, err
		}
		out.lowIncl = s.Low.Inclusive
	}
	if s.High.Expr != nil {
		if out.high, err = b.spanExpr(s.High.Expr, c, len(s.Equal)); err != nil {
			return out, err
		}
		out.highIncl = s.High.Inclusive
	}
	out.point = single && c.exact(len(s.Equal)) && out.low == nil && out.high == nil && !slices.Contains(s.EqualNull, true)
	return out, nil
}

func (b *builder) spanExprs(es []scalar.Expr, c *indexCodec) ([]scalar.Evaluator, error) {
	out := make([]scalar.Evaluator, len(es))
	for i, e := range es {
		if e == nil { // IS NULL
			continue
		}
		var err error
		if out[i], err = b.spanExpr(e, c, i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// spanExpr compiles a value for the i-th key column, and brings it to that column's representation.
func (b *builder) spanExpr(e scalar.Expr, c *indexCodec, i int) (scalar.Evaluator, error) {
	if t := c.keyType(i); t != nil && e.Type().Phys() != t.Phys() && e.Type().Kind != types.KindUnknown {
		e = &scalar.Cast{Arg: e, To: t.Bare()}
	}
	return b.expr(e, nil)
}

func (o *indexScanOp) iter(r *run) iter {
	return &indexScanIter{reader: reader{r: r}, o: o, row: make(types.Row, len(o.node.Ordinals)), early: make(types.Row, o.earlyWidth)}
}

type indexScanIter struct {
	reader
	o    *indexScanOp
	row  types.Row
	vals types.Row // scratch for span values

	spans []keys.Span // what is left to read, in order
	point bool        // a single key, not read yet
	page  []kv.KeyValue
	lists [][]kv.KeyValue // eager: pages to come
	ks    []keys.Key      // points left
	kvals [][]byte        // values of the batch of points
	batch []keys.Key
	size  int
	sent  int64
	// hinted is how many rows the consumer will take; zero: all.
	hinted int64
	early  types.Row // what the early filter reads
}

// locks says that the scan locks what it reads, so it must not read ahead of its consumer.
func (o *indexScanOp) locks() bool { return o.node.Locking.Strength != kv.NoLock }

// hint tells how many rows will be taken.
func (it *indexScanIter) hint(rows int64) { it.hinted = rows }

func (it *indexScanIter) open() error {
	it.drop()
	it.sent = 0
	o := it.o
	soft := o.node.SoftLimit
	if it.hinted > 0 && (soft == 0 || it.hinted < soft) {
		soft = it.hinted
	}
	switch {
	case soft > 0 && soft < 1<<16:
		it.size = int(soft)
		if o.filter != nil && !o.locks() {
			it.size = max(it.size, filteredPage) // some will not pass
		}
	case o.node.Limit > 0 && o.filter == nil:
		it.size = int(min(o.node.Limit, 1<<20))
	default:
		it.size = 0 // pages bounded by bytes only
	}
	if o.node.Limit > 0 && o.filter != nil && it.size == 0 {
		it.size = firstPage
	}
	if o.spans == nil {
		it.spans = append(it.spans, o.index.all())
		return nil
	}
	for i := range o.spans {
		s, ok, err := it.r.evalSpan(o.index, &o.spans[i], &it.vals, nil)
		if err != nil {
			return err
		}
		if ok {
			it.spans = append(it.spans, s)
		}
	}
	if len(it.spans) > 1 {
		it.spans = mergeSpans(it.spans)
		if o.node.Reverse {
			slices.Reverse(it.spans)
		}
	}
	if o.points {
		if len(it.spans) == 1 {
			it.point = true
			return nil
		}
		for _, s := range it.spans {
			it.ks = append(it.ks, s.Start)
		}
		it.spans = it.spans[:0]
		return nil
	}
	if o.eager && len(it.spans) > 1 {
		defer it.holds(o.node.Locking.Held)()
		lists, err := it.scanMany(it.spans, txn.ScanOptions{Reverse: o.node.Reverse, Lock: o.node.Locking.Strength, Wait: o.node.Locking.Wait})
		if err != nil {
			return err
		}
		it.lists = lists
		it.spans = it.spans[:0]
	}
	return nil
}

// evalSpan computes a span; ok is false if no row can be in it. row is what the expressions read.
func (r *run) evalSpan(c *indexCodec, s *spanSpec, vals *types.Row, row types.Row) (keys.Span, bool, error) {
	v := (*vals)[:0]
	defer func() { *vals = v[:0] }()
	for i, ev := range s.equal {
		if i < len(s.equalNull) && s.equalNull[i] {
			v = append(v, types.Null)
			continue
		}
		d, err := ev.Eval(&r.sctx, row)
		if err != nil {
			return keys.Span{}, false, err
		}
		if d.IsNull() {
			return keys.Span{}, false, nil
		}
		v = append(v, d)
	}
	if s.point {
		k, err := c.appendPrefix(nil, v)
		return keys.Span{Start: k}, true, err
	}
	var low, high *types.Datum
	if s.low != nil {
		d, err := s.low.Eval(&r.sctx, row)
		if err != nil || d.IsNull() {
			return keys.Span{}, false, err
		}
		low = &d
	}
	if s.high != nil {
		d, err := s.high.Eval(&r.sctx, row)
		if err != nil || d.IsNull() {
			return keys.Span{}, false, err
		}
		high = &d
	}
	return c.span(v, low, s.lowIncl, high, s.highIncl)
}

// mergeSpans orders spans and joins those that overlap, so that no row is read twice.
func mergeSpans(spans []keys.Span) []keys.Span {
	slices.SortFunc(spans, func(a, b keys.Span) int { return bytes.Compare(a.Start, b.Start) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if !s.Start.Less(last.Stop()) {
			out = append(out, s)
			continue
		}
		if last.Point() && s.Point() {
			continue // the same key
		}
		if stop := s.Stop(); last.Stop().Less(stop) || last.Point() {
			last.End = stop
		}
	}
	return out
}

func (it *indexScanIter) drop() {
	it.letGo()
	clear(it.spans)
	it.spans = it.spans[:0]
	it.page, it.lists, it.ks, it.kvals, it.batch, it.point = nil, nil, nil, nil, nil, false
}

func (it *indexScanIter) close() {
	it.drop()
	clear(it.row)
	clear(it.early)
	clear(it.vals[:cap(it.vals)])
}

func (it *indexScanIter) next() (types.Row, error) {
	n := it.o.node
	if n.Limit > 0 && it.sent >= n.Limit {
		return nil, nil
	}
	for {
		k, v, err := it.advance()
		if err != nil || v == nil {
			return nil, err
		}
		ok := true
		if it.o.early != nil {
			if err := it.o.early.decode(k, v, it.early); err != nil {
				return nil, err
			}
			ok, err = it.r.pass(it.o.earlyFilter, it.early)
			if ok {
				err = it.o.dec.decode(k, v, it.row)
			}
		} else if err = it.o.dec.decode(k, v, it.row); err == nil && it.o.filter != nil {
			ok, err = it.r.pass(it.o.filter, it.row)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			it.sent++
			return it.row, nil
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
}

// advance finds the next entry; no value means that there is none.
func (it *indexScanIter) advance() (keys.Key, []byte, error) {
	lock := it.o.node.Locking
	if it.point {
		it.point = false
		if lock.Held {
			defer it.holds(lock.Held)()
		}
		k := it.spans[0].Start
		it.spans = it.spans[:0]
		v, err := it.get(k, lock.Strength, lock.Wait)
		return k, v, err
	}
	for {
		if len(it.page) > 0 {
			p := &it.page[0]
			it.page = it.page[1:]
			return p.Key, p.Value, nil
		}
		for len(it.kvals) > 0 {
			v, k := it.kvals[0], it.batch[0]
			it.kvals, it.batch = it.kvals[1:], it.batch[1:]
			if v != nil {
				return k, v, nil
			}
		}
		if len(it.lists) > 0 {
			it.page, it.lists = it.lists[0], it.lists[1:]
			continue
		}
		if len(it.ks) > 0 {
			size := lookupBatch
			if it.size > 0 {
				size = it.size
				it.size = grow(it.size, lookupBatch)
			}
			size = min(size, len(it.ks))
			it.batch, it.ks = it.ks[:size], it.ks[size:]
			done := it.holds(lock.Held)
			vs, err := it.getMany(it.batch, lock.Strength, lock.Wait)
			done()
			if err != nil {
				return nil, nil, err
			}
			it.kvals = vs
			continue
		}
		if len(it.spans) == 0 {
			return nil, nil, nil
		}
		o := txn.ScanOptions{Span: it.spans[0], Reverse: it.o.node.Reverse, Lock: lock.Strength, Wait: lock.Wait,
			MaxRows: int64(it.size), TargetBytes: pageBytes}
		if it.size > 0 && !it.o.locks() {
			it.size *= 4
			if it.size > 1<<16 {
				it.size = 0
			}
		}
		done := it.holds(lock.Held)
		page, resume, err := it.scan(o)
		done()
		if err != nil {
			return nil, nil, err
		}
		it.page = page
		if resume != nil {
			it.spans[0] = *resume
		} else {
			it.spans = it.spans[1:]
		}
		if err := it.r.ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
}

// virtualOp reads a computed relation.
type virtualOp struct {
	base
	node   *opt.VirtualNode
	filter []scalar.Evaluator
}

func (b *builder) virtual(n *opt.VirtualNode) (op, error) {
	o := &virtualOp{base: base{n}, node: n}
	var err error
	if o.filter, err = b.exprs(n.Filter, layoutOf(n)); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *virtualOp) iter(r *run) iter {
	return &virtualIter{r: r, o: o, row: make(types.Row, len(o.node.Ordinals))}
}

type virtualIter struct {
	r     *run
	o     *virtualOp
	row   types.Row
	rows  []types.Row
	taken int64
}

func (it *virtualIter) open() error {
	it.close()
	if it.r.env.Virtual == nil {
		return internal("no source of virtual tables")
	}
	rows, err := it.r.env.Virtual.Rows(it.r.ctx, it.o.node.Table, it.o.node.Filter, it.o.node.Cols)
	if err != nil {
		return err
	}
	var n int64
	for _, row := range rows {
		n += rowBytes(row)
	}
	if err := it.r.budget.Grow(n); err != nil {
		return err
	}
	it.rows, it.taken = rows, n
	return nil
}

func (it *virtualIter) close() {
	it.r.budget.Shrink(it.taken)
	it.rows, it.taken = nil, 0
}

func (it *virtualIter) next() (types.Row, error) {
	for len(it.rows) > 0 {
		row := it.rows[0]
		it.rows = it.rows[1:]
		for i, ord := range it.o.node.Ordinals {
			it.row[i] = row[ord]
		}
		ok, err := it.r.pass(it.o.filter, it.row)
		if err != nil {
			return nil, err
		}
		if ok {
			return it.row, nil
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
