package lock

import (
	"testing"

	"meridian/kv"
	"meridian/wire/wiretest"
)

// TestMessages: the messages of a handover are as package wire wants them.
func TestMessages(t *testing.T) {
	proper := func(h *held) {
		h.strength, h.contended = kv.Exclusive, false // the latter orders the locks and does not travel
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("lock.Handover", wiretest.Skips, func(b []byte, h *handover) []byte { return appendHandover(b, h, 1<<30) }, readHandover, func(h *handover) {
			for i := range h.locks {
				proper(&h.locks[i])
			}
		}),
		wiretest.Of("lock.Held", wiretest.Skips, appendHeld, readHeld, proper),
	})
}
