package placement

import (
	"fmt"

	"meridian/commit/protocol"
	"meridian/kv"
)

// Shortage is why no choice of nodes satisfies a configuration.
type Shortage struct {
	// Constraint is the conjunction, or the conjunctions together, for which there are too few nodes; empty: there are too few nodes altogether.
	Constraint string
	// Voters says that it is about voters.
	Voters bool
	// Wanted is how many nodes are needed, Have how many there are. If no single conjunction is to blame, Wanted is zero, and Have counts all nodes.
	Wanted, Have int
}

// String says it for people.
func (s *Shortage) String() string {
	of := "replica"
	if s.Voters {
		of = "voter"
	}
	wanted, nodes := number(s.Wanted, of)+" wanted", number(s.Have, "node")
	switch {
	case s.Constraint == "":
		return wanted + ", each on a node of its own, in a cluster of " + nodes
	case s.Wanted == 0:
		return fmt.Sprintf("each of the constraints %s can be satisfied, and no choice among %s satisfies all of them", s.Constraint, nodes)
	}
	return fmt.Sprintf("%s for constraint %s, which is satisfied by %s", wanted, s.Constraint, nodes)
}

func number(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Lacks finds the shortage of a configuration among some nodes; nil: some choice of them satisfies it. Nodes that are gone or leave do not count, and unless
// present is set, nodes that are down count as if they were not: they may come back.
func Lacks(z *Zone, nodes []Node, present bool) *Shortage {
	c := *z
	c.Protocol = protocol.Default
	d := &decision{z: &c, r: &Range{Desc: &kv.RangeDescriptor{}}, byID: map[kv.NodeID]*Node{}}
	for _, n := range nodes {
		if n.Gone || n.Decommissioning || present && !n.takes() {
			continue
		}
		n.Live, n.Dead, n.Draining, n.witness = true, false, false, false
		d.all = append(d.all, &n)
	}
	voters := c.Voters()
	if len(d.all) < max(c.NumReplicas, voters) {
		return &Shortage{Wanted: max(c.NumReplicas, voters), Have: len(d.all)}
	}
	for _, side := range []struct {
		list   []Conjunction
		voters bool
		most   int
	}{{c.Constraints, false, c.NumReplicas}, {c.VoterConstraints, true, voters}} {
		for i := range side.list {
			k := &side.list[i]
			s := Shortage{Constraint: k.String(), Voters: side.voters, Wanted: k.Replicas}
			if k.Replicas == 0 {
				s.Wanted = side.most
			}
			for _, n := range d.all {
				if k.satisfied(n) && (k.Replicas == 0 || !c.Forbids(n, side.voters)) {
					s.Have++
				}
			}
			if s.Have < s.Wanted {
				return &s
			}
		}
	}
	s := d.classify(nil)
	if cost, ok := s.run(voters, c.NumReplicas-voters); ok && cost < costMissing {
		return nil
	}
	together := &Shortage{Have: len(d.all)}
	for _, l := range [][]Conjunction{c.Constraints, c.VoterConstraints} {
		for i := range l {
			if together.Constraint != "" {
				together.Constraint += " and "
			}
			together.Constraint += l[i].String()
		}
	}
	return together
}
