package ranges_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// TestStopWhileRead stops a node, again and again, while a test's own goroutines read through it: they get an error, and
// none of them uses a store that is closed.
func TestStopWhileRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Nodes: []int{1}, MaxOffset: 10 * time.Millisecond})
		ctx := context.Background()
		for range 20 {
			db := c.Node(0).DB()
			read := func() error {
				return db.Run(ctx, txn.TxnOptions{ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
					_, _, err := tx.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: keys.TablePrefix, End: keys.Max}})
					return err
				})
			}
			var wg sync.WaitGroup
			begun := make(chan error, 4)
			for range cap(begun) {
				wg.Go(func() {
					err := read()
					begun <- err
					for i := 1; err == nil; i++ {
						if i%2000 == 0 {
							time.Sleep(time.Microsecond) // else virtual time would stand still
						}
						err = read()
					}
				})
			}
			for range cap(begun) {
				if err := <-begun; err != nil {
					t.Fatal(err)
				}
			}
			c.StopNode(0)
			wg.Wait()
			c.Boot(0)
			c.WaitReady(0)
		}
	})
}

// TestStoppedProcessBeginsNothing pauses a leaseholder past the end of its lease. Nothing may be asked of its process meanwhile: its clock
// stands still, so it would read under a lease that another node has taken over and written under. Register campaigns took such reads
// for answers (seed 173).
func TestStoppedProcessBeginsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 3, MaxOffset: 10 * time.Millisecond})
		simtest.Replicated(t, c, 3)
		key := simtest.UserKey(1)
		put := func(i int, v string) (done bool, err error) {
			return c.On(i, func(ctx context.Context, n *server.Node) {
				ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				err = n.DB().Put(ctx, key, []byte(v))
			}), err
		}
		if done, err := put(0, "before"); !done || err != nil {
			t.Fatal(done, err)
		}
		r, err := c.Node(0).Router().Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: key}}})
		if err != nil {
			t.Fatal(err)
		}
		holder := int(r.Responses[0].(*kv.RangeInfoResponse).Leaseholder) - 1
		target := c.Target(1)
		target.Pause(c.Names()[holder])
		for tries := 0; ; tries++ {
			// The first answer says that the node was lost while it worked.
			if done, err := put((holder+1)%3, "after"); done && err == nil {
				break
			} else if !done || tries == 3 {
				t.Fatal(done, err)
			}
		}
		get := func() (done bool, v []byte) {
			done = c.On(holder, func(ctx context.Context, n *server.Node) { v, _ = n.DB().Get(ctx, key) })
			return done, v
		}
		if done, v := get(); done {
			t.Errorf("a process that is stopped has read %q", v)
		}
		target.Resume(c.Names()[holder])
		if done, v := get(); !done || string(v) != "after" {
			t.Errorf("a process that went on has read %q (%v), want the value written meanwhile", v, done)
		}
		c.Stop()
		time.Sleep(20 * time.Second)
	})
}
