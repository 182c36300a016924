//go:build !nextversion

package replica

import (
	"encoding/hex"
	"errors"
	"testing"

	"meridian/wire"
)

// These are the bytes that the next version writes (later_next_test.go).
const (
	nextCommand = "09050000000000000019060000000000000028043a00fa01056261746368c83e828008"
	nextState   = "0809180328054a00c83e828008"
)

// TestNextVersion: a command of the next version that was proposed too early stops a replica which does not know it, and a range that
// was written by the next version is not opened: neither is taken for something else.
func TestNextVersion(t *testing.T) {
	read := func(text string, decode func([]byte) error) error {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return decode(b)
	}
	var later *wire.VersionError
	err := read(nextCommand, func(b []byte) error { return decodeCommand(b, &Command{}) })
	if !errors.As(err, &later) || later.Message != "replica.Command" || later.Field != 1001 {
		t.Error(err)
	}
	err = read(nextState, func(b []byte) error { _, err := decodeAppliedState(b); return err })
	if !errors.As(err, &later) || later.Message != "replica.AppliedState" || later.Field != 1001 {
		t.Error(err)
	}
}
