package bind

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

const grammarPath = "github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

// readings are what the code of this package, of package parse and of package session reads of the grammar library's tree.
type readings struct {
	tree   *types.Package
	parse  *types.Package
	fields map[*types.Var]bool
	named  map[*types.TypeName]bool
}

// readCode type-checks the packages' code, without tests, against the compiled form of what they import.
func readCode(t *testing.T, dirs ...string) *readings {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "meridian/sql/session")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, file, _ := strings.Cut(line, "\t")
		exports[path] = file
	}
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	r := &readings{fields: map[*types.Var]bool{}, named: map[*types.TypeName]bool{}}
	if r.tree, err = imp.Import(grammarPath); err != nil {
		t.Fatal(err)
	}
	if r.parse, err = imp.Import("meridian/sql/parse"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
		if _, err := (&types.Config{Importer: imp}).Check("meridian/sql/"+filepath.Base(dir), fset, files, info); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if s := info.Selections[n]; s != nil && s.Kind() == types.FieldVal {
						r.fields[s.Obj().(*types.Var)] = true
					}
				case *ast.Ident:
					if o, ok := info.Uses[n].(*types.TypeName); ok && o.Pkg() == r.tree {
						r.named[o] = true
					}
				}
				return true
			})
		}
	}
	return r
}

// unread lists the types of the grammar's statements, and the fields of those types that are known, which no code reads.
func (r *readings) unread() []string {
	scope := r.tree.Scope()
	var all []*types.TypeName
	for _, name := range scope.Names() {
		if o, ok := scope.Lookup(name).(*types.TypeName); ok && o.Exported() && !o.IsAlias() {
			all = append(all, o)
		}
	}
	implements := func(o *types.TypeName, i *types.Interface) bool {
		if _, ok := o.Type().Underlying().(*types.Interface); ok {
			return false
		}
		return types.Implements(o.Type(), i) || types.Implements(types.NewPointer(o.Type()), i)
	}
	statement := scope.Lookup("Statement").Type().Underlying().(*types.Interface)
	datum := scope.Lookup("Datum").Type().Underlying().(*types.Interface)
	seen := map[*types.TypeName]bool{}
	var missing []string
	var visit func(t types.Type)
	visit = func(t types.Type) {
		switch t := t.(type) {
		case *types.Pointer:
			visit(t.Elem())
		case *types.Slice:
			visit(t.Elem())
		case *types.Array:
			visit(t.Elem())
		case *types.Alias:
			visit(types.Unalias(t))
		case *types.Named:
			o := t.Obj()
			if o.Pkg() != r.tree || seen[o] {
				return
			}
			seen[o] = true
			if !r.named[o] && (implements(o, statement) || implements(o, datum)) {
				return // a statement is refused, whatever is in it; constants are made by the library's executor, not by its grammar
			}
			switch u := t.Underlying().(type) {
			case *types.Interface:
				for _, c := range all {
					if implements(c, u) {
						visit(c.Type())
					}
				}
			case *types.Struct:
				if !r.named[o] && !r.anyField(u) {
					missing = append(missing, o.Name())
					return
				}
				for i := range u.NumFields() {
					f := u.Field(i)
					if !f.Exported() && !f.Embedded() {
						continue
					}
					if !r.fields[f] && !f.Embedded() {
						missing = append(missing, o.Name()+"."+f.Name())
						continue
					}
					visit(f.Type())
				}
			case *types.Slice:
				visit(u)
			}
		}
	}
	visit(scope.Lookup("Statement").Type())
	sort.Strings(missing)
	return missing
}

// unreadCommands lists the fields of package parse's commands that no code outside of it reads.
func (r *readings) unreadCommands() (missing []string) {
	scope := r.parse.Scope()
	for _, name := range scope.Names() {
		o, ok := scope.Lookup(name).(*types.TypeName)
		if !ok || !o.Exported() || o.IsAlias() {
			continue
		}
		s, ok := o.Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for i := range s.NumFields() {
			if f := s.Field(i); f.Exported() && !f.Embedded() && !r.fields[f] {
				missing = append(missing, o.Name()+"."+f.Name())
			}
		}
	}
	return missing
}

func (r *readings) anyField(s *types.Struct) bool {
	for i := range s.NumFields() {
		if r.fields[s.Field(i)] {
			return true
		}
	}
	return false
}

// TestClauses goes through all that the grammar library can read: statements, their clauses, and what may stand in these. A clause that no code
// reads is accepted and ignored, so testdata/clauses has to say of it why that is right:
//
//	refused SQL    the statement is refused, with 0A000 or as a syntax error: seen here
//	ignored WHY    it may stand there, and means nothing
//	unset WHY      no text makes the grammar set it
//
// A new version of the library, or a reader that is gone, fails here. Statements whose type no code names are refused by the last line of
// definition.
func TestClauses(t *testing.T) {
	verdicts := map[string]string{}
	data, err := os.ReadFile("testdata/clauses")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, verdict, _ := strings.Cut(line, " ")
		if verdicts[name] != "" {
			t.Errorf("%s is listed twice", name)
		}
		verdicts[name] = verdict
	}
	for _, name := range readCode(t, "../parse", "../bind").unread() {
		verdict := verdicts[name]
		delete(verdicts, name)
		switch word, rest, _ := strings.Cut(verdict, " "); word {
		case "ignored", "unset":
			if rest == "" {
				t.Errorf("%s: why?", name)
			}
		case "refused":
			refusedStatement(t, name, rest)
		default:
			t.Errorf("no code reads %s, and testdata/clauses does not say why", name)
		}
	}
	dirs := []string{"../bind", "../session", "../schemachange"}
	rooms, err := filepath.Glob("../session/*/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range rooms {
		if dir := filepath.Dir(doc); filepath.Base(dir) != "sessiontest" { // which is no code of the product
			dirs = append(dirs, dir)
		}
	}
	for _, name := range readCode(t, dirs...).unreadCommands() {
		if verdict := verdicts[name]; !strings.HasPrefix(verdict, "ignored ") && !strings.HasPrefix(verdict, "unset ") {
			t.Errorf("no code reads parse.%s, and testdata/clauses does not say why", name)
		}
		delete(verdicts, name)
	}
	for name := range verdicts {
		t.Errorf("testdata/clauses lists %s, which is read now, or is gone", name)
	}
	// All the statements that are not known are refused in one place.
	refusedStatement(t, "a statement", "SHOW TRACE FOR SESSION")
	refusedStatement(t, "a statement", "ALTER INDEX t@x NOT VISIBLE")
}

// refusedStatement wants the last statement of a text to be refused.
func refusedStatement(t *testing.T, name, sql string) {
	t.Helper()
	v, b := fuzzFixture(t)
	stmts, err := parse.Parse(sql)
	for i := 0; err == nil && i < len(stmts); i++ {
		var s Statement
		if s, err = b.Bind(t.Context(), &stmts[i]); err == nil {
			v.apply(s)
		}
	}
	e, _ := err.(*sqlstate.Error)
	if e == nil {
		t.Errorf("%s: %s is not refused: %v", name, sql, err)
		return
	}
	switch e.Code {
	case sqlstate.FeatureNotSupported, sqlstate.SyntaxError, sqlstate.WrongObjectType, sqlstate.UndefinedColumn, sqlstate.UndefinedFunction:
	default:
		t.Errorf("%s: %s is refused for another reason: %v", name, sql, err)
	}
}
