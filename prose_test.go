package meridian_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"meridian/test/reasons"
)

// A sentence of a comment, a page or a text that a user may see, with the line on which it begins.
type sentenceAt struct {
	file  string
	line  int
	text  string
	first bool // of its paragraph
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?:;]['")]?\s+`)
	ruleNumber  = regexp.MustCompile(`^[a-z]+\.[A-Z]{1,2}\d{1,2}(?: \([^()]+\))?: `)
	listMark    = regexp.MustCompile(`^(?:[-*] |\d+\. |#+ |> )`)
	inlineCode  = regexp.MustCompile("`[^`]*`")
	quotedWords = regexp.MustCompile(`"[^"]*"`)
)

// paragraph collects the lines of one paragraph, and calls f with each of its sentences.
type paragraph struct {
	file string
	text string
	at   []int // line of each byte of text
}

func (p *paragraph) add(line int, text string) {
	if p.text != "" {
		p.text, p.at = p.text+" ", append(p.at, line)
	}
	p.text += text
	for range text {
		p.at = append(p.at, line)
	}
	for len(p.at) < len(p.text) { // text is not only ASCII
		p.at = append(p.at, line)
	}
}

func (p *paragraph) flush(f func(sentenceAt)) {
	text := p.text
	if m := ruleNumber.FindStringIndex(text); m != nil {
		text = strings.Repeat(" ", m[1]) + text[m[1]:]
	}
	begin := 0
	ends := append(sentenceEnd.FindAllStringIndex(text, -1), []int{len(text), len(text)})
	for _, e := range ends {
		if s := strings.TrimSpace(text[begin:e[1]]); s != "" {
			first := begin + len(text[begin:]) - len(strings.TrimLeft(text[begin:], " "))
			f(sentenceAt{file: p.file, line: p.at[first], text: s, first: begin == 0})
		}
		begin = e[1]
	}
	p.text, p.at = "", nil
}

// literals calls f with the sentences of string literals of at least three words: errors, notices, help.
func literals(file string, set *token.FileSet, tree *ast.File, f func(sentenceAt)) {
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return true
			}
			v, err := strconv.Unquote(n.Value)
			if err != nil || len(strings.Fields(v)) < 3 {
				return true
			}
			begin := set.Position(n.Pos()).Line
			p := paragraph{file: file}
			for i, l := range strings.Split(v, "\n") {
				if l = strings.TrimSpace(l); l == "" {
					p.flush(f)
				} else {
					p.add(begin+i, l)
				}
			}
			p.flush(f)
		}
		return true
	})
}

// prose calls f with each sentence of comments in Go files, of string literals in those that are not tests, and of pages.
func prose(t *testing.T, f func(sentenceAt)) {
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
		script := strings.Contains(p, "/testdata/")
		switch ext := path.Ext(p); {
		case ext == ".go" && !script:
			set := token.NewFileSet()
			tree, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, g := range tree.Comments {
				par := paragraph{file: p}
				for _, c := range g.List {
					line := set.Position(c.Pos()).Line
					if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//lint:") {
						continue
					}
					for i, l := range strings.Split(strings.Trim(c.Text, "/*"), "\n") {
						drawn := strings.HasPrefix(l, "\t") && !strings.HasPrefix(l, "\t    ")
						l = strings.TrimSpace(l)
						if l == "" || drawn || strings.HasPrefix(l, "#") {
							par.flush(f)
						}
						if l != "" {
							par.add(line+i, strings.TrimPrefix(l, "# "))
						}
					}
				}
				par.flush(f)
			}
			if !strings.HasSuffix(p, "_test.go") {
				literals(p, set, tree, f)
			}
		case ext == ".md" && p != indexPage: // the index repeats comments
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			par, fenced := paragraph{file: p}, false
			for i, l := range strings.Split(string(text), "\n") {
				l = strings.TrimSpace(l)
				if strings.HasPrefix(l, "```") {
					fenced = !fenced
					continue
				}
				if fenced {
					continue
				}
				if mark := listMark.FindString(l); mark != "" || l == "" || strings.HasPrefix(l, "|") {
					par.flush(f)
					l = l[len(mark):]
				}
				if strings.HasPrefix(l, "|") {
					for _, cell := range strings.Split(strings.Trim(l, "|"), "|") {
						par.add(i+1, strings.TrimSpace(cell))
						par.flush(f)
					}
				} else if l != "" {
					par.add(i+1, l)
				}
			}
			par.flush(f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unwanted are the lapses that can be found mechanically. The second member says what to write instead.
var unwanted = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`^(?:Who|Whom|Whose|Whoever|Whatever|Whichever)\b.*[.:;,]$`), `a noun as the subject: "a node that ...", "a client that ..."`},
	{regexp.MustCompile(`^What\b.*[.:;,]$`), `a noun as the subject: "the rows that ...", "the state that ..."`},
	{regexp.MustCompile(`^That (?:the|an?|its?|no|they|there|this|each|every|all|both|some|such|two|we|clocks?|nodes?)\b`), "the clause after its verb"},
	{regexp.MustCompile(`\b(?:lays|laid)\b|\blay (?:an? |the |its |their )?(?:intents?|writes?|locks?)\b`), "written, writes"},
	{regexp.MustCompile(`\b[Hh]arden(?:s|ed|ing)?\b`), "make durable, make serializable"},
	{regexp.MustCompile(`\b[Aa]ttentive\b`), "the field's word"},
	{regexp.MustCompile(`\bflights\b|\b(?:a|the|its|this|that|each|every|one) flight\b`), "in-flight write, batch in flight"},
	{regexp.MustCompile(`\btak(?:e|es|en|ing) apart\b|\btook apart\b`), "decode, parse, decompose"},
	{regexp.MustCompile(`\bhand(?:s|ed|ing)? over\b|\bhand-overs?\b`), "transfer, pass, give"},
	{regexp.MustCompile(`\b[Bb]eside\b`), "next to, in addition to, along with, outside"},
	{regexp.MustCompile(`\blook(?:s|ed|ing)? again\b`), "retry, check again, read again"},
	{regexp.MustCompile(`\blet(?:s|ting)? go\b`), "release, drop"},
	{regexp.MustCompile(`\b[Ww]hat of\b`), "the part of"},
}

// TestProse keeps comments, pages and the texts that users see in sentences whose subjects are nouns of the field, and in the field's words.
// Words of our own are in docs/glossary.md. Exceptions are listed with their reasons. Scripts and the string literals of tests are not read.
// make lint runs it, and so does CI: a sentence need not be found in the middle of other work.
func TestProse(t *testing.T) {
	if os.Getenv("MERIDIAN_PROSE") == "" {
		t.Skip("make lint runs it")
	}
	found := map[string]bool{}
	n := 0
	prose(t, func(s sentenceAt) {
		n++
		words := quotedWords.ReplaceAllString(inlineCode.ReplaceAllString(s.text, "x"), "x")
		for _, u := range unwanted {
			m := u.pattern.FindStringIndex(words)
			if m == nil || m[0] == 0 && s.first && !strings.HasPrefix(words, "Wh") && !strings.HasPrefix(words, "That") { // the name that a comment is about
				continue
			}
			word := words[m[0]:m[1]]
			if strings.HasPrefix(word, "Wh") || strings.HasPrefix(word, "That") {
				word, _, _ = strings.Cut(word, " ")
			}
			entry := s.file + " " + word
			if !found[entry] {
				t.Logf("%s:%d: %q: write %s", s.file, s.line, s.text, u.instead)
			}
			found[entry] = true
		}
	})
	if n < 10_000 {
		t.Fatalf("found only %d sentences", n)
	}
	reasons.Check(t, "testdata/prose.txt", found, "is not written by that standard (see the lines above)")
}
