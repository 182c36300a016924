package txn

import (
	"context"
	"errors"
	"sync"

	"meridian/commit"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// Bounds of the work that follows transactions. All of it may be left undone: a request that meets an intent of a finished transaction asks
// its record, so a full queue costs others time, not correctness (I9).
const (
	cleanupWorkers = 64
	cleanupQueue   = 8192
	// resolveBatch is the number of spans in one batch of resolutions.
	resolveBatch = 256
)

// cleaner carries out cleanups in the background.
type cleaner struct {
	db *DB
	// resolutions and records leave together with those of other transactions.
	resolutions, records gather

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	queue   []*transaction.Cleanup
	workers int
}

func (db *DB) cleanup(k *transaction.Cleanup) {
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
func (db *DB) cleanupAfter(wait func(context.Context), k *transaction.Cleanup) {
	if wait == nil {
		db.cleanup(k)
		return
	}
	db.o.Host.Group.Go(func(ctx context.Context) {
		wait(ctx)
		db.cleanup(k)
	})
}

// Idle reports whether nothing is left to be done for transactions that have ended.
func (db *DB) Idle() bool {
	db.settler.mu.Lock()
	settling := db.settler.running || db.settler.telling
	db.settler.mu.Unlock()
	db.cleaner.mu.Lock()
	defer db.cleaner.mu.Unlock()
	return !settling && db.cleaner.workers == 0
}

func (c *cleaner) work(ctx context.Context, k *transaction.Cleanup) {
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
func (db *DB) clean(ctx context.Context, k *transaction.Cleanup) {
	meta := k.Txn.TxnMeta
	spans, record := k.Own(k.Spans), k.Record
	switch {
	case !k.End || meta.Anchor == nil:
	case k.Status == kv.Committed:
		// txn.ST1: recovery asks for the writes until the record says COMMITTED. A request that meets a remaining intent learns the outcome
		// from the record.
		r, err := db.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.RecoverTxnRequest{Txn: meta, ImplicitlyCommits: true}}})
		if rec, ok := kv.Sole[*kv.RecoverTxnResponse](r); err != nil || !ok || rec.Txn.Status == kv.Staging {
			db.o.Probes.Reached("txn: explicit commit failed")
			return
		}
	default:
		txn := k.Txn
		r, err := db.o.Sender.Send(ctx, &kv.Batch{
			Header:   kv.Header{Txn: &txn},
			Requests: []kv.Request{&kv.EndTxnRequest{Anchor: meta.Anchor, LockSpans: k.All()}},
		})
		switch end, ok := kv.Sole[*kv.EndTxnResponse](r); {
		case err != nil:
			// If another transaction aborted it, its locks can be released nevertheless; the record has to stay, so that it refuses a late
			// write of this gateway. Otherwise its state is not known, and transactions that it blocks recover it.
			var aborted *kv.TxnAbortedError
			if !errors.As(err, &aborted) {
				return
			}
			record = false
		case ok:
			spans = k.Own(end.Unresolved)
			record = len(end.Unresolved) > 0
		}
	}
	resolved := db.resolve(ctx, meta, k.Status, k.Txn.IgnoredSeqs, spans)
	if !resolved && len(k.Elsewhere) > 0 {
		// Spans with locks may reach over ranges of other protocols.
		resolved = db.finishers.Resolve(ctx, protocol.Default, spans, meta, k.Status, k.Txn.IgnoredSeqs) == nil
	}
	if !resolved || !db.resolveElsewhere(ctx, k) || !record {
		return
	}
	db.cleaner.records.send(ctx, []kv.Request{&kv.GCRequest{
		Start: meta.Anchor, Records: []keys.Key{keys.TxnKey(meta.Anchor, meta.ID)},
	}})
}

// resolveElsewhere gives the writes in ranges of other protocols their outcome, and reports whether all certainly have it.
func (db *DB) resolveElsewhere(ctx context.Context, k *transaction.Cleanup) bool {
	byProtocol := map[kv.Protocol][]keys.Span{}
	for _, w := range k.Elsewhere {
		byProtocol[w.Protocol] = append(byProtocol[w.Protocol], keys.Span{Start: w.Key})
	}
	for p, spans := range byProtocol {
		if db.finishers.Resolve(ctx, p, spans, k.Txn.TxnMeta, k.Status, k.Txn.IgnoredSeqs) != nil {
			return false
		}
	}
	return true
}

// resolve releases all locks and intents in spans, and reports whether all certainly are.
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
		// Spans may take long; other cleanups should not wait for them.
		if !s.Point() && commit.ResolveSpan(ctx, db.o.Sender, s, meta, status, ignored) != nil {
			return false
		}
	}
	return true
}
