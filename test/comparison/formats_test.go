package comparison

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// numberTemplates: to_char of numbers and to_number, whose templates are made of all patterns in any order.
var numberTemplates = Generator{Name: "numberTemplates", Generate: numberTemplate}

func numberTemplate(r *rand.Rand) Case {
	var b strings.Builder
	if r.IntN(2) == 0 {
		b.WriteString("FM")
	}
	if r.IntN(3) == 0 {
		b.WriteString(pick(r, []string{"S", "MI", "PL", "SG", "L", "B", `"x"`, "$", "s"}))
	}
	pattern := func() string {
		return pick(r, []string{"9", "9", "9", "9", "99", "999", "0", "0", "00", "G", ",", "D", ".", "V", " ", `"a"`, "L", "9G999", "FM"})
	}
	for range 1 + r.IntN(5) {
		b.WriteString(pattern())
	}
	if r.IntN(2) == 0 {
		b.WriteString(pick(r, []string{".9", ".99", "D99", ".00", ".09", ".90", "V9", "."}))
	}
	if r.IntN(3) == 0 {
		b.WriteString(pick(r, []string{"S", "MI", "PL", "SG", "PR", "th", "TH", "EEEE", "RN", "rn", "L", "eeee", "pr"}))
	}
	template := quote(b.String())
	if r.IntN(3) == 0 {
		var in strings.Builder
		for range 1 + r.IntN(6) {
			in.WriteString(pick(r, []string{"1", "2", "34", "567", "0", ".", ",", "-", "+", " ", "<", ">", "$", "a", "1,234", ".5", "12"}))
		}
		return Case{Group: "to_number", Statements: []string{fmt.Sprintf("select to_number(%s, %s)", quote(in.String()), template)}}
	}
	v := pick(r, []string{"0", "1", "-1", "0.1", "-0.1", "0.05", "12", "-12", "485", "1234.5", "-1234.5", "9.999", "99.995", "123456", "1234567.891", "0.001",
		"1e10", "1.5e-5", "'NaN'", "'Infinity'", "'-Infinity'", "100", "-0.004", "3999", "4000", "null"})
	t := pick(r, []string{"numeric", "numeric", "int", "bigint", "float4", "float8"})
	return Case{Group: "to_char " + t, Statements: []string{fmt.Sprintf("select to_char(%s::%s, %s)", v, t, template)}}
}

// patterns: functions and operators of regular expressions, SIMILAR TO and LIKE, over patterns that match nothing, too.
var patterns = Generator{Name: "patterns", Generate: patternCase, Fixed: File("patterns")}

func patternCase(r *rand.Rand) Case {
	subject := func() string {
		if r.IntN(8) == 0 {
			return pick(r, []string{`E'ab\ncd'`, `E'a\nb\nc'`})
		}
		return quote(pick(r, []string{"", "a", "abc", "aabbcc", "abcabc", "hello world", "foobar", "a b  c", "AbC", "xay", "a.b", "é1ü2", "123abc", "a\\b", "a%b_c"}))
	}
	chance := func(n int) bool { return r.IntN(n) == 0 }
	switch r.IntN(10) {
	case 0, 1: // LIKE
		var p strings.Builder
		for range r.IntN(5) {
			p.WriteString(pick(r, []string{"a", "b", "%", "_", `\`, `\%`, "c", "b%", "é", "A"}))
		}
		op := pick(r, []string{"like", "not like", "ilike", "~~"})
		return Case{Group: op, Statements: []string{fmt.Sprintf("select %s %s %s", subject(), op, quote(p.String()))}}
	case 2:
		var p strings.Builder
		for range 1 + r.IntN(4) {
			p.WriteString(pick(r, []string{"a", "b", "%", "_", "[ab]", "[^a]", "(b|c)", "c*", "b+", "b?", ".", "^", "$", `\`, `\d`, "#%", "[]a]", "{2}", "|", "1"}))
		}
		escape := pick(r, []string{"", " escape '#'", " escape ''"})
		return Case{Group: "similar to", Statements: []string{fmt.Sprintf("select %s similar to %s%s", subject(), quote(p.String()), escape)}}
	}
	var p strings.Builder
	if chance(10) {
		p.WriteString(pick(r, []string{"(?i)", "(?n)", "(?x)", "(?q)", "***=", "***:", "***:(?i)", "(?c)", "(?g)", "***"}))
	}
	for range r.IntN(4) {
		p.WriteString(pick(r, []string{"a", "b", "b*", "a?", ".", ".*", "[ab]", "[^a]", "(b|c)", "^", "$", `\y`, `\d`, `\s*`, `\w+`, "(a)", "x*", "a|ab", "(a?)(ab)?", "foo|foobar", "o+",
			`\W`, "[[:digit:]]", "b{1,2}", " ", "B", `\A`, `\Z`, "()", "c|bc", "b*?", ".*?", "(a+?)", "b{1,2}?", `\m`, `\M`, "[[:<:]]", `\1`, "(?=b)", "(?!b)",
			"(?<=a)", "(?<!a)", "(a|ab)(c|bcd)?", "(a*)*", "(b|c)+?", `[\w-]`, "[^[:alpha:]]", "(?:ab)+", `\Y`, `\u0061`, "a{2}", "*"}))
	}
	pattern := quote(p.String())
	flags := quote(pick(r, []string{"", "g", "i", "gi", "n", "x", "s", "m", "q", "c", "z", "p", "w", "ic", "ci", "ns", "qg", "gn", "gw", "b", "gg", "e", "be"}))
	start := pick(r, []string{"1", "2", "3", "0", "7", "20"})
	nth := pick(r, []string{"1", "2", "3", "0", "-1"})
	f := pick(r, []string{
		"regexp_replace(S, P, '<\\&\\1>')", "regexp_replace(S, P, 'X', F)", "regexp_replace(S, P, 'X', 'g')", "regexp_replace(S, P, 'X', B)", "regexp_replace(S, P, 'X', B, N)",
		"regexp_replace(S, P, 'X', B, N, F)", "regexp_matches(S, P)", "regexp_matches(S, P, 'g')", "regexp_matches(S, P, F)", "regexp_match(S, P)", "regexp_match(S, P, F)",
		"regexp_split_to_array(S, P)", "regexp_split_to_array(S, P, F)", "regexp_split_to_table(S, P)", "regexp_split_to_table(S, P, F)", "regexp_count(S, P)", "regexp_count(S, P, B)",
		"regexp_count(S, P, B, F)", "regexp_instr(S, P)", "regexp_instr(S, P, B)", "regexp_instr(S, P, B, N)", "regexp_instr(S, P, B, N, 1)", "regexp_instr(S, P, B, N, 0, F)",
		"regexp_instr(S, P, B, N, 0, F, 1)", "regexp_substr(S, P)", "regexp_substr(S, P, B)", "regexp_substr(S, P, B, N)", "regexp_substr(S, P, B, N, F)", "regexp_substr(S, P, 1, 1, F, 1)",
		"regexp_like(S, P)", "regexp_like(S, P, F)", "S ~ P", "S ~* P", "S !~ P", "substring(S from P)", "substring(S, P)",
	})
	name, _, _ := strings.Cut(f, "(")
	return Case{Group: name, Statements: []string{"select " + strings.NewReplacer("S", subject(), "P", pattern, "F", flags, "B", start, "N", nth).Replace(f)}}
}

// answers: what was answered otherwise than PostgreSQL does, one case of each class.
var answers = Generator{Name: "answers", Fixed: File("answers")}

// encodings: conversions between all pairs of encodings.
var encodings = Generator{Name: "encodings", Generate: encodingCase, PerRound: 1500, Always: 1500}

func encodingCase(r *rand.Rand) Case {
	name := func() string {
		return quote(pick(r, []string{"utf8", "UTF-8", "unicode", "latin1", "LATIN2", "latin9", "iso_8859_5", "ISO-8859-15", "win1251", "windows-1252", "win1250", "koi8r", "KOI8U", "win866",
			"euc_jp", "sjis", "euc_kr", "gbk", "big5", "gb18030", "sql_ascii", "nosuch", "", "utf16", "win1258", "latin10", "euc_cn", "uhc"}))
	}
	text := quote(pick(r, []string{"", "abc", "é", "ä€ß", "日本", "жук", "Ω", "한국", "中文", "a\tb", "ł", "ÿ", "ñandú", "🙂"}))
	bytes := quote(pick(r, []string{`\x`, `\x616263`, `\xe9`, `\xc3a9`, `\x00`, `\x6100`, `\xff`, `\xd6`, `\x93fa967b`, `\xc6fccbdc`, `\xe697a5`, `\xb0a1`, `\xa4`, `\xe7e8`, `\xc3`})) + "::bytea"
	switch r.IntN(5) {
	case 0, 1:
		return Case{Group: "convert_to", Statements: []string{fmt.Sprintf("select convert_to(%s, %s)", text, name())}}
	case 2:
		return Case{Group: "convert_from", Statements: []string{fmt.Sprintf("select convert_from(%s, %s)", bytes, name())}}
	case 3:
		return Case{Group: "convert", Statements: []string{fmt.Sprintf("select convert(%s, %s, %s)", bytes, name(), name())}}
	}
	return Case{Group: "length", Statements: []string{fmt.Sprintf("select length(%s, %s)", bytes, name())}}
}
