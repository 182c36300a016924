package leader

import (
	"testing"

	"meridian/commit/leader/latch"
	"meridian/keys"
)

// TestHeld: the table is of use only from a moment on when there was nothing, and it never misses a key.
func TestHeld(t *testing.T) {
	var h held
	a, b := keys.Key("a"), keys.Key("b")
	hash := func(k keys.Key) []uint64 { return []uint64{latch.Hash(k)} }
	is := func(what string, ka, kb bool) {
		t.Helper()
		if h.MayHold(a) != ka || h.MayHold(b) != kb {
			t.Errorf("%s: a %v, b %v", what, h.MayHold(a), h.MayHold(b))
		}
	}
	none, some := func() bool { return true }, func() bool { return false }
	is("at first nothing is known", true, true)
	early := h.takeOff(hash(a))
	h.begin(none)
	is("a command is under way", true, true)
	h.land(early, nil)
	h.begin(some)
	is("its intent is there", true, true)
	h.begin(none)
	is("it is gone", false, false)
	lay := h.takeOff(hash(a))
	is("before a command applies", true, false)
	h.land(lay, nil)
	is("and after", true, false)
	again, remove := h.takeOff(hash(a)), h.takeOff(nil)
	h.land(remove, hash(a))
	is("one of two entries is removed", true, false)
	h.land(again, hash(a)) // it was refused
	is("the other was never laid", false, false)
	old := h.takeOff(hash(b))
	h.reset()
	h.begin(none)
	is("a command from before a reset may still apply", true, true)
	h.land(old, hash(b))
	h.begin(none)
	is("it is over", false, false)
	many := make([]uint64, heldMax+1)
	for i := range many {
		many[i] = uint64(i)
	}
	h.land(h.takeOff(many), nil)
	is("there are too many", true, true)
}
