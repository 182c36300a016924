package lease

import (
	"testing"

	"meridian/wire/wiretest"
)

// TestMessages: a lease is written as package wire wants it.
func TestMessages(t *testing.T) {
	wiretest.Run(t, []wiretest.Message{
		wiretest.Of("lease.Lease", wiretest.Refuses, func(b []byte, l *Lease) []byte { return l.Append(b) }, Read, nil),
	})
}
