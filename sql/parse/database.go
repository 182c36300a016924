package parse

import (
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

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
	if a.Super, err = c.superSurvival(); err != nil || a.Super != nil {
		return a, err
	}
	if a.Witness, err = c.witnessRegion(); err != nil || a.Witness != nil {
		return a, err
	}
	if s, err := c.setPlacement(); s != nil || err != nil {
		if s != nil {
			s.Database = a.Name
		}
		return s, err
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
	// Super is the survival goal of a super region; nil: the statement is another one.
	Super *SuperSurvival
	// Witness is about the witness region; nil: the statement is another one.
	Witness *WitnessRegion
}

// WitnessRegion is {ADD | SET | DROP} WITNESS REGION. Region may be empty in DROP; Unless is IF NOT EXISTS of ADD and IF EXISTS of DROP.
type WitnessRegion struct {
	Verb   string
	Region string
	Unless bool
}

// witnessRegion parses {ADD [IF NOT EXISTS] | SET} WITNESS REGION name, and DROP WITNESS REGION [IF EXISTS] [name]; nil if the statement is another one.
func (c *cursor) witnessRegion() (*WitnessRegion, error) {
	if !c.isAt(1, "witness") || !c.isAt(2, "region") {
		return nil, nil
	}
	w := &WitnessRegion{}
	switch {
	case c.accept("add", "witness", "region"):
		w.Verb, w.Unless = "ADD", c.accept("if", "not", "exists")
	case c.accept("set", "witness", "region"):
		w.Verb = "SET"
		c.acceptOp("=")
	case c.accept("drop", "witness", "region"):
		w.Verb, w.Unless = "DROP", c.accept("if", "exists")
		if c.done() {
			return w, nil
		}
	default:
		return nil, nil
	}
	var err error
	w.Region, err = c.ident()
	return w, err
}

// SuperSurvival is ALTER SUPER REGION name SURVIVE: the number of regions whose failure is survived, zero for a zone, or the database's goal.
type SuperSurvival struct {
	Name    string
	Regions int
	Inherit bool
}

// superSurvival parses ALTER SUPER REGION name SURVIVE {DEFAULT | {ZONE | REGION | n REGIONS} FAILURE}; nil if the statement is another one.
func (c *cursor) superSurvival() (*SuperSurvival, error) {
	start := c.i
	if !c.accept("alter", "super", "region") {
		return nil, nil
	}
	name, err := c.ident()
	if err != nil || !c.accept("survive") {
		c.i = start
		return nil, nil
	}
	c.acceptOp("=")
	s := &SuperSurvival{Name: name}
	switch {
	case c.accept("default"):
		s.Inherit = true
		c.accept("failure")
		return s, nil
	case c.accept("zone"), c.accept("availability", "zone"):
	case c.accept("region"):
		s.Regions = 1
	default:
		n, to, err := surviveRegions(c.src, c.toks, c.i)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, c.expect("failure")
		}
		c.i, s.Regions = to, n
	}
	return s, c.expect("failure")
}

// surviveRegions reads n REGIONS, which are the tokens from at to the one before to; n is zero if they are something else.
func surviveRegions(src string, toks []Token, at int) (n, to int, err error) {
	if at+1 >= len(toks) || toks[at].Kind != Number || !isWord(toks[at+1], src, "region") && !isWord(toks[at+1], src, "regions") {
		return 0, at, nil
	}
	n, err = strconv.Atoi(toks[at].Text(src))
	if err != nil || n < 1 {
		return 0, at, sqlstate.New(sqlstate.SyntaxError, "the number of regions whose failure is survived is positive").At(CharPos(src, int(toks[at].Pos)))
	}
	return n, at + 2, nil
}

// regionClauses keeps the number of SURVIVE n REGIONS FAILURE and the name of WITNESS REGION in the statement, and cuts them out of the grammar's text.
func regionClauses(s *Statement, toks []Token) (cuts []cut, err error) {
	src := s.Source
	for i := 2; i+2 < len(toks); i++ {
		if isWord(toks[i], src, "witness") && isWord(toks[i+1], src, "region") {
			c := &cursor{src: src, toks: toks, i: i + 2}
			c.acceptOp("=")
			if s.WitnessRegion != "" {
				return nil, sqlstate.New(sqlstate.SyntaxError, "conflicting or redundant options").At(CharPos(src, int(toks[i].Pos))).
					WithDetail("WITNESS REGION is given twice.").WithHint("A database has one witness region at most.")
			}
			if s.WitnessRegion, err = c.ident(); err != nil {
				return nil, err
			}
			cuts = append(cuts, cut{from: i, to: c.i})
			i = c.i - 1
			continue
		}
		if !isWord(toks[i], src, "survive") {
			continue
		}
		at := i + 1
		if toks[at].Text(src) == "=" {
			at++
		}
		n, to, err := surviveRegions(src, toks, at)
		if err != nil {
			return nil, err
		}
		if n > 0 && to < len(toks) && (isWord(toks[to], src, "failure") || isWord(toks[to], src, "failures")) {
			s.SurviveRegions = n
			cuts = append(cuts, cut{from: at, to: to + 1, text: "REGION FAILURE"})
		}
	}
	return cuts, nil
}
