package pgwire

import (
	"context"
	"io"
	"time"

	"meridian/sql/sqlstate"
)

// Draining: each session ends (57P01) between two transactions of its client, so that no transaction fails (pgwire.W9).
//
// A client that has just been answered is likely to be sending its next message, and would take the error for the answer to that. So
// at first only the sessions of clients end that have been silent for a moment; after quietMax the others end too, each when its transaction
// does. A client that never pauses unavoidably gets 57P01 as the answer to a BEGIN, which had no effect.

const (
	drainTick = 10 * time.Millisecond
	// quietFor is the silence after which an idle client is not expected to be sending.
	quietFor = 50 * time.Millisecond
	// quietMax is how long the server waits for each client to pause.
	quietMax = time.Second
	// farewellMax is how long a connection stays open after the error that ends its session. If it were closed immediately, a message that
	// the client is still sending would reset it before the client reads the error.
	farewellMax = 500 * time.Millisecond
)

// Drain refuses new clients, ends each session as soon as it has no transaction, and returns when all have ended. When ctx ends, it ends the
// remaining sessions within their transactions; cut is their number.
func (s *Server) Drain(ctx context.Context) (cut int) {
	clk := s.opts.Host.Clock
	s.mu.Lock()
	s.drain = true
	s.mu.Unlock()
	type silent struct {
		messages uint64
		since    time.Duration
	}
	seen := make(map[*conn]silent)
	begun := clk.Monotonic()
	open := func() (all []*conn) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			all = append(all, c)
		}
		return all
	}
	for all := open(); len(all) > 0 && ctx.Err() == nil; all = open() {
		now := clk.Monotonic()
		for _, c := range all {
			n := c.messages.Load()
			was, known := seen[c]
			switch {
			case !known || was.messages != n || !c.idle.Load():
				seen[c] = silent{n, now}
			case now-was.since >= quietFor:
				c.drain(true)
			}
			if now-begun >= quietMax {
				c.drain(false)
			}
		}
		if clk.Sleep(ctx, drainTick) != nil {
			break
		}
	}
	rest := open()
	for _, c := range rest {
		c.draining.Store(true)
		if c.served.Load() {
			c.sess.Terminate()
		}
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	for range int(2 * time.Second / drainTick) {
		if len(open()) == 0 || clk.Sleep(s.group.Context(), drainTick) != nil {
			break
		}
	}
	return len(rest)
}

// Sessions is the number of connected clients.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// drain makes the connection end when it becomes idle. quiet says that it has been idle for a while: then it ends immediately.
func (c *conn) drain(quiet bool) {
	c.draining.Store(true)
	if quiet && c.idle.Load() {
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

func (c *conn) closeSession() {
	if !c.ended {
		c.ended = true
		c.sess.Close()
	}
}

// farewell sends the error that ends the session, and waits a moment for the client to close the connection.
func (c *conn) farewell() {
	c.out.fail("FATAL", &sqlstate.Error{Code: sqlstate.AdminShutdown,
		Message: "terminating connection due to administrator command"})
	if c.out.flush() != nil {
		return
	}
	c.closeSession() // its locks do not wait for the client
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(c.s.opts.Host.Clock.Now().Add(farewellMax))
	io.Copy(io.Discard, c.nc)
}
