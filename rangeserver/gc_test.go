package rangeserver

import (
	"testing"
	"time"
)

// TestGCDue: a range is searched for garbage once in a sixth of the time to live, the first time that long after there is some,
// and never more often than once a minute or less often than once an hour.
func TestGCDue(t *testing.T) {
	for _, c := range []struct{ ttl, every time.Duration }{
		{time.Second, time.Minute}, {30 * time.Minute, 5 * time.Minute}, {4 * time.Hour, 40 * time.Minute}, {48 * time.Hour, time.Hour},
	} {
		var at time.Duration
		first := 7 * time.Second // since the node began
		for _, x := range []struct {
			now time.Duration
			due bool
		}{
			{first, false}, {first + c.every - 1, false}, {first + c.every, true}, {first + c.every + 1, false}, {first + 2*c.every, true},
		} {
			if due := gcDue(&at, x.now, c.ttl); due != x.due {
				t.Errorf("time to live %s, after %s: %t", c.ttl, x.now, due)
			}
		}
	}
}
