package parse

import (
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

// cursor moves over the tokens of one statement, for the commands that this package parses without the grammar library.
type cursor struct {
	p    *Parser
	src  string
	toks []Token
	i    int
}

func isWord(t Token, src, w string) bool {
	return t.Kind == Word && int(t.End-t.Pos) == len(w) && strings.EqualFold(src[t.Pos:t.End], w)
}

func isPunct(t Token, src, p string) bool {
	return t.Kind == Punct && src[t.Pos:t.End] == p
}

// peek is the k-th token ahead.
func (c *cursor) peek(k int) Token {
	if c.i+k < len(c.toks) {
		return c.toks[c.i+k]
	}
	end := int32(len(c.src))
	if len(c.toks) > 0 {
		end = c.toks[len(c.toks)-1].End
	}
	return Token{EOF, end, end}
}

func (c *cursor) done() bool                { return c.i >= len(c.toks) }
func (c *cursor) is(w string) bool          { return isWord(c.peek(0), c.src, w) }
func (c *cursor) isAt(k int, w string) bool { return isWord(c.peek(k), c.src, w) }
func (c *cursor) isPunct(p string) bool     { return isPunct(c.peek(0), c.src, p) }

// accept consumes the words if they come next.
func (c *cursor) accept(words ...string) bool {
	for k, w := range words {
		if !c.isAt(k, w) {
			return false
		}
	}
	c.i += len(words)
	return true
}

// acceptAny consumes one of the words, and returns it.
func (c *cursor) acceptAny(words ...string) (string, bool) {
	for _, w := range words {
		if c.is(w) {
			c.i++
			return w, true
		}
	}
	return "", false
}

func (c *cursor) acceptPunct(p string) bool {
	if c.isPunct(p) {
		c.i++
		return true
	}
	return false
}

func (c *cursor) acceptOp(op string) bool {
	if t := c.peek(0); t.Kind == Op && t.Text(c.src) == op {
		c.i++
		return true
	}
	return false
}

// unexpected is the syntax error at the next token.
func (c *cursor) unexpected() error {
	return syntaxError(c.src, c.peek(0))
}

func (c *cursor) expect(words ...string) error {
	for _, w := range words {
		if !c.accept(w) {
			return c.unexpected()
		}
	}
	return nil
}

func (c *cursor) expectPunct(p string) error {
	if !c.acceptPunct(p) {
		return c.unexpected()
	}
	return nil
}

// end fails unless all tokens were consumed.
func (c *cursor) end() error {
	if !c.done() {
		return c.unexpected()
	}
	return nil
}

// ident consumes an identifier.
func (c *cursor) ident() (string, error) {
	t := c.peek(0)
	if t.Kind != Word && t.Kind != Quoted {
		return "", c.unexpected()
	}
	c.i++
	return identText(t, c.src), nil
}

// name consumes a possibly qualified name.
func (c *cursor) name() (Name, error) {
	var parts []string
	for {
		s, err := c.ident()
		if err != nil {
			return Name{}, err
		}
		parts = append(parts, s)
		if len(parts) == 4 || !c.acceptPunct(".") {
			break
		}
	}
	switch len(parts) {
	case 1:
		return Name{Name: parts[0]}, nil
	case 2:
		return Name{Schema: parts[0], Name: parts[1]}, nil
	case 3:
		return Name{Database: parts[0], Schema: parts[1], Name: parts[2]}, nil
	}
	return Name{}, sqlstate.New(sqlstate.SyntaxError, "improper qualified name (too many dotted names): %s", strings.Join(parts, "."))
}

// names consumes a comma-separated list of names.
func (c *cursor) names() ([]Name, error) {
	var list []Name
	for {
		c.accept("only")
		n, err := c.name()
		if err != nil {
			return nil, err
		}
		if t := c.peek(0); t.Kind == Op && t.Text(c.src) == "*" {
			c.i++
		}
		list = append(list, n)
		if !c.acceptPunct(",") {
			return list, nil
		}
	}
}

// idents consumes a comma-separated list of identifiers.
func (c *cursor) idents() ([]string, error) {
	var list []string
	for {
		s, err := c.ident()
		if err != nil {
			return nil, err
		}
		list = append(list, s)
		if !c.acceptPunct(",") {
			return list, nil
		}
	}
}

// parenIdents consumes ( ident, ... ) if it comes next.
func (c *cursor) parenIdents() ([]string, error) {
	if !c.acceptPunct("(") {
		return nil, nil
	}
	list, err := c.idents()
	if err != nil {
		return nil, err
	}
	return list, c.expectPunct(")")
}

// str consumes a string constant.
func (c *cursor) str() (string, error) {
	t := c.peek(0)
	if t.Kind != String {
		return "", c.unexpected()
	}
	c.i++
	return stringText(t, c.src), nil
}

// integer consumes an integer with an optional sign.
func (c *cursor) integer() (int64, error) {
	neg := c.acceptOp("-")
	if !neg {
		c.acceptOp("+")
	}
	t := c.peek(0)
	if t.Kind != Number {
		return 0, c.unexpected()
	}
	v, err := strconv.ParseInt(t.Text(c.src), 10, 64)
	if err != nil {
		return 0, c.unexpected()
	}
	c.i++
	if neg {
		v = -v
	}
	return v, nil
}

// boolean consumes an optional boolean value, as options have; absent means true.
func (c *cursor) boolean() (bool, error) {
	t := c.peek(0)
	var s string
	switch t.Kind {
	case Word, Quoted:
		s = identText(t, c.src)
	case String:
		s = strings.ToLower(stringText(t, c.src))
	case Number:
		s = t.Text(c.src)
	default:
		return true, nil
	}
	switch s {
	case "true", "on", "1", "yes":
		c.i++
		return true, nil
	case "false", "off", "0", "no":
		c.i++
		return false, nil
	}
	return false, c.unexpected()
}

// word consumes an identifier, a string or a number as text.
func (c *cursor) word() (string, error) {
	t := c.peek(0)
	switch t.Kind {
	case Word, Quoted:
		c.i++
		return identText(t, c.src), nil
	case String:
		c.i++
		return stringText(t, c.src), nil
	case Number:
		c.i++
		return t.Text(c.src), nil
	}
	return "", c.unexpected()
}

// until consumes the tokens up to the next comma or closing parenthesis at this level, and returns their text.
func (c *cursor) until() (string, error) {
	start, depth := c.i, 0
	for ; c.i < len(c.toks); c.i++ {
		if t := c.toks[c.i]; t.Kind == Punct {
			ch := c.src[t.Pos]
			if depth == 0 && (ch == ',' || ch == ')') {
				break
			}
			switch ch {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			}
		}
	}
	if c.i == start {
		return "", c.unexpected()
	}
	return c.src[c.toks[start].Pos:c.toks[c.i-1].End], nil
}

// rest consumes the remaining tokens and returns their text.
func (c *cursor) rest() (string, error) {
	if c.done() {
		return "", c.unexpected()
	}
	s := c.src[c.toks[c.i].Pos:c.toks[len(c.toks)-1].End]
	c.i = len(c.toks)
	return s, nil
}

// nested parses the rest as a statement.
func (c *cursor) nested() (*Statement, error) {
	if c.done() {
		return nil, c.unexpected()
	}
	s, err := c.p.sub(c.src, c.toks[c.i:])
	c.i = len(c.toks)
	return s, err
}
