package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// joined is the common part of all joins: the combined row [left | right], the residual condition, and the shape of the
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
	again := 0
	if l, ok := n.(*opt.NestedLoop); ok && l.Apply {
		again = 1
	}
	b.depth += again
	if j.right, lr, err = b.input(right); err != nil {
		return j, nil, nil, err
	}
	b.depth -= again
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

// alone is row, whose left half has found no match, as the join returns it; nil if it doesn't. It clears the right half.
func (j *joined) alone(row types.Row) types.Row {
	switch {
	case j.kind == opt.AntiJoin:
		return row[:j.wl]
	case j.keepsLeft():
		clear(row[j.wl:])
		return row
	}
	return nil
}

// stored is the right side of a join that keeps it in memory.
type stored struct {
	store    rowStore
	matched  []bool // of each row, if the join keeps right rows without a match
	draining int    // next right row to check for a match; -1 before the left side has ended
}

// unmatched is the next right row that found no match, in row; nil when there are no more, or the join does not return them.
func (s *stored) unmatched(j *joined, row types.Row) types.Row {
	for j.keepsRight() && s.draining < len(s.store.rows) {
		i := s.draining
		s.draining++
		if !s.matched[i] {
			clear(row[:j.wl])
			copy(row[j.wl:], s.store.rows[i])
			return row
		}
	}
	return nil
}
