package notify

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: what hubs tell each other is as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("notify.Message", wiretest.Skips, (*message).fields, nil),
		wiretest.Declared("notify.Publication", wiretest.Skips, (*publication).fields, nil),
		wiretest.Declared("notify.Notification", wiretest.Skips, (*Notification).fields, nil),
	})
}
