package leader

import (
	"context"
	"sync"

	"meridian/clock"
	"meridian/kv"
)

// finished is what a store knows of transactions that have committed, with intents that may not be resolved yet. It is
// told by their gateways (kv.ReleaseRequest), once every write of theirs is durable: what it says is true for ever and
// of every range, so no lease matters to it (P10).
//
// It is a cache. What it has forgotten or never heard costs a push of the record.
type finished struct {
	shards [finishedShards]finishedShard
}

const (
	finishedShards = 16
	// finishedMax is how many transactions a shard remembers; all of them together cover some seconds of a busy store,
	// where intents are resolved within a fraction of one.
	finishedMax = 1024
)

type finishedShard struct {
	mu   sync.Mutex // guards the fields below; nothing is taken after it
	at   map[kv.TxnID]outcome
	ring []kv.TxnID // in the order in which they came, from next on
	next int
	// above has those that were pushed, and commit at that time at the earliest (P17).
	above map[kv.TxnID]clock.Timestamp
}

type outcome struct {
	at      clock.Timestamp
	attempt uint32
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
	s.at[t.ID] = outcome{t.WriteTimestamp, t.Attempt}
}

// push remembers that a transaction commits at a time or later, or never.
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
	return o.at, o.attempt, ok
}

// hear takes the news that transactions have committed: what they locked in memory is free, and their intents are
// in nobody's way. The cache comes first, so that whoever is woken, or was about to wait, finds it.
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
		p.o.Clock.Forward(r.Txn.WriteTimestamp) // P4
		p.o.finished.add(&r.Txn)
		p.locks.ReleaseSpan(r.Span(), r.Txn.ID)
		resp.Responses[i] = empty
	}
	return resp, nil
}
