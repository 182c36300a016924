// Command house measures how the tree is built: sizes, long functions, wide types, files that need each other in a circle, lines that stand twice, and places outside
// a commit protocol's own rooms that name one. It prints a table, and with -v the worst places of each row.
//
//	go run ./test/house [-v] [directory]
//
// An arrow leads from a file to another one of its package that declares what it uses. The files of a package are put in an order in which as few arrows as a simple
// search can find lead upwards; these are counted. Arrows are found by names, without types: a few are missing or wrong.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	longFunction = 100 // lines
	wideType     = 60  // methods
	wideStruct   = 40  // fields
	sameLines    = 12
)

// file is a Go file that is neither a test nor generated.
type file struct {
	path, pkg string // pkg is the folder
	lines     []string
	ast       *ast.File
}

// house is what was read.
type house struct {
	fset      *token.FileSet
	files     []*file
	testLines int
}

// count is one row of the table.
type count struct {
	name  string
	n     int
	of    int // 0: it has no total
	worst []string
}

func main() {
	verbose := flag.Bool("v", false, "name the worst places")
	flag.Parse()
	dir := "."
	if flag.NArg() > 0 {
		dir = flag.Arg(0)
	}
	h, err := read(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		os.Exit(1)
	}
	for _, c := range []count{h.size(), h.tests(), h.largest(), h.long(), h.methods(), h.fields(), h.climbing(), h.twice(), h.naming()} {
		value := fmt.Sprint(c.n)
		if c.of > 0 {
			value = fmt.Sprintf("%d of %d", c.n, c.of)
		}
		fmt.Printf("%-64s %s\n", c.name, value)
		if *verbose {
			for _, w := range c.worst[:min(len(c.worst), 20)] {
				fmt.Println("    " + w)
			}
		}
	}
}

func read(dir string) (*house, error) {
	h := &house{fset: token.NewFileSet()}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); path != dir && (strings.HasPrefix(n, ".") || n == "testdata" || n == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, "_test.go") {
			h.testLines += len(lines)
			return nil
		}
		parsed, err := parser.ParseFile(h.fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(parsed) {
			h.files = append(h.files, &file{path: filepath.ToSlash(rel), pkg: filepath.ToSlash(filepath.Dir(rel)), lines: lines, ast: parsed})
		}
		return nil
	})
	return h, err
}

func (h *house) packages() map[string][]*file {
	all := map[string][]*file{}
	for _, f := range h.files {
		all[f.pkg] = append(all[f.pkg], f)
	}
	return all
}

// line is that of a position.
func (h *house) line(p token.Pos) int { return h.fset.Position(p).Line }

// ranked sorts places by size, the largest first.
func ranked(sizes map[string]int, above int) (worst []string) {
	var names []string
	for n, size := range sizes {
		if size > above {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := sizes[b] - sizes[a]; c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, n := range names {
		worst = append(worst, fmt.Sprintf("%6d  %s", sizes[n], n))
	}
	return worst
}

func (h *house) size() count {
	n := 0
	for _, f := range h.files {
		n += len(f.lines)
	}
	return count{name: "lines of code", n: n}
}

func (h *house) tests() count { return count{name: "lines of tests", n: h.testLines} }

func (h *house) largest() count {
	sizes := map[string]int{}
	for _, f := range h.files {
		sizes[f.pkg] += len(f.lines)
	}
	worst := ranked(sizes, 6000)
	return count{name: "packages of more than 6,000 lines", n: len(worst), of: len(sizes), worst: worst}
}

func (h *house) long() count {
	sizes, all := map[string]int{}, 0
	for f, fn := range h.functions() {
		all++
		sizes[fmt.Sprintf("%s  %s:%d", fn.Name.Name, f.path, h.line(fn.Pos()))] = h.length(fn)
	}
	worst := ranked(sizes, longFunction)
	return count{name: fmt.Sprintf("functions of more than %d lines", longFunction), n: len(worst), of: all, worst: worst}
}

// functions are those with a body, and the file of each.
func (h *house) functions() iter.Seq2[*file, *ast.FuncDecl] {
	return func(yield func(*file, *ast.FuncDecl) bool) {
		for _, f := range h.files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && !yield(f, fn) {
					return
				}
			}
		}
	}
}

// length is the number of lines of a function.
func (h *house) length(fn *ast.FuncDecl) int { return h.line(fn.End()) - h.line(fn.Pos()) + 1 }

// receiver is the type of a method.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func (h *house) methods() count {
	sizes := map[string]int{}
	for _, f := range h.files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if r := receiver(fn); r != "" {
					sizes[f.pkg+"."+r]++
				}
			}
		}
	}
	worst := ranked(sizes, wideType)
	return count{name: fmt.Sprintf("types of more than %d methods", wideType), n: len(worst), of: len(sizes), worst: worst}
}

func (h *house) fields() count {
	sizes := map[string]int{}
	for _, f := range h.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if t, ok := s.Type.(*ast.StructType); ok {
					for _, field := range t.Fields.List {
						sizes[f.pkg+"."+s.Name.Name] += max(len(field.Names), 1)
					}
				}
			}
			return true
		})
	}
	worst := ranked(sizes, wideStruct)
	return count{name: fmt.Sprintf("structs of more than %d fields", wideStruct), n: len(worst), of: len(sizes), worst: worst}
}

// arrows are those between the files of a package.
func arrows(files []*file) map[[2]int]bool {
	where := map[string]int{}   // of functions, types, variables and constants
	methods := map[string]int{} // -1: several types have it
	for i, f := range files {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					where[d.Name.Name] = i
				} else if at, ok := methods[d.Name.Name]; ok && at != i {
					methods[d.Name.Name] = -1
				} else {
					methods[d.Name.Name] = i
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						where[s.Name.Name] = i
					case *ast.ValueSpec:
						for _, n := range s.Names {
							where[n.Name] = i
						}
					}
				}
			}
		}
	}
	found := map[[2]int]bool{}
	for i, f := range files {
		to := func(j int, ok bool) {
			if ok && j >= 0 && j != i {
				found[[2]int{i, j}] = true
			}
		}
		imported := map[string]bool{}
		for _, im := range f.ast.Imports {
			name := strings.Trim(im.Path.Value, `"`)
			if name = name[strings.LastIndexByte(name, '/')+1:]; im.Name != nil {
				name = im.Name.Name
			}
			imported[name] = true
		}
		for _, id := range f.ast.Unresolved {
			j, ok := where[id.Name]
			to(j, ok && !imported[id.Name])
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); !ok || !imported[x.Name] {
					j, ok := methods[sel.Sel.Name]
					to(j, ok)
				}
			}
			return true
		})
	}
	return found
}

// climbs counts the arrows that lead upwards in an order that the search of Eades, Lin and Smyth finds: files that nothing uses come first, those that use nothing last,
// and in a circle the one with the most arrows out of it for each one into it.
func climbs(n int, all map[[2]int]bool) int {
	out, in := make([]map[int]bool, n), make([]map[int]bool, n)
	for i := range n {
		out[i], in[i] = map[int]bool{}, map[int]bool{}
	}
	for a := range all {
		out[a[0]][a[1]], in[a[1]][a[0]] = true, true
	}
	place, gone := make([]int, n), make([]bool, n)
	first, last := 0, n-1
	remove := func(i int) {
		gone[i] = true
		for j := range out[i] {
			delete(in[j], i)
		}
		for j := range in[i] {
			delete(out[j], i)
		}
	}
	for first <= last {
		best, sink := -1, false
		for i := range n {
			switch {
			case gone[i]:
			case len(out[i]) == 0:
				best, sink = i, true
			case !sink && (best < 0 || len(out[i])-len(in[i]) > len(out[best])-len(in[best])):
				best = i
			}
			if sink {
				break
			}
		}
		if sink {
			place[best] = last
			last--
		} else {
			place[best] = first
			first++
		}
		remove(best)
	}
	up := 0
	for a := range all {
		if place[a[0]] > place[a[1]] {
			up++
		}
	}
	return up
}

func (h *house) climbing() count {
	c := count{name: "arrows that climb within a package"}
	sizes := map[string]int{}
	for pkg, files := range h.packages() {
		all := arrows(files)
		up := climbs(len(files), all)
		c.n += up
		c.of += len(all)
		if up > 0 {
			sizes[fmt.Sprintf("of %d  %s", len(all), pkg)] = up
		}
	}
	c.worst = ranked(sizes, 0)
	return c
}

// twice counts the places where lines begin that stand somewhere else too.
func (h *house) twice() count {
	type at struct{ f, line int }
	seen := map[string][]at{}
	texts := make([][]string, len(h.files))
	numbers := make([][]int, len(h.files))
	for i, f := range h.files {
		for n, l := range f.lines {
			if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "//") {
				texts[i], numbers[i] = append(texts[i], l), append(numbers[i], n+1)
			}
		}
		for n := 0; n+sameLines <= len(texts[i]); n++ {
			w := strings.Join(texts[i][n:n+sameLines], "\n")
			seen[w] = append(seen[w], at{i, n})
		}
	}
	c := count{name: fmt.Sprintf("pairs of places that share %d lines", sameLines)}
	last := map[[2]int]int{} // of a pair of files: the line up to which they are counted
	for i := range h.files {
		for n := 0; n+sameLines <= len(texts[i]); n++ {
			for _, o := range seen[strings.Join(texts[i][n:n+sameLines], "\n")] {
				if o.f < i || o.f == i && o.line <= n || strings.HasPrefix(texts[i][n], "import") || strings.HasPrefix(texts[i][n], "\"") {
					continue
				}
				if k := [2]int{i, o.f}; last[k] <= n {
					last[k] = n + sameLines
					c.n++
					c.worst = append(c.worst, fmt.Sprintf("%s:%d  %s:%d", h.files[i].path, numbers[i][n], h.files[o.f].path, numbers[o.f][o.line]))
				}
			}
		}
	}
	return c
}

// named are files that may name protocols: the numbers, the features of versions, the registry of a node's instances, and a client's options.
var named = []string{"kv/txn.go", "version/features.go", "server/protocol.go", "server/fastpaxos.go", "workload/anomalies/anomalies.go"}

// naming counts the lines that name a commit protocol, or compare one with a number, outside of the protocols' own rooms.
func (h *house) naming() count {
	c := count{name: "lines that name a commit protocol outside of its rooms"}
	sizes := map[string]int{}
	for _, f := range h.files {
		if strings.HasPrefix(f.path, "commit/") || strings.HasPrefix(f.path, "test/") || strings.HasPrefix(f.path, "bench/") || strings.HasPrefix(f.path, "sim/") || slices.Contains(named, f.path) {
			continue
		}
		lines := map[int]bool{}
		mark := func(n ast.Node) { lines[h.line(n.Pos())] = true }
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && x.Name == "kv" && slices.Contains([]string{"Leader", "FastPaxos", "Epoch", "FirstForeign"}, n.Sel.Name) {
					mark(n)
				}
			case *ast.BinaryExpr:
				if n.Op != token.EQL && n.Op != token.NEQ {
					break
				}
				for _, sides := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
					s, ok := sides[0].(*ast.SelectorExpr)
					if number, literal := sides[1].(*ast.BasicLit); ok && literal && number.Kind == token.INT && s.Sel.Name == "Protocol" {
						mark(n) // two ranges may be compared with each other
					}
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.Contains(n.Value, "fast_paxos") {
					mark(n)
				}
			}
			return true
		})
		c.n += len(lines)
		if len(lines) > 0 {
			sizes[f.path] = len(lines)
		}
	}
	c.worst = ranked(sizes, 0)
	return c
}
