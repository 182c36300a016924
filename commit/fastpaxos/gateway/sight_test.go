package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// lateSender brings answers of the nearest replica late.
type lateSender struct {
	*gateway
	by time.Duration
}

func (s *lateSender) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	resp, err := s.gateway.Send(ctx, b)
	if b.Target == kv.ToNearest {
		time.Sleep(s.by)
	}
	return resp, err
}

// TestReadOwnWrites: a gateway reads what it has committed, also if the nearest replica has answered before it heard of that, and the answer arrives when all replicas have (fastpaxos.FP22).
func TestReadOwnWrites(t *testing.T) {
	for _, by := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newLab(1)
			g := w.gateway(1, 1)
			defer stop(g)
			g.client.o.Sender = &lateSender{g, by}
			for _, k := range []string{"p", "q"} {
				g.must(t, put(k, k))
				if k == "p" {
					if got := g.get(t, k); got != k {
						t.Errorf("%v late: the row is %q", by, got)
					}
					time.Sleep(10 * time.Second)
					continue
				}
				x, tx := g.at(kv.ReadCommitted)
				if got, err := g.scan(t.Context(), x, tx, "a", "z"); err != nil || got != "p=p q=q" {
					t.Errorf("%v late: the rows are %q, %v", by, got, err)
				}
			}
			if n := len(g.client.known([]keys.Key{keys.Key("p"), keys.Key("q")}).own); by > 0 && n != 0 {
				t.Errorf("the gateway still remembers %d rows: the answer was not late enough", n)
			}
		})
	}
}
