package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// The grammar library accepts neither DEFERRABLE nor INITIALLY DEFERRED, nor the columns of ON DELETE SET NULL and SET DEFAULT. They are
// parsed here, and cut out of the library's text. They belong to the constraint before them, which is identified by its number among those of its
// kind in the statement.

// ConstraintKind is the kind of a constraint that can be deferred.
type ConstraintKind uint8

const (
	ForeignConstraint ConstraintKind = iota
	UniqueConstraint
	PrimaryConstraint
	constraintKinds
)

// Deferral is DEFERRABLE and INITIALLY DEFERRED of one constraint.
type Deferral struct {
	Deferrable, Deferred bool
	// SetColumns are the columns that ON DELETE SET NULL or SET DEFAULT names; nil: all of the key.
	SetColumns []string
}

// ConstraintNumber names a constraint of CREATE TABLE or ALTER TABLE: the Number-th of its kind in the text, from 0.
type ConstraintNumber struct {
	Kind   ConstraintKind
	Number int
}

// deferring tracks the constraints of a statement, token by token.
type deferring struct {
	counts [constraintKinds]int
	last   ConstraintNumber
	// on: the last clause that began is a constraint that may be deferred; check: it is a CHECK.
	on, check bool
}

// word tracks one word. If a deferral begins there, next is the token after it.
func (d *deferring) word(s *Statement, toks []Token, i int) (next int, err error) {
	src := s.Source
	is := func(i int, w string) bool { return i >= 0 && i < len(toks) && isWord(toks[i], src, w) }
	begin := func(k ConstraintKind) {
		d.last, d.on, d.check = ConstraintNumber{k, d.counts[k]}, true, false
		d.counts[k]++
	}
	switch w := toks[i].Text(src); len(w) {
	case 3:
		if strings.EqualFold(w, "not") {
			if is(i+1, "deferrable") {
				return d.read(s, toks, i)
			}
			if is(i+1, "null") {
				d.on, d.check = false, false
			}
		}
	case 5:
		if strings.EqualFold(w, "check") {
			// The constraint of a column can't be deferred.
			at := i
			if is(i-2, "constraint") {
				at = i - 2
			}
			d.check = at > 0 && (isPunct(toks[at-1], src, "(") || isPunct(toks[at-1], src, ",") || is(at-1, "add"))
			d.on = d.check
		}
	case 6:
		if strings.EqualFold(w, "unique") {
			begin(UniqueConstraint)
		}
	case 7:
		switch {
		case strings.EqualFold(w, "primary") && is(i+1, "key"):
			begin(PrimaryConstraint)
		case strings.EqualFold(w, "default") && !is(i-1, "set"):
			d.on, d.check = false, false
		}
	case 9:
		switch {
		case strings.EqualFold(w, "generated"):
			d.on, d.check = false, false
		case strings.EqualFold(w, "initially") && (is(i+1, "deferred") || is(i+1, "immediate")):
			return d.read(s, toks, i)
		}
	case 10:
		switch {
		case strings.EqualFold(w, "references"):
			begin(ForeignConstraint)
		case strings.EqualFold(w, "deferrable") && i >= 3:
			return d.read(s, toks, i)
		}
	}
	return i, nil
}

func (d *deferring) read(s *Statement, toks []Token, i int) (int, error) {
	from, written := i, deferral{}
	i, err := written.read(s.Source, toks, i)
	if err != nil || i == from {
		return i, err
	}
	if d.check {
		return 0, sqlstate.New(sqlstate.FeatureNotSupported, "CHECK constraints cannot be marked DEFERRABLE")
	}
	if !d.on {
		text := strings.ToUpper(toks[from].Text(s.Source))
		if text != "DEFERRABLE" {
			text += " " + strings.ToUpper(toks[from+1].Text(s.Source))
		}
		return 0, sqlstate.New(sqlstate.SyntaxError, "misplaced %s clause", text).At(CharPos(s.Source, int(toks[from].Pos)))
	}
	if s.Deferrals == nil {
		s.Deferrals = map[ConstraintNumber]Deferral{}
	}
	done := written.result()
	done.SetColumns = s.Deferrals[d.last].SetColumns
	s.Deferrals[d.last] = done
	return i, nil
}

// setColumns reads the columns of ON DELETE SET NULL (a, b), which begin at toks[i].
func (d *deferring) setColumns(s *Statement, toks []Token, i int) (next int, err error) {
	c := cursor{src: s.Source, toks: toks, i: i}
	names, err := c.parenIdents()
	if err != nil {
		return 0, err
	}
	if s.Deferrals == nil {
		s.Deferrals = map[ConstraintNumber]Deferral{}
	}
	done := s.Deferrals[d.last]
	done.SetColumns = names
	s.Deferrals[d.last] = done
	return c.i, nil
}

// deferral has the clauses as they were written: 0 for a missing one, 1 for the positive form, -1 for the negative one.
type deferral struct{ deferrable, deferred int }

func (d *deferral) result() Deferral {
	return Deferral{Deferrable: d.deferrable > 0 || d.deferrable == 0 && d.deferred > 0, Deferred: d.deferred > 0}
}

// read reads all clauses of a deferral.
func (d *deferral) read(src string, toks []Token, i int) (int, error) {
	is := func(i int, w string) bool { return i < len(toks) && isWord(toks[i], src, w) }
	for {
		at := i
		switch {
		case is(i, "not") && is(i+1, "deferrable"):
			d.deferrable, i = -1, i+2
		case is(i, "deferrable"):
			d.deferrable, i = 1, i+1
		case is(i, "initially") && is(i+1, "deferred"):
			d.deferred, i = 1, i+2
		case is(i, "initially") && is(i+1, "immediate"):
			d.deferred, i = -1, i+2
		default:
			return i, nil
		}
		if d.deferrable < 0 && d.deferred > 0 {
			return 0, sqlstate.New(sqlstate.SyntaxError, "constraint declared INITIALLY DEFERRED must be DEFERRABLE").At(CharPos(src, int(toks[at].Pos)))
		}
	}
}

// SetConstraints is SET CONSTRAINTS; without names it means all.
type SetConstraints struct {
	Names    []Name
	Deferred bool
}

func (c *cursor) setConstraints() (any, error) {
	s := &SetConstraints{}
	if !c.accept("all") {
		var err error
		if s.Names, err = c.names(); err != nil {
			return nil, err
		}
	}
	w, ok := c.acceptAny("deferred", "immediate")
	if !ok {
		return nil, c.unexpected()
	}
	s.Deferred = w == "deferred"
	return s, nil
}

// AlterConstraint is ALTER TABLE ... ALTER CONSTRAINT.
type AlterConstraint struct {
	Table    Name
	IfExists bool
	Name     string
	Deferral
}

// alterConstraint parses ALTER TABLE ... ALTER CONSTRAINT; node is nil if it is something else.
func (c *cursor) alterConstraint() (node any, err error) {
	start := c.i
	a := &AlterConstraint{}
	a.IfExists = c.accept("if", "exists")
	c.accept("only")
	if a.Table, err = c.name(); err != nil || !c.accept("alter", "constraint") {
		c.i = start
		return nil, nil
	}
	if a.Name, err = c.ident(); err != nil {
		return nil, err
	}
	var d deferral
	if c.i, err = d.read(c.src, c.toks, c.i); err != nil {
		return nil, err
	}
	a.Deferral = d.result()
	return a, nil
}
