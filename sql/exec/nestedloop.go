package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// nestedLoopOp tries every pair; Apply runs the right side again for every left row.
type nestedLoopOp struct {
	base
	joined
	apply bool
	outer []scalar.ColumnID
	slots []int
	// types are the types of outer, if the right side's answers may be kept in a memo.
	types []*types.T
}

func (b *builder) nestedLoop(n *opt.NestedLoop) (op, error) {
	j, ll, _, err := b.joined(n.Kind, n, n.Left, n.Right, n.On)
	if err != nil {
		return nil, err
	}
	o := &nestedLoopOp{base: base{n}, joined: j, apply: n.Apply, outer: n.Outer}
	if o.slots, err = ll.slots(n.Outer); err != nil {
		return nil, err
	}
	if n.Apply && n.Repeats {
		o.types = b.outerTypes(n.Outer)
	}
	if n.Apply && j.keepsRight() {
		return nil, internal("apply can't be a %s join", n.Kind)
	}
	return j.shape(b, o, n, n.Left, n.Right)
}

func (o *nestedLoopOp) iter(r *run) iter {
	return &nestedLoopIter{r: r, o: o, left: r.make(o.left), right: r.make(o.right), row: make(types.Row, o.wl+o.wr)}
}

type nestedLoopIter struct {
	r           *run
	o           *nestedLoopOp
	left, right iter
	row         types.Row
	stored      // unless it is an apply
	built       bool
	inLeft      bool
	hit         bool
	at          int
	// The right side's rows for one left row are those of the memo, or are gathered in store for it.
	memo     memo[[]types.Row]
	values   []types.Datum
	known    []types.Row
	isKnown  bool
	gathers  bool
	gathered rowStore
}

func (it *nestedLoopIter) open() error {
	it.store.reset(it.r.budget)
	it.forget()
	it.matched = it.matched[:0]
	it.built, it.inLeft, it.draining = false, false, -1
	return it.left.open()
}

// forget drops all answers of the right side.
func (it *nestedLoopIter) forget() {
	it.memo.reset(it.r.budget)
	it.gathered.reset(it.r.budget)
	it.known, it.isKnown, it.gathers = nil, false, false
	clear(it.values)
}

// begin starts the right side for a left row, or finds its rows in the memo.
func (it *nestedLoopIter) begin(row types.Row) error {
	o := it.o
	it.isKnown, it.gathers = false, false
	it.gathered.reset(it.r.budget)
	if o.types != nil {
		it.values = it.values[:0]
		for _, slot := range o.slots {
			it.values = append(it.values, row[slot])
		}
		if it.known, it.isKnown = it.memo.find(it.values, o.types); it.isKnown {
			return nil
		}
		// A single left row is no reason to copy the right side's.
		it.gathers = !it.memo.off && it.memo.runs > 1
	}
	for i, c := range o.outer {
		it.r.setOuter(c, row[o.slots[i]])
	}
	return it.right.open()
}

// gather stores a right row and, at their end, puts all of them into the memo. A semi or anti join without a condition
// needs only the first.
func (it *nestedLoopIter) gather(row types.Row) {
	if row != nil {
		if it.gathered.bytes > memoMax {
			it.gathers = false
		} else if _, err := it.gathered.add(it.r.budget, row); err != nil {
			it.gathers = false // the statement can do without the memo
		}
		if !it.gathers {
			it.gathered.reset(it.r.budget)
			return
		}
		if len(it.o.on) > 0 || it.o.kind != opt.SemiJoin && it.o.kind != opt.AntiJoin {
			return
		}
	}
	it.gathers = false
	if it.memo.keep(it.r.budget, it.gathered.rows, it.gathered.bytes) {
		it.gathered = rowStore{}
	}
}

func (it *nestedLoopIter) close() {
	it.store.reset(it.r.budget)
	it.forget()
	clear(it.row)
	it.left.close()
	it.right.close()
}

// candidate is the next right row for the current left row.
func (it *nestedLoopIter) candidate() (types.Row, error) {
	if it.o.apply && !it.isKnown {
		row, err := it.right.next()
		if it.gathers && err == nil {
			it.gather(row)
		}
		return row, err
	}
	if it.isKnown {
		if it.at == len(it.known) {
			return nil, nil
		}
		it.at++
		return it.known[it.at-1], nil
	}
	if it.at == len(it.store.rows) {
		return nil, nil
	}
	it.at++
	return it.store.rows[it.at-1], nil
}

func (it *nestedLoopIter) next() (types.Row, error) {
	o := it.o
	if !it.built {
		it.built = true
		if !o.apply {
			if err := it.right.open(); err != nil {
				return nil, err
			}
			if err := drain(it.r, it.right, &it.store); err != nil {
				return nil, err
			}
			it.right.close()
			if o.keepsRight() {
				it.matched = append(it.matched, make([]bool, len(it.store.rows))...)
			}
		}
	}
	for it.draining < 0 {
		if !it.inLeft {
			row, err := it.left.next()
			if err != nil {
				return nil, err
			}
			if row == nil {
				it.draining = 0
				break
			}
			copy(it.row, row)
			it.inLeft, it.hit, it.at = true, false, 0
			if o.apply {
				if err := it.begin(row); err != nil {
					return nil, err
				}
			}
		}
		for {
			if err := it.r.tick(); err != nil {
				return nil, err
			}
			row, err := it.candidate()
			if err != nil {
				return nil, err
			}
			if row == nil {
				break
			}
			copy(it.row[o.wl:], row)
			ok, err := it.r.pass(o.on, it.row)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			it.hit = true
			if o.keepsRight() {
				it.matched[it.at-1] = true
			}
			if o.kind == opt.SemiJoin {
				it.inLeft = false
				return it.row[:o.wl], nil
			}
			if o.kind == opt.AntiJoin {
				break
			}
			return it.row, nil
		}
		it.inLeft = false
		if !it.hit {
			if row := o.alone(it.row); row != nil {
				return row, nil
			}
		}
	}
	return it.unmatched(&o.joined, it.row), nil
}
