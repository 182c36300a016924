package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// NetworkOptions describe the links. The zero value is an ideal network.
type NetworkOptions struct {
	// Regions give the round trips between machines of different regions; nil: none.
	Regions *Regions
	// LocalRTT is the round trip between two machines of one region.
	LocalRTT time.Duration
	// Jitter adds a uniform delay in [0, Jitter) to every write.
	Jitter time.Duration
	// BytesPerSecond bounds each direction of each pair of machines; zero is no bound.
	BytesPerSecond int64
	// WindowBytes bounds the unread bytes in one direction of a connection (sim.N5); default 16 MiB.
	WindowBytes int
	// Backlog bounds connections that a listener has not accepted; default 1024.
	Backlog int
	// Seed drives the jitter.
	Seed uint64
}

// Network is the network between machines.
type Network struct {
	opts  NetworkOptions
	start time.Time
	dice  *Dice

	mu        sync.Mutex // guards the fields below; link.mu and pipe.mu may be taken after it
	nodes     map[string]*node
	links     map[linkKey]*link
	listeners map[string]*listener
	conns     map[*conn]struct{}
	nextPort  int
	changed   chan struct{} // closed and replaced whenever a dial that waits may go on
}

// NewNetwork makes a network without machines.
func NewNetwork(o NetworkOptions) *Network {
	if o.WindowBytes == 0 {
		o.WindowBytes = 16 << 20
	}
	if o.Backlog == 0 {
		o.Backlog = 1024
	}
	return &Network{
		opts:      o,
		start:     time.Now(),
		dice:      NewDice(o.Seed, "network"),
		nodes:     make(map[string]*node),
		links:     make(map[linkKey]*link),
		listeners: make(map[string]*listener),
		conns:     make(map[*conn]struct{}),
		nextPort:  40000,
		changed:   make(chan struct{}),
	}
}

// node is one machine's place on the network; it implements host.Network.
type node struct {
	net          *Network
	name, region string
	off          bool   // lost power; guarded by net.mu
	life         uint64 // grows when the machine's process dies; guarded by net.mu
}

// Node is the network as the named machine sees it. Asking again returns the same place.
func (n *Network) Node(name, region string) *NodeNetwork {
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.nodes[name]
	if nd == nil {
		nd = &node{net: n, name: name, region: region}
		n.nodes[name] = nd
	}
	return &NodeNetwork{n: nd, life: nd.life}
}

// NodeNetwork implements host.Network for one machine, until its process is killed: what a dying node attempts
// afterwards fails. Addresses are <machine name>:port.
type NodeNetwork struct {
	n    *node
	life uint64
}

// errDead is the network's error for a process that was killed and does not know it yet.
var errDead = errors.New("sim: the process was killed")

type linkKey struct{ from, to string }

// link is one direction between two machines.
type link struct {
	net     *Network
	oneWay  time.Duration
	blocked atomic.Bool
	extra   atomic.Int64 // additional delay, nanoseconds
	bytes   atomic.Int64 // carried so far
	writes  atomic.Int64

	mu   sync.Mutex // guards free; nothing is taken after it
	free time.Duration
}

// link returns the direction from one machine to another. The caller holds n.mu.
func (n *Network) link(from, to *node) *link {
	k := linkKey{from.name, to.name}
	l := n.links[k]
	if l == nil {
		rtt := n.opts.LocalRTT
		switch {
		case from == to:
			rtt = 0
		case from.region != to.region:
			rtt = n.opts.Regions.RTT(from.region, to.region)
		}
		l = &link{net: n, oneWay: rtt / 2}
		n.links[k] = l
	}
	return l
}

func (n *Network) now() time.Duration { return time.Since(n.start) }

func (l *link) delay() time.Duration { return l.oneWay + time.Duration(l.extra.Load()) }

// arrival is when size bytes that leave now arrive, if nothing blocks the link.
func (l *link) arrival(now time.Duration, size int) time.Duration {
	l.bytes.Add(int64(size))
	l.writes.Add(1)
	if bps := l.net.opts.BytesPerSecond; bps > 0 {
		l.mu.Lock()
		l.free = max(l.free, now) + time.Duration(float64(size)*float64(time.Second)/float64(bps))
		now = l.free
		l.mu.Unlock()
	}
	now += l.delay()
	if j := l.net.opts.Jitter; j > 0 {
		now += time.Duration(l.net.dice.Int64N(int64(j)))
	}
	return now
}

// Listen implements host.Network. An empty host is the machine's name; port 0 chooses one.
func (nn *NodeNetwork) Listen(addr string) (net.Listener, error) {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "sim", Err: err}
	}
	if h == "" {
		h = nn.n.name
	}
	port, err := strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return nil, &net.OpError{Op: "listen", Net: "sim", Err: fmt.Errorf("bad port %q", p)}
	}
	n := nn.n.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if nn.life != nn.n.life {
		return nil, &net.OpError{Op: "listen", Net: "sim", Err: errDead}
	}
	if port == 0 {
		n.nextPort++
		port = n.nextPort
	}
	a := Addr(net.JoinHostPort(h, strconv.Itoa(port)))
	if n.listeners[string(a)] != nil {
		return nil, &net.OpError{Op: "listen", Net: "sim", Addr: a, Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{node: nn.n, addr: a, backlog: make(chan *conn, n.opts.Backlog), done: make(chan struct{})}
	n.listeners[string(a)] = l
	n.wakeDialers()
	return l, nil
}

func (n *Network) wakeDialers() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// errNoHost is the error of a dial to a name that no machine has.
var errNoHost = errors.New("no such host")

// Dial implements host.Network: one round trip to a listener, a refusal if there is none, silence while the way or
// the machine is cut off.
func (nn *NodeNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "sim", Addr: Addr(addr), Err: err}
	}
	h, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fail(err)
	}
	n, from := nn.n.net, nn.n
	n.mu.Lock()
	if nn.life != from.life {
		n.mu.Unlock()
		return fail(errDead)
	}
	to := n.nodes[h]
	if l := n.listeners[addr]; l != nil {
		to = l.node
	}
	if to == nil {
		n.mu.Unlock()
		return fail(errNoHost)
	}
	there, back := n.link(from, to), n.link(to, from)
	n.mu.Unlock()
	if err := n.cross(ctx, there, from, to); err != nil {
		return fail(err)
	}

	n.mu.Lock()
	if nn.life != from.life {
		n.mu.Unlock()
		return fail(errDead)
	}
	l := n.listeners[addr]
	var mine *conn
	if l != nil {
		n.nextPort++
		mine = n.connect(from, l.node, Addr(net.JoinHostPort(from.name, strconv.Itoa(n.nextPort))), Addr(addr))
		select {
		case l.backlog <- mine.peer:
		default:
			n.drop(mine)
			l = nil
		}
	}
	n.mu.Unlock()
	if err := n.cross(ctx, back, to, from); err != nil {
		if mine != nil {
			mine.Close()
		}
		return fail(err)
	}
	if l == nil {
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	return mine, nil
}

// cross waits out one way of a handshake.
func (n *Network) cross(ctx context.Context, l *link, from, to *node) error {
	for {
		if d := l.delay(); d > 0 {
			t := time.NewTimer(d)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			}
		} else if err := ctx.Err(); err != nil {
			return err
		}
		n.mu.Lock()
		cut, changed := l.blocked.Load() || from.off || to.off, n.changed
		n.mu.Unlock()
		if !cut {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Addr is a simulated address.
type Addr string

// Network implements net.Addr.
func (a Addr) Network() string { return "sim" }

func (a Addr) String() string { return string(a) }

type listener struct {
	node    *node
	addr    Addr
	backlog chan *conn
	done    chan struct{}
	once    sync.Once
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "sim", Addr: l.addr, Err: net.ErrClosed}
	default:
	}
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: "sim", Addr: l.addr, Err: net.ErrClosed}
	}
}

// Close implements net.Listener; connections that were not accepted are reset.
func (l *listener) Close() error {
	l.once.Do(func() {
		n := l.node.net
		n.mu.Lock()
		delete(n.listeners, string(l.addr))
		n.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.backlog:
				c.reset(false)
			default:
				return
			}
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }
