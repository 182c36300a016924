package server

import (
	"context"
	"fmt"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/replica"
)

// States of a range, as the console and SQL name them.
const (
	rangeOK              = "ok"
	rangeUnderReplicated = "under-replicated"
	rangeUnavailable     = "unavailable"
)

// survey determines the state of ranges by the nodes that are live at one moment.
type survey struct {
	n       *Node
	present int // nodes that were not decommissioned for good
	live    map[kv.NodeID]bool
	nodes   []placement.Node // as the allocator sees them; nil: not asked yet
}

func (n *Node) survey() *survey {
	v := &survey{n: n, live: make(map[kv.NodeID]bool)}
	for _, e := range n.cluster.Nodes() {
		if r, ok := n.cluster.Record(e.Node); e.Node != 0 && !(ok && r.Decommissioned) {
			v.present++
			// This node is up, even while its record can't be renewed since the records' range is unavailable.
			v.live[e.Node] = e.Node == n.NodeID() || n.cluster.Live(e.Node)
		}
	}
	return v
}

// of is the health of a range, and its state in a word.
func (v *survey) of(d *kv.RangeDescriptor) (placement.Health, string) {
	zone, _ := v.n.zones.Zone(d.Start)
	h := placement.Assess(&zone, d, v.present, func(id kv.NodeID) bool { return v.live[id] })
	switch {
	case h.Unavailable:
		return h, rangeUnavailable
	case h.UnderReplicated():
		return h, rangeUnderReplicated
	}
	return h, rangeOK
}

// troubled is a range without its full number of live voters.
type troubled struct {
	id    kv.RangeID
	state string
}

// mine calls f for every range that this node counts in the metrics: those whose lease it has, and those without a
// leaseholder that is live if it is the first of the replicas' nodes that are. So each range is counted by one node, as
// long as one of its replicas' nodes is live.
func (v *survey) mine(f func(troubled)) {
	s := v.n.store.Load()
	if s == nil {
		return
	}
	self := v.n.NodeID()
	s.Replicas(func(r *replica.Replica) bool {
		d := r.Desc()
		if d == nil {
			return true
		}
		if _, held := r.CheckLease(clock.Timestamp{}); !held {
			if l, good := r.Lease(); good && l.Holder.Node != self && v.live[l.Holder.Node] {
				return true
			}
			first := slices.IndexFunc(d.Replicas, func(p kv.ReplicaDescriptor) bool { return v.live[p.Node] })
			if first < 0 || d.Replicas[first].Node != self {
				return true
			}
		}
		_, state := v.of(d)
		f(troubled{r.RangeID(), state})
		return true
	})
}

// stuckOn returns the number of replicas on a node that is being decommissioned, and why some of them can't be moved; empty: all can.
func (n *Node) stuckOn(ctx context.Context, node kv.NodeID) (left int, why string, err error) {
	v := n.survey()
	var takers []kv.NodeID // nodes that may be given replicas
	for _, e := range n.cluster.Nodes() {
		r, ok := n.cluster.Record(e.Node)
		if ok && e.Node != node && v.live[e.Node] && !e.Draining && !r.Decommissioning && !r.Decommissioned {
			takers = append(takers, e.Node)
		}
	}
	stay, lost, wanted := 0, 0, 0
	err = n.eachRange(ctx, keys.Min, keys.Max, func(info kv.RangeInfo) error {
		p, has := info.Desc.Replica(node)
		if !has {
			return nil
		}
		left++
		h, _ := v.of(&info.Desc)
		switch {
		case h.Unavailable:
			lost++
		case p.Type != kv.NonVoter && h.Voters <= h.Wanted && !slices.ContainsFunc(takers, func(id kv.NodeID) bool {
			held, ok := info.Desc.Replica(id)
			return !ok || held.Type == kv.NonVoter || held.Type == kv.Learner
		}):
			stay, wanted = stay+1, max(wanted, h.Wanted)
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, "", err
	case lost > 0:
		why = fmt.Sprintf("%d of them wait for a majority of their range's voters to be live", lost)
	case stay > 0:
		why = fmt.Sprintf("%d of them wait for a node that could take them: %d live nodes remain, and each range keeps %d voters; "+
			"start another node, or lower the cluster setting replicas.voters", stay, len(takers), wanted)
	}
	return left, why, nil
}
