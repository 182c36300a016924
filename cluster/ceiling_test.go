package cluster

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"meridian/clock"
)

// TestCeilingModel: whatever the nodes want, whenever they read the ceiling, and whichever of them changes it, no reader's interval ends before a timestamp that
// was answered before the reader began (clock.C7, cluster.L6). Nodes that have not read for too long are strict.
func TestCeilingModel(t *testing.T) {
	const (
		ms        = time.Millisecond
		maxOffset = 500 * ms
	)
	rapid.Check(t, func(t *rapid.T) {
		type view struct {
			clock.Ceiling
			rev          uint64
			since, until time.Duration
		}
		var stored storedCeiling
		nodes := make([]view, rapid.IntRange(2, 4).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i].until = -1
		}
		var answered time.Duration // the latest timestamp that was answered, by true time
		changes := 0
		for now := time.Second; now < 60*time.Second; now += time.Duration(rapid.IntRange(1, 1500).Draw(t, "passes")) * ms {
			i := rapid.IntRange(0, len(nodes)-1).Draw(t, "node")
			switch n := &nodes[i]; rapid.SampledFrom([]string{"read", "read", "answer", "begin", "change"}).Draw(t, "event") {
			case "read":
				if n.until < 0 || n.rev != stored.Revision {
					n.since = now
				}
				n.Ceiling, n.rev, n.until = stored.Ceiling, stored.Revision, now+ceilingValid // as of the beginning of the read, at the latest
			case "answer":
				ahead := time.Duration(0)
				if now <= n.until {
					if ahead = n.Allow; ahead == 0 {
						ahead = maxOffset
					}
				}
				answered = max(answered, now+ahead)
			case "begin":
				reach := maxOffset
				if now <= n.until && n.Assume != 0 {
					reach = n.Assume
				}
				if now+reach < answered {
					t.Fatalf("at %s a reader looks up to %s, and %s was answered", now, now+reach, answered)
				}
			case "change":
				if n.until < 0 || n.rev != stored.Revision {
					continue // what it expects is not there
				}
				want := time.Duration(rapid.SampledFrom([]int{0, 2, 8, 40, 100}).Draw(t, "want")) * ms
				if next, ok := nextCeiling(stored.Ceiling, want, now-n.since > settleAfter(maxOffset)); ok {
					if a, b := endless(next.Allow), endless(next.Assume); a > b {
						t.Fatalf("%v", next)
					}
					stored = storedCeiling{next, stored.Revision + 1}
					changes++
				}
			}
		}
	})
}

// TestCeilingSettles: a node may answer by a ceiling that it has read just before the next one was written for as long as that is valid, and a timestamp that it answers at the
// end of this time is as far ahead as that ceiling allows. A reader that goes by the next one must not begin before both are over.
func TestCeilingSettles(t *testing.T) {
	const maxOffset = 500 * time.Millisecond
	lastAnswer := ceilingValid + clock.Drifted(ceilingValid)
	if settleAfter(maxOffset) < lastAnswer+maxOffset {
		t.Errorf("a reader may begin after %s, and %s was answered", settleAfter(maxOffset), lastAnswer+maxOffset)
	}
}

// TestWantedCeiling: none where it would not help, and no change for a little.
func TestWantedCeiling(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ epsilon, have, want time.Duration }{
		{500 * ms, 0, 0}, {250 * ms, 0, 0}, {200 * ms, 0, 0}, {190 * ms, 0, 238 * ms},
		{0, 0, ms}, {4 * ms, 0, 6 * ms}, {4 * ms, 8 * ms, 8 * ms}, {8 * ms, 8 * ms, 8 * ms}, {8*ms + 1, 8 * ms, 11 * ms}, {2 * ms, 8 * ms, 3 * ms}, {300 * ms, 8 * ms, 0},
	} {
		if got := wanted(c.epsilon, c.have, 500*ms); got != c.want {
			t.Errorf("epsilon %s, have %s: %s, want %s", c.epsilon, c.have, got, c.want)
		}
	}
	if endless(0) != math.MaxInt64 || ended(endless(0)) != 0 || ended(endless(5)) != 5 {
		t.Error("none is not more than any")
	}
}
