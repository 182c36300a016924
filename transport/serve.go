package transport

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	gpeer "google.golang.org/grpc/peer"

	"meridian/kv"
	"meridian/wire"
)

// served is a link from the answering side.
type served struct {
	t     *Transport
	ctx   context.Context
	peer  peerSaid
	from  kv.NodeID
	admin bool // the peer is an administrator, not a node
	sender

	acked atomic.Int64 // how often the peer has said that no call follows (transport.T9)

	mu      sync.Mutex // guards cancels; nothing is taken after it
	cancels map[uint64]context.CancelFunc
}

// job is one call for a worker.
type job struct {
	s      *served
	ctx    context.Context
	cancel context.CancelFunc
	id     uint64
	m      *method
	req    []byte
}

// maxIdleWorkers bounds the goroutines kept for the next call; a fresh one has to grow its stack.
const maxIdleWorkers = 64

// warnEvery bounds how often the log says that a node is refused for its version, as it comes again and again.
const warnEvery = 10 * time.Second

// sourceOf is the address from which a stream comes.
func sourceOf(ctx context.Context) string {
	if p, ok := gpeer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// serveStream is the handler of every gRPC stream.
func (t *Transport) serveStream(_ any, s grpc.ServerStream) error {
	if !t.enter() {
		return errClosed
	}
	name, _ := grpc.Method(s.Context())
	var f frame
	if err := s.RecvMsg(&f); err != nil {
		return err
	}
	h, from, admin, refusal := t.greet(s.Context(), &f)
	switch {
	case refusal != nil:
		t.stats.refusals.Add(1)
		// The refusal is the answer; the end of the stream follows it.
		return s.SendMsg(&frame{kind: kindError, at: t.reading(), payload: wire.Append(nil, refusal, (*StatusError).fields)})
	case name == linkMethod && f.kind == kindHello:
		return t.serveLink(s, h, from, admin)
	case name == streamMethod && f.kind == kindOpen:
		return t.serveOpen(s, &f, h, from, admin)
	}
	return errFrame
}

func (t *Transport) enter() bool { return t.group.Context().Err() == nil }

// greet checks the first frame of a stream.
func (t *Transport) greet(ctx context.Context, f *frame) (h hello, from kv.NodeID, admin bool, refusal *StatusError) {
	h, err := decodeHello(f.payload)
	if err != nil {
		return h, 0, false, &StatusError{Code: codeRefused, Message: err.Error()}
	}
	if name, ok := t.peerName(ctx); ok && name != t.o.NodeName {
		if !t.isAdmin(name) {
			return h, 0, false, &StatusError{Code: codeRefused, Message: "transport: " + name + " is not a node"}
		}
		admin, h.node = true, 0
	}
	if err := t.checkHello(h, ""); err != nil {
		ours := t.o.ClusterID()
		return h, 0, false, &StatusError{Code: codeCluster, Message: err.Error(), Detail: ours[:]}
	}
	if err := t.checkVersion(h, sourceOf(ctx)); err != nil {
		now := t.o.Host.Clock.Monotonic()
		if last := t.warned.Load(); (last == 0 || now-time.Duration(last) >= warnEvery) && t.warned.CompareAndSwap(last, int64(now)) {
			t.o.Host.Log.Warn("a node was refused", "node", h.node, "error", err)
		}
		return h, 0, false, t.status(err, h.node)
	}
	if err := t.observe(f.at, h.node); err != nil {
		return h, 0, false, t.status(err, h.node)
	}
	return h, h.node, admin, nil
}

func (t *Transport) serveLink(stream grpc.ServerStream, h hello, from kv.NodeID, admin bool) error {
	s := &served{
		t: t, ctx: stream.Context(), peer: peerSaid{from, sourceOf(stream.Context()), h.said}, from: from, admin: admin,
		sender: newSender(t, stream), cancels: make(map[uint64]context.CancelFunc),
	}
	us := t.hello(h.class)
	if _, err := s.send(s.ctx, nil, &frame{kind: kindHello, payload: wire.Append(nil, &us, (*hello).fields)}); err != nil {
		return err
	}
	t.heardFrom(from)
	t.mu.Lock()
	t.serving[s] = struct{}{}
	leaves := t.leaving
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.serving, s)
		t.mu.Unlock()
	}()
	if leaves {
		s.later(&frame{kind: kindPong, id: leaveID})
	}
	for {
		var f frame
		if err := stream.RecvMsg(&f); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		t.stats.framesReceived.Add(1)
		t.stats.bytesReceived.Add(int64(len(f.payload)))
		if err := t.stillFits(&s.peer); err != nil {
			t.stats.refusals.Add(1)
			_, err = s.send(s.ctx, nil, &frame{kind: kindError, payload: wire.Append(nil, t.status(err, from), (*StatusError).fields)})
			return err
		}
		clockErr := t.observe(f.at, from)
		switch f.kind {
		case kindCall:
			if clockErr != nil {
				s.answer(f.id, t.status(clockErr, from))
				continue
			}
			s.dispatch(&f)
		case kindCancel:
			if f.id == leaveID {
				s.acked.Add(1)
				continue
			}
			s.mu.Lock()
			cancel := s.cancels[f.id]
			s.mu.Unlock()
			if cancel != nil {
				cancel()
			}
		case kindPing:
			s.later(&frame{kind: kindPong, id: f.id})
		default:
			return errFrame
		}
	}
}

// later sends without making the receiver wait.
func (s *served) later(f *frame) {
	if !s.trySend(f) {
		s.t.group.Go(func(context.Context) { s.send(s.ctx, nil, f) })
	}
}

func (s *served) answer(id uint64, e *StatusError) {
	s.later(&frame{kind: kindError, id: id, payload: wire.Append(nil, e, (*StatusError).fields)})
}

// dispatch hands a call to an idle worker, or to a new one.
func (s *served) dispatch(f *frame) {
	t := s.t
	m := (*t.methods.Load())[string(f.got)]
	if m == nil || m.call == nil || s.admin && !m.admin {
		s.answer(f.id, t.status(noMethod(string(f.got)), s.from))
		return
	}
	if t.inflight.Add(1) > int64(t.o.MaxInflight) {
		t.inflight.Add(-1)
		t.stats.overloaded.Add(1)
		s.answer(f.id, &StatusError{Code: codeOverloaded})
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.mu.Lock()
	s.cancels[f.id] = cancel
	s.mu.Unlock()
	j := job{s: s, ctx: ctx, cancel: cancel, id: f.id, m: m, req: f.payload}
	select {
	case t.jobs <- j:
	default:
		if !t.group.Go(func(ctx context.Context) { t.work(ctx, j) }) {
			j.finish()
		}
	}
}

// work runs calls until too many workers are idle.
func (t *Transport) work(ctx context.Context, j job) {
	for {
		j.run()
		if t.idle.Add(1) > maxIdleWorkers {
			t.idle.Add(-1)
			return
		}
		select {
		case j = <-t.jobs:
			t.idle.Add(-1)
		case <-ctx.Done():
			t.idle.Add(-1)
			return
		}
	}
}

func (j *job) finish() {
	j.cancel()
	j.s.mu.Lock()
	delete(j.s.cancels, j.id)
	j.s.mu.Unlock()
	j.s.t.inflight.Add(-1)
}

func (j *job) run() {
	defer j.finish()
	t := j.s.t
	var reply []byte
	err := t.guard(j.m.name, func() (err error) {
		reply, err = j.m.call(j.ctx, j.s.from, j.req)
		return err
	})
	t.stats.served.Add(1)
	f := &frame{kind: kindReply, id: j.id, payload: reply}
	if err == nil && len(reply) > t.o.MaxFrameBytes+j.m.room() {
		err = &StatusError{Code: CodeTooLarge, Message: "transport: the reply of " + j.m.name + " is too large"}
	}
	if err != nil {
		f.kind, f.payload = kindError, wire.Append(nil, t.status(err, j.s.from), (*StatusError).fields)
	}
	// The context of the link, not of the call: a caller that gave up drops the answer by itself.
	j.s.send(j.s.ctx, nil, f)
}
