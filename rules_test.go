package meridian_test

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"meridian/test/reasons"
)

var update = flag.Bool("update", false, "write the index of rules into docs/invariants.md")

// Rules of packages are written with their package: lease.L1. The definition is an item of a list in a comment,
//
//	//	lease.L1 (I7): A node says that ...
//	//	    and more of it,
//
// and everything else is a citation. I1 to I9 belong to the project and stand alone.
var (
	definition = regexp.MustCompile(`^\s*//\t([a-z]+)\.([A-Z]{1,2})(\d{1,2})(?: \(([^()]+)\))?: (.*)$`)
	more       = regexp.MustCompile(`^\s*//\t +(\S.*)$`)
	citation   = regexp.MustCompile(`\b([a-z]+)\.([A-Z]{1,2}\d{1,2})\b`)
	loose      = regexp.MustCompile(`(?:^|[^\w.'"/%\x60-])([A-Z]{1,2}\d{1,2})\b`)
	projects   = regexp.MustCompile(`^I[1-9]$`)
)

type rule struct {
	name, prefix string
	number       int
	serves, text string
	file         string
}

// commented calls f with the lines in which rules are defined and cited: comments of Go files and scripts, and all of a page. A line keeps its number.
func commented(t *testing.T, f func(file string, line int, text string)) {
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != "." && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		p = filepath.ToSlash(p)
		data := func() string {
			text, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		script := strings.Contains(p, "/testdata/")
		switch ext := path.Ext(p); {
		case ext == ".go" && !script:
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, g := range file.Comments {
				for _, c := range g.List {
					for i, l := range strings.Split(c.Text, "\n") {
						f(p, set.Position(c.Pos()).Line+i, l)
					}
				}
			}
		case ext == ".md" || ext == ".tla":
			for i, l := range strings.Split(data(), "\n") {
				f(p, i+1, l)
			}
		case script && (ext == "" || ext == ".sql" || ext == ".txt"):
			for i, l := range strings.Split(data(), "\n") {
				if strings.HasPrefix(l, "#") || strings.HasPrefix(l, "--") {
					f(p, i+1, l)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

const indexPage = "docs/invariants.md"

// TestRules compares the rules that are defined with those that are cited, and with the index.
func TestRules(t *testing.T) {
	rules := map[string]*rule{}
	var last *rule // whose text goes on in the next line
	var lastLine int
	commented(t, func(file string, line int, text string) {
		if path.Ext(file) != ".go" {
			return
		}
		m := definition.FindStringSubmatch(text)
		if m == nil {
			if c := more.FindStringSubmatch(text); c != nil && last != nil && last.file == file && line == lastLine+1 {
				last.text += " " + c[1]
				lastLine = line
			} else {
				last = nil
			}
			return
		}
		n, _ := strconv.Atoi(m[3])
		r := &rule{name: m[1] + "." + m[2] + m[3], prefix: m[2], number: n, serves: m[4], text: m[5], file: file}
		if dir := path.Dir(file); path.Base(dir) != m[1] && path.Base(path.Dir(dir)) != m[1] { // in the package, or in one of its rooms
			t.Errorf("%s:%d: %s is defined in package %s", file, line, r.name, path.Base(dir))
		}
		if other := rules[r.name]; other != nil {
			t.Errorf("%s:%d: %s is defined in %s too", file, line, r.name, other.file)
		}
		rules[r.name], last, lastLine = r, r, line
	})
	if len(rules) < 150 {
		t.Fatalf("found only %d rules", len(rules))
	}
	prefixes := map[string]bool{}
	for _, r := range rules {
		name, _, _ := strings.Cut(r.name, ".")
		prefixes[name] = true
	}
	found := map[string]bool{}
	commented(t, func(file string, line int, text string) {
		if file == "CHANGELOG.md" {
			return
		}
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			if prefixes[m[1]] && rules[m[0]] == nil {
				t.Errorf("%s:%d: there is no rule %s", file, line, m[0])
			}
		}
		for _, m := range loose.FindAllStringSubmatch(text, -1) {
			if !projects.MatchString(m[1]) {
				found[file+" "+strings.TrimRight(m[1], "0123456789")] = true
			}
		}
	})
	reasons.Check(t, "testdata/numbers.txt", found, "stands before a number, and no package before it (lease.L1)")

	page, err := os.ReadFile(indexPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- generated -->\n", "<!-- /generated -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the index", indexPage)
	}
	want := before + begin + index(rules) + end + after
	switch {
	case want == string(page):
	case *update:
		if err := os.WriteFile(indexPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the index in %s is not that of the rules: go test -run TestRules -update .", indexPage)
	}
}

// sentence is the first one of a rule's text.
var sentence = regexp.MustCompile(`^(.*?[^.])(?:\. \S.*|[.;,]|)$`)

func index(rules map[string]*rule) string {
	folders := map[string][]*rule{}
	for _, r := range rules {
		dir := path.Dir(r.file)
		folders[dir] = append(folders[dir], r)
	}
	var b strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		fmt.Fprintf(&b, "\n## `%s`\n\n| rule | serves | it says | in |\n|---|---|---|---|\n", dir)
		list := folders[dir]
		slices.SortFunc(list, func(x, y *rule) int {
			if c := strings.Compare(x.prefix, y.prefix); c != 0 {
				return c
			}
			return x.number - y.number
		})
		for _, r := range list {
			text := strings.ReplaceAll(sentence.FindStringSubmatch(r.text)[1], "|", `\|`)
			fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", r.name, r.serves, strings.ToUpper(text[:1])+text[1:], path.Base(r.file))
		}
	}
	return b.String() + "\n"
}
