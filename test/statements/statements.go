// Package statements makes random statements, and random changes of given ones, for tests of the parser, the binder and the session.
//
// A statement is expanded from a grammar (grammar.go) of PostgreSQL's forms over a few tables, which Schema makes. Its types fit
// by chance: the test asks for no particular answer, but for one that is no internal error, or for the same tree by two ways.
package statements

import (
	"math/rand/v2"
	"strings"
)

// Generator makes statements from dice.
type Generator struct {
	r       *rand.Rand
	grammar map[string][]string
}

// New makes a generator.
func New(r *rand.Rand) *Generator { return &Generator{r, grammar()} }

// depthMax bounds the nesting of a statement: below it, the first form of each rule is taken, which ends soon.
const depthMax = 7

// Statement is a random statement.
func (g *Generator) Statement() string { return g.Make("statement") }

// Make is a random text for a rule of the grammar.
func (g *Generator) Make(rule string) string {
	var b strings.Builder
	g.expand(&b, rule, 0)
	return b.String()
}

func (g *Generator) expand(b *strings.Builder, rule string, depth int) {
	forms := g.grammar[rule]
	form := forms[0]
	if depth < depthMax {
		form = forms[g.r.IntN(len(forms))]
	}
	for {
		before, rest, found := strings.Cut(form, "{")
		b.WriteString(before)
		if !found {
			return
		}
		name, after, _ := strings.Cut(rest, "}")
		if form = after; g.grammar[name] == nil { // a constant such as '{1,2}'
			b.WriteString("{" + name + "}")
			continue
		}
		g.expand(b, name, depth+1)
	}
}

// Change changes a text at random: it removes, repeats, exchanges or inserts a few words.
func (g *Generator) Change(text string) string {
	words := strings.Fields(text)
	for n := 1 + g.r.IntN(3); n > 0 && len(words) > 1; n-- {
		i, j := g.r.IntN(len(words)), g.r.IntN(len(words))
		switch g.r.IntN(5) {
		case 0:
			words = append(words[:i:i], words[i+1:]...)
		case 1:
			words[i] = words[j]
		case 2:
			words[i], words[j] = words[j], words[i]
		case 3:
			words[i] += " " + g.Make("word")
		case 4:
			words[i] = g.Make("expr")
		}
	}
	return strings.Join(words, " ")
}
