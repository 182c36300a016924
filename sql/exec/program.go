package exec

import (
	"context"
	"slices"
	"sync"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/memory"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// Options are the inputs of Build besides the plan.
type Options struct {
	// Room, if set, is called with the memory that the program occupies. It fails if that is too much, or if the statement
	// was cancelled.
	Room func(bytes int64) error
	// View finds the tables at the other end of foreign keys; only mutations use it.
	View catalog.View
	// Defaults binds a column's default for ON DELETE SET DEFAULT; nil refuses the action.
	Defaults func(ctx context.Context, table *catalog.Table, ordinal int) (scalar.Expr, error)
	// Follows binds a table's generated columns and CHECK constraints for actions of foreign keys; columns are the table's ordinals plus
	// one. Nil: actions do not evaluate them.
	Follows func(ctx context.Context, table *catalog.Table) (generated []opt.SetItem, checks []opt.CheckExpr, err error)
	// Predicate binds a partial index's condition. Its columns are the table's ordinals plus one. Nil refuses
	// to write tables with partial indexes.
	Predicate func(ctx context.Context, table *catalog.Table, index *catalog.Index) (scalar.Expr, error)
	// Rewrite binds the expressions of the table's catalog.Rewrite, and the checks of converted rows. Their columns are
	// ordinals plus one. Nil refuses to write tables with a Rewrite.
	Rewrite func(ctx context.Context, table *catalog.Table) (exprs []scalar.Expr, checks []opt.CheckExpr, err error)
}

// Env is the environment of one execution.
type Env struct {
	Txn    KV
	Scalar *scalar.Context
	// Virtual computes pg_catalog and friends.
	Virtual VirtualTables
	// AutoCommit says that the statement is the whole transaction: the last writes may go with the commit.
	// Cursor.Committed tells whether they did.
	AutoCommit bool
	// Alone says that the statement ends a transaction without a block, so that no client acts between the two.
	Alone bool
	// Looker reads after the transaction has failed, to tell which of several rows is at fault; nil: the error names the
	// one that was found.
	Looker Looker
	// Budget bounds memory; nil gives the statement memory.DefaultLimit of its own.
	Budget *memory.Account
	// Deferrals keep the checks of deferrable constraints; nil: all are checked at the end of the statement.
	Deferrals Deferrals
	// Trace, if set, measures every operator.
	Trace *Trace
	// Region is that of the gateway; empty: it has none.
	Region string
	// Home refuses requests that leave the region of the gateway; nil: none is refused.
	Home Home
	// Changes hears at the end how many rows of each table were inserted, updated or deleted, whether or not the statement succeeded; nil: nobody does.
	Changes Changes
}

// Changes counts changed rows; *schemachange.Executor does.
type Changes interface {
	RowsChanged(table catalog.ID, rows int64)
}

// Home refuses requests that a statement must not send, since they leave the gateway's region, before they are sent. Its errors are for the client.
type Home interface {
	// Reads is asked about spans that are read at the same time, and perhaps locked.
	Reads(ctx context.Context, spans []keys.Span, lock bool) error
	Writes(ctx context.Context, b *txn.WriteBatch) error
	// Searches is asked when not all rows of a table that is REGIONAL BY ROW were found in the gateway's region. further are the regions in which they
	// would be looked for.
	Searches(ctx context.Context, table catalog.ID, further []string) error
	// Compares is asked before a key is looked for in all other regions (exec.X7).
	Compares(t *catalog.Table, x *catalog.Index) error
}

// Looker reads keys outside of the transaction.
type Looker interface {
	Look(ctx context.Context, ks []keys.Key) ([][]byte, error)
}

// VirtualTables computes the rows of virtual relations (pg_catalog and friends).
type VirtualTables interface {
	// Rows returns rows with one value for each of the requested ordinals. All conditions of the statement are tested
	// again on them.
	Rows(ctx context.Context, read VirtualRead) ([]types.Row, error)
}

// VirtualRead is one operator's read of a computed relation.
type VirtualRead struct {
	Table *catalog.Table
	// Ordinals are the columns that are needed, in the order of a row's values.
	Ordinals []int
	// Keys hold for all requested rows. They may be used to compute fewer rows.
	Keys []VirtualKey
}

// VirtualKey says that a column is equal to one of some values.
type VirtualKey struct {
	Ordinal int
	Values  []types.Datum
}

// Program is a compiled plan. It is immutable and may be run by many goroutines at once.
type Program struct {
	plan    *opt.Plan
	root    op
	subs    []*subplan
	subByQ  map[*scalar.Subquery]*subplan
	ctes    int
	depends []opt.Dependency
	// output maps the root's slots to the plan's output; nil if they are the same.
	output []int
	// mutates: the plan has a mutation; nested: it is below the root, so that all rows are computed before the first is
	// returned.
	mutates, nested bool
	// locksOne: it takes one lock at most of those that a statement asks for.
	locksOne bool
	writers  []*tableWriter
	reads    []read
	// checks are what mutations look for in all regions.
	checks map[opt.Node]opt.Checks
	pool   sync.Pool
	// expects are parts of the keyspace whose commit protocol is not the leader's.
	expects []expected
}

// Checks tells what a mutation of the plan looks for in all regions before it writes.
func (p *Program) Checks(n opt.Node) opt.Checks { return p.checks[n] }

// looksFor notes what a mutation looks for: keys of indexes, apart from those that no other row has, parents, and the rows that refer to keys with the columns that it changes; nil: all.
func (b *builder) looksFor(n opt.Node, w *tableWriter, indexes []*indexWriter, unchecked map[*indexWriter]bool, gives map[int]bool) {
	var c opt.Checks
	for _, iw := range indexes {
		if iw.world != nil && !unchecked[iw] {
			c.Keys = append(c.Keys, iw.index)
		}
	}
	for _, o := range w.out {
		if o.regions != nil {
			c.Homed = append(c.Homed, o.parent.ID)
		}
		if o.parent.Locality.Kind == catalog.Global {
			c.Global = append(c.Global, o.parent.ID)
		}
	}
	for _, in := range w.in {
		if gives == nil || slices.ContainsFunc(in.refs, func(o int) bool { return gives[o] }) {
			c.Children = append(c.Children, in.child.ID)
		}
	}
	if b.prog.checks == nil {
		b.prog.checks = make(map[opt.Node]opt.Checks)
	}
	b.prog.checks[n] = c
}

// Build compiles a plan.
func Build(ctx context.Context, plan *opt.Plan, o Options) (*Program, error) {
	p := &Program{plan: plan, subByQ: make(map[*scalar.Subquery]*subplan), locksOne: plan.LocksOne()}
	b := &builder{ctx: ctx, opts: o, prog: p, meta: plan.Meta, ctes: make(map[int]*cteInfo),
		tables: make(map[catalog.ID]*catalog.Table), writers: make(map[catalog.ID]*tableWriter)}
	root, err := b.root(plan.Root)
	if err != nil {
		return nil, err
	}
	p.root = root
	l := layoutOf(plan.Root)
	p.output = make([]int, len(plan.Output))
	same := len(plan.Output) == len(plan.Root.Columns())
	for i, c := range plan.Output {
		slot, ok := l.slot(c.Col)
		if !ok {
			return nil, internal("output column %d is not produced", c.Col)
		}
		p.output[i] = slot
		same = same && slot == i
	}
	if same {
		p.output = nil
	}
	if len(plan.Output) == 0 {
		p.output = nil
	}
	return p, nil
}

// Depends are descriptors that the program uses beyond those of its plan: the other ends of foreign keys.
func (p *Program) Depends() []opt.Dependency { return p.depends }

// Plan is the plan from which the program was built.
func (p *Program) Plan() *opt.Plan { return p.plan }

// Mutates reports whether the program writes.
func (p *Program) Mutates() bool { return p.mutates }

// Start begins an execution. The cursor must be closed, once, and not be used afterwards.
func (p *Program) Start(ctx context.Context, env *Env) (*Cursor, error) {
	r, _ := p.pool.Get().(*run)
	if r == nil || env.Trace != nil {
		r = &run{prog: p}
		r.start(ctx, env)
		r.root = r.make(p.root)
		r.subs = make([]subState, len(p.subs))
		r.ctes = make([]cteState, p.ctes)
	} else {
		r.start(ctx, env)
	}
	r.cursor = Cursor{r: r}
	if d, ok := r.kv.(decider); ok && p.mutates {
		d.ReadCurrent()
	}
	if err := r.root.open(); err != nil {
		err = r.confirmed(err)
		r.cursor.Close()
		return nil, err
	}
	return &r.cursor, nil
}

// Cursor yields the rows of one execution.
type Cursor struct {
	r      *run
	opened bool
	done   bool
	closed bool
	// rows are the buffered rows of a program whose mutations are not at the root, or of a cursor that was held.
	rows []types.Row
	held bool
	err  error
}

// Hold reads the remaining rows into memory, so that the transaction may go on to another snapshot.
func (c *Cursor) Hold(ctx context.Context) error {
	r := c.r
	if c.done || c.held || r.prog.nested {
		return nil
	}
	r.ctx = ctx
	r.sctx.Context = ctx
	c.held = true
	if err := drain(r, r.root, &r.store); err != nil {
		c.done, c.err = true, err
		return err
	}
	c.rows = r.store.rows
	return nil
}

// Next is the next row, or nil at the end. The row is valid until the next call; its values for ever.
func (c *Cursor) Next(ctx context.Context) (types.Row, error) {
	if c.done {
		return nil, c.err
	}
	r := c.r
	r.ctx = ctx
	r.sctx.Context = ctx
	row, err := c.next()
	if err != nil || row == nil {
		err = r.confirmed(err)
		c.done, c.err = true, err
		return nil, err
	}
	if out := r.prog.output; out != nil {
		if r.out == nil {
			r.out = make(types.Row, len(out))
		}
		for i, s := range out {
			r.out[i] = row[s]
		}
		return r.out, nil
	}
	if len(r.prog.plan.Output) == 0 && len(row) != 0 {
		return row[:0], nil
	}
	return row, nil
}

func (c *Cursor) next() (types.Row, error) {
	r := c.r
	if !r.prog.nested && !c.held {
		return r.root.next()
	}
	if !c.opened && !c.held {
		c.opened = true
		if err := drain(r, r.root, &r.store); err != nil {
			return nil, err
		}
		if err := r.afterStatement(); err != nil {
			return nil, err
		}
		if err := r.confirmed(nil); err != nil {
			return nil, err // before the first row leaves
		}
		c.rows = r.store.rows
	}
	if len(c.rows) == 0 {
		return nil, nil
	}
	row := c.rows[0]
	c.rows = c.rows[1:]
	return row, nil
}

// RowsAffected counts the rows that a mutation wrote, or that a query returned. It is final after the last row.
func (c *Cursor) RowsAffected() int64 { return c.r.affected }

// Committed reports whether the statement's last writes carried the transaction's commit with them.
func (c *Cursor) Committed() bool { return c.r.committed }

// Close ends the execution.
func (c *Cursor) Close() {
	if c.closed {
		return
	}
	c.closed, c.done = true, true
	r := c.r
	r.tellChanges()
	r.root.close()
	for i := range r.subs {
		r.subs[i].reset(r)
	}
	for i := range r.ctes {
		r.ctes[i].reset(r)
	}
	r.store.reset(r.budget)
	r.budget.Shrink(r.pages)
	r.pages = 0
	r.number++
	r.budget.Shrink(r.eventBytes)
	r.eventBytes = 0
	r.forgetNoted()
	reuse := r.env.Trace == nil
	r.release()
	if reuse {
		r.prog.pool.Put(r)
	}
}

// run is the state of one execution. Runs are pooled with their operators and buffers, so that a prepared
// point lookup allocates little more than its result.
type run struct {
	prog   *Program
	cursor Cursor
	ctx    context.Context
	env    Env
	kv     KV
	sctx   scalar.Context
	budget *memory.Account
	own    memory.Account // used unless the environment brings one
	root   iter
	subs   []subState
	ctes   []cteState
	store  rowStore
	out    types.Row
	ticks  uint32
	// affected rows; committed with the last batch.
	affected   int64
	committed  bool
	flushed    bool // a batch of writes was sent
	prechecked bool // the rows that refer to removed keys were looked for before the last batch
	changes    []tableChanges
	events     []fkEvent
	seq, cause int // of the event that was noted last, and of the one whose action is under way
	// eventBytes is the memory that the statement's events took, handled ones included.
	eventBytes int64
	// noted is what it has done to tables that several of its parts change; nil: nothing yet.
	noted *noted
	// known are keys of parents that the statement has looked up and found, as checks.
	known map[string]struct{}
	// pages is the memory that readers hold, and number counts the run's executions.
	pages  int64
	number uint32
	arena  []byte
}

func (r *run) start(ctx context.Context, env *Env) {
	r.env = *env // the caller may use its own again
	r.ctx, r.kv = ctx, env.Txn
	r.expect()
	outer := r.sctx.Outer
	if env.Scalar != nil {
		r.sctx = *env.Scalar
	}
	r.sctx.Context = ctx
	r.sctx.Outer = outer
	r.sctx.Subqueries = r
	r.budget = env.Budget
	if r.budget == nil {
		r.own = memory.Account{}
		r.budget = &r.own
	}
	r.sctx.Memory = r.budget
	r.affected, r.committed, r.flushed = 0, false, false
	r.seq, r.cause = 0, 0
	r.known = nil
}

func (r *run) release() {
	outer := r.sctx.Outer
	clear(outer)
	r.sctx = scalar.Context{Outer: outer}
	r.ctx, r.env, r.kv, r.budget = nil, Env{}, nil, nil
	clear(r.out)
	r.events, r.known = nil, nil
	r.arena = nil
	r.cursor.rows = nil
}

// tableChanges counts the rows of a table that an execution changed.
type tableChanges struct {
	table catalog.ID
	rows  int64
}

// changed counts a row of a table.
func (r *run) changed(t *catalog.Table) {
	for i := range r.changes {
		if r.changes[i].table == t.ID {
			r.changes[i].rows++
			return
		}
	}
	r.changes = append(r.changes, tableChanges{t.ID, 1})
}

func (r *run) tellChanges() {
	for _, c := range r.changes {
		if r.env.Changes != nil {
			r.env.Changes.RowsChanged(c.table, c.rows)
		}
	}
	r.changes = r.changes[:0]
}

// setOuter gives a correlated plan a column of the enclosing query.
func (r *run) setOuter(id scalar.ColumnID, d types.Datum) {
	if r.sctx.Outer == nil {
		r.sctx.Outer = make(map[scalar.ColumnID]types.Datum)
	}
	r.sctx.Outer[id] = d
}

// tick is called in every loop that may be long; now and then it asks whether the statement was cancelled.
func (r *run) tick() error {
	r.ticks++
	if r.ticks&255 == 0 {
		return r.ctx.Err()
	}
	return nil
}

// make instantiates an operator.
func (r *run) make(o op) iter {
	it := o.iter(r)
	if r.env.Trace != nil {
		s := r.env.Trace.stats(o.plan())
		if k, ok := it.(kvUser); ok {
			k.setStats(s)
		}
		it = &traced{it, r, s}
	}
	return it
}

// drain reads an operator to its end.
func drain(r *run, it iter, into *rowStore) error {
	for {
		row, err := it.next()
		if err != nil {
			return err
		}
		if row == nil {
			return nil
		}
		if _, err := into.add(r.budget, row); err != nil {
			return err
		}
		if err := r.tick(); err != nil {
			return err
		}
	}
}
