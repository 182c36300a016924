package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// windowOp computes window functions over its materialised input. Functions that share a partitioning and an
// ordering are still computed one after the other; each sorts row numbers, not rows.
type windowOp struct {
	base
	input op
	width int
	items []windowItem
}

type windowItem struct {
	name        string
	args        []scalar.Evaluator
	agg         *aggSpec
	partition   []sortKey
	order       []sortKey
	frame       opt.WindowFrame
	defaultFrm  bool
	startOffset scalar.Evaluator
	endOffset   scalar.Evaluator
}

func (b *builder) window(n *opt.WindowNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &windowOp{base: base{n}, input: in, width: len(n.Input.Columns())}
	for i := range n.Items {
		w := &n.Items[i]
		item := windowItem{name: w.Func}
		if w.Agg != nil {
			s, err := b.aggregate(w.Agg, l)
			if err != nil {
				return nil, err
			}
			item.agg = &s
		} else if item.args, err = b.exprs(w.Args, l); err != nil {
			return nil, err
		}
		for _, c := range w.PartitionBy {
			s, ok := l.slot(c)
			if !ok {
				return nil, internal("partition column %d is not in the input", c)
			}
			item.partition = append(item.partition, sortKey{slot: s, t: b.meta.Column(c).Type})
		}
		if item.order, err = b.sortKeys(w.OrderBy, l); err != nil {
			return nil, err
		}
		if w.Frame == nil {
			item.defaultFrm = true
			item.frame = opt.WindowFrame{Start: opt.UnboundedPreceding, End: opt.CurrentRow}
		} else {
			item.frame = *w.Frame
			if item.frame.StartOffset != nil {
				if item.startOffset, err = b.expr(item.frame.StartOffset, nil); err != nil {
					return nil, err
				}
			}
			if item.frame.EndOffset != nil {
				if item.endOffset, err = b.expr(item.frame.EndOffset, nil); err != nil {
					return nil, err
				}
			}
			offset := func(f opt.FrameBound) bool { return f == opt.OffsetPreceding || f == opt.OffsetFollowing }
			if !item.frame.Rows && (offset(item.frame.Start) || offset(item.frame.End)) && len(item.order) != 1 {
				return nil, sqlstate.New(sqlstate.WindowingError, "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column")
			}
		}
		o.items = append(o.items, item)
	}
	natural := append([]scalar.ColumnID(nil), n.Input.Columns()...)
	for i := range n.Items {
		natural = append(natural, n.Items[i].Col)
	}
	if equalCols(natural, n.Cols) {
		return o, nil
	}
	slots, err := layout{}.add(0, natural).slots(n.Cols)
	if err != nil {
		return nil, err
	}
	return &projectOp{base: base{n}, input: o, slots: slots}, nil
}

func (o *windowOp) iter(r *run) iter { return &windowIter{r: r, o: o, in: r.make(o.input)} }

type windowIter struct {
	r     *run
	o     *windowOp
	in    iter
	store rowStore
	built bool
	at    int
}

func (it *windowIter) open() error {
	it.store.reset(it.r.budget)
	it.built, it.at = false, 0
	return it.in.open()
}

func (it *windowIter) close() { it.store.reset(it.r.budget); it.in.close() }

func (it *windowIter) next() (types.Row, error) {
	if !it.built {
		it.built = true
		wide := make(types.Row, it.o.width+len(it.o.items))
		for {
			row, err := it.in.next()
			if err != nil {
				return nil, err
			}
			if row == nil {
				break
			}
			copy(wide, row)
			if _, err := it.store.add(it.r.budget, wide); err != nil {
				return nil, err
			}
			if err := it.r.tick(); err != nil {
				return nil, err
			}
		}
		for i := range it.o.items {
			if err := it.compute(&it.o.items[i], it.o.width+i); err != nil {
				return nil, err
			}
		}
		// The rows leave in the order of the last function, as PostgreSQL's do.
	}
	if it.at == len(it.store.rows) {
		return nil, nil
	}
	it.at++
	return it.store.rows[it.at-1], nil
}

// compute fills the slot of one function in all rows, and leaves the rows in its order.
func (it *windowIter) compute(w *windowItem, slot int) error {
	rows := it.store.rows
	by := append(append([]sortKey(nil), w.partition...), w.order...)
	if len(by) > 0 {
		if err := it.r.sort(rows, by); err != nil {
			return err
		}
	}
	// The numbers of peers and the results of a partition, while it is computed.
	room := int64(len(rows)) * (16 + datumSize)
	if err := it.r.budget.Grow(room); err != nil {
		return err
	}
	defer it.r.budget.Shrink(room)
	for start := 0; start < len(rows); {
		if err := it.r.tick(); err != nil {
			return err
		}
		end := start + 1
		for end < len(rows) && compareRows(w.partition, rows[start], rows[end]) == 0 {
			end++
		}
		p := partition{it: it, w: w, rows: rows[start:end], slot: slot}
		if err := p.compute(); err != nil {
			return err
		}
		start = end
	}
	return nil
}

// partition is the rows over which one function works.
type partition struct {
	it   *windowIter
	w    *windowItem
	rows []types.Row
	slot int
	peer []int // first row of each row's peer group
	last []int // one after its last
}

func (p *partition) findPeers() {
	n := len(p.rows)
	p.peer, p.last = make([]int, n), make([]int, n)
	for i := 0; i < n; {
		j := i + 1
		for j < n && compareRows(p.w.order, p.rows[i], p.rows[j]) == 0 {
			j++
		}
		for k := i; k < j; k++ {
			p.peer[k], p.last[k] = i, j
		}
		i = j
	}
}

// keep accounts for a result with memory of its own; the rows' store gives that back.
func (p *partition) keep(d types.Datum) error {
	if d.Phys() == types.PhysInt || d.Phys() == types.PhysFloat || d.IsNull() {
		return nil
	}
	n := d.Bytes() - datumSize
	if err := p.it.r.budget.Grow(n); err != nil {
		return err
	}
	p.it.store.bytes += n
	return nil
}

func (p *partition) arg(i int, row types.Row) (types.Datum, error) {
	if i >= len(p.w.args) {
		return types.Null, nil
	}
	return p.w.args[i].Eval(&p.it.r.sctx, row)
}

func (p *partition) compute() error {
	p.findPeers()
	n := len(p.rows)
	if p.w.agg != nil {
		return p.aggregate()
	}
	switch p.w.name {
	case "row_number":
		for i, row := range p.rows {
			row[p.slot] = types.NewInt(int64(i + 1))
		}
	case "rank":
		for i, row := range p.rows {
			row[p.slot] = types.NewInt(int64(p.peer[i] + 1))
		}
	case "dense_rank":
		rank := int64(0)
		for i, row := range p.rows {
			if p.peer[i] == i {
				rank++
			}
			row[p.slot] = types.NewInt(rank)
		}
	case "percent_rank":
		for i, row := range p.rows {
			f := 0.0
			if n > 1 {
				f = float64(p.peer[i]) / float64(n-1)
			}
			row[p.slot] = types.NewFloat(f)
		}
	case "cume_dist":
		for i, row := range p.rows {
			row[p.slot] = types.NewFloat(float64(p.last[i]) / float64(n))
		}
	case "ntile":
		return p.ntile()
	case "lag":
		return p.shift(-1)
	case "lead":
		return p.shift(1)
	case "first_value", "last_value", "nth_value":
		return p.framed()
	default:
		return sqlstate.New(sqlstate.UndefinedFunction, "window function %s does not exist", p.w.name)
	}
	return nil
}

func (p *partition) ntile() error {
	d, err := p.arg(0, p.rows[0])
	if err != nil {
		return err
	}
	if d.IsNull() {
		for _, row := range p.rows {
			row[p.slot] = types.Null
		}
		return nil
	}
	k := d.Int()
	if k <= 0 {
		return sqlstate.New("22014", "argument of ntile must be greater than zero")
	}
	n := int64(len(p.rows))
	small, big := n/k, n%k // the first big buckets have small+1 rows
	for i, row := range p.rows {
		at := int64(i)
		if at < big*(small+1) {
			row[p.slot] = types.NewInt(at/(small+1) + 1)
		} else {
			row[p.slot] = types.NewInt((at-big*(small+1))/small + big + 1)
		}
	}
	return nil
}

// shift is lag and lead: the value some rows away, or the default.
func (p *partition) shift(sign int64) error {
	out := make([]types.Datum, len(p.rows))
	for i, row := range p.rows {
		off := types.NewInt(1)
		var err error
		if len(p.w.args) > 1 {
			if off, err = p.arg(1, row); err != nil {
				return err
			}
		}
		if off.IsNull() {
			continue
		}
		j := int64(i) + sign*off.Int()
		if j >= 0 && j < int64(len(p.rows)) {
			out[i], err = p.arg(0, p.rows[j])
		} else {
			out[i], err = p.arg(2, row)
		}
		if err == nil {
			err = p.keep(out[i])
		}
		if err != nil {
			return err
		}
		if err := p.it.r.tick(); err != nil {
			return err
		}
	}
	for i, row := range p.rows {
		row[p.slot] = out[i]
	}
	return nil
}

func (p *partition) framed() error {
	out := make([]types.Datum, len(p.rows))
	frame, err := p.frames()
	if err != nil {
		return err
	}
	for i, row := range p.rows {
		from, to, err := frame(i)
		if err != nil {
			return err
		}
		at := from
		switch p.w.name {
		case "last_value":
			at = to - 1
		case "nth_value":
			d, err := p.arg(1, row)
			if err != nil {
				return err
			}
			if d.IsNull() {
				continue
			}
			if d.Int() <= 0 {
				return sqlstate.New("22016", "argument of nth_value must be greater than zero")
			}
			at = from + int(min(d.Int(), int64(len(p.rows)+1))) - 1
		}
		if at < from || at >= to {
			continue
		}
		if out[i], err = p.arg(0, p.rows[at]); err != nil {
			return err
		}
		if err := p.keep(out[i]); err != nil {
			return err
		}
		if err := p.it.r.tick(); err != nil {
			return err
		}
	}
	for i, row := range p.rows {
		row[p.slot] = out[i]
	}
	return nil
}

// frames returns a function that finds each row's frame [from, to).
func (p *partition) frames() (func(i int) (from, to int, err error), error) {
	r := p.it.r
	f := &p.w.frame
	offset := func(ev scalar.Evaluator, what string) (types.Datum, error) {
		if ev == nil {
			return types.Null, nil
		}
		d, err := ev.Eval(&r.sctx, nil)
		if err != nil {
			return d, err
		}
		if d.IsNull() {
			return d, sqlstate.New(sqlstate.NullNotAllowed, "frame %s offset must not be null", what)
		}
		if d.Phys() == types.PhysInt && d.Int() < 0 {
			if !f.Rows {
				return d, sqlstate.New("22013", "invalid preceding or following size in window function")
			}
			return d, sqlstate.New("22013", "frame %s offset must not be negative", what)
		}
		return d, nil
	}
	so, err := offset(p.w.startOffset, "starting")
	if err != nil {
		return nil, err
	}
	eo, err := offset(p.w.endOffset, "ending")
	if err != nil {
		return nil, err
	}
	n := len(p.rows)
	bound := func(i int, b opt.FrameBound, off types.Datum, end bool) (int, error) {
		one := 0
		if end {
			one = 1
		}
		switch {
		case b == opt.UnboundedPreceding:
			return 0, nil
		case b == opt.UnboundedFollowing:
			return n, nil
		case b == opt.CurrentRow && f.Rows:
			return i + one, nil
		case b == opt.CurrentRow && end:
			return p.last[i], nil
		case b == opt.CurrentRow:
			return p.peer[i], nil
		case f.Rows:
			d := int(min(off.Int(), int64(n+1)))
			if b == opt.OffsetPreceding {
				d = -d
			}
			return min(max(i+d+one, 0), n), nil
		}
		return p.rangeBound(i, b, off, end)
	}
	return func(i int) (int, int, error) {
		from, err := bound(i, f.Start, so, false)
		if err != nil {
			return 0, 0, err
		}
		to, err := bound(i, f.End, eo, true)
		return from, max(from, to), err
	}, nil
}

// rangeBound finds the end of a RANGE frame with an offset.
func (p *partition) rangeBound(i int, b opt.FrameBound, off types.Datum, end bool) (int, error) {
	k := p.w.order[0]
	cur := p.rows[i][k.slot]
	if cur.IsNull() {
		if end {
			return p.last[i], nil
		}
		return p.peer[i], nil
	}
	limit, err := scalar.NewFrameLimit(&p.it.r.sctx, k.t, cur, off, b == opt.OffsetPreceding != k.desc)
	if err != nil {
		return 0, err
	}
	n := len(p.rows)
	at := 0
	for ; at < n; at++ {
		if err := p.it.r.tick(); err != nil {
			return 0, err
		}
		d := p.rows[at][k.slot]
		if d.IsNull() {
			if k.nullsFirst {
				continue
			}
			break
		}
		c, err := limit.Compare(d)
		if err != nil {
			return 0, err
		}
		if k.desc {
			c = -c
		}
		if c > 0 || c == 0 && !end {
			break
		}
	}
	return at, nil
}

// aggregate computes an aggregate over each row's frame. Frames that begin at the partition's start grow, so their
// rows are added once; others are computed afresh.
func (p *partition) aggregate() error {
	r, s := p.it.r, p.w.agg
	frame, err := p.frames()
	if err != nil {
		return err
	}
	if len(p.w.order) == 0 && p.w.defaultFrm {
		n := len(p.rows)
		frame = func(int) (int, int, error) { return 0, n, nil }
	}
	args := make(types.Row, len(s.args))
	var buf []byte
	out := make([]types.Datum, len(p.rows))
	var st *aggState
	from, to := 0, 0
	// held is the memory of the state st. Arrays in results share their elements with the state, so that its memory is then
	// accounted for by the rows.
	held := int64(0)
	release := func() {
		if s.agg.Return != nil && s.agg.Return.Kind == types.KindAnyArray {
			p.it.store.bytes += held
		} else {
			r.budget.Shrink(held)
		}
		held = 0
	}
	defer release()
	for i := range p.rows {
		a, b, err := frame(i)
		if err != nil {
			return err
		}
		if st != nil && a == from && b == to {
			out[i] = out[i-1]
			continue
		}
		if st == nil || a != from || b < to {
			release()
			st, from, to = &aggState{acc: s.accumulator()}, a, a
		}
		for ; to < b; to++ {
			taken, err := s.add(r, st, p.rows[to], args, &buf)
			held += taken
			if err != nil {
				return err
			}
			if err := r.tick(); err != nil {
				return err
			}
		}
		to = b
		var taken int64
		out[i], taken, err = s.result(r, st)
		held += taken
		if err == nil && out[i].Phys() != types.PhysArray {
			err = p.keep(out[i])
		}
		if err != nil {
			return err
		}
	}
	for i, row := range p.rows {
		row[p.slot] = out[i]
	}
	return nil
}
