package parse

import (
	"reflect"
	"sort"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Places are the tokens of a statement's text, and which of them each name and constant of the syntax tree was read from. The grammar library's
// tree has no positions, but each of its strings is a part of the library's input, or of the buffer into which the library's scanner copied
// the words that it folded, the quoted identifiers and the string constants, in the order of the text. Places are made when an error is reported.
type Places struct {
	s    *Statement
	toks []Token
	// copies are the tokens by the address and the length of their copies.
	copies map[copied]int
}

type copied struct {
	at  uintptr
	len int
}

// Places are those of the statement.
func (s *Statement) Places() *Places {
	p := &Places{s: s}
	if s.grammar == "" {
		return p
	}
	toks, err := lex(s.grammar, 0, nil)
	if err != nil {
		return p
	}
	p.toks = toks[:len(toks)-1]
	p.findCopies()
	return p
}

// Bounds of the search for the buffer of copies.
const (
	maxCandidates = 64
	maxVotes      = 1 << 16
)

// findCopies finds the buffer's begin: for each string of the tree, the begin that its equals among the tokens suggest gets a vote.
func (p *Places) findCopies() {
	type token struct{ i, offset int }
	byText := map[string][]token{}
	var all []token
	offset := 0
	for i, t := range p.toks {
		text, is := p.copy(t)
		if !is {
			continue
		}
		byText[text] = append(byText[text], token{i, offset})
		all = append(all, token{i, offset})
		offset += len(text)
	}
	if len(all) == 0 {
		return
	}
	votes, cast := map[uintptr]int{}, 0
	var best uintptr
	Strings(p.s.Node, func(s string) {
		candidates := byText[s]
		if s == "" || len(candidates) > maxCandidates || cast > maxVotes || p.within(s) >= 0 {
			return
		}
		at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
		for _, c := range candidates {
			cast++
			base := at - uintptr(c.offset)
			votes[base]++
			if votes[base] > votes[best] {
				best = base
			}
		}
	})
	if best == 0 {
		return
	}
	p.copies = make(map[copied]int, len(all))
	for _, t := range all {
		text, _ := p.copy(p.toks[t.i])
		p.copies[copied{best + uintptr(t.offset), len(text)}] = t.i
	}
}

// copy is what the library's scanner copies of a token, if anything.
func (p *Places) copy(t Token) (string, bool) {
	text := t.Text(p.s.grammar)
	switch t.Kind {
	case Quoted:
		return strings.ReplaceAll(text[1:len(text)-1], `""`, `"`), true
	case String:
		if text[0] == 'x' || text[0] == 'X' {
			return text[3 : 3+(len(text)-3)/2], true
		}
		return stringText(t, p.s.grammar), true
	case Word:
		upper := false
		for i := range len(text) {
			if text[i] >= utf8.RuneSelf {
				return "", false
			}
			upper = upper || text[i] >= 'A' && text[i] <= 'Z'
		}
		return Fold(text), upper
	}
	return "", false
}

// within is the offset of a string in the library's input, or -1.
func (p *Places) within(s string) int {
	base := uintptr(unsafe.Pointer(unsafe.StringData(p.s.grammar)))
	at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	if s == "" || at < base || at >= base+uintptr(len(p.s.grammar)) {
		return -1
	}
	return int(at - base)
}

// Of is the token that a string of the tree was read from, or -1.
func (p *Places) Of(s string) int {
	if at := p.within(s); at >= 0 {
		i := sort.Search(len(p.toks), func(i int) bool { return int(p.toks[i].End) > at })
		if i < len(p.toks) && int(p.toks[i].Pos) <= at {
			return i
		}
		return -1
	}
	if len(p.copies) > 0 {
		if i, ok := p.copies[copied{uintptr(unsafe.Pointer(unsafe.StringData(s))), len(s)}]; ok {
			return i
		}
	}
	return p.foreign(s)
}

// foreign is the first unquoted name beyond ASCII that stands for s, or -1: the scanner copies such a name to a place of its own.
func (p *Places) foreign(s string) int {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < utf8.RuneSelf
	}
	for i := 0; !ascii && i < len(p.toks); i++ {
		if t := p.toks[i]; t.Kind == Word && identText(t, p.s.grammar) == s {
			return i
		}
	}
	return -1
}

// Extent are the first and the last token that the strings of a part of the tree were read from; -1: there is none.
func (p *Places) Extent(node any) (first, last int) {
	first, last = -1, -1
	Strings(node, func(s string) {
		i := p.Of(s)
		if i < 0 {
			return
		}
		if first < 0 || i < first {
			first = i
		}
		last = max(last, i)
	})
	return first, last
}

// Text is a token in lower case; empty: it is not in the text.
func (p *Places) Text(i int) string {
	if i < 0 || i >= len(p.toks) {
		return ""
	}
	return strings.ToLower(p.toks[i].Text(p.s.grammar))
}

// Next is the first token from i on that is one of the texts, outside of parentheses that open behind i; -1: there is none.
func (p *Places) Next(i int, texts ...string) int {
	depth := 0
	for ; i >= 0 && i < len(p.toks); i++ {
		text := p.Text(i)
		if depth <= 0 {
			for _, t := range texts {
				if text == t {
					return i
				}
			}
		}
		switch text {
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		}
	}
	return -1
}

// Opening is the parenthesis or bracket around token i; -1: there is none.
func (p *Places) Opening(i int) int {
	depth := 0
	for i--; i >= 0; i-- {
		switch p.Text(i) {
		case ")", "]":
			depth++
		case "(", "[":
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

// Before is the last token before i that is the text, outside of parentheses that close before i; -1: there is none.
func (p *Places) Before(i int, text string) int {
	depth := 0
	for i--; i >= 0; i-- {
		switch t := p.Text(i); {
		case depth <= 0 && t == text:
			return i
		case t == ")" || t == "]":
			depth++
		case t == "(" || t == "[":
			depth--
		}
	}
	return -1
}

// Pos is a token's position in the whole query string, or zero.
func (p *Places) Pos(i int) int {
	if i < 0 || i >= len(p.toks) {
		return 0
	}
	return CharPos(p.s.Source, p.s.sourceOffset(int(p.toks[i].Pos)))
}

// Strings calls f for each string in a part of the library's syntax tree.
func Strings(node any, f func(string)) {
	w := stringWalk{f: f, seen: map[uintptr]bool{}}
	w.value(reflect.ValueOf(node))
}

type stringWalk struct {
	f    func(string)
	seen map[uintptr]bool
}

func (w *stringWalk) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			w.value(v.Elem())
		}
	case reflect.Pointer:
		if v.IsNil() || !ofTree(v.Type().Elem()) || w.seen[v.Pointer()] {
			return
		}
		w.seen[v.Pointer()] = true
		w.value(v.Elem())
	case reflect.Struct:
		if ofTree(v.Type()) {
			for i := range v.NumField() {
				w.value(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			w.value(v.Index(i))
		}
	case reflect.String:
		w.f(v.String())
	}
}

// ofTree reports whether a type is one of the syntax tree's own, and no definition that the library shares among its trees.
func ofTree(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return true
	}
	switch t.Name() {
	case "FunctionDefinition", "ResolvedFunctionDefinition", "Overload":
		return false
	}
	path := t.PkgPath()
	return path == "" || strings.HasSuffix(path, "/sem/tree") || strings.HasPrefix(path, "meridian/")
}
