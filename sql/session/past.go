package session

import (
	"context"

	"meridian/clock"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// AS OF SYSTEM TIME: the rows of a time in the past, in tables as they were defined then (sql/catalog/lease, L5).

// setAsOf fixes the read timestamp of an implicit transaction, before it reads anything, and gives the plan that is
// good there.
func (s *Session) setAsOf(ctx context.Context, p *plan, params []types.Datum) (*plan, error) {
	if s.state == stateExplicit {
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "AS OF SYSTEM TIME must be given with BEGIN in a transaction block")
	}
	if s.wrote || s.catalogChanged() {
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "AS OF SYSTEM TIME can't follow writes of the same transaction")
	}
	s.fillScalar(params)
	ts, err := asOfTimestamp(&s.scalarCtx, p.query.AsOf, s.srv.Clock.Now())
	if err != nil {
		return nil, err
	}
	if ok, err := s.readThere(ctx, ts, p.depends); ok || err != nil {
		return p, err
	}
	if p.stmt == nil {
		return nil, errDefined()
	}
	then, err := s.makePlan(ctx, p.stmt, p.params)
	if err != nil {
		return nil, err
	}
	then.private = true
	if !sameColumns(p.columns, then.columns) || len(then.params) != len(p.params) {
		return nil, errDefined()
	}
	if ok, err := s.cat.Use(then.depends); !ok || err != nil {
		if err == nil {
			err = sqlstate.New(sqlstate.SerializationFailure, "the schema was changed by another transaction")
		}
		return nil, err
	}
	return then, nil
}

// errDefined is for those who have been told already which columns come.
func errDefined() error {
	return &sqlstate.Error{Code: sqlstate.FeatureNotSupported, Message: "cached plan must not change result type",
		Detail: "The definition of a table changed after the time of AS OF SYSTEM TIME.", Hint: "Begin a transaction AS OF SYSTEM TIME and prepare the statement there."}
}

// readThere fixes the read timestamp, and reports whether a plan that was made from deps is good there.
func (s *Session) readThere(ctx context.Context, ts clock.Timestamp, deps []catalog.Dependency) (bool, error) {
	if err := s.readAt(ts); err != nil {
		return false, err
	}
	if err := s.cat.Load(ctx, deps); err != nil {
		return false, err
	}
	return s.cat.Use(deps)
}

// planInPast plans a query AS OF SYSTEM TIME as of that time, if the catalogue has changed since; else the plan is nil.
// A time that is a parameter is not known yet: such a query is planned with what is there now. The implicit transaction
// is in the present again afterwards, since another statement may come before the query runs.
func (s *Session) planInPast(ctx context.Context, stmt *parse.Statement, params []*types.T) (*plan, error) {
	if s.state == stateExplicit || s.wrote || s.catalogChanged() {
		return nil, nil
	}
	x, err := s.binder(params).AsOf(ctx, stmt)
	if x == nil || err != nil || hasPlaceholder(x) {
		return nil, nil // what is wrong comes up again
	}
	s.fillScalar(nil)
	ts, err := asOfTimestamp(&s.scalarCtx, x, s.srv.Clock.Now())
	if err != nil || !s.srv.Catalog.ChangedSince(ts) {
		return nil, nil
	}
	s.ensureTxn()
	now := s.modes
	if err := s.readAt(ts); err != nil {
		return nil, err
	}
	p, err := s.makePlan(ctx, stmt, params)
	past := s.cat.Past()
	s.tx.Rollback(ctx)
	s.modes = now
	s.cat.Finish(ctx, false)
	s.tx = s.srv.DB.Begin(s.options(now))
	s.beginCatalog()
	if err != nil {
		return nil, err
	}
	p.private = p.private || past
	return p, nil
}

func hasPlaceholder(e scalar.Expr) (found bool) {
	scalar.Walk(e, func(x scalar.Expr) bool {
		_, ok := x.(*scalar.Placeholder)
		found = found || ok
		return !found
	})
	return found
}
