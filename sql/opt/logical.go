package opt

import (
	"meridian/clock"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// ColumnID is scalar.ColumnID.
type ColumnID = scalar.ColumnID

// Metadata knows every column and table of one statement. Column identities are positions in Columns plus one.
type Metadata struct {
	Columns []ColumnMeta
	// Placeholders are the types of the statement's parameters.
	Placeholders []*types.T
	// Depends lists the descriptors that the plan was made from, with their versions: a cached plan is good for
	// as long as none has changed.
	Depends []Dependency
}

// ColumnMeta describes a column of a statement.
type ColumnMeta struct {
	Name string
	Type *types.T
	// Table and Column are set for columns that come from a table.
	Table  *catalog.Table
	Column catalog.ColumnID
	// Alias is the name of the relation in the query.
	Alias string
	// NotNull columns can't be NULL where they are produced.
	NotNull bool
}

// Dependency is a descriptor version.
type Dependency = catalog.Dependency

// Add makes a new column.
func (m *Metadata) Add(c ColumnMeta) ColumnID {
	m.Columns = append(m.Columns, c)
	return ColumnID(len(m.Columns))
}

// Column returns the description of a column.
func (m *Metadata) Column(id ColumnID) *ColumnMeta { return &m.Columns[id-1] }

// Rel is a logical relational expression, made by package bind and consumed by Optimize. Outer columns (columns
// of enclosing queries) may appear in its scalars: that is a correlation.
type Rel interface{ rel() }

// Locking is FOR UPDATE and FOR SHARE.
type Locking struct {
	Strength kv.LockStrength
	Wait     kv.WaitPolicy
	// Held says that the statement asks for the locks themselves: they are not lost without the transaction learning of
	// it.
	Held bool
	// Returned says that rows which a filter drops are not to be locked.
	Returned bool
	// Check says that the rows are looked up for a foreign key, which a lookup join then need not check again: below SERIALIZABLE it locks them, and they are checked at the
	// commit. Strength is zero.
	Check bool
}

// Scan reads a table. Cols has one column for each of Table.Columns (those not public included, as zero).
type Scan struct {
	Table   *catalog.Table
	Cols    []ColumnID
	Locking Locking
	// ForceIndex is table@index; zero: the optimizer chooses.
	ForceIndex catalog.IndexID
	// Above is the lock that an operator above takes of the rows (Lock); the scan itself takes none then.
	Above Locking
	// AsOf is a fixed read timestamp; zero: the transaction's.
	AsOf clock.Timestamp
	// Region is the expression, over Cols, of a region column that is computed; nil: there is none.
	Region scalar.Expr
}

// VirtualScan reads a computed relation (pg_catalog and friends).
type VirtualScan struct {
	Table *catalog.Table
	Cols  []ColumnID
}

// Values is a list of rows; no columns and one row is "SELECT without FROM".
type Values struct {
	Cols []ColumnID
	Rows [][]scalar.Expr
}

// Select filters. Filter is a conjunction list.
type Select struct {
	Input  Rel
	Filter []scalar.Expr
}

// Project computes columns and passes others.
type Project struct {
	Input Rel
	Items []ProjectItem
	Pass  []ColumnID
}

// ProjectItem is one computed column.
type ProjectItem struct {
	Col  ColumnID
	Expr scalar.Expr
}

// ProjectSet computes set-returning functions for each input row, side by side, padded with NULL; it is lateral:
// arguments may use the input's columns. In FROM without input, Input is the one-row Values.
type ProjectSet struct {
	Input Rel
	Funcs []SetFunc
}

// SetFunc is one set-returning call.
type SetFunc struct {
	Func *scalar.Overload
	Args []scalar.Expr
	Cols []ColumnID
	// Ordinality is the WITH ORDINALITY column; zero: none.
	Ordinality ColumnID
}

// JoinKind is the sort of a join.
type JoinKind uint8

const (
	InnerJoin JoinKind = iota
	LeftJoin
	RightJoin
	FullJoin
	SemiJoin
	AntiJoin
)

func (k JoinKind) String() string {
	return [...]string{"inner", "left", "right", "full", "semi", "anti"}[k]
}

// Join joins. A Lateral join's right side may use the left side's columns.
type Join struct {
	Kind        JoinKind
	Left, Right Rel
	On          []scalar.Expr // conjunction
	Lateral     bool
}

// GroupBy groups and aggregates. Scalar means no GROUP BY: exactly one row comes out, also for no input.
type GroupBy struct {
	Input  Rel
	Group  []ColumnID
	Aggs   []AggItem
	Scalar bool
}

// AggItem is one aggregate's output column.
type AggItem struct {
	Col ColumnID
	Agg *scalar.AggFunc
}

// Window computes window functions; input columns pass.
type Window struct {
	Input Rel
	Items []WindowItem
}

// WindowItem is one window function call. Func is a built-in window function's name (row_number, rank, ...) or
// empty, and then Agg is the aggregate.
type WindowItem struct {
	Col         ColumnID
	Func        string
	Args        []scalar.Expr
	Agg         *scalar.AggFunc
	PartitionBy []ColumnID
	OrderBy     []OrderColumn
	Frame       *WindowFrame // nil: default frame
	T           *types.T
}

// WindowFrame is an explicit frame.
type WindowFrame struct {
	Rows                   bool // else RANGE
	Start, End             FrameBound
	StartOffset, EndOffset scalar.Expr
}

// FrameBound is one end of a frame.
type FrameBound uint8

const (
	UnboundedPreceding FrameBound = iota
	OffsetPreceding
	CurrentRow
	OffsetFollowing
	UnboundedFollowing
)

// Distinct keeps the first row of each group of equal On columns, in the order of OrderBy if given (DISTINCT ON).
type Distinct struct {
	Input   Rel
	On      []ColumnID
	OrderBy []OrderColumn
}

// SetOpKind is UNION, INTERSECT or EXCEPT.
type SetOpKind uint8

const (
	Union SetOpKind = iota
	Intersect
	Except
)

// SetOp combines two inputs whose columns correspond by position; Out are the result's columns.
type SetOp struct {
	Kind                SetOpKind
	All                 bool
	Left, Right         Rel
	LeftCols, RightCols []ColumnID
	Out                 []ColumnID
}

// OrderColumn is one column of an ordering.
type OrderColumn struct {
	Col  ColumnID
	Desc bool
	// NullsFirst as resolved: PostgreSQL's default is last when ascending, first when descending.
	NullsFirst bool
}

// Sort orders.
type Sort struct {
	Input Rel
	By    []OrderColumn
}

// Limit cuts; nil means no count or no offset. The input's order is kept.
type Limit struct {
	Input         Rel
	Count, Offset scalar.Expr
}

// Lock stands where a query's locking clauses take effect: above its ORDER BY and below its LIMIT. It locks the rows of those scans
// below, down to the next Lock, whose Locking is Held.
type Lock struct {
	Input Rel
	// Inner says that the query is in FROM. Its order counts for the locks alone: the query around it sorts by itself, after they are taken.
	Inner bool
}

// With computes a common table expression once; Main and later bindings read it with WithScan.
type With struct {
	ID      int
	Name    string
	Binding Rel
	Cols    []ColumnID // of Binding
	// Recursive has the recursive term, which reads the working table with WithScan of the same ID.
	Recursive     Rel
	RecursiveCols []ColumnID
	RecursiveAll  bool // UNION ALL
	Main          Rel
}

// WithScan reads a common table expression under new column identities.
type WithScan struct {
	ID   int
	Name string
	Cols []ColumnID
}

// Insert adds rows. Input's column Source[i] goes to the table's i-th column (zero: column is not written by the
// statement and has no default; NULL). Defaults are already part of the input.
type Insert struct {
	Table  *catalog.Table
	Input  Rel
	Source []ColumnID
	Checks []CheckExpr
	// Conflict is ON CONFLICT; nil: an error.
	Conflict *Conflict
	// Upsert writes blindly where the primary key is the only index (UPSERT).
	Upsert bool
	// New are the columns under which RETURNING and checks see the row as written, one for each table column.
	New       []ColumnID
	Returning []ProjectItem // nil: none
}

// Conflict is ON CONFLICT [target] DO NOTHING or DO UPDATE.
type Conflict struct {
	// Arbiters are the unique indexes considered; empty: all.
	Arbiters []catalog.IndexID
	DoUpdate bool
	// Existing are the columns under which Set, Where and Checks see the row in the way; the row that was to be
	// inserted (excluded) is seen under Insert.Source's columns.
	Existing []ColumnID
	Set      []SetItem
	// Generated are the table's generated columns. They are computed after Set from the row as assigned, which they see under Insert.New, so
	// that no assigned value is computed twice.
	Generated []SetItem
	Where     []scalar.Expr
	Checks    []CheckExpr
	// Commutes and Physical are those of an Update of the row in the way. A row that is not there is inserted in any case.
	Commutes []Commuting
	Physical string
}

// SetItem assigns a table column, by ordinal.
type SetItem struct {
	Ordinal int
	Expr    scalar.Expr
}

// CheckExpr is a CHECK constraint over the New columns of the mutation.
type CheckExpr struct {
	Name string
	Expr scalar.Expr
}

// Update changes the rows that Input yields. Input passes all the table's columns as Old, and the new values as
// Set columns.
type Update struct {
	Table  *catalog.Table
	Input  Rel
	Old    []ColumnID // one for each table column
	Set    []SetColumn
	Checks []CheckExpr
	// New are the columns under which RETURNING and checks see the row as written.
	New       []ColumnID
	Returning []ProjectItem
	// Commutes are the assigned columns if each is only added to, in a table whose commit protocol makes use of that; else Physical says why it can't.
	Commutes []Commuting
	Physical string
}

// Commuting is a column that an UPDATE only adds to, with the bounds that the column has to keep.
type Commuting struct {
	Ordinal  int
	Min, Max int64
}

// SetColumn assigns the input's column to a table column, by ordinal.
type SetColumn struct {
	Ordinal int
	Col     ColumnID
}

// Delete removes the rows that Input yields.
type Delete struct {
	Table     *catalog.Table
	Input     Rel
	Old       []ColumnID
	Returning []ProjectItem
}

func (*Scan) rel()        {}
func (*VirtualScan) rel() {}
func (*Values) rel()      {}
func (*Select) rel()      {}
func (*Project) rel()     {}
func (*ProjectSet) rel()  {}
func (*Join) rel()        {}
func (*GroupBy) rel()     {}
func (*Window) rel()      {}
func (*Distinct) rel()    {}
func (*SetOp) rel()       {}
func (*Sort) rel()        {}
func (*Limit) rel()       {}
func (*Lock) rel()        {}
func (*With) rel()        {}
func (*WithScan) rel()    {}
func (*Insert) rel()      {}
func (*Update) rel()      {}
func (*Delete) rel()      {}

// Query is a bound statement that reads or changes rows: what package bind makes and Optimize takes.
type Query struct {
	Meta *Metadata
	Root Rel
	// Output are the visible result columns, in order; empty for a mutation without RETURNING.
	Output []OutputColumn
	// Tag is the command tag's verb: SELECT, INSERT, UPDATE, DELETE.
	Tag string
	// Order is the order of the result, by the statement's ORDER BY.
	Order []OrderColumn
}

// OutputColumn is a result column: name and identity.
type OutputColumn struct {
	Name string
	Col  ColumnID
	Type *types.T
}
