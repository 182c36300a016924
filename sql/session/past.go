package session

import (
	"context"

	"meridian/sql/session/plan"

	"meridian/clock"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// AS OF SYSTEM TIME: the rows of a time in the past, in tables as they were defined then (lease.L5).

// setAsOf fixes the read timestamp of an implicit transaction, before it reads anything, and returns the plan for the tables of that
// time. told says that the client may know the plan's columns.
func (s *Session) setAsOf(ctx context.Context, p *plan.Plan, params []types.Datum, told bool) (*plan.Plan, error) {
	if s.state.Explicit() {
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "AS OF SYSTEM TIME must be given with BEGIN in a transaction block")
	}
	if s.state.Wrote() || s.catalogChanged() {
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "AS OF SYSTEM TIME can't follow writes of the same transaction")
	}
	s.fillScalar(params)
	b, err := s.boundOf(p.Query.AsOf)
	if err != nil {
		return nil, err
	}
	if b != nil {
		return s.readWithin(ctx, p, params, b, told)
	}
	ts, err := asOfTimestamp(&s.scalarCtx, p.Query.AsOf, s.srv.Clock.Now())
	if err != nil {
		return nil, err
	}
	then, err := s.planAt(ctx, p, ts, txn.NearestLikely, told)
	if err == nil {
		err = s.covered(ctx, then, params)
	}
	return then, err
}

// planAt fixes the read timestamp, and returns the plan for the tables of that time: p, if they were the same.
func (s *Session) planAt(ctx context.Context, p *plan.Plan, ts clock.Timestamp, near txn.Nearness, told bool) (*plan.Plan, error) {
	if ok, err := s.readThere(ctx, ts, near, p.Depends); ok || err != nil {
		return p, err
	}
	if p.Stmt == nil {
		return nil, errDefined()
	}
	then, err := s.makePlan(ctx, p.Stmt, p.Params)
	if err != nil {
		return nil, err
	}
	then.Private = true
	if told && !plan.SameColumns(p.Columns, then.Columns) || then.Query == nil || len(then.Params) != len(p.Params) {
		return nil, errDefined()
	}
	if ok, err := s.cat.Use(then.Depends); !ok || err != nil {
		if err == nil {
			err = sqlstate.New(sqlstate.SerializationFailure, "the schema was changed by another transaction")
		}
		return nil, err
	}
	return then, nil
}

// errDefined refuses a query whose columns at that time are not those of its plan, which the client may have been sent already.
func errDefined() error {
	return &sqlstate.Error{Code: sqlstate.FeatureNotSupported, Message: "cached plan must not change result type",
		Detail: "The definition of a table changed after the time of AS OF SYSTEM TIME.", Hint: "Begin a transaction AS OF SYSTEM TIME and prepare the statement there."}
}

// readThere fixes the read timestamp, and reports whether a plan that was made from deps is valid at that time.
func (s *Session) readThere(ctx context.Context, ts clock.Timestamp, near txn.Nearness, deps []catalog.Dependency) (bool, error) {
	if err := s.readAt(ctx, ts, near); err != nil {
		return false, err
	}
	if err := s.cat.Load(ctx, deps); err != nil {
		return false, err
	}
	return s.cat.Use(deps)
}

// planInPast plans a query AS OF SYSTEM TIME with the catalogue of that time; for others the plan is nil.
// A time that is a parameter is not known yet: such a query is planned with the present catalogue. Afterwards the implicit transaction
// is in the present again, since another statement may come before the query runs.
func (s *Session) planInPast(ctx context.Context, stmt *parse.Statement, params []*types.T) (*plan.Plan, error) {
	if s.state.Explicit() || s.state.Wrote() || s.catalogChanged() {
		return nil, nil
	}
	x, err := s.binder(params).AsOf(ctx, stmt)
	if x == nil || err != nil || hasPlaceholder(x) {
		return nil, nil // an error occurs again when the query is planned
	}
	if _, bounded := scalar.BoundOf(x); bounded {
		return nil, nil // the time will be negotiated
	}
	s.fillScalar(nil)
	ts, err := asOfTimestamp(&s.scalarCtx, x, s.srv.Clock.Now())
	if err != nil {
		return nil, nil
	}
	s.ensureTxn()
	now := s.state.Modes()
	if err := s.readAt(ctx, ts, txn.NearestLikely); err != nil {
		return nil, err
	}
	p, err := s.makePlan(ctx, stmt, params)
	past := s.cat.Past()
	s.tx.Rollback(ctx)
	s.state.SetModes(now)
	s.cat.Finish(ctx, false)
	s.tx = s.srv.DB.Begin(s.options(now))
	s.beginCatalog()
	if err != nil {
		return nil, err
	}
	p.Private = p.Private || past
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
