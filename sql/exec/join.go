package exec

import (
	"meridian/sql/opt"
	"meridian/sql/scalar"
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
