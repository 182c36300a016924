package leader

import (
	"context"
	"time"

	"meridian/clock"
	"meridian/commit/leader/lock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// maxDiscards is how often a read that met an intent, which was resolved before it could be waited for, reads again immediately; then it
// waits, whatever the table's state.
const maxDiscards = 4

// locking is the stage that looks up other holders of the batch's keys in the lock table, and waits for them (wait.go), with no latches
// held.
type locking struct {
	*call
	guard    lock.Guard
	guarded  bool // the guard's spans are set
	inline   [4]lock.Span
	discards int // intents that were gone before they could be waited for
	// waited is for how long the request has waited for locks.
	waited    time.Duration
	unsettled []mvcc.Intent // in the span that is to be cleared (leader.P18)
	// early is the time that the clock has to pass before the batch's locks are granted (leader.P30).
	early clock.Timestamp
}

// inTheWay reports whether a lock of another transaction blocks the batch. If the batch may wait for it, it is in the queue.
func (l *locking) inTheWay(started bool) (waits bool, err error) {
	if l.writes == 0 && !l.locks || l.p.locks.Len() == 0 {
		return false, nil
	}
	l.guardSpans()
	if len(l.guard.Spans) == 0 {
		return false, nil
	}
	l.p.locks.ReadsAt(&l.guard, l.readAt())
	if l.b.WaitPolicy == kv.NoWait {
		if w, waits := l.p.locks.Probe(&l.guard, l.guard.Spans); waits && !w.Read {
			return false, l.notAvailable(w.Key, w.Holder.ID)
		}
	}
	if started || l.shares() {
		_, waits = l.p.locks.Probe(&l.guard, l.guard.Spans)
	} else {
		_, waits = l.p.locks.Scan(&l.guard)
	}
	return waits, nil
}

// conflicts notes the intents that an evaluation met under latches.
func (l *locking) conflicts(e *mvcc.LockConflictError) error {
	if l.b.WaitPolicy == kv.NoWait {
		return l.notAvailable(e.Intents[0].Key, e.Intents[0].Txn.ID)
	}
	l.guardSpans()
	l.discover(e, l.p.locks.Releases())
	if l.locks && l.limited() {
		l.addGuardSpan(e.Intents[0].Key) // the guard does not have the spans of limited scans
	}
	return nil
}

// taken looks for locks of others on the keys that limited scans are about to lock: their rows are known only now.
func (l *locking) taken(keys []acquired) (waits bool, err error) {
	if len(keys) == 0 || !l.limited() || l.p.locks.Len() == 0 || l.b.WaitPolicy == kv.SkipLocked {
		return false, nil
	}
	l.guardSpans()
	for _, a := range keys {
		s := [1]lock.Span{{Span: point(a.key), Strength: a.strength}}
		if w, waits := l.p.locks.Probe(&l.guard, s[:]); waits {
			l.addGuardSpan(a.key)
			if l.b.WaitPolicy == kv.NoWait {
				return false, l.notAvailable(w.Key, w.Holder.ID)
			}
			return true, nil
		}
	}
	return false, nil
}

// guardSpans tells the lock table the keys that the batch wants.
func (l *locking) guardSpans() {
	if l.guarded {
		return
	}
	l.guarded = true
	spans := l.inline[:0]
	for _, r := range l.b.Requests {
		s := lock.Span{Span: r.Span(), Strength: lock.Write}
		switch r := r.(type) {
		case *kv.GetRequest:
			if s.Strength = r.Lock; r.Lock != kv.NoLock && l.b.WaitPolicy == kv.SkipLocked {
				continue
			}
		case *kv.ScanRequest:
			// A limited scan asks for the keys that it turns out to return, one that skips locked keys for none.
			if s.Strength = r.Lock; r.Lock != kv.NoLock && (l.limited() || l.b.WaitPolicy == kv.SkipLocked) {
				continue
			}
		case *kv.PutRequest, *kv.CPutRequest, *kv.AddRequest:
		case *kv.DeleteRequest, *kv.DeleteRangeRequest:
			s.Strength = kv.Exclusive
		case *kv.LoadRequest:
			if r.Mode != kv.LoadAlone {
				for i := range r.Rows {
					spans = append(spans, lock.Span{Span: point(r.Rows[i].Key), Strength: kv.Exclusive})
				}
			}
			continue
		default:
			continue
		}
		spans = append(spans, s)
	}
	l.guard.Spans = spans
	if l.txn != nil {
		l.guard.Txn = &l.b.Txn.TxnMeta
	}
}

// meet waits for the holders of intents that an evaluation met. Latches are no longer held.
func (l *locking) meet(ctx context.Context, e *mvcc.LockConflictError, since uint64) error {
	l.guardSpans()
	if !l.discover(e, since) {
		return nil
	}
	return l.blocked(ctx)
}

// discover puts intents into the lock table. It reports false if an immediate retry of the read is better.
func (l *locking) discover(e *mvcc.LockConflictError, since uint64) bool {
	t := l.p.locks
	for i := range e.Intents {
		in := &e.Intents[i]
		if !in.Local.IsZero() && l.visible.Less(in.Txn.WriteTimestamp) {
			l.visible = l.visible.Forward(l.limit) // it was written in the future, and is uncertain nevertheless (mvcc.M6)
		}
		if !t.Discover(in.Key, &in.Txn, in.Txn.WriteTimestamp, since) {
			if l.discards++; l.discards < maxDiscards {
				return false
			}
			since = t.Releases()
			t.Discover(in.Key, &in.Txn, in.Txn.WriteTimestamp, since)
		}
		if at, attempt, ok := l.p.o.finished.Committed(in.Txn.ID); ok && at == in.Txn.WriteTimestamp && attempt == in.Txn.Attempt {
			// The report of the commit came after the evaluation, and takes no latches (leader.P10).
			t.Release(in.Key, in.Txn.ID)
		}
	}
	return true
}

// blocked joins the queue at the batch's first conflict, if there is one, and waits.
func (l *locking) blocked(ctx context.Context) error {
	l.p.locks.ReadsAt(&l.guard, l.visible.Forward(l.readAt()))
	if w, waits := l.p.locks.Scan(&l.guard); waits {
		return l.wait(ctx, w)
	}
	return nil
}

func (l *locking) notAvailable(k keys.Key, holder kv.TxnID) error {
	l.p.o.Metrics.NotAvailable.Add(1)
	return &kv.LockNotAvailableError{Key: k, Holder: holder}
}

// addGuardSpan makes the guard wait for one more key.
func (l *locking) addGuardSpan(k keys.Key) {
	l.guard.Spans = append(l.guard.Spans, lock.Span{Span: keys.Span{Start: k}, Strength: l.lockStrength()})
}

// limited reports whether scans may end before their spans do.
func (c *call) limited() bool { return c.b.MaxKeys > 0 || c.b.TargetBytes > 0 }

// lockStrength is the strongest lock that the batch's reads want.
func (c *call) lockStrength() (s kv.LockStrength) {
	for _, r := range c.b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			s = max(s, r.Lock)
		case *kv.ScanRequest:
			s = max(s, r.Lock)
		}
	}
	return s
}

// lockedByOthers returns the test by which SKIP LOCKED leaves out keys.
func (l *locking) lockedByOthers(strength kv.LockStrength) func(keys.Key) bool {
	l.guardSpans()
	return func(k keys.Key) bool {
		_, locked := l.p.locks.Probe(&l.guard, []lock.Span{{Span: keys.Span{Start: k}, Strength: strength}})
		return locked
	}
}

// keepTurn locks the keys of a batch of locking reads, though it is refused for a later version: it is repeated as soon as its transaction
// has moved, and would otherwise find requests that waited behind it ahead of it, with new versions, each time. The coordinator knows which
// keys may be locked (transaction.TC1). Latches are held, and no lock blocked the batch.
func (l *locking) keepTurn(e *kv.WriteTooOldError) {
	if !l.locks || l.txn == nil || l.b.WaitPolicy == kv.SkipLocked || l.limited() {
		return
	}
	for _, r := range l.b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			if r.Lock != kv.NoLock {
				l.p.locks.Acquire(&l.guard, r.Key, &l.txn.TxnMeta, r.Lock)
			}
		case *kv.ScanRequest:
			if s := (keys.Span{Start: r.Start, End: r.End}); r.Lock != kv.NoLock && s.Contains(e.Key) {
				l.p.locks.Acquire(&l.guard, e.Key, &l.txn.TxnMeta, r.Lock)
			}
		}
	}
}
