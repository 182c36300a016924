package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	gstatus "google.golang.org/grpc/status"

	"meridian/kv"
)

const (
	linkMethod   = "/meridian/link"
	streamMethod = "/meridian/stream"
	// addrLinkIdle is how long a link to an address outlives its last call.
	addrLinkIdle = time.Minute
	// quietAfter is how long an answer to a ping may take, beyond its round trip, before the link counts as quiet (transport.T12). Chosen by us: a process that runs answers
	// sooner, even on a busy machine, and a mistake costs no more than some questions.
	quietAfter = 250 * time.Millisecond
	// pongLimit bounds the wait for an answer to a ping on a link that hears other bytes.
	pongLimit = 10 * time.Second
)

// sender lets many goroutines send on one gRPC stream. The lock is a channel because gRPC makes a sender wait while
// the peer is a window behind, and a goroutine that waits for a channel counts as idle in virtual time (host.H3).
type sender struct {
	t    *Transport
	out  interface{ SendMsg(any) error }
	turn chan struct{}
	shut bool // no calls leave any more, since the peer leaves (transport.T9); read and written by whoever has the turn
}

func newSender(t *Transport, out interface{ SendMsg(any) error }) sender {
	return sender{t: t, out: out, turn: make(chan struct{}, 1)}
}

// send reports sent=false if ctx or done ended before the frame's turn came.
func (s *sender) send(ctx context.Context, done <-chan struct{}, f *frame) (sent bool, err error) {
	select {
	case s.turn <- struct{}{}:
	default:
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		case <-done:
			return false, io.EOF
		}
	}
	if f.kind == kindCall && s.shut {
		<-s.turn
		return false, errLeaving
	}
	return true, s.sendInTurn(f)
}

// trySend sends only if nobody else is sending.
func (s *sender) trySend(f *frame) bool {
	select {
	case s.turn <- struct{}{}:
		s.sendInTurn(f)
		return true
	default:
		return false
	}
}

func (s *sender) sendInTurn(f *frame) error {
	f.at = s.t.reading()
	err := s.out.SendMsg(f)
	<-s.turn
	if err == nil {
		s.t.stats.framesSent.Add(1)
		s.t.stats.bytesSent.Add(int64(len(f.payload)))
	}
	return err
}

type result struct {
	payload []byte
	err     error
}

// call is one call that waits for its reply.
type call struct{ done chan result }

// link is an established connection, from the calling side.
type link struct {
	t      *Transport
	peer   *peer
	cc     *grpc.ClientConn
	stream grpc.ClientStream
	ctx    context.Context
	cancel context.CancelCauseFunc
	peerSaid
	sender

	heard  *atomic.Int64 // monotonic time of the last byte
	asked  atomic.Int64  // monotonic time of the unanswered ping; zero: none
	trip   atomic.Int64  // the round trip that the last answered ping took, or the hello
	unsent bool          // there was no turn to send the ping; the monitor's own
	used   atomic.Int64  // monotonic time of the last call; kept for addresses only
	as     kv.NodeID     // the node as which this one has made it; zero: it had no number yet

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	pending map[uint64]*call
	next    uint64
	broken  error
	quiet   chan struct{} // closed while the link is quiet (transport.T12)
	isQuiet bool
}

func (t *Transport) call(ctx context.Context, p *peer, name string, req []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(req) > t.o.MaxFrameBytes {
		return nil, &StatusError{Code: CodeTooLarge, Message: "transport: the request is too large"}
	}
	l, path, err := p.reach(ctx, len(req))
	if err != nil {
		return nil, err
	}
	if path != nil {
		return t.relay(ctx, p, path, name, req)
	}
	return t.callLink(ctx, p, l, name, req)
}

// direct makes a call by a link, and never along a path.
func (t *Transport) direct(ctx context.Context, p *peer, name string, req []byte) ([]byte, error) {
	l, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	return t.callLink(ctx, p, l, name, req)
}

func (t *Transport) callLink(ctx context.Context, p *peer, l *link, name string, req []byte) ([]byte, error) {
	t.stats.calls.Add(1)
	c := t.calls.Get().(*call)
	l.mu.Lock()
	if l.broken != nil {
		err := l.broken
		l.mu.Unlock()
		t.calls.Put(c)
		return nil, p.unreachable(false, err)
	}
	if elsewhere := ctx.Value(elsewhereKey{}) != nil; elsewhere && l.isQuiet {
		l.mu.Unlock()
		t.calls.Put(c)
		return nil, p.unreachable(false, errQuiet)
	}
	l.next++
	id := l.next
	l.pending[id] = c
	quiet := l.quiet
	l.mu.Unlock()
	if p.key.node == 0 {
		l.used.Store(int64(t.o.Host.Clock.Monotonic()))
	}

	sent, err := l.send(ctx, l.ctx.Done(), &frame{kind: kindCall, id: id, name: name, payload: req})
	if err != nil {
		if l.forget(id) {
			t.calls.Put(c)
		}
		if err := ctx.Err(); err != nil && !sent {
			return nil, err
		}
		return nil, p.unreachable(sent, l.reason(err))
	}
	select {
	case r := <-c.done:
		t.calls.Put(c)
		return r.payload, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-quiet:
		var r *result
		if r, err = l.quietly(ctx, c); r != nil {
			t.calls.Put(c)
			return r.payload, r.err
		}
	}
	if !l.forget(id) {
		// The reply, or the link's end, came at the same moment.
		r := <-c.done
		t.calls.Put(c)
		return r.payload, r.err
	}
	t.calls.Put(c)
	if f := (&frame{kind: kindCancel, id: id}); !l.trySend(f) {
		t.group.Go(func(ctx context.Context) { l.send(ctx, l.ctx.Done(), f) })
	}
	if ctx.Err() == nil {
		return nil, p.unreachable(true, err)
	}
	return nil, err
}

// quietly waits on for the answer to a call whose link has become quiet: until it comes, the call's context ends, or the caller need not wait any more (transport.T12). It
// returns the answer, or why the wait is over.
func (l *link) quietly(ctx context.Context, c *call) (*result, error) {
	if ctx.Value(elsewhereKey{}) != nil {
		return nil, errQuiet
	}
	var over chan error
	if f, _ := ctx.Value(quietKey{}).(func(context.Context) error); f != nil {
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		over = make(chan error, 1)
		l.t.group.Go(func(context.Context) {
			if err := f(asking); err != nil {
				over <- err
			}
		})
	}
	select {
	case r := <-c.done:
		return &r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-over:
		return nil, err
	}
}

// forget reports whether the call was still waiting.
func (l *link) forget(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.pending[id]
	delete(l.pending, id)
	return ok
}

// receive delivers frames until the link breaks, and returns why.
func (l *link) receive() error {
	for {
		var f frame
		if err := l.stream.RecvMsg(&f); err != nil {
			return l.reason(err)
		}
		if asked := l.asked.Swap(0); asked != 0 && f.kind == kindPong {
			l.trip.Store(int64(l.t.o.Host.Clock.Monotonic()) - asked)
		}
		l.t.stats.framesReceived.Add(1)
		l.t.stats.bytesReceived.Add(int64(len(f.payload)))
		if err := l.t.stillFits(&l.peerSaid); err != nil { // the node's version was raised while the link was made
			return err
		}
		clockErr := l.t.observe(f.at, l.node)
		switch f.kind {
		case kindReply, kindError:
			if f.kind == kindError && f.id == 0 {
				return l.t.unstatus(f.payload, l.node, l.addr)
			}
			l.mu.Lock()
			c := l.pending[f.id]
			delete(l.pending, f.id)
			l.mu.Unlock()
			if c == nil {
				continue // the caller gave up
			}
			switch {
			case clockErr != nil:
				if f.kind == kindReply {
					clockErr.Reply = f.payload
				}
				c.done <- result{err: clockErr}
			case f.kind == kindReply:
				c.done <- result{payload: f.payload}
			default:
				c.done <- result{err: l.t.unstatus(f.payload, l.node, l.addr)}
			}
		case kindPong:
			if f.id == leaveID {
				l.t.group.Go(func(ctx context.Context) { l.acknowledge(ctx) })
			}
		default:
			return errFrame
		}
	}
}

// acknowledge says that no call follows on the link, and sees to it (transport.T9).
func (l *link) acknowledge(ctx context.Context) {
	select {
	case l.turn <- struct{}{}:
		l.shut = true
		l.sendInTurn(&frame{kind: kindCancel, id: leaveID})
	case <-l.ctx.Done():
	case <-ctx.Done():
	}
}

// reason prefers why the link was ended here over what gRPC says about it.
func (l *link) reason(err error) error {
	if c := context.Cause(l.ctx); c != nil && !errors.Is(c, context.Canceled) {
		return c
	}
	if l.t.group.Context().Err() != nil {
		return errClosed
	}
	if s, ok := gstatus.FromError(err); ok && err != nil && err != io.EOF {
		return errors.New(s.Message())
	}
	if err == io.EOF {
		return errors.New("connection closed by the peer")
	}
	return err
}

// fail ends the link; receive returns the error.
func (l *link) fail(err error) { l.cancel(l.reason(err)) }

// close fails what waits and frees the connection.
func (l *link) close(err error) {
	l.cancel(err)
	l.mu.Lock()
	l.broken = err
	pending := l.pending
	l.pending = nil
	l.mu.Unlock()
	for _, c := range pending {
		c.done <- result{err: &UnreachableError{Node: l.node, Addr: l.addr, Sent: true, Err: err}}
	}
	l.cc.Close()
}

// doubtful reports whether a ping has gone unanswered for a while.
func (l *link) doubtful(now time.Duration) bool {
	asked := time.Duration(l.asked.Load())
	return asked != 0 && now-asked >= doubtful
}

// probe pings a silent link, and ends one that stays silent (transport.T3). Bytes that arrive after the ping show that the peer
// lives, though not that our frames reach it, which only the answer does.
func (l *link) probe(now time.Duration) {
	o := &l.t.o
	if l.peer.key.node == 0 && now-time.Duration(l.used.Load()) > addrLinkIdle {
		l.mu.Lock()
		idle := len(l.pending) == 0
		l.mu.Unlock()
		if idle {
			l.fail(errIdle)
			return
		}
	}
	heard := time.Duration(l.heard.Load())
	asked := time.Duration(l.asked.Load())
	l.mu.Lock()
	waiting := len(l.pending) > 0
	quiet := asked != 0 && heard <= asked && now-asked >= quietAfter+time.Duration(l.trip.Load())*5/4
	if quiet != l.isQuiet {
		if l.isQuiet = quiet; quiet {
			close(l.quiet)
		} else {
			l.quiet = make(chan struct{})
		}
	}
	l.mu.Unlock()
	if asked != 0 {
		switch wait := now - asked; {
		case heard <= asked && wait >= o.PingTimeout && now-heard >= o.PingInterval+o.PingTimeout, wait >= pongLimit:
			l.fail(errSilent)
		case heard > asked && l.unsent:
			l.asked.Store(0)
		}
		return
	}
	if silent := now - heard; silent >= o.PingInterval || waiting && silent >= o.PingInterval*2/5 {
		l.asked.Store(int64(now))
		l.unsent = !l.trySend(&frame{kind: kindPing})
	}
}

// later moves the time of a ping that has not been answered: this node was not running for so long, and could not have heard the answer.
func (l *link) later(by time.Duration) {
	if asked := l.asked.Load(); asked != 0 {
		l.asked.CompareAndSwap(asked, asked+int64(by))
	}
}
