package txn

import (
	"context"

	"meridian/keys"
	"meridian/kv"
)

// What the levels of isolation mean here is in commit/leader/coordinator (CO6 to CO8). The caller brackets statements,
// because at READ COMMITTED each one has a snapshot of its own, and can be run again on its own.

// Isolation is the transaction's level now.
func (t *Txn) Isolation() kv.Isolation { return t.c.Level() }

// Started reports whether a statement has begun; the level can't be changed any more.
func (t *Txn) Started() bool { return t.c.Started() }

// Statements counts BeginStatement.
func (t *Txn) Statements() uint32 { return t.c.Statements() }

// SetIsolation changes the level, before the first statement.
func (t *Txn) SetIsolation(l kv.Isolation) {
	t.o.Isolation = l
	t.c.SetIsolation(l)
}

// Harden makes the transaction serializable from here on, whatever its level: for work that relies on that.
func (t *Txn) Harden() {
	if t.c.Level() != kv.Serializable {
		t.c.Harden(t.db.o.Clock.Now())
	}
}

// BeginStatement is StepStatement for the beginning of a statement: at READ COMMITTED it sees what is committed now.
func (t *Txn) BeginStatement() {
	now := t.c.Txn().ReadTimestamp
	if t.c.Level() == kv.ReadCommitted {
		now = t.db.o.Clock.Now()
	}
	t.c.BeginStatement(now)
	t.load.step()
}

// MayRestartStatement reports whether the running statement failed with err because of what others did, and may
// succeed if it alone is run again: at READ COMMITTED.
func (t *Txn) MayRestartStatement(err error) bool {
	return t.state == open && t.c.MayRestartStatement() && Retriable(err) && t.load.stamp == 0 && t.beat.aborted.Load() == nil
}

// RestartStatement undoes the running statement after MayRestartStatement; its locks stay. Its next attempt has a later
// snapshot.
func (t *Txn) RestartStatement() {
	t.db.metrics.StatementRestarts.Add(1)
	t.c.RestartStatement(t.db.o.Clock.Now())
}

// Weak reports whether the transaction is not serializable, so that constraints have to be read with CheckMany and
// CheckScan.
func (t *Txn) Weak() bool { return t.c.Level() != kv.Serializable }

// CheckMany reads keys for the sake of a constraint: those that have a value have one when the transaction commits, or
// it does not. Below SERIALIZABLE they are locked, so that whoever wants to remove them waits.
func (t *Txn) CheckMany(ctx context.Context, ks []keys.Key) ([][]byte, error) {
	if !t.Weak() {
		return t.GetMany(ctx, ks, kv.NoLock, kv.Block)
	}
	vs, err := t.GetMany(ctx, ks, kv.KeyShared, kv.Block)
	if err != nil {
		return nil, err
	}
	for i, k := range ks {
		if _, own := t.c.Buffered(k); vs[i] != nil && !own {
			t.c.NoteCheck(keys.Span{Start: k}, true)
		}
	}
	return vs, nil
}

// CheckScan is Scan for the sake of a constraint: what it finds is all that there is when the transaction commits, but
// for its own writes.
func (t *Txn) CheckScan(ctx context.Context, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	if !t.Weak() {
		return t.Scan(ctx, o)
	}
	if o.Lock == kv.NoLock {
		o.Lock = kv.KeyShared
	}
	rows, resume, err = t.Scan(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	read := keys.Span{Start: o.Span.Start, End: o.Span.Stop()}
	if resume != nil {
		if o.Reverse {
			read.Start = resume.End
		} else {
			read.End = resume.Start
		}
	}
	if read.Start.Less(read.End) {
		t.c.NoteCheck(read, false)
	}
	return rows, resume, nil
}

// noteLocked remembers rows that a locking read has returned.
func (t *Txn) noteLocked(lock kv.LockStrength, rows []kv.KeyValue) {
	if lock < kv.Shared || t.c.Level() != kv.ReadCommitted {
		return
	}
	for i := range rows {
		t.c.NoteLocked(rows[i].Key)
	}
}
