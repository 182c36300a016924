package portal

import (
	"context"

	"meridian/sql/sqlstate"
)

// maxPortals bounds the portals that a client can make a session hold.
const maxPortals = 10_000

// Portals are the portals of a session, SQL cursors among them.
type Portals struct {
	byName map[string]*Portal
	made   int64 // portals that were ever made
}

// NewPortals makes an empty set.
func NewPortals() Portals { return Portals{byName: map[string]*Portal{}} }

// Empty reports whether there is no portal.
func (s *Portals) Empty() bool { return len(s.byName) == 0 }

// Find returns the portal of a name.
func (s *Portals) Find(name string) (*Portal, error) { return s.find("portal", name) }

// Cursor is Find for statements, in whose errors a portal is called a cursor.
func (s *Portals) Cursor(name string) (*Portal, error) { return s.find("cursor", name) }

func (s *Portals) find(what, name string) (*Portal, error) {
	if p, ok := s.byName[name]; ok {
		return p, nil
	}
	return nil, sqlstate.New(sqlstate.InvalidCursorName, "%s %q does not exist", what, name)
}

// Has reports whether the set has this very portal, not another one of the same name.
func (s *Portals) Has(p *Portal) bool { return s.byName[p.Name] == p }

// Reserve checks that a portal of a name can be added. An unnamed portal is replaced; another name must be free.
func (s *Portals) Reserve(name string) error {
	if name == "" {
		s.Close("")
		return nil
	}
	return s.ReserveCursor(name)
}

// ReserveCursor checks that a SQL cursor can be added, whose name must be free.
func (s *Portals) ReserveCursor(name string) error {
	if _, taken := s.byName[name]; taken {
		return sqlstate.New(sqlstate.DuplicateCursor, "cursor %q already exists", name)
	}
	if len(s.byName) >= maxPortals {
		return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "too many portals")
	}
	return nil
}

// Add keeps a portal.
func (s *Portals) Add(p *Portal) {
	p.made = s.made
	s.made++
	s.byName[p.Name] = p
}

// Cursors describes the SQL cursors.
func (s *Portals) Cursors() (out []Declaration, names []string) {
	for name, p := range s.byName {
		if p.Declared {
			names = append(names, name)
			out = append(out, Declaration{Binary: p.binary, Hold: p.hold, Scroll: p.scrolls, Source: p.source, Created: p.created})
		}
	}
	return out, names
}

// Close drops a portal, if it is there.
func (s *Portals) Close(name string) {
	if p, ok := s.byName[name]; ok {
		p.Drop()
		delete(s.byName, name)
	}
}

// CloseAll drops all of them.
func (s *Portals) CloseAll() {
	for name := range s.byName {
		s.Close(name)
	}
}

// Mark is a point in the life of the set, to which CloseSince returns.
type Mark int64

// Mark returns the present point.
func (s *Portals) Mark() Mark { return Mark(s.made) }

// CloseSince drops the portals that were made after a mark.
func (s *Portals) CloseSince(m Mark) {
	for name, p := range s.byName {
		if p.made >= int64(m) {
			s.Close(name)
		}
	}
}

// Begin notes the positions of the session's cursors when a transaction begins.
func (s *Portals) Begin() {
	for _, p := range s.byName {
		p.began = p.pos
	}
}

// Restart takes the set back to the begin of the open transaction: it drops the cursors that the transaction declared, and resets the positions of
// the session's cursors.
func (s *Portals) Restart() {
	for name, p := range s.byName {
		switch {
		case p.free:
			p.pos = p.began
		case p.Declared:
			s.Close(name)
		}
	}
}

// EndTransaction drops the portals that do not outlive their transaction.
func (s *Portals) EndTransaction(committed bool) {
	for name, p := range s.byName {
		if p.hold && committed {
			p.free = true
		}
		if !p.free {
			s.Close(name)
		}
	}
}

// Hold reads the remaining rows of all running queries, before a statement takes another snapshot.
func (s *Portals) Hold(ctx context.Context) error {
	return s.holdThose(ctx, func(*Portal) bool { return true })
}

// Freeze reads the remaining rows of the open cursors, before their transaction writes (portal.PO1).
func (s *Portals) Freeze(ctx context.Context) error {
	return s.holdThose(ctx, func(p *Portal) bool { return p.Declared })
}

func (s *Portals) holdThose(ctx context.Context, those func(*Portal) bool) error {
	for _, p := range s.byName {
		if p.rows != nil && those(p) {
			if err := p.rows.Hold(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Materialize reads the cursors WITH HOLD to their ends, before their transaction commits (portal.PO2).
func (s *Portals) Materialize(ctx context.Context) error {
	for _, p := range s.byName {
		if !p.hold || p.ended {
			continue
		}
		at := p.pos
		p.pos = int64(len(p.kept))
		for {
			row, err := p.next(ctx)
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
