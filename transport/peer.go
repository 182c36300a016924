package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	gpeer "google.golang.org/grpc/peer"
	gstatus "google.golang.org/grpc/status"

	"meridian/host"
	"meridian/kv"
	"meridian/version"
	"meridian/wire"
)

// peerKey names one connection: to a node, or to an address whose node is not known.
type peerKey struct {
	node  kv.NodeID
	addr  string
	class Class
}

// peer keeps the link to one node and class. While it runs, a goroutine connects, receives, and connects again.
type peer struct {
	t   *Transport
	key peerKey
	up  atomic.Pointer[link] // nil while down
	// nudge ends a pause between attempts: the node has just connected to this one, so it is there.
	nudge chan struct{}

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	running bool
	err     error                       // why the last attempt failed; nil: none did since the peer runs
	failed  error                       // why the last attempt failed, even if the peer was begun again since; nil: it succeeded
	changed chan struct{}               // closed and replaced when up or err changes
	relayed map[*relayedStream]struct{} // streams along a path, which end when the link is up
	addr    string                      // of the last attempt
}

var (
	errNoAddress = errors.New("its address is not known")
	errClosed    = errors.New("this node is stopping")
	errNumbered  = errors.New("this node has got its number since the link was made")
	errSilent    = errors.New("no answer to a ping")
	errQuiet     = errors.New("no answer to a ping for a while")
	errIdle      = errors.New("not used for a while")
	errLeaving   = errors.New("it is stopping")
)

func (t *Transport) peer(k peerKey) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[k]
	if p == nil {
		p = &peer{t: t, key: k, changed: make(chan struct{}), addr: k.addr, nudge: make(chan struct{}, 1)}
		t.peers[k] = p
	}
	return p
}

func (p *peer) unreachable(sent bool, err error) *UnreachableError {
	p.mu.Lock()
	addr := p.addr
	p.mu.Unlock()
	return &UnreachableError{Node: p.key.node, Addr: addr, Sent: sent, Err: err}
}

// get returns the link, waiting for a first attempt but not for a peer that is known to be down (transport.T1).
func (p *peer) get(ctx context.Context) (*link, error) {
	l, _, err := p.find(ctx, nil)
	return l, err
}

// reach returns the link or, while there is none, a path, for a request of some bytes.
func (p *peer) reach(ctx context.Context, bytes int) (*link, []kv.NodeID, error) {
	if l := p.up.Load(); l != nil {
		return l, nil, nil
	}
	if l := p.lent(bytes); l != nil {
		return l, nil, nil
	}
	if p.key.node == 0 || p.t.o.MaxRelays < 0 {
		return p.find(ctx, nil)
	}
	return p.find(ctx, p.t.detour(p.key.node))
}

// elsewhereKey marks the contexts of Elsewhere.
type elsewhereKey struct{}

// Elsewhere returns a context for calls that another node could answer as well: if the link is missing they do not wait for the search for a path, which asks all nodes,
// and takes as long as the farthest one (transport.T1).
func Elsewhere(ctx context.Context) context.Context {
	return context.WithValue(ctx, elsewhereKey{}, true)
}

// quietKey marks the contexts of WhenQuiet.
type quietKey struct{}

// WhenQuiet returns a context for a call whose caller can find out, while nothing is heard from the called node, whether there is a reason left to wait for its answer. f is called if the link
// becomes quiet while the call is under way; its context ends with the call. If it returns an error, the call ends with *UnreachableError (transport.T12).
func WhenQuiet(ctx context.Context, f func(context.Context) error) context.Context {
	return context.WithValue(ctx, quietKey{}, f)
}

// find waits for a link, or for a path if d is not nil. It does not wait for a peer that is known to be down and that no path
// leads to; whether one does takes a round trip to find out, once.
func (p *peer) find(ctx context.Context, d *detour) (*link, []kv.NodeID, error) {
	for waited := false; ; waited = true {
		if l := p.up.Load(); l != nil {
			return l, nil, nil
		}
		p.mu.Lock()
		if l := p.up.Load(); l != nil { // it came before the lock was taken, and changed would be closed by its end
			p.mu.Unlock()
			return l, nil, nil
		}
		if !p.running && !(waited && p.err != nil) {
			if p.key.node != 0 {
				if _, ok := p.t.o.Resolve(p.key.node); !ok {
					p.mu.Unlock()
					return nil, nil, p.unreachable(false, errNoAddress)
				}
			}
			p.err = nil
			p.running = p.t.group.Go(p.run)
			if !p.running {
				p.mu.Unlock()
				return nil, nil, p.unreachable(false, errClosed)
			}
		}
		err, changed := p.err, p.changed
		p.mu.Unlock()
		var sought <-chan struct{}
		if d != nil {
			path, seeking, vain, changed := d.state()
			if path != nil {
				return nil, path, nil
			}
			switch sought = changed; {
			case seeking:
				if ctx.Value(elsewhereKey{}) == nil {
					err = nil
				}
			case vain && err == nil:
				// An attempt is under way, and has been for a while, or those of other classes have failed.
				if err = p.t.failure(p.key.node); err == nil {
					err = errNoPath
				}
			}
		}
		if err != nil {
			return nil, nil, p.unreachable(false, err)
		}
		select {
		case <-changed:
		case <-sought:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// lentBytes bounds a request on a link that another class lends. Chosen by us: what a heartbeat can wait for.
const lentBytes = 64 << 10

// lent is the system's link to the node, for a small request while the peer's own first one is being made (transport.T11); nil: there is none, or it seems to be silent.
func (p *peer) lent(bytes int) *link {
	if p.key.node == 0 || p.key.class == ClassSystem || bytes > lentBytes {
		return nil
	}
	t := p.t
	t.mu.Lock()
	system := t.peers[peerKey{node: p.key.node, class: ClassSystem}]
	t.mu.Unlock()
	if system == nil {
		return nil
	}
	l := system.up.Load()
	if l == nil || l.doubtful(t.o.Host.Clock.Monotonic()) || l.as != t.o.NodeID() {
		return nil
	}
	p.begin()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil || !p.running {
		return nil
	}
	return l
}

// failure is why the node was not reached at the last attempt of any class that failed, or nil. A refused certificate, say,
// tells the user more than a missing path does.
func (t *Transport) failure(node kv.NodeID) error {
	for c := range classes {
		t.mu.Lock()
		p := t.peers[peerKey{node: node, class: c}]
		t.mu.Unlock()
		if p == nil {
			continue
		}
		p.mu.Lock()
		err := p.failed
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// begin has the peer connect in the background, unless it is trying already.
func (p *peer) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.t.o.Resolve(p.key.node); ok && !p.running {
		p.err = nil
		p.running = p.t.group.Go(p.run)
	}
}

// set publishes the peer's state.
func (p *peer) set(l *link, err error, running bool) {
	p.mu.Lock()
	p.up.Store(l)
	p.err, p.failed, p.running = err, err, running
	close(p.changed)
	p.changed = make(chan struct{})
	var relayed []context.CancelCauseFunc
	if l != nil {
		for r := range p.relayed {
			relayed = append(relayed, r.cancel)
		}
	}
	p.mu.Unlock()
	for _, cancel := range relayed {
		cancel(errLinkBack)
	}
}

func (p *peer) run(ctx context.Context) {
	wait := p.t.o.BackoffMin
	for {
		addr, ok := p.key.addr, true
		if p.key.node != 0 {
			addr, ok = p.t.o.Resolve(p.key.node)
		}
		if !ok {
			p.set(nil, errNoAddress, false)
			return
		}
		p.mu.Lock()
		p.addr = addr
		p.mu.Unlock()
		l, err := p.connect(ctx, addr)
		if err == nil {
			p.set(l, nil, true)
			select {
			case <-p.nudge: // meant for the attempt that has just succeeded
			default:
			}
			err = l.receive()
			p.up.Store(nil)
			l.close(err)
			wait = p.t.o.BackoffMin
			if !errors.Is(err, errIdle) {
				p.t.stats.linkFailures.Add(1)
			}
		}
		if ctx.Err() != nil {
			p.set(nil, errClosed, false)
			return
		}
		// A call by address is repeated; only nodes are worth calling back.
		if p.key.node == 0 {
			p.set(nil, err, false)
			return
		}
		// The search begins before the failure is published, so that a caller waits for it; it may end before, too.
		p.mu.Lock()
		p.failed = err
		p.mu.Unlock()
		p.seek()
		p.set(nil, err, true)
		// Jitter: nodes that lost a peer together should not all come back at once.
		pause := wait/2 + time.Duration(p.t.o.Host.Dice.Int64N(int64(wait/2)+1))
		timer := p.t.o.Host.Clock.NewTimer(pause)
		select {
		case <-timer.C():
			wait = min(2*wait, p.t.o.BackoffMax)
		case <-p.nudge:
			wait = p.t.o.BackoffMin
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			p.set(nil, errClosed, false)
			return
		}
	}
}

// heardFrom makes the peers of a node that are down try again now.
func (t *Transport) heardFrom(node kv.NodeID) {
	if node == 0 {
		return
	}
	for c := range classes {
		t.mu.Lock()
		p := t.peers[peerKey{node: node, class: c}]
		t.mu.Unlock()
		if p != nil && p.up.Load() == nil {
			select {
			case p.nudge <- struct{}{}:
			default:
			}
		}
	}
}

// connect dials and exchanges hellos.
func (p *peer) connect(parent context.Context, addr string) (_ *link, err error) {
	t := p.t
	ctx, cancel := context.WithCancelCause(parent)
	connected := make(chan struct{})
	defer close(connected)
	t.group.Go(func(ctx context.Context) {
		timer := t.o.Host.Clock.NewTimer(t.o.ConnectTimeout / 3)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-connected:
			return
		case <-ctx.Done():
			return
		}
		p.seek() // whoever waits for the link need not wait for the end of the attempt
		timer.Reset(t.o.ConnectTimeout - t.o.ConnectTimeout/3)
		select {
		case <-timer.C():
			cancel(errors.New("connection attempt timed out"))
		case <-connected:
		case <-ctx.Done():
		}
	})
	creds := insecure.NewCredentials()
	if t.o.ClientTLS != nil {
		creds = credentials.NewTLS(t.o.ClientTLS)
	}
	// gRPC reports the failure of a dial as text; keep the error.
	var dialErr atomic.Pointer[error]
	var heard atomic.Int64
	cc, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := t.o.Host.Network.Dial(ctx, addr)
			if err != nil {
				dialErr.Store(&err)
				return nil, err
			}
			return &heardConn{Conn: c, clock: t.o.Host.Clock, at: &heard}, nil
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}),
			grpc.MaxCallRecvMsgSize(t.o.MaxFrameBytes+1024), grpc.MaxCallSendMsgSize(t.o.MaxFrameBytes+1024)),
		grpc.WithInitialWindowSize(t.o.StreamWindowBytes),
		grpc.WithInitialConnWindowSize(t.o.ConnWindowBytes),
		grpc.WithWriteBufferSize(writeBufferBytes),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour}, MinConnectTimeout: t.o.ConnectTimeout,
		}),
	)
	if err != nil {
		cancel(err)
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		if c := context.Cause(ctx); c != nil {
			err = c
		} else if d := dialErr.Load(); d != nil {
			err = *d
		} else if s, ok := gstatus.FromError(err); ok {
			err = errors.New(s.Message())
		}
		cancel(err)
		cc.Close()
	}()
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "link", ClientStreams: true, ServerStreams: true}, linkMethod)
	if err != nil {
		return nil, err
	}
	us := t.hello(p.key.class)
	greeting := Greeting{Wall: wallTime(us.wall), Begun: t.o.Host.Clock.Monotonic()}
	if err := s.SendMsg(&frame{kind: kindHello, at: t.reading(), payload: wire.Append(nil, &us, (*hello).fields)}); err != nil && err != io.EOF {
		return nil, err
	}
	var f frame
	if err := s.RecvMsg(&f); err != nil {
		return nil, err
	}
	greeting.Ended = t.o.Host.Clock.Monotonic()
	typed := func(e error) (*link, error) {
		var o *OffsetError
		if errors.As(e, &o) {
			o.Greeting = &greeting
		}
		cancel(e) // becomes the error, see above
		return nil, e
	}
	if f.kind == kindError {
		return typed(t.unstatus(f.payload, p.key.node, addr))
	}
	if f.kind != kindHello {
		return typed(errFrame)
	}
	them, err := decodeHello(f.payload)
	if err != nil {
		return typed(err)
	}
	if name, ok := t.peerName(s.Context()); ok && name != t.o.NodeName {
		return typed(&StatusError{Code: codeRefused, Message: "its certificate is for " + name + ", not for a node"})
	}
	if e := t.checkHello(them, addr); e != nil {
		return typed(e)
	}
	if e := t.checkVersion(them, addr); e != nil {
		return typed(e)
	}
	if p.key.node != 0 && them.node != p.key.node {
		return typed(&WrongNodeError{Addr: addr, Want: p.key.node, Have: them.node})
	}
	if e := t.observe(f.at, them.node); e != nil {
		e.Wall = wallTime(them.wall)
		return typed(e)
	}
	l := &link{
		t: t, peer: p, cc: cc, stream: s, ctx: ctx, cancel: cancel, peerSaid: peerSaid{them.node, addr, them.said},
		sender: newSender(t, s), heard: &heard, pending: make(map[uint64]*call), as: us.node, quiet: make(chan struct{}),
	}
	l.trip.Store(int64(greeting.Ended - greeting.Begun))
	l.used.Store(int64(t.o.Host.Clock.Monotonic()))
	return l, nil
}

// heardConn notes when a byte last arrived. Even a peer that only receives sends window updates, so a link that is
// busy with one large frame is not silent.
type heardConn struct {
	net.Conn
	clock host.Clock
	at    *atomic.Int64
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.at.Store(int64(c.clock.Monotonic()))
	}
	return n, err
}

// hello is what this node says first on a link of a class.
func (t *Transport) hello(c Class) hello {
	return hello{frames: frameVersion, wall: t.wall(), class: c, node: t.o.NodeID(), cluster: t.o.ClusterID(), said: t.o.Said()}
}

// checkVersion refuses a peer whose binary does not fit to the version that this node acts by, and reports if it is the other way round.
func (t *Transport) checkVersion(h hello, addr string) error {
	who := "the node at " + addr
	if h.node != 0 {
		who = fmt.Sprintf("n%d", h.node)
	}
	if err := version.Check(t.o.Said(), h.said, who); err != nil {
		return &VersionError{Node: h.node, Addr: addr, Err: err}
	}
	return nil
}

// checkHello refuses peers of other clusters. A node that has no cluster yet talks to any.
func (t *Transport) checkHello(h hello, addr string) error {
	var none [16]byte
	if ours := t.o.ClusterID(); ours != none && h.cluster != none && ours != h.cluster {
		return &ClusterMismatchError{Addr: addr, Ours: ours, Theirs: h.cluster}
	}
	return nil
}

// peerName is the common name in the certificate of the other end; without TLS ok is false.
func (t *Transport) peerName(ctx context.Context) (name string, ok bool) {
	p, found := gpeer.FromContext(ctx)
	if !found {
		return "", false
	}
	info, isTLS := p.AuthInfo.(credentials.TLSInfo)
	if !isTLS {
		return "", false
	}
	if len(info.State.PeerCertificates) == 0 {
		return "", true
	}
	return info.State.PeerCertificates[0].Subject.CommonName, true
}

// monitor tests silent links (transport.T3) and closes links to addresses that nobody used for a minute. Its own delays say how long this node was not running, on a machine that is too busy or
// was stopped: answers may have arrived in that time and wait to be read, so it does not count against the peers.
func (t *Transport) monitor(ctx context.Context) {
	tick := t.o.PingInterval / 8
	last := t.o.Host.Clock.Monotonic()
	for t.o.Host.Clock.Sleep(ctx, tick) == nil {
		now := t.o.Host.Clock.Monotonic()
		late := now - last - tick
		last = now
		t.mu.Lock()
		links := make([]*link, 0, len(t.peers))
		for _, p := range t.peers {
			if l := p.up.Load(); l != nil {
				links = append(links, l)
			}
		}
		t.mu.Unlock()
		for _, l := range links {
			if l.peer.key.node != 0 && l.as != t.o.NodeID() { // transport.T10
				l.fail(errNumbered)
				continue
			}
			if late > tick/2 {
				l.later(late)
			}
			l.probe(now)
		}
	}
}
