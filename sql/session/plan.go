package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"meridian/sql/session/plan"

	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// reuse returns p if every descriptor that it was made from is still the present version (session.S3), otherwise nil. From then on the
// transaction relies on these versions.
func (s *Session) reuse(p *plan.Plan) (*plan.Plan, error) {
	if p == nil || s.moved(p) {
		return nil, nil
	}
	if p.Access != s.srv.Catalog.AccessGeneration() || p.Role != s.role() || p.Local != s.temp.local.Generation() || p.Plain != s.plain() || p.Home != s.staysHome() || p.Off != s.frequent().off {
		return nil, nil // the privileges must be checked again, the names looked up, or the setting has changed
	}
	s.ensureTxn()
	ok, err := s.cat.Use(p.Depends)
	if err != nil || !ok {
		return nil, err
	}
	s.srv.metrics.PlanHits.Add(1)
	return p, nil
}

// plain reports whether plans are to be made as if all regions were equally near.
func (s *Session) plain() bool {
	return s.frequent().plain
}

// staysHome reports whether plans are to stay in the gateway's region if they can, because those that leave it are refused.
func (s *Session) staysHome() bool { return s.frequent().home }

// gatewayRegion is the region that plans look for rows in first; empty: none.
func (s *Session) gatewayRegion() string {
	if s.plain() {
		return ""
	}
	return s.srv.Region
}

// planFor returns a plan of the statement, from the cache if it is there.
func (s *Session) planFor(ctx context.Context, stmt *parse.Statement, params []*types.T) (*plan.Plan, error) {
	if needsNoTxn(stmt) {
		return &plan.Plan{Stmt: stmt, Bound: stmt.Node}, nil
	}
	key := plan.Key{Text: stmt.Text(), Database: s.client.Database, User: s.role(), Path: s.frequent().path, Params: plan.TypeKey(params), Plain: s.plain(), Home: s.staysHome(), Off: s.frequent().off}
	if !s.catalogChanged() {
		if p, err := s.reuse(s.temp.cache(s.srv.plans).Get(key)); p != nil || err != nil {
			return p, err
		}
	}
	s.srv.metrics.PlanMisses.Add(1)
	p, err := s.planInPast(ctx, stmt, params)
	if p == nil && err == nil {
		p, err = s.planFamiliar(ctx, stmt, params)
	}
	if p == nil && err == nil {
		p, err = s.makePlan(ctx, stmt, params)
	}
	if err != nil {
		return nil, err
	}
	if !s.catalogChanged() && !p.Private && p.Query != nil && !s.cat.Past() && p.SharedBytes() <= plan.SharedBytesMax {
		s.temp.cache(s.srv.plans).Put(key, p)
	}
	return p, nil
}

// binder makes a binder over the session's present view.
func (s *Session) binder(params []*types.T) *bind.Binder {
	return &bind.Binder{View: s.view(), Registry: s.srv.Registry, ParamTypes: params, Location: s.location, Names: &s.env,
		Rehome: s.setting("enable_auto_rehoming") == "on"}
}

// planRoom accounts for one plan in the running statement's memory.
func (s *Session) planRoom(ctx context.Context) *plan.Room { return plan.NewRoom(ctx, s.account()) }

// makePlan binds, optimizes and compiles.
func (s *Session) makePlan(ctx context.Context, stmt *parse.Statement, params []*types.T) (*plan.Plan, error) {
	ctx, done := s.interruptible(ctx, stmt.Text())
	defer done()
	r := s.planRoom(ctx)
	for _, name := range stmt.Truncated {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NameTooLong, Message: fmt.Sprintf("identifier \"%s\" will be truncated to \"%s\"", name, parse.CutIdent(name))})
	}
	for _, r := range stmt.Reduced {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.InvalidParameterValue, Message: r.Type + " precision reduced to maximum allowed, 6", Position: r.Pos})
	}
	p := &plan.Plan{Stmt: stmt, Role: s.role(), Local: s.temp.local.Generation(), Plain: s.plain(), Home: s.staysHome(), Off: s.frequent().off}
	if !s.catalogChanged() {
		p.Access = s.srv.Catalog.AccessGeneration() // read before the first privilege is checked
	}
	var err error
	b := s.binder(params)
	b.Room = r.Take
	s.cat.LockAhead(bind.LocksTables(stmt))
	p.Bound, err = b.Bind(ctx, stmt)
	s.cat.LockAhead(false, kv.Block)
	if err != nil {
		return nil, err
	}
	if c, ok := p.Bound.(*bind.DeclareCursor); ok {
		inner, err := s.planFor(ctx, c.Stmt, params)
		if err != nil {
			return nil, err
		}
		p.Params = inner.Params
	}
	if c, ok := p.Bound.(*bind.Explain); ok && explains(c) && max(c.Stmt.NumParams, len(params)) > 0 {
		inner, err := s.makePlan(ctx, c.Stmt, params)
		if err != nil {
			return nil, err
		}
		p.Params = inner.Params
	}
	if q, ok := p.Bound.(*bind.Query); ok {
		err = s.compile(ctx, p, q, r)
	}
	if p.Bytes = r.Bytes; err != nil {
		return nil, err
	}
	return p, nil
}

// failing is the error of a statement with a constant part that fails. A client may prepare and describe such a statement, but not bind it, as with PostgreSQL,
// which plans a statement when it is bound.
type failing struct{ plan *plan.Plan }

func (e *failing) Error() string { return e.plan.Fails.Error() }

func (e *failing) Unwrap() error { return e.plan.Fails }

// compile fills in the program of a bound query. Its error is a *failing if a constant part of the query fails.
func (s *Session) compile(ctx context.Context, p *plan.Plan, q *bind.Query, r *plan.Room) error {
	view := s.view()
	if err := s.rights().query(q); err != nil {
		return err
	}
	physical, err := opt.Optimize(q.Query, opt.Env{
		Registry:      s.srv.Registry,
		Room:          r.Take,
		GatewayRegion: s.gatewayRegion(),
		Home:          s.staysHome(),
		Off:           s.frequent().off,
		Region:        s.noteDistances(p),
		Statistics: func(id catalog.ID) *catalog.Statistics {
			st, err := view.Statistics(ctx, id)
			if err != nil {
				return nil
			}
			return st
		},
	})
	var constant *opt.ConstantError
	if errors.As(err, &constant) {
		p.Query, p.Params, p.Columns, p.Depends, p.Fails = q, q.ParamTypes, plan.Columns(q), slices.Clone(q.Meta.Depends), constant.Err
		return &failing{p}
	}
	if err != nil {
		return err
	}
	program, err := exec.Build(ctx, physical, exec.Options{
		View: view,
		Room: r.Take,
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
	p.Query, p.Program, p.Params = q, program, q.ParamTypes
	p.Columns = plan.Columns(q)
	p.Depends = append(append([]opt.Dependency(nil), q.Meta.Depends...), program.Depends()...)
	return nil
}
