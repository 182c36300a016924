// Package reasons compares a test's findings in the code with a list of allowed ones, in which each entry has its reason. So a
// new finding needs a reason, and a list never names one that is gone.
package reasons

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Check reads a list of lines "entry: reason" and comments after #. It fails the test for entries without a reason, for findings that
// are not listed, and for listed entries that were not found. what describes a finding in the message.
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
