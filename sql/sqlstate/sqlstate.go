package sqlstate

import (
	"errors"
	"fmt"
)

// Code is a five-character SQLSTATE.
type Code string

// The codes in use. Every one has a script that provokes it.
const (
	SuccessfulCompletion       Code = "00000"
	Warning                    Code = "01000"
	FeatureNotSupported        Code = "0A000"
	CardinalityViolation       Code = "21000"
	StringTruncation           Code = "22001"
	NumericOutOfRange          Code = "22003"
	NullNotAllowed             Code = "22004"
	InvalidDatetimeFormat      Code = "22007"
	DatetimeOverflow           Code = "22008"
	DivisionByZero             Code = "22012"
	InvalidEscape              Code = "22025"
	InvalidParameterValue      Code = "22023"
	InvalidRegex               Code = "2201B"
	InvalidLimit               Code = "2201W"
	InvalidOffset              Code = "2201X"
	CharacterNotInRepertoire   Code = "22021"
	UntranslatableCharacter    Code = "22P05"
	InvalidTextRepresentation  Code = "22P02"
	InvalidBinaryForm          Code = "22P03"
	BadCopyFormat              Code = "22P04"
	NotNullViolation           Code = "23502"
	ForeignKeyViolation        Code = "23503"
	UniqueViolation            Code = "23505"
	CheckViolation             Code = "23514"
	ActiveTransaction          Code = "25001"
	ReadOnlyTransaction        Code = "25006"
	NoActiveTransaction        Code = "25P01"
	InFailedTransaction        Code = "25P02"
	IdleInTransactionTimeout   Code = "25P03"
	IdleSessionTimeout         Code = "57P05"
	InvalidStatementName       Code = "26000"
	InvalidAuthorization       Code = "28000"
	InvalidPassword            Code = "28P01"
	InvalidGrantor             Code = "0L000"
	InvalidGrantOperation      Code = "0LP01"
	PrivilegeNotGranted        Code = "01007"
	PrivilegeNotRevoked        Code = "01006"
	DependentObjectsExist      Code = "2BP01"
	InvalidCursorDefinition    Code = "42P11"
	InvalidCursorName          Code = "34000"
	InvalidSavepoint           Code = "3B001"
	InvalidCatalogName         Code = "3D000"
	InvalidSchemaName          Code = "3F000"
	SerializationFailure       Code = "40001"
	StatementCompletionUnknown Code = "40003"
	DeadlockDetected           Code = "40P01"
	SyntaxError                Code = "42601"
	InsufficientPrivilege      Code = "42501"
	CannotCoerce               Code = "42846"
	GroupingError              Code = "42803"
	WindowingError             Code = "42P20"
	InvalidForeignKey          Code = "42830"
	InvalidName                Code = "42602"
	ReservedName               Code = "42939"
	DatatypeMismatch           Code = "42804"
	IndeterminateDatatype      Code = "42P18"
	AmbiguousParameter         Code = "42P08"
	WrongObjectType            Code = "42809"
	UndefinedColumn            Code = "42703"
	UndefinedFunction          Code = "42883"
	UndefinedTable             Code = "42P01"
	UndefinedParameter         Code = "42P02"
	UndefinedObject            Code = "42704"
	DuplicateColumn            Code = "42701"
	NameTooLong                Code = "42622"
	DuplicateCursor            Code = "42P03"
	DuplicateDatabase          Code = "42P04"
	DuplicatePreparedStatement Code = "42P05"
	DuplicateSchema            Code = "42P06"
	DuplicateTable             Code = "42P07"
	DuplicateAlias             Code = "42712"
	DuplicateObject            Code = "42710"
	AmbiguousColumn            Code = "42702"
	AmbiguousFunction          Code = "42725"
	InvalidColumnReference     Code = "42P10"
	InvalidTableDefinition     Code = "42P16"
	InvalidDatabaseDefinition  Code = "42P12"
	InvalidObjectDefinition    Code = "42P17"
	InvalidRecursion           Code = "42P19"
	DiskFull                   Code = "53100"
	OutOfMemory                Code = "53200"
	TooManyConnections         Code = "53300"
	ConfigurationLimitExceeded Code = "53400"
	StatementTooComplex        Code = "54001"
	TooManyColumns             Code = "54011"
	TooManyArguments           Code = "54023"
	ProgramLimitExceeded       Code = "54000"
	ObjectNotInPrerequisite    Code = "55000"
	NotInPrerequisiteState     Code = "55000"
	ObjectInUse                Code = "55006"
	CantChangeRuntimeParam     Code = "55P02"
	LockNotAvailable           Code = "55P03"
	QueryCanceled              Code = "57014"
	// UnsatisfiableStaleness is CockroachDB's: no nearby replica can serve a read within its bound of staleness.
	UnsatisfiableStaleness Code = "XCUBS"
	// NotInHomeRegion and NoHomeRegion are CockroachDB's: a statement would leave its region, and the session forbids it (enforce_home_region).
	NotInHomeRegion  Code = "XCHR1"
	NoHomeRegion     Code = "XCHR2"
	AdminShutdown    Code = "57P01"
	CannotConnectNow Code = "57P03"
	IOError          Code = "58030"
	// SnapshotTooOld: versions that a read at that time would see were removed.
	SnapshotTooOld    Code = "72000"
	ProtocolViolation Code = "08P01"
	ConnectionFailure Code = "08006"
	InternalError     Code = "XX000"
	DataCorrupted     Code = "XX001"
)

// Error is an error as a client gets it. Only Code and Message are always set.
type Error struct {
	Code       Code
	Message    string
	Detail     string
	Hint       string
	Position   int // 1-based character position in the statement text; 0 if unknown
	Schema     string
	Table      string
	Column     string
	DataType   string
	Constraint string
	// Context says where the error occurred, such as in which line of COPY's data.
	Context string
	// TableID is Table's identity, from which the session finds its schema; zero: unknown.
	TableID uint32
	// Values is a detail that shows values of rows; it becomes Detail for roles that may read the table RowOf. Zero: there is none.
	RowOf  uint32
	Values string
	Cause  error
	// Routine is the field of that name, for the few errors that clients recognise by it.
	Routine string
}

// CachedPlan says that the columns of a prepared statement have changed. Drivers prepare it again when they see the routine's name.
func CachedPlan() *Error {
	return &Error{Code: FeatureNotSupported, Message: "cached plan must not change result type", Routine: "RevalidateCachedQuery"}
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.Cause }

// New makes an error of the given code.
func New(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// WithDetail sets the detail line and returns e.
func (e *Error) WithDetail(format string, args ...any) *Error {
	e.Detail = fmt.Sprintf(format, args...)
	return e
}

// WithHint sets the hint line and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// At sets the 1-based character position and returns e.
func (e *Error) At(pos int) *Error {
	e.Position = pos
	return e
}

// NearlyFull is the error of a write that is refused because a disk is nearly full.
func NearlyFull(reason string, cause error) *Error {
	return &Error{Code: DiskFull, Message: "disk full", Detail: reason,
		Hint: "Free space with TRUNCATE, DROP TABLE or DELETE, which takes effect within a minute or two, or add some to the node's disk.", Cause: cause}
}

// Is reports whether err is, or wraps, an *Error with code c.
func Is(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}

// TooDeep is the error for nesting that would exceed the stack of a statement.
func TooDeep() *Error {
	return New(StatementTooComplex, "stack depth limit exceeded").
		WithHint("Simplify the statement: its expressions, queries or values are nested too deeply.")
}
