package parse

import (
	"math"
	"strings"
	"unicode/utf8"

	"meridian/sql/sqlstate"
)

// Kind is the kind of a token.
type Kind uint8

const (
	// EOF ends every token list.
	EOF Kind = iota
	// Word is an unquoted identifier or keyword.
	Word
	// Quoted is a "quoted" identifier.
	Quoted
	// String is a string constant of any quoting.
	String
	// Number is a numeric constant.
	Number
	// Param is $n.
	Param
	// Op is an operator of one or more characters.
	Op
	// Punct is one of ( ) [ ] , ; . : and ::, :=.
	Punct
)

// Token is one lexical unit, with its begin and end in the text.
type Token struct {
	Kind     Kind
	Pos, End int32
}

// Text is the token as written.
func (t Token) Text(src string) string { return src[t.Pos:t.End] }

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'
}
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isIdentStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
func isIdentPart(c byte) bool { return isIdentStart(c) || isDigit(c) || c == '$' }
func isOpChar(c byte) bool    { return strings.IndexByte("+-*/<>=~!@#%^&|`?", c) >= 0 }

// lexError is a lexical error at a byte offset.
func lexError(src string, pos int, format string, args ...any) error {
	return sqlstate.New(sqlstate.SyntaxError, format, args...).At(CharPos(src, pos))
}

// CharPos turns a byte offset into PostgreSQL's 1-based character position.
func CharPos(src string, offset int) int {
	if offset < 0 {
		return 0
	}
	if offset > len(src) {
		offset = len(src)
	}
	return utf8.RuneCountInString(src[:offset]) + 1
}

// near cuts the text after "at or near" to a length that fits in a line.
func near(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i]
	}
	return s
}

// lex appends the tokens of src[pos:] to toks, up to and including EOF. Comments and white space are dropped.
func lex(src string, pos int, toks []Token) ([]Token, error) {
	return lexSome(src, pos, toks, math.MaxInt)
}

// lexSome is lex that may stop when there are most tokens.
func lexSome(src string, pos int, toks []Token, most int) ([]Token, error) {
	n := len(src)
	for len(toks) < most {
		var err error
		pos, err = skipBlank(src, pos)
		if err != nil {
			return toks, err
		}
		if pos >= n {
			return append(toks, Token{EOF, int32(n), int32(n)}), nil
		}
		start := pos
		c := src[pos]
		kind := Punct
		switch {
		case isIdentStart(c):
			kind = Word
			// E'', B'', X'', N'' and U&'' prefixes.
			if pos+1 < n && src[pos+1] == '\'' {
				switch c {
				case 'e', 'E':
					kind = String
					if pos, err = scanQuoted(src, pos+1, '\'', true); err != nil {
						return toks, err
					}
				case 'b', 'B', 'x', 'X', 'n', 'N':
					kind = String
					if pos, err = scanQuoted(src, pos+1, '\'', false); err != nil {
						return toks, err
					}
				}
				if kind == String {
					break
				}
			}
			for pos < n && isIdentPart(src[pos]) {
				pos++
			}
		case c == '\'':
			kind = String
			if pos, err = scanQuoted(src, pos, '\'', false); err != nil {
				return toks, err
			}
		case c == '"':
			kind = Quoted
			if pos, err = scanQuoted(src, pos, '"', false); err != nil {
				return toks, err
			}
			if pos-start == 2 {
				return toks, lexError(src, start, "zero-length delimited identifier at or near \"\"\"\"")
			}
		case isDigit(c) || c == '.' && pos+1 < n && isDigit(src[pos+1]):
			kind = Number
			if pos, err = lexNumber(src, pos); err != nil {
				return toks, err
			}
		case c == '$':
			if pos+1 < n && isDigit(src[pos+1]) {
				kind = Param
				for pos++; pos < n && isDigit(src[pos]); pos++ {
				}
				break
			}
			end, ok, err := scanDollar(src, pos)
			if err != nil {
				return toks, err
			}
			if !ok {
				return toks, lexError(src, start, "syntax error at or near \"$\"")
			}
			kind, pos = String, end
		case strings.IndexByte("()[],;.", c) >= 0:
			pos++
		case c == ':':
			pos++
			if pos < n && (src[pos] == ':' || src[pos] == '=') {
				pos++
				if src[pos-1] == ':' && pos < n && src[pos] == ':' {
					pos++ // the grammar's type annotation
				}
			}
		case isOpChar(c):
			kind = Op
			pos = scanOp(src, pos)
		case c == '\\':
			return toks, lexError(src, start, "syntax error at or near \"\\\"")
		default:
			return toks, lexError(src, start, "syntax error at or near \"%s\"", string(rune(c)))
		}
		toks = append(toks, Token{kind, int32(start), int32(pos)})
	}
	return toks, nil
}

// lexNumber finds the end of a number, behind which no word may follow at once.
func lexNumber(src string, start int) (pos int, err error) {
	n := len(src)
	pos = scanNumber(src, start)
	if pos-start > numberBytesMax {
		return pos, sqlstate.New(sqlstate.NumericOutOfRange, "value overflows numeric format").At(CharPos(src, start))
	}
	if pos < n && isIdentStart(src[pos]) && src[pos] < 0x80 {
		end := pos
		for end < n && isIdentPart(src[end]) {
			end++
		}
		return pos, lexError(src, start, "trailing junk after numeric literal at or near \"%s\"", src[start:end])
	}
	return pos, nil
}

// skipBlank skips white space and comments.
func skipBlank(src string, pos int) (int, error) {
	n := len(src)
	for pos < n {
		c := src[pos]
		switch {
		case isSpace(c):
			pos++
		case c == '-' && pos+1 < n && src[pos+1] == '-':
			i := strings.IndexByte(src[pos:], '\n')
			if i < 0 {
				return n, nil
			}
			pos += i + 1
		case c == '/' && pos+1 < n && src[pos+1] == '*':
			depth, i := 1, pos+2
			for i < n && depth > 0 {
				switch {
				case src[i] == '/' && i+1 < n && src[i+1] == '*':
					depth++
					i += 2
				case src[i] == '*' && i+1 < n && src[i+1] == '/':
					depth--
					i += 2
				default:
					i++
				}
			}
			if depth > 0 {
				return pos, lexError(src, pos, "unterminated /* comment at or near \"%s\"", near(src[pos:]))
			}
			pos = i
		default:
			return pos, nil
		}
	}
	return pos, nil
}

// scanQuoted scans from the opening quote at pos to after the closing one.
func scanQuoted(src string, pos int, quote byte, escapes bool) (int, error) {
	start := pos
	for pos++; pos < len(src); pos++ {
		switch {
		case src[pos] == '\\' && escapes:
			pos++
		case src[pos] == quote:
			if pos+1 < len(src) && src[pos+1] == quote {
				pos++
				continue
			}
			return pos + 1, nil
		}
	}
	if quote == '"' {
		return pos, lexError(src, start, "unterminated quoted identifier at or near \"%s\"", near(src[start:]))
	}
	return pos, lexError(src, start, "unterminated quoted string at or near \"%s\"", near(src[start:]))
}

// numberBytesMax bounds the length of a number: 131072 digits before the point and 16383 behind it, as in PostgreSQL, and an
// exponent. The grammar's time for a number grows with the square of its length, so a longer one is refused before.
const numberBytesMax = 131072 + 16383 + 32

func scanNumber(src string, pos int) int {
	n := len(src)
	if src[pos] == '0' && pos+1 < n && (src[pos+1]|0x20 == 'x' || src[pos+1]|0x20 == 'b' || src[pos+1]|0x20 == 'o') {
		i := pos + 2
		for i < n && (isDigit(src[i]) || src[i]|0x20 >= 'a' && src[i]|0x20 <= 'f') {
			i++
		}
		if i > pos+2 {
			return i
		}
	}
	for pos < n && isDigit(src[pos]) {
		pos++
	}
	// "1..2" is a range, not a fraction.
	if pos < n && src[pos] == '.' && !(pos+1 < n && src[pos+1] == '.') {
		for pos++; pos < n && isDigit(src[pos]); pos++ {
		}
	}
	if pos < n && src[pos]|0x20 == 'e' {
		i := pos + 1
		if i < n && (src[i] == '+' || src[i] == '-') {
			i++
		}
		if i < n && isDigit(src[i]) {
			for pos = i; pos < n && isDigit(src[pos]); pos++ {
			}
		}
	}
	return pos
}

func scanDollar(src string, pos int) (end int, ok bool, err error) {
	i := pos + 1
	for i < len(src) && src[i] != '$' {
		if !isIdentPart(src[i]) || i == pos+1 && isDigit(src[i]) {
			return 0, false, nil
		}
		i++
	}
	if i >= len(src) {
		return 0, false, nil
	}
	tag := src[pos : i+1]
	j := strings.Index(src[i+1:], tag)
	if j < 0 {
		return 0, false, lexError(src, pos, "unterminated dollar-quoted string at or near \"%s\"", near(src[pos:]))
	}
	return i + 1 + j + len(tag), true, nil
}

// scanOp follows PostgreSQL: the longest run of operator characters that does not begin a comment, and that does
// not end in + or - unless it contains a character that only operators have.
func scanOp(src string, pos int) int {
	start := pos
	for pos < len(src) && isOpChar(src[pos]) {
		if pos > start && (strings.HasPrefix(src[pos:], "--") || strings.HasPrefix(src[pos:], "/*")) {
			break
		}
		pos++
	}
	for pos-start > 1 && (src[pos-1] == '+' || src[pos-1] == '-') && !strings.ContainsAny(src[start:pos-1], "~!@#%^&|`?") {
		pos--
	}
	return pos
}

// identText is the name for which an identifier token stands.
func identText(t Token, src string) string {
	s := src[t.Pos:t.End]
	if t.Kind == Quoted {
		s = s[1 : len(s)-1]
		if strings.Contains(s, `""`) {
			s = strings.ReplaceAll(s, `""`, `"`)
		}
		return CutIdent(s)
	}
	return CutIdent(Fold(s))
}

// wholeIdent is an identifier in its full length.
func wholeIdent(t Token, src string) string {
	if t.Kind == Quoted {
		return strings.ReplaceAll(src[t.Pos+1:t.End-1], `""`, `"`)
	}
	return Fold(src[t.Pos:t.End])
}

// MaxIdentifier is the length in bytes of the longest identifier; longer ones are truncated.
const MaxIdentifier = 63

// CutIdent truncates an identifier, at the end of a character.
func CutIdent(s string) string {
	if len(s) <= MaxIdentifier {
		return s
	}
	n := MaxIdentifier
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Fold is the lower case form of an unquoted identifier.
func Fold(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			return strings.ToLower(s)
		}
	}
	return s
}

// stringText decodes a string constant.
func stringText(t Token, src string) string {
	s := src[t.Pos:t.End]
	switch s[0] {
	case '$':
		i := strings.IndexByte(s[1:], '$') + 2
		return s[i : len(s)-i]
	case 'e', 'E':
		return unescape(strings.ReplaceAll(s[2:len(s)-1], "''", "'"))
	case '\'':
		s = s[1 : len(s)-1]
	default:
		s = s[2 : len(s)-1]
	}
	if strings.Contains(s, "''") {
		s = strings.ReplaceAll(s, "''", "'")
	}
	return s
}

func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; {
		case c == 'n':
			b.WriteByte('\n')
		case c == 't':
			b.WriteByte('\t')
		case c == 'r':
			b.WriteByte('\r')
		case c == 'b':
			b.WriteByte('\b')
		case c == 'f':
			b.WriteByte('\f')
		case c == 'x':
			v, k := 0, 0
			for k < 2 && i+1 < len(s) && hexDigit(s[i+1]) >= 0 {
				v, k, i = v*16+hexDigit(s[i+1]), k+1, i+1
			}
			if k == 0 {
				b.WriteByte('x')
			} else {
				b.WriteByte(byte(v))
			}
		case c == 'u' || c == 'U':
			want, v, k := 4, 0, 0
			if c == 'U' {
				want = 8
			}
			for k < want && i+1 < len(s) && hexDigit(s[i+1]) >= 0 {
				v, k, i = v*16+hexDigit(s[i+1]), k+1, i+1
			}
			b.WriteRune(rune(v))
		case c >= '0' && c <= '7':
			v := int(c - '0')
			for k := 1; k < 3 && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '7'; k++ {
				v, i = v*8+int(s[i+1]-'0'), i+1
			}
			b.WriteByte(byte(v))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
