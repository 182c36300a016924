package session

import (
	"context"

	"meridian/clock"
	"meridian/keys"
	"meridian/replica/closedts"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/session/plan"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// Bounded staleness (CRDB'22 §5.3.2). The statement says how old its rows may be, and the nearest replicas say up to when they can serve it:
//
//	session.S10 (I4, I6): all rows of a statement, and of a transaction, are those of one timestamp, which is at or after the bound. The nearest
//	    replicas have agreed to it for everything that the statement may read, the descriptors of its tables included. If they can't agree
//	    within the bound, the leaseholders serve the bound itself, or the statement fails (nearest_only).
//
// The reference negotiates for a single statement that reads one row. Here the plan tells what it may read (exec.Program.Spans), so any query is
// allowed; and in a transaction the first query that reads rows negotiates for all of them. Later queries of it read at the same time; where the
// nearest replica has not closed that time, their leaseholders serve it.

// bound is the staleness that a statement or a transaction allows.
type bound struct {
	least clock.Timestamp
	// nearest says that only the nearest replicas may serve the rows.
	nearest bool
}

// maxNegotiations bounds how often a statement negotiates, each time for an earlier timestamp: the tables were defined differently then, so
// another plan reads other keys.
const maxNegotiations = 4

// boundOf evaluates a bound of staleness; nil if the expression is a timestamp. The context of evaluation has been filled in.
func (s *Session) boundOf(e scalar.Expr) (*bound, error) {
	only, ok := scalar.BoundOf(e)
	if !ok {
		return nil, nil
	}
	d, err := evaluate(&s.scalarCtx, e)
	if err != nil {
		return nil, err
	}
	b := &bound{}
	if only != nil && !d.IsNull() {
		var alone types.Datum
		if alone, err = evaluate(&s.scalarCtx, only); err != nil {
			return nil, err
		}
		b.nearest = alone.Bool()
	}
	if d.IsNull() {
		return nil, sqlstate.New(sqlstate.InvalidParameterValue, "the bound of AS OF SYSTEM TIME is NULL")
	}
	if b.least = clock.FromTime(types.TimeFromMicros(d.Micros())); b.least.Wall <= 0 {
		b.least = clock.Timestamp{Wall: 1}
	}
	return b, nil
}

// readWithin fixes the read timestamp of the transaction within a bound, and returns the plan for the tables of that time.
func (s *Session) readWithin(ctx context.Context, p *plan.Plan, params []types.Datum, b *bound, told bool) (*plan.Plan, error) {
	at, near := clock.MaxTimestamp, txn.NearestLikely
	for range maxNegotiations {
		s.fillScalar(params)
		spans := p.Program.Spans(ctx, &s.scalarCtx)
		if len(spans) == 0 {
			return p, nil // it reads no rows, and a transaction goes on without a timestamp
		}
		n, err := s.negotiate(ctx, p, spans, b.least, at)
		if err == nil {
			err = s.cat.Keeps(func() (clock.Timestamp, error) { return n.Closed, nil })
		}
		if err != nil {
			return nil, err
		}
		if at.LessEq(n.At) {
			return p, nil
		}
		at, near = n.At, txn.NearestFirst
		if at.Less(b.least) {
			if b.nearest {
				return nil, errStaleness(b, at, n.Intent)
			}
			at, near = b.least, txn.NearestLikely
		} else if b.nearest {
			near = txn.NearestOnly
		}
		then, err := s.planAt(ctx, p, at, near, told)
		if err != nil || then == p || near == txn.NearestLikely {
			return then, err
		}
		p = then
	}
	return p, nil
}

// negotiate asks the nearest replicas for a timestamp at which a plan may read its spans; if it is a good one, it is not later than the end of the tenure and than
// the present. The replicas of the catalogue are asked only if the plan may be another one at that time: they may be far away, and then each change of a table would
// send the reads of all regions to them, for as long as the bound allows.
func (s *Session) negotiate(ctx context.Context, p *plan.Plan, spans []keys.Span, least, most clock.Timestamp) (txn.Negotiated, error) {
	n, err := s.srv.DB.Negotiate(ctx, spans, least)
	if err != nil || most.LessEq(n.At) {
		return n, err
	}
	n.At = n.At.Backward(s.cat.UpTo()).Backward(s.srv.Clock.Now())
	if n.At.Less(least) {
		return n, nil
	}
	more := s.cat.Negotiable(n.At, p.Depends)
	if len(more) == 0 {
		return n, nil
	}
	c, err := s.srv.DB.Negotiate(ctx, more, least)
	if c.At.Less(n.At) {
		n.At, n.Intent = c.At, c.Intent
	}
	n.Closed = n.Closed.Forward(c.Closed)
	return n, err
}

// covered checks that the node's catalogue may be used at the time of a historical transaction (lease.L11, lease.L12).
func (s *Session) covered(ctx context.Context, p *plan.Plan, params []types.Datum) error {
	if err := s.cat.Covers(ctx); err != nil {
		return err
	}
	return s.cat.Keeps(func() (clock.Timestamp, error) {
		s.fillScalar(params)
		n, err := s.srv.DB.Negotiate(ctx, p.Program.Spans(ctx, &s.scalarCtx), clock.MaxTimestamp)
		return n.Closed, err
	})
}

// planFamiliar plans a query that reads the past, at a time that is not known yet, with the tables that this node knows, so that planning sends
// no message far away. The plan is nil if the query does not read the past, or names something that the node does not know: it may be new.
func (s *Session) planFamiliar(ctx context.Context, stmt *parse.Statement, params []*types.T) (*plan.Plan, error) {
	if s.state.Wrote() || s.catalogChanged() {
		return nil, nil
	}
	if s.bound == nil {
		if x, err := s.binder(params).AsOf(ctx, stmt); x == nil || err != nil {
			return nil, nil
		}
	}
	s.ensureTxn()
	s.cat.FamiliarOnly(true)
	p, err := s.makePlan(ctx, stmt, params)
	s.cat.FamiliarOnly(false)
	switch {
	case sqlstate.Is(err, sqlstate.UndefinedTable), sqlstate.Is(err, sqlstate.UndefinedObject), sqlstate.Is(err, sqlstate.InvalidSchemaName),
		sqlstate.Is(err, sqlstate.InvalidCatalogName):
		return nil, nil
	}
	return p, err
}

// errStaleness is the error of a read that the nearest replicas can't serve within its bound.
func errStaleness(b *bound, at clock.Timestamp, intent bool) error {
	e := sqlstate.New(sqlstate.UnsatisfiableStaleness, "no nearby replica can serve the read within its bound of staleness")
	e.Detail = "The bound is " + readable(b.least) + ", and the nearest replicas serve what it reads up to " + readable(at) + "."
	if intent {
		e.Detail += " A transaction that has not ended yet has written later."
	}
	e.Hint = "Allow more staleness, or leave out nearest_only, so that leaseholders serve the read."
	return e
}

// beginWithin has the transaction negotiate its read timestamp when it first reads rows.
func (s *Session) beginWithin(b *bound) {
	m := s.state.Modes()
	m.ReadOnly = true
	s.state.SetModes(m)
	s.tx.SetReadOnly(true)
	s.bound = b
}

// settleBound gives a transaction that has not negotiated yet its read timestamp, before something that depends on it: the one that follower reads
// use, if it is within the bound.
func (s *Session) settleBound(ctx context.Context) error {
	b := s.bound
	if b == nil {
		return nil
	}
	s.bound = nil
	near := txn.NearestLikely
	if b.nearest {
		near = txn.NearestOnly
	}
	return s.readAt(ctx, s.followerTimestamp().Forward(b.least), near)
}

// followerTimestamp is what follower_read_timestamp() returns, for a transaction that begins now.
func (s *Session) followerTimestamp() clock.Timestamp {
	return s.srv.Clock.Now().Add(-closedts.ReadLag)
}

// usesFollowers reports whether new transactions read at the timestamp of follower reads.
func (s *settings) usesFollowers() bool {
	return s.setting("default_transaction_use_follower_reads") == "on"
}

// errReadWrite refuses a transaction that is to read the past and to write.
func errReadWrite() error {
	return sqlstate.New(sqlstate.SyntaxError, "AS OF SYSTEM TIME specified with READ WRITE mode")
}

// characteristicAsOf is SET SESSION CHARACTERISTICS AS TRANSACTION AS OF SYSTEM TIME: only the timestamp of follower reads makes sense for each
// transaction to come.
func (s *Session) characteristicAsOf(m parse.TxnModes) error {
	s.ensureTxn()
	s.fillScalar(nil)
	expr, err := s.binder(nil).Expr(s.srv.Host.Group.Context(), m.AsOf, nil)
	if err != nil {
		return err
	}
	if c, ok := expr.(*scalar.Call); !ok || c.Func.Name != "follower_read_timestamp" {
		return sqlstate.New(sqlstate.FeatureNotSupported, "AS OF SYSTEM TIME belongs to one transaction, not to a session").
			WithHint("follower_read_timestamp() may be given for all transactions of a session.")
	}
	return s.set("default_transaction_use_follower_reads", "on", false)
}
