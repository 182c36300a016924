package pgwire

import (
	"context"
	"time"

	"meridian/host"
)

// A goroutine that serves a statement does not read, so it does not notice that its client has closed the connection (pgwire.W10). One goroutine of
// the server watches all connections, which costs a statement two stores: if a connection has served the same message for
// client_connection_check_interval, the watch checks its socket. As in PostgreSQL, a client that has closed its sending side counts as gone, and
// unread bytes do not hide that.

// watchEvery is the time between two looks for statements that are due for a check.
const watchEvery = 200 * time.Millisecond

// watched is the state of a connection at the last look. Only the watch uses it.
type watched struct {
	message uint64        // number of the message that was served
	since   time.Duration // monotonic time of the first look at that message, or of the last check
}

func (s *Server) watch(ctx context.Context) {
	clk := s.opts.Host.Clock
	seen := make(map[*conn]watched)
	var due []*conn
	for clk.Sleep(ctx, watchEvery) == nil {
		now := clk.Monotonic()
		due = due[:0]
		s.mu.Lock()
		for c := range seen {
			if _, open := s.conns[c]; !open {
				delete(seen, c)
			}
		}
		for c := range s.conns {
			if !c.served.Load() || c.reading.Load() {
				delete(seen, c)
				continue
			}
			w, known := seen[c]
			switch m := c.messages.Load(); {
			case !known || w.message != m:
				seen[c] = watched{m, now}
			default:
				if every := c.sess.ConnectionCheck(); every > 0 && now-w.since >= every {
					seen[c] = watched{m, now}
					due = append(due, c)
				}
			}
		}
		s.mu.Unlock()
		for _, c := range due {
			if c.hungUp() {
				s.metrics.ClientsGone.Add(1)
				c.sess.Terminate()
				c.nc.Close() // nothing reads its output any more
			}
		}
	}
}

// hungUp reports whether the socket was closed by the client, or its connection is known to be broken.
func (c *conn) hungUp() bool {
	h, ok := c.raw.(host.Hanger)
	return ok && h.HungUp()
}
