package sim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestMemFS: random operations leave the files that they leave in Pebble's file system, now, after a crash that loses all that was not synced, and after one
// that loses nothing.
func TestMemFS(t *testing.T) {
	for seed := range uint64(100) {
		dice := rand.New(rand.NewPCG(seed, 1))
		theirs, ours := vfs.NewCrashableMem(), newMemFS()
		both := []vfs.FS{theirs, ours}
		open := map[string][2]vfs.File{}
		names := []string{"a", "b", "d/a", "d/b", "d/e/a"}
		for step := range 60 {
			name, other := names[dice.IntN(len(names))], names[dice.IntN(len(names))]
			op := dice.IntN(12)
			if _, err := theirs.Stat(theirs.PathDir(other)); err != nil && (op == 3 || op == 6) {
				op = 7 // theirs would lose the file
			}
			data := make([]byte, dice.IntN(9000))
			for i := range data {
				data[i] = byte(dice.Uint32())
			}
			at := int64(dice.IntN(12000))
			var errs [2]error
			var files [2]vfs.File
			for i, y := range both {
				f := open[name][i]
				switch {
				case op == 0:
					errs[i] = y.MkdirAll([]string{"d", "d/e"}[at%2], 0o755)
				case op == 1:
					files[i], errs[i] = y.Create(name, "")
				case op == 2:
					files[i], errs[i] = y.OpenReadWrite(name, "")
				case op == 3:
					errs[i] = y.Rename(name, other)
				case op == 4:
					errs[i] = y.Link(name, other)
				case op == 5:
					errs[i] = y.Remove(name)
				case op == 6 && name != other:
					files[i], errs[i] = y.ReuseForWrite(name, other, "")
				case op == 7:
					var dir vfs.File
					if dir, errs[i] = y.OpenDir([]string{"", "d", "d/e"}[at%3]); errs[i] == nil {
						errs[i] = dir.Sync()
					}
				case op == 8 && f != nil:
					_, errs[i] = f.WriteAt(data, at)
				case op == 9 && f != nil:
					errs[i] = f.Sync()
				case f != nil:
					_, errs[i] = f.Write(data)
				}
			}
			if (errs[0] == nil) != (errs[1] == nil) || errors.Is(errs[0], fs.ErrNotExist) != errors.Is(errs[1], fs.ErrNotExist) {
				t.Fatalf("seed %d, step %d, operation %d on %s: %v and %v", seed, step, op, name, errs[0], errs[1])
			}
			if files[0] != nil && errs[0] == nil {
				open[map[bool]string{true: other, false: name}[op == 6]] = files
			}
			for _, percent := range []int{-1, 0, 100} {
				want, got := vfs.FS(theirs), vfs.FS(ours)
				if percent >= 0 {
					want = theirs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: dice})
					got = ours.crash(percent, dice)
				}
				if w, g := contents(t, want, ""), contents(t, got, ""); !reflect.DeepEqual(w, g) {
					t.Fatalf("seed %d, step %d, operation %d on %s: %d %% of the rest: %v, want %v", seed, step, op, name, percent, sizes(g), sizes(w))
				}
			}
		}
	}
}

// contents are the files under a directory; a directory is a file without contents.
func contents(t *testing.T, y vfs.FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := y.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name := y.PathJoin(dir, n)
		info, err := y.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			out[name] = "a directory"
			for k, v := range contents(t, y, name) {
				out[k] = v
			}
			continue
		}
		f, err := y.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err != nil || info.Size() != int64(len(data)) {
			t.Fatalf("%s: %d bytes, %v, want %d", name, len(data), err, info.Size())
		}
		out[name] = string(data)
	}
	return out
}

func sizes(files map[string]string) string {
	out := map[string]int{}
	for k, v := range files {
		out[k] = len(v)
	}
	return fmt.Sprint(out)
}
