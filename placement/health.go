package placement

import "meridian/kv"

// Health is how well a range is replicated at this moment.
type Health struct {
	// Wanted is how many voters there should be, Voters how many the range has, and Live how many of these are on live nodes.
	Wanted, Voters, Live int
	// Unavailable: no majority of the voters is live, so that nothing can be committed.
	Unavailable bool
}

// UnderReplicated reports whether the range survives fewer losses than it should.
func (h *Health) UnderReplicated() bool { return h.Live < h.Wanted }

// Wanted is how many voters a range of a zone should have in a cluster of so many nodes. Dead nodes count, decommissioned ones do not. It is the number that the zone asks for,
// its witness included. While there are fewer nodes, it is the largest odd number of them.
func Wanted(z *Zone, nodes int) int {
	want := z.Voters() + z.Witnesses()
	if nodes < want {
		want = nodes
		if want%2 == 0 {
			want--
		}
	}
	return max(1, want)
}

// Assess judges the replication of a range of a zone: by the voters on live nodes, not only by their number. nodes is as for
// Wanted.
func Assess(z *Zone, d *kv.RangeDescriptor, nodes int, live func(kv.NodeID) bool) Health {
	z = z.of(d)
	h := Health{Wanted: Wanted(z, nodes)}
	var before, liveBefore int
	for _, p := range d.Replicas {
		up := 0
		if live(p.Node) {
			up = 1
		}
		if p.Type == kv.Voter || p.Type == kv.VoterIncoming {
			h.Voters, h.Live = h.Voters+1, h.Live+up
		}
		if p.Type == kv.Voter || p.Type == kv.VoterOutgoing || p.Type == kv.VoterDemoting {
			before, liveBefore = before+1, liveBefore+up
		}
	}
	h.Wanted = max(h.Wanted, min(h.Voters, z.Voters()+z.Witnesses()))
	h.Unavailable = h.Live <= h.Voters/2 || before > 0 && liveBefore <= before/2
	return h
}
