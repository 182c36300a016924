package parse

import (
	"strconv"
	"strings"

	"meridian/sql/types"
)

// maxLiterals bounds the parameters that Parameterize makes of one text: longer lists are rarely sent twice.
const maxLiterals = 24

// Literal is a constant that Parameterize has taken out of a text. Integers have their value and type; strings are of
// type unknown, like any quoted constant.
type Literal struct {
	T    *types.T
	Int  int64
	Text string
}

// Parameterize replaces constants of a single SELECT, INSERT, UPDATE or DELETE by parameters, so that texts that
// differ in them only can share a plan: clients of the simple protocol write their values into the text. It touches
// only constants whose type and meaning do not depend on being constant: integers of four bytes and strings that
// follow a comparison, integers that are added or subtracted, and both in a list of VALUES. The other operand has a name in it:
// an expression of constants only is evaluated once, and decides whether what follows in AND or OR is (scalar.FoldError). It reports
// false if the text has no such constants, has parameters already, or is another kind of statement.
//
// The returned literals are valid until the next call.
func (p *Parser) Parameterize(sql string) (text string, lits []Literal, ok bool) {
	if len(sql) > 4096 || strings.IndexByte(sql, 0) >= 0 {
		return "", nil, false
	}
	var err error
	p.toks, err = lex(sql, 0, p.toks[:0])
	if err != nil {
		return "", nil, false
	}
	toks := p.toks
	n := len(toks) - 1 // without EOF
	for n > 0 && isPunct(toks[n-1], sql, ";") {
		n--
	}
	if n < 4 || !startsChange(sql, toks[0]) {
		return "", nil, false
	}
	p.lits, p.text = p.lits[:0], p.text[:0]
	at := 0
	depth, values := 0, 0 // values: the depth inside a VALUES list's row, or zero
	for i := 0; i < n; i++ {
		t := toks[i]
		from := i
		var lit Literal
		switch t.Kind {
		case Param:
			return "", nil, false
		case Punct:
			switch sql[t.Pos] {
			case '(':
				depth++
				if depth == 1 && i > 0 && (isWord(toks[i-1], sql, "values") || values > 0 && isPunct(toks[i-1], sql, ",")) {
					values = 1
				}
			case ')':
				depth--
			case ';':
				return "", nil, false
			}
			continue
		case Word:
			if depth == 0 {
				values = 0
			}
			continue
		case String:
			if c := sql[t.Pos]; c != '\'' {
				continue
			}
			lit = Literal{T: types.Unknown}
		case Number:
			v, err := strconv.ParseInt(sql[t.Pos:t.End], 10, 32)
			if err != nil {
				continue
			}
			lit = Literal{T: types.Int4, Int: v}
			if isSign(toks[i-1], sql) && i > 1 && signIsUnary(toks[i-2], sql) {
				from = i - 1
				if sql[toks[from].Pos] == '-' {
					lit.Int = -v
				}
			}
		default:
			continue
		}
		if from == 0 || i+1 > n || !endsOperand(toks, i+1, n, sql) {
			continue
		}
		prev := toks[from-1]
		switch {
		case prev.Kind == Op && isComparison(prev.Text(sql)) && varies(toks[:from-1], sql):
		case prev.Kind == Op && t.Kind == Number && isSign(prev, sql) && from > 1 && !signIsUnary(toks[from-2], sql) && varies(toks[:from-1], sql):
		case values == 1 && depth == 1 && prev.Kind == Punct && (sql[prev.Pos] == '(' || sql[prev.Pos] == ','):
		default:
			continue
		}
		if len(p.lits) == maxLiterals {
			return "", nil, false
		}
		if t.Kind == String {
			lit.Text = stringText(t, sql)
		}
		p.lits = append(p.lits, lit)
		p.text = append(p.text, sql[at:toks[from].Pos]...)
		p.text = append(p.text, '$')
		p.text = strconv.AppendInt(p.text, int64(len(p.lits)), 10)
		at = int(t.End)
	}
	if len(p.lits) == 0 {
		return "", nil, false
	}
	p.text = append(p.text, sql[at:toks[n-1].End]...)
	return string(p.text), p.lits, true
}

func startsChange(sql string, t Token) bool {
	return isWord(t, sql, "select") || isWord(t, sql, "update") || isWord(t, sql, "insert") || isWord(t, sql, "delete")
}

// varies reports whether the operand at the end of the tokens may depend on a row: it has a name that is no function's, type's or keyword's.
func varies(toks []Token, sql string) bool {
	depth := 0
	for i := len(toks) - 1; i >= 0; i-- {
		t := toks[i]
		switch t.Kind {
		case Quoted:
			return true
		case Op:
			op := t.Text(sql)
			if depth == 0 && isComparison(op) {
				return false
			}
			if op == "*" && i > 0 && isPunct(toks[i-1], sql, "(") { // count(*)
				return true
			}
		case Punct:
			switch sql[t.Pos] {
			case ')', ']':
				depth++
			case '(', '[':
				if depth--; depth < 0 {
					return false
				}
			case ',':
				if depth == 0 {
					return false
				}
			}
		case Word:
			switch strings.ToLower(t.Text(sql)) {
			case "select", "where", "and", "or", "on", "having", "returning", "set", "values", "limit", "offset", "by", "from", "using", "when", "then", "else", "not", "distinct", "all", "for", "in", "between", "like", "ilike", "as":
				if depth == 0 {
					return false
				}
			case "true", "false", "null", "case", "end", "is", "precision", "varying", "with", "without", "time", "zone", "cast", "array", "row":
			default:
				typed := i > 0 && toks[i-1].Text(sql) == "::" || i+1 < len(toks) && toks[i+1].Kind == String
				called := i+1 < len(toks) && isPunct(toks[i+1], sql, "(")
				if !typed && !called {
					return true
				}
			}
		}
	}
	return false
}

func isSign(t Token, sql string) bool {
	return t.Kind == Op && t.End-t.Pos == 1 && (sql[t.Pos] == '-' || sql[t.Pos] == '+')
}

// signIsUnary reports whether a sign after t belongs to the number that follows it.
func signIsUnary(t Token, sql string) bool {
	switch t.Kind {
	case Op:
		return true
	case Punct:
		return sql[t.Pos] == '(' || sql[t.Pos] == ','
	}
	return false
}

func isComparison(op string) bool {
	switch op {
	case "=", "<", ">", "<=", ">=", "<>", "!=":
		return true
	}
	return false
}

// endsOperand reports whether the constant before token i is a whole operand.
func endsOperand(toks []Token, i, n int, sql string) bool {
	if i >= n {
		return true
	}
	t := toks[i]
	switch t.Kind {
	case Punct:
		return sql[t.Pos] == ')' || sql[t.Pos] == ','
	case Word:
		for _, w := range [...]string{"and", "or", "where", "returning", "order", "limit", "for", "from"} {
			if isWord(t, sql, w) {
				return true
			}
		}
	}
	return false
}
