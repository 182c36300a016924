package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"meridian/cluster"
	"meridian/kv"
)

// randomZone makes a configuration over so many regions: numbers, required and forbidden regions and attributes, for all replicas and for voters.
func randomZone(rng *rand.Rand, regions int) Zone {
	z := DefaultZone()
	z.NumVoters = []int{1, 3, 3, 3, 5}[rng.IntN(5)]
	z.NumReplicas = z.NumVoters + rng.IntN(4)
	region := func() Constraint { return Constraint{Key: "region", Value: fmt.Sprint(rng.IntN(regions))} }
	some := func(most int) (out []Conjunction) {
		for left := most; left > 0 && rng.IntN(3) > 0; {
			c := Conjunction{Replicas: 1 + rng.IntN(min(left, 2)), Constraints: []Constraint{region()}}
			switch rng.IntN(6) {
			case 0:
				c.Constraints = append(c.Constraints, Constraint{Value: "ssd"})
			case 1:
				c.Constraints = []Constraint{{Value: "ssd"}}
			case 2:
				c.Constraints[0].Forbidden = true
			}
			left -= c.Replicas
			out = append(out, c)
		}
		return out
	}
	if rng.IntN(4) > 0 {
		z.Constraints = some(z.NumReplicas)
		z.Confined = rng.IntN(8) == 0
	}
	if rng.IntN(2) > 0 {
		z.VoterConstraints = some(z.NumVoters)
	}
	switch rng.IntN(8) {
	case 0:
		z.Constraints = append(z.Constraints, Conjunction{Constraints: []Constraint{{Forbidden: true, Key: "region", Value: "0"}}})
	case 1:
		z.VoterConstraints = append(z.VoterConstraints, Conjunction{Constraints: []Constraint{region()}})
	case 2:
		z.VoterConstraints = append(z.VoterConstraints, Conjunction{Constraints: []Constraint{{Forbidden: true, Value: "ssd"}}})
	}
	return z
}

// holds is a plain check of an assignment; without counts only the constraints over all replicas.
func holds(z *Zone, voters, nonVoters []*Node, counts bool) bool {
	for _, v := range voters {
		if z.Forbids(v, true) {
			return false
		}
	}
	for _, n := range nonVoters {
		if z.Forbids(n, false) {
			return false
		}
	}
	if !counts {
		return true
	}
	enough := func(cs []Conjunction, ns []*Node) bool {
		for _, c := range cs {
			have := 0
			for _, n := range ns {
				if c.satisfied(n) {
					have++
				}
			}
			if have < c.Replicas {
				return false
			}
		}
		return true
	}
	return enough(z.Constraints, slices.Concat(voters, nonVoters)) && enough(z.VoterConstraints, voters)
}

// possible asks of all assignments whether one satisfies the zone, and whether one does in which no region has a majority of the voters.
func possible(z *Zone, mayVote, mayHold []*Node) (satisfied, survives bool) {
	var voters, nonVoters []*Node
	var try func(i int)
	try = func(i int) {
		if survives || len(voters) > z.Voters() || len(nonVoters) > z.NumReplicas-z.Voters() {
			return
		}
		if i == len(mayHold) {
			if len(voters) == z.Voters() && len(voters)+len(nonVoters) == z.NumReplicas && holds(z, voters, nonVoters, true) {
				satisfied, survives = true, !majority(voters)
			}
			return
		}
		n := mayHold[i]
		if slices.Contains(mayVote, n) {
			voters = append(voters, n)
			try(i + 1)
			voters = voters[:len(voters)-1]
		}
		nonVoters = append(nonVoters, n)
		try(i + 1)
		nonVoters = nonVoters[:len(nonVoters)-1]
		try(i + 1)
	}
	try(0)
	return satisfied, survives
}

// majority reports whether one region has a majority of voters.
func majority(voters []*Node) bool {
	in := map[string]int{}
	for _, v := range voters {
		in[v.Locality.Region()]++
	}
	for _, n := range in {
		if n > len(voters)/2 {
			return true
		}
	}
	return false
}

// onlyRegions reports whether all constraints require regions. Then exchanges of single voters find a place without a majority in one region; attributes may need
// two exchanges at once, the first of which is no gain.
func onlyRegions(z *Zone) bool {
	for _, c := range slices.Concat(z.Constraints, z.VoterConstraints) {
		for _, k := range c.Constraints {
			if k.Key != "region" || k.Forbidden {
				return false
			}
		}
	}
	return true
}

// TestModel: whatever the zone and wherever a range is, steps end where all constraints are satisfied, if any assignment satisfies them; there no region
// has a majority of the voters, if that can be avoided. On the way no replica is placed where one is forbidden (placement.P1).
func TestModel(t *testing.T) {
	seeds := 6000
	if testing.Short() {
		seeds = 1000
	}
	satisfiable, surviving := 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		regions := 1 + rng.IntN(5)
		var nodes []Node
		for i := range 1 + rng.IntN(9) {
			n := Node{Node: kv.NodeID(i + 1), Live: true, Ranges: rng.IntN(20), Leases: rng.IntN(10), Locality: cluster.Locality{
				{Key: "region", Value: fmt.Sprint(rng.IntN(regions))}, {Key: "zone", Value: fmt.Sprint(rng.IntN(3))}}}
			if rng.IntN(3) == 0 {
				n.Attributes = []string{"ssd"}
			}
			switch rng.IntN(20) {
			case 0:
				n.Live, n.Dead = false, true
			case 1:
				n.Decommissioning = true
			case 2:
				n.Draining = true
			}
			nodes = append(nodes, n)
		}
		z := randomZone(rng, regions)
		r := Range{Desc: &kv.RangeDescriptor{ID: 1, NextReplica: 1}}
		for _, i := range rng.Perm(len(nodes))[:1+rng.IntN(min(len(nodes), 6))] {
			p := kv.ReplicaDescriptor{Node: nodes[i].Node, Replica: r.Desc.NextReplica}
			if len(r.Desc.Replicas) > 0 && rng.IntN(3) == 0 {
				p.Type = kv.NonVoter
			}
			r.Desc.Replicas = append(r.Desc.Replicas, p)
			r.Desc.NextReplica++
		}
		r.Leaseholder = r.Desc.Replicas[0].Node
		live := func(id kv.NodeID) bool { return nodes[id-1].Live }
		if h := Assess(&z, r.Desc, len(nodes), live); h.Unavailable || !live(r.Leaseholder) || len(nodes) < z.Voters() {
			continue
		}
		present := func() (voters, nonVoters []*Node) {
			for _, p := range r.Desc.Replicas {
				if p.Type == kv.NonVoter {
					nonVoters = append(nonVoters, &nodes[p.Node-1])
				} else {
					voters = append(voters, &nodes[p.Node-1])
				}
			}
			return voters, nonVoters
		}
		var mayVote, mayHold []*Node
		for i := range nodes {
			n := &nodes[i]
			p, held := r.Desc.Replica(n.Node)
			if n.usable() || held && !n.Dead && !n.Decommissioning {
				if mayHold = append(mayHold, n); n.usable() || p.Type == kv.Voter && (z.Voters() > 1 || n.Node == r.Leaseholder) {
					mayVote = append(mayVote, n)
				}
			}
		}
		satisfied, survives := possible(&z, mayVote, mayHold)
		start := fmt.Sprintf("%+v of n%d %+v\n%+v", r.Desc.Replicas, r.Leaseholder, z, nodes)
		var trace string
		for step := 0; ; step++ {
			if step > 40 {
				t.Fatalf("seed %d: no end\n%s\n%s", seed, start, trace)
			}
			a := Decide(&z, &r, nodes)
			if a.Kind == None {
				break
			}
			trace += a.describe()
			for _, x := range a.Targets {
				n := &nodes[x.Node-1]
				had, held := r.Desc.Replica(x.Node)
				if fresh := !held || had.Type != x.Type && x.Type == kv.Voter; fresh && z.Forbids(n, x.Type == kv.Voter) || !held && !n.usable() {
					t.Fatalf("seed %d: n%d may have none (placement.P1)\n%s\n%s", seed, x.Node, start, trace)
				}
			}
			apply(&r, nodes, a)
		}
		voters, nonVoters := present()
		if !satisfied {
			continue
		}
		satisfiable++
		if !holds(&z, voters, nonVoters, true) || len(voters) != z.Voters() || len(voters)+len(nonVoters) != z.NumReplicas {
			t.Fatalf("seed %d: constraints that can be satisfied are not\n%s\n%s%+v", seed, start, trace, r.Desc.Replicas)
		}
		if survives && onlyRegions(&z) {
			if surviving++; majority(voters) {
				t.Fatalf("seed %d: one region has a majority\n%s\n%s%+v", seed, start, trace, r.Desc.Replicas)
			}
		}
	}
	if satisfiable < seeds/8 || surviving < seeds/50 {
		t.Errorf("only %d of %d zones can be satisfied, %d so that a region may be lost", satisfiable, seeds, surviving)
	}
}
