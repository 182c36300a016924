package support

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: heartbeats, and what a store keeps of withdrawals, are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("support.Withdrawal", wiretest.Refuses, (*withdrawal).fields, nil),
		wiretest.Declared("support.Withdrawals", wiretest.Refuses, (*withdrawals).fields, nil),
		wiretest.Declared("support.Want", wiretest.Refuses, (*want).fields, nil),
		wiretest.Declared("support.Ask", wiretest.Skips, (*ask).fields, nil),
		wiretest.Declared("support.Answer", wiretest.Skips, (*answer).fields, nil),
	})
}
