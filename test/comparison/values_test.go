package comparison

import (
	"math/rand/v2"
	"strings"
)

// edges are values of each type that are likely to show a difference, in their text form.
var edges = map[string][]string{
	"bool":   {"true", "false"},
	"int2":   {"0", "1", "-1", "32767", "-32768", "7"},
	"int4":   {"0", "1", "-1", "2147483647", "-2147483648", "5", "3", "2", "4", "10"},
	"int8":   {"0", "1", "-1", "9223372036854775807", "-9223372036854775808", "42"},
	"float4": {"0", "-0", "1", "-1.5", "3.4e38", "1e-40", "NaN", "Infinity", "-Infinity", "0.1", "123456.7"},
	"float8": {"0", "-0", "1", "-1.5", "1e308", "5e-324", "NaN", "Infinity", "-Infinity", "0.1", "2", "123456789012345680", "0.5"},
	"numeric": {"0", "1", "-1", "0.00", "1.50", "-2.5", "12345678901234567890.123456789", "1e-20", "NaN", "Infinity", "-Infinity",
		"10", "2", "0.5", "99999", "1e30", "3"},
	"text":    {"", "a", "abc", "Hello World", "  pad ", "ünïcödé", "100", "a,b,c", "{1,2}", "x\ty", "%", "abcabc", "YYYY-MM-DD", "null", "day"},
	"varchar": {"", "abc", "x ", "Ünï"},
	"bpchar":  {"", "ab", "ab  ", "a b "},
	"name":    {"abc", "x"},
	"bytea":   {`\x`, `\x00ff`, `\x616263`, "abc"},
	"date": {"2024-02-29", "1999-12-31", "0001-01-01", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity", "2000-01-01", "1970-01-01",
		"2024-12-30", "0044-03-15 BC"},
	"time":   {"00:00", "24:00:00", "23:59:59.999999", "12:34:56.789", "allballs"},
	"timetz": {"00:00+00", "24:00:00-15:59", "12:34:56.5+05:30", "23:59:59.999999-08"},
	"timestamp": {"2024-02-29 12:34:56.789", "1999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "infinity", "-infinity", "epoch",
		"4713-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999", "2024-03-31 02:30:00", "2020-01-31 00:00:00"},
	"timestamptz": {"2024-02-29 12:34:56.789+00", "1999-12-31 23:59:59.999999-08", "infinity", "-infinity", "epoch",
		"2024-03-31 01:30:00+00", "2024-11-03 06:30:00+00", "0044-03-15 00:00:00+00 BC", "1883-11-18 12:00:00+00"},
	"interval": {"0", "1 day", "-1 mon", "1 year 2 mons -3 days 04:05:06.7", "25:00:00", "35 days", "13 months", "-00:00:00.000001",
		"100 years", "1 mon -1 hour", "30 days 24:00", "-1 year -2 mons +3 days -04:05:06"},
	"uuid": {"00000000-0000-0000-0000-000000000000", "01234567-89ab-cdef-0123-456789abcdef"},
	"json": {"null", "true", "1", `"a"`, "[]", "{}", `[1, 2, {"a": null}]`, `{"b": 1, "a": [1,2], "b": 2}`, `{"a":{"b":{"c":"x"}}}`,
		`[1.50, -0, 1e2]`, ` {"k" : "v"} `, `[{"a":1,"b":"x"},{"a":2}]`, `"\u00e9\n"`},
	"jsonb": {"null", "true", "1", `"a"`, "[]", "{}", `[1, 2, {"a": null}]`, `{"b": 1, "a": [1,2], "b": 2}`, `{"a":{"b":{"c":"x"}}}`,
		`[1.50, -0, 1e2]`, `[{"a":1,"b":"x"},{"a":2}]`, `["a","b"]`},
	"oid":        {"0", "1", "4294967295", "23"},
	"_int4":      {"{}", "{1,2,3}", "{NULL,1}", "{{1,2},{3,4}}", "[0:1]={7,8}", "{3,1,2,1}", "{{{1,2}}}"},
	"_int8":      {"{}", "{1,2,3}"},
	"_text":      {"{}", `{a,b,c}`, `{NULL,"a b","",x}`, `{{a,b},{c,d}}`, `[2:3]={x,y}`, `{a,b}`, `{b,{"}`},
	"_numeric":   {"{1.5,2}", "{}"},
	"_float8":    {"{0.1,NaN}", "{0,0.5,1}"},
	"_bool":      {"{t,f}"},
	"_timestamp": {`{"2024-01-01 00:00:00",infinity}`},
	"_jsonb":     {`{"{\"a\":1}",null}`},
	"_varchar":   {"{a,bc}"},
	"bit":        {"1", "0", "101", "11110000"},
	"varbit":     {"", "1", "101", "00001111"},
	"char":       {"a", ""},
	"regtype":    {"int4", "text"},
	"jsonpath":   {"$", "$.a", "$[*]"},
	"oidvector":  {"", "1 2"},
	"int2vector": {"1 2 3", ""},
	"inet": {"10.1.2.3", "10.1.2.3/8", "0.0.0.0/0", "255.255.255.255", "192.168.1.0/24", "192.168.1.128/25", "::", "::1", "::1.2.3.4/96",
		"::ffff:10.1.2.3", "2001:db8::8a2e:370:7334/64", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::/10", "1:0:0:2::3"},
	"cidr": {"10.0.0.0/8", "0.0.0.0/0", "192.168.1", "128.1", "224", "10.128.0.0/9", "192.168.1.7/32", "::/0", "::1", "2001:db8::/32",
		"::ffff:1.2.0.0/112", "fe80::/10", "1:0:2::/48"},
	"macaddr":  {"08:00:2b:01:02:03", "000000000000", "ffff.ffff.ffff", "8:0:2b:1:2:3"},
	"macaddr8": {"08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03", "ffffffffffffffff", "08002bfffe010203", "0000.0000.0000.0000"},
}

// scalarTypes are those whose values the generators draw, in a fixed order.
var scalarTypes = []string{"bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar", "name", "bytea", "date", "time",
	"timetz", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb", "oid", "_int4", "_text", "inet", "cidr", "macaddr", "macaddr8"}

// hints are texts that mean something to certain arguments of a function.
var hints = map[string][]string{
	"extract": fields, "date_part": fields, "date_trunc": {"microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year",
		"decade", "century", "millennium", "dow", "bogus", "DAY", "timezone"},
	"to_char": {"YYYY-MM-DD HH24:MI:SS.US", "FMMonth DD, Y,YYY", "HH12:MI am", "999.99", "FM000", "9G999D99S", "RN", "IYYY-IW-ID", "TZ OF", "J Q WW CC",
		"Day DY dy", "9.99EEEE", "L999PR", "MI:SS.MS", "DDth", "SSSS", "PL9", "V99", "HH24:MI:SS TZH:TZM", "B.C.", "99", "0009"},
	"to_date":      {"YYYY-MM-DD", "DD Mon YYYY", "YYYYMMDD", "J", "IYYY-IW-ID", "MM/DD/YY", "YYYY"},
	"to_timestamp": {"YYYY-MM-DD HH24:MI:SS", "YYYY-MM-DD", "HH12:MI AM", "FXYYYY-MM-DD"},
	"to_number":    {"999.99", "9G999D99", "S999", "FM999", "999PR", "L99"},
	"encode":       {"hex", "base64", "escape", "bogus"}, "decode": {"hex", "base64", "escape", "bogus"},
	"timezone": {"UTC", "America/New_York", "Europe/Berlin", "+03:30", "UTC-5", "GMT+2", "EST", "PST8PDT", "Nowhere/Land", "-08", "CEST", "utc", "Z", "+5", "EST5EDT"},
	"regexp":   {"b", "^a", "[a-c]+", "(a)(b)?", "(?i)A", "x*", "\\d+", "a|b", "(", "\\y", "[[:alpha:]]", "$", "\\m", "(?:a)(b)", "."},
	"flags":    {"", "g", "i", "gi", "n", "x", "s", "m", "q", "c", "z", "e", "b", "ig", "p", "w"},
	"similar":  {"a%", "%(b|d)%", "_bc", "a[bc]+", "%#\"b#\"%", "abc"},
	"format":   {"%s", "%I.%L", "%1$s %1$L", "%10s|", "%-10s|", "%%", "%", "%s %s %s", "%2$s", "%z"},
	"unit":     {"bytes"},
	"path":     {"$", "$.a", "$[*]", "$.**", "$[*] ? (@ > 1)", "strict $.a"},
}

var fields = []string{"century", "day", "decade", "dow", "doy", "epoch", "hour", "isodow", "isoyear", "julian", "microseconds", "millennium", "milliseconds",
	"minute", "month", "quarter", "second", "timezone", "timezone_hour", "timezone_minute", "week", "year", "bogus", "Day", "us", "y"}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func typeName(t string) string {
	if t == "char" {
		return `"char"`
	}
	if e, ok := strings.CutPrefix(t, "_"); ok {
		return e + "[]"
	}
	return t
}

// value is a value of a type as an expression.
func value(r *rand.Rand, t string) string {
	vs := edges[t]
	if len(vs) == 0 || r.IntN(30) == 0 {
		return "null::" + typeName(t)
	}
	return quote(pick(r, vs)) + "::" + typeName(t)
}
