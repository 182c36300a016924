package opt

import (
	"strings"

	"meridian/encoding"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Selectivities from histograms (catalog.Histogram). They are used for conditions between a column of a table and constants; parameters have no
// values yet, so they are estimated by the number of distinct values.

// distribution is what is known about the values of a column.
type distribution struct {
	*catalog.Histogram
	nulls, distinct, rows float64
}

// distribution of a column's values; ok is false if its table has no histogram of it.
func (o *optimizer) distribution(c ColumnID) (d distribution, ok bool) {
	m := o.meta.Column(c)
	if m.Table == nil || m.Column == 0 {
		return d, false
	}
	st := o.info(m.Table).stats
	if st == nil || st.Rows == 0 {
		return d, false
	}
	s := st.Columns[m.Column]
	if s.Histogram == nil {
		return d, false
	}
	rows := float64(st.Rows)
	return distribution{s.Histogram, min(float64(s.NullCount)/rows, 1), float64(s.Distinct), rows}, true
}

// constantKey is the key encoding of a constant that is compared with a column.
func constantKey(e scalar.Expr, t *types.T) ([]byte, bool) {
	k, ok := e.(*scalar.Const)
	if !ok || k.Value.IsNull() || k.Value.Phys() != t.Phys() {
		return nil, false
	}
	b, err := rowcode.AppendKeyDatum(nil, k.Value, encoding.Ascending)
	return b, err == nil
}

// equalShare estimates the share of rows in which a column is equal to a constant.
func (o *optimizer) equalShare(c ColumnID, e scalar.Expr) (float64, bool) {
	d, ok := o.distribution(c)
	if !ok {
		return 0, false
	}
	v, ok := constantKey(e, o.meta.Column(c).Type)
	if !ok {
		return 0, false
	}
	return d.Equal(v, d.nulls, d.distinct, d.rows), true
}

// listShare estimates the share of rows in which a column is equal to an element of a list of constants.
func (o *optimizer) listShare(c ColumnID, list []scalar.Expr) (float64, bool) {
	sum := 0.0
	for i, e := range list {
		if containsExpr(list[:i], e) {
			continue
		}
		s, ok := o.equalShare(c, e)
		if !ok {
			return 0, false
		}
		sum += s
	}
	return min(sum, 1), true
}

// longList bounds the lists in which containsExpr looks for duplicates.
const longList = 100

func containsExpr(list []scalar.Expr, e scalar.Expr) bool {
	return len(list) < longList && contains(list, e)
}

// valueRange is what conditions say about a column of which there is a histogram: rows from low to high. Nil is open.
type valueRange struct {
	col           ColumnID
	low, high     []byte
	lowIn, highIn bool    // the bound is part of the range
	share         float64 // of the rows in the range that meet the conditions
}

// rangeOf reads a condition as a range of a column's values.
func (o *optimizer) rangeOf(e scalar.Expr, in *group) (r valueRange, ok bool) {
	r.share = 1
	switch e := e.(type) {
	case *scalar.Compare:
		c, is := e.Left.(*scalar.Column)
		op, value := e.Op, e.Right
		if !is {
			if c, is = e.Right.(*scalar.Column); !is {
				return r, false
			}
			op, value = mirror(op), e.Left
		}
		if !in.cols.has(c.ID) {
			return r, false
		}
		if _, known := o.distribution(c.ID); !known {
			return r, false
		}
		v, is := constantKey(value, o.meta.Column(c.ID).Type)
		if !is {
			return r, false
		}
		r.col = c.ID
		switch op {
		case scalar.LT, scalar.LE:
			r.high, r.highIn = v, op == scalar.LE
		case scalar.GT, scalar.GE:
			r.low, r.lowIn = v, op == scalar.GE
		default:
			return r, false
		}
		return r, true
	case *scalar.Call:
		if len(e.Args) != 2 {
			return r, false
		}
		c, is := e.Args[0].(*scalar.Column)
		if !is || !in.cols.has(c.ID) {
			return r, false
		}
		if _, known := o.distribution(c.ID); !known {
			return r, false
		}
		v, is := matchLike(e, c.ID, o.meta.Column(c.ID).Type)
		if !is || v.low.Expr == nil || v.high.Expr == nil {
			return r, false
		}
		r.col, r.lowIn = c.ID, true
		low, lok := constantKey(v.low.Expr, types.Text)
		high, hok := constantKey(v.high.Expr, types.Text)
		r.low, r.high = low, high
		if pattern := e.Args[1].(*scalar.Const).Value.Str(); strings.IndexAny(pattern, "%_") < len(pattern)-1 || !strings.HasSuffix(pattern, "%") {
			r.share = defaultSelectivity // more follows than a prefix
		}
		return r, lok && hok
	}
	return r, false
}

// mirror is the comparison with its sides exchanged.
func mirror(op scalar.CmpOp) scalar.CmpOp {
	switch op {
	case scalar.LT:
		return scalar.GT
	case scalar.LE:
		return scalar.GE
	case scalar.GT:
		return scalar.LT
	case scalar.GE:
		return scalar.LE
	}
	return op
}

// meet adds a further condition on the same column.
func (r *valueRange) meet(x valueRange) {
	if x.low != nil && (r.low == nil || string(x.low) > string(r.low) || string(x.low) == string(r.low) && !x.lowIn) {
		r.low, r.lowIn = x.low, x.lowIn
	}
	if x.high != nil && (r.high == nil || string(x.high) < string(r.high) || string(x.high) == string(r.high) && !x.highIn) {
		r.high, r.highIn = x.high, x.highIn
	}
	r.share *= x.share
}

// rangeShare estimates the share of all rows in a range.
func (o *optimizer) rangeShare(r *valueRange) float64 {
	d, _ := o.distribution(r.col)
	if r.low != nil && r.high != nil && string(r.low) > string(r.high) {
		return 0
	}
	high := 1 - d.nulls
	if r.high != nil {
		high = d.Below(r.high, r.highIn, d.nulls)
	}
	low := 0.0
	if r.low != nil {
		low = d.Below(r.low, !r.lowIn, d.nulls)
	}
	// Two bounds within one part of the histogram leave hardly anything; a value at least is expected between them.
	least := 0.5 / max(d.rows, 1)
	if r.low != nil && r.high != nil && r.lowIn && r.highIn && string(r.low) == string(r.high) {
		least = d.Equal(r.low, d.nulls, d.distinct, d.rows)
	}
	return max(high-low, least) * r.share
}
