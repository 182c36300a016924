package placement

import (
	"slices"
	"time"

	"meridian/cluster"
	"meridian/commit/protocol"
	"meridian/kv"
)

// Zone is the configuration of a range.
type Zone struct {
	// NumReplicas is the number of replicas, NumVoters how many of them vote (zero: all).
	NumReplicas, NumVoters int
	// Constraints are for all replicas, VoterConstraints for voters in addition.
	Constraints, VoterConstraints []Conjunction
	// Witness is where a voter without data is to be, in addition to the others, if those are an even number; nil: nowhere. The numbers and constraints above
	// are about the others, but for those that forbid nodes.
	Witness *Conjunction
	// Confined says that every replica satisfies one of Constraints: what they have no number for may not be elsewhere either. It is so for
	// rows of a super region.
	Confined bool
	// LeasePreferences are tried in order; the lease goes to a voter that satisfies the first possible one.
	LeasePreferences []Conjunction
	// A range larger than RangeMaxBytes is split; neighbours that are together smaller than RangeMinBytes may be merged.
	RangeMaxBytes, RangeMinBytes int64
	// GCTTL is how long versions are kept after they are overwritten.
	GCTTL time.Duration
	// GlobalReads says that every replica is to serve present reads: the leaseholder closes timestamps ahead of the clock (CRDB'22 §6).
	GlobalReads bool
	// Protocol is the commit protocol that the range is to have.
	Protocol kv.Protocol
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

// Witnesses is the wanted number of voters without data: one that makes an even number of others odd.
func (z *Zone) Witnesses() int {
	if z.Witness != nil && z.Voters()%2 == 0 {
		return 1
	}
	return 0
}

// of is the configuration as it holds for a range: without a log there is no witness, and one of the voters is none.
func (z *Zone) of(d *kv.RangeDescriptor) *Zone {
	if z.Witnesses() == 0 || protocol.Of(d.Protocol).Witnesses.Can() && protocol.Of(z.Protocol).Witnesses.Can() {
		return z
	}
	c := *z
	c.NumVoters, c.Witness = z.Voters()-1, nil
	return &c
}

// Reprotocol reports whether a range is to get the configuration's protocol. One that is no part of the product was given to the range by hand, and
// stays as long as the configuration asks for none.
func (z *Zone) Reprotocol(d *kv.RangeDescriptor) bool {
	return d.Protocol != z.Protocol && (z.Protocol != protocol.Default || protocol.Of(d.Protocol).Optional)
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

// ForbidsRegion reports whether a conjunction for all replicas forbids all nodes of a region; of the node, only that is known.
func (c *Conjunction) ForbidsRegion(n *Node) bool {
	for _, k := range c.Constraints {
		if k.Key == "region" && !k.satisfied(n) {
			return true
		}
	}
	return false
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
	// Bytes that the store holds, Writes per second to all of its replicas, and Requests per second to ranges whose leases it has.
	Bytes            int64
	Writes, Requests float64

	witness bool // has the range's witness, and so can't have another replica
	unknown bool // a replica is there, and nothing was heard of the node
	index   int  // in decision.distances
}

// usable reports whether a node may be given a replica with data.
func (n *Node) usable() bool { return n.takes() && !n.witness }

// takes reports whether a node may be given a replica of some kind.
func (n *Node) takes() bool { return n.Live && !n.Dead && !n.Draining && !n.Decommissioning }

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

// Forbids reports whether a constraint forbids a replica on a node, and so whether placing one there would break I8. Conjunctions that are for some of
// the replicas forbid nothing, unless the zone is confined to them.
func (z *Zone) Forbids(n *Node, voter bool) bool {
	if forbids(z.Constraints, n) || voter && forbids(z.VoterConstraints, n) {
		return true
	}
	if len(z.Constraints) == 0 || !z.Confined && !exhaustive(z.Constraints, z.NumReplicas) {
		return false
	}
	for i := range z.Constraints {
		if z.Constraints[i].satisfied(n) {
			return false
		}
	}
	return true
}

// ForbidsWitness reports whether a witness on a node would break I8: its log has users' bytes, for a while. It may be where Witness says, unless constraints that are
// for all replicas, or for all voters, forbid that.
func (z *Zone) ForbidsWitness(n *Node) bool {
	if z.Witness == nil || !z.Witness.satisfied(n) || forbids(z.Constraints, n) || forbids(z.VoterConstraints, n) {
		return true
	}
	if !z.Confined || len(z.Constraints) == 0 {
		return false
	}
	return !slices.ContainsFunc(z.Constraints, func(c Conjunction) bool { return c.satisfied(n) })
}

// Bounded reports whether there can be nodes where no replica may be, voter or not.
func (z *Zone) Bounded() bool {
	if len(z.Constraints) > 0 && (z.Confined || exhaustive(z.Constraints, z.NumReplicas)) {
		return true
	}
	return slices.ContainsFunc(z.Constraints, func(c Conjunction) bool { return c.Replicas == 0 })
}

func forbids(cs []Conjunction, n *Node) bool {
	for i := range cs {
		if cs[i].Replicas == 0 && !cs[i].satisfied(n) {
			return true
		}
	}
	return false
}

// exhaustive reports whether conjunctions say where each of so many replicas is: each names another value of one tier, and their numbers add
// up. Others might hold for the same replica.
func exhaustive(cs []Conjunction, replicas int) bool {
	sum := 0
	for i := range cs {
		c := &cs[i]
		if c.Replicas == 0 || len(c.Constraints) != 1 || c.Constraints[0].Forbidden || c.Constraints[0].Key == "" || c.Constraints[0].Key != cs[0].Constraints[0].Key {
			return false
		}
		for j := range i {
			if cs[j].Constraints[0].Value == c.Constraints[0].Value {
				return false
			}
		}
		sum += c.Replicas
	}
	return sum >= replicas
}
