package simcluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/cluster"
	"meridian/commit/leader"
	"meridian/commit/register"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/probe"
	"meridian/rangeserver"
	"meridian/server"
	"meridian/sim"
	"meridian/version"
)

// Options of a Cluster.
type Options struct {
	// Regions and NodesPerRegion are the topology; default three nodes of one region.
	Regions        *sim.Regions
	NodesPerRegion int
	// Nodes is how many nodes each region has; nil: NodesPerRegion in all.
	Nodes []int
	Seed  uint64
	// LocalRTT is the round trip within a region; default 500 µs.
	LocalRTT time.Duration
	// Jitter adds a uniform delay in [0, Jitter) to every write to the network.
	Jitter time.Duration
	// Probes, if any, count rare branches of all nodes.
	Probes *probe.Set
	// MaxOffset between clocks; default 500 ms.
	MaxOffset time.Duration
	// TimeMasters, if not zero, is the number of time masters, in the regions by turns, from which all nodes have their time, so that their epsilons are
	// a few milliseconds. Otherwise it is the machine's clock, within MaxOffset.
	TimeMasters int
	// Log receives all nodes' logs; nil: nowhere.
	Log io.Writer
	// RangeMaxBytes overrides the split size.
	RangeMaxBytes int64
	// SplitsLast bounds how long a split takes on a node; zero is no time at all.
	SplitsLast time.Duration
	// Registers lets nodes serve ranges of package register's protocol.
	Registers bool
	// LostRequests is the share of requests to single replicas that are lost, half of them after they were served, of package register's protocol and of the one
	// without a master. So an operation reaches now these, now those replicas, and a state that no quorum shares is seen soon.
	LostRequests float64
	// Binary, if any, has the versions of node i's binary, at each start. It is called once more, with the error, if the store refuses
	// that binary as too old or too new. With it, nodes are restarted in addition to the plan of faults: a node that a Target is to
	// restart may run already.
	Binary func(i int, refused error) version.Binary
	// Configure may change a node's options before each start.
	Configure func(i int, o *server.Options)
}

// Cluster is a simulated cluster. Nodes are numbered from 0; node i runs on machine "n<i+1>".
type Cluster struct {
	t        testing.TB
	o        Options
	Network  *sim.Network
	Machines []*sim.Machine
	// Masters are the machines of the time masters: machine i is "m<i+1>", and its master listens at TimeMaster(i).
	Masters []*sim.Machine
	splits  atomic.Int64 // for Options.SplitsLast

	mu    sync.Mutex // guards the fields below; nothing is taken after it
	nodes []*server.Node
	hosts []*host.Host // of the machines' last boots
	// registers are the gateways of package register's protocol; those of nodes that are down can't be used.
	registers []*register.Client
	// ending are closed when nothing is left of the machines' last nodes that were stopped or crashed; nil: none was. A node's is set
	// at the same moment at which it leaves nodes, so that no other one is started while it still has the store, or is still to lose what was not synced.
	ending  []chan struct{}
	crashes []int           // of the machines' disks (CrashAtSync)
	booting []chan struct{} // holds an element while a node is being started
}

// Start makes the machines, boots all nodes, begins a cluster and returns when every node is ready.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := New(t, o)
	c.Boot(0)
	if _, err := c.Node(0).Init(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(c.Machines); i++ {
		c.Boot(i)
	}
	for i := range c.nodes {
		c.WaitReady(i)
	}
	return c
}

// New makes the machines only. Everything that runs is stopped when the test ends.
func New(t testing.TB, o Options) *Cluster {
	if o.Regions == nil {
		r, err := sim.NewRegions([]string{"local"})
		if err != nil {
			t.Fatal(err)
		}
		o.Regions = r
	}
	if o.NodesPerRegion == 0 {
		o.NodesPerRegion = 3
	}
	if o.LocalRTT == 0 {
		o.LocalRTT = 500 * time.Microsecond
	}
	c := &Cluster{t: t, o: o, Network: sim.NewNetwork(sim.NetworkOptions{Regions: o.Regions, LocalRTT: o.LocalRTT, Jitter: o.Jitter, Seed: o.Seed})}
	for i, region := range o.Regions.Names {
		n := o.NodesPerRegion
		if o.Nodes != nil {
			n = o.Nodes[i]
		}
		for z := range n {
			name := "n" + strconv.Itoa(len(c.Machines)+1)
			log := slog.New(slog.DiscardHandler)
			if o.Log != nil {
				log = slog.New(slog.NewTextHandler(o.Log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("on", name)
			}
			c.Machines = append(c.Machines, sim.NewMachine(sim.MachineOptions{
				Name: name, Region: region, Zone: fmt.Sprintf("%s-%c", region, 'a'+z), Network: c.Network, Seed: o.Seed, Log: log}))
		}
	}
	for i := range o.TimeMasters {
		c.startMaster(i)
	}
	c.nodes = make([]*server.Node, len(c.Machines))
	c.hosts = make([]*host.Host, len(c.Machines))
	c.registers = make([]*register.Client, len(c.Machines))
	c.ending = make([]chan struct{}, len(c.Machines))
	c.crashes = make([]int, len(c.Machines))
	for range c.Machines {
		c.booting = append(c.booting, make(chan struct{}, 1))
	}
	t.Cleanup(c.Stop)
	return c
}

// masterBound is the error that a time master claims.
const masterBound = 100 * time.Microsecond

// TimeMaster is the address of time master i.
func (c *Cluster) TimeMaster(i int) string { return "m" + strconv.Itoa(i+1) + ":123" }

// startMaster starts time master i. Its reference is its machine's clock, which a test may set. It has the others for peers.
func (c *Cluster) startMaster(i int) {
	region := c.o.Regions.Names[i%len(c.o.Regions.Names)]
	m := sim.NewMachine(sim.MachineOptions{Name: "m" + strconv.Itoa(i+1), Region: region, Zone: region + "-a", Network: c.Network, Seed: c.o.Seed})
	h := m.Boot(context.Background())
	c.t.Cleanup(h.Group.Stop)
	o := truetime.ServerOptions{Host: h, Listen: c.TimeMaster(i), Source: clock.System{Clock: m.Clock, Bound: masterBound}}
	for j := range c.o.TimeMasters {
		if j != i {
			o.Peers = append(o.Peers, c.TimeMaster(j))
		}
	}
	if _, err := truetime.Serve(o); err != nil {
		c.t.Fatal(err)
	}
	c.Masters = append(c.Masters, m)
}

// Boot starts node i on its machine, which must not run one.
func (c *Cluster) Boot(i int) {
	c.t.Helper()
	if err := c.TryBoot(i); err != nil {
		c.t.Fatal(err)
	}
}

// TryBoot is Boot for a node whose start may fail. With Options.Binary, several callers may start and stop the same node at the same time: TryBoot
// waits until the machine's earlier node has ended, does nothing if a node runs, and leaves the machine down, without an error, if it crashes
// meanwhile.
func (c *Cluster) TryBoot(i int) error {
	c.booting[i] <- struct{}{}
	defer func() { <-c.booting[i] }()
	if c.o.Binary == nil {
		return c.boot(i, version.Binary{})
	}
	if c.Node(i) != nil {
		return nil
	}
	before := c.crashed(i)
	err := c.boot(i, c.o.Binary(i, nil))
	if version.Refused(err) {
		err = c.boot(i, c.o.Binary(i, err))
	}
	if c.crashed(i) != before {
		return nil
	}
	return err
}

// crashed counts the crashes of machine i's disk in the middle of a sync.
func (c *Cluster) crashed(i int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crashes[i]
}

// boot starts node i with a binary; zero: this build.
func (c *Cluster) boot(i int, b version.Binary) error {
	c.ended(i)
	crashes := c.crashed(i)
	m := c.Machines[i]
	locality, err := cluster.ParseLocality("region=" + m.Region + ",zone=" + m.Zone)
	if err != nil {
		return err
	}
	o := server.Options{
		Host: m.Boot(context.Background()), Dir: "store", ListenAddr: m.Name + ":1", SQLAddr: m.Name + ":5432", Locality: locality,
		Insecure: true, Small: true, Probes: c.o.Probes, MaxOffset: c.o.MaxOffset, Version: "test", RangeMaxBytes: c.o.RangeMaxBytes,
		Binary: b,
	}
	for j, other := range c.Machines {
		if j != i {
			o.Join = append(o.Join, other.Name+":1")
		}
	}
	if c.o.SplitsLast > 0 {
		o.Probes = &probe.Set{Watch: func(name string) {
			c.o.Probes.Reached(name)
			if name != leader.ProbeSplit {
				return
			}
			// One in three takes a while, as on a busy machine.
			if n := c.splits.Add(1); n%3 == 0 {
				time.Sleep(c.o.SplitsLast * time.Duration(n*37%100) / 100)
			}
		}}
	}
	if c.o.Registers {
		o.Protocols = server.Registry{register.Protocol: func(l server.Lent) server.Protocol { return c.register(i, l) }}
	}
	if c.o.LostRequests > 0 && !c.o.Registers {
		o.Protocols = server.Registry{kv.FastPaxos: func(l server.Lent) server.Protocol {
			p := server.FastPaxos(l)
			made := p.Ranges.New
			p.Ranges.New = func(g *rangeserver.Range) rangeserver.Participant {
				full := made(g)
				return &lossyAcceptor{&lossy{full, l.Host.Dice, c.o.LostRequests}, full.(rangeserver.Absorber), full.(rangeserver.Starter)}
			}
			return p
		}}
	}
	for j := range c.Masters {
		o.Time.Kind, o.Time.Masters = truetime.Masters, append(o.Time.Masters, c.TimeMaster(j))
	}
	if c.o.Configure != nil {
		c.o.Configure(i, &o)
	}
	n, err := server.Start(context.Background(), o)
	if err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	c.mu.Lock()
	c.hosts[i] = o.Host
	if c.crashes[i] == crashes {
		c.nodes[i] = n
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	c.stop(n)
	return fmt.Errorf("node %d: its machine crashed while it started", i)
}

// On runs f among the goroutines of node i, and reports whether it did: not while the machine is down, nor while its process is stopped
// (fault.Pause). A stopped process begins nothing; here its goroutines could go on, and would believe in its leases. f may ask the node's
// DB, Router or Store for whatever takes time: the store is closed after f has returned, which it has to do when its context ends.
func (c *Cluster) On(i int, f func(ctx context.Context, n *server.Node)) bool {
	c.mu.Lock()
	n, h := c.nodes[i], c.hosts[i]
	c.mu.Unlock()
	done := make(chan struct{})
	if n == nil || c.Machines[i].Clock.Frozen() || !h.Group.Go(func(ctx context.Context) { defer close(done); f(ctx, n) }) {
		return false
	}
	<-done
	return true
}

// register makes node i's part of package register's protocol.
func (c *Cluster) register(i int, l server.Lent) server.Protocol {
	gateway := register.NewClient(register.ClientOptions{Sender: l.Router, Clock: l.Clock, Host: l.Host, NodeID: l.NodeID})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registers[i] = gateway
	ranges := register.New(register.ProtocolOptions{Finishers: l.Finishers})
	if made := ranges.New; c.o.LostRequests > 0 {
		ranges.New = func(g *rangeserver.Range) rangeserver.Participant {
			return &lossy{made(g), l.Host.Dice, c.o.LostRequests}
		}
	}
	return server.Protocol{Ranges: ranges, Gateway: gateway}
}

// lossy is a replica's part of a protocol behind a link that loses requests and answers.
type lossy struct {
	rangeserver.Participant
	dice  host.Dice
	share float64
}

// Send implements rangeserver.Participant.
func (p *lossy) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	lost := p.dice.Float64()
	if lost < p.share/2 {
		return nil, &kv.UnavailableError{Reason: "the request was lost"}
	}
	resp, err := p.Participant.Send(ctx, b)
	if lost < p.share {
		return nil, &kv.UnavailableError{Reason: "the answer was lost"}
	}
	return resp, err
}

// lossyAcceptor is lossy for a protocol whose replicas begin batches, and shrink their deltas.
type lossyAcceptor struct {
	*lossy
	rangeserver.Absorber
	starter rangeserver.Starter
}

// Start implements rangeserver.Starter.
func (p *lossyAcceptor) Start(b *kv.Batch) (func(context.Context) (*kv.BatchResponse, error), error) {
	lost := p.dice.Float64()
	if lost < p.share/2 {
		return nil, &kv.UnavailableError{Reason: "the request was lost"}
	}
	wait, err := p.starter.Start(b)
	if err != nil || lost >= p.share {
		return wait, err
	}
	return func(ctx context.Context) (*kv.BatchResponse, error) {
		_, _ = wait(ctx)
		return nil, &kv.UnavailableError{Reason: "the answer was lost"}
	}, nil
}

// Register is node i's gateway to ranges of package register's protocol, with Options.Registers; nil while its machine is down.
func (c *Cluster) Register(i int) *register.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[i] == nil {
		return nil
	}
	return c.registers[i]
}

// Node is node i, nil while its machine is down.
func (c *Cluster) Node(i int) *server.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// take marks node i as down, and returns it for the caller to end; nil: it is down already. The caller closes gone when the node's last goroutine has
// ended.
func (c *Cluster) take(i int) (n *server.Node, gone chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.nodes[i]; n != nil {
		gone = make(chan struct{})
		c.nodes[i], c.ending[i] = nil, gone
	}
	return n, gone
}

// Len is the number of machines.
func (c *Cluster) Len() int { return len(c.Machines) }

// WaitReady returns when node i serves.
func (c *Cluster) WaitReady(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := c.Node(i).WaitReady(ctx); err != nil {
		c.t.Fatalf("node %d is not ready: %v", i, err)
	}
}

// Crash ends node i as a kill would: unsynced data is lost, except for each block with the given probability.
func (c *Cluster) Crash(i, unsyncedPercent int, silent bool) {
	n, gone := c.take(i)
	if n == nil {
		return
	}
	c.Machines[i].Crash(unsyncedPercent, silent)
	go c.end(n, gone) // its further actions have no effect; it may take its time
}

// CrashAtSync crashes node i in the middle of the given sync of its disk, counted from now; the data of that sync is lost.
// It returns at once.
func (c *Cluster) CrashAtSync(i, syncs int) {
	m := c.Machines[i]
	m.Disk.OnSync(syncs, func() {
		n, gone := c.take(i) // before its errors, see StoppedItself
		c.mu.Lock()
		c.crashes[i]++ // one that is being started is down, too
		c.mu.Unlock()
		m.Crash(0, false)
		if n != nil {
			go c.end(n, gone)
		}
	})
}

// StoppedItself returns the error for which a node that was node i has stopped by itself, once; nil if it has not, or was crashed or stopped by
// the test, which gives it errors too.
func (c *Cluster) StoppedItself(i int, n *server.Node) error {
	select {
	case err := <-n.Failed():
		if c.Node(i) == n {
			return err
		}
	default:
	}
	return nil
}

// end ends a node that was taken.
func (c *Cluster) end(n *server.Node, gone chan struct{}) {
	defer close(gone)
	c.stop(n)
}

// stop ends a node whose DB and Router the test's own goroutines may be using: what they evaluate takes no virtual time, so
// that after a moment none of them is in the store. It does where splits do (leader.ProbeSplit).
func (c *Cluster) stop(n *server.Node) {
	n.Halt()
	time.Sleep(time.Millisecond + c.o.SplitsLast)
	n.Stop()
}

// ended returns when all goroutines of machine i's last node have ended, if that was stopped or crashed.
func (c *Cluster) ended(i int) {
	c.mu.Lock()
	gone := c.ending[i]
	c.mu.Unlock()
	if gone != nil {
		<-gone
	}
}

// StopNode ends node i in an orderly way.
func (c *Cluster) StopNode(i int) {
	if n, gone := c.take(i); n != nil {
		n.Leave() // if it was drained
		c.end(n, gone)
	}
}

// Stop ends all nodes.
func (c *Cluster) Stop() {
	for i := range c.nodes {
		c.StopNode(i)
		c.ended(i)
	}
}

// Connect opens a PostgreSQL connection to node i, from its own region.
func (c *Cluster) Connect(ctx context.Context, i int, database string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig("postgres://root@" + c.Machines[i].Name + ":5432/" + database + "?sslmode=disable")
	if err != nil {
		return nil, err
	}
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx, i) }
	return pgx.ConnectConfig(ctx, cfg)
}

// Dial connects a client that sits in the node's own region to its SQL port.
func (c *Cluster) Dial(ctx context.Context, i int) (net.Conn, error) {
	m := c.Machines[i]
	return c.Network.Node("client-of-"+m.Name, m.Region).Dial(ctx, m.Name+":5432")
}

// Admin is an administrator's connection to node i, as the command line makes one. Close it.
func (c *Cluster) Admin(i int) *server.Admin {
	m := c.Machines[i]
	h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "admin-of-" + m.Name, Region: m.Region, Network: c.Network, Seed: c.o.Seed})
	c.t.Cleanup(h.Group.Stop)
	return server.NewAdmin(h, m.Name+":1", nil)
}

// Ranges lists the ranges as node i finds them.
func (c *Cluster) Ranges(ctx context.Context, i int) (out []kv.RangeDescriptor, err error) {
	n := c.Node(i)
	if n == nil {
		return nil, fmt.Errorf("simcluster: node %d is down", i)
	}
	for k := keys.Min; k.Less(keys.Max); {
		info, err := n.Router().Range(ctx, k, true)
		if err != nil {
			return nil, err
		}
		out = append(out, info.Desc)
		k = info.Desc.End
	}
	return out, nil
}

// TransferLease moves the lease of the range of a key to node i, which has a voter of it.
func (c *Cluster) TransferLease(ctx context.Context, k keys.Key, i int) error {
	n := c.Node(i)
	_, err := n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: k, Target: n.NodeID()}}})
	return err
}

// TransferLeases moves all leases to node i.
func (c *Cluster) TransferLeases(ctx context.Context, i int) error {
	ranges, err := c.Ranges(ctx, i)
	if err != nil {
		return err
	}
	for _, d := range ranges {
		if err := c.TransferLease(ctx, d.Start, i); err != nil {
			return fmt.Errorf("range %d: %w", d.ID, err)
		}
	}
	return nil
}
