package portal

import (
	"context"
	"math"
	"time"

	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// scrollBytes bounds the rows that are kept of a cursor without SCROLL. Chosen by us: programs that read a large result through a cursor do so
// because it is too large for memory.
const scrollBytes = 1 << 20

// cursor is the part of a portal that only a SQL cursor has.
type cursor struct {
	// keep: rows are kept; asked: for SCROLL or WITH HOLD; forward: it can't go back, by NO SCROLL or because its query locks rows.
	keep, asked, forward bool
	binary, hold         bool
	scrolls              bool
	source               string
	created              time.Time
	// start runs the query.
	start func(context.Context) error
	// free: its transaction has committed, and it belongs to the session. began is pos at the begin of the open transaction.
	free  bool
	began int64
	// failed: an error ended its query, and it can't run again.
	failed bool
	kept   []types.Row
	bytes  int64
	read   int64
	pos    int64
}

// Declaration has the options of a DECLARE, and its query.
type Declaration struct {
	Binary, Hold     bool
	Scroll, NoScroll bool
	// Scrolls says that the query could be read backward in PostgreSQL, and Source is the query string in which the cursor was declared.
	Scrolls bool
	Source  string
	Created time.Time
	// Locks says that the query locks its rows: the cursor can't go back.
	Locks bool
	// Start runs the query, from its beginning.
	Start func(context.Context) error
}

// Declare turns a portal into a SQL cursor.
func (p *Portal) Declare(d Declaration) {
	p.Declared = true
	p.cursor = cursor{keep: !d.NoScroll && !d.Locks || d.Hold, asked: d.Scroll || d.Hold, forward: d.NoScroll || d.Locks,
		binary: d.Binary, hold: d.Hold, start: d.Start, scrolls: d.Scroll || d.Scrolls && !d.NoScroll && !d.Locks, source: d.Source, created: d.Created}
}

// OwnBytes is the memory of a declared cursor besides its statement and plan.
const OwnBytes = ownBytes

// Start runs a declared cursor's query.
func (p *Portal) Start(ctx context.Context) error { return p.start(ctx) }

// Binary reports whether the cursor was declared BINARY.
func (p *Portal) Binary() bool { return p.binary }

// Advance notes rows that the protocol's Execute has read of a portal that is not a SQL cursor, whose FETCH goes on behind them.
func (p *Portal) Advance(rows int64) { p.read, p.pos = p.read+rows, p.pos+rows }

// next moves to the next row and returns it; nil after the last one.
func (p *Portal) next(ctx context.Context) (types.Row, error) {
	if p.pos < int64(len(p.kept)) {
		p.pos++
		return p.kept[p.pos-1], nil
	}
	if p.ended {
		p.pos = p.read + 1
		return nil, nil
	}
	if p.rows == nil {
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	row, err := p.rows.Next(ctx)
	if err != nil {
		p.Stop()
		p.failed = true
		return nil, err
	}
	if row == nil {
		p.Stop()
		p.pos = p.read + 1
		return nil, nil
	}
	p.read++
	p.pos = p.read
	if !p.keep {
		return row, nil
	}
	return row, p.keepRow(row)
}

// previous moves to the row before and returns it; nil before the first one.
func (p *Portal) previous() types.Row {
	if p.pos <= 1 {
		p.pos = 0
		return nil
	}
	p.pos--
	return p.kept[p.pos-1]
}

func (p *Portal) mayScroll() error {
	if p.forward || !p.keep {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "cursor can only scan forward").
			WithHint("Declare it with SCROLL option to enable backward scan.")
	}
	return nil
}

// Fetch moves a cursor as FETCH and MOVE do, and emits the rows that it reaches.
func (p *Portal) Fetch(ctx context.Context, m *parse.Fetch, emit func(types.Row) error) error {
	if p.failed {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "portal \"%s\" cannot be run", p.Name)
	}
	direction, count := m.Direction, m.Count
	if m.All {
		count = math.MaxInt64
	}
	if direction == parse.FetchRelative {
		if count != 0 {
			return p.one(ctx, count, emit)
		}
		direction = parse.FetchForward
	}
	if direction == parse.FetchAbsolute {
		return p.absolute(ctx, count, emit)
	}
	if count < 0 {
		direction, count = parse.FetchBackward-direction, -count // one is zero, the other one
	}
	switch {
	case count == 0:
		return p.again(emit)
	case direction == parse.FetchForward:
		return p.forth(ctx, count, emit)
	}
	return p.back(count, emit)
}

// again emits the row on which the cursor is, if it is on one.
func (p *Portal) again(emit func(types.Row) error) error {
	if p.pos == 0 || p.pos > p.read {
		return nil
	}
	if err := p.mayScroll(); err != nil {
		return err
	}
	return emit(p.kept[p.pos-1])
}

func (p *Portal) forth(ctx context.Context, count int64, emit func(types.Row) error) error {
	for ; count > 0; count-- {
		row, err := p.next(ctx)
		if err != nil || row == nil {
			return err
		}
		if err := emit(row); err != nil {
			return err
		}
	}
	return nil
}

func (p *Portal) back(count int64, emit func(types.Row) error) error {
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
func (p *Portal) one(ctx context.Context, by int64, emit func(types.Row) error) error {
	var row types.Row
	if by < 0 {
		if err := p.mayScroll(); err != nil {
			return err
		}
		for ; by < 0; by++ {
			if row = p.previous(); row == nil {
				return nil
			}
		}
		return emit(row)
	}
	for ; by > 0; by-- {
		var err error
		if row, err = p.next(ctx); err != nil || row == nil {
			return err
		}
	}
	return emit(row)
}

// absolute moves to the row of a number, counted from the end if it is negative.
func (p *Portal) absolute(ctx context.Context, to int64, emit func(types.Row) error) error {
	if to > p.pos {
		return p.one(ctx, to-p.pos, emit)
	}
	if to == 0 && p.pos == 0 {
		return nil
	}
	if err := p.mayScroll(); err != nil {
		return err
	}
	if to < 0 {
		for {
			row, err := p.next(ctx)
			if err != nil {
				return err
			}
			if row == nil {
				break
			}
		}
		if err := p.mayScroll(); err != nil { // the kept rows have exceeded scrollBytes
			return err
		}
		to = max(p.read+1+to, 0)
	}
	if p.pos = to; to == 0 || to > p.read { // after the last row
		return nil
	}
	return emit(p.kept[to-1])
}
