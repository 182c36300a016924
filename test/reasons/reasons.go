// Package reasons compares what a test finds in the code with a list of what may be there, in which each entry has its reason. So
// whoever adds such a thing has to say why, and a list never names what is gone.
package reasons

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Check reads a list, of lines "entry: reason" and comments after #, and fails the test for entries without a reason, for what was found
// and is not listed, and for what is listed and was not found. what says what a found thing does.
func Check(t *testing.T, file string, found map[string]bool, what string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		entry, why, _ := strings.Cut(line, ": ")
		if why == "" {
			t.Errorf("%s: why?", entry)
		}
		listed[entry] = true
		if !found[entry] {
			t.Errorf("%s lists %s, which is not so any more", file, entry)
		}
	}
	for _, entry := range slices.Sorted(maps.Keys(found)) {
		if !listed[entry] {
			t.Errorf("%s %s, and %s does not say why", entry, what, file)
		}
	}
}
