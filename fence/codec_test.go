package fence

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: what nodes say of starts, and what a store keeps of them, is as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("fence.Start", wiretest.Refuses, (*Start).fields, nil),
		wiretest.Declared("fence.Claim", wiretest.Skips, (*Claim).fields, nil),
		wiretest.Declared("fence.Known", wiretest.Refuses, (*Known).fields, nil),
		wiretest.Declared("fence.Own", wiretest.Refuses, (*own).fields, nil),
		wiretest.Declared("fence.Answer", wiretest.Skips, (*answer).fields, nil),
		wiretest.Declared("fence.Told", wiretest.Skips, (*told).fields, nil),
		wiretest.Declared("fence.Alive", wiretest.Skips, (*alive).fields, nil),
	})
}
