package route

import (
	"context"
	"time"

	"meridian/kv"
)

// Rows that come with their entries: a node that serves entries of an index for another node reads the rows to which they lead as well, if these are near, so that an entry and
// its row take one round trip (kv.Header.Follow). The range of the entry knows nothing of it. The node's own sender sends a second batch,
// when the first one is answered:
//
//	gateway                    leaseholder of the entries          leaseholder of the rows, the same node or a near one
//	   |---- get entries ------------>|
//	   |                              |---- get rows ----------------------->|
//	   |                              |<-------------------------------------|
//	   |<--- entries and rows --------|
//
//	route.RO7 (I2, I3): A row that comes with its entry is read by an ordinary batch of the entry's transaction: at the timestamp at which the entry was read, and with all
//	    that a read of the gateway meets and leaves behind, locks, uncertainty and the timestamp cache among it. The gateway counts it among the transaction's
//	    reads, and its lock among the locks. A row that another transaction has locked does not come: the gateway itself has a place in the queue. Nor do several rows that are
//	    to be locked if the transaction has no anchor yet: the locks of a transaction have one anchor. Any error, and any delay beyond followFor, has the effect that the row does not come, and the gateway reads it.

// followFor is how long an answer waits for rows; chosen by us, a few times the longest round trip.
const followFor = time.Second

// follow adds the rows to which the values of an answer lead.
func (s *Sender) follow(ctx context.Context, b *kv.Batch, r *kv.BatchResponse) {
	if s.o.Follow == nil || b.Txn == nil || b.Consistency != kv.Consistent || len(r.Responses) != len(b.Requests) {
		return
	}
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, followFor)
	defer cancel()
	sub := &kv.Batch{Header: b.Header}
	room := int64(kv.AnswerBytes)
	for i, x := range r.Responses {
		get, plain := b.Requests[i].(*kv.GetRequest)
		entry, _ := x.(*kv.GetResponse)
		if !plain || entry == nil || get.Lock != kv.NoLock || entry.Value == nil {
			continue
		}
		room -= int64(len(entry.Value))
		k, ok := s.o.Follow(b.Follow, get.Key, entry.Value)
		if !ok {
			continue
		}
		e, err := s.locate(ctx, k, false)
		if err != nil {
			return
		}
		if s.way(e) <= WideArea {
			sub.Requests = append(sub.Requests, &kv.GetRequest{Key: k, Lock: b.FollowLock})
		}
	}
	if len(sub.Requests) == 0 {
		return
	}
	sub.Follow, sub.FollowLock, sub.CanForwardRead, sub.RangeID, sub.Generation, sub.MaxKeys, sub.TargetBytes = nil, kv.NoLock, false, 0, 0, 0, 0
	if r.Txn != nil {
		sub.Txn = r.Txn // the range may have moved the timestamp
	}
	if b.FollowLock != kv.NoLock {
		sub.WaitPolicy = kv.NoWait
		if len(sub.Txn.Anchor) == 0 {
			if len(sub.Requests) > 1 {
				return
			}
			t := *sub.Txn
			t.Anchor = sub.Requests[0].Span().Start
			sub.Txn = &t
		}
	}
	txn := sub.Txn
	a, err := s.subSend(ctx, sub)
	if err != nil || len(a.Responses) != len(sub.Requests) {
		s.o.Probes.Reached("route: a row did not come with its entry")
		return
	}
	rows := &kv.Followed{Lock: b.FollowLock, LockedAt: a.LockedAt}
	for i, x := range a.Responses {
		row, ok := x.(*kv.GetResponse)
		if !ok || row.Value == nil {
			continue
		}
		k := sub.Requests[i].Span().Start
		if room -= int64(len(k) + len(row.Value)); room < 0 {
			return
		}
		rows.Rows = append(rows.Rows, kv.KeyValue{Key: k, Value: row.Value, Timestamp: row.Timestamp})
	}
	s.metrics.Followed.Add(int64(len(rows.Rows)))
	r.Followed = rows
	r.Waited += a.Waited
	r.Served = append(r.Served, a.Served...)
	if a.Txn != nil && a.Txn != txn {
		// The answer keeps this node's clock, and has the readings of others in the transaction.
		t := *txn
		t.Anchor = b.Txn.Anchor // the gateway's part
		for _, o := range a.Txn.Observed {
			t.Observe(o.Node, o.At)
		}
		r.Txn = &t
	}
}

// way is the round trip to a range's leaseholder, or to the nearest voter if it is not known.
func (s *Sender) way(e *entry) time.Duration {
	if lh := e.leaseholder(); lh != 0 {
		return s.trip(lh)
	}
	least := unmeasured
	for _, r := range e.desc.Replicas {
		if r.Type.Votes() {
			least = min(least, s.trip(r.Node))
		}
	}
	return least
}
