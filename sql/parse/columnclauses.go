package parse

import "meridian/sql/sqlstate"

// columnClauses refuses a column with clauses that exclude each other, in CREATE TABLE and ALTER TABLE ... ADD COLUMN, as PostgreSQL does: by the
// first clause that does not go with one before it.
func columnClauses(src string, toks []Token) error {
	i := 1
	for i < len(toks) && (isWord(toks[i], src, "global") || isWord(toks[i], src, "local") || isWord(toks[i], src, "temp") || isWord(toks[i], src, "temporary") || isWord(toks[i], src, "unlogged")) {
		i++
	}
	if len(toks) < 4 || i >= len(toks) || !isWord(toks[i], src, "table") {
		return nil
	}
	word := func(i int, w string) bool { return i < len(toks) && isWord(toks[i], src, w) }
	i++
	if word(i, "if") {
		for i++; word(i, "not") || word(i, "exists"); i++ {
		}
	}
	if word(i, "only") {
		i++
	}
	for ; i+2 < len(toks) && isPunct(toks[i+1], src, "."); i += 2 {
	}
	if i >= len(toks) {
		return nil
	}
	c := clauses{src: src, toks: toks, table: identText(toks[i], src)}
	if isWord(toks[0], src, "create") {
		if i++; i >= len(toks) || !isPunct(toks[i], src, "(") {
			return nil
		}
		for i++; i < len(toks); i++ {
			end := c.end(i)
			if err := c.column(i, end); err != nil {
				return err
			}
			if i = end; i >= len(toks) || !isPunct(toks[i], src, ",") {
				return nil
			}
		}
		return nil
	}
	for i++; i < len(toks); i++ {
		end := c.end(i)
		if word(i, "add") {
			i++
			if word(i, "column") {
				i++
			}
			if word(i, "if") {
				i += 3
			}
			if err := c.column(i, end); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}

type clauses struct {
	src   string
	toks  []Token
	table string
}

// end is the comma or the closing parenthesis behind the element that begins at token i, or the number of tokens.
func (c *clauses) end(i int) int {
	depth := 0
	for ; i < len(c.toks); i++ {
		switch {
		case isPunct(c.toks[i], c.src, "(") || isPunct(c.toks[i], c.src, "["):
			depth++
		case isPunct(c.toks[i], c.src, ")") || isPunct(c.toks[i], c.src, "]"):
			if depth == 0 {
				return i
			}
			depth--
		case depth == 0 && isPunct(c.toks[i], c.src, ","):
			return i
		}
	}
	return i
}

// column checks the column that is defined by tokens i to end.
func (c *clauses) column(i, end int) error {
	if i+1 >= end || c.toks[i].Kind != Word && c.toks[i].Kind != Quoted {
		return nil
	}
	if c.toks[i].Kind == Word {
		switch Fold(c.toks[i].Text(c.src)) {
		case "constraint", "check", "unique", "primary", "foreign", "exclude", "like", "index", "family", "inverted", "partition":
			return nil
		}
	}
	s := &seen{clauses: c, name: identText(c.toks[i], c.src)}
	serial := false
	switch Fold(c.toks[i+1].Text(c.src)) {
	case "serial", "serial2", "serial4", "serial8", "smallserial", "bigserial":
		serial = i+2 >= end || c.toks[i+2].Kind == Word
	}
	word := func(t int, w string) bool { return t < end && isWord(c.toks[t], c.src, w) }
	primary := false
	for t := i + 2; t < end; t++ {
		at := t
		if t > i+3 && word(t-2, "constraint") {
			at -= 2 // a clause begins with its name
		}
		switch {
		case isPunct(c.toks[t], c.src, "("):
			t = c.end(t + 1)
			continue
		case word(t, "null") && !word(t-1, "set"):
			if err := s.setNull(at, true); err != nil {
				return err
			}
		case word(t, "not") && word(t+1, "null"):
			t++
			if err := s.setNull(at, false); err != nil {
				return err
			}
		case word(t, "default") && !word(t-1, "set"):
			if s.byDefault {
				return s.fail(at, "multiple default values specified")
			}
			s.byDefault = true
			t++ // the first token of the expression may be NULL
			if t < end && isPunct(c.toks[t], c.src, "(") {
				t--
			}
		case word(t, "primary") && word(t+1, "key"):
			if primary {
				return sqlstate.New(sqlstate.InvalidTableDefinition, "multiple primary keys for table \"%s\" are not allowed", c.table).At(CharPos(c.src, int(c.toks[at].Pos)))
			}
			primary = true
		case word(t, "generated"):
			as := t + 2
			if word(t+1, "by") {
				as++
			}
			if !word(as, "as") {
				continue
			}
			if t = as + 1; word(t, "identity") {
				if s.identity {
					return s.fail(at, "multiple identity specifications")
				}
				s.identity = true
				if s.nullable && s.null {
					return s.fail(at, "conflicting NULL/NOT NULL declarations")
				}
				s.nullable, s.null = true, false
			} else {
				if s.generated {
					return s.fail(at, "multiple generation clauses specified")
				}
				s.generated = true
				t = c.end(t + 1)
			}
		default:
			continue
		}
		if err := s.both(at); err != nil {
			return err
		}
	}
	if serial {
		if s.byDefault {
			return s.fail(-1, "multiple default values specified")
		}
		s.byDefault = true
		if err := s.both(-1); err != nil {
			return err
		}
		return s.setNull(-1, false)
	}
	return nil
}

// seen is what a column's clauses have said so far.
type seen struct {
	*clauses
	name                                           string
	nullable, null, byDefault, identity, generated bool
}

// fail is an error at token t; -1: without a position.
func (c *seen) fail(t int, what string) error {
	e := sqlstate.New(sqlstate.SyntaxError, "%s for column \"%s\" of table \"%s\"", what, c.name, c.table)
	if t >= 0 {
		e.At(CharPos(c.src, int(c.toks[t].Pos)))
	}
	return e
}

// both refuses a column that has two kinds of values.
func (c *seen) both(t int) error {
	switch {
	case c.byDefault && c.identity:
		return c.fail(t, "both default and identity specified")
	case c.byDefault && c.generated:
		return c.fail(t, "both default and generation expression specified")
	case c.identity && c.generated:
		return c.fail(t, "both identity and generation expression specified")
	}
	return nil
}

// setNull notes NULL or NOT NULL.
func (c *seen) setNull(t int, isNull bool) error {
	if c.nullable && c.null != isNull {
		return c.fail(t, "conflicting NULL/NOT NULL declarations")
	}
	c.nullable, c.null = true, isNull
	return nil
}
