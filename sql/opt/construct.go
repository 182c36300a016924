package opt

import "meridian/sql/scalar"

// newProject computes columns over a group. A projection that only drops columns is left out: every operator names the
// columns that it wants of its input. A projection over another is merged with it where nothing is computed twice.
func (o *optimizer) newProject(in *group, items []ProjectItem, pass []ColumnID) *group {
	if o.env.Naive {
		return o.newGroup(&Project{Input: in, Items: items, Pass: pass})
	}
	if len(items) == 0 {
		return in
	}
	if o.may(FoldConstants) {
		items = foldItems(items)
	}
	in, items = o.hoistItems(in, items)
	if below, ok := in.expr().(*Project); ok && o.may(MergeProjections) {
		if m, ok := o.mergeProjects(below, items, pass); ok {
			return m
		}
	}
	return o.newGroup(&Project{Input: in, Items: items, Pass: pass})
}

func foldItems(items []ProjectItem) []ProjectItem {
	for i := range items {
		e := foldScalar(items[i].Expr)
		if e == items[i].Expr {
			continue
		}
		out := append([]ProjectItem(nil), items...)
		out[i].Expr = e
		for j := i + 1; j < len(items); j++ {
			out[j].Expr = foldScalar(items[j].Expr)
		}
		return out
	}
	return items
}

// mergeProjects inlines the lower of two projections into the upper.
func (o *optimizer) mergeProjects(below *Project, items []ProjectItem, pass []ColumnID) (*group, bool) {
	base := &child(below.Input).cols
	uses := make(map[ColumnID]int, len(below.Items))
	for i := range items {
		if hasSubquery(items[i].Expr) {
			return nil, false
		}
		scalar.Columns(items[i].Expr, func(c ColumnID) { uses[c]++ })
	}
	for _, c := range pass {
		uses[c]++
	}
	for i := range below.Items {
		it := &below.Items[i]
		if isVolatile(it.Expr) {
			return nil, false
		}
		switch it.Expr.(type) {
		case *scalar.Column, *scalar.Const, *scalar.Placeholder:
			continue
		}
		if uses[it.Col] > 1 || uses[it.Col] > 0 && hasSubquery(it.Expr) {
			return nil, false
		}
	}
	out := make([]ProjectItem, 0, len(items)+len(pass))
	for _, it := range items {
		e, ok := o.throughProjectAny(it.Expr, below)
		if !ok {
			return nil, false
		}
		out = append(out, ProjectItem{it.Col, e})
	}
	var through []ColumnID
	for _, c := range pass {
		if it := itemOf(below.Items, c); it != nil {
			out = append(out, *it)
		} else if base.has(c) {
			through = append(through, c)
		}
	}
	return o.newProject(child(below.Input), out, through), true
}

// throughProjectAny replaces a projection's columns in an expression, volatile or not.
func (o *optimizer) throughProjectAny(e scalar.Expr, p *Project) (scalar.Expr, bool) {
	return scalar.ReplaceColumns(e, func(c *scalar.Column) scalar.Expr {
		if it := itemOf(p.Items, c.ID); it != nil {
			return it.Expr
		}
		return nil
	}), true
}

func itemOf(items []ProjectItem, c ColumnID) *ProjectItem {
	for i := range items {
		if items[i].Col == c {
			return &items[i]
		}
	}
	return nil
}

// newJoin joins two groups. Right joins become left joins; conditions about one side go there.
func (o *optimizer) newJoin(kind JoinKind, l, r *group, on []scalar.Expr) *group {
	if o.env.Naive {
		return o.newGroup(&Join{Kind: kind, Left: l, Right: r, On: on})
	}
	if kind == RightJoin && !r.outer.intersects(&l.cols) {
		kind, l, r = LeftJoin, r, l
	}
	never := false
	if o.may(FoldConstants) {
		on, never = foldConditions(on)
	}
	if never {
		on = []scalar.Expr{falseExpr()}
		switch kind {
		case InnerJoin, SemiJoin:
			if !l.volatile && !r.volatile {
				cols := l.cols
				if kind == InnerJoin {
					cols.addAll(&r.cols)
				}
				return o.newGroup(&Values{Cols: cols.list()})
			}
		case AntiJoin:
			if !r.volatile {
				return l
			}
		}
	}
	if len(on) > 0 && !never {
		if o.may(PushJoinConditions) {
			l, r, on = o.pushOn(kind, l, r, on)
		}
		if o.may(InferConstants) {
			l, r = o.inferConstants(kind, l, r, on)
		}
	}
	if kind == InnerJoin && anySubquery(on) {
		var plain, sub []scalar.Expr
		for _, e := range on {
			if hasSubquery(e) {
				sub = append(sub, e)
			} else {
				plain = append(plain, e)
			}
		}
		return o.filtered(o.newJoin(kind, l, r, plain), sub)
	}
	if r.outer.intersects(&l.cols) && o.may(Unnest) {
		if g := o.unnest(kind, l, r, on); g != nil {
			return g
		}
	}
	if len(on) > 0 && !never && o.may(JoinKeys) {
		l, r, on = o.columnKeys(kind, l, r, on)
	}
	return o.newGroup(&Join{Kind: kind, Left: l, Right: r, On: on})
}

// pushOn moves conditions of a join that are about one of its sides into that side, where the kind of join allows it.
func (o *optimizer) pushOn(kind JoinKind, l, r *group, on []scalar.Expr) (*group, *group, []scalar.Expr) {
	toLeft := kind == InnerJoin || kind == SemiJoin
	toRight := kind == InnerJoin || kind == SemiJoin || kind == LeftJoin || kind == AntiJoin
	var left, right, rest []scalar.Expr
	for _, e := range on {
		used := exprCols(e)
		switch {
		case isVolatile(e):
			rest = append(rest, e)
		case toLeft && !used.intersects(&r.cols):
			left = append(left, e)
		case toRight && !used.intersects(&l.cols):
			right = append(right, e)
		default:
			rest = append(rest, e)
		}
	}
	if len(left) > 0 {
		l = o.newSelect(l, left)
	}
	if len(right) > 0 {
		r = o.newSelect(r, right)
	}
	return l, r, rest
}

func (o *optimizer) newGroupBy(g *GroupBy) *group {
	return o.newGroup(&orderedGroup{GroupBy: *g})
}

// newDistinct drops a DISTINCT over rows that are distinct anyway.
func (o *optimizer) newDistinct(d *Distinct) *group {
	in := child(d.Input)
	if !o.env.Naive && o.may(RemoveDistinct) && o.depsOf(in).determines(setOf(d.On)) {
		return in
	}
	return o.newGroup(d)
}

func (o *optimizer) newSetOp(s *SetOp) *group { return o.newGroup(s) }

func (o *optimizer) newLimit(l *orderedLimit) *group { return o.newGroup(l) }
