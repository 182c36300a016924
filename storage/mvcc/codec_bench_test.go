package mvcc

import (
	"testing"

	"meridian/clock"
	"meridian/kv"
)

// BenchmarkLock writes and reads the lock of a first write, whose values have no history.
func BenchmarkLock(b *testing.B) {
	l := sampleLock()
	l.history, l.Txn.Priority, l.Txn.Isolation = nil, 5, kv.Serializable
	l.Local, l.Txn.Born, l.Txn.Incarnation = clock.Timestamp{Wall: 8}, clock.Timestamp{Wall: 3}, 4
	version, val := lockVersion(l), appendLock(nil, l)
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 512)
		for b.Loop() {
			buf = appendLock(buf[:0], l)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodeLock(l.Key, version, val); err != nil {
				b.Fatal(err)
			}
		}
	})
}
