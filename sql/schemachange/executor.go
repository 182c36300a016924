package schemachange

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/placement"
	"meridian/setting"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/job"
	"meridian/sql/memory"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Definition is one data definition statement, with its transaction and session.
type Definition struct {
	Stmt bind.Statement
	Txn  *txn.Txn
	// KV reads and writes rows within the transaction, those of temporary tables too; nil: Txn does.
	KV      exec.KV
	Catalog *lease.Txn
	Info    lease.Info
	Binder  *bind.Binder
	// Explicit says that the statement is part of a transaction block.
	Explicit bool
	// NoSuperRegions and NoPlacement say that the session has switched off super regions, or the clause PLACEMENT.
	NoSuperRegions, NoPlacement bool
	// Session identifies the session, in the name of its schema of temporary relations.
	Session int32
	// Alone says that the statement is all of its transaction. Only then may part of its work be done after the commit (schemachange.SC5).
	Alone bool
	// OverrideZones allows CONFIGURE ZONE to change what the regions of a database decide.
	OverrideZones bool
	// IgnoreProtocol has new tables begin with the protocol leader: rows and keys of a dump come after its tables.
	IgnoreProtocol bool
	Notice         func(*sqlstate.Error)
	// Scalar is the context in which expressions over rows are evaluated, with sequences for example; nil: functions that
	// need a session are refused.
	Scalar *scalar.Context
	// Run executes a bound query within the transaction, for CREATE TABLE AS and checks of existing rows; it calls
	// row for each result row.
	Run func(ctx context.Context, q *bind.Query, row func(types.Row) error) (affected int64, err error)
}

// Options are the options of an Executor.
type Options struct {
	DB        *txn.DB
	Clock     *clock.Clock
	Host      *host.Host
	Leases    *lease.Manager
	Jobs      *job.Registry
	Sequences *lease.Sequences
	Registry  *scalar.Registry
	// Verifier makes a SCRAM-SHA-256 verifier of a password; nil refuses passwords that are not verifiers already.
	Verifier func(password string) (string, error)
	// EmptyPassword reports whether a verifier is that of the empty password, which is refused; nil: none is.
	EmptyPassword func(verifier string) bool
	// RemoveAfter is how long the data of dropped objects stays, for reads in the past; zero is DefaultRemoveAfter. Such
	// reads rely on lease.KeepDropped.
	RemoveAfter time.Duration
	// Pressed reports whether a disk of the cluster is nearly full: then dropped data is removed after PressedRemoveAfter, at
	// the cost of reads of the past. Nil: never.
	Pressed func() bool
	// Regions are those of the nodes that are there, sorted; nil: any name is one.
	Regions func() []string
	// Misplaced counts the ranges of a span that violate a constraint, or are to be split because another configuration begins in them, and all of them; it
	// has the stores look at them now. Nil: no statement waits for replicas to move.
	Misplaced func(ctx context.Context, span keys.Span) (misplaced, total int, err error)
	// Zone is the configuration of ranges that the cluster's settings and the node's options give; nil: placement.DefaultZone.
	Zone func() placement.Zone
	// Satisfied reports whether some node satisfies a constraint; nil: one does.
	Satisfied func(placement.Constraint) bool
	// Nodes are those of the cluster, for whether a placement can be satisfied; nil: it is not asked.
	Nodes func() []placement.Node
	// Yield is called before each chunk of a backfill, and may wait for a bounded time; nil: it never does (admission.AD6).
	Yield func(context.Context) error
	// Settings say whether, and when, statistics are collected without ANALYZE; nil: by the defaults.
	Settings *setting.Values
	// CountsOnly reports whether statistics of a table must not have values of its rows; nil: none are left out.
	CountsOnly func(*catalog.Table) bool
	// Memory bounds the memory of the node's statements, those of schema changes included; nil: no bound.
	Memory *memory.Node
}

// DefaultRemoveAfter is the default of Options.RemoveAfter.
const DefaultRemoveAfter = lease.KeepDropped

// PressedRemoveAfter is how long dropped data stays while a disk is nearly full: long enough for running statements.
const PressedRemoveAfter = 20 * time.Second

// Executor carries out data definition statements. All methods may be called concurrently.
type Executor struct {
	o       Options
	faults  atomic.Int64
	changes changes
	// collected counts the tables whose statistics this node collected without having been asked.
	collected atomic.Int64
}

// Faults counts panics in the collection of statistics (fault.FA1).
func (e *Executor) Faults() int64 { return e.faults.Load() }

// New makes an executor and registers its jobs.
func New(o Options) *Executor {
	if o.RemoveAfter == 0 {
		o.RemoveAfter = DefaultRemoveAfter
	}
	e := &Executor{o: o}
	e.registerJobs()
	if o.Pressed != nil && o.Jobs != nil {
		o.Host.Group.Go(e.watchPressure)
	}
	return e
}

// change is the state of one statement.
type change struct {
	*Executor
	*Definition
	ctx  context.Context
	view *lease.View
	kv   exec.KV
}

// Execute carries out a data definition statement and returns its command tag; handled is false if the statement is
// not one.
func (e *Executor) Execute(ctx context.Context, d *Definition) (tag string, handled bool, err error) {
	view, ok := d.Catalog.View(d.Info).(*lease.View)
	if !ok {
		return "", false, sqlstate.New(sqlstate.InternalError, "schemachange: a foreign view")
	}
	c := &change{Executor: e, Definition: d, ctx: ctx, view: view, kv: d.KV}
	if c.kv == nil {
		c.kv = d.Txn
	}
	c.kv.StepStatement() // the statement sees the transaction's writes so far
	switch s := d.Stmt.(type) {
	case *bind.CreateTable:
		tag, err = c.createTable(s)
	case *bind.DropRelation:
		tag, err = "DROP "+dropTag(s), c.dropRelations(s)
	case *bind.RefreshView:
		tag, err = "REFRESH MATERIALIZED VIEW", c.refresh(s)
	case *bind.AlterTable:
		tag, err = "ALTER "+kindTag(s.As), c.alterTable(s)
		switch {
		case s.Index != "":
			tag = "ALTER INDEX"
		case s.Materialized:
			tag = "ALTER MATERIALIZED VIEW"
		}
	case *bind.CreateIndex:
		tag, err = "CREATE INDEX", c.createIndex(s)
	case *bind.DropIndex:
		tag, err = "DROP INDEX", c.dropIndexes(s)
	case *bind.RenameIndex:
		tag, err = "ALTER INDEX", c.renameIndex(s)
	case *bind.CreateDatabase:
		tag, err = "CREATE DATABASE", c.createDatabase(s)
	case *bind.ConfigureZone:
		tag, err = s.Tag(), c.configureZone(s)
	case *bind.PlacementOption:
		tag, err = s.Verb+" PLACEMENT", c.placementOption(s)
	case *bind.TagPlacement:
		tag, err = s.Tag(), c.tagPlacement(s)
	case *bind.DropDatabase:
		tag, err = "DROP DATABASE", c.dropDatabase(s)
	case *bind.AlterDatabase:
		tag, err = "ALTER DATABASE", c.alterDatabase(s)
		switch {
		case s.Roles:
			tag = "ALTER ROLE"
		case s.Region != nil:
			tag += " " + s.Region.Tag()
		}
	case *bind.CreateSchema:
		tag, err = "CREATE SCHEMA", c.createSchema(s)
	case *bind.DropSchema:
		tag, err = "DROP SCHEMA", c.dropSchemas(s)
	case *bind.AlterSchema:
		tag, err = "ALTER SCHEMA", c.alterSchema(s)
	case *bind.CreateSequence:
		tag, err = "CREATE SEQUENCE", c.createSequence(s)
	case *bind.AlterSequence:
		tag, err = "ALTER SEQUENCE", c.alterSequence(s)
	case *bind.CreateView:
		tag, err = "CREATE VIEW", c.createView(s)
	case *bind.CreateType:
		tag, err = "CREATE TYPE", c.createType(s)
	case *bind.AlterType:
		tag, err = "ALTER TYPE", c.alterType(s)
	case *bind.DropType:
		tag, err = "DROP TYPE", c.dropTypes(s)
	case *bind.Truncate:
		tag, err = "TRUNCATE TABLE", c.truncate(s)
	case *bind.Comment:
		tag, err = "COMMENT", c.comment(s)
	case *bind.Grant:
		tag = "GRANT"
		if s.Revoke {
			tag = "REVOKE"
		}
		if len(s.Roles) > 0 {
			tag += " ROLE"
		}
		err = c.grant(s)
	case *bind.CreateRole:
		tag, err = "CREATE ROLE", c.createRole(s)
	case *bind.AlterRole:
		tag, err = "ALTER ROLE", c.alterRole(s)
	case *bind.DropRole:
		tag, err = "DROP ROLE", c.dropRoles(s)
	case *bind.ReassignOwned:
		tag, err = "REASSIGN OWNED", c.reassignOwned(s)
	case *bind.DropOwned:
		tag, err = "DROP OWNED", c.dropOwned(s)
	case *bind.SetClusterSetting:
		tag, err = "SET CLUSTER SETTING", c.setClusterSetting(s)
	case *bind.Cancel:
		return c.cancel(s)
	default:
		return "", false, nil
	}
	if err == nil {
		err = c.refuseLocal()
	}
	if err == nil {
		err = c.settleLocal()
	}
	if err == nil && !d.Alone {
		err = d.Catalog.LockDropped(ctx)
	}
	return tag, true, err
}

func dropTag(s *bind.DropRelation) string {
	if s.Materialized {
		return "MATERIALIZED VIEW"
	}
	return kindTag(s.Kind)
}

// described names a relation's kind in messages.
func described(t *catalog.Table) string {
	if t.Materialized {
		return "materialized view"
	}
	return strings.ToLower(kindTag(t.Kind))
}

func kindTag(k catalog.Kind) string {
	switch k {
	case catalog.KindView:
		return "VIEW"
	case catalog.KindSequence:
		return "SEQUENCE"
	}
	return "TABLE"
}

func (c *change) notices(list []bind.Notice) {
	for _, n := range list {
		code := sqlstate.Code(n.Code)
		if code == "" {
			code = sqlstate.SuccessfulCompletion
			if strings.EqualFold(n.Severity, "WARNING") {
				code = sqlstate.Warning
			}
		}
		c.notice(&sqlstate.Error{Code: code, Message: n.Message, Hint: n.Hint})
	}
}

func (c *change) notice(e *sqlstate.Error) {
	if c.Notice != nil {
		c.Notice(e)
	}
}

func (c *change) noticef(code sqlstate.Code, format string, args ...any) {
	c.notice(sqlstate.New(code, format, args...))
}
