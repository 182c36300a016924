package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// joined is what all joins share: the combined row [left | right], the residual condition, and the shape of the
// output.
type joined struct {
	kind        opt.JoinKind
	left, right op
	wl, wr      int
	on          []scalar.Evaluator
}

func (b *builder) joined(kind opt.JoinKind, n, left, right opt.Node, on []scalar.Expr) (joined, layout, layout, error) {
	j := joined{kind: kind, wl: len(left.Columns()), wr: len(right.Columns())}
	var err error
	var ll, lr layout
	if j.left, ll, err = b.input(left); err != nil {
		return j, nil, nil, err
	}
	if j.right, lr, err = b.input(right); err != nil {
		return j, nil, nil, err
	}
	both := layoutOf(left).add(j.wl, right.Columns())
	if j.on, err = b.exprs(on, both); err != nil {
		return j, nil, nil, err
	}
	return j, ll, lr, nil
}

// shape remaps a join whose declared columns are not simply left's and then right's.
func (j *joined) shape(b *builder, o op, n, left, right opt.Node) (op, error) {
	natural := append([]scalar.ColumnID(nil), left.Columns()...)
	if j.kind != opt.SemiJoin && j.kind != opt.AntiJoin {
		natural = append(natural, right.Columns()...)
	}
	if equalCols(natural, n.Columns()) {
		return o, nil
	}
	slots, err := layout{}.add(0, natural).slots(n.Columns())
	if err != nil {
		return nil, err
	}
	return &projectOp{base: base{n}, input: o, slots: slots}, nil
}

func (j *joined) leftOnly() bool   { return j.kind == opt.SemiJoin || j.kind == opt.AntiJoin }
func (j *joined) keepsLeft() bool  { return j.kind == opt.LeftJoin || j.kind == opt.FullJoin }
func (j *joined) keepsRight() bool { return j.kind == opt.RightJoin || j.kind == opt.FullJoin }

// hashJoinOp builds a table of the right side and probes it with the left.
type hashJoinOp struct {
	base
	joined
	lkeys, rkeys   []int
	ltypes, rtypes []*types.T
	// common is the type in which the i-th keys are compared, where their representations differ.
	common []*types.T
	ints   bool // one key, integers on both sides
}

// commonType is what values of two representations are brought to before they are hashed; nil: nothing to do.
func commonType(a, b *types.T) *types.T {
	x, y := a.Phys(), b.Phys()
	has := func(p types.Phys) bool { return x == p || y == p }
	switch {
	case x == y:
		return nil
	case has(types.PhysFloat):
		return types.Float8
	case has(types.PhysDecimal):
		return types.Decimal
	case has(types.PhysDate) && has(types.PhysTimestamp):
		return types.Timestamp
	}
	return nil
}

// key appends the hash key of a row of one side.
func (o *hashJoinOp) key(r *run, buf []byte, row types.Row, slots []int, ts []*types.T) ([]byte, bool, error) {
	if o.common == nil {
		buf, null := hashKey(buf, row, slots, ts)
		return buf, null, nil
	}
	null := false
	for i, s := range slots {
		d, t := row[s], ts[i]
		if d.IsNull() {
			null = true
		} else if c := o.common[i]; c != nil && t.Phys() != c.Phys() {
			var err error
			if d, err = scalar.CastDatum(&r.sctx, d, t, c, true); err != nil {
				return nil, false, err
			}
			t = c
		}
		buf = types.AppendHashKey(buf, d, t)
	}
	return buf, null, nil
}

func (b *builder) hashJoin(n *opt.HashJoin) (op, error) {
	j, ll, lr, err := b.joined(n.Kind, n, n.Left, n.Right, n.On)
	if err != nil {
		return nil, err
	}
	o := &hashJoinOp{base: base{n}, joined: j, ltypes: b.typesOf(n.LeftKeys), rtypes: b.typesOf(n.RightKeys)}
	if o.lkeys, err = ll.slots(n.LeftKeys); err != nil {
		return nil, err
	}
	if o.rkeys, err = lr.slots(n.RightKeys); err != nil {
		return nil, err
	}
	for i := range o.ltypes {
		if c := commonType(o.ltypes[i], o.rtypes[i]); c != nil {
			if o.common == nil {
				o.common = make([]*types.T, len(o.ltypes))
			}
			o.common[i] = c
		}
	}
	o.ints = len(o.lkeys) == 1 && o.ltypes[0].Phys() == types.PhysInt && o.rtypes[0].Phys() == types.PhysInt
	return j.shape(b, o, n, n.Left, n.Right)
}

func (o *hashJoinOp) iter(r *run) iter {
	return &hashJoinIter{r: r, o: o, left: r.make(o.left), right: r.make(o.right), row: make(types.Row, o.wl+o.wr)}
}

type chain struct{ head, tail int32 }

type hashJoinIter struct {
	r           *run
	o           *hashJoinOp
	left, right iter
	row         types.Row // combined

	store   rowStore
	byInt   map[int64]int32
	byKey   map[string]int32
	chains  []chain
	links   []int32 // next row of the same key, or -1
	matched []bool
	extra   int64 // budget taken for the table itself
	buf     []byte

	built    bool
	probing  bool  // a left row is being matched
	at       int32 // next candidate, or -1
	hit      bool
	draining int // next right row to check for a match; -1 before the left side has ended
}

func (it *hashJoinIter) open() error {
	it.reset()
	return nil
}

func (it *hashJoinIter) reset() {
	it.store.reset(it.r.budget)
	it.r.budget.Shrink(it.extra)
	it.extra = 0
	clear(it.byInt)
	clear(it.byKey)
	it.chains, it.links, it.matched = it.chains[:0], it.links[:0], it.matched[:0]
	it.built, it.probing, it.draining = false, false, -1
}

func (it *hashJoinIter) close() {
	it.reset()
	if cap(it.links) > 4096 {
		it.byInt, it.byKey, it.chains, it.links, it.matched = nil, nil, nil, nil, nil
	}
	clear(it.row)
	it.left.close()
	it.right.close()
}

func (it *hashJoinIter) build() error {
	it.built = true
	o := it.o
	if err := it.right.open(); err != nil {
		return err
	}
	if o.ints && it.byInt == nil {
		it.byInt = make(map[int64]int32)
	} else if !o.ints && it.byKey == nil {
		it.byKey = make(map[string]int32)
	}
	for {
		row, err := it.right.next()
		if err != nil {
			return err
		}
		if row == nil {
			break
		}
		if err := it.r.tick(); err != nil {
			return err
		}
		var c int32
		var ok, null bool
		if o.ints {
			d := row[o.rkeys[0]]
			if null = d.IsNull(); !null {
				c, ok = it.byInt[d.Int()]
			}
		} else {
			if it.buf, null, err = o.key(it.r, it.buf[:0], row, o.rkeys, o.rtypes); err != nil {
				return err
			}
			if !null {
				c, ok = it.byKey[string(it.buf)]
			}
		}
		if null && !o.keepsRight() {
			continue
		}
		if _, err := it.store.add(it.r.budget, row); err != nil {
			return err
		}
		n := int64(32 + len(it.buf))
		if err := it.r.budget.Grow(n); err != nil {
			return err
		}
		it.extra += n
		at := int32(len(it.links))
		it.links = append(it.links, -1)
		it.matched = append(it.matched, false)
		switch {
		case null:
		case ok:
			it.links[it.chains[c].tail] = at
			it.chains[c].tail = at
		default:
			c = int32(len(it.chains))
			it.chains = append(it.chains, chain{at, at})
			if o.ints {
				it.byInt[row[o.rkeys[0]].Int()] = c
			} else {
				it.byKey[string(it.buf)] = c
			}
		}
	}
	it.right.close()
	return it.left.open()
}

func (it *hashJoinIter) next() (types.Row, error) {
	o := it.o
	if !it.built {
		if err := it.build(); err != nil {
			return nil, err
		}
		if len(it.links) == 0 && (o.kind == opt.InnerJoin || o.kind == opt.SemiJoin || o.kind == opt.RightJoin) {
			it.draining = 0 // nothing can come
		}
	}
	for it.draining < 0 {
		if err := it.r.tick(); err != nil {
			return nil, err
		}
		if !it.probing {
			row, err := it.left.next()
			if err != nil {
				return nil, err
			}
			if row == nil {
				it.draining = 0
				break
			}
			copy(it.row, row)
			if err := it.probe(row); err != nil {
				return nil, err
			}
		}
		for it.at >= 0 {
			i := it.at
			it.at = it.links[i]
			copy(it.row[o.wl:], it.store.rows[i])
			if len(o.on) > 0 {
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
			}
			it.hit = true
			it.matched[i] = true
			switch o.kind {
			case opt.SemiJoin:
				it.probing = false
				return it.row[:o.wl], nil
			case opt.AntiJoin:
				it.at = -1
				continue
			}
			return it.row, nil
		}
		it.probing = false
		if !it.hit {
			if o.kind == opt.AntiJoin {
				return it.row[:o.wl], nil
			}
			if o.keepsLeft() {
				clear(it.row[o.wl:])
				return it.row, nil
			}
		}
	}
	if o.keepsRight() {
		for it.draining < len(it.store.rows) {
			i := it.draining
			it.draining++
			if !it.matched[i] {
				clear(it.row[:o.wl])
				copy(it.row[o.wl:], it.store.rows[i])
				return it.row, nil
			}
		}
	}
	return nil, nil
}

// probe finds the candidates for a left row.
func (it *hashJoinIter) probe(row types.Row) error {
	o := it.o
	it.probing, it.hit, it.at = true, false, -1
	if o.ints {
		if d := row[o.lkeys[0]]; !d.IsNull() {
			if c, ok := it.byInt[d.Int()]; ok {
				it.at = it.chains[c].head
			}
		}
		return nil
	}
	var null bool
	var err error
	if it.buf, null, err = o.key(it.r, it.buf[:0], row, o.lkeys, o.ltypes); err != nil || null {
		return err
	}
	if c, ok := it.byKey[string(it.buf)]; ok {
		it.at = it.chains[c].head
	}
	return nil
}

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

// nestedLoopOp tries every pair; Apply runs the right side again for every left row.
type nestedLoopOp struct {
	base
	joined
	apply bool
	outer []scalar.ColumnID
	slots []int
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
	store       rowStore // the right side, unless it is an apply
	built       bool
	matched     []bool
	inLeft      bool
	hit         bool
	at          int
	draining    int
}

func (it *nestedLoopIter) open() error {
	it.store.reset(it.r.budget)
	it.matched = it.matched[:0]
	it.built, it.inLeft, it.draining = false, false, -1
	return it.left.open()
}

func (it *nestedLoopIter) close() {
	it.store.reset(it.r.budget)
	clear(it.row)
	it.left.close()
	it.right.close()
}

// candidate is the next right row for the current left row.
func (it *nestedLoopIter) candidate() (types.Row, error) {
	if it.o.apply {
		return it.right.next()
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
				for i, c := range o.outer {
					it.r.setOuter(c, row[o.slots[i]])
				}
				if err := it.right.open(); err != nil {
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
			if o.kind == opt.AntiJoin {
				return it.row[:o.wl], nil
			}
			if o.keepsLeft() {
				clear(it.row[o.wl:])
				return it.row, nil
			}
		}
	}
	if o.keepsRight() {
		for it.draining < len(it.store.rows) {
			i := it.draining
			it.draining++
			if !it.matched[i] {
				clear(it.row[:o.wl])
				copy(it.row[o.wl:], it.store.rows[i])
				return it.row, nil
			}
		}
	}
	return nil, nil
}
