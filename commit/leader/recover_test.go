package leader

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/commit/leader/coordinator"
	"meridian/keys"
	"meridian/kv"
)

// asked counts what recovery asks, and how long each question takes on its way.
type asked struct {
	Sender
	batches, writes, most atomic.Int64
	roundTrip             time.Duration
}

func (a *asked) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if _, ok := b.Requests[0].(*kv.QueryIntentRequest); ok {
		a.batches.Add(1)
		a.writes.Add(int64(len(b.Requests)))
		a.most.Store(max(a.most.Load(), int64(len(b.Requests))))
		time.Sleep(a.roundTrip)
	}
	return a.Sender.Send(ctx, b)
}

// TestRecoverMany: a gateway dies after it has staged as many writes as a record may list. With any number of transactions that meet them, the writes are asked for once (leader.P20), by parts, and all come to the same answer.
func TestRecoverMany(t *testing.T) {
	const writes = 1 << 16
	for _, c := range []struct {
		name    string
		missing int // -1: none
		batches int64
		value   string
	}{
		{"all there", -1, writes / commit.AskMax, "1"},
		{"one of the first is missing", 5, 1, ""},
		{"the last is missing", writes - 1, writes / commit.AskMax, ""},
	} {
		missing, batches, value := c.missing, c.batches, c.value
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0, "k10000", "k50000")
				defer stop()
				count := &asked{Sender: c, roundTrip: 100 * time.Millisecond}
				c.o.Finishers = commit.Finishers{kv.Leader: commit.Intents(count)}
				ctx := context.Background()
				x := c.begin()
				x.anchor(keys.Key("k00000"))
				end := &kv.EndTxnRequest{Anchor: x.txn.Anchor, Commit: true, LockSpans: []keys.Span{{Start: keys.Key("k"), End: keys.Key("l")}}}
				var lay []kv.Request
				for i := range writes {
					k := keys.Key(fmt.Sprintf("k%05d", i))
					end.InFlight = append(end.InFlight, kv.InFlightWrite{Key: k, Seq: 1})
					if i != missing {
						lay = append(lay, &kv.PutRequest{Key: k, Value: []byte("1"), Seq: 1})
					}
				}
				for len(lay) > 0 {
					n := min(len(lay), 10_000)
					if _, err := c.Send(ctx, &kv.Batch{Header: x.header(), Requests: lay[:n]}); err != nil {
						t.Fatal(err)
					}
					lay = lay[n:]
				}
				if _, err := c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{end}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(commit.Expiry + time.Second)
				start := time.Now()
				var wg sync.WaitGroup
				for i := range 100 {
					wg.Go(func() {
						resp, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: keys.Key(fmt.Sprintf("k%05d", 100*i))}}})
						if err != nil || string(resp.Responses[0].(*kv.GetResponse).Value) != value {
							t.Errorf("reader %d: %v, %v", i, resp, err)
						}
					})
				}
				wg.Wait()
				if n := count.batches.Load(); n != batches || count.most.Load() > commit.AskMax {
					t.Errorf("%d batches with %d questions, at most %d; want %d batches", n, count.writes.Load(), count.most.Load(), batches)
				}
				if d := time.Since(start); d > time.Duration(batches)*count.roundTrip+200*time.Millisecond {
					t.Errorf("the readers waited for %s", d)
				}
			})
		})
	}
}

// TestAlive: nobody takes a transaction for dead as early as its coordinator relies on (coordinator.CO13).
func TestAlive(t *testing.T) {
	if coordinator.Alive >= commit.Expiry {
		t.Errorf("a coordinator takes itself for alive for %v, others for %v", coordinator.Alive, commit.Expiry)
	}
}
