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
	// Known says that the lease has been at its node for FollowAfter: until then From has too few requests, and the lease
	// stays.
	Known bool
}

// PerSecond is the number of requests in a second. A request counts for FollowMemory on average.
func (l *Load) PerSecond() (sum float64) {
	for _, n := range l.From {
		sum += n
	}
	return sum / FollowMemory.Seconds()
}

// Constants of leases that follow the workload.
const (
	// FollowAfter is how long a lease stays where it is at least, unless something is wrong there.
	FollowAfter = 5 * time.Second
	// FollowMemory is the age at which a request counts for 1/e.
	FollowMemory = 10 * time.Second
	// FollowMin is the least number of requests that counts as a load; fewer are no reason to move a lease or to keep it.
	FollowMin = 50
	// A lease is moved if the way of its range's requests becomes followGain times shorter; among nodes at equal
	// distances, if one of them sends more than 3/4. It is moved for balance if the way is no longer than evenLoss times
	// the shortest one: less than followGain, or leases would move back and forth.
	followGain = 3
	evenLoss   = 1.5
)

// wayWithin is the way between two nodes that differ in no tier, relative to that between regions.
const wayWithin = 0.02

// way is how far a request travels from one node to another. Round trips between regions are some hundred times those
// between zones, so the way is not proportional to the distance.
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

// resting says that the lease has come here only recently.
func (d *decision) resting() bool { return d.r.Load != nil && !d.r.Load.Known }

// followLoad moves the lease to where nearly all requests come from. Balance does not count: a request costs its
// gateway less if that node serves it than if it sends it away and reads the answer. A slow disk does not get it, unless it leaves one: where
// all nodes are overloaded the gateway is no worse than the others.
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
		if to.Slow && !at.Slow || d.preference(to) > d.preference(at) {
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

// near reports whether a lease may go to a node for balance.
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
