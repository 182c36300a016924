package parse

import "strings"

// NamedArgument is the name of the function as whose call a named argument is written: its arguments are the name and the value. No client can call
// it, because the functions that a client names are looked up.
const NamedArgument = "named argument"

// namedArguments are the edits for named arguments, which the grammar does not accept: f(a => 1) becomes
// f("named argument"('a', 1)).
type namedArguments struct {
	open  map[int]string // by the name's token
	close map[int]int    // the number of named arguments that end before a token
}

// notCalls are words that, before a parenthesis, are not the call of a function with named arguments.
var notCalls = []string{"in", "values", "row", "coalesce", "greatest", "least", "nullif", "any", "all", "some", "array", "exists", "using", "on",
	"and", "or", "not", "select", "where", "extract", "overlay", "position", "trim", "cast", "as", "over", "filter", "by", "with"}

func findNamed(src string, toks []Token) (n namedArguments) {
	type paren struct {
		call bool
		open int // named arguments that have not ended
	}
	var stack []paren
	named := func(i int) bool {
		if i+1 >= len(toks) || toks[i].Kind != Word && toks[i].Kind != Quoted || !(isPunct(toks[i-1], src, "(") || isPunct(toks[i-1], src, ",")) {
			return false
		}
		next := toks[i+1].Text(src)
		return next == "=>" && toks[i+1].Kind == Op || next == ":="
	}
	end := func(i int) {
		if top := &stack[len(stack)-1]; top.open > 0 {
			n.close[i] += top.open
			top.open = 0
		}
	}
	for i := range toks {
		switch {
		case isPunct(toks[i], src, "(") || isPunct(toks[i], src, "["):
			call := i > 0 && toks[i].Text(src) == "(" && (toks[i-1].Kind == Quoted || toks[i-1].Kind == Word)
			for _, w := range notCalls {
				call = call && !isWord(toks[i-1], src, w)
			}
			stack = append(stack, paren{call: call})
		case len(stack) == 0:
		case isPunct(toks[i], src, ","):
			end(i)
		case isPunct(toks[i], src, ")") || isPunct(toks[i], src, "]"):
			end(i)
			stack = stack[:len(stack)-1]
		case stack[len(stack)-1].call && named(i):
			if n.open == nil {
				n.open, n.close = map[int]string{}, map[int]int{}
			}
			n.open[i] = `"` + NamedArgument + `"(` + "'" + strings.ReplaceAll(identText(toks[i], src), "'", "''") + "', "
			stack[len(stack)-1].open++
		}
	}
	return n
}
