package txn

import (
	"context"
	"errors"
	"sync"

	"meridian/commit"
	"meridian/commit/leader/coordinator"
	"meridian/keys"
	"meridian/kv"
)

// Bounds of the work that follows transactions. All of it may be left undone: whoever meets what a transaction
// left behind asks its record, so a full queue costs others time, not correctness (I9).
const (
	cleanupWorkers = 64
	cleanupQueue   = 8192
	// resolveBatch is the number of spans in one batch of resolutions.
	resolveBatch = 256
)

// cleaner carries out cleanups behind the clients' backs.
type cleaner struct {
	db *DB
	// resolutions and records leave together with those of other transactions.
	resolutions, records gather

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	queue   []*coordinator.Cleanup
	workers int
}

func (db *DB) cleanup(k *coordinator.Cleanup) {
	if k == nil {
		return
	}
	c := &db.cleaner
	c.mu.Lock()
	if c.workers >= cleanupWorkers {
		if len(c.queue) < cleanupQueue {
			c.queue = append(c.queue, k)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		db.o.Probes.Reached("txn: cleanup dropped")
		db.metrics.CleanupsDropped.Add(1)
		return
	}
	c.workers++
	c.mu.Unlock()
	if !db.o.Host.Group.Go(func(ctx context.Context) { c.work(ctx, k) }) {
		c.mu.Lock()
		c.workers--
		c.mu.Unlock()
	}
}

// cleanupAfter cleans up once wait has returned, if it is not nil.
func (db *DB) cleanupAfter(wait func(context.Context), k *coordinator.Cleanup) {
	if wait == nil {
		db.cleanup(k)
		return
	}
	db.o.Host.Group.Go(func(ctx context.Context) {
		wait(ctx)
		db.cleanup(k)
	})
}

func (c *cleaner) work(ctx context.Context, k *coordinator.Cleanup) {
	for k != nil {
		if ctx.Err() == nil {
			c.db.metrics.Cleanups.Add(1)
			c.db.clean(ctx, k)
		}
		c.mu.Lock()
		k = nil
		if len(c.queue) > 0 {
			k = c.queue[0]
			c.queue[0] = nil
			c.queue = c.queue[1:]
		} else {
			c.queue = nil
			c.workers--
		}
		c.mu.Unlock()
	}
}

// clean ends a transaction's record and releases what it still holds.
func (db *DB) clean(ctx context.Context, k *coordinator.Cleanup) {
	meta := k.Txn.TxnMeta
	spans, record := k.Spans, k.Record
	if k.End && meta.Anchor != nil {
		txn := k.Txn
		r, err := db.o.Sender.Send(ctx, &kv.Batch{
			Header: kv.Header{Txn: &txn},
			Requests: []kv.Request{&kv.EndTxnRequest{
				Anchor: meta.Anchor, Commit: k.Status == kv.Committed, LockSpans: spans,
			}},
		})
		switch end, ok := first[*kv.EndTxnResponse](r); {
		case err != nil && k.Status != kv.Committed:
			// If somebody else aborted it, what it holds can be released all the same; the record has to stay, lest
			// a late write of ours finds nobody who says no. Otherwise its state is not known, and it is left to
			// those whom it is in the way of.
			var aborted *kv.TxnAbortedError
			if !errors.As(err, &aborted) {
				return
			}
			record = false
		case err != nil:
			// It is committed, whatever was answered: somebody else may have made that explicit.
			db.o.Probes.Reached("txn: explicit commit failed")
			record = false
		case ok:
			spans = end.Unresolved
			record = len(spans) > 0
		}
	}
	if !db.resolve(ctx, meta, k.Status, k.Txn.IgnoredSeqs, spans) || !record {
		return
	}
	db.cleaner.records.send(ctx, []kv.Request{&kv.GCRequest{
		Start: meta.Anchor, Records: []keys.Key{keys.TxnKey(meta.Anchor, meta.ID)},
	}})
}

// resolve releases all locks and intents in spans, and reports whether it is sure that all are.
func (db *DB) resolve(ctx context.Context, meta kv.TxnMeta, status kv.Status, ignored []kv.SeqRange, spans []keys.Span) bool {
	points := make([]kv.Request, 0, min(len(spans), resolveBatch))
	for i, s := range spans {
		if s.Point() {
			points = append(points, &kv.ResolveIntentRequest{Key: s.Start, Txn: meta, Status: status, IgnoredSeqs: ignored})
		}
		if len(points) == resolveBatch || i == len(spans)-1 && len(points) > 0 {
			if db.cleaner.resolutions.send(ctx, points) != nil {
				return false
			}
			points = make([]kv.Request, 0, min(len(spans)-i, resolveBatch))
		}
	}
	for _, s := range spans {
		// Spans may take long; nobody else should wait for them.
		if !s.Point() && commit.ResolveSpan(ctx, db.o.Sender, s, meta, status, ignored) != nil {
			return false
		}
	}
	return true
}
