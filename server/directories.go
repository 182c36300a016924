package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
	"meridian/sql/virtual"
)

// placementNodes are the members of the cluster as placement sees them; nil: the node has no store yet.
func (n *Node) placementNodes() []placement.Node {
	if s := n.store.Load(); s != nil {
		return s.Nodes()
	}
	return nil
}

// Fit implements virtual.Cluster.
func (f *clusterFacts) Fit(ctx context.Context, start, end []byte) (fit virtual.Fit, err error) {
	nodes := f.n.placementNodes()
	if nodes == nil {
		return fit, &kv.UnavailableError{Reason: "the node is not ready"}
	}
	survey := f.n.survey()
	split := false
	var places []string
	err = f.n.eachRange(ctx, start, end, func(info kv.RangeInfo) error {
		fit.Ranges++
		d, holder := &info.Desc, info.Leaseholder.Node
		_, state := survey.of(d)
		if state != rangeUnavailable {
			limit, cancel := f.n.host.Clock.WithTimeout(ctx, askRange)
			defer cancel()
			resp, err := f.n.router.Send(limit, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: rangeProbe(d.Start)}}})
			if err == nil && len(resp.Responses) == 1 {
				if got, ok := resp.Responses[0].(*kv.RangeInfoResponse); ok && got.Desc.ID == d.ID {
					// A range that was split since the index was read is another one now, of which perhaps nothing is in the span.
					split = split || got.Desc.End.Less(d.End)
					d, holder = &got.Desc, got.Leaseholder
					fit.Bytes += got.LiveBytes
				}
			}
		}
		if p := f.n.regionsOf(d, holder); !slices.Contains(places, p) {
			places = append(places, p)
		}
		if fit.Reason != "" {
			return nil
		}
		fit.Reason, fit.Stuck = misfit(f.n.zones, d, holder, state == rangeUnavailable, nodes)
		return nil
	})
	if split && fit.Reason == "" {
		fit.Reason = "it is being split off"
	}
	slices.Sort(places)
	fit.Replicas = strings.Join(places, " | ")
	return fit, err
}

// misfit says why a range is not as its configuration wants it; empty: it is. stuck: it can't become so as long as the nodes are as they are.
func misfit(zones rangeserver.ZoneSource, d *kv.RangeDescriptor, leaseholder kv.NodeID, unavailable bool, nodes []placement.Node) (why string, stuck bool) {
	c := rangeserver.Conformity(zones, d, leaseholder, nodes)
	switch {
	case unavailable:
		return "no majority of its voters is live", true
	case c.Mixed:
		return "it is to be split off", false
	case c.None():
		return "", false
	}
	z, _ := zones.Zone(d.Start)
	if lack := placement.Lacks(&z, nodes, true); lack != nil {
		return lack.String(), true
	}
	if why = c.Violation.String(); why == "" {
		why = "its replicas are being changed"
	}
	return why, false
}

// regionsOf says where the replicas of a range are: voters by region, non-voters in parentheses, the region of the lease.
func (n *Node) regionsOf(d *kv.RangeDescriptor, leaseholder kv.NodeID) string {
	at := func(id kv.NodeID) string {
		e, _ := n.cluster.Get(id)
		return cmp.Or(e.Locality.Region(), fmt.Sprintf("n%d", id))
	}
	voters, others := map[string]int{}, map[string]int{}
	for _, r := range d.Replicas {
		if r.Type == kv.NonVoter || r.Type == kv.Learner {
			others[at(r.Node)]++
		} else {
			voters[at(r.Node)]++
		}
	}
	var out []string
	for _, region := range slices.Sorted(maps.Keys(voters)) {
		out = append(out, fmt.Sprintf("%d %s", voters[region], region))
	}
	for _, region := range slices.Sorted(maps.Keys(others)) {
		out = append(out, fmt.Sprintf("(%d %s)", others[region], region))
	}
	s := strings.Join(out, ", ")
	if leaseholder != 0 {
		s += "; lease " + at(leaseholder)
	}
	return s
}
