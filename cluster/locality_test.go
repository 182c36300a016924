package cluster

import (
	"slices"
	"testing"
)

// TestParseAttributes: words between colons; nothing that a constraint could not name.
func TestParseAttributes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
		ok   bool
	}{
		{"", nil, true},
		{"ssd", []string{"ssd"}, true},
		{"ssd:large:ssd", []string{"ssd", "large"}, true},
		{"ssd:", nil, false},
		{"ssd,large", nil, false},
		{"disk=ssd", nil, false},
		{"+ssd", nil, false},
		{"-ssd", nil, false},
		{"big disk", nil, false},
	} {
		got, err := ParseAttributes(c.in)
		if (err == nil) != c.ok || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.in, got, err)
		}
	}
}
