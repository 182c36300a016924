package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"meridian/cluster"
	"meridian/kv"
)

// TestLacks compares Lacks with all choices of nodes, for random small clusters and configurations.
func TestLacks(t *testing.T) {
	lacking := 0
	for seed := range uint64(4000) {
		dice := rand.New(rand.NewPCG(seed, 3))
		var nodes []Node
		for i := range 1 + dice.IntN(7) {
			n := Node{Node: kv.NodeID(i + 1), Live: dice.IntN(4) > 0, Locality: cluster.Locality{{Key: "region", Value: fmt.Sprint("r", dice.IntN(3))}, {Key: "zone", Value: fmt.Sprint("z", dice.IntN(3))}}}
			n.Decommissioning, n.Gone, n.Draining = dice.IntN(8) == 0, dice.IntN(8) == 0, dice.IntN(8) == 0
			nodes = append(nodes, n)
		}
		one := func() Constraint {
			c := Constraint{Key: "region", Value: fmt.Sprint("r", dice.IntN(3)), Forbidden: dice.IntN(4) == 0}
			if dice.IntN(4) == 0 {
				c.Key, c.Value = "zone", fmt.Sprint("z", dice.IntN(3))
			}
			return c
		}
		list := func() (out []Conjunction) {
			numbered := dice.IntN(2) == 0
			for range dice.IntN(3) {
				c := Conjunction{Constraints: []Constraint{one()}}
				if numbered {
					c.Replicas, c.Constraints[0].Forbidden = 1+dice.IntN(2), false
				}
				out = append(out, c)
			}
			return out
		}
		z := Zone{NumReplicas: 1 + dice.IntN(5), Constraints: list(), VoterConstraints: list()}
		z.NumVoters = 1 + dice.IntN(z.NumReplicas)
		present := dice.IntN(2) == 0
		want := satisfiable(&z, nodes, present)
		got := Lacks(&z, nodes, present)
		if (got == nil) != want {
			t.Fatalf("seed %d: %v, want satisfiable=%v: %+v\n%+v", seed, got, want, z, nodes)
		}
		if got != nil {
			lacking++
			if s := got.String(); s == "" || got.Constraint != "" && got.Wanted > 0 && got.Have >= got.Wanted {
				t.Fatalf("seed %d: %q", seed, s)
			}
		}
	}
	if lacking < 500 || lacking > 3500 {
		t.Errorf("%d of 4000 lack something", lacking)
	}
}

// satisfiable tries all choices of voters and others.
func satisfiable(z *Zone, nodes []Node, present bool) bool {
	var able []*Node
	for i := range nodes {
		if n := &nodes[i]; !n.Gone && !n.Decommissioning && (!present || n.Live && !n.Dead && !n.Draining) {
			able = append(able, n)
		}
	}
	roles := 1
	for range able {
		roles *= 3
	}
	for c := range roles {
		var voters, all []*Node
		for i, rest := 0, c; i < len(able); i, rest = i+1, rest/3 {
			switch rest % 3 {
			case 1:
				voters, all = append(voters, able[i]), append(all, able[i])
			case 2:
				all = append(all, able[i])
			}
		}
		if len(voters) == z.Voters() && len(all) == z.NumReplicas && met(z.Constraints, all) && met(z.VoterConstraints, voters) {
			return true
		}
	}
	return false
}

// met reports whether nodes satisfy conjunctions.
func met(cs []Conjunction, ns []*Node) bool {
	for i := range cs {
		have := 0
		for _, n := range ns {
			if cs[i].satisfied(n) {
				have++
			}
		}
		if have < cs[i].Replicas || cs[i].Replicas == 0 && have < len(ns) {
			return false
		}
	}
	return true
}
