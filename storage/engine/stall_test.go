package engine

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/keys"
)

// TestDiskHangs: a sync that does not return fails the store in time, and slow ones don't (engine.EN3).
func TestDiskHangs(t *testing.T) {
	for _, how := range ways()[1:] { // Commit is for what a store writes a few times in its life
		t.Run(how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takes := 15 * time.Second
				slow := &slowFS{FS: vfs.NewMem(), waiting: func() { time.Sleep(takes) }}
				failed := make(chan error, 1)
				e := open(t, slow, Options{ReserveBytes: -1, OnFatal: func(err error) { failed <- err }})
				commit := func() {
					b := e.NewBatch()
					defer b.Close()
					b.Put(keys.Key("k"), []byte("v"))
					_ = how.commit(e, b)
				}
				for range 4 {
					commit()
				}
				time.Sleep(time.Minute)
				if err := e.Failure(); err != nil {
					t.Fatalf("a slow disk, and then an idle one: %v", err)
				}
				takes = time.Hour
				var done sync.WaitGroup
				done.Go(commit)
				begun := time.Now()
				select {
				case err := <-failed:
					if after := time.Since(begun); after < stallAfter || after > stallAfter+2*stallCheckEvery || !strings.Contains(err.Error(), "the disk hangs") {
						t.Errorf("after %s: %v", after, err)
					}
				case <-time.After(time.Minute):
					t.Error("the store has not failed after a minute")
				}
				done.Wait()
				e.Close()
			})
		})
	}
}
