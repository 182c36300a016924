package txn

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/commit"
	"meridian/commit/protocol"
	"meridian/kv"
)

// A transaction that holds locks sends heartbeats: once it is about a second old, it writes its record, and again every second, long before
// the record's expiry of three seconds. Short transactions end before the first one.
const (
	beatTick = 500 * time.Millisecond
	// beatLate is the age from which a transaction that gets its first lock writes its record before that: as long as there is no record,
	// others count its expiry from its beginning, and would take it for dead.
	beatLate = commit.Expiry / 2
	// beatAfter is the number of ticks between two heartbeats: between 0.5 and 1 s pass.
	beatAfter = 2
)

// beat is one transaction's entry in the list of those that send heartbeats.
type beat struct {
	want bool // it has something to protect; used by the transaction's goroutine only

	// txn is the content of the next heartbeat.
	txn atomic.Pointer[kv.Txn]
	// aborted is set when a heartbeat found the transaction aborted.
	aborted atomic.Pointer[error]
	// made says that a record may exist.
	made atomic.Bool
	busy atomic.Bool

	// The fields below are guarded by beats.mu.
	prev, next *beat
	in         bool
	stamp      int64
}

// Locks reports whether the transaction may hold locks, for which others wait.
func (t *Txn) Locks() bool { return t.beat.want }

func (b *beat) record() bool { return b.made.Load() }

// unlock forgets locks that a batch was to take if a range has refused it because it has another protocol, and only that range could have taken them: then nothing was done, and ranges of
// another protocol have no locks. Such a transaction may still be decided without a record (txn.MP5).
func (t *Txn) unlock(b *kv.Batch, err error) {
	var other *kv.ProtocolError
	if !errors.As(err, &other) || other.Desc == nil || protocol.Leased(other.Protocol) || !t.core.HoldsLocks() || t.core.Sent() || t.beat.record() || t.beat.busy.Load() {
		return
	}
	s := other.Desc.Span()
	for _, l := range t.core.Locks().All() {
		if !s.ContainsSpan(l) || !slices.ContainsFunc(b.Requests, func(r kv.Request) bool { return r.Span().ContainsSpan(l) }) {
			return
		}
	}
	t.db.beats.remove(&t.beat)
	if t.beat.record() {
		return // made meanwhile
	}
	t.beat.want = false
	t.core.ForgetLocks()
}

// reset prepares for another identity. A late answer to an old heartbeat may still set aborted: it then costs a
// needless retry.
func (b *beat) reset() {
	b.want = false
	b.aborted.Store(nil)
	b.made.Store(false)
}

// beats has all transactions of a gateway that hold locks, in the order of their last heartbeats.
type beats struct {
	db *DB

	mu         sync.Mutex // guards the fields below and the links; nothing is taken after it
	head, tail *beat
	tick       int64
	running    bool
}

// heartbeat adds the transaction to those that send heartbeats, if it has something to protect.
func (t *Txn) heartbeat() {
	if !t.beat.want {
		return
	}
	snap := t.core.Snapshot()
	known := t.beat.txn.Load()
	if known == snap || snap.Anchor == nil {
		return
	}
	t.beat.txn.Store(snap)
	t.db.beats.add(&t.beat)
	if known == nil && !t.beat.made.Load() && t.db.o.Clock.Now().Wall-snap.MinTimestamp.Wall > int64(beatLate) &&
		t.beat.busy.CompareAndSwap(false, true) {
		t.db.o.Probes.Reached("txn: first lock of an old transaction")
		ctx, cancel := t.db.o.Host.Clock.WithTimeout(t.db.o.Host.Group.Context(), commit.HeartbeatInterval)
		t.db.beats.beat(ctx, &t.beat)
		cancel()
	}
}

func (bs *beats) add(b *beat) {
	bs.mu.Lock()
	start := false
	if !b.in {
		b.stamp = bs.tick
		bs.push(b)
		start = !bs.running
		bs.running = true
	}
	bs.mu.Unlock()
	if start && !bs.db.o.Host.Group.Go(bs.run) {
		bs.mu.Lock()
		bs.running = false
		bs.mu.Unlock()
	}
}

func (bs *beats) push(b *beat) {
	b.in, b.prev, b.next = true, bs.tail, nil
	if bs.tail != nil {
		bs.tail.next = b
	} else {
		bs.head = b
	}
	bs.tail = b
}

func (bs *beats) unlink(b *beat) {
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		bs.head = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	} else {
		bs.tail = b.prev
	}
	b.in, b.prev, b.next = false, nil, nil
}

func (bs *beats) remove(b *beat) {
	if b.txn.Load() == nil {
		return
	}
	bs.mu.Lock()
	if b.in {
		bs.unlink(b)
	}
	bs.mu.Unlock()
	b.txn.Store(nil)
}

// run ticks for as long as there is a transaction that needs heartbeats.
func (bs *beats) run(ctx context.Context) {
	for {
		if err := bs.db.o.Host.Clock.Sleep(ctx, beatTick); err != nil {
			return
		}
		bs.mu.Lock()
		bs.tick++
		if bs.head == nil {
			bs.running = false
			bs.mu.Unlock()
			return
		}
		var due []*beat
		for b := bs.head; b != nil && bs.tick-b.stamp >= beatAfter && len(due) < 1024; b = bs.head {
			bs.unlink(b)
			b.stamp = bs.tick
			bs.push(b)
			due = append(due, b)
		}
		bs.mu.Unlock()
		for _, b := range due {
			if b.busy.CompareAndSwap(false, true) {
				bs.db.o.Host.Group.Go(func(ctx context.Context) { bs.beat(ctx, b) })
			}
		}
	}
}

// beat sends one heartbeat.
func (bs *beats) beat(ctx context.Context, b *beat) {
	defer b.busy.Store(false)
	txn := b.txn.Load()
	if txn == nil {
		return
	}
	b.made.Store(true)
	if b.txn.Load() != txn {
		return // it ended meanwhile, and may not have seen that there is a record
	}
	bs.db.metrics.Heartbeats.Add(1)
	r, err := bs.db.o.Sender.Send(ctx, &kv.Batch{
		Header:   kv.Header{Txn: txn},
		Requests: []kv.Request{&kv.HeartbeatTxnRequest{Anchor: txn.Anchor}},
	})
	var aborted *kv.TxnAbortedError
	if !errors.As(err, &aborted) {
		h, ok := kv.Sole[*kv.HeartbeatTxnResponse](r)
		if err != nil || !ok || h.Txn.Status != kv.Aborted {
			return
		}
		aborted = &kv.TxnAbortedError{ID: txn.ID, Reason: commit.WhyAborted(&txn.TxnMeta, "its record was aborted")}
	}
	if now := b.txn.Load(); now != nil && now.ID == txn.ID {
		err = aborted
		b.aborted.Store(&err)
	}
}
