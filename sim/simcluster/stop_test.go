package simcluster_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/sim/simcluster"
	"meridian/txn"
)

// TestStopWhileRead stops a node, again and again, while a test's own goroutines read through it: they are told that it is
// gone, and none of them meets a store that was closed under it.
func TestStopWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: logTo(), Nodes: []int{1}, MaxOffset: 10 * time.Millisecond})
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
							time.Sleep(time.Microsecond) // else virtual time would stand
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
