package leader

import (
	"context"

	"meridian/kv"
)

// settleIntents waits until the transactions with intents in a span that is to be cleared have ended, and resolves these intents.
//
// leader.P18 (I1): an intent is removed by its transaction's outcome, never with the span in which it lies: a staging transaction is
// committed if all of its writes are found, and recovery takes a missing one for a write that never arrived.
func (q *request) settleIntents(ctx context.Context) error {
	p, c := q.p, q.b.Requests[0].(*kv.ClearRequest)
	all := q.locking.unsettled
	q.locking.unsettled = nil
	done := map[kv.TxnID]bool{}
	for i := range all {
		in := &all[i]
		if done[in.Txn.ID] {
			continue
		}
		done[in.Txn.ID] = true
		p.o.Metrics.Pushes.Add(1)
		resp, err := p.o.Sender.Send(ctx, &kv.Batch{
			Header:   kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
			Requests: []kv.Request{&kv.PushTxnRequest{Pushee: in.Txn, Kind: kv.PushAbort, Key: in.Key}},
		})
		if err != nil {
			return err
		}
		push, ok := resp.Responses[0].(*kv.PushTxnResponse)
		if !ok {
			return &kv.InternalError{Message: "a push got an answer to another question"}
		}
		if err := p.resolveTo(ctx, in.Key, c.End, &push.Pushee); err != nil {
			return err
		}
	}
	return nil
}
