package scalar_test

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// The files testdata/*.tsv hold expressions and PostgreSQL 15's results (testdata/record.py records them). Ours must
// have the same type and text, or the same SQLSTATE and message.
func TestLikePostgreSQL(t *testing.T) {
	files, err := filepath.Glob("testdata/*.tsv")
	if err != nil || len(files) == 0 {
		t.Fatal("no recorded answers", err)
	}
	r := system.NewBuiltins()
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".tsv"), func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			lines := bufio.NewScanner(f)
			for lines.Scan() {
				cols := strings.SplitN(lines.Text(), "\t", 3)
				if len(cols) != 3 {
					continue
				}
				typ, val := answer(r, cols[0])
				if typ != cols[1] || val != cols[2] {
					t.Errorf("%s\n  got  %s %s\n  want %s %s", cols[0], typ, val, cols[1], cols[2])
				}
			}
		})
	}
}

func answer(r *scalar.Registry, text string) (typ, val string) {
	fail := func(err error) (string, string) {
		var e *sqlstate.Error
		if errors.As(err, &e) {
			return "ERROR", string(e.Code) + " " + e.Message
		}
		return "ERROR", err.Error()
	}
	p := &exprParser{r: r, s: text}
	e, err := p.parse(0)
	if err == nil && strings.TrimSpace(p.s) != "" {
		err = errors.New("rest: " + p.s)
	}
	if err != nil {
		return fail(err)
	}
	if e.Type().Kind == types.KindUnknown {
		if e, err = scalar.Coerce(e, types.Text, types.CastImplicit); err != nil {
			return fail(err)
		}
	}
	ctx := &scalar.Context{Location: time.UTC, TxnTime: time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)}
	folded := scalar.Fold(e)
	d, err := scalar.Value(ctx, e)
	if err != nil {
		return fail(err)
	}
	if c, ok := folded.(*scalar.Const); ok && (c.Value.IsNull() != d.IsNull() || !d.IsNull() && types.Compare(c.Value, d) != 0) {
		return "ERROR", "folding gives another value"
	}
	if d.IsNull() {
		return e.Type().Name(), "NULL"
	}
	s := types.FormatText(d, e.Type(), nil)
	return e.Type().Name(), strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "\n", `\n`)
}

// exprParser reads the expressions of the test files: enough SQL for them, no more.
type exprParser struct {
	r *scalar.Registry
	s string
}

var binaryOps = []struct {
	op   string
	prec int
}{
	{"#>>", 5}, {"->>", 5}, {"!~~*", 5}, {"!~~", 5}, {"!~*", 5}, {"~~*", 5}, {"||", 5}, {"->", 5}, {"#>", 5}, {"@>", 5}, {"<@", 5},
	{"?|", 5}, {"?&", 5}, {"&&", 5}, {"#-", 5}, {"<<", 5}, {">>", 5}, {"!~", 5}, {"~*", 5}, {"~~", 5},
	{"not like", 4}, {"ilike", 4}, {"like", 4},
	{"<=", 3}, {">=", 3}, {"<>", 3}, {"=", 3}, {"<", 3}, {">", 3},
	{"~", 5}, {"?", 5}, {"&", 5}, {"|", 5}, {"#", 5}, {"+", 6}, {"-", 6}, {"*", 7}, {"/", 7}, {"%", 7}, {"^", 8},
}

func (p *exprParser) space() { p.s = strings.TrimLeft(p.s, " ") }

func (p *exprParser) accept(w string) bool {
	p.space()
	if strings.HasPrefix(p.s, w) {
		p.s = p.s[len(w):]
		return true
	}
	return false
}

func (p *exprParser) parse(min int) (scalar.Expr, error) {
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
next:
	for {
		p.space()
		for _, o := range binaryOps {
			if !strings.HasPrefix(p.s, o.op) {
				continue
			}
			if o.prec < min {
				return left, nil
			}
			save := p.s
			p.s = p.s[len(o.op):]
			right, err := p.parse(o.prec + 1)
			if err != nil {
				p.s = save
				return nil, err
			}
			if left, err = p.binary(o.op, left, right); err != nil {
				return nil, err
			}
			continue next
		}
		return left, nil
	}
}

func (p *exprParser) binary(op string, l, r scalar.Expr) (scalar.Expr, error) {
	cmps := map[string]scalar.CmpOp{"=": scalar.EQ, "<>": scalar.NE, "<": scalar.LT, "<=": scalar.LE, ">": scalar.GT, ">=": scalar.GE}
	if c, ok := cmps[op]; ok {
		return p.r.NewCompare(c, l, r)
	}
	likes := map[string]string{"like": "~~", "not like": "!~~", "ilike": "~~*"}
	if o, ok := likes[op]; ok {
		op = o
	}
	return p.r.NewOperator(op, l, r)
}

func (p *exprParser) unary() (scalar.Expr, error) {
	p.space()
	for _, op := range []string{"||/", "|/", "-", "+", "~", "@"} {
		if p.accept(op) {
			p.space()
			if op == "-" && p.s != "" && p.s[0] >= '0' && p.s[0] <= '9' && !strings.Contains(p.s, "^") {
				e, err := p.primary("-")
				if err != nil {
					return nil, err
				}
				return p.postfix(e)
			}
			prec := 9
			if op != "-" && op != "+" {
				prec = 6
			}
			arg, err := p.parse(prec)
			if err != nil {
				return nil, err
			}
			return p.r.NewOperator(op, arg)
		}
	}
	e, err := p.primary("")
	if err != nil {
		return nil, err
	}
	return p.postfix(e)
}

func (p *exprParser) postfix(e scalar.Expr) (scalar.Expr, error) {
	for p.accept("::") {
		i := 0
		for i < len(p.s) && (p.s[i] == '_' || p.s[i] == '"' || p.s[i] >= 'a' && p.s[i] <= 'z' || p.s[i] >= '0' && p.s[i] <= '9') {
			i++
		}
		for i < len(p.s) && (p.s[i] == '(' || p.s[i] == '[') {
			i += strings.IndexAny(p.s[i:], ")]") + 1
		}
		to, ok := types.FromName(p.s[:i])
		if !ok {
			return nil, errors.New("type " + p.s[:i])
		}
		p.s = p.s[i:]
		var err error
		if e, err = scalar.Coerce(e, to, types.CastExplicit); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (p *exprParser) list(end string) ([]scalar.Expr, error) {
	var out []scalar.Expr
	if p.accept(end) {
		return nil, nil
	}
	for {
		e, err := p.parse(0)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		if p.accept(end) {
			return out, nil
		}
		if !p.accept(",") {
			return nil, errors.New("list at " + p.s)
		}
	}
}

func (p *exprParser) primary(sign string) (scalar.Expr, error) {
	p.space()
	if p.s == "" {
		return nil, errors.New("end of expression")
	}
	switch c := p.s[0]; {
	case c == '\'':
		end := 1
		var b strings.Builder
		for ; ; end++ {
			if p.s[end] == '\'' {
				if end+1 < len(p.s) && p.s[end+1] == '\'' {
					end++
				} else {
					break
				}
			}
			b.WriteByte(p.s[end])
		}
		p.s = p.s[end+1:]
		return &scalar.Const{types.NewString(b.String()), types.Unknown}, nil
	case c >= '0' && c <= '9':
		i := 0
		for i < len(p.s) && (p.s[i] >= '0' && p.s[i] <= '9' || p.s[i] == '.' || p.s[i] == 'e' ||
			p.s[i] == '-' && p.s[i-1] == 'e') {
			i++
		}
		text := p.s[:i]
		p.s = p.s[i:]
		if !strings.HasPrefix(p.s, "::") {
			text, sign = sign+text, ""
		}
		for _, t := range []*types.T{types.Int4, types.Int8, types.Decimal} {
			d, err := types.ParseText(t, text, nil)
			if err != nil {
				continue
			}
			if sign == "" {
				return &scalar.Const{d, t}, nil
			}
			e, err := p.postfix(&scalar.Const{d, t})
			if err != nil {
				return nil, err
			}
			return p.r.NewOperator("-", e)
		}
		return nil, errors.New("number " + text)
	case c == '(':
		p.s = p.s[1:]
		e, err := p.parse(0)
		if err == nil && !p.accept(")") {
			err = errors.New("parenthesis at " + p.s)
		}
		return e, err
	}
	i := 0
	for i < len(p.s) && (p.s[i] == '_' || p.s[i]|0x20 >= 'a' && p.s[i]|0x20 <= 'z' || p.s[i] >= '0' && p.s[i] <= '9') {
		i++
	}
	word := strings.ToLower(p.s[:i])
	p.s = p.s[i:]
	switch word {
	case "null":
		return &scalar.Const{types.Null, types.Unknown}, nil
	case "true", "false":
		return &scalar.Const{types.NewBool(word == "true"), types.Bool}, nil
	case "array":
		p.accept("[")
		es, err := p.list("]")
		if err != nil {
			return nil, err
		}
		es, t, err := scalar.CommonType("ARRAY", es)
		if err != nil {
			return nil, err
		}
		return &scalar.ArrayCtor{es, types.ArrayOf(t)}, nil
	}
	if !p.accept("(") {
		return nil, errors.New("word " + word)
	}
	args, err := p.list(")")
	if err != nil {
		return nil, err
	}
	switch word {
	case "coalesce":
		args, t, err := scalar.CommonType("COALESCE", args)
		return &scalar.Coalesce{args, t}, err
	case "nullif":
		c, err := p.r.NewCompare(scalar.EQ, args[0], args[1])
		if err != nil {
			return nil, err
		}
		return &scalar.NullIf{c.Left, c.Right}, nil
	}
	return p.r.NewCall(word, args)
}
