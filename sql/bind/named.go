package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// namedArgument decodes the form in which package parse writes a => 1.
func namedArgument(e tree.Expr) (name string, value tree.Expr, ok bool) {
	f, is := e.(*tree.FuncExpr)
	if !is || len(f.Exprs) != 2 || functionName(f) != parse.NamedArgument {
		return "", nil, false
	}
	s, is := f.Exprs[0].(*tree.StrVal)
	if !is {
		return "", nil, false
	}
	return s.RawString(), f.Exprs[1], true
}

// arrange puts the named arguments of a call in the function's order, with the defaults of missing ones, and writes them into the call, from which
// the text of a view is made.
func (b *builder) arrange(c *exprContext, n *tree.FuncExpr) {
	first := -1
	for i, e := range n.Exprs {
		if _, _, named := namedArgument(e); named && first < 0 {
			first = i
		} else if first >= 0 && !named {
			b.fail(sqlstate.SyntaxError, e, "positional argument cannot follow named argument")
		}
	}
	if first < 0 {
		return
	}
	values := map[string]tree.Expr{}
	for _, e := range n.Exprs[first:] {
		name, value, _ := namedArgument(e)
		if _, again := values[name]; again {
			b.fail(sqlstate.SyntaxError, e, "argument name \"%s\" used more than once", name)
		}
		values[name] = value
	}
	for _, p := range scalar.ParametersOf(functionName(n)) {
		if out := arranged(p, n.Exprs[:first], values); out != nil {
			n.Exprs = out
			return
		}
	}
	var s strings.Builder
	for i, e := range n.Exprs {
		if i > 0 {
			s.WriteString(", ")
		}
		if name, value, named := namedArgument(e); named {
			s.WriteString(name + " => ")
			e = value
		}
		inner := *c
		inner.sets = false
		s.WriteString(b.expr(&inner, e).Type().Name())
	}
	raise(b.at(sqlstate.New(sqlstate.UndefinedFunction, "function %s(%s) does not exist", calledName(n), s.String()).
		WithHint("No function matches the given name and argument types. You might need to add explicit type casts."), n))
}

// calledName is a function's name as it was written.
func calledName(n *tree.FuncExpr) string {
	if s := functionSchema(n); s != "" {
		return s + "." + functionName(n)
	}
	return functionName(n)
}

// arranged returns the arguments in the function's order; nil if they do not match its parameters.
func arranged(p scalar.Parameters, positional tree.Exprs, named map[string]tree.Expr) tree.Exprs {
	if len(positional) > len(p.Names) {
		return nil
	}
	out := append(make(tree.Exprs, 0, len(p.Names)), positional...)
	used, required, given := 0, len(p.Names)-len(p.Defaults), len(positional)
	for i := len(positional); i < len(p.Names); i++ {
		if e, ok := named[p.Names[i]]; ok {
			out = append(out, e)
			used++
			given = len(out)
		} else if i < required {
			return nil
		} else if text := p.Defaults[i-required]; strings.HasPrefix(text, "'") {
			out = append(out, tree.NewStrVal(strings.Trim(text, "'")))
		} else {
			e, _, err := parse.ParseExpr(text)
			if err != nil {
				return nil
			}
			out = append(out, e)
		}
	}
	if used != len(named) {
		return nil
	}
	return out[:given] // the registry has the shorter forms too
}
