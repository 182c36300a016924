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
	// Stable functions do not change within a statement.
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
	// CalledOnNull means that Eval wants to see NULL arguments; else any NULL makes the result NULL.
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
	// Stream, if not nil, is a Set whose rows come one by one, each good until the next one; nil ends them.
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
	// NewTyped, if not nil, is used instead of New by those that need the static types of the arguments.
	NewTyped func(args []*types.T) Accumulator
	OID      uint32
}

// Accumulator is the state of one aggregate over one group. What it keeps it takes of the context's memory; the caller
// measures that, and gives it back with the state. What Result takes is returned by Context.Settle.
type Accumulator interface {
	Add(ctx *Context, args []types.Datum) error
	Result(ctx *Context) (types.Datum, error)
}

// Context is what evaluation may use of the session and the transaction.
type Context struct {
	context.Context
	// StatementTime and TxnTime are now() for their scopes.
	StatementTime, TxnTime time.Time
	// Clock reads the node's clock, for clock_timestamp().
	Clock    func() time.Time
	Location *time.Location
	// Style is how values are written as text; nil is the default in Location.
	Style  *types.Style
	Params []types.Datum
	// Outer has the values of the enclosing queries' columns, for correlated subqueries.
	Outer map[ColumnID]types.Datum
	Env   Environment
	// Memory accounts for large values; nil bounds nothing (S6).
	Memory *memory.Account
	// pending is what the running call has taken of it.
	pending int64
}

// PrivilegeQuestion is what has_table_privilege and its kin ask.
type PrivilegeQuestion struct {
	// Kind is table, column, any column, sequence, schema, database, function, type, language, tablespace, server,
	// foreign-data wrapper or role.
	Kind string
	// Role is a name or an OID; Current asks for the current role instead.
	Role    types.Datum
	Current bool
	// On is the object's name or OID, Column the name or number of the column.
	On, Column types.Datum
	Privilege  string
}

// SizePart is what pg_table_size and its like ask of.
type SizePart uint8

const (
	// SizeOfTable is the table's rows, or an index.
	SizeOfTable SizePart = iota
	SizeOfIndexes
	SizeOfTotal
	SizeOfDatabase
	// SizeOfAll is all that is stored.
	SizeOfAll
)

// Environment answers what functions ask of the session and the catalogue; package session implements it.
type Environment interface {
	CurrentUser() string
	SessionUser() string
	CurrentDatabase() string
	SearchPath(implicit bool) []string
	Setting(name string) (string, bool)
	SetSetting(name, value string, local bool) error
	Random() float64
	// SetSeed begins a series of numbers of Random's, which a seed between -1 and 1 names.
	SetSeed(seed float64)
	RandomUUID() [16]byte
	UniqueRowID() int64
	NextVal(ctx context.Context, sequence string) (int64, error)
	// NextIdentity is NextVal for an identity column, which needs no right to the sequence.
	NextIdentity(ctx context.Context, sequence string) (int64, error)
	CurrVal(ctx context.Context, sequence string) (int64, error)
	SetVal(ctx context.Context, sequence string, value int64, called bool) error
	LastVal(ctx context.Context) (int64, error)
	// SerialSequence is the qualified name of the sequence that a column owns; empty if there is none.
	SerialSequence(table, column string) (string, error)
	// SequenceLast is the last number taken from a sequence; called says that there was one.
	SequenceLast(ctx context.Context, sequence string) (last int64, called bool, err error)
	// SequenceParameters is the row of pg_sequence_parameters.
	SequenceParameters(ctx context.Context, oid uint32) (types.Row, error)
	BackendPID() int32
	// BlockingPIDs are the sessions for whose locks another one waits.
	BlockingPIDs(ctx context.Context, pid int32) ([]int32, error)
	// CancelBackend and TerminateBackend are pg_cancel_backend and pg_terminate_backend.
	CancelBackend(ctx context.Context, pid int32, terminate bool) (bool, error)
	// AwaitBackend waits until a session that was terminated has ended, for some milliseconds, and reports whether it has.
	AwaitBackend(ctx context.Context, pid int32, ms int64) (bool, error)
	// ResolveRegClass and friends turn names into OIDs and back.
	ResolveReg(kind types.Kind, name string) (uint32, error)
	RegName(kind types.Kind, oid uint32) string
	// TableIsVisible says whether an unqualified use of the relation's name finds it.
	TableIsVisible(oid uint32) bool
	// Definition texts for pg_get_indexdef and friends; empty if unknown.
	IndexDef(oid uint32, column int) string
	ConstraintDef(oid uint32, pretty bool) string
	ViewDef(oid uint32) string
	ColumnDefault(table uint32, attnum int) string
	// PrettyExpr writes what pg_get_expr shows of a stored expression with the parentheses alone that a reader needs.
	PrettyExpr(text string) string
	// Size is about how many bytes a part of what an OID names has; ok is false if it names nothing. DatabaseOID finds a database.
	Size(ctx context.Context, part SizePart, oid uint32) (bytes int64, ok bool, err error)
	DatabaseOID(ctx context.Context, name string) (uint32, error)
	IsTable(oid uint32) bool
	// Client is where the session's client is; empty: it does not come by an address.
	Client() (addr string, port int)
	// CurrentQuery is the text that the client sent.
	CurrentQuery() string
	HasPrivilege(q PrivilegeQuestion) (types.Datum, error)
	RunSubquery(ctx *Context, q *Subquery) (types.Datum, error)
	NodeID() int32
	ClusterTimestamp() string
	Sleep(ctx context.Context, d time.Duration) error
	// AdvisoryLock takes an advisory lock, and reports whether it was free if it is not to wait. AdvisoryUnlock gives back one of the
	// session's level, and reports whether there was one.
	AdvisoryLock(ctx context.Context, l AdvisoryLock) (bool, error)
	AdvisoryUnlock(ctx context.Context, l AdvisoryLock) (bool, error)
	AdvisoryUnlockAll(ctx context.Context)
	// Notify has a notification sent when the transaction commits. Listening are the channels on which the session listens.
	Notify(channel, payload string) error
	Listening() []string
	// TransactionNumber is a number that no other transaction has; zero if it has none yet and does not need one.
	TransactionNumber(assign bool) int64
}

// AdvisoryLock names an advisory lock and says how it is wanted.
type AdvisoryLock struct {
	ID            int64
	Class, Object int32
	Two           bool // it is named by Class and Object
	Shared        bool
	Transaction   bool // until the transaction ends
	Try           bool // it does not wait
}
