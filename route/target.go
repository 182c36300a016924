package route

import (
	"context"
	"fmt"
	"time"

	"meridian/commit/protocol"
	"meridian/kv"
)

// Batches of protocols that are not the leader's: they go to the nearest replica, to one by its number, or to all voters. So do stale reads at a timestamp on which the
// nearest replicas have agreed.
//
//	route.RO8 (I6; Spanner §4.2.2): A stale read whose replica is lost goes on at the next one, with the timestamp and the key that it has reached. That replica has not
//	    promised to have closed the timestamp: it may ask the leaseholder, and wait for lostWait, and then the next one is asked.

const (
	// lostWait is for how long a replica that takes a lost one's place may wait until it can serve a read: the longest round trip, and what it lags.
	lostWait = time.Second
	// laggingAfterLoss is how long one that could not gets no such reads.
	laggingAfterLoss = 5 * time.Second
)

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
	var (
		lost    bool  // a nearer replica was not reached, or is gone
		lagging error // of one that took its place
	)
	stale := b.Consistency == kv.Stale
	if stale {
		defer func(was time.Duration) { b.MayWait = was }(b.MayWait)
	}
	for _, node := range s.order(e) {
		if lost && stale {
			if e.isBehind(node, readAt(b), s.o.Host.Clock.Monotonic()) {
				lagging = &kv.NotClosedError{Range: e.desc.ID, Closed: e.behind.Load().closed}
				continue
			}
			b.MayWait = lostWait // route.RO8
		}
		resp, err := s.askNode(ctx, node, b, e)
		switch x := root(err).(type) {
		case nil:
			s.metrics.Nearest.Add(1)
			return resp, nil
		case *kv.NotClosedError:
			if !lost || !stale || x.Intent {
				return resp, st.wrap(err)
			}
			s.metrics.NotClosed.Add(1)
			s.o.Probes.Reached("route: the replica that takes a lost one's place has not closed a timestamp")
			e.behind.Store(&behind{node, x.Closed, s.o.Host.Clock.Monotonic() + laggingAfterLoss})
			lagging = err
		case *kv.RangeMismatchError:
			st.last = err
			return nil, errReroute
		case *kv.GenerationError:
			if x.Desc == nil || x.Desc.Generation >= b.Generation {
				return resp, st.wrap(err) // the sender acts in an earlier generation, or in one that is sealed
			}
			st.last = err // the replica is behind
		case *kv.RangeNotFoundError, *kv.UnavailableError, *kv.NotLeaseholderError:
			st.last, lost = err, true // the latter is of a stale read whose replica has just lost the lease
		default:
			return resp, st.wrap(err)
		}
	}
	if lagging != nil {
		return nil, st.wrap(lagging)
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
	call := s.call
	if protocol.Leased(b.Protocol) && b.Target.Kind != kv.TargetReplica {
		call = s.callElsewhere // a stale read, or a negotiation
	}
	resp, err, fault := call(ctx, node, b, e)
	if fault != nil {
		return nil, s.unreached(ctx, fault)
	}
	return s.heard(node, resp, err)
}

func (s *Sender) unreached(ctx context.Context, fault error) error {
	s.metrics.Unreachable.Add(1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &kv.UnavailableError{Reason: fault.Error()}
}

// heard takes in what an answer says besides.
func (s *Sender) heard(node kv.NodeID, resp *kv.BatchResponse, err error) (*kv.BatchResponse, error) {
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

// missed reports whether an error says that a replica was not reached.
func missed(err error) bool {
	switch root(err).(type) {
	case *kv.RangeNotFoundError, *kv.UnavailableError:
		return true
	}
	return false
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
