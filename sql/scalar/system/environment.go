package system

import (
	"context"
	"time"

	"meridian/sql/scalar"
	"meridian/sql/types"
)

// PrivilegeQuestion is the question of has_table_privilege and the like.
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

// SizePart is the part of an object that pg_table_size and the like measure.
type SizePart uint8

const (
	// SizeOfTable is the size of a table's rows, or of an index.
	SizeOfTable SizePart = iota
	SizeOfIndexes
	SizeOfTotal
	SizeOfDatabase
	// SizeOfAll is the size of everything that is stored.
	SizeOfAll
)

// Environment is the part of the session and the catalogue that functions need; package session implements it.
type Environment interface {
	scalar.Environment
	CurrentUser() string
	SessionUser() string
	CurrentDatabase() string
	SearchPath(implicit bool) []string
	Setting(name string) (string, bool)
	SetSetting(name, value string, local bool) error
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
	// TableIsVisible says whether an unqualified use of the relation's name finds it.
	TableIsVisible(oid uint32) bool
	TypeIsVisible(oid uint32) bool
	// Description is the comment on an object of a catalogue such as pg_class, or on a column of it; empty: none.
	Description(class string, oid uint32, column int) string
	// Definition texts for pg_get_indexdef and friends; empty if unknown.
	IndexDef(oid uint32, column int) string
	ConstraintDef(oid uint32, pretty bool) string
	ViewDef(oid uint32, pretty bool) string
	// PrettyExpr is pg_get_expr's text of a stored expression with only the necessary parentheses.
	PrettyExpr(text string) string
	// Size is the approximate number of bytes in a part of the object with an OID; ok is false if there is no such object.
	// DatabaseOID finds a database.
	Size(ctx context.Context, part SizePart, oid uint32) (bytes int64, ok bool, err error)
	DatabaseOID(ctx context.Context, name string) (uint32, error)
	IsTable(oid uint32) bool
	// Client is the address of the session's client; empty: the connection has no address.
	Client() (addr string, port int)
	// CurrentQuery is the text that the client sent.
	CurrentQuery() string
	HasPrivilege(q PrivilegeQuestion) (types.Datum, error)
	NodeID() int32
	// GatewayRegion is the region of the session's node; empty: it has none.
	GatewayRegion() string
	// DatabaseRegions are the regions of the session's database; primary is empty if it has none.
	DatabaseRegions(ctx context.Context) (primary string, all []string, err error)
	// ValidateRegions fails if a configuration of the session's database is not the one that its regions decide.
	ValidateRegions(ctx context.Context) error
	ClusterTimestamp() string
	Sleep(ctx context.Context, d time.Duration) error
	// AdvisoryLock takes an advisory lock; without waiting (Try) it reports whether the lock was free. AdvisoryUnlock releases one of
	// the session's level, and reports whether there was one.
	AdvisoryLock(ctx context.Context, l AdvisoryLock) (bool, error)
	AdvisoryUnlock(ctx context.Context, l AdvisoryLock) (bool, error)
	AdvisoryUnlockAll(ctx context.Context)
	// Notify sends a notification when the transaction commits. Listening are the channels on which the session listens.
	Notify(channel, payload string) error
	Listening() []string
	// TransactionNumber is a number that no other transaction has; zero if it has none yet and does not need one.
	TransactionNumber(assign bool) int64
}

// AdvisoryLock names an advisory lock and the mode in which it is taken.
type AdvisoryLock struct {
	ID            int64
	Class, Object int32
	Two           bool // it is named by Class and Object
	Shared        bool
	Transaction   bool // until the transaction ends
	Try           bool // it does not wait
}
