package opt

import (
	"math"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
)

// derive computes a group's logical properties from its first expression. Everything that refers to the memo's
// operators by type is in this file, build.go, prune.go and search.go.
func (o *optimizer) derive(g *group) {
	uses := new(colSet)
	if r, ok := g.expr().(interface {
		// derive sets the properties of a group with the operator, and adds the columns that its scalars read.
		derive(o *optimizer, g *group, uses *colSet)
	}); ok {
		r.derive(o, g, uses)
	}
	for i, in := range inputs(g.expr()) {
		if i == 0 || in == nil {
			continue
		}
		*uses = uses.minus(in.cols)
	}
	if in := firstInput(g.expr()); in != nil {
		*uses = uses.minus(in.cols)
	}
	g.outer.addAll(uses)
	g.rows = max(g.rows, 0)
	if g.rows > 1e15 || math.IsNaN(g.rows) {
		g.rows = 1e15
	}
}

func (r *Scan) derive(o *optimizer, g *group, _ *colSet) {
	g.cols = setOf(r.Cols)
	for i, c := range r.Cols {
		if c != 0 && r.Table.Columns[i].NotNull {
			g.notNull.add(c)
		}
	}
	g.rows = o.info(r.Table).rows
	if r.Locking.Strength != 0 {
		o.writes = true
	}
}

func (r *VirtualScan) derive(o *optimizer, g *group, _ *colSet) {
	g.cols = setOf(r.Cols)
	for i, c := range r.Cols {
		if c != 0 && r.Table.Columns[i].NotNull {
			g.notNull.add(c)
		}
	}
	g.rows = o.info(r.Table).rows
}

func (r *Values) derive(_ *optimizer, g *group, uses *colSet) {
	g.cols = setOf(r.Cols)
	g.rows = float64(len(r.Rows))
	for _, row := range r.Rows {
		uses.addExprs(row)
		g.volatile = g.volatile || anyVolatile(row)
	}
	for i, c := range r.Cols {
		can := true
		for _, row := range r.Rows {
			k, ok := row[i].(*scalar.Const)
			can = can && ok && !k.Value.IsNull()
		}
		if can {
			g.notNull.add(c)
		}
	}
}

func (r *Select) derive(o *optimizer, g *group, uses *colSet) {
	in := child(r.Input)
	o.inherit(g, in)
	uses.addExprs(r.Filter)
	g.volatile = in.volatile || anyVolatile(r.Filter)
	for _, e := range r.Filter {
		rej := rejectedNulls(e)
		g.notNull.addAll(&rej)
	}
	g.notNull = g.notNull.intersect(g.cols)
	g.rows = o.selectRows(in, r.Filter)
}

func (r *Project) derive(o *optimizer, g *group, uses *colSet) {
	in := child(r.Input)
	g.outer, g.volatile, g.rows, g.endless = in.outer, in.volatile, in.rows, in.endless
	g.cols = setOf(r.Pass)
	g.notNull = in.notNull.intersect(g.cols)
	for i := range r.Items {
		it := &r.Items[i]
		g.cols.add(it.Col)
		uses.addExpr(it.Expr)
		g.volatile = g.volatile || isVolatile(it.Expr)
		if o.neverNull(it.Expr, &in.notNull) {
			g.notNull.add(it.Col)
		}
	}
}

func (r *ProjectSet) derive(o *optimizer, g *group, uses *colSet) {
	in := child(r.Input)
	o.inherit(g, in)
	g.rows = in.rows * setFunctionRows
	g.volatile = true // calls happen once for each row
	for i := range r.Funcs {
		f := &r.Funcs[i]
		uses.addExprs(f.Args)
		for _, c := range f.Cols {
			g.cols.add(c)
		}
		if f.Ordinality != 0 {
			g.cols.add(f.Ordinality)
		}
	}
	g.volatile = in.volatile
	for i := range r.Funcs {
		g.volatile = g.volatile || r.Funcs[i].Func.Volatility == scalar.Volatile || anyVolatile(r.Funcs[i].Args)
	}
}

func (r *Join) derive(o *optimizer, g *group, uses *colSet) {
	o.deriveJoin(g, r, uses)
}

func (r *orderedGroup) derive(o *optimizer, g *group, uses *colSet) {
	in := child(r.Input)
	g.outer, g.volatile = in.outer, in.volatile
	g.cols = setOf(r.Group)
	g.notNull = in.notNull.intersect(g.cols)
	for _, a := range r.Aggs {
		g.cols.add(a.Col)
		uses.addExpr(a.Agg)
		g.volatile = g.volatile || isVolatile(a.Agg)
		if a.Agg.Agg.Name == "count" {
			g.notNull.add(a.Col)
		}
	}
	g.rows = 1
	if !r.Scalar {
		g.rows = o.distinctRows(in, g.cols.intersect(in.cols))
	}
}

func (r *orderedWindow) derive(o *optimizer, g *group, uses *colSet) {
	in := child(r.Input)
	o.inherit(g, in)
	g.rows = in.rows
	for i := range r.Items {
		it := &r.Items[i]
		g.cols.add(it.Col)
		uses.addExprs(it.Args)
		if it.Agg != nil {
			uses.addExpr(it.Agg)
		}
		switch it.Func {
		case "row_number", "rank", "dense_rank", "percent_rank", "cume_dist":
			g.notNull.add(it.Col)
		}
	}
}

func (r *Distinct) derive(o *optimizer, g *group, _ *colSet) {
	in := child(r.Input)
	o.inherit(g, in)
	g.rows = o.distinctRows(in, setOf(r.On))
}

func (r *SetOp) derive(_ *optimizer, g *group, _ *colSet) {
	l, rt := child(r.Left), child(r.Right)
	g.cols = setOf(r.Out)
	g.outer = l.outer.union(rt.outer)
	g.volatile, g.endless = l.volatile || rt.volatile, l.endless || rt.endless
	for i, c := range r.Out {
		ln, rn := l.notNull.has(r.LeftCols[i]), rt.notNull.has(r.RightCols[i])
		if ln && rn || ln && r.Kind == Except || r.Kind == Intersect && (ln || rn) {
			g.notNull.add(c)
		}
	}
	switch r.Kind {
	case Union:
		g.rows = l.rows + rt.rows
		if !r.All {
			g.rows *= 0.8
		}
	case Intersect:
		g.rows = min(l.rows, rt.rows) * 0.5
	case Except:
		g.rows = l.rows * 0.5
	}
}

func (r *orderedLimit) derive(o *optimizer, g *group, uses *colSet) {
	in := child(r.Input)
	o.inherit(g, in)
	g.rows = in.rows
	if n, ok := constInt(r.Offset); ok {
		g.rows = max(g.rows-float64(n), 0)
	}
	if r.Count != nil {
		if n, ok := constInt(r.Count); ok {
			g.rows = min(g.rows, float64(n))
		} else {
			g.rows = min(g.rows, defaultLimit)
		}
	}
	uses.addExpr(r.Count)
	uses.addExpr(r.Offset)
}

func (r *lockRows) derive(o *optimizer, g *group, uses *colSet) {
	in := r.plain
	o.inherit(g, in)
	g.rows = in.rows
	g.volatile = true // the rows that are read are locked
	o.writes = true
	for i := range r.steps {
		uses.addExprs(r.steps[i].Filter)
		for _, it := range r.steps[i].Items {
			uses.addExpr(it.Expr)
		}
	}
}

func (r *orderedWith) derive(o *optimizer, g *group, _ *colSet) {
	main, b := child(r.Main), child(r.Binding)
	o.inherit(g, main)
	g.rows = main.rows
	g.outer.addAll(&b.outer)
	g.volatile = main.volatile || b.volatile
	if r.Recursive != nil {
		g.outer.addAll(&child(r.Recursive).outer)
		g.volatile = g.volatile || child(r.Recursive).volatile
	}
}

func (r *WithScan) derive(o *optimizer, g *group, _ *colSet) {
	g.cols = setOf(r.Cols)
	g.rows = defaultRows
	if c := o.ctes[r.ID]; c != nil {
		g.rows, g.endless = c.rows, c.recursive
	}
}

func (r *mutation) derive(_ *optimizer, g *group, uses *colSet) {
	g.outer = r.input.outer
	g.volatile = true
	g.rows = r.input.rows
	for _, it := range returning(r.stmt) {
		g.cols.add(it.Col)
		uses.addExpr(it.Expr)
	}
	*uses = uses.minus(r.produced())
	if ins, ok := r.stmt.(*Insert); ok && ins.Conflict != nil {
		var c colSet
		for _, s := range ins.Conflict.Set {
			c.addExpr(s.Expr)
		}
		for _, s := range ins.Conflict.Generated {
			c.addExpr(s.Expr)
		}
		c.addExprs(ins.Conflict.Where)
		c = c.minus(r.produced())
		uses.addAll(&c)
	}
}

// inherit copies the properties that most unary operators keep of their input.
func (o *optimizer) inherit(g, in *group) {
	g.cols, g.outer, g.notNull, g.volatile, g.endless = in.cols, in.outer, in.notNull, in.volatile, in.endless
}

func (o *optimizer) deriveJoin(g *group, r *Join, uses *colSet) {
	l, rt := child(r.Left), child(r.Right)
	uses.addExprs(r.On)
	g.cols = l.cols
	if r.Kind != SemiJoin && r.Kind != AntiJoin {
		g.cols.addAll(&rt.cols)
	}
	g.outer = l.outer.union(rt.outer.minus(l.cols))
	g.volatile = l.volatile || rt.volatile || anyVolatile(r.On)
	g.endless = l.endless || rt.endless
	switch r.Kind {
	case InnerJoin, SemiJoin:
		g.notNull = l.notNull
		if r.Kind == InnerJoin {
			g.notNull.addAll(&rt.notNull)
		}
		for _, e := range r.On {
			rej := rejectedNulls(e)
			g.notNull.addAll(&rej)
		}
		g.notNull = g.notNull.intersect(g.cols)
	case LeftJoin, AntiJoin:
		g.notNull = l.notNull
	case RightJoin:
		g.notNull = rt.notNull
	}
	g.rows = o.joinRows(r.Kind, l, rt, r.On)
}

// returning are a mutation's returned columns; nil if there are none.
func returning(stmt Rel) []ProjectItem {
	switch s := stmt.(type) {
	case *Insert:
		return s.Returning
	case *Update:
		return s.Returning
	case *Delete:
		return s.Returning
	}
	return nil
}

// produced are the columns that a mutation itself gives to its scalars.
func (m *mutation) produced() colSet {
	switch s := m.stmt.(type) {
	case *Insert:
		out := setOf(s.New)
		if s.Conflict != nil {
			ex := setOf(s.Conflict.Existing)
			out.addAll(&ex)
		}
		return out
	case *Update:
		return setOf(s.New)
	}
	return colSet{}
}

func firstInput(r Rel) *group {
	switch r := r.(type) {
	case *Select:
		return child(r.Input)
	case *Project:
		return child(r.Input)
	case *ProjectSet:
		return child(r.Input)
	case *Join:
		return child(r.Left)
	case *orderedGroup:
		return child(r.Input)
	case *orderedWindow:
		return child(r.Input)
	case *Distinct:
		return child(r.Input)
	case *SetOp:
		return child(r.Left)
	case *orderedLimit:
		return child(r.Input)
	case *lockRows:
		return r.plain
	case *orderedWith:
		return child(r.Main)
	case *mutation:
		return r.input
	}
	return nil
}

// inputs are an expression's input groups.
func inputs(r Rel) [3]*group {
	switch r := r.(type) {
	case *Join:
		return [3]*group{child(r.Left), child(r.Right)}
	case *SetOp:
		return [3]*group{child(r.Left), child(r.Right)}
	case *lockRows:
		return [3]*group{r.plain, r.locked}
	case *orderedWith:
		if r.Recursive != nil {
			return [3]*group{child(r.Main), child(r.Binding), child(r.Recursive)}
		}
		return [3]*group{child(r.Main), child(r.Binding)}
	}
	return [3]*group{firstInput(r)}
}

func anyVolatile(es []scalar.Expr) bool {
	for _, e := range es {
		if isVolatile(e) {
			return true
		}
	}
	return false
}

func constInt(e scalar.Expr) (int64, bool) {
	if k, ok := e.(*scalar.Const); ok && !k.Value.IsNull() {
		return k.Value.Int(), true
	}
	return 0, false
}

// nullIn are the columns that make the value NULL if they are NULL.
func nullIn(e scalar.Expr) colSet {
	var s colSet
	switch e := e.(type) {
	case *scalar.Column:
		s.add(e.ID)
	case *scalar.Compare:
		if e.Op < scalar.IsDistinct {
			s = nullIn(e.Left)
			r := nullIn(e.Right)
			s.addAll(&r)
		}
	case *scalar.Cast:
		return nullIn(e.Arg)
	case *scalar.Not:
		return nullIn(e.Arg)
	case *scalar.Call:
		if !e.Func.CalledOnNull && e.Func.Set == nil {
			for _, a := range e.Args {
				n := nullIn(a)
				s.addAll(&n)
			}
		}
	case *scalar.In:
		if len(e.List) > 0 {
			return nullIn(e.Arg)
		}
	}
	return s
}

// rejectedNulls are the columns that keep a condition from being true if they are NULL.
func rejectedNulls(e scalar.Expr) colSet {
	switch e := e.(type) {
	case *scalar.And:
		var s colSet
		for _, a := range e.Args {
			n := rejectedNulls(a)
			s.addAll(&n)
		}
		return s
	case *scalar.Or:
		s := rejectedNulls(e.Args[0])
		for _, a := range e.Args[1:] {
			s = s.intersect(rejectedNulls(a))
		}
		return s
	case *scalar.IsNull:
		if e.Negate {
			return nullIn(e.Arg)
		}
		return colSet{}
	case *scalar.IsBool:
		if !e.Negate {
			return nullIn(e.Arg)
		}
		return colSet{}
	}
	return nullIn(e)
}

// neverNull reports whether an expression over columns of which some are not NULL can't be NULL.
func (o *optimizer) neverNull(e scalar.Expr, notNull *colSet) bool {
	switch e := e.(type) {
	case *scalar.Const:
		return !e.Value.IsNull()
	case *scalar.Column:
		return notNull.has(e.ID)
	case *scalar.Coalesce:
		for _, a := range e.Args {
			if o.neverNull(a, notNull) {
				return true
			}
		}
	case *scalar.IsNull, *scalar.IsBool:
		return true
	case *scalar.Compare:
		return e.Op >= scalar.IsDistinct || o.neverNull(e.Left, notNull) && o.neverNull(e.Right, notNull)
	case *scalar.Subquery:
		return e.Kind == scalar.SubqueryExists
	case *scalar.Not:
		return o.neverNull(e.Arg, notNull)
	}
	return false
}

// dependencies are known facts about a group's rows: columns that have one value in all rows, columns that are equal in
// every row, and keys. A key determines the row; the empty key says that there is one row at most. A lax key does so
// for rows in which it has no NULL.
type dependencies struct {
	consts colSet
	equal  []colSet
	keys   []colSet
	lax    []colSet
}

// deps derives a group's dependencies, once.
func (o *optimizer) depsOf(g *group) *dependencies {
	if g.deps != nil {
		return g.deps
	}
	d := new(dependencies)
	g.deps = d
	switch r := g.expr().(type) {
	case *Scan:
		for i := range r.Table.Indexes {
			ix := &r.Table.Indexes[i]
			if !(ix.Unique || ix.Primary) || ix.State != catalog.Public || ix.Predicate != "" {
				continue
			}
			var k colSet
			key := ix.Columns
			if r.Table.Worldwide(ix) {
				key = ix.UserColumns()
			}
			for _, c := range key {
				ord := r.Table.Ordinal(c.Column)
				if ord < 0 || r.Cols[ord] == 0 {
					k = colSet{}
					break
				}
				k.add(r.Cols[ord])
			}
			switch {
			case k.empty():
			case k.within(&g.notNull) || ix.Primary:
				d.keys = append(d.keys, k)
			default:
				d.lax = append(d.lax, k)
			}
		}
	case *Values:
		if len(r.Rows) <= 1 {
			d.keys = []colSet{{}}
		}
	case *Select:
		in := child(r.Input)
		d.copy(o.depsOf(in))
		d.filter(r.Filter, &in.cols)
		d.strengthen(&g.notNull)
	case *Project:
		in := child(r.Input)
		d.copy(o.depsOf(in))
		for i := range r.Items {
			it := &r.Items[i]
			switch e := it.Expr.(type) {
			case *scalar.Column:
				if in.cols.has(e.ID) {
					d.equate(e.ID, it.Col)
					if d.consts.has(e.ID) {
						d.consts.add(it.Col)
					}
				} else {
					d.consts.add(it.Col)
				}
			default:
				if x := exprCols(e); !x.intersects(&in.cols) && !isVolatile(e) {
					d.consts.add(it.Col)
				}
			}
		}
		d.rename(&g.cols)
	case *Join:
		o.joinDeps(g, r, d)
	case *orderedGroup:
		in := child(r.Input)
		d.copy(o.depsOf(in))
		d.lax = nil
		d.keys = append(d.keys[:0:0], setOf(r.Group))
		for _, k := range o.depsOf(in).keys {
			if gs := setOf(r.Group); k.within(&gs) {
				d.keys = append(d.keys, k)
			}
		}
	case *orderedWindow:
		d.copy(o.depsOf(child(r.Input)))
	case *Distinct:
		d.copy(o.depsOf(child(r.Input)))
		d.keys = append(d.keys[:len(d.keys):len(d.keys)], setOf(r.On))
	case *orderedLimit:
		d.copy(o.depsOf(child(r.Input)))
		if n, ok := constInt(r.Count); ok && n <= 1 {
			d.keys = []colSet{{}}
		}
	case *lockRows:
		d.copy(o.depsOf(r.plain))
	case *SetOp:
		if !r.All {
			d.keys = []colSet{setOf(r.Out)}
		}
	case *orderedWith:
		d.copy(o.depsOf(child(r.Main)))
	}
	d.reduce()
	return d
}

func (d *dependencies) copy(in *dependencies) {
	d.consts = in.consts
	d.equal = append(d.equal, in.equal...)
	d.keys = append(d.keys, in.keys...)
	d.lax = append(d.lax, in.lax...)
}

// filter adds what follows from conditions that hold in every row.
func (d *dependencies) filter(conds []scalar.Expr, cols *colSet) {
	for _, e := range conds {
		switch e := e.(type) {
		case *scalar.Compare:
			if e.Op != scalar.EQ {
				continue
			}
			l, lok := e.Left.(*scalar.Column)
			r, rok := e.Right.(*scalar.Column)
			lin, rin := lok && cols.has(l.ID), rok && cols.has(r.ID)
			switch {
			case lin && rin:
				if sameValues(l.T, r.T) {
					d.equate(l.ID, r.ID)
				}
			case lin:
				if x := exprCols(e.Right); !x.intersects(cols) && !isVolatile(e.Right) && sameValues(l.T, e.Right.Type()) {
					d.consts.add(l.ID)
				}
			case rin:
				if x := exprCols(e.Left); !x.intersects(cols) && !isVolatile(e.Left) && sameValues(r.T, e.Left.Type()) {
					d.consts.add(r.ID)
				}
			}
		case *scalar.IsNull:
			if c, ok := e.Arg.(*scalar.Column); ok && !e.Negate && cols.has(c.ID) {
				d.consts.add(c.ID)
			}
		case *scalar.Column:
			if cols.has(e.ID) {
				d.consts.add(e.ID)
			}
		}
	}
}

// equate notes that two columns are equal in every row.
func (d *dependencies) equate(a, b ColumnID) {
	var s colSet
	s.add(a)
	s.add(b)
	out := d.equal[:0:0]
	for _, e := range d.equal {
		if e.intersects(&s) {
			s.addAll(&e)
		} else {
			out = append(out, e)
		}
	}
	d.equal = append(out, s)
}

// strengthen turns lax keys without NULLs into keys.
func (d *dependencies) strengthen(notNull *colSet) {
	lax := d.lax[:0:0]
	for _, k := range d.lax {
		if k.within(notNull) {
			d.keys = append(d.keys, k)
		} else {
			lax = append(lax, k)
		}
	}
	d.lax = lax
}

// reduce spreads constants over equal columns and takes them out of the keys.
func (d *dependencies) reduce() {
	for _, e := range d.equal {
		if e.intersects(&d.consts) {
			d.consts.addAll(&e)
		}
	}
	if d.consts.empty() {
		return
	}
	for i := range d.keys {
		if d.keys[i].intersects(&d.consts) {
			if i < len(d.keys) {
				d.keys = append(d.keys[:0:0], d.keys...)
			}
			d.keys[i] = d.keys[i].minus(d.consts)
		}
	}
}

// rename replaces key columns that a projection dropped by columns equal to them.
func (d *dependencies) rename(cols *colSet) {
	fix := func(ks []colSet) []colSet {
		out := ks[:0:0]
		for _, k := range ks {
			if missing := k.minus(*cols).minus(d.consts); !missing.empty() {
				missing.each(func(c ColumnID) {
					for _, e := range d.equal {
						if !e.has(c) {
							continue
						}
						if known := e.intersect(*cols); !known.empty() {
							k.remove(c)
							k.add(known.list()[0])
						}
						return
					}
				})
			}
			out = append(out, k)
		}
		return out
	}
	d.keys, d.lax = fix(d.keys), fix(d.lax)
}

// same reports whether two columns are equal in every row.
func (d *dependencies) same(a, b ColumnID) bool {
	if a == b {
		return true
	}
	for i := range d.equal {
		if d.equal[i].has(a) && d.equal[i].has(b) {
			return true
		}
	}
	return false
}

// closure adds to a set the columns that are equal to its members, and the constants.
func (d *dependencies) closure(s colSet) colSet {
	s.addAll(&d.consts)
	for i := range d.equal {
		if d.equal[i].intersects(&s) {
			s.addAll(&d.equal[i])
		}
	}
	return s
}

// determines reports whether no two rows have equal values in the set: it contains a key.
func (d *dependencies) determines(s colSet) bool {
	s = d.closure(s)
	for i := range d.keys {
		if d.keys[i].within(&s) {
			return true
		}
	}
	return false
}

// oneRow reports whether a group has one row at most.
func (o *optimizer) oneRow(g *group) bool {
	switch r := g.expr().(type) {
	case *orderedGroup:
		if r.Scalar {
			return true
		}
	case *Project:
		return o.oneRow(child(r.Input))
	case *Scan:
		return false
	}
	d := o.depsOf(g)
	return d.determines(colSet{})
}

func (o *optimizer) joinDeps(g *group, r *Join, d *dependencies) {
	l, rt := child(r.Left), child(r.Right)
	ld := o.depsOf(l)
	switch r.Kind {
	case SemiJoin, AntiJoin:
		d.copy(ld)
		if r.Kind == SemiJoin {
			var conds []scalar.Expr
			for _, e := range r.On {
				if x := exprCols(e); !x.intersects(&rt.cols) {
					conds = append(conds, e)
				}
			}
			d.filter(conds, &l.cols)
		}
		return
	}
	rd := o.depsOf(rt)
	both := l.cols.union(rt.cols)
	var all dependencies
	all.copy(ld)
	correlated := rt.outer.intersects(&l.cols)
	if !correlated { // else they are constant for one left row only
		all.consts.addAll(&rd.consts)
	}
	all.equal = append(all.equal, rd.equal...)
	all.filter(r.On, &both)
	all.reduce()
	// One side's key is a key of the join if the condition finds one row at most of the other side for it.
	single := func(left, right *group, rd *dependencies) bool {
		have := all.closure(left.cols)
		s := have.intersect(right.cols)
		for _, k := range rd.keys {
			if k.within(&s) {
				return true
			}
		}
		for _, k := range rd.lax {
			if k.within(&s) { // an equality condition is not met by NULL
				return true
			}
		}
		return false
	}
	switch r.Kind {
	case InnerJoin:
		*d = all
		d.keys, d.lax = nil, nil
		if !correlated && single(rt, l, ld) {
			d.keys = append(d.keys, rd.keys...)
			d.lax = append(d.lax, rd.lax...)
		}
		if single(l, rt, rd) {
			d.keys = append(d.keys, ld.keys...)
			d.lax = append(d.lax, ld.lax...)
		}
	case LeftJoin:
		d.consts, d.equal = ld.consts, append(d.equal, ld.equal...)
		if single(l, rt, rd) {
			d.keys = append(d.keys, ld.keys...)
		}
	}
	if len(d.keys) == 0 {
		for _, a := range ld.keys {
			for _, b := range rd.keys {
				if len(d.keys) < 4 && (r.Kind == InnerJoin || !b.empty() && r.Kind == LeftJoin) {
					d.keys = append(d.keys, a.union(b))
				}
			}
		}
	}
}
