package txn

import (
	"context"
	"errors"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
)

// Sender takes batches to the ranges; route.Sender does.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Options are what a DB is made of.
type Options struct {
	Sender Sender
	Clock  *clock.Clock
	Host   *host.Host
	// NodeID is this node's id, zero until it is known.
	NodeID func() kv.NodeID
}

// TxnOptions say what kind of transaction begins.
type TxnOptions struct {
	Isolation kv.Isolation
	ReadOnly  bool
	// AsOf fixes the read timestamp; the transaction is then read-only and meets no uncertainty.
	AsOf     clock.Timestamp
	Priority int32
	// LockTimeout bounds each wait for a lock; zero waits for ever.
	LockTimeout time.Duration
	Name        string
}

// ScanOptions say what to read. An empty Span.End reads the single key Span.Start.
type ScanOptions struct {
	Span    keys.Span
	Reverse bool
	Lock    kv.LockStrength
	Wait    kv.WaitPolicy
	// MaxRows and TargetBytes end the scan early with a resume span; zero is no bound.
	MaxRows     int64
	TargetBytes int64
}

var (
	// ErrReadOnly is raised by a write in a read-only transaction.
	ErrReadOnly = errors.New("txn: transaction is read-only")
	// ErrFinished is raised by any use of a transaction that was committed or rolled back.
	ErrFinished = errors.New("txn: transaction is finished")
)

// DB begins transactions.
type DB struct{ o Options }

// NewDB makes a DB.
func NewDB(o Options) *DB { return &DB{o: o} }

// Begin starts a transaction; nothing leaves the gateway yet.
func (db *DB) Begin(o TxnOptions) *Txn { return &Txn{db: db} }

// Run runs f in a transaction and commits it, again and again until it neither fails nor has to be retried.
func (db *DB) Run(ctx context.Context, o TxnOptions, f func(context.Context, *Txn) error) error {
	return errors.New("txn: not yet")
}

// Txn is one transaction. It is used by one goroutine at a time.
type Txn struct{ db *DB }

// Savepoint marks a state of a transaction to which it can return.
type Savepoint struct {
	attempt uint32
	seq     kv.Seq
}

// RetryError says that the transaction must start over: Restart it, or roll it back.
type RetryError struct {
	Reason string
	Cause  error
}

func (e *RetryError) Error() string { return "transaction has to restart: " + e.Reason }
func (e *RetryError) Unwrap() error { return e.Cause }

var errNotYet = errors.New("txn: not yet")

// Get reads a key, nil if it has no value, and locks it if lock says so, also when there is no value.
func (t *Txn) Get(ctx context.Context, key keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	return nil, errNotYet
}

// GetMany reads several keys, in parallel over their ranges. The values are in the order of the keys; with
// kv.SkipLocked a locked key reads as nil.
func (t *Txn) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	return nil, errNotYet
}

// Scan reads a span in key order or against it. If it ended early, resume is what is left of the span; it may end
// early with fewer rows than MaxRows, even with none.
func (t *Txn) Scan(ctx context.Context, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	return nil, nil, errNotYet
}

// ScanMany reads several spans completely, in parallel over their ranges; o.Span, MaxRows and TargetBytes are not
// used. The rows are in the order of the spans.
func (t *Txn) ScanMany(ctx context.Context, spans []keys.Span, o ScanOptions) ([][]kv.KeyValue, error) {
	return nil, errNotYet
}

// Write makes the batch's writes part of the transaction. PutNew, CPut and Add are checked at once, against the
// newest state including the running statement's own writes; if one fails, none of the batch is written.
func (t *Txn) Write(ctx context.Context, b *WriteBatch) error { return errNotYet }

// CommitBatch is Write and Commit in one go; conditions are checked as part of the commit where possible. When it
// fails the transaction has to be rolled back or restarted.
func (t *Txn) CommitBatch(ctx context.Context, b *WriteBatch) error { return errNotYet }

// Increment adds to an integer within the transaction and returns the sum.
func (t *Txn) Increment(ctx context.Context, key keys.Key, delta int64) (int64, error) {
	return 0, errNotYet
}

// StepStatement lets later reads see all writes so far (TX4).
func (t *Txn) StepStatement() {}

// Savepoint marks the present state.
func (t *Txn) Savepoint() Savepoint { return Savepoint{} }

// RollbackTo undoes all writes since s; locks stay. It fails if the transaction has restarted since.
func (t *Txn) RollbackTo(s Savepoint) error { return errNotYet }

// Release forgets s; writes stay.
func (t *Txn) Release(s Savepoint) {}

// Commit commits.
func (t *Txn) Commit(ctx context.Context) error { return errNotYet }

// Rollback undoes everything; it never fails in a way that matters to the caller, and may be called after any
// error and after Commit.
func (t *Txn) Rollback(ctx context.Context) error { return errNotYet }

// Restart begins a new attempt after *RetryError or *kv.DeadlockError: no writes, no savepoints, a later timestamp.
// Locks are kept if the transaction keeps its identity.
func (t *Txn) Restart(ctx context.Context) error { return errNotYet }

// ID is the transaction's identity.
func (t *Txn) ID() kv.TxnID { return kv.TxnID{} }

// ReadTimestamp is the snapshot that is read now; it may move forward.
func (t *Txn) ReadTimestamp() clock.Timestamp { return clock.Timestamp{} }

// CommitTimestamp is when the transaction committed; zero before.
func (t *Txn) CommitTimestamp() clock.Timestamp { return clock.Timestamp{} }

// Attempt counts restarts.
func (t *Txn) Attempt() uint32 { return 0 }

// HasWritten reports whether the transaction holds locks or writes.
func (t *Txn) HasWritten() bool { return false }

// ReadOnly reports whether writes are refused.
func (t *Txn) ReadOnly() bool { return false }

// SetTrace turns the recording of Served on or off; turning it on forgets what was recorded.
func (t *Txn) SetTrace(on bool) {}

// Served lists the ranges and nodes that answered since SetTrace(true), each pair once, in order of appearance.
func (t *Txn) Served() []kv.Served { return nil }

// SetDeadline is a timestamp that the commit must not exceed (I7: descriptor leases); zero is none.
func (t *Txn) SetDeadline(ts clock.Timestamp) {}

// SetLockTimeout changes TxnOptions.LockTimeout from now on.
func (t *Txn) SetLockTimeout(d time.Duration) {}
