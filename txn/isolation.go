package txn

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// commit/leader/coordinator defines the levels of isolation (coordinator.CO6 to coordinator.CO8). The caller brackets statements,
// because at READ COMMITTED each one has a snapshot of its own, and can be run again on its own.

// Isolation is the transaction's level now.
func (t *Txn) Isolation() kv.Isolation { return t.core.Level() }

// Started reports whether a statement has begun; the level can't be changed any more.
func (t *Txn) Started() bool { return t.core.Started() }

// Statements counts BeginStatement.
func (t *Txn) Statements() uint32 { return t.core.Statements() }

// SetIsolation changes the level, before the first statement.
func (t *Txn) SetIsolation(l kv.Isolation) {
	t.o.Isolation = l
	t.core.SetIsolation(l)
}

// Declare is SetIsolation by a client that asks for the level by name; also if it is the level that the transaction has.
func (t *Txn) Declare(l kv.Isolation) {
	t.o.Declared = true
	if !t.Started() {
		t.SetIsolation(l)
	}
}

// Harden makes the transaction serializable from here on, whatever its level: for work that relies on that.
func (t *Txn) Harden() {
	if t.core.Level() != kv.Serializable {
		t.core.BeginStatement()
		t.keeper.BeginStatement(t.db.o.Clock.Read())
		t.core.Harden()
		t.readPast()
	}
}

// BeginStatement is StepStatement for the beginning of a statement: at READ COMMITTED its snapshot is the present.
func (t *Txn) BeginStatement() {
	t.current = false
	var now clock.Reading
	if t.core.Level() == kv.ReadCommitted {
		now = t.db.o.Clock.Read()
	}
	t.core.BeginStatement()
	if t.keeper.BeginStatement(now); t.core.Level() == kv.ReadCommitted {
		t.readPast()
	}
	t.load.step()
}

// ReadCurrent says that the running statement changes rows: what it reads decides which, and whether it may.
//
//	txn.TX16 (read committed): A statement that changes rows has read, in tables of each protocol, what had committed when it began, or later. In leaders' ranges every read is so. At READ COMMITTED
//	    other protocols may read at the nearest replica: spans they read freshly (ScanOptions.Fresh), single keys as they are there, and the statement succeeds, or fails for a reason that the client
//	    is told, only when each of them that it does not write has been confirmed (Confirm). If one has not the value that was read, the statement is run again. A key that it writes needs no confirmation, and no
//	    further round: the write is refused if the state that was read is not the one that it replaces.
func (t *Txn) ReadCurrent() { t.current = true }

// SetMaxAge says how old what later reads see may be, in ranges whose plain reads may be of an earlier state (ReadOptions.MaxAge).
func (t *Txn) SetMaxAge(d time.Duration) { t.maxAge = d }

// SetRepeats says that other statements may follow the running one (ReadOptions.Repeats).
func (t *Txn) SetRepeats(on bool) { t.repeats = on }

// Implies says that the running statement has read an entry of an index, and a row that has it: if it writes the row, the entry is as it was read for as long as the row is.
func (t *Txn) Implies(entry, row keys.Key) {
	if t.others == nil || !t.current {
		return
	}
	if t.others.implied == nil {
		t.others.implied = map[string]keys.Key{}
	}
	t.others.implied[string(entry)] = row
}

// Confirm has what the running statement has read, and does not write, hold as of now (txn.TX16). *RetryError: the statement has to run again. Commit does it too.
func (t *Txn) Confirm(ctx context.Context) error {
	if t.others == nil || !t.current {
		return nil
	}
	if err := t.usable(); err != nil {
		return err
	}
	defer func() { t.others.implied = nil }()
	for i := range t.others.coordinators {
		err := t.others.coordinators[i].Confirm(ctx, t.asks(), func(k keys.Key) bool {
			_, mine := t.core.BufferedNewest(k)
			if row, ok := t.others.implied[string(k)]; ok && !mine {
				_, mine = t.core.BufferedNewest(row)
			}
			return mine
		})
		if retry := (*kv.TxnRetryError)(nil); errors.As(err, &retry) {
			return t.core.Fail(transaction.ReadChanged, err, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MayRestartStatement reports whether the running statement failed with err because of concurrent writes, and may succeed if it alone is
// run again: at READ COMMITTED.
func (t *Txn) MayRestartStatement(err error) bool {
	return t.state == open && t.core.MayRestartStatement() && Retriable(err) && t.load.stamp == 0 && t.beat.aborted.Load() == nil
}

// RestartStatement undoes the running statement after MayRestartStatement; its locks stay. Its next attempt has a later
// snapshot.
func (t *Txn) RestartStatement() {
	t.db.metrics.StatementRestarts.Add(1)
	t.keeper.RestartStatement(t.db.o.Clock.Read())
	t.readPast()
}

// Weak reports whether the transaction is not serializable, so that constraints have to be read with CheckMany and
// CheckScan.
func (t *Txn) Weak() bool { return t.core.Level() != kv.Serializable }

// CheckMany reads keys for a constraint: the transaction commits only if those that have a value still have one then. Below SERIALIZABLE
// they are locked, so that a transaction that removes them waits.
func (t *Txn) CheckMany(ctx context.Context, ks []keys.Key) ([][]byte, error) {
	return t.CheckFound(ctx, ks, 0)
}

// CheckFound is CheckMany for keys of which no more than enough, if that is not zero, ever have values at the same time: it does not wait for the others when so many
// were found, and locks none of them (GetFound).
func (t *Txn) CheckFound(ctx context.Context, ks []keys.Key, enough int) ([][]byte, error) {
	if err := t.reliable(); err != nil {
		return nil, err
	}
	o := t.readOptions(kv.NoLock, kv.Block)
	if t.Weak() {
		o = t.readOptions(kv.KeyShared, kv.Block)
	}
	o.Check = true
	if o.Enough = enough; o.Lock != kv.NoLock && slices.ContainsFunc(ks, func(k keys.Key) bool { _, mine := t.core.Buffered(k); return mine }) {
		o.Enough = 0 // ranges do not know yet which of the keys has the value
	}
	vs, err := t.getMany(ctx, ks, o)
	if err != nil {
		return nil, err
	}
	for i, k := range ks {
		if _, own := t.core.Buffered(k); vs[i] != nil && !own {
			t.mustExist(k)
		}
	}
	return vs, nil
}

// mustExist has a key that was read for a constraint keep its value until the commit.
func (t *Txn) mustExist(k keys.Key) {
	switch {
	case !protocol.Leased(t.protocol(k)):
		t.core.Guard(k)
	case t.Weak():
		t.keeper.Check(keys.Span{Start: k}, true)
	}
}

// Observe reads keys as they are below the transaction's own writes. The commit fails if one of them that it writes is changed by others from now on, or was since the transaction
// read it before. The leader protocol sees to that by itself.
func (t *Txn) Observe(ctx context.Context, ks []keys.Key) error {
	if err := t.reliable(); err != nil || len(ks) == 0 {
		return err
	}
	_, err := t.read(ctx, ks, ReadOptions{Wait: kv.Block})
	return err
}

// ReadFresh reads keys that the transaction is going to change, or that say whether it may: in ranges whose reads may be of an earlier state it sees what has committed by now, and its
// later reads of these keys do, too. Ranges of the leader protocol always do.
func (t *Txn) ReadFresh(ctx context.Context, ks []keys.Key) error {
	if err := t.reliable(); err != nil || len(ks) == 0 {
		return err
	}
	_, err := t.read(ctx, ks, ReadOptions{Wait: kv.Block, Fresh: true})
	return err
}

// CheckTogether is CheckMany of present and CheckAbsent of absent in one request, all with the running statement's own writes.
func (t *Txn) CheckTogether(ctx context.Context, present, absent []keys.Key) (found, taken [][]byte, err error) {
	o := ReadOptions{Wait: kv.Block, Newest: true, Check: true}
	if t.Weak() {
		o.Lock, o.Plain = kv.KeyShared, make(map[string]bool, len(absent))
		for _, k := range absent {
			o.Plain[string(k)] = true
		}
		for _, k := range present {
			delete(o.Plain, string(k))
		}
	}
	if err := t.reliable(); err != nil {
		return nil, nil, err
	}
	vs, err := t.getMany(ctx, append(slices.Clip(present), absent...), o)
	if err != nil {
		return nil, nil, err
	}
	found, taken = vs[:len(present)], vs[len(present):]
	note := func(ks []keys.Key, vs [][]byte, exist bool) {
		for i, k := range ks {
			_, own := t.core.BufferedNewest(k)
			switch {
			case own || (vs[i] != nil) != exist:
			case exist:
				t.mustExist(k)
			case protocol.Leased(t.protocol(k)):
				t.keeper.Check(keys.Span{Start: k}, false)
			}
		}
	}
	note(present, found, true)
	note(absent, taken, false)
	return found, taken, nil
}

// CheckAbsent reads keys for a constraint that wants them to have no value, the running statement's own writes among them: the transaction commits
// only if those without one still have none then, apart from its own writes. It takes no locks, because the keys may be far away and two
// transactions that look for each other's would wait for each other.
func (t *Txn) CheckAbsent(ctx context.Context, ks []keys.Key) ([][]byte, error) {
	if err := t.reliable(); err != nil {
		return nil, err
	}
	vs, err := t.getMany(ctx, ks, ReadOptions{Wait: kv.Block, Newest: true})
	if err != nil || !t.Weak() {
		return vs, err
	}
	for i, k := range ks {
		if _, own := t.core.BufferedNewest(k); vs[i] == nil && !own && protocol.Leased(t.protocol(k)) {
			t.keeper.Check(keys.Span{Start: k}, false)
		}
	}
	return vs, nil
}

// CheckScan is Scan for a constraint: the transaction commits only if the span has exactly the rows found, apart from its own writes. In ranges of other protocols than the leader's
// the rows are those that had committed when the scan began; what is committed later the caller has to exclude by other means.
func (t *Txn) CheckScan(ctx context.Context, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	if o.Fresh = true; !t.Weak() {
		return t.Scan(ctx, o)
	}
	if o.Lock == kv.NoLock {
		o.Lock = kv.KeyShared
	}
	rows, resume, err = t.Scan(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	read := Without(keys.Span{Start: o.Span.Start, End: o.Span.Stop()}, resume, o.Reverse)
	if read.Start.Less(read.End) && protocol.Leased(t.protocol(read.Start)) {
		t.keeper.Check(read, false)
	}
	return rows, resume, nil
}

// CheckScans is CheckScan of several spans, each completely, in parallel over their ranges.
func (t *Txn) CheckScans(ctx context.Context, spans []keys.Span) ([][]kv.KeyValue, error) {
	if !t.Weak() {
		return t.ScanMany(ctx, spans, ScanOptions{Fresh: true})
	}
	lists, err := t.ScanMany(ctx, spans, ScanOptions{Lock: kv.KeyShared, Fresh: true})
	if err != nil {
		return nil, err
	}
	for _, s := range spans {
		if protocol.Leased(t.protocol(s.Start)) {
			t.keeper.Check(keys.Span{Start: s.Start, End: s.Stop()}, false)
		}
	}
	return lists, nil
}

// CheckFirst is CheckScan of the beginnings of several spans, all at the same time (ScanFirst). The transaction commits only if the parts that it has read have exactly the rows found, apart from its own writes.
func (t *Txn) CheckFirst(ctx context.Context, spans []keys.Span, targetBytes int64) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error) {
	o := ScanOptions{TargetBytes: targetBytes}
	if t.Weak() {
		o.Lock = kv.KeyShared
	}
	if rows, rests, ok, err = t.ScanFirst(ctx, spans, o); !ok || err != nil || !t.Weak() {
		return rows, rests, ok, err
	}
	for i, s := range spans {
		if read := Without(keys.Span{Start: s.Start, End: s.Stop()}, rests[i], false); read.Start.Less(read.End) {
			t.keeper.Check(read, false)
		}
	}
	return rows, rests, true, nil
}
