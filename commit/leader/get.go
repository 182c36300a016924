package leader

import (
	"context"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// pointAnswer is the answer to a single Get, in one piece.
type pointAnswer struct {
	resp kv.BatchResponse
	slot [1]kv.Response
	get  kv.GetResponse
}

// get is the fast path of one plain Get: leader.P1's three steps, and a single allocation in addition to the value's. In all other cases it
// returns errAgain, and the batch takes the ordinary path. newest is the version that it has seen.
func (p *Participant) get(ctx context.Context, b *kv.Batch, r *kv.GetRequest) (_ *kv.BatchResponse, newest clock.Timestamp, _ error) {
	reading := p.o.Clock.Read()
	now := reading.Now
	o := mvcc.ReadOptions{Txn: b.Txn, ReadSeq: b.ReadSeq}
	id := kv.TxnID{}
	if b.Txn != nil {
		o.Timestamp, id = b.Txn.ReadTimestamp, b.Txn.ID
	} else if o.Timestamp = b.Timestamp; o.Timestamp.IsZero() {
		o.Timestamp = now
	}
	gen := p.gate.enter()
	defer p.gate.leave(gen)
	if _, ok := p.r.CheckLease(o.Timestamp); !ok {
		return nil, newest, errAgain
	}
	p.serves(o.Timestamp, now)
	p.o.Cache.Add(r.Key, o.Timestamp, id)
	if waited, err := p.latches.WaitRead(ctx, keys.Span{Start: r.Key}, o.Timestamp); err != nil {
		return nil, newest, err
	} else if waited {
		p.o.Metrics.LatchWaits.Add(1)
	}
	o.NoLocks = p.noEntries()
	if !o.NoLocks && b.Txn != nil && len(b.Txn.Anchor) > 0 {
		return nil, newest, errAgain // own intents have to be latched (leader.P2)
	}
	o.Uncertainty = p.uncertainty(b, b.Txn, reading)
	rd := p.o.reader(p.o.Engine)
	rd.Table = &p.held
	v, err := rd.Get(r.Key, &o)
	newest = rd.Seen
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, newest, errAgain
	}
	if err := p.checkServed(b, o.Timestamp); err != nil {
		return nil, newest, err
	}
	p.o.Metrics.Reads.Add(1)
	a := &pointAnswer{get: kv.GetResponse{Value: v.Bytes, Timestamp: v.Timestamp}}
	a.slot[0] = &a.get
	a.resp = kv.BatchResponse{Txn: b.Txn, Now: now, Responses: a.slot[:], Leads: p.leads()}
	if b.Txn == nil {
		a.resp.Timestamp = o.Timestamp
	}
	if b.Trace {
		a.resp.Served = []kv.Served{{Range: p.r.RangeID(), Node: p.r.NodeID()}}
	}
	return &a.resp, newest, nil
}
