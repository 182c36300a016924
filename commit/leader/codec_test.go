package leader

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: the messages of this package are as package wire wants them.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{wiretest.Declared("leader.Handover", wiretest.Skips, (*handover).fields, nil)})
}
