package exec

import (
	"container/heap"
	"slices"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// sortKey is one column of an ordering, by slot.
type sortKey struct {
	slot       int
	t          *types.T
	desc       bool
	nullsFirst bool
}

func (b *builder) sortKeys(by []opt.OrderColumn, l layout) ([]sortKey, error) {
	keys := make([]sortKey, len(by))
	for i, o := range by {
		s, ok := l.slot(o.Col)
		if !ok {
			return nil, internal("order column %d is not in the input", o.Col)
		}
		keys[i] = sortKey{s, b.meta.Column(o.Col).Type, o.Desc, o.NullsFirst}
	}
	return keys, nil
}

func compareRows(by []sortKey, a, b types.Row) int {
	for i := range by {
		k := &by[i]
		x, y := &a[k.slot], &b[k.slot]
		if xn, yn := x.IsNull(), y.IsNull(); xn || yn {
			if xn && yn {
				continue
			}
			if xn == k.nullsFirst {
				return -1
			}
			return 1
		}
		c := k.t.Compare(*x, *y)
		if c == 0 {
			continue
		}
		if k.desc {
			return -c
		}
		return c
	}
	return 0
}

// sortOp sorts in memory. If the input is sorted by a prefix of the keys already, it sorts each run of equal prefixes
// by itself, so that the first rows come early.
type sortOp struct {
	base
	input  op
	by     []sortKey
	prefix int
	topK   scalar.Evaluator
}

func (b *builder) sort(n *opt.SortNode) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &sortOp{base: base{n}, input: in, prefix: n.Prefix}
	if o.by, err = b.sortKeys(n.By, l); err != nil {
		return nil, err
	}
	if o.prefix >= len(o.by) {
		o.prefix = 0
	}
	if n.TopK != nil {
		if o.topK, err = b.expr(n.TopK, nil); err != nil {
			return nil, err
		}
	}
	return b.remap(o, n.Input, n)
}

func (o *sortOp) iter(r *run) iter { return &sortIter{r: r, o: o, in: r.make(o.input)} }

type sortIter struct {
	r       *run
	o       *sortOp
	in      iter
	store   rowStore
	at      int
	started bool
	ended   bool
	pending types.Row // first row after the run of equal prefixes
	limit   int64     // rows to keep; -1: all
	order   []int64   // arrival numbers of the heap's rows, for stability
	arrival int64
}

func (it *sortIter) open() error {
	it.reset()
	return it.in.open()
}

func (it *sortIter) reset() {
	it.store.reset(it.r.budget)
	it.at, it.started, it.ended, it.pending = 0, false, false, nil
	it.order, it.arrival, it.limit = it.order[:0], 0, -1
}

func (it *sortIter) close() { it.reset(); it.in.close() }

func (it *sortIter) next() (types.Row, error) {
	for {
		if it.at < len(it.store.rows) {
			it.at++
			return it.store.rows[it.at-1], nil
		}
		if it.ended {
			return nil, nil
		}
		if err := it.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads and sorts the next run.
func (it *sortIter) fill() error {
	o := it.o
	if !it.started {
		it.started = true
		if o.topK != nil {
			d, err := o.topK.Eval(&it.r.sctx, nil)
			if err != nil {
				return err
			}
			// A negative or absurd bound is the limit operator's to refuse.
			if d.Phys() == types.PhysInt && d.Int() >= 0 && d.Int() <= 1<<20 {
				it.limit = d.Int()
			}
		}
		row, err := it.in.next()
		if err != nil {
			return err
		}
		it.pending = row
	}
	it.store.reset(it.r.budget)
	it.at = 0
	if it.pending == nil || it.limit == 0 {
		it.ended = true
		return nil
	}
	if it.limit > 0 && o.prefix == 0 {
		return it.fillTop()
	}
	var first types.Row
	for it.pending != nil {
		if first != nil && o.prefix > 0 && compareRows(o.by[:o.prefix], first, it.pending) != 0 {
			break
		}
		c, err := it.store.add(it.r.budget, it.pending)
		if err != nil {
			return err
		}
		if first == nil {
			first = c
		}
		if it.pending, err = it.in.next(); err != nil {
			return err
		}
		if err := it.r.tick(); err != nil {
			return err
		}
	}
	it.ended = it.pending == nil
	return it.r.sort(it.store.rows, o.by[o.prefix:])
}

// sortRun is how many rows are sorted without asking whether the statement was cancelled.
const sortRun = 1024

// sort sorts rows stably: short runs in place, which are then merged. So it can be cancelled on the way, and it compares
// less than the library's stable sort, which has no buffer to merge into.
func (r *run) sort(rows []types.Row, by []sortKey) error {
	n := len(rows)
	for at := 0; at < n; at += sortRun {
		slices.SortStableFunc(rows[at:min(at+sortRun, n)], func(a, b types.Row) int { return compareRows(by, a, b) })
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	if n <= sortRun {
		return nil
	}
	room := int64(n) * 24
	if err := r.budget.Grow(room); err != nil {
		return err
	}
	defer r.budget.Shrink(room)
	from, to := rows, make([]types.Row, n)
	for width := sortRun; width < n; width *= 2 {
		for at := 0; at < n; at += 2 * width {
			a, b := from[at:min(at+width, n)], from[min(at+width, n):min(at+2*width, n)]
			out := to[at:at]
			for len(a) > 0 && len(b) > 0 {
				if err := r.tick(); err != nil {
					return err
				}
				if compareRows(by, b[0], a[0]) < 0 {
					out, b = append(out, b[0]), b[1:]
				} else {
					out, a = append(out, a[0]), a[1:]
				}
			}
			out = append(out, a...) // one of them is empty
			_ = append(out, b...)
		}
		from, to = to, from
	}
	if &from[0] != &rows[0] {
		copy(rows, from)
	}
	return nil
}

// fillTop keeps the least rows of the input in a heap with the greatest on top. Rows reuse the places of those
// that they push out.
func (it *sortIter) fillTop() error {
	h := (*topHeap)(it)
	for it.pending != nil {
		it.arrival++
		if int64(len(it.store.rows)) < it.limit {
			if _, err := it.store.add(it.r.budget, it.pending); err != nil {
				return err
			}
			it.order = append(it.order, it.arrival)
			if int64(len(it.store.rows)) == it.limit {
				heap.Init(h)
			}
		} else if compareRows(it.o.by, it.pending, it.store.rows[0]) < 0 {
			was, is := rowBytes(it.store.rows[0]), rowBytes(it.pending)
			if err := it.r.budget.Grow(is - was); err != nil {
				return err
			}
			it.store.bytes += is - was
			copy(it.store.rows[0], it.pending)
			it.order[0] = it.arrival
			heap.Fix(h, 0)
		}
		var err error
		if it.pending, err = it.in.next(); err != nil {
			return err
		}
		if err := it.r.tick(); err != nil {
			return err
		}
	}
	it.ended = true
	heap.Init(h)
	rows := it.store.rows
	for n := len(rows); n > 1; n-- {
		it.store.rows = rows[:n]
		h.Swap(0, n-1)
		it.store.rows = rows[:n-1]
		heap.Fix(h, 0)
	}
	it.store.rows = rows
	return nil
}

type topHeap sortIter

func (h *topHeap) Len() int { return len(h.store.rows) }
func (h *topHeap) Less(i, j int) bool {
	if c := compareRows(h.o.by, h.store.rows[i], h.store.rows[j]); c != 0 {
		return c > 0
	}
	return h.order[i] > h.order[j]
}
func (h *topHeap) Swap(i, j int) {
	h.store.rows[i], h.store.rows[j] = h.store.rows[j], h.store.rows[i]
	h.order[i], h.order[j] = h.order[j], h.order[i]
}
func (h *topHeap) Push(any) {}
func (h *topHeap) Pop() any { return nil }
