// Package acceptor drives the cores of protocols whose replicas answer requests by what they have promised: it carries out their effects at one
// replica of a range, and makes another core for each generation (docs/decisions/0009).
//
//	Send --- request ---> core --- Persist ---> the range's delta, durable by the store's shared sync
//	     <-- reply ------      <-- Durable ---
//
// A reply leaves when all is durable that its core had promised by then; the core sees to that (core.K2).
package acceptor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// Base is a range's replicated data while a core takes requests in.
type Base struct {
	engine.Reader
	rows *mvcc.Reader
}

// Rows reads rows of it. The range has no locks: its protocol is not the leader's.
func (b *Base) Rows() *mvcc.Reader {
	if b.rows == nil {
		b.rows = mvcc.NewReader(b.Reader)
	}
	return b.rows
}

func (b *Base) close() {
	if b.rows != nil {
		_ = b.rows.Close()
	}
}

// Core answers requests about the rows of a range, each by its key. It may be given several before its effects are drained: what these persist is written in one
// batch, and as it is then. A request is valid during its step, and an effect until the next one.
type Core[Q, R, W any] interface {
	core.Core[core.Call[Q, R], W, struct{}]
	// Knows reports whether the core has the state of a row. If not, it is loaded before the first request.
	Knows(k keys.Key) bool
}

// Protocol is what is particular to a protocol. Q is its request, R its reply, W what a core makes durable about one row.
type Protocol[C Core[Q, R, W], Q, R, W any] struct {
	Name string
	// New makes the core of a generation that has made delta durable before, and has promised tickets up to last.
	New func(g *rangeserver.Range, generation uint64, delta []W, last core.Ticket) C
	// Load gives a core the state of a row that the range's base has.
	Load func(c C, base *Base, k keys.Key) error
	// Read answers a request that promises nothing, from the core and the range's base, nil if the request is another one. It may be nil.
	Read func(g *rangeserver.Range, generation uint64, base *Base, c C, q *Q) (*R, error)

	Decode func([]byte) (Q, error)
	Key    func(*Q) keys.Key
	Append func([]byte, *R) []byte
	// Store puts a durable state into the delta; Stored reads a whole delta, in order of names.
	Store  func(*rangeserver.Delta, *W)
	Stored func(entries iter.Seq2[[]byte, []byte]) ([]W, error)
	// Pieces gives a durable state to a report; Last is the latest timestamp in it that may be ahead of the clock.
	Pieces func(w *W, send func([]byte) error) error
	Last   func(*W) clock.Timestamp
	// Size is about how many bytes the delta has; nil: as many as were written.
	Size func(c C) int64
	// Ended is given the core of a generation, when the replica does not act in that any more and nobody uses the core. It may be nil.
	Ended func(g *rangeserver.Range, generation uint64, c C)
	// Tend, Final and Absorbed are a core's part of rangeserver.Absorber. They may be nil.
	Tend     func(g *rangeserver.Range, c C) error
	Final    func(c C, bytes int) []replica.Row
	Absorbed func(c C, rows []replica.Row)
}

// Participant is a protocol's part at one replica of a range.
type Participant[C Core[Q, R, W], Q, R, W any] struct {
	p      *Protocol[C, Q, R, W]
	g      *rangeserver.Range
	closed chan struct{}

	requests sync.Pool // of *[]Q, of calls that are over

	mu  sync.Mutex          // guards the fields below; nothing is taken after it
	now *acting[C, Q, R, W] // nil: to be made from what is durable
	err error               // of Close
}

// acting is a core of one generation.
type acting[C Core[Q, R, W], Q, R, W any] struct {
	generation uint64

	mu      sync.Mutex // guards the fields below, and groups; the engine is read and written under it, and nobody waits for a sync
	core    C
	call    uint64
	calls   map[uint64]place[R]
	durable core.Ticket
	ended   bool // the core takes in no more requests
}

// New makes a replica's participant.
func New[C Core[Q, R, W], Q, R, W any](p *Protocol[C, Q, R, W], g *rangeserver.Range) *Participant[C, Q, R, W] {
	return &Participant[C, Q, R, W]{p: p, g: g, closed: make(chan struct{})}
}

// replyBytes is about what a reply without rows has, rowBytes what one with a row has.
const replyBytes, rowBytes = 24, 192

// group is requests that are answered together.
type group[R any] struct {
	replies []*R
	left    int           // that have no reply; guarded by the core's lock
	done    chan struct{} // closed when there is none
}

// place is one of a group.
type place[R any] struct {
	g *group[R]
	i int
}

func (p place[R]) put(r *R) {
	p.g.replies[p.i] = r
	if p.g.left--; p.g.left == 0 {
		close(p.g.done)
	}
}

// Send serves the requests of a batch, and answers when what the answers to all of them promise is durable: one sync has them all.
func (p *Participant[C, Q, R, W]) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	wait, err := p.Start(b)
	if err != nil {
		return nil, err
	}
	return wait(ctx)
}

// Start implements rangeserver.Starter: Send without the wait.
func (p *Participant[C, Q, R, W]) Start(b *kv.Batch) (wait func(context.Context) (*kv.BatchResponse, error), err error) {
	spare, _ := p.requests.Get().(*[]Q)
	if spare == nil {
		spare = new([]Q)
	}
	qs := slices.Grow((*spare)[:0], len(b.Requests))[:len(b.Requests)]
	defer func() {
		clear(qs)
		*spare = qs
		p.requests.Put(spare)
	}()
	reads := false
	for i, one := range b.Requests {
		r, ok := one.(*kv.ProtocolRequest)
		if !ok {
			return nil, &kv.InternalError{Message: fmt.Sprintf("%s: %T is not served by ranges of this protocol", p.p.Name, one)}
		}
		if qs[i], err = p.p.Decode(r.Body); err != nil {
			return nil, &kv.InternalError{Message: err.Error()}
		}
		if !p.p.Key(&qs[i]).Equal(r.Key) {
			return nil, &kv.InternalError{Message: p.p.Name + ": malformed request"}
		}
		reads = reads || r.Reads
	}
	a, err := p.acting(b.Generation)
	if err != nil {
		return nil, err
	}
	g := &group[R]{replies: make([]*R, len(qs)), left: len(qs), done: make(chan struct{})}
	if err := p.begin(a, qs, g, reads); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*kv.BatchResponse, error) {
		select {
		case <-g.done:
		default:
			select {
			case <-g.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-p.closed:
				return nil, p.err
			}
		}
		out := &kv.BatchResponse{Responses: make([]kv.Response, len(g.replies))}
		room := replyBytes
		if reads {
			room = rowBytes
		}
		rs, bodies := make([]kv.ProtocolResponse, len(g.replies)), make([]byte, 0, room*len(g.replies))
		for i, r := range g.replies {
			at := len(bodies)
			bodies = p.p.Append(bodies, r)
			rs[i].Body = bodies[at:len(bodies):len(bodies)]
			out.Responses[i] = &rs[i]
		}
		return out, nil
	}, nil
}

// acting is the core of a generation, which the replica acts in.
func (p *Participant[C, Q, R, W]) acting(generation uint64) (*acting[C, Q, R, W], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	if p.now != nil && p.now.generation == generation {
		return p.now, nil
	}
	delta, first, err := p.delta(generation)
	if err != nil {
		return nil, err
	}
	a := &acting[C, Q, R, W]{generation: generation, calls: map[uint64]place[R]{}}
	if first.name == nil {
		a.core = p.p.New(p.g, generation, nil, 0)
	} else {
		// The state in the engine may not be durable, if this replica has had a core of the generation before. It is when this is.
		a.core = p.p.New(p.g, generation, delta, 1)
		again := func(d *rangeserver.Delta) { d.Put(first.name, first.value) }
		if err := p.g.WriteThen(generation, again, func() { a.sync(1, nil) }); err != nil {
			return nil, err
		}
	}
	p.now = a
	return a, nil
}

// entry is a key of a delta.
type entry struct{ name, value []byte }

// delta is what the replica has written in a generation, and the first key of it.
func (p *Participant[C, Q, R, W]) delta(generation uint64) (out []W, first entry, err error) {
	span := p.g.DeltaSpan(generation)
	it, err := p.g.Engine().NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return nil, first, err
	}
	defer it.Close()
	var failed error
	out, err = p.p.Stored(func(yield func(name, value []byte) bool) {
		for ok := it.First(); ok; ok = it.Next() {
			k, _ := it.Key()
			var v []byte
			if v, failed = it.Value(); failed != nil {
				return
			}
			if k = k[len(span.Start):]; first.name == nil {
				first = entry{append([]byte{}, k...), append([]byte{}, v...)}
			}
			if !yield(k, v) {
				return
			}
		}
	})
	if err != nil {
		return nil, first, fmt.Errorf("%s: %w", p.p.Name, err)
	}
	if failed == nil {
		failed = it.Error()
	}
	return out, first, failed
}

// begin has the core take in requests. Their changes are one batch of the store's.
func (p *Participant[C, Q, R, W]) begin(a *acting[C, Q, R, W], qs []Q, g *group[R], reads bool) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return &kv.GenerationError{Range: p.g.Desc().ID, Desc: p.g.Desc(), Sealed: true}
	}
	if len(qs) == 0 {
		close(g.done)
	}
	base := Base{Reader: p.g.Engine()}
	for i := range qs {
		if err = p.step(a, &base, &qs[i], place[R]{g, i}); err != nil {
			break
		}
	}
	base.close()
	// Those before one that failed have been carried out.
	fx := a.core.Effects()
	a.deliver(fx.Send)
	if failed := p.write(a, &fx, reads); failed != nil {
		return failed
	}
	return err
}

func (p *Participant[C, Q, R, W]) step(a *acting[C, Q, R, W], base *Base, q *Q, to place[R]) error {
	if p.p.Read != nil {
		if r, err := p.p.Read(p.g, a.generation, base, a.core, q); err != nil {
			return err
		} else if r != nil {
			to.put(r)
			return nil
		}
	}
	if k := p.p.Key(q); !a.core.Knows(k) {
		if err := p.p.Load(a.core, base, k); err != nil {
			return err
		}
	}
	a.call++
	a.calls[a.call] = to
	a.core.Step(clock.Timestamp{}, core.Call[Q, R]{ID: a.call, Request: q})
	return nil
}

// write puts states into the delta, in the order of calls. A state without a ticket is durable with the next one that has one.
func (p *Participant[C, Q, R, W]) write(a *acting[C, Q, R, W], fx *core.Effects[core.Call[Q, R], W, struct{}], reads bool) (err error) {
	if len(fx.Persist) == 0 {
		return nil
	}
	store := func(d *rangeserver.Delta) {
		for i := range fx.Persist {
			p.p.Store(d, &fx.Persist[i])
		}
	}
	switch ticket, after := fx.Ticket, fx.After; {
	case reads && ticket != 0:
		err = &kv.InternalError{Message: p.p.Name + ": a read that promises something"}
	case ticket != 0:
		err = p.g.WriteThen(a.generation, store, func() { a.sync(ticket, after) })
	default:
		err = p.g.WriteLater(a.generation, store)
	}
	if err != nil {
		// The core has what the engine has not, or may not have; it is not asked any more.
		p.end(a)
		p.mu.Lock()
		if p.now == a {
			p.now = nil
		}
		p.mu.Unlock()
	} else if p.p.Size != nil {
		p.g.Holds(p.p.Size(a.core))
	}
	return err
}

// sync says that the Persist of a ticket is durable. The store's syncer calls it; tickets may come out of order, but what is durable is a
// prefix of what was written.
func (a *acting[C, Q, R, W]) sync(t core.Ticket, after []core.Call[Q, R]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deliver(after)
	if a.durable < t {
		a.durable = t
		a.core.Durable(t)
		a.deliver(a.core.Effects().Send)
	}
}

func (a *acting[C, Q, R, W]) deliver(replies []core.Call[Q, R]) {
	for _, m := range replies {
		a.calls[m.ID].put(m.Reply)
		delete(a.calls, m.ID)
	}
}

// With has the core of a generation do something, and carries out its effects. It does nothing if the replica does not act in the generation.
func (p *Participant[C, Q, R, W]) With(generation uint64, do func(C) error) error {
	if !p.g.Acts(generation) {
		return nil
	}
	a, err := p.acting(generation)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil
	}
	err = do(a.core)
	fx := a.core.Effects()
	a.deliver(fx.Send)
	if failed := p.write(a, &fx, false); failed != nil {
		return failed
	}
	return err
}

// Tend implements rangeserver.Absorber.
func (p *Participant[C, Q, R, W]) Tend(generation uint64) error {
	if p.p.Tend == nil {
		return nil
	}
	return p.With(generation, func(c C) error { return p.p.Tend(p.g, c) })
}

// Final implements rangeserver.Absorber.
func (p *Participant[C, Q, R, W]) Final(generation uint64, bytes int) (rows []replica.Row, err error) {
	if p.p.Final == nil {
		return nil, nil
	}
	err = p.With(generation, func(c C) error { rows = p.p.Final(c, bytes); return nil })
	return rows, err
}

// Absorbed implements rangeserver.Absorber.
func (p *Participant[C, Q, R, W]) Absorbed(generation uint64, rows []replica.Row) error {
	return p.With(generation, func(c C) error { p.p.Absorbed(c, rows); return nil })
}

// Sealed ends the core of the generation. It has promised nothing that Range.WriteThen did not take.
func (p *Participant[C, Q, R, W]) Sealed(generation uint64) {
	p.mu.Lock()
	a := p.now
	p.mu.Unlock()
	if a != nil && a.generation == generation {
		a.mu.Lock()
		defer a.mu.Unlock()
		p.end(a)
	}
}

// end gives the core away, whose lock the caller has. It comes before another core is made, so that this one can have what the core knew.
func (p *Participant[C, Q, R, W]) end(a *acting[C, Q, R, W]) {
	if a.ended || p.p.Ended == nil {
		return
	}
	a.ended = true
	p.p.Ended(p.g, a.generation, a.core)
}

// Report gives the delta.
func (p *Participant[C, Q, R, W]) Report(_ context.Context, generation uint64, send func([]byte) error) (served clock.Timestamp, err error) {
	delta, _, err := p.delta(generation)
	if err != nil {
		return served, err
	}
	for i := range delta {
		if err := p.p.Pieces(&delta[i], send); err != nil {
			return served, err
		}
		served = served.Forward(p.p.Last(&delta[i]))
	}
	return served, nil
}

// Opened forgets the core: what is loaded next is of the new generation, or on the new base.
func (p *Participant[C, Q, R, W]) Opened(*kv.RangeDescriptor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = nil
}

// Close ends all requests.
func (p *Participant[C, Q, R, W]) Close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.closed)
	}
}
