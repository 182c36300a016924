package server

import (
	"context"
	"fmt"

	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
)

// Misfit is a range that is not as its configuration wants it.
type Misfit struct {
	Range kv.RangeID
	Span  keys.Span
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
			misfits = append(misfits, Misfit{info.Desc.ID, info.Desc.Span(), c})
		}
		return nil
	})
	return misfits, total, err
}

// violation says which constraint a range violates; empty: none. A range whose replicas are only too few or being moved violates none.
func (v *survey) violation(d *kv.RangeDescriptor) string {
	if v.nodes == nil {
		if s := v.n.store.Load(); s != nil {
			v.nodes = s.Nodes()
		}
	}
	c := rangeserver.Conformity(v.n.zones, d, 0, v.nodes)
	if !c.Constraints() {
		return ""
	}
	only := placement.Violation{Forbidden: c.Forbidden, Missing: c.Missing}
	return only.String()
}

// misplaced counts the ranges of a span that violate a constraint or are to be split.
func (n *Node) misplaced(ctx context.Context, span keys.Span) (misplaced, total int, err error) {
	misfits, total, err := n.Conforms(ctx, span, false)
	for i := range misfits {
		if m := &misfits[i]; m.Mixed || m.Constraints() {
			misplaced++
		}
	}
	return misplaced, total, err
}
