package leaderkv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/cluster"
	"meridian/commit"
	"meridian/commit/leader"
	"meridian/commit/leader/gateway"
	"meridian/commit/leader/leadertest"
	"meridian/commit/protocol"
	"meridian/commit/register"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/route"
	"meridian/sim"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/transport"
	"meridian/txn"
)

// Message is one batch on its way to a range.
type Message struct {
	// From is a gateway's name, or "r2" for a range.
	From  string
	Range kv.RangeID
	// Node is where it goes.
	Node  kv.NodeID
	Batch *kv.Batch
}

// Wire carries one message: it calls deliver, once, or returns an error. nil is a wire without delay.
type Wire func(ctx context.Context, m *Message, deliver func(context.Context) ([]byte, error)) ([]byte, error)

// Options of a Cluster.
type Options struct {
	// Bounds are the first keys of the ranges but the first.
	Bounds []string
	Seed   uint64
	Wire   Wire
	// Delay is how long a command takes from its proposal to its application; nil: no time.
	Delay func() time.Duration
	// MaxOffset between clocks; default 250 ms.
	MaxOffset time.Duration
	// Registers are the ranges, by their place, whose rows are those of the register protocol, which three nodes have: the range's own, and
	// two more for all of these ranges.
	Registers []int
	// Skew is each node's clock's offset, ranges first, in the order of their keys; the last one is the gateways'.
	Skew func(name string) time.Duration
	// Follow makes of entries the keys of rows that come with them (route.Options.Follow); nil: none does.
	Follow func(recipe, key, value []byte) (keys.Key, bool)
}

// Cluster is some ranges and the gateways to them.
type Cluster struct {
	o      Options
	net    *sim.Network
	host   *host.Host
	engine *engine.Engine
	ranges []*rng
	index  []kv.KeyValue // the range index, in key order

	machines atomic.Uint64 // made so far

	// acceptors are those of ranges of registers, by range and node.
	acceptors map[place]*acceptor
}

type rng struct {
	leadertest.Replica
	p       *leader.Participant
	host    *host.Host
	clock   *clock.Clock
	metrics leader.Metrics

	// Of a range that may be one of registers.
	router    *route.Sender
	serve     func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) // with Options.Follow
	finishers commit.Finishers
	floor     atomic.Pointer[clock.Timestamp]
}

// New makes a cluster. Stop ends it.
func New(o Options) (*Cluster, error) {
	if o.MaxOffset == 0 {
		o.MaxOffset = 250 * time.Millisecond
	}
	if o.Skew == nil {
		o.Skew = func(string) time.Duration { return 0 }
	}
	c := &Cluster{o: o, acceptors: map[place]*acceptor{}, net: sim.NewNetwork(sim.NetworkOptions{Seed: o.Seed})}
	var err error
	c.host = sim.NewHost(context.Background(), sim.MachineOptions{Name: "store", Network: c.net, Seed: o.Seed})
	if c.engine, err = engine.Open(c.host, "store", engine.Options{CacheBytes: 64 << 20, MemTableBytes: 16 << 20, ReserveBytes: -1}); err != nil {
		return nil, err
	}
	start := keys.Min
	for i, b := range append(slices.Clone(o.Bounds), string(keys.Max)) {
		node := kv.NodeID(i + 1)
		d := &kv.RangeDescriptor{ID: kv.RangeID(i + 1), Start: start, End: keys.Key(b), Generation: 1, NextReplica: 2,
			Replicas: []kv.ReplicaDescriptor{{Node: node, Store: kv.StoreID(node), Replica: 1}}}
		r := &rng{}
		r.Node, r.Delay, r.Go = node, o.Delay, func(f func()) { c.host.Group.Go(func(context.Context) { f() }) }
		r.Init(c.engine, d, mvcc.Stats{})
		name := fmt.Sprintf("r%d", i+1)
		h, ck := c.machine(name)
		r.host, r.clock = h, ck
		router := c.router(name, node, h, ck)
		if o.Follow != nil {
			r.serve = route.New(route.Options{Host: h, Clock: ck, NodeID: func() kv.NodeID { return node }, Local: store{c}, Remote: remote{c, name}, Members: members{},
				Follow: o.Follow}).Serve()
		}
		options := &leader.Options{Host: h, Clock: ck, Engine: c.engine, Sender: router, Metrics: &r.metrics}
		if len(o.Registers) > 0 {
			r.router, r.finishers = router, commit.Finishers{protocol.Default: commit.Intents(router), register.Protocol: c.client(router, h, ck, node)}
			options.Finishers = r.finishers
		}
		r.p = leader.New(options, r, nil)
		r.p.LeaseChanged(lease.Lease{Sequence: 1, Start: ck.Now()}, true)
		c.ranges = append(c.ranges, r)
		start = keys.Key(b)
		if slices.Contains(o.Registers, i) {
			d.Protocol = register.Protocol
			c.registers(d)
		}
		for _, k := range keys.MetaKeys(d.Start, d.End) {
			c.index = append(c.index, kv.KeyValue{Key: k, Value: d.Append(nil)})
		}
	}
	slices.SortFunc(c.index, func(a, b kv.KeyValue) int { return a.Key.Compare(b.Key) })
	return c, nil
}

// machine is a host with a clock of its own.
func (c *Cluster) machine(name string) (*host.Host, *clock.Clock) {
	// No two have the same dice: transactions are named by them.
	m := sim.NewMachine(sim.MachineOptions{Name: name, Network: c.net, Seed: c.o.Seed<<32 + c.machines.Add(1), FS: c.host.FS})
	m.Clock.SetOffset(c.o.Skew(name))
	h := m.Boot(context.Background())
	return h, clock.New(h.Clock, c.o.MaxOffset)
}

// Stop ends everything.
func (c *Cluster) Stop() error {
	for _, r := range c.ranges {
		r.p.Close(nil)
		r.host.Group.Stop()
	}
	c.host.Group.Stop()
	return c.engine.Close()
}

// Gateway makes a gateway; stop ends what it does by itself. Stop does not.
func (c *Cluster) Gateway(name string, o txn.Options) (db *txn.DB, stop func()) {
	h, ck := c.machine(name)
	node := kv.NodeID(100 + len(name))
	router := c.router(name, node, h, ck)
	o.Sender, o.Clock, o.Host, o.NodeID = router, ck, h, func() kv.NodeID { return node }
	if len(c.o.Registers) > 0 {
		o.Protocols = map[kv.Protocol]txn.Protocol{register.Protocol: c.client(router, h, ck, node)}
	}
	o.Records = gateway.Protocol{}
	return txn.NewDB(o), h.Group.Stop
}

// Client makes a gateway to ranges of registers that has no transactions; stop ends what it does by itself.
func (c *Cluster) Client(name string) (x *register.Client, stop func()) {
	h, ck := c.machine(name)
	node := kv.NodeID(100 + len(name))
	return register.NewClient(register.ClientOptions{Sender: c.router(name, node, h, ck), Clock: ck, Host: h, NodeID: func() kv.NodeID { return node }}), h.Group.Stop
}

func (c *Cluster) router(name string, node kv.NodeID, h *host.Host, ck *clock.Clock) *route.Sender {
	return route.New(route.Options{Host: h, Clock: ck, NodeID: func() kv.NodeID { return node }, Remote: remote{c, name}, Members: members{}})
}

// MoveLease gives a range a new lease: what is in flight is refused, and with lost, what was in memory is forgotten, as
// if another node had held it in between.
func (c *Cluster) MoveLease(i int, lost bool) {
	r := c.ranges[i]
	r.Applying.Lock()
	defer r.Applying.Unlock()
	n := uint64(1)
	if lost {
		n = 2
	}
	r.p.LeaseChanged(lease.Lease{Sequence: r.Lease.Add(n), Start: r.clock.Now()}, true)
}

// Ranges is how many there are.
func (c *Cluster) Ranges() int { return len(c.ranges) }

// Metrics are those of one range.
func (c *Cluster) Metrics(i int) *leader.Metrics { return &c.ranges[i].metrics }

// members are two: a router does not ask itself.
type members struct{}

func (members) Nodes() []cluster.Entry                  { return []cluster.Entry{{Node: 1}, {Node: 2}} }
func (members) Latency(kv.NodeID) (time.Duration, bool) { return 0, false }

// remote is a name's end of the wire.
type remote struct {
	c    *Cluster
	name string
}

var errNoSuchMethod = errors.New("leaderkv: no such method")

func (r remote) CallClass(ctx context.Context, _ transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error) {
	switch method {
	case route.Method:
	case route.MethodAll:
		return route.ServeAll(route.Options{Clock: r.c.ranges[0].clock, Local: together{r, to}})(ctx, 0, req)
	default:
		return nil, errNoSuchMethod
	}
	b, err := kv.DecodeBatch(req)
	if err != nil {
		return nil, err
	}
	if resp := r.c.lookup(b); resp != nil {
		return kv.AppendReply(nil, resp, nil), nil
	}
	at := r.c.ranges[b.RangeID-1]
	deliver := func(ctx context.Context) ([]byte, error) {
		if len(b.Follow) > 0 && at.serve != nil && to == at.Node {
			return at.serve(ctx, b.Gateway, req)
		}
		resp, err := r.c.serve(ctx, at, to, b)
		if resp != nil && resp.Now.IsZero() {
			resp.Now = at.clock.Now()
		}
		return kv.AppendReply(nil, resp, err), nil
	}
	at.clock.Update(b.Now)
	if r.c.o.Wire == nil {
		return deliver(ctx)
	}
	return r.c.o.Wire(ctx, &Message{From: r.name, Range: b.RangeID, Node: to, Batch: b}, deliver)
}

// together is a node to which several batches have left in one message. Each crosses the wire by itself, at the same time as the others.
type together struct {
	remote
	to kv.NodeID
}

func (x together) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	reply, err := x.CallClass(ctx, transport.ClassDefault, x.to, route.Method, kv.AppendBatch(nil, b))
	if err != nil {
		return nil, err
	}
	resp, err, malformed := kv.DecodeReply(reply)
	if malformed != nil {
		return nil, malformed
	}
	return resp, err
}

// SendAll implements route.AllStore.
func (x together) SendAll(ctx context.Context, bs []*kv.Batch) ([]*kv.BatchResponse, []error) {
	rs, errs := make([]*kv.BatchResponse, len(bs)), make([]error, len(bs))
	var all sync.WaitGroup
	for i, b := range bs {
		all.Go(func() { rs[i], errs[i] = x.Send(ctx, b) })
	}
	all.Wait()
	return rs, errs
}

// store is what a range's node has, for batches that it sends to itself.
type store struct{ c *Cluster }

func (s store) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if r := s.c.lookup(b); r != nil {
		return r, nil
	}
	at := s.c.ranges[b.RangeID-1]
	return s.c.serve(ctx, at, at.Node, b)
}

// lookup answers what routers ask about ranges, which never change here.
func (c *Cluster) lookup(b *kv.Batch) *kv.BatchResponse {
	if len(b.Requests) != 1 {
		return nil
	}
	switch q := b.Requests[0].(type) {
	case *kv.RangeInfoRequest:
		return &kv.BatchResponse{Responses: []kv.Response{&kv.RangeInfoResponse{Desc: *c.ranges[0].Desc(), Leaseholder: 1, LeaseSequence: 1}}}
	case *kv.ScanRequest:
		if b.Consistency != kv.Inconsistent {
			return nil
		}
		out := &kv.ScanResponse{}
		for _, row := range c.index {
			if q.Start.Compare(row.Key) <= 0 && row.Key.Less(q.End) && (b.MaxKeys == 0 || int64(len(out.Rows)) < b.MaxKeys) {
				out.Rows = append(out.Rows, row)
			}
		}
		return &kv.BatchResponse{Responses: []kv.Response{out}}
	}
	return nil
}
