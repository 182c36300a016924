package exec

import (
	"bytes"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// spanSpec is a compiled opt.IndexSpan.
type spanSpec struct {
	equal       []scalar.Evaluator
	modes       []opt.SpanMode
	lows, highs []boundSpec
	arrays      bool // some of equal are arrays
	point       bool // a whole unique key: one row at most, for each element of an array
}

type boundSpec struct {
	value     scalar.Evaluator
	inclusive bool
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
	// early reads only the columns of the filter, where it pays not to decode the others for rows that do not pass.
	early       *rowDecoder
	earlyFilter []scalar.Evaluator
	earlyWidth  int
	// recipe makes of entries the keys of rows that come with them (opt.IndexScan.Follow); nil: none does.
	recipe []byte
	// followLock is the lock of these rows, as of the index join.
	followLock opt.Locking
	// lineage, if set, is the tables of an interleaved join, whose rows the scan reads together: those of the index and all below.
	lineage lineage
	// apart says that the beginnings of the regions' spans are read at the same time (opt.IndexScan.Apart), and spanLimit how many of the rows of each region leave at most; nil: all.
	apart     bool
	spanLimit scalar.Evaluator
	// unlocked says that the row, which the statement changes and has locked when it changes it, may be read without its lock at first (opt.Unlocked).
	unlocked bool
	// narrow: the spans are keys of rows, and of what is below them only that is read in which the second table's rows are.
	narrow bool
}

// keep leaves out the rows that the scan does not want.
func (o *indexScanOp) keep() txn.Filter {
	if o.lineage != nil {
		return o.lineage
	}
	return o.index.filter()
}

func (b *builder) indexScan(n *opt.IndexScan) (op, error) {
	o := &indexScanOp{base: base{n}, node: n}
	b.expects(n.Table)
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
			if o.spans[i], err = b.span(&n.Spans[i], o.index, n.Single, nil); err != nil {
				return nil, err
			}
			o.points = o.points && o.spans[i].point
		}
		o.eager = n.SpanLimit == nil && len(n.Spans) > 1 && n.Est.Rows < eagerScanRows && (n.Together || n.Limit == 0 && n.SoftLimit == 0)
	}
	o.apart = n.Apart() && o.keep() == nil
	o.unlocked = n == b.optimistic
	if o.apart && n.SpanLimit != nil {
		if o.spanLimit, err = b.expr(n.SpanLimit, nil); err != nil {
			return nil, err
		}
	}
	b.reads(o.index, n.Spans, o.spans)
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

// span compiles a span whose expressions read rows of a layout.
func (b *builder) span(s *opt.IndexSpan, c *indexCodec, single bool, l layout) (spanSpec, error) {
	out := spanSpec{equal: make([]scalar.Evaluator, len(s.Equal)), modes: s.Modes}
	plain := true
	for i, e := range s.Equal {
		var mode opt.SpanMode
		if i < len(s.Modes) {
			mode = s.Modes[i]
		}
		var err error
		switch mode {
		case opt.SpanNull:
		case opt.SpanAny:
			out.arrays = true
			out.equal[i], err = b.expr(e, l)
		default:
			out.equal[i], err = b.spanExpr(e, c, i, l)
		}
		if err != nil {
			return out, err
		}
		plain = plain && mode != opt.SpanNull && mode != opt.SpanSame
	}
	var err error
	if out.lows, err = b.bounds(s.Low, s.Lows, c, len(s.Equal), l); err != nil {
		return out, err
	}
	if out.highs, err = b.bounds(s.High, s.Highs, c, len(s.Equal), l); err != nil {
		return out, err
	}
	out.point = single && plain && c.exact(len(s.Equal)) && out.lows == nil && out.highs == nil
	return out, nil
}

// bounds compiles the bounds at one end of a range of the i-th key column.
func (b *builder) bounds(first opt.Bound, more []opt.Bound, c *indexCodec, i int, l layout) ([]boundSpec, error) {
	if first.Expr == nil {
		return nil, nil
	}
	var out []boundSpec
	for _, x := range append([]opt.Bound{first}, more...) {
		ev, err := b.spanExpr(x.Expr, c, i, l)
		if err != nil {
			return nil, err
		}
		out = append(out, boundSpec{ev, x.Inclusive})
	}
	return out, nil
}

// spanExpr compiles a value for the i-th key column, and brings it to that column's representation.
func (b *builder) spanExpr(e scalar.Expr, c *indexCodec, i int, l layout) (scalar.Evaluator, error) {
	if t := c.keyType(i); t != nil && e.Type().Phys() != t.Phys() && e.Type().Kind != types.KindUnknown {
		e = &scalar.Cast{Arg: e, To: t.Bare()}
	}
	return b.expr(e, l)
}

func (o *indexScanOp) iter(r *run) iter {
	return &indexScanIter{reader: reader{r: r}, o: o, row: make(types.Row, len(o.node.Ordinals)), early: make(types.Row, o.earlyWidth)}
}

type indexScanIter struct {
	reader
	o    *indexScanOp
	row  types.Row
	vals types.Row // scratch for span values

	spans []keys.Span // still to be read, in order
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
	early  types.Row // the columns that the early filter reads
	taken  int64     // memory of spans made of arrays
	// keyed are the keys that the scan asks for, if all of its spans are points, and entries those that it has found.
	keyed, entries int
	// enough, if not zero, is how many of the keys that are left have entries at most.
	enough int
	// local says that the scan is the first part of a locality optimized search.
	local bool
	// arrivals are the rows that came with entries, for the index join above; nil: none does. rows says that the scan asks for them.
	arrivals *arrivals
	rows     bool
	// ahead are the first pages of the spans that are not begun yet, which are the last ones of spans; nil: they were not read ahead. apart says that they are to be.
	ahead []ahead
	apart bool
	// most is how many rows of a span leave at most; zero: all. left counts those that may yet, of the span in progress, and rest says that spans has a part of it.
	most, left int64
	rest       bool
	// last is the key of the entry that was returned last, of a scan of points.
	last keys.Key
}

// ahead is the first page of a span, and the rest of the span behind it, if there is one.
type ahead struct {
	rows []kv.KeyValue
	rest *keys.Span
}

// spanBytes is the approximate memory of a span and its key.
const spanBytes = 96

// locks says that the scan locks the rows that it reads, so it must not read ahead of its consumer.
func (o *indexScanOp) locks() bool { return o.node.Locking.Strength != kv.NoLock }

// exact says that the rows which are taken are the first ones of the scan, and that no others may be locked.
func (it *indexScanIter) exact() bool {
	return it.o.node.Locking.Held && it.wanted() > 0 && it.o.node.Alternatives == 0
}

// wanted is how many rows will be taken at most; zero: all.
func (it *indexScanIter) wanted() int64 {
	if n := it.o.node.Limit; n > 0 && (it.hinted == 0 || n < it.hinted) {
		return n
	}
	return it.hinted
}

// mostRows bounds the rows that are read next: those that may yet be taken, if they are locked.
func (it *indexScanIter) mostRows() int64 {
	if !it.exact() {
		return int64(it.size)
	}
	return min(max(it.wanted()-it.sent, 1), 1<<20)
}

// hint tells how many rows will be taken.
func (it *indexScanIter) hint(rows int64) { it.hinted = rows }

func (it *indexScanIter) open() error {
	it.drop()
	it.sent, it.keyed, it.entries, it.enough = 0, 0, 0, 0
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
		if o.lineage != nil {
			it.size = max(it.size, firstPage) // others' rows are among them
		}
	case o.node.Limit > 0 && o.filter == nil:
		it.size = int(min(o.node.Limit, 1<<20))
	default:
		it.size = 0 // pages bounded by bytes only
	}
	if o.points && o.node.Together {
		it.size = 0
	}
	if o.node.Limit > 0 && o.filter != nil && it.size == 0 {
		it.size = firstPage
	}
	if o.spanLimit != nil {
		d, err := o.spanLimit.Eval(&it.r.sctx, nil)
		if err != nil {
			return err
		}
		if !d.IsNull() { // no limit
			it.most = max(d.Int(), 1)
			it.size = int(min(it.most, 1<<16))
			if o.filter != nil {
				it.size = max(it.size, filteredPage)
			}
		}
	}
	it.apart = o.apart && !(o.locks() && it.wanted() > 0)
	if o.spans == nil {
		if it.apart {
			return it.perRegion()
		}
		it.spans = append(it.spans, o.index.all())
		return nil
	}
	for i := range o.spans {
		var err error
		if it.spans, err = it.r.evalSpan(o.index, &o.spans[i], &it.vals, nil, it.spans); err != nil {
			return err
		}
	}
	if len(it.spans) > len(o.spans) { // arrays may have any number of elements
		it.taken = int64(len(it.spans)) * spanBytes
		if err := it.r.budget.Grow(it.taken); err != nil {
			it.taken = 0
			return err
		}
	}
	switch {
	case o.narrow:
		it.spans = o.lineage.narrow(it.spans)
	case o.lineage != nil:
		withBelow(it.spans)
	}
	if len(it.spans) > 1 {
		it.spans = mergeSpans(it.spans)
		if o.node.Reverse {
			slices.Reverse(it.spans)
		}
	}
	if o.points {
		it.keyed = len(it.spans)
		if n := o.node.Alternatives; n > 0 && it.keyed%n == 0 {
			it.enough = it.keyed / n
		}
		if it.local && o.locks() {
			it.enough = it.keyed // of a key without a row here nothing is to be locked
		}
		if it.rows = it.asksRows(); len(it.spans) == 1 && !it.rows && !(o.locks() && it.enough > 0) {
			it.point = true
			return nil
		}
		for _, s := range it.spans {
			it.ks = append(it.ks, s.Start)
		}
		it.spans = it.spans[:0]
		return nil
	}
	if o.eager && len(it.spans) > 1 && o.lineage == nil && !it.exact() {
		defer it.holds(o.node.Locking.Held)()
		lists, err := it.scanMany(it.spans, txn.ScanOptions{Reverse: o.node.Reverse, Lock: o.node.Locking.Strength, Wait: o.node.Locking.Wait, Filter: o.keep()})
		if err != nil {
			return err
		}
		it.lists = lists
		it.spans = it.spans[:0]
	}
	return nil
}

// perRegion divides the span of a whole index at the beginnings of the regions' rows.
func (it *indexScanIter) perRegion() (err error) {
	if it.spans, err = perRegion(it.o.node.Table, it.o.index); err == nil && it.o.node.Reverse {
		slices.Reverse(it.spans)
	}
	return err
}

// perRegion is the span of a whole index, divided at the beginnings of the regions' rows.
func perRegion(t *catalog.Table, of *indexCodec) ([]keys.Span, error) {
	all := of.all()
	var starts []keys.Key
	for _, v := range regionValues(t) {
		s, ok, err := of.span(types.Row{v}, nil, false, nil, false)
		if err != nil {
			return nil, err
		}
		if ok && all.Start.Less(s.Start) && s.Start.Less(all.End) {
			starts = append(starts, s.Start)
		}
	}
	slices.SortFunc(starts, keys.Key.Compare)
	if len(starts) > 0 {
		starts = starts[1:] // nothing is in front of the first region
	}
	spans := []keys.Span{all}
	for _, k := range starts {
		last := &spans[len(spans)-1]
		spans = append(spans, keys.Span{Start: k, End: last.End})
		spans[len(spans)-2].End = k
	}
	return spans, nil
}

// readAhead reads the first pages of all spans at the same time.
func (it *indexScanIter) readAhead() error {
	it.apart = false
	if len(it.spans) < 2 || len(it.spans) > maxApart {
		return nil
	}
	lock := it.o.node.Locking
	o := txn.ScanOptions{Reverse: it.o.node.Reverse, Lock: lock.Strength, Wait: lock.Wait, MaxRows: int64(it.size), TargetBytes: min(pageBytes, apartBytes/int64(len(it.spans)))}
	done := it.holds(lock.Held)
	rows, rests, ok, err := it.askFirst(it.spans, o)
	done()
	if !ok || err != nil {
		return err
	}
	n := int64(0)
	for i := range rows {
		n += pairBytes(rows[i])
		it.ahead = append(it.ahead, ahead{rows[i], rests[i]})
	}
	if n < pageFree {
		return nil
	}
	if err := it.r.budget.Grow(n); err != nil {
		return err
	}
	it.taken += n
	return nil
}

// maxApart bounds the spans whose beginnings are read at the same time.
const maxApart = 64

// fromAhead takes the next page from what was read ahead; it reports false if the next page has to be asked for.
func (it *indexScanIter) fromAhead() bool {
	if it.ahead == nil || len(it.ahead) < len(it.spans) {
		return false
	}
	a := it.ahead[0]
	it.ahead, it.page = it.ahead[1:], a.rows
	if it.rest = a.rest != nil; it.rest {
		it.spans[0] = *a.rest
	} else {
		it.spans = it.spans[1:]
	}
	return true
}

// evalSpan appends the spans of a specification: one, or none if no row can be in it, or one for each element of its
// arrays. The expressions read row.
func (r *run) evalSpan(c *indexCodec, s *spanSpec, vals *types.Row, row types.Row, out []keys.Span) ([]keys.Span, error) {
	if s.arrays {
		return r.evalArrays(c, s, row, out)
	}
	v := (*vals)[:0]
	defer func() { *vals = v[:0] }()
	for i, ev := range s.equal {
		if ev == nil { // IS NULL
			v = append(v, types.Null)
			continue
		}
		d, err := ev.Eval(&r.sctx, row)
		if err != nil {
			return out, err
		}
		if d.IsNull() && (s.modes == nil || s.modes[i] != opt.SpanSame) {
			return out, nil
		}
		v = append(v, d)
	}
	if s.point {
		k, err := c.appendPrefix(nil, v)
		return append(out, keys.Span{Start: k}), err
	}
	var low, high limit
	if ok, err := r.evalBounds(c, s, row, &low, &high); err != nil || !ok {
		return out, err
	}
	sp, ok, err := c.span(v, low.pointer(), low.inclusive, high.pointer(), high.inclusive)
	if ok {
		out = append(out, sp)
	}
	return out, err
}

// limit is one end of a range.
type limit struct {
	value          types.Datum
	set, inclusive bool
}

func (l *limit) pointer() *types.Datum {
	if !l.set {
		return nil
	}
	return &l.value
}

// evalBounds finds the tightest of the bounds; ok is false if one is NULL.
func (r *run) evalBounds(c *indexCodec, s *spanSpec, row types.Row, low, high *limit) (ok bool, err error) {
	for _, b := range s.lows {
		if ok, err := r.tighten(low, &b, row, c, len(s.equal), 1); err != nil || !ok {
			return false, err
		}
	}
	for _, b := range s.highs {
		if ok, err := r.tighten(high, &b, row, c, len(s.equal), -1); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (r *run) tighten(l *limit, b *boundSpec, row types.Row, c *indexCodec, column, sign int) (bool, error) {
	d, err := b.value.Eval(&r.sctx, row)
	if err != nil || d.IsNull() {
		return false, err
	}
	if l.set {
		n := sign * c.keyType(column).Compare(d, l.value)
		if n < 0 || n == 0 && !l.inclusive {
			return true, nil
		}
	}
	*l = limit{d, true, b.inclusive}
	return true, nil
}

// maxCombinations bounds the spans that several arrays make; then the columns from the next array on are not used. The
// scan tests the conditions in that case (opt's constrain).
const maxCombinations = 1 << 14

// evalArrays is evalSpan with arrays.
func (r *run) evalArrays(c *indexCodec, s *spanSpec, row types.Row, out []keys.Span) ([]keys.Span, error) {
	columns := make([][]types.Datum, 0, len(s.equal))
	total, arrays := 1, 0
	for i, ev := range s.equal {
		var mode opt.SpanMode
		if s.modes != nil {
			mode = s.modes[i]
		}
		if ev == nil {
			columns = append(columns, []types.Datum{types.Null})
			continue
		}
		d, err := ev.Eval(&r.sctx, row)
		if err != nil {
			return out, err
		}
		if d.IsNull() && mode != opt.SpanSame {
			return out, nil
		}
		if mode != opt.SpanAny {
			columns = append(columns, []types.Datum{d})
			continue
		}
		var list []types.Datum
		for n, x := range d.Array().Elems {
			if n&1023 == 1023 && r.ctx.Err() != nil {
				return out, r.ctx.Err()
			}
			if !x.IsNull() {
				list = append(list, x)
			}
		}
		arrays++
		if arrays > 1 && total*len(list) > maxCombinations {
			break
		}
		total *= len(list)
		columns = append(columns, list)
	}
	var low, high limit
	if len(columns) == len(s.equal) {
		if ok, err := r.evalBounds(c, s, row, &low, &high); err != nil || !ok {
			return out, err
		}
	}
	v := make(types.Row, len(columns))
	for n := range total {
		if n&1023 == 1023 && r.ctx.Err() != nil {
			return out, r.ctx.Err()
		}
		for i, at := len(columns)-1, n; i >= 0; i-- {
			v[i] = columns[i][at%len(columns[i])]
			at /= len(columns[i])
		}
		if s.point {
			k, err := c.appendPrefix(nil, v)
			if err != nil {
				return out, err
			}
			out = append(out, keys.Span{Start: k})
			continue
		}
		sp, ok, err := c.span(v, low.pointer(), low.inclusive, high.pointer(), high.inclusive)
		if err != nil {
			return out, err
		}
		if ok {
			out = append(out, sp)
		}
	}
	return out, nil
}

// mergeSpans orders spans and joins those that overlap, so that no row is read twice, or touch.
func mergeSpans(spans []keys.Span) []keys.Span {
	slices.SortFunc(spans, func(a, b keys.Span) int { return bytes.Compare(a.Start, b.Start) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if touch := !last.Point() && !s.Point() && s.Start.Equal(last.End); !touch && !s.Start.Less(last.Stop()) {
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
	it.r.drop(&it.taken)
	clear(it.spans)
	it.spans = it.spans[:0]
	it.page, it.lists, it.ks, it.kvals, it.batch, it.point = nil, nil, nil, nil, nil, false
	it.ahead, it.apart, it.most, it.rest = nil, false, 0, false
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
		it.entries++
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
			if it.most > 0 {
				it.leaveSpan()
			}
			if it.o.points {
				it.last = k
			}
			return it.row, nil
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
}

// skipTo has the scan go on at a key or behind it, after the entries that it has read already.
func (it *indexScanIter) skipTo(k keys.Key) {
	for len(it.spans) > 0 && !k.Less(it.spans[0].Stop()) {
		it.spans = it.spans[1:]
	}
	if len(it.spans) > 0 && it.spans[0].Start.Less(k) {
		it.spans[0].Start = k
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
		if it.o.unlocked && it.r.optimistic(k) {
			lock = opt.Locking{}
		}
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
			if it.exact() {
				size = int(min(int64(size), it.mostRows()))
			}
			size = min(size, len(it.ks))
			it.batch, it.ks = it.ks[:size], it.ks[size:]
			vs, err := it.points(lock)
			if err != nil {
				return nil, nil, err
			}
			it.kvals = vs
			continue
		}
		if len(it.spans) == 0 {
			return nil, nil, nil
		}
		if it.apart {
			if err := it.readAhead(); err != nil {
				return nil, nil, err
			}
		}
		if !it.rest {
			it.left = it.most
		}
		if it.fromAhead() {
			continue
		}
		if it.o.eager && it.o.lineage != nil && len(it.spans) > 1 {
			n := min(len(it.spans), lookupBatch)
			lists, err := it.scanMany(it.spans[:n], txn.ScanOptions{Filter: it.o.keep()})
			if err != nil {
				return nil, nil, err
			}
			it.lists, it.spans = lists, it.spans[n:]
			continue
		}
		o := txn.ScanOptions{Span: it.spans[0], Reverse: it.o.node.Reverse, Lock: lock.Strength, Wait: lock.Wait,
			MaxRows: it.mostRows(), TargetBytes: pageBytes, Filter: it.o.keep()}
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
		if it.rest = resume != nil; it.rest {
			it.spans[0] = *resume
		} else {
			it.spans = it.spans[1:]
		}
		if err := it.r.ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
}

// leaveSpan counts a row, and leaves its span if no more of them are wanted.
func (it *indexScanIter) leaveSpan() {
	if it.left--; it.left > 0 {
		return
	}
	it.page = nil
	if it.rest {
		it.spans, it.rest = it.spans[1:], false
	}
}

// points reads a batch of keys. If no more of them can have entries, those that are left are not read.
func (it *indexScanIter) points(lock opt.Locking) ([][]byte, error) {
	switch {
	case it.rows:
		it.letGo()
	case it.enough == 0:
		defer it.holds(lock.Held)()
		return it.getMany(it.batch, lock.Strength, lock.Wait)
	default:
		defer it.holds(lock.Held)()
		it.letGo()
	}
	get := func() ([][]byte, error) { return it.getFound(it.batch, it.enough, lock.Strength, lock.Wait) }
	if it.rows {
		get = func() ([][]byte, error) { return it.getRows(it.batch, it.enough) }
	}
	vs, err := get()
	if it.enough == 0 {
		return vs, err
	}
	for _, v := range vs {
		if v != nil {
			it.enough--
		}
	}
	if it.enough == 0 {
		it.ks = nil
	}
	return vs, err
}

// virtualOp reads a computed relation.
type virtualOp struct {
	base
	node   *opt.VirtualNode
	filter []scalar.Evaluator
	// keys are the values of the node's keys, or an array of them.
	keys [][]scalar.Evaluator
}

func (b *builder) virtual(n *opt.VirtualNode) (op, error) {
	o := &virtualOp{base: base{n}, node: n}
	var err error
	if o.filter, err = b.exprs(n.Filter, layoutOf(n)); err != nil {
		return nil, err
	}
	for _, k := range n.Keys {
		values := k.Values
		if k.Array != nil {
			values = []scalar.Expr{k.Array}
		}
		evs, err := b.exprs(values, layoutOf(n))
		if err != nil {
			return nil, err
		}
		o.keys = append(o.keys, evs)
	}
	return o, nil
}

func (o *virtualOp) iter(r *run) iter {
	return &virtualIter{r: r, o: o}
}

type virtualIter struct {
	r     *run
	o     *virtualOp
	rows  []types.Row
	taken int64
	// all are the rows of the identity at, if found: consecutive outer rows, such as those of one relation's columns, often ask for the
	// same ones.
	all   []types.Row
	at    int64
	found bool
}

func (it *virtualIter) open() error {
	if it.r.env.Virtual == nil {
		return internal("no source of virtual tables")
	}
	read := VirtualRead{Table: it.o.node.Table, Ordinals: it.o.node.Ordinals}
	if len(it.o.keys) > 0 {
		read.Keys = make([]VirtualKey, 0, len(it.o.keys))
	}
	for i, evs := range it.o.keys {
		k := VirtualKey{Ordinal: it.o.node.Keys[i].Ordinal, Values: make([]types.Datum, 0, len(evs))}
		for _, ev := range evs {
			d, err := ev.Eval(&it.r.sctx, nil)
			if err != nil {
				return err
			}
			switch {
			case d.IsNull(): // equal to nothing
			case it.o.node.Keys[i].Array != nil:
				k.Values = append(k.Values, d.Array().Elems...)
			default:
				k.Values = append(k.Values, d)
			}
		}
		read.Keys = append(read.Keys, k)
	}
	id, single := identity(read.Keys)
	if it.found && single && id == it.at {
		it.rows = it.all
		return nil
	}
	it.close()
	rows, err := it.r.env.Virtual.Rows(it.r.ctx, read)
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
	it.all, it.at, it.found = rows, id, single
	return nil
}

// identity is the only value of the only key, if it is an OID. Rows looked up by names may differ each time: those of pg_sequences
// have the last values.
func identity(keys []VirtualKey) (int64, bool) {
	if len(keys) != 1 || len(keys[0].Values) != 1 || keys[0].Values[0].Phys() != types.PhysInt {
		return 0, false
	}
	return keys[0].Values[0].Int(), true
}

func (it *virtualIter) close() {
	it.r.budget.Shrink(it.taken)
	it.rows, it.taken = nil, 0
	it.all, it.found = nil, false
}

func (it *virtualIter) next() (types.Row, error) {
	for len(it.rows) > 0 {
		row := it.rows[0]
		it.rows = it.rows[1:]
		ok, err := it.r.pass(it.o.filter, row)
		if err != nil {
			return nil, err
		}
		if ok {
			return row, nil
		}
		if err := it.r.tick(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
