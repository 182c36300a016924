package txn

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// ScanOptions say what to read. An empty Span.End reads the single key Span.Start.
type ScanOptions struct {
	Span    keys.Span
	Reverse bool
	Lock    kv.LockStrength
	Wait    kv.WaitPolicy
	// MaxRows and TargetBytes end the scan early with a resume span; zero is no bound.
	MaxRows     int64
	TargetBytes int64
	// Fresh, Repeats, Alone and MaxAge are those of ReadOptions.
	Fresh, Repeats, Alone bool
	MaxAge                time.Duration
	// Hold is that of ReadOptions; the transaction sets it (HoldLocks).
	Hold bool
	// Filter, if set, says which keys are wanted (txn.TX15).
	Filter Filter
	bare   bool // a part of a filtered scan, which locks the wanted rows afterwards
}

// Get reads a key, nil if it has no value, and locks it as lock says, also when there is no value. With
// kv.SkipLocked a locked key reads as nil.
func (t *Txn) Get(ctx context.Context, key keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	if err := t.reliable(); err != nil {
		return nil, err
	}
	lock = t.plain(key, lock)
	own, mine := t.core.Buffered(key)
	if mine && !(t.hold && lock != kv.NoLock) {
		return own, nil
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
	o := t.readOptions(lock, wait)
	v, err := []byte(nil), error(nil)
	if _, err := t.locate(ctx, key); err != nil {
		return nil, err
	}
	t.expect(key)
	if t.others == nil {
		v, err = t.keeper.Point(ctx, key, o)
	}
	if t.others != nil || t.handOver(err) {
		var vs [][]byte
		if vs, err = t.getDivided(ctx, []keys.Key{key}, o); err == nil {
			v = vs[0]
		}
	}
	if err != nil {
		return nil, err
	}
	if mine {
		return own, nil
	}
	return v, nil
}

func (t *Txn) readOptions(lock kv.LockStrength, wait kv.WaitPolicy) ReadOptions {
	return ReadOptions{Lock: lock, Wait: wait, Hold: t.hold && lock != kv.NoLock}
}

// LockFirst locks the first of some keys, in their order, that have a value and that no other transaction has locked: n of them. It returns the values of as many keys
// as it has tried; one that is nil has no value, or is locked by another transaction. At READ COMMITTED it passes over keys that have changed since the snapshot, if later ones
// will do (changed has them): Get locks such a key, or has the statement begin again.
func (t *Txn) LockFirst(ctx context.Context, ks []keys.Key, n int, lock kv.LockStrength) (values [][]byte, changed []bool, err error) {
	few := func() ([][]byte, []bool, error) {
		values, err := t.GetMany(ctx, ks[:min(n, len(ks))], lock, kv.SkipLocked)
		return values, make([]bool, len(values)), err
	}
	mine := func(k keys.Key) bool { _, ok := t.core.Buffered(k); return ok }
	if n >= len(ks) || t.load.flight != nil || slices.ContainsFunc(ks, mine) {
		return few()
	}
	if err := t.reliable(); err != nil {
		return nil, nil, err
	}
	if err := t.locateAll(ctx, ks); err != nil {
		return nil, nil, err
	}
	if t.others != nil {
		return few()
	}
	values, changed, err = t.keeper.First(ctx, ks, n, t.readOptions(lock, kv.SkipLocked))
	if t.handOver(err) {
		return few()
	}
	return values, changed, err
}

// ErrMalformed refuses an answer of the wrong kind.
var ErrMalformed = &kv.InternalError{Message: "txn: answer of the wrong kind"}

// HoldLocks says that the client has asked for the locks which are taken from now on, by SELECT FOR UPDATE and its like: the transaction
// commits only if it has held them all the time (coordinator.CO10).
func (t *Txn) HoldLocks(on bool) { t.hold = on }

// LosesLocks reports whether Restart gives up locks that the client asked for and got.
func (t *Txn) LosesLocks() bool { return t.keeper.HasHeld() && t.core.NeedsIdentity() }

// GetMany reads several keys, in parallel over their ranges. The values are in the order of the keys; with
// kv.SkipLocked a locked key reads as nil.
func (t *Txn) GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	if err := t.reliable(); err != nil {
		return nil, err
	}
	if len(ks) > 0 {
		lock = t.plain(ks[0], lock)
	}
	return t.getMany(ctx, ks, t.readOptions(lock, wait))
}

// GetFound reads several keys of which no more than enough ever have values at the same time, and returns when so many were found, without waiting
// for the ranges that have not answered yet; the other keys read as if they had none.
//
//	txn.TX9 (I2, I3): The result of GetFound depends only on the values that it has found, and those are reads as any other: the timestamp cache has
//	    them, and they are refreshed when the timestamp moves. The keys that were not read to the end are not among the transaction's reads.
//	    They need not be: whoever gives one of them a value takes the value of a found key away in the same transaction, at the same
//	    timestamp, and meets the read of the found key. So a row that moves from one region to another is found once, at any timestamp:
//	    where it was, or where it is. With a lock, only keys that have values are locked (gateway.Coordinator.lockFound), so a request that was given up
//	    leaves nothing behind: its key has no value as long as the found one is locked. Of a request that is on its way for longer than the transaction lasts, and meets a row that
//	    has moved there since, a lock may stay, as of any request that was given up: whoever meets it asks the transaction's record.
func (t *Txn) GetFound(ctx context.Context, ks []keys.Key, enough int, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	if err := t.reliable(); err != nil {
		return nil, err
	}
	if len(ks) > 0 {
		lock = t.plain(ks[0], lock)
	}
	o := t.readOptions(lock, wait)
	o.Enough = enough
	if lock != kv.NoLock {
		for _, k := range ks {
			if _, mine := t.core.Buffered(k); mine {
				o.Enough = 0 // ranges do not know yet which of the keys has the value
			}
		}
	}
	return t.getMany(ctx, ks, o)
}

// GetRows is GetFound for entries of an index, and returns with them rows to which they lead, of which recipe makes the keys (kv.Header.Follow). An entry may come without
// its row: then Get reads it. enough is zero if each of the keys may have a value. The rows are locked as lock says, if it is known that this locks all of a transaction's rows with
// one anchor; the entries are not.
//
//	txn.TX10 (I2, I3): A row that came with its entry is what Get would have returned at the time: it was read at the transaction's timestamp, counts among its reads, and the transaction
//	    itself has written nothing to it. Rows that it has written, or may have in flight, are left out. If the row was to be locked it is, as by Get (txn.TX3), and it came
//	    without a wait.
func (t *Txn) GetRows(ctx context.Context, ks []keys.Key, enough int, recipe []byte, lock kv.LockStrength) (values [][]byte, rows []kv.KeyValue, err error) {
	if err := t.reliable(); err != nil {
		return nil, nil, err
	}
	if len(ks) > 0 {
		lock = t.plain(ks[0], lock)
	}
	o := ReadOptions{Enough: enough}
	anchored := lock == kv.NoLock || len(ks) == 1 || enough == 1 || t.core.Txn().Anchor != nil
	if t.load.flight == nil && t.others == nil && !t.keeper.Flying() && anchored {
		o.Follow, o.FollowLock, o.Hold = recipe, lock, t.hold && lock != kv.NoLock
		o.Followed = func(row kv.KeyValue) {
			if _, mine := t.core.Buffered(row.Key); !mine {
				rows = append(rows, row)
			}
		}
	}
	values, err = t.getMany(ctx, ks, o)
	if err != nil {
		return nil, nil, err
	}
	return values, rows, nil
}

// readNewest locks what a write looks at, the running statement's own writes among it.
func (t *Txn) readNewest() ReadOptions {
	o := t.readOptions(kv.Exclusive, kv.Block)
	o.Newest = true
	return o
}

// getMany reads the values of ks; with o.Newest, including the running statement's writes.
func (t *Txn) getMany(ctx context.Context, ks []keys.Key, o ReadOptions) ([][]byte, error) {
	all := o.Newest
	if t.load.flight != nil {
		values, done, err := t.getLoaded(ctx, ks, o.Lock, o.Wait, all)
		if done || err != nil {
			return values, err
		}
	}
	if t.core.BufferEmpty() && len(ks) > 0 {
		return t.read(ctx, ks, o)
	}
	values := make([][]byte, len(ks))
	ask := make([]keys.Key, 0, len(ks))
	at := make([]int, 0, len(ks)) // of those without a buffered write; the others are locked nevertheless
	for i, k := range ks {
		v, ok := t.core.Buffered(k)
		if all {
			v, ok = t.core.BufferedNewest(k)
		}
		if !ok {
			ask, at = append(ask, k), append(at, i)
			continue
		}
		if values[i] = v; o.Hold {
			ask, at = append(ask, k), append(at, -1)
		}
		if v != nil && o.Enough > 0 {
			if o.Enough--; o.Enough == 0 {
				return values, nil
			}
		}
	}
	if len(ask) == 0 {
		return values, nil
	}
	read, err := t.read(ctx, ask, o)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		if i >= 0 {
			values[i] = read[j]
		}
	}
	return values, nil
}

// locateAll is locate and expect for the keys of a batch.
func (t *Txn) locateAll(ctx context.Context, ks []keys.Key) error {
	var start, end keys.Key // of the range that was looked up last
	for _, k := range ks {
		if k.Less(start) || !k.Less(end) {
			var err error
			if end, err = t.locate(ctx, k); err != nil {
				return err
			}
			start = k
		}
	}
	if t.db.meetsOthers() {
		for _, k := range ks {
			t.expect(k)
		}
	}
	return nil
}

// read reads keys from ranges.
func (t *Txn) read(ctx context.Context, ks []keys.Key, o ReadOptions) ([][]byte, error) {
	if err := t.locateAll(ctx, ks); err != nil {
		return nil, err
	}
	if t.others == nil {
		values, err := t.keeper.Get(ctx, nil, ks, o)
		if err == nil || !t.handOver(err) {
			return values, err
		}
	}
	return t.getDivided(ctx, ks, o)
}

// Scan reads a span in key order or against it. If it ended early, resume is the rest of the span; it may end early with fewer rows than
// MaxRows, even with none.
func (t *Txn) Scan(ctx context.Context, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	if err := t.reliable(); err != nil {
		return nil, nil, err
	}
	o.Hold = t.hold
	if !o.bare {
		o.Lock = t.plain(o.Span.Start, o.Lock)
	}
	s := keys.Span{Start: o.Span.Start, End: o.Span.Stop()}
	if s.End.Compare(s.Start) <= 0 {
		return nil, nil, nil
	}
	if o.Filter != nil {
		return t.scanFiltered(ctx, o)
	}
	var (
		at   clock.Timestamp
		past bool
	)
	if t.load.flight != nil {
		if at, past, err = t.settleRead(ctx, s); err != nil {
			return nil, nil, err
		}
	}
	ranges := o
	ranges.Span = s
	if !past {
		if _, err := t.locate(ctx, s.Start); err != nil {
			return nil, nil, err
		}
	}
	t.expect(s.Start)
	switch {
	case past:
		rows, resume, err = t.db.scanAt(ctx, ranges, at)
	case t.others == nil:
		rows, resume, err = t.keeper.Scan(ctx, nil, ranges)
		if err == nil || !t.handOver(err) {
			break
		}
		fallthrough
	default:
		rows, resume, err = t.scanDivided(ctx, ranges)
	}
	if tooLarge := (*kv.AnswerTooLargeError)(nil); errors.As(err, &tooLarge) && o.TargetBytes == 0 && o.MaxRows == 0 {
		o.TargetBytes = scanBytes
		return t.Scan(ctx, o)
	}
	if err != nil {
		return nil, nil, err
	}
	if read := Without(s, resume, o.Reverse); read.Start.Less(read.End) {
		rows = t.core.Overlay(rows, read, o.Reverse)
	}
	if n := int(o.MaxRows); n > 0 && len(rows) > n {
		// The buffer had further rows: the rows behind the last one are read again later.
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

// ScanFirst reads the first rows of several spans, all at the same time, in the direction of o.Reverse, and locks them. o.MaxRows and o.TargetBytes, one of which has to be set, bound the rows of each range; o.Span and
// o.Filter are not used. rests are the parts of the spans that were not read, nil where there is none. If it reports false it has read nothing, because not all of the ranges have leaseholders, or the rows are
// being loaded.
func (t *Txn) ScanFirst(ctx context.Context, spans []keys.Span, o ScanOptions) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error) {
	if err := t.reliable(); err != nil {
		return nil, nil, false, err
	}
	if t.load.flight != nil || t.others != nil || len(spans) == 0 || o.MaxRows == 0 && o.TargetBytes == 0 {
		return nil, nil, false, nil
	}
	o.Hold = t.hold
	o.Lock = t.plain(spans[0].Start, o.Lock)
	for _, s := range spans {
		if _, err := t.locate(ctx, s.Start); err != nil {
			return nil, nil, false, err
		}
		t.expect(s.Start)
	}
	if t.others != nil {
		return nil, nil, false, nil
	}
	rows, rests, err = t.keeper.ScanAll(ctx, spans, o)
	if err != nil {
		if t.handOver(err) {
			return nil, nil, false, nil
		}
		return nil, nil, false, err
	}
	for i, s := range spans {
		if read := Without(keys.Span{Start: s.Start, End: s.Stop()}, rests[i], o.Reverse); read.Start.Less(read.End) {
			rows[i] = t.core.Overlay(rows[i], read, o.Reverse)
		}
	}
	return rows, rests, true, nil
}

// Without is the part of a span that a scan with a resume span has read.
func Without(s keys.Span, resume *keys.Span, reverse bool) keys.Span {
	switch {
	case resume == nil:
	case reverse:
		s.Start = resume.End
	default:
		s.End = resume.Start
	}
	return s
}

// scanBytes is how much a scan without a bound reads at once when all of it is more than an answer may have.
const scanBytes = 1 << 20

// ScanMany reads several spans completely, in parallel over their ranges; o.Span, MaxRows and TargetBytes are not
// used. The rows are in the order of the spans. It fails with kv.AnswerTooLargeError where a range has more than kv.AnswerBytes of
// them, and so does GetMany: then the caller requests less at a time.
func (t *Txn) ScanMany(ctx context.Context, spans []keys.Span, o ScanOptions) ([][]kv.KeyValue, error) {
	if err := t.reliable(); err != nil {
		return nil, err
	}
	if len(spans) == 0 {
		return nil, nil
	}
	o.Hold = t.hold
	if !o.bare {
		o.Lock = t.plain(spans[0].Start, o.Lock)
	}
	if o.Filter != nil {
		return t.scanManyFiltered(ctx, spans, o)
	}
	if t.load.flight != nil {
		rows, done, err := t.scanLoaded(ctx, spans, o)
		if done || err != nil {
			return rows, err
		}
	}
	for _, s := range spans {
		if _, err := t.locate(ctx, s.Start); err != nil {
			return nil, err
		}
	}
	if t.db.meetsOthers() {
		for _, s := range spans {
			t.expect(s.Start)
		}
	}
	if t.others != nil {
		return t.scanManyDivided(ctx, spans, o)
	}
	o.MaxRows, o.TargetBytes = 0, 0
	out, rests, err := t.keeper.ScanAll(ctx, spans, o)
	if err == nil && slices.ContainsFunc(rests, func(r *keys.Span) bool { return r != nil }) {
		err = ErrMalformed
	}
	if err != nil {
		if t.handOver(err) {
			return t.scanManyDivided(ctx, spans, o)
		}
		return nil, err
	}
	for i, s := range spans {
		out[i] = t.core.Overlay(out[i], keys.Span{Start: s.Start, End: s.Stop()}, o.Reverse)
	}
	return out, nil
}
