package leader

import (
	"time"

	"meridian/kv"
)

// smallAnswer is a response to a few requests, in one piece.
type smallAnswer struct {
	resp  kv.BatchResponse
	slots [4]kv.Response
}

// answer completes the response, also of a failed batch, which still brings the transaction back.
func (q *request) answer(err error) *kv.BatchResponse {
	if err != nil {
		q.countRetry(err)
		if q.txn == nil {
			return nil
		}
		return &kv.BatchResponse{Txn: q.txn, Now: q.now, Waited: q.waitedFor(), Leads: q.p.leads()}
	}
	resp := q.evaluation.resp
	resp.Txn, resp.Now, resp.LockedAt, resp.Waited = q.txn, q.now, q.effects.lockedAt, q.waitedFor()
	resp.Leads = q.p.leads()
	if q.txn == nil {
		resp.Timestamp = q.at
	}
	if q.b.Trace {
		resp.Served = append(resp.Served, kv.Served{Range: q.p.r.RangeID(), Node: q.p.r.NodeID()})
	}
	return resp
}

// leads reports whether the range closes timestamps ahead of the clock.
func (p *Participant) leads() bool { return p.r.Closer().Leads() != 0 }

// waitedFor is the time of lock waits that the answer reports to the gateway, if it is another node: its gate has not seen them.
func (q *request) waitedFor() time.Duration {
	if q.b.Gateway == q.p.r.NodeID() {
		return 0
	}
	return q.locking.waited
}

func (c *call) countRetry(err error) {
	m := c.p.o.Metrics
	c.p.writers.name(err)
	switch err.(type) {
	case *kv.TxnRetryError:
		m.RetriesSerialize.Add(1)
	case *kv.WriteTooOldError:
		m.RetriesWriteTooOld.Add(1)
	case *kv.UncertaintyError:
		m.RetriesUncertain.Add(1)
	}
}
