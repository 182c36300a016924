package server

import (
	"context"

	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/sql/virtual"
)

// Violations implements virtual.Cluster: the ranges are those of the index of ranges, and the nodes those that this node knows.
func (f *clusterFacts) Violations(ctx context.Context) (out []virtual.Violation, err error) {
	s := f.n.store.Load()
	if s == nil {
		return nil, &kv.UnavailableError{Reason: "the node is not ready"}
	}
	nodes := s.Nodes()
	err = f.n.eachRange(ctx, keys.Min, keys.Max, func(info kv.RangeInfo) error {
		if c := rangeserver.Conformity(f.n.zones, &info.Desc, 0, nodes); c.Awaited() {
			v := virtual.Violation{Range: info.Desc.ID, Start: info.Desc.Start, Forbidden: c.Forbidden, Missing: c.Missing}
			if c.Protocol != nil {
				v.Protocol = c.Protocol.String()
			}
			out = append(out, v)
		}
		return nil
	})
	return out, err
}
