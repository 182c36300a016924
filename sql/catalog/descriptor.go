package catalog

import (
	"meridian/commit/protocol"
	"meridian/sql/types"
)

// ID identifies a descriptor. It is also the object's OID for PostgreSQL's catalogues.
type ID uint32

// ColumnID identifies a column within its table; never reused.
type ColumnID uint32

// IndexID identifies an index within its table; never reused. The primary index is 1 until it is replaced.
type IndexID uint32

// Reserved identities. User objects begin at FirstUserID, which is above every OID that PostgreSQL reserves.
const (
	FirstUserID ID = 16384
	// DescriptorTableID and NamespaceTableID hold the catalogue itself: see sql/catalog/lease.
	DescriptorTableID ID = 1
	NamespaceTableID  ID = 2
	SettingsTableID   ID = 3
	UsersTableID      ID = 4
	JobsTableID       ID = 5
	StatisticsTableID ID = 6
	LeaseTableID      ID = 7
	// Schemas that every database has.
	PGCatalogSchemaID   ID = 11
	PublicSchemaID      ID = 2200
	InformationSchemaID ID = 13000
)

// Identities of objects that one session keeps for itself (lease.Local) are from FirstLocalID to LastLocalID. All others are less;
// those of access control lists (ACLID) have one bit more, on either side.
const (
	FirstLocalID ID = 1 << 30
	LastLocalID  ID = 1<<31 - 1
)

// IsLocal reports whether an object, or the object of an access control list, belongs to one session alone: a temporary relation, or the
// schema of temporary relations.
func IsLocal(id ID) bool { return id&FirstLocalID != 0 }

// TemporarySchema is the name by which every session knows the schema of its own temporary relations.
const TemporarySchema = "pg_temp"

// OnCommit is what happens to a temporary table at the end of a transaction.
type OnCommit uint8

const (
	PreserveRows OnCommit = iota
	DeleteRows
	DropTable
)

// Database is a database as stored.
type Database struct {
	ID      ID
	Version uint64
	Name    string
	Owner   string
	// Schemas by name, public included.
	Schemas map[string]ID
	// PrimaryRegion is the home of tables that name none; empty: the database has no regions. Regions, sorted, has all of them.
	PrimaryRegion string
	// SecondaryRegion is where leaseholders go while the primary region is gone; empty: none.
	SecondaryRegion string `json:",omitempty"`
	Regions         []string
	// WitnessRegion has a voter without users' data of each range, if the database survives the failure of one of its two regions (Witnessed); it is not
	// one of Regions. Empty: none.
	WitnessRegion string `json:",omitempty"`
	// Changing are those of Regions that are being added or dropped. Replicas may be there, and no new rows or tables may have their home there; the enum
	// has their values as readable or leaving ones.
	Changing []string `json:",omitempty"`
	// RegionEnum is the type crdb_internal_region.
	RegionEnum ID       `json:",omitempty"`
	Survival   Survival `json:",omitzero"`
	// SurviveRegion was written before there were goals; it was never true.
	SurviveRegion bool `json:",omitempty"`
	// Restricted keeps replicas within their home region: PLACEMENT RESTRICTED.
	Restricted   bool          `json:",omitempty"`
	SuperRegions []SuperRegion `json:",omitempty"`
	// Zone is from ALTER DATABASE ... CONFIGURE ZONE, Extensions from ... ALTER LOCALITY ... CONFIGURE ZONE.
	Zone       *ZoneConfig     `json:",omitempty"`
	Extensions *ZoneExtensions `json:",omitempty"`
	// Placement is the option of the placement menu from ALTER DATABASE ... SET PLACEMENT; empty: none.
	Placement string `json:",omitempty"`
	Dropped   bool
	Comment   string `json:",omitempty"`
	// Settings are the settings with which sessions of the database begin.
	Settings []InitialSetting `json:",omitempty"`
}

// InitialSetting is a setting that sessions begin with: those of a database, of a role, or of a role in one database.
type InitialSetting struct {
	// Database limits a role's setting; zero: it counts in all.
	Database ID `json:",omitempty"`
	Name     string
	Value    string
}

// ExternalConsistency is the setting, of a session or a database, by which transactions are externally consistent. Of a database it is also a property of its tables.
const ExternalConsistency = "external_consistency"

// External reports whether the database is declared externally consistent.
func (d *Database) External() bool {
	for _, s := range d.Settings {
		if s.Database == 0 && s.Name == ExternalConsistency {
			return s.Value == "on"
		}
	}
	return false
}

// WithSetting is a list of settings with one set, or, if value is nil, without it. An empty name takes out all of the database's.
func WithSetting(list []InitialSetting, database ID, name string, value *string) []InitialSetting {
	var out []InitialSetting
	found := false
	for _, s := range list {
		if s.Database == database && (name == "" || s.Name == name) {
			if value == nil {
				continue
			}
			s.Value, found = *value, true
		}
		out = append(out, s)
	}
	if value != nil && !found {
		out = append(out, InitialSetting{Database: database, Name: name, Value: *value})
	}
	return out
}

// Schema is a namespace within a database.
type Schema struct {
	ID       ID
	Version  uint64
	Name     string
	Database ID
	Owner    string
	Dropped  bool
	Comment  string `json:",omitempty"`
}

// Type is an enum as stored. Columns of the type carry it with them (types.T.Enum), so that a change of the enum is a
// change of their tables, and is seen by plans as one.
type Type struct {
	ID       ID
	Version  uint64
	Database ID
	SchemaID ID
	Owner    string
	Dropped  bool
	Comment  string `json:",omitempty"`
	Enum     types.Enum
	// Job makes readable values public; zero: there are none.
	Job int64 `json:",omitempty"`
}

// Kind is what sort of relation a Table is.
type Kind uint8

const (
	KindTable Kind = iota
	KindView
	KindSequence
	// KindVirtual relations compute their rows: pg_catalog, information_schema, meridian_internal.
	KindVirtual
)

// State says how far a column, index or constraint under change has come (online schema change: CRDB'20 §5.4).
// A node never uses two versions of a table that are more than one apart (I7).
type State uint8

const (
	// Public parts are read and written.
	Public State = iota
	// WriteOnly parts are written by every change and read by none.
	WriteOnly
	// DeleteOnly parts are deleted from, not added to.
	DeleteOnly
	// Absent parts have a name and a configuration of their ranges. Nothing is written for them, not even a deletion.
	Absent
)

func (s State) String() string {
	return [...]string{"public", "write-only", "delete-only", "absent"}[s]
}

// Table is a relation as stored: a table, view or sequence.
type Table struct {
	laterTable //lint:ignore U1000 the build with the tag nextversion uses it
	ID         ID
	Version    uint64
	Name       string
	Database   ID
	Schema     ID
	Kind       Kind
	Owner      string
	Columns    []Column
	// Lookups are the columns by whose values a computed relation finds its rows without computing all of them.
	Lookups []ColumnID `json:"-"`
	// Empty says of a computed relation that it never has rows.
	Empty bool `json:"-"`
	// Materialized says that the table holds the rows of a materialized view, whose query is View; only REFRESH MATERIALIZED
	// VIEW changes them.
	Materialized bool `json:",omitempty"`
	// Indexes has the primary index first.
	Indexes []Index
	Checks  []Check
	Foreign []ForeignKey
	// ReferencedBy are foreign keys of other tables that point here: their table and constraint identities.
	ReferencedBy []Reference
	// UsedBy are views that read this relation.
	UsedBy     []ID
	NextColumn ColumnID
	NextIndex  IndexID
	NextConstr uint32

	// View has the query's text, with names qualified; DependsOn are the relations that it reads.
	View      string
	DependsOn []ID
	// Keyed are those of them whose primary key the query relies on: it groups by the key, and uses other columns. Views of earlier versions do not tell.
	Keyed    []ID `json:",omitempty"`
	Sequence *Sequence

	Locality Locality
	// RegionColumn has the home of each row of a table that is REGIONAL BY ROW; else it is zero.
	RegionColumn ColumnID `json:",omitempty"`
	// InferRegion is the foreign key, with the region column in it, by which a row is homed where its parent is; zero: none.
	InferRegion uint32 `json:",omitempty"`
	// Zone is from ALTER TABLE ... CONFIGURE ZONE.
	Zone *ZoneConfig `json:",omitempty"`
	// Placement is the option of the placement menu from ALTER TABLE ... SET PLACEMENT; empty: none.
	Placement string `json:",omitempty"`
	Protocol  CommitProtocol
	// External says that transactions which use the table are externally consistent, as its database says (ExternalConsistency).
	External bool `json:",omitempty"`
	// ShortChars says that values of char(n) are stored without their trailing blanks (rowcode.R5); it never changes.
	ShortChars bool `json:",omitempty"`
	// Reprotocol says that some ranges of the table may have the protocol still that it had before.
	Reprotocol bool `json:",omitempty"`
	// Ballots and Gamma are the policy of a table with the protocol fast_paxos, as far as it says one; see BallotPolicy.
	Ballots Ballots `json:",omitempty"`
	Gamma   int     `json:",omitempty"`
	Comment string
	// Options keeps storage parameters that have no effect, such as fillfactor.
	Options map[string]string
	Dropped bool
	// Reserved says that there is no table yet: the descriptor, which is Dropped, gives the ranges of one that a transaction is about to make their configuration.
	Reserved bool `json:",omitempty"`
	// Frozen tells which transactions may not begin to use this version, because another one has locked the table
	// (lease.L6 in sql/catalog/lease).
	Frozen Exclusion `json:",omitempty"`
	// DropTime is when it was dropped, in wall nanoseconds, for the removal of its data.
	DropTime int64
	// ImplicitPrimary says that the primary key is the hidden column rowid.
	ImplicitPrimary bool
	// Generation grows with TRUNCATE: indexes get new identities.
	Generation uint32
	// HistoryFrom is a time, in nanoseconds since 1970, before which indexes do not have the table's rows: they were
	// loaded, or an index was filled, about then. Zero: they always have.
	HistoryFrom int64 `json:",omitempty"`
	// Removed are indexes that are gone, with their configuration of ranges, as long as their data is there (region.RG1).
	Removed []Index `json:",omitempty"`
	// Mutations are the changes of columns, indexes and constraints that are under way: sql/schemachange.
	Mutations []Mutation
	// Relocation is a change to or from REGIONAL BY ROW that is under way; nil: none.
	Relocation *Relocation `json:",omitempty"`
	// Rewrite is a change of columns' types that is under way; nil: none.
	Rewrite *Rewrite `json:",omitempty"`
	// OnCommit applies to temporary tables.
	OnCommit OnCommit `json:",omitempty"`
	// Interleave says in which tables this one is interleaved; nil: in none. These members came with version.Interleaved.
	Interleave *Interleave `json:",omitempty"`
	// Interleaved are the tables that are interleaved in this one, without those in between.
	Interleaved []ID `json:",omitempty"`
	// Shared says that a table was interleaved in this one. It stays when that is dropped, whose rows are removed later.
	Shared bool `json:",omitempty"`
}

// Relocation is the locality that a table gets when new copies of its indexes, with or without the region in front, take their places.
type Relocation struct {
	Locality Locality
	// Column is the RegionColumn; zero: the table will have none.
	Column ColumnID `json:",omitempty"`
}

// Traits are what the commit protocols of all of the table's ranges have. While the protocol is being changed there are two.
func (t *Table) Traits() protocol.Traits {
	if t.Reprotocol {
		return t.Protocol.changing()
	}
	return t.Protocol.Traits()
}

// Temporary reports whether the relation belongs to one session.
func (t *Table) Temporary() bool { return IsLocal(t.ID) }

// Exclusion tells which transactions may not use a table that another one has locked.
type Exclusion uint8

const (
	// ExcludeNone keeps out only transactions that lock the table in this mode or a stricter one.
	ExcludeNone Exclusion = iota
	// ExcludeWriters keeps out transactions that change rows.
	ExcludeWriters
	// ExcludeLockers also keeps out transactions that lock rows.
	ExcludeLockers
	// ExcludeAll keeps out all other transactions.
	ExcludeAll
)

// Rewrite is a change of columns' types that is under way: indexes with Rewritten already have rows with the new types.
type Rewrite struct {
	Columns []RewriteColumn
}

// Has reports whether a column gets another type.
func (r *Rewrite) Has(id ColumnID) bool {
	for i := range r.Columns {
		if r.Columns[i].Column == id {
			return true
		}
	}
	return false
}

// RewriteColumn is a column that gets another type.
type RewriteColumn struct {
	Column ColumnID
	Type   *types.T
	// Expr is the SQL text of the new value, over the row as it is.
	Expr string
	// Default is the column's default after the rewrite.
	Default string
}

// Rewritten is the table as it will be after its rewrite: its columns have their new types.
func (t *Table) Rewritten() *Table {
	out := *t
	out.Columns = append([]Column(nil), t.Columns...)
	out.Rewrite = nil
	for _, r := range t.Rewrite.Columns {
		if c := out.Column(r.Column); c != nil {
			c.Type, c.Default = r.Type, r.Default
		}
	}
	return &out
}

// NameOf is the name by which users know an index: a rewritten one is known by that of the index that it will replace.
func (t *Table) NameOf(x *Index) string {
	if x.Rewritten {
		for i := range t.Indexes {
			if o := &t.Indexes[i]; o.OID == x.OID && !o.Rewritten {
				return o.Name
			}
		}
	}
	return x.Name
}

// SecurityInvoker is the option of a view that reads with the rights of the role that uses it.
const SecurityInvoker = "security_invoker"

// SecurityInvoker reports whether a view reads with the rights of the role that uses it, not of its owner.
func (t *Table) SecurityInvoker() bool { return t.Options[SecurityInvoker] == "true" }

// MutationKind is the kind of part that a Mutation changes.
type MutationKind uint8

const (
	MutateColumn MutationKind = iota
	MutateIndex
	MutateCheck
	MutateForeignKey
	// MutateNotNull turns a temporary check of a column into NOT NULL.
	MutateNotNull
)

// Mutation is a part of a table on its way to being public or gone.
type Mutation struct {
	Kind MutationKind
	// ID of the column, index or constraint.
	ID   uint32
	Drop bool
	// Job that carries it out; zero: it will be made when the transaction commits.
	Job int64
	// Replaces is the index that an index takes the place of; for the primary key too.
	Replaces IndexID
	// Column of MutateNotNull.
	Column ColumnID
	// Validate says that the constraint existed before, not validated: it remains if its validation fails.
	Validate bool
}

// Column is a column as stored.
type Column struct {
	ID      ColumnID
	Name    string
	Type    *types.T
	NotNull bool
	Default string // SQL text of an expression; empty: none
	Hidden  bool
	State   State
	Comment string
	// OwnsSequence is the sequence that serial made, dropped with the column.
	OwnsSequence ID
	// Identity is 'a' (always), 'd' (by default) or 0.
	Identity byte
	// Generated is the SQL text of a stored generated column's expression.
	Generated string
	// OnUpdate is the SQL text of the value that the column gets when a row is updated and the statement does not assign it; empty: it keeps its value.
	OnUpdate string `json:",omitempty"`
	// Missing is the value, as text, that rows written before the column was added have; with HasMissing.
	Missing    string
	HasMissing bool
}

// Index is an index as stored. The primary index stores every column.
type Index struct {
	ID      IndexID
	OID     ID // for pg_class
	Name    string
	Comment string `json:",omitempty"`
	// ConstraintComment is the comment on the constraint that the index stands for.
	ConstraintComment string `json:",omitempty"`
	Unique            bool
	Primary           bool
	Columns           []IndexColumn
	// Stored are further columns kept in the value (STORING, INCLUDE).
	Stored []ColumnID
	State  State
	// Constraint says that the index backs a PRIMARY KEY or UNIQUE constraint of the same name.
	Constraint bool
	// Deferrable says that the index is one of a UNIQUE or PRIMARY KEY constraint that is checked at the end of a statement or, as ForeignKey's, of the
	// transaction. Until then two rows may have the same key, so Unique is false, and the entries have the form of a non-unique index's.
	Deferrable bool `json:",omitempty"`
	Deferred   bool `json:",omitempty"`
	// Key says that a deferrable index is that of the PRIMARY KEY. The rows are under the hidden column rowid then.
	Key bool `json:",omitempty"`
	// Predicate is the SQL text of a partial index's condition; empty: all rows.
	Predicate string
	// Suffix are the columns that make the entries of a secondary index unique; nil: the primary key's. It differs
	// only while the primary key is being replaced.
	Suffix []ColumnID
	// Rewritten says that the index has rows as they will be after the table's Rewrite.
	Rewritten bool `json:",omitempty"`
	// Implicit is how many of the first Columns the user did not write: one, the region column, in tables that are REGIONAL BY ROW. A unique index with
	// implicit columns stands for a constraint on the others, worldwide.
	Implicit int `json:",omitempty"`
	// Zone is from ALTER INDEX ... CONFIGURE ZONE.
	Zone *ZoneConfig `json:",omitempty"`
	// Partitioning is from PARTITION BY; nil: none.
	Partitioning *Partitioning `json:",omitempty"`
	// PartitionZones are from ALTER PARTITION ... CONFIGURE ZONE, by the name of the partition, which is a region in tables that are REGIONAL BY ROW.
	PartitionZones map[string]*ZoneConfig `json:",omitempty"`
	// Directories are those of the index, a primary one, that have a placement of their own, in the order of their keys.
	Directories []Directory `json:",omitempty"`
	// Placed is the locality by which the ranges of the index are configured, if that is not the table's: of a copy for another one, and of an index that was replaced
	// by its copy.
	Placed *Relocation `json:",omitempty"`
}

// PrimaryKey reports whether the index is that of a PRIMARY KEY constraint, or of the hidden column that stands in for one.
func (x *Index) PrimaryKey() bool { return x.Primary || x.Key }

// IndexColumn is a key column of an index.
type IndexColumn struct {
	Column ColumnID
	Desc   bool
	// Class is the operator class that was given and is not the type's default; empty: the default one. Its order is the column's own order, so it only shows.
	Class string `json:",omitempty"`
}

// Check is a CHECK constraint.
type Check struct {
	ID    uint32
	OID   ID
	Name  string
	Expr  string
	State State // WriteOnly: enforced for new rows, not validated yet
	// Columns that the expression reads.
	Columns []ColumnID
	Comment string `json:",omitempty"`
}

// Action is the action of a foreign key when the referenced row is deleted or changed.
type Action uint8

const (
	NoAction Action = iota
	Restrict
	Cascade
	SetNull
	SetDefault
)

// ForeignKey is a FOREIGN KEY constraint of the referencing table.
type ForeignKey struct {
	ID         uint32
	OID        ID
	Name       string
	Columns    []ColumnID
	RefTable   ID
	RefColumns []ColumnID
	OnDelete   Action
	OnUpdate   Action
	// SetColumns are those of Columns that SetNull and SetDefault of OnDelete set; nil: all.
	SetColumns []ColumnID `json:",omitempty"`
	MatchFull  bool
	State      State
	Comment    string `json:",omitempty"`
	// Deferrable constraints are checked when the transaction ends, if it says so (SET CONSTRAINTS) or Deferred says so.
	Deferrable bool `json:",omitempty"`
	Deferred   bool `json:",omitempty"`
}

// Reference points at a foreign key of another table.
type Reference struct {
	Table      ID
	Constraint uint32
}

// Sequence is a sequence's definition; its value is one key of its table span.
type Sequence struct {
	Type      *types.T
	Start     int64
	Increment int64
	Min, Max  int64
	Cache     int64
	Cycle     bool
	// Base is added to the stored counter to give the value; it never changes while the counter is used, so that no
	// counter need be written before the first number is taken.
	Base int64
	// Counter tells the counter from the sequence's earlier ones: a restart begins a new one, so that it is undone with its
	// transaction. Zero: the first.
	Counter ID `json:",omitempty"`
	// Owner is the column that owns it, if any.
	OwnerTable  ID
	OwnerColumn ColumnID
}

// User is a role.
type User struct {
	ID      ID
	Version uint64
	Name    string
	// MemberOf are the roles that this one is a member of, directly.
	MemberOf []Membership
	Dropped  bool
	// Verifier is the SCRAM-SHA-256 verifier in PostgreSQL's form; empty: no password.
	Verifier   string
	Superuser  bool
	Login      bool
	CreateDB   bool
	CreateRole bool
	// NoInherit says that the role has the rights of its memberships only after SET ROLE.
	NoInherit bool   `json:",omitempty"`
	Comment   string `json:",omitempty"`
	// Connections bounds the sessions of the role on each node, if Bounded.
	Connections int  `json:",omitempty"`
	Bounded     bool `json:",omitempty"`
	// ValidUntil is when the password expires, in microseconds since 2000, if Expires; types.Infinity and the like are
	// those of timestamps.
	ValidUntil int64 `json:",omitempty"`
	Expires    bool  `json:",omitempty"`
	// Settings are the settings with which the role's sessions begin.
	Settings []InitialSetting `json:",omitempty"`
}

// UsesEnum reports whether columns are of an enum, or of arrays of it, or are about to be.
func (t *Table) UsesEnum(e *types.Enum) (uses bool) {
	t.eachType(func(c **types.T) { uses = uses || (*c).WithEnum(e) != nil })
	return uses
}

// SetEnum gives the columns of an enum another version of it.
func (t *Table) SetEnum(e *types.Enum) {
	t.eachType(func(c **types.T) {
		if n := (*c).WithEnum(e); n != nil {
			*c = n
		}
	})
}

func (t *Table) eachType(f func(**types.T)) {
	for i := range t.Columns {
		f(&t.Columns[i].Type)
	}
	if t.Rewrite != nil {
		for i := range t.Rewrite.Columns {
			f(&t.Rewrite.Columns[i].Type)
		}
	}
}

// EachText replaces each stored text by the one that f makes of it.
func (t *Table) EachText(f func(string) string) {
	t.View = f(t.View)
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Default, c.Generated, c.OnUpdate = f(c.Default), f(c.Generated), f(c.OnUpdate)
	}
	for i := range t.Checks {
		t.Checks[i].Expr = f(t.Checks[i].Expr)
	}
	for i := range t.Indexes {
		t.Indexes[i].Predicate = f(t.Indexes[i].Predicate)
	}
	if t.Rewrite != nil {
		for i := range t.Rewrite.Columns {
			c := &t.Rewrite.Columns[i]
			c.Expr, c.Default = f(c.Expr), f(c.Default)
		}
	}
}

// Column finds a column by identity.
func (t *Table) Column(id ColumnID) *Column {
	for i := range t.Columns {
		if t.Columns[i].ID == id {
			return &t.Columns[i]
		}
	}
	return nil
}

// Ordinal is the position of a column in Columns, or -1.
func (t *Table) Ordinal(id ColumnID) int {
	for i := range t.Columns {
		if t.Columns[i].ID == id {
			return i
		}
	}
	return -1
}

// ColumnByName finds a public column by name.
func (t *Table) ColumnByName(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name && t.Columns[i].State == Public {
			return &t.Columns[i]
		}
	}
	return nil
}

// Adding reports whether a column is on its way to being public.
func (t *Table) Adding(c *Column) bool {
	if c.State != WriteOnly {
		return false
	}
	for _, m := range t.Mutations {
		if m.Kind == MutateColumn && m.ID == uint32(c.ID) {
			return !m.Drop
		}
	}
	return false
}

// ColumnNameTaken reports whether a column of that name is public, or will be.
func (t *Table) ColumnNameTaken(name string) bool {
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Name == name && (c.State == Public || t.Adding(c)) {
			return true
		}
	}
	return false
}

// Primary is the primary index.
func (t *Table) Primary() *Index { return &t.Indexes[0] }

// Index finds an index by identity.
func (t *Table) Index(id IndexID) *Index {
	for i := range t.Indexes {
		if t.Indexes[i].ID == id {
			return &t.Indexes[i]
		}
	}
	return nil
}
