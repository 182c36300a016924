package parse

import "meridian/sql/sqlstate"

// Interleave is INTERLEAVE IN PARENT of CREATE TABLE, in the form of CockroachDB, which lists columns, or in that of Spanner, which does not. The grammar library has lost it.
type Interleave struct {
	Parent Name
	// Columns are nil if the clause has none.
	Columns []string
	// Cascade is ON DELETE CASCADE, and Restrict is ON DELETE RESTRICT; else it is NO ACTION.
	Cascade, Restrict bool
}

// interleaveClause parses the clause that begins with toks[i], and returns the token behind it.
func interleaveClause(s *Statement, toks []Token, i int) (next int, err error) {
	c := &cursor{src: s.Source, toks: toks, i: i + 3}
	if s.Interleave != nil {
		c.i = i
		return 0, c.unexpected()
	}
	in := &Interleave{}
	if in.Parent, err = c.name(); err != nil {
		return 0, err
	}
	if in.Columns, err = c.parenIdents(); err != nil {
		return 0, err
	}
	if c.accept("on", "delete") {
		switch {
		case c.accept("cascade"):
			in.Cascade = true
		case c.accept("restrict"):
			in.Restrict = true
		case c.accept("no", "action"):
		case c.is("set"):
			return 0, sqlstate.New(sqlstate.FeatureNotSupported, "INTERLEAVE IN PARENT can't have ON DELETE SET").
				WithHint("A row is stored under the key of its parent. Use ON DELETE CASCADE or ON DELETE NO ACTION.").At(CharPos(s.Source, int(c.peek(0).Pos)))
		default:
			return 0, c.unexpected()
		}
	}
	s.Interleave = in
	return c.i, nil
}
