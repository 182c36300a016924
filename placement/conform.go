package placement

import (
	"fmt"
	"slices"
	"strings"

	"meridian/kv"
)

// Violation is what a range lacks of its configuration.
type Violation struct {
	// Forbidden are nodes with a replica where a constraint forbids it (I8).
	Forbidden []kv.NodeID
	// Missing are the conjunctions that too few replicas satisfy.
	Missing []string
	// Voters and Replicas are how many are missing, or too many if negative.
	Voters, Replicas int
	// Changing says that the replicas are being changed: learners, or a joint configuration.
	Changing bool
	// Lease says that a voter satisfies an earlier lease preference than the leaseholder does.
	Lease bool
	// Protocol is the commit protocol that the range is to have and has not; nil: it has it.
	Protocol *kv.Protocol
}

// Constraints reports whether a constraint is violated, by a replica where none may be or by too few where some must be.
func (v *Violation) Constraints() bool { return len(v.Forbidden) > 0 || len(v.Missing) > 0 }

// Awaited reports whether something is violated that a statement waits for: a constraint, or the protocol.
func (v *Violation) Awaited() bool { return v.Constraints() || v.Protocol != nil }

// None reports whether the range is as its configuration wants it.
func (v *Violation) None() bool {
	return !v.Constraints() && v.Voters == 0 && v.Replicas == 0 && !v.Changing && !v.Lease && v.Protocol == nil
}

// String says what is violated, for people; empty: nothing.
func (v *Violation) String() string {
	var out []string
	for _, n := range v.Forbidden {
		out = append(out, fmt.Sprintf("no replica may be on n%d", n))
	}
	if len(v.Missing) > 0 {
		out = append(out, "too few replicas for "+strings.Join(v.Missing, ", "))
	}
	if v.Voters != 0 {
		out = append(out, fmt.Sprintf("%d voters are missing", v.Voters))
	}
	if v.Replicas != 0 {
		out = append(out, fmt.Sprintf("%d replicas are missing", v.Replicas))
	}
	if v.Lease {
		out = append(out, "the lease is not where it is preferred")
	}
	if v.Protocol != nil {
		out = append(out, "the commit protocol is not "+v.Protocol.String())
	}
	return strings.Join(out, "; ")
}

// Check compares a range with its configuration. A joint configuration is judged by all of its replicas as to where they may be, and by the later set as to their
// numbers. A replica on a node that was not heard of is taken to be where it should. leaseholder is 0 if it is not known.
func Check(z *Zone, d *kv.RangeDescriptor, leaseholder kv.NodeID, nodes []Node) (v Violation) {
	if z.Reprotocol(d) {
		v.Protocol = &z.Protocol
	}
	z = z.of(d)
	dec := &decision{z: z, r: &Range{Desc: d, Leaseholder: leaseholder}}
	find := func(id kv.NodeID) *Node {
		for i := range nodes {
			if nodes[i].Node == id {
				return &nodes[i]
			}
		}
		return &Node{Node: id, unknown: true}
	}
	var now set
	witnesses := 0
	for _, p := range d.Replicas {
		n := find(p.Node)
		v.Changing = v.Changing || p.Type == kv.Learner || p.Type.Joint()
		if p.Witness {
			if !n.unknown && z.ForbidsWitness(n) {
				v.Forbidden = append(v.Forbidden, p.Node)
			}
			if p.Type == kv.Voter || p.Type == kv.VoterIncoming {
				witnesses++
			}
			continue
		}
		if dec.forbidden(n, p.Type != kv.NonVoter && p.Type != kv.Learner) {
			v.Forbidden = append(v.Forbidden, p.Node)
		}
		switch p.Type {
		case kv.Voter, kv.VoterIncoming:
			now.voters = append(now.voters, n)
		case kv.NonVoter, kv.VoterDemoting:
			now.nonVoters = append(now.nonVoters, n)
		}
	}
	v.Missing = append(dec.lacking(z.Constraints, now.all(), "all"), dec.lacking(z.VoterConstraints, now.voters, "voters")...)
	v.Voters, v.Replicas = z.Voters()+z.Witnesses()-len(now.voters)-witnesses, z.NumReplicas-len(now.voters)-len(now.nonVoters)
	if i := slices.IndexFunc(now.voters, func(n *Node) bool { return n.Node == leaseholder }); i >= 0 && !now.voters[i].unknown {
		at := dec.preference(now.voters[i])
		v.Lease = slices.ContainsFunc(now.voters, func(n *Node) bool { return n.usable() && !n.Slow && !n.unknown && dec.preference(n) < at })
	}
	return v
}

// lacking are the conjunctions that too few of some replicas satisfy.
func (d *decision) lacking(cs []Conjunction, ns []*Node, of string) (out []string) {
	for i := range cs {
		have := 0
		for _, n := range ns {
			if n.unknown || cs[i].satisfied(n) {
				have++
			}
		}
		if have < cs[i].Replicas {
			out = append(out, fmt.Sprintf("%s of %s (%d of %d)", cs[i].String(), of, have, cs[i].Replicas))
		}
	}
	return out
}

// String is the conjunction as in CONFIGURE ZONE, without its number.
func (c *Conjunction) String() string {
	parts := make([]string, len(c.Constraints))
	for i, k := range c.Constraints {
		parts[i] = k.String()
	}
	return strings.Join(parts, ",")
}
