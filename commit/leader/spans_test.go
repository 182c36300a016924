package leader

import (
	"fmt"
	"testing"

	"meridian/keys"
	"meridian/kv"
)

// TestRowsOfOtherProtocols: a transaction's record may be in a range whose rows are another protocol's. The end of the transaction
// resolves no rows there, and does not forget them: they stay in the record until that protocol has resolved them (commit.CR1).
func TestRowsOfOtherProtocols(t *testing.T) {
	local := keys.RangeDescriptorKey(keys.Key("d"))
	spans := []keys.Span{{Start: keys.Key("a")}, {Start: keys.Key("e")}, {Start: keys.Key("e"), End: keys.Key("z")}, {Start: local}}
	show := func(l []keys.Span) string {
		out := ""
		for _, s := range l {
			if s.Start.Equal(local) {
				out += "local "
				continue
			}
			out += fmt.Sprintf("%s-%s ", string(s.Start), string(s.End))
		}
		return out
	}
	for _, tc := range []struct {
		protocol        kv.Protocol
		here, elsewhere string
	}{
		{kv.Leader, "e- e-m local ", "a- m-z "},
		{kv.FirstForeign, "local ", "a- e- e-z "},
	} {
		d := &kv.RangeDescriptor{Start: keys.Key("d"), End: keys.Key("m"), Protocol: tc.protocol}
		var here []keys.Span
		for _, s := range spans {
			if s, ok := clip(s, d); ok {
				here = append(here, s)
			}
		}
		if got := show(here); got != tc.here {
			t.Errorf("%s: here %q, want %q", tc.protocol, got, tc.here)
		}
		if got := show(outside(spans, d)); got != tc.elsewhere {
			t.Errorf("%s: elsewhere %q, want %q", tc.protocol, got, tc.elsewhere)
		}
	}
}
