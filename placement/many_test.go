package placement

import (
	"fmt"
	"testing"

	"meridian/cluster"
	"meridian/kv"
)

// manyRegions is three nodes in each of some regions, and the zone of a GLOBAL table there: three voters in the first region and a replica in each other one.
func manyRegions(regions int) ([]Node, *Zone) {
	var nodes []Node
	in := func(r int) []Constraint { return []Constraint{{Key: "region", Value: fmt.Sprint(r)}} }
	z := &Zone{NumReplicas: regions + 2, NumVoters: 3, VoterConstraints: []Conjunction{{Replicas: 3, Constraints: in(0)}}}
	for r := range regions {
		for zone := range 3 {
			nodes = append(nodes, Node{Node: kv.NodeID(len(nodes) + 1), Live: true, Ranges: (r*7 + zone*3) % 20, Locality: cluster.Locality{
				{Key: "region", Value: fmt.Sprint(r)}, {Key: "zone", Value: fmt.Sprint(r, zone)}}})
		}
		z.Constraints = append(z.Constraints, Conjunction{Replicas: 1, Constraints: in(r)})
	}
	return nodes, z
}

// searchAmong is the search for the replicas of a range that has one, on the first node.
func searchAmong(nodes []Node, z *Zone, r *Range) *search {
	d := &decision{z: z, r: r, byID: map[kv.NodeID]*Node{}}
	for i := range nodes {
		d.byID[nodes[i].Node] = &nodes[i]
		d.all = append(d.all, &nodes[i])
	}
	d.voters = d.all[:1]
	return d.classify(nil)
}

// TestReplicasInManyRegions: how many assignments a decision looks at grows with the number of regions, and not as their combinations do: stores decide
// about each of their ranges again and again.
func TestReplicasInManyRegions(t *testing.T) {
	for _, regions := range []int{3, 10, 26, 30} {
		nodes, z := manyRegions(regions)
		r := &Range{Desc: &kv.RangeDescriptor{ID: 1, NextReplica: 2, Replicas: []kv.ReplicaDescriptor{{Node: 1, Replica: 1}}}, Leaseholder: 1}
		s := searchAmong(nodes, z, r)
		if cost, ok := s.run(3, regions-1); !ok || cost != (regions+1)*costShip {
			t.Errorf("%d regions: %v, cost %d", regions, ok, cost)
		}
		if most := 20 * regions; s.steps > most {
			t.Errorf("%d regions: %d steps, want at most %d", regions, s.steps, most)
		}
		steps := 0
		for ; steps < 4*regions; steps++ {
			a := Decide(z, r, nodes)
			if a.Kind == None {
				break
			}
			apply(r, nodes, a)
		}
		if got := len(r.Desc.Replicas); got != regions+2 {
			t.Errorf("%d regions: %d replicas after %d steps", regions, got, steps)
		}
	}
}

// TestVotersThatHaveNoPlace: a search ends soon also if there are too few nodes for voters, as while one node of a region restarts to which voters are confined.
func TestVotersThatHaveNoPlace(t *testing.T) {
	for _, regions := range []int{3, 10, 26} {
		nodes, z := manyRegions(regions)
		z.VoterConstraints[0].Replicas = 0 // all voters
		nodes[2].Live = false
		r := &Range{Desc: &kv.RangeDescriptor{ID: 1, NextReplica: 2, Replicas: []kv.ReplicaDescriptor{{Node: 1, Replica: 1}}}, Leaseholder: 1}
		s := searchAmong(nodes, z, r)
		if _, ok := s.run(3, regions-1); ok || s.steps > 20*regions {
			t.Errorf("%d regions, three voters for two nodes: %v after %d steps", regions, ok, s.steps)
		}
		if _, ok := s.run(2, regions-1); !ok || s.steps > 20*regions {
			t.Errorf("%d regions, two voters for two nodes: %v after %d steps", regions, ok, s.steps)
		}
	}
}
