package txn

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// Holder is a transaction that never commits: it holds locks for as long as their owner wants, over many transactions of the owner, and
// each can be released by itself. It exists for advisory locks.
//
// An exclusive lock is an intent on the lock's key, a shared one an intent on a key of the sharer's own below it, so both are
// replicated and lease transfers, splits and dead leaseholders lose none:
//
//	key          exclusive: Put; and no other sharer's intent may lie below
//	key/holder   shared: Put, while the key itself is locked in memory as Shared, so that exclusive lockers queue
//
//	txn.TX6 (I2): A lock is held while the holder's record is alive. A transaction of the owner commits below the earliest
//	    timestamp at which other transactions may take the holder for dead (Deadline), and the owner is told that it has lost its locks
//	    before that moment, if heartbeats have not reached the record. So no transaction gets a lock whose last owner still acts.
//	txn.TX7: A wait of the owner is a wait of the holder, and the other way round. While the owner's transaction waits for a row
//	    the holder pushes it, while the holder waits for a lock the owner's transaction pushes the holder (beside), so that cycles
//	    through both are found as any others (leader.P6). The holder has the greatest priority: of a cycle that goes through any
//	    transaction, one that can be rolled back is the victim.
type Holder struct {
	db   *DB
	lost func(error)

	mu     sync.Mutex // guards the fields below; nothing is taken after it
	meta   kv.TxnMeta
	held   map[string]bool // by the key that is written
	dirty  map[string]released
	alive  clock.Timestamp // the last heartbeat that the record has
	gone   error
	stop   context.CancelFunc
	nudged atomic.Bool
}

// released is a lock that could not be released, or of which it is not known whether it was acquired. tries counts further attempts.
type released struct {
	lock   keys.AdvisoryLock
	shared bool
	tries  int
}

// HolderPriority is above every transaction's.
const HolderPriority = math.MaxInt32

// besideDelay is how long a wait lasts before the two transactions of an owner are linked: most waits are shorter.
const besideDelay = 50 * time.Millisecond

// ErrHolderLost is the owner's error when others may soon get its locks.
var ErrHolderLost = errors.New("txn: the locks' record has not heard of their holder for too long")

// NewHolder makes a holder without locks. lost is called once, from another goroutine, when its locks are lost.
func (db *DB) NewHolder(lost func(error)) *Holder {
	now := db.o.Clock.Now()
	h := &Holder{db: db, lost: lost, alive: now, held: map[string]bool{}, dirty: map[string]released{}}
	h.meta = kv.TxnMeta{ID: db.newID(), WriteTimestamp: now, MinTimestamp: now, Priority: HolderPriority, Gateway: db.o.NodeID(), Seq: 1}
	return h
}

// ID is the holder's identity as a transaction.
func (h *Holder) ID() kv.TxnID { return h.meta.ID }

// Deadline is the timestamp from which on others may take the holder for dead.
func (h *Holder) Deadline() clock.Timestamp {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.alive.Add(commit.Expiry)
}

// txn is the holder as a batch carries it: it reads and writes now.
func (h *Holder) txn(anchor keys.Key) (*kv.Txn, error) {
	now := h.db.o.Clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone != nil {
		return nil, h.gone
	}
	if h.meta.Anchor == nil {
		h.meta.Anchor = anchor
		// From here on other transactions may wait for it.
		h.meta.MinTimestamp, h.alive = now, now
	}
	h.meta.Seq++
	t := &kv.Txn{TxnMeta: h.meta, ReadTimestamp: now, UncertaintyLimit: now}
	t.WriteTimestamp = now
	return t, nil
}

// Lock takes a lock, or waits for it as wait says. With kv.NoWait the error is *kv.LockNotAvailableError. beside is the owner's
// transaction, which waits too; it may be nil.
func (h *Holder) Lock(ctx context.Context, l keys.AdvisoryLock, shared bool, wait kv.WaitPolicy, timeout time.Duration, beside *Txn) error {
	h.mu.Lock()
	delete(h.dirty, string(h.lockKey(l, shared)))
	h.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if wait == kv.Block {
		h.start()
	}
	if wait == kv.Block && beside != nil && beside.Locks() {
		defer h.db.beside(ctx, cancel, beside.core.Snapshot(), h.metaNow, l.Key())()
	}
	err := h.lock(ctx, l, shared, wait, timeout)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		var deadlock *kv.DeadlockError
		if errors.As(cause, &deadlock) {
			err = cause
		}
	}
	var unavailable *kv.LockNotAvailableError
	switch {
	case err == nil:
		h.mu.Lock()
		h.held[string(h.lockKey(l, shared))] = true
		h.mu.Unlock()
		h.start()
		return nil
	case errors.As(err, &unavailable) && !unavailable.Timeout:
		h.nudge(l)
		if s := l.Sharers(); h.db.o.Ranges == nil || h.db.o.Ranges.OneRange(l.Key(), s.End) {
			// No intent was written, and no other transaction knows a holder without locks.
			h.mu.Lock()
			if h.stop == nil {
				h.meta.Anchor = nil
			}
			h.mu.Unlock()
			return err
		}
	}
	h.start()
	// A part of the intents may have been written, or may be in flight.
	h.giveBack(l, shared)
	return err
}

// start begins to send heartbeats.
func (h *Holder) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil || h.gone != nil {
		return
	}
	ctx, stop := context.WithCancel(h.db.o.Host.Group.Context())
	h.stop = stop
	if !h.db.o.Host.Group.Go(func(context.Context) { h.live(ctx) }) {
		stop()
	}
}

func (h *Holder) lockKey(l keys.AdvisoryLock, shared bool) keys.Key {
	if shared {
		return l.SharerKey(h.meta.ID)
	}
	return l.Key()
}

func (h *Holder) lock(ctx context.Context, l keys.AdvisoryLock, shared bool, wait kv.WaitPolicy, timeout time.Duration) error {
	start := h.db.o.Host.Clock.Monotonic()
	send := func(build func(t *kv.Txn) []kv.Request) error {
		for {
			t, err := h.txn(l.Key())
			if err != nil {
				return err
			}
			b := &kv.Batch{Header: kv.Header{Txn: t, WaitPolicy: wait, CanForwardRead: true}, Requests: build(t)}
			if timeout > 0 {
				b.LockTimeout = max(timeout-(h.db.o.Host.Clock.Monotonic()-start), time.Millisecond)
			}
			_, err = h.db.o.Sender.Send(ctx, b)
			var (
				tooOld    *kv.WriteTooOldError
				uncertain *kv.UncertaintyError
				retry     *kv.TxnRetryError
				aborted   *kv.TxnAbortedError
			)
			switch {
			case err == nil:
				return nil
			case errors.As(err, &tooOld), errors.As(err, &uncertain), errors.As(err, &retry):
				// It has read and written nothing else: a later timestamp is as good.
				if ctx.Err() != nil {
					return ctx.Err()
				}
				continue
			case errors.As(err, &aborted):
				h.lose(err)
			}
			return err
		}
	}
	if !shared {
		return send(func(t *kv.Txn) []kv.Request {
			s := l.Sharers()
			return []kv.Request{&kv.PutRequest{Key: l.Key(), Value: []byte{}, Seq: t.Seq}, &kv.ScanRequest{Start: s.Start, End: s.End, Lock: kv.Exclusive}}
		})
	}
	err := send(func(t *kv.Txn) []kv.Request {
		return []kv.Request{&kv.GetRequest{Key: l.Key(), Lock: kv.Shared},
			&kv.PutRequest{Key: l.SharerKey(h.meta.ID), Value: []byte{}, Seq: t.Seq}}
	})
	if err != nil {
		return err
	}
	// If the two keys are in two ranges, or the lease moved in between, an exclusive locker may have come between them. It is found
	// now, or will find the sharer's intent.
	return send(func(*kv.Txn) []kv.Request { return []kv.Request{&kv.GetRequest{Key: l.Key(), Lock: kv.Shared}} })
}

// nudge starts a push of the holders of a lock in the background, which finds out whether they are alive: attempts that do not wait never
// push.
func (h *Holder) nudge(l keys.AdvisoryLock) {
	if !h.nudged.CompareAndSwap(false, true) {
		return
	}
	ok := h.db.o.Host.Group.Go(func(ctx context.Context) {
		defer h.nudged.Store(false)
		ctx, cancel := h.db.o.Host.Clock.WithTimeout(ctx, commit.Expiry)
		defer cancel()
		h.db.Get(ctx, l.Key()) // reads, and so pushes, the holder of the intent; a failure is found again by the next attempt
		h.db.Scan(ctx, l.Sharers())
	})
	if !ok {
		h.nudged.Store(false)
	}
}

// Unlock releases a lock that Lock has acquired. When it returns others may have it, unless a range could not be reached for some seconds:
// then the holder keeps trying, and the lock is free at the latest when the holder is closed.
func (h *Holder) Unlock(ctx context.Context, l keys.AdvisoryLock, shared bool) {
	h.mu.Lock()
	delete(h.held, string(h.lockKey(l, shared)))
	h.mu.Unlock()
	ctx, cancel := h.db.o.Host.Clock.WithTimeout(ctx, commit.Expiry)
	defer cancel()
	if h.release(ctx, []released{{lock: l, shared: shared}}) != nil {
		h.giveBack(l, shared)
	}
}

// Held counts the locks.
func (h *Holder) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// giveBack releases a lock in the background, several times: an attempt to acquire it may still be in flight.
func (h *Holder) giveBack(l keys.AdvisoryLock, shared bool) {
	h.mu.Lock()
	h.dirty[string(h.lockKey(l, shared))] = released{lock: l, shared: shared}
	h.mu.Unlock()
	h.db.o.Host.Group.Go(h.tidy)
}

// dirtyTries is how often a lock is released of which it is not known whether it is held, about a second apart.
const dirtyTries = 4

// tidy releases the dirty locks.
func (h *Holder) tidy(ctx context.Context) {
	h.mu.Lock()
	all := make([]released, 0, len(h.dirty))
	for _, r := range h.dirty {
		all = append(all, r)
	}
	h.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := h.db.o.Host.Clock.WithTimeout(ctx, commit.HeartbeatInterval)
	defer cancel()
	if h.release(ctx, all) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range all {
		k := string(h.lockKey(r.lock, r.shared))
		if now, ok := h.dirty[k]; ok {
			if now.tries++; now.tries >= dirtyTries {
				delete(h.dirty, k)
			} else {
				h.dirty[k] = now
			}
		}
	}
}

// release resolves the intents of locks, and releases the locks in memory that came with them.
func (h *Holder) release(ctx context.Context, all []released) error {
	h.mu.Lock()
	meta := h.meta
	b := &kv.Batch{}
	add := func(k keys.Key) {
		b.Requests = append(b.Requests, &kv.ResolveIntentRequest{Key: k, Txn: meta, Status: kv.Aborted})
	}
	for _, r := range all {
		if h.held[string(h.lockKey(r.lock, r.shared))] {
			continue // it has been taken again
		}
		if r.shared {
			add(r.lock.SharerKey(meta.ID))
		}
		if k := r.lock.Key(); !r.shared || !h.held[string(k)] {
			add(k)
		}
	}
	h.mu.Unlock()
	if len(b.Requests) == 0 {
		return nil
	}
	_, err := h.db.o.Sender.Send(ctx, b)
	return err
}

// Close releases all locks, in the background.
func (h *Holder) Close() {
	h.mu.Lock()
	if h.gone == nil {
		h.gone = ErrFinished
	}
	stop := h.stop
	h.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// lose is called when others may soon have the locks.
func (h *Holder) lose(cause error) {
	h.mu.Lock()
	known := h.gone != nil
	if !known {
		h.gone = cause
	}
	h.mu.Unlock()
	if !known {
		h.lost(cause)
	}
	h.Close()
}

const (
	// beatPause follows a heartbeat that has not reached the record.
	beatPause = 200 * time.Millisecond
	// leastLife is how long a holder keeps its locks without a heartbeat, however wide the clocks' offset may be.
	leastLife = commit.HeartbeatInterval + commit.HeartbeatInterval/2
)

// live sends heartbeats until the holder is closed, then ends its record.
func (h *Holder) live(ctx context.Context) {
	clk := h.db.o.Clock
	pause := commit.HeartbeatInterval
	for h.db.o.Host.Clock.Sleep(ctx, pause) == nil {
		h.mu.Lock()
		now := clk.Read()
		left := max(h.alive.Add(commit.Expiry).Time().Sub(now.Latest.Time()), h.alive.Add(leastLife).Time().Sub(now.Now.Time()))
		h.mu.Unlock()
		if left <= 0 {
			h.lose(ErrHolderLost) // txn.TX6
			break
		}
		if pause = commit.HeartbeatInterval; !h.Beat(ctx, left) {
			pause = min(beatPause, left)
		}
		h.tidy(ctx)
	}
	h.end(h.db.o.Host.Group.Context())
}

// Beat sends a heartbeat, and reports whether it reached the record within a time.
func (h *Holder) Beat(ctx context.Context, within time.Duration) bool {
	ctx, cancel := h.db.o.Host.Clock.WithTimeout(ctx, min(within, commit.HeartbeatInterval))
	defer cancel()
	now := h.db.o.Clock.Now()
	h.mu.Lock()
	t := &kv.Txn{TxnMeta: h.meta, ReadTimestamp: now, UncertaintyLimit: now}
	h.mu.Unlock()
	if t.Anchor == nil {
		return true
	}
	t.WriteTimestamp = now
	h.db.metrics.Heartbeats.Add(1)
	r, err := h.db.o.Sender.Send(ctx, &kv.Batch{Header: kv.Header{Txn: t}, Requests: []kv.Request{&kv.HeartbeatTxnRequest{Anchor: t.Anchor}}})
	var aborted *kv.TxnAbortedError
	if errors.As(err, &aborted) {
		h.lose(err)
		return false
	}
	beat, ok := kv.Sole[*kv.HeartbeatTxnResponse](r)
	if err != nil || !ok {
		return false
	}
	if commit.Final(beat.Txn.Status) {
		h.lose(&kv.TxnAbortedError{ID: t.ID, Reason: "its record was aborted"})
		return false
	}
	h.mu.Lock()
	h.alive = h.alive.Forward(now)
	h.mu.Unlock()
	return true
}

// end removes the holder's record.
func (h *Holder) end(ctx context.Context) {
	h.mu.Lock()
	k := &transaction.Cleanup{Txn: kv.Txn{TxnMeta: h.meta, Status: kv.Aborted}, Status: kv.Aborted, End: true}
	add := func(key string) { k.Spans = append(k.Spans, keys.Span{Start: keys.Key(key)}) }
	seen := map[string]bool{}
	both := func(key string) {
		for _, one := range []string{key, key[:min(len(key), len(keys.AdvisoryLock{}.Key()))]} {
			if !seen[one] {
				seen[one] = true
				add(one)
			}
		}
	}
	for key := range h.held {
		both(key)
	}
	for key := range h.dirty {
		both(key)
	}
	clear(h.held)
	h.mu.Unlock()
	h.db.clean(ctx, k)
}

// beside has one transaction of an owner wait for the other, while the latter waits (txn.TX7). If the pusher is the victim of a deadlock,
// the context is cancelled. The caller calls the returned function when the wait is over.
func (db *DB) beside(ctx context.Context, cancel context.CancelCauseFunc, pusher *kv.Txn, pushee func() kv.TxnMeta, key keys.Key) (done func()) {
	ctx, stop := context.WithCancel(ctx)
	started := db.o.Host.Group.Go(func(group context.Context) {
		defer context.AfterFunc(group, stop)()
		for pause := besideDelay; db.o.Host.Clock.Sleep(ctx, pause) == nil; pause = 2 * besideDelay {
			meta := pushee()
			if meta.Anchor == nil || pusher.Anchor == nil {
				continue
			}
			_, err := db.o.Sender.Send(ctx, &kv.Batch{
				Header:   kv.Header{Gateway: db.o.NodeID(), Now: db.o.Clock.Now()},
				Requests: []kv.Request{&kv.PushTxnRequest{Pusher: pusher, Pushee: meta, Kind: kv.PushAbort, Key: key}},
			})
			var deadlock *kv.DeadlockError
			if errors.As(err, &deadlock) {
				cancel(deadlock)
				return
			}
		}
	})
	if !started {
		stop()
	}
	return stop
}

// metaNow is the holder as other transactions know it.
func (h *Holder) metaNow() kv.TxnMeta {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.meta
}

// Waiter is a transaction that waits for others without waiting for a lock.
type Waiter struct {
	db   *DB
	self *kv.Txn
}

// Waiter is the transaction as one that waits; ok is false if no transaction can wait for it, so that it can't be part of a deadlock.
// The waits may be begun from any goroutine as long as the transaction does nothing else.
func (t *Txn) Waiter() (w Waiter, ok bool) {
	if !t.beat.want {
		return w, false
	}
	w = Waiter{t.db, t.core.Snapshot()}
	return w, w.self.Anchor != nil
}

// For records for deadlock detection that the transaction waits for another one, until done is called (txn.TX7). In a deadlock of which it
// is the victim, cancel is called with the *kv.DeadlockError.
func (w Waiter) For(ctx context.Context, cancel context.CancelCauseFunc, whom kv.TxnMeta, key keys.Key) (done func()) {
	return w.db.beside(ctx, cancel, w.self, func() kv.TxnMeta { return whom }, key)
}

// Known is the transaction as others may know it, by a lock or a record; ok is false if none does. It may be called from any
// goroutine.
func (t *Txn) Known() (meta kv.TxnMeta, ok bool) {
	if x := t.beat.txn.Load(); x != nil {
		return x.TxnMeta, x.Anchor != nil
	}
	return meta, false
}

// SetHolder sets the holder of the other locks of the transaction's owner (txn.TX6, txn.TX7); nil: none.
func (t *Txn) SetHolder(h *Holder) { t.holder = h }

// linked has the transaction's holder wait for it while it waits itself.
func (t *Txn) linked(ctx context.Context) (done func()) {
	if t.holder.Held() == 0 || !t.beat.want {
		return func() {}
	}
	pushee := t.core.Snapshot().TxnMeta
	return t.db.beside(ctx, func(error) {}, &kv.Txn{TxnMeta: t.holder.metaNow()}, func() kv.TxnMeta { return pushee }, nil)
}

// Lose makes the transaction give up its locks to others, as the victim of a deadlock does: its next attempt is a new transaction.
func (t *Txn) Lose(cause error) {
	if t.state == open && t.core.Broken() == nil {
		t.fail(cause)
	}
}

// LookAnew moves the snapshot of a transaction that has read nothing yet to the present: it has waited for writes of others.
func (t *Txn) LookAnew() {
	if t.state == open && t.load.stamp == 0 {
		t.keeper.LookAnew(t.db.o.Clock.Read())
		t.readPast()
	}
}
