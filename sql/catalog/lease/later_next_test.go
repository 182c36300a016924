//go:build nextversion

package lease

import (
	"strings"
	"testing"

	"meridian/sql/catalog"
	"meridian/version"
)

// TestNextVersion: a node writes into the descriptor of a new table the version that made it, once that version is active; it
// leaves older tables as they are.
func TestNextVersion(t *testing.T) {
	b := version.Built()
	h := version.NewHandle(b, b.Oldest)
	m := New(Options{Version: h})
	written := func(tableVersion uint64) string {
		d := &Descriptor{Table: &catalog.Table{ID: 104, Version: tableVersion, Name: "t"}}
		d.publish(m)
		text, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeDescriptor(text, b.Own); err != nil || back.Table.MadeBy != d.Table.MadeBy {
			t.Fatalf("%s: %+v, %v", text, back, err)
		}
		return string(text)
	}
	if text := written(1); strings.Contains(text, "MadeBy") {
		t.Errorf("before the version is active: %s", text)
	}
	h.Raise(b.Own)
	if text := written(1); !strings.HasPrefix(text, `{"f":1,"Table":{"MadeBy":"0.2","ID":104,"Version":1,"Name":"t"`) {
		t.Errorf("a new table: %s", text)
	}
	if text := written(2); strings.Contains(text, "MadeBy") {
		t.Errorf("a change of a table: %s", text)
	}
	if n, _ := h.Uses(version.NextDescriptor); n != 1 {
		t.Errorf("counted %d times", n)
	}
}
