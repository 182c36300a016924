package txn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"meridian/kv"
)

// silent answers nobody before it is released.
type silent chan struct{}

func (s silent) Send(_ context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	<-s
	return &kv.BatchResponse{}, nil
}

// TestGatherWaits: who gathers into a batch that somebody else carries waits no longer than its own context lasts. A
// session that could not be ended kept its node from stopping (campaign seed 3).
func TestGatherWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(silent)
		g := &gather{db: &DB{o: Options{Sender: s}}}
		carried := make(chan error, 1)
		go func() { carried <- g.send(context.Background(), []kv.Request{&kv.GCRequest{}}) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		waited := make(chan error, 1)
		go func() { waited <- g.send(ctx, []kv.Request{&kv.GCRequest{}}) }()
		synctest.Wait()
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("waited for somebody else's request: %v", err)
		}
		close(s)
		if err := <-carried; err != nil {
			t.Error(err)
		}
	})
}
