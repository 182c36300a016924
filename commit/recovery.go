package commit

import (
	"context"
	"fmt"

	"meridian/kv"
)

// Sender sends a batch to the ranges of its keys.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Recover finishes a STAGING transaction whose coordinator is gone (CR4), and returns it as it stands afterwards.
// Several nodes may do so at once, and the coordinator may still be alive: all come to the same answer, because a
// write that was not found can't become durable at its timestamp any more.
func Recover(ctx context.Context, s Sender, r *Record) (kv.Txn, error) {
	all := true
	if len(r.InFlight) > 0 {
		b := &kv.Batch{Requests: make([]kv.Request, len(r.InFlight))}
		for i, w := range r.InFlight {
			meta := r.TxnMeta
			meta.Seq = w.Seq
			b.Requests[i] = &kv.QueryIntentRequest{Key: w.Key, Txn: meta}
		}
		resp, err := s.Send(ctx, b)
		if err != nil {
			return kv.Txn{}, fmt.Errorf("asking for the writes of transaction %s: %w", r.ID, err)
		}
		for _, one := range resp.Responses {
			q, ok := one.(*kv.QueryIntentResponse)
			all = all && ok && q.Found
		}
	}
	resp, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{
		&kv.RecoverTxnRequest{Txn: r.TxnMeta, ImplicitlyCommits: all},
	}})
	if err != nil {
		return kv.Txn{}, fmt.Errorf("recovering transaction %s: %w", r.ID, err)
	}
	if rr, ok := resp.Responses[0].(*kv.RecoverTxnResponse); ok {
		return rr.Txn, nil
	}
	return kv.Txn{}, &kv.InternalError{Message: "recovery got an answer to another question"}
}
