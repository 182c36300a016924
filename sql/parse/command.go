package parse

import "meridian/sql/types"

// Name is a possibly qualified object name as written; missing parts are empty.
type Name struct {
	Database, Schema, Name string
}

// String is the name with its qualifiers, unquoted, as messages print it.
func (n Name) String() string {
	s := n.Name
	if n.Schema != "" {
		s = n.Schema + "." + s
	}
	if n.Database != "" {
		s = n.Database + "." + s
	}
	return s
}

// The commands below control transactions and sessions. They need no binding; package bind passes them on.

// TxnModes are the characteristics that BEGIN, SET TRANSACTION and SET SESSION CHARACTERISTICS give.
type TxnModes struct {
	// Isolation is "serializable", "repeatable read", "read committed", "read uncommitted", or empty.
	Isolation  string
	ReadOnly   *bool
	Deferrable *bool
	// AsOf is the text of the AS OF SYSTEM TIME expression; empty: none.
	AsOf string
}

// Begin is BEGIN and START TRANSACTION.
type Begin struct {
	Modes TxnModes
	// Start says that it was START TRANSACTION.
	Start bool
}

// Commit is COMMIT and END. Chain is AND CHAIN.
type Commit struct{ Chain bool }

// Rollback is ROLLBACK and ABORT.
type Rollback struct{ Chain bool }

// Savepoint is SAVEPOINT name.
type Savepoint struct{ Name string }

// Release is RELEASE SAVEPOINT name.
type Release struct{ Name string }

// RollbackTo is ROLLBACK TO SAVEPOINT name.
type RollbackTo struct{ Name string }

// SetTransaction is SET TRANSACTION, or SET SESSION CHARACTERISTICS if Session.
type SetTransaction struct {
	Modes   TxnModes
	Session bool
}

// SetVar is SET name = values; Default stands for DEFAULT. TIME ZONE is the name "timezone".
type SetVar struct {
	Name    string
	Values  []string
	Local   bool
	Default bool
}

// ResetVar is RESET name, and RESET ALL with an empty name.
type ResetVar struct{ Name string }

// ShowVar is SHOW name, and SHOW ALL with an empty name.
type ShowVar struct{ Name string }

// SetClusterSetting is SET CLUSTER SETTING name = value; the value is an expression's text, or Default.
type SetClusterSetting struct {
	Name    string
	Value   string
	Default bool
}

// ShowClusterSetting shows one cluster setting, or all with an empty name.
type ShowClusterSetting struct{ Name string }

// Show is SHOW TABLES and the like: The field What has upper-case words such as "TABLES", "CREATE TABLE", "RANGES".
type Show struct {
	What string
	// From is the kind after FROM: "TABLE", "INDEX", "DATABASE", "SCHEMA" or empty.
	From string
	Name Name
	// Index is the index of table@index.
	Index string
	// Details is WITH DETAILS.
	Details bool
}

// Explain wraps a statement.
type Explain struct {
	Analyze bool
	Verbose bool
	Costs   *bool
	Timing  *bool
	Summary *bool
	Buffers bool
	// Settings adds the settings that the session has changed; WAL is refused.
	Settings, WAL bool
	// Format is "text", "json", ... in lower case.
	Format string
	Stmt   *Statement
}

// Prepare is SQL-level PREPARE.
type Prepare struct {
	Name  string
	Types []*types.T
	// Named are the types that must be looked up in the catalogue; they are nil in Types.
	Named []NamedType
	Stmt  *Statement
}

// NamedType is the name of a type as it was written, its place in a list, and its position in the statement.
type NamedType struct {
	At   int
	Text string
	Pos  int
}

// Execute is SQL-level EXECUTE; Args are the texts of expressions.
type Execute struct {
	Name string
	Args []string
	// Positions are the positions of the arguments in the query string.
	Positions []int
}

// Deallocate drops a prepared statement, or all with an empty name.
type Deallocate struct{ Name string }

// DeclareCursor is DECLARE name CURSOR FOR query.
type DeclareCursor struct {
	Name   string
	Binary bool
	Scroll bool
	// NoScroll: NO SCROLL was given.
	NoScroll bool
	Hold     bool
	Stmt     *Statement
}

// FetchDirection is the direction of FETCH and MOVE.
type FetchDirection uint8

const (
	FetchForward FetchDirection = iota
	FetchBackward
	FetchAbsolute
	FetchRelative
)

// Fetch is FETCH and MOVE. All means no bound on Count.
type Fetch struct {
	Cursor    string
	Direction FetchDirection
	Count     int64
	All       bool
	Move      bool
}

// CloseCursor closes a cursor, or all with an empty name.
type CloseCursor struct{ Name string }

// Discard is DISCARD ALL, PLANS, SEQUENCES or TEMP.
type Discard struct{ What string }

// Copy is COPY in both directions. Exactly one of Table and Query is set.
type Copy struct {
	Table   Name
	Query   *Statement
	Columns []string
	From    bool // false: TO
	// Target is a file name or program; empty: the client (STDIN, STDOUT).
	Target  string
	Program bool
	Options CopyOptions
}

// CopyOptions are COPY's options with PostgreSQL's defaults filled in.
type CopyOptions struct {
	Format    string // "text", "csv", "binary"
	Delimiter byte
	Null      string
	Header    bool
	// HeaderMatch: the header must consist of the columns' names.
	HeaderMatch bool
	Quote       byte
	Escape      byte
	ForceQuote  []string // {"*"} is all
	// ForceNotNull and ForceNull are CSV input options.
	ForceNotNull, ForceNull []string
	Encoding                string
	Freeze                  bool
}

// Vacuum is VACUUM, which has no effect here but that of ANALYZE.
type Vacuum struct {
	Analyze bool
	Tables  []Name
	// Columns has the column names given for each table. They must exist; statistics are collected of all columns.
	Columns [][]string
}

// Analyze collects statistics; no table means all. Columns is as in Vacuum.
type Analyze struct {
	Tables  []Name
	Columns [][]string
}

// LockTable is LOCK TABLE.
type LockTable struct {
	Tables []Name
	Mode   string
	NoWait bool
}

// Listen is LISTEN channel.
type Listen struct{ Channel string }

// Unlisten with an empty channel is UNLISTEN *.
type Unlisten struct{ Channel string }

// Notify is NOTIFY channel, 'payload'.
type Notify struct{ Channel, Payload string }

// Truncate is TRUNCATE.
type Truncate struct {
	Tables          []Name
	RestartIdentity bool
	Cascade         bool
}

// Comment is COMMENT ON; Text is empty for NULL. Kind is upper case: TABLE, COLUMN, INDEX, DATABASE, SCHEMA, ...
type Comment struct {
	Kind   string
	Name   Name
	Column string // of COLUMN
	// Constraint is a constraint's name, Name then its table's.
	Constraint string
	Text       string
}

// RoleOptions are the options of CREATE and ALTER ROLE; nil is unchanged.
type RoleOptions struct {
	Login, Superuser, CreateDB, CreateRole, Inherit *bool
	// Password is set, or cleared if empty, when HasPassword.
	Password    string
	HasPassword bool
	// NullPassword says that PASSWORD NULL clears it.
	NullPassword bool
	ValidUntil   *string
	ConnLimit    *int
	// InRoles are the roles of which it becomes a member, Members and Admins those that become members of it.
	InRoles, Members, Admins []string
	// DropMembers says that Members cease to be members: ALTER GROUP ... DROP USER.
	DropMembers bool
}

// Names that stand for a role of the session, where a role may be named.
const (
	CurrentRole = "\x00current_role"
	SessionRole = "\x00session_user"
)

// CreateRole is CREATE USER and CREATE ROLE.
type CreateRole struct {
	Name        string
	IfNotExists bool
	User        bool
	Options     RoleOptions
}

// AlterRole is ALTER USER and ALTER ROLE.
type AlterRole struct {
	Name     string
	IfExists bool
	Options  RoleOptions
	Rename   string
	// Set and Reset are ALTER ROLE ... SET and RESET.
	Set   *SetVar
	Reset *ResetVar
	// Database limits Set and Reset to one database; empty: all of them.
	Database string
}

// DropRole is DROP USER and DROP ROLE.
type DropRole struct {
	Names    []string
	IfExists bool
}

// Grant is GRANT and REVOKE of privileges on objects, or of roles if Roles is set.
type Grant struct {
	Revoke      bool
	GrantOption bool // WITH GRANT OPTION, GRANT OPTION FOR
	Privileges  []string
	// Kind is TABLE, SEQUENCE, DATABASE, SCHEMA, FUNCTION, TYPE, LANGUAGE, "ALL TABLES IN SCHEMA", ...
	Kind     string
	Objects  []Name
	Roles    []string // role membership
	Grantees []string
	Grantor  string
	Cascade  bool
}

// ReassignOwned is REASSIGN OWNED BY.
type ReassignOwned struct {
	Roles []string
	To    string
}

// DropOwned is DROP OWNED BY.
type DropOwned struct {
	Roles   []string
	Cascade bool
}

// Noop is a statement that is accepted and has no effect, with a notice.
type Noop struct {
	Tag    string
	Notice string
	// More are further notices.
	More []string
}

// Cancel is CANCEL QUERY and CANCEL SESSION, and CANCEL JOB.
type Cancel struct {
	Kind string // QUERY, SESSION, JOB
	ID   string
}
