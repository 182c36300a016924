package placement

import (
	"cmp"
	"slices"

	"meridian/kv"
)

// witness is where the range's voter without data is to be (placement.P5); nobody: there is to be none, or there is no place for it.
func (d *decision) witness() []*Node {
	if d.z.Witnesses() == 0 {
		return nil
	}
	var kept, best *Node
	for _, n := range d.witnesses {
		if n.unknown || !d.z.ForbidsWitness(n) {
			kept = n
		}
	}
	if kept != nil && !kept.Dead && !kept.Decommissioning {
		return []*Node{kept}
	}
	for _, n := range d.all {
		held := slices.ContainsFunc(d.r.Desc.Replicas, func(p kv.ReplicaDescriptor) bool { return p.Node == n.Node && p.Type != kv.Learner })
		if !n.takes() || held || d.z.ForbidsWitness(n) {
			continue
		}
		if best == nil || cmp.Or(-boolCompare(n.Slow, best.Slow), d.compareFill(n, best)) < 0 {
			best = n
		}
	}
	switch {
	case best != nil:
		return []*Node{best}
	case kept != nil:
		return []*Node{kept}
	}
	return nil
}

// witnessOf is the witness of a range that gets some voters.
func (d *decision) witnessOf(voters []*Node) []*Node {
	to := d.witness()
	if len(to) > 0 && len(d.witnesses) == 0 && len(voters)%2 != 0 {
		return nil // placement.P5
	}
	return to
}

// repairWitness gives the range its witness, or takes it away, when the other replicas are as they should be, or as they can be.
func (d *decision) repairWitness() (Action, bool) {
	had, to := d.witnesses, d.witnessOf(d.voters)
	if sameNodes(had, to) {
		return Action{}, false
	}
	d.witnesses = to
	switch {
	case len(to) == 0:
		return d.change("no witness on %s", names(had)), true
	case len(had) == 0:
		return d.change("a witness on %s", names(to)), true
	}
	return d.change("a witness on %s instead of %s", names(to), names(had)), true
}
