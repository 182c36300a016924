package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// TestUnreadableRecord: a transaction record that a later version wrote, or that is damaged, is reported at once to a request that meets the
// transaction's intent, with the reason. Requests for other rows go on, and so does the sweep of records.
func TestUnreadableRecord(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"of a later version": func(b []byte) []byte { return wire.Uint(b, 9001, 1) },
		"damaged":            func(b []byte) []byte { return append(b, 0xff) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0, "m")
				defer stop()
				ctx := context.Background()
				x := c.begin()
				x.anchor(keys.Key("z"))
				if _, err := x.send(ctx, &kv.PutRequest{Key: keys.Key("a"), Value: []byte("1"), Seq: 1}); err != nil {
					t.Fatal(err)
				}
				key := keys.TxnKey(x.txn.Anchor, x.txn.ID)
				b := c.engine.NewBatch()
				b.Put(key, spoil(commit.NewRecord(x.txn, kv.Pending).Append(nil)))
				if err := b.Commit(true); err != nil {
					t.Fatal(err)
				}
				b.Close()
				for _, r := range []kv.Request{&kv.GetRequest{Key: keys.Key("a")}, &kv.PutRequest{Key: keys.Key("a"), Value: []byte("2"), Seq: 1}} {
					y := c.begin()
					y.anchor(keys.Key("a"))
					begun := time.Now()
					limit, cancel := context.WithTimeout(ctx, time.Minute)
					_, err := y.send(limit, r)
					cancel()
					var unreadable *kv.UnreadableError
					if !errors.As(err, &unreadable) || unreadable.Later != (name == "of a later version") || !unreadable.Key.Equal(key) {
						t.Errorf("%T: %v", r, err)
					}
					if took := time.Since(begun); took > time.Second {
						t.Errorf("%T: the answer took %s", r, took)
					}
				}
				other := c.begin()
				other.anchor(keys.Key("b"))
				if _, err := other.send(ctx, &kv.PutRequest{Key: keys.Key("b"), Value: []byte("1"), Seq: 1}); err != nil {
					t.Errorf("another row: %v", err)
				}
				if _, _, err := commit.Sweep(ctx, c, commit.Finishers{kv.Leader: commit.Intents(c)}, c.engine, keys.Min, keys.Max, c.clock.Now(), 100); err != nil {
					t.Errorf("the sweep stops: %v", err)
				}
			})
		})
	}
}
