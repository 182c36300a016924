package transport

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"

	"meridian/kv"
	"meridian/wire"
)

// openRemote opens a stream by the peer's link or, while that is missing, along a path.
func (t *Transport) openRemote(ctx context.Context, p *peer, name string) (Stream, error) {
	l, path, err := p.reach(ctx, lentBytes+1) // a stream is not lent a link
	if err != nil {
		return nil, err
	}
	if path != nil {
		return t.openRelayed(ctx, p, path, name)
	}
	return t.openLink(ctx, p, l, name)
}

// openDirect opens a stream by a link, and never along a path.
func (t *Transport) openDirect(ctx context.Context, p *peer, name string) (Stream, error) {
	l, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	return t.openLink(ctx, p, l, name)
}

// openLink opens a gRPC stream on the connection of the peer's link.
func (t *Transport) openLink(ctx context.Context, p *peer, l *link, name string) (Stream, error) {
	s, err := l.cc.NewStream(ctx, &grpc.StreamDesc{StreamName: "stream", ClientStreams: true, ServerStreams: true}, streamMethod)
	if err != nil {
		return nil, p.unreachable(false, l.reason(err))
	}
	us := t.hello(p.key.class)
	f := &frame{kind: kindOpen, at: t.reading(), name: name, payload: wire.Append(nil, &us, (*hello).fields)}
	if err := s.SendMsg(f); err != nil && err != io.EOF {
		return nil, p.unreachable(false, l.reason(err))
	}
	t.stats.streams.Add(1)
	return &clientStream{l: l, ctx: ctx, s: s, turn: make(chan struct{}, 1)}, nil
}

// clientStream is the opener's end.
type clientStream struct {
	l   *link
	ctx context.Context
	s   grpc.ClientStream
	// turn is held by whoever receives, and guards the fields below. Send may, once the stream has ended, to learn why.
	turn chan struct{}
	kept [][]byte // messages that Send came across
	end  error    // why the stream ended, once that is known
}

func (c *clientStream) broken(err error) error {
	if e := c.ctx.Err(); e != nil {
		return e
	}
	return c.l.peer.unreachable(true, c.l.reason(err))
}

func (c *clientStream) Send(b []byte) error {
	if len(b) > c.l.t.o.MaxFrameBytes {
		return &StatusError{Code: CodeTooLarge, Message: "transport: the message is too large"}
	}
	if err := c.s.SendMsg(&frame{kind: kindData, at: c.l.t.reading(), payload: b}); err != nil {
		if err == io.EOF { // the handler returned, or the connection broke
			return c.reason()
		}
		return c.broken(err)
	}
	c.l.t.stats.framesSent.Add(1)
	c.l.t.stats.bytesSent.Add(int64(len(b)))
	return nil
}

// reason is why a stream has ended, to which nothing can be sent any more. Messages that have arrived and were not received yet are kept.
// It does not wait: all that is left to receive is here. If another goroutine receives, that one is told, and this one hears io.EOF.
func (c *clientStream) reason() error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	default:
		return io.EOF
	}
	for c.end == nil {
		if b, err := c.next(); err == nil {
			c.kept = append(c.kept, b)
		}
	}
	return c.end
}

func (c *clientStream) Recv() ([]byte, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
	if len(c.kept) > 0 {
		b := c.kept[0]
		c.kept = c.kept[1:]
		return b, nil
	}
	if c.end != nil {
		return nil, c.end
	}
	return c.next()
}

// next receives one message. An error is the end of the stream.
func (c *clientStream) next() (b []byte, err error) {
	defer func() { c.end = err }()
	var f frame
	if err := c.s.RecvMsg(&f); err != nil {
		if err == io.EOF {
			return nil, io.EOF
		}
		return nil, c.broken(err)
	}
	if err := c.l.t.received(&f, c.l.node); err != nil {
		return nil, err
	}
	switch f.kind {
	case kindData:
		return f.payload, nil
	case kindError:
		return nil, c.l.t.unstatus(f.payload, c.l.node, c.l.addr)
	}
	return nil, errFrame
}

func (c *clientStream) CloseSend() error { return c.s.CloseSend() }

// received counts a frame of a stream and observes its clock.
func (t *Transport) received(f *frame, from kv.NodeID) error {
	t.stats.framesReceived.Add(1)
	t.stats.bytesReceived.Add(int64(len(f.payload)))
	if err := t.observe(f.at, from); err != nil {
		return err
	}
	return nil
}

// serveOpen runs a stream's handler.
func (t *Transport) serveOpen(s grpc.ServerStream, f *frame, h hello, from kv.NodeID, admin bool) error {
	m := (*t.methods.Load())[string(f.got)]
	peer := peerSaid{from, sourceOf(s.Context()), h.said}
	var err error
	if m == nil || m.stream == nil || admin && !m.admin {
		err = noMethod(string(f.got))
	} else {
		err = t.guard(m.name, func() error { return m.stream(s.Context(), from, &serverStream{t: t, peer: peer, from: from, s: s}) })
	}
	if err == nil {
		return nil
	}
	return s.SendMsg(&frame{kind: kindError, at: t.reading(), payload: wire.Append(nil, t.status(err, from), (*StatusError).fields)})
}

// serverStream is the handler's end.
type serverStream struct {
	t    *Transport
	peer peerSaid
	from kv.NodeID
	s    grpc.ServerStream
}

func (c *serverStream) Send(b []byte) error {
	if len(b) > c.t.o.MaxFrameBytes {
		return &StatusError{Code: CodeTooLarge, Message: "transport: the message is too large"}
	}
	if err := c.t.stillFits(&c.peer); err != nil {
		return err
	}
	if err := c.s.SendMsg(&frame{kind: kindData, at: c.t.reading(), payload: b}); err != nil {
		return &UnreachableError{Node: c.from, Sent: true, Err: err}
	}
	c.t.stats.framesSent.Add(1)
	c.t.stats.bytesSent.Add(int64(len(b)))
	return nil
}

func (c *serverStream) Recv() ([]byte, error) {
	var f frame
	if err := c.s.RecvMsg(&f); err != nil {
		if err == io.EOF {
			return nil, io.EOF
		}
		return nil, &UnreachableError{Node: c.from, Sent: true, Err: err}
	}
	if err := c.t.stillFits(&c.peer); err != nil {
		return nil, err
	}
	if err := c.t.received(&f, c.from); err != nil {
		return nil, err
	}
	if f.kind != kindData {
		return nil, errFrame
	}
	return f.payload, nil
}

func (c *serverStream) CloseSend() error { return nil }

// localWindow is how many messages a stream of a node to itself holds.
const localWindow = 64

// localStream is one end of a stream within the node.
type localStream struct {
	ctx  context.Context
	out  chan<- []byte
	in   <-chan []byte
	once *sync.Once // closes out
	end  *localEnd
}

// localEnd is how the handler ended.
type localEnd struct {
	done chan struct{}
	err  error // set before done is closed
}

func (t *Transport) openLocal(ctx context.Context, name string) (Stream, error) {
	m := (*t.methods.Load())[name]
	if m == nil || m.stream == nil {
		return nil, noMethod(name)
	}
	there, back := make(chan []byte, localWindow), make(chan []byte, localWindow)
	end := &localEnd{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.group.Context(), cancel)
	ours := &localStream{ctx: ctx, out: there, in: back, once: new(sync.Once), end: end}
	theirs := &localStream{ctx: ctx, out: back, in: there, once: new(sync.Once)}
	if !t.group.Go(func(context.Context) {
		defer stop()
		defer cancel()
		end.err = t.guard(name, func() error { return m.stream(ctx, t.o.NodeID(), theirs) })
		close(end.done)
	}) {
		cancel()
		return nil, &UnreachableError{Node: t.o.NodeID(), Err: errClosed}
	}
	t.stats.streams.Add(1)
	return ours, nil
}

func (s *localStream) ended() <-chan struct{} {
	if s.end == nil {
		return nil
	}
	return s.end.done
}

func (s *localStream) result() error {
	if s.end.err != nil {
		return s.end.err
	}
	return io.EOF
}

func (s *localStream) Send(b []byte) (err error) {
	select {
	case <-s.ended():
		return s.result()
	default:
	}
	select {
	case s.out <- b:
		return nil
	case <-s.ended():
		return s.result()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *localStream) Recv() ([]byte, error) {
	select {
	case b, ok := <-s.in:
		if !ok {
			return nil, io.EOF
		}
		return b, nil
	default:
	}
	select {
	case b, ok := <-s.in:
		if !ok {
			return nil, io.EOF
		}
		return b, nil
	case <-s.ended():
		// Messages that the handler sent before it returned come first.
		select {
		case b := <-s.in:
			return b, nil
		default:
			return nil, s.result()
		}
	case <-s.ctx.Done():
		select {
		case <-s.ended():
			return nil, s.result()
		default:
			return nil, s.ctx.Err()
		}
	}
}

func (s *localStream) CloseSend() error {
	if s.end != nil {
		s.once.Do(func() { close(s.out) })
	}
	return nil
}
