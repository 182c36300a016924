package transaction

import (
	"fmt"
	"testing"

	"meridian/keys"
	"meridian/kv"
)

// TestChunksOfLargeWrites: a write that is larger than a batch is alone in one, so that what just fits into a command does.
func TestChunksOfLargeWrites(t *testing.T) {
	var reqs []kv.Request
	for i, n := range []int{100, ChunkBytes / 2, 3 * ChunkBytes, 100, 2 * ChunkBytes, 2 * ChunkBytes, ChunkBytes / 2, 100} {
		reqs = append(reqs, &kv.PutRequest{Key: keys.Key(fmt.Sprint("k", i)), Value: make([]byte, n)})
	}
	total := 0
	for _, b := range Chunk(reqs) {
		size := 0
		for _, r := range b.Requests {
			size += len(r.(*kv.PutRequest).Value)
		}
		if total += len(b.Requests); size > ChunkBytes && len(b.Requests) > 1 {
			t.Errorf("%d writes of %d bytes are in one batch", len(b.Requests), size)
		}
	}
	if total != len(reqs) {
		t.Errorf("%d writes of %d are in batches", total, len(reqs))
	}
}
