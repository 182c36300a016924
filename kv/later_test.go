//go:build !nextversion

package kv

import (
	"encoding/hex"
	"errors"
	"testing"

	"meridian/wire"
)

// These are the bytes that the next version writes (later_next_test.go): a batch with both of its fields, and one with that which may be ignored.
const (
	nextBatch     = "0a0a0807c83e02d03e8180081a030a016b"
	nextEvenBatch = "0a070807d03e8180081a030a016b"
)

// TestNextVersion: a batch of the next version that was sent too early is refused by name, and not evaluated without what it asks for. A field that may be ignored is ignored.
func TestNextVersion(t *testing.T) {
	read := func(text string) (*Batch, error) {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return DecodeBatch(b)
	}
	var later *wire.VersionError
	if b, err := read(nextBatch); !errors.As(err, &later) || later.Message != "kv.Header" || later.Field != 1001 {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := read(nextEvenBatch); err != nil || b.RangeID != 7 || len(b.Requests) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
}
