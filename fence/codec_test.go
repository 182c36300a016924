package fence

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: what nodes say of starts, and what a store keeps of them, is as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("fence.Start", wiretest.Refuses, appendStart, readStart, nil),
		wiretest.Of("fence.Claim", wiretest.Skips, appendClaim, readClaim, nil),
		wiretest.Of("fence.Known", wiretest.Refuses, appendKnown, readKnown, nil),
		wiretest.Of("fence.Own", wiretest.Refuses, appendOwn, readOwnStart, nil),
		wiretest.Of("fence.Answer", wiretest.Skips, appendAnswer, readAnswer, nil),
		wiretest.Of("fence.Told", wiretest.Skips, appendTold, readTold, nil),
		wiretest.Of("fence.Alive", wiretest.Skips, appendAlive, readAlive, nil),
	})
}
