package mvcc

import (
	"bytes"
	"slices"

	"meridian/clock"
	"meridian/invariant"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// Uncertainty is the interval after a read timestamp in which a version may have been written before the reader
// began (CRDB'20 §4.2). The zero value is no uncertainty.
type Uncertainty struct {
	// Global ends the interval: the reader's first timestamp plus the maximum clock offset.
	Global clock.Timestamp
	// Local, if not zero, is a reading of the leaseholder's clock from when the reader had already begun:
	// versions whose local timestamp is later were written after that, and are not uncertain.
	Local clock.Timestamp
}

func (u Uncertainty) contains(ts, local clock.Timestamp) bool {
	if local.IsZero() {
		local = ts
	}
	return ts.LessEq(u.Global) && (u.Local.IsZero() || local.LessEq(u.Local))
}

// Outcomes knows how some transactions have ended, before all of their intents are resolved.
type Outcomes interface {
	// Committed reports whether a transaction is known to have committed, when, and with which attempt, having rolled
	// back nothing of that. It must be known for ever, whatever crashes: all of its writes are durable.
	Committed(kv.TxnID) (at clock.Timestamp, attempt uint32, ok bool)
	// Above is a time at or after which a transaction is known to commit, if it does. It must be so for ever.
	Above(kv.TxnID) clock.Timestamp
}

// committed reports whether an intent's version is known to be a version like any other (mvcc.M7).
func (l *Lock) committed(o Outcomes) bool {
	if o == nil || l.Strength != IntentStrength {
		return false
	}
	at, attempt, ok := o.Committed(l.Txn.ID)
	return ok && at == l.Txn.WriteTimestamp && attempt == l.Txn.Attempt
}

// ReadOptions say what a read sees.
type ReadOptions struct {
	// Timestamp of the read; zero means Txn.ReadTimestamp.
	Timestamp clock.Timestamp
	// Txn, if any, sees its own intents.
	Txn *kv.Txn
	// ReadSeq is the sequence number at which own intents are seen; zero means all of them.
	ReadSeq kv.Seq
	// Uncertainty makes versions in it an error.
	Uncertainty Uncertainty
	// Lock is the strength with which the caller is going to lock what it reads. Such a read conflicts with
	// other transactions' locks at any timestamp, and fails with WriteTooOldError on versions above Timestamp.
	Lock kv.LockStrength
	// SkipLocked leaves out keys that are locked by others instead of reporting a conflict.
	SkipLocked bool
	// Locked, if not nil, adds to SkipLocked the keys that it reports.
	Locked func(keys.Key) bool
	// Inconsistent reads pass by intents as if they were not there.
	Inconsistent bool
	// NoLocks says that the caller knows of no lock in the span, so the lock table is not looked at.
	NoLocks bool
}

// maxConflicts bounds the locks that a conflict reports.
const maxConflicts = 64

// read is the normal form of ReadOptions.
type read struct {
	*ReadOptions
	ts      clock.Timestamp // what is read
	visible clock.Timestamp // what has to be looked at: ts, the end of the uncertainty interval, or everything
	seq     kv.Seq
}

func (o *ReadOptions) normal() read {
	r := read{ReadOptions: o, ts: o.Timestamp, seq: o.ReadSeq}
	if r.ts.IsZero() && o.Txn != nil {
		r.ts = o.Txn.ReadTimestamp
	}
	r.visible = r.ts
	if o.Lock != kv.NoLock {
		r.visible = clock.MaxTimestamp
	} else {
		r.visible = r.visible.Forward(o.Uncertainty.Global)
	}
	if r.seq == 0 {
		r.seq = ^kv.Seq(0)
	}
	return r
}

// before reports whether what commits at a time or later is nothing that the read has to see. The time was not ahead of the leaseholder's
// clock when it was told of, so what is above the local limit had not committed when the reader began.
func (r *read) before(at clock.Timestamp) bool {
	limit := r.visible
	if u := r.Uncertainty; !u.Local.IsZero() {
		limit = r.ts.Forward(limit.Backward(u.Local))
	}
	return limit.Less(at)
}

// Value is a key's value. Bytes is nil if there is none, and not nil if there is an empty one.
type Value struct {
	Bytes     []byte
	Timestamp clock.Timestamp
}

// LockTable knows, without looking, which keys may have entries in the lock table, and which entries.
type LockTable interface {
	// Has reports whether there may be any on a key, MayHold whether there may be one that Outcomes lets nobody pass.
	Has(keys.Key) bool
	MayHold(keys.Key) bool
	// Entries appends those that there may be on a key, in any order. ok is false if they are not known.
	Entries(k keys.Key, to []LockID) (_ []LockID, ok bool)
	// EntriesWithin appends those that there may be in a span, in the order of their keys. ok is false if they are not known, or too many.
	EntriesWithin(start, end keys.Key, to []LockID) (_ []LockID, ok bool)
	// Dropped is a number that grows whenever the table no longer lists an entry.
	Dropped() uint64
}

// LockID names an entry of the lock table. Its key is not to be changed.
type LockID struct {
	Key      keys.Key
	Strength kv.LockStrength
	Txn      kv.TxnID
	// At and Attempt are those of the entry as it was written: with another timestamp than that of its transaction's commit it may have moved.
	At      clock.Timestamp
	Attempt uint32
}

// LockLog is told of entries that a Writer adds, and for which transaction and timestamp, and of those that it removes.
// An entry that is only changed is neither.
type LockLog interface {
	Laid(k keys.Key, strength kv.LockStrength, txn *kv.TxnMeta)
	Dropped(k keys.Key, strength kv.LockStrength, id kv.TxnID)
}

// Reader reads versions of one state of a store. It keeps its iterators from one operation to the next, so a
// request batch should use one Reader for all of its operations. It is for one goroutine.
type Reader struct {
	// Outcomes, if any, has intents of others that are known to be committed pass as versions (mvcc.M7).
	Outcomes Outcomes
	// Table, if any, spares operations the look at keys without entries, and at what is left of entries that were removed.
	Table LockTable
	// Seen is the latest version, or deletion, that reads have seen since Reset, and writes whose condition it did not meet, but for their own transaction's provisional ones.
	Seen clock.Timestamp

	src         engine.Reader
	data, locks *engine.Iterator

	dead      DeadRuns // nil: scans look at each key
	deadSince uint64   // dead.Since, before the iterators were made

	dataBounded, locksBounded bool // an operation set bounds
	dataStale, locksStale     bool // the indexed batch has changed since

	dropped uint64   // Table.Dropped, before the iterators were made
	listed  []LockID // by Table

	key, lockBuf, raw []byte
}

// NewReader makes a reader. Close it before src is closed.
func NewReader(src engine.Reader) *Reader { return &Reader{src: src} }

// Reset makes a closed or new reader read src; it lets callers keep readers in pools.
func (r *Reader) Reset(src engine.Reader) {
	clear(r.listed)
	*r = Reader{src: src, key: r.key[:0], lockBuf: r.lockBuf[:0], raw: r.raw[:0], listed: r.listed[:0]}
}

// Close releases the iterators.
func (r *Reader) Close() error {
	err := r.closeIters()
	r.src = nil
	return err
}

func (r *Reader) closeIters() error {
	var err error
	if r.data != nil {
		err = r.data.Close()
		r.data = nil
	}
	if r.locks != nil {
		if lerr := r.locks.Close(); err == nil {
			err = lerr
		}
		r.locks = nil
	}
	return err
}

// asked follows each answer of the table: iterators that are older than removals of entries are not used again (mvcc.M9).
func (r *Reader) asked() error {
	now := r.Table.Dropped()
	if now == r.dropped {
		return nil
	}
	r.dropped = now
	return r.closeIters()
}

// mayHold reports whether the lock table has to be looked at for a key.
func (r *Reader) mayHold(k keys.Key) (bool, error) {
	if r.Table == nil || r.Table.MayHold(k) {
		return true, nil
	}
	return false, r.asked()
}

// dataIter gives the iterator over versions, with the bounds if there are any.
func (r *Reader) dataIter(lower, upper keys.Key) (it *engine.Iterator, err error) {
	return iter(r.src, &r.data, &r.dataBounded, &r.dataStale, lower, upper)
}

// lockIter gives the iterator over the lock table. It is never newer than that over versions: else an intent could be removed in between, and its version be
// taken for one that is committed.
func (r *Reader) lockIter(lower, upper keys.Key) (it *engine.Iterator, err error) {
	if r.locks == nil && r.data != nil {
		if err := r.closeIters(); err != nil {
			return nil, err
		}
	}
	return iter(r.src, &r.locks, &r.locksBounded, &r.locksStale, lower, upper)
}

func iter(src engine.Reader, it **engine.Iterator, bounded, stale *bool, lower, upper keys.Key) (*engine.Iterator, error) {
	bound := len(lower) > 0 || len(upper) > 0
	if *it == nil {
		i, err := src.NewIter(engine.IterOptions{Lower: lower, Upper: upper})
		if err != nil {
			return nil, err
		}
		*it, *bounded, *stale = i, bound, false
		return i, nil
	}
	if bound || *bounded {
		(*it).SetBounds(lower, upper)
		*bounded = bound
	}
	if *stale {
		(*it).Refresh()
		*stale = false
	}
	return *it, nil
}

// view is what the locks on one key mean to a read.
type view struct {
	skip      clock.Timestamp   // a provisional version that does not exist for the reader
	skipToo   []clock.Timestamp // more of them (mvcc.M7)
	own       *Lock             // the reader's own intent, of its own attempt
	seen      seen              // what the reader sees of it
	conflicts []Intent
}

// consider takes one lock on the key into account.
func (v *view) consider(l *Lock, r *read, known Outcomes) error {
	intent := l.Strength == IntentStrength
	if r.Txn != nil && l.Txn.ID == r.Txn.ID {
		if !intent {
			return nil
		}
		if l.Txn.Attempt > r.Txn.Attempt {
			return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: l.Txn.WriteTimestamp}
		}
		v.own = l
		v.seen = l.at(r.Txn.Attempt, r.seq, r.Txn.IgnoredSeqs)
		if !v.seen.provisional {
			v.pass(l)
		}
		return nil
	}
	if l.committed(known) {
		return nil
	}
	if r.Inconsistent {
		if intent {
			v.pass(l)
		}
		return nil
	}
	if l.conflicts(r) {
		if intent && r.Lock == kv.NoLock && known != nil && r.before(known.Above(l.Txn.ID)) {
			v.pass(l) // mvcc.M8
			return nil
		}
		v.conflicts = append(v.conflicts, *l)
	} else if intent {
		v.pass(l) // nor is a provisional version uncertain (mvcc.M2)
	}
	return nil
}

// pass has the version of an intent skipped.
func (v *view) pass(l *Lock) {
	if v.skip.IsZero() {
		v.skip = l.Txn.WriteTimestamp
	} else {
		v.skipToo = append(v.skipToo, l.Txn.WriteTimestamp)
	}
}

// locksOn reads the locks on one key.
func (r *Reader) locksOn(k keys.Key, o *read, v *view) error {
	it, c, err := r.cursor(k)
	if err != nil {
		return err
	}
	c.pass(r.Outcomes, o.Txn)
	for ok := c.first(); ok; ok = c.next() {
		l, err := r.lockAt(it)
		if err != nil {
			return err
		}
		if err := v.consider(l, o, r.Outcomes); err != nil {
			return err
		}
	}
	return it.Error()
}

// lockCursor moves over the locks on one key, or in a span: to each that the table lists, or, if it does not know them, past all that is left of those which were removed.
type lockCursor struct {
	it      *engine.Iterator
	k       keys.Key // nil: the iterator has the bounds of a span
	reverse bool
	listed  []LockID
	known   bool
}

// cursor is for the locks on one key.
func (r *Reader) cursor(k keys.Key) (*engine.Iterator, lockCursor, error) {
	c := lockCursor{k: k}
	if r.Table != nil {
		if r.listed, c.known = r.Table.Entries(k, r.listed[:0]); c.known {
			c.listed = r.listed
			if err := r.asked(); err != nil {
				return nil, c, err
			}
		}
	}
	var err error
	c.it, err = r.lockIter(nil, nil)
	return c.it, c, err
}

// cursorWithin is for those in a span; an empty end means the single key start.
func (r *Reader) cursorWithin(start, end keys.Key) (*engine.Iterator, lockCursor, error) {
	if len(end) == 0 {
		return r.cursor(start)
	}
	var c lockCursor
	if r.Table != nil {
		if r.listed, c.known = r.Table.EntriesWithin(start, end, r.listed[:0]); c.known {
			c.listed = r.listed
			if err := r.asked(); err != nil {
				return nil, c, err
			}
		}
	}
	var err error
	if c.known {
		c.it, err = r.lockIter(nil, nil)
	} else {
		s := keys.LockSpan(start, end)
		c.it, err = r.lockIter(s.Start, s.End)
	}
	return c.it, c, err
}

// only leaves out other transactions' locks where the table lists all. Where it does not, they still come.
func (c *lockCursor) only(id kv.TxnID) {
	c.listed = slices.DeleteFunc(c.listed, func(l LockID) bool { return l.Txn != id })
}

// pass leaves out listed locks that are passed by all but their own transaction (mvcc.M7).
func (c *lockCursor) pass(known Outcomes, own *kv.Txn) {
	if known == nil {
		return
	}
	c.listed = slices.DeleteFunc(c.listed, func(l LockID) bool {
		if l.Strength != IntentStrength || own != nil && l.Txn == own.ID {
			return false
		}
		at, attempt, ok := known.Committed(l.Txn)
		return ok && at == l.At && attempt == l.Attempt
	})
}

func (c *lockCursor) first() bool {
	switch {
	case c.known:
		if c.reverse {
			slices.Reverse(c.listed)
		}
		return c.next()
	case c.k != nil:
		return c.it.SeekLockPrefix(c.k)
	case c.reverse:
		return c.it.Last()
	}
	return c.it.First()
}

func (c *lockCursor) next() bool {
	if !c.known {
		if c.reverse {
			return c.it.Prev()
		}
		return c.it.Next()
	}
	for len(c.listed) > 0 {
		l := &c.listed[0]
		if c.listed = c.listed[1:]; c.it.SeekLock(l.Key, uint8(l.Strength), l.Txn) {
			return true
		}
		if c.it.Error() != nil {
			return false
		}
	}
	return false
}

// lockAt decodes the lock that the iterator is at.
func (r *Reader) lockAt(it *engine.Iterator) (*Lock, error) {
	lk, ver := it.Key()
	k, err := keys.DecodeLockKey(lk)
	if err != nil {
		return nil, err
	}
	val, err := it.Value()
	if err != nil {
		return nil, err
	}
	return decodeLock(k, ver, val)
}

// Get reads a key. The value is the caller's to keep.
func (r *Reader) Get(k keys.Key, o *ReadOptions) (Value, error) {
	rd := o.normal()
	var v view
	if !o.NoLocks {
		look, err := r.mayHold(k)
		if err == nil && look {
			err = r.locksOn(k, &rd, &v)
		}
		if err != nil {
			return Value{}, err
		}
	}
	if o.SkipLocked && (len(v.conflicts) > 0 || o.Locked != nil && o.Locked(k)) {
		return Value{}, nil
	}
	if len(v.conflicts) > 0 {
		return Value{}, &LockConflictError{Intents: v.conflicts}
	}
	if v.own != nil && v.seen.past {
		val, err := decodeValue(v.seen.raw)
		if err != nil || val.tombstone {
			return Value{}, err
		}
		return Value{Bytes: clone(val.bytes), Timestamp: v.own.Txn.WriteTimestamp}, nil
	}
	it, err := r.dataIter(nil, nil)
	if err != nil {
		return Value{}, err
	}
	from := rd.visible
	if v.own != nil || from == clock.MaxTimestamp {
		from = clock.Timestamp{} // the newest, which may be an intent above what the transaction reads
	}
	for ok := it.SeekPrefixGE(k, from); ok; ok = it.Next() {
		_, ver := it.Key()
		found, val, ts, err := r.judge(it, k, ver, &rd, &v)
		if err != nil {
			return Value{}, err
		}
		if found {
			if val.tombstone {
				return Value{}, nil
			}
			return Value{Bytes: clone(val.bytes), Timestamp: ts}, nil
		}
	}
	return Value{}, it.Error()
}

// clone copies b; the copy is never nil.
func clone(b []byte) []byte {
	c := make([]byte, len(b))
	copy(c, b)
	return c
}

// judge decides about the version that the iterator is at, versions coming from newest to oldest: whether it is
// what the read sees. The value shares the iterator's memory.
func (r *Reader) judge(it *engine.Iterator, k keys.Key, ver []byte, rd *read, v *view) (found bool, val value, ts clock.Timestamp, err error) {
	ts, err = engine.DecodeTimestamp(ver)
	if err != nil || ts.IsZero() {
		return false, value{}, ts, err // an unversioned neighbour in a local keyspace
	}
	if v.own != nil && v.seen.provisional {
		if ts != v.own.Txn.WriteTimestamp {
			invariant.Check(v.own.Txn.WriteTimestamp.Less(ts), "intent on %s at %s has no version", k, v.own.Txn.WriteTimestamp)
			return false, value{}, ts, nil
		}
	} else {
		if ts == v.skip || len(v.skipToo) > 0 && slices.Contains(v.skipToo, ts) {
			return false, value{}, ts, nil
		}
		if rd.ts.Less(ts) {
			if rd.Lock != kv.NoLock {
				return false, value{}, ts, &kv.WriteTooOldError{Key: clone(k), Actual: ts}
			}
			if !rd.visible.Less(ts) && rd.ts.Less(rd.visible) {
				raw, err := it.Value()
				if err != nil {
					return false, value{}, ts, err
				}
				if val, err = decodeValue(raw); err != nil {
					return false, value{}, ts, err
				}
				if rd.Uncertainty.contains(ts, val.local) {
					return false, value{}, ts, uncertain(k, ts, rd)
				}
			}
			return false, value{}, ts, nil
		}
		r.Seen = r.Seen.Forward(ts)
	}
	raw, err := it.Value()
	if err != nil {
		return false, value{}, ts, err
	}
	val, err = decodeValue(raw)
	return true, val, ts, err
}

// uncertain makes the error. Retrying just above the version lets the transaction also write the key (mvcc.M3), and
// at the local limit nothing that this node has written is uncertain any more, nor is anything at the end of the interval.
func uncertain(k keys.Key, ts clock.Timestamp, rd *read) error {
	u := rd.Uncertainty
	return &kv.UncertaintyError{Key: clone(k), Value: ts, RetryAt: ts.Next().Forward(u.Local.Backward(u.Global))}
}

// CheckRefresh answers *kv.RefreshFailedError if a key of the span got a version, or has another transaction's
// intent, with a timestamp in (from, to]. An empty end means the single key start.
func (r *Reader) CheckRefresh(start, end keys.Key, from, to clock.Timestamp, txn *kv.Txn, noLocks bool) error {
	var id kv.TxnID
	if txn != nil {
		id = txn.ID
	}
	span := keys.Span{Start: start, End: end}
	var own map[string]clock.Timestamp
	look := !noLocks
	if look && span.Point() {
		var err error
		if look, err = r.mayHold(start); err != nil {
			return err
		}
	}
	if look {
		it, c, err := r.cursorWithin(start, end)
		if err != nil {
			return err
		}
		for ok := c.first(); ok; ok = c.next() {
			l, err := r.lockAt(it)
			if err != nil {
				return err
			}
			if l.Strength != IntentStrength {
				continue
			}
			if l.Txn.ID == id {
				if own == nil {
					own = make(map[string]clock.Timestamp)
				}
				own[string(l.Key)] = l.Txn.WriteTimestamp
			} else if l.Txn.WriteTimestamp.LessEq(to) && !l.committed(r.Outcomes) {
				return &kv.RefreshFailedError{Key: l.Key, Written: l.Txn.WriteTimestamp, By: l.Txn.ID, Gateway: l.Txn.Gateway}
			}
		}
		if err := it.Error(); err != nil {
			return err
		}
	}
	check := func(it *engine.Iterator) error {
		k, ver := it.Key()
		ts, err := engine.DecodeTimestamp(ver)
		if err != nil {
			return err
		}
		if from.Less(ts) && ts.LessEq(to) {
			if at, ok := own[string(k)]; !ok || at != ts {
				return &kv.RefreshFailedError{Key: clone(k), Written: ts}
			}
		}
		return nil
	}
	if span.Point() {
		it, err := r.dataIter(nil, nil)
		if err != nil {
			return err
		}
		for ok := it.SeekPrefixGE(start, to); ok; ok = it.Next() {
			_, ver := it.Key()
			if ts, err := engine.DecodeTimestamp(ver); err != nil || ts.LessEq(from) {
				return err
			}
			if err := check(it); err != nil {
				return err
			}
		}
		return it.Error()
	}
	it, err := r.src.NewIter(engine.IterOptions{Lower: start, Upper: end, MinTime: from, MaxTime: to})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := check(it); err != nil {
			return err
		}
	}
	return it.Error()
}

// HasLocks reports whether there is any lock in the span; an empty end means the single key start.
func (r *Reader) HasLocks(start, end keys.Key) (bool, error) {
	s := keys.LockSpan(start, end)
	it, err := r.lockIter(s.Start, s.End)
	if err != nil {
		return false, err
	}
	return it.First(), it.Error()
}

// Locks lists the locks in the span, at most max of them.
func (r *Reader) Locks(start, end keys.Key, max int) ([]Lock, error) {
	s := keys.LockSpan(start, end)
	it, err := r.lockIter(s.Start, s.End)
	if err != nil {
		return nil, err
	}
	var out []Lock
	for ok := it.First(); ok && len(out) < max; ok = it.Next() {
		l, err := r.lockAt(it)
		if err != nil {
			return nil, err
		}
		out = append(out, *l)
	}
	return out, it.Error()
}

// Intent finds a transaction's intent on a key, nil if there is none.
func (r *Reader) Intent(k keys.Key, id kv.TxnID) (*Lock, error) {
	it, c, err := r.cursor(k)
	if err != nil {
		return nil, err
	}
	if c.only(id); c.known && len(c.listed) == 0 {
		return nil, nil
	}
	if it.SeekLock(k, uint8(IntentStrength), id) {
		return r.lockAt(it)
	}
	return nil, it.Error()
}

// Provisional lists the values of intents in the span, at most max of them, whatever becomes of their transactions.
// Removals are left out.
func (r *Reader) Provisional(start, end keys.Key, max int) ([]kv.KeyValue, error) {
	locks, err := r.Locks(start, end, max)
	if err != nil {
		return nil, err
	}
	var out []kv.KeyValue
	for i := range locks {
		l := &locks[i]
		if l.Strength != IntentStrength {
			continue
		}
		it, err := r.dataIter(nil, nil)
		if err != nil {
			return nil, err
		}
		if !it.SeekPrefixGE(l.Key, l.Txn.WriteTimestamp) {
			if err := it.Error(); err != nil {
				return nil, err
			}
			continue
		}
		_, ver := it.Key()
		if ts, err := engine.DecodeTimestamp(ver); err != nil || ts != l.Txn.WriteTimestamp {
			continue
		}
		raw, err := it.Value()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(raw)
		if err != nil {
			return nil, err
		}
		if !v.tombstone {
			out = append(out, kv.KeyValue{Key: clone(l.Key), Value: append([]byte{}, v.bytes...), Timestamp: l.Txn.WriteTimestamp})
		}
	}
	return out, nil
}

func sameKey(a keys.Key, b []byte) bool { return bytes.Equal(a, b) }

// newest visits the versions of a key from newest to oldest until visit says that it has seen enough. lock is the
// intent that a version belongs to, nil if it has been resolved. raw is only good during the call.
func (r *Reader) newest(k keys.Key, visit func(ts clock.Timestamp, raw []byte, lock *Lock) (more bool, err error)) error {
	var intents []*Lock
	lt, c, err := r.cursor(k)
	if err != nil {
		return err
	}
	for ok := c.first(); ok; ok = c.next() {
		l, err := r.lockAt(lt)
		if err != nil {
			return err
		}
		if l.Strength == IntentStrength {
			intents = append(intents, l)
		}
	}
	if err := lt.Error(); err != nil {
		return err
	}
	it, err := r.dataIter(nil, nil)
	if err != nil {
		return err
	}
	for ok := it.SeekPrefixGE(k, clock.Timestamp{}); ok; ok = it.Next() {
		_, ver := it.Key()
		if len(ver) == 0 { // an unversioned neighbour in a local keyspace
			continue
		}
		ts, err := engine.DecodeTimestamp(ver)
		if err != nil {
			return err
		}
		var of *Lock
		for _, l := range intents {
			if l.Txn.WriteTimestamp == ts {
				of = l
			}
		}
		raw, err := it.Value()
		if err != nil {
			return err
		}
		if more, err := visit(ts, raw, of); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// Newest is the newest version of a key that is not an intent's, nil if there is none, and the intents' versions above
// it. One that removes the key has a timestamp and no value.
func (r *Reader) Newest(k keys.Key) (found *kv.KeyValue, provisional []kv.KeyValue, err error) {
	err = r.newest(k, func(ts clock.Timestamp, raw []byte, lock *Lock) (more bool, err error) {
		v, err := decodeValue(raw)
		if err != nil {
			return false, err
		}
		one := kv.KeyValue{Key: clone(k), Timestamp: ts}
		if !v.tombstone {
			one.Value = clone(v.bytes)
		}
		if lock != nil {
			provisional = append(provisional, one)
			return true, nil
		}
		found = &one
		return false, nil
	})
	return found, provisional, err
}

// LatestAt is the timestamp of the newest version of a key, provisional ones among them; zero if there is none.
func (r *Reader) LatestAt(k keys.Key) (at clock.Timestamp, err error) {
	it, err := r.dataIter(nil, nil)
	if err != nil {
		return at, err
	}
	for ok := it.SeekPrefixGE(k, clock.Timestamp{}); ok; ok = it.Next() {
		if _, ver := it.Key(); len(ver) > 0 {
			return engine.DecodeTimestamp(ver)
		}
	}
	return at, it.Error()
}

// Latest is the newest version of a key in a span without locks, whose table is not looked at: its timestamp, zero if there is none, and its value,
// nil if the version removes the key.
func (r *Reader) Latest(k keys.Key) (at clock.Timestamp, value []byte, err error) {
	it, err := r.dataIter(nil, nil)
	if err != nil {
		return at, nil, err
	}
	for ok := it.SeekPrefixGE(k, clock.Timestamp{}); ok; ok = it.Next() {
		_, ver := it.Key()
		if len(ver) == 0 { // an unversioned neighbour in a local keyspace
			continue
		}
		if at, err = engine.DecodeTimestamp(ver); err != nil {
			return at, nil, err
		}
		raw, err := it.Value()
		if err != nil {
			return at, nil, err
		}
		v, err := decodeValue(raw)
		if err == nil && !v.tombstone {
			value = clone(v.bytes)
		}
		return at, value, err
	}
	return at, nil, it.Error()
}

// Removal is the intent by which a key is being removed, nil if there is none: whether a range is being merged away.
//
// There may be other intents on the key, of transactions that have committed (mvcc.M7). Their writes are history; only the
// newest version counts.
func (r *Reader) Removal(k keys.Key) (l *Lock, err error) {
	err = r.newest(k, func(_ clock.Timestamp, raw []byte, lock *Lock) (more bool, err error) {
		if isTombstone(raw) {
			l = lock
		}
		return false, nil
	})
	return l, err
}
