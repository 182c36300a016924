package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// The grammar library accepts few of the actions of ALTER TABLE and ALTER INDEX that are about the storage of rows. Dumps contain them, so they are
// parsed here; package bind checks them, with a notice that they have no effect.

// StorageKind is the kind of a StorageAction.
type StorageKind string

const (
	SetStatistics        StorageKind = "ALTER COLUMN ... SET STATISTICS"
	SetStorage           StorageKind = "ALTER COLUMN ... SET STORAGE"
	SetCompression       StorageKind = "ALTER COLUMN ... SET COMPRESSION"
	SetColumnOptions     StorageKind = "ALTER COLUMN ... SET"
	SetIndexOptions      StorageKind = "SET"
	ResetOptions         StorageKind = "RESET"
	SetLogged            StorageKind = "SET LOGGED"
	SetUnlogged          StorageKind = "SET UNLOGGED"
	ClusterOn            StorageKind = "CLUSTER ON"
	WithoutCluster       StorageKind = "SET WITHOUT CLUSTER"
	WithoutOids          StorageKind = "SET WITHOUT OIDS"
	ReplicaIdentity      StorageKind = "REPLICA IDENTITY"
	ReplicaIdentityIndex StorageKind = "REPLICA IDENTITY USING INDEX"
	EnableTriggers       StorageKind = "ENABLE TRIGGER"
	DisableTriggers      StorageKind = "DISABLE TRIGGER"
	SetTablespace        StorageKind = "SET TABLESPACE"
	SetAccessMethod      StorageKind = "SET ACCESS METHOD"
)

// StorageAction is one action: on a column, or with a value, which may be the name of an index or of a trigger.
type StorageAction struct {
	Kind    StorageKind
	Column  string
	Value   string
	Options []StorageOption
}

// StorageOption is name = value.
type StorageOption struct{ Name, Value string }

// AlterStorage is ALTER TABLE or ALTER INDEX with nothing but storage actions.
type AlterStorage struct {
	Index    bool
	IfExists bool
	Name     Name
	Actions  []StorageAction
}

// alterStorage parses ALTER TABLE and ALTER INDEX after these words; node is nil if any action is not a storage action.
func (c *cursor) alterStorage(index bool) (node any, err error) {
	start := c.i
	a := &AlterStorage{Index: index, IfExists: c.accept("if", "exists")}
	c.accept("only")
	if a.Name, err = c.name(); err != nil {
		c.i = start
		return nil, nil
	}
	c.acceptOp("*")
	for {
		act, ok, err := c.storageAction(index)
		if err != nil {
			return nil, err
		}
		if !ok {
			c.i = start
			return nil, nil
		}
		a.Actions = append(a.Actions, act)
		if !c.acceptPunct(",") {
			break
		}
	}
	if !c.done() {
		c.i = start
		return nil, nil
	}
	return a, nil
}

func (c *cursor) storageAction(index bool) (a StorageAction, ok bool, err error) {
	value := func(kind StorageKind) (StorageAction, bool, error) {
		a.Kind = kind
		a.Value, err = c.ident()
		return a, true, err
	}
	// options parses SET (name = value, ...), which is an action of the kind set, or RESET (name, ...).
	options := func(set StorageKind) bool {
		sets := c.is("set")
		if !sets && !c.is("reset") || !isPunct(c.peek(1), c.src, "(") {
			return false
		}
		c.i++
		if a.Kind = ResetOptions; sets {
			a.Kind = set
		}
		a.Options, err = c.storageOptions(sets)
		return true
	}
	if index {
		switch {
		case c.accept("set", "tablespace"):
			return value(SetTablespace)
		case options(SetIndexOptions):
			return a, true, err
		}
		return a, false, nil
	}
	switch {
	case c.accept("alter"):
		c.accept("column")
		if a.Column, err = c.ident(); err != nil {
			return a, false, nil
		}
		switch {
		case c.accept("set", "statistics"):
			a.Kind = SetStatistics
			n, err := c.integer()
			if err == nil && n < -1 {
				err = sqlstate.New(sqlstate.InvalidParameterValue, "statistics target %d is too low", n)
			}
			return a, true, err
		case c.accept("set", "storage"):
			return value(SetStorage)
		case c.accept("set", "compression"):
			return value(SetCompression)
		case options(SetColumnOptions):
			return a, true, err
		}
		return a, false, nil
	case c.accept("set", "logged"):
		a.Kind = SetLogged
	case c.accept("set", "unlogged"):
		a.Kind = SetUnlogged
	case c.accept("set", "without", "cluster"):
		a.Kind = WithoutCluster
	case c.accept("set", "without", "oids"):
		a.Kind = WithoutOids
	case c.accept("cluster", "on"):
		return value(ClusterOn)
	case c.accept("replica", "identity", "using", "index"):
		return value(ReplicaIdentityIndex)
	case c.accept("replica", "identity", "default"), c.accept("replica", "identity", "full"), c.accept("replica", "identity", "nothing"):
		a.Kind = ReplicaIdentity
	case c.accept("enable", "trigger"), c.accept("enable", "always", "trigger"), c.accept("enable", "replica", "trigger"):
		return value(EnableTriggers)
	case c.accept("disable", "trigger"):
		return value(DisableTriggers)
	case c.accept("set", "tablespace"):
		return value(SetTablespace)
	case c.accept("set", "access", "method"):
		return value(SetAccessMethod)
	default:
		return a, false, nil
	}
	return a, true, nil
}

// storageOptions consumes (name = value, ...), or (name, ...) of RESET.
func (c *cursor) storageOptions(values bool) (list []StorageOption, err error) {
	if err := c.expectPunct("("); err != nil {
		return nil, err
	}
	for {
		o := StorageOption{Value: "true"}
		if o.Name, err = c.ident(); err != nil {
			return nil, err
		}
		if values && c.acceptOp("=") {
			minus := c.acceptOp("-")
			if o.Value, err = c.word(); err != nil {
				return nil, err
			}
			if minus {
				o.Value = "-" + o.Value
			}
		}
		list = append(list, o)
		if !c.acceptPunct(",") {
			return list, c.expectPunct(")")
		}
	}
}

// toastOptions finds storage parameters of the table in which PostgreSQL keeps large values, such as toast.fillfactor. There is no such table, so
// they are cut out, with the whole list if it has no others.
func toastOptions(s *Statement, toks []Token) (cuts []cut) {
	src := s.Source
	for i := 1; i+1 < len(toks); i++ {
		if !isPunct(toks[i], src, "(") || !isWord(toks[i-1], src, "with") && !isWord(toks[i-1], src, "set") && !isWord(toks[i-1], src, "reset") {
			continue
		}
		var mine []cut
		others, at := 0, i+1
		for {
			end := at
			for end < len(toks) && !isPunct(toks[end], src, ",") && !isPunct(toks[end], src, ")") {
				end++
			}
			if end >= len(toks) {
				return cuts
			}
			if at+1 < end && isWord(toks[at], src, "toast") && isPunct(toks[at+1], src, ".") {
				mine = append(mine, cut{from: at, to: end + 1})
			} else {
				others++
			}
			if isPunct(toks[end], src, ")") {
				switch n := len(mine); {
				case n > 0 && others == 0 && isWord(toks[i-1], src, "with"):
					mine = []cut{{from: i - 1, to: end + 1}}
				case n > 0 && mine[n-1].to == end+1:
					// The last one, with the comma before it.
					mine[n-1].to = end
					if others > 0 {
						mine[n-1].from--
					}
				}
				cuts = append(cuts, mine...)
				i = end
				break
			}
			at = end + 1
		}
	}
	return cuts
}

// indexMethod parses USING method of CREATE INDEX. An ordered index replaces a hash index; other methods are refused, because an ordered index can't
// replace them.
func indexMethod(s *Statement, toks []Token) (from, to int, err error) {
	src := s.Source
	for i := 2; i+2 < len(toks); i++ {
		if isPunct(toks[i], src, "(") {
			return 0, 0, nil
		}
		if !isWord(toks[i], src, "using") || !isPunct(toks[i+2], src, "(") {
			continue
		}
		switch name := identText(toks[i+1], src); name {
		case "btree":
			return i, i + 2, nil
		case "hash":
			s.HashIndex = true
			return i, i + 2, nil
		case "gin", "gist", "spgist", "brin", "rtree":
			return 0, 0, sqlstate.New(sqlstate.FeatureNotSupported, "access method \"%s\" is not supported", name).
				WithHint("All indexes are ordered, like those of btree.").At(CharPos(src, int(toks[i+1].Pos)))
		default:
			return 0, 0, sqlstate.New(sqlstate.UndefinedObject, "access method \"%s\" does not exist", name)
		}
	}
	return 0, 0, nil
}

// tableStorage cuts out of CREATE TABLE and CREATE INDEX the clauses about storage that have no effect here: USING heap, the COMPRESSION of
// a column, and NO INHERIT of a check, since no table inherits. The grammar's word for INCLUDE of a constraint is STORING.
func tableStorage(s *Statement, toks []Token) (cuts []cut, err error) {
	src := s.Source
	is := func(i int, w string) bool { return i >= 0 && i < len(toks) && isWord(toks[i], src, w) }
	punct := func(i int, p string) bool { return i >= 0 && i < len(toks) && isPunct(toks[i], src, p) }
	primary, depth := false, 0
	for i := 2; i < len(toks); i++ {
		switch {
		case punct(i, "("):
			depth++
		case punct(i, ")"):
			depth--
		case toks[i].Kind != Word:
		case is(i, "as") && depth == 0:
			return cuts, nil // a query follows
		case is(i, "primary") && is(i+1, "key"):
			primary = true
		case is(i, "unique"):
			primary = false
		case is(i, "include") && punct(i+1, "(") && punct(i-1, ")"):
			if !primary {
				cuts = append(cuts, cut{from: i, to: i + 1, text: "STORING"})
				continue
			}
			// A row is stored with its primary key.
			end := i + 2
			for end < len(toks) && !punct(end, ")") {
				if toks[end].Kind == Word || toks[end].Kind == Quoted {
					s.Included = append(s.Included, identText(toks[end], src))
				}
				end++
			}
			cuts = append(cuts, cut{from: i, to: min(end+1, len(toks))})
			i = end
		case is(i, "using") && depth == 0 && is(0, "create") && i+1 < len(toks):
			if name := identText(toks[i+1], src); name != "heap" {
				return nil, sqlstate.New(sqlstate.UndefinedObject, "access method \"%s\" does not exist", name)
			}
			cuts = append(cuts, cut{from: i, to: i + 2})
			i++
		case is(i, "compression") && i+1 < len(toks) && !punct(i-1, "(") && !punct(i-1, ",") && depth < 2 && !is(i-1, "column") && !is(i-1, "add") &&
			(is(i+1, "pglz") || is(i+1, "lz4") || is(i+1, "default")):
			cuts = append(cuts, cut{from: i, to: i + 2})
			i++
		case (is(i, "including") || is(i, "excluding")) && i+1 < len(toks) && likeWords[strings.ToLower(toks[i+1].Text(src))]:
			s.Like = append(s.Like, LikeOption{strings.ToLower(toks[i+1].Text(src)), is(i, "excluding")})
			cuts = append(cuts, cut{from: i, to: i + 2})
			i++
		case is(i, "no") && is(i+1, "inherit") && punct(i-1, ")"):
			cuts = append(cuts, cut{from: i, to: i + 2})
			i++
		case is(i, "nulls") && is(i+1, "not") && is(i+2, "distinct"):
			return nil, nullsNotDistinct(src, toks[i])
		case is(i, "nulls") && is(i+1, "distinct"):
			cuts = append(cuts, cut{from: i, to: i + 2})
			i++
		}
	}
	return cuts, nil
}

// LikeOption is an option of LIKE that the grammar library does not accept.
type LikeOption struct {
	// Name is "comments", "identity", or an option without effect.
	Name     string
	Excluded bool
}

var likeWords = map[string]bool{"comments": true, "compression": true, "identity": true, "statistics": true, "storage": true}

func nullsNotDistinct(src string, t Token) error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "NULLS NOT DISTINCT is not supported").
		WithHint("Declare the columns NOT NULL, with a default that stands for none.").At(CharPos(src, int(t.Pos)))
}

// createOptions cuts out of CREATE TABLE, CREATE INDEX and CREATE DATABASE the clauses that the grammar library does not accept.
func createOptions(s *Statement, toks []Token) (cuts []cut, err error) {
	src := s.Source
	i := 1
	for i < len(toks) && i < 4 && !isWord(toks[i], src, "table") && !isWord(toks[i], src, "index") && !isWord(toks[i], src, "database") {
		i++
	}
	switch {
	case i >= len(toks):
	case isWord(toks[i], src, "table"):
		if cuts, err = tableStorage(s, toks); err != nil {
			return nil, err
		}
		cuts = append(cuts, toastOptions(s, toks)...)
	case isWord(toks[i], src, "index"):
		from, to, err := indexMethod(s, toks)
		if err != nil {
			return nil, err
		}
		if from > 0 {
			cuts = append(cuts, cut{from: from, to: to})
		}
		for i := 2; i+1 < len(toks); i++ {
			switch {
			case isWord(toks[i], src, "only") && isWord(toks[i-1], src, "on"):
				cuts = append(cuts, cut{from: i, to: i + 1})
			case isWord(toks[i], src, "nulls") && isWord(toks[i+1], src, "distinct"):
				cuts = append(cuts, cut{from: i, to: i + 2})
			case isWord(toks[i], src, "nulls") && isWord(toks[i+1], src, "not"):
				return nil, nullsNotDistinct(src, toks[i])
			case isWord(toks[i], src, "nulls") && (isWord(toks[i+1], src, "first") || isWord(toks[i+1], src, "last")):
				if isWord(toks[i+1], src, "first") != isWord(toks[i-1], src, "desc") {
					return nil, sqlstate.New(sqlstate.FeatureNotSupported, "this NULLS order is not supported for indexes").
						WithHint("NULL comes after all values: last in an ascending column, first in a descending one.").At(CharPos(src, int(toks[i].Pos)))
				}
				cuts = append(cuts, cut{from: i, to: i + 2})
				i++
			}
		}
	case isWord(toks[i], src, "database") && i == 1:
		if cuts, err = databaseOptions(s, toks, 2); err != nil {
			return nil, err
		}
		more, err := regionClauses(s, toks)
		return append(cuts, more...), err
	}
	return cuts, nil
}
