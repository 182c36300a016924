package opt

import (
	"meridian/clock"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
)

// Node is a physical operator, made by Optimize and run by package exec. Every node lists the columns that its
// rows carry, in slot order. Nodes are immutable and shared by concurrent executions of a cached plan; parameters
// are read at run time.
type Node interface {
	Columns() []ColumnID
	// Estimate is the optimizer's guess, for EXPLAIN.
	Estimate() *Estimate
}

// Estimate of a node's output and the cost of it and its inputs.
type Estimate struct {
	Rows float64
	Cost float64
}

// Base is embedded by every node.
type Base struct {
	Cols []ColumnID
	Est  Estimate
}

// Columns and Estimate implement Node.
func (b *Base) Columns() []ColumnID { return b.Cols }
func (b *Base) Estimate() *Estimate { return &b.Est }

// Bound is one end of the range that follows an equality prefix in an index constraint. A nil Expr is open.
type Bound struct {
	Expr      scalar.Expr
	Inclusive bool
}

// SpanMode is the meaning of an expression in IndexSpan.Equal.
type SpanMode uint8

const (
	// SpanValue is a value; NULL makes the span empty.
	SpanValue SpanMode = iota
	// SpanNull says that the column IS NULL; there is no expression.
	SpanNull
	// SpanAny is an array: the column is equal to one of its elements.
	SpanAny
	// SpanSame is a value which the column IS NOT DISTINCT FROM.
	SpanSame
)

// IndexSpan constrains an index scan: the first len(Equal) key columns are equal to Equal, and the next one is
// between Low and High, and the further bounds Lows and Highs. Expressions are free of the scan's own columns; a NULL
// value makes the span empty. Open-ended ranges never include NULLs unless the bound is fully absent on both sides.
type IndexSpan struct {
	Equal       []scalar.Expr
	Modes       []SpanMode // of Equal; nil: all are values
	Low, High   Bound
	Lows, Highs []Bound
}

// Exprs calls f for all expressions of a span.
func (s *IndexSpan) Exprs(f func(scalar.Expr)) {
	for _, e := range s.Equal {
		if e != nil {
			f(e)
		}
	}
	for _, b := range [...]Bound{s.Low, s.High} {
		if b.Expr != nil {
			f(b.Expr)
		}
	}
	for _, list := range [...][]Bound{s.Lows, s.Highs} {
		for _, b := range list {
			f(b.Expr)
		}
	}
}

// IndexScan reads an index's spans in order. Cols are the needed columns; Ordinals[i] is Cols[i]'s ordinal in the table.
type IndexScan struct {
	Base
	Table    *catalog.Table
	Index    *catalog.Index
	Ordinals []int
	// Spans nil: the whole index. Spans may overlap at run time; exec sorts and merges them.
	Spans   []IndexSpan
	Reverse bool
	// Filter is applied to each row before it leaves.
	Filter []scalar.Expr
	// Limit is a hard bound on rows that leave, known at planning; zero: none. SoftLimit is an estimate of the rows that
	// the consumer will take.
	Limit, SoftLimit int64
	// Together says that the spans are of several regions, which are asked at the same time as far as the rows are expected to be few.
	Together bool
	// Alternatives, if not zero, is how many of the keys differ in the region only: at most one of them has a row.
	Alternatives int
	// SpanLimit, if not nil, is how many of the first rows of each region the consumer takes at most. It comes with Apart, and without Spans.
	SpanLimit scalar.Expr
	// Single says that the spans are unique keys: each yields at most one row (point lookups).
	Single bool
	// Follow says that the nodes which serve the entries are asked for the rows too to which they lead, for the index join that takes the scan's
	// rows. A row that does not come with its entry is fetched by the join.
	Follow  bool
	Locking Locking
	AsOf    clock.Timestamp
	// reads is the estimated number of rows that are read, before Filter, and width the bytes of one.
	reads, width float64
}

// VirtualNode reads a computed relation. Keys are conditions, all of them in Filter too, that let it compute fewer rows.
type VirtualNode struct {
	Base
	Table    *catalog.Table
	Ordinals []int
	Keys     []VirtualKey
	Filter   []scalar.Expr
}

// VirtualKey says that a column of a computed relation is equal to one of Values, or to an element of Array. They are
// free of the relation's columns.
type VirtualKey struct {
	Ordinal int
	Values  []scalar.Expr
	Array   scalar.Expr
}

// ValuesNode yields rows of expressions.
type ValuesNode struct {
	Base
	Rows [][]scalar.Expr
}

// FilterNode filters.
type FilterNode struct {
	Base
	Input  Node
	Filter []scalar.Expr
}

// ProjectNode computes Exprs[i] for column Cols[i]; a Column expression passes.
type ProjectNode struct {
	Base
	Input Node
	Exprs []scalar.Expr
}

// ProjectSetNode runs set-returning functions; Cols are the input's and then the functions'.
type ProjectSetNode struct {
	Base
	Input Node
	Funcs []SetFunc
}

// IndexJoin fetches rows of the primary index for the primary keys that Input yields. Cols are the needed table
// columns; KeyCols are the input's columns that make the primary key, in its order.
type IndexJoin struct {
	Base
	Input     Node
	Table     *catalog.Table
	Ordinals  []int
	KeyCols   []ColumnID
	Filter    []scalar.Expr
	Locking   Locking
	KeepOrder bool
}

// LookupJoin looks up, for every input row, the rows of spans of an index, whose expressions read the input's columns. Cols are
// the input's columns and then the looked-up ones (semi and anti: the input's only).
type LookupJoin struct {
	Base
	Kind     JoinKind // inner, left, semi, anti
	Input    Node
	Table    *catalog.Table
	Index    *catalog.Index
	Spans    []IndexSpan
	Right    []ColumnID
	Ordinals []int // of Right
	On       []scalar.Expr
	// Remote, if not nil, are further spans, of other regions than the gateway's. They are looked up only for input rows that have no match in
	// Spans: of a semi or an anti join, or with Single.
	Remote []IndexSpan
	// Single says that at most one row matches each input row.
	Single    bool
	Locking   Locking
	KeepOrder bool
}

// HashJoin builds on the right and probes with the left. Cols are left's and then right's (semi, anti: left's).
// LeftKeys and RightKeys are equal-length column lists; On is the rest of the condition.
type HashJoin struct {
	Base
	Kind                JoinKind
	Left, Right         Node
	LeftKeys, RightKeys []ColumnID
	On                  []scalar.Expr
}

// MergeJoin joins inputs ordered by the keys.
type MergeJoin struct {
	Base
	Kind                JoinKind
	Left, Right         Node
	LeftKeys, RightKeys []ColumnID
	// Desc[i] says that key i is ordered descending on both sides.
	Desc []bool
	On   []scalar.Expr
}

// InterleavedJoin reads spans of an index once, and from them the rows of a table and of others that are interleaved in it, each in the one before: it joins each with the one before by the
// whole primary key of that. Cols are the tables', one after the other.
type InterleavedJoin struct {
	Base
	Tables []InterleavedTable
	// Spans are spans of the primary index of the first table; nil: all of it. All that is below the first table's rows in them is read too.
	Spans []IndexSpan
	// SoftLimit is an estimate of the entries after which the consumer has enough rows; zero: it takes all.
	SoftLimit int64
	// Together says that the spans are few rows, of which many are read at the same time.
	Together bool
	// Narrow says that the spans are rows of the first table by their keys, and that of what is below them only that is read among which the second table's rows are. It comes with Together.
	Narrow bool
	// reads is the estimated number of rows that are read, and width the bytes of one.
	reads, width float64
}

// InterleavedTable is one of the tables of an InterleavedJoin.
type InterleavedTable struct {
	Table    *catalog.Table
	Cols     []ColumnID
	Ordinals []int
	// Kind is how the table is joined with those before: inner or left, and the last one perhaps semi or anti, of which no columns leave. The first table is inner.
	Kind JoinKind
	// On are the conditions of a match apart from the keys, over the columns of the table and those before.
	On []scalar.Expr
}

// scan is the scan of an interleaved join, as one of its first table.
func (n *InterleavedJoin) scan() *IndexScan {
	t := n.Tables[0].Table
	return &IndexScan{Base: Base{Est: Estimate{Rows: n.reads}}, Table: t, Index: t.Primary(), Spans: n.Spans, SoftLimit: n.SoftLimit, Together: n.Together, reads: n.reads, width: n.width}
}

// NestedLoop joins by trying every pair; for Apply the right side is run again for each left row, with the left
// row's columns as outer columns.
type NestedLoop struct {
	Base
	Kind        JoinKind
	Left, Right Node
	On          []scalar.Expr
	Apply       bool
	// Outer are the left columns that the right side reads (Apply). Repeats: it gives the same rows again for the same values.
	Outer   []ColumnID
	Repeats bool
}

// GroupNode groups. Streaming needs the input ordered by Group.
type GroupNode struct {
	Base      // Group columns, then the aggregates'
	Input     Node
	Group     []ColumnID
	Aggs      []AggItem
	Scalar    bool
	Streaming bool
}

// WindowNode computes window functions over a materialised input.
type WindowNode struct {
	Base
	Input Node
	Items []WindowItem
}

// DistinctNode removes duplicates; Streaming needs the input ordered so that equal rows are neighbours. The first
// row of each group is kept.
type DistinctNode struct {
	Base
	Input     Node
	On        []ColumnID
	Streaming bool
}

// SetOpNode is UNION ALL (Union, All), or a hashed set operation.
type SetOpNode struct {
	Base
	Kind                SetOpKind
	All                 bool
	Left, Right         Node
	LeftCols, RightCols []ColumnID
}

// SortNode sorts. Prefix is how many leading columns the input is ordered by already. TopK bounds the rows kept if
// it is known at planning.
type SortNode struct {
	Base
	Input  Node
	By     []OrderColumn
	Prefix int
	TopK   scalar.Expr // count plus offset; nil: all
}

// LockNode locks, for each row of its input and in their order, the rows of tables that made it. If one of them has changed since it
// was read, what the query computes from it is computed again, by Steps.
type LockNode struct {
	Base   // the input's columns
	Input  Node
	Tables []LockedTable
	Steps  []LockStep
}

// LockedTable is a table of a LockNode. KeyCols are the input's columns that make the primary key, in its order, and Cols the columns that
// take the values of the row that is locked; Ordinals are theirs.
type LockedTable struct {
	Table    *catalog.Table
	KeyCols  []ColumnID
	Cols     []ColumnID
	Ordinals []int
	Locking  Locking
}

// LockStep is a part of a query that is computed again: its conditions, by which the row may drop out, and columns. With Nulls it is
// an outer join, whose Filter, if it no longer holds, makes these columns NULL.
type LockStep struct {
	Filter []scalar.Expr
	Nulls  []ColumnID
	Items  []ProjectItem
}

// LimitNode cuts.
type LimitNode struct {
	Base
	Input         Node
	Count, Offset scalar.Expr
}

// WithNode materialises a common table expression, then runs Main.
type WithNode struct {
	Base
	ID            int
	Name          string
	Binding       Node
	BindCols      []ColumnID // the order in which WithScanNode reads them
	Recursive     Node
	RecursiveCols []ColumnID
	RecursiveAll  bool
	Main          Node
}

// WithScanNode reads a materialised expression.
type WithScanNode struct {
	Base
	ID   int
	Name string
}

// InsertNode runs Insert.
type InsertNode struct {
	Base  // the returned columns
	Input Node
	Stmt  *Insert
	// AutoCommit says that nothing follows in the transaction, so the writes may go with the commit. Exec combines it
	// with what the session knows.
	AutoCommit bool
}

// UpdateNode runs Update.
type UpdateNode struct {
	Base
	Input      Node
	Stmt       *Update
	AutoCommit bool
}

// DeleteNode runs Delete.
type DeleteNode struct {
	Base
	Input      Node
	Stmt       *Delete
	AutoCommit bool
}

// Plan is the plan of a Query. It is immutable.
type Plan struct {
	Meta   *Metadata
	Root   Node
	Output []OutputColumn
	Tag    string
	// ReadOnly plans write nothing and lock nothing.
	ReadOnly bool
}
