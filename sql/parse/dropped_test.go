package parse

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

// dropped finds the words that the parsers of this package consume and forget: a call of accept or acceptAny whose answer nobody looks at, and
// a case that is one and does nothing. They are named by the function and the words.
func dropped(t *testing.T) map[string]bool {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	fset := token.NewFileSet()
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
			if !ok {
				continue
			}
			add := func(e ast.Expr) {
				if words := accepted(e); words != "" {
					out[fn.Name.Name+" "+words] = true
				}
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ExprStmt:
					add(n.X)
				case *ast.CaseClause:
					if len(n.Body) > 0 {
						if b, ok := n.Body[0].(*ast.BranchStmt); !ok || len(n.Body) > 1 || b.Tok != token.CONTINUE {
							break
						}
					}
					for _, e := range n.List {
						add(e)
					}
				case *ast.IfStmt:
					if len(n.Body.List) == 0 {
						add(n.Cond)
					}
				case *ast.AssignStmt: // _, ok := acceptAny(...) forgets which
					if len(n.Lhs) == 2 && len(n.Rhs) == 1 {
						if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "_" {
							add(n.Rhs[0])
						}
					}
				}
				return true
			})
		}
	}
	return out
}

// accepted are the words of a call of accept or acceptAny; empty: it is another expression.
func accepted(e ast.Expr) string {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "accept" && sel.Sel.Name != "acceptAny" {
		return ""
	}
	var words []string
	for _, a := range call.Args {
		if l, ok := a.(*ast.BasicLit); ok {
			w, _ := strconv.Unquote(l.Value)
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// TestDroppedWords: a word that is read and forgotten is accepted and ignored, and testdata/dropped says why it may be.
func TestDroppedWords(t *testing.T) {
	reasons.Check(t, "testdata/dropped.txt", dropped(t), "is read and forgotten")
}
