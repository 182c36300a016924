package parse

// OnCommit is the ON COMMIT clause of a temporary table.
type OnCommit uint8

const (
	OnCommitUnset OnCommit = iota
	PreserveRows
	DeleteRows
	DropTable
)

// cut replaces tokens [from, to) by a text, for the grammar library.
type cut struct {
	from, to int
	text     string
}

// tableOptions cuts three clauses out of CREATE TABLE that the grammar library does not accept, and keeps them in the statement: ON COMMIT, which
// PostgreSQL has before AS, WITH [NO] DATA at the end, and INTERLEAVE IN PARENT.
func tableOptions(s *Statement, toks []Token) (cuts []cut, err error) {
	src := s.Source
	is := func(i int, words ...string) bool {
		for k, w := range words {
			if i+k >= len(toks) || !isWord(toks[i+k], src, w) {
				return false
			}
		}
		return true
	}
	i := 1
	for i < len(toks) && i < 4 && !is(i, "table") {
		i++
	}
	if !is(i, "table") {
		return nil, nil
	}
	depth, as := 0, false
	for ; i < len(toks); i++ {
		switch {
		case isPunct(toks[i], src, "("):
			depth++
		case isPunct(toks[i], src, ")"):
			depth--
		case depth > 0:
		case is(i, "as"):
			as = true
		case !as && is(i, "on", "commit"):
			to := i + 4
			switch {
			case is(i+2, "preserve", "rows"):
				s.OnCommit = PreserveRows
			case is(i+2, "delete", "rows"):
				s.OnCommit = DeleteRows
			case is(i+2, "drop"):
				s.OnCommit, to = DropTable, i+3
			default:
				continue
			}
			cuts = append(cuts, cut{from: i, to: to})
		case !as && is(i, "interleave", "in", "parent"):
			to, err := interleaveClause(s, toks, i)
			if err != nil {
				return nil, err
			}
			cuts = append(cuts, cut{from: i, to: to})
			i = to - 1
		case as && i+3 == len(toks) && is(i, "with", "no", "data"):
			s.NoData = true
			cuts = append(cuts, cut{from: i, to: len(toks)})
		}
	}
	return cuts, nil
}

// selectInto rewrites SELECT ... INTO t FROM ... as CREATE TABLE t AS SELECT ... FROM ...
func selectInto(s *Statement, toks []Token) []cut {
	src := s.Source
	depth := 0
	for i := range toks {
		switch t := toks[i]; {
		case isPunct(t, src, "("):
			depth++
		case isPunct(t, src, ")"):
			depth--
		case depth > 0 || t.Kind != Word:
		case isWord(t, src, "from"), isWord(t, src, "union"), isWord(t, src, "intersect"), isWord(t, src, "except"):
			return nil // the first SELECT of several may have it
		case isWord(t, src, "insert"), isWord(t, src, "update"), isWord(t, src, "delete"):
			return nil
		case isWord(t, src, "into"):
			at, kind := i+1, "TABLE "
			if at < len(toks) {
				switch {
				case isWord(toks[at], src, "temp"), isWord(toks[at], src, "temporary"):
					at, kind = at+1, "TEMP TABLE "
				case (isWord(toks[at], src, "local") || isWord(toks[at], src, "global")) && at+2 < len(toks):
					at, kind = at+2, "TEMP TABLE "
				case isWord(toks[at], src, "unlogged"):
					at, kind = at+1, "UNLOGGED TABLE "
				}
			}
			if at < len(toks) && isWord(toks[at], src, "table") {
				at++
			}
			end := at + 1
			for end+1 < len(toks) && isPunct(toks[end], src, ".") {
				end += 2
			}
			if end > len(toks) || toks[at].Kind != Word && toks[at].Kind != Quoted {
				return nil
			}
			name := src[toks[at].Pos:toks[end-1].End]
			return []cut{{from: 0, to: 0, text: "CREATE " + kind + name + " AS "}, {from: i, to: end}}
		}
	}
	return nil
}
