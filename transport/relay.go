package transport

import (
	"context"
	"errors"
	"fmt"
	"io"

	"meridian/invariant"
	"meridian/kv"
	"meridian/wire"
)

// Calls and streams that take a path (path.go), because the link to their node is missing.

const (
	// methodRelay carries one call along a path, methodRelayStream a stream, whose first message says where to.
	methodRelay       = "transport.relay"
	methodRelayStream = "transport.relaystream"
	// relayRoom is what a relayed message adds to what it carries, at most.
	relayRoom = 600
)

// relay makes a call along a path.
func (t *Transport) relay(ctx context.Context, p *peer, path []kv.NodeID, name string, req []byte) ([]byte, error) {
	t.stats.relayed.Add(1)
	w := waybill{origin: t.o.NodeID(), class: p.key.class, name: name, req: req, hops: append(append(make([]kv.NodeID, 0, len(path)), path[1:]...), p.key.node)}
	msg := wire.Append(make([]byte, 0, len(req)+len(name)+5*len(path)+24), &w, (*waybill).fields)
	reply, err := t.direct(ctx, t.peer(peerKey{node: path[0], class: p.key.class}), methodRelay, msg)
	if err != nil {
		if e := ctx.Err(); e != nil {
			return nil, e
		}
		sent, why := brokenHop(path[0], err)
		t.detour(p.key.node).failed(path)
		return nil, p.unreachable(sent, why)
	}
	a, err := wire.Decoded(reply, (*relayed).fields)
	if err != nil {
		return nil, p.unreachable(true, err)
	}
	switch a.how {
	case relayedReply:
		return a.body, nil
	case relayedError:
		return nil, t.unstatus(a.body, p.key.node, "")
	default:
		t.detour(p.key.node).failed(path)
		return nil, p.unreachable(a.how != relayedUnsent, errors.New(string(a.body)))
	}
}

// brokenHop says what the failure of a call to a node on the path means for what was to be relayed. The reason is text: what a node on the way says of its clock
// or its binary is not said by the node at the end of the path (transport.T8).
func brokenHop(hop kv.NodeID, err error) (sent bool, why error) {
	var (
		unreachable *UnreachableError
		overloaded  *OverloadedError
		status      *StatusError
	)
	sent = true
	switch {
	case errors.As(err, &unreachable):
		sent = unreachable.Sent
	case errors.As(err, &overloaded):
		sent = false
	case errors.As(err, &status):
		sent = status.Code != CodeNoMethod && status.Code != CodeTooLarge
	}
	return sent, fmt.Errorf("by way of n%d: %v", hop, err)
}

// serveRelay takes a call one node further, or to its handler.
func (t *Transport) serveRelay(ctx context.Context, _ kv.NodeID, msg []byte) ([]byte, error) {
	w, err := decodeWaybill(msg)
	if err != nil {
		return nil, err
	}
	answer := func(how relayedHow, body []byte) []byte {
		return wire.Append(make([]byte, 0, len(body)+8), &relayed{how, body}, (*relayed).fields)
	}
	fails := func(err error) []byte {
		return answer(relayedError, wire.Append(nil, t.status(err, w.origin), (*StatusError).fields))
	}
	broken := func(how relayedHow, why string) []byte { return answer(how, []byte(why)) }
	if len(w.hops) == 0 {
		m := (*t.methods.Load())[w.name]
		if m == nil || m.call == nil || m.carrier {
			return fails(noMethod(w.name)), nil
		}
		reply, err := m.call(ctx, w.origin, w.req)
		if err == nil && len(reply) > t.o.MaxFrameBytes {
			err = &StatusError{Code: CodeTooLarge, Message: "transport: the reply of " + w.name + " is too large"}
		}
		if err != nil {
			return fails(err), nil
		}
		return answer(relayedReply, reply), nil
	}
	defer t.relaying.Add(-1)
	if t.relaying.Add(1) > int64(t.o.MaxInflight/relayShare) {
		return broken(relayedUnsent, "a node on the way is overloaded"), nil
	}
	t.stats.forwarded.Add(1)
	hop := w.hops[0]
	w.hops = w.hops[1:]
	next := wire.Append(make([]byte, 0, len(msg)), &w, (*waybill).fields)
	p, l := t.established(hop, w.class)
	if l == nil {
		return broken(relayedUnsent, fmt.Sprintf("n%d has no link to n%d", t.o.NodeID(), hop)), nil
	}
	reply, err := t.callLink(ctx, p, l, methodRelay, next)
	if err == nil {
		return reply, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the caller has given up, or this node stops
	}
	sent, why := brokenHop(hop, err)
	how := relayedUnsent
	if sent {
		how = relayedLost
	}
	return broken(how, why.Error()), nil
}

// established is a link to a node that is up, if possible of a class. A relayed message does not wait for a link: the node may have
// died, and its caller has other nodes to ask.
func (t *Transport) established(node kv.NodeID, class Class) (*peer, *link) {
	for _, c := range [...]Class{class, ClassSystem, ClassDefault, ClassBulk} {
		p := t.peer(peerKey{node: node, class: c})
		if l := p.up.Load(); l != nil {
			return p, l
		}
		if c == class {
			p.begin() // for those that follow
		}
	}
	return nil, nil
}

// relayShare is the part of MaxInflight, one in so many, that calls for other nodes may take.
const relayShare = 4

// openRelayed opens a stream along a path. Unless it is of ClassBulk, it ends when the link is back, so that its user opens
// one that takes no detour.
func (t *Transport) openRelayed(ctx context.Context, p *peer, path []kv.NodeID, name string) (Stream, error) {
	inner, cancel := context.WithCancelCause(ctx)
	s, err := t.openDirect(inner, t.peer(peerKey{node: path[0], class: p.key.class}), methodRelayStream)
	if err == nil {
		w := waybill{origin: t.o.NodeID(), class: p.key.class, name: name, hops: append(append(make([]kv.NodeID, 0, len(path)), path[1:]...), p.key.node)}
		err = s.Send(wire.Append(nil, &w, (*waybill).fields))
	}
	if err != nil {
		cancel(err)
		if e := ctx.Err(); e != nil {
			return nil, e
		}
		t.detour(p.key.node).failed(path)
		sent, why := brokenHop(path[0], err)
		return nil, p.unreachable(sent, why)
	}
	t.stats.relayed.Add(1)
	r := &relayedStream{Stream: s, p: p, path: path, outer: ctx, inner: inner, cancel: cancel}
	if p.key.class != ClassBulk {
		p.mu.Lock()
		if p.relayed == nil {
			p.relayed = make(map[*relayedStream]struct{})
		}
		p.relayed[r] = struct{}{}
		p.mu.Unlock()
		if p.up.Load() != nil {
			cancel(errLinkBack)
		}
	}
	context.AfterFunc(inner, func() {
		p.mu.Lock()
		delete(p.relayed, r)
		p.mu.Unlock()
	})
	return r, nil
}

var errLinkBack = errors.New("its link is back")

// relayedStream is the opener's end of a stream along a path.
type relayedStream struct {
	Stream
	p            *peer
	path         []kv.NodeID
	outer, inner context.Context
	cancel       context.CancelCauseFunc // of inner
}

func (s *relayedStream) Send(b []byte) error { return s.reason(s.Stream.Send(b)) }

func (s *relayedStream) Recv() ([]byte, error) {
	b, err := s.Stream.Recv()
	return b, s.reason(err)
}

// reason is the error as a stream without a detour would have it. Only what the handler says passes the nodes on the way as it is (transport.T8).
func (s *relayedStream) reason(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if e := s.outer.Err(); e != nil {
		return e
	}
	if cause := context.Cause(s.inner); cause != nil {
		return s.p.unreachable(true, cause)
	}
	var unreachable *UnreachableError
	var status *StatusError
	if !errors.As(err, &unreachable) && errors.As(err, &status) && status.Code != codePathBroken {
		return err
	}
	s.p.t.detour(s.p.key.node).failed(s.path)
	_, why := brokenHop(s.path[0], err)
	return s.p.unreachable(true, why)
}

// serveRelayStream takes a stream one node further, or to its handler.
func (t *Transport) serveRelayStream(ctx context.Context, _ kv.NodeID, s Stream) error {
	head, err := s.Recv()
	if err != nil {
		return err
	}
	w, err := decodeWaybill(head)
	if err != nil {
		return err
	}
	if len(w.hops) == 0 {
		m := (*t.methods.Load())[w.name]
		if m == nil || m.stream == nil || m.carrier {
			return noMethod(w.name)
		}
		return m.stream(ctx, w.origin, s)
	}
	t.stats.forwarded.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hop := w.hops[0]
	w.hops = w.hops[1:]
	broken := func(err error) error {
		return &StatusError{Code: codePathBroken, Message: fmt.Sprintf("by way of n%d: %v", hop, err)}
	}
	out, err := t.openDirect(ctx, t.peer(peerKey{node: hop, class: w.class}), methodRelayStream)
	if err != nil {
		return broken(err)
	}
	if err := out.Send(wire.Append(nil, &w, (*waybill).fields)); err != nil {
		return broken(err)
	}
	ended := make(chan error, 2)
	t.group.Go(func(context.Context) {
		for {
			b, err := s.Recv()
			if err == io.EOF {
				err = out.CloseSend()
				if err == nil {
					return // the handler's end will be told
				}
			}
			if err == nil {
				err = out.Send(b)
			}
			if err != nil {
				if err != io.EOF { // else the other loop hears why
					ended <- err
				}
				return
			}
		}
	})
	t.group.Go(func(context.Context) {
		for {
			b, err := out.Recv()
			if err == nil {
				err = s.Send(b)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	})
	select {
	case err = <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	var unreachable *UnreachableError
	var status *StatusError
	switch {
	case err == io.EOF:
		return nil
	case !errors.As(err, &unreachable) && errors.As(err, &status): // the handler's, or another node's on the way
		return err
	}
	return broken(err)
}

func (t *Transport) registerRelays() {
	for _, m := range []*method{
		{name: methodPath, call: t.servePath},
		{name: methodRelay, call: t.serveRelay, carrier: true},
		{name: methodRelayStream, stream: t.serveRelayStream, carrier: true},
	} {
		invariant.Check(len(m.name) < 256, "method name %q", m.name)
		t.register(m)
	}
}

// room is what the replies of a method may exceed MaxFrameBytes by: a relayed reply is a message around what it carries.
func (m *method) room() int {
	if m.carrier {
		return relayRoom
	}
	return 0
}
