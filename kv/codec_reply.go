package kv

import "meridian/wire"

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

// reply is an answer to a batch: a response, an error, or both.
type reply struct {
	head *BatchResponse
	err  anyError
}

// AppendReply adds the encoding of an answer to a batch: a response, an error, or both.
func AppendReply(b []byte, r *BatchResponse, err error) []byte {
	return wire.Append(b, &reply{head: r, err: anyError{err}}, (*reply).fields)
}

// DecodeReply reads what AppendReply wrote. err is the range's answer; malformed says that there is none to be
// read. The result shares b.
func DecodeReply(b []byte) (r *BatchResponse, err, malformed error) {
	var x reply
	if err := wire.Decode(b, &x, (*reply).fields); err != nil {
		return nil, nil, err
	}
	return x.head, x.err.err, nil
}

func (r *reply) fields(c *wire.Coder) {
	c.Message("kv.Reply", wire.Skips)
	if !c.Writing() || r.err.err != nil {
		wire.One(c, replyError, &r.err, (*anyError).fields)
	}
	wire.Opt(c, replyHead, &r.head, (*BatchResponse).fields)
	if c.Writing() {
		if r.head != nil {
			for i := range r.head.Responses {
				response(c, &r.head.Responses[i], nil, 0)
			}
		}
		return
	}
	var gets []GetResponse // allocated several at a time
	for n := c.At(); n >= respEmpty && n <= respLast && n&1 != 0; n = c.At() {
		if r.head == nil {
			c.Malformed()
			return
		}
		h := r.head
		if h.Responses == nil {
			h.Responses = make([]Response, 0, c.Left())
		}
		h.Responses = append(h.Responses, nil)
		response(c, &h.Responses[len(h.Responses)-1], &gets, cap(h.Responses)-len(h.Responses)+1)
	}
}

// emptyResponse answers all requests that have nothing to say; it has no state to share.
var emptyResponse = &EmptyResponse{}

// response is one response, with which there are about left to be read. The frequent ones come first.
func response(c *wire.Coder, x *Response, gets *[]GetResponse, left int) {
	switch v := (*x).(type) {
	case nil:
		if !c.Writing() {
			break
		}
		wire.One(c, respNil, emptyResponse, (*EmptyResponse).fields)
		return
	case *EmptyResponse:
		wire.One(c, respEmpty, v, (*EmptyResponse).fields)
		return
	case *GetResponse:
		wire.One(c, respGet, v, (*GetResponse).fields)
		return
	case *ScanResponse:
		at := c.Begin(respScan, 1<<13)
		v.fields(c)
		c.End(at)
		return
	}
	switch c.At() {
	case respNil:
		wire.Inside(c, emptyResponse, (*EmptyResponse).fields)
		return
	case respEmpty:
		*x = emptyResponse
		wire.Inside(c, emptyResponse, (*EmptyResponse).fields)
		return
	case respGet:
		v := slab(gets, left)
		*x = v
		wire.Inside(c, v, (*GetResponse).fields)
		return
	}
	known := wire.Case(c, respScan, x, (*ScanResponse).fields) ||
		wire.Case(c, respDeleteRange, x, (*DeleteRangeResponse).fields) ||
		wire.Case(c, respAdd, x, (*AddResponse).fields) ||
		wire.Case(c, respEndTxn, x, (*EndTxnResponse).fields) ||
		wire.Case(c, respHeartbeat, x, (*HeartbeatTxnResponse).fields) ||
		wire.Case(c, respPush, x, (*PushTxnResponse).fields) ||
		wire.Case(c, respQueryTxn, x, (*QueryTxnResponse).fields) ||
		wire.Case(c, respQueryIntent, x, (*QueryIntentResponse).fields) ||
		wire.Case(c, respRangeInfo, x, (*RangeInfoResponse).fields) ||
		wire.Case(c, respRecover, x, (*RecoverTxnResponse).fields) ||
		wire.Case(c, respLoad, x, (*LoadResponse).fields) ||
		wire.Case(c, respProtocol, x, (*ProtocolResponse).fields) ||
		wire.Case(c, respSetProtocol, x, (*AdminSetProtocolResponse).fields) ||
		wire.Case(c, respNegotiate, x, (*NegotiateResponse).fields) ||
		wire.Case(c, respClose, x, (*CloseResponse).fields) ||
		wire.Case(c, respSubsume, x, (*SubsumeResponse).fields)
	if !known {
		panic("kv: response without a codec")
	}
}

func (*EmptyResponse) fields(c *wire.Coder) { c.Message("kv.EmptyResponse", wire.Skips) }

func (h *BatchResponse) fields(c *wire.Coder) {
	c.Message("kv.BatchResponse", wire.Skips)
	wire.Opt(c, 1, &h.Txn, (*Txn).fields)
	c.Timestamp(3, &h.Timestamp)
	c.Timestamp(5, &h.LockedAt)
	c.Timestamp(7, &h.Now)
	wire.Int64(c, 2, &h.Waited)
	wire.List(c, 4, &h.RangeInfos, (*RangeInfo).fields)
	wire.List(c, 6, &h.Served, (*Served).fields)
	c.Bool(8, &h.Leads)
	if n := c.At(); h.Followed == nil && (n == 10 || n == 12 || n == 14) {
		h.Followed = &Followed{}
	}
	if f := h.Followed; f != nil {
		wire.Large(c, 10, &f.Rows, (*KeyValue).fields, pairSize)
		wire.Enum(c, 12, &f.Lock, Exclusive)
		c.Timestamp(14, &f.LockedAt)
	}
}

func (s *Served) fields(c *wire.Coder) {
	c.Message("kv.Served", wire.Skips)
	wire.Uint64(c, 1, &s.Range)
	wire.Uint32(c, 3, &s.Node)
}

func (q *GetResponse) fields(c *wire.Coder) {
	c.Message("kv.GetResponse", wire.Skips)
	c.Bytes(1, &q.Value)
	c.Timestamp(3, &q.Timestamp)
}

func (q *ScanResponse) fields(c *wire.Coder) {
	c.Message("kv.ScanResponse", wire.Skips)
	wire.Opt(c, 1, &q.Resume, SpanFields)
	wire.Large(c, 3, &q.Rows, (*KeyValue).fields, pairSize)
	wire.Large(c, 5, &q.Provisional, (*KeyValue).fields, pairSize)
}

func (q *DeleteRangeResponse) fields(c *wire.Coder) {
	c.Message("kv.DeleteRangeResponse", wire.Skips)
	wire.Int64(c, 1, &q.Deleted)
	wire.Opt(c, 3, &q.Resume, SpanFields)
}

func (q *AddResponse) fields(c *wire.Coder) {
	c.Message("kv.AddResponse", wire.Skips)
	wire.Int64(c, 1, &q.Value)
	wire.Uint64(c, 3, &q.Turn)
}

func (q *EndTxnResponse) fields(c *wire.Coder) {
	c.Message("kv.EndTxnResponse", wire.Skips)
	c.Bool(1, &q.OnePhase)
	c.Timestamp(3, &q.CommitTimestamp)
	c.Bool(5, &q.Staged)
	wire.List(c, 7, &q.Unresolved, SpanFields)
}

func (q *HeartbeatTxnResponse) fields(c *wire.Coder) {
	c.Message("kv.HeartbeatTxnResponse", wire.Skips)
	wire.One(c, 1, &q.Txn, (*Txn).fields)
}

func (q *PushTxnResponse) fields(c *wire.Coder) {
	c.Message("kv.PushTxnResponse", wire.Skips)
	wire.One(c, 1, &q.Pushee, (*Txn).fields)
}

func (q *QueryTxnResponse) fields(c *wire.Coder) {
	c.Message("kv.QueryTxnResponse", wire.Skips)
	wire.One(c, 1, &q.Txn, (*Txn).fields)
	c.Bool(3, &q.Exists)
	wire.List(c, 5, &q.Waits, (*TxnWait).fields)
	wire.Uint64(c, 7, &q.Version)
	wire.List(c, 9, &q.InFlight, (*InFlightWrite).Fields)
	c.Timestamp(2, &q.Committed)
	c.Bool(4, &q.Remembers)
}

func (q *QueryIntentResponse) fields(c *wire.Coder) {
	c.Message("kv.QueryIntentResponse", wire.Skips)
	c.Bool(1, &q.Found)
}

func (q *RangeInfoResponse) fields(c *wire.Coder) {
	c.Message("kv.RangeInfoResponse", wire.Skips)
	wire.One(c, 1, &q.Desc, (*RangeDescriptor).Fields)
	wire.Uint32(c, 3, &q.Leaseholder)
	wire.Uint64(c, 5, &q.LeaseSequence)
	wire.Int64(c, 2, &q.LiveBytes)
	wire.Int64(c, 4, &q.KeyCount)
	wire.Int64(c, 6, &q.TotalBytes)
	wire.Uint64(c, 8, &q.RequestsPerSecond)
}

func (q *RecoverTxnResponse) fields(c *wire.Coder) {
	c.Message("kv.RecoverTxnResponse", wire.Skips)
	wire.One(c, 1, &q.Txn, (*Txn).fields)
}

func (q *ProtocolResponse) fields(c *wire.Coder) {
	c.Message("kv.ProtocolResponse", wire.Skips)
	c.Bytes(1, &q.Body)
	wire.Some(c, 3, &q.Store, (*StorePosition).Fields)
}

// Fields declares the message. All of it has to be understood: whether a node may act on its store follows from it.
func (p *StorePosition) Fields(c *wire.Coder) {
	c.Message("kv.StorePosition", wire.Refuses)
	wire.Uint64(c, 1, &p.Start)
	c.Fixed64(3, &p.Token)
	wire.Uint64(c, 5, &p.Position)
}

func (q *LoadResponse) fields(c *wire.Coder) {
	c.Message("kv.LoadResponse", wire.Skips)
	wire.Keys(c, 1, &q.Refused)
}

func (q *CloseResponse) fields(c *wire.Coder) {
	c.Message("kv.CloseResponse", wire.Skips)
	wire.Uint64(c, 1, &q.Index)
	wire.Uint64(c, 2, &q.Range)
}

func (q *NegotiateResponse) fields(c *wire.Coder) {
	c.Message("kv.NegotiateResponse", wire.Skips)
	c.Timestamp(1, &q.Timestamp)
	c.Bool(2, &q.Intent)
	c.Timestamp(3, &q.Closed)
}

func (q *AdminSetProtocolResponse) fields(c *wire.Coder) {
	c.Message("kv.AdminSetProtocolResponse", wire.Skips)
	wire.One(c, 1, &q.Desc, (*RangeDescriptor).Fields)
}

func (q *SubsumeResponse) fields(c *wire.Coder) {
	c.Message("kv.SubsumeResponse", wire.Skips)
	wire.One(c, 1, &q.Desc, (*RangeDescriptor).Fields)
	wire.Uint64(c, 3, &q.Applied)
	c.Timestamp(5, &q.Freeze)
}
