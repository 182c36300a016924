package txn

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Loading: rows of an index that only this transaction knows, because it made the index itself, are written immediately as final versions
// just below the transaction's read timestamp (docs/decisions, bulk writes). They cost no buffer, no intents and nothing at the commit,
// which makes them visible by making the index known.
//
//	txn.LD1 (I2, I3): A key is loaded only into a span that no other transaction can read or write until this one commits,
//	    nor after it was rolled back: the span's name is never used again (PrivateSpans).
//	txn.LD2 (txn.TX4): Each load has a timestamp of its own, later than those before. A statement that has loaded reads
//	    private spans at a timestamp before its first load.
//	txn.LD3: A span that the transaction has written in any other way takes no more loads, so a load never meets an
//	    intent, and a value read in a span is either loaded, or is in the buffer or an intent.
//	txn.LD4 (I1): The transaction commits only after every load has been answered.

// Bounds of loads.
const (
	// loadMin is the number of writes from which on a batch is worth loading; fewer join the buffer, which saves a
	// round of consensus.
	loadMin = 256
	// loadRows and loadBytes bound one request, which is one raft command on each range.
	loadRows  = 4096
	loadBytes = 1 << 20
	// loadsInFlight bounds the requests in flight for one transaction, and with it their memory.
	loadsInFlight = 4
	// clearKeys is the number of keys that one request clears: a few milliseconds of its range's time.
	clearKeys = 10_000
)

// ErrLoaded is raised by a rollback to a savepoint before a load: only the end of the transaction undoes loads.
var ErrLoaded = errors.New("txn: loaded rows cannot be rolled back to a savepoint")

// PrivateSpans knows which keys only one transaction can address.
type PrivateSpans interface {
	// PrivateSpan is the part of the keyspace around k that only the transaction can address, now and if it does
	// not commit (txn.LD1); false if k is no such key.
	PrivateSpan(k keys.Key) (keys.Span, bool)
}

// SetPrivateSpans allows loads into the spans that p knows.
func (t *Txn) SetPrivateSpans(p PrivateSpans) { t.load.private = p }

// loads is a transaction's loading, one attempt of it.
type loads struct {
	private PrivateSpans
	spans   []loadSpan
	stamp   uint32 // of the last load
	// savepoints are those that the transaction might return to: nothing is loaded while there is one.
	savepoints int
	// stepped: this statement has loaded; it reads private spans at before.
	stepped bool
	before  clock.Timestamp

	flight *flight
}

// loadSpan is a private span that the transaction has written.
type loadSpan struct {
	keys.Span
	loaded, written bool
}

// flight has the loads in flight.
type flight struct {
	wg   sync.WaitGroup
	room chan struct{}

	mu  sync.Mutex // guards err; nothing is taken after it
	err error
}

func (f *flight) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *flight) fail(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
}

// span finds the private span of a key.
func (l *loads) span(k keys.Key) *loadSpan {
	for i := range l.spans {
		if l.spans[i].Contains(k) {
			return &l.spans[i]
		}
	}
	s, ok := l.private.PrivateSpan(k)
	if !ok {
		return nil
	}
	l.spans = append(l.spans, loadSpan{Span: s})
	return &l.spans[len(l.spans)-1]
}

// divert loads the part of a batch that may be loaded and returns the rest.
func (t *Txn) divert(ctx context.Context, b *WriteBatch) (*WriteBatch, error) {
	l := &t.load
	if l.private == nil || len(b.ops) == 0 {
		return b, nil
	}
	if l.savepoints > 0 {
		l.wrote(b)
		return b, nil
	}
	var rows []kv.KeyValue
	var rest *WriteBatch
	var last *loadSpan
	for i := range b.ops {
		o := &b.ops[i]
		// Most batches go through the indexes in turn; looking at the span before costs little.
		if last == nil || !last.Contains(o.key) {
			last = l.span(o.key)
		}
		fresh := o.kind == opPutNew || o.kind == opPutFresh
		switch {
		case last == nil:
		case fresh && !last.written && (last.loaded || len(b.ops) >= loadMin):
			last.loaded = true
			if rest == nil {
				rest = &WriteBatch{ops: slices.Clone(b.ops[:i])}
				rows = make([]kv.KeyValue, 0, len(b.ops)-i)
			}
			rows = append(rows, kv.KeyValue{Key: o.key, Value: notNil(o.value)})
			continue
		default:
			last.written = true // txn.LD3
		}
		if rest != nil {
			rest.add(*o)
		}
	}
	if rest == nil {
		return b, nil
	}
	return rest, t.startLoads(ctx, rows)
}

// wrote notes that the batch is written in another way (txn.LD3).
func (l *loads) wrote(b *WriteBatch) {
	var last *loadSpan
	for i := range b.ops {
		if last == nil || !last.Contains(b.ops[i].key) {
			last = l.span(b.ops[i].key)
		}
		if last != nil {
			last.written = true
		}
	}
}

func byKey(a, b kv.KeyValue) int { return bytes.Compare(a.Key, b.Key) }

// startLoads sends rows to their ranges. An error there is returned later, at the latest by the commit.
func (t *Txn) startLoads(ctx context.Context, rows []kv.KeyValue) error {
	if !slices.IsSortedFunc(rows, byKey) {
		slices.SortFunc(rows, byKey)
	}
	for i := 1; i < len(rows); i++ {
		if bytes.Equal(rows[i-1].Key, rows[i].Key) {
			return &kv.ConditionFailedError{Key: rows[i].Key, Actual: rows[i-1].Value}
		}
	}
	l := &t.load
	if l.flight == nil {
		l.flight = &flight{room: make(chan struct{}, loadsInFlight)}
	}
	if !l.stepped {
		l.stepped, l.before = true, t.loadAt(l.stamp)
	}
	t.db.o.Probes.Reached("txn: rows loaded")
	for len(rows) > 0 {
		n := loadPart(rows)
		l.stamp++
		if err := t.startLoad(ctx, rows[:n:n], t.loadAt(l.stamp)); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// loadPart is how many of the rows go into one request.
func loadPart(rows []kv.KeyValue) int {
	size := 0
	for i := range rows {
		if size += len(rows[i].Key) + len(rows[i].Value); i == loadRows || i > 0 && size > loadBytes {
			return i
		}
	}
	return len(rows)
}

// loadAt is the timestamp of a load: below all that the transaction reads, above earlier loads (txn.LD2).
func (t *Txn) loadAt(stamp uint32) clock.Timestamp {
	return clock.Timestamp{Wall: t.core.Txn().ReadTimestamp.Wall - 1, Logical: stamp}
}

func (t *Txn) startLoad(ctx context.Context, rows []kv.KeyValue, at clock.Timestamp) error {
	f := t.load.flight
	select {
	case f.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.failure(); err != nil {
		<-f.room
		return err
	}
	f.wg.Add(1)
	// The group's context: a load that has begun is waited for, or it could come after the span was cleared.
	if !t.db.o.Host.Group.Go(func(ctx context.Context) {
		defer f.wg.Done()
		defer func() { <-f.room }()
		if err := t.db.loadAlone(ctx, rows, at); err != nil {
			f.fail(err)
		}
	}) {
		<-f.room
		f.wg.Done()
		return &kv.UnavailableError{Reason: "node stopped"}
	}
	return nil
}

// loadAlone loads rows that no other transaction can address, and translates the answer into that of a write.
func (db *DB) loadAlone(ctx context.Context, rows []kv.KeyValue, at clock.Timestamp) error {
	_, err := db.load(ctx, rows, kv.LoadAlone, at)
	var old *kv.WriteTooOldError
	if !errors.As(err, &old) {
		return err
	}
	// A later load of the same transaction was faster: the key is there twice.
	if v, gerr := db.getAt(ctx, old.Key, old.Actual); gerr == nil && v != nil {
		return &kv.ConditionFailedError{Key: old.Key, Actual: v}
	}
	return err
}

// load sends one load and returns the keys that were refused.
func (db *DB) load(ctx context.Context, rows []kv.KeyValue, mode kv.LoadMode, at clock.Timestamp) ([]keys.Key, error) {
	r, err := db.o.Sender.Send(ctx, &kv.Batch{
		Header:   kv.Header{Timestamp: at},
		Requests: []kv.Request{&kv.LoadRequest{Rows: rows, Mode: mode}},
	})
	if other := (*kv.ProtocolError)(nil); errors.As(err, &other) {
		return nil, &UnsupportedError{Protocol: other.Protocol, What: "the load of many rows at once"}
	}
	if err != nil {
		return nil, err
	}
	loaded, ok := kv.Sole[*kv.LoadResponse](r)
	if !ok {
		return nil, ErrMalformed
	}
	return loaded.Refused, nil
}

// HasLoaded reports whether the transaction has loaded rows into a span.
func (t *Txn) HasLoaded(s keys.Span) bool {
	for i := range t.load.spans {
		if x := &t.load.spans[i]; x.loaded && x.Overlaps(s) {
			return true
		}
	}
	return false
}

// Settle returns when all writes so far are visible to reads, with their error.
func (t *Txn) Settle(ctx context.Context) error {
	f := t.load.flight
	if f == nil {
		return nil
	}
	for range loadsInFlight {
		select {
		case f.room <- struct{}{}:
			defer func() { <-f.room }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.failure()
}

// step draws the line of StepStatement for loads.
func (l *loads) step() { l.stepped = false }

// settleRead prepares for a read. past says that it has to ignore the rows that the running statement has loaded, by reading
// at the timestamp (txn.LD2); the keys are private, so there is nothing to lock and nothing to refresh.
func (t *Txn) settleRead(ctx context.Context, s keys.Span) (at clock.Timestamp, past bool, err error) {
	l := &t.load
	for i := range l.spans {
		if x := &l.spans[i]; x.loaded && x.Overlaps(s) {
			return l.before, l.stepped, t.Settle(ctx)
		}
	}
	return at, false, nil
}

// getAt reads a key as it was, outside of the transaction.
func (db *DB) getAt(ctx context.Context, k keys.Key, at clock.Timestamp) ([]byte, error) {
	r, err := db.o.Sender.Send(ctx, &kv.Batch{Header: kv.Header{Timestamp: at}, Requests: []kv.Request{&kv.GetRequest{Key: k}}})
	if err != nil {
		return nil, err
	}
	get, ok := kv.Sole[*kv.GetResponse](r)
	if !ok {
		return nil, ErrMalformed
	}
	return get.Value, nil
}

// scanAt scans a span as it was, outside of the transaction.
func (db *DB) scanAt(ctx context.Context, o ScanOptions, at clock.Timestamp) ([]kv.KeyValue, *keys.Span, error) {
	r, err := db.o.Sender.Send(ctx, &kv.Batch{
		Header:   kv.Header{Timestamp: at, WaitPolicy: o.Wait, MaxKeys: o.MaxRows, TargetBytes: o.TargetBytes},
		Requests: []kv.Request{&kv.ScanRequest{Start: o.Span.Start, End: o.Span.End, Reverse: o.Reverse}},
	})
	if err != nil {
		return nil, nil, err
	}
	scan, ok := kv.Sole[*kv.ScanResponse](r)
	if !ok {
		return nil, nil, ErrMalformed
	}
	return scan.Rows, scan.Resume, nil
}

// getLoaded is getMany one by one, if the running statement has loaded next to one of the keys.
func (t *Txn) getLoaded(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy, all bool) (values [][]byte, done bool, err error) {
	for _, k := range ks {
		_, past, err := t.settleRead(ctx, keys.Span{Start: k})
		if err != nil {
			return nil, false, err
		}
		done = done || past && !all // with all, it sees its own writes
	}
	if !done {
		return nil, false, nil
	}
	values = make([][]byte, len(ks))
	for i, k := range ks {
		if values[i], err = t.Get(ctx, k, lock, wait); err != nil {
			return nil, true, err
		}
	}
	return values, true, nil
}

// scanLoaded is ScanMany one by one, if the running statement has loaded into one of the spans.
func (t *Txn) scanLoaded(ctx context.Context, spans []keys.Span, o ScanOptions) (out [][]kv.KeyValue, done bool, err error) {
	for _, s := range spans {
		_, past, err := t.settleRead(ctx, s)
		if err != nil {
			return nil, false, err
		}
		done = done || past
	}
	if !done {
		return nil, false, nil
	}
	out = make([][]kv.KeyValue, len(spans))
	for i, s := range spans {
		o.MaxRows, o.TargetBytes = 0, 0
		o.Span = keys.Span{Start: s.Start, End: s.Stop()}
		if out[i], _, err = t.Scan(ctx, o); err != nil {
			return nil, true, err
		}
	}
	return out, true, nil
}

// dropLoads begins a new attempt, or ends the last one, and removes loaded rows that are not needed: all of them, or with keep those to
// which no descriptor leads after the commit.
func (t *Txn) dropLoads(keep bool) {
	l := &t.load
	f := l.flight
	var gone []keys.Span
	for i := range l.spans {
		s := &l.spans[i]
		if !s.loaded {
			continue
		}
		if keep {
			if _, ok := l.private.PrivateSpan(s.Start); ok {
				continue
			}
		}
		gone = append(gone, s.Span)
	}
	t.load = loads{private: l.private}
	if len(gone) == 0 || f == nil {
		return
	}
	db := t.db
	db.o.Host.Group.Go(func(ctx context.Context) {
		f.wg.Wait()
		for _, s := range gone {
			if err := db.Clear(ctx, s); err != nil {
				db.o.Probes.Reached("txn: loaded rows left behind")
			}
		}
	})
}

// Clear removes all versions of all keys of a span, in small steps. The span must not be read any more, at any timestamp.
func (db *DB) Clear(ctx context.Context, s keys.Span) error {
	return db.ClearBelow(ctx, s, clock.Timestamp{})
}

// ClearBelow is Clear for a span that may still be read at or below a timestamp: such reads are refused from now on, in all data of the
// span's ranges (kv.BelowGCError).
func (db *DB) ClearBelow(ctx context.Context, s keys.Span, threshold clock.Timestamp) error {
	for {
		r, err := db.direct(ctx, &kv.ClearRequest{Start: s.Start, End: s.Stop(), Max: clearKeys, Threshold: threshold})
		if err != nil {
			return err
		}
		cleared, ok := kv.Sole[*kv.DeleteRangeResponse](r)
		if !ok {
			return ErrMalformed
		}
		if cleared.Resume == nil {
			return nil
		}
	}
}

// LoadAt writes rows outside of any transaction at the timestamp at which the caller has read their sources,
// into spans that others may write too, and perhaps look for (kv.LoadShared, kv.LoadUnread). The rows are in key order, each
// key once. It returns the keys that are in use, and does not write them. After an error some of the rows were written, or none.
func (db *DB) LoadAt(ctx context.Context, rows []kv.KeyValue, mode kv.LoadMode, at clock.Timestamp) (refused []keys.Key, err error) {
	for len(rows) > 0 {
		n := loadPart(rows)
		more, err := db.load(ctx, rows[:n:n], mode, at)
		if err != nil {
			return nil, err
		}
		refused = append(refused, more...)
		rows = rows[n:]
	}
	return refused, nil
}
