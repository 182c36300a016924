package meridian_test

import (
	"slices"
	"strings"
	"testing"
)

// TestBinary: of the packages outside of the stack, the binary links what its commands need, and no fixture.
func TestBinary(t *testing.T) {
	rooms := readLayout(t)
	of := map[string][]string{}
	imports(t, func(_, dir string, list []string) { of[dir] = append(of[dir], list...) })
	linked := map[string]bool{}
	var follow func(dir string)
	follow = func(dir string) {
		if linked[dir] {
			return
		}
		linked[dir] = true
		for _, i := range of[dir] {
			if target, ours := strings.CutPrefix(i, "meridian/"); ours {
				follow(target)
			}
		}
	}
	follow("cmd/meridian")
	if !linked["txn"] || !linked["rangeserver"] {
		t.Fatal("the binary has no transactions or no ranges: imports are not followed")
	}
	var beside []string
	for dir := range linked {
		if r := find(rooms, dir); r != nil && r.layer < 0 && !slices.Contains(beside, r.folder) {
			beside = append(beside, r.folder)
		}
	}
	slices.Sort(beside)
	if want := []string{"console", "history", "sim", "workload"}; !slices.Equal(beside, want) {
		t.Errorf("the binary links %q from beside the stack, want %q", beside, want)
	}
}
