package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/keys"
)

// TestRealDisk: the same on the machine's file system: reopening, locking, and a directory that cannot be used.
func TestRealDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "store")
	h := testHost(t, vfs.Default)
	e, err := Open(h, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, e, func(b *Batch) { b.Put(keys.Key("k"), []byte("v")) })
	var locked *LockedError
	if _, err := Open(h, dir, Options{}); !errors.As(err, &locked) {
		t.Fatalf("second open: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(h, dir, Options{MustExist: true}); err != nil {
		t.Fatal(err)
	}
	if v, err := e.Get(keys.Key("k")); err != nil || string(v) != "v" {
		t.Fatal(v, err)
	}
	if m := e.Metrics(); m.FreeBytes == 0 {
		t.Error("free space is not known")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var bad *OpenError
	if _, err := Open(h, filepath.Join(file, "store"), Options{}); !errors.As(err, &bad) {
		t.Fatalf("below a file: %v", err)
	}
}

// BenchmarkSync shows how commits of several goroutines share an fsync.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", n), func(b *testing.B) {
			e, err := Open(testHost(b, vfs.Default), b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			var wg sync.WaitGroup
			b.ResetTimer()
			for g := range n {
				wg.Go(func() {
					for i := g; i < b.N; i += n {
						batch := e.NewBatch()
						batch.Put(keys.Key(fmt.Sprintf("k%d", i)), make([]byte, 200))
						if err := batch.CommitNoSyncWait(); err != nil {
							b.Error(err)
						}
						if err := batch.SyncWait(); err != nil {
							b.Error(err)
						}
						batch.Close()
					}
				})
			}
			wg.Wait()
		})
	}
}
