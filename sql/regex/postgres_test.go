package regex

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// answer is what PostgreSQL's functions would say: the first match's begin and end, its groups, and those of all matches.
func answer(pattern, text, flags string) string {
	var o Options
	for _, f := range flags {
		o.Add(f)
	}
	re, err := Compile(pattern, o)
	if err != nil {
		return "invalid regular expression: " + err.Error()
	}
	steps := 0
	check := checkFunc(func() error {
		if steps++; steps > 100 {
			return TooComplex
		}
		return nil
	})
	places, groups, all := "0 0", "-", "-"
	for at, n := 0, 0; at <= len(text); n++ {
		m, err := re.Find(text, at, nil, check)
		if err != nil {
			return "regular expression failed: " + err.Error()
		}
		if m == nil {
			break
		}
		var b strings.Builder
		b.WriteByte('{')
		from := 2
		if len(m) == 2 {
			from = 0
		}
		for i := from; i < len(m); i += 2 {
			if i > from {
				b.WriteByte(',')
			}
			if m[i] < 0 {
				b.WriteString("NULL")
			} else {
				b.WriteString(element(text[m[i]:m[i+1]]))
			}
		}
		b.WriteByte('}')
		if n == 0 {
			c := func(i int) string { return strconv.Itoa(utf8.RuneCountInString(text[:i]) + 1) }
			places, groups, all = c(m[0])+" "+c(m[1]), b.String(), b.String()
		} else {
			all += ";" + b.String()
		}
		if at = m[1]; m[0] == m[1] {
			_, w := utf8.DecodeRuneInString(text[at:])
			at += max(w, 1)
		}
	}
	if ok, _ := re.Match(text, nil); ok != (groups != "-") {
		return "Match and Find disagree"
	}
	return places + " " + groups + " " + all
}

// element is an element of an array as PostgreSQL prints it.
func element(s string) string {
	if s == "" || strings.EqualFold(s, "null") || strings.ContainsAny(s, "{},\"\\ \n\t\r\v\f") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
	}
	return s
}

// TestPostgres compares with PostgreSQL 15's recorded answers: pattern, text, flags and answer, in the format of COPY. MERIDIAN_REGEX names another file of them.
func TestPostgres(t *testing.T) {
	file := "testdata/postgres.txt"
	if f := os.Getenv("MERIDIAN_REGEX"); f != "" {
		file = f
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unescape := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t")
	cases, wrong := 0, 0
	for l := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		f := strings.Split(l, "\t")
		for i := range f {
			f[i] = unescape.Replace(f[i])
		}
		cases++
		got := answer(f[0], f[1], f[2])
		if strings.HasPrefix(got, "invalid") && strings.HasPrefix(f[3], "invalid") && got == f[3] {
			continue
		}
		if got != f[3] {
			if wrong++; wrong <= 40 {
				t.Errorf("%q of %q, flags %q\n  PostgreSQL %s\n  got        %s", f[0], f[1], f[2], f[3], got)
			}
		}
	}
	t.Logf("%d cases, %d differ", cases, wrong)
}
