package parameter

import "testing"

// TestRealMilliseconds: a time that need not be whole is shown in the largest unit in which it is.
func TestRealMilliseconds(t *testing.T) {
	d := Find("vacuum_cost_delay")
	for _, c := range []struct{ given, shown, bare string }{
		{"40", "40ms", "40"}, {"0.5", "500us", "0.5"}, {"1500us", "1500us", "1.5"}, {"0.08s", "80ms", "80"}, {"0", "0", "0"}, {"100ms", "100ms", "100"},
		{"1s", "", ""}, {"-1", "", ""}, {"x", "", ""}, {"1 week", "", ""},
	} {
		shown, err := d.Accept(c.given)
		if (err != nil) != (c.shown == "") || shown != c.shown {
			t.Errorf("%s: %q, %v", c.given, shown, err)
		}
		if err == nil && d.Domain.Bare(shown) != c.bare {
			t.Errorf("%s: %s without a unit", c.given, d.Domain.Bare(shown))
		}
	}
}
