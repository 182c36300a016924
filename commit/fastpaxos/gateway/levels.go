package gateway

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// The levels of isolation above read committed: a transaction that reads at one timestamp, and what its commit has to validate (fastpaxos.FP62, fastpaxos.FP63).

// snapshot is what a transaction reads at. A version that may have been written before it began makes the read uncertain.
func (x *coordinator) snapshot(t *kv.Txn) snapshot {
	return snapshot{at: t.ReadTimestamp, limit: t.UncertaintyLimit, by: t.ID, front: &x.front}
}

// certain reports whether a span was read at the transaction's timestamp (fastpaxos.FP88).
func (x *coordinator) certain(t *kv.Txn, span keys.Span) bool {
	return x.at == t.ReadTimestamp && slices.ContainsFunc(x.spans, func(s keys.Span) bool { return s.ContainsSpan(span) })
}

// early has the transaction read later, before its client has seen anything: at a timestamp at which no read is uncertain (fastpaxos.FP87). repeats says that other statements may follow.
func (x *coordinator) early(s snapshot, repeats bool) error {
	if at := x.front.latest(); repeats && len(x.spans) == 0 && s.at.Less(at) && s.at.Less(s.limit) {
		if s.at == x.drawn {
			x.drawn = x.c.stamp(at)
			return &kv.UncertaintyError{Value: at, RetryAt: x.drawn}
		}
		return &kv.UncertaintyError{Value: at, RetryAt: at}
	}
	return nil
}

// draw has a serializable transaction read at a timestamp that its options may have too (fastpaxos.FP89): one that this gateway has drawn, for this attempt of it, before anything is read. It costs no message.
func (x *coordinator) draw(t *kv.Txn, may bool) error {
	if !may || t.Isolation != kv.Serializable || t.ReadTimestamp.Less(t.MinTimestamp) || len(x.spans) > 0 || !x.drawn.IsZero() {
		return nil
	}
	x.drawn = x.c.stamp(t.ReadTimestamp)
	return &kv.UncertaintyError{Value: x.drawn, RetryAt: x.drawn}
}

// asRead reports whether a transaction's options may have the timestamp that it has read at (fastpaxos.FP89).
func (x *coordinator) asRead(t *kv.Txn, writes []transaction.Write) bool {
	if t.Isolation != kv.Serializable || x.drawn.IsZero() || x.at != x.drawn || t.ReadTimestamp != x.drawn || t.WriteTimestamp != x.drawn || x.drawn.Less(x.floor) ||
		x.drawn.Less(x.c.o.Clock.Now().Add(-asReadFor)) {
		return false
	}
	return !slices.ContainsFunc(writes, func(w transaction.Write) bool { return w.Guard || len(w.Deltas) > 0 })
}

// asReadFor is how old the timestamp may be: others judge by its age whether an option's gateway is at work, and replicas when its outcome may be forgotten. Chosen by us.
const asReadFor = roundTime

// rows reads rows as the transaction's level wants it.
func (x *coordinator) rows(ctx context.Context, t *kv.Txn, ks []keys.Key, repeats, alone bool) ([]core.Row, error) {
	if !ofSnapshot(t) || len(ks) == 0 {
		return x.c.read(ctx, ks)
	}
	if err := x.draw(t, repeats && alone); err != nil {
		return nil, err
	}
	if err := x.moved(ctx, t); err != nil {
		return nil, err
	}
	s := x.snapshot(t)
	if !slices.ContainsFunc(ks, func(k keys.Key) bool { return !x.certain(t, keys.Span{Start: k}) }) {
		s.limit = s.at
	}
	rows, newer, err := x.c.readAt(ctx, ks, s)
	if err = certainly(t, s, newer, err); err == nil {
		err = x.early(s, repeats)
	}
	if err != nil {
		return nil, err
	}
	for _, k := range ks {
		x.note(keys.Span{Start: k})
	}
	return rows, nil
}

// guarded remembers rows that have to be there at the commit (fastpaxos.FP80). A state that was read at the transaction's timestamp does for guards, and for those who look for references: a reference whose transaction has committed by
// then is seen, and the guard of a later one changes the state that was read.
func (x *coordinator) guarded(rows []core.Row) {
	if x.checked == nil {
		x.checked = map[string]core.Row{}
	}
	for i := range rows {
		x.checked[string(rows[i].Key)] = rows[i]
	}
}

// certainly is the error of a read at a timestamp, as transactions know it.
func certainly(t *kv.Txn, s snapshot, newer clock.Timestamp, err error) error {
	var old *oldError
	switch {
	case errors.As(err, &old) && t.ReadTimestamp.Less(t.MinTimestamp):
		return &txn.PastError{Protocol: kv.FastPaxos, At: s.at, Cause: err}
	case old != nil:
		e := changed(s.at.Forward(old.since)) // another attempt reads later
		e.Forgotten = true
		return e
	case err == nil && !newer.IsZero():
		return &kv.UncertaintyError{Value: newer, RetryAt: newer}
	}
	return err
}

// scanAt reads rows of a span at the transaction's timestamp.
func (x *coordinator) scanAt(ctx context.Context, t *kv.Txn, o txn.ScanOptions) (rows []core.Row, resume *keys.Span, err error) {
	if err := x.draw(t, o.Repeats && o.Alone); err != nil {
		return nil, nil, err
	}
	if err := x.moved(ctx, t); err != nil {
		return nil, nil, err
	}
	s := x.snapshot(t)
	if x.certain(t, keys.Span{Start: o.Span.Start, End: o.Span.Stop()}) {
		s.limit = s.at
	}
	rows, read, newer, err := x.c.scanAt(ctx, s.look(o.Span, o.Reverse, o.MaxRows, o.TargetBytes), s.front)
	if err = certainly(t, s, newer, err); err == nil {
		err = x.early(s, o.Repeats)
	}
	if err != nil {
		return nil, nil, err
	}
	rows = slices.DeleteFunc(rows, func(w core.Row) bool { return w.Value == nil })
	if n := int(o.MaxRows); n > 0 && len(rows) > n {
		if rows = rows[:n]; o.Reverse {
			read.Start = rows[n-1].Key
		} else {
			read.End = rows[n-1].Key.Next()
		}
	}
	x.note(read)
	return rows, restOf(o.Span, read, o.Reverse), nil
}

// look asks for a part of a span. A span of a single key has no end.
func (s snapshot) look(span keys.Span, reverse bool, most, bytes int64) core.Look {
	return core.Look{Span: keys.Span{Start: span.Start, End: span.Stop()}, Reverse: reverse, Max: most, Bytes: bytes, At: s.at, Limit: s.limit, By: s.by}
}

// note remembers what was read at x.at.
func (x *coordinator) note(s keys.Span) {
	for i := range x.spans {
		if x.spans[i].ContainsSpan(s) {
			return
		}
	}
	x.spans = append(x.spans, s)
}

// moved has what was read before hold at the transaction's timestamp, if that has moved.
func (x *coordinator) moved(ctx context.Context, t *kv.Txn) error {
	return x.Hold(ctx, t, t.ReadTimestamp)
}

// Hold implements txn.Coordinator.
func (x *coordinator) Hold(ctx context.Context, t *kv.Txn, at clock.Timestamp) error {
	if !ofSnapshot(t) {
		return nil
	}
	if x.at.Less(at) {
		if err := x.again(ctx, t, at, x.spans); err != nil {
			return err
		}
		x.at = at
	}
	return nil
}

// Reads implements txn.Coordinator.
func (x *coordinator) Reads() bool { return len(x.spans) > 0 }

// validate has what a serializable transaction has read hold at its commit timestamp, before anything of it is proposed (fastpaxos.FP63). Of a row that an option replaces the option says so by itself.
func (x *coordinator) validate(ctx context.Context, t *kv.Txn, at clock.Timestamp, options []core.Option, ks []keys.Key) error {
	var rest []keys.Span
	for _, s := range x.spans {
		if i := slices.IndexFunc(ks, s.Start.Equal); !s.Point() || i < 0 || options[i].Commutes() {
			rest = append(rest, s)
		}
	}
	return x.again(ctx, t, at, rest)
}

// again reads spans again, at a later timestamp, at the same time: one round, if no part of them is large. It fails if anything has changed since.
func (x *coordinator) again(ctx context.Context, t *kv.Txn, at clock.Timestamp, spans []keys.Span) error {
	var points []keys.Key
	var wide []keys.Span
	for _, span := range spans {
		if span.Point() {
			points = append(points, span.Start)
		} else {
			wide = append(wide, span)
		}
	}
	s := snapshot{at: at, limit: at, by: t.ID}
	var failed atomic.Bool // the others need not go on
	return x.c.all(len(wide)+min(len(points), 1), func(i int) (err error) {
		if i == len(wide) {
			err = x.pointsAgain(ctx, t, s, points)
		} else {
			for left := wide[i]; err == nil && left.Start.Less(left.End) && !failed.Load(); {
				left.Start, err = x.spanAgain(ctx, t, s, left)
			}
		}
		if err != nil {
			failed.Store(true)
		}
		return err
	})
}

// pointsAgain reads rows again.
func (x *coordinator) pointsAgain(ctx context.Context, t *kv.Txn, s snapshot, points []keys.Key) error {
	rows, newer, err := x.c.readAt(ctx, points, s)
	if err = certainly(t, s, newer, err); err != nil {
		return err
	}
	for i := range rows {
		if x.at.Less(rows[i].Last) {
			return changed(s.at)
		}
	}
	return nil
}

// spanAgain reads a part of a span again, at its beginning; the rest begins at rest.
func (x *coordinator) spanAgain(ctx context.Context, t *kv.Txn, s snapshot, span keys.Span) (rest keys.Key, err error) {
	rows, read, newer, err := x.c.scanAt(ctx, s.look(span, false, 0, scanBytes), nil)
	if err = certainly(t, s, newer, err); err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for i := range rows {
		if x.at.Less(rows[i].Last) {
			return nil, changed(s.at)
		}
		live[string(rows[i].Key)] = rows[i].Value != nil
	}
	for k, w := range x.seen {
		if w.Value != nil && read.Contains(keys.Key(k)) && !live[k] {
			return nil, changed(s.at)
		}
	}
	return read.End, nil
}

// scanBytes is how much is read at once when spans are read again.
const scanBytes = 1 << 20
