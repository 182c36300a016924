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
		wiretest.Declared("lock.Handover", wiretest.Skips, (*handover).fields, func(h *handover) {
			for i := range h.locks {
				proper(&h.locks[i])
			}
		}),
		wiretest.Declared("lock.Held", wiretest.Skips, (*held).fields, proper),
	})
}
