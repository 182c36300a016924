package lease

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: a lease is written as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("lease.Lease", wiretest.Refuses, (*Lease).Fields, nil),
	})
}
