package parse

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/pgwire/pgcode"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/pgwire/pgerror"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
	gtypes "github.com/cockroachdb/cockroachdb-parser/pkg/sql/types"
	"github.com/cockroachdb/errors"

	"meridian/sql/fault"
	"meridian/sql/sqlstate"
)

// MaxStatementBytes bounds one query string.
const MaxStatementBytes = 64 << 20

// maxParams is the number of parameters that the wire protocol can carry.
const maxParams = 65535

// Statement is one parsed statement.
type Statement struct {
	// Source is the whole query string; the statement is Source[Offset:End].
	Source      string
	Offset, End int
	// Node is a pointer to one of this package's commands, or the grammar library's tree.Statement.
	Node any
	// NumParams is the highest $n.
	NumParams int
	// Overriding is "system" or "user" for INSERT ... OVERRIDING ... VALUE.
	Overriding string
	// SecurityInvoker is the option of CREATE VIEW and ALTER VIEW; nil: it was not given.
	SecurityInvoker *bool
	// Like has the options of LIKE that its node does not have.
	Like []LikeOption
	// HashIndex says that CREATE INDEX has USING hash.
	HashIndex bool
	// Included are the columns that a primary key INCLUDEs.
	Included []string
	// Database are PostgreSQL's options of CREATE DATABASE and ALTER DATABASE, and Force is DROP DATABASE ... WITH (FORCE).
	Database []StorageOption
	Force    bool
	// SurviveRegions is the number of SURVIVE n REGIONS FAILURE; zero: the clause names none.
	SurviveRegions int
	// WitnessRegion is that of CREATE DATABASE; empty: there is none.
	WitnessRegion string
	// OnCommit is the clause of CREATE TABLE; NoData is WITH NO DATA of CREATE TABLE AS.
	OnCommit OnCommit
	NoData   bool
	// Interleave is INTERLEAVE IN PARENT of CREATE TABLE; nil: it was not given.
	Interleave *Interleave
	// Deferrals has the deferrals of the constraints of CREATE TABLE and ALTER TABLE.
	Deferrals map[ConstraintNumber]Deferral
	// Bytes estimates the memory of the text and its tree.
	Bytes int64
	// Unknown is the first operator with two operands that the grammar does not have (UnknownOperator), and UnknownPrefix the first with one, for
	// which |/ is written.
	Unknown, UnknownPrefix string
	// Truncated are identifiers that were too long, as they were written (MaxIdentifier).
	Truncated []string
	// Reduced are precisions of types of time that are more than six digits.
	Reduced []Reduction

	// grammar is the text for the grammar library, and edits are its differences from the source.
	grammar string
	edits   []edit
}

// Text is the statement as written, without the semicolon.
func (s *Statement) Text() string { return s.Source[s.Offset:s.End] }

// edit replaces Source[pos:end] by text; at is its offset in the grammar's text.
type edit struct {
	pos, end int
	text     string
	at       int
}

// sourceOffset maps an offset in the grammar's text to one in Source.
func (s *Statement) sourceOffset(at int) int {
	delta := s.Offset
	for _, e := range s.edits {
		if at < e.at {
			break
		}
		if at < e.at+len(e.text) {
			return e.pos
		}
		delta = e.end - (e.at + len(e.text))
	}
	return at + delta
}

// PosOf is the 1-based character position of a name in the syntax tree, or zero if it is not known. Names in the tree are substrings of the text
// unless they had to be folded or unquoted.
func (s *Statement) PosOf(name string) int {
	if name == "" || s.grammar == "" {
		return 0
	}
	base := uintptr(unsafe.Pointer(unsafe.StringData(s.grammar)))
	p := uintptr(unsafe.Pointer(unsafe.StringData(name)))
	if p < base || p >= base+uintptr(len(s.grammar)) {
		return 0
	}
	at := int(p - base)
	if at > 0 && s.grammar[at-1] == '\'' || at > 0 && s.grammar[at-1] == '"' {
		at--
	}
	return CharPos(s.Source, s.sourceOffset(at))
}

// FindWord is the 1-based position of the first identifier in the statement that stands for name and, when after is
// not zero, comes after it; zero if there is none. It serves error messages for names that PosOf can't place.
func (s *Statement) FindWord(name string, after int) int {
	toks, err := lex(s.Source[:s.End], s.Offset, nil)
	if err != nil {
		return 0
	}
	for _, t := range toks {
		if (t.Kind == Word || t.Kind == Quoted) && identText(t, s.Source) == name {
			if p := CharPos(s.Source, int(t.Pos)); p > after {
				return p
			}
		}
	}
	return 0
}

// FindText is like FindWord for a token as written, such as an operator or a constant.
func (s *Statement) FindText(text string, after int) int {
	toks, err := lex(s.Source[:s.End], s.Offset, nil)
	if err != nil {
		return 0
	}
	for _, t := range toks {
		if strings.EqualFold(t.Text(s.Source), text) {
			if p := CharPos(s.Source, int(t.Pos)); p > after {
				return p
			}
		}
	}
	return 0
}

// FindQualified is the position of the first table.column in the statement, or zero.
func (s *Statement) FindQualified(table, column string) int {
	toks, err := lex(s.Source[:s.End], s.Offset, nil)
	if err != nil {
		return 0
	}
	for i := 0; i+2 < len(toks); i++ {
		t, c := toks[i], toks[i+2]
		if (t.Kind == Word || t.Kind == Quoted) && (c.Kind == Word || c.Kind == Quoted) && isPunct(toks[i+1], s.Source, ".") &&
			identText(t, s.Source) == table && identText(c, s.Source) == column {
			return CharPos(s.Source, int(t.Pos))
		}
	}
	return 0
}

// FindString is like FindWord for a string constant by its value.
func (s *Statement) FindString(value string, after int) int {
	toks, err := lex(s.Source[:s.End], s.Offset, nil)
	if err != nil {
		return 0
	}
	for _, t := range toks {
		if t.Kind == String && stringText(t, s.Source) == value {
			if p := CharPos(s.Source, int(t.Pos)); p > after {
				return p
			}
		}
	}
	return 0
}

// NoParameter is the error for the first parameter of a statement that has no arguments.
func (s *Statement) NoParameter() error {
	toks, _ := lex(s.Source[:s.End], s.Offset, nil)
	for _, t := range toks {
		if t.Kind == Param {
			return sqlstate.New(sqlstate.UndefinedParameter, "there is no parameter %s", t.Text(s.Source)).At(CharPos(s.Source, int(t.Pos)))
		}
	}
	return sqlstate.New(sqlstate.UndefinedParameter, "there is no parameter $1")
}

// CountRefs counts the identifiers that stand for name and are not qualifiers of something else.
func (s *Statement) CountRefs(name string) int {
	toks, err := lex(s.Source[:s.End], s.Offset, nil)
	if err != nil {
		return 0
	}
	n := 0
	for i, t := range toks {
		if (t.Kind == Word || t.Kind == Quoted) && identText(t, s.Source) == name {
			if i+1 < len(toks) && toks[i+1].Kind == Punct && s.Source[toks[i+1].Pos] == '.' {
				continue
			}
			n++
		}
	}
	return n
}

// Parser parses query strings. It keeps its buffers between calls, so a session has one; it is not for concurrent use.
type Parser struct {
	grammar parser.Parser
	toks    []Token
	// lits and text are the buffers of Parameterize.
	lits []Literal
	text []byte
	// recent has the statements of the last texts that were one query each, because clients repeat unnamed statements of the extended
	// protocol. Binding does not change them.
	recent map[string][]Statement
	// room reserves memory as the text is read (ParseWithin).
	room func(bytes int64) error
	// stored: the texts were read from descriptors; an earlier version may have written a form that clients may no longer send.
	stored bool
	// nested counts the statements around the one that is being parsed.
	nested int
}

const (
	maxRecent      = 16
	maxRecentBytes = 2048
)

// Parse splits a query string into statements and parses each. An empty string has none. As in PostgreSQL, one
// syntax error refuses the whole string.
func Parse(sql string) ([]Statement, error) {
	var p Parser
	return p.Parse(sql)
}

// ParseOne parses a stored text, which has exactly one statement.
func ParseOne(sql string) (*Statement, error) {
	p := Parser{stored: true}
	stmts, err := p.Parse(sql)
	if err != nil {
		return nil, err
	}
	if len(stmts) != 1 {
		return nil, sqlstate.New(sqlstate.SyntaxError, "expected one statement, found %d", len(stmts))
	}
	return &stmts[0], nil
}

// Parse is the function Parse with this parser's buffers.
func (p *Parser) Parse(sql string) ([]Statement, error) { return p.ParseWithin(sql, nil) }

// ParseWithin is Parse for a text that may be long: it calls room before it allocates memory, at least for every stride tokens and every
// statement, so that it stops before the end of a text for which there is no memory, or whose statement was cancelled. When it succeeds, it
// releases the memory beyond the Bytes of the statements.
func (p *Parser) ParseWithin(sql string, room func(bytes int64) error) (stmts []Statement, err error) {
	p.room, p.nested = room, 0
	defer func() {
		p.room = nil
		if r := recover(); r != nil {
			stmts, err = nil, fault.Recovered(r, "in the parser")
		}
	}()
	if stmts := p.recent[sql]; stmts != nil {
		return stmts, p.take(stmts[0].Bytes)
	}
	if len(sql) > MaxStatementBytes {
		return nil, sqlstate.New(sqlstate.ProgramLimitExceeded, "query string is too long")
	}
	if i := strings.IndexByte(sql, 0); i >= 0 {
		return nil, sqlstate.New(sqlstate.CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\": 0x00")
	}
	p.toks, err = p.lex(sql)
	if cap(p.toks) > 1<<12 {
		defer func() { p.toks = nil }()
	}
	if err != nil {
		return nil, err
	}
	toks := p.toks
	for i := 0; toks[i].Kind != EOF; {
		if isPunct(toks[i], sql, ";") {
			i++
			continue
		}
		j, depth := i, 0
		params := 0
		var size measure
		for ; toks[j].Kind != EOF; j++ {
			t := toks[j]
			if err := size.add(sql, t); err != nil {
				return nil, err
			}
			if t.Kind == Punct {
				switch sql[t.Pos] {
				case '(', '[':
					depth++
				case ')', ']':
					depth--
				case ';':
					if depth <= 0 {
						goto end
					}
				}
				if depth > 5000 {
					return nil, sqlstate.TooDeep()
				}
			} else if t.Kind == Param {
				n, err := strconv.Atoi(sql[t.Pos+1 : t.End])
				if err != nil || n < 1 || n > maxParams {
					return nil, sqlstate.New(sqlstate.UndefinedParameter, "there is no parameter %s", t.Text(sql)).At(CharPos(sql, int(t.Pos)))
				}
				params = max(params, n)
			}
		}
	end:
		if err := p.take(size.bytes + int64(j-i)*grammarBytes); err != nil {
			return nil, err
		}
		stmts = append(stmts, Statement{Source: sql, Offset: int(toks[i].Pos), End: int(toks[j-1].End), NumParams: params, Bytes: size.bytes})
		if err := p.statement(&stmts[len(stmts)-1], toks[i:j]); err != nil {
			return nil, err
		}
		if err := p.take(-int64(j-i) * grammarBytes); err != nil {
			return nil, err
		}
		i = j
	}
	p.remember(sql, stmts)
	return stmts, p.take(-int64(len(toks)) * lexedBytes)
}

// take calls room, if it is set.
func (p *Parser) take(bytes int64) error {
	if p.room == nil {
		return nil
	}
	return p.room(bytes)
}

// lex reads the whole text's tokens, in strides.
func (p *Parser) lex(sql string) ([]Token, error) {
	toks, taken := p.toks[:0], 0
	for pos := 0; ; pos = int(toks[len(toks)-1].End) {
		var err error
		if toks, err = lexSome(sql, pos, toks, len(toks)+stride); err != nil {
			return toks, err
		}
		if err := p.take(int64(len(toks)-taken) * lexedBytes); err != nil {
			return toks, err
		}
		if taken = len(toks); toks[taken-1].Kind == EOF {
			return toks, nil
		}
	}
}

// remember keeps the statement of a text, which may be sent again.
func (p *Parser) remember(sql string, stmts []Statement) {
	if len(stmts) != 1 || len(sql) > maxRecentBytes {
		return
	}
	switch stmts[0].Node.(type) {
	case *tree.Select, *tree.Insert, *tree.Update, *tree.Delete:
	default:
		return
	}
	if p.recent == nil || len(p.recent) >= maxRecent {
		p.recent = make(map[string][]Statement, 16)
	}
	p.recent[sql] = stmts
}

// sub parses toks as a statement nested in another (EXPLAIN, PREPARE, ...).
func (p *Parser) sub(src string, toks []Token) (*Statement, error) {
	if len(toks) == 0 {
		return nil, syntaxError(src, Token{EOF, int32(len(src)), int32(len(src))})
	}
	// As in PostgreSQL, only queries can be nested, and DECLARE CURSOR in EXPLAIN.
	if p.nested++; p.nested > 2 || nestsOthers(src, toks[0]) {
		return nil, syntaxError(src, toks[0])
	}
	defer func() { p.nested-- }()
	s := &Statement{Source: src, Offset: int(toks[0].Pos), End: int(toks[len(toks)-1].End)}
	var size measure
	for _, t := range toks {
		if err := size.add(src, t); err != nil {
			return nil, err
		}
		if t.Kind == Param {
			n, _ := strconv.Atoi(src[t.Pos+1 : t.End])
			s.NumParams = max(s.NumParams, n)
		}
	}
	s.Bytes = size.bytes
	return s, p.statement(s, toks)
}

// nestsOthers reports whether a token begins a statement that contains another one, and that can't itself be in one.
func nestsOthers(src string, t Token) bool {
	return isWord(t, src, "explain") || isWord(t, src, "prepare") || isWord(t, src, "copy")
}

// statement parses one statement from its tokens.
func (p *Parser) statement(s *Statement, toks []Token) error {
	c := &cursor{p: p, src: s.Source, toks: toks}
	node, handled, err := c.utility()
	if err != nil {
		return err
	}
	if handled {
		s.Node = node
		return nil
	}
	return p.viaGrammar(s, toks)
}

// viaGrammar parses the statement by the grammar library, after rewriting the forms that the library does not accept.
func (p *Parser) viaGrammar(s *Statement, toks []Token) error {
	if isWord(toks[0], s.Source, "create") || isWord(toks[0], s.Source, "alter") {
		if err := columnClauses(s.Source, toks); err != nil {
			return err
		}
	}
	edits, err := rewrite(s, toks, p.stored)
	if err != nil {
		return err
	}
	text := s.Text()
	if len(edits) > 0 {
		var b strings.Builder
		b.Grow(len(text) + 32)
		at := s.Offset
		for i := range edits {
			e := &edits[i]
			b.WriteString(s.Source[at:e.pos])
			e.at = b.Len()
			b.WriteString(e.text)
			at = e.end
		}
		b.WriteString(s.Source[at:s.End])
		text = b.String()
		s.edits = edits
	}
	s.grammar = text
	stmts, err := p.parseGrammar(text)
	if err != nil {
		return s.grammarError(err, toks)
	}
	if len(stmts) != 1 {
		return sqlstate.New(sqlstate.SyntaxError, "syntax error")
	}
	s.Node = stmts[0].AST
	return nil
}

func (p *Parser) parseGrammar(text string) (stmts []parsed, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.grammar = parser.Parser{}
			stmts, err = nil, fault.Recovered(r, "in the parser")
		}
	}()
	list, err := p.grammar.ParseWithInt(text, gtypes.Int4)
	if err != nil {
		return nil, err
	}
	stmts = make([]parsed, len(list))
	for i := range list {
		stmts[i].AST = list[i].AST
	}
	return stmts, nil
}

type parsed struct{ AST tree.Statement }

// grammarError translates an error of the grammar library into PostgreSQL's.
func (s *Statement) grammarError(err error, toks []Token) error {
	var own *sqlstate.Error
	if errors.As(err, &own) {
		return own
	}
	code := pgerror.GetPGCode(err)
	pos, found := caretOffset(err)
	msg := err.Error()
	unimplemented := code == pgcode.FeatureNotSupported || strings.Contains(msg, "unimplemented")
	if unimplemented || strings.Contains(msg, "syntax error") {
		if err := refused(s.Source, toks); err != nil {
			return err
		}
	}
	if unimplemented {
		m := strings.TrimPrefix(msg, "at or near ")
		if i := strings.Index(m, "unimplemented: "); i >= 0 {
			m = m[i+len("unimplemented: "):]
		} else if i := strings.LastIndex(m, ": "); i >= 0 {
			m = m[i+2:]
		}
		e := sqlstate.New(sqlstate.FeatureNotSupported, "%s", featureText(m))
		if found && strings.Contains(m, "this syntax") {
			for _, t := range toks {
				if int(t.End) > s.sourceOffset(pos) {
					e.Message = "the clause at \"" + near(t.Text(s.Source)) + "\" is not supported"
					break
				}
			}
		}
		if found {
			e.At(CharPos(s.Source, s.sourceOffset(pos)))
		}
		return e
	}
	if !found {
		c := sqlstate.Code(code.String())
		if c == "" || c == "XXUUU" {
			c = sqlstate.SyntaxError
		}
		return sqlstate.New(c, "%s", cleanMessage(msg))
	}
	off := s.sourceOffset(pos)
	m := cleanMessage(msg)
	if s.Unknown != "" {
		m = strings.ReplaceAll(m, UnknownOperator, s.Unknown)
	}
	if strings.HasPrefix(m, "identity column type must be") {
		return sqlstate.New(sqlstate.InvalidParameterValue, "identity column type must be smallint, integer, or bigint")
	}
	if strings.HasPrefix(m, "invalid integer type") {
		return sqlstate.New(sqlstate.InvalidParameterValue, "sequence type must be smallint, integer, or bigint")
	}
	if m == "syntax error" || strings.HasPrefix(m, "syntax error") && strings.HasSuffix(m, "syntax error") {
		for _, t := range toks {
			if int(t.End) > off {
				return syntaxError(s.Source, t)
			}
		}
		return syntaxError(s.Source, Token{EOF, int32(s.End), int32(s.End)})
	}
	if strings.HasPrefix(m, "length for type ") && strings.HasSuffix(m, "must be at least 1") {
		// PostgreSQL finds this at the type's name.
		for i := len(toks) - 1; i > 0; i-- {
			if int(toks[i].Pos) < off && isPunct(toks[i], s.Source, "(") {
				off = int(toks[i-1].Pos)
				break
			}
		}
		return sqlstate.New(sqlstate.InvalidParameterValue, "%s", strings.ToLower(m)).At(CharPos(s.Source, off))
	}
	c := sqlstate.Code(code.String())
	if c == "XXUUU" || c == "" {
		c = sqlstate.SyntaxError
	}
	return sqlstate.New(c, "%s", m).At(CharPos(s.Source, off))
}

func featureText(m string) string {
	if strings.Contains(m, "this syntax") || m == "" {
		return "this syntax is not supported"
	}
	return m + " is not supported"
}

// cleanMessage drops the prefixes that the library puts before a message.
func cleanMessage(m string) string {
	if rest, ok := strings.CutPrefix(m, "at or near \""); ok {
		if i := strings.Index(rest, "\": "); i >= 0 {
			m = rest[i+3:]
		}
	}
	return strings.TrimPrefix(m, "syntax error: ")
}

// caretOffset finds where in its input the library's error points, from the drawing in the error's detail.
func caretOffset(err error) (int, bool) {
	for _, d := range errors.GetAllDetails(err) {
		text, ok := strings.CutPrefix(d, "source SQL:\n")
		if !ok {
			continue
		}
		i := strings.LastIndexByte(text, '\n')
		if i < 0 || !strings.HasSuffix(text, "^") {
			continue
		}
		spaces := len(text) - i - 2
		line := strings.LastIndexByte(text[:i], '\n') + 1
		return line + spaces, true
	}
	return 0, false
}

// syntaxError is PostgreSQL's error at a token. The end of the input is a token too; a semicolon, or the closing parenthesis of a COPY query, ends
// a statement and is named in the error.
func syntaxError(src string, t Token) error {
	if t.Kind == EOF {
		if at, err := skipBlank(src, int(t.Pos)); err == nil && at < len(src) && (src[at] == ';' || src[at] == ')') {
			t = Token{Punct, int32(at), int32(at + 1)}
		}
	}
	if t.Kind == EOF || int(t.Pos) >= len(src) {
		return sqlstate.New(sqlstate.SyntaxError, "syntax error at end of input").At(CharPos(src, int(t.Pos)))
	}
	return sqlstate.New(sqlstate.SyntaxError, "syntax error at or near \"%s\"", near(t.Text(src))).At(CharPos(src, int(t.Pos)))
}

const beforeExpr = "SELECT "

// ExprPosition is the position of the first character of an expression in the text that ParseExpr parses.
const ExprPosition = len(beforeExpr) + 1

// ParseExpr parses a scalar expression, such as a stored default, in the form that descriptors keep.
func ParseExpr(text string) (tree.Expr, *Statement, error) {
	s, err := ParseOne(beforeExpr + text)
	if err != nil {
		return nil, nil, err
	}
	sel, ok := s.Node.(*tree.Select)
	if ok && sel.With == nil && sel.Limit == nil && len(sel.OrderBy) == 0 {
		if c, ok := sel.Select.(*tree.SelectClause); ok && len(c.Exprs) == 1 && len(c.From.Tables) == 0 && c.Where == nil && c.Exprs[0].As == "" {
			return c.Exprs[0].Expr, s, nil
		}
	}
	return nil, nil, sqlstate.New(sqlstate.SyntaxError, "invalid expression %s", strconv.Quote(text))
}

// TypeNames replaces the grammar library's own names of types, which it prints in upper case, by PostgreSQL's.
func TypeNames(text string) string {
	toks, err := lex(text, 0, nil)
	if err != nil {
		return text
	}
	var b strings.Builder
	at := 0
	for _, t := range toks {
		if t.Kind != Word {
			continue
		}
		var name string
		switch t.Text(text) {
		case "STRING":
			name = "text"
		case "INT8":
			name = "bigint"
		case "INT4":
			name = "integer"
		case "INT2":
			name = "smallint"
		case "FLOAT8":
			name = "double precision"
		case "FLOAT4":
			name = "real"
		case "DECIMAL":
			name = "numeric"
		case "BYTES":
			name = "bytea"
		case "BOOL":
			name = "boolean"
		default:
			continue
		}
		b.WriteString(text[at:t.Pos])
		b.WriteString(name)
		at = int(t.End)
	}
	b.WriteString(text[at:])
	return b.String()
}

// QuoteIdent quotes a name if that is necessary.
func QuoteIdent(s string) string {
	plain := s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] == '_')
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c == '_' || isDigit(c)
	}
	if plain && !reservedWord(s) {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// QuoteLiteral quotes a string constant.
func QuoteLiteral(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		q = "E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}

// Quoted is the name, quoted where needed.
func (n Name) Quoted() string {
	s := QuoteIdent(n.Name)
	if n.Schema != "" {
		s = QuoteIdent(n.Schema) + "." + s
	}
	if n.Database != "" {
		s = QuoteIdent(n.Database) + "." + s
	}
	return s
}

// reservedWord reports whether PostgreSQL reserves the word, so that as a name it needs quotes.
func reservedWord(s string) bool {
	switch s {
	case "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both", "case", "cast", "check",
		"collate", "column", "constraint", "create", "current_catalog", "current_date", "current_role", "current_time",
		"current_timestamp", "current_user", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except",
		"false", "fetch", "for", "foreign", "from", "grant", "group", "having", "in", "initially", "intersect", "into",
		"lateral", "leading", "limit", "localtime", "localtimestamp", "not", "null", "offset", "on", "only", "or",
		"order", "placing", "primary", "references", "returning", "select", "session_user", "some", "symmetric", "table",
		"then", "to", "trailing", "true", "union", "unique", "user", "using", "variadic", "when", "where", "window",
		"with", "authorization", "binary", "collation", "concurrently", "cross", "current_schema", "freeze", "full",
		"ilike", "inner", "is", "isnull", "join", "left", "like", "natural", "notnull", "outer", "overlaps", "right",
		"similar", "verbose", "tablesample":
		return true
	}
	return false
}
