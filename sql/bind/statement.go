package bind

import (
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Statement is a bound statement: a *Query, or one of the command structs of this file, or one of package parse's
// commands that need no binding (aliased here, so that callers need not import parse for them).
type Statement interface{}

// Query reads or changes rows.
type Query struct {
	*opt.Query
	// ParamTypes are the types of $1, $2, ..., given or inferred.
	ParamTypes []*types.T
	// AsOf is the AS OF SYSTEM TIME expression, free of columns; nil: none. See AsOfTimestamp.
	AsOf scalar.Expr
	// Access lists the privileges that the statement needs.
	Access []Access
	// Writes says that the statement changes rows or locks them.
	Writes bool
	Locks  bool
	// Locking is the first locking clause by name, as "FOR UPDATE"; empty: none.
	Locking string
}

// Access is a privilege needed on a relation.
type Access struct {
	Table *catalog.Table
	// As is the role that needs it: the owner of the view that reads the relation; empty: the current role.
	As         string
	Privileges catalog.Privileges
}

// Notice is a message that is not an error.
type Notice struct {
	Severity string // NOTICE or WARNING
	Code     string
	Message  string
	Hint     string
}

// Commands that package parse completes.
type (
	Begin              = parse.Begin
	Commit             = parse.Commit
	Rollback           = parse.Rollback
	Savepoint          = parse.Savepoint
	Release            = parse.Release
	RollbackTo         = parse.RollbackTo
	SetTransaction     = parse.SetTransaction
	TxnModes           = parse.TxnModes
	SetVar             = parse.SetVar
	ResetVar           = parse.ResetVar
	ShowVar            = parse.ShowVar
	SetClusterSetting  = parse.SetClusterSetting
	ShowClusterSetting = parse.ShowClusterSetting
	Execute            = parse.Execute
	Deallocate         = parse.Deallocate
	Fetch              = parse.Fetch
	CloseCursor        = parse.CloseCursor
	Discard            = parse.Discard
	Listen             = parse.Listen
	Unlisten           = parse.Unlisten
	Notify             = parse.Notify
	CreateRole         = parse.CreateRole
	AlterRole          = parse.AlterRole
	DropRole           = parse.DropRole
	ReassignOwned      = parse.ReassignOwned
	DropOwned          = parse.DropOwned
	RoleOptions        = parse.RoleOptions
	CopyOptions        = parse.CopyOptions
	// Prepare has the statement before binding: the session binds it with the given types.
	Prepare       = parse.Prepare
	DeclareCursor = parse.DeclareCursor
	// Explain has the statement before binding.
	Explain = parse.Explain
	Noop    = parse.Noop
	Cancel  = parse.Cancel
)

// Name is a fully qualified object name.
type Name = parse.Name

// Show is a SHOW that is not a query over virtual tables: see Show.What.
type Show struct {
	// The field What is RANGES, "CREATE TABLE", REGIONS, JOBS, SESSIONS, QUERIES, ... in upper case.
	What string
	// Table is the relation named by FROM TABLE or CREATE TABLE; nil if none.
	Table *catalog.Table
	Index *catalog.Index // of FROM INDEX; nil: the table and all its indexes
	// Database is the database named by FROM DATABASE, or the current one.
	Database string
	Details  bool
}

// Copy is COPY with its relation resolved.
type Copy struct {
	From bool
	// Table and Columns (ordinals in Table.Columns) for COPY FROM.
	Table   *catalog.Table
	Columns []int
	// Names are the column names, for a header.
	Names []string
	// Insert is the INSERT that COPY FROM carries out for each row, over parameters in the order of Columns: it has the
	// defaults of the other columns, the checks and the assignment of New columns.
	Insert *Query
	// Query is the query of COPY TO, also for a table.
	Query   *Query
	Target  string
	Program bool
	Options CopyOptions
}

// Vacuum and Analyze collect statistics; Tables nil means all of the current database. VACUUM without ANALYZE does
// nothing, with a notice.
type Vacuum struct {
	Analyze bool
	Tables  []*catalog.Table
	Notices []Notice
}

// Analyze is ANALYZE.
type Analyze struct{ Tables []*catalog.Table }

// SetConstraints is SET CONSTRAINTS; without names it means all. The names are looked up when it runs.
type SetConstraints = parse.SetConstraints

// LockTable is LOCK TABLE.
type LockTable struct {
	Tables []*catalog.Table
	Mode   string
	NoWait bool
}

// CreateDatabase is CREATE DATABASE.
type CreateDatabase struct {
	Name        string
	IfNotExists bool
	Owner       string
	// Regions is nil without clauses of regions.
	Regions *DatabaseRegions
	Notices []Notice
}

// DatabaseRegions are the clauses of regions of CREATE DATABASE, as they were written.
type DatabaseRegions struct {
	Primary, Secondary string
	Regions            []string
	Survival           catalog.Survival
	Witness            string
	// Restricted is PLACEMENT RESTRICTED, and Placed says that there is a clause PLACEMENT.
	Restricted, Placed bool
	Super              []catalog.SuperRegion
}

// DropDatabase is DROP DATABASE.
type DropDatabase struct {
	Name     string
	IfExists bool
	Cascade  bool
	Force    bool
}

// AlterDatabase renames a database or changes its owner or regions; one of the fields is set.
type AlterDatabase struct {
	Name   string
	Rename string
	Owner  string
	Region RegionAction
	// Set and Reset change the settings with which sessions begin; Roles says that the statement was ALTER ROLE ALL.
	Set   *SetVar
	Reset *parse.ResetVar
	Roles bool
}

// CreateSchema is CREATE SCHEMA.
type CreateSchema struct {
	Database    string
	Name        string
	IfNotExists bool
	Owner       string
}

// DropSchema is DROP SCHEMA.
type DropSchema struct {
	Database string
	Names    []string
	IfExists bool
	Cascade  bool
}

// AlterSchema renames a schema or changes its owner.
type AlterSchema struct {
	Database, Name string
	Rename, Owner  string
}

// ColumnDef defines a column.
type ColumnDef struct {
	Name    string
	Type    *types.T
	NotNull bool
	// Default and Generated are texts of expressions, which were validated, and which Binder.DefaultExpr and FollowsOf bind.
	Default   string
	Generated string
	// OnUpdate is the text of the value that an update gives to the column.
	OnUpdate string
	Hidden   bool
	// Identity is 'a', 'd' or 0.
	Identity byte
	// Sequence is the sequence to create and own for SERIAL and identity columns; Default refers to it by name.
	Sequence *CreateSequence
	Comment  string
}

// ConstraintKind is the kind of a constraint.
type ConstraintKind uint8

const (
	PrimaryKey ConstraintKind = iota
	Unique
	Check
	ForeignKey
)

// IndexColumnDef is a key column of an index by name.
type IndexColumnDef struct {
	Name string
	Desc bool
	// Class is an operator class that is not the type's default.
	Class string
}

// ConstraintDef defines a table constraint. Name is always set; for unnamed ones it is chosen as PostgreSQL does
// (t_pkey, t_a_key, t_a_check, t_a_fkey), free among the constraints of the statement and the table, and
// NameGiven is false.
type ConstraintDef struct {
	Kind      ConstraintKind
	Name      string
	NameGiven bool
	// copied says that LIKE has made the constraint.
	copied bool
	// node is a column's name in the text that defines the constraint.
	node string
	// Columns are the key columns of PRIMARY KEY and UNIQUE; for FOREIGN KEY the referencing columns.
	Columns []IndexColumnDef
	Storing []string
	// Predicate is a partial unique index's condition.
	Predicate string
	// Expr is a CHECK's condition, and ExprColumns are the columns that it reads.
	Expr        string
	ExprColumns []string
	// RefTable is the referenced table; RefSelf says that it is the table that is being created. RefColumns is never empty.
	RefTable           *catalog.Table
	RefSelf            bool
	RefColumns         []string
	OnDelete, OnUpdate catalog.Action
	// SetColumns are the columns that SET NULL or SET DEFAULT of OnDelete sets; nil: all.
	SetColumns []string
	MatchFull  bool
	// NotValid constraints hold for new rows only.
	NotValid bool
	// Deferrable and Deferred are catalog.ForeignKey's and catalog.Index's.
	Deferrable, Deferred bool
	// Partitioning is that of the index of a UNIQUE constraint.
	Partitioning *catalog.Partitioning
}

// IndexDef defines an index.
type IndexDef struct {
	Name      string
	Unique    bool
	Primary   bool
	Columns   []IndexColumnDef
	Storing   []string
	Predicate string
	// Deferrable, Deferred and Key are catalog.Index's.
	Deferrable, Deferred, Key bool
	Partitioning              *catalog.Partitioning
}

// CreateTable is CREATE TABLE. The primary key is among Constraints; without one, or with a deferrable one, the table gets the hidden column
// rowid (already in Columns and Constraints then, with ImplicitPrimary).
type CreateTable struct {
	Name        Name // qualified
	IfNotExists bool
	// Exists says that IF NOT EXISTS found a relation of the name: only the notice remains.
	Exists          bool
	Temporary       bool
	OnCommit        catalog.OnCommit
	Columns         []ColumnDef
	Constraints     []ConstraintDef
	Indexes         []IndexDef
	ImplicitPrimary bool
	Options         map[string]string
	Locality        catalog.Locality
	// RegionColumn is the column with each row's home, of a table that is REGIONAL BY ROW; else it is empty.
	RegionColumn string
	// InferRegion is the action's.
	InferRegion string
	// Parent is the table in which the rows are interleaved, and ParentKey the constraint by which each has a parent; nil: they are not.
	Parent    *catalog.Table
	ParentKey string
	// Partitioning is that of the primary index.
	Partitioning *catalog.Partitioning
	Protocol     catalog.CommitProtocol
	// Ballots and Gamma are the table's policy of ballots, as far as it says one.
	Ballots catalog.Ballots
	Gamma   int
	Notices []Notice
	// Materialized is CREATE MATERIALIZED VIEW: its query's text is View, it reads DependsOn, and relies on the keys of Keyed.
	Materialized bool
	View         string
	DependsOn    []catalog.ID
	Keyed        []catalog.ID
	// As is CREATE TABLE AS: the query that fills the table, its columns in the order of Columns (without rowid).
	As       *Query
	WithData bool
	// AsQuery says that it is CREATE TABLE AS, also if the table exists already.
	AsQuery bool
}

// RefreshView is REFRESH MATERIALIZED VIEW.
type RefreshView struct {
	View *catalog.Table
}

// DropRelation is DROP TABLE, VIEW, SEQUENCE and MATERIALIZED VIEW. Missing relations were left out with a notice (IF EXISTS).
type DropRelation struct {
	Kind catalog.Kind
	// Materialized is DROP MATERIALIZED VIEW; Kind is KindTable then.
	Materialized bool
	Tables       []*catalog.Table
	Cascade      bool
	Notices      []Notice
}

// AlterTable changes a table, view or sequence by a list of actions, all or none.
type AlterTable struct {
	Table *catalog.Table // nil: IF EXISTS and there is none
	// As is the kind of relation that the statement names: ALTER VIEW and ALTER SEQUENCE have command tags of their own.
	As catalog.Kind
	// Index is the index of an ALTER INDEX that changes its storage; empty: it is another statement.
	Index string
	// Materialized is ALTER MATERIALIZED VIEW.
	Materialized bool
	Actions      []AlterAction
	Notices      []Notice
}

// AlterAction is one of the Alter types below.
type AlterAction interface{ alterAction() }

type (
	// AddColumn adds a column; its constraints follow as AddConstraint actions.
	AddColumn struct {
		IfNotExists bool
		Column      ColumnDef
	}
	// DropColumn drops a column.
	DropColumn struct {
		Name     string
		IfExists bool
		Cascade  bool
	}
	// RenameColumn renames a column.
	RenameColumn struct{ From, To string }
	// RenameRelation renames the relation itself.
	RenameRelation struct{ To string }
	// RenameConstraint renames a constraint (and its index).
	RenameConstraint struct{ From, To string }
	// AddConstraint adds a constraint.
	AddConstraint struct {
		IfNotExists bool
		Constraint  ConstraintDef
	}
	// DropConstraint drops a constraint.
	DropConstraint struct {
		Name     string
		IfExists bool
		Cascade  bool
	}
	// AlterConstraint changes whether the check of a foreign key can be deferred.
	AlterConstraint struct {
		Name                 string
		Deferrable, Deferred bool
	}
	// ValidateConstraint validates a NOT VALID constraint.
	ValidateConstraint struct{ Name string }
	// AlterPrimaryKey replaces the primary key.
	AlterPrimaryKey struct{ Columns []IndexColumnDef }
	// SetNotNull is ALTER COLUMN SET NOT NULL.
	SetNotNull struct{ Column string }
	// DropNotNull is ALTER COLUMN DROP NOT NULL.
	DropNotNull struct{ Column string }
	// SetDefault is ALTER COLUMN SET DEFAULT, or DROP DEFAULT if Expr is empty.
	SetDefault struct{ Column, Expr string }
	// SetOnUpdate is ALTER COLUMN SET ON UPDATE, or DROP ON UPDATE if Expr is empty.
	SetOnUpdate struct{ Column, Expr string }
	// AlterColumnType changes a column's type; Using is the text of an expression over the row, or empty.
	AlterColumnType struct {
		Column string
		Type   *types.T
		// Using is the text of the new value, over the present row; Plain says that it is the value itself.
		Using string
		Plain bool
		// Varies says that two evaluations of Using may differ.
		Varies bool
	}
	// SetSchema moves the relation to another schema.
	SetSchema struct{ Schema string }
	// OwnerTo changes the owner.
	OwnerTo struct{ Owner string }
	// SetOptions sets storage parameters, which have no effect but are kept.
	SetOptions struct{ Options map[string]string }
	// SetProtocol gives the table another commit protocol.
	SetProtocol struct{ Protocol catalog.CommitProtocol }
	// SetBallots says in which ballots the table's rows are written, and SetGamma how many classic ones follow a collision; zero: the table does not say it any more.
	SetBallots struct{ Ballots catalog.Ballots }
	SetGamma   struct{ Gamma int }
	// InferRegion names the foreign key by which the regions of rows are found; empty: none.
	InferRegion struct{ Constraint string }
	// DropIdentity is ALTER COLUMN DROP IDENTITY.
	DropIdentity struct {
		Column   string
		IfExists bool
	}
	// AddIdentity is ALTER COLUMN ADD GENERATED AS IDENTITY.
	AddIdentity struct {
		Column   string
		Identity byte
		Sequence *CreateSequence
	}
	// AlterIdentity is ALTER COLUMN SET GENERATED, SET of options of its sequence, and RESTART. Identity is zero if it stays.
	AlterIdentity struct {
		Column   string
		Identity byte
		Sequence *AlterSequence
	}
)

func (*AddColumn) alterAction()          {}
func (*DropColumn) alterAction()         {}
func (*RenameColumn) alterAction()       {}
func (*RenameRelation) alterAction()     {}
func (*RenameConstraint) alterAction()   {}
func (*AddConstraint) alterAction()      {}
func (*DropConstraint) alterAction()     {}
func (*AlterConstraint) alterAction()    {}
func (*ValidateConstraint) alterAction() {}
func (*AlterPrimaryKey) alterAction()    {}
func (*SetNotNull) alterAction()         {}
func (*DropNotNull) alterAction()        {}
func (*SetDefault) alterAction()         {}
func (*SetOnUpdate) alterAction()        {}
func (*AlterColumnType) alterAction()    {}
func (*SetSchema) alterAction()          {}
func (*OwnerTo) alterAction()            {}
func (*SetLocality) alterAction()        {}
func (*SetOptions) alterAction()         {}
func (*SetProtocol) alterAction()        {}
func (*SetBallots) alterAction()         {}
func (*SetGamma) alterAction()           {}
func (*InferRegion) alterAction()        {}
func (*DropIdentity) alterAction()       {}
func (*AddIdentity) alterAction()        {}
func (*AlterIdentity) alterAction()      {}

// CreateIndex is CREATE INDEX. Exists says that IF NOT EXISTS found a relation of the name: only the notice remains.
type CreateIndex struct {
	Table        *catalog.Table
	Index        IndexDef
	Concurrently bool
	Exists       bool
	Notices      []Notice
}

// IndexRef names an index of a table.
type IndexRef struct {
	Table *catalog.Table
	Index *catalog.Index
}

// DropIndex is DROP INDEX; missing ones were left out with a notice.
type DropIndex struct {
	Concurrently bool
	Indexes      []IndexRef
	Cascade      bool
	Notices      []Notice
}

// RenameIndex is ALTER INDEX RENAME.
type RenameIndex struct {
	Ref IndexRef
	To  string
}

// CreateSequence is CREATE SEQUENCE.
type CreateSequence struct {
	Name        Name
	IfNotExists bool
	Temporary   bool
	Definition  catalog.Sequence
	// OwnedBy is "table.column"; both nil and empty: none.
	OwnerTable  *catalog.Table
	OwnerColumn string
	// Restart is the first number, if it is not the definition's.
	Restart *int64
}

// AlterSequence changes a sequence's definition; Restart also sets its value.
type AlterSequence struct {
	Table       *catalog.Table // nil: IF EXISTS and there is none
	Definition  catalog.Sequence
	Restart     *int64
	OwnerTable  *catalog.Table
	OwnerColumn string
	OwnerNone   bool
	Notices     []Notice
	// Late is the error of an option that is checked after the others, and after RESTART.
	Late error
}

// CreateView is CREATE VIEW. Query is the normalised text to store; Columns are the result's.
type CreateView struct {
	Name        Name
	Replace     bool
	IfNotExists bool
	Temporary   bool
	Columns     []ColumnDef
	Query       string
	DependsOn   []catalog.ID
	Keyed       []catalog.ID // catalog.Table.Keyed
	// Invoker says that the view reads with the rights of the role that uses it, not of its owner.
	Invoker bool
	Notices []Notice
}

// CreateType is CREATE TYPE ... AS ENUM.
type CreateType struct {
	Name        Name
	Temporary   bool
	IfNotExists bool
	Labels      []string
}

// AlterType changes an enum in one way.
type AlterType struct {
	Type *catalog.Type
	// ADD VALUE Add, at the end or next to another value.
	Adds          bool
	Add           string
	IfNotExists   bool
	Beside        string
	Before, After bool
	// RENAME VALUE RenameValue TO To.
	Renames         bool
	RenameValue, To string
	// DropsValue is DROP VALUE, which no enum knows.
	DropsValue    bool
	Rename        string
	Schema, Owner string
}

// DropType is DROP TYPE. Missing types were left out with a notice (IF EXISTS).
type DropType struct {
	Types   []*catalog.Type
	Cascade bool
	Notices []Notice
}

// Truncate empties tables, and those that reference them if Cascade.
type Truncate struct {
	Tables          []*catalog.Table
	RestartIdentity bool
	Cascade         bool
}

// Comment is COMMENT ON.
type Comment struct {
	Kind   string
	Name   Name
	Table  *catalog.Table // of TABLE, VIEW, SEQUENCE, COLUMN, INDEX, CONSTRAINT
	Column string
	Index  *catalog.Index
	// Constraint is the name of one of Table's.
	Constraint string
	Text       string
	// Type is that of COMMENT ON TYPE.
	Type *catalog.Type
}

// Grant is GRANT and REVOKE.
type Grant struct {
	Revoke      bool
	GrantOption bool
	Cascade     bool
	Privileges  []string // upper case; ALL
	// Class is the class of the objects that the statement names: ClassTable also for sequences, unless it says SEQUENCE.
	Class    catalog.Class
	Objects  []catalog.ID
	Roles    []string // membership
	Grantees []string
	Grantor  string // of GRANTED BY
}

// SplitAt is ALTER TABLE|INDEX ... SPLIT AT; each row is a prefix of the index's key columns, of their types.
type SplitAt struct {
	Table *catalog.Table
	Index *catalog.Index
	Rows  *Query
	// Unsplit and Scatter are the related statements; Rows may be nil.
	Unsplit bool
	All     bool
	Scatter bool
}
