package ranges_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// TestOneNode writes and reads through every layer of one node.
func TestOneNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Log: simtest.LogTo()})
		db := c.Node(0).DB()
		ctx := context.Background()
		start := time.Now()
		for i := range 20 {
			err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
				var b txn.WriteBatch
				b.Put(simtest.UserKey(i), []byte("v"))
				return tx.CommitBatch(ctx, &b)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
			rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: keys.TableSpan(uint32(20000))})
			if err == nil && len(rows) != 20 {
				t.Errorf("read %d rows", len(rows))
			}
			v, err := tx.Get(ctx, simtest.UserKey(3), kv.NoLock, kv.Block)
			if string(v) != "v" {
				t.Errorf("read %q", v)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("took %s of virtual time", time.Since(start))
	})
}

// TestThreeNodes up-replicates, loses a node while writes go on, and gets it back.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		ctx := context.Background()
		start := time.Now()
		for c.Node(0).Store().Gauges().Ranges != 2 || c.Node(1).Store().Gauges().Ranges != 2 || c.Node(2).Store().Gauges().Ranges != 2 {
			if time.Since(start) > time.Minute {
				t.Fatal("not replicated after a minute")
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		t.Logf("replicated after %s", time.Since(start))
		for i := range 10 {
			if err := simtest.Put(ctx, c.Node(i%3).DB(), simtest.UserKey(i), "v"); err != nil {
				t.Fatal(err)
			}
		}
		for victim := range 3 {
			gateway := c.Node((victim + 1) % 3).DB()
			c.Crash(victim, 0, false)
			lost := time.Now()
			limit, cancel := context.WithTimeout(ctx, 20*time.Second)
			err := simtest.Put(limit, gateway, simtest.UserKey(100+victim), "w")
			var unknown *kv.AmbiguousError
			for errors.As(err, &unknown) {
				err = simtest.Put(limit, gateway, simtest.UserKey(100+victim), "w")
			}
			if err != nil {
				t.Fatalf("after the crash of node %d: %v", victim, err)
			}
			cancel()
			outage := time.Since(lost)
			t.Logf("node %d: writes went on after %s", victim, outage)
			if outage > 5*time.Second {
				t.Errorf("node %d: writes stood still for %s", victim, outage)
			}
			c.Boot(victim)
			c.WaitReady(victim)
			time.Sleep(5 * time.Second)
		}
	})
}
