package catalog

import "context"

// View is the catalogue as one statement sees it: leased descriptors of one consistent state. Package
// sql/catalog/lease implements it; a session adds its search path and temporary state.
//
// Descriptors returned are shared and must not be changed.
type View interface {
	// Database finds a database by name; nil if there is none.
	Database(ctx context.Context, name string) (*Database, error)
	Databases(ctx context.Context) ([]*Database, error)
	// Table finds a relation; nil if there is none. An empty schema means the search path, pg_catalog included.
	Table(ctx context.Context, database, schema, name string) (*Table, error)
	TableByID(ctx context.Context, id ID) (*Table, error)
	Tables(ctx context.Context, database string) ([]*Table, error)
	Schema(ctx context.Context, database, name string) (*Schema, error)
	Schemas(ctx context.Context, database string) ([]*Schema, error)
	Users(ctx context.Context) ([]*User, error)
	// Access answers who may do what, by the newest roles and grants that the node knows and the transaction's own changes
	// of them, also if the rest of the view is of an earlier time.
	Access() *Access
	// CurrentDatabase and SearchPath are the session's.
	CurrentDatabase() string
	SearchPath() []string
	CurrentUser() string
	// Statistics are the collected statistics of a table; nil if there are none.
	Statistics(ctx context.Context, id ID) (*Statistics, error)
}

// TypeView is implemented by a View that knows the types made by CREATE TYPE.
type TypeView interface {
	// Type finds a type by name, in a schema or, if that is empty, by the search path; nil if there is none.
	Type(ctx context.Context, schema, name string) (*Type, error)
	TypeByID(ctx context.Context, id ID) (*Type, error)
	Types(ctx context.Context) ([]*Type, error)
}

// Dependency is a descriptor version that something was made from.
type Dependency struct {
	ID      ID
	Version uint64
}

// Statistics describe a table's contents for the optimizer.
type Statistics struct {
	Rows  int64
	Bytes int64
	// At is when they were collected, in wall nanoseconds.
	At      int64
	Columns map[ColumnID]ColumnStatistics
}

// ColumnStatistics describe one column.
type ColumnStatistics struct {
	Distinct  int64
	NullCount int64
	AvgWidth  int64
	// Histogram describes the distribution of the values; nil: the type has no order in keys, or values were to be left out.
	Histogram *Histogram
}
