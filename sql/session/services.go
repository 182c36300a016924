package session

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Info is what the catalogue needs to know of a session.
type Info = lease.Info

// SchemaChanger carries out DDL: sql/schemachange.
type SchemaChanger interface {
	// Execute carries out a data definition statement and returns its command tag; handled is false if the
	// statement is not one.
	Execute(ctx context.Context, d *Definition) (tag string, handled bool, err error)
}

// Definition is one DDL statement and what it may use.
type Definition struct {
	Stmt    bind.Statement
	Txn     *txn.Txn
	Catalog *lease.Txn
	Info    Info
	Binder  *bind.Binder
	// Explicit says that the statement is part of a transaction block.
	Explicit bool
	Notice   func(*sqlstate.Error)
	// Run executes a bound query within the transaction, for CREATE TABLE AS and checks of existing rows; it calls
	// row for each result row.
	Run func(ctx context.Context, q *bind.Query, row func(types.Row) error) (affected int64, err error)
}

// CatalogFunctions are the functions of PostgreSQL's catalogue over one view; sql/virtual has them.
type CatalogFunctions interface {
	ResolveReg(kind types.Kind, name string) (uint32, error)
	RegName(kind types.Kind, oid uint32) string
	TableIsVisible(oid uint32) bool
	IndexDef(oid uint32, column int) string
	ConstraintDef(oid uint32) string
	ViewDef(oid uint32) string
	ColumnDefault(table uint32, attnum int) string
	RelationSize(oid uint32) int64
	HasPrivilege(object string, oid uint32, user, privilege string) bool
}

// Virtual computes relations and catalogue functions over a view: sql/virtual.
type Virtual interface {
	Tables(view catalog.View, s *Session) exec.VirtualTables
	Functions(ctx context.Context, view catalog.View) CatalogFunctions
}

// Sequences hand out numbers, outside of transactions as in PostgreSQL.
type Sequences interface {
	// Next returns the first of n numbers, and how many there are.
	Next(ctx context.Context, seq *catalog.Table) (int64, error)
	Set(ctx context.Context, seq *catalog.Table, value int64, called bool) error
}

// Ranges answers SHOW RANGES and names nodes for EXPLAIN ANALYZE.
type Ranges interface {
	// Ranges lists the ranges that overlap the span [start, end).
	Ranges(ctx context.Context, start, end []byte) ([]RangeRow, error)
	// Region of a node; empty if unknown.
	Region(n kv.NodeID) string
	// Split makes a range begin at each key.
	Split(ctx context.Context, keys [][]byte) error
}

// RangeRow is one range of SHOW RANGES.
type RangeRow struct {
	ID          kv.RangeID
	Start, End  []byte
	Leaseholder kv.NodeID
	Replicas    []kv.NodeID
	Localities  []string
	Bytes       int64
}

// Services are what sessions are built on.
type Services struct {
	Host     *host.Host
	Clock    *clock.Clock
	DB       *txn.DB
	NodeID   func() kv.NodeID
	Catalog  *lease.Manager
	Schema   SchemaChanger
	Virtual  Virtual
	Seqs     Sequences
	Ranges   Ranges
	Registry *scalar.Registry
	// Analyze collects statistics of a table.
	Analyze func(ctx context.Context, t *catalog.Table) error
	// Insecure nodes let every user in and make unknown ones superusers of nothing.
	Insecure bool
	// MemoryPerStatement bounds what one statement holds; zero is exec.DefaultBudget.
	MemoryPerStatement int64
	// PlanCache is how many plans the node keeps (default 4096).
	PlanCache int
	// SlowStatement is logged; zero: none.
	SlowStatement time.Duration
}
