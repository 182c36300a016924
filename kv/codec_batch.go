package kv

import (
	"meridian/wire"
)

const (
	batchHeader = 1
	// A request is the field twice its method plus one, so a method that a reader does not know is refused (wire.W1).
	batchRequests = 3
)

func requestField(m Method) uint32 { return 2*uint32(m) + 1 }

// AppendBatch adds the encoding of a batch.
func AppendBatch(b []byte, batch *Batch) []byte {
	b, at := wire.Begin(b, batchHeader)
	b = wire.End(appendHeader(b, &batch.Header), at)
	for _, r := range batch.Requests {
		size := 0
		switch r := r.(type) {
		case *PutRequest:
			size = len(r.Key) + len(r.Value)
		case *LoadRequest:
			size = 1 << 13
		}
		b, at = wire.BeginLong(b, requestField(r.Method()), size)
		b = wire.End(appendRequest(b, r), at)
	}
	return b
}

// DecodeBatch reads what AppendBatch wrote. The result shares b.
func DecodeBatch(b []byte) (*Batch, error) {
	r := wire.Read(b)
	batch := &Batch{}
	readBatch(&r, batch)
	if r.Err() != nil {
		return nil, r.Err()
	}
	return batch, nil
}

func readBatch(r *wire.Reader, batch *Batch) {
	var s requestSlabs
	for m := r.Open("kv.Batch"); r.Next(&m); {
		if r.Field() == batchHeader {
			readHeader(r, &batch.Header)
			continue
		}
		if r.Field() >= batchRequests && r.Field()&1 != 0 {
			if batch.Requests == nil {
				batch.Requests = make([]Request, 0, r.Left())
			}
			if q := readRequest(r, &s, cap(batch.Requests)-len(batch.Requests)); q != nil {
				batch.Requests = append(batch.Requests, q)
				continue
			}
		}
		r.Skip()
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

func appendRequest(b []byte, r Request) []byte {
	switch r := r.(type) {
	case *GetRequest:
		return wire.Uint(wire.Bytes(b, 1, r.Key), 3, uint64(r.Lock))
	case *ScanRequest:
		b = wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End)
		return wire.Uint(wire.Bool(b, 5, r.Reverse), 7, uint64(r.Lock))
	case *PutRequest:
		b = wire.Bytes(wire.Bytes(b, 1, r.Key), 3, r.Value)
		return wire.Timestamp(wire.Uint(b, 5, uint64(r.Seq)), 7, r.Seen)
	case *CPutRequest:
		b = wire.Bytes(wire.Bytes(b, 1, r.Key), 3, r.Value)
		return wire.Bytes(wire.Uint(b, 5, uint64(r.Seq)), 7, r.Expected)
	case *DeleteRequest:
		return wire.Timestamp(wire.Uint(wire.Bytes(b, 1, r.Key), 3, uint64(r.Seq)), 5, r.Seen)
	case *DeleteRangeRequest:
		return wire.Uint(wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End), 5, uint64(r.Seq))
	case *AddRequest:
		b = wire.Int(wire.Bytes(b, 1, r.Key), 3, r.Delta)
		b = wire.Bool(wire.Uint(b, 5, uint64(r.Seq)), 7, r.Draw)
		return wire.Uint(wire.Bool(wire.Int(b, 9, r.Reserve), 11, r.Back), 13, r.Turn)
	case *EndTxnRequest:
		b = wire.Bool(wire.Bytes(b, 1, r.Anchor), 3, r.Commit)
		b = inFlightFields(spanFields(b, 5, r.LockSpans), 7, r.InFlight)
		b = wire.Bool(b, 9, r.OnePhase)
		if t := r.Trigger; t != nil && *t != (CommitTrigger{}) {
			var at int
			b, at = wire.Begin(b, 11)
			b = wire.End(AppendTrigger(b, t), at)
		}
		b = wire.Timestamp(wire.Timestamp(b, 13, r.Deadline), 15, r.Upto)
		for i := range r.Held {
			var at int
			b, at = wire.Begin(b, 17)
			b = wire.End(appendHeld(b, &r.Held[i]), at)
		}
		return b
	case *HeartbeatTxnRequest:
		return wire.Bytes(b, 1, r.Anchor)
	case *PushTxnRequest:
		b = metaField(optTxnField(b, 1, r.Pusher), 3, &r.Pushee)
		b = wire.Uint(wire.Timestamp(b, 5, r.PushTo), 7, uint64(r.Kind))
		// The key is for messages about deadlocks only.
		return wire.Bytes(wire.Bool(b, 9, r.Force), 2, r.Key)
	case *QueryTxnRequest:
		// A reader that ignored Known would answer at once.
		return wire.Bool(wire.Uint(metaField(b, 1, &r.Txn), 2, r.Known), 3, r.List)
	case *QueryIntentRequest:
		return metaField(wire.Bytes(b, 1, r.Key), 3, &r.Txn)
	case *ResolveIntentRequest:
		b = metaField(wire.Bytes(b, 1, r.Key), 3, &r.Txn)
		return seqRangeFields(wire.Uint(b, 5, uint64(r.Status)), 7, r.IgnoredSeqs)
	case *ResolveRangeRequest:
		b = metaField(wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End), 5, &r.Txn)
		return wire.Int(seqRangeFields(wire.Uint(b, 7, uint64(r.Status)), 9, r.IgnoredSeqs), 11, r.Max)
	case *RefreshRequest:
		return wire.Timestamp(wire.Bytes(b, 1, r.Key), 3, r.From)
	case *RefreshRangeRequest:
		return wire.Timestamp(wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End), 5, r.From)
	case *CheckLocksRequest:
		return wire.Timestamp(wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End), 5, r.From)
	case *CloseRequest:
		return wire.Timestamp(wire.Bytes(b, 1, r.Key), 2, r.At)
	case *NegotiateRequest:
		return wire.Timestamp(wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End), 2, r.Least)
	case *GCRequest:
		b = wire.Timestamp(wire.Bytes(b, 1, r.Start), 3, r.Threshold)
		for i := range r.Keys {
			var at int
			b, at = wire.Begin(b, 5)
			b = wire.End(appendGCKey(b, &r.Keys[i]), at)
		}
		for _, k := range r.Records {
			b = wire.Element(b, 7, k)
		}
		return b
	case *AdminSplitRequest:
		return wire.Bool(wire.Timestamp(wire.Bytes(b, 1, r.Key), 3, r.Keep), 5, r.Undo)
	case *SubsumeRequest:
		return metaField(wire.Bytes(b, 1, r.Key), 3, &r.Txn)
	case *ProtocolRequest:
		return wire.Bool(wire.Bytes(wire.Bytes(wire.Bytes(b, 1, r.Key), 3, r.End), 5, r.Body), 7, r.Reads)
	case *ReleaseRequest:
		return metaField(wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End), 5, &r.Txn)
	case *AdminMergeRequest:
		return someSpan(wire.Bytes(b, 1, r.Key), 3, &r.Of)
	case *AdminChangeReplicasRequest:
		b = wire.Bytes(b, 1, r.Key)
		for i := range r.Targets {
			var at int
			b, at = wire.Begin(b, 3)
			b = wire.End(appendReplicaTarget(b, &r.Targets[i]), at)
		}
		return someSpan(b, 5, &r.Of)
	case *AdminTransferLeaseRequest:
		return someSpan(wire.Uint(wire.Bytes(b, 1, r.Key), 3, uint64(r.Target)), 5, &r.Of)
	case *AdminSetProtocolRequest:
		return someSpan(wire.Uint(wire.Bytes(b, 1, r.Key), 3, uint64(r.Protocol)), 5, &r.Within)
	case *AdminRecallRequest:
		return wire.Bytes(wire.Uint(wire.Bytes(b, 1, r.Key), 3, uint64(r.Protocol)), 5, r.Body)
	case *RangeInfoRequest:
		return wire.Bytes(b, 1, r.Key)
	case *RecoverTxnRequest:
		return wire.Bool(metaField(b, 1, &r.Txn), 3, r.ImplicitlyCommits)
	case *LoadRequest:
		b = wire.Uint(b, 1, uint64(r.Mode))
		return pairFields(b, 3, r.Rows)
	case *ClearRequest:
		b = wire.Bytes(wire.Bytes(b, 1, r.Start), 3, r.End)
		return wire.Timestamp(wire.Int(b, 5, r.Max), 7, r.Threshold)
	}
	panic("kv: request without a codec")
}

func readLock(r *wire.Reader) LockStrength { return LockStrength(r.Enum(uint8(Exclusive))) }

func readStatus(r *wire.Reader) Status { return Status(r.Enum(uint8(Aborted))) }

// readRequest reads one request, after which about left-1 follow. It gives nil, having read nothing, if the field is no request that it knows.
func readRequest(r *wire.Reader, s *requestSlabs, left int) Request {
	switch Method(r.Field() / 2) {
	case MethodGet:
		q := slab(&s.gets, left)
		readGet(r, q)
		return q
	case MethodPut:
		q := slab(&s.puts, left)
		readPut(r, q)
		return q
	case MethodDelete:
		q := slab(&s.deletes, left)
		readDelete(r, q)
		return q
	case MethodResolveIntent:
		q := slab(&s.resolve, left)
		readResolveIntent(r, q)
		return q
	case MethodScan:
		q := &ScanRequest{}
		readScan(r, q)
		return q
	case MethodCPut:
		q := &CPutRequest{}
		readCPut(r, q)
		return q
	case MethodDeleteRange:
		q := &DeleteRangeRequest{}
		readDeleteRange(r, q)
		return q
	case MethodAdd:
		q := &AddRequest{}
		readAdd(r, q)
		return q
	case MethodEndTxn:
		q := &EndTxnRequest{}
		readEndTxn(r, q)
		return q
	case MethodHeartbeatTxn:
		q := &HeartbeatTxnRequest{}
		readHeartbeatTxn(r, q)
		return q
	case MethodPushTxn:
		q := &PushTxnRequest{}
		readPushTxn(r, q)
		return q
	case MethodQueryTxn:
		q := &QueryTxnRequest{}
		readQueryTxn(r, q)
		return q
	case MethodQueryIntent:
		q := &QueryIntentRequest{}
		readQueryIntent(r, q)
		return q
	case MethodResolveRange:
		q := &ResolveRangeRequest{}
		readResolveRange(r, q)
		return q
	case MethodRefresh:
		q := &RefreshRequest{}
		readRefresh(r, q)
		return q
	case MethodRefreshRange:
		q := &RefreshRangeRequest{}
		readRefreshRange(r, q)
		return q
	case MethodCheckLocks:
		q := &CheckLocksRequest{}
		readCheckLocks(r, q)
		return q
	case MethodClose:
		q := &CloseRequest{}
		readClose(r, q)
		return q
	case MethodNegotiate:
		q := &NegotiateRequest{}
		readNegotiate(r, q)
		return q
	case MethodGC:
		q := &GCRequest{}
		readGC(r, q)
		return q
	case MethodAdminSplit:
		q := &AdminSplitRequest{}
		readAdminSplit(r, q)
		return q
	case MethodSubsume:
		q := &SubsumeRequest{}
		readSubsume(r, q)
		return q
	case MethodRelease:
		q := &ReleaseRequest{}
		readRelease(r, q)
		return q
	case MethodProtocol:
		q := &ProtocolRequest{}
		readProtocolRequest(r, q)
		return q
	case MethodAdminMerge:
		q := &AdminMergeRequest{}
		readAdminMerge(r, q)
		return q
	case MethodAdminChangeReplicas:
		q := &AdminChangeReplicasRequest{}
		readAdminChangeReplicas(r, q)
		return q
	case MethodAdminTransferLease:
		q := &AdminTransferLeaseRequest{}
		readAdminTransferLease(r, q)
		return q
	case MethodAdminSetProtocol:
		q := &AdminSetProtocolRequest{}
		readAdminSetProtocol(r, q)
		return q
	case MethodAdminRecall:
		q := &AdminRecallRequest{}
		readAdminRecall(r, q)
		return q
	case MethodRangeInfo:
		q := &RangeInfoRequest{}
		readRangeInfoRequest(r, q)
		return q
	case MethodRecoverTxn:
		q := &RecoverTxnRequest{}
		readRecoverTxn(r, q)
		return q
	case MethodLoad:
		q := &LoadRequest{}
		readLoad(r, q)
		return q
	case MethodClear:
		q := &ClearRequest{}
		readClear(r, q)
		return q
	}
	return nil
}

func readGet(r *wire.Reader, q *GetRequest) {
	for m := r.Open("kv.GetRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Lock = readLock(r)
		default:
			r.Skip()
		}
	}
}

func readScan(r *wire.Reader, q *ScanRequest) {
	for m := r.Open("kv.ScanRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			q.Reverse = r.Bool()
		case 7:
			q.Lock = readLock(r)
		default:
			r.Skip()
		}
	}
}

func readPut(r *wire.Reader, q *PutRequest) {
	for m := r.Open("kv.PutRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Value = r.Bytes()
		case 5:
			q.Seq = Seq(r.Uint32())
		case 7:
			q.Seen = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readCPut(r *wire.Reader, q *CPutRequest) {
	for m := r.Open("kv.CPutRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Value = r.Bytes()
		case 5:
			q.Seq = Seq(r.Uint32())
		case 7:
			q.Expected = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readDelete(r *wire.Reader, q *DeleteRequest) {
	for m := r.Open("kv.DeleteRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Seq = Seq(r.Uint32())
		case 5:
			q.Seen = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readDeleteRange(r *wire.Reader, q *DeleteRangeRequest) {
	for m := r.Open("kv.DeleteRangeRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			q.Seq = Seq(r.Uint32())
		default:
			r.Skip()
		}
	}
}

func readAdd(r *wire.Reader, q *AddRequest) {
	for m := r.Open("kv.AddRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Delta = r.Int()
		case 5:
			q.Seq = Seq(r.Uint32())
		case 7:
			q.Draw = r.Bool()
		case 9:
			q.Reserve = r.Int()
		case 11:
			q.Back = r.Bool()
		case 13:
			q.Turn = r.Uint()
		default:
			r.Skip()
		}
	}
}

func readEndTxn(r *wire.Reader, q *EndTxnRequest) {
	for m := r.Open("kv.EndTxnRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Anchor = r.Bytes()
		case 3:
			q.Commit = r.Bool()
		case 5:
			readSpan(r, wire.Grow(r, &q.LockSpans))
		case 7:
			ReadInFlight(r, wire.Grow(r, &q.InFlight))
		case 9:
			q.OnePhase = r.Bool()
		case 11:
			q.Trigger = &CommitTrigger{}
			ReadTrigger(r, q.Trigger)
		case 13:
			q.Deadline = r.Timestamp()
		case 15:
			q.Upto = r.Timestamp()
		case 17:
			readHeld(r, wire.Grow(r, &q.Held))
		default:
			r.Skip()
		}
	}
}

func readHeartbeatTxn(r *wire.Reader, q *HeartbeatTxnRequest) {
	for m := r.Open("kv.HeartbeatTxnRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Anchor = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readPushTxn(r *wire.Reader, q *PushTxnRequest) {
	for m := r.Open("kv.PushTxnRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Pusher = &Txn{}
			readTxn(r, q.Pusher)
		case 2:
			q.Key = r.Bytes()
		case 3:
			ReadTxnMeta(r, &q.Pushee)
		case 5:
			q.PushTo = r.Timestamp()
		case 7:
			q.Kind = PushKind(r.Enum(uint8(PushTouch)))
		case 9:
			q.Force = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readQueryTxn(r *wire.Reader, q *QueryTxnRequest) {
	for m := r.Open("kv.QueryTxnRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadTxnMeta(r, &q.Txn)
		case 2:
			q.Known = r.Uint()
		case 3:
			q.List = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readQueryIntent(r *wire.Reader, q *QueryIntentRequest) {
	for m := r.Open("kv.QueryIntentRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			ReadTxnMeta(r, &q.Txn)
		default:
			r.Skip()
		}
	}
}

func readResolveIntent(r *wire.Reader, q *ResolveIntentRequest) {
	for m := r.Open("kv.ResolveIntentRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			ReadTxnMeta(r, &q.Txn)
		case 5:
			q.Status = readStatus(r)
		case 7:
			ReadSeqRange(r, wire.Grow(r, &q.IgnoredSeqs))
		default:
			r.Skip()
		}
	}
}

func readResolveRange(r *wire.Reader, q *ResolveRangeRequest) {
	for m := r.Open("kv.ResolveRangeRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			ReadTxnMeta(r, &q.Txn)
		case 7:
			q.Status = readStatus(r)
		case 9:
			ReadSeqRange(r, wire.Grow(r, &q.IgnoredSeqs))
		case 11:
			q.Max = r.Int()
		default:
			r.Skip()
		}
	}
}

func readRefresh(r *wire.Reader, q *RefreshRequest) {
	for m := r.Open("kv.RefreshRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.From = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readRefreshRange(r *wire.Reader, q *RefreshRangeRequest) {
	for m := r.Open("kv.RefreshRangeRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			q.From = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readCheckLocks(r *wire.Reader, q *CheckLocksRequest) {
	for m := r.Open("kv.CheckLocksRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			q.From = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readClose(r *wire.Reader, q *CloseRequest) {
	for m := r.Open("kv.CloseRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 2:
			q.At = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readNegotiate(r *wire.Reader, q *NegotiateRequest) {
	for m := r.Open("kv.NegotiateRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 2:
			q.Least = r.Timestamp()
		case 3:
			q.End = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readGC(r *wire.Reader, q *GCRequest) {
	for m := r.Open("kv.GCRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.Threshold = r.Timestamp()
		case 5:
			readGCKey(r, wire.Grow(r, &q.Keys))
		case 7:
			*wire.Grow(r, &q.Records) = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readAdminSplit(r *wire.Reader, q *AdminSplitRequest) {
	for m := r.Open("kv.AdminSplitRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Keep = r.Timestamp()
		case 5:
			q.Undo = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readSubsume(r *wire.Reader, q *SubsumeRequest) {
	for m := r.Open("kv.SubsumeRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			ReadTxnMeta(r, &q.Txn)
		default:
			r.Skip()
		}
	}
}

func readRelease(r *wire.Reader, q *ReleaseRequest) {
	for m := r.Open("kv.ReleaseRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			ReadTxnMeta(r, &q.Txn)
		default:
			r.Skip()
		}
	}
}

func readProtocolRequest(r *wire.Reader, q *ProtocolRequest) {
	for m := r.Open("kv.ProtocolRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			q.Body = r.Bytes()
		case 7:
			q.Reads = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readAdminMerge(r *wire.Reader, q *AdminMergeRequest) {
	for m := r.Open("kv.AdminMergeRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			readSpan(r, &q.Of)
		default:
			r.Skip()
		}
	}
}

func readAdminChangeReplicas(r *wire.Reader, q *AdminChangeReplicasRequest) {
	for m := r.Open("kv.AdminChangeReplicasRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			readReplicaTarget(r, wire.Grow(r, &q.Targets))
		case 5:
			readSpan(r, &q.Of)
		default:
			r.Skip()
		}
	}
}

func readAdminTransferLease(r *wire.Reader, q *AdminTransferLeaseRequest) {
	for m := r.Open("kv.AdminTransferLeaseRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Target = NodeID(r.Uint32())
		case 5:
			readSpan(r, &q.Of)
		default:
			r.Skip()
		}
	}
}

func readAdminSetProtocol(r *wire.Reader, q *AdminSetProtocolRequest) {
	for m := r.Open("kv.AdminSetProtocolRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Protocol = readProtocol(r)
		case 5:
			readSpan(r, &q.Within)
		default:
			r.Skip()
		}
	}
}

func readAdminRecall(r *wire.Reader, q *AdminRecallRequest) {
	for m := r.Open("kv.AdminRecallRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		case 3:
			q.Protocol = readProtocol(r)
		case 5:
			q.Body = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readRangeInfoRequest(r *wire.Reader, q *RangeInfoRequest) {
	for m := r.Open("kv.RangeInfoRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Key = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readRecoverTxn(r *wire.Reader, q *RecoverTxnRequest) {
	for m := r.Open("kv.RecoverTxnRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadTxnMeta(r, &q.Txn)
		case 3:
			q.ImplicitlyCommits = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readLoad(r *wire.Reader, q *LoadRequest) {
	for m := r.Open("kv.LoadRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Mode = LoadMode(r.Enum(uint8(LoadUnread)))
		case 3:
			readPair(r, wire.Grow(r, &q.Rows))
		default:
			r.Skip()
		}
	}
}

func readClear(r *wire.Reader, q *ClearRequest) {
	for m := r.Open("kv.ClearRequest"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Start = r.Bytes()
		case 3:
			q.End = r.Bytes()
		case 5:
			q.Max = r.Int()
		case 7:
			q.Threshold = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readGCKey(r *wire.Reader, k *GCKey) {
	for m := r.Open("kv.GCKey"); r.Next(&m); {
		switch r.Field() {
		case 1:
			k.Key = r.Bytes()
		case 3:
			k.Timestamp = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readHeld(r *wire.Reader, h *HeldLocks) {
	for m := r.Open("kv.HeldLocks"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readSpan(r, &h.Span)
		case 3:
			h.From = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readReplicaTarget(r *wire.Reader, t *ReplicaTarget) {
	for m := r.Open("kv.ReplicaTarget"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.Node = NodeID(r.Uint32())
		case 3:
			t.Store = StoreID(r.Uint32())
		case 5:
			t.Type = ReplicaType(r.Enum(uint8(VoterDemoting)))
		case 7:
			t.Witness = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readPair(r *wire.Reader, p *KeyValue) {
	for m := r.Open("kv.KeyValue"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Key = r.Bytes()
		case 3:
			p.Value = r.Bytes()
		case 5:
			p.Timestamp = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func appendGCKey(b []byte, k *GCKey) []byte {
	return wire.Timestamp(wire.Bytes(b, 1, k.Key), 3, k.Timestamp)
}

func appendHeld(b []byte, h *HeldLocks) []byte {
	return wire.Timestamp(spanField(b, 1, &h.Span), 3, h.From)
}

func appendReplicaTarget(b []byte, t *ReplicaTarget) []byte {
	b = wire.Uint(wire.Uint(b, 1, uint64(t.Node)), 3, uint64(t.Store))
	return wire.Bool(wire.Uint(b, 5, uint64(t.Type)), 7, t.Witness)
}

func appendPair(b []byte, p *KeyValue) []byte {
	return wire.Timestamp(wire.Bytes(wire.Bytes(b, 1, p.Key), 3, p.Value), 5, p.Timestamp)
}

func pairFields(b []byte, field uint32, rows []KeyValue) []byte {
	for i := range rows {
		var at int
		b, at = wire.BeginLong(b, field, len(rows[i].Key)+len(rows[i].Value))
		b = wire.End(appendPair(b, &rows[i]), at)
	}
	return b
}
