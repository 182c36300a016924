package session

import (
	"context"
	"strings"

	"meridian/sql/session/result"

	"meridian/sql/bind"
	"meridian/sql/session/portal"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// declare makes a SQL cursor: a portal under a name.
func (s *Session) declare(ctx context.Context, c *bind.DeclareCursor, params []types.Datum, ts []*types.T) error {
	if c.Scroll && c.NoScroll {
		return sqlstate.New(sqlstate.InvalidCursorDefinition, "cannot specify both SCROLL and NO SCROLL")
	}
	if !s.state.InBlock() && !c.Hold {
		return sqlstate.New(sqlstate.NoActiveTransaction, "DECLARE CURSOR can only be used in transaction blocks")
	}
	if err := s.portals.ReserveCursor(c.Name); err != nil {
		return err
	}
	stmt, err := s.detach(ctx, c.Stmt)
	if err != nil {
		return err
	}
	s.ensureTxn()
	p, err := s.planFor(ctx, stmt, ts)
	if err != nil {
		return err
	}
	switch {
	case p.Query == nil || p.Query.Tag != "SELECT":
		return sqlstate.New(sqlstate.SyntaxError, "a cursor must be a query")
	case p.Query.Writes:
		return sqlstate.New(sqlstate.FeatureNotSupported, "DECLARE CURSOR must not contain data-modifying statements in WITH")
	case p.Query.Locks && c.Hold:
		return sqlstate.New(sqlstate.FeatureNotSupported, "DECLARE CURSOR WITH HOLD ... %s is not supported", "FOR UPDATE").WithDetail("Holdable cursors must be READ ONLY.")
	case p.Query.Locks && c.Scroll:
		return sqlstate.New(sqlstate.FeatureNotSupported, "DECLARE SCROLL CURSOR ... %s is not supported", "FOR UPDATE").WithDetail("Scrollable cursors must be READ ONLY.")
	case len(p.Params) > len(params):
		return stmt.NoParameter()
	}
	if p, err = s.prepareQuery(ctx, p, params, false); err != nil {
		return err
	}
	po := &portal.Portal{Name: strings.Clone(c.Name), Plan: p, Params: params}
	po.Declare(portal.Declaration{Binary: c.Binary, Hold: c.Hold, Scroll: c.Scroll, NoScroll: c.NoScroll, Locks: p.Query.Locks,
		Scrolls: bind.Scrolls(stmt), Source: strings.Clone(c.Stmt.Source), Created: s.scalarCtx.StatementTime,
		Start: func(ctx context.Context) error {
			if err := s.holdCursors(ctx); err != nil {
				return err
			}
			return s.startCursor(ctx, po)
		}})
	if err := po.Take(s.memory, portal.OwnBytes+int64(len(c.Stmt.Source))+portal.Bytes(stmt, p)); err != nil {
		return err
	}
	s.portals.Add(po)
	return po.Start(ctx)
}

func (s *Session) fetch(ctx context.Context, c *bind.Fetch, w *rowWriter) (string, error) {
	p, err := s.portals.Cursor(c.Cursor)
	if err != nil {
		return "", err
	}
	if !p.Declared && !p.Running() && !p.Ended() {
		// A portal of the protocol that was bound, and not executed.
		if p.Plan == nil || p.Plan.Query == nil || p.Plan.Query.Tag != "SELECT" {
			return "", sqlstate.New(sqlstate.FeatureNotSupported, "FETCH and MOVE of the portal of a statement that is not a query are not supported").
				WithHint("Send Execute for the portal.")
		}
		if err := s.startPortal(ctx, p); err != nil {
			return "", err
		}
	}
	formats := w.formats
	if p.Binary() && w.describe {
		formats = []result.Format{result.Binary}
	}
	verb, cols := "FETCH ", p.Plan.Columns
	if c.Move {
		verb, cols = "MOVE ", nil
	}
	n, described := int64(0), cols == nil || !w.describe
	describe := func() { // with the first row, or at the end: a cursor that can't move as requested describes nothing
		if !described {
			s.out.Describe(cols, formats)
		}
		described = true
	}
	err = p.Fetch(ctx, c, func(row types.Row) error {
		if n++; cols == nil {
			return nil
		}
		describe()
		return s.out.Row(row, cols, formats)
	})
	if err == nil {
		describe()
	}
	return verb + itoa(n), err
}

// executeCursor serves the protocol's Execute for a cursor that DECLARE made.
func (s *Session) executeCursor(ctx context.Context, p *portal.Portal, limit int64) error {
	n := int64(0)
	err := p.Fetch(ctx, &bind.Fetch{Count: limit, All: limit == 0}, func(row types.Row) error {
		n++
		return s.out.Row(row, p.Plan.Columns, p.Formats)
	})
	if err != nil {
		return err
	}
	if limit > 0 && n == limit {
		s.out.Suspend()
		return nil
	}
	s.out.Complete(tagOf("SELECT", n))
	return nil
}

func (s *Session) closeCursor(c *bind.CloseCursor) (string, error) {
	if c.Name == "" {
		s.portals.CloseAll()
		return "CLOSE CURSOR ALL", nil
	}
	if _, err := s.portals.Cursor(c.Name); err != nil {
		return "", err
	}
	s.ClosePortal(c.Name)
	return "CLOSE CURSOR", nil
}
