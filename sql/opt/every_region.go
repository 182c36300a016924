package opt

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Every row of a table that is REGIONAL BY ROW has one of the enum's values in its region column, the first one of its indexes. The condition says
// nothing about rows, but it lets conditions on the index's further columns become spans, one for each region, which are read at the same time (CRDB'22 §4.2).

// regionColumn is the scan's region column, if an index begins with it; else zero.
func regionColumn(s *Scan, ix *catalog.Index) ColumnID {
	t := s.Table
	if !t.ByRow() || len(ix.Columns) == 0 || ix.Columns[0].Column != t.RegionColumn {
		return 0
	}
	ord := t.Ordinal(t.RegionColumn)
	if ord < 0 {
		return 0
	}
	return s.Cols[ord]
}

// everyRegion is the condition, or nil if it is of no use: the region is given, or nothing else about the index is.
func everyRegion(s *Scan, cols *colSet, ix *catalog.Index, filter []scalar.Expr) scalar.Expr {
	id := regionColumn(s, ix)
	if id == 0 {
		return nil
	}
	t := s.Table.Column(s.Table.RegionColumn).Type
	if _, at := bestValues(filter, id, t, cols); at >= 0 {
		return nil
	}
	values := s.Table.Regions()
	if len(values) == 0 {
		return nil
	}
	in := &scalar.In{Arg: &scalar.Column{ID: id, T: t, Name: catalog.RegionColumn}, List: make([]scalar.Expr, len(values))}
	for i, v := range values {
		in.List[i] = regionConst(t, v)
	}
	return in
}

func regionConst(t *types.T, v types.EnumValue) scalar.Expr {
	return &scalar.Const{Value: types.NewInt(v.Place), T: t}
}

// withRegions finds the spans of an index under a conjunction and the condition that everyRegion adds to it.
func (o *optimizer) withRegions(s *Scan, cols *colSet, ix *catalog.Index, filter []scalar.Expr) constraint {
	if home := derivedRegion(s, cols, ix, filter); home != nil && !o.env.Naive && o.may(DerivedRegion) {
		c := o.constrain(s, cols, ix, append(filter[:len(filter):len(filter)], home))
		own := func(e scalar.Expr) bool { return e == home }
		c.used, c.filter = slices.DeleteFunc(c.used, own), slices.DeleteFunc(slices.Clone(c.filter), own)
		return c
	}
	every := everyRegion(s, cols, ix, filter)
	if every == nil || o.env.Naive || !o.may(EveryRegion) {
		c := o.constrain(s, cols, ix, filter)
		if !o.env.Naive {
			c.regions = givenRegions(s, cols, ix, filter, &c)
		}
		return c
	}
	all := append(filter[:len(filter):len(filter)], every)
	c := o.constrain(s, cols, ix, all)
	own := func(e scalar.Expr) bool { return e == every }
	c.used, c.filter = slices.DeleteFunc(c.used, own), slices.DeleteFunc(slices.Clone(c.filter), own)
	for i := range c.spans {
		if x := &c.spans[i]; len(x.Equal) < 2 && x.Low.Expr == nil && x.High.Expr == nil {
			return o.constrain(s, cols, ix, filter) // the regions alone exclude no row
		}
	}
	if c.spans != nil {
		c.regions = len(every.(*scalar.In).List)
	}
	return c
}

// givenRegions is how many regions the conditions name, if there are spans of all of them for each key; else zero.
func givenRegions(s *Scan, cols *colSet, ix *catalog.Index, filter []scalar.Expr, c *constraint) int {
	id := regionColumn(s, ix)
	if id == 0 || len(c.spans) < 2 {
		return 0
	}
	v, at := bestValues(filter, id, s.Table.Column(s.Table.RegionColumn).Type, cols)
	if at < 0 || v.mode != SpanValue || len(v.values) < 2 || len(c.spans)%len(v.values) != 0 {
		return 0
	}
	var places []int64
	for _, e := range v.values {
		k, ok := e.(*scalar.Const)
		if !ok || k.Value.IsNull() || slices.Contains(places, k.Value.Int()) {
			return 0
		}
		places = append(places, k.Value.Int())
	}
	for i := range c.spans {
		if x := &c.spans[i]; len(x.Equal) < 2 && x.Low.Expr == nil && x.High.Expr == nil {
			return 0
		}
	}
	return len(places)
}

// most is how many rows the spans of a unique index have at most.
func (c *constraint) most(t *catalog.Table, ix *catalog.Index) float64 {
	n := c.count()
	if c.regions > 1 && t.Worldwide(ix) {
		n /= float64(c.regions)
	}
	return n
}
