package parameter

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSettingsAreWhole: the list is sorted, each default is a value that its setting accepts and shows as it is, and the operator's
// page names each setting, those without effect as such.
func TestSettingsAreWhole(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operate/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	inForce, without, ok := strings.Cut(string(page), "## Without effect")
	if !ok {
		t.Fatal("the page has no list of settings without effect")
	}
	if !slices.IsSortedFunc(All, func(a, b Definition) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the settings are not sorted")
	}
	for i := range All {
		d := &All[i]
		if v, err := d.Accept(d.Default); err != nil || v != d.Default {
			t.Errorf("%s: the default %q is %q (%v)", d.Name, d.Default, v, err)
		}
		part := inForce
		if d.About == noEffect {
			part = without
		}
		if !strings.Contains(part, "`"+DisplayName(d.Name)+"`") {
			t.Errorf("docs/operate/settings.md does not name %s where it should", DisplayName(d.Name))
		}
		if d.Domain != nil && (d.Domain.Type == "enum") != (d.Domain.Enum != nil) {
			t.Errorf("%s: an enumeration has values, and nothing else has", d.Name)
		}
	}
}
