package opt

import (
	"math"
	"slices"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
)

// scan proposes ways to read a table: every index that is of use, forwards and backwards, alone if it has all columns
// that are needed, else with the rest fetched from the primary index. in is the scan's group; filter is the condition
// of the group that is searched.
func (s *search) scan(in *group, r *Scan, filter []scalar.Expr) {
	o := s.o
	a := access{s: s, in: in, scan: r, filter: filter, info: o.info(r.Table)}
	needed := s.g.needed
	needed = needed.intersect(in.cols)
	needed.addAll(&in.needed)
	used := colSet{}
	used.addExprs(filter)
	a.filterCols = used.intersect(in.cols)
	needed.addAll(&a.filterCols)
	a.setColumns(needed)
	t := r.Table
	if o.env.Naive {
		a.index(t.Primary(), constraint{filter: filter})
		return
	}
	if r.ForceIndex != 0 {
		if ix := t.Index(r.ForceIndex); ix != nil && ix.State == catalog.Public {
			a.index(ix, o.withRegions(r, &in.cols, ix, filter))
			if s.win.node != nil || len(s.req.order) > 0 {
				return
			}
		}
	}
	// Nothing is cheaper than a row by its unique key, unless it is far away and another index has a copy that is near.
	primary := o.withRegions(r, &in.cols, t.Primary(), filter)
	if primary.single && len(primary.spans) == 1 && !(len(t.Indexes) > 1 && wide(o.env.Region.distanceOf(t, t.Primary(), primary.spans).Leaseholder)) {
		a.index(t.Primary(), primary)
		return
	}
	a.index(t.Primary(), primary)
	for i := range t.Indexes[1:] {
		ix := &t.Indexes[i+1]
		if ix.State != catalog.Public || ix.Primary {
			continue
		}
		if ix.Predicate != "" {
			rest, ok := o.impliedPredicate(r, &in.cols, ix, filter)
			if !ok {
				continue
			}
			c := o.withRegions(r, &in.cols, ix, filter)
			c.filter = without(c.filter, rest)
			a.index(ix, c)
			continue
		}
		a.index(ix, o.withRegions(r, &in.cols, ix, filter))
	}
}

// access is one scan while its indexes are tried.
type access struct {
	s          *search
	in         *group
	scan       *Scan
	filter     []scalar.Expr
	info       *tableInfo
	filterCols colSet
	cols       []ColumnID // needed, in table order
	ordinals   []int
	set        colSet
}

func (a *access) setColumns(needed colSet) {
	n := needed.len()
	a.cols = make([]ColumnID, 0, n)
	a.ordinals = make([]int, 0, n)
	for i, c := range a.scan.Cols {
		if c != 0 && needed.has(c) {
			a.cols = append(a.cols, c)
			a.ordinals = append(a.ordinals, i)
		}
	}
	a.set = needed
}

// covered are the scan's columns that an index has.
func (a *access) covered(ix *catalog.Index) colSet {
	var s colSet
	add := func(id catalog.ColumnID) {
		if ord := a.scan.Table.Ordinal(id); ord >= 0 && a.scan.Cols[ord] != 0 {
			s.add(a.scan.Cols[ord])
		}
	}
	for _, c := range ix.Columns {
		add(c.Column)
	}
	for _, c := range a.scan.Table.Primary().Columns {
		add(c.Column)
	}
	for _, c := range ix.Stored {
		add(c)
	}
	return s
}

// index proposes to read one index under a constraint.
func (a *access) index(ix *catalog.Index, c constraint) {
	o, s, t := a.s.o, a.s, a.scan.Table
	covering := ix.Primary
	locking := a.scan.Locking.Strength != 0
	var have colSet
	if !covering {
		have = a.covered(ix)
		covering = a.set.within(&have) && !locking
	}
	rows := a.in.rows
	if len(c.used) > 0 {
		rows *= o.selectivity(c.used, a.in)
	}
	if c.single {
		rows = min(rows, c.most(t, ix))
	}
	rows = max(rows, min(s.g.rows, a.in.rows))
	forced := a.scan.ForceIndex == ix.ID
	if c.spans == nil && !ix.Primary && !covering && !forced && len(s.req.order) == 0 {
		return // reading everything twice
	}
	spans := max(1, c.count())
	width := a.info.width
	if !ix.Primary {
		width = 10 + 6*float64(len(ix.Columns)+len(ix.Stored))
	}
	startup, cost := o.scanCost(rows, width, spans)
	if ix.Primary && !c.single && t.SharesKeys() {
		cost += o.foreignCost(o.foreignRows(t, c.spans, rows, rows/max(a.in.rows, 1)))
	}
	keys := indexColumns(t, ix)
	order := make([]OrderColumn, 0, len(keys))
	for _, k := range keys {
		ord := t.Ordinal(k.Column)
		if ord < 0 || a.scan.Cols[ord] == 0 || !keyOrdered(t.Columns[ord].Type) {
			break
		}
		order = append(order, OrderColumn{Col: a.scan.Cols[ord], Desc: k.Desc, NullsFirst: k.Desc})
		if manyKeys(t.Columns[ord].Type) {
			break
		}
	}
	reverse := false
	if len(s.req.order) > 0 && o.matchOrder(s.g, order, s.req.order) < len(s.req.order) {
		back := flip(order)
		if o.matchOrder(s.g, back, s.req.order) > o.matchOrder(s.g, order, s.req.order) {
			order, reverse = back, true
		}
	}
	if reverse {
		cost += rows * costPass // ranges are read backwards a little slower
	}
	node := &IndexScan{Base: Base{Cols: a.cols}, Table: t, Index: ix, Ordinals: a.ordinals, Spans: o.planSpans(c.spans), Reverse: reverse,
		Filter: o.planExprs(c.filter), Single: c.single, Together: c.regions > 1, Locking: a.scan.Locking, AsOf: a.scan.AsOf}
	if c.single && c.regions > 1 && t.Worldwide(ix) {
		node.Alternatives = c.regions
	}
	node.reads, node.width = rows, width
	if s.req.limit > 0 {
		node.SoftLimit = softLimit(s.req.limit, rows, s.g.rows)
	}
	node.Est.Rows = s.g.rows
	far := o.farCost(a.scan, ix, c.spans, scanTrip(node, o.env.Region.distanceOf(t, ix, c.spans), rows, width))
	startup, cost = startup+far, cost+far
	cpu := rows*costExpr*float64(len(c.filter)) + o.subqueryCost(c.filter, rows)
	if covering && locking {
		cpu += rows * costLock
	}
	if covering && len(c.filter) > 0 && a.filtersFirst(&c, 1) {
		// Rows are filtered, locked, and filtered once more.
		for ord, id := range a.scan.Cols {
			if id != 0 && ord < len(t.Columns) {
				have.add(id)
			}
		}
		a.fetch(ix, c, node, have, rows, startup, cost, far, order)
		return
	}
	if covering {
		node.Est.Rows = rows
		if los, first, total := a.localFirst(node, &c, startup, cost, far); los != nil {
			s.offer(phys{node: los, startup: first, cost: total + cpu})
		}
		s.offer(phys{node: node, startup: startup, cost: cost + cpu, order: order})
		return
	}
	a.fetch(ix, c, node, have, rows, startup, cost, far, order)
}

// filtersFirst reports whether only the rows that a scan's conditions keep are to be locked. UPDATE and DELETE lock a row that they find by a unique key at
// once, which saves them a second read of it; the key is that of so many spans.
func (a *access) filtersFirst(c *constraint, spans int) bool {
	l := a.scan.Locking
	if !l.Returned {
		return false
	}
	one := c.single && len(c.spans) == spans
	for i := range c.spans {
		one = one && !slices.Contains(c.spans[i].Modes, SpanAny)
	}
	return l.Held || !one
}

// fetch proposes an index scan and an index join for the columns that the index does not have. Of the scan's cost, away is the way to other regions.
func (a *access) fetch(ix *catalog.Index, c constraint, node *IndexScan, have colSet, rows, startup, cost, away float64, order []OrderColumn) {
	o, s, t := a.s.o, a.s, a.scan.Table
	var early, late []scalar.Expr
	for _, e := range c.filter {
		used := exprCols(e)
		used = used.intersect(a.in.cols)
		if used.within(&have) && !hasSubquery(e) {
			early = append(early, e)
		} else {
			late = append(late, e)
		}
	}
	var keyCols []ColumnID
	var want colSet
	for _, k := range t.Primary().Columns {
		ord := t.Ordinal(k.Column)
		id := a.scan.Cols[ord]
		if id == 0 {
			return
		}
		keyCols = append(keyCols, id)
		want.add(id)
	}
	want.addExprs(early)
	node.Cols, node.Ordinals = nil, nil
	for i, id := range a.scan.Cols {
		if id != 0 && want.has(id) && have.has(id) {
			node.Cols = append(node.Cols, id)
			node.Ordinals = append(node.Ordinals, i)
		}
	}
	node.Filter = early
	lock := node.Locking
	node.Locking = Locking{}
	fetched := rows
	if len(early) > 0 {
		fetched = max(rows*o.selectivity(early, a.in), min(s.g.rows, rows))
	}
	cost += rows * costExpr * float64(len(early))
	node.Est = Estimate{Rows: fetched, Cost: cost}
	if s.req.limit > 0 {
		node.SoftLimit = softLimit(s.req.limit, rows, s.g.rows)
	}
	// Conditions that the index can't decide are tested with the row, before its lock is taken.
	unlocked := lock.Strength != 0 && t.Traits().Locks.Can() && len(late) > 0 && a.filtersFirst(&c, max(c.regions, 1))
	before := late
	if lock.Strength != 0 {
		// The row may have changed before it is locked: everything is tested again.
		late = a.filter
	}
	// A row that comes with its entry is locked as it would be by the join, so nothing may come between the two.
	direct := lock.Strength == 0 || unlocked || lock.Wait == kv.Block && len(early) == 0 && s.req.limit == 0
	// (Without leaseholders an entry's replica has no row to give with it.)
	node.Follow = direct && node.AsOf.IsZero() && node.Table.Protocol.Traits().Leased && o.follows(node)
	join := &IndexJoin{Base: Base{Cols: a.cols}, Input: node, Table: t, Ordinals: a.ordinals, KeyCols: keyCols,
		Filter: o.planExprs(late), Locking: lock, KeepOrder: true}
	var filtered *IndexJoin
	if unlocked {
		filtered = &IndexJoin{Input: node, Table: t, KeyCols: keyCols, Filter: o.planExprs(before), KeepOrder: true}
		want.addExprs(before)
		for i, id := range a.scan.Cols {
			if id != 0 && want.has(id) {
				filtered.Cols = append(filtered.Cols, id)
				filtered.Ordinals = append(filtered.Ordinals, i)
			}
		}
		join.Input = filtered
		cost += o.lookupCost(fetched, 1, a.info.width) + fetched*costExpr*float64(len(before)) + o.subqueryCost(before, fetched)
		fetched = max(fetched*o.selectivity(before, a.in), min(s.g.rows, fetched))
		filtered.Est = Estimate{Rows: fetched, Cost: cost}
	}
	if lock.Strength != 0 {
		cost += fetched * costLock
	}
	// Rows of a table that is REGIONAL BY ROW are in the regions of their entries.
	far := o.farCost(a.scan, ix, c.spans, lookupTrip(o.env.Region.distanceOf(t, t.Primary(), spansOf(t, ix, t.Primary(), c.spans)), fetched))
	if node.Follow {
		far = 0
	}
	rest := far + o.lookupCost(fetched, 1, a.info.width) + fetched*costExpr*float64(len(late)) + o.subqueryCost(late, fetched)
	total := cost + rest
	if los, first, total := a.localFirst(node, &c, startup, cost, away); los != nil {
		j := *join
		j.Input, j.KeepOrder = los, false
		if filtered != nil {
			f := *filtered
			f.Input, f.KeepOrder, j.Input = los, false, &f
		}
		s.offer(phys{node: &j, startup: first + costRequest + far*o.miss(), cost: total + rest - far*(1-o.miss())})
	}
	s.offer(phys{node: join, startup: startup + costRequest + far, cost: total, order: order})
}

// follows reports whether the rows to which a scan's entries lead are to come with them: entries and rows are in other regions, and of each key, which is known as
// a whole, there is one entry at most.
func (o *optimizer) follows(n *IndexScan) bool {
	if !n.Single || !n.Index.Unique || !wide(o.env.Region.distanceOf(n.Table, n.Index, n.Spans).Leaseholder) {
		return false
	}
	for i := range n.Spans {
		s := &n.Spans[i]
		if len(s.Equal) != len(n.Index.Columns) || slices.ContainsFunc(s.Modes, func(m SpanMode) bool { return m == SpanNull || m == SpanSame }) {
			return false
		}
	}
	entries, err := rowcode.NewIndex(n.Table, n.Index)
	if err != nil || !entries.Exact(len(n.Index.Columns)) {
		return false
	}
	rows, err := rowcode.NewIndex(n.Table, n.Table.Primary())
	return err == nil && entries.Recipe(rows) != nil
}

func softLimit(limit, read, out float64) int64 {
	if out > 0 && read > out {
		limit *= read / out
	}
	return int64(math.Min(math.Ceil(limit), 1<<30))
}

// flip is an order read backwards.
func flip(order []OrderColumn) []OrderColumn {
	out := make([]OrderColumn, len(order))
	for i, c := range order {
		out[i] = OrderColumn{Col: c.Col, Desc: !c.Desc, NullsFirst: !c.NullsFirst}
	}
	return out
}

// naturalOrders are orders in which a group's rows come without sorting.
func (o *optimizer) naturalOrders(g *group) [][]OrderColumn {
	switch r := g.expr().(type) {
	case *Scan:
		var out [][]OrderColumn
		for i := range r.Table.Indexes {
			ix := &r.Table.Indexes[i]
			if ix.State != catalog.Public || ix.Predicate != "" {
				continue
			}
			var order []OrderColumn
			for _, k := range indexColumns(r.Table, ix) {
				ord := r.Table.Ordinal(k.Column)
				if ord < 0 || r.Cols[ord] == 0 || !keyOrdered(r.Table.Columns[ord].Type) {
					break
				}
				order = append(order, OrderColumn{Col: r.Cols[ord], Desc: k.Desc, NullsFirst: k.Desc})
				if manyKeys(r.Table.Columns[ord].Type) {
					break
				}
			}
			out = append(out, order)
		}
		return out
	case *Select:
		consts := o.depsOf(g).consts
		var out [][]OrderColumn
		for _, order := range o.naturalOrders(child(r.Input)) {
			for len(order) > 0 && consts.has(order[0].Col) {
				order = order[1:]
			}
			out = append(out, order)
		}
		return out
	case *Project:
		var out [][]OrderColumn
		for _, order := range o.naturalOrders(child(r.Input)) {
			renamed := append([]OrderColumn(nil), order...)
			for i, c := range renamed {
				if g.cols.has(c.Col) {
					continue
				}
				for _, it := range r.Items {
					if x, ok := it.Expr.(*scalar.Column); ok && x.ID == c.Col {
						renamed[i].Col = it.Col
					}
				}
			}
			out = append(out, cutOrder(renamed, &g.cols))
		}
		return out
	case *Join:
		if r.Kind != FullJoin && r.Kind != RightJoin {
			return o.naturalOrders(child(r.Left))
		}
	}
	return nil
}

// virtual reads a computed relation.
func (s *search) virtual(in *group, r *VirtualScan, filter []scalar.Expr) {
	o := s.o
	needed := s.g.needed.intersect(in.cols)
	needed.addAll(&in.needed)
	var used colSet
	used.addExprs(filter)
	used = used.intersect(in.cols)
	needed.addAll(&used)
	n := &VirtualNode{Table: r.Table, Filter: o.planExprs(filter)}
	for i, c := range r.Cols {
		if c != 0 && needed.has(c) {
			n.Cols = append(n.Cols, c)
			n.Ordinals = append(n.Ordinals, i)
		}
	}
	n.Keys = virtualKeys(r, filter, &in.cols)
	rows := in.rows
	for _, k := range n.Keys {
		rows = min(rows, virtualKeyRows*float64(max(len(k.Values), 1)))
	}
	for i := range n.Keys {
		n.Keys[i].Values = o.planExprs(n.Keys[i].Values)
	}
	s.offer(phys{node: n, startup: costSeek, cost: costSeek + rows*costRow + o.subqueryCost(filter, rows)})
}

// virtualKeyRows is the estimated number of rows for one value of a column: those of a table with so many columns.
const virtualKeyRows = 10

// virtualKeys finds the conditions that let a computed relation compute only some of its rows.
func virtualKeys(r *VirtualScan, filter []scalar.Expr, cols *colSet) (keys []VirtualKey) {
	for _, id := range r.Table.Lookups {
		ord := r.Table.Ordinal(id)
		if ord < 0 || r.Cols[ord] == 0 {
			continue
		}
		v, at := bestValues(filter, r.Cols[ord], r.Table.Columns[ord].Type, cols)
		if at < 0 {
			continue
		}
		k := VirtualKey{Ordinal: ord}
		switch v.mode {
		case SpanValue:
			k.Values = v.values
		case SpanAny:
			k.Array = v.values[0]
		default:
			continue
		}
		usable := true
		for _, e := range v.values {
			usable = usable && e != nil && !hasSubquery(e)
		}
		if usable {
			keys = append(keys, k)
		}
	}
	return keys
}

// impliedPredicate reports whether a conjunction implies a partial index's condition: every part of it is among the
// conditions. Those need not be tested again.
func (o *optimizer) impliedPredicate(s *Scan, cols *colSet, ix *catalog.Index, filter []scalar.Expr) ([]scalar.Expr, bool) {
	if o.env.Predicate == nil {
		return nil, false
	}
	p, err := o.env.Predicate(s.Table, ix)
	if err != nil || p == nil {
		return nil, false
	}
	p = scalar.ReplaceColumns(p, func(c *scalar.Column) scalar.Expr {
		ord := int(c.ID) - 1
		if ord < 0 || ord >= len(s.Cols) || s.Cols[ord] == 0 {
			return nil
		}
		return &scalar.Column{ID: s.Cols[ord], T: c.T, Name: c.Name}
	})
	conds, _ := foldConditions([]scalar.Expr{p})
	var implied []scalar.Expr
	for _, e := range conds {
		if contains(filter, e) {
			implied = append(implied, e)
			continue
		}
		if n, ok := e.(*scalar.IsNull); ok && n.Negate {
			if c, ok := n.Arg.(*scalar.Column); ok {
				found := false
				for _, f := range filter {
					rej := rejectedNulls(f)
					found = found || rej.has(c.ID)
				}
				if found {
					continue
				}
			}
		}
		return nil, false
	}
	return implied, true
}

// without is a list without some of its elements.
func without(list, remove []scalar.Expr) []scalar.Expr {
	var out []scalar.Expr
	for _, e := range list {
		if !contains(remove, e) {
			out = append(out, e)
		}
	}
	return out
}
