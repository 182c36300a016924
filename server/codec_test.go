package server

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: the messages between nodes, and the stored bound of a node's clock, keep the rules of package wire.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("server.Signal", wiretest.Skips, (*signalRequest).fields, nil),
		wiretest.Declared("server.SignalAnswer", wiretest.Skips, (*signalAnswer).fields, nil),
		wiretest.Declared("server.ClockBound", wiretest.Refuses, (*clockBound).fields, nil),
	})
}
