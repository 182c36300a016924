package leader

import (
	"bytes"
	"errors"
	"slices"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
)

// The end of a transaction, and its record.

// mayCommitInOnePhase checks that the transaction may commit at its write timestamp. All of its writes are in this batch, but another
// transaction may have pushed it, or taken it for dead.
//
// leader.P5: every operation on a transaction's record, and a one-phase commit, leaves a mark in the store's timestamp
// cache. So without a mark, and under a lease that is older than the transaction, there is no record; most
// transactions need not look for one.
func (ev *evaluation) mayCommitInOnePhase() error {
	ev.hasOwn = false
	low := *ev.p.low.Load()
	marked, own := ev.p.o.Cache.Marked(ev.txn.ID)
	if marked.Forward(low).Less(ev.txn.MinTimestamp) {
		return ev.mayCommitAt()
	}
	rec, err := ev.p.record(ev.p.o.Engine, ev.end.Anchor, ev.txn.ID)
	if err != nil {
		return err
	}
	if rec == nil {
		if own {
			return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: ev.txn.WriteTimestamp}
		}
		return ev.mayCommitAt()
	}
	ev.hasOwn = true
	switch rec.Status {
	case kv.Aborted:
		return &kv.TxnAbortedError{ID: rec.ID, Reason: commit.WhyAborted(&rec.TxnMeta, "the record says so")}
	case kv.Committed, kv.Staging:
		return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: rec.WriteTimestamp}
	}
	ev.pushWrite(rec.WriteTimestamp) // commit.CR3
	return ev.mayCommitAt()
}

// mayCommitAt checks that the transaction's snapshot is that of its commit, if its level requires that, and that the commit is before its
// deadline.
func (ev *evaluation) mayCommitAt() error {
	at := ev.txn.WriteTimestamp
	if ev.txn.ReadTimestamp.Forward(ev.end.Upto).Less(at) || !ev.end.Deadline.IsZero() && ev.end.Deadline.Less(at) {
		return &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: at}
	}
	return nil
}

// endOnePhase commits a transaction whose writes were all in this batch.
func (ev *evaluation) endOnePhase(r *kv.EndTxnRequest) (kv.Response, error) {
	p := ev.p
	if ev.hasOwn {
		ev.batch.Delete(keys.TxnKey(r.Anchor, ev.txn.ID))
	}
	if err := ev.trigger(r); err != nil {
		return nil, err
	}
	done := ev.txn.TxnMeta
	done.Anchor = r.Anchor
	ev.effects.records = append(ev.effects.records, &commit.Record{TxnMeta: done, Status: kv.Committed})
	ev.release(r.LockSpans, kv.Committed)
	return &kv.EndTxnResponse{OnePhase: true, CommitTimestamp: ev.txn.WriteTimestamp,
		Unresolved: outside(r.LockSpans, p.r.Desc())}, nil
}

// release lists the transaction's possible locks in the range, to be released in memory.
func (ev *evaluation) release(spans []keys.Span, s kv.Status) {
	ev.effects.released = slices.Grow(ev.effects.released, len(spans))
	for _, span := range spans {
		ev.effects.released = append(ev.effects.released, released{span, ev.txn.TxnMeta, s})
	}
}

func (ev *evaluation) trigger(r *kv.EndTxnRequest) error {
	if r.Trigger == nil {
		return nil
	}
	delta, err := ev.p.r.EvaluateTrigger(ev.batch, ev.batch, r.Trigger)
	if err != nil {
		return err
	}
	if err := ev.p.leaves(ev.batch, r.Trigger); err != nil {
		return err
	}
	ev.replicated.trigger = r.Trigger
	ev.replicated.delta.Add(delta)
	return nil
}

// endTxn decides a transaction by its record.
func (ev *evaluation) endTxn(r *kv.EndTxnRequest) (kv.Response, error) {
	p := ev.p
	if ev.txn == nil {
		return nil, &kv.InternalError{Message: "leader: EndTxn without a transaction"}
	}
	key := keys.TxnKey(r.Anchor, ev.txn.ID)
	var stored *commit.Record
	var err error
	if marked, own := p.o.Cache.Marked(ev.txn.ID); !marked.Forward(*p.low.Load()).Less(ev.txn.MinTimestamp) { // leader.P5
		if stored, err = ev.stored(key); err != nil {
			return nil, err
		}
		if stored == nil && own && ev.writes > 0 {
			// Its record was removed already: it is over, and its writes were resolved (leader.P13).
			return nil, &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: ev.txn.WriteTimestamp}
		}
	}
	var inFlight []kv.InFlightWrite
	if r.Commit {
		if stored != nil && !commit.Final(stored.Status) {
			ev.pushWrite(stored.WriteTimestamp) // commit.CR3
		}
		if stored == nil || stored.Status != kv.Committed {
			if err := ev.mayCommitAt(); err != nil && (stored == nil || stored.Status != kv.Aborted) {
				return nil, err
			}
		}
		inFlight = ev.elsewhere(r)
	}
	t := *ev.txn
	t.Anchor, t.LockSpans = r.Anchor, r.LockSpans
	rec, err := commit.End(stored, &t, r.Commit, inFlight, ev.now)
	if r.Commit && stored != nil && stored.Status == kv.Aborted {
		ev.p.o.Probes.Reached(probeAbortedFirst)
	}
	if r.Commit && stored != nil && stored.Status == kv.Committed {
		ev.p.o.Probes.Reached(probeRecoveredFirst)
	}
	if err != nil {
		var committed *commit.CommittedError
		if errors.As(err, &committed) {
			return nil, &kv.InternalError{Message: err.Error()}
		}
		return nil, err
	}
	d := p.r.Desc()
	resp := &kv.EndTxnResponse{CommitTimestamp: rec.WriteTimestamp}
	if rec == stored { // committed before
		if ev.w.Replays < ev.writes {
			// A late copy, of which some writes were resolved since: they must not be written again.
			return nil, &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: rec.WriteTimestamp}
		}
		resp.Unresolved = rec.LockSpans
		ev.release(r.LockSpans, rec.Status)
		return resp, nil
	}
	if rec.Status == kv.Staging {
		ev.putRecord(key, rec)
		ev.effects.records = append(ev.effects.records, rec)
		resp.Staged = true
		p.o.Metrics.Stages.Add(1)
		return resp, nil
	}
	left, err := ev.resolveOwn(r.LockSpans, rec, d)
	if err != nil {
		return nil, err
	}
	if resp.Unresolved = outside(r.LockSpans, d); len(left) > 0 {
		resp.Unresolved = append(resp.Unresolved, left...)
		ev.effects.finalized = rec
	}
	ev.release(r.LockSpans, rec.Status)
	ev.effects.records = append(ev.effects.records, rec)
	switch {
	case len(resp.Unresolved) > 0:
		out := *rec
		out.LockSpans = resp.Unresolved
		ev.putRecord(key, &out)
	case stored != nil:
		ev.batch.Delete(key) // commit.CR1: no transaction will need it
	}
	if rec.Status == kv.Committed {
		p.o.Metrics.Commits.Add(1)
		return resp, ev.trigger(r)
	}
	p.o.Metrics.Aborts.Add(1)
	return resp, nil
}

// elsewhere are the in-flight writes that are not in this batch: those that are become durable with the record itself, so they need no
// query (commit.CR4). Both lists are in the order in which they were made.
func (c *call) elsewhere(r *kv.EndTxnRequest) (out []kv.InFlightWrite) {
	if len(r.InFlight) == 0 || c.writes == 0 {
		return r.InFlight
	}
	i := 0
	for _, w := range r.InFlight {
		found := false
		for j := i; j < len(c.b.Requests); j++ {
			k, seq, ok := written(c.b.Requests[j])
			if ok && seq == w.Seq && bytes.Equal(k, w.Key) {
				i, found = j+1, true
				break
			}
		}
		if !found {
			out = append(out, w)
		}
	}
	return out
}

func written(r kv.Request) (keys.Key, kv.Seq, bool) {
	switch r := r.(type) {
	case *kv.PutRequest:
		return r.Key, r.Seq, true
	case *kv.CPutRequest:
		return r.Key, r.Seq, true
	case *kv.DeleteRequest:
		return r.Key, r.Seq, true
	case *kv.AddRequest:
		return r.Key, r.Seq, true
	}
	return nil, 0, false
}

func (*tooMuchError) Error() string { return "leader: the batch is too large for a command" }
