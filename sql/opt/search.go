package opt

import (
	"math"
	"slices"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// phys is a physical plan for a group, with its cost. startup is the part of the cost that is due before the first row;
// a consumer that takes a part of the rows pays that part of the rest.
type phys struct {
	node          Node
	startup, cost float64
	order         []OrderColumn // in which the rows come
}

// fraction is the cost of taking some of the rows.
func (p *phys) fraction(limit, rows float64) float64 {
	if limit <= 0 || limit >= rows || rows <= 0 {
		return p.cost
	}
	return p.startup + (p.cost-p.startup)*limit/rows
}

// best is the cheapest plan for a group that has the required properties. It remembers the answer.
func (o *optimizer) best(g *group, req required) phys {
	o.charge(0)
	req.order = o.simplifyOrder(g, req.order)
	if req.limit >= g.rows {
		req.limit = 0
	}
	for i := range g.winners {
		w := &g.winners[i]
		if w.req.limit == req.limit && sameOrder(w.req.order, req.order) {
			return w.phys
		}
	}
	s := search{o: o, g: g, req: req}
	for _, e := range g.exprs {
		s.implement(e)
	}
	if _, locks := g.expr().(*lockRows); len(req.order) > 0 && !(locks && s.win.node != nil) {
		s.enforce()
	}
	if s.win.node == nil {
		panic(sqlstate.New(sqlstate.InternalError, "opt: no plan for %T", g.expr()))
	}
	g.winners = append(g.winners, winner{req, s.win})
	return s.win
}

// search is the search for one group and its required properties.
type search struct {
	o   *optimizer
	g   *group
	req required
	win phys
}

// offer proposes a plan; it must have the group's rows, in any order.
func (s *search) offer(p phys) {
	if len(s.req.order) > 0 && s.o.matchOrder(s.g, p.order, s.req.order) < len(s.req.order) {
		return
	}
	if f := s.o.env.Perturb; f != nil {
		p.cost = f(p.cost)
		p.startup = min(p.startup, p.cost)
	}
	if s.win.node == nil || p.fraction(s.req.limit, s.g.rows) < s.win.fraction(s.req.limit, s.g.rows) {
		est := p.node.Estimate()
		est.Rows, est.Cost = s.g.rows, p.cost
		s.win = p
	}
}

// enforce proposes to sort the cheapest unordered plan, and one that has the beginning of the order already.
func (s *search) enforce() {
	o, g := s.o, s.g
	in := o.best(g, required{})
	s.sorted(in)
	if len(s.req.order) > 1 {
		pre := o.best(g, required{order: s.req.order[:1], limit: s.req.limit})
		if _, sorted := pre.node.(*SortNode); !sorted {
			s.sorted(pre)
		}
	}
}

func (s *search) sorted(in phys) {
	o, g := s.o, s.g
	prefix := o.matchOrder(g, in.order, s.req.order)
	n := &SortNode{Base: Base{Cols: in.node.Columns()}, Input: in.node, By: s.req.order, Prefix: prefix}
	p := phys{node: n, order: s.req.order}
	if prefix > 0 {
		runs := max(1, min(g.rows, o.distinctRows(g, orderCols(s.req.order[:prefix]))))
		p.cost = in.cost + runs*sortCost(g.rows/runs)
		p.startup = in.startup + (p.cost-in.startup)/runs
	} else {
		rows := g.rows
		cmp := sortCost(rows) + 1
		if s.req.limit > 0 && s.req.limit < rows {
			cmp = rows*costPass + rows*math.Log2(s.req.limit+2)*costCompare
		}
		p.cost = in.cost + cmp + costStart
		p.startup = p.cost
	}
	s.offer(p)
}

func orderCols(order []OrderColumn) colSet {
	var s colSet
	for _, c := range order {
		s.add(c.Col)
	}
	return s
}

func sameOrder(a, b []OrderColumn) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// simplifyOrder drops from a required order the columns without effect: those that are constant or determined by those
// before them, and everything once a key is reached.
func (o *optimizer) simplifyOrder(g *group, order []OrderColumn) []OrderColumn {
	if len(order) == 0 {
		return nil
	}
	d := o.depsOf(g)
	if o.oneRow(g) {
		return nil
	}
	seen := d.closure(colSet{})
	for i, c := range order {
		if seen.has(c.Col) || d.determines(seen) {
			out := append([]OrderColumn(nil), order[:i]...)
			for _, c := range order[i:] {
				if d.determines(seen) {
					break
				}
				if !seen.has(c.Col) {
					out = append(out, c)
					seen.add(c.Col)
					seen = d.closure(seen)
				}
			}
			return out
		}
		seen.add(c.Col)
		seen = d.closure(seen)
	}
	return order
}

// matchOrder is how many leading columns of a required order rows in a provided order have.
func (o *optimizer) matchOrder(g *group, provided, want []OrderColumn) int {
	if len(want) == 0 {
		return 0
	}
	d := o.depsOf(g)
	if o.oneRow(g) {
		return len(want)
	}
	seen := d.closure(colSet{})
	at := 0
	for i, w := range want {
		if seen.has(w.Col) {
			continue
		}
		for at < len(provided) && seen.has(provided[at].Col) {
			at++
		}
		if at == len(provided) {
			if d.determines(seen) {
				return len(want)
			}
			return i
		}
		p := provided[at]
		if !d.same(p.Col, w.Col) || p.Desc != w.Desc ||
			p.NullsFirst != w.NullsFirst && !g.notNull.has(w.Col) && !g.notNull.has(p.Col) {
			if d.determines(seen) {
				return len(want)
			}
			return i
		}
		at++
		seen.add(w.Col)
		seen.add(p.Col)
		seen = d.closure(seen)
	}
	return len(want)
}

// implement proposes plans for one logical expression.
func (s *search) implement(e Rel) {
	o, g := s.o, s.g
	switch r := e.(type) {
	case *Scan:
		s.scan(g, r, nil)
	case *VirtualScan:
		s.virtual(g, r, nil)
	case *Values:
		n := &ValuesNode{Base: Base{Cols: r.Cols}, Rows: make([][]scalar.Expr, len(r.Rows))}
		for i, row := range r.Rows {
			n.Rows[i] = o.planExprs(row)
		}
		s.offer(phys{node: n, cost: costStart + g.rows*costPass})
	case *Select:
		in := child(r.Input)
		switch t := in.expr().(type) {
		case *Scan:
			s.scan(in, t, r.Filter)
			return
		case *VirtualScan:
			s.virtual(in, t, r.Filter)
			return
		}
		limit := 0.0
		if s.req.limit > 0 {
			limit = s.req.limit * in.rows / max(g.rows, 1)
		}
		p := o.best(in, required{order: s.req.order, limit: limit})
		n := &FilterNode{Base: Base{Cols: p.node.Columns()}, Input: p.node, Filter: o.planExprs(r.Filter)}
		cpu := in.rows*(costPass+costExpr*float64(len(r.Filter))) + o.subqueryCost(r.Filter, in.rows)
		s.offer(phys{node: n, startup: p.startup, cost: p.cost + cpu + costStart, order: p.order})
	case *Project:
		s.project(r)
	case *ProjectSet:
		in := child(r.Input)
		p := o.best(in, required{order: cutOrder(s.req.order, &in.cols)})
		n := &ProjectSetNode{Base: Base{Cols: append([]ColumnID(nil), p.node.Columns()...)}, Input: p.node}
		for _, f := range r.Funcs {
			f.Args = o.planExprs(f.Args)
			n.Funcs = append(n.Funcs, f)
			n.Cols = append(n.Cols, f.Cols...)
			if f.Ordinality != 0 {
				n.Cols = append(n.Cols, f.Ordinality)
			}
		}
		s.offer(phys{node: n, startup: p.startup, cost: p.cost + g.rows*costPass + costStart, order: p.order})
	case *Join:
		s.join(r)
	case *orderedGroup:
		s.group(r)
	case *orderedWindow:
		s.window(r)
	case *Distinct:
		s.distinct(r)
	case *SetOp:
		s.setOp(r)
	case *orderedLimit:
		s.limit(r)
	case *lockRows:
		s.lock(r)
	case *orderedWith:
		s.with(r)
	case *WithScan:
		n := &WithScanNode{Base: Base{Cols: r.Cols}, ID: r.ID, Name: r.Name}
		s.offer(phys{node: n, cost: costStart + g.rows*costPass})
	case *mutation:
		s.mutation(r)
	default:
		panic(sqlstate.New(sqlstate.InternalError, "opt: no implementation of %T", e))
	}
}

// cutOrder is the part of an order before the first column that is not in the set.
func cutOrder(order []OrderColumn, cols *colSet) []OrderColumn {
	for i := range order {
		if !cols.has(order[i].Col) {
			return order[:i]
		}
	}
	return order
}

func (s *search) project(r *Project) {
	o, g := s.o, s.g
	in := child(r.Input)
	// An order by a column that is only renamed is one by the column below.
	want := s.req.order
	for i, c := range want {
		it := itemOf(r.Items, c.Col)
		if it == nil {
			continue
		}
		x, ok := it.Expr.(*scalar.Column)
		if !ok || !in.cols.has(x.ID) {
			want = want[:i]
			break
		}
		want = append([]OrderColumn(nil), want...)
		want[i].Col = x.ID
	}
	if len(want) < len(s.req.order) {
		want = nil
	}
	p := o.best(in, required{order: want, limit: s.req.limit})
	n := &ProjectNode{Input: p.node}
	n.Cols = make([]ColumnID, 0, len(r.Items)+len(r.Pass))
	n.Exprs = make([]scalar.Expr, 0, cap(n.Cols))
	for _, c := range r.Pass {
		if !g.needed.has(c) {
			continue
		}
		n.Cols = append(n.Cols, c)
		n.Exprs = append(n.Exprs, o.columnExpr(c))
	}
	cpu := g.rows * costPass
	computed := false
	for i := range r.Items {
		it := &r.Items[i]
		if !o.wanted(g, it.Col) && !isVolatile(it.Expr) {
			continue
		}
		n.Cols = append(n.Cols, it.Col)
		n.Exprs = append(n.Exprs, o.planExpr(it.Expr))
		cpu += g.rows*costExpr + o.subqueryCost1(it.Expr, g.rows)
		computed = true
	}
	if !computed && !o.env.Naive {
		s.offer(p) // rows may have more columns than are needed
		return
	}
	order := p.order
	for i, c := range order {
		if g.cols.has(c.Col) {
			continue
		}
		renamed := false
		for _, it := range r.Items {
			if x, ok := it.Expr.(*scalar.Column); ok && x.ID == c.Col {
				order = append([]OrderColumn(nil), order...)
				order[i].Col = it.Col
				renamed = true
				break
			}
		}
		if !renamed && !o.depsOf(in).consts.has(c.Col) {
			order = order[:i]
			break
		}
	}
	s.offer(phys{node: n, startup: p.startup, cost: p.cost + cpu + costStart, order: order})
}

func (o *optimizer) columnExpr(c ColumnID) scalar.Expr {
	m := o.meta.Column(c)
	return &scalar.Column{ID: c, T: m.Type, Name: m.Name}
}

func (s *search) group(r *orderedGroup) {
	o, g := s.o, s.g
	in := child(r.Input)
	n := GroupNode{Group: r.Group, Scalar: r.Scalar}
	n.Cols = append(n.Cols, r.Group...)
	cpu := 0.0
	for _, a := range r.Aggs {
		if !o.wanted(g, a.Col) && !isVolatile(a.Agg) {
			continue
		}
		n.Cols = append(n.Cols, a.Col)
		if hasSubquery(a.Agg) {
			a.Agg = o.planExpr(a.Agg).(*scalar.AggFunc)
		}
		cpu += costExpr * 2
		n.Aggs = append(n.Aggs, a)
	}
	if len(r.Group) == 0 {
		p := o.best(in, required{order: r.order})
		h := n
		h.Input = p.node
		cost := p.cost + in.rows*(costPass+cpu) + costStart
		s.offer(phys{node: &h, startup: cost, cost: cost})
		return
	}
	p := o.best(in, required{order: r.order})
	h := n
	h.Input = p.node
	cost := p.cost + in.rows*(costHash+cpu) + g.rows*costPass + costStart
	s.offer(phys{node: &h, startup: cost, cost: cost})
	if len(r.order) > 0 || o.env.Naive {
		return
	}
	if set := setOf(r.Group); set.within(&o.depsOf(in).consts) { // one group
		st := n
		st.Input, st.Streaming = p.node, true
		cost := p.cost + in.rows*(costPass+cpu) + costStart
		s.offer(phys{node: &st, startup: cost, cost: cost})
		return
	}
	// Streaming: the input in an order in which groups are neighbours.
	for _, order := range o.groupOrders(s.req.order, r.Group, in) {
		p := o.best(in, required{order: order})
		st := n
		st.Input, st.Streaming = p.node, true
		cost := p.cost + in.rows*(costPass+cpu+costCompare) + costStart
		s.offer(phys{node: &st, startup: p.startup, cost: cost, order: p.order})
	}
}

// groupOrders are orders of an input in which rows of equal columns are neighbours: the required one, as far as
// possible, and those that the input has anyway.
func (o *optimizer) groupOrders(want []OrderColumn, cols []ColumnID, in *group) [][]OrderColumn {
	set := setOf(cols)
	complete := func(start []OrderColumn) []OrderColumn {
		order := append([]OrderColumn(nil), cutOrder(start, &set)...)
		have := orderCols(order)
		for _, c := range cols {
			if !have.has(c) {
				order = append(order, OrderColumn{Col: c})
			}
		}
		return order
	}
	var out [][]OrderColumn
	if len(want) > 0 {
		out = append(out, complete(want))
	}
	for _, natural := range o.naturalOrders(in) {
		if len(natural) > 0 && set.has(natural[0].Col) {
			out = append(out, complete(natural))
			if len(out) > 3 {
				break
			}
		}
	}
	return out
}

func (s *search) window(r *orderedWindow) {
	o, g := s.o, s.g
	in := child(r.Input)
	p := o.best(in, required{order: cutOrder(r.order, &in.cols)})
	n := &WindowNode{Input: p.node, Items: make([]WindowItem, 0, len(r.Items))}
	n.Cols = append(n.Cols, p.node.Columns()...)
	for _, it := range r.Items {
		if !o.wanted(g, it.Col) {
			continue
		}
		it.Args = o.planExprs(it.Args)
		if it.Agg != nil && hasSubquery(it.Agg) {
			it.Agg = o.planExpr(it.Agg).(*scalar.AggFunc)
		}
		if it.Frame != nil {
			f := *it.Frame
			f.StartOffset, f.EndOffset = o.planExpr(f.StartOffset), o.planExpr(f.EndOffset)
			it.Frame = &f
		}
		n.Items = append(n.Items, it)
		n.Cols = append(n.Cols, it.Col)
	}
	if len(n.Items) == 0 {
		s.offer(p)
		return
	}
	cost := p.cost + float64(len(n.Items))*(sortCost(in.rows)+in.rows*costPass) + costStart
	// Rows leave in the order of the last function.
	last := &n.Items[len(n.Items)-1]
	order := make([]OrderColumn, 0, len(last.PartitionBy)+len(last.OrderBy))
	for _, c := range last.PartitionBy {
		order = append(order, OrderColumn{Col: c})
	}
	order = append(order, last.OrderBy...)
	if len(order) == 0 && len(n.Items) == 1 {
		order = p.order
	}
	s.offer(phys{node: n, startup: cost, cost: cost, order: order})
}

func (s *search) distinct(r *Distinct) {
	o, g := s.o, s.g
	in := child(r.Input)
	if len(r.On) == 0 { // all columns are constants
		p := o.best(in, required{order: r.OrderBy, limit: 1})
		n := &LimitNode{Base: Base{Cols: p.node.Columns()}, Input: p.node, Count: intConst(1)}
		s.offer(phys{node: n, startup: p.startup, cost: p.fraction(1, in.rows) + costStart})
		return
	}
	p := o.best(in, required{order: r.OrderBy})
	n := &DistinctNode{Base: Base{Cols: p.node.Columns()}, Input: p.node, On: r.On}
	s.offer(phys{node: n, startup: p.startup, cost: p.cost + in.rows*costHash + costStart, order: p.order})
	if o.env.Naive {
		return
	}
	var orders [][]OrderColumn
	if len(r.OrderBy) > 0 {
		on := setOf(r.On)
		if c := orderCols(cutOrder(r.OrderBy, &on)); on.within(&c) {
			orders = append(orders, r.OrderBy)
		}
	} else {
		orders = o.groupOrders(s.req.order, r.On, in)
	}
	for _, order := range orders {
		limit := 0.0
		if s.req.limit > 0 {
			limit = s.req.limit * in.rows / max(g.rows, 1)
		}
		p := o.best(in, required{order: order, limit: limit})
		st := &DistinctNode{Base: Base{Cols: p.node.Columns()}, Input: p.node, On: r.On, Streaming: true}
		s.offer(phys{node: st, startup: p.startup, cost: p.cost + in.rows*(costPass+costCompare) + costStart, order: p.order})
	}
}

func (s *search) setOp(r *SetOp) {
	o, g := s.o, s.g
	l, rt := child(r.Left), child(r.Right)
	a, b := o.best(l, required{}), o.best(rt, required{})
	n := &SetOpNode{Base: Base{Cols: r.Out}, Kind: r.Kind, All: r.All, Left: a.node, Right: b.node, LeftCols: r.LeftCols, RightCols: r.RightCols}
	if o.narrows(r) {
		n.Cols, n.LeftCols, n.RightCols = nil, nil, nil
		for i, c := range r.Out {
			if g.needed.has(c) {
				n.Cols = append(n.Cols, c)
				n.LeftCols = append(n.LeftCols, r.LeftCols[i])
				n.RightCols = append(n.RightCols, r.RightCols[i])
			}
		}
	}
	p := phys{node: n, cost: a.cost + b.cost + (l.rows+rt.rows)*costPass + costStart}
	switch {
	case r.Kind == Union:
		p.startup = min(a.startup, b.startup)
		if !r.All {
			p.cost += (l.rows + rt.rows) * costHash
		}
	default:
		p.cost += rt.rows*costHash + l.rows*costProbe
		p.startup = b.cost + rt.rows*costHash + a.startup
	}
	s.offer(p)
}

func (s *search) limit(r *orderedLimit) {
	o, g := s.o, s.g
	in := child(r.Input)
	order := cutOrder(r.order, &in.cols)
	want := in.rows
	count, known := constInt(r.Count)
	offset, offsetKnown := constInt(r.Offset)
	offsetKnown = offsetKnown || r.Offset == nil
	if r.Count != nil {
		if !known {
			count = defaultLimit
		}
		want = float64(count + offset)
		if want < 1 {
			want = 1
		}
	}
	// An order that is required of the limit's rows, but not by the limit itself, is met by sorting them afterwards.
	if len(order) == 0 {
		order = s.req.order
		if r.Count != nil || r.Offset != nil {
			order = nil
		}
	}
	if l, ok := in.expr().(*lockRows); ok && l.inner {
		order = nil // it sorts before it locks
	}
	p := o.best(in, required{order: order, limit: want})
	if r.Count != nil {
		top := o.planExpr(r.Count)
		if r.Offset != nil {
			top = o.plus(top, o.planExpr(r.Offset))
		}
		hard := int64(0)
		if known && offsetKnown {
			hard = count + offset
		}
		p.node = bounded(p.node, top, hard)
	}
	cost := p.fraction(want, in.rows) + g.rows*costPass
	if known && offsetKnown && count+offset > 0 && (len(order) == 0 || o.oneRow(in)) {
		if n, saved := o.limitedSearch(p.node, count+offset); saved > 0 {
			out := n
			if r.Offset != nil || !cutsItself(n) {
				out = &LimitNode{Base: Base{Cols: n.Columns()}, Input: n, Count: o.planExpr(r.Count), Offset: o.planExpr(r.Offset)}
			}
			s.offer(phys{node: out, startup: max(p.startup-saved, 0), cost: max(cost-saved, 0)})
		}
	}
	if known && r.Offset == nil && count > 0 && cutsItself(p.node) {
		est := p.node.Estimate()
		est.Rows, est.Cost = g.rows, cost
		s.offer(phys{node: p.node, startup: p.startup, cost: cost, order: p.order})
		return
	}
	n := &LimitNode{Base: Base{Cols: p.node.Columns()}, Input: p.node, Count: o.planExpr(r.Count), Offset: o.planExpr(r.Offset)}
	s.offer(phys{node: n, startup: p.startup, cost: cost + costStart, order: p.order})
}

func (s *search) with(r *orderedWith) {
	o := s.o
	b := o.best(child(r.Binding), required{order: cutOrder(r.order, &child(r.Binding).cols)})
	n := &WithNode{ID: r.ID, Name: r.Name, Binding: b.node, BindCols: r.Cols, RecursiveCols: r.RecursiveCols, RecursiveAll: r.RecursiveAll}
	cost := b.cost + child(r.Binding).rows*costPass
	if r.Recursive != nil {
		p := o.best(child(r.Recursive), required{})
		n.Recursive = p.node
		cost += 10 * p.cost
	}
	p := o.best(child(r.Main), s.req)
	n.Main = p.node
	n.Cols = p.node.Columns()
	s.offer(phys{node: n, startup: cost + p.startup, cost: cost + p.cost + costStart, order: p.order})
}

func (s *search) mutation(m *mutation) {
	o, g := s.o, s.g
	p := o.best(m.input, required{order: cutOrder(m.order, &m.input.cols)})
	base := Base{}
	items := returning(m.stmt)
	planned := items
	if len(items) > 0 {
		planned = make([]ProjectItem, len(items))
		for i, it := range items {
			base.Cols = append(base.Cols, it.Col)
			planned[i] = ProjectItem{it.Col, o.planExpr(it.Expr)}
		}
	}
	var n Node
	switch st := m.stmt.(type) {
	case *Insert:
		c := *st
		c.Returning = planned
		if st.Conflict != nil {
			x := *st.Conflict
			x.Set = slices.Clone(st.Conflict.Set)
			x.Generated = slices.Clone(st.Conflict.Generated)
			for _, items := range [][]SetItem{x.Set, x.Generated} {
				for i := range items {
					items[i].Expr = o.planExpr(items[i].Expr)
				}
			}
			x.Where = o.planExprs(x.Where)
			c.Conflict = &x
		}
		n = &InsertNode{Base: base, Input: p.node, Stmt: &c, AutoCommit: true}
	case *Update:
		c := *st
		c.Returning = planned
		n = &UpdateNode{Base: base, Input: p.node, Stmt: &c, AutoCommit: true}
	case *Delete:
		c := *st
		c.Returning = planned
		n = &DeleteNode{Base: base, Input: p.node, Stmt: &c, AutoCommit: true}
	}
	cost := p.cost + g.rows*costWrite + costRequest
	s.offer(phys{node: n, startup: cost, cost: cost})
}

// bounded tells a plan, as far down as rows pass one by one, that only its first rows will be taken: a sort keeps no
// more rows, a scan reads no more. Nodes are copied, since other plans may share them.
func bounded(n Node, top scalar.Expr, hard int64) Node {
	switch n := n.(type) {
	case *ProjectNode:
		in := bounded(n.Input, top, hard)
		if in == n.Input {
			return n
		}
		c := *n
		c.Input = in
		return &c
	case *SortNode:
		if top == nil || n.Prefix > 0 {
			return n
		}
		c := *n
		c.TopK = top
		c.Input = firstOfEach(c.Input, c.By, top)
		return &c
	case *IndexScan:
		if hard <= 0 {
			return n
		}
		c := *n
		c.Limit = hard
		return &c
	case *IndexJoin:
		if len(n.Filter) > 0 || n.Locking.Strength != 0 { // it may drop rows
			return n
		}
		in := bounded(n.Input, top, hard)
		if in == n.Input {
			return n
		}
		c := *n
		c.Input = in
		return &c
	}
	return n
}

// cutsItself reports whether a bounded plan returns no more rows than its bound, so that it needs no limit above it.
func cutsItself(n Node) bool {
	switch n := n.(type) {
	case *ProjectNode:
		return cutsItself(n.Input)
	case *IndexJoin:
		return len(n.Filter) == 0 && n.Locking.Strength == 0 && cutsItself(n.Input)
	case *IndexScan:
		return n.Limit > 0
	case *LocalitySearch:
		return n.Limit > 0
	}
	return false
}
