package placement

import (
	"fmt"
	"time"

	"meridian/cluster"
	"meridian/kv"
)

// Load is where a range's requests came from lately.
type Load struct {
	// From is how many requests came through each node's gateway, older ones counting less; node 0 stands for nodes
	// that are not counted one by one.
	From map[kv.NodeID]float64
	// Known says that the lease has been where it is for FollowAfter: until then From says little, and the lease stays.
	Known bool
}

// Of leases that follow the workload.
const (
	// FollowAfter is how long a lease stays where it is at least, unless something is wrong there.
	FollowAfter = 5 * time.Second
	// FollowMemory is the age at which a request counts for 1/e.
	FollowMemory = 10 * time.Second
	// FollowMin is how many requests make a load; fewer are no reason to move a lease, nor to leave it.
	FollowMin = 50
	// A lease is moved if the way of its requests becomes followGain times shorter; among nodes that all ask alike, if
	// one of them asks for more than 3/4. It is moved for evenness if the way is no longer than evenLoss times the
	// shortest one: less than the former, or leases would go to and fro.
	followGain = 3
	evenLoss   = 1.5
)

// wayWithin is the way between two nodes that differ in no tier, as part of that between regions.
const wayWithin = 0.02

// way is how far a request travels from one node to another. Round trips between regions are some hundred times those
// between zones, so the distance is not taken as it is.
func way(a, b *Node) float64 {
	if a.Node == b.Node {
		return 0
	}
	d := distance(a.Locality, b.Locality)
	return wayWithin + d*d*d
}

// ways is how far a range's requests travel to a node, together; loaded is false if there are too few to matter.
func (d *decision) ways(to *Node) (sum float64, loaded bool) {
	if d.r.Load == nil {
		return 0, false
	}
	total := 0.0
	for from, n := range d.r.Load.From {
		total += n
		if o := d.byID[from]; o != nil {
			sum += n * way(o, to)
		} else {
			sum += n * way(&Node{Locality: cluster.Locality{{}}}, to) // far from all
		}
	}
	return sum, total >= FollowMin
}

// resting says that the lease has come here only now.
func (d *decision) resting() bool { return d.r.Load != nil && !d.r.Load.Known }

// followLoad moves the lease to where nearly all requests come from. Evenness does not count: a request that its own
// node serves costs that node less than to send it away and read the answer.
func (d *decision) followLoad() (Action, bool) {
	at := d.byID[d.r.Leaseholder]
	if at == nil || d.resting() {
		return Action{}, false
	}
	now, loaded := d.ways(at)
	if !loaded {
		return Action{}, false
	}
	var best *Node
	least := now / followGain
	for _, to := range d.leaseTargets() {
		if to.Slow || d.preference(to) > d.preference(at) {
			continue
		}
		if w, _ := d.ways(to); w < least {
			best, least = to, w
		}
	}
	if best == nil {
		return Action{}, false
	}
	return Action{Kind: TransferLease, Lease: best.Node, Follow: true,
		Reason: fmt.Sprintf("requests come from n%d or near it", best.Node)}, true
}

// near reports whether a lease may go to a node for the sake of evenness.
func (d *decision) near(to *Node) bool {
	least, loaded := d.ways(to)
	if !loaded {
		return true
	}
	mine := least
	for _, v := range d.voters {
		w, _ := d.ways(v)
		least = min(least, w)
	}
	return mine <= evenLoss*least
}
