package leader

import (
	"meridian/clock"
	"meridian/kv"
)

// traits are the properties of a batch's requests on which its path depends.
type traits struct {
	writes  int  // requests that may change replicated data, but for record operations
	plain   bool // there are reads without locks
	locks   bool // there are reads with locks
	record  bool // there are operations on records or intents
	admin   bool
	bulk    bool // it is a load or a clearing, which has to be alone
	push    *kv.PushTxnRequest
	subsume *kv.SubsumeRequest
	end     *kv.EndTxnRequest
	// asksLocks: there are checks of locks. prevents is the timestamp up to which the batch may prevent writes of others that it queries
	// and does not find.
	asksLocks bool
	prevents  clock.Timestamp
	// span: a deletion of a span is among the writes, which reads where it finds nothing.
	span bool
}

// blind reports whether the batch writes only, so that all that it learns at its timestamp is in the log.
func (t *traits) blind() bool {
	return (t.writes > 0 || t.end != nil) && !t.plain && !t.locks && !t.record && !t.span
}

func traitsOf(b *kv.Batch) (t traits) {
	for _, r := range b.Requests {
		switch r := r.(type) {
		case *kv.GetRequest:
			if r.Lock == kv.NoLock {
				t.plain = true
			} else {
				t.locks = true
			}
		case *kv.ScanRequest:
			if r.Lock == kv.NoLock {
				t.plain = true
			} else {
				t.locks = true
			}
		case *kv.RefreshRequest, *kv.RefreshRangeRequest, *kv.RangeInfoRequest, *kv.QueryTxnRequest:
			t.plain = true
		case *kv.CheckLocksRequest:
			t.plain, t.asksLocks = true, true
		case *kv.EndTxnRequest:
			t.end = r
		case *kv.PushTxnRequest:
			t.push = r
		case *kv.SubsumeRequest:
			t.subsume = r
		case *kv.QueryIntentRequest:
			t.record = true
			t.prevents = t.prevents.Forward(r.Txn.WriteTimestamp)
		case *kv.HeartbeatTxnRequest, *kv.RecoverTxnRequest, *kv.ResolveIntentRequest,
			*kv.ResolveRangeRequest, *kv.GCRequest:
			t.record = true
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.AddRequest:
			t.writes++
		case *kv.DeleteRangeRequest:
			t.writes++
			t.span = true
		case *kv.LoadRequest, *kv.ClearRequest:
			t.writes++
			t.bulk = true
		default:
			t.admin = true
		}
	}
	return t
}
