package leader

import (
	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// record reads a transaction record; nil if there is none.
func (p *Participant) record(src engine.Reader, anchor keys.Key, id kv.TxnID) (*commit.Record, error) {
	key := keys.TxnKey(anchor, id)
	b, err := src.Get(key)
	if err != nil || b == nil {
		return nil, err
	}
	return decodeRecord(key, b)
}

// decodeRecord reads a record. The error of one that can't be read says so to whoever needs its transaction's outcome, and to nobody else.
func decodeRecord(key keys.Key, b []byte) (*commit.Record, error) {
	r, err := commit.DecodeRecord(b)
	if err != nil {
		return nil, kv.Unreadable("a transaction record", key, err)
	}
	return r, nil
}

// stored reads a record with the changes of the batch.
func (ev *evaluation) stored(key keys.Key) (*commit.Record, error) {
	var b []byte
	var err error
	if ev.batch.Indexed() {
		b, err = ev.batch.Get(key)
	} else {
		b, err = ev.p.o.Engine.Get(key)
	}
	if err != nil || b == nil {
		return nil, err
	}
	return decodeRecord(key, b)
}

// putRecord stores a record, and leaves its mark (leader.P5).
func (ev *evaluation) putRecord(key keys.Key, r *commit.Record) {
	ev.batch.Put(key, r.Append(nil))
	ev.effects.marks = append(ev.effects.marks, r.ID)
}

// removeRecord removes a record that has ended.
func (ev *evaluation) removeRecord(key keys.Key, id kv.TxnID) error {
	rec, err := ev.stored(key)
	if err != nil || rec == nil || !commit.Final(rec.Status) || rec.ID != id {
		return err
	}
	ev.batch.Delete(key)
	return nil
}

func (ev *evaluation) heartbeat(r *kv.HeartbeatTxnRequest) (kv.Response, error) {
	if ev.txn == nil {
		return nil, &kv.InternalError{Message: "leader: HeartbeatTxn without a transaction"}
	}
	key := keys.TxnKey(r.Anchor, ev.txn.ID)
	stored, err := ev.stored(key)
	if err != nil {
		return nil, err
	}
	t := *ev.txn
	t.Anchor = r.Anchor
	rec, err := commit.Heartbeat(stored, &t, ev.now)
	if err != nil {
		return nil, err
	}
	if rec != stored {
		ev.putRecord(key, rec)
	}
	return &kv.HeartbeatTxnResponse{Txn: rec.Txn()}, nil
}

func (ev *evaluation) recoverTxn(r *kv.RecoverTxnRequest) (kv.Response, error) {
	key := keys.TxnKey(r.Txn.Anchor, r.Txn.ID)
	stored, err := ev.stored(key)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		// It ended, and its intents are resolved (commit.CR1).
		ev.p.o.Probes.Reached(probeRecordGone)
		return &kv.RecoverTxnResponse{Txn: kv.Txn{TxnMeta: r.Txn}}, nil
	}
	rec := commit.Finish(stored, r)
	switch {
	case rec == stored && stored.Status == kv.Staging:
		ev.p.o.Probes.Reached(probeStagedAnew)
	case rec == stored:
		ev.p.o.Probes.Reached(probeDecidedBefore)
	case rec.Status == kv.Committed:
		ev.p.o.Probes.Reached(probeCommitted)
	default:
		ev.p.o.Probes.Reached(probeAborted)
	}
	if rec != stored {
		ev.putRecord(key, rec)
		ev.effects.records = append(ev.effects.records, rec)
	}
	return &kv.RecoverTxnResponse{Txn: rec.Txn()}, nil
}

// queryIntent looks for a write of a staging transaction, and if it is not there, prevents it at or below the transaction's write timestamp
// (commit.CR4), by entering a read of the key.
func (ev *evaluation) queryIntent(r *kv.QueryIntentRequest) (kv.Response, error) {
	l, err := ev.w.Intent(r.Key, r.Txn.ID)
	if err != nil {
		return nil, err
	}
	found := l != nil && l.Txn.Attempt == r.Txn.Attempt && r.Txn.Seq <= l.Txn.Seq &&
		l.Txn.WriteTimestamp.LessEq(r.Txn.WriteTimestamp)
	switch {
	case found:
		ev.p.o.Probes.Reached(probeFound)
	case l != nil:
		ev.p.o.Probes.Reached(probeFoundLater)
	default:
		ev.p.o.Probes.Reached(probePrevented)
	}
	if !found {
		ev.p.o.Cache.Add(r.Key, r.Txn.WriteTimestamp, kv.TxnID{})
	}
	return &kv.QueryIntentResponse{Found: found}, nil
}
