package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree/treewindow"

	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func fold(s string) string { return parse.Fold(s) }

// functionName is the unqualified name of a call, and functionSchema its schema or empty.
func functionName(n *tree.FuncExpr) string {
	switch r := n.Func.FunctionReference.(type) {
	case *tree.UnresolvedName:
		return r.Parts[0]
	case *tree.FunctionDefinition:
		return strings.ToLower(r.Name)
	}
	return strings.ToLower(n.Func.String())
}

func functionSchema(n *tree.FuncExpr) string {
	if r, ok := n.Func.FunctionReference.(*tree.UnresolvedName); ok && r.NumParts > 1 {
		return r.Parts[1]
	}
	return ""
}

// parameterlessFunction recognises names that PostgreSQL calls without parentheses and the grammar leaves as names.
func (b *builder) parameterlessFunction(c *exprContext, n *tree.UnresolvedName) scalar.Expr {
	if n.NumParts != 1 {
		return nil
	}
	switch n.Parts[0] {
	case "current_catalog", "current_role", "session_user", "current_user", "user", "current_schema":
		for sc := c.scope; sc != nil; sc = sc.parent {
			if b.findColumn(sc, n.Parts[0], n) != nil {
				return nil
			}
		}
		name := n.Parts[0]
		switch name {
		case "current_catalog":
			name = "current_database"
		case "current_role", "user":
			name = "current_user"
		}
		return b.call(name, nil, n)
	}
	return nil
}

// windowFunction gives the result type of a window function proper; nil is the first argument's type.
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

// function binds a call of any sort.
func (b *builder) function(c *exprContext, n *tree.FuncExpr) scalar.Expr {
	name := functionName(n)
	b.arrange(c, n)
	switch s := functionSchema(n); s {
	case "", "pg_catalog", "information_schema", "public":
	default:
		db, err := b.View.Schema(b.ctx, b.View.CurrentDatabase(), s)
		b.check(err)
		if db == nil {
			b.fail(sqlstate.InvalidSchemaName, n, "schema \"%s\" does not exist", s)
		}
		b.fail(sqlstate.UndefinedFunction, n, "function %s.%s does not exist", s, name)
	}
	switch name {
	case "json_remove_path": // what the grammar makes of the operator #-
		if len(n.Exprs) == 2 {
			return b.operator("#-", n, b.expr(c, n.Exprs[0]), b.expr(c, n.Exprs[1]))
		}
	case "json_to_record", "jsonb_to_record", "json_to_recordset", "jsonb_to_recordset":
		if len(n.Exprs) == 1 {
			b.fail(sqlstate.FeatureNotSupported, n, "could not determine row type for result of %s", name)
		}
	}
	if n.WindowDef != nil {
		return b.windowCall(c, n, name)
	}
	if b.Registry.IsAggregate(name) && (!b.Registry.IsFunction(name) || n.Type == tree.DistinctFuncType) {
		return b.aggregate(c, n, name)
	}
	if _, ok := windowFunction(name); ok && !b.Registry.IsFunction(name) {
		b.fail(sqlstate.WrongObjectType, n, "window function %s requires an OVER clause", name)
	}
	if n.Type == tree.DistinctFuncType {
		b.fail(sqlstate.WrongObjectType, n, "DISTINCT specified, but %s is not an aggregate function", name)
	}
	if n.Filter != nil {
		b.fail(sqlstate.WrongObjectType, n, "FILTER specified, but %s is not an aggregate function", name)
	}
	if len(n.OrderBy) > 0 {
		b.fail(sqlstate.WrongObjectType, n, "ORDER BY specified, but %s is not an aggregate function", name)
	}
	if len(n.Exprs) == 1 {
		if _, star := n.Exprs[0].(tree.UnqualifiedStar); star {
			b.fail(sqlstate.WrongObjectType, n, "%s(*) specified, but %s is not an aggregate function", name, name)
		}
	}
	if b.Registry.IsSet(name) || strings.HasSuffix(name, "_populate_recordset") {
		cols := b.setColumns(c, n)
		if len(cols) == 1 {
			return cols[0].ref()
		}
		row := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
		for i := range cols {
			row.Elems = append(row.Elems, cols[i].ref())
			row.T.Fields = append(row.T.Fields, cols[i].t)
			row.T.Names = append(row.T.Names, cols[i].name)
		}
		if b.rowFields == nil {
			b.rowFields = map[*scalar.RowCtor][]column{}
		}
		b.rowFields[row] = cols
		return row
	}
	if len(n.Exprs) > maxArgs && name != "greatest" && name != "least" {
		b.fail(sqlstate.TooManyArguments, n, "cannot pass more than %d arguments to a function", maxArgs)
	}
	args := b.callArgs(c, n.Exprs)
	switch name {
	case "greatest", "least":
		if len(args) > 0 {
			args, _ = b.common(strings.ToUpper(name), args, n)
		}
	case "enum_first", "enum_last", "enum_range":
		if e := b.enumFunction(name, args); e != nil {
			return e
		}
	case "inet_contained_by_or_equals": // the grammar's name for <<=, as the next is that of >>=
		return b.operator("<<=", n, args...)
	case "inet_contains_or_equals":
		return b.operator(">>=", n, args...)
	case "like_escape", "ilike_escape", "similar_to_escape", "not_like_escape", "not_ilike_escape", "not_similar_to_escape":
		if len(args) != 3 {
			break // called by its name, not as an operator
		}
		return b.likeEscape(name, args, n)
	}
	if len(args) == 1 && !b.Registry.IsFunction(name) {
		// A function call may be a cast: int4(x), text(x).
		if t, ok := types.FromName(name); ok {
			if args[0].Type().Kind == types.KindUnknown || types.CanCast(args[0].Type(), t, types.CastExplicit) {
				return b.coerce(args[0], t, types.CastExplicit, n)
			}
		}
	}
	return b.call(name, args, n)
}

// likeEscape binds LIKE ... ESCAPE: the registry's functions take the pattern with its escape character.
func (b *builder) likeEscape(name string, args []scalar.Expr, n *tree.FuncExpr) scalar.Expr {
	base, not := strings.CutPrefix(name, "not_")
	x, pattern, escape := args[0], args[1], args[2]
	var res scalar.Expr
	if base == "similar_to_escape" {
		res = b.operator("~", n, x, b.call("similar_to_escape", []scalar.Expr{pattern, escape}, n))
	} else {
		// like_escape(pattern, escape) rewrites the pattern to the default escape character.
		op := "~~"
		if base == "ilike_escape" {
			op = "~~*"
		}
		res = b.operator(op, n, x, b.call("like_escape", []scalar.Expr{pattern, escape}, n))
	}
	if not {
		return &scalar.Not{Arg: res}
	}
	return res
}

// setColumns binds a set-returning call in the select list and returns its columns; nil if it is not one.
func (b *builder) setColumns(c *exprContext, n *tree.FuncExpr) []column {
	name := functionName(n)
	b.arrange(c, n)
	rows := strings.HasSuffix(name, "_populate_recordset")
	if !b.Registry.IsSet(name) && !rows {
		return nil
	}
	if !c.sets {
		if c.inAgg {
			raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "aggregate function calls cannot contain set-returning function calls").
				WithHint("You might be able to move the set-returning function into a LATERAL FROM item."), n))
		}
		e := sqlstate.New(sqlstate.FeatureNotSupported, "set-returning functions are not allowed in %s", c.clause)
		if c.clause == "functions in FROM" {
			e.Message = "set-returning functions must appear at top level of FROM"
		}
		if c.chosen {
			e.Hint = "You might be able to move the set-returning function into a LATERAL FROM item."
		}
		raise(b.at(e, n))
	}
	var f opt.SetFunc
	var cols []column
	if x := b.recordCall(c, n, name, nil); rows && x != nil {
		f, cols = b.setFunc([]scalar.Expr{x}, "unnest", n)
	} else {
		f, cols = b.setFunc(b.callArgs(c, n.Exprs), name, n)
	}
	// Calls that are the same are made once; so (f(x)).a, (f(x)).b walk together.
	lv := c.scope.level
	for i := range lv.srfs {
		o := &lv.srfs[i]
		if o.Func != f.Func || len(o.Args) != len(f.Args) {
			continue
		}
		same := true
		for j := range o.Args {
			same = same && scalar.Equal(o.Args[j], f.Args[j])
		}
		if same {
			for j := range cols {
				cols[j].id = o.Cols[j]
			}
			return cols
		}
	}
	lv.srfs = append(lv.srfs, f)
	return cols
}

// projectSets runs set-returning functions over a relation. A function among whose arguments are others runs for each row that these yield; all of
// one depth walk side by side.
func projectSets(rel opt.Rel, funcs []opt.SetFunc) opt.Rel {
	var levels [][]opt.SetFunc
	level := map[scalar.ColumnID]int{} // of the functions' columns
	for _, f := range funcs {          // a function comes after those in its arguments
		at := 0
		for _, a := range f.Args {
			scalar.Columns(a, func(id scalar.ColumnID) {
				if l, ok := level[id]; ok {
					at = max(at, l+1)
				}
			})
		}
		for _, id := range f.Cols {
			level[id] = at
		}
		for len(levels) <= at {
			levels = append(levels, nil)
		}
		levels[at] = append(levels[at], f)
	}
	for _, l := range levels {
		rel = &opt.ProjectSet{Input: rel, Funcs: l}
	}
	return rel
}

// setsOfGroups runs the set-returning functions by whose rows is grouped, with those in their arguments, before the groups are made. They are left
// out of what runs over the groups.
func setsOfGroups(rel opt.Rel, lv *level, groups []groupExpr, items []item) opt.Rel {
	wanted := map[scalar.ColumnID]bool{}
	want := func(id scalar.ColumnID) { wanted[id] = true }
	for i := range groups {
		scalar.Columns(groups[i].expr, want)
	}
	var before, after []opt.SetFunc
	for i := len(lv.srfs) - 1; i >= 0; i-- { // a function comes after those in its arguments
		f := lv.srfs[i]
		if !slices.ContainsFunc(f.Cols, func(id opt.ColumnID) bool { return wanted[id] }) {
			after = append(after, f)
			continue
		}
		before = append(before, f)
		for _, a := range f.Args {
			scalar.Columns(a, want)
		}
	}
	if len(before) == 0 {
		return rel
	}
	for i := range groups {
		x := groups[i].expr
		if _, ok := x.(*scalar.Column); ok || slices.ContainsFunc(items, func(it item) bool { return it.expr == x }) {
			continue
		}
		scalar.Columns(x, func(id scalar.ColumnID) {
			if slices.ContainsFunc(before, func(f opt.SetFunc) bool { return slices.Contains(f.Cols, id) }) {
				raise(sqlstate.New(sqlstate.FeatureNotSupported, "GROUP BY of an expression over a set-returning function is not supported").
					WithHint("Name it by its place in the select list, or move the function into a LATERAL FROM item."))
			}
		})
	}
	slices.Reverse(before)
	slices.Reverse(after)
	lv.srfs = after
	return projectSets(rel, before)
}

// setFunc resolves a set-returning function and makes its columns.
func (b *builder) setFunc(args []scalar.Expr, name string, at any) (opt.SetFunc, []column) {
	res, err := b.Registry.ResolveFunction(name, typesOf(args))
	if err != nil {
		raise(b.locate(err, at))
	}
	f := opt.SetFunc{Func: res.Func, Args: b.coerceArgs(args, res.Args, at)}
	ts, names := res.Func.ReturnTypes, res.Func.ReturnNames
	var cols []column
	for i := range ts {
		t := ts[i]
		if t.Kind == types.KindAnyElement || t.Kind == types.KindAnyArray {
			t = polymorphic(t, res.Func.Args, res.Args)
		}
		cn := name
		if i < len(names) && names[i] != "" {
			cn = names[i]
		}
		id := b.meta.Add(opt.ColumnMeta{Name: cn, Type: t})
		f.Cols = append(f.Cols, id)
		cols = append(cols, column{name: cn, id: id, t: t})
	}
	return f, cols
}

// polymorphic is the type that anyelement or anyarray stands for in a call with the resolved argument types.
func polymorphic(t *types.T, declared, actual []*types.T) *types.T {
	var elem *types.T
	for i, a := range actual {
		switch declared[min(i, len(declared)-1)].Kind {
		case types.KindAnyElement:
			elem = a
		case types.KindAnyArray:
			elem = scalar.ElemType(a)
		}
		if elem != nil {
			break
		}
	}
	if elem == nil {
		elem = types.Text
	}
	if t.Kind == types.KindAnyArray {
		return types.ArrayOf(elem)
	}
	return elem
}

// aggregate binds an aggregate call; what stands for it outside the grouping is its output column.
func (b *builder) aggregate(c *exprContext, n *tree.FuncExpr, name string) scalar.Expr {
	if c.inAgg {
		b.fail(sqlstate.GroupingError, n, "aggregate function calls cannot be nested")
	}
	// The outer columns that the arguments read are noted; an aggregate that moves outside takes it along.
	var marks []int
	for l := c.scope.level; l != nil; l = l.parent {
		marks = append(marks, len(l.outer))
	}
	f := b.aggFunc(c, n, name)
	lv := c.scope.level
	if owner := b.aggOwner(c.scope, f); owner != lv {
		i := 0
		for l := lv; l != owner; l = l.parent {
			l.outer = l.outer[:marks[i]]
			i++
			if l.parent == owner {
				c = l.within
			}
		}
	}
	switch {
	case c == nil:
		b.fail(sqlstate.GroupingError, n, "aggregate functions are not allowed in FROM clause of their own query level")
	case c.inAgg:
		b.fail(sqlstate.GroupingError, n, "aggregate function calls cannot be nested")
	case !c.aggs:
		b.fail(sqlstate.GroupingError, n, "aggregate functions are not allowed in %s", c.clause)
	}
	owner := c.scope.level
	var id opt.ColumnID
	for i := range owner.aggs {
		if scalar.Equal(owner.aggs[i].Agg, f) {
			id = owner.aggs[i].Col
		}
	}
	if id == 0 {
		id = b.meta.Add(opt.ColumnMeta{Name: name, Type: f.T})
		owner.aggs = append(owner.aggs, opt.AggItem{Col: id, Agg: f})
	}
	cross(lv, owner, id)
	return &scalar.Column{ID: id, T: f.T, Name: name}
}

// aggOwner is the level that an aggregate belongs to: the innermost one whose columns it reads, or its own if it reads
// none.
func (b *builder) aggOwner(s *scope, f *scalar.AggFunc) *level {
	own := s.level
	var best *scope
	found := false
	scalar.Columns(f, func(id opt.ColumnID) {
		found = true
		for sc := s; sc != nil && sc != best; sc = sc.parent {
			for i := range sc.cols {
				c := &sc.cols[i]
				here := c.id == id
				if c.id == 0 {
					scalar.Columns(c.ref(), func(x opt.ColumnID) { here = here || x == id })
				}
				if here {
					best = sc
					return
				}
			}
		}
	})
	if !found || best == nil {
		return own
	}
	return best.level
}

func (b *builder) aggFunc(c *exprContext, n *tree.FuncExpr, name string) *scalar.AggFunc {
	// With DISTINCT, package parse wrote ORDER BY in this form for the grammar's sake.
	if n.AggType == tree.OrderedSetAgg && n.Type != tree.DistinctFuncType {
		b.fail(sqlstate.FeatureNotSupported, n, "ordered-set aggregates are not supported")
	}
	inner := &exprContext{scope: c.scope, clause: "aggregate arguments", inAgg: true}
	f := &scalar.AggFunc{Distinct: n.Type == tree.DistinctFuncType}
	if len(n.Exprs) == 1 {
		if _, star := n.Exprs[0].(tree.UnqualifiedStar); star {
			if name != "count" {
				b.fail(sqlstate.UndefinedFunction, n, "function %s() does not exist", name)
			}
		} else {
			f.Args = b.callArgs(inner, n.Exprs)
		}
	} else {
		if len(n.Exprs) == 0 && name == "count" {
			b.fail(sqlstate.WrongObjectType, n, "count(*) must be used to call a parameterless aggregate function")
		}
		f.Args = b.callArgs(inner, n.Exprs)
	}
	res, err := b.Registry.ResolveAggregate(name, typesOf(f.Args))
	if err != nil {
		raise(b.locate(err, n))
	}
	f.Agg, f.T = res.Agg, res.Return
	f.Args = b.coerceArgs(f.Args, res.Args, n)
	if f.Distinct {
		for i, a := range f.Args {
			b.comparable(a.Type(), false, n.Exprs[min(i, len(n.Exprs)-1)])
		}
	}
	if n.Filter != nil {
		fc := *inner
		fc.clause = "FILTER"
		f.Filter = b.boolean(&fc, n.Filter)
	}
	for _, o := range n.OrderBy {
		x := b.known(b.expr(inner, o.Expr), o.Expr)
		b.comparable(x.Type(), true, o.Expr)
		ord := scalar.AggOrder{Expr: x, Desc: o.Direction == tree.Descending}
		ord.NullsFirst = nullsFirst(o)
		if f.Distinct {
			found := false
			for _, a := range f.Args {
				found = found || scalar.Equal(a, x)
			}
			if !found {
				b.fail(sqlstate.InvalidColumnReference, o.Expr, "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list")
			}
		}
		f.OrderBy = append(f.OrderBy, ord)
	}
	return f
}

// nullsFirst resolves where NULLs go: last when ascending, first when descending, unless said otherwise.
func nullsFirst(o *tree.Order) bool {
	switch o.NullsOrder {
	case tree.NullsFirst:
		return true
	case tree.NullsLast:
		return false
	}
	return o.Direction == tree.Descending
}

// windowCall binds a call with OVER.
func (b *builder) windowCall(c *exprContext, n *tree.FuncExpr, name string) scalar.Expr {
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
		// Arguments may contain aggregates of the grouping below, unlike an ordinary aggregate's.
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
	for ref != "" {
		base, ok := lv.defs[ref]
		if !ok {
			b.fail(sqlstate.UndefinedObject, ref, "window \"%s\" does not exist", ref)
		}
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
		w.order = append(w.order, scalar.AggOrder{Expr: b.known(b.expr(&oc, o.Expr), o.Expr), Desc: o.Direction == tree.Descending, NullsFirst: nullsFirst(o)})
		b.comparable(w.order[len(w.order)-1].Expr.Type(), true, o.Expr)
	}
	if frame != nil {
		w.item.Frame = b.windowFrame(&oc, frame, n)
	}
	id := b.meta.Add(opt.ColumnMeta{Name: name, Type: item.T})
	w.item.Col = id
	b.pending(lv, w)
	return &scalar.Column{ID: id, T: item.T, Name: name}
}

func callText(name string, args []scalar.Expr) string {
	var s strings.Builder
	s.WriteString(name + "(")
	for i, a := range args {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(a.Type().Name())
	}
	return s.String() + ")"
}

func (b *builder) windowAggregate(inner *exprContext, n *tree.FuncExpr, name string) *scalar.AggFunc {
	if n.Type == tree.DistinctFuncType {
		b.fail(sqlstate.FeatureNotSupported, n, "DISTINCT is not implemented for window functions")
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
		f.Filter = b.boolean(inner, n.Filter)
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
		args[0] = b.known(args[0], n)
		t = args[0].Type()
	}
	return args, t
}

// checkOffset refuses offsets of a frame that are not the same for all rows, and queries, which windows do not run.
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

func (b *builder) windowFrame(c *exprContext, f *tree.WindowFrame, at any) *opt.WindowFrame {
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
			if fr.Rows || off.Type().Kind == types.KindUnknown {
				off = b.coerce(off, types.Int8, types.CastImplicit, w.OffsetExpr)
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

// pendingWindow is a window call whose partition and order expressions have not become columns yet.
type pendingWindow struct {
	item      opt.WindowItem
	partition []scalar.Expr
	order     []scalar.AggOrder
}

func (b *builder) pending(lv *level, w *pendingWindow) { lv.pending = append(lv.pending, w) }
