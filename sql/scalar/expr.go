package scalar

import "meridian/sql/types"

// ColumnID identifies a column within one statement; package opt's Metadata describes it. IDs start at 1.
type ColumnID int32

// Expr is a typed scalar expression. The concrete types are those of this file; all are immutable once bound.
type Expr interface {
	// Type of the value; never nil after binding.
	Type() *types.T
}

// Const is a literal or a folded expression.
type Const struct {
	Value types.Datum
	T     *types.T
}

// Column reads a column of the input row, or of an outer query's row (then it is a correlation).
type Column struct {
	ID ColumnID
	T  *types.T
	// Name is for printing only.
	Name string
}

// Placeholder is a parameter of a prepared statement; Index counts from 0.
type Placeholder struct {
	Index int
	T     *types.T
}

// Call applies a function or operator overload.
type Call struct {
	Func *Overload
	Args []Expr
	T    *types.T
}

// Cast converts; Explicit casts may truncate.
type Cast struct {
	Arg      Expr
	To       *types.T
	Explicit bool
	// At is the position in the statement's text of the literal that is cast, for errors; zero: unknown.
	At int
}

// And and Or have at least two arguments and follow three-valued logic.
type And struct{ Args []Expr }

// Or is a disjunction.
type Or struct{ Args []Expr }

// Not negates.
type Not struct{ Arg Expr }

// CmpOp is a comparison operator.
type CmpOp uint8

const (
	EQ CmpOp = iota
	NE
	LT
	LE
	GT
	GE
	// IsDistinct and IsNotDistinct treat NULL as a value.
	IsDistinct
	IsNotDistinct
)

// Compare compares two values of the same comparison family.
type Compare struct {
	Op          CmpOp
	Left, Right Expr
}

// IsNull is IS NULL, or IS NOT NULL if Negate.
type IsNull struct {
	Arg    Expr
	Negate bool
	// Whole asks whether a row value is NULL itself, and not whether its fields are.
	Whole bool
}

// IsBool is IS [NOT] TRUE and IS [NOT] FALSE.
type IsBool struct {
	Arg    Expr
	Want   bool
	Negate bool
}

// Case is the searched CASE; the simple one is bound to it with comparisons.
type Case struct {
	Whens []When
	Else  Expr // nil: NULL
	T     *types.T
}

// When is one branch of a Case.
type When struct{ Cond, Result Expr }

// Coalesce is the first argument that is not NULL.
type Coalesce struct {
	Args []Expr
	T    *types.T
}

// NullIf is NULL when the arguments are equal.
type NullIf struct{ Left, Right Expr }

// In is a comparison with a list of values.
type In struct {
	Arg    Expr
	List   []Expr
	Negate bool
}

// Quantified is "arg op ANY (array)" or "arg op ALL (array)"; Pred applies the operator to the two columns named
// by Left and Elem, so that any boolean operator can be quantified.
type Quantified struct {
	Arg   Expr
	Array Expr
	All   bool
	// Op compares one element: a Compare or Call whose arguments are Columns LeftID and ElemID.
	Op             Expr
	LeftID, ElemID ColumnID
}

// ArrayCtor is ARRAY[…].
type ArrayCtor struct {
	Elems []Expr
	T     *types.T
}

// ArrayIndex is a[i].
type ArrayIndex struct {
	Array, Index Expr
	T            *types.T
}

// RowCtor is ROW(…) and row comparisons' sides.
type RowCtor struct {
	Elems []Expr
	T     *types.T
}

// SubqueryKind is the form in which a subquery appears in an expression.
type SubqueryKind uint8

const (
	// SubqueryScalar yields one value, or NULL if there is no row; more than one row is an error.
	SubqueryScalar SubqueryKind = iota
	SubqueryExists
	// SubqueryAny is "arg op ANY (subquery)"; IN is its special case with EQ.
	SubqueryAny
	// SubqueryAll is "arg op ALL (subquery)"; NOT IN is its special case with NE.
	SubqueryAll
	// SubqueryArray is ARRAY(subquery).
	SubqueryArray
)

// Subquery embeds a relational expression. Plan is an opt.Rel before optimization and an opt.Node after it;
// this package does not look inside. Outer lists the columns of enclosing queries that it reads.
type Subquery struct {
	Kind  SubqueryKind
	Plan  any
	Outer []ColumnID
	T     *types.T
	// Arg, Op and Col are for SubqueryAny and SubqueryAll: Op is a boolean expression over Arg's value
	// (LeftID) and the subquery's single output column (Col).
	Arg    Expr
	Op     Expr
	LeftID ColumnID
	Col    ColumnID
	// Text is the subquery as it was written, with the operator of ANY and ALL, and Level the number of the query in which it stands.
	Text  string
	Level int
	// Repeats: the plan gives the same rows again for the same values of Outer.
	Repeats bool
}

// Default stands for the DEFAULT keyword in VALUES and SET; binding replaces it.
type Default struct{ T *types.T }

// AggFunc is one aggregate in a GROUP BY; it appears only in opt's grouping operators, never inside other scalars.
type AggFunc struct {
	Agg      *Aggregate
	Args     []Expr
	Distinct bool
	Filter   Expr // nil: all rows
	OrderBy  []AggOrder
	T        *types.T
}

// AggOrder orders the input of an aggregate such as array_agg and string_agg.
type AggOrder struct {
	Expr       Expr
	Desc       bool
	NullsFirst bool
}

// Type implements Expr for all nodes (scalar.S1).
func (e *Const) Type() *types.T       { return e.T }
func (e *Column) Type() *types.T      { return e.T }
func (e *Placeholder) Type() *types.T { return e.T }
func (e *Call) Type() *types.T        { return e.T }
func (e *Cast) Type() *types.T        { return e.To }
func (e *And) Type() *types.T         { return types.Bool }
func (e *Or) Type() *types.T          { return types.Bool }
func (e *Not) Type() *types.T         { return types.Bool }
func (e *Compare) Type() *types.T     { return types.Bool }
func (e *IsNull) Type() *types.T      { return types.Bool }
func (e *IsBool) Type() *types.T      { return types.Bool }
func (e *Case) Type() *types.T        { return e.T }
func (e *Coalesce) Type() *types.T    { return e.T }
func (e *NullIf) Type() *types.T      { return e.Left.Type() }
func (e *In) Type() *types.T          { return types.Bool }
func (e *Quantified) Type() *types.T  { return types.Bool }
func (e *ArrayCtor) Type() *types.T   { return e.T }
func (e *ArrayIndex) Type() *types.T  { return e.T }
func (e *RowCtor) Type() *types.T     { return e.T }
func (e *Subquery) Type() *types.T    { return e.T }
func (e *Default) Type() *types.T     { return e.T }
func (e *AggFunc) Type() *types.T     { return e.T }
