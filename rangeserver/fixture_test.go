package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"meridian/clock"
	cluster_ "meridian/cluster"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/sim"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/support"
	"meridian/transport"
)

// cluster is a few stores over simulated machines and the real transport, with a participant that knows Put and Get
// only, and liveness records that everybody sees at once.
type cluster struct {
	splitOff atomic.Int64 // how long participants take to divide what they know
	// leaseChanged, if any, is called by participants, with the replica held.
	leaseChanged atomic.Pointer[func(n kv.NodeID, r kv.RangeID, l lease.Lease)]
	anyTrigger   atomic.Bool // leaseholders carry out what they would refuse of changes of their range
	t            *testing.T
	net          *sim.Network
	nodes        []*node
	liveness     *liveness
	interval     time.Duration // of the queues; negative: none
	protocols    rangeserver.Registry
	folding      atomic.Pointer[func(step string) error] // called by the steps of a fold
	zones        []string                                // of the nodes, as localities
	configs      rangeserver.ZoneSource                  // nil: placement's default everywhere
	counting     chan struct{}                           // held by Increment
	supported    bool                                    // leases are Supported

	mu     sync.Mutex
	served []service
}

// service is one request that a lease allowed.
type service struct {
	r    kv.RangeID
	seq  uint64
	at   clock.Timestamp
	node kv.NodeID
	// process is the number of the node's start.
	process uint64
}

type node struct {
	c       *cluster
	id      kv.NodeID
	machine *sim.Machine
	host    *host.Host
	clock   *clock.Clock
	engine  *engine.Engine
	net     *transport.Transport
	store   *rangeserver.Store
	entry   cluster_.Entry
	up      atomic.Bool
	inside  atomic.Int32 // requests that are being served

	participants sync.Map // of *participant, the last of each range
	toys         sync.Map // of *toy, the last of each range
	ignorant     bool     // the node's binary does not have the toy protocol

	incarnation uint64
	starts      uint64
	support     *support.Support // nil: there are no Supported leases
	sender      rangeserver.Sender
	slow        time.Duration // how long a sync takes
}

func (n *node) isUp() bool { return n.up.Load() }

const liveFor = 2250 * time.Millisecond

type liveness struct {
	missed  atomic.Uint32 // a node that the others take for dead
	drained atomic.Uint32 // a node whose record says that it drains
	before  atomic.Uint32 // a node whose record is of its earlier process
	mu      sync.Mutex
	records map[kv.NodeID]*record
	stopped bool // no heartbeat arrives: the range that has the records is not served
}

type record struct {
	incarnation uint64
	expiration  clock.Timestamp
}

func (l *liveness) get(n kv.NodeID) record {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.records[n]; r != nil {
		return *r
	}
	return record{}
}

type nodeLiveness struct {
	*liveness
	n *node
}

func (l nodeLiveness) IsLive(n kv.NodeID, incarnation uint64, now clock.Timestamp) bool {
	r := l.get(n)
	return r.incarnation == incarnation && now.Less(r.expiration) && (n == l.n.id || l.missed.Load() != uint32(n))
}
func (l nodeLiveness) Self() (uint64, clock.Timestamp) { return l.Incarnation(l.n.id) }
func (l nodeLiveness) Incarnation(n kv.NodeID) (uint64, clock.Timestamp) {
	r := l.get(n)
	return r.incarnation, r.expiration
}
func (l nodeLiveness) Process(n kv.NodeID) (clock.Timestamp, bool) {
	return clock.Timestamp{}, l.before.Load() != uint32(n)
}
func (l nodeLiveness) IncrementIncarnation(ctx context.Context, n kv.NodeID, incarnation uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.records[n]
	if r.incarnation != incarnation {
		return nil
	}
	if l.n.clock.Now().Less(r.expiration) {
		return errors.New("still live")
	}
	r.incarnation++
	return nil
}

// view is rangeserver.Cluster: everybody knows everything.
type view struct{ n *node }

func (v view) Nodes() (out []cluster_.Entry) {
	v.n.c.mu.Lock()
	defer v.n.c.mu.Unlock()
	for _, n := range v.n.c.nodes {
		if n.entry.Node != 0 {
			out = append(out, n.entry)
		}
	}
	return out
}

func (v view) Update(f func(*cluster_.Entry)) {
	v.n.c.mu.Lock()
	defer v.n.c.mu.Unlock()
	f(&v.n.entry)
}

func (v view) Record(n kv.NodeID) (cluster_.Liveness, bool) {
	r := v.n.c.liveness.get(n)
	return cluster_.Liveness{Node: n, Incarnation: r.incarnation, Expiration: r.expiration, Draining: v.n.c.liveness.drained.Load() == uint32(n)}, r.incarnation != 0
}

// heartbeat is the node's own record while it runs.
func (n *node) heartbeat(ctx context.Context) {
	l := n.c.liveness
	l.mu.Lock()
	r := l.records[n.id]
	l.mu.Unlock()
	mine := n.incarnation
	for {
		l.mu.Lock()
		if r.incarnation != mine {
			r.incarnation++ // somebody ended it; begin anew
			mine = r.incarnation
		}
		if !l.stopped {
			r.expiration = r.expiration.Forward(n.clock.Now().Add(liveFor))
		}
		l.mu.Unlock()
		if n.host.Clock.Sleep(ctx, 750*time.Millisecond) != nil {
			return
		}
	}
}

func newCluster(t *testing.T, n int) *cluster {
	c := &cluster{t: t, net: sim.NewNetwork(sim.NetworkOptions{}), liveness: &liveness{records: map[kv.NodeID]*record{}}, interval: -1, counting: make(chan struct{}, 1)}
	for i := range n {
		c.nodes = append(c.nodes, &node{c: c, id: kv.NodeID(i + 1), machine: sim.NewMachine(sim.MachineOptions{
			Name: fmt.Sprintf("n%d", i+1), Network: c.net, Seed: 1, Log: testLog(t)})})
	}
	return c
}

// running is a cluster whose nodes all run, and whose ranges are all on the first of them.
func running(t *testing.T, n int) *cluster {
	t.Helper()
	c := newCluster(t, n)
	for i, n := range c.nodes {
		n.start(i == 0)
	}
	return c
}

func testLog(t *testing.T) *slog.Logger {
	if os.Getenv("MERIDIAN_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (c *cluster) addr(id kv.NodeID) (string, bool) { return fmt.Sprintf("n%d:1000", id), true }

// start boots a node; the first one bootstraps the cluster.
func (n *node) start(bootstrap bool) {
	t := n.c.t
	t.Helper()
	time.Sleep(time.Millisecond) // a clock never shows the same time in two lives (keys.StoreClockKey)
	n.host = n.machine.Boot(context.Background())
	n.clock = clock.New(n.host.Clock, clock.DefaultMaxOffset)
	var err error
	n.engine, err = engine.Open(n.host, "store", engine.Options{CacheBytes: 4 << 20, MemTableBytes: 8 << 20, ReserveBytes: -1})
	check(t, err)
	if bootstrap {
		check(t, rangeserver.Bootstrap(n.engine, n.id, kv.StoreID(n.id), n.clock.Now(), nil))
	}
	// A cut link is one by which nothing arrives: these tests want messages of one range to be late, not those of another.
	n.net = transport.New(transport.Options{Host: n.host, MaxRelays: -1, Clock: n.clock, NodeID: func() kv.NodeID { return n.id },
		Resolve: n.c.addr})
	addr, _ := n.c.addr(n.id)
	l, err := n.host.Network.Listen(addr)
	check(t, err)
	n.c.mu.Lock()
	n.entry = cluster_.Entry{Node: n.id, Store: kv.StoreID(n.id)}
	if int(n.id) <= len(n.c.zones) {
		n.entry.Locality, err = cluster_.ParseLocality(n.c.zones[n.id-1])
	}
	n.c.mu.Unlock()
	check(t, err)
	lv := n.c.liveness
	lv.mu.Lock()
	if lv.records[n.id] == nil {
		lv.records[n.id] = &record{}
	}
	lv.records[n.id].incarnation++
	n.incarnation = lv.records[n.id].incarnation
	lv.mu.Unlock()
	n.host.Group.Go(n.heartbeat)
	var supports lease.Support
	if n.starts++; n.c.supported {
		n.support, err = support.New(support.Options{Host: n.host, Clock: n.clock, Engine: n.engine, Network: n.net, Active: func() bool { return true },
			OnFatal: func(err error) { t.Logf("n%d: support: %v", n.id, err) }})
		check(t, err)
		n.support.Begin(n.id, n.starts, func() (ids []kv.NodeID) {
			for _, e := range (view{n}).Nodes() {
				ids = append(ids, e.Node)
			}
			return ids
		})
		supports = n.support
	}
	n.store, err = rangeserver.Open(rangeserver.Options{
		Host: n.host, Clock: n.clock, Engine: n.engine, Network: n.net, Liveness: nodeLiveness{n.c.liveness, n}, Support: supports,
		NodeID: n.id, StoreID: kv.StoreID(n.id), DB: database{n.c}, Sender: n.sender,
		Leader: func(r *replica.Replica, _ any) rangeserver.Leader {
			p := &participant{n: n, r: r, turn: make(chan struct{}, 1)}
			n.participants.Store(r.RangeID(), p)
			return p
		},
		Protocols:     n.registry(),
		OnFatal:       func(err error) { t.Logf("n%d: fatal: %v", n.id, err) },
		QueueInterval: n.c.interval,
		Zone:          n.c.configs,
		Cluster:       view{n},
	})
	check(t, err)
	n.host.Group.Go(func(context.Context) { _ = n.net.Serve(l) })
	n.machine.Disk.SetSyncDelay(n.slow)
	n.up.Store(true)
}

// stop ends a node in good order.
func (n *node) stop() {
	if !n.up.CompareAndSwap(true, false) {
		return
	}
	n.net.Close()
	n.host.Group.Stop()
	for n.inside.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	_ = n.engine.Close()
}

// crash pulls the plug.
func (n *node) crash(percent int) {
	n.machine.Crash(percent, true)
	n.stop()
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		n.stop()
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// participant serves Put, Get and EndTxn with a trigger, one request at a time for writes.
type participant struct {
	n    *node
	r    *replica.Replica
	turn chan struct{}
}

func (p *participant) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if _, err := p.r.EnsureLease(ctx, p.n.clock.Now()); err != nil {
		return nil, err
	}
	seq, now, ok := p.covered()
	if !ok {
		return nil, &kv.NotLeaseholderError{Range: p.r.RangeID()}
	}
	resp := &kv.BatchResponse{}
	if get, ok := b.Requests[0].(*kv.GetRequest); ok {
		r := mvcc.NewReader(p.n.engine)
		defer r.Close()
		v, err := r.Get(get.Key, &mvcc.ReadOptions{Timestamp: now})
		if err != nil {
			return nil, err
		}
		if s, ok := p.r.CheckLease(now); !ok || s != seq {
			return nil, &kv.NotLeaseholderError{Range: p.r.RangeID()}
		}
		p.n.c.serve(p.r.RangeID(), seq, now, p.n.id)
		resp.Responses = append(resp.Responses, &kv.GetResponse{Value: v.Bytes, Timestamp: v.Timestamp})
		return resp, nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := func() { <-p.turn }
	if seq, now, ok = p.covered(); !ok {
		free()
		return nil, &kv.NotLeaseholderError{Range: p.r.RangeID()}
	}
	eb := p.n.engine.NewIndexedBatch()
	defer eb.Close()
	w := mvcc.NewWriter(eb, eb)
	c := &replica.Command{LeaseSequence: seq, Settled: free}
	for _, q := range b.Requests {
		switch q := q.(type) {
		case *kv.PutRequest:
			if err := w.Put(q.Key, q.Value, &mvcc.WriteOptions{Timestamp: now}); err != nil {
				_ = w.Close()
				free()
				return nil, err
			}
		case *kv.EndTxnRequest:
			c.Trigger = q.Trigger
		}
		resp.Responses = append(resp.Responses, &kv.EmptyResponse{})
	}
	c.Delta = w.Stats
	_ = w.Close()
	if c.Trigger != nil {
		d, err := p.r.EvaluateTrigger(eb, eb, c.Trigger)
		if err != nil && !p.n.c.anyTrigger.Load() {
			free()
			return nil, err
		}
		if err != nil && c.Trigger.Split != nil {
			replica.Bootstrap(eb.Put, &c.Trigger.Split.Right, replica.Stats{})
		}
		c.Delta.Add(d)
	}
	c.Batch = eb.Repr()
	p.n.c.serve(p.r.RangeID(), seq, now, p.n.id)
	err := p.r.Propose(ctx, c)
	var ambiguous *kv.AmbiguousError
	if !errors.As(err, &ambiguous) {
		free()
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// covered is a timestamp that the lease covers, its clock's or the lease's start, which may lie ahead of that.
func (p *participant) covered() (seq uint64, at clock.Timestamp, ok bool) {
	l, _ := p.r.Lease()
	at = p.n.clock.Now().Forward(l.Start)
	seq, ok = p.r.CheckLease(at)
	return seq, at, ok && seq == l.Sequence
}

func (p *participant) Advance(ctx context.Context, step *replica.Step) error {
	seq, err := p.r.EnsureLease(ctx, p.n.clock.Now())
	if err != nil {
		return err
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	free := func() { <-p.turn }
	eb := p.n.engine.NewIndexedBatch()
	defer eb.Close()
	c := &replica.Command{LeaseSequence: seq, Settled: free}
	if done, err := p.r.EvaluateStep(eb, eb, c, step); err != nil || done {
		free()
		return err
	}
	c.Batch = eb.Repr()
	err = p.r.Propose(ctx, c)
	var ambiguous *kv.AmbiguousError
	if !errors.As(err, &ambiguous) {
		free()
	}
	return err
}

func (p *participant) Leave(context.Context) (func(), error) { return func() {}, nil }

func (p *participant) Unled() {}

func (p *participant) LeaseChanged(l lease.Lease, held bool) {
	if f := p.n.c.leaseChanged.Load(); f != nil {
		(*f)(p.n.id, p.r.RangeID(), l)
	}
}
func (p *participant) HandOver() []byte                      { return nil }
func (p *participant) TakeOver([]byte)                       {}
func (p *participant) DescriptorChanged(*kv.RangeDescriptor) {}
func (p *participant) SplitOff(_, _ *kv.RangeDescriptor) (handoff any) {
	if d := time.Duration(p.n.c.splitOff.Load()); d > 0 {
		time.Sleep(d)
	}
	return nil
}
func (p *participant) Absorb(*kv.RangeDescriptor, any, clock.Timestamp) {}
func (p *participant) Subsume() (handoff any)                           { return nil }
func (p *participant) SnapshotApplied()                                 {}
func (p *participant) Close(error)                                      {}
func (p *participant) Drain(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		<-p.turn
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cluster) serve(r kv.RangeID, seq uint64, at clock.Timestamp, n kv.NodeID) {
	c.mu.Lock()
	c.served = append(c.served, service{r, seq, at, n, c.nodes[n-1].starts})
	c.mu.Unlock()
}

// send finds the leaseholder of a key and sends it requests.
func (c *cluster) send(ctx context.Context, k keys.Key, reqs ...kv.Request) (*kv.BatchResponse, error) {
	var last error = errNobody
	for i := 0; ; i++ {
		if i > 0 && i%len(c.nodes) == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("%v (last: %w)", err, last)
			}
			time.Sleep(20 * time.Millisecond)
		}
		n := c.nodes[i%len(c.nodes)]
		if !n.isUp() {
			continue
		}
		info, ok := n.store.Lookup(keys.Addr(k))
		if !ok {
			continue
		}
		n.inside.Add(1)
		var resp *kv.BatchResponse
		err := error(&kv.RangeNotFoundError{})
		if n.isUp() {
			resp, err = n.store.Send(ctx, &kv.Batch{Header: kv.Header{RangeID: info.Desc.ID}, Requests: reqs})
		}
		n.inside.Add(-1)
		var nle *kv.NotLeaseholderError
		var rnf *kv.RangeNotFoundError
		var rm *kv.RangeMismatchError
		var un *kv.UnavailableError
		if errors.As(err, &nle) || errors.As(err, &rnf) || errors.As(err, &rm) || errors.As(err, &un) {
			last = err
			continue
		}
		return resp, err
	}
}

func (c *cluster) put(k, v string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := c.send(ctx, tkey(k), &kv.PutRequest{Key: tkey(k), Value: []byte(v)})
	return err
}

func (c *cluster) get(k string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := c.send(ctx, tkey(k), &kv.GetRequest{Key: tkey(k)})
	if err != nil {
		return "", err
	}
	return string(resp.Responses[0].(*kv.GetResponse).Value), nil
}

func tkey(k string) keys.Key { return append(keys.TableKey(uint32(100)), k...) }

// database is rangeserver.DB without isolation: enough for descriptors, which one store changes at a time.
type database struct{ c *cluster }

func (d database) Increment(ctx context.Context, k keys.Key, delta int64) (int64, error) {
	d.c.counting <- struct{}{} // splits of several ranges may not get the same number
	defer func() { <-d.c.counting }()
	resp, err := d.c.send(ctx, k, &kv.GetRequest{Key: k})
	if err != nil {
		return 0, err
	}
	v := append([]byte(nil), resp.Responses[0].(*kv.GetResponse).Value...)
	v[7] += byte(delta)
	_, err = d.c.send(ctx, k, &kv.PutRequest{Key: k, Value: v})
	return int64(v[7]), err
}

func (d database) RunInternal(ctx context.Context, name string, f func(context.Context, rangeserver.Tx) error) error {
	if h := d.c.folding.Load(); h != nil && name == "range descriptor" {
		if err := (*h)("folded"); err != nil {
			return err
		}
	}
	return f(ctx, &tx{c: d.c})
}

type tx struct {
	c    *cluster
	puts []*kv.PutRequest
}

func (x *tx) Get(ctx context.Context, k keys.Key) ([]byte, error) {
	resp, err := x.c.send(ctx, k, &kv.GetRequest{Key: k})
	if err != nil {
		return nil, err
	}
	return resp.Responses[0].(*kv.GetResponse).Value, nil
}
func (x *tx) Put(ctx context.Context, k keys.Key, v []byte) error {
	x.puts = append(x.puts, &kv.PutRequest{Key: k, Value: v})
	return nil
}
func (x *tx) Within(rangeserver.ZoneUse)             {}
func (x *tx) Delete(context.Context, keys.Key) error { panic("not used") }
func (x *tx) Lay(context.Context) (kv.TxnMeta, error) { // all of it is sent in the end
	if h := x.c.folding.Load(); h != nil {
		return kv.TxnMeta{}, (*h)("intents")
	}
	return kv.TxnMeta{}, nil
}
func (x *tx) CommitWithTrigger(ctx context.Context, t *kv.CommitTrigger) error {
	var here []kv.Request
	for _, p := range x.puts {
		if keys.IsLocal(p.Key) {
			here = append(here, p)
		} else if _, err := x.c.send(ctx, p.Key, p); err != nil {
			return err
		}
	}
	here = append(here, &kv.EndTxnRequest{Anchor: x.puts[0].Key, Commit: true, Trigger: t})
	_, err := x.c.send(ctx, x.puts[0].Key, here...)
	return err
}
