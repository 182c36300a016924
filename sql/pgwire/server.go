package pgwire

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"meridian/host"
	"meridian/sql/session"
)

// Options of a Server.
type Options struct {
	Host     *host.Host
	Sessions *session.Server
	// TLS, if set, is offered to clients; Insecure lets clients in without TLS and without a password.
	TLS      *tls.Config
	Insecure bool
	// MaxMessage bounds one message (default 64 MiB), MaxConnections the clients (default 20,000).
	MaxMessage     int
	MaxConnections int
	// MaxStarting bounds the connections that have not authenticated yet (default 2,000).
	MaxStarting int
	// StartupTimeout bounds the time to authenticate (default 60 s, PostgreSQL's authentication_timeout).
	StartupTimeout time.Duration
	// Secret is known to the cluster's nodes only, and the same on all: the salts for unknown users are derived from it.
	Secret func() []byte
}

// Metrics are counters of a Server.
type Metrics struct {
	Connections, ConnectionsTotal, Refused, BytesIn, BytesOut atomic.Int64
	// AuthFailures counts wrong passwords and unknown users; AuthThrottled the attempts that were refused after too many failures; Starting the
	// connections that have not authenticated; StartingClosed those that were closed to make room for others.
	AuthFailures, AuthThrottled, Starting, StartingClosed atomic.Int64
	// ClientsGone counts the clients that closed their connection while their statement ran.
	ClientsGone atomic.Int64
}

// Server accepts PostgreSQL clients.
type Server struct {
	opts     Options
	group    *host.Group
	metrics  Metrics
	throttle *throttle

	mu       sync.Mutex // guards the fields below; nothing is taken after it
	conns    map[*conn]struct{}
	starting *list.List // of *conn, those that have not authenticated, the oldest first
	drain    bool
}

// NewServer makes a server; Serve runs it.
func NewServer(o Options) *Server {
	if o.MaxMessage == 0 {
		o.MaxMessage = 64 << 20
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 20_000
	}
	if o.StartupTimeout == 0 {
		o.StartupTimeout = time.Minute
	}
	if o.MaxStarting == 0 {
		o.MaxStarting = 2000
	}
	if o.TLS != nil {
		// TLS sessions are not resumed, so that each connection verifies its certificate.
		o.TLS = o.TLS.Clone()
		o.TLS.SessionTicketsDisabled = true
	}
	if o.Secret == nil {
		var own [32]byte
		o.Host.Dice.Read(own[:])
		o.Secret = func() []byte { return own[:] }
	}
	s := &Server{opts: o, group: o.Host.Group.Child(), throttle: newThrottle(o.Host.Clock), conns: map[*conn]struct{}{},
		starting: list.New()}
	s.group.Go(s.watch)
	return s
}

// Metrics of this server.
func (s *Server) Metrics() *Metrics { return &s.metrics }

// Serve accepts connections until the listener is closed. Errors of accept are retried: running out of file
// descriptors must not end the node (I9).
func (s *Server) Serve(l net.Listener) error {
	stop := context.AfterFunc(s.group.Context(), func() { l.Close() })
	defer stop()
	for {
		nc, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || s.group.Context().Err() != nil {
				return nil
			}
			s.opts.Host.Log.Warn("cannot accept a client", "error", err)
			if s.opts.Host.Clock.Sleep(s.group.Context(), 50*time.Millisecond) != nil {
				return nil
			}
			continue
		}
		if !s.group.Go(func(ctx context.Context) { s.serve(ctx, nc) }) {
			nc.Close()
			return nil
		}
	}
}

// Close ends every connection and waits for its goroutine.
func (s *Server) Close() {
	s.mu.Lock()
	s.drain = true
	for c := range s.conns {
		c.nc.Close()
	}
	s.mu.Unlock()
	s.group.Stop()
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drain {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// startingGrace is the time that a connection has to authenticate before it can be closed to make room for others.
const startingGrace = 2 * time.Second

// begin adds a connection to those that have not authenticated. If there are too many, the oldest is closed, unless it is younger than
// startingGrace: a client that opens many connections and sends nothing keeps no other client out (pgwire.W4).
func (s *Server) begin(c *conn) bool {
	now := s.opts.Host.Clock.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting.Len() >= s.opts.MaxStarting {
		oldest := s.starting.Front()
		o := oldest.Value.(*conn)
		if now-o.since < startingGrace {
			return false
		}
		s.starting.Remove(oldest)
		o.place = nil
		s.metrics.Starting.Add(-1)
		s.metrics.StartingClosed.Add(1)
		o.raw.Close()
	}
	c.since, c.place = now, s.starting.PushBack(c)
	s.metrics.Starting.Add(1)
	return true
}

// begun removes a connection from those that have not authenticated.
func (s *Server) begun(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.place != nil {
		s.starting.Remove(c.place)
		c.place = nil
		s.metrics.Starting.Add(-1)
	}
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) serve(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	s.metrics.ConnectionsTotal.Add(1)
	open := s.metrics.Connections.Add(1)
	defer s.metrics.Connections.Add(-1)
	over := open > int64(s.opts.MaxConnections)
	if open > int64(s.opts.MaxConnections+s.opts.MaxStarting) {
		s.metrics.Refused.Add(1)
		return // so many connections are being refused that the error is left out
	}
	c := newConn(s, nc)
	if !s.add(c) {
		c.startupFatal(errShuttingDown)
		return
	}
	defer s.remove(c)
	if over {
		s.metrics.Refused.Add(1)
		c.startupFatal(errTooMany)
		return
	}
	if !s.begin(c) {
		s.metrics.Refused.Add(1)
		c.startupFatal(errTooMany)
		return
	}
	ok := c.startup(ctx)
	s.begun(c)
	if !ok {
		return
	}
	c.run(c.patience.With(ctx))
}

// unservedMax is how long a request looks for a replica that serves it: longer than a failover takes, also across oceans. With the time of the first
// attempt, a client gets the error for data that can't be reached within a quarter of a minute.
const unservedMax = 6 * time.Second
