package commit

import (
	"meridian/clock"
	"meridian/kv"
)

// The effects of requests on a record. These functions are pure: they take the stored record (nil: none) and give the one
// to store, or an error. Storing it is the caller's part.

// Heartbeat extends a transaction's life.
func Heartbeat(stored *Record, t *kv.Txn, now clock.Timestamp) (*Record, error) {
	if stored == nil {
		r := NewRecord(t, kv.Pending)
		r.Heartbeat, r.LockSpans = now, nil
		return r, nil
	}
	if Final(stored.Status) {
		return stored, nil
	}
	r := *stored
	r.Heartbeat = r.Heartbeat.Forward(now)
	return r.attempt(&t.TxnMeta), nil
}

// attempt is the pending record as of a later attempt, if the transaction is seen to have come to one: in the name of
// an old attempt, nobody could move the new one's intents. A staging record stays as it is until it is recovered.
func (r *Record) attempt(seen *kv.TxnMeta) *Record {
	if r.Status != kv.Pending || seen.Attempt <= r.Attempt {
		return r
	}
	c := *r
	c.Attempt, c.IgnoredSeqs = seen.Attempt, nil
	c.WriteTimestamp = c.WriteTimestamp.Forward(seen.WriteTimestamp)
	return &c
}

// End decides a transaction, or stages it if writes are in flight (commit.CR4). The transaction's write timestamp must be
// where it may commit. If the result equals stored, there is nothing to store.
func End(stored *Record, t *kv.Txn, commit bool, inFlight []kv.InFlightWrite, now clock.Timestamp) (*Record, error) {
	if stored != nil {
		switch stored.Status {
		case kv.Committed:
			if commit {
				return stored, nil
			}
			return nil, &CommittedError{stored.ID}
		case kv.Aborted:
			if commit {
				return nil, &kv.TxnAbortedError{ID: stored.ID, Reason: WhyAborted(&stored.TxnMeta, "the record says so")}
			}
		}
		// commit.CR3: somebody has pushed it.
		if commit && t.WriteTimestamp.Less(stored.WriteTimestamp) {
			return nil, &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: stored.WriteTimestamp}
		}
		if commit && t.Attempt < stored.Attempt {
			return nil, &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: stored.WriteTimestamp}
		}
	}
	r := NewRecord(t, kv.Aborted)
	r.Heartbeat = now
	if stored != nil {
		r.Heartbeat = stored.Heartbeat.Forward(now)
	}
	switch {
	case commit && len(inFlight) > 0:
		r.Status, r.InFlight = kv.Staging, inFlight
	case commit:
		r.Status = kv.Committed
	}
	return r, nil
}

// CommittedError says that a transaction that was to be rolled back is committed.
type CommittedError struct{ ID kv.TxnID }

func (e *CommittedError) Error() string {
	return "transaction " + e.ID.String() + " is already committed"
}

// PushOutcome is what becomes of a push.
type PushOutcome uint8

const (
	// PushNothing: the pushee is as the pusher wants it; nothing is to be stored.
	PushNothing PushOutcome = iota
	// PushStore: the record is to be stored.
	PushStore
	// PushWait: the pushee lives and is in the way.
	PushWait
	// PushRecover: the pushee is staging and its coordinator is gone; recover it first.
	PushRecover
)

// Push changes the pushee as the pusher wants, if it may.
//
// A PushTimestamp always wins against a pending transaction: it costs the pushee a refresh, while making a reader
// wait for a writer would cost the reader everything (CRDB'20 §3.3 lets reads push likewise). A PushAbort wins only
// against the dead, by force, or if it wounds. A staging transaction is not pushed before it is recovered, by a forced PushAbort as if its coordinator were dead: it may be committed. By a PushTouch with
// force, its pusher recovers it.
//
// gone says that the pushee's gateway is (kv.TxnMeta.Incarnation).
func Push(stored *Record, req *kv.PushTxnRequest, now clock.Timestamp, gone bool) (*Record, PushOutcome) {
	r := stored
	if r == nil {
		r = &Record{TxnMeta: req.Pushee, Status: kv.Pending}
	}
	r = r.attempt(&req.Pushee)
	switch {
	case Final(r.Status):
		return r, PushNothing
	case req.Kind == kv.PushTimestamp && req.PushTo.LessEq(r.WriteTimestamp):
		return r, PushNothing
	case r.Status == kv.Staging && req.Force && req.Kind == kv.PushTouch:
		return r, PushNothing // commit.CR6
	case r.Status == kv.Staging && (gone || r.Expired(now) || req.Force):
		return r, PushRecover
	case r.Status == kv.Staging:
		return r, PushWait
	case gone || r.Expired(now) || req.Force && req.Kind != kv.PushTimestamp || wounds(req, r):
		c := *r
		c.Status = kv.Aborted
		c.Heartbeat = c.Heartbeat.Forward(now)
		return &c, PushStore
	case req.Kind == kv.PushTimestamp:
		c := *r
		c.WriteTimestamp = req.PushTo
		return &c, PushStore
	}
	return r, PushWait
}

// wounds reports whether a push is that of an externally consistent transaction that wants a lock of a younger one (leader.P27).
func wounds(req *kv.PushTxnRequest, r *Record) bool {
	if req.Kind != kv.PushAbort || req.Pusher == nil || !req.Pusher.External() {
		return false
	}
	pushee := r.TxnMeta
	pushee.Born = pushee.Born.Forward(req.Pushee.Born) // the record may be of the time before
	return pushee.External() && req.Pusher.Older(&pushee)
}

// Finish applies what a recovery found. If the result equals stored, there is nothing to store: the transaction
// went on by itself, or was finished already.
func Finish(stored *Record, req *kv.RecoverTxnRequest) *Record {
	if stored.Status != kv.Staging || stored.Attempt != req.Txn.Attempt ||
		stored.WriteTimestamp != req.Txn.WriteTimestamp {
		return stored
	}
	c := *stored
	c.Status, c.InFlight = kv.Aborted, nil
	if req.ImplicitlyCommits {
		c.Status = kv.Committed
	}
	return &c
}
