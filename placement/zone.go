package placement

import (
	"slices"
	"time"

	"meridian/cluster"
	"meridian/kv"
)

// Zone is the configuration of a range.
type Zone struct {
	// NumReplicas is the number of replicas, NumVoters how many of them vote (zero: all).
	NumReplicas, NumVoters int
	// Constraints are for all replicas, VoterConstraints for voters in addition.
	Constraints, VoterConstraints []Conjunction
	// LeasePreferences are tried in order; the lease goes to a voter that satisfies the first possible one.
	LeasePreferences []Conjunction
	// A range larger than RangeMaxBytes is split; neighbours that are together smaller than RangeMinBytes may be merged.
	RangeMaxBytes, RangeMinBytes int64
	// GCTTL is how long versions are kept after they are overwritten.
	GCTTL time.Duration
	// GlobalReads says that every replica is to serve present reads: the leaseholder closes timestamps ahead of the clock (CRDB'22 §6).
	GlobalReads bool
}

// DefaultZone is the default configuration: three replicas, 512 MiB (docs/decisions/0006-range-size.md; CRDB'20 §2.1.2
// still had 64).
func DefaultZone() Zone {
	return Zone{NumReplicas: 3, RangeMaxBytes: 512 << 20, RangeMinBytes: 128 << 20, GCTTL: 4 * time.Hour}
}

// Voters is the wanted number of voters.
func (z *Zone) Voters() int {
	if z.NumVoters > 0 && z.NumVoters <= z.NumReplicas {
		return z.NumVoters
	}
	return z.NumReplicas
}

// Constraint requires or forbids a tier of the locality or, if Key is empty, an attribute of the node or store.
type Constraint struct {
	Forbidden bool   `json:",omitempty"`
	Key       string `json:",omitempty"`
	Value     string
}

func (c Constraint) satisfied(n *Node) bool {
	if c.Key == "" {
		return slices.Contains(n.Attributes, c.Value) != c.Forbidden
	}
	v, ok := n.Locality.Find(c.Key)
	return (ok && v == c.Value) != c.Forbidden
}

func (c Constraint) String() string {
	sign := "+"
	if c.Forbidden {
		sign = "-"
	}
	if c.Key == "" {
		return sign + c.Value
	}
	return sign + c.Key + "=" + c.Value
}

// Conjunction is constraints that hold together, for Replicas of the replicas (zero: for all).
type Conjunction struct {
	Replicas    int `json:",omitempty"`
	Constraints []Constraint
}

func (c *Conjunction) satisfied(n *Node) bool {
	for _, k := range c.Constraints {
		if !k.satisfied(n) {
			return false
		}
	}
	return true
}

// Node is a store that may hold replicas.
type Node struct {
	Node     kv.NodeID
	Store    kv.StoreID
	Locality cluster.Locality
	// Attributes are words that the operator gave the node and its store, such as ssd.
	Attributes []string
	// Live nodes answer. Dead ones have not answered for so long that their replicas are to be replaced.
	Live, Dead bool
	// Draining nodes take no leases, Decommissioning ones no replicas either and are to lose theirs.
	Draining, Decommissioning bool
	// Gone nodes were decommissioned: they never come back, and count for nothing.
	Gone bool
	// Slow nodes have had writes wait long for their disk lately: a lease is not moved there to make things better.
	Slow           bool
	Ranges, Leases int
}

// usable reports whether a node may be given a replica.
func (n *Node) usable() bool { return n.Live && !n.Dead && !n.Draining && !n.Decommissioning }

// distance is how far two localities are apart: 1 if they differ in the first tier, 0 if in none.
func distance(a, b cluster.Locality) float64 {
	n := max(len(a), len(b))
	for i := range n {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return float64(n-i) / float64(n)
		}
	}
	return 0
}

// Diversity is the mean distance of a set's pairs.
func Diversity(ns []*Node) float64 {
	sum, pairs := 0.0, 0
	for i := range ns {
		for j := range i {
			sum += distance(ns[i].Locality, ns[j].Locality)
			pairs++
		}
	}
	if pairs == 0 {
		return 1
	}
	return sum / float64(pairs)
}

// deficit is how many further replicas the conjunctions need, at least; forbidden reports that one over all
// replicas is violated.
func deficit(cs []Conjunction, ns []*Node) (missing int, forbidden bool) {
	for i := range cs {
		have := 0
		for _, n := range ns {
			if cs[i].satisfied(n) {
				have++
			}
		}
		if cs[i].Replicas == 0 {
			forbidden = forbidden || have < len(ns)
		} else {
			missing += max(0, cs[i].Replicas-have)
		}
	}
	return missing, forbidden
}

// allowed is placement.P1 for a node that joins others in a set that is to grow to size. If the others alone can't be
// completed to satisfy all conjunctions, the node must not make it worse.
func allowed(cs []Conjunction, others []*Node, n *Node, size int) bool {
	for i := range cs {
		if cs[i].Replicas == 0 && !cs[i].satisfied(n) {
			return false
		}
	}
	before, _ := deficit(cs, others)
	after, _ := deficit(cs, append(slices.Clone(others), n))
	return after <= max(0, size-len(others)-1) || after < before || before > max(0, size-len(others))
}
