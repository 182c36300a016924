package session

import (
	"context"
	"math"
	"slices"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// SQL cursors are portals that DECLARE makes. Rows come from the running query as they are asked for; those of a cursor that may
// scroll are kept, so that it can go back:
//
//	       kept: 1 2 3 4          read: 4        not read yet
//	pos:   0 . . . ^ .                           (pos 0 is before the first row, read+1 after the last)
//
//	SC1  a cursor shows the rows as they were at DECLARE: before a statement of its transaction writes, what is left is read;
//	SC2  a cursor WITH HOLD is read to its end before its transaction commits, and then belongs to the session;
//	SC3  a cursor that neither says SCROLL nor NO SCROLL may go back while its rows occupy less than scrollBytes.

// scrollBytes bounds the rows that are kept of a cursor that did not ask to scroll. Chosen by us: programs that read a large result
// through a cursor do so because it is too large for memory.
const scrollBytes = 1 << 20

// cursorState is what a portal has besides, if DECLARE made it.
type cursorState struct {
	// keep: rows are kept; asked: because SCROLL or WITH HOLD asks for it; forward: it was declared NO SCROLL.
	keep, asked, forward bool
	binary               bool
	hold                 bool
	// free: its transaction has committed, it is the session's now. began is pos when the open transaction began.
	free  bool
	began int64
	rows  []types.Row
	bytes int64
	read  int64
	pos   int64
	// made counts the cursors and portals before it.
	made int64
}

// declare makes a SQL cursor: a portal under a name.
func (s *Session) declare(ctx context.Context, c *bind.DeclareCursor, params []types.Datum, ts []*types.T) error {
	if c.Scroll && c.NoScroll {
		return sqlstate.New(sqlstate.InvalidCursorDefinition, "cannot specify both SCROLL and NO SCROLL")
	}
	if !s.inBlock() && !c.Hold {
		return sqlstate.New(sqlstate.NoActiveTransaction, "DECLARE CURSOR can only be used in transaction blocks")
	}
	if _, taken := s.portals[c.Name]; taken {
		return sqlstate.New(sqlstate.DuplicateCursor, "cursor %q already exists", c.Name)
	}
	if len(s.portals) >= maxPortals {
		return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "too many portals")
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
	case p.query == nil || p.query.Tag != "SELECT":
		return sqlstate.New(sqlstate.SyntaxError, "a cursor must be a query")
	case p.query.Writes:
		return sqlstate.New(sqlstate.FeatureNotSupported, "DECLARE CURSOR must not contain data-modifying statements in WITH")
	case p.query.Locks && c.Hold:
		return sqlstate.New(sqlstate.FeatureNotSupported, "DECLARE CURSOR WITH HOLD ... %s is not supported", "FOR UPDATE").WithDetail("Holdable cursors must be READ ONLY.")
	case p.query.Locks && c.Scroll:
		return sqlstate.New(sqlstate.FeatureNotSupported, "DECLARE SCROLL CURSOR ... %s is not supported", "FOR UPDATE").WithDetail("Scrollable cursors must be READ ONLY.")
	case len(p.params) > len(params):
		return sqlstate.New(sqlstate.UndefinedParameter, "there is no parameter $%d", len(params)+1)
	}
	if p, err = s.prepareQuery(ctx, p, params); err != nil {
		return err
	}
	name := strings.Clone(c.Name)
	po := &portal{name: name, plan: p, params: params, byDeclare: true, owner: s.memory, held: 512 + s.heldBytes(stmt, p)}
	po.cursorState = cursorState{keep: !c.NoScroll && !p.query.Locks || c.Hold, asked: c.Scroll || c.Hold, forward: c.NoScroll || p.query.Locks,
		binary: c.Binary, hold: c.Hold, made: s.portalsMade}
	s.portalsMade++
	if err := s.memory.Grow(po.held); err != nil {
		return err
	}
	s.portals[name] = po
	if err := s.holdCursors(ctx); err != nil {
		return err
	}
	return s.startCursor(ctx, po)
}

func (s *Session) cursor(name string) (*portal, error) {
	if p, ok := s.portals[name]; ok {
		return p, nil
	}
	return nil, sqlstate.New(sqlstate.InvalidCursorName, "cursor %q does not exist", name)
}

// forgetRows makes a cursor one that only goes forward.
func (p *portal) forgetRows() {
	p.owner.Shrink(p.bytes)
	p.held -= p.bytes
	p.rows, p.bytes, p.keep = nil, 0, false
}

// next moves to the next row and returns it; nil after the last one.
func (s *Session) next(ctx context.Context, p *portal) (types.Row, error) {
	if p.pos < int64(len(p.rows)) {
		p.pos++
		return p.rows[p.pos-1], nil
	}
	if p.ended {
		p.pos = p.read + 1
		return nil, nil
	}
	if p.cur == nil {
		if err := s.holdCursors(ctx); err != nil {
			return nil, err
		}
		if err := s.startCursor(ctx, p); err != nil {
			return nil, err
		}
	}
	row, err := p.cur.Next(ctx)
	if err != nil {
		p.close()
		return nil, err
	}
	if row == nil {
		p.close()
		p.pos = p.read + 1
		return nil, nil
	}
	p.read++
	p.pos = p.read
	if !p.keep {
		return row, nil
	}
	n := int64(64 + 48*len(row))
	for i := range row {
		n += row[i].Weight()
	}
	err = s.memory.Grow(n)
	if err == nil {
		p.held, p.bytes = p.held+n, p.bytes+n
		p.rows = append(p.rows, slices.Clone(row))
	}
	if !p.asked && (err != nil || p.bytes > scrollBytes) { // SC3
		p.forgetRows()
		err = nil
	}
	return row, err
}

// previous moves to the row before and returns it; nil before the first one.
func (p *portal) previous() types.Row {
	if p.pos <= 1 {
		p.pos = 0
		return nil
	}
	p.pos--
	return p.rows[p.pos-1]
}

func (p *portal) mayScroll() error {
	if p.forward || !p.keep {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "cursor can only scan forward").
			WithHint("Declare it with SCROLL option to enable backward scan.")
	}
	return nil
}

func (s *Session) fetch(ctx context.Context, c *bind.Fetch, w *rowWriter) (string, error) {
	p, err := s.cursor(c.Cursor)
	if err != nil {
		return "", err
	}
	formats := w.formats
	if p.binary && w.describe {
		formats = []Format{Binary}
	}
	verb, cols := "FETCH ", p.plan.columns
	if c.Move {
		verb, cols = "MOVE ", nil
	}
	n, described := int64(0), cols == nil || !w.describe
	describe := func() { // once it is clear that the cursor goes where it is told to
		if !described {
			s.out.Describe(cols, formats)
		}
		described = true
	}
	err = s.walk(ctx, p, c, func(row types.Row) error {
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

// executeCursor is the protocol's Execute of a cursor that DECLARE made.
func (s *Session) executeCursor(ctx context.Context, p *portal, limit int64) error {
	n := int64(0)
	err := s.walk(ctx, p, &bind.Fetch{Count: limit, All: limit == 0}, func(row types.Row) error {
		n++
		return s.out.Row(row, p.plan.columns, p.formats)
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

// walk moves a cursor as FETCH and MOVE say, and gives the rows to emit.
func (s *Session) walk(ctx context.Context, p *portal, c *bind.Fetch, emit func(types.Row) error) error {
	direction, count := c.Direction, c.Count
	if c.All {
		count = math.MaxInt64
	}
	if direction == parse.FetchRelative {
		switch {
		case count > 0:
			return s.one(ctx, p, count, emit)
		case count < 0:
			return s.one(ctx, p, count, emit)
		}
		direction = parse.FetchForward
	}
	if direction == parse.FetchAbsolute {
		return s.absolute(ctx, p, count, emit)
	}
	if count < 0 {
		direction, count = parse.FetchBackward-direction, -count // one is zero, the other one
	}
	if count == 0 {
		if p.pos == 0 || p.pos > p.read {
			return nil
		}
		if err := p.mayScroll(); err != nil {
			return err
		}
		return emit(p.rows[p.pos-1])
	}
	if direction == parse.FetchForward {
		for ; count > 0; count-- {
			row, err := s.next(ctx, p)
			if err != nil || row == nil {
				return err
			}
			if err := emit(row); err != nil {
				return err
			}
		}
		return nil
	}
	if err := p.mayScroll(); err != nil {
		return err
	}
	for ; count > 0; count-- {
		row := p.previous()
		if row == nil {
			return nil
		}
		if err := emit(row); err != nil {
			return err
		}
	}
	return nil
}

// one moves by some rows, and emits the last of them.
func (s *Session) one(ctx context.Context, p *portal, by int64, emit func(types.Row) error) error {
	if by < 0 {
		if err := p.mayScroll(); err != nil {
			return err
		}
		var row types.Row
		for ; by < 0; by++ {
			if row = p.previous(); row == nil {
				return nil
			}
		}
		return emit(row)
	}
	var row types.Row
	for ; by > 0; by-- {
		var err error
		if row, err = s.next(ctx, p); err != nil || row == nil {
			return err
		}
	}
	return emit(row)
}

// absolute moves to a row by its number, from the end if that is negative.
func (s *Session) absolute(ctx context.Context, p *portal, to int64, emit func(types.Row) error) error {
	if to > p.pos {
		return s.one(ctx, p, to-p.pos, emit)
	}
	if to == 0 && p.pos == 0 {
		return nil
	}
	if err := p.mayScroll(); err != nil {
		return err
	}
	if to < 0 {
		for {
			row, err := s.next(ctx, p)
			if err != nil {
				return err
			}
			if row == nil {
				break
			}
		}
		if err := p.mayScroll(); err != nil { // the rows have become too many
			return err
		}
		to = max(p.read+1+to, 0)
	}
	if p.pos = to; to == 0 {
		return nil
	}
	return emit(p.rows[to-1])
}

func (s *Session) closeCursor(c *bind.CloseCursor) (string, error) {
	if c.Name == "" {
		s.closePortals()
		return "CLOSE CURSOR ALL", nil
	}
	if _, err := s.cursor(c.Name); err != nil {
		return "", err
	}
	s.ClosePortal(c.Name)
	return "CLOSE CURSOR", nil
}

// freezeCursors reads what is left of the open cursors, before their transaction writes (SC1).
func (s *Session) freezeCursors(ctx context.Context) error {
	for _, p := range s.portals {
		if p.byDeclare && p.cur != nil {
			if err := p.cur.Hold(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepHeld reads the cursors WITH HOLD to their ends, before their transaction commits (SC2).
func (s *Session) keepHeld(ctx context.Context) error {
	for _, p := range s.portals {
		if !p.hold || p.ended {
			continue
		}
		at := p.pos
		p.pos = int64(len(p.rows))
		for {
			row, err := s.next(ctx, p)
			if err != nil {
				return err
			}
			if row == nil {
				break
			}
		}
		p.pos = at
	}
	return nil
}

// dropTxnPortals closes the portals that do not outlive their transaction.
func (s *Session) dropTxnPortals(committed bool) {
	for name, p := range s.portals {
		if p.hold && committed {
			p.free = true
		}
		if !p.free {
			s.ClosePortal(name)
		}
	}
}

// dropPortalsSince closes the portals that were made after a savepoint.
func (s *Session) dropPortalsSince(made int64) {
	for name, p := range s.portals {
		if p.made >= made {
			s.ClosePortal(name)
		}
	}
}
