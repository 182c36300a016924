package wiretest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPins: a golden line that was pinned is missed when it is deleted or its bytes are changed, also if the message was changed with it (wire.W4). It may be marked
// as gone, its Go field may be renamed, and lines may be added.
func TestPins(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir(filepath.Dir(pins), 0o755); err != nil {
		t.Fatal(err)
	}
	text, added, missing, err := pin(map[string][]string{"p.M": {"p.M Number 0801", "p.M Name 1a0161"}, "p.N": {"p.N Key 0a00"}})
	if err != nil || added != 3 || len(missing) > 0 {
		t.Fatal(added, missing, err)
	}
	if err := os.WriteFile(pins, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name    string
		kept    map[string][]string
		added   int
		missing string
	}{
		{"as it was", map[string][]string{"p.M": {"p.M Number 0801", "p.M Name 1a0161"}, "p.N": {"p.N Key 0a00"}}, 0, ""},
		{"renamed, gone and added", map[string][]string{"p.M": {"p.M Count 0801", "gone p.M Name 1a0161", "p.M More 2801"}, "p.N": {"later p.N Key 0a00"}}, 1, ""},
		{"deleted", map[string][]string{"p.M": {"p.M Number 0801"}, "p.N": {"p.N Key 0a00"}}, 0, "p.M Name"},
		{"changed", map[string][]string{"p.M": {"p.M Number 1801", "p.M Name 1a0161"}, "p.N": {"p.N Key 0a00"}}, 1, "p.M Number"},
		{"of another message", map[string][]string{"p.M": {"p.M Number 0801", "p.M Name 1a0161"}, "p.O": {"p.O Key 0a00"}}, 1, "p.N Key"},
	} {
		after, added, missing, err := pin(x.kept)
		if err != nil || added != x.added || strings.Join(missing, ";") == "" != (x.missing == "") || !strings.HasPrefix(strings.Join(missing, ";"), x.missing) {
			t.Errorf("%s: %d added, missing %q, %v", x.name, added, missing, err)
		}
		if x.missing == "" && x.added == 0 && after != text {
			t.Errorf("%s: the pins were %s and are %s", x.name, text, after)
		}
	}
}
