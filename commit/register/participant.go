package register

import (
	"context"
	"fmt"
	"sync"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// participant is the driver of acceptors at one replica of a range: it carries out their effects, and makes another one for each
// generation.
type participant struct {
	g      *rangeserver.Range
	closed chan struct{}

	mu  sync.Mutex // guards the fields below; nothing is taken after it
	now *acting    // nil: to be made from what is durable
	err error      // of Close
}

// acting is an acceptor of one generation.
type acting struct {
	generation uint64

	mu       sync.Mutex // guards the fields below; the engine is read and written under it, and nobody waits for a sync
	acceptor *Acceptor
	call     uint64
	calls    map[uint64]chan *Reply
	durable  core.Ticket
	synced   chan struct{} // closed, and made anew, when durable grows
}

func newParticipant(g *rangeserver.Range) rangeserver.Participant {
	return &participant{g: g, closed: make(chan struct{})}
}

// Send serves one request of an operation.
func (p *participant) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if len(b.Requests) != 1 {
		return nil, &kv.InternalError{Message: fmt.Sprintf("register: a batch of %d requests", len(b.Requests))}
	}
	r, ok := b.Requests[0].(*kv.ProtocolRequest)
	if !ok {
		return nil, &kv.InternalError{Message: fmt.Sprintf("register: %T is not served by ranges of this protocol", b.Requests[0])}
	}
	q, err := DecodeRequest(r.Body)
	if err != nil {
		return nil, &kv.InternalError{Message: err.Error()}
	}
	if !q.Key.Equal(r.Key) || q.Kind < Query || q.Kind > Resolve {
		return nil, &kv.InternalError{Message: "register: malformed request"}
	}
	a, err := p.acting(b.Generation)
	if err != nil {
		return nil, err
	}
	reply, err := p.step(ctx, a, &q)
	if err != nil {
		return nil, err
	}
	reply.Floor = p.g.Generation().Floor
	return &kv.BatchResponse{Responses: []kv.Response{&kv.ProtocolResponse{Body: reply.Append(nil)}}}, nil
}

// acting is the acceptor of a generation, which the replica acts in.
func (p *participant) acting(generation uint64) (*acting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	if p.now != nil && p.now.generation == generation {
		return p.now, nil
	}
	delta, err := p.delta(generation)
	if err != nil {
		return nil, err
	}
	a := &acting{generation: generation, acceptor: NewAcceptor(generation, p.g.Generation().Floor, delta), calls: map[uint64]chan *Reply{}, synced: make(chan struct{})}
	if len(delta) > 0 {
		// The state in the engine may not be durable, if this replica has had an acceptor of the generation before. It is when this is.
		a.acceptor.last = 1
		if err := p.write(a, delta[:1], func() { a.sync(1, nil) }); err != nil {
			return nil, err
		}
	}
	p.now = a
	return a, nil
}

// delta is what the replica has written in a generation.
func (p *participant) delta(generation uint64) (out []Entry, err error) {
	span := p.g.DeltaSpan(generation)
	it, err := p.g.Engine().NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		e := Entry{Key: append(keys.Key(nil), k[len(span.Start):]...)}
		if err := decodeRegister(v, &e.Register); err != nil {
			return nil, fmt.Errorf("register: the delta of %s: %w", keys.Masked(e.Key), err)
		}
		out = append(out, e)
	}
	return out, it.Error()
}

// sideName is the name of the protocol key next to a row that has a register's decrees.
const sideName = "register"

func sideKey(k keys.Key) keys.Key { return keys.ProtocolKey(k, []byte(sideName)) }

// besides are the registers of a range that have such a key.
func besides(src engine.Reader, d *kv.RangeDescriptor) (out []Entry, err error) {
	span := keys.RangeLocalSpan(d.Start, d.End)
	it, err := src.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		addr, name, err := keys.DecodeProtocolKey(k)
		if err != nil || string(name) != sideName {
			continue
		}
		e := Entry{Key: append(keys.Key(nil), addr...)}
		if e.Register, err = Base(src, e.Key); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, it.Error()
}

// Base reads a register from the range's replicated data.
func Base(src engine.Reader, k keys.Key) (g Register, err error) {
	side, err := src.Get(sideKey(k))
	if err != nil {
		return g, err
	}
	if side != nil {
		if err := decodeRegister(side, &g); err != nil {
			return g, fmt.Errorf("register: protocol key of %s: %w", k, err)
		}
	}
	r := mvcc.NewReader(src)
	defer r.Close()
	v, _, err := r.Newest(k)
	if err == nil && v != nil && g.Newest.At.Less(v.Timestamp) {
		g.Newest = Version{At: v.Timestamp, Value: v.Value}
	}
	return g, err
}

// step shows a request to the acceptor and waits for its reply.
func (p *participant) step(ctx context.Context, a *acting, q *Request) (*Reply, error) {
	replied := make(chan *Reply, 1)
	if err := p.begin(a, q, replied); err != nil {
		return nil, err
	}
	for {
		a.mu.Lock()
		a.acceptor.Durable(a.durable)
		a.deliver(a.acceptor.Effects().Send)
		synced := a.synced
		a.mu.Unlock()
		select {
		case r := <-replied:
			return r, nil
		default:
		}
		select {
		case r := <-replied:
			return r, nil
		case <-synced:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.closed:
			return nil, p.err
		}
	}
}

func (p *participant) begin(a *acting, q *Request, replied chan *Reply) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.acceptor.Knows(q.Key) {
		g, err := Base(p.g.Engine(), q.Key)
		if err != nil {
			return err
		}
		a.acceptor.Load(q.Key, g)
	}
	a.call++
	a.calls[a.call] = replied
	a.acceptor.Step(clock.Timestamp{}, Message{Call: a.call, Request: q})
	fx := a.acceptor.Effects()
	a.deliver(fx.Send)
	if fx.Ticket == 0 {
		return nil
	}
	err := p.write(a, fx.Persist, func() { a.sync(fx.Ticket, fx.After) })
	if err != nil {
		// The acceptor has what the engine has not, or may not have; it is not asked any more.
		p.mu.Lock()
		if p.now == a {
			p.now = nil
		}
		p.mu.Unlock()
	}
	return err
}

// write puts registers into the delta, in the order of calls.
func (p *participant) write(a *acting, entries []Entry, then func()) error {
	return p.g.WriteThen(a.generation, func(d *rangeserver.Delta) {
		for i := range entries {
			d.Put(entries[i].Key, appendRegister(nil, &entries[i].Register))
		}
	}, then)
}

// sync says that the Persist of a ticket is durable. The store's syncer calls it; tickets may come out of order, but what is durable is a
// prefix of what was written.
func (a *acting) sync(t core.Ticket, after []Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deliver(after)
	if a.durable < t {
		a.durable = t
		close(a.synced)
		a.synced = make(chan struct{})
	}
}

func (a *acting) deliver(replies []Message) {
	for _, m := range replies {
		a.calls[m.Call] <- m.Reply
		delete(a.calls, m.Call)
	}
}

// Receive gets nothing: replicas of this protocol do not talk to each other.
func (p *participant) Receive(kv.ReplicaDescriptor, []byte) {}

// Sealed needs no part of ours: nothing is promised that Range.WriteThen did not take.
func (p *participant) Sealed(uint64) {}

// Report gives the delta (register.RG3).
func (p *participant) Report(_ context.Context, generation uint64, send func([]byte) error) (served clock.Timestamp, err error) {
	delta, err := p.delta(generation)
	if err != nil {
		return served, err
	}
	for i := range delta {
		if err := send(delta[i].Append(nil)); err != nil {
			return served, err
		}
		served = served.Forward(delta[i].Register.last(Instance{}))
	}
	return served, nil
}

// Opened forgets the acceptor: what is loaded next is of the new generation, or on the new base.
func (p *participant) Opened(*kv.RangeDescriptor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = nil
}

// Close ends all requests.
func (p *participant) Close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.closed)
	}
}
