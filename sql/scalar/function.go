package scalar

import (
	"context"
	"time"

	"meridian/sql/memory"
	"meridian/sql/types"
)

// Volatility says when a call may be folded or moved.
type Volatility uint8

const (
	// Immutable functions depend on their arguments only.
	Immutable Volatility = iota
	// Stable functions return the same for the same arguments within a statement.
	Stable
	Volatile
)

// Overload is one signature of a function or operator.
type Overload struct {
	Name     string // lower case; operators by their symbol
	Args     []*types.T
	Variadic bool // the last argument repeats
	Return   *types.T
	// ReturnFrom computes the type from the arguments' types, for polymorphic functions; nil: Return.
	ReturnFrom func(args []*types.T) *types.T
	Volatility Volatility
	// CalledOnNull says that Eval is called with NULL arguments; else any NULL makes the result NULL.
	CalledOnNull bool
	Eval         func(ctx *Context, args []types.Datum) (types.Datum, error)
	// Eval1 and Eval2 are Eval for one and two arguments without a slice; nil if there is none.
	Eval1 func(ctx *Context, a types.Datum) (types.Datum, error)
	Eval2 func(ctx *Context, a, b types.Datum) (types.Datum, error)
	// Prepare, if not nil, returns an Eval specialised to the arguments that are constant (known[i] true), such as a
	// compiled pattern, or nil.
	Prepare func(args []types.Datum, known []bool) func(ctx *Context, args []types.Datum) (types.Datum, error)
	// TypedEval makes an Eval that knows the static types of the arguments, for functions over "any".
	TypedEval func(args []*types.T) func(ctx *Context, args []types.Datum) (types.Datum, error)
	// Set makes it a set-returning function for FROM; Eval is nil then. ReturnNames are the column names.
	Set func(ctx *Context, args []types.Datum) ([]types.Row, error)
	// Stream, if not nil, is a Set whose rows come one by one, each valid until the next one; nil is the end.
	Stream      func(ctx *Context, args []types.Datum) (next func() (types.Row, error), err error)
	ReturnTypes []*types.T
	ReturnNames []string
	OID         uint32
}

// Aggregate is one aggregate function's signature.
type Aggregate struct {
	Name   string
	Args   []*types.T
	Return *types.T
	// ReturnFrom computes the type for polymorphic aggregates; nil: Return.
	ReturnFrom func(args []*types.T) *types.T
	New        func() Accumulator
	// NewTyped, if not nil, is used instead of New by aggregates that need the static types of the arguments.
	NewTyped func(args []*types.T) Accumulator
	OID      uint32
}

// Accumulator is the state of one aggregate over one group. Its state is accounted for in the context's memory; the caller
// measures that, and gives it back with the state. Context.Settle releases the memory of Result.
type Accumulator interface {
	Add(ctx *Context, args []types.Datum) error
	Result(ctx *Context) (types.Datum, error)
}

// Context is the part of the session and the transaction that evaluation may use.
type Context struct {
	context.Context
	// StatementTime and TxnTime are now() for their scopes.
	StatementTime, TxnTime time.Time
	// Clock reads the node's clock, for clock_timestamp().
	Clock func() time.Time
	// FollowerReadLag is how far before the statement follower_read_timestamp() lies.
	FollowerReadLag time.Duration
	Location        *time.Location
	// Style is the style in which values are written as text; nil: the default in Location.
	Style  *types.Style
	Params []types.Datum
	// Outer has the values of the enclosing queries' columns, for correlated subqueries.
	Outer map[ColumnID]types.Datum
	Env   Environment
	// Subqueries runs the subqueries of the expression; nil: it may have none.
	Subqueries Subqueries
	// Memory accounts for large values; nil bounds nothing (scalar.S6).
	Memory *memory.Account
	// pending is the part of it that the running call has taken.
	pending int64
}

// Subqueries runs the subqueries that expressions have; package exec does.
type Subqueries interface {
	// RunSubquery returns the subquery's value, for the values of outer columns in ctx.
	RunSubquery(ctx *Context, q *Subquery) (types.Datum, error)
}

// Environment is the part of the session that the functions of this package need: names of objects, and numbers of random(). Functions that need more
// are in packages of their own (sql/scalar/system), with a larger Environment.
type Environment interface {
	// ResolveReg and RegName turn names of objects, of regclass and its kin, into OIDs and back.
	ResolveReg(kind types.Kind, name string) (uint32, error)
	RegName(kind types.Kind, oid uint32) string
	Random() float64
	// SetSeed begins the series of numbers of Random that belongs to a seed between -1 and 1.
	SetSeed(seed float64)
}
