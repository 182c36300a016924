package exec

import (
	"meridian/sql/opt"
	"meridian/sql/types"
)

// mergeJoinOp joins inputs that are ordered by their keys.
type mergeJoinOp struct {
	base
	joined
	lkeys, rkeys []int
	types        []*types.T
	desc         []bool
}

func (b *builder) mergeJoin(n *opt.MergeJoin) (op, error) {
	j, ll, lr, err := b.joined(n.Kind, n, n.Left, n.Right, n.On)
	if err != nil {
		return nil, err
	}
	o := &mergeJoinOp{base: base{n}, joined: j, types: b.typesOf(n.LeftKeys), desc: make([]bool, len(n.LeftKeys))}
	copy(o.desc, n.Desc)
	if o.lkeys, err = ll.slots(n.LeftKeys); err != nil {
		return nil, err
	}
	if o.rkeys, err = lr.slots(n.RightKeys); err != nil {
		return nil, err
	}
	return j.shape(b, o, n, n.Left, n.Right)
}

func (o *mergeJoinOp) iter(r *run) iter {
	return &mergeJoinIter{r: r, o: o, left: r.make(o.left), right: r.make(o.right), row: make(types.Row, o.wl+o.wr),
		key: make(types.Row, len(o.lkeys))}
}

type mergeJoinIter struct {
	r           *run
	o           *mergeJoinOp
	left, right iter
	row         types.Row
	started     bool
	lrow        types.Row // current left row; nil at the end
	rrow        types.Row // right row that is not in the group yet; nil at the end

	key     types.Row // of the group
	group   rowStore
	inGroup bool // the group has rows
	matched []bool
	at      int // next of the group for lrow
	hit     bool
	flush   int // next of the group to check for a match; -1: not flushing
}

func (it *mergeJoinIter) open() error {
	it.group.reset(it.r.budget)
	it.started, it.inGroup, it.flush = false, false, -1
	if err := it.left.open(); err != nil {
		return err
	}
	return it.right.open()
}

func (it *mergeJoinIter) close() {
	it.group.reset(it.r.budget)
	it.lrow, it.rrow = nil, nil
	clear(it.row)
	clear(it.key)
	it.left.close()
	it.right.close()
}

func (it *mergeJoinIter) advanceLeft() (err error) {
	it.lrow, err = it.left.next()
	it.at, it.hit = 0, false
	return err
}

func (it *mergeJoinIter) advanceRight() (err error) {
	it.rrow, err = it.right.next()
	return err
}

func anyNull(row types.Row, slots []int) bool {
	for _, s := range slots {
		if row[s].IsNull() {
			return true
		}
	}
	return false
}

func (it *mergeJoinIter) compare(l types.Row, ls []int, r types.Row, rs []int) int {
	for i := range ls {
		c := it.o.types[i].Compare(l[ls[i]], r[rs[i]])
		if it.o.desc[i] {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func (it *mergeJoinIter) compareKey(l types.Row) int {
	for i, s := range it.o.lkeys {
		c := it.o.types[i].Compare(l[s], it.key[i])
		if it.o.desc[i] {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func (it *mergeJoinIter) leftAlone(l types.Row) types.Row {
	copy(it.row, l)
	if it.o.leftOnly() {
		return it.row[:it.o.wl]
	}
	clear(it.row[it.o.wl:])
	return it.row
}

func (it *mergeJoinIter) rightAlone(r types.Row) types.Row {
	clear(it.row[:it.o.wl])
	copy(it.row[it.o.wl:], r)
	return it.row
}

func (it *mergeJoinIter) next() (types.Row, error) {
	o := it.o
	if !it.started {
		it.started = true
		if err := it.advanceLeft(); err != nil {
			return nil, err
		}
		if err := it.advanceRight(); err != nil {
			return nil, err
		}
	}
	for {
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		if it.flush >= 0 {
			for it.flush < len(it.group.rows) {
				i := it.flush
				it.flush++
				if !it.matched[i] {
					return it.rightAlone(it.group.rows[i]), nil
				}
			}
			it.flush, it.inGroup = -1, false
			it.group.reset(it.r.budget)
			continue
		}
		if it.inGroup {
			if it.lrow == nil || anyNull(it.lrow, o.lkeys) || it.compareKey(it.lrow) != 0 {
				if o.keepsRight() {
					it.flush = 0
				} else {
					it.inGroup = false
					it.group.reset(it.r.budget)
				}
				continue
			}
			row, err := it.emit()
			if err != nil || row != nil {
				return row, err
			}
			continue
		}
		switch {
		case it.lrow == nil && (it.rrow == nil || !o.keepsRight()):
			return nil, nil
		case it.lrow == nil:
			row := it.rightAlone(it.rrow)
			return row, it.advanceRight()
		case it.rrow == nil && !o.keepsLeft() && o.kind != opt.AntiJoin:
			return nil, nil
		}
		c := 0
		switch {
		case it.rrow == nil || anyNull(it.lrow, o.lkeys):
			c = -1
		case anyNull(it.rrow, o.rkeys):
			c = 1
		default:
			c = it.compare(it.lrow, o.lkeys, it.rrow, o.rkeys)
		}
		switch {
		case c < 0:
			keep := o.keepsLeft() || o.kind == opt.AntiJoin
			var row types.Row
			if keep {
				row = it.leftAlone(it.lrow)
			}
			if err := it.advanceLeft(); err != nil {
				return nil, err
			}
			if keep {
				return row, nil
			}
		case c > 0:
			keep := o.keepsRight()
			var row types.Row
			if keep {
				row = it.rightAlone(it.rrow)
			}
			if err := it.advanceRight(); err != nil {
				return nil, err
			}
			if keep {
				return row, nil
			}
		default:
			if err := it.gather(); err != nil {
				return nil, err
			}
		}
	}
}

// gather reads the right rows that are equal to the left row.
func (it *mergeJoinIter) gather() error {
	o := it.o
	for i, s := range o.lkeys {
		it.key[i] = it.lrow[s]
	}
	it.inGroup = true
	it.matched = it.matched[:0]
	for it.rrow != nil && !anyNull(it.rrow, o.rkeys) && it.compare(it.lrow, o.lkeys, it.rrow, o.rkeys) == 0 {
		if _, err := it.group.add(it.r.budget, it.rrow); err != nil {
			return err
		}
		it.matched = append(it.matched, false)
		if err := it.advanceRight(); err != nil {
			return err
		}
		if err := it.r.tick(); err != nil {
			return err
		}
	}
	return nil
}

// emit matches the left row with the rest of the group; nil means that the left row is done and was replaced.
func (it *mergeJoinIter) emit() (types.Row, error) {
	o := it.o
	copy(it.row, it.lrow)
	for it.at < len(it.group.rows) {
		i := it.at
		it.at++
		copy(it.row[o.wl:], it.group.rows[i])
		ok, err := it.r.pass(o.on, it.row)
		if err != nil {
			return nil, err
		}
		if !ok {
			if err := it.r.tick(); err != nil {
				return nil, err
			}
			continue
		}
		it.hit, it.matched[i] = true, true
		if o.leftOnly() {
			it.at = len(it.group.rows)
			break
		}
		return it.row, nil
	}
	keep := !it.hit && (o.keepsLeft() || o.kind == opt.AntiJoin) || it.hit && o.kind == opt.SemiJoin
	if keep {
		it.leftAlone(it.lrow)
	}
	if err := it.advanceLeft(); err != nil {
		return nil, err
	}
	if !keep {
		return nil, nil
	}
	if o.leftOnly() {
		return it.row[:o.wl], nil
	}
	return it.row, nil
}
