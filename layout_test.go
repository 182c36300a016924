package meridian_test

import (
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
)

// room is one row of the tables in docs/architecture.md.
type room struct {
	folder string
	layer  int // layer number times 100, plus the letter; -1: beside the stack
	extra  []string
	all    bool // may import everything but cmd
}

var quoted = regexp.MustCompile("`([^`]+)`")

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
		r := room{folder: name[1], layer: -1, all: strings.Contains(may, "all")}
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

// hostOnly are calls that would bypass the host, and with it the simulator.
var hostOnly = regexp.MustCompile(`\b(time\.(Now|Sleep|After|AfterFunc|NewTimer|NewTicker|Tick|Since|Until)|rand\.(Int|IntN|Intn|Int64|Int63|Float64|Uint64|Uint32|Perm|Shuffle|N)|net\.(Dial|DialTimeout|Listen)|os\.(Open|OpenFile|Create|ReadFile|WriteFile|Remove|Mkdir|MkdirAll))\(`)

// TestHost keeps time, dice, disk and network with the host, in every layer below the binary.
func TestHost(t *testing.T) {
	rooms := readLayout(t)
	imports(t, func(file, dir string, _ []string) {
		r := find(rooms, dir)
		if r == nil || r.layer < 0 || r.layer >= 1000 || strings.HasPrefix(dir, "host/machine") {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if m := hostOnly.FindString(code); m != "" {
				t.Errorf("%s:%d: %s goes around the host", file, n+1, m)
			}
		}
	})
}
