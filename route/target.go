package route

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// Batches of protocols that are not the leader's: they go to the nearest replica, to one by its number, or to all voters.

// learn caches the descriptor in an answer of another protocol or generation. It reports whether that was new.
func (s *Sender) learn(err error) bool {
	var d *kv.RangeDescriptor
	switch x := root(err).(type) {
	case *kv.ProtocolError:
		d = x.Desc
	case *kv.GenerationError:
		d = x.Desc
	case *kv.RangeMismatchError:
		s.metrics.Mismatches.Add(1)
		return s.cache.insert(x.Infos...)
	}
	return d != nil && s.cache.insert(kv.RangeInfo{Desc: *d})
}

// sendTarget sends a batch that lies in one range to the replica that its Target names. errReroute means that it has to be routed anew.
func (s *Sender) sendTarget(ctx context.Context, b *kv.Batch, e *entry, st *sendState) (*kv.BatchResponse, error) {
	if b.Target.Kind == kv.TargetReplica {
		for _, r := range e.desc.Replicas {
			if r.Replica == b.Target.Replica {
				resp, err := s.askNode(ctx, r.Node, b, e)
				if missed(err) {
					s.evict(e)
				}
				return resp, st.wrap(err)
			}
		}
		s.evict(e) // the sender may know more than the cache
		return nil, st.wrap(&kv.RangeNotFoundError{Range: e.desc.ID})
	}
	for _, node := range s.order(e) {
		resp, err := s.askNode(ctx, node, b, e)
		switch x := root(err).(type) {
		case nil:
			s.metrics.Nearest.Add(1)
			return resp, nil
		case *kv.RangeMismatchError:
			st.last = err
			return nil, errReroute
		case *kv.GenerationError:
			if x.Desc == nil || x.Desc.Generation >= b.Generation {
				return resp, st.wrap(err) // the sender acts in an earlier generation, or in one that is sealed
			}
			st.last = err // the replica is behind
		case *kv.RangeNotFoundError, *kv.UnavailableError, *kv.NotLeaseholderError:
			st.last = err // the latter is of a stale read whose replica has just lost the lease
		default:
			return resp, st.wrap(err)
		}
	}
	s.metrics.Unserved.Add(1)
	if err := s.pause(ctx, st); err != nil {
		return nil, st.final(err)
	}
	s.evict(e)
	return nil, errReroute
}

// askNode sends a batch to one node. A node that can't be reached counts as one that can't serve: requests of these protocols may be
// carried out twice, so it does not matter whether this one was (kv.GenerationError).
func (s *Sender) askNode(ctx context.Context, node kv.NodeID, b *kv.Batch, e *entry) (*kv.BatchResponse, error) {
	resp, err, fault := s.call(ctx, node, b, e)
	if fault != nil {
		s.metrics.Unreachable.Add(1)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &kv.UnavailableError{Reason: fault.Error()}
	}
	if err != nil {
		s.learn(err)
		return resp, err
	}
	if s.o.Starts != nil && node != s.o.NodeID() && len(resp.Responses) > 0 {
		// The leader protocol's part of a range has a log, whose messages carry positions.
		if first, ok := resp.Responses[0].(*kv.ProtocolResponse); ok && !s.o.Starts.Heard(node, first.Store) {
			return nil, &kv.UnavailableError{Reason: fmt.Sprintf("the answer of node %d comes from a start of it that is not its latest", node)}
		}
	}
	if len(resp.RangeInfos) > 0 {
		s.cache.insert(resp.RangeInfos...)
		resp.RangeInfos = nil
	}
	return resp, nil
}

// Answer is one replica's answer to a batch that was sent to all voters of its range.
type Answer struct {
	// Desc is the range by which the batch was sent: quorums are counted by it (kv.RangeDescriptor.Quorum), and its Generation
	// is the one that the batch was sent in.
	Desc *kv.RangeDescriptor
	From kv.ReplicaDescriptor
	Resp *kv.BatchResponse
	// Err is ErrLate if the replica has not answered in time; its answer may follow.
	Err error
}

// late says from when on a replica's answer is late.
type late struct {
	at   time.Duration
	from kv.ReplicaDescriptor
}

// stragglers is how long Each keeps the calls to replicas that have not answered when its caller has enough answers, so that the batch
// reaches them if possible.
const stragglers = 2 * time.Second

// Each sends a batch, whose keys have to be in one range, to every voter of the range in parallel, including those that leave or join by a
// change of replicas in progress. It calls f with the answers as they come, one at a time, until f has enough, or all have answered. An
// error says that nothing was sent, or that the context ended before f had enough. A replica that takes longer than it should, by what was measured, is reported as late once, so that f need
// not hope for its answer.
func (s *Sender) Each(ctx context.Context, b *kv.Batch, f func(Answer) (more bool)) error {
	s.metrics.Batches.Add(1)
	if len(b.Requests) == 0 {
		return nil
	}
	e, err := s.single(ctx, b)
	if err != nil {
		return err
	}
	if e == nil {
		span := b.Requests[0].Span()
		out := &kv.RangeMismatchError{Span: span}
		if at := s.cache.find(keys.Addr(span.Start)); at != nil {
			out.Infos = []kv.RangeInfo{{Desc: *at.desc.Clone()}}
		}
		return out
	}
	apart, cancel := context.WithCancel(context.WithoutCancel(ctx))
	answers := make(chan Answer, len(e.desc.Replicas))
	asked, begun := 0, s.o.Host.Clock.Monotonic()
	due := make([]late, 0, len(e.desc.Replicas))
	for _, r := range e.desc.Replicas {
		if !r.Type.Votes() {
			continue
		}
		asked++
		due = append(due, late{s.sent(r.Node, begun), r})
		one := &kv.Batch{Header: b.Header, Requests: b.Requests}
		one.RangeID, one.Generation, one.Gateway, one.Target = e.desc.ID, e.desc.Generation, s.o.NodeID(), kv.ToReplica(r.Replica)
		if !s.o.Host.Group.Go(func(context.Context) {
			resp, err := s.askNode(apart, r.Node, one, e)
			s.answeredAfter(r.Node, s.o.Host.Clock.Monotonic()-begun, err)
			answers <- Answer{Desc: e.desc, From: r, Resp: resp, Err: err}
		}) {
			answers <- Answer{Desc: e.desc, From: r, Err: &kv.UnavailableError{Reason: "the node is stopping"}}
		}
	}
	// Replicas of long ago, which are dead or gone, do not say where the range is now. So a range of which no quorum answers is looked up
	// the next time.
	reached := make(map[kv.ReplicaID]bool, asked) // of those that were heard
	forget := func(late bool) {
		if !e.desc.Quorum(func(r *kv.ReplicaDescriptor) bool {
			was, heard := reached[r.Replica]
			return was || !heard && !late
		}) {
			s.evict(e)
		}
	}
	slices.SortStableFunc(due, func(a, b late) int { return cmp.Compare(a.at, b.at) })
	timer := s.o.Host.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	armed := time.Duration(0)
	for heard := 0; heard < asked; {
		for len(due) > 0 {
			if _, ok := reached[due[0].from.Replica]; !ok {
				break
			}
			due = due[1:]
		}
		if len(due) > 0 && armed != due[0].at {
			armed = due[0].at
			timer.Reset(max(armed-s.o.Host.Clock.Monotonic(), 0))
		}
		select {
		case a := <-answers:
			reached[a.From.Replica] = !missed(a.Err)
			if heard++; !f(a) {
				s.leave(answers, asked-heard, cancel)
				forget(false)
				return nil
			}
		case <-timer.C():
			armed = 0
			if len(due) == 0 || s.o.Host.Clock.Monotonic() < due[0].at {
				continue
			}
			r := due[0].from
			if due = due[1:]; !f(Answer{Desc: e.desc, From: r, Err: ErrLate}) {
				s.leave(answers, asked-heard, cancel)
				forget(false)
				return nil
			}
		case <-ctx.Done():
			forget(true)
			s.leave(answers, asked-heard, cancel)
			return ctx.Err()
		}
	}
	cancel()
	forget(false)
	return nil
}

// missed reports whether an error says that a replica was not reached.
func missed(err error) bool {
	switch root(err).(type) {
	case *kv.RangeNotFoundError, *kv.UnavailableError:
		return true
	}
	return false
}

// leave waits for the remaining answers for a while, and drops them.
func (s *Sender) leave(answers <-chan Answer, n int, cancel context.CancelFunc) {
	if n == 0 || !s.o.Host.Group.Go(func(ctx context.Context) {
		defer cancel()
		t := s.o.Host.Clock.NewTimer(stragglers)
		defer t.Stop()
		for range n {
			select {
			case <-answers:
			case <-t.C():
				return
			case <-ctx.Done():
				return
			}
		}
	}) {
		cancel()
	}
}

// protocols refuses a batch with rows of ranges that have another protocol, as far as is remembered, before any part of it was sent.
func protocols(b *kv.Batch, parts []*part) error {
	for _, p := range parts {
		if d := p.e.desc; d.Protocol != b.Protocol {
			for _, r := range p.batch.Requests {
				if kv.OfRows(r) {
					return &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d.Clone()}
				}
			}
		}
	}
	return nil
}
