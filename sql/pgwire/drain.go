package pgwire

import (
	"context"
	"io"
	"time"

	"meridian/sql/sqlstate"
)

// Draining: clients are told to go (57P01) between their transactions, so that none of these fails (pgwire.W9).
//
// A client that has just been answered is likely to be sending its next message, and would take the farewell for its answer. So
// at first only those are told that have been silent for a moment; after that, the others at the end of a transaction. A client which never
// pauses unavoidably gets 57P01 as the answer to a BEGIN, which had no effect.

const (
	drainTick = 10 * time.Millisecond
	// quietFor is the silence after which an idle client is not expected to be sending.
	quietFor = 50 * time.Millisecond
	// quietMax is how long the server waits for each client to pause.
	quietMax = time.Second
	// farewellMax is how long a connection that was told to go is kept, so that what the client is still sending does not
	// reset it before the farewell is read.
	farewellMax = 500 * time.Millisecond
)

// Drain takes no more clients, tells those that are there to go as soon as they have no transaction, and returns when all have
// gone. When ctx ends, it ends the transactions of the others, which it counts as cut.
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

// Sessions is how many clients are connected.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// drain asks the connection to go as soon as it is idle, or at once if it is. quiet says that it has been idle for a while.
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

// farewell tells the client to go, and waits for a moment until it has heard it.
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
