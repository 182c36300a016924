package scalar

import (
	"fmt"
	"strconv"
	"strings"

	"meridian/sql/types"
)

// Format writes the expression as SQL: EXPLAIN and stored defaults and checks use it, and parse.Display makes pg_get_expr's
// form of a stored text. The text parses back to the same expression.
func Format(e Expr) string {
	return FormatWith(e, func(c *Column) string {
		if c.Name == "" {
			return fmt.Sprintf("@%d", c.ID)
		}
		return QuoteIdent(c.Name)
	})
}

// FormatWith is Format with another way to name columns.
func FormatWith(e Expr, name func(*Column) string) string {
	f := formatter{name: name}
	f.expr(e)
	return outermost(string(f.buf))
}

// outermost removes the parentheses around the whole of s.
func outermost(s string) string {
	if strings.HasPrefix(s, "(") && closesAtEnd(s) {
		return s[1 : len(s)-1]
	}
	return s
}

// FormatStored is Format for texts that are stored: types are named by their identity (types.T.Reference).
func FormatStored(e Expr) string {
	f := formatter{name: func(c *Column) string { return QuoteIdent(c.Name) }, stored: true}
	f.expr(e)
	return outermost(string(f.buf))
}

// closesAtEnd reports whether the first parenthesis of s is closed by its last byte.
func closesAtEnd(s string) bool {
	depth, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i == len(s)-1
			}
		}
	}
	return false
}

type formatter struct {
	buf    []byte
	name   func(*Column) string
	stored bool
}

func (f *formatter) cast(t *types.T) {
	if f.str("::"); f.stored {
		f.str(t.Reference())
		return
	}
	f.str(t.String())
}

func (f *formatter) str(s string) { f.buf = append(f.buf, s...) }

func (f *formatter) list(es []Expr, sep string) {
	for i, e := range es {
		if i > 0 {
			f.str(sep)
		}
		f.expr(e)
	}
}

func (f *formatter) expr(e Expr) {
	switch e := e.(type) {
	case nil:
		f.str("NULL")
	case *Const:
		f.constant(e)
	case *Column:
		f.str(f.name(e))
	case *Placeholder:
		f.str("$" + strconv.Itoa(e.Index+1))
	case *Call:
		f.call(e)
	case *Cast:
		if c, ok := e.Arg.(*Const); ok && c.T.Kind == types.KindUnknown && !c.Value.IsNull() {
			f.str(QuoteLiteral(c.Value.Str()))
		} else {
			f.atom(e.Arg)
		}
		f.cast(e.To)
	case *And:
		f.str("(")
		f.list(e.Args, " AND ")
		f.str(")")
	case *Or:
		f.str("(")
		f.list(e.Args, " OR ")
		f.str(")")
	case *Not:
		f.str("(NOT ")
		f.expr(e.Arg)
		f.str(")")
	case *Compare:
		f.str("(")
		f.expr(e.Left)
		f.str(" " + e.Op.symbol() + " ")
		f.expr(e.Right)
		f.str(")")
	case *IsNull:
		f.str("(")
		f.expr(e.Arg)
		if e.Whole && e.Arg.Type().Kind == types.KindTuple {
			f.str(choose(e.Negate, " IS DISTINCT FROM NULL)", " IS NOT DISTINCT FROM NULL)"))
			return
		}
		f.str(choose(e.Negate, " IS NOT NULL)", " IS NULL)"))
	case *IsBool:
		f.str("(")
		f.expr(e.Arg)
		f.str(" IS " + choose(e.Negate, "NOT ", "") + choose(e.Want, "TRUE)", "FALSE)"))
	case *Case:
		f.str("CASE")
		for _, w := range e.Whens {
			f.str(" WHEN ")
			f.expr(w.Cond)
			f.str(" THEN ")
			f.expr(w.Result)
		}
		if e.Else != nil {
			f.str(" ELSE ")
			f.expr(e.Else)
		}
		f.str(" END")
	case *Coalesce:
		f.str("COALESCE(")
		f.list(e.Args, ", ")
		f.str(")")
	case *NullIf:
		f.str("NULLIF(")
		f.list([]Expr{e.Left, e.Right}, ", ")
		f.str(")")
	case *In:
		f.str("(")
		f.expr(e.Arg)
		f.str(choose(e.Negate, " NOT IN (", " IN ("))
		f.list(e.List, ", ")
		f.str("))")
	case *Quantified:
		f.str("(")
		f.expr(e.Arg)
		f.str(" " + operatorOf(e.Op) + choose(e.All, " ALL (", " ANY ("))
		f.expr(e.Array)
		f.str("))")
	case *ArrayCtor:
		f.str("ARRAY[")
		f.list(e.Elems, ", ")
		f.str("]")
		if len(e.Elems) == 0 {
			f.cast(e.T)
		}
	case *ArrayIndex:
		f.str("(")
		f.expr(e.Array)
		f.str(")[")
		f.expr(e.Index)
		f.str("]")
	case *RowCtor:
		f.str("ROW(")
		f.list(e.Elems, ", ")
		f.str(")")
	case *Subquery:
		f.subquery(e)
	case *Default:
		f.str("DEFAULT")
	case *AggFunc:
		f.aggregate(e)
	default:
		f.str(fmt.Sprintf("%T", e))
	}
}

func choose(c bool, yes, no string) string {
	if c {
		return yes
	}
	return no
}

// atom writes e so that a postfix operator can follow.
func (f *formatter) atom(e Expr) {
	switch e.(type) {
	case *Column, *Placeholder, *Coalesce, *NullIf, *ArrayIndex, *Const:
		f.expr(e)
	default:
		start := len(f.buf)
		f.expr(e)
		if s := string(f.buf[start:]); !strings.HasPrefix(s, "(") || !closesAtEnd(s) {
			f.buf = append(append(f.buf[:start], '('), s...)
			f.str(")")
		}
	}
}

func (f *formatter) subquery(e *Subquery) {
	const id = "subquery"
	switch e.Kind {
	case SubqueryExists:
		f.str("EXISTS (" + id + ")")
	case SubqueryAny, SubqueryAll:
		f.str("(")
		f.expr(e.Arg)
		f.str(" " + operatorOf(e.Op) + choose(e.Kind == SubqueryAll, " ALL (", " ANY (") + id + "))")
	case SubqueryArray:
		f.str("ARRAY(" + id + ")")
	default:
		f.str("(" + id + ")")
	}
}

func operatorOf(op Expr) string {
	switch op := op.(type) {
	case *Compare:
		return op.Op.symbol()
	case *Call:
		return likeWord(op.Func.Name)
	case *Not:
		return "NOT " + operatorOf(op.Arg)
	}
	return "?"
}

func likeWord(op string) string {
	switch op {
	case "~~":
		return "LIKE"
	case "!~~":
		return "NOT LIKE"
	case "~~*":
		return "ILIKE"
	case "!~~*":
		return "NOT ILIKE"
	}
	return op
}

func (f *formatter) aggregate(e *AggFunc) {
	f.str(e.Agg.Name + "(")
	if e.Distinct {
		f.str("DISTINCT ")
	}
	if len(e.Args) == 0 {
		f.str("*")
	}
	f.list(e.Args, ", ")
	for i, o := range e.OrderBy {
		f.str(choose(i == 0, " ORDER BY ", ", "))
		f.expr(o.Expr)
		f.str(choose(o.Desc, " DESC", ""))
		if o.NullsFirst != o.Desc {
			f.str(choose(o.NullsFirst, " NULLS FIRST", " NULLS LAST"))
		}
	}
	f.str(")")
	if e.Filter != nil {
		f.str(" FILTER (WHERE ")
		f.expr(e.Filter)
		f.str(")")
	}
}

// isOperatorName tells operators, which are made of symbols, from functions.
func isOperatorName(name string) bool {
	if name == "" {
		return false
	}
	c := name[0]
	return !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80)
}

func (f *formatter) call(e *Call) {
	name := e.Func.Name
	switch name {
	case "current_date", "current_timestamp", "current_time", "localtime", "localtimestamp", "current_user", "session_user",
		"user", "current_role", "current_catalog":
		// The standard's functions without parentheses.
		f.str(strings.ToUpper(name))
		if len(e.Args) > 0 {
			f.str("(")
			f.list(e.Args, ", ")
			f.str(")")
		}
		return
	case "position":
		if len(e.Args) == 2 {
			f.str("position(")
			f.atom(e.Args[0])
			f.str(" IN ")
			f.atom(e.Args[1])
			f.str(")")
			return
		}
	}
	if e.Func == arrayPart {
		f.str("(")
		f.expr(e.Args[0])
		f.str(")")
		f.subscripts(e.Args[1], e.Args[2:])
		return
	}
	if e.Func == fieldOf {
		f.str("(")
		f.expr(e.Args[0])
		f.str(")." + QuoteIdent(e.Args[2].(*Const).Value.Str()))
		return
	}
	if !isOperatorName(name) {
		f.str(name + "(")
		f.list(e.Args, ", ")
		f.str(")")
		return
	}
	f.str("(")
	if len(e.Args) == 1 {
		f.str(name + " ")
		f.expr(e.Args[0])
	} else {
		f.expr(e.Args[0])
		f.str(" " + likeWord(name) + " ")
		f.expr(e.Args[1])
	}
	f.str(")")
}

func (f *formatter) constant(c *Const) {
	if c.Value.IsNull() {
		f.str("NULL")
		if c.T.Kind != types.KindUnknown {
			f.cast(c.T)
		}
		return
	}
	switch c.T.Kind {
	case types.KindBool:
		f.str(choose(c.Value.Bool(), "true", "false"))
		return
	case types.KindInt4:
		if c.Value.Int() < 0 {
			f.str("'" + strconv.FormatInt(c.Value.Int(), 10) + "'::integer")
		} else {
			f.buf = strconv.AppendInt(f.buf, c.Value.Int(), 10)
		}
		return
	case types.KindDecimal:
		text := string(types.AppendText(nil, c.Value, c.T, nil))
		if c.T.Precision == 0 && text[0] != '-' && text[0] != 'N' && text[0] != 'I' && strings.Contains(text, ".") {
			f.str(text)
			return
		}
	case types.KindUnknown:
		f.str(QuoteLiteral(c.Value.Str()))
		return
	}
	if c.Value.Phys() == types.PhysTuple {
		f.str("ROW(")
		t := c.Value.Tuple()
		for i, d := range t.Elems {
			if i > 0 {
				f.str(", ")
			}
			f.constant(&Const{d, t.Types[i]})
		}
		f.str(")")
		return
	}
	text := string(types.AppendText(nil, c.Value, c.T, nil))
	switch {
	case c.T.Kind == types.KindInt2, c.T.Kind == types.KindFloat4, c.T.Kind == types.KindFloat8, c.T.Kind == types.KindDecimal && c.T.Precision == 0:
		// PostgreSQL shows the integer that was written, and its cast.
		if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 && text[0] != '-' {
			f.str(text)
			break
		}
		fallthrough
	default:
		f.str(QuoteLiteral(text))
	}
	f.cast(c.T)
}

// QuoteLiteral writes a string as a SQL literal.
func QuoteLiteral(s string) string {
	if strings.Contains(s, `\`) {
		return "E'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// QuoteIdent writes a name as a SQL identifier, with quotes where it needs them.
func QuoteIdent(s string) string {
	plain := s != ""
	for i := 0; i < len(s) && plain; i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c == '_' || i > 0 && (c >= '0' && c <= '9')
	}
	if plain && !isReserved(s) {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// isReserved lists PostgreSQL 15's key words of all kinds but the unreserved: those that quote_ident puts in quotes.
func isReserved(s string) bool {
	switch s {
	case "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
		"bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
		"collate", "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog",
		"current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
		"dec", "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
		"extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest",
		"group", "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer",
		"intersect", "interval", "into", "is", "isnull", "join", "lateral", "leading", "least", "left", "like",
		"limit", "localtime", "localtimestamp", "national", "natural", "nchar", "none", "normalize", "not",
		"notnull", "null", "nullif", "numeric", "offset", "on", "only", "or", "order", "out", "outer", "overlaps",
		"overlay", "placing", "position", "precision", "primary", "real", "references", "returning", "right",
		"row", "select", "session_user", "setof", "similar", "smallint", "some", "substring", "symmetric", "table",
		"tablesample", "then", "time", "timestamp", "to", "trailing", "treat", "trim", "true", "union", "unique",
		"user", "using", "values", "varchar", "variadic", "verbose", "when", "where", "window", "with",
		"xmlattributes", "xmlconcat", "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "xmltable":
		return true
	}
	return false
}
