package server

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
	"meridian/transport"
)

// Misfit is a range that is not as its configuration wants it.
type Misfit struct {
	Range    kv.RangeID
	Span     keys.Span
	Replicas []kv.ReplicaDescriptor
	rangeserver.Conforms
}

func (m *Misfit) String() string {
	switch why := m.Violation.String(); {
	case m.Mixed:
		return fmt.Sprintf("r%d is to be split", m.Range)
	case why == "":
		return fmt.Sprintf("r%d is being changed", m.Range)
	default:
		return fmt.Sprintf("r%d: %s", m.Range, why)
	}
}

// Conforms compares the ranges of a span with their configurations as this node knows them, by the index of ranges: a statement that waits for its effect (docs/decisions/0012-regions.md,
// rule 3) has learned its own versions, and first waits until every node has (lease.Manager.Everywhere) if it has made a table, since publication waits for
// no node that does not know the table yet. total is the number of ranges. Where leases are is only asked if leases is set: each leaseholder is asked, and one that
// does not answer counts as a misfit.
func (n *Node) Conforms(ctx context.Context, span keys.Span, leases bool) (misfits []Misfit, total int, err error) {
	s := n.store.Load()
	if s == nil {
		return nil, 0, &kv.UnavailableError{Reason: "the node is not ready"}
	}
	nodes := s.Nodes()
	err = n.eachRange(ctx, span.Start, span.Stop(), func(info kv.RangeInfo) error {
		total++
		c := rangeserver.Conformity(n.zones, &info.Desc, 0, nodes)
		if leases && c.None() {
			limit, cancel := n.host.Clock.WithTimeout(ctx, askRange)
			defer cancel()
			resp, err := n.router.Send(limit, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: rangeProbe(info.Desc.Start)}}})
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				c.Lease = true
			} else if got, ok := resp.Responses[0].(*kv.RangeInfoResponse); ok {
				c = rangeserver.Conformity(n.zones, &got.Desc, got.Leaseholder, nodes)
			}
		}
		if !c.None() {
			misfits = append(misfits, Misfit{info.Desc.ID, info.Desc.Span(), info.Desc.Replicas, c})
		}
		return nil
	})
	return misfits, total, err
}

// violation says which constraint a range violates, or which protocol it lacks; empty: none. A range whose replicas are only too few or being moved violates none.
func (v *survey) violation(d *kv.RangeDescriptor) string {
	if v.nodes == nil {
		if s := v.n.store.Load(); s != nil {
			v.nodes = s.Nodes()
		}
	}
	c := rangeserver.Conformity(v.n.zones, d, 0, v.nodes)
	if !c.Awaited() {
		return ""
	}
	only := placement.Violation{Forbidden: c.Forbidden, Missing: c.Missing, Protocol: c.Protocol}
	return only.String()
}

// misplaced counts the ranges of a span that violate a constraint, have another protocol than they should, or are to be split, and has their leaseholders look at them now.
func (n *Node) misplaced(ctx context.Context, span keys.Span) (misplaced, total int, err error) {
	misfits, total, err := n.Conforms(ctx, span, false)
	look := map[kv.NodeID][]kv.RangeID{}
	for i := range misfits {
		m := &misfits[i]
		if !m.Mixed && !m.Awaited() {
			continue
		}
		if misplaced++; misplaced > mostLooked {
			continue
		}
		for _, at := range m.Replicas { // any of them may have the lease
			if at.Type != kv.NonVoter && at.Type != kv.Learner {
				look[at.Node] = append(look[at.Node], m.Range)
			}
		}
	}
	for node, ranges := range look {
		n.lookAt(node, ranges)
	}
	return misplaced, total, err
}

const (
	// methodPlace has a store look at ranges without waiting for its next pass over all of them. It is advice: a node that does not know it looks a little later.
	methodPlace = "server.place"
	// mostLooked bounds the ranges of one such message.
	mostLooked = 1000
	lookWait   = time.Second
)

func (n *Node) lookAt(node kv.NodeID, ranges []kv.RangeID) {
	if node == n.NodeID() {
		n.look(ranges)
		return
	}
	msg, err := json.Marshal(ranges)
	if err != nil || !n.cluster.Live(node) {
		return
	}
	n.host.Group.Go(func(ctx context.Context) {
		ctx, cancel := n.host.Clock.WithTimeout(ctx, lookWait)
		defer cancel()
		_, _ = n.transport.CallClass(ctx, transport.ClassSystem, node, methodPlace, msg)
	})
}

func (n *Node) look(ranges []kv.RangeID) {
	if s := n.store.Load(); s != nil {
		s.LookAt(ranges...)
	}
}

func (n *Node) handlePlace(_ context.Context, _ kv.NodeID, msg []byte) ([]byte, error) {
	var ranges []kv.RangeID
	if err := json.Unmarshal(msg, &ranges); err != nil {
		return nil, err
	}
	n.look(ranges[:min(len(ranges), mostLooked)])
	return nil, nil
}
