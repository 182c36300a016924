package opt

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Tables that are interleaved in one another are joined while one scan reads all of them, if each is joined with the one above by the whole key of that
// (docs/decisions/0015-interleaved-tables.md). The span is one of the upper table's key, so it has whole directories: a plan that wants a few rows of a large one looks these up, which is a matter of cost.

// costFilter is the cost of finding out whose row it is that was read.
const costFilter = 0.05

// chained is a table of an interleaved join while it is planned.
type chained struct {
	g, base *group // base is the scan below the conditions on the table alone
	scan    *Scan
	kind    JoinKind
	// own are the conditions on the table alone, and on those of the join, apart from the keys.
	own, on []scalar.Expr
}

// interleaved proposes to join tables of one hierarchy by one scan.
func (s *search) interleaved(r *Join) {
	l, rt := child(r.Left), child(r.Right)
	propose := func(kind JoinKind, upper, lower *group) {
		if c := s.o.chain(kind, upper, lower, r.On); c != nil {
			s.offerChain(c)
		}
	}
	switch r.Kind {
	case InnerJoin:
		propose(InnerJoin, l, rt)
		propose(InnerJoin, rt, l)
	case LeftJoin, SemiJoin, AntiJoin:
		propose(r.Kind, l, rt)
	case RightJoin:
		propose(LeftJoin, rt, l)
	}
}

// link is a group as a table of an interleaved join: a scan without locks of a table that shares its keys with others, perhaps with conditions.
func link(g *group) (c chained, ok bool) {
	c = chained{g: g, base: g, kind: InnerJoin}
	if sel, is := g.expr().(*Select); is {
		c.own, c.base = sel.Filter, child(sel.Input)
	}
	if c.scan, ok = c.base.expr().(*Scan); !ok {
		return c, false
	}
	t := c.scan.Table
	if t.Kind != catalog.KindTable || !t.InHierarchy() || c.scan.Locking != (Locking{}) || c.scan.AsOf != (Scan{}).AsOf || anyVolatile(c.own) {
		return c, false
	}
	return c, c.scan.ForceIndex == 0 || c.scan.ForceIndex == t.Primary().ID
}

// chain appends a table to those of a group that one scan can join; nil: it is not to be joined with the last of them by the key of that.
func (o *optimizer) chain(kind JoinKind, upper, lower *group, on []scalar.Expr) []chained {
	last, ok := link(lower)
	if !ok || last.scan.Table.Interleave == nil || anyVolatile(on) || lower.outer.intersects(&upper.cols) {
		return nil
	}
	last.kind = kind
	if first, ok := link(upper); ok {
		return o.below([]chained{first}, upper, last, on)
	}
	for _, e := range upper.exprs {
		j, ok := e.(*Join)
		if !ok || j.Kind != InnerJoin && j.Kind != LeftJoin {
			continue
		}
		l, r := child(j.Left), child(j.Right)
		c := o.chain(j.Kind, l, r, j.On)
		if c == nil && j.Kind == InnerJoin {
			c = o.chain(j.Kind, r, l, j.On)
		}
		if c == nil {
			continue
		}
		if c = o.below(c, upper, last, on); c != nil {
			return c
		}
	}
	return nil
}

// below appends a table to others, if the condition of the join has it be interleaved in the last of them.
func (o *optimizer) below(c []chained, upper *group, last chained, on []scalar.Expr) []chained {
	parent, table := &c[len(c)-1], last.scan.Table
	p := parent.scan.Table
	ancestor := func(a catalog.Ancestor) bool { return a.Table == p.ID && a.Index == p.Primary().ID }
	if !slices.ContainsFunc(table.Interleave.Ancestors, ancestor) {
		return nil
	}
	rest := slices.Clone(on)
	for i, k := range p.Primary().Columns {
		x, y := parent.column(k.Column), last.column(table.Primary().Columns[i].Column)
		if x == 0 || y == 0 || !keyed(o.meta.Column(x).Type, o.meta.Column(y).Type) {
			return nil
		}
		above, below := o.depsOf(upper), o.depsOf(last.g)
		found := false
		for _, e := range on {
			a, b, ok := equalColumns(e, upper, last.g)
			if !ok || !above.same(a, x) || !below.same(b, y) || !keyed(o.meta.Column(a).Type, o.meta.Column(x).Type) || !keyed(o.meta.Column(b).Type, o.meta.Column(y).Type) {
				continue
			}
			found = true
			rest = slices.DeleteFunc(rest, func(r scalar.Expr) bool { return r == e })
		}
		if !found && !o.sameConstant(upper, x, last.g, y) {
			return nil
		}
	}
	last.on = rest
	return append(c[:len(c):len(c)], last)
}

// column is the column of the join that a column of the table is; zero: the query does not have it.
func (c *chained) column(id catalog.ColumnID) ColumnID {
	if ord := c.scan.Table.Ordinal(id); ord >= 0 {
		return c.scan.Cols[ord]
	}
	return 0
}

// keyed reports whether columns of two types are equal where their keys are.
func keyed(a, b *types.T) bool {
	return a.Kind == b.Kind && sameValues(a, b) && keySafe(a) && a.Kind != types.KindInterval && a.Kind != types.KindBPChar
}

// sameConstant reports whether two columns are equal because each is equal to the same constant or parameter.
func (o *optimizer) sameConstant(l *group, a ColumnID, r *group, b ColumnID) bool {
	x, y := o.valuesOf(l, a, 0), o.valuesOf(r, b, 0)
	if x == nil || y == nil {
		return false
	}
	if c, ok := x.(*scalar.Compare); !ok || c.Op != scalar.EQ {
		return false
	}
	return scalar.Equal(renameColumns(x, []ColumnID{a}, []ColumnID{b}), y)
}

// offerChain proposes a join of tables by one scan.
func (s *search) offerChain(tables []chained) {
	o, g := s.o, s.g
	top := &tables[0]
	t, ix := top.scan.Table, top.scan.Table.Primary()
	// The conditions on the key of the first table are those on its columns, and on the columns of tables below that are equal to them, if a row without one of those does not leave.
	plain := func(es []scalar.Expr) (out []scalar.Expr) {
		for _, e := range es {
			if !hasSubquery(e) {
				out = append(out, e)
			}
		}
		return out
	}
	conds := plain(top.own)
	inner := true
	carried := make([]map[scalar.Expr]scalar.Expr, len(tables)) // conditions on the key, by those of the tables
	for i := 1; i < len(tables); i++ {
		c := &tables[i]
		inner = inner && (c.kind == InnerJoin || c.kind == SemiJoin)
		carried[i] = make(map[scalar.Expr]scalar.Expr)
		var key colSet
		var from, to []ColumnID
		for j, k := range ix.Columns {
			x, y := top.column(k.Column), c.column(c.scan.Table.Primary().Columns[j].Column)
			key.add(y)
			from, to = append(from, y), append(to, x)
		}
		for _, e := range plain(c.own) {
			used := exprCols(e)
			if used = used.intersect(c.g.cols); used.empty() || !used.within(&key) {
				continue
			}
			e2 := renameColumns(e, from, to)
			carried[i][e] = e2
			if inner && !contains(conds, e2) {
				conds = append(conds, e2)
			}
		}
	}
	con := o.withRegions(top.scan, &top.base.cols, ix, conds)
	expressed := func(e scalar.Expr) bool { return contains(conds, e) && !contains(con.filter, e) }

	rows := top.base.rows
	if len(con.used) > 0 {
		rows *= o.selectivity(con.used, top.base)
	}
	if con.single {
		rows = min(rows, con.most(t, ix))
	}
	share := min(rows/max(top.base.rows, 1), 1)
	spans := max(1, con.count())
	n := &InterleavedJoin{Spans: o.planSpans(con.spans)}
	cpu, bytes := 0.0, 0.0
	var order []OrderColumn
	complete := true
	var others []catalog.ID
	for i := range tables {
		c := &tables[i]
		info := o.info(c.scan.Table)
		reads := rows
		if i > 0 {
			reads = info.rows * share
		}
		out := InterleavedTable{Table: c.scan.Table, Kind: c.kind}
		var tests []scalar.Expr
		for _, e := range c.own {
			e2 := carried[i][e]
			if i == 0 {
				e2 = e
			}
			// A row below one of a table that has met the condition meets it too.
			if e2 != nil && (expressed(e2) || i > 0 && contains(top.own, e2)) {
				continue
			}
			tests = append(tests, e)
		}
		tests = append(tests, c.on...)
		needed := c.g.needed.intersect(c.base.cols)
		needed.addAll(&c.base.needed)
		for _, e := range tests {
			needed.addExpr(e)
		}
		for _, later := range tables[i+1:] {
			needed.addExprs(later.on)
		}
		a := access{s: s, in: c.base, scan: c.scan}
		a.setColumns(needed.intersect(c.base.cols))
		out.Cols, out.Ordinals, out.On = a.cols, a.ordinals, o.planExprs(tests)
		n.Tables = append(n.Tables, out)
		if c.kind != SemiJoin && c.kind != AntiJoin {
			n.Cols = append(n.Cols, a.cols...)
		}
		cpu += reads*(costRow+info.width*costByte+costFilter+costExpr*float64(len(tests))) + o.subqueryCost(tests, reads)
		bytes += reads * info.width
		n.reads += reads
		from := 0
		if i > 0 {
			from = len(tables[i-1].scan.Table.Primary().Columns)
		}
		for _, k := range c.scan.Table.Primary().Columns[from:] {
			id := c.column(k.Column)
			if complete = complete && id != 0 && c.kind != SemiJoin && c.kind != AntiJoin; complete {
				order = append(order, OrderColumn{Col: id, Desc: k.Desc, NullsFirst: k.Desc})
			}
		}
		others = append(others, c.scan.Table.Interleaved...)
	}
	others = slices.DeleteFunc(others, func(id catalog.ID) bool {
		return slices.ContainsFunc(tables, func(c chained) bool { return c.scan.Table.ID == id })
	})
	// Rows by their keys need not be read with all that is below them: others write there.
	if siblings := siblingsOf(t, tables[1].scan.Table); con.single && len(siblings) > 0 && n.reads < eagerScanRows && s.req.limit == 0 {
		n.Narrow = true
		cpu += spans * costSeek
		others = slices.DeleteFunc(others, func(id catalog.ID) bool { return slices.Contains(siblings, id) })
	}
	for _, id := range others { // each is dropped as soon as it has come
		cpu += o.foreignCost(o.rowsOf(id) * share)
	}
	n.width = bytes / max(n.reads, 1)
	n.Together = (con.count() > 1 || n.Narrow) && n.reads < eagerScanRows && s.req.limit == 0
	if s.req.limit > 0 {
		n.SoftLimit = softLimit(s.req.limit, n.reads, g.rows)
	}
	startup := costRequest + costSeek*spans
	startup += o.farCost(top.scan, ix, con.spans, scanTrip(n.scan(), o.env.Region.distanceOf(t, ix, con.spans), n.reads, n.width))
	s.offer(phys{node: n, startup: startup, cost: startup + cpu + g.rows*costPass + costStart, order: order})
}

// siblingsOf are the tables that are interleaved in a table, without the one in which another is, or which it is.
func siblingsOf(t, below *catalog.Table) (out []catalog.ID) {
	next := below.ID
	for i, a := range below.Interleave.Ancestors[:len(below.Interleave.Ancestors)-1] {
		if a.Table == t.ID {
			next = below.Interleave.Ancestors[i+1].Table
		}
	}
	for _, id := range t.Interleaved {
		if id != next {
			out = append(out, id)
		}
	}
	return out
}

// rowsOf is the number of a table's rows, of which nothing else is known.
func (o *optimizer) rowsOf(id catalog.ID) float64 {
	if o.env.Statistics != nil {
		if st := o.env.Statistics(id); st != nil {
			return float64(st.Rows)
		}
	}
	return defaultRows
}

// foreignWidth is a guess of the bytes of a row of a table of which nothing is known.
const foreignWidth = 50

// foreignCost is the cost of rows that a scan reads and has no use for.
func (o *optimizer) foreignCost(rows float64) float64 {
	return rows * (costFilter + foreignWidth*costByte)
}

// foreignRows is how many rows of other tables a scan of rows of a table meets, as far as the statement's tables name them: those directly below it; and unless its spans have none of them,
// those above it, and what else is below these. share is the scan's part of the table. Of what is below a row a scan reads a page at most (txn.TX15).
func (o *optimizer) foreignRows(t *catalog.Table, spans []IndexSpan, rows, share float64) (n float64) {
	below := func(ids []catalog.ID, but catalog.ID, rows float64) {
		all := 0.0
		for _, id := range ids {
			if id != but {
				all += o.rowsOf(id) * share
			}
		}
		n += min(all, (rows+1)*scanPageBytes/foreignWidth)
	}
	below(t.Interleaved, 0, rows)
	if t.Interleave == nil {
		return n
	}
	as := t.Interleave.Ancestors
	for i, a := range as {
		if spans != nil && !slices.ContainsFunc(spans, func(s IndexSpan) bool { return len(s.Equal) < a.Columns }) {
			continue
		}
		above := o.rowsOf(a.Table) * share
		n += above
		next := t.ID
		if i+1 < len(as) {
			next = as[i+1].Table
		}
		for _, info := range o.tables {
			if info.table.ID == a.Table {
				below(info.table.Interleaved, next, above)
				break
			}
		}
	}
	return n
}
