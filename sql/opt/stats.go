package opt

import (
	"math"
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Guesses without statistics.
const (
	defaultRows        = 1000
	defaultVirtualRows = 100
	setFunctionRows    = 10
	defaultLimit       = 100
	// defaultDistinct is the ratio of a column's distinct values to its table's rows.
	defaultDistinct    = 0.1
	defaultSelectivity = 1.0 / 3
	rangeSelectivity   = 0.3
	likeSelectivity    = 0.1
	nullSelectivity    = 0.01
	minSelectivity     = 1e-9
)

// columnWidth is a guess of the bytes that a value takes.
func columnWidth(t *types.T) float64 {
	switch t.Phys() {
	case types.PhysBool:
		return 1
	case types.PhysInt, types.PhysFloat, types.PhysDate, types.PhysTime, types.PhysTimestamp:
		return 6
	case types.PhysDecimal:
		return 8
	case types.PhysUUID, types.PhysInterval:
		return 16
	}
	return 24
}

// distinct guesses how many values a column has among rows rows.
func (o *optimizer) distinct(c ColumnID, rows float64) float64 {
	m := o.meta.Column(c)
	if m.Table == nil || m.Column == 0 {
		return max(1, rows*defaultDistinct)
	}
	return max(1, min(rows, o.tableDistinct(m.Table, m.Column)))
}

func (o *optimizer) tableDistinct(t *catalog.Table, id catalog.ColumnID) float64 {
	info := o.info(t)
	if info.stats != nil {
		if s, ok := info.stats.Columns[id]; ok && s.Distinct > 0 {
			return float64(s.Distinct)
		}
	}
	for i := range t.Indexes {
		ix := &t.Indexes[i]
		if key := ix.UserColumns(); (ix.Unique || ix.Primary) && len(key) == 1 && key[0].Column == id {
			return info.rows
		}
	}
	c := t.Column(id)
	if c != nil && c.Type.Kind == types.KindBool {
		return 2
	}
	if c != nil && t.Kind == catalog.KindVirtual {
		// There are few values, whatever the number of relations.
		switch c.Name {
		case "classid", "refclassid":
			return 2
		case "relkind":
			return 4
		}
	}
	if c != nil && slices.Contains(t.Lookups, id) {
		switch c.Name {
		case "oid", "relname", "indexrelid", "seqrelid", "ev_class":
			return info.rows
		}
		return max(1, info.rows/virtualKeyRows)
	}
	return max(1, info.rows*defaultDistinct)
}

// distinctRows guesses how many different values a group has in some columns.
func (o *optimizer) distinctRows(g *group, cols colSet) float64 {
	if cols.empty() {
		return min(1, g.rows)
	}
	n, k := 1.0, 0
	cols.each(func(c ColumnID) {
		// Further columns are seldom independent of the first.
		d := o.distinct(c, g.rows)
		if k > 0 {
			d = math.Sqrt(d)
		}
		n *= d
		k++
	})
	return max(min(1, g.rows), min(n, g.rows))
}

// selectRows guesses how many rows of a group meet conditions.
func (o *optimizer) selectRows(in *group, filter []scalar.Expr) float64 {
	rows := in.rows * o.selectivity(filter, in)
	if n, ok := o.pinned(in, filter); ok {
		rows = min(rows, n)
	}
	return rows
}

// pinned bounds the rows of a scan whose unique key is equal to constants.
func (o *optimizer) pinned(in *group, filter []scalar.Expr) (float64, bool) {
	s, ok := in.expr().(*Scan)
	if !ok {
		return 0, false
	}
	for i := range s.Table.Indexes {
		ix := &s.Table.Indexes[i]
		if !(ix.Unique || ix.Primary) || ix.State != catalog.Public || ix.Predicate != "" {
			continue
		}
		n, key := 1.0, ix.Columns
		if s.Table.Worldwide(ix) {
			key = ix.UserColumns()
		}
		for _, k := range key {
			ord := s.Table.Ordinal(k.Column)
			if ord < 0 || s.Cols[ord] == 0 {
				n = 0
				break
			}
			m := 0
			for _, e := range filter {
				if c := matchEqual(e, s.Cols[ord], &in.cols); c > 0 && (m == 0 || c < m) {
					m = c
				}
			}
			if n *= float64(m); n == 0 {
				break
			}
		}
		if n > 0 {
			return n, true
		}
	}
	return 0, false
}

// matchEqual counts the values to which a condition limits a column; zero: it does not.
func matchEqual(e scalar.Expr, col ColumnID, cols *colSet) int {
	free := func(e scalar.Expr) bool { x := exprCols(e); return !x.intersects(cols) }
	switch e := e.(type) {
	case *scalar.Compare:
		if e.Op != scalar.EQ {
			return 0
		}
		if c, ok := e.Left.(*scalar.Column); ok && c.ID == col && free(e.Right) {
			return 1
		}
		if c, ok := e.Right.(*scalar.Column); ok && c.ID == col && free(e.Left) {
			return 1
		}
	case *scalar.In:
		if c, ok := e.Arg.(*scalar.Column); ok && c.ID == col && !e.Negate {
			for _, x := range e.List {
				if !free(x) {
					return 0
				}
			}
			return len(e.List)
		}
	case *scalar.Quantified:
		if c, ok := anyEqual(e); ok && c.ID == col && free(e.Array) {
			return arrayValues
		}
	}
	return 0
}

// selectivity guesses which share of a group's rows meets a conjunction.
func (o *optimizer) selectivity(filter []scalar.Expr, in *group) float64 {
	s := 1.0
	var ranges []valueRange // conditions on one column are not independent
	for _, e := range filter {
		r, ok := o.rangeOf(e, in)
		if !ok {
			s *= o.selectivityOf(e, in)
			continue
		}
		at := slices.IndexFunc(ranges, func(x valueRange) bool { return x.col == r.col })
		if at < 0 {
			ranges = append(ranges, r)
		} else {
			ranges[at].meet(r)
		}
	}
	for i := range ranges {
		s *= o.rangeShare(&ranges[i])
	}
	return max(s, minSelectivity)
}

func (o *optimizer) selectivityOf(e scalar.Expr, in *group) float64 {
	switch e := e.(type) {
	case *scalar.Const:
		if !e.Value.IsNull() && e.Value.Bool() {
			return 1
		}
		return 0
	case *scalar.Compare:
		return o.compareSelectivity(e, in)
	case *scalar.In:
		s := 0.1
		if c, ok := e.Arg.(*scalar.Column); ok && in.cols.has(c.ID) {
			if s, ok := o.listShare(c.ID, e.List); ok {
				if e.Negate {
					return max(1-s-o.nullShare(c.ID, in), 0)
				}
				return s
			}
			s = 1 / o.distinct(c.ID, in.rows)
		}
		s = min(s*float64(len(e.List)), 1)
		if e.Negate {
			return 1 - s*0.9
		}
		return s
	case *scalar.Quantified:
		if c, ok := anyEqual(e); ok && in.cols.has(c.ID) {
			return min(arrayValues/o.distinct(c.ID, in.rows), 1)
		}
	case *scalar.And:
		return o.selectivity(e.Args, in)
	case *scalar.Or:
		miss := 1.0
		for _, a := range e.Args {
			miss *= 1 - o.selectivityOf(a, in)
		}
		return 1 - miss
	case *scalar.Not:
		return max(1-o.selectivityOf(e.Arg, in), 0.05)
	case *scalar.IsNull:
		s := nullSelectivity
		if c, ok := e.Arg.(*scalar.Column); ok && in.cols.has(c.ID) {
			s = o.nullShare(c.ID, in)
		}
		if e.Negate {
			return 1 - s
		}
		return s
	case *scalar.IsBool:
		return 0.5
	case *scalar.Column:
		return 0.5
	case *scalar.Call:
		if r, ok := o.rangeOf(e, in); ok {
			return o.rangeShare(&r)
		}
		switch e.Func.Name {
		case "~~", "~~*", "~", "~*":
			return likeSelectivity
		case "!~~", "!~~*", "!~", "!~*":
			return 1 - likeSelectivity
		}
	case *scalar.Subquery:
		return 0.5
	}
	return defaultSelectivity
}

// compareSelectivity is the share of rows that a comparison lets through.
func (o *optimizer) compareSelectivity(e *scalar.Compare, in *group) float64 {
	l, lok := e.Left.(*scalar.Column)
	r, rok := e.Right.(*scalar.Column)
	lok = lok && in.cols.has(l.ID)
	rok = rok && in.cols.has(r.ID)
	switch e.Op {
	case scalar.EQ, scalar.IsNotDistinct:
		switch {
		case lok && rok:
			return 1 / max(o.distinct(l.ID, in.rows), o.distinct(r.ID, in.rows))
		case lok:
			if s, ok := o.equalShare(l.ID, e.Right); ok {
				return s
			}
			return 1 / o.distinct(l.ID, in.rows)
		case rok:
			if s, ok := o.equalShare(r.ID, e.Left); ok {
				return s
			}
			return 1 / o.distinct(r.ID, in.rows)
		}
		return 0.1
	case scalar.NE, scalar.IsDistinct:
		c, value := l, e.Right
		if !lok {
			c, value = r, e.Left
		}
		if lok != rok {
			if s, ok := o.equalShare(c.ID, value); ok {
				nulls := 0.0
				if e.Op == scalar.NE {
					nulls = o.nullShare(c.ID, in)
				}
				return max(1-s-nulls, 0)
			}
		}
		return 0.9
	}
	if r, ok := o.rangeOf(e, in); ok {
		return o.rangeShare(&r)
	}
	return rangeSelectivity
}

func (o *optimizer) nullShare(c ColumnID, in *group) float64 {
	if in.notNull.has(c) {
		return 0
	}
	m := o.meta.Column(c)
	if m.Table != nil {
		if info := o.info(m.Table); info.stats != nil && info.stats.Rows > 0 {
			if s, ok := info.stats.Columns[m.Column]; ok {
				return min(1, float64(s.NullCount)/float64(info.stats.Rows))
			}
		}
	}
	return nullSelectivity
}

// joinSelectivity guesses which share of all pairs meets a join condition.
func (o *optimizer) joinSelectivity(l, r *group, on []scalar.Expr) float64 {
	s := 1.0
	for i, e := range on {
		if a, b, ok := equalColumns(e, l, r); ok {
			if o.impliedPair(l, r, on[:i], a, b) {
				continue
			}
			s /= max(o.distinct(a, l.rows), o.distinct(b, r.rows))
			continue
		}
		switch x := e.(type) {
		case *scalar.Const:
			s *= o.selectivityOf(e, l)
		case *scalar.Compare:
			if x.Op == scalar.EQ {
				s *= 1 / max(10, min(l.rows, r.rows)*defaultDistinct)
			} else {
				s *= rangeSelectivity
			}
		default:
			s *= defaultSelectivity
		}
	}
	return s
}

// impliedPair reports whether an equality of two columns follows from others and from what holds on both sides.
func (o *optimizer) impliedPair(l, r *group, before []scalar.Expr, a, b ColumnID) bool {
	for _, e := range before {
		if x, y, ok := equalColumns(e, l, r); ok && (x != a || y != b) && o.depsOf(l).same(x, a) && o.depsOf(r).same(y, b) {
			return true
		}
	}
	return false
}

// equalColumns splits a condition "left column = right column".
func equalColumns(e scalar.Expr, l, r *group) (a, b ColumnID, ok bool) {
	c, is := e.(*scalar.Compare)
	if !is || c.Op != scalar.EQ {
		return 0, 0, false
	}
	x, xok := c.Left.(*scalar.Column)
	y, yok := c.Right.(*scalar.Column)
	if !xok || !yok {
		return 0, 0, false
	}
	switch {
	case l.cols.has(x.ID) && r.cols.has(y.ID):
		return x.ID, y.ID, true
	case l.cols.has(y.ID) && r.cols.has(x.ID):
		return y.ID, x.ID, true
	}
	return 0, 0, false
}

func (o *optimizer) joinRows(kind JoinKind, l, r *group, on []scalar.Expr) float64 {
	pairs := l.rows * r.rows * o.joinSelectivity(l, r, on)
	switch kind {
	case SemiJoin:
		return min(l.rows, max(pairs, l.rows*0.01)) * 0.9
	case AntiJoin:
		return max(l.rows-min(l.rows, pairs)*0.9, l.rows*0.05)
	case LeftJoin:
		return max(pairs, l.rows)
	case RightJoin:
		return max(pairs, r.rows)
	case FullJoin:
		return max(pairs, l.rows+r.rows)
	}
	return pairs
}

// virtualRows is the estimated number of a computed relation's rows: about those of a database with a hundred tables.
func virtualRows(t *catalog.Table) float64 {
	if t.Empty {
		return 1
	}
	switch t.Name {
	case "pg_attribute", "columns", "column_privileges", "pg_proc":
		return 3000
	case "pg_class", "tables", "table_privileges", "role_table_grants", "pg_description", "pg_depend":
		return 500
	case "pg_type", "pg_index", "pg_indexes", "pg_constraint", "pg_attrdef", "table_constraints", "key_column_usage", "constraint_column_usage":
		return 300
	}
	return defaultVirtualRows
}
