package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/fastpaxos/core"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

var (
	_ txn.Coordinator = (*coordinator)(nil)
)

// readable refuses what reads can't give.
func readable(t *kv.Txn, lock kv.LockStrength, wait kv.WaitPolicy, hold bool) error {
	if lock != kv.NoLock && (hold || wait != kv.Block) {
		return &txn.UnsupportedError{Protocol: kv.FastPaxos, What: "row locks"}
	}
	return nil
}

// Get implements txn.Coordinator.
func (x *coordinator) Get(ctx context.Context, t *kv.Txn, ks []keys.Key, o txn.ReadOptions) ([][]byte, error) {
	if err := readable(t, o.Lock, o.Wait, o.Hold); err != nil {
		return nil, err
	}
	var rows []core.Row
	var err error
	switch {
	case ofSnapshot(t):
		if o.Lock != kv.NoLock || x.rival != 0 {
			if err := x.await(ctx, func(k keys.Key) bool { return slices.ContainsFunc(ks, k.Equal) }); err != nil {
				return nil, err
			}
		}
		defer x.works()()
		rows, err = x.rows(ctx, t, ks, o.Repeats, o.Alone)
		if o.Check && err == nil {
			x.guarded(rows)
		}
	case o.Fresh || o.MaxAge < 0 && !o.Check:
		rows, err = x.getFresh(ctx, t, ks)
	case o.Check:
		rows, err = x.check(ctx, t, ks)
	default:
		if o.Lock != kv.NoLock || x.rival != 0 {
			if err := x.await(ctx, func(k keys.Key) bool { return slices.ContainsFunc(ks, k.Equal) }); err != nil {
				return nil, err
			}
		}
		defer x.works()()
		rows, err = x.c.readWithin(ctx, ks, x.within(o.MaxAge))
	}
	if err != nil {
		return nil, err
	}
	values := make([][]byte, len(ks))
	for i := range rows {
		if !ofSnapshot(t) {
			if x.fresher(&rows[i]); o.Current && !o.Fresh && !o.Check && o.MaxAge >= 0 {
				x.confirmLater(&rows[i])
			}
		}
		x.see(&rows[i])
		values[i] = rows[i].Value
	}
	return values, nil
}

// HasRead implements txn.Coordinator.
func (x *coordinator) HasRead(k keys.Key) bool {
	_, ok := x.seen[string(k)]
	return ok
}

// Scan implements txn.Coordinator: the rows of one range.
func (x *coordinator) Scan(ctx context.Context, t *kv.Txn, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	if err := readable(t, o.Lock, o.Wait, false); err != nil {
		return nil, nil, err
	}
	if o.Lock != kv.NoLock || x.rival != 0 {
		if err := x.await(ctx, o.Span.Contains); err != nil {
			return nil, nil, err
		}
	}
	defer x.works()()
	if (o.Fresh || o.MaxAge < 0) && !ofSnapshot(t) {
		return x.scanFresh(ctx, t, o)
	}
	var rows []core.Row
	var resume *keys.Span
	var err error
	if ofSnapshot(t) {
		rows, resume, err = x.scanAt(ctx, t, o)
	} else {
		rows, resume, err = x.c.scan(ctx, o, x.within(o.MaxAge))
	}
	if err != nil {
		return nil, nil, err
	}
	out := make([]kv.KeyValue, len(rows))
	for i := range rows {
		x.see(&rows[i])
		out[i] = kv.KeyValue{Key: rows[i].Key, Value: rows[i].Value}
	}
	return out, resume, nil
}

// options are the options of writes, at a timestamp that stamp draws when it is known what they replace.
//
// A row that the transaction has not read here it may have read while the range had another protocol (txn.MP6): everything that was written since the range has this one
// is later than what was read before, so a version later than the transaction's beginning is refused.
func (x *coordinator) options(ctx context.Context, t *kv.Txn, writes []transaction.Write, stamp func(seen clock.Timestamp) (clock.Timestamp, error)) (options []core.Option, ks []keys.Key, err error) {
	var unread []keys.Key
	for i := range writes {
		if _, ok := x.seen[string(writes[i].Key)]; !ok && !writes[i].Guard {
			unread = append(unread, writes[i].Key)
		}
	}
	if err := x.await(ctx, func(k keys.Key) bool { return slices.ContainsFunc(unread, k.Equal) }); err != nil {
		return nil, nil, err
	}
	rows, err := x.rows(ctx, t, unread, false, false)
	if uncertain := (*kv.UncertaintyError)(nil); errors.As(err, &uncertain) {
		return nil, nil, changed(uncertain.RetryAt)
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range rows {
		if !ofSnapshot(t) && t.MinTimestamp.Forward(x.since).Less(rows[i].Last) {
			return nil, nil, changed(rows[i].Last.Next())
		}
		x.see(&rows[i])
	}
	var seen clock.Timestamp
	for i := range writes {
		w := &writes[i]
		if w.Guard {
			u, last, err := x.guardOf(w.Key)
			if err != nil {
				return nil, nil, err
			}
			seen, ks = seen.Forward(last), append(ks, w.Key)
			options = append(options, core.Option{Name: core.Name{Txn: t.ID}, Update: u})
			continue
		}
		row := x.seen[string(w.Key)]
		if w.Conditional && !sameValue(w.Expected, row.Value) {
			if !ofSnapshot(t) {
				if err := x.confirm(ctx, t, []keys.Key{w.Key}, func(keys.Key) []byte { return row.Value }); err != nil {
					return nil, nil, err
				}
			}
			return nil, nil, &kv.ConditionFailedError{Key: w.Key, Actual: row.Value}
		}
		seen = seen.Forward(row.Seen.Base).Forward(row.Last)
		ks = append(ks, w.Key)
		o := core.Option{Name: core.Name{Txn: t.ID}, Update: core.Update{Seen: row.Seen, Value: w.Value}, Keys: ks}
		if len(w.Deltas) > 0 && row.Value != nil {
			o.Value = nil
			for _, d := range w.Deltas {
				o.Deltas = append(o.Deltas, core.Delta(d))
			}
		}
		options = append(options, o)
	}
	at, err := stamp(seen)
	if err != nil {
		return nil, nil, err
	}
	for i := range options {
		options[i].At, options[i].Keys = at, ks
	}
	return options, ks, nil
}

// Decide implements txn.Coordinator (fastpaxos.FP25).
func (x *coordinator) Decide(ctx context.Context, t *kv.Txn, writes []transaction.Write, deadline clock.Timestamp) (clock.Timestamp, error) {
	var before []core.Option
	for n := 0; ; n++ {
		at, options, again, err := x.decide(ctx, t, writes, deadline, before, n < proposals)
		if !again {
			return at, err
		}
		before = options
	}
}

// proposals is how often a transaction proposes again because readers have been promised that nothing changes up to a later timestamp than its own (fastpaxos.FP60). Chosen by us.
const proposals = 8

// decide proposes the writes once. before are the options of the last time, which have been rejected. again: they came too late for a reader, and nothing else is known to be in the way.
func (x *coordinator) decide(ctx context.Context, t *kv.Txn, writes []transaction.Write, deadline clock.Timestamp, before []core.Option, mayAgain bool) (at clock.Timestamp, options []core.Option, again bool, err error) {
	c := x.c
	options, ks, err := x.options(ctx, t, writes, func(seen clock.Timestamp) (clock.Timestamp, error) {
		if before == nil && mayAgain && seen.Less(x.drawn) && (deadline.IsZero() || x.drawn.LessEq(deadline)) && x.asRead(t, writes) {
			return x.drawn, nil
		}
		at := c.stamp(seen.Forward(x.floor).Forward(x.at))
		if !deadline.IsZero() && deadline.Less(at) {
			return at, &txn.DeadlineError{Deadline: deadline, At: at}
		}
		return at, nil
	})
	if err != nil || len(options) == 0 {
		return t.WriteTimestamp, nil, false, err
	}
	at = options[0].At
	defer x.works()()
	if t.Isolation == kv.Serializable && (x.at != at || at != x.drawn) {
		if err := x.validate(ctx, t, at, options, ks); err != nil {
			return clock.Timestamp{}, nil, false, err
		}
	}
	defer c.worksOn(options[0].Name)()
	begun := c.o.Host.Clock.Monotonic()
	a := c.attempt(options)
	if before != nil {
		a.before = make([]*core.Request, len(options))
		for i := range before {
			a.before[i] = end(ks[i], before[i], false)
		}
	}
	out, err := a.run(ctx)
	switch {
	case out == core.Accepted:
		for i, k := range ks {
			if !options[i].Commutes() {
				x.wrote(k, at)
			}
		}
		c.ended(options, ks, true)
		return at, nil, false, nil
	case out == core.Rejected && a.forgotten() && c.o.Host.Clock.Monotonic()-begun > late:
		return clock.Timestamp{}, nil, false, &kv.AmbiguousError{Reason: "the transaction is past, and may have committed"}
	case out == core.Rejected:
		c.ended(options, ks, false)
		if marked, only := a.tooLate(); only && mayAgain {
			x.floor = x.floor.Forward(marked)
			return clock.Timestamp{}, options, true, nil
		}
		return clock.Timestamp{}, nil, false, x.refused(ctx, a, at)
	case isOther(err):
		// Options in other ranges may have been accepted.
		committed, unsure := c.finish(ctx, &options[0], nil, true)
		switch {
		case committed:
			return at, nil, false, nil
		case unsure != nil:
			return clock.Timestamp{}, nil, false, &kv.AmbiguousError{Reason: fmt.Sprintf("%v; and %v", err, unsure)}
		case c.o.Host.Clock.Monotonic()-begun > late:
			return clock.Timestamp{}, nil, false, &kv.AmbiguousError{Reason: "the transaction is past, and may have committed"}
		}
		return clock.Timestamp{}, nil, false, err
	}
	// It is not known, and nobody waits for it any more; the transaction is not left for others to stumble over.
	o := options[0]
	c.later(func(ctx context.Context) { _, _ = c.Finish(ctx, &o, nil) })
	return clock.Timestamp{}, nil, false, &kv.AmbiguousError{Reason: err.Error()}
}

// late is how long after its first proposal an option that is Past may have been forgotten, rather than never have been accepted.
const late = core.Remembered / 2

// refused is why options at a timestamp were not accepted. It waits for others' options that stood in the way, so that another attempt does
// not meet them again; this transaction has nothing any more that they could wait for.
func (x *coordinator) refused(ctx context.Context, a *attempt, at clock.Timestamp) error {
	a.mu.Lock()
	out := &kv.WriteTooOldError{Actual: at}
	var hot []keys.Key
	var old []*core.Option // of which nothing but a newer version may be in the way
	for i := range a.commit.Polls {
		if v := a.commit.Polls[i].Learned; v != core.Accepted && !a.commit.Options[i].Commutes() {
			hot = append(hot, a.commit.Key(i)) // also if it is not known yet: the rows that two transactions have in common have to be hot for both
		}
		if v := a.commit.Polls[i].Learned; v == core.Rejected || v == core.Past {
			k := a.commit.Key(i)
			if out.Key == nil {
				out.Key = k
			}
			if !slices.ContainsFunc(a.blockers, func(b blocker) bool { return b.key.Equal(k) }) {
				old = append(old, &core.Option{Update: a.commit.Options[i].Update, Keys: []keys.Key{k}})
			}
		}
	}
	var wait []blocker
	for _, b := range a.blockers {
		if !slices.ContainsFunc(wait, func(o blocker) bool { return o.option.Name == b.option.Name }) {
			wait = append(wait, b)
		}
		out.Actual = out.Actual.Forward(b.option.At)
		out.By = b.option.Txn
		x.beaten(b.option.At)
	}
	a.mu.Unlock()
	for _, k := range hot {
		if len(x.turns) == 0 || x.hasTurn(k) {
			x.c.heat(k)
		} else {
			x.c.contest(k)
		}
	}
	x.afresh(hot)
	for _, b := range wait {
		if x.c.clear(ctx, b) != nil {
			break
		}
	}
	for _, o := range old {
		floor, err := x.c.refresh(ctx, o.Keys[0], o.Seen.Base)
		if err != nil {
			break
		}
		x.floor = x.floor.Forward(floor)
		out.Actual = out.Actual.Forward(floor)
		x.beaten(x.c.newestOwn(o.Keys[0]))
	}
	return out
}

// Write implements txn.Coordinator: options that other protocols' writes are committed with. Those that are learned as accepted are durable.
func (x *coordinator) Write(ctx context.Context, t *kv.Txn, writes []transaction.Write) error {
	c := x.c
	if t.Anchor == nil {
		return &kv.InternalError{Message: "fastpaxos: a transaction over several protocols without a record"} // its options would decide by themselves
	}
	options, ks, err := x.options(ctx, t, writes, func(seen clock.Timestamp) (clock.Timestamp, error) {
		if t.WriteTimestamp.LessEq(seen) {
			return seen, &kv.WriteTooOldError{Key: writes[0].Key, Actual: seen}
		}
		if now := c.o.Clock.Now(); t.WriteTimestamp.Less(now.Add(-late)) {
			return now, &kv.WriteTooOldError{Key: writes[0].Key, Actual: now} // acceptors may have forgotten options of then (fastpaxos.FP41)
		}
		return t.WriteTimestamp, nil
	})
	if err != nil || len(options) == 0 {
		return err
	}
	n := options[0].Name
	defer x.works()()
	if t.Isolation == kv.Serializable {
		if err := x.validate(ctx, t, n.At, options, ks); err != nil {
			return err
		}
	}
	a := c.attempt(options)
	a.before = make([]*core.Request, len(options))
	sent := map[string]core.Option{}
	for i := range options {
		o := &options[i]
		o.Keys, o.Anchor = []keys.Key{ks[i]}, t.Anchor
		if old, ok := x.sent[string(ks[i])]; ok && old.Name != n {
			// The attempt at an earlier timestamp is over (txn.MP1).
			a.before[i] = end(ks[i], old, false)
		}
		sent[string(ks[i])] = *o
	}
	x.sent = sent
	c.provides(t.ID, sent)
	begun := c.o.Host.Clock.Monotonic()
	out, err := a.run(ctx)
	var tooOld *kv.WriteTooOldError
	switch {
	case isOther(err):
		// The change may have found the write, and the transaction committed.
		r := commit.NewRecord(t, kv.Staging)
		list := make([]kv.InFlightWrite, len(ks))
		for i, k := range ks {
			list[i].Key = k
		}
		all, unsure := c.Witness(ctx, r, list)
		switch {
		case unsure != nil:
			return &kv.AmbiguousError{Reason: fmt.Sprintf("%v; and %v", err, unsure)}
		case all:
			return nil
		case c.o.Host.Clock.Monotonic()-begun > late:
			return &kv.AmbiguousError{Reason: "the write is past, and may have been found"}
		}
		return err
	case out == core.Accepted:
		return nil
	case out == core.Rejected && a.forgotten():
		// Somebody took the gateway for dead, and may have found the write before it was forgotten: the gateway asks the record (txn.MP4).
		return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: t.WriteTimestamp.Next().Forward(c.o.Clock.Now())}
	case out == core.Rejected:
		c.ended(options, ks, false)
		if marked, only := a.tooLate(); only {
			return &kv.WriteTooOldError{Key: ks[0], Actual: marked.Forward(c.o.Clock.Now())}
		}
		if err := x.refused(ctx, a, t.WriteTimestamp); !errors.As(err, &tooOld) {
			return err
		}
		// Its options replace what it has read, at whichever timestamp: it has to read again.
		return changed(tooOld.Actual.Next())
	}
	return err
}

// Committed implements txn.Coordinator (fastpaxos.FP22).
func (x *coordinator) Committed(at clock.Timestamp) {
	for k, o := range x.sent {
		if o.At == at && !o.Commutes() {
			x.c.owns(keys.Key(k), core.Value{At: at, Data: o.Value})
			x.wrote(keys.Key(k), at)
		}
	}
}

// Restarted implements txn.Coordinator: the next attempt reads again.
func (x *coordinator) Restarted(bool) {
	x.seen, x.since, x.at, x.spans = map[string]core.Row{}, x.c.o.Clock.Now(), clock.Timestamp{}, nil
	x.checked, x.fresh, x.unconfirmed, x.drawn = nil, nil, nil, clock.Timestamp{}
}

// Begin implements txn.Protocol.
func (c *Client) Begin() txn.Coordinator { return &coordinator{c: c, seen: map[string]core.Row{}} }
