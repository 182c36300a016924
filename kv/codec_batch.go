package kv

import "meridian/wire"

const (
	batchHeader = 1
	// A request is the field twice its method plus one, so a method that a reader does not know is refused (wire.W1).
	batchRequests = 3
)

func requestField(m Method) uint32 { return 2*uint32(m) + 1 }

// AppendBatch adds the encoding of a batch.
func AppendBatch(b []byte, batch *Batch) []byte { return wire.Append(b, batch, (*Batch).fields) }

// DecodeBatch reads what AppendBatch wrote. The result shares b.
func DecodeBatch(b []byte) (*Batch, error) {
	batch := &Batch{}
	if err := wire.Decode(b, batch, (*Batch).fields); err != nil {
		return nil, err
	}
	return batch, nil
}

func (batch *Batch) fields(c *wire.Coder) {
	c.Message("kv.Batch", wire.Skips)
	wire.One(c, batchHeader, &batch.Header, (*Header).fields)
	if c.Writing() {
		for _, r := range batch.Requests {
			size := 0
			switch r := r.(type) {
			case *PutRequest:
				size = len(r.Key) + len(r.Value)
			case *LoadRequest:
				size = 1 << 13
			}
			at := c.Begin(requestField(r.Method()), size)
			r.fields(c)
			c.End(at)
		}
		return
	}
	var s requestSlabs
	for n := c.At(); n >= batchRequests && n&1 != 0; n = c.At() {
		if batch.Requests == nil {
			batch.Requests = make([]Request, 0, c.Left())
		}
		q := s.request(Method(n/2), cap(batch.Requests)-len(batch.Requests))
		if q == nil {
			return
		}
		wire.Inside(c, q, Request.fields)
		batch.Requests = append(batch.Requests, q)
	}
}

// requestSlabs allocates requests of the frequent kinds several at a time.
type requestSlabs struct {
	gets    []GetRequest
	puts    []PutRequest
	deletes []DeleteRequest
	resolve []ResolveIntentRequest
}

// slab returns a pointer to a fresh element, of which about left will be asked for.
func slab[T any](s *[]T, left int) *T {
	if len(*s) == cap(*s) {
		*s = make([]T, 0, max(1, min(left, 16)))
	}
	*s = (*s)[:len(*s)+1]
	return &(*s)[len(*s)-1]
}

// request makes the request that a method has, after which about left-1 follow. It is nil if there is no such method.
func (s *requestSlabs) request(m Method, left int) Request {
	switch m {
	case MethodGet:
		return slab(&s.gets, left)
	case MethodPut:
		return slab(&s.puts, left)
	case MethodDelete:
		return slab(&s.deletes, left)
	case MethodResolveIntent:
		return slab(&s.resolve, left)
	case MethodScan:
		return &ScanRequest{}
	case MethodCPut:
		return &CPutRequest{}
	case MethodDeleteRange:
		return &DeleteRangeRequest{}
	case MethodAdd:
		return &AddRequest{}
	case MethodEndTxn:
		return &EndTxnRequest{}
	case MethodHeartbeatTxn:
		return &HeartbeatTxnRequest{}
	case MethodPushTxn:
		return &PushTxnRequest{}
	case MethodQueryTxn:
		return &QueryTxnRequest{}
	case MethodQueryIntent:
		return &QueryIntentRequest{}
	case MethodResolveRange:
		return &ResolveRangeRequest{}
	case MethodRefresh:
		return &RefreshRequest{}
	case MethodRefreshRange:
		return &RefreshRangeRequest{}
	case MethodCheckLocks:
		return &CheckLocksRequest{}
	case MethodClose:
		return &CloseRequest{}
	case MethodNegotiate:
		return &NegotiateRequest{}
	case MethodGC:
		return &GCRequest{}
	case MethodAdminSplit:
		return &AdminSplitRequest{}
	case MethodSubsume:
		return &SubsumeRequest{}
	case MethodRelease:
		return &ReleaseRequest{}
	case MethodProtocol:
		return &ProtocolRequest{}
	case MethodAdminMerge:
		return &AdminMergeRequest{}
	case MethodAdminChangeReplicas:
		return &AdminChangeReplicasRequest{}
	case MethodAdminTransferLease:
		return &AdminTransferLeaseRequest{}
	case MethodAdminSetProtocol:
		return &AdminSetProtocolRequest{}
	case MethodAdminRecall:
		return &AdminRecallRequest{}
	case MethodRangeInfo:
		return &RangeInfoRequest{}
	case MethodRecoverTxn:
		return &RecoverTxnRequest{}
	case MethodLoad:
		return &LoadRequest{}
	case MethodClear:
		return &ClearRequest{}
	}
	return nil
}

func pairSize(p *KeyValue) int { return len(p.Key) + len(p.Value) }

func (q *GetRequest) fields(c *wire.Coder) {
	c.Message("kv.GetRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Enum(c, 3, &q.Lock, Exclusive)
}

func (q *ScanRequest) fields(c *wire.Coder) {
	c.Message("kv.ScanRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	c.Bool(5, &q.Reverse)
	wire.Enum(c, 7, &q.Lock, Exclusive)
}

func (q *PutRequest) fields(c *wire.Coder) {
	c.Message("kv.PutRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Bytes(3, &q.Value)
	wire.Uint32(c, 5, &q.Seq)
	c.Timestamp(7, &q.Seen)
}

func (q *CPutRequest) fields(c *wire.Coder) {
	c.Message("kv.CPutRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Bytes(3, &q.Value)
	wire.Uint32(c, 5, &q.Seq)
	c.Bytes(7, &q.Expected)
}

func (q *DeleteRequest) fields(c *wire.Coder) {
	c.Message("kv.DeleteRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Uint32(c, 3, &q.Seq)
	c.Timestamp(5, &q.Seen)
}

func (q *DeleteRangeRequest) fields(c *wire.Coder) {
	c.Message("kv.DeleteRangeRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	wire.Uint32(c, 5, &q.Seq)
}

func (q *AddRequest) fields(c *wire.Coder) {
	c.Message("kv.AddRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Int64(c, 3, &q.Delta)
	wire.Uint32(c, 5, &q.Seq)
	c.Bool(7, &q.Draw)
	wire.Int64(c, 9, &q.Reserve)
	c.Bool(11, &q.Back)
	wire.Uint64(c, 13, &q.Turn)
}

func (q *EndTxnRequest) fields(c *wire.Coder) {
	c.Message("kv.EndTxnRequest", wire.Skips)
	wire.Key(c, 1, &q.Anchor)
	c.Bool(3, &q.Commit)
	wire.List(c, 5, &q.LockSpans, SpanFields)
	wire.List(c, 7, &q.InFlight, (*InFlightWrite).Fields)
	c.Bool(9, &q.OnePhase)
	if !c.Writing() || q.Trigger != nil && *q.Trigger != (CommitTrigger{}) {
		wire.Opt(c, 11, &q.Trigger, (*CommitTrigger).Fields)
	}
	c.Timestamp(13, &q.Deadline)
	c.Timestamp(15, &q.Upto)
	wire.List(c, 17, &q.Held, (*HeldLocks).fields)
}

func (q *HeartbeatTxnRequest) fields(c *wire.Coder) {
	c.Message("kv.HeartbeatTxnRequest", wire.Skips)
	wire.Key(c, 1, &q.Anchor)
}

func (q *PushTxnRequest) fields(c *wire.Coder) {
	c.Message("kv.PushTxnRequest", wire.Skips)
	wire.Opt(c, 1, &q.Pusher, (*Txn).fields)
	wire.One(c, 3, &q.Pushee, (*TxnMeta).Fields)
	c.Timestamp(5, &q.PushTo)
	wire.Enum(c, 7, &q.Kind, PushTouch)
	c.Bool(9, &q.Force)
	// The key is for messages about deadlocks only.
	wire.Key(c, 2, &q.Key)
}

func (q *QueryTxnRequest) fields(c *wire.Coder) {
	c.Message("kv.QueryTxnRequest", wire.Skips)
	wire.One(c, 1, &q.Txn, (*TxnMeta).Fields)
	// A reader that ignored Known would answer at once.
	wire.Uint64(c, 2, &q.Known)
	c.Bool(3, &q.List)
}

func (q *QueryIntentRequest) fields(c *wire.Coder) {
	c.Message("kv.QueryIntentRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.One(c, 3, &q.Txn, (*TxnMeta).Fields)
}

func (q *ResolveIntentRequest) fields(c *wire.Coder) {
	c.Message("kv.ResolveIntentRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.One(c, 3, &q.Txn, (*TxnMeta).Fields)
	wire.Enum(c, 5, &q.Status, Aborted)
	wire.List(c, 7, &q.IgnoredSeqs, (*SeqRange).Fields)
}

func (q *ResolveRangeRequest) fields(c *wire.Coder) {
	c.Message("kv.ResolveRangeRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	wire.One(c, 5, &q.Txn, (*TxnMeta).Fields)
	wire.Enum(c, 7, &q.Status, Aborted)
	wire.List(c, 9, &q.IgnoredSeqs, (*SeqRange).Fields)
	wire.Int64(c, 11, &q.Max)
}

func (q *RefreshRequest) fields(c *wire.Coder) {
	c.Message("kv.RefreshRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Timestamp(3, &q.From)
}

func (q *RefreshRangeRequest) fields(c *wire.Coder) {
	c.Message("kv.RefreshRangeRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	c.Timestamp(5, &q.From)
}

func (q *CheckLocksRequest) fields(c *wire.Coder) {
	c.Message("kv.CheckLocksRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	c.Timestamp(5, &q.From)
}

func (q *CloseRequest) fields(c *wire.Coder) {
	c.Message("kv.CloseRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Timestamp(2, &q.At)
}

func (q *NegotiateRequest) fields(c *wire.Coder) {
	c.Message("kv.NegotiateRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	c.Timestamp(2, &q.Least)
}

func (q *GCRequest) fields(c *wire.Coder) {
	c.Message("kv.GCRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	c.Timestamp(3, &q.Threshold)
	wire.List(c, 5, &q.Keys, (*GCKey).fields)
	wire.Keys(c, 7, &q.Records)
}

func (q *AdminSplitRequest) fields(c *wire.Coder) {
	c.Message("kv.AdminSplitRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	c.Timestamp(3, &q.Keep)
	c.Bool(5, &q.Undo)
}

func (q *SubsumeRequest) fields(c *wire.Coder) {
	c.Message("kv.SubsumeRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.One(c, 3, &q.Txn, (*TxnMeta).Fields)
}

func (q *ReleaseRequest) fields(c *wire.Coder) {
	c.Message("kv.ReleaseRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	wire.One(c, 5, &q.Txn, (*TxnMeta).Fields)
}

func (q *ProtocolRequest) fields(c *wire.Coder) {
	c.Message("kv.ProtocolRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Key(c, 3, &q.End)
	c.Bytes(5, &q.Body)
	c.Bool(7, &q.Reads)
}

func (q *AdminMergeRequest) fields(c *wire.Coder) {
	c.Message("kv.AdminMergeRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	someSpan(c, 3, &q.Of)
}

func (q *AdminChangeReplicasRequest) fields(c *wire.Coder) {
	c.Message("kv.AdminChangeReplicasRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.List(c, 3, &q.Targets, (*ReplicaTarget).fields)
	someSpan(c, 5, &q.Of)
}

func (q *AdminTransferLeaseRequest) fields(c *wire.Coder) {
	c.Message("kv.AdminTransferLeaseRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Uint32(c, 3, &q.Target)
	someSpan(c, 5, &q.Of)
}

func (q *AdminSetProtocolRequest) fields(c *wire.Coder) {
	c.Message("kv.AdminSetProtocolRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Enum(c, 3, &q.Protocol, MaxProtocol)
	someSpan(c, 5, &q.Within)
}

func (q *AdminRecallRequest) fields(c *wire.Coder) {
	c.Message("kv.AdminRecallRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
	wire.Enum(c, 3, &q.Protocol, MaxProtocol)
	c.Bytes(5, &q.Body)
}

func (q *RangeInfoRequest) fields(c *wire.Coder) {
	c.Message("kv.RangeInfoRequest", wire.Skips)
	wire.Key(c, 1, &q.Key)
}

func (q *RecoverTxnRequest) fields(c *wire.Coder) {
	c.Message("kv.RecoverTxnRequest", wire.Skips)
	wire.One(c, 1, &q.Txn, (*TxnMeta).Fields)
	c.Bool(3, &q.ImplicitlyCommits)
}

func (q *LoadRequest) fields(c *wire.Coder) {
	c.Message("kv.LoadRequest", wire.Skips)
	wire.Enum(c, 1, &q.Mode, LoadUnread)
	wire.Large(c, 3, &q.Rows, (*KeyValue).fields, pairSize)
}

func (q *ClearRequest) fields(c *wire.Coder) {
	c.Message("kv.ClearRequest", wire.Skips)
	wire.Key(c, 1, &q.Start)
	wire.Key(c, 3, &q.End)
	wire.Int64(c, 5, &q.Max)
	c.Timestamp(7, &q.Threshold)
}

func (k *GCKey) fields(c *wire.Coder) {
	c.Message("kv.GCKey", wire.Skips)
	wire.Key(c, 1, &k.Key)
	c.Timestamp(3, &k.Timestamp)
}

func (h *HeldLocks) fields(c *wire.Coder) {
	c.Message("kv.HeldLocks", wire.Skips)
	wire.One(c, 1, &h.Span, SpanFields)
	c.Timestamp(3, &h.From)
}

func (t *ReplicaTarget) fields(c *wire.Coder) {
	c.Message("kv.ReplicaTarget", wire.Skips)
	wire.Uint32(c, 1, &t.Node)
	wire.Uint32(c, 3, &t.Store)
	wire.Enum(c, 5, &t.Type, VoterDemoting)
	c.Bool(7, &t.Witness)
}

func (p *KeyValue) fields(c *wire.Coder) {
	c.Message("kv.KeyValue", wire.Skips)
	wire.Key(c, 1, &p.Key)
	c.Bytes(3, &p.Value)
	c.Timestamp(5, &p.Timestamp)
}
