package server

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: the messages between nodes, and the stored bound of a node's clock, keep the rules of package wire.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("server.Signal", wiretest.Skips, appendSignal, readSignal, nil),
		wiretest.Of("server.SignalAnswer", wiretest.Skips, appendSignalAnswer, readSignalAnswer, nil),
		wiretest.Of("server.ClockBound", wiretest.Refuses, appendClockBound, readClockBound, nil),
	})
}
