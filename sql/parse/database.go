package parse

import "strings"

// databaseWords are PostgreSQL's options of databases that the grammar library does not accept in all their forms.
var databaseWords = []string{"template", "encoding", "strategy", "locale", "lc_collate", "lc_ctype", "icu_locale", "locale_provider", "collation_version",
	"tablespace", "allow_connections", "connection limit", "is_template", "oid"}

// databaseOptions cuts PostgreSQL's options out of CREATE DATABASE name, from token at on, and keeps them in the statement; OWNER and the regions
// remain for the grammar.
func databaseOptions(s *Statement, toks []Token, at int) (cuts []cut, err error) {
	src := s.Source
	for i := at; i < len(toks); i++ {
		for _, w := range databaseWords {
			first, second, two := strings.Cut(w, " ")
			if !isWord(toks[i], src, first) || two && (i+1 >= len(toks) || !isWord(toks[i+1], src, second)) || i == at {
				continue
			}
			end := i + 1
			if two {
				end++
			}
			if end < len(toks) && toks[end].Text(src) == "=" {
				end++
			}
			c := &cursor{src: src, toks: toks, i: end}
			minus := c.acceptOp("-")
			value, err := c.word()
			if err != nil {
				return nil, err
			}
			if minus {
				value = "-" + value
			}
			s.Database = append(s.Database, StorageOption{w, value})
			cuts = append(cuts, cut{from: i, to: c.i})
			i = c.i - 1
			break
		}
	}
	return cuts, nil
}

// dropForce cuts [WITH] (FORCE) out of DROP DATABASE.
func dropForce(s *Statement, toks []Token) []cut {
	src := s.Source
	for i := 2; i+2 < len(toks); i++ {
		if isPunct(toks[i], src, "(") && isWord(toks[i+1], src, "force") && isPunct(toks[i+2], src, ")") {
			s.Force = true
			if isWord(toks[i-1], src, "with") {
				return []cut{{from: i - 1, to: i + 3}}
			}
			return []cut{{from: i, to: i + 3}}
		}
	}
	return nil
}

// alterDatabase parses PostgreSQL's options of ALTER DATABASE; node is nil if it has none of them.
func (c *cursor) alterDatabase() (node any, err error) {
	start := c.i
	a := &AlterDatabase{}
	if a.Name, err = c.ident(); err != nil {
		c.i = start
		return nil, nil
	}
	switch {
	case c.is("set") && !c.isAt(1, "tablespace") && !c.isAt(1, "primary") && !c.isAt(1, "secondary"), c.is("reset"):
		a.Set, a.Reset, err = c.initialSetting()
		return a, err
	case c.accept("refresh", "collation", "version"):
		return a, nil
	case c.accept("set"):
	default:
		c.accept("with")
	}
	for !c.done() {
		known := false
		for _, w := range []string{"allow_connections", "connection limit", "is_template", "tablespace"} {
			if c.accept(strings.Fields(w)...) {
				known = true
				c.acceptOp("=")
				minus := c.acceptOp("-")
				value, err := c.word()
				if err != nil {
					return nil, err
				}
				if minus {
					value = "-" + value
				}
				a.Options = append(a.Options, StorageOption{w, value})
				break
			}
		}
		if !known {
			c.i = start
			return nil, nil
		}
	}
	return a, nil
}

// AlterDatabase is ALTER DATABASE with options, or with settings, or with neither: REFRESH COLLATION VERSION.
type AlterDatabase struct {
	Name    string
	Set     *SetVar
	Reset   *ResetVar
	Roles   bool // the statement was ALTER ROLE ALL IN DATABASE
	Options []StorageOption
}
