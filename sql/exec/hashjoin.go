package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

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

// commonType is the type to which values of two representations are converted before they are hashed; nil: none is
// needed.
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

	stored
	byInt  map[int64]int32
	byKey  map[string]int32
	chains []chain
	links  []int32 // next row of the same key, or -1
	extra  int64   // budget taken for the table itself
	buf    []byte

	built   bool
	probing bool  // a left row is being matched
	at      int32 // next candidate, or -1
	hit     bool
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
			it.draining = 0 // no row can follow
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
			if row := o.alone(it.row); row != nil {
				return row, nil
			}
		}
	}
	return it.unmatched(&o.joined, it.row), nil
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
