package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"meridian/clock"
	"meridian/host"
	"meridian/invariant"
	"meridian/kv"
	"meridian/version"
	"meridian/wire"
)

// Class separates traffic that must not wait for other traffic; each has its own connection.
type Class uint8

const (
	// ClassDefault is for requests of SQL.
	ClassDefault Class = iota
	// ClassSystem is for raft, liveness and membership.
	ClassSystem
	// ClassBulk is for raft snapshots and other large transfers.
	ClassBulk
	classes
)

// Handler answers calls of one method. It owns req; the transport owns the reply, which must not change afterwards.
type Handler func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error)

// StreamHandler serves one stream of one method; the stream ends when it returns.
type StreamHandler func(ctx context.Context, from kv.NodeID, s Stream) error

// Stream is one end of a stream of messages. Send and Recv may be called concurrently, but not Send with itself nor
// Recv with itself. Recv returns io.EOF when the other end finished without an error.
type Stream interface {
	// Send queues one message, waiting while the peer is a window behind; b must not change afterwards. When the other
	// end has finished, its error is that of Recv, or io.EOF if Recv is told at the same moment.
	Send(b []byte) error
	Recv() ([]byte, error)
	// CloseSend says that no more messages come from this end; on a handler's end it does nothing, its return does.
	CloseSend() error
}

// Options are what a Transport needs. Host is required, the rest has defaults.
type Options struct {
	Host *host.Host
	// Clock is read into and updated from every frame; nil: frames carry no readings.
	Clock *clock.Clock
	// NodeID is this node's id, zero until it is known.
	NodeID func() kv.NodeID
	// ClusterID is this node's cluster, zero until it is known.
	ClusterID func() [16]byte
	// Said are the versions of this node; nil: none, as of an administrator's program.
	Said func() version.Said
	// Resolve gives a node's address.
	Resolve func(kv.NodeID) (addr string, ok bool)

	// ServerTLS and ClientTLS turn TLS on. ServerTLS must demand client certificates.
	ServerTLS, ClientTLS *tls.Config
	// NodeName is the common name in nodes' certificates; default "node".
	NodeName string
	// AdminNames may call methods of HandleAdmin; default "root".
	AdminNames []string

	// MaxFrameBytes bounds a request, a reply or a message of a stream; default 64 MiB.
	MaxFrameBytes int
	// MaxInflight bounds the handlers of calls that run at once; default 10,000.
	MaxInflight int
	// PingInterval is the silence after which a link is tested; default 0.5 s.
	PingInterval time.Duration
	// PingTimeout is how long an answer may take; default 1.5 s.
	PingTimeout time.Duration
	// ConnectTimeout bounds one attempt to connect, hello included; default 3 s.
	ConnectTimeout time.Duration
	// MaxRelays bounds the nodes by way of which a call or stream reaches a node that this one has no link to; default 4,
	// negative: none.
	MaxRelays int
	// BackoffMin and BackoffMax bound the time between attempts; defaults 50 ms and 1 s.
	BackoffMin, BackoffMax time.Duration
	// StreamWindowBytes and ConnWindowBytes are HTTP/2 flow control windows; defaults 8 and 16 MiB.
	StreamWindowBytes, ConnWindowBytes int32
	// OnInvariant hears of a handler's broken invariant; default: the panic goes on.
	OnInvariant func(*invariant.Error)
}

func (o *Options) setDefaults() {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.PingInterval, 500*time.Millisecond)
	def(&o.PingTimeout, 1500*time.Millisecond)
	def(&o.ConnectTimeout, 3*time.Second)
	def(&o.BackoffMin, 50*time.Millisecond)
	def(&o.BackoffMax, time.Second)
	if o.NodeID == nil {
		o.NodeID = func() kv.NodeID { return 0 }
	}
	if o.ClusterID == nil {
		o.ClusterID = func() [16]byte { return [16]byte{} }
	}
	if o.Said == nil {
		o.Said = func() version.Said { return version.Said{} }
	}
	if o.Resolve == nil {
		o.Resolve = func(kv.NodeID) (string, bool) { return "", false }
	}
	if o.NodeName == "" {
		o.NodeName = "node"
	}
	if o.AdminNames == nil {
		o.AdminNames = []string{"root"}
	}
	if o.MaxFrameBytes == 0 {
		o.MaxFrameBytes = 64 << 20
	}
	if o.MaxInflight == 0 {
		o.MaxInflight = 10_000
	}
	if o.MaxRelays == 0 {
		o.MaxRelays = 4
	}
	if o.StreamWindowBytes == 0 {
		o.StreamWindowBytes = 8 << 20
	}
	if o.ConnWindowBytes == 0 {
		o.ConnWindowBytes = 16 << 20
	}
	if o.OnInvariant == nil {
		o.OnInvariant = func(e *invariant.Error) { panic(e) }
	}
}

type method struct {
	name   string
	call   Handler
	stream StreamHandler
	admin  bool
	// carrier: it relays other methods, and is never relayed itself (transport.T6).
	carrier bool
}

// Transport is one node's connections to all others.
type Transport struct {
	o        Options
	group    *host.Group
	server   *grpc.Server
	methods  atomic.Pointer[map[string]*method]
	jobs     chan job // unbuffered: a send finds an idle worker or fails
	idle     atomic.Int64
	inflight atomic.Int64
	relaying atomic.Int64  // calls that are taken further for other nodes
	acting   atomic.Uint64 // the version by which this node acts since Raised, as a number
	warned   atomic.Int64  // monotonic time of the last warning of a refused version
	stats    counters
	calls    sync.Pool // *call

	mu      sync.Mutex // guards the fields below; peer.mu may be taken after it
	peers   map[peerKey]*peer
	detours map[kv.NodeID]*detour
	serving map[*served]struct{}
	leaving bool
	closed  bool
	onClose chan struct{}
}

// New makes a transport; it listens once Serve is called, and stops with the host's group or by Close.
func New(o Options) *Transport {
	o.setDefaults()
	t := &Transport{
		o:       o,
		group:   o.Host.Group.Child(),
		jobs:    make(chan job),
		peers:   make(map[peerKey]*peer),
		detours: make(map[kv.NodeID]*detour),
		serving: make(map[*served]struct{}),
		onClose: make(chan struct{}),
	}
	t.calls.New = func() any { return &call{done: make(chan result, 1)} }
	t.methods.Store(&map[string]*method{})
	t.registerRelays()
	creds := insecure.NewCredentials()
	if o.ServerTLS != nil {
		creds = credentials.NewTLS(o.ServerTLS)
	}
	t.server = grpc.NewServer(
		grpc.Creds(creds),
		grpc.ForceServerCodecV2(codec{}),
		grpc.UnknownServiceHandler(t.serveStream),
		grpc.MaxRecvMsgSize(o.MaxFrameBytes+1024),
		grpc.MaxSendMsgSize(o.MaxFrameBytes+1024),
		grpc.InitialWindowSize(o.StreamWindowBytes),
		grpc.InitialConnWindowSize(o.ConnWindowBytes),
		grpc.WriteBufferSize(writeBufferBytes),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 5 * time.Second, Timeout: 5 * time.Second}),
		grpc.WaitForHandlers(true),
	)
	o.Host.Group.Go(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			t.Close()
		case <-t.onClose:
		}
	})
	t.group.Go(t.monitor)
	return t
}

const writeBufferBytes = 64 << 10

// Serve accepts peers until the listener fails or the transport closes, which closes the listener.
func (t *Transport) Serve(l net.Listener) error {
	err := t.server.Serve(l)
	if t.group.Context().Err() != nil || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// Close breaks every connection, cancels every handler and waits for all of them.
func (t *Transport) Close() {
	t.mu.Lock()
	closed := t.closed
	t.closed = true
	t.mu.Unlock()
	if !closed {
		close(t.onClose)
	}
	t.server.Stop()
	t.group.Stop()
}

// leaveID is the identity of frames that have to do with leaving: a pong that nobody has asked for says that its sender leaves, and the cancellation
// of a call that was never made is the answer. Peers that know nothing of this ignore both.
const leaveID = ^uint64(0)

// leavePause is how often Leave looks whether everything has been answered.
const leavePause = time.Millisecond

// Leave answers the calls of other nodes, and has them make no more (transport.T9). It returns when that is done, or ctx ends; Close follows.
// Streams, and the calls that this node makes, go on.
func (t *Transport) Leave(ctx context.Context) {
	t.mu.Lock()
	t.leaving = true
	t.mu.Unlock()
	// Once for the calls, which arrive before the acknowledgement, and once for their answers, which arrive before the second question.
	for range 2 {
		want := make(map[*served]int64)
		t.mu.Lock()
		for s := range t.serving {
			want[s] = s.acked.Load() + 1
		}
		t.mu.Unlock()
		for s := range want {
			s.later(&frame{kind: kindPong, id: leaveID})
		}
		for !t.answered(want) {
			if t.o.Host.Clock.Sleep(ctx, leavePause) != nil {
				return
			}
		}
	}
}

// answered reports whether all links that are still there have acknowledged so often, and no call is being served.
func (t *Transport) answered(want map[*served]int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, n := range want {
		if _, there := t.serving[s]; there && s.acked.Load() < n {
			return false
		}
	}
	return t.inflight.Load() == 0
}

// Handle registers the handler of a method, before or while the transport serves.
func (t *Transport) Handle(name string, h Handler) { t.register(&method{name: name, call: h}) }

// HandleAdmin registers a method that administrators may call too.
func (t *Transport) HandleAdmin(name string, h Handler) {
	t.register(&method{name: name, call: h, admin: true})
}

// HandleStream registers the handler of a stream method.
func (t *Transport) HandleStream(name string, h StreamHandler) {
	t.register(&method{name: name, stream: h})
}

func (t *Transport) register(m *method) {
	invariant.Check(len(m.name) > 0 && len(m.name) < 256, "method name %q", m.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.methods.Load()
	next := make(map[string]*method, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	invariant.Check(next[m.name] == nil, "method %s is registered twice", m.name)
	next[m.name] = m
	t.methods.Store(&next)
}

// Call is CallClass with ClassDefault.
func (t *Transport) Call(ctx context.Context, to kv.NodeID, name string, req []byte) ([]byte, error) {
	return t.CallClass(ctx, ClassDefault, to, name, req)
}

// CallClass asks a node and waits for its answer. req must not change afterwards, even if the call has failed. A
// call to this node itself runs the handler on the caller's goroutine.
func (t *Transport) CallClass(ctx context.Context, c Class, to kv.NodeID, name string, req []byte) ([]byte, error) {
	if to != 0 && to == t.o.NodeID() {
		m := (*t.methods.Load())[name]
		if m == nil || m.call == nil {
			return nil, noMethod(name)
		}
		t.stats.localCalls.Add(1)
		return m.call(ctx, to, req)
	}
	if to == 0 {
		return nil, &UnreachableError{Err: errNoAddress}
	}
	return t.call(ctx, t.peer(peerKey{node: to, class: c}), name, req)
}

// CallAddr asks whoever listens at an address; for joining a cluster, before ids are known.
func (t *Transport) CallAddr(ctx context.Context, addr, name string, req []byte) ([]byte, error) {
	return t.call(ctx, t.peer(peerKey{addr: addr, class: ClassSystem}), name, req)
}

// OpenStream is OpenStreamClass with ClassSystem.
func (t *Transport) OpenStream(ctx context.Context, to kv.NodeID, name string) (Stream, error) {
	return t.OpenStreamClass(ctx, ClassSystem, to, name)
}

// OpenStreamClass opens a stream to a node. It ends with ctx; a caller that is done with a stream before the handler
// is must end ctx.
func (t *Transport) OpenStreamClass(ctx context.Context, c Class, to kv.NodeID, name string) (Stream, error) {
	if to != 0 && to == t.o.NodeID() {
		return t.openLocal(ctx, name)
	}
	if to == 0 {
		return nil, &UnreachableError{Err: errNoAddress}
	}
	return t.openRemote(ctx, t.peer(peerKey{node: to, class: c}), name)
}

// Raised says that this node acts by a later version from now on (Options.Said). Nodes whose binaries can't are cut off (transport.T7). It does not wait.
func (t *Transport) Raised() {
	t.acting.Store(t.o.Said().Acting.Uint64())
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peers {
		if l := p.up.Load(); l != nil {
			if err := t.stillFits(&l.peerSaid); err != nil {
				l.fail(err)
			}
		}
	}
}

// peerSaid is what the other end of a link said of its binary.
type peerSaid struct {
	node kv.NodeID
	addr string
	said version.Said
}

// stillFits checks a node that fitted when its link was made (transport.T7).
func (t *Transport) stillFits(p *peerSaid) error {
	if own := p.said.Own.Uint64(); own == 0 || own >= t.acting.Load() {
		return nil
	}
	return t.checkVersion(hello{node: p.node, said: p.said}, p.addr)
}

func noMethod(name string) error {
	return &StatusError{Code: CodeNoMethod, Message: fmt.Sprintf("transport: no method %q", name)}
}

// reading is the clock reading for a frame that leaves now.
func (t *Transport) reading() clock.Timestamp {
	if t.o.Clock == nil {
		return clock.Timestamp{}
	}
	return t.o.Clock.Now()
}

// wall is what this node's own clock shows, without the readings of others that it has heard.
func (t *Transport) wall() int64 {
	if t.o.Clock == nil {
		return 0
	}
	return t.o.Clock.Wall().UnixNano()
}

func wallTime(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// observe moves the clock past a frame that arrived.
func (t *Transport) observe(at clock.Timestamp, from kv.NodeID) *OffsetError {
	if t.o.Clock == nil {
		return nil
	}
	if err := t.o.Clock.Update(at); err != nil {
		t.stats.offsetErrors.Add(1)
		return &OffsetError{Node: from, Message: err.Error()}
	}
	return nil
}

// guard runs a handler and turns its panic into an error.
func (t *Transport) guard(name string, f func() error) (err error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if e, ok := r.(*invariant.Error); ok {
			t.o.OnInvariant(e)
		}
		t.o.Host.Log.Error("a handler panicked", "method", name, "panic", r, "stack", string(debug.Stack()))
		err = &PanicError{Method: name, Value: r}
	}()
	return f()
}

// status is the form in which a handler's error crosses the wire to its caller.
func (t *Transport) status(err error, caller kv.NodeID) *StatusError {
	var v *VersionError
	var s *StatusError
	var p *PanicError
	var o *OffsetError
	switch {
	case errors.As(err, &s):
		return s
	case errors.As(err, &v):
		ours := t.o.Said()
		return &StatusError{Code: codeVersion, Message: err.Error(), Detail: wire.Append(nil, &ours, said)}
	case errors.As(err, &p):
		return &StatusError{Code: CodePanic, Message: err.Error()}
	case errors.As(err, &o) && o.Node == caller: // else the handler has met a third node's clock, of which its caller hears as of any failure (transport.T8)
		return &StatusError{Code: codeOffset, Message: o.Message, Detail: wire.Append(nil, &refuser{t.o.NodeID(), t.wall()}, (*refuser).fields)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &StatusError{Code: CodeCanceled, Message: err.Error()}
	}
	return &StatusError{Code: CodeUnknown, Message: err.Error()}
}

// unstatus is the error that a caller gets for what status made on node from.
func (t *Transport) unstatus(payload []byte, from kv.NodeID, addr string) error {
	e, err := decodeError(payload)
	if err != nil {
		return err
	}
	switch e.Code {
	case codeOffset:
		// The node that refuses may be another one than the caller has taken it for, and have its address now.
		d, err := wire.Decoded(e.Detail, (*refuser).fields)
		switch {
		case err != nil || len(e.Detail) == 0:
			return &OffsetError{Node: from, Message: e.Message}
		case from != 0 && d.node != from:
			return &WrongNodeError{Addr: addr, Want: from, Have: d.node}
		}
		return &OffsetError{Node: d.node, Message: e.Message, Wall: wallTime(d.wall)}
	case codeOverloaded:
		return &OverloadedError{Node: from}
	case codeCluster:
		m := &ClusterMismatchError{Addr: addr, Ours: t.o.ClusterID()}
		copy(m.Theirs[:], e.Detail)
		return m
	case codeVersion:
		if theirs, err := wire.Decoded(e.Detail, said); err == nil {
			if err := t.checkVersion(hello{node: from, said: theirs}, addr); err != nil {
				return err
			}
		}
	}
	return e
}

func (t *Transport) isAdmin(name string) bool { return slices.Contains(t.o.AdminNames, name) }
