package opt

import (
	"strings"
)

// ExplainNode is a plan's node for EXPLAIN in the formats that programs read. Names are PostgreSQL's where they apply.
type ExplainNode struct {
	Node Node
	// Type is PostgreSQL's name of the operation, Relationship the node's role under its parent.
	Type, Relationship string
	Attributes         []ExplainAttribute
	Plans              []*ExplainNode
}

// ExplainAttribute is an attribute of a node: a text, or a list of texts.
type ExplainAttribute struct {
	Name string
	Text string
	List []string
}

// ExplainTree is Explain in the form that programs read.
func ExplainTree(p *Plan, opts ExplainOptions) *ExplainNode {
	x := explainer{meta: p.Meta, opts: opts, names: make(map[string]ColumnID)}
	x.decides = x.changes(p.Root)
	return x.tree(p.Root, "")
}

func (x *explainer) tree(n Node, relationship string) *ExplainNode {
	_, details, inputs := x.parts(n)
	t := &ExplainNode{Node: n, Relationship: relationship}
	text := func(name, value string) {
		if value != "" {
			t.Attributes = append(t.Attributes, ExplainAttribute{Name: name, Text: value})
		}
	}
	list := func(name, values string) {
		if values != "" {
			t.Attributes = append(t.Attributes, ExplainAttribute{Name: name, List: strings.Split(values, ", ")})
		}
	}
	join := func(how string, k JoinKind) {
		t.Type = how
		text("Join Type", map[JoinKind]string{InnerJoin: "Inner", LeftJoin: "Left", FullJoin: "Full", SemiJoin: "Semi", AntiJoin: "Anti"}[k])
	}
	names := map[string]string{"filter": "Filter", "spans": "Index Cond", "lookup": "Index Cond", "order": "Sort Key", "group by": "Group Key",
		"already ordered": "Presorted Key", "columns": "Output", "on": "Join Filter", "locking": "Locking"}
	modify := func(what, table string) {
		t.Type = "ModifyTable"
		text("Operation", what)
		text("Relation Name", table)
		text("Alias", table)
	}
	switch n := n.(type) {
	case *IndexScan:
		switch {
		case n.Spans == nil && n.Index.Primary:
			t.Type = "Seq Scan"
			delete(names, "spans")
		default:
			t.Type = "Index Scan"
			direction := "Forward"
			if n.Reverse {
				direction = "Backward"
			}
			text("Scan Direction", direction)
			text("Index Name", n.Index.Name)
			if n.Spans == nil {
				delete(names, "spans")
			}
		}
		text("Relation Name", n.Table.Name)
		text("Alias", n.Table.Name)
	case *LocalitySearch:
		t.Type = "Append"
	case *VirtualNode:
		t.Type = "Seq Scan"
		text("Relation Name", n.Table.Name)
		text("Alias", n.Table.Name)
	case *ValuesNode:
		if t.Type = "Values Scan"; len(n.Rows) == 1 {
			t.Type = "Result"
		}
	case *FilterNode, *ProjectNode:
		t.Type = "Result"
	case *ProjectSetNode:
		t.Type = "ProjectSet"
	case *IndexJoin:
		t.Type = "Index Scan"
		text("Index Name", n.Table.Primary().Name)
		text("Relation Name", n.Table.Name)
		text("Alias", n.Table.Name)
	case *LockNode:
		t.Type = "LockRows"
	case *LookupJoin:
		join("Nested Loop", n.Kind)
		text("Index Name", n.Index.Name)
		text("Relation Name", n.Table.Name)
		text("Alias", n.Table.Name)
	case *HashJoin:
		join("Hash Join", n.Kind)
		names["on"] = "Hash Cond"
	case *MergeJoin:
		join("Merge Join", n.Kind)
		names["on"] = "Merge Cond"
	case *InterleavedJoin:
		t.Type = "Interleaved Join"
		of := make([]string, len(n.Tables))
		for i := range n.Tables {
			of[i] = n.Tables[i].Table.Name
		}
		list("Relation Names", strings.Join(of, ", "))
		text("Index Name", n.Tables[0].Table.Primary().Name)
	case *NestedLoop:
		join("Nested Loop", n.Kind)
	case *GroupNode:
		t.Type = "Aggregate"
		strategy := "Hashed"
		switch {
		case len(n.Group) == 0:
			strategy = "Plain"
		case n.Streaming:
			strategy = "Sorted"
		}
		text("Strategy", strategy)
	case *WindowNode:
		t.Type = "WindowAgg"
	case *DistinctNode:
		if t.Type = "HashAggregate"; n.Streaming {
			t.Type = "Unique"
		}
		names["on"] = "Group Key"
	case *SetOpNode:
		switch {
		case n.Kind == 0 && n.All:
			t.Type = "Append"
		case n.Kind == 0:
			t.Type = "HashAggregate"
		default:
			t.Type = "SetOp"
			command := [...]string{"", "Intersect", "Except"}[n.Kind]
			if n.All {
				command += " All"
			}
			text("Command", command)
		}
	case *SortNode:
		if t.Type = "Sort"; n.Prefix > 0 {
			t.Type = "Incremental Sort"
		}
	case *LimitNode:
		t.Type = "Limit"
	case *WithNode:
		if t.Type = "CTE"; n.Recursive != nil {
			t.Type = "Recursive Union"
		}
		text("CTE Name", n.Name)
	case *WithScanNode:
		t.Type = "CTE Scan"
		text("CTE Name", n.Name)
	case *InsertNode:
		modify("Insert", n.Stmt.Table.Name)
	case *UpdateNode:
		modify("Update", n.Stmt.Table.Name)
	case *DeleteNode:
		modify("Delete", n.Stmt.Table.Name)
	default:
		t.Type = "Result"
	}
	if x.opts.Verbose {
		details = append(details, detail{"columns", x.columns(n.Columns())})
	}
	for _, d := range details {
		name := names[d.key]
		if name == "" {
			name = titled(d.key)
		}
		switch d.key {
		case "order", "already ordered", "group by", "columns":
			list(name, d.value)
		default:
			text(name, d.value)
		}
	}
	for i, in := range inputs {
		how := "Outer"
		switch {
		case strings.HasSuffix(in.label, "subquery"):
			how = "SubPlan"
		case in.label != "" && in.label != "main":
			how = "InitPlan"
		case i > 0:
			how = "Inner"
		}
		t.Plans = append(t.Plans, x.tree(in.node, how))
	}
	return t
}

// titled begins each word with a capital.
func titled(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}
