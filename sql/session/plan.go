package session

import (
	"container/list"
	"context"
	"fmt"
	"strings"
	"sync"

	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/memory"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// plan is a statement made ready to run: immutable, shared between sessions, good for as long as the descriptors
// that it was made from keep their versions (S3), and the roles and grants by which it was allowed (S5).
type plan struct {
	stmt    *parse.Statement
	bound   bind.Statement
	query   *bind.Query // nil for commands
	program *exec.Program
	columns []Column // nil: no rows come back
	params  []*types.T
	depends []opt.Dependency
	// role is the role that it was made for, under which generation of roles and grants; zero: those that a transaction was
	// about to change.
	role   string
	access uint64
	// bytes is about what it occupies, besides its text.
	bytes int64
	// local is the state of the session's temporary relations that its names were looked up in; zero: there were none.
	local uint64
	// private plans depend on something besides descriptors and are not shared.
	private bool
}

// planKey is everything that binding depends on besides descriptors.
type planKey struct {
	text, database, user, path, params string
}

// planCache keeps the plans used last, by text. A plan whose descriptors have changed is found, checked and made anew.
type planCache struct {
	mu    sync.Mutex // guards the fields below; nothing is taken after it
	limit int
	bytes int64 // what all of them occupy, at most cacheBytes
	byKey map[planKey]*list.Element
	order list.List // of *planEntry, most recently used first
}

type planEntry struct {
	key  planKey
	plan *plan
}

func newPlanCache(limit int) *planCache {
	return &planCache{limit: limit, byKey: map[planKey]*list.Element{}}
}

func (c *planCache) get(k planKey) *plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[k]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*planEntry).plan
}

func (c *planCache) put(k planKey, p *plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += p.sharedBytes()
	if e := c.byKey[k]; e != nil {
		c.bytes -= e.Value.(*planEntry).plan.sharedBytes()
		e.Value.(*planEntry).plan = p
		c.order.MoveToFront(e)
	} else {
		c.byKey[k] = c.order.PushFront(&planEntry{k, p})
	}
	for c.order.Len() > c.limit || c.bytes > cacheBytes {
		last := c.order.Back()
		old := last.Value.(*planEntry)
		c.bytes -= old.plan.sharedBytes()
		delete(c.byKey, old.key)
		c.order.Remove(last)
	}
}

// reuse returns p if every descriptor that it was made from is still the present one (S3), else nil. From then on the
// transaction relies on them.
func (s *Session) reuse(p *plan) (*plan, error) {
	if p == nil {
		return nil, nil
	}
	if p.access != s.srv.Catalog.AccessGeneration() || p.role != s.role() || p.local != s.temp.local.Generation() {
		return nil, nil // what the role may do has to be looked at again, and what its names mean
	}
	s.ensureTxn()
	ok, err := s.cat.Use(p.depends)
	if err != nil || !ok {
		return nil, err
	}
	s.srv.metrics.PlanHits.Add(1)
	return p, nil
}

// cachedBytes is the most that a shared plan may occupy, and cacheBytes what all of a node's together may. Plans of ordinary
// statements have some kilobytes. Both are chosen by us: a plan of more than cachedBytes takes longer to run than to make.
const (
	cachedBytes = 256 << 10
	cacheBytes  = 64 << 20
)

// sharedBytes is what the cache would keep alive with the plan: the whole text that its statement came in, too.
func (p *plan) sharedBytes() int64 {
	return p.bytes + int64(len(p.stmt.Source)) + p.stmt.Bytes
}

// planFor returns a plan of the statement, from the cache if it can.
func (s *Session) planFor(ctx context.Context, stmt *parse.Statement, params []*types.T) (*plan, error) {
	if needsNoTxn(stmt) {
		return &plan{stmt: stmt, bound: stmt.Node}, nil
	}
	key := planKey{text: stmt.Text(), database: s.client.Database, user: s.role(), path: s.setting("search_path"), params: typeKey(params)}
	if !s.catalogChanged() {
		if p, err := s.reuse(s.plans().get(key)); p != nil || err != nil {
			return p, err
		}
	}
	s.srv.metrics.PlanMisses.Add(1)
	p, err := s.planInPast(ctx, stmt, params)
	if p == nil && err == nil {
		p, err = s.makePlan(ctx, stmt, params)
	}
	if err != nil {
		return nil, err
	}
	if !s.catalogChanged() && !p.private && p.query != nil && !s.cat.Past() && p.sharedBytes() <= cachedBytes {
		s.plans().put(key, p)
	}
	return p, nil
}

func typeKey(params []*types.T) string {
	if len(params) == 0 {
		return ""
	}
	var b strings.Builder
	for _, t := range params {
		if t != nil {
			b.WriteString(t.Reference())
		}
		b.WriteByte(',')
	}
	return b.String()
}

// binder makes a binder over the session's present view.
func (s *Session) binder(params []*types.T) *bind.Binder {
	return &bind.Binder{View: s.view(), Registry: s.srv.Registry, ParamTypes: params, Location: s.location, Names: &s.env}
}

// planRoom is the room of one plan in the running statement's memory.
func (s *Session) planRoom(ctx context.Context) *room { return &room{ctx: ctx, account: s.account()} }

// room answers for what a plan occupies while it is made: it counts, and fails beyond the statement's memory (ME1) and when
// the statement was cancelled.
type room struct {
	ctx     context.Context
	account *memory.Account
	bytes   int64
}

func (r *room) take(bytes int64) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.bytes += bytes
	return r.account.Grow(bytes)
}

// makePlan binds, optimizes and compiles.
func (s *Session) makePlan(ctx context.Context, stmt *parse.Statement, params []*types.T) (*plan, error) {
	ctx, done := s.interruptible(ctx, stmt.Text())
	defer done()
	r := s.planRoom(ctx)
	for _, name := range stmt.Truncated {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NameTooLong, Message: fmt.Sprintf("identifier \"%s\" will be truncated to \"%s\"", name, parse.CutIdent(name))})
	}
	p := &plan{stmt: stmt, role: s.role(), local: s.temp.local.Generation()}
	if !s.catalogChanged() {
		p.access = s.srv.Catalog.AccessGeneration() // before anything is asked of them
	}
	var err error
	b := s.binder(params)
	b.Room = r.take
	s.cat.LockAhead(bind.LocksTables(stmt))
	p.bound, err = b.Bind(ctx, stmt)
	s.cat.LockAhead(false, kv.Block)
	if err != nil {
		return nil, err
	}
	if c, ok := p.bound.(*bind.DeclareCursor); ok {
		inner, err := s.planFor(ctx, c.Stmt, params)
		if err != nil {
			return nil, err
		}
		p.params = inner.params
	}
	if q, ok := p.bound.(*bind.Query); ok {
		if err := s.compile(ctx, p, q, r); err != nil {
			return nil, err
		}
	}
	p.bytes = r.bytes
	return p, nil
}

// compile fills in the program of a bound query.
func (s *Session) compile(ctx context.Context, p *plan, q *bind.Query, r *room) error {
	view := s.view()
	if err := s.checkAccess(q); err != nil {
		return err
	}
	physical, err := opt.Optimize(q.Query, opt.Env{
		Registry: s.srv.Registry,
		Room:     r.take,
		Statistics: func(id catalog.ID) *catalog.Statistics {
			st, err := view.Statistics(ctx, id)
			if err != nil {
				return nil
			}
			return st
		},
	})
	if err != nil {
		return err
	}
	program, err := exec.Build(ctx, physical, exec.Options{
		View: view,
		Room: r.take,
		Defaults: func(ctx context.Context, t *catalog.Table, ordinal int) (scalar.Expr, error) {
			return s.binder(nil).DefaultExpr(ctx, t, ordinal)
		},
		Follows: func(ctx context.Context, t *catalog.Table) ([]opt.SetItem, []opt.CheckExpr, error) {
			return s.binder(nil).FollowsOf(ctx, t)
		},
		Rewrite: func(ctx context.Context, t *catalog.Table) ([]scalar.Expr, []opt.CheckExpr, error) {
			return s.binder(nil).RewriteOf(ctx, t)
		},
	})
	if err != nil {
		return err
	}
	p.query, p.program, p.params = q, program, q.ParamTypes
	p.columns = describe(q)
	p.depends = append(append([]opt.Dependency(nil), q.Meta.Depends...), program.Depends()...)
	return nil
}

// describe lists a query's result columns; nil if it returns no rows.
func describe(q *bind.Query) []Column {
	if len(q.Output) == 0 && q.Tag != "SELECT" {
		return nil
	}
	cols := make([]Column, len(q.Output))
	for i, o := range q.Output {
		cols[i] = Column{Name: o.Name, Type: o.Type}
		m := q.Meta.Column(o.Col)
		if m.Table != nil && m.Column != 0 {
			cols[i].Table = uint32(m.Table.ID)
			cols[i].Attribute = uint16(m.Column)
		}
	}
	return cols
}
