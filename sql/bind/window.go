package bind

import (
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree/treewindow"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// windowFunction returns the result type of a function that is only a window function; nil is the first argument's type.
func windowFunction(name string) (*types.T, bool) {
	switch name {
	case "row_number", "rank", "dense_rank":
		return types.Int8, true
	case "percent_rank", "cume_dist":
		return types.Float8, true
	case "ntile":
		return types.Int4, true
	case "lag", "lead", "first_value", "last_value", "nth_value":
		return nil, true
	}
	return nil, false
}

// windowCall binds a call with OVER.
func (b *builder) windowCall(c *exprContext, n *tree.FuncExpr, name string) scalar.Expr {
	if c.inWin || c.inAgg || !c.window {
		b.misplaced(c, n)
	}
	if c.clause == inFilter {
		b.fail(sqlstate.WindowingError, n, "window functions are not allowed in %s", c.clause)
	}
	if c.inWin {
		b.fail(sqlstate.WindowingError, n, "window function calls cannot be nested")
	}
	if c.inAgg {
		b.fail(sqlstate.GroupingError, n, "aggregate function calls cannot contain window function calls")
	}
	if !c.window {
		b.fail(sqlstate.WindowingError, n, "window functions are not allowed in %s", c.clause)
	}
	lv := c.scope.level
	inner := &exprContext{scope: c.scope, clause: "window function arguments", aggs: c.aggs, inWin: true}
	item := opt.WindowItem{}
	if b.Registry.IsAggregate(name) {
		// Unlike those of an ordinary aggregate, the arguments may contain aggregates of the grouping below.
		item.Agg = b.windowAggregate(inner, n, name)
		item.T = item.Agg.T
	} else {
		t, ok := windowFunction(name)
		if !ok {
			if b.Registry.IsFunction(name) {
				b.fail(sqlstate.WrongObjectType, n, "OVER specified, but %s is not a window function nor an aggregate function", name)
			}
			raise(b.at(sqlstate.New(sqlstate.UndefinedFunction, "function %s does not exist", callText(name, b.callArgs(inner, n.Exprs))).
				WithHint("No function matches the given name and argument types. You might need to add explicit type casts."), n))
		}
		if n.Type == tree.DistinctFuncType {
			b.fail(sqlstate.FeatureNotSupported, n, "DISTINCT is not implemented for window functions")
		}
		if n.Filter != nil {
			b.fail(sqlstate.FeatureNotSupported, n, "FILTER is not implemented for non-aggregate window functions")
		}
		item.Func = name
		item.Args, item.T = b.windowArgs(inner, n, name, t)
	}
	def := n.WindowDef
	partitions, orderBy, frame := def.Partitions, def.OrderBy, def.Frame
	ref := string(def.RefName)
	if ref == "" {
		ref = string(def.Name)
	}
	copied := def.RefName != "" // OVER w uses the window as it is
	for ref != "" {
		base, ok := lv.defs[ref]
		if !ok {
			b.fail(sqlstate.UndefinedObject, ref, "window \"%s\" does not exist", ref)
		}
		if base.Frame != nil && copied {
			e := sqlstate.New(sqlstate.WindowingError, "cannot copy window \"%s\" because it has a frame clause", ref)
			if string(def.RefName) == ref && len(orderBy) == 0 && frame == nil {
				e = e.WithHint("Omit the parentheses in this OVER clause.")
			}
			raise(b.at(e, n))
		}
		copied = true
		if len(partitions) > 0 && def.RefName != "" {
			b.fail(sqlstate.WindowingError, n, "cannot override PARTITION BY clause of window \"%s\"", ref)
		}
		partitions = base.Partitions
		if len(orderBy) == 0 {
			orderBy = base.OrderBy
		} else if len(base.OrderBy) > 0 {
			b.fail(sqlstate.WindowingError, n, "cannot override ORDER BY clause of window \"%s\"", ref)
		}
		if frame == nil {
			frame = base.Frame
		}
		ref = string(base.RefName)
	}
	w := &pendingWindow{item: item}
	oc := *inner
	oc.clause = "window definitions"
	for _, p := range partitions {
		w.partition = append(w.partition, b.known(b.expr(&oc, p), p))
		b.comparable(w.partition[len(w.partition)-1].Type(), false, p)
	}
	for _, o := range orderBy {
		b.byColumn(o)
		w.order = append(w.order, scalar.AggOrder{Expr: b.known(b.expr(&oc, o.Expr), o.Expr), Desc: o.Direction == tree.Descending, NullsFirst: nullsFirst(o)})
		b.comparable(w.order[len(w.order)-1].Expr.Type(), true, o.Expr)
	}
	if frame != nil {
		w.item.Frame = b.windowFrame(&oc, frame, w.order, n)
	}
	id := lv.window(w, func() opt.ColumnID { return b.meta.Add(opt.ColumnMeta{Name: name, Type: item.T}) })
	return &scalar.Column{ID: id, T: item.T, Name: name}
}

func (b *builder) windowAggregate(inner *exprContext, n *tree.FuncExpr, name string) *scalar.AggFunc {
	if n.Type == tree.DistinctFuncType {
		b.fail(sqlstate.FeatureNotSupported, n, "DISTINCT is not implemented for window functions")
	}
	if len(n.OrderBy) > 0 {
		b.fail(sqlstate.FeatureNotSupported, n, "aggregate ORDER BY is not implemented for window functions")
	}
	if len(n.Exprs) == 0 && name == "count" {
		b.fail(sqlstate.WrongObjectType, n, "count(*) must be used to call a parameterless aggregate function")
	}
	f := &scalar.AggFunc{}
	if len(n.Exprs) == 1 {
		if _, star := n.Exprs[0].(tree.UnqualifiedStar); !star {
			f.Args = b.callArgs(inner, n.Exprs)
		}
	} else {
		f.Args = b.callArgs(inner, n.Exprs)
	}
	res, err := b.Registry.ResolveAggregate(name, typesOf(f.Args))
	if err != nil {
		raise(b.locate(err, n))
	}
	f.Agg, f.T = res.Agg, res.Return
	f.Args = b.coerceArgs(f.Args, res.Args, n)
	if n.Filter != nil {
		fc := *inner
		fc.clause, fc.aggs = inFilter, false
		f.Filter = b.boolean(&fc, n.Filter)
	}
	return f
}

func (b *builder) windowArgs(c *exprContext, n *tree.FuncExpr, name string, t *types.T) ([]scalar.Expr, *types.T) {
	args := b.callArgs(c, n.Exprs)
	wrong := func() {
		raise(b.at(sqlstate.New(sqlstate.UndefinedFunction, "function %s does not exist", callText(name, args)).
			WithHint("No function matches the given name and argument types. You might need to add explicit type casts."), n))
	}
	lo, hi := 0, 0
	switch name {
	case "ntile":
		lo, hi = 1, 1
	case "lag", "lead":
		lo, hi = 1, 3
	case "first_value", "last_value":
		lo, hi = 1, 1
	case "nth_value":
		lo, hi = 2, 2
	}
	if len(args) < lo || len(args) > hi {
		wrong()
	}
	switch name {
	case "ntile":
		args[0] = b.coerce(args[0], types.Int4, types.CastImplicit, n)
	case "lag", "lead":
		if len(args) == 3 {
			two, ct := b.common(name, []scalar.Expr{args[0], args[2]}, n)
			args[0], args[2], t = two[0], two[1], ct
		}
		if len(args) > 1 {
			args[1] = b.coerce(args[1], types.Int4, types.CastImplicit, n)
		}
	case "nth_value":
		args[1] = b.coerce(args[1], types.Int4, types.CastImplicit, n)
	}
	if t == nil {
		if t = args[0].Type(); t.Kind == types.KindUnknown {
			b.fail(sqlstate.DatatypeMismatch, nil, "could not determine polymorphic type because input has type unknown")
		}
	}
	return args, t
}

// checkOffset refuses the offset of a frame if it is not the same for all rows, or contains a query, which windows do not run.
func (b *builder) checkOffset(off scalar.Expr, mode treewindow.WindowFrameMode, at any) {
	what := map[treewindow.WindowFrameMode]string{treewindow.ROWS: "ROWS", treewindow.RANGE: "RANGE", treewindow.GROUPS: "GROUPS"}[mode]
	scalar.Walk(off, func(e scalar.Expr) bool {
		switch e.(type) {
		case *scalar.Column:
			b.fail(sqlstate.InvalidColumnReference, at, "argument of %s must not contain variables", what)
		case *scalar.Subquery:
			raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "subqueries in window frames are not supported").
				WithHint("Give the offset as a constant or a parameter."), at))
		}
		return true
	})
}

// rangeOffset gives the offset of a RANGE frame the type that is added to the values of a column.
func (b *builder) rangeOffset(off scalar.Expr, t *types.T, at any) scalar.Expr {
	from, to := off.Type(), types.IntervalType
	ok := from.Kind == types.KindUnknown
	switch t.Kind {
	case types.KindInt2, types.KindInt4, types.KindInt8:
		if to = types.Int8; ok {
			to = t
		}
		ok = ok || from.IsInteger()
	case types.KindFloat4, types.KindFloat8:
		to = types.Float8
	case types.KindDecimal:
		to = types.Decimal
	case types.KindDate, types.KindTime, types.KindTimeTZ, types.KindTimestamp, types.KindTimestampTZ, types.KindInterval:
	default:
		shown := t.Name() // or the type whose operators t uses
		switch t.Kind {
		case types.KindVarChar:
			shown = "text"
		case types.KindCIDR:
			shown = "inet"
		case types.KindArray:
			shown = "anyarray"
		case types.KindEnum:
			shown = "anyenum"
		}
		b.fail(sqlstate.FeatureNotSupported, at, "RANGE with offset PRECEDING/FOLLOWING is not supported for column type %s", shown)
	}
	if to != types.Int8 && !t.IsInteger() {
		ok = ok || types.CanCast(from, to, types.CastImplicit)
	}
	if !ok {
		raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "RANGE with offset PRECEDING/FOLLOWING is not supported for column type %s and offset type %s", t.Name(), from.Name()).
			WithHint("Cast the offset value to an appropriate type."), at))
	}
	return b.coerce(off, to, types.CastImplicit, at)
}

func (b *builder) windowFrame(c *exprContext, f *tree.WindowFrame, order []scalar.AggOrder, at any) *opt.WindowFrame {
	if f.Mode == treewindow.GROUPS {
		b.fail(sqlstate.FeatureNotSupported, at, "GROUPS frames are not supported")
	}
	if f.Exclusion != treewindow.NoExclusion {
		b.fail(sqlstate.FeatureNotSupported, at, "frame exclusion is not supported")
	}
	fr := &opt.WindowFrame{Rows: f.Mode == treewindow.ROWS, End: opt.CurrentRow}
	bound := func(w *tree.WindowFrameBound) (opt.FrameBound, scalar.Expr) {
		var off scalar.Expr
		if w.OffsetExpr != nil {
			off = b.expr(c, w.OffsetExpr)
			b.checkOffset(off, f.Mode, w.OffsetExpr)
			switch {
			case fr.Rows:
				off = b.coerce(off, types.Int8, types.CastImplicit, w.OffsetExpr)
			case len(order) != 1:
				b.fail(sqlstate.WindowingError, nil, "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column")
			default:
				off = b.rangeOffset(off, order[0].Expr.Type(), w.OffsetExpr)
			}
		}
		switch w.BoundType {
		case treewindow.UnboundedPreceding:
			return opt.UnboundedPreceding, nil
		case treewindow.OffsetPreceding:
			return opt.OffsetPreceding, off
		case treewindow.OffsetFollowing:
			return opt.OffsetFollowing, off
		case treewindow.UnboundedFollowing:
			return opt.UnboundedFollowing, nil
		}
		return opt.CurrentRow, nil
	}
	fr.Start, fr.StartOffset = bound(f.Bounds.StartBound)
	if f.Bounds.EndBound != nil {
		fr.End, fr.EndOffset = bound(f.Bounds.EndBound)
	}
	switch {
	case fr.Start == opt.UnboundedFollowing:
		b.fail(sqlstate.WindowingError, at, "frame start cannot be UNBOUNDED FOLLOWING")
	case fr.End == opt.UnboundedPreceding:
		b.fail(sqlstate.WindowingError, at, "frame end cannot be UNBOUNDED PRECEDING")
	case fr.Start == opt.CurrentRow && fr.End == opt.OffsetPreceding:
		b.fail(sqlstate.WindowingError, at, "frame starting from current row cannot have preceding rows")
	case fr.Start == opt.OffsetFollowing && fr.End <= opt.CurrentRow:
		b.fail(sqlstate.WindowingError, at, "frame starting from following row cannot have preceding rows")
	}
	return fr
}

// windows turns partition and order expressions into columns and computes the window functions.
func (b *builder) windows(rel opt.Rel, lv *level, items []item) opt.Rel {
	w := &opt.Window{}
	var pre []opt.ProjectItem
	col := func(e scalar.Expr) opt.ColumnID {
		// A column of an enclosing query is no column of the input.
		if c, ok := e.(*scalar.Column); ok && !slices.Contains(lv.outer, c.ID) {
			return c.ID
		}
		for _, p := range pre {
			if scalar.Equal(p.Expr, e) {
				return p.Col
			}
		}
		id := b.meta.Add(opt.ColumnMeta{Name: "window", Type: e.Type()})
		pre = append(pre, opt.ProjectItem{Col: id, Expr: e})
		return id
	}
	for _, p := range lv.pending {
		for _, e := range p.partition {
			p.item.PartitionBy = appendID(p.item.PartitionBy, col(e))
		}
		for _, o := range p.order {
			p.item.OrderBy = append(p.item.OrderBy, opt.OrderColumn{Col: col(o.Expr), Desc: o.Desc, NullsFirst: o.NullsFirst})
		}
		w.Items = append(w.Items, p.item)
	}
	w.Input = rel
	if len(pre) > 0 {
		p := &opt.Project{Input: rel, Items: pre}
		have := produced(rel)
		pass := func(id opt.ColumnID) {
			if have[id] {
				p.Pass = appendID(p.Pass, id)
			}
		}
		for i := range items {
			scalar.Columns(items[i].expr, pass)
		}
		for i := range w.Items {
			it := &w.Items[i]
			for _, id := range it.PartitionBy {
				pass(id)
			}
			for _, o := range it.OrderBy {
				pass(o.Col)
			}
			for _, a := range it.Args {
				scalar.Columns(a, pass)
			}
			if it.Agg != nil {
				scalar.Columns(it.Agg, pass)
			}
		}
		for i := range lv.srfs {
			for _, a := range lv.srfs[i].Args {
				scalar.Columns(a, pass)
			}
		}
		w.Input = p
	}
	return w
}
