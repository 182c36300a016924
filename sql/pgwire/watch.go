package pgwire

import (
	"context"
	"time"

	"meridian/host"
)

// A goroutine that serves a statement does not read, so it does not notice that its client has gone (pgwire.W10). One goroutine of the server
// looks after all of them, which costs a statement two stores: where the same message has been served for
// client_connection_check_interval, it asks the socket. As PostgreSQL, it takes the end of the client's sending for the end of
// the client; bytes that wait to be read are none.

// watchEvery is how often the server looks for statements that have become due for a check.
const watchEvery = 200 * time.Millisecond

// watched is what the server remembers of a connection between two looks. It belongs to the watch.
type watched struct {
	message uint64        // that was served at the last look
	since   time.Duration // monotonic time of the first look at it, or of the last check
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
				c.nc.Close() // nobody takes what it would write
			}
		}
	}
}

// hungUp asks the socket whether the client has closed it, or is known to be gone.
func (c *conn) hungUp() bool {
	h, ok := c.raw.(host.Hanger)
	return ok && h.HungUp()
}
