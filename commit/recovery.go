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

// Witness is how a commit protocol answers "are these writes durable?" (CR4). all says that each of them is, at or below
// the record's write timestamp. For all to be false, the witness must have made sure that at least one of them never
// will be, whoever still tries; if it cannot tell, it returns an error, and nothing is decided.
type Witness func(ctx context.Context, r *Record, writes []kv.InFlightWrite) (all bool, err error)

// Witnesses are the protocols that recovery can ask.
type Witnesses map[kv.Protocol]Witness

// Intents is the leader protocol's Witness: a durable write is an intent at its leaseholder, and asking for one that is
// not there keeps it from being laid at its timestamp any more.
func Intents(s Sender) Witness {
	return func(ctx context.Context, r *Record, writes []kv.InFlightWrite) (bool, error) {
		b := &kv.Batch{Requests: make([]kv.Request, len(writes))}
		for i, w := range writes {
			meta := r.TxnMeta
			meta.Seq = w.Seq
			b.Requests[i] = &kv.QueryIntentRequest{Key: w.Key, Txn: meta}
		}
		resp, err := s.Send(ctx, b)
		if err != nil {
			return false, err
		}
		all := len(resp.Responses) == len(writes)
		for _, one := range resp.Responses {
			q, ok := one.(*kv.QueryIntentResponse)
			all = all && ok && q.Found
		}
		return all, nil
	}
}

// Recover finishes a STAGING transaction whose coordinator is gone (CR4), and returns it as it stands afterwards.
// Several nodes may do so at once, and the coordinator may still be alive: all come to the same answer, because a
// write that was not found can't become durable at its timestamp any more.
func Recover(ctx context.Context, s Sender, witnesses Witnesses, r *Record) (kv.Txn, error) {
	byProtocol := map[kv.Protocol][]kv.InFlightWrite{}
	var order []kv.Protocol
	for _, w := range r.InFlight {
		if byProtocol[w.Protocol] == nil {
			order = append(order, w.Protocol)
		}
		byProtocol[w.Protocol] = append(byProtocol[w.Protocol], w)
	}
	all := true
	for _, p := range order {
		ask := witnesses[p]
		if ask == nil {
			return kv.Txn{}, &kv.InternalError{Message: fmt.Sprintf("transaction %s has writes of protocol %d, which nobody here can ask", r.ID, p)}
		}
		durable, err := ask(ctx, r, byProtocol[p])
		if err != nil {
			return kv.Txn{}, fmt.Errorf("asking for the writes of transaction %s: %w", r.ID, err)
		}
		if !durable {
			all = false
			break // one that is missing and prevented decides
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
