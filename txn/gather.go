package txn

import (
	"context"
	"sync"

	"meridian/kv"
)

// gatherBatch bounds the requests that leave together.
const gatherBatch = 512

// gather sends requests of many transactions together. While one batch is in flight the next one fills, as in a group commit: without load
// no request waits, and under load a range gets one raft command for many transactions instead of one for each.
type gather struct {
	db *DB

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	waiting []*gathered
	busy    bool
}

// gathered is one caller's share of a batch.
type gathered struct {
	requests []kv.Request
	done     chan error // buffered
}

// send returns when the requests have been answered, or ctx is over. An error may be another caller's: it means that the outcome of every
// request of the batch is unknown.
func (g *gather) send(ctx context.Context, requests []kv.Request) error {
	me := &gathered{requests: requests, done: make(chan error, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, me)
	lead := !g.busy
	g.busy = true
	g.mu.Unlock()
	for lead {
		// The caller whose turn it is sends the requests of all, its own among them.
		g.mu.Lock()
		n, size := 0, 0
		for n < len(g.waiting) && (n == 0 || size+len(g.waiting[n].requests) <= gatherBatch) {
			size += len(g.waiting[n].requests)
			n++
		}
		now := g.waiting[:n:n]
		g.waiting = g.waiting[n:]
		if n == 0 {
			g.waiting, g.busy = nil, false
			g.mu.Unlock()
			break
		}
		g.mu.Unlock()
		b := &kv.Batch{Requests: make([]kv.Request, 0, size)}
		for _, x := range now {
			b.Requests = append(b.Requests, x.requests...)
		}
		_, err := g.db.o.Sender.Send(ctx, b)
		for _, x := range now {
			x.done <- err
		}
	}
	select {
	case err := <-me.done:
		return err
	case <-ctx.Done():
		// The caller that sends the batch may wait longer than this one can: a range without a quorum does not answer.
		return ctx.Err()
	}
}
