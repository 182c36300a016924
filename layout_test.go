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
	"slices"
	"strconv"
	"strings"
	"testing"

	"meridian/test/reasons"
)

// room is one row of the tables in docs/architecture.md.
type room struct {
	folder string
	layer  int // layer number times 100, plus the letter; -1: outside the stack
	extra  []string
	all    bool // may import everything but cmd
	pure   bool // called so, or "words only"
}

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	pureRoom = regexp.MustCompile(`^(pure|words only)[:;]`)
)

func readLayout(t *testing.T) []room {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var rooms []room
	for _, line := range strings.Split(string(page), "\n") {
		cell := strings.Split(line, "|")
		if len(cell) != 6 {
			continue
		}
		rank, name, may := strings.TrimSpace(cell[1]), quoted.FindStringSubmatch(cell[2]), cell[4]
		if name == nil {
			continue
		}
		r := room{folder: name[1], layer: -1, all: strings.Contains(may, "all"),
			pure: pureRoom.MatchString(strings.TrimSpace(cell[3]))}
		if rank != "-" {
			digits := strings.TrimRight(rank, "abcdefghijklmnopqrstuvwxyz")
			n, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatalf("layer %q: %v", rank, err)
			}
			r.layer = n * 100
			if letter := rank[len(digits):]; letter != "" {
				r.layer += int(letter[0]-'a') + 1
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(may, -1) {
			r.extra = append(r.extra, m[1])
		}
		rooms = append(rooms, r)
	}
	if len(rooms) < 30 {
		t.Fatalf("read only %d rooms", len(rooms))
	}
	return rooms
}

// find returns the room with the longest folder that holds dir.
func find(rooms []room, dir string) *room {
	var best *room
	for i := range rooms {
		f := rooms[i].folder
		if (dir == f || strings.HasPrefix(dir, f+"/")) && (best == nil || len(f) > len(best.folder)) {
			best = &rooms[i]
		}
	}
	return best
}

func allowed(from, to *room) bool {
	if from.folder == to.folder {
		return true
	}
	for _, e := range from.extra {
		if e == to.folder || strings.HasPrefix(to.folder, e+"/") {
			return true
		}
	}
	if from.layer < 0 {
		return from.all && !strings.HasPrefix(to.folder, "cmd")
	}
	if from.all {
		return true
	}
	return to.layer >= 0 && to.layer < from.layer
}

// imports calls f for each Go file that is not a test, with its folder and imports.
func imports(t *testing.T, f func(file, dir string, imports []string)) {
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != "." && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var list []string
		for _, i := range file.Imports {
			v, _ := strconv.Unquote(i.Path.Value)
			list = append(list, v)
		}
		f(p, path.Dir(filepath.ToSlash(p)), list)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLayout holds the imports against docs/architecture.md.
func TestLayout(t *testing.T) {
	rooms := readLayout(t)
	imports(t, func(file, dir string, list []string) {
		from := find(rooms, dir)
		if from == nil {
			if dir != "." {
				t.Errorf("%s: folder %s is not in docs/architecture.md", file, dir)
			}
			return
		}
		for _, i := range list {
			target, ours := strings.CutPrefix(i, "meridian/")
			if !ours {
				continue
			}
			to := find(rooms, target)
			if to == nil {
				t.Errorf("%s imports %s, which is not in docs/architecture.md", file, i)
			} else if !allowed(from, to) {
				t.Errorf("%s: %s may not import %s", file, from.folder, to.folder)
			}
		}
	})
}

// soleUsers names libraries that one room alone may see.
var soleUsers = map[string][]string{
	"go.etcd.io/raft/":                          {"replica"},
	"github.com/cockroachdb/cockroachdb-parser": {"sql/parse", "sql/bind"},
	"github.com/cockroachdb/pebble/v2":          {"storage/engine", "host", "sim", "server", "cmd/meridian"},
	"google.golang.org/grpc":                    {"transport"},
	"github.com/beevik/ntp":                     {"clock/truetime"},
}

// TestSoleUsers keeps each library in its room.
func TestSoleUsers(t *testing.T) {
	rooms := readLayout(t)
	imports(t, func(file, dir string, list []string) {
		from := find(rooms, dir)
		if from == nil {
			return
		}
		for _, i := range list {
			for lib, users := range soleUsers {
				if !strings.HasPrefix(i, lib) {
					continue
				}
				ok := false
				for _, u := range users {
					ok = ok || from.folder == u
				}
				if !ok {
					t.Errorf("%s: %s may not import %s", file, from.folder, i)
				}
			}
		}
	})
}

// knowsOnly has rooms that know a few others and nothing else, whatever lies below them.
var knowsOnly = map[string][]string{
	"sql/scalar": {"sql/types", "sql/sqlstate", "sql/memory", "sql/regex"}, // docs/decisions/0002-scalar-room.md
}

// TestKnowsOnly keeps these rooms small.
func TestKnowsOnly(t *testing.T) {
	rooms := readLayout(t)
	imports(t, func(file, dir string, list []string) {
		from := find(rooms, dir)
		if from == nil || knowsOnly[from.folder] == nil {
			return
		}
		for _, i := range list {
			if target, ours := strings.CutPrefix(i, "meridian/"); ours && !slices.Contains(knowsOnly[from.folder], target) {
				t.Errorf("%s: %s may not import %s", file, from.folder, target)
			}
		}
	})
}

// hostOnly are what would go around the host, and with it around the simulator: time, dice, network and disk.
var hostOnly = map[string]string{
	"time":         "Now Sleep After AfterFunc NewTimer NewTicker Tick Since Until",
	"context":      "WithTimeout WithTimeoutCause WithDeadline WithDeadlineCause",
	"math/rand":    "*",
	"math/rand/v2": "Int IntN Int32 Int32N Int64 Int64N Uint Uint32 Uint64 UintN Uint32N Uint64N Float32 Float64 NormFloat64 ExpFloat64 Perm Shuffle N",
	"crypto/rand":  "*",
	"net":          "Dial DialTimeout DialTCP DialUDP DialUnix Dialer Listen ListenTCP ListenUDP ListenPacket ListenConfig Resolver LookupHost LookupAddr LookupIP",
	"os":           "Open OpenFile Create CreateTemp ReadFile WriteFile ReadDir Remove RemoveAll Rename Mkdir MkdirAll MkdirTemp Stat Lstat Truncate Link Symlink Hostname",
}

// TestHost keeps time, dice, disk and network with the host, in every layer below the binary.
func TestHost(t *testing.T) {
	rooms := readLayout(t)
	sources(t, func(file, dir string, names []used) {
		r := find(rooms, dir)
		if r == nil || r.layer < 0 || r.layer >= 1000 || strings.HasPrefix(dir, "host/machine") {
			return
		}
		for _, u := range names {
			list := hostOnly[u.path]
			if list == "*" || slices.Contains(strings.Fields(list), u.name) {
				t.Errorf("%s: %s.%s goes around the host", file, u.path, u.name)
			}
		}
	})
}

// outside are packages of the standard library that no pure room may see, with those below them.
var outside = []string{"crypto/rand", "log", "math/rand", "net", "os", "runtime", "syscall"}

// TestPure keeps the rooms that docs/architecture.md calls pure so: what they compute depends on nothing but what they are given. They
// import each other. The names that they use of other rooms are listed name by name, and the reason says why that is no more than a value.
func TestPure(t *testing.T) {
	rooms := readLayout(t)
	found := map[string]bool{}
	n := 0
	for _, r := range rooms {
		if r.pure {
			n++
		}
	}
	if n < 9 {
		t.Fatalf("only %d rooms are called pure", n)
	}
	sources(t, func(file, dir string, names []used) {
		from := find(rooms, dir)
		if from == nil || !from.pure || strings.HasSuffix(dir, "test") { // a fixture is not the room
			return
		}
		for _, u := range names {
			if target, ours := strings.CutPrefix(u.path, "meridian/"); ours {
				if to := find(rooms, target); to == nil || !to.pure {
					found[dir+" "+target+"."+u.name] = true
				}
				continue
			}
			for _, o := range outside {
				if u.path != "net/netip" && (u.path == o || strings.HasPrefix(u.path, o+"/")) {
					found[dir+" "+u.path+"."+u.name] = true
				}
			}
		}
	})
	reasons.Check(t, "testdata/pure.txt", found, "is not pure")
}

// used is a name of another package that a file uses.
type used struct{ path, name string }

// sources calls f for each Go file that is not a test, with its folder and what it uses of other packages. An import without a name, or one
// of which all names are taken (import .), is the name _ of its package.
func sources(t *testing.T, f func(file, dir string, names []used)) {
	imports(t, func(p, dir string, _ []string) {
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		var names []used
		paths := map[string]string{}
		for _, i := range file.Imports {
			v, _ := strconv.Unquote(i.Path.Value)
			name := path.Base(v)
			if version.MatchString(name) {
				name = path.Base(path.Dir(v))
			}
			if i.Name != nil {
				name = i.Name.Name
			}
			if name == "_" || name == "." {
				names = append(names, used{v, "_"})
				continue
			}
			paths[name] = v
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil && paths[x.Name] != "" {
					names = append(names, used{paths[x.Name], s.Sel.Name})
				}
			}
			return true
		})
		f(p, dir, names)
	})
}

var version = regexp.MustCompile(`^v[0-9]+$`)

// watchers of the clocks' maximum offset: they look whether it holds, or show it.
var watchers = []string{"clock", "cluster", "server"}

// TestIntervals: what computes with time asks the clock for an interval, and adds no constant by hand.
func TestIntervals(t *testing.T) {
	rooms := readLayout(t)
	imports(t, func(p, dir string, _ []string) {
		if r := find(rooms, dir); r == nil || r.layer < 0 || r.layer >= 1000 || slices.Contains(watchers, dir) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 0 {
				if s, ok := c.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "MaxOffset" {
					t.Errorf("%s: computes with the maximum offset instead of an interval", p)
				}
			}
			return true
		})
	})
}
