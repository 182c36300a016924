package pgwire

import (
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
	// StartupTimeout bounds the time to authenticate (default 30 s).
	StartupTimeout time.Duration
}

// Metrics count what the server did.
type Metrics struct {
	Connections, ConnectionsTotal, Refused, BytesIn, BytesOut, AuthFailures atomic.Int64
}

// Server accepts PostgreSQL clients.
type Server struct {
	opts    Options
	group   *host.Group
	metrics Metrics
	secret  [32]byte // makes the salts of unknown users

	mu    sync.Mutex // guards conns and draining; nothing is taken after it
	conns map[*conn]struct{}
	drain bool
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
		o.StartupTimeout = 30 * time.Second
	}
	s := &Server{opts: o, group: o.Host.Group.Child(), conns: map[*conn]struct{}{}}
	o.Host.Dice.Read(s.secret[:])
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

// Drain tells idle clients to go (57P01) and lets the others finish their transaction until ctx ends.
func (s *Server) Drain(ctx context.Context) {
	s.mu.Lock()
	s.drain = true
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.drain()
	}
	for ctx.Err() == nil && s.metrics.Connections.Load() > 0 {
		if s.opts.Host.Clock.Sleep(ctx, 20*time.Millisecond) != nil {
			return
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

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) serve(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	s.metrics.ConnectionsTotal.Add(1)
	over := s.metrics.Connections.Add(1) > int64(s.opts.MaxConnections)
	defer s.metrics.Connections.Add(-1)
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
	if !c.startup(ctx) {
		return
	}
	c.run(ctx)
}
