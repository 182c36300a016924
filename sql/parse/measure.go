package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// The grammar library can't be interrupted, and reserves no memory. So the memory that it will need is estimated from the tokens of a
// statement before it gets them, and the number of tokens is bounded: it takes about one second for a million tokens.
const (
	// MaxTokens bounds one statement: a list of a million constants fits.
	MaxTokens = 1 << 21
	// maxChain bounds the operators that follow each other without a comma, a parenthesis or a word that begins another
	// expression. The binder refuses trees of a tenth of that depth; the grammar must not take seconds to build one.
	maxChain = 25000
	// stride is the number of tokens that are read before memory is reserved for them.
	stride = 4096
)

// The memory of a token: in the lexer, in the grammar while it runs, and, depending on its kind, in the tree. The numbers were measured with the
// statements of TestBytesOfStatements, which compares them with the real ones.
const (
	lexedBytes     = 16
	grammarBytes   = 48
	statementBytes = 256
)

var tokenBytes = [...]int64{Word: 160, Quoted: 160, String: 120, Number: 120, Param: 120, Op: 64, Punct: 8}

// measure adds up the memory of a statement's tokens.
type measure struct {
	bytes  int64
	tokens int
	chain  int
}

func (m *measure) add(src string, t Token) error {
	if m.tokens == 0 {
		m.bytes = statementBytes
	}
	if m.tokens++; m.tokens > MaxTokens {
		return sqlstate.New(sqlstate.ProgramLimitExceeded, "statements can have at most %d words, constants and signs", MaxTokens).
			WithHint("Split the statement, send the values as an array, or use COPY.")
	}
	m.bytes += tokenBytes[t.Kind] + int64(t.End-t.Pos)
	switch t.Kind {
	case String, Number, Quoted:
		m.bytes += int64(t.End - t.Pos) // the value, besides the text
	case Op:
		if m.chain++; m.chain > maxChain {
			return sqlstate.TooDeep()
		}
	case Word:
		if m.chain > 0 && separates(t.Text(src)) {
			m.chain = 0
		}
	case Punct:
		switch src[t.Pos] {
		case '(', '[':
			m.bytes += 40
			m.chain = 0
		case ')', ']', ',', ';':
			m.chain = 0
		}
	}
	return nil
}

// separates reports whether a word ends the expression before it.
func separates(w string) bool {
	switch len(w) {
	case 2:
		return strings.EqualFold(w, "or") || strings.EqualFold(w, "on")
	case 3:
		return strings.EqualFold(w, "and") || strings.EqualFold(w, "end")
	case 4:
		return strings.EqualFold(w, "when") || strings.EqualFold(w, "then") || strings.EqualFold(w, "else") || strings.EqualFold(w, "from")
	case 5:
		return strings.EqualFold(w, "where") || strings.EqualFold(w, "union") || strings.EqualFold(w, "check")
	case 6:
		return strings.EqualFold(w, "select") || strings.EqualFold(w, "having") || strings.EqualFold(w, "except") || strings.EqualFold(w, "values")
	case 9:
		return strings.EqualFold(w, "intersect") || strings.EqualFold(w, "returning")
	}
	return false
}
