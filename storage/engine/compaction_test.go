package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/keys"
)

// TestScatteredFlushes writes rows all over a table, a few at a time, and looks how often that has the table rewritten.
func TestScatteredFlushes(t *testing.T) {
	e := open(t, vfs.NewMem(), Options{CacheBytes: 1 << 20, MemTableBytes: 8 << 20})
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	const rows = 20000
	flush := func(round, step int) {
		t.Helper()
		b := e.NewBatch()
		for i := 0; i < rows; i += step {
			b.PutVersion(keys.Key(fmt.Sprintf("row%06d", i)), clock.Timestamp{Wall: int64(round) + 1}, nil, fmt.Appendf(nil, "%0100d", i*round))
		}
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		_ = b.Close()
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		for e.db.Metrics().Compact.NumInProgress > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	flush(0, 1)
	if err := e.Compact(t.Context(), keys.Span{Start: keys.Key("row"), End: keys.Key("rox")}); err != nil {
		t.Fatal(err)
	}
	base := e.Metrics()
	for round := 1; round < l0Depth; round++ {
		flush(round, 100)
		if m := e.Metrics(); m.CompactedBytes > base.CompactedBytes || m.FlushedBytes == base.FlushedBytes {
			t.Fatalf("flush %d: %d bytes flushed, %d compacted", round, m.FlushedBytes-base.FlushedBytes, m.CompactedBytes-base.CompactedBytes)
		}
	}
	for round := l0Depth; e.Metrics().CompactedBytes == base.CompactedBytes; round++ {
		if round > 2*l0Depth {
			t.Fatal("level 0 is never compacted")
		}
		flush(round, 100)
	}
}
