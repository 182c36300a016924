package notify

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: what hubs tell each other is as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("notify.Message", wiretest.Skips, appendMessage, readMessage, nil),
		wiretest.Of("notify.Publication", wiretest.Skips, appendPublication, readPublication, nil),
		wiretest.Of("notify.Notification", wiretest.Skips, appendNotification, readNotification, nil),
	})
}
