package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"meridian/admission"
	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/coordinator"
	"meridian/keys"
	"meridian/kv"
)

// RetryError says that the transaction must start over: Restart it, or roll it back.
type RetryError = coordinator.RetryError

var (
	// ErrReadOnly is raised by a write in a read-only transaction.
	ErrReadOnly = errors.New("txn: transaction is read-only")
	// ErrFinished is raised by any use of a transaction that was committed or rolled back.
	ErrFinished = errors.New("txn: transaction is finished")
	// ErrNoSavepoint is raised by a rollback to a savepoint of an earlier attempt.
	ErrNoSavepoint = errors.New("txn: savepoint does not exist any more")
)

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

type state uint8

const (
	open state = iota
	committed
	rolledBack
	// unknown: the answer to the commit was lost.
	unknown
)

// Txn is one transaction. It is used by one goroutine at a time.
type Txn struct {
	db    *DB
	o     TxnOptions
	c     coordinator.Coordinator
	state state

	trace  bool
	served []kv.Served
	hold   bool // locks are kept until the end, or it does not commit (HoldLocks)

	reading reading // until it ends

	beat beat
	load loads
	// holder has locks of the transaction's owner that outlive it; nil: there are none.
	holder *Holder
	// flights are the intents under way, oldest first (PW1).
	flights []*flushing
	// deadline is asked for the bound of the commit timestamp when the commit begins; nil: what SetDeadline said.
	deadline DeadlineSource

	// The batch of a point read, so that it costs no allocation.
	get struct {
		batch kv.Batch
		req   kv.GetRequest
		reqs  [1]kv.Request
	}
}

// Savepoint marks a state of a transaction to which it can return.
type Savepoint struct {
	id      kv.TxnID
	attempt uint32
	seq     kv.Seq
	loads   uint32
	depth   int // of savepoints, this one included
}

// usable reports why nothing more can be done.
func (t *Txn) usable() error {
	if t.state != open {
		return ErrFinished
	}
	if cause := t.beat.aborted.Load(); cause != nil && t.c.Broken() == nil {
		return t.c.Fail(*cause)
	}
	return t.c.Broken()
}

// send takes one batch to its ranges, and moves the timestamp and sends it again for as long as that helps. prepare
// puts the transaction into the batch.
func (t *Txn) send(ctx context.Context, b *kv.Batch, prepare func(*kv.Batch)) (*kv.BatchResponse, error) {
	for {
		prepare(b)
		b.Trace = t.trace
		b.LockTimeout = t.o.LockTimeout
		t.heartbeat()
		r, err := t.dispatch(ctx, b)
		if r != nil && t.trace {
			t.note(r.Served)
		}
		if r != nil && r.Waited > 0 {
			admission.Waited(ctx, r.Waited)
		}
		a := t.c.Answered(b, r, err)
		switch a.Verdict {
		case coordinator.Done:
			return r, nil
		case coordinator.Fail:
			return nil, a.Err
		}
		if a.Refresh != nil {
			if err := t.refresh(ctx, a.Refresh); err != nil {
				return nil, err
			}
		}
	}
}

func (t *Txn) dispatch(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if t.holder != nil {
		defer t.linked(ctx)()
	}
	return t.db.o.Sender.Send(ctx, b)
}

func (t *Txn) refresh(ctx context.Context, b *kv.Batch) error {
	t.db.metrics.Refreshes.Add(1)
	r, err := t.db.o.Sender.Send(ctx, b)
	if err = t.c.Refreshed(b, r, err); err != nil {
		t.db.o.Probes.Reached("txn: refresh failed")
		t.db.metrics.RefreshesFailed.Add(1)
	}
	return err
}

func (t *Txn) note(served []kv.Served) {
next:
	for _, s := range served {
		for _, have := range t.served {
			if have == s {
				continue next
			}
		}
		t.served = append(t.served, s)
	}
}

// Get reads a key, nil if it has no value, and locks it if lock says so, also when there is no value. With
// kv.SkipLocked a locked key reads as nil.
func (t *Txn) Get(ctx context.Context, key keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	own, mine := t.c.Buffered(key)
	if mine && !(t.hold && lock != kv.NoLock) {
		return own, nil
	}
	if len(t.flights) > 0 {
		if err := t.stall(ctx, keys.Span{Start: key}); err != nil {
			return nil, err
		}
	}
	if t.load.flight != nil {
		at, past, err := t.settleRead(ctx, keys.Span{Start: key})
		if err != nil {
			return nil, err
		}
		if past {
			return t.db.getAt(ctx, key, at)
		}
	}
	g := &t.get
	g.req = kv.GetRequest{Key: key, Lock: lock}
	g.reqs[0] = &g.req
	g.batch = kv.Batch{Header: kv.Header{WaitPolicy: wait, Hold: t.hold}, Requests: g.reqs[:]}
	var (
		r   *kv.BatchResponse
		err error
	)
	if lock == kv.NoLock {
		r, err = t.send(ctx, &g.batch, t.c.Prepare)
	} else {
		// The batch may be kept by those who wait for the lock.
		g.batch.Requests = []kv.Request{&kv.GetRequest{Key: key, Lock: lock}}
		t.locking(keys.Span{Start: key})
		r, err = t.send(ctx, &g.batch, func(b *kv.Batch) { t.c.PrepareLocking(b, key, false) })
	}
	if err != nil {
		return nil, err
	}
	t.c.NoteRead(keys.Span{Start: key})
	if lock >= kv.Shared {
		t.c.NoteLocked(key)
	}
	t.noteHeld(keys.Span{Start: key}, lock, r)
	get, ok := first[*kv.GetResponse](r)
	if !ok {
		return nil, errMalformed
	}
	if mine {
		return own, nil
	}
	return get.Value, nil
}

var errMalformed = &kv.InternalError{Message: "txn: answer of the wrong kind"}

func first[T kv.Response](r *kv.BatchResponse) (x T, ok bool) {
	if r == nil || len(r.Responses) != 1 {
		return x, false
	}
	x, ok = r.Responses[0].(T)
	return x, ok
}

// HoldLocks says that the locks which are taken from now on were asked for, by SELECT FOR UPDATE and its like: the transaction
// commits only if it has had them all the time since, whatever dies (CO10).
func (t *Txn) HoldLocks(on bool) { t.hold = on }

// LosesLocks reports whether Restart gives up locks that the client asked for and was given.
func (t *Txn) LosesLocks() bool { return t.c.LosesLocks() }

// noteHeld remembers what an answer has locked.
func (t *Txn) noteHeld(s keys.Span, lock kv.LockStrength, r *kv.BatchResponse) {
	if t.hold && lock != kv.NoLock && !r.LockedAt.IsZero() {
		t.c.NoteHeld(s, r.LockedAt)
	}
}

// locking prepares for locks in a span: cleanup and heartbeats must know.
func (t *Txn) locking(s keys.Span) {
	t.c.NoteLock(s)
	t.beat.want = true
}

// GetMany reads several keys, in parallel over their ranges. The values are in the order of the keys; with
// kv.SkipLocked a locked key reads as nil.
func (t *Txn) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	return t.getMany(ctx, ks, lock, wait, false)
}

// getMany reads what ks have; with all set, including the running statement's writes.
func (t *Txn) getMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy, all bool) ([][]byte, error) {
	if t.load.flight != nil {
		values, done, err := t.getLoaded(ctx, ks, lock, wait, all)
		if done || err != nil {
			return values, err
		}
	}
	values := make([][]byte, len(ks))
	hold := t.hold && lock != kv.NoLock
	var have []int // that are locked all the same
	reqs := make([]kv.Request, 0, len(ks))
	gets := make([]kv.GetRequest, len(ks))
	at := make([]int, 0, len(ks))
	for i, k := range ks {
		v, ok := t.c.Buffered(k)
		if all {
			v, ok = t.c.BufferedNewest(k)
		}
		if ok {
			values[i] = v
			if !hold {
				continue
			}
			have = append(have, i)
		}
		gets[i] = kv.GetRequest{Key: k, Lock: lock}
		reqs = append(reqs, &gets[i])
		at = append(at, i)
		if lock != kv.NoLock {
			t.locking(keys.Span{Start: k})
		}
	}
	if len(reqs) == 0 {
		return values, nil
	}
	if len(t.flights) > 0 {
		if err := t.stallKeys(ctx, ks); err != nil {
			return nil, err
		}
	}
	b := &kv.Batch{Header: kv.Header{WaitPolicy: wait, Hold: hold}, Requests: reqs}
	prepare := t.c.Prepare
	if lock != kv.NoLock {
		anchor := ks[at[0]]
		prepare = func(b *kv.Batch) { t.c.PrepareLocking(b, anchor, all) }
	}
	r, err := t.send(ctx, b, prepare)
	if err != nil {
		return nil, err
	}
	if len(r.Responses) != len(reqs) {
		return nil, errMalformed
	}
	for j, i := range at {
		get, ok := r.Responses[j].(*kv.GetResponse)
		if !ok {
			return nil, errMalformed
		}
		t.c.NoteRead(keys.Span{Start: ks[i]})
		if lock >= kv.Shared {
			t.c.NoteLocked(ks[i])
		}
		t.noteHeld(keys.Span{Start: ks[i]}, lock, r)
		if len(have) > 0 && have[0] == i {
			have = have[1:]
			continue
		}
		values[i] = get.Value
	}
	return values, nil
}

// Scan reads a span in key order or against it. If it ended early, resume is what is left of the span; it may end
// early with fewer rows than MaxRows, even with none.
func (t *Txn) Scan(ctx context.Context, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	if err := t.usable(); err != nil {
		return nil, nil, err
	}
	s := keys.Span{Start: o.Span.Start, End: o.Span.Stop()}
	if s.End.Compare(s.Start) <= 0 {
		return nil, nil, nil
	}
	if err := t.stall(ctx, s); err != nil {
		return nil, nil, err
	}
	b := &kv.Batch{
		Header:   kv.Header{WaitPolicy: o.Wait, MaxKeys: o.MaxRows, TargetBytes: o.TargetBytes, Hold: t.hold && o.Lock != kv.NoLock},
		Requests: []kv.Request{&kv.ScanRequest{Start: s.Start, End: s.End, Reverse: o.Reverse, Lock: o.Lock}},
	}
	var (
		r    *kv.BatchResponse
		at   clock.Timestamp
		past bool
	)
	if t.load.flight != nil {
		if at, past, err = t.settleRead(ctx, s); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case past:
		b.Timestamp = at
		b.Requests[0].(*kv.ScanRequest).Lock = kv.NoLock
		r, err = t.db.o.Sender.Send(ctx, b)
	case o.Lock != kv.NoLock:
		t.locking(s)
		r, err = t.send(ctx, b, func(b *kv.Batch) { t.c.PrepareLocking(b, s.Start, false) })
	default:
		r, err = t.send(ctx, b, t.c.Prepare)
	}
	if tooLarge := (*kv.AnswerTooLargeError)(nil); errors.As(err, &tooLarge) && o.TargetBytes == 0 && o.MaxRows == 0 {
		o.TargetBytes = scanBytes
		return t.Scan(ctx, o)
	}
	if err != nil {
		return nil, nil, err
	}
	scan, ok := first[*kv.ScanResponse](r)
	if !ok {
		return nil, nil, errMalformed
	}
	rows, resume = scan.Rows, scan.Resume
	t.noteLocked(o.Lock, rows)
	read := s
	if resume != nil {
		if o.Reverse {
			read.Start = resume.End
		} else {
			read.End = resume.Start
		}
	}
	if read.Start.Less(read.End) {
		t.noteHeld(read, o.Lock, r)
		t.c.NoteRead(read)
		rows = t.c.Overlay(rows, read, o.Reverse)
	}
	if n := int(o.MaxRows); n > 0 && len(rows) > n {
		// The buffer had further rows: what follows the last one is read again later.
		rest := s
		if o.Reverse {
			rest.End = rows[n-1].Key
		} else {
			rest.Start = rows[n-1].Key.Next()
		}
		rows, resume = rows[:n], &rest
	}
	return rows, resume, nil
}

// scanBytes is how much a scan without a bound reads at once when all of it is more than an answer may have.
const scanBytes = 1 << 20

// ScanMany reads several spans completely, in parallel over their ranges; o.Span, MaxRows and TargetBytes are not
// used. The rows are in the order of the spans. It fails with kv.AnswerTooLargeError where a range has more than kv.AnswerBytes of
// them, and so does GetMany: then the caller asks for less at a time.
func (t *Txn) ScanMany(ctx context.Context, spans []keys.Span, o ScanOptions) ([][]kv.KeyValue, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if len(spans) == 0 {
		return nil, nil
	}
	if t.load.flight != nil {
		rows, done, err := t.scanLoaded(ctx, spans, o)
		if done || err != nil {
			return rows, err
		}
	}
	scans := make([]kv.ScanRequest, len(spans))
	b := &kv.Batch{Header: kv.Header{WaitPolicy: o.Wait, Hold: t.hold && o.Lock != kv.NoLock}, Requests: make([]kv.Request, len(spans))}
	for i, s := range spans {
		if err := t.stall(ctx, keys.Span{Start: s.Start, End: s.Stop()}); err != nil {
			return nil, err
		}
		scans[i] = kv.ScanRequest{Start: s.Start, End: s.Stop(), Reverse: o.Reverse, Lock: o.Lock}
		b.Requests[i] = &scans[i]
		if o.Lock != kv.NoLock {
			t.locking(keys.Span{Start: s.Start, End: s.Stop()})
		}
	}
	prepare := t.c.Prepare
	if o.Lock != kv.NoLock {
		prepare = func(b *kv.Batch) { t.c.PrepareLocking(b, spans[0].Start, false) }
	}
	r, err := t.send(ctx, b, prepare)
	if err != nil {
		return nil, err
	}
	if len(r.Responses) != len(spans) {
		return nil, errMalformed
	}
	out := make([][]kv.KeyValue, len(spans))
	for i := range spans {
		scan, ok := r.Responses[i].(*kv.ScanResponse)
		if !ok || scan.Resume != nil {
			return nil, errMalformed
		}
		s := keys.Span{Start: scans[i].Start, End: scans[i].End}
		t.c.NoteRead(s)
		t.noteLocked(o.Lock, scan.Rows)
		t.noteHeld(s, o.Lock, r)
		out[i] = t.c.Overlay(scan.Rows, s, o.Reverse)
	}
	return out, nil
}

// Write makes the batch's writes part of the transaction. PutNew, CPut and Add are checked at once, against the
// newest state including the running statement's own writes; if one fails, none of the batch is written.
func (t *Txn) Write(ctx context.Context, b *WriteBatch) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	b, err := t.divert(ctx, b)
	if err != nil {
		return err
	}
	if err := t.write(ctx, b); err != nil {
		return err
	}
	return t.flush(ctx)
}

func (t *Txn) mayWrite() error {
	if err := t.usable(); err != nil {
		return err
	}
	if t.o.ReadOnly {
		return ErrReadOnly
	}
	return nil
}

func (t *Txn) write(ctx context.Context, b *WriteBatch) error {
	// First read and lock what the conditional writes look at.
	var base map[string][]byte
	var ks []keys.Key
	for i := range b.ops {
		if o := &b.ops[i]; o.looks() {
			if _, ok := t.c.BufferedNewest(o.key); !ok {
				ks = append(ks, o.key)
			}
		}
	}
	if len(ks) > 0 {
		values, err := t.getMany(ctx, ks, kv.Exclusive, kv.Block, true)
		if err != nil {
			return err
		}
		base = make(map[string][]byte, len(ks))
		for i, k := range ks {
			base[string(k)] = values[i]
		}
	}
	mark := t.c.Seq()
	for i := range b.ops {
		if err := t.buffer(&b.ops[i], base); err != nil {
			t.c.RollbackTo(mark)
			return err
		}
	}
	return nil
}

// buffer buffers one write; base is what lies below the buffer.
func (t *Txn) buffer(o *op, base map[string][]byte) error {
	var present []byte
	if o.looks() {
		var ok bool
		if present, ok = t.c.BufferedNewest(o.key); !ok {
			present = base[string(o.key)]
		}
	}
	switch o.kind {
	case opPut:
		t.c.Put(o.key, notNil(o.value))
	case opPutFresh, opPutBlind:
		t.c.PutBlind(o.key, notNil(o.value))
	case opDelete:
		t.c.Put(o.key, nil)
	case opDeleteRange:
		t.c.DeleteRange(keys.Span{Start: o.key, End: o.end})
	case opPutNew, opCPut:
		if !same(present, o.expected) {
			return &kv.ConditionFailedError{Key: o.key, Actual: present}
		}
		t.c.Put(o.key, notNil(o.value))
	case opAdd:
		sum, err := add(o.key, present, o.delta)
		if err != nil {
			return err
		}
		t.c.Put(o.key, binary.BigEndian.AppendUint64(nil, uint64(sum)))
	}
	return nil
}

func notNil(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// same compares values; no value and an empty one differ.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

func add(k keys.Key, present []byte, delta int64) (int64, error) {
	var v int64
	if present != nil {
		if len(present) != 8 {
			return 0, &kv.InternalError{Message: "txn: Add to a value that is not an integer"}
		}
		v = int64(binary.BigEndian.Uint64(present))
	}
	if delta > 0 && v > math.MaxInt64-delta || delta < 0 && v < math.MinInt64-delta {
		return 0, &kv.AddOverflowError{Key: k, Value: v, Delta: delta}
	}
	return v + delta, nil
}

// Increment adds to an integer within the transaction and returns the sum.
func (t *Txn) Increment(ctx context.Context, key keys.Key, delta int64) (int64, error) {
	if err := t.mayWrite(); err != nil {
		return 0, err
	}
	values, err := t.getMany(ctx, []keys.Key{key}, kv.Exclusive, kv.Block, true)
	if err != nil {
		return 0, err
	}
	sum, err := add(key, values[0], delta)
	if err != nil {
		return 0, err
	}
	t.c.Put(key, binary.BigEndian.AppendUint64(nil, uint64(sum)))
	return sum, nil
}

// flush sends the buffer early if it has grown too large (TX1), without waiting for the answer (PW1).
func (t *Txn) flush(ctx context.Context) error {
	if !t.c.FlushNeeded() {
		return nil
	}
	t.db.o.Probes.Reached("txn: buffer flushed early")
	return t.launchAll(ctx, t.c.TakeFlush())
}

// launchAll launches batches in order.
func (t *Txn) launchAll(ctx context.Context, batches []*kv.Batch) error {
	for _, b := range batches {
		if err := t.launch(ctx, b); err != nil {
			// The buffer is gone, and only part of it was sent.
			if t.c.Broken() == nil {
				t.c.Fail(err)
			}
			return err
		}
	}
	return nil
}

// CommitBatch is Write and Commit in one go; conditions are checked as part of the commit where possible. When it
// fails the transaction has to be rolled back or restarted.
func (t *Txn) CommitBatch(ctx context.Context, b *WriteBatch) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	b, err := t.divert(ctx, b)
	if err != nil {
		return err
	}
	if !t.deferrable(b) {
		if err := t.write(ctx, b); err != nil {
			return err
		}
		return t.Commit(ctx)
	}
	for i := range b.ops {
		o := &b.ops[i]
		switch o.kind {
		case opPut:
			t.c.Put(o.key, notNil(o.value))
		case opPutFresh, opPutBlind:
			t.c.PutBlind(o.key, notNil(o.value))
		case opDelete:
			t.c.Put(o.key, nil)
		default:
			present, ok := t.c.BufferedNewest(o.key)
			if !ok {
				t.c.CPut(o.key, notNil(o.value), o.expected)
				continue
			}
			if !same(present, o.expected) {
				return &kv.ConditionFailedError{Key: o.key, Actual: present}
			}
			t.c.Put(o.key, notNil(o.value))
		}
	}
	return t.Commit(ctx)
}

// deferrable reports whether the conditions of a batch can be checked where the writes are made.
func (t *Txn) deferrable(b *WriteBatch) bool {
	if t.c.Sent() {
		return false
	}
	var conditional map[string]bool
	first := len(b.ops)
	for i := range b.ops {
		switch b.ops[i].kind {
		case opDeleteRange, opAdd:
			return false
		case opPutNew, opCPut:
			first = min(first, i)
			if conditional != nil {
				conditional[string(b.ops[i].key)] = true
			}
		case opDelete:
			// A condition that is followed by a deletion of its key would be lost.
			if first == len(b.ops) {
				continue
			}
			if conditional == nil {
				conditional = make(map[string]bool)
				for _, o := range b.ops[first:i] {
					if o.looks() {
						conditional[string(o.key)] = true
					}
				}
			}
			if conditional[string(b.ops[i].key)] {
				return false
			}
		}
	}
	return true
}

// StepStatement lets later reads see all writes so far (TX4).
func (t *Txn) StepStatement() {
	t.c.StepStatement()
	t.load.step()
}

// Savepoint marks the present state.
func (t *Txn) Savepoint() Savepoint {
	t.load.savepoints++
	return Savepoint{depth: t.load.savepoints, id: t.c.Txn().ID, attempt: t.c.Txn().Attempt, seq: t.c.Seq(), loads: t.load.stamp}
}

// RollbackTo undoes all writes since s; locks stay. It fails if the transaction has restarted since.
func (t *Txn) RollbackTo(s Savepoint) error {
	if err := t.usable(); err != nil {
		return err
	}
	if s.id != t.c.Txn().ID || s.attempt != t.c.Txn().Attempt || s.seq > t.c.Seq() {
		return ErrNoSavepoint
	}
	if s.loads != t.load.stamp {
		return ErrLoaded
	}
	t.c.RollbackTo(s.seq)
	t.c.StepStatement()
	t.load.savepoints = s.depth
	return nil
}

// Release forgets s and the savepoints after it; writes stay.
func (t *Txn) Release(s Savepoint) {
	if s.id == t.c.Txn().ID && s.attempt == t.c.Txn().Attempt {
		t.load.savepoints = min(t.load.savepoints, s.depth-1)
	}
}

// Commit commits. After *RetryError the transaction can be restarted; after *kv.AmbiguousError nothing can be done
// with it; after any other error it has to be rolled back.
func (t *Txn) Commit(ctx context.Context) error {
	return t.commit(ctx, nil)
}

// CommitWithTrigger commits, and has the range of the first write carry out a trigger atomically with it.
func (t *Txn) CommitWithTrigger(ctx context.Context, trigger *kv.CommitTrigger) error {
	return t.commit(ctx, trigger)
}

func (t *Txn) commit(ctx context.Context, trigger *kv.CommitTrigger) error {
	if err := t.usable(); err != nil {
		return err
	}
	db := t.db
	if err := t.Settle(ctx); err != nil {
		return err // LD4
	}
	if err := t.settleAll(ctx); err != nil {
		return err // PW3
	}
	if trigger == nil && t.c.ReadOnly() {
		if t.c.HasHeld() {
			b := t.c.CheckHeld(db.o.Clock.Now())
			_, err := db.o.Sender.Send(ctx, b)
			if err = t.c.HeldChecked(b, err); err != nil {
				return err
			}
		}
		later := t.c.CommitReadOnly(t.beat.record())
		t.finish(committed)
		t.dropLoads(true)
		db.cleanup(later)
		db.metrics.ReadOnlyCommits.Add(1)
		return nil
	}
	t.c.SetTrigger(trigger)
	one := false
	if db.o.Ranges != nil && t.c.MayCommitInOnePhase() && db.o.Ranges.OneRange(t.c.WriteBounds()) {
		// A record at the present anchor would be left behind. No heartbeat makes one from here on.
		db.beats.remove(&t.beat)
		one = !t.beat.record()
	}
	var now clock.Timestamp
	if t.c.HasHeld() {
		now = db.o.Clock.Now()
		t.c.HeldInRange(one && db.o.Ranges.OneRange(t.c.HeldBounds(t.c.WriteBounds())))
	}
	t.c.StartCommit(one, now)
	t.beat.want = !one
	if err := t.launchAll(ctx, t.c.TakeCommitWrites()); err != nil {
		return err
	}
	if err := t.settleAll(ctx); err != nil {
		return err
	}
	for {
		if t.deadline != nil || t.holder != nil {
			// A long commit outlives the lease's term, which is renewed meanwhile.
			t.c.SetDeadline(t.latest(ctx))
		}
		b, err := t.c.CommitNext()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		switch b.Requests[0].(type) {
		case *kv.RefreshRequest, *kv.RefreshRangeRequest:
			db.metrics.Refreshes.Add(1)
		}
		b.Trace, b.LockTimeout = t.trace, t.o.LockTimeout
		t.beat.want = t.beat.want || t.c.Sent()
		t.heartbeat()
		r, err := t.dispatch(ctx, b)
		if r != nil && t.trace {
			t.note(r.Served)
		}
		if err = t.c.CommitAnswered(r, err); err != nil {
			var ambiguous *kv.AmbiguousError
			if errors.As(err, &ambiguous) {
				t.finish(unknown)
				db.metrics.Ambiguous.Add(1)
				db.o.Probes.Reached("commit: the outcome is unknown")
			}
			return err
		}
	}
	_, later, _ := t.c.Committed()
	if db.o.OnStaged != nil && later != nil && later.End {
		db.o.OnStaged(t.o.Name)
	}
	t.finish(committed)
	t.dropLoads(true)
	db.committed(ctx, later)
	if one {
		db.metrics.OnePhaseCommits.Add(1)
	} else {
		db.metrics.TwoPhaseCommits.Add(1)
	}
	return nil
}

// latest is the timestamp that the commit must not exceed; zero is none.
func (t *Txn) latest(ctx context.Context) (d clock.Timestamp) {
	at := t.c.Txn().WriteTimestamp
	if t.deadline != nil {
		if d = t.deadline.Deadline(); !d.IsZero() && d.Less(at) {
			t.deadline.AwaitDeadline(ctx, at)
			d = t.deadline.Deadline()
		}
	}
	if h := t.holder; h != nil && h.Held() > 0 {
		alive := h.Deadline()
		if alive.LessEq(at) {
			h.Beat(ctx, commit.HeartbeatInterval)
			alive = h.Deadline()
		}
		if alive = alive.Prev(); d.IsZero() || alive.Less(d) {
			d = alive // TX6
		}
	}
	return d
}

// finish ends the transaction's use of shared things.
func (t *Txn) finish(s state) {
	t.state = s
	t.db.beats.remove(&t.beat)
	t.db.readers.end(t.reading)
}

// Rollback undoes everything; it never fails in a way that matters to the caller, and may be called after any
// error and after Commit.
func (t *Txn) Rollback(ctx context.Context) error {
	if t.state != open {
		return nil
	}
	later := t.c.Rollback(t.beat.record())
	t.finish(rolledBack)
	t.dropLoads(false)
	t.db.cleanupAfter(t.recall(), later)
	t.db.metrics.Rollbacks.Add(1)
	return nil
}

// Restart begins a new attempt after *RetryError or *kv.DeadlockError: no writes, no savepoints, a later timestamp.
// Locks are kept if the transaction keeps its identity.
func (t *Txn) Restart(ctx context.Context) error {
	if t.state != open {
		return ErrFinished
	}
	t.db.metrics.Restarts.Add(1)
	if cause := t.beat.aborted.Load(); cause != nil {
		t.c.Fail(*cause)
	}
	t.dropLoads(false)
	landed := t.recall()
	old := t.c.Txn().ID
	abandoned := t.c.Restart(t.db.newID(), t.db.o.Clock.Now(), t.beat.record())
	if t.c.Txn().ID != old {
		t.db.beats.remove(&t.beat)
		t.beat.reset()
		if abandoned != nil && abandoned.End {
			// The new attempt is likely to meet the old one's intents.
			if landed != nil {
				landed(ctx)
			}
			t.db.clean(ctx, abandoned)
		} else {
			t.db.cleanup(abandoned)
		}
	}
	return nil
}

// GiveUp has the next Restart take a new identity, so that others get the locks of this one.
func (t *Txn) GiveUp() { t.c.Spoil() }

// ID is the transaction's identity.
func (t *Txn) ID() kv.TxnID { return t.c.Txn().ID }

// ReadTimestamp is the snapshot that is read now; it may move forward.
func (t *Txn) ReadTimestamp() clock.Timestamp { return t.c.Txn().ReadTimestamp }

// CommitTimestamp is when the transaction committed; zero before.
func (t *Txn) CommitTimestamp() clock.Timestamp {
	at, _, ok := t.c.Committed()
	if !ok || t.state != committed {
		return clock.Timestamp{}
	}
	return at
}

// Attempt counts restarts.
func (t *Txn) Attempt() uint32 { return t.c.Txn().Attempt }

// HasWritten reports whether the transaction holds locks or writes.
func (t *Txn) HasWritten() bool { return t.c.Holds() || t.load.stamp > 0 }

// ReadOnly reports whether writes are refused.
func (t *Txn) ReadOnly() bool { return t.o.ReadOnly }

// Historical reports whether the read timestamp was fixed by the client.
func (t *Txn) Historical() bool { return !t.o.AsOf.IsZero() }

// SetReadOnly refuses writes from now on, or allows them again; a transaction at a fixed timestamp stays read-only.
func (t *Txn) SetReadOnly(on bool) { t.o.ReadOnly = on || !t.o.AsOf.IsZero() }

// SetTrace turns the recording of Served on or off; turning it on forgets what was recorded.
func (t *Txn) SetTrace(on bool) {
	if on {
		t.served = nil
	}
	t.trace = on
}

// Served lists the ranges and nodes that answered since SetTrace(true), each pair once, in order of appearance.
func (t *Txn) Served() []kv.Served { return t.served }

// SetDeadline is a timestamp that the commit must not exceed (I7: descriptor leases); zero is none.
func (t *Txn) SetDeadline(ts clock.Timestamp) { t.c.SetDeadline(ts) }

// DeadlineSource knows, when a transaction is about to commit, which timestamp it must not exceed.
type DeadlineSource interface {
	Deadline() clock.Timestamp
	// AwaitDeadline returns when the deadline is beyond a timestamp, or there is no hope that it will be soon.
	AwaitDeadline(ctx context.Context, at clock.Timestamp)
}

// SetDeadlineSource asks for the deadline as late as possible, for leases that are renewed while the transaction
// runs; nil takes it back.
func (t *Txn) SetDeadlineSource(s DeadlineSource) { t.deadline = s }

// LockTimeout is TxnOptions.LockTimeout.
func (t *Txn) LockTimeout() time.Duration { return t.o.LockTimeout }

// SetLockTimeout changes TxnOptions.LockTimeout from now on.
func (t *Txn) SetLockTimeout(d time.Duration) { t.o.LockTimeout = d }
