package comparison

import (
	"regexp"
	"strconv"
	"strings"
)

// departure is a known difference, which is not a failure.
type departure struct {
	// statement, want and got are patterns of the case's statements and of the answers of PostgreSQL and Meridian; an empty
	// one matches everything.
	statement, want, got string
	// near asks in addition that the two answers differ in the last digits of floating-point numbers only.
	near   bool
	reason string
}

// libm are the functions whose last digits each mathematical library rounds in its own way.
const libm = `\b(a?(sin|cos|tan|cot)[dh]?2?d?|cbrt|d?exp|ln|log|log10|pow|power|degrees|radians|corr|regr_\w+|stddev\w*|var\w*)\(|\|\|/|\^`

// departures are the known differences, each with its reason.
var departures = []departure{
	// Numbers.
	{libm, `:70[01]:`, `:70[01]:`, true, "the last digits of a floating-point function are those of the mathematical library"},
	{`width_bucket\(.*(1e308|2147483647|1e30|123456789012345680)`, ``, ``, false, "PostgreSQL's width_bucket overflows without an error, and rounds its quotients"},
	{`make_interval\(.*(2147483|1e308|1234567890123)`, `interval`, `ERROR 22008 interval out of range`, false, "PostgreSQL 15's make_interval overflows without an error"},
	{`make_(date|timestamp|timestamptz)\('-2147483648`, ``, ``, false, "the least year is out of range, in other words"},
	{`5e-324`, `4\.94066e-324`, `5e-324`, false, "a number in a message has six digits in PostgreSQL"},
	{`(::oid\b.*::int[248]\b|::int[248]\b.*::oid\b)`, `bool|:16:|ERROR 22003 OID`, `:16:`, false, "a negative integer is less than an oid; PostgreSQL makes it one"},
	{`pow|power|\^`, `:1700:`, `:1700:`, true, "the scale of a power of zero"},
	// Dates and times.
	{`\bage\(('[^']*'|null)(::timestamp|::timestamptz)?\)`, ``, ``, false, "age of one argument depends on the day; the simulated one is another"},
	{`5874897-12-31`, `:16:`, `ERROR 22008 date out of range for timestamp`, false, "a date that no timestamp reaches is not compared with one"},
	{`\bextract\(('|null)`, `ERROR 42601`, ``, false, "extract may be called as a function; PostgreSQL has only EXTRACT (field FROM value)"},
	{`\btimestamptz\(`, ``, `ERROR 0A000`, false, "there is no timestamptz(date, time)"},
	{`to_char\(interval '(-2147483648 days|2147483647 days|178956970 years)`, ``, ``, false, "an interval taken for a date overflows without an error in PostgreSQL"},
	{`2562047788.*second\(2\)|9223372036854775807.*second\(2\)`, ``, ``, false, "rounding the longest intervals overflows without an error in PostgreSQL 15"},
	{`us' \+ time '12:00'`, ``, ``, false, "a time and an interval of 292,000 years overflow without an error in PostgreSQL"},
	// Text.
	{`\b(convert|convert_to|convert_from|length)\(.*'(big5|uhc|euc_cn|euc_kr|gbk|gb18030|sjis|euc_jp)'`, ``, ``, false, "the tables of East Asian encodings are those of golang.org/x/text"},
	{`normalize\(`, `ERROR 42601`, ``, false, "the form of normalize may be a text, and not only a word"},
	{`\bto_ascii\(`, ``, `ERROR 0A000`, false, "to_ascii is not there: text is UTF8"},
	{`char 'abc'`, ``, ``, false, "char 'abc' is char(1), as the standard has it, and not bpchar"},
	{`join p1 using`, `:1042:-1`, `:1042:7`, false, "a column of USING has the modifier of the left side"},
	{`into k[bv] values \(.(a|x).`, `^ERROR 23505`, `^ERROR 23505`, false, "the detail of 23505 has the key as the row that is there has it"},
	{`::regtype`, ``, `ERROR (42704 type|42601 )`, false, "the text of a regtype is a name or a small number, and not all of the grammar of types"},
	// JSON.
	{`jsonb_path_|@[?@]|jsonpath`, ``, `ERROR 0A000`, false, "jsonpath is not supported"},
	{`json_populate_record(set)?\(.*, .*, `, ``, `ERROR 42883`, false, "the third argument of json_populate_record, which has no meaning, is not taken"},
	{`jsonb_populate_record(set)?\(`, `ERROR 42804`, `ERROR 42804`, false, "an untyped literal is no row, in other words"},
	// Types, operators and functions that Meridian does not have.
	{`::(bit|varbit|bit varying)\b|^select '[01]+'::bit`, ``, `ERROR 0A000 type bit`, false, "bit strings are not supported"},
	{`\b(get_bit|set_bit|bit_count)\('`, ``, `:(23|17|20):|ERROR 2202E|ERROR 22023|ERROR 42804|ERROR 22P02`, false, "bit strings are not supported: an untyped argument is bytea"},
	{`\btrunc\('`, `ERROR 42725`, ``, false, "there is no trunc(macaddr), with which an untyped argument would be ambiguous"},
	{`(<@|@>|&&|\?\||\?&)`, `ERROR 42725`, ``, false, "there are no ranges, with which an untyped operand would be ambiguous"},
	{`@@`, ``, `ERROR 0A000`, false, "text search is not supported"},
	{`\b(get_current_ts_config|tsrange|tsrange_subdiff|postgresql_fdw_validator)\(`, ``, `ERROR (0A000|42883)`, false, "text search, ranges and foreign data are not supported"},
	{`\b(d(exp|log1|log10|round|trunc|sqrt|pow|cbrt)|numeric_(div_trunc|exp|inc|ln|log|sqrt|\w+)|int[248]inc|textlen|similar_escape)\(`, ``, `ERROR (0A000|42883)`, false,
		"functions behind others, which the manual does not have"},
	{`\|\| .*::inet|::inet \|\|`, `/128|/32`, ``, false, "an inet in a concatenation has no netmask if it is a host"},
	{`^select @ `, ``, `ERROR 0A000`, false, "the operator @ is abs"},
	{`^select \+ `, `\?column\?`, `:25:|(int[248]|float[48]|numeric):`, false, "the grammar leaves out a unary plus"},
	{`jsonb?_to_record(set)?\(null`, ``, `ERROR 0A000`, false, "json_to_record of NULL without names is refused, too"},
	// Foreign keys.
	{`on delete|on update`, `ERROR 23(502|514) .*DETAIL: Failing row`, `ERROR 23(502|514) .*DETAIL: Failing row`, false, "of several rows that an action can't change, the first one's place in the heap decides"},
	{`on conflict do nothing$`, ``, `ERROR 55000 ON CONFLICT does not support deferrable`, false, "a statement that can't be carried out fails before its rows are looked at"},
	// Sequences.
	{`(?s)begin.*(alter sequence|alter table . alter id (set|restart)).*(rollback|commit|savepoint)`, `^(last_value|nextval|currval|lastval|id|pg_sequence_last_value|sequencename|id:)|SELECT|INSERT`, ``, false, "numbers that were drawn after an ALTER SEQUENCE without RESTART stay drawn when its transaction is rolled back"},
}

var compiled = func() (out [][3]*regexp.Regexp) {
	for _, d := range departures {
		out = append(out, [3]*regexp.Regexp{regexp.MustCompile(`(?i)` + d.statement), regexp.MustCompile(d.want), regexp.MustCompile(d.got)})
	}
	return out
}()

// known is the reason of a known difference; empty: it is not one.
func known(c Case, at int, want, got answer) string {
	all := strings.Join(c.Statements[:at+1], "; ")
	w, g := strings.TrimSpace(want.String()), strings.TrimSpace(got.String())
	for i, p := range compiled {
		if p[0].MatchString(all) && p[1].MatchString(w) && p[2].MatchString(g) && (!departures[i].near || near(w, g)) {
			return departures[i].reason
		}
	}
	return ""
}

var float = regexp.MustCompile(`-?[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?`)

// near reports whether two answers are the same but for the thirteenth digit of their numbers and those behind it.
func near(a, b string) bool {
	x, y := float.FindAllString(a, -1), float.FindAllString(b, -1)
	if len(x) != len(y) || float.ReplaceAllString(a, "#") != float.ReplaceAllString(b, "#") {
		return false
	}
	for i := range x {
		p, err1 := strconv.ParseFloat(x[i], 64)
		q, err2 := strconv.ParseFloat(y[i], 64)
		if err1 != nil || err2 != nil {
			return false
		}
		// Neither is far from the other, or both are as small as a number can be.
		if d := p - q; d*d > (p*p+q*q)*1e-24 && (p > 1e-300 || p < -1e-300) {
			return false
		}
	}
	return true
}
