package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"meridian/host"
)

// Bounds on the resources of HTTP clients (server.SV4).
const (
	// httpHeaderTimeout covers the TLS handshake and the request's head, httpReadTimeout the whole request.
	httpHeaderTimeout = 10 * time.Second
	httpReadTimeout   = 20 * time.Second
	// httpWriteTimeout is how long a client may take to receive an answer; profiles last longer, see answerTimeout.
	httpWriteTimeout = 30 * time.Second
	// httpIdleTimeout is how long a connection may wait for its next request.
	httpIdleTimeout    = time.Minute
	httpMaxHeaderBytes = 32 << 10
	httpMaxBodyBytes   = 64 << 10
	// maxProfileSeconds bounds ?seconds= of a profile.
	maxProfileSeconds = 600
	// defaultHTTPConnections and defaultHTTPPerSource bound the connections of all clients and of one.
	defaultHTTPConnections = 256
	defaultHTTPPerSource   = 64
)

// openPaths are for monitors and load balancers, which have no certificate. They show metrics and no contents.
func openPath(path string) bool { return path == "/health" || path == "/metrics" }

// guard lets only administrators see profiles and the cluster's contents: on a secure node a request needs the
// certificate of a node or of a superuser.
func (n *Node) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.SetWriteDeadline(n.host.Clock.Now().Add(answerTimeout(r)))
		if !n.o.Insecure && !openPath(r.URL.Path) {
			if status, text := n.mayAdminister(r); status != http.StatusOK {
				n.http.refused.Add(1)
				http.Error(w, text, status)
				return
			}
		}
		if seconds, ok := profileSeconds(r); ok && seconds > maxProfileSeconds {
			http.Error(w, "a profile lasts "+strconv.Itoa(maxProfileSeconds)+" seconds at most", http.StatusBadRequest)
			return
		}
		http.MaxBytesHandler(next, httpMaxBodyBytes).ServeHTTP(w, r)
	})
}

// mayAdminister is http.StatusOK for an administrator, and otherwise the answer for another client.
func (n *Node) mayAdminister(r *http.Request) (status int, text string) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return http.StatusForbidden, "only administrators may see this: show the client certificate of a superuser"
	}
	// Nodes and root need no catalogue, so that they can examine a cluster whose catalogue can't be read.
	name := r.TLS.VerifiedChains[0][0].Subject.CommonName
	if name == "node" || name == "root" {
		return http.StatusOK, ""
	}
	p := n.sql.parts.Load()
	if p == nil {
		return http.StatusServiceUnavailable, "the node belongs to no cluster yet: only the certificates of root and of nodes are known"
	}
	if u := p.leases.KnownUser(name); u == nil || !u.Superuser || !u.Login {
		return http.StatusForbidden, "only administrators may see this: the role of the client certificate is not a superuser"
	}
	return http.StatusOK, ""
}

// answerTimeout bounds the time that an answer may take, the client's reading included.
func answerTimeout(r *http.Request) time.Duration {
	if seconds, ok := profileSeconds(r); ok {
		return time.Duration(min(seconds, maxProfileSeconds))*time.Second + httpWriteTimeout
	}
	return httpWriteTimeout
}

// profileSeconds is the requested length of a profile.
func profileSeconds(r *http.Request) (int, bool) {
	if !strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
		return 0, false
	}
	text := r.URL.Query().Get("seconds")
	if text == "" {
		return 30, true // the default of net/http/pprof
	}
	seconds, err := strconv.Atoi(text)
	if err != nil {
		return maxProfileSeconds + 1, true
	}
	return max(seconds, 0), true
}

// httpTLS is the TLS configuration for HTTP clients. Sessions are not resumed, so that the certificate is verified for every connection.
func httpTLS(t *tls.Config) *tls.Config {
	t = t.Clone()
	t.SessionTicketsDisabled = true
	return t
}

// boundedListener closes connections beyond a number of all clients, and of each source, as soon as they are accepted: one client that
// opens many does not block others.
type boundedListener struct {
	net.Listener
	total, perSource int
	refused          *atomic.Int64

	mu   sync.Mutex // guards the fields below; nothing is taken after it
	open int
	from map[string]int
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := host.Source(c.RemoteAddr())
		if l.take(source) {
			return &boundedConn{Conn: c, l: l, source: source}, nil
		}
		l.refused.Add(1)
		c.Close()
	}
}

func (l *boundedListener) take(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.total || l.from[source] >= l.perSource {
		return false
	}
	l.open++
	l.from[source]++
	return true
}

func (l *boundedListener) give(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.from[source]--; l.from[source] == 0 {
		delete(l.from, source)
	}
}

// connections is the number of open connections.
func (l *boundedListener) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

type boundedConn struct {
	net.Conn
	l      *boundedListener
	source string
	once   sync.Once
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.l.give(c.source) })
	return err
}
