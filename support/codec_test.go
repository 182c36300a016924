package support

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: heartbeats, and what a store keeps of withdrawals, are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("support.Withdrawal", wiretest.Refuses, appendWithdrawal, readWithdrawal, nil),
		wiretest.Of("support.Withdrawals", wiretest.Refuses, appendWithdrawals, readWithdrawals, nil),
		wiretest.Of("support.Want", wiretest.Refuses, appendWant, readWant, nil),
		wiretest.Of("support.Ask", wiretest.Skips, appendAsk, readAsk, nil),
		wiretest.Of("support.Answer", wiretest.Skips, appendAnswer, readAnswer, nil),
	})
}
