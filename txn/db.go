package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/probe"
)

// Sender sends batches to the ranges; route.Sender implements it.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Ranges knows where keys are, from the cache alone; route.Sender implements it.
type Ranges interface {
	// OneRange reports whether first and last, which are addresses, are in one range. It may be wrong: the answer to
	// a one-phase commit that spans several ranges is *kv.OnePhaseError.
	OneRange(first, last keys.Key) bool
}

// OtherRanges knows the ranges of other protocols than the leader's, but for Locate from the cache alone; route.Sender implements it.
type OtherRanges interface {
	// Locate looks up the range that contains an address, unless it is cached, and returns its end and its protocol. fresh looks it up in any case.
	Locate(ctx context.Context, k keys.Key, fresh bool) (end keys.Key, p kv.Protocol, err error)
	// Others reports whether any is cached.
	Others() bool
	// Other is the one that contains an address; nil: the address is of the leader protocol, as far as the cache knows.
	Other(k keys.Key) *kv.RangeDescriptor
}

// Options of a DB.
type Options struct {
	Sender Sender
	// Ranges is the Sender itself if it is nil and the Sender can do it; without it no commit takes one phase.
	Ranges Ranges
	// Teller is the Sender itself if it is nil and the Sender can do it.
	Teller Teller
	Clock  *clock.Clock
	Host   *host.Host
	// NodeID is this node's id, zero until it is known.
	NodeID func() kv.NodeID
	// Records is the leader protocol's part.
	Records Records
	// Protocols are the commit protocols that this gateway has in addition to the leader's.
	Protocols map[kv.Protocol]Protocol
	// Support is the support that this gateway has of other nodes; nil: its transactions are taken for dead by their heartbeats alone.
	Support Support
	// TwoPhases turns parallel commits off (CRDB'20 §3.1): a commit on several ranges then takes two rounds instead of
	// one. bench/figure2 measures the difference (docs/performance.md), and tests compare outcomes; no flag or setting of a node sets it.
	TwoPhases bool
	// BufferBytes is the size of a transaction's writes above which they are sent early, as intents; zero is 4 MiB.
	BufferBytes int
	Probes      *probe.Set
}

// ProbeStaged is reached by each transaction of a client that is committed although its record does not say so yet, before any other node
// knows.
const ProbeStaged = "commit: committed, and its record does not say so yet"

// ProbeConcluded is reached by each transaction whose commit's answer was lost, and whose record said, or others' writes showed, that it has committed; ProbeRemembered by one whose
// range said so without a record, ProbeConcludedAborted by one that has not (txn.TX17).
const (
	ProbeConcluded        = "commit: its answer was lost, and its record says that it has committed"
	ProbeConcludedAborted = "commit: its answer was lost, and it has not committed and never will"
	ProbeRemembered       = "commit: its answer was lost, and its range remembers it"
)

// Metrics are counters of this gateway's transactions.
type Metrics struct {
	// StatementRestarts counts statements at READ COMMITTED that were run again with a later snapshot.
	StatementRestarts atomic.Int64
	// CommitWaits are commits at a time that had yet to come, and CommitWaitNanos how long they waited for it.
	CommitWaits, CommitWaitNanos                                                  atomic.Int64
	Begun, OnePhaseCommits, TwoPhaseCommits, ReadOnlyCommits, Rollbacks, Restarts atomic.Int64
	Refreshes, RefreshesFailed, Ambiguous, Heartbeats, Cleanups, CleanupsDropped  atomic.Int64
	// Settled counts transactions that were settled together with others.
	Settled atomic.Int64
	// PipelineStalls counts operations that had to wait for writes sent before.
	PipelineStalls atomic.Int64
}

// DB begins transactions. All methods may be called concurrently.
type DB struct {
	o       Options
	metrics Metrics
	beats   beats
	cleaner cleaner
	settler settler
	readers readers
	// contended are rows that transactions of this gateway do not read without a lock (Optimistic).
	contended contended
	known     OtherRanges // the Sender; nil: it can't do it, or there are no other protocols
	// finishers are those of the protocols, the leader's among them.
	finishers commit.Finishers
}

// NewDB makes a DB.
func NewDB(o Options) *DB {
	if o.Ranges == nil {
		o.Ranges, _ = o.Sender.(Ranges)
	}
	if o.Teller == nil {
		o.Teller, _ = o.Sender.(Teller)
	}
	if o.NodeID == nil {
		o.NodeID = func() kv.NodeID { return 0 }
	}
	db := &DB{o: o, finishers: commit.Finishers{protocol.Default: commit.Intents(o.Sender)}}
	if len(o.Protocols) > 0 {
		db.known, _ = o.Sender.(OtherRanges)
	}
	for p, x := range o.Protocols {
		db.finishers[p] = x
	}
	db.beats.db, db.cleaner.db, db.settler.db = db, db, db
	db.cleaner.resolutions.db, db.cleaner.records.db = db, db
	return db
}

// Metrics are this gateway's counters.
func (db *DB) Metrics() *Metrics { return &db.metrics }

// Clock is the node's clock.
func (db *DB) Clock() *clock.Clock { return db.o.Clock }

func (db *DB) newID() (id kv.TxnID) {
	// As numbers, because for that many bytes a machine asks the operating system, as for keys.
	binary.LittleEndian.PutUint64(id[:8], db.o.Host.Dice.Uint64())
	binary.LittleEndian.PutUint64(id[8:], db.o.Host.Dice.Uint64())
	return id
}

// Support is what transactions need of package support.
type Support interface {
	// Incarnation is this node's; zero: it has none.
	Incarnation() uint64
	// Unbroken reports whether no node can have withdrawn its support for an incarnation of this one.
	Unbroken(incarnation uint64) bool
}

func (db *DB) incarnation() uint64 {
	if db.o.Support == nil {
		return 0
	}
	return db.o.Support.Incarnation()
}

// Begin starts a transaction; nothing leaves the gateway yet.
func (db *DB) Begin(o TxnOptions) *Txn {
	db.metrics.Begun.Add(1)
	t := &Txn{db: db, o: o}
	if !o.AsOf.IsZero() {
		t.o.ReadOnly = true
	}
	t.core.Init(transaction.Options{
		ID:             db.newID(),
		Gateway:        db.o.NodeID(),
		Incarnation:    db.incarnation(),
		Isolation:      o.Isolation,
		Priority:       o.Priority,
		AsOf:           o.AsOf,
		Near:           o.Near,
		ParallelCommit: !db.o.TwoPhases,
		BufferBytes:    db.o.BufferBytes,
	}, db.o.Clock.Read())
	t.keeper = db.o.Records.Begin((*owner)(t))
	t.reading = db.readers.begin(t.core.Txn().ID, t.core.Txn().ReadTimestamp)
	return t
}

// Retriable reports whether Restart gives the transaction another chance after err.
func Retriable(err error) bool {
	if err == nil {
		return false // without the two destinations, which are objects
	}
	var (
		retry    *RetryError
		deadlock *kv.DeadlockError
	)
	return errors.As(err, &retry) || errors.As(err, &deadlock)
}

// Run runs f in a transaction and commits it, and repeats that until it neither fails nor has to be retried. f must
// not commit, unless as its last act.
func (db *DB) Run(ctx context.Context, o TxnOptions, f func(context.Context, *Txn) error) error {
	t := db.Begin(o)
	returned := false
	defer func() {
		if !returned && t.state == open {
			t.Rollback(ctx) // f panicked, and the function that recovers does not know the transaction
		}
	}()
	for try := 0; ; try++ {
		returned = false
		err := f(ctx, t)
		returned = true
		if err == nil && t.state == open {
			err = t.Commit(ctx)
		}
		if err == nil {
			return nil
		}
		if !Retriable(err) || t.state != open || ctx.Err() != nil {
			t.Rollback(ctx)
			return err
		}
		if try >= 2 {
			// Let conflicting transactions finish first.
			d := time.Millisecond << min(try-2, 6)
			d += time.Duration(db.o.Host.Dice.Int64N(int64(d)))
			if err := db.o.Host.Clock.Sleep(ctx, d); err != nil {
				t.Rollback(ctx)
				return err
			}
		}
		if err := t.Restart(ctx); err != nil {
			return err
		}
	}
}

// The following methods are outside of transactions: one request at its range's own clock.

func (db *DB) direct(ctx context.Context, r kv.Request) (*kv.BatchResponse, error) {
	return db.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{r}})
}

// Get reads a key now.
func (db *DB) Get(ctx context.Context, k keys.Key) ([]byte, error) {
	r, err := db.direct(ctx, &kv.GetRequest{Key: k})
	if err != nil {
		return nil, err
	}
	get, ok := kv.Sole[*kv.GetResponse](r)
	if !ok {
		return nil, ErrMalformed
	}
	return get.Value, nil
}

// Scan reads a span, each range of it at its own time.
func (db *DB) Scan(ctx context.Context, s keys.Span) ([]kv.KeyValue, error) {
	r, err := db.direct(ctx, &kv.ScanRequest{Start: s.Start, End: s.Stop()})
	if err != nil {
		return nil, err
	}
	scan, ok := kv.Sole[*kv.ScanResponse](r)
	if !ok {
		return nil, ErrMalformed
	}
	return scan.Rows, nil
}

// Put writes a key.
func (db *DB) Put(ctx context.Context, k keys.Key, v []byte) error {
	_, err := db.direct(ctx, &kv.PutRequest{Key: k, Value: notNil(v)})
	return err
}

// CPut writes a key whose value must be expected (nil: none); else *kv.ConditionFailedError.
func (db *DB) CPut(ctx context.Context, k keys.Key, v, expected []byte) error {
	_, err := db.direct(ctx, &kv.CPutRequest{Key: k, Value: notNil(v), Expected: expected})
	return err
}

// Delete removes a key.
func (db *DB) Delete(ctx context.Context, k keys.Key) error {
	_, err := db.direct(ctx, &kv.DeleteRequest{Key: k})
	return err
}

// Add adds to an integer and returns the sum.
func (db *DB) Add(ctx context.Context, k keys.Key, delta int64) (int64, error) {
	r, err := db.add(ctx, &kv.AddRequest{Key: k, Delta: delta})
	return r.Value, err
}

// Draw adds to a counter of which the range may set an amount aside, so that not every draw has to be replicated: see
// kv.AddRequest. A delta of zero returns the number drawn last. The turn is for GiveBack.
func (db *DB) Draw(ctx context.Context, k keys.Key, delta, reserve int64) (last int64, turn uint64, err error) {
	r, err := db.add(ctx, &kv.AddRequest{Key: k, Delta: delta, Draw: true, Reserve: reserve})
	return r.Value, r.Turn, err
}

// GiveBack returns delta of the numbers that the draw of a turn got, unless there was another draw since.
func (db *DB) GiveBack(ctx context.Context, k keys.Key, delta int64, turn uint64) error {
	_, err := db.add(ctx, &kv.AddRequest{Key: k, Delta: -delta, Draw: true, Back: true, Turn: turn})
	return err
}

func (db *DB) add(ctx context.Context, req *kv.AddRequest) (kv.AddResponse, error) {
	r, err := db.direct(ctx, req)
	if err != nil {
		return kv.AddResponse{}, err
	}
	add, ok := kv.Sole[*kv.AddResponse](r)
	if !ok {
		return kv.AddResponse{}, ErrMalformed
	}
	return *add, nil
}

// Send sends a batch outside of any transaction.
func (db *DB) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	return db.o.Sender.Send(ctx, b)
}
