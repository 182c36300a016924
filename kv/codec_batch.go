package kv

import (
	"time"

	"meridian/clock"
	"meridian/keys"
)

// AppendBatch adds the encoding of a batch.
func AppendBatch(b []byte, batch *Batch) []byte {
	b = append(b, codecVersion)
	b = appendHeader(b, &batch.Header)
	b = appendUint(b, uint64(len(batch.Requests)))
	for _, r := range batch.Requests {
		b = appendRequest(b, r)
	}
	return b
}

// DecodeBatch reads what AppendBatch wrote. The result shares b.
func DecodeBatch(b []byte) (*Batch, error) {
	d := decoder{b: b}
	if d.byte() != codecVersion {
		return nil, ErrMalformed
	}
	batch := &Batch{}
	d.header(&batch.Header)
	n := d.count(2)
	if n > 0 {
		batch.Requests = make([]Request, 0, n)
	}
	var s requestSlabs
	for i := 0; i < n && !d.bad; i++ {
		batch.Requests = append(batch.Requests, d.request(&s, n-i))
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return batch, nil
}

// requestSlabs allocates requests of the frequent kinds several at a time.
type requestSlabs struct {
	gets    []GetRequest
	puts    []PutRequest
	deletes []DeleteRequest
	resolve []ResolveIntentRequest
}

// slab returns a pointer to a fresh element, of which at most left will be asked for.
func slab[T any](s *[]T, left int) *T {
	if len(*s) == cap(*s) {
		*s = make([]T, 0, min(left, 16))
	}
	*s = (*s)[:len(*s)+1]
	return &(*s)[len(*s)-1]
}

func appendRequest(b []byte, r Request) []byte {
	b = append(b, byte(r.Method()))
	switch r := r.(type) {
	case *GetRequest:
		return append(appendBytes(b, r.Key), byte(r.Lock))
	case *ScanRequest:
		b = appendBytes(appendBytes(b, r.Start), r.End)
		return append(appendBool(b, r.Reverse), byte(r.Lock))
	case *PutRequest:
		return appendWritten(appendBytes(appendBytes(b, r.Key), r.Value), r.Seq, r.Seen)
	case *CPutRequest:
		b = appendBytes(appendBytes(appendBytes(b, r.Key), r.Value), r.Expected)
		return appendUint(b, uint64(r.Seq))
	case *DeleteRequest:
		return appendWritten(appendBytes(b, r.Key), r.Seq, r.Seen)
	case *DeleteRangeRequest:
		return appendUint(appendBytes(appendBytes(b, r.Start), r.End), uint64(r.Seq))
	case *AddRequest:
		b = appendUint(appendInt(appendBytes(b, r.Key), r.Delta), uint64(r.Seq))
		return appendUint(appendBool(appendInt(appendBool(b, r.Draw), r.Reserve), r.Back), r.Turn)
	case *EndTxnRequest:
		b = appendBytes(b, r.Anchor)
		b = appendBool(b, r.Commit)
		b = appendList(b, r.LockSpans, appendSpan)
		b = appendInFlight(b, r.InFlight)
		b = appendBool(b, r.OnePhase)
		b = appendTrigger(b, r.Trigger)
		b = appendTS(appendTS(b, r.Deadline), r.Upto)
		return appendList(b, r.Held, appendHeld)
	case *HeartbeatTxnRequest:
		return appendBytes(b, r.Anchor)
	case *PushTxnRequest:
		b = appendOptTxn(b, r.Pusher)
		b = appendMeta(b, &r.Pushee)
		b = appendTS(b, r.PushTo)
		return appendBytes(appendBool(append(b, byte(r.Kind)), r.Force), r.Key)
	case *QueryTxnRequest:
		return appendUint(appendMeta(b, &r.Txn), r.Known)
	case *QueryIntentRequest:
		return appendMeta(appendBytes(b, r.Key), &r.Txn)
	case *ResolveIntentRequest:
		b = appendMeta(appendBytes(b, r.Key), &r.Txn)
		return appendSeqRanges(append(b, byte(r.Status)), r.IgnoredSeqs)
	case *ResolveRangeRequest:
		b = appendMeta(appendBytes(appendBytes(b, r.Start), r.End), &r.Txn)
		return appendInt(appendSeqRanges(append(b, byte(r.Status)), r.IgnoredSeqs), r.Max)
	case *RefreshRequest:
		return appendTS(appendBytes(b, r.Key), r.From)
	case *RefreshRangeRequest:
		return appendTS(appendBytes(appendBytes(b, r.Start), r.End), r.From)
	case *CheckLocksRequest:
		return appendTS(appendBytes(appendBytes(b, r.Start), r.End), r.From)
	case *GCRequest:
		b = appendTS(appendBytes(b, r.Start), r.Threshold)
		b = appendUint(b, uint64(len(r.Keys)))
		for _, k := range r.Keys {
			b = appendTS(appendBytes(b, k.Key), k.Timestamp)
		}
		b = appendUint(b, uint64(len(r.Records)))
		for _, k := range r.Records {
			b = appendBytes(b, k)
		}
		return b
	case *AdminSplitRequest:
		return appendBool(appendTS(appendBytes(b, r.Key), r.Keep), r.Undo)
	case *SubsumeRequest:
		return appendMeta(appendBytes(b, r.Key), &r.Txn)
	case *ReleaseRequest:
		return appendMeta(appendBytes(appendBytes(b, r.Start), r.End), &r.Txn)
	case *AdminMergeRequest:
		return appendBytes(b, r.Key)
	case *AdminChangeReplicasRequest:
		b = appendUint(appendBytes(b, r.Key), uint64(len(r.Targets)))
		for _, t := range r.Targets {
			b = append(appendUint(appendUint(b, uint64(t.Node)), uint64(t.Store)), byte(t.Type))
		}
		return b
	case *AdminTransferLeaseRequest:
		return appendUint(appendBytes(b, r.Key), uint64(r.Target))
	case *RangeInfoRequest:
		return appendBytes(b, r.Key)
	case *RecoverTxnRequest:
		return appendBool(appendMeta(b, &r.Txn), r.ImplicitlyCommits)
	case *LoadRequest:
		b = appendUint(append(b, byte(r.Mode)), uint64(len(r.Rows)))
		for i := range r.Rows {
			b = appendBytes(appendBytes(b, r.Rows[i].Key), r.Rows[i].Value)
		}
		return b
	case *ClearRequest:
		return appendTS(appendInt(appendBytes(appendBytes(b, r.Start), r.End), r.Max), r.Threshold)
	}
	panic("kv: request without a codec")
}

// appendWritten adds a write's sequence number, and in the same bytes whether Seen follows: it seldom does.
func appendWritten(b []byte, seq Seq, seen clock.Timestamp) []byte {
	if seen.IsZero() {
		return appendUint(b, uint64(seq)<<1)
	}
	return appendTS(appendUint(b, uint64(seq)<<1|1), seen)
}

func (d *decoder) written() (seq Seq, seen clock.Timestamp) {
	n := d.uvarint()
	if n>>1 > 1<<32-1 {
		d.fail()
		return 0, seen
	}
	if n&1 != 0 {
		if seen = d.ts(); seen.IsZero() {
			d.fail()
		}
	}
	return Seq(n >> 1), seen
}

func (d *decoder) lock() LockStrength { return LockStrength(d.enum(byte(Exclusive))) }

func (d *decoder) status() Status { return Status(d.enum(byte(Aborted))) }

// request reads one request, of which at most left follow with it.
func (d *decoder) request(s *requestSlabs, left int) Request {
	switch Method(d.byte()) {
	case MethodGet:
		r := slab(&s.gets, left)
		r.Key, r.Lock = d.key(), d.lock()
		return r
	case MethodScan:
		return &ScanRequest{Start: d.key(), End: d.key(), Reverse: d.bool(), Lock: d.lock()}
	case MethodPut:
		r := slab(&s.puts, left)
		r.Key, r.Value = d.key(), d.bytes()
		r.Seq, r.Seen = d.written()
		return r
	case MethodCPut:
		return &CPutRequest{Key: d.key(), Value: d.bytes(), Expected: d.bytes(), Seq: Seq(d.uint32())}
	case MethodDelete:
		r := slab(&s.deletes, left)
		r.Key = d.key()
		r.Seq, r.Seen = d.written()
		return r
	case MethodDeleteRange:
		return &DeleteRangeRequest{Start: d.key(), End: d.key(), Seq: Seq(d.uint32())}
	case MethodAdd:
		return &AddRequest{Key: d.key(), Delta: d.varint(), Seq: Seq(d.uint32()), Draw: d.bool(), Reserve: d.varint(),
			Back: d.bool(), Turn: d.uvarint()}
	case MethodEndTxn:
		return &EndTxnRequest{
			Anchor:    d.key(),
			Commit:    d.bool(),
			LockSpans: list(d, 2, (*decoder).span),
			InFlight:  d.inFlight(),
			OnePhase:  d.bool(),
			Trigger:   d.trigger(),
			Deadline:  d.ts(),
			Upto:      d.ts(),
			Held:      list(d, 4, (*decoder).held),
		}
	case MethodHeartbeatTxn:
		return &HeartbeatTxnRequest{Anchor: d.key()}
	case MethodPushTxn:
		return &PushTxnRequest{
			Pusher: d.optTxn(),
			Pushee: d.meta(),
			PushTo: d.ts(),
			Kind:   PushKind(d.enum(byte(PushTouch))),
			Force:  d.bool(),
			Key:    d.key(),
		}
	case MethodQueryTxn:
		return &QueryTxnRequest{Txn: d.meta(), Known: d.uvarint()}
	case MethodQueryIntent:
		return &QueryIntentRequest{Key: d.key(), Txn: d.meta()}
	case MethodResolveIntent:
		r := slab(&s.resolve, left)
		r.Key, r.Txn, r.Status, r.IgnoredSeqs = d.key(), d.meta(), d.status(), d.seqRanges()
		return r
	case MethodResolveRange:
		return &ResolveRangeRequest{
			Start: d.key(), End: d.key(), Txn: d.meta(), Status: d.status(), IgnoredSeqs: d.seqRanges(), Max: d.varint(),
		}
	case MethodRefresh:
		return &RefreshRequest{Key: d.key(), From: d.ts()}
	case MethodRefreshRange:
		return &RefreshRangeRequest{Start: d.key(), End: d.key(), From: d.ts()}
	case MethodCheckLocks:
		return &CheckLocksRequest{Start: d.key(), End: d.key(), From: d.ts()}
	case MethodGC:
		return &GCRequest{
			Start:     d.key(),
			Threshold: d.ts(),
			Keys:      list(d, 3, func(d *decoder) GCKey { return GCKey{Key: d.key(), Timestamp: d.ts()} }),
			Records:   list(d, 1, (*decoder).key),
		}
	case MethodAdminSplit:
		return &AdminSplitRequest{Key: d.key(), Keep: d.ts(), Undo: d.bool()}
	case MethodSubsume:
		return &SubsumeRequest{Key: d.key(), Txn: d.meta()}
	case MethodRelease:
		return &ReleaseRequest{Start: d.key(), End: d.key(), Txn: d.meta()}
	case MethodAdminMerge:
		return &AdminMergeRequest{Key: d.key()}
	case MethodAdminChangeReplicas:
		return &AdminChangeReplicasRequest{
			Key: d.key(),
			Targets: list(d, 3, func(d *decoder) ReplicaTarget {
				return ReplicaTarget{
					Node: NodeID(d.uint32()), Store: StoreID(d.uint32()), Type: ReplicaType(d.enum(byte(VoterDemoting))),
				}
			}),
		}
	case MethodAdminTransferLease:
		return &AdminTransferLeaseRequest{Key: d.key(), Target: NodeID(d.uint32())}
	case MethodRangeInfo:
		return &RangeInfoRequest{Key: d.key()}
	case MethodRecoverTxn:
		return &RecoverTxnRequest{Txn: d.meta(), ImplicitlyCommits: d.bool()}
	case MethodLoad:
		return &LoadRequest{
			Mode: LoadMode(d.enum(byte(LoadUnread))),
			Rows: list(d, 2, func(d *decoder) KeyValue { return KeyValue{Key: d.key(), Value: d.bytes()} }),
		}
	case MethodClear:
		return &ClearRequest{Start: d.key(), End: d.key(), Max: d.varint(), Threshold: d.ts()}
	}
	d.fail()
	return nil
}

func appendHeld(b []byte, h HeldLocks) []byte { return appendTS(appendSpan(b, h.Span), h.From) }

func (d *decoder) held() HeldLocks { return HeldLocks{Span: d.span(), From: d.ts()} }

const (
	triggerNone = iota
	triggerSplit
	triggerMerge
	triggerReplicas
)

func appendTrigger(b []byte, t *CommitTrigger) []byte {
	switch {
	case t == nil:
		return append(b, triggerNone)
	case t.Split != nil:
		return appendDescriptor(appendDescriptor(append(b, triggerSplit), &t.Split.Left), &t.Split.Right)
	case t.Merge != nil:
		b = appendDescriptor(appendDescriptor(append(b, triggerMerge), &t.Merge.Left), &t.Merge.Right)
		return appendUint(appendTS(b, t.Merge.Freeze), t.Merge.Applied)
	case t.Replicas != nil:
		return appendDescriptor(append(b, triggerReplicas), &t.Replicas.Desc)
	}
	return append(b, triggerNone)
}

func (d *decoder) trigger() *CommitTrigger {
	switch d.enum(triggerReplicas) {
	case triggerSplit:
		return &CommitTrigger{Split: &SplitTrigger{Left: d.descriptor(), Right: d.descriptor()}}
	case triggerMerge:
		return &CommitTrigger{Merge: &MergeTrigger{
			Left: d.descriptor(), Right: d.descriptor(), Freeze: d.ts(), Applied: d.uvarint(),
		}}
	case triggerReplicas:
		return &CommitTrigger{Replicas: &ReplicasTrigger{Desc: d.descriptor()}}
	}
	return nil
}

// Response tags.
const (
	respEmpty = iota
	respGet
	respScan
	respDeleteRange
	respAdd
	respEndTxn
	respHeartbeat
	respPush
	respQueryTxn
	respQueryIntent
	respRangeInfo
	respRecover
	respNil
	respSubsume
	respLoad
)

// AppendReply adds the encoding of an answer to a batch: a response, an error, or both.
func AppendReply(b []byte, r *BatchResponse, err error) []byte {
	b = append(b, codecVersion)
	b = appendError(b, err)
	if r == nil {
		return append(b, 0)
	}
	b = append(b, 1)
	b = appendOptTxn(b, r.Txn)
	b = appendTS(b, r.Timestamp)
	b = appendTS(b, r.LockedAt)
	b = appendTS(b, r.Now)
	b = appendUint(b, uint64(r.Waited))
	b = appendUint(b, uint64(len(r.Responses)))
	for _, x := range r.Responses {
		b = appendResponse(b, x)
	}
	b = appendList(b, r.RangeInfos, appendRangeInfo)
	b = appendUint(b, uint64(len(r.Served)))
	for _, s := range r.Served {
		b = appendUint(appendUint(b, uint64(s.Range)), uint64(s.Node))
	}
	return b
}

// DecodeReply reads what AppendReply wrote. err is the range's answer; malformed says that there is none to be
// read. The result shares b.
func DecodeReply(b []byte) (r *BatchResponse, err, malformed error) {
	d := decoder{b: b}
	if d.byte() != codecVersion {
		return nil, nil, ErrMalformed
	}
	err = d.error()
	if d.bool() {
		r = &BatchResponse{Txn: d.optTxn(), Timestamp: d.ts(), LockedAt: d.ts(), Now: d.ts(), Waited: time.Duration(d.uvarint())}
		n := d.count(1)
		if n > 0 {
			r.Responses = make([]Response, 0, n)
		}
		var gets []GetResponse
		for i := 0; i < n && !d.bad; i++ {
			r.Responses = append(r.Responses, d.response(&gets, n-i))
		}
		r.RangeInfos = list(&d, 11, (*decoder).rangeInfo)
		r.Served = list(&d, 2, func(d *decoder) Served {
			return Served{Range: RangeID(d.uvarint()), Node: NodeID(d.uint32())}
		})
	}
	if err := d.end(); err != nil {
		return nil, nil, err
	}
	return r, err, nil
}

// emptyResponse answers all requests that have nothing to say; it has no state to share.
var emptyResponse = &EmptyResponse{}

func appendResponse(b []byte, r Response) []byte {
	switch r := r.(type) {
	case nil:
		return append(b, respNil)
	case *EmptyResponse:
		return append(b, respEmpty)
	case *GetResponse:
		return appendTS(appendBytes(append(b, respGet), r.Value), r.Timestamp)
	case *ScanResponse:
		b = appendOptSpan(append(b, respScan), r.Resume)
		return appendPairs(appendPairs(b, r.Rows), r.Provisional)
	case *DeleteRangeResponse:
		return appendOptSpan(appendInt(append(b, respDeleteRange), r.Deleted), r.Resume)
	case *AddResponse:
		return appendUint(appendInt(append(b, respAdd), r.Value), r.Turn)
	case *EndTxnResponse:
		b = appendBool(append(b, respEndTxn), r.OnePhase)
		b = appendBool(appendTS(b, r.CommitTimestamp), r.Staged)
		return appendList(b, r.Unresolved, appendSpan)
	case *HeartbeatTxnResponse:
		return appendTxn(append(b, respHeartbeat), &r.Txn)
	case *PushTxnResponse:
		return appendTxn(append(b, respPush), &r.Pushee)
	case *QueryTxnResponse:
		b = appendBool(appendTxn(append(b, respQueryTxn), &r.Txn), r.Exists)
		return appendUint(appendList(b, r.Waits, appendWait), r.Version)
	case *QueryIntentResponse:
		return appendBool(append(b, respQueryIntent), r.Found)
	case *RangeInfoResponse:
		b = appendDescriptor(append(b, respRangeInfo), &r.Desc)
		b = appendUint(appendUint(b, uint64(r.Leaseholder)), r.LeaseSequence)
		return appendInt(appendInt(appendInt(b, r.LiveBytes), r.KeyCount), r.TotalBytes)
	case *RecoverTxnResponse:
		return appendTxn(append(b, respRecover), &r.Txn)
	case *LoadResponse:
		return appendList(append(b, respLoad), r.Refused, func(b []byte, k keys.Key) []byte { return appendBytes(b, k) })
	case *SubsumeResponse:
		b = appendUint(appendDescriptor(append(b, respSubsume), &r.Desc), r.Applied)
		return appendTS(b, r.Freeze)
	}
	panic("kv: response without a codec")
}

func (d *decoder) response(gets *[]GetResponse, left int) Response {
	switch d.enum(respLoad) {
	case respEmpty:
		if d.bad {
			return nil
		}
		return emptyResponse
	case respGet:
		r := slab(gets, left)
		r.Value, r.Timestamp = d.bytes(), d.ts()
		return r
	case respScan:
		return &ScanResponse{
			Resume: d.optSpan(), Rows: list(d, 4, (*decoder).pair), Provisional: list(d, 4, (*decoder).pair),
		}
	case respDeleteRange:
		return &DeleteRangeResponse{Deleted: d.varint(), Resume: d.optSpan()}
	case respAdd:
		return &AddResponse{Value: d.varint(), Turn: d.uvarint()}
	case respEndTxn:
		return &EndTxnResponse{
			OnePhase: d.bool(), CommitTimestamp: d.ts(), Staged: d.bool(), Unresolved: list(d, 2, (*decoder).span),
		}
	case respSubsume:
		return &SubsumeResponse{Desc: d.descriptor(), Applied: d.uvarint(), Freeze: d.ts()}
	case respHeartbeat:
		return &HeartbeatTxnResponse{Txn: d.txn()}
	case respPush:
		return &PushTxnResponse{Pushee: d.txn()}
	case respQueryTxn:
		return &QueryTxnResponse{Txn: d.txn(), Exists: d.bool(), Waits: list(d, minWait, (*decoder).wait), Version: d.uvarint()}
	case respQueryIntent:
		return &QueryIntentResponse{Found: d.bool()}
	case respRangeInfo:
		return &RangeInfoResponse{
			Desc: d.descriptor(), Leaseholder: NodeID(d.uint32()), LeaseSequence: d.uvarint(),
			LiveBytes: d.varint(), KeyCount: d.varint(), TotalBytes: d.varint(),
		}
	case respRecover:
		return &RecoverTxnResponse{Txn: d.txn()}
	case respLoad:
		return &LoadResponse{Refused: list(d, 1, (*decoder).key)}
	}
	return nil
}

func appendPairs(b []byte, rows []KeyValue) []byte {
	b = appendUint(b, uint64(len(rows)))
	for i := range rows {
		kv := &rows[i]
		b = appendTS(appendBytes(appendBytes(b, kv.Key), kv.Value), kv.Timestamp)
	}
	return b
}

func (d *decoder) pair() KeyValue { return KeyValue{Key: d.key(), Value: d.bytes(), Timestamp: d.ts()} }
