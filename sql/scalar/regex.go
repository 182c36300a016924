package scalar

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	patterns "meridian/sql/regex"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// compileRegex compiles a pattern with flags as regexp_replace takes them.
func compileRegex(pattern, flags string) (re *regex, global bool, err error) {
	var o patterns.Options
	for _, f := range flags {
		if f == 'g' {
			global = true
		} else if !o.Add(f) {
			return nil, false, badFlag(f)
		}
	}
	c, err := patterns.Compile(pattern, o)
	if err != nil {
		return nil, false, sqlstate.New(sqlstate.InvalidRegex, "invalid regular expression: %s", err)
	}
	return &regex{c}, global, nil
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

// similarPattern turns a SIMILAR TO pattern into a regular expression, as PostgreSQL does. With two escaped double quotes it has three parts, and the second
// one is a group: the first part then matches as little as it can.
func similarPattern(p string, escape rune) (string, error) {
	var b strings.Builder
	b.WriteString("^(?:")
	class, escaped, parts := false, false, 0
	for _, c := range p {
		switch {
		case escaped && c == '"' && !class:
			switch parts++; parts {
			case 1:
				b.WriteString("){1,1}?(")
			case 2:
				b.WriteString("){1,1}(?:")
			default:
				return "", sqlstate.New("2200C", "SQL regular expression may not contain more than two escape-double-quote separators")
			}
			escaped = false
		case escaped: // so that \d is a class, as it is in a regular expression
			b.WriteByte('\\')
			b.WriteRune(c)
			escaped = false
		case escape != 0 && c == escape:
			escaped = true
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
		case c == '_':
			b.WriteByte('.')
		case c == '(':
			b.WriteString("(?:")
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
