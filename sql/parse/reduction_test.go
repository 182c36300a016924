package parse

import (
	"strconv"
	"strings"
	"testing"
)

// TestReductions: more digits than six are cut from the precision of a type, and told; the same tokens are left alone elsewhere.
func TestReductions(t *testing.T) {
	for text, want := range map[string]string{
		"select '1'::interval(9)":                               "INTERVAL(9)@13",
		"select timestamp(7) '2000-01-01'":                      "TIMESTAMP(7)@8",
		"select x::time(10) with time zone":                     "TIME(10) WITH TIME ZONE@11",
		"select x::timestamptz(8)[], y::timetz(7)":              "TIMESTAMP(8) WITH TIME ZONE@11 TIME(7) WITH TIME ZONE@32",
		"select interval '1 2:03' day to second(9)":             "INTERVAL(9)@8",
		"create table t (a timestamp(9), b interval second(7))": "TIMESTAMP(9)@19 INTERVAL(7)@35",
		"select x::timestamp(6), y::time(0), f(9), round(9)":    "",
		"select x::varchar(9), y::numeric(9), second from t":    "",
	} {
		s, err := ParseOne(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, r := range s.Reduced {
			got = append(got, r.Type+"@"+strconv.Itoa(r.Pos))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, strings.Join(got, " "), want)
		}
	}
}
