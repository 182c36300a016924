package scalar

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// translateRegex turns a PostgreSQL advanced regular expression into Go's syntax. Back references and look-around
// have no counterpart and are refused. stop: [^...] does not match a newline.
func translateRegex(p string, stop bool) (string, error) {
	bad := func(what string) (string, error) {
		return "", sqlstate.New(sqlstate.InvalidRegex, "invalid regular expression: %s", what)
	}
	if strings.Contains(p, "(?=") || strings.Contains(p, "(?!") || strings.Contains(p, "(?<=") || strings.Contains(p, "(?<!") {
		return "", sqlstate.New(sqlstate.FeatureNotSupported, "look-around in regular expressions is not supported")
	}
	var b strings.Builder
	class, groups := false, 0
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case class:
			switch {
			case c == '[' && i+1 < len(p) && p[i+1] == ':':
				end := strings.Index(p[i:], ":]")
				if end < 0 {
					return bad("brackets [] not balanced")
				}
				switch name := p[i : i+end+2]; name {
				case "[:alpha:]":
					b.WriteString(`\pL`)
				case "[:alnum:]":
					b.WriteString(`\pL\p{Nd}`)
				case "[:lower:]":
					b.WriteString(`\p{Ll}`)
				case "[:upper:]":
					b.WriteString(`\p{Lu}`)
				default:
					b.WriteString(name)
				}
				i += end + 1
			case c == '[':
				b.WriteString(`\[`)
			case c == ']':
				class = false
				b.WriteByte(c)
			case c == '\\' && i+1 < len(p):
				if i++; p[i] == 'w' {
					b.WriteString(`\pL\p{Nd}_`)
					continue
				}
				b.WriteByte('\\')
				b.WriteByte(p[i])
			default:
				b.WriteByte(c)
			}
		case c == '[':
			if strings.HasPrefix(p[i:], "[[:<:]]") || strings.HasPrefix(p[i:], "[[:>:]]") {
				b.WriteString(`\b`)
				i += 6
				continue
			}
			class = true
			b.WriteByte(c)
			if i+1 < len(p) && p[i+1] == '^' {
				b.WriteByte('^')
				if i++; stop {
					b.WriteString(`\n`)
				}
			}
			if i+1 < len(p) && p[i+1] == ']' {
				b.WriteString(`\]`)
				i++
			}
		case c == '\\':
			if i++; i >= len(p) {
				return bad("invalid escape \\ sequence")
			}
			switch e := p[i]; e {
			case 'm', 'M', 'y':
				b.WriteString(`\b`)
			case 'Y':
				b.WriteString(`\B`)
			case 'w':
				b.WriteString(`[\pL\p{Nd}_]`)
			case 'W':
				b.WriteString(`[^\pL\p{Nd}_]`)
			case 'Z':
				b.WriteString(`\z`)
			case 'e':
				b.WriteString(`\x1b`)
			case 'b':
				b.WriteString(`\x08`)
			case 'B':
				b.WriteString(`\\`)
			case 'u':
				if i+4 < len(p) {
					b.WriteString(`\x{` + p[i+1:i+5] + `}`)
					i += 4
				}
			default:
				switch {
				case e >= '1' && e <= '9' && int(e-'0') > groups:
					return bad("invalid backreference number")
				case e >= '1' && e <= '9':
					return "", sqlstate.New(sqlstate.FeatureNotSupported, "back references in regular expressions are not supported")
				case e == 'd' || e == 'D' || e == 's' || e == 'S' || e == 'w' || e == 'W' || e == 'n' || e == 't' || e == 'r' ||
					e == 'f' || e == 'v' || e == 'a' || e == 'A' || e == 'x' || e == '0':
					b.WriteByte('\\')
					b.WriteByte(e)
				default:
					r, n := utf8.DecodeRuneInString(p[i:])
					b.WriteString(regexp.QuoteMeta(string(r)))
					i += n - 1
				}
			}
		default:
			if c == '(' && !strings.HasPrefix(p[i+1:], "?") {
				groups++
			}
			b.WriteByte(c)
		}
	}
	if class {
		return bad("brackets [] not balanced")
	}
	return b.String(), nil
}

// regexOptions are what flags, and options within a pattern, say. Later ones win.
type regexOptions struct {
	fold, expanded bool
	stop           bool // a newline is matched by no . and by no [^...]
	lines          bool // ^ and $ are at the ends of lines, too
	syntax         regexSyntax
}

type regexSyntax byte

const (
	advanced regexSyntax = iota
	extended
	basic
	quoted
)

// add reports whether there is such an option.
func (o *regexOptions) add(f rune) bool {
	switch f {
	case 'b':
		o.syntax = basic
	case 'c':
		o.fold = false
	case 'e':
		o.syntax = extended
	case 'i':
		o.fold = true
	case 'm', 'n':
		o.stop, o.lines = true, true
	case 'p':
		o.stop, o.lines = true, false
	case 'q':
		o.syntax = quoted
	case 's':
		o.stop, o.lines = false, false
	case 't':
		o.expanded = false
	case 'w':
		o.stop, o.lines = false, true
	case 'x':
		o.expanded = true
	default:
		return false
	}
	return true
}

// compileRegex compiles a pattern with flags as regexp_replace takes them.
func compileRegex(pattern, flags string) (re *regex, global bool, err error) {
	if len(pattern) > patternMax {
		return nil, false, tooComplex()
	}
	var o regexOptions
	for _, f := range flags {
		if f == 'g' {
			global = true
		} else if !o.add(f) {
			return nil, false, badFlag(f)
		}
	}
	if o.syntax != quoted {
		switch rest, ok := strings.CutPrefix(pattern, "***"); {
		case ok && strings.HasPrefix(rest, "="):
			pattern, o.syntax = rest[1:], quoted
		case ok && strings.HasPrefix(rest, ":"):
			pattern, o.syntax = rest[1:], advanced
		case ok:
			return nil, false, sqlstate.New(sqlstate.InvalidRegex, "invalid regular expression: quantifier operand invalid")
		}
	}
	// Embedded options come first.
	if o.syntax == advanced && strings.HasPrefix(pattern, "(?") && len(pattern) > 2 && pattern[2] >= 'a' && pattern[2] <= 'z' {
		end := strings.IndexByte(pattern, ')')
		for i := 2; i < end; i++ {
			if pattern[i] == 'g' || !o.add(rune(pattern[i])) {
				end = -1
			}
		}
		if end < 0 {
			return nil, false, sqlstate.New(sqlstate.InvalidRegex, "invalid regular expression: invalid embedded option")
		}
		pattern = pattern[end+1:]
	}
	if o.expanded && o.syntax != quoted {
		pattern = stripExpanded(pattern)
	}
	t := regexp.QuoteMeta(pattern)
	if o.syntax != quoted {
		if o.syntax == basic {
			pattern = basicToExtended(pattern)
		}
		if t, err = translateRegex(pattern, o.stop); err != nil {
			return nil, false, err
		}
	}
	goFlags := ""
	for _, f := range []struct {
		set  bool
		flag string
	}{{!o.stop, "s"}, {o.lines, "m"}, {o.fold, "i"}} {
		if f.set {
			goFlags += f.flag
		}
	}
	if goFlags != "" {
		t = "(?" + goFlags + ")" + t
	}
	re, err = newRegex(t)
	if err != nil {
		msg := err.Error()
		if i := strings.Index(msg, ": "); i >= 0 {
			msg = msg[i+2:]
		}
		switch {
		case strings.Contains(msg, "missing closing )"), strings.Contains(msg, "unexpected )"):
			msg = "parentheses () not balanced"
		case strings.Contains(msg, "missing closing ]"):
			msg = "brackets [] not balanced"
		case strings.Contains(msg, "repetition operator"):
			msg = "quantifier operand invalid"
		case strings.Contains(msg, "repeat count"):
			msg = "invalid repetition count(s)"
		case strings.Contains(msg, "character class range"):
			msg = "invalid character range"
		}
		return nil, false, sqlstate.New(sqlstate.InvalidRegex, "invalid regular expression: %s", msg)
	}
	return re, global, nil
}

func stripExpanded(p string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\' && i+1 < len(p):
			b.WriteByte(c)
			i++
			b.WriteByte(p[i])
		case class:
			class = c != ']'
			b.WriteByte(c)
		case c == '[':
			class = true
			b.WriteByte(c)
		case c == '#':
			for i < len(p) && p[i] != '\n' {
				i++
			}
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// withRegex makes an overload whose pattern argument is compiled once if it is constant. flagsAt < 0: no flags.
func withRegex(o *Overload, patternAt, flagsAt int, base string,
	f func(ctx *Context, re *regex, global bool, args []types.Datum) (types.Datum, error)) *Overload {
	return checkedRegex(o, patternAt, flagsAt, base, nil, true, f)
}

// checkedRegex is withRegex for a function that checks other arguments before it compiles the pattern, or has no flag g.
func checkedRegex(o *Overload, patternAt, flagsAt int, base string, check func(args []types.Datum) error, global bool,
	f func(ctx *Context, re *regex, global bool, args []types.Datum) (types.Datum, error)) *Overload {
	compile := func(args []types.Datum) (*regex, bool, error) {
		if check != nil {
			if err := check(args); err != nil {
				return nil, false, err
			}
		}
		flags := base
		if flagsAt >= 0 {
			flags += args[flagsAt].Str()
		}
		if err := checkFlags(flags, o.Name, global); err != nil {
			return nil, false, err
		}
		return compileRegex(args[patternAt].Str(), flags)
	}
	o.setN(func(ctx *Context, args []types.Datum) (types.Datum, error) {
		re, global, err := compile(args)
		if err != nil {
			return types.Null, err
		}
		return f(ctx, re, global, args)
	})
	o.Prepare = func(args []types.Datum, known []bool) evalN {
		if check != nil && slices.Contains(known, false) || !known[patternAt] || flagsAt >= 0 && !known[flagsAt] {
			return nil
		}
		re, global, err := compile(args)
		if err != nil {
			return nil
		}
		return func(ctx *Context, args []types.Datum) (types.Datum, error) { return f(ctx, re, global, args) }
	}
	return o
}

// checkFlags refuses unknown flags, and g in a function for which it means nothing.
func checkFlags(flags, function string, global bool) error {
	for _, f := range flags {
		if !strings.ContainsRune("gicsten mpwxqb", f) || f == ' ' {
			return badFlag(f)
		}
	}
	if !global && strings.Contains(flags, "g") {
		e := sqlstate.New(sqlstate.InvalidParameterValue, "%s() does not support the \"global\" option", function)
		if function == "regexp_match" {
			return e.WithHint("Use the regexp_matches function instead.")
		}
		return e
	}
	return nil
}

func badFlag(f rune) error {
	return sqlstate.New(sqlstate.InvalidParameterValue, "invalid regular expression option: %q", types.Raw(string(f)))
}

// basicToExtended turns a basic regular expression (flag b) into an extended one: characters that have a backslash there have
// none here, and conversely.
func basicToExtended(p string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case class:
			class = c != ']'
			b.WriteByte(c)
		case c == '[':
			class = true
			b.WriteByte(c)
			for j := i + 1; j < len(p) && (p[j] == '^' && j == i+1 || p[j] == ']' && (j == i+1 || j == i+2 && p[i+1] == '^')); j++ {
				b.WriteByte(p[j])
				i = j
			}
		case c == '\\' && i+1 < len(p):
			i++
			switch e := p[i]; {
			case e == '<' || e == '>':
				b.WriteString(`\y`)
				continue
			case e >= 'a' && e <= 'z' || e >= 'A' && e <= 'Z' || strings.IndexByte("(){}", e) >= 0:
			default:
				b.WriteByte('\\')
			}
			b.WriteByte(p[i])
		case strings.ContainsRune("(){}+?|", rune(c)), c == '*' && i == 0,
			c == '^' && i > 0 && !strings.HasSuffix(p[:i], `\(`), c == '$' && i+1 < len(p) && !strings.HasPrefix(p[i+1:], `\)`):
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// similarPattern turns a SIMILAR TO pattern into a regular expression. With two escaped double quotes it has three parts, and the
// second one is a group: the first part then matches as little as it can.
func similarPattern(p string, escape rune) (string, error) {
	var b strings.Builder
	b.WriteString("^(?:")
	class, part := false, 0
	rs := []rune(p)
	marks := 0
	for i := 0; escape != 0 && i+1 < len(rs); i++ {
		if rs[i] == escape {
			if i++; rs[i] == '"' {
				marks++
			}
		}
	}
	lazy := func() {
		if marks > 0 && part == 0 {
			b.WriteByte('?')
		}
	}
	for i := 0; i < len(rs); i++ {
		c := rs[i]
		switch {
		case escape != 0 && c == escape:
			if i++; i >= len(rs) {
				continue // it escapes nothing
			}
			if rs[i] == '"' && !class {
				switch part++; part {
				case 1:
					b.WriteString(")(")
				case 2:
					b.WriteString(")(?:")
				default:
					return "", sqlstate.New("2200C", "SQL regular expression may not contain more than two escape-double-quote separators")
				}
				continue
			}
			b.WriteByte('\\') // so that \d is a class, as it is in a regular expression
			b.WriteRune(rs[i])
		case class && c == '[' && i+1 < len(rs) && rs[i+1] == ':':
			for i < len(rs) && !(rs[i] == ']' && rs[i-1] == ':') {
				b.WriteRune(rs[i])
				i++
			}
			if i < len(rs) {
				b.WriteByte(']')
			}
		case class:
			if class = c != ']'; c == '\\' {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
		case c == '[':
			class = true
			b.WriteRune(c)
		case c == '%':
			b.WriteString(".*")
			lazy()
		case c == '_':
			b.WriteByte('.')
		case c == '(':
			b.WriteString("(?:")
		case strings.ContainsRune("*+?}", c):
			b.WriteRune(c)
			lazy()
		case strings.ContainsRune("|{)", c):
			b.WriteRune(c)
		default:
			if strings.ContainsRune(`\.^$`, c) {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
		}
	}
	b.WriteString(")$")
	return b.String(), nil
}

// expandReplacement replaces \1 and \& in a replacement by the parts of a match. buf is scratch.
func expandReplacement(out *text, buf []byte, repl, src string, m []int) []byte {
	for i := 0; i < len(repl); i++ {
		if repl[i] != '\\' || i+1 >= len(repl) {
			buf = append(buf, repl[i])
			continue
		}
		i++
		switch c := repl[i]; {
		case c >= '0' && c <= '9' && c != '0' || c == '&':
			g := 0
			if c != '&' {
				g = int(c - '0')
			}
			if 2*g+1 < len(m) && m[2*g] >= 0 {
				out.write(string(buf))
				buf = buf[:0]
				out.write(src[m[2*g]:m[2*g+1]])
			}
		case c == '\\':
			buf = append(buf, '\\')
		default:
			buf = append(buf, '\\', c)
		}
	}
	out.write(string(buf))
	return buf
}

func groups(s string, m []int) types.Datum {
	a := &types.Array{Elem: types.Text}
	from := 2
	if len(m) == 2 {
		from = 0
	}
	for i := from; i < len(m); i += 2 {
		if m[i] < 0 {
			a.Elems = append(a.Elems, types.Null)
		} else {
			a.Elems = append(a.Elems, pieceOf(s, s[m[i]:m[i+1]]))
		}
	}
	return types.NewArray(a)
}

func addRegex(r *Registry) {
	for _, v := range []struct {
		name   string
		flags  string
		negate bool
	}{{"~", "", false}, {"!~", "", true}, {"~*", "i", false}, {"!~*", "i", true}} {
		for _, t := range []string{"text", "bpchar"} {
			withRegex(r.add(r.ops, v.name+"("+t+", text) bool", Immutable), 1, -1, v.flags,
				func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
					ok, err := re.matches(ctx, args[0].Str())
					return types.NewBool(ok != v.negate), err
				})
		}
	}
	similar := func(escape func(args []types.Datum) (rune, error)) evalN {
		return func(_ *Context, args []types.Datum) (types.Datum, error) {
			e, err := escape(args)
			if err != nil {
				return types.Null, err
			}
			p, err := similarPattern(args[0].Str(), e)
			return types.NewString(p), err
		}
	}
	escapeOf := func(d types.Datum) (rune, error) {
		rs := []rune(d.Str())
		switch len(rs) {
		case 0:
			return 0, nil
		case 1:
			return rs[0], nil
		}
		return 0, sqlstate.New(sqlstate.InvalidEscape, "invalid escape string").WithHint("Escape string must be empty or one character.")
	}
	// "a SIMILAR TO b" is "a ~ similar_to_escape(b)".
	r.Func("similar_to_escape(text) text", similar(func([]types.Datum) (rune, error) { return '\\', nil }))
	r.Func("similar_to_escape(text, text) text", similar(func(args []types.Datum) (rune, error) { return escapeOf(args[1]) }))
	sub := func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
		m, err := re.first(ctx, args[0].Str())
		switch {
		case m == nil || err != nil:
			return types.Null, err
		case len(m) > 2:
			if m[2] < 0 {
				return types.Null, nil
			}
			return str(args[0].Str()[m[2]:m[3]])
		}
		return str(args[0].Str()[m[0]:m[1]])
	}
	withRegex(r.add(r.funcs, "substring(text, text) text", Immutable), 1, -1, "", sub)
	r.Func("substring(text, text, text) text", func(ctx *Context, args []types.Datum) (types.Datum, error) {
		e, err := escapeOf(args[2])
		if err != nil {
			return types.Null, err
		}
		p, err := similarPattern(args[1].Str(), e)
		if err != nil {
			return types.Null, err
		}
		re, _, err := compileRegex(p, "")
		if err != nil {
			return types.Null, err
		}
		return sub(ctx, re, false, args)
	})
	replace := func(ctx *Context, re *regex, global bool, args []types.Datum) (types.Datum, error) {
		return regexReplace(ctx, re, global, args[0].Str(), args[2].Str())
	}
	withRegex(r.add(r.funcs, "regexp_replace(text, text, text) text", Immutable), 1, -1, "", replace)
	checkedRegex(r.add(r.funcs, "regexp_replace(text, text, text, text) text", Immutable), 1, 3, "", func(args []types.Datum) error {
		if f := args[3].Str(); f != "" && f[0] >= '0' && f[0] <= '9' {
			return sqlstate.New(sqlstate.InvalidParameterValue, "invalid regular expression option: %q", types.Raw(f[:1])).
				WithHint("If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly.")
		}
		return nil
	}, true, replace)
	match := func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
		m, err := re.first(ctx, args[0].Str())
		if m == nil || err != nil {
			return types.Null, err
		}
		return groups(args[0].Str(), m), nil
	}
	checkedRegex(r.add(r.funcs, "regexp_match(text, text) text[]", Immutable), 1, -1, "", nil, false, match)
	checkedRegex(r.add(r.funcs, "regexp_match(text, text, text) text[]", Immutable), 1, 2, "", nil, false, match)
	matches := func(ctx *Context, args []types.Datum) ([]types.Row, error) {
		flags := ""
		if len(args) > 2 {
			flags = args[2].Str()
		}
		re, global, err := compileRegex(args[1].Str(), flags)
		if err != nil {
			return nil, err
		}
		n := 1
		if global {
			n = 0
		}
		out := rows{ctx: ctx}
		err = re.all(ctx, args[0].Str(), n, func(m []int) error { return out.add(groups(args[0].Str(), m)) })
		return out.rows, err
	}
	r.SetFunc("regexp_matches(text, text) text[]", "regexp_matches text[]", matches)
	r.SetFunc("regexp_matches(text, text, text) text[]", "regexp_matches text[]", matches)
	toArray := func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
		out := elemList{ctx: ctx}
		err := splitRegex(ctx, re, args[0].Str(), func(s string) error { return out.add(pieceOf(args[0].Str(), s)) })
		return out.array(types.Text), err
	}
	checkedRegex(r.add(r.funcs, "regexp_split_to_array(text, text) text[]", Immutable), 1, -1, "", nil, false, toArray)
	checkedRegex(r.add(r.funcs, "regexp_split_to_array(text, text, text) text[]", Immutable), 1, 2, "", nil, false, toArray)
	toTable := func(ctx *Context, args []types.Datum) ([]types.Row, error) {
		flags := ""
		if len(args) > 2 {
			flags = args[2].Str()
		}
		if err := checkFlags(flags, "regexp_split_to_table", false); err != nil {
			return nil, err
		}
		re, _, err := compileRegex(args[1].Str(), flags)
		if err != nil {
			return nil, err
		}
		out := rows{ctx: ctx}
		err = splitRegex(ctx, re, args[0].Str(), func(s string) error { return out.add(pieceOf(args[0].Str(), s)) })
		return out.rows, err
	}
	r.SetFunc("regexp_split_to_table(text, text) text", "regexp_split_to_table text", toTable)
	r.SetFunc("regexp_split_to_table(text, text, text) text", "regexp_split_to_table text", toTable)
	withRegex(r.add(r.funcs, "regexp_count(text, text) int4", Immutable), 1, -1, "",
		func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
			n := int64(0)
			err := re.all(ctx, args[0].Str(), 0, func([]int) error { n++; return nil })
			return types.NewInt(n), err
		})
	addRegexPlaces(r)
	checkedRegex(r.add(r.funcs, "regexp_like(text, text) bool", Immutable), 1, -1, "", nil, false,
		func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
			ok, err := re.matches(ctx, args[0].Str())
			return types.NewBool(ok), err
		})
	checkedRegex(r.add(r.funcs, "regexp_like(text, text, text) bool", Immutable), 1, 2, "", nil, false,
		func(ctx *Context, re *regex, _ bool, args []types.Datum) (types.Datum, error) {
			ok, err := re.matches(ctx, args[0].Str())
			return types.NewBool(ok), err
		})
}

func addFormat(r *Registry) {
	format := func(ts []*types.T) evalN {
		return func(ctx *Context, args []types.Datum) (types.Datum, error) { return formatText(ctx, args, ts) }
	}
	r.Func1("format(text) text", func(ctx *Context, a types.Datum) (types.Datum, error) {
		return formatText(ctx, []types.Datum{a}, nil)
	}).Stable()
	o := r.Func("format(text, variadic any) text", func(ctx *Context, args []types.Datum) (types.Datum, error) {
		ts := make([]*types.T, len(args))
		for i := range ts {
			ts[i] = types.Text
		}
		return formatText(ctx, args, ts)
	}).Stable().WithNulls()
	o.TypedEval = format
}

// formatText is the function format: %s, %I, %L and %%, with positions and widths.
func formatText(ctx *Context, args []types.Datum, ts []*types.T) (types.Datum, error) {
	if args[0].IsNull() {
		return types.Null, nil
	}
	f := args[0].Str()
	b := text{ctx: ctx}
	next := 1
	few := func() error {
		return sqlstate.New(sqlstate.InvalidParameterValue, "too few arguments for format()")
	}
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			b.byte(f[i])
			continue
		}
		if i++; i >= len(f) {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "unterminated format() type specifier").
				WithHint("For a single \"%%\" use \"%%%%\".")
		}
		if f[i] == '%' {
			b.byte('%')
			continue
		}
		digits := func() (int, bool) {
			j := i
			for i < len(f) && f[i] >= '0' && f[i] <= '9' {
				i++
			}
			n, err := strconv.Atoi(f[j:i])
			return n, err == nil
		}
		arg, width, left := 0, 0, false
		save := i
		if n, ok := digits(); ok && i < len(f) && f[i] == '$' {
			if n == 0 {
				return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "format specifies argument 0, but arguments are numbered from 1")
			}
			arg = n
			i++
		} else {
			i = save
		}
		for i < len(f) && f[i] == '-' {
			left = true
			i++
		}
		if i < len(f) && f[i] == '*' {
			i++
			if next >= len(args) {
				return types.Null, few()
			}
			width = int(args[next].Int())
			if args[next].Phys() != types.PhysInt {
				width, _ = strconv.Atoi(args[next].Str())
			}
			next++
			if width < 0 {
				left, width = true, -width
			}
		} else if n, ok := digits(); ok {
			width = n
		}
		if i >= len(f) {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "unterminated format() type specifier").
				WithHint("For a single \"%%\" use \"%%%%\".")
		}
		if arg == 0 {
			arg = next
			next++
		} else {
			next = arg + 1
		}
		if !strings.ContainsRune("sIL", rune(f[i])) {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized format() type specifier %q", types.Raw(f[i:i+1])).
				WithHint("For a single \"%%\" use \"%%%%\".")
		}
		if arg >= len(args) {
			return types.Null, few()
		}
		var s string
		null := args[arg].IsNull()
		if !null {
			s = textOf(ctx, args[arg], ts[arg])
		}
		switch f[i] {
		case 's':
		case 'I':
			if null {
				return types.Null, sqlstate.New(sqlstate.NullNotAllowed, "null values cannot be formatted as an SQL identifier")
			}
			s = QuoteIdent(s)
		case 'L':
			if s = QuoteLiteral(s); null {
				s = "NULL"
			}
		}
		n := utf8.RuneCountInString(s)
		if width > resultMax {
			return types.Null, tooLarge()
		}
		if !left {
			b.fill(" ", int64(max(width-n, 0)))
		}
		b.write(s)
		if left {
			b.fill(" ", int64(max(width-n, 0)))
		}
		if b.err != nil {
			break // the arguments that follow can be large, too
		}
	}
	return b.datum()
}
