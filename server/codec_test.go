package server

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: what nodes ask of each other, and what a store keeps of its node's clock, is as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("server.Signal", wiretest.Skips, appendSignal, readSignal, nil),
		wiretest.Of("server.SignalAnswer", wiretest.Skips, appendSignalAnswer, readSignalAnswer, nil),
		wiretest.Of("server.ClockBound", wiretest.Refuses, appendClockBound, readClockBound, nil),
	})
}
