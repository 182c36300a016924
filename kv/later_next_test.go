//go:build nextversion

package kv

import (
	"encoding/hex"
	"testing"
)

// TestNextVersion: what the test of the same name has as bytes of the next version is what this build writes.
func TestNextVersion(t *testing.T) {
	b := Batch{Header: Header{RangeID: 7, laterHeader: laterHeader{For: 2, Acting: 0x20001}}, Requests: []Request{&GetRequest{Key: []byte("k")}}}
	for _, want := range []string{"0a0a0807c83e02d03e8180081a030a016b", "0a070807d03e8180081a030a016b"} {
		if got := hex.EncodeToString(AppendBatch(nil, &b)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		b.For = 0
	}
}
