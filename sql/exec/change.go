package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// updateOp runs UPDATE.
type updateOp struct {
	base
	input     op
	w         *tableWriter
	width     int
	inWidth   int
	old       []int // input slot of each table column, or -1
	set       []setSlot
	notNull   []int
	checks    []checkSpec
	returning []scalar.Evaluator
	changed   []*indexWriter
	dedupe    bool // the input may yield a row more than once
	place     place
}

type setSlot struct{ ordinal, slot int }

// oldSlots finds the table's columns in the input.
func oldSlots(n int, cols []scalar.ColumnID, l layout) ([]int, error) {
	out := make([]int, n)
	for i := range out {
		out[i] = -1
		if i < len(cols) && cols[i] != 0 {
			s, ok := l.slot(cols[i])
			if !ok {
				return nil, internal("column %d of the row to change is not in the input", cols[i])
			}
			out[i] = s
		}
	}
	return out, nil
}

// repeats reports whether a mutation's input may yield a row of the table more than once.
func repeats(n opt.Node) bool {
	switch n := n.(type) {
	case *opt.IndexScan:
		return false
	case *opt.FilterNode:
		return repeats(n.Input)
	case *opt.ProjectNode:
		return repeats(n.Input)
	case *opt.IndexJoin:
		return repeats(n.Input)
	case *opt.SortNode:
		return repeats(n.Input)
	case *opt.LimitNode:
		return repeats(n.Input)
	case *opt.ValuesNode:
		return false
	}
	return true
}

func (b *builder) update(n *opt.UpdateNode, at place) (op, error) {
	b.mutator(at)
	s := n.Stmt
	in, inl, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &updateOp{base: base{n}, input: in, width: len(s.Table.Columns), inWidth: len(n.Input.Columns()),
		dedupe: repeats(n.Input), place: at}
	if o.w, err = b.writer(s.Table); err != nil {
		return nil, err
	}
	if o.old, err = oldSlots(o.width, s.Old, inl); err != nil {
		return nil, err
	}
	assigned := make(map[int]bool)
	for _, c := range s.Set {
		slot, ok := inl.slot(c.Col)
		if !ok {
			return nil, internal("assigned column %d is not in the input", c.Col)
		}
		o.set = append(o.set, setSlot{c.Ordinal, slot})
		assigned[c.Ordinal] = true
	}
	o.notNull, o.changed = o.w.affected(assigned)
	l := layout{}.add(0, s.New).add(o.width, n.Input.Columns())
	if o.checks, err = b.checks(s.Checks, l); err != nil {
		return nil, err
	}
	o.returning, err = b.returning(s.Returning, n.Cols, l)
	return o, err
}

func (o *updateOp) iter(r *run) iter {
	return &updateIter{r: r, o: o, in: r.make(o.input), m: mutation{reader: reader{r: r}}, comb: make(types.Row, o.width+o.inWidth),
		before: make(types.Row, o.width)}
}

type updateIter struct {
	r      *run
	o      *updateOp
	in     iter
	m      mutation
	comb   types.Row // the new row, then the input's
	before types.Row
	out    emitter
	seen   keySet
	ran    bool
}

func (it *updateIter) setStats(s *NodeStats) { it.m.stats = s }

func (it *updateIter) open() error {
	it.reset()
	return it.in.open()
}

func (it *updateIter) reset() {
	it.ran = false
	it.m.reset()
	it.out.reset(it.r)
	it.seen.reset(it.r)
}

func (it *updateIter) close() {
	it.reset()
	clear(it.comb)
	clear(it.before)
	it.in.close()
}

func (it *updateIter) next() (types.Row, error) {
	if !it.ran {
		it.ran = true
		if err := it.consume(); err != nil {
			return nil, err
		}
		if err := it.m.finish(it.o.place); err != nil {
			return nil, err
		}
	}
	return it.out.next(), nil
}

func (it *updateIter) consume() error {
	o := it.o
	for {
		row, err := it.in.next()
		if err != nil || row == nil {
			return err
		}
		if err := it.r.tick(); err != nil {
			return err
		}
		for i, s := range o.old {
			if s < 0 {
				it.before[i] = o.w.initial[i]
			} else {
				it.before[i] = row[s]
			}
		}
		if o.dedupe {
			fresh, err := it.seen.first(it.r, o.w, it.before)
			if err != nil {
				return err
			}
			if !fresh {
				continue
			}
		}
		copy(it.comb, it.before)
		copy(it.comb[o.width:], row)
		for _, s := range o.set {
			it.comb[s.ordinal] = row[s.slot]
		}
		if err := it.r.validate(o.w.table, o.notNull, o.checks, it.comb); err != nil {
			return err
		}
		after := it.comb[:o.width]
		if err := it.m.outgoing(o.w, after, it.before); err != nil {
			return err
		}
		if err := it.m.incoming(o.w, it.before, after); err != nil {
			return err
		}
		if err := it.m.change(o.changed, it.before, after); err != nil {
			return err
		}
		it.m.count(it.o.place)
		if err := it.out.add(it.r, o.returning, it.comb); err != nil {
			return err
		}
		if it.m.full() {
			if err := it.m.flush(false); err != nil {
				return err
			}
		}
	}
}

// keySet remembers which rows a statement has changed.
type keySet struct {
	seen  map[string]struct{}
	buf   []byte
	taken int64
}

func (s *keySet) reset(r *run) {
	r.budget.Shrink(s.taken)
	s.seen, s.taken = nil, 0
}

// first reports whether the row is met for the first time.
func (s *keySet) first(r *run, w *tableWriter, row types.Row) (bool, error) {
	var err error
	if s.buf, err = w.primary.codec.appendKey(s.buf[:0], row); err != nil {
		return false, err
	}
	if _, ok := s.seen[string(s.buf)]; ok {
		return false, nil
	}
	n := int64(len(s.buf) + 48)
	if err := r.budget.Grow(n); err != nil {
		return false, err
	}
	s.taken += n
	if s.seen == nil {
		s.seen = make(map[string]struct{})
	}
	s.seen[string(s.buf)] = struct{}{}
	return true, nil
}

// deleteOp runs DELETE.
type deleteOp struct {
	base
	input     op
	w         *tableWriter
	old       []int
	returning []scalar.Evaluator
	dedupe    bool
	place     place
}

func (b *builder) delete(n *opt.DeleteNode, at place) (op, error) {
	b.mutator(at)
	s := n.Stmt
	in, inl, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &deleteOp{base: base{n}, input: in, dedupe: repeats(n.Input), place: at}
	if o.w, err = b.writer(s.Table); err != nil {
		return nil, err
	}
	if o.old, err = oldSlots(len(s.Table.Columns), s.Old, inl); err != nil {
		return nil, err
	}
	o.returning, err = b.returning(s.Returning, n.Cols, inl)
	return o, err
}

func (o *deleteOp) iter(r *run) iter {
	return &deleteIter{r: r, o: o, in: r.make(o.input), m: mutation{reader: reader{r: r}}, before: make(types.Row, len(o.old))}
}

type deleteIter struct {
	r      *run
	o      *deleteOp
	in     iter
	m      mutation
	before types.Row
	out    emitter
	seen   keySet
	ran    bool
}

func (it *deleteIter) setStats(s *NodeStats) { it.m.stats = s }

func (it *deleteIter) open() error {
	it.reset()
	return it.in.open()
}

func (it *deleteIter) reset() {
	it.ran = false
	it.m.reset()
	it.out.reset(it.r)
	it.seen.reset(it.r)
}

func (it *deleteIter) close() {
	it.reset()
	clear(it.before)
	it.in.close()
}

func (it *deleteIter) next() (types.Row, error) {
	if !it.ran {
		it.ran = true
		if err := it.consume(); err != nil {
			return nil, err
		}
		if err := it.m.finish(it.o.place); err != nil {
			return nil, err
		}
	}
	return it.out.next(), nil
}

func (it *deleteIter) consume() error {
	o := it.o
	for {
		row, err := it.in.next()
		if err != nil || row == nil {
			return err
		}
		if err := it.r.tick(); err != nil {
			return err
		}
		for i, s := range o.old {
			if s < 0 {
				it.before[i] = o.w.initial[i]
			} else {
				it.before[i] = row[s]
			}
		}
		if o.dedupe {
			fresh, err := it.seen.first(it.r, o.w, it.before)
			if err != nil {
				return err
			}
			if !fresh {
				continue
			}
		}
		if err := it.m.incoming(o.w, it.before, nil); err != nil {
			return err
		}
		if err := it.m.remove(o.w, it.before); err != nil {
			return err
		}
		it.m.count(it.o.place)
		if err := it.out.add(it.r, o.returning, row); err != nil {
			return err
		}
		if it.m.full() {
			if err := it.m.flush(false); err != nil {
				return err
			}
		}
	}
}
