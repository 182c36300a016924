package session

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSettingsAreWhole: the list is sorted, each default is a value that its setting accepts and shows as it is, and the operator's
// page names each setting, those without effect as such.
func TestSettingsAreWhole(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	inForce, without, ok := strings.Cut(string(page), "## Without effect")
	if !ok {
		t.Fatal("the page has no list of settings without effect")
	}
	if !slices.IsSortedFunc(settings, func(a, b setting) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the settings are not sorted")
	}
	for i := range settings {
		d := &settings[i]
		if v, err := d.accept(d.def); err != nil || v != d.def {
			t.Errorf("%s: the default %q is %q (%v)", d.name, d.def, v, err)
		}
		part := inForce
		if d.about == noEffect {
			part = without
		}
		if !strings.Contains(part, "`"+displayName(d.name)+"`") {
			t.Errorf("docs/operate/settings.md does not name %s where it should", displayName(d.name))
		}
		if d.domain != nil && (d.domain.vartype == "enum") != (d.domain.enum != nil) {
			t.Errorf("%s: an enumeration has values, and nothing else has", d.name)
		}
	}
}
