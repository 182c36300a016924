package leaderkv

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/register"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// TestTogether: batches that leave for a node in one message arrive there, each by itself on the wire, and all are answered.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived atomic.Int64
		c, err := New(Options{Bounds: []string{"m", "t"}, Registers: []int{1}, Wire: func(ctx context.Context, m *Message, deliver func(context.Context) ([]byte, error)) ([]byte, error) {
			if m.Batch.Protocol == register.Protocol {
				time.Sleep(10 * time.Millisecond)
				arrived.Add(1)
			}
			return deliver(ctx)
		}})
		if err != nil {
			t.Fatal(err)
		}
		h, ck := c.machine("a")
		query := func(k string) *kv.Batch {
			q := register.Request{Kind: register.Query, Key: keys.Key(k)}
			return &kv.Batch{Header: kv.Header{Protocol: register.Protocol}, Requests: []kv.Request{&kv.ProtocolRequest{Key: q.Key, Body: q.Append(nil)}}}
		}
		answers, begun := 0, time.Now()
		err = c.router("a", 101, h, ck).All(t.Context(), &route.Fan{Batches: []*kv.Batch{query("n"), query("o")}, Answer: func(i int, a route.Answer) bool {
			if answers++; a.Err != nil {
				t.Errorf("batch %d to n%d: %v", i, a.From.Node, a.Err)
			}
			return true
		}})
		if took := time.Since(begun); err != nil || answers != 6 || arrived.Load() != 6 || took != 10*time.Millisecond {
			t.Errorf("%d answers, %d batches arrived, after %v: %v", answers, arrived.Load(), took, err)
		}
		h.Group.Stop()
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
}
