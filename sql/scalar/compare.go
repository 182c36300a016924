package scalar

import (
	"strings"

	"meridian/sql/types"
)

func (op CmpOp) holds(c int) truth {
	var ok bool
	switch op {
	case EQ, IsNotDistinct:
		ok = c == 0
	case NE, IsDistinct:
		ok = c != 0
	case LT:
		ok = c < 0
	case LE:
		ok = c <= 0
	case GT:
		ok = c > 0
	case GE:
		ok = c >= 0
	}
	if ok {
		return isTrue
	}
	return isFalse
}

// Holds reports whether a comparison that came out as c (negative, zero, positive) satisfies the operator.
func (op CmpOp) Holds(c int) bool { return op.holds(c) == isTrue }

func (c *compiler) comparison(e *Compare) Evaluator {
	l, r := c.compile(e.Left), c.compile(e.Right)
	lt, rt := e.Left.Type(), e.Right.Type()
	if e.Op != IsDistinct && e.Op != IsNotDistinct {
		pl, pr := lt.Phys(), rt.Phys()
		if pl == pr {
			switch pl {
			case types.PhysInt, types.PhysDate, types.PhysTimestamp, types.PhysBool:
				if slot, ok := l.(columnNode); ok {
					if k, ok := r.(constNode); ok && !k.d.IsNull() {
						return &cmpColInt{e.Op, int(slot), k.d.Int()}
					}
				}
				return &cmpInt{e.Op, l, r}
			case types.PhysString:
				return &cmpStr{e.Op, l, r}
			}
		}
	}
	return &cmpNode{e.Op, l, r, types.Compare, ComparesRecords(e)}
}

// ComparesRecords reports whether a comparison is that of two values of row types, in which a NULL equals a NULL and comes after all else; and not that
// of the standard for row constructors, which a NULL makes unknown.
func ComparesRecords(e *Compare) bool {
	l, r := e.Left.Type(), e.Right.Type()
	return l.Kind == types.KindTuple && r.Kind == types.KindTuple && (l.Names != nil || r.Names != nil)
}

type cmpNode struct {
	op      CmpOp
	l, r    Evaluator
	compare func(a, b types.Datum) int
	record  bool
}

func (n *cmpNode) decide(a, b types.Datum) truth {
	if n.record && !a.IsNull() && !b.IsNull() {
		return n.op.holds(n.compare(a, b))
	}
	return compareDatums(n.op, a, b, n.compare)
}

func (n *cmpNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *cmpNode) test(ctx *Context, row types.Row) (truth, error) {
	a, err := n.l.Eval(ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	if a.Weight() != 0 {
		return n.large(ctx, a, row)
	}
	b, err := n.r.Eval(ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	return n.decide(a, b), nil
}

// large compares a large value: JSON is parsed for it.
func (n *cmpNode) large(ctx *Context, a types.Datum, row types.Row) (truth, error) {
	held, err := ctx.hold(&a)
	if err != nil {
		return isNullTruth, err
	}
	defer func() { ctx.release(held) }()
	b, err := n.r.Eval(ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	need := b.Weight()
	if a.Phys() == types.PhysJSON && b.Phys() == types.PhysJSON {
		need += types.JSONBytes(a.Str()) + types.JSONBytes(b.Str())
	}
	taken, err := ctx.reserve(need)
	if err != nil {
		return isNullTruth, err
	}
	defer ctx.release(taken)
	return n.decide(a, b), nil
}

func compareDatums(op CmpOp, a, b types.Datum, compare func(a, b types.Datum) int) truth {
	if a.IsNull() || b.IsNull() {
		switch op {
		case IsDistinct:
			if a.IsNull() != b.IsNull() {
				return isTrue
			}
			return isFalse
		case IsNotDistinct:
			if a.IsNull() == b.IsNull() {
				return isTrue
			}
			return isFalse
		}
		return isNullTruth
	}
	if a.Phys() == types.PhysTuple && b.Phys() == types.PhysTuple && op != IsDistinct && op != IsNotDistinct {
		return compareTuples(op, a.Tuple().Elems, b.Tuple().Elems)
	}
	return op.holds(compare(a, b))
}

// compareTuples follows the row comparison of the standard: the first unequal pair decides, and a NULL before it
// makes the answer unknown (for = and <> a later unequal pair still decides).
func compareTuples(op CmpOp, a, b []types.Datum) truth {
	null := false
	for i := range min(len(a), len(b)) {
		if a[i].IsNull() || b[i].IsNull() {
			if op != EQ && op != NE {
				return isNullTruth
			}
			null = true
			continue
		}
		if c := types.Compare(a[i], b[i]); c != 0 {
			return op.holds(c)
		}
	}
	if null {
		return isNullTruth
	}
	return op.holds(len(a) - len(b))
}

type cmpColInt struct {
	op   CmpOp
	slot int
	k    int64
}

func (n *cmpColInt) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *cmpColInt) test(_ *Context, row types.Row) (truth, error) {
	d := &row[n.slot]
	if d.IsNull() {
		return isNullTruth, nil
	}
	return holdsInt(n.op, d.Int(), n.k), nil
}

func holdsInt(op CmpOp, a, b int64) truth {
	var ok bool
	switch op {
	case EQ:
		ok = a == b
	case NE:
		ok = a != b
	case LT:
		ok = a < b
	case LE:
		ok = a <= b
	case GT:
		ok = a > b
	case GE:
		ok = a >= b
	}
	if ok {
		return isTrue
	}
	return isFalse
}

type cmpInt struct {
	op   CmpOp
	l, r Evaluator
}

func (n *cmpInt) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *cmpInt) test(ctx *Context, row types.Row) (truth, error) {
	a, err := n.l.Eval(ctx, row)
	if err != nil || a.IsNull() {
		return isNullTruth, err
	}
	b, err := n.r.Eval(ctx, row)
	if err != nil || b.IsNull() {
		return isNullTruth, err
	}
	return holdsInt(n.op, a.Int(), b.Int()), nil
}

type cmpStr struct {
	op   CmpOp
	l, r Evaluator
}

func (n *cmpStr) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *cmpStr) test(ctx *Context, row types.Row) (truth, error) {
	a, err := n.l.Eval(ctx, row)
	if err != nil || a.IsNull() {
		return isNullTruth, err
	}
	if a.Weight() != 0 {
		held, err := ctx.hold(&a)
		if err != nil {
			return isNullTruth, err
		}
		defer ctx.release(held)
	}
	b, err := n.r.Eval(ctx, row)
	if err != nil || b.IsNull() {
		return isNullTruth, err
	}
	if n.op == EQ {
		if a.Str() == b.Str() {
			return isTrue, nil
		}
		return isFalse, nil
	}
	return n.op.holds(strings.Compare(a.Str(), b.Str())), nil
}

// inSetMin is the number of constants from which a list is searched by hash rather than one by one; measured once
// the cost of a map probe is about that of eight comparisons.
const inSetMin = 9

type inNode struct {
	arg     Evaluator
	list    []Evaluator
	negate  bool
	compare func(a, b types.Datum) int
	set     map[string]struct{} // of AppendHashKey, if every element is constant
	hasNull bool
	t       *types.T
}

func (c *compiler) in(e *In) Evaluator {
	n := &inNode{arg: c.compile(e.Arg), list: c.list(e.List), negate: e.Negate, t: e.Arg.Type()}
	n.compare = types.Compare
	sameType, allConst := true, true
	for _, x := range e.List {
		if x.Type().Phys() != n.t.Phys() || x.Type().Kind == types.KindTuple {
			sameType = false
		}
		if k, ok := x.(*Const); !ok {
			allConst = false
		} else if k.Value.IsNull() {
			n.hasNull = true
		}
		n.compare = types.Compare
	}
	if sameType && allConst && len(e.List) >= inSetMin {
		n.set = make(map[string]struct{}, len(e.List))
		for _, x := range e.List {
			if k := x.(*Const); !k.Value.IsNull() {
				n.set[string(types.AppendHashKey(nil, k.Value, n.t))] = struct{}{}
			}
		}
	}
	return n
}

func (n *inNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *inNode) test(ctx *Context, row types.Row) (truth, error) {
	a, err := n.arg.Eval(ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	found := isFalse
	switch {
	case a.IsNull():
		return isNullTruth, nil
	case n.set != nil:
		var scratch [64]byte
		if _, ok := n.set[string(types.AppendHashKey(scratch[:0], a, n.t))]; ok {
			found = isTrue
		} else if n.hasNull {
			found = isNullTruth
		}
	default:
		for i, x := range n.list {
			b, err := x.Eval(ctx, row)
			if err == nil {
				err = ctx.tick(i)
			}
			if err != nil {
				return isNullTruth, err
			}
			t := compareDatums(EQ, a, b, n.compare)
			if t == isTrue {
				found = isTrue
				break
			}
			if t == isNullTruth {
				found = isNullTruth
			}
		}
	}
	if n.negate {
		return invert(found), nil
	}
	return found, nil
}

func invert(t truth) truth {
	switch t {
	case isTrue:
		return isFalse
	case isFalse:
		return isTrue
	}
	return t
}

type quantifiedNode struct {
	arg, array Evaluator
	all        bool
	op         Evaluator
	plain      bool // op compares the two columns directly
	cmpOp      CmpOp
	compare    func(a, b types.Datum) int
}

func (c *compiler) quantified(e *Quantified) Evaluator {
	n := &quantifiedNode{arg: c.compile(e.Arg), array: c.compile(e.Array), all: e.All}
	if cmp, ok := e.Op.(*Compare); ok {
		l, lok := cmp.Left.(*Column)
		r, rok := cmp.Right.(*Column)
		if lok && rok && l.ID == e.LeftID && r.ID == e.ElemID {
			n.plain, n.cmpOp, n.compare = true, cmp.Op, types.Compare
			return n
		}
	}
	inner := compiler{layout: func(id ColumnID) (int, bool) {
		switch id {
		case e.LeftID:
			return 0, true
		case e.ElemID:
			return 1, true
		}
		return 0, false
	}}
	n.op = inner.compile(e.Op)
	if c.err == nil {
		c.err = inner.err
	}
	return n
}

func (n *quantifiedNode) Eval(ctx *Context, row types.Row) (types.Datum, error) {
	t, err := n.test(ctx, row)
	return t.datum(), err
}

func (n *quantifiedNode) test(ctx *Context, row types.Row) (truth, error) {
	a, err := n.arg.Eval(ctx, row)
	if err != nil {
		return isNullTruth, err
	}
	arr, err := n.array.Eval(ctx, row)
	if err != nil || arr.IsNull() {
		return isNullTruth, err
	}
	// ANY looks for a true, ALL for a false.
	stop, result := isTrue, isFalse
	if n.all {
		stop, result = isFalse, isTrue
	}
	var pair types.Row
	if arr.Weight() != 0 {
		held, err := ctx.hold(&arr)
		if err != nil {
			return isNullTruth, err
		}
		defer ctx.release(held)
	}
	for i, x := range arr.Array().Elems {
		if err := ctx.tick(i); err != nil {
			return isNullTruth, err
		}
		var t truth
		if n.plain {
			t = compareDatums(n.cmpOp, a, x, n.compare)
		} else {
			if pair == nil {
				pair = make(types.Row, 2)
			}
			pair[0], pair[1] = a, x
			if t, err = test(n.op, ctx, pair); err != nil {
				return isNullTruth, err
			}
		}
		if t == stop {
			return stop, nil
		}
		if t == isNullTruth {
			result = isNullTruth
		}
	}
	return result, nil
}
