package mvcc

import (
	"fmt"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

func load(b *testing.B, n, versions int) (*engine.Engine, []keys.Key) {
	e, closeEngine := openEngine(b)
	b.Cleanup(closeEngine)
	ks := make([]keys.Key, n)
	batch := e.NewBatch()
	defer batch.Close()
	w := NewWriter(e, batch)
	for i := range ks {
		ks[i] = keys.Key(fmt.Sprintf("\x10key%07d", i))
	}
	for v := range versions {
		for i := range ks {
			batch.PutVersion(ks[i], clock.Timestamp{Wall: int64(v) + 1}, []byte{0}, make([]byte, 100))
		}
	}
	w.Close()
	if err := batch.Commit(false); err != nil {
		b.Fatal(err)
	}
	return e, ks
}

func BenchmarkGet(b *testing.B) {
	for _, noLocks := range []bool{false, true} {
		b.Run(fmt.Sprintf("noLocks=%v", noLocks), func(b *testing.B) {
			e, ks := load(b, 1000, 1)
			o := &ReadOptions{Timestamp: clock.Timestamp{Wall: 10}, NoLocks: noLocks, Uncertainty: Uncertainty{Global: clock.Timestamp{Wall: 20}}}
			var r Reader
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				r.Reset(e)
				v, err := r.Get(ks[i%len(ks)], o)
				if err != nil || v.Bytes == nil {
					b.Fatal(err)
				}
				r.Close()
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for _, versions := range []int{1, 10} {
		for _, reverse := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=1000/versions=%d/reverse=%v", versions, reverse), func(b *testing.B) {
				e, _ := load(b, 1000, versions)
				o := &ScanOptions{ReadOptions: ReadOptions{Timestamp: clock.Timestamp{Wall: 100}}, Reverse: reverse}
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					r := NewReader(e)
					res, err := r.Scan(keys.Key("\x10"), keys.Key("\x11"), o)
					if err != nil || len(res.Rows) != 1000 {
						b.Fatal(err, len(res.Rows))
					}
					r.Close()
				}
			})
		}
	}
}

func BenchmarkPut(b *testing.B) {
	for _, kind := range []string{"intent+resolve", "one-phase"} {
		for _, indexed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/indexed=%v", kind, indexed), func(b *testing.B) {
				e, ks := load(b, 1000, 1)
				val := make([]byte, 100)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					ts := clock.Timestamp{Wall: int64(i) + 100}
					txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, Anchor: ks[0], WriteTimestamp: ts}, ReadTimestamp: ts}
					batch := e.NewBatch()
					src := engine.Reader(e)
					if indexed {
						batch.Close()
						batch = e.NewIndexedBatch()
						src = batch
					}
					w := NewWriter(src, batch)
					if err := w.Put(ks[i%len(ks)], val, &WriteOptions{Txn: txn, Seq: 1, OnePhase: kind == "one-phase"}); err != nil {
						b.Fatal(err)
					}
					w.Close()
					if err := batch.Commit(false); err != nil {
						b.Fatal(err)
					}
					batch.Close()
					if kind == "one-phase" {
						continue
					}
					batch = e.NewBatch()
					w = NewWriter(e, batch)
					if _, err := w.ResolveIntent(ks[i%len(ks)], &Resolution{Txn: txn.TxnMeta, Status: kv.Committed}); err != nil {
						b.Fatal(err)
					}
					w.Close()
					if err := batch.Commit(false); err != nil {
						b.Fatal(err)
					}
					batch.Close()
				}
			})
		}
	}
}

// BenchmarkResolveHot resolves intents of a row that many transactions have written since the last flush.
func BenchmarkResolveHot(b *testing.B) {
	for _, past := range []int{10, 1000} {
		b.Run(fmt.Sprintf("past=%d", past), func(b *testing.B) {
			e, ks := load(b, 1, 1)
			turn := func(i int) {
				ts := clock.Timestamp{Wall: int64(i) + 100}
				txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{byte(i), byte(i >> 8), byte(i >> 16)}, Anchor: ks[0], WriteTimestamp: ts}, ReadTimestamp: ts}
				for _, f := range []func(w *Writer) error{
					func(w *Writer) error {
						return w.Put(ks[0], []byte("v"), &WriteOptions{Txn: txn, Seq: 1, NoLocks: true})
					},
					func(w *Writer) error {
						_, err := w.ResolveIntent(ks[0], &Resolution{Txn: txn.TxnMeta, Status: kv.Committed, IntentsOnly: true})
						return err
					},
				} {
					batch := e.NewBatch()
					w := NewWriter(e, batch)
					if err := f(w); err != nil {
						b.Fatal(err)
					}
					w.Close()
					if err := batch.Commit(false); err != nil {
						b.Fatal(err)
					}
					batch.Close()
				}
			}
			for i := range past {
				turn(i)
			}
			b.ResetTimer()
			for i := range b.N {
				turn(past + i)
			}
		})
	}
}

// BenchmarkComputeStats is what a split makes its range wait for: bytes as Stats counts them.
func BenchmarkComputeStats(b *testing.B) {
	e, ks := load(b, 100_000, 1)
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r := NewReader(e)
		s, err := r.ComputeStats(keys.Span{Start: ks[0], End: keys.Key("\x11")})
		if err != nil || s.LiveCount != int64(len(ks)) {
			b.Fatal(s, err)
		}
		b.SetBytes(s.TotalBytes)
		_ = r.Close()
	}
}
