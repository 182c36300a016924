package rangeserver

import (
	"context"

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
	if now == nil && d.Protocol == kv.Leader {
		return
	}
	if now != nil && now.protocol == d.Protocol {
		if now.p != nil {
			now.g.promised.Store(0)
			now.p.Opened(d)
		}
		return
	}
	var next *serving
	if d.Protocol != kv.Leader {
		next = &serving{protocol: d.Protocol}
		if proto, ok := s.o.Protocols[d.Protocol]; ok {
			next.g = &Range{s: s, r: e.r}
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
	foreign := false
	for _, q := range b.Requests {
		foreign = foreign || kv.OfRows(q)
	}
	switch {
	case foreign && b.Protocol != d.Protocol:
		return nil, &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d}
	case b.Protocol == kv.Leader || !foreign:
		return e.leader.Send(ctx, b)
	}
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
	r, err := v.p.Send(ctx, b)
	if err == nil && !e.r.Acts(b.Generation) {
		return nil, s.generationError(e.r)
	}
	return r, err
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
