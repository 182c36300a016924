package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"meridian/admission"
	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/cluster"
	"meridian/commit"
	"meridian/commit/leader"
	"meridian/commit/leader/gateway"
	"meridian/commit/leader/tscache"
	"meridian/fence"
	"meridian/host"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/route"
	"meridian/setting"
	"meridian/sql/rowcode"
	"meridian/storage/engine"
	"meridian/support"
	"meridian/transport"
	"meridian/txn"
	"meridian/upgrade"
	"meridian/version"
)

// Node is one running node.
type Node struct {
	o         Options
	host      *host.Host
	clock     *clock.Clock
	time      *truetime.Daemon
	engine    *engine.Engine
	transport *transport.Transport
	cluster   *cluster.Cluster
	version   *version.Handle
	upgrade   *upgrade.Node
	fence     *fence.Fence
	support   *support.Support
	router    *route.Sender
	protocols protocols
	db        *txn.DB
	gate      *admission.Gate
	store     atomic.Pointer[rangeserver.Store]
	leader    leader.Options
	settings  *setting.Values
	zones     *zones
	identity  atomic.Pointer[identity]
	startedAt time.Time
	processAt clock.Timestamp // as other nodes hear it (lease.RL6)

	listener net.Listener // for nodes
	sql      sqlLayer
	http     httpLayer
	// latencies are readings for the console.
	latencies latencies

	ready    chan struct{} // closed when the node serves SQL
	failed   chan error    // holds the first fatal error
	drains   sync.Once
	drainEnd chan struct{} // closed when the draining has ended
	drained  atomic.Bool
	cut      atomic.Int64 // sessions whose transactions the draining has cut off
	leaves   sync.Once
	halts    sync.Once
	stops    sync.Once

	joining sync.Mutex // serialises becoming part of a cluster; it is held across waits by design, see adopt
}

// Start opens the store and listens. A node whose store belongs to a cluster rejoins it; any other waits for Init or for a cluster at the
// join addresses. Start returns once the node listens; see WaitReady.
func Start(ctx context.Context, o Options) (*Node, error) {
	o.setDefaults()
	n := &Node{o: o, host: o.Host, startedAt: o.Host.Clock.Now(), settings: newSettings(&o),
		ready: make(chan struct{}), failed: make(chan error, 1), drainEnd: make(chan struct{})}
	n.zones = &zones{n: n}
	if err := n.start(ctx); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) (err error) {
	source := n.o.Time
	var made atomic.Pointer[clock.Clock]
	source.Host, source.MaxOffset, source.OnBroken = n.host, n.o.MaxOffset, func(err error) {
		if c := made.Load(); c != nil {
			c.Doubt(err)
		}
		n.fail(err)
	}
	if n.time, err = truetime.Start(ctx, source); err != nil {
		return err
	}
	n.clock = clock.NewFrom(n.time.Source(), n.host.Clock, n.o.MaxOffset)
	n.clock.Await()
	made.Store(n.clock)
	n.gate = admission.New(admission.Options{Host: n.host, Slots: n.o.Slots, Load: n.o.Load})
	n.settings.OnChange(func() { n.gate.SetEnabled(n.settings.Bool(setting.Admission)) })
	eo := engine.Options{CacheBytes: n.o.CacheBytes, OnFatal: n.fail, Binary: n.o.Binary}
	if n.o.Cache != nil {
		eo.Cache = n.o.Cache.Cache
	}
	if n.o.Small {
		eo.MemTableBytes, eo.MaxOpenFiles, eo.ReserveBytes, eo.IngestBytes = 4<<20, 200, -1, 8<<10
	} else {
		eo.MemTableBytes = 64 << 20
	}
	if n.o.ReserveBytes != 0 {
		eo.ReserveBytes = n.o.ReserveBytes
	}
	if n.engine, err = engine.Open(n.host, n.o.Dir, eo); err != nil {
		return err
	}
	id, err := readIdentity(n.engine)
	if err != nil {
		return err
	}
	acting, _ := n.engine.Version()
	if id != nil && acting.IsZero() {
		return errUnversioned
	}
	n.version = version.NewHandle(n.o.Binary, acting)
	if err := passGuard(ctx, n.engine, n.clock); err != nil {
		return err
	}
	if err := raiseGuard(n.engine, n.clock, nil); err != nil {
		return err
	}

	if id == nil {
		if err := n.engine.CheckSpace(); err != nil {
			return err
		}
	}
	n.transport = transport.New(transport.Options{
		Host: n.host, Clock: n.clock, NodeID: n.NodeID, ClusterID: n.clusterID, Said: n.version.Said,
		Resolve:   func(id kv.NodeID) (string, bool) { return n.cluster.Resolve(id) },
		ServerTLS: n.o.PeerTLS, ClientTLS: n.o.PeerTLS,
	})
	// All that an earlier process of the node has read off its clock is before the bound that this one has waited for (server.SV2).
	started := n.clock.Wall().UTC()
	n.processAt = clock.Timestamp{Wall: started.UnixNano()}
	self := cluster.Entry{StartedAt: started, Addr: n.o.AdvertiseAddr, SQLAddr: n.o.AdvertiseSQLAddr, HTTPAddr: n.o.HTTPAddr, Locality: n.o.Locality, Attributes: n.o.Attributes, Build: n.o.Version,
		Versions: n.version.Said()}
	if id != nil {
		self.Node, self.Store = id.node, id.store
		n.identity.Store(id)
	}
	n.cluster = cluster.New(cluster.Options{Host: n.host, Clock: n.clock, TimeSource: func() string { return string(n.time.Kind()) }, Transport: n.transport, Join: n.o.Join,
		OnClockBroken: n.clockBroken, OnClockDoubt: n.clock.Doubt, OnRefused: n.refused, OnSelf: n.hear, Hidden: id != nil}, self)
	if n.fence, err = fence.New(fence.Options{Host: n.host, Engine: n.engine, Network: n.transport, Addr: n.o.AdvertiseAddr, Join: n.o.Join,
		Resolve: n.cluster.Resolve, OnRefused: n.fail}); err != nil {
		return err
	}
	if n.support, err = support.New(support.Options{Host: n.host, Clock: n.clock, Engine: n.engine, Network: n.transport,
		Active: func() bool { return n.version.Active(version.SupportedLeases) },
		Position: func() kv.StorePosition {
			own := n.fence.Own()
			return kv.StorePosition{Start: own.Number, Token: own.Token, Position: n.fence.Position()}
		},
		Heard: n.fence.Heard, OnFatal: n.fail}); err != nil {
		return err
	}
	n.cluster.Subscribe(n.hear)
	n.version.OnRaise(func(version.Version) {
		n.transport.Raised()
		n.cluster.Update(func(e *cluster.Entry) { e.Versions = n.version.Said() })
	})
	ways := route.Options{Host: n.host, Clock: n.clock, NodeID: n.NodeID, Version: n.version, Local: localStore{n}, Remote: n.transport, Members: n.cluster, Quorums: n.quorums,
		Starts: n.fence, Follow: rowcode.Follow, Probes: n.o.Probes}
	n.router = route.New(ways)
	n.makeProtocols()
	n.db = txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: n.router, Protocols: n.protocols.gateways, Clock: n.clock, Host: n.host, NodeID: n.NodeID, Support: n.support,
		BufferBytes: n.o.TxnBufferBytes, TwoPhases: n.o.TwoPhases, Probes: n.o.Probes})
	n.upgrade = upgrade.NewNode(upgrade.Options{DB: n.db, Host: n.host, NodeID: n.NodeID, Handle: n.version, Store: n.engine, OnRefused: n.refused})
	n.transport.Handle(route.Method, n.router.Serve())
	n.transport.Handle(route.MethodAll, n.router.ServeAll())
	n.registerAdmin()

	if n.listener, err = n.host.Network.Listen(n.o.ListenAddr); err != nil {
		return fmt.Errorf("cannot listen for nodes on %s: %w", n.o.ListenAddr, err)
	}
	if err := n.listenSQL(); err != nil {
		return err
	}
	if err := n.listenHTTP(); err != nil {
		return err
	}
	n.host.Group.Go(func(context.Context) {
		if err := n.transport.Serve(n.listener); err != nil && n.host.Group.Context().Err() == nil {
			n.fail(err)
		}
	})
	n.host.Group.Go(n.keepGuard)
	if id != nil {
		if err := n.fence.Begin(id.node, false); err != nil {
			return err
		}
	}
	n.cluster.Start()
	if id != nil {
		n.host.Group.Go(func(ctx context.Context) { n.failIf(ctx, n.resume(ctx, *id)) })
	} else if len(n.o.Join) > 0 {
		n.host.Group.Go(n.joinLoop)
	}
	return nil
}

// localStore is the node's store, once it is open.
type localStore struct{ n *Node }

// Send implements route.LocalStore.
func (l localStore) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	s := l.n.store.Load()
	if s == nil {
		return nil, &kv.RangeNotFoundError{Range: b.RangeID}
	}
	return s.Send(ctx, b)
}

// SendAll implements route.AllStore.
func (l localStore) SendAll(ctx context.Context, bs []*kv.Batch) (rs []*kv.BatchResponse, errs []error) {
	s := l.n.store.Load()
	if s != nil {
		return s.SendAll(ctx, bs)
	}
	for _, b := range bs {
		rs, errs = append(rs, nil), append(errs, &kv.RangeNotFoundError{Range: b.RangeID})
	}
	return rs, errs
}

// Start begins a batch, if the store can (route).
func (l localStore) Start(ctx context.Context, b *kv.Batch, lazy bool) (commit.Flight, bool) {
	s := l.n.store.Load()
	if s == nil {
		return nil, false
	}
	return s.Start(ctx, b, lazy)
}

// resume continues with the store's node, once its peers do not object (server.SV5).
func (n *Node) resume(ctx context.Context, id identity) error {
	descs, err := rangeserver.Descriptors(n.engine)
	if err != nil {
		return err
	}
	if err := n.fence.WaitClear(ctx, descs); err != nil {
		return err
	}
	n.cluster.Show()
	return n.serve(ctx, id)
}

// members lists the nodes of the cluster that have not left it.
func (n *Node) members() (out []kv.NodeID) {
	for _, e := range n.cluster.Nodes() {
		if r, _ := n.cluster.Record(e.Node); e.Node != 0 && !r.Decommissioned {
			out = append(out, e.Node)
		}
	}
	return out
}

// hear passes membership's report of a node's start to the fence.
func (n *Node) hear(e cluster.Entry) {
	if n.version.Acting().Less(e.Versions.Acting) {
		n.upgrade.Kick()
	}
	n.fence.Hear(e.Node, e.Addr, fence.Start{Number: e.Start, Token: e.Token}, e.Position)
}

// publishPosition publishes the position of this node's store.
func (n *Node) publishPosition(ctx context.Context) {
	for said := uint64(0); ; {
		if p := n.fence.Position(); p != said {
			said = p
			own := n.fence.Own()
			n.cluster.Update(func(e *cluster.Entry) { e.Start, e.Token, e.Position = own.Number, own.Token, p })
		}
		if n.host.Clock.Sleep(ctx, fence.PublishEvery) != nil {
			return
		}
	}
}

// serve opens the ranges and the layers above; the identity is durable.
func (n *Node) serve(ctx context.Context, id identity) error {
	n.leader = leader.Options{Host: n.host, Clock: n.clock, Engine: n.engine, Support: n.support, Sender: n.router, Finishers: n.protocols.finishers,
		Cache: tscache.New(tscache.Options{}, n.clock.Now()), Metrics: &leader.Metrics{}, Probes: n.o.Probes, Moved: n.gate.Moved}
	backlog := n.engine.Backlog
	if n.o.Small {
		backlog = nil
	}
	var zones rangeserver.ZoneSource = n.zones
	if n.o.Zones != nil {
		zones = n.o.Zones(zones)
	}
	n.support.Begin(id.node, n.fence.Own().Number, n.members)
	store, err := rangeserver.Open(rangeserver.Options{
		Host: n.host, Clock: n.clock, Engine: n.engine, Network: n.transport, Liveness: n.cluster.Leases(), Support: n.support, NodeID: id.node, StoreID: id.store, StartedAt: n.processAt, Version: n.version,
		Leader: func(r *replica.Replica, handoff any) rangeserver.Leader {
			return leader.New(&n.leader, r, handoff)
		},
		Protocols: n.protocols.ranges,
		Starts:    n.fence, DB: internalDB{n.db}, Sender: n.router, Cluster: n.cluster, Zone: zones, Settings: n.settings, OnFatal: n.fail,
		OldestRead: n.db.OldestRead, Yield: n.gate.Yield, Backlog: backlog,
	})
	if err != nil {
		return err
	}
	n.store.Store(store)
	known := n.cluster.StartCeiling(ceilingStore{n.db}, func() bool { return n.version.Active(version.Ceilings) })
	select {
	case <-known: // else its first commits would wait for its epsilon
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := n.upgrade.Register(ctx); err != nil { // before it acts as a member (upgrade.UP2)
		return err
	}
	n.upgrade.Start()
	n.host.Group.Go(n.publishPosition)
	n.cluster.StartHeartbeat(livenessStore{n.db})
	n.host.Group.Go(n.readRecords)
	if err := n.startSQL(ctx, id); err != nil {
		return err
	}
	// The first statements after a start name the regions of all nodes, at whichever of them.
	n.tell(ctx)
	close(n.ready)
	return nil
}

// fail reports the first error that stops the node (server.SV3).
func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
		n.host.Log.Error("the node stops", "error", err)
	default:
	}
}

// clockBroken stops a node whose clock is wrong. It answers no client from now on (clock.C6), also while it stops.
func (n *Node) clockBroken(err error) {
	n.clock.Doubt(err)
	n.fail(err)
}

// refused ends a node that its cluster refuses; client connections are closed as in a drain.
func (n *Node) refused(err error) {
	n.cluster.SetDraining(true)
	n.host.Group.Go(func(ctx context.Context) {
		limit, cancel := n.host.Clock.WithTimeout(ctx, 5*time.Second)
		n.sql.drain(limit, n.host.Clock)
		cancel()
		n.failIf(ctx, err)
	})
}

func (n *Node) failIf(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		n.fail(err)
	}
}

// TimeSource says where the node has its time from, and within which bound.
func (n *Node) TimeSource() string { return n.time.About() }

// Failed delivers the error that ended the node.
func (n *Node) Failed() <-chan error { return n.failed }

// WaitReady returns when the node serves SQL.
func (n *Node) WaitReady(ctx context.Context) error {
	select {
	case <-n.ready:
		return nil
	case err := <-n.failed:
		n.fail(err)
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NodeID of the node; zero until it belongs to a cluster.
func (n *Node) NodeID() kv.NodeID {
	if id := n.identity.Load(); id != nil {
		return id.node
	}
	return 0
}

func (n *Node) clusterID() [16]byte {
	if id := n.identity.Load(); id != nil {
		return id.cluster
	}
	return [16]byte{}
}

// ClusterName is the cluster's identity as text.
func (n *Node) ClusterName() string {
	id := n.clusterID()
	return hex.EncodeToString(id[:])
}

// Addr, SQLAddr and HTTPAddr are where the node listens.
func (n *Node) Addr() string    { return n.listener.Addr().String() }
func (n *Node) SQLAddr() string { return n.sql.addr() }

// HTTPAddr is empty if there is no HTTP.
func (n *Node) HTTPAddr() string { return n.http.addr() }

// DB runs transactions on the cluster, for tests and tools in this process.
func (n *Node) DB() *txn.DB { return n.db }

// Gate admits the statements of the node's clients.
func (n *Node) Gate() *admission.Gate { return n.gate }

// Store is the node's ranges; nil until it belongs to a cluster.
func (n *Node) Store() *rangeserver.Store { return n.store.Load() }

// Cluster is the node's view of membership.
func (n *Node) Cluster() *cluster.Cluster { return n.cluster }

// Version is the version that the node acts by.
func (n *Node) Version() *version.Handle { return n.version }

// Clock is the node's hybrid clock.
func (n *Node) Clock() *clock.Clock { return n.clock }

// Router is the gateway's side of ranges.
func (n *Node) Router() *route.Sender { return n.router }

// URL is the node's address for PostgreSQL clients.
func (n *Node) URL(user, database string) string {
	mode := "require"
	if n.o.Insecure {
		mode = "disable"
	}
	u := url.URL{Scheme: "postgresql", User: url.User(user), Host: n.o.AdvertiseSQLAddr, Path: "/" + database, RawQuery: "sslmode=" + mode}
	return u.String()
}

// DrainOptions bound the steps of a drain.
type DrainOptions struct {
	// Unready is how long the node still accepts clients after its health check has begun to fail, so that load balancers can react.
	Unready time.Duration
	// Wait is how long clients may take to end their transactions; then they are cut off. Zero is ten seconds.
	Wait time.Duration
}

// leasesMax is how long leases may take to move away, once the clients have gone.
const leasesMax = 10 * time.Second

// Drained is the progress of a node's draining.
type Drained struct {
	Sessions, Leases, Leaders int
	// Cut are sessions whose transactions did not end in time.
	Cut  int
	Done bool
}

// Draining returns the progress of the draining.
func (n *Node) Draining() (d Drained) {
	if p := n.sql.parts.Load(); p != nil {
		d.Sessions = p.wire.Sessions()
	}
	if s := n.store.Load(); s != nil {
		g := s.Gauges()
		d.Leases, d.Leaders = g.Leaseholders, g.Leaders
	}
	d.Cut, d.Done = int(n.cut.Load()), n.drained.Load()
	return d
}

// Drain takes the node out of service: its health check fails, it accepts no more clients, sessions end between their transactions, and its
// leases move to other nodes meanwhile, so that clients of other nodes don't wait. It returns when that is done, or ctx ends. The node
// remains a replica; only a restart puts it into service again. A second call joins the first.
func (n *Node) Drain(ctx context.Context, o DrainOptions) Drained {
	n.drains.Do(func() {
		n.host.Group.Go(func(context.Context) {
			defer close(n.drainEnd)
			n.drain(ctx, o)
			n.drained.Store(true)
		})
	})
	select {
	case <-n.drainEnd:
	case <-ctx.Done():
	case <-n.host.Group.Context().Done():
	}
	return n.Draining()
}

// tell returns when the nodes that answer pings know this node's entry as it is now, or after tellMax.
func (n *Node) tell(ctx context.Context) {
	ctx, cancel := n.host.Clock.WithTimeout(ctx, tellMax)
	defer cancel()
	n.cluster.Tell(ctx)
}

func (n *Node) drain(ctx context.Context, o DrainOptions) {
	if o.Wait <= 0 {
		o.Wait = 10 * time.Second
	}
	n.cluster.SetDraining(true)
	// Those that have not heard of it would give leases back, as preferences of ranges say.
	n.tell(ctx)
	if o.Unready > 0 && n.host.Clock.Sleep(ctx, o.Unready) != nil {
		return
	}
	gone := make(chan struct{})
	if !n.host.Group.Go(func(context.Context) {
		defer close(gone)
		limit, cancel := n.host.Clock.WithTimeout(ctx, o.Wait)
		defer cancel()
		n.cut.Store(int64(n.sql.drain(limit, n.host.Clock)))
	}) {
		return
	}
	s, moves := n.store.Load(), n.staying(n.NodeID()) > 0 && n.leaseholders() > 0
	move := func(ctx context.Context) {
		for s != nil && n.staying(n.NodeID()) > 0 && s.MoveLeases(ctx) > 0 {
			if n.host.Clock.Sleep(ctx, 100*time.Millisecond) != nil {
				return
			}
		}
	}
	early, cancel := n.host.Clock.WithTimeout(ctx, o.Wait)
	move(early)
	cancel()
	select {
	case <-gone:
	case <-ctx.Done():
		return
	}
	ctx, cancel = n.host.Clock.WithTimeout(ctx, leasesMax)
	defer cancel()
	move(ctx) // leases that the node got since, for example by splits
	// Raft's leadership follows the leases; the loss of a leader that stopped before would have to be detected first.
	for tries := 0; s != nil && s.Gauges().Leaders > 0 && tries < 50 && n.staying(n.NodeID()) > 0; tries++ {
		if n.host.Clock.Sleep(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
	if !moves {
		return
	}
	// Other nodes' requests come here until they are told where the leases are. Those of a node that has stopped they would wait for.
	if n.host.Clock.Sleep(ctx, redirects) != nil {
		return
	}
	n.host.Group.Go(func(ctx context.Context) { // until it stops it keeps no lease that comes back
		for n.host.Clock.Sleep(ctx, redirects/5) == nil {
			if n.leaseholders() > 0 && n.staying(n.NodeID()) > 0 {
				s.MoveLeases(ctx)
			}
		}
	})
}

const (
	// tellMax bounds the time in which other nodes hear that this one is there, or drains: a ping.
	tellMax = time.Second
	// redirects is for how long a node that has given its leases away tells so those that ask it.
	redirects = time.Second
)

// leaseholders is the number of leases that the node has.
func (n *Node) leaseholders() int {
	s := n.store.Load()
	if s == nil {
		return 0
	}
	return s.Gauges().Leaseholders
}

// leaveMax bounds each of the two waits of a node that leaves.
const leaveMax = time.Second

// Leave ends what a node that has been drained still does for others (server.SV6): it makes the outcomes of its transactions known, so that
// nobody has to recover them, and answers the batches of other nodes. One whose connection breaks may have been carried out, for all
// that its gateway knows, and the gateway could not tell its client the outcome of a commit. Stop does it.
func (n *Node) Leave() {
	n.leaves.Do(n.leave)
}

func (n *Node) leave() {
	s := n.store.Load()
	if s == nil || !n.drained.Load() || n.engine.Failure() != nil {
		return
	}
	limit, cancel := n.host.Clock.WithTimeout(n.host.Group.Context(), leaveMax)
	for !n.db.Idle() && n.host.Clock.Sleep(limit, 2*time.Millisecond) == nil {
	}
	cancel()
	s.Leave()
	limit, cancel = n.host.Clock.WithTimeout(n.host.Group.Context(), leaveMax)
	n.transport.Leave(limit)
	cancel()
}

// Halt ends all work of the node, and leaves its store open: for callers in this process that use DB or Router on goroutines of their own,
// and may be reading. From then on DB and Router return errors. Stop has to follow.
func (n *Node) Halt() {
	n.halts.Do(func() {
		n.sql.close()
		n.http.close()
		if n.transport != nil {
			n.transport.Close()
		}
		if n.listener != nil {
			n.listener.Close()
		}
		n.host.Group.Stop()
	})
}

// Stop ends the node. Calling it again does nothing.
func (n *Node) Stop() {
	n.Leave()
	n.Halt()
	n.stops.Do(func() {
		if n.engine != nil {
			if n.fence != nil && n.engine.Failure() == nil { // the records of other nodes, with their latest positions
				_ = raiseGuard(n.engine, n.clock, n.fence)
			}
			if err := n.engine.Close(); err != nil && !errors.Is(err, context.Canceled) {
				n.host.Log.Warn("closing the store", "error", err)
			}
		}
	})
}
