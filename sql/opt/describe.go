package opt

import (
	"strconv"
	"strings"

	"meridian/sql/catalog"
	"meridian/sql/scalar"
)

// Each operator has a method here that tells EXPLAIN its name, attributes and inputs.

// description is a node's name, attributes and inputs.
type description struct {
	x    *explainer
	name string
	ds   []detail
	in   []branch
}

// describe is the description of a node.
func (x *explainer) describe(n Node) (name string, ds []detail, in []branch) {
	d := description{x: x}
	if n, ok := n.(interface{ describe(*description) }); ok {
		n.describe(&d)
	} else {
		d.name = "unknown"
	}
	return d.name, d.ds, d.in
}

// add adds an attribute, unless it is empty.
func (d *description) add(key, value string) {
	if value != "" {
		d.ds = append(d.ds, detail{key, value})
	}
}

func (d *description) input(n Node) { d.in = append(d.in, branch{node: n}) }

func (d *description) filter(key string, es []scalar.Expr) { d.add(key, d.x.conjunction(es)) }

// reads tells where a table's rows are read.
func (d *description) reads(t *catalog.Table, byKey bool) {
	where := t.Protocol.Traits().Reads
	switch {
	case d.x.opts.Snapshot:
		d.add("read at", where.Snapshot)
	case d.x.opts.Present:
		d.add("read at", where.Present)
	case d.x.decides && byKey:
		d.add("read at", where.DecidingKey)
	case d.x.decides:
		d.add("read at", where.Deciding)
	default:
		d.add("read at", where.Plain)
	}
}

func (n *IndexScan) describe(d *description) {
	d.name = "scan "
	if n.Reverse {
		d.name = "reverse scan "
	}
	if n.Single {
		d.name = "point lookup "
	}
	d.name += n.Table.Name + "@" + n.Index.Name
	if n.Spans == nil {
		if len(n.Filter) == 0 && n.Limit == 0 && n.SoftLimit == 0 {
			d.add("spans", "FULL SCAN")
		} else {
			d.add("spans", "ALL")
		}
	} else {
		d.add("spans", d.x.spans(n.Spans))
	}
	d.filter("filter", n.Filter)
	if n.Limit > 0 {
		d.add("limit", strconv.FormatInt(n.Limit, 10))
	} else if n.SoftLimit > 0 {
		d.add("limit hint", strconv.FormatInt(n.SoftLimit, 10))
	}
	if n.SpanLimit != nil {
		d.add("limit of each region", d.x.count(n.SpanLimit))
	}
	if n.Follow {
		d.add("rows", "come with their entries")
	}
	d.add("locking", locking(n.Locking))
	d.reads(n.Table, n.Single)
}

func (n *LocalitySearch) describe(d *description) {
	d.name = "union all"
	if n.Limit > 0 {
		d.add("limit", strconv.FormatInt(n.Limit, 10))
	} else {
		d.add("limit", strconv.Itoa(len(n.Local.Spans)))
	}
	d.add("locality", "local first")
	d.input(n.Local)
	d.input(n.Remote)
}

func (n *VirtualNode) describe(d *description) {
	d.name = "virtual table " + n.Table.Name
	if len(n.Keys) > 0 {
		names := make([]string, len(n.Keys))
		for i, k := range n.Keys {
			names[i] = n.Table.Columns[k.Ordinal].Name
		}
		d.add("lookup", strings.Join(names, ", "))
	}
	d.filter("filter", n.Filter)
}

func (n *ValuesNode) describe(d *description) {
	d.name = "values"
	d.add("size", strconv.Itoa(len(n.Cols))+" columns, "+strconv.Itoa(len(n.Rows))+" rows")
}

func (n *FilterNode) describe(d *description) {
	d.name = "filter"
	d.filter("filter", n.Filter)
	d.input(n.Input)
}

func (n *ProjectNode) describe(d *description) {
	d.name = "project"
	var parts []string
	for i, e := range n.Exprs {
		if c, ok := e.(*scalar.Column); ok && c.ID == n.Cols[i] {
			continue
		}
		parts = append(parts, d.x.column(n.Cols[i])+" := "+d.x.expr(e))
	}
	d.add("render", strings.Join(parts, ", "))
	d.input(n.Input)
}

func (n *ProjectSetNode) describe(d *description) {
	d.name = "project set"
	var parts []string
	for _, f := range n.Funcs {
		args := make([]string, len(f.Args))
		for i, a := range f.Args {
			args[i] = d.x.expr(a)
		}
		parts = append(parts, f.Func.Name+"("+strings.Join(args, ", ")+")")
	}
	d.add("functions", strings.Join(parts, ", "))
	d.input(n.Input)
}

func (n *IndexJoin) describe(d *description) {
	d.name = "index join " + n.Table.Name + "@" + n.Table.Primary().Name
	d.add("key", d.x.columns(n.KeyCols))
	d.filter("filter", n.Filter)
	d.add("locking", locking(n.Locking))
	d.reads(n.Table, true)
	d.input(n.Input)
}

func (n *LockNode) describe(d *description) {
	d.name = "lock rows"
	for i := range n.Tables {
		t := &n.Tables[i]
		d.add("locking", locking(t.Locking)+" of "+t.Table.Name)
		d.reads(t.Table, true)
	}
	for i := range n.Steps {
		d.filter("checked again", n.Steps[i].Filter)
	}
	d.input(n.Input)
}

func (n *LookupJoin) describe(d *description) {
	d.name = joinName("lookup join", n.Kind) + " " + n.Table.Name + "@" + n.Index.Name
	if k := &n.Spans[0]; len(n.Spans) == 1 && k.Modes == nil && k.Low.Expr == nil && k.High.Expr == nil {
		var parts []string
		for i, e := range k.Equal {
			parts = append(parts, indexColumnName(n, i)+" = "+d.x.expr(e))
		}
		d.add("lookup", strings.Join(parts, ", "))
	} else {
		d.add("lookup", d.x.spans(n.Spans))
	}
	if n.Remote != nil {
		d.add("remote lookup", d.x.spans(n.Remote))
	}
	if n.Single {
		d.add("unique", "yes")
	}
	d.filter("filter", n.On)
	d.add("locking", locking(n.Locking))
	d.reads(n.Table, n.Single)
	d.input(n.Input)
}

func (n *HashJoin) describe(d *description) {
	d.name = joinName("hash join", n.Kind)
	d.add("on", d.x.pairs(n.LeftKeys, n.RightKeys))
	d.filter("filter", n.On)
	d.input(n.Left)
	d.input(n.Right)
}

func (n *MergeJoin) describe(d *description) {
	d.name = joinName("merge join", n.Kind)
	d.add("on", d.x.pairs(n.LeftKeys, n.RightKeys))
	d.filter("filter", n.On)
	d.input(n.Left)
	d.input(n.Right)
}

func (n *InterleavedJoin) describe(d *description) {
	d.name = "interleaved join"
	for i := range n.Tables {
		t := &n.Tables[i]
		if i > 0 {
			d.name += ","
		}
		if t.Kind != InnerJoin {
			d.name += " (" + t.Kind.String() + ")"
		}
		d.name += " " + t.Table.Name
	}
	switch {
	case n.Spans != nil:
		d.add("spans", d.x.spans(n.Spans))
	case n.SoftLimit > 0:
		d.add("spans", "ALL")
	default:
		d.add("spans", "FULL SCAN")
	}
	if n.Narrow {
		d.add("passes over", "other tables in "+n.Tables[0].Table.Name)
	}
	for i := range n.Tables {
		d.filter("filter of "+n.Tables[i].Table.Name, n.Tables[i].On)
	}
	if n.SoftLimit > 0 {
		d.add("limit hint", strconv.FormatInt(n.SoftLimit, 10))
	}
}

func (n *NestedLoop) describe(d *description) {
	switch {
	case n.Apply:
		d.name = joinName("apply join", n.Kind)
	case n.Kind == InnerJoin && len(n.On) == 0:
		d.name = "cross join"
	default:
		d.name = joinName("nested loop", n.Kind)
	}
	if n.Apply {
		d.add("outer", d.x.columns(n.Outer))
	}
	d.filter("on", n.On)
	d.input(n.Left)
	d.input(n.Right)
}

func (n *GroupNode) describe(d *description) {
	switch {
	case len(n.Group) == 0:
		d.name = "aggregate"
	case n.Streaming:
		d.name = "group (streaming)"
	default:
		d.name = "group (hash)"
	}
	d.add("group by", d.x.columns(n.Group))
	var parts []string
	for _, a := range n.Aggs {
		parts = append(parts, d.x.aggregate(a.Agg))
	}
	d.add("aggregates", strings.Join(parts, ", "))
	d.input(n.Input)
}

func (n *WindowNode) describe(d *description) {
	d.name = "window"
	for i := range n.Items {
		d.add(d.x.column(n.Items[i].Col), d.x.window(&n.Items[i]))
	}
	d.input(n.Input)
}

func (n *DistinctNode) describe(d *description) {
	d.name = "distinct (hash)"
	if n.Streaming {
		d.name = "distinct (streaming)"
	}
	d.add("on", d.x.columns(n.On))
	d.input(n.Input)
}

func (n *SetOpNode) describe(d *description) {
	d.name = [...]string{"union", "intersect", "except"}[n.Kind]
	if n.All {
		d.name += " all"
	}
	d.input(n.Left)
	d.input(n.Right)
}

func (n *SortNode) describe(d *description) {
	d.name = "sort"
	if n.TopK != nil {
		d.name = "top-k sort"
		d.add("k", d.x.count(n.TopK))
	}
	d.add("order", d.x.order(n.By))
	if n.Prefix > 0 {
		d.add("already ordered", d.x.order(n.By[:n.Prefix]))
	}
	d.input(n.Input)
}

func (n *LimitNode) describe(d *description) {
	d.name = "limit"
	if n.Count != nil {
		d.add("count", d.x.count(n.Count))
	}
	if n.Offset != nil {
		d.add("offset", d.x.count(n.Offset))
	}
	d.input(n.Input)
}

func (n *WithNode) describe(d *description) {
	d.name = "with " + n.Name
	d.in = append(d.in, branch{"main", n.Main}, branch{n.Name, n.Binding})
	if n.Recursive != nil {
		d.name = "with recursive " + n.Name
		d.in = append(d.in, branch{"recursive term", n.Recursive})
	}
}

func (n *WithScanNode) describe(d *description) {
	d.name = "scan of with " + n.Name
}

func (n *InsertNode) describe(d *description) {
	d.name = "insert " + n.Stmt.Table.Name
	if n.Stmt.Upsert {
		d.name = "upsert " + n.Stmt.Table.Name
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
		d.add("on conflict", strings.TrimSpace(strings.Join(names, ", ")+" "+what))
		d.add("replaces the row", c.Physical)
		if len(c.Commutes) > 0 {
			d.add("commutes, if there is a row", commuting(n.Stmt.Table, c.Commutes))
		}
	}
	d.input(n.Input)
}

func (n *UpdateNode) describe(d *description) {
	d.name = "update " + n.Stmt.Table.Name
	var parts []string
	for _, s := range n.Stmt.Set {
		parts = append(parts, n.Stmt.Table.Columns[s.Ordinal].Name)
	}
	d.add("set", strings.Join(parts, ", "))
	if n.Stmt.Physical != "" {
		d.add("replaces the row", n.Stmt.Physical)
	} else if len(n.Stmt.Commutes) > 0 {
		d.add("commutes", commuting(n.Stmt.Table, n.Stmt.Commutes))
	}
	d.input(n.Input)
}

func (n *DeleteNode) describe(d *description) {
	d.name = "delete " + n.Stmt.Table.Name
	d.input(n.Input)
}
