package scalar

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"meridian/test/reasons"
)

// constantFunctions finds the functions whose implementation uses neither its arguments nor its context. Their names are those in the code, which
// for functions that a loop adds are a part of the whole names.
func constantFunctions(t *testing.T) map[string]bool {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.go", "system/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		names = append(names, found...)
	}
	fset := token.NewFileSet()
	out := map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			blind := map[string]bool{"null": true} // local functions that use nothing, and package system's null
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for i, r := range n.Rhs {
						if l, ok := r.(*ast.FuncLit); ok && looksAtNothing(l) && i < len(n.Lhs) {
							if id, ok := n.Lhs[i].(*ast.Ident); ok {
								blind[id.Name] = true
							}
						}
					}
				case *ast.CallExpr:
					if len(n.Args) < 2 {
						break
					}
					what := "constant"
					switch f := n.Fun.(type) {
					case *ast.SelectorExpr:
						what = f.Sel.Name
					case *ast.Ident:
						what = f.Name
					}
					last := n.Args[len(n.Args)-1]
					l, isLit := last.(*ast.FuncLit)
					id, isName := last.(*ast.Ident)
					switch what {
					case "Func", "Func1", "Func2", "SetFunc", "text0":
						if isLit && looksAtNothing(l) || isName && blind[id.Name] {
							out[sigOf(n.Args[0])] = true
						}
					case "constant":
						out[sigOf(n.Args[0])] = true
					}
				}
				return true
			})
		}
	}
	for _, helper := range []string{"sig", "ctx", "nil"} { // calls of other functions of these names
		delete(out, helper)
	}
	return out
}

// looksAtNothing reports whether a function with a result uses none of its parameters.
func looksAtNothing(l *ast.FuncLit) bool {
	if l.Type.Results == nil {
		return false
	}
	used := false
	params := map[string]bool{}
	for _, f := range l.Type.Params.List {
		for _, n := range f.Names {
			params[n.Name] = n.Name != "_"
		}
	}
	ast.Inspect(l.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && params[id.Name] {
			used = true
		}
		return true
	})
	return !used && len(l.Type.Params.List) > 0
}

// sigOf is the signature's text, or the expression that makes it.
func sigOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		return sigOf(e.X) + "+" + sigOf(e.Y)
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return sigOf(e.X) + "." + e.Sel.Name
	}
	return "?"
}

// TestConstantFunctions: a function that always gives the same result is listed in testdata/constants.txt, with the reason.
func TestConstantFunctions(t *testing.T) {
	reasons.Check(t, "testdata/constants.txt", constantFunctions(t), "answers a constant")
}
