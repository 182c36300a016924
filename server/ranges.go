package server

import (
	"context"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/session"
)

// askRange bounds the request for a range's size and its leaseholder; a range that does not answer is shown without
// them.
const askRange = 5 * time.Second

// heardWait bounds the reading of the range index for the list of nodes.
const heardWait = 2 * time.Second

// ranges answers SQL's queries about ranges.
type ranges struct{ n *Node }

// eachRange calls f for every range that overlaps [start, end), in key order, as the range index has them.
func (n *Node) eachRange(ctx context.Context, start, end keys.Key, f func(kv.RangeInfo) error) error {
	for k := start; k.Less(end); {
		infos, err := n.router.Fresh(ctx, k)
		if err != nil {
			return err
		}
		for i := range infos {
			if !k.Less(end) {
				break
			}
			if err := f(infos[i]); err != nil {
				return err
			}
			k = infos[i].Desc.End
		}
	}
	return nil
}

// said is a node's report about itself: the numbers of its replicas and leases.
type said struct{ Ranges, Leases int64 }

// heard has the reports of all nodes. The last report of a node that is not live is out of date: its leases are void, and its replicas may
// have been rebuilt on other nodes, so they are counted in the index of ranges, if that can be read.
func (n *Node) heard(ctx context.Context) map[kv.NodeID]said {
	all := map[kv.NodeID]said{}
	away := map[kv.NodeID]int64{}
	for _, e := range n.cluster.Nodes() {
		all[e.Node] = said{int64(e.Capacity.Ranges), int64(e.Capacity.Leases)}
		if !n.cluster.Live(e.Node) {
			away[e.Node] = 0
		}
	}
	if len(away) == 0 || n.router == nil {
		return all
	}
	ctx, cancel := n.host.Clock.WithTimeout(ctx, heardWait)
	defer cancel()
	err := n.eachRange(ctx, keys.Min, keys.Max, func(info kv.RangeInfo) error {
		for _, r := range info.Desc.Replicas {
			if k, ok := away[r.Node]; ok {
				away[r.Node] = k + 1
			}
		}
		return nil
	})
	for id, replicas := range away {
		if err != nil {
			replicas = all[id].Ranges
		}
		all[id] = said{Ranges: replicas}
	}
	return all
}

// Ranges implements session.Ranges.
func (r ranges) Ranges(ctx context.Context, start, end []byte) ([]session.RangeRow, error) {
	var rows []session.RangeRow
	v := r.n.survey()
	err := r.n.eachRange(ctx, start, end, func(info kv.RangeInfo) error {
		row := session.RangeRow{ID: info.Desc.ID, Start: info.Desc.Start, End: info.Desc.End, Leaseholder: info.Leaseholder.Node}
		for _, d := range info.Desc.Replicas {
			row.Replicas = append(row.Replicas, d.Node)
			if d.Type == kv.NonVoter || d.Type == kv.VoterDemoting {
				row.NonVoters = append(row.NonVoters, d.Node)
			}
			if d.Witness {
				row.Witnesses = append(row.Witnesses, d.Node)
			}
			e, _ := r.n.cluster.Get(d.Node)
			row.Localities = append(row.Localities, e.Locality.String())
		}
		h, state := v.of(&info.Desc)
		row.WantedVoters, row.LiveVoters, row.State, row.Violation = h.Wanted, h.Live, state, v.violation(&info.Desc)
		if state == rangeUnavailable { // the range would not answer
			rows = append(rows, row)
			return nil
		}
		limit, cancel := r.n.host.Clock.WithTimeout(ctx, askRange)
		defer cancel()
		resp, err := r.n.router.Send(limit, &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: rangeProbe(info.Desc.Start)}}})
		if err == nil && len(resp.Responses) == 1 {
			if got, ok := resp.Responses[0].(*kv.RangeInfoResponse); ok && got.Desc.ID == info.Desc.ID {
				row.Bytes, row.Leaseholder = got.LiveBytes, got.Leaseholder
			}
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// rangeProbe is a key that addresses the range that begins at start.
func rangeProbe(start keys.Key) keys.Key {
	if len(start) == 0 {
		return keys.Meta1Prefix
	}
	return start
}

// Region implements session.Ranges.
func (r ranges) Region(node kv.NodeID) string {
	e, ok := r.n.cluster.Get(node)
	if !ok {
		return ""
	}
	return e.Locality.Region()
}

// Split implements session.Ranges.
func (r ranges) Split(ctx context.Context, at [][]byte) error {
	for _, k := range at {
		_, err := r.n.router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: k}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// Unsplit implements session.Ranges.
func (r ranges) Unsplit(ctx context.Context, at [][]byte) error {
	for _, k := range at {
		info, err := r.n.router.Range(ctx, k, true)
		if err != nil {
			return err
		}
		if !info.Desc.Start.Equal(k) {
			continue
		}
		if _, err := r.n.router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: k, Undo: true}}}); err != nil {
			return err
		}
	}
	return nil
}
