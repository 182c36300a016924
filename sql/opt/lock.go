package opt

import "meridian/sql/scalar"

// SELECT ... FOR UPDATE and its like lock the rows that the query returns: those that its conditions and joins keep, in the order of ORDER BY,
// and no more of them than its LIMIT lets through. So the locks are taken above all of these and below LIMIT, as PostgreSQL's LockRows takes them. A row may have
// changed between its read and its lock: then the conditions are tested again, and the columns are computed again, with its newest values. Rows are
// not sorted again.
//
// Where each row that a scan reads is one that the query returns, in the order in which the scan reads them, the scan takes the locks itself,
// which saves the second read. So a query of one table is in the memo twice: with a scan that locks, and with one that does not.

// lockRows is Lock in the memo.
type lockRows struct {
	// plain is the query without its locks, and passes all columns that the steps read; locked the query whose scan locks, nil if it has another
	// form than that.
	plain, locked *group
	scans         []*Scan
	steps         []LockStep
	order         []OrderColumn
	inner         bool // Lock.Inner
}

func (*lockRows) rel() {}

// lockBuild is the query of a Lock while it is built.
type lockBuild struct {
	scans []*Scan
	steps []LockStep
	// changing are the columns whose values may be others after the lock.
	changing colSet
}

func (o *optimizer) buildLock(r *Lock) (*group, []OrderColumn) {
	asked, simple := lockedScans(r.Input, true)
	for _, s := range asked {
		if !s.Table.Traits().Locks.Can() { // which refuses the locks, whatever it reads
			return o.build(r.Input)
		}
	}
	if len(asked) == 0 {
		return o.build(r.Input)
	}
	n := &lockRows{inner: r.Inner}
	if simple && !o.env.Naive {
		n.locked, _ = o.build(r.Input)
	}
	var b lockBuild
	n.plain, n.order = o.buildPlain(r.Input, &b)
	n.scans, n.steps = b.scans, b.steps
	return o.newGroup(n), n.order
}

// lockedScans are the scans whose rows a Lock above a tree locks. simple says that the tree is one table with filters and projections.
func lockedScans(r Rel, simple bool) ([]*Scan, bool) {
	switch r := r.(type) {
	case *Scan:
		if r.Locking.Held {
			return []*Scan{r}, simple
		}
	case *Select:
		return lockedScans(r.Input, simple)
	case *Project:
		return lockedScans(r.Input, simple)
	case *Sort:
		return lockedScans(r.Input, simple)
	case *ProjectSet:
		return lockedScans(r.Input, false)
	case *With:
		return lockedScans(r.Main, false)
	case *Join:
		left, _ := lockedScans(r.Left, false)
		right, _ := lockedScans(r.Right, false)
		return append(left, right...), false
	}
	return nil, false
}

// buildPlain is build for a query whose rows are locked above it.
func (o *optimizer) buildPlain(r Rel, b *lockBuild) (*group, []OrderColumn) {
	switch r := r.(type) {
	case *Scan:
		if !r.Locking.Held {
			break
		}
		s := *r
		s.Locking, s.Above = Locking{}, r.Locking
		b.scans = append(b.scans, &s)
		cols := setOf(s.Cols)
		b.changing.addAll(&cols)
		return o.newGroup(&s), nil
	case *Select:
		in, ord := o.buildPlain(r.Input, b)
		b.filter(o.conditions(r.Filter), nil)
		return o.newSelect(in, o.conditions(r.Filter)), ord
	case *Project:
		in, ord := o.buildPlain(r.Input, b)
		b.items(o.items(r.Items))
		pass := setOf(r.Pass)
		pass.addAll(&in.cols)
		g := o.newProject(in, o.items(r.Items), pass.list())
		return g, o.visibleOrder(g, ord)
	case *ProjectSet:
		in, ord := o.buildPlain(r.Input, b)
		return o.buildSets(r, in), ord
	case *Join:
		left, ord := o.buildPlain(r.Left, b)
		right, _ := o.buildPlain(r.Right, b)
		switch r.Kind {
		case InnerJoin:
			b.filter(o.conditions(r.On), nil)
		case LeftJoin:
			b.filter(o.conditions(r.On), right.cols.list())
		case RightJoin:
			b.filter(o.conditions(r.On), left.cols.list())
		}
		return o.buildJoin(r, left, right, ord)
	case *Sort:
		in, _ := o.buildPlain(r.Input, b)
		return in, r.By
	case *With:
		return o.buildWithMain(r, func(main Rel) (*group, []OrderColumn) { return o.buildPlain(main, b) })
	}
	return o.build(r)
}

// filter adds the conditions that read what may have changed.
func (b *lockBuild) filter(conds []scalar.Expr, nulls []ColumnID) {
	var reads []scalar.Expr
	for _, e := range conds {
		if used := exprCols(e); used.intersects(&b.changing) {
			reads = append(reads, e)
		}
	}
	if reads == nil {
		return
	}
	if nulls == nil {
		b.steps = append(b.steps, LockStep{Filter: reads})
		return
	}
	made := setOf(nulls)
	b.changing.addAll(&made)
	b.steps = append(b.steps, LockStep{Filter: conds, Nulls: nulls})
}

// items adds the columns that are computed from what may have changed.
func (b *lockBuild) items(items []ProjectItem) {
	var reads []ProjectItem
	var made colSet
	for _, it := range items {
		if used := exprCols(it.Expr); used.intersects(&b.changing) {
			reads = append(reads, it)
			made.add(it.Col)
		}
	}
	if reads != nil {
		b.steps = append(b.steps, LockStep{Items: reads})
		b.changing.addAll(&made)
	}
}

// selectLocked pushes conditions below the locks of a query in FROM, as PostgreSQL does: rows that the outer query's conditions drop are not
// locked. Below a LIMIT, or into a WITH query, nothing is pushed.
func (o *optimizer) selectLocked(in *group, r *lockRows, filter []scalar.Expr) *group {
	var down, up []scalar.Expr
	for _, e := range filter {
		if isVolatile(e) || hasSubquery(e) {
			up = append(up, e)
		} else {
			down = append(down, e)
		}
	}
	if len(down) == 0 {
		return o.filtered(in, filter)
	}
	n := *r
	n.plain = o.newSelect(r.plain, down)
	if r.locked != nil {
		n.locked = o.newSelect(r.locked, down)
	}
	n.steps = append(r.steps[:len(r.steps):len(r.steps)], LockStep{Filter: down})
	return o.filtered(o.newGroup(&n), up)
}

// pruneLock tells the query which of its columns are read above the locks and by the steps.
func (o *optimizer) pruneLock(g *group, r *lockRows) {
	needed := g.needed
	for _, c := range r.order {
		needed.add(c.Col)
	}
	if r.locked != nil {
		o.prune(r.locked, needed)
	}
	for i := len(r.steps) - 1; i >= 0; i-- {
		st := &r.steps[i]
		needed.addExprs(st.Filter)
		for _, it := range st.Items {
			if needed.has(it.Col) || isVolatile(it.Expr) {
				needed.addExpr(it.Expr)
			}
		}
	}
	for _, s := range r.scans {
		for _, k := range s.Table.Primary().Columns {
			needed.add(s.Cols[s.Table.Ordinal(k.Column)])
		}
	}
	o.prune(r.plain, needed)
}

// lock proposes to lock rows when they are read, if the query returns each of these in their order, or else above it.
func (s *search) lock(r *lockRows) {
	o, g := s.o, s.g
	if r.locked != nil {
		p := o.best(r.locked, required{order: cutOrder(r.order, &r.locked.cols), limit: s.req.limit})
		if locksResult(p.node, s.req.limit > 0) {
			if r.inner {
				p.order = nil
			}
			s.offer(p)
			return
		}
	}
	p := o.best(r.plain, required{order: cutOrder(r.order, &r.plain.cols), limit: s.req.limit})
	n := &LockNode{Base: Base{Cols: p.node.Columns()}, Input: p.node}
	have := setOf(n.Cols)
	cost, first := p.cost, p.startup
	for _, sc := range r.scans {
		t := LockedTable{Table: sc.Table, Locking: sc.Above}
		missing := false
		for _, k := range sc.Table.Primary().Columns {
			id := sc.Cols[sc.Table.Ordinal(k.Column)]
			missing = missing || !have.has(id)
			t.KeyCols = append(t.KeyCols, id)
		}
		if missing {
			continue // there are no rows
		}
		for ord, id := range sc.Cols {
			if id != 0 && have.has(id) {
				t.Cols = append(t.Cols, id)
				t.Ordinals = append(t.Ordinals, ord)
			}
		}
		n.Tables = append(n.Tables, t)
		far := o.farCost(sc, sc.Table.Primary(), nil, lookupTrip(o.env.Region.distanceOf(sc.Table, sc.Table.Primary(), nil), g.rows))
		first += costRequest + far
		cost += far + o.lookupCost(g.rows, 1, o.info(sc.Table).width) + g.rows*costLock
	}
	for _, st := range r.steps {
		c := LockStep{Filter: o.planExprs(st.Filter)}
		for _, id := range st.Nulls {
			if have.has(id) {
				c.Nulls = append(c.Nulls, id)
			}
		}
		for _, it := range st.Items {
			if have.has(it.Col) {
				c.Items = append(c.Items, ProjectItem{it.Col, o.planExpr(it.Expr)})
			}
		}
		if len(c.Items) > 0 || len(c.Filter) > 0 && (st.Nulls == nil || len(c.Nulls) > 0) {
			n.Steps = append(n.Steps, c)
		}
	}
	if r.inner {
		p.order = nil
	}
	s.offer(phys{node: n, startup: first, cost: cost + costStart, order: p.order})
}

// locksResult reports whether the locks that a plan takes as it reads are those of its rows, in their order. limited says that some rows may
// not be taken.
func locksResult(n Node, limited bool) bool {
	switch n := n.(type) {
	case *ProjectNode:
		for _, e := range n.Exprs {
			if hasSubquery(e) {
				return false // it may lock rows itself, in another order
			}
		}
		return locksResult(n.Input, limited)
	case *IndexScan:
		return len(n.Filter) == 0
	case *IndexJoin:
		return true // it locks what all conditions have kept
	case *LocalitySearch:
		return len(n.Local.Filter) == 0 && (!limited || oneRow(n))
	case *ValuesNode:
		return true
	}
	return false
}
