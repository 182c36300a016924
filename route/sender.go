package route

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/cluster"
	"meridian/commit/protocol"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/probe"
	"meridian/replica/closedts"
	"meridian/transport"
	"meridian/version"
)

// Method is the name under which nodes serve batches.
const Method = "kv.batch"

// FirstRange is the range that begins at keys.Min, for ever.
const FirstRange kv.RangeID = 1

// LocalStore serves batches on this node; rangeserver.Store does.
type LocalStore interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Remote calls other nodes; *transport.Transport does.
type Remote interface {
	CallClass(ctx context.Context, c transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error)
}

// Members knows the nodes; *cluster.Cluster does.
type Members interface {
	Nodes() []cluster.Entry
	Latency(kv.NodeID) (time.Duration, bool)
}

// Starts keeps what is known of the stores of other nodes; *fence.Fence does.
type Starts interface {
	Heard(node kv.NodeID, at kv.StorePosition) bool
}

// Options of a Sender.
type Options struct {
	Host  *host.Host
	Clock *clock.Clock
	// NodeID is this node's id, zero until it is known.
	NodeID func() kv.NodeID
	// Version is the version that this node acts by.
	Version *version.Handle
	// Local serves the ranges on this node; nil: there are none.
	Local   LocalStore
	Remote  Remote
	Members Members
	// Quorums are those of ranges that commit without a leaseholder; false: a range's protocol is another one. nil: there are none.
	Quorums func(*kv.RangeDescriptor) (Quorums, bool)
	// Starts, if not nil, hears how far the stores of other nodes have come, which is with answers of protocols without a log. An answer for
	// which it says no does not count (fence.FE5).
	Starts Starts
	// ClosedLag is how far behind the present followers serve at best: later reads go to the leaseholder directly. Zero
	// is closedts.DefaultLag.
	ClosedLag time.Duration
	// Follow makes the key of the row to which an entry of an index leads, by a batch's recipe (kv.Header.Follow); nil: this node can't.
	Follow func(recipe, key, value []byte) (keys.Key, bool)
	Probes *probe.Set
}

// Metrics are counters of batches.
type Metrics struct {
	Batches, Divided, Local, Remote                            atomic.Int64
	Lookups, NotLeaseholder, Mismatches, Unreachable, Unserved atomic.Int64
	// Stale are batches at a timestamp in the past, Nearest those of them that a replica without the lease served,
	// NotClosed those that were then sent to the leaseholder.
	Stale, Nearest, NotClosed atomic.Int64
	// Present are batches of the present that were sent to the nearest replica of a range that closes the future, PresentServed those that it served.
	Present, PresentServed atomic.Int64
	// Followed are rows that this node has read for others with their entries (route.RO7).
	Followed atomic.Int64
	// OutOfPatience are batches that were abandoned (route.RO5).
	OutOfPatience atomic.Int64
}

// Sender sends batches to their ranges. All methods may be called concurrently.
type Sender struct {
	o     Options
	cache cache
	// old has the ranges that were evicted from the cache, as they were; they are used while unread says that the index could not be read last.
	old     cache
	unread  atomic.Bool
	metrics Metrics
	// far is the answer of Far at the monotonic time farAt; zero: it was not asked.
	far   atomic.Bool
	farAt atomic.Int64

	mu      sync.Mutex // guards the lookups in flight, and the searches; nothing is taken after it
	flights map[string]*flight
	seeks   map[kv.RangeID]*seek

	paces    paces
	carriers sync.Map // of kv.NodeID to *carrier
}

// New makes a Sender.
func New(o Options) *Sender {
	if o.NodeID == nil {
		o.NodeID = func() kv.NodeID { return 0 }
	}
	if o.ClosedLag == 0 {
		o.ClosedLag = closedts.DefaultLag
	}
	return &Sender{o: o, flights: make(map[string]*flight)}
}

// Metrics are this gateway's counters.
func (s *Sender) Metrics() *Metrics { return &s.metrics }

// refusedEvery bounds how often the log says that batches were refused.
const refusedEvery = 10 * time.Second

// Serve makes the handler of Method: it decodes, has the local store serve the batch, and encodes.
func Serve(o Options) func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	return serve(o, nil)
}

// Serve is Serve for the node that has the sender, which reads the rows to which entries lead.
func (s *Sender) Serve() func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	return serve(s.o, s)
}

func serve(o Options, s *Sender) func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	var warned atomic.Int64 // monotonic time
	return func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
		b, err := kv.DecodeBatch(req)
		if err != nil {
			if o.Host != nil {
				now, last := int64(o.Host.Clock.Monotonic()), warned.Load()
				if (last == 0 || now-last >= int64(refusedEvery)) && warned.CompareAndSwap(last, now) {
					o.Host.Log.Warn("a batch was refused", "node", from, "error", err)
				}
			}
			// It is an answer: nothing was evaluated, while an error of the call would leave open what has become of writes.
			return kv.AppendReply(nil, nil, &kv.InternalError{Message: err.Error()}), nil
		}
		if err := o.misled(b); err != nil {
			return kv.AppendReply(nil, nil, err), nil
		}
		r, err := o.Local.Send(ctx, b)
		if r != nil && r.Now.IsZero() {
			r.Now = o.Clock.Now()
		}
		if len(b.Follow) > 0 && s != nil && err == nil && r != nil {
			s.follow(ctx, b, r)
		}
		return kv.AppendReply(make([]byte, 0, replySize(r)), r, err), nil
	}
}

func replySize(r *kv.BatchResponse) int {
	n := 256
	if r == nil {
		return n
	}
	for _, x := range r.Responses {
		switch x := x.(type) {
		case *kv.GetResponse:
			n += len(x.Value) + 24
		case *kv.ScanResponse:
			for i := range x.Rows {
				n += len(x.Rows[i].Key) + len(x.Rows[i].Value) + 24
			}
		case *kv.ProtocolResponse:
			n += len(x.Body) + 32
		default:
			n += 8
		}
	}
	if r.Followed != nil {
		for i := range r.Followed.Rows {
			n += len(r.Followed.Rows[i].Key) + len(r.Followed.Rows[i].Value) + 24
		}
	}
	return n
}

// OneRange reports whether two addresses are in one range, as far as the cache knows; if it does not, the answer is yes, and Send finds
// out.
func (s *Sender) OneRange(first, last keys.Key) bool {
	e := s.cache.find(first)
	return e == nil || last.Less(e.desc.End)
}

// Locate looks up the range that contains an address, unless it is cached, and returns its end and its protocol. fresh looks it up in any case.
func (s *Sender) Locate(ctx context.Context, k keys.Key, fresh bool) (end keys.Key, p kv.Protocol, err error) {
	if e := s.cache.find(k); fresh && e != nil {
		s.evict(e)
	}
	e, err := s.locate(ctx, k, false)
	if err != nil {
		return nil, 0, err
	}
	return e.desc.End, e.desc.Protocol, nil
}

// Others reports whether a cached range has another protocol than the leader's.
func (s *Sender) Others() bool { return s.cache.others.Load() > 0 }

// Other is the cached range that contains an address, if it has another protocol than the leader's; else nil.
func (s *Sender) Other(k keys.Key) *kv.RangeDescriptor {
	if e := s.cache.find(k); e != nil && !protocol.Leased(e.desc.Protocol) {
		return e.desc
	}
	return nil
}

// Range returns the cached range that contains k, after a lookup if there is none. fresh reads the index.
func (s *Sender) Range(ctx context.Context, k keys.Key, fresh bool) (kv.RangeInfo, error) {
	k = keys.Addr(k)
	if fresh {
		if e := s.cache.find(k); e != nil {
			s.evict(e)
		}
	}
	e, err := s.locate(ctx, k, false)
	if err != nil {
		return kv.RangeInfo{}, err
	}
	info := kv.RangeInfo{Desc: *e.desc.Clone()}
	if r, ok := e.desc.Replica(e.leaseholder()); ok {
		info.Leaseholder = r
	}
	return info, nil
}

// Leaseholder is the node with the lease of the range that contains k, as this gateway has last heard. It asks the range if it has not, or if fresh is set: reads and writes of a range that
// commits without its leaseholder never meet it.
func (s *Sender) Leaseholder(ctx context.Context, k keys.Key, fresh bool) (kv.NodeID, error) {
	info, err := s.Range(ctx, k, false)
	if err != nil || info.Leaseholder.Node != 0 && !fresh {
		return info.Leaseholder.Node, err
	}
	resp, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: k}}})
	if err != nil {
		return 0, err
	}
	got, _ := resp.Responses[0].(*kv.RangeInfoResponse)
	if got == nil {
		return 0, nil
	}
	return got.Leaseholder, nil
}

// Fresh reads the index: the range that contains k, and those after it that come with the same answer.
func (s *Sender) Fresh(ctx context.Context, k keys.Key) ([]kv.RangeInfo, error) {
	k = keys.Addr(k)
	if span, indexed := keys.MetaSpan(k); indexed {
		if f, err := s.lookup(ctx, span); err == nil && len(f.provisional) == 0 {
			var out []kv.RangeInfo
			for _, info := range f.committed {
				if !info.Desc.Contains(k) {
					break
				}
				if e := s.cache.find(k); e != nil {
					info.Leaseholder, _ = info.Desc.Replica(e.leaseholder())
				}
				out = append(out, info)
				k = info.Desc.End
			}
			if len(out) > 0 {
				return out, nil
			}
		}
	}
	info, err := s.Range(ctx, k, true) // the index is being changed, or can't be read now
	return []kv.RangeInfo{info}, err
}

// Cached lists the cached ranges.
func (s *Sender) Cached() []kv.RangeInfo {
	l := s.cache.load()
	out := make([]kv.RangeInfo, len(l))
	for i, e := range l {
		out[i].Desc = *e.desc.Clone()
		if r, ok := e.desc.Replica(e.leaseholder()); ok {
			out[i].Leaseholder = r
		}
	}
	return out
}

// Send sends a batch to its ranges and merges their answers. It sets RangeID and the gateway's other fields in the batch's header. Both
// results may be set: an error may come with a response that carries the transaction.
func (s *Sender) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	s.metrics.Batches.Add(1)
	if len(b.Requests) == 0 {
		return &kv.BatchResponse{Txn: b.Txn}, nil
	}
	b.Gateway = s.o.NodeID()
	var st sendState
	st.init(b, s.o.Probes)
	return s.send(ctx, b, &st)
}

// send routes a batch, repeatedly while the ranges change.
func (s *Sender) send(ctx context.Context, b *kv.Batch, st *sendState) (*kv.BatchResponse, error) {
	for {
		within := ctx
		if st.unserved > 0 {
			if most := patience(ctx); most > 0 {
				if st.unserved >= most {
					return nil, st.wrap(s.outOfPatience(ctx, st))
				}
				within = less(ctx, max(most-st.unserved, time.Second))
			}
		}
		e, err := s.single(within, b)
		if err != nil {
			if most := patience(ctx); unavailable(err) {
				st.unserved = max(st.unserved, most) // the lookup used it up
			}
			return nil, st.wrap(err)
		}
		if e == nil {
			return s.divide(ctx, b, st)
		}
		b.RangeID, b.Generation = e.desc.ID, e.desc.Generation
		st.paused = false
		r, err := s.sendRange(ctx, b, e, st)
		if err != errReroute {
			return r, err
		}
		// The first time, the node's answer is likely to be enough.
		if st.reroutes++; st.reroutes > 1 && !st.paused {
			if err := s.pause(ctx, st); err != nil {
				return nil, st.wrap(err)
			}
		}
	}
}

// addrs is the addresses of a request: start, and the exclusive end, nil for a single key.
func addrs(r kv.Request) (start, end keys.Key) {
	sp := r.Span()
	start = sp.Start
	if keys.IsLocal(start) {
		// All routed local keys are range-local, and none of the requests that go to a span of them crosses a range.
		return keys.Addr(start), nil
	}
	if sp.Point() {
		return start, nil
	}
	return start, sp.End
}

func (e *entry) holds(start, end keys.Key) bool {
	if !e.desc.Contains(start) {
		return false
	}
	return end == nil || end.Compare(e.desc.End) <= 0
}

// single returns the range if all of the batch is in one, else nil.
func (s *Sender) single(ctx context.Context, b *kv.Batch) (*entry, error) {
	start, end := addrs(b.Requests[0])
	e, err := s.locate(ctx, start, false)
	if err != nil {
		return nil, err
	}
	if !e.holds(start, end) {
		return nil, nil
	}
	for _, r := range b.Requests[1:] {
		if !e.holds(addrs(r)) {
			return nil, nil
		}
	}
	return e, nil
}
