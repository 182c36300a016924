package leader

import (
	"context"
	"sync"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/kv"
)

// finished has a store's knowledge of committed transactions with intents that may not be resolved yet. Their gateways report them
// (kv.ReleaseRequest), once all of their writes are durable: an entry is true for ever and in every range, so it does not depend on a lease
// (leader.P10).
//
// It is a cache. A missing entry costs a push of the record.
type finished struct {
	clock  host.Clock
	shards [finishedShards]finishedShard
}

const (
	finishedShards = 16
	// finishedMax is how many transactions a shard remembers; all of them together cover some seconds of a busy store,
	// where intents are resolved within a fraction of one.
	finishedMax = 1024
	// finishedFor is how long it remembers one. A gateway that has not resolved the intents by then is likely to be dead: whoever meets them has to push, which
	// resolves them, as followers can't pass them and lookups in the index of ranges see what was before.
	finishedFor = 10 * time.Second
)

type finishedShard struct {
	mu   sync.Mutex // guards the fields below; nothing is taken after it
	at   map[kv.TxnID]outcome
	ring []kv.TxnID // in the order in which they came, from next on
	next int
	// above has those that were pushed, and commit at that time at the earliest (leader.P17).
	above map[kv.TxnID]clock.Timestamp
}

type outcome struct {
	at      clock.Timestamp
	attempt uint32
	heard   time.Duration // on the monotonic clock
}

// add remembers that a transaction has committed.
func (f *finished) add(t *kv.TxnMeta) {
	s := &f.shards[t.ID[0]%finishedShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.at[t.ID]; ok {
		return
	}
	if s.at == nil {
		s.at = make(map[kv.TxnID]outcome)
	}
	if len(s.ring) < finishedMax {
		s.ring = append(s.ring, t.ID)
	} else {
		delete(s.at, s.ring[s.next])
		s.ring[s.next] = t.ID
		s.next = (s.next + 1) % finishedMax
	}
	s.at[t.ID] = outcome{t.WriteTimestamp, t.Attempt, f.clock.Monotonic()}
}

// push remembers that a transaction commits at a timestamp or later, or never.
func (f *finished) push(id kv.TxnID, at clock.Timestamp) {
	s := &f.shards[id[0]%finishedShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.above) >= finishedMax {
		clear(s.above) // they are pushed again
	}
	if s.above == nil {
		s.above = make(map[kv.TxnID]clock.Timestamp)
	}
	s.above[id] = at.Forward(s.above[id])
}

// Above satisfies mvcc.Outcomes.
func (f *finished) Above(id kv.TxnID) clock.Timestamp {
	s := &f.shards[id[0]%finishedShards]
	s.mu.Lock()
	at := s.above[id]
	s.mu.Unlock()
	return at
}

// Committed satisfies mvcc.Outcomes.
func (f *finished) Committed(id kv.TxnID) (at clock.Timestamp, attempt uint32, ok bool) {
	s := &f.shards[id[0]%finishedShards]
	s.mu.Lock()
	o, ok := s.at[id]
	s.mu.Unlock()
	if !ok || f.clock.Monotonic()-o.heard > finishedFor {
		return clock.Timestamp{}, 0, false
	}
	return o.at, o.attempt, true
}

// hear takes reports of committed transactions: it frees their locks in memory, and their intents block no other transaction. The cache is
// changed first, so that a request that is woken, or was about to wait, finds the entry.
func (p *Participant) hear(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	now := p.o.Clock.Now()
	resp := &kv.BatchResponse{Now: now, Responses: make([]kv.Response, len(b.Requests))}
	if err := p.checkSpans(b); err != nil {
		return nil, err
	}
	if _, ok := p.r.CheckLease(now); !ok {
		if _, err := p.r.EnsureLease(ctx, now); err != nil {
			return nil, err
		}
	}
	for i, r := range b.Requests {
		r, ok := r.(*kv.ReleaseRequest)
		if !ok {
			return nil, &kv.InternalError{Message: "leader: a release among other requests"}
		}
		p.o.finished.add(&r.Txn)
		p.locks.ReleaseSpan(r.Span(), r.Txn.ID)
		resp.Responses[i] = empty
	}
	return resp, nil
}
