package rangeserver

import (
	"context"
	"sync/atomic"
	"time"

	"meridian/host"
	"meridian/keys"
	"meridian/kv"
)

// rangeserver.RS3 (I9): before the engine stalls, requests with new data wait at the store's gate, each for a bounded time, before they
// take latches and locks. A stall of the engine delays raft and the node's liveness record as well; requests that keep the cluster running,
// end transactions or free locks do not wait.

const (
	// backlogLook is how often the engine's level is read, if there were writes.
	backlogLook = 250 * time.Millisecond
	// backlogHigh is the part of the engine's limits above which requests wait; below half of that they do not.
	backlogHigh = 0.6
	// backlogWait bounds the wait of a request: after that the engine's own stall applies.
	backlogWait = 500 * time.Millisecond
)

// backlog knows whether the engine is behind with flushes and compactions.
type backlog struct {
	clock host.Clock
	high  atomic.Bool
	waits atomic.Int64
	nanos atomic.Int64
}

// watch reads the engine's level; applied counts written bytes.
func (b *backlog) watch(ctx context.Context, applied *atomic.Int64, level func() float64) {
	last := int64(0)
	for b.clock.Sleep(ctx, backlogLook) == nil {
		if n := applied.Load(); n != last || b.high.Load() {
			last = n
			b.note(level())
		}
	}
}

func (b *backlog) note(level float64) {
	switch {
	case level >= backlogHigh:
		b.high.Store(true)
	case level < backlogHigh/2:
		b.high.Store(false)
	}
}

// wait returns when the engine has caught up, or after backlogWait.
func (b *backlog) wait(ctx context.Context) error {
	start := b.clock.Monotonic()
	b.waits.Add(1)
	defer func() { b.nanos.Add(int64(b.clock.Monotonic() - start)) }()
	for b.high.Load() && b.clock.Monotonic()-start < backlogWait {
		if err := b.clock.Sleep(ctx, backlogWait/20); err != nil {
			return err
		}
	}
	return nil
}

// bringsData reports whether a batch writes rows of clients.
func bringsData(b *kv.Batch) bool {
	for _, r := range b.Requests {
		switch r.(type) {
		case *kv.PutRequest, *kv.CPutRequest, *kv.AddRequest, *kv.LoadRequest:
			if _, _, err := keys.DecodeTableKey(r.Span().Start); err == nil {
				return true
			}
		}
	}
	return false
}

// Backlog reports whether requests with new data wait for the engine, how many had to, and for how long.
func (s *Store) Backlog() (high bool, waits int64, waited time.Duration) {
	b := &s.backlog
	return b.high.Load(), b.waits.Load(), time.Duration(b.nanos.Load())
}

// yield is called before each piece of elastic work.
func (s *Store) yield(ctx context.Context) error {
	if s.backlog.high.Load() {
		if err := s.backlog.wait(ctx); err != nil {
			return err
		}
	}
	if s.o.Yield == nil {
		return ctx.Err()
	}
	return s.o.Yield(ctx)
}
