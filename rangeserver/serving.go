package rangeserver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"meridian/commit/protocol"
	"meridian/kv"
	"meridian/replica"
)

// Ranges whose rows are served by another protocol than the leader's.

// serving is the participant that serves the rows of such a range.
type serving struct {
	protocol kv.Protocol
	p        Participant // nil: this binary does not have the protocol
	g        *Range
}

// served gives a range the participant of its protocol, and tells it which generation the range is in. It is called in log order.
func (s *Store) served(e *entry, d *kv.RangeDescriptor) {
	now := e.serving.Load()
	if now == nil && protocol.Leased(d.Protocol) {
		return
	}
	if now != nil && now.protocol == d.Protocol {
		if now.p != nil {
			now.g.promised.Store(0)
			now.g.lagging.Store(0)
			now.g.opened.Store(int64(s.o.Clock.Physical().Monotonic()))
			now.p.Opened(d)
		}
		return
	}
	var next *serving
	if !protocol.Leased(d.Protocol) {
		next = &serving{protocol: d.Protocol}
		if proto, ok := s.o.Protocols[d.Protocol]; ok {
			next.g = &Range{s: s, r: e.r}
			next.g.opened.Store(int64(s.o.Clock.Physical().Monotonic()))
			next.g.vouched.Store(max(s.o.Engine.Opening(), s.o.Engine.Durable())) // what was promised before the node started
			next.p = proto.New(next.g)
		} else {
			s.log.Warn("a range has a commit protocol that this binary does not know", "range", uint64(d.ID), "protocol", d.Protocol)
		}
	}
	e.serving.Store(next)
	if now != nil && now.p != nil {
		now.p.Close(&kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d})
	}
}

// Sealed tells the participant.
func (s *Store) Sealed(r *replica.Replica, generation uint64) {
	if e := s.entry(r.RangeID()); e != nil && e.r == r && e.ready.Load() {
		if v := e.serving.Load(); v != nil && v.p != nil {
			v.p.Sealed(generation)
		}
	}
}

// sendByProtocol serves a batch that is for another protocol than the leader's, or meets a range of another one.
func (s *Store) sendByProtocol(ctx context.Context, e *entry, d *kv.RangeDescriptor, b *kv.Batch) (*kv.BatchResponse, error) {
	if !protocol.Leased(b.Protocol) && sealedIn(e, b.Generation) {
		s.awaitOpened(ctx, e, b.Generation)
		d = e.r.Desc()
	}
	foreign := false
	for _, q := range b.Requests {
		foreign = foreign || kv.OfRows(q)
	}
	switch {
	case foreign && b.Protocol != d.Protocol:
		return nil, &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d}
	case protocol.Leased(b.Protocol) || !foreign:
		return e.leader.Send(ctx, b)
	}
	v, err := s.participant(e, d, b)
	if err != nil {
		return nil, err
	}
	r, err := v.p.Send(ctx, b)
	return s.answer(ctx, e, v, b, r, err)
}

// sealedFor bounds the wait of a request for the generation after the one that is sealed.
const sealedFor = 700 * time.Millisecond

func sealedIn(e *entry, generation uint64) bool {
	g := e.r.Generation()
	return g.Number == generation && g.Stage != replica.Open
}

// awaitOpened has a request that came in a sealed generation wait for the next one, of which its sender is told then, instead of asking again and again. A request to all voters does not
// wait: its message may have requests of others.
func (s *Store) awaitOpened(ctx context.Context, e *entry, generation uint64) {
	for begun := s.o.Clock.Physical().Monotonic(); sealedIn(e, generation) && s.o.Clock.Physical().Monotonic()-begun < sealedFor; {
		if s.o.Clock.Physical().Sleep(ctx, appliedPause) != nil {
			return
		}
	}
}

// participant is a range's for a batch of its protocol.
func (s *Store) participant(e *entry, d *kv.RangeDescriptor, b *kv.Batch) (*serving, error) {
	v := e.serving.Load()
	switch {
	case v == nil || v.protocol != b.Protocol:
		return nil, s.generationError(e.r) // it is about to be, or has just been
	case v.p == nil:
		return nil, s.unknown(v.protocol)
	case !e.r.Acts(b.Generation):
		if d.Generation < b.Generation {
			e.r.Wake() // it has missed a change
		}
		return nil, s.generationError(e.r)
	}
	return v, nil
}

// answer is a participant's answer as it leaves the store.
func (s *Store) answer(ctx context.Context, e *entry, v *serving, b *kv.Batch, r *kv.BatchResponse, err error) (*kv.BatchResponse, error) {
	if err == nil {
		err = s.vouch(ctx, v.g, b, r)
	}
	if err == nil && !e.r.Acts(b.Generation) {
		return nil, s.generationError(e.r)
	}
	return r, err
}

// SendAll serves batches of several ranges. Those of protocols that promise without a log begin before any of them waits for the disk.
func (s *Store) SendAll(ctx context.Context, bs []*kv.Batch) ([]*kv.BatchResponse, []error) {
	defer func() {
		if r := recover(); r != nil {
			panic(broken(r))
		}
	}()
	rs, errs := make([]*kv.BatchResponse, len(bs)), make([]error, len(bs))
	type begun struct {
		e    *entry
		v    *serving
		wait func(context.Context) (*kv.BatchResponse, error)
	}
	all := make([]begun, len(bs))
	for i, b := range bs {
		e, desc, err := s.find(b)
		var v *serving
		if err == nil && !protocol.Leased(b.Protocol) && b.Protocol == desc.Protocol && !slices.ContainsFunc(b.Requests, func(q kv.Request) bool { return !kv.OfRows(q) }) {
			if v, err = s.participant(e, desc, b); err == nil && s.backlog.high.Load() && bringsData(b) {
				err = s.backlog.wait(ctx)
			}
		}
		if err != nil {
			errs[i] = err
			continue
		}
		starter, ok := Starter(nil), false
		if v != nil {
			starter, ok = v.p.(Starter)
		}
		if !ok {
			rs[i], errs[i] = s.send(ctx, e, desc, b)
			continue
		}
		all[i] = begun{e: e, v: v}
		all[i].wait, errs[i] = starter.Start(b)
	}
	var vouching sync.WaitGroup
	for i, b := range bs {
		x := &all[i]
		if x.wait == nil {
			continue
		}
		rs[i], errs[i] = x.wait(ctx)
		answer := func() { rs[i], errs[i] = s.answer(ctx, x.e, x.v, b, rs[i], errs[i]) }
		if i+1 < len(bs) && b.Gateway == s.o.NodeID {
			vouching.Go(answer) // it may wait for another node, and the next ones' need not wait for that
		} else {
			answer()
		}
	}
	vouching.Wait()
	return rs, errs
}

// vouch sees to it that another node hears how far this store had come before an answer of a participant counts (fence.FE5): the gateway hears
// it with the answer; if the gateway is this node, another voter is told.
func (s *Store) vouch(ctx context.Context, g *Range, b *kv.Batch, r *kv.BatchResponse) error {
	if s.o.Starts == nil {
		return nil
	}
	if b.Gateway == s.o.NodeID {
		if readsOnly(b) {
			return nil
		}
		return s.o.Starts.Tell(ctx, g.Desc(), g.vouched.Load())
	}
	if r != nil && len(r.Responses) > 0 {
		if first, ok := r.Responses[0].(*kv.ProtocolResponse); ok {
			var err error
			first.Store, err = s.o.Starts.Standing(g.Desc(), g.vouched.Load())
			return err
		}
	}
	return &kv.InternalError{Message: "rangeserver: a participant answers with responses that are not its protocol's"}
}

// readsOnly reports whether the answer to a batch promises nothing.
func readsOnly(b *kv.Batch) bool {
	return !slices.ContainsFunc(b.Requests, func(q kv.Request) bool {
		p, ok := q.(*kv.ProtocolRequest)
		return !ok || !p.Reads
	})
}

// credit takes in the position that came with another store's answer, or fails if the answer does not count (fence.FE5).
func (s *Store) credit(from kv.NodeID, at kv.StorePosition) error {
	if s.o.Starts != nil && !s.o.Starts.Heard(from, at) {
		return &kv.UnavailableError{Reason: fmt.Sprintf("the answer of node %d comes from a start of it that is not its latest", from)}
	}
	return nil
}

// standing is the position of this store that goes with an answer about a range whose promise is durable.
func (s *Store) standing(id kv.RangeID) (kv.StorePosition, error) {
	if s.o.Starts == nil {
		return kv.StorePosition{}, nil
	}
	e := s.entry(id)
	if e == nil || e.r.Desc() == nil {
		return kv.StorePosition{}, &kv.RangeNotFoundError{Range: id}
	}
	return s.o.Starts.Standing(e.r.Desc(), s.o.Engine.Durable())
}

// receiveProtocol gives a message to the participant that it is for.
func (s *Store) receiveProtocol(e *entry, m *replica.Message) {
	if !e.ready.Load() || !e.r.Acts(m.Generation) {
		return
	}
	if v := e.serving.Load(); v != nil && v.p != nil {
		v.p.Receive(m.From, m.Body)
	}
}
