package opt

import (
	"slices"
	"strconv"
	"strings"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// ExplainOptions say what Explain prints.
type ExplainOptions struct {
	// Verbose adds every node's columns.
	Verbose bool
	// Costs adds estimated costs and rows.
	Costs bool
	// Snapshot says that tables without leaseholders are read at one timestamp.
	Snapshot bool
	// Present says that they are read at a majority, as of now.
	Present bool
	// Actual, if set, describes what happened at a node, for EXPLAIN ANALYZE.
	Actual func(Node) string
}

// Explain prints a plan as a tree, one line for a node and one for each of its attributes:
//
//	sort  (cost=112.0 rows=33)
//	│     order: +b
//	└── scan t@t_pkey  (cost=95.0 rows=33)
//	      spans: [/1 - /9]
func Explain(p *Plan, opts ExplainOptions) []string {
	x := explainer{meta: p.Meta, opts: opts, names: make(map[string]ColumnID)}
	x.decides = x.changes(p.Root)
	x.node(p.Root, "", "", "")
	return x.lines
}

type explainer struct {
	meta  *Metadata
	opts  ExplainOptions
	lines []string
	names map[string]ColumnID
	// decides says that the plan changes rows: what it reads decides which (txn.TX16).
	decides bool
}

// detail is an attribute of a node.
type detail struct{ key, value string }

// branch is an input of a node.
type branch struct {
	label string
	node  Node
}

// node prints a node whose first line begins with head and whose other lines begin with tail.
func (x *explainer) node(n Node, label, head, tail string) {
	name, details, inputs := x.parts(n)
	var b strings.Builder
	b.WriteString(head)
	if label != "" {
		b.WriteString(label)
		b.WriteString(": ")
	}
	b.WriteString(name)
	if x.opts.Costs {
		e := n.Estimate()
		b.WriteString("  (cost=")
		b.WriteString(strconv.FormatFloat(e.Cost, 'f', 2, 64))
		b.WriteString(" rows=")
		b.WriteString(strconv.FormatFloat(max(e.Rows, 0), 'f', 0, 64))
		b.WriteString(")")
	}
	if x.opts.Actual != nil {
		if a := x.opts.Actual(n); a != "" {
			b.WriteString("  ")
			b.WriteString(a)
		}
	}
	x.lines = append(x.lines, b.String())
	if x.opts.Verbose {
		details = append(details, detail{"columns", x.columns(n.Columns())})
	}
	bar := tail + "      "
	if len(inputs) > 0 {
		bar = tail + "│     "
	}
	for _, d := range details {
		x.lines = append(x.lines, bar+d.key+": "+d.value)
	}
	for i, in := range inputs {
		if i < len(inputs)-1 {
			x.node(in.node, in.label, tail+"├── ", tail+"│   ")
		} else {
			x.node(in.node, in.label, tail+"└── ", tail+"    ")
		}
	}
}

// changes reports whether a plan changes rows.
func (x *explainer) changes(n Node) bool {
	switch n.(type) {
	case *InsertNode, *UpdateNode, *DeleteNode:
		return true
	}
	_, _, inputs := x.parts(n)
	return slices.ContainsFunc(inputs, func(in branch) bool { return x.changes(in.node) })
}

// parts is describe, with the queries in a node's expressions among its inputs.
func (x *explainer) parts(n Node) (name string, details []detail, inputs []branch) {
	name, details, inputs = x.describe(n)
	var subs []*scalar.Subquery
	for _, e := range nodeExprs(n) {
		scalar.Walk(e, func(e scalar.Expr) bool {
			if q, ok := e.(*scalar.Subquery); ok {
				subs = append(subs, q)
			}
			return true
		})
	}
	for _, q := range subs {
		sub, ok := q.Plan.(Node)
		if !ok {
			continue
		}
		l := "subquery"
		if len(q.Outer) > 0 {
			l = "correlated subquery"
		}
		inputs = append(inputs, branch{l, sub})
	}
	return name, details, inputs
}

// describe is a node's name, attributes and inputs.
func (x *explainer) describe(n Node) (name string, ds []detail, in []branch) {
	add := func(key, value string) {
		if value != "" {
			ds = append(ds, detail{key, value})
		}
	}
	input := func(n Node) { in = append(in, branch{node: n}) }
	filter := func(key string, es []scalar.Expr) { add(key, x.conjunction(es)) }
	reads := func(t *catalog.Table, byKey bool) {
		where := &t.Protocol.Traits().Reads
		switch {
		case x.opts.Snapshot:
			add("read at", where.Snapshot)
		case x.opts.Present:
			add("read at", where.Present)
		case x.decides && byKey:
			add("read at", where.DecidingKey)
		case x.decides:
			add("read at", where.Deciding)
		default:
			add("read at", where.Plain)
		}
	}
	switch n := n.(type) {
	case *IndexScan:
		name = "scan "
		if n.Reverse {
			name = "reverse scan "
		}
		if n.Single {
			name = "point lookup "
		}
		name += n.Table.Name + "@" + n.Index.Name
		if n.Spans == nil {
			if len(n.Filter) == 0 && n.Limit == 0 && n.SoftLimit == 0 {
				add("spans", "FULL SCAN")
			} else {
				add("spans", "ALL")
			}
		} else {
			add("spans", x.spans(n.Spans))
		}
		filter("filter", n.Filter)
		if n.Limit > 0 {
			add("limit", strconv.FormatInt(n.Limit, 10))
		} else if n.SoftLimit > 0 {
			add("limit hint", strconv.FormatInt(n.SoftLimit, 10))
		}
		if n.SpanLimit != nil {
			add("limit of each region", x.count(n.SpanLimit))
		}
		if n.Follow {
			add("rows", "come with their entries")
		}
		add("locking", locking(n.Locking))
		reads(n.Table, n.Single)
	case *LocalitySearch:
		name = "union all"
		if n.Limit > 0 {
			add("limit", strconv.FormatInt(n.Limit, 10))
		} else {
			add("limit", strconv.Itoa(len(n.Local.Spans)))
		}
		add("locality", "local first")
		input(n.Local)
		input(n.Remote)
	case *VirtualNode:
		name = "virtual table " + n.Table.Name
		if len(n.Keys) > 0 {
			names := make([]string, len(n.Keys))
			for i, k := range n.Keys {
				names[i] = n.Table.Columns[k.Ordinal].Name
			}
			add("lookup", strings.Join(names, ", "))
		}
		filter("filter", n.Filter)
	case *ValuesNode:
		name = "values"
		add("size", strconv.Itoa(len(n.Cols))+" columns, "+strconv.Itoa(len(n.Rows))+" rows")
	case *FilterNode:
		name = "filter"
		filter("filter", n.Filter)
		input(n.Input)
	case *ProjectNode:
		name = "project"
		var parts []string
		for i, e := range n.Exprs {
			if c, ok := e.(*scalar.Column); ok && c.ID == n.Cols[i] {
				continue
			}
			parts = append(parts, x.column(n.Cols[i])+" := "+x.expr(e))
		}
		add("render", strings.Join(parts, ", "))
		input(n.Input)
	case *ProjectSetNode:
		name = "project set"
		var parts []string
		for _, f := range n.Funcs {
			args := make([]string, len(f.Args))
			for i, a := range f.Args {
				args[i] = x.expr(a)
			}
			parts = append(parts, f.Func.Name+"("+strings.Join(args, ", ")+")")
		}
		add("functions", strings.Join(parts, ", "))
		input(n.Input)
	case *IndexJoin:
		name = "index join " + n.Table.Name + "@" + n.Table.Primary().Name
		add("key", x.columns(n.KeyCols))
		filter("filter", n.Filter)
		add("locking", locking(n.Locking))
		reads(n.Table, true)
		input(n.Input)
	case *LockNode:
		name = "lock rows"
		for i := range n.Tables {
			t := &n.Tables[i]
			add("locking", locking(t.Locking)+" of "+t.Table.Name)
			reads(t.Table, true)
		}
		for i := range n.Steps {
			filter("checked again", n.Steps[i].Filter)
		}
		input(n.Input)
	case *LookupJoin:
		name = joinName("lookup join", n.Kind) + " " + n.Table.Name + "@" + n.Index.Name
		if k := &n.Spans[0]; len(n.Spans) == 1 && k.Modes == nil && k.Low.Expr == nil && k.High.Expr == nil {
			var parts []string
			for i, e := range k.Equal {
				parts = append(parts, indexColumnName(n, i)+" = "+x.expr(e))
			}
			add("lookup", strings.Join(parts, ", "))
		} else {
			add("lookup", x.spans(n.Spans))
		}
		if n.Remote != nil {
			add("remote lookup", x.spans(n.Remote))
		}
		if n.Single {
			add("unique", "yes")
		}
		filter("filter", n.On)
		add("locking", locking(n.Locking))
		reads(n.Table, n.Single)
		input(n.Input)
	case *HashJoin:
		name = joinName("hash join", n.Kind)
		add("on", x.pairs(n.LeftKeys, n.RightKeys))
		filter("filter", n.On)
		input(n.Left)
		input(n.Right)
	case *MergeJoin:
		name = joinName("merge join", n.Kind)
		add("on", x.pairs(n.LeftKeys, n.RightKeys))
		filter("filter", n.On)
		input(n.Left)
		input(n.Right)
	case *InterleavedJoin:
		name = "interleaved join"
		for i := range n.Tables {
			t := &n.Tables[i]
			if i > 0 {
				name += ","
			}
			if t.Kind != InnerJoin {
				name += " (" + t.Kind.String() + ")"
			}
			name += " " + t.Table.Name
		}
		switch {
		case n.Spans != nil:
			add("spans", x.spans(n.Spans))
		case n.SoftLimit > 0:
			add("spans", "ALL")
		default:
			add("spans", "FULL SCAN")
		}
		if n.Narrow {
			add("passes over", "other tables in "+n.Tables[0].Table.Name)
		}
		for i := range n.Tables {
			filter("filter of "+n.Tables[i].Table.Name, n.Tables[i].On)
		}
		if n.SoftLimit > 0 {
			add("limit hint", strconv.FormatInt(n.SoftLimit, 10))
		}
	case *NestedLoop:
		switch {
		case n.Apply:
			name = joinName("apply join", n.Kind)
		case n.Kind == InnerJoin && len(n.On) == 0:
			name = "cross join"
		default:
			name = joinName("nested loop", n.Kind)
		}
		if n.Apply {
			add("outer", x.columns(n.Outer))
		}
		filter("on", n.On)
		input(n.Left)
		input(n.Right)
	case *GroupNode:
		switch {
		case len(n.Group) == 0:
			name = "aggregate"
		case n.Streaming:
			name = "group (streaming)"
		default:
			name = "group (hash)"
		}
		add("group by", x.columns(n.Group))
		var parts []string
		for _, a := range n.Aggs {
			parts = append(parts, x.aggregate(a.Agg))
		}
		add("aggregates", strings.Join(parts, ", "))
		input(n.Input)
	case *WindowNode:
		name = "window"
		for i := range n.Items {
			add(x.column(n.Items[i].Col), x.window(&n.Items[i]))
		}
		input(n.Input)
	case *DistinctNode:
		name = "distinct (hash)"
		if n.Streaming {
			name = "distinct (streaming)"
		}
		add("on", x.columns(n.On))
		input(n.Input)
	case *SetOpNode:
		name = [...]string{"union", "intersect", "except"}[n.Kind]
		if n.All {
			name += " all"
		}
		input(n.Left)
		input(n.Right)
	case *SortNode:
		name = "sort"
		if n.TopK != nil {
			name = "top-k sort"
			add("k", x.count(n.TopK))
		}
		add("order", x.order(n.By))
		if n.Prefix > 0 {
			add("already ordered", x.order(n.By[:n.Prefix]))
		}
		input(n.Input)
	case *LimitNode:
		name = "limit"
		if n.Count != nil {
			add("count", x.count(n.Count))
		}
		if n.Offset != nil {
			add("offset", x.count(n.Offset))
		}
		input(n.Input)
	case *WithNode:
		name = "with " + n.Name
		in = append(in, branch{"main", n.Main}, branch{n.Name, n.Binding})
		if n.Recursive != nil {
			name = "with recursive " + n.Name
			in = append(in, branch{"recursive term", n.Recursive})
		}
	case *WithScanNode:
		name = "scan of with " + n.Name
	case *InsertNode:
		name = "insert " + n.Stmt.Table.Name
		if n.Stmt.Upsert {
			name = "upsert " + n.Stmt.Table.Name
		}
		if c := n.Stmt.Conflict; c != nil {
			what := "do nothing"
			if c.DoUpdate {
				what = "do update"
			}
			var names []string
			for _, id := range c.Arbiters {
				if ix := n.Stmt.Table.Index(id); ix != nil {
					names = append(names, ix.Name)
				}
			}
			add("on conflict", strings.TrimSpace(strings.Join(names, ", ")+" "+what))
			add("replaces the row", c.Physical)
			if len(c.Commutes) > 0 {
				add("commutes, if there is a row", commuting(n.Stmt.Table, c.Commutes))
			}
		}
		input(n.Input)
	case *UpdateNode:
		name = "update " + n.Stmt.Table.Name
		var parts []string
		for _, s := range n.Stmt.Set {
			parts = append(parts, n.Stmt.Table.Columns[s.Ordinal].Name)
		}
		add("set", strings.Join(parts, ", "))
		if n.Stmt.Physical != "" {
			add("replaces the row", n.Stmt.Physical)
		} else if len(n.Stmt.Commutes) > 0 {
			add("commutes", commuting(n.Stmt.Table, n.Stmt.Commutes))
		}
		input(n.Input)
	case *DeleteNode:
		name = "delete " + n.Stmt.Table.Name
		input(n.Input)
	default:
		name = "unknown"
	}
	return name, ds, in
}

func joinName(what string, k JoinKind) string {
	if k == InnerJoin {
		return what
	}
	return what + " (" + k.String() + ")"
}

func indexColumnName(n *LookupJoin, i int) string {
	cols := indexColumns(n.Table, n.Index)
	if i >= len(cols) {
		return "?"
	}
	return n.Table.Column(cols[i].Column).Name
}

func locking(l Locking) string {
	if l.Strength == kv.NoLock {
		return ""
	}
	return "for " + l.Strength.String()
}

// nodeExprs are the scalars of a node in which there may be queries.
func nodeExprs(n Node) []scalar.Expr {
	var out []scalar.Expr
	switch n := n.(type) {
	case *IndexScan:
		for i := range n.Spans {
			n.Spans[i].Exprs(func(e scalar.Expr) { out = append(out, e) })
		}
		out = append(out, n.Filter...)
	case *VirtualNode:
		out = n.Filter
	case *ValuesNode:
		for _, r := range n.Rows {
			out = append(out, r...)
		}
	case *FilterNode:
		out = n.Filter
	case *ProjectNode:
		out = n.Exprs
	case *ProjectSetNode:
		for _, f := range n.Funcs {
			out = append(out, f.Args...)
		}
	case *IndexJoin:
		out = n.Filter
	case *LockNode:
		for i := range n.Steps {
			out = append(out, n.Steps[i].Filter...)
			for _, it := range n.Steps[i].Items {
				out = append(out, it.Expr)
			}
		}
	case *LookupJoin:
		out = n.On
	case *HashJoin:
		out = n.On
	case *MergeJoin:
		out = n.On
	case *InterleavedJoin:
		for i := range n.Spans {
			n.Spans[i].Exprs(func(e scalar.Expr) { out = append(out, e) })
		}
		for i := range n.Tables {
			out = append(out, n.Tables[i].On...)
		}
	case *NestedLoop:
		out = n.On
	case *GroupNode:
		for _, a := range n.Aggs {
			out = append(out, a.Agg)
		}
	case *LimitNode:
		out = append(out, n.Count, n.Offset)
	case *InsertNode:
		for _, it := range n.Stmt.Returning {
			out = append(out, it.Expr)
		}
		if c := n.Stmt.Conflict; c != nil {
			for _, s := range c.Set {
				out = append(out, s.Expr)
			}
			for _, s := range c.Generated {
				out = append(out, s.Expr)
			}
			out = append(out, c.Where...)
		}
	case *UpdateNode:
		for _, it := range n.Stmt.Returning {
			out = append(out, it.Expr)
		}
	case *DeleteNode:
		for _, it := range n.Stmt.Returning {
			out = append(out, it.Expr)
		}
	}
	return out
}

// column names a column: its name, and a number if another column has been printed under that name.
func (x *explainer) column(c ColumnID) string {
	m := x.meta.Column(c)
	name := m.Name
	if name == "" {
		name = "column"
	}
	if m.Alias != "" && m.Table != nil {
		name = m.Alias + "." + name
	}
	if first, ok := x.names[name]; !ok {
		x.names[name] = c
	} else if first != c {
		return name + "#" + strconv.Itoa(int(c))
	}
	return name
}

func (x *explainer) columns(cols []ColumnID) string {
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = x.column(c)
	}
	return strings.Join(parts, ", ")
}

func (x *explainer) expr(e scalar.Expr) string {
	e = scalar.Rewrite(e, plainConst)
	return scalar.FormatWith(e, func(c *scalar.Column) string {
		if int(c.ID) <= len(x.meta.Columns) && c.ID > 0 {
			return x.column(c.ID)
		}
		return c.Name
	})
}

func (x *explainer) conjunction(es []scalar.Expr) string {
	if len(es) == 0 {
		return ""
	}
	return x.expr(scalar.Conjoin(es))
}

func (x *explainer) pairs(l, r []ColumnID) string {
	parts := make([]string, len(l))
	for i := range l {
		parts[i] = x.column(l[i]) + " = " + x.column(r[i])
	}
	return strings.Join(parts, ", ")
}

func (x *explainer) order(by []OrderColumn) string {
	parts := make([]string, len(by))
	for i, c := range by {
		parts[i] = x.column(c.Col)
		if c.Desc {
			parts[i] += " desc"
		}
		if c.NullsFirst != c.Desc {
			parts[i] += " nulls " + map[bool]string{true: "first", false: "last"}[c.NullsFirst]
		}
	}
	return strings.Join(parts, ", ")
}

func (x *explainer) aggregate(f *scalar.AggFunc) string {
	args := make([]string, len(f.Args))
	for i, a := range f.Args {
		args[i] = x.expr(a)
	}
	list := strings.Join(args, ", ")
	if len(args) == 0 && f.Agg.Name == "count" {
		list = "*"
	}
	if f.Distinct {
		list = "distinct " + list
	}
	s := f.Agg.Name + "(" + list + ")"
	if f.Filter != nil {
		s += " filter (" + x.expr(f.Filter) + ")"
	}
	return s
}

func (x *explainer) window(w *WindowItem) string {
	var b strings.Builder
	if w.Agg != nil {
		b.WriteString(x.aggregate(w.Agg))
	} else {
		b.WriteString(w.Func)
		b.WriteByte('(')
		for i, a := range w.Args {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(x.expr(a))
		}
		b.WriteByte(')')
	}
	b.WriteString(" over (")
	if len(w.PartitionBy) > 0 {
		b.WriteString("partition by " + x.columns(w.PartitionBy))
	}
	if len(w.OrderBy) > 0 {
		if len(w.PartitionBy) > 0 {
			b.WriteByte(' ')
		}
		b.WriteString("order by " + x.order(w.OrderBy))
	}
	b.WriteByte(')')
	return b.String()
}

// maxPrintedSpans bounds what Explain prints of a long IN list.
const maxPrintedSpans = 8

// spans prints the spans of a scan: [/1/2] is a key or prefix, [/1/2 - /1/9) a range.
func (x *explainer) spans(spans []IndexSpan) string {
	var parts []string
	for i := range spans {
		if i == maxPrintedSpans {
			parts = append(parts, "... "+strconv.Itoa(len(spans)-i)+" more")
			break
		}
		s := &spans[i]
		prefix := ""
		for j, e := range s.Equal {
			mode := SpanValue
			if j < len(s.Modes) {
				mode = s.Modes[j]
			}
			switch mode {
			case SpanNull:
				prefix += "/NULL"
			case SpanAny:
				prefix += "/ANY " + x.expr(e)
			default:
				prefix += "/" + x.expr(e)
			}
		}
		if s.Low.Expr == nil && s.High.Expr == nil {
			parts = append(parts, "["+prefix+"]")
			continue
		}
		low, high := "["+prefix, prefix+"]"
		if s.Low.Expr != nil {
			low = "[" + prefix + "/" + x.bounds(s.Low, s.Lows, "greatest")
			if !s.Low.Inclusive {
				low = "(" + low[1:]
			}
		}
		if s.High.Expr != nil {
			high = prefix + "/" + x.bounds(s.High, s.Highs, "least") + "]"
			if !s.High.Inclusive {
				high = high[:len(high)-1] + ")"
			}
		}
		parts = append(parts, low+" - "+high)
	}
	if len(spans) == 0 {
		return "NONE"
	}
	return strings.Join(parts, " ")
}

// bounds prints the bounds that hold at one end.
func (x *explainer) bounds(b Bound, more []Bound, which string) string {
	if len(more) == 0 {
		return x.expr(b.Expr)
	}
	parts := []string{x.expr(b.Expr)}
	for _, b := range more {
		parts = append(parts, x.expr(b.Expr))
	}
	return which + "(" + strings.Join(parts, ", ") + ")"
}

// count prints a number of rows.
func (x *explainer) count(e scalar.Expr) string {
	if n, ok := constInt(e); ok {
		return strconv.FormatInt(n, 10)
	}
	return x.expr(e)
}

// plainConst makes literals print as in SQL, without their types.
func plainConst(e scalar.Expr) scalar.Expr {
	if k, ok := e.(*scalar.Const); ok && !k.Value.IsNull() {
		switch k.T.Kind {
		case types.KindInt2, types.KindInt8:
			return &scalar.Const{Value: k.Value, T: types.Int4}
		case types.KindDecimal:
			if n, err := k.Value.Decimal().Int64(); err == nil {
				return &scalar.Const{Value: types.NewInt(n), T: types.Int4}
			}
		case types.KindEnum:
			if label, ok := k.T.Enum.Label(k.Value.Int()); ok && k.T.Enum.Name == catalog.RegionEnumName {
				return &scalar.Const{Value: types.NewString(label), T: types.Unknown}
			}
		case types.KindText, types.KindVarChar:
			return &scalar.Const{Value: k.Value, T: types.Unknown}
		}
	}
	return e
}
