package kv

import (
	"time"

	"meridian/keys"
	"meridian/wire"
)

// The fields of an answer. Each response is a field of its own kind, in the order of the requests; all kinds are odd, because
// a response that was left out would move the others.
const (
	replyError = 1
	replyHead  = 3

	respEmpty       = 5
	respGet         = 7
	respScan        = 9
	respDeleteRange = 11
	respAdd         = 13
	respEndTxn      = 15
	respHeartbeat   = 17
	respPush        = 19
	respQueryTxn    = 21
	respQueryIntent = 23
	respRangeInfo   = 25
	respRecover     = 27
	respNil         = 29
	respSubsume     = 31
	respLoad        = 33
	respProtocol    = 35
	respSetProtocol = 37
	respNegotiate   = 39
	respClose       = 41
	respLast        = respClose
)

// AppendReply adds the encoding of an answer to a batch: a response, an error, or both.
func AppendReply(b []byte, r *BatchResponse, err error) []byte {
	if err != nil {
		var at int
		b, at = wire.Begin(b, replyError)
		b = wire.End(appendError(b, err), at)
	}
	if r == nil {
		return b
	}
	b, at := wire.Begin(b, replyHead)
	b = wire.End(appendReplyHead(b, r), at)
	for _, x := range r.Responses {
		b = responseField(b, x)
	}
	return b
}

func appendReplyHead(b []byte, r *BatchResponse) []byte {
	b = optTxnField(b, 1, r.Txn)
	b = wire.Timestamp(b, 3, r.Timestamp)
	b = wire.Timestamp(b, 5, r.LockedAt)
	b = wire.Timestamp(b, 7, r.Now)
	b = wire.Int(b, 2, int64(r.Waited))
	b = rangeInfoFields(b, 4, r.RangeInfos)
	for i := range r.Served {
		var at int
		b, at = wire.Begin(b, 6)
		b = wire.End(appendServed(b, &r.Served[i]), at)
	}
	b = wire.Bool(b, 8, r.Leads)
	if r.Followed != nil {
		b = pairFields(b, 10, r.Followed.Rows)
		b = wire.Uint(b, 12, uint64(r.Followed.Lock))
		b = wire.Timestamp(b, 14, r.Followed.LockedAt)
	}
	return b
}

func (h *BatchResponse) followed() *Followed {
	if h.Followed == nil {
		h.Followed = &Followed{}
	}
	return h.Followed
}

func readReplyHead(r *wire.Reader, h *BatchResponse) {
	for m := r.Open("kv.BatchResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			h.Txn = &Txn{}
			readTxn(r, h.Txn)
		case 2:
			h.Waited = time.Duration(r.Int())
		case 3:
			h.Timestamp = r.Timestamp()
		case 4:
			readRangeInfo(r, wire.Grow(r, &h.RangeInfos))
		case 5:
			h.LockedAt = r.Timestamp()
		case 6:
			readServed(r, wire.Grow(r, &h.Served))
		case 7:
			h.Now = r.Timestamp()
		case 8:
			h.Leads = r.Bool()
		case 10:
			readPair(r, wire.Grow(r, &h.followed().Rows))
		case 12:
			h.followed().Lock = LockStrength(r.Enum(uint8(Exclusive)))
		case 14:
			h.followed().LockedAt = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func appendServed(b []byte, s *Served) []byte {
	return wire.Uint(wire.Uint(b, 1, uint64(s.Range)), 3, uint64(s.Node))
}

func readServed(r *wire.Reader, s *Served) {
	for m := r.Open("kv.Served"); r.Next(&m); {
		switch r.Field() {
		case 1:
			s.Range = RangeID(r.Uint())
		case 3:
			s.Node = NodeID(r.Uint32())
		default:
			r.Skip()
		}
	}
}

// DecodeReply reads what AppendReply wrote. err is the range's answer; malformed says that there is none to be
// read. The result shares b.
func DecodeReply(b []byte) (r *BatchResponse, err, malformed error) {
	d := wire.Read(b)
	r, err = readReply(&d)
	if d.Err() != nil {
		return nil, nil, d.Err()
	}
	return r, err, nil
}

func readReply(r *wire.Reader) (h *BatchResponse, err error) {
	var gets []GetResponse
	for m := r.Open("kv.Reply"); r.Next(&m); {
		switch r.Field() {
		case replyError:
			err = readError(r)
		case replyHead:
			h = &BatchResponse{}
			readReplyHead(r, h)
		default:
			if r.Field()&1 == 0 || r.Field() > respLast {
				r.Skip()
				continue
			}
			if h == nil {
				r.Malformed()
				continue
			}
			if h.Responses == nil {
				h.Responses = make([]Response, 0, r.Left())
			}
			h.Responses = append(h.Responses, readResponse(r, &gets, cap(h.Responses)-len(h.Responses)))
		}
	}
	return h, err
}

// emptyResponse answers all requests that have nothing to say; it has no state to share.
var emptyResponse = &EmptyResponse{}

func responseField(b []byte, r Response) []byte {
	kind := uint32(respNil)
	switch r.(type) {
	case *EmptyResponse:
		kind = respEmpty
	case *GetResponse:
		kind = respGet
	case *ScanResponse:
		kind = respScan
	case *DeleteRangeResponse:
		kind = respDeleteRange
	case *AddResponse:
		kind = respAdd
	case *EndTxnResponse:
		kind = respEndTxn
	case *HeartbeatTxnResponse:
		kind = respHeartbeat
	case *PushTxnResponse:
		kind = respPush
	case *QueryTxnResponse:
		kind = respQueryTxn
	case *QueryIntentResponse:
		kind = respQueryIntent
	case *RangeInfoResponse:
		kind = respRangeInfo
	case *RecoverTxnResponse:
		kind = respRecover
	case *LoadResponse:
		kind = respLoad
	case *ProtocolResponse:
		kind = respProtocol
	case *AdminSetProtocolResponse:
		kind = respSetProtocol
	case *NegotiateResponse:
		kind = respNegotiate
	case *CloseResponse:
		kind = respClose
	case *SubsumeResponse:
		kind = respSubsume
	}
	size := 0
	if kind == respScan {
		size = 1 << 13
	}
	b, at := wire.BeginLong(b, kind, size)
	return wire.End(appendResponse(b, r), at)
}

func appendResponse(b []byte, r Response) []byte {
	switch r := r.(type) {
	case nil, *EmptyResponse:
		return b
	case *GetResponse:
		return wire.Timestamp(wire.Bytes(b, 1, r.Value), 3, r.Timestamp)
	case *ScanResponse:
		b = optSpanField(b, 1, r.Resume)
		return pairFields(pairFields(b, 3, r.Rows), 5, r.Provisional)
	case *DeleteRangeResponse:
		return optSpanField(wire.Int(b, 1, r.Deleted), 3, r.Resume)
	case *AddResponse:
		return wire.Uint(wire.Int(b, 1, r.Value), 3, r.Turn)
	case *EndTxnResponse:
		b = wire.Timestamp(wire.Bool(b, 1, r.OnePhase), 3, r.CommitTimestamp)
		return spanFields(wire.Bool(b, 5, r.Staged), 7, r.Unresolved)
	case *HeartbeatTxnResponse:
		return txnField(b, 1, &r.Txn)
	case *PushTxnResponse:
		return txnField(b, 1, &r.Pushee)
	case *QueryTxnResponse:
		b = wire.Bool(txnField(b, 1, &r.Txn), 3, r.Exists)
		b = wire.Uint(waitFields(b, 5, r.Waits), 7, r.Version)
		for i := range r.InFlight {
			var at int
			b, at = wire.Begin(b, 9)
			b = wire.End(AppendInFlight(b, &r.InFlight[i]), at)
		}
		return wire.Bool(wire.Timestamp(b, 2, r.Committed), 4, r.Remembers)
	case *QueryIntentResponse:
		return wire.Bool(b, 1, r.Found)
	case *RangeInfoResponse:
		b = descriptorField(b, 1, &r.Desc)
		b = wire.Uint(wire.Uint(b, 3, uint64(r.Leaseholder)), 5, r.LeaseSequence)
		b = wire.Int(wire.Int(wire.Int(b, 2, r.LiveBytes), 4, r.KeyCount), 6, r.TotalBytes)
		return wire.Uint(b, 8, r.RequestsPerSecond)
	case *RecoverTxnResponse:
		return txnField(b, 1, &r.Txn)
	case *LoadResponse:
		for _, k := range r.Refused {
			b = wire.Element(b, 1, k)
		}
		return b
	case *ProtocolResponse:
		return PositionField(wire.Bytes(b, 1, r.Body), 3, &r.Store)
	case *AdminSetProtocolResponse:
		return descriptorField(b, 1, &r.Desc)
	case *CloseResponse:
		return wire.Uint(wire.Uint(b, 1, r.Index), 2, uint64(r.Range))
	case *NegotiateResponse:
		return wire.Timestamp(wire.Bool(wire.Timestamp(b, 1, r.Timestamp), 2, r.Intent), 3, r.Closed)
	case *SubsumeResponse:
		return wire.Timestamp(wire.Uint(descriptorField(b, 1, &r.Desc), 3, r.Applied), 5, r.Freeze)
	}
	panic("kv: response without a codec")
}

func readResponse(r *wire.Reader, gets *[]GetResponse, left int) Response {
	switch r.Field() {
	case respEmpty:
		readEmptyResponse(r)
		return emptyResponse
	case respNil:
		readEmptyResponse(r)
		return nil
	case respGet:
		q := slab(gets, left)
		readGetResponse(r, q)
		return q
	case respScan:
		q := &ScanResponse{}
		readScanResponse(r, q)
		return q
	case respDeleteRange:
		q := &DeleteRangeResponse{}
		readDeleteRangeResponse(r, q)
		return q
	case respAdd:
		q := &AddResponse{}
		readAddResponse(r, q)
		return q
	case respEndTxn:
		q := &EndTxnResponse{}
		readEndTxnResponse(r, q)
		return q
	case respHeartbeat:
		q := &HeartbeatTxnResponse{}
		readHeartbeatTxnResponse(r, q)
		return q
	case respPush:
		q := &PushTxnResponse{}
		readPushTxnResponse(r, q)
		return q
	case respQueryTxn:
		q := &QueryTxnResponse{}
		readQueryTxnResponse(r, q)
		return q
	case respQueryIntent:
		q := &QueryIntentResponse{}
		readQueryIntentResponse(r, q)
		return q
	case respRangeInfo:
		q := &RangeInfoResponse{}
		readRangeInfoResponse(r, q)
		return q
	case respRecover:
		q := &RecoverTxnResponse{}
		readRecoverTxnResponse(r, q)
		return q
	case respProtocol:
		q := &ProtocolResponse{}
		readProtocolResponse(r, q)
		return q
	case respLoad:
		q := &LoadResponse{}
		readLoadResponse(r, q)
		return q
	case respSetProtocol:
		q := &AdminSetProtocolResponse{}
		readAdminSetProtocolResponse(r, q)
		return q
	case respClose:
		q := &CloseResponse{}
		readCloseResponse(r, q)
		return q
	case respNegotiate:
		q := &NegotiateResponse{}
		readNegotiateResponse(r, q)
		return q
	case respSubsume:
		q := &SubsumeResponse{}
		readSubsumeResponse(r, q)
		return q
	}
	r.Skip()
	return nil
}

func readEmptyResponse(r *wire.Reader) {
	for m := r.Open("kv.EmptyResponse"); r.Next(&m); {
		r.Skip()
	}
}

func readGetResponse(r *wire.Reader, q *GetResponse) {
	for m := r.Open("kv.GetResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Value = r.Bytes()
		case 3:
			q.Timestamp = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readScanResponse(r *wire.Reader, q *ScanResponse) {
	for m := r.Open("kv.ScanResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Resume = &keys.Span{}
			readSpan(r, q.Resume)
		case 3:
			readPair(r, wire.Grow(r, &q.Rows))
		case 5:
			readPair(r, wire.Grow(r, &q.Provisional))
		default:
			r.Skip()
		}
	}
}

func readDeleteRangeResponse(r *wire.Reader, q *DeleteRangeResponse) {
	for m := r.Open("kv.DeleteRangeResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Deleted = r.Int()
		case 3:
			q.Resume = &keys.Span{}
			readSpan(r, q.Resume)
		default:
			r.Skip()
		}
	}
}

func readAddResponse(r *wire.Reader, q *AddResponse) {
	for m := r.Open("kv.AddResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Value = r.Int()
		case 3:
			q.Turn = r.Uint()
		default:
			r.Skip()
		}
	}
}

func readEndTxnResponse(r *wire.Reader, q *EndTxnResponse) {
	for m := r.Open("kv.EndTxnResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.OnePhase = r.Bool()
		case 3:
			q.CommitTimestamp = r.Timestamp()
		case 5:
			q.Staged = r.Bool()
		case 7:
			readSpan(r, wire.Grow(r, &q.Unresolved))
		default:
			r.Skip()
		}
	}
}

func readHeartbeatTxnResponse(r *wire.Reader, q *HeartbeatTxnResponse) {
	for m := r.Open("kv.HeartbeatTxnResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readTxn(r, &q.Txn)
		default:
			r.Skip()
		}
	}
}

func readPushTxnResponse(r *wire.Reader, q *PushTxnResponse) {
	for m := r.Open("kv.PushTxnResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readTxn(r, &q.Pushee)
		default:
			r.Skip()
		}
	}
}

func readQueryTxnResponse(r *wire.Reader, q *QueryTxnResponse) {
	for m := r.Open("kv.QueryTxnResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readTxn(r, &q.Txn)
		case 3:
			q.Exists = r.Bool()
		case 5:
			readWait(r, wire.Grow(r, &q.Waits))
		case 7:
			q.Version = r.Uint()
		case 9:
			ReadInFlight(r, wire.Grow(r, &q.InFlight))
		case 2:
			q.Committed = r.Timestamp()
		case 4:
			q.Remembers = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readQueryIntentResponse(r *wire.Reader, q *QueryIntentResponse) {
	for m := r.Open("kv.QueryIntentResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Found = r.Bool()
		default:
			r.Skip()
		}
	}
}

func readRangeInfoResponse(r *wire.Reader, q *RangeInfoResponse) {
	for m := r.Open("kv.RangeInfoResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadDescriptor(r, &q.Desc)
		case 2:
			q.LiveBytes = r.Int()
		case 3:
			q.Leaseholder = NodeID(r.Uint32())
		case 4:
			q.KeyCount = r.Int()
		case 5:
			q.LeaseSequence = r.Uint()
		case 6:
			q.TotalBytes = r.Int()
		case 8:
			q.RequestsPerSecond = r.Uint()
		default:
			r.Skip()
		}
	}
}

func readRecoverTxnResponse(r *wire.Reader, q *RecoverTxnResponse) {
	for m := r.Open("kv.RecoverTxnResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readTxn(r, &q.Txn)
		default:
			r.Skip()
		}
	}
}

func readProtocolResponse(r *wire.Reader, q *ProtocolResponse) {
	for m := r.Open("kv.ProtocolResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Body = r.Bytes()
		case 3:
			ReadPosition(r, &q.Store)
		default:
			r.Skip()
		}
	}
}

// PositionField adds a position of a store as a field, unless it is zero.
func PositionField(b []byte, field uint32, p *StorePosition) []byte {
	if *p == (StorePosition{}) {
		return b
	}
	b, at := wire.Begin(b, field)
	return wire.End(AppendPosition(b, p), at)
}

// AppendPosition adds the fields of a position of a store.
func AppendPosition(b []byte, p *StorePosition) []byte {
	return wire.Uint(wire.Fixed64(wire.Uint(b, 1, p.Start), 3, p.Token), 5, p.Position)
}

// ReadPosition reads one. All of it has to be understood: whether a node may act on its store follows from it.
func ReadPosition(r *wire.Reader, p *StorePosition) {
	for m := r.Open("kv.StorePosition"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Start = r.Uint()
		case 3:
			p.Token = r.Fixed64()
		case 5:
			p.Position = r.Uint()
		default:
			r.Refuse()
		}
	}
}

func readLoadResponse(r *wire.Reader, q *LoadResponse) {
	for m := r.Open("kv.LoadResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			*wire.Grow(r, &q.Refused) = r.Bytes()
		default:
			r.Skip()
		}
	}
}

func readCloseResponse(r *wire.Reader, q *CloseResponse) {
	for m := r.Open("kv.CloseResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Index = r.Uint()
		case 2:
			q.Range = RangeID(r.Uint())
		default:
			r.Skip()
		}
	}
}

func readNegotiateResponse(r *wire.Reader, q *NegotiateResponse) {
	for m := r.Open("kv.NegotiateResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Timestamp = r.Timestamp()
		case 2:
			q.Intent = r.Bool()
		case 3:
			q.Closed = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func readAdminSetProtocolResponse(r *wire.Reader, q *AdminSetProtocolResponse) {
	for m := r.Open("kv.AdminSetProtocolResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadDescriptor(r, &q.Desc)
		default:
			r.Skip()
		}
	}
}

func readSubsumeResponse(r *wire.Reader, q *SubsumeResponse) {
	for m := r.Open("kv.SubsumeResponse"); r.Next(&m); {
		switch r.Field() {
		case 1:
			ReadDescriptor(r, &q.Desc)
		case 3:
			q.Applied = r.Uint()
		case 5:
			q.Freeze = r.Timestamp()
		default:
			r.Skip()
		}
	}
}
