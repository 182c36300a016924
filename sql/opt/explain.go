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
