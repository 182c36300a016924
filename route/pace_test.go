package route_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// TestLate: a replica whose answer takes longer than its answers did is reported as late, soon the first time and at once from then on, until it answers anything. Its answer counts when it comes.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		c, s := divided(t)
		s.Range(t.Context(), key(12), false)
		// each asks for a while, and returns when which replicas were late.
		each := func(wait time.Duration) (late map[kv.NodeID]time.Duration, answered []kv.NodeID) {
			begun, late := time.Now(), map[kv.NodeID]time.Duration{}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			_ = s.Each(ctx, ask(foreign, kv.Target{}, keys.Key(key(12))), func(a route.Answer) bool {
				switch _, twice := late[a.From.Node]; {
				case errors.Is(a.Err, route.ErrLate) && !twice:
					late[a.From.Node] = time.Since(begun)
				case a.Err != nil:
					t.Errorf("%+v", a)
				default:
					answered = append(answered, a.From.Node)
				}
				return true
			})
			slices.Sort(answered)
			return late, answered
		}
		c.delay(100 * ms)
		for range 20 {
			if late, answered := each(time.Second); len(late) > 0 || len(answered) != 3 {
				t.Fatalf("%v answered, %v late", answered, late)
			}
		}
		within, silent := s.Answers(1)
		if within < 110*ms || within > 150*ms || silent {
			t.Errorf("an answer takes up to %v, %v", within, silent)
		}
		c.delay(time.Second)
		if late, answered := each(3 * time.Second); late[1] != within || late[3] != within || len(answered) != 3 {
			t.Errorf("%v answered, %v late, want all, and two after %v", answered, late, within)
		}
		c.delay(time.Hour)
		each(500 * ms) // the slow answer has made it more patient
		if _, silent := s.Answers(1); silent {
			t.Error("silent after 500 ms")
		}
		each(2 * time.Second)
		if late, answered := each(time.Second); late[1] != 0 || late[3] != 0 || len(late) != 2 || !slices.Equal(answered, []kv.NodeID{2}) {
			t.Errorf("%v answered, %v late, want two at once", answered, late)
		}
		if _, silent := s.Answers(1); !silent {
			t.Error("not silent")
		}
		c.delay(100 * ms)
		each(time.Second)
		if late, answered := each(time.Second); len(late) > 0 || len(answered) != 3 {
			t.Errorf("%v answered, %v late after they were back", answered, late)
		}
	})
}
